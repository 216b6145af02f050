/* Section 11: running mean and variance, as Stable-Baselines3 keeps them. */
#include "../ppo.h"

#include "golden/core.h"
#include "test.h"

enum { ROWS = g_rms_rows, DIM = g_rms_dim };

/* Column by column: the columns differ in size by a factor of 10^5. */
static void assert_moments(const ppo_normalizer *norm, const float *mean, const float *var,
                           double tolerance) {
    for (int j = 0; j < DIM; j++) {
        assert_close(norm->mean[j], mean[j], tolerance);
        assert_close(norm->var[j], var[j], tolerance);
    }
}

static void a_fresh_normalizer_is_the_identity_and_has_seen_nothing(void **state) {
    (void)state;
    ppo_normalizer norm;
    float x[2] = {0.5f, -3}, y[2];
    assert_ok(ppo_normalizer_init(&norm, 2));
    assert_int_equal(norm.size, 2);
    assert_true(norm.count == 0);
    for (int j = 0; j < 2; j++) assert_true(norm.mean[j] == 0 && norm.var[j] == 1);
    ppo_normalize(&norm, x, 1, 10, y);
    assert_close_array(y, x, 2, 1e-6);
    ppo_normalizer_free(&norm);
    ppo_normalizer_free(&norm); /* twice is nothing */
}

/* There a normalizer begins with a sample of variance 1 that weighs 1e-4. */
static void updates_agree_with_stable_baselines3_batch_by_batch(void **state) {
    (void)state;
    ppo_normalizer norm;
    assert_ok(ppo_normalizer_init(&norm, DIM));
    norm.count = 1e-4;
    for (int b = 0; b < g_rms_batches; b++) {
        ppo_normalizer_update(&norm, g_rms_x + b * ROWS * DIM, ROWS);
        assert_moments(&norm, g_rms_mean + b * DIM, g_rms_var + b * DIM, 1e-6);
        assert_close(norm.count, g_rms_count[b], 1e-6);
    }
    double count = norm.count;
    ppo_normalizer_update(&norm, g_rms_x, 0); /* no rows, no change */
    assert_moments(&norm, g_rms_mean + 3 * DIM, g_rms_var + 3 * DIM, 1e-6);
    assert_true(norm.count == count);
    ppo_normalizer_free(&norm);
}

static void the_moments_are_those_of_the_samples(void **state) {
    (void)state;
    ppo_normalizer norm;
    assert_ok(ppo_normalizer_init(&norm, DIM));
    for (int b = 0; b < g_rms_batches; b++) {
        ppo_normalizer_update(&norm, g_rms_x + b * ROWS * DIM, ROWS);
        assert_moments(&norm, g_rms_plain_mean + b * DIM, g_rms_plain_var + b * DIM, 1e-6);
    }
    assert_true(norm.count == ROWS * g_rms_batches);
    ppo_normalizer_free(&norm);
}

static void batches_of_any_size_give_the_same_moments(void **state) {
    (void)state;
    ppo_normalizer one, all;
    int rows = ROWS * g_rms_batches;
    assert_ok(ppo_normalizer_init(&one, DIM));
    assert_ok(ppo_normalizer_init(&all, DIM));
    for (int i = 0; i < rows; i++) ppo_normalizer_update(&one, g_rms_x + i * DIM, 1);
    ppo_normalizer_update(&all, g_rms_x, rows);
    for (int j = 0; j < DIM; j++) {
        assert_close(one.mean[j], all.mean[j], 1e-9);
        assert_close(one.var[j], all.var[j], 1e-9);
    }
    assert_close(one.count, all.count, 1e-12);
    ppo_normalizer_free(&one);
    ppo_normalizer_free(&all);
}

static void merging_two_is_seeing_the_samples_of_both(void **state) {
    (void)state;
    ppo_normalizer a, b, both, empty;
    int half = ROWS * g_rms_batches / 2 + 3, rest = ROWS * g_rms_batches - half;
    assert_ok(ppo_normalizer_init(&a, DIM));
    assert_ok(ppo_normalizer_init(&b, DIM));
    assert_ok(ppo_normalizer_init(&both, DIM));
    assert_ok(ppo_normalizer_init(&empty, DIM));
    ppo_normalizer_update(&a, g_rms_x, half);
    ppo_normalizer_update(&b, g_rms_x + half * DIM, rest);
    ppo_normalizer_update(&both, g_rms_x, half + rest);
    ppo__normalizer_merge(&a, &b);
    for (int k = 0; k < 2; k++) { /* then with nothing: no change, and no division by zero */
        for (int j = 0; j < DIM; j++) {
            assert_close(a.mean[j], both.mean[j], 1e-9);
            assert_close(a.var[j], both.var[j], 1e-9);
        }
        assert_close(a.count, both.count, 1e-12);
        ppo__normalizer_merge(&a, &empty);
    }
    ppo__normalizer_merge(&empty, &a); /* and into nothing: a copy */
    for (int j = 0; j < DIM; j++) {
        assert_close(empty.mean[j], a.mean[j], 1e-12);
        assert_close(empty.var[j], a.var[j], 1e-12);
    }
    ppo_normalizer_free(&a);
    ppo_normalizer_free(&b);
    ppo_normalizer_free(&both);
    ppo_normalizer_free(&empty);
}

static void normalized_observations_and_rewards_agree_with_vecnormalize(void **state) {
    (void)state;
    enum { ENVS = g_vecnorm_envs, SIZE = g_vecnorm_dim };
    ppo_normalizer obs, ret;
    float discounted[ENVS] = {0}, y[ENVS * SIZE];
    assert_ok(ppo_normalizer_init(&obs, SIZE));
    assert_ok(ppo_normalizer_init(&ret, 1));
    obs.count = ret.count = 1e-4; /* as there */
    for (int t = 0; t <= g_vecnorm_steps; t++) {
        const float *x = g_vecnorm_obs + t * ENVS * SIZE;
        ppo_normalizer_update(&obs, x, ENVS);
        ppo_normalize(&obs, x, ENVS, 10, y);
        for (int i = 0; i < ENVS * SIZE; i++)
            assert_true(fabs(y[i] - g_vecnorm_obs_out[t * ENVS * SIZE + i]) < 2e-6 * fmax(1, fabs(y[i])));
        if (t == g_vecnorm_steps) break;
        for (int e = 0; e < ENVS; e++) discounted[e] = discounted[e] * 0.99f + g_vecnorm_reward[t * ENVS + e];
        ppo_normalizer_update(&ret, discounted, ENVS);
        for (int e = 0; e < ENVS; e++) {
            double scaled = g_vecnorm_reward[t * ENVS + e] / sqrt(ret.var[0]);
            assert_true(fabs(fmin(fmax(scaled, -10), 10) - g_vecnorm_reward_out[t * ENVS + e]) < 1e-5);
            if (g_vecnorm_done[t * ENVS + e]) discounted[e] = 0;
        }
    }
    assert_close(ret.var[0], g_vecnorm_ret_var, 1e-6);
    ppo_normalizer_free(&obs);
    ppo_normalizer_free(&ret);
}

static void normalize_clips_and_may_work_in_place(void **state) {
    (void)state;
    ppo_normalizer norm;
    float x[6] = {1, 2, 3, -1e30f, 0, 1e30f}, y[6];
    assert_ok(ppo_normalizer_init(&norm, 3));
    norm.mean[0] = 1, norm.var[1] = 4, norm.var[2] = 0; /* infinitely many standard deviations */
    ppo_normalize(&norm, x, 2, 1.5f, y);
    const float want[6] = {0, 1, 1.5f, -1.5f, 0, 1.5f};
    assert_close_array(y, want, 6, 1e-6);
    ppo_normalize(&norm, x, 2, 1.5f, x);
    assert_false(bits_differ(x, y, 6));
    ppo_normalizer_free(&norm);
}

/* A discounted return of rewards near FLT_MAX is infinite. */
static void infinite_samples_leave_finite_moments(void **state) {
    (void)state;
    ppo_normalizer norm;
    float x[3] = {INFINITY, -INFINITY, 3e38f}, y[3], reward = 3e38f;
    assert_ok(ppo_normalizer_init(&norm, 1));
    for (int i = 0; i < 3; i++) {
        ppo_normalizer_update(&norm, x + i, 1);
        ppo_normalizer_update(&norm, x, 3);
        assert_true(isfinite(norm.mean[0]) && norm.var[0] > 0 && isfinite(norm.var[0]));
        ppo_normalize(&norm, x, 3, 10, y);
        for (int k = 0; k < 3; k++) assert_true(y[k] >= -10 && y[k] <= 10);
        assert_true(fabs(reward / sqrt(norm.var[0]) - 1) < 0.5);
    }
    ppo_normalizer_free(&norm);
}

/* Numbers of every unit come to the same, down to 1e-30; where all are equal, to 0. */
static void the_unit_of_samples_does_not_matter(void **state) {
    (void)state;
    enum { N = 64 };
    static const float units[] = {1e-30f, 1e-15f, 1e-6f, 1, 1e15f, 1e30f};
    float x[N][2], y[N][2], first[N][2];
    for (int u = 0; u < COUNT(units); u++) {
        ppo_normalizer norm;
        ppo_rng rng = test_rng(3);
        assert_ok(ppo_normalizer_init(&norm, 2));
        for (int i = 0; i < N; i++) x[i][0] = units[u] * (3 + ppo_rng_normal(&rng)), x[i][1] = units[u] * 0.7f;
        for (int i = 0; i < N; i++) ppo_normalizer_update(&norm, x[i], 1);
        ppo_normalize(&norm, x[0], N, 10, y[0]);
        if (!u) memcpy(first, y, sizeof y);
        double squares = 0;
        for (int i = 0; i < N; i++) {
            squares += (double)y[i][0] * y[i][0] / N;
            assert_close(y[i][0], first[i][0], 1e-5);
            assert_true(y[i][1] == 0);
        }
        assert_close(squares, 1, 1e-5);
        ppo_normalizer_free(&norm);
    }
}

static void normalizer_refuses_bad_sizes(void **state) {
    (void)state;
    ppo_normalizer norm;
    assert_fails(ppo_normalizer_init(&norm, 0), PPO_ERROR_ARGUMENT, "0");
    assert_fails(ppo_normalizer_init(&norm, -4), PPO_ERROR_ARGUMENT, "-4");
    assert_fails(ppo_normalizer_init(NULL, 4), PPO_ERROR_ARGUMENT, "NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fresh_normalizer_is_the_identity_and_has_seen_nothing),
        cmocka_unit_test(updates_agree_with_stable_baselines3_batch_by_batch),
        cmocka_unit_test(the_moments_are_those_of_the_samples),
        cmocka_unit_test(batches_of_any_size_give_the_same_moments),
        cmocka_unit_test(merging_two_is_seeing_the_samples_of_both),
        cmocka_unit_test(normalized_observations_and_rewards_agree_with_vecnormalize),
        cmocka_unit_test(normalize_clips_and_may_work_in_place),
        cmocka_unit_test(infinite_samples_leave_finite_moments),
        cmocka_unit_test(the_unit_of_samples_does_not_matter),
        cmocka_unit_test(normalizer_refuses_bad_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
