/* 26_credit.c - credit: which token earned the reward?

   One reward for a whole word, and an advantage for each of its tokens. There are two ways to divide it:
     sequence   A = R - V(prompt), the same number for all tokens: right on average, and noisy
     token      GAE over the tokens: each gets the change of the critic's expectation that it brought
                (lambda 0), or a mixture with what followed (lambda 0.95)
   The true advantage of a token is what the expected reward is after it, less what it was before it. Here it
   can be measured: continue the word from there, many times.

   You will see one word with its true advantages and the estimates, and for many words the correlation of
   each estimate with the truth, and its error. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"
#include "letters.h"

enum { WORDS = 60, CONTINUATIONS = 64, MOST = WORDS * CONTEXT, WAYS = 3 };

static double correlation(const float *x, const float *y, int n) {
    double mx = mean_of(x, n), my = mean_of(y, n), xy = 0, xx = 0, yy = 0;
    for (int i = 0; i < n; i++) {
        double dx = (double)x[i] - mx, dy = (double)y[i] - my;
        xy += dx * dy, xx += dx * dx, yy += dy * dy;
    }
    return xy / sqrt(xx * yy);
}

/* The expected reward of words that begin like this: exact if they have ended. */
static float expected(ppo_generator *generator, const int *token, int n, uint64_t seed) {
    float reward[CONTINUATIONS];
    ppo_sampling how = sampling(seed);
    ppo_tokens begin = {0};
    ppo_samples samples;
    if (token[n - 1] == END || n == CONTEXT) return true_reward(token, n);
    for (int i = 0; i < CONTINUATIONS; i++) must(ppo_tokens_add(&begin, token, n, n));
    must(ppo_generate(generator, &begin, &how, &samples));
    must(people(&samples, reward, NULL));
    ppo_tokens_free(&begin);
    return (float)mean_of(reward, CONTINUATIONS);
}

int main(int argc, char **argv) {
    static const char *const names[WAYS] = {"sequence", "GAE 0.95", "GAE 0"};
    static float truth[MOST], A[WAYS][MOST], R[WORDS];
    uint64_t seed = lesson_seed(argc, argv);
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    ppo_tokens prompts = {0};
    ppo_lm *first = first_model(seed), *policy = NULL, *critic = NULL;
    ppo_rlhf *rlhf = NULL;
    ppo_rlhf_config config = settings(seed);
    ppo_rlhf_progress p;

    /* A critic for a policy that stays as it is: its learning rate is 0. */
    add_words(256, &rng, &prompts);
    must(ppo_lm_copy(first, 0, &policy));
    must(ppo_lm_copy(first, 1, &critic));
    config.learning_rate = 1e-12f, config.critic_learning_rate = 2e-3f;
    config.normalize_rewards = 0, config.kl_coef = 0;
    must(ppo_rlhf_create(policy, NULL, critic, &prompts, people, NULL, &config, &rlhf));
    for (int i = 0; i < 60; i++) must(ppo_rlhf_iterate(rlhf, &p));
    printf("critic: explained variance %.2f\n\n", (double)p.explained_variance);

    ppo_generator *generator, *own = NULL;
    ppo_samples samples = sample(first, WORDS, 1, seed, &own);
    const ppo_tokens *t = &samples.tokens;
    ppo_tape *tape = NULL;
    int rows = ppo_response_row(t, WORDS);
    must(people(&samples, R, NULL));
    must(ppo_tape_create(&tape));
    const ppo_tensor *V = ppo_lm_response(tape, critic, t, 1, PPO_VALUE).value;
    must(ppo_tape_status(tape));
    generator = NULL;
    must(ppo_generator_create(first, 16, &generator));
    for (int s = 0; s < WORDS; s++) {
        int row = ppo_response_row(t, s), n = ppo_response_row(t, s + 1) - row,
            at = t->start[s] + t->prompt[s];
        float reward[CONTEXT] = {0},
              before = expected(generator, t->token + t->start[s], t->prompt[s], seed + 9);
        unsigned char ended[CONTEXT] = {0};
        reward[n - 1] = R[s], ended[n - 1] = 1;
        for (int k = 1; k < WAYS; k++)
            must(ppo_gae(reward, V->data + row, V->data + row + 1, ended, NULL, n, 1, 1, k == 1 ? 0.95f : 0,
                         A[k] + row, NULL));
        if (s == 0)
            printf("token   truth  sequence  GAE 0.95   GAE 0    of one word, R = %.1f\n", (double)R[s]);
        for (int i = 0; i < n; i++) {
            char text[CONTEXT + 1];
            float after =
                expected(generator, t->token + t->start[s], t->prompt[s] + i + 1, seed + 9 + (uint64_t)i);
            truth[row + i] = after - before;
            before = after;
            A[0][row + i] = R[s] - V->data[row];
            if (s == 0)
                printf("%4s %8.2f %9.2f %9.2f %7.2f\n", spell(&t->token[at + i], 1, text),
                       (double)truth[row + i], (double)A[0][row + i], (double)A[1][row + i],
                       (double)A[2][row + i]);
        }
    }
    float corr[WAYS], error[WAYS];
    printf("\n            correlation with the truth   rms error, of %d tokens\n", rows);
    for (int k = 0; k < WAYS; k++) {
        double squares = 0;
        for (int i = 0; i < rows; i++)
            squares += (double)((A[k][i] - truth[i]) * (A[k][i] - truth[i])) / rows;
        corr[k] = (float)correlation(A[k], truth, rows), error[k] = (float)sqrt(squares);
        printf("%-10s %24.2f %15.2f\n", names[k], (double)corr[k], (double)error[k]);
    }
    chart c = {.title = "Advantages of tokens: estimate against truth",
               .x_label = "true advantage",
               .y_label = "estimate"};
    chart_points(&c, names[0], truth, A[0], rows);
    chart_points(&c, names[2], truth, A[2], rows);
    chart_save(&c, "build/lessons/26_credit.svg");
    claim(corr[2] > corr[0] + 0.1f && error[2] < error[0],
          "token by token the estimates are nearer to the truth");
    claim(corr[0] > 0.1f, "the sequence's number points the right way, on average");
    return lesson_failures > 0;
}
