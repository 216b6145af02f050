/* finetune_options.h - the command line of finetune.c: name=value. Settings of the library go by the names of
   its tables (ppo_fit_settings(), ppo_rlhf_settings(), ppo_lm_settings(), ppo_sampling_settings()); the others are
   below. */
#ifndef FINETUNE_OPTIONS_H
#define FINETUNE_OPTIONS_H

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "lm_options.h"

enum { TOKENIZER, NEW, MERGE, TEXT, SFT, REWARD, DPO, KTO, RL };
enum { DTYPE_Q8_0 = 3 };

typedef struct training {
    const char *name;
    int kind;
} training;

/* All others are presets of PPO on tokens. */
static const training methods[] = {
    {"tokenizer", TOKENIZER}, {"new", NEW}, {"merge", MERGE}, {"text", TEXT}, {"sft", SFT},
    {"reward", REWARD},       {"dpo", DPO}, {"kto", KTO}};
enum { METHODS = sizeof methods / sizeof *methods };

typedef struct job {
    const training *method;
    const char *model, *out, *data_path, *held_out_path, *reward_path, *teacher_path, *judge, *log, *specials,
        *add_tokens, *date; /* NULL: not given */
    const char *start_name, *end_name, *kernels, *adapter;
    int form, written, thinking, dtype, vocab, context, show, threads, checkpoint_every, merge, pack,
        read_specials, help;
    ppo_lora lora;
    ppo_lm_config shape;
    ppo_fit_config fit;
    ppo_rlhf_config rlhf; /* its sampling is that of all methods */

    ppo_tokenizer *tokenizer;
    ppo_lm *base;                    /* the model that was loaded */
    ppo_lm *lm;                      /* the same, or LoRA on it, as it was before */
    ppo_lm *scorer, *teacher;        /* that of the reward, and of `distill` */
    ppo_tokens data[2], held_out[2]; /* [1]: the rejected ones, of pairs */
    int start, end;                  /* tokens around a text; -1: none */
    int ends[MOST_ENDS];             /* more that end one, by the folder */
    int argc;                        /* the command line */
    char **argv;
    ppo_reward_fn give; /* the reward */
    void *give_user;
    FILE *rows;        /* of the log */
    ppo_status failed; /* to write it */
    int stopped;       /* by Ctrl-C, before the end */
    char checkpoint[512];
} job;

static const struct {
    const char *name;
    size_t offset;
    const char *help;
} texts[] = {
    {"model", offsetof(job, model), "the folder (or file) to start from; of `new`, where the tokenizer is"},
    {"out", offsetof(job, out),
     "the folder to write; a name with .safetensors, or .gguf for llama.cpp: one file"},
    {"data", offsetof(job, data_path), "a file of JSON Lines; of `tokenizer` a text, and of `text` either"},
    {"held_out", offsetof(job, held_out_path), "the same, not to learn from, but to measure with"},
    {"judge", offsetof(job, judge), "a command that gives the rewards, a number per line"},
    {"reward", offsetof(job, reward_path), "a folder with a reward model of the same tokenizer instead"},
    {"teacher", offsetof(job, teacher_path), "a folder with the model that teaches, of the same tokenizer"},
    {"log", offsetof(job, log), "a CSV file"},
    {"start", offsetof(job, start_name), "token before a text, or none [what tokenizer.json says]"},
    {"end", offsetof(job, end_name),
     "token that ends a text, or none [that of the form, <|endoftext|>, or </s>]"},
    {"date", offsetof(job, date), "instead of that of today, in chats whose form tells it"},
    {"specials", offsetof(job, specials), "special tokens of `tokenizer`"},
    {"add_tokens", offsetof(job, add_tokens),
     "special tokens that the model lacks, as <|im_start|>,<|im_end|>"},
    {"adapter", offsetof(job, adapter), "a folder with LoRA for the model, to train further, or to merge"},
    {"lora_layers", offsetof(job, lora.layers),
     "layers that get LoRA, as q_proj,v_proj (peft: target_modules) [all]"},
    {"kernels", offsetof(job, kernels), "plain or a set like avx2; else the best here"},
};
enum { TEXTS = sizeof texts / sizeof *texts };

/* Checkpoints of the others are a setting of ppo_fit_settings(). */
static const ppo_settings *own_settings(int with_checkpoints) {
#define OWN_AT(name, place, type, min, max, choices, help) \
    { #name, PPO_FIELD_##type, offsetof(job, place), NULL, min, max, choices, help, 0, 0 }
#define OWN(name, type, min, max, choices, help) OWN_AT(name, name, type, min, max, choices, help)
    static const ppo_field fields[] = {
        OWN(form, CHOICE, 0, PPO_CHAT_FORMS, "auto|" CHAT_FORMS,
            "of chats; auto: that of the folder, chatml if it has no template"),
        OWN(thinking, CHOICE, 0, 1, "no|yes", "before an answer, in chats of models that were trained to"),
        OWN(dtype, CHOICE, 0, 3, "f32|f16|bf16|q8_0", "of the numbers in the folder; q8_0: of .gguf"),
        OWN(vocab, INT, 0, 65536, NULL, "tokens of `tokenizer`; 0: one per character, only in a file"),
        OWN_AT(lora, lora.rank, INT, 0, 65536, NULL, "rank of LoRA; 0: all weights are trained"),
        OWN_AT(lora_alpha, lora.alpha, FLOAT, 1e-30, 1e30, NULL,
               "the output of LoRA is scaled by lora_alpha / lora"),
        OWN(merge, CHOICE, 0, 1, "no|yes", "write a whole model, not LoRA for one"),
        OWN(pack, CHOICE, 0, 1, "no|yes", "keep the weights below LoRA in BF16: half the memory"),
        OWN(read_specials, CHOICE, 0, 1, "no|yes",
            "names of special tokens in the data become those tokens, instead of letters"),
        OWN(context, INT, 0, 1 << 30, NULL, "longest sequence, to save memory; 0: the model's"),
        OWN(show, INT, 0, 1000, NULL, "samples to print"),
        OWN(threads, INT, 1, 1024, NULL, "to compute with; the results are the same for any number"),
        OWN(checkpoint_every, INT, 1, 1 << 30, NULL, "iterations between checkpoints of ppo and its presets"),
    };
    enum { COUNT = sizeof fields / sizeof *fields };
    static const ppo_settings settings[] = {{fields, COUNT - 1, NULL, NULL, NULL},
                                            {fields, COUNT, NULL, NULL, NULL}};
    return &settings[with_checkpoints];
}

/* What not every method has, or what needs another setting, one of "a|b": elsewhere it would have no effect. */
enum {
    FITS = 1 << TEXT | 1 << SFT | 1 << REWARD | 1 << DPO | 1 << KTO,
    TRAINS = FITS | 1 << RL,
    MERGES = 1 << MERGE
};
static const struct {
    const char *name;
    int methods; /* a bit for each */
    const char *needs;
} effects[] = {
    {"specials", 1 << TOKENIZER, NULL},
    {"vocab", 1 << TOKENIZER, NULL},
    {"add_tokens", 1 << TEXT | 1 << SFT, NULL},
    {"model", ~(1 << TOKENIZER), NULL},
    {"data", 1 << TOKENIZER | TRAINS, NULL},
    {"dtype", ~(1 << TOKENIZER), NULL},
    {"context", 1 << NEW | TRAINS, NULL},
    {"held_out", TRAINS, NULL},
    {"evaluate_every", FITS, "held_out"},
    {"evaluate_first", FITS, "held_out"},
    {"patience", FITS, "held_out"},
    {"log", TRAINS, NULL},
    {"form", TRAINS, NULL},
    {"thinking", TRAINS, NULL},
    {"date", TRAINS, NULL},
    {"start", TRAINS, NULL},
    {"end", TRAINS, NULL},
    {"read_specials", TRAINS, NULL},
    {"show", TRAINS & ~(1 << REWARD), NULL},
    {"checkpoint_every", TRAINS, NULL},
    {"beta", 1 << DPO | 1 << KTO, NULL},
    {"label_smoothing", 1 << DPO, NULL},
    {"teacher", 1 << RL, NULL},
    {"judge", 1 << RL, NULL},
    {"reward", 1 << RL, NULL},
    {"adapter", TRAINS | MERGES, NULL},
    {"lora", TRAINS, NULL},
    {"lora_alpha", TRAINS, "lora"},
    {"lora_layers", TRAINS, "lora"},
    {"merge", TRAINS, "lora|adapter"},
    {"pack", TRAINS | MERGES, NULL},
};
enum { EFFECTS = sizeof effects / sizeof *effects };

static int distills(const job *j) { return !strcmp(j->method->name, "distill"); }

static int has_option(const void *user, const char *name) {
    const job *j = (const job *)user;
    for (int k = 0; k < EFFECTS; k++)
        if (!strcmp(effects[k].name, name))
            return effects[k].methods >> j->method->kind & 1 && (strcmp(name, "teacher") || distills(j));
    return !is_no_option(name);
}

/* Is name=value in the command line, with a value that is neither 0 nor no? */
static int is_given(const job *j, const char *name) {
    const size_t n = strcspn(name, "|");
    for (int i = 2; i < j->argc; i++) {
        const char *value = j->argv[i] + n + 1;
        if (!strncmp(j->argv[i], name, n) && j->argv[i][n] == '=')
            return strcmp(value, "0") && strcmp(value, "no");
    }
    return 0;
}

/* The tables that a method has, and what they fill. A name is looked up in this order. */
static int tables_of(job *j, const ppo_settings *table[3], void *config[3]) {
    int n = 0;
    if (j->method->kind == NEW) table[n] = ppo_lm_settings(), config[n++] = &j->shape;
    if (j->method->kind == RL) table[n] = ppo_rlhf_settings(), config[n++] = &j->rlhf;
    if (j->method->kind >= TEXT && j->method->kind < RL) table[n] = ppo_fit_settings(), config[n++] = &j->fit;
    if (j->method->kind >= TEXT && j->method->kind < RL && j->method->kind != REWARD)
        table[n] = ppo_sampling_settings(), config[n++] = &j->rlhf.sampling;
    table[n] = own_settings(j->method->kind == RL), config[n++] = j;
    return n;
}

static float *rate_of(job *j) {
    return j->method->kind == RL ? &j->rlhf.learning_rate : &j->fit.learning_rate;
}

/* Learning rates that are usual for models that were trained before, which the library's, for models from nothing,
   would destroy: of all weights, and of LoRA. */
static float usual_rate(const training *method, int lora) {
    static const float rates[][2] = {{5e-5f, 2e-4f}, {2e-5f, 2e-4f}, {1e-5f, 1e-4f},
                                     {1e-6f, 5e-6f}, {1e-6f, 5e-6f}, {1e-6f, 1e-5f}};
    return rates[method->kind - TEXT][lora];
}

/* A file for llama.cpp. */
static int is_gguf(const char *path) {
    const char *end = strrchr(path, '.');
    return end && !strcmp(end, ".gguf");
}

/* A model in one file, instead of a folder. */
static int is_file(const char *path) {
    const char *end = strrchr(path, '.');
    return is_gguf(path) || (end && !strcmp(end, ".safetensors"));
}

static int usage(job *j) {
    const ppo_settings *table[3];
    void *config[3];
    printf("usage: finetune METHOD model=FOLDER data=FILE out=FOLDER [name=value ...]\n"
           "methods: tokenizer new merge text sft reward dpo kto %s\n"
           "finetune METHOD help: its settings\n\n",
           ppo_rlhf_settings()->preset_names);
    for (int k = 0; k < TEXTS && j->method; k++)
        if (has_option(j, texts[k].name)) print_wrapped(texts[k].help, printf("  %-26s ", texts[k].name));
    for (int t = 0, n = j->method ? tables_of(j, table, config) : 0; t < n; t++)
        print_settings(table[t], config[t], "", has_option, j);
    if (j->method && TRAINS >> j->method->kind & 1)
        printf("\nlearning_rate is by default what is usual for a model that was trained before: %g, with "
               "LoRA %g;\n"
               "for one that `new` made, with random weights, %g\n",
               (double)usual_rate(j->method, 0), (double)usual_rate(j->method, 1), (double)*rate_of(j));
    return j->help = 1;
}

static ppo_status take(job *j, const char *argument) {
    const ppo_settings *table[3];
    void *config[3];
    char name[64], is[64];
    const char *equals = strchr(argument, '=');
    snprintf(name, sizeof name, "%.*s", (int)strcspn(argument, "="), argument);
    if (!equals) return ppo_fail(PPO_ERROR_ARGUMENT, "%s is not name=value", argument);
    for (int k = 0; k < TEXTS && has_option(j, name); k++)
        if (!strcmp(name, texts[k].name)) {
            *(const char **)((char *)j + texts[k].offset) = equals + 1;
            return PPO_OK;
        }
    for (int t = 0, n = tables_of(j, table, config); t < n && has_option(j, name); t++)
        if (!ppo_settings_get(table[t], config[t], name, is, sizeof is))
            return ppo_settings_set(table[t], config[t], name, equals + 1);
    return ppo_fail(PPO_ERROR_ARGUMENT, "%s has no setting %s, see finetune %s help", j->method->name, name,
                    j->method->name);
}

static size_t length_of(const char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    return n;
}

/* What the method needs must be there. */
static ppo_status check(const job *j) {
    const int kind = j->method->kind;
    const char *missing = !j->out                                                      ? "out"
                          : !j->model && kind != TOKENIZER                             ? "model"
                          : !j->adapter && kind == MERGE && !is_gguf(j->out)           ? "adapter"
                          : !j->data_path && kind != NEW && kind != MERGE              ? "data"
                          : distills(j) && !j->teacher_path                            ? "teacher"
                          : kind == RL && !distills(j) && !j->judge && !j->reward_path ? "judge or reward"
                                                                                       : NULL;
    if (missing) return ppo_fail(PPO_ERROR_ARGUMENT, "%s needs %s=...", j->method->name, missing);
    if (!*j->out) return ppo_fail(PPO_ERROR_ARGUMENT, "out is empty");
    if (j->model && kind != NEW && length_of(j->out) == length_of(j->model) &&
        !strncmp(j->out, j->model, length_of(j->out)))
        return ppo_fail(PPO_ERROR_ARGUMENT, "out is the model, %s, which stays as it is: choose another",
                        j->out);
    if (j->adapter && j->lora.rank)
        return ppo_fail(PPO_ERROR_ARGUMENT, "adapter or lora: one of them, the adapter has its rank");
    if (j->add_tokens && (j->adapter || j->lora.rank))
        return ppo_fail(
            PPO_ERROR_ARGUMENT,
            "add_tokens: LoRA does not train rows of new tokens, which are all alike at first: train "
            "all weights with add_tokens, then LoRA on what that writes");
    for (int k = 0; k < EFFECTS; k++) {
        const char *needs = effects[k].needs, *other = needs ? strchr(needs, '|') : NULL;
        if (needs && is_given(j, effects[k].name) && !is_given(j, needs) &&
            !(other && is_given(j, other + 1)))
            return ppo_fail(PPO_ERROR_ARGUMENT, "%s has no effect without %s", effects[k].name, needs);
    }
    if (is_gguf(j->out) && kind == REWARD)
        return ppo_fail(PPO_ERROR_ARGUMENT, "%s: GGUF has no score: choose a folder", j->out);
    if (j->dtype == DTYPE_Q8_0 && !is_gguf(j->out))
        return ppo_fail(PPO_ERROR_ARGUMENT, "dtype=q8_0 has no folder, only a file NAME.gguf");
    if (is_file(j->out) && !is_gguf(j->out) && is_given(j, "dtype"))
        return ppo_fail(PPO_ERROR_ARGUMENT, "dtype has no effect on a single file, which is exact");
    if (j->judge && j->reward_path)
        return ppo_fail(PPO_ERROR_ARGUMENT, "%s needs judge or reward, not both", j->method->name);
    return PPO_OK;
}

/* Everything from the command line. */
static ppo_status read_options(job *j, int argc, char **argv) {
    static training preset = {NULL, RL};
    ppo_status status = PPO_OK;
    memset(j, 0, sizeof *j);
    j->argc = argc;
    j->argv = argv;
    j->vocab = 4096;
    j->lora = ppo_lora_default();
    j->lora.rank = 0;
    j->show = 4;
    j->threads = 1;
    j->checkpoint_every = 10;
    j->specials = "<|endoftext|>,<|pad|>";
    j->shape = ppo_lm_config_default();
    j->fit = ppo_fit_config_default();
    j->rlhf = ppo_rlhf_config_default();
    j->rlhf.iterations = 100;
    j->rlhf.sampling.max_new_tokens = 64;
    for (int k = 0; k < METHODS && argc > 1; k++)
        if (!strcmp(argv[1], methods[k].name)) j->method = &methods[k];
    if (!j->method && argc > 1 && strcmp(argv[1], "help") && strcmp(argv[1], "--help")) {
        status = ppo_rlhf_config_preset(&j->rlhf, preset.name = argv[1]);
        if (status) return ppo_fail(status, "there is no method %.60s, see finetune help", argv[1]);
        j->method = &preset;
    }
    if (!j->method) return usage(j), PPO_OK;
    for (int i = 2; i < argc; i++)
        if (!strcmp(argv[i], "help") || !strcmp(argv[i], "--help")) return usage(j), PPO_OK;
    for (int i = 2; i < argc; i++) /* --name=value is as good */
        if (!strncmp(argv[i], "--", 2)) argv[i] += 2;
    for (int i = 2; i < argc; i++)
        for (char *at = argv[i]; strchr(at, '=') && *at != '='; at++) *at = *at == '-' ? '_' : *at;
    for (int i = 2; i < argc && !status; i++) /* the family first: it resets others */
        if (j->method->kind == NEW && !strncmp(argv[i], "family=", 7))
            status = ppo_lm_config_family(&j->shape, argv[i] + 7);
    for (int i = 2; i < argc && !status; i++) status = take(j, argv[i]);
    if (!status) status = check(j);
    if (!status && j->kernels) status = ppo_use_kernels(j->kernels);
    if (!status) status = ppo_set_threads(j->threads);
    snprintf(j->checkpoint, sizeof j->checkpoint, "%s.checkpoint", j->out ? j->out : "");
    return status;
}

/* The tokens around a text, or the one that ends the assistant's turn; and others that the folder says end one. */
static ppo_status find_ends(job *j) {
    const char *end = j->end_name;
    ppo_sampling *how = &j->rlhf.sampling;
    ppo_status status = find_start(j->tokenizer, j->start_name, &j->start);
    how->stop_tokens = j->ends;
    if (!status && (!is_file(j->model) || is_gguf(j->model)))
        status = read_ends(j->model, ppo_tokenizer_vocab(j->tokenizer), j->ends, &how->stop_token_count);
    j->written = j->form - 1; /* -1: the form of the folder, which may be refused where there are chats */
    if (!status && !j->form && !ppo_chat_form(j->tokenizer, &j->written) && j->written < 0)
        j->written = PPO_CHATML;
    const int own_end = ppo_chat_end(j->tokenizer, j->written);
    if (!j->form && own_end >= 0 && how->stop_token_count < MOST_ENDS)
        j->ends[how->stop_token_count++] = own_end;
    for (int k = ALL_ENDS - 1; k >= END_OF_TEXT && !end && !j->form; k--)
        if (ppo_tokenizer_special(j->tokenizer, end_names[k]) >= 0) end = end_names[k];
    j->end = !end && j->form         ? own_end
             : end                   ? ppo_tokenizer_special(j->tokenizer, end)
             : how->stop_token_count ? j->ends[0]
                                     : -1;
    if (end && !strcmp(end, "none")) j->end = -1;
    else if (!status && end && j->end < 0)
        return ppo_fail(PPO_ERROR_ARGUMENT, "the tokenizer has no token %.60s", end);
    else if (!status && j->form && j->end < 0)
        return ppo_fail(PPO_ERROR_ARGUMENT, "the tokenizer has no token that ends a turn of %s",
                        ppo_chat_name(j->form - 1));
    how->eos = j->end;
    return status;
}

#endif
