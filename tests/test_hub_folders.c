/* ppo_hub.h: what folders of the hub may say, and must not, part by part: tokenizer.json and tokenizer_config.json, the
   config.json and arrays of models and of adapters. */
#define _XOPEN_SOURCE 700
#include <unistd.h>

#include "../ppo.h"
#include "../examples/companions/ppo_chat.h"
#include "../examples/companions/ppo_hub.h"

#include "test.h"
#include "system.h"

static char home[] = "/tmp/test_hub_folders.XXXXXX";

static int begin(void **state) {
    (void)state;
    return !mkdtemp(home) || chdir(home) || mkdir("in", 0700) || mkdir("out", 0700);
}

static void empty(const char *folder) {
    static const char *const files[] = {"adapter_config.json",
                                        "adapter_model.safetensors",
                                        "chat_template.jinja",
                                        "config.json",
                                        "generation_config.json",
                                        "merges.txt",
                                        "model.safetensors",
                                        "model.safetensors.index.json",
                                        "part.safetensors",
                                        "pytorch_model.bin",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "vocab.json"};
    for (int i = 0; i < COUNT(files); i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]), remove(path);
    }
}

static int end(void **state) {
    (void)state;
    empty("in"), empty("out");
    return rmdir("in") || rmdir("out") || chdir("/") || rmdir(home);
}

static void write_text(const char *path, const char *text) {
    assert_ok(ppo_text_save(path, text, strlen(text)));
}

/* `text` with its first `old` replaced; *by may be the same. The caller frees it. */
static char *replaced(const char *text, const char *old, const char *by) {
    const char *at = strstr(text, old);
    if (!at) fail_msg("there is no %s", old);
    char *changed = (char *)malloc(strlen(text) + strlen(by) + 1);
    assert_non_null(changed);
    sprintf(changed, "%.*s%s%s", (int)(at - text), text, by, at + strlen(old));
    return changed;
}

/* --------------------------------------------------------------------------------------------------------
   Tokenizers
   -------------------------------------------------------------------------------------------------------- */

#define LOW "\342\226\201" /* the space of SentencePiece */
#define ADDED(id, name)                                                 \
    "{\"id\": " id ", \"content\": \"" name                             \
    "\", \"special\": true, \"normalized\": false, \"lstrip\": false, " \
    "\"rstrip\": false}"

/* Of bytes, as GPT-2's; and of pieces, as Llama's. */
static const char bytes_json[] = "{\"added_tokens\": [" ADDED("4", "<s>") ", " ADDED(
    "5", "</s>") "], \"normalizer\": {\"type\": "
                 "\"NFC\"}, \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "
                 "\"post_processor\": null, \"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": "
                 "\"BPE\", \"unk_token\": null, \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"\304\240\": 3}, "
                 "\"merges\": [\"a b\"]}}";
static const char pieces_json[] = "{\"added_tokens\": [" ADDED(
    "5",
    "<s>") "], \"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, "
           "\"content\": \"" LOW
           "\"}, \"pre_tokenizer\": null, \"post_processor\": null, \"decoder\": {\"type\": \"Sequence\", "
           "\"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": \"" LOW
           "\"}, \"content\": \" \"}, {\"type\": "
           "\"ByteFallback\"}, {\"type\": \"Fuse\"}]}, \"model\": {\"type\": \"BPE\", \"unk_token\": "
           "\"<s>\", \"vocab\": {\"a\": 0, "
           "\"" LOW "\": 1, \"" LOW "a\": 2, \"<0x0A>\": 3, \"<0xZZ>\": 4, \"<s>\": 5}, \"merges\": [\"" LOW
           " a\"]}}";

static const char unigram_json[] = "{\"added_tokens\": [" ADDED(
    "0",
    "<s>") "], \"normalizer\": null, \"pre_tokenizer\": {\"type\": \"Metaspace\", "
           "\"replacement\": \"" LOW
           "\", \"prepend_scheme\": \"never\"}, \"post_processor\": null, \"decoder\": {\"type\": "
           "\"Metaspace\", \"replacement\": \"" LOW
           "\", \"prepend_scheme\": \"never\"}, \"model\": {\"type\": \"Unigram\", "
           "\"unk_id\": 0, \"vocab\": [[\"<s>\", 0], [\"a\", -2.5], [\"b\", -2.5], [\"ab\", -4.75], [\"" LOW
           "\", -1], [\"b" LOW "a\", -0.5]]}}"; /* the last one only where words are not cut */

static const char digits_json[] = "{\"pre_tokenizer\": {\"type\": \"Digits\"}, \"decoder\": {\"type\": "
                                  "\"Fuse\"}, \"model\": {\"vocab\": {\"1\": "
                                  "0, \"11\": 1}, \"merges\": [\"1 1\"]}}";

static ppo_status load_changed(const char *json, const char *old, const char *by, ppo_tokenizer **tok) {
    char *text = replaced(json, old, by);
    write_text("in/tokenizer.json", text);
    free(text);
    return ppo_tokenizer_load("in", tok);
}

static void what_tokenizers_cannot_have_is_named(void **state) {
    (void)state;
    static const struct {
        const char *json, *old, *by, *words;
    } cases[] = {
        {pieces_json, "{\"String\": \" \"}", "{\"String\": \"\"}", "pattern without \"String\""},
        {pieces_json, "{\"String\": \" \"}", "{}", "pattern without \"String\""},
        {bytes_json, "{\"type\": \"NFC\"}",
         "{\"type\": \"Sequence\", \"normalizers\": [1, 2, 3, 4, 5, 6, 7, 8, 9]}",
         "a Sequence of more than 8"},
        {bytes_json, "{\"type\": \"NFC\"}", "{\"type\": \"Sequence\", \"normalizers\": [{}]}",
         "a component without a type"},
        {bytes_json, "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}",
         "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\"}, {\"type\": "
         "\"Metaspace\"}]}",
         "after ByteLevel: \"Metaspace\""},
        {bytes_json, "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}",
         "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\"}, {\"type\": "
         "\"ByteLevel\"}]}",
         "after ByteLevel: \"ByteLevel\""},
        {bytes_json, "\"ByteLevel\", \"add",
         "\"Split\", \"behavior\": \"Isolated\", \"pattern\": {\"Regex\": \"(?>a)\"}, \"add",
         "the group (?>a in the expression \"(?>a)\""},
        {bytes_json, "\"vocab\"", "\"continuing_subword_prefix\": \"##\", \"vocab\"",
         "continuing_subword_prefix \"##\""},
        {bytes_json, "\"vocab\"", "\"dropout\": 0.5, \"vocab\"", "dropout"},
        {bytes_json, "\"id\": 4, ", "", "an added token without id or content"},
        {bytes_json, "\"content\": \"<s>\", ", "", "an added token without id or content"},
        {bytes_json, "\"id\": 4", "\"id\": 4.5", "a whole number"},
        {bytes_json, "\"id\": 4", "\"id\": 6", "number differently: \"</s>\""},
        {bytes_json, "\"ab\": 2", "\"ab\": 2.0", "a whole number"},
        {bytes_json, "\"a b\"", "\"a c\"", "a merge from or to no token"},
        {bytes_json, "\"a b\"", "\"\344\270\255 b\"", "a merge from or to no token"},
        {bytes_json, "\"a b\"", "\"a \344\270\255\"", "a merge from or to no token"},
        {bytes_json, "\"a b\"", "[\"a\", \"b\", \"a\"]", "expected"},
        {bytes_json, "\"a b\"", "[\"a\", 7]", "expected"},
        {bytes_json, "\"a b\"", "7", "expected"},
        {bytes_json, "\"unk_token\": null", "\"unk_token\": \"\344\270\255\"", "unk_token"},
        {bytes_json, "\"vocab\"", "\"byte_fallback\": true, \"vocab\"", "byte_fallback without \"<0x00>\""},
        {pieces_json, "\"content\": \" \"}", "\"content\": \"_\"}", "Replace by \"_\""},
        {pieces_json, "{\"String\": \"" LOW "\"}, \"content\": \" \"",
         "{\"Regex\": \"" LOW "\"}, \"content\": \" \"", "Replace by"},
        {pieces_json, ", \"content\": \" \"}", "}", "Replace by"},
        {pieces_json, "{\"type\": \"Fuse\"}",
         "{\"type\": \"Fuse\"}, {\"type\": \"Strip\", \"content\": \"_\", \"start\": 1}", "Strip of \"_\""},
        {pieces_json, "{\"type\": \"Fuse\"}", "{\"type\": \"Fuse\"}, {\"type\": \"Strip\", \"start\": 1}",
         "Strip of"},
        {pieces_json, "{\"type\": \"Fuse\"}",
         "{\"type\": \"Fuse\"}, {\"type\": \"Strip\", \"content\": \" \", \"start\": 65}", "Strip of \" \""},
        {pieces_json, "{\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}",
         "{\"type\": \"Fuse\"}, {\"type\": \"ByteFallback\"}", "decoder \"ByteFallback\""},
        {pieces_json, "{\"type\": \"ByteFallback\"}", "{\"type\": \"ByteLevel\"}", "decoder \"ByteLevel\""},
        {pieces_json, "\"post_processor\": null",
         "\"post_processor\": {\"type\": \"BertProcessing\", \"cls\": \"<s>\", \"sep\": [\"<s>\", 5]}",
         "BertProcessing"},
        {pieces_json, "\"post_processor\": null",
         "\"post_processor\": {\"type\": \"BertProcessing\", \"cls\": [\"<s>\"], \"sep\": [\"<s>\", 5]}",
         "BertProcessing"},
        {pieces_json, "\"post_processor\": null",
         "\"post_processor\": {\"type\": \"BertProcessing\", \"cls\": [\"<s>\", 3], \"sep\": [\"<s>\", 5]}",
         "BertProcessing"},
        {pieces_json, "\"post_processor\": null",
         "\"post_processor\": {\"type\": \"BertProcessing\", \"cls\": [\"a\", 0, 1], \"sep\": [\"<s>\", 5]}",
         "BertProcessing"},
        {pieces_json, "\"post_processor\": null",
         "\"post_processor\": {\"type\": \"RobertaProcessing\", \"cls\": [\"<s>\", 5]}", "RobertaProcessing"},
        {unigram_json, "\"replacement\": \"" LOW "\", \"prepend_scheme\": \"never\"}, \"post",
         "\"replacement\": \"\", \"prepend_scheme\": \"never\"}, \"post", "replacement"},
        {unigram_json, "\"replacement\": \"" LOW "\", \"prepend_scheme\": \"never\"}, \"post",
         "\"replacement\": \"ab\", \"prepend_scheme\": \"never\"}, \"post", "replacement"},
        {unigram_json, "\"replacement\": \"" LOW "\", \"prepend_scheme\": \"never\"}, \"post",
         "\"replacement\": null, \"prepend_scheme\": \"never\"}, \"post", "replacement"},
        {unigram_json, "\"replacement\": \"" LOW "\", \"prepend_scheme\": \"never\"}, \"model",
         "\"prepend_scheme\": \"never\"}, \"model", "Metaspace without a replacement"},
        {unigram_json, "\"replacement\": \"" LOW "\", \"prepend_scheme\": \"never\"}, \"model",
         "\"replacement\": \"\"}, \"model", "Metaspace without a replacement"},
        {pieces_json, "{\"type\": \"ByteFallback\"}",
         "{\"type\": \"Metaspace\", \"replacement\": \"" LOW "\"}", "decoder \"Metaspace\""},
        {unigram_json, "[\"a\", -2.5]", "7", "a piece that is not [text, score]"},
        {unigram_json, "[\"a\", -2.5]", "[\"a\"]", "a piece that is not [text, score]"},
        {unigram_json, "[\"b" LOW "a\", -0.5]", "7", "a piece that is not [text, score]"},
        {unigram_json, "[\"b" LOW "a\", -0.5]", "[]", "a piece that is not [text, score]"},
        {unigram_json, "[\"a\", -2.5]", "[\"a\", \"b\"]", "expected a finite number"},
        {unigram_json, "[\"a\", -2.5]", "[\"a\", -2.5.1]", "expected a finite number"},
        {unigram_json, "[\"a\", -2.5]", "[\"a\", -1e999]", "expected a finite number"},
        {unigram_json, "\"unk_id\": 0, ", "", "Unigram without unk_id"},
        {unigram_json, "\"unk_id\": 0", "\"unk_id\": 6", "Unigram without unk_id"},
        {unigram_json, "\"unk_id\": 0", "\"unk_id\": 0.5", "a whole number"},
        {pieces_json, "\"post_processor\": null",
         "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{}]}",
         "TemplateProcessing with \"no id\""},
        {pieces_json, "\"post_processor\": null",
         "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": 1}", "expected \"[\""},
        {pieces_json, "\"post_processor\": null", "\"post_processor\": {\"type\": \"TemplateProcessing\"}",
         "post_processor \"TemplateProcessing\""},
        {pieces_json, "\"pre_tokenizer\": null",
         "\"pre_tokenizer\": {\"type\": \"Metaspace\", \"prepend_scheme\": \"no\", \"replacement\": \"" LOW
         "\"}",
         "prepend_scheme \"no\""},
        {pieces_json, "\"pre_tokenizer\": null", "\"pre_tokenizer\": {\"type\": \"Metaspace\"}",
         "replacement"},
        {pieces_json, "\"a\": 0", "\"a\": 0, \"a\": 9", "there twice: \"a\""},
        {pieces_json, "\"model\"", "\"model\": {\"vocab\": {}, \"merges\": []}, \"model\"",
         "repeated member \"model\""},
        {pieces_json, "\"model\"", "\"other\"", "byte 0:|a tokenizer without a model"},
        {pieces_json, "\"type\": \"BPE\"", "\"type\": 7", "expected"},
        {pieces_json, "\"added_tokens\"", "\"added_tokens\": 3, \"other\"", "expected \"[\""},
        {pieces_json, "\"special\": true", "\"special\": 1", "expected true or false"},
        {pieces_json, "\"vocab\": {\"a\": 0, ", "\"vocab\": {\"a\": +1, ", "expected a value"},
        {pieces_json, "\"vocab\": {\"a\": 0, ", "\"vocab\": {\"a\": NaN, ",
         "NaN or Infinity, which JSON does not have"},
        {pieces_json, "\"vocab\": {\"a\": 0, ", "\"vocab\": {\"a\": Infinity, ",
         "NaN or Infinity, which JSON does not have"},
        {pieces_json, "\"vocab\": {\"a\": 0, ",
         "\"vocab\": {\"a\": 1111111111111111111111111111111111111111111111111111111111111111111, ",
         "a finite number"},
    };
    ppo_tokenizer *tok = NULL;
    empty("in");
    assert_ok(load_changed(bytes_json, "NFC", "NFC", &tok));
    ppo_tokenizer_free(tok), tok = NULL;
    assert_ok(load_changed(pieces_json, "BPE", "BPE", &tok));
    ppo_tokenizer_free(tok), tok = NULL;
    assert_ok(load_changed(unigram_json, "a", "a", &tok));
    ppo_tokenizer_free(tok);
    for (int i = 0; i < COUNT(cases); i++) {
        assert_fails(load_changed(cases[i].json, cases[i].old, cases[i].by, &tok), PPO_ERROR_FILE,
                     cases[i].words);
        assert_null(tok);
    }
}

/* The added tokens 4 and 5 get other numbers. */
static char *with_added_at(const char *json, const char *first, const char *second) {
    char id[2][16];
    snprintf(id[0], sizeof id[0], "\"id\": %s", first), snprintf(id[1], sizeof id[1], "\"id\": %s", second);
    char *moved = replaced(json, "\"id\": 5", id[1]), *both = replaced(moved, "\"id\": 4", id[0]);
    free(moved);
    return both;
}

#define BYTES "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}"
#define SPLIT_A                                                                                             \
    "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, " \
    "\"behavior\": \"Removed\""
/* What is read may change how a text is cut: its tokens are those of Python's package. */
/* 64 in all, of which the file and its model are two. */
static void lists_within_lists_are_read_to_their_limit(void **state) {
    (void)state;
    for (int deep = 62; deep <= 63; deep++) {
        ppo_tokenizer *tok = NULL;
        char by[256] = "\"extra\": ";
        memset(by + 9, '[', (size_t)deep), memset(by + 9 + deep, ']', (size_t)deep);
        strcpy(by + 9 + 2 * deep, ", \"vocab\"");
        if (deep == 62) assert_ok(load_changed(bytes_json, "\"vocab\"", by, &tok));
        else
            assert_fails(load_changed(bytes_json, "\"vocab\"", by, &tok), PPO_ERROR_FILE,
                         "lists within more than 64 others");
        ppo_tokenizer_free(tok);
    }
}

static void parts_of_tokenizers_cut_and_spell_texts(void **state) {
    (void)state;
    static const struct {
        const char *json, *old, *by, *text;
        int want[12], count;
        const char *back;
    } cases[] = {
        {bytes_json, "NFC", "NFC", "abba b", {2, 1, 0, 3, 1}, 5, "abba b"},
        {bytes_json,
         "{\"type\": \"NFC\"}",
         "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}, {\"type\": \"NFC\"}]}",
         "ab",
         {2},
         1,
         "ab"},
        {bytes_json,
         "\"vocab\": {",
         "\"continuing_subword_prefix\": \"\", \"dropout\": 0, \"vocab\": {",
         "ab",
         {2},
         1,
         "ab"},
        /* a name that no text of bytes can have */
        {bytes_json, "\"ab\": 2", "\"ab\": 2, \"\344\270\255\": 4, \"\302\255\": 5", "ab", {2}, 1, "ab"},
        /* numbers in one piece, so that no merge joins a digit and a letter */
        {pieces_json,
         "\"pre_tokenizer\": null",
         "\"pre_tokenizer\": {\"type\": \"Digits\", \"individual_digits\": false}",
         "aa a",
         {0, 0, 2},
         3,
         "aa a"},
        {pieces_json, "\"merges\": [", "\"fuse_unk\": true, \"merges\": [", "xx a", {5, 2}, 2, "<s> a"},
        {pieces_json, "\"merges\": [", "\"fuse_unk\": false, \"merges\": [", "xxa", {5, 5, 0}, 3, "<s><s>a"},
        {pieces_json,
         "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"" LOW "\"}",
         "{\"type\": \"Prepend\", \"prepend\": \"" LOW "\"}",
         "aa",
         {2, 0},
         2,
         " aa"},
        {pieces_json,
         "\"<0x0A>\": 3, \"<0xZZ>\"",
         "\"" LOW LOW "\": 3, \"ab" LOW "\"",
         "a  a",
         {0, 1, 2},
         3,
         "a  a"},
        {pieces_json, "\"unk_token\": \"<s>\"", "\"unk_token\": null", "xax", {0}, 1, "a"},
        {unigram_json, "-4.75", "-4.75", "ab ab", {3, 4, 3}, 3, "ab ab"},
        {unigram_json, "-4.75", "-5.25", "ab", {1, 2}, 2, "ab"},
        {unigram_json, "-4.75", "-475e-2", "ab", {3}, 1, "ab"},
        {unigram_json, "-4.75", "-0.0525E+2", "ab", {1, 2}, 2, "ab"},
        {unigram_json, "-4.75", "-4.7500000000000000000000001", "ab", {3}, 1, "ab"},
        {unigram_json, "-4.75", "-0.0000000000000000000000001", "ab", {3}, 1, "ab"},
        {unigram_json, "-4.75", "-525000000000000000000000", "ab", {1, 2}, 2, "ab"},
        /* members that are not there, and their opposites */
        {pieces_json, "BPE", "BPE", "xxa", {5, 5, 0}, 3, "<s><s>a"},
        {pieces_json, "\"<0xZZ>\": 4", "\"aa\": 4", "aa", {0, 0}, 2, "aa"},
        {pieces_json,
         "\"<0xZZ>\": 4, \"<s>\": 5}",
         "\"aa\": 4, \"<s>\": 5}, \"ignore_merges\": true",
         "aa",
         {4},
         1,
         "aa"},
        {pieces_json,
         "\"vocab\": {\"a\": 0,",
         "\"ignore_merges\": true, \"vocab\": {\"aa\": 0, \"a\": 6,",
         "aa",
         {0},
         1,
         "aa"},
        {digits_json, "Digits\"", "Digits\"", "11", {1}, 1, "11"},
        {digits_json, "Digits\"", "Digits\", \"individual_digits\": true", "11", {0, 0}, 2, "11"},
        {unigram_json,
         "\"never\"}, \"post",
         "\"never\", \"split\": false}, \"post",
         "ab ab",
         {1, 5, 2},
         3,
         "ab ab"},
        {unigram_json, ", \"prepend_scheme\": \"never\"}, \"post", "}, \"post", "ab", {4, 3}, 2, " ab"},
        /* a character that has a meaning in expressions */
        {unigram_json,
         "\"" LOW "\", \"prepend_scheme\": \"never\"}, \"post",
         "\".\", \"prepend_scheme\": \"never\"}, \"post",
         "ab ab",
         {3, 0, 3},
         3,
         "ab<s>ab"},
        {bytes_json,
         "\"ab\": 2, \"\304\240\": 3}, \"merges\": [\"a b\"]",
         "\"b\304\240\": 2, \"\304\240\": 3}, \"merges\": [\"b \304\240\"]",
         "ab a",
         {0, 1, 3, 0},
         4,
         "ab a"},
        {bytes_json, ", \"add_prefix_space\": false", "", "a", {3, 0}, 2, " a"},
        {bytes_json, BYTES, SPLIT_A "}, " BYTES "]}", "aba", {1}, 1, "b"},
        {bytes_json, BYTES, SPLIT_A ", \"invert\": true}, " BYTES "]}", "aba", {0, 0}, 2, "aa"},
        {bytes_json, "\"NFC\"", "\"Strip\"", "  ab  ", {2}, 1, "ab"},
        {bytes_json, "\"NFC\"", "\"Strip\", \"strip_left\": false", "  ab  ", {3, 3, 2}, 3, "  ab"},
        {bytes_json, "\"NFC\"", "\"Strip\", \"strip_right\": false", "  ab  ", {2, 3, 3}, 3, "ab  "},
        {bytes_json,
         "\"NFC\"",
         "\"Replace\", \"pattern\": {\"Regex\": \"a(?=b)\"}, \"content\": \"ba\"",
         "ab a",
         {1, 2, 3, 0},
         4,
         "bab a"},
        {bytes_json, "\"NFC\"", "\"Lowercase\"", "A", {0}, 1, "a"},
        {bytes_json, "\"NFC\"", "\"Lowercase\"", "AB A", {2, 3, 0}, 3, "ab a"},
        {bytes_json, "\"NFC\"", "\"Lowercase\"", "", {0}, 0, ""},
        {bytes_json,
         ADDED("4", "<s>"),
         "{\"id\": 4, \"content\": \"<s>\"}",
         "a <s> a",
         {0, 3, 4, 3, 0},
         5,
         "a <s> a"},
        {bytes_json,
         ADDED("4", "<s>") ", " ADDED("5", "</s>") "], \"normalizer\": {\"type\": \"NFC\"",
         "{\"id\": 4, \"content\": \"<S>\"}], \"normalizer\": {\"type\": \"Lowercase\"",
         "<S><s>",
         {4, 4},
         2,
         "<s><s>"},
    };
    empty("in");
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_tokenizer *tok = NULL;
        int tokens[12], count;
        char text[64];
        if (i == 3) {
            char *moved = with_added_at(cases[i].json, "6", "7");
            assert_ok(load_changed(moved, cases[i].old, cases[i].by, &tok));
            free(moved);
        } else assert_ok(load_changed(cases[i].json, cases[i].old, cases[i].by, &tok));
        assert_ok(ppo_encode(tok, cases[i].text, strlen(cases[i].text), tokens, 12, &count));
        if (count != cases[i].count || memcmp(tokens, cases[i].want, (size_t)count * sizeof *tokens))
            fail_msg("\"%s\" is %d tokens: %d %d %d %d", cases[i].text, count, tokens[0], tokens[1],
                     tokens[2], tokens[3]);
        assert_ok(ppo_decode(tok, tokens, count, text, sizeof text, NULL));
        assert_string_equal(text, cases[i].back);
        ppo_tokenizer_free(tok);
    }
}

/* A token that is a word of its own, at either end of a text and beside characters of any length: the tokens are those of
   Python's package. */
static void a_single_word_is_found_between_others(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int want[4], count;
    } cases[] = {{"ba", {6}, 1},
                 {"ba a", {6, 3, 0}, 3},
                 {"a ba", {0, 3, 6}, 3},
                 {"ba ba", {6, 3, 6}, 3},
                 {"aba", {2, 0}, 2},
                 {"baa", {1, 0, 0}, 3},
                 {"baba", {1, 2, 0}, 3},
                 {"_ba", {1, 0}, 2},
                 {"ba_", {1, 0}, 2},
                 {"-ba", {6}, 1},
                 {"ba-", {6}, 1},
                 {"\303\251ba", {1, 0}, 2},
                 {"ba\303\251", {1, 0}, 2},
                 {"\346\227\245ba", {1, 0}, 2},
                 {"\360\237\230\200ba", {6}, 1},
                 {"ba\360\237\230\200", {6}, 1},
                 {"\200\200\200\200\200ba", {6}, 1}}; /* no characters */
    ppo_tokenizer *tok = NULL;
    empty("in");
    assert_ok(load_changed(bytes_json, "], \"normalizer\"",
                           ", {\"id\": 6, \"content\": \"ba\", \"single_word\": true, \"special\": false, "
                           "\"normalized\": false, \"lstrip\": false, \"rstrip\": false}], \"normalizer\"",
                           &tok));
    for (int i = 0; i < COUNT(cases); i++) {
        int tokens[12] = {0}, count;
        assert_ok(ppo_encode(tok, cases[i].text, strlen(cases[i].text), tokens, 12, &count));
        if (count != cases[i].count || memcmp(tokens, cases[i].want, (size_t)count * sizeof *tokens))
            fail_msg("\"%s\" is %d tokens: %d %d %d", cases[i].text, count, tokens[0], tokens[1], tokens[2]);
    }
    ppo_tokenizer_free(tok);
}

/* Loads bytes_json with this tokenizer_config.json, and template; NULL: without one. */
static ppo_tokenizer *with_config(const char *config, const char *jinja) {
    ppo_tokenizer *tok = NULL;
    empty("in");
    if (config) write_text("in/tokenizer_config.json", config);
    if (jinja) write_text("in/chat_template.jinja", jinja);
    assert_ok(load_changed(bytes_json, "NFC", "NFC", &tok));
    return tok;
}

static void what_a_tokenizer_config_contradicts_is_noted(void **state) {
    (void)state;
    static const struct {
        const char *config, *note, *second; /* NULL: it is not there */
    } cases[] = {
        {"{}", "", NULL},
        {"\357\273\277{}", "", NULL},
        {"{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\"}, \"pad_token\": null}", "", NULL},
        {"{\"bos_token\": \"<b>\", \"cls_token\": {\"content\": \"<c>\"}}", "bos_token \"<b>\" is not among",
         "\ntokenizer_config.json: cls_token \"<c>\" is not among"},
        {"{\"added_tokens_decoder\": {\"4\": \"<s>\"}}", "", NULL},
        {"{\"add_bos_token\": true}", "add_bos_token is true, but tokenizer.json has no token before", NULL},
        {"{\"add_bos_token\": false, \"add_eos_token\": false, \"add_prefix_space\": false}", "", NULL},
        {"{\"tokenizer_class\": \"LlamaTokenizerFast\"}", "add_bos_token is true, but", NULL},
        {"{\"tokenizer_class\": \"GPT2Tokenizer\"}", "", NULL},
        {"{\"add_prefix_space\": true}", "add_prefix_space is true, but tokenizer.json has no space before",
         NULL},
        {"{\"split_special_tokens\": true}",
         "split_special_tokens is true, but tokenizer.json has no such setting", NULL},
        {"{\"split_special_tokens\": false}", "", NULL},
        {"{\"added_tokens_decoder\": {\"4\": {\"content\": \"<s>\", \"lstrip\": false, \"special\": true}}}",
         "", NULL},
        {"{\"added_tokens_decoder\": {\"4\": {\"content\": \"<s>\", \"lstrip\": true}}}",
         "lstrip of \"<s>\" is not that", NULL},
        {"{\"added_tokens_decoder\": {\"4\": {\"content\": \"<s>\", \"rstrip\": true, \"special\": false}}}",
         "rstrip of \"<s>\" is not that", "\ntokenizer_config.json: special of \"<s>\""},
        {"{\"added_tokens_decoder\": {\"5\": {\"content\": \"</s>\", \"normalized\": true}}}",
         "normalized of \"</s>\"", NULL},
        {"{\"additional_special_tokens\": [\"<s>\", {\"content\": \"</s>\"}, 7]}", "", NULL},
        {"{\"additional_special_tokens\": null, \"extra_special_tokens\": {\"end\": \"</s>\"}}", "", NULL},
        {"{\"additional_special_tokens\": \"<x>\"}", "", NULL},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_tokenizer *tok = with_config(cases[i].config, NULL);
        const char *note = ppo_tokenizer_note(tok);
        if (!*cases[i].note) assert_string_equal(note, "");
        if (!strstr(note, cases[i].note))
            fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].config, note, cases[i].note);
        if (cases[i].second ? !strstr(note, cases[i].second) : strchr(note, '\n') != NULL)
            fail_msg("%s: \"%s\"", cases[i].config, note);
        ppo_tokenizer_free(tok);
    }
    static const char *const refused[][2] = {
        {"{\"added_tokens_decoder\": {\"4\": {\"content\": \"<x>\"}}}",
         "\"<x>\" is an added token, but not in tokenizer.json"},
        {"{\"added_tokens_decoder\": {\"3\": {\"content\": \"<s>\"}}}",
         "\"<s>\" is an added token, but not in tokenizer.json"},
        {"{\"extra_special_tokens\": [\"<x>\"]}", "\"<x>\" is an added token"},
        {"{\"added_tokens_decoder\": {\"4\": {\"content\": \"<s>\", \"lstrip\": 1}}}",
         "expected true or false"},
        {"[]", "expected \"{\""},
        {"{\"add_bos_token\": 3}", "expected true or false"},
        {"{\"tokenizer_class\": 3}", "expected"},
        {"{\"chat_template\": [{\"name\": 3}]}", "expected"},
        {"{\"a\": \"\\ud800\"", "expected"},
    };
    for (int i = 0; i < COUNT(refused); i++) {
        ppo_tokenizer *tok = NULL;
        write_text("in/tokenizer_config.json", refused[i][0]);
        assert_fails(ppo_tokenizer_load("in", &tok), PPO_ERROR_FILE, refused[i][1]);
        assert_null(tok);
    }
}

/* The form that a folder's template writes is the one without a note. */
static void a_chat_template_is_compared_with_the_forms(void **state) {
    (void)state;
#define ZEPHYR                                                                                          \
    "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + "             \
    "message['content'] + eos_token "                                                                   \
    "}}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token "   \
    "}}\n{% elif "                                                                                      \
    "message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% " \
    "endif %}\n{% if "                                                                                  \
    "loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"
    static const struct {
        const char *text;
        int form; /* that writes the same; -1: none */
        int says; /* the form whose note says: */
        const char *words;
    } cases[] = {{ZEPHYR, PPO_CHAT_ZEPHYR, PPO_CHATML, "in another form"},
                 {ZEPHYR "\n", PPO_CHAT_ZEPHYR, PPO_CHATML, "in another form"},
                 {ZEPHYR "\n\n", PPO_CHAT_ZEPHYR, PPO_CHATML, "in another form"}, /* Jinja leaves both out, */
                 {ZEPHYR "\n\n\n", -1, PPO_CHAT_ZEPHYR, "none of the forms"},     /* and writes the third */
                 {ZEPHYR "{# of a model #}\n", PPO_CHAT_ZEPHYR, PPO_CHATML, "in another form"},
                 {"<|im_start|>", -1, PPO_CHATML, "compare what it writes"},
                 {"anything", -1, PPO_CHAT_ZEPHYR, "none of the forms"}};
    for (int i = 0; i < COUNT(cases) + 3; i++) {
        const char *text = i < COUNT(cases) ? cases[i].text : ppo_chat_template(i - COUNT(cases));
        const int form = i < COUNT(cases) ? cases[i].form : i - COUNT(cases);
        ppo_tokenizer *tok = with_config(NULL, text);
        int own = -2;
        const ppo_status status = ppo_chat_form(tok, &own);
        assert_int_equal(own, form);
        assert_int_equal(status, form < 0 ? PPO_ERROR_ARGUMENT : PPO_OK);
        for (int f = 0; f < PPO_CHAT_FORMS; f++)
            assert_int_equal(*ppo_tokenizer_chat_note(tok, f) == 0, f == form);
        if (i < COUNT(cases))
            assert_non_null(strstr(ppo_tokenizer_chat_note(tok, cases[i].says), cases[i].words));
        assert_string_equal(ppo_tokenizer_chat_note(tok, -1), "");
        assert_string_equal(ppo_tokenizer_chat_note(tok, PPO_CHAT_FORMS), "");
        ppo_tokenizer_free(tok);
    }
    assert_string_equal(ppo_tokenizer_chat_note(NULL, 0), "");
    assert_string_equal(ppo_chat_template(-1), "");
    assert_string_equal(ppo_chat_template(PPO_CHAT_ZEPHYR + 1), "");
    /* in tokenizer_config.json: a text, or several with names */
    static const char *const in_config[][2] = {
        {"{\"chat_template\": \"<|im_start|>\"}", "compare what it writes"},
        {"{\"chat_template\": [{\"name\": \"tool\", \"template\": \"<|im_start|> You are\"}, {\"name\": "
         "\"default\", "
         "\"template\": \"<|im_start|>\"}]}",
         "compare what it writes"},
        {"{\"chat_template\": [{\"name\": \"tool\", \"template\": \"<|im_start|>\"}, {\"template\": \"x\"}]}",
         NULL},
        {"{\"chat_template\": {}}", NULL}};
    for (int i = 0; i < COUNT(in_config); i++) {
        ppo_tokenizer *tok = with_config(in_config[i][0], NULL);
        const char *note = ppo_tokenizer_chat_note(tok, PPO_CHATML);
        if (!in_config[i][1]) assert_string_equal(note, "");
        else if (!strstr(note, in_config[i][1])) fail_msg("%s: \"%s\"", in_config[i][0], note);
        ppo_tokenizer_free(tok);
    }
}

/* In the order in which they are looked for: the pad token of the file, a usual one, any that ends nothing. */
static void a_token_to_pad_with_is_found(void **state) {
    (void)state;
    static const struct {
        const char *config, *second; /* the name of token 5 */
        int eos, want;
    } cases[] = {{"{\"pad_token\": \"</s>\"}", "</s>", 4, 5},
                 {"{\"pad_token\": \"</s>\"}", "</s>", 5, 4},
                 {NULL, "<pad>", 4, 5},
                 {NULL, "<unk>", 4, 5},
                 {NULL, "</s>", 4, -1},
                 {NULL, "<x>", 4, 5},
                 {NULL, "<x>", 5, 4}};
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_tokenizer *tok = NULL;
        empty("in");
        if (cases[i].config) write_text("in/tokenizer_config.json", cases[i].config);
        assert_ok(load_changed(bytes_json, "</s>", cases[i].second, &tok));
        if (ppo_tokenizer_pad(tok, cases[i].eos) != cases[i].want)
            fail_msg("case %d: %d", i, ppo_tokenizer_pad(tok, cases[i].eos));
        ppo_tokenizer_free(tok);
    }
}

static void names_of_special_tokens_are_found_in_texts(void **state) {
    (void)state;
    ppo_tokenizer *tok = NULL;
    static const struct {
        const char *text;
        int want;
    } cases[] = {{"ab", -1}, {"", -1}, {"a<s>", 4}, {"a</s><s>", 5}, {"</s", -1}, {"<x>", -1}};
    empty("in");
    assert_ok(load_changed(bytes_json, "NFC", "NFC", &tok));
    for (int i = 0; i < COUNT(cases); i++)
        assert_int_equal(ppo_tokenizer_find(tok, cases[i].text), cases[i].want);
    ppo_tokenizer_free(tok);
    /* one that is not special; one that is looked for in the rewritten text */
    assert_ok(load_changed(bytes_json, "\"special\": true", "\"special\": false", &tok));
    assert_int_equal(ppo_tokenizer_find(tok, "<s>a"), -1);
    assert_int_equal(ppo_tokenizer_find(tok, "<s>a</s>"), 5);
    ppo_tokenizer_free(tok);
    assert_ok(load_changed(bytes_json, "\"normalized\": false", "\"normalized\": true", &tok));
    assert_int_equal(ppo_tokenizer_find(tok, "ab<s>"), 4);
    assert_int_equal(ppo_tokenizer_find(tok, "ab"), -1);
    ppo_tokenizer_free(tok);
    const char *const eos = "<eos>";
    assert_ok(ppo_tokenizer_characters("ab", 2, &eos, 1, &tok));
    assert_int_equal(ppo_tokenizer_find(tok, "a<eos>"), 2);
    ppo_tokenizer_free(tok);
}

/* A family whose tokenizer Python replaces needs the one that it is replaced by. */
static void the_tokenizer_of_qwen2_must_be_qwens(void **state) {
    (void)state;
    static const char qwen[] =
        "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": "
        "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| "
        "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}, "
        "\"behavior\": \"Isolated\"}, {\"type\": \"ByteLevel\", \"use_regex\": false, \"add_prefix_space\": "
        "false}]}";
    static const char plain[] = "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}";
    ppo_tokenizer *tok = NULL;
    empty("in");
    assert_ok(load_changed(bytes_json, plain, qwen, &tok));
    assert_ok(ppo_tokenizer_fits(tok, "qwen2"));
    assert_ok(ppo_tokenizer_fits(tok, "llama"));
    ppo_tokenizer_free(tok);
    char *spaced = replaced(qwen, "\"add_prefix_space\": false", "\"add_prefix_space\": true"),
         *twice = replaced(qwen, "\"use_regex\": false", "\"use_regex\": true"),
         *removed = replaced(qwen, "Isolated", "Removed"),
         *inverted = replaced(qwen, "\"behavior\"", "\"invert\": true, \"behavior\""),
         *nothing = replaced(qwen, "\"behavior\"", "\"other\""),
         *split =
             replaced(qwen, "{\"type\": \"ByteLevel\"",
                      "{\"type\": \"Split\", \"behavior\": \"Isolated\", \"pattern\": {\"Regex\": \"x\"}}, "
                      "{\"type\": \"ByteLevel\"");
    assert_ok(load_changed(bytes_json, plain, spaced, &tok));
    assert_fails(ppo_tokenizer_fits(tok, "qwen2"), PPO_ERROR_ARGUMENT, "family qwen2|NFC");
    ppo_tokenizer_free(tok);
    assert_ok(load_changed(bytes_json, "NFC", "NFC", &tok));
    assert_fails(ppo_tokenizer_fits(tok, "qwen2"), PPO_ERROR_ARGUMENT, "family qwen2|NFC");
    assert_ok(ppo_tokenizer_fits(tok, "qwen3"));
    ppo_tokenizer_free(tok), tok = NULL;
    char *compatible = replaced(bytes_json, "NFC", "NFKC");
    assert_ok(load_changed(compatible, plain, qwen, &tok));
    assert_fails(ppo_tokenizer_fits(tok, "qwen2"), PPO_ERROR_ARGUMENT, "family qwen2|NFC");
    ppo_tokenizer_free(tok), tok = NULL;
    free(compatible);
    char *const others[] = {twice, removed, inverted, split};
    for (int i = 0; i < COUNT(others); i++) {
        assert_ok(load_changed(bytes_json, plain, others[i], &tok));
        assert_fails(ppo_tokenizer_fits(tok, "qwen2"), PPO_ERROR_ARGUMENT, "family qwen2");
        ppo_tokenizer_free(tok), tok = NULL;
    }
    assert_fails(load_changed(bytes_json, plain, nothing, &tok), PPO_ERROR_FILE, "Split without a behavior");
    free(spaced), free(twice), free(removed), free(inverted), free(nothing), free(split);
}

/* Two names of the same hash are two tokens. */
static void names_of_the_same_hash_are_told_apart(void **state) {
    (void)state;
    ppo_tokenizer *tok = NULL;
    int tokens[4], count;
    empty("in");
    char *whole = replaced(pieces_json, "\"vocab\"", "\"ignore_merges\": true, \"vocab\"");
    assert_ok(
        load_changed(whole, "\"<0x0A>\": 3, \"<0xZZ>\": 4", "\"7mohtcOFVz\": 4, \"c1E51sSEyx\": 3", &tok));
    assert_ok(ppo_encode(tok, "c1E51sSEyx", 10, tokens, 4, &count));
    assert_true(count == 1 && tokens[0] == 3);
    assert_ok(ppo_encode(tok, "7mohtcOFVz", 10, tokens, 4, &count));
    assert_true(count == 1 && tokens[0] == 4);
    ppo_tokenizer_free(tok);
    free(whole);
}

/* A short text may become a huge one. */
static void a_text_that_grows_too_large_is_refused(void **state) {
    (void)state;
    enum { SIZE = 50000 };
    static char by[SIZE + 40], text[SIZE + 1];
    ppo_tokenizer *tok = NULL;
    int count;
    memset(text, ' ', SIZE);
    strcpy(by, "\"content\": \"");
    memset(by + strlen(by), 'a', SIZE);
    strcat(by, "\"}, \"pre_tokenizer\"");
    empty("in");
    assert_ok(load_changed(pieces_json, "\"content\": \"" LOW "\"}, \"pre_tokenizer\"", by, &tok));
    assert_ok(ppo_encode(tok, "a b", 3, NULL, 0, &count));
    assert_fails(ppo_encode(tok, text, SIZE, NULL, 0, &count), PPO_ERROR_ARGUMENT,
                 "a text that may become one of 25000");
    ppo_tokenizer_free(tok), tok = NULL;
    /* nor may a name that is found in the rewritten text */
    char *json = replaced(pieces_json, "\"content\": \"" LOW "\"}, \"pre_tokenizer\"", by),
         *added = (char *)malloc(SIZE + 100);
    assert_non_null(added);
    sprintf(added, ", {\"id\": 6, \"content\": \"%s\", \"normalized\": true}], \"normalizer\"", text);
    assert_fails(load_changed(json, "], \"normalizer\"", added, &tok), PPO_ERROR_ARGUMENT,
                 "a text that may become one of 25000");
    assert_null(tok);
    free(added), free(json);
}

/* An allocator that remembers the largest block. */
static void *largest_hook(void *user, void *ptr, size_t size) {
    size_t *most = (size_t *)user;
    if (size > *most) *most = size;
    if (size) return realloc(ptr, size);
    free(ptr);
    return NULL;
}

/* Where no token has a space after something else, words are encoded one by one: a long text takes no memory for the
   symbols of all of it. */
static void a_long_text_is_encoded_word_by_word(void **state) {
    (void)state;
    enum { WORDS = 20000 };
    static char text[2 * WORDS];
    static int tokens[WORDS];
    for (int cut = 0; cut < 2; cut++) {
        ppo_tokenizer *tok = NULL;
        size_t most = 0;
        int count = 0;
        for (int k = 0; k < WORDS; k++) memcpy(text + 2 * k, " a", 2);
        empty("in");
        assert_ok(load_changed(pieces_json, "<0xZZ>", cut ? "<0xZZ>" : "a" LOW, &tok));
        ppo_set_allocator(largest_hook, &most);
        const ppo_status status = ppo_encode(tok, text, sizeof text, tokens, WORDS, &count);
        ppo_set_allocator(NULL, NULL);
        assert_ok(status);
        assert_int_equal(count, WORDS);
        for (int k = 0; k < WORDS; k++) assert_int_equal(tokens[k], 2);
        /* twice the rewritten text, of 4 bytes a word, and tokens; or its symbols, of 12 for each of these bytes */
        if (cut ? most > 12 * WORDS : most < 48 * WORDS) fail_msg("cut %d: %zu bytes", cut, most);
        ppo_tokenizer_free(tok);
    }
}

static void too_many_added_tokens_are_refused(void **state) {
    (void)state;
    const size_t n = 2 * ((size_t)1048576 + 1);
    char *by = (char *)malloc(n + 40), *at = by;
    ppo_tokenizer *tok = NULL;
    assert_non_null(by);
    at += sprintf(at, "\"added_tokens\": [0");
    for (size_t k = 1; k <= 1048576; k++) *at++ = ',', *at++ = '0';
    strcpy(at, "], \"unused\"");
    empty("in");
    assert_fails(load_changed(bytes_json, "\"added_tokens\"", by, &tok), PPO_ERROR_FILE,
                 "more than 1048576 added tokens");
    free(by);
}

/* A folder is completed by what Python needs: names of the tokens, and their numbers in config.json. */
static void a_saved_folder_names_its_tokens(void **state) {
    (void)state;
    static const struct {
        const char *config, *model;     /* that are there before; NULL: none */
        const char *says[3], *model_is; /* parts of tokenizer_config.json, and of config.json */
    } cases[] = {
        {NULL,
         NULL,
         {"\"eos_token\": \"</s>\"", "\"tokenizer_class\": \"PreTrainedTokenizerFast\"", "\"pad_token\""},
         NULL},
        {NULL,
         "{\"vocab_size\": 6, \"eos_token_id\": 4}",
         {"\"eos_token\": \"<s>\"", "\"clean_up_tokenization_spaces\": false", ""},
         NULL},
        {NULL, "{\"vocab_size\": 6, \"eos_token_id\": [4, 5]}", {"\"eos_token\": \"<s>\"", "", ""}, NULL},
        {NULL, "{\"vocab_size\": 6, \"eos_token_id\": []}", {"\"eos_token\": \"</s>\"", "", ""}, NULL},
        {"{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}",
         "{\"vocab_size\": 6, \"eos_token_id\": 5}",
         {"\"bos_token\": \"<s>\"", "\"eos_token\": \"</s>\"", ""},
         "\"bos_token_id\": 4"},
        {"{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}",
         "{\"vocab_size\": 6, \"bos_token_id\": 0, \"eos_token_id\": 4}",
         {"\"bos_token\": \"<s>\"", "\"eos_token\": \"<s>\"", ""},
         "\"bos_token_id\": 4"},
        {"{\"bos_token\": \"<s>\"}",
         "{\"vocab_size\": 3, \"architectures\": [\"GPT2LMHeadModel\"]}",
         {"", "", ""},
         "}"},
        {"{}",
         "{\"vocab_size\": 6, \"eos_token_id\": 4, \"architectures\": [\"LlamaForSequenceClassification\"]}",
         {"", "", ""},
         "\"vocab_size\": 6"},
        {"\357\273\277{\"eos_token\": \"</s>\"}",
         "{\"vocab_size\": 6, \"eos_token_id\": 4}",
         {"\357\273\277{", "\"eos_token\": \"<s>\"", ""},
         "\"eos_token_id\": 4"},
        {NULL,
         "{\"vocab_size\": 5, \"eos_token_id\": 4, \"architectures\": [\"XForSequenceClassification\"]}",
         {"{", "\"eos_token\": \"<s>\"", ""},
         "\"vocab_size\": 5"},
        {NULL, "{\"architectures\": \"x\"}", {"\"eos_token\": \"</s>\"", "", ""}, NULL},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_tokenizer *tok = with_config(cases[i].config, NULL);
        char *text = NULL;
        empty("out");
        if (cases[i].model) write_text("out/config.json", cases[i].model);
        assert_ok(ppo_tokenizer_save(tok, "out"));
        assert_ok(ppo_text_load("out/tokenizer_config.json", &text, NULL));
        for (int k = 0; k < 3; k++)
            if ((i || k < 2) && !strstr(text, cases[i].says[k]))
                fail_msg("case %d: \"%s\" does not say %s", i, text, cases[i].says[k]);
        ppo_text_free(text);
        if (cases[i].model_is) {
            assert_ok(ppo_text_load("out/config.json", &text, NULL));
            if (!strstr(text, cases[i].model_is))
                fail_msg("case %d: \"%s\" does not say %s", i, text, cases[i].model_is);
            ppo_text_free(text);
        }
        ppo_tokenizer_free(tok), tok = NULL;
        assert_ok(ppo_tokenizer_load("out", &tok)); /* what was written can be read */
        ppo_tokenizer_free(tok);
    }
    static const char *const refused[][2] = {{"[1]", "expected \"{\""},
                                             {"{\"eos_token_id\": 1.5}", "a whole number"},
                                             {"{\"vocab_size\": 3000000000}", "a whole number below 2^31"},
                                             {"{\"architectures\": [7]}", "expected"}};
    for (int i = 0; i < COUNT(refused); i++) {
        ppo_tokenizer *tok = with_config(NULL, NULL);
        write_text("out/config.json", refused[i][0]);
        assert_fails(ppo_tokenizer_save(tok, "out"), PPO_ERROR_FILE, refused[i][1]);
        ppo_tokenizer_free(tok);
    }
    empty("out");
    /* names that JSON must escape */
    char longest[PPO_MAX_TOKEN_BYTES + 1] = "";
    const char *const pad[] = {"<pad>\"\\", (const char *)memset(longest, '-', PPO_MAX_TOKEN_BYTES)};
    ppo_tokenizer *tok = NULL, *back = NULL;
    char *text = NULL;
    assert_ok(ppo_tokenizer_bytes(pad, 2, &tok));
    assert_ok(ppo_tokenizer_save(tok, "out"));
    assert_ok(ppo_tokenizer_load("out", &back));
    for (int k = 0; k < 2; k++) assert_int_equal(ppo_tokenizer_special(back, pad[k]), 256 + k);
    ppo_tokenizer_free(tok), ppo_tokenizer_free(back);
    empty("in"), empty("out");
    /* the token before a text, without one after it */
    assert_ok(
        load_changed(bytes_json, "\"post_processor\": null",
                     "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": "
                     "{\"id\": \"<s>\"}}, {\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": {\"<s>\": "
                     "{\"id\": \"<s>\", \"ids\": [4], \"tokens\": [\"<s>\"]}}}",
                     &tok));
    write_text("out/config.json", "{\"vocab_size\": 6}");
    assert_ok(ppo_tokenizer_save(tok, "out"));
    assert_ok(ppo_text_load("out/config.json", &text, NULL));
    assert_non_null(strstr(text, "\"bos_token_id\": 4"));
    ppo_text_free(text), ppo_tokenizer_free(tok);
    empty("in"), empty("out");
    static const char *const escaped[][2] = {{"\\u0001<\\u000a\\\"\\\\>", "\001<\n\"\\>"},
                                             {"\\u0001\\u0002\\u0003\\u0004", "\001\002\003\004"}};
    for (int k = 0; k < 2; k++) {
        char eos[64];
        snprintf(eos, sizeof eos, "\"eos_token\": \"%s\"", escaped[k][0]);
        assert_ok(load_changed(bytes_json, "<s>", escaped[k][0], &tok));
        write_text("out/config.json", "{\"vocab_size\": 6, \"eos_token_id\": 4}");
        assert_ok(ppo_tokenizer_save(tok, "out"));
        assert_ok(ppo_text_load("out/tokenizer_config.json", &text, NULL));
        assert_non_null(strstr(text, eos));
        ppo_text_free(text), ppo_tokenizer_free(tok);
        assert_ok(ppo_tokenizer_load("out", &tok));
        assert_int_equal(ppo_tokenizer_special(tok, escaped[k][1]), 4);
        ppo_tokenizer_free(tok);
        empty("in"), empty("out");
    }
}

/* --------------------------------------------------------------------------------------------------------
   Models
   -------------------------------------------------------------------------------------------------------- */

static ppo_lm *model_of(const char *family, int score) {
    ppo_lm_config c = lm_config(9, 8, 8, 3, 2);
    assert_ok(ppo_lm_config_family(&c, family));
    c.score = score;
    return random_lm(c, 0.1f);
}

/* Writes a model of the family to the folder "in", and returns its config.json. */
static char *write_model(const char *family, int score) {
    ppo_lm *lm = model_of(family, score);
    char *text = NULL;
    empty("in");
    assert_ok(ppo_lm_save(lm, "in", PPO_F32));
    assert_ok(ppo_text_load("in/config.json", &text, NULL));
    ppo_lm_free(lm);
    return text;
}

/* Loads a model of the family, with a part of config.json replaced; `by` NULL: with it as it is. */
static ppo_status load_config(const char *family, const char *old, const char *by, ppo_lm **lm) {
    char *text = write_model(family, 0), *changed = replaced(text, old, by ? by : old);
    write_text("in/config.json", changed);
    free(changed), ppo_text_free(text);
    return ppo_lm_load("in", lm);
}

#define TEN                                                                                               \
    "\"local\", \"local\", \"local\", \"local\", \"local\", \"local\", \"local\", \"local\", \"local\", " \
    "\"local\", "
#define LAYERS "\"num_hidden_layers\": 3"
#define ROPES  "\"no_rope_layers\": [1, 1, 1]"
#define WINDOW "\"sliding_window\": 4, \"use_sliding_window\": true"
/* What a family sets is its layout; how large a model is stays as it was. */
static void a_family_leaves_the_sizes_of_a_model(void **state) {
    (void)state;
    static const char own[] =
        "vocab=99 context=9 width=24 layers=3 heads=6 kv_heads=2 head_size=10 hidden=11 "
        "score=yes seed=5 eos=3";
    static const char *const families[] = {"gpt2", "qwen3", "gemma3_text"};
    for (int i = 0; i < COUNT(families); i++) {
        ppo_lm_config c = ppo_lm_config_default(), before;
        assert_ok(ppo_settings_set_all(ppo_lm_settings(), &c, own));
        before = c;
        assert_ok(ppo_lm_config_family(&c, families[i]));
        for (int k = 0; k < ppo_lm_settings()->count; k++) {
            const char *name = ppo_lm_settings()->field[k].name, *at = strstr(own, name);
            char was[64], is[64];
            if (!at || at[strlen(name)] != '=' || (at > own && at[-1] != ' ')) continue;
            assert_ok(ppo_settings_get(ppo_lm_settings(), &before, name, was, sizeof was));
            assert_ok(ppo_settings_get(ppo_lm_settings(), &c, name, is, sizeof is));
            assert_string_equal(is, was);
        }
    }
}

static void what_a_config_cannot_say_is_named(void **state) {
    (void)state;
    static const struct {
        const char *family, *old, *by, *words;
    } cases[] = {
        {"llama", "\"model_type\": \"llama\",", "", "there is no model_type"},
        {"llama", "\"model_type\": \"llama\"", "\"model_type\": \"bert\"",
         "model_type \"bert\" is not known, only"},
        {"llama", "\"model_type\": \"llama\"", "\"model_type\": {}", "model_type \"{}\" is not known"},
        {"llama", "\"model_type\": \"llama\"", "\"model_type\": {\"a\": 1}",
         "model_type \"{...}\" is not known"},
        {"llama", "\"model_type\": \"llama\"", "\"model_type\": true", "model_type \"yes\" is not known"},
        {"llama", "\"model_type\": \"llama\"", "\"model_type\": false", "model_type \"no\" is not known"},
        {"llama", "\"model_type\": \"llama\"", "\"model_type\": \"\\q\"",
         "an escape that stands for no character"},
        {"llama", LAYERS, LAYERS ", \"quantization_config\": {}", "quantization_config is there"},
        {"gpt2", "\"n_layer\": 3", "\"n_layer\": 3, \"add_cross_attention\": true",
         "add_cross_attention is there"},
        {"llama", "\"vocab_size\": 9,", "", "there is no vocab_size"},
        {"llama", "\"vocab_size\": 9", "\"vocab_size\": 0", "vocab_size: vocab is 0"},
        {"llama", "\"silu\"", "\"mish\"", "hidden_act \"mish\" is not known"},
        {"llama", LAYERS, LAYERS ", \"rope_scaling\": {\"rope_type\": \"longrope\", \"factor\": 2}",
         "\"longrope\" is not known"},
        {"llama", LAYERS, LAYERS ", \"rope_scaling\": {\"type\": \"linear\"}",
         "there is no rope_scaling.factor"},
        {"llama", LAYERS,
         LAYERS ", \"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, \"high_freq_factor\": 4}",
         "there is no rope_scaling.low_freq_factor"},
        {"llama", LAYERS,
         LAYERS ", \"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1}",
         "there is no rope_scaling.high_freq_factor"},
        {"llama", "\"num_attention_heads\": 2", "\"num_attention_heads\": 3", "config.json: "},
        {"llama", "\"hidden_size\": 8", "\"hidden_size\": 16", "is F32"},
        {"llama", LAYERS, "\"num_hidden_layers\": 4", "there is no \"model.layers.3"},
        {"llama", LAYERS, "\"num_hidden_layers\": 2", "\"model.layers.2.|has no place"},
        {"qwen2", LAYERS, LAYERS ", " WINDOW ", \"layer_types\": 3", "expected \"[\""},
        {"qwen2", LAYERS, LAYERS ", " WINDOW ", \"layer_types\": [\"full_attention\"]",
         "layer_types lists 1 layers of 3"},
        {"qwen2", LAYERS, LAYERS ", " WINDOW ", \"layer_types\": [\"full_attention\", \"half\"]",
         "layer_types \"half\" is not known"},
        {"qwen2", LAYERS, LAYERS ", " WINDOW ", \"layer_types\": [\"full_attention\", \"\\q\"]",
         "an escape that stands for no character"},
        {"qwen2", LAYERS, LAYERS ", " WINDOW ", \"layer_types\": [{}]", "expected"},
        {"gpt_neo", "[[[\"global\", \"local\", \"global\"], 1]]",
         "[[[" TEN TEN TEN TEN TEN TEN TEN "\"local\"], 1]]", "lists 71 layers of 3"},
        {"qwen2", LAYERS, LAYERS ", " WINDOW ", \"max_window_layers\": -1",
         "max_window_layers \"-1\" is not known"},
        {"qwen2", LAYERS, LAYERS ", " WINDOW ", \"max_window_layers\": 1.5",
         "max_window_layers \"1.5\" is not known"},
        {"gpt_neo", "[[[\"global\", \"local\", \"global\"], 1]]", "[[[\"global\"], 2]]",
         "lists 2 layers of 3"},
        {"gpt_neo", "[[[\"global\", \"local\", \"global\"], 1]]", "[[[\"global\"], 100]]",
         "lists 64 layers of 3"},
        {"gpt_neo", "[[[\"global\", \"local\", \"global\"], 1]]", "[[[\"global\"], 1.5]]", "a whole number"},
        {"smollm3", ROPES, "\"no_rope_layer_interval\": 0", "no_rope_layer_interval \"0\" is not known"},
        {"smollm3", ROPES, "\"no_rope_layer_interval\": 1.5", "no_rope_layer_interval \"1.5\" is not known"},
        {"smollm3", ROPES, "\"no_rope_layer_interval\": \"x\"", "no_rope_layer_interval \"x\" is not known"},
        {"smollm3", ROPES, "\"no_rope_layers\": [1, 0]", "no_rope_layers lists 2 layers of 3"},
        {"smollm3", ROPES, "\"no_rope_layers\": [1, 1.5, 1]", "a whole number"},
        {"smollm3", ROPES, "\"no_rope_layers\": 3", "expected \"[\""},
        {"gemma3_text", ": 256", ": \"x\"", "query_pre_attn_scalar \"x\" is not known"},
        {"gemma3_text", ": 256", ": 1e10", "query_pre_attn_scalar \"1e10\" is not known"},
        {"gemma3_text", ": 256", ": 0", "query_pre_attn_scalar \"0\" is not known"},
        {"gpt_neox", "\"rotary_pct\": 1", "\"rotary_pct\": 0", "rotary_pct \"0\" is not known"},
        {"gpt_neox", "\"rotary_pct\": 1", "\"rotary_pct\": 1.5", "rotary_pct \"1.5\" is not known"},
        {"gpt_neox", "\"rotary_pct\": 1", "\"rotary_pct\": \"half\"", "rotary_pct \"half\" is not known"},
        {"gpt_neox", "\"num_attention_heads\": 2", "\"num_attention_heads\": 0", "heads is 0"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_lm *lm = NULL;
        assert_fails(load_config(cases[i].family, cases[i].old, cases[i].by, &lm), PPO_ERROR_FILE,
                     cases[i].words);
        assert_null(lm);
    }
    /* what no model here computes, by its key and what that says */
    static const char *const others[][3] = {
        {"", "scale_attn_by_inverse_layer_idx", "true"},
        {"", "is_encoder_decoder", "true"},
        {"", "_remove_final_layer_norm", "true"},
        {"", "final_logit_softcapping", "30.0"},
        {"", "attn_logit_softcapping", "50.0"},
        {"", "use_bidirectional_attention", "true"},
        {"\"rope_scaling\": {\"rope_type\": \"default\", ", "attention_factor", "1.5"},
        {"\"rope_scaling\": {\"rope_type\": \"default\", ", "mscale", "1.5"},
        {"", "do_layer_norm_before", "false"},
        {"", "layer_norm_elementwise_affine", "false"},
        {"\"rope_scaling\": {\"rope_type\": \"default\", ", "truncate", "false"}};
    for (int i = 0; i < COUNT(others); i++) {
        char by[160], words[80];
        ppo_lm *lm = NULL;
        snprintf(by, sizeof by, LAYERS ", %s\"%s\": %s%s", others[i][0], others[i][1], others[i][2],
                 *others[i][0] ? "}" : "");
        snprintf(words, sizeof words, "%s is %s, which is not supported", others[i][1],
                 strcmp(others[i][2], "false") ? "there" : "false");
        assert_fails(load_config("llama", LAYERS, by, &lm), PPO_ERROR_FILE, words);
        assert_null(lm);
    }
}

/* The keys that each layout needs: without one of them there is no model, and with them alone it is the family's own. */
static void a_config_needs_these_keys_and_no_others(void **state) {
    (void)state;
    static const char *const cases[][6] = {
        {"gpt2", "vocab_size", "n_positions", "n_embd", "n_layer", "n_head"},
        {"gpt_neo", "vocab_size", "max_position_embeddings", "hidden_size", "num_layers", "num_heads"},
        {"gpt_neox", "vocab_size", "max_position_embeddings", "hidden_size", "num_hidden_layers",
         "num_attention_heads"},
        {"llama", "vocab_size", "max_position_embeddings", "hidden_size", "num_hidden_layers",
         "num_attention_heads"},
        {"opt", "vocab_size", "max_position_embeddings", "hidden_size", "num_hidden_layers",
         "num_attention_heads"}};
    static const int numbers[] = {9, 8, 8, 3, 2};
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_lm *was = model_of(cases[i][0], 0);
        ppo_text_free(write_model(cases[i][0], 0));
        for (int without = 0; without <= 5; without++) {
            char text[400], words[64], is[64], other[64];
            ppo_lm *lm = NULL;
            int n = sprintf(text, "{\"model_type\": \"%s\"%s", cases[i][0],
                            i == 2 ? ", \"rotary_pct\": 1" : ""); /* else a quarter of the head: 1 number */
            for (int k = 0; k < 5; k++)
                if (k != without) n += sprintf(text + n, ", \"%s\": %d", cases[i][k + 1], numbers[k]);
            strcpy(text + n, "}");
            write_text("in/config.json", text);
            if (without < 5) {
                snprintf(words, sizeof words, "there is no %s", cases[i][without + 1]);
                assert_fails(ppo_lm_load("in", &lm), PPO_ERROR_FILE, words);
                continue;
            }
            assert_ok(ppo_lm_load("in", &lm));
            for (int k = 0; k < ppo_lm_settings()->count; k++) {
                const char *name = ppo_lm_settings()->field[k].name;
                assert_ok(ppo_settings_get(ppo_lm_settings(), &was->full, name, is, sizeof is));
                assert_ok(ppo_settings_get(ppo_lm_settings(), &lm->full, name, other, sizeof other));
                if (strcmp(is, other)) fail_msg("%s: %s is %s, not %s", cases[i][0], name, other, is);
            }
            assert_false(bits_differ(lm->params->data, was->params->data, lm->params->count));
            ppo_lm_free(lm);
        }
        ppo_lm_free(was);
    }
}

static void what_a_config_says_is_the_models(void **state) {
    (void)state;
    static const struct {
        const char *family, *old, *by;
        int window;
        uint64_t layers; /* with it; 0: all */
        int eos, rotary;
    } cases[] = {
        {"llama", LAYERS, LAYERS ", \"quantization_config\": null, \"is_encoder_decoder\": false", 0, 0, -1,
         4},
        {"llama", "\"eos_token_id\": null", "\"eos_token_id\": [3, 4]", 0, 0, 3, 4},
        {"llama", "\"eos_token_id\": null", "\"eos_token_id\": 9", 0, 0, -1, 4},
        {"llama", LAYERS, LAYERS ", \"rope_scaling\": {}, \"rope_parameters\": {\"rope_type\": \"default\"}",
         0, 0, -1, 4},
        {"qwen2", LAYERS, LAYERS ", " WINDOW, 0, 0, -1, 4}, /* from layer 28 on */
        {"qwen2", LAYERS, LAYERS ", " WINDOW ", \"max_window_layers\": 0", 4, 0, -1, 4},
        {"qwen2", LAYERS, LAYERS ", " WINDOW ", \"max_window_layers\": 2", 4, 4, -1, 4},
        {"qwen2", LAYERS, LAYERS ", " WINDOW ", \"max_window_layers\": 3", 0, 0, -1, 4},
        {"qwen2", LAYERS, LAYERS ", \"sliding_window\": 4, \"use_sliding_window\": false", 0, 0, -1, 4},
        {"qwen2", LAYERS,
         LAYERS ", " WINDOW
                ", \"layer_types\": [\"full_attention\", \"sliding_attention\", \"full_attention\"]",
         4, 2, -1, 4},
        {"qwen2", LAYERS,
         LAYERS ", " WINDOW ", \"layer_types\": [\"full_attention\", \"full_attention\", \"full_attention\"]",
         0, 0, -1, 4},
        {"qwen2", LAYERS,
         LAYERS ", " WINDOW
                ", \"layer_types\": [\"sliding_attention\", \"sliding_attention\", \"sliding_attention\"]",
         4, 0, -1, 4},
        {"mistral", LAYERS, LAYERS ", \"sliding_window\": 4", 4, 0, -1, 4},
        {"mistral", LAYERS, LAYERS ", \"sliding_window\": null", 0, 0, -1, 4},
        {"gpt_neo", "[[[\"global\", \"local\", \"global\"], 1]]", "[[[\"local\"], 3]]", 256, 0, -1, 0},
        {"gpt_neo", "[[[\"global\", \"local\", \"global\"], 1]]", "[[[\"local\"], 1], [[\"global\"], 2]]",
         256, 1, -1, 0},
        {"gpt_neo", "[[[\"global\", \"local\", \"global\"], 1]]",
         "[[[\"local\", \"local\"], 0], [[\"global\"], 2], [[\"local\"], 1]]", 256, 4, -1, 0},
        {"gemma3_text", "[\"sliding_attention\", \"sliding_attention\", \"sliding_attention\"]",
         "[\"full_attention\", \"full_attention\", \"full_attention\"]", 0, 0, -1, 4},
        {"gpt_neox", "\"rotary_pct\": 1", "\"rotary_pct\": 0.5", 0, 0, -1, 2},
        {"gpt_neo", ",\n  \"attention_types\": [[[\"global\", \"local\", \"global\"], 1]]", "", 256,
         UINT64_C(0xaaaaaaaaaaaaaaaa), -1, 0},
        {"smollm3", ROPES, WINDOW ", \"no_rope_layers\": [1, 0, 1]", 4, 2, -1, 4},
        {"smollm3", ROPES, WINDOW ", \"no_rope_layer_interval\": 2", 4, 2, -1, 4},
        {"smollm3", ROPES, WINDOW ", \"no_rope_layer_interval\": 1", 4, 7, -1, 4},
        {"smollm3", ROPES, WINDOW ", \"no_rope_layer_interval\": 99", 0, 0, -1, 4}, /* all have positions */
        {"smollm3", ROPES, WINDOW ", " ROPES, 0, 0, -1, 4},
        {"smollm3", ROPES, "\"no_rope_layers\": [1, 0, 1, 0, 0]", 0, 0, -1, 4},
        {"gpt_neox", "\"rotary_pct\": 1", "\"partial\": 1", 0, 0, -1,
         1}, /* a quarter: refused, as it is odd */
        {"gpt_neox", "\"rotary_pct\": 1", "\"rope_parameters\": {\"partial_rotary_factor\": 1}", 0, 0, -1, 4},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_lm *lm = NULL;
        ppo_status status = load_config(cases[i].family, cases[i].old, cases[i].by, &lm);
        if (cases[i].rotary == 1) {
            assert_fails(status, PPO_ERROR_FILE, "");
            assert_null(lm);
            continue;
        }
        assert_ok(status);
        if (lm->config.window != cases[i].window || lm->config.window_layers != cases[i].layers ||
            lm->config.eos != cases[i].eos)
            fail_msg("%s: window %d of layers %llx, eos %d", cases[i].by, lm->config.window,
                     (unsigned long long)lm->config.window_layers, lm->config.eos);
        if (cases[i].rotary) assert_int_equal(lm->full.rotary_size, cases[i].rotary);
        ppo_lm_free(lm);
    }
}

/* Attention that is not divided by the root of the head's size. */
static void attention_without_a_scale_has_one(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        ppo_lm *lm = NULL;
        assert_ok(load_config("gpt2", "\"n_layer\": 3",
                              k ? "\"n_layer\": 3, \"scale_attn_weights\": false"
                                : "\"n_layer\": 3, \"scale_attn_weights\": true",
                              &lm));
        assert_close(lm->full.attention_scale, k ? 1 : 0.5, 1e-6); /* of 4 numbers */
        ppo_lm_free(lm);
    }
}

/* The arrays of the model in "in" are written again: each is named and typed by change(), which may refuse it. */
typedef struct change {
    const char *name, *to; /* array `name` is called so, or left out (NULL) */
    ppo_dtype type;        /* and of this type, of zeros, if it is not F32 */
    int rows;              /* 0: as many as before */
    float first;           /* its first number; 0: as before */
    const char *file;      /* where the arrays go; NULL: model.safetensors */
} change;

static void change_arrays(const char *from, const change *c) {
    static float all[64][1024]; /* the file has no copies */
    ppo_file *was = NULL, *now = NULL;
    assert_ok(ppo_file_read(from, &was));
    assert_ok(ppo_file_create(&now));
    for (int i = 0; i < ppo_file_count(was); i++) {
        const ppo_array *a = ppo_file_at(was, i);
        const int found = !strcmp(a->name, c->name);
        int64_t shape[2] = {a->shape[0], a->rank > 1 ? a->shape[1] : 1};
        if (found && !c->to) continue;
        float *numbers = all[i];
        assert_true(i < 64 && a->bytes <= sizeof all[0]);
        memcpy(numbers, a->data, a->bytes);
        if (found && c->rows) shape[0] = c->rows;
        if (found && c->type != PPO_F32) memset(numbers, 0, sizeof all[0]);
        if (found && c->first != 0) numbers[0] = c->first;
        assert_ok(
            ppo_file_add(now, found ? c->to : a->name, found ? c->type : PPO_F32, shape, a->rank, numbers));
    }
    if (c->file) remove(from);
    assert_ok(ppo_file_write(now, c->file ? c->file : from));
    ppo_file_free(was), ppo_file_free(now);
}

#define MODEL "in/model.safetensors"
static void arrays_that_do_not_fit_are_named(void **state) {
    (void)state;
    static const struct {
        const char *family;
        int score;
        change change;
        const char *words;
    } cases[] = {
        {"llama",
         0,
         {"model.norm.weight", NULL, PPO_F32, 0, 0, NULL},
         "there is no \"model.norm.weight\"; the first array is \"lm_head.weight\""},
        {"llama",
         0,
         {"model.norm.weight", "wrapped.model.norm.weight", PPO_F32, 0, 0, NULL},
         "only \"wrapped.model.norm.weight\""},
        {"llama",
         0,
         {"model.norm.weight", "model.norm.weight", PPO_F64, 0, 0, NULL},
         "\"model.norm.weight\" is F64, not F32, F16 or BF16"},
        {"llama",
         0,
         {"model.norm.weight", "model.norm.weight", PPO_I32, 0, 0, NULL},
         "\"model.norm.weight\" is I32, not F32, F16 or BF16"},
        {"llama",
         0,
         {"model.norm.weight", "model.norm.weight", PPO_F32, 7, 0, NULL},
         "\"model.norm.weight\" is F32 (7), not F32 (8)"},
        {"llama",
         0,
         {"model.norm.weight", "model.norm.weight", PPO_F32, 0, NAN, NULL},
         "\"model.norm.weight\" has a number that is not finite"},
        {"llama",
         0,
         {"model.norm.weight", "model.norm.weight", PPO_F32, 0, INFINITY, NULL},
         "has a number that is not finite"},
        {"llama",
         1,
         {"score.weight", "score.weight", PPO_F32, 2, 0, NULL},
         "score.weight has 2 rows: only models of one label"},
        {"gpt2",
         0,
         {"transformer.ln_f.weight", "lm_head.weight", PPO_F32, 0, 0, NULL},
         "there is no \"transformer.ln_f.weight\""},
        {"gpt2",
         0,
         {"transformer.ln_f.weight", "attn.bias", PPO_F32, 0, 0, NULL},
         "there is no \"transformer.ln_f.weight\""},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_lm *lm = NULL;
        ppo_text_free(write_model(cases[i].family, cases[i].score));
        change_arrays(MODEL, &cases[i].change);
        assert_fails(ppo_lm_load("in", &lm), PPO_ERROR_FILE, cases[i].words);
        assert_null(lm);
    }
}

/* Arrays in several files, whose index names them. */
static void an_index_names_the_files(void **state) {
    (void)state;
    static const struct {
        const char *index, *words;
    } cases[] = {
        {"{\"weight_map\": {\"a\": \"part.safetensors\", \"b\": \"part.safetensors\"}}", NULL},
        {"{\"weight_map\": {\"a\": \"part.safetensors\", \"b\": \"none.safetensors\", \"c\": "
         "\"part.safetensors\"}}",
         "none.safetensors"},
        {"{\"weight_map\": {\"a\": \"../part.safetensors\"}}", "no name of a file: \"../part.safetensors\""},
        {"{\"weight_map\": {\"a\": \"\"}}", "it names no file"},
        {"{\"weight_map\": {\"a\": 3}}", "expected"},
        {"{\"weight_map\": {\"a\": \"\\u001b[31mred\\u007f\"}}", "in/?[31mred?: cannot be opened"},
        {"{\"weight_map\": {}}", "it names no file"},
        {"{}", "it names no file"},
        {"[]", "expected \"{\""},
    };
    const change moved = {"", NULL, PPO_F32, 0, 0, "in/part.safetensors"};
    ppo_text_free(write_model("llama", 0));
    change_arrays(MODEL, &moved);
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_lm *lm = NULL;
        write_text("in/model.safetensors.index.json", cases[i].index);
        if (cases[i].words) assert_fails(ppo_lm_load("in", &lm), PPO_ERROR_FILE, cases[i].words);
        else assert_ok(ppo_lm_load("in", &lm));
        assert_true((lm != NULL) == !cases[i].words);
        ppo_lm_free(lm);
    }
    remove("in/model.safetensors.index.json");
    ppo_lm *lm = NULL;
    assert_fails(ppo_lm_load("in", &lm), PPO_ERROR_FILE, "there is no model.safetensors");
    write_text("in/pytorch_model.bin", "x");
    assert_fails(ppo_lm_load("in", &lm), PPO_ERROR_FILE,
                 "it has pytorch_model.bin, which is not read, but no model.safetensors");
}

/* A head that is the embedding may be in the file if it is the same. */
static void a_tied_head_must_be_the_embedding(void **state) {
    (void)state;
    for (int fault = 0; fault < 3; fault++) {
        ppo_lm *lm = NULL;
        char *text = write_model("llama", 0);
        float numbers[9 * 8];
        ppo_file *file = NULL, *now = NULL;
        char *changed = replaced(text, "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
        write_text("in/config.json", changed);
        free(changed), ppo_text_free(text);
        assert_ok(ppo_file_read(MODEL, &file));
        assert_ok(ppo_file_create(&now));
        memcpy(numbers, ppo_file_find(file, "model.embed_tokens.weight")->data, sizeof numbers);
        if (fault == 1) numbers[70] += 1;
        for (int i = 0; i < ppo_file_count(file); i++) {
            const ppo_array *a = ppo_file_at(file, i);
            const int head = !strcmp(a->name, "lm_head.weight");
            const int64_t shape[2] = {fault == 2 ? 8 : 9, fault == 2 ? 9 : 8};
            assert_ok(ppo_file_add(now, a->name, PPO_F32, head ? shape : a->shape, a->rank,
                                   head ? numbers : a->data));
        }
        assert_ok(ppo_file_write(now, MODEL));
        ppo_file_free(file), ppo_file_free(now);
        if (!fault) assert_ok(ppo_lm_load("in", &lm));
        else
            assert_fails(ppo_lm_load("in", &lm), PPO_ERROR_FILE,
                         fault == 1
                             ? "\"lm_head.weight\" is not the embedding, but tie_word_embeddings is true"
                             : "\"lm_head.weight\" is F32 (8, 9), not F32 (9, 8)");
        ppo_lm_free(lm);
    }
}

/* Settings that a family's folder has no word for are refused when it is saved. */
static void what_a_folder_cannot_express_is_not_saved(void **state) {
    (void)state;
    static const struct {
        const char *family, *settings, *words;
    } cases[] = {
        {"gpt2", "kv_heads=1", "kv_heads is 1, which a folder of family gpt2 cannot express"},
        {"gpt2", "head_size=8", "head_size is 8, which a folder of family gpt2 cannot express"},
        {"gpt2", "hidden=16", NULL},
        {"gpt2", "kv_heads=2 head_size=4", NULL},
        {"llama", "qk_norm=yes", "qk_norm is yes, which a folder of family llama cannot express"},
        {"llama", "rotary_size=2", "rotary_size is 2, which a folder of family llama cannot express"},
        {"gemma3_text", "rotary_size=2",
         "rotary_size is 2, which a folder of family gemma3_text cannot express"},
        {"llama", "kv_heads=1 head_size=2", NULL}};
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_lm_config c = lm_config(9, 8, 8, 1, 2);
        ppo_lm *lm = NULL, *back = NULL;
        assert_ok(ppo_lm_config_family(&c, cases[i].family));
        c.score = 0;
        for (const char *at = cases[i].settings; *at; at += strspn(at, " ")) {
            int value = strstr(at, "yes") == strchr(at, '=') + 1 ? 1 : atoi(strchr(at, '=') + 1);
            if (!strncmp(at, "kv_heads", 8)) c.kv_heads = value;
            if (!strncmp(at, "head_size", 9)) c.head_size = value;
            if (!strncmp(at, "hidden", 6)) c.hidden = value;
            if (!strncmp(at, "qk_norm", 7)) c.qk_norm = value;
            if (!strncmp(at, "rotary_size", 11)) c.rotary_size = value;
            at += strcspn(at, " ");
        }
        lm = random_lm(c, 0.1f);
        empty("out");
        if (cases[i].words) assert_fails(ppo_lm_save(lm, "out", PPO_F32), PPO_ERROR_ARGUMENT, cases[i].words);
        else {
            assert_ok(ppo_lm_save(lm, "out", PPO_F32));
            assert_ok(ppo_lm_load("out", &back));
            assert_false(bits_differ(lm->params->data, back->params->data, lm->params->count));
        }
        ppo_lm_free(lm), ppo_lm_free(back);
    }
    ppo_lm *lm = model_of("llama", 1);
    empty("out");
    assert_fails(ppo_lm_save(lm, "out", PPO_F64), PPO_ERROR_ARGUMENT,
                 "dtype is|none of PPO_F32, PPO_F16 and PPO_BF16");
    assert_fails(ppo_lm_save(NULL, "out", PPO_F32), PPO_ERROR_ARGUMENT, "ppo_lm_save: lm is NULL");
    assert_fails(ppo_lm_save(lm, NULL, PPO_F32), PPO_ERROR_ARGUMENT, "ppo_lm_save: path is NULL");
    lm->norm_weight->data[0] = 1e6f;
    assert_fails(ppo_lm_save(lm, "out", PPO_F16), PPO_ERROR_NUMERIC,
                 "has 1e+06, which F16 cannot hold: nothing was saved");
    assert_ok(ppo_params_to_bf16(lm->params));
    assert_fails(ppo_lm_save(lm, "out", PPO_F32), PPO_ERROR_ARGUMENT, "the model is packed");
    assert_ok(ppo_params_to_bf16(lm->params)); /* which it is already */
    ppo_lm_free(lm);
}

/* The class by which transformers loads a folder, of a model and of one with a score. */
static void a_saved_config_names_the_class(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"gpt2", "[\"GPT2LMHeadModel\"]", "[\"GPT2ForSequenceClassification\"]"},
        {"gpt_neo", "[\"GPTNeoForCausalLM\"]", "[\"GPTNeoForSequenceClassification\"]"},
        {"gpt_neox", "[\"GPTNeoXForCausalLM\"]", "[\"GPTNeoXForSequenceClassification\"]"},
        {"llama", "[\"LlamaForCausalLM\"]", "[\"LlamaForSequenceClassification\"]"},
        {"mistral", "[\"MistralForCausalLM\"]", "[\"MistralForSequenceClassification\"]"},
        {"qwen2", "[\"Qwen2ForCausalLM\"]", "[\"Qwen2ForSequenceClassification\"]"},
        {"qwen3", "[\"Qwen3ForCausalLM\"]", "[\"Qwen3ForSequenceClassification\"]"},
        {"opt", "[\"OPTForCausalLM\"]", "[\"OPTForSequenceClassification\"]"},
        {"gemma3_text", "[\"Gemma3ForCausalLM\"]", "[\"Gemma3TextForSequenceClassification\"]"},
        {"olmo2", "[\"Olmo2ForCausalLM\"]", "[\"Olmo2ForSequenceClassification\"]"},
        {"granite", "[\"GraniteForCausalLM\"]", "[\"GraniteForSequenceClassification\"]"},
        {"smollm3", "[\"SmolLM3ForCausalLM\"]", "[\"SmolLM3ForSequenceClassification\"]"},
        {"phi3", "[\"Phi3ForCausalLM\"]", "[\"Phi3ForSequenceClassification\"]"}};
    for (int i = 0; i < COUNT(cases); i++)
        for (int score = 0; score < 2; score++) {
            char *config = write_model(cases[i][0], score);
            if (!strstr(config, cases[i][1 + score]))
                fail_msg("\"%s\" does not say %s", config, cases[i][1 + score]);
            assert_int_equal(!!strstr(config, "\"id2label\": {\"0\": \"reward\"}"), score);
            ppo_text_free(config);
        }
}

/* What is written has the type that was asked for, and says so; what is read is frozen. */
static void a_saved_model_has_the_type_that_its_config_names(void **state) {
    (void)state;
    static const struct {
        ppo_dtype type;
        const char *says;
    } cases[] = {{PPO_F32, "\"torch_dtype\": \"float32\""},
                 {PPO_F16, "\"torch_dtype\": \"float16\""},
                 {PPO_BF16, "\"torch_dtype\": \"bfloat16\""}};
    ppo_lm *lm = model_of("llama", 0), *read = NULL, *larger = NULL;
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_file *file = NULL;
        char *config = NULL;
        empty("out");
        assert_ok(ppo_lm_save(lm, "out", cases[i].type));
        assert_ok(ppo_text_load("out/config.json", &config, NULL));
        if (!strstr(config, cases[i].says)) fail_msg("\"%s\" does not say %s", config, cases[i].says);
        assert_ok(ppo_file_read("out/model.safetensors", &file));
        for (int k = 0; k < ppo_file_count(file); k++)
            assert_int_equal(ppo_file_at(file, k)->type, cases[i].type);
        ppo_file_free(file), ppo_text_free(config);
        assert_ok(ppo_lm_load("out", &read));
        assert_ok(ppo_lm_resize(read, 10, &larger));
        assert_true(!lm->params->frozen && read->params->frozen && larger->params->frozen);
        ppo_lm_free(read), ppo_lm_free(larger);
    }
    assert_ok(ppo_lm_save_file(lm, NULL, "in/part.safetensors"));
    assert_ok(ppo_lm_load("in/part.safetensors", &read));
    assert_ok(ppo_lm_copy(lm, 0, &larger));
    assert_true(read->params->frozen && larger->params->frozen);
    ppo_lm_free(read), ppo_lm_free(larger), ppo_lm_free(lm);
}

/* -- adapters -- */

static char *write_adapter(ppo_lm *base, int score) {
    ppo_lora lora = ppo_lora_default();
    ppo_lm *lm = NULL;
    char *text = NULL;
    lora.rank = 2, lora.layers = "q_proj v_proj";
    empty("in");
    assert_ok(ppo_lm_adapt(base, &lora, score, &lm));
    if (score) lm->score_bias->data[0] = 0; /* which the format does not have */
    assert_ok(ppo_lm_save(lm, "in", PPO_F32));
    assert_ok(ppo_text_load("in/adapter_config.json", &text, NULL));
    ppo_lm_free(lm);
    return text;
}

#define RANK "\"r\": 2,"
static void what_an_adapter_cannot_say_is_named(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {RANK, "", "r is not there, must be a rank"},
        {RANK, "\"r\": 0,", "r is 0, must be a rank"},
        {RANK, "\"r\": 2.5,", "r is 2.5, must be a rank"},
        {RANK, "\"r\": 9,", "r is 9, above the base's width, which is 8"},
        {RANK, "\"r\": 3,", "not F32 (3, 8)"},
        {"\"lora_alpha\": 16", "\"x\": 1", "lora_alpha is not there, must be above 0"},
        {"\"lora_alpha\": 16", "\"lora_alpha\": -1", "lora_alpha is -1, must be above 0"},
        {"\"lora_alpha\": 16", "\"lora_alpha\": \"much\"", "lora_alpha is much, must be above 0"},
        {"\"lora_alpha\": 16", "\"lora_alpha\": 1e300", "lora_alpha is 1e300, must be above 0"},
        {"\"bias\": \"none\"", "\"bias\": \"all\"", "bias is all, which is not supported"},
        {RANK, RANK " \"use_dora\": true,", "use_dora is yes, which is not supported"},
        {RANK, RANK " \"rank_pattern\": {\"q_proj\": 4},", "rank_pattern is {...}, which is not supported"},
        {RANK, RANK " \"layers_to_transform\": 0,",
         "it says that \"model.layers.1.self_attn.q_proj\" has no LoRA"},
        {RANK, RANK " \"layers_to_transform\": [0, 1],",
         "it says that \"model.layers.2.self_attn.q_proj\" has no LoRA"},
        {RANK, RANK " \"layers_to_transform\": {},", "a whole number"},
        {RANK, RANK " \"layers_to_transform\": [0.5],", "a whole number"},
        {RANK, RANK " \"base_model_name_or_path\": 1,", "repeated member"},
        {"\"target_modules\": [", "\"target_modules\": [3,", "expected"},
        {"\"target_modules\": [", "\"target_modules\": [\"k_proj\",",
         "says that \"model.layers.0.self_attn.k_proj\" has LoRA, unlike"},
    };
    ppo_lm *base = model_of("llama", 0), *lm = NULL;
    char *text = write_adapter(base, 0);
    for (int i = 0; i < COUNT(cases); i++) {
        char *changed = replaced(text, cases[i][0], cases[i][1]);
        write_text("in/adapter_config.json", changed);
        free(changed);
        assert_fails(ppo_lm_load_adapter("in", base, &lm), PPO_ERROR_FILE, cases[i][2]);
        assert_null(lm);
    }
    ppo_text_free(text);
    ppo_lm_free(base);
}

static void what_an_adapter_says_is_the_models(void **state) {
    (void)state;
    static const struct {
        const char *old, *by;
        float alpha;
        const char *base;
    } cases[] = {{RANK, RANK, 16, ""},
                 {RANK, RANK " \"use_rslora\": true,", 16 * 1.41421356f, ""},
                 {RANK, RANK " \"use_rslora\": false, \"use_dora\": false, \"rank_pattern\": {},", 16, ""},
                 {RANK, RANK " \"layers_to_transform\": [],", 16, ""},
                 {RANK, RANK " \"layers_to_transform\": [2, 0, 1],", 16, ""},
                 {RANK, RANK " \"exclude_modules\": [\"k_proj\"],", 16, ""},
                 {"\"target_modules\": [", "\"target_modules\": \".*\", \"unused\": [", 16, ""},
                 {"\"base_model_name_or_path\": null", "\"base_model_name_or_path\": \"a/b\"", 16, "a/b"}};
    for (int score = 0; score < 2; score++) {
        ppo_lm *base = model_of("llama", score), *lm = NULL;
        char *text = write_adapter(base, score);
        for (int i = 0; i < COUNT(cases); i++) {
            char *changed = replaced(text, cases[i].old, cases[i].by);
            write_text("in/adapter_config.json", changed);
            free(changed);
            assert_ok(ppo_lm_load_adapter("in", base, &lm));
            assert_close(lm->adapter->lora.alpha, cases[i].alpha, 1e-6);
            assert_string_equal(lm->adapter->base_model, cases[i].base);
            assert_int_equal(lm->score_weight != NULL, score);
            if (score && !i) {
                lm->score_bias->data[0] = 1;
                empty("out");
                assert_fails(ppo_lm_save(lm, "out", PPO_F32), PPO_ERROR_ARGUMENT,
                             "the score has a bias of 1, which peft's format cannot");
            }
            ppo_lm_free(lm);
        }
        ppo_text_free(text);
        remove("in/adapter_model.safetensors");
        assert_fails(ppo_lm_load_adapter("in", base, &lm), PPO_ERROR_FILE,
                     "there is no adapter_model.safetensors");
        write_text("in/pytorch_model.bin", "x");
        assert_fails(ppo_lm_load_adapter("in", base, &lm), PPO_ERROR_FILE,
                     "it has pytorch_model.bin, which is not read");
        assert_fails(ppo_lm_load_adapter("", base, &lm), PPO_ERROR_ARGUMENT, "the path is empty");
        ppo_lora lora = ppo_lora_default();
        static const struct {
            int rank;
            float alpha;
            const char *words;
        } bad[] = {{0, 16, "rank is 0, must be 1 to 8"},
                   {9, 16, "rank is 9, must be 1 to 8"},
                   {1, 0, "alpha is 0"},
                   {1, -1, "alpha is -1"},
                   {1, INFINITY, "alpha is inf"},
                   {1, NAN, "alpha is nan"}};
        for (int i = 0; i < COUNT(bad); i++) {
            lora.rank = bad[i].rank, lora.alpha = bad[i].alpha;
            assert_fails(ppo_lm_adapt(base, &lora, 0, &lm), PPO_ERROR_ARGUMENT, bad[i].words);
            assert_null(lm);
        }
        lora.rank = 8, lora.alpha = 16, lora.layers = ",";
        if (!score)
            assert_fails(ppo_lm_adapt(base, &lora, 0, &lm), PPO_ERROR_ARGUMENT,
                         "no layer of the model would get LoRA");
        assert_ok(ppo_lm_adapt(base, &lora, 1, &lm)); /* a score alone */
        ppo_lm_free(lm);
        ppo_lm_free(base);
    }
}

/* Numbers of the tokens that end a text, from either file. */
static void ends_are_read_from_folders(void **state) {
    (void)state;
    static const struct {
        const char *generation, *config;
        int count, first;
        const char *words; /* NULL: it is read */
    } cases[] = {{NULL, "{\"eos_token_id\": 3}", 1, 3, NULL},
                 {"{\"eos_token_id\": [5, 6, 7]}", "{\"eos_token_id\": 3}", 3, 5, NULL},
                 {"{}", "{\"eos_token_id\": 3}", 1, 3, NULL},
                 {"{\"eos_token_id\": []}", "{}", 0, 0, NULL},
                 {NULL, NULL, 0, 0, NULL},
                 {"{\"eos_token_id\": 2147483647}", NULL, 1, 2147483647, NULL},
                 {"{\"eos_token_id\": 2147483648}", NULL, 0, 0, "expected a whole number below 2^31"},
                 {"{\"eos_token_id\": 1.5}", NULL, 0, 0, "a whole number"},
                 {"{\"eos_token_id\": [\"a\"]}", NULL, 0, 0, "expected"},
                 {"3", NULL, 0, 0, "expected \"{\""}};
    int ends[2], count;
    for (int i = 0; i < COUNT(cases); i++) {
        empty("in");
        if (cases[i].generation) write_text("in/generation_config.json", cases[i].generation);
        if (cases[i].config) write_text("in/config.json", cases[i].config);
        if (cases[i].words)
            assert_fails(ppo_lm_load_ends("in", ends, 2, &count), PPO_ERROR_FILE, cases[i].words);
        else assert_ok(ppo_lm_load_ends("in", ends, 2, &count));
        assert_int_equal(count, cases[i].count);
        if (count) assert_int_equal(ends[0], cases[i].first);
    }
    assert_fails(ppo_lm_load_ends("nowhere", ends, 2, &count), PPO_ERROR_FILE, "nowhere");
    assert_fails(ppo_lm_load_ends("", ends, 2, &count), PPO_ERROR_ARGUMENT, "the path is empty");
    assert_fails(ppo_lm_load_ends(NULL, ends, 2, &count), PPO_ERROR_ARGUMENT, "path is NULL");
    assert_fails(ppo_lm_load_ends("in", ends, 2, NULL), PPO_ERROR_ARGUMENT, "count is NULL");
    assert_fails(ppo_lm_load_ends("in", NULL, 2, &count), PPO_ERROR_ARGUMENT, "end is NULL");
    /* a file of JSON that is too large, of which nothing is read */
    empty("in");
    write_text("in/config.json", "{}");
    FILE *large = fopen("in/config.json", "r+b");
    assert_non_null(large);
    assert_int_equal(fseek(large, 100000000, SEEK_SET), 0);
    assert_int_equal(fputc('}', large), '}');
    assert_int_equal(fclose(large), 0);
    assert_fails(ppo_lm_load_ends("in", ends, 2, &count), PPO_ERROR_FILE,
                 "it has 100000001 bytes, more than 100000000");
}

/* --------------------------------------------------------------------------------------------------------
   Data
   -------------------------------------------------------------------------------------------------------- */

static void tokens_in_a_file_must_make_sequences(void **state) {
    (void)state;
    static const int32_t tokens[] = {1, 2, 3, 4}, good[] = {0, 2, 4}, late[] = {1, 2, 4},
                         short_[] = {0, 2, 3}, back[] = {0, 3, 2, 4}, far[] = {0, 9, 4}, prompts[] = {1, 0},
                         wide[] = {3, 0};
    static const unsigned char given[] = {0, 0, 1, 0};
    static const struct {
        int n, bounds;
        const int32_t *start, *prompt;
        const unsigned char *given;
        const char *words;
    } cases[] = {{4, 0, NULL, NULL, NULL, NULL},
                 {4, 3, good, NULL, NULL, NULL},
                 {4, 3, good, prompts, given, NULL},
                 {0, 0, NULL, NULL, NULL, "0 tokens in 1 sequences"},
                 {4, 1, good, NULL, NULL, "4 tokens in 0 sequences"},
                 {4, 3, late, NULL, NULL, "its sequences are tokens 1 to 4 of 4"},
                 {4, 3, short_, NULL, NULL, "its sequences are tokens 0 to 3 of 4"},
                 {4, 4, back, NULL, NULL, "sequence 1 is tokens 3 to 2 of 4"},
                 {4, 3, far, NULL, NULL, "sequence 0 is tokens 0 to 9 of 4"},
                 {4, 3, good, wide, NULL, "2 tokens, 3 of them given"}};
    for (int i = 0; i < COUNT(cases); i++) {
        const int64_t n = cases[i].n, m = cases[i].bounds, count = m - 1;
        ppo_file *file = NULL;
        ppo_tokens read = {0};
        assert_ok(ppo_file_create(&file));
        assert_ok(ppo_file_add(file, "tokens", PPO_I32, &n, 1, tokens));
        if (cases[i].start) assert_ok(ppo_file_add(file, "tokens.start", PPO_I32, &m, 1, cases[i].start));
        if (cases[i].prompt)
            assert_ok(ppo_file_add(file, "tokens.prompt", PPO_I32, &count, 1, cases[i].prompt));
        if (cases[i].given) assert_ok(ppo_file_add(file, "tokens.given", PPO_U8, &n, 1, cases[i].given));
        assert_ok(ppo_file_write(file, "in/part.safetensors"));
        ppo_file_free(file);
        if (cases[i].words)
            assert_fails(ppo_tokens_load("in/part.safetensors", &read), PPO_ERROR_FILE, cases[i].words);
        else {
            assert_ok(ppo_tokens_load("in/part.safetensors", &read));
            assert_int_equal(read.count, cases[i].start ? 2 : 1);
            assert_ok(ppo_tokens_save(&read, "in/part.safetensors"));
        }
        assert_int_equal(read.count == 0, cases[i].words != NULL);
        ppo_tokens_free(&read);
    }
    for (int k = 0; k < 2; k++) { /* single numbers */
        const int64_t four = 4;
        ppo_file *file = NULL;
        ppo_tokens read = {0};
        assert_ok(ppo_file_create(&file));
        assert_ok(ppo_file_add(file, "tokens", PPO_I32, &four, k, tokens));
        if (k) assert_ok(ppo_file_add(file, "tokens.start", PPO_I32, NULL, 0, good));
        assert_ok(ppo_file_write(file, "in/part.safetensors"));
        ppo_file_free(file);
        assert_fails(ppo_tokens_load("in/part.safetensors", &read), PPO_ERROR_FILE,
                     k ? "tokens.start" : "tokens");
    }
    int token[] = {1, 2}, start[] = {0, 2};
    ppo_tokens mine = {1, start, NULL, token, NULL, NULL}, read = {0};
    assert_ok(ppo_tokens_save(&mine, "in/part.safetensors")); /* without prompts */
    assert_ok(ppo_tokens_load("in/part.safetensors", &read));
    assert_true(read.count == 1 && read.prompt[0] == 0 && read.start[1] == 2);
    ppo_tokens_free(&read);
    ppo_tokens none = {0};
    assert_fails(ppo_tokens_save(&none, "in/part.safetensors"), PPO_ERROR_ARGUMENT, "there are no tokens");
    assert_fails(ppo_tokens_save(NULL, "in/part.safetensors"), PPO_ERROR_ARGUMENT, "there are no tokens");
    assert_fails(ppo_tokens_load(NULL, &none), PPO_ERROR_ARGUMENT, "path is NULL");
    assert_fails(ppo_tokens_load("in/part.safetensors", NULL), PPO_ERROR_ARGUMENT, "tokens is NULL");
}

/* Texts in which the names of special tokens are those tokens, with one at the start and at the end, each once. */
static void written_texts_begin_and_end_once(void **state) {
    (void)state;
    static const struct {
        const char *prompt, *response;
        int start, end, count, given;
        int want[6];
    } cases[] = {{"a", "b", 4, 5, 4, 2, {4, 0, 1, 5}}, {"<s>a", "b</s>", 4, 5, 4, 2, {4, 0, 1, 5}},
                 {"", "<s>b", 4, -1, 2, 0, {4, 1}},    {"", "b", 4, -1, 2, 1, {4, 1}},
                 {"a", NULL, -1, 5, 1, 1, {0}},        {"a", "", -1, 5, 2, 1, {0, 5}},
                 {"a", "b", 0, -1, 3, 2, {0, 0, 1}},   {"a", "</s>b", -1, 5, 4, 1, {0, 5, 1, 5}}};
    ppo_tokenizer *tok = with_config(NULL, NULL);
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_tokens tokens = {0};
        assert_ok(ppo_tokens_add_written(&tokens, tok, cases[i].start, cases[i].prompt, cases[i].response,
                                         cases[i].end));
        if (tokens.start[1] != cases[i].count || tokens.prompt[0] != cases[i].given ||
            memcmp(tokens.token, cases[i].want, (size_t)cases[i].count * sizeof(int)))
            fail_msg("case %d: %d tokens, %d given", i, tokens.start[1], tokens.prompt[0]);
        ppo_tokens_free(&tokens);
    }
    ppo_tokens tokens = {0};
    assert_fails(ppo_tokens_add_written(&tokens, tok, 6, "a", NULL, -1), PPO_ERROR_ARGUMENT,
                 "start is 6 and end -1, tokens are 0 .. 5");
    assert_fails(ppo_tokens_add_written(&tokens, tok, -1, "", NULL, -1), PPO_ERROR_ARGUMENT, "0 tokens");
    assert_fails(ppo_tokens_add_written(&tokens, tok, -1, "a", NULL, 6), PPO_ERROR_ARGUMENT,
                 "start is -1 and end 6");
    ppo_tokenizer_free(tok);
}

/* What a sequence so far ends with, and texts that are none. */
static void a_stop_is_found_at_the_end(void **state) {
    (void)state;
    const char *const texts[] = {"ba", NULL, ""};
    int token[] = {0, 2, 1, 0}, start[] = {0, 4}, two[] = {0, 2, 4}, prompt[] = {1}, stop = 0;
    ppo_tokenizer *tok = with_config(NULL, NULL);
    ppo_stops stops = {tok, texts, 1};
    ppo_tokens so_far = {1, start, prompt, token, NULL, NULL}, empty_response = so_far, both = so_far;
    assert_ok(ppo_stop_at(&so_far, 0, &stop, &stops));
    assert_int_equal(stop, 1);
    stop = 0, start[1] = 3;
    assert_ok(ppo_stop_at(&so_far, 0, &stop, &stops)); /* "abb" */
    assert_int_equal(stop, 0);
    start[1] = 1;
    assert_ok(ppo_stop_at(&empty_response, 0, &stop, &stops));
    assert_int_equal(stop, 0);
    start[1] = 4, both.count = 2, both.start = two;
    assert_fails(ppo_stop_at(&both, 0, &stop, &stops), PPO_ERROR_ARGUMENT, "2 texts, must be 1");
    for (stops.count = 2; stops.count <= 3; stops.count++) {
        stops.text = texts + stops.count - 2;
        assert_fails(ppo_stop_at(&so_far, 0, &stop, &stops), PPO_ERROR_ARGUMENT,
                     stops.count == 2 ? "text 1 is NULL" : "text 0 is NULL");
    }
    stops.text = texts + 2, stops.count = 1;
    assert_fails(ppo_stop_at(&so_far, 0, &stop, &stops), PPO_ERROR_ARGUMENT, "text 0 is empty");
    stops.text = NULL;
    assert_fails(ppo_stop_at(&so_far, 0, &stop, &stops), PPO_ERROR_ARGUMENT, "NULL");
    stops.tokenizer = NULL;
    assert_fails(ppo_stop_at(&so_far, 0, &stop, &stops), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_stop_at(NULL, 0, &stop, &stops), PPO_ERROR_ARGUMENT, "NULL");
    ppo_tokenizer_free(tok);
}

/* Syllables are composed as Unicode says: of a leading consonant and a vowel, and then of a trailing consonant. */
static void syllables_of_hangul_are_composed(void **state) {
    (void)state;
#define GA        "\352\260\200"
#define GAK       "\352\260\201"
#define G         "\341\204\200"
#define A         "\341\205\241"
#define K         "\341\206\250"
#define OLD_VOWEL "\341\205\266"
#define NO_TAIL   "\341\206\247"
#define OLD_TAIL  "\341\207\203"
    static const char json[] =
        "{\"normalizer\": {\"type\": \"NFC\"}, \"decoder\": {\"type\": \"Fuse\"}, \"model\": {\"vocab\": "
        "{\"" GA "\": 0, \"" GAK "\": 1, \"" G "\": 2, \"" A "\": 3, \"" K "\": 4, \"" OLD_VOWEL
        "\": 5, \"" NO_TAIL "\": 6, \"" OLD_TAIL "\": 7}, \"merges\": []}}";
    static const struct {
        const char *text;
        int count, want[3];
    } cases[] = {{GA, 1, {0}},
                 {GAK, 1, {1}},
                 {G A, 1, {0}},
                 {G A K, 1, {1}},
                 {GA K, 1, {1}},
                 {GAK K, 2, {1, 4}},
                 {G K, 2, {2, 4}},
                 {A G, 2, {3, 2}},
                 {G OLD_VOWEL, 2, {2, 5}},
                 {GA NO_TAIL, 2, {0, 6}},
                 {GA OLD_TAIL, 2, {0, 7}}};
    ppo_tokenizer *tok = NULL;
    empty("in");
    write_text("in/tokenizer.json", json);
    assert_ok(ppo_tokenizer_load("in", &tok));
    for (int i = 0; i < COUNT(cases); i++) {
        int tokens[12], count;
        assert_ok(ppo_encode(tok, cases[i].text, strlen(cases[i].text), tokens, 12, &count));
        if (count != cases[i].count || memcmp(tokens, cases[i].want, (size_t)count * sizeof *tokens))
            fail_msg("case %d: %d tokens, the first %d", i, count, tokens[0]);
    }
    ppo_tokenizer_free(tok);
}

/* A tokenizer of another kind has no notes, fits every family but Qwen's, and finds no names. */
static void a_tokenizer_of_characters_has_no_file_to_speak_of(void **state) {
    (void)state;
    ppo_tokenizer *tok = NULL;
    assert_ok(ppo_tokenizer_characters("ab", 2, NULL, 0, &tok));
    assert_string_equal(ppo_tokenizer_note(tok), "");
    assert_string_equal(ppo_tokenizer_chat_note(tok, PPO_CHATML), "");
    assert_int_equal(ppo_tokenizer_find(tok, "a"), -1);
    assert_int_equal(ppo_tokenizer_pad(tok, 0), -1);
    assert_ok(ppo_tokenizer_fits(tok, "llama"));
    assert_fails(ppo_tokenizer_fits(tok, "qwen2"), PPO_ERROR_ARGUMENT, "family qwen2");
    ppo_tokenizer_free(tok);
    empty("in");
    assert_ok(load_changed(pieces_json, "BPE", "BPE", &tok));
    assert_fails(ppo_tokenizer_fits(tok, "qwen2"), PPO_ERROR_ARGUMENT, "family qwen2");
    ppo_tokenizer_free(tok);
}

/* A line that is longer than any, which takes its time: make coverage and make test-long read it. */
static void a_line_without_an_end_is_refused(void **state) {
    (void)state;
    enum { MIB = 1 << 20 };
    ppo_tokenizer *tok = with_config(NULL, NULL);
    ppo_tokens tokens = {0};
    if (!getenv("PPO_TEST_FINE") && !getenv("PPO_TEST_FULL")) {
        ppo_tokenizer_free(tok);
        skip();
    }
    FILE *out = fopen("in/merges.txt", "wb");
    char *block = (char *)malloc(MIB);
    assert_true(out != NULL && block != NULL);
    memset(block, ' ', MIB);
    for (int i = 0; i < 65; i++) assert_int_equal(fwrite(block, 1, MIB, out), MIB);
    assert_int_equal(fclose(out), 0);
    assert_fails(ppo_tokens_add_lines(&tokens, NULL, "in/merges.txt", tok, NULL, NULL), PPO_ERROR_FILE,
                 "line 1 is longer than 67108864 bytes");
    free(block);
    ppo_tokenizer_free(tok);
}

/* --------------------------------------------------------------------------------------------------------
   New tokens
   -------------------------------------------------------------------------------------------------------- */

static const char *const chat_tokens[] = {"<|im_start|>", "<|im_end|>"};

static ppo_tokenizer *tokenizer_from(const char *json) {
    ppo_tokenizer *tok = NULL;
    empty("in");
    assert_ok(load_changed(json, "BPE", "BPE", &tok));
    return tok;
}

static void new_tokens_follow_all_others_and_are_saved(void **state) {
    (void)state;
    static const char text[] = "ab<|im_start|>a<|im_end|><s>";
    for (int kind = 0; kind < 2; kind++) {
        ppo_tokenizer *tok = tokenizer_from(kind ? pieces_json : bytes_json), *back = NULL;
        int plain[2][32], named[2][32], n[4];
        char *written = NULL;
        assert_ok(ppo_encode(tok, "ab a", 4 - kind, plain[0], 32, &n[0]));
        assert_ok(ppo_tokenizer_add(tok, chat_tokens, 2));
        assert_int_equal(ppo_tokenizer_vocab(tok), 8);
        for (int k = 0; k < 2; k++) assert_int_equal(ppo_tokenizer_special(tok, chat_tokens[k]), 6 + k);
        assert_ok(ppo_encode(tok, "ab a", 4 - kind, plain[1], 32, &n[1]));
        assert_int_equal(n[0], n[1]);
        assert_memory_equal(plain[0], plain[1], (size_t)n[0] * sizeof(int));
        assert_ok(ppo_tokenizer_save(tok, "out"));
        assert_ok(ppo_tokenizer_load("out", &back));
        assert_ok(ppo_encode_as(tok, PPO_ENCODE_SPECIALS, text, strlen(text), named[0], 32, &n[2]));
        assert_ok(ppo_encode_as(back, PPO_ENCODE_SPECIALS, text, strlen(text), named[1], 32, &n[3]));
        assert_int_equal(n[2], n[3]);
        assert_memory_equal(named[0], named[1], (size_t)n[2] * sizeof(int));
        assert_int_equal(named[0][n[2] - 1], kind ? 5 : 4);
        assert_int_equal(named[0][n[2] - 2], 7);
        assert_ok(ppo_text_load("out/tokenizer.json", &written, NULL));
        assert_non_null(strstr(written, "{\"id\": 7, \"content\": \"<|im_end|>\", \"single_word\": false"));
        ppo_text_free(written), ppo_tokenizer_free(tok), ppo_tokenizer_free(back);
        empty("out");
    }
    char *spaced = replaced(bytes_json, "]", "\n  ]"),
         *saved = NULL; /* new ones follow the last old one at once */
    ppo_tokenizer *wide = tokenizer_from(spaced);
    assert_ok(ppo_tokenizer_add(wide, chat_tokens, 2));
    assert_ok(ppo_tokenizer_save(wide, "out"));
    assert_ok(ppo_text_load("out/tokenizer.json", &saved, NULL));
    assert_non_null(strstr(saved, "},\n    {\"id\": 6"));
    ppo_text_free(saved), ppo_tokenizer_free(wide), free(spaced);
    empty("out");
    /* a file without added tokens; what tokenizer_config.json said; names that JSON must escape */
    static const char *const lists[] = {"\"unused\"", "\"added_tokens\": null, \"unused\"",
                                        "\"added_tokens\": [ ], \"unused\""};
    static const char *const odd[] = {"<\"\\>"};
    for (int i = 0; i < COUNT(lists); i++) {
        ppo_tokenizer *tok = NULL;
        empty("in");
        write_text("in/tokenizer_config.json", "{\"eos_token\": \"</s>\", \"add_bos_token\": true}");
        write_text("in/chat_template.jinja", "{{ x }}");
        assert_ok(load_changed(bytes_json, "\"added_tokens\"", lists[i], &tok));
        assert_ok(ppo_tokenizer_add(tok, odd, 1));
        assert_int_equal(ppo_tokenizer_special(tok, odd[0]), 4);
        assert_non_null(strstr(ppo_tokenizer_note(tok), "add_bos_token is true"));
        assert_non_null(strstr(ppo_tokenizer_chat_note(tok, PPO_CHATML), "template"));
        assert_ok(ppo_tokenizer_add(tok, chat_tokens, 2)); /* more, another time */
        assert_int_equal(ppo_tokenizer_special(tok, "<|im_end|>"), 6);
        assert_ok(ppo_tokenizer_save(tok, "out"));
        ppo_tokenizer_free(tok);
        empty("in"), empty("out");
    }
}

/* UTF-8's mark before a tokenizer.json is no part of it; the character before that one is no mark. */
static void a_mark_before_a_tokenizer_is_left_out(void **state) {
    (void)state;
    ppo_tokenizer *tok = NULL, *back = NULL;
    int tokens[4], count;
    empty("in"), empty("out");
    assert_fails(load_changed(bytes_json, "{\"added_tokens\"", "\357\273\276{\"added_tokens\"", &tok),
                 PPO_ERROR_FILE, "byte 0: expected \"{\"");
    assert_ok(load_changed(bytes_json, "{\"added_tokens\"", "\357\273\277{\"added_tokens\"", &tok));
    assert_ok(ppo_tokenizer_add(tok, chat_tokens, 2));
    assert_ok(ppo_tokenizer_save(tok, "out"));
    assert_ok(ppo_tokenizer_load("out", &back));
    assert_ok(ppo_encode_as(back, PPO_ENCODE_SPECIALS, "ab<|im_end|>", 12, tokens, 4, &count));
    assert_true(count == 2 && tokens[0] == 2 && tokens[1] == 7);
    ppo_tokenizer_free(tok), ppo_tokenizer_free(back);
    empty("out");
}

static void new_tokens_that_are_there_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *name, *words; /* the second name */
    } cases[] = {{"", "special token 1 is NULL, empty"}, {"<s>", "\"<s>\" is token 4 already"},
                 {"ab", "\"ab\" is token 2 already"},    {"\304\240", "is token 3 already"},
                 {"<new>", "both called \"<new>\""},     {"\377", "not UTF-8"},
                 {"a\n", "control characters"},          {"a", "\"a\" is token 0 already"}};
    ppo_tokenizer *tok = tokenizer_from(bytes_json), *characters = NULL;
    for (int i = 0; i < COUNT(cases); i++) {
        const char *const names[] = {"<new>", cases[i].name};
        assert_fails(ppo_tokenizer_add(tok, names, 2), PPO_ERROR_ARGUMENT, cases[i].words);
        assert_int_equal(ppo_tokenizer_vocab(tok), 6);
    }
    assert_ok(ppo_tokenizer_add(tok, chat_tokens, 0));
    assert_int_equal(ppo_tokenizer_vocab(tok), 6);
    assert_ok(ppo_tokenizer_characters("ab", 2, NULL, 0, &characters));
    assert_fails(ppo_tokenizer_add(characters, chat_tokens, 2), PPO_ERROR_ARGUMENT,
                 "not one of a tokenizer.json");
    ppo_tokenizer_free(tok), ppo_tokenizer_free(characters);
}

/* Logits of four tokens, [4][vocab]. */
static void logits_of(const ppo_lm *lm, float *out) {
    ppo_tokens tokens = {0};
    ppo_tape *tape = NULL;
    const int text[] = {3, 1, 7, 5};
    assert_ok(ppo_tokens_add(&tokens, text, 4, 0));
    assert_ok(ppo_tape_create(&tape));
    const ppo_tensor *logits = ppo_lm_logits(tape, lm, ppo_lm_forward(tape, lm, &tokens));
    assert_ok(ppo_tape_status(tape));
    memcpy(out, logits->data, (size_t)logits->rows * (size_t)logits->cols * sizeof *out);
    ppo_tape_free(tape), ppo_tokens_free(&tokens);
}

static void a_larger_model_computes_what_it_did(void **state) {
    (void)state;
    static const char *const families[] = {"llama", "gpt2", "gemma3_text", "granite", "gpt_neox"};
    float was[4][9], is[4][12];
    for (int i = 0; i < 2 * COUNT(families); i++) {
        ppo_lm *lm = model_of(families[i / 2], 0), *larger = NULL, *back = NULL;
        if (i % 2) assert_ok(ppo_params_to_bf16(lm->params));
        lm->config.context = 5;
        logits_of(lm, was[0]);
        assert_ok(ppo_lm_resize(lm, 12, &larger));
        assert_int_equal(larger->config.context, 5);
        empty("out");
        assert_ok(ppo_lm_save(larger, "out", PPO_F32));
        assert_ok(ppo_lm_load("out", &back));
        assert_int_equal(back->config.vocab, 12);
        logits_of(back, is[0]);
        for (int t = 0; t < 4; t++) {
            double mean = 0;
            for (int k = 0; k < 9; k++) assert_close(is[t][k], was[t][k], 1e-6);
            for (int k = 0; k < 9; k++) mean += was[t][k] / 9.;
            for (int k = 9; k < 12; k++)
                assert_close(is[t][k], mean, 1e-5); /* logits are linear in the rows */
        }
        ppo_lm_free(lm), ppo_lm_free(larger), ppo_lm_free(back);
    }
    ppo_lm *lm = model_of("llama", 0), *none = NULL, *adapted = NULL;
    const ppo_lora lora = ppo_lora_default();
    assert_fails(ppo_lm_resize(lm, 8, &none), PPO_ERROR_ARGUMENT, "vocab is 8, must be 9");
    assert_ok(ppo_lm_adapt(lm, &lora, 0, &adapted));
    assert_fails(ppo_lm_resize(adapted, 12, &none), PPO_ERROR_ARGUMENT, "LoRA|ppo_lm_merge");
    assert_null(none);
    ppo_lm_free(adapted), ppo_lm_free(lm);
}

static void lines_with_a_label_are_of_one_kind_each(void **state) {
    (void)state;
    static const char labels[] = "{\"prompt\": \"ab\", \"completion\": \"a\", \"label\": true}\n"
                                 "{\"prompt\": \"a\", \"completion\": \"b\", \"label\": false}\n"
                                 "{\"prompt\": \"b\", \"completion\": \"ab\", \"label\": true}\n"
                                 "{\"prompt\": \"b\", \"chosen\": \"a\", \"rejected\": \"b\"}\n";
    static const struct {
        const char *prompt, *response;
        int bad;
    } want[] = {{"ab", "a", 0}, {"a", "b", 1}, {"b", "ab", 0}, {"b", "a", 0}, {"b", "b", 1}};
    ppo_tokenizer *tok = tokenizer_from(bytes_json);
    ppo_tokens data[2] = {{0}, {0}}, wanted[2] = {{0}, {0}};
    ppo_lines how = ppo_lines_default();
    write_text("in/lines", labels);
    how.labels = 1;
    assert_ok(ppo_tokens_add_lines(&data[0], &data[1], "in/lines", tok, &how, NULL));
    for (int k = 0; k < COUNT(want); k++)
        assert_ok(ppo_tokens_add_text(&wanted[want[k].bad], tok, -1, want[k].prompt, want[k].response, -1));
    for (int k = 0; k < 2; k++) {
        assert_int_equal(data[k].count, 3 - k);
        assert_int_equal(data[k].start[3 - k], wanted[k].start[3 - k]);
        assert_memory_equal(data[k].token, wanted[k].token, (size_t)data[k].start[3 - k] * sizeof(int));
        assert_memory_equal(data[k].prompt, wanted[k].prompt, (size_t)data[k].count * sizeof(int));
    }
    static const char *const bad[][2] = {
        {"{\"prompt\": \"a\", \"completion\": \"b\", \"label\": 1}", "true or false"},
        {"{\"prompt\": \"a\", \"label\": true}", "token to learn after its prompt"},
        {"{\"answer\": \"a\", \"label\": true}", "prompt and completion beside its label"}};
    how.needs = PPO_NEEDS_RESPONSE;
    for (int k = 0; k < COUNT(bad); k++) {
        write_text("in/lines", bad[k][0]);
        assert_fails(ppo_tokens_add_lines(&data[0], &data[1], "in/lines", tok, &how, NULL), PPO_ERROR_FILE,
                     bad[k][1]);
        assert_int_equal(data[0].count + data[1].count, 5);
    }
    /* where names are tokens, none is told, even if token 0 has one */
    ppo_named named;
    ppo_tokenizer *first = NULL;
    empty("in");
    assert_ok(load_changed(unigram_json, "a", "a", &first));
    how.named = &named, how.specials = 1;
    write_text("in/lines", "{\"text\": \"ab\"}");
    assert_ok(ppo_tokens_add_lines(&data[0], NULL, "in/lines", first, &how, NULL));
    assert_int_equal(named.line, 0);
    ppo_tokenizer_free(first);
    how.labels = 0; /* where pairs are needed */
    write_text("in/lines", labels);
    assert_fails(ppo_tokens_add_lines(&data[0], &data[1], "in/lines", tok, &how, NULL), PPO_ERROR_FILE,
                 "line 1 has no chosen and rejected");
    for (int k = 0; k < 2; k++) ppo_tokens_free(&data[k]), ppo_tokens_free(&wanted[k]);
    ppo_tokenizer_free(tok);
    remove("in/lines");
}

/* Where a line ends within an object, whatever spaces follow, that is told; and no other line is taken for one. */
static void an_object_on_several_lines_is_told_from_others(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"{\r\n  \"text\": \"a\"\r\n}\r\n", "line 1: an object continues on the next line"},
        {" \t{ \t\r\n\"text\": \"a\"}", "line 1: an object continues"},
        {"{\"text\": \"a\"}\n{\"text\": \"a\", \n\"b\": 1}", "line 2: an object continues"},
        {"{\"b\": [ \r\n1], \"text\": \"a\"}", "line 1: an object continues"},
        {"{\"b\": {\t\n}, \"text\": \"a\"}", "line 1: an object continues"},
        {"{\"text\": \n\"a\"}", "of line 1: expected a value"},
        {"\357\273\277\n{\"text\": \"a\"}", "of line 1: expected \"{\""},
        {" \t{\"text\": \"aba\"} \t\r\n \t\r\n{\"text\": \"bab\"}\t", NULL},
        {"\357\273\277 {\"text\": \"aba\"} \n{\"text\": \"bab\"}", NULL}};
    ppo_tokenizer *tok = tokenizer_from(bytes_json);
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_tokens data = {0};
        write_text("in/lines", cases[i][0]);
        if (cases[i][1])
            assert_fails(ppo_tokens_add_lines(&data, NULL, "in/lines", tok, NULL, NULL), PPO_ERROR_FILE,
                         cases[i][1]);
        else assert_ok(ppo_tokens_add_lines(&data, NULL, "in/lines", tok, NULL, NULL));
        assert_int_equal(data.count, cases[i][1] ? 0 : 2);
        ppo_tokens_free(&data);
    }
    ppo_tokenizer_free(tok);
    remove("in/lines");
}

/* An allocator that remembers the largest number of blocks. */
typedef struct peak {
    heap heap;
    long most;
} peak;

static void *peak_hook(void *user, void *ptr, size_t size) {
    peak *p = (peak *)user;
    void *block = heap_hook(&p->heap, ptr, size);
    if (p->heap.live > p->most) p->most = p->heap.live;
    return block;
}

/* A line takes the memory of the one before. */
static void many_lines_take_no_more_memory_than_one(void **state) {
    (void)state;
    enum { LINES = 100, NUMBERS = 1000 };
    ppo_tokenizer *tok = tokenizer_from(bytes_json);
    long most[2];
    for (int k = 0; k < 2; k++) {
        peak p = {{0, 0, -1, 0}, 0};
        ppo_tokens data = {0};
        FILE *out = fopen("in/lines", "wb");
        assert_non_null(out);
        for (int line = 0; line < (k ? LINES : 1); line++) {
            fputs("{\"text\": \"aba\", \"more\": [0", out);
            for (int i = 1; i < NUMBERS; i++) fputs(",0", out);
            fputs("]}\n", out);
        }
        assert_int_equal(fclose(out), 0);
        ppo_set_allocator(peak_hook, &p);
        const ppo_status status = ppo_tokens_add_lines(&data, NULL, "in/lines", tok, NULL, NULL);
        most[k] = p.most;
        ppo_set_allocator(NULL, NULL);
        assert_ok(status);
        assert_int_equal(data.count, k ? LINES : 1);
        ppo_tokens_free(&data);
    }
    assert_true(most[1] < most[0] + LINES / 2);
    ppo_tokenizer_free(tok);
    remove("in/lines");
}

/* What a template strips from a message is what Python's strip() does: spaces and separators, but no escape. */
static void a_message_loses_its_spaces_as_in_python(void **state) {
    (void)state;
    static const char *const names[] = {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
                                        "<|eot_id|>"};
    static const char *const cases[][2] = {{"\033a b\033", "\033a b\033"},
                                           {"\034a b\037", "a b"},
                                           {" \036\t\nab\f\v\r\035", "ab"},
                                           {"a", "a"},
                                           {" \t ", ""},
                                           {"", ""}};
    ppo_tokenizer *tok = NULL;
    assert_ok(ppo_tokenizer_bytes(names, COUNT(names), &tok));
    for (int i = 0; i < COUNT(cases); i++) {
        const ppo_message said = {"user", cases[i][0]};
        ppo_tokens chat = {0};
        char text[200], want[200];
        assert_ok(ppo_tokens_add_chat(&chat, tok, PPO_CHAT_LLAMA3, &said, 1, 0));
        assert_ok(ppo_tokens_text(&chat, 0, PPO_WHOLE_TEXT, tok, text, sizeof text));
        snprintf(want, sizeof want, "user\n\n%s", cases[i][1]);
        assert_string_equal(text, want);
        ppo_tokens_free(&chat);
    }
    ppo_tokenizer_free(tok);
}

/* A model whose tokenizer has no token of chats learns two answers, and to end them. */
static void a_base_model_is_taught_a_chat(void **state) {
    (void)state;
    static const ppo_message chats[2][2] = {{{"user", "who"}, {"assistant", "he"}},
                                            {{"user", "why"}, {"assistant", "so"}}};
    static const char *const end_of_text[] = {"<|endoftext|>"};
    ppo_tokenizer *bytes = NULL, *tok = NULL;
    ppo_lm *base = NULL, *lm = NULL;
    ppo_generator *generator = NULL;
    ppo_tokens data = {0}, prompts = {0};
    ppo_samples samples;
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_sampling how = ppo_sampling_default();
    char said[32];
    assert_ok(ppo_tokenizer_bytes(end_of_text, 1, &bytes));
    assert_ok(ppo_tokenizer_save(bytes, "out"));
    assert_ok(ppo_tokenizer_load("out", &tok));
    ppo_lm_config c = lm_config(ppo_tokenizer_vocab(tok), 64, 16, 1, 2);
    c.score = 0;
    assert_ok(ppo_lm_config_family(&c, "llama"));
    assert_ok(ppo_lm_create(&c, &base));
    assert_ok(ppo_tokenizer_add(tok, chat_tokens, 2));
    assert_ok(ppo_lm_resize(base, ppo_tokenizer_vocab(tok), &lm));
    const int end = ppo_chat_end(tok, PPO_CHATML);
    assert_int_equal(end, 258);
    for (int k = 0; k < 2; k++) {
        assert_ok(ppo_tokens_add_chat(&data, tok, PPO_CHATML, chats[k], 2, 0));
        assert_ok(ppo_tokens_add_chat(&prompts, tok, PPO_CHATML, chats[k], 1, 1));
    }
    fit.epochs = 60;
    fit.learning_rate = 2e-2f;
    assert_ok(ppo_fit_sft(lm, &data, &fit));
    how.eos = end;
    how.max_new_tokens = 8;
    how.top_k = 1;
    assert_ok(ppo_generator_create(lm, 2, &generator));
    assert_ok(ppo_generate(generator, &prompts, &how, &samples));
    for (int k = 0; k < 2; k++) {
        assert_ok(ppo_tokens_text(&samples.tokens, k, PPO_RESPONSE_TEXT, tok, said, sizeof said));
        assert_string_equal(said, chats[k][1].text);
        assert_int_equal(samples.tokens.token[samples.tokens.start[k + 1] - 1], end);
    }
    ppo_generator_free(generator), ppo_tokens_free(&data), ppo_tokens_free(&prompts);
    ppo_lm_free(base), ppo_lm_free(lm), ppo_tokenizer_free(bytes), ppo_tokenizer_free(tok);
}

static ppo_status add_and_resize(void *user) {
    ppo_tokenizer *tok = NULL;
    ppo_lm *larger = NULL;
    ppo_status status = ppo_tokenizer_load("in", &tok);
    if (!status && (status = ppo_tokenizer_add(tok, chat_tokens, 2)) != PPO_OK)
        assert_int_equal(ppo_tokenizer_vocab(tok), 6); /* as it was */
    if (!status) status = ppo_lm_resize((const ppo_lm *)user, 12, &larger);
    ppo_lm_free(larger), ppo_tokenizer_free(tok);
    return status;
}

static void new_tokens_without_memory_are_refused(void **state) {
    (void)state;
    ppo_lm *lm = model_of("llama", 0);
    ppo_tokenizer_free(with_config("{\"eos_token\": \"</s>\"}", "{{ x }}"));
    fail_each_allocation(add_and_resize, lm);
    ppo_lm_free(lm);
}

/* Gemma's has 262,208 tokens: as many in a tokenizer, an embedding, and logits. */
static void a_vocabulary_of_gemmas_size_is_used_to_its_last_token(void **state) {
    (void)state;
#ifdef PPO_TEST_SMALL
    skip();
#endif
    enum { MANY = 262208 };
    char *json = (char *)malloc((size_t)MANY * 20 + 1000), *at = json;
    assert_non_null(json);
    at += sprintf(at, "{\"added_tokens\": [" ADDED(
                          "262207", "<last>") "], \"normalizer\": null, \"pre_tokenizer\": "
                                              "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "
                                              "\"decoder\": {\"type\": \"ByteLevel\"}, "
                                              "\"model\": {\"type\": \"BPE\", \"vocab\": {");
    for (int k = 0; k < MANY - 1; k++) at += sprintf(at, "%s\"%x\":%d", k ? "," : "", (unsigned)k, k);
    strcpy(at, "}, \"merges\": [\"f f\", \"ff ff\"]}}");
    ppo_tokenizer *tok = NULL;
    int tokens[8], count;
    write_text("in/tokenizer.json", json);
    free(json);
    assert_ok(ppo_tokenizer_load("in/tokenizer.json", &tok));
    assert_int_equal(ppo_tokenizer_vocab(tok), MANY);
    assert_ok(ppo_encode_as(tok, PPO_ENCODE_SPECIALS, "ffff<last>0", 11, tokens, 8, &count));
    assert_true(count == 3 && tokens[0] == 0xffff && tokens[1] == MANY - 1 && tokens[2] == 0);
    ppo_tokenizer_free(tok);

    ppo_lm_config c = lm_config(MANY, 4, 4, 1, 1);
    ppo_lm *lm = NULL;
    ppo_tape *tape = NULL;
    ppo_tokens text = {0};
    c.score = 0;
    assert_ok(ppo_lm_create(&c, &lm));
    assert_ok(ppo_tokens_add(&text, tokens, count, 0));
    assert_ok(ppo_tape_create(&tape));
    const ppo_tensor *x = ppo_lm_forward(tape, lm, &text);
    const ppo_tensor *logits = ppo_lm_logits(tape, lm, (ppo_tensor *)x);
    assert_ok(ppo_tape_status(tape));
    assert_int_equal(logits->cols, MANY);
    for (int k = MANY - 3; k < MANY; k++) {
        double sum = 0;
        for (int i = 0; i < 4; i++)
            sum += (double)x->data[4 + i] * (double)lm->token_embedding->data[(size_t)k * 4 + (size_t)i];
        assert_close(logits->data[(size_t)MANY + (size_t)k], sum, 1e-4);
    }
    ppo_tape_free(tape), ppo_tokens_free(&text), ppo_lm_free(lm);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_tokenizers_cannot_have_is_named),
        cmocka_unit_test(lists_within_lists_are_read_to_their_limit),
        cmocka_unit_test(parts_of_tokenizers_cut_and_spell_texts),
        cmocka_unit_test(a_single_word_is_found_between_others),
        cmocka_unit_test(what_a_tokenizer_config_contradicts_is_noted),
        cmocka_unit_test(a_chat_template_is_compared_with_the_forms),
        cmocka_unit_test(a_token_to_pad_with_is_found),
        cmocka_unit_test(names_of_special_tokens_are_found_in_texts),
        cmocka_unit_test(the_tokenizer_of_qwen2_must_be_qwens),
        cmocka_unit_test(names_of_the_same_hash_are_told_apart),
        cmocka_unit_test(a_text_that_grows_too_large_is_refused),
        cmocka_unit_test(a_long_text_is_encoded_word_by_word),
        cmocka_unit_test(too_many_added_tokens_are_refused),
        cmocka_unit_test(a_saved_folder_names_its_tokens),
        cmocka_unit_test(a_family_leaves_the_sizes_of_a_model),
        cmocka_unit_test(what_a_config_cannot_say_is_named),
        cmocka_unit_test(a_config_needs_these_keys_and_no_others),
        cmocka_unit_test(what_a_config_says_is_the_models),
        cmocka_unit_test(attention_without_a_scale_has_one),
        cmocka_unit_test(arrays_that_do_not_fit_are_named),
        cmocka_unit_test(an_index_names_the_files),
        cmocka_unit_test(a_tied_head_must_be_the_embedding),
        cmocka_unit_test(what_a_folder_cannot_express_is_not_saved),
        cmocka_unit_test(a_saved_config_names_the_class),
        cmocka_unit_test(a_saved_model_has_the_type_that_its_config_names),
        cmocka_unit_test(what_an_adapter_cannot_say_is_named),
        cmocka_unit_test(what_an_adapter_says_is_the_models),
        cmocka_unit_test(ends_are_read_from_folders),
        cmocka_unit_test(tokens_in_a_file_must_make_sequences),
        cmocka_unit_test(written_texts_begin_and_end_once),
        cmocka_unit_test(a_stop_is_found_at_the_end),
        cmocka_unit_test(syllables_of_hangul_are_composed),
        cmocka_unit_test(a_tokenizer_of_characters_has_no_file_to_speak_of),
        cmocka_unit_test(a_line_without_an_end_is_refused),
        cmocka_unit_test(new_tokens_follow_all_others_and_are_saved),
        cmocka_unit_test(a_mark_before_a_tokenizer_is_left_out),
        cmocka_unit_test(new_tokens_that_are_there_are_refused),
        cmocka_unit_test(a_larger_model_computes_what_it_did),
        cmocka_unit_test(an_object_on_several_lines_is_told_from_others),
        cmocka_unit_test(many_lines_take_no_more_memory_than_one),
        cmocka_unit_test(a_message_loses_its_spaces_as_in_python),
        cmocka_unit_test(a_base_model_is_taught_a_chat),
        cmocka_unit_test(lines_with_a_label_are_of_one_kind_each),
        cmocka_unit_test(new_tokens_without_memory_are_refused),
        cmocka_unit_test(a_vocabulary_of_gemmas_size_is_used_to_its_last_token),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
