/* 36_red_team.c - red-teaming: look for what a reward model gets wrong, before the policy finds it.

   A test on ordinary samples says how often a reward model is right there, and a policy does not stay there
   (lesson 28). A red team searches for failures on purpose. Here it is a program: it starts from ordinary
   words, changes a letter at a time, and keeps a change if the score rises (people search, too, and other
   models). People then compare each word that it found with the one it came from; the comparisons join those
   that the reward model learns from, and the next round searches again.

   You will see the test, round by round; scores and true rewards of what the search finds, both in standard
   deviations above the mean of ordinary words; and how many are worth less than the words they came from. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"
#include "letters.h"

enum { ROUNDS = 6, RUNS = 2, COMPARISONS = 500, WORDS = 400, CHANGES = 50, TEST = 1000 };

static float test[ROUNDS], score[ROUNDS], truth[ROUNDS], worse[ROUNDS];
static const float x[ROUNDS] = {0, 1, 2, 3, 4, 5};

static float reward_of(const ppo_tokens *words, int s) {
    return true_reward(words->token + words->start[s], words->start[s + 1] - words->start[s]);
}

/* Adds word s with a letter replaced, inserted or left out; the prompt and the end stay. */
static void change(const ppo_tokens *words, int s, ppo_rng *rng, ppo_tokens *changed) {
    int word[CONTEXT + 1], n = words->start[s + 1] - words->start[s], kind = ppo_rng_below(rng, 3),
                           at = PROMPT + ppo_rng_below(rng, n - PROMPT),
                           letter = FIRST_LETTER + ppo_rng_below(rng, TOKENS - FIRST_LETTER);
    memcpy(word, words->token + words->start[s], (size_t)n * sizeof *word);
    if (kind == 0 && n < CONTEXT) memmove(word + at + 1, word + at, (size_t)(n++ - at) * sizeof *word);
    if (kind == 1 && at < n - 1) memmove(word + at, word + at + 1, (size_t)(--n - at) * sizeof *word);
    else if (at < n - 1) word[at] = letter;
    must(ppo_tokens_add(changed, word, n, PROMPT));
}

/* Raises the scores of words [WORDS], which it leaves in high. */
static void search(ppo_reward_model *proxy, ppo_rng *rng, ppo_tokens *words, float *high) {
    static float other[WORDS];
    static ppo_tokens changed, best;
    must(ppo_reward_model_score(proxy, words, high));
    for (int i = 0; i < CHANGES; i++) {
        ppo_tokens_clear(&changed);
        ppo_tokens_clear(&best);
        for (int s = 0; s < WORDS; s++) change(words, s, rng, &changed);
        must(ppo_reward_model_score(proxy, &changed, other));
        for (int s = 0; s < WORDS; s++) {
            must(ppo_tokens_add_from(&best, other[s] > high[s] ? &changed : words, s));
            high[s] = fmaxf(high[s], other[s]);
        }
        ppo_tokens before = *words;
        *words = best, best = before;
    }
}

/* The rounds of one run; adds to the figures above. */
static void run(uint64_t seed) {
    static float R[TEST], of_chosen[TEST], of_rejected[TEST], high[WORDS];
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    ppo_tokens chosen = {0}, rejected = {0}, new_chosen = {0}, new_rejected = {0}, found = {0};
    ppo_lm *first = first_model(seed);
    ppo_generator *generator, *own;
    ppo_samples samples = sample(first, TEST, 1, seed, &generator);
    must(people(&samples, R, NULL));
    double mean = mean_of(R, TEST), deviation = deviation_of(R, TEST);
    ask_people(first, COMPARISONS, seed, &chosen, &rejected);
    ask_people(first, TEST, seed + 1000, &new_chosen, &new_rejected);
    for (int k = 0; k < ROUNDS; k++) {
        ppo_lm *judge = learn_reward(first, &chosen, &rejected, seed);
        ppo_reward_model *proxy = make_proxy(&judge, 1, PPO_ENSEMBLE_MEAN, first, seed);
        must(ppo_lm_scores(judge, &new_chosen, 64, of_chosen));
        must(ppo_lm_scores(judge, &new_rejected, 64, of_rejected));
        for (int s = 0; s < TEST; s++) test[k] += 100.0f * (of_chosen[s] > of_rejected[s]) / TEST / RUNS;
        ppo_tokens start = sample(first, WORDS, 1, seed + 10 + (uint64_t)k, &own).tokens;
        ppo_tokens_clear(&found);
        for (int s = 0; s < WORDS; s++) must(ppo_tokens_add_from(&found, &start, s));
        search(proxy, &rng, &found, high);
        score[k] += (float)mean_of(high, WORDS) / RUNS;
        printf("round %d:", k);
        for (int s = 0; s < WORDS; s++) {
            float now = reward_of(&found, s), then = reward_of(&start, s);
            int likes = ppo_rng_uniform(&rng) < 1 / (1 + expf(then - now)); /* a person, of the word found */
            must(ppo_tokens_add_from(&chosen, likes ? &found : &start, s));
            must(ppo_tokens_add_from(&rejected, likes ? &start : &found, s));
            worse[k] += 100.0f * (now < then) / WORDS / RUNS;
            truth[k] += (float)(((double)now - mean) / deviation) / WORDS / RUNS;
            if (s >= 4) continue;
            char text[CONTEXT + 1];
            const char *word = spell(found.token + found.start[s], found.start[s + 1] - found.start[s], text);
            printf(" %s (%+.1f)%s", word, (double)now, s < 3 ? "" : "\n");
        }
        ppo_generator_free(own);
        ppo_reward_model_free(proxy);
        ppo_lm_free(judge);
    }
    ppo_generator_free(generator);
    ppo_lm_free(first);
}

int main(int argc, char **argv) {
    uint64_t seed = lesson_seed(argc, argv);
    printf("words that the search finds, and their true rewards:\n");
    for (int i = 0; i < RUNS; i++) run(seed * 10 + (uint64_t)i);
    printf("\nmean of %d runs   right on the test   found: score   true reward   worse than before\n", RUNS);
    for (int k = 0; k < ROUNDS; k++)
        printf("round %d %23.1f %% %14.2f %13.2f %17.0f %%\n", k, (double)test[k], (double)score[k],
               (double)truth[k], (double)worse[k]);
    chart c = {.title = "Words that a red team finds", .x_label = "round", .y_label = "standard deviations"};
    chart_line(&c, "score", x, score, ROUNDS);
    chart_line(&c, "true reward", x, truth, ROUNDS);
    chart_save(&c, "build/lessons/36_red_team.svg");
    double end = mean_of(truth + ROUNDS - 2, 2), before = (double)(score[0] - truth[0]),
           after = mean_of(score + ROUNDS - 2, 2) - end;
    claim(before > 0.3, "what is found scores %.1f deviations more than it is worth", before);
    claim(after < before, "after comparisons of what was found, %.1f", after);
    claim(end > (double)truth[0] && mean_of(worse + ROUNDS - 2, 2) < (double)worse[0],
          "then the same search finds words that people like more");
    return lesson_failures > 0;
}
