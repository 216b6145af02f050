/* Section 17: tokenizers. The merges of Hugging Face's trainer are in golden/tokenizers.h (made by
   golden/make_tokenizers.py), the files of its tokenizers, with what they make of some strings, in golden/hub.h
   (make_hub.py). PPO_FUZZ=100000 sets how many damaged files the tests of them try. */
#define PPO_NO_CONTROL
#define PPO_NO_REPORTS
#define PPO_IMPLEMENTATION
#include "../ppo.h"
#include "../examples/companions/ppo_chat.h"
#include "../examples/companions/ppo_hub.h"
#include "../examples/companions/ppo_methods.h"

#include "golden/hub.h"
#include "golden/tokenizers.h"
#include "test.h"
#include "system.h"

/* The program works in a folder of its own, so that paths are names. */
#define PATH "tokenizer.safetensors"
#define HUB  "tokenizer.json"

enum { ROOM = 1 << 16 };

static char home[64] = "/tmp/test_tokenizers.XXXXXX";

static const char *const specials[] = {"<eos>", "<pad>", "\303\251\303\251"};

static int tidy(void **state) {
    remove(PATH);
    remove(HUB);
    remove("tokenizer_config.json"); /* beside it */
    return restore_allocator(state);
}

static ppo_tokenizer *trained_on(const char *text, int vocab) {
    ppo_tokenizer *tok = NULL;
    assert_ok(ppo_tokenizer_train(text, strlen(text), vocab, specials, COUNT(specials), &tok));
    return tok;
}

static ppo_tokenizer *golden_tokenizer(void) {
    ppo_tokenizer *tok = NULL;
    assert_ok(ppo_tokenizer_train((const char *)g_bpe_text, sizeof g_bpe_text, 4000, specials,
                                  COUNT(specials), &tok));
    return tok;
}

static ppo_tokenizer *characters_of(const char *text) {
    ppo_tokenizer *tok = NULL;
    assert_ok(ppo_tokenizer_characters(text, strlen(text), specials, COUNT(specials), &tok));
    return tok;
}

/* Encodes, decodes what came of it, and compares; returns how many tokens there were. */
static int round_trip(const ppo_tokenizer *tok, const char *text, size_t bytes) {
    static int tokens[ROOM];
    static char back[ROOM];
    int count = -1, again = -1;
    size_t length = 0;
    assert_ok(ppo_encode(tok, text, bytes, tokens, ROOM, &count));
    assert_ok(ppo_encode(tok, text, bytes, NULL, 0, &again));
    assert_int_equal(count, again);
    for (int i = 0; i < count; i++) assert_in_range(tokens[i], 0, ppo_tokenizer_vocab(tok) - 1);
    assert_ok(ppo_decode(tok, tokens, count, back, ROOM, &length));
    assert_int_equal(length, bytes);
    if (bytes) assert_memory_equal(back, text, bytes);
    assert_int_equal(back[bytes], 0);
    return count;
}

/* The two have the same vocabulary, and write the golden text, or the characters that they know, alike. */
static void assert_same(const ppo_tokenizer *a, const ppo_tokenizer *b) {
    char x[PPO_MAX_TOKEN_BYTES + 1], y[PPO_MAX_TOKEN_BYTES + 1];
    size_t n, m;
    assert_int_equal(ppo_tokenizer_vocab(a), ppo_tokenizer_vocab(b));
    for (int t = 0; t < ppo_tokenizer_vocab(a); t++) {
        int p[2] = {-1, -1}, q[2] = {-1, -1}, k = -1, l = -1;
        assert_ok(ppo_decode(a, &t, 1, x, sizeof x, &n));
        assert_ok(ppo_decode(b, &t, 1, y, sizeof y, &m));
        assert_int_equal(n, m);
        assert_memory_equal(x, y, n + 1);
        assert_int_equal(ppo_tokenizer_special(a, x), ppo_tokenizer_special(b, x));
        if (ppo_encode(a, x, n, p, 2, &k)) continue;
        assert_ok(ppo_encode(b, x, n, q, 2, &l));
        assert_true(k == l && p[0] == q[0] && p[1] == q[1]);
    }
}

/* A text of random characters, half of them ASCII; returns how many bytes it has. */
static int random_utf8(ppo_rng *rng, char *text, int characters) {
    static const int32_t most[] = {0x80, 0x800, 0xd800, 0x110000};
    int n = 0;
    for (int i = 0; i < characters; i++) {
        int32_t code = ppo_rng_below(rng, most[ppo_rng_below(rng, 2) ? 0 : ppo_rng_below(rng, 4)]);
        if (code >= 0xd800 && code < 0xe000) code = 0xe000;
        n += ppo__utf8_put(code, text + n);
    }
    return n;
}

/* --- Byte-pair encoding --------------------------------------------------------------------------------- */

static void merges_are_those_of_hugging_faces_trainer(void **state) {
    (void)state;
    ppo_tokenizer *tok = golden_tokenizer();
    assert_int_equal(tok->unit_count, g_bpe_merges);
    for (int k = 0; k < g_bpe_merges; k++) {
        if (tok->units[2 * k] == g_bpe_merge[2 * k] && tok->units[2 * k + 1] == g_bpe_merge[2 * k + 1])
            continue;
        fail_msg("merge %d is (%d, %d), not (%d, %d)", k, (int)tok->units[2 * k], (int)tok->units[2 * k + 1],
                 g_bpe_merge[2 * k], g_bpe_merge[2 * k + 1]);
    }
    assert_int_equal(ppo_tokenizer_vocab(tok), 256 + g_bpe_merges + COUNT(specials));
    ppo_tokenizer_free(tok);
}

static void encodings_are_those_of_hugging_face(void **state) {
    (void)state;
    ppo_tokenizer *tok = golden_tokenizer();
    const char *text = (const char *)g_bpe_string;
    const int *want = g_bpe_token;
    for (int s = 0; s < g_bpe_strings; s++) {
        int tokens[400], count;
        assert_ok(ppo_encode(tok, text, (size_t)g_bpe_string_bytes[s], tokens, COUNT(tokens), &count));
        assert_int_equal(count, g_bpe_token_count[s]);
        assert_memory_equal(tokens, want, (size_t)count * sizeof *want);
        assert_int_equal(round_trip(tok, text, (size_t)g_bpe_string_bytes[s]), count);
        text += g_bpe_string_bytes[s];
        want += count;
    }
    ppo_tokenizer_free(tok);
}

static void a_smaller_vocabulary_has_the_first_merges(void **state) {
    (void)state;
    for (int merges = 0; merges <= g_bpe_merges; merges += 61) {
        ppo_tokenizer *tok = NULL;
        assert_ok(
            ppo_tokenizer_train((const char *)g_bpe_text, sizeof g_bpe_text, 256 + merges, NULL, 0, &tok));
        assert_int_equal(ppo_tokenizer_vocab(tok), 256 + merges);
        assert_memory_equal(tok->units, g_bpe_merge, 2 * (size_t)merges * sizeof *g_bpe_merge);
        round_trip(tok, (const char *)g_bpe_text, sizeof g_bpe_text);
        ppo_tokenizer_free(tok);
    }
}

static void the_first_tokens_are_the_bytes_in_the_order_of_gpt2(void **state) {
    (void)state;
    static const struct {
        int token, byte;
    } some[] = {{0, '!'}, {93, '~'},  {94, 161},  {105, 172}, {106, 174}, {187, 255},
                {188, 0}, {220, ' '}, {221, 127}, {254, 160}, {255, 173}};
    ppo_tokenizer *tok = trained_on("", 1000);
    unsigned char seen[256] = {0};
    assert_int_equal(ppo_tokenizer_vocab(tok), 256 + COUNT(specials));
    for (int i = 0; i < COUNT(some); i++) {
        char text[2];
        size_t n;
        assert_ok(ppo_decode(tok, &some[i].token, 1, text, 2, &n));
        assert_int_equal((unsigned char)text[0], some[i].byte);
    }
    for (int byte = 0; byte < 256; byte++) {
        char text = (char)byte;
        int token = -1, count;
        assert_ok(ppo_encode(tok, &text, 1, &token, 1, &count));
        assert_in_range(token, 0, 255);
        assert_int_equal(seen[token]++, 0);
    }
    ppo_tokenizer_free(tok);
}

static void any_bytes_come_back_through_bpe(void **state) {
    (void)state;
    static char text[4096];
    ppo_rng rng = test_rng(1);
    ppo_tokenizer *tok = golden_tokenizer();
    for (int i = 0; i < 300; i++) {
        int n = ppo_rng_below(&rng, COUNT(text) + 1), most = i % 2 ? 256 : 1 + ppo_rng_below(&rng, 256);
        for (int k = 0; k < n; k++) {
            int range =
                ppo_rng_below(&rng, most); /* in every other text there are pieces of the golden one */
            text[k] = (char)(range < 200 ? range : g_bpe_text[(size_t)(k + i * 17) % sizeof g_bpe_text]);
        }
        round_trip(tok, text, (size_t)n);
    }
    ppo_tokenizer_free(tok);
}

/* Joins, again and again, the pair that has the lowest token: what the definition says, at its slowest. */
static int encode_plainly(const ppo_tokenizer *tok, const char *text, int n, int *tokens) {
    for (int i = 0; i < n; i++) tokens[i] = tok->of_byte[(unsigned char)text[i]];
    for (;;) {
        int best = INT_MAX, at = 0;
        for (int i = 0; i + 1 < n; i++) {
            for (int k = 0; k < tok->unit_count && 256 + k < best; k++) {
                if (tok->units[2 * k] != tokens[i] || tok->units[2 * k + 1] != tokens[i + 1]) continue;
                best = 256 + k;
                at = i;
            }
        }
        if (best == INT_MAX) return n;
        tokens[at] = best;
        memmove(tokens + at + 1, tokens + at + 2, (size_t)(n - at - 2) * sizeof *tokens);
        n--;
    }
}

static void a_word_is_joined_by_the_oldest_merge_first(void **state) {
    (void)state;
    ppo_rng rng = test_rng(2);
    ppo_tokenizer *tok =
        trained_on("aaaaaaaab abababab baabaab bbabbabba aabbaabb abba abba bbbbbb bbbb aaaa baba "
                   "aaaaaaaab abababab baabaab bbabbabba cab cabba acab bac aacc aacc",
                   256 + 24 + COUNT(specials));
    assert_int_equal(tok->unit_count, 24);
    for (int i = 0; i < 500; i++) {
        char text[60];
        int want[60], tokens[60], count, n = 1 + ppo_rng_below(&rng, 59);
        for (int k = 0; k < n; k++) text[k] = (char)('a' + ppo_rng_below(&rng, 7) / 3);
        int expected = encode_plainly(tok, text, n, want);
        assert_ok(ppo_encode(tok, text, (size_t)n, tokens, 60, &count));
        assert_int_equal(count, expected);
        assert_memory_equal(tokens, want, (size_t)count * sizeof *want);
    }
    ppo_tokenizer_free(tok);
}

/* What is in [brackets] is one word. */
static void words_are_those_of_the_expression(void **state) {
    (void)state;
    static const char *const cases[] = {
        "[I]['m][ sure][ you]['ll][ say][ we]['d]['ve]['re]['s]['t]",
        /* after a space or another sign no ending begins */
        "['][LL][ ''][re][ '][ '][x]['re][mind]",
        "[ab][12][ 12][cd][ ?!][e][_][f][--][ --][9]",
        "[a][\n][b][\n\n][\n][c][ ][\t][d][\t\n ][ e][\r\n]",
        "[gr\303\266\303\237e][ \303\251t\303\251]['s][ \342\200\246][1][\360\237\230\200][x]",
        "[\377][a][\302\240][b][ \377\377][c][ \302\262\331\243]", /* a byte that is not UTF-8 */
        "[a][\302\205][\302\205][b]",                              /* a space beyond Zs, Zl and Zp */
        "[a][ ][ b]",
        "[a][   ][ b][  ]",
        "[a][ ]",
        "[ ]",
        "[']",
        "['t]",
        "['][1]",
        "['][r]",
        "[e][\314\201]",
    };
    ppo__arena memory = {NULL, NULL, PPO_OK};
    const unsigned char *kinds = ppo__make_kinds(&memory);
    for (int i = 0; i < 2 * COUNT(cases); i++) {
        int bytes = 0, at = 0;
        char text[100];
        memset(text, i % 2 ? 's' : 'e', sizeof text); /* which must not be looked at beyond the end */
        for (const char *from = cases[i / 2]; *from; from++)
            if (*from != '[' && *from != ']') text[bytes++] = *from;
        for (const char *from = cases[i / 2]; *from;) {
            const int want = (int)strcspn(++from, "]");
            const int got =
                (int)ppo__word_length(kinds, (const unsigned char *)text + at, (size_t)(bytes - at));
            if (got != want) fail_msg("in %s at %.10s: %d bytes, not %d", cases[i / 2], from, got, want);
            at += want;
            from += want + 1;
        }
        assert_int_equal(at, bytes);
    }
    ppo__arena_free(&memory);
}

static void a_pair_that_is_there_once_is_not_joined(void **state) {
    (void)state;
    ppo_tokenizer *tok = trained_on("abcd xy", 400);
    assert_int_equal(tok->unit_count, 0);
    ppo_tokenizer_free(tok);
    tok = trained_on("abcd ab", 400); /* " ab" and "ab" are other words, but both have the pair */
    assert_int_equal(tok->unit_count, 1);
    assert_int_equal(round_trip(tok, "abab", 4), 2);
    ppo_tokenizer_free(tok);
}

/* FNV-1a gives these two the same 64 bits. */
static void words_of_the_same_hash_are_counted_apart(void **state) {
    (void)state;
    static const char *const texts[] = {"7mohtcOFVz", "c1E51sSEyx"};
    static const int order[] = {0, 1, 1, 0, 1}, counts[] = {2, 3};
    ppo__bpe_trainer trainer;
    memset(&trainer, 0, sizeof trainer);
    for (int i = 0; i < COUNT(order); i++)
        ppo__count_word(&trainer, (const unsigned char *)texts[order[i]], 10);
    assert_ok(ppo__arena_status(&trainer.memory));
    assert_int_equal(trainer.by_hash.count, 2);
    assert_int_equal(stbds_arrlenu(trainer.words), 2);
    for (int w = 0; w < 2; w++) {
        assert_memory_equal(trainer.words[w].text, texts[w], 10);
        assert_int_equal(trainer.words[w].count, counts[w]);
    }
    ppo__arena_free(&trainer.memory);
    ppo__array_free(trainer.words);
}

static void a_token_is_no_longer_than_the_limit(void **state) {
    (void)state;
    static char text[5000];
    memset(text, 'a', sizeof text);
    ppo_tokenizer *tok = NULL;
    assert_ok(ppo_tokenizer_train(text, sizeof text, 400, NULL, 0, &tok));
    int longest = 0;
    for (int t = 0; t < ppo_tokenizer_vocab(tok); t++) {
        int length = ppo__token_length(tok, t);
        longest = length > longest ? length : longest;
    }
    assert_int_equal(longest, PPO_MAX_TOKEN_BYTES);
    assert_in_range(round_trip(tok, text, sizeof text), sizeof text / PPO_MAX_TOKEN_BYTES, 40);
    assert_ok(ppo_tokenizer_save(tok, PATH)); /* and what was trained can be loaded */
    ppo_tokenizer *read = NULL;
    assert_ok(ppo_tokenizer_load(PATH, &read));
    assert_same(tok, read);
    ppo_tokenizer_free(read);
    ppo_tokenizer_free(tok);
}

/* A word of a million letters would take hours where every merge looks at all of it. */
static void a_very_long_word_takes_no_long_time(void **state) {
    (void)state;
    enum { N = 1 << 20 };
    char *text = (char *)malloc(N);
    ppo_rng rng = test_rng(3);
    ppo_tokenizer *tok = NULL;
    int count = 0;
    assert_non_null(text);
    for (int i = 0; i < N; i++) text[i] = (char)('a' + ppo_rng_below(&rng, 4));
    double start = ppo_clock();
    assert_ok(ppo_tokenizer_train(text, N, 1000, NULL, 0, &tok));
    assert_ok(ppo_encode(tok, text, N, NULL, 0, &count));
    assert_true(ppo_clock() - start < 120);
    assert_in_range(count, N / 20, N / 3);
    ppo_tokenizer_free(tok);
    free(text);
}

/* --- Characters ----------------------------------------------------------------------------------------- */

static void characters_are_tokens_by_code_point(void **state) {
    (void)state;
    const char *text = "ba\303\251\360\237\230\200b\342\202\254a\n";
    const int want[] = {2, 1, 3, 5, 2, 4, 1, 0};
    int tokens[8], count;
    ppo_tokenizer *tok = characters_of(text);
    assert_int_equal(ppo_tokenizer_vocab(tok), 6 + COUNT(specials));
    assert_ok(ppo_encode(tok, text, strlen(text), tokens, 8, &count));
    assert_int_equal(count, 8);
    assert_memory_equal(tokens, want, sizeof want);
    assert_int_equal(ppo_tokenizer_special(tok, "<eos>"), 6);
    assert_int_equal(round_trip(tok, "", 0), 0);
    ppo_tokenizer_free(tok);
}

static void any_characters_come_back(void **state) {
    (void)state;
    static char text[4 * 4000];
    ppo_rng rng = test_rng(4);
    for (int i = 0; i < 40; i++) {
        ppo_tokenizer *tok = NULL;
        int characters = 1 + ppo_rng_below(&rng, 4000), n = random_utf8(&rng, text, characters);
        assert_ok(ppo_tokenizer_characters(text, (size_t)n, NULL, 0, &tok));
        assert_int_equal(round_trip(tok, text, (size_t)n), characters);
        ppo_tokenizer_free(tok);
    }
}

static void the_bounds_of_utf8_are_kept(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int place; /* of the byte that is wrong; -1: none */
    } cases[] = {{"a\177\302\200\337\277", -1},
                 {"\340\240\200\355\237\277\356\200\200\357\277\277", -1},
                 {"\360\220\200\200\364\217\277\277", -1},
                 {"ab\200", 2},
                 {"\303\251\300\200", 2},
                 {"\301\277", 0},
                 {"x\340\237\277", 1},
                 {"x\355\240\200", 1},
                 {"\360\217\277\277", 0},
                 {"\364\220\200\200", 0},
                 {"\365\200\200\200", 0},
                 {"\377", 0},
                 {"\277\277", 0},
                 {"\374\200\200\200", 0},
                 {"abc\303", 3},
                 {"abc\342\202", 3},
                 {"abc\360\237\230", 3},
                 {"\342\202a", 0},
                 {"\303\303\251", 0}};
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_tokenizer *tok = NULL, *known = characters_of("abcx\303\251");
        const char *text = cases[i].text;
        char place[60];
        if (cases[i].place < 0) {
            assert_ok(ppo_tokenizer_characters(text, strlen(text), NULL, 0, &tok));
            round_trip(tok, text, strlen(text));
            ppo_tokenizer_free(tok);
        } else {
            snprintf(place, sizeof place, "byte %d of the text is not UTF-8", cases[i].place);
            assert_fails(ppo_tokenizer_characters(text, strlen(text), NULL, 0, &tok), PPO_ERROR_ARGUMENT,
                         place);
            assert_null(tok);
            assert_fails(ppo_encode(known, text, strlen(text), NULL, 0, NULL), PPO_ERROR_ARGUMENT, place);
        }
        ppo_tokenizer_free(known);
    }
}

/* What follows would complete the character. */
static void a_character_that_is_cut_off_is_not_looked_at_beyond_the_end(void **state) {
    (void)state;
    const char *text = "a\303\251\342\202\254\360\237\230\200";
    const int start[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10}; /* of the character that has this byte */
    ppo_tokenizer *tok = characters_of(text);
    for (int n = 0; n <= 10; n++) {
        char place[60];
        snprintf(place, sizeof place, "byte %d of the text is not UTF-8", start[n]);
        if (start[n] == n) {
            round_trip(tok, text, (size_t)n);
        } else {
            assert_fails(ppo_encode(tok, text, (size_t)n, NULL, 0, NULL), PPO_ERROR_ARGUMENT, place);
        }
    }
    ppo_tokenizer_free(tok);
}

static void a_character_that_the_vocabulary_lacks_is_named_with_its_place(void **state) {
    (void)state;
    ppo_tokenizer *tok = characters_of("abc\303\251");
    assert_fails(ppo_encode(tok, "ab\303\251z", 5, NULL, 0, NULL), PPO_ERROR_ARGUMENT,
                 "lacks U+007A \"z\" |byte 4");
    assert_fails(ppo_encode(tok, "\360\237\230\200", 4, NULL, 0, NULL), PPO_ERROR_ARGUMENT,
                 "lacks U+1F600 \"\360\237\230\200\" |byte 0");
    assert_fails(ppo_encode(tok, "a\033", 2, NULL, 0, NULL), PPO_ERROR_ARGUMENT, "lacks U+001B (byte 1");
    assert_fails(ppo_encode(tok, "a\302\233", 3, NULL, 0, NULL), PPO_ERROR_ARGUMENT, "lacks U+009B (byte 1");
    ppo_tokenizer_free(tok);
}

static void a_text_may_hold_zeros(void **state) {
    (void)state;
    ppo_tokenizer *tok = NULL;
    assert_ok(ppo_tokenizer_characters("a\0b", 3, NULL, 0, &tok));
    assert_int_equal(ppo_tokenizer_vocab(tok), 3);
    assert_int_equal(round_trip(tok, "b\0\0a", 4), 4);
    ppo_tokenizer_free(tok);
    assert_ok(ppo_tokenizer_train("a\0a\0 '\0", 7, 300, NULL, 0, &tok));
    assert_int_equal(round_trip(tok, "a'\0a\0", 5), 5);
    assert_int_equal(ppo__word_length(tok->kinds, (const unsigned char *)"'\0!", 3), 3);
    ppo_tokenizer_free(tok);
}

/* --- Special tokens ------------------------------------------------------------------------------------- */

static void special_tokens_are_the_last_and_have_names(void **state) {
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        ppo_tokenizer *tok = kind ? trained_on("abab", 400) : characters_of("abab");
        int vocab = ppo_tokenizer_vocab(tok), eos = ppo_tokenizer_special(tok, "<eos>");
        int tokens[] = {eos, eos + 2, eos + 1};
        char text[40];
        size_t n;
        assert_int_equal(vocab, (kind ? 257 : 2) + COUNT(specials));
        assert_int_equal(eos, vocab - 3);
        assert_int_equal(ppo_tokenizer_special(tok, "<pad>"), vocab - 2);
        assert_int_equal(ppo_tokenizer_special(tok, "<eos"), -1);
        assert_int_equal(ppo_tokenizer_special(tok, ""), -1);
        assert_int_equal(ppo_tokenizer_special(tok, "a"), -1);
        assert_ok(ppo_decode(tok, tokens, 3, text, sizeof text, &n));
        assert_string_equal(text, "<eos>\303\251\303\251<pad>");
        assert_int_equal(n, strlen(text));
        ppo_tokenizer_free(tok);
    }
}

static void no_text_becomes_a_special_token(void **state) {
    (void)state;
    const char *text = "<eos> <pad><eos><eos><eos> \303\251\303\251";
    for (int kind = 0; kind < 2; kind++) {
        ppo_tokenizer *tok = kind ? trained_on(text, 400) : characters_of(text);
        int tokens[60], count;
        assert_ok(ppo_encode(tok, text, strlen(text), tokens, 60, &count));
        assert_true(count > 5);
        for (int i = 0; i < count; i++) assert_true(tokens[i] < ppo_tokenizer_special(tok, specials[0]));
        round_trip(tok, text, strlen(text));
        ppo_tokenizer_free(tok);
    }
}

static void names_that_cannot_be_are_refused(void **state) {
    (void)state;
    char too_long[PPO_MAX_TOKEN_BYTES + 2];
    memset(too_long, 'x', sizeof too_long);
    too_long[sizeof too_long - 1] = 0;
    const char *const bad[] = {NULL, "", "\300", "a\nb", "\177", too_long};
    ppo_tokenizer *tok = NULL;
    for (int i = 0; i < COUNT(bad); i++) {
        const char *const names[] = {"<eos>", bad[i]};
        assert_fails(ppo_tokenizer_characters("a", 1, names, 2, &tok), PPO_ERROR_ARGUMENT, "special token 1");
        assert_fails(ppo_tokenizer_train("a", 1, 300, names, 2, &tok), PPO_ERROR_ARGUMENT, "special token 1");
    }
    const char *const twice[] = {"a", "b", "a"};
    assert_fails(ppo_tokenizer_characters("a", 1, twice, 3, &tok), PPO_ERROR_ARGUMENT, "0 and 2|\"a\"");
    assert_fails(ppo_tokenizer_train("a", 1, 300, twice, 3, &tok), PPO_ERROR_ARGUMENT, "0 and 2|\"a\"");
    assert_fails(ppo_tokenizer_train("a", 1, 300, NULL, 1, &tok), PPO_ERROR_ARGUMENT, "1 special");
    assert_fails(ppo_tokenizer_train("a", 1, 300, twice, -1, &tok), PPO_ERROR_ARGUMENT, "-1 special");
    assert_fails(ppo_tokenizer_characters("a", 1, twice, PPO_MAX_SPECIALS + 1, &tok), PPO_ERROR_ARGUMENT,
                 "1025 special");
    assert_null(tok);
    const char *const good[] = {too_long + 1};
    assert_ok(ppo_tokenizer_characters("a", 1, good, 1, &tok));
    assert_int_equal(ppo_tokenizer_special(tok, good[0]), 1);
    ppo_tokenizer_free(tok);
}

/* --- Arguments ------------------------------------------------------------------------------------------ */

static void room_that_is_too_small_is_refused_with_both_numbers(void **state) {
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        ppo_tokenizer *tok = kind ? trained_on("", 300) : characters_of("abcde");
        int tokens[6] = {0, 0, 0, 0, -7, -7}, count;
        char text[7] = "......";
        size_t n;
        assert_fails(ppo_encode(tok, "abcde", 5, tokens, 4, NULL), PPO_ERROR_ARGUMENT, " 4 | 5");
        assert_int_equal(tokens[4], -7);
        assert_ok(ppo_encode(tok, "abcde", 5, tokens, 5, &count));
        assert_int_equal(count, 5);
        assert_int_equal(tokens[5], -7);
        assert_fails(ppo_decode(tok, tokens, 5, text, 5, NULL), PPO_ERROR_ARGUMENT, " 5 | 6 ");
        assert_int_equal(text[5], '.');
        assert_ok(ppo_decode(tok, tokens, 5, text, 6, NULL));
        assert_string_equal(text, "abcde");
        assert_ok(ppo_decode(tok, tokens, 5, NULL, 0, &n));
        assert_int_equal(n, 5);
        assert_ok(ppo_decode(tok, tokens, 5, text, 0, &n));
        assert_string_equal(text, "abcde");
        ppo_tokenizer_free(tok);
    }
}

static void tokens_outside_of_the_vocabulary_are_named_with_their_position(void **state) {
    (void)state;
    ppo_tokenizer *tok = characters_of("ab");
    const int above[] = {0, 1, 5, 0}, below[] = {-1};
    char text[40];
    assert_fails(ppo_decode(tok, above, 4, text, 40, NULL), PPO_ERROR_ARGUMENT,
                 "token 5 |position 2 |0 .. 4");
    assert_fails(ppo_decode(tok, below, 1, NULL, 0, NULL), PPO_ERROR_ARGUMENT,
                 "token -1 |position 0 |0 .. 4");
    ppo_tokenizer_free(tok);
}

static void a_vocabulary_that_cannot_be_is_refused(void **state) {
    (void)state;
    ppo_tokenizer *tok = NULL;
    assert_fails(ppo_tokenizer_train("a", 1, 258, specials, 3, &tok), PPO_ERROR_ARGUMENT, "258|259 to 65536");
    assert_fails(ppo_tokenizer_train("a", 1, 65537, NULL, 0, &tok), PPO_ERROR_ARGUMENT, "65537|256 to 65536");
    assert_fails(ppo_tokenizer_train("a", ((size_t)512 << 20) + 1, 300, NULL, 0, &tok), PPO_ERROR_ARGUMENT,
                 "536870913|536870912");
    assert_fails(ppo_tokenizer_characters(NULL, 0, NULL, 0, &tok), PPO_ERROR_ARGUMENT, "0 tokens");
    static char text[4 * (PPO_MAX_VOCAB + 1)];
    int n = 0;
    for (int i = 0; i <= PPO_MAX_VOCAB; i++) n += ppo__utf8_put(0x10000 + i, text + n);
    assert_fails(ppo_tokenizer_characters(text, (size_t)n, NULL, 0, &tok), PPO_ERROR_ARGUMENT,
                 "more than 262144");
    assert_fails(ppo_tokenizer_characters(text, (size_t)n - 4, specials, 1, &tok), PPO_ERROR_ARGUMENT,
                 "262145 tokens");
    assert_null(tok);
    assert_ok(ppo_tokenizer_characters(text, (size_t)n - 4, NULL, 0, &tok));
    assert_int_equal(ppo_tokenizer_vocab(tok), PPO_MAX_VOCAB);
    ppo_tokenizer_free(tok);
    assert_ok(ppo_tokenizer_characters(NULL, 0, specials, 3, &tok));
    assert_int_equal(ppo_tokenizer_vocab(tok), 3);
    ppo_tokenizer_free(tok);
}

static void null_is_refused_or_empty(void **state) {
    (void)state;
    ppo_tokenizer *tok = NULL, *none = NULL;
    ppo_file *file = NULL;
    int token = 0, count = -1;
    assert_ok(ppo_file_create(&file));
    assert_fails(ppo_tokenizer_characters(NULL, 1, NULL, 0, &tok), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_tokenizer_characters("a", 1, NULL, 0, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_tokenizer_train(NULL, 1, 300, NULL, 0, &tok), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_tokenizer_train("a", 1, 300, NULL, 0, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_ok(ppo_tokenizer_train(NULL, 0, 300, NULL, 0, &tok));
    assert_fails(ppo_encode(NULL, "a", 1, NULL, 0, &count), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_encode(tok, NULL, 1, NULL, 0, &count), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_encode(tok, "a", 1, &token, -1, &count), PPO_ERROR_ARGUMENT, "capacity is -1");
    assert_fails(ppo_encode(tok, "a", (size_t)INT_MAX + 1, &token, 1, &count), PPO_ERROR_ARGUMENT,
                 "2147483648 bytes");
    assert_ok(ppo_encode(tok, NULL, 0, NULL, 0, &count));
    assert_int_equal(count, 0);
    assert_ok(ppo_encode(tok, "a", 1, &token, 0, &count));
    assert_int_equal(count, 1);
    assert_fails(ppo_decode(NULL, &token, 1, NULL, 0, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_decode(tok, NULL, 1, NULL, 0, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_decode(tok, &token, -1, NULL, 0, NULL), PPO_ERROR_ARGUMENT, "-1 tokens");
    assert_ok(ppo_decode(tok, NULL, 0, NULL, 0, NULL));
    assert_fails(ppo_tokenizer_put(NULL, file), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_tokenizer_put(tok, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_tokenizer_get(NULL, &none), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_tokenizer_get(file, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_tokenizer_save(NULL, PATH), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_tokenizer_save(tok, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_tokenizer_load(NULL, &none), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_tokenizer_load(PATH, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_int_equal(ppo_tokenizer_vocab(NULL), 0);
    assert_int_equal(ppo_tokenizer_special(NULL, "a"), -1);
    assert_int_equal(ppo_tokenizer_special(tok, NULL), -1);
    ppo_tokenizer_free(NULL);
    ppo_tokenizer_free(tok);
    ppo_file_free(file);
}

/* --- Files ---------------------------------------------------------------------------------------------- */

static void what_was_saved_is_loaded_as_it_was(void **state) {
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        ppo_tokenizer *tok = NULL, *read = NULL;
        if (kind == 0) tok = golden_tokenizer();
        if (kind == 1) tok = characters_of("Gr\303\266\303\237e\n \360\237\230\200");
        if (kind == 2) assert_ok(ppo_tokenizer_train(NULL, 0, 256, NULL, 0, &tok)); /* bytes alone */
        if (kind == 3) assert_ok(ppo_tokenizer_characters(NULL, 0, specials, 1, &tok));
        assert_ok(ppo_tokenizer_save(tok, PATH));
        assert_ok(ppo_tokenizer_load(PATH, &read));
        assert_same(tok, read);
        ppo_tokenizer_free(read);
        ppo_tokenizer_free(tok);
    }
}

static void a_file_names_its_arrays_and_texts_as_documented(void **state) {
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        const int64_t shape[] = {kind ? g_bpe_merges : 2, 2};
        const ppo_array *array;
        ppo_file *file = NULL;
        ppo_tokenizer *tok = kind ? golden_tokenizer() : characters_of("ba");
        const int32_t characters[] = {'a', 'b'};
        assert_ok(ppo_tokenizer_save(tok, PATH));
        assert_ok(ppo_file_read(PATH, &file));
        assert_int_equal(ppo_file_count(file), 1);
        assert_int_equal(ppo__file_text_count(file), 2 + kind);
        if (kind) assert_string_equal(ppo_file_text(file, "tokenizer.words"), "gpt2");
        assert_string_equal(ppo_file_text(file, "tokenizer"), kind ? "bpe" : "characters");
        assert_string_equal(ppo_file_text(file, "tokenizer.specials"), "<eos>\n<pad>\n\303\251\303\251");
        assert_ok(ppo__file_expect(file, kind ? "tokenizer.merges" : "tokenizer.characters", PPO_I32, shape,
                                   kind ? 2 : 1, &array));
        assert_memory_equal(array->data, kind ? (const void *)g_bpe_merge : characters, array->bytes);
        ppo_file_free(file);
        ppo_tokenizer_free(tok);
    }
}

static void a_tokenizer_travels_in_the_file_of_another_thing(void **state) {
    (void)state;
    const float weight[] = {1, 2};
    const int64_t two = 2;
    ppo_file *file = NULL;
    ppo_tokenizer *tok = golden_tokenizer(), *read = NULL;
    assert_ok(ppo_file_create(&file));
    assert_fails(ppo_tokenizer_get(file, &read), PPO_ERROR_FILE, "there is no text \"tokenizer\"");
    assert_ok(ppo_file_add(file, "weight", PPO_F32, &two, 1, weight));
    assert_ok(ppo_tokenizer_put(tok, file));
    assert_fails(ppo_tokenizer_put(tok, file), PPO_ERROR_ARGUMENT, "exists already");
    assert_ok(ppo_tokenizer_get(file, &read)); /* before it was written */
    ppo_tokenizer_free(read);
    assert_ok(ppo_file_write(file, PATH));
    ppo_file_free(file);
    assert_ok(ppo_file_read(PATH, &file));
    assert_ok(ppo_tokenizer_get(file, &read));
    ppo_file_free(file); /* of which it needs nothing */
    assert_same(tok, read);
    ppo_tokenizer_free(read);
    ppo_tokenizer_free(tok);
}

/* A file of these texts (NULL: not there) and n numbers in an array (shape NULL: not there). */
static ppo_status load_made_up(const char *kind, const char *names, const char *array, int type,
                               const int64_t *shape, int rank, const int32_t *numbers) {
    ppo_file *file = NULL;
    ppo_tokenizer *tok = NULL;
    assert_ok(ppo_file_create(&file));
    if (kind) assert_ok(ppo_file_set_text(file, "tokenizer", kind));
    assert_ok(ppo_file_set_text(file, "tokenizer.words", "gpt2"));
    if (names) assert_ok(ppo_file_set_text(file, "tokenizer.specials", names));
    if (array) assert_ok(ppo_file_add(file, array, type, shape, rank, numbers));
    assert_ok(ppo_file_write(file, PATH));
    ppo_file_free(file);
    ppo_status status = ppo_tokenizer_load(PATH, &tok);
    assert_true((tok != NULL) == !status);
    ppo_tokenizer_free(tok);
    return status;
}

static ppo_status load_merges(const char *names, const int32_t *merges, int64_t n) {
    const int64_t shape[] = {n, 2};
    return load_made_up("bpe", names, "tokenizer.merges", PPO_I32, shape, 2, merges);
}

static ppo_status load_characters(const char *names, const int32_t *codes, int64_t n) {
    return load_made_up("characters", names, "tokenizer.characters", PPO_I32, &n, 1, codes);
}

static void hostile_files_are_refused_with_the_reason(void **state) {
    (void)state;
    static int32_t many[2 * (PPO_MAX_VOCAB + 1)];
    static const int32_t some[] = {1, 2, 256, 3, 4, 257};
    const int64_t three_two[] = {3, 2}, two_three[] = {2, 3}, six = 6;
    const char *array = "tokenizer.merges", *path = PATH ": ";
    char words[100];
    assert_ok(load_merges("a\nb", some, 3));
    assert_fails(load_made_up(NULL, "", array, PPO_I32, three_two, 2, some), PPO_ERROR_FILE, path);
    assert_fails(load_made_up("bpe", NULL, array, PPO_I32, three_two, 2, some), PPO_ERROR_FILE,
                 "no text \"tokenizer.specials\"");
    assert_fails(load_made_up("BPE", "", array, PPO_I32, three_two, 2, some), PPO_ERROR_FILE,
                 "is \"BPE\", not \"characters\", \"bpe\"");
    assert_fails(load_made_up("bpe", "", NULL, 0, NULL, 0, NULL), PPO_ERROR_FILE,
                 "no \"tokenizer.merges\", I32 (0, 2)");
    assert_fails(load_made_up("characters", "", array, PPO_I32, &six, 1, some), PPO_ERROR_FILE,
                 "no \"tokenizer.characters\"");
    assert_fails(load_made_up("bpe", "", array, PPO_U32, three_two, 2, some), PPO_ERROR_FILE,
                 "is U32 (3, 2), not I32 (3, 2)");
    assert_fails(load_made_up("bpe", "", array, PPO_I32, two_three, 2, some), PPO_ERROR_FILE,
                 "is I32 (2, 3), not I32 (2, 2)");
    assert_fails(load_made_up("bpe", "", array, PPO_I32, &six, 1, some), PPO_ERROR_FILE,
                 "is I32 (6), not I32 (6, 2)");
    assert_fails(load_made_up("bpe", "", array, PPO_I32, NULL, 0, some), PPO_ERROR_FILE,
                 "is I32 (), not I32 (0, 2)");

    static const struct {
        const char *words;
        int32_t merges[6];
    } bad[] = {{"merge 0 joins tokens -1 and 2|0 .. 255", {-1, 2, 1, 2, 3, 4}},
               {"merge 0 joins tokens 1 and 256|0 .. 255", {1, 256, 1, 2, 3, 4}},
               {"merge 2 joins tokens 258 and 0|0 .. 257", {1, 2, 3, 4, 258, 0}},
               {"merge 1 joins tokens 0 and -2147483648", {1, 2, 0, INT32_MIN, 0, 0}},
               {"merge 1 joins tokens 65536 and 0", {1, 2, 65536, 0, 0, 0}},
               {"merge 2 is there twice: tokens 1 and 2", {1, 2, 2, 1, 1, 2}}};
    for (int i = 0; i < COUNT(bad); i++) {
        snprintf(words, sizeof words, "%s|%s", path, bad[i].words);
        assert_fails(load_merges("", bad[i].merges, 3), PPO_ERROR_FILE, words);
    }
    for (int k = 0; k < 2 * 40; k++) many[k] = k < 2 ? 0 : 255 + k / 2; /* each token twice the one before */
    assert_ok(load_merges("", many, 8));
    assert_fails(load_merges("", many, 40), PPO_ERROR_FILE, "merge 8 makes a token of 512 bytes");
    for (int k = 0; k <= PPO_MAX_VOCAB; k++) many[2 * k] = k % 256, many[2 * k + 1] = k / 256;
    assert_ok(load_merges("", many, PPO_MAX_VOCAB - 256));
    assert_fails(load_merges("x", many, PPO_MAX_VOCAB - 256), PPO_ERROR_FILE, "262145 tokens");
    assert_fails(load_merges("", many, PPO_MAX_VOCAB + 1), PPO_ERROR_FILE, "262145 rows");

    static const struct {
        const char *words;
        int32_t codes[3];
    } worse[] = {{"character 0 is -1:", {-1, 1, 2}},
                 {"character 2 is 1114112:", {1, 2, 0x110000}},
                 {"character 1 is 55296:", {1, 0xd800, 0xe000}},
                 {"character 1 is 57343:", {1, 0xdfff, 0xe000}},
                 {"character 1 is 5:", {5, 5, 6}},
                 {"character 2 is 6:", {5, 7, 6}}};
    for (int i = 0; i < COUNT(worse); i++)
        assert_fails(load_characters("", worse[i].codes, 3), PPO_ERROR_FILE, worse[i].words);
    assert_fails(load_characters("", NULL, 0), PPO_ERROR_FILE, "0 tokens");

    assert_fails(load_merges("a\n\nb", some, 3), PPO_ERROR_FILE, "special token 1");
    assert_fails(load_merges("\n", some, 3), PPO_ERROR_FILE, "special token 0");
    assert_fails(load_merges("a\nb\n", some, 3), PPO_ERROR_FILE, "special token 2");
    assert_fails(load_merges("a\tb", some, 3), PPO_ERROR_FILE, "special token 0");
    assert_fails(load_merges("a\nb\na", some, 3), PPO_ERROR_FILE, "0 and 2");
    static char lines[2 * 10000];
    for (int i = 0; i < COUNT(lines); i++) lines[i] = i % 2 ? '\n' : 'x';
    lines[COUNT(lines) - 1] = 0;
    assert_fails(load_merges(lines, some, 3), PPO_ERROR_FILE, "10000 special");
    lines[2 * PPO_MAX_SPECIALS + 1] = 0;
    assert_fails(load_merges(lines, some, 3), PPO_ERROR_FILE, "1025 special");
}

/* Merges that no text would give: tokens that are there twice under other pairs, pairs of what comes later in
   the order of the bytes, long ones. */
static void odd_merges_that_break_no_rule_are_followed(void **state) {
    (void)state;
    int32_t merges[2 * 200];
    ppo_rng rng = test_rng(5);
    ppo_file *file = NULL;
    const int64_t shape[] = {200, 2};
    for (int round = 0; round < 20; round++) {
        ppo_tokenizer *tok = NULL;
        for (int k = 0; k < 200; k++) {
            merges[2 * k] = ppo_rng_below(&rng, 2) && k ? 256 + ppo_rng_below(&rng, k) / 2 : 64 + k % 3;
            merges[2 * k + 1] = ppo_rng_below(&rng, 2) ? 64 + k / 3 % 3 : k ? 256 + k / 2 : 66;
            for (int j = 0; j < k; j++)
                if (merges[2 * j] == merges[2 * k] && merges[2 * j + 1] == merges[2 * k + 1])
                    merges[2 * k + 1] = 100 + k / 2, merges[2 * k] = k % 256;
        }
        assert_ok(ppo_file_create(&file));
        assert_ok(ppo_file_set_text(file, "tokenizer", "bpe"));
        assert_ok(ppo_file_set_text(file, "tokenizer.specials", ""));
        assert_ok(ppo_file_set_text(file, "tokenizer.words", "gpt2"));
        assert_ok(ppo_file_add(file, "tokenizer.merges", PPO_I32, shape, 2, merges));
        assert_ok(ppo_tokenizer_get(file, &tok));
        ppo_file_free(file);
        for (int i = 0; i < 50; i++) {
            char text[50];
            int want[50], tokens[50], count, n = 1 + ppo_rng_below(&rng, 49);
            for (int k = 0; k < n; k++) text[k] = (char)('a' + ppo_rng_below(&rng, 3));
            int expected = encode_plainly(tok, text, n, want);
            assert_ok(ppo_encode(tok, text, (size_t)n, tokens, 50, &count));
            assert_int_equal(count, expected);
            assert_memory_equal(tokens, want, (size_t)count * sizeof *want);
            round_trip(tok, text, (size_t)n);
        }
        ppo_tokenizer_free(tok);
    }
}

static size_t get(const char *path, unsigned char *bytes) {
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    size_t n = fread(bytes, 1, ROOM, in);
    fclose(in);
    return n;
}

static void put(const char *path, const unsigned char *bytes, size_t n) {
    remove(path);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
}

/* One to three bytes changed, mostly after the header, half of them by little, so that the numbers there are
   still possible. */
static void flip(ppo_rng *rng, unsigned char *whole, size_t n) {
    size_t header = 8 + whole[0] + 256u * whole[1];
    for (int k = 1 + ppo_rng_below(rng, 3); k > 0; k--) {
        size_t at = ppo_rng_below(rng, 4) ? header + (size_t)ppo_rng_below(rng, (int)(n - header))
                                          : (size_t)ppo_rng_below(rng, (int)n);
        if (ppo_rng_below(rng, 2)) {
            whole[at] ^= (unsigned char)(1 << ppo_rng_below(rng, 8));
        } else {
            whole[at] = (unsigned char)ppo_rng_below(rng, 256);
        }
    }
}

static void a_damaged_file_is_loaded_or_refused(void **state) {
    (void)state;
    static unsigned char whole[2][ROOM], damaged[ROOM];
    size_t sizes[2];
    const char *count = getenv("PPO_FUZZ"), *text = "abab the reward isn't 12 \303\251";
    long files = count ? atol(count) : 2000, loaded = 0;
    ppo_rng rng = test_rng(6);
    for (int kind = 0; kind < 2; kind++) {
        ppo_tokenizer *tok =
            kind ? golden_tokenizer() : characters_of("Gr\303\266\303\237e \360\237\230\200 of all");
        assert_ok(ppo_tokenizer_save(tok, PATH));
        sizes[kind] = get(PATH, whole[kind]);
        ppo_tokenizer_free(tok);
    }
    for (long i = 0; i < files; i++) {
        int kind = (int)(i % 2);
        heap h = {0, 0, -1, 0};
        ppo_tokenizer *tok = NULL;
        memcpy(damaged, whole[kind], sizes[kind]);
        flip(&rng, damaged, sizes[kind]);
        put(PATH, damaged, sizes[kind]);
        ppo_set_allocator(heap_hook, &h);
        ppo_fail(PPO_OK, "(no sentence)");
        ppo_status status = ppo_tokenizer_load(PATH, &tok);
        if (status == PPO_OK) {
            loaded++;
            if (kind) round_trip(tok, text, strlen(text));
            for (int t = 0; t < ppo_tokenizer_vocab(tok); t++)
                assert_ok(ppo_decode(tok, &t, 1, NULL, 0, NULL));
        } else {
            assert_int_equal(status, PPO_ERROR_FILE);
            assert_true(strncmp(ppo_last_error(), PATH ": ", strlen(PATH) + 2) == 0);
            assert_null(tok);
        }
        ppo_tokenizer_free(tok);
        ppo_set_allocator(NULL, NULL);
        assert_int_equal(h.live, 0);
    }
    print_message("# %ld of %ld damaged files were still to be loaded\n", loaded, files);
    if (files >= 1000) assert_in_range(loaded, files / 50, files / 2); /* or the damage is of no use */
}

/* --- Memory --------------------------------------------------------------------------------------------- */

/* Every function once, on a text for which all lists grow. */
static ppo_status use_all(void *user) {
    const int kind = *(const int *)user;
    const char *text = (const char *)g_bpe_text;
    ppo_tokenizer *tok = NULL, *read = NULL;
    int count;
    ppo_status status =
        kind ? ppo_tokenizer_train(text, sizeof g_bpe_text, 4000, specials, COUNT(specials), &tok)
             : ppo_tokenizer_characters(text, sizeof g_bpe_text, specials, COUNT(specials), &tok);
    if (status) assert_null(tok);
    if (!status) status = ppo_encode(tok, text, sizeof g_bpe_text, NULL, 0, &count);
    if (!status && kind) status = ppo_tokenizer_save(tok, HUB);
    if (!status) status = ppo_tokenizer_save(tok, PATH);
    if (!status) status = ppo_tokenizer_load(PATH, &read);
    if (status) assert_null(read);
    ppo_tokenizer_free(tok);
    ppo_tokenizer_free(read);
    return status;
}

static void every_failing_allocation_is_reported_and_leaks_nothing(void **state) {
    (void)state;
    int kind = 0;
    assert_true(fail_each_site(use_all, &kind, 1) >= 10);
    kind = 1;
    assert_true(fail_each_site(use_all, &kind, 1) >= 40);
}

static int enter_folder(void **state) {
    (void)state;
    return mkdtemp(home) && chdir(home) == 0 ? 0 : -1;
}

static int leave_folder(void **state) {
    (void)state;
    return chdir("/") || rmdir(home);
}

#define TEST(function) cmocka_unit_test_teardown(function, tidy)

static void texts_become_sequences_and_come_back(void **state) {
    (void)state;
    ppo_tokenizer *tok = NULL;
    ppo_tokens tokens = {0};
    char text[64];
    const int eos = 4, pad = 5;
    assert_ok(ppo_tokenizer_characters("abc ", 4, specials, 2, &tok)); /* " abc", then <eos> and <pad> */
    assert_ok(ppo_tokens_add_text(&tokens, tok, pad, "ab", " ca", eos));
    assert_ok(ppo_tokens_add_text(&tokens, tok, -1, "ab", NULL, eos)); /* only a prompt */
    assert_ok(ppo_tokens_add_text(&tokens, tok, pad, "", "c", -1));
    assert_int_equal(tokens.count, 3);
    assert_memory_equal(tokens.token, ((int[]){pad, 1, 2, 0, 3, 1, eos, 1, 2, pad, 3}), 11 * sizeof(int));
    assert_memory_equal(tokens.start, ((int[]){0, 7, 9, 11}), 4 * sizeof(int));
    assert_memory_equal(tokens.prompt, ((int[]){3, 2, 1}), 3 * sizeof(int));
    static const char *const want[3][3] = {{"ab ca", "ab", " ca"}, {"ab", "ab", ""}, {"c", "", "c"}};
    for (int s = 0; s < 3; s++) {
        for (int what = PPO_WHOLE_TEXT; what <= PPO_RESPONSE_TEXT; what++) {
            memset(text, 'x', sizeof text);
            assert_ok(ppo_tokens_text(&tokens, s, what, tok, text, strlen(want[s][what]) + 1));
            assert_string_equal(text, want[s][what]);
        }
    }
    assert_fails(ppo_tokens_text(&tokens, 0, PPO_WHOLE_TEXT, tok, text, 5), PPO_ERROR_ARGUMENT,
                 "room for 5 bytes");
    assert_string_equal(text, "");
    assert_fails(ppo_tokens_text(&tokens, 0, 3, tok, text, 64), PPO_ERROR_ARGUMENT, "what is 3");
    int alien[] = {1, 9}, bounds[] = {0, 2}, beyond[] = {7};
    const ppo_tokens foreign = {1, bounds, beyond, alien, NULL, NULL};
    assert_fails(ppo_tokens_text(&foreign, 0, PPO_PROMPT_TEXT, tok, text, 64), PPO_ERROR_ARGUMENT,
                 "token 9 at position 1|0 .. 5");
    assert_fails(ppo_tokens_text(&tokens, 3, 0, tok, text, 64), PPO_ERROR_ARGUMENT, "no sequence 3 in 3");
    assert_string_equal(text, "");
    assert_fails(ppo_tokens_text(&tokens, -1, 0, tok, text, 64), PPO_ERROR_ARGUMENT, "no sequence -1 in 3");
    assert_fails(ppo_tokens_text(&tokens, 0, 0, tok, NULL, 64), PPO_ERROR_ARGUMENT, "ppo_tokens_text");
    assert_fails(ppo_tokens_text(&tokens, 0, 0, tok, text, 0), PPO_ERROR_ARGUMENT, "ppo_tokens_text");
    assert_fails(ppo_tokens_add_text(&tokens, tok, -1, "", "", -1), PPO_ERROR_ARGUMENT, "0 tokens");
    assert_fails(ppo_tokens_add_text(&tokens, tok, -1, "a", "d", -1), PPO_ERROR_ARGUMENT, "d");
    assert_fails(ppo_tokens_add_text(&tokens, tok, 6, "a", "b", -1), PPO_ERROR_ARGUMENT, "start is 6|0 .. 5");
    assert_fails(ppo_tokens_add_text(&tokens, tok, 0, "a", "b", 6), PPO_ERROR_ARGUMENT, "end 6|0 .. 5");
    assert_fails(ppo_tokens_add_text(&tokens, tok, 0, NULL, "b", 0), PPO_ERROR_ARGUMENT, "NULL");
    assert_int_equal(tokens.count, 3);
    assert_ok(ppo_tokens_append_text(&tokens, tok, "ab", 1)); /* to "c" */
    assert_ok(ppo_tokens_append_text(&tokens, tok, "", 1));
    assert_ok(ppo_tokens_append_text(&tokens, tok, "ca", 0));
    assert_int_equal(tokens.count, 3);
    assert_memory_equal(tokens.token + 9, ((int[]){pad, 3, 1, 2, 3, 1}), 6 * sizeof(int));
    assert_memory_equal(tokens.given, "\0\0\0\0\0\0\0\0\0\0\0\1\1\0\0", 15);
    assert_int_equal(tokens.prompt[2], 1);
    assert_fails(ppo_tokens_append_text(&tokens, tok, "d", 0), PPO_ERROR_ARGUMENT, "d");
    assert_fails(ppo_tokens_append_text(&tokens, tok, NULL, 0), PPO_ERROR_ARGUMENT, "ppo_tokens_append_text");
    assert_int_equal(tokens.start[3], 15);
    ppo_tokens_free(&tokens);
    assert_fails(ppo_tokens_append_text(&tokens, tok, "a", 0), PPO_ERROR_ARGUMENT, "hold no sequence");
    ppo_tokenizer_free(tok);
}

/* --- Files of the model hub ----------------------------------------------------------------------------- */

static const char *hub_text(int kind) {
    static char text[ROOM];
    *text = 0;
    for (const char *const *part = g_hub[kind].head; *part; part++) strcat(text, *part);
    for (const char *const *part = g_hub[kind].body; *part; part++) strcat(text, *part);
    return text;
}

static int hub_kind(const char *name) {
    int kind = 0;
    while (strcmp(g_hub[kind].name, name) != 0) kind++;
    return kind;
}

static ppo_tokenizer *hub_tokenizer(int kind) {
    ppo_tokenizer *tok = NULL;
    const char *text = hub_text(kind);
    put(HUB, (const unsigned char *)text, strlen(text));
    assert_ok(ppo_tokenizer_load(HUB, &tok));
    return tok;
}

/* This text is loaded. */
static ppo_status load_text(const char *text) {
    ppo_tokenizer *tok = NULL;
    put(HUB, (const unsigned char *)text, strlen(text));
    ppo_status status = ppo_tokenizer_load(HUB, &tok);
    assert_true((tok != NULL) == !status);
    if (tok) assert_ok(ppo_encode_as(tok, PPO_ENCODE_SPECIALS, "  <s>  ab ", 10, NULL, 0, NULL));
    ppo_tokenizer_free(tok);
    return status;
}

static void files_of_the_hub_give_the_tokens_of_hugging_face(void **state) {
    (void)state;
    const int *token = g_hub_token;
    for (int kind = 0, c = 0; kind < g_hub_kinds; kind++) {
        ppo_tokenizer *tok = hub_tokenizer(kind);
        for (int marked = 0; marked < 2; marked++) {
            const char *text = (const char *)g_hub_string;
            for (int s = 0; s < g_hub_strings; text += g_hub_string_bytes[s++], token += g_hub_count[c++]) {
                static int tokens[400], count;
                static char back[2000];
                size_t n, bytes = (size_t)g_hub_string_bytes[s];
                int flags = marked ? PPO_ENCODE_SPECIALS | PPO_ENCODE_BOUNDS : 0;
                assert_ok(ppo_encode_as(tok, flags, text, bytes, tokens, COUNT(tokens), &count));
                for (int i = 0; i < count && i < g_hub_count[c]; i++)
                    if (tokens[i] != token[i])
                        fail_msg("%s, string %d, flags %d: token %d is %d, not %d", g_hub[kind].name, s,
                                 flags, i, tokens[i], token[i]);
                assert_int_equal(count, g_hub_count[c]);
                assert_ok(ppo_decode(tok, tokens, count, back, sizeof back, &n));
                assert_int_equal((uint32_t)ppo__fnv1a(PPO__FNV1A, back, n), g_hub_decoded[c]);
                if (!marked) {
                    assert_ok(ppo_encode(tok, text, bytes, tokens, COUNT(tokens), &count));
                    assert_int_equal(count, g_hub_count[c]);
                }
            }
        }
        ppo_tokenizer_free(tok);
    }
}

static void chats_are_those_of_the_hubs_templates(void **state) {
    (void)state;
    static const char *const kinds[] = {"qwen2", "llama3", "llama2"}, *const ends[] = {"<|im_end|>",
                                                                                       "<|eot_id|>", "</s>"};
    const int *token = g_hub_chat_token;
    ppo_message messages[g_hub_messages], bad = {"tool", "4"};
    ppo_tokens tokens = {0};
    for (int m = 0; m < g_hub_messages; m++)
        messages[m].role = g_hub_message[m][0], messages[m].text = g_hub_message[m][1];
    for (int form = PPO_CHATML; form <= PPO_CHAT_ZEPHYR; form++) {
        ppo_tokenizer *tok = hub_tokenizer(hub_kind(kinds[form]));
        char learned[200] = "", text[200];
        for (int reply = 0; reply < 2; reply++) {
            int n = g_hub_chat_count[2 * form + reply];
            assert_ok(ppo_tokens_add_chat(&tokens, tok, form, messages, g_hub_messages, reply));
            assert_int_equal(tokens.start[reply + 1] - tokens.start[reply], n);
            assert_memory_equal(tokens.token + tokens.start[reply], token, (size_t)n * sizeof *token);
            token += n;
        }
        int n = g_hub_chat_count[2 * form];
        assert_int_equal(tokens.prompt[1], g_hub_chat_count[2 * form + 1]); /* the reply is to be sampled */
        for (int i = tokens.prompt[0]; i < n; i++) {
            int t = tokens.token[i];
            if (!tokens.given[i])
                strncat(learned, tok->bytes + tok->start[t], (size_t)ppo__token_length(tok, t));
        }
        snprintf(text, sizeof text, "It's bound.%slower <|im_end%s", ends[form], ends[form]);
        assert_string_equal(learned, text);
        assert_fails(ppo_tokens_add_chat(&tokens, tok, form, &bad, 1, 0), PPO_ERROR_ARGUMENT,
                     "message 0 is \"tool\"");
        assert_fails(ppo_tokens_add_chat(&tokens, tok, form == PPO_CHAT_ZEPHYR ? PPO_CHATML : PPO_CHAT_ZEPHYR,
                                         messages, 1, 0),
                     PPO_ERROR_ARGUMENT, "no token \"");
        assert_fails(ppo_tokens_add_chat(&tokens, tok, PPO_CHAT_FORMS, messages, 1, 0), PPO_ERROR_ARGUMENT,
                     "form 19");
        assert_fails(ppo_tokens_add_chat(&tokens, tok, form, messages, -1, 0), PPO_ERROR_ARGUMENT,
                     "-1 messages");
        assert_fails(ppo_tokens_add_chat(&tokens, tok, form, NULL, 1, 0), PPO_ERROR_ARGUMENT, "NULL");
        assert_fails(ppo_tokens_add_chat(&tokens, tok, form, NULL, 0, 0), PPO_ERROR_ARGUMENT, "0 tokens");
        assert_int_equal(tokens.count, 2);
        ppo_tokens_free(&tokens);
        ppo_tokenizer_free(tok);
    }
    ppo_tokenizer *tok = characters_of("a");
    assert_fails(ppo_tokens_add_chat(&tokens, tok, 0, messages, 1, 0), PPO_ERROR_ARGUMENT, "characters");
    ppo_tokenizer_free(tok);
}

static void a_response_continues_its_prompt(void **state) {
    (void)state;
    ppo_tokens tokens = {0};
    char text[100];
    for (int kind = 0; kind < g_hub_kinds; kind++) {
        ppo_tokenizer *tok = hub_tokenizer(kind);
        assert_ok(ppo_tokens_add_text(&tokens, tok, -1, "the pole", " falls", -1));
        assert_ok(ppo_tokens_append_text(&tokens, tok, " low", 1));
        assert_ok(ppo_tokens_text(&tokens, 0, PPO_RESPONSE_TEXT, tok, text, sizeof text));
        assert_string_equal(text, " falls low");
        assert_ok(ppo_tokens_text(&tokens, 0, PPO_WHOLE_TEXT, tok, text, sizeof text));
        assert_string_equal(text + (*text == ' '), "the pole falls low");
        ppo_tokens_free(&tokens);
        ppo_tokenizer_free(tok);
    }
}

static void a_hub_tokenizer_keeps_its_file(void **state) {
    (void)state;
    for (int kind = 0; kind < g_hub_kinds; kind++) {
        static unsigned char bytes[ROOM];
        ppo_tokenizer *tok = hub_tokenizer(kind), *read = NULL, *again = NULL;
        const char *text = hub_text(kind);
        assert_ok(ppo_tokenizer_load(".", &read)); /* the folder that has it */
        assert_same(tok, read);
        ppo_tokenizer_free(tok);
        assert_ok(ppo_tokenizer_save(read, PATH));
        remove(HUB);
        assert_ok(ppo_tokenizer_load(PATH, &again));
        assert_same(read, again);
        if (kind % 2) assert_ok(ppo_tokenizer_save(again, ".")); /* the folder of a model */
        else assert_ok(ppo_tokenizer_save(again, HUB));
        assert_int_equal(get(HUB, bytes), strlen(text));
        assert_memory_equal(bytes, text, strlen(text));
        ppo_tokenizer_free(read);
        ppo_tokenizer_free(again);
    }
    ppo_tokenizer *tok = characters_of("a"), *none = tok;
    assert_fails(ppo_tokenizer_save(tok, HUB), PPO_ERROR_ARGUMENT,
                 "tokenizer of characters|NAME.safetensors");
    ppo_tokenizer_free(tok);
    remove(HUB);
    assert_fails(ppo_tokenizer_load(".", &none), PPO_ERROR_FILE, "./tokenizer.json: |opened");
    assert_null(none);
}

/* The same tokens, specials among them, as tokenizer.json. */
static void a_trained_tokenizer_becomes_a_tokenizer_json(void **state) {
    (void)state;
    const char *const names[] = {"<eos>", "<a\"\\>", "<eos"};
    const char *text = (const char *)g_bpe_text, *asked = "<eos>the <a\"\\>. the<eos\r\n 12";
    int want[200], tokens[200], n, count;
    ppo_tokenizer *tok = NULL, *read = NULL;
    assert_ok(ppo_tokenizer_train(text, sizeof g_bpe_text, 700, names, 3, &tok));
    assert_ok(ppo_tokenizer_save(tok, HUB));
    assert_ok(ppo_tokenizer_load(".", &read));
    assert_int_equal(ppo_tokenizer_vocab(read), ppo_tokenizer_vocab(tok));
    for (int k = 0; k < 3; k++)
        assert_int_equal(ppo_tokenizer_special(read, names[k]), ppo_tokenizer_special(tok, names[k]));
    for (int k = 0; k < 50; k++) {
        const char *from = k ? text + 61 * k % (sizeof g_bpe_text - 100) : asked;
        size_t bytes = k ? 100 : strlen(asked);
        assert_ok(ppo_encode_as(tok, PPO_ENCODE_SPECIALS, from, bytes, want, 200, &n));
        assert_ok(ppo_encode_as(read, PPO_ENCODE_SPECIALS, from, bytes, tokens, 200, &count));
        assert_int_equal(count, n);
        assert_memory_equal(tokens, want, (size_t)n * sizeof *want);
    }
    for (int t = 0; t < ppo_tokenizer_vocab(tok); t++) {
        char a[300], b[300];
        assert_ok(ppo_decode(tok, &t, 1, a, sizeof a, NULL));
        assert_ok(ppo_decode(read, &t, 1, b, sizeof b, NULL));
        assert_string_equal(a, b);
    }
    ppo_tokenizer_free(read);
    ppo_tokenizer_free(tok);
}

/* Text is cut at spaces only where no token has one inside. */
static void a_token_may_end_with_a_space(void **state) {
    (void)state;
    const char *text =
        "{\"decoder\": {\"type\": \"Fuse\"}, \"model\": {\"vocab\": {\"a\": 0, \"\342\226\201\": 1, "
        "\"a\342\226\201\": 2}, \"merges\": [\"a \342\226\201\"]}, \"pre_tokenizer\": {\"type\": "
        "\"Metaspace\", "
        "\"replacement\": \"\342\226\201\", \"prepend_scheme\": \"never\", \"split\": false}}";
    ppo_tokenizer *tok = NULL;
    int tokens[3], count;
    put(HUB, (const unsigned char *)text, strlen(text));
    assert_ok(ppo_tokenizer_load(HUB, &tok));
    assert_ok(ppo_encode(tok, "a a", 3, tokens, 3, &count));
    assert_int_equal(count, 2);
    assert_true(tokens[0] == 2 && tokens[1] == 0);
    ppo_tokenizer_free(tok);
}

static void a_file_says_how_it_cuts_words(void **state) {
    (void)state;
    static const char *const words[] = {"gpt2", "gpt3", NULL};
    const int64_t shape[] = {0, 2};
    for (int k = 0; k < 3; k++) {
        ppo_file *file = NULL;
        ppo_tokenizer *tok = NULL;
        assert_ok(ppo_file_create(&file));
        assert_ok(ppo_file_set_text(file, "tokenizer", "bpe"));
        assert_ok(ppo_file_set_text(file, "tokenizer.specials", ""));
        if (words[k]) assert_ok(ppo_file_set_text(file, "tokenizer.words", words[k]));
        assert_ok(ppo_file_add(file, "tokenizer.merges", PPO_I32, shape, 2, NULL));
        if (!k) assert_ok(ppo_tokenizer_get(file, &tok));
        else assert_fails(ppo_tokenizer_get(file, &tok), PPO_ERROR_FILE, "tokenizer.words|not \"gpt2\"");
        ppo_file_free(file);
        ppo_tokenizer_free(tok);
    }
    assert_fails(load_made_up("bpe", "", NULL, 0, NULL, 0, NULL), PPO_ERROR_FILE, "no \"tokenizer.merges\"");
}

static void special_tokens_in_a_text_are_for_those_who_ask(void **state) {
    (void)state;
    const char *text = "<eos>a<pad><pad";
    for (int kind = 0; kind < 2; kind++) {
        ppo_tokenizer *tok = kind ? trained_on("", 300) : characters_of("<eospad>");
        int tokens[20], count, eos = ppo_tokenizer_special(tok, "<eos>");
        assert_ok(ppo_encode_as(tok, PPO_ENCODE_SPECIALS, text, strlen(text), tokens, 20, &count));
        assert_int_equal(count, 7);
        assert_true(tokens[0] == eos && tokens[1] < eos && tokens[2] == eos + 1 && tokens[3] < eos);
        assert_ok(ppo_encode_as(tok, PPO_ENCODE_BOUNDS | PPO_ENCODE_CONTINUES, text, strlen(text), tokens, 20,
                                &count));
        assert_int_equal(count, 15);
        assert_fails(ppo_encode_as(tok, 16, "a", 1, tokens, 20, &count), PPO_ERROR_ARGUMENT, "flags are 16");
        if (!kind)
            assert_fails(ppo_encode_as(tok, 1, "<eos>b", 6, tokens, 20, &count), PPO_ERROR_ARGUMENT,
                         "(byte 5");
        ppo_tokenizer_free(tok);
    }
}

/* A small file, in which `old` is replaced. */
static const char small[] = "\357\273\277{\"version\": \"1.0\", \"truncation\": {\"max\": [1, -2.5e1, true, "
                            "null]}, \"added_tokens\": [{\"id\": 0, \"content\": "
                            "\"<s>\", \"single_word\": false, \"special\": true}, {\"id\": 7, \"content\": "
                            "\"  \", \"normalized\": true}], \"normalizer\": {\"type\": \"NFC\"}, "
                            "\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"\342\226\201\", "
                            "\"prepend_scheme\": \"first\", \"split\": true}, "
                            "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": "
                            "[{\"SpecialToken\": {\"id\": \"<s>\"}}, {\"Sequence\": {\"id\": \"A\"}}], "
                            "\"special_tokens\": {\"<s>\": {\"id\": \"<s>\", \"ids\": [0]}}}, "
                            "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", "
                            "\"pattern\": {\"String\": \"\342\226\201\"}, \"content\": \" \"}, "
                            "{\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}, {\"type\": \"Strip\", "
                            "\"content\": \" \", \"start\": 1, \"stop\": 0}]}, "
                            "\"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": \"<s>\", "
                            "\"fuse_unk\": true, \"byte_fallback\": false, \"vocab\": {\"<s>\": 0, "
                            "\"a\": 1, \"b\": 2, \"\\u2581\": 3, \"ab\": 4, \"\342\226\201ab\": 5, "
                            "\"<0x41>\": 6}, \"merges\": [\"a b\", [\"\342\226\201\", \"ab\"]]}}";

static ppo_status load_changed(const char *old, const char *by) {
    static char text[2 * sizeof small];
    const char *at = strstr(small, old);
    if (!at) fail_msg("there is no %s", old);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - small), small, by, at + strlen(old));
    return load_text(text);
}

static void what_a_tokenizer_json_cannot_have_is_named(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"{\"version\"", "[\"version\"", "expected \"{\""},
        {"\"NFC\"", "\"Nmt\"", "not supported: normalizer \"Nmt\""},
        {"{\"type\": \"NFC\"}", "{}", "without a type"},
        {"{\"type\": \"NFC\"}", "{\"type\": \"Sequence\"}", "an empty Sequence"},
        {"{\"type\": \"NFC\"}",
         "{\"type\": \"Replace\", \"content\": \"a\", \"pattern\": {\"Regex\": \"b(?>c)\"}}",
         "the group (?>c in the expression \"b(?>c)\""},
        {"{\"type\": \"NFC\"}", "{\"type\": \"Replace\", \"content\": \"a\"}",
         "a pattern without \"String\""},
        {"{\"type\": \"NFC\"}",
         "{\"type\": \"Replace\", \"content\": \"a\", \"pattern\": {\"Regex\": \"b*\"}}",
         "Replace of what may be empty"},
        {"{\"type\": \"NFC\"}", "{\"type\": \"Replace\", \"pattern\": {\"String\": \"b\"}}",
         "without content"},
        {"\"Metaspace\"", "\"UnicodeScripts\"", "pre_tokenizer \"UnicodeScripts\""},
        {"\"replacement\": \"\342\226\201\"", "\"replacement\": \"__\"", "replacement \"__\""},
        {"\"prepend_scheme\"", "\"add_prefix_space\": false, \"prepend_scheme\"",
         "add_prefix_space false with scheme \"first\""},
        {"\"first\"", "\"last\"", "prepend_scheme \"last\""},
        {"\"Metaspace\"", "\"Split\", \"behavior\": \"Removed\", \"pattern\": {\"Regex\": \"(a)\\\\1\"}",
         "the escape \\1 in the expression \"(a)\\1\""},
        {"\"Metaspace\"", "\"Split\", \"behavior\": \"Kept\", \"pattern\": {\"Regex\": \"a\"}",
         "behavior \"Kept\""},
        {"\"Metaspace\"", "\"Split\", \"pattern\": {\"Regex\": \"a\"}", "Split without a behavior"},
        {"\"Metaspace\"", "\"ByteLevel\"", "decoder \"Replace\""},
        {"\"TemplateProcessing\"", "\"BertProcessing\"", "BertProcessing \"cls\""},
        {"\"TemplateProcessing\"", "\"Other\"", "post_processor \"Other\""},
        {"{\"id\": \"<s>\"}", "{\"id\": \"<x>\"}", "TemplateProcessing with \"<x>\""},
        {"{\"id\": \"A\"}", "{\"id\": \"B\"}", "TemplateProcessing with \"B\""},
        {"{\"id\": \"A\"}", "{\"id\": \"A\"}}, {\"Sequence\": {\"id\": \"A\"}",
         "TemplateProcessing with \"A\""},
        {"\"Sequence\": {\"id\": \"A\"}", "\"SpecialToken\": {\"id\": \"<s>\"}",
         "TemplateProcessing without a text"},
        {"\"ids\": [0]", "\"ids\": [1]", "TemplateProcessing with \"<s>\""},
        {"\"ids\": [0]", "\"ids\": [4294967296]", "TemplateProcessing with \"<s>\""},
        {"\"ids\": [0]", "\"ids\": [0, 0]", "TemplateProcessing with \"<s>\""},
        {"\"special_tokens\"", "\"special\"", "TemplateProcessing with \"<s>\""},
        {"\"ByteFallback\"", "\"WordPiece\"", "decoder \"WordPiece\""},
        {"{\"type\": \"Fuse\"}, ", "", "decoder \"Strip\""},
        {"{\"type\": \"NFC\"}",
         "{\"type\": \"Replace\", \"content\": \"\", \"pattern\": {\"String\": \" \"}}", "empties: \"  \""},
        {"\"decoder\"", "\"other\"", "no decoder"},
        {"\"content\": \"  \"", "\"content\": \"\"", "the added token \"\""},
        {"\"stop\": 0", "\"stop\": 1", "Strip with a stop"},
        {"\"BPE\"", "\"WordPiece\"", "model \"WordPiece\""},
        {"\"BPE\"", "\"Unigram\"", "expected \"[\""},
        {"\"dropout\": null", "\"dropout\": 0.1", "dropout"},
        {"\"dropout\": null", "\"end_of_word_suffix\": \"</w>\"", "end_of_word_suffix \"</w>\""},
        {"\"unk_token\": \"<s>\"", "\"unk_token\": \"<t>\"", "unk_token \"<t>\""},
        {"\"byte_fallback\": false", "\"byte_fallback\": true", "byte_fallback without \"<0x00>\""},
        {"\"id\": 7", "\"id\": 1048576", "the added token"},
        {"\"id\": 7", "\"id\": 5", "names of a token"},
        {"\"id\": 7", "\"id\": 8", "number differently: \"  \""},
        {"{\"id\": 7", "{\"id\": 8, \"content\": \"  \"}, {\"id\": 7", "tokens of a name: \"  \""},
        {"{\"id\": 7", "{\"id\": 8, \"content\": \"<t>\"}, {\"id\": 7", "number differently: \"<t>\""},
        {"\"id\": 0", "\"id\": 8", "names of a token"},
        {"\"ab\": 4", "\"ab\": 1048576", "above 1048575"},
        {"\"ab\": 4", "\"ab\": 2", "there twice: \"ab\""},
        {"\"ab\": 4", "\"a\": 4", "there twice: \"a\""},
        {"\"ab\": 4", "\"ab\": -4", "whole number"},
        {"\"ab\": 4", "\"ac\": 4", "a merge from or to no token of the vocabulary: \"a\""},
        {"\"a b\"", "\"a b c\"", "not two names"},
        {"\"a b\"", "\"ab\"", "not two names"},
        {"\"merges\"", "\"nothing\"", "without vocab or merges"},
        {"\"model\"", "\"no\"", "without a model"},
        {"\"version\"", "\"model\": 1, \"version\"", "repeated member \"model\""},
        {"]}}", "]}", "expected \"}\""},
        {"]}}", "]}}}", "expected its end"},
        {"null]", "nil]", "expected a value"},
        {"\"a\": 1", "\"\377\": 1", "not UTF-8"},
    };
    assert_ok(load_changed("1.0", "1.0"));
    assert_ok(load_changed("{\"id\": 7", "{\"id\": 7, \"content\": \"<t>\"}, {\"id\": 8"));
    for (int i = 0; i < COUNT(cases); i++)
        assert_fails(load_changed(cases[i][0], cases[i][1]), PPO_ERROR_FILE, cases[i][2]);
    assert_fails(load_text(""), PPO_ERROR_FILE, HUB ": byte 0: expected \"{\"");
}

static void a_damaged_tokenizer_json_is_loaded_or_refused(void **state) {
    (void)state;
    static unsigned char text[sizeof small];
    const char *count = getenv("PPO_FUZZ");
    ppo_rng rng = test_rng(7);
    size_t n = sizeof small - 1;
    for (long i = 0, files = (long)n + (count ? atol(count) : 1000), loaded = 0; i < files; i++) {
        heap h = {0, 0, -1, 0};
        ppo_tokenizer *tok = NULL;
        size_t length = i < (long)n ? (size_t)i : n; /* cut off at each byte, or with some changed */
        memcpy(text, small, n);
        for (int k = i < (long)n ? 0 : 1 + ppo_rng_below(&rng, 2); k; k--) {
            unsigned char *at = &text[ppo_rng_below(&rng, (int)n)];
            *at = ppo_rng_below(&rng, 2) ? (unsigned char)(*at ^ 1 << ppo_rng_below(&rng, 8))
                                         : (unsigned char)small[ppo_rng_below(&rng, (int)n)];
        }
        put(HUB, text, length);
        ppo_set_allocator(heap_hook, &h);
        ppo_status status = ppo_tokenizer_load(HUB, &tok);
        assert_true((tok != NULL) == !status && (!status || status == PPO_ERROR_FILE));
        assert_true(status || length == n);
        loaded += !status;
        if (tok) ppo_encode_as(tok, PPO_ENCODE_SPECIALS | PPO_ENCODE_BOUNDS, small, n, NULL, 0, NULL);
        for (int t = 0; t < ppo_tokenizer_vocab(tok) && t < 300; t++)
            assert_ok(ppo_decode(tok, &t, 1, NULL, 0, NULL));
        ppo_tokenizer_free(tok);
        ppo_set_allocator(NULL, NULL);
        assert_int_equal(h.live, 0);
        if (i + 1 == files && files > 2000) assert_in_range(loaded, (files - (long)n) / 50, files / 2);
    }
}

/* Many marks must not take the square of it. */
static void marks_are_ordered_in_time(void **state) {
    (void)state;
    enum { MARKS = 50000 };
    ppo_tokenizer *tok = hub_tokenizer(hub_kind("qwen2"));
    char *text = (char *)malloc(2 * MARKS);
    int count;
    double start = ppo_clock();
    assert_non_null(text);
    for (int i = 0; i < MARKS; i++) memcpy(text + 2 * i, i % 2 ? "\314\243" : "\314\210", 2);
    assert_ok(ppo_encode(tok, text, 2 * MARKS, NULL, 0, &count));
    assert_true(ppo_clock() - start < 60);
    free(text);
    ppo_tokenizer_free(tok);
}

static ppo_status use_hub(void *user) {
    ppo_tokenizer *tok = NULL, *read = NULL;
    ppo_tokens tokens = {0};
    ppo_message message = {"user", "e\314\201  a"};
    const char *text = " ab  ab\314\210 c";
    ppo_status status = ppo_tokenizer_load(HUB, &tok);
    if (!status)
        status =
            ppo_encode_as(tok, PPO_ENCODE_SPECIALS | PPO_ENCODE_BOUNDS, text, strlen(text), NULL, 0, NULL);
    if (!status) status = ppo_tokens_add_text(&tokens, tok, -1, text, text, -1);
    if (!status) status = ppo_tokens_add_chat(&tokens, tok, *(int *)user, &message, 1, 0);
    if (!status) status = ppo_tokenizer_save(tok, PATH);
    if (!status) status = ppo_tokenizer_load(PATH, &read);
    ppo_tokens_free(&tokens);
    ppo_tokenizer_free(tok);
    ppo_tokenizer_free(read);
    return status;
}

static void a_hub_file_without_memory_is_refused(void **state) {
    (void)state;
    int form = PPO_CHAT_ZEPHYR;
    char text[sizeof small + 10];
    const char *at = strstr(small, "\"<s>\": 0");
    snprintf(text, sizeof text, "%s", small);
    for (char *name = text; (name = strstr(name, "\"<s>\"")) != NULL;)
        memmove(name + 6, name + 5, strlen(name + 5) + 1), memcpy(name, "\"</s>\"", 6);
    assert_non_null(at);
    put(HUB, (const unsigned char *)text, strlen(text));
    assert_true(fail_each_allocation(use_hub, &form) >= 20);
}

static void json_is_read_value_by_value(void **state) {
    (void)state;
    static char text[] = " {\"a\\u0062\" : [ -0.5e1, 12 ,true,false , null], \"x\": {\"\\\"}\": [[], {}, "
                         "\"]\"]}, \"y\": \"\\ud83d\\ude00\"} ";
    ppo__json json = {"x", "", text, text, text + strlen(text), PPO_OK};
    int n = 0;
    assert_int_equal(ppo__json_peek(&json), '{');
    ppo__json_expect(&json, '{');
    assert_true(ppo__json_next(&json, '}', &n));
    assert_string_equal(ppo__json_key(&json), "ab");
    assert_int_equal(ppo__json_peek(&json), '[');
    ppo__json_expect(&json, '[');
    assert_true(ppo__json_number(&json) == -5);
    ppo__json_expect(&json, ',');
    assert_int_equal(ppo__json_peek(&json), '0');
    assert_int_equal(ppo__json_whole(&json), 12);
    ppo__json_expect(&json, ',');
    assert_int_equal(ppo__json_bool(&json), 1);
    ppo__json_expect(&json, ',');
    assert_int_equal(ppo__json_bool(&json), 0);
    ppo__json_expect(&json, ',');
    assert_int_equal(ppo__json_peek(&json), 'n');
    assert_true(ppo__json_word(&json, "null"));
    ppo__json_expect(&json, ']');
    assert_true(ppo__json_next(&json, '}', &n));
    assert_string_equal(ppo__json_key(&json), "x");
    char *place = json.at;
    ppo__json_skip(&json);
    json.at = place; /* what was skipped can still be read */
    ppo__json_skip(&json);
    assert_true(ppo__json_next(&json, '}', &n));
    assert_string_equal(ppo__json_key(&json), "y");
    assert_string_equal(ppo__json_string(&json), "\360\237\230\200");
    assert_false(ppo__json_next(&json, '}', &n));
    ppo__json_end(&json);
    assert_int_equal(json.status, PPO_OK);

    static const char *const bad[][2] = {{"[01]", "byte 1: expected a finite number"},
                                         {"[1e999]", "finite number"},
                                         {"[-]", "finite"},
                                         {"[1 2]", "byte 3: expected \"]\""},
                                         {"{\"a\" 1}", "expected \":\""},
                                         {"{1:2}", "byte 1: expected"},
                                         {"[1,]", "byte 3: expected a value"},
                                         {"nul", "a value"},
                                         {"\"a", "has no end"},
                                         {"[]]", "its end"},
                                         {"\"\\", "has no end"},
                                         {"", "byte 0: expected a value"}};
    for (int i = 0; i < COUNT(bad); i++) {
        char copy[16];
        strcpy(copy, bad[i][0]);
        ppo__json one = {"x", "", copy, copy, copy + strlen(copy), PPO_OK};
        assert_fails((ppo__json_skip(&one), ppo__json_end(&one), one.status), PPO_ERROR_FILE, bad[i][1]);
    }
    for (int depth = 64; depth <= 65; depth++) {
        char deep[140];
        memset(deep, '[', (size_t)depth);
        memset(deep + depth, ']', (size_t)depth);
        deep[2 * depth] = 0;
        ppo__json one = {"x", "", deep, deep, deep + 2 * depth, PPO_OK};
        ppo__json_skip(&one);
        ppo__json_end(&one);
        assert_int_equal(one.status, depth == 64 ? PPO_OK : PPO_ERROR_FILE);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(merges_are_those_of_hugging_faces_trainer),
        TEST(encodings_are_those_of_hugging_face),
        TEST(a_smaller_vocabulary_has_the_first_merges),
        TEST(the_first_tokens_are_the_bytes_in_the_order_of_gpt2),
        TEST(any_bytes_come_back_through_bpe),
        TEST(a_word_is_joined_by_the_oldest_merge_first),
        TEST(words_are_those_of_the_expression),
        TEST(a_pair_that_is_there_once_is_not_joined),
        TEST(words_of_the_same_hash_are_counted_apart),
        TEST(a_token_is_no_longer_than_the_limit),
        TEST(a_very_long_word_takes_no_long_time),
        TEST(characters_are_tokens_by_code_point),
        TEST(any_characters_come_back),
        TEST(the_bounds_of_utf8_are_kept),
        TEST(a_character_that_is_cut_off_is_not_looked_at_beyond_the_end),
        TEST(a_character_that_the_vocabulary_lacks_is_named_with_its_place),
        TEST(a_text_may_hold_zeros),
        TEST(special_tokens_are_the_last_and_have_names),
        TEST(texts_become_sequences_and_come_back),
        TEST(no_text_becomes_a_special_token),
        TEST(names_that_cannot_be_are_refused),
        TEST(room_that_is_too_small_is_refused_with_both_numbers),
        TEST(tokens_outside_of_the_vocabulary_are_named_with_their_position),
        TEST(a_vocabulary_that_cannot_be_is_refused),
        TEST(null_is_refused_or_empty),
        TEST(what_was_saved_is_loaded_as_it_was),
        TEST(a_file_names_its_arrays_and_texts_as_documented),
        TEST(a_tokenizer_travels_in_the_file_of_another_thing),
        TEST(hostile_files_are_refused_with_the_reason),
        TEST(odd_merges_that_break_no_rule_are_followed),
        TEST(every_failing_allocation_is_reported_and_leaks_nothing),
        TEST(json_is_read_value_by_value),
        TEST(files_of_the_hub_give_the_tokens_of_hugging_face),
        TEST(chats_are_those_of_the_hubs_templates),
        TEST(a_response_continues_its_prompt),
        TEST(a_hub_tokenizer_keeps_its_file),
        TEST(a_trained_tokenizer_becomes_a_tokenizer_json),
        TEST(a_token_may_end_with_a_space),
        TEST(a_file_says_how_it_cuts_words),
        TEST(special_tokens_in_a_text_are_for_those_who_ask),
        TEST(what_a_tokenizer_json_cannot_have_is_named),
        TEST(marks_are_ordered_in_time),
        TEST(a_hub_file_without_memory_is_refused),
        TEST(a_damaged_tokenizer_json_is_loaded_or_refused),
        TEST(a_damaged_file_is_loaded_or_refused),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
