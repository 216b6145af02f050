/* ppo_conv.h: convolution and max pooling against PyTorch and central differences, networks with convolutions in
   training and in files, the setting "conv", and the game examples/envs/breakout.h against MinAtar's. */
#include "../ppo.h"
#include "../examples/companions/ppo_conv.h"

#include "../examples/envs/breakout.h"
#include "golden/conv.h"
#include "test.h"
#include "system.h"

/* --------------------------------------------------------------------------------------------------------
   The operations
   -------------------------------------------------------------------------------------------------------- */

typedef struct golden_window {
    int n, shape[3], out, kernel, stride, activation, after[3];
    const float *planes, *x, *w, *b, *y, *dy, *dx, *dw, *db;
} golden_window;

#define CONV(i)                                                                                     \
    g_conv##i##_planes, g_conv##i##_x, g_conv##i##_w, g_conv##i##_b, g_conv##i##_y, g_conv##i##_dy, \
        g_conv##i##_dx, g_conv##i##_dw, g_conv##i##_db
#define POOL(i) NULL, g_pool##i##_x, NULL, NULL, g_pool##i##_y, g_pool##i##_dy, g_pool##i##_dx, NULL, NULL

static const golden_window windows[] = {{2, {3, 5, 4}, 2, 3, 1, PPO_IDENTITY, {2, 3, 2}, CONV(0)},
                                        {3, {1, 7, 6}, 5, 2, 2, PPO_RELU, {5, 3, 3}, CONV(1)},
                                        {2, {2, 4, 4}, 3, 4, 1, PPO_TANH, {3, 1, 1}, CONV(2)},
                                        {1, {4, 9, 8}, 17, 3, 2, PPO_RELU, {17, 4, 3}, CONV(3)},
                                        {2, {5, 3, 5}, 4, 1, 3, PPO_SILU, {4, 1, 2}, CONV(4)},
                                        {2, {3, 5, 7}, 0, 2, 2, 0, {3, 2, 3}, POOL(0)},
                                        {2, {2, 5, 4}, 0, 3, 1, 0, {2, 3, 2}, POOL(1)}};

/* A tensor of its own memory, with a gradient. */
static ppo_tensor tensor(int rows, int cols, const float *from) {
    ppo_tensor x = {rows, cols, NULL, NULL};
    x.data = (float *)calloc((size_t)rows * (size_t)cols, sizeof(float));
    x.grad = (float *)calloc((size_t)rows * (size_t)cols, sizeof(float));
    assert_true(x.data && x.grad);
    if (from) memcpy(x.data, from, (size_t)rows * (size_t)cols * sizeof(float));
    return x;
}

static void drop(ppo_tensor *x) {
    free(x->data);
    free(x->grad);
}

static int product(const int shape[3]) { return shape[0] * shape[1] * shape[2]; }

static void values_and_gradients_are_those_of_pytorch(void **state) {
    (void)state;
    FOR_EACH_KERNEL_SET(set) {
        for (int i = 0; i < COUNT(windows); i++) {
            const golden_window *g = &windows[i];
            const int in = product(g->shape), after = product(g->after), out = g->out;
            const int patch = g->kernel * g->kernel * g->shape[0];
            int shape[3] = {g->shape[0], g->shape[1], g->shape[2]};
            ppo_tape *tape = NULL;
            ppo_tensor x = tensor(g->n, in, g->planes ? g->planes : g->x);
            ppo_tensor w = tensor(patch, out ? out : 1, g->w), b = tensor(1, out ? out : 1, g->b);
            assert_ok(ppo_tape_create(&tape));
            ppo_tensor *rows = g->planes ? ppo_tape_channels_last(tape, &x, shape) : &x;
            ppo_tensor *y =
                out ? ppo_tape_conv(tape, rows, shape, &w, &b, g->kernel, g->stride, g->activation)
                    : ppo_tape_max_pool(tape, rows, shape, g->kernel, g->stride);
            assert_ok(ppo_tape_status(tape));
            assert_memory_equal(rows->data, g->x, (size_t)(g->n * in) * sizeof(float));
            assert_memory_equal(shape, g->after, sizeof shape);
            assert_true(y->rows == g->n && y->cols == after);
            assert_close_array(y->data, g->y, g->n * after, 1e-6);
            assert_ok(ppo_tape_backward(
                tape,
                ppo_tape_sum(tape, ppo_tape_mul(tape, y, ppo_tape_constant(tape, g->dy, g->n, after)))));
            if (!g->planes) assert_close_array(x.grad, g->dx, g->n * in, 1e-6);
            for (int p = 0; g->planes && p < g->n * in; p++) {
                int pixels = in / g->shape[0], pixel = p % in % pixels, channel = p % in / pixels;
                assert_close_array(&x.grad[p], &g->dx[p / in * in + pixel * g->shape[0] + channel], 1, 2e-5);
            }
            if (out) assert_close_array(w.grad, g->dw, patch * out, 1e-6);
            if (out) assert_close_array(b.grad, g->db, out, 1e-6);
            ppo_tape_free(tape);
            drop(&x), drop(&w), drop(&b);
        }
    }
}

/* Two convolutions and a pooling, each number of the result with a weight of its own; twice, so that gradients add. */
static ppo_tensor *stack(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    static float weights[256];
    ppo_rng rng = test_rng(7);
    ppo_tensor *sum = NULL;
    fill_normal(&rng, weights, COUNT(weights), 1);
    for (int round = 0; round < 2; round++) {
        int shape[3] = {2, 6, 5};
        ppo_tensor *x = ppo_tape_channels_last(tape, in[0], shape);
        x = ppo_tape_conv(tape, x, shape, in[1], in[2], 2, 1, *(const int *)user);
        x = ppo_tape_max_pool(tape, x, shape, 2, 1);
        x = ppo_tape_conv(tape, x, shape, in[3], NULL, 3, round + 1, *(const int *)user);
        if (!x) return NULL;
        x = ppo_tape_sum(tape, ppo_tape_mul(tape, x, ppo_tape_constant(tape, weights, x->rows, x->cols)));
        sum = round ? ppo_tape_add(tape, sum, x) : x;
    }
    return sum;
}

static void gradients_are_central_differences(void **state) {
    (void)state;
    ppo_rng rng = test_rng(3);
    ppo_tensor x = tensor(2, 60, NULL), w = tensor(8, 3, NULL), b = tensor(1, 3, NULL),
               w2 = tensor(27, 2, NULL);
    ppo_tensor *in[] = {&x, &w, &b, &w2};
    for (int k = 0; k < 4; k++) fill_normal(&rng, in[k]->data, in[k]->rows * in[k]->cols, k ? 0.5f : 1);
    const int smooth[] = {PPO_IDENTITY, PPO_TANH, PPO_GELU};
    for (int k = 0; k < COUNT(smooth); k++) {
        int activation = smooth[k];
        float error = NAN;
        if (ppo_check_gradients(stack, in, 4, &activation, 2e-3f, 2e-2f, &error))
            fail_msg("activation %d: %s", activation, ppo_last_error());
        assert_true(error <= 2e-2f);
    }
    for (int k = 0; k < 4; k++) drop(in[k]);
}

static void a_pictures_bits_do_not_depend_on_its_batch(void **state) {
    (void)state;
    enum { N = 37, IN = 4 * 10 * 10, OUT = 16 * 8 * 8 };
    ppo_rng rng = test_rng(4);
    ppo_tensor x = tensor(N, IN, NULL), w = tensor(36, 16, NULL), b = tensor(1, 16, NULL);
    ppo_tape *tape = NULL;
    float *all = (float *)malloc(N * OUT * sizeof(float));
    fill_normal(&rng, x.data, N * IN, 1);
    fill_normal(&rng, w.data, 36 * 16, 1);
    fill_normal(&rng, b.data, 16, 1);
    assert_ok(ppo_tape_create(&tape));
    FOR_EACH_KERNEL_SET(set) {
        for (int first = 0, n = N; first < N; first += n, n = 1 + first % 5) {
            int shape[3] = {4, 10, 10};
            if (first + n > N) n = N - first;
            ppo_tape_reset(tape);
            ppo_tensor *part = ppo_tape_constant(tape, x.data + first * IN, n, IN);
            ppo_tensor *y = ppo_tape_conv(tape, part, shape, &w, &b, 3, 1, PPO_RELU);
            assert_ok(ppo_tape_status(tape));
            if (n == N) memcpy(all, y->data, N * OUT * sizeof(float)), first = -N;
            else assert_false(bits_differ(all + first * OUT, y->data, (size_t)(n * OUT)));
        }
    }
    ppo_tape_free(tape);
    free(all);
    drop(&x), drop(&w), drop(&b);
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    ppo_tensor x = tensor(2, 24, NULL), w = tensor(8, 3, NULL), b = tensor(1, 3, NULL),
               odd = tensor(1, 2, NULL);
    static const struct {
        int shape[3], kernel, stride, activation;
        const char *words;
    } cases[] = {{{2, 3, 4}, 4, 1, 0, "conv|kernel of 4|3 x 4"},
                 {{2, 3, 4}, 0, 1, 0, "kernel of 0"},
                 {{2, 3, 4}, 2, 0, 0, "moved by 0"},
                 {{2, 4, 3}, 4, 1, 0, "kernel of 4|4 x 3"},
                 {{2, 3, 4}, 2, INT_MAX, 0, "moved by 2147483647"},
                 {{2, 4, 3}, 2, 4, 0, "moved by 4|4 x 3"},
                 {{0, 3, 4}, 2, 1, 0, "no pictures of 0 channels"},
                 {{2, -3, 4}, 2, 1, 0, "-3 x 4"},
                 {{65536, 65536, 1}, 1, 1, 0, "no pictures"},
                 {{2, 4, 4}, 2, 1, 0, "24 numbers|4 x 4"},
                 {{2, 3, 4}, 1, 1, 0, "weight (8, 3)|kernel of 1"},
                 {{2, 3, 4}, 2, 1, 77, "no activation 77"}};
    ppo_tape *tape = NULL;
    assert_ok(ppo_tape_create(&tape));
    for (int i = 0; i < COUNT(cases) + 4; i++) {
        const int at = i < COUNT(cases) ? i : 0;
        int shape[3];
        memcpy(shape, cases[at].shape, sizeof shape);
        ppo_tape_reset(tape);
        ppo_tensor *y = i < COUNT(cases)        ? ppo_tape_conv(tape, &x, shape, &w, &b, cases[i].kernel,
                                                                cases[i].stride, cases[i].activation)
                        : i == COUNT(cases)     ? ppo_tape_max_pool(tape, &x, shape, 5, 1)
                        : i == COUNT(cases) + 1 ? ppo_tape_conv(tape, &x, NULL, &w, &b, 2, 1, 0)
                        : i == COUNT(cases) + 2 ? ppo_tape_conv(tape, &x, shape, &w, &odd, 2, 1, 0)
                                                : ppo_tape_channels_last(tape, &b, shape);
        static const char *const more[] = {"max_pool|kernel of 5", "operand is NULL", "bias (1, 2)",
                                           "3 numbers"};
        assert_null(y);
        assert_memory_equal(shape, cases[at].shape, sizeof shape);
        assert_fails(ppo_tape_status(tape), PPO_ERROR_ARGUMENT,
                     i < COUNT(cases) ? cases[i].words : more[i - COUNT(cases)]);
    }
    ppo_tape_free(tape);
    drop(&x), drop(&w), drop(&b), drop(&odd);
}

/* Nothing of the weight is read. */
static void results_that_are_too_large_are_refused(void **state) {
    (void)state;
    ppo_tensor x = tensor(1, 24, NULL), w = {1, INT_MAX, x.data, NULL};
    int shape[3] = {1, 4, 6};
    ppo_tape *tape = NULL;
    assert_ok(ppo_tape_create(&tape));
    assert_null(ppo_tape_conv(tape, &x, shape, &w, NULL, 1, 1, PPO_IDENTITY));
    assert_fails(ppo_tape_status(tape), PPO_ERROR_ARGUMENT,
                 "conv: pictures of 2147483647 channels, 4 x 6 pixels are too large");
    w.cols = 2, w.rows = 3; /* and a weight that does not fit, without a bias */
    ppo_tape_reset(tape);
    assert_null(ppo_tape_conv(tape, &x, shape, &w, NULL, 1, 1, PPO_IDENTITY));
    assert_fails(ppo_tape_status(tape), PPO_ERROR_ARGUMENT, "conv: a weight (3, 2) and a bias (0, 0)");
    ppo_tape_free(tape);
    drop(&x);
}

/* The largest of numbers of which one is none is none, wherever it is, as in PyTorch. */
static void a_pool_shows_what_is_no_number_and_teaches_the_first_largest(void **state) {
    (void)state;
    for (int at = 0; at < 4; at++) {
        float data[8] = {1, 2, 3, 4, 8, 8, 6, 8}, grad[8] = {0}; /* of several largest the first learns */
        ppo_tensor x = {2, 4, data, grad};
        int shape[3] = {1, 2, 2};
        ppo_tape *tape = NULL;
        data[at] = NAN;
        assert_ok(ppo_tape_create(&tape));
        ppo_tensor *y = ppo_tape_max_pool(tape, &x, shape, 2, 1);
        assert_ok(ppo_tape_status(tape));
        assert_nan(y->data[0]);
        assert_true(y->data[1] == 8);
        assert_ok(ppo_tape_backward(tape, ppo_tape_sum(tape, y)));
        for (int i = 0; i < 8; i++) assert_true(grad[i] == (i == 4));
        ppo_tape_free(tape);
    }
}

static ppo_status compute_stack(void *user) {
    int activation = PPO_GELU;
    ppo_tape *tape = NULL;
    ppo_status status = ppo_tape_create(&tape);
    ppo_tensor *sum = status ? NULL : stack(tape, (ppo_tensor *const *)user, &activation);
    if (!status) status = sum ? ppo_tape_backward(tape, sum) : ppo_tape_status(tape);
    ppo_tape_free(tape);
    return status;
}

static void convolutions_without_memory_are_refused(void **state) {
    (void)state;
    ppo_tensor x = tensor(2, 60, NULL), w = tensor(8, 3, NULL), b = tensor(1, 3, NULL),
               w2 = tensor(27, 2, NULL);
    ppo_tensor *in[] = {&x, &w, &b, &w2};
    assert_true(fail_each_site(compute_stack, in, 1) > 2);
    drop(&x), drop(&w), drop(&b), drop(&w2);
}

/* --------------------------------------------------------------------------------------------------------
   Networks
   -------------------------------------------------------------------------------------------------------- */

static ppo_config settings(const char *more) {
    ppo_config cfg = ppo_config_default();
    assert_ok(ppo_config_set_all(&cfg,
                                 "num_envs=3 rollout_steps=20 minibatch_size=23 epochs=2 total_steps=180 "
                                 "activation=relu conv=3x3x1,2x2x2 hidden=6"));
    assert_ok(ppo_config_set_all(&cfg, more));
    return cfg;
}

static int ratios_checked;

static int check_first_ratio(const ppo_progress *p, void *user) {
    (void)user;
    ratios_checked++;
    assert_true(p->first_ratio_min == 1.0f && p->first_ratio_max == 1.0f && p->approx_kl != 0);
    return 0;
}

static const char *const networks[] = {"",
                                       "shared_trunk=yes",
                                       "hidden=none init=uniform",
                                       "recurrent=4 normalize_obs=yes",
                                       "recurrent=3 shared_trunk=yes sequence_steps=5",
                                       "conv=4x3x1,0x2x2,5x2x2"};

static void the_first_ratio_is_exactly_one(void **state) {
    (void)state;
    const ppo_env env = breakout_env();
    ratios_checked = 0;
    FOR_EACH_KERNEL_SET(set) {
        for (int i = 0; i < COUNT(networks); i++) {
            ppo_config cfg = settings(networks[i]);
            ppo_agent *agent = NULL;
            cfg.callback = check_first_ratio;
            assert_ok(ppo_train(&env, &cfg, &agent));
            const ppo_conv *conv = &agent->model.conv;
            if (i < COUNT(networks) - 1) {
                assert_true(conv->layers == 2 && product(conv->shape[2]) == 2 * 4 * 4);
            } else {
                assert_true(conv->layers == 3 && product(conv->shape[3]) == 5 * 2 * 2);
                assert_true(!conv->weight[1] && conv->weight[2]->rows == 2 * 2 * 4);
            }
            ppo_agent_free(agent);
        }
    }
    assert_true(ratios_checked >= 6 * COUNT(networks));
}

/* PyTorch's defaults: within 1 / sqrt(numbers in the square), and not nearly all smaller. */
static void initial_weights_are_orthogonal_or_uniform(void **state) {
    (void)state;
    const ppo_env env = breakout_env();
    for (int uniform = 0; uniform < 2; uniform++) {
        ppo_config cfg = settings(uniform ? "init=uniform" : "");
        ppo_agent *agent = NULL;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        for (int k = 0; k < 2; k++) {
            const ppo_tensor *w = agent->model.conv.weight[k], *b = agent->model.conv.bias[k];
            float largest = 0, bias = 0, dot = 0, square = 0;
            for (int i = 0; i < w->rows * w->cols; i++) largest = fmaxf(largest, fabsf(w->data[i]));
            for (int j = 0; j < b->cols; j++) bias = fmaxf(bias, fabsf(b->data[j]));
            for (int i = 0; i < w->rows; i++) dot += w->data[i * w->cols] * w->data[i * w->cols + 1];
            for (int i = 0; i < w->rows; i++) square += w->data[i * w->cols] * w->data[i * w->cols];
            const float bound = 1 / sqrtf((float)w->rows);
            if (uniform) assert_true(largest <= bound && largest > 0.8f * bound && bias <= bound && bias > 0);
            else assert_true(bias == 0 && fabsf(dot) < 1e-5f && fabsf(square - 2) < 1e-4f);
        }
        assert_string_equal(agent->model.params->names[0], "conv.0.weight");
        assert_string_equal(agent->model.params->names[3], "conv.1.bias");
        ppo_agent_free(agent);
    }
}

static void settings_that_fit_no_picture_are_refused(void **state) {
    (void)state;
    static const struct {
        int obs_size, shape[3];
        const char *settings, *words;
    } cases[] = {{400, {0, 0, 0}, "", "conv needs pictures|no shape"},
                 {400, {4, 10, 11}, "", "4 x 10 x 11|400 numbers"},
                 {400, {4, 10, 0}, "conv=none", "4 x 10 x 0"},
                 {400, {-4, -10, 10}, "conv=none", "-4 x -10"},
                 {400, {4, 10, 10}, "conv=8x3x1,8x9x1", "conv|kernel of 9|8 x 8"},
                 {400, {4, 10, 10}, "conv=8x3x12", "moved by 12"},
                 {400, {4, 10, 10}, "conv=8x3x1,0x3x2", "conv.1|of 8 pixels|misses the last 1"},
                 {400, {4, 10, 10}, "conv=8x3x1,8x3x2", "conv.1|of 8 pixels|misses the last 1"}};
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_config cfg = settings(cases[i].settings);
        ppo_env env = breakout_env();
        ppo_agent *agent = NULL;
        env.obs_size = cases[i].obs_size;
        memcpy(env.shape, cases[i].shape, sizeof env.shape);
        assert_fails(ppo_agent_create(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, cases[i].words);
        assert_null(agent);
    }
    ppo_config cfg = settings("");
    static const char *const bad[] = {"16",      "16x3",   "16x3x",    "16x3x1,", "16x3x1x1", "0x2x0",
                                      "0x0x1",   "16,3,1", "x16x3x1",  "16x0x1",  "1025x3x1", "16x3x1 ",
                                      "16x-3x1", "",       "16x3x1,8", "16X3X1"};
    for (int i = 0; i < COUNT(bad); i++)
        assert_fails(ppo_config_set(&cfg, "conv", bad[i]), PPO_ERROR_ARGUMENT, "conv");
    cfg.conv[1][2] = 0;
    assert_fails(ppo_config_check(&cfg), PPO_ERROR_ARGUMENT, "conv[1] is 0");
    cfg.conv_layers = PPO_MAX_LAYERS;
    assert_fails(ppo_config_check(&cfg), PPO_ERROR_ARGUMENT, "conv_layers is 64");
}

/* --------------------------------------------------------------------------------------------------------
   Bytes
   -------------------------------------------------------------------------------------------------------- */

/* Breakout's planes of 0 and 1, brighter, and a little off what a byte can say. */
static float brightness, error;

static void shine(float *obs) {
    for (int j = 0; j < 400; j++) obs[j] = obs[j] > 0 ? brightness + error : 0;
}

static void reset_brightly(void *state, ppo_rng *rng, float *obs) {
    breakout_env().reset(state, rng, obs);
    shine(obs);
}

static void step_brightly(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    breakout_env().step(state, rng, action, obs, out);
    shine(obs);
}

/* A training that keeps bytes has the bits of one that keeps floats. */
static void bytes_change_nothing_but_the_memory(void **state) {
    (void)state;
    static const char *const more[] = {"", "recurrent=3 recompute_advantages=yes", "normalize_obs=yes"};
    ppo_env env = breakout_env();
    env.reset = reset_brightly, env.step = step_brightly;
    for (int i = 0; i < COUNT(more); i++) {
        ppo_agent *agent[2] = {NULL, NULL};
        for (int bytes = 0; bytes < 2; bytes++) {
            ppo_config cfg = settings(more[i]);
            ppo_trainer *trainer = NULL;
            ppo_progress progress;
            env.byte_scale = bytes ? 1 / 255.0f : 0;
            brightness = 200 * (1 / 255.0f);
            error = bytes ? 1e-7f : 0; /* such rounding errors are removed */
            assert_ok(ppo_agent_create(&env, &cfg, &agent[bytes]));
            assert_ok(ppo_trainer_create(&env, &cfg, agent[bytes], &trainer));
            const ppo_rollout *r = ppo_trainer_rollout(trainer);
            assert_true(bytes && i < 2 ? r->obs_bytes && !r->obs : r->obs && !r->obs_bytes);
            while (!ppo_trainer_done(trainer)) assert_ok(ppo_trainer_iterate(trainer, &progress));
            ppo_trainer_free(trainer);
        }
        const ppo_params *a = agent[0]->model.params, *b = agent[1]->model.params;
        assert_false(bits_differ(a->data, b->data, a->count));
        ppo_agent_free(agent[0]), ppo_agent_free(agent[1]);
    }
}

static void what_is_no_byte_is_refused(void **state) {
    (void)state;
    static const struct {
        float scale, brightness;
        const char *words;
    } cases[] = {{1, 0.5f, "observation[|is 0.5 (environment|byte_scale 1 |0 to 255"},
                 {1, 256, "is 256|0 to 255"},
                 {1, -1, "is -1|0 to 255"},
                 {0.1f, 0.15f, "is 0.15|byte_scale 0.1 "},
                 {1e-45f, 1, "is 1 |0 to 255"},
                 {-1, 1, "env.byte_scale is -1"},
                 {NAN, 1, "env.byte_scale is"},
                 {INFINITY, 1, "env.byte_scale is inf"}};
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_env env = breakout_env();
        ppo_config cfg = settings("");
        ppo_agent *agent = NULL;
        env.reset = reset_brightly, env.step = step_brightly;
        env.byte_scale = cases[i].scale;
        brightness = cases[i].brightness, error = 0;
        assert_fails(ppo_train(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, cases[i].words);
        assert_null(agent);
    }
}

/* --------------------------------------------------------------------------------------------------------
   Files
   -------------------------------------------------------------------------------------------------------- */

static char home[64] = "/dev/shm/test_conv.XXXXXX";

static int enter_folder(void **state) {
    (void)state;
    if (mkdtemp(home)) return chdir(home);
    snprintf(home, sizeof home, "/tmp/test_conv.XXXXXX");
    return mkdtemp(home) ? chdir(home) : -1;
}

static int leave_folder(void **state) {
    (void)state;
    return ppo_use_kernels(NULL) || chdir("/") || rmdir(home);
}

static const char path[] = "policy.safetensors", copy[] = "other.safetensors";

/* The policy's file with another text. */
static void change_text(const char *key, const char *text) {
    ppo_file *file = NULL;
    assert_ok(ppo_file_read(path, &file));
    assert_ok(ppo_file_set_text(file, key, text));
    assert_ok(ppo_file_write(file, copy));
    ppo_file_free(file);
}

static void a_policy_in_a_file_is_the_same_and_checked(void **state) {
    (void)state;
    ppo_env env = breakout_env(), turned = env;
    ppo_config cfg = settings("");
    ppo_agent *agent = NULL, *loaded = NULL;
    ppo_action a, b;
    float obs[400];
    ppo_rng rng = test_rng(9);
    assert_ok(ppo_train(&env, &cfg, &agent));
    assert_ok(ppo_agent_save(agent, path));
    assert_ok(ppo_agent_load(path, NULL, &loaded));
    assert_memory_equal(loaded->model.conv.shape, agent->model.conv.shape, sizeof agent->model.conv.shape);
    assert_false(
        bits_differ(agent->model.params->data, loaded->model.params->data, agent->model.params->count));
    for (int i = 0; i < 20; i++) {
        fill_normal(&rng, obs, 400, 1);
        assert_ok(ppo_act(agent, obs, NULL, &a));
        assert_ok(ppo_act(loaded, obs, NULL, &b));
        assert_int_equal(a.discrete, b.discrete);
        assert_true(ppo_tape_status(agent->tape) == PPO_OK);
    }
    ppo_agent_free(loaded);

    assert_ok(ppo_agent_copy(agent, &loaded));
    assert_false(
        bits_differ(agent->model.params->data, loaded->model.params->data, agent->model.params->count));
    ppo_agent_free(loaded);
    turned.shape[0] = 10, turned.shape[2] = 4;
    assert_ok(ppo_agent_create(&turned, &cfg, &loaded));
    assert_fails(ppo_agent_assign(loaded, agent), PPO_ERROR_ARGUMENT, "pictures");
    ppo_agent_free(loaded);
    assert_fails(ppo_agent_load(path, &turned, &loaded), PPO_ERROR_FILE, "4 x 10 x 10|10 x 10 x 4");
    static const struct {
        const char *key, *text, *words;
    } bad[] = {{"observation_shape", "4x10x11", "observation_shape|4x10x11"},
               {"observation_shape", "4x10", "observation_shape"},
               {"observation_shape", "4x10x10x", "observation_shape"},
               {"observation_shape", "4x10x10x1", "observation_shape"},
               {"observation_shape", "-4x-10x10", "observation_shape"},
               {"observation_shape", "400", "observation_shape"},
               {"observation_shape", "", "observation_shape"},
               {"observation_shape", "65536x65536x400", "observation_shape"},
               {"observation_shape", "400x1x1", "kernel of 3"},
               {"conv", "1024x3x1,1024x8x1", "weights"},
               {"conv", "3x3x1,2x9x2", "kernel of 9"},
               {"conv", "3x3x1", "conv.1"},
               {"conv", "none", "weights"},
               {"conv", "3x3x1,2x2", "conv"}};
    for (int i = 0; i < COUNT(bad); i++) {
        change_text(bad[i].key, bad[i].text);
        ppo_status status = ppo_agent_load(copy, NULL, &loaded);
        if (status == PPO_OK) fail_msg("%s = \"%s\" is loaded", bad[i].key, bad[i].text);
        assert_null(loaded);
        if (strcmp(bad[i].words, "conv.1") && strcmp(bad[i].text, "none"))
            assert_fails(ppo_agent_load(copy, NULL, &loaded), status, bad[i].words);
    }
    remove(path), remove(copy);
    ppo_agent_free(agent);
}

static ppo_status make_agent(void *user) {
    const ppo_env *env = (const ppo_env *)user;
    ppo_config cfg = settings("num_envs=1 rollout_steps=2 minibatch_size=2 total_steps=2 epochs=1");
    ppo_agent *agent = NULL;
    ppo_status status = ppo_train(env, &cfg, &agent);
    ppo_agent_free(agent);
    return status;
}

static void each_failing_allocation_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    ppo_env env = breakout_env();
    assert_true(fail_each_allocation(make_agent, &env) > 10);
}

/* --------------------------------------------------------------------------------------------------------
   Breakout
   -------------------------------------------------------------------------------------------------------- */

static void breakout_plays_as_minatar_does(void **state) {
    (void)state;
    breakout s;
    float obs[BREAKOUT_PLANES * BREAKOUT_PIXELS];
    ppo_rng rng = test_rng(1);
    int rebuilt = 0, before = 30;
    memset(&s, 0, sizeof s);
    do breakout_reset(&s, &rng, obs);
    while ((s.x == BREAKOUT_SIZE - 1) != g_breakout_right);
    for (int t = 0; t < g_breakout_steps; t++) {
        const unsigned char *want = g_breakout + 7 * t;
        ppo_action action = {want[0], NULL, NULL};
        ppo_outcome out = {0};
        breakout_step(&s, &rng, &action, obs, &out);
        assert_true(out.reward == (float)want[1] && out.terminated == want[2] && !out.truncated);
        int bricks = 0;
        for (int i = 0; i < BREAKOUT_PIXELS; i++) {
            for (int plane = 0; plane < 3; plane++)
                assert_true(obs[plane * BREAKOUT_PIXELS + i] == (i == want[3 + plane] ? 1.0f : 0.0f));
            bricks += obs[3 * BREAKOUT_PIXELS + i] == 1.0f;
        }
        assert_true(bricks == want[6] && bricks == s.bricks);
        rebuilt += bricks > before;
        before = bricks;
    }
    assert_true(rebuilt >= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_gradients_are_those_of_pytorch),
        cmocka_unit_test(gradients_are_central_differences),
        cmocka_unit_test(a_pictures_bits_do_not_depend_on_its_batch),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(results_that_are_too_large_are_refused),
        cmocka_unit_test(a_pool_shows_what_is_no_number_and_teaches_the_first_largest),
        cmocka_unit_test_teardown(convolutions_without_memory_are_refused, restore_allocator),
        cmocka_unit_test(the_first_ratio_is_exactly_one),
        cmocka_unit_test(initial_weights_are_orthogonal_or_uniform),
        cmocka_unit_test(settings_that_fit_no_picture_are_refused),
        cmocka_unit_test(bytes_change_nothing_but_the_memory),
        cmocka_unit_test(what_is_no_byte_is_refused),
        cmocka_unit_test(a_policy_in_a_file_is_the_same_and_checked),
        cmocka_unit_test_teardown(each_failing_allocation_is_an_error_and_leaks_nothing, restore_allocator),
        cmocka_unit_test(breakout_plays_as_minatar_does),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
