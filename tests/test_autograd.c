/* Section 5: every operation against central differences, and what the tape promises. */
#include "../ppo.h"

#include "test.h"
#include "system.h"

/* --------------------------------------------------------------------------------------------------------
   Every operation, differentiated in every input
   -------------------------------------------------------------------------------------------------------- */

enum { MAX_DATA = 64, MAX_IN = 5, ROWS = 4, COLS = 3 };

typedef ppo_tensor *(*unary_fn)(ppo_tape *tape, ppo_tensor *x);
typedef ppo_tensor *(*binary_fn)(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b);

static ppo_rng rng;
static float fixed[8][MAX_DATA]; /* weights, and the arrays that losses take besides a tensor */
static int picks[ROWS] = {2, 0, 1, 2};
static const unsigned char mask[ROWS] = {1, 0, 1, 1};

static int seed_data(void **state) {
    (void)state;
    rng = test_rng(1);
    for (int k = 0; k < 8; k++) fill_normal(&rng, fixed[k], MAX_DATA, 1);
    return 0;
}

/* A scalar in which every element of y has a weight of its own, so that no mix-up of elements cancels. */
static ppo_tensor *weighted_sum(ppo_tape *tape, ppo_tensor *y) {
    if (!y) return NULL;
    return ppo_tape_sum(tape, ppo_tape_mul(tape, y, ppo_tape_constant(tape, fixed[0], y->rows, y->cols)));
}

/* Values 0.2 apart, and 0.1 from another tensor's: away from the kinks of relu, min, max and clamp. */
static void fill_apart(float *x, int n, float offset) {
    int order[MAX_DATA];
    for (int i = 0; i < n; i++) order[i] = i;
    ppo_rng_shuffle(&rng, order, n);
    for (int i = 0; i < n; i++) x[i] = 0.2f * (float)(order[i] - n / 2) + offset;
}

/* f + f / 2, recorded one after the other: a backward that overwrites gradients, instead of adding, shows. */
typedef struct twice {
    ppo_scalar_fn build;
    void *user;
} twice;

static ppo_tensor *build_twice(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    const twice *f = (const twice *)user;
    ppo_tensor *once = f->build(tape, in, f->user), *again = f->build(tape, in, f->user);
    return ppo_tape_add(tape, once, ppo_tape_scale(tape, again, 0.5f, 0));
}

/* Checks build() of n_in inputs of the given shapes, filled from `low` up if low > 0, else around 0. */
static void check_gradients(const char *name, ppo_scalar_fn build, void *user, const int (*shapes)[2],
                            int n_in, float low) {
    float data[MAX_IN][MAX_DATA], grad[MAX_IN][MAX_DATA], before[MAX_IN][MAX_DATA], error = NAN;
    ppo_tensor tensors[MAX_IN];
    ppo_tensor *inputs[MAX_IN];
    memset(grad, 0, sizeof grad);
    memset(data, 0, sizeof data);
    for (int k = 0; k < n_in; k++) {
        int n = shapes[k][0] * shapes[k][1];
        assert_true(n <= MAX_DATA);
        fill_apart(data[k], n, 0.05f + 0.1f * (float)(k % 2));
        for (int i = 0; i < n && low > 0; i++) data[k][i] = fabsf(data[k][i]) + low;
        tensors[k] = (ppo_tensor){shapes[k][0], shapes[k][1], data[k], grad[k]};
        inputs[k] = &tensors[k];
    }
    memcpy(before, data, sizeof data);
    twice both = {build, user};
    if (ppo_check_gradients(build_twice, inputs, n_in, &both, 1e-2f, 3e-3f, &error) != PPO_OK)
        fail_msg("%s: %s (error %g)", name, ppo_last_error(), (double)error);
    assert_true(error >= 0 && error <= 3e-3f);
    assert_memory_equal(before, data, sizeof data); /* the inputs are given back as they were */
    for (int i = 0; i < MAX_IN * MAX_DATA; i++) assert_true(grad[i / MAX_DATA][i % MAX_DATA] == 0);
}

static ppo_tensor *build_binary(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    return weighted_sum(tape, (*(binary_fn *)user)(tape, in[0], in[1]));
}

static void elementwise_operations_have_right_gradients_in_every_broadcast_form(void **state) {
    (void)state;
    static const struct {
        const char *name;
        binary_fn apply;
        float low;
    } ops[] = {{"add", ppo_tape_add, 0},    {"sub", ppo_tape_sub, 0}, {"mul", ppo_tape_mul, 0},
               {"div", ppo_tape_div, 0.7f}, {"min", ppo_tape_min, 0}, {"max", ppo_tape_max, 0}};
    static const int shapes[][2][2] = {{{ROWS, COLS}, {ROWS, COLS}}, {{ROWS, COLS}, {1, COLS}},
                                       {{ROWS, COLS}, {ROWS, 1}},    {{ROWS, COLS}, {1, 1}},
                                       {{1, COLS}, {1, COLS}},       {{1, COLS}, {1, 1}},
                                       {{ROWS, 1}, {ROWS, 1}},       {{1, 1}, {1, 1}}};
    for (int i = 0; i < COUNT(ops); i++)
        for (int s = 0; s < COUNT(shapes); s++) {
            binary_fn apply = ops[i].apply;
            check_gradients(ops[i].name, build_binary, &apply, shapes[s], 2, ops[i].low);
        }
}

static ppo_tensor *build_self(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    return weighted_sum(tape, (*(binary_fn *)user)(tape, in[0], in[0]));
}

static void an_operand_may_be_used_twice(void **state) {
    (void)state;
    static const binary_fn ops[] = {ppo_tape_add, ppo_tape_mul, ppo_tape_div};
    static const int shape[][2] = {{ROWS, COLS}};
    for (int i = 0; i < COUNT(ops); i++) {
        binary_fn apply = ops[i];
        check_gradients("twice", build_self, &apply, shape, 1, 0.7f);
    }
}

static ppo_tensor *build_unary(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    return weighted_sum(tape, (*(unary_fn *)user)(tape, in[0]));
}

static ppo_tensor *apply_scale(ppo_tape *tape, ppo_tensor *x) { return ppo_tape_scale(tape, x, -1.5f, 0.3f); }
static ppo_tensor *apply_tanh(ppo_tape *tape, ppo_tensor *x) { return ppo_tape_activate(tape, x, PPO_TANH); }
static ppo_tensor *apply_relu(ppo_tape *tape, ppo_tensor *x) { return ppo_tape_activate(tape, x, PPO_RELU); }
static ppo_tensor *apply_clamp(ppo_tape *tape, ppo_tensor *x) { return ppo_tape_clamp(tape, x, -0.4f, 0.6f); }
static ppo_tensor *apply_pick(ppo_tape *tape, ppo_tensor *x) { return ppo_tape_gather(tape, x, picks); }

static void functions_of_one_tensor_have_right_gradients(void **state) {
    (void)state;
    static const struct {
        const char *name;
        unary_fn apply;
        float low;
    } ops[] = {{"exp", ppo_tape_exp, 0},       {"log", ppo_tape_log, 0.5f},
               {"tanh", apply_tanh, 0},        {"relu", apply_relu, 0},
               {"square", ppo_tape_square, 0}, {"scale", apply_scale, 0},
               {"clamp", apply_clamp, 0},      {"sum", ppo_tape_sum, 0},
               {"mean", ppo_tape_mean, 0},     {"log_softmax", ppo_tape_log_softmax, 0},
               {"gather", apply_pick, 0}};
    static const int shape[][2] = {{ROWS, COLS}};
    for (int i = 0; i < COUNT(ops); i++) {
        unary_fn apply = ops[i].apply;
        check_gradients(ops[i].name, build_unary, &apply, shape, 1, ops[i].low);
    }
}

static void matmul_has_right_gradients(void **state) {
    (void)state;
    static const int shapes[][2][2] = {
        {{3, 4}, {4, 2}}, {{1, 5}, {5, 1}}, {{5, 1}, {1, 3}}, {{4, 7}, {7, 9}}};
    for (int s = 0; s < COUNT(shapes); s++) {
        binary_fn apply = ppo_tape_matmul;
        check_gradients("matmul", build_binary, &apply, shapes[s], 2, 0);
    }
}

typedef struct linear_form {
    int activation, bias;
} linear_form;

/* The inputs are positive, and odd outputs get negative weights and bias: no sum is near the kink of relu. */
static ppo_tensor *build_linear(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    static const float signs[17] = {1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1};
    const linear_form *f = (const linear_form *)user;
    ppo_tensor *sign = ppo_tape_constant(tape, signs, 1, in[1]->cols);
    ppo_tensor *x = ppo_tape_scale(tape, in[0], 0.3f, 0);
    ppo_tensor *w = ppo_tape_mul(tape, ppo_tape_scale(tape, in[1], 0.3f, 0), sign);
    ppo_tensor *b = f->bias ? ppo_tape_mul(tape, ppo_tape_scale(tape, in[2], 0.3f, 0), sign) : NULL;
    return weighted_sum(tape, ppo_tape_linear(tape, x, w, b, f->activation));
}

static void linear_has_right_gradients_with_each_activation_and_without_bias(void **state) {
    (void)state;
    static const int shapes[][3][2] = {
        {{4, 3}, {3, 5}, {1, 5}}, {{1, 6}, {6, 1}, {1, 1}}, {{3, 1}, {1, 17}, {1, 17}}};
    for (int s = 0; s < COUNT(shapes); s++)
        for (int activation = PPO_IDENTITY; activation < PPO__ACTIVATIONS; activation++)
            for (int bias = 0; bias < 2; bias++) {
                linear_form form = {activation, bias};
                check_gradients("linear", build_linear, &form, shapes[s], 2 + bias, 0.3f);
            }
}

typedef struct both_form {
    float w_logp, w_entropy, temperature;
} both_form;

static ppo_tensor *mix(ppo_tape *tape, const both_form *f, ppo_tensor *logp, ppo_tensor *entropy) {
    ppo_tensor *a = weighted_sum(tape, logp), *b = weighted_sum(tape, ppo_tape_square(tape, entropy));
    if (f->w_entropy == 0) return ppo_tape_scale(tape, a, f->w_logp, 0);
    if (f->w_logp == 0) return ppo_tape_scale(tape, b, f->w_entropy, 0);
    return ppo_tape_add(tape, ppo_tape_scale(tape, a, f->w_logp, 0),
                        ppo_tape_scale(tape, b, f->w_entropy, 0));
}

static ppo_tensor *build_categorical(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    const both_form *f = (const both_form *)user;
    ppo_tensor *logp, *entropy;
    ppo_tape_categorical(tape, in[0], picks, f->temperature, &logp, &entropy);
    return mix(tape, f, logp, entropy);
}

static ppo_tensor *build_gaussian(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    ppo_tensor *logp, *entropy, *log_std = ppo_tape_scale(tape, in[1], 0.3f, 0.1f);
    ppo_tape_gaussian(tape, in[0], log_std, fixed[1], &logp, &entropy);
    return mix(tape, (const both_form *)user, logp, entropy);
}

static void distributions_have_right_gradients_through_either_result_or_both(void **state) {
    (void)state;
    static const both_form forms[] = {{1, 1, 1}, {1, 0, 1}, {0, 1, 1}, {1, 0.5f, 0.7f}, {1, 0, 2}};
    static const int logits[][2] = {{ROWS, COLS}}, gaussian[][2] = {{ROWS, COLS}, {1, COLS}},
                     single[][2] = {{ROWS, 1}, {1, 1}};
    for (int i = 0; i < COUNT(forms); i++) {
        both_form form = forms[i];
        check_gradients("categorical", build_categorical, &form, logits, 1, 0);
        if (i >= 3) continue; /* no temperature */
        check_gradients("gaussian", build_gaussian, &form, gaussian, 2, 0);
        check_gradients("gaussian, 1 dimension", build_gaussian, &form, single, 2, 0);
    }
}

enum { WIDE = 7 }; /* logits of three choices */
static const int head_sizes[3] = {2, 4, 1};
static const int head_picks[ROWS * 3] = {1, 1, 0, 0, 3, 0, 1, 2, 0, 0, 0, 0};
static const unsigned char legal[ROWS * WIDE] = {1, 1, 0, 1, 1, 0, 1, 1, 0, 0, 1, 1, 1, 1,
                                                 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1};

static ppo_tensor *build_multi_categorical(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    ppo_tensor *logp, *entropy;
    ppo_tape_multi_categorical(tape, in[0], head_sizes, 3, head_picks, &logp, &entropy);
    return mix(tape, (const both_form *)user, logp, entropy);
}

static ppo_tensor *build_masked(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    ppo_tensor *logp, *entropy;
    ppo_tape_multi_categorical(tape, ppo_tape_mask(tape, in[0], legal), head_sizes, 3, head_picks, &logp,
                               &entropy);
    return mix(tape, (const both_form *)user, logp, entropy);
}

static ppo_tensor *build_categorical_kl(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    (void)user;
    return weighted_sum(tape, ppo_tape_multi_categorical_kl(tape, fixed[5], head_sizes, 3, in[0]));
}

static ppo_tensor *build_gaussian_kl(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    (void)user;
    ppo_tensor *log_std = ppo_tape_scale(tape, in[1], 0.3f, 0.1f);
    return weighted_sum(tape, ppo_tape_gaussian_kl(tape, fixed[6], fixed[7], in[0], log_std));
}

static void masks_and_exact_kl_and_several_choices_have_right_gradients(void **state) {
    (void)state;
    static const both_form forms[] = {{1, 1, 1}, {1, 0, 1}, {0, 1, 1}};
    static const int logits[][2] = {{ROWS, WIDE}}, shared[][2] = {{ROWS, COLS}, {1, COLS}},
                     rows[][2] = {{ROWS, COLS}, {ROWS, COLS}}, alone[][2] = {{1, COLS}, {1, COLS}};
    for (int i = 0; i < MAX_DATA; i++) fixed[7][i] *= 0.3f; /* log standard deviations */
    for (int i = 0; i < COUNT(forms); i++) {
        both_form form = forms[i];
        check_gradients("multi_categorical", build_multi_categorical, &form, logits, 1, 0);
        check_gradients("mask", build_masked, &form, logits, 1, 0);
        check_gradients("gaussian, a log_std per row", build_gaussian, &form, rows, 2, 0);
    }
    check_gradients("categorical_kl", build_categorical_kl, NULL, logits, 1, 0);
    check_gradients("gaussian_kl, one log_std", build_gaussian_kl, NULL, shared, 2, 0);
    check_gradients("gaussian_kl, a log_std per row", build_gaussian_kl, NULL, rows, 2, 0);
    check_gradients("gaussian_kl, one row", build_gaussian_kl, NULL, alone, 2, 0);
}

/* Sequences of 3, 2, 2 and 1 steps; an episode begins inside two of them. */
static ppo_tensor *build_gru(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    static const int count[3] = {4, 3, 1};
    static const unsigned char start[8] = {0, 1, 0, 0, 0, 0, 1, 0};
    static ppo_sequences sequences;
    ppo_gru gru = {2, in[1], in[2], in[3], in[4]};
    int form = *(const int *)user;
    memset(&sequences, 0, sizeof sequences);
    if (form) sequences.steps = 3, sequences.count = count;
    if (form > 1) sequences.state = fixed[2];
    if (form > 2) sequences.start = start;
    return weighted_sum(tape, ppo__gru_layer(tape, &gru, in[0], &sequences));
}

static void a_gru_has_right_gradients_through_time(void **state) {
    (void)state;
    static const int shapes[][2] = {{8, COLS}, {COLS, 6}, {1, 6}, {2, 6}, {1, 6}};
    for (int form = 0; form < 4; form++) check_gradients("gru", build_gru, &form, shapes, 5, 0);
}

typedef struct loss_form {
    ppo_policy_objective objective;
    float clip_range;
    const unsigned char *mask;
} loss_form;

/* old_logp is chosen such that the ratios lie on both sides of the range, and nowhere near its ends. */
static ppo_tensor *build_policy_loss(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    static const float old_logp[ROWS] = {-1.0f, -1.0f, -1.0f, -1.0f};
    loss_form *f = (loss_form *)user;
    ppo_tensor *logp = ppo_tape_scale(tape, in[0], 1.0f, -1.0f);
    return ppo_tape_policy_loss(tape, logp, old_logp, fixed[2], f->mask, &f->objective, NULL);
}

static ppo_tensor *build_value_loss(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    loss_form *f = (loss_form *)user;
    return ppo_tape_value_loss(tape, in[0], fixed[3], fixed[4], f->mask, f->clip_range, INFINITY);
}

static ppo_tensor *build_huber_loss(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    loss_form *f = (loss_form *)user;
    return ppo_tape_value_loss(tape, in[0], fixed[3], fixed[4], f->mask, f->clip_range, 1);
}

static void losses_have_right_gradients(void **state) {
    (void)state;
    static const ppo_policy_objective objectives[] = {{PPO_CLIP, 0.2f, 0.2f, 0, 0},
                                                      {PPO_CLIP, 0.1f, 0.4f, 1.1f, 0},
                                                      {PPO_K3_PENALTY, 0, 0, 0, 0.7f},
                                                      {PPO_UNCLIPPED, 0, 0, 0, 0}};
    static const int shape[][2] = {{ROWS, 1}};
    for (int masked = 0; masked < 2; masked++) {
        for (int i = 0; i < COUNT(objectives); i++)
            for (int trial = 0; trial < 5; trial++) {
                loss_form form = {objectives[i], 0, masked ? mask : NULL};
                fill_normal(&rng, fixed[2], ROWS, 2);
                check_gradients("policy_loss", build_policy_loss, &form, shape, 1, 0);
            }
        for (int clipped = 0; clipped < 2; clipped++) {
            loss_form form = {{0, 0, 0, 0, 0}, clipped ? 0.25f : 0, masked ? mask : NULL};
            static const float old_value[ROWS] = {0.05f, -0.05f, 0.75f, -0.75f},
                               target[ROWS] = {2, -2, 1.5f, 0.5f};
            memcpy(fixed[3], old_value, sizeof old_value); /* value - old_value is never near 0.25 */
            memcpy(fixed[4], target, sizeof target);
            check_gradients("value_loss", build_value_loss, &form, shape, 1, 0);
            check_gradients("huber_loss", build_huber_loss, &form, shape, 1, 0);
        }
    }
}

static ppo_tensor *build_network(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    (void)user;
    ppo_tensor *h = ppo_tape_linear(tape, in[0], in[1], NULL, PPO_TANH);
    ppo_tensor *p = ppo_tape_log_softmax(tape, ppo_tape_matmul(tape, h, in[2]));
    ppo_tensor *v = ppo_tape_sum(tape, ppo_tape_square(tape, h)); /* h feeds two branches */
    return ppo_tape_sub(tape, weighted_sum(tape, p), ppo_tape_scale(tape, v, 0.1f, 0));
}

static void a_tensor_that_feeds_two_branches_gets_the_sum_of_their_gradients(void **state) {
    (void)state;
    static const int shapes[][2] = {{4, 3}, {3, 5}, {5, 2}};
    check_gradients("network", build_network, NULL, shapes, 3, 0);
}

/* --------------------------------------------------------------------------------------------------------
   Values
   -------------------------------------------------------------------------------------------------------- */

typedef struct bench { /* a tape and two inputs (2, 3); b also serves as row, column and scalar */
    ppo_tape *tape;
    float a_data[6], b_data[6], a_grad[6], b_grad[6];
    ppo_tensor a, b;
} bench;

static void open_bench(bench *s) {
    static const float a[6] = {1, -2, 3, -4, 5, 0.5f}, b[6] = {2, -2, 0.5f, 4, 1, -1};
    memset(s, 0, sizeof *s);
    memcpy(s->a_data, a, sizeof a);
    memcpy(s->b_data, b, sizeof b);
    s->a = (ppo_tensor){2, 3, s->a_data, s->a_grad};
    s->b = (ppo_tensor){2, 3, s->b_data, s->b_grad};
    assert_ok(ppo_tape_create(&s->tape));
}

static double combine(int op, double a, double b) {
    switch (op) {
    case 0:
        return a + b;
    case 1:
        return a - b;
    case 2:
        return a * b;
    case 3:
        return a / b;
    case 4:
        return fmin(a, b);
    default:
        return fmax(a, b);
    }
}

static void elementwise_operations_repeat_rows_columns_and_scalars(void **state) {
    (void)state;
    static const binary_fn ops[] = {ppo_tape_add, ppo_tape_sub, ppo_tape_mul,
                                    ppo_tape_div, ppo_tape_min, ppo_tape_max};
    static const int shapes[][2] = {{2, 3}, {1, 3}, {2, 1}, {1, 1}};
    bench s;
    open_bench(&s);
    for (int op = 0; op < COUNT(ops); op++)
        for (int f = 0; f < COUNT(shapes); f++) {
            s.b.rows = shapes[f][0], s.b.cols = shapes[f][1];
            ppo_tensor *y = ops[op](s.tape, &s.a, &s.b);
            assert_non_null(y);
            assert_true(y->rows == 2 && y->cols == 3);
            for (int i = 0; i < 6; i++) {
                int at = (s.b.rows == 1 ? 0 : i / 3) * s.b.cols + (s.b.cols == 1 ? 0 : i % 3);
                assert_close(y->data[i], (float)combine(op, s.a_data[i], s.b_data[at]), 1e-7);
            }
        }
    ppo_tape_free(s.tape);
}

static void functions_compute_what_their_names_say(void **state) {
    (void)state;
    static const int index[2] = {2, 0};
    bench s;
    open_bench(&s);
    ppo_tensor *relu = apply_relu(s.tape, &s.a), *square = ppo_tape_square(s.tape, &s.a);
    ppo_tensor *scale = ppo_tape_scale(s.tape, &s.a, 2, -1), *clamp = ppo_tape_clamp(s.tape, &s.a, -2.5f, 2);
    ppo_tensor *logs = ppo_tape_log(s.tape, ppo_tape_clamp(s.tape, &s.a, 0.25f, 9)),
               *pick = ppo_tape_gather(s.tape, &s.a, index);
    ppo_tensor *sum = ppo_tape_sum(s.tape, &s.a), *mean = ppo_tape_mean(s.tape, &s.a);
    ppo_tensor *soft = ppo_tape_log_softmax(s.tape, &s.a);
    assert_ok(ppo_tape_status(s.tape));
    for (int i = 0; i < 6; i++) {
        double x = s.a_data[i], total = 0;
        for (int j = 0; j < 3; j++) total += exp(s.a_data[i / 3 * 3 + j]);
        assert_true(relu->data[i] == (float)fmax(x, 0) && square->data[i] == (float)(x * x));
        assert_true(scale->data[i] == (float)(2 * x - 1) && clamp->data[i] == (float)fmin(fmax(x, -2.5), 2));
        assert_close(logs->data[i], log(fmax(x, 0.25)), 1e-6);
        assert_true(fabs(soft->data[i] - (x - log(total))) < 1e-6);
    }
    assert_true(pick->rows == 2 && pick->cols == 1 && pick->data[0] == 3 && pick->data[1] == -4);
    assert_true(sum->rows == 1 && sum->cols == 1 && mean->rows == 1 && mean->cols == 1);
    assert_close(sum->data[0], 3.5, 1e-6);
    assert_close(mean->data[0], 3.5 / 6, 1e-6);
    ppo_tape_free(s.tape);
}

static void min_and_max_of_equals_give_half_of_the_gradient_to_each(void **state) {
    (void)state;
    static const binary_fn ops[] = {ppo_tape_min, ppo_tape_max};
    for (int op = 0; op < 2; op++) {
        bench s;
        open_bench(&s);
        memcpy(s.b_data, s.a_data, sizeof s.b_data);
        assert_ok(ppo_tape_backward(s.tape, ppo_tape_sum(s.tape, ops[op](s.tape, &s.a, &s.b))));
        for (int i = 0; i < 6; i++) assert_true(s.a_grad[i] == 0.5f && s.b_grad[i] == 0.5f);
        ppo_tape_free(s.tape);
    }
}

/* --------------------------------------------------------------------------------------------------------
   The tape
   -------------------------------------------------------------------------------------------------------- */

static void gradients_of_two_rounds_add_up(void **state) {
    (void)state;
    bench s;
    open_bench(&s);
    for (int round = 1; round <= 3; round++) {
        ppo_tape_reset(s.tape);
        assert_ok(ppo_tape_backward(s.tape, ppo_tape_sum(s.tape, ppo_tape_mul(s.tape, &s.a, &s.b))));
        for (int i = 0; i < 6; i++) {
            assert_true(s.a_grad[i] == (float)round * s.b_data[i]);
            assert_true(s.b_grad[i] == (float)round * s.a_data[i]);
        }
    }
    ppo_tape_free(s.tape);
}

static void tensors_without_grad_are_left_out(void **state) {
    (void)state;
    bench s;
    open_bench(&s);
    s.b.grad = NULL;
    ppo_tensor *c = ppo_tape_constant(s.tape, s.b_data, 2, 3);
    assert_null(c->grad);
    assert_ptr_equal(c->data, s.b_data); /* not a copy */
    ppo_tensor *y = ppo_tape_mul(s.tape, ppo_tape_mul(s.tape, &s.a, &s.b), c);
    assert_ok(ppo_tape_backward(s.tape, ppo_tape_sum(s.tape, y)));
    for (int i = 0; i < 6; i++) assert_true(s.a_grad[i] == s.b_data[i] * s.b_data[i] && s.b_grad[i] == 0);
    ppo_tape_free(s.tape);
}

static void recording_off_gives_values_but_no_gradients(void **state) {
    (void)state;
    bench s;
    open_bench(&s);
    ppo_tape_record(s.tape, 0);
    ppo_tensor *y = ppo_tape_sum(s.tape, ppo_tape_mul(s.tape, &s.a, &s.b));
    assert_non_null(y);
    assert_null(y->grad);
    assert_true(y->data[0] == 2 + 4 + 1.5f - 16 + 5 - 0.5f);
    ppo_tape_backward(s.tape, y); /* with or without success: */
    for (int i = 0; i < 6; i++) assert_true(s.a_grad[i] == 0 && s.b_grad[i] == 0);
    ppo_tape_reset(s.tape);
    ppo_tape_record(s.tape, 1);
    assert_ok(ppo_tape_backward(s.tape, ppo_tape_sum(s.tape, &s.a)));
    assert_true(s.a_grad[0] == 1);
    ppo_tape_free(s.tape);
}

static void results_stay_where_they_are_until_the_reset(void **state) {
    (void)state;
    bench s;
    open_bench(&s);
    ppo_tensor *first = ppo_tape_scale(s.tape, &s.a, 2, 0), *y = first;
    float *data = first->data;
    for (int i = 0; i < 5000; i++) y = ppo_tape_scale(s.tape, y, 1, 0.25f);
    assert_ptr_equal(first->data, data);
    for (int i = 0; i < 6; i++) assert_true(data[i] == 2 * s.a_data[i] && y->data[i] == data[i] + 1250);
    assert_ok(ppo_tape_backward(s.tape, ppo_tape_sum(s.tape, y)));
    for (int i = 0; i < 6; i++) assert_true(s.a_grad[i] == 2);
    ppo_tape_free(s.tape);
}

static void a_reset_tape_allocates_nothing_in_later_rounds(void **state) {
    (void)state;
    heap h = {0, 0, -1, 0};
    bench s;
    ppo_set_allocator(heap_hook, &h);
    open_bench(&s);
    long before = 0;
    for (int round = 0; round < 10; round++) {
        ppo_tape_reset(s.tape);
        if (round == 1) before = h.calls; /* that reset knew how much a round takes */
        ppo_tensor *y = &s.a;
        for (int i = 0; i < 3000; i++) y = apply_tanh(s.tape, y);
        assert_non_null(ppo_tape_alloc(s.tape, 100000));
        assert_ok(ppo_tape_backward(s.tape, ppo_tape_sum(s.tape, y)));
    }
    assert_int_equal(h.calls, before);
    ppo_tape_free(s.tape);
    ppo_set_allocator(NULL, NULL);
    assert_int_equal(h.live, 0);
}

/* --------------------------------------------------------------------------------------------------------
   Failures
   -------------------------------------------------------------------------------------------------------- */

static ppo_tensor tensor_23, tensor_32, tensor_12, tensor_41, tensor_21;
static const int out_of_range[2] = {1, 3}, negative[2] = {-1, 0};

static ppo_tensor *bad_add(ppo_tape *t) { return ppo_tape_add(t, &tensor_23, &tensor_32); }
static ppo_tensor *bad_sub(ppo_tape *t) { return ppo_tape_sub(t, &tensor_23, &tensor_12); }
static ppo_tensor *bad_mul(ppo_tape *t) { return ppo_tape_mul(t, &tensor_23, &tensor_41); }
static ppo_tensor *bad_row(ppo_tape *t) { return ppo_tape_div(t, &tensor_12, &tensor_32); }
static ppo_tensor *bad_min(ppo_tape *t) { return ppo_tape_min(t, &tensor_32, &tensor_21); }
static ppo_tensor *bad_matmul(ppo_tape *t) { return ppo_tape_matmul(t, &tensor_23, &tensor_23); }
static ppo_tensor *bad_linear(ppo_tape *t) {
    return ppo_tape_linear(t, &tensor_23, &tensor_23, NULL, PPO_TANH);
}
static ppo_tensor *bad_bias(ppo_tape *t) {
    return ppo_tape_linear(t, &tensor_23, &tensor_32, &tensor_41, PPO_TANH);
}
static ppo_tensor *bad_activation(ppo_tape *t) {
    return ppo_tape_linear(t, &tensor_23, &tensor_32, &tensor_12, 17);
}
static ppo_tensor *bad_index(ppo_tape *t) { return ppo_tape_gather(t, &tensor_23, out_of_range); }
static ppo_tensor *bad_index2(ppo_tape *t) { return ppo_tape_gather(t, &tensor_23, negative); }
static ppo_tensor *no_index(ppo_tape *t) { return ppo_tape_gather(t, &tensor_23, NULL); }
static ppo_tensor *no_data(ppo_tape *t) { return ppo_tape_constant(t, NULL, 2, 3); }
static ppo_tensor *no_rows(ppo_tape *t) { return ppo_tape_constant(t, tensor_23.data, 0, 3); }
static ppo_tensor *no_operand(ppo_tape *t) { return ppo_tape_add(t, &tensor_23, NULL); }
static ppo_tensor *no_input(ppo_tape *t) { return apply_tanh(t, NULL); }
static ppo_tensor *bad_token(ppo_tape *t) {
    ppo_tensor *logp, *entropy;
    ppo_tape_categorical(t, &tensor_23, out_of_range, 1, &logp, &entropy);
    assert_null(entropy);
    return logp;
}
static ppo_tensor *bad_temperature(ppo_tape *t) {
    static const int token[2] = {0, 0};
    ppo_tensor *logp, *entropy;
    ppo_tape_categorical(t, &tensor_23, token, -2, &logp, &entropy);
    assert_null(entropy);
    return logp;
}
static ppo_tensor *bad_log_std(ppo_tape *t) {
    ppo_tensor *logp, *entropy;
    ppo_tape_gaussian(t, &tensor_23, &tensor_12, tensor_23.data, &logp, &entropy);
    assert_null(entropy);
    return logp;
}
static const ppo_policy_objective clip = {PPO_CLIP, 0.2f, 0.2f, 0, 0};

static ppo_tensor *no_old_logp(ppo_tape *t) {
    return ppo_tape_policy_loss(t, &tensor_41, NULL, fixed[1], NULL, &clip, NULL);
}
static ppo_tensor *no_target(ppo_tape *t) {
    return ppo_tape_value_loss(t, &tensor_41, NULL, NULL, NULL, 0, INFINITY);
}

static void a_failing_operation_gives_null_and_a_sentence_that_backward_repeats(void **state) {
    (void)state;
    static float data[6] = {1, 2, 3, 4, 5, 6}, grad[6];
    tensor_23 = (ppo_tensor){2, 3, data, grad}, tensor_32 = (ppo_tensor){3, 2, data, grad};
    tensor_12 = (ppo_tensor){1, 2, data, grad}, tensor_41 = (ppo_tensor){4, 1, data, grad};
    tensor_21 = (ppo_tensor){2, 1, data, grad};
    static const struct {
        ppo_tensor *(*run)(ppo_tape *tape);
        const char *words;
    } bad[] = {{bad_add, "add|(2, 3)|(3, 2)"},   {bad_sub, "sub|(2, 3)|(1, 2)"},
               {bad_mul, "mul|(2, 3)|(4, 1)"},   {bad_row, "div|(1, 2)|(3, 2)"},
               {bad_min, "min|(3, 2)|(2, 1)"},   {bad_matmul, "matmul|(2, 3)"},
               {bad_linear, "linear|(2, 3)"},    {bad_bias, "linear|(4, 1)"},
               {bad_activation, "linear|17"},    {bad_index, "gather|3"},
               {bad_index2, "gather|-1"},          {no_index, "gather|NULL"},
               {no_data, "data is NULL"},        {no_rows, "constant: 0 x 3|above 0"},
               {no_operand, "add|NULL"},         {no_input, "activate|NULL"},
               {bad_token, "categorical|3"},     {bad_temperature, "categorical|-2"},
               {bad_log_std, "gaussian|(1, 2)"}, {no_old_logp, "policy_loss|NULL"},
               {no_target, "value_loss|NULL"}};
    ppo_tape *tape;
    assert_ok(ppo_tape_create(&tape));
    for (int i = 0; i < COUNT(bad); i++) {
        ppo_tape_reset(tape);
        assert_ok(ppo_tape_status(tape));
        ppo_fail(PPO_OK, "(no sentence)");
        ppo_tensor *y = bad[i].run(tape);
        assert_null(y);
        check_fails(ppo_tape_status(tape), PPO_ERROR_ARGUMENT, bad[i].words, "the operation", __FILE__,
                    __LINE__);
        y = ppo_tape_exp(tape, ppo_tape_add(tape, y, &tensor_23)); /* passes through, and hides nothing */
        assert_null(y);
        assert_fails(ppo_tape_backward(tape, y), PPO_ERROR_ARGUMENT, bad[i].words);
    }
    for (int i = 0; i < 6; i++) assert_true(grad[i] == 0);
    ppo_tape_reset(tape); /* and then all is well again */
    assert_ok(ppo_tape_backward(tape, ppo_tape_sum(tape, &tensor_23)));
    ppo_tape_free(tape);
}

/* As those of all parameters do. */
static void the_gradient_of_a_parameter_that_is_the_loss_adds_up(void **state) {
    (void)state;
    bench s;
    float x = 3, grad = 2;
    ppo_tensor loss = {1, 1, &x, &grad};
    open_bench(&s);
    assert_ok(ppo_tape_backward(s.tape, &loss));
    assert_true(grad == 3);
    ppo_tape_free(s.tape);
}

static void backward_refuses_what_is_not_a_scalar(void **state) {
    (void)state;
    bench s;
    open_bench(&s);
    assert_fails(ppo_tape_backward(s.tape, apply_tanh(s.tape, &s.a)), PPO_ERROR_ARGUMENT, "(1, 1)");
    ppo_tape_reset(s.tape);
    assert_fails(ppo_tape_backward(s.tape, NULL), PPO_ERROR_ARGUMENT, "(1, 1)");
    for (int i = 0; i < 6; i++) assert_true(s.a_grad[i] == 0);
    ppo_tape_free(s.tape);
    assert_fails(ppo_tape_create(NULL), PPO_ERROR_ARGUMENT, "NULL");
}

static void an_operation_out_of_memory_gives_null_and_leaves_the_tape_usable(void **state) {
    (void)state;
    heap h = {0, 0, -1, 0};
    bench s;
    ppo_set_allocator(heap_hook, &h);
    open_bench(&s);
    h.fail_at = h.calls, h.for_good = 1;
    ppo_tensor *y = &s.a;
    for (int i = 0; i < 1000000 && y; i++) y = apply_tanh(s.tape, y);
    assert_null(y);
    assert_fails(ppo_tape_backward(s.tape, y), PPO_ERROR_MEMORY, "memory");
    assert_null(ppo_tape_alloc(s.tape, 1 << 28));
    h.fail_at = -1;
    ppo_tape_reset(s.tape);
    assert_ok(ppo_tape_backward(s.tape, ppo_tape_sum(s.tape, &s.a)));
    ppo_tape_free(s.tape);
    ppo_set_allocator(NULL, NULL);
    assert_int_equal(h.live, 0);
}

/* --------------------------------------------------------------------------------------------------------
   Operations of the user's own, and the checker itself
   -------------------------------------------------------------------------------------------------------- */

/* out[0] = derivative x^3, out[1] = x y; backward of the cube uses a derivative of its own, which may be wrong. */
typedef struct cube_args {
    float derivative, backward_derivative;
} cube_args;

static ppo_status cube_forward(ppo_node *node) {
    const cube_args *args = (const cube_args *)node->args;
    const ppo_tensor *x = node->in[0], *y = node->in[1];
    int n = x->rows * x->cols;
    float *derivative = ppo_tape_alloc(node->tape, (size_t)n);
    node->kept = derivative;
    if (!derivative) return PPO_ERROR_MEMORY;
    for (int i = 0; i < n; i++) {
        if (x->data[i] > 100)
            return ppo_fail(PPO_ERROR_NUMERIC, "cube of %g is too large", (double)x->data[i]);
        derivative[i] = 3 * x->data[i] * x->data[i];
        node->out[0]->data[i] = args->derivative * x->data[i] * x->data[i] * x->data[i];
        node->out[1]->data[i] = x->data[i] * y->data[i];
    }
    return PPO_OK;
}

static void cube_backward(ppo_node *node) {
    const cube_args *args = (const cube_args *)node->args;
    const float *derivative = (const float *)node->kept;
    ppo_tensor *x = node->in[0], *y = node->in[1];
    for (int i = 0; i < x->rows * x->cols; i++) {
        float to_cube = node->out[0]->grad[i], to_product = node->out[1]->grad[i];
        if (x->grad)
            x->grad[i] += to_cube * args->backward_derivative * derivative[i] + to_product * y->data[i];
        if (y->grad) y->grad[i] += to_product * x->data[i];
    }
}

static const ppo_op cube_op = {"cube", 2, cube_forward, cube_backward};

static ppo_tensor *build_cube(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    cube_args args = *(cube_args *)user; /* the node keeps a copy: this one is gone at backward */
    ppo_node *node = ppo_tape_apply(tape, &cube_op, in, 2, in[0]->rows, in[0]->cols, &args, sizeof args);
    memset(&args, 0, sizeof args);
    if (!node) return NULL;
    return ppo_tape_sub(tape, weighted_sum(tape, node->out[0]), ppo_tape_sum(tape, node->out[1]));
}

static void an_own_operation_with_two_results_is_differentiated(void **state) {
    (void)state;
    static const int shapes[][2] = {{ROWS, COLS}, {ROWS, COLS}};
    cube_args args = {0.5f, 0.5f};
    check_gradients("cube", build_cube, &args, shapes, 2, 0);
}

static void a_failing_own_operation_fails_the_tape_with_its_own_sentence(void **state) {
    (void)state;
    cube_args args = {1, 1};
    bench s;
    open_bench(&s);
    s.a_data[4] = 101;
    ppo_tensor *const inputs[2] = {&s.a, &s.b};
    assert_null(build_cube(s.tape, inputs, &args));
    assert_fails(ppo_tape_backward(s.tape, NULL), PPO_ERROR_NUMERIC, "cube of 101");
    ppo_tape_free(s.tape);
}

static void a_wrong_backward_is_caught_by_the_checker(void **state) {
    (void)state;
    bench s;
    cube_args args = {1, 1.1f};
    float error = 0;
    open_bench(&s);
    s.a_data[4] = 1;
    ppo_tensor *const inputs[2] = {&s.b, &s.a};
    assert_fails(ppo_check_gradients(build_cube, inputs, 2, &args, 1e-2f, 1e-2f, &error), PPO_ERROR_NUMERIC,
                 "input 0");
    assert_true(error > 0.05f && error < 0.15f); /* a tenth of the gradient */
    args.backward_derivative = 1;
    assert_ok(ppo_check_gradients(build_cube, inputs, 2, &args, 1e-2f, 1e-2f, &error));
    assert_true(error < 1e-2f);
    ppo_tape_free(s.tape);
}

static ppo_tensor *build_null(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    (void)in, (void)user;
    return apply_tanh(tape, NULL);
}

static ppo_tensor *build_matrix(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    (void)user;
    return apply_tanh(tape, in[0]);
}

static ppo_tensor *build_nan(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    (void)user;
    return ppo_tape_sum(tape, ppo_tape_scale(tape, in[0], NAN, 0));
}

static ppo_tensor *build_sum(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    (void)user;
    return ppo_tape_sum(tape, in[0]);
}

static void the_checker_refuses_what_it_cannot_check(void **state) {
    (void)state;
    bench s;
    open_bench(&s);
    ppo_tensor no_grad = {2, 3, s.a_data, NULL};
    ppo_tensor *const good[] = {&s.a}, *const without[] = {&no_grad}, *const null[] = {NULL};
    assert_fails(ppo_check_gradients(NULL, good, 1, NULL, 1e-2f, 1e-2f, NULL), PPO_ERROR_ARGUMENT,
                 "function");
    assert_fails(ppo_check_gradients(build_sum, NULL, 1, NULL, 1e-2f, 1e-2f, NULL), PPO_ERROR_ARGUMENT,
                 "inputs");
    assert_fails(ppo_check_gradients(build_sum, null, 1, NULL, 1e-2f, 1e-2f, NULL), PPO_ERROR_ARGUMENT,
                 "input 0");
    assert_fails(ppo_check_gradients(build_sum, without, 1, NULL, 1e-2f, 1e-2f, NULL), PPO_ERROR_ARGUMENT,
                 "grad");
    assert_fails(ppo_check_gradients(build_sum, good, 0, NULL, 1e-2f, 1e-2f, NULL), PPO_ERROR_ARGUMENT,
                 "inputs");
    assert_fails(ppo_check_gradients(build_sum, good, 1, NULL, 0, 1e-2f, NULL), PPO_ERROR_ARGUMENT,
                 "epsilon");
    assert_fails(ppo_check_gradients(build_null, good, 1, NULL, 1e-2f, 1e-2f, NULL), PPO_ERROR_ARGUMENT,
                 "activate");
    assert_fails(ppo_check_gradients(build_matrix, good, 1, NULL, 1e-2f, 1e-2f, NULL), PPO_ERROR_ARGUMENT,
                 "(1, 1)");
    assert_fails(ppo_check_gradients(build_nan, good, 1, NULL, 1e-2f, 1e-2f, NULL), PPO_ERROR_NUMERIC,
                 "input 0");
    ppo_tape_free(s.tape);
}

/* --------------------------------------------------------------------------------------------------------
   AddressSanitizer and arenas
   -------------------------------------------------------------------------------------------------------- */

#if PPO__FENCE > 0
/* What a mistake in an operation would do: one element more (past 1) or none more than there is (past 0). */
static void touch(int which, int past) {
    ppo__arena arena = {NULL, NULL, PPO_OK};
    ppo_tape *tape = NULL;
    assert_ok(ppo_tape_create(&tape));
    ppo_tensor wide = {2, 8, fixed[0], PPO__LATER(tape)}, narrow = {1, 5, fixed[0], PPO__LATER(tape)};
    volatile float *x = ppo_tape_alloc(tape, 5), *y = ppo_tape_alloc(tape, 16);
    volatile unsigned char *bytes = PPO__ZEROS(&arena, unsigned char, 3);
    ppo__tape_begin_grad(tape, &wide);
    tape->now.pieces->taken = 0;
    ppo__tape_begin_grad(tape, &narrow);
    if (which == 5 && past) ppo_tape_reset(tape);
    if (which == 0) x[4 + past] = 1;
    if (which == 1) x[0] = y[15 + past];
    if (which == 2) x[0] = y[0 - past];
    if (which == 3) bytes[2 + past] = 1;
    if (which == 4) narrow.grad[4 + past] = 1; /* it lies where wide's gradient was */
    if (which == 5) x[0] = 1;
    ppo__arena_free(&arena);
    ppo_tape_free(tape);
}

static int ends_well(int which, int past) {
    int how = 0;
    fflush(stdout);
    int child = fork();
    if (child == 0) {
        fclose(stderr);
        touch(which, past);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFEXITED(how) && WEXITSTATUS(how) == 0;
}
#endif

static void one_element_past_an_array_of_an_arena_is_seen_by_address_sanitizer(void **state) {
    (void)state;
#if PPO__FENCE > 0
    for (int which = 0; which < 6; which++) {
        assert_true(ends_well(which, 0));
        assert_false(ends_well(which, 1));
    }
#else
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise_operations_have_right_gradients_in_every_broadcast_form),
        cmocka_unit_test(an_operand_may_be_used_twice),
        cmocka_unit_test(functions_of_one_tensor_have_right_gradients),
        cmocka_unit_test(matmul_has_right_gradients),
        cmocka_unit_test(linear_has_right_gradients_with_each_activation_and_without_bias),
        cmocka_unit_test(distributions_have_right_gradients_through_either_result_or_both),
        cmocka_unit_test_setup(masks_and_exact_kl_and_several_choices_have_right_gradients, seed_data),
        cmocka_unit_test_setup(a_gru_has_right_gradients_through_time, seed_data),
        cmocka_unit_test(losses_have_right_gradients),
        cmocka_unit_test(a_tensor_that_feeds_two_branches_gets_the_sum_of_their_gradients),
        cmocka_unit_test(elementwise_operations_repeat_rows_columns_and_scalars),
        cmocka_unit_test(functions_compute_what_their_names_say),
        cmocka_unit_test(min_and_max_of_equals_give_half_of_the_gradient_to_each),
        cmocka_unit_test(gradients_of_two_rounds_add_up),
        cmocka_unit_test(tensors_without_grad_are_left_out),
        cmocka_unit_test(recording_off_gives_values_but_no_gradients),
        cmocka_unit_test(results_stay_where_they_are_until_the_reset),
        cmocka_unit_test_teardown(a_reset_tape_allocates_nothing_in_later_rounds, restore_allocator),
        cmocka_unit_test(a_failing_operation_gives_null_and_a_sentence_that_backward_repeats),
        cmocka_unit_test(the_gradient_of_a_parameter_that_is_the_loss_adds_up),
        cmocka_unit_test(backward_refuses_what_is_not_a_scalar),
        cmocka_unit_test_teardown(an_operation_out_of_memory_gives_null_and_leaves_the_tape_usable,
                                  restore_allocator),
        cmocka_unit_test(an_own_operation_with_two_results_is_differentiated),
        cmocka_unit_test(a_failing_own_operation_fails_the_tape_with_its_own_sentence),
        cmocka_unit_test(a_wrong_backward_is_caught_by_the_checker),
        cmocka_unit_test(the_checker_refuses_what_it_cannot_check),
        cmocka_unit_test(one_element_past_an_array_of_an_arena_is_seen_by_address_sanitizer),
    };
    return cmocka_run_group_tests(tests, seed_data, NULL);
}
