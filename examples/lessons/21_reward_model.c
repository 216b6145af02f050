/* 21_reward_model.c - a reward model from comparisons: how many it takes, and how good it can be.

   People are asked which of two samples is better. Bradley and Terry (1952): the one with the higher reward
   is chosen with probability sigmoid(R1 - R2), so people contradict themselves where samples are nearly
   alike. The reward model is a language model with one number at the last token, and learns by -log
   sigmoid(chosen - rejected) (ppo_pairwise_loss).

   You will see the share of new comparisons that it predicts, against the number it has learned from; the
   limit is what someone who knows the true reward would predict, for people's choices are partly chance (and
   where two samples are equally good, all of it). And
   the correlation of its scores with the true reward: on samples of the first model, where it has learned,
   and on words such as it has never seen, six syllables of soft consonants that repeat: what a policy will
   find. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"
#include "letters.h"

enum { SIZES = 6, RUNS = 3, TEST = 1000 };

static double correlation(const float *x, const float *y, int n) {
    double mx = mean_of(x, n), my = mean_of(y, n), xy = 0, xx = 0, yy = 0;
    for (int i = 0; i < n; i++) {
        double dx = (double)x[i] - mx, dy = (double)y[i] - my;
        xy += dx * dy, xx += dx * dx, yy += dy * dy;
    }
    return xy / sqrt(xx * yy);
}

static float reward_of(const ppo_tokens *words, int s) {
    return true_reward(words->token + words->start[s], words->start[s + 1] - words->start[s]);
}

int main(int argc, char **argv) {
    float size[SIZES], accuracy[SIZES] = {0}, limit[SIZES], best = 0, corr[SIZES] = {0},
                       strange_corr[SIZES] = {0};
    uint64_t seed = lesson_seed(argc, argv);
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    ppo_tokens chosen = {0}, rejected = {0}, strange = {0};
    ppo_lm *first = first_model(seed);
    static float score[TEST], other[TEST], truth[TEST], strange_truth[TEST];

    /* New comparisons by the same people; and strange words. */
    ask_people(first, TEST, seed + 1000, &chosen, &rejected);
    for (int s = 0; s < chosen.count; s++) {
        truth[s] = reward_of(&chosen, s);
        float difference = truth[s] - reward_of(&rejected, s);
        best += (difference > 0 ? 1 : difference == 0 ? 0.5f : 0) / TEST;
    }
    for (int s = 0; s < TEST; s++) {
        int word[CONTEXT] = {START}, n = 1, kinds = 1 + ppo_rng_below(&rng, SOFT);
        for (int k = 0; k < 6; k++) {
            word[n++] = FIRST_LETTER + VOWELS + ppo_rng_below(&rng, kinds);
            word[n++] = FIRST_LETTER + ppo_rng_below(&rng, VOWELS);
        }
        word[n++] = END;
        must(ppo_tokens_add(&strange, word, n, PROMPT));
        strange_truth[s] = true_reward(word, n);
    }

    printf("comparisons   predicts of %d new ones   correlation of score and true reward\n"
           "                                          first model's words     strange words\n",
           TEST);
    for (int k = 0; k < SIZES; k++) {
        size[k] = (float)(64 << k);
        limit[k] = 100 * best;
        for (int run = 0; run < RUNS; run++) {
            ppo_tokens good = {0}, bad = {0};
            ask_people(first, 64 << k, seed * 10 + (uint64_t)run, &good, &bad);
            ppo_lm *judge = learn_reward(first, &good, &bad, seed + (uint64_t)run);
            must(ppo_lm_scores(judge, &chosen, 64, score));
            must(ppo_lm_scores(judge, &rejected, 64, other));
            for (int s = 0; s < TEST; s++) accuracy[k] += 100.0f * (score[s] > other[s]) / TEST / RUNS;
            corr[k] += (float)correlation(score, truth, TEST) / RUNS;
            must(ppo_lm_scores(judge, &strange, 64, other));
            strange_corr[k] += (float)correlation(other, strange_truth, TEST) / RUNS;
            ppo_lm_free(judge);
            ppo_tokens_free(&good);
            ppo_tokens_free(&bad);
        }
        printf("%8d %19.1f %% %23.2f %19.2f\n", 64 << k, (double)accuracy[k], (double)corr[k],
               (double)strange_corr[k]);
        fflush(stdout);
    }
    printf("knowing the true reward: %.1f %%\n", 100 * (double)best);
    chart c = {.title = "A reward model and its comparisons",
               .x_label = "comparisons",
               .y_label = "% of new comparisons predicted",
               .log_x = 1};
    chart_line(&c, "reward model", size, accuracy, SIZES);
    chart_points(&c, NULL, size, accuracy, SIZES);
    chart_line(&c, "knowing the true reward", size, limit, SIZES);
    chart_save(&c, "build/lessons/21_reward_model.svg");
    claim(accuracy[SIZES - 1] > accuracy[0] + 3, "more comparisons predict more");
    claim(accuracy[SIZES - 1] < 100 * best + 1, "but no more than %.0f %%: people contradict themselves",
          100 * (double)best);
    claim(corr[SIZES - 1] > 0.7f && strange_corr[SIZES - 1] < corr[SIZES - 1] - 0.1f,
          "the scores are right where the data are, less so elsewhere");
    ppo_lm_free(first);
    ppo_tokens_free(&chosen);
    ppo_tokens_free(&rejected);
    ppo_tokens_free(&strange);
    return lesson_failures > 0;
}
