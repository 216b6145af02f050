/* Section 8: generalized advantage estimation, whitening, explained variance. */
#include "../ppo.h"

#include "golden/core.h"
#include "test.h"

enum { STEPS = g_gae_steps, ENVS = g_gae_envs, SIZE = STEPS * ENVS };
#define GAE g_gae_reward, g_gae_value, g_gae_next_value, g_gae_terminated, g_gae_truncated, STEPS, ENVS

static void gae_agrees_with_its_formula_in_double_precision(void **state) {
    (void)state;
    float advantage[SIZE], target[SIZE];
    assert_ok(ppo_gae(GAE, g_gae_gamma, g_gae_lambda, advantage, target));
    assert_close_array(advantage, g_gae_advantage, SIZE, 1e-6);
    assert_close_array(target, g_gae_value_target, SIZE, 1e-6);
    assert_ok(ppo_gae(GAE, g_gae_gamma, 0, advantage, target));
    assert_close_array(advantage, g_gae_advantage_td, SIZE, 1e-6);
    assert_close_array(target, g_gae_value_target_td, SIZE, 1e-6);
    assert_ok(ppo_gae(GAE, g_gae_gamma, 1, advantage, target));
    assert_close_array(advantage, g_gae_advantage_mc, SIZE, 1e-6);
    assert_close_array(target, g_gae_value_target_mc, SIZE, 1e-6);
    float alone[SIZE];
    assert_ok(ppo_gae(GAE, g_gae_gamma, 1, alone, NULL));
    assert_false(bits_differ(alone, advantage, SIZE));
}

static void gae_agrees_with_stable_baselines3_where_nothing_is_truncated(void **state) {
    (void)state;
    float advantage[SIZE], target[SIZE];
    static const unsigned char zeros[SIZE] = {0};
    for (int k = 0; k < 2; k++) {
        assert_ok(ppo_gae(g_gae_reward, g_gae_value, g_gae_sb3_next_value, g_gae_terminated, k ? zeros : NULL,
                          STEPS, ENVS, g_gae_gamma, g_gae_lambda, advantage, target));
        assert_close_array(advantage, g_gae_sb3_advantage, SIZE, 1e-6);
        assert_close_array(target, g_gae_sb3_value_target, SIZE, 1e-6);
    }
}

static void lambda_0_is_the_one_step_td_error(void **state) {
    (void)state;
    float advantage[SIZE];
    assert_ok(ppo_gae(GAE, 0.9f, 0, advantage, NULL));
    for (int i = 0; i < SIZE; i++) {
        double next = g_gae_terminated[i] ? 0 : g_gae_next_value[i];
        assert_true(fabs(advantage[i] - (g_gae_reward[i] + 0.9f * next - g_gae_value[i])) < 1e-6);
    }
}

static void lambda_1_is_the_discounted_return_minus_the_baseline(void **state) {
    (void)state;
    float advantage[SIZE], target[SIZE];
    assert_ok(ppo_gae(GAE, 0.9f, 1, advantage, target));
    for (int e = 0; e < ENVS; e++)
        for (int t = 0; t < STEPS; t++) {
            double sum = 0, discount = 1;
            for (int s = t; s < STEPS; s++, discount *= 0.9f) { /* the return up to the episode's end */
                int i = s * ENVS + e;
                sum += discount * g_gae_reward[i];
                if (g_gae_terminated[i]) break;
                if (g_gae_truncated[i] || s == STEPS - 1) {
                    sum += discount * 0.9f * g_gae_next_value[i];
                    break;
                }
            }
            assert_true(fabs(target[t * ENVS + e] - sum) < 2e-6);
            assert_true(fabs(advantage[t * ENVS + e] - (sum - g_gae_value[t * ENVS + e])) < 2e-6);
        }
}

static void truncation_bootstraps_and_termination_does_not_even_read_next_value(void **state) {
    (void)state;
    float reward[2] = {1, 1}, value[2] = {0.5f, 0.5f}, next[2] = {NAN, 10}, advantage[2], target[2];
    unsigned char terminated[2] = {1, 0}, truncated[2] = {0, 1};
    assert_ok(ppo_gae(reward, value, next, terminated, truncated, 1, 2, 0.9f, 0.95f, advantage, target));
    assert_close(advantage[0], 0.5, 1e-6);
    assert_close(target[0], 1, 1e-6);
    assert_close(advantage[1], 1 + 9 - 0.5, 1e-6);
    assert_close(target[1], 10, 1e-6);
    truncated[0] = 1; /* both at once: the task ended */
    assert_ok(ppo_gae(reward, value, next, terminated, truncated, 1, 2, 0.9f, 0.95f, advantage, target));
    assert_close(advantage[0], 0.5, 1e-6);
}

static void both_ends_cut_the_recursion(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        float reward[2] = {1, 1}, value[2] = {0, 0}, next[2] = {0, 0}, advantage[2];
        unsigned char terminated[2] = {k == 0, 0}, truncated[2] = {k == 1, 0};
        assert_ok(ppo_gae(reward, value, next, terminated, truncated, 2, 1, 0.9f, 0.95f, advantage, NULL));
        assert_true(advantage[0] == 1 && advantage[1] == 1);
    }
}

static void environments_are_independent(void **state) {
    (void)state;
    float together[SIZE], alone[STEPS], column[3][STEPS];
    assert_ok(ppo_gae(GAE, g_gae_gamma, g_gae_lambda, together, NULL));
    for (int e = 0; e < ENVS; e++) {
        unsigned char end[2][STEPS];
        for (int t = 0; t < STEPS; t++) {
            int i = t * ENVS + e;
            column[0][t] = g_gae_reward[i], column[1][t] = g_gae_value[i], column[2][t] = g_gae_next_value[i];
            end[0][t] = g_gae_terminated[i], end[1][t] = g_gae_truncated[i];
        }
        assert_ok(ppo_gae(column[0], column[1], column[2], end[0], end[1], STEPS, 1, g_gae_gamma,
                          g_gae_lambda, alone, NULL));
        for (int t = 0; t < STEPS; t++) assert_true(alone[t] == together[t * ENVS + e]);
    }
}

static void gae_refuses_bad_input(void **state) {
    (void)state;
    float x[2] = {1, 2}, bad[2] = {1, NAN}, out[2];
    assert_fails(ppo_gae(NULL, x, x, NULL, NULL, 2, 1, 1, 1, out, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_gae(x, NULL, x, NULL, NULL, 2, 1, 1, 1, out, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_gae(x, x, NULL, NULL, NULL, 2, 1, 1, 1, out, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_gae(x, x, x, NULL, NULL, 2, 1, 1, 1, NULL, out), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_gae(x, x, x, NULL, NULL, 0, 1, 1, 1, out, NULL), PPO_ERROR_ARGUMENT, "0 steps");
    assert_fails(ppo_gae(x, x, x, NULL, NULL, 2, -3, 1, 1, out, NULL), PPO_ERROR_ARGUMENT, "-3 environments");
    assert_fails(ppo_gae(x, x, x, NULL, NULL, 2, 1, 1.5f, 1, out, NULL), PPO_ERROR_ARGUMENT, "gamma|1.5");
    assert_fails(ppo_gae(x, x, x, NULL, NULL, 2, 1, NAN, 1, out, NULL), PPO_ERROR_ARGUMENT, "gamma|nan");
    assert_fails(ppo_gae(x, x, x, NULL, NULL, 2, 1, 1, -0.25f, out, NULL), PPO_ERROR_ARGUMENT,
                 "lambda|-0.25");
    assert_fails(ppo_gae(bad, x, x, NULL, NULL, 2, 1, 1, 1, out, NULL), PPO_ERROR_NUMERIC, "step 1");
    assert_fails(ppo_gae(x, bad, x, NULL, NULL, 2, 1, 1, 1, out, NULL), PPO_ERROR_NUMERIC, "step 1");
    assert_fails(ppo_gae(x, x, bad, NULL, NULL, 2, 1, 1, 1, out, NULL), PPO_ERROR_NUMERIC, "step 1");
}

static void whiten_agrees_with_trl(void **state) {
    (void)state;
    static const struct {
        const unsigned char *mask;
        int shift_mean;
        const float *want;
    } cases[] = {{NULL, 1, g_whiten_shift},
                 {NULL, 0, g_whiten_keep},
                 {g_whiten_mask, 1, g_whiten_shift_masked},
                 {g_whiten_mask, 0, g_whiten_keep_masked}};
    for (int i = 0; i < COUNT(cases); i++) {
        float x[g_whiten_n];
        memcpy(x, g_whiten_x, sizeof x);
        assert_ok(ppo_whiten(x, cases[i].mask, g_whiten_n, cases[i].shift_mean));
        assert_close_array(x, cases[i].want, g_whiten_n, 1e-6);
        for (int j = 0; j < g_whiten_n && cases[i].mask; j++)
            if (!cases[i].mask[j]) assert_true(x[j] == g_whiten_x[j]);
    }
}

static void whitened_numbers_have_mean_0_and_unbiased_variance_1(void **state) {
    (void)state;
    enum { N = 1001 };
    ppo_rng rng = test_rng(1);
    float x[N];
    double sum = 0, squares = 0;
    for (int i = 0; i < N; i++)
        x[i] = 1000 + ppo_rng_normal(&rng); /* a mean that would drown in float sums */
    assert_ok(ppo_whiten(x, NULL, N, 1));
    for (int i = 0; i < N; i++) sum += x[i], squares += (double)x[i] * x[i];
    assert_true(fabs(sum / N) < 1e-4);
    assert_true(fabs((squares - sum * sum / N) / (N - 1) - 1) < 1e-5);
}

static void whiten_leaves_fewer_than_two_numbers_and_equal_ones_finite(void **state) {
    (void)state;
    float one[1] = {5}, two[2] = {5, 7}, equal[3] = {2, 2, 2};
    unsigned char first[2] = {1, 0}, none[2] = {0, 0};
    assert_ok(ppo_whiten(one, NULL, 1, 1));
    assert_true(one[0] == 5);
    assert_ok(ppo_whiten(two, first, 2, 1));
    assert_true(two[0] == 5 && two[1] == 7);
    assert_fails(ppo_whiten(two, none, 2, 0), PPO_ERROR_ARGUMENT, "masked|2");
    assert_true(two[0] == 5 && two[1] == 7);
    assert_ok(ppo_whiten(equal, NULL, 3, 1));
    for (int i = 0; i < 3; i++) assert_true(equal[i] == 0);
}

static void whiten_refuses_bad_input(void **state) {
    (void)state;
    float x[3] = {1, NAN, 3}, y[3] = {1, 2, INFINITY}, z[3] = {1, 2, 3};
    unsigned char masked[3] = {1, 0, 1};
    assert_fails(ppo_whiten(NULL, NULL, 3, 1), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_whiten(z, NULL, 0, 1), PPO_ERROR_ARGUMENT, "0");
    assert_fails(ppo_whiten(z, NULL, -2, 1), PPO_ERROR_ARGUMENT, "-2");
    assert_fails(ppo_whiten(y, NULL, 3, 1), PPO_ERROR_NUMERIC, "2");
    assert_fails(ppo_whiten(x, NULL, 3, 1), PPO_ERROR_NUMERIC, "1");
    x[0] = 1, x[1] = NAN, x[2] = 3;
    assert_ok(ppo_whiten(x, masked, 3, 1)); /* what is masked is not looked at */
    assert_close(x[2], sqrt(0.5), 1e-6);
}

static void explained_variance_agrees_with_stable_baselines3(void **state) {
    (void)state;
    for (int i = 0; i < g_ev_rows; i++) {
        float ev = ppo_explained_variance(g_ev_value + i * g_ev_n, g_ev_target, g_ev_n);
        assert_true(fabs(ev - g_ev_result[i]) < 1e-6 * fmax(1, fabs(g_ev_result[i])));
    }
}

static void explained_variance_of_equal_targets_is_nan(void **state) {
    (void)state;
    float value[3] = {1, 2, 3}, target[3] = {4, 4, 4};
    assert_nan(ppo_explained_variance(value, target, 3));
    assert_nan(ppo_explained_variance(value, target, 1));
    static float equal[2000], some[2000];
    for (int i = 0; i < 2000; i++) equal[i] = 0.1f, some[i] = (float)(i % 7);
    for (int n = 1; n <= 2000; n++) assert_nan(ppo_explained_variance(some, equal, n));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gae_agrees_with_its_formula_in_double_precision),
        cmocka_unit_test(gae_agrees_with_stable_baselines3_where_nothing_is_truncated),
        cmocka_unit_test(lambda_0_is_the_one_step_td_error),
        cmocka_unit_test(lambda_1_is_the_discounted_return_minus_the_baseline),
        cmocka_unit_test(truncation_bootstraps_and_termination_does_not_even_read_next_value),
        cmocka_unit_test(both_ends_cut_the_recursion),
        cmocka_unit_test(environments_are_independent),
        cmocka_unit_test(gae_refuses_bad_input),
        cmocka_unit_test(whiten_agrees_with_trl),
        cmocka_unit_test(whitened_numbers_have_mean_0_and_unbiased_variance_1),
        cmocka_unit_test(whiten_leaves_fewer_than_two_numbers_and_equal_ones_finite),
        cmocka_unit_test(whiten_refuses_bad_input),
        cmocka_unit_test(explained_variance_agrees_with_stable_baselines3),
        cmocka_unit_test(explained_variance_of_equal_targets_is_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
