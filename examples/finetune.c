/* finetune.c - trains a language model from the command line: a folder and a file of data in, a folder out.

       build/finetune tokenizer out=tok data=book.txt vocab=1024          byte-level BPE of a text
       build/finetune new    model=tok out=base family=llama width=192    random weights for that tokenizer
       build/finetune text   model=base out=read data=book.txt            learns to continue texts
       build/finetune sft    model=read out=chat data=answers.jsonl       learns to answer as in the data
       build/finetune reward model=chat out=judge data=pairs.jsonl        learns what people prefer
       build/finetune dpo    model=chat out=better data=pairs.jsonl       learns to write that, without a judge
       build/finetune grpo   model=chat out=best data=prompts.jsonl judge="awk -f rule.awk"    or reward=judge

   A folder is one of the model hub, or one of these. Data are lines as ppo_tokens_add_lines() reads them. A run
   that was killed and is started again continues from OUT.checkpoint, to the same result.

   The judge is a command. It reads a line {"prompt": "...", "completion": "..."} for each sample and writes a
   number for each, the reward: your rule, in any language. You will see what it gave before and after. */
#if !defined(_WIN32) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L /* popen() */
#endif
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "finetune_options.h"

/* -- data -- */

/* A whole file, ending with a 0, after `bytes` bytes of another; NULL if it cannot be read. */
static char *read_file(const char *path, char *text, size_t *bytes) {
    FILE  *in = fopen(path, "rb");
    size_t n = 1;
    while (in && n && (text = (char *)realloc(text, *bytes + 65537)) != NULL)
        *bytes += n = fread(text + *bytes, 1, 65536, in);
    if (in) fclose(in);
    if (in && text) text[*bytes] = 0;
    return in ? text : (free(text), (char *)NULL);
}

/* The text of all files of a list "a.txt,b.txt". */
static ppo_status read_texts(const char *paths, char **text, size_t *bytes) {
    char path[512];
    *bytes = 0;
    for (*text = NULL; *paths; paths += *paths == ',') {
        size_t length = strcspn(paths, ",");
        snprintf(path, sizeof path, "%.*s", (int)length, paths);
        if (!(*text = read_file(path, *text, bytes)))
            return ppo_fail(PPO_ERROR_FILE, "%s: cannot be read", path);
        paths += length;
    }
    if (strlen(*text) == *bytes) return PPO_OK;
    return ppo_fail(PPO_ERROR_FILE, "%s: no text, it has a byte that is 0", path);
}

/* What the method learns from: lines, or texts. */
static ppo_status read_data(const job *j, const char *paths, ppo_tokens *tokens, ppo_tokens *rejected) {
    char      *text = NULL;
    size_t     bytes = 0;
    const int  is_text = j->method->kind == TEXT && !strstr(paths, ".json");
    const int  room = j->method->kind == RL ? 1 : 0; /* for the reply */
    ppo_status status = is_text ? read_texts(paths, &text, &bytes) : PPO_OK;
    if (!status && is_text) status = ppo_tokens_add_text(tokens, j->tokenizer, j->start, "", text, j->end);
    else if (!status)
        status = ppo_tokens_add_lines(tokens, j->method->kind == PAIRS ? rejected : NULL, paths, j->tokenizer,
                                      j->form ? j->form - 1 : PPO_CHATML, j->start, j->end,
                                      j->method->kind == TEXT ? 0 : j->lm->config.context - room);
    free(text);
    if (!status && !tokens->count) status = ppo_fail(PPO_ERROR_FILE, "%s: there is nothing in it", paths);
    return status;
}

/* -- the reward by a command -- */

#ifdef _WIN32
#define popen  _popen
#define pclose _pclose
#endif

/* A ppo_reward_fn: the samples are written to a file, the command reads it. */
static ppo_status ask_judge(const ppo_samples *samples, float *reward, void *user) {
    const job *j = (const job *)user;
    char       path[512], command[2048], line[256], *end = line;
    int        n = 0, count = samples->tokens.count;
    snprintf(path, sizeof path, "%s.samples.jsonl", j->out);
    if (ppo_tokens_save_lines(&samples->tokens, j->tokenizer, path)) return PPO_ERROR_FILE;
    snprintf(command, sizeof command, "( %s ) < \"%s\"", j->judge, path);
    FILE *answers = popen(command, "r");
    if (!answers) return ppo_fail(PPO_ERROR_FILE, "judge: cannot be started: %s", j->judge);
    for (; fgets(line, sizeof line, answers); n++) {
        float number = strtof(line, &end);
        if (end == line || n == count) break;
        reward[n] = number;
    }
    line[strcspn(line, "\r\n")] = 0;
    int wrong = end == line, status = pclose(answers);
    if (n == count && !status && !wrong) return PPO_OK;
    if (wrong && n < count)
        return ppo_fail(PPO_ERROR_FILE, "judge: line %d is no number: %.60s", n + 1, line);
    return ppo_fail(PPO_ERROR_FILE, "judge: %d numbers for %d samples, exit status %d: %s", n, count, status,
                    j->judge);
}

/* -- progress: a line now and then, and all of it as a CSV file -- */

/* Opens the log. Of an old one, the rows before this step stay: those of the run that continues. */
static FILE *open_log(const char *path, const char *header, int64_t step) {
    size_t bytes = 0;
    char  *old = step > 1 ? read_file(path, NULL, &bytes) : NULL;
    FILE  *log = fopen(path, "wb");
    if (log) fprintf(log, "%s\n", header);
    for (char *row = old ? strchr(old, '\n') : NULL; row && log; row = strchr(row, '\n'))
        if (*++row && strtoll(row, NULL, 10) < step) fprintf(log, "%.*s\n", (int)strcspn(row, "\n"), row);
    free(old);
    return log;
}

static int on_step(const ppo_fit_progress *p, void *user) {
    job      *j = (job *)user;
    const int measured = !isnan(p->held_out_loss);
    if (j->log && !j->rows)
        j->rows = open_log(
            j->log, "step,loss,accuracy,held_out_loss,held_out_accuracy,grad_norm,learning_rate,seconds",
            p->step);
    if (j->rows)
        fprintf(j->rows, "%lld,%g,%g,%g,%g,%g,%g,%.1f\n", (long long)p->step, p->loss, p->accuracy,
                p->held_out_loss, p->held_out_accuracy, p->grad_norm, p->learning_rate, p->seconds);
    if (measured || p->step % (p->steps / 20 + 1) == 0 || p->step == p->steps) {
        printf("step %5lld of %lld", (long long)p->step, (long long)p->steps);
        if (p->step) printf("  loss %.4f", p->loss);
        if (!isnan(p->accuracy)) printf("  accuracy %.3f", p->accuracy);
        if (measured) printf("  held-out loss %.4f", p->held_out_loss);
        if (!isnan(p->perplexity)) printf("  perplexity %.2f", p->perplexity);
        if (!isnan(p->held_out_accuracy)) printf("  held-out accuracy %.3f", p->held_out_accuracy);
        printf("  %.0f tokens/s  %.0f s\n", p->tokens_per_second, p->seconds);
        fflush(stdout);
        if (j->rows) fflush(j->rows);
    }
    return 0;
}

static void show_iteration(job *j, const ppo_rlhf_progress *p) {
    if (j->log && !j->rows)
        j->rows = open_log(j->log, "iteration,reward,kl,entropy,length,ended,clip_fraction,grad_norm,seconds",
                           p->iteration);
    if (j->rows)
        fprintf(j->rows, "%lld,%g,%g,%g,%g,%g,%g,%g,%.1f\n", (long long)p->iteration, p->reward, p->kl,
                p->entropy, p->mean_length, p->ended, p->clip_fraction, p->grad_norm, p->seconds);
    if (j->rows) fflush(j->rows);
    if (p->iteration % (j->rlhf.iterations / 20 + 1) && p->iteration != j->rlhf.iterations && !*p->warning)
        return;
    printf("iteration %4lld of %d  reward %.3f  kl %.3f  entropy %.3f  length %.1f  ended %.2f  %.0f s  %s\n",
           (long long)p->iteration, j->rlhf.iterations, p->reward, p->kl, p->entropy, p->mean_length,
           p->ended, p->seconds, p->warning);
    fflush(stdout);
}

/* -- samples -- */

/* What the model writes after the first prompts; after pieces of the text, where there are none. */
static ppo_status show_samples(const job *j, const ppo_lm *lm, const ppo_tokens *data) {
    ppo_generator *generator = NULL;
    ppo_tokens     prompts = {0};
    ppo_samples    samples;
    const int      all = data->start[data->count], piece = all < 8 ? all : 8;
    float         *reward = (float *)calloc((size_t)j->show + 1, sizeof(float));
    ppo_status     status = reward ? PPO_OK : PPO_ERROR_MEMORY;
    for (int s = 0; s < j->show && !status; s++)
        if (j->method->kind == TEXT)
            status =
                ppo_tokens_add(&prompts, data->token + (int64_t)(all - piece) * s / j->show, piece, piece);
        else if (s < data->count) status = ppo_tokens_add_from(&prompts, data, s);
    if (!status && j->show) {
        status = ppo_generator_create(lm, 16, &generator);
        if (!status) status = ppo_generate(generator, &prompts, &j->rlhf.sampling, &samples);
        if (!status && j->give) status = j->give(&samples, reward, j->give_user);
        if (!status) ppo_print_samples(stdout, j->tokenizer, &samples, j->give ? reward : NULL, j->show);
    }
    ppo_generator_free(generator);
    ppo_tokens_free(&prompts);
    free(reward);
    return status;
}

/* What the model is worth by the reward, on prompts that it did not learn from. */
static ppo_status measure(const job *j, const ppo_lm *lm, const char *when) {
    ppo_lm_evaluation e;
    ppo_status status = ppo_lm_evaluate(lm, lm == j->lm ? NULL : j->lm, &j->held_out[0], &j->rlhf.sampling,
                                        j->give, j->give_user, &e);
    if (status) return status;
    printf("%s: mean reward %.3f of %d held-out prompts", when, e.reward, j->held_out[0].count);
    if (!isnan(e.kl)) printf("  kl %.2f", e.kl);
    printf("  entropy %.2f  length %.1f  ended %.2f\n", e.entropy, e.mean_length, e.ended);
    return PPO_OK;
}

/* -- the methods -- */

static ppo_status save_model(const job *j, const ppo_lm *lm) {
    static const int types[] = {PPO_F32, PPO_F16, PPO_BF16};
    if (strstr(j->out, ".safetensors")) return ppo_lm_save_file(lm, j->tokenizer, j->out);
    ppo_status status = ppo_lm_save(lm, j->out, types[j->dtype]);
    return status ? status : ppo_tokenizer_save(j->tokenizer, j->out);
}

static ppo_status make_tokenizer(job *j) {
    char       *text = NULL, names[1024], path[512];
    size_t      bytes;
    const char *special[64];
    int         count = 0;
    snprintf(names, sizeof names, "%s", j->specials);
    for (char *name = strtok(names, ","); name && count < 64; name = strtok(NULL, ","))
        special[count++] = name;
    ppo_status status = read_texts(j->data_path, &text, &bytes);
    if (!status && j->vocab)
        status = ppo_tokenizer_train(text, bytes, j->vocab, special, count, &j->tokenizer);
    else if (!status) status = ppo_tokenizer_characters(text, bytes, special, count, &j->tokenizer);
    snprintf(path, sizeof path, strstr(j->out, ".safetensors") ? "%s" : "%s/tokenizer.json", j->out);
    if (!status) status = ppo_tokenizer_save(j->tokenizer, path);
    if (!status) printf("%s: %d tokens\n", path, ppo_tokenizer_vocab(j->tokenizer));
    free(text);
    return status;
}

static ppo_status make_model(job *j) {
    if (!j->shape.vocab) j->shape.vocab = ppo_tokenizer_vocab(j->tokenizer);
    ppo_status status = ppo_lm_create(&j->shape, &j->lm);
    if (!status) printf("%s: %.2f million parameters\n", j->out, 1e-6 * (double)j->lm->params->count);
    return status ? status : save_model(j, j->lm);
}

/* Fine-tuning: of texts, answers, or comparisons. */
static ppo_status fit(job *j) {
    ppo_lm    *lm = NULL;
    ppo_status status = ppo_lm_copy(j->lm, j->method->run == RUN_REWARD, &lm);
    j->fit.checkpoint = j->checkpoint;
    j->fit.callback = on_step;
    j->fit.callback_user = j;
    if (j->method->kind == TEXT && !j->fit.window) j->fit.window = j->lm->config.context;
    if (j->held_out_path) {
        j->fit.held_out = &j->held_out[0];
        if (j->method->kind == PAIRS) j->fit.held_out_rejected = &j->held_out[1];
        j->fit.evaluate_first = 1;
    }
    if (!status && j->method->run == RUN_SFT) status = ppo_fit_sft(lm, &j->data[0], &j->fit);
    if (!status && j->method->run == RUN_REWARD)
        status = ppo_fit_reward(lm, &j->data[0], &j->data[1], &j->fit);
    if (!status && j->method->run == RUN_DPO)
        status = ppo_fit_dpo(lm, j->lm, &j->data[0], &j->data[1], &j->fit);
    if (!status) status = save_model(j, lm);
    if (!status && j->method->run != RUN_REWARD)
        status = show_samples(j, lm, j->held_out_path ? &j->held_out[0] : &j->data[0]);
    ppo_lm_free(lm);
    return status;
}

/* PPO and its relatives: the model samples, the reward function judges, the model learns. */
static ppo_status reinforce(job *j) {
    ppo_lm           *lm = NULL;
    ppo_rlhf         *rlhf = NULL;
    ppo_reward_model *model = NULL;
    ppo_rlhf_progress p = {0};
    const ppo_tokens *held_out = j->held_out_path ? &j->held_out[0] : &j->data[0];
    FILE             *saved = fopen(j->checkpoint, "rb");
    if (saved) fclose(saved);
    ppo_status status = ppo_lm_copy(j->lm, 0, &lm);
    j->give = j->judge ? ask_judge : ppo_reward_by_model;
    j->give_user = j;
    if (!status && j->reward_path) {
        status = ppo_lm_load(j->reward_path, &j->scorer);
        if (!status) status = ppo_reward_model_create(&j->scorer, 1, PPO_ENSEMBLE_MEAN, 16, &model);
        j->give_user = model;
    }
    if (!status && j->held_out_path) status = measure(j, j->lm, "before");
    if (!status) status = show_samples(j, j->lm, held_out);
    if (!status && saved)
        status = ppo_rlhf_resume(j->checkpoint, lm, j->lm, NULL, &j->data[0], j->give, j->give_user, &j->rlhf,
                                 &rlhf);
    else if (!status)
        status = ppo_rlhf_create(lm, j->lm, NULL, &j->data[0], j->give, j->give_user, &j->rlhf, &rlhf);
    while (!status && p.iteration < j->rlhf.iterations) {
        status = ppo_rlhf_iterate(rlhf, &p);
        if (!status) show_iteration(j, &p);
        if (!status && p.iteration % j->save_every == 0 && p.iteration < j->rlhf.iterations)
            status = ppo_rlhf_save(rlhf, j->checkpoint);
    }
    if (!status) status = save_model(j, lm);
    if (!status && j->held_out_path) status = measure(j, lm, "after");
    if (!status) status = show_samples(j, lm, held_out);
    ppo_rlhf_free(rlhf);
    ppo_reward_model_free(model);
    ppo_lm_free(lm);
    return status;
}

/* The model, its tokenizer, and the data. An adapter would be put on the model here. */
static ppo_status open_all(job *j) {
    ppo_status status = j->model ? ppo_tokenizer_load(j->model, &j->tokenizer) : PPO_OK;
    if (!status && j->method->kind >= TEXT) status = ppo_lm_load(j->model, &j->lm);
    if (status || j->method->kind < TEXT) return status;
    if (j->context && j->context < j->lm->config.context) j->lm->config.context = j->context;
    status = find_ends(j);
    if (!status) status = read_data(j, j->data_path, &j->data[0], &j->data[1]);
    if (!status && j->held_out_path)
        status = read_data(j, j->held_out_path, &j->held_out[0], &j->held_out[1]);
    if (!status)
        printf("%s: %.2f million parameters; %s: %d sequences, %d tokens\n", j->model,
               1e-6 * (double)j->lm->params->count, j->data_path, j->data[0].count,
               j->data[0].start[j->data[0].count]);
    return status;
}

int main(int argc, char **argv) {
    job        j;
    ppo_status status = read_options(&j, argc, argv);
    if (j.help) return 0;
    if (!status) status = open_all(&j);
    if (!status) {
        if (j.method->kind == TOKENIZER) status = make_tokenizer(&j);
        else if (j.method->kind == NEW) status = make_model(&j);
        else status = j.method->kind == RL ? reinforce(&j) : fit(&j);
    }
    if (!status) remove(j.checkpoint);
    if (status) fflush(stdout), fprintf(stderr, "finetune: %s\n", ppo_last_error());
    if (j.rows) fclose(j.rows);
    for (int k = 0; k < 2; k++) ppo_tokens_free(&j.data[k]), ppo_tokens_free(&j.held_out[k]);
    ppo_lm_free(j.scorer);
    ppo_lm_free(j.lm);
    ppo_tokenizer_free(j.tokenizer);
    ppo_set_threads(1);
    return status != PPO_OK;
}
