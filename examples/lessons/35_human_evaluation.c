/* 35_human_evaluation.c - evaluation by people: how sure is a win rate?

   In the end people say whether a policy got better: they see a sample of each model for the same prompt and
   choose one. The share of choices for the new model is its win rate. It is an estimate, with two kinds of
   noise: which pairs were shown, and what a person says of a pair, which another person, or the same one
   tomorrow, does not repeat. Here both are known: R is the true reward of a word, and a person prefers b to a
   with probability p = sigmoid(R(b) - R(a)) (lesson 21).
       the 95 % interval of a win rate w from n choices    w +- 1.96 sqrt(w (1 - w) / n)
       agreement, how often two people say the same        mean of p^2 + (1 - p)^2
   You will see win rates of a first model and of one that is a little better, in many studies of n choices:
   how often the interval holds the truth, and how often the worse model wins; what agreement says about how
   well any reward model can do; and whether to show a pair to three people or three pairs to one each. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"
#include "letters.h"

enum { PAIRS = 4000, STUDIES = 2000, SIZES = 7 };

static float p[PAIRS]; /* that a person prefers the new model's sample */

/* A win rate from n choices: random pairs, each shown to people_each people. */
static float study(int n, int people_each, ppo_rng *rng) {
    int wins = 0;
    for (int i = 0, pair = 0; i < n; i++) {
        if (i % people_each == 0) pair = ppo_rng_below(rng, PAIRS);
        wins += ppo_rng_uniform(rng) < p[pair];
    }
    return (float)wins / (float)n;
}

int main(int argc, char **argv) {
    static float a[PAIRS], b[PAIRS], win[STUDIES], thrice[STUDIES];
    float x[SIZES], low[SIZES], high[SIZES], truth[SIZES], half[SIZES], covered[SIZES], wrong[SIZES];
    uint64_t seed = lesson_seed(argc, argv);
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_tokens chosen = {0}, rejected = {0};
    ppo_lm *first = first_model(seed), *better = copy_of(first);
    ppo_generator *one, *other;
    double rate = 0, sure = 0, agree = 0, limit = 0;

    /* The better model has read what people chose. Both continue the same prompts, each by chance of its own. */
    ask_people(first, 1000, seed, &chosen, &rejected);
    must(ppo_fit_sft(better, &chosen, &fit));
    ppo_samples of_a = sample_by(first, PAIRS, 1, seed, seed + 1, &one);
    ppo_samples of_b = sample_by(better, PAIRS, 1, seed, seed + 1000, &other);
    must(people(&of_a, a, NULL));
    must(people(&of_b, b, NULL));
    for (int i = 0; i < PAIRS; i++) {
        p[i] = 1 / (1 + expf(a[i] - b[i]));
        rate += (double)p[i] / PAIRS;
        sure += (a[i] < b[i] ? 1 : a[i] == b[i] ? 0.5 : 0) / PAIRS;
        limit += (double)fmaxf(p[i], 1 - p[i]) / PAIRS;
    }
    for (int i = 0; i < PAIRS; i++) /* two people, the same pair */
        agree += ((ppo_rng_uniform(&rng) < p[i]) == (ppo_rng_uniform(&rng) < p[i])) / (double)PAIRS;
    printf("true reward: first model %.2f, better model %.2f\n", mean_of(a, PAIRS), mean_of(b, PAIRS));
    printf("win rate, over all pairs: %.1f %% by people, %.1f %% by one who knows the true reward\n",
           100 * rate, 100 * sure);
    printf("two people agree on %.1f %% of pairs; who knows p predicts a person in %.1f %%\n\n", 100 * agree,
           100 * limit);

    printf("choices   95 %% of the studies   interval holds the truth   the worse model wins\n");
    for (int k = 0; k < SIZES; k++) {
        int n = 25 << k;
        covered[k] = wrong[k] = 0;
        for (int i = 0; i < STUDIES; i++) {
            float w = win[i] = study(n, 1, &rng);
            covered[k] +=
                100 * (fabs((double)w - rate) < 1.96 * sqrt((double)(w * (1 - w)) / n)) / (float)STUDIES;
            wrong[k] += (w < 0.5f ? 100 : w == 0.5f ? 50 : 0) / (float)STUDIES; /* a tie: a coin */
        }
        x[k] = (float)n, truth[k] = 100 * (float)rate, half[k] = 50;
        low[k] = (float)(100 * (mean_of(win, STUDIES) - 1.96 * deviation_of(win, STUDIES)));
        high[k] = (float)(100 * (mean_of(win, STUDIES) + 1.96 * deviation_of(win, STUDIES)));
        printf("%7d %10.1f to %.1f %% %21.1f %% %22.1f %%\n", n, (double)low[k], (double)high[k],
               (double)covered[k], (double)wrong[k]);
    }
    for (int i = 0; i < STUDIES; i++) win[i] = study(300, 1, &rng), thrice[i] = study(300, 3, &rng);
    double spread = deviation_of(win, STUDIES), spread_thrice = deviation_of(thrice, STUDIES);
    printf("300 choices: a noise of %.2f points from 300 pairs, of %.2f from 100 pairs shown to three\n",
           100 * spread, 100 * spread_thrice);

    chart c = {.title = "Win rate of a model that is a little better",
               .x_label = "choices by people",
               .y_label = "win rate, %",
               .log_x = 1};
    chart_band(&c, "95 % of the studies", x, low, high, SIZES);
    chart_line(&c, "all pairs", x, truth, SIZES);
    chart_line(&c, "no difference", x, half, SIZES);
    chart_save(&c, "build/lessons/35_human_evaluation.svg");
    claim(fabsf(covered[2] - 95) < 2.5f && fabsf(covered[SIZES - 1] - 95) < 2.5f,
          "the 95 %% interval holds the truth in %.0f %% of studies", (double)covered[SIZES - 1]);
    claim(wrong[0] > 5 && wrong[SIZES - 1] < 1,
          "of 25 choices the worse model wins in %.0f %% of studies, of %d hardly ever", (double)wrong[0],
          25 << (SIZES - 1));
    claim(fabs(rate - 0.5) < fabs(sure - 0.5), "people's noise pulls a win rate towards 50 %%");
    claim(agree < limit && limit < 0.9,
          "where two people agree on %.0f %%, no judge predicts more than %.0f %%", 100 * agree, 100 * limit);
    claim(spread < spread_thrice, "new pairs tell more than new people on the same pairs");
    ppo_generator_free(one);
    ppo_generator_free(other);
    ppo_lm_free(first);
    ppo_lm_free(better);
    ppo_tokens_free(&chosen);
    ppo_tokens_free(&rejected);
    return lesson_failures > 0;
}
