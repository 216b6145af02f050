/* Section 10: Adam, gradient clipping, schedules, the adaptive KL coefficient. */
#include "../ppo.h"

#include "golden/core.h"
#include "test.h"

static ppo_adam golden_adam(float weight_decay) {
    ppo_adam adam = ppo_adam_default();
    adam.lr = 3e-3f;
    adam.weight_decay = weight_decay;
    return adam;
}

static void adam_defaults_are_those_of_the_literature(void **state) {
    (void)state;
    ppo_adam adam = ppo_adam_default();
    assert_true(adam.lr == 3e-4f && adam.beta1 == 0.9f && adam.beta2 == 0.999f && adam.eps == 1e-5f);
    assert_true(adam.weight_decay == 0);
}

static void adam_and_adamw_agree_with_pytorch_over_five_steps(void **state) {
    (void)state;
    enum { N = g_adam_n };
    FOR_EACH_KERNEL_SET(set) {
        for (int decay = 0; decay < 2; decay++) {
            ppo_adam adam = golden_adam(decay ? 0.01f : 0);
            const float *want = decay ? g_adamw_param : g_adam_param;
            float param[N], m[N] = {0}, v[N] = {0};
            memcpy(param, g_adam_start, sizeof param);
            for (int step = 1; step <= g_adam_steps; step++) {
                ppo_adam_step(param, g_adam_grad + (step - 1) * N, m, v, N, &adam, step);
                assert_close_array(param, want + (step - 1) * N, N, 1e-6);
                for (int i = 0; i < N; i++) /* and the way gone, which is small beside the parameter */
                    assert_true(fabs((param[i] - g_adam_start[i]) -
                                     (want[(step - 1) * N + i] - g_adam_start[i])) < 1e-6);
            }
            for (int i = 0; i < N;
                 i++) { /* each to its own size: the gradients span eight orders of magnitude */
                assert_true(
                    is_close(m[i], (decay ? g_adamw_m : g_adam_m)[i], 2e-6, fabsf(g_adam_m[i]) + 1e-12));
                assert_true(is_close(v[i], (decay ? g_adamw_v : g_adam_v)[i], 2e-6, g_adam_v[i] + 1e-20));
            }
        }
    }
}

static void adam_leaves_what_lies_beyond_n_alone(void **state) {
    (void)state;
    FOR_EACH_KERNEL_SET(set) {
        for (int n = 1; n < 40; n++) {
            float p[48], g[48], m[48], v[48];
            ppo_adam adam = golden_adam(0.01f);
            for (int i = 0; i < 48; i++) p[i] = g[i] = 1, m[i] = v[i] = 0;
            ppo_adam_step(p, g, m, v, (size_t)n, &adam, 1);
            for (int i = 0; i < 48; i++)
                assert_true((p[i] != 1) == (i < n) && (m[i] != 0) == (i < n) && (v[i] != 0) == (i < n));
        }
    }
}

static void clip_grad_norm_agrees_with_pytorch(void **state) {
    (void)state;
    enum { N = g_clip_norm_n };
    FOR_EACH_KERNEL_SET(set) {
        for (int k = 0; k < 2; k++) {
            float grad[N];
            memcpy(grad, g_clip_norm_grad, sizeof grad);
            assert_close(ppo_clip_grad_norm(grad, N, g_clip_norm_max_norm[k]), g_clip_norm_norm, 1e-6);
            assert_close_array(grad, g_clip_norm_result + k * N, N, 1e-6);
        }
    }
}

static void clip_grad_norm_at_most_zero_sets_no_limit(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        float grad[2] = {3, -4};
        assert_close(ppo_clip_grad_norm(grad, 2, k ? -1.0f : 0.0f), 5, 1e-6);
        assert_true(grad[0] == 3 && grad[1] == -4);
    }
}

static void clip_grad_norm_survives_squares_beyond_float(void **state) {
    (void)state;
    FOR_EACH_KERNEL_SET(set) {
        float huge[2] = {3e25f, -4e25f}, tiny[2] = {3e-30f, -4e-30f};
        assert_close(ppo_clip_grad_norm(huge, 2, 1), 5e25, 1e-6);
        assert_close(huge[0], 0.6, 1e-6);
        assert_close(ppo_clip_grad_norm(tiny, 2, 1), 5e-30, 1e-6);
        assert_true(tiny[0] == 3e-30f);
    }
}

static ppo_params *two_parameters(void) {
    ppo_params *params = NULL;
    assert_ok(ppo_params_create(&params));
    ppo_tensor *a = ppo_params_add(params, "a", 2, 3), *b = ppo_params_add(params, "b", 1, 5);
    assert_true(a && b);
    for (int i = 0; i < 6; i++) a->data[i] = (float)i, a->grad[i] = 1;
    for (int i = 0; i < 5; i++) b->data[i] = (float)-i, b->grad[i] = -2;
    return params;
}

static void params_step_clips_and_steps_and_zero_grad_zeroes(void **state) {
    (void)state;
    ppo_params *params = two_parameters();
    ppo_adam adam = golden_adam(0);
    float norm = 0;
    assert_ok(ppo_params_step(params, &adam, 0.5f, &norm));
    assert_close(norm, sqrt(6 + 20), 1e-6);
    assert_int_equal(params->step, 1);
    for (int i = 0; i < 6;
         i++) { /* the first step of Adam is lr, whatever the size of the gradient, but for eps */
        double clipped = 0.5 / sqrt(26), want = i - 3e-3 * clipped / (clipped + 1e-5);
        assert_true(fabs(params->tensors[0]->data[i] - want) < 1e-6);
    }
    for (int i = 0; i < 5; i++) assert_true(fabs(params->tensors[1]->data[i] - (-i + 3e-3)) < 1e-6);
    ppo_params_zero_grad(params);
    ppo_params_zero_grad(NULL);
    for (size_t i = 0; i < params->count; i++) assert_true(params->grad[i] == 0);
    size_t used = 0; /* the gaps between the tensors take no part */
    for (size_t i = 0; i < params->count; i++) used += params->v[i] != 0;
    assert_int_equal(used, 11);
    assert_ok(ppo_params_step(params, &adam, 0, NULL));
    assert_int_equal(params->step, 2);
    ppo_params_free(params);
}

static void a_gradient_that_is_not_finite_changes_nothing(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int k = 0; k < COUNT(bad); k++) {
        ppo_params *params = two_parameters();
        ppo_adam adam = golden_adam(0.01f);
        float norm;
        assert_ok(ppo_params_step(params, &adam, 0.5f, NULL));
        params->tensors[0]->grad[1] = 7;
        params->tensors[1]->grad[3] = bad[k];
        size_t bytes = params->count * sizeof(float);
        float *before = (float *)malloc(4 * bytes);
        float *const blocks[] = {params->data, params->grad, params->m, params->v};
        for (int b = 0; b < 4; b++) memcpy(before + (size_t)b * params->count, blocks[b], bytes);
        assert_fails(ppo_params_step(params, &adam, 0.5f, &norm), PPO_ERROR_NUMERIC, k ? "inf" : "nan");
        for (int b = 0; b < 4; b++) assert_memory_equal(blocks[b], before + (size_t)b * params->count, bytes);
        assert_int_equal(params->step, 1);
        free(before);
        ppo_params_free(params);
    }
}

/* Neighbours of one rate are one pass: whatever the pattern, each tensor must come out as if it had been
   stepped alone, with its own rate. */
static void each_tensor_learns_at_its_own_rate(void **state) {
    (void)state;
    enum { TENSORS = 6, SIZE = 5 };
    ppo_adam adam = golden_adam(0.01f);
    for (int pattern = 0; pattern < 1 << TENSORS; pattern++) {
        ppo_params *params = NULL;
        float data[TENSORS][SIZE], m[TENSORS][SIZE] = {{0}}, v[TENSORS][SIZE] = {{0}};
        assert_ok(ppo_params_create(&params));
        for (int i = 0; i < TENSORS; i++) {
            char name[8];
            snprintf(name, sizeof name, "t%d", i);
            assert_non_null(ppo_params_add(params, name, 1, SIZE));
            assert_true(params->lr_scale[i] == 1);
        }
        for (int i = 0; i < TENSORS; i++) {
            params->lr_scale[i] = pattern >> i & 1 ? 0.25f * (float)(i % 3) : 1; /* 0: frozen */
            for (int j = 0; j < SIZE; j++) {
                params->tensors[i]->data[j] = data[i][j] = (float)(i - j);
                params->tensors[i]->grad[j] = 0.1f * (float)(i + j + 1);
            }
        }
        for (int step = 1; step <= 2; step++) {
            assert_ok(ppo_params_step(params, &adam, 0, NULL));
            for (int i = 0; i < TENSORS; i++) {
                ppo_adam own = adam;
                own.lr *= params->lr_scale[i];
                ppo_adam_step(data[i], params->tensors[i]->grad, m[i], v[i], SIZE, &own, step);
                assert_false(bits_differ(params->tensors[i]->data, data[i], SIZE));
                if (own.lr == 0) assert_true(data[i][1] == (float)(i - 1));
            }
        }
        ppo_params_free(params);
    }
}

/* NaN equals nothing, not even itself: it must neither stop the pass nor reach the neighbours. */
static void a_rate_that_is_not_a_number_stays_with_its_tensor(void **state) {
    (void)state;
    for (int broken = 0; broken < 2; broken++) {
        ppo_params *params = two_parameters();
        ppo_adam adam = ppo_adam_default();
        params->lr_scale[broken] = NAN;
        assert_ok(ppo_params_step(params, &adam, 0, NULL));
        assert_true(isnan(params->tensors[broken]->data[0]));
        assert_true(fabsf(params->tensors[!broken]->data[0]) > 1e-4f); /* it was 0 */
        ppo_params_free(params);
    }
}

static void params_step_refuses_null_and_numbers_that_give_nan(void **state) {
    (void)state;
    static const ppo_adam bad[] = {{0, 0, 0, 0, 0},
                                   {1e-3f, 0.9f, 0.999f, NAN, 0},
                                   {1e-3f, 1, 0.999f, 1e-8f, 0},
                                   {1e-3f, 0.9f, 1, 1e-8f, 0},
                                   {1e-3f, -0.1f, 0.999f, 1e-8f, 0},
                                   {1e-3f, 0.9f, NAN, 1e-8f, 0}};
    ppo_params *params = two_parameters();
    ppo_adam adam = ppo_adam_default();
    for (int k = 0; k < COUNT(bad); k++)
        assert_fails(ppo_params_step(params, &bad[k], 0, NULL), PPO_ERROR_ARGUMENT, "ppo_adam_default()");
    assert_fails(ppo_params_step(NULL, &adam, 0, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_params_step(params, NULL, 0, NULL), PPO_ERROR_ARGUMENT, "NULL");
    ppo_params_free(params);
}

static void schedules_start_at_the_value_and_end_at_zero(void **state) {
    (void)state;
    static const struct {
        int schedule;
        float progress, want;
    } cases[] = {{PPO_CONSTANT, 0, 4},   {PPO_CONSTANT, 0.5f, 4},
                 {PPO_CONSTANT, 1, 4},   {PPO_LINEAR, 0, 4},
                 {PPO_LINEAR, 0.25f, 3}, {PPO_LINEAR, 1, 0},
                 {PPO_COSINE, 0, 4},     {PPO_COSINE, 0.5f, 2},
                 {PPO_COSINE, 1, 0},     {PPO_COSINE, 0.25f, 3.41421356f},
                 {PPO_LINEAR, 1.5f, 0},  {PPO_LINEAR, -1, 4}};
    for (int i = 0; i < COUNT(cases); i++) {
        float rate = ppo_schedule(cases[i].schedule, 4, cases[i].progress);
        assert_true(fabs(rate - cases[i].want) < 1e-6 && rate >= 0);
    }
}

static void adaptive_kl_agrees_with_trl(void **state) {
    (void)state;
    for (int i = 0; i < g_adaptive_kl_n; i++)
        assert_close(ppo_adaptive_kl(g_adaptive_kl_coef[i], g_adaptive_kl_observed[i],
                                     g_adaptive_kl_target[i], g_adaptive_kl_n_steps[i],
                                     g_adaptive_kl_horizon[i]),
                     g_adaptive_kl_result[i], 1e-6);
}

/* Schulman 2017, section 4: d < d_targ / 1.5 halves, d > 1.5 d_targ doubles, and nothing in between. */
static void adaptive_kl_of_2017_halves_and_doubles_outside_its_band(void **state) {
    (void)state;
    static const float cases[][2] = {{0, 0.5f},     {-1e-9f, 0.5f}, {0.00666f, 0.5f},
                                     {0.00667f, 1}, {0.01f, 1},     {0.01499f, 1},
                                     {0.01501f, 2}, {5, 2},         {INFINITY, 2.0f}};
    for (int i = 0; i < COUNT(cases); i++) {
        assert_true(ppo_adaptive_kl_2017(3, cases[i][0], 0.01f) == 3 * cases[i][1]);
        assert_true(ppo_adaptive_kl_2017(3, 100 * cases[i][0], 1) == 3 * cases[i][1]);
    }
    assert_true(ppo_adaptive_kl_2017(0, 1, 0.01f) == 0);
}

static void decay_may_be_of_matrices_alone(void **state) {
    (void)state;
    for (int matrices = 0; matrices < 2; matrices++) {
        ppo_params *params = NULL;
        ppo_tensor *tensor[4];
        ppo_adam adam = ppo_adam_default();
        adam.lr = 0.5f, adam.weight_decay = 0.1f;
        assert_ok(ppo_params_create(&params));
        for (int i = 0; i < 4; i++)
            assert_non_null(ppo_params_add(params, (const char[]){(char)('a' + i), 0}, 1 + i % 2, 3));
        memcpy(tensor, params->tensors, sizeof tensor);
        for (int i = 0; i < 4; i++) tensor[i]->data[0] = 2;
        params->decay_matrices = matrices;
        assert_ok(ppo_params_step(params, &adam, 0, NULL)); /* without a gradient */
        for (int i = 0; i < 4; i++) assert_true(tensor[i]->data[0] == (matrices && i % 2 == 0 ? 2.0f : 1.9f));
        ppo_params_free(params);
    }
}

static ppo_status freeze_and_thaw(void *user) {
    ppo_params *params = NULL;
    ppo_status status = ppo_params_create(&params);
    (void)user;
    if (!status && !ppo_params_add(params, "a", 2, 3)) status = PPO_ERROR_MEMORY;
    if (!status) params->data[1] = 5;
    if (!status) status = ppo_params_freeze(params, 1);
    if (!status) status = ppo_params_freeze(params, 0);
    if (params && params->count && params->data[1] != 0 && params->data[1] != 5) status = PPO_ERROR_NUMERIC;
    ppo_params_free(params);
    return status;
}

static void what_is_frozen_has_numbers_alone_and_cannot_learn(void **state) {
    (void)state;
    ppo_params *params = NULL;
    ppo_adam adam = ppo_adam_default();
    assert_ok(ppo_params_create(&params));
    ppo_tensor *a = ppo_params_add(params, "a", 5, 7), *b = ppo_params_add(params, "b", 1, 3);
    for (int i = 0; i < 35; i++) a->data[i] = (float)i, a->grad[i] = 1;
    b->data[2] = 8, b->grad = NULL; /* which its owner wants not */
    assert_ok(ppo_params_step(params, &adam, 0, NULL));
    float learned = a->data[34];
    assert_ok(ppo_params_freeze(params, 1));
    assert_true(params->frozen && !params->grad && !params->m && !params->v && !a->grad && params->step == 0);
    assert_true(a->data[34] == learned && b->data[2] == 8);
    ppo_params_zero_grad(params);
    ppo_params_reset_optimizer(params);
    assert_fails(ppo_params_step(params, &adam, 0, NULL), PPO_ERROR_ARGUMENT, "frozen|ppo_params_freeze()");
    ppo_tensor *c = ppo_params_add(params, "c", 40, 40);
    assert_true(c && !c->grad && a->data[34] == learned);
    assert_ok(ppo_params_freeze(params, 1));
    assert_ok(ppo_params_freeze(params, 0));
    assert_true(!params->frozen && a->data[34] == learned && b->data[2] == 8);
    for (size_t i = 0; i < params->count; i++)
        assert_true(params->grad[i] == 0 && params->m[i] == 0 && params->v[i] == 0);
    for (int i = 0; i < 35; i++) a->grad[i] = 1;
    assert_ok(ppo_params_step(params, &adam, 0, NULL));
    assert_true(a->data[34] < learned && params->step == 1);
    ppo_params_free(params);
    assert_fails(ppo_params_freeze(NULL, 1), PPO_ERROR_ARGUMENT, "ppo_params_freeze|NULL");
    assert_in_range(fail_each_allocation(freeze_and_thaw, NULL), 3, 20);
}

/* As of a unit that is dead for good. */
static void a_moment_without_gradient_ends_at_zero(void **state) {
    (void)state;
    enum { N = 37 };
    FOR_EACH_KERNEL_SET(set) {
        const ppo_adam adam = ppo_adam_default();
        float p[N], g[N] = {0}, m[N], v[N];
        for (int i = 0; i < N; i++) p[i] = 1, m[i] = i % 2 ? 1e-35f : -1e-35f, v[i] = 1e-3f;
        for (int64_t step = 1000; step < 1100; step++) ppo_adam_step(p, g, m, v, N, &adam, step);
        for (int i = 0; i < N; i++)
            if (m[i] != 0 || p[i] != 1)
                fail_msg("%s: m %g, p %g", ppo_kernels_name(), (double)m[i], (double)p[i]);
        g[3] = 1e-3f, g[5] = NAN;
        ppo_adam_step(p, g, m, v, N, &adam, 1100);
        assert_true(m[3] > 0 && m[4] == 0 && isnan(m[5]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adam_defaults_are_those_of_the_literature),
        cmocka_unit_test(adam_and_adamw_agree_with_pytorch_over_five_steps),
        cmocka_unit_test(adam_leaves_what_lies_beyond_n_alone),
        cmocka_unit_test(clip_grad_norm_agrees_with_pytorch),
        cmocka_unit_test(clip_grad_norm_at_most_zero_sets_no_limit),
        cmocka_unit_test(clip_grad_norm_survives_squares_beyond_float),
        cmocka_unit_test(params_step_clips_and_steps_and_zero_grad_zeroes),
        cmocka_unit_test(a_gradient_that_is_not_finite_changes_nothing),
        cmocka_unit_test(each_tensor_learns_at_its_own_rate),
        cmocka_unit_test(a_rate_that_is_not_a_number_stays_with_its_tensor),
        cmocka_unit_test(params_step_refuses_null_and_numbers_that_give_nan),
        cmocka_unit_test(schedules_start_at_the_value_and_end_at_zero),
        cmocka_unit_test(adaptive_kl_agrees_with_trl),
        cmocka_unit_test(adaptive_kl_of_2017_halves_and_doubles_outside_its_band),
        cmocka_unit_test(decay_may_be_of_matrices_alone),
        cmocka_unit_test(a_moment_without_gradient_ends_at_zero),
        cmocka_unit_test(what_is_frozen_has_numbers_alone_and_cannot_learn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
