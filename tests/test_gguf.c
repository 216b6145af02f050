/* ppo_gguf.h: files of the package gguf (golden/gguf.h, by golden/make_gguf.py), what is written is read back to the bit, and
   every bad file is refused by a sentence. Beside llama.cpp itself: doors_gguf.sh. */
#define PPO_NO_CONTROL
#define PPO_NO_REPORTS
#include "../ppo.h"
#include "../examples/companions/ppo_chat.h"
#include "../examples/companions/ppo_gguf.h"

#include "golden/gguf.h"
#include "test.h"
#include "system.h"

static char home[64] = "/tmp/test_gguf.XXXXXX";
static ppo_tokenizer *trained; /* on bytes */

static const char text[] = "the cat sat on the mat. the dog sat on the log. a cat and a dog ran to the hat. ";

static int enter_folder(void **state) {
    static const char *const specials[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    (void)state;
    return mkdtemp(home) && chdir(home) == 0 &&
                   !ppo_tokenizer_train(text, sizeof text - 1, 268, specials, 3, &trained)
               ? 0
               : -1;
}

static int leave_folder(void **state) {
    static const char *const left[] = {"a.gguf", "b.gguf", "tokenizer.json", "x.bin"};
    (void)state;
    ppo_tokenizer_free(trained);
    for (int k = 0; k < COUNT(left); k++) remove(left[k]);
    return chdir("/") || rmdir(home);
}

/* -- files that are made byte by byte -- */

static unsigned char bytes[1 << 20];
static size_t size;

static void put(const void *data, size_t n) {
    assert_true(size + n <= sizeof bytes);
    memcpy(bytes + size, data, n);
    size += n;
}

static void put_whole(uint64_t number, int n) {
    for (int k = 0; k < n; k++, number >>= 8) bytes[size++] = (unsigned char)number;
}

static void put_text(const char *words) {
    put_whole(strlen(words), 8);
    put(words, strlen(words));
}

static void put_key(const char *key, int type) {
    put_text(key);
    put_whole((uint64_t)type, 4);
}

static void put_int(const char *key, uint64_t number) {
    put_key(key, 4);
    put_whole(number, 4);
}

static void put_string(const char *key, const char *value) {
    put_key(key, 8);
    put_text(value);
}

static void put_floats(const float *x, int n) {
    for (int k = 0; k < n; k++) {
        uint32_t bits;
        memcpy(&bits, &x[k], sizeof bits);
        put_whole(bits, 4);
    }
}

/* A value by its form: "7" is a whole number, "-2" one with a sign, "1.5" a float, "1.5e0" a double, "[" an empty list of
   numbers, "[]" of texts, "[7" or "[x" a list of one; all else is a text. */
static void put_value(const char *key, const char *value) {
    const int list = *value == '[', empty = list && (!value[1] || value[1] == ']');
    const char *one = value + list;
    const int kind = !strchr("-0123456789", *one) ? 8
                     : strchr(one, 'e')           ? 12
                     : strchr(one, '.')           ? 6
                     : *one == '-'                ? 5
                                                  : 4;
    const double exact = atof(one);
    const float number = (float)exact;
    uint64_t bits;
    memcpy(&bits, &exact, sizeof bits);
    put_key(key, list ? 9 : kind);
    if (list) put_whole((uint64_t)kind, 4), put_whole(!empty, 8);
    if (empty) return;
    if (kind == 8) put_text(one);
    else if (kind == 6) put_floats(&number, 1);
    else if (kind == 12) put_whole(bits, 8);
    else put_whole((uint64_t)strtoll(one, NULL, 10), 4);
}

static void begin(uint64_t tensors, uint64_t keys) {
    size = 0;
    put("GGUF", 4);
    put_whole(3, 4);
    put_whole(tensors, 8);
    put_whole(keys, 8);
}

static void write_bytes(const char *path) {
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
}

/* The golden file in `bytes`. */
static void take_golden(void) {
    size = 0;
    for (int at = 0; at < g_gguf_file_bytes; at += 64)
        put(g_gguf_file[at / 64], (size_t)(g_gguf_file_bytes - at < 64 ? g_gguf_file_bytes - at : 64));
}

/* Replaces n bytes by others, after the first place of a text; and the file is written. */
static void change(const char *after, const void *by, size_t n) {
    const size_t length = strlen(after);
    size_t at = 0;
    while (at + length + n <= size && memcmp(bytes + at, after, length) != 0) at++;
    assert_true(at + length + n <= size);
    memcpy(bytes + at + length, by, n);
    write_bytes("a.gguf");
}

/* Replaces a text by one of the same length. */
static void rename_in_file(const char *from, const char *to) {
    const size_t n = strlen(from);
    size_t at = 0;
    take_golden();
    while (at + n <= size && memcmp(bytes + at, from, n) != 0) at++;
    assert_true(at + n <= size && strlen(to) == n);
    memcpy(bytes + at, to, n);
    write_bytes("a.gguf");
}

/* The first place of these bytes in `bytes`, or NULL. */
static unsigned char *place_of(const void *what, size_t n) {
    for (size_t at = 0; at + n <= size; at++)
        if (!memcmp(bytes + at, what, n)) return bytes + at;
    return NULL;
}

static unsigned char *find(const void *what, size_t n) {
    unsigned char *place = place_of(what, n);
    assert_non_null(place);
    return place;
}

static void take_file(const char *path) {
    char *whole = NULL;
    size_t n;
    assert_ok(ppo_text_load(path, &whole, &n));
    size = 0;
    put(whole, n);
    ppo_text_free(whole);
}

static int is_there(const char *what) { return place_of(what, strlen(what)) != NULL; }

static void refuses_model(const char *words) {
    ppo_lm *lm = NULL;
    assert_fails(ppo_lm_load("a.gguf", &lm), PPO_ERROR_FILE, words);
    assert_null(lm);
}

static void refuses_tokenizer(const char *words) {
    ppo_tokenizer *tok = NULL;
    assert_fails(ppo_tokenizer_load("a.gguf", &tok), PPO_ERROR_FILE, words);
    assert_null(tok);
}

/* -- what others wrote -- */

static void a_file_of_eight_types_gives_the_logits_of_its_numbers(void **state) {
    (void)state;
    ppo_lm *lm = NULL;
    ppo_tape *tape = NULL;
    ppo_tokens tokens = {0};
    int ends[4], n = 0;
    take_golden();
    write_bytes("a.gguf");
    assert_ok(ppo_lm_load("a.gguf", &lm));
    assert_int_equal(lm->config.vocab, g_gguf_vocab);
    assert_int_equal(lm->config.context, 16);
    assert_int_equal(lm->config.eos, 19);
    assert_true(lm->config.tied && !lm->config.qkv_bias && lm->full.kv_heads == 1 &&
                lm->full.head_size == 16);
    assert_true(fabsf(lm->config.norm_eps - 1e-5f) < 1e-9f);
    assert_ok(ppo_tokens_add(&tokens, g_gguf_id, g_gguf_ids, 0));
    assert_ok(ppo_tape_create(&tape));
    const ppo_tensor *x = ppo_lm_logits(tape, lm, ppo_lm_forward(tape, lm, &tokens));
    assert_non_null(x);
    for (int i = 0; i < g_gguf_ids * g_gguf_vocab; i++)
        assert_float_equal(x->data[i], g_gguf_logits[i], 2e-4);
    assert_ok(ppo_lm_load_ends("a.gguf", ends, 4, &n));
    assert_true(n == 1 && ends[0] == 19);
    ppo_tape_free(tape);
    ppo_tokens_free(&tokens);
    ppo_lm_free(lm);
}

static void the_tokenizer_of_a_file_cuts_as_its_name_says(void **state) {
    (void)state;
    static const int tokens[] = {19, 11, 14, 8, 3, 20, 21, 21, 19, 0, 16, 18};
    ppo_tokenizer *tok = NULL;
    int ids[32], n;
    char back[64];
    take_golden();
    write_bytes("a.gguf");
    assert_ok(ppo_tokenizer_load("a.gguf", &tok));
    assert_int_equal(ppo_tokenizer_vocab(tok), g_gguf_vocab - 2); /* without [PAD22] and [PAD23] */
    static const char line[] = " the and d<x y>11<|end|>a\303\303\251";
    assert_ok(
        ppo_encode_as(tok, PPO_ENCODE_SPECIALS | PPO_ENCODE_BOUNDS, line, sizeof line - 1, ids, 32, &n));
    assert_int_equal(n, COUNT(tokens));
    for (int k = 0; k < n; k++) assert_int_equal(ids[k], tokens[k]);
    assert_ok(ppo_decode(tok, ids + 1, n - 1, back, sizeof back, NULL));
    assert_string_equal(back, line);
    assert_true(strstr(ppo_tokenizer_chat_note(tok, PPO_CHATML), "none of the forms") != NULL);
    ppo_tokenizer_free(tok);
}

/* A model of width 256 whose matrices are of one type: each row is the golden blocks of that; and a key. */
static void write_kind(int kind, const char *raw, int row, const char *key, const char *value) {
    static const char *const matrices[] = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                           "ffn_gate", "ffn_up", "ffn_down"};
    static float ones[256];
    uint64_t place = 0;
    for (int k = 0; k < 256; k++) ones[k] = 1;
    begin(11, 8);
    put_string("general.architecture", "llama");
    put_int("llama.context_length", 8);
    put_int("llama.embedding_length", 256);
    put_int("llama.block_count", 1);
    put_int("llama.feed_forward_length", 256);
    put_int("llama.attention.head_count", 2);
    put_int("general.alignment", 64);
    put_value(key, value);
    for (int pass = 0; pass < 2; pass++) {
        while (pass && size % 64) bytes[size++] = 0;
        for (int t = 0; t < 11; t++) {
            char name[64];
            const int vector = t > 7, rows = t ? 256 : 3;
            snprintf(name, sizeof name, t ? "blk.0.%s.weight" : "token_embd.weight",
                     t < 8    ? matrices[t ? t - 1 : 0]
                     : t == 8 ? "attn_norm"
                              : "ffn_norm");
            if (t == 10) strcpy(name, "output_norm.weight");
            if (!pass) {
                put_text(name);
                put_whole(vector ? 1 : 2, 4);
                put_whole(256, 8);
                if (!vector) put_whole((uint64_t)rows, 8);
                put_whole(vector ? 0 : (uint64_t)kind, 4);
                put_whole(place, 8);
                place += vector ? 1024 : ((uint64_t)rows * (uint64_t)row + 63) / 64 * 64;
            } else if (vector) put_floats(ones, 256);
            else
                for (int r = 0; r < rows; r++) put(raw, (size_t)row);
            while (pass && size % 64) bytes[size++] = 0;
        }
    }
    write_bytes("a.gguf");
}

static void blocks_of_every_type_become_the_floats_of_gguf(void **state) {
    (void)state;
    static char raw[4096];
    for (int at = 0; at < g_gguf_kind_raw_bytes; at += 64) memcpy(raw + at, g_gguf_kind_raw[at / 64], 64);
    const char *block = raw;
    for (int k = 0; k < g_gguf_kinds; block += g_gguf_kind_bytes[k++]) {
        ppo_lm *lm = NULL;
        double sum = 0, size_of_sum = 0;
        write_kind(g_gguf_kind[k], block, g_gguf_kind_bytes[k], "general.name", "blocks");
        assert_ok(ppo_lm_load("a.gguf", &lm));
        const float *x = lm->token_embedding->data + 256, *down = lm->block[0].down_weight->data;
        for (int i = 0; i < 256; i++) {
            sum += (double)x[i] * (i * 37 % 101);
            size_of_sum += fabs((double)x[i] * (i * 37 % 101));
            assert_true(down[256 * i + 7] == x[i]); /* (in, out) */
        }
        for (int i = 0; i < 16; i++)
            assert_float_equal(x[5 + 16 * i], g_gguf_kind_some[16 * k + i],
                               1e-6 + 1e-6 * fabsf(g_gguf_kind_some[16 * k + i]));
        assert_true(fabs(sum - (double)g_gguf_kind_sum[k]) < 1e-6 * size_of_sum);
        ppo_lm_free(lm);
    }
}

/* -- what is written is read -- */

static ppo_lm *model(const char *family, const char *settings) {
    ppo_lm_config c = ppo_lm_config_default();
    ppo_lm *lm = NULL;
    ppo_rng rng = ppo_rng_stream(3, PPO_STREAM_USER, 0);
    c.vocab = ppo_tokenizer_vocab(trained) + 3;
    assert_ok(ppo_lm_config_family(&c, family));
    assert_ok(ppo_settings_set_all(ppo_lm_settings(), &c,
                                   "context=16 width=32 layers=2 heads=4 hidden=64 eos=267"));
    assert_ok(ppo_settings_set_all(ppo_lm_settings(), &c, settings));
    assert_ok(ppo_lm_create(&c, &lm));
    for (size_t i = 0; i < lm->params->count; i++) lm->params->data[i] += 0.1f * ppo_rng_normal(&rng);
    return lm;
}

static const struct {
    const char *family, *read, *settings;
} models[] = {
    {"llama", "llama", "kv_heads=2 norm_eps=1e-5 rope_theta=50000"},
    {"llama", "llama", "qkv_bias=yes proj_bias=yes ffn_bias=yes tied=yes head_size=16"},
    {"llama", "llama", "rope_scaling=linear rope_factor=2"},
    {"llama", "llama", "heads=3 kv_heads=3 head_size=8"}, /* which do not divide the width */
    {"mistral", "llama", "kv_heads=1"},
    {"qwen2", "qwen2", "kv_heads=2 tied=yes"},
    {"qwen3", "qwen3", "kv_heads=2 head_size=16"},
    {"gpt2", "gpt2", ""},
    {"gpt2", "gpt2", "tied=no"},
    {"gpt_neox", "gpt_neox", "rotary_size=2"},
    {"gpt_neox", "gpt_neox", "rotary_size=4 parallel=no"},
    {"gemma3_text", "gemma3_text", "layers=7 window=8 kv_heads=1 head_size=16 attention_scale=0.25 tied=no"},
    {"olmo2", "olmo2", "kv_heads=2"},
    {"smollm3", "smollm3", "layers=5 kv_heads=2"},
    {"phi3", "phi3", "window=12 rotary_size=4"},
    {"phi3", "phi3", "window=16"}, /* of the whole context */
    {"granite", "granite", "attention_scale=0.2 embedding_scale=3 residual_scale=0.5 logits_scaling=2"},
};

static void models_of_every_family_are_read_back_to_the_bit(void **state) {
    (void)state;
    static const char differ[] =
        " family seed kv_heads head_size attention_scale rotary_size window_layers nope_layers ";
    for (int k = 0; k < COUNT(models); k++) {
        ppo_lm *lm = model(models[k].family, models[k].settings), *read = NULL;
        ppo_tokenizer *tok = NULL;
        char is[64], other[64];
        int a[64], b[64], n, m;
        assert_ok(ppo_gguf_save(lm, trained, NULL, PPO_GGUF_F32, "b.gguf"));
        assert_ok(ppo_lm_load("b.gguf", &read));
        assert_int_equal(lm->params->count, read->params->count);
        assert_int_equal(read->params->frozen, 1);
        assert_memory_equal(lm->params->data, read->params->data, lm->params->count * sizeof(float));
        for (int i = 0; i < ppo_lm_settings()->count; i++) {
            const char *name = ppo_lm_settings()->field[i].name;
            char word[64];
            snprintf(word, sizeof word, " %s ", name);
            assert_ok(ppo_settings_get(ppo_lm_settings(), &lm->full, name, is, sizeof is));
            assert_ok(ppo_settings_get(ppo_lm_settings(), &read->full, name, other, sizeof other));
            if (!strstr(differ, word) && strcmp(is, other))
                fail_msg("%s: %s is %s, not %s", models[k].family, name, other, is);
        }
        assert_true(lm->full.head_size == read->full.head_size && lm->full.kv_heads == read->full.kv_heads &&
                    lm->full.rotary_size == read->full.rotary_size);
        assert_ok(ppo_settings_get(ppo_lm_settings(), &read->config, "family", is, sizeof is));
        assert_string_equal(is, models[k].read);
        assert_ok(ppo_tokenizer_load("b.gguf", &tok));
        assert_int_equal(ppo_tokenizer_vocab(tok), ppo_tokenizer_vocab(trained));
        assert_ok(ppo_encode_as(trained, PPO_ENCODE_SPECIALS, text, sizeof text - 1, a, 64, &n));
        assert_ok(ppo_encode_as(tok, PPO_ENCODE_SPECIALS, text, sizeof text - 1, b, 64, &m));
        assert_true(n == m && !memcmp(a, b, (size_t)n * sizeof *a));
        take_file("b.gguf"); /* which of llama.cpp's models have queries, keys and values in one */
        assert_int_equal(is_there("attn_qkv.weight"), strstr("gpt2 gpt_neox phi3", models[k].family) != NULL);
        assert_ok(ppo_gguf_save(read, tok, NULL, PPO_GGUF_F32, "a.gguf")); /* twice: the same bytes */
        FILE *one = fopen("a.gguf", "rb"), *two = fopen("b.gguf", "rb");
        for (int c = 0; c != EOF;) assert_int_equal(c = getc(one), getc(two));
        fclose(one);
        fclose(two);
        ppo_tokenizer_free(tok);
        ppo_lm_free(read);
        ppo_lm_free(lm);
    }
}

/* Of the file in `bytes`. */
static int number_of(const char *key) {
    const unsigned char *at = find(key, strlen(key)) + strlen(key);
    assert_true(at[0] == 4 && !at[6] && !at[7]);
    return at[4] + at[5] * 256;
}

/* What a file says of its type, by llama.cpp's numbers, and only of settings that its family has. */
static void a_file_has_the_keys_of_its_family_and_the_number_of_its_type(void **state) {
    (void)state;
    static const struct {
        ppo_gguf_type type;
        int number;
    } types[] = {{PPO_GGUF_F32, 0}, {PPO_GGUF_F16, 1}, {PPO_GGUF_Q8_0, 7}, {PPO_GGUF_BF16, 32}};
    static const char type[] = "general.type\10\0\0\0\5\0\0\0\0\0\0\0model";
    static const char *const few[] = {"rope.freq_base_swa", "attention.sliding_window", "attention.scale",
                                      "embedding_scale",    "residual_scale",           "logit_scale"};
    static const char of[3][8] = {"000000", "110000", "001111"};
    ppo_lm *lm = model("llama", "");
    for (int k = 0; k < COUNT(types); k++) {
        assert_ok(ppo_gguf_save(lm, NULL, NULL, types[k].type, "b.gguf"));
        take_file("b.gguf");
        assert_int_equal(number_of("general.file_type"), types[k].number);
        assert_int_equal(number_of("general.quantization_version"), 2);
        assert_int_equal(number_of("llama.vocab_size"), lm->config.vocab);
        find(type, sizeof type - 1);
    }
    ppo_lm_free(lm);
    for (int k = 0; k < 3; k++) {
        lm = k == 0   ? model("llama", "")
             : k == 1 ? model("gemma3_text", "window=8 head_size=16 attention_scale=0.25")
                      : model("granite", "attention_scale=0.2 embedding_scale=3 residual_scale=0.5");
        assert_ok(ppo_gguf_save(lm, NULL, NULL, PPO_GGUF_F16, "b.gguf"));
        take_file("b.gguf");
        for (int i = 0; i < COUNT(few); i++) assert_int_equal(is_there(few[i]), of[k][i] == '1');
        ppo_lm_free(lm);
    }
    lm = model("gpt2", "");
    assert_ok(ppo_gguf_save(lm, NULL, NULL, PPO_GGUF_F16, "b.gguf"));
    take_file("b.gguf");
    assert_true(is_there("gpt2.attention.head_count") && !is_there("head_count_kv") &&
                !is_there("key_length") && !is_there("rope."));
    ppo_lm_free(lm);
}

static void the_scaling_of_llama3_is_found_from_its_factors(void **state) {
    (void)state;
    static const char *const settings[] = {
        "rope_scaling=llama3 rope_factor=32 rope_theta=500000 rope_context=8192 head_size=64",
        "rope_scaling=llama3 rope_factor=8 rope_low=2 rope_high=16 rope_context=128 head_size=32"};
    for (int k = 0; k < 2; k++) {
        ppo_lm *lm = model("llama", settings[k]), *read = NULL;
        assert_ok(ppo_gguf_save(lm, NULL, NULL, PPO_GGUF_F32, "b.gguf"));
        assert_ok(ppo_lm_load("b.gguf", &read));
        const ppo_lm_config *a = &lm->full, *b = &read->full;
        assert_int_equal(b->rope_scaling, PPO_ROPE_LLAMA3);
        assert_true(fabsf(a->rope_factor - b->rope_factor) < 1e-5f * a->rope_factor);
        /* contexts and the ends of the range have a common scale */
        assert_true(fabs((double)a->rope_low / a->rope_context - (double)b->rope_low / b->rope_context) <
                    1e-4 / a->rope_context);
        assert_true(fabs((double)a->rope_high / a->rope_context - (double)b->rope_high / b->rope_context) <
                    1e-3 / a->rope_context);
        ppo_lm_free(read);
        ppo_lm_free(lm);
    }
}

static void fewer_bits_round_to_the_nearest(void **state) {
    (void)state;
    static const ppo_gguf_type types[] = {PPO_GGUF_F16, PPO_GGUF_BF16, PPO_GGUF_Q8_0};
    static const float most[] = {1 / 2048.f, 1 / 256.f,
                                 1 / 254.f + 1 / 2048.f};   /* Q8_0: of the largest in 32 */
    ppo_lm *lm = model("llama", "hidden=48"), *read = NULL; /* rows of 48 are halves */
    const ppo_tensor *x = lm->token_embedding;
    for (int k = 0; k < 3; k++) {
        assert_ok(ppo_gguf_save(lm, NULL, NULL, types[k], "b.gguf"));
        assert_ok(ppo_lm_load("b.gguf", &read));
        for (int i = 0; i < x->rows * 32; i++) {
            float largest = 0;
            for (int j = 0; j < 32; j++) largest = fmaxf(largest, fabsf(x->data[i / 32 * 32 + j]));
            const float scale = types[k] == PPO_GGUF_Q8_0 ? largest : fabsf(x->data[i]) + 1e-4f;
            assert_true(fabsf(read->token_embedding->data[i] - x->data[i]) <= most[k] * scale);
        }
        assert_memory_equal(read->norm_weight->data, lm->norm_weight->data, 32 * sizeof(float));
        ppo_lm_free(read);
    }
    lm->token_embedding->data[5] = 70000;
    assert_fails(ppo_gguf_save(lm, NULL, NULL, PPO_GGUF_F16, "b.gguf"), PPO_ERROR_NUMERIC,
                 "token_embd|70000|F16");
    lm->token_embedding->data[5] = 65504.f * 127; /* whose scale is the largest half */
    assert_ok(ppo_gguf_save(lm, NULL, NULL, PPO_GGUF_Q8_0, "b.gguf"));
    assert_ok(ppo_lm_load("b.gguf", &read));
    assert_true(read->token_embedding->data[5] == lm->token_embedding->data[5]);
    ppo_lm_free(read);
    lm->token_embedding->data[5] = 65504.f * 127 + 1;
    assert_fails(ppo_gguf_save(lm, NULL, NULL, PPO_GGUF_Q8_0, "b.gguf"), PPO_ERROR_NUMERIC,
                 "token_embd|Q8_0");
    lm->token_embedding->data[5] = NAN;
    assert_fails(ppo_gguf_save(lm, NULL, NULL, PPO_GGUF_Q8_0, "b.gguf"), PPO_ERROR_NUMERIC, "token_embd|nan");
    ppo_lm_free(lm);
}

/* What the files below have besides: a key, unless it is NULL. */
static const char *more_key, *more_value, *architecture = "llama";

static void put_more(void) {
    if (more_key) put_value(more_key, more_value);
}

/* SentencePiece's BPE, with merges that are scores, and bytes. */
enum { PIECES = 16 };
static const char *pieces[PIECES] = {"<unk>",
                                     "<s>",
                                     "</s>",
                                     "\342\226\201",
                                     "t",
                                     "h",
                                     "e",
                                     "c",
                                     "a",
                                     "\342\226\201t",
                                     "he",
                                     "\342\226\201the",
                                     "\342\226\201c",
                                     "ea",
                                     "<end>",
                                     "[x]"};
static float scores[PIECES] = {0, 0, 0, 0, 0, 0, 0, 0, 0, -9, -10, -11, -12, -13, -14, -15};
static int kinds[PIECES] = {2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 4};

static void write_pieces(int starts, int ends) {
    begin(0, (uint64_t)(5 + (starts >= 0) + (ends >= 0) + (more_key != NULL))); /* -1: it does not say */
    put_string("general.architecture", "llama");
    put_string("tokenizer.ggml.model", "llama");
    put_key("tokenizer.ggml.tokens", 9), put_whole(8, 4), put_whole(PIECES + 256, 8);
    for (int t = 0; t < PIECES; t++) put_text(pieces[t]);
    for (int b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        put_text(name);
    }
    put_key("tokenizer.ggml.scores", 9), put_whole(6, 4), put_whole(PIECES + 256, 8);
    for (int t = 0; t < PIECES + 256; t++) {
        const float score = t < PIECES ? scores[t] : -(float)t;
        put_floats(&score, 1);
    }
    put_key("tokenizer.ggml.token_type", 9), put_whole(5, 4), put_whole(PIECES + 256, 8);
    for (int t = 0; t < PIECES + 256; t++) put_whole(t < PIECES ? (uint64_t)kinds[t] : 6, 4);
    if (starts >= 0) put_key("tokenizer.ggml.add_bos_token", 7), put_whole((uint64_t)starts, 1);
    if (ends >= 0) put_key("tokenizer.ggml.add_eos_token", 7), put_whole((uint64_t)ends, 1);
    put_more();
    write_bytes("a.gguf");
}

static void merges_follow_from_the_scores_of_pieces(void **state) {
    (void)state;
    static const int tokens[] = {1, 11, 12, 8, 4, 16 + 0xc3, 16 + 0xa9, 2, 3, 10, 8, 15};
    static const char line[] = "the cat\303\251</s>hea[x]";
    static const char template[] = "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": "
                                   "[{\"SpecialToken\": {\"id\": \"<s>\", "
                                   "\"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], "
                                   "\"pair\": [], \"special_tokens\": {\"<s>\": {\"id\": \"<s>\", "
                                   "\"ids\": [1], \"tokens\": [\"<s>\"]}}}";
    ppo_tokenizer *tok = NULL;
    ppo_lm *lm = model("llama", "vocab=300");
    for (int pass = 0; pass < 2; pass++) {
        int ids[64], n;
        char back[64];
        if (!pass) write_pieces(1, 0);
        assert_ok(ppo_tokenizer_load(pass ? "b.gguf" : "a.gguf", &tok));
        assert_ok(
            ppo_encode_as(tok, PPO_ENCODE_SPECIALS | PPO_ENCODE_BOUNDS, line, sizeof line - 1, ids, 64, &n));
        assert_int_equal(n, COUNT(tokens));
        for (int k = 0; k < n; k++) assert_int_equal(ids[k], tokens[k]);
        assert_ok(ppo_decode(tok, ids + 1, 6, back, sizeof back, NULL));
        assert_string_equal(back, "the cat\303\251");
        assert_ok(ppo_gguf_save(lm, tok, NULL, PPO_GGUF_F16, "b.gguf"));
        assert_ok(ppo_tokenizer_save(tok, "tokenizer.json"));
        assert_int_equal(mkdir("folder", 0777), 0);
        assert_ok(ppo_tokenizer_save(tok, "folder"));
        ppo_tokenizer_free(tok);
        char *config = NULL; /* what Python reads */
        assert_ok(ppo_text_load("folder/tokenizer.json", &config, NULL));
        assert_non_null(strstr(config, template));
        ppo_text_free(config);
        assert_ok(ppo_text_load("folder/tokenizer_config.json", &config, NULL));
        assert_true(strstr(config, "\"bos_token\": \"<s>\"") && strstr(config, "\"unk_token\": \"<unk>\"") &&
                    strstr(config, "\"eos_token\": \"") && !strstr(config, "pad_token"));
        ppo_text_free(config);
        assert_true(!remove("folder/tokenizer_config.json") && !remove("folder/tokenizer.json"));
        assert_int_equal(rmdir("folder"), 0);
    }
    ppo_lm_free(lm);
    scores[11] = -9; /* that of a shorter piece */
    write_pieces(1, 0);
    refuses_tokenizer("same score");
    scores[11] = -11, scores[10] = -13; /* that of another of as many bytes */
    write_pieces(1, 0);
    refuses_tokenizer("same score");
    scores[10] = -10, scores[12] = -9; /* of one that begins alike */
    write_pieces(1, 0);
    refuses_tokenizer("same score|open: \342\226\201t");
    scores[12] = -12;
    for (int k = 0; k < 2; k++) { /* a part has the hash of a piece, but is none */
        pieces[12] = "7mohtcOFVz", pieces[13] = k ? "tc1E51sSEyx" : "c1E51sSEyxt";
        write_pieces(1, 0);
        assert_ok(ppo_tokenizer_load("a.gguf", &tok));
        ppo_tokenizer_free(tok);
    }
    pieces[12] = "\342\226\201c";
    char *long_one = (char *)malloc(514);
    memset(long_one, 'a', 513), long_one[513] = 0;
    pieces[13] = long_one;
    write_pieces(1, 0);
    refuses_tokenizer("more than 512 bytes|aaaa");
    pieces[13] = "ea";
    free(long_one);
    for (int t = 9; t < 14; t++) kinds[t] = 5; /* not used: there is nothing to merge */
    static const int letters[] = {3, 4, 5, 6};
    int ids[8], n;
    write_pieces(0, 0);
    assert_ok(ppo_tokenizer_load("a.gguf", &tok));
    assert_ok(ppo_encode(tok, "the", 3, ids, 8, &n));
    assert_int_equal(n, 4);
    assert_memory_equal(ids, letters, sizeof letters);
    ppo_tokenizer_free(tok);
    for (int t = 9; t < 14; t++) kinds[t] = 1;
}

/* A piece that several pairs make; one with the form of a byte, but none; one that two pieces make, but is only found by
   its name; and what a tokenizer of pieces is told of spaces, starts and ends. */
static void pieces_of_any_form_are_read_and_written(void **state) {
    (void)state;
    static const struct {
        const char *key, *value, *line;
        int starts, ends, expected[8]; /* -1 ends */
    } cases[] = {
        {NULL, NULL, "the the", 1, 0, {1, 11, 11, -1}},
        {NULL, NULL, "the the", -1, -1, {1, 11, 11, -1}},
        {NULL, NULL, "ht", 0, 0, {15, -1}},
        {"tokenizer.ggml.add_space_prefix", "0", "the the", 0, 0, {4, 10, 11, -1}},
        {"tokenizer.ggml.padding_token_id", "2", "the", 0, 1, {11, 2, -1}},
        {"tokenizer.ggml.bos_token_id", "2", "the", 1, 1, {2, 11, 2, -1}},
        {"tokenizer.ggml.bos_token_id", "0", "the", 1, 0, {0, 11, -1}},
        {"tokenizer.ggml.eos_token_id", "0", "the", 0, 1, {11, 0, -1}},
        {"tokenizer.ggml.bos_token_id", "9999", "the", 1, 0, {11, -1}},
        {"tokenizer.ggml.eos_token_id", "9999", "the", 1, 1, {1, 11, -1}},
    };
    static const char types[] = "tokenizer.ggml.token_type";
    ppo_lm *lm = model("llama", "vocab=300 eos=-1");
    pieces[12] = "<0xZZ>", pieces[13] = "\342\226\201th", pieces[15] = "ht";
    for (int k = 0; k < COUNT(cases); k++) {
        more_key = cases[k].key, more_value = cases[k].value;
        write_pieces(cases[k].starts, cases[k].ends);
        for (int pass = 0; pass < 2; pass++) {
            ppo_tokenizer *tok = NULL;
            char form[16];
            int ids[16], n;
            const int no_byte = 12;
            assert_ok(ppo_tokenizer_load(pass ? "b.gguf" : "a.gguf", &tok));
            assert_ok(ppo_encode_as(tok, PPO_ENCODE_SPECIALS | PPO_ENCODE_BOUNDS, cases[k].line,
                                    strlen(cases[k].line), ids, 16, &n));
            for (int i = 0; i <= n; i++)
                if (cases[k].expected[i] != (i < n ? ids[i] : -1))
                    fail_msg("case %d, pass %d: token %d is %d, not %d", k, pass, i, i < n ? ids[i] : -1,
                             cases[k].expected[i]);
            assert_ok(ppo_decode(tok, &no_byte, 1, form, sizeof form, NULL));
            assert_string_equal(form, "<0xZZ>");
            assert_ok(ppo_gguf_save(lm, tok, NULL, PPO_GGUF_F16, "b.gguf"));
            ppo_tokenizer_free(tok);
            take_file("b.gguf");
            assert_int_equal(is_there("padding_token_id"), k == 4);
            assert_int_equal(number_of("tokenizer.ggml.unknown_token_id"), 0);
            /* after two kinds and a count: <unk> is unknown */
            assert_int_equal(find(types, sizeof types - 1)[sizeof types - 1 + 16], 2);
        }
    }
    more_key = NULL;
    ppo_tokenizer *tok = NULL;
    char *whole = NULL; /* with the longest left part first, as transformers has them */
    assert_ok(ppo_tokenizer_load("a.gguf", &tok));
    assert_ok(ppo_tokenizer_save(tok, "tokenizer.json"));
    assert_ok(ppo_text_load("tokenizer.json", &whole, NULL));
    assert_non_null(strstr(whole, "[\"\342\226\201th\", \"e\"], [\"\342\226\201t\", \"he\"]"));
    ppo_text_free(whole);
    ppo_tokenizer_free(tok);
    pieces[12] = "\342\226\201c", pieces[13] = "ea", pieces[15] = "[x]";
    ppo_lm_free(lm);
}

/* Numbers of all kinds, which nobody asks for. */
static const int sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static int put_numbers(void) {
    int n = 0;
    for (int kind = 0; kind < COUNT(sizes); kind++) {
        char key[16];
        if (!sizes[kind]) continue;
        snprintf(key, sizeof key, "number.%d", kind);
        put_key(key, kind);
        put_whole(kind == 12 ? UINT64_C(0x3ff0000000000000) : UINT64_MAX, sizes[kind]);
        n++;
    }
    return n;
}

/* A small tokenizer; lists: of tokens, 1, of scores, 2, of too few types, 4, of merges, 8; flags: 16, 32; 64: a token
   before and one after a text. */
static void write_tokens(const char *model_name, const char *cut, int lists) {
    static const char *const words[] = {"<unk>", "<s>", "</s>", "t", "h", "e", "th", "the", "\304\240"};
    static const char *const merges[] = {"t h", "th e"};
    const float zero = 0;
    int keys = 1 + (cut != NULL) + (model_name != NULL) + (more_key != NULL);
    for (int bit = 1; bit < 64; bit *= 2) keys += (lists & bit) != 0;
    begin(0, (uint64_t)(keys + 11 + (lists & 64 ? 4 : 0)));
    assert_int_equal(put_numbers(), 11);
    put_string("general.architecture", architecture);
    if (model_name) put_string("tokenizer.ggml.model", model_name);
    put_more();
    if (cut) put_string("tokenizer.ggml.pre", cut);
    if (lists & 1) put_key("tokenizer.ggml.tokens", 9), put_whole(8, 4), put_whole(COUNT(words), 8);
    for (int t = 0; t < COUNT(words) && lists & 1; t++) put_text(words[t]);
    if (lists & 2) put_key("tokenizer.ggml.scores", 9), put_whole(6, 4), put_whole(COUNT(words), 8);
    for (int t = 0; t < COUNT(words) && lists & 2; t++) put_floats(&zero, 1);
    if (lists & 4) put_key("tokenizer.ggml.token_type", 9), put_whole(5, 4), put_whole(1, 8), put_whole(1, 4);
    if (lists & 8) put_key("tokenizer.ggml.merges", 9), put_whole(8, 4), put_whole(2, 8);
    for (int k = 0; k < 2 && lists & 8; k++) put_text(merges[k]);
    if (lists & 16) put_key("tokenizer.ggml.add_space_prefix", 7), put_whole(1, 1);
    if (lists & 64) put_int("tokenizer.ggml.bos_token_id", 1), put_int("tokenizer.ggml.eos_token_id", 2);
    if (lists & 64) put_key("tokenizer.ggml.add_bos_token", 7), put_whole(1, 1);
    if (lists & 64) put_key("tokenizer.ggml.add_eos_token", 7), put_whole(1, 1);
    if (lists & 32) put_key("tokenizer.ggml.remove_extra_whitespaces", 7), put_whole(1, 1);
    write_bytes("a.gguf");
}

static void names_of_cuts_are_read_and_written(void **state) {
    (void)state;
    static const char *const names[][2] = {{"gpt-2", "gpt-2"},      {"phi-2", "gpt-2"},
                                           {"olmo", "olmo"},        {"starcoder", "smollm"},
                                           {"llama3", "llama-bpe"}, {"qwen2", "qwen2"},
                                           {"qwen35", "qwen35"},    {"tekken", "tekken"},
                                           {"gpt-4o", "gpt-4o"},    {"deepseek-v3", "deepseek-v3"}};
    /* what Python's package writes, whether or not it says something */
    static const char *const members[] = {"{\"version\": \"1.0\"",
                                          "\"truncation\": null",
                                          "\"padding\": null",
                                          "\"added_tokens\": []",
                                          "\"normalizer\": ",
                                          "\"pre_tokenizer\": {",
                                          "\"post_processor\": null",
                                          "\"decoder\": {",
                                          "\"model\": {\"type\": \"BPE\"",
                                          "\"dropout\": null",
                                          "\"unk_token\": null",
                                          "\"continuing_subword_prefix\": null",
                                          "\"end_of_word_suffix\": null",
                                          "\"fuse_unk\": false",
                                          "\"byte_fallback\": false",
                                          "\"ignore_merges\": "};
    static const char chat[] = "tokenizer.chat_template\10\0\0\0\10\0\0\0\0\0\0\0template";
    ppo_lm *lm = model("llama", "vocab=300 eos=-1"), *read = NULL;
    for (int k = 0; k < COUNT(names); k++) {
        ppo_tokenizer *tok = NULL;
        char *whole = NULL;
        size_t n, at = 0;
        write_tokens("gpt2", names[k][0], 1 + 8);
        assert_ok(ppo_tokenizer_load("a.gguf", &tok));
        assert_ok(ppo_gguf_save(lm, tok, "template", PPO_GGUF_F16, "b.gguf"));
        assert_ok(ppo_tokenizer_save(tok, "tokenizer.json"));
        assert_ok(ppo_text_load("tokenizer.json", &whole, &n));
        assert_int_equal(strstr(whole, "\"NFC\"") != NULL, strstr("olmo qwen2 qwen35", names[k][1]) != NULL);
        assert_int_equal(strstr(whole, "\"ignore_merges\": true") != NULL,
                         strstr("llama-bpe tekken", names[k][1]) != NULL);
        for (int m = 0; m < COUNT(members); m++)
            if (!strstr(whole, members[m])) fail_msg("%s is not in %s", members[m], whole);
        ppo_text_free(whole);
        ppo_tokenizer_free(tok);
        take_file("b.gguf");
        find(chat, sizeof chat - 1);
        assert_ok(ppo_tokenizer_load("b.gguf", &tok)); /* with the template, too */
        assert_ok(ppo_gguf_save(lm, tok, NULL, PPO_GGUF_F16, "b.gguf"));
        ppo_tokenizer_free(tok);
        take_file("b.gguf");
        find(chat, sizeof chat - 1);
        assert_ok(ppo_text_load("b.gguf", &whole, &n));
        while (at + 64 < n && memcmp(whole + at, "tokenizer.ggml.pre", 18) != 0) at++;
        assert_memory_equal(whole + at + 30, names[k][1],
                            strlen(names[k][1])); /* after the type and the length */
        assert_int_equal(whole[at + 22], strlen(names[k][1]));
        ppo_text_free(whole);
    }
    for (int pass = 0; pass < 3; pass++) { /* tokens around a text: </s> at its end is what ends one */
        static const int around[] = {1, 11, 2};
        ppo_tokenizer *tok = NULL;
        int ids[8], n;
        if (!pass) write_pieces(1, 1);
        assert_ok(ppo_tokenizer_load(pass ? "b.gguf" : "a.gguf", &tok));
        assert_ok(ppo_encode_as(tok, PPO_ENCODE_BOUNDS, "the", 3, ids, 8, &n));
        assert_int_equal(n, 3);
        assert_memory_equal(ids, around, sizeof around);
        assert_ok(ppo_gguf_save(lm, tok, NULL, PPO_GGUF_F16, "b.gguf"));
        ppo_tokenizer_free(tok);
    }
    assert_ok(ppo_gguf_save(lm, trained, NULL, PPO_GGUF_F16, "b.gguf")); /* the end that is usual */
    assert_ok(ppo_lm_load("b.gguf", &read));
    assert_int_equal(read->config.eos, ppo_tokenizer_special(trained, "<|endoftext|>"));
    ppo_lm_free(read);
    ppo_lm_free(lm);
}

static void tokenizers_that_are_not_known_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *model, *cut;
        int lists;
        const char *words;
    } cases[] = {{"none", NULL, 1, "no tokenizer"},
                 {"bert", NULL, 1, "bert"},
                 {"gpt2", NULL, 9, "tokenizer.ggml.pre"},
                 {"gpt2", "default", 9, "default"},
                 {"gpt2", "gpt-2", 8, "tokenizer.ggml.tokens"},
                 {"gpt2", "gpt-2", 1, "tokenizer.ggml.merges"},
                 {"gpt2", "gpt-2", 1 + 4 + 8, "token_type"},
                 {"gpt2", "gpt-2", 1 + 8 + 16, "add_space_prefix"},
                 {"gpt2", "gpt-2", 1 + 8 + 64, "TemplateProcessing|<s>"}, /* which is no special token */
                 {"llama", NULL, 1, "tokenizer.ggml.scores"},
                 {"llama", NULL, 1 + 2, "same score"},
                 {"llama", NULL, 1 + 2 + 32, "remove_extra_whitespaces"},
                 {NULL, NULL, 1, "no tokenizer"},
                 {"no_vocab", NULL, 1, "no tokenizer"}};
    /* lists of another kind or length than they must have */
    static const struct {
        const char *model, *key, *value;
        int lists;
        const char *words;
    } odd[] = {{"gpt2", "tokenizer.ggml.tokens", "[7", 8, "no list of tokens"},
               {"gpt2", "tokenizer.ggml.tokens", "[]", 8, "no list of tokens"},
               {"gpt2", "tokenizer.ggml.token_type", "[x", 1 + 8, "token_type"},
               {"gpt2", "tokenizer.ggml.merges", "[7", 1, "no list of merges"},
               {"llama", "tokenizer.ggml.scores", "[x", 1, "no list of a score"},
               {"llama", "tokenizer.ggml.scores", "[0.5", 1, "no list of a score"},
               {"gpt2", "tokenizer.chat_template", "3", 1 + 8, "no text|chat_template"},
               {"gpt2", "tokenizer.ggml.padding_token_id", "-2", 1 + 8, "no whole number|padding_token_id"}};
    ppo_tokenizer *tok = NULL;
    int ids[8], n;
    for (int k = 0; k < COUNT(cases); k++) {
        write_tokens(cases[k].model, cases[k].cut, cases[k].lists);
        refuses_tokenizer(cases[k].words);
    }
    for (int k = 0; k < COUNT(odd); k++) {
        more_key = odd[k].key, more_value = odd[k].value;
        write_tokens(odd[k].model, "gpt-2", odd[k].lists);
        refuses_tokenizer(odd[k].words);
    }
    more_key = NULL, architecture = "gpt2"; /* whose files say nothing of cuts */
    write_tokens("gpt2", NULL, 1 + 8);
    architecture = "llama";
    assert_ok(ppo_tokenizer_load("a.gguf", &tok));
    ppo_tokenizer_free(tok);
    more_key = "tokenizer.ggml.bos_token_id",
    more_value = "1"; /* which Llama 3 puts before a text, GPT-2 not */
    write_tokens("gpt2", "llama-bpe", 1 + 8);
    refuses_tokenizer("TemplateProcessing|<s>"); /* which is no special token */
    write_tokens("gpt2", "gpt-2", 1 + 8);
    assert_ok(ppo_tokenizer_load("a.gguf", &tok));
    ppo_tokenizer_free(tok);
    more_value = "999";
    write_tokens("gpt2", "llama-bpe", 1 + 8);
    more_key = NULL;
    assert_ok(ppo_tokenizer_load("a.gguf", &tok));
    assert_ok(ppo_encode_as(tok, PPO_ENCODE_BOUNDS, "the", 3, ids, 8, &n));
    assert_true(n == 1 && ids[0] == 7);
    ppo_tokenizer_free(tok);
}

/* Replaces a text in tokenizer.json, if it is there, by another. */
static void edit_json(const char *from, const char *to) {
    char *json = NULL, *at;
    size_t n;
    assert_ok(ppo_text_load("tokenizer.json", &json, &n));
    at = strstr(json, from);
    if (!at) fail_msg("there is no %s in %s", from, json);
    char *edited = (char *)malloc(n + strlen(to) + 1);
    assert_non_null(edited);
    sprintf(edited, "%.*s%s%s", (int)(at - json), json, to, at + strlen(from));
    assert_ok(ppo_text_save("tokenizer.json", edited, strlen(edited)));
    free(edited);
    ppo_text_free(json);
}

#define SPACE "\342\226\201"
#define NFC   "\"normalizer\": {\"type\": \"NFC\"}"
#define STEP  "\"normalizers\": ["
#define SPLIT "{\"type\": \"Split\", \"pattern\": {\"String\": \"x\"}, \"behavior\": \"Isolated\"}, "
#define CUT(text, behavior)                                                      \
    "\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"String\": \"" text \
    "\"}, \"behavior\": \"" behavior "\"}"
#define AROUND "{\"SpecialToken\": {\"id\": \"<s>\", \"type_id\": 0}}"
#define TEXT   "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}"

/* p: of pieces, b: of bytes; words NULL: it is saved. */
static const struct {
    char of;
    const char *from, *to, *words;
} edits[] = {
    {'p', "\"byte_fallback\": true", "\"byte_fallback\": false", "of characters"},
    {'p', "\"ignore_merges\": false", "\"ignore_merges\": true", "of characters"},
    {'p', ", [\"" SPACE "t\", \"he\"]", "", "lack one that makes"},
    {'p', "[\"" SPACE "\", \"t\"], ", "", "lack one that makes"},
    {'p', "[\"" SPACE "t\", \"he\"], ", "", "lack one that makes"},
    {'p', STEP, STEP "{\"type\": \"NFC\"}, ", "of characters"},
    {'p', STEP, STEP "{\"type\": \"Strip\"}, ", "of characters"},
    {'p', STEP, STEP "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"x+\"}, \"content\": \"y\"}, ",
     "of characters"},
    {'p', STEP, STEP "{\"type\": \"Replace\", \"pattern\": {\"String\": \"x\"}, \"content\": \"y\"}, ",
     "of characters"},
    {'p', "{\"String\": \" \"}, \"content\": \"" SPACE "\"", "{\"String\": \" \"}, \"content\": \"_\"",
     "of characters"},
    {'p', "\"prepend\": \"" SPACE "\"", "\"prepend\": \"x\"", "of characters"},
    {'p', "\"pre_tokenizer\": null", CUT(" ", "MergedWithPrevious"), NULL},
    {'p', "\"pre_tokenizer\": null", CUT("x", "MergedWithPrevious"), "of characters"},
    {'p', "\"pre_tokenizer\": null", CUT(SPACE, "MergedWithNext"), NULL},
    {'p', "\"pre_tokenizer\": null", CUT("x", "MergedWithNext"), "of characters"},
    {'p', "\"pre_tokenizer\": null", CUT("x", "Isolated"), "of characters"},
    {'p', "\"unk_token\": \"<unk>\"", "\"unk_token\": null", NULL},
    {'p', "\"ea\": 13", "\"ea\": 280", NULL}, /* 13, and 272 to 279, are no tokens */
    {'p', "\"added_tokens\": [",
     "\"added_tokens\": [{\"id\": 272, \"content\": \"new " SPACE
     "\", \"normalized\": false, \"special\": false}, ",
     NULL},
    {'p', "[" AROUND ", " TEXT "]", "[" AROUND ", " AROUND ", " TEXT "]", "around a text"},
    {'p', "[" AROUND ", " TEXT "]", "[" TEXT ", " AROUND "]", "around a text"},
    {'p', "[" AROUND ", " TEXT "]", "[" TEXT ", " AROUND ", " AROUND "]", "around a text"},
    {'b', NFC, "\"normalizer\": {\"type\": \"NFD\"}", "no name for how"},
    {'b', NFC, "\"normalizer\": {\"type\": \"Prepend\", \"prepend\": \"x\"}", "no name for how"},
    {'b', NFC, "\"normalizer\": {\"type\": \"Strip\"}", "no name for how"},
    {'b', NFC, "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"Regex\": \"x\"}, \"content\": \"\"}",
     "no name for how"},
    {'b', NFC, "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \"x\"}, \"content\": \"\"}",
     "no name for how"},
    {'b', "\"behavior\": \"Isolated\"", "\"behavior\": \"Removed\"", "no name for how"},
    {'b', "\"Isolated\", \"invert\": false", "\"Isolated\", \"invert\": true", "no name for how"},
    {'b', "\"Isolated\", \"invert\": false", "\"Removed\", \"invert\": true", NULL}, /* which is the same */
    {'b', "\"pretokenizers\": [", "\"pretokenizers\": [" SPLIT SPLIT SPLIT, "no name for how"},
    {'b', "\"ignore_merges\": false", "\"ignore_merges\": true", "no name for how"},
    {'g', "\"use_regex\": true}]}", "\"use_regex\": false}]}", "no name for how"},
    {'g', "\"add_prefix_space\": false", "\"add_prefix_space\": true", "no name for how"},
};

static void tokenizers_that_gguf_has_no_word_for_are_refused(void **state) {
    (void)state;
    ppo_lm *lm = model("llama", "vocab=300 eos=-1");
    ppo_tokenizer *tok = NULL;
    for (int k = 0; k < COUNT(edits); k++) {
        if (edits[k].of == 'p') write_pieces(1, 0);
        else write_tokens("gpt2", edits[k].of == 'g' ? "gpt-2" : "qwen2", 1 + 8);
        assert_ok(ppo_tokenizer_load("a.gguf", &tok));
        assert_ok(ppo_tokenizer_save(tok, "tokenizer.json"));
        ppo_tokenizer_free(tok);
        edit_json(edits[k].from, edits[k].to);
        assert_ok(ppo_tokenizer_load("tokenizer.json", &tok));
        const ppo_status status = ppo_gguf_save(lm, tok, NULL, PPO_GGUF_F32, "b.gguf");
        if (status != (edits[k].words ? PPO_ERROR_ARGUMENT : PPO_OK) ||
            (edits[k].words && !strstr(ppo_last_error(), edits[k].words)))
            fail_msg("edit %d to %s: %s", k, edits[k].to, status ? ppo_last_error() : "it is saved");
        ppo_tokenizer *again = NULL; /* what is saved cuts as before */
        if (!status) {
            static const char line[] = "the cathea  x";
            int a[64], b[64], n, m;
            assert_ok(ppo_tokenizer_load("b.gguf", &again));
            assert_ok(ppo_encode_as(tok, PPO_ENCODE_SPECIALS, line, sizeof line - 1, a, 64, &n));
            assert_ok(ppo_encode_as(again, PPO_ENCODE_SPECIALS, line, sizeof line - 1, b, 64, &m));
            if (n != m || memcmp(a, b, (size_t)n * sizeof *a))
                fail_msg("edit %d to %s changes tokens", k, edits[k].to);
            if (strstr(edits[k].to, "new")) /* as llama.cpp writes a token that is found in a text */
                assert_int_equal(ppo_tokenizer_special(again, "new  "), 272);
            ppo_tokenizer_free(again);
        }
        ppo_tokenizer_free(tok);
    }
    pieces[13] = SPACE "th"; /* one piece of two pairs, with another one between */
    write_pieces(1, 0);
    pieces[13] = "ea";
    assert_ok(ppo_tokenizer_load("a.gguf", &tok));
    assert_ok(ppo_tokenizer_save(tok, "tokenizer.json"));
    ppo_tokenizer_free(tok);
    edit_json("[\"" SPACE "th\", \"e\"], ", "");
    edit_json("]]}}", "], [\"" SPACE "th\", \"e\"]]}}");
    assert_ok(ppo_tokenizer_load("tokenizer.json", &tok));
    assert_fails(ppo_gguf_save(lm, tok, NULL, PPO_GGUF_F32, NULL), PPO_ERROR_ARGUMENT, "order of the merges");
    ppo_tokenizer_free(tok);
    static const char unigram[] =
        "{\"version\": \"1.0\", \"added_tokens\": [], \"normalizer\": null, \"pre_tokenizer\": {\"type\": "
        "\"Metaspace\", \"replacement\": \"" SPACE
        "\", \"prepend_scheme\": \"always\"}, \"post_processor\": null, "
        "\"decoder\": {\"type\": \"Metaspace\", \"replacement\": \"" SPACE
        "\", \"prepend_scheme\": \"always\"}, \"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": "
        "[[\"<unk>\", 0.0], [\"a\", "
        "-1.0]]}}";
    assert_ok(ppo_text_save("tokenizer.json", unigram, sizeof unigram - 1));
    assert_ok(ppo_tokenizer_load("tokenizer.json", &tok));
    assert_fails(ppo_gguf_save(lm, tok, NULL, PPO_GGUF_F32, NULL), PPO_ERROR_ARGUMENT, "no name for how");
    ppo_tokenizer_free(tok);
    ppo_lm_free(lm);
}

static void models_that_are_not_known_are_refused(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"llama.expert_count", "8", "experts"},
        {"llama.attention.head_count_kv", "two", "not one number|head_count_kv"},
        {"llama.rope.scaling.type", "yarn", "rope.scaling.type|yarn"},
        {"llama.rope.scaling.type", "llama3", "rope.scaling.type"},
        {"llama.rope.scaling.type", "linear", "no llama.rope.scaling.factor"},
        {"llama.rope.scaling.type", "3", "no text: llama.rope.scaling.type"},
        {"llama.attention.head_count_kv", "[8", "not one number|head_count_kv"},
        {"llama.attention.head_count_kv", "3", "kv_heads"},
        {"tokenizer.ggml.eos_token_id", "[7", "no whole number|eos_token_id"},
        {"tokenizer.ggml.eos_token_id", "1.5", "no whole number|eos_token_id"},
        {"tokenizer.ggml.eos_token_id", "-2", "no whole number|eos_token_id"},
        {"tokenizer.ggml.eos_token_id", "4294967295", "no whole number|eos_token_id"},
        {"tokenizer.ggml.eos_token_id", "end", "no whole number|eos_token_id"}};
    static const char *const required[] = {"general.architecture",       "llama.context_length",
                                           "llama.embedding_length",     "llama.block_count",
                                           "llama.attention.head_count", "llama.feed_forward_length"};
    static char row[256 / 32 * 34];
    ppo_lm *lm = model("llama", ""), *read = NULL;
    for (int k = 0; k < COUNT(cases); k++) {
        write_kind(8, row, sizeof row, cases[k][0], cases[k][1]);
        refuses_model(cases[k][2]);
    }
    for (int k = 0; k < COUNT(required); k++) {
        char words[80], *last;
        snprintf(words, sizeof words, "there is no %s", required[k]);
        write_kind(8, row, sizeof row, "general.name", "x");
        last = (char *)find(required[k], strlen(required[k])) + strlen(required[k]) - 1;
        *last = '_';
        write_bytes("a.gguf");
        refuses_model(words);
    }
    write_kind(8, row, sizeof row, "llama.rope.scaling.type", "none");
    assert_ok(ppo_lm_load("a.gguf", &read));
    ppo_lm_free(read);
    write_kind(8, row, sizeof row, "tokenizer.ggml.eos_token_id",
               "5000"); /* of a tokenizer with more tokens */
    assert_ok(ppo_lm_load("a.gguf", &read));
    assert_int_equal(read->config.eos, -1);
    ppo_lm_free(read);
    for (int k = 0; k < 3; k++) { /* multiples that are too small, too large, and none of 8 */
        static const unsigned char bad[][8] = {
            {4, 0, 0, 0, 0}, {4, 0, 0, 0, 0, 0, 32, 0}, {4, 0, 0, 0, 20, 0, 0, 0}};
        write_kind(8, row, sizeof row, "general.name", "x");
        change("general.alignment", bad[k], 8), refuses_model("no multiple of 8");
    }
    for (int k = 0; k < 3; k++) { /* what was written, with one thing changed */
        static const unsigned char one[] = {4, 0, 0, 0, 1}, nine[] = {4, 0, 0, 0, 9},
                                   twelve[] = {4, 0, 0, 0, 12};
        char *whole = NULL;
        size_t n;
        assert_ok(ppo_gguf_save(lm, NULL, NULL, PPO_GGUF_F32, "b.gguf"));
        assert_ok(ppo_text_load("b.gguf", &whole, &n));
        size = 0;
        put(whole, n);
        ppo_text_free(whole);
        if (k == 0) change("llama.block_count", one, 5), refuses_model("blk.1|no place");
        if (k == 1) change("llama.attention.value_length", nine, 5), refuses_model("key_length");
        write_kind(8, row, sizeof row, "general.name", "x");
        if (k == 2) change("general.alignment", twelve, 5), refuses_model("general.alignment");
    }
    begin(0, 1);
    put_int("general.architecture", 3);
    write_bytes("a.gguf");
    refuses_model("no text|general.architecture");
    begin(0, 1);
    put_value("general.architecture", "[llama");
    write_bytes("a.gguf");
    refuses_model("no text|general.architecture");
    begin(0, 0);
    write_bytes("a.gguf");
    refuses_model("no general.architecture");
    for (int k = 0; k < 2; k++) { /* an alignment that is no number is not one; and there are no tensors */
        begin(0, 7);
        put_string("general.architecture", "llama");
        put_int("llama.context_length", 8);
        put_int("llama.embedding_length", 8);
        put_int("llama.block_count", 1);
        put_int("llama.feed_forward_length", 8);
        put_int("llama.attention.head_count", 1);
        put_value("general.alignment", k ? "[" : "x");
        write_bytes("a.gguf");
        refuses_model("no token_embd.weight");
    }
    remove("a.gguf");
    refuses_model("a.gguf");
    refuses_tokenizer("a.gguf");
    ppo_lm_free(lm);
}

/* -- what is refused -- */

static void what_gguf_cannot_express_is_refused(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"gpt_neo", "", "gpt_neo"},
        {"mistral", "window=8", "window"},
        {"llama", "attention_scale=1", "attention_scale"},
        {"llama", "activation=relu", "activation"},
        {"qwen2", "rope_scaling=llama3 rope_factor=8", "rope_scaling"},
        {"llama", "rope_scaling=yarn rope_factor=8", "rope_scaling is yarn, which is not written"},
        {"qwen3", "qkv_bias=yes", "qkv_bias"},
        {"gpt_neox", "tied=yes", "tied"},
        {"gemma3_text", "window=8 window_layers=2 attention_scale=0.25 head_size=16", "window_layers"},
        {"smollm3", "layers=5 nope_layers=1", "nope_layers"},
        {"llama", "score=1", "score"}};
    ppo_lm *lm = NULL, *policy = NULL;
    ppo_tokenizer *tok = NULL;
    const ppo_lora lora = ppo_lora_default();
    for (int k = 0; k < COUNT(cases); k++) {
        lm = model(cases[k][0], cases[k][1]);
        assert_fails(ppo_gguf_save(lm, NULL, NULL, PPO_GGUF_F32, NULL), PPO_ERROR_ARGUMENT, cases[k][2]);
        assert_fails(ppo_gguf_save(lm, trained, NULL, PPO_GGUF_F32, "b.gguf"), PPO_ERROR_ARGUMENT,
                     cases[k][2]);
        ppo_lm_free(lm);
    }
    lm = model("llama", "vocab=260 eos=2");
    assert_fails(ppo_gguf_save(lm, trained, NULL, PPO_GGUF_F32, NULL), PPO_ERROR_ARGUMENT, "268 tokens|260");
    assert_fails(ppo_gguf_save(lm, NULL, NULL, (ppo_gguf_type)2, NULL), PPO_ERROR_ARGUMENT, "type is 2");
    assert_fails(ppo_gguf_save(NULL, NULL, NULL, PPO_GGUF_F32, NULL), PPO_ERROR_ARGUMENT, "lm is NULL");
    assert_ok(ppo_lm_adapt(lm, &lora, 0, &policy));
    assert_fails(ppo_gguf_save(policy, NULL, NULL, PPO_GGUF_F32, NULL), PPO_ERROR_ARGUMENT, "ppo_lm_merge");
    ppo_lm_free(policy);
    assert_ok(ppo_params_to_bf16(lm->params));
    assert_ok(ppo_gguf_save(lm, NULL, NULL, PPO_GGUF_F32, NULL)); /* only checked */
    assert_fails(ppo_gguf_save(lm, NULL, NULL, PPO_GGUF_F32, "b.gguf"), PPO_ERROR_ARGUMENT, "packed");
    ppo_lm_free(lm);
    lm = model("llama", "");
    assert_ok(ppo_tokenizer_characters(text, sizeof text - 1, NULL, 0, &tok));
    assert_fails(ppo_gguf_save(lm, tok, NULL, PPO_GGUF_F32, NULL), PPO_ERROR_ARGUMENT, "characters");
    ppo_tokenizer_free(tok);
    assert_fails(ppo_tokenizer_save(trained, "b.gguf"), PPO_ERROR_ARGUMENT, "ppo_gguf_save");
    ppo_lm_free(lm);
}

/* The first that is free. */
static int descriptor(void) {
    FILE *file = fopen("free", "wb");
    assert_non_null(file);
    const int number = fileno(file);
    fclose(file);
    remove("free");
    return number;
}

static void bad_files_are_refused_by_a_sentence(void **state) {
    (void)state;
    static const unsigned char many[8] = {0, 0, 0, 0, 0, 0, 0, 1};
    static const struct {
        const char *after;
        unsigned char by[16];
        size_t n;
        const char *words;
    } cases[] = {
        {"GGUF", {1, 0, 0, 0}, 4, "version 1"},
        {"GGUF", {4, 0, 0, 0}, 4, "version"},
        {"GGUF", {0, 0, 0, 0}, 4, "version"},
        {"smo", {0}, 1, "byte 0|tokenizer.ggml.pre"},
        {"GGUF", {0, 0, 0, 3}, 4, "big-endian"},
        {"general.architecture", {8, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 'b'}, 13, "blama"},
        {"general.architecture", {77}, 1, "unknown type|general.architecture"},
        {"general.architecture", {9}, 1, "general.architecture"},
        {"llama.context_length", {8, 0, 0, 0, 255, 255, 255, 255}, 8, "truncated|llama.context_length"},
        {"llama.context_length", {4, 0, 0, 0, 255, 255, 255, 255}, 8, "llama.context_length|4294967295,"},
        {"tokenizer.ggml.tokens\11", {0, 0, 0, 8, 0, 0, 0, 255}, 8, "tokenizer.ggml.tokens"},
        {"llama.block_count", {4, 0, 0, 0, 2}, 5, "blk.1"},
        {"llama.block_count", {4, 0, 0, 0, 0}, 5, "block_count"},
        {"llama.embedding_length", {4, 0, 0, 0, 64}, 5, "token_embd.weight|64"},
        {"llama.attention.head_count", {4, 0, 0, 0, 0}, 5, "head_count"},
        {"blk.0.attn_norm.weight", {1, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 8}, 13, "not where"},
        {"output_norm.weight", {1, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 8}, 13, "quantized|output_norm.weight"},
        {"blk.0.attn_q.weight", {5}, 1, "blk.0.attn_q.weight"},
        {"blk.0.attn_q.weight", {1}, 1, "blk.0.attn_q.weight|type"},
        {"blk.0.attn_q.weight", {2, 0, 0, 0, 31}, 5, "blk.0.attn_q.weight|blocks"},
        {"blk.0.attn_q.weight", {2, 0, 0, 0, 32, 0, 0, 255}, 8, "blk.0.attn_q.weight"},
    };
    const int free_descriptor = descriptor();
    take_golden();
    for (size_t whole = size, n = 0; n < whole; n += n < 1900 ? 7 : 97) { /* every beginning is too short */
        take_golden();
        size = n;
        write_bytes("a.gguf");
        refuses_model(n < 4 ? "not GGUF" : "truncated");
        if (n < 1900 || n > 6000) refuses_tokenizer(n < 4 ? "not GGUF" : "truncated");
    }
    for (int k = 0; k < COUNT(cases); k++) {
        take_golden();
        change(cases[k].after, cases[k].by, cases[k].n);
        refuses_model(cases[k].words);
    }
    for (int at = 8; at < 24; at += 8) { /* 2^56 tensors; keys */
        take_golden();
        memcpy(bytes + at, many, 8);
        write_bytes("a.gguf");
        refuses_model(at == 8 ? "tensors" : "keys");
    }
    take_golden(); /* the last tensor ends with it */
    memset(bytes + size - 4, 255, 4);
    write_bytes("a.gguf");
    refuses_model("output_norm.weight|finite");
    rename_in_file("GGUF", "GGML");
    refuses_model("not GGUF");
    rename_in_file("llama.block_count", "llama.block_xxxxx");
    refuses_model("llama.block_count");
    remove("a.gguf");
    refuses_model("a.gguf|cannot be opened");
    refuses_tokenizer("a.gguf|cannot be opened");
    assert_int_equal(descriptor(), free_descriptor); /* no file is left open */
}

static void names_that_are_wrong_or_there_twice_are_refused(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"blk.0.attn_k.weight", "blk.0.attn_q.weight", "blk.0.attn_q.weight"},
        {"blk.0.attn_k.weight", "blk.0.attn_x.weight", "blk.0.attn_k.weight"},
        {"output_norm.weight", "output_more.weight", "output_norm"},
        {"llama.context_length", "llama.embedding_leng", "llama.context_length"}};
    for (int k = 0; k < COUNT(cases); k++) {
        rename_in_file(cases[k][0], cases[k][1]);
        refuses_model(cases[k][2]);
    }
    rename_in_file("tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id");
    refuses_model("twice|eos_token_id");
    rename_in_file("smollm", "\377\377\377\377\377\377");
    refuses_model("UTF-8|tokenizer.ggml.pre");
    rename_in_file("smollm", "smellm");
    refuses_tokenizer("tokenizer.ggml.pre|smellm");
    rename_in_file("tokenizer.ggml.tokens", "tokenizer.ggml.tokenz");
    refuses_tokenizer("tokenizer.ggml.tokens");
    rename_in_file("tokenizer.ggml.merges", "tokenizer.ggml.mergez");
    refuses_tokenizer("tokenizer.ggml.merges");
    take_golden();
    write_bytes("x.bin");
    ppo_lm *lm = NULL;
    assert_fails(ppo_lm_load("x.bin", &lm), PPO_ERROR_FILE, "GGUF|.gguf");
}

static void tensors_of_impossible_sizes_are_refused(void **state) {
    (void)state;
    static const struct {
        uint64_t rank, sizes[4];
        const char *words;
    } cases[] = {{0, {0}, "without one to four sizes"},
                 {2, {8, 0}, "0 or too large"},
                 {2, {8, (uint64_t)1 << 31}, "0 or too large"},
                 {3, {1, 1, 2}, "more than two dimensions"},
                 {4, {1, 1, 1, 2}, "more than two dimensions"},
                 {2, {INT_MAX, INT_MAX}, "a tensor that is too large: x"},
                 {1, {1}, "truncated|y"}};
    for (int k = 0; k < COUNT(cases); k++) {
        begin(2, 1);
        put_string("general.architecture", "llama");
        put_text("x");
        put_whole(cases[k].rank, 4);
        for (uint64_t i = 0; i < cases[k].rank; i++) put_whole(cases[k].sizes[i], 8);
        put_whole(0, 4), put_whole(0, 8);
        put_text("y");
        put_whole(1, 4), put_whole(1, 8), put_whole(0, 4), put_whole(32, 8);
        while (size % 32) put_whole(0, 1);
        put_whole(0, 4); /* the file ends with x, before y begins */
        write_bytes("a.gguf");
        refuses_model(cases[k].words);
    }
}

/* A vector may say that it has one row, and 0 is a number as any other. */
static void rows_of_zeros_and_vectors_of_one_row_are_read(void **state) {
    (void)state;
    static const unsigned char two[] = {2, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0};
    static const char name[] = "output_norm.weight";
    ppo_lm *lm = model("llama", ""), *read = NULL;
    float *x = lm->token_embedding->data;
    memset(x + 32, 0, 32 * sizeof *x);
    assert_ok(ppo_gguf_save(lm, NULL, NULL, PPO_GGUF_Q8_0, "b.gguf"));
    assert_ok(ppo_lm_load("b.gguf", &read));
    for (int i = 32; i < 64; i++) assert_true(read->token_embedding->data[i] == 0);
    ppo_lm_free(read);
    assert_ok(ppo_gguf_save(lm, NULL, NULL, PPO_GGUF_F32, "b.gguf"));
    take_file("b.gguf");
    const float nan = NAN;
    memcpy(find(x + 64, 4 * sizeof *x), &nan, sizeof nan); /* in the first of many rows */
    write_bytes("a.gguf");
    refuses_model("token_embd.weight|not finite");
    take_file("b.gguf"); /* eight bytes more before the numbers, and as many less of what is between */
    unsigned char *at = find(name, sizeof name - 1) + sizeof name - 1, *data = find(x, 4 * sizeof *x);
    size_t gap = 0;
    while (!data[-1 - (ptrdiff_t)gap]) gap++;
    assert_true(gap >= 8 + 7); /* the last number before them has zeros, too */
    memmove(at + 20, at + 12, (size_t)(data - at) - 20);
    memcpy(at, two, sizeof two);
    write_bytes("a.gguf");
    assert_ok(ppo_lm_load("a.gguf", &read));
    assert_memory_equal(lm->params->data, read->params->data, lm->params->count * sizeof(float));
    ppo_lm_free(read);
    ppo_lm_free(lm);
}

static void factors_that_are_not_llama_3s_are_refused(void **state) {
    (void)state;
    static const char name[] = "rope_freqs.weight";
    static const float other[][8] = {{1, 1, 1, 1, 1, 1, 1, 8},   {1, 2, 3, 4, 5, 6, 7, 8},
                                     {1, 1, 1, 2, 3, 4, 5, -8},  {8, 6, 4, 3, 2, 1.5f, 1.2f, 8},
                                     {1, 1, 1, NAN, 2, 3, 4, 8}, {1, 1, 1, 1, 1, 1, 4, 8}};
    static const unsigned char infos[][16] = {{1, 0, 0, 0, 7}, {1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1}};
    ppo_lm *lm = model("llama", "rope_scaling=llama3 rope_factor=8 rope_context=128 head_size=16");
    assert_ok(ppo_gguf_save(lm, NULL, NULL, PPO_GGUF_F32, "b.gguf"));
    for (int k = 0; k < COUNT(other); k++) {
        static const float last = 8;
        unsigned char *at;
        take_file("b.gguf");
        for (at = find(name, sizeof name - 1); memcmp(at, &last, 4) || (at - bytes) % 32 != 28;) at++;
        for (int j = 0; j < 8; j++) memcpy(at - 28 + 4 * j, &other[k][j], 4);
        write_bytes("a.gguf");
        refuses_model(isnan(other[k][3]) ? "rope_freqs.weight|not finite"
                                         : "not those of Llama 3|rope_freqs");
    }
    for (int k = 0; k < COUNT(infos); k++) {
        take_file("b.gguf");
        memcpy(find(name, sizeof name - 1) + sizeof name - 1, infos[k], 16);
        write_bytes("a.gguf");
        refuses_model("no list of a float for each frequency: rope_freqs.weight");
    }
    ppo_lm_free(lm);
}

static void ends_are_told_once_and_as_far_as_there_is_room(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        int ends[3] = {-5, -5, -5}, n = 7;
        begin(0, 4);
        put_string("general.architecture", "llama");
        put_value("tokenizer.ggml.eos_token_id", "7");
        put_value("tokenizer.ggml.eot_token_id", "7");
        put_value("tokenizer.ggml.eom_token_id", k ? "end" : "9");
        write_bytes("a.gguf");
        if (k) {
            assert_fails(ppo_lm_load_ends("a.gguf", ends, 3, &n), PPO_ERROR_FILE, "eom_token_id");
            assert_int_equal(n, 0);
            continue;
        }
        assert_ok(ppo_lm_load_ends("a.gguf", ends, 3, &n));
        assert_true(n == 2 && ends[0] == 7 && ends[1] == 9 && ends[2] == -5);
        ends[1] = -5;
        assert_ok(ppo_lm_load_ends("a.gguf", ends, 1, &n));
        assert_true(n == 2 && ends[0] == 7 && ends[1] == -5);
    }
}

/* A number with all bits set, and a list that ends with the file. */
static void numbers_and_lists_of_every_type_are_read(void **state) {
    (void)state;
    static const char eos[] = "tokenizer.ggml.eos_token_id";
    static const int last[] = {255, -1, 65535, -1, 0, -1, 0, 255, 0, 0, 0, -1, 0}; /* 0: no token's number */
    static char row[256 / 32 * 34];
    ppo_lm *lm = NULL;
    for (int kind = 0; kind < COUNT(sizes); kind++) {
        int ends[1] = {-1}, n = 0;
        if (kind == 9) continue;
        begin(0, 3);
        put_string("general.architecture", "llama");
        if (kind == 8) put_string(eos, "7");
        else put_key(eos, kind), put_whole(UINT64_MAX, sizes[kind]);
        put_key("list", 9), put_whole((uint64_t)kind, 4), put_whole(64, 8);
        for (int k = 0; k < 64; k++) put_whole(0, kind == 8 ? 8 : sizes[kind]);
        write_bytes("a.gguf");
        if (!last[kind])
            assert_fails(ppo_lm_load_ends("a.gguf", ends, 1, &n), PPO_ERROR_FILE, "no whole number");
        else assert_ok(ppo_lm_load_ends("a.gguf", ends, 1, &n));
        assert_int_equal(n, last[kind] > 0);
        if (n) assert_int_equal(ends[0], last[kind]);
    }
    write_kind(8, row, sizeof row, "llama.rope.freq_base", "2.5e4");
    assert_ok(ppo_lm_load("a.gguf", &lm));
    assert_true(lm->config.rope_theta == 25000);
    ppo_lm_free(lm);
}

static ppo_status read_and_write(void *user) {
    ppo_tokenizer *tok = NULL;
    ppo_lm *lm = NULL;
    (void)user;
    ppo_status status = ppo_lm_load("a.gguf", &lm);
    if (!status) status = ppo_tokenizer_load("a.gguf", &tok);
    if (!status) status = ppo_gguf_save(lm, tok, NULL, PPO_GGUF_Q8_0, "b.gguf");
    ppo_tokenizer_free(tok);
    ppo_lm_free(lm);
    return status;
}

static ppo_status read_tokenizer(void *user) {
    ppo_tokenizer *tok = NULL;
    (void)user;
    ppo_status status = ppo_tokenizer_load("a.gguf", &tok);
    ppo_tokenizer_free(tok);
    return status;
}

static ppo_status read_model(void *user) {
    ppo_lm *lm = NULL;
    (void)user;
    ppo_status status = ppo_lm_load("a.gguf", &lm);
    ppo_lm_free(lm);
    return status;
}

static void every_failing_allocation_is_reported_and_leaks_nothing(void **state) {
    (void)state;
    take_golden();
    write_bytes("a.gguf");
    assert_true(fail_each_site(read_and_write, NULL, 1) > 20);
    write_pieces(1, 0);
    assert_true(fail_each_site(read_tokenizer, NULL, 1) > 5);
    write_tokens("gpt2", "gpt-2", 1 + 8); /* without kinds of tokens */
    assert_true(fail_each_site(read_tokenizer, NULL, 1) > 5);
    ppo_lm *lm = model("llama", "layers=1 width=8 heads=1 hidden=8 vocab=9 eos=1 rope_scaling=llama3");
    assert_ok(ppo_gguf_save(lm, NULL, NULL, PPO_GGUF_F32, "a.gguf"));
    ppo_lm_free(lm);
    assert_true(fail_each_site(read_model, NULL, 1) > 5);
}

#define TEST(name) cmocka_unit_test(name)

int main(void) {
    static const struct CMUnitTest tests[] = {
        TEST(a_file_of_eight_types_gives_the_logits_of_its_numbers),
        TEST(the_tokenizer_of_a_file_cuts_as_its_name_says),
        TEST(blocks_of_every_type_become_the_floats_of_gguf),
        TEST(models_of_every_family_are_read_back_to_the_bit),
        TEST(a_file_has_the_keys_of_its_family_and_the_number_of_its_type),
        TEST(the_scaling_of_llama3_is_found_from_its_factors),
        TEST(fewer_bits_round_to_the_nearest),
        TEST(merges_follow_from_the_scores_of_pieces),
        TEST(pieces_of_any_form_are_read_and_written),
        TEST(names_of_cuts_are_read_and_written),
        TEST(tokenizers_that_are_not_known_are_refused),
        TEST(tokenizers_that_gguf_has_no_word_for_are_refused),
        TEST(models_that_are_not_known_are_refused),
        TEST(what_gguf_cannot_express_is_refused),
        TEST(bad_files_are_refused_by_a_sentence),
        TEST(names_that_are_wrong_or_there_twice_are_refused),
        TEST(tensors_of_impossible_sizes_are_refused),
        TEST(rows_of_zeros_and_vectors_of_one_row_are_read),
        TEST(factors_that_are_not_llama_3s_are_refused),
        TEST(ends_are_told_once_and_as_far_as_there_is_room),
        TEST(numbers_and_lists_of_every_type_are_read),
        TEST(every_failing_allocation_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
