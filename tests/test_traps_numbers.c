/* Numbers that went wrong in the hands of users: masks, entropies, standard deviations, what files hold. */
#include "../ppo.h"

#include "test.h"

/* --------------------------------------------------------------------------------------------------------
   Illegal actions
   -------------------------------------------------------------------------------------------------------- */

/* The fenced walk, with a place that is seen `unit` times as large. */
static float unit;

static void far_reset(void *state, ppo_rng *rng, float *obs) {
    walk_reset(state, rng, obs);
    obs[0] *= unit, obs[1] *= unit;
}

static void far_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    fenced_step(state, rng, action, obs, out);
    obs[0] *= unit, obs[1] *= unit;
}

static ppo_env far_env(void) {
    ppo_env env = fenced_env();
    env.reset = far_reset;
    env.step = far_step;
    return env;
}

static void an_illegal_action_has_probability_0_for_any_finite_logits(void **state) {
    (void)state;
    static const float sizes[] = {1, 1e8f, 1e12f, 1e30f, FLT_MAX};
    enum { COLS = 40, ROWS = 3 };
    FOR_EACH_KERNEL_SET(k) {
        for (int i = 0; i < COUNT(sizes) * 2; i++) {
            const int heads[2] = {i % 2 ? 5 : 33, i % 2 ? 35 : 7};
            float data[ROWS * COLS], grad[ROWS * COLS] = {0}, old[ROWS * COLS];
            unsigned char mask[ROWS * COLS] = {0};
            int action[2 * ROWS];
            ppo_tensor logits = {ROWS, COLS, data, grad}, *logp, *entropy;
            ppo_rng rng = test_rng(i);
            ppo_tape *tape;
            for (int j = 0; j < ROWS * COLS; j++) data[j] = sizes[i / 2] * (j % 3 ? 1.f : -1.f);
            for (int r = 0; r < ROWS; r++) /* row 0 has one legal option in each choice, the others two */
                for (int h = 0; h < 2; h++) {
                    const int at = r * COLS + h * heads[0], one = (7 * r + i) % heads[h];
                    action[2 * r + h] = one;
                    mask[at + one] = 1;
                    data[at + one] = -sizes[i / 2];
                    if (r) mask[at + (one + 2) % heads[h]] = 1, data[at + (one + 2) % heads[h]] = -sizes[i / 2];
                }
            assert_ok(ppo_tape_create(&tape));
            ppo_tensor *masked = ppo_tape_mask(tape, &logits, mask);
            ppo_tape_multi_categorical(tape, masked, heads, 2, action, &logp, &entropy);
            memcpy(old, masked->data, sizeof old);
            ppo_tensor *kl = ppo_tape_multi_categorical_kl(tape, old, heads, 2, masked);
            ppo_tensor *loss = ppo_tape_add(tape, ppo_tape_sub(tape, logp, entropy), kl);
            assert_ok(ppo_tape_backward(tape, ppo_tape_sum(tape, loss)));
            assert_true(logp->data[0] == 0 && entropy->data[0] == 0);
            for (int r = 0; r < ROWS; r++) {
                assert_close(logp->data[r], r ? -2 * log(2) : 0, 1e-6);
                assert_close(entropy->data[r], r ? 2 * log(2) : 0, 1e-6);
                assert_true(kl->data[r] == 0);
                for (int h = 0; h < 2; h++) {
                    const float *row = masked->data + r * COLS + h * heads[0];
                    const unsigned char *legal = mask + r * COLS + h * heads[0];
                    assert_true(legal[ppo_categorical_mode(row, heads[h])]);
                    for (int n = 0; n < 20; n++)
                        assert_true(legal[ppo_categorical_sample(row, heads[h], 1, &rng)]);
                }
            }
            for (int j = 0; j < ROWS * COLS; j++)
                assert_true(isfinite(grad[j]) && (mask[j] || grad[j] == 0));
            ppo_tape_free(tape);
        }
    }
}

static void illegal_actions_are_not_taken_however_large_the_observations(void **state) {
    (void)state;
    static const char *const settings[] = {"hidden=none", "activation=relu", "hidden=none objective=kl-penalty"};
    ppo_env env = far_env();
    for (int i = 0; i < 2 * COUNT(settings); i++) {
        ppo_config cfg = ppo_config_default();
        ppo_agent *agent = NULL;
        ppo_action action;
        const unsigned char only[3] = {1, 0, 0};
        const float far[2] = {1.1e9f, 1e12f};
        unit = i % 2 ? 1e12f : 1e10f;
        illegal_actions = 0;
        assert_ok(ppo_config_set_all(&cfg, "total_steps=2048 rollout_steps=128 learning_rate=0.01"));
        assert_ok(ppo_config_set_all(&cfg, settings[i / 2]));
        assert_ok(ppo_train(&env, &cfg, &agent));
        ppo_evaluate(agent, &env, 20, 1);
        assert_int_equal(illegal_actions, 0);
        for (int j = 0; j < 2; j++) {
            assert_ok(ppo_act_masked(agent, far, only, NULL, &action));
            assert_int_equal(action.discrete, 0);
        }
        ppo_agent_free(agent);
    }
}

static void a_policy_that_is_not_finite_is_named_where_an_action_is_legal(void **state) {
    (void)state;
    ppo_env env = fenced_env();
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_action action;
    const unsigned char mask[3] = {0, 1, 1};
    const float obs[2] = {0.5f, 1};
    cfg.hidden_layers = 0;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    agent->model.actor.bias[0]->data[0] = NAN; /* where it is illegal it has no effect */
    assert_ok(ppo_act_masked(agent, obs, mask, NULL, &action));
    assert_true(action.discrete > 0);
    agent->model.actor.bias[0]->data[2] = -INFINITY;
    assert_fails(ppo_act_masked(agent, obs, mask, NULL, &action), PPO_ERROR_NUMERIC,
                 "policy output[2] is -infinite");
    ppo_agent_free(agent);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_illegal_action_has_probability_0_for_any_finite_logits),
        cmocka_unit_test(illegal_actions_are_not_taken_however_large_the_observations),
        cmocka_unit_test(a_policy_that_is_not_finite_is_named_where_an_action_is_legal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
