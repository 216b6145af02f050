/* ppo_cuda.cuh, section 8: language models compute, learn and sample on the device as on the processor;
   failures there are reported, and the processor can continue. */
#include "cuda_test.h"

#include <string>
#include <thread>
#include <unistd.h>

/* --------------------------------------------------------------------------------------------------------
   Models and data
   -------------------------------------------------------------------------------------------------------- */

typedef struct model_shape {
    int vocab, context, width, layers, heads;
    const char *family, *settings;
} model_shape;

/* Heads of 3, 8, 33, 65 and 130 numbers; sequences shorter and longer than a tile; rows with more columns
   than a block of the scatter takes at once. */
static const model_shape model_shapes[] = {
    {5, 7, 6, 1, 2, "gpt2", ""},
    {40, 70, 33, 1, 1, "gpt2", ""},
    {7, SMALL(40, 18), 130, 1, 2, "gpt2", ""},
    {9, 18, 130, 1, 1, "gpt2", ""},
    {5, 4, 260, 1, 4, "gpt2", ""},
    {9, 20, 10, 2, 3, "gpt_neo", "head_size=5 window=3"},
    {9, 20, 24, 1, 2, "gpt_neox", "rotary_size=4 hidden=30"},
    {9, 40, 12, 1, 6, "mistral", "head_size=4 kv_heads=2 window=17 hidden=17"},
    {9, 20, 12, 2, 4, "qwen3",
     "head_size=6 kv_heads=2 hidden=20 rope_scaling=llama3 rope_factor=4 rope_context=16"},
    {9, 20, 12, 2, 4, "gemma3_text", "head_size=6 kv_heads=2 hidden=20 window=4 window_layers=1"},
    {9, 20, 12, 1, 4, "olmo2", "head_size=4 kv_heads=2 hidden=20"},
    {9, 20, 12, 1, 4, "granite",
     "head_size=4 embedding_scale=3 residual_scale=0.4 logits_scaling=2 hidden=20"},
};

static ppo_lm *make_model(const model_shape &s, int score, uint64_t seed) {
    ppo_lm_config c = lm_config(s.vocab, s.context, s.width, s.layers, s.heads);
    ppo_lm *lm = NULL;
    c.score = score, c.seed = seed;
    if (s.family) assert_ok(ppo_lm_config_family(&c, s.family));
    if (s.family) assert_ok(ppo_settings_set_all(ppo_lm_settings(), &c, s.settings));
    ppo_rng rng = test_rng((uint32_t)seed);
    assert_ok(ppo_lm_create(&c, &lm));
    for (int i = 0; i < lm->params->tensor_count; i++) { /* no 0 or 1 that could hide an error */
        ppo_tensor *x = lm->params->tensors[i];
        for (int k = 0; k < x->rows * x->cols; k++) x->data[k] += 0.1f * ppo_rng_normal(&rng);
    }
    return lm;
}

/* Sequences of lengths 2 to the context, some of their tokens given. */
static void make_tokens(const model_shape &s, int count, uint32_t seed, ppo_tokens *tokens) {
    ppo_rng rng = test_rng(seed);
    for (int k = 0; k < count; k++) {
        int n = k == 0 ? s.context : 2 + ppo_rng_below(&rng, s.context - 1);
        std::vector<int> token = random_tokens(&rng, (size_t)n, s.vocab);
        assert_ok(ppo_tokens_add(tokens, token.data(), n, k == 0 ? 1 : 1 + ppo_rng_below(&rng, n - 1)));
    }
}

static void on_the_gpu(void) { assert_ok(ppo_use_cuda(0)); }
static void on_the_processor(void) { assert_ok(ppo_use_cuda(-1)); }

static int start(void **state) {
    (void)state;
    emulate();
    return 0;
}
static int finish(void **state) {
    (void)state;
    if (ppo_use_cuda(-1)) ppo__device_in_use = NULL; /* a failed test still uses the device */
    return leaks();
}
#define on_both(test) cmocka_unit_test_setup_teardown(test, start, finish)

static float largest(const float *x, size_t n) {
    float most = 0;
    for (size_t i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i]));
    return most;
}

/* Differences relative to the largest number of each tensor, but at least to a tenth of the largest of all:
   some small gradients are sums of large terms. */
static void check_params(const ppo_params *got, const ppo_params *want, int grads, double tolerance) {
    float all = largest(grads ? want->grad : want->data, want->count);
    for (int i = 0; i < want->tensor_count; i++) {
        const ppo_tensor *a = got->tensors[i], *b = want->tensors[i];
        const float *x = grads ? a->grad : a->data, *y = grads ? b->grad : b->data;
        size_t n = (size_t)(b->rows * b->cols);
        double scale = fmaxf(largest(y, n), 0.1f * all);
        for (size_t k = 0; k < n; k++) {
            if (is_close(x[k], y[k], tolerance, scale)) continue;
            fail_msg("%s[%d] is %.9g, not %.9g (off by %.2g of %.2g)", want->names[i], (int)k, (double)x[k],
                     (double)y[k], fabs((double)x[k] - (double)y[k]), scale);
        }
    }
}

/* --------------------------------------------------------------------------------------------------------
   Forward and backward
   -------------------------------------------------------------------------------------------------------- */

typedef struct told { /* the results of a pass */
    std::vector<float> logp, entropy, value;
    float loss;
} told;

static int recompute; /* 1: on the device, blocks are computed again in backward */

/* A loss with all operations: of log-probabilities, entropies, values and scores. */
static told pass(ppo_lm *lm, const ppo_lm *reference, const ppo_tokens *tokens,
                 const std::vector<float> &data) {
    ppo_tape *tape = NULL;
    told t;
    size_t n = (size_t)ppo_response_row(tokens, tokens->count);
    t.logp.resize(n), t.entropy.resize(n), t.value.resize(n);
    assert_ok(ppo__tape_create_on(ppo__device_in_use, &tape));
    ppo_tape_checkpointing(tape, recompute && ppo__device_in_use);
    ppo_response out = ppo_lm_response(tape, lm, tokens, 0.8f, PPO_POLICY | PPO_VALUE);
    ppo_policy_objective objective = ppo_policy_objective_default();
    objective.clip_low = objective.clip_high = 3;
    assert_ok(ppo_tape_status(tape));
    const float *old_logp = data.data(), *advantage = old_logp + n, *target = advantage + n,
                *old_value = target + n;
    ppo_tensor *loss = ppo_tape_policy_loss(tape, out.logp, old_logp, advantage, NULL, &objective, NULL);
    loss = ppo_tape_add(tape, loss,
                        ppo_tape_value_loss(tape, out.value, old_value, target, NULL, 0.3f, INFINITY));
    loss = ppo_tape_add(tape, loss, ppo_tape_scale(tape, ppo_tape_mean(tape, out.entropy), -0.1f, 0.7f));
    ppo_tensor *sums = ppo_tape_sequence_sum(tape, out.logp, tokens);
    ppo_tensor *scores = ppo_lm_sequence_score(tape, lm, tokens);
    loss = ppo_tape_add(tape, loss, ppo_tape_pairwise_loss(tape, sums, scores));
    sums = ppo_tape_sequence_sum(tape, out.logp, tokens);
    loss = ppo_tape_add(tape, loss, ppo_tape_scale(tape, ppo_tape_mean(tape, sums), 0.01f, 0));
    /* the exact KL to another model, and rows that two layers read */
    ppo_response ref = ppo_lm_response(tape, reference, tokens, 0.8f, PPO_POLICY);
    ppo_tensor *kl = ref.logits ? ppo_tape_categorical_kl_to(tape, out.logits, ref.logits->data, 0.8f) : NULL;
    ppo_tensor *x = ppo_lm_forward(tape, lm, tokens);
    ppo_tensor *twice = ppo_tape_add(tape, ppo_lm_score(tape, lm, x), ppo_lm_score(tape, lm, x));
    loss = ppo_tape_add(tape, loss, ppo_tape_mean(tape, kl));
    loss = ppo_tape_add(tape, loss, ppo_tape_mean(tape, ppo_tape_square(tape, twice)));
    assert_ok(ppo_tape_status(tape));
    ppo__tape_read(tape, out.logp->data, n, t.logp.data());
    ppo__tape_read(tape, out.entropy->data, n, t.entropy.data());
    ppo__tape_read(tape, out.value->data, n, t.value.data());
    ppo__tape_read(tape, loss->data, 1, &t.loss);
    ppo_params_zero_grad(lm->params);
    assert_ok(ppo_tape_backward(tape, loss));
    assert_ok(ppo__tape_settle(tape));
    ppo_tape_free(tape);
    return t;
}

/* `other`, of the same numbers, gives on the device what lm gives on the processor. */
static void check_pass(const model_shape &s, ppo_lm *lm, ppo_lm *other) {
    ppo_lm *reference = make_model(s, 0, 9);
    ppo_tokens tokens = {0};
    make_tokens(s, SMALL(4, 2), 4, &tokens);
    ppo_rng rng = test_rng(5);
    int n = ppo_response_row(&tokens, tokens.count);
    std::vector<float> data = normal_floats(&rng, 4 * (size_t)n, 1);
    for (int i = 0; i < n; i++) data[(size_t)i] -= 2; /* log-probabilities */
    assert_ok(ppo_params_freeze(other->params, 0));
    told want = pass(lm, reference, &tokens, data);
    on_the_gpu();
    told got = pass(other, reference, &tokens, data);
    assert_ok(ppo_params_sync(other->params));
    assert_close_each(got.logp.data(), want.logp.data(), n, 1e-5);
    assert_close_each(got.entropy.data(), want.entropy.data(), n, 1e-5);
    assert_close_each(got.value.data(), want.value.data(), n, 1e-5);
    assert_close(got.loss, want.loss, 1e-5);
    check_params(other->params, lm->params, 1, 1e-5);
    on_the_processor();
    ppo_lm_free(reference);
    ppo_tokens_free(&tokens);
}

static void a_pass_gives_what_it_gives_on_the_processor(void **state) {
    (void)state;
    for (const model_shape &s : model_shapes) {
        ppo_lm *lm = make_model(s, 1, 3), *other = NULL;
        assert_ok(ppo_lm_copy(lm, 1, &other));
        check_pass(s, lm, other);
        ppo_lm_free(other);
        ppo_lm_free(lm);
    }
}

/* With blocks that are computed again, on the device. */
static void models_with_lora_pass_as_on_the_processor(void **state) {
    (void)state;
    for (int k : {0, 6, 8}) {
        const model_shape &s = model_shapes[k];
        ppo_lm *base = make_model(s, 0, 3), *lm = NULL, *other = NULL;
        ppo_lora lora = ppo_lora_default();
        ppo_rng rng = test_rng(6);
        lora.rank = 3;
        assert_ok(ppo_lm_adapt(base, &lora, 1, &lm));
        for (size_t k = 0; k < lm->params->count; k++) lm->params->data[k] += 0.1f * ppo_rng_normal(&rng);
        assert_ok(ppo_lm_copy(lm, 1, &other));
        recompute = 1;
        check_pass(s, lm, other);
        recompute = 0;
        ppo_tokens tokens = {0};
        float logp[4];
        make_tokens(s, 4, 4, &tokens);
        assert_ok(ppo_params_to_bf16(base->params));
        assert_ok(ppo_lm_logp(lm, &tokens, 4, logp));
        on_the_gpu();
        assert_fails(ppo_lm_logp(lm, &tokens, 4, logp), PPO_ERROR_ARGUMENT, "packed|processor");
        on_the_processor();
        ppo_tokens_free(&tokens);
        ppo_lm_free(other);
        ppo_lm_free(lm);
        ppo_lm_free(base);
    }
}

struct matrix {
    int rows, cols;
    std::vector<float> x;
};

static matrix normal_matrix(ppo_rng *rng, int rows, int cols, float scale) {
    return {rows, cols, normal_floats(rng, (size_t)(rows * cols), scale)};
}

/* loss_of(tape, parameters, 1 on the device) and its gradients are the same on both. */
template <class L> static void check_gradients(const std::vector<matrix> &of, L loss_of) {
    ppo_params *params[2] = {NULL, NULL};
    float loss[2];
    for (int there = 0; there < 2; there++) {
        ppo_tape *tape = NULL;
        assert_ok(ppo_params_create(&params[there]));
        for (const matrix &m : of) {
            const std::string name = "w" + std::to_string(&m - of.data());
            ppo_tensor *w = ppo_params_add(params[there], name.c_str(), m.rows, m.cols);
            assert_non_null(w);
            std::copy(m.x.begin(), m.x.end(), w->data);
        }
        if (there) on_the_gpu();
        assert_ok(ppo__tape_create_on(ppo__device_in_use, &tape));
        assert_ok(ppo__params_place(params[there], ppo__device_in_use));
        ppo_tensor *y = loss_of(tape, params[there]->tensors, there);
        assert_ok(ppo_tape_status(tape));
        ppo__tape_read(tape, y->data, 1, &loss[there]);
        ppo_params_zero_grad(params[there]);
        assert_ok(ppo_tape_backward(tape, y));
        assert_ok(ppo__tape_settle(tape));
        ppo_tape_free(tape);
    }
    assert_ok(ppo_params_sync(params[1]));
    assert_close(loss[1], loss[0], 1e-5);
    check_params(params[1], params[0], 1, 1e-5);
    on_the_processor();
    for (ppo_params *p : params) ppo_params_free(p);
}

/* Two layers, the second without a bias. */
static void layers_are_those_of_the_processor_whatever_their_activation(void **state) {
    (void)state;
    enum { ROWS = 37, IN = 5, HIDDEN = 19, OUT = 3 };
    ppo_rng rng = test_rng(6);
    std::vector<float> x = normal_floats(&rng, ROWS * IN, 1);
    std::vector<matrix> w = {normal_matrix(&rng, IN, HIDDEN, 0.5f), normal_matrix(&rng, 1, HIDDEN, 0.5f),
                             normal_matrix(&rng, HIDDEN, OUT, 0.5f)};
    for (int activation = 0; activation < PPO__ACTIVATIONS; activation++)
        check_gradients(w, [&](ppo_tape *tape, ppo_tensor *const *in, int) {
            ppo_tensor *y = ppo_tape_constant(tape, x.data(), ROWS, IN);
            y = ppo_tape_linear(tape, y, in[0], in[1], (ppo_activation)activation);
            y = ppo_tape_linear(tape, y, in[2], NULL, (ppo_activation)activation);
            return ppo_tape_mean(tape, ppo_tape_square(tape, y));
        });
}

/* Two attentions, with one head and with two, to the same rows. */
static void attentions_to_the_same_rows_add_their_gradients(void **state) {
    (void)state;
    enum { ROWS = 37, WIDTH = 6 };
    static const int start[] = {0, 3, 20, ROWS};
    ppo_rng rng = test_rng(8);
    check_gradients({normal_matrix(&rng, ROWS, 3 * WIDTH, 1)},
                    [](ppo_tape *tape, ppo_tensor *const *in, int) {
                        ppo_tensor *one = attend(tape, in[0], 1, start, 3);
                        ppo_tensor *two = attend(tape, in[0], 2, start, 3);
                        return ppo_tape_mean(tape, ppo_tape_square(tape, ppo_tape_add(tape, one, two)));
                    });
}

/* At two temperatures: rows equal or nearly equal to the reference, and tokens that both forbid. */
static void exact_kl_is_never_below_0_also_with_forbidden_tokens(void **state) {
    (void)state;
    enum { ROWS = 64, VOCAB = 40 };
    ppo_rng rng = test_rng(9);
    matrix z = normal_matrix(&rng, ROWS, VOCAB, 3);
    std::vector<float> kl[2], ref(ROWS * VOCAB);
    for (int i = 0; i < ROWS * VOCAB; i++) {
        const int row = i / VOCAB;
        if (i % 7 == 3) z.x[(size_t)i] = -INFINITY;
        ref[(size_t)i] = z.x[(size_t)i] * (1 + (float)(row % 4) * (row < ROWS / 2 ? 1e-4f : 0.2f));
    }
    for (std::vector<float> &k : kl) k.resize(2 * ROWS);
    check_gradients({z}, [&](ppo_tape *tape, ppo_tensor *const *in, int there) {
        ppo_tensor *to = ppo_tape_constant(tape, ref.data(), ROWS, VOCAB), *x[2];
        assert_non_null(to);
        for (int k = 0; k < 2; k++) {
            x[k] = ppo_tape_categorical_kl_to(tape, in[0], to->data, k ? 1 : 0.7f);
            assert_non_null(x[k]);
            ppo__tape_read(tape, x[k]->data, ROWS, &kl[there][(size_t)(k * ROWS)]);
        }
        return ppo_tape_mean(tape, ppo_tape_add(tape, x[0], x[1]));
    });
    for (float x : kl[1]) assert_true(x >= 0);
    assert_close_each(kl[1].data(), kl[0].data(), 2 * ROWS, 1e-5);
}

/* --------------------------------------------------------------------------------------------------------
   Sampling
   -------------------------------------------------------------------------------------------------------- */

struct sampled {
    std::vector<int> token, start;
    std::vector<float> logp;
    std::vector<unsigned char> ended;
};

static sampled sample(const ppo_lm *lm, const ppo_tokens *prompts, const ppo_sampling *how, int slots) {
    ppo_generator *generator = NULL;
    ppo_samples out;
    sampled copy;
    assert_ok(ppo_generator_create(lm, slots, &generator));
    for (int round = 0; round < 2; round++) assert_ok(ppo_generate(generator, prompts, how, &out));
    int n = out.tokens.start[out.tokens.count];
    copy.token.assign(out.tokens.token, out.tokens.token + n);
    copy.start.assign(out.tokens.start, out.tokens.start + out.tokens.count + 1);
    copy.logp.assign(out.logp, out.logp + n);
    copy.ended.assign(out.ended, out.ended + out.tokens.count);
    ppo_generator_free(generator);
    return copy;
}

/* No number drawn here is so close to a boundary that rounding could move it across. */
static void samples_are_those_of_the_processor(void **state) {
    (void)state;
    for (int k = 0; k < COUNT(model_shapes); k++) {
        const model_shape &s = model_shapes[k];
        ppo_lm *lm = make_model(s, 0, 13);
        ppo_tokens prompts = {0};
        for (int i = 0; i < 5; i++) {
            std::vector<int> token((size_t)(1 + i % 3), i % s.vocab);
            assert_ok(ppo_tokens_add(&prompts, token.data(), (int)token.size(), (int)token.size()));
        }
        ppo_sampling how[4];
        for (ppo_sampling &h : how) h = ppo_sampling_default(), h.eos = 1;
        how[1].temperature = 0.6f, how[1].top_k = 3;
        how[2].top_p = 0.7f, how[2].max_new_tokens = 4;
        how[3].greedy = 1;
        for (int i = SMALL(0, k % 4); i < 4; i += SMALL(1, 4)) { /* each with some of the shapes */
            const ppo_sampling &h = how[i];
            sampled want = sample(lm, &prompts, &h, 3);
            on_the_gpu();
            sampled got = sample(lm, &prompts, &h, 2);
            on_the_processor();
            assert_true(got.start == want.start && got.token == want.token && got.ended == want.ended);
            assert_close_each(got.logp.data(), want.logp.data(), (int)want.logp.size(), 1e-5);
        }
        ppo_lm_free(lm);
        ppo_tokens_free(&prompts);
    }
}

/* --------------------------------------------------------------------------------------------------------
   Training
   -------------------------------------------------------------------------------------------------------- */

static const model_shape small = {9, 10, 12, 2, 2};

static int keep_progress(const ppo_fit_progress *p, void *user) {
    ((std::vector<ppo_fit_progress> *)user)->push_back(*p);
    return 0;
}

enum { SFT, REWARD, DPO, FITS };

static void fit(int which, ppo_lm *lm, const ppo_lm *reference, std::vector<ppo_fit_progress> *progress) {
    ppo_tokens data[2] = {{0}, {0}};
    ppo_fit_config c = ppo_fit_config_default();
    c.batch_size = 6;
    c.micro_batch = 4;
    c.weight_decay = 0.1f;
    c.callback = keep_progress;
    c.callback_user = progress;
    for (int k = 0; k < 2; k++) make_tokens(small, SMALL(20, 9), 21 + (uint32_t)k, &data[k]);
    if (which == SFT) assert_ok(ppo_fit_sft(lm, &data[0], &c));
    if (which == REWARD) assert_ok(ppo_fit_reward(lm, &data[0], &data[1], &c));
    c.label_smoothing = 0.1f; /* of DPO */
    if (which == DPO) assert_ok(ppo_fit_dpo(lm, reference, &data[0], &data[1], &c));
    for (int k = 0; k < 2; k++) ppo_tokens_free(&data[k]);
}

static void supervised_training_is_that_of_the_processor(void **state) {
    (void)state;
    for (int which = SFT; which < FITS; which++) {
        ppo_lm *lm[2] = {make_model(small, 1, 31), NULL}, *reference = make_model(small, 0, 32);
        std::vector<ppo_fit_progress> progress[2];
        assert_ok(ppo_lm_copy(lm[0], 1, &lm[1]));
        for (int there = 0; there < 2; there++) {
            if (there) on_the_gpu();
            fit(which, lm[there], reference, &progress[there]);
        }
        on_the_processor();
        assert_int_equal(progress[0].size(), progress[1].size());
        for (size_t i = 0; i < progress[0].size(); i++) {
            const ppo_fit_progress &want = progress[0][i], &got = progress[1][i];
            assert_close(got.loss, want.loss, 1e-4);
            assert_close(got.grad_norm, want.grad_norm, 1e-3);
            assert_true(got.accuracy == want.accuracy || (isnan(got.accuracy) && isnan(want.accuracy)));
            assert_true(got.learning_rate == want.learning_rate);
        }
        check_params(lm[1]->params, lm[0]->params, 0, 1e-3);
        assert_int_equal(lm[1]->params->step, lm[0]->params->step);
        for (ppo_lm *g : lm) ppo_lm_free(g);
        ppo_lm_free(reference);
    }
}

static void check_measures(ppo_lm *lm, double tolerance) {
    ppo_tokens data = {0};
    float score[2][9], logp[2][9];
    make_tokens(small, 9, 34, &data);
    data.prompt[4] = data.start[5] - data.start[4]; /* a sequence without a response */
    for (int there = 0; there < 2; there++) {
        if (there) on_the_gpu();
        assert_ok(ppo_lm_scores(lm, &data, 4, score[there]));
        assert_ok(ppo_lm_logp(lm, &data, 4, logp[there]));
    }
    on_the_processor();
    assert_close_each(score[1], score[0], 9, tolerance);
    assert_close_each(logp[1], logp[0], 9, tolerance);
    ppo_tokens_free(&data);
}

static void measures_are_those_of_the_processor(void **state) {
    (void)state;
    ppo_lm *lm = make_model(small, 1, 33);
    check_measures(lm, 1e-5);
    float *bias = lm->block[0].qkv_bias->data;
    for (int j = 0; j < 2 * small.width; j++) bias[j] = j < small.width ? 20 : -20; /* scores far below 0 */
    check_measures(lm, 1e-3);
    ppo_lm_free(lm);
}

/* Tokens 3 and more are worth their number. */
static ppo_status rule(const ppo_samples *samples, float *reward, void *user) {
    (void)user;
    for (int s = 0; s < samples->tokens.count; s++) {
        reward[s] = 0;
        for (int i = samples->tokens.start[s]; i < samples->tokens.start[s + 1]; i++)
            reward[s] += samples->tokens.token[i] > 2 ? 0.1f * (float)samples->tokens.token[i] : 0;
    }
    return PPO_OK;
}

static ppo_rlhf_config rlhf_config(void) {
    ppo_rlhf_config c = ppo_rlhf_config_default();
    c.prompts = SMALL(4, 2);
    c.samples = 2;
    c.slots = SMALL(4, 3);
    c.minibatch_size = SMALL(5, 3);
    c.micro_batch = SMALL(3, 2);
    c.epochs = SMALL(2, 1);
    c.entropy_coef = 0.01f;
    c.sampling.eos = 2;
    c.sampling.temperature = 0.9f;
    return c;
}

static void add_prompts(ppo_tokens *prompts) {
    for (int i = 0; i < 7; i++) {
        int token[3] = {i % 9, (i * 5 + 1) % 9, 4};
        assert_ok(ppo_tokens_add(prompts, token, 1 + i % 3, 1 + i % 3));
    }
}

/* Some iterations of PPO on tokens: their progress, and the trained policy and critic, which may be NULL. */
static void train(const ppo_rlhf_config *c, int iterations, ppo_lm *policy, const ppo_lm *reference,
                  ppo_lm *critic, std::vector<ppo_rlhf_progress> *progress) {
    ppo_rlhf *rlhf = NULL;
    ppo_tokens prompts = {0};
    add_prompts(&prompts);
    assert_ok(ppo_rlhf_create(policy, reference, critic, &prompts, rule, NULL, c, &rlhf));
    for (int i = 0; i < iterations; i++) {
        ppo_rlhf_progress p;
        assert_ok(ppo_rlhf_iterate(rlhf, &p));
        progress->push_back(p);
    }
    ppo_rlhf_free(rlhf);
    ppo_tokens_free(&prompts);
}

static void check_progress(const ppo_rlhf_progress &got, const ppo_rlhf_progress &want) {
    const float a[] = {got.reward,      got.reward_std,    got.kl,       got.kl_k3,       got.entropy,
                       got.mean_length, got.ended,         got.distinct, got.policy_loss, got.value_loss,
                       got.approx_kl,   got.clip_fraction, got.kl_coef};
    const float b[] = {want.reward,      want.reward_std,    want.kl,       want.kl_k3,       want.entropy,
                       want.mean_length, want.ended,         want.distinct, want.policy_loss, want.value_loss,
                       want.approx_kl,   want.clip_fraction, want.kl_coef};
    assert_close_each(a, b, COUNT(a), 1e-3);
    assert_close(got.grad_norm, want.grad_norm, 1e-2);
    assert_close(got.first_ratio_min, 1, 1e-5);
    assert_close(got.first_ratio_max, 1, 1e-5);
}

static void ppo_on_tokens_is_that_of_the_processor(void **state) {
    (void)state;
    enum { KINDS = 10 };
    ppo_lm *reference = make_model(small, 0, 43);
    for (int kind = 0; kind < KINDS; kind++) {
        ppo_rlhf_config c = rlhf_config();
        int own_critic = kind == 1;
        if (kind == 1) c.critic_learning_rate = 1e-3f, c.bootstrap_truncated = 1, c.whiten_rewards = 1;
        if (kind == 2) c.kl_place = PPO_KL_IN_LOSS, c.kl_estimator = PPO_KL_EXACT, c.reference_every = 2;
        if (kind == 3)
            c.kl_place = PPO_KL_IN_LOSS, c.kl_estimator = PPO_K3, c.advantage = PPO_ADVANTAGE_GROUP;
        if (kind == 4) c.penalty_target_kl = 1, c.advantage = PPO_ADVANTAGE_LEAVE_ONE_OUT;
        if (kind == 5) c.kl_place = PPO_KL_IN_LOSS, c.kl_estimator = PPO_K2, c.importance_cap = 2;
        if (kind == 6) c.kl_place = PPO_KL_IN_LOSS, c.kl_estimator = PPO_KL_EXACT, c.kl_coef = 1;
        if (kind == 7) {
            c.kl_place = PPO_KL_IN_LOSS, c.kl_weighted = 1, c.advantage = PPO_ADVANTAGE_GROUP;
            c.ratio = PPO_RATIO_SEQUENCE, c.aggregation = PPO_AGGREGATE_SEQUENCES;
        }
        if (kind == 8) {
            c.kl_place = PPO_KL_IN_LOSS, c.kl_weighted = 1, c.kl_estimator = PPO_K3;
            c.advantage = PPO_ADVANTAGE_GROUP_MEAN, c.aggregation = PPO_AGGREGATE_CONSTANT, c.refills = 1;
            c.sampling.max_new_tokens = 6;
        }
        if (kind == 9) {
            c.objective.objective = PPO_CISPO, c.advantage = PPO_ADVANTAGE_RETURN, c.samples = 1;
            c.entropy_target = 1, c.importance_cap = 2, c.importance_mode = PPO_SEQUENCE_MASK;
        }
        std::vector<ppo_rlhf_progress> progress[2];
        ppo_lm *policy[2], *critic[2] = {NULL, NULL};
        for (int there = 0; there < 2; there++) {
            policy[there] = make_model(small, 1, 41);
            if (own_critic) critic[there] = make_model(small, 1, 42);
            if (there) on_the_gpu();
            train(&c,
                  kind == 2   ? 3
                  : kind == 4 ? 2
                              : 1,
                  policy[there], kind == 6 ? reference : NULL, critic[there], &progress[there]);
        }
        on_the_processor();
        for (size_t i = 0; i < progress[0].size(); i++) check_progress(progress[1][i], progress[0][i]);
        check_params(policy[1]->params, policy[0]->params, 0, 1e-3);
        if (own_critic) check_params(critic[1]->params, critic[0]->params, 0, 1e-3);
        for (int there = 0; there < 2; there++) ppo_lm_free(policy[there]), ppo_lm_free(critic[there]);
    }
    ppo_lm_free(reference);
}

static void training_again_gives_the_same_bits(void **state) {
    (void)state;
    std::vector<float> first;
    ppo_rlhf_config c = rlhf_config();
    for (uint32_t order : thread_orders) {
        if (SMALL(0, order == 1)) continue;
        std::vector<ppo_rlhf_progress> progress;
        ppo_lm *policy = make_model(small, 1, 43);
        on_the_gpu();
        set_thread_order(order);
        train(&c, 1, policy, NULL, NULL, &progress);
        on_the_processor();
        std::vector<float> now(policy->params->data, policy->params->data + policy->params->count);
        if (first.empty()) first = now;
        assert_false(bits_differ(now.data(), first.data(), now.size()));
        ppo_lm_free(policy);
    }
}

/* --------------------------------------------------------------------------------------------------------
   Models whose numbers are on the device
   -------------------------------------------------------------------------------------------------------- */

static void a_model_can_be_read_and_changed_after_a_sync(void **state) {
    (void)state;
    ppo_lm *lm = make_model(small, 1, 51), *copy = NULL;
    ppo_tokens data = {0};
    float before[5], there[5], changed[5], want[5];
    make_tokens(small, 5, 52, &data);
    assert_ok(ppo_lm_scores(lm, &data, 5, before));
    on_the_gpu();
    assert_ok(ppo_lm_scores(lm, &data, 5, there));
    assert_close_each(there, before, 5, 1e-5);
    assert_ok(ppo_params_sync(lm->params));
    for (int j = 0; j < small.width; j++) lm->score_weight->data[j] += 1;
    lm->score_bias->data[0] = 3;
    assert_ok(ppo_lm_scores(lm, &data, 5, changed));
    assert_ok(ppo_lm_copy(lm, 1, &copy));
    on_the_processor();
    assert_ok(ppo_lm_scores(copy, &data, 5, want));
    assert_close_each(changed, want, 5, 1e-5);
    assert_true(fabsf(changed[0] - before[0]) > 0.1f);
    ppo_lm_free(copy);
    ppo_lm_free(lm);
    ppo_tokens_free(&data);
}

/* Copying, saving and stepping a model by hand gives the same while its numbers are on the device. */
static void copies_and_steps_see_what_was_learned(void **state) {
    (void)state;
    std::vector<ppo_fit_progress> progress;
    ppo_lm *lm = make_model(small, 1, 53), *copy = NULL;
    ppo_adam adam = ppo_adam_default();
    float norm = 0;
    on_the_gpu();
    fit(SFT, lm, NULL, &progress);
    assert_ok(ppo_lm_copy(lm, 1, &copy));
    assert_ok(ppo_params_freeze(copy->params, 0));
    std::vector<float> learned(copy->params->data, copy->params->data + copy->params->count);
    assert_true(lm->params->mirror->counts);
    assert_ok(ppo_params_sync(lm->params));
    assert_false(bits_differ(lm->params->data, learned.data(), learned.size()));
    for (size_t i = 0; i < lm->params->count; i++) lm->params->grad[i] = copy->params->grad[i] = 0.01f;
    memcpy(copy->params->m, lm->params->m, lm->params->count * sizeof(float));
    memcpy(copy->params->v, lm->params->v, lm->params->count * sizeof(float));
    copy->params->step = lm->params->step;
    lm->params->lr_scale[3] = copy->params->lr_scale[3] = 0.5f;
    assert_ok(ppo__params_place(lm->params, ppo__device_in_use));
    assert_ok(ppo_params_step(lm->params, &adam, 0.5f, &norm));
    assert_ok(ppo_params_sync(lm->params));
    on_the_processor();
    float want = 0;
    assert_ok(ppo_params_step(copy->params, &adam, 0.5f, &want));
    assert_close(norm, want, 1e-5);
    check_params(lm->params, copy->params, 0, 1e-5);
    ppo_params_reset_optimizer(lm->params);
    ppo_lm_free(copy);
    ppo_lm_free(lm);
}

static void a_file_holds_what_was_learned(void **state) {
    (void)state;
    char path[] = "/tmp/test_cuda_models.XXXXXX";
    std::vector<ppo_fit_progress> progress;
    ppo_lm *lm = make_model(small, 1, 73), *loaded = NULL;
    const int file = mkstemp(path);
    assert_true(file >= 0);
    on_the_gpu();
    fit(SFT, lm, NULL, &progress);
    assert_ok(ppo_lm_save_file(lm, NULL, path));
    assert_ok(ppo_lm_load(path, &loaded));
    assert_ok(ppo_params_sync(lm->params));
    assert_false(bits_differ(loaded->params->data, lm->params->data, lm->params->count));
    on_the_processor();
    ppo_lm_free(loaded);
    ppo_lm_free(lm);
    close(file);
    unlink(path);
}

static void restarting_forgets_moments_there_too(void **state) {
    (void)state;
    std::vector<ppo_fit_progress> progress;
    ppo_lm *lm = make_model(small, 1, 54);
    on_the_gpu();
    fit(SFT, lm, NULL, &progress);
    ppo_params_reset_optimizer(lm->params);
    assert_ok(ppo_params_sync(lm->params));
    for (size_t i = 0; i < lm->params->count; i++) {
        assert_true(lm->params->m[i] == 0 && lm->params->v[i] == 0 && lm->params->grad[i] == 0);
    }
    ppo_lm_free(lm);
}

/* A tape of the user computes on the processor, with the numbers that the device trained. */
static void a_tape_on_the_processor_sees_what_was_learned(void **state) {
    (void)state;
    std::vector<ppo_fit_progress> progress;
    ppo_lm *lm = make_model(small, 1, 55);
    ppo_tokens data = {0};
    float there[4];
    ppo_tape *tape = NULL;
    make_tokens(small, 4, 56, &data);
    on_the_gpu();
    fit(SFT, lm, NULL, &progress);
    assert_ok(ppo_lm_scores(lm, &data, 4, there));
    assert_ok(ppo_tape_create(&tape));
    ppo_tensor *here = ppo_lm_sequence_score(tape, lm, &data);
    assert_ok(ppo_tape_status(tape));
    assert_close_each(there, here->data, 4, 1e-5);
    ppo_tape_free(tape);
    ppo_lm_free(lm);
    ppo_tokens_free(&data);
}

/* Steps of a loop of the user, which computes scores in between. */
static std::vector<float> steps_of_a_loop(void) {
    ppo_lm *lm = make_model(small, 1, 58);
    ppo_tokens data = {0};
    ppo_tape *tape = NULL;
    ppo_adam adam = ppo_adam_default();
    float score[4];
    make_tokens(small, 4, 59, &data);
    assert_ok(ppo_tape_create(&tape));
    for (int i = 0; i < 3; i++) {
        assert_ok(ppo_lm_scores(lm, &data, 4, score));
        ppo_params_zero_grad(lm->params);
        ppo_tape_reset(tape);
        ppo_response out = ppo_lm_response(tape, lm, &data, 1, PPO_POLICY);
        assert_ok(ppo_tape_backward(tape, ppo_tape_mean(tape, out.logp)));
        assert_ok(ppo_params_step(lm->params, &adam, 0.5f, NULL));
    }
    std::vector<float> end(lm->params->data, lm->params->data + lm->params->count);
    ppo_tape_free(tape);
    ppo_lm_free(lm);
    ppo_tokens_free(&data);
    return end;
}

static void a_loop_on_the_processor_may_ask_the_device_in_between(void **state) {
    (void)state;
    std::vector<float> want = steps_of_a_loop();
    on_the_gpu();
    std::vector<float> got = steps_of_a_loop();
    assert_false(bits_differ(got.data(), want.data(), want.size()));
}

/* Each has a device of its own; the model moves from one to the other, and then to the processor. */
static void a_model_may_go_to_the_device_of_another_thread(void **state) {
    (void)state;
    ppo_lm *lm = make_model(small, 1, 71), *other = NULL;
    ppo_tokens data = {0};
    std::vector<ppo_fit_progress> progress;
    float want[3], there[3], here[3];
    make_tokens(small, 3, 72, &data);
    assert_ok(ppo_lm_copy(lm, 1, &other));
    fit(SFT, other, NULL, &progress);
    fit(SFT, other, NULL, &progress);
    assert_ok(ppo_lm_scores(other, &data, 3, want));
    on_the_gpu();
    fit(SFT, lm, NULL, &progress);
    ppo_status status = PPO_ERROR_THREAD;
    std::thread([&] {
        status = ppo_use_cuda(0);
        if (!status) fit(SFT, lm, NULL, &progress);
        if (!status) status = ppo_lm_scores(lm, &data, 3, there);
        if (!status) status = ppo_use_cuda(-1);
    }).join();
    assert_int_equal(status, PPO_OK);
    assert_ok(ppo_lm_scores(lm, &data, 3, here));
    assert_close_each(there, want, 3, 1e-3);
    assert_false(bits_differ(here, there, 3));
    on_the_processor();
    ppo_lm_free(other);
    ppo_lm_free(lm);
    ppo_tokens_free(&data);
}

static void the_device_stays_while_trainers_are_there(void **state) {
    (void)state;
    ppo_lm *lm = make_model(small, 1, 57);
    ppo_generator *generator = NULL;
    on_the_gpu();
    assert_ok(ppo_generator_create(lm, 2, &generator));
    assert_fails(ppo_use_cuda(-1), PPO_ERROR_ARGUMENT, "generators");
    assert_fails(ppo_use_cuda(0), PPO_ERROR_ARGUMENT, "generators");
    assert_non_null(ppo__device_in_use);
    ppo_generator_free(generator);
    on_the_processor();
    on_the_processor();
    assert_fails(ppo_use_cuda(99), PPO_ERROR_DEVICE, "99");
    assert_null(ppo__device_in_use);
    assert_fails(ppo_use_cuda(-2), PPO_ERROR_ARGUMENT, "-2");
    ppo_lm_free(lm);
}

/* Stopped and continued with numbers that lie on the device, to the same bits; the best model is left. */
static int stop_at_once(const ppo_fit_progress *p, void *) { return p->step == 2; }

static void a_training_is_continued_from_its_checkpoint(void **state) {
    (void)state;
    const std::string path = "/tmp/ppo-cuda-fit-" + std::to_string(getpid());
    ppo_lm *lm[2] = {make_model(small, 1, 81), make_model(small, 1, 81)};
    ppo_tokens data = {0}, held_out = {0};
    make_tokens(small, 9, 82, &data);
    make_tokens(small, 5, 83, &held_out);
    on_the_gpu();
    for (int part = 0; part < 3; part++) { /* whole; the first two steps; the rest */
        ppo_fit_config c = ppo_fit_config_default();
        c.window = 6, c.random_windows = 1, c.steps = 4, c.batch_size = 3, c.weight_decay = 0.1f;
        c.held_out = &held_out, c.evaluate_every = 1, c.patience = 3;
        if (part == 1) c.callback = stop_at_once;
        if (part) c.checkpoint = path.c_str();
        assert_ok(ppo_fit_sft(lm[part > 0], &data, &c));
    }
    on_the_processor();
    for (ppo_lm *g : lm) assert_ok(ppo_params_sync(g->params));
    assert_int_equal(lm[0]->params->step, lm[1]->params->step);
    assert_false(bits_differ(lm[0]->params->data, lm[1]->params->data, lm[0]->params->count));
    assert_false(bits_differ(lm[0]->params->v, lm[1]->params->v, lm[0]->params->count));
    unlink(path.c_str());
    for (ppo_lm *g : lm) ppo_lm_free(g);
    ppo_tokens_free(&data), ppo_tokens_free(&held_out);
}

static void a_run_is_resumed_from_its_checkpoint(void **state) {
    (void)state;
    const std::string path = "/tmp/ppo-cuda-rlhf-" + std::to_string(getpid());
    ppo_lm *policy[2] = {make_model(small, 0, 84), make_model(small, 0, 84)};
    ppo_rlhf *rlhf[2] = {NULL, NULL};
    ppo_rlhf_config c = rlhf_config();
    ppo_rlhf_progress p[2];
    ppo_tokens prompts = {0};
    c.reference_every = 2;
    add_prompts(&prompts);
    on_the_gpu();
    assert_ok(ppo_rlhf_create(policy[0], NULL, NULL, &prompts, rule, NULL, &c, &rlhf[0]));
    for (int i = 0; i < 4; i++) {
        if (i == 3) assert_ok(ppo_rlhf_save(rlhf[0], path.c_str()));
        assert_ok(ppo_rlhf_iterate(rlhf[0], &p[0]));
    }
    assert_ok(ppo_rlhf_resume(path.c_str(), policy[1], NULL, NULL, &prompts, rule, NULL, &c, &rlhf[1]));
    assert_ok(ppo_rlhf_iterate(rlhf[1], &p[1]));
    assert_true(p[0].reward == p[1].reward && p[0].kl == p[1].kl && p[0].grad_norm == p[1].grad_norm);
    assert_true(p[0].value_loss == p[1].value_loss && p[0].iteration == p[1].iteration);
    for (ppo_rlhf *r : rlhf) ppo_rlhf_free(r);
    on_the_processor();
    for (ppo_lm *g : policy) assert_ok(ppo_params_sync(g->params));
    assert_false(bits_differ(policy[0]->params->data, policy[1]->params->data, policy[0]->params->count));
    unlink(path.c_str());
    for (ppo_lm *g : policy) ppo_lm_free(g);
    ppo_tokens_free(&prompts);
}

/* --------------------------------------------------------------------------------------------------------
   Failures
   -------------------------------------------------------------------------------------------------------- */

static void numbers_that_are_not_finite_are_reported_and_nothing_is_learned_from_them(void **state) {
    (void)state;
    ppo_lm *lm = make_model(small, 1, 61);
    ppo_tokens prompts = {0};
    ppo_rlhf *rlhf = NULL;
    ppo_rlhf_config c = rlhf_config();
    add_prompts(&prompts);
    on_the_gpu();
    assert_ok(ppo_rlhf_create(lm, NULL, lm, &prompts, rule, NULL, &c, &rlhf));
    assert_ok(ppo_params_sync(lm->params));
    lm->score_bias->data[0] = NAN; /* values are NaN, samples are not */
    std::vector<float> before(lm->params->data, lm->params->data + lm->params->count);
    assert_fails(ppo_rlhf_iterate(rlhf, NULL), PPO_ERROR_NUMERIC, "nan");
    assert_ok(ppo_params_sync(lm->params));
    assert_false(bits_differ(lm->params->data, before.data(), before.size()));
    lm->score_bias->data[0] = 0;
    lm->token_embedding->data[0] = NAN;
    assert_fails(ppo_rlhf_iterate(rlhf, NULL), PPO_ERROR_NUMERIC, "logits are not finite|sequence 0");
    assert_ok(ppo_params_sync(lm->params));
    lm->token_embedding->data[0] = 0;
    assert_ok(ppo_rlhf_iterate(rlhf, NULL));
    ppo_rlhf_free(rlhf);
    ppo_lm_free(lm);
    ppo_tokens_free(&prompts);
}

/* Several steps are queued at once; those from the first bad gradient on are not done. */
static void a_step_counts_only_if_it_was_done(void **state) {
    (void)state;
    ppo_params *params = NULL, *other = NULL;
    const ppo_adam adam = ppo_adam_default();
    float norm = 0, bad = NAN, good = 2;
    assert_ok(ppo_params_create(&params));
    assert_ok(ppo_params_create(&other));
    ppo_tensor *x = ppo_params_add(params, "x", 3, 100), *y = ppo_params_add(other, "y", 1, 3);
    on_the_gpu();
    for (int from = 0; from <= 30; from += 15) { /* the first bad step; 30: none */
        x->grad[7] = good, params->step = 0, other->step = 5;
        assert_ok(ppo__params_place(params, ppo__device_in_use));
        assert_ok(ppo__params_place(other, ppo__device_in_use));
        for (int i = 0; i < 30; i++) {
            float *there = params->mirror->grad + 7;
            assert_ok(ppo__device_in_use->write(ppo__device_in_use, there, i == from ? &bad : &good, 4));
            assert_ok(ppo__params_step(params, &adam, 1, 0, &norm));
            assert_ok(ppo__params_step(other, &adam, 1, 0, NULL));
        }
        if (from < 30) assert_fails(ppo_params_sync(params), PPO_ERROR_NUMERIC, "norm is NaN");
        assert_ok(ppo_params_sync(params));
        assert_ok(ppo_params_sync(other));
        assert_int_equal(params->step, from);
        assert_int_equal(other->step, 5 + from);
        assert_true(from == 0 || x->data[7] < 0);
    }
    x->grad[7] = NAN;
    assert_ok(ppo__params_place(params, ppo__device_in_use));
    assert_fails(ppo_params_step(params, &adam, 0, &norm), PPO_ERROR_NUMERIC, "optimizer step 31");
    assert_true(isnan(norm));
    assert_int_equal(params->step, 30);
    assert_fails(ppo__settle(ppo__device_in_use, ppo__params_step(params, &adam, NAN, 0, NULL)),
                 PPO_ERROR_ARGUMENT, "scale|nan");
    assert_int_equal(params->step, 30);
    ppo_params_free(params);
    ppo_params_free(other);
    (void)y;
}

static void a_loss_that_is_not_finite_stops_the_training(void **state) {
    (void)state;
    ppo_lm *lm = make_model(small, 1, 62);
    ppo_tokens data = {0};
    ppo_fit_config c = ppo_fit_config_default();
    make_tokens(small, 4, 63, &data);
    lm->norm_weight->data[2] = INFINITY;
    std::vector<float> before(lm->params->data, lm->params->data + lm->params->count);
    on_the_gpu();
    assert_fails(ppo_fit_sft(lm, &data, &c), PPO_ERROR_NUMERIC, "NaN");
    assert_fails(ppo_fit_reward(lm, &data, &data, &c), PPO_ERROR_NUMERIC, "pair_loss: row 0 gives NaN");
    assert_ok(ppo_params_sync(lm->params));
    assert_false(bits_differ(lm->params->data, before.data(), before.size()));
    ppo_lm_free(lm);
    ppo_tokens_free(&data);
}

static void heads_that_are_too_large_are_refused(void **state) {
    (void)state;
    const model_shape large = {4, 4, 514, 1, 2};
    ppo_lm *lm = make_model(large, 1, 64);
    ppo_tokens data = {0};
    float score[2];
    make_tokens(large, 2, 65, &data);
    on_the_gpu();
    assert_fails(ppo_lm_scores(lm, &data, 2, score), PPO_ERROR_ARGUMENT, "257|256");
    ppo_lm_free(lm);
    ppo_tokens_free(&data);
}

#ifndef __CUDACC__
/* The smallest training, from the switch to the device to the switch back: a step of each kind. */
static ppo_status tiny_job(void *user) {
    (void)user;
    ppo_lm_config shape = lm_config(4, 4, 4, 1, 1);
    ppo_lm *lm = NULL, *copy = NULL;
    ppo_tokens data = {0};
    ppo_rlhf *rlhf = NULL;
    ppo_rlhf_config c = ppo_rlhf_config_default();
    ppo_fit_config f = ppo_fit_config_default();
    const int token[3] = {1, 2, 3};
    float score;
    c.prompts = c.epochs = 1;
    c.sampling.max_new_tokens = 2;
    ppo_status status = ppo_use_cuda(0);
    if (!status) status = ppo_lm_create(&shape, &lm);
    if (!status) status = ppo_tokens_add(&data, token, 3, 1);
    if (!status) status = ppo_fit_sft(lm, &data, &f);
    if (!status) status = ppo_lm_copy(lm, 1, &copy);
    if (!status) status = ppo_lm_scores(copy, &data, 1, &score);
    if (!status) status = ppo_rlhf_create(lm, NULL, NULL, &data, rule, NULL, &c, &rlhf);
    if (!status) status = ppo_rlhf_iterate(rlhf, NULL);
    ppo_rlhf_free(rlhf);
    char error[PPO__ERROR_SIZE];
    memcpy(error, ppo__error, sizeof error);
    ppo_status back = ppo_use_cuda(-1);
    if (status) memcpy(ppo__error, error, sizeof error);
    ppo_lm_free(lm);
    ppo_lm_free(copy);
    ppo_tokens_free(&data);
    return status ? status : back;
}

static void an_allocation_that_fails_is_reported_and_leaves_nothing(void **state) {
    (void)state;
    fail_each_allocation(tiny_job, NULL);
    ppo_set_allocator(NULL, NULL);
}

/* Bytes that an update copies to the host, with a model of this width. */
static size_t bytes_of_an_update(int width) {
    const model_shape shape = {9, 14, width, 2, 2};
    ppo_lm *lm = make_model(shape, 1, 68);
    ppo_tokens prompts = {0};
    ppo_rlhf *rlhf = NULL;
    ppo_rlhf_config c = rlhf_config();
    ppo_samples samples;
    float reward[8] = {0};
    c.prompts = 4, c.minibatch_size = 5, c.micro_batch = 3;
    c.target_kl = 100; /* all steps are taken */
    add_prompts(&prompts);
    memset(&samples, 0, sizeof samples);
    std::vector<unsigned char> ended(8, 1);
    samples.ended = ended.data();
    for (int s = 0; s < 8; s++) {
        int token[6] = {s % 9, (s * 5 + 1) % 9, 4, 5, s % 3, 2};
        assert_ok(ppo_tokens_add(&samples.tokens, token, 6, 1));
    }
    on_the_gpu();
    assert_ok(ppo_rlhf_create(lm, NULL, NULL, &prompts, rule, NULL, &c, &rlhf));
    emulation.bytes_to_host = 0;
    assert_ok(ppo_rlhf_update(rlhf, &samples, reward, NULL));
    size_t bytes = emulation.bytes_to_host;
    ppo_rlhf_free(rlhf);
    on_the_processor();
    ppo_lm_free(lm);
    ppo_tokens_free(&prompts);
    ppo_tokens_free(&samples.tokens);
    return bytes;
}

/* Four numbers for each of 40 tokens, and the statistics of 8 micro-batches and 4 steps. */
static void an_update_copies_no_activations_to_the_host(void **state) {
    (void)state;
    size_t bytes = bytes_of_an_update(12);
    assert_int_equal(bytes_of_an_update(24), bytes);
    assert_in_range(bytes, 40 * 16, 40 * 16 + 600);
}

static void a_sync_that_fails_leaves_the_host_as_it_was(void **state) {
    (void)state;
    std::vector<ppo_fit_progress> progress;
    ppo_lm *lm = make_model(small, 1, 69);
    std::vector<float> before(lm->params->data, lm->params->data + lm->params->count);
    on_the_gpu();
    fit(SFT, lm, NULL, &progress);
    emulation.fail_at = 0;
    assert_fails(ppo_params_sync(lm->params), PPO_ERROR_MEMORY, "copy");
    assert_false(bits_differ(lm->params->data, before.data(), before.size()));
    assert_ok(ppo_params_sync(lm->params));
    assert_true(bits_differ(lm->params->data, before.data(), before.size()));
    ppo_lm_free(lm);
}

/* The functions of ppo__device, with copies that fill the staging memory more than once or are too large for
   it. */
static void a_device_copies_in_order_and_tells_the_first_failure(void **state) {
    (void)state;
    enum { COPIES = 100, LARGE = 2000 };
    std::vector<unsigned char> from(LARGE), to(LARGE), one(COPIES);
    on_the_gpu();
    ppo__device *device = ppo__device_in_use;
    char *there = (char *)device->take(device, LARGE);
    assert_non_null(there);
    for (int k = 0; k < COPIES; k++) { /* the source may change at once */
        from[0] = (unsigned char)k;
        assert_ok(device->write(device, there + k, from.data(), 1));
    }
    for (int k = 0; k < COPIES; k++) device->read(device, &one[(size_t)k], there + k, 1);
    assert_ok(device->settle(device));
    for (int k = 0; k < COPIES; k++) assert_int_equal(one[(size_t)k], k);
    for (int k = 0; k < LARGE; k++) from[(size_t)k] = (unsigned char)(k % 251);
    assert_ok(device->write(device, there, from.data(), LARGE));
    std::fill(from.begin(), from.end(), (unsigned char)0);
    device->read(device, to.data(), there, LARGE);
    assert_ok(device->settle(device));
    for (int k = 0; k < LARGE; k++) assert_int_equal(to[(size_t)k], k % 251);

    device->read(device, &one[0], there + 7, 1);
    emulation.fail_at = 1; /* the wait */
    assert_fails(device->settle(device), PPO_ERROR_MEMORY, "the device");
    assert_int_equal(one[0], 0);
    emulation.fail_at = 0;
    device->zero(device, there, LARGE);
    emulation.fail_at = 0, emulation.error = cudaErrorLaunchFailure;
    device->copy(device, there, there + 8, 8);
    assert_fails(device->settle(device), PPO_ERROR_MEMORY, "a fill");
    assert_ok(device->settle(device));
    emulation.fail_at = 0;
    assert_fails(ppo__settle(device, ppo_fail(PPO_ERROR_FILE, "earlier")), PPO_ERROR_FILE, "earlier");
    device->give(device, there);
}

/* A call that fails alone, in generation, is reported there, and not again by the next call. */
static void a_failure_is_told_once(void **state) {
    (void)state;
    ppo_lm *lm = make_model(small, 1, 70);
    ppo_tokens prompts = {0};
    ppo_generator *generator = NULL;
    ppo_samples out;
    ppo_sampling how = ppo_sampling_default();
    float score[2];
    const int token[2] = {3, 4};
    long k = 0;
    how.max_new_tokens = 1;
    for (int s = 0; s < 2; s++) assert_ok(ppo_tokens_add(&prompts, token, 1 + s, 1));
    on_the_gpu();
    emulation.error = cudaErrorLaunchFailure;
    emulation.fail_at = 0;
    assert_fails(ppo_generator_create(lm, 1, &generator), PPO_ERROR_DEVICE, "launch");
    assert_ok(ppo_generator_create(lm, 1, &generator));
    for (int failed = 1; failed; k++) {
        assert_ok(ppo_params_sync(lm->params)); /* writing them again may fail, too */
        emulation.fail_at = k;
        ppo_status status = ppo_generate(generator, &prompts, &how, &out);
        failed = emulation.fail_at < 0;
        emulation.fail_at = -1;
        assert_int_equal(status != PPO_OK, failed);
        assert_ok(ppo_lm_scores(lm, &prompts, 2, score));
    }
    assert_true(k > 40);
    ppo_generator_free(generator);
    ppo_lm_free(lm);
    ppo_tokens_free(&prompts);
}

/* The k-th call fails, alone or with all calls after it, as if memory were exhausted or the device lost:
   there is a status, everything is freed, and the processor can continue. */
static void a_call_that_fails_is_a_status_and_the_processor_goes_on(void **state) {
    (void)state;
    enum { FREES = 10 }; /* at most, at the end; their failures change nothing */
    emulation.calls = 0;
    assert_ok(tiny_job(NULL));
    const long calls = emulation.calls;
    for (long k = 0; k < calls; k += k < 40 ? 1 : SMALL(17, 53)) {
        for (int kind = 0; kind < 2; kind++) {
            emulation.fail_at = k;
            emulation.for_good = kind == 1;
            emulated::last_error = cudaSuccess;
            emulation.error = kind ? cudaErrorLaunchFailure : cudaErrorMemoryAllocation;
            ppo_fail(PPO_OK, "(no sentence)");
            ppo_status status = tiny_job(NULL);
            int failed = emulation.fail_at < 0 || kind;
            emulation.fail_at = -1;
            emulation.for_good = false;
            assert_null(ppo__device_in_use);
            if (emulation.live) fail_msg("%ld things are left after call %ld failed", emulation.live, k);
            if (failed && kind && k < calls - FREES &&
                (status != PPO_ERROR_DEVICE || !strstr(ppo_last_error(), "launch")))
                fail_msg("status %d after call %ld failed: %s", status, k, ppo_last_error());
            if (failed && !kind && status && status != PPO_ERROR_MEMORY)
                fail_msg("status %d after call %ld failed: %s", status, k, ppo_last_error());
        }
    }
    ppo_lm *lm = make_model(small, 1, 66);
    ppo_tokens data = {0};
    float score[3];
    make_tokens(small, 3, 67, &data);
    assert_ok(ppo_lm_scores(lm, &data, 3, score));
    ppo_lm_free(lm);
    ppo_tokens_free(&data);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        on_both(a_pass_gives_what_it_gives_on_the_processor),
        on_both(models_with_lora_pass_as_on_the_processor),
        on_both(layers_are_those_of_the_processor_whatever_their_activation),
        on_both(attentions_to_the_same_rows_add_their_gradients),
        on_both(exact_kl_is_never_below_0_also_with_forbidden_tokens),
        on_both(samples_are_those_of_the_processor),
        on_both(supervised_training_is_that_of_the_processor),
        on_both(measures_are_those_of_the_processor),
        on_both(ppo_on_tokens_is_that_of_the_processor),
        on_both(training_again_gives_the_same_bits),
        on_both(a_model_can_be_read_and_changed_after_a_sync),
        on_both(copies_and_steps_see_what_was_learned),
        on_both(a_file_holds_what_was_learned),
        on_both(restarting_forgets_moments_there_too),
        on_both(a_tape_on_the_processor_sees_what_was_learned),
        on_both(a_loop_on_the_processor_may_ask_the_device_in_between),
        on_both(a_model_may_go_to_the_device_of_another_thread),
        on_both(the_device_stays_while_trainers_are_there),
        on_both(a_training_is_continued_from_its_checkpoint),
        on_both(a_run_is_resumed_from_its_checkpoint),
        on_both(numbers_that_are_not_finite_are_reported_and_nothing_is_learned_from_them),
        on_both(a_step_counts_only_if_it_was_done),
        on_both(a_loss_that_is_not_finite_stops_the_training),
        on_both(heads_that_are_too_large_are_refused),
#ifndef __CUDACC__
        on_both(an_allocation_that_fails_is_reported_and_leaves_nothing),
        on_both(an_update_copies_no_activations_to_the_host),
        on_both(a_sync_that_fails_leaves_the_host_as_it_was),
        on_both(a_device_copies_in_order_and_tells_the_first_failure),
        on_both(a_failure_is_told_once),
        on_both(a_call_that_fails_is_a_status_and_the_processor_goes_on),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
