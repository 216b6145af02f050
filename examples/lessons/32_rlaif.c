/* 32_rlaif.c - feedback from a machine instead of people: cheap, tireless, and with its own taste.

   People are slow, contradict themselves, and are few. RLAIF lets a program compare (Lee 2023),
   Constitutional AI one that follows written principles (Bai 2022): as many comparisons as wanted, without
   noise, and with whatever the principles leave out or the machine adds. Here the principles are "soft
   letters, not hard ones" and "write words"; and, as language models that judge do, this one likes longer
   answers (verbosity bias, Zheng 2023). That a soft letter may not come again it does not know.

   You will see reward models that learned from 300 and 3000 comparisons by people, and from 3000 by the
   machine, with its taste for length and without; how many new comparisons by people they predict; and what
   people think of the policies that PPO makes of them. The two orders differ. The taste costs the machine
   its agreement with people, and little where it matters: the agreement is that on words of the first
   model, and says little about the words to which a reward model leads a policy. Some policies fall apart,
   more often those of few comparisons; one such run would decide a mean, so wins are counted (a sign test).
   */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"
#include "letters.h"

enum { WAYS = 4, RUNS = 8, ITERATIONS = 40 };
enum { FEW, MANY, MACHINE, NO_TASTE };

static const char *const names[WAYS] = {"300 by people", "3000 by people", "3000 by machine",
                                        "... without taste"};

/* The constitution as a judge: soft letters less hard ones, -1 for what is no word, *taste a letter. */
static ppo_status constitution(const ppo_samples *samples, float *reward, void *taste) {
    const ppo_tokens *t = &samples->tokens;
    for (int s = 0; s < t->count; s++) {
        int n = t->start[s + 1] - t->start[s];
        reward[s] = *(float *)taste * (float)n - (n % 2 == 1);
        for (int i = t->start[s] + 1, at = 1; i < t->start[s + 1] && t->token[i] != END; i++, at++) {
            if (is_soft(t->token[i])) reward[s] += 1;
            else if (!is_vowel(t->token[i])) reward[s] -= 1;
            if (is_vowel(t->token[i]) != (at % 2 == 0)) reward[s] -= 1;
        }
    }
    return PPO_OK;
}

static void ask_machine(const ppo_lm *lm, float taste, int n, uint64_t seed, ppo_tokens *chosen,
                        ppo_tokens *rejected) {
    ppo_generator *generator = NULL;
    ppo_sampling how = sampling(seed + 7);
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER + 1, 0);
    ppo_tokens prompts = {0};
    add_words(n, &rng, &prompts);
    must(ppo_generator_create(lm, 16, &generator));
    must(ppo_compare(generator, &prompts, &how, constitution, &taste, NULL, chosen, rejected));
    ppo_generator_free(generator);
    ppo_tokens_free(&prompts);
}

/* The true reward of what PPO makes of comparisons of one kind; agrees: the share of 1000 new ones by people
   that the reward model predicts. */
static float result(int way, uint64_t seed, float *agrees, float *length) {
    static float score[1000], other[1000];
    ppo_tokens chosen = {0}, rejected = {0}, new_chosen = {0}, new_rejected = {0}, prompts = {0};
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    ppo_lm *first = first_model(seed), *policy = copy_of(first);
    ppo_rlhf *rlhf = NULL;
    ppo_rlhf_config config = settings(seed);
    if (way <= MANY) ask_people(first, way == FEW ? 300 : 3000, seed, &chosen, &rejected);
    else ask_machine(first, way == MACHINE ? 0.5f : 0, 3000, seed, &chosen, &rejected);
    ppo_lm *judge = learn_reward(first, &chosen, &rejected, seed);
    ppo_reward_model *proxy = make_proxy(&judge, 1, PPO_ENSEMBLE_MEAN, first, seed);
    ask_people(first, 1000, seed + 1000, &new_chosen, &new_rejected);
    must(ppo_lm_scores(judge, &new_chosen, 64, score));
    must(ppo_lm_scores(judge, &new_rejected, 64, other));
    for (int s = 0; s < 1000; s++) *agrees += (score[s] > other[s]) / 1000.0f;

    add_words(256, &rng, &prompts);
    config.kl_coef = 0.05f;
    must(ppo_rlhf_create(policy, first, NULL, &prompts, ppo_reward_by_model, proxy, &config, &rlhf));
    for (int i = 0; i < ITERATIONS; i++) must(ppo_rlhf_iterate(rlhf, NULL));
    ppo_lm_evaluation e = worth(policy, first, seed);
    *length = e.mean_length;
    if (seed % 10 == 0) printf("%-18s", names[way]), show(policy, 4, seed);
    ppo_rlhf_free(rlhf);
    ppo_reward_model_free(proxy);
    ppo_lm_free(judge);
    ppo_lm_free(policy);
    ppo_lm_free(first);
    ppo_tokens *const all[] = {&chosen, &rejected, &new_chosen, &new_rejected, &prompts};
    for (int i = 0; i < 5; i++) ppo_tokens_free(all[i]);
    return e.reward;
}

int main(int argc, char **argv) {
    static float reward[WAYS][RUNS], agrees[WAYS][RUNS], length[WAYS][RUNS], mean[WAYS], low[WAYS],
        high[WAYS];
    uint64_t seed = lesson_seed(argc, argv);
    for (int k = 0; k < WAYS; k++)
        for (int run = 0; run < RUNS; run++)
            reward[k][run] = result(k, seed * 10 + (uint64_t)run, &agrees[k][run], &length[k][run]);
    printf("\nmean of %d runs      predicts people   policy: true reward   letters\n", RUNS);
    for (int k = 0; k < WAYS; k++) {
        double half = interval_of(reward[k], RUNS);
        mean[k] = (float)mean_of(reward[k], RUNS), low[k] = mean[k] - (float)half,
        high[k] = mean[k] + (float)half;
        printf("%-18s %14.1f %% %13.2f +- %.2f %9.1f\n", names[k], 100 * mean_of(agrees[k], RUNS),
               (double)mean[k], half, mean_of(length[k], RUNS));
    }
    chart c = {.title = "True reward of policies, by source of comparisons",
               .x_label = "true reward",
               .rows = names,
               .row_count = WAYS};
    chart_rows(&c, NULL, mean, low, high, WAYS);
    chart_save(&c, "build/lessons/32_rlaif.svg");
    int wins = 0;
    for (int run = 0; run < RUNS; run++) wins += reward[MACHINE][run] > reward[FEW][run];
    claim(wins >= RUNS - 1, "3000 by the machine make a better policy than 300 by people in %d of %d runs",
          wins, RUNS);
    claim(better_by(agrees[MANY], agrees[MACHINE], RUNS) > 0 &&
              better_by(agrees[NO_TASTE], agrees[MACHINE], RUNS) > 0,
          "its taste costs agreement: 3000 by people predict %.1f points more at least",
          100 * better_by(agrees[MANY], agrees[MACHINE], RUNS));
    claim(!(better_by(reward[MANY], reward[MACHINE], RUNS) > 0),
          "but that they make a better policy is not certain: %.2f against %.2f", (double)mean[MANY],
          (double)mean[MACHINE]);
    return lesson_failures > 0;
}
