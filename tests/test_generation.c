/* Section 20: what is sampled from a language model, against Hugging Face's generate() and against the model
   itself, asked for the whole sequence at once. */
#define PPO_NO_CONTROL
#define PPO_NO_REPORTS
#define PPO_IMPLEMENTATION
#include "../ppo.h"
#include "../examples/companions/ppo_hub.h"

#include "golden/language.h"

#include "test.h"

/* Settings without a tool and what follows it. */
#define HOW(temperature, greedy, top_k, top_p, eos, max_new_tokens, seed) \
    { temperature, greedy, top_k, top_p, eos, max_new_tokens, seed, -1, NULL, NULL, NULL, 0, NULL, NULL, 0, 0, 1 }

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

static ppo_lm_config family_config(const char *family, const char *settings) {
    ppo_lm_config c = lm_config(13, 130, 12, 2, 3);
    assert_ok(ppo_lm_config_family(&c, family));
    assert_ok(ppo_settings_set_all(ppo_lm_settings(), &c, settings));
    return c;
}

static ppo_generator *generator_of(const ppo_lm *lm, int slots) {
    ppo_generator *generator = NULL;
    assert_ok(ppo_generator_create(lm, slots, &generator));
    return generator;
}

/* --------------------------------------------------------------------------------------------------------
   Against Hugging Face
   -------------------------------------------------------------------------------------------------------- */

static void temperature_top_k_and_top_p_filter_as_in_transformers(void **state) {
    (void)state;
    static const struct {
        int temperature, top_k, top_p;
        const float *want;
    } cases[] = {{0, 0, 0, g_filters_by_nothing},
                 {1, 0, 0, g_filters_by_temperature},
                 {0, 1, 0, g_filters_by_top_k},
                 {0, 0, 1, g_filters_by_top_p},
                 {1, 1, 1, g_filters_by_all}};
    FOR_KERNEL_SETS(set) {
        for (int i = 0; i < COUNT(cases); i++)
            for (int row = 0; row < g_filters_rows; row++) {
                ppo_sampling how = ppo_sampling_default();
                float p[g_filters_vocab], scratch[g_filters_vocab];
                const float *want = cases[i].want + row * g_filters_vocab;
                if (cases[i].temperature) how.temperature = g_filters_temperature;
                if (cases[i].top_k) how.top_k = g_filters_top_k;
                if (cases[i].top_p) how.top_p = g_filters_top_p;
                ppo_sampling_probabilities(&how, g_filters_logits + row * g_filters_vocab, g_filters_vocab, p,
                                           scratch);
                assert_close_array(p, want, g_filters_vocab, 1e-6);
                for (int j = 0; j < g_filters_vocab; j++) assert_true((p[j] == 0) == (want[j] == 0));
            }
    }
}

static void equals_are_kept_or_left_out_together(void **state) {
    (void)state;
    enum { N = 7 };
    static const float even[N] = {2, 2, 2, 2, 2, 2, 2}, steps[N] = {1, 3, 1, -INFINITY, 3, 1, 2};
    ppo_sampling how = ppo_sampling_default();
    float p[N], scratch[N];
    how.top_k = 1, how.top_p = 0.01f;
    ppo_sampling_probabilities(&how, even, N, p, scratch);
    for (int j = 0; j < N; j++) assert_close(p[j], 1.0 / N, 1e-6);
    ppo_sampling_probabilities(&how, steps, N, p, scratch);
    for (int j = 0; j < N; j++) assert_close(p[j], j == 1 || j == 4 ? 0.5 : 0, 1e-6);
    how.top_k = 3, how.top_p = 1;
    ppo_sampling_probabilities(&how, steps, N, p, scratch);
    assert_true(p[6] > 0 && p[0] == 0 && p[2] == 0 && p[5] == 0 && p[3] == 0);
    how.top_k = 4;
    ppo_sampling_probabilities(&how, steps, N, p, scratch);
    assert_true(p[0] > 0 && p[2] == p[0] && p[5] == p[0] && p[3] == 0);
    ppo_sampling of_first = ppo_sampling_default(); /* min_p keeps what is as likely as it says */
    of_first.min_p = 1;
    ppo_sampling_probabilities(&of_first, steps, N, p, scratch);
    for (int j = 0; j < N; j++) assert_close(p[j], j == 1 || j == 4 ? 0.5 : 0, 1e-6);
    const float thirds[N] = {-0.69315f, -1.38629f, -1.38629f, -9, -9, -9, -9};
    ppo_sampling of_three = how; /* top_p counts what top_k has left, equals included */
    of_three.top_k = 2, of_three.top_p = 0.6f;
    ppo_sampling_probabilities(&of_three, thirds, N, p, scratch);
    assert_close(p[2], 0.25, 1e-4);
    ppo_sampling_probabilities(&how, steps, N, p, scratch);
    float kept = p[1];
    how.top_k = 100; /* more than there are: all */
    ppo_sampling_probabilities(&how, steps, N, p, scratch);
    assert_close(p[1], kept, 1e-6);
}

static void greedy_gives_all_to_the_first_of_the_most_likely(void **state) {
    (void)state;
    enum { N = 37 };
    ppo_rng rng = test_rng(33);
    FOR_KERNEL_SETS(set) {
        for (int k = 0; k < 200; k++) {
            ppo_sampling how = ppo_sampling_default();
            float logits[N], p[N], scratch[N];
            int token = ppo_rng_below(&rng, N - 1);
            how.greedy = 1, how.temperature = k % 2 ? 0.3f : 2, how.top_k = k % 3;
            how.top_p = k % 5 ? 1 : 0.9f;
            fill_normal(&rng, logits, N, 3);
            for (int j = 0; j < N; j++) logits[j] = fminf(logits[j], 5);
            logits[token] = logits[N - 1] = 6; /* both, and the first counts */
            assert_ok(ppo_sampling_probabilities(&how, logits, N, p, scratch));
            for (int j = 0; j < N; j++) assert_true(p[j] == (j == token));
        }
    }
}

static void probabilities_of_what_means_nothing_are_refused(void **state) {
    (void)state;
    enum { N = 4 };
    static const struct {
        ppo_sampling how;
        const char *words;
    } bad[] = {
        {HOW(0, 0, 0, 1, -1, 0, 1), "temperature is 0"},     {HOW(NAN, 0, 0, 1, -1, 0, 1), "temperature is"},
        {HOW(1, 0, -1, 1, -1, 0, 1), "top_k is -1"},         {HOW(1, 0, 0, NAN, -1, 0, 1), "top_p is"},
        {HOW(1, 0, 0, 1, N, 0, 1), "eos is 4|0 .. 3"},       {HOW(1, 0, 0, 1, -2, 0, 1), "eos is -2"},
        {HOW(1, 1, 0, 1, -1, -1, 1), "max_new_tokens is -1"}};
    const float logits[N] = {1, 3, 3, 2};
    ppo_sampling how = ppo_sampling_default();
    float p[N], scratch[N];
    for (int i = 0; i < COUNT(bad); i++)
        assert_fails(ppo_sampling_probabilities(&bad[i].how, logits, N, p, scratch), PPO_ERROR_ARGUMENT,
                     bad[i].words);
    const char *name = "ppo_sampling_probabilities|NULL";
    assert_fails(ppo_sampling_probabilities(NULL, logits, N, p, scratch), PPO_ERROR_ARGUMENT, name);
    assert_fails(ppo_sampling_probabilities(&how, NULL, N, p, scratch), PPO_ERROR_ARGUMENT, name);
    assert_fails(ppo_sampling_probabilities(&how, logits, N, NULL, scratch), PPO_ERROR_ARGUMENT, name);
    assert_fails(ppo_sampling_probabilities(&how, logits, N, p, NULL), PPO_ERROR_ARGUMENT, name);
    assert_fails(ppo_sampling_probabilities(&how, logits, 0, p, scratch), PPO_ERROR_ARGUMENT, "vocab is 0");
}

static void probabilities_of_a_nan_are_refused(void **state) {
    (void)state;
    enum { N = 19 };
    FOR_KERNEL_SETS(set) {
        for (int k = 0; k < 4 * N; k++) {
            ppo_sampling how = ppo_sampling_default();
            float logits[N], p[N], scratch[N];
            for (int j = 0; j < N; j++) logits[j] = (float)(j * 7 % N);
            how.greedy = k / N == 1, how.top_k = k / N == 2 ? 3 : 0, how.top_p = k / N == 3 ? 0.5f : 1;
            logits[k % N] = NAN;
            assert_fails(ppo_sampling_probabilities(&how, logits, N, p, scratch), PPO_ERROR_NUMERIC, "NaN");
            logits[k % N] = INFINITY;
            assert_fails(ppo_sampling_probabilities(&how, logits, N, p, scratch), PPO_ERROR_NUMERIC,
                         "infinite");
            for (int j = 0; j < N; j++) logits[j] = -INFINITY;
            assert_fails(ppo_sampling_probabilities(&how, logits, N, p, scratch), PPO_ERROR_NUMERIC,
                         "infinite");
        }
    }
}

static void rounding_gives_no_token_without_probability(void **state) {
    (void)state;
    const float p[4] = {0.25f, 0, 0.25f, 0}; /* as if the sum were short of 1 by far */
    ppo_rng rng = test_rng(32);
    for (int i = 0; i < 200; i++) {
        int token = ppo__draw(p, 4, &rng);
        assert_true(token == 0 || token == 2);
    }
}

static void greedy_continuations_are_those_of_transformers(void **state) {
    (void)state;
    ppo_lm *lm = golden_lm();
    ppo_tokens prompts = golden_tokens(g_gpt_greedy_length, NULL, g_gpt_greedy_prompt, g_gpt_greedy_prompts);
    ppo_sampling how = ppo_sampling_default();
    how.greedy = 1, how.max_new_tokens = g_gpt_greedy_tokens;
    FOR_KERNEL_SETS(set) {
        for (int slots = 1; slots < 4; slots++) {
            ppo_generator *generator = generator_of(lm, slots);
            ppo_samples samples;
            assert_ok(ppo_generate(generator, &prompts, &how, &samples));
            assert_int_equal(samples.tokens.count, g_gpt_greedy_prompts);
            for (int s = 0; s < g_gpt_greedy_prompts; s++) {
                const int *text = samples.tokens.token + samples.tokens.start[s];
                int n = g_gpt_greedy_length[s];
                assert_int_equal(samples.tokens.start[s + 1] - samples.tokens.start[s],
                                 n + g_gpt_greedy_tokens);
                assert_int_equal(samples.tokens.prompt[s], n);
                assert_memory_equal(text, prompts.token + prompts.start[s], (size_t)n * sizeof(int));
                assert_memory_equal(text + n, g_gpt_greedy_new + s * g_gpt_greedy_tokens,
                                    g_gpt_greedy_tokens * sizeof(int));
            }
            ppo_generator_free(generator);
        }
    }
    ppo_lm_free(lm);
}

/* --------------------------------------------------------------------------------------------------------
   Against the model, asked for the whole sequence at once
   -------------------------------------------------------------------------------------------------------- */

/* logp of each sampled token, and the logits before it, are those of ppo_lm_forward(), to the last bit. */
static void check_against_forward(const ppo_lm *lm, const ppo_samples *samples, const ppo_sampling *how) {
    const ppo_tokens *tokens = &samples->tokens;
    int vocab = lm->config.vocab;
    float p[1024], scratch[1024], logp;
    ppo_tape_reset(tape);
    ppo_tensor *logits = ppo_lm_logits(tape, lm, ppo_lm_forward(tape, lm, tokens));
    assert_ok(ppo_tape_status(tape));
    for (int s = 0; s < tokens->count; s++) {
        int first = tokens->start[s] + tokens->prompt[s];
        for (int i = tokens->start[s]; i < first; i++) assert_true(samples->logp[i] == 0);
        for (int i = first; i < tokens->start[s + 1]; i++) {
            const float *row = logits->data + (size_t)(i - 1) * (size_t)vocab;
            assert_ok(ppo_token_logp(row, &tokens->token[i], 1, vocab, how->temperature, &logp, NULL));
            if (logp != samples->logp[i])
                fail_msg("%s: sequence %d, position %d: %.9g when sampled, %.9g in the whole",
                         ppo_kernels_name(), s, i - tokens->start[s], (double)samples->logp[i], (double)logp);
            if (how->greedy) assert_int_equal(tokens->token[i], ppo_categorical_mode(row, vocab));
            ppo_sampling_probabilities(how, row, vocab, p, scratch);
            assert_true(how->greedy || p[tokens->token[i]] > 0);
        }
    }
}

static void log_probabilities_have_the_bits_of_the_whole_sequence(void **state) {
    (void)state;
    static const int lengths[] = {1, 30, 2, 65, 7, 3, 40, 69};
    static const float temperatures[] = {1, 0.7f, 1.8f, 1};
    const ppo_lm_config sizes[] = {
        lm_config(700, 70, 192, 1, 6),
        lm_config(13, 130, 12, 2, 3),
        family_config("gpt_neo", "head_size=5 window=3"),
        family_config("gpt_neox", "rotary_size=2"),
        family_config("mistral", "head_size=6 kv_heads=1 window=66 hidden=17"),
        family_config("qwen3", "head_size=10 rope_scaling=llama3 rope_factor=4 rope_context=16"),
    };
    for (int m = 0; m < COUNT(sizes); m++) {
        ppo_lm *lm = random_lm(sizes[m], m ? 0.3f : 0.06f);
        FOR_KERNEL_SETS(set) {
            if (SMALL(0, (m + set / 2) % 2)) continue;
            ppo_generator *generator = generator_of(lm, 3);
            ppo_tokens prompts = {0};
            ppo_rng rng = test_rng(30);
            ppo_samples samples;
            for (int s = 0; s < COUNT(lengths); s++)
                add_random(&prompts, &rng, sizes[m].vocab, lengths[s], lengths[s]);
            for (int k = 0; k < (m ? COUNT(temperatures) : 1); k++) {
                ppo_sampling how = ppo_sampling_default();
                how.temperature = temperatures[k];
                how.greedy = k == 3;
                how.eos = 5;
                how.max_new_tokens = m ? 0 : 9;
                assert_ok(ppo_generate(generator, &prompts, &how, &samples));
                check_against_forward(lm, &samples, &how);
            }
            ppo_tokens_free(&prompts);
            ppo_generator_free(generator);
        }
        ppo_lm_free(lm);
    }
}

/* Prompts that end before, at and after the end of a page of keys, continued up to the context. */
static void bits_are_those_of_the_whole_however_many_blocks_of_keys_there_are(void **state) {
    (void)state;
    enum { CONTEXT = 203, V = 11 };
    static const int lengths[] = {1, 63, 64, 65, 127, 128, 129, 200};
    ppo_lm *lm = random_lm(lm_config(V, CONTEXT, 12, 1, 2), 0.5f);
    ppo_tokens prompts = {0};
    ppo_rng rng = test_rng(34);
    ppo_sampling how = ppo_sampling_default();
    for (int s = 0; s < COUNT(lengths); s++) add_random(&prompts, &rng, V, lengths[s], lengths[s]);
    FOR_KERNEL_SETS(set) {
        ppo_generator *generator = generator_of(lm, 3);
        ppo_samples samples;
        assert_ok(ppo_generate(generator, &prompts, &how, &samples));
        assert_int_equal(samples.tokens.start[COUNT(lengths)], COUNT(lengths) * CONTEXT);
        check_against_forward(lm, &samples, &how);
        ppo_tape_reset(tape); /* and as training asks for it */
        ppo_response out = ppo_lm_response(tape, lm, &samples.tokens, 1, PPO_POLICY);
        assert_ok(ppo_tape_status(tape));
        for (int s = 0; s < COUNT(lengths); s++)
            assert_false(bits_differ(out.logp->data + ppo_response_row(&samples.tokens, s),
                                     samples.logp + samples.tokens.start[s] + lengths[s],
                                     (size_t)(CONTEXT - lengths[s])));
        ppo_generator_free(generator);
    }
    ppo_tokens_free(&prompts);
    ppo_lm_free(lm);
}

static void a_token_that_is_filtered_out_is_never_sampled(void **state) {
    (void)state;
    ppo_lm *lm = golden_lm();
    ppo_generator *generator = generator_of(lm, 8);
    ppo_tokens prompts = {0};
    ppo_rng rng = test_rng(31);
    for (int s = 0; s < 60; s++) add_random(&prompts, &rng, g_gpt_vocab, 1 + s % 5, 1 + s % 5);
    for (int k = 0; k < 4; k++) {
        ppo_sampling how = ppo_sampling_default();
        ppo_samples samples;
        how.temperature = 1.5f;
        if (k % 2) how.top_k = 3;
        if (k / 2) how.top_p = 0.6f;
        how.seed = 5 + (uint64_t)k;
        assert_ok(ppo_generate(generator, &prompts, &how, &samples));
        check_against_forward(lm, &samples, &how);
    }
    ppo_tokens_free(&prompts);
    ppo_generator_free(generator);
    ppo_lm_free(lm);
}

/* sum of (observed - expected)^2 / expected, over cells that are expected at all */
static double chi_square(const int *observed, const double *p, int cells, int n) {
    double sum = 0;
    for (int i = 0; i < cells; i++) {
        double expected = p[i] * n;
        if (p[i] == 0) assert_int_equal(observed[i], 0);
        else sum += (observed[i] - expected) * (observed[i] - expected) / expected;
    }
    return sum;
}

static void pairs_of_tokens_come_as_often_as_their_probability_says(void **state) {
    (void)state;
    enum { VOCAB = 5, N = 6000 };
    static const ppo_sampling settings[] = {HOW(1, 0, 0, 1, -1, 2, 1),    HOW(0.5f, 0, 0, 1, -1, 2, 2),
                                            HOW(2, 0, 0, 1, -1, 2, 3),    HOW(1, 0, 3, 1, -1, 2, 4),
                                            HOW(1, 0, 0, 0.7f, -1, 2, 5), HOW(1.5f, 0, 4, 0.8f, -1, 2, 6)};
    ppo_lm *lm = random_lm(lm_config(VOCAB, 6, 12, 1, 2), 0.4f);
    ppo_generator *generator = generator_of(lm, 64);
    ppo_tokens prompts = {0}, asked = {0};
    const int prompt[] = {3, 0, 1};
    for (int s = 0; s < N; s++) assert_ok(ppo_tokens_add(&prompts, prompt, 3, 3));
    for (int a = 0; a < VOCAB; a++) assert_ok(ppo_tokens_add(&asked, (const int[]){3, 0, 1, a}, 4, 0));
    for (int k = 0; k < COUNT(settings); k++) {
        ppo_samples samples;
        int observed[VOCAB * VOCAB] = {0};
        double p[VOCAB * VOCAB];
        float first[VOCAB], second[VOCAB], scratch[VOCAB];
        ppo_tape_reset(tape);
        ppo_tensor *logits = ppo_lm_logits(tape, lm, ppo_lm_forward(tape, lm, &asked));
        ppo_sampling_probabilities(&settings[k], logits->data + 2 * VOCAB, VOCAB, first, scratch);
        for (int a = 0; a < VOCAB; a++) {
            ppo_sampling_probabilities(&settings[k], logits->data + (4 * a + 3) * VOCAB, VOCAB, second,
                                       scratch);
            for (int b = 0; b < VOCAB; b++) p[a * VOCAB + b] = (double)first[a] * second[b];
        }
        assert_ok(ppo_generate(generator, &prompts, &settings[k], &samples));
        for (int s = 0; s < N; s++) {
            const int *text = samples.tokens.token + samples.tokens.start[s] + 3;
            observed[text[0] * VOCAB + text[1]]++;
        }
        double chi = chi_square(observed, p, VOCAB * VOCAB, N);
        if (chi > 51.2)
            fail_msg("setting %d: chi-square %g", k, chi); /* 24 degrees of freedom: once in 1,000 */
    }
    ppo_tokens_free(&prompts), ppo_tokens_free(&asked);
    ppo_generator_free(generator);
    ppo_lm_free(lm);
}

/* --------------------------------------------------------------------------------------------------------
   Slots, company, ends
   -------------------------------------------------------------------------------------------------------- */

enum { S_VOCAB = 9, S_CONTEXT = 40, S_COUNT = 11 };

static ppo_lm *small_lm(void) { return random_lm(lm_config(S_VOCAB, S_CONTEXT, 12, 2, 3), 0.25f); }

static ppo_tokens some_prompts(uint32_t seed) {
    ppo_tokens prompts = {0};
    ppo_rng rng = test_rng(seed);
    for (int s = 0; s < S_COUNT; s++) add_random(&prompts, &rng, S_VOCAB, 1 + 3 * (s % 4), 1 + 3 * (s % 4));
    return prompts;
}

/* Sequence s of both, with its log-probabilities */
static int samples_differ(const ppo_samples *a, const ppo_samples *b, int s) {
    int n = a->tokens.start[s + 1] - a->tokens.start[s];
    const int *x = a->tokens.token + a->tokens.start[s], *y = b->tokens.token + b->tokens.start[s];
    return n != b->tokens.start[s + 1] - b->tokens.start[s] || a->ended[s] != b->ended[s] ||
           a->tokens.prompt[s] != b->tokens.prompt[s] || memcmp(x, y, (size_t)n * sizeof *x) != 0 ||
           bits_differ(a->logp + a->tokens.start[s], b->logp + b->tokens.start[s], (size_t)n);
}

static void samples_are_the_same_for_any_number_of_slots_and_in_any_company(void **state) {
    (void)state;
    static const int slots[] = {1, 2, 3, 10, 11, 50};
    ppo_lm *lm = small_lm();
    ppo_tokens prompts = some_prompts(40), other = some_prompts(41);
    ppo_sampling how = ppo_sampling_default();
    how.eos = 4, how.max_new_tokens = 20;
    int *where = other.token + other.start[6];
    memcpy(where, prompts.token + prompts.start[6], 7 * sizeof *where); /* sequence 6 is the same in both */
    FOR_KERNEL_SETS(set) {
        ppo_generator *all = generator_of(lm, S_COUNT);
        ppo_samples want, got;
        assert_ok(ppo_generate(all, &prompts, &how, &want));
        for (int k = 0; k < COUNT(slots); k++) {
            ppo_generator *generator = generator_of(lm, slots[k]);
            assert_ok(ppo_generate(generator, &prompts, &how, &got));
            for (int s = 0; s < S_COUNT; s++) assert_false(samples_differ(&want, &got, s));
            assert_ok(ppo_generate(generator, &other, &how, &got));
            assert_false(samples_differ(&want, &got, 6));
            assert_true(samples_differ(&want, &got, 5));
            other.count = 7;
            assert_ok(ppo_generate(generator, &other, &how, &got));
            assert_int_equal(got.tokens.count, 7);
            assert_false(samples_differ(&want, &got, 6));
            other.count = S_COUNT;
            assert_ok(
                ppo_generate(generator, &prompts, &how, &got)); /* nothing is left of the calls before */
            for (int s = 0; s < S_COUNT; s++) assert_false(samples_differ(&want, &got, s));
            ppo_generator_free(generator);
        }
        ppo_generator_free(all);
    }
    ppo_tokens_free(&prompts), ppo_tokens_free(&other);
    ppo_lm_free(lm);
}

static void another_seed_gives_other_samples_and_the_greedy_ones_have_none(void **state) {
    (void)state;
    ppo_lm *lm = small_lm();
    ppo_tokens prompts = some_prompts(42);
    ppo_generator *a = generator_of(lm, 4), *b = generator_of(lm, 4);
    ppo_sampling how = ppo_sampling_default(), other = how;
    ppo_samples x, y;
    int differ = 0;
    other.seed = 2;
    assert_ok(ppo_generate(a, &prompts, &how, &x));
    assert_ok(ppo_generate(b, &prompts, &other, &y));
    for (int s = 0; s < S_COUNT; s++) differ += samples_differ(&x, &y, s);
    assert_true(differ >= S_COUNT - 1);
    how.greedy = other.greedy = 1;
    assert_ok(ppo_generate(a, &prompts, &how, &x));
    assert_ok(ppo_generate(b, &prompts, &other, &y));
    for (int s = 0; s < S_COUNT; s++) assert_false(samples_differ(&x, &y, s));
    ppo_tokens_free(&prompts);
    ppo_generator_free(a), ppo_generator_free(b);
    ppo_lm_free(lm);
}

static void only_the_given_tokens_of_a_sequence_are_its_prompt(void **state) {
    (void)state;
    ppo_lm *lm = small_lm();
    ppo_generator *a = generator_of(lm, 2), *b = generator_of(lm, 2);
    ppo_sampling how = ppo_sampling_default();
    ppo_samples x, y;
    int text[] = {1, 2, 3, 8, 8, 8, 5, 6}, start[] = {0, 6, 8}, given[] = {3, 2};
    int short_text[] = {1, 2, 3, 5, 6}, short_start[] = {0, 3, 5};
    ppo_tokens whole = {2, start, given, text, NULL, NULL},
               cut = {2, short_start, NULL, short_text, NULL, NULL};
    assert_ok(ppo_generate(a, &whole, &how, &x));
    assert_ok(ppo_generate(b, &cut, &how, &y));
    for (int s = 0; s < 2; s++) assert_false(samples_differ(&x, &y, s));
    assert_int_equal(x.tokens.prompt[0], 3);
    ppo_generator_free(a), ppo_generator_free(b);
    ppo_lm_free(lm);
}

/* The same sequences in arrays of their own. */
static ppo_tokens copy_of(const ppo_tokens *tokens) {
    ppo_tokens copy = {0};
    for (int s = 0; s < tokens->count; s++) assert_ok(ppo_tokens_add_from(&copy, tokens, s));
    return copy;
}

static void what_was_sampled_may_be_continued(void **state) {
    (void)state;
    ppo_lm *lm = small_lm();
    ppo_tokens prompts = some_prompts(49);
    ppo_sampling how = ppo_sampling_default();
    how.max_new_tokens = 4;
    for (int whole = 0; whole < 2; whole++) {
        ppo_generator *a = generator_of(lm, 3), *b = generator_of(lm, 3);
        ppo_samples x, y;
        assert_ok(ppo_generate(a, &prompts, &how, &x));
        for (int round = 0; round < 5; round++) {
            if (whole) x.tokens.prompt = NULL;
            ppo_tokens own = copy_of(&x.tokens);
            for (int s = 0; s < S_COUNT && whole; s++) own.prompt[s] = own.start[s + 1] - own.start[s];
            how.seed = (uint64_t)round;
            assert_ok(ppo_generate(b, &own, &how, &y));
            assert_ok(ppo_generate(a, &x.tokens, &how, &x));
            assert_int_equal(x.tokens.count, S_COUNT);
            for (int s = 0; s < S_COUNT; s++) {
                assert_false(samples_differ(&x, &y, s));
                assert_int_equal(x.tokens.prompt[s], prompts.prompt[s] + (whole ? 4 * (round + 1) : 0));
            }
            ppo_tokens_free(&own);
        }
        ppo_generator_free(a), ppo_generator_free(b);
    }
    ppo_tokens_free(&prompts);
    ppo_lm_free(lm);
}

/* The tokens of the last call, divided into more or fewer prompts than they were sampled from. */
static void what_was_sampled_may_be_divided_otherwise_and_continued(void **state) {
    (void)state;
    enum { MOST = 60 };
    static const int counts[] = {30, 4, MOST, 2, 11, 1};
    ppo_lm *lm = small_lm();
    ppo_tokens prompts = some_prompts(50);
    ppo_generator *a = generator_of(lm, 3), *b = generator_of(lm, 3);
    ppo_sampling how = ppo_sampling_default();
    ppo_samples x, y;
    int start[MOST + 1];
    how.max_new_tokens = 8;
    assert_ok(ppo_generate(a, &prompts, &how, &x));
    for (int k = 0; k < COUNT(counts); k++) {
        int all = x.tokens.start[x.tokens.count], each = all / counts[k];
        if (each > 20) each = 20;
        for (int s = 0; s <= counts[k]; s++) start[s] = s * each;
        assert_true(each > 0);
        ppo_tokens divided = {counts[k], start, NULL, x.tokens.token, NULL, NULL}, own = copy_of(&divided);
        for (int s = 0; s < own.count; s++) own.prompt[s] = each;
        assert_ok(ppo_generate(b, &own, &how, &y));
        assert_ok(ppo_generate(a, &divided, &how, &x));
        assert_int_equal(x.tokens.count, counts[k]);
        for (int s = 0; s < counts[k]; s++) assert_false(samples_differ(&x, &y, s));
        ppo_tokens_free(&own);
    }
    ppo_generator_free(a), ppo_generator_free(b);
    ppo_tokens_free(&prompts);
    ppo_lm_free(lm);
}

static void a_sequence_ends_with_eos_or_is_cut_off_by_max_new_or_the_context(void **state) {
    (void)state;
    enum { EOS = 4 };
    static const int max_new_tokens[] = {0, 1, 6, 39, 1000, INT_MAX};
    ppo_lm *lm = small_lm();
    ppo_generator *generator = generator_of(lm, 3);
    ppo_tokens prompts = some_prompts(43);
    for (int s = 0; s < S_COUNT; s++) prompts.token[prompts.start[s]] = EOS; /* in a prompt it ends nothing */
    for (int k = 0; k < 2 * COUNT(max_new_tokens); k++) {
        ppo_sampling how = ppo_sampling_default();
        ppo_samples x;
        int ended = 0;
        how.max_new_tokens = max_new_tokens[k / 2];
        how.eos = k % 2 ? EOS : -1;
        assert_ok(ppo_generate(generator, &prompts, &how, &x));
        for (int s = 0; s < S_COUNT; s++) {
            const int *text = x.tokens.token + x.tokens.start[s];
            int n = x.tokens.start[s + 1] - x.tokens.start[s], given = x.tokens.prompt[s];
            int room = S_CONTEXT - given,
                most = given + (how.max_new_tokens && how.max_new_tokens < room ? how.max_new_tokens : room);
            assert_int_equal(given, prompts.prompt[s]);
            assert_memory_equal(text, prompts.token + prompts.start[s], (size_t)given * sizeof *text);
            for (int i = given; i < n - 1 && how.eos >= 0; i++) assert_int_not_equal(text[i], EOS);
            assert_int_equal(x.ended[s], how.eos >= 0 && text[n - 1] == EOS);
            if (!x.ended[s]) assert_int_equal(n, most);
            assert_true(n > given && n <= most);
            ended += x.ended[s];
        }
        if (how.max_new_tokens == 0 || how.max_new_tokens > 30)
            assert_true(k % 2 ? ended > 4 && ended <= S_COUNT : ended == 0);
        if (how.max_new_tokens == 6 && k % 2) assert_true(ended > 0 && ended < S_COUNT);
    }
    ppo_tokens_free(&prompts);
    ppo_generator_free(generator);
    ppo_lm_free(lm);
}

static void weights_may_change_between_two_calls(void **state) {
    (void)state;
    ppo_lm *lm = small_lm();
    ppo_generator *generator = generator_of(lm, 4);
    ppo_tokens prompts = some_prompts(44);
    ppo_sampling how = ppo_sampling_default();
    ppo_samples x;
    ppo_rng rng = test_rng(45);
    for (int round = 0; round < 3; round++) {
        assert_ok(ppo_generate(generator, &prompts, &how, &x));
        check_against_forward(lm, &x, &how);
        for (int k = 0; k < lm->params->tensor_count; k++) {
            const ppo_tensor *t = lm->params->tensors[k];
            for (int i = 0; i < t->rows * t->cols; i++) t->data[i] += 0.1f * ppo_rng_normal(&rng);
        }
    }
    ppo_tokens_free(&prompts);
    ppo_generator_free(generator);
    ppo_lm_free(lm);
}

/* --------------------------------------------------------------------------------------------------------
   Errors and memory
   -------------------------------------------------------------------------------------------------------- */

static void what_cannot_be_continued_is_refused_and_named(void **state) {
    (void)state;
    ppo_lm *lm = small_lm();
    ppo_generator *generator = generator_of(lm, 2), *none = generator;
    ppo_sampling how = ppo_sampling_default();
    ppo_samples x;
    int text[2 * S_CONTEXT] = {1, 2, 3, 4}, start[] = {0, 2, 4}, given[] = {1, 2};
    ppo_tokens prompts = {2, start, given, text, NULL, NULL};
    assert_fails(ppo_generate(NULL, &prompts, &how, &x), PPO_ERROR_ARGUMENT, "ppo_generate|NULL");
    assert_fails(ppo_generate(generator, &prompts, NULL, &x), PPO_ERROR_ARGUMENT, "ppo_generate|NULL");
    assert_fails(ppo_generate(generator, &prompts, &how, NULL), PPO_ERROR_ARGUMENT, "ppo_generate|NULL");
    assert_fails(ppo_generate(generator, NULL, &how, &x), PPO_ERROR_ARGUMENT, "ppo_generate|NULL");
    given[1] = 0;
    assert_fails(ppo_generate(generator, &prompts, &how, &x), PPO_ERROR_ARGUMENT, "prompt 1|0 of 2");
    given[1] = 3;
    assert_fails(ppo_generate(generator, &prompts, &how, &x), PPO_ERROR_ARGUMENT, "prompt 1|3 of 2");
    given[1] = 2, text[3] = S_VOCAB;
    assert_fails(ppo_generate(generator, &prompts, &how, &x), PPO_ERROR_ARGUMENT,
                 "token 9|sequence 1, position 1");
    text[3] = -1;
    assert_fails(ppo_generate(generator, &prompts, &how, &x), PPO_ERROR_ARGUMENT, "token -1");
    text[3] = 0, start[2] = 2;
    assert_fails(ppo_generate(generator, &prompts, &how, &x), PPO_ERROR_ARGUMENT,
                 "prompt 1 has 2 of 0 tokens");
    start[2] = 2 + S_CONTEXT, given[1] = S_CONTEXT;
    assert_fails(ppo_generate(generator, &prompts, &how, &x), PPO_ERROR_ARGUMENT,
                 "prompt 1 has 40 tokens|no room");
    given[1] = S_CONTEXT - 1;
    assert_ok(ppo_generate(generator, &prompts, &how, &x));
    assert_int_equal(x.tokens.start[2] - x.tokens.start[1], S_CONTEXT);
    start[2] = 2 + 10 * S_CONTEXT; /* what follows a prompt does not count */
    assert_ok(ppo_generate(generator, &prompts, &how, &x));
    given[1] = 0;
    assert_fails(ppo_generate(generator, &prompts, &how, &x), PPO_ERROR_ARGUMENT, "prompt 1 has 0 of 400");
    assert_true(x.tokens.count == 0 && !x.tokens.token && !x.logp && !x.ended);

    assert_fails(ppo_generator_create(NULL, 2, &none), PPO_ERROR_ARGUMENT, "ppo_generator_create|NULL");
    assert_fails(ppo_generator_create(lm, 2, NULL), PPO_ERROR_ARGUMENT, "ppo_generator_create|NULL");
    assert_fails(ppo_generator_create(lm, 0, &none), PPO_ERROR_ARGUMENT, "0 slots");
    assert_fails(ppo_generator_create(lm, INT_MAX, &none), PPO_ERROR_ARGUMENT, "2147483647 slots|65536");
    assert_null(none);
    ppo_generator_free(NULL);
    ppo_generator_free(generator);
    ppo_lm_free(lm);
}

static void settings_that_mean_nothing_are_refused(void **state) {
    (void)state;
    ppo_lm *lm = small_lm();
    ppo_generator *generator = generator_of(lm, 2);
    ppo_tokens prompts = some_prompts(46);
    ppo_samples x;
    static const struct {
        ppo_sampling how;
        const char *words;
    } bad[] = {{HOW(0, 0, 0, 1, -1, 0, 1), "temperature is 0"},
               {HOW(-1, 0, 0, 1, -1, 0, 1), "temperature is -1"},
               {HOW(NAN, 0, 0, 1, -1, 0, 1), "temperature is"},
               {HOW(INFINITY, 0, 0, 1, -1, 0, 1), "temperature is inf"},
               {HOW(1e-40f, 0, 0, 1, -1, 0, 1), "temperature is"},
               {HOW(1, 0, -1, 1, -1, 0, 1), "top_k is -1"},
               {HOW(1, 0, 0, 0, -1, 0, 1), "top_p is 0"},
               {HOW(1, 0, 0, 1.01f, -1, 0, 1), "top_p is 1.01"},
               {HOW(1, 0, 0, NAN, -1, 0, 1), "top_p is"},
               {HOW(1, 0, 0, 1, -1, -3, 1), "max_new_tokens is -3"},
               {HOW(1, 0, 0, 1, S_VOCAB, 0, 1), "eos is 9|0 .. 8"},
               {HOW(1, 0, 0, 1, -2, 0, 1), "eos is -2"}};
    for (int i = 0; i < COUNT(bad); i++)
        assert_fails(ppo_generate(generator, &prompts, &bad[i].how, &x), PPO_ERROR_ARGUMENT, bad[i].words);
    ppo_tokens_free(&prompts);
    ppo_generator_free(generator);
    ppo_lm_free(lm);
}

static void logits_that_are_not_finite_end_it_with_the_place(void **state) {
    (void)state;
    static const float broken[] = {NAN, INFINITY, -INFINITY};
    ppo_lm *lm = small_lm();
    ppo_generator *generator = generator_of(lm, 2);
    ppo_sampling how = ppo_sampling_default();
    ppo_samples x;
    int text[] = {1, 2, 3, 1}, start[] = {0, 3, 4};
    ppo_tokens prompts = {2, start, NULL, text, NULL, NULL};
    how.max_new_tokens = 1;
    FOR_KERNEL_SETS(set) {
        for (int greedy = 0; greedy < 2; greedy++)
            for (int k = 0; k < COUNT(broken); k++)
                for (int where = 0; where < 3;
                     where++) { /* a last norm, the embedding of an early and a late token */
                    float *w = where ? lm->token_embedding->data + (where == 1 ? 0 : S_VOCAB - 1) * 12
                                     : lm->norm_bias->data;
                    float whole = *w;
                    *w = broken[k];
                    how.greedy = greedy;
                    ppo_fail(PPO_OK, "(no sentence)");
                    ppo_status status = ppo_generate(generator, &prompts, &how, &x);
                    *w = whole;
                    if (where && isinf(broken[k]))
                        continue; /* -inf times a number may be an impossible token */
                    check_fails(status, PPO_ERROR_NUMERIC, "sequence 0, position 2", "ppo_generate", __FILE__,
                                __LINE__);
                    assert_null(x.tokens.token);
                }
    }
    assert_ok(ppo_generate(generator, &prompts, &how, &x)); /* and is usable again */
    ppo_generator_free(generator);
    ppo_lm_free(lm);
}

typedef struct job {
    ppo_lm *lm;
    ppo_tokens prompts;
} job;

static ppo_status generate_once(void *user) {
    job *j = (job *)user;
    ppo_generator *generator = NULL;
    ppo_sampling how = ppo_sampling_default();
    ppo_samples x;
    how.max_new_tokens = 3;
    ppo_status status = ppo_generator_create(j->lm, 2, &generator);
    if (!status) status = ppo_generate(generator, &j->prompts, &how, &x);
    ppo_generator_free(generator);
    return status;
}

static void every_failing_allocation_is_reported_and_leaks_nothing(void **state) {
    (void)state;
    job j = {small_lm(), some_prompts(47)};
    assert_true(fail_each_allocation(generate_once, &j) > 5);
    ppo_tokens_free(&j.prompts);
    ppo_lm_free(j.lm);
}

/* No allocation of more than 16 MB succeeds. */
static void *small_heap(void *user, void *ptr, size_t size) {
    return size > 1 << 24 ? NULL : heap_hook(user, ptr, size);
}

static void more_slots_than_memory_can_hold_are_refused(void **state) {
    (void)state;
    ppo_lm *lm = small_lm();
    ppo_generator *generator = NULL;
    heap h = {0, 0, -1, 0};
    ppo_set_allocator(small_heap, &h);
    assert_fails(ppo_generator_create(lm, 65536, &generator), PPO_ERROR_MEMORY, "memory");
    ppo_set_allocator(NULL, NULL);
    assert_null(generator);
    assert_int_equal(h.live, 0);
    ppo_lm_free(lm);
}

static void after_the_first_calls_nothing_is_allocated(void **state) {
    (void)state;
    ppo_lm *lm = small_lm();
    ppo_tokens prompts = some_prompts(48);
    ppo_sampling how = ppo_sampling_default();
    heap h = {0, 0, -1, 0};
    ppo_samples x;
    long calls = 0;
    how.eos = 4;
    ppo_set_allocator(heap_hook, &h);
    ppo_generator *generator = generator_of(lm, 3);
    for (int round = 0; round < 20; round++) {
        how.seed = (uint64_t)round;
        assert_ok(ppo_generate(generator, &prompts, &how, &x));
        if (round == 1) calls = h.calls;
    }
    assert_int_equal(h.calls, calls);
    ppo_generator_free(generator);
    ppo_set_allocator(NULL, NULL);
    assert_int_equal(h.live, 0);
    ppo_tokens_free(&prompts);
    ppo_lm_free(lm);
}

static void fewer_prompts_than_once_allocate_nothing(void **state) {
    (void)state;
    ppo_lm *lm = small_lm();
    ppo_tokens prompts = {0};
    ppo_sampling how = ppo_sampling_default();
    heap h = {0, 0, -1, 0};
    ppo_samples x;
    ppo_rng rng = test_rng(51);
    long calls = 0;
    how.max_new_tokens = 2;
    for (int s = 0; s < 150; s++) add_random(&prompts, &rng, S_VOCAB, 5, 5); /* 48 KB of results */
    ppo_set_allocator(heap_hook, &h);
    ppo_generator *generator = generator_of(lm, 3);
    for (int round = 0; round < 12; round++) {
        prompts.count = round % 3 ? 150 / round : 150;
        assert_ok(ppo_generate(generator, &prompts, &how, &x));
        if (round == 1) calls = h.calls; /* that call knew how much the first one took of the tape */
        if (round > 1) assert_int_equal(h.calls, calls);
    }
    ppo_generator_free(generator);
    ppo_set_allocator(NULL, NULL);
    assert_int_equal(h.live, 0);
    ppo_tokens_free(&prompts);
    ppo_lm_free(lm);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temperature_top_k_and_top_p_filter_as_in_transformers),
        cmocka_unit_test(equals_are_kept_or_left_out_together),
        cmocka_unit_test(greedy_gives_all_to_the_first_of_the_most_likely),
        cmocka_unit_test(probabilities_of_what_means_nothing_are_refused),
        cmocka_unit_test(probabilities_of_a_nan_are_refused),
        cmocka_unit_test(rounding_gives_no_token_without_probability),
        cmocka_unit_test(greedy_continuations_are_those_of_transformers),
        cmocka_unit_test(log_probabilities_have_the_bits_of_the_whole_sequence),
        cmocka_unit_test(bits_are_those_of_the_whole_however_many_blocks_of_keys_there_are),
        cmocka_unit_test(a_token_that_is_filtered_out_is_never_sampled),
        cmocka_unit_test(pairs_of_tokens_come_as_often_as_their_probability_says),
        cmocka_unit_test(samples_are_the_same_for_any_number_of_slots_and_in_any_company),
        cmocka_unit_test(another_seed_gives_other_samples_and_the_greedy_ones_have_none),
        cmocka_unit_test(only_the_given_tokens_of_a_sequence_are_its_prompt),
        cmocka_unit_test(what_was_sampled_may_be_continued),
        cmocka_unit_test(what_was_sampled_may_be_divided_otherwise_and_continued),
        cmocka_unit_test(a_sequence_ends_with_eos_or_is_cut_off_by_max_new_or_the_context),
        cmocka_unit_test(weights_may_change_between_two_calls),
        cmocka_unit_test(what_cannot_be_continued_is_refused_and_named),
        cmocka_unit_test(settings_that_mean_nothing_are_refused),
        cmocka_unit_test(logits_that_are_not_finite_end_it_with_the_place),
        cmocka_unit_test_teardown(every_failing_allocation_is_reported_and_leaks_nothing, restore_allocator),
        cmocka_unit_test_teardown(more_slots_than_memory_can_hold_are_refused, restore_allocator),
        cmocka_unit_test_teardown(after_the_first_calls_nothing_is_allocated, restore_allocator),
        cmocka_unit_test_teardown(fewer_prompts_than_once_allocate_nothing, restore_allocator),
    };
    return cmocka_run_group_tests(tests, open_tape, close_tape);
}
