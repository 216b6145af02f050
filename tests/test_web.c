/* examples/web: the lander's physics, and the engine of the playground, without a browser (web.sh has one). */
#include "../ppo.h"

#include "test.h"

#include "../examples/web/control.h"
#include "../examples/web/words.h"

/* -- the lander -- */

static lander *lander_at(float x, float y, float angle) {
    static lander s;
    memset(&s, 0, sizeof s);
    for (int k = 0; k < lander_points; k++) s.ground[k] = lander_pad;
    s.x = x, s.y = y, s.angle = angle;
    return &s;
}

static ppo_outcome lander_do(lander *s, int what, float *obs) {
    ppo_outcome out;
    ppo_action action;
    ppo_rng rng = test_rng(0);
    memset(&out, 0, sizeof out);
    memset(&action, 0, sizeof action);
    action.discrete = what;
    lander_step(s, &rng, &action, obs, &out);
    return out;
}

static void lander_falls_as_a_stone_does(void **state) {
    (void)state;
    float obs[8];
    lander *s = lander_at(10, 13, 0);
    for (int t = 0; t < 25; t++) lander_do(s, 0, obs);
    assert_close(s->vy, -10 * 0.5, 1e-4);
    assert_close(s->y, 13 - 0.5 * 10 * 0.5 * 0.5, 0.01);
    assert_close(s->angle, 0, 0);
}

static void main_engine_lifts_along_the_craft(void **state) {
    (void)state;
    float obs[8];
    lander *s = lander_at(10, 10, 0.5f);
    lander_do(s, 2, obs);
    assert_close(s->vx, -17.5 * sin(0.5) / 50, 1e-4);
    assert_close(s->vy, (17.5 * cos(0.5) - 10) / 50, 1e-4);
}

static void side_engines_push_away_and_turn(void **state) {
    (void)state;
    float obs[8];
    lander *s = lander_at(10, 10, 0);
    lander_do(s, 1, obs);
    assert_true(s->vx > 0 && s->spin < 0);
    s = lander_at(10, 10, 0);
    lander_do(s, 3, obs);
    assert_true(s->vx < 0 && s->spin > 0);
}

static void lander_rests_on_its_feet_and_is_paid(void **state) {
    (void)state;
    float obs[8];
    lander *s = lander_at(10, lander_pad + 0.62f, 0);
    ppo_outcome out = lander_do(s, 0, obs);
    for (int t = 0; t < 200 && !out.terminated; t++) out = lander_do(s, 0, obs);
    assert_true(out.terminated && out.reward == 100);
    assert_true(obs[6] == 1 && obs[7] == 1);
    assert_close(obs[1], 0, 0.01);
}

static void lander_that_tips_over_is_lost(void **state) {
    (void)state;
    float obs[8];
    lander *s = lander_at(10, lander_pad + 2, 1.8f);
    ppo_outcome out = lander_do(s, 0, obs);
    for (int t = 0; t < 200 && !out.terminated; t++) out = lander_do(s, 0, obs);
    assert_true(out.terminated && out.reward == -100);
}

static void lander_that_hits_hard_is_lost(void **state) {
    (void)state;
    float obs[8];
    lander *s = lander_at(10, lander_pad + 8, 0);
    ppo_outcome out = lander_do(s, 0, obs);
    for (int t = 0; t < 200 && !out.terminated; t++) out = lander_do(s, 0, obs);
    assert_true(out.terminated && out.reward == -100);
}

static void lander_has_no_findings(void **state) {
    (void)state;
    ppo_env env = lander_env();
    ppo_inspection report;
    assert_ok(ppo_env_check(&env, 5000, 1, &report));
    assert_int_equal(report.findings, 0);
}

/* -- the first tab -- */

static void every_task_trains_in_slices(void **state) {
    (void)state;
    for (int task = 0; task < 3; task++) {
        assert_ok(control_start(task, 1, ""));
        assert_ok(control_fill());
        assert_nan(control.frame.mean_return[0]);
        while (control.iteration < 2) assert_ok(control_run(5));
        assert_ok(control_show());
        assert_ok(control_fill());
        assert_int_equal(control.learned % (control.config.num_envs * control.config.rollout_steps), 0);
        assert_true(control.frame.episodes[0] == 0 || isfinite(control.frame.mean_return[0]));
        for (int k = 0; k < CONTROL_SAMPLES; k++)
            assert_true(control.frame.ratio[k] > 0 && isfinite(control.frame.value[k]));
    }
}

static void ratios_are_1_until_the_first_gradient_step(void **state) {
    (void)state;
    assert_ok(control_start(0, 1, ""));
    assert_ok(control_gradient_step());
    assert_int_equal(control.agent->model.params->step, 1);
    assert_ok(control_fill());
    int moved = 0;
    for (int k = 0; k < CONTROL_SAMPLES; k++) moved += control.frame.ratio[k] != 1;
    assert_true(moved > CONTROL_SAMPLES / 2);
    assert_true(control.frame.now_kl[0] > 0);
    assert_ok(control_start(0, 1, "learning_rate=0"));
    assert_ok(control_gradient_step());
    assert_ok(control_fill());
    for (int k = 0; k < CONTROL_SAMPLES; k++) assert_close(control.frame.ratio[k], 1, 1e-6);
    assert_close(control.frame.now_clip_fraction[0], 0, 0);
}

static void settings_count_from_the_next_iteration(void **state) {
    (void)state;
    assert_ok(control_start(0, 1, ""));
    assert_ok(control_gradient_step());
    assert_ok(control_set("epochs=1"));
    while (control.iteration < 1) assert_ok(control_gradient_step());
    int64_t step = control.agent->model.params->step, age = control.source[0].age;
    assert_int_equal(step, 4 * 4); /* 1024 samples in minibatches of 256, four epochs as before */
    assert_true(age > 0);          /* the episode goes on */
    while (control.iteration < 2) assert_ok(control_gradient_step());
    assert_int_equal(control.agent->model.params->step - step, 4);
    assert_fails(control_set("epochs=0"), PPO_ERROR_ARGUMENT, "epochs");
}

static void same_seed_gives_the_same_training(void **state) {
    (void)state;
    float value[2];
    for (int run = 0; run < 2; run++) {
        assert_ok(control_start(0, 7, ""));
        for (int k = 0; k < 40; k++) assert_ok(control_gradient_step());
        assert_ok(control_fill());
        value[run] = control.frame.value[5];
    }
    assert_true(value[0] == value[1]);
}

static void cartpole_is_learned(void **state) {
    (void)state;
    if (SMALL(1, 0) == 0) return;
    assert_ok(control_start(0, 1, ""));
    while (control.steps < 200000 && !(control.frame.mean_return[0] >= 475)) {
        for (int k = 0; k < 64; k++) assert_ok(control_gradient_step());
        assert_ok(control_fill());
    }
    assert_true(control.frame.mean_return[0] >= 475);
}

static int stop_control(void **state) {
    (void)state;
    ppo_trainer_free(control.trainer);
    ppo_agent_free(control.agent);
    ppo_tape_free(control.tape);
    memset(&control, 0, sizeof control);
    return 0;
}

/* -- the second tab -- */

static void rewards_are_of_letters(void **state) {
    (void)state;
    const float want[4] = {0.5f, 0.5f, 4.0f / 11, 0.5f};
    for (words.wish = 0; words.wish < 4; words.wish++)
        assert_close(words_reward("boon", 4), want[words.wish], 1e-6);
    for (words.wish = 0; words.wish < 4; words.wish++) assert_true(words_reward("", 0) == 0);
    words.wish = 3;
    assert_true(words_reward("ooooo", 5) == 1);
}

static void model_reads_and_is_rewarded(void **state) {
    (void)state;
    float first = 0;
    assert_ok(words_start(1));
    words.wish = 1;
    assert_ok(words_set("kl_coef=0 learning_rate=2e-3"));
    for (int k = 0; k < SMALL(WORDS_READING, WORDS_READING / 4); k++) assert_ok(words_advance());
    assert_true(words.frame.loss[0] < SMALL(2.0, 2.9));
    words.step = WORDS_READING;
    for (int k = 0; k < SMALL(12, 3); k++) {
        assert_ok(words_advance());
        if (k == 0) first = words.frame.reward[0];
        if (k == 0) assert_close(words.frame.kl[0], 0, 1e-3);
    }
    assert_true(words.frame.reward[0] > first + SMALL(0.2, -1));
    assert_true(words.frame.kl[0] > 0);
}

/* What the page shows is what PPO learns from: a mean of 0, and a letter's KL from the two models. */
static void letters_are_explained(void **state) {
    (void)state;
    int given = 0, seen = 0;
    for (int s = 0; s < WORDS_SHOWN; s++)
        for (int k = 0; k < WORDS_LETTERS; k++) {
            int at = s * WORDS_LETTERS + k, letter = (int)words.frame.letter[at];
            assert_true(letter == 0 || letter == '.' || (letter >= 'a' && letter <= 'z'));
            given += k == 0 && letter > 0 && words.frame.advantage[at] == 0 && words.frame.log_ratio[at] == 0;
            seen += k > 0 && letter > 0 && words.frame.advantage[at] != 0;
        }
    assert_int_equal(given, WORDS_SHOWN);
    assert_true(seen > WORDS_SHOWN);
}

static int stop_words(void **state) {
    (void)state;
    words_stop();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lander_falls_as_a_stone_does),
        cmocka_unit_test(main_engine_lifts_along_the_craft),
        cmocka_unit_test(side_engines_push_away_and_turn),
        cmocka_unit_test(lander_rests_on_its_feet_and_is_paid),
        cmocka_unit_test(lander_that_tips_over_is_lost),
        cmocka_unit_test(lander_that_hits_hard_is_lost),
        cmocka_unit_test(lander_has_no_findings),
        cmocka_unit_test_teardown(every_task_trains_in_slices, stop_control),
        cmocka_unit_test_teardown(ratios_are_1_until_the_first_gradient_step, stop_control),
        cmocka_unit_test_teardown(settings_count_from_the_next_iteration, stop_control),
        cmocka_unit_test_teardown(same_seed_gives_the_same_training, stop_control),
        cmocka_unit_test_teardown(cartpole_is_learned, stop_control),
        cmocka_unit_test(rewards_are_of_letters),
        cmocka_unit_test(model_reads_and_is_rewarded),
        cmocka_unit_test_teardown(letters_are_explained, stop_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
