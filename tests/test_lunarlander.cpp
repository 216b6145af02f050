/* examples/envs/lunarlander.hpp: recorded episodes of Gymnasium's LunarLander-v3, and statistics of its
   landings; the same bits again, on any thread; the picture. */
#include "../ppo.h"

#include "../examples/envs/lunarlander.hpp"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <thread>
extern "C" {
#include <cmocka.h>
}
#include "test.h"
#include "golden/lunarlander.h"

/* --------------------------------------------------------------------------------------------------------
   Recorded episodes
   -------------------------------------------------------------------------------------------------------- */

/* The two releases of Box2D differ in the last bits. In the air that leads to some 1e-5, where legs bounce on
   the ground to some 1e-4; and the reward weighs the observation by 100. */
static const double air = 1e-4, ground = 1e-3, reward_scale = 100;

static void check_number(double got, double want, double tolerance, const char *what, int episode, int step) {
    if (fabs(got - want) <= tolerance) return;
    fail_msg("%s is %.7g, not %.7g (episode %d, step %d, tolerance %.2g)", what, got, want, episode, step,
             tolerance);
}

static void check_obs(const float *got, const float *want, double tolerance, int episode, int step) {
    const char *name[] = {"x", "y", "vx", "vy", "angle", "angular velocity", "leg 0", "leg 1"};
    for (int i = 0; i < 8; i++) check_number(got[i], want[i], tolerance, name[i], episode, step);
}

static void check_terrain(const lunarlander *s, const float *want, int episode) {
    const b2Fixture *f = s->world->moon->GetFixtureList(); /* the latest first: from right to left */
    for (int i = lunarlander_corners - 1; i > 0; i--, f = f->GetNext()) {
        const b2EdgeShape *edge = static_cast<const b2EdgeShape *>(f->GetShape());
        check_number(edge->m_vertex1.x, 2 * (i - 1), 1e-6, "a corner's x", episode, 0);
        check_number(edge->m_vertex2.x, 2 * i, 1e-6, "a corner's x", episode, 0);
        check_number(edge->m_vertex1.y, want[i - 1], 1e-6, "a corner's y", episode, 0);
        check_number(edge->m_vertex2.y, want[i], 1e-6, "a corner's y", episode, 0);
    }
}

/* Plays a recorded episode with the numbers that chance gave then. */
static void ends_as_recorded(void **state) {
    int episode = *(int *)*state, at = 0;
    for (int e = 0; e < episode; e++) at += g_lunarlander_length[e];
    const double *dispersion = g_lunarlander_dispersion + 2 * (at + episode);
    const double *drawn = g_lunarlander_start + 14 * episode;
    lunarlander_start start;
    memcpy(start.height, drawn, sizeof start.height);
    memcpy(start.force, drawn + 12, sizeof start.force);

    lunarlander s = {};
    float obs[8];
    double tolerance = air;
    assert_int_equal(lunarlander_open(&s, NULL, 0), 0);
    lunarlander_begin(&s, &start, dispersion, obs);
    check_terrain(&s, g_lunarlander_terrain + lunarlander_corners * episode, episode);
    check_obs(obs, g_lunarlander_first + 8 * episode, tolerance, episode, 0);
    for (int t = 0; t < g_lunarlander_length[episode]; t++, at++) {
        ppo_action action = {};
        action.discrete = g_lunarlander_action[at];
        action.box = g_lunarlander_box + 2 * at;
        ppo_outcome out = {};
        const float *want = g_lunarlander_obs + 8 * at;
        lunarlander_engines engines = g_lunarlander_continuous[episode] ? lunarlander_continuous(&action)
                                                                        : lunarlander_discrete(&action);
        lunarlander_advance(&s, engines, dispersion + 2 * (t + 1), obs, &out);
        if (want[6] != 0 || want[7] != 0 || g_lunarlander_terminated[at]) tolerance = ground;
        check_obs(obs, want, tolerance, episode, t + 1);
        check_number(out.reward, g_lunarlander_reward[at], reward_scale * tolerance, "reward", episode,
                     t + 1);
        assert_int_equal(out.terminated, g_lunarlander_terminated[at]);
    }
    lunarlander_close(&s);
}

/* --------------------------------------------------------------------------------------------------------
   Landings: the pilot that comes with Gymnasium's environment
   -------------------------------------------------------------------------------------------------------- */

static double between(double x, double low, double high) { return fmax(low, fmin(high, x)); }

/* The action that Gymnasium's heuristic() takes; box [2] holds it where it is continuous. */
static ppo_action heuristic(const float *obs, int continuous, float *box) {
    int standing = obs[6] != 0 || obs[7] != 0;
    double lean = between(obs[0] * 0.5 + obs[2], -0.4, 0.4);
    double turn = standing ? 0 : (lean - obs[4]) * 0.5 - obs[5];
    double lift = standing ? -obs[3] * 0.5 : (0.55 * fabs(obs[0]) - obs[1]) * 0.5 - obs[3] * 0.5;
    int discrete = lift > fabs(turn) && lift > 0.05 ? 2 : turn < -0.05 ? 3 : turn > 0.05 ? 1 : 0;
    box[0] = (float)between(lift * 20 - 1, -1, 1);
    box[1] = (float)between(-turn * 20, -1, 1);
    ppo_action action = {};
    if (continuous) action.box = box;
    else action.discrete = discrete;
    return action;
}

typedef struct flight {
    float obs[1001][8], reward[1001]; /* at 0: after reset */
    int length, at_rest;
    double sum; /* of the rewards */
} flight;

/* A whole episode of an open copy. */
static void fly(const ppo_env *env, void *state, uint32_t index, flight *f) {
    int continuous = env->action_space.kind == PPO_BOX;
    ppo_rng rng = test_rng(index);
    memset(f, 0, sizeof *f);
    env->reset(state, &rng, f->obs[0]);
    for (ppo_outcome out = {}; !out.terminated && f->length < env->max_steps;) {
        float box[2];
        ppo_action action = heuristic(f->obs[f->length], continuous, box);
        f->length++;
        env->step(state, &rng, &action, f->obs[f->length], &out);
        f->reward[f->length] = out.reward;
        f->at_rest = out.terminated && out.reward == 100;
        f->sum += out.reward;
    }
}

static void landings_are_like_those_of_gymnasium(const ppo_env *env, const float *want) {
    const int episodes = SMALL(500, 50);
    double sum = 0, length = 0, at_rest = 0;
    static flight f;
    lunarlander s = {};
    assert_int_equal(env->open(&s, env->user, 0), 0);
    for (int e = 0; e < episodes; e++) {
        fly(env, &s, (uint32_t)e, &f);
        sum += f.sum / episodes;
        length += (double)f.length / episodes;
        at_rest += (double)f.at_rest / episodes;
    }
    env->close(&s);
    /* Both are means over samples: three standard deviations of their difference. */
    double three = 3 * sqrt(1.0 / episodes + 1.0 / g_lunarlander_landings);
    assert_true(fabs(sum - want[0]) < three * want[1]);
    assert_true(fabs(length - want[2]) < three * want[3]);
    assert_true(fabs(at_rest - want[4]) < three * sqrt(want[4] * (1 - want[4])));
}

static void discrete_landings_are_like_those_of_gymnasium(void **state) {
    (void)state;
    ppo_env env = lunarlander_env();
    landings_are_like_those_of_gymnasium(&env, g_lunarlander_landing + 0);
}

static void continuous_landings_are_like_those_of_gymnasium(void **state) {
    (void)state;
    ppo_env env = lunarlander_continuous_env();
    landings_are_like_those_of_gymnasium(&env, g_lunarlander_landing + 5);
}

/* What else is drawn shows in the statistics above. */
static void the_engines_are_dispersed_evenly(void **state) {
    (void)state;
    const int n = 100000;
    ppo_rng rng = test_rng(0);
    double d[2], sum[2] = {0, 0}, squares[2] = {0, 0}, product = 0;
    for (int i = 0; i < n; i++) {
        lunarlander_disperse(&rng, d);
        for (int j = 0; j < 2; j++) {
            assert_true(d[j] >= -1 && d[j] < 1);
            sum[j] += d[j] / n;
            squares[j] += d[j] * d[j] / n;
        }
        product += d[0] * d[1] / n;
    }
    for (int j = 0; j < 2; j++) {
        assert_true(fabs(sum[j]) < 0.01);
        assert_true(fabs(squares[j] - 1.0 / 3) < 0.01);
    }
    assert_true(fabs(product) < 0.01);
}

static void every_step_is_dispersed_anew(void **state) {
    (void)state;
    ppo_env envs[] = {lunarlander_env(), lunarlander_continuous_env()};
    const float full[] = {1, 0};
    ppo_action action = {};
    action.discrete = 2;
    action.box = full;
    for (int i = 0; i < COUNT(envs); i++) {
        lunarlander s[2] = {};
        float obs[2][8];
        for (int k = 0; k < 2; k++) {
            ppo_rng start = test_rng(0), later = test_rng((uint32_t)k);
            ppo_outcome out = {};
            assert_int_equal(envs[i].open(&s[k], NULL, k), 0);
            envs[i].reset(&s[k], &start, obs[k]);
            envs[i].step(&s[k], &later, &action, obs[k], &out);
            envs[i].close(&s[k]);
        }
        assert_memory_not_equal(obs[0], obs[1], sizeof obs[0]);
    }
}

/* --------------------------------------------------------------------------------------------------------
   The same bits
   -------------------------------------------------------------------------------------------------------- */

enum { FLIGHTS = 6 };

static void an_episode_follows_from_its_generator_and_actions(void **state) {
    (void)state;
    ppo_env env = lunarlander_env();
    static flight first[FLIGHTS], again;
    lunarlander a = {}, b = {};
    assert_int_equal(env.open(&a, NULL, 0), 0);
    assert_int_equal(env.open(&b, NULL, 1), 0);
    for (int e = 0; e < FLIGHTS; e++) fly(&env, &a, (uint32_t)e, &first[e]);
    for (int e = FLIGHTS - 1; e >= 0; e--) {
        env.max_steps = 50; /* so that b was left in the air */
        fly(&env, &b, 100, &again);
        env.max_steps = 1000;
        fly(&env, e % 2 ? &a : &b, (uint32_t)e, &again);
        assert_memory_equal(&again, &first[e], sizeof again);
    }
    env.close(&a);
    env.close(&b);
}

static void copies_on_threads_do_not_disturb_each_other(void **state) {
    (void)state;
    ppo_env env = lunarlander_env();
    static flight alone[FLIGHTS], beside[FLIGHTS];
    int failures[FLIGHTS] = {0};
    auto fly_one = [&](flight *f, int e) {
        lunarlander s = {};
        failures[e] += env.open(&s, NULL, e);
        fly(&env, &s, (uint32_t)e, &f[e]);
        env.close(&s);
    };
    std::thread threads[FLIGHTS];
    for (int e = 0; e < FLIGHTS; e++) threads[e] = std::thread(fly_one, beside, e);
    for (int e = 0; e < FLIGHTS; e++) threads[e].join();
    for (int e = 0; e < FLIGHTS; e++) fly_one(alone, e);
    for (int e = 0; e < FLIGHTS; e++) assert_int_equal(failures[e], 0);
    assert_memory_equal(alone, beside, sizeof alone);
}

static void a_training_has_the_same_bits_for_any_number_of_threads(void **state) {
    (void)state;
    ppo_env envs[] = {lunarlander_env(), lunarlander_continuous_env()};
    ppo_config cfg = tiny_config();
    cfg.num_envs = 6, cfg.rollout_steps = 150, cfg.minibatch_size = 90, cfg.total_steps = 6 * 150 * 2;
    for (int i = 0; i < COUNT(envs); i++) {
        ppo_agent *one = NULL, *four = NULL;
        cfg.threads = 1;
        assert_ok(ppo_train(&envs[i], &cfg, &one));
        cfg.threads = 4;
        assert_ok(ppo_train(&envs[i], &cfg, &four));
        const ppo_params *p = one->model.params, *q = four->model.params;
        assert_false(bits_differ(p->data, q->data, p->count));
        ppo_agent_free(one);
        ppo_agent_free(four);
    }
}

/* --------------------------------------------------------------------------------------------------------
   The picture
   -------------------------------------------------------------------------------------------------------- */

/* Draws into text; returns the number of lines. */
static int drawn(const ppo_env *env, const void *state, char *text, size_t size) {
    FILE *file = tmpfile();
    int lines = 0, width = 0;
    assert_non_null(file);
    env->draw(state, file);
    rewind(file);
    size_t n = fread(text, 1, size - 1, file);
    fclose(file);
    text[n] = 0;
    for (size_t i = 0; i < n; i++) {
        width = text[i] == '\n' ? 0 : width + 1;
        lines += text[i] == '\n';
        assert_in_range(width, 0, 64);
        assert_true(text[i] == '\n' || (text[i] >= ' ' && text[i] <= '~'));
    }
    return lines;
}

static void every_picture_shows_the_same_number_of_lines_and_what_there_is(void **state) {
    (void)state;
    static char text[4096];
    ppo_env env = lunarlander_env();
    lunarlander s = {};
    float obs[8];
    ppo_rng rng = test_rng(0);
    assert_int_equal(env.open(&s, NULL, 0), 0);
    env.reset(&s, &rng, obs);
    for (int t = 0; t < 100; t++) {
        ppo_action action = {};
        action.discrete = t % 4;
        ppo_outcome out = {};
        env.step(&s, &rng, &action, obs, &out);
        assert_int_equal(drawn(&env, &s, text, sizeof text), 16);
        assert_non_null(strchr(text, '.'));
        assert_non_null(strchr(text, '|'));
        if (t < 20 || t > 40) continue; /* it starts at the upper edge */
        assert_non_null(strchr(text, '#'));
        assert_non_null(strchr(text, 'o'));
        assert_true(!strchr(text, '*') == (action.discrete == 0));
    }
    env.close(&s);
}

static void drawing_changes_nothing(void **state) {
    (void)state;
    static char text[4096];
    ppo_env env = lunarlander_env();
    lunarlander watched = {}, alone = {};
    float obs[2][8];
    ppo_rng rng[2] = {test_rng(3), test_rng(3)};
    assert_int_equal(env.open(&watched, NULL, 0), 0);
    assert_int_equal(env.open(&alone, NULL, 1), 0);
    env.reset(&watched, &rng[0], obs[0]);
    env.reset(&alone, &rng[1], obs[1]);
    for (int t = 0; t < 150; t++) {
        float box[2];
        ppo_action action = heuristic(obs[0], 0, box);
        ppo_outcome out = {};
        drawn(&env, &watched, text, sizeof text);
        env.step(&watched, &rng[0], &action, obs[0], &out);
        env.step(&alone, &rng[1], &action, obs[1], &out);
        assert_memory_equal(obs[0], obs[1], sizeof obs[0]);
    }
    env.close(&watched);
    env.close(&alone);
}

int main(void) {
    static int number[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    const CMUnitTest tests[] = {
        {"a_free_fall_ends_as_recorded", ends_as_recorded, NULL, NULL, &number[0]},
        {"the_left_engine_acts_as_recorded", ends_as_recorded, NULL, NULL, &number[1]},
        {"the_main_engine_acts_as_recorded", ends_as_recorded, NULL, NULL, &number[2]},
        {"the_right_engine_acts_as_recorded", ends_as_recorded, NULL, NULL, &number[3]},
        {"a_flight_out_of_the_view_ends_as_recorded", ends_as_recorded, NULL, NULL, &number[4]},
        {"a_landing_ends_as_recorded", ends_as_recorded, NULL, NULL, &number[5]},
        {"another_landing_ends_as_recorded", ends_as_recorded, NULL, NULL, &number[6]},
        {"throttles_act_as_recorded", ends_as_recorded, NULL, NULL, &number[7]},
        {"a_landing_with_throttles_ends_as_recorded", ends_as_recorded, NULL, NULL, &number[8]},
        cmocka_unit_test(discrete_landings_are_like_those_of_gymnasium),
        cmocka_unit_test(continuous_landings_are_like_those_of_gymnasium),
        cmocka_unit_test(the_engines_are_dispersed_evenly),
        cmocka_unit_test(every_step_is_dispersed_anew),
        cmocka_unit_test(an_episode_follows_from_its_generator_and_actions),
        cmocka_unit_test(copies_on_threads_do_not_disturb_each_other),
        cmocka_unit_test(a_training_has_the_same_bits_for_any_number_of_threads),
        cmocka_unit_test(every_picture_shows_the_same_number_of_lines_and_what_there_is),
        cmocka_unit_test(drawing_changes_nothing),
    };
    assert_int_equal(COUNT(number), g_lunarlander_episodes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
