/* Units: observations, rewards and boxes of any size are learned from alike. */
#include "../ppo.h"
#include "../examples/envs/cartpole.h"
#include "test.h"

static float obs_unit, reward_unit;

static void scaled_reset(void *state, ppo_rng *rng, float *obs) {
    cartpole_reset(state, rng, obs);
    for (int j = 0; j < 4; j++) obs[j] *= obs_unit;
    obs[4] = 0.3f * obs_unit; /* a number that never changes */
}

static void scaled_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    cartpole_step(state, rng, action, obs, out);
    for (int j = 0; j < 4; j++) obs[j] *= obs_unit;
    obs[4] = 0.3f * obs_unit;
    out->reward *= reward_unit;
}

static ppo_agent *trained_in_units(float obs, float reward, int steps, int threads) {
    ppo_env env = cartpole_env();
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_progress progress;
    env.obs_size = 5, env.reset = scaled_reset, env.step = scaled_step;
    obs_unit = obs, reward_unit = reward;
    cfg.normalize_obs = cfg.normalize_reward = 1, cfg.total_steps = steps, cfg.threads = threads;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    while (!ppo_trainer_done(trainer)) {
        const ppo_rollout *r = ppo_trainer_rollout(trainer);
        double squares[5] = {0}, rewards = 0;
        assert_ok(ppo_trainer_iterate(trainer, &progress));
        assert_true(progress.first_ratio_min == 1 && progress.first_ratio_max == 1);
        if (progress.iteration > 1) continue;
        for (int i = 0, n = r->steps * r->envs; i < n; i++) {
            for (int j = 0; j < 5; j++) squares[j] += r->obs[i * 5 + j] * r->obs[i * 5 + j] / n;
            rewards += r->reward[i] * r->reward[i] / n;
        }
        for (int j = 0; j < 4; j++)
            assert_true(squares[j] > 0.3 && squares[j] < 3); /* the first rollout, too */
        assert_true(squares[4] == 0 && rewards > 0.01 && rewards < 1);
    }
    ppo_trainer_free(trainer);
    return agent;
}

static void units_do_not_change_a_bit_of_what_is_learned(void **state) {
    (void)state;
    const float small = ldexpf(1, -50),
                large = ldexpf(1, 50); /* about 1e-15 and 1e15; all products are exact */
    const float units[][2] = {{small, 1}, {large, 1}, {1, small}, {1, large}, {small, large}, {large, small}};
    ppo_agent *one = trained_in_units(1, 1, SMALL(8192, 4096), 1);
    for (int k = 0; k < COUNT(units); k += SMALL(1, 2)) {
        ppo_agent *other = trained_in_units(units[k][0], units[k][1], SMALL(8192, 4096), 1 + k % 3);
        const ppo_params *p = one->model.params, *q = other->model.params;
        assert_false(bits_differ(p->data, q->data, p->count));
        ppo_agent_free(other);
    }
    ppo_agent_free(one);
}

static void cartpole_is_learned_in_every_unit(void **state) {
    (void)state;
    const float units[][2] = {{1e-15f, 1e15f}, {1e-9f, 1e-4f}};
    for (int k = 0; k < SMALL(COUNT(units), 1); k++) {
        ppo_agent *agent = trained_in_units(units[k][0], units[k][1], SMALL(32768, 4096), 1);
        ppo_env env = cartpole_env();
        env.obs_size = 5, env.reset = scaled_reset, env.step = scaled_step;
        const double mean = ppo_evaluate(agent, &env, 10, 3).mean_return / reward_unit;
        if (SMALL(1, 0) && !(mean > 200))
            fail_msg("units %g, %g: %.0f", (double)units[k][0], (double)units[k][1], mean);
        ppo_agent_free(agent);
    }
}

static void numbers_of_any_size_are_whitened(void **state) {
    (void)state;
    static const float units[] = {1e-30f, 1e-15f, 1e-8f, 1, 1e15f};
    for (int u = 0; u < COUNT(units); u++) {
        float x[5] = {1, 2, 3, 4, 5}, equal[3] = {0.1f, 0.1f, 0.1f};
        double squares = 0;
        for (int i = 0; i < 5; i++) x[i] *= units[u];
        for (int i = 0; i < 3; i++) equal[i] *= units[u];
        assert_ok(ppo_whiten(x, NULL, 5, 1));
        assert_ok(ppo_whiten(equal, NULL, 3, 1));
        for (int i = 0; i < 5; i++) squares += (double)x[i] * x[i] / 4;
        assert_close(squares, 1, 1e-5);
        for (int i = 0; i < 3; i++) assert_true(equal[i] == 0);
    }
}

/* -- boxes: the reward is -(z - 0.7)^2, z from 0 to 1 the action's place in the box; 20 steps -- */

static float box_low, box_high;

static void place_reset(void *state, ppo_rng *rng, float *obs) {
    *(int *)state = 0;
    obs[0] = ppo_rng_range(rng, -1, 1);
}

static void place_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    const float z = (action->box[0] - box_low) / (box_high - box_low);
    assert_true(action->box[0] >= box_low && action->box[0] <= box_high);
    out->reward = -(z - 0.7f) * (z - 0.7f);
    out->terminated = ++*(int *)state == 20;
    obs[0] = ppo_rng_range(rng, -1, 1);
}

static ppo_env place_env(float low, float high) {
    ppo_env env = {.obs_size = 1, .state_size = sizeof(int), .reset = place_reset, .step = place_step};
    env.action_space = ppo_box(1, box_low = low, box_high = high);
    return env;
}

static void boxes_far_from_a_normal_distribution_are_learned(void **state) {
    (void)state;
    const float boxes[][2] = {{0, 1}, {5, 6}, {0, 1e-3f}, {2, 9}, {-1e12f, 1e12f}, {-300, -200}};
    for (int k = 0; k < COUNT(boxes); k += SMALL(1, 4)) {
        ppo_env env = place_env(boxes[k][0], boxes[k][1]);
        ppo_config cfg = ppo_config_default();
        ppo_agent *agent = NULL;
        cfg.total_steps = SMALL(32768, 4096), cfg.learning_rate = 1e-3f;
        assert_ok(ppo_train(&env, &cfg, &agent));
        const float mean = ppo_evaluate(agent, &env, 10, 3).mean_return;
        if (SMALL(1, 0) && !(mean > -0.2f))
            fail_msg("%g to %g: %g", (double)box_low, (double)box_high, (double)mean);
        ppo_agent_free(agent);
    }
}

static void only_boxes_that_a_normal_distribution_does_not_fit_are_mapped(void **state) {
    (void)state;
    const float inf = INFINITY;
    const struct {
        float low, high;
        const char *setting;
        int scale;
    } cases[] = {
        {-1, 1, "auto", 0},     {-2, 2, "auto", 0},   {-0.4f, 0.4f, "auto", 0},   {-3, 1, "auto", 0},
        {0, 1, "auto", 1},      {-10, 10, "auto", 1}, {-1e-3f, 1e-3f, "auto", 1}, {-0.5f, 20, "auto", 1},
        {-inf, inf, "auto", 0}, {0, inf, "auto", 0},  {-3e38f, 3e38f, "auto", 0}, {0, 1, "no", 0},
        {-2, 2, "yes", 1},      {-2, 2, "no", 0}};
    for (int k = 0; k < COUNT(cases); k++) {
        ppo_env env = place_env(cases[k].low, cases[k].high);
        ppo_config cfg = ppo_config_default();
        ppo_agent *agent = NULL;
        assert_ok(ppo_config_set(&cfg, "scale_actions", cases[k].setting));
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        if (agent->model.scale != cases[k].scale)
            fail_msg("%g to %g, %s", (double)box_low, (double)box_high, cases[k].setting);
        ppo_agent_free(agent);
    }
    ppo_env env = place_env(0, inf);
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    cfg.scale_actions = PPO_SCALE_YES;
    assert_fails(ppo_agent_create(&env, &cfg, &agent), PPO_ERROR_ARGUMENT,
                 "scale_actions needs a box of finite size, not 0 to inf");
    env = place_env(0, 1);
    cfg.squash = 1;
    assert_fails(ppo_agent_create(&env, &cfg, &agent), PPO_ERROR_ARGUMENT,
                 "scale_actions is yes, but has no effect: squash is yes");
    cfg.scale_actions = PPO_SCALE_AUTO;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_true(agent->model.squash && !agent->model.scale);
    ppo_agent_free(agent);
}

/* A file without the setting was written when boxes were not mapped, and a variance had an epsilon. */
static void a_policy_from_before_acts_as_it_did(void **state) {
    (void)state;
    const char *path = "build/traps_units.safetensors";
    ppo_env env = place_env(0, 1);
    ppo_config cfg = ppo_config_default(), read;
    ppo_agent *agent = NULL, *old = NULL;
    static char bytes[100000];
    const float obs = 0.3f;
    ppo_action action, again;
    cfg.scale_actions = PPO_SCALE_NO, cfg.normalize_obs = 1, cfg.total_steps = 4096;
    assert_ok(ppo_train(&env, &cfg, &agent));
    assert_ok(ppo_agent_save(agent, path));
    FILE *file = fopen(path, "rb");
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    for (size_t i = 0; i + 13 < size; i++)
        if (!memcmp(bytes + i, "scale_actions", 13)) bytes[i + 12] = 'x';
    file = fopen(path, "wb");
    assert_true(fwrite(bytes, 1, size, file) == size);
    fclose(file);
    assert_ok(ppo_agent_load(path, &env, &old));
    assert_ok(ppo_config_load(path, &read, NULL));
    assert_true(old->config.scale_actions == PPO_SCALE_NO && read.scale_actions == PPO_SCALE_NO);
    assert_false(old->model.scale);
    assert_true(old->obs_norm.var[0] == agent->obs_norm.var[0] + 1e-8);
    assert_ok(ppo_act(agent, &obs, NULL, &action));
    assert_ok(ppo_act(old, &obs, NULL, &again));
    assert_close(again.box[0], action.box[0], 1e-5);
    assert_ok(ppo_agent_save(old, path)); /* which is a new file */
    ppo_agent_free(agent);
    assert_ok(ppo_agent_load(path, &env, &agent));
    assert_true(old->obs_norm.var[0] == agent->obs_norm.var[0] && !agent->model.scale);
    remove(path);
    ppo_agent_free(old);
    ppo_agent_free(agent);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_do_not_change_a_bit_of_what_is_learned),
        cmocka_unit_test(cartpole_is_learned_in_every_unit),
        cmocka_unit_test(numbers_of_any_size_are_whitened),
        cmocka_unit_test(boxes_far_from_a_normal_distribution_are_learned),
        cmocka_unit_test(only_boxes_that_a_normal_distribution_does_not_fit_are_mapped),
        cmocka_unit_test(a_policy_from_before_acts_as_it_did),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
