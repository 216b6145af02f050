/* finetune.c - trains a language model from the command line: a folder and a file of data in, a folder out.

       build/finetune tokenizer out=tok data=book.txt vocab=1024          byte-level BPE of a text
       build/finetune new    model=tok out=base family=llama width=192    random weights for that tokenizer
       build/finetune text   model=base out=read data=book.txt            learns to continue texts
       build/finetune sft    model=read out=chat data=answers.jsonl       learns to answer as in the data
       build/finetune reward model=chat out=score data=pairs.jsonl        learns what people prefer
       build/finetune dpo    model=chat out=better data=pairs.jsonl       learns to write that, without a reward
       build/finetune kto    model=chat out=better data=labels.jsonl      the same, each text by itself good or bad
       build/finetune distill model=chat out=small data=prompts.jsonl teacher=large   learns what that would say
       build/finetune grpo   model=chat out=best data=prompts.jsonl judge="awk -f rule.awk"    or reward=score
       build/finetune sft    model=base out=mine data=answers.jsonl lora=8    trains LoRA and writes that alone
       build/finetune merge  model=base out=whole adapter=mine                makes one model of both
       build/finetune merge  model=chat out=chat.gguf dtype=q8_0              makes a file for llama.cpp

   A folder is one of the model hub, or one of these; a model may be a .gguf file. Data are lines as
   ppo_tokens_add_lines() reads them. A run that was killed, or ended by Ctrl-C (exit status 130), and is started
   again continues from OUT.checkpoint, to the same result.

   The judge is a command: your rule, in any language. It reads a line {"prompt": "...", "completion": "..."} for
   each sample (they are in OUT.samples.jsonl) and writes a number for each, the reward. You will see what it gave
   before and after. */
#if !defined(_WIN32) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L /* popen() */
#define _DEFAULT_SOURCE         /* signal(), after which reading continues */
#endif
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "companions/ppo_chat.h"
#include "companions/ppo_gguf.h"
#include "companions/ppo_hub.h"
#include "companions/ppo_judge.h"
#include "companions/ppo_methods.h"
#include "companions/ppo_resume.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#ifdef _WIN32
#include <io.h>
#define popen                 _popen
#define pclose                _pclose
#define access                _access
#define F_OK                  0
#define SYNC(descriptor)      _commit(descriptor)
#define REALPATH(path, whole) _fullpath(whole, path, sizeof(whole))
#define WIFSIGNALED(x)        0
#define WTERMSIG(x)           0
#define WEXITSTATUS(x)        (x)
#define SHIELD                ""
#else
#include <sys/wait.h>
#include <unistd.h>
#define SYNC(descriptor)      fsync(descriptor)
#define REALPATH(path, whole) realpath(path, whole)
#define SHIELD                "trap '' INT; " /* Ctrl-C reaches the judge, too, which is to finish the iteration */
#endif

#include "finetune_options.h"

static volatile sig_atomic_t interrupted; /* by Ctrl-C: the step or iteration is finished first */

static void on_interrupt(int sig) {
    interrupted = 1;
    signal(sig, SIG_DFL); /* the second Ctrl-C kills */
}

/* -- data -- */

static ppo_status read_text(const char *path, char **text, size_t *bytes) {
    ppo_status status = ppo_text_load(path, text, bytes);
    if (status) return status;
    if (!*text) return ppo_fail(PPO_ERROR_FILE, "%s: there is no such file", path);
    return strlen(*text) == *bytes ? PPO_OK : ppo_fail(PPO_ERROR_FILE, "%s: no text, a byte is 0", path);
}

static const ppo_named no_name = {0, ""};

/* The first special token that is written out in a text, and its line. */
static ppo_named find_named(const ppo_tokenizer *tokenizer, const char *text) {
    ppo_named named = no_name;
    char name[512] = "";
    const int token = ppo_tokenizer_find(tokenizer, text);
    if (token < 0 || ppo_decode(tokenizer, &token, 1, name, sizeof name, NULL)) return named;
    const char *at = strstr(text, name);
    for (named.line = 1; text < at; text++) named.line += *text == '\n';
    snprintf(named.name, sizeof named.name, "%.60s", name);
    return named;
}

/* What the method learns from, or is measured with. */
static ppo_status read_data(const job *j, const char *paths, ppo_tokens *tokens, ppo_tokens *rejected) {
    char *text = NULL;
    size_t bytes;
    int skipped = 0;
    ppo_named named = no_name;
    const int first = tokens == &j->data[0] || j->held_out_path; /* else the same lines are read again */
    const int kind = j->method->kind, pairs = kind == REWARD || kind == DPO || kind == KTO;
    ppo_lines lines = ppo_lines_default();
    lines.form = j->written;
    lines.thinking = j->thinking;
    lines.date = j->date;
    lines.start = j->start;
    lines.end = j->end;
    if (kind != TEXT) lines.max_tokens = j->lm->config.context - (kind == RL); /* room for a reply */
    lines.needs = kind == RL ? PPO_NEEDS_PROMPT : PPO_NEEDS_RESPONSE;
    lines.labels = kind == KTO;
    lines.specials = j->read_specials;
    lines.named = &named;
    ppo_status status;
    if (kind != TEXT || strstr(paths, ".json"))
        status = ppo_tokens_add_lines(tokens, pairs ? rejected : NULL, paths, j->tokenizer, &lines, &skipped);
    else if (!(status = read_text(paths, &text, &bytes))) {
        if (!j->read_specials) named = find_named(j->tokenizer, text);
        status = (j->read_specials ? ppo_tokens_add_written
                                   : ppo_tokens_add_text)(tokens, j->tokenizer, j->start, "", text, j->end);
    }
    ppo_text_free(text);
    if (!status) status = check_tokens(tokens, j->tokenizer, j->lm);
    if (!status && pairs) status = check_tokens(rejected, j->tokenizer, j->lm);
    if (named.line && first)
        printf("%s: line %d has the name of the special token %s, whose letters are read, as any text's: "
               "read_specials=yes reads the token\n",
               paths, named.line, named.name);
    if (skipped && first)
        printf("%s: %d of %d lines are left out: no token to learn is within the context of %d tokens\n",
               paths, skipped, skipped + tokens->count, j->lm->config.context);
    if (!status && !tokens->count)
        status = ppo_fail(PPO_ERROR_FILE, "%s: there is nothing to learn in it", paths);
    return status;
}

/* -- the reward by a command -- */

/* A ppo_reward_fn: the samples go to a file, which the command reads. */
static ppo_status ask_judge(const ppo_samples *samples, float *reward, void *user) {
    const job *j = (const job *)user;
    char path[512], command[2048], line[256] = "", *end = NULL;
    const int count = samples->tokens.count;
    int n = 0;
    snprintf(path, sizeof path, "%s.samples.jsonl", j->out);
    if (snprintf(command, sizeof command, SHIELD "( %s\n) < \"%s\"", j->judge, path) >= (int)sizeof command)
        return ppo_fail(PPO_ERROR_ARGUMENT, "judge: the command is too long");
    ppo_status status = ppo_tokens_save_lines(&samples->tokens, j->tokenizer, path);
    FILE *answers = status ? NULL : popen(command, "r");
    if (!answers)
        return status ? status : ppo_fail(PPO_ERROR_FILE, "judge: it cannot be started: %s", j->judge);
    for (; n <= count && end != line && fgets(line, sizeof line, answers); n++) {
        float number = strtof(line, &end);
        if (!isfinite(number) || end[strspn(end, " \t\r\n")]) end = line;
        if (n < count) reward[n] = number;
    }
    int is_number = end != line, result = pclose(answers);
    if (n == count && is_number && !result) return PPO_OK;
    if (!is_number)
        return ppo_fail(PPO_ERROR_FILE, "judge: line %d is no number: %.*s", n, (int)strcspn(line, "\r\n"),
                        line);
    return ppo_fail(PPO_ERROR_FILE, "judge: %s%d numbers for %d samples, %s %d: %s",
                    n > count ? "more than " : "", n > count ? count : n, count,
                    WIFSIGNALED(result) ? "killed by signal" : "exit status",
                    WIFSIGNALED(result) ? WTERMSIG(result) : WEXITSTATUS(result), j->judge);
}

/* -- progress: a line now and then, and a row of a CSV file at every step -- */

typedef struct figure {
    const char *name;
    double value; /* NaN: not known */
} figure;

/* The log of a run that continues keeps its rows from before this step. It is replaced in one step, then rows are
   added. */
static ppo_status open_log(job *j, int64_t step, const figure *f, int n) {
    char *old = NULL, *row, *text, *at;
    size_t bytes = 0, room = 64;
    ppo_status status = step > 1 ? ppo_text_load(j->log, &old, &bytes) : PPO_OK;
    for (int k = 0; k < n; k++) room += strlen(f[k].name) + 1;
    if (status || !(text = at = (char *)malloc(room + bytes)))
        return ppo_text_free(old), status ? status : PPO_ERROR_MEMORY;
    at += sprintf(at, "step");
    for (int k = 0; k < n; k++) at += sprintf(at, ",%s", f[k].name);
    for (row = old; row && (row = strchr(row, '\n')) != NULL;)
        if (*++row && strtoll(row, NULL, 10) < step)
            at += sprintf(at, "\n%.*s", (int)strcspn(row, "\n"), row);
    status = ppo_text_save(j->log, text, (size_t)(at - text));
    free(text);
    ppo_text_free(old);
    if (!status && !(j->rows = fopen(j->log, "ab")))
        status = ppo_fail(PPO_ERROR_FILE, "%s: cannot be written: %s", j->log, strerror(errno));
    return status;
}

/* Bytes of the log are to be on the disk before those of a checkpoint, which is saved after this step. */
static int sync_log(const job *j, int64_t step, int now) {
    const int every = j->method->kind == RL ? j->checkpoint_every : j->fit.checkpoint_every;
    if (fflush(j->rows) || ferror(j->rows)) return 1;
    return (now || interrupted || step % every == 0) && SYNC(fileno(j->rows));
}

/* What is printed after a KL that is below 0. */
static const char *near_0(double kl) { return kl < 0 ? " (estimated from samples: near 0)" : ""; }

static ppo_status report(job *j, int64_t step, int64_t steps, int now, const figure *f, int n) {
    ppo_status status = j->log && !j->rows ? open_log(j, step, f, n) : PPO_OK;
    if (j->rows && !status) fprintf(j->rows, "\n%lld", (long long)step);
    for (int k = 0; k < n && j->rows && !status; k++)
        fprintf(j->rows, isnan(f[k].value) ? "," : ",%.6g", f[k].value);
    if (now || step == steps || step % (steps / 20 + 1) == 0) {
        printf("%5lld of %lld", (long long)step, (long long)steps);
        for (int k = 0; k < n; k++)
            if (!isnan(f[k].value))
                printf("  %s %.4g%s", f[k].name, f[k].value,
                       !strcmp(f[k].name, "kl") ? near_0(f[k].value) : "");
        printf("\n");
        fflush(stdout);
    }
    if (j->rows && !status && sync_log(j, step, now || step == steps))
        status = ppo_fail(PPO_ERROR_FILE, "%s: cannot be written", j->log);
    return status;
}

static int on_step(const ppo_fit_progress *p, void *user) {
    job *j = (job *)user;
    const figure f[] = {{"loss", p->loss},
                        {"accuracy", p->accuracy},
                        {"held_out_loss", p->held_out_loss},
                        {"perplexity", p->perplexity},
                        {"held_out_accuracy", p->held_out_accuracy},
                        {"grad_norm", p->grad_norm},
                        {"tokens_per_second", p->tokens_per_second},
                        {"seconds", p->seconds}};
    j->failed = report(j, p->step, p->steps, !isnan(p->held_out_loss), f, sizeof f / sizeof *f);
    j->stopped = interrupted && p->step && p->step < p->steps;
    if (j->failed) j->fit.checkpoint = NULL; /* which would be without this row of the log */
    return j->failed || j->stopped;
}

static ppo_status on_iteration(job *j, const ppo_rlhf_progress *p) {
    const figure f[] = {{"reward", p->reward},       {"kl", p->kl},
                        {"entropy", p->entropy},     {"length", p->mean_length},
                        {"ended", p->ended},         {"clip_fraction", p->clip_fraction},
                        {"grad_norm", p->grad_norm}, {"seconds", p->seconds}};
    const int without = distills(j); /* a reward */
    if (*p->warning) printf("%s\n", p->warning);
    return report(j, p->iteration, j->rlhf.iterations, 0, f + without,
                  sizeof f / sizeof *f - (size_t)without);
}

/* -- what a model writes, and what that is worth -- */

/* Continues the first prompts; pieces of the text, where there are none. */
static ppo_status show_samples(const job *j, const ppo_lm *lm) {
    const ppo_tokens *data = &j->held_out[0];
    ppo_generator *generator = NULL;
    ppo_tokens prompts = {0};
    ppo_samples samples;
    const int all = data->start[data->count], piece = all < 8 ? all : 8;
    float *reward = (float *)calloc((size_t)j->show + 1, sizeof(float));
    ppo_status status = reward ? PPO_OK : PPO_ERROR_MEMORY;
    for (int s = 0; s < j->show && !status; s++)
        if (j->method->kind == TEXT)
            status =
                ppo_tokens_add(&prompts, data->token + (int64_t)(all - piece) * s / j->show, piece, piece);
        else if (s < data->count && data->prompt && data->prompt[s])
            status = ppo_tokens_add_from(&prompts, data, s);
        else if (s < data->count) { /* a text: its beginning */
            const int n = data->start[s + 1] - data->start[s];
            status = ppo_tokens_add(&prompts, data->token + data->start[s], n < 4 ? n : 4, n < 4 ? n : 4);
        }
    if (!status && j->show) status = ppo_generator_create(lm, 16, &generator);
    if (!status && j->show) status = ppo_generate(generator, &prompts, &j->rlhf.sampling, &samples);
    const int judged = j->give && !distills(j);
    if (!status && j->show && judged) status = j->give(&samples, reward, j->give_user);
    if (!status && j->show)
        ppo_print_samples(stdout, j->tokenizer, &samples, judged ? reward : NULL, j->show);
    fflush(stdout);
    ppo_generator_free(generator);
    ppo_tokens_free(&prompts);
    free(reward);
    return status;
}

static ppo_status measure(const job *j, const ppo_lm *lm, const char *when) {
    ppo_lm_evaluation e;
    const ppo_lm *reference = j->teacher ? j->teacher : lm == j->lm ? NULL : j->lm;
    ppo_status status =
        ppo_lm_evaluate(lm, reference, &j->held_out[0], &j->rlhf.sampling, j->give, j->give_user, &e);
    if (status) return status;
    if (distills(j)) printf("%s: %d prompts", when, j->held_out[0].count);
    else printf("%s: mean reward %.4f of %d prompts", when, e.reward, j->held_out[0].count);
    if (!isnan(e.kl)) printf("  kl %.2f%s", e.kl, near_0(e.kl));
    printf("  entropy %.2f  length %.1f  ended %.2f\n", e.entropy, e.mean_length, e.ended);
    return show_samples(j, lm);
}

/* -- the methods -- */

static int writes_whole(const job *j) { return j->merge || j->method->kind == MERGE; }

static int exists(const char *path) { return !access(path, F_OK) || (errno != ENOENT && errno != ENOTDIR); }

/* Was a form of chats given that we have a template of, for a model without a template of another one? */
static int trains_chats(const job *j) {
    return *ppo_chat_template(j->form - 1) && !*ppo_tokenizer_chat_note(j->tokenizer, j->form - 1);
}

/* path NULL: only checks whether llama.cpp has such models and tokenizers. */
static ppo_status write_gguf(const job *j, const ppo_lm *lm, const char *path) {
    static const ppo_gguf_type types[] = {PPO_GGUF_F32, PPO_GGUF_F16, PPO_GGUF_BF16, PPO_GGUF_Q8_0};
    const char *chat = trains_chats(j) ? ppo_chat_template(j->form - 1) : NULL;
    return ppo_gguf_save(lm, j->tokenizer, chat, types[j->dtype], path);
}

/* Checked before the training: the folder does not have a model of the other kind, whole or LoRA; it, and the place
   of the checkpoint, can be written. */
static ppo_status check_out(const job *j, int lora) {
    char path[600];
    ppo_file *empty = NULL;
    const int file = is_file(j->out), is_new = !exists(j->out);
    ppo_status status = ppo_file_create(&empty);
    snprintf(path, sizeof path, "%s/%s", j->out, lora ? "config.json" : "adapter_config.json");
    if (!status && !file && exists(path))
        status =
            ppo_fail(PPO_ERROR_FILE, "%s is there, of a model of another kind: choose another folder", path);
    for (int folder = 0; folder <= !file && !status; folder++) {
        snprintf(path, sizeof path, "%s%s", folder ? j->out : j->checkpoint, folder ? "/empty.tmp" : ".tmp");
        status = ppo_file_write(empty, path);
        if (!status) remove(path);
        if (folder && is_new) remove(j->out); /* what was there stays: a file, a link, a folder */
    }
    if (!status && is_gguf(j->out)) status = write_gguf(j, j->base, NULL);
    ppo_file_free(empty);
    return status;
}

/* Copies what Python's transformers reads besides from the folder of the model; generation_config.json only if the
   token that was learned to end a text is among those that it names. What is not to be copied is not to be there. */
static ppo_status copy_others(const job *j) {
    static const char *const names[] = {"special_tokens_map.json", "chat_template.jinja",
                                        "generation_config.json"};
    char from[512], to[512];
    const ppo_sampling *how = &j->rlhf.sampling;
    int ends_so = j->end < 0;
    ppo_status status = PPO_OK;
    for (int k = 0; k < how->stop_token_count; k++) ends_so |= how->stop_tokens[k] == j->end;
    for (int k = 0; k < 3 && !status; k++) {
        char *text = NULL;
        size_t bytes = 0;
        snprintf(from, sizeof from, "%s/%s", j->model, names[k]);
        snprintf(to, sizeof to, "%s/%s", j->out, names[k]);
        if (!strcmp(from, to)) continue;
        if (k < 2 || ends_so) status = ppo_text_load(from, &text, &bytes);
        if (k == 1 && !text && trains_chats(j)) { /* so that Python writes what was learned */
            const char *chat = ppo_chat_template(j->form - 1);
            status = ppo_text_save(to, chat, strlen(chat));
        } else if (!status && text) status = ppo_text_save(to, text, bytes);
        else if (!status && exists(to) && remove(to))
            status = ppo_fail(PPO_ERROR_FILE, "%s: it is of another model, but cannot be removed", to);
        ppo_text_free(text);
    }
    return status;
}

/* A tokenizer of another model in the folder goes before the new model is there, which it does not fit. */
static ppo_status remove_other_tokenizer(const job *j) {
    char from[512], to[512], *new_one = NULL, *old = NULL;
    size_t bytes[2];
    snprintf(from, sizeof from, "%s/tokenizer.json", j->model);
    snprintf(to, sizeof to, "%s/tokenizer.json", j->out);
    ppo_status status = strcmp(from, to) ? ppo_text_load(to, &old, &bytes[0]) : PPO_OK;
    if (!status && old && !is_file(j->model)) status = ppo_text_load(from, &new_one, &bytes[1]);
    const int same = old && new_one && bytes[0] == bytes[1] && !memcmp(old, new_one, bytes[0]);
    if (!status && old && !same && remove(to))
        status = ppo_fail(PPO_ERROR_FILE, "%s: it is of another model, but cannot be removed", to);
    ppo_text_free(old);
    ppo_text_free(new_one);
    return status;
}

static ppo_status save_model(const job *j, const ppo_lm *lm) {
    static const int types[] = {PPO_F32, PPO_F16, PPO_BF16};
    ppo_lm *merged = NULL;
    const int file = is_file(j->out), whole = lm->base && (file || writes_whole(j));
    ppo_status status = whole ? ppo_lm_merge(lm, &merged) : PPO_OK;
    if (whole) lm = merged;
    if (!status && file && is_gguf(j->out)) status = write_gguf(j, lm, j->out);
    else if (!status && file) status = ppo_lm_save_file(lm, j->tokenizer, j->out);
    if (!status && !file) status = remove_other_tokenizer(j);
    if (!status && !file) status = ppo_lm_save(lm, j->out, types[j->dtype]);
    if (!status && !file) status = ppo_tokenizer_save(j->tokenizer, j->out);
    if (!status && !file) status = copy_others(j);
    if (!status && !file && lm->config.score && ppo_tokenizer_pad(j->tokenizer, j->end) < 0)
        printf("%s: the tokenizer has no token to fill up shorter texts: Python's transformers scores one "
               "text at a "
               "time\n",
               j->out);
    ppo_lm_free(merged);
    return status;
}

/* peft finds the base by the whole path, from wherever it is called. */
static void set_base(const job *j) {
    char whole[4096];
    snprintf(j->lm->adapter->base_model, sizeof j->lm->adapter->base_model, "%s",
             REALPATH(j->model, whole) ? whole : j->model);
}

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* An adapter computes nothing sensible with another base of the same sizes. */
static void say_other_base(const job *j) {
    const char *was = j->lm->adapter->base_model;
    if (*was && strcmp(last_part(was), last_part(j->model)))
        printf("%s: made for %s, not for %s\n", j->adapter, was, j->model);
}

/* How Python may see the folder otherwise. */
static void say_notes(const job *j) {
    char family[32] = "";
    const char *chat = j->method->kind == TEXT ? "" : ppo_tokenizer_chat_note(j->tokenizer, j->form - 1);
    if (*ppo_tokenizer_note(j->tokenizer)) printf("%s: %s\n", j->model, ppo_tokenizer_note(j->tokenizer));
    if (*chat) printf("%s: %s\n", j->model, chat);
    ppo_settings_get(ppo_lm_settings(), &j->base->config, "family", family, sizeof family);
    if (!is_file(j->out) && ppo_tokenizer_fits(j->tokenizer, family))
        printf("%s: %s\n", j->model, ppo_last_error());
}

/* Was the model never trained? The last norm of `new` has weights of 1 alone. */
static int is_random(const ppo_lm *lm) {
    for (int k = 0; k < lm->params->tensor_count; k++) {
        const ppo_tensor *x = lm->params->tensors[k];
        if (strcmp(lm->params->names[k], "transformer.ln_f.weight")) continue;
        for (int i = 0; x->data && i < x->cols; i++)
            if (x->data[i] != 1) return 0;
        return x->data != NULL; /* packed numbers are not looked at */
    }
    return 0;
}

/* The default of learning_rate. */
static void choose_rate(job *j) {
    if (j->method->kind == MERGE || is_given(j, "learning_rate") || is_random(j->base)) return;
    *rate_of(j) = usual_rate(j->method, j->lm != j->base);
    printf("learning_rate=%g, as is usual for a model that was trained before\n", (double)*rate_of(j));
}

/* The names in a list "a,b", of which `text` [1024] keeps a copy. An empty list has none. */
static ppo_status split_names(const char *option, const char *list, char text[1024], const char *name[64],
                              int *count) {
    *count = 0;
    if (snprintf(text, 1024, "%s", list) >= 1024)
        return ppo_fail(PPO_ERROR_ARGUMENT, "%s: the list is too long", option);
    for (char *at = *text ? text : NULL; at;) {
        if (*count == 64) return ppo_fail(PPO_ERROR_ARGUMENT, "%s: there are more than 64 names", option);
        name[(*count)++] = at;
        if ((at = strchr(at, ',')) != NULL) *at++ = 0;
    }
    return PPO_OK;
}

/* New special tokens, and rows for them in the model, unless it has enough. */
static ppo_status add_tokens(job *j) {
    char text[1024];
    const char *name[64];
    int count = 0;
    ppo_lm *larger = NULL;
    ppo_status status = split_names("add_tokens", j->add_tokens, text, name, &count);
    if (!status && !count) status = ppo_fail(PPO_ERROR_ARGUMENT, "add_tokens is empty");
    if (!status) status = ppo_tokenizer_add(j->tokenizer, name, count);
    const int vocab = ppo_tokenizer_vocab(j->tokenizer), had = j->base->config.vocab;
    if (!status && vocab > had) status = ppo_lm_resize(j->base, vocab, &larger);
    if (larger) ppo_lm_free(j->base), j->base = larger;
    if (!status && larger)
        printf("add_tokens: the model gets rows %d to %d, each of them the mean of the others\n", had,
               vocab - 1);
    else if (!status) printf("add_tokens: the model has rows of them, %d in all\n", had);
    return status;
}

/* Loads the model, with LoRA on it if there is to be any. */
static ppo_status load_model(job *j) {
    ppo_status status = ppo_lm_load(j->model, &j->base);
    if (!status && j->add_tokens) status = add_tokens(j);
    if (status) return status;
    if (j->context > j->base->config.context)
        return ppo_fail(PPO_ERROR_ARGUMENT, "context is %d, but the model has %d", j->context,
                        j->base->config.context);
    if (j->context) j->base->config.context = j->context;
    status = find_ends(j);
    if (j->end >= 0) j->base->config.eos = j->end;
    if (!status && j->pack) status = ppo_params_to_bf16(j->base->params);
    if (!status && j->adapter) status = ppo_lm_load_adapter(j->adapter, j->base, &j->lm);
    else if (!status && j->lora.rank) status = ppo_lm_adapt(j->base, &j->lora, 0, &j->lm);
    else j->lm = j->base;
    if (!status && j->adapter) say_other_base(j);
    if (!status && j->lm->adapter && !is_file(j->model)) set_base(j);
    if (!status) status = check_out(j, j->lm != j->base && !writes_whole(j));
    if (!status) say_notes(j);
    if (!status) choose_rate(j);
    return status;
}

static ppo_status make_tokenizer(job *j) {
    char *text = NULL, names[1024], path[512];
    size_t bytes;
    const char *special[64];
    int count = 0;
    ppo_status status = split_names("specials", j->specials, names, special, &count);
    if (!status) status = read_text(j->data_path, &text, &bytes);
    if (!status && j->vocab)
        status = ppo_tokenizer_train(text, bytes, j->vocab, special, count, &j->tokenizer);
    else if (!status) status = ppo_tokenizer_characters(text, bytes, special, count, &j->tokenizer);
    snprintf(path, sizeof path, is_file(j->out) ? "%s" : "%s/tokenizer.json", j->out);
    if (!status) status = ppo_tokenizer_save(j->tokenizer, path);
    if (!status && !is_file(j->out)) status = ppo_tokenizer_save(j->tokenizer, j->out); /* all of a folder */
    const ppo_named named = status ? no_name : find_named(j->tokenizer, text);
    if (named.line)
        printf("%s: line %d has the name of the special token %s, whose letters are learned, as any text's\n",
               j->data_path, named.line, named.name);
    if (!status) printf("%s: %d tokens\n", path, ppo_tokenizer_vocab(j->tokenizer));
    ppo_text_free(text);
    return status;
}

static ppo_status make_model(job *j) {
    char family[32];
    if (!j->shape.vocab) j->shape.vocab = ppo_tokenizer_vocab(j->tokenizer);
    ppo_status status = ppo_settings_get(ppo_lm_settings(), &j->shape, "family", family, sizeof family);
    if (!status && !is_file(j->out)) status = ppo_tokenizer_fits(j->tokenizer, family);
    if (!status) status = find_ends(j);
    j->shape.eos = j->end;
    if (!status) status = ppo_lm_create(&j->shape, &j->lm);
    if (!status) printf("%s: %.2f million parameters\n", j->out, 1e-6 * (double)j->lm->params->count);
    if (!status && !is_file(j->out) && write_gguf(j, j->lm, NULL))
        printf("%s: it cannot become a .gguf file: %s\n", j->out, ppo_last_error());
    return status ? status : save_model(j, j->lm);
}

/* Texts, answers, or comparisons. */
static ppo_status fit(job *j, ppo_lm *lm) {
    const int kind = j->method->kind;
    j->fit.checkpoint = j->checkpoint;
    j->fit.callback = on_step;
    j->fit.callback_user = j;
    if (kind == TEXT && !j->fit.window) j->fit.window = lm->config.context;
    if (j->held_out_path) {
        j->fit.evaluate_first = 1;
        j->fit.held_out = &j->held_out[0];
        if (kind == REWARD || kind == DPO || kind == KTO) j->fit.held_out_rejected = &j->held_out[1];
    }
    if (kind == KTO && (!j->data[0].count || !j->data[1].count))
        return ppo_fail(PPO_ERROR_ARGUMENT, "%s: kto needs good texts and bad ones, there are %d and %d",
                        j->data_path, j->data[0].count, j->data[1].count);
    ppo_status status = kind == REWARD ? ppo_fit_reward(lm, &j->data[0], &j->data[1], &j->fit)
                        : kind == DPO  ? ppo_fit_dpo(lm, j->lm, &j->data[0], &j->data[1], &j->fit)
                        : kind == KTO  ? ppo_fit_kto(lm, j->lm, &j->data[0], &j->data[1], 1, 1, &j->fit)
                                       : ppo_fit_sft(lm, &j->data[0], &j->fit);
    if (!status) status = j->failed;
    if (status || j->stopped) return status;
    status = save_model(j, lm);
    return status || kind == REWARD ? status : show_samples(j, lm);
}

/* A run continues with the settings that it began with, to the same result. These may differ; the judge, too, which
   may have been mended. */
static ppo_status check_checkpoint(const job *j) {
    static const char may[] = " iterations slots micro_batch gradient_checkpointing ";
    const ppo_settings *settings = ppo_rlhf_settings();
    ppo_rlhf_config began = j->rlhf;
    ppo_status status = ppo_settings_load(settings, j->checkpoint, &began);
    for (int k = 0; k < settings->count && !status; k++) {
        char was[64], is[64], name[64];
        snprintf(name, sizeof name, " %s ", settings->field[k].name);
        status = ppo_settings_get(settings, &began, settings->field[k].name, was, sizeof was);
        if (!status) status = ppo_settings_get(settings, &j->rlhf, settings->field[k].name, is, sizeof is);
        if (!status && strcmp(was, is) && !strstr(may, name))
            status = ppo_fail(PPO_ERROR_ARGUMENT,
                              "%s: it began with %s=%s, not %s: give the same again, or remove the file",
                              j->checkpoint, settings->field[k].name, was, is);
    }
    return status;
}

/* The teacher's tokens, if its tokenizer is there, are those of the model. */
static ppo_status check_teacher(const job *j) {
    ppo_tokenizer *other = NULL;
    char path[512], text[2][256];
    snprintf(path, sizeof path, "%s/tokenizer.json", j->teacher_path);
    if (!is_gguf(j->teacher_path) && !exists(path)) return PPO_OK;
    ppo_status status = ppo_tokenizer_load(j->teacher_path, &other);
    const int n = ppo_tokenizer_vocab(j->tokenizer), all = ppo_tokenizer_vocab(other);
    for (int t = 0; t < n && t < all && !status; t++) {
        for (int k = 0; k < 2; k++)
            if (ppo_decode(k ? other : j->tokenizer, &t, 1, text[k], sizeof text[k], NULL))
                strcpy(text[k], "?");
        if (strcmp(text[0], text[1]))
            status = ppo_fail(PPO_ERROR_ARGUMENT,
                              "%s: token %d is \"%s\", and in %s \"%s\": a teacher needs the same tokenizer",
                              j->teacher_path, t, text[1], j->model, text[0]);
    }
    ppo_tokenizer_free(other);
    return status;
}

/* PPO and its relatives: the model samples, the reward function judges, the model learns. */
static ppo_status reinforce(job *j, ppo_lm *lm) {
    ppo_rlhf *rlhf = NULL;
    ppo_rlhf_progress p = {0};
    ppo_status status = j->reward_path ? ppo_lm_load(j->reward_path, &j->scorer) : PPO_OK;
    if (!status && j->teacher_path) status = check_teacher(j);
    if (!status && j->teacher_path) status = ppo_lm_load(j->teacher_path, &j->teacher);
    const ppo_lm *reference = j->teacher ? j->teacher : j->lm;
    j->give = j->scorer ? ppo_reward_by_lm : j->judge ? ask_judge : ppo_reward_none;
    j->give_user = j->scorer ? (void *)j->scorer : (void *)j;
    const int resumes = exists(j->checkpoint);
    if (!status && resumes)
        status = ppo_rlhf_resume(j->checkpoint, lm, reference, NULL, &j->data[0], j->give, j->give_user,
                                 &j->rlhf, &rlhf);
    else if (!status)
        status = ppo_rlhf_create(lm, reference, NULL, &j->data[0], j->give, j->give_user, &j->rlhf, &rlhf);
    if (!status && resumes) status = check_checkpoint(j);
    if (!status) {
        const ppo_memory m = ppo_rlhf_memory(rlhf);
        printf(
            "memory in MiB: %.0f for weights, %.0f to train them, %.0f for activations, %.0f for sampling\n",
            m.weights / 1048576, m.training / 1048576, m.activations / 1048576,
            (m.sampling + m.samples) / 1048576);
        p.iteration = ppo_rlhf_iterations(rlhf);
        if (p.iteration)
            printf("%s: %lld of %d iterations are done\n", j->checkpoint, (long long)p.iteration,
                   j->rlhf.iterations);
        if (p.iteration > j->rlhf.iterations)
            status = ppo_fail(PPO_ERROR_ARGUMENT,
                              "iterations=%d, but %s has %lld: give as many, or remove the file",
                              j->rlhf.iterations, j->checkpoint, (long long)p.iteration);
    }
    if (!status) status = measure(j, j->lm, "before");
    while (!status && !j->stopped && p.iteration < j->rlhf.iterations) {
        status = ppo_rlhf_iterate(rlhf, &p);
        if (!status) status = on_iteration(j, &p);
        const int last = p.iteration == j->rlhf.iterations; /* the folder may not be writable any more */
        j->stopped = interrupted && !last;
        if (!status && (last || j->stopped || p.iteration % j->checkpoint_every == 0))
            status = ppo_rlhf_save(rlhf, j->checkpoint);
    }
    if (!status && !j->stopped) status = save_model(j, lm);
    if (!status && !j->stopped) status = measure(j, lm, "after");
    ppo_rlhf_free(rlhf);
    return status;
}

/* Opens the model and the data, trains, and saves. */
static ppo_status train(job *j) {
    const int kind = j->method->kind, keeps = kind == RL || kind == REWARD;
    ppo_lm *lm = NULL; /* what is trained: the model, or a copy, so that it stays as it was */
    ppo_status status = load_model(j);
    if (!status) status = read_data(j, j->data_path, &j->data[0], &j->data[1]);
    if (!status)
        status = read_data(j, j->held_out_path ? j->held_out_path : j->data_path, &j->held_out[0],
                           &j->held_out[1]);
    if (!status)
        printf("%s: %.2f million parameters, %.2f of them to train; %s: %d sequences, %d tokens\n", j->model,
               1e-6 * (double)j->base->params->count, 1e-6 * (double)j->lm->params->count, j->data_path,
               j->data[0].count, j->data[0].start[j->data[0].count]);
    if (!status && keeps) status = ppo_lm_copy(j->lm, kind == REWARD, &lm);
    if (!keeps) lm = j->lm;
    signal(SIGINT, on_interrupt);
    if (!status) status = kind == RL ? reinforce(j, lm) : fit(j, lm);
    if (!status && !j->stopped && exists(j->checkpoint) && remove(j->checkpoint))
        status = ppo_fail(PPO_ERROR_FILE,
                          "%s is written, but %s cannot be removed: %s. The next run would take it up",
                          j->out, j->checkpoint, strerror(errno));
    if (keeps) ppo_lm_free(lm);
    return status;
}

static ppo_status merge(job *j) {
    ppo_status status = load_model(j);
    return status ? status : save_model(j, j->lm);
}

/* The command as it was, each argument in quotes for the shell. */
static void say_how_to_continue(const job *j) {
    printf("interrupted, %s is written; to continue:", j->checkpoint);
    for (int i = 0; i < j->argc; i++) {
        printf(" '");
        for (const char *at = j->argv[i]; *at; at++) printf(*at == '\'' ? "'\\''" : "%c", *at);
        printf("'");
    }
    printf("\n");
}

int main(int argc, char **argv) {
    job j;
    double began = ppo_clock();
    ppo_status status = read_options(&j, argc, argv);
    if (j.help) return fflush(stdout) || ferror(stdout);
    if (!status && j.model) status = ppo_tokenizer_load(j.model, &j.tokenizer);
    if (!status)
        status = j.method->kind == TOKENIZER ? make_tokenizer(&j)
                 : j.method->kind == NEW     ? make_model(&j)
                 : j.method->kind == MERGE   ? merge(&j)
                                             : train(&j);
    if (j.rows) fprintf(j.rows, "\n");
    if (j.rows && fclose(j.rows) && !status)
        status = ppo_fail(PPO_ERROR_FILE, "%s: cannot be written", j.log);
    if (!status && j.stopped) say_how_to_continue(&j);
    else if (!status)
        printf("%s is written: %.0f s, %.0f s of a processor\n", j.out, ppo_clock() - began,
               (double)clock() / CLOCKS_PER_SEC);
    if ((fflush(stdout) || ferror(stdout)) && !status)
        status = ppo_fail(PPO_ERROR_FILE, "what is printed cannot be written");
    if (status) fprintf(stderr, "finetune: %s\n", ppo_last_error());
    for (int k = 0; k < 2; k++) ppo_tokens_free(&j.data[k]), ppo_tokens_free(&j.held_out[k]);
    ppo_lm_free(j.scorer), ppo_lm_free(j.teacher);
    if (j.lm != j.base) ppo_lm_free(j.lm);
    ppo_lm_free(j.base);
    ppo_tokenizer_free(j.tokenizer);
    ppo_set_threads(1);
    return status ? 1 : j.stopped ? 130 : 0;
}
