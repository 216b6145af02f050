/* ppo_unicode.h: expressions and normal forms, and tokenizer.json files with parts that need them, against
   what Hugging Face's tokenizers give (golden/unicode.h, by golden/make_unicode_cases.py). PPO_FUZZ=100000
   sets how many expressions are tried. */
#define PPO_NO_CONTROL
#define PPO_NO_REPORTS
#include "../ppo.h"
#include "../examples/companions/ppo_hub.h"

#include "golden/hub.h"
#include "golden/unicode.h"
#include "test.h"
#include "system.h"

static char home[64] = "/tmp/test_unicode.XXXXXX";

static int enter_folder(void **state) {
    (void)state;
    return mkdtemp(home) && chdir(home) == 0 ? 0 : -1;
}

static int leave_folder(void **state) {
    (void)state;
    remove("tokenizer.json");
    return chdir("/") || rmdir(home);
}

/* FNV-1a, of which the golden files have the low half. */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t n) {
    for (const unsigned char *at = (const unsigned char *)data; n; n--)
        hash = (hash ^ *at++) * 0x100000001b3u;
    return hash;
}

static const uint64_t no_bytes = 0xcbf29ce484222325u;

static uint64_t hash_number(uint64_t hash, int number) {
    unsigned char bytes[4];
    for (int k = 0; k < 4; k++) bytes[k] = (unsigned char)((unsigned)number >> 8 * k);
    return hash_bytes(hash, bytes, 4);
}

static int put_utf8(int code, char *out) {
    const int n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const int first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int k = n; k-- > 1; code >>= 6) out[k] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(first[n] | code);
    return n;
}

/* The pieces of a text, as written by ppo_expression_cut(). */
typedef struct cuts {
    const char *text;
    char shown[2000]; /* "[piece](not)" */
    uint64_t hash;    /* of the lengths that are not 0 */
    size_t end;
    long pieces;
} cuts;

static void see_piece(void *user, size_t begin, size_t end, int matches) {
    cuts *c = (cuts *)user;
    const size_t used = strlen(c->shown);
    if (begin != c->end || end < begin || (!matches && end == begin))
        fail_msg("a piece %d .. %d", (int)begin, (int)end);
    c->end = end;
    c->pieces++;
    if (end > begin) c->hash = hash_number(c->hash, (int)(end - begin));
    if (used + (end - begin) + 3 < sizeof c->shown)
        sprintf(c->shown + used, "%s%.*s%s", matches ? "[" : "(", (int)(end - begin), c->text + begin,
                matches ? "]" : ")");
}

static ppo_expression *expression_of(const char *pattern) {
    ppo_expression *e = NULL;
    if (ppo_expression_create(pattern, &e)) fail_msg("%s", ppo_last_error());
    return e;
}

static cuts cut(const ppo_expression *e, const char *text, size_t bytes) {
    cuts c = {text, "", no_bytes, 0, 0};
    assert_ok(ppo_expression_cut(e, text, bytes, see_piece, &c));
    assert_int_equal(c.end, bytes);
    return c;
}

/* --- Expressions ---------------------------------------------------------------------------------------- */

static void texts_are_cut_as_by_oniguruma(void **state) {
    (void)state;
    for (int k = 0; k < g_unicode_expressions; k++) {
        ppo_expression *e = expression_of(g_unicode_expression[k][1]);
        const char *text = (const char *)g_unicode_text;
        for (int t = 0; t < g_unicode_texts; text += g_unicode_text_bytes[t++]) {
            const cuts c = cut(e, text, (size_t)g_unicode_text_bytes[t]);
            if ((uint32_t)c.hash != g_unicode_cut[k * g_unicode_texts + t])
                fail_msg("%s, text %d: %s", g_unicode_expression[k][0], t, c.shown);
        }
        ppo_expression_free(e);
    }
}

/* Pieces that match are in [brackets], others in (brackets). */
static void matches_are_the_first_of_several_and_as_long_as_asked(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"a|ab", "abab", "[a](b)[a](b)"},
        {"(?:a|ab)(?:c|bcd)", "abcd", "[abcd]"},
        {"(?:ab|a)(?:bcd|c)", "abcd", "[abc](d)"},
        {"a*?b|a", "aab", "[aab]"},
        {"a{2}", "aaaaa", "[aa][aa](a)"},
        {"a{2,}", "aaaaa", "[aaaaa]"},
        {"a{,2}b", "aaab", "(a)[aab]"},
        {"a{1,2}+b", "aaab", "[aaab]"}, /* not possessive: braces, and then + */
        {"a++ab", "aaab", "(aaab)"},
        {"a?+ab", "aaab", "(a)[aab]"},
        {"a?+ab", "ab", "(ab)"},
        {"x{", "x{", "[x{]"},
        {"a*", "baac", "[](b)[aa](c)[]"},
        {"", "ab", "[](a)[](b)[]"},
        {"(?=bc)", "abcb", "(a)[](bcb)"},
        {"[ab](?![ab])", "abc", "(a)[b](c)"},
        {"[ab](?!bb|c)", "abbbc", "(ab)[b](bc)"},
        {"^a|b$", "ab\nab\n", "[a][b](\n)[a][b](\n)"},
        {"\\Aa|b\\z|b\\Z", "ab\nab\n", "[a](b\na)[b](\n)"},
        {"\\bab|\\Ba", "ab aab", "[ab]( a)[a](b)"},
        {"(?<=a)b|(?<!a)c", "abcac", "(a)[b][c](ac)"},
        {"(?i:'s)|ks", "'S'sKSks\305\277'\305\277", "['S]['s](KS)[ks](\305\277)['\305\277]"},
        {"a(?i)b|c", "aBaCb", "[aB][aC](b)"},
        {"[^a-c\\d]", "a1d\n", "(a1)[d][\n]"},
        {"[a-c&&[^b]]", "abc", "[a](b)[c]"},
        {".", "a\n\303\251", "[a](\n)[\303\251]"},
        {"\\x41\\u0042\\x{43}", "ABC", "[ABC]"},
        {"\357\277\275", "a\377b\355\240\200",
         "(a)[\377](b)[\355][\240][\200]"}, /* bytes that are not UTF-8 */
        {"\\S\\s{2}(?!\\S)|\\s", "a   b", "[a  ][ ](b)"},
        {"a{2}?b", "aaab", "(a)[aab]"}, /* not lazy: two, or none */
        {"a{2}?b", "b", "[b]"},
        {"a{1,2}?", "aa", "[a][a]"},
        {"x{,}|{a", "xx{,}{a", "(x)[x{,}][{a]"},
        {"(?i)a(?-i)b", "AbABab", "[Ab](AB)[ab]"},
        {"(?im-i:a.)b", "a\nbA\nb", "[a\nb](A\nb)"},
        {"(?i:\305\277)", "sSk\305\277", "[s][S](k)[\305\277]"},
        {"(?i:\342\204\252)", "kKs\342\204\252", "[k][K](s)[\342\204\252]"},
        {"\\p{Space}+", "a \t\nb", "(a)[ \t\n](b)"},
        {"\\p{Digit}+|\\p{Letter}", "a1\331\2432-", "[a][1\331\2432](-)"},
        {"[\\p{Word}-]+", "a_1-+\302\262b", "[a_1-](+\302\262)[b]"},
        {"\\p{Word}+", "a\302\262_\302\274b", "[a\302\262_\302\274b]"},
        {"\\p{XDigit}+", "09afAFg", "[09afAF](g)"},
        {"\\p{Any}", "a\n", "[a][\n]"},
    };
    for (int k = 0; k < COUNT(cases); k++) {
        ppo_expression *e = expression_of(cases[k][0]);
        char text[40];
        memset(text, 'b', sizeof text); /* which must not be looked at beyond the end */
        memcpy(text, cases[k][1], strlen(cases[k][1]));
        const cuts c = cut(e, text, strlen(cases[k][1]));
        if (strcmp(c.shown, cases[k][2]))
            if (!(strstr(c.shown, cases[k][2]) == c.shown && strlen(c.shown) == strlen(cases[k][2])))
                fail_msg("%s on %s: %s, not %s", cases[k][0], cases[k][1], c.shown, cases[k][2]);
        ppo_expression_free(e);
    }
}

/* All characters of some ranges, each with `before` in front; how many bytes that are. */
static size_t all_characters(const char *before, char *out) {
    size_t n = 0;
    for (size_t r = 0; r < sizeof g_unicode_range / sizeof *g_unicode_range; r += 2)
        for (int code = g_unicode_range[r]; code <= g_unicode_range[r + 1]; code++) {
            n += (size_t)sprintf(out + n, "%s", before);
            n += (size_t)put_utf8(code, out + n);
        }
    return n;
}

static void classes_have_the_characters_of_unicode_16(void **state) {
    (void)state;
    char *text = (char *)malloc(600000);
    assert_non_null(text);
    const size_t bytes = all_characters("", text);
    for (int k = 0; k < g_unicode_classes; k++) {
        char pattern[40];
        snprintf(pattern, sizeof pattern, "%s+", g_unicode_class[k]);
        ppo_expression *e = expression_of(pattern);
        if ((uint32_t)cut(e, text, bytes).hash != g_unicode_class_cut[k]) fail_msg("%s", g_unicode_class[k]);
        ppo_expression_free(e);
    }
    free(text);
}

static void what_an_expression_cannot_have_is_named(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"(a)\\1", "the escape \\1"},
        {"(?>a)", "the group (?>"},
        {"(?x:a)", "the group (?x"},
        {"(?P<n>a)", "the group (?P"},
        {"a)", "a ) without a ("},
        {"(a", "a ( without a )"},
        {"(?#a", "a comment without an end"},
        {"[a", "a [ without a ]"},
        {"[b-a]", "a range whose end comes before its start"},
        {"[\\d-z]", "a range of classes"},
        {"[a-[b]]", "a range of classes"},
        {"[a-\\d]", "a range of classes"},
        {"[[:alpha:]]", "the class [:alpha:]"},
        {"[a&&]", "an && with nothing on one side"},
        {"[&&a]", "an && with nothing on one side"},
        {"*a", "a quantifier of nothing"},
        {"{2}", "a quantifier of nothing"},
        {"(?=a)*", "a quantifier of a place"},
        {"(?:ab)++", "a possessive quantifier of a group"},
        {"(?:a?)*", "a repetition of what may be empty"},
        {"(?:(?:a?){2})+", "a repetition of what may be empty"},
        {"(?:(?:a*){1})+", "a repetition of what may be empty"},
        {"a{3,2}", "a repetition from 3 to 2 times"},
        {"(?<=ab)", "a look behind at more than one character"},
        {"(?=a(?=bc)d)", "a long look ahead in another"},
        {"(?=ab)(?=bc)(?=cd)(?=de)", "more than 3 long looks ahead"},
        {"(?=ab)(?=bc)(?=cd)e\\Z", "more than 3 long looks ahead"},
        {"\\p{Alphabetic}", "the property \\p{Alphabetic}"},
        {"\\p{}", "the property \\p{}"},
        {"\\pL", "the escape \\p"},
        {"\\K", "the escape \\K"},
        {"\\xC3", "the escape \\xC3"},
        {"\\x{110000}", "the escape \\x{110000}"},
        {"\\x{41", "the escape \\x{41"},
        {"\\x{}", "the escape \\x{}"},
        {"a\\", "a backslash at the end"},
        {"(?i:\\p{Lu})", "a property where case is ignored"},
        {"(?i:\303\251)", "other letters than ASCII's"},
        {"(?i:[a-\303\251])", "other letters than ASCII's"},
        {"(?i:ss)", "\"ss\""},
        {"\377", "not UTF-8"},
        {"((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((a", "more than 64 groups"},
        {"[[[[[[[[[[[[[[[[[[a]]]]]]]]]]]]]]]]]]", "more than 16 classes"},
        {"a{9000}", "more than 8192 steps"},
        {"a{1,9000}", "more than 8192 steps"},
        {"a\001b{9000}\001c", "more than 8192 steps"},
        {"a\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251"
         "\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251"
         "\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251)",
         "\303\251\": a ) without a ("}, /* the message shows whole characters */
        {"(?:(?:a{99}){99}){99}", "more than 8192 steps"},
        {"(?:a\001b)*a(?:a\001b){20}",
         "more than 4096 states"}, /* \001: in place of what separates words below */
    };
    ppo_expression *e = NULL;
    for (int k = 0; k < COUNT(cases); k++) {
        char pattern[200];
        strcpy(pattern, cases[k][0]);
        for (char *c = pattern; (c = strchr(c, '\001')) != NULL;) *c = '|';
        assert_fails(ppo_expression_create(pattern, &e), PPO_ERROR_ARGUMENT, cases[k][1]);
        assert_null(e);
    }
    char many[2048] = "";
    for (int k = 0; k < 300; k++)
        many[strlen(many) + (size_t)put_utf8(0x4e00 + 2 * k, many + strlen(many))] = 0;
    assert_fails(ppo_expression_create(many, &e), PPO_ERROR_ARGUMENT, "more than 256 characters and classes");
    memset(many, 0, sizeof many);
    for (int k = 0; k < 100; k++) /* [x-z][z-~]: three classes of characters */
        for (int i = 0; i < 2; i++) {
            strcat(many, "[");
            many[strlen(many) + (size_t)put_utf8(0x4e00 + 8 * k + 2 * i, many + strlen(many))] = 0;
            strcat(many, "-");
            many[strlen(many) + (size_t)put_utf8(0x4e00 + 8 * k + 2 * i + 2, many + strlen(many))] = 0;
            strcat(many, "]");
        }
    assert_fails(ppo_expression_create(many, &e), PPO_ERROR_ARGUMENT, "more than 255 classes of characters");
    static char long_one[9000];
    memset(long_one, 'a', sizeof long_one - 1);
    assert_fails(ppo_expression_create(long_one, &e), PPO_ERROR_ARGUMENT, "more than 8191 parts");
    assert_fails(ppo_expression_create(NULL, &e), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_expression_create("a", NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_expression_cut(NULL, "a", 1, see_piece, NULL), PPO_ERROR_ARGUMENT, "NULL");
    e = expression_of("a");
    assert_fails(ppo_expression_cut(e, NULL, 1, see_piece, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_expression_cut(e, "a", 1, NULL, NULL), PPO_ERROR_ARGUMENT, "NULL");
    cut(e, NULL, 0);
    ppo_expression_free(e);
    ppo_expression_free(NULL);
}

/* Backtracking, and searches that begin again after each failure, would take the square of these lengths, or
   two to the power of it. */
static void no_expression_takes_the_square_of_a_text(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *unit, *end;
    } cases[] = {
        {"(?:a+)+b", "a", ""},
        {"a*b|a", "a", ""},
        {"x+y", "x", ""},
        {"(?:\\w+\\s?)+;", "ab ", ""},
        {"a.*z|a|b", "ab", ""},
        {"\\s+$", " ", "a"},
        {"(?=a*b)a|c", "a", ""},
        {"(?:a|b|ab)+c|[ab]", "ab", ""},
        {"(?:\\d{3})+(?!\\d)", "1", ""},
        {"\\s*[\\r\\n]+|\\s+(?!\\S)|\\s", " ", "a"},
        {"(?<!a)b+c|b", "b", ""},
    };
    const size_t length = SMALL(200000, 60000);
    char *text = (char *)malloc(length);
    assert_non_null(text);
    for (int k = 0; k < COUNT(cases); k++) {
        ppo_expression *e = expression_of(cases[k].pattern);
        for (size_t i = 0; i < length; i++) text[i] = cases[k].unit[i % strlen(cases[k].unit)];
        if (*cases[k].end) text[length - 1] = *cases[k].end;
        const double start = ppo_clock();
        cut(e, text, length);
        if (ppo_clock() - start > 10) fail_msg("%s took %.1f s", cases[k].pattern, ppo_clock() - start);
        ppo_expression_free(e);
    }
    free(text);
}

/* Parts of expressions, put together at random: made or refused by a sentence, and what was made cuts a text.
   */
static void any_expression_is_made_or_refused(void **state) {
    (void)state;
    static const char *const parts[] = {
        "a",   "b",   "\\s",   "\\p{L}", "[a-c]", "[^b", "]",   "(",        ")",        "(?:",  "(?i:",
        "(?=", "(?!", "(?<=",  "|",      "*",     "+",   "?",   "{2,3}",    "{",        "}",    "^",
        "$",   "\\b", ".",     "\\",     "&&",    "-",   "\\x", "\303",     "\303\251", "(?i)", "\\p{",
        "1",   "\\Z", "{,90}", "(?#",    "<",     ">",   "s",   "\\p{Han}", "{99}"};
    const char *count = getenv("PPO_FUZZ"), *text = "ab 1\n\303\251s\377 S\342\204\252aab\r\nba";
    ppo_rng rng = test_rng(11);
    long made = 0, files = count ? atol(count) : SMALL(1500, 150);
    for (long i = 0; i < files; i++) {
        char pattern[300] = "";
        heap h = {0, 0, -1, 0};
        ppo_expression *e = NULL;
        for (int k = 1 + ppo_rng_below(&rng, 12); k; k--)
            strcat(pattern, parts[ppo_rng_below(&rng, COUNT(parts))]);
        ppo_fail(PPO_OK, "(no sentence)");
        ppo_set_allocator(heap_hook, &h);
        ppo_status status = ppo_expression_create(pattern, &e);
        assert_true((e != NULL) == !status && (!status || status == PPO_ERROR_ARGUMENT));
        assert_true(!status || strstr(ppo_last_error(), "not supported in"));
        if (e) cut(e, text, strlen(text));
        made += e != NULL;
        ppo_expression_free(e);
        ppo_set_allocator(NULL, NULL);
        assert_int_equal(h.live, 0);
    }
    assert_in_range(made, files / 10, files);
}

static ppo_status use_expression(void *user) {
    static const char text[] = "aaaaaaaaaaaaaaaab aaa";
    ppo_expression *e = NULL;
    ppo_status status = ppo_expression_create("(?=a*b)a+|\\p{L}\\b|(?:a+a)+c", &e);
    cuts c = {text, "", no_bytes, 0, 0};
    (void)user;
    if (!status) status = ppo_expression_cut(e, text, sizeof text - 1, see_piece, &c);
    assert_true(status || c.pieces == 4);
    ppo_expression_free(e);
    return status;
}

static void every_failing_allocation_of_an_expression_is_reported(void **state) {
    (void)state;
    assert_true(fail_each_site(use_expression, NULL, 1) >= 10);
}

/* --- Normal forms, and tokenizers --------------------------------------------------------------------------- */

static ppo_tokenizer *tokenizer_of(const char *const *const *parts, int n) {
    ppo_tokenizer *tok = NULL;
    FILE *file = fopen("tokenizer.json", "wb");
    assert_non_null(file);
    for (int k = 0; k < n; k++)
        for (const char *const *part = parts[k]; *part; part++) fputs(*part, file);
    assert_int_equal(fclose(file), 0);
    assert_ok(ppo_tokenizer_load("tokenizer.json", &tok));
    return tok;
}

/* A tokenizer of bytes says what a normalizer writes. */
static void normal_forms_of_all_characters_are_those_of_hugging_face(void **state) {
    (void)state;
    enum { ROOM = 4000000 };
    char *text = (char *)malloc(ROOM), *out = (char *)malloc(ROOM);
    int *tokens = (int *)malloc(ROOM * sizeof *tokens), count;
    assert_true(text && out && tokens);
    const size_t bytes = all_characters("\n", text);
    for (int k = 0; k < g_unicode_forms; k++) {
        char head[200];
        size_t n;
        snprintf(head, sizeof head,
                 "{\"normalizer\": {\"type\": \"%s\"}, \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": "
                 "{\"String\": \"\\n\"}, "
                 "\"behavior\": \"MergedWithNext\"}, ",
                 g_unicode_form[k]);
        const char *const first[] = {head, NULL};
        const char *const middle[] = {"\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": "
                                      "\"ByteFallback\"}]}, \"model\": {\"byte_fallback\": "
                                      "true, \"merges\": [], \"vocab\": {\"<0x00>\": 0",
                                      NULL};
        char vocab[8000] = "";
        for (int b = 1; b < 256; b++) sprintf(vocab + strlen(vocab), ", \"<0x%02X>\": %d", (unsigned)b, b);
        strcat(vocab, "}}}");
        const char *const last[] = {vocab, NULL}, *const *const parts[] = {first, middle, last};
        ppo_tokenizer *tok = tokenizer_of(parts, 3);
        assert_ok(ppo_encode(tok, text, bytes, tokens, ROOM, &count));
        assert_ok(ppo_decode(tok, tokens, count, out, ROOM, &n));
        if ((uint32_t)hash_bytes(no_bytes, out, n) != g_unicode_form_hash[k])
            fail_msg("%s", g_unicode_form[k]);
        ppo_tokenizer_free(tok);
    }
    free(text);
    free(out);
    free(tokens);
}

static void files_with_all_parts_give_the_tokens_of_hugging_face(void **state) {
    (void)state;
    static const char *const *const bodies[] = {g_hub_body_0, g_hub_body_1};
    assert_true(bodies[0] && bodies[1]);
    for (int k = 0, c = 0; k < g_unicode_kinds; k++) {
        ppo_tokenizer *tok = tokenizer_of(g_unicode_kind[k].parts, 3);
        const char *text = (const char *)g_unicode_text;
        for (int t = 0; t < g_unicode_texts; text += g_unicode_text_bytes[t++], c++) {
            uint64_t hash = no_bytes;
            char shown[4000] = "";
            for (int marked = 0; marked < 2; marked++) {
                int tokens[600], count;
                char back[2000];
                size_t n;
                const int flags = marked ? PPO_ENCODE_SPECIALS | PPO_ENCODE_BOUNDS : 0;
                assert_ok(ppo_encode_as(tok, flags, text, (size_t)g_unicode_text_bytes[t], tokens,
                                        COUNT(tokens), &count));
                assert_ok(ppo_decode(tok, tokens, count, back, sizeof back, &n));
                for (int i = 0; i < count; i++) {
                    hash = hash_number(hash, tokens[i]);
                    if (strlen(shown) < 3900) sprintf(shown + strlen(shown), "%d ", tokens[i]);
                }
                hash = hash_bytes(hash, back, n);
                strcat(shown, "| ");
            }
            if ((uint32_t)hash != g_unicode_tokens[c])
                fail_msg("%s, text %d: %s", g_unicode_kind[k].name, t, shown);
        }
        ppo_tokenizer_free(tok);
    }
}

/* The tokens are those of Hugging Face's library. */
static void unigram_takes_the_pieces_with_the_highest_sum(void **state) {
    (void)state;
    static const struct {
        const char *vocab, *text;
        int tokens[5]; /* -1 ends them */
    } cases[] = {
        {"[\"<unk>\", 0], [\"ab\", -12], [\"b\", -0.5]", "ab", {1, -1}}, /* an unknown character costs more */
        {"[\"<unk>\", 0], [\"ab\", -12], [\"b\", -0.5]", "aabxyb", {0, 1, 0, 2, -1}},
        /* equal sums, but for the last bits of the numbers as that library reads them */
        {"[\"<unk>\", 0.0], [\"!\", -8.098723424208863], [\"!!\", -7.829697309515224], [\"ab\", "
         "-2.0166944833026434]",
         "abab!!!",
         {3, 3, 2, 1, -1}},
    };
    for (int k = 0; k < COUNT(cases); k++) {
        static const char *const head[] = {"{\"decoder\": {\"type\": \"Fuse\"}, \"model\": {\"type\": "
                                           "\"Unigram\", \"unk_id\": 0, \"vocab\": [",
                                           NULL};
        static const char *const end[] = {"]}}", NULL};
        const char *const vocab[] = {cases[k].vocab, NULL}, *const *const parts[] = {head, vocab, end};
        ppo_tokenizer *tok = tokenizer_of(parts, 3);
        int tokens[20], count;
        assert_ok(ppo_encode(tok, cases[k].text, strlen(cases[k].text), tokens, COUNT(tokens), &count));
        for (int i = 0; i < count; i++) assert_int_equal(tokens[i], cases[k].tokens[i]);
        assert_int_equal(cases[k].tokens[count], -1);
        count = 0;
        for (const char *at = cases[k].vocab; *at; at++) count += *at == '[';
        assert_int_equal(ppo_tokenizer_vocab(tok), count);
        ppo_tokenizer_free(tok);
    }
}

#define TEST(function) cmocka_unit_test_teardown(function, restore_allocator)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(texts_are_cut_as_by_oniguruma),
        TEST(matches_are_the_first_of_several_and_as_long_as_asked),
        TEST(classes_have_the_characters_of_unicode_16),
        TEST(what_an_expression_cannot_have_is_named),
        TEST(no_expression_takes_the_square_of_a_text),
        TEST(any_expression_is_made_or_refused),
        TEST(every_failing_allocation_of_an_expression_is_reported),
        TEST(normal_forms_of_all_characters_are_those_of_hugging_face),
        TEST(files_with_all_parts_give_the_tokens_of_hugging_face),
        TEST(unigram_takes_the_pieces_with_the_highest_sum),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
