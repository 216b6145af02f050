/* The arena of section 1, its threads, the work that is divided among them, and that no bit depends on their
   number. */
#define PPO_NO_REPORTS
#define PPO_IMPLEMENTATION
#include "../ppo.h"
#include "../examples/companions/ppo_conv.h"
#include "../examples/companions/ppo_gru.h"
#include "../examples/companions/ppo_hub.h"

#include "test.h"
#include "system.h"

#include "../examples/envs/cartpole.h"

static void an_arena_reports_a_refused_array_once(void **state) {
    (void)state;
    ppo__arena arena = {NULL, NULL, PPO_OK};
    assert_non_null(PPO__ARRAY(&arena, int, 10));
    assert_ok(ppo__arena_status(&arena));
    assert_null(PPO__ARRAY(&arena, double, SIZE_MAX / 4));
    assert_non_null(PPO__ZEROS(&arena, char, 0));
    assert_int_equal(ppo__arena_status(&arena), PPO_ERROR_MEMORY);
    assert_non_null(strstr(ppo_last_error(), "bytes were refused"));
    assert_ok(ppo__arena_status(&arena));
    ppo__arena_free(&arena);
}

enum { THREADS = 5 }; /* counts that are tried: 1, 2, 3, 4, 5 */

typedef struct visits {
    int ranges[64], rows[4096];
} visits;

static void visit(void *user, int thread, int begin, int end) {
    visits *v = (visits *)user;
    v->ranges[thread]++;
    for (int i = begin; i < end; i++) v->rows[i]++;
}

static void every_row_is_in_one_range_and_grains_stay_whole(void **state) {
    (void)state;
    for (int threads = 1; threads <= THREADS; threads++) {
        assert_ok(ppo_set_threads(threads));
        for (int n = 1; n < 4096; n = n * 3 / 2 + 1) {
            visits v;
            memset(&v, 0, sizeof v);
            ppo__parallel_for(n, 16, 1e9, visit, &v);
            for (int i = 0; i < 4096; i++) assert_int_equal(v.rows[i], i < n);
            for (int k = 0; k < 64; k++) assert_int_equal(v.ranges[k], k < ppo__range_count(n, 16, 1e9));
            assert_int_equal(ppo__range_count(n, 16, 1e9), (n + 15) / 16 < threads ? (n + 15) / 16 : threads);
        }
    }
    assert_ok(ppo_set_threads(1));
}

static void what_is_too_small_is_not_divided(void **state) {
    (void)state;
    assert_ok(ppo_set_threads(4));
    assert_int_equal(ppo__range_count(64, 16, 64 * 4), 1);
    assert_int_equal(ppo__range_count(256, 16, 64 * 64), 4);
    assert_int_equal(ppo__range_count(1, 1, 1e12), 1);
    assert_ok(ppo_set_threads(1));
    assert_int_equal(ppo__range_count(1 << 20, 1, 1e6), 1);
}

static void wait_now_and_then(void *user, int thread, int begin, int end) {
    static const double pause[] = {0, 0, 0, 1e-5, 3e-4};
    const int *round = (const int *)user;
    double until = ppo_clock() + pause[(*round * 7 + thread) % 5];
    while (ppo_clock() < until) {
    }
    (void)begin, (void)end;
}

/* Threads that look, threads that sleep, a caller that sleeps, and all of it again and again. */
static void thousands_of_runs_with_pauses_come_to_an_end(void **state) {
    (void)state;
    assert_ok(ppo_set_threads(3));
    for (int round = 0; round < SMALL(4000, 1500); round++) {
        ppo__parallel_for(64, 16, 1e9, wait_now_and_then, &round);
        if (round % 500 == 0) /* long enough to fall asleep */
            for (double until = ppo_clock() + 0.005; ppo_clock() < until;) {
            }
    }
    assert_ok(ppo_set_threads(1));
}

static void the_number_can_change_at_any_time(void **state) {
    (void)state;
    for (int i = 0; i < 40; i++) {
        visits v;
        memset(&v, 0, sizeof v);
        assert_ok(ppo_set_threads(1 + i * 7 % 6));
        ppo__parallel_for(512, 16, 1e9, visit, &v);
        for (int k = 0; k < 512; k++) assert_int_equal(v.rows[k], 1);
    }
    assert_fails(ppo_set_threads(0), PPO_ERROR_ARGUMENT, "ppo_set_threads|0 threads|1 to 1024");
    assert_fails(ppo_set_threads(1025), PPO_ERROR_ARGUMENT, "1025");
    assert_ok(ppo_set_threads(1));
}

/* In the child of a fork(): the pool's threads are not there, its results are. Returns 0 if all is well. */
static int compute_in_a_child(void) {
    visits v;
    memset(&v, 0, sizeof v);
    ppo__parallel_for(512, 16, 1e9, visit, &v); /* with the parent's pool */
    if (ppo_set_threads(2)) return 1;
    ppo__parallel_for(512, 16, 1e9, visit, &v); /* with its own */
    if (ppo_set_threads(1)) return 2;
    for (int k = 0; k < 512; k++)
        if (v.rows[k] != 2) return 3;
    return 0;
}

static void a_forked_child_computes_alone_until_it_starts_threads(void **state) {
    (void)state;
    visits v;
#ifdef __SANITIZE_THREAD__
    skip(); /* it cannot follow threads that a child starts */
#endif
    for (int pause = 0; pause < 2; pause++) { /* threads that look for work, and threads that sleep */
        assert_ok(ppo_set_threads(4));
        memset(&v, 0, sizeof v);
        ppo__parallel_for(512, 16, 1e9, visit, &v);
        if (pause) usleep(20000);
        pid_t child = fork();
        if (child == 0) {
            alarm(20); /* ends a child that hangs */
            _exit(compute_in_a_child());
        }
        int how = 0;
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_int_equal(how, 0);
        ppo__parallel_for(512, 16, 1e9, visit, &v);
        for (int k = 0; k < 512; k++) assert_int_equal(v.rows[k], 2);
        assert_ok(ppo_set_threads(1));
    }
}

/* The environment of CartPole that asks for threads in its step. */
static ppo_status asked;
static void step_that_asks(void *s, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    asked = ppo_set_threads(2);
    cartpole_step(s, rng, action, obs, out);
}

static void an_environment_cannot_change_the_number(void **state) {
    (void)state;
    ppo_env env = cartpole_env();
    ppo_config c = ppo_config_default();
    ppo_agent *agent = NULL;
    env.step = step_that_asks;
    c.total_steps = 64, c.rollout_steps = 16, c.minibatch_size = 64, c.epochs = 1;
    assert_ok(ppo_train(&env, &c, &agent));
    assert_int_equal(asked, PPO_ERROR_ARGUMENT);
    ppo_agent_free(agent);
}

/* -- bits -- */

static float *numbers(size_t n, uint32_t stream) {
    ppo_rng rng = test_rng(stream);
    float *x = (float *)malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = ppo_rng_normal(&rng);
    return x;
}

/* The result of a small network of all operations that are divided, and all gradients, behind one another. */
static size_t network(int activation, int rows, int width, float *out) {
    enum { HEADS = 4, VOCAB = 24 };
    const int start[] = {0, rows / 3, rows / 3 + 1, rows};
    ppo_params *params = NULL;
    ppo_tape *tape = NULL;
    int *token = (int *)malloc((size_t)rows * sizeof *token);
    float *x = numbers((size_t)rows * (size_t)width, 3);
    const int shapes[][2] = {{VOCAB, width}, {width, 3 * width}, {1, 3 * width}, {width, VOCAB},
                             {1, VOCAB},     {1, width},         {1, width},     {width, 2}};
    ppo_tensor *p[8], *logp, *entropy;
    size_t n = 0;
    for (int i = 0; i < rows; i++) token[i] = i * 7 % VOCAB;
    assert_ok(ppo_params_create(&params));
    assert_ok(ppo_tape_create(&tape));
    for (int k = 0; k < 8; k++) {
        const char name[2] = {(char)('a' + k), 0};
        p[k] = ppo_params_add(params, name, shapes[k][0], shapes[k][1]);
    }
    float *values = numbers(params->count, 4);
    for (size_t i = 0; i < params->count; i++) params->data[i] = 0.3f * values[i];
    for (int round = 0; round < 2; round++) { /* the second with the memory of the first */
        ppo_tape_reset(tape);
        ppo_params_zero_grad(params);
        ppo_tensor *h = ppo_tape_add(tape, ppo_tape_constant(tape, x, rows, width),
                                     ppo_tape_embedding(tape, p[0], token, rows));
        ppo_tensor *norm = ppo_tape_layer_norm(tape, h, p[5], p[6], 1e-5f);
        ppo_tensor *qkv = ppo_tape_linear(tape, norm, p[1], p[2], PPO_IDENTITY);
        h = ppo_tape_add(tape, h, attend(tape, qkv, HEADS, start, 3));
        ppo_tensor *narrow = ppo_tape_linear(tape, h, p[7], NULL, activation);
        ppo_tensor *wide = ppo_tape_linear(tape, h, p[3], p[4], activation);
        ppo_tensor *logits = ppo_tape_add(tape, wide, ppo_tape_matmul_transposed(tape, h, p[0]));
        ppo_tape_categorical(tape, logits, token, 0.8f, &logp, &entropy);
        ppo_tensor *loss = ppo_tape_add(tape, ppo_tape_mean(tape, logp), ppo_tape_mean(tape, entropy));
        loss = ppo_tape_add(tape, loss, ppo_tape_mean(tape, ppo_tape_square(tape, narrow)));
        assert_ok(ppo_tape_backward(tape, loss));
    }
    memcpy(out, logp->data, (size_t)rows * sizeof(float)), n += (size_t)rows;
    memcpy(out + n, params->grad, params->count * sizeof(float)), n += params->count;
    ppo_adam adam = ppo_adam_default();
    assert_ok(ppo_params_step(params, &adam, 0.5f, NULL));
    memcpy(out + n, params->data, params->count * sizeof(float)), n += params->count;
    ppo_tape_free(tape), ppo_params_free(params);
    free(token), free(x), free(values);
    return n;
}

static void operations_have_the_same_bits_for_any_number(void **state) {
    (void)state;
    static float alone[1 << 17], divided[1 << 17];
    const int rows[] = {7, 96, SMALL(500, 200)};
    for (int i = 0; i < COUNT(rows); i++)
        for (int a = SMALL(0, i % 3); a < PPO__ACTIVATIONS; a += SMALL(1, 3)) {
            size_t n = network(a, rows[i], 64, alone);
            assert_true(n < COUNT(alone));
            for (int threads = 2; threads <= THREADS; threads++) {
                assert_ok(ppo_set_threads(threads));
                assert_true(network(a, rows[i], 64, divided) == n);
                assert_memory_equal(alone, divided, n * sizeof(float));
                assert_ok(ppo_set_threads(1));
            }
        }
}

/* Both layers add to the gradient of the weight that they share, one after the other. */
static void layers_that_share_a_weight_have_the_same_gradient_for_any_number(void **state) {
    (void)state;
    enum { WIDTH = 128, ROWS = 300 };
    static float alone[WIDTH * WIDTH];
    float *x = numbers(ROWS * WIDTH, 5), *values = numbers(WIDTH * WIDTH, 6);
    ppo_params *params = NULL;
    ppo_tape *tape = NULL;
    ppo_mlp mlp = {0};
    assert_ok(ppo_params_create(&params));
    assert_ok(ppo_tape_create(&tape));
    mlp.layers = 3, mlp.hidden_activation = PPO_RELU, mlp.last_activation = PPO_TANH;
    mlp.weight[0] = mlp.weight[1] = mlp.weight[2] = ppo_params_add(params, "w", WIDTH, WIDTH);
    for (int i = 0; i < WIDTH * WIDTH; i++) params->data[i] = 0.1f * values[i];
    for (int run = 0; run < SMALL(50, 7); run++) {
        assert_ok(ppo_set_threads(run ? 2 + run % 3 : 1));
        ppo_tape_reset(tape);
        ppo_params_zero_grad(params);
        ppo_tensor *y = ppo_mlp_forward(tape, &mlp, ppo_tape_constant(tape, x, ROWS, WIDTH));
        assert_ok(ppo_tape_backward(tape, ppo_tape_sum(tape, ppo_tape_square(tape, y))));
        if (run) assert_memory_equal(alone, params->grad, sizeof alone);
        else memcpy(alone, params->grad, sizeof alone);
    }
    assert_ok(ppo_set_threads(1));
    ppo_tape_free(tape);
    ppo_params_free(params);
    free(x), free(values);
}

/* Two convolutions and poolings, forward and backward. */
static void convolutions_have_the_same_bits_for_any_number(void **state) {
    (void)state;
    enum { ROWS = 40, INPUTS = 4 * 10 * 10 };
    static float alone[1 << 12];
    const int picture[3] = {4, 10, 10};
    ppo_tensor x = {ROWS, INPUTS, numbers(ROWS * INPUTS, 7), numbers(ROWS * INPUTS, 7)};
    float *dx = numbers(ROWS * INPUTS, 7);
    ppo_rng rng = test_rng(8);
    ppo_params *params = NULL;
    ppo_tape *tape = NULL;
    ppo_conv conv;
    ppo_config c = ppo_config_default();
    assert_ok(ppo_config_set(&c, "conv", "16x3x1,20x2x2"));
    assert_ok(ppo_config_set(&c, "activation", "tanh"));
    assert_ok(ppo_params_create(&params));
    assert_ok(ppo_tape_create(&tape));
    assert_ok(ppo__conv_init(&conv, params, picture, &c, &rng));
    assert_true(params->count < COUNT(alone));
    for (int run = 0; run < SMALL(20, 5); run++) {
        int shape[3] = {20, 4, 4}, direct[3] = {4, 10, 10};
        assert_ok(ppo_set_threads(run ? 2 + run % 3 : 1));
        ppo_tape_reset(tape);
        ppo_params_zero_grad(params);
        memset(x.grad, 0, ROWS * INPUTS * sizeof(float));
        ppo_tensor *y = ppo_tape_max_pool(tape, ppo__conv.forward(tape, &conv, &x), shape, 2, 1);
        ppo_tensor *z = ppo_tape_max_pool(tape, &x, direct, 5, 1); /* large enough to be divided */
        ppo_tensor *sum = ppo_tape_sum(tape, ppo_tape_square(tape, z));
        assert_ok(
            ppo_tape_backward(tape, ppo_tape_add(tape, sum, ppo_tape_sum(tape, ppo_tape_square(tape, y)))));
        if (run) assert_memory_equal(alone, params->grad, params->count * sizeof(float));
        else memcpy(alone, params->grad, params->count * sizeof(float));
        if (run) assert_memory_equal(dx, x.grad, ROWS * INPUTS * sizeof(float));
        else memcpy(dx, x.grad, ROWS * INPUTS * sizeof(float));
    }
    assert_ok(ppo_set_threads(1));
    ppo_tape_free(tape);
    ppo_params_free(params);
    free(x.data), free(x.grad), free(dx);
}

static void train_with(int threads, int own, int recurrent, float *weights, size_t *n) {
    ppo_env env = cartpole_env();
    ppo_config c = ppo_config_default();
    ppo_agent *agent = NULL;
    c.total_steps = SMALL(4096, 2048), c.num_envs = 4, c.rollout_steps = SMALL(512, 256), c.epochs = 2;
    c.minibatch_size = SMALL(1024, 512);
    c.threads = own, c.recurrent = recurrent, c.normalize_obs = 1;
    assert_ok(ppo_set_threads(threads));
    assert_ok(ppo_train(&env, &c, &agent));
    assert_ok(ppo_set_threads(1));
    *n = agent->model.params->count;
    memcpy(weights, agent->model.params->data, *n * sizeof(float));
    ppo_agent_free(agent);
}

/* More threads than environments, and threads of the caller's. */
static void a_trainer_has_the_same_bits_for_any_number(void **state) {
    (void)state;
    static float alone[1 << 16], divided[1 << 16];
    static const int numbers_of[][2] = {{1, 2}, {1, 3}, {1, 7}, {3, 1}, {2, 3}};
    for (int recurrent = 0; recurrent <= 16; recurrent += 16) {
        size_t n, m;
        train_with(1, 1, recurrent, alone, &n);
        assert_true(n < COUNT(alone));
        for (int k = 0; k < COUNT(numbers_of); k += SMALL(1, 2)) {
            train_with(numbers_of[k][0], numbers_of[k][1], recurrent, divided, &m);
            assert_true(m == n);
            assert_memory_equal(alone, divided, n * sizeof(float));
        }
    }
}

static ppo_status sum_of_tokens(const ppo_samples *samples, float *reward, void *user) {
    (void)user;
    for (int s = 0; s < samples->tokens.count; s++) {
        reward[s] = 0;
        for (int i = samples->tokens.start[s]; i < samples->tokens.start[s + 1]; i++)
            reward[s] += (float)(samples->tokens.token[i] % 5);
    }
    return PPO_OK;
}

/* The shards of a batch, or of a smaller one, in the order of the processes and of each one's lanes: evenly, where they
   can be. */
static void each_shard_is_computed_by_one_lane_of_one_process(void **state) {
    (void)state;
    for (int most = 2; most <= 9; most++)
        for (int shards = 1; shards <= most; shards++)
            for (int size = 1; size <= 2; size++)
                for (int lanes = 1; lanes <= 4; lanes *= 2) {
                    int next = 0;
                    for (int k = 0; k < size * lanes; k++) {
                        const ppo_group group = {k / lanes, size, NULL, NULL};
                        ppo__learner learner;
                        memset(&learner, 0, sizeof learner);
                        learner.shards = most, learner.group = size > 1 ? &group : NULL;
                        const int own = ppo__branch_shards(&learner, shards, k % lanes, lanes);
                        assert_int_equal(ppo__branch_begin(&learner, shards, k % lanes, lanes), next);
                        if (shards == 8 && most == 8) assert_int_equal(own, 8 / size / lanes);
                        next += own;
                    }
                    assert_int_equal(next, shards);
                }
}

/* Supervised, then PPO: forward, backward, sampling, Adam; of GPT-2, and of Qwen 3 with LoRA, whose blocks are computed
   again. With one shard, whose operations are divided, and with five, of which threads have several. */
static void a_language_model_has_the_same_bits_for_any_number(void **state) {
    (void)state;
    enum { VOCAB = 40, CONTEXT = 24 };
    ppo_tokens data = {0};
    ppo_rng rng = test_rng(9);
    float *first = NULL;
    for (int s = 0; s < SMALL(24, 6); s++) add_random(&data, &rng, VOCAB, CONTEXT - s % 3, 2);
    for (int run = 0; run < 12; run += run % 3 ? 1 : SMALL(1, 2)) { /* with 1, 2 and 4 threads, or 1 and 4 */
        const int with_lora = run / 3 % 2, threads = 1 << run % 3;
        ppo_lm_config shape = lm_config(VOCAB, CONTEXT, SMALL(64, 32), 2, 4);
        ppo_lora lora = ppo_lora_default();
        ppo_rlhf *rlhf = NULL;
        ppo_fit_config fit = ppo_fit_config_default();
        ppo_rlhf_config c = ppo_rlhf_config_default();
        if (with_lora) assert_ok(ppo_lm_config_family(&shape, "qwen3"));
        if (with_lora) shape.kv_heads = 2;
        ppo_lm *base = random_lm(shape, 0.02f), *lm = base;
        if (with_lora) assert_ok(ppo_lm_adapt(base, &lora, 0, &lm));
        const size_t bytes = lm->params->count * sizeof(float);
        c.prompts = SMALL(24, 6), c.slots = SMALL(16, 4), c.epochs = SMALL(4, 1),
        c.gradient_checkpointing = fit.gradient_checkpointing = with_lora;
        c.shards = fit.shards = run < 6 ? 1 : 5;
        assert_ok(ppo_set_threads(threads));
        assert_ok(ppo_fit_sft(lm, &data, &fit));
        assert_ok(ppo_rlhf_create(lm, NULL, NULL, &data, sum_of_tokens, NULL, &c, &rlhf));
        for (int i = 0; i < SMALL(2, 1); i++) assert_ok(ppo_rlhf_iterate(rlhf, NULL));
        assert_ok(ppo_set_threads(1));
        if (threads == 1) {
            free(first);
            first = (float *)memcpy(malloc(bytes), lm->params->data, bytes);
        }
        assert_memory_equal(first, lm->params->data, bytes);
        ppo_rlhf_free(rlhf);
        if (lm != base) ppo_lm_free(lm);
        ppo_lm_free(base);
    }
    free(first);
    ppo_tokens_free(&data);
}

/* Its rows are converted some at a time, by two threads. */
static void a_large_packed_table_is_converted_in_parts(void **state) {
    (void)state;
    enum { ROWS = 600, COLS = 24, N = 64 };
    static float logits[2][N * ROWS], grad[2][N * COLS];
    assert_ok(ppo_set_threads(2));
    for (int packed = 0; packed < 2; packed++) {
        ppo_params *table = NULL, *other = NULL;
        ppo_tape *tape = NULL;
        ppo_rng rng = test_rng(3);
        assert_ok(ppo_params_create(&table));
        assert_ok(ppo_params_create(&other));
        ppo_tensor *b = ppo_params_add(table, "b", ROWS, COLS), *a = ppo_params_add(other, "a", N, COLS);
        for (int i = 0; i < ROWS * COLS; i++)
            b->data[i] = (float)ppo_rng_below(&rng, 99) - 49; /* exact in BF16 */
        for (int i = 0; i < N * COLS; i++) a->data[i] = ppo_rng_uniform(&rng);
        assert_ok(ppo_params_freeze(table, 1));
        if (packed) assert_ok(ppo_params_to_bf16(table));
        assert_ok(ppo_tape_create(&tape));
        ppo_tensor *y = ppo_tape_matmul_transposed(tape, a, b);
        assert_ok(ppo_tape_backward(tape, ppo_tape_mean(tape, ppo_tape_square(tape, y))));
        memcpy(logits[packed], y->data, sizeof *logits);
        memcpy(grad[packed], a->grad, sizeof *grad);
        for (int i = 0; i < N * ROWS && !packed; i++) {
            double sum = 0;
            for (int c = 0; c < COLS; c++)
                sum += (double)a->data[i / ROWS * COLS + c] * (double)b->data[i % ROWS * COLS + c];
            assert_close(y->data[i], sum, 1e-3);
        }
        ppo_tape_free(tape);
        ppo_params_free(table), ppo_params_free(other);
    }
    ppo_set_threads(1);
    assert_false(bits_differ(logits[0], logits[1], N * ROWS));
    for (int i = 0; i < N * COLS; i++) assert_close(grad[1][i], grad[0][i], 1e-5); /* sums of other parts */
}

/* Of a large matrix: a row has the same bits alone, among few, among many, with the matrix packed, and whoever computes
   some of its columns; and so has its gradient. The last columns and inner numbers fill no vector. */
static void few_rows_of_a_large_matrix_have_the_bits_of_many(void **state) {
    (void)state;
    enum { INPUTS = 515, OUTPUTS = 517, MANY = 40 };
    static const int few[] = {MANY, 1, 2, 7, 8};
    static float many[MANY * OUTPUTS], many_grad[MANY * INPUTS];
    FOR_EACH_KERNEL_SET(set) {
        for (int k = 0; k < 4 * COUNT(few); k++) {
            const int rows = few[k % COUNT(few)], packed = k / COUNT(few) % 2,
                      threads = k / COUNT(few) / 2 ? 3 : 1;
            /* in small: 8 rows of a matrix that is not packed, 1 and many of one that is */
            if (SMALL(0, k && (threads == 1 || rows == 2 || rows == 7 || packed == (rows == 8)))) continue;
            ppo_params *layer = NULL, *input = NULL;
            ppo_tape *tape = NULL;
            ppo_rng rng = test_rng(7);
            assert_ok(ppo_params_create(&layer));
            assert_ok(ppo_params_create(&input));
            ppo_tensor *w = ppo_params_add(layer, "w", INPUTS, OUTPUTS),
                       *b = ppo_params_add(layer, "b", 1, OUTPUTS),
                       *x = ppo_params_add(input, "x", rows, INPUTS);
            for (int i = 0; i < INPUTS * OUTPUTS; i++)
                w->data[i] = ((float)ppo_rng_below(&rng, 255) - 127) / 1024; /* exact in BF16 */
            for (int i = 0; i < OUTPUTS; i++) b->data[i] = (float)(i % 99) / 256;
            fill_normal(&rng, x->data, rows * INPUTS, 1);
            assert_ok(ppo_params_freeze(layer, 1));
            if (packed) assert_ok(ppo_params_to_bf16(layer));
            assert_ok(ppo_tape_create(&tape));
            assert_ok(ppo_set_threads(threads));
            ppo_tensor *y = ppo_tape_linear(tape, x, w, b, PPO_GELU);
            assert_ok(ppo_tape_backward(tape, ppo_tape_sum(tape, y)));
            if (k == 0) memcpy(many, y->data, sizeof many), memcpy(many_grad, x->grad, sizeof many_grad);
            if (bits_differ(y->data, many, (size_t)(rows * OUTPUTS)) ||
                bits_differ(x->grad, many_grad, (size_t)(rows * INPUTS)))
                fail_msg("%d rows (%s, %spacked, %d threads) differ", rows, ppo_kernels_name(),
                         packed ? "" : "not ", threads);
            ppo_tape_free(tape);
            ppo_params_free(layer), ppo_params_free(input);
        }
    }
    ppo_set_threads(1);
}

/* With few slots threads divide the operations, with many the sequences, which end here and there. */
static void samples_are_the_same_for_any_number_of_threads(void **state) {
    (void)state;
    enum { SAMPLES = 29, FEW = 6, MANY = 13, LENGTH = 150 };
    static int text[SAMPLES * LENGTH];
    static float logp[SAMPLES * LENGTH];
    ppo_lm *lm = NULL;
    ppo_lm_config shape = ppo_lm_config_default();
    shape.vocab = 300, shape.context = LENGTH, shape.width = 96, shape.layers = 2, shape.heads = 6,
    shape.kv_heads = 3;
    const int length = SMALL(LENGTH, LENGTH / 3);
    assert_ok(ppo_lm_create(&shape, &lm));
    for (int run = 0; run < 6; run++) {
        const int many = run / 3, threads = 1 + run % 3 * (2 - many), all = SMALL(SAMPLES, SAMPLES / 2);
        ppo_generator *generator = NULL;
        ppo_tokens prompts = {0};
        ppo_samples samples;
        ppo_sampling how = ppo_sampling_default();
        how.eos = many ? 7 : -1;
        how.max_new_tokens = length - 1;
        for (int s = 0; s < all; s++) assert_ok(ppo_tokens_add(&prompts, &s, 1, 1));
        assert_ok(ppo_set_threads(threads));
        assert_ok(ppo_generator_create(lm, many ? MANY : FEW, &generator));
        for (int k = 0; k < 2;
             k++) { /* the second time with another number of threads than the generator has */
            assert_ok(ppo_generate(generator, &prompts, &how, &samples));
            const int n = samples.tokens.start[all];
            assert_int_equal(generator->in_use, many && !k ? threads : 1);
            assert_true(many ? n < all * length : n == all * length);
            if (threads == 1)
                memcpy(text, samples.tokens.token, n * sizeof *text),
                    memcpy(logp, samples.logp, n * sizeof *logp);
            assert_memory_equal(samples.tokens.token, text, n * sizeof *text);
            assert_false(bits_differ(samples.logp, logp, n));
            assert_ok(ppo_set_threads(1));
        }
        ppo_generator_free(generator);
        ppo_tokens_free(&prompts);
    }
    ppo_set_threads(1);
    ppo_lm_free(lm);
}

/* Each slot begins with the sequence of its number, so that a chat's next turn finds what it cached; and fewer of the
   same prompts, which one thread may have all, need no more memory. */
static void slots_keep_their_sequences_and_memory_its_size(void **state) {
    (void)state;
    enum { SLOTS = 16, LENGTH = 12 };
    heap h = {0, 0, -1, 0};
    assert_ok(ppo_set_threads(4));
    ppo_set_allocator(heap_hook, &h);
    ppo_lm *lm = random_lm(lm_config(SLOTS + 1, LENGTH, 16, 1, 2), 0.2f);
    ppo_generator *generator = NULL;
    ppo_sampling how = ppo_sampling_default();
    ppo_samples samples;
    ppo_tokens prompts = {0};
    const int count[] = {SLOTS, 2 * SLOTS, 7, 8, 1};
    for (int s = 0; s < 2 * SLOTS; s++) {
        const int token[2] = {s % SLOTS, s / SLOTS};
        assert_ok(ppo_tokens_add(&prompts, token, 2, 2));
    }
    assert_ok(ppo_generator_create(lm, SLOTS, &generator));
    for (int k = 0, calls = 0; k < COUNT(count); k++) {
        prompts.count = count[k];
        assert_ok(ppo_generate(generator, &prompts, &how, &samples));
        assert_int_equal(generator->in_use, count[k] < 8 ? 1 : 4);
        for (int s = 0; s < count[k] && count[k] <= SLOTS; s++)
            assert_memory_equal(generator->slot[s].cached, samples.tokens.token + samples.tokens.start[s],
                                generator->slot[s].seen * sizeof(int));
        if (k > 1) assert_int_equal(h.calls, calls);
        calls = (int)h.calls;
    }
    ppo_generator_free(generator), ppo_lm_free(lm), ppo_tokens_free(&prompts);
    ppo_set_allocator(NULL, NULL);
    assert_int_equal(h.live, 0);
    assert_ok(ppo_set_threads(1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_arena_reports_a_refused_array_once),
        cmocka_unit_test(every_row_is_in_one_range_and_grains_stay_whole),
        cmocka_unit_test(what_is_too_small_is_not_divided),
        cmocka_unit_test(thousands_of_runs_with_pauses_come_to_an_end),
        cmocka_unit_test(the_number_can_change_at_any_time),
        cmocka_unit_test(a_forked_child_computes_alone_until_it_starts_threads),
        cmocka_unit_test(an_environment_cannot_change_the_number),
        cmocka_unit_test(operations_have_the_same_bits_for_any_number),
        cmocka_unit_test(convolutions_have_the_same_bits_for_any_number),
        cmocka_unit_test(layers_that_share_a_weight_have_the_same_gradient_for_any_number),
        cmocka_unit_test(a_large_packed_table_is_converted_in_parts),
        cmocka_unit_test(few_rows_of_a_large_matrix_have_the_bits_of_many),
        cmocka_unit_test(samples_are_the_same_for_any_number_of_threads),
        cmocka_unit_test_teardown(slots_keep_their_sequences_and_memory_its_size, restore_allocator),
        cmocka_unit_test(a_trainer_has_the_same_bits_for_any_number),
        cmocka_unit_test(each_shard_is_computed_by_one_lane_of_one_process),
        cmocka_unit_test(a_language_model_has_the_same_bits_for_any_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
