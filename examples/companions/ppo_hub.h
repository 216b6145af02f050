/* ppo_hub.h - published language models for ppo.h: folders, tokenizers, LoRA, data sets in JSON Lines

SYNOPSIS

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_hub.h"               // after ppo.h; other files may include it for its declarations

       ppo_lm *lm = NULL;                 // a folder with config.json, model.safetensors and tokenizer.json
       ppo_tokenizer *tok = NULL;
       ppo_lm_load("SmolLM2-135M-Instruct", &lm);
       ppo_tokenizer_load("SmolLM2-135M-Instruct", &tok);

       ppo_tokens prompt = {0};
       ppo_tokens_add_text(&prompt, tok, -1, "Three colors are", NULL, -1);      // ready for ppo_generate()

   Each call returns a ppo_status; after a failure ppo_last_error() says what was wrong. examples/chat.c and
   examples/finetune.c are whole programs. Copy this file, ppo_unicode.h and ppo_bpe.h, which it includes, beside
   ppo.h. In the folder examples/, where they are in companions/, programs include it from there: #include
   "companions/ppo_hub.h". A program that uses a GPU includes it before ppo_cuda.cuh.

   It adds functions, and these functions of ppo.h, which otherwise take single files, accept more:

       ppo_lm_load()                                     folders
       ppo_tokenizer_load(), ppo_tokenizer_save()        a tokenizer.json, or a folder with one

   Of ppo_lm_config, the settings qk_norm and rope_scaling yarn need it.

STEP BY STEP

   1. Open a model and its tokenizer, as above. If memory is short, lower lm->config.context before sampling
      or training: caches and batches are made for sequences of that length.
   2. Sample; ppo_chat.h has chats. The model ends its text or turn by one of the tokens in its folder:

       int ends[8];
       ppo_sampling sampling = ppo_sampling_default();
       ppo_lm_load_ends("SmolLM2-135M-Instruct", ends, 8, &sampling.stop_token_count);
       sampling.stop_tokens = ends;
       ppo_generator_create(lm, 1, &generator);
       ppo_generate(generator, &prompt, &sampling, &samples);  // ppo_stop_at(): until a text
       ppo_tokens_text(&samples.tokens, 0, PPO_RESPONSE_TEXT, tok, text, sizeof text);

   3. Fine-tune. A model that was loaded is frozen until a training begins; ppo_fit_sft() and the others do
      the rest:

       ppo_lines lines = ppo_lines_default();
       lines.max_tokens = lm->config.context;
       ppo_tokens_add_lines(&data, NULL, "train.jsonl", tok, &lines, NULL);
       ppo_fit_sft(lm, &data, &fit);

   4. Or train by LoRA: two thin matrices beside each layer, while the weights stay as they are. Policy,
      reference, critic and reward model can share one base, whose weights may be halved to BF16:

       ppo_lora lora = ppo_lora_default();
       ppo_lm_adapt(base, &lora, 0, &policy);
       ppo_params_to_bf16(base->params);
       ppo_rlhf_create(policy, NULL, NULL, &prompts, reward, NULL, &cfg, &rlhf);

   5. Save. Others read the result: transformers a folder, peft an adapter, where policy->adapter->base_model
      names the base.

       ppo_lm_save(lm, "mine", PPO_BF16);
       ppo_tokenizer_save(tok, "mine");
       ppo_lm_save(policy, "adapter", PPO_F32);           // LoRA: only A, B and the score
       ppo_lm_load_adapter("adapter", base, &policy);     // on another day
       ppo_lm_merge(policy, &whole);                      // or as a model without LoRA

LARGE MODELS, LONG TEXTS

       fit.gradient_checkpointing = 1;     // of ppo_rlhf_config, too: memory of a block instead of all blocks
       fit.window = 512;                   // the data are one long text, and an item is a window of it

WHAT IT READS

   Models: config.json of transformers 4 or 5; model.safetensors, or shards with their index; numbers of
   type F32, F16 or BF16. The families are

       gpt2  gpt_neo (TinyStories)  gpt_neox (Pythia)  llama (SmolLM2, TinyLlama)  mistral  qwen2  qwen3
       gemma3_text  olmo2  smollm3  phi3 (without longrope)  granite  opt (but 350m)

   Rotary positions may be scaled (rope_scaling): linear, llama3, or yarn with truncate, and without attention_factor
   and mscale; dynamic, which scales nothing within max_position_embeddings, the context here, and is saved as plain.
   A classifier of one label is a model with a score; transformers has none for granite.

   Tokenizers: a tokenizer.json with the model BPE, or Unigram. Of bytes, as most have it (GPT-2, Llama 3, Qwen, o200k,
   DeepSeek, Mistral's tekken, Falcon, OLMo, SmolLM, Phi, Granite), or of characters, as transformers convert
   SentencePiece's (Llama 2, TinyLlama, Mistral, Gemma), with byte_fallback. Its parts may be
       normalizers        NFC NFD NFKC NFKD Lowercase StripAccents Strip Replace Prepend
       pre_tokenizers     Split (all behaviors, most expressions: ppo_unicode.h) ByteLevel Metaspace Digits Punctuation
                          Whitespace WhitespaceSplit
       post_processors    TemplateProcessing ByteLevel RobertaProcessing BertProcessing
       decoders           ByteLevel Replace Metaspace ByteFallback Fuse Strip
   Truncation and padding are not applied: transformers sets them in each call.

   Logits, losses, gradients and tokens are those of transformers, peft and tokenizers, up to rounding.

ERRORS

   Files are checked completely. What is not supported is refused by the key that says so:

       SmolLM/config.json: hidden_act "relu6" is not known

   After a failure nothing is half-loaded: new objects are NULL, and data are as they were.

   License: that of ppo.h. */
#ifndef PPO_HUB_H
#define PPO_HUB_H
#ifndef PPO_H
#error "include ppo.h before ppo_hub.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_hub.h belongs to version 0.3 of ppo.h"
#endif

#include "ppo_unicode.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rounds the parameters to BF16, in which they take half the memory, and freezes them for good: the base of models
   with LoRA, a reference, a reward model, or one that only samples, which is faster then. The weights of a model
   whose file is in BF16 do not change. Data is NULL from then on. Operations on the processor convert what they
   read. Copies have floats of four bytes; a tape on a GPU refuses the model. */
PPO_DEF ppo_status ppo_params_to_bf16(ppo_params *params);

/* Gradient checkpointing. 1: of a language model, the tape keeps only the input of each block, and backward
   computes the block again. That takes a third to a half more time and a fraction of the memory, and gives the
   same bits. 0 is the default. */
PPO_DEF void ppo_tape_checkpointing(ppo_tape *tape, int on);

#ifndef PPO_NO_LANGUAGE

/* --------------------------------------------------------------------------------------------------------
   1 Tokenizers, and texts that end a sequence
   -------------------------------------------------------------------------------------------------------- */

/* ppo_tokenizer_load() opens a tokenizer.json, or a folder that has one; its tokens are those of Hugging
   Face's tokenizers. Of a folder it also reads tokenizer_config.json, by which Python's AutoTokenizer may do
   something else: a token that only that file has is an error, all else is in ppo_tokenizer_note().

   ppo_tokenizer_save() writes a tokenizer.json that was read as it was, and a tokenizer that was trained on
   bytes so that Hugging Face's tokenizers read it. Into a folder it also writes the tokenizer_config.json
   that AutoTokenizer needs, that of the folder it was read from or one of its own; eos_token is then what the
   folder's config.json says, which gets the tokens that start a text and fill one up: for a model with a score
   there is one that no text ends with. So save the model before its tokenizer. The files of a folder are replaced
   one after another, when all of the new ones are on the disk. A tokenizer of characters cannot be saved this way. */

/* What Python's AutoTokenizer may do otherwise with the folder that the tokenizer was read from, in a sentence or
   several, each a line; "": nothing. */
PPO_DEF const char *ppo_tokenizer_note(const ppo_tokenizer *tokenizer);
/* An error if Python's transformers would give models of a family another tokenizer than this one. */
PPO_DEF ppo_status ppo_tokenizer_fits(const ppo_tokenizer *tokenizer, const char *family);
/* The special token with which shorter texts of a batch can be filled up for a model with a score: none at which a
   text ends, of which eos is one; -1: the tokenizer has none. */
PPO_DEF int ppo_tokenizer_pad(const ppo_tokenizer *tokenizer, int eos);
/* The first special token whose name is in a text that ends with a 0; -1: there is none. */
PPO_DEF int ppo_tokenizer_find(const ppo_tokenizer *tokenizer, const char *text);

/* Adds special tokens to a tokenizer of a tokenizer.json, after all that it has, as add_special_tokens() of Hugging
   Face does: ppo_tokenizer_save() writes them, all other tokens keep their numbers, and ppo_lm_resize() gives them
   rows in a model. specials [count]: their names, as in ppo_tokenizer_bytes(). Errors, after which the tokenizer is
   as it was: a name that breaks these rules, or is a token already; a tokenizer of another kind. */
PPO_DEF ppo_status ppo_tokenizer_add(ppo_tokenizer *tokenizer, const char *const *specials, int count);

/* A message of a chat, for ppo_chat.h, and for lines with messages. */
typedef struct ppo_message {
    const char *role; /* "system", "user" or "assistant" */
    const char *text; /* ends with a 0; no special tokens, whatever it contains */
} ppo_message;

/* A ppo_watch_fn (ppo_methods.h) that ends a sequence after one of some texts, which stays in its response; watch_user
   points to a ppo_stops. The text may begin and end within a token, and contain names of special tokens.
   Errors: a NULL, an empty text. */
typedef struct ppo_stops {
    const ppo_tokenizer *tokenizer;
    const char *const *text; /* [count] */
    int count;
} ppo_stops;
PPO_DEF ppo_status ppo_stop_at(const ppo_tokens *so_far, int s, int *end, void *stops);

/* ppo_encode() with flags, which may be added up. SPECIALS is not for somebody else's text, which could end the turn
   of a chat. Hugging Face's encode() is SPECIALS + BOUNDS, with split_special_tokens and without
   add_special_tokens it is ppo_encode(). Added tokens that are not special are always found. */
typedef enum ppo_encode_bits {
    PPO_ENCODE_SPECIALS = 1, /* the names of special tokens become those tokens */
    PPO_ENCODE_BEFORE = 2,   /* with the tokens that a tokenizer.json puts before a text, such as <s>; */
    PPO_ENCODE_AFTER = 8,    /* those that it puts after one; */
    PPO_ENCODE_BOUNDS = 10,  /* both */
    PPO_ENCODE_CONTINUES = 4 /* it follows another text: without the space that a tokenizer.json puts first */
} ppo_encode_bits;
PPO_DEF ppo_status ppo_encode_as(const ppo_tokenizer *tokenizer, int flags, const char *text, size_t bytes,
                                 int *tokens, int capacity, int *count);

/* --------------------------------------------------------------------------------------------------------
   2 Families and LoRA
   -------------------------------------------------------------------------------------------------------- */

/* Sets all that the models of a family have in common, such as norms and positions; keeps the sizes, score,
   seed and eos. For a model from nothing; family: a name of the list above. */
PPO_DEF ppo_status ppo_lm_config_family(ppo_lm_config *config, const char *family);

/* A frozen model with more tokens, and the weights of lm. New rows of the embedding, and of the head if that is a
   matrix of its own, are the mean of the old ones, as with resize_token_embeddings() of transformers, but without the
   noise (of a variance of 1e-9 of theirs) that it adds. So new tokens are all alike until a training of all weights:
   LoRA alone does not train them. Errors: vocab is below that of lm, lm has LoRA. */
PPO_DEF ppo_status ppo_lm_resize(const ppo_lm *lm, int vocab, ppo_lm **resized);

/* LoRA (Hu 2021) adds (x A) B alpha / rank to a layer x W. These layers may have it. Where a family has one
   matrix for queries, keys and values, that is Q; without a gate there is no GATE. */
enum { PPO_LORA_Q, PPO_LORA_K, PPO_LORA_V, PPO_LORA_PROJ, PPO_LORA_GATE, PPO_LORA_UP, PPO_LORA_DOWN };
enum { PPO_LORA_LAYERS = PPO_LORA_DOWN + 1 };
typedef struct ppo_lora { /* defaults in brackets */
    int rank;             /* columns of A [8] */
    float alpha;          /* [16] */
    const char *layers;   /* their names in the family, such as "q_proj,v_proj"; NULL: all [NULL] */
    uint64_t seed;        /* of A; B starts as 0 [1] */
} ppo_lora;
PPO_DEF ppo_lora ppo_lora_default(void);

/* ppo_lm.adapter of a model with LoRA */
typedef struct ppo_adapter {
    ppo_lora lora;                                  /* layers is NULL */
    ppo_tensor *a[PPO_MAX_LAYERS][PPO_LORA_LAYERS]; /* (in, rank); NULL: the layer has none */
    ppo_tensor *b[PPO_MAX_LAYERS][PPO_LORA_LAYERS]; /* (rank, out) */
    /* What adapter_config.json calls the base, a folder or a name of the hub; "": nothing. peft's
       AutoPeftModelForCausalLM opens it; it is yours to set, and copies of the model inherit it. */
    char base_model[1024];
} ppo_adapter;

/* A model that shares the weights of `base` and trains by LoRA: fine-tuning and PPO change only A and B. It
   freezes the base. Any number of models can share a base, which must outlive them. Training the base
   changes all of them. At first it computes what the base does. `score` not 0: with a score head of its
   own. Errors: the base has LoRA itself, the family has no such layer. */
PPO_DEF ppo_status ppo_lm_adapt(ppo_lm *base, const ppo_lora *lora, int score, ppo_lm **lm);
/* A model without LoRA, of the weights W + A B alpha / rank, frozen. */
PPO_DEF ppo_status ppo_lm_merge(const ppo_lm *lm, ppo_lm **merged);

/* The bytes of a run, which ppo_rlhf_create() has taken. A model that is used twice counts once. */
typedef struct ppo_memory {
    double weights;     /* of the policy, the reference, the critic, and their bases */
    double training;    /* gradients, also of threads and shards; Adam's moments; what target_kl returns to */
    double activations; /* of a micro-batch, on each thread that computes one */
    double sampling;    /* keys and values, and what the slots compute */
    double samples;     /* prompts, and the numbers of each token */
} ppo_memory;
PPO_DEF ppo_memory ppo_rlhf_memory(const ppo_rlhf *rlhf);

/* --------------------------------------------------------------------------------------------------------
   3 Models in folders
   -------------------------------------------------------------------------------------------------------- */

/* ppo_lm_load() opens a folder; it reads the arrays one after another into their places. The model is
   frozen: a backward of your own needs ppo_params_freeze(lm->params, 0).

   ppo_lm_save() writes config.json and model.safetensors, which AutoModelForCausalLM of transformers reads;
   with a score, AutoModelForSequenceClassification, too. dtype: PPO_F32, PPO_F16 or PPO_BF16. Of a model
   with LoRA it writes only the adapter: A, B and the score. A folder that has a model is replaced in one step
   for ppo_lm_load(): the weights also hold their config.json, which counts if the file is still the one from
   before; Python, which does not know that, could see the new weights with the old config.json if the power
   fails between the two renames. Errors: settings that the family's config.json
   cannot express, a number that the type cannot hold, a folder that has a model without LoRA if this one
   has it, and the other way round. */
PPO_DEF ppo_status ppo_lm_save(const ppo_lm *lm, const char *folder, ppo_dtype dtype);

/* The tokens that end a text, for ppo_sampling.stop_tokens: eos_token_id of generation_config.json, or else of
   config.json. end [room]; *count: how many there are, which may exceed room; 0: neither file names any, or path is
   a file. */
PPO_DEF ppo_status ppo_lm_load_ends(const char *path, int *end, int room, int *count);

/* Loads LoRA in peft's format (adapter_config.json, adapter_model.safetensors), as ppo_lm_save() writes it,
   for `base`, which must have the weights that the adapter was trained on, and which it freezes. Errors:
   those of files, arrays for which the base has no layer, anything of peft's besides A, B and a score. */
PPO_DEF ppo_status ppo_lm_load_adapter(const char *folder, ppo_lm *base, ppo_lm **lm);

/* --------------------------------------------------------------------------------------------------------
   4 Data in files: JSON Lines, tokens
   -------------------------------------------------------------------------------------------------------- */

/* How lines are read; defaults in brackets. */
enum { PPO_NEEDS_PROMPT = 1, PPO_NEEDS_RESPONSE };
typedef struct ppo_named {
    int line;      /* 0: there is none */
    char name[64]; /* its beginning */
} ppo_named;
typedef struct ppo_lines {
    int form;         /* of chats, which need ppo_chat.h: one of its forms [PPO_CHATML] */
    int thinking;     /* the same: as in ppo_chat_how [0] */
    const char *date; /* the same [NULL] */
    int start, end;   /* tokens around texts: as in ppo_tokens_add_text() [-1, -1] */
    int max_tokens;   /* > 0: longer sequences are cut after this number of tokens [0] */
    int needs;        /* what a line must have, unless it is skipped: 0, or one of the above [0] */
    /* 1: the names of special tokens in texts become those tokens, as in chats that were written out, or where
       a text ends with one; `start` and `end` are not added where they are. Not for somebody else's texts [0] */
    int specials;
    ppo_named
        *named; /* with specials 0: receives the first such name, which stays text; may be NULL [NULL] */
    int labels; /* 1: with rejected, also lines of one response each, and whether that is good [0] */
} ppo_lines;
PPO_DEF ppo_lines ppo_lines_default(void);

/* Adds a sequence for each line of a file of JSON Lines, an object with the members that data sets have:
       {"messages": [{"role": "user", "content": "..."}, ...]}  a chat; a prompt if the assistant is not last
       {"prompt": "...", "completion": "..."}                   the prompt is given
       {"text": "..."}                                          without a prompt
       {"prompt": "..."}                                        nothing but a prompt
   or, if rejected is not NULL, one to tokens and one to rejected:
       {"prompt": "...", "chosen": "...", "rejected": "..."}
       {"chosen": [{...}, ...], "rejected": [{...}, ...]}       two chats
   or, with lines->labels, one to tokens if the label is true, else one to rejected:
       {"prompt": "...", "completion": "...", "label": true}    for ppo_fit_kto()
   A prompt may be the messages of a chat, too: all of them are given, and what follows is the assistant's
   text, or messages of which the first is the assistant's. The first of these forms that fits a line is
   used; other members are ignored. lines NULL: the defaults. *skipped (may be NULL) counts the lines that
   are skipped: with no token to learn, or a prompt longer than max_tokens. A line has at most 64 MiB; one
   is in memory at a time. Errors, with the number of the line, after which tokens and rejected are as they
   were: those of reading and encoding, a line that is none of these, or lacks what is needed. */
PPO_DEF ppo_status ppo_tokens_add_lines(ppo_tokens *tokens, ppo_tokens *rejected, const char *path,
                                        const ppo_tokenizer *tokenizer, const ppo_lines *lines, int *skipped);

/* ppo_tokens_add_text() of texts in which the names of special tokens are written out, and become those tokens;
   `start` is not added to a text that begins with it, nor `end` to one that ends with it. */
PPO_DEF ppo_status ppo_tokens_add_written(ppo_tokens *tokens, const ppo_tokenizer *tokenizer, int start,
                                          const char *prompt, const char *response, int end);

/* Writes a line {"prompt": "...", "completion": "..."} for each sequence, without special tokens. Bytes
   that are not UTF-8, such as half a character, become U+FFFD. */
PPO_DEF ppo_status ppo_tokens_save_lines(const ppo_tokens *tokens, const ppo_tokenizer *tokenizer,
                                         const char *path);

/* A plain file as it is, with a 0 after it, for ppo_text_free(); *text is NULL if there is none. Errors: those of
   files. ppo_text_save() replaces a file in one step. */
PPO_DEF ppo_status ppo_text_load(const char *path, char **text, size_t *bytes);
PPO_DEF ppo_status ppo_text_save(const char *path, const char *text, size_t bytes);
PPO_DEF void ppo_text_free(char *text);

/* Tokens in a safetensors file: "tokens" I32 (n); "tokens.start" I32 (count + 1), without which they are
   one sequence; "tokens.prompt" I32 (count) and "tokens.given" U8 (n), if there are any. Loading adds the
   sequences; a failure leaves tokens unchanged. Errors: those of files, arrays that contradict each other. */
PPO_DEF ppo_status ppo_tokens_save(const ppo_tokens *tokens, const char *path);
PPO_DEF ppo_status ppo_tokens_load(const char *path, ppo_tokens *tokens);

#endif /* PPO_NO_LANGUAGE */

#ifdef __cplusplus
}
#endif
#endif /* PPO_HUB_H */
/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__HUB_IMPLEMENTED)
#define PPO__HUB_IMPLEMENTED
#ifdef PPO__CUDA_IMPLEMENTED
#error "include ppo_hub.h before ppo_cuda.cuh, which has LoRA on the GPU only then"
#endif

PPO__WARNINGS_OFF

/* --------------------------------------------------------------------------------------------------------
   @@ Weights in BF16
   -------------------------------------------------------------------------------------------------------- */

/* To the nearest, of two the even one. */
static void ppo__narrow(const float *from, size_t n, uint16_t *to) {
    for (size_t i = 0; i < n; ++i) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        to[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

PPO_DEF ppo_status ppo_params_to_bf16(ppo_params *params) {
    if (!PPO__GIVEN("ppo_params_to_bf16", params)) return PPO_ERROR_ARGUMENT;
    if (params->packed || !params->capacity) return PPO_OK;
    ppo_status status = ppo_params_freeze(params, 1);
    if (!status) status = ppo_params_sync(params);
    if (status) return status;
    uint16_t *packed = (uint16_t *)ppo__alloc_uncleared(params->capacity * sizeof *packed);
    if (!packed) return PPO_ERROR_MEMORY;
    ppo__mirror_free(params);
    ppo__narrow(params->data, params->count, packed);
    for (int i = 0; i < params->tensor_count; ++i) {
        ppo__param *param = (ppo__param *)(void *)params->tensors[i];
        param->packed = packed + (param->tensor.data - params->data);
        param->tensor.data = NULL;
    }
    ppo__free(params->data);
    params->data = NULL;
    params->packed = packed;
    return PPO_OK;
}

/* Packed matrices as operands: a block of one at a time is made floats, which stay in the first cache. */
enum { PPO__BLOCK_ROWS = 32, PPO__BLOCK_COLS = PPO__WIDE, PPO__BLOCK = PPO__BLOCK_ROWS * PPO__BLOCK_COLS };

static void ppo__packed_gemm(int rows, int cols, int inner, const float *a, int lda, const uint16_t *b,
                             int ldb, const float *init, int ld_init, float *c, int ldc) {
    float block[PPO__BLOCK];
    int j = 0;
    const ppo__kernels *set = ppo__k();
    if (ppo__has_product(inner))
        set->product(PPO__PACKED_B, rows, j = cols, inner, a, lda, 1, b, ldb, init, ld_init, c, ldc);
    else if (rows == 1) set->row_times(j = cols - cols % PPO__WIDE, inner, a, b, ldb, init, c);
    for (; j < cols; j += PPO__BLOCK_COLS) {
        const float *before = init ? init + j : NULL;
        const int wide = ppo__min_int(cols - j, PPO__BLOCK_COLS);
        for (int k = 0, ld = ld_init; k < inner; k += PPO__BLOCK_ROWS, before = c + j, ld = ldc) {
            const int deep = ppo__min_int(inner - k, PPO__BLOCK_ROWS);
            set->widen(deep, wide, b + ppo__at(k, ldb) + j, ldb, block, PPO__BLOCK_COLS);
            set->gemm(rows, wide, deep, a + k, lda, 1, block, PPO__BLOCK_COLS, before, ld, c + j, ldc);
        }
    }
}

/* out (cols, rows) = b (rows, cols) transposed */
static void ppo__packed_transpose(int rows, int cols, const uint16_t *b, float *out) {
    float block[PPO__BLOCK];
    for (int i = 0; i < rows; i += PPO__BLOCK_ROWS)
        for (int j = 0; j < cols; j += PPO__BLOCK_COLS) {
            const int high = ppo__min_int(rows - i, PPO__BLOCK_ROWS);
            const int wide = ppo__min_int(cols - j, PPO__BLOCK_COLS);
            ppo__k()->widen(high, wide, b + ppo__at(i, cols) + j, cols, block, PPO__BLOCK_COLS);
            ppo__k()->transpose(high, wide, block, PPO__BLOCK_COLS, out + ppo__at(j, rows) + i, rows);
        }
}

/* -- gradient checkpointing -- */

PPO_DEF void ppo_tape_checkpointing(ppo_tape *tape, int on) {
    if (tape) tape->recompute = on;
}

/* An operation that is made of others, which are not kept: y = build(x), of x's shape, is recorded in
   tape->block and forgotten; backward records it again, and goes back through that. */
typedef struct ppo__recompute_args {
    ppo_tensor *(*build)(ppo_tape *tape, ppo_tensor *x, const void *user);
    const void *user;
} ppo__recompute_args;

static void ppo__recompute(ppo_node *node, int backward) {
    const ppo__recompute_args *args = (const ppo__recompute_args *)node->args;
    ppo_tape *tape = node->tape;
    const ppo__record outer = tape->now;
    const int recording = tape->recording;
    tape->now = tape->block;
    tape->recording = backward;
    tape->backward = 0;
    ppo_tensor *y = args->build(tape, node->in[0], args->user);
    tape->recording = recording;
    if (y && !backward) ppo__tape_copy(tape, y->data, ppo__size(y), node->out[0]->data);
    if (backward) ppo__tape_begin_grad(tape, y);
    if (backward && y && y->grad && !tape->status) {
        ppo__tape_copy(tape, node->out[0]->grad, ppo__size(y), y->grad);
        ppo__tape_walk_back(tape, NULL);
    }
    tape->block = tape->now;
    tape->now = outer;
    ppo__record_reset(&tape->block);
}

static ppo_status ppo__recompute_forward(ppo_node *node) {
    ppo__recompute(node, 0);
    return ppo_tape_status(node->tape);
}

static void ppo__recompute_backward(ppo_node *node) { ppo__recompute(node, 1); }

static const ppo_op ppo__recomputed = {"recomputed", 1, ppo__recompute_forward, ppo__recompute_backward};

/* build(x): as one operation, unless backward will need what it is made of, or it is small. */
enum { PPO__RECOMPUTE_LEAST = 1 << 16 };
static ppo_tensor *ppo__tape_recompute(ppo_tape *tape,
                                       ppo_tensor *(*build)(ppo_tape *, ppo_tensor *, const void *),
                                       ppo_tensor *x, const void *user) {
    const ppo__recompute_args args = {build, user};
    if (!tape->recompute && (tape->recording || ppo__size(x) < PPO__RECOMPUTE_LEAST))
        return build(tape, x, user);
    return ppo_tape_result(
        ppo_tape_apply(tape, &ppo__recomputed, &x, 1, x->rows, x->cols, &args, sizeof args));
}

PPO__COMPANION_IS(ppo__large_functions, ppo__for_large,
                  {&ppo__recomputed, ppo__tape_recompute, ppo__packed_gemm, ppo__packed_transpose});

#ifndef PPO_NO_LANGUAGE

/* --------------------------------------------------------------------------------------------------------
   @@ JSON as a tree
   --------------------------------------------------------------------------------------------------------

   All of a text is parsed into one array of values. Strings are decoded where they lie, and only when they
   are asked for.
   -------------------------------------------------------------------------------------------------------- */

/* What kind of value comes next: one of {["0tfn, where 0 is any number; 0 if it is none. */
static char ppo__json_peek(ppo__json *json) {
    ppo__json_skip_space(json);
    char c = json->status ? (char)0 : *json->at;
    if (c == '-' || (c >= '0' && c <= '9')) return '0';
    return (char)(c && strchr("{[\"tfn", c) ? c : 0);
}

/* Any finite number; 0 after a failure. */
static double ppo__json_number(ppo__json *json) {
    char text[64];
    double number = 0;
    int kind = ppo__json_peek(json), length = (int)strspn(json->at, "+-.0123456789Ee");
    int zero = *json->at == '-';
    snprintf(text, sizeof text, "%.*s", length, json->at);
    if (kind != '0' || (text[zero] == '0' && text[zero + 1] >= '0' && text[zero + 1] <= '9') ||
        length >= (int)sizeof text || !ppo__parse_number(text, &number) || fabs(number) > DBL_MAX)
        return ppo__json_fail(json, "expected a finite number", NULL), 0;
    json->at += length;
    return number;
}

/* Takes one of "null", "false", "true" if it comes next, and nothing else. */
static int ppo__json_word(ppo__json *json, const char *word) {
    size_t length = strlen(word);
    ppo__json_skip_space(json);
    if (json->status || strncmp(json->at, word, length) != 0) return 0;
    json->at += length;
    return 1;
}

/* false or true; 0 after a failure. */
static int ppo__json_bool(ppo__json *json) {
    int yes = ppo__json_word(json, "true");
    if (!yes && !ppo__json_word(json, "false")) ppo__json_fail(json, "expected true or false", NULL);
    return yes;
}

static void ppo__json_skip_string(ppo__json *json) {
    ppo__json_expect(json, '"');
    for (; *json->at && *json->at != '"'; ++json->at) json->at += *json->at == '\\' && json->at[1];
    if (*json->at) ++json->at;
    else ppo__json_fail(json, "a string has no end", NULL);
}

/* A value of a text that is read as a whole. They are in one array: after each list its elements. */
typedef struct ppo__value {
    char *at;        /* where it begins */
    uint32_t key;    /* of a member of an object: how far before `at` its key begins */
    int size, count; /* values that it is, with those in it; its elements */
    char kind;       /* as of ppo__json_peek(); 's': a string that was decoded */
} ppo__value;

static char *ppo__json_key_of(const ppo__value *value) { return value->at - value->key; }

enum { PPO__DEPTH = 64 }; /* lists within each other */

/* Takes any value and changes none of its bytes: its strings are not decoded, nor checked. With `values`,
   which has room for all, it lists them and decodes the keys. */
static void ppo__json_walk(ppo__json *json, ppo__value *values) {
    char close[PPO__DEPTH];
    int count[PPO__DEPTH], first[PPO__DEPTH], depth = 0, n = 0;
    const char *key = NULL;
    do {
        char kind = ppo__json_peek(json);
        const ppo__value value = {json->at, key ? (uint32_t)(json->at - key) : 0, 1, 0, kind};
        if (values) values[n++] = value;
        if (kind == '{' || kind == '[') {
            if (depth == PPO__DEPTH) {
                ppo__json_fail(json, "lists within more than 64 others", NULL);
                return;
            }
            ++json->at;
            close[depth] = (char)(kind + 2); /* in ASCII */
            first[depth] = n - 1;
            count[depth++] = 0;
        } else if (kind == '"') {
            ppo__json_skip_string(json);
        } else if (kind == '0') {
            ppo__json_number(json);
        } else if (!ppo__json_word(json, "null") && !ppo__json_word(json, "true")) {
            const int python = !strncmp(json->at, "NaN", 3) || !strncmp(json->at, "Infinity", 8);
            if (!ppo__json_word(json, "false"))
                ppo__json_fail(
                    json, python ? "NaN or Infinity, which JSON does not have" : "expected a value", NULL);
        }
        for (; depth && !ppo__json_next(json, close[depth - 1], &count[depth - 1]); --depth) {
            ppo__value *list = values ? &values[first[depth - 1]] : NULL;
            if (list) {
                list->size = n - first[depth - 1];
                list->count = count[depth - 1];
            }
        }
        if (depth && close[depth - 1] == '}') {
            if (values) key = ppo__json_string(json);
            else ppo__json_skip_string(json);
            ppo__json_expect(json, ':');
        }
    } while (depth && !json->status);
}

static void ppo__json_skip(ppo__json *json) { ppo__json_walk(json, NULL); }

/* The values of the whole text, which is an object; NULL after a failure. */
static ppo__value *ppo__json_tree(ppo__json *json, ppo__arena *memory) {
    const char first = ppo__json_peek(json); /* which skips spaces */
    const size_t bytes = (size_t)(json->end - json->at);
    size_t most = 1; /* all others come after one of these characters outside a string */
    char text[160];
    if (first != '{') {
        snprintf(text, sizeof text, "expected \"{\"%s", ppo__other_kind(json->at, bytes));
        ppo__json_fail(json, text, NULL);
    }
    if (json->status) return NULL;
    for (const char *c = json->at; c < json->end; ++c) {
        if (*c == '"') /* to its end */
            while (++c < json->end && *c != '"') c += *c == '\\';
        else most += *c == ',' || *c == '[' || *c == '{';
    }
    /* a value and what parts it from the next one are two bytes, and so are the ends of a list that is closed */
    if (most > bytes / 2 + PPO__DEPTH + 2) most = bytes / 2 + PPO__DEPTH + 2;
    ppo__value *values = PPO__ARRAY(memory, ppo__value, most);
    if (!values) return json->status = PPO_ERROR_MEMORY, (ppo__value *)NULL;
    ppo__json_walk(json, values);
    ppo__json_end(json);
    return json->status ? NULL : values;
}

/* Steps through a list, '[' or '{'; list NULL: an empty one. *item is NULL at first. Sets `at` to it. */
static int ppo__json_each(ppo__json *json, ppo__value *list, char kind, ppo__value **item) {
    if (!list || json->status) return 0;
    json->at = list->at;
    if (list->kind != kind) return ppo__json_expect(json, kind), 0;
    *item = *item ? *item + (*item)->size : list + 1;
    if (*item < list + list->size) json->at = (*item)->at;
    return *item < list + list->size;
}

/* A member of an object, and `at` is set to it; NULL: it is not there, or null, or the object is NULL. */
static ppo__value *ppo__json_get(ppo__json *json, ppo__value *object, const char *key) {
    ppo__value *found = NULL, *item = NULL;
    while (ppo__json_each(json, object, '{', &item)) {
        if (strcmp(ppo__json_key_of(item), key) != 0) continue;
        if (found) ppo__json_fail(json, "repeated member ", key);
        found = item;
    }
    if (!found || found->kind == 'n' || json->status) return NULL;
    json->at = found->at;
    return found;
}

/* ppo__json_whole() of all of a number. */
static int64_t ppo__json_integer(ppo__json *json) {
    int64_t number = ppo__json_whole(json);
    if (*json->at && strchr(".eE", *json->at)) ppo__json_fail(json, "expected a whole number", NULL);
    return number;
}

/* The same below 2^31. */
static int ppo__json_int(ppo__json *json) {
    const int64_t number = ppo__json_integer(json);
    if (number > INT_MAX) ppo__json_fail(json, "expected a whole number below 2^31", NULL);
    return (int)number;
}

/* The text of a value, decoded once. */
static char *ppo__json_decode(ppo__json *json, ppo__value *value) {
    json->at = value->at;
    if (value->kind == 's') return value->at;
    char *text = (char *)ppo__json_string(json);
    if (json->status) return text;
    value->key += value->key ? (uint32_t)(text - value->at) : 0;
    value->kind = 's';
    return value->at = text;
}

/* Members of an object; NULL, 0, `otherwise` if they are not there. */
static char *ppo__json_text(ppo__json *json, ppo__value *object, const char *key) {
    ppo__value *value = ppo__json_get(json, object, key);
    return value ? ppo__json_decode(json, value) : NULL;
}

static int64_t ppo__json_count(ppo__json *json, ppo__value *object, const char *key) {
    return ppo__json_get(json, object, key) ? ppo__json_integer(json) : 0;
}

static int ppo__json_flag(ppo__json *json, ppo__value *object, const char *key, int otherwise) {
    return ppo__json_get(json, object, key) ? ppo__json_bool(json) : otherwise;
}

/* A path in a folder; NULL after a failure, which is in `memory`. */
static char *ppo__path_in(ppo__arena *memory, const char *folder, const char *name) {
    if (!*folder && !memory->failed) memory->failed = ppo__refuse("the path is empty");
    char *path = memory->failed ? NULL : PPO__ARRAY(memory, char, strlen(folder) + strlen(name) + 2);
    if (path) sprintf(path, "%s/%s", folder, name);
    return path;
}

/* A copy; NULL of NULL, or after a failure, which is in `memory`. */
static char *ppo__text_copy(ppo__arena *memory, const char *text) {
    char *copy = text ? PPO__ARRAY(memory, char, strlen(text) + 1) : NULL;
    return copy ? strcpy(copy, text) : NULL;
}

static int ppo__exists(const char *path) { return ppo__what_is(path) != PPO__NOTHING; }

/* What ppo_gguf.h adds, for files whose name ends in .gguf. */
typedef struct ppo__gguf_functions {
    ppo_status (*lm_load)(const char *path, ppo_lm **lm);
    ppo_status (*tokenizer_load)(const char *path, ppo_tokenizer **tokenizer);
    ppo_status (*load_ends)(const char *path, int *end, int room, int *count);
} ppo__gguf_functions;
PPO__COMPANION(ppo__gguf_functions, ppo__in_gguf);

static int ppo__is_gguf(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot && !strcmp(dot, ".gguf");
}

PPO_DEF ppo_status ppo_text_load(const char *path, char **text, size_t *bytes) {
    int64_t size;
    if (text) *text = NULL;
    if (bytes) *bytes = 0;
    if (!PPO__GIVEN("ppo_text_load", path, text)) return PPO_ERROR_ARGUMENT;
    if (!ppo__exists(path)) return PPO_OK;
    FILE *in = ppo__open_old(path, &size);
    if (!in) return ppo__failed;
    char *read = (char *)ppo__alloc((size_t)size + 1);
    ppo_status status = read ? ppo__read_bytes(path, in, read, (size_t)size) : PPO_ERROR_MEMORY;
    fclose(in);
    if (status) return ppo__free(read), status;
    if (bytes) *bytes = (size_t)size;
    return *text = read, PPO_OK;
}

typedef struct ppo__text {
    const char *text;
    size_t bytes;
} ppo__text;

static ppo_status ppo__write_text(FILE *out, const char *path, void *user) {
    const ppo__text *text = (const ppo__text *)user;
    fwrite(text->text, 1, text->bytes, out);
    return PPO_OK;
}

PPO_DEF ppo_status ppo_text_save(const char *path, const char *text, size_t bytes) {
    ppo__text whole = {text, bytes};
    if (!PPO__GIVEN("ppo_text_save", path, text)) return PPO_ERROR_ARGUMENT;
    return ppo__write_file(path, ppo__write_text, &whole);
}

PPO_DEF void ppo_text_free(char *text) { ppo__free(text); }

/* Is a name one of the words of a text? */
static int ppo__is_word(const char *name, const char *text) {
    const size_t n = strlen(name);
    for (const char *word = text + strspn(text, " ,"); *word; word += strspn(word, " ,")) {
        const size_t length = strcspn(word, " ,");
        if (length == n && !strncmp(word, name, n)) return 1;
        word += length;
    }
    return 0;
}

/* Starts to read a file of JSON in UTF-8, whose text is kept in memory. */
static ppo_status ppo__json_open(ppo__json *json, const char *path, ppo__arena *memory) {
    const ppo__json opened = {path, "", NULL, NULL, NULL, PPO_OK};
    int64_t size;
    FILE *in = ppo__open_old(path, &size);
    *json = opened;
    if (!in) return json->status = ppo__failed;
    if (size > PPO__MAX_HEADER)
        ppo__file_fail(path, "it has %lld bytes, more than %d", (long long)size, (int)PPO__MAX_HEADER);
    else json->start = PPO__ARRAY(memory, char, (size_t)size + 1);
    json->status = json->start ? ppo__read_bytes(path, in, json->start, (size_t)size) : ppo__failed;
    fclose(in);
    if (json->status) return json->status;
    json->end = json->start + size;
    *json->end = 0;
    json->at = json->start + (strncmp(json->start, "\357\273\277", 3) ? 0 : 3); /* UTF-8's mark */
    if (ppo__is_utf8(json->start)) return PPO_OK;
    return json->status =
               ppo__file_fail(path, "it is not UTF-8%s", ppo__other_kind(json->start, (size_t)size));
}

/* --------------------------------------------------------------------------------------------------------
   @@ 1 Tokenizers
   --------------------------------------------------------------------------------------------------------

   A tokenizer.json fills the list of steps of ppo_tokenizer (section 17 of ppo.h) from its parts. To read
   another part: a row or a branch of ppo__tokfile_normalizer() or ppo__tokfile_cutter().
   -------------------------------------------------------------------------------------------------------- */

/* What a tokenizer.json has beyond the units of section 17. */
typedef struct ppo__rewrite_rule { /* of a step */
    const char *from, *to;         /* replaces the one by the other; from NULL: nothing */
    const char *prefix; /* and then puts this before the text, unless it begins so; NULL: nothing */
    int always;         /* 1: even if it begins so */
    int once;           /* 1: only at the start of the whole text */
    const ppo_expression *matches; /* what `to` replaces, instead of `from` */
    int forms;                     /* PPO__TAKE_APART, ... */
    int ends;                      /* leaves out spaces: 1: on the left, 2: on the right, 3: both */
} ppo__rewrite_rule;

/* What becomes of the pieces of a text that match, as in Hugging Face's SplitDelimiterBehavior. */
enum { PPO__REMOVED, PPO__ISOLATED, PPO__WITH_PREVIOUS, PPO__WITH_NEXT, PPO__CONTIGUOUS, PPO__BEHAVIORS };
typedef struct ppo__cut_rule { /* of a step */
    const ppo_expression *expression;
    int behavior;
    int invert; /* 1: what does not match counts as what matches */
} ppo__cut_rule;

typedef struct ppo__tokfile_rules {
    ppo__rewrite_rule rewrite[PPO__MAX_STEPS];
    ppo__cut_rule cut[PPO__MAX_STEPS];
    ppo__forms forms;
    const char **key; /* [vocab] what merges call a token, often its text; NULL: they do not */
    int *key_bytes;
    ppo__map by_key;
    int unknown;       /* the token of a character that the vocabulary lacks, -1: nothing; */
    int fuse;          /* 1: one token for several of them in a row; */
    int fallback[256]; /* or the tokens of its bytes, -1: none */
    int whole;         /* 1: a word that is a token becomes that token, whatever the merges say */

    /* of Unigram: */
    int is_unigram;
    double *score;      /* [vocab] */
    double least;       /* the lowest one */
    ppo__added *pieces; /* [piece_count] sorted: those that texts may have */
    int piece_count;

    /* of tokenizer_config.json: */
    char *config;                       /* all of it, or NULL */
    const char *eos, *template_of_chat; /* its eos_token; how it writes chats; NULL: it does not say */
    int pad, bos;                       /* pad_token, bos_token, -1: none */
    char note[1024];
} ppo__tokfile_rules;

/* A kind of tokenizer besides PPO__CHARACTERS and PPO__BPE: its merges begin with characters, as
   SentencePiece's do. Its of_byte is of characters of ASCII. */
enum { PPO__PIECES = PPO__BPE + 1 };
enum { PPO__MAX_FILE_VOCAB = 1 << 20 };
enum { PPO__NFC = PPO__TAKE_APART | PPO__PUT_TOGETHER };

/* The token that merges call by this key, or -1; then *slot is where ppo__map_put() can put it. */
static int ppo__find_key(const ppo_tokenizer *tok, const char *key, size_t bytes, uint64_t *slot) {
    int t;
    for (*slot = ppo__fnv1a(PPO__FNV1A, key, bytes); (t = ppo__map_find(&tok->rules->by_key, *slot)) >= 0;
         ++*slot)
        if ((size_t)tok->rules->key_bytes[t] == bytes && memcmp(tok->rules->key[t], key, bytes) == 0) break;
    return t;
}

/* The split of a tokenizer.json. */
static int ppo__tokfile_split(ppo__encoder *encoder, const char *text, size_t bytes) {
    const ppo_tokenizer *tok = encoder->tok;
    const ppo__tokfile_rules *rules = tok->rules;
    int count = 0, length, fused = 0;
    uint64_t slot;
    const int whole = rules->whole ? ppo__find_key(tok, text, bytes, &slot) : -1;
    if (whole >= 0) {
        const ppo__symbol symbol = {whole, -1, 1};
        encoder->symbols[0] = symbol;
        return 1;
    }
    for (size_t at = 0; at < bytes; at += (size_t)length) {
        int token = tok->of_byte[(unsigned char)text[at]];
        const char *fallback = text + at;
        length = 1;
        if (tok->kind == PPO__PIECES && (unsigned char)text[at] >= 0x80) {
            if (ppo__utf8_get(text + at, bytes - at, &length) < 0) length = 1;
            token = ppo__find_key(tok, text + at, (size_t)length, &slot);
        }
        if (token < 0 && rules->fallback[0] < 0) {
            token = fused && rules->fuse ? -1 : rules->unknown;
            fused = 1;
            if (token < 0) continue;
        } else fused = 0;
        for (int k = 0, n = token < 0 ? length : 1; k < n; ++k, ++count) {
            ppo__symbol symbol = {token < 0 ? rules->fallback[(unsigned char)fallback[k]] : token, count - 1,
                                  count + 1};
            encoder->symbols[count] = symbol;
        }
    }
    return count;
}

/* Room for a text of `need` bytes that step k writes, or NULL. */
static char *ppo__rewrite_room(ppo__encoder *encoder, int k, double need) {
    if (need > INT_MAX)
        encoder->memory.failed = ppo__refuse("ppo_encode: a text that may become one of %.0f bytes", need);
    else if (need > (double)encoder->rewritten_room[k]) {
        encoder->rewritten_room[k] = 2 * (size_t)need;
        encoder->rewritten[k] = PPO__ARRAY(&encoder->memory, char, encoder->rewritten_room[k]);
    }
    return encoder->memory.failed ? NULL : encoder->rewritten[k];
}

/* A place in a word: the best way to it. */
typedef struct ppo__way {
    double score;
    int from, token; /* -1: nothing leads here; an unknown character */
} ppo__way;

static void ppo__find_way(ppo__way *ways, size_t from, size_t to, double score, int token) {
    const ppo__way way = {ways[from].score + score, (int)from, token};
    if (ways[to].from < 0 || way.score > ways[to].score) ways[to] = way;
}

/* The split of Unigram (Kudo 2018): the pieces whose scores have the highest sum, by Viterbi's algorithm. An unknown
   character counts 10 less than the lowest score; a run of them becomes one token, or those of its bytes. */
static int ppo__unigram_split(ppo__encoder *encoder, const char *text, size_t bytes) {
    const ppo_tokenizer *tok = encoder->tok;
    const ppo__tokfile_rules *rules = tok->rules;
    const int buffer = PPO__MAX_STEPS - 1; /* which no step has */
    ppo__way *ways =
        (ppo__way *)ppo__rewrite_room(encoder, buffer, ((double)bytes + 1) * (double)sizeof *ways);
    int length, count = 0;
    if (!ways) return 0;
    for (size_t at = 0; at <= bytes; ++at) ways[at].from = -1;
    ways[0].score = 0;
    for (size_t at = 0; at < bytes; at += (size_t)length) {
        int low = 0, high = rules->piece_count, single = 0;
        if (tok->kind == PPO__BPE || ppo__utf8_get(text + at, bytes - at, &length) < 0) length = 1;
        for (size_t n = 0; low < high; ++n) {
            for (; low < high && (size_t)rules->pieces[low].bytes == n; ++low) {
                const int token = rules->pieces[low].token;
                ppo__find_way(ways, at, at + n, rules->score[token], token);
                single |= n == (size_t)length;
            }
            if (at + n == bytes) break;
            const int c = (unsigned char)text[at + n];
            low = ppo__name_from(rules->pieces, low, high, n, c);
            high = ppo__name_from(rules->pieces, low, high, n, c + 1);
        }
        if (!single) ppo__find_way(ways, at, at + (size_t)length, rules->least - 10, -1);
    }
    ppo__symbol *symbols = encoder->symbols;
    int first = (int)bytes; /* of the symbols, which are written from the last one on */
    for (size_t at = bytes, from; at; at = from) {
        const int token = ways[at].token, known = token >= 0 && token != rules->unknown;
        from = (size_t)ways[at].from;
        int alone = !known && token >= 0; /* the name of the unknown token */
        for (; !known && from && (ways[from].token < 0 || ways[from].token == rules->unknown); alone = 0)
            from = (size_t)ways[from].from;
        if (known || alone || rules->fallback[0] < 0) symbols[--first].token = known ? token : rules->unknown;
        else
            for (size_t i = at; i > from; --i)
                symbols[--first].token = rules->fallback[(unsigned char)text[i - 1]];
    }
    for (int i = first; i < (int)bytes; ++i, ++count) {
        const ppo__symbol symbol = {symbols[i].token, count - 1, count + 1};
        symbols[count] = symbol;
    }
    return count;
}

/* Rewrites by the rule of step k; returns the text, and its length in *bytes. */
static const char *ppo__rewrite(ppo__encoder *encoder, int k, const char *text, size_t *bytes, int is_start) {
    const ppo__rewrite_rule *rule = &encoder->tok->rules->rewrite[k];
    int may_begin = rule->prefix && !(is_start ? encoder->flags & PPO_ENCODE_CONTINUES : rule->once);
    size_t from = rule->from ? strlen(rule->from) : 0, to = from ? strlen(rule->to) : 0, found = 0, n = 0;
    size_t prefix = may_begin ? strlen(rule->prefix) : 0;
    for (size_t at = 0; from && at + from <= *bytes;) {
        const int same = memcmp(text + at, rule->from, from) == 0;
        found += (size_t)same;
        at += same ? from : 1;
    }
    if (!found && !prefix) return text;
    char *out = ppo__rewrite_room(encoder, k, (double)*bytes + (double)prefix + (double)found * (double)to);
    if (!out) return text;
    out += prefix;
    for (size_t at = 0; at < *bytes;) {
        if (found && at + from <= *bytes && memcmp(text + at, rule->from, from) == 0) {
            memcpy(out + n, rule->to, to);
            n += to;
            at += from;
        } else out[n++] = text[at++];
    }
    *bytes = n;
    if (!prefix || (!rule->always && n >= prefix && memcmp(out, rule->prefix, prefix) == 0)) return out;
    *bytes += prefix;
    return (const char *)memcpy(out - prefix, rule->prefix, prefix);
}

/* The same: to a normal form, to small letters, without accents. */
static const char *ppo__rewrite_form(ppo__encoder *encoder, int k, const char *text, size_t *bytes,
                                     int is_start) {
    const ppo__forms *forms = &encoder->tok->rules->forms;
    const int bits = encoder->tok->rules->rewrite[k].forms;
    const unsigned char plain = bits & PPO__LOWER  ? 'A'
                                : bits == PPO__NFC ? 0xcc
                                                   : 0x80; /* below it nothing changes */
    size_t n = 0;
    while (n < *bytes && (unsigned char)text[n] < plain) ++n;
    if (n == *bytes) return text;
    if (bits & (PPO__LOWER | PPO__NO_ACCENTS)) {
        char *out = ppo__rewrite_room(encoder, k, 2 * (double)*bytes);
        if (out) *bytes = ppo__write_plain(forms, bits, text, *bytes, out);
        return out ? out : text;
    }
    const size_t count = ppo__count_parts(forms, bits, text, *bytes, NULL);
    char *out = ppo__rewrite_room(encoder, k, 4 * (double)count);
    uint64_t *codes = out ? PPO__ARRAY(&encoder->memory, uint64_t, count) : NULL;
    if (!codes) return text;
    ppo__count_parts(forms, bits, text, *bytes, codes);
    *bytes = ppo__write_form(forms, bits, codes, count, out);
    return out;
}

/* The same: without spaces at the ends. */
static const char *ppo__rewrite_ends(ppo__encoder *encoder, int k, const char *text, size_t *bytes,
                                     int is_start) {
    const ppo_tokenizer *tok = encoder->tok;
    const int ends = tok->rules->rewrite[k].ends;
    size_t at = 0, n, end = 0;
    while (ends & 1 && ppo__is_space(tok, text + at, *bytes - at, &n)) at += n;
    for (size_t next = at; next < *bytes; next += n)
        if (!ppo__is_space(tok, text + next, *bytes - next, &n)) end = next + n;
    *bytes = (ends & 2 ? end > at ? end : at : *bytes) - at;
    return text + at;
}

/* A text while it is cut or matches in it are replaced. */
typedef struct ppo__pieces {
    ppo__encoder *encoder;
    const char *text;
    int step, is_start;
    size_t begin, end; /* the piece that is not passed on yet, as it may be joined with the next one; */
    int pending;       /* 1: there is one; */
    int matches;       /* 1: its last part matches */
    char *out;         /* of a replacement; NULL: only counts */
    size_t written;
} ppo__pieces;

/* Looks for an expression in a text, for step k, whose rewritten text may not be in use. */
static void ppo__scan_text(ppo__pieces *pieces, const ppo_expression *expression, size_t bytes,
                           ppo_piece_fn piece) {
    ppo__scan scan = {expression, pieces->text, bytes, &pieces->encoder->memory, 0, NULL, NULL, 0, 0};
    if (expression->looks) {
        char *room = ppo__rewrite_room(pieces->encoder, pieces->step, 2 * (double)bytes + 2);
        if (!room) return;
        ppo__scan_ahead(&scan, (unsigned char *)room);
    }
    ppo__scan_pieces(&scan, piece, pieces);
}

static void ppo__replace_piece(void *user, size_t begin, size_t end, int matches) {
    ppo__pieces *pieces = (ppo__pieces *)user;
    const char *to = pieces->encoder->tok->rules->rewrite[pieces->step].to;
    const size_t n = matches ? strlen(to) : end - begin;
    if (pieces->out) memcpy(pieces->out + pieces->written, matches ? to : pieces->text + begin, n);
    pieces->written += n;
}

/* The same: replaces the matches of an expression. */
static const char *ppo__rewrite_matches(ppo__encoder *encoder, int k, const char *text, size_t *bytes,
                                        int is_start) {
    const ppo_expression *expression = encoder->tok->rules->rewrite[k].matches;
    ppo__pieces pieces = {encoder, text, k, is_start, 0, 0, 0, 0, NULL, 0};
    ppo__scan_text(&pieces, expression, *bytes, ppo__replace_piece);
    char *out = PPO__ARRAY(&encoder->memory, char, pieces.written + 1);
    if (!out) return text;
    pieces.out = out;
    pieces.written = 0;
    ppo__scan_text(&pieces, expression, *bytes, ppo__replace_piece);
    *bytes = pieces.written;
    return out;
}

#define PPO__METASPACE "\342\226\201" /* the space of SentencePiece */

/* Cuts of steps. */
static void ppo__cut_nothing(ppo__encoder *encoder, int k, const char *text, size_t bytes, int is_start) {
    ppo__encode_from(encoder, k + 1, text, bytes, is_start);
}

static void ppo__pass_piece(ppo__pieces *pieces) {
    if (pieces->pending)
        ppo__encode_from(pieces->encoder, pieces->step + 1, pieces->text + pieces->begin,
                         pieces->end - pieces->begin, pieces->is_start && !pieces->begin);
    pieces->pending = 0;
}

static void ppo__cut_piece(void *user, size_t begin, size_t end, int matches) {
    ppo__pieces *pieces = (ppo__pieces *)user;
    const ppo__cut_rule *rule = &pieces->encoder->tok->rules->cut[pieces->step];
    const int is = matches != rule->invert, was = pieces->matches;
    const int joins = rule->behavior == PPO__CONTIGUOUS      ? is == was
                      : rule->behavior == PPO__WITH_PREVIOUS ? is && !was
                      : rule->behavior == PPO__WITH_NEXT     ? !is && was
                                                             : 0;
    if (rule->behavior == PPO__REMOVED && is) return;
    if (!joins) ppo__pass_piece(pieces);
    if (!pieces->pending) pieces->begin = begin;
    pieces->pending = 1;
    pieces->end = end;
    pieces->matches = is;
}

/* by the step's expression */
static void ppo__cut_matches(ppo__encoder *encoder, int k, const char *text, size_t bytes, int is_start) {
    ppo__pieces pieces = {encoder, text, k, is_start, 0, 0, 0, 0, NULL, 0};
    ppo__scan_text(&pieces, encoder->tok->rules->cut[k].expression, bytes, ppo__cut_piece);
    ppo__pass_piece(&pieces);
}

/* before each run of SentencePiece's spaces */
static void ppo__cut_runs(ppo__encoder *encoder, int k, const char *text, size_t bytes, int is_start) {
    for (size_t at = 0, n; at < bytes; at += n) {
        for (n = 1;; ++n) {
            const char *next =
                at + n < bytes ? (const char *)memchr(text + at + n, *PPO__METASPACE, bytes - at - n) : NULL;
            n = next ? (size_t)(next - text) - at : bytes - at;
            if (!next || (bytes - at - n >= 3 && !memcmp(next, PPO__METASPACE, 3) &&
                          (n < 3 || memcmp(next - 3, PPO__METASPACE, 3) != 0)))
                break;
        }
        ppo__encode_from(encoder, k + 1, text + at, n, is_start && !at);
    }
}

/* Expressions that files do not spell: of ByteLevel; of Digits, by a later Unicode than others; of Punctuation, by an
   earlier one (golden/make_unicode.py); of Whitespace, whose \w is that of Rust. */
#define PPO__GPT2_WORDS "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define PPO__DIGITS     "[\\p{N}\\x{11DE0}-\\x{11DE9}\\x{16FF4}-\\x{16FF6}]"
#define PPO__RUST_WORD  "\\w\\u200C\\u200D"
#define PPO__PUNCTUATION                                                                                   \
    "[[\\p{P}$+<=>^`|~\\x{166D}\\x{111C9}]&&[^\\x{61D}\\x{9FD}\\x{A76}\\x{C77}\\x{C84}\\x{1B4E}-\\x{1B4F}" \
    "\\x{"                                                                                                 \
    "1B7D}-\\x{1B7F}\\x{2E43}-\\x{2E4F}\\x{2E52}-\\x{2E5D}\\x{10D6E}\\x{10EAD}\\x{10F55}-\\x{10F59}\\x{"   \
    "10F86}"                                                                                               \
    "-\\x{10F89}\\x{113D4}-\\x{113D5}\\x{113D7}-\\x{113D8}\\x{1144B}-\\x{1144F}\\x{1145A}-\\x{1145B}\\x{"  \
    "1145D"                                                                                                \
    "}\\x{11660}-\\x{1166C}\\x{116B9}\\x{1183B}\\x{11944}-\\x{11946}\\x{119E2}\\x{11A3F}-\\x{11A46}\\x{"   \
    "11A9A}"                                                                                               \
    "-\\x{11A9C}\\x{11A9E}-\\x{11AA2}\\x{11B00}-\\x{11B09}\\x{11BE1}\\x{11C41}-\\x{11C45}\\x{11C70}-\\x{"  \
    "11C71"                                                                                                \
    "}\\x{11EF7}-\\x{11EF8}\\x{11F43}-\\x{11F4F}\\x{11FFF}\\x{12FF1}-\\x{12FF2}\\x{16D6D}-\\x{16D6F}\\x{"  \
    "16E97"                                                                                                \
    "}-\\x{16E9A}\\x{16FE2}\\x{1E5FF}\\x{1E95E}-\\x{1E95F}]]"
/* Qwen 2's, which transformers give to models of its family. */
#define PPO__QWEN_WORDS                                                                                 \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* A tokenizer.json while it is read. */
typedef struct ppo__tokfile {
    ppo__json json; /* in the tokenizer's memory */
    ppo_tokenizer *tok;
    ppo__arena memory;
    short byte_of[512]; /* the byte that a character of GPT-2's stands for, or -1 */
    int keys;           /* names in the vocabulary */
    const char *space;  /* of which a decoder makes a space, NULL: of nothing */
    int bytes;          /* 1: it makes bytes of <0x0A> */
} ppo__tokfile;

/* Refuses the file unless this holds. what: the member that is not supported. */
static void ppo__tokfile_need(ppo__tokfile *file, int holds, const char *what, const char *value) {
    char text[200];
    snprintf(text, sizeof text, "not supported: %s%s", what, value ? " " : "");
    if (!holds) ppo__json_fail(&file->json, text, value);
}

/* Steps through the components in a member of `whole`: that one, or those of a "Sequence" under the name
   `list`. The type of the next one, or NULL; *part is NULL at first. */
static const char *ppo__tokfile_next(ppo__tokfile *file, ppo__value *whole, const char *name,
                                     const char *list, ppo__value **part) {
    ppo__json *json = &file->json;
    ppo__value *all = ppo__json_get(json, whole, name);
    const char *type = ppo__json_text(json, all, "type");
    ppo__tokfile_need(file, type || !all, "a component without a type", NULL);
    if (type && !json->status && strcmp(type, "Sequence") == 0) {
        ppo__value *parts = ppo__json_get(json, all, list);
        ppo__tokfile_need(file, parts != NULL, "an empty Sequence", NULL);
        ppo__tokfile_need(file, !parts || parts->count <= 8, "a Sequence of more than 8", NULL);
        if (!ppo__json_each(json, parts, '[', part)) return NULL;
        type = ppo__json_text(json, *part, "type");
        ppo__tokfile_need(file, type != NULL, "a component without a type", NULL);
    } else if (*part) return NULL;
    else *part = all;
    return json->status ? NULL : type;
}

/* Adds a step that rewrites the text by a rule, and then cuts it. */
static ppo__rewrite_rule *ppo__tokfile_step(ppo__tokfile *file, ppo__cut_fn cut) {
    ppo_tokenizer *tok = file->tok;
    const int room = tok->step_count < PPO__MAX_STEPS - 2; /* for those that are no component */
    ppo__tokfile_need(file, room, "more than 22 steps", NULL);
    if (!room) --tok->step_count;
    ppo__add_step(tok, cut)->rewrite = ppo__rewrite;
    return &tok->rules->rewrite[tok->step_count - 1];
}

/* An expression, of texts or, after ByteLevel, of bytes; NULL: it is refused. */
static const ppo_expression *ppo__tokfile_expression(ppo__tokfile *file, const char *text) {
    char problem[PPO__PROBLEM] = "", what[PPO__PROBLEM + 32];
    ppo_tokenizer *tok = file->tok;
    const ppo_expression *made =
        file->json.status ? NULL : ppo__expression_make(&tok->memory, text, tok->kind == PPO__BPE, problem);
    snprintf(what, sizeof what, "%s in the expression", problem);
    ppo__tokfile_need(file, !*problem, what, text);
    return made;
}

/* "pattern": {"String": text} or {"Regex": text}, as an expression. *string: the text, if it is one; string NULL: an
   expression of it, too. */
static const ppo_expression *ppo__tokfile_pattern(ppo__tokfile *file, ppo__value *part, const char **string) {
    ppo__json *json = &file->json;
    ppo__value *pattern = ppo__json_get(json, part, "pattern");
    const char *plain = ppo__json_text(json, pattern, "String"),
               *regex = ppo__json_text(json, pattern, "Regex");
    ppo__tokfile_need(file, (plain && *plain) || regex, "a pattern without \"String\" or \"Regex\"", NULL);
    if (string) *string = plain;
    if (json->status || (string && plain)) return NULL;
    if (regex) return ppo__tokfile_expression(file, regex);
    char *quoted = PPO__ARRAY(&file->memory, char, 2 * strlen(plain) + 1), *at = quoted;
    for (const char *c = plain; quoted && *c; *at++ = *c++)
        if ((unsigned char)*c < 0x80 && !isalnum((unsigned char)*c)) *at++ = '\\';
    if (!quoted) return NULL;
    *at = 0;
    return ppo__tokfile_expression(file, quoted);
}

static void ppo__tokfile_normalizer(ppo__tokfile *file, ppo__value *whole) {
    static const struct {
        const char *type;
        int forms;
    } forms[] = {{"NFC", PPO__NFC},
                 {"NFD", PPO__TAKE_APART},
                 {"NFKC", PPO__NFC | (int)PPO__COMPATIBLE},
                 {"NFKD", PPO__TAKE_APART | PPO__COMPATIBLE},
                 {"Lowercase", PPO__LOWER},
                 {"StripAccents", PPO__NO_ACCENTS}};
    ppo_tokenizer *tok = file->tok;
    ppo__json *json = &file->json;
    ppo__value *part = NULL;
    for (const char *type; (type = ppo__tokfile_next(file, whole, "normalizer", "normalizers", &part));) {
        ppo__rewrite_rule *rule = ppo__tokfile_step(file, ppo__cut_nothing);
        ppo__step *step = &tok->steps[tok->step_count - 1];
        for (size_t k = 0; k < sizeof forms / sizeof *forms; ++k)
            if (!strcmp(type, forms[k].type)) rule->forms = forms[k].forms;
        if (rule->forms) {
            step->rewrite = ppo__rewrite_form;
            ppo__make_forms(&tok->rules->forms, &tok->memory, rule->forms);
        } else if (strcmp(type, "Prepend") == 0) {
            rule->prefix = ppo__json_text(json, part, "prepend");
            rule->always = 1;
        } else if (strcmp(type, "Replace") == 0) {
            rule->matches = ppo__tokfile_pattern(file, part, &rule->from);
            rule->to = ppo__json_text(json, part, "content");
            ppo__tokfile_need(file, rule->to != NULL, "Replace without content", NULL);
            ppo__tokfile_need(file, !rule->matches || !rule->matches->may_be_empty,
                              "Replace of what may be empty", NULL);
            if (rule->matches) step->rewrite = ppo__rewrite_matches;
        } else if (strcmp(type, "Strip") == 0) {
            rule->ends = ppo__json_flag(json, part, "strip_left", 1) |
                         ppo__json_flag(json, part, "strip_right", 1) << 1;
            step->rewrite = ppo__rewrite_ends;
        } else ppo__tokfile_need(file, 0, "normalizer", type);
    }
}

/* Adds a step that cuts a text; behavior NULL: Isolated. */
static void ppo__tokfile_cut(ppo__tokfile *file, const ppo_expression *expression, const char *behavior,
                             int invert) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                        "Contiguous"};
    ppo_tokenizer *tok = file->tok;
    ppo__tokfile_step(file, ppo__cut_matches);
    ppo__cut_rule *rule = &tok->rules->cut[tok->step_count - 1];
    rule->expression = expression;
    rule->invert = invert;
    rule->behavior = behavior ? 0 : PPO__ISOLATED;
    while (behavior && rule->behavior < PPO__BEHAVIORS && strcmp(behavior, names[rule->behavior]))
        ++rule->behavior;
    ppo__tokfile_need(file, rule->behavior < PPO__BEHAVIORS, "behavior", behavior);
}

/* One that stands for an expression. */
static void ppo__tokfile_cut_by(ppo__tokfile *file, const char *expression, const char *behavior,
                                int invert) {
    ppo__tokfile_cut(file, ppo__tokfile_expression(file, expression), behavior, invert);
}

static void ppo__tokfile_metaspace(ppo__tokfile *file, ppo__value *part) {
    static const char *const schemes[] = {"never", "first", "always"};
    ppo__json *json = &file->json;
    const char *space = ppo__json_text(json, part, "replacement"),
               *scheme = ppo__json_text(json, part, "prepend_scheme");
    int s = scheme ? 0 : 2, length = 0;
    while (scheme && s < 3 && strcmp(scheme, schemes[s])) ++s;
    const int one = space && *space && ppo__utf8_get(space, strlen(space), &length) >= 0 && !space[length];
    ppo__tokfile_need(file, one, "replacement", space ? space : "");
    ppo__tokfile_need(file, s < 3, "prepend_scheme", scheme);
    /* the word for it before there were schemes */
    ppo__tokfile_need(file, ppo__json_flag(json, part, "add_prefix_space", s > 0) || !s,
                      "add_prefix_space false with scheme", s < 3 ? schemes[s] : "");
    if (json->status) return;
    ppo__rewrite_rule *rule = ppo__tokfile_step(file, ppo__cut_nothing);
    rule->from = " ";
    rule->to = space;
    rule->once = s == 1;
    rule->prefix = s ? space : NULL;
    if (!ppo__json_flag(json, part, "split", 1)) return;
    char quoted[6] = "\\";
    strcat(quoted, space);
    ppo__tokfile_cut_by(file, isalnum((unsigned char)*space) || length > 1 ? space : quoted, "MergedWithNext",
                        0);
}

static void ppo__tokfile_cutter(ppo__tokfile *file, ppo__value *whole) {
    ppo_tokenizer *tok = file->tok;
    ppo__json *json = &file->json;
    ppo__value *part = NULL;
    tok->kind = PPO__PIECES;
    for (const char *type;
         (type = ppo__tokfile_next(file, whole, "pre_tokenizer", "pretokenizers", &part));) {
        const int is_bytes = !strcmp(type, "ByteLevel"), is_space = !strcmp(type, "Metaspace");
        ppo__tokfile_need(file, tok->kind == PPO__PIECES || !(is_bytes || is_space),
                          "after ByteLevel:", type);
        const char *behavior = ppo__json_text(json, part, "behavior");
        if (is_bytes) {
            const ppo_expression *words = ppo__json_flag(json, part, "use_regex", 1)
                                              ? ppo__tokfile_expression(file, PPO__GPT2_WORDS)
                                              : NULL;
            if (words) ppo__tokfile_cut(file, words, NULL, 0);
            else ppo__tokfile_step(file, ppo__cut_nothing);
            tok->rules->rewrite[tok->step_count - 1].prefix =
                ppo__json_flag(json, part, "add_prefix_space", 1) ? " " : NULL;
            tok->kind = PPO__BPE;
        } else if (is_space) ppo__tokfile_metaspace(file, part);
        else if (strcmp(type, "Split") == 0) {
            ppo__tokfile_need(file, behavior != NULL, "Split without a behavior", NULL);
            ppo__tokfile_cut(file, ppo__tokfile_pattern(file, part, NULL), behavior,
                             ppo__json_flag(json, part, "invert", 0));
        } else if (strcmp(type, "Digits") == 0)
            ppo__tokfile_cut_by(
                file, PPO__DIGITS,
                ppo__json_flag(json, part, "individual_digits", 0) ? "Isolated" : "Contiguous", 0);
        else if (strcmp(type, "Punctuation") == 0) ppo__tokfile_cut_by(file, PPO__PUNCTUATION, behavior, 0);
        else if (strcmp(type, "Whitespace") == 0)
            ppo__tokfile_cut_by(file, "[" PPO__RUST_WORD "]+|[^\\s" PPO__RUST_WORD "]+", "Removed", 1);
        else if (strcmp(type, "WhitespaceSplit") == 0) ppo__tokfile_cut_by(file, "\\s", "Removed", 0);
        else ppo__tokfile_need(file, 0, "pre_tokenizer", type);
    }
}

static void ppo__tokfile_decoder(ppo__tokfile *file, ppo__value *whole) {
    enum {
        PPO__BYTE_LEVEL,
        PPO__REPLACE,
        PPO__METASPACES,
        PPO__BYTE_FALLBACK,
        PPO__FUSE,
        PPO__STRIPPED,
        PPO__DECODERS
    }; /* in the order in which they must come */
    static const char *const names[] = {"ByteLevel", "Replace", "Metaspace", "ByteFallback", "Fuse", "Strip"};
    ppo__json *json = &file->json;
    ppo__value *part = NULL;
    int last = -1, of_bytes = file->tok->kind == PPO__BPE;
    for (const char *type; (type = ppo__tokfile_next(file, whole, "decoder", "decoders", &part));) {
        int at = 0;
        while (at < PPO__DECODERS && strcmp(type, names[at]) != 0) ++at;
        const int known = at < PPO__DECODERS && at > last && (at != PPO__STRIPPED || last == PPO__FUSE) &&
                          !(at == PPO__METASPACES && file->space) &&
                          !(at == PPO__STRIPPED && file->tok->strip);
        ppo__tokfile_need(file, known && of_bytes == (at == PPO__BYTE_LEVEL), "decoder", type);
        last = at;
        if (at == PPO__REPLACE) {
            const char *to = ppo__json_text(json, part, "content");
            const ppo_expression *regex = ppo__tokfile_pattern(file, part, &file->space);
            ppo__tokfile_need(file, !regex && to && !strcmp(to, " "), "Replace by", to ? to : "");
        }
        if (at == PPO__METASPACES) {
            const char *scheme = ppo__json_text(json, part, "prepend_scheme");
            file->space = ppo__json_text(json, part, "replacement");
            ppo__tokfile_need(file, file->space && *file->space, "Metaspace without a replacement", NULL);
            file->tok->strip = scheme && !strcmp(scheme, "never") ? 0 : -1;
        }
        if (at == PPO__BYTE_FALLBACK) file->bytes = 1;
        if (at == PPO__STRIPPED) {
            const char *what = ppo__json_text(json, part, "content");
            int64_t start = ppo__json_count(json, part, "start"), stop = ppo__json_count(json, part, "stop");
            ppo__tokfile_need(file, what && !strcmp(what, " ") && start <= 64, "Strip of", what);
            ppo__tokfile_need(file, !stop, "Strip with a stop", NULL);
            file->tok->strip = (int)start;
        }
    }
    ppo__tokfile_need(file, last >= 0, "no decoder", NULL);
}

/* The tokens that are put before and after a text. */
static void ppo__tokfile_bounds(ppo__tokfile *file, ppo__value *whole) {
    ppo_tokenizer *tok = file->tok;
    ppo__json *json = &file->json;
    ppo__value *part = NULL;
    int side = 0;
    for (const char *type; (type = ppo__tokfile_next(file, whole, "post_processor", "processors", &part));) {
        if (strcmp(type, "ByteLevel") == 0) continue;
        if (!strcmp(type, "RobertaProcessing") || !strcmp(type, "BertProcessing")) { /* "cls": ["<s>", 0] */
            static const char *const ends[] = {"cls", "sep"};
            for (int end = 0; end < 2 && !side; ++end) {
                ppo__value *pair = ppo__json_get(json, part, ends[end]);
                const int full =
                    pair && pair->kind == '[' && pair->count == 2 && tok->bounds[end] < PPO__MAX_BOUNDS;
                const char *name = full ? ppo__json_decode(json, pair + 1) : NULL;
                if (full) json->at = (pair + 2)->at;
                const int64_t id = full ? ppo__json_integer(json) : -1;
                ppo__tokfile_need(file, full && id == ppo_tokenizer_special(tok, name), type, ends[end]);
                if (!json->status) tok->bound[end][tok->bounds[end]++] = (int)id;
            }
            side = 1;
            continue;
        }
        ppo__value *single = ppo__json_get(json, part, "single"), *item = NULL;
        ppo__value *tokens = ppo__json_get(json, part, "special_tokens");
        ppo__tokfile_need(file, !strcmp(type, "TemplateProcessing") && single && !side, "post_processor",
                          type);
        while (ppo__json_each(json, single, '[', &item)) {
            ppo__value *token = ppo__json_get(json, item, "SpecialToken"), *id = NULL;
            ppo__value *named = token ? token : ppo__json_get(json, item, "Sequence");
            const char *name = ppo__json_text(json, named, "id");
            ppo__value *ids = name ? ppo__json_get(json, ppo__json_get(json, tokens, name), "ids") : NULL;
            const int64_t first = ppo__json_each(json, ids, '[', &id) ? ppo__json_integer(json) : -1;
            const int end = side > 0, room = tok->bounds[end] < PPO__MAX_BOUNDS;
            int known = room && ids && ids->count == 1 && first == ppo_tokenizer_special(tok, name);
            if (!token) known = name && !strcmp(name, "A") && !side++;
            ppo__tokfile_need(file, known, "TemplateProcessing with", name ? name : "no id");
            if (token && !json->status) tok->bound[end][tok->bounds[end]++] = (int)first;
        }
        ppo__tokfile_need(file, side == 1, "TemplateProcessing without a text", NULL);
    }
}

/* Replaces GPT-2's characters by their bytes, and returns their number; -1: the text has others, and stays.
   */
static int ppo__tokfile_bytes(const ppo__tokfile *file, char *text) {
    int n = 0, length;
    for (int pass = 0; pass < 2; ++pass)
        for (const char *at = text; *at; at += length) {
            int32_t code = ppo__utf8_get(at, 4, &length);
            if (code < 0 || code >= 512 || file->byte_of[code] < 0) return -1;
            if (pass) text[n++] = (char)file->byte_of[code];
        }
    return n;
}

/* Replaces a name by its bytes if the tokenizer is of bytes. Its length, or -1: it has other characters. */
static int ppo__tokfile_name(const ppo__tokfile *file, char *name) {
    return file->tok->kind == PPO__BPE ? ppo__tokfile_bytes(file, name) : (int)strlen(name);
}

/* The token of this name, whose text is changed and whose length becomes *bytes; -1: none. */
static int ppo__tokfile_find(const ppo__tokfile *file, char *name, int *bytes) {
    uint64_t slot;
    *bytes = ppo__tokfile_name(file, name);
    return *bytes < 0 ? -1 : ppo__find_key(file->tok, name, (size_t)*bytes, &slot);
}

static void ppo__tokfile_added(ppo__tokfile *file, ppo__value *list) {
    ppo_tokenizer *tok = file->tok;
    ppo__json *json = &file->json;
    ppo__value *item = NULL;
    if (!list) return;
    ppo__tokfile_need(file, list->count <= PPO__MAX_FILE_VOCAB, "more than 1048576 added tokens", NULL);
    if (!json->status) tok->added = PPO__ZEROS(&tok->memory, ppo__added, list->count);
    while (tok->added && ppo__json_each(json, list, '[', &item)) {
        ppo__added *added = &tok->added[tok->added_count];
        int64_t id = ppo__json_count(json, item, "id");
        added->name = added->pattern = ppo__json_text(json, item, "content");
        ppo__tokfile_need(file, added->name && ppo__json_get(json, item, "id"),
                          "an added token without id or content", NULL);
        ppo__tokfile_need(file, id < PPO__MAX_FILE_VOCAB && (!added->name || *added->name), "the added token",
                          added->name);
        if (json->status) return;
        added->name_bytes = added->bytes = (int)strlen(added->name);
        added->special = ppo__json_flag(json, item, "special", 0);
        added->left = ppo__json_flag(json, item, "lstrip", 0);
        added->right = ppo__json_flag(json, item, "rstrip", 0);
        added->normalized = ppo__json_flag(json, item, "normalized", !added->special);
        added->single = ppo__json_flag(json, item, "single_word", 0);
        added->token = (int)id;
        added->place = tok->added_count;
        if (tok->vocab <= id) tok->vocab = (int)id + 1;
        ++tok->added_count;
    }
}

/* A score, in the last bit as Hugging Face's reader rounds it: digits as a whole number, times a power of ten. Of texts
   like "!!!" all ways have the same sum but for rounding. */
static double ppo__json_score(ppo__json *json) {
    const char *at = json->at + (*json->at == '-');
    const double number = ppo__json_number(json);
    uint64_t digits = 0;
    double power = 1;
    int point = 0;
    for (; (*at >= '0' && *at <= '9') || (*at == '.' && !point); ++at) {
        if (*at == '.') point = 1;
        else if (digits > (UINT64_MAX - 9) / 10) return number; /* of 20 digits */
        else {
            digits = digits * 10 + (uint64_t)(*at - '0');
            if (point) power *= 10;
        }
    }
    if (json->status || *at == 'e' || *at == 'E' || power > 1e22) return number;
    const double rounded = (double)digits / power;
    return number < 0 ? -rounded : rounded;
}

/* {"a": 0, ...}: the names by which merges call tokens; of Unigram [["a", -1.5], ...]: pieces and their scores. */
static void ppo__tokfile_vocab(ppo__tokfile *file, ppo__value *vocab) {
    ppo_tokenizer *tok = file->tok;
    ppo__json *json = &file->json;
    ppo__value *item = NULL;
    uint64_t slot;
    const int is_list = tok->rules->is_unigram;
    const char kind = is_list ? '[' : '{';
    for (int next = 0; ppo__json_each(json, vocab, kind, &item);) {
        int64_t id = is_list ? next++ : ppo__json_integer(json);
        if (id >= PPO__MAX_FILE_VOCAB) ppo__json_fail(json, "a token above 1048575", NULL);
        else if (tok->vocab <= id) tok->vocab = (int)id + 1;
    }
    tok->rules->key = PPO__ZEROS(&tok->memory, const char *, tok->vocab);
    tok->rules->key_bytes = PPO__ZEROS(&tok->memory, int, tok->vocab);
    tok->rules->score = is_list ? PPO__ZEROS(&tok->memory, double, tok->vocab) : NULL;
    for (item = NULL; !tok->memory.failed && ppo__json_each(json, vocab, kind, &item);) {
        const int pair = !is_list || (item->kind == '[' && item->count == 2);
        ppo__tokfile_need(file, pair, "a piece that is not [text, score]", NULL);
        if (json->status) return;
        char *name = is_list ? ppo__json_decode(json, item + 1) : ppo__json_key_of(item);
        if (is_list) json->at = (item + 2)->at;
        const double score = is_list ? ppo__json_score(json) : 0;
        int id = is_list ? file->keys : (int)ppo__json_whole(json), bytes = ppo__tokfile_name(file, name);
        if (tok->rules->key[id]) ppo__json_fail(json, "a token that is there twice: ", name);
        ++file->keys;
        tok->rules->key[id] = name;
        tok->rules->key_bytes[id] = bytes < 0 ? (int)strlen(name) : bytes;
        if (is_list) tok->rules->score[id] = score;
        if (bytes < 0) continue; /* no text of bytes is called so, so nothing needs to find it */
        if (ppo__find_key(tok, name, (size_t)bytes, &slot) >= 0)
            ppo__json_fail(json, "a name that is there twice: ", name);
        ppo__map_put(&tok->rules->by_key, &tok->memory, slot, id);
    }
}

/* ["a b", ...] or [["a", "b"], ...]. */
static void ppo__tokfile_merges(ppo__tokfile *file, ppo__value *merges) {
    ppo_tokenizer *tok = file->tok;
    ppo__json *json = &file->json;
    ppo__value *item = NULL;
    tok->units = PPO__ARRAY(&tok->memory, int32_t, 2 * (size_t)merges->count);
    tok->joined = PPO__ARRAY(&tok->memory, int32_t, merges->count);
    while (!tok->memory.failed && ppo__json_each(json, merges, '[', &item)) {
        int is_list = item->kind == '[' && item->size == 3, n = tok->unit_count++, token = -1, bytes[2];
        char *left = ppo__json_decode(json, item + is_list), *space = strchr(left, ' ');
        char *right = is_list ? ppo__json_decode(json, item + 2) : space ? space + 1 : NULL;
        int32_t *unit = &tok->units[2 * n];
        uint64_t slot;
        if (!right || (!is_list && strchr(right, ' '))) ppo__json_fail(json, "not two names: ", left);
        if (json->status) return;
        if (!is_list) *space = 0;
        unit[0] = ppo__tokfile_find(file, left, &bytes[0]);
        unit[1] = ppo__tokfile_find(file, right, &bytes[1]);
        if (unit[0] >= 0 && unit[1] >= 0) {
            memmove(left + bytes[0], right, bytes[1]); /* what was between is not needed */
            token = ppo__find_key(tok, left, (size_t)bytes[0] + (size_t)bytes[1], &slot);
            left[bytes[0]] = 0;
        }
        if (token < 0) ppo__json_fail(json, "a merge from or to no token of the vocabulary: ", left);
        tok->joined[n] = token;
        ppo__map_put(&tok->by_unit, &tok->memory, ppo__pair_key(unit[0], unit[1]), n);
    }
}

/* The texts of all tokens, from their names. */
static void ppo__tokfile_spell(ppo__tokfile *file) {
    ppo_tokenizer *tok = file->tok;
    double total = 0;
    const ppo__added **added = PPO__ZEROS(&file->memory, const ppo__added *, tok->vocab);
    tok->start = PPO__ZEROS(&tok->memory, int, (size_t)tok->vocab + 1);
    tok->special = PPO__ZEROS(&tok->memory, char, tok->vocab);
    if (file->memory.failed || tok->memory.failed) return;
    for (int k = 0; k < tok->added_count; ++k) {
        const ppo__added *one = &tok->added[k];
        int t = one->token, bytes;
        char *copy = PPO__ARRAY(&file->memory, char, (size_t)one->name_bytes + 1);
        if (!copy) return;
        strcpy(copy, one->name);
        int found = ppo__tokfile_find(file, copy, &bytes);
        if (bytes < 0) bytes = one->name_bytes;
        int same = tok->rules->key[t] && tok->rules->key_bytes[t] == bytes &&
                   memcmp(tok->rules->key[t], copy, bytes) == 0;
        int again = k && strcmp(one->name, tok->added[k - 1].name) == 0;
        ppo__tokfile_need(file, !added[t] && !again && (same || (found < 0 && !tok->rules->key[t])),
                          "two names of a token, or tokens of a name:", one->name);
        added[t] = one;
        tok->special[t] = (char)one->special;
    }
    for (int t = 0, next = file->keys, last = -1; t < tok->vocab; ++t) {
        total += tok->rules->key_bytes[t] + (added[t] ? added[t]->bytes : 0);
        if (!added[t] || tok->rules->key[t])
            continue; /* others are numbered after the vocabulary, in their order */
        ppo__tokfile_need(file, t == next++ && added[t]->place > last,
                          "an added token that tokenizers would number differently:", added[t]->name);
        last = added[t]->place;
    }
    ppo__tokfile_need(file, total < INT_MAX, "names of more than 2 GB", NULL);
    if (file->json.status) return;
    char *out = tok->bytes = PPO__ARRAY(&tok->memory, char, (size_t)total + 1);
    const int more = file->space ? (int)strlen(file->space) - 1 : 0; /* bytes than a space has */
    for (int t = 0; t < tok->vocab && out; ++t) {
        int is_key = tok->rules->key[t] && !(added[t] && added[t]->normalized);
        const char *text = is_key ? tok->rules->key[t] : added[t] ? added[t]->pattern : "";
        int n = is_key ? tok->rules->key_bytes[t] : added[t] ? added[t]->bytes : 0, bytes = -1;
        memcpy(out, text, n);
        out[n] = 0;
        if (tok->kind == PPO__BPE && !is_key) bytes = ppo__tokfile_bytes(file, out);
        if (bytes >= 0) n = bytes;
        if (file->bytes && n == 6 && !strncmp(out, "<0x", 3) && out[5] == '>' &&
            strspn(out + 3, "0123456789abcdefABCDEF") == 2) {
            *out = (char)strtol(out + 3, NULL, 16);
            n = 1;
        }
        for (char *space = out; file->space && (space = strstr(space, file->space)) != NULL; n -= more) {
            *space++ = ' ';
            memmove(space, space + more, strlen(space + more) + 1);
        }
        out += n;
        tok->start[t + 1] = tok->start[t] + n;
    }
}

/* May a text be cut before its runs of spaces? Yes if no token has a space after something else. */
static int ppo__tokfile_may_cut(const ppo_tokenizer *tok) {
    uint64_t slot;
    for (int t = 0; t < tok->vocab; ++t)
        for (const char *key = tok->rules->key[t], *at = key; at && (at = strstr(at, PPO__METASPACE)) != NULL;
             at += 3)
            if (at > key && (at < key + 3 || memcmp(at - 3, PPO__METASPACE, 3) != 0)) return 0;
    return ppo__find_key(tok, PPO__METASPACE, 3, &slot) >= 0;
}

/* What the model BPE needs beside its vocabulary. */
static void ppo__tokfile_bpe(ppo__tokfile *file, ppo__value *model) {
    ppo_tokenizer *tok = file->tok;
    ppo__json *json = &file->json;
    int length = 0;
    char *unknown = ppo__json_text(json, model, "unk_token");
    tok->rules->unknown = unknown ? ppo__tokfile_find(file, unknown, &length) : -1;
    ppo__tokfile_need(file, !unknown || tok->rules->unknown >= 0, "unk_token", unknown);
    tok->rules->fuse = ppo__json_flag(json, model, "fuse_unk", 0);
    tok->rules->whole = ppo__json_flag(json, model, "ignore_merges", 0);
}

/* The same of Unigram. */
static void ppo__tokfile_unigram(ppo__tokfile *file, ppo__value *model) {
    ppo_tokenizer *tok = file->tok;
    ppo__tokfile_rules *rules = tok->rules;
    const int64_t unknown =
        ppo__json_get(&file->json, model, "unk_id") ? ppo__json_integer(&file->json) : file->keys;
    ppo__tokfile_need(file, unknown < file->keys, "Unigram without unk_id", NULL);
    rules->unknown = (int)unknown;
    rules->pieces = PPO__ZEROS(&tok->memory, ppo__added, file->keys);
    tok->split = ppo__unigram_split;
    for (int t = 0; t < file->keys && rules->pieces; ++t) {
        ppo__added *piece = &rules->pieces[rules->piece_count];
        if (!t || rules->score[t] < rules->least) rules->least = rules->score[t];
        piece->pattern = rules->key[t];
        piece->bytes = rules->key_bytes[t];
        piece->token = t;
        rules->piece_count += piece->bytes > 0;
    }
    if (rules->pieces)
        qsort(rules->pieces, (size_t)rules->piece_count, sizeof *rules->pieces, ppo__by_pattern);
}

static void ppo__tokfile_model(ppo__tokfile *file, ppo__value *model) {
    static const char *const unsupported[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    ppo_tokenizer *tok = file->tok;
    ppo__json *json = &file->json;
    const char *type = ppo__json_text(json, model, "type");
    uint64_t slot;
    char name[8];
    const int is_unigram = tok->rules->is_unigram = type && !strcmp(type, "Unigram");
    ppo__tokfile_need(file, !type || strcmp(type, "BPE") == 0 || is_unigram, "model", type);
    ppo__value *vocab = ppo__json_get(json, model, "vocab"), *merges = ppo__json_get(json, model, "merges");
    ppo__tokfile_need(file, vocab && (merges || is_unigram), "a model without vocab or merges", NULL);
    for (int k = 0; k < 2; ++k) {
        const char *text = ppo__json_text(json, model, unsupported[k]);
        ppo__tokfile_need(file, !text || !*text, unsupported[k], text);
    }
    ppo__tokfile_need(file, !ppo__json_get(json, model, "dropout") || ppo__json_number(json) == 0, "dropout",
                      NULL);
    if (!json->status) ppo__tokfile_vocab(file, vocab);
    if (!json->status && !tok->memory.failed && !is_unigram) ppo__tokfile_merges(file, merges);
    if (!json->status && !tok->memory.failed) ppo__tokfile_spell(file);
    if (json->status || tok->memory.failed || file->memory.failed) return;
    if (is_unigram) ppo__tokfile_unigram(file, model);
    else ppo__tokfile_bpe(file, model);
    const int fallback = ppo__json_flag(json, model, "byte_fallback", 0);
    for (int byte = 0; byte < 256; ++byte) {
        name[0] = (char)byte;
        tok->of_byte[byte] = tok->kind == PPO__BPE || byte < 128 ? ppo__find_key(tok, name, 1, &slot) : -1;
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
        tok->rules->fallback[byte] = fallback ? ppo__find_key(tok, name, 6, &slot) : -1;
        ppo__tokfile_need(file, !fallback || tok->rules->fallback[byte] >= 0, "byte_fallback without", name);
    }
}

/* The added tokens from `raw` on are looked for in rewritten text, so their names are rewritten, too. */
static void ppo__tokfile_rewrite(ppo__tokfile *file, int raw) {
    ppo_tokenizer *tok = file->tok;
    ppo__encoder encoder = ppo__encoder_start(tok);
    for (int k = raw; k < tok->added_count && !tok->memory.failed && !file->json.status; ++k) {
        ppo__added *added = &tok->added[k];
        size_t bytes = (size_t)added->bytes;
        const char *pattern = added->name;
        for (int i = 1; i < tok->step_count; ++i)
            pattern = tok->steps[i].rewrite(&encoder, i, pattern, &bytes, 1);
        char *kept = PPO__ARRAY(&tok->memory, char, bytes);
        if (kept) memcpy(kept, pattern, bytes);
        added->pattern = kept;
        added->bytes = (int)bytes;
        ppo__tokfile_need(file, bytes > 0, "a name that the normalizer empties:", added->name);
    }
    ppo_status status = ppo__encoder_end(&encoder);
    if (status && !tok->memory.failed) tok->memory.failed = status;
    if (!tok->memory.failed && !file->json.status) ppo__add_find(tok, raw, tok->added_count);
}

static ppo__tokfile ppo__tokfile_start(ppo_tokenizer *tok) {
    ppo__tokfile file;
    int order[256];
    memset(&file, 0, sizeof file);
    file.tok = tok;
    memset(file.byte_of, -1, sizeof file.byte_of);
    ppo__order_bytes(order);
    for (int b = 0; b < 256; ++b) file.byte_of[order[b] < 188 ? b : order[b] + 68] = (short)b;
    return file;
}

/* Makes tok of a text in its memory, and keeps a copy of the text. */
static ppo_status ppo__tokfile_read(ppo_tokenizer *tok, const ppo__json *json) {
    ppo__tokfile file = ppo__tokfile_start(tok);
    int raw = 0;
    tok->json_bytes = (size_t)(json->end - json->start);
    tok->json = ppo__text_copy(&tok->memory, json->start);
    tok->rules = PPO__ZEROS(&tok->memory, ppo__tokfile_rules, 1);
    tok->split = ppo__tokfile_split;
    if (!tok->json || !tok->rules) return PPO_ERROR_MEMORY;
    tok->rules->pad = tok->rules->bos = -1;
    file.json = *json;
    file.json.at = json->start + (strncmp(json->start, "\357\273\277", 3) ? 0 : 3);
    ppo__value *whole = ppo__json_tree(&file.json, &file.memory);
    ppo__value *model = ppo__json_get(&file.json, whole, "model");
    ppo__tokfile_need(&file, model != NULL, "a tokenizer without a model", NULL);
    ppo__tokfile_added(&file, ppo__json_get(&file.json, whole, "added_tokens"));
    /* Those that are found in the text itself come first. */
    for (int k = 0; k < tok->added_count && !tok->memory.failed; ++k) {
        ppo__added swap = tok->added[k];
        if (swap.normalized) continue;
        tok->added[k] = tok->added[raw];
        tok->added[raw++] = swap;
    }
    ppo__add_find(tok, 0, raw);
    tok->kinds = ppo__make_kinds(&tok->memory);
    if (!tok->kinds) return ppo__arena_free(&file.memory), PPO_ERROR_MEMORY;
    ppo__tokfile_normalizer(&file, whole);
    if (!file.json.status) ppo__tokfile_rewrite(&file, raw);
    ppo__tokfile_cutter(&file, whole);
    ppo__tokfile_decoder(&file, whole);
    if (!file.json.status && !tok->memory.failed) ppo__tokfile_model(&file, model);
    if (!file.json.status && !tok->memory.failed && !file.memory.failed) {
        ppo__tokfile_bounds(&file, whole);
        if (tok->kind == PPO__PIECES && !tok->rules->is_unigram && ppo__tokfile_may_cut(tok))
            ppo__add_step(tok, ppo__cut_runs);
    }
    ppo_status status = file.json.status;
    if (!status) status = ppo__arena_status(&tok->memory);
    if (!status) status = ppo__arena_status(&file.memory);
    ppo__arena_free(&file.memory);
    return status;
}

/* Makes a tokenizer of the bytes of a tokenizer.json, or of the file at path. */
static ppo_status ppo__tokfile_make(const char *path, const ppo_array *array, ppo_tokenizer **tokenizer) {
    ppo_tokenizer *tok = (ppo_tokenizer *)ppo__alloc(sizeof *tok);
    ppo__json json = {path, " of \"tokenizer.json\"", NULL, NULL, NULL, PPO_OK};
    if (!tok) return PPO_ERROR_MEMORY;
    if (!array) ppo__json_open(&json, path, &tok->memory);
    else if ((json.start = PPO__ARRAY(&tok->memory, char, array->bytes + 1)) != NULL) {
        json.end = json.start + array->bytes;
        if (array->bytes) memcpy(json.start, array->data, array->bytes);
        *json.end = 0;
    } else json.status = PPO_ERROR_MEMORY;
    ppo_status status = json.status ? json.status : ppo__tokfile_read(tok, &json);
    if (status) return ppo_tokenizer_free(tok), status;
    return *tokenizer = tok, PPO_OK;
}

/* A token of bytes, in GPT-2's characters. */
static void ppo__put_token(ppo__header *json, const ppo_tokenizer *tok, int token) {
    char name[2 * PPO_MAX_TOKEN_BYTES + 1], *out = name;
    for (int i = tok->start[token]; i < tok->start[token + 1]; ++i) {
        const unsigned char byte = (unsigned char)tok->bytes[i];
        out += ppo__utf8_put(tok->of_byte[byte] < 188 ? byte : tok->of_byte[byte] + 68, out);
    }
    *out = 0;
    ppo__put_string(json, name);
}

/* How a special token is found in a text: by its name alone. */
#define PPO__SPECIAL_FLAGS                                             \
    ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, " \
    "\"normalized\": false, \"special\": true"

/* A tokenizer.json: as it was read, or of what was trained. Failures stay in `out`. */
static ppo_status ppo__write_json(FILE *out, const char *path, void *user) {
    const ppo_tokenizer *tok = (const ppo_tokenizer *)user;
    const int ordinary = tok->vocab - tok->added_count;
    ppo__header json = {out, 0};
    if (tok->json) return fwrite(tok->json, 1, tok->json_bytes, out), PPO_OK;
    ppo__put(&json, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n"
                    "  \"added_tokens\": [");
    for (int t = ordinary; t < tok->vocab; ++t)
        for (int k = 0; k < tok->added_count; ++k) {
            if (tok->added[k].token != t) continue;
            char name[PPO_MAX_TOKEN_BYTES + 1];
            snprintf(name, sizeof name, "%.*s", tok->added[k].name_bytes, tok->added[k].name);
            ppo__put(&json, "%s\n    {\"id\": %d, \"content\": ", t > ordinary ? "," : "", t);
            ppo__put_string(&json, name);
            ppo__put(&json, "%s}", PPO__SPECIAL_FLAGS);
        }
    ppo__put(&json, "],\n  \"normalizer\": null,\n  \"pre_tokenizer\": {\"type\": \"ByteLevel\", "
                    "\"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true},\n"
                    "  \"post_processor\": null,\n  \"decoder\": {\"type\": \"ByteLevel\", "
                    "\"add_prefix_space\": true, \"trim_offsets\": true, \"use_regex\": true},\n"
                    "  \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
                    "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, \"fuse_unk\": false, "
                    "\"byte_fallback\": false, \"ignore_merges\": false, \"vocab\": {");
    for (int t = 0; t < ordinary; ++t) {
        if (t) ppo__put(&json, ",");
        ppo__put_token(&json, tok, t);
        ppo__put(&json, ":%d", t);
    }
    ppo__put(&json, "}, \"merges\": [");
    for (int k = 0; k < 2 * tok->unit_count; ++k) {
        ppo__put(&json, "%s", k % 2 ? "," : k ? ",[" : "[");
        ppo__put_token(&json, tok, tok->units[k]);
        if (k % 2) ppo__put(&json, "]");
    }
    ppo__put(&json, "]}\n}\n");
    return PPO_OK;
}

/* -- tokenizer_config.json: what Python's AutoTokenizer reads beside tokenizer.json -- */

static PPO__PRINTF(2, 3) void ppo__add_note(char note[1024], const char *format, ...) {
    const size_t used = strlen(note);
    va_list args;
    if (used) strcat(note, "\n"); /* the last line may be cut, not lost */
    va_start(args, format);
    vsnprintf(note + strlen(note), 1023 - strlen(note), format, args);
    va_end(args);
}

/* The name of a token: a text, or {"content": "..."}; NULL: there is none. */
static const char *ppo__token_name(ppo__json *json, ppo__value *value) {
    if (value && value->kind == '{') value = ppo__json_get(json, value, "content");
    return value && strchr("\"s", value->kind) ? ppo__json_decode(json, value) : NULL;
}

/* Refuses a token that is not added in tokenizer.json, too; its number: NULL: any. */
static const ppo__added *ppo__need_added(ppo__json *json, const ppo_tokenizer *tok, const char *name,
                                         const char *number) {
    const ppo__added *added = NULL;
    const char *rest;
    for (int k = 0; k < tok->added_count && name; ++k)
        if (!strcmp(tok->added[k].name, name)) added = &tok->added[k];
    if (json->status || !name || (added && (!number || ppo__parse_digits(number, &rest) == added->token)))
        return added;
    json->status = ppo__file_fail(
        json->path,
        "\"%.60s\" is an added token, but not in tokenizer.json, so that texts with it have other tokens in "
        "Python: load the folder there by AutoTokenizer and save it again",
        name);
    return NULL;
}

/* Tokens by number, {"32000": {"content": "<x>", "lstrip": false, ...}}; in a list; or by name. */
static void ppo__config_added(ppo_tokenizer *tok, ppo__json *json, ppo__value *all, const char *key) {
    static const char *const flags[] = {"lstrip", "rstrip", "special", "normalized"};
    ppo__value *list = ppo__json_get(json, all, key), *item = NULL;
    const int by_number = !strcmp(key, "added_tokens_decoder");
    while (list && (list->kind == '{' || list->kind == '[') &&
           ppo__json_each(json, list, list->kind, &item)) {
        const ppo__added *added = ppo__need_added(json, tok, ppo__token_name(json, item),
                                                  by_number ? ppo__json_key_of(item) : NULL);
        for (int k = 0; k < 4 && added && by_number && item->kind == '{'; ++k) {
            const int is[] = {added->left, added->right, added->special, added->normalized};
            if (ppo__json_flag(json, item, flags[k], is[k]) != is[k])
                ppo__add_note(
                    tok->rules->note,
                    "tokenizer_config.json: %s of \"%.40s\" is not that of tokenizer.json, which is "
                    "followed here",
                    flags[k], added->name);
        }
    }
}

/* Notes where a setting contradicts tokenizer.json. usual: its value if it is not there, -1: none. */
static void ppo__config_flag(ppo_tokenizer *tok, ppo__json *json, ppo__value *all, const char *key, int usual,
                             int is, const char *what) {
    const int says = ppo__json_flag(json, all, key, usual);
    if (json->status || says < 0 || says == is) return;
    ppo__add_note(tok->rules->note,
                  "tokenizer_config.json: %s is %s, but tokenizer.json has %s%s, which is followed here", key,
                  says ? "true" : "false", is ? "" : "no ", what);
}

static ppo_status ppo__config_read(ppo_tokenizer *tok, const char *folder) {
    static const char *const lists[] = {"added_tokens_decoder", "additional_special_tokens",
                                        "extra_special_tokens"};
    static const char *const names[] = {"bos_token", "eos_token", "pad_token", "unk_token",
                                        "cls_token", "sep_token", "mask_token"};
    ppo__tokfile_rules *rules = tok->rules;
    ppo__arena memory = {NULL, NULL, PPO_OK};
    ppo__json json;
    ppo__value *all = NULL, *item = NULL;
    int prefix = 0;
    json.status = PPO_OK;
    char *path = ppo__path_in(&tok->memory, folder, "tokenizer_config.json"), *text = NULL;
    char *jinja = ppo__path_in(&tok->memory, folder, "chat_template.jinja");
    if (path && jinja && ppo__exists(path) && !ppo__json_open(&json, path, &tok->memory)) {
        rules->config = ppo__text_copy(&tok->memory, json.start);
        all = ppo__json_tree(&json, &memory);
    }
    for (int k = 0; k < tok->step_count; ++k) prefix |= rules->rewrite[k].prefix != NULL;
    for (int k = 0; k < 3; ++k) ppo__config_added(tok, &json, all, lists[k]);
    for (int k = 0; k < 7 && all; ++k) {
        const char *name = ppo__token_name(&json, ppo__json_get(&json, all, names[k]));
        const int token = name ? ppo_tokenizer_special(tok, name) : -1;
        if (name && k == 0) rules->bos = token;
        if (name && k == 1) rules->eos = name;
        if (name && k == 2) rules->pad = token;
        if (name && token < 0)
            ppo__add_note(
                rules->note,
                "tokenizer_config.json: %s \"%.40s\" is not among the added tokens of tokenizer.json, "
                "where Python puts it",
                names[k], name);
    }
    const char *type = all ? ppo__json_text(&json, all, "tokenizer_class") : NULL;
    const int llama = type && strstr(type, "LlamaTokenizer"); /* adds <s> unless it is told not to */
    ppo__config_flag(tok, &json, all, "add_bos_token", llama ? 1 : -1, tok->bounds[0] > 0,
                     "token before a text");
    ppo__config_flag(tok, &json, all, "add_eos_token", llama ? 0 : -1, tok->bounds[1] > 0,
                     "token after a text");
    ppo__config_flag(tok, &json, all, "add_prefix_space", -1, prefix, "space before a text");
    ppo__config_flag(tok, &json, all, "split_special_tokens", -1, 0, "such setting");
    ppo__value *chat = ppo__json_get(&json, all, "chat_template");
    if (chat && chat->kind == '"') rules->template_of_chat = ppo__json_decode(&json, chat);
    while (chat && chat->kind == '[' && ppo__json_each(&json, chat, '[', &item)) {
        const char *name = ppo__json_text(&json, item, "name");
        if (name && !strcmp(name, "default"))
            rules->template_of_chat = ppo__json_text(&json, item, "template");
    }
    ppo_status status = json.status ? json.status : ppo__arena_status(&tok->memory);
    if (!status) status = ppo_text_load(jinja, &text, NULL);
    if (!status && text) rules->template_of_chat = ppo__text_copy(&tok->memory, text);
    if (!status) status = ppo__arena_status(&tok->memory);
    ppo_text_free(text);
    ppo__arena_free(&memory);
    return status;
}

PPO_DEF const char *ppo_tokenizer_note(const ppo_tokenizer *tokenizer) {
    return tokenizer && tokenizer->rules ? tokenizer->rules->note : "";
}

PPO_DEF ppo_status ppo_tokenizer_fits(const ppo_tokenizer *tokenizer, const char *family) {
    if (!PPO__GIVEN("ppo_tokenizer_fits", tokenizer, family)) return PPO_ERROR_ARGUMENT;
    const ppo__tokfile_rules *rules = tokenizer->rules;
    int same = rules && tokenizer->kind == PPO__BPE, cuts = 0, forms = 0;
    for (int k = 0; k < tokenizer->step_count && same; ++k) {
        const ppo__rewrite_rule *rule = &rules->rewrite[k];
        const ppo__cut_rule *cut = &rules->cut[k];
        forms |= rule->forms;
        same = !rule->prefix && !rule->from && !rule->matches && !rule->ends;
        if (!cut->expression) continue;
        same &= !cuts++ && cut->behavior == PPO__ISOLATED && !cut->invert &&
                !strcmp(cut->expression->text, PPO__QWEN_WORDS);
    }
    same &= cuts == 1 && forms == PPO__NFC;
    if (same || strcmp(family, "qwen2")) return PPO_OK;
    return ppo__refuse(
        "family qwen2: version 5 of Python's transformers gives its models the tokenizer of Qwen 2, with "
        "NFC and another expression for words than this one has: take qwen3 or llama, or a "
        "tokenizer of Qwen");
}

/* Tokens that usually end a text, as a model from nothing learns them, or a turn. */
static const char *const ppo__usual_ends[] = {"<|endoftext|>", "<|end_of_text|>", "</s>",
                                              "<eos>",         "<|im_end|>",      "<|eot_id|>"};
enum { PPO__USUAL_ENDS = sizeof ppo__usual_ends / sizeof *ppo__usual_ends };

/* any 0: none but those that are usual */
static int ppo__pad_token(const ppo_tokenizer *tok, int eos, int any) {
    static const char *const usual[] = {
        "<|pad|>", "<pad>", "[PAD]", "<|padding|>", "<|finetune_right_pad_id|>", "<|endoftext|>", "<unk>"};
    int pad = tok->rules ? tok->rules->pad : -1;
    for (size_t k = 0; k < sizeof usual / sizeof *usual && (pad < 0 || pad == eos); ++k)
        pad = ppo_tokenizer_special(tok, usual[k]);
    for (int k = 0; k < tok->added_count && any && (pad < 0 || pad == eos); ++k) {
        int ends = !tok->added[k].special;
        for (int i = 0; i < PPO__USUAL_ENDS; ++i)
            ends |= tok->added[k].token == ppo_tokenizer_special(tok, ppo__usual_ends[i]);
        if (!ends) pad = tok->added[k].token;
    }
    return pad == eos ? -1 : pad;
}

PPO_DEF int ppo_tokenizer_pad(const ppo_tokenizer *tokenizer, int eos) {
    return tokenizer ? ppo__pad_token(tokenizer, eos, 1) : -1;
}

PPO_DEF int ppo_tokenizer_find(const ppo_tokenizer *tokenizer, const char *text) {
    const ppo__added *found = NULL;
    const size_t bytes = tokenizer && text ? strlen(text) : 0;
    if (!bytes || !tokenizer->step_count || tokenizer->steps[0].cut) return -1;
    for (size_t at = 0; (found = ppo__find_added(tokenizer, &tokenizer->steps[0], text, bytes, &at)) != NULL;
         at += (size_t)found->bytes)
        if (found->special) return found->token;
    for (int k = 0; k < tokenizer->added_count; ++k)
        if (tokenizer->added[k].special && tokenizer->added[k].normalized &&
            strstr(text, tokenizer->added[k].name))
            return tokenizer->added[k].token;
    return -1;
}

/* -- a tokenizer in a folder -- */

/* A text as JSON spells it. */
static char *ppo__quoted(ppo__arena *memory, const char *text, int bytes) {
    char *out = PPO__ARRAY(memory, char, 6 * (size_t)bytes + 3), *at = out;
    if (!out) return NULL;
    for (*at++ = '"'; bytes; --bytes, ++text) {
        if ((unsigned char)*text < ' ') at += sprintf(at, "\\u%04x", (unsigned)*text);
        else {
            if (*text == '"' || *text == '\\') *at++ = '\\';
            *at++ = *text;
        }
    }
    return strcpy(at, "\""), out;
}

/* The object in a text of JSON with a member set to this value; NULL after a failure, which is in memory. */
static char *ppo__with_member(ppo__arena *memory, const char *path, const char *text, const char *key,
                              const char *value) {
    const size_t n = text ? strlen(text) : 0, room = n + strlen(key) + 16;
    char *copy = PPO__ARRAY(memory, char, n + 1);
    char *out = value ? PPO__ARRAY(memory, char, room + strlen(value)) : NULL;
    if (!copy || !out || !text) return NULL;
    ppo__json json = {path, "", copy, strcpy(copy, text), copy + n, PPO_OK};
    if (!strncmp(copy, "\357\273\277", 3)) json.at += 3;
    ppo__value *all = ppo__json_tree(&json, memory), *item = NULL;
    const char *end = strrchr(text, '}'), *rest = end; /* the value goes between */
    int found = 0;
    while (all && ppo__json_each(&json, all, '{', &item)) {
        if (strcmp(ppo__json_key_of(item), key)) continue;
        ppo__json whole = {path,  "", (char *)text, (char *)text + (item->at - copy), (char *)text + n,
                           PPO_OK};
        end = whole.at;
        ppo__json_skip(&whole); /* which changes no byte */
        rest = whole.at;
        found = 1;
    }
    if (json.status || !end) return memory->failed = json.status, (char *)NULL;
    while (!found && end > text && strchr(" \t\r\n", end[-1])) --end;
    char *at = out + (end - text);
    memcpy(out, text, (size_t)(end - text));
    if (!found) at += sprintf(at, "%s\n  \"%s\": ", all->count ? "," : "", key);
    at += sprintf(at, "%s", value);
    sprintf(at, "%s%s", found ? "" : "\n", rest);
    return out;
}

/* What a folder's config.json says of its model. */
typedef struct ppo__hub_facts {
    int eos, score, vocab; /* -1: it does not say */
} ppo__hub_facts;

static ppo_status ppo__read_facts(ppo__arena *memory, const char *path, ppo__hub_facts *facts) {
    ppo__json json;
    ppo__value *item = NULL;
    facts->eos = facts->vocab = -1;
    facts->score = 0;
    if (!ppo__exists(path)) return PPO_OK;
    if (ppo__json_open(&json, path, memory)) return json.status;
    ppo__value *all = ppo__json_tree(&json, memory), *ends = ppo__json_get(&json, all, "eos_token_id");
    if (ends && ends->kind == '[' && ends->count) json.at = (++ends)->at;
    if (ends && ends->kind == '0') facts->eos = ppo__json_int(&json);
    if (ppo__json_get(&json, all, "vocab_size")) facts->vocab = ppo__json_int(&json);
    ppo__value *types = ppo__json_get(&json, all, "architectures");
    while (types && types->kind == '[' && ppo__json_each(&json, types, '[', &item))
        facts->score |= strstr(ppo__json_decode(&json, item), "ForSequenceClassification") != NULL;
    return json.status;
}

/* An added token by its number; NULL: there is none. */
static const ppo__added *ppo__added_of(const ppo_tokenizer *tok, int token) {
    for (int k = 0; k < tok->added_count; ++k)
        if (tok->added[k].token == token && token >= 0) return &tok->added[k];
    return NULL;
}

/* ppo__with_member() of the name of a token, if that is added. */
static const char *ppo__with_token(ppo__arena *memory, const char *path, const char *text, const char *key,
                                   const ppo_tokenizer *tok, int token) {
    const ppo__added *added = ppo__added_of(tok, token);
    return added ? ppo__with_member(memory, path, text, key,
                                    ppo__quoted(memory, added->name, added->name_bytes))
                 : text;
}

/* A folder's config.json with the number of a token, if there is such a token. */
static const char *ppo__set_token(ppo__arena *memory, const char *config, const char *text, const char *key,
                                  int token, const ppo__hub_facts *facts) {
    char number[16];
    if (!text || token < 0 || token >= facts->vocab) return text;
    snprintf(number, sizeof number, "%d", token);
    return ppo__with_member(memory, config, text, key, number);
}

static ppo_status ppo__draft_text(const char *path, const char *text, char **draft) {
    ppo__text whole = {text, strlen(text)};
    return ppo__write_draft(path, ppo__write_text, &whole, draft);
}

/* Drafts of a folder's tokenizer_config.json, and of its config.json, if that changes, with the tokens that start a
   text and fill one up. */
static ppo_status ppo__complete_folder(const ppo_tokenizer *tok, ppo__arena *memory, const char *path,
                                       const char *config, char *drafts[2]) {
    const ppo__tokfile_rules *rules = tok->rules;
    ppo__hub_facts facts;
    char *model = NULL;
    const char *was = rules ? rules->config : NULL;
    const char *text = was ? was : "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n";
    ppo_status status = ppo__read_facts(memory, config, &facts);
    if (!status && facts.vocab >= 0) status = ppo_text_load(config, &model, NULL);
    if (status) return status;
    int eos = facts.eos, bos = tok->bounds[0] ? tok->bound[0][0] : was ? rules->bos : -1;
    for (int k = 0; k < PPO__USUAL_ENDS && eos < 0 && !was; ++k)
        eos = ppo_tokenizer_special(tok, ppo__usual_ends[k]);
    int pad = was && !facts.score ? rules->pad : ppo__pad_token(tok, eos, facts.score);
    if (facts.vocab >= 0 && pad >= facts.vocab) pad = -1;
    if (!was) {
        text = ppo__with_member(memory, path, text, "clean_up_tokenization_spaces", "false");
        text = ppo__with_token(memory, path, text, "bos_token", tok, bos);
        text = ppo__with_token(memory, path, text, "unk_token", tok, rules ? rules->unknown : -1);
    }
    if (!was || (rules->eos && eos >= 0 && ppo_tokenizer_special(tok, rules->eos) != eos))
        text = ppo__with_token(memory, path, text, "eos_token", tok, eos);
    if (!was || pad != rules->pad) text = ppo__with_token(memory, path, text, "pad_token", tok, pad);
    const char *now = ppo__set_token(memory, config, model, "bos_token_id", bos, &facts);
    now = ppo__set_token(memory, config, now, "pad_token_id", pad, &facts);
    status = ppo__arena_status(memory);
    if (!status) status = ppo__draft_text(path, text, &drafts[0]);
    if (!status && now && strcmp(now, model)) status = ppo__draft_text(config, now, &drafts[1]);
    return ppo_text_free(model), status;
}

/* The path, or that of the folder's tokenizer.json. */
static char *ppo__tokfile_path(ppo__arena *memory, const char *path, int folder) {
    return folder ? ppo__path_in(memory, path, "tokenizer.json") : ppo__text_copy(memory, path);
}

static ppo_status ppo__tokfile_save(const ppo_tokenizer *tokenizer, const char *path) {
    if (ppo__is_gguf(path))
        return ppo__refuse("%.60s: GGUF holds a model with its tokenizer: ppo_gguf_save() of ppo_gguf.h",
                           path);
    if (!tokenizer->json && tokenizer->kind != PPO__BPE)
        return ppo__refuse("%.60s: a tokenizer of characters is saved to one file, as NAME.safetensors",
                           path);
    ppo__arena memory = {NULL, NULL, PPO_OK};
    const int folder = ppo__is_special(path);
    const char *paths[3] = {ppo__tokfile_path(&memory, path, folder), NULL, NULL};
    char *drafts[3] = {NULL, NULL, NULL}; /* all are there before the first replaces its file */
    if (folder) paths[1] = ppo__path_in(&memory, path, "tokenizer_config.json");
    if (folder) paths[2] = ppo__path_in(&memory, path, "config.json");
    ppo_status status = ppo__arena_status(&memory);
    if (!status) status = ppo__write_draft(paths[0], ppo__write_json, (void *)tokenizer, &drafts[0]);
    if (!status && folder) status = ppo__complete_folder(tokenizer, &memory, paths[1], paths[2], &drafts[1]);
    for (int k = 0; k < 3; ++k) status = ppo__keep_draft(paths[k], drafts[k], status);
    return ppo__arena_free(&memory), status;
}

/* A folder without tokenizer.json: it may have a tokenizer in files of another kind. */
static ppo_status ppo__tokfile_missing(ppo__arena *memory, const char *folder) {
    static const char *const others[] = {"tokenizer.model", "spiece.model", "vocab.json",
                                         "tokenizer.tiktoken"};
    for (size_t k = 0; k < sizeof others / sizeof *others; ++k) {
        const char *path = ppo__path_in(memory, folder, others[k]);
        if (path && ppo__exists(path))
            return ppo__file_fail(folder,
                                  "it has %s%s, but no tokenizer.json: let Python write that, by "
                                  "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
                                  others[k], k == 2 ? " and merges.txt" : "");
    }
    return PPO_OK;
}

static ppo_status ppo__tokfile_load(const char *path, const ppo_array *array, ppo_tokenizer **tokenizer) {
    if (array) return ppo__tokfile_make(path, array, tokenizer);
    if (ppo__in_gguf.tokenizer_load && ppo__is_gguf(path))
        return ppo__in_gguf.tokenizer_load(path, tokenizer);
    ppo__arena memory = {NULL, NULL, PPO_OK};
    const int folder = ppo__is_special(path);
    const char *whole = ppo__tokfile_path(&memory, path, folder);
    ppo_status status = ppo__arena_status(&memory);
    if (!status && folder && !ppo__exists(whole)) status = ppo__tokfile_missing(&memory, path);
    if (!status) status = ppo__tokfile_make(whole, NULL, tokenizer);
    if (!status && folder && (status = ppo__config_read(*tokenizer, path)) != PPO_OK) {
        ppo_tokenizer_free(*tokenizer);
        *tokenizer = NULL;
    }
    return ppo__arena_free(&memory), status;
}

/* -- more tokens -- */

/* Refuses a name that is a token already: of a text of bytes, as a tokenizer.json spells it. */
static ppo_status ppo__check_new(ppo__arena *memory, ppo_tokenizer *tok, const char *name) {
    const ppo__tokfile file = ppo__tokfile_start(tok);
    int bytes, token = ppo_tokenizer_special(tok, name);
    char *copy = ppo__text_copy(memory, name);
    if (token < 0 && copy) token = ppo__tokfile_find(&file, copy, &bytes);
    return token < 0 ? ppo__arena_status(memory)
                     : ppo__refuse("ppo_tokenizer_add: \"%.60s\" is token %d already", name, token);
}

/* The tokenizer.json of tok with more special tokens; NULL after a failure, which is in `memory`. */
static char *ppo__with_tokens(ppo__arena *memory, const ppo_tokenizer *tok, const char *const *names,
                              int count) {
    static const char path[] = "tokenizer.json", key[] = "added_tokens";
    char *copy = ppo__text_copy(memory, tok->json), *at, *quoted;
    if (!copy) return NULL;
    ppo__json json = {
        path, "", copy, copy + (strncmp(copy, "\357\273\277", 3) ? 0 : 3), copy + tok->json_bytes, PPO_OK};
    const ppo__value *list = ppo__json_get(&json, ppo__json_tree(&json, memory), key);
    ppo__json old = {path, "", tok->json, tok->json, tok->json + tok->json_bytes, PPO_OK};
    const char *begin = old.at = list ? tok->json + (list->at - copy) : tok->json;
    if (list) ppo__json_skip(&old);
    size_t room = (size_t)(old.at - begin) + 8, most = 6 * (size_t)PPO_MAX_TOKEN_BYTES + 160;
    char *out = json.status ? NULL : PPO__ARRAY(memory, char, room + (size_t)count * most);
    if (!out) return NULL;
    at = out + sprintf(out, "%.*s", list ? (int)(old.at - begin) - 1 : 1, list ? begin : "[");
    while (at > out + 1 && strchr(" \t\r\n", at[-1])) --at;
    for (int k = 0; k < count && (quoted = ppo__quoted(memory, names[k], (int)strlen(names[k]))) != NULL; ++k)
        at += sprintf(at, "%s\n    {\"id\": %d, \"content\": %s" PPO__SPECIAL_FLAGS "}",
                      k || tok->added_count ? "," : "", tok->vocab + k, quoted);
    sprintf(at, "]");
    return ppo__with_member(memory, path, tok->json, key, out);
}

PPO_DEF ppo_status ppo_tokenizer_add(ppo_tokenizer *tokenizer, const char *const *specials, int count) {
    ppo__arena memory = {NULL, NULL, PPO_OK};
    ppo_tokenizer *made = NULL;
    if (!PPO__GIVEN("ppo_tokenizer_add", tokenizer, specials) || ppo__check_specials(specials, count))
        return PPO_ERROR_ARGUMENT;
    if (!tokenizer->json)
        return ppo__refuse(
            "ppo_tokenizer_add: the tokenizer is not one of a tokenizer.json: save it to a folder, if "
            "it is of bytes, and load that");
    ppo_status status = PPO_OK;
    for (int k = 0; k < count && !status; ++k) status = ppo__check_new(&memory, tokenizer, specials[k]);
    const char *text = status ? NULL : ppo__with_tokens(&memory, tokenizer, specials, count);
    if (!status) status = ppo__arena_status(&memory);
    if (!status) {
        const ppo_array array = {"tokenizer.json", PPO_U8, 0, {0}, strlen(text), text};
        status = ppo__tokfile_make("ppo_tokenizer_add", &array, &made);
    }
    if (!status) { /* what tokenizer_config.json said stays */
        const ppo__tokfile_rules *was = tokenizer->rules;
        ppo__tokfile_rules *rules = made->rules;
        rules->config = ppo__text_copy(&made->memory, was->config);
        rules->eos = ppo__text_copy(&made->memory, was->eos);
        rules->template_of_chat = ppo__text_copy(&made->memory, was->template_of_chat);
        rules->pad = was->pad;
        rules->bos = was->bos;
        strcpy(rules->note, was->note);
        status = ppo__arena_status(&made->memory);
    }
    if (!status) {
        const ppo_tokenizer old = *tokenizer;
        *tokenizer = *made;
        *made = old;
    }
    ppo_tokenizer_free(made);
    return ppo__arena_free(&memory), status;
}

/* -- stops -- */

/* Do the tokens, without the last `but` bytes of their text, end with this text of n bytes? */
static int ppo__ends_with(const ppo_tokenizer *tok, const int *first, const int *last, int but,
                          const char *text, size_t n) {
    for (int length; n && last > first; but = 0) {
        const char *token = ppo__text_of(tok, *--last, &length);
        for (length -= but; length > 0 && n; --length)
            if (token[length - 1] != text[--n]) return 0;
    }
    return !n;
}

PPO_DEF ppo_status ppo_stop_at(const ppo_tokens *so_far, int s, int *end, void *stops) {
    const ppo_stops *all = (const ppo_stops *)stops;
    int length = 0;
    if (!PPO__GIVEN("ppo_stop_at", so_far, end, stops) || !PPO__GIVEN("ppo_stop_at", all->tokenizer))
        return PPO_ERROR_ARGUMENT;
    if (all->count > 0 && !PPO__GIVEN("ppo_stop_at", all->text)) return PPO_ERROR_ARGUMENT;
    if (so_far->count != 1) return ppo__refuse("ppo_stop_at: %d texts, must be 1", so_far->count);
    const int *first = so_far->token + ppo__prompt_end(so_far, 0), *last = so_far->token + so_far->start[1];
    if (last > first) ppo__text_of(all->tokenizer, last[-1], &length);
    for (int k = 0; k < all->count; ++k) {
        if (!all->text[k] || !*all->text[k])
            return ppo__refuse("ppo_stop_at: text %d is %s", k, all->text[k] ? "empty" : "NULL");
        const size_t n = strlen(all->text[k]);
        for (int but = 0; but < length && !*end; ++but)
            *end = ppo__ends_with(all->tokenizer, first, last, but, all->text[k], n);
    }
    return PPO_OK;
}

PPO_DEF ppo_status ppo_encode_as(const ppo_tokenizer *tokenizer, int flags, const char *text, size_t bytes,
                                 int *tokens, int capacity, int *count) {
    if (flags & ~(PPO_ENCODE_SPECIALS | PPO_ENCODE_BOUNDS | PPO_ENCODE_CONTINUES))
        return ppo__refuse("ppo_encode_as: flags are %d, which has unknown ones", flags);
    return ppo__encode(tokenizer, flags, text, bytes, tokens, capacity, count);
}

/* --------------------------------------------------------------------------------------------------------
   @@ 2 Families and LoRA
   --------------------------------------------------------------------------------------------------------

   A model with LoRA is another ppo_lm, whose blocks point to the weights of its base; A and B are in its
   adapter, and are all that its params hold.

   To add a model family: its name in PPO__FAMILY_WORDS of ppo.h, and a row of ppo__families; if its folders
   have names of their own, a column of ppo__hub_settings, or a table of ppo__hub_rows (in 3).
   -------------------------------------------------------------------------------------------------------- */

/* The layout of a folder: its names of settings, up to OPT's, and those of arrays. */
enum { PPO__GPT2, PPO__GPT_NEO, PPO__GPT_NEOX, PPO__LLAMA, PPO__OPT, PPO__LAYOUTS };
enum { PPO__GEMMA3 = PPO__LAYOUTS, PPO__OLMO2, PPO__PHI3, PPO__NAMINGS };
enum { PPO__OWN_KEYS = 4 };

#define PPO__LLAMA_SETTINGS                                                                           \
    "norm=rms positions=rotary activation=silu glu=yes qkv_bias=no proj_bias=no ffn_bias=no tied=no " \
    "norm_eps=1e-6 "
#define PPO__LLAMA_LORA \
    { "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj" }

static const struct {
    const char *name;                  /* as in PPO__FAMILY_WORDS, and model_type in config.json */
    const char *class_prefix;          /* of transformers' classes */
    int layout, arrays;                /* whose settings and arrays its folders have */
    const char *settings;              /* those that differ from the defaults */
    const char *lacks;                 /* settings that others of its layout have */
    const char *lora[PPO_LORA_LAYERS]; /* its names of these layers; NULL: it has no such layer */
    const char *own[PPO__OWN_KEYS][2]; /* settings, and keys that only it has for them */
} ppo__families[] = {
    {"gpt2",
     "GPT2",
     PPO__GPT2,
     PPO__GPT2,
     "",
     "",
     {"c_attn", NULL, NULL, "c_proj", NULL, "c_fc", "c_proj"},
     {{NULL, NULL}}},
    {"gpt_neo",
     "GPTNeo",
     PPO__GPT_NEO,
     PPO__GPT_NEO,
     "qkv_bias=no attention_scale=1 window=256",
     "",
     {"q_proj", "k_proj", "v_proj", "out_proj", NULL, "c_fc", "c_proj"},
     {{NULL, NULL}}},
    {"gpt_neox",
     "GPTNeoX",
     PPO__GPT_NEOX,
     PPO__GPT_NEOX,
     "positions=rotary activation=gelu_erf parallel=yes tied=no",
     "",
     {"query_key_value", NULL, NULL, "dense", NULL, "dense_h_to_4h", "dense_4h_to_h"},
     {{"rotary_size", "rope.partial_rotary_factor|rotary_pct"}}},
    {"llama",
     "Llama",
     PPO__LLAMA,
     PPO__LLAMA,
     PPO__LLAMA_SETTINGS,
     "window",
     PPO__LLAMA_LORA,
     {{NULL, NULL}}},
    {"mistral",
     "Mistral",
     PPO__LLAMA,
     PPO__LLAMA,
     PPO__LLAMA_SETTINGS,
     "qkv_bias proj_bias ffn_bias",
     PPO__LLAMA_LORA,
     {{NULL, NULL}}},
    {"qwen2",
     "Qwen2",
     PPO__LLAMA,
     PPO__LLAMA,
     PPO__LLAMA_SETTINGS "qkv_bias=yes",
     "qkv_bias proj_bias ffn_bias",
     PPO__LLAMA_LORA,
     {{NULL, NULL}}},
    {"qwen3",
     "Qwen3",
     PPO__LLAMA,
     PPO__LLAMA,
     PPO__LLAMA_SETTINGS "qk_norm=yes",
     "ffn_bias",
     PPO__LLAMA_LORA,
     {{NULL, NULL}}},
    {"gemma3_text",
     "Gemma3",
     PPO__LLAMA,
     PPO__GEMMA3,
     PPO__LLAMA_SETTINGS "activation=gelu qk_norm=yes post_norm=yes tied=yes embedding_scale=0 "
                         "attention_scale=0.0625 window=4096 rope_theta=1e6 window_theta=1e4",
     "ffn_bias",
     PPO__LLAMA_LORA,
     {{"activation", "hidden_activation"},
      {"attention_scale", "query_pre_attn_scalar"},
      {"window_theta", "local.rope_theta|rope_local_base_freq"}}},
    {"olmo2",
     "Olmo2",
     PPO__LLAMA,
     PPO__OLMO2,
     PPO__LLAMA_SETTINGS "norm_eps=1e-5 qk_norm=whole pre_norm=no post_norm=yes",
     "window ffn_bias",
     PPO__LLAMA_LORA,
     {{NULL, NULL}}},
    {"smollm3",
     "SmolLM3",
     PPO__LLAMA,
     PPO__LLAMA,
     PPO__LLAMA_SETTINGS "tied=yes rope_theta=2e6",
     "",
     PPO__LLAMA_LORA,
     {{NULL, NULL}}},
    {"phi3",
     "Phi3",
     PPO__LLAMA,
     PPO__PHI3,
     PPO__LLAMA_SETTINGS "norm_eps=1e-5",
     "qkv_bias proj_bias ffn_bias",
     {"qkv_proj", NULL, NULL, "o_proj", NULL, "gate_up_proj", "down_proj"},
     {{"rotary_size", "rope.partial_rotary_factor|partial_rotary_factor"}}},
    {"granite",
     "Granite",
     PPO__LLAMA,
     PPO__LLAMA,
     PPO__LLAMA_SETTINGS "attention_scale=1",
     "window",
     PPO__LLAMA_LORA,
     {{"attention_scale", "attention_multiplier"},
      {"embedding_scale", "embedding_multiplier"},
      {"residual_scale", "residual_multiplier"},
      {"logits_scaling", "logits_scaling"}}},
    {"opt",
     "OPT",
     PPO__OPT,
     PPO__OPT,
     "activation=relu",
     "",
     {"q_proj", "k_proj", "v_proj", "out_proj", NULL, "fc1", "fc2"},
     {{NULL, NULL}}},
};

static int ppo__family_is(const ppo_lm_config *c, const char *family) {
    return !strcmp(ppo__families[c->family].name, family);
}

/* A bit for each layer, but for layers n - 1, 2 n - 1, ... */
static uint64_t ppo__but_every(int n) {
    uint64_t bits = 0;
    for (int k = 0; k < 64; ++k) bits |= (uint64_t)((k + 1) % n != 0) << k;
    return bits;
}

PPO_DEF ppo_status ppo_lm_config_family(ppo_lm_config *config, const char *family) {
    if (!PPO__GIVEN("ppo_lm_config_family", config, family)) return PPO_ERROR_ARGUMENT;
    ppo_lm_config c = ppo_lm_config_default();
    if (ppo_settings_set(&ppo__lm_settings, &c, "family", family) ||
        ppo_settings_set_all(&ppo__lm_settings, &c, ppo__families[c.family].settings))
        return PPO_ERROR_ARGUMENT;
    if (ppo__families[c.family].layout == PPO__GPT_NEO)
        c.window_layers = UINT64_C(0xaaaaaaaaaaaaaaaa); /* every other layer, from the second on */
    if (ppo__family_is(&c, "smollm3")) c.nope_layers = UINT64_C(0x8888888888888888); /* every fourth */
    if (ppo__family_is(&c, "gemma3_text")) c.window_layers = ppo__but_every(6);
    c.vocab = config->vocab;
    c.context = config->context;
    c.width = config->width;
    c.layers = config->layers;
    c.heads = config->heads;
    c.kv_heads = config->kv_heads;
    c.head_size = config->head_size;
    c.hidden = config->hidden;
    c.score = config->score;
    c.seed = config->seed;
    c.eos = config->eos;
    *config = c;
    return PPO_OK;
}

/* The rows of x from `first` on become the mean of those before. */
static void ppo__mean_rows(const ppo_tensor *x, int first) {
    enum { PPO__MEANS = 64 };
    for (int begin = 0; begin < x->cols && first < x->rows; begin += PPO__MEANS) {
        double sum[PPO__MEANS] = {0};
        const int wide = ppo__min_int(x->cols - begin, PPO__MEANS);
        for (int i = 0; i < x->rows; ++i) {
            float *row = x->data + ppo__at(i, x->cols) + begin;
            for (int j = 0; j < wide && i < first; ++j) sum[j] += (double)row[j];
            for (int j = 0; j < wide && i >= first; ++j) row[j] = (float)(sum[j] / first);
        }
    }
}

PPO_DEF ppo_status ppo_lm_resize(const ppo_lm *lm, int vocab, ppo_lm **resized) {
    if (resized) *resized = NULL;
    if (!PPO__GIVEN("ppo_lm_resize", lm, resized)) return PPO_ERROR_ARGUMENT;
    if (lm->base) return ppo__refuse("ppo_lm_resize: the model has LoRA: ppo_lm_merge() it first");
    if (vocab < lm->config.vocab)
        return ppo__refuse("ppo_lm_resize: vocab is %d, must be %d, which the model has, or more", vocab,
                           lm->config.vocab);
    ppo_lm_config full = lm->full; /* its context was not lowered */
    full.vocab = vocab;
    ppo_status status = ppo__params_fetch(lm->params);
    if (!status) status = ppo__lm_make(&full, 0, resized);
    for (int k = 0; !status && k < lm->params->tensor_count; ++k) {
        const ppo_tensor *from = lm->params->tensors[k], *to = (*resized)->params->tensors[k];
        ppo__tensor_read(from, to->data);
        ppo__mean_rows(to, from->rows);
    }
    if (status) return status;
    (*resized)->config = lm->config;
    (*resized)->config.vocab = vocab;
    return PPO_OK;
}

/* LoRA: out = f(y + scale sum_i (x A_i) B_i), each product in columns of its own; in: x, y, A_0, B_0, ...
   With z what f is of: dz = dout f'(z), and for each i, of its columns, g = scale dz:

       dB += (x A)^T g    u = g B^T    dA += x^T u    dx += u A^T    dy += dz

   kept: each x A (rows, rank), then z if f keeps it. */
enum { PPO__LORA_PARTS = (PPO_MAX_INPUTS - 2) / 2 };

typedef struct ppo__lora_args {
    int parts, column[PPO__LORA_PARTS], activation;
    float scale;
} ppo__lora_args;

static int ppo__lora_keeps_z(const ppo__lora_args *args) {
    return ppo__k()->activation[args->activation].keeps_z;
}

/* Floats of all x A. */
static size_t ppo__lora_kept(const ppo_node *node) {
    const ppo__lora_args *args = (const ppo__lora_args *)node->args;
    return ppo__at(args->parts, node->in[2]->cols) * (size_t)node->in[0]->rows;
}

static void ppo__lora_rows(void *user, int range, int from, int to) {
    const ppo_node *node = (const ppo_node *)user;
    const ppo__lora_args *args = (const ppo__lora_args *)node->args;
    const ppo__activation *f = &ppo__k()->activation[args->activation];
    const ppo_tensor *x = node->in[0], *y = node->in[1];
    const int rows = to - from, out = y->cols, rank = node->in[2]->cols;
    const size_t at = ppo__at(from, out), n = ppo__at(rows, out);
    float *out_rows = node->out[0]->data + at;
    float *z = f->keeps_z ? (float *)node->kept + ppo__lora_kept(node) + at : out_rows;
    memcpy(z, y->data + at, n * sizeof *z);
    for (int i = 0; i < args->parts; ++i) {
        const ppo_tensor *a = node->in[2 + 2 * i], *b = node->in[3 + 2 * i];
        float *xa = (float *)node->kept + ppo__at(i, x->rows) * (size_t)rank + ppo__at(from, rank);
        float *scaled = node->scratch + ppo__at(from, rank), *to_z = z + args->column[i];
        ppo__k()->gemm(rows, rank, x->cols, x->data + ppo__at(from, x->cols), x->cols, 1, a->data, rank, NULL,
                       0, xa, rank);
        for (size_t k = 0; k < ppo__at(rows, rank); ++k) scaled[k] = args->scale * xa[k];
        ppo__k()->gemm(rows, b->cols, rank, scaled, rank, 1, b->data, b->cols, to_z, out, to_z, out);
    }
    if (f->value) f->value(z, out_rows, n);
}

static ppo_status ppo__lora_forward(ppo_node *node) {
    const ppo__lora_args *args = (const ppo__lora_args *)node->args;
    const ppo_tensor *x = node->in[0], *y = node->in[1];
    const int rank = node->in[2]->cols;
    const size_t z = ppo__lora_keeps_z(args) ? ppo__size(y) : 0;
    node->kept = ppo_tape_alloc(node->tape, ppo__lora_kept(node) + z);
    node->scratch = ppo_tape_alloc(node->tape, ppo__at(x->rows, rank));
    if (!node->kept || !node->scratch) return PPO_ERROR_MEMORY;
    ppo__parallel_for(x->rows, PPO__ROW_GRAIN, (double)rank * (args->parts * x->cols + y->cols),
                      ppo__lora_rows, node);
    return PPO_OK;
}

/* Of part i. scratch: g (rows, columns), u (rows, rank), B^T, A^T */
typedef struct ppo__lora_back {
    const ppo_node *node;
    int i, rank, out, cols; /* cols: of the part */
    float *g, *u, *bt, *at;
} ppo__lora_back;

static void ppo__lora_dx(void *user, int range, int from, int to) {
    const ppo__lora_back *job = (const ppo__lora_back *)user;
    const ppo__lora_args *args = (const ppo__lora_args *)job->node->args;
    const ppo_tensor *x = job->node->in[0];
    float *g = job->g + ppo__at(from, job->cols), *u = job->u + ppo__at(from, job->rank);
    for (int r = from; r < to; ++r) {
        const float *dz = job->node->out[0]->grad + ppo__at(r, job->out) + args->column[job->i];
        for (int j = 0; j < job->cols; ++j) job->g[ppo__at(r, job->cols) + j] = args->scale * dz[j];
    }
    const int n = to - from, rank = job->rank, in = x->cols;
    ppo__k()->gemm(n, rank, job->cols, g, job->cols, 1, job->bt, rank, NULL, 0, u, rank);
    if (!x->grad) return;
    float *dx = x->grad + ppo__at(from, in);
    ppo__k()->gemm(n, in, rank, u, rank, 1, job->at, in, dx, in, dx, in);
}

/* Some rows of dA. */
static void ppo__lora_da(void *user, int range, int from, int to) {
    const ppo__lora_back *job = (const ppo__lora_back *)user;
    const ppo_tensor *x = job->node->in[0];
    const int rank = job->rank;
    float *da = job->node->in[2 + 2 * job->i]->grad + ppo__at(from, rank);
    ppo__k()->gemm(to - from, rank, x->rows, x->data + from, 1, x->cols, job->u, rank, da, rank, da, rank);
}

/* Some columns of dB. */
static void ppo__lora_db(void *user, int range, int from, int to) {
    const ppo__lora_back *job = (const ppo__lora_back *)user;
    const int rows = job->node->in[0]->rows, rank = job->rank, cols = job->cols;
    const float *xa = (const float *)job->node->kept + ppo__at(job->i, rows) * (size_t)rank;
    float *db = job->node->in[3 + 2 * job->i]->grad + from;
    ppo__k()->gemm(rank, to - from, rows, xa, 1, rank, job->g + from, cols, db, cols, db, cols);
}

static void ppo__lora_backward(ppo_node *node) {
    const ppo__lora_args *args = (const ppo__lora_args *)node->args;
    const ppo__activation *f = &ppo__k()->activation[args->activation];
    const ppo_tensor *x = node->in[0], *y = node->in[1], *out = node->out[0];
    const int rank = node->in[2]->cols, rows = x->rows;
    if (f->backward)
        f->backward(f->keeps_z ? (float *)node->kept + ppo__lora_kept(node) : out->data, out->grad, out->grad,
                    ppo__size(out));
    if (y->grad) ppo__add_to(out->grad, y->grad, ppo__size(y));
    for (int i = 0; i < args->parts; ++i) {
        const ppo_tensor *a = node->in[2 + 2 * i], *b = node->in[3 + 2 * i];
        ppo__lora_back job = {node, i, rank, y->cols, b->cols, NULL, NULL, NULL, NULL};
        job.g = ppo_tape_alloc(node->tape, ppo__size(b) + ppo__size(a) + ppo__at(rows, b->cols + rank));
        if (!job.g) return;
        job.u = job.g + ppo__at(rows, b->cols);
        job.bt = job.u + ppo__at(rows, rank);
        job.at = job.bt + ppo__size(b);
        ppo__k()->transpose(rank, b->cols, b->data, b->cols, job.bt, rank);
        ppo__k()->transpose(a->rows, rank, a->data, rank, job.at, a->rows);
        ppo__parallel_for(rows, PPO__ROW_GRAIN, (double)rank * (a->rows + b->cols), ppo__lora_dx, &job);
        if (a->grad) ppo__parallel_for(a->rows, PPO__ROW_GRAIN, (double)rank * rows, ppo__lora_da, &job);
        if (b->grad) ppo__parallel_for(b->cols, PPO__ROW_GRAIN, (double)rank * rows, ppo__lora_db, &job);
    }
}

/* Where LoRA's layers are: in which of the four layers of a block, and in which columns of that. */
typedef struct ppo__lora_place {
    const char *name; /* in the family; NULL: the model has no such layer */
    int layer, in, column, cols;
} ppo__lora_place;

static ppo_tensor *ppo__layer_weight(const ppo_lm_block *b, int layer) {
    ppo_tensor *const weight[] = {b->qkv_weight, b->proj_weight, b->up_weight, b->down_weight};
    return weight[layer];
}

/* Finds the layer that has LoRA's number `place`; 0: the model has none. */
static int ppo__lora_at(const ppo_lm_config *c, int place, ppo__lora_place *at) {
    static const int layers[] = {PPO__LAYER_QKV, PPO__LAYER_QKV, PPO__LAYER_QKV, PPO__LAYER_PROJ,
                                 PPO__LAYER_UP,  PPO__LAYER_UP,  PPO__LAYER_DOWN};
    const int heads = c->heads * c->head_size, kv_heads = c->kv_heads * c->head_size;
    const int column[] = {0, heads, heads + kv_heads, 0, 0, c->glu ? c->hidden : 0, 0};
    const int cols[] = {heads, kv_heads, kv_heads, c->width, c->hidden, c->hidden, c->width};
    const char *const *name = ppo__families[c->family].lora;
    at->name = name[place];
    at->layer = layers[place];
    at->in = at->layer == PPO__LAYER_PROJ ? heads : at->layer == PPO__LAYER_DOWN ? c->hidden : c->width;
    at->column = column[place];
    at->cols = cols[place];
    if (place == PPO_LORA_Q && !name[PPO_LORA_K]) at->cols += 2 * kv_heads;
    if (place == PPO_LORA_UP && !name[PPO_LORA_GATE] && c->glu) at->column = 0, at->cols *= 2;
    return at->name && (place != PPO_LORA_GATE || c->glu);
}

PPO_DEF ppo_lora ppo_lora_default(void) {
    const ppo_lora lora = {8, 16, NULL, 1};
    return lora;
}

/* A model's adapter, and while it is made: */
typedef struct ppo__adapting {
    ppo_adapter adapter; /* with the layers that were asked for */
    int (*wanted)(const void *user, int block,
                  int place); /* does a layer of a block get LoRA? NULL: those do */
    const void *user;
} ppo__adapting;

/* Lists A and B of all layers that have LoRA, then the score, as ppo__lm_visit() does. */
static ppo_status ppo__lora_visit(ppo_lm *lm, ppo__lm_visit_fn visit, void *user) {
    ppo__adapting *how = (ppo__adapting *)(void *)lm->adapter;
    const ppo_lora *lora = &how->adapter.lora;
    ppo_status status = PPO_OK;
    int layers = 0;
    for (int i = 0; i < lm->full.layers * PPO_LORA_LAYERS && !status; ++i) {
        const int block = i / PPO_LORA_LAYERS, place = i % PPO_LORA_LAYERS;
        ppo__lora_place at;
        char name[96];
        if (!ppo__lora_at(&lm->full, place, &at)) continue;
        if (how->wanted ? !how->wanted(how->user, block, place)
                        : lora->layers && !ppo__is_word(at.name, lora->layers))
            continue;
        const char *half = at.layer < PPO__LAYER_UP ? "attn" : "mlp";
        snprintf(name, sizeof name, "transformer.h.%d.%s.%s.lora_A", block, half, at.name);
        status = visit(user, &lm->adapter->a[block][place], name, at.in, lora->rank, 1,
                       1 / sqrtf(3 * (float)at.in));
        snprintf(name, sizeof name, "transformer.h.%d.%s.%s.lora_B", block, half, at.name);
        if (!status) status = visit(user, &lm->adapter->b[block][place], name, lora->rank, at.cols, 0, 0);
        ++layers;
    }
    lm->score_weight = lm->score_bias = NULL;
    if (!status && !layers && !lm->full.score) return ppo__refuse("no layer of the model would get LoRA");
    return status ? status : ppo__visit_score(lm, visit, user);
}

/* random 0: A and B are left at 0, to be overwritten. */
static ppo_status ppo__lm_adapt(ppo_lm *base, const ppo_lora *lora,
                                int (*wanted)(const void *user, int block, int place), const void *user,
                                int score, int random, ppo_lm **lm) {
    ppo_lm *made = (ppo_lm *)ppo__alloc(sizeof *made);
    ppo__adapting *adapting = (ppo__adapting *)ppo__alloc(sizeof *adapting);
    if (!made || !adapting) return ppo__free(made), ppo__free(adapting), PPO_ERROR_MEMORY;
    *made = *base;
    adapting->adapter.lora = *lora;
    adapting->wanted = wanted;
    adapting->user = user;
    made->base = base;
    made->adapter = &adapting->adapter;
    made->params = NULL;
    made->config.score = made->full.score = score != 0;
    ppo_status status = ppo__lm_fill(made, ppo__lora_visit, lora->seed, random);
    made->adapter->lora.layers = NULL;
    if (status) return ppo_lm_free(made), status;
    return *lm = made, PPO_OK;
}

/* Copies the score, if both models have one. */
static void ppo__copy_score(const ppo_lm *from, ppo_lm *to) {
    if (!from->score_weight || !to->score_weight) return;
    ppo__tensor_read(from->score_weight, to->score_weight->data);
    ppo__tensor_read(from->score_bias, to->score_bias->data);
}

/* Refuses a layer that the family does not have, and names those that it has, each once. */
static ppo_status ppo__check_layer(const ppo_lm_config *c, const char *layer) {
    char known[160] = "";
    int used = 0;
    for (int k = 0; k < PPO_LORA_LAYERS; ++k) {
        const char *name = ppo__families[c->family].lora[k];
        if (!name || ppo__is_word(name, known)) continue;
        if (strcmp(name, layer) == 0) return PPO_OK;
        used += snprintf(known + used, sizeof known - (size_t)used, used ? " %s" : "%s", name);
    }
    return ppo__refuse("ppo_lm_adapt: there is no layer \"%s\", only %s", layer, known);
}

PPO_DEF ppo_status ppo_lm_adapt(ppo_lm *base, const ppo_lora *lora, int score, ppo_lm **lm) {
    if (lm) *lm = NULL;
    if (!PPO__GIVEN("ppo_lm_adapt", base, lora, lm)) return PPO_ERROR_ARGUMENT;
    if (base->base) return ppo__refuse("ppo_lm_adapt: the base has LoRA itself: ppo_lm_merge() it first");
    if (lora->rank < 1 || lora->rank > base->config.width)
        return ppo__refuse("ppo_lm_adapt: rank is %d, must be 1 to %d, the width", lora->rank,
                           base->config.width);
    if (!(lora->alpha > 0 && lora->alpha <= FLT_MAX))
        return ppo__refuse("ppo_lm_adapt: alpha is %g, must be above 0", lora->alpha);
    for (const char *word = lora->layers; word && *(word += strspn(word, " ,"));
         word += strcspn(word, " ,")) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(word, " ,"), word);
        if (ppo__check_layer(&base->config, name)) return PPO_ERROR_ARGUMENT;
    }
    ppo_status status = ppo_params_sync(base->params);
    if (!status) status = ppo_params_freeze(base->params, 1);
    if (!status) status = ppo__lm_adapt(base, lora, NULL, NULL, score, 1, lm);
    if (!status) ppo__copy_score(base, *lm);
    return status;
}

static int ppo__lora_same(const void *user, int block, int place) {
    return ((const ppo_lm *)user)->adapter->a[block][place] != NULL;
}

static ppo_status ppo__lora_twin(const ppo_lm *lm, int score, ppo_lm **twin) {
    ppo_status status = ppo__lm_adapt(lm->base, &lm->adapter->lora, ppo__lora_same, lm, score, 0, twin);
    if (!status) strcpy((*twin)->adapter->base_model, lm->adapter->base_model);
    return status;
}

static float ppo__lora_scale(const ppo_lm *lm) {
    return lm->adapter->lora.alpha / (float)lm->adapter->lora.rank;
}

static ppo_tensor *ppo__lora_layer(ppo_tape *tape, const ppo_lm *lm, int block, int layer, ppo_tensor *x,
                                   ppo_activation activation) {
    static const ppo_op op = {"lora", 1, ppo__lora_forward, ppo__lora_backward};
    const ppo_lm_block *b = &lm->block[block];
    ppo__lora_args args = {0, {0, 0, 0}, activation, ppo__lora_scale(lm)};
    ppo_tensor *in[PPO_MAX_INPUTS] = {x, NULL};
    for (int place = 0; place < PPO_LORA_LAYERS; ++place) {
        ppo__lora_place at;
        ppo_tensor *a = lm->adapter->a[block][place];
        if (!a || !ppo__lora_at(&lm->full, place, &at) || at.layer != layer) continue;
        args.column[args.parts] = at.column;
        in[2 + 2 * args.parts] = a;
        in[3 + 2 * args.parts++] = lm->adapter->b[block][place];
    }
    if (!args.parts) return ppo__lm_linear(tape, b, layer, x, activation);
    in[1] = ppo__lm_linear(tape, b, layer, x, PPO_IDENTITY);
    if (!in[1]) return NULL;
    return ppo_tape_result(
        ppo_tape_apply(tape, &op, in, 2 + 2 * args.parts, x->rows, in[1]->cols, &args, sizeof args));
}

PPO_DEF ppo_status ppo_lm_merge(const ppo_lm *lm, ppo_lm **merged) {
    if (merged) *merged = NULL;
    if (!PPO__GIVEN("ppo_lm_merge", lm, merged)) return PPO_ERROR_ARGUMENT;
    if (!lm->base) return ppo__refuse("ppo_lm_merge: the model has no LoRA");
    ppo_status status = ppo__params_fetch(lm->params);
    if (!status) status = ppo_lm_copy(lm->base, lm->config.score, merged);
    if (!status) (*merged)->config.context = lm->config.context;
    for (int i = 0; !status && i < lm->full.layers * PPO_LORA_LAYERS; ++i) {
        const int place = i % PPO_LORA_LAYERS;
        const int block = i / PPO_LORA_LAYERS;
        ppo__lora_place at;
        const ppo_tensor *a = lm->adapter->a[block][place], *b = lm->adapter->b[block][place];
        if (!a) continue;
        ppo__lora_at(&lm->full, place, &at);
        const ppo_tensor *w = ppo__layer_weight(&(*merged)->block[block], at.layer);
        float *scaled = (float *)ppo__alloc_uncleared(ppo__size(a) * sizeof *scaled);
        float *to = w->data + at.column;
        if (!scaled) status = PPO_ERROR_MEMORY;
        for (size_t k = 0; k < ppo__size(a) && scaled; ++k) scaled[k] = ppo__lora_scale(lm) * a->data[k];
        const int rank = a->cols, ld = w->cols;
        if (scaled) ppo__k()->gemm(at.in, at.cols, rank, scaled, rank, 1, b->data, at.cols, to, ld, to, ld);
        ppo__free(scaled);
    }
    if (!status) ppo__copy_score(lm, *merged);
    if (status && *merged) {
        ppo_lm_free(*merged);
        *merged = NULL;
    }
    return status;
}

/* -- norms of heads -- */

/* RMS norms of queries and keys, head by head: of the columns of x, the first `heads` heads with one weight (1,
   size), the next kv_heads with another (1, its size); the rest, the values, stays. OLMo 2 has one norm of all
   queries, and one of all keys: here one wide head each. kept: of each, a mean of 0, and 1 / root mean
   square. */
typedef struct ppo__head_norm_args {
    int heads, kv_heads;
    float eps;
} ppo__head_norm_args;

static ppo_status ppo__head_norm_forward(ppo_node *node) {
    const ppo__head_norm_args *args = (const ppo__head_norm_args *)node->args;
    const ppo_tensor *x = node->in[0];
    const int heads = args->heads + args->kv_heads;
    float *kept = ppo_tape_alloc(node->tape, ppo__at(x->rows, 2 * heads)), *y = node->out[0]->data;
    node->kept = kept;
    if (!kept) return PPO_ERROR_MEMORY;
    memcpy(y, x->data, ppo__size(x) * sizeof(float));
    for (int i = 0; i < x->rows; ++i) {
        size_t at = ppo__at(i, x->cols);
        for (int h = 0; h < heads; ++h, kept += 2) {
            const ppo_tensor *w = node->in[h < args->heads ? 1 : 2];
            ppo__k()->norm(0, args->eps, x->data + at, w->data, NULL, y + at, w->cols, &kept[0], &kept[1]);
            at += (size_t)w->cols;
        }
    }
    return PPO_OK;
}

static void ppo__head_norm_backward(ppo_node *node) {
    const ppo__head_norm_args *args = (const ppo__head_norm_args *)node->args;
    const ppo_tensor *x = node->in[0];
    const int heads = args->heads + args->kv_heads;
    const float *kept = (const float *)node->kept, *dy = node->out[0]->grad;
    for (int i = 0; i < x->rows; ++i) {
        size_t at = ppo__at(i, x->cols), end = at + (size_t)x->cols;
        for (int h = 0; h < heads; ++h, kept += 2) {
            const ppo_tensor *w = node->in[h < args->heads ? 1 : 2];
            ppo__k()->norm_backward(0, x->data + at, w->data, kept[0], kept[1], dy + at,
                                    x->grad ? x->grad + at : NULL, w->grad, NULL, w->cols);
            at += (size_t)w->cols;
        }
        for (; at < end && x->grad; ++at) x->grad[at] += dy[at];
    }
}

static ppo_tensor *ppo__qk_norm(ppo_tape *tape, const ppo_lm *lm, int block, ppo_tensor *x) {
    static const ppo_op op = {"qk_norm", 1, ppo__head_norm_forward, ppo__head_norm_backward};
    const int whole = lm->full.qk_norm == 2;
    const ppo__head_norm_args args = {whole ? 1 : lm->full.heads, whole ? 1 : lm->full.kv_heads,
                                      lm->full.norm_eps};
    ppo_tensor *in[3] = {x, lm->block[block].q_norm, lm->block[block].k_norm};
    if (!x) return NULL;
    return ppo_tape_result(ppo_tape_apply(tape, &op, in, 3, x->rows, x->cols, &args, sizeof args));
}

/* -- the memory of a run -- */

static double ppo__arena_bytes(const ppo__arena *arena) {
    double bytes = 0;
    for (const ppo__page *page = arena->page; page; page = page->next) bytes += (double)page->size;
    return bytes;
}

static double ppo__tape_bytes(const ppo_tape *tape) {
    const ppo__record *records[] = {&tape->now, &tape->block};
    double bytes = ppo__arena_bytes(&tape->scratch);
    for (int k = 0; k < 2; ++k)
        bytes += ppo__arena_bytes(&records[k]->arena) + ppo__arena_bytes(&records[k]->numbers) +
                 ppo__arena_bytes(&records[k]->grads);
    return bytes;
}

PPO_DEF ppo_memory ppo_rlhf_memory(const ppo_rlhf *r) {
    ppo_memory m = {0, 0, 0, 0, 0};
    if (!PPO__GIVEN("ppo_rlhf_memory", r)) return m;
    const ppo_lm *lm[6] = {r->policy, r->reference, r->critic, NULL, NULL, NULL};
    for (int k = 0; k < 3; ++k) lm[3 + k] = lm[k] ? lm[k]->base : NULL;
    for (int k = 0; k < 6; ++k) {
        int before = 0;
        while (before < k && lm[before] != lm[k]) ++before;
        if (!lm[k] || before < k) continue;
        const double one = (double)ppo__blocks_size(lm[k]->params, 1);
        m.weights += one;
        m.training += (double)ppo__blocks_size(lm[k]->params, 4) - one;
    }
    const double kept = r->kept ? 3.0 * (double)r->policy->params->capacity * sizeof(float) : 0;
    m.training += kept;
    for (int k = 0; k < r->learner.lanes; ++k) m.activations += ppo__tape_bytes(r->learner.lane[k].tape);
    for (int k = 0; k < r->generator->samplers; ++k)
        m.sampling += ppo__tape_bytes(r->generator->sampler[k].tape);
    m.sampling += ppo__arena_bytes(&r->generator->memory) + ppo__arena_bytes(&r->generator->numbers) +
                  ppo__arena_bytes(&r->generator->results_memory);
    m.training += ppo__arena_bytes(&r->learner.memory); /* gradients of lanes and shards */
    m.samples = ppo__arena_bytes(&r->memory) + ppo__arena_bytes(&r->numbers) - kept;
    return m;
}

/* --------------------------------------------------------------------------------------------------------
   @@ 3 Models in folders
   --------------------------------------------------------------------------------------------------------

   A folder of the model hub has the settings in config.json (ppo__hub_config()), and names and layouts of
   arrays that depend on the family (ppo__hub_serialize()); both directions use the same tables.
   -------------------------------------------------------------------------------------------------------- */

static int ppo__layout(const ppo_lm_config *c) { return ppo__families[c->family].layout; }

/* Settings, and their keys in the config.json of each layout; NULL: it has no such key. "a|b": a or b,
   whichever is there; the last is written. "rope.a": a in the object of rotary positions, "local.a": in that of
   layers with a window. */
static const struct {
    const char *name;
    int required; /* 1: the key must be there, if the setting has an effect */
    const char *key[PPO__LAYOUTS];
} ppo__hub_settings[] = {
    /* GPT-2, GPT-Neo, GPT-NeoX, Llama, OPT */
    {"vocab", 1, {"vocab_size", "vocab_size", "vocab_size", "vocab_size", "vocab_size"}},
    {"context",
     1,
     {"n_positions", "max_position_embeddings", "max_position_embeddings", "max_position_embeddings",
      "max_position_embeddings"}},
    {"width", 1, {"n_embd", "hidden_size", "hidden_size", "hidden_size", "hidden_size"}},
    {"layers", 1, {"n_layer", "num_layers", "num_hidden_layers", "num_hidden_layers", "num_hidden_layers"}},
    {"heads",
     1,
     {"n_head", "num_heads", "num_attention_heads", "num_attention_heads", "num_attention_heads"}},
    {"kv_heads", 0, {NULL, NULL, NULL, "num_key_value_heads", NULL}},
    {"head_size", 0, {NULL, NULL, NULL, "head_dim", NULL}},
    {"hidden", 0, {"n_inner", "intermediate_size", "intermediate_size", "intermediate_size", "ffn_dim"}},
    {"activation",
     0,
     {"activation_function", "activation_function", "hidden_act", "hidden_act", "activation_function"}},
    {"norm_eps", 0, {"layer_norm_epsilon", "layer_norm_epsilon", "layer_norm_eps", "rms_norm_eps", NULL}},
    {"attention_scale", 0, {NULL, NULL, NULL, NULL, NULL}},
    {"embedding_scale", 0, {NULL, NULL, NULL, NULL, NULL}},
    {"residual_scale", 0, {NULL, NULL, NULL, NULL, NULL}},
    {"logits_scaling", 0, {NULL, NULL, NULL, NULL, NULL}},
    {"window", 0, {NULL, "window_size", NULL, "sliding_window", NULL}},
    {"parallel", 0, {NULL, NULL, "use_parallel_residual", NULL, NULL}},
    {"qkv_bias", 0, {NULL, NULL, "attention_bias", "attention_bias", "enable_bias"}},
    {"proj_bias", 0, {NULL, NULL, "attention_bias", "attention_bias", "enable_bias"}},
    {"ffn_bias", 0, {NULL, NULL, NULL, "mlp_bias", "enable_bias"}},
    {"rotary_size", 0, {NULL, NULL, NULL, NULL, NULL}},
    {"rope_theta", 0, {NULL, NULL, "rope.rope_theta|rotary_emb_base", "rope.rope_theta|rope_theta", NULL}},
    {"window_theta", 0, {NULL, NULL, NULL, NULL, NULL}},
    {"tied",
     0,
     {"tie_word_embeddings", "tie_word_embeddings", "tie_word_embeddings", "tie_word_embeddings",
      "tie_word_embeddings"}},
    {"eos", 0, {"eos_token_id", "eos_token_id", "eos_token_id", "eos_token_id", "eos_token_id"}},
    {"rope_scaling", 0, {NULL, NULL, "rope.rope_type", "rope.rope_type", NULL}},
    {"rope_context",
     0,
     {NULL, NULL, "rope.original_max_position_embeddings", "rope.original_max_position_embeddings", NULL}},
    {"rope_factor", 1, {NULL, NULL, "rope.factor", "rope.factor", NULL}},
    {"rope_low", 1, {NULL, NULL, "rope.low_freq_factor", "rope.low_freq_factor", NULL}},
    {"rope_high", 1, {NULL, NULL, "rope.high_freq_factor", "rope.high_freq_factor", NULL}},
};
enum { PPO__HUB_SETTINGS = sizeof ppo__hub_settings / sizeof *ppo__hub_settings };

/* NULL: the family has no such setting. */
static const char *ppo__hub_key(int k, const ppo_lm_config *c) {
    const char *const(*own)[2] = ppo__families[c->family].own;
    for (int i = 0; i < PPO__OWN_KEYS && own[i][0]; ++i)
        if (!strcmp(own[i][0], ppo__hub_settings[k].name)) return own[i][1];
    if (c->rope_scaling == PPO_ROPE_YARN && !strcmp(ppo__hub_settings[k].name, "rope_low"))
        return "rope.beta_slow";
    if (c->rope_scaling == PPO_ROPE_YARN && !strcmp(ppo__hub_settings[k].name, "rope_high"))
        return "rope.beta_fast";
    const int lacks = ppo__is_word(ppo__hub_settings[k].name, ppo__families[c->family].lacks);
    return lacks ? NULL : ppo__hub_settings[k].key[ppo__layout(c)];
}

/* Does a setting have an effect, given the others? */
static int ppo__hub_applies(const ppo_lm_config *c, const char *name) {
    if (!strcmp(name, "rope_factor")) return c->rope_scaling != PPO_ROPE_PLAIN;
    return c->rope_scaling >= PPO_ROPE_LLAMA3 ||
           (strcmp(name, "rope_low") && strcmp(name, "rope_high") && strcmp(name, "rope_context"));
}

/* Words of a setting in config.json, and in ppo.h; of several, the first is written. */
enum { PPO__WORD_SETTING, PPO__WORD_OF_HUB, PPO__WORD_OF_CORE };
static const char *const ppo__hub_words[][3] = {
    {"activation", "gelu_new", "gelu"},   {"activation", "gelu_pytorch_tanh", "gelu"},
    {"activation", "gelu_fast", "gelu"},  {"activation", "gelu", "gelu_erf"},
    {"activation", "silu", "silu"},       {"activation", "swish", "silu"},
    {"activation", "relu", "relu"},       {"activation", "tanh", "tanh"},
    {"rope_scaling", "default", "plain"}, {"rope_scaling", "linear", "linear"},
    {"rope_scaling", "llama3", "llama3"}, {"rope_scaling", "yarn", "yarn"},
    {"rope_scaling", "dynamic", "plain"}, /* which it is up to max_position_embeddings, the context here */
};

/* Translates a setting's word from a column of the table to the other one. A setting that is not in the
   table keeps its word; NULL: the word is not known. */
static const char *ppo__hub_word(const char *name, const char *word, int from) {
    const int to = from == PPO__WORD_OF_HUB ? PPO__WORD_OF_CORE : PPO__WORD_OF_HUB;
    const char *same = word;
    for (size_t k = 0; k < sizeof ppo__hub_words / sizeof *ppo__hub_words; ++k) {
        if (strcmp(ppo__hub_words[k][PPO__WORD_SETTING], name)) continue;
        if (!strcmp(ppo__hub_words[k][from], word)) return ppo__hub_words[k][to];
        same = NULL;
    }
    return same;
}

/* How an array of the file lies in a parameter. */
enum {
    PPO__AS_IS,
    PPO__LESS_ONE,   /* the array is the parameter less 1, */
    PPO__AFTER_TWO,  /* has two rows more, which come first and are not used */
    PPO__TRANSPOSED, /* the array is (out, in) */
    PPO__QUERIES,    /* transposed, as some of the columns: queries, */
    PPO__KEYS,
    PPO__VALUES,
    PPO__GATE_HALF, /* the first half of the columns of a gated layer, */
    PPO__UP_HALF,   /* the second half */
    PPO__MIXED      /* transposed; the array has queries, keys and values of each head side by side */
};

/* Parameters, and what they are called in the file; both without ".weight" and ".bias". %d: the block. */
typedef struct ppo__hub_row {
    const char *parameter, *array;
    int how;
} ppo__hub_row;

#define PPO__BLOCK(name)   "transformer.h.%d." name
#define PPO__NEOX(name)    "gpt_neox.layers.%d." name
#define PPO__MODEL(name)   "model.layers.%d." name
#define PPO__DECODER(name) "model.decoder.layers.%d." name
#define PPO__QKV_ROWS(attention)                                      \
    {PPO__BLOCK("attn.c_attn"), attention "q_proj", PPO__QUERIES},    \
        {PPO__BLOCK("attn.c_attn"), attention "k_proj", PPO__KEYS}, { \
        PPO__BLOCK("attn.c_attn"), attention "v_proj", PPO__VALUES    \
    }
#define PPO__GATED_ROWS                                                        \
    {PPO__BLOCK("mlp.c_fc"), PPO__MODEL("mlp.gate_proj"), PPO__GATE_HALF},     \
        {PPO__BLOCK("mlp.c_fc"), PPO__MODEL("mlp.up_proj"), PPO__UP_HALF}, {   \
        PPO__BLOCK("mlp.c_proj"), PPO__MODEL("mlp.down_proj"), PPO__TRANSPOSED \
    }
#define PPO__HEAD_ROWS(lm_head) \
    {"lm_head", lm_head, PPO__AS_IS}, { "score", "score", PPO__TRANSPOSED }
static const ppo__hub_row ppo__hub_rows[PPO__NAMINGS][18] = {
    {{"transformer.wte", "transformer.wte", PPO__AS_IS},
     {"transformer.wpe", "transformer.wpe", PPO__AS_IS},
     {PPO__BLOCK("ln_1"), PPO__BLOCK("ln_1"), PPO__AS_IS},
     {PPO__BLOCK("attn.c_attn"), PPO__BLOCK("attn.c_attn"), PPO__AS_IS},
     {PPO__BLOCK("attn.c_proj"), PPO__BLOCK("attn.c_proj"), PPO__AS_IS},
     {PPO__BLOCK("ln_2"), PPO__BLOCK("ln_2"), PPO__AS_IS},
     {PPO__BLOCK("mlp.c_fc"), PPO__BLOCK("mlp.c_fc"), PPO__AS_IS},
     {PPO__BLOCK("mlp.c_proj"), PPO__BLOCK("mlp.c_proj"), PPO__AS_IS},
     {"transformer.ln_f", "transformer.ln_f", PPO__AS_IS},
     PPO__HEAD_ROWS("lm_head")},

    {{"transformer.wte", "transformer.wte", PPO__AS_IS},
     {"transformer.wpe", "transformer.wpe", PPO__AS_IS},
     {PPO__BLOCK("ln_1"), PPO__BLOCK("ln_1"), PPO__AS_IS},
     PPO__QKV_ROWS(PPO__BLOCK("attn.attention.")),
     {PPO__BLOCK("attn.c_proj"), PPO__BLOCK("attn.attention.out_proj"), PPO__TRANSPOSED},
     {PPO__BLOCK("ln_2"), PPO__BLOCK("ln_2"), PPO__AS_IS},
     {PPO__BLOCK("mlp.c_fc"), PPO__BLOCK("mlp.c_fc"), PPO__TRANSPOSED},
     {PPO__BLOCK("mlp.c_proj"), PPO__BLOCK("mlp.c_proj"), PPO__TRANSPOSED},
     {"transformer.ln_f", "transformer.ln_f", PPO__AS_IS},
     PPO__HEAD_ROWS("lm_head")},

    {{"transformer.wte", "gpt_neox.embed_in", PPO__AS_IS},
     {PPO__BLOCK("ln_1"), PPO__NEOX("input_layernorm"), PPO__AS_IS},
     {PPO__BLOCK("attn.c_attn"), PPO__NEOX("attention.query_key_value"), PPO__MIXED},
     {PPO__BLOCK("attn.c_proj"), PPO__NEOX("attention.dense"), PPO__TRANSPOSED},
     {PPO__BLOCK("ln_2"), PPO__NEOX("post_attention_layernorm"), PPO__AS_IS},
     {PPO__BLOCK("mlp.c_fc"), PPO__NEOX("mlp.dense_h_to_4h"), PPO__TRANSPOSED},
     {PPO__BLOCK("mlp.c_proj"), PPO__NEOX("mlp.dense_4h_to_h"), PPO__TRANSPOSED},
     {"transformer.ln_f", "gpt_neox.final_layer_norm", PPO__AS_IS},
     PPO__HEAD_ROWS("embed_out")},

    {{"transformer.wte", "model.embed_tokens", PPO__AS_IS},
     {PPO__BLOCK("ln_1"), PPO__MODEL("input_layernorm"), PPO__AS_IS},
     PPO__QKV_ROWS(PPO__MODEL("self_attn.")),
     {PPO__BLOCK("attn.q_norm"), PPO__MODEL("self_attn.q_norm"), PPO__AS_IS},
     {PPO__BLOCK("attn.k_norm"), PPO__MODEL("self_attn.k_norm"), PPO__AS_IS},
     {PPO__BLOCK("attn.c_proj"), PPO__MODEL("self_attn.o_proj"), PPO__TRANSPOSED},
     {PPO__BLOCK("ln_2"), PPO__MODEL("post_attention_layernorm"), PPO__AS_IS},
     PPO__GATED_ROWS,
     {"transformer.ln_f", "model.norm", PPO__AS_IS},
     PPO__HEAD_ROWS("lm_head")},

    {{"transformer.wte", "model.decoder.embed_tokens", PPO__AS_IS},
     {"transformer.wpe", "model.decoder.embed_positions", PPO__AFTER_TWO},
     {PPO__BLOCK("ln_1"), PPO__DECODER("self_attn_layer_norm"), PPO__AS_IS},
     PPO__QKV_ROWS(PPO__DECODER("self_attn.")),
     {PPO__BLOCK("attn.c_proj"), PPO__DECODER("self_attn.out_proj"), PPO__TRANSPOSED},
     {PPO__BLOCK("ln_2"), PPO__DECODER("final_layer_norm"), PPO__AS_IS},
     {PPO__BLOCK("mlp.c_fc"), PPO__DECODER("fc1"), PPO__TRANSPOSED},
     {PPO__BLOCK("mlp.c_proj"), PPO__DECODER("fc2"), PPO__TRANSPOSED},
     {"transformer.ln_f", "model.decoder.final_layer_norm", PPO__AS_IS},
     PPO__HEAD_ROWS("lm_head")},

    /* Gemma 3 */
    {{"transformer.wte", "model.embed_tokens", PPO__AS_IS},
     {PPO__BLOCK("ln_1"), PPO__MODEL("input_layernorm"), PPO__LESS_ONE},
     PPO__QKV_ROWS(PPO__MODEL("self_attn.")),
     {PPO__BLOCK("attn.q_norm"), PPO__MODEL("self_attn.q_norm"), PPO__LESS_ONE},
     {PPO__BLOCK("attn.k_norm"), PPO__MODEL("self_attn.k_norm"), PPO__LESS_ONE},
     {PPO__BLOCK("attn.c_proj"), PPO__MODEL("self_attn.o_proj"), PPO__TRANSPOSED},
     {PPO__BLOCK("ln_3"), PPO__MODEL("post_attention_layernorm"), PPO__LESS_ONE},
     {PPO__BLOCK("ln_2"), PPO__MODEL("pre_feedforward_layernorm"), PPO__LESS_ONE},
     PPO__GATED_ROWS,
     {PPO__BLOCK("ln_4"), PPO__MODEL("post_feedforward_layernorm"), PPO__LESS_ONE},
     {"transformer.ln_f", "model.norm", PPO__LESS_ONE},
     PPO__HEAD_ROWS("lm_head")},

    /* OLMo 2 */
    {{"transformer.wte", "model.embed_tokens", PPO__AS_IS},
     PPO__QKV_ROWS(PPO__MODEL("self_attn.")),
     {PPO__BLOCK("attn.q_norm"), PPO__MODEL("self_attn.q_norm"), PPO__AS_IS},
     {PPO__BLOCK("attn.k_norm"), PPO__MODEL("self_attn.k_norm"), PPO__AS_IS},
     {PPO__BLOCK("attn.c_proj"), PPO__MODEL("self_attn.o_proj"), PPO__TRANSPOSED},
     {PPO__BLOCK("ln_3"), PPO__MODEL("post_attention_layernorm"), PPO__AS_IS},
     PPO__GATED_ROWS,
     {PPO__BLOCK("ln_4"), PPO__MODEL("post_feedforward_layernorm"), PPO__AS_IS},
     {"transformer.ln_f", "model.norm", PPO__AS_IS},
     PPO__HEAD_ROWS("lm_head")},

    /* Phi 3 */
    {{"transformer.wte", "model.embed_tokens", PPO__AS_IS},
     {PPO__BLOCK("ln_1"), PPO__MODEL("input_layernorm"), PPO__AS_IS},
     {PPO__BLOCK("attn.c_attn"), PPO__MODEL("self_attn.qkv_proj"), PPO__TRANSPOSED},
     {PPO__BLOCK("attn.c_proj"), PPO__MODEL("self_attn.o_proj"), PPO__TRANSPOSED},
     {PPO__BLOCK("ln_2"), PPO__MODEL("post_attention_layernorm"), PPO__AS_IS},
     {PPO__BLOCK("mlp.c_fc"), PPO__MODEL("mlp.gate_up_proj"), PPO__TRANSPOSED},
     {PPO__BLOCK("mlp.c_proj"), PPO__MODEL("mlp.down_proj"), PPO__TRANSPOSED},
     {"transformer.ln_f", "model.norm", PPO__AS_IS},
     PPO__HEAD_ROWS("lm_head")},
};

/* The rows of a model's layout; the last is followed by one without a parameter. */
static const ppo__hub_row *ppo__hub_rows_of(const ppo_lm_config *c) {
    return ppo__hub_rows[ppo__families[c->family].arrays];
}

/* What the weight of a parameter that every layout has is called in the file. */
static const char *ppo__hub_weight(const ppo_lm_config *c, const char *parameter, char text[80]) {
    const ppo__hub_row *row = ppo__hub_rows_of(c);
    while (strcmp(row->parameter, parameter)) ++row;
    snprintf(text, 80, "%s.weight", row->array);
    return text;
}

/* Arrays with these ends are no parameters: causal masks, and what rotary positions are computed from. */
static const char *const ppo__hub_buffers[] = {".attn.bias", ".attn.masked_bias", ".attention.bias",
                                               ".attention.masked_bias", ".rotary_emb.inv_freq"};

/* -- config.json -- */

typedef struct ppo__hub_json {
    ppo__json json;
    ppo__value *all; /* of it */
    char key[64];    /* what was looked for last */
} ppo__hub_json;

/* The first of "a|b" that is there, or NULL. What begins with "rope." is in the object that transformers 4
   calls rope_scaling, or else, where 5 writes it, in rope_parameters, which has one for each kind of layers if
   these differ ("local.": those with a window). */
static ppo__value *ppo__hub_get(ppo__hub_json *hub, const char *keys) {
    ppo__value *value = NULL, *kind;
    for (size_t n; !value && *keys; keys += n + (keys[n] == '|')) {
        ppo__value *in = hub->all;
        const int local = !strncmp(keys, "local.", 6), dot = local ? 5 : strncmp(keys, "rope.", 5) ? 0 : 4;
        const char *rope = dot ? "rope_scaling" : "";
        if (dot) in = local ? NULL : ppo__json_get(&hub->json, hub->all, rope);
        if (dot && (!in || (in->kind == '{' && !in->count))) {
            in = ppo__json_get(&hub->json, hub->all, rope = "rope_parameters");
            kind = ppo__json_get(&hub->json, in, local ? "sliding_attention" : "full_attention");
            if (kind || local) in = kind;
        }
        n = strcspn(keys, "|");
        snprintf(hub->key, sizeof hub->key, "%s%.*s", rope, (int)n - dot, keys + dot);
        value = ppo__json_get(&hub->json, in, hub->key + strlen(rope) + !!dot);
    }
    return value;
}

/* The same as the text of a setting. */
static const char *ppo__hub_text(ppo__hub_json *hub, const char *keys) {
    ppo__value *value = ppo__hub_get(hub, keys);
    if (!value) return NULL;
    if (value->kind == '"' || value->kind == 's') return ppo__json_decode(&hub->json, value);
    if (value->kind == 't' || value->kind == 'f') return value->kind == 't' ? "yes" : "no";
    if (value->kind == '{') return value->count ? "{...}" : "{}";
    ppo__json_skip(&hub->json);
    *hub->json.at = 0; /* a character that was taken already */
    for (char *from = value->at, *to = from; (*to = *from) != 0; ++from) to += (unsigned char)*from > ' ';
    return value->at;
}

static int ppo__hub_is(ppo__hub_json *hub, const char *key, const char *text) {
    const char *is = ppo__hub_text(hub, key);
    return is && !strcmp(is, text);
}

static ppo_status ppo__hub_unknown(const ppo__hub_json *hub, const char *text) {
    return ppo__file_fail(hub->json.path, "%s \"%.60s\" is not known", hub->key, text);
}

/* The bits of the layers that have a window, from a list of words, the windowed one of which is `local`; or
   from pairs of a list and how often it is repeated, as GPT-Neo's [[["global", "local"], 6]]. */
static ppo_status ppo__hub_layers(ppo__hub_json *hub, ppo__value *list, const char *local, const char *global,
                                  ppo_lm_config *c) {
    ppo__json *json = &hub->json;
    uint64_t bits = 0;
    int layer = 0, first = 0; /* of the list of words */
    if (list->kind != '[') ppo__json_expect(json, '[');
    for (ppo__value *v = list + 1; v < list + list->size && !json->status; ++v) {
        json->at = v->at;
        if (v->kind == '[') first = layer;
        else if (v->kind == '0') {
            const int64_t times = ppo__json_integer(json);
            if (json->status) break;
            const int n = layer - first,
                      end = first + n * (times < PPO_MAX_LAYERS ? (int)times : (int)PPO_MAX_LAYERS);
            for (; layer < end && layer < PPO_MAX_LAYERS; ++layer) bits |= (bits >> (layer - n) & 1) << layer;
            if ((layer = end) < 64) bits &= ~(UINT64_MAX << layer); /* repeated 0 times */
        } else {
            const char *word = ppo__json_decode(json, v);
            const int is_local = !strcmp(word, local);
            if (json->status) break;
            if (!is_local && strcmp(word, global)) return ppo__hub_unknown(hub, word);
            if (layer < PPO_MAX_LAYERS) bits |= (uint64_t)is_local << layer;
            ++layer;
        }
    }
    if (json->status) return json->status;
    if (layer != c->layers)
        return ppo__file_fail(json->path, "%s lists %d layers of %d", hub->key, layer, c->layers);
    if (!bits) c->window = 0;
    c->window_layers = bits == UINT64_MAX >> (64 - layer) ? 0 : bits; /* 0: all of them */
    return PPO_OK;
}

/* Which layers have a window; c->window is set. */
static ppo_status ppo__hub_window(ppo__hub_json *hub, ppo_lm_config *c) {
    const int layout = ppo__layout(c), gemma = ppo__family_is(c, "gemma3_text"),
              all = ppo__family_is(c, "mistral") || ppo__family_is(c, "phi3");
    const char *rest = "";
    ppo__value *list = layout == PPO__GPT_NEO ? ppo__hub_get(hub, "attention_layers|attention_types") : NULL;
    if (list) return ppo__hub_layers(hub, list, "local", "global", c);
    if (layout != PPO__LLAMA || !c->window) return PPO_OK;
    if (!all && !gemma && !ppo__hub_is(hub, "use_sliding_window", "yes")) return c->window = 0, PPO_OK;
    list = ppo__hub_get(hub, "layer_types");
    if (list) return ppo__hub_layers(hub, list, "sliding_attention", "full_attention", c);
    if (ppo__family_is(c, "smollm3")) /* those without positions, if there are any */
        return c->window_layers = c->nope_layers, c->window *= c->nope_layers != 0, PPO_OK;
    const char *from =
        all ? NULL : ppo__hub_text(hub, gemma ? "sliding_window_pattern" : "max_window_layers");
    int64_t first = from ? ppo__parse_digits(from, &rest) : all ? 0 : gemma ? 6 : 28;
    if (first < gemma || *rest) return ppo__hub_unknown(hub, from);
    if (gemma) return c->window_layers = ppo__but_every(first < 65 ? (int)first : 65), PPO_OK;
    if (first >= c->layers) c->window = 0;
    for (int64_t k = first; k < c->layers && first && k < 64; ++k) c->window_layers |= (uint64_t)1 << k;
    return PPO_OK;
}

/* Which layers have no positions: SmolLM3 lists a 1 for those that have. */
static ppo_status ppo__hub_positions(ppo__hub_json *hub, ppo_lm_config *c) {
    ppo__value *list = ppo__hub_get(hub, "no_rope_layers"), *item = NULL;
    const char *rest = "", *text = list ? NULL : ppo__hub_text(hub, "no_rope_layer_interval");
    const int64_t interval = text ? ppo__parse_digits(text, &rest) : 4;
    int layer = 0;
    if (interval < 1 || *rest) return ppo__hub_unknown(hub, text);
    c->nope_layers = list ? 0 : ~ppo__but_every(interval < 65 ? (int)interval : 65);
    for (; list && ppo__json_each(&hub->json, list, '[', &item); ++layer)
        if (!ppo__json_int(&hub->json) && layer < PPO_MAX_LAYERS) c->nope_layers |= (uint64_t)1 << layer;
    c->nope_layers &= UINT64_MAX >> (64 - c->layers);
    if (hub->json.status || !list || layer >= c->layers) return hub->json.status;
    return ppo__file_fail(hub->json.path, "no_rope_layers lists %d layers of %d", layer, c->layers);
}

static ppo_status ppo__hub_config(ppo__hub_json *hub, ppo_lm_config *c) {
    static const char *const refused[] = {"quantization_config",      "scale_attn_by_inverse_layer_idx",
                                          "add_cross_attention",      "is_encoder_decoder",
                                          "_remove_final_layer_norm", "final_logit_softcapping",
                                          "attn_logit_softcapping",   "use_bidirectional_attention",
                                          "rope.attention_factor",    "rope.mscale"};
    static const char *const needed[] = {"do_layer_norm_before", "layer_norm_elementwise_affine",
                                         "rope.truncate"};
    const char *path = hub->json.path, *family = ppo__hub_text(hub, "model_type");
    double number;
    *c = ppo_lm_config_default();
    if (hub->json.status) return hub->json.status;
    if (!family) return ppo__file_fail(path, "there is no model_type");
    if (ppo_lm_config_family(c, family))
        return ppo__file_fail(path, "model_type \"%.40s\" is not known, only " PPO__FAMILY_WORDS, family);
    for (size_t k = 0; k < sizeof refused / sizeof *refused; ++k)
        if (ppo__hub_get(hub, refused[k]) && !ppo__hub_is(hub, refused[k], "no"))
            return ppo__file_fail(path, "%s is there, which is not supported", refused[k]);
    for (size_t k = 0; k < sizeof needed / sizeof *needed; ++k)
        if (ppo__hub_is(hub, needed[k], "no"))
            return ppo__file_fail(path, "%s is false, which is not supported", needed[k]);
    const char *local = ppo__hub_text(hub, "local.rope_type");
    if (local && strcmp(local, "default")) return ppo__hub_unknown(hub, local);
    if (!strcmp(family, "qwen3")) c->head_size = 128;
    if (!strcmp(family, "gemma3_text")) c->head_size = 256;
    for (int k = 0; k < PPO__HUB_SETTINGS; ++k) {
        const char *name = ppo__hub_settings[k].name, *key = ppo__hub_key(k, c);
        if (!key || !ppo__hub_applies(c, name)) continue;
        const char *text = ppo__hub_text(hub, key), *value;
        if (!text && !strcmp(name, "rope_scaling")) text = ppo__hub_text(hub, "rope.type");
        if (!text && !strcmp(name, "rope_context")) c->rope_context = c->context;
        if (!text && !strcmp(name, "rotary_size")) text = ppo__layout(c) == PPO__GPT_NEOX ? "0.25" : "1";
        if (hub->json.status) return hub->json.status;
        const int beta = strstr(key, "rope.beta_") != NULL;
        if (!text && beta) text = strstr(key, "fast") ? "32" : "1";
        if (!text && ppo__hub_settings[k].required) return ppo__file_fail(path, "there is no %s", hub->key);
        if (!text) continue;
        /* Of several ends of a text the first; GPT-2's, which a smaller vocabulary lacks, is none. */
        if (!strcmp(name, "eos")) {
            text += *text == '[';
            const int64_t token = ppo__parse_digits(text, &value);
            if (token >= 0 && token < c->vocab) c->eos = (int)token;
            continue;
        }
        if (!strcmp(name, "rotary_size")) { /* a share of the head's size */
            if (!ppo__parse_number(text, &number) || !(number > 0 && number <= 1))
                return ppo__hub_unknown(hub, text);
            c->rotary_size = (int)(number * (c->head_size ? c->head_size : c->width / c->heads));
            continue;
        }
        if (!strcmp(key, "query_pre_attn_scalar")) {
            if (!ppo__parse_number(text, &number) || !(number >= 1e-9 && number <= 1e9))
                return ppo__hub_unknown(hub, text);
            c->attention_scale = (float)(1 / sqrt(number));
            continue;
        }
        value = ppo__hub_word(name, text, PPO__WORD_OF_HUB);
        if (!value) return ppo__hub_unknown(hub, text);
        if (ppo_settings_set(&ppo__lm_settings, c, name, value))
            return ppo__file_fail(path, "%s: %s", hub->key, ppo__error);
    }
    if (ppo__hub_is(hub, "scale_attn_weights", "no")) c->attention_scale = 1;
    ppo_status status = ppo__family_is(c, "smollm3") ? ppo__hub_positions(hub, c) : PPO_OK;
    if (!status) status = ppo__hub_window(hub, c);
    if (!c->window) c->window_theta = 0; /* of no layer */
    return status ? status : hub->json.status;
}

/* -- arrays -- */

static float ppo__half_float(uint16_t half) {
    const int exponent = half >> 10 & 31, digits = half & 1023;
    const float size = exponent == 31 ? (digits ? NAN : INFINITY)
                       : exponent     ? ldexpf((float)(1024 + digits), exponent - 25)
                                      : ldexpf((float)digits, -24);
    return half & 0x8000 ? -size : size;
}

/* The nearest one, of two the even one; beyond the largest, infinity. */
static uint16_t ppo__float_half(float x) {
    int exponent;
    const float size = fabsf(x);
    const uint16_t sign = (uint16_t)(x < 0 ? 0x8000 : 0);
    frexpf(size, &exponent);
    if (exponent < -13) exponent = -13; /* subnormal */
    const float digits = nearbyintf(ldexpf(size, 11 - exponent));
    if (!(size < 65520)) return (uint16_t)(sign | 0x7c00);
    return (uint16_t)(sign | (digits < 1024 ? (int)digits : (exponent + 13) * 1024 + (int)digits));
}

static void ppo__to_floats(int type, const void *from, size_t n, float *to) {
    const uint16_t *two = (const uint16_t *)from;
    if (type == PPO_F32) memcpy(to, from, n * sizeof *to);
    for (size_t i = 0; i < n && type == PPO_F16; ++i) to[i] = ppo__half_float(two[i]);
    if (type == PPO_BF16) ppo__widen(two, n, to);
}

static void ppo__from_floats(int type, const float *from, size_t n, void *to) {
    uint16_t *two = (uint16_t *)to;
    if (type == PPO_F32) memcpy(to, from, n * sizeof *from);
    for (size_t i = 0; i < n && type == PPO_F16; ++i) two[i] = ppo__float_half(from[i]);
    if (type == PPO_BF16) ppo__narrow(from, n, two);
}

typedef struct ppo__hub {
    const char *folder;
    ppo__arena memory;
    ppo_file **files; /* with the arrays */
    ppo_lm *lm;
    int bare;       /* 1: names lack their first word, as "transformer." */
    ppo_dtype type; /* of what is saved */
    float *floats;  /* room for twice PPO__ROWS_AT_ONCE rows of this many columns */
    int room;
    const ppo__hub_row *rows; /* names of arrays, if they are not those of the layout; */
    /* what then reads or writes one, as ppo__hub_array() */
    ppo_status (*array)(struct ppo__hub *hub, int way, const char *name, ppo_tensor *x, int how, int rows,
                        int cols, int rank);
} ppo__hub;

static void ppo__hub_free(ppo__hub *hub) {
    for (size_t i = 0; i < stbds_arrlenu(hub->files); ++i) ppo_file_free(hub->files[i]);
    ppo__array_free((void *)hub->files);
    ppo__arena_free(&hub->memory);
}

static const char *ppo__hub_path(ppo__hub *hub, const char *name) {
    return ppo__path_in(&hub->memory, hub->folder, name);
}

static const ppo_array *ppo__hub_find(const ppo__hub *hub, const char *name, const ppo_file **file) {
    const ppo_array *array = NULL;
    const char *bare = strchr(name, '.');
    for (size_t i = 0; i < stbds_arrlenu(hub->files) && !array; ++i) {
        array = ppo_file_find(*file = hub->files[i], name);
        if (!array && hub->bare && bare) array = ppo_file_find(*file, bare + 1);
    }
    return array;
}

/* The column of a parameter that row r of its array is. */
static int ppo__hub_column(const ppo_lm_config *c, int how, int r) {
    const int size = c->head_size, heads = c->heads * size;
    if (how == PPO__KEYS) return heads + r;
    if (how == PPO__VALUES) return heads + c->kv_heads * size + r;
    if (how == PPO__UP_HALF) return c->hidden + r;
    if (how == PPO__MIXED) return r / size % 3 * heads + r / (3 * size) * size + r % size;
    return r;
}

/* The shape of the array of a parameter: (rows, cols), or (rows) with cols 1 of a bias or a norm. */
static void ppo__hub_shape(const ppo_lm_config *c, const ppo_tensor *x, int how, int *rows, int *cols) {
    const int plain = how <= PPO__AFTER_TWO;
    *rows = plain && x->rows > 1 ? x->rows + 2 * (how == PPO__AFTER_TWO) : x->cols;
    *cols = plain ? (x->rows > 1 ? x->cols : 1) : x->rows;
    if (how == PPO__QUERIES) *rows = c->heads * c->head_size;
    if (how == PPO__KEYS || how == PPO__VALUES) *rows = c->kv_heads * c->head_size;
    if (how == PPO__GATE_HALF || how == PPO__UP_HALF) *rows = c->hidden;
}

/* Copies rows first .. first + rows - 1 of an array to the parameter x, or from it. */
static void ppo__hub_copy(const ppo_lm_config *c, ppo_tensor *x, int how, int way, float *array, int first,
                          int rows, int cols) {
    for (; how == PPO__AFTER_TWO && first < 2 && rows; ++first, --rows, array += cols)
        if (way == PPO__SAVE) memset(array, 0, cols * sizeof *array);
    if (how <= PPO__AFTER_TWO) {
        float *part = x->data + ppo__at(how == PPO__AFTER_TWO ? first - 2 : first, cols);
        float *from = way == PPO__LOAD ? array : part, *to = way == PPO__LOAD ? part : array;
        const float more = how != PPO__LESS_ONE ? 0.0f : way == PPO__LOAD ? 1.0f : -1.0f;
        for (size_t i = 0; i < ppo__at(rows, cols); ++i) to[i] = from[i] + more;
        return;
    }
    for (int j = 0; j < cols; ++j)
        for (int r = 0; r < rows; ++r) {
            float *in_x = x->data + ppo__at(j, x->cols) + ppo__hub_column(c, how, first + r);
            float *in_array = array + ppo__at(r, cols) + j;
            if (way == PPO__LOAD) *in_x = *in_array;
            else *in_array = *in_x;
        }
}

/* An array is not there; a module that was wrapped by another one has it under a longer name. */
static ppo_status ppo__hub_no_array(const ppo__hub *hub, const char *name) {
    const size_t n = strlen(name);
    for (size_t i = 0; i < stbds_arrlenu(hub->files); ++i)
        for (int k = 0; k < ppo_file_count(hub->files[i]); ++k) {
            const char *is = ppo_file_at(hub->files[i], k)->name;
            const size_t length = strlen(is);
            if (length > n && is[length - n - 1] == '.' && !strcmp(is + length - n, name))
                return ppo__file_fail(
                    hub->folder,
                    "there is no \"%.80s\", only \"%.80s\", of a module within another one: "
                    "save it in Python without \"%.*s\" before its names",
                    name, is, (int)(length - n), is);
        }
    const ppo_array *first = ppo_file_at(hub->files[0], 0);
    return ppo__file_fail(hub->folder, "there is no \"%.80s\"; the first array is \"%.80s\"", name,
                          first ? first->name : "");
}

enum { PPO__ROWS_AT_ONCE = 16 };

/* Reads or writes an array of the file, some rows at a time. If x has no numbers, only checks that the
   array is there and of this shape. */
static ppo_status ppo__hub_array(ppo__hub *hub, int way, const char *name, ppo_tensor *x, int how, int rows,
                                 int cols, int rank) {
    char is[PPO__SHAPE_SIZE], wanted[PPO__SHAPE_SIZE], *data = NULL;
    const int64_t shape[2] = {rows, cols};
    const ppo_file *file = NULL;
    const ppo_array *array = way == PPO__LOAD ? ppo__hub_find(hub, name, &file) : NULL;
    const ppo_dtype type = array ? array->type : hub->type;
    const size_t row = ppo__at(cols, ppo__types[type].size);
    const float most = type == PPO_F16 ? 65504 : FLT_MAX;
    if (way == PPO__SAVE) {
        data = (char *)ppo__arena_array(&hub->memory, rows, row);
        if (!data) return PPO_ERROR_MEMORY;
    } else if (!array) {
        return ppo__hub_no_array(hub, name);
    } else if (type != PPO_F32 && type != PPO_F16 && type != PPO_BF16) {
        return ppo__file_fail(file->path, "\"%.80s\" is %s, not F32, F16 or BF16", name,
                              ppo__types[type].name);
    } else {
        ppo__shape_text(wanted, type, shape, rank);
        if (strcmp(ppo__shape_text(is, type, array->shape, array->rank), wanted))
            return ppo__file_fail(file->path, "\"%.80s\" is %s, not %s", name, is, wanted);
        ((ppo__entry *)(void *)array)->taken = 1;
        if (!x->data) return PPO_OK;
    }
    if (cols > hub->room)
        hub->floats = PPO__ARRAY(&hub->memory, float, 2 * ppo__at(PPO__ROWS_AT_ONCE, hub->room = cols));
    if (!hub->floats) return PPO_ERROR_MEMORY;
    float *floats = hub->floats;
    void *raw = floats + ppo__at(PPO__ROWS_AT_ONCE, cols);
    for (int r = 0; r < rows; r += PPO__ROWS_AT_ONCE) {
        const int n = rows - r < PPO__ROWS_AT_ONCE ? rows - r : (int)PPO__ROWS_AT_ONCE;
        const size_t count = ppo__at(n, cols), at = (size_t)r * row;
        if (array && ppo__file_fetch(file, array, at, (size_t)n * row, raw)) return PPO_ERROR_FILE;
        if (array) ppo__to_floats(type, raw, count, floats);
        else ppo__hub_copy(&hub->lm->full, x, how, way, floats, r, n, cols);
        for (size_t i = 0; i < count; ++i) {
            if (fabsf(floats[i]) <= most) continue;
            if (array) return ppo__file_fail(file->path, "\"%.80s\" has a number that is not finite", name);
            return ppo_fail(PPO_ERROR_NUMERIC, "\"%.80s\" has %g, which %s cannot hold: nothing was saved",
                            name, floats[i], ppo__types[type].name);
        }
        if (array) ppo__hub_copy(&hub->lm->full, x, how, way, floats, r, n, cols);
        else ppo__from_floats(type, floats, count, data + at);
    }
    return array ? PPO_OK : ppo_file_add(hub->files[0], name, type, shape, rank, data);
}

/* Reads or writes a parameter, under its names in the layout. */
static ppo_status ppo__hub_param(ppo__hub *hub, int way, const char *name, ppo_tensor *x) {
    const char *end = strrchr(name, '.'), *rest;
    const int is_bias = !strcmp(end, ".bias"), in_block = !strncmp(name, "transformer.h.", 14);
    const int block = in_block ? ppo__parse_count(name + 14, &rest) : 0;
    const ppo_lm_config *c = &hub->lm->full;
    const ppo_file *file;
    /* A bias of the score is ours: transformers has none. */
    if (!strcmp(name, "score.bias") &&
        (way == PPO__LOAD ? !ppo__hub_find(hub, name, &file) : x->data[0] == 0))
        return PPO_OK;
    for (const ppo__hub_row *row = hub->rows ? hub->rows : ppo__hub_rows_of(c); row->parameter; ++row) {
        char text[96];
        int rows, cols;
        snprintf(text, 80, row->parameter, block);
        if (strcmp(strcat(text, end), name)) continue;
        snprintf(text, 80, row->array, block);
        ppo__hub_shape(c, x, row->how, &rows, &cols);
        const int rank = is_bias || (row->how <= PPO__AFTER_TWO && x->rows == 1) ? 1 : 2;
        if ((hub->array ? hub->array : ppo__hub_array)(hub, way, strcat(text, end), x, row->how, rows, cols,
                                                       rank))
            return ppo__failed;
    }
    return PPO_OK;
}

static ppo_status ppo__hub_serialize(ppo__hub *hub, int way) {
    const ppo_params *params = hub->lm->params;
    ppo_status status = PPO_OK;
    for (int i = 0; i < params->tensor_count && !status; ++i)
        status = ppo__hub_param(hub, way, params->names[i], params->tensors[i]);
    return status;
}

/* Is a parameter in the files? All must be there before a model of these sizes is created. */
static ppo_status ppo__hub_expect(void *user, ppo_tensor **tensor, const char *name, int rows, int cols,
                                  int random, float x) {
    ppo_tensor expected;
    memset(&expected, 0, sizeof expected);
    expected.rows = rows;
    expected.cols = cols;
    return ppo__hub_param((ppo__hub *)user, PPO__LOAD, name, &expected);
}

static ppo_status ppo__hub_add(ppo__hub *hub, const char *path) {
    ppo_file *file = NULL;
    ppo_status status = ppo__file_open(path, &file);
    if (!status && PPO__PUSH(hub->files, file)) {
        ppo_file_free(file);
        status = PPO_ERROR_MEMORY;
    }
    return status;
}

/* A folder without the arrays that are read: it may have them in files of another kind. */
static ppo_status ppo__hub_missing(ppo__hub *hub, const char *wanted) {
    static const char *const others[] = {"pytorch_model.bin", "pytorch_model.bin.index.json",
                                         "adapter_model.bin", "tf_model.h5", "flax_model.msgpack"};
    for (size_t k = 0; k < sizeof others / sizeof *others; ++k) {
        const char *path = ppo__hub_path(hub, others[k]);
        if (path && ppo__exists(path))
            return ppo__file_fail(hub->folder,
                                  "it has %s, which is not read, but no %s: let Python write that, by "
                                  "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(FOLDER)",
                                  others[k], wanted);
    }
    return ppo__file_fail(hub->folder, "there is no %s", wanted);
}

/* The arrays' files: model.safetensors, or those that model.safetensors.index.json names. */
static ppo_status ppo__hub_open(ppo__hub *hub) {
    ppo__json json;
    ppo__value *item = NULL;
    const char *whole = ppo__hub_path(hub, "model.safetensors");
    const char *index = ppo__hub_path(hub, "model.safetensors.index.json");
    if (!whole || !index) return ppo__arena_status(&hub->memory);
    if (ppo__exists(whole)) return ppo__hub_add(hub, whole);
    if (!ppo__exists(index)) return ppo__hub_missing(hub, "model.safetensors");
    if (ppo__json_open(&json, index, &hub->memory)) return json.status;
    ppo__value *names = ppo__json_get(&json, ppo__json_tree(&json, &hub->memory), "weight_map");
    for (const char *last = ""; ppo__json_each(&json, names, '{', &item);) {
        const char *name = ppo__json_decode(&json, item), *path;
        size_t known = 0;
        if (json.status || !strcmp(name, last)) continue;
        if (strpbrk(name, "/\\:")) ppo__json_fail(&json, "no name of a file: ", name);
        if (json.status) break;
        path = ppo__hub_path(hub, last = name);
        if (!path) return PPO_ERROR_MEMORY;
        while (known < stbds_arrlenu(hub->files) && strcmp(hub->files[known]->path, path)) ++known;
        if (known == stbds_arrlenu(hub->files)) json.status = ppo__hub_add(hub, path);
    }
    if (!json.status && !stbds_arrlenu(hub->files)) return ppo__file_fail(index, "it names no file");
    return json.status;
}

/* Takes from the arrays what config.json leaves open, and checks that a model's arrays are all there. */
static ppo_status ppo__hub_check(ppo__hub *hub, ppo_lm *likely) {
    ppo_lm_config *c = &likely->config;
    const ppo_file *file;
    char name[80];
    hub->bare = !ppo__hub_find(hub, ppo__hub_weight(c, "transformer.wte", name), &file);
    const ppo_array *score = ppo__hub_find(hub, "score.weight", &file);
    c->score = score != NULL;
    if (score && score->rank == 2 && score->shape[0] != 1)
        return ppo__file_fail(file->path,
                              "score.weight has %lld rows: only models of one label are supported",
                              (long long)score->shape[0]);
    if (score && !ppo__hub_find(hub, ppo__hub_weight(c, "lm_head", name), &file))
        c->tied = 1; /* a classifier has no head for tokens */
    if (ppo__lm_complete(likely)) return ppo__file_fail(hub->folder, "config.json: %s", ppo__error);
    hub->lm = likely;
    const ppo_status status = ppo__lm_visit(likely, ppo__hub_expect, hub);
    return hub->lm = NULL, status;
}

/* If the head is to be the embedding, a head in the file must be equal to it. */
static ppo_status ppo__hub_check_tied(ppo__hub *hub) {
    const ppo_tensor *embedding = hub->lm->token_embedding;
    const size_t bytes = ppo__size(embedding) * sizeof(float);
    const ppo_file *file = NULL;
    char text[80];
    const char *name = ppo__hub_weight(&hub->lm->config, "lm_head", text);
    if (!hub->lm->config.tied || !ppo__hub_find(hub, name, &file)) return PPO_OK;
    ppo_tensor copy = *embedding;
    copy.data = (float *)ppo__arena_array(&hub->memory, bytes, 1);
    if (!copy.data || ppo__hub_array(hub, PPO__LOAD, name, &copy, PPO__AS_IS, copy.rows, copy.cols, 2))
        return ppo__failed;
    if (!memcmp(copy.data, embedding->data, bytes)) return PPO_OK;
    return ppo__file_fail(file->path, "\"%s\" is not the embedding, but tie_word_embeddings is true", name);
}

/* Every array must have been read, but for known buffers: one that is not would be missing in what is
   computed. */
static ppo_status ppo__hub_check_all(ppo__hub *hub) {
    for (size_t i = 0; i < stbds_arrlenu(hub->files); ++i)
        for (int k = 0; k < ppo_file_count(hub->files[i]); ++k) {
            const ppo__entry *entry = hub->files[i]->arrays[k];
            const char *name = entry->array.name;
            int known = entry->taken;
            for (size_t b = 0; b < sizeof ppo__hub_buffers / sizeof *ppo__hub_buffers && !known; ++b) {
                const size_t length = strlen(name), end = strlen(ppo__hub_buffers[b]);
                known = length > end && !strcmp(name + length - end, ppo__hub_buffers[b]);
            }
            if (!known)
                return ppo__file_fail(hub->files[i]->path,
                                      "\"%.80s\" has no place in a model with this config.json", name);
        }
    return PPO_OK;
}

/* config.json and the weights are two files. So that both change in one step, the weights hold the text of their
   config.json, and a hash of the one that was there before: if that is still there, or none, the text counts. */
static const char *ppo__hub_hash(const char *text, size_t bytes, char hash[32]) {
    snprintf(hash, 32, "%016llx", (unsigned long long)ppo__fnv1a(PPO__FNV1A, text, bytes));
    return hash;
}

/* Starts to read config.json, or adapter_config.json, of a folder. *there 0: it has none. */
static ppo_status ppo__hub_open_config(ppo__hub *hub, const char *name, const char *weights, ppo__json *json,
                                       int *there) {
    const char *config = ppo__hub_path(hub, name), *path = ppo__hub_path(hub, weights);
    ppo_file *file = NULL;
    char hash[32] = "";
    if (!config || !path) return ppo__arena_status(&hub->memory);
    *there = ppo__exists(config);
    if (*there && ppo__json_open(json, config, &hub->memory)) return json->status;
    if (ppo__what_is(path) != PPO__PLAIN || ppo__file_open(path, &file)) return PPO_OK; /* as is told later */
    const char *text = ppo_file_text(file, "config"), *before = ppo_file_text(file, "config.before");
    if (*there) ppo__hub_hash(json->start, (size_t)(json->end - json->start), hash);
    if (text && (!*there || (before && !strcmp(before, hash)))) {
        const ppo__json inside = {config, "", NULL, NULL, NULL, PPO_OK};
        *json = inside;
        json->at = json->start = PPO__ARRAY(&hub->memory, char, strlen(text) + 1);
        if (json->start) json->end = strcpy(json->start, text) + strlen(text);
        *there = 1;
    }
    ppo_file_free(file);
    return json->status = ppo__arena_status(&hub->memory);
}

static ppo_status ppo__hub_load(const char *path, ppo_lm **lm) {
    ppo__hub hub = {path, {NULL, NULL, PPO_OK}, NULL, NULL, 0, PPO_BOOL, NULL, 0, NULL, NULL};
    ppo__hub_json read;
    ppo_lm likely;
    int there = 0;
    if (ppo__in_gguf.lm_load && ppo__is_gguf(path)) return ppo__in_gguf.lm_load(path, lm);
    memset(&likely, 0, sizeof likely);
    ppo_status status = ppo__hub_open_config(&hub, "config.json", "model.safetensors", &read.json, &there);
    if (!status && there) {
        if ((read.all = ppo__json_tree(&read.json, &hub.memory)) == NULL ||
            ppo__hub_config(&read, &likely.config) || ppo__hub_open(&hub) || ppo__hub_check(&hub, &likely) ||
            ppo__lm_make(&likely.config, 0, &hub.lm) || ppo__hub_serialize(&hub, PPO__LOAD) ||
            ppo__hub_check_tied(&hub) || ppo__hub_check_all(&hub))
            status = ppo__failed;
    } else if (!status && ppo__is_special(path))
        status = ppo__file_fail(path, "it is neither a file nor a folder with a config.json; a folder with "
                                      "adapter_config.json is LoRA for a model: ppo_lm_load_adapter()");
    else if (!status) status = ppo__lm_load_file(path, &hub.lm);
    if (status) ppo_lm_free(hub.lm);
    else *lm = hub.lm;
    ppo__hub_free(&hub);
    return status;
}

PPO_DEF ppo_status ppo_lm_load_ends(const char *path, int *end, int room, int *count) {
    static const char *const names[] = {"generation_config.json", "config.json"};
    if (count) *count = 0;
    if (!PPO__GIVEN("ppo_lm_load_ends", path, count)) return PPO_ERROR_ARGUMENT;
    if (room > 0 && !PPO__GIVEN("ppo_lm_load_ends", end)) return PPO_ERROR_ARGUMENT;
    if (ppo__in_gguf.load_ends && ppo__is_gguf(path)) return ppo__in_gguf.load_ends(path, end, room, count);
    ppo__hub hub = {path, {NULL, NULL, PPO_OK}, NULL, NULL, 0, PPO_BOOL, NULL, 0, NULL, NULL};
    ppo__json json;
    json.status = *path && !ppo__exists(path) ? ppo__file_failed(path, "opened", ENOENT) : PPO_OK;
    for (int i = 0, there; i < 2 && !*count && !json.status; ++i) {
        json.status = ppo__hub_open_config(&hub, names[i], i ? "model.safetensors" : "", &json, &there);
        if (json.status || !there) continue;
        ppo__value *all = ppo__json_tree(&json, &hub.memory), *item = NULL;
        ppo__value *ends = ppo__json_get(&json, all, "eos_token_id");
        const char kind = ends ? ends->kind : (char)0;
        for (int k = 0; kind == '[' ? ppo__json_each(&json, ends, kind, &item) : kind == '0' && !k++;) {
            const int token = ppo__json_int(&json);
            if (!json.status && (*count)++ < room) end[*count - 1] = token;
        }
    }
    ppo__hub_free(&hub);
    if (json.status) *count = 0;
    return json.status;
}

/* query_pre_attn_scalar of a scale: a whole number, if it is that of one. */
static double ppo__hub_scalar(float scale) {
    const double x = 1 / ((double)scale * (double)scale), whole = floor(x + 0.5);
    return (float)(1 / sqrt(whole)) == scale ? whole : x;
}

/* Refuses settings that the family's config.json cannot express and that are not the family's own. */
static ppo_status ppo__hub_check_settings(const ppo_lm_config *c) {
    ppo_lm_config family = *c;
    const char *name = ppo__families[c->family].name;
    char is[32], other[32];
    ppo_lm_config_family(&family, name);
    family.kv_heads = family.head_size = family.hidden = 0;
    if (!(family.attention_scale > 0)) family.attention_scale = 1 / sqrtf((float)c->head_size);
    if (!(family.embedding_scale > 0)) family.embedding_scale = sqrtf((float)c->width);
    for (int k = 1; k < PPO__HUB_SETTINGS; ++k) { /* neighbours may share a key */
        const char *field[2] = {ppo__hub_settings[k - 1].name, ppo__hub_settings[k].name};
        const char *key[2] = {ppo__hub_key(k - 1, c), ppo__hub_key(k, c)};
        ppo_settings_get(&ppo__lm_settings, c, field[0], is, sizeof is);
        ppo_settings_get(&ppo__lm_settings, c, field[1], other, sizeof other);
        if (key[0] && key[1] && !strcmp(key[0], key[1]) && strcmp(is, other))
            return ppo__refuse("%s is %s and %s is %s, which a folder of family %s cannot express", field[0],
                               is, field[1], other, name);
    }
    for (int i = 0; i < ppo__lm_settings.count; ++i) {
        const char *field = ppo__lm_fields[i].name;
        int expressed = !strcmp(field, "rotary_size") && c->rotary_size == c->head_size;
        expressed |= !strcmp(field, "nope_layers") && ppo__family_is(c, "smollm3");
        expressed |= !strcmp(field, "window_layers") &&
                     !ppo__family_is(c, "phi3"); /* of no meaning without a window */
        for (int k = 0; k < PPO__HUB_SETTINGS; ++k)
            expressed |= !strcmp(ppo__hub_settings[k].name, field) && ppo__hub_key(k, c);
        if (!strcmp(field, "attention_scale") && ppo__family_is(c, "gemma3_text"))
            expressed = ppo__hub_scalar(c->attention_scale) == floor(ppo__hub_scalar(c->attention_scale));
        ppo_settings_get(&ppo__lm_settings, c, field, is, sizeof is);
        ppo_settings_get(&ppo__lm_settings, &family, field, other, sizeof other);
        if (expressed || !strcmp(is, other)) continue;
        if ((!strcmp(field, "kv_heads") && c->kv_heads == c->heads) ||
            (!strcmp(field, "head_size") && c->head_size * c->heads == c->width))
            continue;
        return ppo__refuse("%s is %s, which a folder of family %s cannot express", field, is, name);
    }
    return PPO_OK;
}

/* Lists for each layer one of two words, `local` if it has a window, between `open` and `close`. */
static void ppo__put_layers(ppo__header *json, const ppo_lm_config *c, const char *open, const char *local,
                            const char *global, const char *close) {
    for (int k = 0; k < c->layers; ++k)
        ppo__put(json, "%s\"%s\"", k ? ", " : open,
                 c->window && (!c->window_layers || c->window_layers >> k & 1) ? local : global);
    ppo__put(json, "%s", close);
}

/* config.json in the words of transformers 4, which 5 reads as well. */
static ppo_status ppo__write_hub_config(FILE *out, const char *path, void *user) {
    const ppo__hub *hub = (const ppo__hub *)user;
    const ppo_lm_config *c = &hub->lm->full;
    const int layout = ppo__layout(c);
    const char *within = "", *before = NULL; /* the object that is open; the key of the row before */
    ppo__header json = {out, 0};
    ppo__put(
        &json, "{\n  \"architectures\": [\"%s%s%s\"],\n  \"model_type\": \"%s\",\n  \"torch_dtype\": \"%s\"",
        ppo__families[c->family].class_prefix, c->score && ppo__family_is(c, "gemma3_text") ? "Text" : "",
        c->score              ? "ForSequenceClassification"
        : layout == PPO__GPT2 ? "LMHeadModel"
                              : "ForCausalLM",
        ppo__families[c->family].name,
        hub->type == PPO_F16    ? "float16"
        : hub->type == PPO_BF16 ? "bfloat16"
                                : "float32");
    ppo__put(&json, ",\n  \"bos_token_id\": null"); /* else transformers takes one that others have */
    for (int k = 0; k < PPO__HUB_SETTINGS; ++k) {
        const char *key = ppo__hub_key(k, c), *name = ppo__hub_settings[k].name;
        const int repeated = key && before && !strcmp(key, before);
        char value[64];
        before = key;
        ppo_settings_get(&ppo__lm_settings, strcmp(name, "eos") ? c : &hub->lm->config, name, value,
                         sizeof value);
        if (!key || repeated || !ppo__hub_applies(c, name) || (!strncmp(name, "window", 6) && !c->window) ||
            !strcmp(value, "plain"))
            continue;
        const char *word = ppo__hub_word(name, value, PPO__WORD_OF_CORE), *quote = word == value ? "" : "\"";
        if (!strcmp(key, "hidden_activation") && !strcmp(value, "gelu")) word = "gelu_pytorch_tanh";
        if (!strcmp(key, "query_pre_attn_scalar"))
            word = ppo__number(value, "%.9g", ppo__hub_scalar(c->attention_scale));
        if (!strcmp(name, "rotary_size"))
            word = ppo__number(value, "%.9g", (double)c->rotary_size / c->head_size);
        if (!strcmp(value, "yes")) word = "true";
        if (!strcmp(value, "no")) word = "false";
        if (!strcmp(name, "eos") && hub->lm->config.eos < 0) word = "null";
        key = strrchr(key, '|') ? strrchr(key, '|') + 1 : key;
        const char *dot = strchr(key, '.');
        ppo__put(&json, ",%s", *within ? " " : "\n  ");
        if (dot && !*within) {
            ppo__put(&json, "\"rope_scaling\": {");
            within = key;
        }
        ppo__put(&json, "\"%s\": %s%s%s", dot ? dot + 1 : key, quote, word, quote);
    }
    if (*within) ppo__put(&json, "}");
    if (layout == PPO__GPT_NEO)
        ppo__put_layers(&json, c, ",\n  \"attention_types\": [[[", "local", "global", "], 1]]");
    else if (layout == PPO__LLAMA && (c->window > 0 || ppo__family_is(c, "gemma3_text")))
        ppo__put_layers(&json, c, ",\n  \"use_sliding_window\": true,\n  \"layer_types\": [",
                        "sliding_attention", "full_attention", "]");
    for (int k = 0; k < c->layers && ppo__family_is(c, "smollm3"); ++k)
        ppo__put(&json, "%s%d%s", k ? ", " : ",\n  \"no_rope_layers\": [", !(c->nope_layers >> k & 1),
                 k == c->layers - 1 ? "]" : "");
    if (c->score) ppo__put(&json, ",\n  \"id2label\": {\"0\": \"reward\"},\n  \"label2id\": {\"reward\": 0}");
    ppo__put(&json, "\n}\n");
    return PPO_OK;
}

/* -- LoRA in peft's format -- */

/* Which of LoRA's layers a row has the weight of; -1: none. */
static int ppo__hub_lora_layer(const ppo__hub_row *row) {
    const int how = row->how;
    if (strstr(row->parameter, "attn.c_attn"))
        return how == PPO__KEYS ? PPO_LORA_K : how == PPO__VALUES ? PPO_LORA_V : PPO_LORA_Q;
    if (strstr(row->parameter, "attn.c_proj")) return PPO_LORA_PROJ;
    if (strstr(row->parameter, "mlp.c_fc")) return how == PPO__GATE_HALF ? PPO_LORA_GATE : PPO_LORA_UP;
    return strstr(row->parameter, "mlp.c_proj") ? PPO_LORA_DOWN : -1;
}

/* "base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight" */
static void ppo__hub_lora_name(char name[128], const ppo__hub_row *row, int block, const char *end) {
    char layer[80];
    snprintf(layer, sizeof layer, row->array, block);
    snprintf(name, 128, "base_model.model.%s%s.weight", layer, end);
}

/* Is A of a layer in the file? */
static int ppo__hub_lora_there(const void *user, int block, int place) {
    const ppo__hub *hub = (const ppo__hub *)user;
    const ppo_file *file;
    char name[128];
    for (const ppo__hub_row *row = ppo__hub_rows_of(&hub->lm->full); row->parameter; ++row) {
        if (ppo__hub_lora_layer(row) != place) continue;
        ppo__hub_lora_name(name, row, block, ".lora_A");
        return ppo__hub_find(hub, name, &file) != NULL;
    }
    return 0;
}

/* Reads or writes A and B, which are transposed in the file, (rank, in) and (out, rank), with the heads of
   a fused layer in its order; and the score. */
static ppo_status ppo__hub_serialize_lora(ppo__hub *hub, int way) {
    ppo_lm *lm = hub->lm;
    ppo_status status = PPO_OK;
    char name[128];

    for (const ppo__hub_row *row = ppo__hub_rows_of(&lm->full); row->parameter && !status; ++row) {
        const int place = ppo__hub_lora_layer(row);
        const int how = row->how == PPO__MIXED ? PPO__MIXED : PPO__TRANSPOSED;
        for (int k = 0; k < lm->full.layers && place >= 0 && !status; ++k) {
            ppo_tensor *a = lm->adapter->a[k][place], *b = lm->adapter->b[k][place];
            if (!a) continue;
            ppo__hub_lora_name(name, row, k, ".lora_A");
            status = ppo__hub_array(hub, way, name, a, PPO__TRANSPOSED, a->cols, a->rows, 2);
            ppo__hub_lora_name(name, row, k, ".lora_B");
            if (!status) status = ppo__hub_array(hub, way, name, b, how, b->cols, b->rows, 2);
        }
    }
    if (status || !lm->score_weight) return status;
    if (way == PPO__SAVE && lm->score_bias->data[0] != 0)
        return ppo__refuse("the score has a bias of %g, which peft's format cannot express",
                           lm->score_bias->data[0]);
    return ppo__hub_array(hub, way, "base_model.model.score.weight", lm->score_weight, PPO__TRANSPOSED, 1,
                          lm->config.width, 2);
}

static ppo_status ppo__write_adapter_config(FILE *out, const char *path, void *user) {
    const ppo_lm *lm = ((const ppo__hub *)user)->lm;
    ppo__header json = {out, 0};
    char alpha[64];
    int written = 0;
    ppo__put(&json,
             "{\n  \"peft_type\": \"LORA\",\n  \"task_type\": \"%s\",\n  \"base_model_name_or_path\": ",
             lm->score_weight ? "SEQ_CLS" : "CAUSAL_LM");
    if (*lm->adapter->base_model) ppo__put_string(&json, lm->adapter->base_model);
    else ppo__put(&json, "null");
    ppo__put(&json,
             ",\n  \"r\": %d,\n  \"lora_alpha\": %s,\n  \"lora_dropout\": 0.0,\n  \"bias\": \"none\",\n"
             "  \"fan_in_fan_out\": %s,\n  \"inference_mode\": true,\n  \"modules_to_save\": %s,\n"
             "  \"target_modules\": [",
             lm->adapter->lora.rank, ppo__number(alpha, "%.9g", (double)lm->adapter->lora.alpha),
             ppo__layout(&lm->full) == PPO__GPT2 ? "true" : "false",
             lm->score_weight ? "[\"score\"]" : "null");
    for (const ppo__hub_row *row = ppo__hub_rows_of(&lm->full); row->parameter; ++row) {
        const int place = ppo__hub_lora_layer(row);
        for (int k = 0; k < lm->full.layers && place >= 0; ++k) {
            if (!lm->adapter->a[k][place]) continue;
            ppo__put(&json, "%s\n    \"", written++ ? "," : "");
            ppo__put(&json, row->array, k);
            ppo__put(&json, "\"");
        }
    }
    ppo__put(&json, "\n  ]\n}\n");
    return PPO_OK;
}

/* Is a layer by this path said to have LoRA? It is named by the end of its path; blocks: NULL, or the
   number of one, or a list of them. */
static int ppo__hub_lora_said(ppo__json *json, ppo__value *names, ppo__value *blocks, const char *path,
                              int block) {
    ppo__value *item = NULL;
    const size_t m = strlen(path);
    int said = 0, in = !blocks || (blocks->kind == '[' && !blocks->count);
    while (ppo__json_each(json, names, '[', &item)) {
        const char *name = ppo__json_decode(json, item);
        const size_t n = strlen(name);
        said |= n <= m && !strcmp(path + m - n, name) && (n == m || path[m - n - 1] == '.');
    }
    item = NULL;
    while (!in && blocks->kind == '[' && ppo__json_each(json, blocks, '[', &item))
        in = ppo__json_integer(json) == block;
    if (!in && blocks->kind != '[') {
        json->at = blocks->at;
        in = ppo__json_integer(json) == block;
    }
    return said && in;
}

/* The file must have LoRA for the layers that the config names; an expression for their names is not read. */
static ppo_status ppo__hub_check_lora(ppo__hub_json *hub, const ppo_lm *lm) {
    ppo__json *json = &hub->json;
    ppo__value *names = ppo__hub_get(hub, "target_modules"),
               *blocks = ppo__hub_get(hub, "layers_to_transform");
    if (!names || names->kind != '[' || ppo__hub_get(hub, "exclude_modules")) return json->status;
    for (const ppo__hub_row *row = ppo__hub_rows_of(&lm->full); row->parameter; ++row) {
        ppo__lora_place at;
        const int place = ppo__hub_lora_layer(row);
        for (int k = 0; k < lm->full.layers && place >= 0 && ppo__lora_at(&lm->full, place, &at); ++k) {
            char path[80];
            snprintf(path, sizeof path, row->array, k);
            const int said = ppo__hub_lora_said(json, names, blocks, path, k),
                      has = lm->adapter->a[k][place] != NULL;
            if (json->status) return json->status;
            if (said != has)
                return ppo__file_fail(json->path,
                                      "it says that \"%s\" has %sLoRA, unlike adapter_model.safetensors",
                                      path, said ? "" : "no ");
        }
    }
    return PPO_OK;
}

/* rank and alpha. What peft has besides changes what is computed, so it is refused. */
static ppo_status ppo__hub_adapter_config(ppo__hub_json *hub, ppo_lora *lora) {
    static const char *const supported[][2] = {
        {"alora_invocation_tokens", ""}, {"peft_type", "LORA"},   {"bias", "none"},
        {"trainable_token_indices", ""}, {"use_dora", "no"},      {"rank_pattern", "{}"},
        {"layer_replication", ""},       {"alpha_pattern", "{}"}, {"use_qalora", "no"},
        {"target_parameters", ""},       {"lora_bias", "no"},     {"init_lora_weights", "yes no gaussian"},
    };
    const char *path = hub->json.path, *rest = "";
    double alpha = 0;
    for (size_t k = 0; k < sizeof supported / sizeof *supported; ++k) {
        const char *value = ppo__hub_text(hub, supported[k][0]);
        if (value && !ppo__is_word(value, supported[k][1]))
            return ppo__file_fail(path, "%s is %.40s, which is not supported", supported[k][0], value);
    }
    const char *rank = ppo__hub_text(hub, "r"), *scale = ppo__hub_text(hub, "lora_alpha");
    if (hub->json.status) return hub->json.status;
    lora->rank = rank ? ppo__parse_count(rank, &rest) : 0;
    if (!lora->rank || *rest)
        return ppo__file_fail(path, "r is %.20s, must be a rank", rank ? rank : "not there");
    if (!scale || !ppo__parse_number(scale, &alpha) || !(alpha > 0 && alpha <= (double)FLT_MAX))
        return ppo__file_fail(path, "lora_alpha is %.20s, must be above 0", scale ? scale : "not there");
    if (ppo__hub_is(hub, "use_rslora", "yes")) alpha *= sqrt((double)lora->rank);
    lora->alpha = (float)alpha;
    return hub->json.status;
}

PPO_DEF ppo_status ppo_lm_load_adapter(const char *folder, ppo_lm *base, ppo_lm **lm) {
    ppo__hub hub = {folder, {NULL, NULL, PPO_OK}, NULL, NULL, 0, PPO_BOOL, NULL, 0, NULL, NULL};
    ppo__hub_json read;
    ppo_lora lora = ppo_lora_default();
    const ppo_file *file;
    ppo_lm *made = NULL;
    if (lm) *lm = NULL;
    if (!PPO__GIVEN("ppo_lm_load_adapter", folder, base, lm)) return PPO_ERROR_ARGUMENT;
    if (base->base)
        return ppo__refuse("ppo_lm_load_adapter: the base has LoRA itself: ppo_lm_merge() it first");
    const char *config = ppo__hub_path(&hub, "adapter_config.json"), *named = NULL;
    const char *model = ppo__hub_path(&hub, "adapter_model.safetensors");
    int there = 0;
    ppo_status status = ppo__arena_status(&hub.memory);
    if (!status)
        status = ppo__hub_open_config(&hub, "adapter_config.json", "adapter_model.safetensors", &read.json,
                                      &there);
    if (!status && !there) status = ppo__file_fail(folder, "there is no adapter_config.json");
    if (!status && !ppo__exists(model)) status = ppo__hub_missing(&hub, "adapter_model.safetensors");
    if (!status && ((read.all = ppo__json_tree(&read.json, &hub.memory)) == NULL ||
                    ppo__hub_adapter_config(&read, &lora) || ppo__hub_add(&hub, model)))
        status = ppo__failed;
    if (!status && lora.rank > base->config.width)
        status = ppo__file_fail(config, "r is %d, above the base's width, which is %d", lora.rank,
                                base->config.width);
    if (!status) status = ppo_params_freeze(base->params, 1);
    hub.lm = base;
    const int score = ppo__hub_find(&hub, "base_model.model.score.weight", &file) != NULL;
    if (!status) {
        status = ppo__lm_adapt(base, &lora, ppo__hub_lora_there, &hub, score, 0, &made);
        if (status == PPO_ERROR_ARGUMENT) status = ppo__file_fail(folder, "no LoRA for layers of this base");
    }
    hub.lm = made;
    if (!status) named = ppo__hub_text(&read, "base_model_name_or_path");
    if (!status && named) snprintf(made->adapter->base_model, sizeof made->adapter->base_model, "%s", named);
    if (!status) status = ppo__hub_check_lora(&read, made);
    if (!status) status = ppo__hub_serialize_lora(&hub, PPO__LOAD);
    if (!status) status = ppo__hub_check_all(&hub);
    if (status) ppo_lm_free(made);
    else *lm = made;
    return ppo__hub_free(&hub), status;
}

/* Do two texts of config.json describe the same model? Those of adapters are only compared. */
static int ppo__same_config(const char *path, const char *one, const char *other) {
    const char *texts[2] = {one, other};
    ppo__arena memory = {NULL, NULL, PPO_OK};
    ppo_lm_config c[2];
    int same = 1;
    if (!strcmp(one, other)) return 1;
    for (int k = 0; k < 2 && same; ++k) {
        char *copy = PPO__ARRAY(&memory, char, strlen(texts[k]) + 1);
        ppo__hub_json hub = {{path, "", copy, copy, copy ? copy + strlen(texts[k]) : NULL, PPO_OK}, NULL, ""};
        if (copy) strcpy(copy, texts[k]);
        same =
            copy && (hub.all = ppo__json_tree(&hub.json, &memory)) != NULL && !ppo__hub_config(&hub, &c[k]);
    }
    for (int i = 0; i < ppo__lm_settings.count && same; ++i) {
        char is[2][PPO__SETTING_SIZE] = {"", ""};
        for (int k = 0; k < 2; ++k)
            ppo_settings_get(&ppo__lm_settings, &c[k], ppo__lm_fields[i].name, is[k], sizeof is[k]);
        same = !strcmp(is[0], is[1]);
    }
    return ppo__arena_free(&memory), same;
}

PPO_DEF ppo_status ppo_lm_save(const ppo_lm *lm, const char *path, ppo_dtype dtype) {
    if (!PPO__GIVEN("ppo_lm_save", lm, path)) return PPO_ERROR_ARGUMENT;
    ppo__hub hub = {path, {NULL, NULL, PPO_OK}, NULL, (ppo_lm *)lm, 0, dtype, NULL, 0, NULL, NULL};
    if (dtype != PPO_F32 && dtype != PPO_F16 && dtype != PPO_BF16)
        return ppo__refuse("ppo_lm_save: dtype is %d, none of PPO_F32, PPO_F16 and PPO_BF16", dtype);
    if (lm->params->packed) return ppo__refuse("ppo_lm_save: the model is packed: ppo_lm_copy() it first");
    if (!*path) return ppo__refuse("ppo_lm_save: the path is empty");
    const int lora = lm->base != NULL;
    const char *other = ppo__hub_path(&hub, lora ? "config.json" : "adapter_config.json");
    const char *model = ppo__hub_path(&hub, lora ? "adapter_model.safetensors" : "model.safetensors");
    const char *config = ppo__hub_path(&hub, lora ? "adapter_config.json" : "config.json");
    char *drafts[2] = {NULL, NULL}, *text = NULL, *old = NULL, hash[32] = "";
    size_t bytes = 0;
    ppo_file *file = NULL;
    ppo_status status = ppo__arena_status(&hub.memory);
    if (!status && ppo__exists(other))
        status = ppo__file_fail(
            path, lora ? "it has a whole model, not LoRA: choose another folder"
                       : "it has LoRA, which would be added to this model: choose another folder");
    if (!status) status = ppo_file_create(&file);
    if (!status && PPO__PUSH(hub.files, file)) {
        ppo_file_free(file);
        status = PPO_ERROR_MEMORY;
    }
    if (!status && ppo__what_is(config) == PPO__PLAIN) status = ppo_text_load(config, &old, &bytes);
    if (!status &&
        ((!lora && ppo__hub_check_settings(&lm->full)) || ppo__params_fetch(lm->params) ||
         (lora ? ppo__hub_serialize_lora : ppo__hub_serialize)(&hub, PPO__SAVE) ||
         ppo__write_draft(config, lora ? ppo__write_adapter_config : ppo__write_hub_config, &hub,
                          &drafts[1]) ||
         ppo_text_load(drafts[1], &text, NULL) ||
         ppo_file_set_text(file, "format", "pt") || /* transformers refuses files without it */
         ppo_file_set_text(file, "config", text ? text : "") ||
         ppo_file_set_text(
             file, "config.before", /* so that a model saved again has the same bytes */
             old && text && !ppo__same_config(config, old, text) ? ppo__hub_hash(old, bytes, hash) : "") ||
         ppo__write_draft(model, ppo__write_arrays, file, &drafts[0])))
        status = ppo__failed;
    status = ppo__keep_draft(model, drafts[0], status);
    status = ppo__keep_draft(config, drafts[1], status);
    ppo_text_free(text);
    ppo_text_free(old);
    return ppo__hub_free(&hub), status;
}

/* --------------------------------------------------------------------------------------------------------
   @@ 4 Data in files
   --------------------------------------------------------------------------------------------------------

   ppo__parse_line() finds out which of ppo__line_kinds a line is, and ppo__add_line() adds its sequences.
   To read another form: a row of ppo__line_kinds, and its members in ppo__line_members.
   -------------------------------------------------------------------------------------------------------- */

enum { PPO__MAX_LINE = 1 << 26 };

/* The members of a line that are used. */
enum { PPO__PROMPT, PPO__COMPLETION, PPO__TEXT, PPO__MESSAGES, PPO__CHOSEN, PPO__REJECTED };
enum { PPO__LINE_MEMBERS = PPO__REJECTED + 1 };
static const char *const ppo__line_members[] = {
    "prompt", "completion", "text", "messages", "chosen", "rejected",
};

/* The kinds of lines; the first that fits is used. */
enum { PPO__NO_MEMBER = -1 };
static const struct {
    int pairs;     /* 1: a line has a response and a rejected one */
    int chat;      /* 1: both must be lists of messages; 0: they may be, if the prompt is one */
    int member[3]; /* the prompt, the response, the rejected one */
} ppo__line_kinds[] = {{1, 0, {PPO__PROMPT, PPO__CHOSEN, PPO__REJECTED}},
                       {1, 1, {PPO__NO_MEMBER, PPO__CHOSEN, PPO__REJECTED}},
                       {0, 1, {PPO__NO_MEMBER, PPO__MESSAGES, PPO__NO_MEMBER}},
                       {0, 0, {PPO__PROMPT, PPO__COMPLETION, PPO__NO_MEMBER}},
                       {0, 0, {PPO__NO_MEMBER, PPO__TEXT, PPO__NO_MEMBER}},
                       {0, 0, {PPO__PROMPT, PPO__NO_MEMBER, PPO__NO_MEMBER}}};

/* What ppo_chat.h adds: a chat as one sequence. */
typedef struct ppo__chat_functions {
    ppo_status (*add)(ppo_tokens *tokens, const ppo_tokenizer *tokenizer, const ppo_lines *lines,
                      const ppo_message *messages, int count, int reply);
} ppo__chat_functions;
PPO__COMPANION(ppo__chat_functions, ppo__in_chat);

/* A file while it is read, and its current line. */
typedef struct ppo__line_reader {
    const char *path;
    const ppo_tokenizer *tokenizer;
    ppo_lines how;
    ppo_tokens *to[2]; /* the second: NULL, or what is rejected */
    int number, skipped;
    int label;    /* of the line: 0: false, 1: true, -1: none */
    int64_t left; /* bytes */
    char *line;   /* an array that grows, with a 0 for its end */
    char part[32];
    ppo__json json;
    ppo__arena memory;                    /* of its values */
    ppo__value *value[PPO__LINE_MEMBERS]; /* texts, or lists that are not empty, or NULL */
    ppo_message *chat;                    /* an array that grows: a prompt and what follows it */
} ppo__line_reader;

/* Reads a line. *more: 0 after the last. */
static ppo_status ppo__read_line(ppo__line_reader *lines, FILE *in, int *more) {
    int c, last;
    if (lines->line) stbds_header(lines->line)->length = 0;
    do {
        c = getc(in);
        lines->left -= c != EOF;
        last = c == EOF || c == '\n';
        if (PPO__PUSH(lines->line, (char)(last ? 0 : c))) return PPO_ERROR_MEMORY;
    } while (!last && stbds_arrlenu(lines->line) <= PPO__MAX_LINE);
    ++lines->number;
    *more = c != EOF;
    if (ferror(in)) return ppo__file_failed(lines->path, "read", errno);
    if (!*more && lines->left > 0) return ppo__file_fail(lines->path, "cannot be read: it became shorter");
    if (last) return PPO_OK;
    return ppo__file_fail(lines->path, "line %d is longer than %d bytes", lines->number, PPO__MAX_LINE);
}

/* Refuses what is JSON, or text, but not in lines. end: of the line, which has something. */
static ppo_status ppo__no_line(const ppo__line_reader *lines, const char *end) {
    const char *at = lines->json.at + strspn(lines->json.at, " \t\r"), *last = end;
    while (*at == '{' && strchr(" \t\r", last[-1])) --last;
    if (*at == '[')
        return ppo__file_fail(lines->path,
                              "line %d begins a list: write each of its objects on a line of its own, "
                              "as jq -c \".[]\" does",
                              lines->number);
    if (*at == '{' && strchr(",[{", last[-1]))
        return ppo__file_fail(lines->path,
                              "line %d: an object continues on the next line: write each on one line, as "
                              "jq -c . does",
                              lines->number);
    if (lines->number == 1 && *at != '{' && *ppo__other_kind(at, (size_t)(end - at)))
        return ppo__file_fail(lines->path, "not JSON Lines%s", ppo__other_kind(at, (size_t)(end - at)));
    return PPO_OK;
}

/* Refuses a line by the members that it has. */
static ppo_status ppo__no_members(ppo__line_reader *lines, ppo__value *all, const char *wanted) {
    static const char *const others[][2] = {
        {"conversations",
         ": call it messages, and from and value in it role (user or assistant) and content"},
        {"instruction", ": write instruction and input into prompt, output into completion"},
        {"question", ": call question prompt, and answer completion"},
        {"response", ": call it completion"},
        {"output", ": call it completion"}};
    char has[200] = "";
    const char *advice = "";
    ppo__value *item = NULL;
    while (ppo__json_each(&lines->json, all, '{', &item)) {
        const size_t used = strlen(has);
        snprintf(has + used, sizeof has - used, "%s%.40s", used ? ", " : "", ppo__json_key_of(item));
        for (size_t k = 0; k < sizeof others / sizeof *others && !*advice; ++k)
            if (!strcmp(ppo__json_key_of(item), others[k][0])) advice = others[k][1];
    }
    return ppo__file_fail(lines->path, "line %d has no %s%s%s%s", lines->number, wanted,
                          *has ? ", only " : "", has, advice);
}

/* Finds the members of the line, and of which kind it is. */
static ppo_status ppo__parse_line(ppo__line_reader *lines, int *kind) {
    int pairs = lines->to[1] != NULL;
    const char *wrong = NULL; /* a member that is used, but is of another type */
    char *line = lines->line, *end = line + stbds_arrlenu(line) - 1;
    const ppo__json json = {lines->path, lines->part, line, line, end, PPO_OK};
    snprintf(lines->part, sizeof lines->part, " of line %d", lines->number);
    lines->json = json;
    if (lines->number == 1 && !strncmp(line, "\357\273\277", 3)) lines->json.at += 3; /* UTF-8's mark */
    if (ppo__no_line(lines, end)) return ppo__failed;
    ppo__arena_reset(&lines->memory);
    ppo__value *all = ppo__json_tree(&lines->json, &lines->memory);
    const ppo__value *label = lines->how.labels && pairs ? ppo__json_get(&lines->json, all, "label") : NULL;
    lines->label = label ? ppo__json_bool(&lines->json) : -1;
    if (label) pairs = 0;
    for (int k = 0; k < PPO__LINE_MEMBERS; ++k) {
        const int used = pairs ? k == PPO__PROMPT || k >= PPO__CHOSEN : k < PPO__CHOSEN;
        const int list = used && k != PPO__TEXT;
        ppo__value *value = ppo__json_get(&lines->json, all, ppo__line_members[k]);
        if (value && value->kind != '"' && !(value->kind == '[' && value->count && list)) {
            if (used && !wrong) wrong = ppo__line_members[k];
            value = NULL;
        }
        lines->value[k] = value;
    }
    if (lines->json.status) return lines->json.status;
    for (*kind = 0; *kind < (int)(sizeof ppo__line_kinds / sizeof *ppo__line_kinds); ++*kind) {
        int has = ppo__line_kinds[*kind].pairs == pairs, lists = ppo__line_kinds[*kind].chat, texts = 0;
        for (int k = 0; k < 3 && has; ++k) {
            const int member = ppo__line_kinds[*kind].member[k];
            if (member < 0) continue;
            const ppo__value *value = lines->value[member];
            has = value && !(value->kind == '[' ? texts : lists);
            texts |= !k && has && value->kind != '['; /* what follows a text is a text */
        }
        if (has) return PPO_OK;
    }
    if (label && !wrong) return ppo__no_members(lines, all, "prompt and completion beside its label");
    if (wrong)
        return ppo__file_fail(lines->path, "line %d: \"%s\" is no text%s", lines->number, wrong,
                              strcmp(wrong, "text") ? ", and no list of messages" : "");
    return ppo__no_members(lines, all,
                           pairs ? "chosen and rejected, as texts with a prompt or as lists of messages"
                                 : "messages, prompt or text");
}

/* Cuts the last sequence after max_tokens. Returns 0 if nothing is left to learn; a prompt is not cut. */
static int ppo__cut_last(ppo_tokens *tokens, int max_tokens, int is_prompt) {
    int s = tokens->count - 1, *end = &tokens->start[s + 1],
        over = max_tokens ? *end - tokens->start[s] - max_tokens : 0;
    if (is_prompt) return over <= 0;
    if (over > 0) *end -= over;
    if (max_tokens && tokens->prompt[s] > max_tokens) tokens->prompt[s] = max_tokens;
    return ppo__response_length(tokens, s) > 0;
}

/* The text of a value; the first one with the name of a special token is remembered. */
static char *ppo__line_text(ppo__line_reader *lines, ppo__value *value) {
    char *text = ppo__json_decode(&lines->json, value);
    ppo_named *named = lines->how.specials ? NULL : lines->how.named;
    const int token =
        named && !named->line && !lines->json.status ? ppo_tokenizer_find(lines->tokenizer, text) : -1;
    const ppo__added *added = ppo__added_of(lines->tokenizer, token);
    if (!added) return text;
    named->line = lines->number;
    snprintf(named->name, sizeof named->name, "%.*s", added->name_bytes, added->name);
    return text;
}

/* Adds the messages of a member, [{"role": "user", "content": "..."}, ...], or what the assistant says to the
   chat. */
static ppo_status ppo__add_messages(ppo__line_reader *lines, int member) {
    ppo__json *json = &lines->json;
    ppo__value *value = lines->value[member], *item = NULL;
    ppo_message message = {"assistant", value->kind == '[' ? NULL : ppo__line_text(lines, value)};
    if (message.text && !json->status) return PPO__PUSH(lines->chat, message);
    while (ppo__json_each(json, value, '[', &item)) {
        ppo__value *role = ppo__json_get(json, item, "role"), *text = ppo__json_get(json, item, "content");
        const int both = role && text && strchr("\"s", role->kind) && strchr("\"s", text->kind);
        if (!both && !json->status && ppo__json_get(json, item, "from") && ppo__json_get(json, item, "value"))
            ppo__json_fail(
                json, "a message has from and value: call them role (user or assistant) and content", NULL);
        if (!both) ppo__json_fail(json, "a message has no text as its role or content", NULL);
        if (json->status) return json->status;
        message.role = ppo__json_decode(json, role);
        message.text = ppo__line_text(lines, text);
        if (!json->status) json->status = PPO__PUSH(lines->chat, message);
    }
    return json->status;
}

/* Adds a chat: the prompt's messages, all of them given, and those of the response; -1: there is none. */
static ppo_status ppo__add_chat_line(ppo__line_reader *lines, ppo_tokens *to, int prompt, int response,
                                     int *only_prompt) {
    int count = 0, given = 0, *prompt_tokens = NULL;
    ppo_status status = PPO_OK;
    if (!ppo__in_chat.add) return ppo__needs("a line with messages", "ppo_chat.h");
    if (lines->chat) stbds_header(lines->chat)->length = 0;
    if (prompt >= 0) {
        status = ppo__add_messages(lines, prompt);
        count = (int)stbds_arrlenu(lines->chat);
    }
    if (!status && response >= 0) status = ppo__add_messages(lines, response);
    if (status) return status;
    const int all = (int)stbds_arrlenu(lines->chat);
    if (count && all > count) {
        if (strcmp(lines->chat[count].role, "assistant") != 0)
            return ppo__refuse("what follows the prompt begins with the role \"%.40s\"",
                               lines->chat[count].role);
        status = ppo__in_chat.add(to, lines->tokenizer, &lines->how, lines->chat, count, 1);
        if (status) return status;
        given = to->start[to->count] - to->start[to->count - 1];
        prompt_tokens = PPO__ARRAY(&lines->memory, int, given);
        if (!prompt_tokens) return PPO_ERROR_MEMORY;
        memcpy(prompt_tokens, to->token + to->start[--to->count], (size_t)given * sizeof *prompt_tokens);
    }
    *only_prompt = strcmp(lines->chat[all - 1].role, "assistant") != 0;
    status = ppo__in_chat.add(to, lines->tokenizer, &lines->how, lines->chat, all, *only_prompt);
    if (status || !given || *only_prompt) return status;
    const int *whole = to->token + to->start[to->count - 1];
    int same = 0; /* an answer with a thought does not begin as one without */
    while (same < given && whole[same] == prompt_tokens[same]) ++same;
    to->prompt[to->count - 1] = same;
    return PPO_OK;
}

PPO_DEF ppo_status ppo_tokens_add_written(ppo_tokens *tokens, const ppo_tokenizer *tokenizer, int start,
                                          const char *prompt, const char *response, int end) {
    if (!PPO__GIVEN("ppo_tokens_add_written", tokens, tokenizer, prompt)) return PPO_ERROR_ARGUMENT;
    if (start >= tokenizer->vocab || end >= tokenizer->vocab)
        return ppo__refuse("ppo_tokens_add_written: start is %d and end %d, tokens are 0 .. %d", start, end,
                           tokenizer->vocab - 1);
    const ppo__added *added = ppo__added_of(tokenizer, start);
    const char *first = *prompt || !response ? prompt : response;
    ppo__encoder encoder = ppo__encoder_start(tokenizer);
    if (start >= 0 && !(added && !strncmp(first, added->name, (size_t)added->name_bytes)))
        ppo__emit(&encoder, start);
    ppo__encode_text(&encoder, PPO_ENCODE_SPECIALS, prompt, strlen(prompt), 1);
    const int given = encoder.count;
    if (response)
        ppo__encode_text(&encoder, PPO_ENCODE_SPECIALS | PPO_ENCODE_CONTINUES, response, strlen(response), 1);
    const int last = encoder.count > given ? encoder.tokens[encoder.count - 1] : -1;
    if (response && end >= 0 && last != end) ppo__emit(&encoder, end);
    if (!encoder.memory.failed)
        encoder.memory.failed = ppo_tokens_add(tokens, encoder.tokens, encoder.count, given);
    return ppo__encoder_end(&encoder);
}

static ppo_status ppo__add_line(ppo__line_reader *lines) {
    int kind = 0, keep = 1, first = 0, last_one = lines->to[1] != NULL;
    if (strspn(lines->line, " \t\r") + 1 == stbds_arrlenu(lines->line)) return PPO_OK;
    ppo_status status = ppo__parse_line(lines, &kind);
    if (!status && lines->label >= 0) first = last_one = !lines->label;
    for (int k = first; k <= last_one && !status; ++k) {
        const int *member = ppo__line_kinds[kind].member;
        const int prompt = member[0], response = member[1 + k - first];
        int only_prompt = response < 0;
        if (ppo__line_kinds[kind].chat || (prompt >= 0 && lines->value[prompt]->kind == '['))
            status = ppo__add_chat_line(lines, lines->to[k], prompt, response, &only_prompt);
        else {
            const char *given = prompt < 0 ? "" : ppo__line_text(lines, lines->value[prompt]);
            const char *learned = response < 0 ? NULL : ppo__line_text(lines, lines->value[response]);
            status = lines->json.status;
            if (!status)
                status = (lines->how.specials ? ppo_tokens_add_written : ppo_tokens_add_text)(
                    lines->to[k], lines->tokenizer, lines->how.start, given, learned, lines->how.end);
        }
        if (status == PPO_ERROR_ARGUMENT)
            status = ppo__file_fail(lines->path, "line %d: %s", lines->number, ppo__error);
        if (!status) keep &= ppo__cut_last(lines->to[k], lines->how.max_tokens, only_prompt);
        if (status || !keep) continue;
        const int last = lines->to[k]->count - 1, learns = lines->how.needs == PPO_NEEDS_RESPONSE;
        if (lines->how.needs &&
            !(learns ? ppo__response_length(lines->to[k], last) : lines->to[k]->prompt[last]))
            status = ppo__file_fail(
                lines->path, "line %d has no %s", lines->number,
                learns ? "token to learn after its prompt: a completion, or what the assistant says"
                       : "prompt");
    }
    for (int k = first; k <= last_one && !status && !keep; ++k) --lines->to[k]->count;
    lines->skipped += !keep;
    return status;
}

PPO_DEF ppo_lines ppo_lines_default(void) {
    const ppo_lines lines = {0, 0, NULL, -1, -1, 0, 0, 0, NULL, 0};
    return lines;
}

PPO_DEF ppo_status ppo_tokens_add_lines(ppo_tokens *tokens, ppo_tokens *rejected, const char *path,
                                        const ppo_tokenizer *tokenizer, const ppo_lines *lines,
                                        int *skipped) {
    ppo__line_reader reader;
    int more = 1;
    if (skipped) *skipped = 0;
    if (!PPO__GIVEN("ppo_tokens_add_lines", tokens, path, tokenizer)) return PPO_ERROR_ARGUMENT;
    memset(&reader, 0, sizeof reader);
    reader.path = path;
    reader.tokenizer = tokenizer;
    reader.how = lines ? *lines : ppo_lines_default();
    if (reader.how.named) reader.how.named->line = 0;
    reader.to[0] = tokens;
    reader.to[1] = rejected;
    if (tokens == rejected || reader.how.max_tokens < 0)
        return ppo__refuse("ppo_tokens_add_lines: max_tokens is %d, or rejected is tokens",
                           reader.how.max_tokens);
    const int before[2] = {tokens->count, rejected ? rejected->count : 0};
    FILE *in = ppo__open_old(path, &reader.left);
    ppo_status status = in ? PPO_OK : ppo__failed;
    while (more && !status) {
        status = ppo__read_line(&reader, in, &more);
        if (!status) status = ppo__add_line(&reader);
    }
    if (in) fclose(in);
    ppo__array_free(reader.line);
    ppo__array_free(reader.chat);
    ppo__arena_free(&reader.memory);
    for (int k = 0; k < 2 && reader.to[k] && status; ++k) reader.to[k]->count = before[k];
    if (skipped && !status) *skipped = reader.skipped;
    return status;
}

typedef struct ppo__line_writer {
    const ppo_tokens *tokens;
    const ppo_tokenizer *tokenizer;
    char *text; /* [room] of one sequence */
    size_t room;
} ppo__line_writer;

static ppo_status ppo__write_lines(FILE *out, const char *path, void *user) {
    const ppo__line_writer *w = (const ppo__line_writer *)user;
    ppo__header json = {out, 0};
    for (int s = 0; s < w->tokens->count; ++s) {
        int bound[3] = {w->tokens->start[s], ppo__prompt_end(w->tokens, s), w->tokens->start[s + 1]}, length;
        for (int k = 0; k < 2; ++k) {
            char *mended = w->text + w->room, *to = mended;
            const char *at = w->text,
                       *end = at + ppo__token_text(w->tokenizer, w->tokens->token, bound[k], bound[k + 1],
                                                   k ? 0 : w->tokenizer->strip, 1, w->text, w->room, &length);
            for (; at < end; at += length) { /* a 0 would be the end of a text */
                int32_t code = ppo__utf8_get(at, (size_t)(end - at), &length);
                if (code <= 0) {
                    code = 0xfffd;
                    length = 1;
                }
                to += ppo__utf8_put(code, to);
            }
            *to = 0;
            ppo__put(&json, k ? ", \"completion\": " : "{\"prompt\": ");
            ppo__put_string(&json, mended);
        }
        ppo__put(&json, "}\n");
    }
    return PPO_OK;
}

PPO_DEF ppo_status ppo_tokens_save_lines(const ppo_tokens *tokens, const ppo_tokenizer *tokenizer,
                                         const char *path) {
    if (!PPO__GIVEN("ppo_tokens_save_lines", tokens, tokenizer, path)) return PPO_ERROR_ARGUMENT;
    ppo__line_writer writer = {tokens, tokenizer, NULL, 1};
    for (int s = 0; s < tokens->count; ++s) {
        const int *token = tokens->token + tokens->start[s], n = tokens->start[s + 1] - tokens->start[s];
        size_t bytes;
        if (ppo_decode(tokenizer, token, n, NULL, 0, &bytes)) return ppo__failed;
        bytes += (size_t)tokenizer->strip + 1; /* which a response keeps */
        if (bytes > writer.room) writer.room = bytes;
    }
    if (!(writer.text = (char *)ppo__alloc(4 * writer.room))) return PPO_ERROR_MEMORY;
    ppo_status status = ppo__write_file(path, ppo__write_lines, &writer);
    return ppo__free(writer.text), status;
}

/* -- tokens -- */

static ppo_status ppo__put_tokens(ppo_file *file, const void *object) {
    const ppo_tokens *tokens = (const ppo_tokens *)object;
    const int64_t n = tokens->start[tokens->count], count = tokens->count, bounds = count + 1;
    if (ppo_file_add(file, "tokens", PPO_I32, &n, 1, tokens->token) ||
        ppo_file_add(file, "tokens.start", PPO_I32, &bounds, 1, tokens->start) ||
        (tokens->prompt && ppo_file_add(file, "tokens.prompt", PPO_I32, &count, 1, tokens->prompt)) ||
        (tokens->given && ppo_file_add(file, "tokens.given", PPO_U8, &n, 1, tokens->given)))
        return ppo__failed;
    return PPO_OK;
}

PPO_DEF ppo_status ppo_tokens_save(const ppo_tokens *tokens, const char *path) {
    if (!tokens || tokens->count < 1) return ppo__refuse("ppo_tokens_save: there are no tokens");
    return ppo__save("ppo_tokens_save", path, ppo__put_tokens, tokens);
}

static ppo_status ppo__get_tokens(const ppo_file *file, ppo_tokens *tokens) {
    static const char *const names[] = {"tokens.start", "tokens.prompt", "tokens", "tokens.given"};
    const ppo_array *array[4], *start = ppo_file_find(file, names[0]), *all = ppo_file_find(file, names[2]);
    const int64_t n = all && all->rank ? all->shape[0] : 0, m = start && start->rank ? start->shape[0] : 2;
    const int64_t shape[4] = {m, m ? m - 1 : 0, n, n};
    int bounds[2] = {0, (int)n};
    for (int k = 0; k < 4; ++k) {
        const ppo_dtype type = k == 3 ? PPO_U8 : PPO_I32;
        const int needed = k == 2;
        array[k] = ppo_file_find(file, names[k]);
        if ((array[k] || needed) && ppo__file_expect(file, names[k], type, &shape[k], 1, &array[k]))
            return ppo__failed;
    }
    if (n < 1 || n > INT_MAX || m < 2 || m > INT_MAX)
        return ppo__file_fail(file->path, "corrupt file: %lld tokens in %lld sequences", (long long)n,
                              (long long)m - 1);
    const ppo_tokens view = {(int)m - 1,
                             array[0] ? (int *)array[0]->data : bounds,
                             array[1] ? (int *)array[1]->data : NULL,
                             (int *)array[2]->data,
                             array[3] ? (unsigned char *)array[3]->data : NULL,
                             NULL};
    if (view.start[0] != 0 || view.start[view.count] != n)
        return ppo__file_fail(file->path, "corrupt file: its sequences are tokens %d to %d of %lld",
                              view.start[0], view.start[view.count], (long long)n);
    for (int s = 0; s < view.count; ++s)
        if (view.start[s + 1] <= view.start[s] || view.start[s + 1] > n)
            return ppo__file_fail(file->path, "corrupt file: sequence %d is tokens %d to %d of %lld", s,
                                  view.start[s], view.start[s + 1], (long long)n);
    ppo_status status = PPO_OK;
    for (int s = 0; s < view.count && !status; ++s) status = ppo_tokens_add_from(tokens, &view, s);
    return status == PPO_ERROR_ARGUMENT ? ppo__file_blame(file) : status;
}

PPO_DEF ppo_status ppo_tokens_load(const char *path, ppo_tokens *tokens) {
    ppo_file *file = NULL;
    if (!PPO__GIVEN("ppo_tokens_load", path, tokens)) return PPO_ERROR_ARGUMENT;
    const int before = tokens->count;
    ppo_status status = ppo_file_read(path, &file);
    if (!status) status = ppo__get_tokens(file, tokens);
    if (status) tokens->count = before;
    ppo_file_free(file);
    return status;
}

/* -- fine-tuning on windows of a text -- */

/* Divides a text into adjacent windows. Each begins with the last token of the window before, which it
   does not predict. Windows with no token to learn from are left out. */
static ppo_status ppo__fit_windows(ppo__fit *fit, ppo__fit_set *set) {
    const ppo_tokens *data = set->data[0];
    const int n = data->start[data->count], width = ppo__min_int(fit->config->window, n);
    const int marked = data->given || data->prompt;
    unsigned char *given = marked ? PPO__ARRAY(&fit->memory, unsigned char, n) : NULL;
    set->first = PPO__ARRAY(&fit->memory, int, n > 1 ? ppo__divide_up(n - 1, width - 1) : 1);
    if (ppo__arena_status(&fit->memory)) return PPO_ERROR_MEMORY;
    for (int s = 0; s < data->count && marked; ++s) {
        int prompt = data->prompt ? data->prompt[s] : 0;
        for (int i = data->start[s]; i < data->start[s + 1]; ++i)
            given[i] = i - data->start[s] < prompt || (data->given && data->given[i]);
    }
    const ppo_tokens text = {1, set->bounds, NULL, data->token, given, NULL};
    set->text = text;
    set->bounds[1] = n;
    set->longest[0] = width;
    set->count = 0;
    int next = 0; /* token to learn from */
    for (int64_t at = 0; at < n - 1; at += width - 1) {
        if (next <= at) next = ppo__response_token(&set->text, 0, (int)at + 1);
        if (next < n && next - at < width) set->first[set->count++] = (int)at;
    }
    return set->count ? PPO_OK : ppo__refuse("there is no token after the prompts");
}

/* Draws windows that begin anywhere. A window with no token to learn from moves to the next such token. */
static void ppo__fit_draw_windows(ppo__fit_set *set, ppo_rng *rng) {
    const int n = set->bounds[1], last = n - set->longest[0];
    for (int i = 0; i < set->count; ++i) {
        int at = ppo_rng_below(rng, last + 1), next = ppo__response_token(&set->text, 0, at + 1);
        if (next == n) {
            next = ppo__response_token(&set->text, 0, 0);
            at = 0;
        }
        set->first[i] = next - at < set->longest[0] ? at : ppo__min_int(next - 1, last);
    }
}

/* YaRN (Peng 2023): wavelengths stay up to the one that turns rope_high times in the context, and are scaled from the one
   that turns rope_low times; what is rotated grows, and so do the scores. */
static double ppo__yarn(const ppo_lm_config *c, int j, double *size) {
    const double each = c->rotary_size / (2 * log((double)c->rope_theta)), turn = 2 * 3.14159265358979323846;
    const double first = floor(each * log(c->rope_context / (turn * (double)c->rope_high)));
    const double last = ceil(each * log(c->rope_context / (turn * (double)c->rope_low)));
    const double from = first > 0 ? first : 0, to = last < c->rotary_size - 1 ? last : c->rotary_size - 1;
    *size = c->rope_factor > 1 ? 0.1 * log((double)c->rope_factor) + 1 : 1;
    return 1 - (j - from) / (to > from || to < from ? to - from : 0.001);
}

PPO__COMPANION_IS(ppo__hub_functions, ppo__in_hub,
                  {ppo__tokfile_load, ppo__tokfile_save, ppo__hub_load, ppo__qk_norm, ppo__yarn,
                   ppo__lora_layer, ppo__lora_twin, ppo__fit_windows, ppo__fit_draw_windows});

#endif

PPO__WARNINGS_BACK

#endif
