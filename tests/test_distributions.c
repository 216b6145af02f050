/* Section 6: categorical and diagonal Gaussian, against PyTorch's distributions and their own definitions. */
#define PPO_IMPLEMENTATION
#include "../ppo.h"

#include "golden/core.h"
#include "test.h"

/* --------------------------------------------------------------------------------------------------------
   Categorical
   -------------------------------------------------------------------------------------------------------- */

typedef struct token_case {
    const char  *name;
    int          n, vocab;
    const int   *token;
    const float *logits, *w1, *w2;
    const float *logp[2], *entropy[2], *grad[2]; /* temperature 1 and 0.7 */
} token_case;

#define TOKEN_CASE(name)                                                                              \
    {                                                                                                 \
#name, g_##name##_n, g_##name##_vocab, g_##name##_token, g_##name##_logits, g_##name##_w1,    \
            g_##name##_w2,                                                                            \
            {g_##name##_logp, g_##name##_logp_t07 }, {g_##name##_entropy, g_##name##_entropy_t07 }, { \
            g_##name##_grad, g_##name##_grad_t07                                                      \
        }                                                                                             \
    }

static const token_case token_cases[] = {TOKEN_CASE(tok_small), TOKEN_CASE(tok_big), TOKEN_CASE(tok_two),
                                         TOKEN_CASE(tok_masked)};
static const float      temperatures[2] = {1, 0.7f};

enum { MAX_ROWS = 8, MAX_VOCAB = 1000 };

static void token_logp_and_entropy_agree_with_pytorch(void **state) {
    (void)state;
    FOR_EACH_KERNEL_SET(set) {
        for (int k = 0; k < 2 * COUNT(token_cases); k++) {
            const token_case *c = &token_cases[k / 2];
            float             logp[MAX_ROWS], entropy[MAX_ROWS];
            assert_ok(
                ppo_token_logp(c->logits, c->token, c->n, c->vocab, temperatures[k % 2], logp, entropy));
            assert_close_array(logp, c->logp[k % 2], c->n, 1e-6);
            assert_close_array(entropy, c->entropy[k % 2], c->n, 2e-6);
            memset(logp, 0, sizeof logp);
            assert_ok(ppo_token_logp(c->logits, c->token, c->n, c->vocab, temperatures[k % 2], logp, NULL));
            assert_close_array(logp, c->logp[k % 2], c->n, 1e-6);
        }
    }
}

static void token_logp_backward_agrees_with_pytorch_also_in_place(void **state) {
    (void)state;
    static float grad[MAX_ROWS * MAX_VOCAB], place[MAX_ROWS * MAX_VOCAB];
    FOR_EACH_KERNEL_SET(set) {
        for (int k = 0; k < 2 * COUNT(token_cases); k++) {
            const token_case *c = &token_cases[k / 2];
            int               size = c->n * c->vocab;
            float             t = temperatures[k % 2];
            assert_ok(ppo_token_logp_backward(c->logits, c->token, c->w1, c->w2, c->n, c->vocab, t, grad));
            assert_close_array(grad, c->grad[k % 2], size,
                               k % 2 ? 5e-6 : 2e-6); /* 80 / 0.7 is rounded by 4e-6 */
            memcpy(place, c->logits, (size_t)size * sizeof *place);
            assert_ok(ppo_token_logp_backward(place, c->token, c->w1, c->w2, c->n, c->vocab, t, place));
            assert_close_array(place, grad, size, 1e-6);
        }
    }
}

static void token_logp_backward_takes_either_gradient_alone(void **state) {
    (void)state;
    const token_case *c = &token_cases[0];
    int               size = c->n * c->vocab;
    float             zeros[8] = {0};
    static float      both[MAX_ROWS * MAX_VOCAB], alone[MAX_ROWS * MAX_VOCAB];
    assert_ok(ppo_token_logp_backward(c->logits, c->token, c->w1, zeros, c->n, c->vocab, 1, both));
    assert_ok(ppo_token_logp_backward(c->logits, c->token, c->w1, NULL, c->n, c->vocab, 1, alone));
    assert_close_array(alone, both, size, 1e-6);
    assert_ok(ppo_token_logp_backward(c->logits, c->token, zeros, c->w2, c->n, c->vocab, 1, both));
    assert_ok(ppo_token_logp_backward(c->logits, c->token, NULL, c->w2, c->n, c->vocab, 1, alone));
    assert_close_array(alone, both, size, 1e-6);
    assert_ok(ppo_token_logp_backward(c->logits, c->token, NULL, NULL, c->n, c->vocab, 1, alone));
    for (int i = 0; i < size; i++) assert_true(alone[i] == 0);
}

static void an_impossible_token_has_no_probability_entropy_or_gradient(void **state) {
    (void)state;
    FOR_EACH_KERNEL_SET(set) {
        for (int vocab = 3; vocab <= 40; vocab += 37) { /* within and beyond one vector */
            static float logits[40], few[2] = {0.5f, -1.25f}, grad[40], grad_few[2], one[1] = {1},
                                     half[1] = {0.5f};
            float logp, entropy, logp_few, entropy_few;
            int   token = 0, other = 1;
            for (int i = 0; i < vocab; i++) logits[i] = -INFINITY;
            logits[0] = few[0], logits[vocab - 1] = few[1];
            assert_ok(ppo_token_logp(logits, &token, 1, vocab, 1, &logp, &entropy));
            assert_ok(ppo_token_logp(few, &token, 1, 2, 1, &logp_few, &entropy_few));
            assert_close(logp, logp_few, 1e-6);
            assert_close(entropy, entropy_few, 1e-6);
            assert_ok(ppo_token_logp_backward(logits, &token, one, half, 1, vocab, 1, grad));
            assert_ok(ppo_token_logp_backward(few, &token, one, half, 1, 2, 1, grad_few));
            for (int i = 1; i < vocab - 1; i++) assert_true(grad[i] == 0);
            assert_close(grad[0], grad_few[0], 1e-6);
            assert_close(grad[vocab - 1], grad_few[1], 1e-6);
            assert_ok(ppo_token_logp(logits, &other, 1, vocab, 1, &logp, NULL)); /* its probability is 0 */
            assert_true(logp == -INFINITY);
        }
    }
}

/* exp(logp) over all tokens is a distribution, and its entropy is the one given. */
static void probabilities_sum_to_one_and_give_the_entropy(void **state) {
    (void)state;
    ppo_rng rng = test_rng(1);
    for (int trial = 0; trial < 100; trial++) {
        static float logits[70 * 70];
        static int   token[70];
        float logp[70], entropy[70], shift = 50 * ppo_rng_normal(&rng), t = 0.5f + ppo_rng_uniform(&rng);
        int   vocab = 1 + ppo_rng_below(&rng, 70);
        for (int j = 0; j < vocab; j++) logits[j] = 3 * ppo_rng_normal(&rng) + shift;
        for (int i = 0; i < vocab; i++)
            token[i] = i, memcpy(logits + i * vocab, logits, (size_t)vocab * sizeof *logits);
        assert_ok(ppo_token_logp(logits, token, vocab, vocab, t, logp, entropy));
        double sum = 0, h = 0;
        for (int i = 0; i < vocab; i++) sum += exp(logp[i]), h -= exp(logp[i]) * logp[i];
        assert_close(sum, 1, 1e-5);
        assert_true(fabs(entropy[0] - h) < 1e-5 && entropy[0] > -1e-6f);
    }
}

static void categorical_functions_refuse_bad_input(void **state) {
    (void)state;
    float logits[6] = {0, 1, 2, 3, 4, 5}, nans[6] = {0, 1, 2, 3, NAN, 5}, inf[6] = {0, 1, 2, 3, INFINITY, 5},
          out[6], kl[2];
    float none[6] = {0, 1, 2, -INFINITY, -INFINITY, -INFINITY}, up[2] = {1, 1}, bad_up[2] = {1, NAN};
    int   token[2] = {0, 2}, high[2] = {0, 3}, low[2] = {-7, 0};
#define LOGP(logits, token, n, vocab, t) ppo_token_logp(logits, token, n, vocab, t, out, kl)
#define BACKWARD(logits, token, n, vocab, t, grad) \
    ppo_token_logp_backward(logits, token, up, up, n, vocab, t, grad)
    assert_fails(LOGP(NULL, token, 2, 3, 1), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(LOGP(logits, NULL, 2, 3, 1), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(LOGP(logits, token, 0, 3, 1), PPO_ERROR_ARGUMENT, "0");
    assert_fails(LOGP(logits, token, -4, 3, 1), PPO_ERROR_ARGUMENT, "-4");
    assert_fails(LOGP(logits, token, 2, 0, 1), PPO_ERROR_ARGUMENT, "0 logits");
    assert_fails(LOGP(logits, high, 2, 3, 1), PPO_ERROR_ARGUMENT, "token|3|1");
    assert_fails(LOGP(logits, low, 2, 3, 1), PPO_ERROR_ARGUMENT, "token|-7|0");
    assert_fails(LOGP(logits, token, 2, 3, 0), PPO_ERROR_ARGUMENT, "temperature|0");
    assert_fails(LOGP(logits, token, 2, 3, -0.5f), PPO_ERROR_ARGUMENT, "temperature|-0.5");
    assert_fails(LOGP(logits, token, 2, 3, NAN), PPO_ERROR_ARGUMENT, "temperature|nan");
    FOR_EACH_KERNEL_SET(set) {
        assert_fails(LOGP(nans, token, 2, 3, 1), PPO_ERROR_NUMERIC, "1");
        assert_fails(LOGP(inf, token, 2, 3, 1), PPO_ERROR_NUMERIC, "1");
        assert_fails(LOGP(none, token, 2, 3, 1), PPO_ERROR_NUMERIC, "1");
    }
    assert_fails(BACKWARD(NULL, token, 2, 3, 1, out), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(BACKWARD(logits, NULL, 2, 3, 1, out), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(BACKWARD(logits, token, 2, 3, 1, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(BACKWARD(logits, token, 0, 3, 1, out), PPO_ERROR_ARGUMENT, "0");
    assert_fails(BACKWARD(logits, token, 2, -3, 1, out), PPO_ERROR_ARGUMENT, "-3 logits");
    assert_fails(BACKWARD(logits, high, 2, 3, 1, out), PPO_ERROR_ARGUMENT, "token|3|1");
    assert_fails(BACKWARD(logits, token, 2, 3, 0, out), PPO_ERROR_ARGUMENT, "temperature|0");
    assert_fails(BACKWARD(nans, token, 2, 3, 1, out), PPO_ERROR_NUMERIC, "1");
    assert_fails(ppo_token_logp_backward(logits, token, bad_up, NULL, 2, 3, 1, out), PPO_ERROR_NUMERIC, "1");
    assert_fails(ppo_categorical_kl(NULL, logits, 2, 3, kl), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_categorical_kl(logits, NULL, 2, 3, kl), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_categorical_kl(logits, logits, 2, 3, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_categorical_kl(logits, logits, 0, 3, kl), PPO_ERROR_ARGUMENT, "0");
    assert_fails(ppo_categorical_kl(logits, logits, 2, 0, kl), PPO_ERROR_ARGUMENT, "0");
    assert_fails(ppo_categorical_kl(logits, nans, 2, 3, kl), PPO_ERROR_NUMERIC, "1");
}

static void categorical_kl_agrees_with_pytorch(void **state) {
    (void)state;
    float kl[g_cat_kl_n], same[g_cat_kl_n];
    FOR_EACH_KERNEL_SET(set) {
        assert_ok(ppo_categorical_kl(g_cat_kl_p, g_cat_kl_q, g_cat_kl_n, g_cat_kl_k, kl));
        assert_close_array(kl, g_cat_kl_kl, g_cat_kl_n, 2e-6);
        for (int i = 1; i < g_cat_kl_n; i++)
            assert_true(fabs(kl[i] - g_cat_kl_kl[i]) < (i == 1 ? 1e-5 : 1e-6) * fmax(1, g_cat_kl_kl[i]));
        assert_ok(ppo_categorical_kl(g_cat_kl_p, g_cat_kl_p, g_cat_kl_n, g_cat_kl_k, same));
        for (int i = 0; i < g_cat_kl_n; i++) assert_true(fabsf(same[i]) < 1e-7f);
    }
}

static void categorical_kl_counts_what_p_cannot_do_as_nothing(void **state) {
    (void)state;
    float p[3] = {0, -INFINITY, 0}, q[3] = {0, 0, 0}, kl;
    assert_ok(ppo_categorical_kl(p, q, 1, 3, &kl));
    assert_close(kl, log(1.5), 1e-6);
    assert_ok(ppo_categorical_kl(p, p, 1, 3, &kl));
    assert_true(kl == 0);
}

static void samples_come_as_often_as_their_probability_says(void **state) {
    (void)state;
    enum { N = 60000 };
    static const float logits[5] = {1, -INFINITY, -1, 0.5f, 2};
    ppo_rng            rng = test_rng(2);
    for (int k = 0; k < 2; k++) {
        float  t = k ? 0.5f : 1;
        double p[5], total = 0, chi = 0;
        int    count[5] = {0};
        for (int i = 0; i < 5; i++) total += p[i] = exp(logits[i] / t);
        for (int i = 0; i < N; i++) {
            int action = ppo_categorical_sample(logits, 5, t, &rng);
            assert_in_range(action, 0, 4);
            count[action]++;
        }
        assert_int_equal(count[1], 0);
        for (int i = 0; i < 5; i++)
            if (p[i] > 0) chi += pow(count[i] - N * p[i] / total, 2) / (N * p[i] / total);
        assert_true(chi < 30.7); /* 3 degrees of freedom, p = 1e-6 */
    }
}

/* Rounding must not push a sample past the last token that is possible. */
static void a_sample_is_possible_for_the_extreme_uniforms(void **state) {
    (void)state;
    static float logits[1000];
    for (int vocab = 1; vocab <= 1000; vocab = vocab * 3 + 1) {
        for (int i = 0; i < vocab; i++) logits[i] = i < (vocab + 1) / 2 ? 0.1f * (float)(i % 7) : -INFINITY;
        for (int k = 0; k < 2; k++) {
            ppo_rng rng = test_rng(3);
            rng.used = 0;
            for (int i = 0; i < 4; i++) rng.block[i] = k ? UINT32_MAX : 0;
            assert_in_range(ppo_categorical_sample(logits, vocab, 1, &rng), 0, (vocab + 1) / 2 - 1);
        }
    }
}

static void mode_is_the_first_of_the_likeliest(void **state) {
    (void)state;
    static const float a[4] = {1, 3, 3, 2}, b[3] = {-INFINITY, -5, -INFINITY}, c[1] = {-2},
                       d[3] = {-1e8f, -1e8f, 0};
    assert_int_equal(ppo_categorical_mode(a, 4), 1);
    assert_int_equal(ppo_categorical_mode(b, 3), 1);
    assert_int_equal(ppo_categorical_mode(c, 1), 0);
    assert_int_equal(ppo_categorical_mode(d, 3), 2);
}

/* --------------------------------------------------------------------------------------------------------
   Diagonal Gaussian
   -------------------------------------------------------------------------------------------------------- */

enum { N = g_gauss_n, DIM = g_gauss_dim };

static void gaussian_agrees_with_pytorch(void **state) {
    (void)state;
    float logp[N], entropy[N], kl[N];
    FOR_EACH_KERNEL_SET(set) {
        assert_ok(ppo_gaussian_logp(g_gauss_mean, g_gauss_log_std, g_gauss_action, N, DIM, logp, entropy));
        assert_close_array(logp, g_gauss_logp, N, 1e-6);
        assert_close_array(entropy, g_gauss_entropy, N, 1e-6);
        assert_ok(ppo_gaussian_logp(g_gauss_mean, g_gauss_log_std, g_gauss_action, N, DIM, logp, NULL));
        assert_close_array(logp, g_gauss_logp, N, 1e-6);
        assert_ok(
            ppo_gaussian_kl(g_gauss_mean, g_gauss_log_std, g_gauss_mean_q, g_gauss_log_std_q, N, DIM, kl));
        assert_close_array(kl, g_gauss_kl, N, 1e-6);
        assert_ok(ppo_gaussian_kl(g_gauss_mean, g_gauss_log_std, g_gauss_mean, g_gauss_log_std, N, DIM, kl));
        for (int i = 0; i < N; i++) assert_true(fabsf(kl[i]) < 1e-6f);
    }
}

static void gaussian_backward_agrees_with_pytorch(void **state) {
    (void)state;
    float grad_mean[N * DIM], grad_log_std[DIM], alone[N * DIM], zeros[N] = {0};
#define GAUSS g_gauss_mean, g_gauss_log_std, g_gauss_action
    assert_ok(ppo_gaussian_logp_backward(GAUSS, g_gauss_w1, g_gauss_w2, N, DIM, grad_mean, grad_log_std));
    assert_close_array(grad_mean, g_gauss_grad_mean, N * DIM, 1e-6);
    assert_close_array(grad_log_std, g_gauss_grad_log_std, DIM, 1e-6);
    assert_ok(ppo_gaussian_logp_backward(GAUSS, g_gauss_w1, g_gauss_w2, N, DIM, alone, NULL));
    assert_close_array(alone, grad_mean, N * DIM, 1e-6);
    assert_ok(ppo_gaussian_logp_backward(GAUSS, g_gauss_w1, g_gauss_w2, N, DIM, NULL, alone));
    assert_close_array(alone, grad_log_std, DIM, 1e-6);
    assert_ok(ppo_gaussian_logp_backward(GAUSS, g_gauss_w1, NULL, N, DIM, grad_mean, grad_log_std));
    assert_ok(ppo_gaussian_logp_backward(GAUSS, g_gauss_w1, zeros, N, DIM, NULL, alone));
    assert_close_array(alone, grad_log_std, DIM, 1e-6);
    assert_ok(ppo_gaussian_logp_backward(GAUSS, NULL, g_gauss_w2, N, DIM, grad_mean, grad_log_std));
    float sum = 0;
    for (int i = 0; i < N; i++) sum += g_gauss_w2[i];
    for (int i = 0; i < N * DIM; i++) assert_true(grad_mean[i] == 0);
    for (int j = 0; j < DIM; j++) assert_close(grad_log_std[j], sum, 1e-6);
}

static void gaussian_functions_refuse_bad_input(void **state) {
    (void)state;
    float x[4] = {0, 1, 2, 3}, nans[4] = {0, 1, 2, NAN}, out[4], grad[4], e[2];
    assert_fails(ppo_gaussian_logp(NULL, x, x, 2, 2, out, e), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_gaussian_logp(x, NULL, x, 2, 2, out, e), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_gaussian_logp(x, x, NULL, 2, 2, out, e), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_gaussian_logp(x, x, x, 0, 2, out, e), PPO_ERROR_ARGUMENT, "0");
    assert_fails(ppo_gaussian_logp(x, x, x, 2, -6, out, e), PPO_ERROR_ARGUMENT, "-6 dim");
    assert_fails(ppo_gaussian_logp(nans, x, x, 2, 2, out, e), PPO_ERROR_NUMERIC, "1");
    assert_fails(ppo_gaussian_logp(x, x, nans, 2, 2, out, e), PPO_ERROR_NUMERIC, "1");
    assert_fails(ppo_gaussian_logp(x, nans + 2, x, 2, 2, out, e), PPO_ERROR_NUMERIC, "");
    assert_fails(ppo_gaussian_logp_backward(NULL, x, x, x, NULL, 2, 2, out, grad), PPO_ERROR_ARGUMENT,
                 "NULL");
    assert_fails(ppo_gaussian_logp_backward(x, NULL, x, x, NULL, 2, 2, out, grad), PPO_ERROR_ARGUMENT,
                 "NULL");
    assert_fails(ppo_gaussian_logp_backward(x, x, NULL, x, NULL, 2, 2, out, grad), PPO_ERROR_ARGUMENT,
                 "NULL");
    assert_fails(ppo_gaussian_logp_backward(x, x, x, x, NULL, -1, 2, out, grad), PPO_ERROR_ARGUMENT, "-1");
    assert_fails(ppo_gaussian_logp_backward(x, x, nans, x, NULL, 2, 2, out, grad), PPO_ERROR_NUMERIC, "1");
    assert_fails(ppo_gaussian_kl(NULL, x, x, x, 2, 2, out), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_gaussian_kl(x, NULL, x, x, 2, 2, out), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_gaussian_kl(x, x, NULL, x, 2, 2, out), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_gaussian_kl(x, x, x, NULL, 2, 2, out), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_gaussian_kl(x, x, x, x, 2, 2, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_gaussian_kl(x, x, x, x, 0, 2, out), PPO_ERROR_ARGUMENT, "0");
    assert_fails(ppo_gaussian_kl(x, x, x, x, 2, 0, out), PPO_ERROR_ARGUMENT, "0");
    assert_fails(ppo_gaussian_kl(x, x, nans, x, 2, 2, out), PPO_ERROR_NUMERIC, "1");
}

static void gaussian_samples_have_mean_and_deviation_of_each_dimension(void **state) {
    (void)state;
    enum { DRAWS = 40000 };
    static const float mean[3] = {1, -2, 0}, log_std[3] = {0, -1, 1};
    double             sum[3] = {0}, squares[3] = {0}, cross = 0;
    ppo_rng            rng = test_rng(4);
    for (int i = 0; i < DRAWS; i++) {
        float  x[3];
        double z[3];
        ppo_gaussian_sample(mean, log_std, 3, &rng, x);
        for (int j = 0; j < 3; j++) {
            z[j] = (x[j] - mean[j]) / exp(log_std[j]);
            sum[j] += z[j], squares[j] += z[j] * z[j];
        }
        cross += z[0] * z[1];
    }
    for (int j = 0; j < 3; j++) {
        assert_true(fabs(sum[j] / DRAWS) < 5 / sqrt(DRAWS));
        assert_true(fabs(squares[j] / DRAWS - 1) < 5 * sqrt(2.0 / DRAWS));
    }
    assert_true(fabs(cross / DRAWS) < 5 / sqrt(DRAWS));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_logp_and_entropy_agree_with_pytorch),
        cmocka_unit_test(token_logp_backward_agrees_with_pytorch_also_in_place),
        cmocka_unit_test(token_logp_backward_takes_either_gradient_alone),
        cmocka_unit_test(an_impossible_token_has_no_probability_entropy_or_gradient),
        cmocka_unit_test(probabilities_sum_to_one_and_give_the_entropy),
        cmocka_unit_test(categorical_functions_refuse_bad_input),
        cmocka_unit_test(categorical_kl_agrees_with_pytorch),
        cmocka_unit_test(categorical_kl_counts_what_p_cannot_do_as_nothing),
        cmocka_unit_test(samples_come_as_often_as_their_probability_says),
        cmocka_unit_test(a_sample_is_possible_for_the_extreme_uniforms),
        cmocka_unit_test(mode_is_the_first_of_the_likeliest),
        cmocka_unit_test(gaussian_agrees_with_pytorch),
        cmocka_unit_test(gaussian_backward_agrees_with_pytorch),
        cmocka_unit_test(gaussian_functions_refuse_bad_input),
        cmocka_unit_test(gaussian_samples_have_mean_and_deviation_of_each_dimension),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
