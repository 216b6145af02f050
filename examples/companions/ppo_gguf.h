/* ppo_gguf.h - GGUF, the files of llama.cpp: models with their tokenizers, both ways

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_gguf.h"              // after ppo.h; other files may include it for its declarations

       ppo_lm *lm = NULL;                 // both are in one file
       ppo_tokenizer *tok = NULL;
       ppo_lm_load("SmolLM2-135M-Instruct-Q4_K_M.gguf", &lm);
       ppo_tokenizer_load("SmolLM2-135M-Instruct-Q4_K_M.gguf", &tok);

       ppo_gguf_save(lm, tok, NULL, PPO_GGUF_Q8_0, "mine.gguf");      // llama-cli -m mine.gguf

   Copy this file beside ppo_hub.h, which it includes, and what that needs. In the folder examples/, where
   they are in companions/, programs include it from there: #include "companions/ppo_gguf.h". A program that
   uses a GPU includes it before ppo_cuda.cuh.

   These functions of ppo.h and ppo_hub.h then also accept a file whose name ends in .gguf: ppo_lm_load(),
   ppo_tokenizer_load() and ppo_lm_load_ends().

WHAT IT READS

   Versions 2 and 3 of the format, in which numbers are little-endian. Tensors of type F32, F16, BF16, Q4_0,
   Q4_1, Q5_0, Q5_1, Q8_0 and the K-quants Q2_K to Q6_K become floats, exactly as llama.cpp makes floats of
   them. The model is frozen, as one of a folder is; ppo_params_to_bf16() halves its memory, and LoRA trains
   beside it.

       general.architecture    llama  qwen2  qwen3  gpt2  gptneox   gemma3       olmo2  smollm3  phi3  granite
       family in ppo_hub.h     llama  qwen2  qwen3  gpt2  gpt_neox  gemma3_text  olmo2  smollm3  phi3  granite

   Mistral is llama in GGUF.

   Biases, and whether the head is the embedding, follow from the tensors that are there. Scaling of rotary
   positions: linear, and that of Llama 3, whose settings are found from its tensor of factors.

   Tokenizers: tokenizer.ggml.model "gpt2" with one of these names in tokenizer.ggml.pre, which stand for how
   Hugging Face's tokenizers cut the texts of

       gpt-2 phi-2  GPT-2      olmo  Pythia, OLMo      smollm starcoder refact  SmolLM
       llama-bpe llama3  Llama 3      qwen2  Qwen 2 to 3      qwen35  Qwen 3.5
       tekken  Mistral NeMo      gpt-4o      deepseek-v3

   and "llama", which is SentencePiece's BPE (Llama 2, TinyLlama, Mistral, Gemma): merges are made of its
   scores. Where Hugging Face's tokenizer brings a text into a normal form (NFC of olmo and qwen), so does
   this one; llama.cpp does not.

WHAT IT WRITES

   F32, F16, BF16 or Q8_0 of the families above; norms and biases are F32, as in llama.cpp's own files. Only
   gemma3_text and phi3 have windows there (and llama.cpp does not apply that of phi3). The tokenizer must be
   one of those above: what GGUF has no word for is refused. "prepend_scheme" first of Metaspace becomes
   llama.cpp's only way, a space also after a special token. Tokens that the model has beyond its tokenizer's
   are called [PAD123]. Not expressed: a score, LoRA (ppo_lm_merge() it first), the seed.

   With the same weights, logits are llama.cpp's up to its rounding: it computes with halves, and GELU from a
   table of 65,536. gptneox has the exact GELU here, as in transformers, and the tanh form there.

HOW A FILE IS MADE

       "GGUF"  version  number of tensors  number of keys
       key     type  value                            for each key; lists have a type and a length
       tensor  its name, sizes (the first is that of a row), type, place     for each tensor
       the tensors' numbers, each from a multiple of 32 on

   Names of tensors are the same for all architectures: blk.3.attn_q.weight. The rows of queries and keys of
   `llama` lie in another order than transformers', since llama.cpp rotates neighbors: row 2i + h of a head
   is row i + h size / 2 there.

   License: that of ppo.h. */
#ifndef PPO_GGUF_H
#define PPO_GGUF_H
#ifndef PPO_H
#error "include ppo.h before ppo_gguf.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_gguf.h belongs to version 0.3 of ppo.h"
#endif

#include "ppo_hub.h"

#ifndef PPO_NO_LANGUAGE
#ifdef __cplusplus
extern "C" {
#endif

/* Types of the matrices in a file; their numbers are ggml's. */
typedef enum ppo_gguf_type {
    PPO_GGUF_F32 = 0,
    PPO_GGUF_F16 = 1,
    PPO_GGUF_Q8_0 = 8, /* 8 bits, and a scale for each 32 of them; rows that 32 does not divide are F16 */
    PPO_GGUF_BF16 = 30
} ppo_gguf_type;

/* Writes a model and its tokenizer to one file, which replaces the one at path in one step. tokenizer NULL:
   none, as for programs that only compute with tokens. chat_template: in Jinja, for programs that chat;
   NULL: that of the folder or file that the tokenizer was read from, if there was one. The token that ends a
   text is lm->config.eos, or else the tokenizer's. path NULL: nothing is written, but it is checked whether
   it could be. Errors: those of files; a family or setting that GGUF does not have, a tokenizer that it
   cannot express or that has more tokens than the model, a score, LoRA, packed weights, a number that the
   type cannot hold. */
PPO_DEF ppo_status ppo_gguf_save(const ppo_lm *lm, const ppo_tokenizer *tokenizer, const char *chat_template,
                                 ppo_gguf_type type, const char *path);

#ifdef __cplusplus
}
#endif
#endif /* PPO_NO_LANGUAGE */
#endif /* PPO_GGUF_H */
/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__GGUF_IMPLEMENTED)
#define PPO__GGUF_IMPLEMENTED
#ifndef PPO_NO_LANGUAGE

PPO__WARNINGS_OFF

/* --------------------------------------------------------------------------------------------------------
   @@ Blocks of numbers
   --------------------------------------------------------------------------------------------------------

   A quantized row is a sequence of blocks: of 32 numbers with one scale, or of 256 in eight or sixteen groups
   that have small scales of their own (K). q are the small whole numbers, d and m scales:
   x = d q, x = d (q - zero) or x = d q + m.
   -------------------------------------------------------------------------------------------------------- */

static float ppo__gguf_half(const unsigned char *at) {
    return ppo__half_float((uint16_t)(at[0] | at[1] << 8));
}

static void ppo__gguf_f32(const unsigned char *block, float *x) {
    const uint32_t bits =
        block[0] | (uint32_t)block[1] << 8 | (uint32_t)block[2] << 16 | (uint32_t)block[3] << 24;
    memcpy(x, &bits, sizeof bits);
}

static void ppo__gguf_f16(const unsigned char *block, float *x) { *x = ppo__gguf_half(block); }

static void ppo__gguf_bf16(const unsigned char *block, float *x) {
    const uint32_t bits = (uint32_t)block[0] << 16 | (uint32_t)block[1] << 24;
    memcpy(x, &bits, sizeof bits);
}

/* Numbers k and k + 16 are the halves of a byte. */
static void ppo__gguf_q4(const unsigned char *q, float d, int zero, float m, float *x) {
    for (int k = 0; k < 16; ++k) {
        x[k] = (float)((q[k] & 15) - zero) * d + m;
        x[k + 16] = (float)((q[k] >> 4) - zero) * d + m;
    }
}

static void ppo__gguf_q4_0(const unsigned char *block, float *x) {
    ppo__gguf_q4(block + 2, ppo__gguf_half(block), 8, 0, x);
}

static void ppo__gguf_q4_1(const unsigned char *block, float *x) {
    ppo__gguf_q4(block + 4, ppo__gguf_half(block), 0, ppo__gguf_half(block + 2), x);
}

/* The same with the fifth bits in `high`. */
static void ppo__gguf_q5(const unsigned char *high, float d, int zero, float m, float *x) {
    const unsigned char *q = high + 4;
    for (int k = 0; k < 32; ++k) {
        const int low = k < 16 ? q[k] & 15 : q[k - 16] >> 4, fifth = high[k / 8] >> k % 8 & 1;
        x[k] = (float)((low | fifth << 4) - zero) * d + m;
    }
}

static void ppo__gguf_q5_0(const unsigned char *block, float *x) {
    ppo__gguf_q5(block + 2, ppo__gguf_half(block), 16, 0, x);
}

static void ppo__gguf_q5_1(const unsigned char *block, float *x) {
    ppo__gguf_q5(block + 4, ppo__gguf_half(block), 0, ppo__gguf_half(block + 2), x);
}

static void ppo__gguf_q8_0(const unsigned char *block, float *x) {
    const float d = ppo__gguf_half(block);
    for (int k = 0; k < 32; ++k) x[k] = (float)(signed char)block[2 + k] * d;
}

/* 16 groups of 16; a byte holds the scale and the minimum of each. The numbers of 128 are in 32 bytes, by 2
   bits. */
static void ppo__gguf_q2_k(const unsigned char *block, float *x) {
    const unsigned char *scales = block, *q = block + 16;
    const float d = ppo__gguf_half(block + 80), m = ppo__gguf_half(block + 82);
    for (int k = 0; k < 256; ++k) {
        const int scale = scales[k / 16], bits = q[k / 128 * 32 + k % 32] >> k % 128 / 32 * 2 & 3;
        x[k] = d * (float)(scale & 15) * (float)bits - m * (float)(scale >> 4);
    }
}

/* 16 groups of 16; the scales have 6 bits, 4 of them in the first 8 bytes; the third bits of the numbers are
   in `high`. */
static void ppo__gguf_q3_k(const unsigned char *block, float *x) {
    const unsigned char *high = block, *q = block + 32, *scales = block + 96;
    const float d = ppo__gguf_half(block + 108);
    for (int k = 0; k < 256; ++k) {
        const int g = k / 16, low = g < 8 ? scales[g] & 15 : scales[g - 8] >> 4;
        const int scale = (low | (scales[8 + g % 4] >> g / 4 * 2 & 3) << 4) - 32;
        const int bits = q[k / 128 * 32 + k % 32] >> k % 128 / 32 * 2 & 3, third = high[k % 32] >> k / 32 & 1;
        x[k] = d * (float)scale * (float)(bits - (third ? 0 : 4));
    }
}

/* 8 groups of 32; their scales and minima have 6 bits, of which the last four groups keep 4 apart from the
   others. */
static void ppo__gguf_scales(const unsigned char *scales, int g, int *scale, int *least) {
    *scale = g < 4 ? scales[g] & 63 : (scales[g + 4] & 15) | scales[g - 4] >> 6 << 4;
    *least = g < 4 ? scales[g + 4] & 63 : scales[g + 4] >> 4 | scales[g] >> 6 << 4;
}

static void ppo__gguf_q45_k(const unsigned char *scales, const unsigned char *high, const unsigned char *q,
                            float d, float m, float *x) {
    for (int g = 0, scale, least; g < 8; ++g) {
        ppo__gguf_scales(scales, g, &scale, &least);
        const float of_group = d * (float)scale, lowest = m * (float)least;
        for (int k = 0; k < 32; ++k) {
            const int byte = q[g / 2 * 32 + k], low = g % 2 ? byte >> 4 : byte & 15,
                      fifth = high ? high[k] >> g & 1 : 0;
            x[32 * g + k] = of_group * (float)(low | fifth << 4) - lowest;
        }
    }
}

static void ppo__gguf_q4_k(const unsigned char *block, float *x) {
    ppo__gguf_q45_k(block + 4, NULL, block + 16, ppo__gguf_half(block), ppo__gguf_half(block + 2), x);
}

static void ppo__gguf_q5_k(const unsigned char *block, float *x) {
    ppo__gguf_q45_k(block + 4, block + 16, block + 48, ppo__gguf_half(block), ppo__gguf_half(block + 2), x);
}

/* 16 groups of 16 with scales of 8 bits; the numbers have 4 bits in `low` and 2 in `high`. */
static void ppo__gguf_q6_k(const unsigned char *block, float *x) {
    const unsigned char *low = block, *high = block + 128;
    const float d = ppo__gguf_half(block + 208);
    for (int k = 0; k < 256; ++k) {
        const int half = k / 128, quarter = k % 128 / 32, byte = low[64 * half + k % 64];
        const int four = quarter < 2 ? byte & 15 : byte >> 4,
                  two = high[32 * half + k % 32] >> 2 * quarter & 3;
        x[k] = d * (float)(signed char)block[192 + k / 16] * (float)((four | two << 4) - 32);
    }
}

/* Types of tensors: their numbers in files, how many numbers a block has, its bytes, and how it becomes
   floats. */
static const struct {
    const char *name;
    int number, count, bytes;
    void (*widen)(const unsigned char *block, float *x);
} ppo__gguf_types[] = {
    {"F32", 0, 1, 4, ppo__gguf_f32},        {"F16", 1, 1, 2, ppo__gguf_f16},
    {"Q4_0", 2, 32, 18, ppo__gguf_q4_0},    {"Q4_1", 3, 32, 20, ppo__gguf_q4_1},
    {"Q5_0", 6, 32, 22, ppo__gguf_q5_0},    {"Q5_1", 7, 32, 24, ppo__gguf_q5_1},
    {"Q8_0", 8, 32, 34, ppo__gguf_q8_0},    {"Q2_K", 10, 256, 84, ppo__gguf_q2_k},
    {"Q3_K", 11, 256, 110, ppo__gguf_q3_k}, {"Q4_K", 12, 256, 144, ppo__gguf_q4_k},
    {"Q5_K", 13, 256, 176, ppo__gguf_q5_k}, {"Q6_K", 14, 256, 210, ppo__gguf_q6_k},
    {"BF16", 30, 1, 2, ppo__gguf_bf16},
};
enum { PPO__GGUF_TYPES = sizeof ppo__gguf_types / sizeof *ppo__gguf_types };

/* The row of a type's number; -1: none. */
static int ppo__gguf_type_at(uint32_t number) {
    for (int k = 0; k < PPO__GGUF_TYPES; ++k)
        if ((uint32_t)ppo__gguf_types[k].number == number) return k;
    return -1;
}

/* -- the other way -- */

static void ppo__gguf_put_half(float x, unsigned char *out) {
    const uint16_t half = ppo__float_half(x);
    out[0] = (unsigned char)half;
    out[1] = (unsigned char)(half >> 8);
}

/* n floats as a row of this type, one of ppo_gguf_type; returns its bytes. */
static size_t ppo__gguf_narrow(int type, const float *x, size_t n, unsigned char *out) {
    unsigned char *at = out;
    if (type == PPO_GGUF_Q8_0) {
        for (size_t i = 0; i < n; i += 32, at += 34) {
            float most = 0;
            for (int k = 0; k < 32; ++k) most = fmaxf(most, fabsf(x[i + k]));
            const float d = most / 127, per = d != 0 ? 1 / d : 0;
            ppo__gguf_put_half(d, at);
            for (int k = 0; k < 32; ++k) at[2 + k] = (unsigned char)(int)roundf(x[i + k] * per);
        }
        return (size_t)(at - out);
    }
    for (size_t i = 0; i < n; ++i) {
        uint32_t bits;
        uint16_t upper;
        memcpy(&bits, &x[i], sizeof bits);
        if (type == PPO_GGUF_F16) ppo__gguf_put_half(x[i], at);
        else if (type == PPO_GGUF_F32)
            for (int k = 0; k < 4; ++k) at[k] = (unsigned char)(bits >> 8 * k);
        else {
            ppo__narrow(&x[i], 1, &upper);
            at[0] = (unsigned char)upper;
            at[1] = (unsigned char)(upper >> 8);
        }
        at += type == PPO_GGUF_F32 ? 4 : 2;
    }
    return (size_t)(at - out);
}

/* --------------------------------------------------------------------------------------------------------
   @@ Keys and tensors of a file
   -------------------------------------------------------------------------------------------------------- */

enum { PPO__GGUF_ALIGNMENT = 32, PPO__GGUF_KEYS = 4096, PPO__GGUF_TENSORS = 1 << 16 };
enum {
    PPO__GGUF_U8,
    PPO__GGUF_I8,
    PPO__GGUF_U16,
    PPO__GGUF_I16,
    PPO__GGUF_U32,
    PPO__GGUF_I32,
    PPO__GGUF_FLOAT,
    PPO__GGUF_BOOL,
    PPO__GGUF_TEXT,
    PPO__GGUF_LIST,
    PPO__GGUF_U64,
    PPO__GGUF_I64,
    PPO__GGUF_DOUBLE,
    PPO__GGUF_KINDS
};

/* A value: one or a list, of numbers or texts. */
typedef struct ppo__gguf_value {
    const char *key;
    double *numbers;    /* [count], or NULL */
    const char **texts; /* [count], or NULL */
    int is_list, count, is_whole;
} ppo__gguf_value;

typedef struct ppo__gguf_tensor {
    const char *name;
    int type;                         /* a row of ppo__gguf_types */
    int64_t cols, rows, begin, bytes; /* rows is 1 of a vector; begin: from the start of the file */
    int taken;                        /* 1: a model has read it */
} ppo__gguf_tensor;

typedef struct ppo__gguf {
    ppo__hub hub; /* its array() and that of the models in folders are called alike */
    const char *path;
    FILE *in; /* while it is read */
    int64_t left, size;
    ppo_status status;
    ppo__arena memory;
    ppo__gguf_value *values;
    ppo__gguf_tensor *tensors;             /* sorted by name */
    int value_count, tensor_count, family; /* a row of ppo__gguf_families */

    /* while it is written: */
    const ppo_tokenizer *tok;
    const char *chat_template;
    FILE *out;         /* NULL: keys are counted */
    int64_t at, place; /* bytes that are written; where the numbers of the next tensor begin */
    uint64_t keys, infos;
    int type, pass;
} ppo__gguf;

static ppo_status ppo__gguf_fail(ppo__gguf *g, const char *what, const char *name) {
    if (!g->status) g->status = ppo__file_fail(g->path, "%s%.80s", what, name);
    return g->status;
}

static void ppo__gguf_read(ppo__gguf *g, void *to, size_t n) {
    if (!g->status && (uint64_t)g->left < n)
        ppo__gguf_fail(g, "truncated: its keys and tensors have no end", "");
    if (!g->status) g->status = ppo__read_bytes(g->path, g->in, to, n);
    if (g->status) memset(to, 0, n);
    else g->left -= (int64_t)n;
}

static uint64_t ppo__gguf_whole(ppo__gguf *g, int bytes) {
    unsigned char raw[8];
    uint64_t number = 0;
    ppo__gguf_read(g, raw, (size_t)bytes);
    for (int k = 0; k < bytes; ++k) number |= (uint64_t)raw[k] << 8 * k;
    return number;
}

/* A text with a 0 after it; "" after a failure. */
static const char *ppo__gguf_text(ppo__gguf *g, const char *what) {
    const uint64_t n = ppo__gguf_whole(g, 8);
    if (!g->status && n > (uint64_t)g->left) ppo__gguf_fail(g, "truncated: there is no end of ", what);
    char *text = g->status ? NULL : PPO__ARRAY(&g->memory, char, (size_t)n + 1);
    if (!g->status && !text) g->status = PPO_ERROR_MEMORY;
    if (g->status) return "";
    ppo__gguf_read(g, text, (size_t)n);
    text[n] = 0;
    if (strlen(text) != n || !ppo__is_utf8(text))
        ppo__gguf_fail(g, "a text is not UTF-8, or has a byte 0: ", what);
    return g->status ? "" : text;
}

/* A number of a kind. */
static double ppo__gguf_number(ppo__gguf *g, int kind) {
    static const int sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    const int bytes = sizes[kind],
              is_signed = kind == PPO__GGUF_I8 || kind == PPO__GGUF_I16 || kind == PPO__GGUF_I32;
    const uint64_t bits = ppo__gguf_whole(g, bytes);
    const uint32_t low = (uint32_t)bits;
    double number;
    float single;
    memcpy(&number, &bits, sizeof number);
    memcpy(&single, &low, sizeof single);
    if (kind == PPO__GGUF_DOUBLE) return number;
    if (kind == PPO__GGUF_FLOAT) return (double)single;
    if (kind == PPO__GGUF_I64) return (double)(int64_t)bits;
    return is_signed && bits >> (8 * bytes - 1) ? (double)bits - ldexp(1, 8 * bytes) : (double)bits;
}

static void ppo__gguf_read_value(ppo__gguf *g, ppo__gguf_value *value) {
    static const int least[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8}; /* bytes of one */
    uint64_t kind = ppo__gguf_whole(g, 4), count = 1;
    value->is_list = kind == PPO__GGUF_LIST;
    if (value->is_list) {
        kind = ppo__gguf_whole(g, 4);
        count = ppo__gguf_whole(g, 8);
    }
    if (kind >= PPO__GGUF_KINDS || kind == PPO__GGUF_LIST)
        ppo__gguf_fail(g, "a value of an unknown type: ", value->key);
    if (!g->status && (count > INT_MAX || count > (uint64_t)g->left / (uint64_t)least[kind]))
        ppo__gguf_fail(g, "truncated, or a wrong length: ", value->key);
    if (g->status) return;
    value->count = (int)count;
    value->is_whole = kind != PPO__GGUF_FLOAT && kind != PPO__GGUF_DOUBLE;
    if (kind == PPO__GGUF_TEXT) value->texts = PPO__ZEROS(&g->memory, const char *, count);
    else value->numbers = PPO__ZEROS(&g->memory, double, count);
    if (g->memory.failed) g->status = ppo__arena_status(&g->memory);
    for (int k = 0; k < value->count && !g->status; ++k) {
        if (value->texts) value->texts[k] = ppo__gguf_text(g, value->key);
        else value->numbers[k] = ppo__gguf_number(g, (int)kind);
    }
}

static ppo__gguf_value *ppo__gguf_find(const ppo__gguf *g, const char *key) {
    for (int k = 0; k < g->value_count; ++k)
        if (!strcmp(g->values[k].key, key)) return &g->values[k];
    return NULL;
}

static void ppo__gguf_read_info(ppo__gguf *g, ppo__gguf_tensor *tensor) {
    int64_t size[4] = {1, 1, 1, 1};
    tensor->name = ppo__gguf_text(g, "the name of a tensor");
    const uint64_t rank = ppo__gguf_whole(g, 4);
    if (rank < 1 || rank > 4) ppo__gguf_fail(g, "a tensor without one to four sizes: ", tensor->name);
    for (uint64_t k = 0; k < rank && !g->status; ++k) {
        size[k] = (int64_t)ppo__gguf_whole(g, 8);
        if (size[k] < 1 || size[k] > INT_MAX)
            ppo__gguf_fail(g, "a size that is 0 or too large: ", tensor->name);
    }
    tensor->type = ppo__gguf_type_at((uint32_t)ppo__gguf_whole(g, 4));
    tensor->begin = (int64_t)ppo__gguf_whole(g, 8);
    if (size[2] > 1 || size[3] > 1) ppo__gguf_fail(g, "a tensor of more than two dimensions: ", tensor->name);
    else if (tensor->type < 0) {
        ppo__gguf_fail(g,
                       "a type that is not read, of quantization or another kind (F32, F16, BF16, Q4_0 to "
                       "Q8_0 and Q2_K to "
                       "Q6_K are): ",
                       tensor->name);
    } else if (size[0] % ppo__gguf_types[tensor->type].count)
        ppo__gguf_fail(g, "a row that is no whole number of blocks: ", tensor->name);
    if (g->status) return;
    tensor->cols = size[0];
    tensor->rows = size[1];
    tensor->bytes = size[0] / ppo__gguf_types[tensor->type].count * ppo__gguf_types[tensor->type].bytes;
    if (tensor->bytes > INT64_MAX / 2 / tensor->rows)
        ppo__gguf_fail(g, "a tensor that is too large: ", tensor->name);
    else tensor->bytes *= tensor->rows;
}

static int ppo__gguf_by_name(const void *a, const void *b) {
    return strcmp(((const ppo__gguf_tensor *)a)->name, ((const ppo__gguf_tensor *)b)->name);
}

static ppo__gguf_tensor *ppo__gguf_tensor_of(const ppo__gguf *g, const char *name) {
    const ppo__gguf_tensor key = {name, 0, 0, 0, 0, 0, 0};
    return (ppo__gguf_tensor *)bsearch(&key, g->tensors, (size_t)g->tensor_count, sizeof key,
                                       ppo__gguf_by_name);
}

/* The tensors must follow one another, each from a multiple of the alignment on, and end in the file. */
static void ppo__gguf_places(ppo__gguf *g, uint64_t alignment) {
    const uint64_t at = (uint64_t)(g->size - g->left), data = (at + alignment - 1) / alignment * alignment;
    const uint64_t room = data < (uint64_t)g->size ? (uint64_t)g->size - data : 0;
    uint64_t expected = 0;
    for (int k = 0; k < g->tensor_count && !g->status; ++k) {
        ppo__gguf_tensor *tensor = &g->tensors[k];
        if ((uint64_t)tensor->begin != expected)
            ppo__gguf_fail(g, "not where the tensor before it ends: ", tensor->name);
        else if (expected > room || (uint64_t)tensor->bytes > room - expected)
            ppo__gguf_fail(g, "truncated: the end of the file is before that of ", tensor->name);
        tensor->begin = (int64_t)(data + expected);
        expected += ((uint64_t)tensor->bytes + alignment - 1) / alignment * alignment;
    }
    qsort(g->tensors, (size_t)g->tensor_count, sizeof *g->tensors, ppo__gguf_by_name);
    for (int k = 1; k < g->tensor_count && !g->status; ++k)
        if (!strcmp(g->tensors[k - 1].name, g->tensors[k].name))
            ppo__gguf_fail(g, "a tensor that is there twice: ", g->tensors[k].name);
}

static void ppo__gguf_close(ppo__gguf *g) {
    if (g->in) fclose(g->in);
    ppo__arena_free(&g->memory);
    ppo__hub_free(&g->hub);
}

/* Reads all but the numbers of the tensors; ppo__gguf_close() after it, whatever it returns. */
static ppo_status ppo__gguf_open(ppo__gguf *g, const char *path) {
    char magic[4];
    memset(g, 0, sizeof *g);
    g->path = path;
    g->in = ppo__open_old(path, &g->size);
    if (!g->in) return g->status = ppo__failed;
    g->left = g->size;
    if (g->size < 4) return ppo__gguf_fail(g, "not GGUF: it is shorter than its first word", "");
    ppo__gguf_read(g, magic, 4);
    if (memcmp(magic, "GGUF", 4)) return ppo__gguf_fail(g, "not GGUF", ppo__other_kind(magic, 4));
    const uint64_t version = ppo__gguf_whole(g, 4);
    if (!g->status && version && !(version & 0xffff))
        return ppo__gguf_fail(g, "its numbers are big-endian, which is not read", "");
    if (!g->status && version == 1)
        return ppo__gguf_fail(g, "version 1 of GGUF, of August 2023, is not read: convert the model again",
                              "");
    if (!g->status && version != 2 && version != 3)
        return ppo__gguf_fail(g, "a version of GGUF that is not known; 2 and 3 are", "");
    const uint64_t tensors = ppo__gguf_whole(g, 8), keys = ppo__gguf_whole(g, 8);
    if (!g->status && keys > PPO__GGUF_KEYS)
        return ppo__gguf_fail(g, "it says that it has more than 4096 keys", "");
    if (!g->status && tensors > PPO__GGUF_TENSORS)
        return ppo__gguf_fail(g, "it says that it has more than 65536 tensors", "");
    g->values = PPO__ZEROS(&g->memory, ppo__gguf_value, keys + 1);
    g->tensors = PPO__ZEROS(&g->memory, ppo__gguf_tensor, tensors + 1);
    if (!g->status) g->status = ppo__arena_status(&g->memory);
    for (uint64_t k = 0; k < keys && !g->status; ++k) {
        ppo__gguf_value *value = &g->values[k];
        value->key = ppo__gguf_text(g, "a key");
        if (!g->status && ppo__gguf_find(g, value->key))
            ppo__gguf_fail(g, "a key that is there twice: ", value->key);
        ppo__gguf_read_value(g, value);
        ++g->value_count;
    }
    for (uint64_t k = 0; k < tensors && !g->status; ++k, ++g->tensor_count)
        ppo__gguf_read_info(g, &g->tensors[k]);
    const ppo__gguf_value *alignment = ppo__gguf_find(g, "general.alignment");
    const double multiple = alignment && alignment->numbers && alignment->count ? *alignment->numbers
                                                                                : (double)PPO__GGUF_ALIGNMENT;
    if (!(multiple >= 8 && multiple <= 1 << 20) || (uint64_t)multiple % 8)
        ppo__gguf_fail(g, "general.alignment is no multiple of 8", "");
    if (!g->status) ppo__gguf_places(g, (uint64_t)multiple);
    return g->status;
}

/* A text; NULL: it is not there. */
static const char *ppo__gguf_string(ppo__gguf *g, const char *key) {
    const ppo__gguf_value *value = ppo__gguf_find(g, key);
    if (!value) return NULL;
    if (value->texts && !value->is_list) return *value->texts;
    ppo__gguf_fail(g, "no text: ", key);
    return NULL;
}

/* A whole number, or `otherwise`. */
static int ppo__gguf_int(ppo__gguf *g, const char *key, int otherwise) {
    const ppo__gguf_value *value = ppo__gguf_find(g, key);
    if (!value) return otherwise;
    if (value->numbers && !value->is_list && value->is_whole && *value->numbers >= -1 &&
        *value->numbers <= INT_MAX)
        return (int)*value->numbers;
    ppo__gguf_fail(g, "no whole number below 2^31: ", key);
    return otherwise;
}

/* --------------------------------------------------------------------------------------------------------
   @@ Models
   --------------------------------------------------------------------------------------------------------

   To add an architecture: a row of ppo__gguf_families, and rows of the two tables after it for what it has
   besides.
   -------------------------------------------------------------------------------------------------------- */

/* Of several families of an architecture, the first is read. */
static const struct {
    const char *architecture, *family;
    int fused;         /* 1: queries, keys and values are one tensor */
    int swaps;         /* 1: rows of queries and keys lie in the order that rotates neighbors */
    const char *lacks; /* settings that it cannot express, of those that others can; */
    const char *more;  /* those that few can, and it can */
} ppo__gguf_families[] = {
    {"llama", "llama", 0, 1, "parallel rotary_size", ""},
    {"llama", "mistral", 0, 1, "parallel rotary_size", ""},
    {"qwen2", "qwen2", 0, 0, "parallel rotary_size", ""},
    {"qwen3", "qwen3", 0, 0, "parallel rotary_size qkv_bias proj_bias ffn_bias", ""},
    {"gpt2", "gpt2", 1, 0, "kv_heads head_size parallel qkv_bias proj_bias ffn_bias", ""},
    {"gptneox", "gpt_neox", 1, 0, "kv_heads head_size qkv_bias proj_bias ffn_bias tied", ""},
    {"gemma3", "gemma3_text", 0, 0, "parallel rotary_size qkv_bias proj_bias ffn_bias",
     "window window_theta"},
    {"olmo2", "olmo2", 0, 0, "parallel rotary_size head_size qkv_bias proj_bias ffn_bias tied", ""},
    {"smollm3", "smollm3", 0, 1, "parallel rotary_size qkv_bias proj_bias ffn_bias", ""},
    {"phi3", "phi3", 1, 0, "parallel head_size qkv_bias proj_bias ffn_bias", "window"},
    {"granite", "granite", 0, 1, "parallel rotary_size head_size qkv_bias proj_bias ffn_bias",
     "attention_scale embedding_scale residual_scale logits_scaling"},
};
enum { PPO__GGUF_FAMILIES = sizeof ppo__gguf_families / sizeof *ppo__gguf_families };

/* Settings and their keys, after that of the architecture. kind: 'i', a whole number, 'f', a float, 'b', yes
   or no, 'w', a word; required: the key must be there. */
static const struct {
    const char *name, *key;
    char kind;
    int required, few; /* few 1: only families that list it have it */
} ppo__gguf_settings[] = {
    {"context", "context_length", 'i', 1, 0},
    {"width", "embedding_length", 'i', 1, 0},
    {"layers", "block_count", 'i', 1, 0},
    {"heads", "attention.head_count", 'i', 1, 0},
    {"kv_heads", "attention.head_count_kv", 'i', 0, 0},
    {"head_size", "attention.key_length", 'i', 0, 0},
    {"hidden", "feed_forward_length", 'i', 1, 0},
    {"norm_eps", "attention.layer_norm_rms_epsilon", 'f', 0, 0}, /* or layer_norm_epsilon, of layer norms */
    {"parallel", "use_parallel_residual", 'b', 0, 0},
    {"rotary_size", "rope.dimension_count", 'i', 0, 0},
    {"rope_theta", "rope.freq_base", 'f', 0, 0},
    {"rope_scaling", "rope.scaling.type", 'w', 0, 0},
    {"rope_factor", "rope.scaling.factor", 'f', 0, 0},
    {"window", "attention.sliding_window", 'i', 0, 1},
    {"window_theta", "rope.freq_base_swa", 'f', 0, 1},
    {"attention_scale", "attention.scale", 'f', 0, 1},
    {"embedding_scale", "embedding_scale", 'f', 0, 1},
    {"residual_scale", "residual_scale", 'f', 0, 1},
    {"logits_scaling", "logit_scale", 'f', 0, 1},
};
enum { PPO__GGUF_SETTINGS = sizeof ppo__gguf_settings / sizeof *ppo__gguf_settings };

/* Parameters and tensors, as ppo__hub_rows: of architectures with a tensor each for queries, keys and
   values, and of those with one for all. */
#define PPO__BLK(name) "blk.%d." name
static const ppo__hub_row ppo__gguf_rows[2][17] = {
    {{"transformer.wte", "token_embd", PPO__AS_IS},
     {PPO__BLOCK("ln_1"), PPO__BLK("attn_norm"), PPO__AS_IS},
     {PPO__BLOCK("attn.c_attn"), PPO__BLK("attn_q"), PPO__QUERIES},
     {PPO__BLOCK("attn.c_attn"), PPO__BLK("attn_k"), PPO__KEYS},
     {PPO__BLOCK("attn.c_attn"), PPO__BLK("attn_v"), PPO__VALUES},
     {PPO__BLOCK("attn.q_norm"), PPO__BLK("attn_q_norm"), PPO__AS_IS},
     {PPO__BLOCK("attn.k_norm"), PPO__BLK("attn_k_norm"), PPO__AS_IS},
     {PPO__BLOCK("attn.c_proj"), PPO__BLK("attn_output"), PPO__TRANSPOSED},
     {PPO__BLOCK("ln_3"), PPO__BLK("post_attention_norm"), PPO__AS_IS},
     {PPO__BLOCK("ln_2"), PPO__BLK("ffn_norm"), PPO__AS_IS},
     {PPO__BLOCK("mlp.c_fc"), PPO__BLK("ffn_gate"), PPO__GATE_HALF},
     {PPO__BLOCK("mlp.c_fc"), PPO__BLK("ffn_up"), PPO__UP_HALF},
     {PPO__BLOCK("mlp.c_proj"), PPO__BLK("ffn_down"), PPO__TRANSPOSED},
     {PPO__BLOCK("ln_4"), PPO__BLK("post_ffw_norm"), PPO__AS_IS},
     {"transformer.ln_f", "output_norm", PPO__AS_IS},
     {"lm_head", "output", PPO__AS_IS}},
    {{"transformer.wte", "token_embd", PPO__AS_IS},
     {"transformer.wpe", "position_embd", PPO__AS_IS},
     {PPO__BLOCK("ln_1"), PPO__BLK("attn_norm"), PPO__AS_IS},
     {PPO__BLOCK("attn.c_attn"), PPO__BLK("attn_qkv"), PPO__TRANSPOSED},
     {PPO__BLOCK("attn.c_proj"), PPO__BLK("attn_output"), PPO__TRANSPOSED},
     {PPO__BLOCK("ln_2"), PPO__BLK("ffn_norm"), PPO__AS_IS},
     {PPO__BLOCK("mlp.c_fc"), PPO__BLK("ffn_up"), PPO__TRANSPOSED},
     {PPO__BLOCK("mlp.c_proj"), PPO__BLK("ffn_down"), PPO__TRANSPOSED},
     {"transformer.ln_f", "output_norm", PPO__AS_IS},
     {"lm_head", "output", PPO__AS_IS}},
};

/* Does a family have setting k in GGUF, and one that has an effect? */
static int ppo__gguf_has(const ppo_lm_config *c, int family, int k) {
    const char *name = ppo__gguf_settings[k].name;
    if (ppo__gguf_settings[k].few) return ppo__is_word(name, ppo__gguf_families[family].more);
    if (!strncmp(ppo__gguf_settings[k].key, "rope", 4) && c->positions != PPO_ROTARY) return 0;
    return !ppo__is_word(name, ppo__gguf_families[family].lacks) || !strcmp(name, "rotary_size");
}

/* "llama.context_length" */
static const char *ppo__gguf_key(const ppo_lm_config *c, int family, int k, char key[80]) {
    const int layer = !strcmp(ppo__gguf_settings[k].name, "norm_eps") && c->norm == PPO_LAYER_NORM;
    snprintf(key, 80, "%s.%s", ppo__gguf_families[family].architecture,
             layer ? "attention.layer_norm_epsilon" : ppo__gguf_settings[k].key);
    return key;
}

/* The row of queries or keys in transformers' order that row r of a tensor is. */
static int ppo__gguf_row(const ppo__gguf *g, int how, int r) {
    const int size = g->hub.lm->full.head_size, i = r % size;
    if (!ppo__gguf_families[g->family].swaps || (how != PPO__QUERIES && how != PPO__KEYS)) return r;
    return r - i + i % 2 * (size / 2) + i / 2;
}

/* Copies rows of a tensor, which lie in floats, to a parameter, or from it. */
static void ppo__gguf_copy(ppo__gguf *g, ppo_tensor *x, int how, int way, float *floats, int first, int n,
                           int cols) {
    const ppo_lm_config *c = &g->hub.lm->full;
    for (int k = 0, run; k < n; k += run) {
        const int row = ppo__gguf_row(g, how, first + k);
        for (run = 1; k + run < n && ppo__gguf_row(g, how, first + k + run) == row + run; ++run) continue;
        ppo__hub_copy(c, x, how, way, floats + ppo__at(k, cols), row, run, cols);
    }
}

/* Room for ROWS_AT_ONCE rows as floats and, after them, as they are in the file. */
static float *ppo__gguf_room(ppo__gguf *g, int cols) {
    ppo__hub *hub = &g->hub;
    if (cols > hub->room)
        hub->floats = PPO__ARRAY(&hub->memory, float, 2 * ppo__at(PPO__ROWS_AT_ONCE, hub->room = cols));
    return hub->floats;
}

/* -- reading -- */

/* Reads rows first .. first + n - 1 as floats. */
static ppo_status ppo__gguf_fetch(ppo__gguf *g, const ppo__gguf_tensor *tensor, int64_t first, int64_t n,
                                  int64_t cols, float *floats, unsigned char *raw) {
    const int count = ppo__gguf_types[tensor->type].count, bytes = ppo__gguf_types[tensor->type].bytes;
    const int64_t blocks = n * cols / count, begin = tensor->begin + first * cols / count * bytes;
    if (PPO__SEEK(g->in, begin, SEEK_SET)) return ppo__file_failed(g->path, "read", errno);
    if (ppo__read_bytes(g->path, g->in, raw, (size_t)(blocks * bytes))) return ppo__failed;
    for (int64_t k = 0; k < blocks; ++k)
        ppo__gguf_types[tensor->type].widen(raw + k * bytes, floats + k * count);
    for (int64_t k = 0; k < n * cols; ++k)
        if (!(fabsf(floats[k]) <= FLT_MAX))
            return ppo__file_fail(g->path, "\"%.80s\" has a number that is not finite", tensor->name);
    return PPO_OK;
}

static ppo_status ppo__gguf_load_array(ppo__gguf *g, const char *name, ppo_tensor *x, int how, int rows,
                                       int cols, int rank) {
    ppo__gguf_tensor *tensor = ppo__gguf_tensor_of(g, name);
    if (!tensor) return ppo__gguf_fail(g, "there is no tensor ", name);
    const int64_t is_rows = rank == 2 ? tensor->rows : tensor->cols;
    const int64_t is_cols = rank == 2 ? tensor->cols : tensor->rows;
    if (is_rows != rows || is_cols != cols)
        return g->status = ppo__file_fail(g->path, "\"%.80s\" has %lld rows of %lld, not %d of %d", name,
                                          (long long)is_rows, (long long)is_cols, rows, cols);
    if (rank == 1 && ppo__gguf_types[tensor->type].count > 1)
        return ppo__gguf_fail(g, "a vector that is quantized: ", name);
    tensor->taken = 1;
    if (!x->data) return PPO_OK;
    float *floats = ppo__gguf_room(g, cols);
    if (!floats) return g->status = PPO_ERROR_MEMORY;
    unsigned char *raw = (unsigned char *)(floats + ppo__at(PPO__ROWS_AT_ONCE, cols));
    for (int r = 0; r < rows && !g->status; r += PPO__ROWS_AT_ONCE) {
        const int n = rows - r < PPO__ROWS_AT_ONCE ? rows - r : (int)PPO__ROWS_AT_ONCE;
        g->status = ppo__gguf_fetch(g, tensor, r, n, cols, floats, raw);
        if (!g->status) ppo__gguf_copy(g, x, how, PPO__LOAD, floats, r, n, cols);
    }
    return g->status;
}

/* Is there a tensor of one of these names? */
static int ppo__gguf_there(const ppo__gguf *g, const char *name, const char *other) {
    return ppo__gguf_tensor_of(g, name) || ppo__gguf_tensor_of(g, other);
}

/* What llama.cpp divides the frequency of a pair of numbers by. */
static double ppo__gguf_factor(const ppo_lm_config *c, int j) {
    const double waves = c->rope_context * pow((double)c->rope_theta, -2.0 * j / c->rotary_size) /
                         (2 * 3.14159265358979323846);
    const double share = (waves - (double)c->rope_low) / ((double)c->rope_high - (double)c->rope_low);
    const double kept = share < 0 ? 0 : share > 1 ? 1 : share;
    return 1 / (kept + (1 - kept) / (double)c->rope_factor);
}

static int ppo__gguf_factors_fit(const ppo_lm_config *c, const float *factors) {
    for (int j = 0; j < c->rotary_size / 2; ++j)
        if (!(fabs(ppo__gguf_factor(c, j) / (double)factors[j] - 1) < 1e-5)) return 0;
    return 1;
}

/* Llama 3's scaling from its factors. Those strictly between 1 and the largest, F, say by how much a
   frequency is kept: s = (1/f - 1/F) / (1 - 1/F), and s = (context waves - low) / (high - low) is a line, of
   which two points are enough. */
static ppo_status ppo__gguf_find_scaling(ppo__gguf *g, ppo_lm_config *c) {
    ppo__gguf_tensor *tensor = ppo__gguf_tensor_of(g, "rope_freqs.weight");
    const int n = (c->rotary_size ? c->rotary_size : c->head_size ? c->head_size : c->width / c->heads) / 2;
    double first[2] = {0, 0}, last[2] = {0, 0};
    int between = 0;
    if (!tensor) return PPO_OK;
    if (tensor->rows != 1 || tensor->cols != n || tensor->type)
        return ppo__gguf_fail(g, "it is no list of a float for each frequency: ", tensor->name);
    float *factors = PPO__ARRAY(&g->memory, float, n);
    unsigned char *raw = PPO__ARRAY(&g->memory, unsigned char, 4 * (size_t)n);
    if (!factors || !raw) return g->status = PPO_ERROR_MEMORY;
    if ((g->status = ppo__gguf_fetch(g, tensor, 0, 1, n, factors, raw)) != PPO_OK) return g->status;
    tensor->taken = 1;
    c->rotary_size = 2 * n;
    c->rope_scaling = PPO_ROPE_LLAMA3;
    c->rope_factor = factors[n - 1];
    const double most = (double)c->rope_factor;
    for (int j = 0; j < n; ++j) {
        const double s = (1 / (double)factors[j] - 1 / most) / (1 - 1 / most);
        if (!(s > 1e-6 && s < 1 - 1e-6)) continue;
        double *point = between++ ? last : first;
        point[0] = pow((double)c->rope_theta, -2.0 * j / c->rotary_size) / (2 * 3.14159265358979323846);
        point[1] = s;
    }
    if (!ppo__gguf_factors_fit(c, factors) &&
        between > 1) { /* s = slope waves + start, which fix low, high : context */
        const double slope = (first[1] - last[1]) / (first[0] - last[0]), start = first[1] - slope * first[0];
        const double range = c->rope_context / slope;
        c->rope_low = (float)(-start * range);
        c->rope_high = (float)(range - start * range);
    }
    const int fits = most > 0 && c->rope_low < c->rope_high && ppo__gguf_factors_fit(c, factors);
    return fits ? PPO_OK
                : ppo__gguf_fail(g, "its factors are not those of Llama 3's scaling: ", tensor->name);
}

/* The settings of the file's model. */
static ppo_status ppo__gguf_config(ppo__gguf *g, ppo_lm_config *c) {
    const char *architecture = ppo__gguf_string(g, "general.architecture");
    char key[80], text[64];
    if (!architecture) return ppo__gguf_fail(g, "there is no general.architecture", "");
    for (g->family = 0; g->family < PPO__GGUF_FAMILIES; ++g->family)
        if (!strcmp(architecture, ppo__gguf_families[g->family].architecture)) break;
    if (g->family == PPO__GGUF_FAMILIES)
        return g->status =
                   ppo__file_fail(g->path,
                                  "general.architecture \"%.40s\" is not known, only llama, qwen2, qwen3, "
                                  "gpt2, gptneox, gemma3, olmo2, smollm3, phi3 and granite",
                                  architecture);
    *c = ppo_lm_config_default();
    ppo_lm_config_family(c, ppo__gguf_families[g->family].family);
    if (!ppo__is_word("attention_scale", ppo__gguf_families[g->family].more)) c->attention_scale = 0;
    for (int k = 0; k < PPO__GGUF_SETTINGS; ++k) {
        const char *name = ppo__gguf_settings[k].name;
        const char kind = ppo__gguf_settings[k].kind;
        const int is_factor = !strcmp(name, "rope_factor");
        const ppo__gguf_value *value = NULL;
        if (is_factor && c->rope_scaling == PPO_ROPE_PLAIN) continue;
        if (ppo__gguf_has(c, g->family, k)) value = ppo__gguf_find(g, ppo__gguf_key(c, g->family, k, key));
        if (!value && !ppo__gguf_settings[k].required && !is_factor) continue;
        if (!value) return ppo__gguf_fail(g, "there is no ", key);
        if (value->is_list || (kind == 'w' ? !value->texts : !value->numbers))
            return ppo__gguf_fail(g, kind == 'w' ? "no text: " : "not one number: ", key);
        if (kind == 'w') snprintf(text, sizeof text, "%.40s", *value->texts);
        else if (kind == 'i') snprintf(text, sizeof text, "%.17g", *value->numbers);
        else snprintf(text, sizeof text, "%.9g", *value->numbers);
        if (!strcmp(text, "yarn")) return ppo__gguf_fail(g, "yarn is not read from GGUF: ", key);
        if (!strcmp(text, "none")) strcpy(text, "plain");
        else if (!strcmp(text, "llama3")) strcpy(text, "?"); /* which GGUF has no word for */
        if (kind == 'b') strcpy(text, *value->numbers != 0 ? "yes" : "no");
        if (ppo_settings_set(&ppo__lm_settings, c, name, text))
            return g->status = ppo__file_fail(g->path, "%s: %s", key, ppo__error);
    }
    const ppo__gguf_tensor *embedding = ppo__gguf_tensor_of(g, "token_embd.weight");
    if (!embedding) return ppo__gguf_fail(g, "there is no token_embd.weight", "");
    c->vocab = (int)embedding->rows;
    c->tied = !ppo__gguf_there(g, "output.weight", "");
    c->qkv_bias = ppo__gguf_there(g, "blk.0.attn_q.bias", "blk.0.attn_qkv.bias");
    c->proj_bias = ppo__gguf_there(g, "blk.0.attn_output.bias", "");
    c->ffn_bias = ppo__gguf_there(g, "blk.0.ffn_up.bias", "");
    const int eos = ppo__gguf_int(g, "tokenizer.ggml.eos_token_id", -1);
    if (eos < c->vocab) c->eos = eos;
    snprintf(key, sizeof key, "%s.attention.value_length", architecture);
    if (c->head_size && ppo__gguf_int(g, key, c->head_size) != c->head_size)
        ppo__gguf_fail(g, "it is not attention.key_length: ", key);
    snprintf(key, sizeof key, "%s.expert_count", architecture);
    if (ppo__gguf_int(g, key, 0) > 0)
        ppo__gguf_fail(g, "a model of several experts, which is not supported: ", key);
    return g->status ? g->status : ppo__gguf_find_scaling(g, c);
}

/* ppo__hub.array of a file that is read or written. */
static ppo_status ppo__gguf_array(ppo__hub *hub, int way, const char *name, ppo_tensor *x, int how, int rows,
                                  int cols, int rank);

static void ppo__gguf_start(ppo__gguf *g) {
    g->hub.rows = ppo__gguf_rows[ppo__gguf_families[g->family].fused];
    g->hub.array = ppo__gguf_array;
}

static ppo_status ppo__gguf_lm_load(const char *path, ppo_lm **lm) {
    ppo__gguf g;
    ppo_lm likely;
    memset(&likely, 0, sizeof likely);
    ppo_status status = ppo__gguf_open(&g, path);
    if (!status) status = ppo__gguf_config(&g, &likely.config);
    if (!status && ppo__lm_complete(&likely)) status = ppo__file_fail(path, "%s", ppo__error);
    if (!status) {
        ppo__gguf_start(&g);
        g.hub.lm = &likely;
        status = ppo__lm_visit(&likely, ppo__hub_expect, &g.hub);
        g.hub.lm = NULL;
    }
    for (int k = 0; k < g.tensor_count && !status; ++k)
        if (!g.tensors[k].taken)
            status = ppo__file_fail(path, "\"%.80s\" has no place in a model of this architecture",
                                    g.tensors[k].name);
    if (!status) status = ppo__lm_make(&likely.config, 0, &g.hub.lm);
    if (!status) status = ppo__hub_serialize(&g.hub, PPO__LOAD);
    if (status) ppo_lm_free(g.hub.lm);
    else *lm = g.hub.lm;
    ppo__gguf_close(&g);
    return status;
}

static ppo_status ppo__gguf_load_ends(const char *path, int *end, int room, int *count) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    ppo__gguf g;
    int ends[3];
    ppo_status status = ppo__gguf_open(&g, path);
    for (int k = 0; k < 3 && !status; ++k) {
        int again = 0;
        ends[k] = ppo__gguf_int(&g, keys[k], -1);
        for (int i = 0; i < k; ++i) again |= ends[i] == ends[k];
        if (ends[k] >= 0 && !again && (*count)++ < room) end[*count - 1] = ends[k];
        status = g.status;
    }
    if (status) *count = 0;
    ppo__gguf_close(&g);
    return status;
}

/* --------------------------------------------------------------------------------------------------------
   @@ Tokenizers
   --------------------------------------------------------------------------------------------------------

   A tokenizer is read by way of the text of a tokenizer.json that does the same. To add a name of
   tokenizer.ggml.pre: a row of ppo__gguf_cuts.
   -------------------------------------------------------------------------------------------------------- */

#define PPO__SPACES_LAST "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define PPO__UPPER       "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define PPO__LOWER_CASE  "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define PPO__CASES(apostrophes, digits)                                                 \
    "[^\\r\\n\\p{L}\\p{N}]?" PPO__UPPER "*" PPO__LOWER_CASE "+" apostrophes             \
    "|[^\\r\\n\\p{L}\\p{N}]?" PPO__UPPER "+" PPO__LOWER_CASE "*" apostrophes "|" digits \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" PPO__SPACES_LAST

/* How texts are cut, by the names in tokenizer.ggml.pre; the first of them is written. */
static const struct {
    const char *names;
    int forms; /* PPO__NFC, or 0 */
    int whole; /* 1: a word that is a token stays whole, and a token starts a text unless it is said not to */
    const char *expressions[3]; /* which isolate what matches */
} ppo__gguf_cuts[] = {
    {"gpt-2 phi-2", 0, 0, {PPO__GPT2_WORDS, NULL, NULL}},
    {"olmo", PPO__NFC, 0, {PPO__GPT2_WORDS, NULL, NULL}},
    {"smollm starcoder refact", 0, 0, {PPO__DIGITS, PPO__GPT2_WORDS, NULL}},
    {"llama-bpe llama3 llama-v3",
     0,
     1,
     {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" PPO__SPACES_LAST,
      NULL, NULL}},
    {"qwen2", PPO__NFC, 0, {PPO__QWEN_WORDS, NULL, NULL}},
    {"qwen35",
     PPO__NFC,
     0,
     {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "
      "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" PPO__SPACES_LAST,
      NULL, NULL}},
    {"tekken", 0, 1, {PPO__CASES("", "\\p{N}"), NULL, NULL}},
    {"gpt-4o", 0, 0, {PPO__CASES("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "\\p{N}{1,3}"), NULL, NULL}},
    {"deepseek-v3",
     0,
     0,
     {"\\p{N}{1,3}", "[\344\270\200-\351\276\245\343\201\200-\343\202\237\343\202\240-\343\203\277]+",
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
      "?[\\p{P}\\p{S}]+[\r\n]*|"
      "\\s*[\r\n]+|\\s+(?!\\S)|\\s+"}},
};
enum { PPO__GGUF_CUTS = sizeof ppo__gguf_cuts / sizeof *ppo__gguf_cuts };

/* Kinds of tokens. */
enum {
    PPO__GGUF_NORMAL = 1,
    PPO__GGUF_UNKNOWN,
    PPO__GGUF_CONTROL,
    PPO__GGUF_ADDED,
    PPO__GGUF_UNUSED,
    PPO__GGUF_BYTE
};

/* A text that grows in a block of memory; at first it is only counted. */
typedef struct ppo__gguf_json {
    char *out; /* NULL: it is counted */
    size_t n;
} ppo__gguf_json;

static void ppo__gguf_add(ppo__gguf_json *json, const char *text) {
    const size_t n = strlen(text);
    if (json->out) memcpy(json->out + json->n, text, n + 1);
    json->n += n;
}

static void ppo__gguf_quote(ppo__gguf_json *json, const char *text) {
    char code[8];
    ppo__gguf_add(json, "\"");
    for (; *text; ++text) {
        if ((unsigned char)*text < ' ') snprintf(code, sizeof code, "\\u%04x", (unsigned)*text);
        else snprintf(code, sizeof code, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
        ppo__gguf_add(json, code);
    }
    ppo__gguf_add(json, "\"");
}

/* A member whose value is a text, after a comma. */
static void ppo__gguf_member(ppo__gguf_json *json, const char *name, const char *text) {
    ppo__gguf_add(json, ", \"");
    ppo__gguf_add(json, name);
    ppo__gguf_add(json, "\": ");
    if (text) ppo__gguf_quote(json, text);
    else ppo__gguf_add(json, "null");
}

static void ppo__gguf_add_int(ppo__gguf_json *json, int number) {
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    ppo__gguf_add(json, text);
}

/* A tokenizer while it is read. */
typedef struct ppo__gguf_merge {
    int left, right, into; /* tokens, and the one that they become */
    int bytes;             /* of the left text */
    double score;          /* of the one */
} ppo__gguf_merge;

typedef struct ppo__gguf_vocab {
    const char **texts;
    const double *kinds;
    int count, cut, pieces; /* a row of ppo__gguf_cuts; pieces 1: of SentencePiece */
    int bos, eos, pad, unknown, starts, ends, prefix;
    const ppo__gguf_value *merges;
    ppo__gguf_merge *made; /* of scores */
    int made_count;
} ppo__gguf_vocab;

static const char *ppo__gguf_token(const ppo__gguf_vocab *v, int token) {
    return token >= 0 && token < v->count ? v->texts[token] : NULL;
}

/* Is a token only found by its name, and not made by merges? */
static int ppo__gguf_is_added(const ppo__gguf_vocab *v, int t) {
    return (int)v->kinds[t] == PPO__GGUF_CONTROL || (int)v->kinds[t] == PPO__GGUF_ADDED ||
           (v->pieces && t == v->unknown);
}

static void ppo__gguf_write_cut(ppo__gguf_json *json, const ppo__gguf_vocab *v) {
    const char *const *expressions = ppo__gguf_cuts[v->cut].expressions;
    const char *words = "false";
    ppo__gguf_add(json, ppo__gguf_cuts[v->cut].forms ? ", \"normalizer\": {\"type\": \"NFC\"}"
                                                     : ", \"normalizer\": null");
    ppo__gguf_add(json, ", \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [");
    for (int k = 0; k < 3 && expressions[k]; ++k) {
        if (!strcmp(expressions[k], PPO__GPT2_WORDS)) words = "true";
        else if (!strcmp(expressions[k], PPO__DIGITS))
            ppo__gguf_add(json, "{\"type\": \"Digits\", \"individual_digits\": true}, ");
        else {
            ppo__gguf_add(json, "{\"type\": \"Split\", \"pattern\": {\"Regex\": ");
            ppo__gguf_quote(json, expressions[k]);
            ppo__gguf_add(json, "}, \"behavior\": \"Isolated\", \"invert\": false}, ");
        }
    }
    ppo__gguf_add(
        json,
        "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": ");
    ppo__gguf_add(json, words);
    ppo__gguf_add(
        json,
        "}]}, \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, "
        "\"use_regex\": true}");
}

static void ppo__gguf_write_pieces(ppo__gguf_json *json, const ppo__gguf_vocab *v) {
    static const char replace[] =
        "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"" PPO__METASPACE "\"}";
    ppo__gguf_add(json, ", \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [");
    if (v->prefix) ppo__gguf_add(json, "{\"type\": \"Prepend\", \"prepend\": \"" PPO__METASPACE "\"}, ");
    ppo__gguf_add(json, replace);
    ppo__gguf_add(json, "]}, \"pre_tokenizer\": null, \"decoder\": {\"type\": \"Sequence\", \"decoders\": "
                        "[{\"type\": \"Replace\", "
                        "\"pattern\": {\"String\": \"" PPO__METASPACE
                        "\"}, \"content\": \" \"}, {\"type\": \"ByteFallback\"}, "
                        "{\"type\": \"Fuse\"}");
    if (v->prefix)
        ppo__gguf_add(json, ", {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}");
    ppo__gguf_add(json, "]}");
}

/* The tokens around a text, as a template. */
static void ppo__gguf_write_bounds(ppo__gguf_json *json, const ppo__gguf_vocab *v) {
    const int around[2] = {v->starts ? v->bos : -1, v->ends ? v->eos : -1};
    int written = 0;
    if (around[0] < 0 && around[1] < 0) {
        ppo__gguf_add(json, ", \"post_processor\": null");
        return;
    }
    ppo__gguf_add(json, ", \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [");
    for (int k = 0; k < 3; ++k) {
        const int token = k == 1 ? -1 : around[k / 2];
        if (k != 1 && token < 0) continue;
        ppo__gguf_add(json, written++ ? ", {\"" : "{\"");
        ppo__gguf_add(json, k == 1 ? "Sequence\": {\"id\": \"A\"" : "SpecialToken\": {\"id\": ");
        if (k != 1) ppo__gguf_quote(json, v->texts[token]);
        ppo__gguf_add(json, ", \"type_id\": 0}}");
    }
    ppo__gguf_add(json, "], \"pair\": [], \"special_tokens\": {");
    for (int k = 0, first = 1; k < 2; ++k) {
        if (around[k] < 0 || (k && around[1] == around[0])) continue;
        if (!first) ppo__gguf_add(json, ", ");
        ppo__gguf_quote(json, v->texts[around[k]]);
        ppo__gguf_add(json, ": {\"id\": ");
        ppo__gguf_quote(json, v->texts[around[k]]);
        ppo__gguf_add(json, ", \"ids\": [");
        ppo__gguf_add_int(json, around[k]);
        ppo__gguf_add(json, "], \"tokens\": [");
        ppo__gguf_quote(json, v->texts[around[k]]);
        ppo__gguf_add(json, "]}");
        first = 0;
    }
    ppo__gguf_add(json, "}}");
}

/* The text of a tokenizer.json. */
static void ppo__gguf_write_json(ppo__gguf_json *json, const ppo__gguf_vocab *v) {
    const int whole = !v->pieces && ppo__gguf_cuts[v->cut].whole;
    int bytes = 0;
    ppo__gguf_add(json,
                  "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": [");
    for (int t = 0, n = 0; t < v->count; ++t) {
        bytes |= v->pieces && !strcmp(v->texts[t], "<0x00>");
        if (!ppo__gguf_is_added(v, t)) continue;
        ppo__gguf_add(json, n++ ? ", {\"id\": " : "{\"id\": ");
        ppo__gguf_add_int(json, t);
        ppo__gguf_member(json, "content", v->texts[t]);
        ppo__gguf_add(json, ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": "
                            "false, \"special\": ");
        ppo__gguf_add(json, (int)v->kinds[t] == PPO__GGUF_ADDED ? "false}" : "true}");
    }
    ppo__gguf_add(json, "]");
    if (v->pieces) ppo__gguf_write_pieces(json, v);
    else ppo__gguf_write_cut(json, v);
    ppo__gguf_write_bounds(json, v);
    ppo__gguf_add(json, ", \"model\": {\"type\": \"BPE\", \"dropout\": null");
    ppo__gguf_member(json, "unk_token", v->pieces ? ppo__gguf_token(v, v->unknown) : NULL);
    ppo__gguf_add(json,
                  ", \"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, \"fuse_unk\": ");
    ppo__gguf_add(json, v->pieces ? "true, \"byte_fallback\": " : "false, \"byte_fallback\": ");
    ppo__gguf_add(json, bytes ? "true, \"ignore_merges\": " : "false, \"ignore_merges\": ");
    ppo__gguf_add(json, whole ? "true, \"vocab\": {" : "false, \"vocab\": {");
    for (int t = 0; t < v->count; ++t) {
        if (t) ppo__gguf_add(json, ", ");
        ppo__gguf_quote(json, v->texts[t]);
        ppo__gguf_add(json, ": ");
        ppo__gguf_add_int(json, t);
    }
    ppo__gguf_add(json, "}, \"merges\": [");
    for (int k = 0; v->merges && k < v->merges->count; ++k) {
        if (k) ppo__gguf_add(json, ", ");
        ppo__gguf_quote(json, v->merges->texts[k]);
    }
    for (int k = 0; k < v->made_count; ++k) {
        ppo__gguf_add(json, k ? ", [" : "[");
        ppo__gguf_quote(json, v->texts[v->made[k].left]);
        ppo__gguf_add(json, ", ");
        ppo__gguf_quote(json, v->texts[v->made[k].right]);
        ppo__gguf_add(json, "]");
    }
    ppo__gguf_add(json, "]}}\n");
}

/* The best score first, as of SentencePiece's BPE; of a piece, the pair with the longest left part. */
static int ppo__gguf_by_score(const void *a, const void *b) {
    const ppo__gguf_merge *x = (const ppo__gguf_merge *)a, *y = (const ppo__gguf_merge *)b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->bytes != y->bytes ? y->bytes - x->bytes : x->into - y->into;
}

/* The merges that the scores of SentencePiece's pieces stand for: each pair of pieces that is a piece. */
static void ppo__gguf_make_merges(ppo__gguf *g, ppo__gguf_vocab *v, const double *scores) {
    enum { PPO__LONGEST = 512 };
    ppo__map by_text = {NULL, 0, 0};
    for (int t = 0; t < v->count && !g->memory.failed; ++t)
        if ((int)v->kinds[t] == PPO__GGUF_NORMAL)
            ppo__map_put(&by_text, &g->memory, ppo__fnv1a(PPO__FNV1A, v->texts[t], strlen(v->texts[t])), t);
    for (int pass = 0; pass < 2 && !g->status && !g->memory.failed; ++pass) {
        if (pass) v->made = PPO__ZEROS(&g->memory, ppo__gguf_merge, (size_t)v->made_count + 1);
        v->made_count = 0;
        for (int t = 0; t < v->count && !g->status && (!pass || v->made); ++t) {
            const char *text = v->texts[t];
            const size_t n = strlen(text);
            uint64_t left = PPO__FNV1A;
            if ((int)v->kinds[t] != PPO__GGUF_NORMAL) continue;
            if (n > PPO__LONGEST) ppo__gguf_fail(g, "a token of more than 512 bytes: ", text);
            for (size_t k = 1; k < n && !g->status; ++k) {
                left = ppo__fnv1a(left, text + k - 1, 1);
                if ((text[k] & 0xc0) == 0x80) continue;
                const int a = ppo__map_find(&by_text, left),
                          b = ppo__map_find(&by_text, ppo__fnv1a(PPO__FNV1A, text + k, n - k));
                if (a < 0 || b < 0 || strncmp(v->texts[a], text, k) || v->texts[a][k] ||
                    strcmp(v->texts[b], text + k))
                    continue;
                const ppo__gguf_merge merge = {a, b, t, (int)k, scores[t]};
                if (pass) v->made[v->made_count] = merge;
                ++v->made_count;
            }
        }
    }
    if (g->status || g->memory.failed) return;
    qsort(v->made, (size_t)v->made_count, sizeof *v->made, ppo__gguf_by_score);
    for (int k = 1; k < v->made_count; ++k) {
        const ppo__gguf_merge *x = &v->made[k - 1], *y = &v->made[k];
        if (x->score == y->score && x->into != y->into)
            ppo__gguf_fail(g, "two tokens have the same score, which leaves the order of merges open: ",
                           v->texts[x->into]);
    }
}

/* What the keys say of the tokens. */
static void ppo__gguf_read_vocab(ppo__gguf *g, ppo__gguf_vocab *v) {
    const char *model = ppo__gguf_string(g, "tokenizer.ggml.model"),
               *cut = ppo__gguf_string(g, "tokenizer.ggml.pre");
    const char *architecture = ppo__gguf_string(g, "general.architecture");
    const ppo__gguf_value *tokens = ppo__gguf_find(g, "tokenizer.ggml.tokens"),
                          *kinds = ppo__gguf_find(g, "tokenizer.ggml.token_type");
    const ppo__gguf_value *scores = ppo__gguf_find(g, "tokenizer.ggml.scores");
    memset(v, 0, sizeof *v);
    if (!model || !strcmp(model, "none") || !strcmp(model, "no_vocab"))
        ppo__gguf_fail(g, "it has no tokenizer (tokenizer.ggml.model)", "");
    if (g->status) return;
    v->pieces = !strcmp(model, "llama");
    if (!v->pieces && strcmp(model, "gpt2")) {
        g->status = ppo__file_fail(g->path,
                                   "tokenizer.ggml.model \"%.40s\" is not known, only gpt2 and llama", model);
        return;
    }
    if (!cut && architecture && !strcmp(architecture, "gpt2")) cut = "gpt-2";
    if (!cut && !v->pieces)
        ppo__gguf_fail(
            g, "there is no tokenizer.ggml.pre, which says how texts are cut: convert the model again", "");
    for (v->cut = 0; !v->pieces && !g->status && v->cut < PPO__GGUF_CUTS; ++v->cut)
        if (ppo__is_word(cut, ppo__gguf_cuts[v->cut].names)) break;
    if (!g->status && v->cut == PPO__GGUF_CUTS) ppo__gguf_fail(g, "tokenizer.ggml.pre is not known: ", cut);
    if (!g->status && (!tokens || !tokens->texts || !tokens->count))
        ppo__gguf_fail(g, "there is no list of tokens, tokenizer.ggml.tokens", "");
    if (g->status) return;
    v->texts = tokens->texts;
    v->count = tokens->count;
    double *usual = PPO__ARRAY(&g->memory, double, v->count);
    for (int t = 0; usual && t < v->count; ++t) usual[t] = PPO__GGUF_NORMAL;
    if (!usual) g->status = PPO_ERROR_MEMORY;
    v->kinds = kinds ? kinds->numbers : usual;
    if (kinds && (!kinds->numbers || kinds->count != v->count))
        ppo__gguf_fail(g, "a list of another length than the tokens': ", "tokenizer.ggml.token_type");
    if (v->pieces && (!scores || !scores->numbers || scores->count != v->count))
        ppo__gguf_fail(g, "there is no list of a score for each token, ", "tokenizer.ggml.scores");
    for (char pad[32]; !g->status && v->count; --v->count) { /* what the model has beyond its tokenizer's */
        snprintf(pad, sizeof pad, "[PAD%d]", v->count - 1);
        if ((int)v->kinds[v->count - 1] != PPO__GGUF_UNUSED || strcmp(v->texts[v->count - 1], pad)) break;
    }
    v->merges = v->pieces ? NULL : ppo__gguf_find(g, "tokenizer.ggml.merges");
    if (!v->pieces && (!v->merges || !v->merges->texts))
        ppo__gguf_fail(g, "there is no list of merges, ", "tokenizer.ggml.merges");
    v->bos = ppo__gguf_int(g, "tokenizer.ggml.bos_token_id", v->pieces ? 1 : -1);
    v->eos = ppo__gguf_int(g, "tokenizer.ggml.eos_token_id", v->pieces ? 2 : -1);
    v->pad = ppo__gguf_int(g, "tokenizer.ggml.padding_token_id", -1);
    v->unknown = ppo__gguf_int(g, "tokenizer.ggml.unknown_token_id", v->pieces ? 0 : -1);
    v->starts = ppo__gguf_int(g, "tokenizer.ggml.add_bos_token", v->pieces || ppo__gguf_cuts[v->cut].whole);
    v->ends = ppo__gguf_int(g, "tokenizer.ggml.add_eos_token", 0);
    v->prefix = ppo__gguf_int(g, "tokenizer.ggml.add_space_prefix", v->pieces);
    if (v->starts && !ppo__gguf_token(v, v->bos)) v->starts = 0;
    if (v->ends && !ppo__gguf_token(v, v->eos)) v->ends = 0;
    if (v->prefix && !v->pieces)
        ppo__gguf_fail(
            g, "a space before a text is not supported for gpt2: ", "tokenizer.ggml.add_space_prefix");
    if (ppo__gguf_int(g, "tokenizer.ggml.remove_extra_whitespaces", 0))
        ppo__gguf_fail(g, "it is not supported: ", "tokenizer.ggml.remove_extra_whitespaces");
    if (v->pieces && !g->status) ppo__gguf_make_merges(g, v, scores->numbers);
}

/* Fills tok from the keys of a file, as ppo__tokfile_load() does from a folder. */
static ppo_status ppo__gguf_fill(ppo__gguf *g, const ppo__gguf_vocab *v, ppo_tokenizer *tok) {
    static const char *const names[] = {"bos_token", "eos_token", "pad_token", "unk_token"};
    const int special[] = {v->bos, v->eos, v->pad, v->pieces ? v->unknown : -1};
    const char *chat = ppo__gguf_string(g, "tokenizer.chat_template");
    ppo__json json = {g->path, " of its tokenizer", NULL, NULL, NULL, PPO_OK};
    ppo__gguf_json text = {NULL, 0}, config = {NULL, 0};
    if (g->status) return g->status;
    ppo__gguf_write_json(&text, v);
    if (text.n > PPO__MAX_HEADER) return ppo__gguf_fail(g, "its tokenizer is larger than 100 MB", "");
    text.out = json.start = PPO__ARRAY(&tok->memory, char, text.n + 1);
    text.n = 0;
    if (!text.out) return PPO_ERROR_MEMORY;
    ppo__gguf_write_json(&text, v);
    json.end = json.start + text.n;
    if (ppo__tokfile_read(tok, &json)) return ppo__failed;
    for (int pass = 0; pass < 2; ++pass) {
        config.n = 0;
        ppo__gguf_add(
            &config,
            "{\"tokenizer_class\": \"PreTrainedTokenizerFast\", \"clean_up_tokenization_spaces\": false");
        for (int k = 0; k < 4; ++k)
            if (ppo__gguf_token(v, special[k])) ppo__gguf_member(&config, names[k], v->texts[special[k]]);
        if (chat) ppo__gguf_member(&config, "chat_template", chat);
        ppo__gguf_add(&config, "}\n");
        if (!pass) config.out = PPO__ARRAY(&tok->memory, char, config.n + 1);
    }
    ppo__tokfile_rules *rules = tok->rules;
    rules->config = config.out;
    rules->bos = ppo__gguf_token(v, v->bos) ? v->bos : -1;
    rules->pad = ppo__gguf_token(v, v->pad) ? v->pad : -1;
    rules->eos =
        ppo__text_copy(&tok->memory, ppo__gguf_token(v, v->eos)); /* the file's memory is given back */
    rules->template_of_chat = ppo__text_copy(&tok->memory, chat);
    return ppo__arena_status(&tok->memory);
}

static ppo_status ppo__gguf_tokenizer_load(const char *path, ppo_tokenizer **tokenizer) {
    ppo__gguf g;
    ppo__gguf_vocab v;
    ppo_tokenizer *tok = (ppo_tokenizer *)ppo__alloc(sizeof *tok);
    ppo_status status = ppo__gguf_open(&g, path);
    if (!status) {
        ppo__gguf_read_vocab(&g, &v);
        status = g.status ? g.status : ppo__arena_status(&g.memory);
    }
    if (!status && !tok) status = PPO_ERROR_MEMORY;
    if (!status) status = ppo__gguf_fill(&g, &v, tok);
    ppo__gguf_close(&g);
    if (status) ppo_tokenizer_free(tok);
    else *tokenizer = tok;
    return status;
}

/* --------------------------------------------------------------------------------------------------------
   @@ Writing
   --------------------------------------------------------------------------------------------------------

   The numbers of keys and of tensors stand before them, so both are listed twice: first they are counted.
   -------------------------------------------------------------------------------------------------------- */

static void ppo__gguf_put(ppo__gguf *g, const void *bytes, size_t n) {
    if (g->out && n) fwrite(bytes, 1, n, g->out);
    g->at += (int64_t)n;
}

static void ppo__gguf_put_whole(ppo__gguf *g, uint64_t number, int bytes) {
    unsigned char raw[8];
    for (int k = 0; k < bytes; ++k) raw[k] = (unsigned char)(number >> 8 * k);
    ppo__gguf_put(g, raw, (size_t)bytes);
}

static void ppo__gguf_put_text(ppo__gguf *g, const char *text) {
    ppo__gguf_put_whole(g, strlen(text), 8);
    ppo__gguf_put(g, text, strlen(text));
}

static void ppo__gguf_put_key(ppo__gguf *g, const char *key, int kind) {
    ++g->keys;
    ppo__gguf_put_text(g, key);
    ppo__gguf_put_whole(g, (uint64_t)kind, 4);
}

static void ppo__gguf_put_int(ppo__gguf *g, const char *key, int number) {
    ppo__gguf_put_key(g, key, PPO__GGUF_U32);
    ppo__gguf_put_whole(g, (uint64_t)number, 4);
}

static void ppo__gguf_put_float(ppo__gguf *g, float number) {
    unsigned char raw[4];
    ppo__gguf_narrow(PPO_GGUF_F32, &number, 1, raw);
    ppo__gguf_put(g, raw, 4);
}

static void ppo__gguf_put_flag(ppo__gguf *g, const char *key, int flag) {
    ppo__gguf_put_key(g, key, PPO__GGUF_BOOL);
    ppo__gguf_put_whole(g, flag != 0, 1);
}

static void ppo__gguf_put_string(ppo__gguf *g, const char *key, const char *text) {
    ppo__gguf_put_key(g, key, PPO__GGUF_TEXT);
    ppo__gguf_put_text(g, text);
}

static void ppo__gguf_put_list(ppo__gguf *g, const char *key, int kind, int count) {
    ppo__gguf_put_key(g, key, PPO__GGUF_LIST);
    ppo__gguf_put_whole(g, (uint64_t)kind, 4);
    ppo__gguf_put_whole(g, (uint64_t)count, 8);
}

/* Refuses settings that neither the family has nor GGUF can express. */
static ppo_status ppo__gguf_check(const ppo__gguf *g, const ppo_lm_config *c) {
    static const char own[] = "vocab score seed eos family attention_scale qkv_bias proj_bias ffn_bias tied";
    const char *name = ppo__gguf_families[g->family].family, *lacks = ppo__gguf_families[g->family].lacks;
    const uint64_t all = UINT64_MAX >> (64 - c->layers);
    const int scales = ppo__is_word("attention_scale", ppo__gguf_families[g->family].more);
    const int has_window = c->window > 0 && c->window < c->context;
    ppo_lm_config family = *c;
    ppo_lm fresh;
    char is[64], other[64];
    ppo_lm_config_family(&family, name);
    fresh.config = family;
    fresh.config.kv_heads = fresh.config.head_size = 0;
    if (ppo__lm_complete(&fresh)) fresh.full = family;
    if (!scales && fabsf(c->attention_scale * sqrtf((float)c->head_size) - 1) > 1e-6f)
        return ppo__refuse("attention_scale is %g, which GGUF cannot express for family %s",
                           (double)c->attention_scale, name);
    if (c->rope_scaling == PPO_ROPE_YARN)
        return ppo__refuse("rope_scaling is yarn, which is not written to GGUF");
    if (c->rope_scaling == PPO_ROPE_LLAMA3 && strcmp(ppo__gguf_families[g->family].architecture, "llama"))
        return ppo__refuse("rope_scaling is llama3, which GGUF cannot express for family %s", name);
    if (has_window && (c->window_layers & all) != (family.window_layers & all))
        return ppo__refuse("window_layers are not those of family %s, which GGUF cannot express", name);
    if ((c->nope_layers & all) != (family.nope_layers & all))
        return ppo__refuse("nope_layers are not those of family %s, which GGUF cannot express", name);
    for (int i = 0; i < ppo__lm_settings.count; ++i) {
        const char *field = ppo__lm_fields[i].name;
        int expressed = ppo__is_word(field, own) && !ppo__is_word(field, lacks);
        for (int k = 0; k < PPO__GGUF_SETTINGS; ++k)
            expressed |= !strcmp(field, ppo__gguf_settings[k].name) && ppo__gguf_has(c, g->family, k) &&
                         !ppo__is_word(field, lacks);
        expressed |= !strncmp(field, "rope", 4) || ppo__is_word(field, "window_layers nope_layers");
        expressed |= !has_window && ppo__is_word(field, "window window_theta");
        expressed |= !strcmp(field, "rotary_size") && c->rotary_size == c->head_size;
        ppo_settings_get(&ppo__lm_settings, c, field, is, sizeof is);
        ppo_settings_get(&ppo__lm_settings, &fresh.full, field, other, sizeof other);
        if (!expressed && strcmp(is, other))
            return ppo__refuse("%s is %s, which GGUF cannot express for family %s", field, is, name);
    }
    return PPO_OK;
}

static void ppo__gguf_put_settings(ppo__gguf *g) {
    const ppo_lm_config *c = &g->hub.lm->full;
    char key[80], text[PPO__SETTING_SIZE];
    for (int k = 0; k < PPO__GGUF_SETTINGS; ++k) {
        const char *name = ppo__gguf_settings[k].name;
        const char kind = ppo__gguf_settings[k].kind;
        const int scales = !strcmp(name, "rope_scaling") || !strcmp(name, "rope_factor");
        if (!ppo__gguf_has(c, g->family, k) || (scales && c->rope_scaling != PPO_ROPE_LINEAR)) continue;
        ppo_settings_get(&ppo__lm_settings, c, name, text, sizeof text);
        ppo__gguf_key(c, g->family, k, key);
        if (kind == 'w') ppo__gguf_put_string(g, key, text);
        else if (kind == 'b') ppo__gguf_put_flag(g, key, c->parallel);
        else if (kind == 'i') ppo__gguf_put_int(g, key, atoi(text));
        else {
            double number = 0;
            ppo__parse_number(text, &number);
            ppo__gguf_put_key(g, key, PPO__GGUF_FLOAT);
            ppo__gguf_put_float(g, (float)number);
        }
        if (strcmp(name, "head_size")) continue;
        snprintf(key, sizeof key, "%s.attention.value_length", ppo__gguf_families[g->family].architecture);
        ppo__gguf_put_int(g, key, c->head_size);
    }
    snprintf(key, sizeof key, "%s.vocab_size", ppo__gguf_families[g->family].architecture);
    ppo__gguf_put_int(g, key, c->vocab);
}

/* -- the tokenizer -- */

/* A tokenizer while it is written. */
typedef struct ppo__gguf_names {
    const ppo_tokenizer *tok;
    const ppo__added **added; /* [vocab] or NULL */
    int *rank;                /* [vocab] the first merge that makes the token, -1: none */
    char *name;               /* room for the longest one, and a second */
    int order[256];
} ppo__gguf_names;

/* The row of ppo__gguf_cuts that cuts as the tokenizer does; -1: none. */
static int ppo__gguf_cut_of(const ppo_tokenizer *tok) {
    const ppo__tokfile_rules *rules = tok->rules;
    const char *expressions[3] = {PPO__GPT2_WORDS, NULL, NULL};
    int count = 0, forms = 0, plain = 1;
    for (int k = 0; rules && k < tok->step_count; ++k) {
        const ppo__rewrite_rule *rule = &rules->rewrite[k];
        const ppo__cut_rule *cut = &rules->cut[k];
        forms |= rule->forms;
        plain &= !rule->prefix && !rule->from && !rule->matches && !rule->ends;
        if (!cut->expression) continue;
        plain &= count < 3 && ((cut->behavior == PPO__ISOLATED && !cut->invert) ||
                               (cut->behavior == PPO__REMOVED && cut->invert));
        if (plain) expressions[count++] = cut->expression->text;
    }
    for (int r = 0; r < PPO__GGUF_CUTS && plain && (!rules || count); ++r) {
        int same = ppo__gguf_cuts[r].forms == forms && ppo__gguf_cuts[r].whole == (rules && rules->whole);
        for (int k = 0; k < 3; ++k) {
            const char *a = k < count || (!rules && !k) ? expressions[k] : NULL,
                       *b = ppo__gguf_cuts[r].expressions[k];
            same &= !a == !b && (!a || !strcmp(a, b));
        }
        if (same) return r;
    }
    return -1;
}

/* Does the tokenizer do what llama.cpp's of SentencePiece does? *prefix: does it put a space before a text?
   */
static ppo_status ppo__gguf_check_pieces(const ppo_tokenizer *tok, const int *rank, int *prefix) {
    const ppo__tokfile_rules *rules = tok->rules;
    int plain = rules->fallback[0] >= 0 && !rules->whole, replaces = 0;
    uint64_t slot;
    for (int k = 0; k < tok->step_count; ++k) {
        const ppo__rewrite_rule *rule = &rules->rewrite[k];
        const ppo__cut_rule *cut = &rules->cut[k];
        plain &= !rule->forms && !rule->matches && !rule->ends &&
                 !(rule->prefix && strcmp(rule->prefix, PPO__METASPACE));
        if (rule->from) replaces |= !strcmp(rule->from, " ") && !strcmp(rule->to, PPO__METASPACE) ? 1 : 2;
        *prefix |= rule->prefix != NULL;
        if (!cut->expression) continue; /* else it cuts at spaces, which are no more, or before words */
        plain &= cut->behavior == PPO__WITH_PREVIOUS
                     ? !strcmp(cut->expression->text, "\\ ")
                     : cut->behavior == PPO__WITH_NEXT && !strcmp(cut->expression->text, PPO__METASPACE) &&
                           ppo__tokfile_may_cut(tok);
    }
    if (!plain || replaces != 1)
        return ppo__refuse("ppo_gguf_save: the tokenizer is of characters, but not as GGUF can express it: "
                           "spaces as " PPO__METASPACE ", bytes for unknown characters, and nothing else");
    for (int k = 1; k < tok->unit_count; ++k)
        if (tok->joined[k] != tok->joined[k - 1] && rank[tok->joined[k]] < k)
            return ppo__refuse("ppo_gguf_save: the order of the merges cannot be expressed by scores of "
                               "tokens, as GGUF has them");
    for (int t = 0; t < tok->vocab; ++t) {
        const char *key = rules->key[t];
        const int n = key ? rules->key_bytes[t] : 0;
        for (int k = 1; k < n; ++k) {
            if ((key[k] & 0xc0) == 0x80) continue;
            const int a = ppo__find_key(tok, key, (size_t)k, &slot),
                      b = a < 0 ? -1 : ppo__find_key(tok, key + k, (size_t)(n - k), &slot);
            const int merge = b < 0 ? -1 : ppo__map_find(&tok->by_unit, ppo__pair_key(a, b));
            if (b >= 0 && merge < 0 && !ppo__added_of(tok, t))
                return ppo__refuse(
                    "ppo_gguf_save: the merges lack one that makes \"%.40s\", which llama.cpp would make",
                    key);
        }
    }
    return PPO_OK;
}

/* The name of a token as GGUF spells it, with a 0 after it, and its kind. */
static int ppo__gguf_spell(const ppo__gguf_names *names, int t, char *out) {
    const ppo_tokenizer *tok = names->tok;
    const ppo__tokfile_rules *rules = tok->rules;
    const ppo__added *added = names->added[t];
    uint64_t slot;
    char *at = out;
    if (added) {
        const int of_pieces = tok->kind != PPO__BPE, pieces = of_pieces && !added->special;
        for (int i = 0; i < added->name_bytes;) { /* spaces that are found in a text are spaces there */
            const int space =
                pieces && added->name_bytes - i >= 3 && !memcmp(added->name + i, PPO__METASPACE, 3);
            *at++ = space ? ' ' : added->name[i];
            i += space ? 3 : 1;
        }
        *at = 0;
        return of_pieces && t == rules->unknown ? PPO__GGUF_UNKNOWN
               : added->special                 ? PPO__GGUF_CONTROL
                                                : PPO__GGUF_ADDED;
    }
    const char *text = rules ? rules->key[t] : tok->bytes + tok->start[t];
    const int n = !text ? 0 : rules ? rules->key_bytes[t] : ppo__token_length(tok, t);
    const int of_bytes =
        tok->kind == PPO__BPE && (!rules || (text && ppo__find_key(tok, text, (size_t)n, &slot) == t));
    for (int i = 0; i < n; ++i) {
        const int b = (unsigned char)text[i];
        if (of_bytes) at += ppo__utf8_put(names->order[b] < 188 ? b : names->order[b] + 68, at);
        else *at++ = text[i];
    }
    *at = 0;
    if (!n) sprintf(out, "[PAD%d]", t);
    if (tok->kind != PPO__BPE && n == 6 && !strncmp(out, "<0x", 3) &&
        rules->fallback[strtol(out + 3, NULL, 16) & 255] == t)
        return PPO__GGUF_BYTE;
    return !n                                             ? PPO__GGUF_UNUSED
           : tok->kind != PPO__BPE && t == rules->unknown ? PPO__GGUF_UNKNOWN
                                                          : PPO__GGUF_NORMAL;
}

static ppo_status ppo__gguf_make_names(ppo__gguf *g, ppo__gguf_names *names) {
    const ppo_tokenizer *tok = g->tok;
    size_t longest = 32;
    names->tok = tok;
    ppo__order_bytes(names->order);
    names->added = PPO__ZEROS(&g->memory, const ppo__added *, tok->vocab);
    names->rank = PPO__ARRAY(&g->memory, int, tok->vocab);
    if (!names->added || !names->rank) return PPO_ERROR_MEMORY;
    for (int k = 0; k < tok->added_count; ++k) {
        names->added[tok->added[k].token] = &tok->added[k];
        if (longest < (size_t)tok->added[k].name_bytes) longest = (size_t)tok->added[k].name_bytes;
    }
    for (int t = 0; t < tok->vocab; ++t) {
        const int n = tok->rules ? tok->rules->key_bytes[t] : ppo__token_length(tok, t);
        if (longest < 2 * (size_t)n) longest = 2 * (size_t)n;
        names->rank[t] = -1;
    }
    for (int k = tok->unit_count - 1; k >= 0; --k) names->rank[tok->joined[k]] = k;
    names->name = PPO__ARRAY(&g->memory, char, 2 * longest + 4);
    return names->name ? PPO_OK : PPO_ERROR_MEMORY;
}

static void ppo__gguf_put_tokens(ppo__gguf *g, const ppo__gguf_names *names) {
    const ppo_tokenizer *tok = g->tok;
    const int vocab = g->hub.lm->full.vocab;
    char *name = names->name;
    for (int list = 0; list < 3; ++list) {
        static const char *const keys[] = {"tokenizer.ggml.tokens", "tokenizer.ggml.token_type",
                                           "tokenizer.ggml.scores"};
        static const int kinds[] = {PPO__GGUF_TEXT, PPO__GGUF_I32, PPO__GGUF_FLOAT};
        if (list == 2 && tok->kind == PPO__BPE) break;
        ppo__gguf_put_list(g, keys[list], kinds[list], vocab);
        for (int t = 0; t < vocab; ++t) {
            int kind = PPO__GGUF_UNUSED;
            if (t < tok->vocab) kind = ppo__gguf_spell(names, t, name);
            else sprintf(name, "[PAD%d]", t);
            if (list == 0) ppo__gguf_put_text(g, name);
            if (list == 1) ppo__gguf_put_whole(g, (uint64_t)kind, 4);
            if (list == 2)
                ppo__gguf_put_float(g,
                                    t < tok->vocab && names->rank[t] >= 0 ? -1 - (float)names->rank[t] : 0);
        }
    }
    if (tok->kind != PPO__BPE) return;
    ppo__gguf_put_list(g, "tokenizer.ggml.merges", PPO__GGUF_TEXT, tok->unit_count);
    for (int k = 0; k < tok->unit_count; ++k) {
        ppo__gguf_spell(names, tok->units[2 * k], name);
        strcat(name, " ");
        ppo__gguf_spell(names, tok->units[2 * k + 1], name + strlen(name));
        ppo__gguf_put_text(g, name);
    }
}

static ppo_status ppo__gguf_put_tokenizer(ppo__gguf *g) {
    const ppo_tokenizer *tok = g->tok;
    if (!tok) return ppo__gguf_put_string(g, "tokenizer.ggml.model", "none"), PPO_OK;
    const ppo__tokfile_rules *rules = tok->rules;
    const int pieces = tok->kind != PPO__BPE, cut = pieces ? 0 : ppo__gguf_cut_of(tok);
    ppo__gguf_names names;
    char pre[32];
    int prefix = 0, eos = g->hub.lm->config.eos;
    for (int k = -1; k < PPO__USUAL_ENDS && eos < 0; ++k) {
        const char *usual = k < 0 ? rules ? rules->eos : NULL : ppo__usual_ends[k];
        if (usual) eos = ppo_tokenizer_special(tok, usual);
    }
    if (tok->vocab > g->hub.lm->full.vocab)
        return ppo__refuse("ppo_gguf_save: the tokenizer has %d tokens, the model %d", tok->vocab,
                           g->hub.lm->full.vocab);
    if (pieces && !rules)
        return ppo__refuse("ppo_gguf_save: a tokenizer of characters, which GGUF cannot express");
    if (cut < 0 || (rules && rules->is_unigram))
        return ppo__refuse("ppo_gguf_save: GGUF has no name for how the tokenizer cuts texts (its normalizer "
                           "and pre_tokenizer)");
    if (tok->bounds[0] > 1 || tok->bounds[1] > 1 || (tok->bounds[1] && tok->bound[1][0] != eos))
        return ppo__refuse(
            "ppo_gguf_save: the tokens around a text are not one at its start and the one that ends texts");
    ppo_status status = ppo__gguf_make_names(g, &names);
    if (!status && pieces) status = ppo__gguf_check_pieces(tok, names.rank, &prefix);
    if (status) return status;
    snprintf(pre, sizeof pre, "%.*s", (int)strcspn(ppo__gguf_cuts[cut].names, " "),
             ppo__gguf_cuts[cut].names);
    ppo__gguf_put_string(g, "tokenizer.ggml.model", pieces ? "llama" : "gpt2");
    ppo__gguf_put_string(g, "tokenizer.ggml.pre", pieces ? "default" : pre);
    ppo__gguf_put_tokens(g, &names);
    const int bos = tok->bounds[0] ? tok->bound[0][0] : rules ? rules->bos : -1;
    if (bos >= 0) ppo__gguf_put_int(g, "tokenizer.ggml.bos_token_id", bos);
    if (eos >= 0) ppo__gguf_put_int(g, "tokenizer.ggml.eos_token_id", eos);
    if (rules && rules->pad >= 0) ppo__gguf_put_int(g, "tokenizer.ggml.padding_token_id", rules->pad);
    if (pieces && rules->unknown >= 0)
        ppo__gguf_put_int(g, "tokenizer.ggml.unknown_token_id", rules->unknown);
    ppo__gguf_put_flag(g, "tokenizer.ggml.add_bos_token", tok->bounds[0] > 0);
    ppo__gguf_put_flag(g, "tokenizer.ggml.add_eos_token", tok->bounds[1] > 0);
    if (pieces) ppo__gguf_put_flag(g, "tokenizer.ggml.add_space_prefix", prefix);
    const char *chat = g->chat_template ? g->chat_template : rules ? rules->template_of_chat : NULL;
    if (chat) ppo__gguf_put_string(g, "tokenizer.chat_template", chat);
    return PPO_OK;
}

/* -- tensors -- */

enum { PPO__GGUF_COUNT, PPO__GGUF_INFOS, PPO__GGUF_DATA }; /* passes over them */

static void ppo__gguf_pad(ppo__gguf *g) {
    static const char zeros[PPO__GGUF_ALIGNMENT] = {0};
    ppo__gguf_put(g, zeros, (size_t)(-g->at & (PPO__GGUF_ALIGNMENT - 1)));
}

static void ppo__gguf_put_info(ppo__gguf *g, const char *name, int type, int rows, int cols, int rank) {
    const int row = ppo__gguf_type_at((uint32_t)type);
    const int64_t bytes = (int64_t)rows * cols / ppo__gguf_types[row].count * ppo__gguf_types[row].bytes;
    ppo__gguf_put_text(g, name);
    ppo__gguf_put_whole(g, (uint64_t)rank, 4);
    if (rank == 2) ppo__gguf_put_whole(g, (uint64_t)cols, 8);
    ppo__gguf_put_whole(g, (uint64_t)rows, 8);
    ppo__gguf_put_whole(g, (uint64_t)type, 4);
    ppo__gguf_put_whole(g, (uint64_t)g->place, 8);
    g->place += bytes + (-bytes & (PPO__GGUF_ALIGNMENT - 1));
}

static ppo_status ppo__gguf_save_array(ppo__gguf *g, const char *name, ppo_tensor *x, int how, int rows,
                                       int cols, int rank) {
    /* as llama.cpp: vectors and positions are floats; rows that no blocks fill are halves */
    const int exact = rank == 1 || !strcmp(name, "position_embd.weight");
    const int odd = g->type == PPO_GGUF_Q8_0 && cols % 32;
    const int type = exact ? (int)PPO_GGUF_F32 : odd ? (int)PPO_GGUF_F16 : g->type;
    const float most = type == PPO_GGUF_F16 ? 65504 : type == PPO_GGUF_Q8_0 ? 65504.f * 127 : FLT_MAX;
    g->infos += g->pass == PPO__GGUF_COUNT;
    if (g->pass == PPO__GGUF_INFOS) ppo__gguf_put_info(g, name, type, rows, cols, rank);
    if (g->pass != PPO__GGUF_DATA) return PPO_OK;
    float *floats = ppo__gguf_room(g, cols);
    if (!floats) return PPO_ERROR_MEMORY;
    unsigned char *raw = (unsigned char *)(floats + ppo__at(PPO__ROWS_AT_ONCE, cols));
    for (int r = 0; r < rows; r += PPO__ROWS_AT_ONCE) {
        const int n = rows - r < PPO__ROWS_AT_ONCE ? rows - r : (int)PPO__ROWS_AT_ONCE;
        ppo__gguf_copy(g, x, how, PPO__SAVE, floats, r, n, cols);
        for (size_t i = 0; i < ppo__at(n, cols); ++i)
            if (!(fabsf(floats[i]) <= most))
                return ppo_fail(PPO_ERROR_NUMERIC, "\"%s\" has %g, which %s cannot hold: nothing was saved",
                                name, (double)floats[i],
                                ppo__gguf_types[ppo__gguf_type_at((uint32_t)type)].name);
        ppo__gguf_put(g, raw, ppo__gguf_narrow(type, floats, ppo__at(n, cols), raw));
    }
    ppo__gguf_pad(g);
    return PPO_OK;
}

static ppo_status ppo__gguf_array(ppo__hub *hub, int way, const char *name, ppo_tensor *x, int how, int rows,
                                  int cols, int rank) {
    ppo__gguf *g = (ppo__gguf *)(void *)hub; /* whose first member it is */
    return way == PPO__LOAD ? ppo__gguf_load_array(g, name, x, how, rows, cols, rank)
                            : ppo__gguf_save_array(g, name, x, how, rows, cols, rank);
}

/* One pass over all tensors. */
static ppo_status ppo__gguf_put_tensors(ppo__gguf *g, int pass) {
    const ppo_lm_config *c = &g->hub.lm->full;
    g->pass = pass;
    if (c->rope_scaling == PPO_ROPE_LLAMA3) {
        const int n = c->rotary_size / 2;
        g->infos += pass == PPO__GGUF_COUNT;
        if (pass == PPO__GGUF_INFOS) ppo__gguf_put_info(g, "rope_freqs.weight", PPO_GGUF_F32, n, 1, 1);
        for (int j = 0; j < n && pass == PPO__GGUF_DATA; ++j)
            ppo__gguf_put_float(g, (float)ppo__gguf_factor(c, j));
        if (pass == PPO__GGUF_DATA) ppo__gguf_pad(g);
    }
    return ppo__hub_serialize(&g->hub, PPO__SAVE);
}

/* The keys; twice, at first without g->out. */
static ppo_status ppo__gguf_put_keys(ppo__gguf *g) {
    const int file_type = g->type == PPO_GGUF_F32    ? 0
                          : g->type == PPO_GGUF_F16  ? 1
                          : g->type == PPO_GGUF_Q8_0 ? 7
                                                     : 32;
    ppo__gguf_put_string(g, "general.architecture", ppo__gguf_families[g->family].architecture);
    ppo__gguf_put_string(g, "general.type", "model");
    ppo__gguf_put_int(g, "general.file_type", file_type); /* llama.cpp's numbers */
    ppo__gguf_put_int(g, "general.quantization_version", 2);
    ppo__gguf_put_settings(g);
    return ppo__gguf_put_tokenizer(g);
}

static ppo_status ppo__gguf_count(ppo__gguf *g) {
    const ppo_status status = ppo__gguf_put_keys(g);
    return status ? status : ppo__gguf_put_tensors(g, PPO__GGUF_COUNT);
}

static ppo_status ppo__gguf_write(FILE *out, const char *path, void *user) {
    ppo__gguf *g = (ppo__gguf *)user;
    ppo_status status = ppo__gguf_count(g);
    if (status) return status;
    const uint64_t keys = g->keys, tensors = g->infos;
    g->out = out;
    g->at = 0;
    ppo__gguf_put(g, "GGUF", 4);
    ppo__gguf_put_whole(g, 3, 4);
    ppo__gguf_put_whole(g, tensors, 8);
    ppo__gguf_put_whole(g, keys, 8);
    status = ppo__gguf_put_keys(g);
    if (!status) status = ppo__gguf_put_tensors(g, PPO__GGUF_INFOS);
    ppo__gguf_pad(g);
    return status ? status : ppo__gguf_put_tensors(g, PPO__GGUF_DATA);
}

PPO_DEF ppo_status ppo_gguf_save(const ppo_lm *lm, const ppo_tokenizer *tokenizer, const char *chat_template,
                                 ppo_gguf_type type, const char *path) {
    ppo__gguf g;
    if (!PPO__GIVEN("ppo_gguf_save", lm)) return PPO_ERROR_ARGUMENT;
    if (type != PPO_GGUF_F32 && type != PPO_GGUF_F16 && type != PPO_GGUF_Q8_0 && type != PPO_GGUF_BF16)
        return ppo__refuse("ppo_gguf_save: type is %d, none of PPO_GGUF_F32, F16, Q8_0 and BF16", (int)type);
    if (lm->base) return ppo__refuse("ppo_gguf_save: the model has LoRA: ppo_lm_merge() it first");
    if (lm->params->packed && path)
        return ppo__refuse("ppo_gguf_save: the model is packed: ppo_lm_copy() it first");
    if (lm->score_weight)
        return ppo__refuse("ppo_gguf_save: the model has a score, which GGUF cannot express");
    memset(&g, 0, sizeof g);
    g.path = path;
    g.tok = tokenizer;
    g.chat_template = chat_template;
    g.type = type;
    g.hub.lm = (ppo_lm *)lm;
    const char *family = ppo__families[lm->full.family].name;
    while (g.family < PPO__GGUF_FAMILIES && strcmp(family, ppo__gguf_families[g.family].family)) ++g.family;
    if (g.family == PPO__GGUF_FAMILIES)
        return ppo__refuse("ppo_gguf_save: llama.cpp has no models of family %s", family);
    ppo__gguf_start(&g);
    ppo_status status = ppo__gguf_check(&g, &lm->full);
    if (!status && !path) status = ppo__gguf_count(&g);
    if (!status && path) status = ppo__params_fetch(lm->params);
    if (!status && path) status = ppo__write_file(path, ppo__gguf_write, &g);
    ppo__gguf_close(&g);
    return status;
}

PPO__COMPANION_IS(ppo__gguf_functions, ppo__in_gguf,
                  {ppo__gguf_lm_load, ppo__gguf_tokenizer_load, ppo__gguf_load_ends});

PPO__WARNINGS_BACK

#endif
#endif
