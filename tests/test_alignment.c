/* Section 21: supervised fine-tuning, reward models and DPO, on small languages whose entropy and preferences are
   known, and against Hugging Face's and TRL's numbers. */
#include "../ppo.h"
#include "../examples/companions/ppo_chat.h"
#include "../examples/companions/ppo_hub.h"
#include "../examples/companions/ppo_judge.h"
#include "../examples/companions/ppo_methods.h"
#include "../examples/companions/ppo_resume.h"

#include "golden/fit.h"
#include "golden/language.h"

#include "test.h"
#include "system.h"

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
   Data
   -------------------------------------------------------------------------------------------------------- */

enum { VOCAB = 6, LENGTH = 10 };

/* A language in which the next token depends on the last one alone. */
static const double chain[VOCAB][VOCAB] = {{0.0, 0.7, 0.1, 0.1, 0.1, 0.0}, {0.1, 0.0, 0.8, 0.0, 0.0, 0.1},
                                           {0.2, 0.2, 0.0, 0.2, 0.2, 0.2}, {0.5, 0.0, 0.0, 0.0, 0.5, 0.0},
                                           {0.0, 0.0, 0.0, 0.9, 0.0, 0.1}, {0.3, 0.3, 0.0, 0.0, 0.4, 0.0}};

static int draw(ppo_rng *rng, const double *p) {
    double u = ppo_rng_uniform(rng), sum = 0;
    for (int j = 0; j < VOCAB; j++)
        if (u < (sum += p[j])) return j;
    return 0;
}

/* Sequences of that language; *nats is what the language itself makes of the tokens after the first. */
static ppo_tokens sentences(uint32_t seed, int count, double *nats) {
    ppo_tokens tokens = {0};
    ppo_rng rng = test_rng(seed);
    double sum = 0;
    for (int s = 0; s < count; s++) {
        int text[LENGTH] = {ppo_rng_below(&rng, VOCAB)};
        for (int i = 1; i < LENGTH; i++) {
            text[i] = draw(&rng, chain[text[i - 1]]);
            sum -= log(chain[text[i - 1]][text[i]]);
        }
        assert_ok(ppo_tokens_add(&tokens, text, LENGTH, 1));
    }
    if (nats) *nats = sum / (count * (LENGTH - 1));
    return tokens;
}

static int count_of(const ppo_tokens *tokens, int s, int token) {
    int n = 0;
    for (int i = tokens->start[s]; i < tokens->start[s + 1]; i++) n += tokens->token[i] == token;
    return n;
}

/* Pairs with a prompt of two tokens and lengths that differ. The chosen one has more of token 3 after it. */
static void comparisons(uint32_t seed, int count, ppo_tokens *chosen, ppo_tokens *rejected) {
    ppo_rng rng = test_rng(seed);
    memset(chosen, 0, sizeof *chosen), memset(rejected, 0, sizeof *rejected);
    while (chosen->count < count) {
        int text[2][LENGTH], n[2], threes[2] = {0, 0};
        for (int k = 0; k < 2; k++) {
            n[k] = 4 + ppo_rng_below(&rng, LENGTH - 3);
            for (int i = 0; i < n[k]; i++) {
                text[k][i] = k && i < 2 ? text[0][i] : ppo_rng_below(&rng, VOCAB);
                threes[k] += i > 1 && text[k][i] == 3;
            }
        }
        if (threes[0] == threes[1]) continue;
        int better = threes[1] > threes[0];
        assert_ok(ppo_tokens_add(chosen, text[better], n[better], 2));
        assert_ok(ppo_tokens_add(rejected, text[!better], n[!better], 2));
    }
}

static ppo_lm *new_lm(int score) {
    ppo_lm_config c = lm_config(VOCAB, LENGTH, 16, 1, 2);
    ppo_lm *lm = NULL;
    c.score = score;
    assert_ok(ppo_lm_create(&c, &lm));
    return lm;
}

static double mean_of(const float *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    return sum / n;
}

/* -logp per token after the prompts */
static double loss_of(const ppo_lm *lm, const ppo_tokens *tokens) {
    float logp[512];
    assert_true(tokens->count <= COUNT(logp));
    assert_ok(ppo_lm_logp(lm, tokens, 32, logp));
    return -mean_of(logp, tokens->count) * tokens->count / ppo_response_row(tokens, tokens->count);
}

/* --------------------------------------------------------------------------------------------------------
   Progress
   -------------------------------------------------------------------------------------------------------- */

typedef struct fit_log {
    int calls, stop_at;
    const heap *h;
    long allocations[512];
    ppo_fit_progress p[512];
} fit_log;

static fit_log last_log;

static int keep_fit(const ppo_fit_progress *p, void *user) {
    fit_log *log = (fit_log *)user;
    assert_true(log->calls < COUNT(log->p));
    log->allocations[log->calls] = log->h ? log->h->calls : 0;
    log->p[log->calls++] = *p;
    return log->calls == log->stop_at;
}

static ppo_fit_config logged_config(void) {
    ppo_fit_config c = ppo_fit_config_default();
    memset(&last_log, 0, sizeof last_log);
    c.callback = keep_fit;
    c.callback_user = &last_log;
    return c;
}

/* --------------------------------------------------------------------------------------------------------
   Supervised fine-tuning
   -------------------------------------------------------------------------------------------------------- */

static void sft_learns_a_language_down_to_its_entropy(void **state) {
    (void)state;
    double nats;
    ppo_tokens data = sentences(50, 512, NULL), held_out = sentences(51, 200, &nats);
    ppo_lm *lm = new_lm(0);
    ppo_fit_config c = logged_config();
    c.epochs = 12, c.learning_rate = 1e-2f;
    assert_close(loss_of(lm, &held_out), log(VOCAB), 0.05);
    assert_ok(ppo_fit_sft(lm, &data, &c));
    double loss = loss_of(lm, &held_out);
    if (!(loss < nats + 0.05 && loss > nats - 0.02)) fail_msg("%g nats, the language has %g", loss, nats);
    assert_int_equal(last_log.calls, 12 * 16);
    assert_close(last_log.p[0].loss, log(VOCAB), 0.05);
    assert_true(fabs(last_log.p[12 * 16 - 1].loss - nats) < 0.15);
    ppo_tokens_free(&data), ppo_tokens_free(&held_out);
    ppo_lm_free(lm);
}

static void tokens_of_prompts_are_not_learned(void **state) {
    (void)state;
    ppo_tokens data = {0}, prompts = {0};
    ppo_rng rng = test_rng(52);
    ppo_lm *lm = new_lm(0);
    ppo_fit_config c = ppo_fit_config_default();
    float logp[2];
    for (int s = 0; s < 128; s++) {
        int text[6] = {1, 2};
        for (int i = 2; i < 6; i++) text[i] = 3 + ppo_rng_below(&rng, 3);
        assert_ok(ppo_tokens_add(&data, text, 6, 2));
    }
    assert_ok(ppo_tokens_add(&prompts, (const int[]){1, 2}, 2, 1)); /* how likely is 2 after 1? */
    assert_ok(ppo_tokens_add(&prompts, (const int[]){1, 2, 4}, 3, 2));
    c.epochs = 10, c.learning_rate = 1e-2f;
    assert_ok(ppo_fit_sft(lm, &data, &c));
    assert_ok(ppo_lm_logp(lm, &prompts, 2, logp));
    assert_true(logp[0] < -4);
    assert_close(logp[1], -log(3), 0.1);
    ppo_tokens_free(&data), ppo_tokens_free(&prompts);
    ppo_lm_free(lm);
}

/* The first step of training on Hugging Face's sequences: their loss, and the norm of their gradient. */
static void a_step_has_the_loss_and_gradient_of_transformers_however_it_is_divided(void **state) {
    (void)state;
    ppo_tokens tokens = golden_tokens(g_gpt_length, g_gpt_prompt, g_gpt_token, g_gpt_sequences);
    double squares = 0;
    for (int i = 0; i < g_gpt_params; i++) squares += (double)g_gpt_grad[i] * g_gpt_grad[i];
    for (int micro = 0; micro < 5; micro++) {
        ppo_lm *lm = golden_lm();
        ppo_fit_config c = logged_config();
        c.micro_batch = micro;
        assert_ok(ppo_fit_sft(lm, &tokens, &c));
        assert_int_equal(last_log.calls, 1);
        assert_close(last_log.p[0].loss, g_gpt_loss, 1e-6);
        assert_close(last_log.p[0].grad_norm, sqrt(squares), 1e-5);
        ppo_lm_free(lm);
    }
}

/* One step by hand, with all that a config says of it. */
static void a_step_is_adams_on_the_clipped_gradient_of_the_mean(void **state) {
    (void)state;
    ppo_tokens data = sentences(53, 16, NULL);
    ppo_lm *lm = random_lm(lm_config(VOCAB, LENGTH, 16, 1, 2), 0.2f), *copy = NULL;
    ppo_fit_config c = logged_config();
    ppo_adam adam = ppo_adam_default();
    c.weight_decay = 0.5f, c.max_grad_norm = 0.01f, c.learning_rate = 0.02f, c.warmup = 0;
    assert_ok(ppo_lm_copy(lm, 0, &copy));
    assert_ok(ppo_params_freeze(copy->params, 0));
    assert_ok(ppo_fit_sft(lm, &data, &c));
    ppo_tape_reset(tape);
    ppo_response out = ppo_lm_response(tape, copy, &data, 1, PPO_POLICY);
    assert_ok(ppo_tape_backward(tape, ppo_tape_scale(tape, ppo_tape_mean(tape, out.logp), -1, 0)));
    adam.lr = 0.02f, adam.weight_decay = 0.5f;
    float norm;
    assert_ok(ppo_params_step(copy->params, &adam, 0.01f, &norm));
    assert_close(last_log.p[0].grad_norm, norm, 1e-5);
    assert_close_array(lm->params->data, copy->params->data, (int)lm->params->count, 1e-5);
    assert_int_equal(lm->params->step, 1);
    ppo_tokens_free(&data);
    ppo_lm_free(lm), ppo_lm_free(copy);
}

/* Trains a model for some steps of each kind; the parameters stay in `data` [n]. */
enum { SFT, REWARD, DPO, KINDS };

static ppo_status fit(int kind, ppo_lm *lm, const ppo_lm *reference, const ppo_tokens *chosen,
                      const ppo_tokens *rejected, const ppo_fit_config *c) {
    if (kind == SFT) return ppo_fit_sft(lm, chosen, c);
    if (kind == REWARD) return ppo_fit_reward(lm, chosen, rejected, c);
    return ppo_fit_dpo(lm, reference, chosen, rejected, c);
}

static ppo_lm *fitted(int kind, const ppo_tokens *chosen, const ppo_tokens *rejected,
                      const ppo_fit_config *c) {
    ppo_lm_config config = lm_config(VOCAB, LENGTH, 16, 1, 2);
    ppo_lm *lm = random_lm(config, 0.2f), *reference = random_lm(config, 0.2f);
    assert_ok(fit(kind, lm, reference, chosen, rejected, c));
    ppo_lm_free(reference);
    return lm;
}

static void every_training_comes_out_alike_however_its_batches_are_divided(void **state) {
    (void)state;
    static const int micro[] = {0, 1, 3, 5, 100};
    ppo_tokens chosen, rejected;
    comparisons(54, 20, &chosen, &rejected);
    for (int kind = 0; kind < KINDS; kind++) {
        ppo_fit_config c = ppo_fit_config_default();
        c.batch_size = c.micro_batch = 8, c.epochs = 3;
        ppo_lm *whole = fitted(kind, &chosen, &rejected, &c);
        for (int k = 0; k < COUNT(micro); k++) {
            c.micro_batch = micro[k];
            ppo_lm *parts = fitted(kind, &chosen, &rejected, &c);
            assert_close_array(parts->params->data, whole->params->data, (int)whole->params->count, 1e-4);
            ppo_lm_free(parts);
        }
        ppo_lm_free(whole);
    }
    ppo_tokens_free(&chosen), ppo_tokens_free(&rejected);
}

/* Counts the bytes of all allocations. */
static size_t asked_for;

static void *measuring_heap(void *user, void *ptr, size_t size) {
    asked_for += size;
    return heap_hook(user, ptr, size);
}

static void by_default_memory_does_not_grow_with_the_batch(void **state) {
    (void)state;
    enum { N = 192 };
    static const int batch[] = {N / 3, N, N};
    ppo_tokens chosen, rejected;
    comparisons(71, N, &chosen, &rejected);
    for (int kind = 0; kind < KINDS; kind++) {
        size_t bytes[3];
        ppo_lm *lm[3];
        for (int k = 0; k < 3; k++) { /* the last one at once */
            heap h = {0, 0, -1, 0};
            ppo_fit_config c = ppo_fit_config_default();
            c.batch_size = batch[k], c.micro_batch = k == 2 ? N : 0, c.shards = k == 2;
            asked_for = 0;
            ppo_set_allocator(measuring_heap, &h);
            lm[k] = fitted(kind, &chosen, &rejected, &c);
            ppo_set_allocator(NULL, NULL);
            bytes[k] = asked_for;
        }
        assert_close_array(lm[1]->params->data, lm[2]->params->data, (int)lm[1]->params->count, 1e-4);
        const size_t sums =
            3 * lm[1]->params->count * sizeof(float); /* of shards: as many as wait at a time */
        assert_true(bytes[1] < bytes[0] + sums + 16384 && bytes[1] < bytes[2] / 2);
        for (int k = 0; k < 3; k++) ppo_lm_free(lm[k]);
    }
    ppo_tokens_free(&chosen), ppo_tokens_free(&rejected);
}

static void batches_above_the_data_are_all_of_it_and_take_no_more_memory(void **state) {
    (void)state;
    enum { N = 6 };
    static const int sizes[][2] = {{N, 0}, {N, N}, {N, 1 << 20}, {1 << 20, 0}, {INT_MAX, INT_MAX}};
    ppo_tokens chosen, rejected;
    comparisons(70, N, &chosen, &rejected);
    for (int kind = 0; kind < KINDS; kind++) {
        ppo_lm *want = NULL;
        size_t bytes = 0;
        for (int k = 0; k < COUNT(sizes); k++) {
            heap h = {0, 0, -1, 0};
            ppo_fit_config c = ppo_fit_config_default();
            c.batch_size = sizes[k][0], c.micro_batch = sizes[k][1], c.epochs = 2;
            asked_for = 0;
            ppo_set_allocator(measuring_heap, &h);
            ppo_lm *lm = fitted(kind, &chosen, &rejected, &c);
            ppo_set_allocator(NULL, NULL);
            if (!want) want = lm, bytes = asked_for;
            assert_int_equal(asked_for, bytes);
            assert_false(bits_differ(lm->params->data, want->params->data, want->params->count));
            if (lm != want) ppo_lm_free(lm);
        }
        ppo_lm_free(want);
    }
    ppo_tokens_free(&chosen), ppo_tokens_free(&rejected);
}

/* As for all trainings: what an optimizer knows of the last one is not used again. */
static void every_training_starts_its_optimizer_afresh(void **state) {
    (void)state;
    ppo_tokens chosen, rejected;
    ppo_lm *reference = random_lm(lm_config(VOCAB, LENGTH, 16, 1, 2), 0.1f);
    ppo_fit_config c = ppo_fit_config_default();
    comparisons(71, 12, &chosen, &rejected);
    c.batch_size = 4, c.epochs = 2;
    for (int kind = 0; kind < KINDS; kind++) {
        ppo_lm *a = fitted(kind, &chosen, &rejected, &c), *b = NULL, *worn = NULL;
        ppo_params_reset_optimizer(a->params);
        assert_ok(ppo_lm_copy(a, 0, &b));
        assert_ok(ppo_lm_copy(a, 0, &worn));
        assert_ok(ppo_params_freeze(worn->params, 0));
        for (size_t i = 0; i < worn->params->count; i++)
            worn->params->m[i] = worn->params->v[i] = worn->params->grad[i] = 1;
        worn->params->step = 1000;
        assert_ok(fit(kind, a, reference, &chosen, &rejected, &c));
        assert_ok(fit(kind, b, reference, &chosen, &rejected, &c));
        assert_ok(fit(kind, worn, reference, &chosen, &rejected, &c));
        assert_int_equal(worn->params->step, 6);
        assert_false(bits_differ(a->params->data, b->params->data, a->params->count));
        assert_false(bits_differ(a->params->data, worn->params->data, a->params->count));
        ppo_lm_free(a), ppo_lm_free(b), ppo_lm_free(worn);
    }
    ppo_lm_free(reference);
    ppo_tokens_free(&chosen), ppo_tokens_free(&rejected);
}

static void a_new_start_forgets_all_but_the_parameters(void **state) {
    (void)state;
    ppo_lm *lm = new_lm(1), *copy = NULL;
    ppo_params *p = lm->params;
    assert_ok(ppo_lm_copy(lm, 0, &copy));
    for (size_t i = 0; i < p->count; i++) p->grad[i] = p->m[i] = p->v[i] = 1;
    p->step = 7;
    ppo_params_reset_optimizer(p);
    for (size_t i = 0; i < p->count; i++) assert_true(p->grad[i] == 0 && p->m[i] == 0 && p->v[i] == 0);
    assert_int_equal(p->step, 0);
    assert_false(bits_differ(p->data, copy->params->data, p->count));
    ppo_params_reset_optimizer(NULL);
    ppo_lm_free(lm), ppo_lm_free(copy);
}

static void the_same_seed_gives_the_same_bits_and_another_another_order(void **state) {
    (void)state;
    ppo_tokens chosen, rejected;
    comparisons(55, 20, &chosen, &rejected);
    for (int kind = 0; kind < KINDS; kind++) {
        ppo_fit_config c = ppo_fit_config_default();
        c.batch_size = 7;
        ppo_lm *a = fitted(kind, &chosen, &rejected, &c), *b = fitted(kind, &chosen, &rejected, &c);
        assert_false(bits_differ(a->params->data, b->params->data, a->params->count));
        ppo_lm_free(b);
        c.seed = 2;
        b = fitted(kind, &chosen, &rejected, &c);
        assert_true(bits_differ(a->params->data, b->params->data, a->params->count));
        ppo_lm_free(a), ppo_lm_free(b);
    }
    ppo_tokens_free(&chosen), ppo_tokens_free(&rejected);
}

/* With steps that change next to nothing, losses of an epoch's batches have the mean of the whole data. */
static void an_epoch_sees_each_sequence_once_in_an_order_of_its_own(void **state) {
    (void)state;
    ppo_tokens data = sentences(56, 30, NULL);
    ppo_lm *lm = random_lm(lm_config(VOCAB, LENGTH, 16, 1, 2), 0.2f);
    ppo_fit_config c = logged_config();
    double loss = loss_of(lm, &data), sum = 0;
    c.batch_size = 12, c.epochs = 3, c.learning_rate = 1e-12f; /* batches of 10 */
    assert_ok(ppo_fit_sft(lm, &data, &c));
    assert_int_equal(last_log.calls, 9);
    for (int i = 0; i < 9; i++) {
        sum += last_log.p[i].loss;
        if (i % 3 == 2) assert_close(sum / 3, loss, 1e-5);
        if (i % 3 == 2) sum = 0;
        for (int j = 0; j < i; j++) assert_true(last_log.p[i].loss != last_log.p[j].loss);
    }
    ppo_tokens_free(&data);
    ppo_lm_free(lm);
}

/* --------------------------------------------------------------------------------------------------------
   Long texts, held-out data, and what is given
   -------------------------------------------------------------------------------------------------------- */

/* One sequence in arrays of the caller. */
static ppo_tokens one_text(const int *token, int n, int start[2]) {
    ppo_tokens text = {1, start, NULL, (int *)(uintptr_t)token, NULL, NULL};
    start[0] = 0, start[1] = n;
    return text;
}

/* nanoGPT's recipe: AdamW with decay of matrices alone, a warmup, a cosine to a least rate. */
static void a_training_on_windows_is_pytorchs_step_for_step(void **state) {
    (void)state;
    int start[2][2];
    ppo_tokens text = one_text(g_fit_token, g_fit_text, start[0]);
    ppo_tokens other = one_text(g_fit_other_token, g_fit_other, start[1]);
    ppo_lm *lm = golden_lm();
    ppo_fit_config c = logged_config();
    float kept[g_fit_kept];
    c.window = g_fit_window, c.steps = g_fit_steps, c.warmup_steps = g_fit_warm, c.micro_batch = 3;
    c.learning_rate = g_fit_rate, c.min_learning_rate = g_fit_least, c.max_grad_norm = g_fit_clip;
    c.adam_beta1 = g_fit_beta1, c.adam_beta2 = g_fit_beta2, c.adam_eps = g_fit_eps,
    c.weight_decay = g_fit_decay;
    c.held_out = &other;
    assert_ok(ppo_fit_sft(lm, &text, &c));
    assert_int_equal(last_log.calls, g_fit_steps);
    for (int i = 0; i < g_fit_steps; i++) {
        const ppo_fit_progress *p = &last_log.p[i];
        const float *want = g_fit_figures + 4 * i;
        assert_close(p->loss, want[0], 1e-5);
        assert_close(p->grad_norm, want[1], 1e-4);
        assert_close(p->learning_rate, want[2], 1e-6);
        assert_close(p->perplexity, want[3], 2e-5);
        assert_close(expf(p->held_out_loss), want[3], 2e-5);
        assert_nan(p->held_out_accuracy);
    }
    for (int i = 0; i < g_fit_kept; i++)
        kept[i] = lm->params->tensors[g_fit_kept_tensor[i]]->data[g_fit_kept_place[i]];
    assert_close_array(kept, g_fit_kept_number, g_fit_kept, 1e-4);
    ppo_lm_free(lm);
}

/* Sequences with prompts and marks in one text: the same loss as windows that are cut and marked by hand. */
static void windows_learn_each_token_once_but_those_that_are_given(void **state) {
    (void)state;
    enum { W = 7 };
    ppo_lm *lm = random_lm(lm_config(VOCAB, LENGTH, 16, 1, 2), 0.3f);
    ppo_tokens data = {0}, windows = {0};
    ppo_rng rng = test_rng(90);
    int given[200], learned = 0;
    for (int s = 0, at = 0; s < 12; s++) {
        int n = 1 + ppo_rng_below(&rng, 15), prompt = ppo_rng_below(&rng, n + 1) / 2;
        add_random(&data, &rng, VOCAB, n, prompt); /* also sequences above the context */
        int first = ppo_rng_below(&rng, n), marked = s % 3 == 0 ? n - first : 0;
        if (s == 3) first = 0, marked = n;
        assert_ok(ppo_tokens_mark_given(&data, first, marked));
        for (int i = 0; i < n; i++) given[at++] = i < prompt || (i >= first && i < first + marked);
    }
    const int all = data.start[data.count];
    for (int i = 1; i < all; i++) learned += !given[i];
    for (int at = 0; at < all - 1; at += W - 1) {
        int n = all - at < W ? all - at : W, some = 0;
        assert_ok(ppo_tokens_add(&windows, data.token + at, n, 1));
        for (int i = 1; i < n; i++)
            if (given[at + i]) assert_ok(ppo_tokens_mark_given(&windows, i, 1));
            else some = 1;
        if (!some) --windows.count; /* nothing to learn */
    }
    assert_int_equal(ppo_response_row(&windows, windows.count), learned);
    for (int micro = 0; micro < 4; micro++) {
        ppo_lm *copy = NULL;
        ppo_fit_config c = logged_config();
        assert_ok(ppo_lm_copy(lm, 0, &copy));
        c.window = W, c.batch_size = 1000, c.micro_batch = micro, c.held_out = &data;
        assert_ok(ppo_fit_sft(copy, &data, &c));
        assert_int_equal(last_log.calls, 1);
        assert_close(last_log.p[0].loss, loss_of(lm, &windows), 1e-5);
        assert_close(last_log.p[0].held_out_loss, loss_of(copy, &windows), 1e-5);
        ppo_lm_free(copy);
    }
    ppo_fit_config c = logged_config(); /* the first token after a window: it is no item */
    ppo_tokens_clear(&data);
    add_random(&data, &rng, VOCAB, 2 * W, 1);
    assert_ok(ppo_tokens_mark_given(&data, 0, 2 * W));
    data.given[W] = 0, c.window = W, c.batch_size = 1;
    assert_ok(ppo_fit_sft(lm, &data, &c));
    assert_int_equal(last_log.calls, 1);
    ppo_tokens_free(&data), ppo_tokens_free(&windows);
    ppo_lm_free(lm);
}

/* Two tokens of a long text are to be learned, far from each other: every window has one of them, at any place. */
static void random_windows_begin_anywhere_and_have_something_to_learn(void **state) {
    (void)state;
    enum { N = 60, W = 5, STEPS = 300 };
    ppo_lm *lm = random_lm(lm_config(VOCAB, LENGTH, 16, 1, 2), 0.5f);
    ppo_tokens data = {0};
    ppo_rng rng = test_rng(91);
    ppo_fit_config c = logged_config();
    float logp[2 * W];
    int seen[2 * W] = {0}, places = 0;
    add_random(&data, &rng, VOCAB, N, 1);
    assert_ok(ppo_tokens_mark_given(&data, 0, N));
    data.given[25] = data.given[N - 10] = 0;
    for (int k = 0; k < 2 * W; k++) { /* the token is the k-th of a window */
        int at = (k < W ? 25 : N - 10) - k % W;
        ppo_tokens window = {0};
        if (k % W == 0) continue;
        assert_ok(ppo_tokens_add(&window, data.token + at, k % W + 1, k % W));
        assert_ok(ppo_lm_logp(lm, &window, 1, &logp[k]));
        ppo_tokens_free(&window);
    }
    c.window = W, c.random_windows = 1, c.batch_size = 1, c.steps = STEPS, c.learning_rate = 1e-12f;
    assert_ok(ppo_fit_sft(lm, &data, &c));
    assert_int_equal(last_log.calls, STEPS);
    for (int i = 0; i < STEPS; i++) {
        int found = 0;
        for (int k = 1; k < 2 * W; k++) {
            if (k % W == 0 || fabsf(last_log.p[i].loss + logp[k]) > 1e-5f) continue;
            found = 1, places += !seen[k], seen[k] = 1;
        }
        assert_true(found);
    }
    assert_int_equal(places, 8);
    data.given[25] = data.given[N - 10] = 1, data.given[N - 1] = 0; /* only the last window has it */
    c.steps = 3;
    assert_ok(ppo_fit_sft(lm, &data, &c));
    ppo_tokens_free(&data);
    ppo_lm_free(lm);
}

static void steps_may_end_in_the_middle_of_an_epoch_or_after_several(void **state) {
    (void)state;
    ppo_tokens data = sentences(92, 12, NULL);
    for (int steps = 1; steps < 9; steps++) {
        ppo_lm *lm = new_lm(0);
        ppo_fit_config c = logged_config();
        c.batch_size = 4, c.steps = steps, c.held_out = &data;
        assert_ok(ppo_fit_sft(lm, &data, &c));
        assert_int_equal(last_log.calls, steps);
        for (int i = 0; i < steps; i++) {
            const ppo_fit_progress *p = &last_log.p[i];
            assert_true(p->steps == steps && p->epoch == 1 + i / 3);
            assert_int_equal(!isnan(p->held_out_loss),
                             i % 3 == 2 || i == steps - 1); /* of an epoch, or the last */
        }
        ppo_lm_free(lm);
    }
    ppo_tokens_free(&data);
}

/* Of pairs, the losses of whole functions over arrays. */
static void held_out_data_are_measured_after_the_step(void **state) {
    (void)state;
    enum { N = 9 };
    ppo_lm_config config = lm_config(VOCAB, LENGTH, 16, 1, 2);
    ppo_tokens chosen, rejected, held, held_rejected;
    comparisons(93, 20, &chosen, &rejected), comparisons(94, N, &held, &held_rejected);
    for (int kind = 0; kind < KINDS; kind++) {
        ppo_lm *lm = random_lm(config, 0.2f), *reference = random_lm(config, 0.1f);
        ppo_fit_config c = logged_config();
        float x[4][N], loss = 0;
        int right = 0;
        c.held_out = &held, c.held_out_rejected = kind == SFT ? NULL : &held_rejected;
        c.batch_size = 5, c.micro_batch = 2, c.evaluate_every = 3, c.learning_rate = 1e-2f;
        assert_ok(fit(kind, lm, reference, &chosen, &rejected, &c));
        assert_int_equal(last_log.calls, 4);
        assert_true(isnan(last_log.p[1].held_out_loss) && last_log.p[2].held_out_loss > 0);
        const ppo_fit_progress *p = &last_log.p[3];
        for (int k = 0; k < 4; k++) {
            const ppo_tokens *data = k % 2 ? &held_rejected : &held;
            if (kind == DPO) assert_ok(ppo_lm_logp(k < 2 ? lm : reference, data, 4, x[k]));
            else assert_ok(ppo_lm_scores(lm, data, 4, x[k]));
        }
        for (int i = 0; i < N; i++)
            right += kind == DPO ? x[0][i] - x[1][i] > x[2][i] - x[3][i] : x[0][i] > x[1][i];
        if (kind == DPO) assert_ok(ppo_dpo_loss(x[0], x[1], x[2], x[3], N, c.beta, 0, &loss, NULL, NULL));
        if (kind == REWARD) assert_ok(ppo_pairwise_loss(x[0], x[1], N, &loss, NULL, NULL));
        const float held_out_loss = p->held_out_loss, accuracy = p->held_out_accuracy;
        assert_close(held_out_loss, kind == SFT ? loss_of(lm, &held) : (double)loss, 1e-5);
        if (kind == SFT) assert_true(isnan(accuracy) && p->perplexity > 1);
        else assert_true(isnan(p->perplexity) && fabsf(accuracy - (float)right / N) < 1e-6f);
        c.evaluate_first = 1, last_log.calls = 0;
        assert_ok(fit(kind, lm, reference, &chosen, &rejected, &c));
        assert_int_equal(last_log.calls, 5);
        p = &last_log.p[0];
        assert_true(p->step == 0 && isnan(p->loss) && isnan(p->accuracy) && isnan(p->grad_norm));
        assert_true(p->held_out_loss == held_out_loss && last_log.p[1].step == 1);
        assert_true(kind == SFT ? p->perplexity > 1 : p->held_out_accuracy == accuracy);
        ppo_lm_free(lm), ppo_lm_free(reference);
    }
    ppo_tokens_free(&chosen), ppo_tokens_free(&rejected);
    ppo_tokens_free(&held), ppo_tokens_free(&held_rejected);
}

/* Few data are learned by heart; what was best for others is what is left. */
static void patience_ends_a_training_and_leaves_the_best_model(void **state) {
    (void)state;
    ppo_tokens data = sentences(95, 4, NULL), held_out = sentences(96, 60, NULL);
    ppo_lm *lm = new_lm(0);
    ppo_fit_config c = logged_config();
    float best = INFINITY;
    c.epochs = 200, c.learning_rate = 2e-2f, c.held_out = &held_out, c.evaluate_every = 2, c.patience = 3;
    assert_ok(ppo_fit_sft(lm, &data, &c));
    assert_true(last_log.calls < 100 && last_log.calls % 2 == 0);
    for (int i = 1, since = 0; i < last_log.calls; i += 2) {
        since = last_log.p[i].held_out_loss < best ? 0 : since + 1;
        best = fminf(best, last_log.p[i].held_out_loss);
        assert_int_equal(since == 3, i == last_log.calls - 1);
    }
    assert_close(loss_of(lm, &held_out), best, 1e-6);
    ppo_lm *again = NULL; /* patience is remembered by a checkpoint */
    const char *path = scratch_path("fit");
    const int calls = last_log.calls;
    int done = 0;
    remove(path);
    for (last_log.calls = 1; last_log.calls; done += last_log.calls) {
        ppo_lm_free(again);
        again = new_lm(0);
        memset(&last_log, 0, sizeof last_log);
        last_log.stop_at = 5;
        c.checkpoint = path;
        assert_ok(ppo_fit_sft(again, &data, &c));
    }
    assert_int_equal(done, calls);
    assert_false(bits_differ(again->params->data, lm->params->data, lm->params->count));
    remove(path);
    ppo_tokens_free(&data), ppo_tokens_free(&held_out);
    ppo_lm_free(lm), ppo_lm_free(again);
}

/* Another speaker's turns in the middle of a dialogue: the loss and its gradient are those of the other rows. */
static void tokens_that_are_given_are_not_learned(void **state) {
    (void)state;
    enum { N = 12 };
    ppo_lm_config config = lm_config(VOCAB, LENGTH, 16, 1, 2);
    ppo_tokens bare[2], marked[2] = {{0}, {0}};
    static int row[2][N * LENGTH];
    comparisons(97, N, &bare[0], &bare[1]);
    for (int k = 0; k < 2; k++)
        for (int s = 0; s < N; s++) {
            int length = bare[k].start[s + 1] - bare[k].start[s];
            assert_ok(ppo_tokens_add_from(&marked[k], &bare[k], s));
            if (length > 4) assert_ok(ppo_tokens_mark_given(&marked[k], 2 + s % 2, 2));
        }
    for (int kind = 0; kind < KINDS; kind++) {
        ppo_lm *lm = random_lm(config, 0.3f), *reference = random_lm(config, 0.1f), *copy = NULL;
        ppo_fit_config c = logged_config();
        ppo_tensor *sum[2] = {NULL, NULL};
        float ref[2][N], norm = 0;
        c.micro_batch = 5, c.max_grad_norm = 0, c.learning_rate = 1e-2f;
        assert_ok(ppo_lm_copy(lm, 0, &copy));
        assert_ok(ppo_params_freeze(copy->params, 0));
        ppo_tape_reset(tape);
        for (int k = 0; k < 2; k++) {
            int n = 0, at = 0;
            for (int s = 0; s < N; s++)
                for (int i = bare[k].start[s] + 2; i < bare[k].start[s + 1]; i++, at++)
                    if (!marked[k].given[i]) row[k][n++] = at;
            assert_int_equal(n, ppo_response_row(&marked[k], N));
            assert_ok(ppo_lm_logp(reference, &marked[k], 5, ref[k]));
            ppo_tensor *logp = ppo_lm_response(tape, copy, &bare[k], 1, PPO_POLICY).logp;
            logp = ppo_tape_embedding(tape, logp, row[k], n);
            sum[k] = kind == SFT   ? ppo_tape_scale(tape, ppo_tape_mean(tape, logp), -1, 0)
                     : kind == DPO ? ppo_tape_sequence_sum(tape, logp, &marked[k])
                                   : ppo_lm_sequence_score(tape, copy, &bare[k]);
        }
        ppo_tensor *loss = kind == SFT ? sum[0]
                           : kind == REWARD
                               ? ppo_tape_pairwise_loss(tape, sum[0], sum[1])
                               : ppo_tape_dpo_loss(tape, sum[0], sum[1], ref[0], ref[1], c.beta, 0);
        assert_ok(ppo_tape_backward(tape, loss));
        double want = loss->data[0];
        for (size_t i = 0; i < copy->params->count; i++)
            norm += copy->params->grad[i] * copy->params->grad[i];
        assert_ok(fit(kind, lm, reference, &marked[0], &marked[1], &c));
        assert_close(last_log.p[0].loss, want, 1e-5);
        assert_close(last_log.p[0].grad_norm, sqrtf(norm), 1e-4);
        ppo_lm_free(lm), ppo_lm_free(reference), ppo_lm_free(copy);
    }
    for (int k = 0; k < 2; k++) ppo_tokens_free(&bare[k]), ppo_tokens_free(&marked[k]);
}

static void settings_of_windows_and_held_out_data_must_fit(void **state) {
    (void)state;
    static const struct {
        const char *settings;
        int pairs, held_out; /* 1: held_out; 2: also held_out_rejected */
        const char *words;
    } bad[] = {{"window=1", 0, 0, "window is 1, must be 2 to 10"},
               {"window=11", 0, 0, "window is 11, must be 2 to 10, the context"},
               {"window=5", 1, 0, "window is 5|pairs"},
               {"random_windows=yes", 0, 0, "random_windows is yes, but has no effect: window is 0"},
               {"epochs=2 steps=9", 0, 0, "epochs is 2, but has no effect: steps is 9"},
               {"warmup=0.1 warmup_steps=2", 0, 0, "warmup is 0.1, but has no effect"},
               {"min_learning_rate=1e-4 learning_rate_schedule=constant", 0, 0,
                "min_learning_rate is 0.0001|effect"},
               {"min_learning_rate=1e-2", 0, 0, "min_learning_rate is 0.01, above learning_rate"},
               {"patience=1", 0, 0, "held_out, which is NULL"},
               {"evaluate_every=1", 0, 0, "held_out, which is NULL"},
               {"evaluate_first=yes", 0, 0, "held_out, which is NULL"},
               {"", 0, 2, "held_out_rejected is not NULL|none"},
               {"", 1, 1, "held_out_rejected is NULL|pairs"}};
    ppo_tokens chosen, rejected;
    ppo_lm *lm = new_lm(1);
    comparisons(98, 5, &chosen, &rejected);
    for (int i = 0; i < COUNT(bad); i++) {
        ppo_fit_config c = ppo_fit_config_default();
        assert_ok(ppo_settings_set_all(ppo_fit_settings(), &c, bad[i].settings));
        if (bad[i].held_out) c.held_out = &chosen;
        if (bad[i].held_out == 2) c.held_out_rejected = &rejected;
        assert_fails(fit(bad[i].pairs ? REWARD : SFT, lm, lm, &chosen, &rejected, &c), PPO_ERROR_ARGUMENT,
                     bad[i].words);
    }
    ppo_fit_config c = ppo_fit_config_default();
    c.held_out = &rejected;
    int kept = rejected.token[1];
    rejected.token[1] = VOCAB;
    assert_fails(ppo_fit_sft(lm, &chosen, &c), PPO_ERROR_ARGUMENT,
                 "held-out data: token 6 (sequence 0, position 1)");
    rejected.token[1] = kept;
    c.window = 4, c.held_out = NULL;
    for (int s = 0; s < 5; s++) chosen.prompt[s] = chosen.start[s + 1] - chosen.start[s];
    assert_fails(ppo_fit_sft(lm, &chosen, &c), PPO_ERROR_ARGUMENT, "no token after the prompts");
    chosen.start[2] = chosen.start[1];
    assert_fails(ppo_fit_sft(lm, &chosen, &c), PPO_ERROR_ARGUMENT, "sequence 1 has 0 tokens");
    ppo_tokens_free(&chosen), ppo_tokens_free(&rejected);
    ppo_lm_free(lm);
}

/* --------------------------------------------------------------------------------------------------------
   Comparisons
   -------------------------------------------------------------------------------------------------------- */

/* Checks a loss of pairs and its gradients; wanted are those of the mean. */
static void check_pairs(ppo_tensor *loss, double want, const float *grad[2], const float *want_grad[2],
                        int n) {
    assert_ok(ppo_tape_backward(tape, loss));
    assert_close(loss->data[0], want, 1e-6);
    for (int k = 0; k < 2; k++) assert_close_array(grad[k], want_grad[k], n, 1e-6);
}

static void losses_of_pairs_on_the_tape_agree_with_trl(void **state) {
    (void)state;
    const float *want[2] = {g_pairs_grad_chosen_0, g_pairs_grad_rejected_0};
    float data[2][g_rmodel_n], grad[2][g_rmodel_n];
    const float *grads[2] = {grad[0], grad[1]};
    ppo_tensor chosen = {g_pairs_n, 1, data[0], grad[0]}, rejected = {g_pairs_n, 1, data[1], grad[1]};
    memcpy(data[0], g_pairs_chosen, sizeof g_pairs_chosen),
        memcpy(data[1], g_pairs_rejected, sizeof g_pairs_rejected);
    for (int smooth = 0; smooth < 2; smooth++) {
        memset(grad, 0, sizeof grad);
        ppo_tape_reset(tape);
        check_pairs(ppo_tape_dpo_loss(tape, &chosen, &rejected, g_pairs_ref_chosen, g_pairs_ref_rejected,
                                      g_pairs_beta, smooth ? 0.1f : 0),
                    mean_of(smooth ? g_pairs_loss_1 : g_pairs_loss_0, g_pairs_n), grads, want, g_pairs_n);
        want[0] = g_pairs_grad_chosen_1, want[1] = g_pairs_grad_rejected_1;
    }
    chosen.rows = rejected.rows = g_rmodel_n;
    memcpy(data[0], g_rmodel_chosen, sizeof data[0]), memcpy(data[1], g_rmodel_rejected, sizeof data[1]);
    memset(grad, 0, sizeof grad);
    want[0] = g_rmodel_grad_chosen_0, want[1] = g_rmodel_grad_rejected_0;
    ppo_tape_reset(tape);
    check_pairs(ppo_tape_pairwise_loss(tape, &chosen, &rejected), g_rmodel_loss_0, grads, want, g_rmodel_n);
}

static double share_above(const float *a, const float *b, int n) {
    int above = 0;
    for (int i = 0; i < n; i++) above += a[i] > b[i];
    return (double)above / n;
}

static void a_reward_model_learns_a_preference_and_tells_it_of_new_pairs(void **state) {
    (void)state;
    enum { HELD_OUT = 150 };
    ppo_tokens chosen, rejected, new_chosen, new_rejected;
    float good[HELD_OUT], bad[HELD_OUT];
    ppo_lm *lm = new_lm(1);
    ppo_fit_config c = logged_config();
    comparisons(57, 500, &chosen, &rejected), comparisons(58, HELD_OUT, &new_chosen, &new_rejected);
    c.epochs = 10, c.learning_rate = 1e-2f;
    assert_ok(ppo_fit_reward(lm, &chosen, &rejected, &c));
    assert_close(last_log.p[0].loss, log(2), 1e-6); /* the score starts at 0 for all */
    assert_true(last_log.p[0].accuracy == 0);
    assert_true(last_log.p[last_log.calls - 1].accuracy > 0.9f);
    assert_ok(ppo_lm_scores(lm, &new_chosen, 32, good));
    assert_ok(ppo_lm_scores(lm, &new_rejected, 32, bad));
    double share = share_above(good, bad, HELD_OUT);
    if (!(share > 0.93)) fail_msg("%g of new pairs are told right", share);
    assert_true(count_of(&new_chosen, 0, 3) > 0);
    ppo_tokens_free(&chosen), ppo_tokens_free(&rejected);
    ppo_tokens_free(&new_chosen), ppo_tokens_free(&new_rejected);
    ppo_lm_free(lm);
}

static void dpo_raises_the_chosen_above_the_rejected_and_leaves_the_reference(void **state) {
    (void)state;
    enum { N = 96 };
    ppo_tokens chosen, rejected;
    float now[2][N], before[2][N];
    ppo_lm *lm = random_lm(lm_config(VOCAB, LENGTH, 16, 1, 2), 0.1f), *reference = NULL, *copy = NULL;
    ppo_fit_config c = logged_config();
    comparisons(59, N, &chosen, &rejected);
    assert_ok(ppo_lm_copy(lm, 0, &reference));
    assert_ok(ppo_lm_copy(lm, 0, &copy));
    c.epochs = 8, c.learning_rate = 3e-3f, c.micro_batch = 5;
    assert_ok(ppo_fit_dpo(lm, reference, &chosen, &rejected, &c));
    assert_close(last_log.p[0].loss, log(2), 1e-6); /* before the first step both say the same */
    assert_true(last_log.p[0].accuracy == 0 && last_log.p[last_log.calls - 1].accuracy > 0.9f);
    assert_true(last_log.p[last_log.calls - 1].loss < 0.6f);
    assert_false(bits_differ(reference->params->data, copy->params->data, copy->params->count));
    assert_ok(ppo_lm_logp(lm, &chosen, 32, now[0])), assert_ok(ppo_lm_logp(lm, &rejected, 32, now[1]));
    assert_ok(ppo_lm_logp(copy, &chosen, 32, before[0])),
        assert_ok(ppo_lm_logp(copy, &rejected, 32, before[1]));
    double margin = mean_of(now[0], N) - mean_of(before[0], N) - (mean_of(now[1], N) - mean_of(before[1], N));
    assert_true(margin > 2);
    ppo_tokens_free(&chosen), ppo_tokens_free(&rejected);
    ppo_lm_free(lm), ppo_lm_free(reference), ppo_lm_free(copy);
}

static void the_reference_of_dpo_may_be_the_model_as_it_is_at_the_start(void **state) {
    (void)state;
    ppo_lm_config config = lm_config(VOCAB, LENGTH, 16, 1, 2);
    ppo_lm *a = random_lm(config, 0.2f), *b = random_lm(config, 0.2f), *reference = NULL;
    ppo_tokens chosen, rejected;
    ppo_fit_config c = ppo_fit_config_default();
    comparisons(72, 12, &chosen, &rejected);
    assert_ok(ppo_lm_copy(a, 0, &reference));
    c.batch_size = 5, c.epochs = 3, c.learning_rate = 1e-2f;
    assert_ok(ppo_fit_dpo(a, a, &chosen, &rejected, &c));
    assert_ok(ppo_fit_dpo(b, reference, &chosen, &rejected, &c));
    assert_false(bits_differ(a->params->data, b->params->data, a->params->count));
    assert_true(bits_differ(a->params->data, reference->params->data, a->params->count));
    ppo_tokens_free(&chosen), ppo_tokens_free(&rejected);
    ppo_lm_free(a), ppo_lm_free(b), ppo_lm_free(reference);
}

/* Two models that differ: the first loss is ppo_dpo_loss() of what ppo_lm_logp() says of both. */
static void the_loss_of_dpo_is_that_of_summed_log_probabilities(void **state) {
    (void)state;
    enum { N = 12 };
    ppo_lm_config config = lm_config(VOCAB, LENGTH, 16, 1, 2);
    ppo_lm *lm = random_lm(config, 0.2f), *reference;
    ppo_tokens chosen, rejected;
    float logp[4][N], loss;
    ppo_fit_config c = logged_config();
    config.seed = 5;
    reference = random_lm(config, 0.2f);
    comparisons(60, N, &chosen, &rejected);
    for (int k = 0; k < 4; k++)
        assert_ok(ppo_lm_logp(k < 2 ? lm : reference, k % 2 ? &rejected : &chosen, 5, logp[k]));
    c.beta = 0.3f, c.label_smoothing = 0.2f, c.micro_batch = 5;
    assert_ok(ppo_dpo_loss(logp[0], logp[1], logp[2], logp[3], N, 0.3f, 0.2f, &loss, NULL, NULL));
    assert_ok(ppo_fit_dpo(lm, reference, &chosen, &rejected, &c));
    assert_close(last_log.p[0].loss, loss, 1e-5);
    int right = 0;
    for (int i = 0; i < N; i++) right += logp[0][i] - logp[2][i] > logp[1][i] - logp[3][i];
    assert_close(last_log.p[0].accuracy, right / (double)N, 1e-6);
    ppo_tokens_free(&chosen), ppo_tokens_free(&rejected);
    ppo_lm_free(lm), ppo_lm_free(reference);
}

/* The first loss of KTO is ppo_kto_loss() of what ppo_lm_logp() says of both models; the baseline is of each prompt with
   the response of the sequence before it. Sets differ in size; a response is cut where the context ends. */
static void the_loss_of_kto_is_that_of_summed_log_probabilities(void **state) {
    (void)state;
    enum { N = 7, M = 4, ALL = N + M };
    ppo_lm_config config = lm_config(VOCAB, LENGTH, 16, 1, 2);
    ppo_lm *lm = random_lm(config, 0.2f), *reference;
    ppo_tokens chosen, rejected, other, all = {0}, crossed = {0};
    float logp[4][ALL], weight[ALL], loss, baseline = 0;
    ppo_fit_config c = logged_config();
    config.seed = 5;
    reference = random_lm(config, 0.2f);
    comparisons(60, N, &chosen, &other);
    ppo_tokens_free(&other);
    comparisons(61, M, &other, &rejected);
    assert_ok(ppo_tokens_mark_given(&chosen, 3, 1));
    for (int i = 0; i < ALL; i++) {
        assert_ok(ppo_tokens_add_from(&all, i < N ? &chosen : &rejected, i < N ? i : i - N));
        weight[i] = i < N ? 1.5f : -0.5f;
    }
    for (int i = 0; i < ALL; i++) {
        const int j = (i + ALL - 1) % ALL, n = all.start[j + 1] - all.start[j];
        int text[2 * LENGTH];
        memcpy(text, all.token + all.start[i], 2 * sizeof(int));
        memcpy(text + 2, all.token + all.start[j] + 2, (n - 2) * sizeof(int));
        assert_ok(ppo_tokens_add(&crossed, text, n < LENGTH ? n : LENGTH, 2));
        if (j == N - 1) assert_ok(ppo_tokens_mark_given(&crossed, 3, 1));
    }
    for (int k = 0; k < 4; k++)
        assert_ok(ppo_lm_logp(k < 2 ? lm : reference, k % 2 ? &crossed : &all, 5, logp[k]));
    for (int i = 0; i < ALL; i++) baseline += (logp[1][i] - logp[3][i]) / ALL;
    c.beta = 0.3f, c.micro_batch = ALL, c.shards = 1;
    c.held_out = &chosen, c.held_out_rejected = &rejected, c.evaluate_first = 1;
    assert_ok(ppo_kto_loss(logp[0], logp[2], weight, ALL, baseline > 0 ? baseline : 0, 0.3f, &loss, NULL));
    assert_true(fabsf(baseline) > 0.01f);
    assert_ok(ppo_fit_kto(lm, reference, &chosen, &rejected, 1.5f, 0.5f, &c));
    assert_close(last_log.p[0].held_out_loss, loss, 1e-5); /* of step 0 */
    assert_close(last_log.p[1].loss, loss, 1e-5);
    assert_nan(last_log.p[1].accuracy);
    assert_nan(last_log.p[1].held_out_accuracy);
    assert_nan(last_log.p[1].perplexity);
    assert_fails(ppo_fit_kto(lm, reference, &chosen, &rejected, 0, 1, &c), PPO_ERROR_ARGUMENT,
                 "weights are 0 and 1");
    c.held_out_rejected = NULL;
    assert_fails(ppo_fit_kto(lm, reference, &chosen, &rejected, 1, 1, &c), PPO_ERROR_ARGUMENT,
                 "held_out_rejected is NULL");
    ppo_tokens_free(&chosen), ppo_tokens_free(&rejected), ppo_tokens_free(&other);
    ppo_tokens_free(&all), ppo_tokens_free(&crossed);
    ppo_lm_free(lm), ppo_lm_free(reference);
}

/* Of what was desirable the policy writes more, without pairs. */
static void kto_learns_what_is_desirable(void **state) {
    (void)state;
    enum { N = 60 };
    ppo_tokens chosen, rejected;
    ppo_lm *lm = new_lm(0), *reference = NULL;
    ppo_fit_config c = logged_config();
    float before[2][N], after[2][N];
    comparisons(60, N, &chosen, &rejected);
    assert_ok(ppo_lm_copy(lm, 0, &reference));
    for (int k = 0; k < 2; k++) assert_ok(ppo_lm_logp(lm, k ? &rejected : &chosen, 32, before[k]));
    c.epochs = 6, c.learning_rate = 3e-3f, c.micro_batch = 32;
    assert_ok(ppo_fit_kto(lm, reference, &chosen, &rejected, 1, 1, &c));
    for (int k = 0; k < 2; k++) assert_ok(ppo_lm_logp(lm, k ? &rejected : &chosen, 32, after[k]));
    assert_true(mean_of(after[0], N) > mean_of(before[0], N) + 0.2);
    assert_true(mean_of(after[1], N) < mean_of(before[1], N) - 0.2);
    ppo_tokens_free(&chosen), ppo_tokens_free(&rejected);
    ppo_lm_free(lm), ppo_lm_free(reference);
}

/* On its own samples a model becomes what another one is; the other one stays. */
static void a_student_becomes_its_teacher(void **state) {
    (void)state;
    ppo_lm_config config = lm_config(VOCAB, LENGTH, 16, 1, 2);
    ppo_lm *lm = new_lm(0), *teacher;
    ppo_tokens prompts;
    ppo_rlhf_config c = ppo_rlhf_config_default();
    ppo_rlhf_progress p;
    ppo_rlhf *rlhf = NULL;
    float first = 0, last = 0;
    config.seed = 5;
    teacher = random_lm(config, 0.5f);
    memset(&prompts, 0, sizeof prompts);
    for (int s = 0; s < 16; s++) {
        const int text[2] = {s % 4, s / 4};
        assert_ok(ppo_tokens_add(&prompts, text, 2, 2));
    }
    assert_ok(ppo_rlhf_config_preset(&c, "distill"));
    c.prompts = 64, c.minibatch_size = 64, c.epochs = 1, c.learning_rate = 1e-2f, c.normalize_rewards = 0;
    c.sampling.max_new_tokens = LENGTH - 2;
    assert_ok(ppo_rlhf_create(lm, teacher, NULL, &prompts, ppo_reward_none, NULL, &c, &rlhf));
    const size_t n = teacher->params->count;
    float *before = (float *)malloc(n * sizeof(float));
    memcpy(before, teacher->params->data, n * sizeof(float));
    for (int i = 0; i < 40; i++) {
        assert_ok(ppo_rlhf_iterate(rlhf, &p));
        if (i < 3) first += p.kl / 3;
        if (i >= 37) last += p.kl / 3;
    }
    assert_true(first > 0.5f && last < 0.3f * first);
    assert_false(bits_differ(before, teacher->params->data, n));
    free(before);
    ppo_rlhf_free(rlhf);
    ppo_tokens_free(&prompts);
    ppo_lm_free(lm), ppo_lm_free(teacher);
}

/* --------------------------------------------------------------------------------------------------------
   Schedules, callbacks, measuring
   -------------------------------------------------------------------------------------------------------- */

static void the_learning_rate_warms_up_and_follows_its_schedule(void **state) {
    (void)state;
    static const int schedules[] = {PPO_CONSTANT, PPO_LINEAR, PPO_COSINE};
    static const float warmups[] = {0, 0.3f, 0.05f};
    static const int warm_steps[] = {0, 6, 1};
    ppo_tokens data = sentences(61, 20, NULL);
    for (int k = 0; k < 9; k++) {
        ppo_lm *lm = new_lm(0);
        ppo_fit_config c = logged_config();
        int warm = warm_steps[k % 3];
        c.batch_size = 5, c.epochs = 5, c.learning_rate = 2e-3f;
        c.learning_rate_schedule = schedules[k / 3], c.warmup = warmups[k % 3];
        assert_ok(ppo_fit_sft(lm, &data, &c));
        assert_int_equal(last_log.calls, 20);
        for (int i = 0; i < 20; i++) {
            double done = (double)(i - warm) / (20 - warm), want = 2e-3;
            if (i < warm) want *= (double)(i + 1) / (warm + 1);
            else if (schedules[k / 3] == PPO_LINEAR) want *= 1 - done;
            else if (schedules[k / 3] == PPO_COSINE) want *= 0.5 + 0.5 * cos(3.14159265358979 * done);
            assert_close(last_log.p[i].learning_rate, want, 1e-5);
        }
        ppo_lm_free(lm);
    }
    ppo_tokens_free(&data);
}

static void progress_counts_steps_and_epochs_and_a_callback_can_end_it(void **state) {
    (void)state;
    ppo_tokens data = sentences(62, 20, NULL);
    ppo_lm *lm = new_lm(0);
    ppo_fit_config c = logged_config();
    c.batch_size = 8, c.epochs = 4; /* batches of 6, 7, 7 */
    last_log.stop_at = 8;
    assert_ok(ppo_fit_sft(lm, &data, &c));
    assert_int_equal(last_log.calls, 8);
    assert_int_equal(lm->params->step, 8);
    for (int i = 0; i < 8; i++) {
        const ppo_fit_progress *p = &last_log.p[i];
        assert_true(p->step == i + 1 && p->steps == 12 && p->epoch == 1 + i / 3);
        assert_true(isnan(p->accuracy) && p->grad_norm > 0 && p->seconds >= 0);
        assert_true(p->seconds == 0 || p->tokens_per_second > 0);
        assert_true(i == 0 || p->seconds >= last_log.p[i - 1].seconds);
    }
    double tokens = (6 + 7 + 7 + 6 + 7 + 7 + 6 + 7) * (double)LENGTH;
    assert_close(last_log.p[7].tokens_per_second * last_log.p[7].seconds, tokens, 1e-6);
    ppo_tokens_free(&data);
    ppo_lm_free(lm);
}

static void scores_and_log_probabilities_have_the_same_bits_for_any_batch_size(void **state) {
    (void)state;
    enum { N = 23 };
    static const int batches[] = {1, 2, 7, 23, 1000};
    ppo_lm *lm = random_lm(lm_config(VOCAB, LENGTH, 16, 1, 2), 0.2f);
    ppo_tokens chosen, rejected;
    float score[N], logp[N], want[2][N];
    comparisons(63, N, &chosen, &rejected);
    FOR_EACH_KERNEL_SET(set) {
        ppo_tape_reset(tape);
        ppo_tensor *last = ppo_lm_sequence_score(tape, lm, &chosen);
        ppo_response out = ppo_lm_response(tape, lm, &chosen, 1, PPO_POLICY);
        ppo_tensor *sum = ppo_tape_sequence_sum(tape, out.logp, &chosen);
        assert_ok(ppo_tape_status(tape));
        memcpy(want[0], last->data, sizeof want[0]), memcpy(want[1], sum->data, sizeof want[1]);
        for (int k = 0; k < COUNT(batches); k++) {
            assert_ok(ppo_lm_scores(lm, &chosen, batches[k], score));
            assert_ok(ppo_lm_logp(lm, &chosen, batches[k], logp));
            assert_false(bits_differ(score, want[0], N) || bits_differ(logp, want[1], N));
        }
    }
    ppo_tokens_free(&chosen), ppo_tokens_free(&rejected);
    ppo_lm_free(lm);
}

static void measuring_takes_the_memory_of_a_batch(void **state) {
    (void)state;
    enum { N = 40 };
    ppo_lm *lm = random_lm(lm_config(VOCAB, LENGTH, 16, 1, 2), 0.2f);
    ppo_tokens some = {0}, data = {0};
    float number[N];
    size_t bytes[2][2];
    for (int s = 0; s < N; s++) {
        const int token[LENGTH] = {1, 2, s % 3, 1};
        if (s < 4) assert_ok(ppo_tokens_add(&some, token, LENGTH, 1));
        assert_ok(ppo_tokens_add(&data, token, LENGTH, 1));
    }
    for (int all = 0; all < 2; all++)
        for (int k = 0; k < 2; k++) {
            heap h = {0, 0, -1, 0};
            asked_for = 0;
            ppo_set_allocator(measuring_heap, &h);
            assert_ok((k ? ppo_lm_scores : ppo_lm_logp)(lm, all ? &data : &some, 2, number));
            ppo_set_allocator(NULL, NULL);
            bytes[all][k] = asked_for;
        }
    for (int k = 0; k < 2; k++) assert_int_equal(bytes[1][k], bytes[0][k]); /* of 20 batches and of 2 */
    ppo_tokens_free(&some), ppo_tokens_free(&data);
    ppo_lm_free(lm);
}

/* A NaN in the embedding of one of the last two positions, to which only the longest sequences come. */
static void numbers_that_are_not_finite_are_refused_with_their_sequence(void **state) {
    (void)state;
    static const int lengths[] = {4, 8, 3, 10, 5, 10}, batches[] = {1, 2, 4, 100};
    ppo_lm *lm = random_lm(lm_config(VOCAB, LENGTH, 16, 1, 2), 0.2f);
    ppo_tokens data = {0};
    ppo_rng rng = test_rng(73);
    float x[COUNT(lengths)];
    for (int s = 0; s < COUNT(lengths); s++) add_random(&data, &rng, VOCAB, lengths[s], 1);
    FOR_EACH_KERNEL_SET(set) {
        for (int k = 0; k < COUNT(batches); k++) {
            lm->position_embedding->data[(LENGTH - 1) * 16] = NAN;
            assert_fails(ppo_lm_scores(lm, &data, batches[k], x), PPO_ERROR_NUMERIC, "sequence 3|nan");
            lm->position_embedding->data[(LENGTH - 1) * 16] = 0;
            lm->position_embedding->data[(LENGTH - 2) * 16] = NAN; /* the last token predicts none */
            assert_fails(ppo_lm_logp(lm, &data, batches[k], x), PPO_ERROR_NUMERIC, "sequence 3|nan");
            lm->position_embedding->data[(LENGTH - 2) * 16] = 0;
        }
    }
    assert_ok(ppo_lm_scores(lm, &data, 2, x));
    assert_ok(ppo_lm_logp(lm, &data, 2, x));
    ppo_tokens_free(&data);
    ppo_lm_free(lm);
}

static void a_sequence_without_a_response_has_a_log_probability_of_0(void **state) {
    (void)state;
    ppo_lm *lm = random_lm(lm_config(VOCAB, LENGTH, 16, 1, 2), 0.2f);
    ppo_tokens data = {0};
    float together[3], alone[3];
    assert_ok(ppo_tokens_add(&data, (const int[]){1, 2}, 2, 2));
    assert_ok(ppo_tokens_add(&data, (const int[]){1, 2, 3}, 3, 1));
    assert_ok(ppo_tokens_add(&data, (const int[]){4}, 1, 0));
    assert_ok(ppo_lm_logp(lm, &data, 3, together));
    assert_true(together[0] == 0 && together[1] < 0 && together[2] == 0);
    assert_ok(ppo_lm_logp(lm, &data, 1, alone)); /* a batch of such alone, too */
    assert_false(bits_differ(alone, together, 3));
    ppo_tokens_free(&data);
    ppo_lm_free(lm);
}

/* --------------------------------------------------------------------------------------------------------
   Reward models
   -------------------------------------------------------------------------------------------------------- */

enum { R_N = 40 };

typedef struct judges { /* three models with scores, and sequences */
    ppo_lm *member[3];
    ppo_tokens tokens, other;
    float score[3][R_N];
} judges;

static void open_judges(judges *j) {
    comparisons(64, R_N, &j->tokens, &j->other);
    for (int k = 0; k < 3; k++) {
        ppo_lm_config c = lm_config(VOCAB, LENGTH, 16, 1, 2);
        c.seed = (uint64_t)k;
        j->member[k] = random_lm(c, 0.2f);
        assert_ok(ppo_lm_scores(j->member[k], &j->tokens, 8, j->score[k]));
    }
}

static void close_judges(judges *j) {
    for (int k = 0; k < 3; k++) ppo_lm_free(j->member[k]);
    ppo_tokens_free(&j->tokens), ppo_tokens_free(&j->other);
}

static void an_ensemble_says_the_mean_or_the_least_of_its_members(void **state) {
    (void)state;
    judges j;
    open_judges(&j);
    for (int count = 1; count <= 3; count++)
        for (int ensemble = 0; ensemble < 2; ensemble++) {
            ppo_reward_model *model = NULL;
            float score[R_N], reward[R_N];
            assert_ok(ppo_reward_model_create(j.member, count, ensemble, 8, &model));
            assert_ok(ppo_reward_model_score(model, &j.tokens, score));
            for (int s = 0; s < R_N; s++) {
                double sum = 0, least = INFINITY;
                for (int k = 0; k < count; k++) sum += j.score[k][s], least = fmin(least, j.score[k][s]);
                if (ensemble == PPO_ENSEMBLE_MINIMUM) assert_true(score[s] == (float)least);
                else assert_true(is_close(score[s], sum / count, 1e-6, 1));
            }
            ppo_samples samples = {j.tokens, NULL, NULL};
            assert_ok(ppo_reward_by_model(&samples, reward, model));
            assert_false(bits_differ(score, reward, R_N));
            ppo_reward_model_free(model);
        }
    close_judges(&j);
}

static void normalized_members_have_mean_0_and_deviation_1_on_the_reference(void **state) {
    (void)state;
    judges j;
    ppo_reward_model *model = NULL;
    float score[R_N], least[R_N];
    double mean[3], deviation[3];
    open_judges(&j);
    for (int k = 0; k < 3; k++) {
        double squares = 0;
        mean[k] = mean_of(j.score[k], R_N);
        for (int s = 0; s < R_N; s++) squares += (j.score[k][s] - mean[k]) * (j.score[k][s] - mean[k]);
        deviation[k] = sqrt(squares / R_N);
        assert_ok(ppo_reward_model_create(&j.member[k], 1, PPO_ENSEMBLE_MEAN, 8, &model));
        assert_ok(ppo_reward_model_normalize(model, &j.other)); /* a second time takes the place of a first */
        assert_ok(ppo_reward_model_normalize(model, &j.tokens));
        assert_ok(ppo_reward_model_score(model, &j.tokens, score));
        squares = 0;
        for (int s = 0; s < R_N; s++) squares += (double)score[s] * score[s];
        assert_true(fabs(mean_of(score, R_N)) < 1e-5);
        assert_close(squares / R_N, 1, 1e-5);
        ppo_reward_model_free(model);
    }
    assert_ok(ppo_reward_model_create(j.member, 3, PPO_ENSEMBLE_MINIMUM, 8, &model));
    assert_ok(ppo_reward_model_normalize(model, &j.tokens));
    assert_ok(ppo_reward_model_score(model, &j.tokens, least));
    for (int s = 0; s < R_N; s++) {
        double want = INFINITY;
        for (int k = 0; k < 3; k++) want = fmin(want, (j.score[k][s] - mean[k]) / deviation[k]);
        assert_true(is_close(least[s], want, 1e-5, 1));
    }
    ppo_reward_model_free(model);
    close_judges(&j);
}

static void a_normalization_that_fails_leaves_every_member_as_it_was(void **state) {
    (void)state;
    judges j;
    ppo_reward_model *model = NULL;
    ppo_lm *even = new_lm(1); /* a score of 0 for everything */
    float before[R_N], after[R_N];
    open_judges(&j);
    for (int flaw = 0; flaw < 2; flaw++) { /* the same score for all, and a NaN */
        ppo_lm *members[3] = {j.member[0], flaw ? j.member[1] : even, j.member[2]};
        assert_ok(ppo_reward_model_create(members, 3, PPO_ENSEMBLE_MEAN, 8, &model));
        assert_ok(ppo_reward_model_score(model, &j.tokens, before));
        float kept = members[1]->score_bias->data[0];
        if (flaw) members[1]->score_bias->data[0] = NAN;
        assert_fails(ppo_reward_model_normalize(model, &j.other), PPO_ERROR_NUMERIC,
                     flaw ? "sequence 0|nan" : "reward model 1|40 sequences");
        members[1]->score_bias->data[0] = kept;
        assert_ok(ppo_reward_model_score(model, &j.tokens, after));
        assert_false(bits_differ(before, after, R_N));
        ppo_reward_model_free(model);
    }
    ppo_lm_free(even);
    close_judges(&j);
}

static void a_model_alone_rewards_with_its_scores(void **state) {
    (void)state;
    judges j;
    open_judges(&j);
    float reward[R_N];
    ppo_samples samples = {j.tokens, NULL, NULL};
    assert_ok(ppo_reward_by_lm(&samples, reward, j.member[1]));
    assert_false(bits_differ(j.score[1], reward, R_N));
    ppo_lm *plain = new_lm(0);
    assert_fails(ppo_reward_by_lm(&samples, reward, plain), PPO_ERROR_ARGUMENT, "score");
    assert_fails(ppo_reward_by_lm(&samples, reward, NULL), PPO_ERROR_ARGUMENT, "ppo_reward_by_lm|NULL");
    ppo_lm_free(plain);
    close_judges(&j);
}

static void an_ensemble_with_a_nan_fails_whatever_the_others_say(void **state) {
    (void)state;
    judges j;
    ppo_reward_model *model = NULL;
    float score[R_N];
    open_judges(&j);
    for (int bad = 0; bad < 3; bad++)
        for (int ensemble = 0; ensemble < 2; ensemble++) {
            ppo_samples samples = {j.tokens, NULL, NULL};
            assert_ok(ppo_reward_model_create(j.member, 3, ensemble, 8, &model));
            float *bias = j.member[bad]->score_bias->data, kept = *bias;
            *bias = NAN;
            assert_fails(ppo_reward_model_score(model, &j.tokens, score), PPO_ERROR_NUMERIC,
                         "sequence 0|nan");
            assert_fails(ppo_reward_by_model(&samples, score, model), PPO_ERROR_NUMERIC, "sequence 0|nan");
            *bias = kept;
            assert_ok(ppo_reward_model_score(model, &j.tokens, score));
            ppo_reward_model_free(model);
        }
    assert_fails(ppo_reward_by_model(NULL, score, NULL), PPO_ERROR_ARGUMENT, "ppo_reward_by_model|NULL");
    close_judges(&j);
}

static void reward_models_refuse_what_they_cannot_use(void **state) {
    (void)state;
    judges j;
    ppo_reward_model *model = NULL;
    ppo_lm *plain = new_lm(0), *even = new_lm(1), *many[PPO_MAX_MEMBERS + 1];
    float score[R_N];
    ppo_tokens nothing = {0};
    open_judges(&j);
    for (int k = 0; k <= PPO_MAX_MEMBERS; k++) many[k] = j.member[0];
    assert_fails(ppo_reward_model_create(NULL, 1, 0, 8, &model), PPO_ERROR_ARGUMENT,
                 "ppo_reward_model_create|NULL");
    assert_fails(ppo_reward_model_create(many, 1, 0, 8, NULL), PPO_ERROR_ARGUMENT,
                 "ppo_reward_model_create|NULL");
    model = (ppo_reward_model *)&j;
    assert_fails(ppo_reward_model_create(many, 0, 0, 8, &model), PPO_ERROR_ARGUMENT, "0 members");
    assert_null(model);
    assert_fails(ppo_reward_model_create(many, PPO_MAX_MEMBERS + 1, 0, 8, &model), PPO_ERROR_ARGUMENT,
                 "17 members");
    assert_fails(ppo_reward_model_create(many, 1, 2, 8, &model), PPO_ERROR_ARGUMENT, "ensemble 2");
    assert_fails(ppo_reward_model_create(many, 1, -1, 8, &model), PPO_ERROR_ARGUMENT, "ensemble -1");
    assert_fails(ppo_reward_model_create(many, 1, 0, 0, &model), PPO_ERROR_ARGUMENT, "batch 0");
    many[1] = plain;
    assert_fails(ppo_reward_model_create(many, 2, 0, 8, &model), PPO_ERROR_ARGUMENT, "member 1 has no score");
    many[1] = NULL;
    assert_fails(ppo_reward_model_create(many, 2, 0, 8, &model), PPO_ERROR_ARGUMENT, "member 1 has no score");

    many[1] = even; /* a score of 0 for everything */
    assert_ok(ppo_reward_model_create(many, 2, PPO_ENSEMBLE_MEAN, 8, &model));
    assert_fails(ppo_reward_model_normalize(model, &j.tokens), PPO_ERROR_NUMERIC,
                 "reward model 1|40 sequences");
    assert_fails(ppo_reward_model_normalize(model, &nothing), PPO_ERROR_ARGUMENT, "0 sequences");
    assert_fails(ppo_reward_model_normalize(model, NULL), PPO_ERROR_ARGUMENT,
                 "ppo_reward_model_normalize|NULL");
    assert_fails(ppo_reward_model_normalize(NULL, &j.tokens), PPO_ERROR_ARGUMENT,
                 "ppo_reward_model_normalize|NULL");
    assert_fails(ppo_reward_model_score(model, &nothing, score), PPO_ERROR_ARGUMENT, "0 sequences");
    assert_fails(ppo_reward_model_score(NULL, &j.tokens, score), PPO_ERROR_ARGUMENT,
                 "ppo_reward_model_score|NULL");
    assert_fails(ppo_reward_model_score(model, NULL, score), PPO_ERROR_ARGUMENT,
                 "ppo_reward_model_score|NULL");
    assert_fails(ppo_reward_model_score(model, &j.tokens, NULL), PPO_ERROR_ARGUMENT,
                 "ppo_reward_model_score|NULL");
    ppo_reward_model_free(model);
    ppo_reward_model_free(NULL);
    ppo_lm_free(plain), ppo_lm_free(even);
    close_judges(&j);
}

/* --------------------------------------------------------------------------------------------------------
   JSON Lines
   -------------------------------------------------------------------------------------------------------- */

static ppo_tokenizer *byte_tokenizer(void) {
    const char *const specials[] = {"<bos>", "<eos>", "<|im_start|>", "<|im_end|>"};
    ppo_tokenizer *tok = NULL;
    assert_ok(ppo_tokenizer_train("the theme of the theory", 23, 270, specials, 4, &tok));
    return tok;
}

static int needs, skipped; /* by add_lines() */
static ppo_status add_lines(const char *text, const ppo_tokenizer *tok, int longest, ppo_tokens *tokens,
                            ppo_tokens *rejected) {
    const char *path = scratch_path("lines");
    ppo_lines lines = ppo_lines_default();
    lines.start = ppo_tokenizer_special(tok, "<bos>");
    lines.end = ppo_tokenizer_special(tok, "<eos>");
    lines.max_tokens = longest;
    lines.needs = needs;
    put_bytes(path, text, strlen(text));
    ppo_status status = ppo_tokens_add_lines(tokens, rejected, path, tok, &lines, &skipped);
    remove(path);
    return status;
}

static void assert_same_tokens(const ppo_tokens *a, const ppo_tokens *b) {
    assert_int_equal(a->count, b->count);
    for (int s = 0; s <= a->count; s++) assert_int_equal(a->start[s], b->start[s]);
    assert_memory_equal(a->prompt, b->prompt, (size_t)a->count * sizeof(int));
    assert_memory_equal(a->token, b->token, (size_t)a->start[a->count] * sizeof(int));
}

static void lines_of_data_sets_become_sequences(void **state) {
    (void)state;
    static const char *const texts[][2] = {{"the", " theory"},
                                           {"2+2=", "\"4\"\n\t\\ \xc3\xa9\xf0\x9f\x99\x82 </s> <eos>"},
                                           {"", "a tale"},
                                           {"ask", NULL},
                                           {"p", "q"}};
    ppo_tokenizer *tok = byte_tokenizer();
    const int bos = ppo_tokenizer_special(tok, "<bos>"), eos = ppo_tokenizer_special(tok, "<eos>");
    ppo_tokens tokens = {0}, rejected = {0}, want = {0}, want_rejected = {0};
    assert_ok(add_lines(
        "\xef\xbb\xbf{\"prompt\":\"the\",\"completion\":\" theory\"}\r\n"
        "\n  \t\n"
        "{\"id\": [1, {\"text\": null}], \"completion\" : \"\\\"4\\\"\\n\\t\\\\ \\u00e9\\ud83d\\ude42 "
        "<\\/s> <eos>\", \"prompt\":\"2+2=\"}\n"
        "{\"text\": \"a tale\", \"prompt\": 7, \"chosen\": [\"no text\"]}\n"
        "{\"prompt\": \"ask\"}\n"
        "{\"text\": \"not this\", \"prompt\": \"p\", \"completion\": \"q\"}", /* without an end */
        tok, 0, &tokens, NULL));
    for (int i = 0; i < COUNT(texts); i++)
        assert_ok(ppo_tokens_add_text(&want, tok, bos, texts[i][0], texts[i][1], eos));
    assert_same_tokens(&tokens, &want);
    ppo_tokens_clear(&tokens), ppo_tokens_clear(&want);
    assert_ok(add_lines("{\"prompt\":\"the\",\"chosen\":\"me\",\"rejected\":\"theory\",\"text\":\"x\"}\n"
                        "{\"rejected\":\"b\",\"chosen\":\"a\",\"prompt\":\"\"}\n",
                        tok, 0, &tokens, &rejected));
    assert_ok(ppo_tokens_add_text(&want, tok, bos, "the", "me", eos));
    assert_ok(ppo_tokens_add_text(&want_rejected, tok, bos, "the", "theory", eos));
    assert_ok(ppo_tokens_add_text(&want, tok, bos, "", "a", eos));
    assert_ok(ppo_tokens_add_text(&want_rejected, tok, bos, "", "b", eos));
    assert_same_tokens(&tokens, &want), assert_same_tokens(&rejected, &want_rejected);
    ppo_tokens_free(&tokens), ppo_tokens_free(&rejected);
    ppo_tokens_free(&want), ppo_tokens_free(&want_rejected);
    ppo_tokenizer_free(tok);
}

/* As messages that a program adds; a chat in which the assistant is not last is a prompt. */
static void lines_of_messages_become_chats(void **state) {
    (void)state;
    static const ppo_message said[] = {{"system", "be brief"},
                                       {"user", "\"hi\"\n"},
                                       {"assistant", "the"},
                                       {"user", "more"},
                                       {"assistant", "theory"}};
    ppo_tokenizer *tok = byte_tokenizer();
    ppo_tokens tokens = {0}, rejected = {0}, want = {0}, want_rejected = {0};
    assert_ok(add_lines(
        "{\"prompt\":\"x\",\"messages\":[{\"role\":\"system\",\"content\":\"be brief\"},{\"content\":"
        "\"\\\"hi\\\"\\n\",\"role\":\"user\",\"id\":[1]},{\"role\":\"assistant\",\"content\":\"the\"},"
        "{\"role\":\"user\",\"content\":\"more\"},{\"role\":\"assistant\",\"content\":\"theory\"}]}\n"
        "{\"messages\":[{\"role\":\"user\",\"content\":\"more\"}]}\n"
        "{\"messages\":[],\"text\":\"a\"}",
        tok, 0, &tokens, NULL));
    assert_ok(ppo_tokens_add_chat(&want, tok, PPO_CHATML, said, 5, 0));
    assert_ok(ppo_tokens_add_chat(&want, tok, PPO_CHATML, said + 3, 1, 1));
    assert_ok(ppo_tokens_add_text(&want, tok, ppo_tokenizer_special(tok, "<bos>"), "", "a",
                                  ppo_tokenizer_special(tok, "<eos>")));
    assert_same_tokens(&tokens, &want);
    assert_memory_equal(tokens.given, want.given, (size_t)want.start[want.count]);
    int learned = ppo_response_row(&tokens, 1); /* "the", "theory" and the ends of these turns */
    assert_true(learned >= 4 && learned < 2 + 3 + 6 + 1);
    ppo_tokens_clear(&tokens), ppo_tokens_clear(&want);
    assert_ok(add_lines(
        "{\"prompt\":\"more\",\"chosen\":[{\"role\":\"user\",\"content\":\"more\"},{\"role\":\"assistant\","
        "\"content\":\"theory\"}],\"rejected\":[{\"role\":\"assistant\",\"content\":\"the\"}],"
        "\"messages\":[7]}\n",
        tok, 0, &tokens, &rejected));
    assert_ok(ppo_tokens_add_chat(&want, tok, PPO_CHATML, said + 3, 2, 0));
    assert_ok(ppo_tokens_add_chat(&want_rejected, tok, PPO_CHATML, said + 2, 1, 0));
    assert_same_tokens(&tokens, &want), assert_same_tokens(&rejected, &want_rejected);
    assert_fails(add_lines("{\"messages\":[{\"role\":\"robot\",\"content\":\"a\"}]}", tok, 0, &tokens, NULL),
                 PPO_ERROR_FILE, "line 1: |robot");
    assert_fails(add_lines("{\"messages\":[{\"role\":\"user\"}]}", tok, 0, &tokens, NULL), PPO_ERROR_FILE,
                 "of line 1: a message has no text");
    assert_fails(add_lines("{\"messages\":[{\"role\":\"user\",\"content\":null}]}", tok, 0, &tokens, NULL),
                 PPO_ERROR_FILE, "of line 1: a message has no text");
    assert_fails(add_lines("{\"messages\":[{\"role\":\"a\",\"role\":\"b\"}]}", tok, 0, &tokens, NULL),
                 PPO_ERROR_FILE, "of line 1: repeated member \"role\"");
    ppo_tokens_free(&tokens), ppo_tokens_free(&rejected);
    ppo_tokens_free(&want), ppo_tokens_free(&want_rejected);
    ppo_tokenizer_free(tok);
}

/* TRL's conversational data: what the prompt's messages say is given, also by the assistant. */
static void a_prompt_may_be_messages(void **state) {
    (void)state;
    static const ppo_message said[] = {{"user", "hi"},          {"assistant", "the"}, {"user", "more"},
                                       {"assistant", "theory"}, {"user", "a"},        {"assistant", "b"}};
#define TURN(role, text) "{\"role\":\"" role "\",\"content\":\"" text "\"}"
#define PROMPT           "\"prompt\":[" TURN("user", "hi") "," TURN("assistant", "the") "," TURN("user", "more") "]"
    ppo_tokenizer *tok = byte_tokenizer();
    ppo_tokens tokens = {0}, rejected = {0}, want = {0}, prompt = {0};
    assert_ok(add_lines("{" PROMPT ",\"completion\":[" TURN(
                            "assistant", "theory") "]}\n"
                                                   "{\"completion\":\"theory\"," PROMPT "}\n{" PROMPT "}\n"
                                                   "{\"completion\":[" TURN("assistant", "theory") "," TURN(
                                                       "user", "a") "," TURN("assistant", "b") "]," PROMPT
                                                                                               "}\n",
                        tok, 0, &tokens, NULL));
    for (int k = 0; k < 4; k++)
        assert_ok(ppo_tokens_add_chat(&want, tok, PPO_CHATML, said, k == 2 ? 3 : k == 3 ? 6 : 4, k == 2));
    assert_ok(ppo_tokens_add_chat(&prompt, tok, PPO_CHATML, said, 3, 1));
    for (int k = 0; k < 4; k++) want.prompt[k] = prompt.start[1];
    assert_same_tokens(&tokens, &want);
    assert_memory_equal(tokens.given, want.given, (size_t)want.start[4]);
    ppo_tokens_clear(&tokens), ppo_tokens_clear(&want);
    assert_ok(add_lines("{" PROMPT ",\"chosen\":[" TURN("assistant", "theory") "],\"rejected\":\"b\"}", tok,
                        0, &tokens, &rejected));
    assert_ok(ppo_tokens_add_chat(&want, tok, PPO_CHATML, said, 4, 0));
    want.prompt[0] = prompt.start[1];
    assert_same_tokens(&tokens, &want);
    assert_int_equal(rejected.prompt[0], prompt.start[1]);
    assert_int_equal(rejected.start[1], prompt.start[1] + 3); /* b, <|im_end|>, a line break */
    ppo_tokens_clear(&tokens);
    assert_fails(add_lines("{" PROMPT ",\"completion\":[" TURN("user", "a") "]}", tok, 0, &tokens, NULL),
                 PPO_ERROR_FILE, "line 1: |begins with the role \"user\"");
    assert_fails(add_lines("{" PROMPT ",\"chosen\":\"a\"}", tok, 0, &tokens, &rejected), PPO_ERROR_FILE,
                 "line 1 has no chosen and rejected");
    assert_ok(add_lines("{\"prompt\":\"p\",\"completion\":[" TURN("assistant", "theory") "]}", tok, 0,
                        &tokens, NULL)); /* a prompt alone: what follows a text is a text */
    assert_int_equal(tokens.prompt[0], tokens.start[1]);
    ppo_tokens_free(&tokens), ppo_tokens_free(&rejected), ppo_tokens_free(&want), ppo_tokens_free(&prompt);
    ppo_tokenizer_free(tok);
}

/* What was read comes back; half a character becomes U+FFFD. */
static void sequences_become_lines(void **state) {
    (void)state;
    const char *path = scratch_path("written"), *half = "\303";
    const char *text = "{\"prompt\": \"the \\\"\\n\", \"completion\": \"\303\251 theory\"}\n"
                       "{\"prompt\": \"\", \"completion\": \"a\\u0001\"}\n";
    ppo_tokenizer *tok = byte_tokenizer();
    ppo_tokens tokens = {0};
    file_bytes read;
    assert_ok(add_lines(text, tok, 0, &tokens, NULL));
    assert_ok(ppo_tokens_save_lines(&tokens, tok, path));
    read = bytes_of(path);
    assert_int_equal(read.n, strlen(text));
    assert_memory_equal(read.data, text, read.n);
    free(read.data);
    ppo_tokens_clear(&tokens);
    assert_ok(ppo_tokens_add_text(&tokens, tok, -1, half, half, -1));
    assert_ok(ppo_tokens_save_lines(&tokens, tok, path));
    text = "{\"prompt\": \"\357\277\275\", \"completion\": \"\357\277\275\"}\n";
    read = bytes_of(path);
    assert_int_equal(read.n, strlen(text));
    assert_memory_equal(read.data, text, read.n);
    free(read.data);
    ppo_tokens_clear(&tokens); /* a byte 0 is no end */
    int zero[3], count;
    assert_ok(ppo_encode(tok, "a\0b", 3, zero, 3, &count));
    assert_ok(ppo_tokens_add(&tokens, zero, count, 1));
    assert_ok(ppo_tokens_save_lines(&tokens, tok, path));
    text = "{\"prompt\": \"a\", \"completion\": \"\357\277\275b\"}\n";
    read = bytes_of(path);
    assert_int_equal(read.n, strlen(text));
    assert_memory_equal(read.data, text, read.n);
    free(read.data);
    tokens.token[0] = 4000;
    assert_fails(ppo_tokens_save_lines(&tokens, tok, path), PPO_ERROR_ARGUMENT, "token 4000");
    assert_fails(ppo_tokens_save_lines(NULL, tok, path), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_tokens_save_lines(&tokens, NULL, path), PPO_ERROR_ARGUMENT, "NULL");
    tokens.token[0] = 1;
    assert_fails(ppo_tokens_save_lines(&tokens, tok, "/proc/none/x"), PPO_ERROR_FILE, "/proc/none/x: ");
    remove(path);
    ppo_tokens_free(&tokens);
    ppo_tokenizer_free(tok);
}

static void long_lines_are_cut_or_left_out(void **state) {
    (void)state;
    ppo_tokenizer *tok = byte_tokenizer();
    ppo_tokens tokens = {0}, rejected = {0};
    assert_ok(add_lines("{\"prompt\":\"zzz\",\"completion\":\"yyyyyy\"}\n"  /* bos 3 6 eos: cut */
                        "{\"prompt\":\"zzzz\",\"completion\":\"yyyyyy\"}\n" /* nothing is left to learn */
                        "{\"prompt\":\"zzzzz\"}\n{\"prompt\":\"zzzz\"}\n" /* prompts are whole or left out */
                        "{\"prompt\":\"zz\",\"completion\":\"\"}\n",      /* the end is learned */
                        tok, 5, &tokens, NULL));
    assert_int_equal(tokens.count, 3);
    assert_int_equal(skipped, 2);
    assert_true(tokens.start[1] == 5 && tokens.start[2] == 10 && tokens.start[3] == 14);
    assert_true(tokens.prompt[0] == 4 && tokens.prompt[1] == 5 && tokens.prompt[2] == 3);
    ppo_tokens_clear(&tokens);
    assert_ok(add_lines("{\"prompt\":\"zzzz\",\"chosen\":\"y\",\"rejected\":\"x\"}\n"
                        "{\"prompt\":\"z\",\"chosen\":\"yyyyyyy\",\"rejected\":\"x\"}\n",
                        tok, 5, &tokens, &rejected));
    assert_true(tokens.count == 1 && tokens.start[1] == 5 && rejected.count == 1 && rejected.start[1] == 4);
    assert_int_equal(skipped, 1); /* a pair counts once */
    ppo_tokens_free(&tokens), ppo_tokens_free(&rejected);
    ppo_tokenizer_free(tok);
}

static void lines_that_are_none_are_told_by_their_number(void **state) {
    (void)state;
    static const struct {
        const char *line;
        int pairs;
        const char *words;
    } bad[] = {
        {"{\"prompt\":\"a\"", 0, "of line 3: expected \"}\""},
        {"[]", 0, "line 3 begins a list"},
        {"{\"prompt\":\"a\"} {}", 0, "of line 3: expected its end"},
        {"{\"prompt\":\"a\",\"prompt\":\"b\"}", 0, "of line 3: repeated member \"prompt\""},
        {"{\"text\":\"\\u0000\"}", 0, "of line 3: an escape that stands for no character"},
        {"{\"text\":\"\xff\"}", 0, "of line 3: a string that is not UTF-8"},
        {"{\"completion\":\"a\"}", 0, "line 3 has no messages, prompt or text"},
        {"{\"prompt\":[],\"completion\":\"a\"}", 0, "\"prompt\" is no text, and no list of messages"},
        {"{\"prompt\":5}", 0, "line 3: \"prompt\" is no text"},
        {"{\"text\":[1]}", 0, "line 3: \"text\" is no text"},
        {"{\"prompt\":\"a\",\"chosen\":5,\"rejected\":\"b\"}", 1, "\"chosen\" is no text"},
        {"{\"prompt\":\"a\",\"completion\":\"b\"}", 1, "line 3 has no chosen and rejected"},
        {"{\"messages\":[{\"role\":7,\"content\":\"a\"}]}", 0, "of line 3: a message has no text"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":null}]}", 0, "of line 3: a message has no text"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[]}]}", 0, "of line 3: a message has no text"},
        {"{\"messages\":[{\"content\":\"a\"}]}", 0, "of line 3: a message has no text"},
        {"{\"messages\":[{\"from\":\"human\"}]}", 0, "of line 3: a message has no text"},
        {"{\"messages\":[{\"from\":\"human\",\"value\":\"a\"}]}", 0, "a message has from and value"},
        {"{\"messages\":[7]}", 0, "of line 3: expected"},
        {"{\"messages\":[{\"role\":\"\\q\",\"content\":\"a\"}]}", 0, "of line 3: an escape"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"\\q\"}]}", 0, "of line 3: an escape"},
        {"{\"prompt\":[{\"role\":\"user\",\"content\":\"a\"}],\"completion\":\"\\q\"}", 0,
         "of line 3: an escape"},
        {"{\"messages\":[{\"role\":\"narrator\",\"content\":\"a\"}]}", 0, "line 3: |narrator"},
        {"{}", 0, "line 3 has no messages"}};
    ppo_lines negative = ppo_lines_default();
    negative.max_tokens = -1;
    ppo_tokenizer *tok = byte_tokenizer(), *letters = NULL;
    ppo_tokens tokens = {0}, rejected = {0};
    char text[256];
    assert_ok(add_lines("{\"text\":\"kept\"}", tok, 0, &tokens, NULL));
    for (int i = 0; i < COUNT(bad); i++) {
        const char *good =
            bad[i].pairs ? "{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"c\"}" : "{\"text\":\"a\"}";
        snprintf(text, sizeof text, "%s\n\n%s\n", good, bad[i].line);
        assert_fails(add_lines(text, tok, 0, &tokens, bad[i].pairs ? &rejected : NULL), PPO_ERROR_FILE,
                     bad[i].words);
        assert_true(tokens.count == 1 && tokens.start[1] == 6 && rejected.count == 0);
    }
    needs = PPO_NEEDS_RESPONSE;
    assert_fails(
        add_lines("\n{\"prompt\":\"a\",\"completion\":\"b\"}\n{\"prompt\":\"a\"}", tok, 0, &tokens, NULL),
        PPO_ERROR_FILE, "line 3 has no token to learn after its prompt");
    assert_true(tokens.count == 1);
    needs = 0;
    assert_ok(ppo_tokenizer_characters("ab", 2, NULL, 0, &letters));
    needs = PPO_NEEDS_PROMPT;
    assert_fails(add_lines("{\"prompt\":\"a\"}\n{\"text\":\"ab\"}", letters, 0, &tokens, NULL),
                 PPO_ERROR_FILE, "line 2 has no prompt");
    needs = 0;
    assert_fails(add_lines("{\"text\":\"ab\"}\n{\"text\":\"abc\"}", letters, 0, &tokens, NULL),
                 PPO_ERROR_FILE, "line 2: |vocabulary lacks U+0063");
    assert_fails(ppo_tokens_add_lines(&tokens, NULL, "/nowhere/at all", tok, NULL, NULL), PPO_ERROR_FILE,
                 "/nowhere/at all: cannot be opened");
    assert_fails(ppo_tokens_add_lines(&tokens, NULL, "/tmp", tok, NULL, NULL), PPO_ERROR_FILE,
                 "not a plain file");
    assert_fails(ppo_tokens_add_lines(&tokens, &tokens, "x", tok, NULL, NULL), PPO_ERROR_ARGUMENT,
                 "rejected");
    assert_fails(ppo_tokens_add_lines(&tokens, NULL, "x", tok, &negative, NULL), PPO_ERROR_ARGUMENT,
                 "max_tokens is -1");
    assert_fails(ppo_tokens_add_lines(NULL, NULL, "x", tok, NULL, NULL), PPO_ERROR_ARGUMENT, "NULL");
    ppo_tokens_free(&tokens), ppo_tokens_free(&rejected);
    ppo_tokenizer_free(tok), ppo_tokenizer_free(letters);
}

/* Cut anywhere, and with other bytes: lines are added or refused, and what there was stays. */
static void damaged_lines_are_added_or_refused(void **state) {
    (void)state;
    static const char good[] =
        "{\"prompt\":\"th\\u00e9\",\"completion\":\" \\ud83d\\ude42\",\"n\":[-1.5e3,{\"a\":true}]}\n"
        "{\"text\":\"two\", \"x\":null}\n{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n"
        "{\"completion\":\"b\",\"prompt\":[{\"role\":\"user\",\"content\":\"a\"}]}";
    ppo_tokenizer *tok = byte_tokenizer();
    ppo_tokens tokens = {0};
    ppo_rng rng = test_rng(99);
    char text[sizeof good];
    int came[2] = {0, 0};
    for (int i = 0; i < 4 * (int)sizeof good; i++) {
        memcpy(text, good, sizeof text);
        if (i < (int)sizeof good) text[i] = 0;
        else text[i % (int)(sizeof good - 1)] = (char)(1 + ppo_rng_below(&rng, 255));
        ppo_tokens_clear(&tokens);
        ppo_status status = add_lines(text, tok, 0, &tokens, NULL);
        came[status != PPO_OK]++;
        if (status) assert_true(status == PPO_ERROR_FILE && tokens.count == 0);
    }
    assert_true(came[0] > 10 && came[1] > 100);
    ppo_tokens_free(&tokens);
    ppo_tokenizer_free(tok);
}

static void tokens_come_back_from_a_file(void **state) {
    (void)state;
    const char *path = scratch_path("tokens");
    ppo_rng rng = test_rng(100);
    ppo_tokens plain = {0}, marked = {0}, read = {0}, none = {0};
    for (int s = 0; s < 5; s++) add_random(&plain, &rng, VOCAB, 1 + s * 2, s);
    for (int s = 0; s < 5; s++) assert_ok(ppo_tokens_add_from(&marked, &plain, s));
    assert_ok(ppo_tokens_mark_given(&marked, 3, 4));
    for (int i = 0; i < 2; i++) {
        const ppo_tokens *from = i ? &marked : &plain;
        ppo_tokens_clear(&read);
        assert_ok(ppo_tokens_save(from, path));
        assert_ok(ppo_tokens_load(path, &read));
        assert_same_tokens(&read, from);
        assert_int_equal(!read.given, !from->given);
        if (i) assert_memory_equal(read.given, from->given, (size_t)from->start[5]);
    }
    assert_ok(ppo_tokens_load(path, &read)); /* which adds them */
    assert_int_equal(read.count, 10);

    /* as another program writes a long text; and arrays that contradict */
    const int token[6] = {1, 2, 3, 4, 5, 0};
    const int64_t n = 6;
    static const struct {
        int start[3], prompt[2];
        const char *words;
    } bad[] = {{{0, 3, 5}, {0, 0}, "tokens 0 to 5 of 6"},
               {{1, 3, 6}, {0, 0}, "tokens 1 to 6"},
               {{0, 0, 6}, {0, 0}, "sequence 0 is tokens 0 to 0"},
               {{0, 7, 6}, {0, 0}, "sequence 0 is tokens 0 to 7"},
               {{0, 3, 6}, {0, 4}, "3 tokens, 4 of them given"},
               {{0, 3, 6}, {-1, 0}, "-1 of them given"}};
    for (int i = -1; i < COUNT(bad); i++) {
        ppo_file *file = NULL;
        const int64_t sizes[2] = {3, 2};
        assert_ok(ppo_file_create(&file));
        assert_ok(ppo_file_add(file, "tokens", PPO_I32, &n, 1, token));
        if (i >= 0) assert_ok(ppo_file_add(file, "tokens.start", PPO_I32, &sizes[0], 1, bad[i].start));
        if (i >= 0) assert_ok(ppo_file_add(file, "tokens.prompt", PPO_I32, &sizes[1], 1, bad[i].prompt));
        assert_ok(ppo_file_write(file, path));
        ppo_file_free(file);
        ppo_tokens_clear(&read);
        if (i >= 0) assert_fails(ppo_tokens_load(path, &read), PPO_ERROR_FILE, bad[i].words);
        else assert_ok(ppo_tokens_load(path, &read));
        assert_int_equal(read.count, i < 0);
    }
    put_bytes(path, "\2\0\0\0\0\0\0\0{}", 10);
    assert_fails(ppo_tokens_load(path, &read), PPO_ERROR_FILE, "there is no \"tokens\"");
    assert_fails(ppo_tokens_load(NULL, &read), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_tokens_save(&none, path), PPO_ERROR_ARGUMENT, "there are no tokens");
    remove(path);
    ppo_tokens_free(&plain), ppo_tokens_free(&marked), ppo_tokens_free(&read);
}

/* --------------------------------------------------------------------------------------------------------
   Checkpoints
   -------------------------------------------------------------------------------------------------------- */

enum { FIT_PAIRS = 12, FIT_STEPS = 9 };

typedef struct fit_data {
    ppo_tokens chosen, rejected, held_out, held_out_rejected;
} fit_data;

static fit_data open_fit_data(void) {
    fit_data d;
    comparisons(80, FIT_PAIRS, &d.chosen, &d.rejected);
    comparisons(81, 7, &d.held_out, &d.held_out_rejected);
    return d;
}

static void close_fit_data(fit_data *d) {
    ppo_tokens_free(&d->chosen), ppo_tokens_free(&d->rejected);
    ppo_tokens_free(&d->held_out), ppo_tokens_free(&d->held_out_rejected);
}

/* The kinds, and windows: all that a training remembers. */
static ppo_fit_config fit_of_kind(int kind, const fit_data *d, int windows, const char *checkpoint) {
    ppo_fit_config c = logged_config();
    c.batch_size = 4, c.micro_batch = 3, c.epochs = 3, c.learning_rate = 2e-2f, c.weight_decay = 0.1f;
    c.held_out = &d->held_out, c.held_out_rejected = kind == SFT ? NULL : &d->held_out_rejected;
    c.evaluate_every = 2, c.patience = 100;
    c.checkpoint = checkpoint, c.checkpoint_every = 1;
    if (windows) c.window = 6, c.random_windows = windows - 1, c.epochs = 1, c.steps = FIT_STEPS;
    return c;
}

static void assert_same_progress(const ppo_fit_progress *a, const ppo_fit_progress *b) {
    ppo_fit_progress x = *a, y = *b;
    x.seconds = y.seconds = x.tokens_per_second = y.tokens_per_second = 0;
    assert_memory_equal(&x, &y, sizeof x);
}

static void assert_same_training(const ppo_lm *a, const ppo_lm *b) {
    const ppo_params *x = a->params, *y = b->params;
    assert_int_equal(x->step, y->step);
    assert_false(bits_differ(x->data, y->data, x->count));
    assert_false(bits_differ(x->m, y->m, x->count) || bits_differ(x->v, y->v, x->count));
}

static void a_training_that_stops_anywhere_continues_to_the_same_bits(void **state) {
    (void)state;
    const char *path = scratch_path("fit");
    ppo_lm_config config = lm_config(VOCAB, LENGTH, 8, 1, 2);
    fit_data d = open_fit_data();
    for (int i = 0; i < KINDS + 2; i++) {
        int kind = i < KINDS ? i : SFT, windows = i < KINDS ? 0 : i - KINDS + 1;
        ppo_lm *whole = random_lm(config, 0.2f), *reference = random_lm(config, 0.1f);
        ppo_fit_config c = fit_of_kind(kind, &d, windows, NULL);
        static ppo_fit_progress want[FIT_STEPS];
        assert_ok(fit(kind, whole, reference, &d.chosen, &d.rejected, &c));
        assert_int_equal(last_log.calls, FIT_STEPS);
        memcpy(want, last_log.p, sizeof want);
        assert_true(isnan(want[0].held_out_loss) && want[1].held_out_loss > 0 && want[8].held_out_loss > 0);
        for (int stop = 0; stop < FIT_STEPS; stop++) { /* 0: after every step */
            ppo_lm *lm = NULL;
            int done = 0;
            remove(path);
            do {
                ppo_lm_free(lm);
                lm = random_lm(config, 0.2f); /* as the program that was killed has it when it runs again */
                c = fit_of_kind(kind, &d, windows, path);
                last_log.stop_at = stop ? done ? -1 : stop : 1;
                assert_ok(fit(kind, lm, reference, &d.chosen, &d.rejected, &c));
                for (int k = 0; k < last_log.calls; k++)
                    assert_same_progress(&last_log.p[k], &want[done + k]);
                done += last_log.calls;
            } while (done < FIT_STEPS);
            assert_same_training(lm, whole);
            for (size_t k = 0; k < lm->params->count; k++) lm->params->data[k] = 0;
            c = fit_of_kind(kind, &d, windows, path); /* it is complete: only read */
            assert_ok(fit(kind, lm, reference, &d.chosen, &d.rejected, &c));
            assert_int_equal(last_log.calls, 0);
            assert_same_training(lm, whole);
            ppo_lm_free(lm);
        }
        ppo_lm_free(whole), ppo_lm_free(reference);
    }
    ppo_lm *copy = NULL;
    assert_ok(ppo_lm_load(path, &copy)); /* a model as well */
    ppo_lm_free(copy);
    remove(path);
    close_fit_data(&d);
}

/* DPO whose reference is the model itself: that of the start, also where a stopped training goes on in place. */
static void a_reference_that_is_trained_is_remembered_by_the_checkpoint(void **state) {
    (void)state;
    const char *path = scratch_path("fit");
    ppo_lm_config config = lm_config(VOCAB, LENGTH, 8, 1, 2);
    config.kv_heads = 1;
    assert_ok(ppo_lm_config_family(&config, "llama")); /* and a model of another family */
    ppo_lm *whole = random_lm(config, 0.2f), *lm = random_lm(config, 0.2f);
    fit_data d = open_fit_data();
    remove(path);
    for (int part = 0; part < 3; part++) {
        ppo_lm *to = part ? lm : whole;
        ppo_fit_config c = fit_of_kind(DPO, &d, 0, part ? path : NULL);
        last_log.stop_at = part == 1 ? 4 : -1;
        assert_ok(ppo_fit_dpo(to, to, &d.chosen, &d.rejected, &c));
    }
    assert_same_training(lm, whole);
    remove(path);
    ppo_lm_free(lm), ppo_lm_free(whole);
    close_fit_data(&d);
}

static void another_training_is_not_continued(void **state) {
    (void)state;
    const char *path = scratch_path("fit");
    ppo_lm_config config = lm_config(VOCAB, LENGTH, 8, 1, 2), heads = config, wide = config;
    fit_data d = open_fit_data();
    ppo_lm *lm = random_lm(config, 0.2f), *before = NULL, *other[2];
    ppo_fit_config c = fit_of_kind(SFT, &d, 0, path);
    static const struct {
        const char *setting, *words;
    } settings[] = {{"epochs=4", "epochs is 3 in the checkpoint: it cannot become 4"},
                    {"batch_size=5", "batch_size is 4"},
                    {"learning_rate=0.1", "learning_rate is 0.02"},
                    {"seed=2", "seed is 1"},
                    {"patience=0", "patience is 100"}};
    heads.heads = 4, wide.width = 16;
    other[0] = random_lm(heads, 0.2f), other[1] = random_lm(wide, 0.2f);
    last_log.stop_at = 2;
    remove(path);
    assert_ok(ppo_fit_sft(lm, &d.chosen, &c));
    assert_ok(ppo_lm_copy(lm, 0, &before));
    for (int i = 0; i < COUNT(settings); i++) {
        c = fit_of_kind(SFT, &d, 0, path);
        assert_ok(ppo_settings_set_all(ppo_fit_settings(), &c, settings[i].setting));
        assert_fails(ppo_fit_sft(lm, &d.chosen, &c), PPO_ERROR_ARGUMENT, settings[i].words);
    }
    c = fit_of_kind(SFT, &d, 0, path);
    assert_fails(ppo_fit_sft(lm, &d.rejected, &c), PPO_ERROR_FILE, "another \"data\"");
    ppo_tokens marked = d.chosen; /* the same tokens, of which others are learned */
    unsigned char *given = calloc((size_t)marked.start[marked.count], 1);
    given[marked.start[1] - 1] = 1, marked.given = given;
    assert_fails(ppo_fit_sft(lm, &marked, &c), PPO_ERROR_FILE, "another \"data\"");
    marked.given = NULL, marked.prompt = NULL;
    assert_fails(ppo_fit_sft(lm, &marked, &c), PPO_ERROR_FILE, "another \"data\"");
    free(given);
    c.held_out = &d.held_out_rejected;
    assert_fails(ppo_fit_sft(lm, &d.chosen, &c), PPO_ERROR_FILE, "another \"held_out\"");
    c.held_out = &d.held_out;
    assert_fails(ppo_fit_sft(other[0], &d.chosen, &c), PPO_ERROR_ARGUMENT, "heads is 2 in the checkpoint|4");
    assert_fails(ppo_fit_sft(other[1], &d.chosen, &c), PPO_ERROR_ARGUMENT, "width is 8 in the checkpoint|16");
    c = fit_of_kind(REWARD, &d, 0, path);
    assert_fails(ppo_fit_reward(lm, &d.chosen, &d.rejected, &c), PPO_ERROR_FILE,
                 "checkpoint of ppo_fit_sft(), not of ppo_fit_reward()");
    assert_ok(ppo_lm_save_file(lm, NULL, path));
    c = fit_of_kind(SFT, &d, 0, path);
    assert_fails(ppo_fit_sft(lm, &d.chosen, &c), PPO_ERROR_FILE, "no checkpoint of ppo_fit_sft()");
    assert_false(bits_differ(lm->params->data, before->params->data, lm->params->count));
    assert_int_equal(lm->params->step, 2);
    c.checkpoint = "/dev/null/fit";
    assert_fails(ppo_fit_sft(lm, &d.chosen, &c), PPO_ERROR_FILE, "/dev/null/fit");
    remove(path);
    ppo_lm_free(lm), ppo_lm_free(before), ppo_lm_free(other[0]), ppo_lm_free(other[1]);
    close_fit_data(&d);
}

/* Cut short, or with another byte; and with other counters under a checksum of their own. */
static void a_damaged_checkpoint_is_refused_and_changes_nothing(void **state) {
    (void)state;
    static const int64_t counters[][5] = {{10, 0, 2, 0, 0},        {-1, 0, 2, 0, 0}, {2, 0, -1, 0, 0},
                                          {2, 0, 2, 1LL << 40, 0}, {2, 0, 2, 0, 2},  {9, 0, 9, 0, 0}};
    const char *path = scratch_path("fit");
    ppo_lm_config config = lm_config(VOCAB, LENGTH, 4, 1, 1);
    fit_data d = open_fit_data();
    ppo_lm *lm = random_lm(config, 0.2f), *before = NULL;
    ppo_fit_config c = fit_of_kind(DPO, &d, 0, path);
    last_log.stop_at = 2;
    remove(path);
    assert_ok(ppo_fit_dpo(lm, lm, &d.chosen, &d.rejected, &c));
    assert_ok(ppo_lm_copy(lm, 0, &before));
    file_bytes file = bytes_of(path);
    for (size_t i = 0; i < file.n; i += i < 32 ? 1 : 199) {
        put_bytes(path, file.data, i);
        assert_fails(ppo_fit_dpo(lm, lm, &d.chosen, &d.rejected, &c), PPO_ERROR_FILE, path);
        file.data[i] ^= 1;
        put_bytes(path, file.data, file.n);
        assert_fails(ppo_fit_dpo(lm, lm, &d.chosen, &d.rejected, &c), PPO_ERROR_FILE, path);
        file.data[i] ^= 1;
    }
    for (int i = 0; i < COUNT(counters); i++) {
        ppo_file *read = NULL, *changed = NULL;
        const int64_t shape[2] = {1, 5};
        put_bytes(path, file.data, file.n);
        assert_ok(ppo_file_read(path, &read));
        assert_ok(ppo_file_create(&changed));
        for (int k = 0; ppo_file_key_at(read, k); k++) {
            const char *key = ppo_file_key_at(read, k);
            if (strcmp(key, "checksum")) assert_ok(ppo_file_set_text(changed, key, ppo_file_text(read, key)));
        }
        for (int k = 0; k < ppo_file_count(read); k++) {
            const ppo_array *a = ppo_file_at(read, k);
            int is = !strcmp(a->name, "fit.counters");
            assert_ok(ppo_file_add(changed, a->name, a->type, is ? shape : a->shape, a->rank,
                                   is ? (const void *)counters[i] : a->data));
        }
        assert_ok(ppo_file_write(changed, path)); /* a file without a checksum is not checked by it */
        assert_fails(ppo_fit_dpo(lm, lm, &d.chosen, &d.rejected, &c), PPO_ERROR_FILE, "corrupt file");
        ppo_file_free(read), ppo_file_free(changed);
    }
    assert_false(bits_differ(lm->params->data, before->params->data, lm->params->count));
    free(file.data);
    remove(path);
    ppo_lm_free(lm), ppo_lm_free(before);
    close_fit_data(&d);
}

/* --------------------------------------------------------------------------------------------------------
   Errors and memory
   -------------------------------------------------------------------------------------------------------- */

static void settings_that_mean_nothing_are_refused(void **state) {
    (void)state;
    static const float not_a_number = NAN, infinite = INFINITY, zero = 0, minus = -1, one = 1, half = 0.5f;
    static const int none = 0, below = -1, custom = PPO_CUSTOM;
    static const struct {
        size_t field;
        const void *value;
        int dpo; /* only there */
        const char *words;
    } bad[] = {{offsetof(ppo_fit_config, epochs), &none, 0, "epochs is 0"},
               {offsetof(ppo_fit_config, batch_size), &none, 0, "batch_size is 0"},
               {offsetof(ppo_fit_config, micro_batch), &below, 0, "micro_batch is -1"},
               {offsetof(ppo_fit_config, learning_rate), &zero, 0, "learning_rate is 0"},
               {offsetof(ppo_fit_config, learning_rate), &not_a_number, 0, "learning_rate"},
               {offsetof(ppo_fit_config, learning_rate), &infinite, 0, "learning_rate is inf"},
               {offsetof(ppo_fit_config, learning_rate_schedule), &below, 0, "learning_rate_schedule is -1"},
               {offsetof(ppo_fit_config, learning_rate_schedule), &custom, 0, "schedule"},
               {offsetof(ppo_fit_config, warmup), &one, 0, "warmup is 1"},
               {offsetof(ppo_fit_config, warmup), &minus, 0, "warmup is -1"},
               {offsetof(ppo_fit_config, weight_decay), &minus, 0, "weight_decay"},
               {offsetof(ppo_fit_config, weight_decay), &not_a_number, 0, "weight_decay"},
               {offsetof(ppo_fit_config, weight_decay), &infinite, 0, "weight_decay is inf"},
               {offsetof(ppo_fit_config, max_grad_norm), &minus, 0, "max_grad_norm"},
               {offsetof(ppo_fit_config, beta), &zero, 1, "beta is 0"},
               {offsetof(ppo_fit_config, label_smoothing), &half, 1, "label_smoothing is 0.5"}};
    ppo_tokens chosen, rejected;
    ppo_lm *lm = new_lm(1), *copy = NULL;
    assert_ok(ppo_lm_copy(lm, 0, &copy));
    comparisons(65, 5, &chosen, &rejected);
    for (int i = 0; i < COUNT(bad); i++)
        for (int kind = bad[i].dpo ? DPO : SFT; kind < KINDS; kind++) {
            ppo_fit_config c = ppo_fit_config_default();
            memcpy((char *)&c + bad[i].field, bad[i].value, sizeof(int));
            assert_fails(fit(kind, lm, copy, &chosen, &rejected, &c), PPO_ERROR_ARGUMENT, bad[i].words);
            assert_false(bits_differ(lm->params->data, copy->params->data, lm->params->count));
        }
    ppo_tokens_free(&chosen), ppo_tokens_free(&rejected);
    ppo_lm_free(lm), ppo_lm_free(copy);
}

static void a_prompt_longer_than_its_sequence_leaves_nothing_to_learn(void **state) {
    (void)state;
    int start[] = {0, 2, 4}, prompt[] = {1, INT_MAX}, token[] = {0, 1, 0, 1};
    const ppo_tokens data = {2, start, prompt, token, NULL, NULL};
    assert_int_equal(ppo_response_row(&data, 1), 1);
    assert_int_equal(ppo_response_row(&data, 2), 1);
}

static void data_that_do_not_fit_are_refused_and_named(void **state) {
    (void)state;
    ppo_fit_config c = ppo_fit_config_default();
    ppo_lm_config few = lm_config(4, LENGTH, 16, 1, 2);
    ppo_tokens chosen, rejected, nothing = {0};
    ppo_lm_config brief = lm_config(VOCAB, LENGTH - 1, 16, 1, 2);
    ppo_lm *lm = new_lm(1), *plain = new_lm(0), *smaller = random_lm(few, 0.1f);
    ppo_lm *shorter = random_lm(brief, 0.1f);
    float x[8];
    comparisons(66, 5, &chosen, &rejected);
    for (int kind = 0; kind < KINDS; kind++) {
        const char *name = kind == SFT   ? "ppo_fit_sft|NULL"
                           : kind == DPO ? "ppo_fit_dpo|NULL"
                                         : "ppo_fit_reward|NULL";
        assert_fails(fit(kind, NULL, lm, &chosen, &rejected, &c), PPO_ERROR_ARGUMENT, name);
        assert_fails(fit(kind, lm, lm, NULL, &rejected, &c), PPO_ERROR_ARGUMENT, name);
        assert_fails(fit(kind, lm, lm, &chosen, &rejected, NULL), PPO_ERROR_ARGUMENT, name);
        if (kind != SFT) assert_fails(fit(kind, lm, lm, &chosen, NULL, &c), PPO_ERROR_ARGUMENT, name);
        assert_fails(fit(kind, lm, lm, &nothing, &rejected, &c), PPO_ERROR_ARGUMENT, "0 sequences");
        int kept = chosen.token[chosen.start[3] + 2];
        chosen.token[chosen.start[3] + 2] = VOCAB;
        assert_fails(fit(kind, lm, lm, &chosen, &rejected, &c), PPO_ERROR_ARGUMENT,
                     "token 6|sequence 3, position 2");
        chosen.token[chosen.start[3] + 2] = kept;
        if (kind == SFT) continue;
        rejected.count = 4;
        assert_fails(fit(kind, lm, lm, &chosen, &rejected, &c), PPO_ERROR_ARGUMENT, "5 chosen|4 rejected");
        rejected.count = 5;
    }
    assert_fails(ppo_fit_dpo(lm, NULL, &chosen, &rejected, &c), PPO_ERROR_ARGUMENT, "ppo_fit_dpo|NULL");
    assert_fails(ppo_fit_dpo(lm, smaller, &chosen, &rejected, &c), PPO_ERROR_ARGUMENT,
                 "vocabulary of 6 tokens|of 4");
    assert_fails(ppo_fit_dpo(lm, shorter, &chosen, &rejected, &c), PPO_ERROR_ARGUMENT,
                 "context of 10 tokens|reference|of 9");
    assert_fails(ppo_fit_reward(plain, &chosen, &rejected, &c), PPO_ERROR_ARGUMENT, "no score");
    rejected.prompt[4] = rejected.start[5] - rejected.start[4];
    assert_fails(ppo_fit_sft(lm, &rejected, &c), PPO_ERROR_ARGUMENT, "sequence 4 has no token after");
    assert_fails(ppo_fit_dpo(lm, lm, &chosen, &rejected, &c), PPO_ERROR_ARGUMENT,
                 "sequence 4 has no token after");
    assert_ok(ppo_fit_reward(lm, &chosen, &rejected, &c)); /* for a score it does not matter */

    assert_fails(ppo_lm_scores(NULL, &chosen, 1, x), PPO_ERROR_ARGUMENT, "ppo_lm_scores|NULL");
    assert_fails(ppo_lm_scores(lm, NULL, 1, x), PPO_ERROR_ARGUMENT, "ppo_lm_scores|NULL");
    assert_fails(ppo_lm_scores(lm, &chosen, 1, NULL), PPO_ERROR_ARGUMENT, "ppo_lm_scores|NULL");
    assert_fails(ppo_lm_scores(plain, &chosen, 1, x), PPO_ERROR_ARGUMENT, "ppo_lm_scores|no score");
    assert_fails(ppo_lm_scores(lm, &chosen, 0, x), PPO_ERROR_ARGUMENT, "batch of 0");
    assert_fails(ppo_lm_logp(NULL, &chosen, 1, x), PPO_ERROR_ARGUMENT, "ppo_lm_logp|NULL");
    assert_fails(ppo_lm_logp(lm, NULL, 1, x), PPO_ERROR_ARGUMENT, "ppo_lm_logp|NULL");
    assert_fails(ppo_lm_logp(lm, &chosen, 1, NULL), PPO_ERROR_ARGUMENT, "ppo_lm_logp|NULL");
    assert_fails(ppo_lm_logp(lm, &chosen, -1, x), PPO_ERROR_ARGUMENT, "batch of -1");
    assert_fails(ppo_lm_logp(lm, &nothing, 1, x), PPO_ERROR_ARGUMENT, "0 sequences");
    ppo_tokens_free(&chosen), ppo_tokens_free(&rejected);
    ppo_lm_free(lm), ppo_lm_free(plain), ppo_lm_free(smaller), ppo_lm_free(shorter);
}

static void a_model_with_a_nan_is_not_trained(void **state) {
    (void)state;
    ppo_fit_config c = ppo_fit_config_default();
    ppo_tokens chosen, rejected;
    ppo_lm *lm = new_lm(1), *sound = new_lm(1);
    comparisons(67, 5, &chosen, &rejected);
    lm->norm_bias->data[3] = NAN;
    for (int kind = 0; kind < KINDS; kind++)
        assert_fails(fit(kind, lm, sound, &chosen, &rejected, &c), PPO_ERROR_NUMERIC, "nan");
    assert_fails(ppo_fit_dpo(sound, lm, &chosen, &rejected, &c), PPO_ERROR_NUMERIC, "nan");
    ppo_tokens_free(&chosen), ppo_tokens_free(&rejected);
    ppo_lm_free(lm), ppo_lm_free(sound);
}

/* Also where a few sequences are long, and most of them short; and on two threads. */
static void nothing_is_allocated_after_the_first_step(void **state) {
    (void)state;
    enum { N = 50, LONG = 290 };
    static const int micro[] = {0, 1, 5};
    ppo_tokens chosen[2], rejected[2] = {{0}, {0}};
    memset(chosen, 0, sizeof chosen);
    comparisons(68, N, &chosen[0], &rejected[0]);
    for (int s = 0; s < N; s++) {
        int token[LONG] = {0};
        token[1] = s % VOCAB;
        assert_ok(ppo_tokens_add(&chosen[1], token, s % 17 == 9 ? LONG - s : 2 + s % 5, 1));
        assert_ok(ppo_tokens_add(&rejected[1], token, s % 11 == 5 ? LONG / 3 + s : 2 + s % 3, 1));
    }
    for (int run = 0; run < 4 * KINDS * COUNT(micro); run++) {
        const int data = run % 2, threads = 1 + run / 2 % 2, kind = run / 4 % KINDS;
        heap h = {0, 0, -1, 0};
        ppo_fit_config c = logged_config();
        ppo_lm_config config = lm_config(VOCAB, data ? LONG : LENGTH, 16, 1, 2);
        last_log.h = &h;
        c.micro_batch = micro[run / 4 / KINDS], c.batch_size = 12, c.epochs = 3;
        c.shards = threads == 2 ? 3 : 1;
        assert_ok(ppo_set_threads(threads));
        ppo_set_allocator(heap_hook, &h);
        ppo_lm *lm = random_lm(config, 0.2f), *reference = random_lm(config, 0.2f);
        assert_ok(fit(kind, lm, reference, &chosen[data], &rejected[data], &c));
        ppo_lm_free(lm), ppo_lm_free(reference);
        ppo_set_allocator(NULL, NULL);
        assert_int_equal(h.live, 0);
        assert_int_equal(last_log.calls, 15);
        for (int i = 1; i < 15; i++) assert_int_equal(last_log.allocations[i], last_log.allocations[0]);
    }
    assert_ok(ppo_set_threads(1));
    for (int k = 0; k < 2; k++) ppo_tokens_free(&chosen[k]), ppo_tokens_free(&rejected[k]);
}

typedef struct job {
    ppo_lm *lm, *reference;
    ppo_tokens chosen, rejected;
    ppo_tokenizer *tok;
} job;

static ppo_status align_once(void *user) {
    job *j = (job *)user;
    ppo_fit_config c = ppo_fit_config_default();
    ppo_reward_model *model = NULL;
    ppo_tokens read = {0};
    ppo_status status = PPO_OK;
    float x[4];
    c.micro_batch = 2;
    for (int kind = 0; kind < KINDS && !status; kind++) {
        c.gradient_checkpointing = kind != REWARD, c.shards = kind == SFT ? 1 : 3;
        if (kind == REWARD) status = ppo_set_threads(2);
        if (!status) status = fit(kind, j->lm, j->reference, &j->chosen, &j->rejected, &c);
    }
    ppo_set_threads(1);
    c.checkpoint = scratch_path("job"), c.held_out = &j->chosen, c.patience = 1, c.window = 3;
    remove(c.checkpoint);
    for (int k = 0; k < 2 && !status; k++)
        status = ppo_fit_sft(j->lm, &j->chosen, &c); /* the second reads it */
    remove(c.checkpoint);
    if (!status) status = ppo_reward_model_create(&j->lm, 1, PPO_ENSEMBLE_MEAN, 2, &model);
    if (!status) status = ppo_reward_model_normalize(model, &j->chosen);
    if (!status) status = ppo_reward_model_score(model, &j->rejected, x);
    if (!status) status = ppo_lm_logp(j->lm, &j->chosen, 2, x);
    if (!status)
        status = add_lines("{\"prompt\":[{\"role\":\"user\",\"content\":\"a\"}],\"completion\":\"b\"}\n"
                           "{\"text\":\"b\"}",
                           j->tok, 0, &read, NULL);
    if (!status) status = ppo_tokens_save_lines(&read, j->tok, c.checkpoint);
    if (!status) status = ppo_tokens_save(&j->chosen, c.checkpoint);
    if (!status) status = ppo_tokens_load(c.checkpoint, &read);
    remove(c.checkpoint);
    ppo_tokens_free(&read);
    ppo_reward_model_free(model);
    return status;
}

static ppo_status learn_by_kto(void *user) {
    job *j = (job *)user;
    ppo_fit_config c = ppo_fit_config_default();
    c.epochs = 1;
    return ppo_fit_kto(j->lm, j->reference, &j->chosen, &j->rejected, 1, 1, &c);
}

static void every_failing_allocation_is_reported_and_leaks_nothing(void **state) {
    (void)state;
    job j;
    ppo_lm_config config = lm_config(VOCAB, LENGTH, 32, 1, 1); /* a result is larger than a tape */
    j.lm = random_lm(config, 0.2f), j.reference = random_lm(config, 0.2f);
    comparisons(69, 4, &j.chosen, &j.rejected);
    j.tok = byte_tokenizer();
    assert_true(fail_each_allocation(align_once, &j) > 40);
    assert_true(fail_each_allocation(learn_by_kto, &j) > 10);
    ppo_tokens_free(&j.chosen), ppo_tokens_free(&j.rejected);
    ppo_lm_free(j.lm), ppo_lm_free(j.reference), ppo_tokenizer_free(j.tok);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sft_learns_a_language_down_to_its_entropy),
        cmocka_unit_test(tokens_of_prompts_are_not_learned),
        cmocka_unit_test(a_step_has_the_loss_and_gradient_of_transformers_however_it_is_divided),
        cmocka_unit_test(a_step_is_adams_on_the_clipped_gradient_of_the_mean),
        cmocka_unit_test(every_training_comes_out_alike_however_its_batches_are_divided),
        cmocka_unit_test_teardown(by_default_memory_does_not_grow_with_the_batch, restore_allocator),
        cmocka_unit_test_teardown(batches_above_the_data_are_all_of_it_and_take_no_more_memory,
                                  restore_allocator),
        cmocka_unit_test(every_training_starts_its_optimizer_afresh),
        cmocka_unit_test(a_new_start_forgets_all_but_the_parameters),
        cmocka_unit_test(the_same_seed_gives_the_same_bits_and_another_another_order),
        cmocka_unit_test(an_epoch_sees_each_sequence_once_in_an_order_of_its_own),
        cmocka_unit_test(a_training_on_windows_is_pytorchs_step_for_step),
        cmocka_unit_test(windows_learn_each_token_once_but_those_that_are_given),
        cmocka_unit_test(random_windows_begin_anywhere_and_have_something_to_learn),
        cmocka_unit_test(steps_may_end_in_the_middle_of_an_epoch_or_after_several),
        cmocka_unit_test(held_out_data_are_measured_after_the_step),
        cmocka_unit_test(patience_ends_a_training_and_leaves_the_best_model),
        cmocka_unit_test(tokens_that_are_given_are_not_learned),
        cmocka_unit_test(settings_of_windows_and_held_out_data_must_fit),
        cmocka_unit_test(losses_of_pairs_on_the_tape_agree_with_trl),
        cmocka_unit_test(a_reward_model_learns_a_preference_and_tells_it_of_new_pairs),
        cmocka_unit_test(dpo_raises_the_chosen_above_the_rejected_and_leaves_the_reference),
        cmocka_unit_test(the_reference_of_dpo_may_be_the_model_as_it_is_at_the_start),
        cmocka_unit_test(the_loss_of_dpo_is_that_of_summed_log_probabilities),
        cmocka_unit_test(the_loss_of_kto_is_that_of_summed_log_probabilities),
        cmocka_unit_test(kto_learns_what_is_desirable),
        cmocka_unit_test(a_student_becomes_its_teacher),
        cmocka_unit_test(the_learning_rate_warms_up_and_follows_its_schedule),
        cmocka_unit_test(progress_counts_steps_and_epochs_and_a_callback_can_end_it),
        cmocka_unit_test(scores_and_log_probabilities_have_the_same_bits_for_any_batch_size),
        cmocka_unit_test_teardown(measuring_takes_the_memory_of_a_batch, restore_allocator),
        cmocka_unit_test(numbers_that_are_not_finite_are_refused_with_their_sequence),
        cmocka_unit_test(a_sequence_without_a_response_has_a_log_probability_of_0),
        cmocka_unit_test(an_ensemble_says_the_mean_or_the_least_of_its_members),
        cmocka_unit_test(normalized_members_have_mean_0_and_deviation_1_on_the_reference),
        cmocka_unit_test(a_normalization_that_fails_leaves_every_member_as_it_was),
        cmocka_unit_test(a_model_alone_rewards_with_its_scores),
        cmocka_unit_test(an_ensemble_with_a_nan_fails_whatever_the_others_say),
        cmocka_unit_test(reward_models_refuse_what_they_cannot_use),
        cmocka_unit_test(lines_of_data_sets_become_sequences),
        cmocka_unit_test(lines_of_messages_become_chats),
        cmocka_unit_test(a_prompt_may_be_messages),
        cmocka_unit_test(sequences_become_lines),
        cmocka_unit_test(long_lines_are_cut_or_left_out),
        cmocka_unit_test(lines_that_are_none_are_told_by_their_number),
        cmocka_unit_test(damaged_lines_are_added_or_refused),
        cmocka_unit_test(tokens_come_back_from_a_file),
        cmocka_unit_test(a_training_that_stops_anywhere_continues_to_the_same_bits),
        cmocka_unit_test(a_reference_that_is_trained_is_remembered_by_the_checkpoint),
        cmocka_unit_test(another_training_is_not_continued),
        cmocka_unit_test(a_damaged_checkpoint_is_refused_and_changes_nothing),
        cmocka_unit_test(settings_that_mean_nothing_are_refused),
        cmocka_unit_test(a_prompt_longer_than_its_sequence_leaves_nothing_to_learn),
        cmocka_unit_test(data_that_do_not_fit_are_refused_and_named),
        cmocka_unit_test(a_model_with_a_nan_is_not_trained),
        cmocka_unit_test_teardown(nothing_is_allocated_after_the_first_step, restore_allocator),
        cmocka_unit_test_teardown(every_failing_allocation_is_reported_and_leaks_nothing, restore_allocator),
    };
    return cmocka_run_group_tests(tests, open_tape, close_tape);
}
