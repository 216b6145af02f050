/* lab.h - what rlhf.c and overopt.c share: lines of a task as tokens and back, simulated people who compare samples,
   and the evaluation of models.

   A sequence is <start>, the line's tokens, <end>. Its prompt is <start> and the beginning of the line. */
#ifndef LAB_H
#define LAB_H

#include <math.h>

#include "tasks.h"

typedef struct lab {
    const task    *task;
    ppo_tokenizer *tokenizer;
    int            start, end;     /* the tokens <start> and <end> */
    int            slots;          /* sequences that are sampled at the same time */
    uint64_t       seed, sft_seed; /* of this run, and of the model that all others start from */
} lab;

/* The text of sequence s without its special tokens. */
static ppo_status line_of(const lab *l, const ppo_tokens *tokens, int s, char line[LINE]) {
    int first = tokens->start[s] + 1, n = tokens->start[s + 1] - first;
    if (n > 0 && tokens->token[first + n - 1] == l->end) n--;
    *line = 0;
    return n ? ppo_decode(l->tokenizer, tokens->token + first, n, line, LINE, NULL) : PPO_OK;
}

static ppo_status add_line(const lab *l, const char *line, ppo_tokens *tokens) {
    int        token[LINE + 2] = {l->start}, n = 0, prompt = 0;
    ppo_status status = ppo_encode(l->tokenizer, line, strlen(line), token + 1, LINE, &n);
    if (!status) status = ppo_encode(l->tokenizer, line, l->task->prompt(line), NULL, 0, &prompt);
    token[n + 1] = l->end;
    return status ? status : ppo_tokens_add(tokens, token, n + 2, prompt + 1);
}

/* n lines of the task; their beginnings are prompts. */
static ppo_status add_lines(const lab *l, int n, uint32_t stream, ppo_tokens *tokens) {
    ppo_rng    rng = ppo_rng_stream(l->seed, PPO_STREAM_USER + stream, 0);
    ppo_status status = PPO_OK;
    char       line[LINE];
    for (int i = 0; i < n && !status; i++) {
        l->task->line(&rng, line);
        status = add_line(l, line, tokens);
    }
    return status;
}

/* A tokenizer for the lines of the task. */
static ppo_status train_tokenizer(lab *l, int lines) {
    static const char *const specials[] = {"<start>", "<end>"};
    ppo_rng                  rng = ppo_rng_stream(l->seed, PPO_STREAM_USER, 0);
    size_t                   size = 0;
    char                    *text = (char *)malloc((size_t)lines * LINE), line[LINE];
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
static ppo_status learn_to_write(lab *l, int lines, const ppo_fit_config *config, ppo_gpt **model) {
    ppo_tokens     corpus = {0};
    ppo_gpt_config c = ppo_gpt_config_default();
    ppo_status     status = train_tokenizer(l, lines);
    c.vocab = ppo_tokenizer_vocab(l->tokenizer);
    c.context = l->task->context;
    c.seed = l->seed;
    if (!status) status = ppo_gpt_create(&c, model);
    if (!status) status = add_lines(l, lines, 1, &corpus);
    for (int s = 0; s < corpus.count; s++) corpus.prompt[s] = 1; /* it learns to write the prompts, too */
    if (!status) status = ppo_fit_sft(*model, &corpus, config);
    ppo_tokens_free(&corpus);
    return status;
}

/* The true reward, as a ppo_reward_fn. */
static ppo_status true_reward(const ppo_samples *samples, float *reward, void *user) {
    const lab *l = (const lab *)user;
    char       line[LINE];
    for (int s = 0; s < samples->tokens.count; s++) {
        ppo_status status = line_of(l, &samples->tokens, s, line);
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

/* Two samples of each prompt, and which of them people prefer: the better one with probability
   sigmoid(difference of true rewards), so that they make mistakes (Bradley and Terry 1952). */
static ppo_status compare(const lab *l, const ppo_gpt *model, const ppo_tokens *prompts, uint64_t seed,
                          ppo_tokens *chosen, ppo_tokens *rejected) {
    ppo_tokens     twice = {0};
    ppo_generator *generator = NULL;
    ppo_samples    samples;
    ppo_sampling   how = sampling(l, seed);
    ppo_rng        rng = ppo_rng_stream(how.seed, PPO_STREAM_USER, 0);
    ppo_status     status = ppo_generator_create(model, l->slots, &generator);
    float         *reward = (float *)malloc(2 * (size_t)prompts->count * sizeof(float));
    for (int s = 0; s < 2 * prompts->count && !status; s++)
        status = ppo_tokens_add_from(&twice, prompts, s / 2);
    if (!status) status = ppo_generate(generator, &twice, &how, &samples);
    if (!status) status = reward ? true_reward(&samples, reward, (void *)l) : PPO_ERROR_MEMORY;
    for (int s = 0; s < 2 * prompts->count && !status; s += 2) {
        int first = ppo_rng_uniform(&rng) < 1 / (1 + expf(reward[s + 1] - reward[s]));
        status = ppo_tokens_add_from(chosen, &samples.tokens, s + !first);
        if (!status) status = ppo_tokens_add_from(rejected, &samples.tokens, s + first);
    }
    free(reward);
    ppo_tokens_free(&twice);
    ppo_generator_free(generator);
    return status;
}

/* A reward model of one member, whose scores of the first model's samples have mean 0 and standard deviation 1. */
static ppo_status make_proxy(const lab *l, const ppo_gpt *first, const ppo_tokens *prompts, ppo_gpt *judge,
                             ppo_reward_model **proxy) {
    ppo_generator *generator = NULL;
    ppo_samples    samples;
    ppo_sampling   how = sampling(l, 5);
    ppo_status     status = ppo_reward_model_create(&judge, 1, PPO_ENSEMBLE_MEAN, 64, proxy);
    if (!status) status = ppo_generator_create(first, l->slots, &generator);
    if (!status) status = ppo_generate(generator, prompts, &how, &samples);
    if (!status) status = ppo_reward_model_normalize(*proxy, &samples.tokens);
    ppo_generator_free(generator);
    return status;
}

typedef struct worth { /* means over samples */
    float true_reward, proxy_reward, kl, entropy, length, tokens_per_second;
} worth;

/* Mean rewards of the samples, the true one and the proxy's (NULL: none), and the KL of the model that made them to
   the reference. */
static ppo_status appraise(const lab *l, const ppo_gpt *model, const ppo_gpt *reference,
                           ppo_reward_model *proxy, const ppo_samples *samples, worth *w) {
    int        n = samples->tokens.count, rows = ppo_response_row(&samples->tokens, n);
    float     *x = (float *)malloc(4 * (size_t)n * sizeof(float));
    ppo_status status = x ? true_reward(samples, x, (void *)l) : PPO_ERROR_MEMORY;
    if (!status && proxy) status = ppo_reward_model_score(proxy, &samples->tokens, x + n);
    if (!status) status = ppo_gpt_logp(model, &samples->tokens, 64, x + 2 * n);
    if (!status) status = ppo_gpt_logp(reference, &samples->tokens, 64, x + 3 * n);
    memset(w, 0, sizeof *w);
    for (int s = 0; s < n && !status; s++) {
        w->true_reward += x[s] / (float)n;
        w->proxy_reward += (proxy ? x[n + s] : 0) / (float)n;
        w->kl += (x[2 * n + s] - x[3 * n + s]) / (float)n;
        w->entropy -= x[2 * n + s] / (float)rows;
    }
    w->length = (float)rows / (float)n;
    free(x);
    return status;
}

/* The same for new samples from the prompts. */
static ppo_status evaluate(const lab *l, const ppo_gpt *model, const ppo_gpt *reference,
                           ppo_reward_model *proxy, const ppo_tokens *prompts, worth *w) {
    ppo_generator *generator = NULL;
    ppo_samples    samples;
    ppo_sampling   how = sampling(l, 7);
    ppo_status     status = ppo_generator_create(model, l->slots, &generator);
    double         began = ppo_clock();
    if (!status) status = ppo_generate(generator, prompts, &how, &samples);
    double seconds = ppo_clock() - began;
    if (!status) status = appraise(l, model, reference, proxy, &samples, w);
    if (!status) w->tokens_per_second = w->length * (float)prompts->count / (float)seconds;
    ppo_generator_free(generator);
    return status;
}

#endif
