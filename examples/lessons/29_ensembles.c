/* 29_ensembles.c - several reward models are wrong together: what an ensemble shows, and what it does not.

   Reward models that differ only in their comparisons and in chance are wrong in different places. The
   deviation of their scores for a word is meant to say how little is known about it, and their minimum is a
   cautious score (Coste 2023). Where the members' errors are their own, that works. But models that start
   from the same first model and learn from the same kind of data share their mistakes: on words that a
   policy without a constraint comes up with, all may be too high, and agree.

   You will see the deviation between members beside their error, and the mean and the minimum beside the true
   reward, for words that are farther and farther from the first model's: samples at a higher temperature, and
   repetitions of one syllable. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"
#include "letters.h"

enum { MEMBERS = 5, COMPARISONS = 500, WORDS = 300, KINDS = 5, WORLDS = 4 };

static const char *const names[KINDS] = {"first model", "temperature 1.5", "temperature 2.5",
                                         "repeated, short", "repeated, long"};

/* Of each kind of words: the deviation between members, and how far mean and minimum are above the truth. Means over
   worlds: each has a first model and people of its own. */
static float spread[KINDS], mean_gap[KINDS], gap[KINDS];

static void add_world(uint64_t seed) {
    static float score[MEMBERS][WORDS], truth[WORDS], mean[WORDS];
    ppo_lm *first = first_model(seed), *member[MEMBERS];
    ppo_reward_model *alone[MEMBERS];
    for (int m = 0; m < MEMBERS; m++) {
        ppo_tokens chosen = {0}, rejected = {0};
        ask_people(first, COMPARISONS, seed * 10 + (uint64_t)m, &chosen, &rejected);
        member[m] = learn_reward(first, &chosen, &rejected, seed * 10 + (uint64_t)m);
        alone[m] = make_proxy(&member[m], 1, PPO_ENSEMBLE_MEAN, first, seed); /* all on one scale */
        ppo_tokens_free(&chosen);
        ppo_tokens_free(&rejected);
    }
    double centre = 0, unit = 1;
    for (int k = 0; k < KINDS; k++) {
        ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, (uint32_t)k);
        ppo_tokens words = {0}, prompts = {0};
        ppo_generator *generator = NULL;
        ppo_samples samples;
        ppo_sampling how = sampling(seed);
        if (k < 3) {
            how.temperature = k == 0 ? 1 : k == 1 ? 1.5f : 2.5f;
            add_words(WORDS, &rng, &prompts);
            must(ppo_generator_create(first, 16, &generator));
            must(ppo_generate(generator, &prompts, &how, &samples));
            for (int s = 0; s < WORDS; s++) must(ppo_tokens_add_from(&words, &samples.tokens, s));
        } else
            for (int s = 0; s < WORDS; s++) { /* one soft syllable, two or six times */
                int word[CONTEXT] = {START}, n = 1, c = FIRST_LETTER + VOWELS + ppo_rng_below(&rng, SOFT),
                    v = FIRST_LETTER + ppo_rng_below(&rng, VOWELS);
                for (int i = 0; i < (k == 3 ? 2 : 6); i++) word[n++] = c, word[n++] = v;
                word[n++] = END;
                must(ppo_tokens_add(&words, word, n, PROMPT));
            }
        double apart = 0, least = 0, middle = 0;
        for (int m = 0; m < MEMBERS; m++) must(ppo_reward_model_score(alone[m], &words, score[m]));
        for (int s = 0; s < WORDS; s++)
            truth[s] = true_reward(words.token + words.start[s], words.start[s + 1] - words.start[s]);
        if (k == 0) centre = mean_of(truth, WORDS), unit = deviation_of(truth, WORDS);
        for (int s = 0; s < WORDS; s++) {
            float one[MEMBERS], smallest = INFINITY;
            for (int m = 0; m < MEMBERS; m++) one[m] = score[m][s], smallest = fminf(smallest, one[m]);
            mean[s] = (float)mean_of(one, MEMBERS);
            apart += deviation_of(one, MEMBERS) / WORDS;
            middle += ((double)mean[s] - ((double)truth[s] - centre) / unit) / WORDS;
            least += ((double)smallest - ((double)truth[s] - centre) / unit) / WORDS;
        }
        spread[k] += (float)apart / WORLDS, mean_gap[k] += (float)middle / WORLDS,
            gap[k] += (float)least / WORLDS;
        ppo_generator_free(generator);
        ppo_tokens_free(&prompts);
        ppo_tokens_free(&words);
    }
    for (int m = 0; m < MEMBERS; m++) ppo_reward_model_free(alone[m]), ppo_lm_free(member[m]);
    ppo_lm_free(first);
}

int main(int argc, char **argv) {
    uint64_t seed = lesson_seed(argc, argv);
    for (int w = 0; w < WORLDS; w++) add_world(seed * WORLDS + (uint64_t)w);
    printf(
        "                   deviation between      error of the mean      error of the minimum\n"
        "                   the %d members          (score - truth, both in deviations of the first row)\n",
        MEMBERS);
    for (int k = 0; k < KINDS; k++)
        printf("%-18s %14.2f %22.2f %22.2f\n", names[k], (double)spread[k], (double)mean_gap[k],
               (double)gap[k]);
    chart c = {.title = "Five reward models, far from their data: four worlds",
               .x_label = "in deviations of the first model's words",
               .rows = names,
               .row_count = KINDS};
    chart_rows(&c, "deviation between members", spread, NULL, NULL, KINDS);
    chart_rows(&c, "mean less truth", mean_gap, NULL, NULL, KINDS);
    chart_rows(&c, "minimum less truth", gap, NULL, NULL, KINDS);
    chart_save(&c, "build/lessons/29_ensembles.svg");
    claim(mean_gap[4] > 0.5f, "on long repetitions all members score too high, by %.1f", (double)mean_gap[4]);
    claim(spread[3] < spread[0] && mean_gap[3] > 0.3f,
          "their deviation does not tell: on short ones it is %.2f, below the %.2f of words like their data, "
          "and "
          "they are too high by %.1f",
          (double)spread[3], (double)spread[0], (double)mean_gap[3]);
    claim(gap[4] < mean_gap[4] && gap[4] > gap[0] + 0.3f,
          "the minimum lowers the score, yet it stays too high: %.1f above that of the first model's words",
          (double)(gap[4] - gap[0]));
    return lesson_failures > 0;
}
