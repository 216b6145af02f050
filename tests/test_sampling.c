/* Section 20: how sampling ends, and who watches it. */
#define _XOPEN_SOURCE 700
#include <unistd.h>

#include "../ppo.h"
#include "../examples/companions/ppo_hub.h"
#include "../examples/companions/ppo_methods.h"

#include "test.h"
#include "system.h"

enum { V = 9, CONTEXT = 40, PROMPTS = 11 };

static ppo_lm *small_lm(void) { return random_lm(lm_config(V, CONTEXT, 12, 2, 3), 0.25f); }

static ppo_tokens some_prompts(uint32_t seed) {
    ppo_tokens prompts = {0};
    ppo_rng rng = test_rng(seed);
    for (int s = 0; s < PROMPTS; s++) add_random(&prompts, &rng, V, 1 + 3 * (s % 4), 1 + 3 * (s % 4));
    return prompts;
}

static ppo_generator *generator_of(const ppo_lm *lm, int slots) {
    ppo_generator *generator = NULL;
    assert_ok(ppo_generator_create(lm, slots, &generator));
    return generator;
}

/* Is sequence s of a the first n of that of b, with the same bits? n -1: is it the same? */
static int is_beginning(const ppo_samples *a, const ppo_samples *b, int s, int n) {
    const int i = a->tokens.start[s], k = b->tokens.start[s], length = a->tokens.start[s + 1] - i;
    if (n < 0 && (n = b->tokens.start[s + 1] - k) != length) return 0;
    return length == n && !memcmp(a->tokens.token + i, b->tokens.token + k, (size_t)n * sizeof(int)) &&
           !bits_differ(a->logp + i, b->logp + k, (size_t)n);
}

enum { CALL = 4 };

/* What a watch saw, and when it ends a sequence. */
typedef struct witness {
    ppo_tokens prompts;
    int seen[PROMPTS]; /* tokens of each sequence */
    int text[PROMPTS][CONTEXT];
    int ends, fails, tools, samples;
} witness;

static ppo_status see(const ppo_tokens *so_far, int s, int *end, void *user) {
    witness *w = (witness *)user;
    int n = so_far->start[1], given = so_far->prompt[0], before = w->seen[s] ? w->seen[s] : given;
    assert_true(so_far->count == 1 && so_far->start[0] == 0 && *end == 0);
    assert_int_equal(given, w->prompts.start[s + 1] - w->prompts.start[s]);
    assert_memory_equal(so_far->token, w->seen[s] ? w->text[s] : w->prompts.token + w->prompts.start[s],
                        (size_t)before * sizeof(int));
    assert_int_equal(so_far->given != NULL, w->tools >= 0);
    for (int i = given; i < n && so_far->given; i++) /* what is new is a tool's, but for the last */
        if (i >= before) assert_int_equal(so_far->given[i], i < n - 1);
    if (!so_far->given) assert_int_equal(n, before + 1);
    memcpy(w->text[s], so_far->token, (size_t)n * sizeof(int));
    w->seen[s] = n;
    w->samples++;
    if (w->fails == 1 && w->samples == 9) return ppo_fail(PPO_ERROR_FILE, "the screen is full");
    if (w->fails == 2) return PPO_ERROR_ARGUMENT;
    *end = w->ends && n >= given + 1 + s % 5;
    return PPO_OK;
}

static ppo_status use_tool(const int *token, int n, int *answer, int room, int *count, void *user) {
    witness *w = (witness *)user;
    assert_int_equal(token[n - 1], CALL);
    w->tools++;
    *count = room < 3 ? room : 3;
    for (int i = 0; i < *count; i++) answer[i] = i ? CALL : 5; /* calls of a tool are none */
    return PPO_OK;
}

/* --------------------------------------------------------------------------------------------------------
   Ends
   -------------------------------------------------------------------------------------------------------- */

static void any_of_several_tokens_ends_a_sequence_as_its_last(void **state) {
    (void)state;
    static const int ends[] = {2, 7, 2};
    ppo_lm *lm = small_lm();
    ppo_tokens prompts = some_prompts(1);
    ppo_generator *free_one = generator_of(lm, 4);
    for (int slots = 1; slots <= 16; slots += 5) {
        ppo_generator *g = generator_of(lm, slots);
        for (int eos = -1; eos < 2; eos += 2) {
            ppo_sampling how = ppo_sampling_default();
            ppo_samples all, x;
            int by[V] = {0}, cut = 0;
            how.temperature = 3;
            assert_ok(ppo_generate(free_one, &prompts, &how, &all));
            how.stop_tokens = ends, how.stop_token_count = COUNT(ends), how.eos = eos,
            how.max_new_tokens = 15;
            assert_ok(ppo_generate(g, &prompts, &how, &x));
            for (int s = 0; s < PROMPTS; s++) { /* what is sampled without ends, up to the first of them */
                const int *text = all.tokens.token + all.tokens.start[s], prompt = all.tokens.prompt[s];
                int n = prompt, most = prompt + 15;
                if (most > CONTEXT) most = CONTEXT;
                while (n < most && text[n] != 2 && text[n] != 7 && text[n] != eos) n++;
                assert_int_equal(x.ended[s], n < most);
                if (n < most) by[text[n]]++;
                else cut++;
                assert_true(is_beginning(&x, &all, s, n < most ? n + 1 : most));
            }
            if (!by[2] || !by[7] || (eos >= 0 && !by[eos]) || cut == PROMPTS)
                fail_msg("%d %d %d %d", by[2], by[7], by[1], cut);
        }
        ppo_generator_free(g);
    }
    ppo_generator_free(free_one);
    ppo_tokens_free(&prompts);
    ppo_lm_free(lm);
}

static void ends_that_mean_nothing_are_refused(void **state) {
    (void)state;
    static const int bad[] = {3, V}, below[] = {-1};
    ppo_lm *lm = small_lm();
    ppo_tokens prompts = some_prompts(2);
    ppo_generator *g = generator_of(lm, 2);
    ppo_sampling how = ppo_sampling_default();
    ppo_samples x;
    how.stop_tokens = bad, how.stop_token_count = 2;
    assert_fails(ppo_generate(g, &prompts, &how, &x), PPO_ERROR_ARGUMENT, "stop_tokens[1] is 9|0 .. 8");
    how.stop_token_count = -1;
    assert_fails(ppo_generate(g, &prompts, &how, &x), PPO_ERROR_ARGUMENT, "stop_token_count is -1");
    how.stop_tokens = NULL, how.stop_token_count = 1;
    assert_fails(ppo_generate(g, &prompts, &how, &x), PPO_ERROR_ARGUMENT,
                 "stop_token_count is 1|stop_tokens is NULL");
    how.stop_tokens = below;
    assert_fails(ppo_generate(g, &prompts, &how, &x), PPO_ERROR_ARGUMENT, "stop_tokens[0] is -1");
    how.stop_tokens = bad, how.tool_token = 3, how.tool = use_tool;
    assert_fails(ppo_generate(g, &prompts, &how, &x), PPO_ERROR_ARGUMENT, "tool_token|one of stop_tokens|both 3");
    how.tool_token = -1, how.tool = NULL;
    assert_ok(ppo_generate(g, &prompts, &how, &x));
    ppo_generator_free(g);
    ppo_tokens_free(&prompts);
    ppo_lm_free(lm);
}

static void settings_of_sampling_have_names(void **state) {
    (void)state;
    ppo_sampling how = ppo_sampling_default();
    char text[32];
    assert_ok(ppo_settings_set_all(ppo_sampling_settings(), &how, "temperature=0.5 top_p=0.75 max-new=3"));
    assert_true(how.temperature == 0.5f && how.top_p == 0.75f && how.eos == -1 && how.max_new_tokens == 3);
    assert_fails(ppo_settings_get(ppo_sampling_settings(), &how, "seed", text, sizeof text),
                 PPO_ERROR_ARGUMENT, "seed");
}

/* --------------------------------------------------------------------------------------------------------
   The watch
   -------------------------------------------------------------------------------------------------------- */

static void a_watch_sees_every_token_in_its_order_and_may_end_the_sequence(void **state) {
    (void)state;
    ppo_lm *lm = small_lm();
    ppo_tokens prompts = some_prompts(3);
    for (int i = 0; i < 16; i++) {
        static const int slots[] = {1, 3, 11, 40};
        ppo_generator *g = generator_of(lm, slots[i % 4]), *other = generator_of(lm, 5);
        ppo_sampling how = ppo_sampling_default();
        ppo_samples x, plain;
        witness w = {0}, unseen = {0};
        w.prompts = unseen.prompts = prompts;
        w.ends = i / 4 % 2, w.tools = unseen.tools = i / 8 - 1;
        how.eos = 3;
        if (i / 8) how.tool_token = CALL, how.tool = use_tool, how.tool_user = &unseen;
        assert_ok(ppo_generate(other, &prompts, &how, &plain));
        how.watch = see, how.watch_user = how.tool_user = &w;
        ppo_fail(PPO_OK, "(a sentence of before)");
        assert_ok(ppo_generate(g, &prompts, &how, &x));
        assert_string_equal(ppo_last_error(), "(a sentence of before)");
        int ended = 0;
        for (int s = 0; s < PROMPTS; s++) {
            const int *text = x.tokens.token + x.tokens.start[s];
            const int n = x.tokens.start[s + 1] - x.tokens.start[s], prompt = x.tokens.prompt[s];
            assert_true(is_beginning(&x, &plain, s, w.ends ? n : -1)); /* it changes nothing else */
            assert_memory_equal(text, w.text[s], (size_t)w.seen[s] * sizeof *text);
            for (int k = w.seen[s]; k < n; k++) assert_true(x.tokens.given[x.tokens.start[s] + k]);
            const int by_watch = w.ends && w.seen[s] >= prompt + 1 + s % 5;
            assert_int_equal(x.ended[s], by_watch || text[n - 1] == 3);
            if (by_watch) assert_int_equal(n, w.seen[s]); /* a tool is not called then */
            ended += by_watch;
        }
        if (w.ends) assert_true(ended >= PROMPTS - 4);
        if (i / 8 && !w.ends) assert_true(w.tools == unseen.tools && w.tools > 4);
        ppo_generator_free(g), ppo_generator_free(other);
    }
    ppo_tokens_free(&prompts);
    ppo_lm_free(lm);
}

static void a_watch_that_fails_ends_the_call_with_its_reason(void **state) {
    (void)state;
    ppo_lm *lm = small_lm();
    ppo_tokens prompts = some_prompts(4);
    ppo_generator *g = generator_of(lm, 3);
    ppo_sampling how = ppo_sampling_default();
    ppo_samples x;
    witness w = {0};
    w.prompts = prompts, w.tools = -1, w.fails = 1;
    how.watch = see, how.watch_user = &w;
    assert_fails(ppo_generate(g, &prompts, &how, &x), PPO_ERROR_FILE, "the screen is full");
    assert_true(w.samples == 9 && x.tokens.count == 0);
    memset(w.seen, 0, sizeof w.seen), w.fails = 2;
    assert_fails(ppo_generate(g, &prompts, &how, &x), PPO_ERROR_ARGUMENT,
                 "the watch failed and gave no reason");
    memset(w.seen, 0, sizeof w.seen), w.fails = 0;
    assert_ok(ppo_generate(g, &prompts, &how, &x));
    ppo_generator_free(g);
    ppo_tokens_free(&prompts);
    ppo_lm_free(lm);
}

static ppo_status sample_within(const ppo_tokens *so_far, int s, int *end, void *user) {
    ppo_sampling how = ppo_sampling_default();
    ppo_samples x;
    (void)s, (void)end;
    return ppo_generate((ppo_generator *)user, so_far, &how, &x);
}

static void a_watch_cannot_use_the_generator_that_it_watches(void **state) {
    (void)state;
    ppo_lm *lm = small_lm();
    ppo_tokens prompts = some_prompts(5);
    ppo_generator *g = generator_of(lm, 3);
    ppo_sampling how = ppo_sampling_default();
    ppo_samples x;
    how.watch = sample_within, how.watch_user = g;
    assert_fails(ppo_generate(g, &prompts, &how, &x), PPO_ERROR_ARGUMENT, "the generator is in use");
    ppo_generator_free(g);
    ppo_tokens_free(&prompts);
    ppo_lm_free(lm);
}

/* --------------------------------------------------------------------------------------------------------
   Stops
   -------------------------------------------------------------------------------------------------------- */

static const char *const specials[] = {"<end>"};

/* Tokens of one and several bytes, among them parts of the character U+00E4, and a special one. */
static ppo_tokenizer *letters(void) {
    static const char text[] =
        "abab abab aab aab bba bba \303\244b \303\244b \303\244\303\244 \303\244\303\244 a\303 a\303";
    ppo_tokenizer *tokenizer = NULL;
    assert_ok(ppo_tokenizer_train(text, sizeof text - 1, 280, specials, 1, &tokenizer));
    return tokenizer;
}

/* Random responses, token by token: they end with the first token after which the text contains a stop. */
static void a_stop_ends_a_response_with_the_token_that_completes_it(void **state) {
    (void)state;
    static const char *const texts[][3] = {{"ab"},
                                           {"bab", "aaaa", "b"},
                                           {"\303\244"},
                                           {"\303\244ab", "bb\303\244"},
                                           {"a<end>b", "nd><"},
                                           {"ababababa"},
                                           {"\244"}};
    ppo_tokenizer *tokenizer = letters();
    ppo_rng rng = test_rng(6);
    int usable[64], count = 0, stopped[COUNT(texts)] = {0}, within = 0, passed = 0;
    for (int t = 0; t < ppo_tokenizer_vocab(tokenizer); t++) { /* those of these letters */
        char text[64];
        assert_ok(ppo_decode(tokenizer, &t, 1, text, sizeof text, NULL));
        if ((*text && strspn(text, "ab\303\244") == strlen(text)) || !strcmp(text, "<end>"))
            usable[count++] = t;
    }
    assert_true(count > 6);
    for (int round = 0; round < SMALL(6000, 1500); round++) {
        const int which = round % COUNT(texts), prompt = ppo_rng_below(&rng, 4);
        int token[24], start[2] = {0, 0}, given = prompt, number = 0;
        ppo_stops stops = {tokenizer, texts[which], 0};
        ppo_tokens so_far = {1, start, &given, token, NULL, NULL};
        while (stops.count < 3 && texts[which][stops.count]) stops.count++;
        for (int i = 0; i < COUNT(token); i++) token[i] = usable[ppo_rng_below(&rng, count)];
        for (int n = prompt + 1; n <= COUNT(token); n++) {
            char text[512];
            size_t bytes;
            int want = 0, end = 0;
            start[1] = n;
            assert_ok(ppo_decode(tokenizer, token + prompt, n - prompt, text, sizeof text, &bytes));
            for (int k = 0; k < stops.count; k++) {
                const char *at = strstr(text, texts[which][k]);
                want |= at != NULL;
                if (at && at + strlen(texts[which][k]) < text + bytes) within++;
            }
            assert_ok(ppo_stop_at(&so_far, number, &end, &stops));
            if (end != want) fail_msg("stop set %d, %d tokens of %d: \"%s\"", which, n, prompt, text);
            if (end) stopped[which]++;
            if (end) break;
            passed++;
        }
    }
    for (int i = 0; i < COUNT(texts); i++)
        if (!stopped[i]) fail_msg("stop %d never came", i);
    assert_true(within > 100 && passed > 1000);
    ppo_tokenizer_free(tokenizer);
}

static void a_stop_before_the_last_token_or_in_the_prompt_is_none(void **state) {
    (void)state;
    static const char *const texts[] = {"ab"};
    ppo_tokenizer *tokenizer = NULL;
    assert_ok(ppo_tokenizer_characters("ab", 2, NULL, 0, &tokenizer));
    int token[] = {0, 1, 1, 0, 0, 1}, start[2] = {0, 6}, prompt = 5, end = 0;
    ppo_tokens so_far = {1, start, &prompt, token, NULL, NULL};
    ppo_stops stops = {tokenizer, texts, 1};
    assert_ok(ppo_stop_at(&so_far, 0, &end, &stops));
    assert_int_equal(end, 0); /* its a is the prompt's */
    prompt = 4;
    assert_ok(ppo_stop_at(&so_far, 0, &end, &stops));
    assert_int_equal(end, 1);
    end = 0, prompt = 0, start[1] = 3; /* what a tool wrote, and was not asked about */
    assert_ok(ppo_stop_at(&so_far, 0, &end, &stops));
    assert_int_equal(end, 0);
    so_far.prompt = NULL, start[1] = 2;
    assert_ok(ppo_stop_at(&so_far, 0, &end, &stops));
    assert_int_equal(end, 1);
    end = 0, start[1] = 0;
    assert_ok(ppo_stop_at(&so_far, 0, &end, &stops));
    assert_int_equal(end, 0);
    ppo_tokenizer_free(tokenizer);
}

static void stops_that_mean_nothing_are_refused(void **state) {
    (void)state;
    static const char *const texts[] = {"b", "", NULL};
    ppo_tokenizer *tokenizer = NULL;
    assert_ok(ppo_tokenizer_characters("ab", 2, NULL, 0, &tokenizer));
    int token[] = {0, 0}, start[2] = {0, 2}, end = 0;
    ppo_tokens so_far = {1, start, NULL, token, NULL, NULL};
    ppo_stops stops = {tokenizer, texts, 2};
    assert_fails(ppo_stop_at(&so_far, 0, &end, &stops), PPO_ERROR_ARGUMENT, "text 1 is empty");
    stops.text = texts + 1, stops.count = 0;
    assert_ok(ppo_stop_at(&so_far, 0, &end, &stops));
    stops.text = texts + 2, stops.count = 1;
    assert_fails(ppo_stop_at(&so_far, 0, &end, &stops), PPO_ERROR_ARGUMENT, "text 0 is NULL");
    stops.text = NULL;
    assert_fails(ppo_stop_at(&so_far, 0, &end, &stops), PPO_ERROR_ARGUMENT, "ppo_stop_at|NULL");
    stops.text = texts, stops.tokenizer = NULL;
    assert_fails(ppo_stop_at(&so_far, 0, &end, &stops), PPO_ERROR_ARGUMENT, "ppo_stop_at|NULL");
    assert_fails(ppo_stop_at(&so_far, 0, &end, NULL), PPO_ERROR_ARGUMENT, "ppo_stop_at|NULL");
    assert_fails(ppo_stop_at(NULL, 0, &end, &stops), PPO_ERROR_ARGUMENT, "ppo_stop_at|NULL");
    assert_fails(ppo_stop_at(&so_far, 0, NULL, &stops), PPO_ERROR_ARGUMENT, "ppo_stop_at|NULL");
    ppo_tokenizer_free(tokenizer);
}

/* A reward that also checks which samples have ended. */
static ppo_status reward_of_stops(const ppo_samples *samples, float *reward, void *user) {
    const ppo_stops *stops = (const ppo_stops *)user;
    for (int s = 0; s < samples->tokens.count; s++) {
        char text[64];
        assert_ok(
            ppo_tokens_text(&samples->tokens, s, PPO_RESPONSE_TEXT, stops->tokenizer, text, sizeof text));
        const char *at = strstr(text, stops->text[0]);
        assert_int_equal(samples->ended[s], at != NULL);
        if (at) assert_int_equal(strlen(at), strlen(stops->text[0])); /* nothing follows it */
        reward[s] = at != NULL;
    }
    return PPO_OK;
}

static void ppo_on_tokens_learns_to_write_what_stops_it(void **state) {
    (void)state;
    static const char *const texts[] = {"cab"};
    ppo_tokenizer *tokenizer = NULL;
    ppo_lm *lm = random_lm(lm_config(4, 16, 12, 1, 2), 0.1f);
    ppo_rlhf_config config = ppo_rlhf_config_default();
    ppo_rlhf_progress first, p;
    ppo_tokens prompts = {0};
    ppo_rlhf *rlhf = NULL;
    assert_ok(ppo_tokenizer_characters("abcd", 4, NULL, 0, &tokenizer));
    ppo_stops stops = {tokenizer, texts, 1};
    for (int s = 0; s < 4; s++) assert_ok(ppo_tokens_add(&prompts, &s, 1, 1));
    config.prompts = 64, config.minibatch_size = 16, config.learning_rate = 5e-3f, config.target_kl = 0;
    config.kl_coef = 0, config.sampling.max_new_tokens = 12;
    config.mask_truncated = 1;
    assert_fails(ppo_rlhf_create(lm, NULL, NULL, &prompts, reward_of_stops, &stops, &config, &rlhf),
                 PPO_ERROR_ARGUMENT, "mask_truncated|eos is -1");
    config.mask_truncated = 0, config.missing_eos_penalty = 1;
    assert_fails(ppo_rlhf_create(lm, NULL, NULL, &prompts, reward_of_stops, &stops, &config, &rlhf),
                 PPO_ERROR_ARGUMENT, "missing_eos_penalty is 1|eos is -1");
    config.sampling.watch = ppo_stop_at, config.sampling.watch_user = &stops,
    config.sampling.prefix_cache = 1;
    assert_fails(ppo_rlhf_create(lm, NULL, NULL, &prompts, reward_of_stops, &stops, &config, &rlhf),
                 PPO_ERROR_ARGUMENT, "prefix_cache|the weights change");
    config.sampling.prefix_cache = 0;
    assert_ok(ppo_rlhf_create(lm, NULL, NULL, &prompts, reward_of_stops, &stops, &config, &rlhf));
    assert_ok(ppo_rlhf_iterate(rlhf, &first));
    for (int i = 0; i < 12; i++) {
        assert_ok(ppo_rlhf_iterate(rlhf, &p));
        assert_true(p.ended == p.reward && p.first_ratio_min == 1 && p.first_ratio_max == 1);
    }
    assert_true(first.ended > 0.02f && first.ended < 0.6f);
    if (!(p.ended > first.ended + 0.2f)) fail_msg("%g, first %g", (double)p.ended, (double)first.ended);
    ppo_rlhf_free(rlhf);
    ppo_tokens_free(&prompts);
    ppo_lm_free(lm);
    ppo_tokenizer_free(tokenizer);
}

/* --------------------------------------------------------------------------------------------------------
   Keys and values of the call before
   -------------------------------------------------------------------------------------------------------- */

/* A chat: each prompt is the sequence before it, changed from some token on. */
static void reused_keys_and_values_give_the_same_bits(void **state) {
    (void)state;
    enum { LONG = 150 };
    ppo_lm *lm = random_lm(lm_config(V, LONG, 12, 2, 3), 0.25f);
    ppo_rng rng = test_rng(7);
    ppo_sampling how = ppo_sampling_default(), fresh;
    how.max_new_tokens = 6, how.eos = 3, how.prefix_cache = 1;
    for (int slots = 1; slots <= 4; slots++) {
        ppo_generator *a = generator_of(lm, slots), *b = generator_of(lm, slots);
        ppo_samples x, y;
        ppo_tokens prompts = {0}, next = {0};
        for (int s = 0; s < slots + slots / 2; s++) add_random(&prompts, &rng, V, 5 + s, 5 + s);
        for (int round = 0; round < 30; round++) {
            how.seed = (uint64_t)round;
            fresh = how, fresh.prefix_cache = 0;
            assert_ok(ppo_generate(a, &prompts, &how, &x));
            assert_ok(ppo_generate(b, &prompts, &fresh, &y));
            ppo_tokens_clear(&next);
            for (int s = 0; s < prompts.count; s++) {
                assert_true(is_beginning(&x, &y, s, -1));
                int text[LONG], n = x.tokens.start[s + 1] - x.tokens.start[s];
                memcpy(text, x.tokens.token + x.tokens.start[s], (size_t)n * sizeof *text);
                const int kind = ppo_rng_below(&rng, 5), at = ppo_rng_below(&rng, n);
                if (kind == 0) text[at] = (text[at] + 1) % V;
                if (kind == 1) n = at + 1;
                for (int k = 0; k < 4 && kind > 1; k++) text[n++] = ppo_rng_below(&rng, V);
                if (n > LONG - 20) n = 3;
                assert_ok(ppo_tokens_add(&next, text, n, n));
            }
            ppo_tokens swap = prompts;
            prompts = next, next = swap;
        }
        ppo_tokens_free(&prompts), ppo_tokens_free(&next);
        ppo_generator_free(a), ppo_generator_free(b);
    }
    ppo_lm_free(lm);
}

/* That they are used shows where the promise is broken; and without it, they are not. */
static void reuse_trusts_that_the_weights_are_the_same(void **state) {
    (void)state;
    for (int reuse = 0; reuse < 2; reuse++) {
        ppo_lm *lm = small_lm();
        ppo_generator *g = generator_of(lm, 1), *other = generator_of(lm, 1);
        ppo_tokens prompts = {0};
        ppo_rng rng = test_rng(8);
        ppo_sampling how = ppo_sampling_default();
        ppo_samples x, y;
        add_random(&prompts, &rng, V, 9, 9);
        how.prefix_cache = reuse;
        assert_ok(ppo_generate(g, &prompts, &how, &x));
        for (size_t i = 0; i < (size_t)V * 12; i++) lm->token_embedding->data[i] += 0.5f;
        assert_ok(ppo_generate(g, &prompts, &how, &x));
        assert_ok(ppo_generate(other, &prompts, &how, &y));
        assert_int_equal(is_beginning(&x, &y, 0, -1), !reuse);
        ppo_tokens_free(&prompts);
        ppo_generator_free(g), ppo_generator_free(other);
        ppo_lm_free(lm);
    }
}

/* What a failed call left is not trusted; also where two threads sample. */
static void after_a_failure_nothing_is_reused(void **state) {
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        assert_ok(ppo_set_threads(threads));
        const int slots = threads == 1 ? 1 : 8, count = threads == 1 ? 1 : 12;
        ppo_lm *lm = small_lm();
        ppo_generator *g = generator_of(lm, slots), *other = generator_of(lm, slots);
        ppo_tokens prompts = {0};
        ppo_rng rng = test_rng(9);
        ppo_sampling how = ppo_sampling_default();
        ppo_samples x, y;
        float *w = &lm->block[0].norm_bias[0]->data[0], was = *w;
        for (int s = 0; s < count; s++) add_random(&prompts, &rng, V, 9, 9);
        how.prefix_cache = 1;
        *w = NAN;
        assert_fails(ppo_generate(g, &prompts, &how, &x), PPO_ERROR_NUMERIC,
                     "logits are not finite (sequence |, position 8)");
        *w = was;
        assert_ok(ppo_generate(g, &prompts, &how, &x));
        assert_ok(ppo_generate(other, &prompts, &how, &y));
        for (int s = 0; s < count; s++) assert_true(is_beginning(&x, &y, s, -1));
        ppo_tokens_free(&prompts);
        ppo_generator_free(g), ppo_generator_free(other);
        ppo_lm_free(lm);
    }
    assert_ok(ppo_set_threads(1));
}

/* --------------------------------------------------------------------------------------------------------
   Ends in files, and memory
   -------------------------------------------------------------------------------------------------------- */

static void write_text(const char *path, const char *text, size_t bytes) {
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, bytes, out), bytes);
    assert_int_equal(fclose(out), 0);
}

static char folder[] = "/tmp/test_sampling.XXXXXX", generation[64], config[64];

static int make_folder(void **state) {
    (void)state;
    if (!mkdtemp(folder)) return 1;
    sprintf(generation, "%s/generation_config.json", folder);
    sprintf(config, "%s/config.json", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    ppo_set_allocator(NULL, NULL);
    remove(generation), remove(config);
    return rmdir(folder);
}

static void a_folder_says_which_tokens_end_a_text(void **state) {
    (void)state;
    static const struct {
        const char *generation, *config;
        int count, end[3];
        const char *words; /* of a failure */
    } cases[] = {
        {NULL, NULL, 0, {0}, NULL},
        {NULL, "{\"a\": {\"eos_token_id\": 1}, \"eos_token_id\": 5}", 1, {5}, NULL},
        {"{}", "{\"eos_token_id\": [5]}", 1, {5}, NULL},
        {"{\"eos_token_id\": null}", "{\"eos_token_id\": 0}", 1, {0}, NULL},
        {"{\"eos_token_id\": []}", "{\"eos_token_id\": 7}", 1, {7}, NULL},
        {"{\"eos_token_id\": [128001, 128008, 128009], \"x\": [1]}",
         "{\"eos_token_id\": 1}",
         3,
         {128001, 128008, 128009},
         NULL},
        {"{\"eos_token_id\": [4, 3, 2, 1]}", NULL, 4, {4, 3, 2}, NULL},
        {"{\"eos_token_id\": 2147483647}", NULL, 1, {INT_MAX}, NULL},
        {"{\"eos_token_id\": 2147483648}", NULL, 0, {0}, "generation_config.json|below 2^31"},
        {"{\"eos_token_id\": -1}", NULL, 0, {0}, "generation_config.json|whole number"},
        {"{\"eos_token_id\": [1, \"a\"]}", NULL, 0, {0}, "generation_config.json|whole number"},
        {"{\"eos_token_id\": 1", NULL, 0, {0}, "generation_config.json"},
        {"{\"eos_token_id\": 1} 2", NULL, 0, {0}, "generation_config.json|expected its end"},
        {NULL, "[1]", 0, {0}, "config.json"},
        {NULL, "", 0, {0}, "config.json"},
    };
    int end[3], count = 9;
    for (int i = 0; i < COUNT(cases); i++) {
        remove(generation), remove(config);
        if (cases[i].generation) write_text(generation, cases[i].generation, strlen(cases[i].generation));
        if (cases[i].config) write_text(config, cases[i].config, strlen(cases[i].config));
        memset(end, 0, sizeof end);
        if (cases[i].words) {
            assert_fails(ppo_lm_load_ends(folder, end, 3, &count), PPO_ERROR_FILE, cases[i].words);
        } else {
            assert_ok(ppo_lm_load_ends(folder, end, 3, &count));
            assert_memory_equal(end, cases[i].end, sizeof end);
            assert_ok(ppo_lm_load_ends(folder, NULL, 0, &count));
        }
        assert_int_equal(count, cases[i].count);
    }
    assert_fails(ppo_lm_load_ends("/nowhere", end, 3, &count), PPO_ERROR_FILE, "/nowhere|cannot be opened");
    assert_int_equal(count, 0);
    const char *name = "ppo_lm_load_ends|NULL";
    assert_fails(ppo_lm_load_ends(NULL, end, 3, &count), PPO_ERROR_ARGUMENT, name);
    assert_fails(ppo_lm_load_ends(folder, end, 3, NULL), PPO_ERROR_ARGUMENT, name);
    assert_fails(ppo_lm_load_ends(folder, NULL, 3, &count), PPO_ERROR_ARGUMENT, name);
}

/* Each file is refused, or read, and nothing else happens. */
static void damaged_files_do_no_harm(void **state) {
    (void)state;
    static const char whole[] =
        "{\"a\": [{\"b\": \"\\u00e4\"}, true], \"eos_token_id\": [1, 22, 333], \"c\": -1.5e3}";
    char text[sizeof whole];
    ppo_rng rng = test_rng(10);
    remove(config);
    for (size_t i = 0; i < 3 * sizeof whole; i++) {
        size_t bytes = sizeof whole - 1;
        int end[2], count;
        memcpy(text, whole, sizeof whole);
        if (i < sizeof whole) bytes = i;
        else text[ppo_rng_below(&rng, (int)bytes)] = (char)ppo_rng_below(&rng, 256);
        write_text(generation, text, bytes);
        if (ppo_lm_load_ends(folder, end, 2, &count)) assert_int_equal(count, 0);
        else assert_true(count >= 0 && count <= 4);
    }
}

typedef struct job {
    ppo_lm *lm;
    ppo_tokenizer *tokenizer;
    ppo_tokens prompts;
} job;

/* Counts the bytes of all allocations. */
static size_t asked_for;

static void *measuring_heap(void *user, void *ptr, size_t size) {
    asked_for += size;
    return heap_hook(user, ptr, size);
}

/* A call with a tool takes memory for the answers that may come: a whole context, whichever token calls the tool. */
static void room_for_the_answers_of_a_tool_is_there_from_the_start(void **state) {
    (void)state;
    ppo_lm *lm = random_lm(lm_config(V, 256, 12, 2, 3), 0.25f);
    ppo_tokens prompts = {0};
    ppo_rng rng = test_rng(3);
    witness w = {0};
    size_t bytes[3];
    add_random(&prompts, &rng, V, 2, 2);
    for (int k = 0; k < 3; k++) {
        heap h = {0, 0, -1, 0};
        ppo_sampling how = ppo_sampling_default();
        ppo_samples x;
        how.max_new_tokens = 1;
        if (k) how.tool_token = k == 1 ? CALL : 0, how.tool = use_tool, how.tool_user = &w;
        asked_for = 0;
        ppo_set_allocator(measuring_heap, &h);
        ppo_generator *g = generator_of(lm, 1);
        assert_ok(ppo_generate(g, &prompts, &how, &x));
        ppo_generator_free(g);
        ppo_set_allocator(NULL, NULL);
        bytes[k] = asked_for;
    }
    assert_true(bytes[1] > bytes[0]);
    assert_int_equal(bytes[2], bytes[1]);
    ppo_tokens_free(&prompts);
    ppo_lm_free(lm);
}

static ppo_status sample_once(void *user) {
    static const char *const texts[] = {"ab", "ba"};
    job *j = (job *)user;
    ppo_generator *g = NULL;
    ppo_sampling how = ppo_sampling_default();
    ppo_samples x;
    ppo_stops stops = {j->tokenizer, texts, 2};
    int end[2], count = 0;
    ppo_status status = ppo_lm_load_ends(folder, end, 2, &count);
    how.stop_tokens = end, how.stop_token_count = count, how.max_new_tokens = 5, how.prefix_cache = 1;
    how.watch = ppo_stop_at, how.watch_user = &stops;
    if (!status) status = ppo_generator_create(j->lm, 2, &g);
    if (!status) status = ppo_generate(g, &j->prompts, &how, &x);
    if (!status) status = ppo_generate(g, &j->prompts, &how, &x);
    ppo_generator_free(g);
    return status;
}

static void every_failing_allocation_is_reported_and_leaks_nothing(void **state) {
    (void)state;
    job j = {small_lm(), NULL, some_prompts(11)};
    write_text(generation, "{\"eos_token_id\": [1, 2]}", 24);
    assert_ok(ppo_tokenizer_characters("abcdefghi", V, NULL, 0, &j.tokenizer));
    assert_true(fail_each_allocation(sample_once, &j) > 8);
    ppo_tokens_free(&j.prompts);
    ppo_tokenizer_free(j.tokenizer);
    ppo_lm_free(j.lm);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_of_several_tokens_ends_a_sequence_as_its_last),
        cmocka_unit_test(ends_that_mean_nothing_are_refused),
        cmocka_unit_test(settings_of_sampling_have_names),
        cmocka_unit_test(a_watch_sees_every_token_in_its_order_and_may_end_the_sequence),
        cmocka_unit_test(a_watch_that_fails_ends_the_call_with_its_reason),
        cmocka_unit_test(a_watch_cannot_use_the_generator_that_it_watches),
        cmocka_unit_test(a_stop_ends_a_response_with_the_token_that_completes_it),
        cmocka_unit_test(a_stop_before_the_last_token_or_in_the_prompt_is_none),
        cmocka_unit_test(stops_that_mean_nothing_are_refused),
        cmocka_unit_test(ppo_on_tokens_learns_to_write_what_stops_it),
        cmocka_unit_test(reused_keys_and_values_give_the_same_bits),
        cmocka_unit_test(reuse_trusts_that_the_weights_are_the_same),
        cmocka_unit_test(after_a_failure_nothing_is_reused),
        cmocka_unit_test(a_folder_says_which_tokens_end_a_text),
        cmocka_unit_test(damaged_files_do_no_harm),
        cmocka_unit_test_teardown(room_for_the_answers_of_a_tool_is_there_from_the_start, restore_allocator),
        cmocka_unit_test_teardown(every_failing_allocation_is_reported_and_leaks_nothing, restore_allocator),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
