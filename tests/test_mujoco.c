/* examples/envs/mujoco.h: recorded episodes of Gymnasium's environments, what is drawn at a reset, the same bits
   again and after a resume, errors, the picture. */
#include "../ppo.h"

#include "../examples/envs/mujoco.h"

#include "test.h"
#include "golden/mujoco.h"

#include <unistd.h>

enum { MOST_OBS = 128, MOST_ACTIONS = 8 };

/* --------------------------------------------------------------------------------------------------------
   Recorded episodes
   -------------------------------------------------------------------------------------------------------- */

static const struct episode {
    const char *name;
    const double *start;
    const float *obs, *reward;
    const unsigned char *end;
} episodes[] = {
#define VERSION(task, v)                                                                                 \
    {#task "-" #v, g_mujoco_##task##_start, g_mujoco_##task##_##v##_obs, g_mujoco_##task##_##v##_reward, \
     g_mujoco_##task##_##v##_end},
#define EPISODES(task) VERSION(task, v4) VERSION(task, v5)
    EPISODES(HalfCheetah) EPISODES(Hopper) EPISODES(InvertedDoublePendulum) EPISODES(InvertedPendulum)
        EPISODES(Reacher) EPISODES(Swimmer) EPISODES(Walker2d) EPISODES(Ant)};

static const double tolerance = 1e-5; /* relative to each number, or to 1 where that is larger */

/* The episodes were recorded with MuJoCo 4.0. Earlier versions move Ant and Hopper differently, by 0.002 in Hopper's
   first reward; the other robots alike, since 2.2. */
static int recorded_with_other_physics(const char *name) {
    return mj_version() < 4000000 && (strncmp(name, "Ant", 3) == 0 || strncmp(name, "Hopper", 6) == 0);
}

static void moves_as_recorded(void **state) {
    const struct episode *e = (const struct episode *)*state;
    const ppo_env env = mujoco_env(e->name);
    mujoco s;
    float obs[MOST_OBS], box[MOST_ACTIONS];
    if (recorded_with_other_physics(e->name)) skip();
    assert_int_equal(env.open(&s, env.user, 0), 0);
    mujoco_begin(&s, e->start, e->start + s.model->nq, obs);
    assert_close_each(obs, e->obs, env.obs_size, tolerance);
    for (int t = 0; t < g_mujoco_steps; t++) {
        ppo_action action = {0};
        ppo_outcome out = {0};
        action.box = box;
        for (int j = 0; j < env.action_space.n; j++)
            box[j] = env.action_space.high * ((float)((7 * t + 5 * j) % 11 - 5) / 4.0f);
        env.step(&s, NULL, &action, obs, &out);
        assert_close_each(&out.reward, &e->reward[t], 1, tolerance);
        assert_int_equal(out.terminated, e->end[t]);
        if ((t + 1) % g_mujoco_every) continue;
        assert_close_each(obs, e->obs + (t + 1) / g_mujoco_every * env.obs_size, env.obs_size, tolerance);
    }
    env.close(&s);
}

/* Whether it ends there, at this height and angle of the whole body. */
static int ends(mujoco *s, double height, double angle) {
    const int free = s->model->nq != s->model->nv;
    ppo_outcome out = {0};
    mj_resetData(s->model, s->data);
    s->data->qpos[free ? 2 : 1] = height;
    if (!free) s->data->qpos[2] = angle;
    s->task->judge(s, 0, 0, &out);
    return out.terminated;
}

static void a_walker_ends_beyond_its_limits_and_observed_speeds_have_some(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double lowest, highest, lean, fastest;
    } tasks[] = {{"HalfCheetah-v5", -9, 9, 9, 1000},
                 {"Hopper-v5", 0.7, 99, 0.2, 10},
                 {"Walker2d-v5", 0.8, 2, 1, 10},
                 {"Ant-v5", 0.2, 1, 9, 1000}};
    for (int k = 0; k < COUNT(tasks); k++) {
        const ppo_env env = mujoco_env(tasks[k].name);
        const double low = tasks[k].lowest, high = tasks[k].highest, lean = tasks[k].lean, e = 1e-6;
        mujoco s;
        float obs[MOST_OBS];
        assert_int_equal(env.open(&s, env.user, 0), 0);
        for (int side = -1; side <= 1; side += 2) {
            const double middle = (low + fmin(high, 1.5)) / 2;
            assert_false(ends(&s, low + e, side * (lean - e)) || ends(&s, high - e, side * (lean - e)));
            assert_int_equal(ends(&s, low - e, 0) && ends(&s, middle, 0) == 0, low > 0);
            assert_int_equal(ends(&s, high + e, 0), high < 9);
            assert_int_equal(ends(&s, middle, side * (lean + e)), lean < 9);
            mj_resetData(s.model, s.data);
            s.data->qvel[0] = side * 20;
            s.task->observe(&s, obs);
            assert_float_equal(obs[s.model->nq - s.task->gait->unseen], side * fmin(20, tasks[k].fastest), 0);
        }
        env.close(&s);
    }
}

/* --------------------------------------------------------------------------------------------------------
   Resets
   -------------------------------------------------------------------------------------------------------- */

/* The mean of n numbers lies within 5 standard deviations of 0, and their variance near the square of std. */
static void assert_spread(const double *sum, const double *squares, int numbers, int n, double std) {
    for (int i = 0; i < numbers; i++) {
        assert_true(fabs(sum[i] / n) < 5 * std / sqrt(n));
        assert_true(fabs(squares[i] / n / (std * std) - 1) < 5 * sqrt(2.0 / n));
    }
}

static void a_reset_draws_from_the_ranges_of_gymnasium(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double noise, noise_v;
        int normal;
    } tasks[] = {{"HalfCheetah-v5", 0.1, 0.1, 1},
                 {"Hopper-v5", 5e-3, 5e-3, 0},
                 {"InvertedDoublePendulum-v5", 0.1, 0.1, 1},
                 {"InvertedPendulum-v5", 0.01, 0.01, 0},
                 {"Reacher-v5", 0.1, 5e-3, 0},
                 {"Swimmer-v5", 0.1, 0.1, 0},
                 {"Walker2d-v5", 5e-3, 5e-3, 0},
                 {"Ant-v5", 0.1, 0.1, 1}};
    for (int k = 0; k < COUNT(tasks); k++) {
        const ppo_env env = mujoco_env(tasks[k].name);
        const int n = SMALL(1000, 200), arm = k == 4;
        double sum[2][16] = {{0}}, squares[2][16] = {{0}};
        ppo_rng rng = test_rng((uint32_t)k);
        mujoco s;
        float obs[MOST_OBS];
        assert_int_equal(env.open(&s, env.user, 0), 0);
        const int nq = arm                          ? 2
                       : s.model->nq != s.model->nv ? 3
                                                    : s.model->nq; /* without target and quaternion */
        const int nv = arm ? 2 : s.model->nv;
        for (int r = 0; r < n; r++) {
            env.reset(&s, &rng, obs);
            for (int i = 0; i < nq + nv; i++) {
                const int v = i >= nq, j = v ? i - nq : i;
                const double x = v ? s.data->qvel[j] : s.data->qpos[j] - s.model->qpos0[j];
                if (!v || !tasks[k].normal)
                    assert_true(fabs(x) <= (v ? tasks[k].noise_v : tasks[k].noise) + 1e-9);
                sum[v][j] += x;
                squares[v][j] += x * x;
            }
            if (!arm) continue;
            const double x = s.data->qpos[2], y = s.data->qpos[3];
            assert_true(x * x + y * y < 0.04 && s.data->qvel[2] == 0 && s.data->qvel[3] == 0);
        }
        assert_spread(sum[0], squares[0], nq, n, tasks[k].noise / sqrt(3));
        assert_spread(sum[1], squares[1], nv, n, tasks[k].noise_v / (tasks[k].normal ? 1 : sqrt(3)));
        env.close(&s);
    }
}

/* --------------------------------------------------------------------------------------------------------
   The same bits
   -------------------------------------------------------------------------------------------------------- */

/* The observations of an episode [1 + steps][obs_size], past any end. */
static void play(const ppo_env *env, mujoco *s, uint32_t seed, int steps, float *obs) {
    ppo_rng rng = test_rng(seed);
    env->reset(s, &rng, obs);
    for (int t = 0; t < steps; t++) {
        float box[MOST_ACTIONS];
        ppo_action action = {0};
        ppo_outcome out = {0};
        action.box = box;
        for (int j = 0; j < env->action_space.n; j++) box[j] = ppo_rng_range(&rng, -1, 1);
        env->step(s, &rng, &action, obs + (t + 1) * env->obs_size, &out);
    }
}

static void an_episode_follows_from_its_generator_and_actions(void **state) {
    (void)state;
    enum { STEPS = 40 };
    static float first[(1 + STEPS) * MOST_OBS], again[(1 + STEPS) * MOST_OBS];
    for (int k = 0; k < MUJOCO_TASKS; k++) {
        const ppo_env env = mujoco_env(mujoco_tasks[k].name);
        const size_t bytes = (size_t)((1 + STEPS) * env.obs_size) * sizeof(float);
        mujoco s[2];
        for (int i = 0; i < 2; i++) assert_int_equal(env.open(&s[i], env.user, i), 0);
        play(&env, &s[0], 1, STEPS, first);
        for (uint32_t other = 2; other < 5; other++) play(&env, &s[1], other, STEPS, again);
        assert_memory_not_equal(first, again, bytes);
        play(&env, &s[1], 1, STEPS, again);
        assert_memory_equal(first, again, bytes);
        assert_memory_equal(s[0].data->qpos, s[1].data->qpos, (size_t)s[0].model->nq * sizeof(double));
        for (int i = 0; i < 2; i++) env.close(&s[i]);
    }
}

/* An iteration ends in the middle of episodes. */
static ppo_config short_training(void) {
    ppo_config cfg = tiny_config();
    cfg.num_envs = 3, cfg.rollout_steps = 40, cfg.minibatch_size = 40, cfg.total_steps = 3 * 40 * 4;
    cfg.normalize_obs = cfg.normalize_reward = 1;
    return cfg;
}

static int weights_differ(const ppo_agent *a, const ppo_agent *b) {
    return bits_differ(a->model.params->data, b->model.params->data, a->model.params->count);
}

static void a_resumed_training_ends_with_the_same_bits(void **state) {
    (void)state;
    const char *const names[] = {"HalfCheetah-v5", "Hopper-v5", "Reacher-v5", "Ant-v5"};
    for (int k = 0; k < COUNT(names); k++) {
        const ppo_env env = mujoco_env(names[k]);
        const ppo_config cfg = short_training();
        char path[64];
        ppo_agent *whole = NULL, *again = NULL;
        ppo_trainer *trainer = NULL;
        snprintf(path, sizeof path, "build/test_mujoco.%ld", (long)getpid());
        assert_ok(ppo_agent_create(&env, &cfg, &whole));
        assert_ok(ppo_trainer_create(&env, &cfg, whole, &trainer));
        for (int i = 0; i < 4; i++) {
            if (i == 2) assert_ok(ppo_trainer_save(trainer, path));
            assert_ok(ppo_trainer_iterate(trainer, NULL));
        }
        ppo_trainer_free(trainer);
        assert_ok(ppo_trainer_resume(path, &env, NULL, &again, &trainer));
        while (!ppo_trainer_done(trainer)) assert_ok(ppo_trainer_iterate(trainer, NULL));
        assert_false(weights_differ(whole, again));
        ppo_trainer_free(trainer);
        ppo_agent_free(whole);
        ppo_agent_free(again);
        remove(path);
    }
}

static void a_training_has_the_same_bits_for_any_number_of_threads(void **state) {
    (void)state;
    const ppo_env env = mujoco_env("Walker2d-v5");
    ppo_config cfg = short_training();
    ppo_agent *one = NULL, *three = NULL;
    assert_ok(ppo_train(&env, &cfg, &one));
    cfg.threads = 3;
    assert_ok(ppo_train(&env, &cfg, &three));
    assert_false(weights_differ(one, three));
    ppo_agent_free(one);
    ppo_agent_free(three);
}

/* --------------------------------------------------------------------------------------------------------
   Actions, errors, the picture
   -------------------------------------------------------------------------------------------------------- */

static void only_unbounded_tasks_see_actions_beyond_the_box(void **state) {
    (void)state;
    const ppo_env bounded = mujoco_env("InvertedPendulum-v5"),
                  unbounded = mujoco_env("InvertedPendulum-v5-unbounded");
    assert_true(bounded.action_space.low == -3 && bounded.action_space.high == 3);
    assert_true(unbounded.action_space.low < -1000 && unbounded.action_space.high > 1000);
    assert_string_equal(unbounded.name, "InvertedPendulum-v5-unbounded");
    assert_ptr_equal(bounded.user, unbounded.user);
}

static ppo_status opened(const char *name) {
    const ppo_env env = mujoco_env(name);
    const ppo_config cfg = short_training();
    ppo_agent *agent = NULL;
    const ppo_status status = ppo_train(&env, &cfg, &agent);
    ppo_agent_free(agent);
    return status;
}

static void without_its_model_a_task_says_what_is_missing(void **state) {
    char folder[64], path[128];
    (void)state;
    snprintf(folder, sizeof folder, "build/test_mujoco.%ld", (long)getpid());
    snprintf(path, sizeof path, "mkdir -p %s", folder);
    assert_int_equal(system(path), 0);
    setenv("MUJOCO_MODELS", folder, 1);
    assert_fails(opened("Hopper-v5"), PPO_ERROR_ARGUMENT, "environment 0|hopper.xml|build/test_mujoco");

    snprintf(path, sizeof path, "%s/hopper.xml", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "<mujoco><worldbody><body><joint/><geom size=\"1\"/></body></worldbody></mujoco>\n");
    fclose(file);
    assert_fails(opened("Hopper-v5"), PPO_ERROR_ARGUMENT,
                 "hopper.xml|not the model of Gymnasium's environment");
    file = fopen(path, "w");
    fprintf(file, "<mujoco><worldbody><body>\n");
    fclose(file);
    assert_fails(opened("Hopper-v5"), PPO_ERROR_ARGUMENT, "hopper.xml");
    unsetenv("MUJOCO_MODELS");
    remove(path);
    rmdir(folder);
}

static void an_unknown_name_is_refused(void **state) {
    const char *const names[] = {"", "Hopper", "Hopper-v6", "Hopper-v5-", "Hopper-v5-unbounded-"};
    (void)state;
    for (int i = 0; i < COUNT(names); i++) assert_fails(opened(names[i]), PPO_ERROR_ARGUMENT, "env.");
}

static void every_picture_has_the_same_number_of_lines_and_shows_the_robot(void **state) {
    (void)state;
    for (int k = 0; k < MUJOCO_TASKS; k++) {
        const ppo_env env = mujoco_env(mujoco_tasks[k].name);
        char text[4096];
        int lines = 0;
        ppo_rng rng = test_rng((uint32_t)k);
        mujoco s;
        float obs[MOST_OBS];
        FILE *file = tmpfile();
        assert_non_null(file);
        assert_int_equal(env.open(&s, env.user, 0), 0);
        env.reset(&s, &rng, obs);
        env.draw(&s, file);
        env.close(&s);
        rewind(file);
        const size_t n = fread(text, 1, sizeof text - 1, file);
        fclose(file);
        text[n] = 0;
        for (size_t i = 0; i < n; i++) lines += text[i] == '\n';
        assert_int_equal(lines, 16);
        assert_non_null(strchr(text, '#'));
    }
}

int main(void) {
    struct CMUnitTest tests[COUNT(episodes) + 9] = {
        cmocka_unit_test(a_reset_draws_from_the_ranges_of_gymnasium),
        cmocka_unit_test(a_walker_ends_beyond_its_limits_and_observed_speeds_have_some),
        cmocka_unit_test(an_episode_follows_from_its_generator_and_actions),
        cmocka_unit_test(a_resumed_training_ends_with_the_same_bits),
        cmocka_unit_test(a_training_has_the_same_bits_for_any_number_of_threads),
        cmocka_unit_test(only_unbounded_tasks_see_actions_beyond_the_box),
        cmocka_unit_test(without_its_model_a_task_says_what_is_missing),
        cmocka_unit_test(an_unknown_name_is_refused),
        cmocka_unit_test(every_picture_has_the_same_number_of_lines_and_shows_the_robot),
    };
    char names[COUNT(episodes)][64];
    for (int i = 0; i < COUNT(episodes); i++) {
        const struct CMUnitTest test = {names[i], moves_as_recorded, NULL, NULL, (void *)&episodes[i]};
        snprintf(names[i], sizeof names[i], "%s_moves_as_recorded", episodes[i].name);
        tests[9 + i] = test;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
