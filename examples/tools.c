/* tools.c - a language model learns to use a calculator. It writes "[12*34]", a C function computes what stands
   in the brackets and writes "408" behind them, and the model continues with what it now knows:

       12*34+56=[12*34]408[408+56]464>464.

   People showed it three ways to answer: both calls, one of them, or a guess. It imitates all of them, and so it
   is right as often as they are. PPO rewards right answers alone, and the guesses disappear. What the calculator
   wrote is not the model's: nothing is learned from it, in fine-tuning (ppo_tokens_mark_given()) and in PPO.

       build/tools [SEED] */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT = 48, DEMONSTRATIONS = 8000, PROMPTS = 512, ITERATIONS = 60 };

static ppo_tokenizer *tokenizer;
static int            call, stop; /* the tokens "]" and "." */

/* -- the calculator -- */

/* The result of "a*b" or "a+b" from `at` on; -1 if it is neither. */
static long calculate(const char *at) {
    char *end;
    long  a = strtol(at, &end, 10), b = 0;
    char  sign = *end;
    if (end == at || (sign != '*' && sign != '+')) return -1;
    b = strtol(at = end + 1, &end, 10);
    if (end == at || *end != ']' || a < 0 || b < 0 || a > 99999 || b > 99999) return -1;
    return sign == '*' ? a * b : a + b;
}

/* A ppo_tool_fn: the answer to the last "[...]"; "?" if it cannot be computed. */
static ppo_status calculator(const int *token, int n, int *answer, int room, int *count, void *user) {
    char       text[TEXT * 2], result[32] = "?";
    ppo_status status = ppo_decode(tokenizer, token, n, text, sizeof text, NULL);
    if (status) return status;
    const char *open = strrchr(text, '[');
    long        value = open ? calculate(open + 1) : -1;
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
    problem p = {2 + ppo_rng_below(rng, 98), 2 + ppo_rng_below(rng, 98), 1 + ppo_rng_below(rng, 99)};
    return p;
}

/* Adds text to the last sequence's: what the calculator wrote is marked as given. */
typedef struct writing {
    int token[TEXT], n, given[2][2], answers;
} writing;

static ppo_status add_text(writing *w, const char *text, int is_answer) {
    int        n = 0;
    ppo_status status = ppo_encode(tokenizer, text, strlen(text), w->token + w->n, TEXT - w->n, &n);
    if (is_answer) w->given[w->answers][0] = w->n, w->given[w->answers++][1] = n;
    w->n += n;
    return status;
}

/* A demonstration: with both calls (2), with the first one and a guess (1), or with a guess alone (0). */
static ppo_status demonstrate(problem p, int calls, ppo_rng *rng, ppo_tokens *tokens) {
    writing w;
    char    text[4][32];
    int     right = p.a * p.b + p.c, answer = calls == 2 ? right : right / 2 + ppo_rng_below(rng, right);
    memset(&w, 0, sizeof w);
    snprintf(text[0], sizeof text[0], "%d*%d+%d=", p.a, p.b, p.c);
    snprintf(text[1], sizeof text[1], "[%d*%d]", p.a, p.b);
    snprintf(text[2], sizeof text[2], "%d", p.a * p.b);
    ppo_status status = add_text(&w, text[0], 0);
    int        prompt = w.n;
    if (!status && calls > 0) status = add_text(&w, text[1], 0);
    if (!status && calls > 0) status = add_text(&w, text[2], 1);
    snprintf(text[1], sizeof text[1], "[%d+%d]", p.a * p.b, p.c);
    snprintf(text[2], sizeof text[2], "%d", right);
    snprintf(text[3], sizeof text[3], ">%d.", answer);
    if (!status && calls > 1) status = add_text(&w, text[1], 0);
    if (!status && calls > 1) status = add_text(&w, text[2], 1);
    if (!status) status = add_text(&w, text[3], 0);
    if (!status) status = ppo_tokens_add(tokens, w.token, w.n, prompt);
    for (int k = 0; k < w.answers && !status; k++)
        status = ppo_tokens_mark_given(tokens, w.given[k][0], w.given[k][1]);
    return status;
}

/* -- the reward: 1 if the answer is right -- */

static ppo_status is_right(const ppo_samples *samples, float *reward, void *user) {
    const ppo_tokens *t = &samples->tokens;
    (void)user;
    for (int s = 0; s < t->count; s++) {
        char       text[TEXT * 2];
        problem    p;
        ppo_status status = ppo_decode(tokenizer, t->token + t->start[s], t->start[s + 1] - t->start[s], text,
                                       sizeof text, NULL);
        if (status) return status;
        const char *answer = strchr(text, '>');
        reward[s] = 0;
        if (sscanf(text, "%d*%d+%d=", &p.a, &p.b, &p.c) == 3 && answer && samples->ended[s]) {
            char want[32];
            snprintf(want, sizeof want, ">%d.", p.a * p.b + p.c);
            reward[s] = !strcmp(answer, want);
        }
    }
    return PPO_OK;
}

/* The share of right answers to new problems, and three of them. */
static ppo_status test(const ppo_gpt *gpt, const ppo_tokens *prompts, const ppo_sampling *how) {
    ppo_generator *generator = NULL;
    ppo_samples    samples;
    float          reward[PROMPTS], sum = 0;
    ppo_status     status = ppo_generator_create(gpt, 16, &generator);
    if (!status) status = ppo_generate(generator, prompts, how, &samples);
    if (!status) status = is_right(&samples, reward, NULL);
    for (int s = 0; s < PROMPTS && !status; s++) sum += reward[s] / PROMPTS;
    if (!status) printf("right: %.1f %%\n", 100 * (double)sum);
    for (int s = 0; s < 3 && !status; s++) {
        const int *start = samples.tokens.start;
        char       text[TEXT * 2];
        status = ppo_decode(tokenizer, samples.tokens.token + start[s], start[s + 1] - start[s], text,
                            sizeof text, NULL);
        if (!status) printf("    %s\n", text);
    }
    ppo_generator_free(generator);
    return status;
}

int main(int argc, char **argv) {
    static const char characters[] = "0123456789*+=[]>.?";
    ppo_rlhf_config   config = ppo_rlhf_config_default();
    ppo_fit_config    fit = ppo_fit_config_default();
    ppo_gpt_config    shape = ppo_gpt_config_default();
    ppo_rlhf_progress p;
    ppo_gpt          *gpt = NULL;
    ppo_rlhf         *rlhf = NULL;
    ppo_tokens        demonstrations = {0}, prompts = {0}, test_prompts = {0};
    config.seed = fit.seed = shape.seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    ppo_rng    rng = ppo_rng_stream(config.seed, PPO_STREAM_USER, 0);
    ppo_status status = ppo_tokenizer_characters(characters, strlen(characters), NULL, 0, &tokenizer);
    if (!status) status = ppo_encode(tokenizer, "]", 1, &call, 1, NULL);
    if (!status) status = ppo_encode(tokenizer, ".", 1, &stop, 1, NULL);
    for (int i = 0; i < DEMONSTRATIONS && !status; i++) {
        float u = ppo_rng_uniform(&rng);
        status = demonstrate(random_problem(&rng), u < 0.3f ? 2 : u < 0.6f ? 1 : 0, &rng, &demonstrations);
    }
    for (int i = 0; i < 2 * PROMPTS && !status; i++)
        status = demonstrate(random_problem(&rng), 0, &rng, i < PROMPTS ? &prompts : &test_prompts);
    shape.vocab = ppo_tokenizer_vocab(tokenizer);
    shape.context = TEXT;
    fit.epochs = 6;
    if (!status) status = ppo_gpt_create(&shape, &gpt);
    if (!status) status = ppo_fit_sft(gpt, &demonstrations, &fit);
    config.sampling.eos = stop;
    config.sampling.call = call;
    config.sampling.tool = calculator;
    if (!status) status = test(gpt, &test_prompts, &config.sampling);
    if (!status) status = ppo_rlhf_create(gpt, NULL, NULL, &prompts, is_right, NULL, &config, &rlhf);
    for (int i = 1; i <= ITERATIONS && !status; i++) {
        status = ppo_rlhf_iterate(rlhf, &p);
        if (!status && i % 10 == 0)
            printf("iteration %2d: right %.2f, %4.1f tokens, kl %.2f  %s\n", i, (double)p.reward,
                   (double)p.mean_length, (double)p.kl, p.warning);
    }
    if (!status) status = test(gpt, &test_prompts, &config.sampling);
    if (status) fprintf(stderr, "tools: %s\n", ppo_last_error());
    ppo_rlhf_free(rlhf);
    ppo_gpt_free(gpt);
    ppo_tokens_free(&demonstrations);
    ppo_tokens_free(&prompts);
    ppo_tokens_free(&test_prompts);
    ppo_tokenizer_free(tokenizer);
    return status != PPO_OK;
}
