/* Section 7: categorical, also several at once and masked; diagonal Gaussian, also squashed; against PyTorch's
   distributions and their own definitions. */
#include "../ppo.h"

#include "golden/control.h"
#include "golden/core.h"
#include "test.h"

/* --------------------------------------------------------------------------------------------------------
   Categorical
   -------------------------------------------------------------------------------------------------------- */

typedef struct token_case {
    const char *name;
    int n, vocab;
    const int *token;
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
static const float temperatures[2] = {1, 0.7f};

enum { MAX_ROWS = 8, MAX_VOCAB = 1000 };

static void token_logp_and_entropy_agree_with_pytorch(void **state) {
    (void)state;
    FOR_EACH_KERNEL_SET(set) {
        for (int k = 0; k < 2 * COUNT(token_cases); k++) {
            const token_case *c = &token_cases[k / 2];
            float logp[MAX_ROWS], entropy[MAX_ROWS];
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
            int size = c->n * c->vocab;
            float t = temperatures[k % 2];
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
    int size = c->n * c->vocab;
    float zeros[8] = {0};
    static float both[MAX_ROWS * MAX_VOCAB], alone[MAX_ROWS * MAX_VOCAB];
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
            int token = 0, other = 1;
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
        static int token[70];
        float logp[70], entropy[70], shift = 50 * ppo_rng_normal(&rng), t = 0.5f + ppo_rng_uniform(&rng);
        int vocab = 1 + ppo_rng_below(&rng, 70);
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

/* Rows are taken in blocks; sentences count through. */
static void a_bad_gradient_or_row_is_named_wherever_it_is(void **state) {
    (void)state;
    enum { N = 70 };
    float logits[2 * N] = {0}, out[2 * N], up[N] = {0}, kl[N];
    int token[N] = {0};
    up[66] = NAN, logits[2 * 66] = 1;
    assert_fails(ppo_token_logp_backward(logits, token, up, NULL, N, 2, 1, out), PPO_ERROR_NUMERIC,
                 "row 66 has log-sum 1.31326, gradients nan and 0");
    assert_fails(ppo_token_logp_backward(logits, token, NULL, up, N, 2, 1, out), PPO_ERROR_NUMERIC, "row 66");
    logits[2 * 65] = NAN;
    assert_fails(ppo_token_logp(logits, token, N, 2, 1, out, NULL), PPO_ERROR_NUMERIC, "row 65");
    assert_fails(ppo_token_logp_backward(logits, token, NULL, NULL, N, 2, 1, out), PPO_ERROR_NUMERIC,
                 "row 65");
    assert_fails(ppo_categorical_kl(logits, logits, N, 2, kl), PPO_ERROR_NUMERIC, "row 65");
}

/* Of long rows blocks hold fewer, so that they stay in a cache. */
static void rows_of_any_length_are_computed_as_if_alone(void **state) {
    (void)state;
    enum { N = 70, LONG = 40000 };
    static const int cases[][2] = {{70, 40}, {70, 500}, {70, 600}, {9, 9000}, {3, LONG}}; /* rows, logits */
    static float z[3 * LONG], q[3 * LONG], grad[3 * LONG], alone[LONG];
    int token[N];
    float up[N], kl[N], kl_alone;
    ppo_rng rng = ppo_rng_stream(4, PPO_STREAM_USER, 0);
    for (int i = 0; i < 3 * LONG; i++) z[i] = ppo_rng_normal(&rng), q[i] = ppo_rng_normal(&rng);
    FOR_EACH_KERNEL_SET(set) {
        for (int c = 0; c < COUNT(cases); c++) {
            int n = cases[c][0], vocab = cases[c][1];
            for (int i = 0; i < n; i++) token[i] = ppo_rng_below(&rng, vocab), up[i] = ppo_rng_normal(&rng);
            assert_ok(ppo_token_logp_backward(z, token, up, up, n, vocab, 1, grad));
            assert_ok(ppo_categorical_kl(z, q, n, vocab, kl));
            for (int i = 0; i < n; i++) {
                const float *row = z + i * vocab;
                assert_ok(ppo_token_logp_backward(row, &token[i], &up[i], &up[i], 1, vocab, 1, alone));
                assert_memory_equal(alone, grad + i * vocab, (size_t)vocab * sizeof(float));
                assert_ok(ppo_categorical_kl(row, q + i * vocab, 1, vocab, &kl_alone));
                assert_true(kl_alone == kl[i]);
            }
        }
    }
}

static void categorical_functions_refuse_bad_input(void **state) {
    (void)state;
    float logits[6] = {0, 1, 2, 3, 4, 5}, nans[6] = {0, 1, 2, 3, NAN, 5}, inf[6] = {0, 1, 2, 3, INFINITY, 5},
          out[6], kl[2];
    float none[6] = {0, 1, 2, -INFINITY, -INFINITY, -INFINITY}, up[2] = {1, 1}, bad_up[2] = {1, NAN};
    int token[2] = {0, 2}, high[2] = {0, 3}, low[2] = {-7, 0};
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
    assert_fails(LOGP(logits, token, 2, 3, INFINITY), PPO_ERROR_ARGUMENT,
                 "temperature is inf|finite, above 0");
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
    ppo_rng rng = test_rng(2);
    for (int k = 0; k < 2; k++) {
        float t = k ? 0.5f : 1;
        double p[5], total = 0, chi = 0;
        int count[5] = {0};
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
   Several choices at once
   -------------------------------------------------------------------------------------------------------- */

enum { M = g_multi_n, HEADS = g_multi_heads, LOGITS = g_multi_cols };
#define MULTI g_multi_p, g_multi_sizes, HEADS, g_multi_action

static void several_choices_agree_with_pytorch_also_masked_and_extreme(void **state) {
    (void)state;
    FOR_EACH_KERNEL_SET(set) {
        float logp[M], entropy[M], kl[M], grad[M * LOGITS];
        assert_ok(ppo_multi_categorical_logp(MULTI, M, logp, entropy));
        assert_close_each(logp, g_multi_logp, M, 1e-6);
        assert_close_each(entropy, g_multi_entropy, M, 2e-6);
        memset(logp, 0, sizeof logp);
        assert_ok(ppo_multi_categorical_logp(MULTI, M, logp, NULL));
        assert_close_each(logp, g_multi_logp, M, 1e-6);
        assert_ok(ppo_multi_categorical_logp_backward(MULTI, g_multi_w1, g_multi_w2, M, grad));
        assert_close_array(grad, g_multi_grad, M * LOGITS, 2e-6);
        assert_ok(ppo_multi_categorical_kl(g_multi_p, g_multi_q, g_multi_sizes, HEADS, M, kl));
        assert_close_each(kl, g_multi_kl, M, 2e-6);
        assert_ok(ppo_multi_categorical_kl(g_multi_p, g_multi_p, g_multi_sizes, HEADS, M, kl));
        for (int i = 0; i < M; i++) assert_true(fabsf(kl[i]) < 3e-7f);
    }
}

static void backward_of_several_choices_works_in_place_and_with_either_gradient(void **state) {
    (void)state;
    float both[M * LOGITS], place[M * LOGITS], a[M * LOGITS], b[M * LOGITS];
    assert_ok(ppo_multi_categorical_logp_backward(MULTI, g_multi_w1, g_multi_w2, M, both));
    memcpy(place, g_multi_p, sizeof place);
    assert_ok(ppo_multi_categorical_logp_backward(place, g_multi_sizes, HEADS, g_multi_action, g_multi_w1,
                                                  g_multi_w2, M, place));
    assert_false(bits_differ(place, both, M * LOGITS));
    assert_ok(ppo_multi_categorical_logp_backward(MULTI, g_multi_w1, NULL, M, a));
    assert_ok(ppo_multi_categorical_logp_backward(MULTI, NULL, g_multi_w2, M, b));
    for (int i = 0; i < M * LOGITS; i++) a[i] += b[i];
    assert_close_array(a, both, M * LOGITS, 1e-6);
    assert_ok(ppo_multi_categorical_logp_backward(MULTI, NULL, NULL, M, a));
    for (int i = 0; i < M * LOGITS; i++) assert_true(a[i] == 0);
}

static void one_choice_alone_is_the_categorical_distribution_to_the_bit(void **state) {
    (void)state;
    const token_case *c = &token_cases[0];
    float logp[2][MAX_ROWS], entropy[2][MAX_ROWS], kl[2][g_cat_kl_n];
    static float grad[2][MAX_ROWS * MAX_VOCAB];
    int k = g_cat_kl_k;
    assert_ok(ppo_token_logp(c->logits, c->token, c->n, c->vocab, 1, logp[0], entropy[0]));
    assert_ok(ppo_multi_categorical_logp(c->logits, &c->vocab, 1, c->token, c->n, logp[1], entropy[1]));
    assert_false(bits_differ(logp[0], logp[1], (size_t)c->n));
    assert_false(bits_differ(entropy[0], entropy[1], (size_t)c->n));
    assert_ok(ppo_token_logp_backward(c->logits, c->token, c->w1, c->w2, c->n, c->vocab, 1, grad[0]));
    assert_ok(
        ppo_multi_categorical_logp_backward(c->logits, &c->vocab, 1, c->token, c->w1, c->w2, c->n, grad[1]));
    assert_false(bits_differ(grad[0], grad[1], (size_t)(c->n * c->vocab)));
    assert_ok(ppo_categorical_kl(g_cat_kl_p, g_cat_kl_q, g_cat_kl_n, k, kl[0]));
    assert_ok(ppo_multi_categorical_kl(g_cat_kl_p, g_cat_kl_q, &k, 1, g_cat_kl_n, kl[1]));
    assert_false(bits_differ(kl[0], kl[1], g_cat_kl_n));
}

static void bits_are_bernoulli_variables(void **state) {
    (void)state;
    enum { BITS = g_binary_bits };
    static const int two[BITS] = {2, 2, 2, 2, 2, 2};
    float logp[g_binary_n], entropy[g_binary_n], kl[g_binary_n];
    FOR_EACH_KERNEL_SET(set) {
        assert_ok(
            ppo_multi_categorical_logp(g_binary_p, two, BITS, g_binary_action, g_binary_n, logp, entropy));
        assert_close_array(logp, g_binary_logp, g_binary_n, 1e-6);
        assert_close_array(entropy, g_binary_entropy, g_binary_n, 1e-6);
        assert_ok(ppo_multi_categorical_kl(g_binary_p, g_binary_q, two, BITS, g_binary_n, kl));
        assert_close_array(kl, g_binary_kl, g_binary_n, 2e-6);
    }
}

/* sum(w y) with one weight per row, on the tape */
static ppo_tensor *weighted(ppo_tape *tape, ppo_tensor *y, const float *w) {
    if (!y) return NULL;
    return ppo_tape_sum(tape, ppo_tape_mul(tape, y, ppo_tape_constant(tape, w, y->rows, 1)));
}

static void several_choices_on_the_tape_have_the_gradients_of_pytorch(void **state) {
    (void)state;
    float p[M * LOGITS], q[M * LOGITS], p_grad[M * LOGITS], q_grad[M * LOGITS], plain[M];
    ppo_tensor z = {M, LOGITS, p, p_grad}, new_z = {M, LOGITS, q, q_grad}, *logp, *entropy;
    ppo_tape *tape;
    memcpy(p, g_multi_p, sizeof p);
    memcpy(q, g_multi_q, sizeof q);
    assert_ok(ppo_tape_create(&tape));
    FOR_EACH_KERNEL_SET(set) {
        memset(p_grad, 0, sizeof p_grad);
        memset(q_grad, 0, sizeof q_grad);
        ppo_tape_reset(tape);
        ppo_tape_multi_categorical(tape, &z, g_multi_sizes, HEADS, g_multi_action, &logp, &entropy);
        ppo_tensor *kl = ppo_tape_multi_categorical_kl(tape, g_multi_p, g_multi_sizes, HEADS, &new_z);
        ppo_tensor *sum =
            ppo_tape_add(tape, weighted(tape, logp, g_multi_w1), weighted(tape, entropy, g_multi_w2));
        assert_ok(ppo_tape_backward(tape, ppo_tape_add(tape, sum, weighted(tape, kl, g_multi_w3))));
        assert_true(logp->rows == M && logp->cols == 1 && kl->rows == M && kl->cols == 1);
        assert_ok(ppo_multi_categorical_logp(MULTI, M, plain, NULL));
        assert_false(bits_differ(logp->data, plain, M));
        assert_ok(ppo_multi_categorical_kl(g_multi_p, g_multi_q, g_multi_sizes, HEADS, M, plain));
        assert_false(bits_differ(kl->data, plain, M));
        assert_close_each(entropy->data, g_multi_entropy, M, 2e-6);
        assert_close_array(p_grad, g_multi_grad, M * LOGITS, 2e-6);
        assert_close_array(q_grad, g_multi_kl_grad, M * LOGITS, 2e-6);
    }
    ppo_tape_free(tape);
}

/* Few logits and many are computed in different ways, and rows in blocks. */
static void gradients_of_any_number_of_logits_and_rows_add_up_and_agree_with_double_precision(void **state) {
    (void)state;
    enum { MOST_ROWS = 130, MOST = 70 };
    static const int vocabs[] = {1, 2, 3, 4, 5, 8, 9, 16, 17, 33, MOST},
                     counts[] = {1, 4, 17, 63, 64, 65, MOST_ROWS};
    static float data[MOST_ROWS * MOST], grad[MOST_ROWS * MOST], w1[MOST_ROWS], w2[MOST_ROWS];
    int token[MOST_ROWS];
    ppo_rng rng = ppo_rng_stream(3, PPO_STREAM_USER, 0);
    ppo_tape *tape;
    assert_ok(ppo_tape_create(&tape));
    FOR_EACH_KERNEL_SET(set) {
        for (size_t c = 0; c < COUNT(vocabs) * COUNT(counts); ++c) {
            int vocab = vocabs[c % COUNT(vocabs)], n = counts[c / COUNT(vocabs)];
            ppo_tensor z = {n, vocab, data, grad}, *logp, *entropy;
            for (int i = 0; i < n * vocab; ++i) data[i] = 3 * ppo_rng_normal(&rng), grad[i] = 5;
            for (int i = 0; i < n; ++i) {
                token[i] = ppo_rng_below(&rng, vocab);
                w1[i] = ppo_rng_normal(&rng);
                w2[i] = ppo_rng_normal(&rng);
            }
            ppo_tape_reset(tape);
            ppo_tape_categorical(tape, &z, token, 2, &logp, &entropy);
            assert_ok(ppo_tape_backward(
                tape, ppo_tape_add(tape, weighted(tape, logp, w1), weighted(tape, entropy, w2))));
            for (int i = 0; i < n; ++i) {
                const float *x = data + i * vocab;
                double sum = 0, want_entropy = 0;
                for (int j = 0; j < vocab; ++j) sum += exp((double)x[j] / 2);
                for (int j = 0; j < vocab; ++j)
                    want_entropy -= exp(x[j] / 2.0) / sum * (x[j] / 2.0 - log(sum));
                assert_true(fabs(logp->data[i] - (x[token[i]] / 2.0 - log(sum))) < 4e-6);
                assert_true(fabs(entropy->data[i] - want_entropy) < 4e-6);
                for (int j = 0; j < vocab; ++j) {
                    double p = exp(x[j] / 2.0) / sum, slope = w1[i] + w2[i] * (log(p) + want_entropy);
                    double want = 5 + (w1[i] * (j == token[i]) - p * slope) / 2;
                    assert_true(fabs(grad[i * vocab + j] - want) < 8e-6);
                }
            }
        }
    }
    ppo_tape_free(tape);
}

static void functions_of_several_choices_refuse_bad_input(void **state) {
    (void)state;
    float logits[6] = {0, 1, 2, 3, 4, 5}, nans[6] = {0, 1, 2, 3, NAN, 5}, up[2] = {1, 1}, out[6], kl[2];
    int sizes[2] = {2, 1}, zero[2] = {3, 0}, huge[2] = {INT_MAX, INT_MAX};
    int action[4] = {1, 0, 0, 0}, high[4] = {1, 0, 1, 1}, low[4] = {1, 0, -1, 0};
#define MULTI_LOGP(logits, sizes, heads, action, n) \
    ppo_multi_categorical_logp(logits, sizes, heads, action, n, out, kl)
    assert_fails(MULTI_LOGP(NULL, sizes, 2, action, 2), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(MULTI_LOGP(logits, NULL, 2, action, 2), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(MULTI_LOGP(logits, sizes, 2, NULL, 2), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_multi_categorical_logp(logits, sizes, 2, action, 2, NULL, kl), PPO_ERROR_ARGUMENT,
                 "NULL");
    assert_fails(MULTI_LOGP(logits, sizes, 2, action, 0), PPO_ERROR_ARGUMENT, "0 rows");
    assert_fails(MULTI_LOGP(logits, sizes, 0, action, 2), PPO_ERROR_ARGUMENT, "0 logits");
    assert_fails(MULTI_LOGP(logits, sizes, -3, action, 2), PPO_ERROR_ARGUMENT, "logits");
    assert_fails(MULTI_LOGP(logits, zero, 2, action, 2), PPO_ERROR_ARGUMENT, "0 logits");
    assert_fails(MULTI_LOGP(logits, huge, 2, action, 2), PPO_ERROR_ARGUMENT, "logits");
    assert_fails(MULTI_LOGP(logits, sizes, 2, high, 2), PPO_ERROR_ARGUMENT, "token 1|row 1|0 .. 0");
    assert_fails(MULTI_LOGP(logits, sizes, 2, low, 2), PPO_ERROR_ARGUMENT, "token -1|row 1|0 .. 1");
    assert_fails(MULTI_LOGP(nans, sizes, 2, action, 2), PPO_ERROR_NUMERIC, "row 1");
    assert_fails(ppo_multi_categorical_logp_backward(logits, sizes, 2, action, up, up, 2, NULL),
                 PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_multi_categorical_logp_backward(logits, zero, 2, action, up, up, 2, out),
                 PPO_ERROR_ARGUMENT, "0 logits");
    assert_fails(ppo_multi_categorical_logp_backward(logits, sizes, 2, high, up, up, 2, out),
                 PPO_ERROR_ARGUMENT, "token 1");
    assert_fails(ppo_multi_categorical_logp_backward(nans, sizes, 2, action, up, up, 2, out),
                 PPO_ERROR_NUMERIC, "row 1");
    assert_fails(ppo_multi_categorical_kl(logits, NULL, sizes, 2, 2, kl), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_multi_categorical_kl(logits, logits, NULL, 2, 2, kl), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_multi_categorical_kl(logits, logits, zero, 2, 2, kl), PPO_ERROR_ARGUMENT, "0 logits");
    assert_fails(ppo_multi_categorical_kl(logits, nans, sizes, 2, 2, kl), PPO_ERROR_NUMERIC, "row 1");
}

/* --------------------------------------------------------------------------------------------------------
   Masks
   -------------------------------------------------------------------------------------------------------- */

enum { OPTIONS = 7 };
static const unsigned char two_legal[2 * OPTIONS] = {0, 0, 1, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1};
/* the illegal ones would be by far the likeliest, and the legal ones as unlikely as can be */
static const float masked_logits[2 * OPTIONS] = {300, 5, -1000, 3e38f, -1001, 0, 9, 1, 2, 0, -1, 0.5f, 0, 0};

static void an_illegal_action_has_no_probability_entropy_or_gradient(void **state) {
    (void)state;
    float data[2 * OPTIONS], grad[2 * OPTIONS] = {0}, few[2] = {-1000, -1001}, want, want_entropy;
    static const int action[2] = {4, 1}, second = 1;
    ppo_tensor logits = {2, OPTIONS, data, grad}, *logp, *entropy;
    ppo_tape *tape;
    memcpy(data, masked_logits, sizeof data);
    assert_ok(ppo_tape_create(&tape));
    ppo_tensor *masked = ppo_tape_mask(tape, &logits, two_legal);
    ppo_tape_categorical(tape, masked, action, 1, &logp, &entropy);
    ppo_tensor *loss = ppo_tape_sum(tape, ppo_tape_add(tape, logp, entropy));
    assert_ok(ppo_tape_backward(tape, loss));
    assert_ok(ppo_token_logp(few, &second, 1, 2, 1, &want, &want_entropy));
    assert_close(logp->data[0], want, 1e-6);
    assert_close(entropy->data[0], want_entropy, 1e-6);
    for (int j = 0; j < 2 * OPTIONS; j++) {
        assert_true(masked->data[j] == (two_legal[j] ? masked_logits[j] : -INFINITY));
        if (two_legal[j]) assert_true(grad[j] != 0);
        else assert_true(grad[j] == 0);
    }
    for (int j = 0; j < OPTIONS; j++) { /* what cannot be done has a probability of 0, not a small one */
        float p;
        assert_ok(ppo_token_logp(masked->data, &j, 1, OPTIONS, 1, &p, NULL));
        if (!two_legal[j]) assert_true(expf(p) == 0);
    }
    ppo_tape_free(tape);
}

static void an_illegal_action_is_never_sampled_nor_the_mode(void **state) {
    (void)state;
    float data[2 * OPTIONS];
    ppo_rng rng = test_rng(5);
    ppo_tensor logits = {2, OPTIONS, data, NULL};
    ppo_tape *tape;
    int count[OPTIONS] = {0};
    memcpy(data, masked_logits, sizeof data);
    assert_ok(ppo_tape_create(&tape));
    const ppo_tensor *masked = ppo_tape_mask(tape, &logits, two_legal);
    for (int i = 0; i < 100000; i++) count[ppo_categorical_sample(masked->data, OPTIONS, 1, &rng)]++;
    for (int j = 0; j < OPTIONS; j++) assert_true((count[j] > 0) == two_legal[j]);
    assert_true(fabs(count[2] / 1e5 - 1 / (1 + exp(-1))) < 5 * sqrt(0.2 / 1e5));
    assert_int_equal(ppo_categorical_mode(masked->data, OPTIONS), 2);
    ppo_tape_free(tape);
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
    double sum[3] = {0}, squares[3] = {0}, cross = 0;
    ppo_rng rng = test_rng(4);
    for (int i = 0; i < DRAWS; i++) {
        float x[3];
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

enum { R = g_rows_n, WIDE = g_rows_dim };

static void gaussians_with_a_deviation_per_sample_agree_with_pytorch(void **state) {
    (void)state;
    float mean[R * WIDE], log_std[R * WIDE], grad_mean[R * WIDE] = {0}, grad_log_std[R * WIDE] = {0};
    ppo_tensor m = {R, WIDE, mean, grad_mean}, s = {R, WIDE, log_std, grad_log_std}, *logp, *entropy;
    ppo_tape *tape;
    memcpy(mean, g_rows_mean, sizeof mean);
    memcpy(log_std, g_rows_log_std, sizeof log_std);
    assert_ok(ppo_tape_create(&tape));
    ppo_tape_gaussian(tape, &m, &s, g_rows_action, &logp, &entropy);
    assert_ok(ppo_tape_backward(
        tape, ppo_tape_add(tape, weighted(tape, logp, g_rows_w1), weighted(tape, entropy, g_rows_w2))));
    assert_close_each(logp->data, g_rows_logp, R, 1e-6);
    assert_close_each(entropy->data, g_rows_entropy, R, 1e-6);
    assert_close_each(grad_mean, g_rows_grad_mean, R * WIDE, 2e-6);
    assert_close_each(grad_log_std, g_rows_grad_log_std, R * WIDE, 2e-6);
    ppo_tape_free(tape);
}

static void exact_kl_between_gaussians_agrees_with_pytorch(void **state) {
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        float mean[R * WIDE], log_std[R * WIDE], grad_mean[R * WIDE] = {0}, grad_log_std[R * WIDE] = {0};
        ppo_tensor m = {R, WIDE, mean, grad_mean}, s = {shared ? 1 : R, WIDE, log_std, grad_log_std};
        ppo_tape *tape;
        memcpy(mean, g_rows_mean, sizeof mean);
        memcpy(log_std, shared ? g_rows_shared : g_rows_log_std, (size_t)s.rows * WIDE * sizeof *log_std);
        assert_ok(ppo_tape_create(&tape));
        ppo_tensor *kl = ppo_tape_gaussian_kl(tape, g_rows_old_mean, g_rows_old_log_std, &m, &s);
        assert_ok(ppo_tape_backward(tape, weighted(tape, kl, g_rows_w3)));
        assert_close_each(kl->data, shared ? g_rows_kl_shared : g_rows_kl, R, 1e-6);
        if (!shared) assert_true(kl->data[0] == 0); /* where both are the same */
        assert_close_each(grad_mean, shared ? g_rows_kl_shared_grad_mean : g_rows_kl_grad_mean, R * WIDE,
                          2e-6);
        assert_close_each(grad_log_std, shared ? g_rows_kl_shared_grad_log_std : g_rows_kl_grad_log_std,
                          s.rows * WIDE, 2e-6);
        ppo_tape_free(tape);
    }
}

static void the_same_deviation_for_each_sample_is_the_shared_one_to_the_bit(void **state) {
    (void)state;
    float rows[N * DIM], logp[2][N], entropy[2][N];
    ppo_tensor mean = {N, DIM, (float *)g_gauss_mean, NULL}, *a, *b;
    ppo_tape *tape;
    for (int i = 0; i < N * DIM; i++) rows[i] = g_gauss_log_std[i % DIM];
    assert_ok(ppo_tape_create(&tape));
    for (int k = 0; k < 2; k++) {
        ppo_tensor log_std = {k ? N : 1, DIM, rows, NULL};
        ppo_tape_gaussian(tape, &mean, &log_std, g_gauss_action, &a, &b);
        assert_ok(ppo_tape_status(tape));
        memcpy(logp[k], a->data, sizeof logp[k]);
        memcpy(entropy[k], b->data, sizeof entropy[k]);
    }
    assert_false(bits_differ(logp[0], logp[1], N));
    assert_false(bits_differ(entropy[0], entropy[1], N));
    ppo_tape_free(tape);
}

/* --------------------------------------------------------------------------------------------------------
   Squashed Gaussian
   -------------------------------------------------------------------------------------------------------- */

enum { S = g_squash_n, FLAT = g_squash_dim };

static void squashed_gaussian_agrees_with_pytorch_however_far_out(void **state) {
    (void)state;
    float action[S * FLAT], logp[S], log_det[S], grad_mean[S * FLAT], grad_log_std[FLAT];
    ppo_squash(g_squash_u, S * FLAT, -2, 3, action);
    assert_close_each(action, g_squash_action, S * FLAT, 1e-6);
    assert_ok(ppo_gaussian_logp(g_squash_mean, g_squash_log_std, g_squash_u, S, FLAT, logp, NULL));
    ppo_squash_log_det(g_squash_u, S, FLAT, -2, 3, log_det);
    for (int i = 0; i < S; i++) logp[i] -= log_det[i];
    assert_close_each(logp, g_squash_logp, S, 1e-6);
    /* squashing does not depend on the policy, so the gradients are those of the Gaussian */
    assert_ok(ppo_gaussian_logp_backward(g_squash_mean, g_squash_log_std, g_squash_u, g_squash_w, NULL, S,
                                         FLAT, grad_mean, grad_log_std));
    assert_close_each(grad_mean, g_squash_grad_mean, S * FLAT, 2e-6);
    assert_close_each(grad_log_std, g_squash_grad_log_std, FLAT, 2e-6);
}

/* By hand: log(d action / d u) = log(half width) + log 4 - 2 |u| - 2 log(1 + exp(-2 |u|)). */
static void squashing_has_a_finite_density_for_every_u(void **state) {
    (void)state;
    static const float u[] = {0, 1e-20f, -5, 20, -20, 50, -50, 1000, -3e30f};
    for (int i = 0; i < COUNT(u); i++) {
        double x = fabs((double)u[i]), want = log(0.5) + log(4) - 2 * x - 2 * log1p(exp(-2 * x));
        float got, both, pair[2] = {u[i], -u[i]};
        ppo_squash_log_det(&u[i], 1, 1, 0.25f, 1.25f, &got);
        assert_true(isfinite(got));
        assert_close(got, want, 1e-6);
        ppo_squash_log_det(pair, 1, 2, 0.25f, 1.25f, &both); /* dimensions add up, and the sign is nothing */
        assert_close(both, 2 * want, 1e-6);
    }
}

static void a_squashed_action_stays_in_its_box_and_rises_with_u(void **state) {
    (void)state;
    static const float boxes[][2] = {{-1, 1}, {0.1f, 0.7f}, {-0.3f, 1e-3f}, {-1e30f, 3e30f}, {5, 5.000001f}};
    ppo_rng rng = test_rng(6);
    for (int k = 0; k < COUNT(boxes); k++) {
        float low = boxes[k][0], high = boxes[k][1], ends[6] = {-INFINITY, -50, -20, 20, 50, INFINITY}, a[6];
        ppo_squash(ends, 6, low, high, a);
        for (int i = 0; i < 6; i++)
            assert_true(fabsf(a[i] - (i < 3 ? low : high)) <= 1e-6f * fmaxf(fabsf(low), fabsf(high)));
        for (int i = 0; i < 3000; i++) {
            float u[2] = {10 * ppo_rng_normal(&rng), 0}, x[2];
            u[1] = u[0] + ppo_rng_uniform(&rng);
            ppo_squash(u, 2, low, high, x);
            assert_true(x[0] >= low && x[0] <= x[1] && x[1] <= high);
        }
    }
}

/* An operation that cannot work leaves NULL, and the tape says why. */
static void operations_of_distributions_refuse_what_does_not_fit(void **state) {
    (void)state;
    static const int sizes[2] = {2, 3}, action[4] = {0, 0, 1, 2}, high[4] = {0, 0, 2, 0};
    float x[16] = {0};
    ppo_tensor five = {2, 5, x, NULL}, four = {2, 4, x, NULL}, row = {1, 4, x, NULL}, three = {3, 4, x, NULL},
               *a = &row, *b = &row;
    ppo_tape *tape;
    assert_ok(ppo_tape_create(&tape));
#define REFUSED(status, words)                                                                            \
    (assert_null(a), assert_null(b),                                                                      \
     check_fails(ppo_tape_status(tape), status, words, "tape", __FILE__, __LINE__), ppo_tape_reset(tape), \
     a = b = &row)
    ppo_tape_multi_categorical(tape, &four, sizes, 2, action, &a, &b);
    REFUSED(PPO_ERROR_ARGUMENT, "4 logits|5");
    ppo_tape_multi_categorical(tape, &five, sizes, 2, high, &a, &b);
    REFUSED(PPO_ERROR_ARGUMENT, "token 2|row 1");
    ppo_tape_multi_categorical(tape, &five, sizes, 0, action, &a, &b);
    REFUSED(PPO_ERROR_ARGUMENT, "logits");
    ppo_tape_multi_categorical(tape, &five, NULL, 2, action, &a, &b);
    REFUSED(PPO_ERROR_ARGUMENT, "NULL");
    ppo_tape_multi_categorical(tape, &five, sizes, 2, NULL, &a, &b);
    REFUSED(PPO_ERROR_ARGUMENT, "NULL");
    ppo_tape_gaussian(tape, &four, &three, x, &a, &b);
    REFUSED(PPO_ERROR_ARGUMENT, "gaussian|2|3");
    a = ppo_tape_multi_categorical_kl(tape, x, sizes, 2, &four), b = NULL;
    REFUSED(PPO_ERROR_ARGUMENT, "4 logits|5");
    a = ppo_tape_multi_categorical_kl(tape, NULL, sizes, 2, &five), b = NULL;
    REFUSED(PPO_ERROR_ARGUMENT, "NULL");
    a = ppo_tape_gaussian_kl(tape, x, x, &four, &three), b = NULL;
    REFUSED(PPO_ERROR_ARGUMENT, "gaussian_kl|2|3");
    a = ppo_tape_gaussian_kl(tape, x, NULL, &four, &row), b = NULL;
    REFUSED(PPO_ERROR_ARGUMENT, "NULL");
    a = ppo_tape_mask(tape, &four, NULL), b = NULL;
    REFUSED(PPO_ERROR_ARGUMENT, "NULL");
    x[5] = NAN; /* row 1 of five columns */
    a = ppo_tape_multi_categorical_kl(tape, x, sizes, 2, &five), b = NULL;
    REFUSED(PPO_ERROR_NUMERIC, "row 1");
    a = ppo_tape_gaussian_kl(tape, x, x, &four, &four), b = NULL;
    REFUSED(PPO_ERROR_NUMERIC, "row 1");
    ppo_tape_free(tape);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_logp_and_entropy_agree_with_pytorch),
        cmocka_unit_test(token_logp_backward_agrees_with_pytorch_also_in_place),
        cmocka_unit_test(token_logp_backward_takes_either_gradient_alone),
        cmocka_unit_test(an_impossible_token_has_no_probability_entropy_or_gradient),
        cmocka_unit_test(probabilities_sum_to_one_and_give_the_entropy),
        cmocka_unit_test(a_bad_gradient_or_row_is_named_wherever_it_is),
        cmocka_unit_test(rows_of_any_length_are_computed_as_if_alone),
        cmocka_unit_test(categorical_functions_refuse_bad_input),
        cmocka_unit_test(categorical_kl_agrees_with_pytorch),
        cmocka_unit_test(categorical_kl_counts_what_p_cannot_do_as_nothing),
        cmocka_unit_test(samples_come_as_often_as_their_probability_says),
        cmocka_unit_test(a_sample_is_possible_for_the_extreme_uniforms),
        cmocka_unit_test(mode_is_the_first_of_the_likeliest),
        cmocka_unit_test(several_choices_agree_with_pytorch_also_masked_and_extreme),
        cmocka_unit_test(backward_of_several_choices_works_in_place_and_with_either_gradient),
        cmocka_unit_test(one_choice_alone_is_the_categorical_distribution_to_the_bit),
        cmocka_unit_test(bits_are_bernoulli_variables),
        cmocka_unit_test(several_choices_on_the_tape_have_the_gradients_of_pytorch),
        cmocka_unit_test(gradients_of_any_number_of_logits_and_rows_add_up_and_agree_with_double_precision),
        cmocka_unit_test(functions_of_several_choices_refuse_bad_input),
        cmocka_unit_test(an_illegal_action_has_no_probability_entropy_or_gradient),
        cmocka_unit_test(an_illegal_action_is_never_sampled_nor_the_mode),
        cmocka_unit_test(gaussian_agrees_with_pytorch),
        cmocka_unit_test(gaussian_backward_agrees_with_pytorch),
        cmocka_unit_test(gaussian_functions_refuse_bad_input),
        cmocka_unit_test(gaussian_samples_have_mean_and_deviation_of_each_dimension),
        cmocka_unit_test(gaussians_with_a_deviation_per_sample_agree_with_pytorch),
        cmocka_unit_test(exact_kl_between_gaussians_agrees_with_pytorch),
        cmocka_unit_test(the_same_deviation_for_each_sample_is_the_shared_one_to_the_bit),
        cmocka_unit_test(squashed_gaussian_agrees_with_pytorch_however_far_out),
        cmocka_unit_test(squashing_has_a_finite_density_for_every_u),
        cmocka_unit_test(a_squashed_action_stays_in_its_box_and_rises_with_u),
        cmocka_unit_test(operations_of_distributions_refuse_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
