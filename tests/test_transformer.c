/* The transformer's operations and the model (section 18), and its file (section 19), against a GPT-2 of
   Hugging Face, PyTorch's layers and double precision. PPO_FUZZ=100000 sets how many damaged files the last test
   tries. */
#include "../ppo.h"
#include "../examples/companions/ppo_methods.h"

#include "golden/language.h"

#include "stb.h"
#include "test.h"
#include "system.h"

static ppo_tape *tape;

static char path[64] = "/tmp/test_transformer.XXXXXX";

static int begin(void **state) {
    int descriptor = mkstemp(path);
    (void)state;
    return descriptor < 0 || close(descriptor) || ppo_tape_create(&tape) != PPO_OK;
}

static int end(void **state) {
    (void)state;
    ppo_tape_free(tape);
    return remove(path) || ppo_use_kernels(NULL) != PPO_OK;
}

/* --------------------------------------------------------------------------------------------------------
   Against Hugging Face and PyTorch
   -------------------------------------------------------------------------------------------------------- */

static void parameters_have_the_names_and_shapes_of_hugging_face(void **state) {
    (void)state;
    ppo_lm *lm = golden_lm();
    for (int k = 0; k < g_gpt_tensors; k++) {
        const ppo_tensor *t = lm->params->tensors[k];
        int turned = k == g_gpt_tensors - 2; /* score.weight multiplies from the right here */
        assert_string_equal(lm->params->names[k], g_gpt_name[k]);
        assert_int_equal(turned ? t->cols : t->rows, g_gpt_rows[k]);
        assert_int_equal(turned ? t->rows : t->cols, g_gpt_cols[k]);
    }
    ppo_lm_free(lm);
}

static void a_gpt2_and_its_gradients_agree_with_hugging_face_in_every_kernel_set(void **state) {
    (void)state;
    ppo_lm *lm = golden_lm();
    ppo_tokens tokens = golden_tokens(g_gpt_length, NULL, g_gpt_token, g_gpt_sequences);
    FOR_KERNEL_SETS(set) {
        ppo_tape_reset(tape);
        tokens.prompt = NULL;
        ppo_tensor *x = ppo_lm_forward(tape, lm, &tokens);
        ppo_tensor *logits = ppo_lm_logits(tape, lm, x), *score = ppo_lm_score(tape, lm, x);
        ppo_response all = ppo_lm_response(tape, lm, &tokens, 1, PPO_POLICY);
        assert_ok(ppo_tape_status(tape));
        assert_int_equal(x->rows, g_gpt_tokens);
        assert_close_array(x->data, g_gpt_hidden, g_gpt_tokens * g_gpt_width, 2e-6);
        assert_close_array(logits->data, g_gpt_logits, g_gpt_tokens * g_gpt_vocab, 2e-6);
        assert_close_array(score->data, g_gpt_score, g_gpt_tokens, 2e-6);
        for (int s = 0, row = 0; s < g_gpt_sequences; s++)
            for (int i = tokens.start[s] + 1; i < tokens.start[s + 1]; i++, row++)
                assert_close(all.logp->data[row], g_gpt_logp[i], 5e-6);

        tokens.prompt = (int *)(uintptr_t)g_gpt_prompt;
        ppo_params_zero_grad(lm->params);
        ppo_response out = ppo_lm_response(tape, lm, &tokens, 1, PPO_POLICY);
        assert_int_equal(out.logp->rows, g_gpt_targets);
        ppo_tensor *loss = ppo_tape_scale(tape, ppo_tape_mean(tape, out.logp), -1, 0);
        assert_ok(ppo_tape_backward(tape, loss));
        assert_close(loss->data[0], g_gpt_loss, 1e-6);
        const float *grad = g_gpt_grad;
        for (int k = 0; k < g_gpt_tensors - 2; k++) {
            const ppo_tensor *t = lm->params->tensors[k];
            assert_close_array(t->grad, grad, t->rows * t->cols, 5e-6);
            grad += t->rows * t->cols;
        }
        assert_true(grad == g_gpt_grad + g_gpt_params);
    }
    ppo_lm_free(lm);
}

/* Runs backward from sum(up y). */
static void backward_from(ppo_tensor *y, const float *up) {
    ppo_tensor *u = y ? ppo_tape_constant(tape, up, y->rows, y->cols) : NULL;
    assert_ok(ppo_tape_backward(tape, ppo_tape_sum(tape, ppo_tape_mul(tape, y, u))));
}

#define GOLDEN(array) ((float *)(uintptr_t)(array)) /* tensors point to data that could be written */

static void layers_and_their_gradients_agree_with_pytorch_in_every_kernel_set(void **state) {
    (void)state;
    FOR_KERNEL_SETS(set) {
        float grad[3][256] = {{0}}, one = 1;
        ppo_tensor x = {g_lnorm_rows, g_lnorm_width, GOLDEN(g_lnorm_x), grad[0]};
        ppo_tensor w = {1, g_lnorm_width, GOLDEN(g_lnorm_weight), grad[1]};
        ppo_tensor b = {1, g_lnorm_width, GOLDEN(g_lnorm_bias), grad[2]};
        ppo_tape_reset(tape);
        ppo_tensor *y = ppo_tape_layer_norm(tape, &x, &w, &b, 1e-5f);
        backward_from(y, g_lnorm_up);
        assert_close_array(y->data, g_lnorm_out, g_lnorm_rows * g_lnorm_width, 1e-5);
        assert_close_array(grad[1], g_lnorm_grad_weight, g_lnorm_width, 1e-5);
        assert_close_array(grad[2], g_lnorm_grad_bias, g_lnorm_width, 1e-6);
        for (int i = 0; i < g_lnorm_rows; i++)
            assert_close_array(grad[0] + i * g_lnorm_width, g_lnorm_grad_x + i * g_lnorm_width, g_lnorm_width,
                               2e-5);

        memset(grad, 0, sizeof grad);
        x = (ppo_tensor){g_gelu_n, 1, GOLDEN(g_gelu_x), grad[0]};
        w = (ppo_tensor){1, 1, &one, NULL};
        ppo_tape_reset(tape);
        y = ppo_tape_linear(tape, &x, &w, NULL, PPO_GELU);
        backward_from(y, g_gelu_up);
        assert_close_array(y->data, g_gelu_out, g_gelu_n, 1e-6);
        assert_close_array(grad[0], g_gelu_grad, g_gelu_n, 2e-6);

        static const int start[2] = {0, g_attn_steps};
        memset(grad, 0, sizeof grad);
        x = (ppo_tensor){g_attn_steps, 3 * g_attn_heads * g_attn_size, GOLDEN(g_attn_qkv), grad[0]};
        ppo_tape_reset(tape);
        y = attend(tape, &x, g_attn_heads, start, 1);
        backward_from(y, g_attn_up);
        assert_close_array(y->data, g_attn_out, g_attn_steps * g_attn_heads * g_attn_size, 1e-6);
        assert_close_array(grad[0], g_attn_grad, 3 * g_attn_steps * g_attn_heads * g_attn_size, 1e-6);

        memset(grad, 0, sizeof grad);
        x = (ppo_tensor){g_embed_rows, g_embed_width, GOLDEN(g_embed_table), grad[0]};
        ppo_tape_reset(tape);
        y = ppo_tape_embedding(tape, &x, g_embed_index, g_embed_n);
        backward_from(y, g_embed_up);
        assert_false(bits_differ(y->data, g_embed_out, g_embed_n * g_embed_width));
        assert_close_array(grad[0], g_embed_grad, g_embed_rows * g_embed_width, 1e-6);
    }
}

/* --------------------------------------------------------------------------------------------------------
   Gradients
   -------------------------------------------------------------------------------------------------------- */

enum { MAX_DATA = 128 };
static float fixed[3][MAX_DATA]; /* weights of a sum, and the arrays that losses take besides a tensor */

static ppo_tensor *weighted_sum(ppo_tape *on, ppo_tensor *y) {
    if (!y) return NULL;
    return ppo_tape_sum(on, ppo_tape_mul(on, y, ppo_tape_constant(on, fixed[0], y->rows, y->cols)));
}

static ppo_tensor *build_attention(ppo_tape *on, ppo_tensor *const *in, void *user) {
    static const int start[4] = {0, 3, 4, 7};
    return weighted_sum(on, attend(on, in[0], *(int *)user, start, 3));
}

static ppo_tensor *build_grouped_attention(ppo_tape *on, ppo_tensor *const *in, void *user) {
    static const int start[4] = {0, 3, 4, 7};
    return weighted_sum(on, ppo_tape_attention(on, in[0], (const ppo_attention *)user, start, 3));
}

static ppo_tensor *build_rms_norm(ppo_tape *on, ppo_tensor *const *in, void *user) {
    (void)user;
    return weighted_sum(on, ppo_tape_rms_norm(on, in[0], in[1], 1e-3f));
}

static ppo_tensor *build_gated(ppo_tape *on, ppo_tensor *const *in, void *user) {
    return weighted_sum(on, ppo_tape_glu(on, in[0], *(int *)user));
}

/* Two heads of 5 columns, of which 4 are turned, and 2 columns more; the angles are no cosines, but any numbers. */
static ppo_tensor *build_rotary(ppo_tape *on, ppo_tensor *const *in, void *user) {
    (void)user;
    return weighted_sum(on, ppo_tape_rotary(on, in[0], ppo_tape_constant(on, fixed[1], 3, 4), 2, 5));
}

static ppo_tensor *build_layer_norm(ppo_tape *on, ppo_tensor *const *in, void *user) {
    (void)user;
    return weighted_sum(on, ppo_tape_layer_norm(on, in[0], in[1], in[2], 1e-5f));
}

static ppo_tensor *build_embedding(ppo_tape *on, ppo_tensor *const *in, void *user) {
    static const int index[7] = {2, 0, 2, 5, 2, 3, 0};
    (void)user;
    return weighted_sum(on, ppo_tape_embedding(on, in[0], index, 7));
}

static ppo_tensor *build_gelu(ppo_tape *on, ppo_tensor *const *in, void *user) {
    return weighted_sum(on, ppo_tape_linear(on, in[0], in[1], *(int *)user ? in[2] : NULL, PPO_GELU));
}

static ppo_tensor *build_transposed(ppo_tape *on, ppo_tensor *const *in, void *user) {
    (void)user;
    return weighted_sum(on, ppo_tape_matmul_transposed(on, in[0], in[1]));
}

static ppo_tensor *build_squared_matrix(ppo_tape *on, ppo_tensor *const *in, void *user) {
    (void)user;
    return weighted_sum(on, ppo_tape_matmul_transposed(on, in[0], in[0]));
}

static ppo_tensor *build_kl_to(ppo_tape *on, ppo_tensor *const *in, void *user) {
    return weighted_sum(on, ppo_tape_categorical_kl_to(on, in[0], fixed[1], *(float *)user));
}

static ppo_tensor *build_dpo(ppo_tape *on, ppo_tensor *const *in, void *user) {
    return ppo_tape_scale(on, ppo_tape_dpo_loss(on, in[0], in[1], fixed[1], fixed[2], 0.7f, *(float *)user),
                          3, 0);
}

static ppo_tensor *build_pairwise(ppo_tape *on, ppo_tensor *const *in, void *user) {
    (void)user;
    return ppo_tape_scale(on, ppo_tape_pairwise_loss(on, in[0], in[1]), 3, 0);
}

/* Sequences of 1, 0, 3 and 2 tokens after their prompts */
static int sum_start[5] = {0, 3, 4, 8, 11}, sum_prompt[4] = {2, 0, 0, 0}, sum_token[11];
static ppo_tokens sum_tokens = {4, sum_start, sum_prompt, sum_token, NULL, NULL};

static ppo_tensor *build_sequence_sum(ppo_tape *on, ppo_tensor *const *in, void *user) {
    (void)user;
    return weighted_sum(on, ppo_tape_sequence_sum(on, in[0], &sum_tokens));
}

static void check_gradients(const char *name, ppo_scalar_fn build, void *user, const int (*shapes)[2],
                            int n_in) {
    static float data[3][MAX_DATA], grad[3][MAX_DATA];
    ppo_rng rng = test_rng(5);
    ppo_tensor tensors[3], *inputs[3];
    float error = NAN;
    for (int k = 0; k < 3; k++) fill_normal(&rng, fixed[k], MAX_DATA, 1);
    for (int k = 0; k < n_in; k++) {
        assert_true(shapes[k][0] * shapes[k][1] <= MAX_DATA);
        fill_normal(&rng, data[k], MAX_DATA, 1);
        tensors[k] = (ppo_tensor){shapes[k][0], shapes[k][1], data[k], grad[k]};
        inputs[k] = &tensors[k];
    }
    if (ppo_check_gradients(build, inputs, n_in, user, 1e-2f, 3e-3f, &error) != PPO_OK)
        fail_msg("%s: %s (error %g)", name, ppo_last_error(), (double)error);
}

static void operations_of_a_transformer_have_right_gradients(void **state) {
    (void)state;
    static const int qkv[][2] = {{7, 12}}, norm[][2] = {{3, 5}, {1, 5}, {1, 5}}, table[][2] = {{6, 4}},
                     linear[][2] = {{4, 3}, {3, 5}, {1, 5}}, transposed[][2] = {{3, 4}, {5, 4}},
                     logits[][2] = {{3, 5}}, pairs[][2] = {{4, 1}, {4, 1}};
    int heads[] = {1, 2, 4}, bias[] = {0, 1};
    float temperature[] = {1, 0.7f, 2}, smoothing[] = {0, 0.1f};
    for (int k = 0; k < 3; k++) check_gradients("attention", build_attention, &heads[k], qkv, 1);
    check_gradients("layer_norm", build_layer_norm, NULL, norm, 3);
    ppo_attention grouped[] = {{4, 2, 0, 0}, {2, 1, 2, 0.3f}, {4, 1, 1, 0}};
    for (int k = 0; k < 3; k++)
        check_gradients("attention of groups", build_grouped_attention, &grouped[k],
                        (const int[][2]){{7, k == 0   ? 16
                                             : k == 1 ? 12
                                                      : 18}},
                        1);
    check_gradients("rms_norm", build_rms_norm, NULL, norm, 2);
    check_gradients("rotary", build_rotary, NULL, (const int[][2]){{3, 12}}, 1);
    for (int k = PPO_IDENTITY; k <= PPO_SILU; k++)
        if (k != PPO_RELU) check_gradients("gated", build_gated, &k, (const int[][2]){{3, 8}}, 1);
    check_gradients("embedding", build_embedding, NULL, table, 1);
    for (int k = 0; k < 2; k++) check_gradients("gelu", build_gelu, &bias[k], linear, 2 + k);
    check_gradients("matmul_transposed", build_transposed, NULL, transposed, 2);
    check_gradients("matmul_transposed of one matrix", build_squared_matrix, NULL, transposed, 1);
    for (int k = 0; k < 3; k++) check_gradients("kl_to", build_kl_to, &temperature[k], logits, 1);
    for (int k = 0; k < 2; k++) check_gradients("dpo_loss", build_dpo, &smoothing[k], pairs, 2);
    check_gradients("pairwise_loss", build_pairwise, NULL, pairs, 2);
    check_gradients("sequence_sum", build_sequence_sum, NULL, (const int[][2]){{6, 1}}, 1);
}

static void kl_to_is_the_kl_of_what_is_trained_to_the_reference(void **state) {
    (void)state;
    enum { ROWS = 6, VOCAB = 9 };
    float p[ROWS * VOCAB], q[ROWS * VOCAB], p_warm[ROWS * VOCAB], q_warm[ROWS * VOCAB], want[ROWS];
    ppo_rng rng = test_rng(6);
    fill_normal(&rng, p, ROWS * VOCAB, 2), fill_normal(&rng, q, ROWS * VOCAB, 2);
    memcpy(q + VOCAB, p + VOCAB, VOCAB * sizeof *q); /* row 1: nothing between them */
    p[2 * VOCAB] = -INFINITY;                        /* row 2: a token that the one never says */
    p[3 * VOCAB] = q[3 * VOCAB] = -INFINITY;         /* row 3: nor the other */
    for (int i = 0; i < ROWS * VOCAB; i++) p_warm[i] = p[i] / 0.8f, q_warm[i] = q[i] / 0.8f;
    FOR_KERNEL_SETS(set) {
        float grad[ROWS * VOCAB] = {0};
        ppo_tensor logits = {ROWS, VOCAB, p, grad};
        ppo_tape_reset(tape);
        ppo_tensor *kl = ppo_tape_categorical_kl_to(tape, &logits, q, 0.8f);
        assert_ok(ppo_tape_backward(tape, ppo_tape_sum(tape, kl)));
        assert_ok(ppo_categorical_kl(p_warm, q_warm, ROWS, VOCAB, want));
        assert_close_array(kl->data, want, ROWS, 2e-6);
        assert_true(kl->data[1] < 1e-6f && kl->data[1] >= 0);
        assert_true(grad[2 * VOCAB] == 0 && grad[3 * VOCAB] == 0);
        for (int i = 0; i < ROWS * VOCAB; i++) assert_true(isfinite(grad[i]));
    }
}

static void sequence_sum_adds_the_rows_of_each_sequence(void **state) {
    (void)state;
    float x[6] = {1, 2, 4, 8, 16, 32};
    ppo_tensor *sum;
    ppo_tape_reset(tape);
    sum = ppo_tape_sequence_sum(tape, ppo_tape_constant(tape, x, 6, 1), &sum_tokens);
    assert_ok(ppo_tape_status(tape));
    assert_true(sum->rows == 4 && sum->cols == 1);
    assert_true(sum->data[0] == 1 && sum->data[1] == 0 && sum->data[2] == 14 && sum->data[3] == 48);
    for (int s = 0; s < 5; s++)
        assert_int_equal(ppo_response_row(&sum_tokens, s), ((const int[]){0, 1, 1, 4, 6})[s]);
}

/* --------------------------------------------------------------------------------------------------------
   Attention, rows and batches
   -------------------------------------------------------------------------------------------------------- */

enum { A_HEADS = 2, A_SIZE = 5, A_WIDTH = A_HEADS * A_SIZE, A_ROWS = 104 };

/* What one head makes of n rows, in double precision; and for dy the gradient dqkv. */
static void reference_attention(const float *qkv, const float *dy, int n, int head, double *y, double *dqkv) {
    const int at[3] = {head * A_SIZE, A_WIDTH + head * A_SIZE, 2 * A_WIDTH + head * A_SIZE};
    for (int i = 0; i < n; i++) {
        double p[A_ROWS], dp[A_ROWS], top = -INFINITY, sum = 0, dot = 0;
        for (int j = 0; j <= i; j++) {
            p[j] = 0;
            for (int c = 0; c < A_SIZE; c++)
                p[j] += (double)qkv[i * 3 * A_WIDTH + at[0] + c] * qkv[j * 3 * A_WIDTH + at[1] + c] /
                        sqrt(A_SIZE);
            top = fmax(top, p[j]);
        }
        for (int j = 0; j <= i; j++) sum += p[j] = exp(p[j] - top);
        for (int j = 0; j <= i; j++) {
            p[j] /= sum;
            dp[j] = 0;
            for (int c = 0; c < A_SIZE; c++) {
                double up = dy[i * A_WIDTH + at[0] + c], v = qkv[j * 3 * A_WIDTH + at[2] + c];
                y[i * A_WIDTH + at[0] + c] += p[j] * v;
                dqkv[j * 3 * A_WIDTH + at[2] + c] += p[j] * up;
                dp[j] += up * v;
            }
            dot += p[j] * dp[j];
        }
        for (int j = 0; j <= i; j++)
            for (int c = 0; c < A_SIZE; c++) {
                double ds = p[j] * (dp[j] - dot) / sqrt(A_SIZE);
                dqkv[i * 3 * A_WIDTH + at[0] + c] += ds * qkv[j * 3 * A_WIDTH + at[1] + c];
                dqkv[j * 3 * A_WIDTH + at[1] + c] += ds * qkv[i * 3 * A_WIDTH + at[0] + c];
            }
    }
}

static void
attention_and_its_gradients_agree_with_double_precision_at_lengths_around_its_blocks(void **state) {
    (void)state;
    static float qkv[A_ROWS * 3 * A_WIDTH], dy[A_ROWS * A_WIDTH], grad[A_ROWS * 3 * A_WIDTH];
    static double y[A_ROWS * A_WIDTH], dqkv[A_ROWS * 3 * A_WIDTH];
    static const int lengths[] = {1, 2, 31, 32, 33, 63, 64, 65, 100};
    FOR_KERNEL_SETS(set) {
        ppo_rng rng = test_rng(8);
        for (int k = 0; k < COUNT(lengths); k++) {
            int n = lengths[k], rows = n + 4, start[4] = {0, 3, 3 + n, rows};
            fill_normal(&rng, qkv, rows * 3 * A_WIDTH, 1), fill_normal(&rng, dy, rows * A_WIDTH, 1);
            memset(grad, 0, sizeof grad), memset(y, 0, sizeof y), memset(dqkv, 0, sizeof dqkv);
            ppo_tensor x = {rows, 3 * A_WIDTH, qkv, grad};
            ppo_tape_reset(tape);
            ppo_tensor *out = attend(tape, &x, A_HEADS, start, 3);
            backward_from(out, dy);
            for (int s = 0; s < 3; s++)
                for (int head = 0; head < A_HEADS; head++)
                    reference_attention(qkv + start[s] * 3 * A_WIDTH, dy + start[s] * A_WIDTH,
                                        start[s + 1] - start[s], head, y + start[s] * A_WIDTH,
                                        dqkv + start[s] * 3 * A_WIDTH);
            for (int i = 0; i < rows * A_WIDTH; i++) assert_true(is_close(out->data[i], y[i], 3e-6, 1));
            for (int i = 0; i < rows * 3 * A_WIDTH; i++) assert_true(is_close(grad[i], dqkv[i], 1e-5, 1));
        }
    }
}

/* A model and sequences of such sizes that matrices of few and of many rows go different ways. */
enum { W_VOCAB = 700, W_CONTEXT = 70, W_WIDTH = 192, W_COUNT = 7, W_ROWS = 183 };
static const int w_lengths[W_COUNT] = {5, 1, 70, 32, 33, 40, 2};

typedef struct told { /* what a model makes of sequences */
    float x[W_ROWS * W_WIDTH], logits[W_ROWS * W_VOCAB], score[W_ROWS];
} told;

static void evaluate(const ppo_lm *lm, const ppo_tokens *tokens, told *out) {
    ppo_tape_reset(tape);
    ppo_tensor *x = ppo_lm_forward(tape, lm, tokens);
    ppo_tensor *logits = ppo_lm_logits(tape, lm, x), *score = ppo_lm_score(tape, lm, x);
    assert_ok(ppo_tape_status(tape));
    memcpy(out->x, x->data, (size_t)(x->rows * x->cols) * sizeof(float));
    memcpy(out->logits, logits->data, (size_t)(logits->rows * logits->cols) * sizeof(float));
    memcpy(out->score, score->data, (size_t)score->rows * sizeof(float));
}

static int rows_differ(const told *a, int row_a, const told *b, int row_b, int n) {
    return bits_differ(a->x + row_a * W_WIDTH, b->x + row_b * W_WIDTH, (size_t)(n * W_WIDTH)) ||
           bits_differ(a->logits + row_a * W_VOCAB, b->logits + row_b * W_VOCAB, (size_t)(n * W_VOCAB)) ||
           bits_differ(a->score + row_a, b->score + row_b, (size_t)n);
}

static told all_told, part_told;

static void a_sequence_has_the_same_bits_alone_and_in_any_company(void **state) {
    (void)state;
    ppo_lm *lm = random_lm(lm_config(W_VOCAB, W_CONTEXT, W_WIDTH, 1, 6), 0.1f);
    ppo_tokens tokens = {0}, some = {0};
    ppo_rng rng = test_rng(9);
    for (int s = 0; s < W_COUNT; s++) add_random(&tokens, &rng, W_VOCAB, w_lengths[s], 0);
    FOR_KERNEL_SETS(set) {
        evaluate(lm, &tokens, &all_told);
        for (int s = 0; s < W_COUNT; s++) {
            int start[2];
            ppo_tokens one = one_sequence(&tokens, s, start);
            ppo_tape_record(tape, s % 2);
            evaluate(lm, &one, &part_told);
            if (rows_differ(&all_told, tokens.start[s], &part_told, 0, w_lengths[s]))
                fail_msg("%s: sequence %d differs when it is alone", ppo_kernels_name(), s);
        }
        ppo_tape_record(tape, 1);
        ppo_tokens_clear(&some);
        for (int s = W_COUNT - 1; s >= 0; s -= 2)
            assert_ok(ppo_tokens_add(&some, tokens.token + tokens.start[s], w_lengths[s], 0));
        evaluate(lm, &some, &part_told);
        for (int k = 0; k < some.count; k++)
            assert_false(rows_differ(&all_told, tokens.start[W_COUNT - 1 - 2 * k], &part_told, some.start[k],
                                     w_lengths[W_COUNT - 1 - 2 * k]));
    }
    ppo_tokens_free(&tokens);
    ppo_tokens_free(&some);
    ppo_lm_free(lm);
}

static void a_later_token_changes_no_earlier_row(void **state) {
    (void)state;
    static const int kept[] = {1, 6, 31, 32, 33, 39};
    ppo_lm *lm = random_lm(lm_config(W_VOCAB, W_CONTEXT, W_WIDTH, 1, 6), 0.1f);
    FOR_KERNEL_SETS(set) {
        ppo_rng rng = test_rng(10);
        for (int k = 0; k < COUNT(kept); k++) {
            ppo_tokens tokens = {0};
            add_random(&tokens, &rng, W_VOCAB, 40, 0);
            evaluate(lm, &tokens, &all_told);
            for (int i = kept[k]; i < 40; i++) tokens.token[i] = (tokens.token[i] + 1 + i) % W_VOCAB;
            evaluate(lm, &tokens, &part_told);
            assert_false(rows_differ(&all_told, 0, &part_told, 0, kept[k]));
            for (int i = kept[k]; i < 40; i++) assert_true(rows_differ(&all_told, i, &part_told, i, 1));
            ppo_tokens_free(&tokens);
        }
    }
    ppo_lm_free(lm);
}

/* --------------------------------------------------------------------------------------------------------
   Tokens
   -------------------------------------------------------------------------------------------------------- */

static void tokens_lie_one_sequence_after_another(void **state) {
    (void)state;
    ppo_tokens tokens = {0};
    const int text[] = {5, 6, 7, 8};
    assert_ok(ppo_tokens_add(&tokens, text, 3, 1));
    assert_ok(ppo_tokens_add(&tokens, text + 3, 1, 0));
    assert_ok(ppo_tokens_add(&tokens, text, 4, 4));
    assert_int_equal(tokens.count, 3);
    assert_memory_equal(tokens.start, ((int[]){0, 3, 4, 8}), 4 * sizeof(int));
    assert_memory_equal(tokens.prompt, ((int[]){1, 0, 4}), 3 * sizeof(int));
    assert_memory_equal(tokens.token, ((int[]){5, 6, 7, 8, 5, 6, 7, 8}), 8 * sizeof(int));
    ppo_tokens_clear(&tokens);
    assert_int_equal(tokens.count, 0);
    assert_ok(ppo_tokens_add(&tokens, text + 1, 2, 2));
    assert_int_equal(tokens.prompt[0], 2);
    assert_memory_equal(tokens.start, ((int[]){0, 2}), 2 * sizeof(int));
    assert_memory_equal(tokens.token, text + 1, 2 * sizeof(int));
    ppo_tokens_free(&tokens);
    assert_true(tokens.count == 0 && !tokens.start && !tokens.prompt && !tokens.token);
    ppo_tokens_clear(&tokens); /* of nothing, and of no struct */
    ppo_tokens_clear(NULL);
    ppo_tokens_free(NULL);
}

static void impossible_sequences_are_refused_and_leave_the_others(void **state) {
    (void)state;
    ppo_tokens tokens = {0};
    const int text[] = {5, 6};
    assert_fails(ppo_tokens_add(NULL, text, 2, 0), PPO_ERROR_ARGUMENT, "ppo_tokens_add|NULL");
    assert_fails(ppo_tokens_add(&tokens, NULL, 2, 0), PPO_ERROR_ARGUMENT, "NULL");
    assert_null(tokens.start);
    assert_ok(ppo_tokens_add(&tokens, text, 2, 2));
    assert_fails(ppo_tokens_add(&tokens, text, 0, 0), PPO_ERROR_ARGUMENT, "0 tokens");
    assert_fails(ppo_tokens_add(&tokens, text, -1, 0), PPO_ERROR_ARGUMENT, "-1 tokens");
    assert_fails(ppo_tokens_add(&tokens, text, 2, 3), PPO_ERROR_ARGUMENT, "2 tokens|3 of them");
    assert_fails(ppo_tokens_add(&tokens, text, 2, -1), PPO_ERROR_ARGUMENT, "-1 of them");
    assert_true(tokens.count == 1 && tokens.start[1] == 2);
    ppo_tokens_free(&tokens);
}

static void a_sequence_that_found_no_memory_leaves_the_others_and_may_come_again(void **state) {
    (void)state;
    int text[50];
    for (int i = 0; i < 50; i++) text[i] = i;
    for (int k = 0, failed = 1; failed; k++) {
        ppo_tokens tokens = {0};
        heap h = {0, 0, k, 0};
        failed = 0;
        ppo_set_allocator(heap_hook, &h);
        for (int s = 0; s < 12; s++) {
            ppo_tokens before = tokens;
            ppo_status status = ppo_tokens_add(&tokens, text + s, 5 + 3 * s, s);
            if (status) {
                assert_int_equal(status, PPO_ERROR_MEMORY);
                assert_memory_equal(&tokens, &before, sizeof tokens);
                failed = 1;
                assert_ok(ppo_tokens_add(&tokens, text + s, 5 + 3 * s, s));
            }
        }
        for (int s = 0, at = 0; s < 12; at += 5 + 3 * s++) {
            assert_true(tokens.start[s] == at && tokens.start[s + 1] == at + 5 + 3 * s &&
                        tokens.prompt[s] == s);
            assert_memory_equal(tokens.token + at, text + s, (size_t)(5 + 3 * s) * sizeof(int));
        }
        ppo_tokens_free(&tokens);
        ppo_set_allocator(NULL, NULL);
        assert_int_equal(h.live, 0);
        assert_true(failed || k > 2);
    }
}

static void a_sequence_of_the_set_itself_may_be_added_to_it(void **state) {
    (void)state;
    enum { N = 200 };
    ppo_tokens p = {0};
    const int text[] = {5, 6, 7, 8, 9};
    assert_ok(ppo_tokens_add(&p, text, 5, 2));
    for (int s = 1; s < N; s++) { /* the first one again, its end, or the one before last */
        if (s % 3 == 0) assert_ok(ppo_tokens_add(&p, p.token + p.start[0], 5, 2));
        if (s % 3 == 1) assert_ok(ppo_tokens_add(&p, p.token + p.start[s] - 1, 1, 0));
        if (s % 3 == 2) assert_ok(ppo_tokens_add_from(&p, &p, s - 2));
    }
    assert_int_equal(p.count, N);
    for (int s = 0; s < N; s++) {
        int n = s % 3 == 1 ? 1 : 5;
        assert_int_equal(p.start[s + 1] - p.start[s], n);
        assert_int_equal(p.prompt[s], n == 1 ? 0 : 2);
        assert_memory_equal(p.token + p.start[s], text + 5 - n, (size_t)n * sizeof(int));
    }
    ppo_tokens_free(&p);
}

/* The arrays lie in the middle of others, which must not change either. */
static void arrays_of_your_own_are_neither_changed_nor_freed(void **state) {
    (void)state;
    int start[48], token[48];
    const int one = 1;
    ppo_tokens own;
    for (int i = 0; i < 48; i++) start[i] = token[i] = 100 + i;
    memset(&own, 0, sizeof own);
    own.count = 2, own.start = start + 20, own.token = token + 20;
    own.start[0] = 0, own.start[1] = 3, own.start[2] = 5;
    ppo_tokens_clear(&own);
    ppo_tokens_free(&own);
    assert_fails(ppo_tokens_add(&own, &one, 1, 1), PPO_ERROR_ARGUMENT, "not the library's");
    assert_fails(ppo_tokens_add_from(NULL, NULL, 3), PPO_ERROR_ARGUMENT, "ppo_tokens_add_from|NULL");
    assert_fails(ppo_tokens_add_from(&own, &own, 0), PPO_ERROR_ARGUMENT, "not the library's");
    assert_true(own.count == 2 && own.start == start + 20 && own.token == token + 20 && !own.prompt);
    for (int i = 0; i < 48; i++) {
        assert_int_equal(token[i], 100 + i);
        assert_int_equal(start[i], i == 20 ? 0 : i == 21 ? 3 : i == 22 ? 5 : 100 + i);
    }
    ppo_tokens_clear(NULL);
    ppo_tokens_free(NULL);
}

static void a_sequence_of_others_is_added_as_it_is_there(void **state) {
    (void)state;
    int text[] = {1, 2, 3, 4, 5, 6}, start[] = {0, 2, 5, 6}, prompt[] = {1, 3, 0};
    ppo_tokens from = {3, start, prompt, text, NULL, NULL}, to = {0};
    assert_ok(ppo_tokens_add_from(&to, &from, 1));
    assert_ok(ppo_tokens_add_from(&to, &from, 2));
    from.prompt = NULL;
    assert_ok(ppo_tokens_add_from(&to, &from, 0));
    for (int k = 0; k < 2; k++) {
        assert_int_equal(to.count, 3);
        assert_memory_equal(to.start, ((int[]){0, 3, 4, 6}), 4 * sizeof(int));
        assert_memory_equal(to.prompt, ((int[]){3, 0, 0}), 3 * sizeof(int));
        assert_memory_equal(to.token, ((int[]){3, 4, 5, 6, 1, 2}), 6 * sizeof(int));
        assert_fails(ppo_tokens_add_from(&to, &from, 3), PPO_ERROR_ARGUMENT, "no sequence 3 in 3");
        assert_fails(ppo_tokens_add_from(&to, &from, -1), PPO_ERROR_ARGUMENT, "no sequence -1 in 3");
        assert_fails(ppo_tokens_add_from(&to, &to, 3), PPO_ERROR_ARGUMENT, "no sequence 3 in 3");
        assert_fails(ppo_tokens_add_from(&to, NULL, 0), PPO_ERROR_ARGUMENT, "ppo_tokens_add_from");
        assert_fails(ppo_tokens_add_from(NULL, &from, 0), PPO_ERROR_ARGUMENT, "NULL");
    }
    ppo_tokens_free(&to);
}

/* --------------------------------------------------------------------------------------------------------
   The model: creation, copies, errors, memory
   -------------------------------------------------------------------------------------------------------- */

static ppo_lm_config small_config(void) { return lm_config(11, 8, 12, 2, 3); }

static double deviation(const ppo_tensor *t) {
    double squares = 0;
    for (int i = 0; i < t->rows * t->cols; i++) squares += (double)t->data[i] * t->data[i];
    return sqrt(squares / (t->rows * t->cols));
}

static int all_are(const ppo_tensor *t, float x) {
    for (int i = 0; i < t->rows * t->cols; i++)
        if (t->data[i] != x) return 0;
    return 1;
}

static void a_config_has_defaults_for_all_but_the_vocabulary(void **state) {
    (void)state;
    ppo_lm_config c = ppo_lm_config_default();
    ppo_lm *lm = NULL;
    assert_true(c.vocab == 0 && c.context == 64 && c.width == 64 && c.layers == 2 && c.heads == 4);
    assert_true(c.score == 0 && c.seed == 1);
    assert_fails(ppo_lm_create(&c, &lm), PPO_ERROR_ARGUMENT, "vocab is 0");
    c.vocab = 20;
    assert_ok(ppo_lm_create(&c, &lm));
    ppo_lm_free(lm);
}

/* Counts allocations of 64 KB or more, and the bytes of all. */
static struct {
    long large;
    size_t bytes;
} asked_for;

static void *measuring_heap(void *user, void *ptr, size_t size) {
    asked_for.large += size >= 1 << 16;
    asked_for.bytes += size;
    return heap_hook(user, ptr, size);
}

static void a_models_parameters_are_laid_out_at_once(void **state) {
    (void)state;
    long large[2];
    for (int k = 0; k < 4; k++) {
        ppo_lm_config c = lm_config(150 + k, 64, 64, k < 2 ? 1 : 12, 4);
        ppo_lm *lm = NULL, *copy = NULL;
        heap h = {0, 0, -1, 0};
        c.score = k % 2;
        memset(&asked_for, 0, sizeof asked_for);
        ppo_set_allocator(measuring_heap, &h);
        assert_ok(ppo_lm_create(&c, &lm));
        if (k < 2) large[k] = asked_for.large;
        assert_int_equal(asked_for.large, large[k % 2]);
        assert_true((double)asked_for.bytes < 1.2 * 16 * (double)lm->params->count);
        assert_ok(ppo_lm_copy(lm, 1, &copy));
        assert_true(lm->params->count == lm->params->capacity);
        assert_true(copy->params->count == copy->params->capacity);
        ppo_lm_free(lm), ppo_lm_free(copy);
        ppo_set_allocator(NULL, NULL);
        assert_int_equal(h.live, 0);
    }
}

static void a_new_model_has_weights_of_gpt2s_deviations(void **state) {
    (void)state;
    ppo_lm_config c = lm_config(150, 100, 64, 3, 4);
    ppo_lm *lm, *same, *other;
    assert_ok(ppo_lm_create(&c, &lm));
    assert_close(deviation(lm->token_embedding), 0.02, 0.05);
    assert_close(deviation(lm->position_embedding), 0.02, 0.05);
    for (int i = 0; i < c.layers; i++) {
        const ppo_lm_block *b = &lm->block[i];
        assert_close(deviation(b->qkv_weight), 0.02, 0.05);
        assert_close(deviation(b->up_weight), 0.02, 0.05);
        assert_close(deviation(b->proj_weight), 0.02 / sqrt(6), 0.05);
        assert_close(deviation(b->down_weight), 0.02 / sqrt(6), 0.05);
        assert_true(all_are(b->qkv_bias, 0) && all_are(b->proj_bias, 0) && all_are(b->up_bias, 0) &&
                    all_are(b->down_bias, 0));
        for (int k = 0; k < 2; k++) assert_true(all_are(b->norm_weight[k], 1) && all_are(b->norm_bias[k], 0));
    }
    assert_true(all_are(lm->norm_weight, 1) && all_are(lm->norm_bias, 0));
    assert_true(all_are(lm->score_weight, 0) && all_are(lm->score_bias, 0));
    assert_ok(ppo_lm_create(&c, &same));
    c.seed = 2;
    assert_ok(ppo_lm_create(&c, &other));
    assert_false(bits_differ(lm->params->data, same->params->data, lm->params->count));
    assert_true(bits_differ(lm->params->data, other->params->data, lm->params->count));
    ppo_lm_free(lm), ppo_lm_free(same), ppo_lm_free(other);
}

/* What was left to follow from other settings follows from the new ones. */
static void the_config_of_a_model_may_be_changed_for_another(void **state) {
    (void)state;
    ppo_lm_config c = lm_config(11, 8, 12, 2, 3);
    ppo_lm *lm = NULL, *other = NULL;
    assert_ok(ppo_lm_create(&c, &lm));
    c = lm->config;
    c.width = 5, c.heads = 1;
    assert_ok(ppo_lm_create(&c, &other));
    assert_true(lm->full.kv_heads == 3 && lm->full.head_size == 4 && lm->full.hidden == 48);
    assert_true(other->full.kv_heads == 1 && other->full.head_size == 5 && other->full.hidden == 20);
    ppo_lm_free(lm);
    ppo_lm_free(other);
}

static void impossible_models_are_refused_with_the_reason(void **state) {
    (void)state;
    static const struct {
        size_t field;
        int value;
        const char *words;
    } bad[] = {{offsetof(ppo_lm_config, vocab), 1, "vocab is 1"},
               {offsetof(ppo_lm_config, vocab), -5, "-5"},
               {offsetof(ppo_lm_config, context), 1, "context|1"},
               {offsetof(ppo_lm_config, layers), 0, "layers|0"},
               {offsetof(ppo_lm_config, layers), 65, "layers|65|64"},
               {offsetof(ppo_lm_config, heads), 0, "heads is 0"},
               {offsetof(ppo_lm_config, heads), 5, "12|5 heads"},
               {offsetof(ppo_lm_config, heads), -3, "-3"},
               {offsetof(ppo_lm_config, width), 13, "13|3 heads"},
               {offsetof(ppo_lm_config, width), 0, "width|0"},
               {offsetof(ppo_lm_config, width), INT_MAX / 3 * 3, "width"}};
    ppo_lm_config good = small_config();
    for (int i = 0; i < COUNT(bad); i++) {
        ppo_lm_config c = good;
        ppo_lm *lm = (ppo_lm *)&c;
        memcpy((char *)&c + bad[i].field, &bad[i].value, sizeof(int));
        assert_fails(ppo_lm_create(&c, &lm), PPO_ERROR_ARGUMENT, bad[i].words);
        assert_null(lm);
    }
    ppo_lm *lm = NULL;
    assert_fails(ppo_lm_create(NULL, &lm), PPO_ERROR_ARGUMENT, "ppo_lm_create|NULL");
    assert_fails(ppo_lm_create(&good, NULL), PPO_ERROR_ARGUMENT, "ppo_lm_create|NULL");
    assert_fails(ppo_lm_copy(NULL, 0, &lm), PPO_ERROR_ARGUMENT, "ppo_lm_copy|NULL");
    ppo_lm_free(NULL);
}

/* An allocator with a limit: what is larger is not there. */
static void *small_heap(void *user, void *ptr, size_t size) {
    return size > 1 << 24 ? NULL : heap_hook(user, ptr, size);
}

static void a_model_that_no_memory_can_hold_is_refused(void **state) {
    (void)state;
    static const int sizes[][3] = {
        {INT_MAX, 2, 2}, {2, INT_MAX, 2}, {2, 2, INT_MAX / 4 - 1}, {INT_MAX, INT_MAX, INT_MAX / 4 - 1}};
    for (int i = 0; i < COUNT(sizes); i++) {
        ppo_lm_config c = lm_config(sizes[i][0], sizes[i][1], sizes[i][2], 1, 1);
        ppo_lm *lm = NULL;
        heap h = {0, 0, -1, 0};
        ppo_set_allocator(small_heap, &h);
        assert_fails(ppo_lm_create(&c, &lm), PPO_ERROR_MEMORY, "memory");
        ppo_set_allocator(NULL, NULL);
        assert_null(lm);
        assert_int_equal(h.live, 0);
    }
}

/* Its positions stay, and files have them. */
static void a_lowered_context_lasts_in_copies_but_not_in_files(void **state) {
    (void)state;
    ppo_lm_config c = small_config();
    for (int rotary = 0; rotary < 2; rotary++) {
        c.positions = rotary ? PPO_ROTARY : PPO_LEARNED_POSITIONS;
        const char *path = scratch_path("lowered"), *checkpoint = scratch_path("checkpoint");
        ppo_lm *lm = random_lm(c, 0.3f), *copy = NULL, *read = NULL;
        ppo_rng rng = test_rng(13);
        ppo_tokens tokens = {0};
        ppo_fit_config fit = ppo_fit_config_default();
        lm->config.context = 4;
        assert_ok(ppo_lm_copy(lm, 1, &copy));
        assert_true(copy->config.context == 4 && copy->config.score == 1 && copy->full.context == c.context);
        assert_false(bits_differ(lm->params->data, copy->params->data, lm->params->count));
        assert_ok(ppo_lm_save_file(copy, NULL, path));
        assert_ok(ppo_lm_load(path, &read));
        assert_int_equal(read->config.context, c.context);
        assert_false(bits_differ(read->params->data, copy->params->data, copy->params->count));
        add_random(&tokens, &rng, c.vocab, 4, 0);
        fit.checkpoint = checkpoint;
        assert_ok(ppo_fit_sft(copy, &tokens, &fit));
        assert_ok(ppo_fit_sft(copy, &tokens, &fit)); /* of a complete one, the model is read */
        assert_int_equal(copy->config.context, 4);
        remove(path), remove(checkpoint);
        ppo_tokens_free(&tokens);
        ppo_lm_free(lm), ppo_lm_free(copy), ppo_lm_free(read);
    }
}

static void a_copy_has_the_same_weights_and_a_life_of_its_own(void **state) {
    (void)state;
    ppo_lm_config c = small_config();
    ppo_rng rng = test_rng(12);
    ppo_tokens tokens = {0};
    add_random(&tokens, &rng, c.vocab, 8, 0);
    for (int had = 0; had < 2; had++)
        for (int score = 0; score < 2; score++) {
            c.score = had;
            ppo_lm *lm = random_lm(c, 0.3f), *copy = NULL;
            assert_ok(ppo_lm_copy(lm, score, &copy));
            assert_int_equal(copy->score_weight != NULL, had || score);
            if (!had && score) assert_true(all_are(copy->score_weight, 0) && all_are(copy->score_bias, 0));
            assert_false(bits_differ(lm->params->data, copy->params->data, lm->params->count));
            assert_true(copy->params->step == 0 && copy->params->data != lm->params->data);
            ppo_tape_reset(tape);
            ppo_tensor *x = ppo_lm_forward(tape, lm, &tokens), *y = ppo_lm_forward(tape, copy, &tokens);
            assert_ok(ppo_tape_status(tape));
            assert_false(bits_differ(x->data, y->data, (size_t)(x->rows * x->cols)));
            float before = lm->params->data[0];
            copy->params->data[0] += 1;
            assert_true(lm->params->data[0] == before);
            ppo_lm_free(lm);
            ppo_lm_free(copy);
        }
    ppo_tokens_free(&tokens);
}

/* The operation failed, NULL came out of it, and the tape says why. */
static void check_refused(const ppo_tensor *y, const char *words, const char *call, int line) {
    if (y) fail_msg("line %d: %s has a result", line, call);
    ppo_fail(PPO_OK, "(no sentence)");
    check_fails(ppo_tape_status(tape), PPO_ERROR_ARGUMENT, words, call, __FILE__, line);
    ppo_tape_reset(tape);
}

#define assert_refused(call, words) check_refused(call, words, #call, __LINE__)

static void operations_refuse_operands_that_do_not_fit_and_name_themselves(void **state) {
    (void)state;
    float data[96] = {0};
    static const int start[] = {0, 2, 4}, index[] = {0, 3, 1, 4}, empty[] = {0, 4, 4}, from_1[] = {1, 2, 4},
                     back[] = {0, 5, 4}, beyond[] = {0, 2, 5};
    ppo_tensor a = {4, 6, data, NULL}, b = {3, 6, data, NULL}, row = {1, 6, data, NULL},
               column = {4, 1, data, NULL}, longer = {5, 1, data, NULL}, odd = {4, 7, data, NULL};
    ppo_tape_reset(tape);
    assert_refused(ppo_tape_matmul_transposed(tape, &a, &odd), "matmul_transposed|(4, 6)|(4, 7)");
    assert_refused(ppo_tape_matmul_transposed(tape, &a, NULL), "matmul_transposed|NULL");
    assert_refused(ppo_tape_embedding(tape, &a, index, 4), "embedding|index 4 of row 3|0 .. 3");
    assert_refused(ppo_tape_embedding(tape, &a, (const int[]){0, -1}, 2), "embedding|index -1 of row 1");
    assert_refused(ppo_tape_embedding(tape, &a, NULL, 2), "embedding|NULL");
    assert_refused(ppo_tape_embedding(tape, &a, index, 0), "(0, 6)");
    assert_refused(ppo_tape_layer_norm(tape, &a, &b, &row, 1e-5f), "layer_norm|(3, 6)");
    assert_refused(ppo_tape_layer_norm(tape, &a, &row, &row, 0), "layer_norm: eps is 0, must be above 0");
    assert_refused(ppo_tape_rms_norm(tape, &a, &b, 1e-5f), "rms_norm|(3, 6)");
    assert_refused(ppo_tape_rms_norm(tape, &a, NULL, 1e-5f), "rms_norm|NULL");
    assert_refused(ppo_tape_glu(tape, &odd, PPO_SILU), "glu: 7 columns");
    assert_refused(ppo_tape_glu(tape, &a, 77), "glu|no activation 77");
    assert_refused(ppo_tape_rotary(tape, &a, &odd, 1, 6), "rotary|(4, 7)");
    assert_refused(ppo_tape_rotary(tape, &a, &a, 2, 6), "rotary: 2 heads of 6 columns in 6");
    assert_refused(ppo_tape_attention(tape, &a, NULL, start, 2), "attention|NULL");
    assert_refused(ppo_tape_attention(tape, &a, &(ppo_attention){4, 3, 0, 0}, start, 2),
                   "4 heads of queries, 3 of keys");
    assert_refused(ppo_tape_attention(tape, &a, &(ppo_attention){2, 2, -1, 0}, start, 2), "attention");
    assert_refused(ppo_tape_layer_norm(tape, &odd, &row, &row, 1e-5f), "layer_norm|(4, 7)");
    assert_refused(ppo_tape_layer_norm(tape, &a, &row, NULL, 1e-5f), "layer_norm|NULL");
    assert_refused(attend(tape, &odd, 1, start, 2), "attention|(4, 7)");
    assert_refused(attend(tape, &a, 3, start, 2), "attention|3 heads");
    assert_refused(attend(tape, &a, 0, start, 2), "attention|0 heads");
    assert_refused(attend(tape, &a, 1, start, 0), "attention|0 sequences");
    assert_refused(attend(tape, &a, 1, empty, 2), "attention|2 sequences");
    assert_refused(attend(tape, &a, 1, from_1, 2), "attention|2 sequences");
    assert_refused(attend(tape, &a, 1, back, 2), "attention|2 sequences");
    assert_refused(attend(tape, &a, 1, beyond, 2), "attention|2 sequences");
    assert_refused(attend(tape, &a, 1, (const int[]){0, 2, 3}, 2), "attention|2 sequences");
    assert_refused(attend(tape, &a, 1, NULL, 2), "attention|NULL");
    assert_refused(ppo_tape_categorical_kl_to(tape, &a, NULL, 1), "categorical_kl_to|NULL");
    assert_refused(ppo_tape_categorical_kl_to(tape, &a, data, 0), "categorical_kl_to|temperature is 0");
    assert_refused(ppo_tape_categorical_kl_to(tape, &a, data, -1), "categorical_kl_to|temperature is -1");
    assert_refused(ppo_tape_dpo_loss(tape, &column, &longer, data, data, 1, 0), "dpo_loss|(4, 1)|(5, 1)");
    assert_refused(ppo_tape_dpo_loss(tape, &column, &column, NULL, data, 1, 0), "dpo_loss|NULL");
    assert_refused(ppo_tape_dpo_loss(tape, &column, &column, data, NULL, 1, 0), "dpo_loss|NULL");
    assert_refused(ppo_tape_dpo_loss(tape, &column, &column, data, data, 0, 0), "beta is 0");
    assert_refused(ppo_tape_dpo_loss(tape, &column, &column, data, data, 1, 0.5f), "label_smoothing is 0.5");
    assert_refused(ppo_tape_pairwise_loss(tape, &a, &a), "pairwise_loss|(4, 6)");
    assert_refused(ppo_tape_pairwise_loss(tape, &column, NULL), "pairwise_loss|NULL");
    assert_refused(ppo_tape_sequence_sum(tape, &column, &sum_tokens), "sequence_sum|(4, 1)|(6, 1)");
    assert_refused(ppo_tape_sequence_sum(tape, &column, NULL), "sequence_sum|NULL");
    assert_refused(ppo_tape_linear(tape, &a, &a, NULL, PPO__ACTIVATIONS), "linear");
}

static void a_nan_among_logits_is_not_hidden_by_their_kl(void **state) {
    (void)state;
    float p[6] = {0, 1, NAN, 0, 1, 2}, q[6] = {0};
    ppo_tensor logits = {2, 3, p, NULL};
    ppo_tape_reset(tape);
    ppo_tensor *kl = ppo_tape_categorical_kl_to(tape, &logits, q, 1);
    assert_true(!kl || isnan(kl->data[0]));
    p[2] = 0, q[4] = NAN;
    ppo_tape_reset(tape);
    kl = ppo_tape_categorical_kl_to(tape, &logits, q, 1);
    assert_true(!kl || isnan(kl->data[1]));
}

static void the_model_refuses_tokens_that_it_cannot_take_and_says_where(void **state) {
    (void)state;
    ppo_lm_config c = small_config();
    ppo_lm *lm = random_lm(c, 0.3f), *plain;
    int text[12] = {1, 2, 3, 4, 5, 11, -1}, start[4] = {0, 2, 4, 6}, prompt[3] = {2, 2, 2};
    ppo_tokens tokens = {3, start, NULL, text, NULL, NULL}, nothing = {0};
    ppo_tape_reset(tape);
    assert_refused(ppo_lm_forward(tape, lm, &tokens), "token 11|sequence 2, position 1|0 .. 10");
    text[5] = 0, start[3] = 7;
    assert_refused(ppo_lm_forward(tape, lm, &tokens), "token -1|sequence 2, position 2");
    text[6] = 0, start[3] = 4;
    assert_refused(ppo_lm_forward(tape, lm, &tokens), "sequence 2 has 0 tokens|1 to 8");
    start[3] = 3;
    assert_refused(ppo_lm_forward(tape, lm, &tokens), "sequence 2 has -1 tokens");
    start[1] = 9, start[2] = 10, start[3] = 11;
    assert_refused(ppo_lm_forward(tape, lm, &tokens), "sequence 0 has 9 tokens|1 to 8");
    start[0] = INT_MIN, start[1] = INT_MAX;
    assert_refused(ppo_lm_forward(tape, lm, &tokens), "start[0] is -2147483648");
    assert_refused(ppo_lm_forward(tape, lm, &nothing), "0 sequences");
    assert_refused(ppo_lm_forward(tape, lm, NULL), "tokens are NULL");
    assert_refused(ppo_lm_forward(tape, NULL, &tokens), "ppo_lm_forward|NULL");
    assert_refused(ppo_lm_response(tape, NULL, &tokens, 1, PPO_POLICY).logp, "ppo_lm_forward|NULL");

    start[0] = 0, start[1] = 2, start[2] = 4, start[3] = 6, tokens.prompt = prompt;
    assert_refused(ppo_lm_response(tape, lm, &tokens, 1, PPO_POLICY | PPO_VALUE).logp, "no token after");
    prompt[1] = 1;
    assert_refused(ppo_lm_response(tape, lm, &tokens, 0, PPO_POLICY).logp, "temperature is 0");
    assert_refused(ppo_lm_logits(tape, lm, ppo_tape_constant(tape, (const float[5]){0}, 1, 5)),
                   "(1, 5)|(11, 12)");
    assert_refused(ppo_lm_score(tape, lm, ppo_tape_constant(tape, (const float[5]){0}, 1, 5)),
                   "ppo_lm_score|(1, 5)");
    c.score = 0;
    plain = random_lm(c, 0.3f);
    assert_refused(ppo_lm_sequence_score(tape, plain, &tokens), "ppo_lm_score|no score");
    assert_refused(ppo_lm_response(tape, plain, &tokens, 1, PPO_VALUE).value, "ppo_lm_score|no score");
    assert_refused(ppo_lm_score(tape, plain, ppo_lm_forward(tape, plain, &tokens)), "ppo_lm_score|no score");
    assert_refused(ppo_lm_score(tape, NULL, ppo_lm_forward(tape, plain, &tokens)), "ppo_lm_score|NULL");
    assert_refused(ppo_lm_logits(tape, NULL, ppo_lm_forward(tape, plain, &tokens)), "NULL");
    assert_refused(ppo_lm_score(tape, lm, NULL), "NULL");
    assert_refused(ppo_lm_logits(tape, lm, NULL), "NULL");
    ppo_lm_free(plain);
    ppo_lm_free(lm);
}

static void a_response_needs_an_output_and_rows_need_tokens(void **state) {
    (void)state;
    ppo_lm *lm = random_lm(small_config(), 0.3f);
    ppo_tokens tokens = {0};
    ppo_rng rng = test_rng(17);
    ppo_response out;
    add_random(&tokens, &rng, 11, 4, 1);
    ppo_tape_reset(tape);
    out = ppo_lm_response(tape, lm, &tokens, 1, 0);
    assert_true(!out.logp && !out.entropy && !out.logits && !out.value);
    assert_fails(ppo_tape_status(tape), PPO_ERROR_ARGUMENT, "ppo_lm_response|no output of 0");
    ppo_tape_reset(tape);
    assert_int_equal(ppo_response_row(NULL, 3), 0);
    assert_int_equal(ppo_response_row(&tokens, -1), 0);
    assert_int_equal(ppo_response_row(&tokens, tokens.count + 1), ppo_response_row(&tokens, tokens.count));
    assert_int_equal(ppo_response_row(&tokens, INT_MAX), ppo_response_row(&tokens, tokens.count));
    ppo_tokens_free(&tokens);
    ppo_lm_free(lm);
}

/* Rows of a response are those that predict its tokens; the score of a sequence is that of its last token. */
static void a_response_has_a_row_for_each_token_after_the_prompts(void **state) {
    (void)state;
    ppo_lm *lm = random_lm(small_config(), 0.3f);
    ppo_tokens tokens = {0};
    ppo_rng rng = test_rng(13);
    static const int lengths[] = {8, 1, 5, 4, 6}, prompts[] = {3, 1, 0, 4, 1};
    for (int s = 0; s < 5; s++) add_random(&tokens, &rng, 11, lengths[s], prompts[s]);
    ppo_tape_reset(tape);
    ppo_tensor *x = ppo_lm_forward(tape, lm, &tokens);
    ppo_tensor *logits = ppo_lm_logits(tape, lm, x), *score = ppo_lm_score(tape, lm, x);
    ppo_tensor *last = ppo_lm_sequence_score(tape, lm, &tokens);
    ppo_response out = ppo_lm_response(tape, lm, &tokens, 0.7f, PPO_POLICY | PPO_VALUE);
    assert_ok(ppo_tape_status(tape));
    assert_int_equal(out.logp->rows, 5 + 0 + 4 + 0 + 5);
    assert_int_equal(ppo_response_row(&tokens, 5), out.logp->rows);
    for (int s = 0, row = 0; s < 5; s++) {
        assert_int_equal(ppo_response_row(&tokens, s), row);
        assert_true(last->data[s] == score->data[tokens.start[s + 1] - 1]);
        for (int i = prompts[s] > 1 ? prompts[s] : 1; i < lengths[s]; i++, row++) {
            int at = tokens.start[s] + i;
            float logp = 0, entropy = 0;
            assert_ok(ppo_token_logp(logits->data + (at - 1) * 11, &tokens.token[at], 1, 11, 0.7f, &logp,
                                     &entropy));
            assert_true(out.logp->data[row] == logp && out.entropy->data[row] == entropy);
            assert_true(out.value->data[row] == score->data[at - 1]);
            assert_false(bits_differ(out.logits->data + row * 11, logits->data + (at - 1) * 11, 11));
        }
    }
    out = ppo_lm_response(tape, lm, &tokens, 1, PPO_VALUE);
    assert_true(out.value && !out.logp && !out.entropy && !out.logits);
    out = ppo_lm_response(tape, lm, &tokens, 1, PPO_POLICY);
    assert_true(!out.value && out.logp && out.entropy && out.logits);
    ppo_tokens_free(&tokens);
    ppo_lm_free(lm);
}

/* Forward and backward through everything that a model can be asked. */
static ppo_status ask_all(ppo_tape *on, ppo_lm *lm, const ppo_tokens *tokens) {
    ppo_response out = ppo_lm_response(on, lm, tokens, 0.9f, PPO_POLICY | PPO_VALUE);
    ppo_tensor *sum = ppo_tape_sum(on, ppo_tape_mul(on, out.logp, out.value));
    sum = ppo_tape_add(on, sum, ppo_tape_sum(on, out.entropy));
    sum = ppo_tape_add(on, sum, ppo_tape_sum(on, ppo_tape_sequence_sum(on, out.logp, tokens)));
    sum = ppo_tape_add(on, sum, ppo_tape_sum(on, ppo_lm_sequence_score(on, lm, tokens)));
    return ppo_tape_backward(on, sum);
}

static void after_one_round_of_a_shape_nothing_is_allocated(void **state) {
    (void)state;
    heap h = {0, 0, -1, 0};
    ppo_rng rng = test_rng(14);
    ppo_tokens tokens = {0};
    ppo_tape *own;
    ppo_set_allocator(heap_hook, &h);
    ppo_lm *lm = random_lm(lm_config(30, 64, 24, 3, 3), 0.2f);
    assert_ok(ppo_tape_create(&own));
    for (int s = 0; s < 6; s++) add_random(&tokens, &rng, 30, 64, s);
    long calls = 0;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 6 * 64; i++) tokens.token[i] = ppo_rng_below(&rng, 30);
        ppo_tape_reset(own);
        if (round == 1) calls = h.calls; /* that reset knew how much a round takes */
        assert_ok(ask_all(own, lm, &tokens));
    }
    assert_int_equal(h.calls, calls);
    ppo_tokens_free(&tokens);
    ppo_tape_free(own);
    ppo_lm_free(lm);
    ppo_set_allocator(NULL, NULL);
    assert_int_equal(h.live, 0);
}

/* --------------------------------------------------------------------------------------------------------
   Files
   -------------------------------------------------------------------------------------------------------- */

static int configs_differ(const ppo_lm_config *a, const ppo_lm_config *b) {
    return a->vocab != b->vocab || a->context != b->context || a->width != b->width ||
           a->layers != b->layers || a->heads != b->heads || !a->score != !b->score;
}

static void a_model_that_is_saved_and_loaded_has_the_same_bits(void **state) {
    (void)state;
    for (int score = 0; score < 2; score++) {
        ppo_lm_config c = small_config();
        c.score = score;
        ppo_lm *lm = random_lm(c, 0.3f), *back = NULL;
        ppo_file *file = NULL;
        assert_ok(ppo_lm_save_file(lm, NULL, path));
        assert_ok(ppo_lm_load(path, &back));
        assert_false(configs_differ(&lm->config, &back->config));
        assert_int_equal(lm->params->count, back->params->count);
        assert_false(bits_differ(lm->params->data, back->params->data, lm->params->count));
        ppo_lm_free(back);

        assert_ok(ppo_file_read(path, &file));
        assert_string_equal(ppo_file_text(file, "format"), "pt"); /* transformers asks for it */
        assert_string_equal(ppo_file_text(file, "vocab_size"), "11");
        assert_string_equal(ppo_file_text(file, "n_positions"), "8");
        assert_string_equal(ppo_file_text(file, "n_embd"), "12");
        assert_string_equal(ppo_file_text(file, "n_layer"), "2");
        assert_string_equal(ppo_file_text(file, "n_head"), "3");
        assert_int_equal(ppo_file_count(file), 28 + 2 * score);
        ppo_file_free(file);

        assert_ok(ppo_file_create(&file)); /* in memory, beside something else */
        assert_ok(ppo_file_add(file, "steps", PPO_I64, NULL, 0, &(int64_t){5}));
        assert_ok(ppo_lm_put(lm, file));
        assert_ok(ppo_lm_get(file, &back));
        assert_false(bits_differ(lm->params->data, back->params->data, lm->params->count));
        ppo_lm_free(back);
        ppo_file_free(file);
        ppo_lm_free(lm);
    }
}

static void a_second_model_is_refused_by_a_file_and_leaves_the_first(void **state) {
    (void)state;
    ppo_lm *lm = random_lm(small_config(), 0.3f), *other, *back = NULL;
    ppo_file *file = NULL;
    other = random_lm(lm_config(30, 9, 20, 3, 5), 0.3f);
    assert_ok(ppo_file_create(&file));
    assert_ok(ppo_lm_put(lm, file));
    int arrays = ppo_file_count(file);
    assert_fails(ppo_lm_put(lm, file), PPO_ERROR_ARGUMENT, "ppo_lm_put|already");
    assert_fails(ppo_lm_put(other, file), PPO_ERROR_ARGUMENT, "ppo_lm_put|already");
    assert_int_equal(ppo_file_count(file), arrays);
    assert_ok(ppo_lm_get(file, &back));
    assert_false(configs_differ(&lm->config, &back->config));
    assert_false(bits_differ(lm->params->data, back->params->data, lm->params->count));
    ppo_file_free(file);
    ppo_lm_free(lm), ppo_lm_free(other), ppo_lm_free(back);
}

/* What is wrong with one array of a file. */
enum { MISSING, NARROWER, FLAT, TWICE_AS_PRECISE, NOT_A_NUMBER, INFINITE, FLAWS };

/* A file of a model with one flaw; Hugging Face's, which says nothing but n_head, plus the given text. */
static ppo_file *flawed_file(ppo_lm *lm, int tensor, int flaw, const char *key, const char *text) {
    static double twice[4096];
    ppo_file *file = NULL;
    assert_ok(ppo_file_create(&file));
    assert_ok(ppo_file_set_text(file, "n_head", "3"));
    if (key) assert_ok(ppo_file_set_text(file, key, text));
    for (int k = 0; k < lm->params->tensor_count; k++) {
        const ppo_tensor *t = lm->params->tensors[k];
        int64_t shape[2] = {t->rows, t->cols};
        const char *name = lm->params->names[k];
        int matrix = t->rows > 1 || !strcmp(name, "score.weight");
        int type = PPO_F32, rank = matrix ? 2 : 1;
        const void *data = t->data;
        if (!matrix) shape[0] = t->cols;
        if (k == tensor) {
            if (flaw == MISSING) continue;
            if (flaw == NARROWER) shape[rank - 1]--;
            if (flaw == FLAT) shape[0] = t->rows * t->cols, shape[1] = 1, rank = 3 - rank;
            if (flaw == TWICE_AS_PRECISE) type = PPO_F64, data = twice;
            if (flaw == NOT_A_NUMBER) t->data[t->rows * t->cols - 1] = NAN;
            if (flaw == INFINITE) t->data[0] = -INFINITY;
        }
        assert_ok(ppo_file_add(file, name, type, shape, rank, data));
    }
    return file;
}

static void a_file_with_any_flaw_in_any_array_is_refused(void **state) {
    (void)state;
    ppo_lm *lm = random_lm(small_config(), 0.3f), *back;
    for (int k = 0; k < lm->params->tensor_count; k++)
        for (int flaw = 0; flaw < FLAWS; flaw++) {
            const ppo_tensor *t = lm->params->tensors[k];
            const char *name = lm->params->names[k];
            int n = t->rows * t->cols;
            float first = t->data[0], last = t->data[n - 1];
            ppo_file *file = flawed_file(lm, k, flaw, NULL, NULL);
            if (!strcmp(name, "score.weight") && (flaw == MISSING || flaw == FLAT)) { /* then there is none */
                ppo_file_free(file);
                continue;
            }
            if (n == 1 && flaw == NARROWER) {
                ppo_file_free(file);
                continue;
            }
            back = lm;
            ppo_fail(PPO_OK, "(no sentence)");
            ppo_status status = ppo_lm_get(file, &back);
            if (status != PPO_ERROR_FILE || back)
                fail_msg("flaw %d of %s: status %d, %s", flaw, name, status, ppo_last_error());
            if (flaw > FLAT && !strstr(ppo_last_error(), name))
                fail_msg("flaw %d of %s: %s", flaw, name, ppo_last_error());
            t->data[0] = first, t->data[n - 1] = last;
            ppo_file_free(file);
        }
    ppo_file *file = flawed_file(lm, -1, 0, NULL, NULL); /* without a flaw */
    assert_ok(ppo_lm_get(file, &back));
    ppo_lm_free(back);
    ppo_file_free(file);
    ppo_lm_free(lm);
}

static void a_file_whose_texts_contradict_its_arrays_is_refused(void **state) {
    (void)state;
    static const char *const bad[][3] = {{"n_head", "0", "n_head"},
                                         {"n_head", "-3", "n_head"},
                                         {"n_head", "5", "5 heads"},
                                         {"n_head", "three", "n_head"},
                                         {"n_head", "3.0", "n_head|3.0"},
                                         {"n_head", "", "n_head"},
                                         {"n_head", "99999999999999", "n_head"},
                                         {"n_head", "4294967299", "n_head"},
                                         {"vocab_size", "12", "vocab_size|12|11"},
                                         {"n_positions", "9", "n_positions|9|8"},
                                         {"n_embd", "6", "n_embd|6|12"},
                                         {"n_layer", "1", "n_layer|1|2"},
                                         {"n_layer", "2 ", "n_layer"},
                                         {"n_embd", "+12", "n_embd"}};
    ppo_lm *lm = random_lm(small_config(), 0.3f), *back = lm;
    ppo_file *file;
    for (int i = 0; i < COUNT(bad); i++) {
        file = flawed_file(lm, -1, 0, bad[i][0], bad[i][1]);
        assert_fails(ppo_lm_get(file, &back), PPO_ERROR_FILE, bad[i][2]);
        assert_null(back);
        ppo_file_free(file);
    }
    assert_ok(ppo_file_create(&file));
    assert_fails(ppo_lm_get(file, &back), PPO_ERROR_FILE, "not a language model");
    assert_ok(ppo_file_add(file, "transformer.wte.weight", PPO_F32, (const int64_t[]){11, 12}, 2,
                           lm->token_embedding->data));
    assert_fails(ppo_lm_get(file, &back), PPO_ERROR_FILE, "n_head");
    ppo_file_free(file);
    assert_fails(ppo_lm_load("/tmp/no/such/model.safetensors", &back), PPO_ERROR_FILE, "/tmp/no/such");
    assert_null(back);
    assert_fails(ppo_lm_load(NULL, &back), PPO_ERROR_ARGUMENT, "ppo_lm_load|NULL");
    assert_fails(ppo_lm_load(path, NULL), PPO_ERROR_ARGUMENT, "ppo_lm_load|NULL");
    assert_fails(ppo_lm_save_file(NULL, NULL, path), PPO_ERROR_ARGUMENT, "ppo_lm_save_file|NULL");
    assert_fails(ppo_lm_save_file(lm, NULL, NULL), PPO_ERROR_ARGUMENT, "ppo_lm_save_file|NULL");
    assert_fails(ppo_lm_put(lm, NULL), PPO_ERROR_ARGUMENT, "ppo_lm_put|NULL");
    assert_fails(ppo_lm_get(NULL, &back), PPO_ERROR_ARGUMENT, "ppo_lm_get|NULL");
    ppo_lm_free(lm);
}

static void memory_is_taken_for_what_is_there_not_for_what_is_claimed(void **state) {
    (void)state;
    enum { WIDTH = 3000 }; /* a block would have 36 MB of queries, keys and values alone */
    static float rows[2 * WIDTH];
    heap h = {0, 0, -1, 0};
    ppo_file *file = NULL;
    ppo_lm *lm = NULL;
    ppo_set_allocator(small_heap, &h);
    assert_ok(ppo_file_create(&file));
    assert_ok(ppo_file_set_text(file, "n_head", "1"));
    assert_ok(ppo_file_add(file, "transformer.wte.weight", PPO_F32, (const int64_t[]){2, WIDTH}, 2, rows));
    assert_ok(ppo_file_add(file, "transformer.wpe.weight", PPO_F32, (const int64_t[]){2, WIDTH}, 2, rows));
    assert_ok(
        ppo_file_add(file, "transformer.h.0.attn.c_attn.weight", PPO_F32, (const int64_t[]){2, 2}, 2, rows));
    assert_fails(ppo_lm_get(file, &lm), PPO_ERROR_FILE, "no \"transformer.h.0.ln_1.weight\"");
    ppo_file_free(file);
    ppo_set_allocator(NULL, NULL);
    assert_int_equal(h.live, 0);
}

/* A model is made, copied, asked, put into a file and taken from one. */
static ppo_status live_once(void *user) {
    ppo_lm_config c = lm_config(5, 6, 4, 1, 2);
    const ppo_tokens *tokens = (const ppo_tokens *)user;
    ppo_lm *lm = NULL, *copy = NULL, *back = NULL, *loaded = NULL;
    ppo_tape *own = NULL;
    ppo_file *file = NULL;
    c.score = 0;
    ppo_status status = ppo_lm_create(&c, &lm);
    if (!status) status = ppo_lm_copy(lm, 1, &copy);
    if (!status) status = ppo_params_freeze(copy->params, 0);
    if (!status) status = ppo_tape_create(&own);
    if (!status) status = ask_all(own, copy, tokens);
    if (!status) status = ppo_file_create(&file);
    if (!status) status = ppo_lm_put(copy, file);
    if (!status) status = ppo_lm_get(file, &back);
    if (!status) status = ppo_lm_load(path, &loaded);
    ppo_file_free(file);
    ppo_tape_free(own);
    ppo_lm_free(lm), ppo_lm_free(copy), ppo_lm_free(back), ppo_lm_free(loaded);
    return status;
}

static void a_model_and_its_tokenizer_are_one_file(void **state) {
    (void)state;
    static const char *const specials[] = {"<eos>"};
    ppo_lm *lm = random_lm(lm_config(5, 6, 4, 1, 2), 0.3f), *back = NULL;
    ppo_tokenizer *tok = NULL, *tok_back = NULL;
    assert_ok(ppo_tokenizer_characters("abcd", 4, specials, 1, &tok));
    assert_ok(ppo_lm_save_file(lm, tok, path));
    assert_ok(ppo_lm_load(path, &back));
    assert_ok(ppo_tokenizer_load(path, &tok_back));
    assert_false(bits_differ(lm->params->data, back->params->data, lm->params->count));
    assert_int_equal(ppo_tokenizer_special(tok_back, "<eos>"), 4);
    assert_ok(ppo_lm_save_file(lm, NULL, path));
    ppo_lm *small = random_lm(lm_config(4, 6, 4, 1, 2), 0.3f);
    assert_fails(ppo_lm_save_file(small, tok, path), PPO_ERROR_ARGUMENT,
                 "a tokenizer of 5 tokens for a model of 4");
    ppo_lm_free(small);
    ppo_tokenizer_free(tok_back);
    assert_fails(ppo_tokenizer_load(path, &tok_back), PPO_ERROR_FILE, "tokenizer");
    ppo_tokenizer_free(tok);
    ppo_lm_free(lm);
    ppo_lm_free(back);
}

static void every_failing_allocation_is_reported_and_leaks_nothing(void **state) {
    (void)state;
    ppo_lm *lm = random_lm(lm_config(5, 6, 4, 1, 2), 0.3f);
    ppo_tokens tokens = {0};
    ppo_rng rng = test_rng(15);
    assert_ok(ppo_lm_save_file(lm, NULL, path));
    ppo_lm_free(lm);
    add_random(&tokens, &rng, 5, 6, 2), add_random(&tokens, &rng, 5, 3, 0);
    assert_true(fail_each_allocation(live_once, &tokens) > 40);
    ppo_tokens_free(&tokens);
}

/* One harm: a byte of the header, one of its digits (sizes, offsets, texts), or a byte anywhere. */
static void harm(ppo_rng *rng, unsigned char *bytes, size_t n, size_t header) {
    size_t at = (size_t)ppo_rng_below(rng, (int)header);
    switch (ppo_rng_below(rng, 6)) {
    case 0:
        bytes[at] = (unsigned char)ppo_rng_below(rng, 256);
        return;
    case 1:
        bytes[ppo_rng_below(rng, (int)n)] = (unsigned char)ppo_rng_below(rng, 256);
        return;
    case 2:
        bytes[header + (size_t)ppo_rng_below(rng, (int)(n - header) / 4) * 4 + 3] = 0x7f;
        return; /* huge */
    default:
        for (size_t k = 0; k < header; k++, at = (at + 1) % header)
            if (bytes[at] >= '0' && bytes[at] <= '9') break;
        bytes[at] = (unsigned char)('0' + ppo_rng_below(rng, 10));
    }
}

static void a_damaged_model_is_loaded_sound_or_refused(void **state) {
    (void)state;
    static unsigned char whole[1 << 14], damaged[1 << 14];
    ppo_lm *lm = random_lm(lm_config(5, 6, 4, 2, 2), 0.3f);
    ppo_rng rng = test_rng(16);
    ppo_tokens tokens = {0};
    add_random(&tokens, &rng, 3, 3, 1);
    assert_ok(ppo_lm_save_file(lm, NULL, path));
    FILE *in = fopen(path, "rb");
    size_t n = fread(whole, 1, sizeof whole, in), header = 8 + whole[0] + 256u * whole[1];
    fclose(in);
    assert_true(n < sizeof whole && header < n);
    const char *count = getenv("PPO_FUZZ");
    long files = count ? atol(count) : 1500, loaded = 0;
    for (long i = 0; i < files; i++) {
        heap h = {0, 0, -1, 0};
        memcpy(damaged, whole, n);
        for (int k = 1 + ppo_rng_below(&rng, 2); k > 0; k--) harm(&rng, damaged, n, header);
        remove(path);
        FILE *out = fopen(path, "wb");
        assert_int_equal(fwrite(damaged, 1, n, out), n);
        fclose(out);
        ppo_lm *back = lm;
        ppo_set_allocator(small_heap, &h);
        ppo_fail(PPO_OK, "(no sentence)");
        ppo_status status = ppo_lm_load(path, &back);
        if (status == PPO_OK) {
            loaded++;
            assert_true(back->config.heads > 0 && back->config.width % back->config.heads == 0);
            for (size_t k = 0; k < back->params->count; k++) assert_true(isfinite(back->params->data[k]));
            ppo_tape *own = NULL;
            assert_ok(ppo_tape_create(&own));
            ppo_lm_forward(own, back, &tokens); /* which it may refuse */
            ppo_tape_free(own);
        } else {
            assert_int_equal(status, PPO_ERROR_FILE);
            assert_true(strstr(ppo_last_error(), path) != NULL);
            assert_null(back);
        }
        ppo_lm_free(back);
        ppo_set_allocator(NULL, NULL);
        assert_int_equal(h.live, 0);
    }
    print_message("# %ld of %ld damaged models were still to be loaded\n", loaded, files);
    if (files >= 1000) assert_in_range(loaded, files / 50, files / 2);
    ppo_tokens_free(&tokens);
    ppo_lm_free(lm);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_have_the_names_and_shapes_of_hugging_face),
        cmocka_unit_test(a_gpt2_and_its_gradients_agree_with_hugging_face_in_every_kernel_set),
        cmocka_unit_test(layers_and_their_gradients_agree_with_pytorch_in_every_kernel_set),
        cmocka_unit_test(operations_of_a_transformer_have_right_gradients),
        cmocka_unit_test(kl_to_is_the_kl_of_what_is_trained_to_the_reference),
        cmocka_unit_test(sequence_sum_adds_the_rows_of_each_sequence),
        cmocka_unit_test(
            attention_and_its_gradients_agree_with_double_precision_at_lengths_around_its_blocks),
        cmocka_unit_test(a_sequence_has_the_same_bits_alone_and_in_any_company),
        cmocka_unit_test(a_later_token_changes_no_earlier_row),
        cmocka_unit_test(tokens_lie_one_sequence_after_another),
        cmocka_unit_test(impossible_sequences_are_refused_and_leave_the_others),
        cmocka_unit_test_teardown(a_sequence_that_found_no_memory_leaves_the_others_and_may_come_again,
                                  restore_allocator),
        cmocka_unit_test(a_sequence_of_the_set_itself_may_be_added_to_it),
        cmocka_unit_test(arrays_of_your_own_are_neither_changed_nor_freed),
        cmocka_unit_test(a_sequence_of_others_is_added_as_it_is_there),
        cmocka_unit_test(a_config_has_defaults_for_all_but_the_vocabulary),
        cmocka_unit_test_teardown(a_models_parameters_are_laid_out_at_once, restore_allocator),
        cmocka_unit_test(a_new_model_has_weights_of_gpt2s_deviations),
        cmocka_unit_test(the_config_of_a_model_may_be_changed_for_another),
        cmocka_unit_test(impossible_models_are_refused_with_the_reason),
        cmocka_unit_test_teardown(a_model_that_no_memory_can_hold_is_refused, restore_allocator),
        cmocka_unit_test(a_copy_has_the_same_weights_and_a_life_of_its_own),
        cmocka_unit_test(a_lowered_context_lasts_in_copies_but_not_in_files),
        cmocka_unit_test(operations_refuse_operands_that_do_not_fit_and_name_themselves),
        cmocka_unit_test(a_nan_among_logits_is_not_hidden_by_their_kl),
        cmocka_unit_test(the_model_refuses_tokens_that_it_cannot_take_and_says_where),
        cmocka_unit_test(a_response_needs_an_output_and_rows_need_tokens),
        cmocka_unit_test(a_response_has_a_row_for_each_token_after_the_prompts),
        cmocka_unit_test_teardown(after_one_round_of_a_shape_nothing_is_allocated, restore_allocator),
        cmocka_unit_test(a_model_that_is_saved_and_loaded_has_the_same_bits),
        cmocka_unit_test(a_model_and_its_tokenizer_are_one_file),
        cmocka_unit_test(a_second_model_is_refused_by_a_file_and_leaves_the_first),
        cmocka_unit_test(a_file_with_any_flaw_in_any_array_is_refused),
        cmocka_unit_test(a_file_whose_texts_contradict_its_arrays_is_refused),
        cmocka_unit_test_teardown(memory_is_taken_for_what_is_there_not_for_what_is_claimed,
                                  restore_allocator),
        cmocka_unit_test_teardown(every_failing_allocation_is_reported_and_leaks_nothing, restore_allocator),
        cmocka_unit_test_teardown(a_damaged_model_is_loaded_sound_or_refused, restore_allocator),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
