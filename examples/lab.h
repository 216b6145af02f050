/* lab.h - what rlhf.c and overopt.c share: lines of a task as tokens and back, simulated people who compare samples,
   and the evaluation of models.

   A sequence is <start>, the line's tokens, <end>. Its prompt is <start> and the beginning of the line. */
#ifndef LAB_H
#define LAB_H

#include <math.h>

#include "companions/ppo_bpe.h"
#include "companions/ppo_judge.h"
#include "companions/ppo_methods.h"
#include "tasks.h"

typedef struct lab {
    const task *task;
    ppo_tokenizer *tokenizer;
    int start, end;          /* the tokens <start> and <end> */
    int slots;               /* sequences that are sampled at the same time */
    uint64_t seed, sft_seed; /* of this run, and of the model that all others start from */
} lab;

/* The line's beginning, which is the prompt, and the rest. */
static ppo_status add_line(const lab *l, const char *line, ppo_tokens *tokens) {
    char prompt[LINE];
    size_t n = l->task->prompt(line);
    snprintf(prompt, sizeof prompt, "%.*s", (int)n, line);
    return ppo_tokens_add_text(tokens, l->tokenizer, l->start, prompt, line + n, l->end);
}

/* n lines of the task; their beginnings are prompts. */
static ppo_status add_lines(const lab *l, int n, uint32_t stream, ppo_tokens *tokens) {
    ppo_rng rng = ppo_rng_stream(l->seed, PPO_STREAM_USER + stream, 0);
    ppo_status status = PPO_OK;
    char line[LINE];
    for (int i = 0; i < n && !status; i++) {
        l->task->line(&rng, line);
        status = add_line(l, line, tokens);
    }
    return status;
}

/* A tokenizer for the lines of the task. */
static ppo_status train_tokenizer(lab *l, int lines) {
    static const char *const specials[] = {"<start>", "<end>"};
    ppo_rng rng = ppo_rng_stream(l->seed, PPO_STREAM_USER, 0);
    size_t size = 0;
    char *text = (char *)malloc((size_t)lines * LINE), line[LINE];
    if (!text) return ppo_fail(PPO_ERROR_MEMORY, "no memory for %d lines", lines);
    for (int i = 0; i < lines; i++) {
        l->task->line(&rng, line);
        size += (size_t)sprintf(text + size, "%s%s", i && l->task->bpe ? "\n" : "", line);
    }
    ppo_status status = l->task->bpe
                            ? ppo_tokenizer_train(text, size, l->task->bpe, specials, 2, &l->tokenizer)
                            : ppo_tokenizer_characters(text, size, specials, 2, &l->tokenizer);
    l->start = ppo_tokenizer_special(l->tokenizer, "<start>");
    l->end = ppo_tokenizer_special(l->tokenizer, "<end>");
    free(text);
    return status;
}

/* A tokenizer and a model that has learned to write lines of the task. */
static ppo_status learn_to_write(lab *l, int lines, const ppo_fit_config *config, ppo_lm **model) {
    ppo_tokens corpus = {0};
    ppo_lm_config c = ppo_lm_config_default();
    ppo_status status = train_tokenizer(l, lines);
    c.vocab = ppo_tokenizer_vocab(l->tokenizer);
    c.context = l->task->context;
    c.seed = l->seed;
    if (!status) status = ppo_lm_create(&c, model);
    if (!status) status = add_lines(l, lines, 1, &corpus);
    for (int s = 0; s < corpus.count; s++) corpus.prompt[s] = 1; /* it learns to write the prompts, too */
    if (!status) status = ppo_fit_sft(*model, &corpus, config);
    ppo_tokens_free(&corpus);
    return status;
}

/* The true reward, as a ppo_reward_fn. */
static ppo_status true_reward(const ppo_samples *samples, float *reward, void *user) {
    const lab *l = (const lab *)user;
    char line[LINE];
    for (int s = 0; s < samples->tokens.count; s++) {
        ppo_status status = ppo_tokens_text(&samples->tokens, s, PPO_WHOLE_TEXT, l->tokenizer, line, LINE);
        if (status) return status;
        reward[s] = l->task->reward(line);
    }
    return PPO_OK;
}

static ppo_sampling sampling(const lab *l, uint64_t seed) {
    ppo_sampling how = ppo_sampling_default();
    how.eos = l->end;
    how.seed = l->seed + 1000 * seed;
    return how;
}

/* People compare two samples of each prompt by the true reward, and make mistakes. */
static ppo_status compare(const lab *l, const ppo_lm *model, const ppo_tokens *prompts, uint64_t seed,
                          ppo_tokens *chosen, ppo_tokens *rejected) {
    ppo_generator *generator = NULL;
    ppo_sampling how = sampling(l, seed);
    ppo_rng rng = ppo_rng_stream(how.seed, PPO_STREAM_USER, 0);
    ppo_status status = ppo_generator_create(model, l->slots, &generator);
    if (!status)
        status = ppo_compare(generator, prompts, &how, true_reward, (void *)l, &rng, chosen, rejected);
    ppo_generator_free(generator);
    return status;
}

/* A reward model of some members, whose scores of the first model's samples have mean 0 and standard deviation 1. */
static ppo_status make_proxy(const lab *l, const ppo_lm *first, const ppo_tokens *prompts,
                             ppo_lm *const *members, int count, ppo_ensemble ensemble,
                             ppo_reward_model **proxy) {
    ppo_generator *generator = NULL;
    ppo_samples samples;
    ppo_sampling how = sampling(l, 5);
    ppo_status status = ppo_reward_model_create(members, count, ensemble, 64, proxy);
    if (!status) status = ppo_generator_create(first, l->slots, &generator);
    if (!status) status = ppo_generate(generator, prompts, &how, &samples);
    if (!status) status = ppo_reward_model_normalize(*proxy, &samples.tokens);
    ppo_generator_free(generator);
    return status;
}

/* What a model is worth to people, and the mean reward by the proxy (may be NULL). */
typedef struct worth {
    ppo_lm_evaluation e;
    float proxy_reward;
} worth;

typedef struct both_rewards {
    const lab *lab;
    ppo_reward_model *proxy; /* NULL after the first call, which is for the model's samples */
    float proxy_reward;      /* their mean */
} both_rewards;

static ppo_status both(const ppo_samples *samples, float *reward, void *user) {
    both_rewards *b = (both_rewards *)user;
    ppo_reward_model *proxy = b->proxy;
    int n = samples->tokens.count;
    ppo_status status = proxy ? ppo_reward_model_score(proxy, &samples->tokens, reward) : PPO_OK;
    for (int s = 0; s < n && proxy && !status; s++) b->proxy_reward += reward[s] / (float)n;
    b->proxy = NULL;
    return status ? status : true_reward(samples, reward, (void *)b->lab);
}

static ppo_status evaluate(const lab *l, const ppo_lm *model, const ppo_lm *reference,
                           ppo_reward_model *proxy, const ppo_tokens *prompts, worth *w) {
    both_rewards b = {l, proxy, 0};
    ppo_sampling how = sampling(l, 7);
    ppo_status status = ppo_lm_evaluate(model, reference, prompts, &how, both, &b, &w->e);
    w->proxy_reward = b.proxy_reward;
    return status;
}

#endif
