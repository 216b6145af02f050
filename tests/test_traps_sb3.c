/* What users of Stable-Baselines3 look for first: the agent in a callback, resuming a training that was changed, what a
   policy would do and why, stacks of frames. */
#include "../ppo.h"

#include "../examples/companions/ppo_export.h"
#include "../examples/envs/cartpole.h"
#include "../examples/envs/pendulum.h"
#include "test.h"

static ppo_config config_of(const char *settings) {
    ppo_config cfg = ppo_config_default();
    assert_ok(ppo_config_set_all(&cfg, settings));
    return cfg;
}

/* --------------------------------------------------------------------------------------------------------
   The agent in a callback
   -------------------------------------------------------------------------------------------------------- */

typedef struct judge {
    const ppo_env *env;
    int calls, stop_after;
    float best;
} judge;

/* Everything that a program may want to do with the agent while it learns. */
static int judge_agent(const ppo_progress *progress, void *user) {
    judge *j = (judge *)user;
    ppo_agent *agent = progress->agent, *again = NULL;
    ppo_rng rng = ppo_rng_stream(7, PPO_STREAM_USER, 0);
    ppo_action action;
    float obs[8] = {0};
    assert_non_null(agent);
    const ppo_evaluation greedy = ppo_evaluate(agent, j->env, 3, 99);
    const ppo_evaluation sampled = ppo_evaluate_sampled(agent, j->env, 3, 99);
    assert_ok(greedy.status);
    assert_ok(sampled.status);
    assert_ok(ppo_act(agent, obs, &rng, &action));
    assert_ok(ppo_export_c(agent, "policy", "build/traps_sb3.h"));
    assert_ok(ppo_export_c_int8(agent, j->env, "policy", "build/traps_sb3.h"));
    if (!j->calls || greedy.mean_return > j->best) {
        j->best = greedy.mean_return;
        assert_ok(ppo_agent_save(agent, "build/traps_sb3_best.safetensors"));
        assert_ok(ppo_agent_load("build/traps_sb3_best.safetensors", j->env, &again));
        assert_true(ppo_evaluate(again, j->env, 3, 99).mean_return == greedy.mean_return);
        ppo_agent_free(again);
    }
    return ++j->calls == j->stop_after;
}

static ppo_agent *train_judged(const ppo_env *env, const char *settings, judge *j) {
    ppo_config cfg = config_of(settings);
    ppo_agent *agent = NULL; /* as in the synopsis: ppo_train() makes it */
    if (j) cfg.callback = judge_agent;
    cfg.callback_user = j;
    assert_ok(ppo_train(env, &cfg, &agent));
    return agent;
}

static void a_callback_has_the_agent_and_judging_it_changes_no_bit(void **state) {
    (void)state;
    const ppo_env envs[] = {cartpole_env(), pendulum_env(), cartpole_env()};
    static const char *const settings[] = {"total_steps=1024 rollout_steps=64",
                                           "total_steps=1024 rollout_steps=64 gsde=yes gsde_steps=4 "
                                           "normalize_obs=yes normalize_reward=yes threads=2",
                                           "total_steps=1024 rollout_steps=64 recurrent=8 sequence_steps=16"};
    for (int k = 0; k < COUNT(envs); k++) {
        judge j = {&envs[k], 0, 0, 0};
        ppo_agent *alone = train_judged(&envs[k], settings[k], NULL);
        ppo_agent *judged = train_judged(&envs[k], settings[k], &j);
        const ppo_params *p = alone->model.params, *q = judged->model.params;
        assert_int_equal(j.calls, 4);
        assert_int_equal(p->count, q->count);
        assert_memory_equal(p->data, q->data, p->count * sizeof(float));
        assert_true(alone->obs_norm.count == judged->obs_norm.count);
        ppo_agent_free(alone);
        ppo_agent_free(judged);
    }
}

static void a_callback_ends_the_training_with_the_agent_as_it_is(void **state) {
    (void)state;
    ppo_env env = cartpole_env();
    judge j = {&env, 0, 2, 0};
    ppo_agent *agent = train_judged(&env, "total_steps=2048 rollout_steps=64", &j);
    assert_int_equal(j.calls, 2);
    assert_true(agent->model.params->step > 0);
    ppo_agent_free(agent);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_callback_has_the_agent_and_judging_it_changes_no_bit),
        cmocka_unit_test(a_callback_ends_the_training_with_the_agent_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
