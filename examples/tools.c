/* tools.c - a language model learns to use a calculator. It writes "[12*34]", a C function computes what stands
   in the brackets and writes "408" behind them, and the model continues with what it now knows:

       12*34+56=[12*34]408[408+56]464>464.

   People showed it three ways to answer: both calls, one of them, or a guess. It imitates all of them, and so it
   is right as often as they are. PPO rewards right answers alone, and the guesses disappear. What the calculator
   wrote is not the model's: nothing is learned from it, in fine-tuning (ppo_tokens_mark_given()) and in PPO.

       build/tools [SEED [KERNELS]]          in two minutes */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "companions/ppo_judge.h"
#include "companions/ppo_methods.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT = 48, DEMONSTRATIONS = 32000, PROMPTS = 4096, TESTS = 512 };

static const char settings[] = "iterations=100 prompts=128 minibatch_size=32 learning_rate=5e-4 "
                               "learning_rate_schedule=linear kl_coef=0.02";

static ppo_tokenizer *tokenizer;

/* -- the calculator -- */

/* The result of "a*b" or "a+b" from `at` on; -1 if it is neither. */
static long calculate(const char *at) {
    char *end;
    long a = strtol(at, &end, 10), b = 0;
    char sign = *end;
    if (end == at || (sign != '*' && sign != '+')) return -1;
    b = strtol(at = end + 1, &end, 10);
    if (end == at || *end != ']' || a < 0 || b < 0 || a > 99999 || b > 99999) return -1;
    return sign == '*' ? a * b : a + b;
}

/* A ppo_tool_fn: the answer to the last "[...]"; "?" if it cannot be computed. */
static ppo_status calculator(const int *token, int n, int *answer, int room, int *count, void *user) {
    char text[2 * TEXT], result[32] = "?";
    ppo_status status = ppo_decode(tokenizer, token, n, text, sizeof text, NULL);
    if (status) return status;
    const char *open = strrchr(text, '[');
    long value = open ? calculate(open + 1) : -1;
    (void)user;
    if (value >= 0) snprintf(result, sizeof result, "%ld", value);
    int length = (int)strlen(result);
    return ppo_encode(tokenizer, result, (size_t)(length < room ? length : room), answer, room, count);
}

/* -- problems, and what people wrote -- */

typedef struct problem {
    int a, b, c;
} problem;

static problem random_problem(ppo_rng *rng) {
    problem p = {10 + ppo_rng_below(rng, 90), 10 + ppo_rng_below(rng, 90), 10 + ppo_rng_below(rng, 90)};
    return p;
}

/* A demonstration: with both calls (2), with the first one and a guess (1), or with a guess alone (0). What the
   calculator wrote is given. */
static ppo_status demonstrate(problem p, int calls, ppo_rng *rng, ppo_tokens *tokens) {
    char text[6][32];
    int product = p.a * p.b, right = product + p.c;
    int answer = calls == 2 ? right : right / 2 + ppo_rng_below(rng, right);
    snprintf(text[0], 32, "%d*%d+%d=", p.a, p.b, p.c);
    snprintf(text[1], 32, "[%d*%d]", p.a, p.b);
    snprintf(text[2], 32, "%d", product);
    snprintf(text[3], 32, "[%d+%d]", product, p.c);
    snprintf(text[4], 32, "%d", right);
    snprintf(text[5], 32, ">%d.", answer);
    ppo_status status = ppo_tokens_add_text(tokens, tokenizer, -1, text[0], NULL, -1);
    for (int k = 1; k <= 2 * calls && !status; k++)
        status = ppo_tokens_append_text(tokens, tokenizer, text[k], k % 2 == 0);
    return status ? status : ppo_tokens_append_text(tokens, tokenizer, text[5], 0);
}

/* -- the reward: 1 if the answer is right -- */

static ppo_status is_right(const ppo_samples *samples, float *reward, void *user) {
    (void)user;
    for (int s = 0; s < samples->tokens.count; s++) {
        char text[2 * TEXT], want[32] = "";
        problem p;
        ppo_status status =
            ppo_tokens_text(&samples->tokens, s, PPO_WHOLE_TEXT, tokenizer, text, sizeof text);
        if (status) return status;
        const char *answer = strchr(text, '>');
        if (sscanf(text, "%d*%d+%d=", &p.a, &p.b, &p.c) == 3) snprintf(want, 32, ">%d.", p.a * p.b + p.c);
        reward[s] = answer && !strcmp(answer, want);
    }
    return PPO_OK;
}

/* The share of right answers to new problems, and three of them. */
static ppo_status test(const ppo_lm *lm, const ppo_tokens *prompts, const ppo_sampling *how) {
    ppo_generator *generator = NULL;
    ppo_samples samples;
    float reward[TESTS], sum = 0;
    ppo_status status = ppo_generator_create(lm, 16, &generator);
    if (!status) status = ppo_generate(generator, prompts, how, &samples);
    if (!status) status = is_right(&samples, reward, NULL);
    for (int s = 0; s < TESTS && !status; s++) sum += reward[s] / TESTS;
    if (!status) printf("right: %.1f %%\n", 100 * (double)sum);
    if (!status) ppo_print_samples(stdout, tokenizer, &samples, NULL, 3);
    fflush(stdout);
    ppo_generator_free(generator);
    return status;
}

int main(int argc, char **argv) {
    static const char characters[] = "0123456789*+=[]>.?";
    char *end = argc > 1 ? argv[1] : NULL;
    ppo_rlhf_config config = ppo_rlhf_config_default();
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_lm_config shape = ppo_lm_config_default();
    ppo_rlhf_progress p;
    ppo_lm *lm = NULL;
    ppo_rlhf *rlhf = NULL;
    ppo_tokens demonstrations = {0}, prompts = {0}, tests = {0};
    double began = ppo_clock();
    config.seed = fit.seed = shape.seed = argc > 1 ? strtoull(argv[1], &end, 10) : 1;
    if (argc > 3 || (end && (end == argv[1] || *end)))
        return fprintf(stderr, "usage: tools [SEED [KERNELS]], a number and a name\n"), 1;
    if (argc > 2 && ppo_use_kernels(argv[2])) return fprintf(stderr, "tools: %s\n", ppo_last_error()), 1;
    ppo_rng rng = ppo_rng_stream(config.seed, PPO_STREAM_USER, 0);
    ppo_status status = ppo_tokenizer_characters(characters, strlen(characters), NULL, 0, &tokenizer);
    if (!status) status = ppo_encode(tokenizer, "]", 1, &config.sampling.tool_token, 1, NULL);
    if (!status) status = ppo_encode(tokenizer, ".", 1, &config.sampling.eos, 1, NULL);
    for (int i = 0; i < DEMONSTRATIONS && !status; i++) { /* 30 % with both calls, 30 % with one */
        float u = ppo_rng_uniform(&rng);
        status = demonstrate(random_problem(&rng), u < 0.3f ? 2 : u < 0.6f ? 1 : 0, &rng, &demonstrations);
    }
    for (int i = 0; i < PROMPTS + TESTS && !status; i++)
        status = demonstrate(random_problem(&rng), 0, &rng, i < PROMPTS ? &prompts : &tests);

    shape.vocab = ppo_tokenizer_vocab(tokenizer);
    shape.context = TEXT;
    fit.epochs = 6;
    if (!status) status = ppo_lm_create(&shape, &lm);
    if (!status) status = ppo_fit_sft(lm, &demonstrations, &fit);
    config.sampling.tool = calculator;
    if (!status) status = test(lm, &tests, &config.sampling);
    if (!status) status = ppo_settings_set_all(ppo_rlhf_settings(), &config, settings);
    if (!status) status = ppo_rlhf_create(lm, NULL, NULL, &prompts, is_right, NULL, &config, &rlhf);
    for (int i = 1; i <= config.iterations && !status; i++) {
        status = ppo_rlhf_iterate(rlhf, &p);
        if (status || i % 10) continue;
        printf("iteration %3d: right %.2f  tokens %.1f  kl %.2f%s  %s\n", i, (double)p.reward,
               (double)p.mean_length, (double)p.kl, p.kl < 0 ? " (an estimate: near 0)" : "", p.warning);
        fflush(stdout);
    }
    if (!status) status = test(lm, &tests, &config.sampling);
    if (status) fprintf(stderr, "tools: %s\n", ppo_last_error());
    else printf("%.0f s\n", ppo_clock() - began);
    ppo_rlhf_free(rlhf);
    ppo_lm_free(lm);
    ppo_tokens_free(&demonstrations);
    ppo_tokens_free(&prompts);
    ppo_tokens_free(&tests);
    ppo_tokenizer_free(tokenizer);
    return status != PPO_OK;
}
