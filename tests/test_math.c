/* Section 3, through public functions where there are such: the plain kernels against double precision, the
   other kernel sets against the plain one, the promise that a row's result has the same bits whichever rows
   share its batch, and each set's error bounds. */
#define PPO_NO_LANGUAGE
#define PPO_NO_REPORTS
#ifndef PPO_TEST_NO_VECTOR16
#define PPO_VECTOR16
#endif
#define PPO_IMPLEMENTATION
#include "../ppo.h"
#include "../examples/companions/ppo_amx.h"

/* Kernels are what test_math_tuned.c is for: what follows compiles in less time. */
#if defined(PPO_TEST_TUNED) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O1")
#endif
#include "../examples/companions/ppo_hub.h"

#include "models.h"

static ppo_tape *tape;

static int open_tape(void **state) {
    (void)state;
    return ppo_tape_create(&tape) != PPO_OK;
}

static int close_tape(void **state) {
    (void)state;
    ppo_tape_free(tape);
    return ppo_use_kernels(NULL) != PPO_OK;
}

/* --------------------------------------------------------------------------------------------------------
   Choosing a kernel set
   -------------------------------------------------------------------------------------------------------- */

static void plain_kernels_are_always_there_and_unknown_ones_are_refused(void **state) {
    (void)state;
    assert_ok(ppo_use_kernels("plain"));
    assert_string_equal(ppo_kernels_name(), "plain");
    assert_fails(ppo_use_kernels("sse9"), PPO_ERROR_ARGUMENT, "sse9");
    assert_fails(ppo_use_kernels(""), PPO_ERROR_ARGUMENT, "");
    assert_string_equal(ppo_kernels_name(), "plain");
}

static void null_returns_to_the_best_set_that_can_be_named(void **state) {
    (void)state;
    assert_ok(ppo_use_kernels(NULL));
    const char *best = ppo_kernels_name();
    int listed = 0;
    assert_non_null(best);
    for (int k = 0; k < COUNT(kernel_sets); k++) listed += strcmp(best, kernel_sets[k].name) == 0;
    if (!listed) fail_msg("kernel_sets of test.h lacks \"%s\"", best);
    assert_ok(ppo_use_kernels("plain"));
    assert_ok(ppo_use_kernels(best));
    assert_string_equal(ppo_kernels_name(), best);
#if !defined(PPO_NO_SIMD) && (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        assert_string_not_equal(best, "plain");
#endif
}

/* --------------------------------------------------------------------------------------------------------
   Functions of rows: one row of x in, one row of y out
   -------------------------------------------------------------------------------------------------------- */

typedef struct rows_case rows_case;
struct rows_case {
    const char *name;
    void (*run)(const rows_case *c, const float *x, int n, float *y);
    int in, out; /* floats per row */
    int activation;
    ppo_tensor w, b; /* where the function has them */
    const ppo_actor_critic *model;
    const ppo_normalizer *norm;
};

enum { MAX_ROWS = 40, MAX_WIDTH = 1100 };
static float in_block[MAX_ROWS * MAX_WIDTH + 64], gathered[MAX_ROWS * MAX_WIDTH + 64];
static float out_block[MAX_ROWS * MAX_WIDTH + 64], out_part[MAX_ROWS * MAX_WIDTH + 64];
static float weights[MAX_WIDTH * MAX_WIDTH], biases[MAX_WIDTH];

static ppo_tensor *wrap(const rows_case *c, const float *x, int n) {
    ppo_tape_reset(tape);
    return ppo_tape_constant(tape, x, n, c->in);
}

/* Copies results, next to each other in a row of y. */
static void unwrap(ppo_tensor *const *results, int count, int n, float *y) {
    assert_ok(ppo_tape_status(tape));
    int width = 0, at = 0;
    for (int k = 0; k < count; k++) width += results[k]->cols;
    for (int k = 0; k < count; at += results[k]->cols, k++) {
        assert_int_equal(results[k]->rows, n);
        for (int i = 0; i < n; i++)
            memcpy(y + i * width + at, results[k]->data + i * results[k]->cols,
                   (size_t)results[k]->cols * sizeof *y);
    }
}

static void run_linear(const rows_case *c, const float *x, int n, float *y) {
    ppo_tensor w = c->w, b = c->b, *input = wrap(c, x, n);
    ppo_tensor *result = ppo_tape_linear(tape, input, &w, b.data ? &b : NULL, c->activation);
    unwrap(&result, 1, n, y);
}

static void run_matmul(const rows_case *c, const float *x, int n, float *y) {
    ppo_tensor w = c->w, *input = wrap(c, x, n);
    ppo_tensor *result = ppo_tape_matmul(tape, input, &w);
    unwrap(&result, 1, n, y);
}

static void run_tanh(const rows_case *c, const float *x, int n, float *y) {
    ppo_tensor *result = ppo_tape_activate(tape, wrap(c, x, n), PPO_TANH);
    unwrap(&result, 1, n, y);
}

static void run_exp(const rows_case *c, const float *x, int n, float *y) {
    ppo_tensor *result = ppo_tape_exp(tape, wrap(c, x, n));
    unwrap(&result, 1, n, y);
}

static void run_gelu(const rows_case *c, const float *x, int n, float *y) {
    ppo__k()->activation[PPO_GELU].value(x, y, (size_t)(n * c->in));
}

static void run_gelu_backward(const rows_case *c, const float *x, int n, float *y) {
    ppo__k()->activation[PPO_GELU].backward(x, x, y, (size_t)(n * c->in));
}

static void run_softmax(const rows_case *c, const float *x, int n, float *y) {
    memcpy(y, x, (size_t)(n * c->in) * sizeof *y);
    for (int i = 0; i < n; i++) ppo__k()->softmax(0.7f, y + i * c->in, c->in);
}

static void run_softmax_backward(const rows_case *c, const float *x, int n, float *y) {
    for (int i = 0; i < n; i++)
        ppo__k()->softmax_backward(0.7f, weights, x + i * c->in, y + i * c->in, c->in);
}

static void run_layer_norm(const rows_case *c, const float *x, int n, float *y) {
    float mean, rstd;
    for (int i = 0; i < n; i++)
        ppo__k()->norm(1, 1e-5f, x + i * c->in, weights, biases, y + i * c->in, c->in, &mean, &rstd);
}

static void run_rms_norm(const rows_case *c, const float *x, int n, float *y) {
    float mean, rstd;
    for (int i = 0; i < n; i++)
        ppo__k()->norm(0, 1e-6f, x + i * c->in, weights, NULL, y + i * c->in, c->in, &mean, &rstd);
}

static void run_layer_norm_backward(const rows_case *c, const float *x, int n, float *y) {
    memset(y, 0, (size_t)(n * c->in) * sizeof *y);
    for (int i = 0; i < n; i++)
        ppo__k()->norm_backward(1, x + i * c->in, weights, 0.5f, 0.8f, biases, y + i * c->in, NULL, NULL,
                                c->in);
}

static void run_log_softmax(const rows_case *c, const float *x, int n, float *y) {
    ppo_tensor *result = ppo_tape_log_softmax(tape, wrap(c, x, n));
    unwrap(&result, 1, n, y);
}

/* The token is derived from the row, so that it travels with it. */
static void tokens_of(const float *x, int n, int vocab, int *token) {
    for (int i = 0; i < n; i++) token[i] = (int)(fabsf(x[i * vocab]) * 1000) % vocab;
}

static void run_token_logp(const rows_case *c, const float *x, int n, float *y) {
    int token[MAX_ROWS] = {0};
    float logp[MAX_ROWS] = {0}, entropy[MAX_ROWS] = {0};
    tokens_of(x, n, c->in, token);
    assert_ok(ppo_token_logp(x, token, n, c->in, 0.8f, logp, entropy));
    for (int i = 0; i < n; i++) y[2 * i] = logp[i], y[2 * i + 1] = entropy[i];
}

static void run_categorical(const rows_case *c, const float *x, int n, float *y) {
    static int token[MAX_ROWS];
    ppo_tensor *results[2];
    tokens_of(x, n, c->in, token);
    ppo_tape_categorical(tape, wrap(c, x, n), token, 0.8f, &results[0], &results[1]);
    unwrap(results, 2, n, y);
}

/* The row holds mean and action. */
static void run_gaussian_logp(const rows_case *c, const float *x, int n, float *y) {
    static float mean[MAX_ROWS * MAX_WIDTH], action[MAX_ROWS * MAX_WIDTH];
    float entropy[MAX_ROWS];
    int dim = c->in / 2;
    for (int i = 0; i < n * dim; i++) {
        mean[i] = x[i / dim * c->in + i % dim];
        action[i] = x[i / dim * c->in + dim + i % dim];
    }
    assert_ok(ppo_gaussian_logp(mean, c->b.data, action, n, dim, y, entropy));
}

static void run_normalize(const rows_case *c, const float *x, int n, float *y) {
    ppo_normalize(c->norm, x, n, 1.5f, y);
}

static void run_actor_critic(const rows_case *c, const float *x, int n, float *y) {
    ppo_outputs out = ask(tape, c->model, wrap(c, x, n)->data, n);
    ppo_tensor *results[2] = {out.policy, out.value};
    unwrap(results, 2, n, y);
}

/* Fills x, w, b for a case; results of a sum of `in` products stay near 1. */
static void fill_case(rows_case *c, ppo_rng *rng, int rows) {
    assert_true(c->in <= MAX_WIDTH && c->out <= MAX_WIDTH && rows <= MAX_ROWS);
    fill_normal(rng, in_block, rows * c->in, 1);
    fill_normal(rng, weights, c->in * c->out, 1 / sqrtf((float)c->in));
    fill_normal(rng, biases, MAX_WIDTH, 0.5f);
    c->w = (ppo_tensor){c->in, c->out, weights, NULL};
    if (c->b.rows == 0) c->b = (ppo_tensor){1, c->out, biases, NULL};
}

/* Rows are drawn with repetition, in any order, at any alignment, and with or without recording: as in
   collection, in minibatches, in evaluation. */
static void assert_rows_do_not_depend_on_their_batch(rows_case *c, ppo_rng *rng, int rows) {
    fill_case(c, rng, rows);
    c->run(c, in_block, rows, out_block);
    for (int trial = 0; trial < 12; trial++) {
        int n = trial < 6 ? trial + 1 : 1 + ppo_rng_below(rng, rows), drawn[MAX_ROWS];
        float *x = gathered + trial % 5;
        size_t out_bytes = (size_t)c->out * sizeof(float);
        for (int i = 0; i < n; i++) {
            drawn[i] = trial == 6 && n == rows ? i : ppo_rng_below(rng, rows);
            memcpy(x + i * c->in, in_block + drawn[i] * c->in, (size_t)c->in * sizeof(float));
        }
        ppo_tape_record(tape, trial % 2);
        c->run(c, x, n, out_part);
        for (int i = 0; i < n; i++)
            if (memcmp(out_part + i * c->out, out_block + drawn[i] * c->out, out_bytes))
                fail_msg("%s (%d -> %d, %s): row %d of %d differs from row %d of %d", c->name, c->in, c->out,
                         ppo_kernels_name(), i, n, drawn[i], rows);
    }
    ppo_tape_record(tape, 1);
}

static const int widths[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 47, 48, 63, 64, 65, 70};

static void a_row_of_linear_and_matmul_has_the_same_bits_in_every_batch(void **state) {
    (void)state;
    FOR_EACH_KERNEL_SET(set) {
        ppo_rng rng = test_rng(1);
        for (int i = 0; i < COUNT(widths); i++)
            for (int j = SMALL(0, i % 3); j < COUNT(widths); j += SMALL(1, 3)) {
                rows_case linear = {"linear", run_linear, widths[i], widths[j], (i + j) % 3,
                                    {0},      {0},        NULL,      NULL};
                rows_case matmul = {"matmul", run_matmul, widths[i], widths[j], 0, {0}, {0}, NULL, NULL};
                if (j % 4 == 3) linear.b = (ppo_tensor){1, widths[j], NULL, NULL};
                assert_rows_do_not_depend_on_their_batch(&linear, &rng, 37);
                assert_rows_do_not_depend_on_their_batch(&matmul, &rng, 23);
            }
        static const int large[][2] = {{300, 5}, {5, 300}, {513, 130}, {1030, 65}, {65, 1030}};
        for (int i = SMALL(0, set % 2); i < COUNT(large); i += SMALL(1, 2)) {
            rows_case linear = {"linear", run_linear, large[i][0], large[i][1], PPO_TANH,
                                {0},      {0},        NULL,        NULL};
            assert_rows_do_not_depend_on_their_batch(&linear, &rng, MAX_ROWS);
        }
    }
}

/* c += a^T b, as the gradient of a weight over many rows; of small integers, whose sums are exact in any order. */
static void a_weights_gradient_over_many_rows_is_the_sum_of_all(void **state) {
    (void)state;
    enum { ROWS = 1100, INPUTS = 251, OUTPUTS = 70 };
    static float a[ROWS * INPUTS], b[ROWS * OUTPUTS], c[INPUTS * OUTPUTS], expected[INPUTS * OUTPUTS];
    ppo_rng rng = test_rng(5);
    for (int i = 0; i < ROWS * INPUTS; i++) a[i] = (float)(ppo_rng_below(&rng, 7) - 3);
    for (int i = 0; i < ROWS * OUTPUTS; i++) b[i] = (float)(ppo_rng_below(&rng, 7) - 3);
    for (int i = 0; i < INPUTS * OUTPUTS; i++) expected[i] = (float)(i % 5);
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < INPUTS; i++)
            for (int j = 0; j < OUTPUTS; j++)
                expected[i * OUTPUTS + j] += a[r * INPUTS + i] * b[r * OUTPUTS + j];
    FOR_EACH_KERNEL_SET(set) {
        for (int i = 0; i < INPUTS * OUTPUTS; i++) c[i] = (float)(i % 5);
        ppo__k()->gemm(INPUTS, OUTPUTS, ROWS, a, 1, INPUTS, b, OUTPUTS, c, OUTPUTS, c, OUTPUTS);
        for (int i = 0; i < INPUTS * OUTPUTS; i++)
            if (c[i] != expected[i])
                fail_msg("%s: (%d, %d) is %g, not %g", ppo_kernels_name(), i / OUTPUTS, i % OUTPUTS,
                         (double)c[i], (double)expected[i]);
    }
}

static void a_row_of_elementwise_and_softmax_functions_has_the_same_bits_in_every_batch(void **state) {
    (void)state;
    FOR_EACH_KERNEL_SET(set) {
        ppo_rng rng = test_rng(2);
        for (int i = SMALL(0, set % 5); i < COUNT(widths) + 1; i += SMALL(1, 5)) {
            int width = i < COUNT(widths) ? widths[i] : 1000;
            ppo_normalizer norm;
            assert_ok(ppo_normalizer_init(&norm, width));
            fill_normal(&rng, in_block, MAX_ROWS * width, 3);
            ppo_normalizer_update(&norm, in_block, MAX_ROWS);
            rows_case cases[] = {
                {"tanh", run_tanh, width, width, 0, {0}, {0}, NULL, NULL},
                {"exp", run_exp, width, width, 0, {0}, {0}, NULL, NULL},
                {"gelu", run_gelu, width, width, 0, {0}, {0}, NULL, NULL},
                {"gelu_backward", run_gelu_backward, width, width, 0, {0}, {0}, NULL, NULL},
                {"softmax", run_softmax, width, width, 0, {0}, {0}, NULL, NULL},
                {"softmax_backward", run_softmax_backward, width, width, 0, {0}, {0}, NULL, NULL},
                {"rms_norm", run_rms_norm, width, width, 0, {0}, {0}, NULL, NULL},
                {"layer_norm", run_layer_norm, width, width, 0, {0}, {0}, NULL, NULL},
                {"layer_norm_backward", run_layer_norm_backward, width, width, 0, {0}, {0}, NULL, NULL},
                {"log_softmax", run_log_softmax, width, width, 0, {0}, {0}, NULL, NULL},
                {"token_logp", run_token_logp, width, 2, 0, {0}, {0}, NULL, NULL},
                {"categorical", run_categorical, width, 2, 0, {0}, {0}, NULL, NULL},
                {"gaussian_logp", run_gaussian_logp, 2 * ((width + 1) / 2), 1, 0, {0}, {0}, NULL, NULL},
                {"normalize", run_normalize, width, width, 0, {0}, {0}, NULL, &norm}};
            for (int k = 0; k < COUNT(cases); k++)
                assert_rows_do_not_depend_on_their_batch(&cases[k], &rng, SMALL(23, 13));
            ppo_normalizer_free(&norm);
        }
    }
}

static void a_row_of_the_actor_critic_has_the_same_bits_in_every_batch(void **state) {
    (void)state;
    static const int hidden[][2] = {{64, 64}, {13, 31}, {1, 70}, {33, 5}, {128, 17}};
    FOR_EACH_KERNEL_SET(set) {
        ppo_rng rng = test_rng(3);
        for (int i = 0; i < 4 * COUNT(hidden); i++) {
            model_config config = {0};
            ppo_actor_critic model = {0};
            int out = 1 + i % 6;
            config.obs_size = 1 + 3 * (i % 7);
            config.action_space = i % 2 ? ppo_box(out, -1, 1) : ppo_discrete(out);
            config.hidden = hidden[i / 4];
            config.layers = 2;
            config.activation = i % 3 ? PPO_TANH : PPO_RELU;
            config.shared_trunk = i / 2 % 2;
            config.seed = 1;
            assert_ok(model_init(&model, &config));
            rows_case c = {
                "actor_critic", run_actor_critic, config.obs_size, out + 1, 0, {0}, {0}, &model, NULL};
            assert_rows_do_not_depend_on_their_batch(&c, &rng, 37);
            ppo__actor_critic_free(&model);
        }
    }
}

/* What a rollout stores comes from one of them, what training sees from the other. */
static void tape_and_plain_log_probabilities_have_the_same_bits(void **state) {
    (void)state;
    FOR_EACH_KERNEL_SET(set) {
        ppo_rng rng = test_rng(4);
        for (int i = 0; i < COUNT(widths); i++) {
            rows_case c = {"", NULL, widths[i], 2, 0, {0}, {0}, NULL, NULL};
            int token[9], dim = widths[i];
            float entropy[9];
            ppo_tensor *results[2];
            fill_case(&c, &rng, 18);
            run_token_logp(&c, in_block, 9, out_block);
            run_categorical(&c, in_block, 9, out_part);
            assert_false(bits_differ(out_block, out_part, 18));
            tokens_of(in_block, 9, dim, token);

            ppo_tensor log_std = {1, dim, biases, NULL};
            assert_ok(ppo_gaussian_logp(in_block, biases, in_block + 9 * dim, 9, dim, out_block, entropy));
            ppo_tape_gaussian(tape, wrap(&c, in_block, 9), &log_std, in_block + 9 * dim, &results[0],
                              &results[1]);
            assert_ok(ppo_tape_status(tape));
            assert_false(bits_differ(out_block, results[0]->data, 9));
            assert_false(bits_differ(entropy, results[1]->data, 9));
        }
    }
}

/* --------------------------------------------------------------------------------------------------------
   The plain set against double precision, the others against the plain set
   -------------------------------------------------------------------------------------------------------- */

static void plain_linear_agrees_with_double_precision(void **state) {
    (void)state;
    ppo_rng rng = test_rng(5);
    assert_ok(ppo_use_kernels("plain"));
    for (int trial = 0; trial < 60; trial++) {
        int in = 1 + ppo_rng_below(&rng, 70), out = 1 + ppo_rng_below(&rng, 70),
            n = 1 + ppo_rng_below(&rng, 9);
        rows_case c = {"linear", run_linear, in, out, trial % 3, {0}, {0}, NULL, NULL};
        fill_case(&c, &rng, n);
        run_linear(&c, in_block, n, out_block);
        for (int i = 0; i < n * out; i++) {
            double sum = biases[i % out];
            for (int k = 0; k < in; k++)
                sum += (double)in_block[i / out * in + k] * weights[k * out + i % out];
            if (c.activation == PPO_TANH) sum = tanh(sum);
            if (c.activation == PPO_RELU) sum = fmax(sum, 0);
            assert_true(fabs(out_block[i] - sum) < 2e-6);
        }
    }
}

typedef struct results {
    float logp[9], entropy[9], grad_logits[9 * 70];
    float linear[9 * 70], tanh_[9 * 70], softmax[9 * 70], grad_x[9 * 70], grad_w[70 * 70], grad_b[70];
    float param[9 * 70], m[9 * 70], v[9 * 70], norm, whitened[9 * 70];
} results;

/* The same random job, of sizes that depend on `trial` alone. */
static void compute_with_current_kernels(int trial, results *r, int *n, int *in, int *out) {
    ppo_rng rng = test_rng(1000 + (uint32_t)trial);
    int token[9];
    float weight_up[9], entropy_up[9], mix[9 * 70], grad_x[9 * 70];
    rows_case c = {0};
    memset(r, 0, sizeof *r);
    *n = 1 + ppo_rng_below(&rng, 9), *in = 1 + ppo_rng_below(&rng, 70), *out = 1 + ppo_rng_below(&rng, 70);
    c.in = *in, c.out = *out;
    fill_case(&c, &rng, *n);
    fill_normal(&rng, weight_up, 9, 1), fill_normal(&rng, entropy_up, 9, 1),
        fill_normal(&rng, mix, 9 * 70, 1);

    tokens_of(in_block, *n, *in, token);
    assert_ok(ppo_token_logp(in_block, token, *n, *in, 0.7f, r->logp, r->entropy));
    assert_ok(ppo_token_logp_backward(in_block, token, weight_up, entropy_up, *n, *in, 0.7f, r->grad_logits));
    run_tanh(&c, in_block, *n, r->tanh_);
    run_log_softmax(&c, in_block, *n, r->softmax);

    ppo_tensor x = {*n, *in, in_block, grad_x}, w = {*in, *out, weights, r->grad_w},
               b = {1, *out, biases, r->grad_b};
    memset(grad_x, 0, sizeof grad_x);
    ppo_tape_reset(tape);
    ppo_tensor *y = ppo_tape_linear(tape, &x, &w, &b, trial % 3);
    ppo_tensor *loss = ppo_tape_sum(tape, ppo_tape_mul(tape, y, ppo_tape_constant(tape, mix, *n, *out)));
    assert_ok(ppo_tape_backward(tape, loss));
    memcpy(r->linear, y->data, (size_t)(*n * *out) * sizeof(float));
    memcpy(r->grad_x, grad_x, sizeof grad_x);

    ppo_adam adam = ppo_adam_default();
    adam.weight_decay = 0.01f;
    memcpy(r->param, in_block, (size_t)(*n * *in) * sizeof(float));
    for (long step = 1; step <= 3; step++)
        ppo_adam_step(r->param, mix, r->m, r->v, (size_t)(*n * *in), &adam, step);
    memcpy(r->whitened, mix, sizeof mix);
    assert_ok(ppo_whiten(r->whitened, NULL, *n * *in + 1, 1));
    r->norm = ppo_clip_grad_norm(mix, (size_t)(*n * *in), 0.1f);
}

static void every_kernel_set_agrees_with_the_plain_one(void **state) {
    (void)state;
    static results plain, other;
    for (int trial = 0; trial < SMALL(150, 50); trial++) {
        int n, in, out;
        assert_ok(ppo_use_kernels("plain"));
        compute_with_current_kernels(trial, &plain, &n, &in, &out);
        FOR_EACH_KERNEL_SET(set) {
            compute_with_current_kernels(trial, &other, &n, &in, &out);
            assert_close_array(other.logp, plain.logp, n, 1e-6);
            assert_close_array(other.entropy, plain.entropy, n, 2e-6);
            assert_close_array(other.grad_logits, plain.grad_logits, n * in, 2e-6);
            assert_close_array(other.tanh_, plain.tanh_, n * in, 1e-6);
            assert_close_array(other.softmax, plain.softmax, n * in, 1e-6);
            assert_close_array(other.linear, plain.linear, n * out, 2e-6);
            assert_close_array(other.grad_x, plain.grad_x, n * in, 2e-6);
            assert_close_array(other.grad_w, plain.grad_w, in * out, 2e-6);
            assert_close_array(other.grad_b, plain.grad_b, out, 2e-6);
            assert_close_array(other.param, plain.param, n * in, 1e-6);
            assert_close_array(other.m, plain.m, n * in, 1e-6);
            assert_close_array(other.v, plain.v, n * in, 1e-6);
            assert_close_array(other.whitened, plain.whitened, n * in + 1, 1e-6);
            assert_close(other.norm, plain.norm, 1e-6);
        }
    }
}

static void a_nan_anywhere_in_a_long_row_is_seen(void **state) {
    (void)state;
    static float logits[2048];
    const int token = 7;
    float logp, grad_logp = 1;
    static float grad[2048];
    FOR_EACH_KERNEL_SET(set) {
        static const int at[] = {0, 15, 1023, 1024, 2047};
        for (int i = 0; i < COUNT(at); i++) {
            memset(logits, 0, sizeof logits);
            assert_ok(ppo_token_logp(logits, &token, 1, 2048, 1, &logp, NULL));
            logits[at[i]] = NAN;
            assert_fails(ppo_token_logp(logits, &token, 1, 2048, 1, &logp, NULL), PPO_ERROR_NUMERIC, "row 0");
            assert_fails(ppo_token_logp_backward(logits, &token, &grad_logp, NULL, 1, 2048, 1, grad),
                         PPO_ERROR_NUMERIC, "row 0");
        }
    }
}

/* --------------------------------------------------------------------------------------------------------
   Errors against double precision, of every set, within the bounds that section 3 states. PPO_EVERY_FLOAT=1
   goes over every float and a hundred times as many rows, and prints how much of its bound the largest error
   takes.
   -------------------------------------------------------------------------------------------------------- */

/* Of the vector sets. The plain one is as exact as the C library; tanhf of glibc 2.36 is off by 2.2 ulp. */
#define EXP_ULP         1.04
#define TANH_ULP        1.50
#define LOG_ULP         0.89
#define GELU_ULP        2.6   /* above 0 */
#define GELU_BELOW_ULP  163.0 /* below 0, down to -1e-30 */
#define GELU_NEAR_0     1e-35 /* between -1e-30 and 0 */
#define GELU_DERIVATIVE 2.0e-6
#define PLAIN_ULP       3.0
#define PLAIN_GELU      1.0e-7 /* below 0 */

/* Of a row of n numbers: a sum has as many chains as a vector has lanes. */
#define ROUNDING     (1.0 / 16777216)
#define ROW_ERROR(n) ((6 + (double)(n) / lanes) * ROUNDING)

static int lanes; /* of the set in use */

typedef struct worst {
    double share[COUNT(kernel_sets)]; /* of the bound */
    double at[COUNT(kernel_sets)];    /* the argument, or the length of the row */
} worst;

static int every_float(void) { return getenv("PPO_EVERY_FLOAT") != NULL; }

/* The error as a share of its bound. An infinity counts as 2^128. */
static double share_of_bound(float got, double wanted, double bound) {
    if (isnan(got) || isnan(wanted)) return isnan(got) && isnan(wanted) ? 0 : INFINITY;
    if (got == (float)wanted) return 0;
    return fabs((isinf(got) ? copysign(ldexp(1, 128), got) : got) - wanted) / bound;
}

static void print_worst(const char *kernel, const worst *w) {
    for (int set = 0; set < COUNT(kernel_sets) && every_float(); set++)
        if (w->share[set] > 0)
            print_message("%s (%s): %.3f of its bound, at %.9g\n", kernel, kernel_sets[set].name,
                          w->share[set], w->at[set]);
}

/* -- of one argument -- */

typedef struct elementary {
    const char *name;
    void (*run)(const float *x, float *y, size_t n);
    double (*want)(double x);
    double ulp;                               /* the bound of the vector sets, */
    double (*bound)(double x, double wanted); /* or the bound of the set in use */
} elementary;

/* The distance between floats at x. */
static double ulp(double x) {
    int exponent;
    frexp(x, &exponent);
    return ldexp(1, (exponent > -125 ? exponent : -125) - 24);
}

static void gelu_of(double x, double *y, double *derivative) {
    const double scale = 0.79788456080286535588, cubic = 0.044715;
    double e = exp(-2 * scale * (x + cubic * x * x * x)), s = 1 / (1 + e);
    *y = x * s;
    *derivative = isinf(e) ? 0 : s + x * s * (e * s) * 2 * scale * (1 + 3 * cubic * x * x);
}

static double want_gelu(double x) {
    double y, derivative;
    return gelu_of(x, &y, &derivative), y;
}

static double want_derivative(double x) {
    double y, derivative;
    return gelu_of(x, &y, &derivative), isinf(x) ? NAN : derivative;
}

static void run_vexp(const float *x, float *y, size_t n) { ppo__k()->vexp(x, y, n); }
static void run_vlog(const float *x, float *y, size_t n) { ppo__k()->vlog(x, y, n); }
static void run_vtanh(const float *x, float *y, size_t n) { ppo__k()->vtanh(x, y, n); }
static void run_vgelu(const float *x, float *y, size_t n) { ppo__k()->activation[PPO_GELU].value(x, y, n); }
static void run_derivative(const float *x, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = 1;
    ppo__k()->activation[PPO_GELU].backward(x, y, y, n);
}

static double want_gelu_erf(double x) { return 0.5 * x * erfc(-x * sqrt(0.5)); }
static double want_gelu_erf_derivative(double x) {
    return isinf(x) ? NAN
                    : 0.5 * erfc(-x * sqrt(0.5)) + x * exp(-0.5 * x * x) / sqrt(2 * 3.14159265358979323846);
}
static double want_silu(double x) { return x / (1 + exp(-x)); }
static double want_silu_derivative(double x) {
    const double e = exp(-fabs(x)), s = x > 0 ? 1 / (1 + e) : e / (1 + e);
    return isinf(x) ? NAN : s + x * s * (1 - s);
}
static void run_gelu_erf(const float *x, float *y, size_t n) {
    ppo__k()->activation[PPO_GELU_ERF].value(x, y, n);
}
static void run_silu(const float *x, float *y, size_t n) { ppo__k()->activation[PPO_SILU].value(x, y, n); }
static void run_gelu_erf_derivative(const float *x, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = 1;
    ppo__k()->activation[PPO_GELU_ERF].backward(x, y, y, n);
}
static void run_silu_derivative(const float *x, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = 1;
    ppo__k()->activation[PPO_SILU].backward(x, y, y, n);
}

static double want_elu(double x) { return x < 0 ? expm1(x) : x; }
static double want_elu_derivative(double x) { return x < 0 ? exp(x) : 1; }
static void run_elu(const float *x, float *y, size_t n) { ppo__k()->activation[PPO_ELU].value(x, y, n); }
static void run_elu_derivative(const float *x, float *y, size_t n) {
    float one[64];
    for (int i = 0; i < 64; i++) one[i] = 1;
    run_elu(x, y, n);
    for (size_t at = 0; at < n; at += 64)
        ppo__k()->activation[PPO_ELU].backward(y + at, one, y + at, n - at < 64 ? n - at : 64);
}

/* The exponent of the normal density is rounded. */
static double gelu_erf_bound(double x, double wanted) {
    return x < 0 && wanted > -1e-32 ? GELU_NEAR_0 : (8 + (x < 0 ? 2 * x * x : 0)) * ulp(wanted);
}
static double silu_bound(double x, double wanted) {
    return x < 0 && wanted > -1e-30 ? GELU_NEAR_0 : 6 * ulp(wanted);
}

static double derivative_bound(double x, double wanted) { return (void)x, (void)wanted, GELU_DERIVATIVE; }

static double gelu_bound(double x, double wanted) {
    if (x >= 0) return (lanes == 1 ? PLAIN_ULP : GELU_ULP) * ulp(wanted);
    if (lanes == 1) return PLAIN_GELU;
    return wanted <= -1e-30 ? GELU_BELOW_ULP * ulp(wanted) : GELU_NEAR_0;
}

static double bound_of(const elementary *f, double x, double wanted) {
    if (wanted == 0) return 0; /* of what is impossible, exp(-inf), nothing may be left */
    if (f->bound) return f->bound(x, wanted);
    return (lanes == 1 ? PLAIN_ULP : f->ulp) * ulp(wanted);
}

static void compare_elementary(const elementary *f, const float *x, int n, worst *w) {
    enum { MOST = 1 << 14 };
    static double wanted[MOST];
    static float y[MOST];
    assert_true(n <= MOST);
    for (int i = 0; i < n; i++) wanted[i] = f->want(x[i]);
    FOR_EACH_KERNEL_SET(set) {
        lanes = kernel_sets[set].lanes;
        f->run(x, y, (size_t)n);
        for (int i = 0; i < n; i++) {
            if (y[i] == (float)wanted[i]) continue; /* most are; a bound takes time */
            double share = share_of_bound(y[i], wanted[i], bound_of(f, x[i], wanted[i]));
            if (share > 1)
                fail_msg("%s (%s) of %.9g is %.9g, not %.9g: %.3g of its bound", f->name,
                         kernel_sets[set].name, (double)x[i], (double)y[i], wanted[i], share);
            if (share > w->share[set]) w->share[set] = share, w->at[set] = x[i];
        }
    }
}

/* By bit pattern; a prime stride passes through all exponents and all low bits. */
static void compare_over_floats(const elementary *f) {
    static const float edges[] = {0,     FLT_MIN,  0.26f,  1,        88.7f,    88.8f, 89.1f,
                                  -0.0f, -FLT_MIN, -0.26f, -1,       -87.3f,   -88,   -103,
                                  -104,  -FLT_MAX, NAN,    INFINITY, -INFINITY};
    enum { BLOCK = 1 << 14 };
    static float x[BLOCK];
    const uint64_t end = (uint64_t)1 << 32, stride = every_float() ? 1 : SMALL(1021, 16381);
    worst w = {{0}, {0}};
    compare_elementary(f, edges, COUNT(edges), &w);
    for (uint64_t pattern = 0; pattern < end;) {
        int n = 0;
        for (; n < BLOCK && pattern < end; n++, pattern += stride) {
            uint32_t bits = (uint32_t)pattern;
            memcpy(&x[n], &bits, sizeof bits);
        }
        compare_elementary(f, x, n, &w);
    }
    print_worst(f->name, &w);
}

static void functions_of_one_number_keep_their_bounds_over_the_floats(void **state) {
    (void)state;
    static const elementary functions[] = {
        {"exp", run_vexp, exp, EXP_ULP, NULL},
        {"log", run_vlog, log, LOG_ULP, NULL},
        {"tanh", run_vtanh, tanh, TANH_ULP, NULL},
        {"gelu", run_vgelu, want_gelu, 0, gelu_bound},
        {"gelu's derivative", run_derivative, want_derivative, 0, derivative_bound},
        {"gelu_erf", run_gelu_erf, want_gelu_erf, 0, gelu_erf_bound},
        {"gelu_erf's derivative", run_gelu_erf_derivative, want_gelu_erf_derivative, 0, derivative_bound},
        {"silu", run_silu, want_silu, 0, silu_bound},
        {"silu's derivative", run_silu_derivative, want_silu_derivative, 0, derivative_bound},
        {"elu", run_elu, want_elu, 8, NULL},
        {"elu's derivative", run_elu_derivative, want_elu_derivative, 0, derivative_bound}};
    for (int i = 0; i < COUNT(functions); i++) compare_over_floats(&functions[i]);
}

/* -- of rows -- */

enum { LONGEST = 4099 };
static float kx[LONGEST + 1], kw[LONGEST + 1], kb[LONGEST + 1], ky[LONGEST + 1], kz[LONGEST + 1];
static double want[LONGEST], bound[LONGEST];

/* 1, 2, ..., 70, and some large ones; 0 ends */
static int next_size(int n) {
    return n < 70 ? n + 1 : n == 70 ? 768 : n == 768 ? 1024 : n == 1024 ? LONGEST : 0;
}

static int rows_of_a_size(void) { return every_float() ? 100 : 1; }

/* Each of n numbers is off by no more than its bound, and nothing was written behind them. */
static void assert_wanted(const char *kernel, const float *got, int n, worst *w, int set) {
    for (int i = 0; i < n; i++) {
        double share = share_of_bound(got[i], want[i], bound[i]);
        if (share > 1)
            fail_msg("%s (%s): element %d of %d is %.9g, not %.9g: %.3g of its bound", kernel,
                     kernel_sets[set].name, i, n, (double)got[i], want[i], share);
        if (share > w->share[set]) w->share[set] = share, w->at[set] = n;
    }
    if (got[n] != 7) fail_msg("%s (%s): wrote behind its %d elements", kernel, kernel_sets[set].name, n);
}

static void gelu_and_its_derivative_keep_their_bounds_at_any_length_in_place_or_not(void **state) {
    (void)state;
    worst w = {{0}, {0}};
    FOR_EACH_KERNEL_SET(set) {
        ppo_rng rng = test_rng(20);
        double derivative[LONGEST];
        lanes = kernel_sets[set].lanes;
        for (int n = 1; n; n = next_size(n)) {
            fill_normal(&rng, kx, n, 3), fill_normal(&rng, kw, n, 1);
            for (int i = 0; i < n; i++) gelu_of(kx[i], &want[i], &derivative[i]);
            for (int i = 0; i < n; i++) bound[i] = gelu_bound(kx[i], want[i]);
            ky[n] = kz[n] = kx[n] = kw[n] = 7;
            ppo__k()->activation[PPO_GELU].value(kx, ky, (size_t)n);
            assert_wanted("gelu", ky, n, &w, set);
            for (int i = 0; i < n; i++) want[i] = derivative[i] * kw[i];
            for (int i = 0; i < n; i++) bound[i] = GELU_DERIVATIVE * fabs(kw[i]) + ulp(want[i]);
            ppo__k()->activation[PPO_GELU].backward(kx, kw, kz, (size_t)n);
            assert_wanted("gelu_backward", kz, n, &w, set);

            ppo__k()->activation[PPO_GELU].backward(kx, kw, kw, (size_t)n);
            ppo__k()->activation[PPO_GELU].value(kx, kx, (size_t)n);
            assert_false(bits_differ(kx, ky, (size_t)n + 1) || bits_differ(kw, kz, (size_t)n + 1));
        }
    }
}

static void gelu_has_the_same_bits_in_all_sets_with_a_multiply_add(void **state) {
    (void)state;
    enum { N = 4096 };
    static float x[N], y[2][N], dx[2][N];
    int sets = 0;
    for (int i = 0; i < N; i++) x[i] = 0.006f * (float)(i - N / 2);
    FOR_EACH_KERNEL_SET(set) {
        if (!strcmp(ppo_kernels_name(), "plain") || !strcmp(ppo_kernels_name(), "vector16")) continue;
        int k = sets++ > 0;
        ppo__k()->activation[PPO_GELU].value(x, y[k], N);
        ppo__k()->activation[PPO_GELU].backward(x, x, dx[k], N);
        assert_false(k && (bits_differ(y[0], y[1], N) || bits_differ(dx[0], dx[1], N)));
    }
}

/* What is small is right in its digits as well; of subnormal numbers the last two digits may be wrong. */
static void want_softmax(double scale, const float *x, int n) {
    double top = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) top = fmax(top, x[i]);
    for (int i = 0; i < n; i++) sum += want[i] = exp(scale * (x[i] - top));
    for (int i = 0; i < n; i++) {
        want[i] /= sum;
        bound[i] = 2 * ulp(0);
        if (want[i] > 0) bound[i] += (ROW_ERROR(n) + 2 * ROUNDING * scale * (top - x[i])) * want[i];
    }
}

/* form 0: plain numbers. 1: most are impossible. 2: one is larger than all others by far. 3: all are equal.
   4: enormous, but for one. 5: one to whose sum each other adds less than half of its last digit. */
static void fill_logits(ppo_rng *rng, int form, float scale, int n) {
    fill_normal(rng, kx, n, 2);
    int one = ppo_rng_below(rng, n);
    for (int i = 0; i < n; i++) {
        if (form == 1 && i != one && ppo_rng_below(rng, 3)) kx[i] = -INFINITY;
        if (form == 2) kx[i] = i == one ? 300 : -300 * ppo_rng_uniform(rng);
        if (form == 3) kx[i] = -1000;
        if (form == 4) kx[i] = i == one ? 1e30f : -1e30f;
        if (form == 5) kx[i] = i == one ? 16.7f / scale : 0;
    }
}

static void softmax_keeps_its_bound_of_any_logits(void **state) {
    (void)state;
    static const float scales[] = {1, 0.125f, 2.5f};
    worst w = {{0}, {0}};
    FOR_EACH_KERNEL_SET(set) {
        ppo_rng rng = test_rng(21);
        lanes = kernel_sets[set].lanes;
        for (int n = 1; n; n = next_size(n))
            for (int k = 0; k < 6 * rows_of_a_size(); k++) {
                float scale = scales[(n + k / 6) % 3];
                fill_logits(&rng, k % 6, scale, n);
                want_softmax(scale, kx, n);
                kx[n] = 7;
                ppo__k()->softmax(scale, kx, n);
                assert_wanted("softmax", kx, n, &w, set);
            }
    }
    print_worst("softmax", &w);
}

static void softmax_backward_keeps_its_bound_in_place_or_not(void **state) {
    (void)state;
    worst w = {{0}, {0}};
    FOR_EACH_KERNEL_SET(set) {
        ppo_rng rng = test_rng(22);
        lanes = kernel_sets[set].lanes;
        for (int n = 1; n; n = next_size(n))
            for (int k = 0; k < rows_of_a_size(); k++) {
                double dot = 0, size = 0;
                fill_normal(&rng, kx, n, 2), fill_normal(&rng, kw, n, 1);
                ppo__k()->softmax(1, kx, n);
                for (int i = 0; i < n; i++) dot += (double)kx[i] * kw[i], size += fabs((double)kx[i] * kw[i]);
                for (int i = 0; i < n; i++) want[i] = 0.7f * (double)kx[i] * (kw[i] - dot);
                for (int i = 0; i < n; i++) bound[i] = ROW_ERROR(n) * 0.7 * kx[i] * (fabs(kw[i]) + size);
                ky[n] = kw[n] = 7;
                ppo__k()->softmax_backward(0.7f, kx, kw, ky, n);
                assert_wanted("softmax_backward", ky, n, &w, set);
                ppo__k()->softmax_backward(0.7f, kx, kw, kw, n);
                assert_false(bits_differ(kw, ky, (size_t)n + 1));
            }
    }
    print_worst("softmax_backward", &w);
}

/* form 0: plain numbers; 1: far from 0; 2: all equal, which only eps divides; 3: a variance near eps */
static void fill_row(ppo_rng *rng, int form, int n) {
    fill_normal(rng, kx, n, 2), fill_normal(rng, kw, n, 1), fill_normal(rng, kb, n, 1);
    for (int i = 0; i < n; i++) {
        if (form == 1) kx[i] = 30 + 0.25f * kx[i];
        if (form == 2) kx[i] = -0.75f;
        if (form == 3) kx[i] *= 0.002f;
    }
}

static void moments_of(const float *x, int n, double *mean, double *rstd) {
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    for (int i = 0; i < n; i++) squares += (x[i] - sum / n) * (x[i] - sum / n);
    *mean = sum / n;
    *rstd = 1 / sqrt(squares / n + 1e-5);
}

static void layer_norm_keeps_its_bound_near_and_far_from_0(void **state) {
    (void)state;
    worst w = {{0}, {0}};
    FOR_EACH_KERNEL_SET(set) {
        ppo_rng rng = test_rng(23);
        lanes = kernel_sets[set].lanes;
        for (int n = 1; n; n = next_size(n))
            for (int k = 0; k < 4 * rows_of_a_size(); k++) {
                double mean, rstd;
                float got_mean, got_rstd;
                fill_row(&rng, k % 4, n);
                moments_of(kx, n, &mean, &rstd);
                for (int i = 0; i < n; i++) {
                    double xhat = (kx[i] - mean) * rstd, size = 1 + fabs(xhat) + fabs(mean) * rstd;
                    want[i] = kw[i] * xhat + kb[i];
                    bound[i] = ROW_ERROR(n) * (fabs(kw[i]) * size + fabs(kb[i]));
                }
                ky[n] = 7;
                ppo__k()->norm(1, 1e-5f, kx, kw, kb, ky, n, &got_mean, &got_rstd);
                assert_wanted("layer_norm", ky, n, &w, set);
                assert_true(fabs(got_mean - mean) <= ROW_ERROR(n) * (fabs(mean) + 1 / rstd));
                assert_true(fabs(got_rstd - rstd) <= ROW_ERROR(n) * rstd * (1 + fabs(mean) * rstd));

                double squares = 0; /* and not centred, without a bias */
                for (int i = 0; i < n; i++) squares += (double)kx[i] * kx[i];
                rstd = 1 / sqrt(squares / n + 1e-6);
                for (int i = 0; i < n; i++) {
                    want[i] = kw[i] * kx[i] * rstd;
                    bound[i] = ROW_ERROR(n) * fabs(want[i]);
                }
                ppo__k()->norm(0, 1e-6f, kx, kw, NULL, ky, n, &got_mean, &got_rstd);
                assert_wanted("rms_norm", ky, n, &w, set);
                assert_true(got_mean == 0 && fabs(got_rstd - rstd) <= ROW_ERROR(n) * rstd);
            }
    }
    print_worst("layer_norm", &w);
}

/* What the three gradients should have become, of a row that fill_row() made and of dy = kz. */
static void want_layer_norm_backward(int which, double mean, double rstd, const float *before, int n) {
    double g_sum = 0, gx_sum = 0, squares = 0, ratio = fabs(mean) * rstd;
    for (int i = 0; i < n; i++) {
        double g = (double)kz[i] * kw[i];
        g_sum += g, gx_sum += g * (kx[i] - mean) * rstd, squares += g * g;
    }
    for (int i = 0; i < n; i++) {
        double xhat = (kx[i] - mean) * rstd, g = (double)kz[i] * kw[i], size = fabs(xhat);
        double d[3] = {rstd * (g - (g_sum + xhat * gx_sum) / n), kz[i] * xhat, kz[i]};
        double off[3] = {rstd * (1 + ratio) * (fabs(g) + (1 + size) * sqrt(squares / n)),
                         fabs(kz[i]) * (size + ratio), 0};
        want[i] = before[i] + d[which];
        bound[i] = ROW_ERROR(n) * off[which] + ulp(want[i]);
    }
}

/* The kernel adds; so each gradient starts from something. */
static void layer_norm_backward_keeps_its_bound_whichever_gradients_are_wanted(void **state) {
    (void)state;
    static float grad[3][LONGEST + 1], before[3][LONGEST];
    worst w = {{0}, {0}};
    FOR_EACH_KERNEL_SET(set) {
        ppo_rng rng = test_rng(24);
        lanes = kernel_sets[set].lanes;
        for (int n = 1; n; n = next_size(n))
            for (int k = SMALL(0, n % 3); k < 32 * rows_of_a_size(); k += SMALL(1, 3)) {
                double mean, rstd;
                fill_row(&rng, k / 8 % 4, n);
                fill_normal(&rng, kz, n, 1);
                moments_of(kx, n, &mean, &rstd);
                for (int g = 0; g < 3; g++) {
                    fill_normal(&rng, before[g], n, 1);
                    memcpy(grad[g], before[g], (size_t)n * sizeof(float));
                    grad[g][n] = 7;
                }
                ppo__k()->norm_backward(1, kx, kw, (float)mean, (float)rstd, kz, k & 1 ? grad[0] : NULL,
                                        k & 2 ? grad[1] : NULL, k & 4 ? grad[2] : NULL, n);
                for (int g = 0; g < 3; g++) {
                    want_layer_norm_backward(g, mean, rstd, before[g], n);
                    if (k & 1 << g) assert_wanted("layer_norm_backward", grad[g], n, &w, set);
                    else assert_false(bits_differ(grad[g], before[g], (size_t)n));
                }
            }
    }
    print_worst("layer_norm_backward", &w);
}

/* --------------------------------------------------------------------------------------------------------
   Products of layers: every set, by its bound, and to the bit where rows, columns or the storage differ
   -------------------------------------------------------------------------------------------------------- */

static void amx_is_chosen_by_name_alone_and_refused_where_it_is_missing(void **state) {
    (void)state;
    assert_ok(ppo_use_kernels("plain"));
    if (ppo_use_kernels("amx")) {
        assert_fails(ppo_use_kernels("amx"), PPO_ERROR_ARGUMENT, "no kernels \"amx\"");
        assert_string_equal(ppo_kernels_name(), "plain");
    } else {
        assert_string_equal(ppo_kernels_name(), "amx");
    }
    assert_ok(ppo_use_kernels(NULL));
    assert_string_not_equal(ppo_kernels_name(), "amx");
#ifdef PPO_NO_SIMD
    assert_fails(ppo_use_kernels("amx"), PPO_ERROR_ARGUMENT, "amx");
#endif
}

/* c = init + a b, of random numbers; c's rows are longer than it, and what is between them stays. */
typedef struct product {
    int rows, cols, inner, transposed, init; /* 0: none, 1: a bias, 2: c */
} product;

enum { MOST = 1 << 18, GAP = 3 };
static float pa[MOST], pb[MOST], pc[MOST], pd[MOST], bias[1024];

static void multiply(const product *p, int rows, int cols, const float *a, const float *b, float *c) {
    const int row = p->transposed ? 1 : p->inner, col = p->transposed ? p->rows : 1, ld = p->cols + GAP;
    const float *init = p->init == 2 ? c : p->init ? bias + (b - pb) : NULL;
    ppo__layer_gemm(rows, cols, p->inner, a, row, col, b, p->cols, init, p->init == 2 ? ld : 0, c, ld);
}

static void assert_product(const product *p, float scale, int set) {
    const int ld = p->cols + GAP, n = p->rows * ld, amx = !strcmp(kernel_sets[set].name, "amx");
    const int row = p->transposed ? 1 : p->inner, col = p->transposed ? p->rows : 1;
    const double sums = amx && p->inner >= 32 ? 24 + p->inner / 5.0 : p->inner + 2;
    ppo_rng rng = test_rng((uint32_t)(p->rows + p->cols + p->inner));
    assert_true(p->rows * p->inner <= MOST && p->inner * p->cols <= MOST && n <= MOST && p->cols <= 1024);
    fill_normal(&rng, pa, p->rows * p->inner, scale), fill_normal(&rng, pb, p->inner * p->cols, 1);
    fill_normal(&rng, bias, p->cols, scale), fill_normal(&rng, pd, n, scale);
    memcpy(pc, pd, sizeof(float) * (size_t)n);
    multiply(p, p->rows, p->cols, pa, pb, pc);
    for (int i = 0; i < p->rows; i++)
        for (int j = 0; j < ld; j++) {
            const int at = i * ld + j;
            double exact = p->init == 2 || j >= p->cols ? pd[at] : p->init ? bias[j] : 0;
            double size = fabs(exact), off = 5 * ldexp(scale, 2) + 5;
            if (j >= p->cols) {
                assert_true(pc[at] == pd[at]);
                continue;
            }
            for (int k = 0; k < p->inner; k++) {
                const double term = (double)pa[i * row + k * col] * pb[k * p->cols + j];
                exact += term, size += fabs(term);
            }
            off = fabs(pc[at] - exact) / (sums * ROUNDING * size + p->inner * (1 + off) * ldexp(1, -123));
            if (off > 1)
                fail_msg("%s: %d x %d x %d: element (%d, %d) is %.9g, not %.9g: %.3g of its bound",
                         kernel_sets[set].name, p->rows, p->cols, p->inner, i, j, (double)pc[at], exact, off);
        }
    for (int trial = 0; trial < 6; trial++) { /* some rows, and some columns */
        const int i = ppo_rng_below(&rng, p->rows), j = ppo_rng_below(&rng, p->cols);
        const int rows = 1 + ppo_rng_below(&rng, p->rows - i), cols = 1 + ppo_rng_below(&rng, p->cols - j);
        multiply(p, rows, cols, pa + i * row, pb + j, pd + i * ld + j);
        for (int r = i; r < i + rows; r++)
            if (bits_differ(pd + r * ld + j, pc + r * ld + j, (size_t)cols))
                fail_msg("%s: %d x %d x %d: row %d differs among rows %d to %d, columns %d to %d",
                         kernel_sets[set].name, p->rows, p->cols, p->inner, r, i, i + rows, j, j + cols);
        if (p->init == 2) break;
    }
}

static void products_of_layers_keep_their_bound_and_their_bits(void **state) {
    (void)state;
    static const int sizes[][3] = {{1, 1, 32},    {1, 300, 65},  {16, 17, 31},  {17, 16, 33},  {33, 65, 100},
                                   {31, 97, 127}, {7, 257, 129}, {64, 40, 256}, {130, 3, 300}, {520, 34, 40}};
    FOR_EACH_KERNEL_SET(set) {
        for (int i = SMALL(0, set % 2); i < COUNT(sizes); i += SMALL(1, 2))
            for (int transposed = 0; transposed < 2; transposed++)
                for (int init = 0; init < 3; init++) {
                    const product p = {sizes[i][0], sizes[i][1], sizes[i][2], transposed, init};
                    assert_product(&p, init == 1 ? ldexpf(1, -118) : 1, set);
                }
    }
}

static void a_number_that_is_not_finite_reaches_its_row_or_its_column_alone(void **state) {
    (void)state;
    static const product p = {20, 35, 70, 0, 0};
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    FOR_EACH_KERNEL_SET(set) for (int i = 0; i < 6; i++) {
        ppo_rng rng = test_rng(5);
        const int ld = p.cols + GAP, in_a = i < 3;
        fill_normal(&rng, pa, p.rows * p.inner, 1), fill_normal(&rng, pb, p.inner * p.cols, 1);
        if (in_a) pa[11 * p.inner + 69] = bad[i];
        else pb[69 * p.cols + 33] = bad[i - 3];
        multiply(&p, p.rows, p.cols, pa, pb, pc);
        for (int r = 0; r < p.rows; r++)
            for (int j = 0; j < p.cols; j++)
                assert_int_equal(isfinite(pc[r * ld + j]) ? 0 : 1, in_a ? r == 11 : j == 33);
    }
}

/* y = x w + b and z = y t^T, with their gradients down to x, of frozen w and t that are packed or not. */
static void run_packed(int packed, int rows, int in, int out, float *y, float *z, float *dx) {
    ppo_params *params = NULL;
    ppo_rng rng = test_rng((uint32_t)(in * out));
    assert_ok(ppo_params_create(&params));
    ppo_tensor *w = ppo_params_add(params, "w", in, out), *t = ppo_params_add(params, "t", 37, out);
    for (int i = 0; i < in * out; i++)
        w->data[i] = (float)ppo_rng_below(&rng, 511) / 256 - 1; /* in BF16 exact */
    for (int i = 0; i < 37 * out; i++) t->data[i] = (float)ppo_rng_below(&rng, 255) / 128 - 1;
    fill_normal(&rng, pa, rows * in, 1), fill_normal(&rng, bias, out, 1);
    memset(dx, 0, sizeof(float) * (size_t)(rows * in));
    assert_ok(ppo_params_freeze(params, 1));
    if (packed) assert_ok(ppo_params_to_bf16(params));
    ppo_tensor x = {rows, in, pa, dx}, b = {1, out, bias, NULL};
    ppo_tape_reset(tape);
    ppo_tensor *hidden = ppo_tape_linear(tape, &x, w, &b, PPO_TANH);
    ppo_tensor *result = ppo_tape_matmul_transposed(tape, hidden, t);
    assert_ok(ppo_tape_backward(tape, ppo_tape_mean(tape, ppo_tape_square(tape, result))));
    memcpy(y, hidden->data, sizeof(float) * (size_t)(rows * out));
    memcpy(z, result->data, sizeof(float) * (size_t)(rows * 37));
    ppo_params_free(params);
}

static void packed_layers_have_the_bits_of_their_rounded_numbers(void **state) {
    (void)state;
    static const int sizes[][3] = {{1, 70, 129}, {2, 31, 40}, {19, 33, 32}, {40, 128, 260}, {70, 150, 31}};
    FOR_EACH_KERNEL_SET(set) for (int i = 0; i < COUNT(sizes); i++) {
        const int rows = sizes[i][0], in = sizes[i][1], out = sizes[i][2];
        float *y[2] = {pb, pb + 20000}, *z[2] = {pc, pc + 20000}, *dx[2] = {pd, pd + 20000};
        for (int packed = 0; packed < 2; packed++)
            run_packed(packed, rows, in, out, y[packed], z[packed], dx[packed]);
        if (bits_differ(y[0], y[1], (size_t)(rows * out)) || bits_differ(z[0], z[1], (size_t)(rows * 37)) ||
            bits_differ(dx[0], dx[1], (size_t)(rows * in)))
            fail_msg("%s: %d x %d x %d differ", kernel_sets[set].name, rows, in, out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_kernels_are_always_there_and_unknown_ones_are_refused),
        cmocka_unit_test(null_returns_to_the_best_set_that_can_be_named),
        cmocka_unit_test(amx_is_chosen_by_name_alone_and_refused_where_it_is_missing),
        cmocka_unit_test(products_of_layers_keep_their_bound_and_their_bits),
        cmocka_unit_test(a_number_that_is_not_finite_reaches_its_row_or_its_column_alone),
        cmocka_unit_test(packed_layers_have_the_bits_of_their_rounded_numbers),
        cmocka_unit_test(a_row_of_linear_and_matmul_has_the_same_bits_in_every_batch),
        cmocka_unit_test(a_weights_gradient_over_many_rows_is_the_sum_of_all),
        cmocka_unit_test(a_row_of_elementwise_and_softmax_functions_has_the_same_bits_in_every_batch),
        cmocka_unit_test(a_row_of_the_actor_critic_has_the_same_bits_in_every_batch),
        cmocka_unit_test(tape_and_plain_log_probabilities_have_the_same_bits),
        cmocka_unit_test(plain_linear_agrees_with_double_precision),
        cmocka_unit_test(every_kernel_set_agrees_with_the_plain_one),
        cmocka_unit_test(a_nan_anywhere_in_a_long_row_is_seen),
        cmocka_unit_test(functions_of_one_number_keep_their_bounds_over_the_floats),
        cmocka_unit_test(gelu_and_its_derivative_keep_their_bounds_at_any_length_in_place_or_not),
        cmocka_unit_test(gelu_has_the_same_bits_in_all_sets_with_a_multiply_add),
        cmocka_unit_test(softmax_keeps_its_bound_of_any_logits),
        cmocka_unit_test(softmax_backward_keeps_its_bound_in_place_or_not),
        cmocka_unit_test(layer_norm_keeps_its_bound_near_and_far_from_0),
        cmocka_unit_test(layer_norm_backward_keeps_its_bound_whichever_gradients_are_wanted),
    };
    return cmocka_run_group_tests(tests, open_tape, close_tape);
}
