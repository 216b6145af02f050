/* 28_reward_hacking.c - a policy that is pressed against a reward model finds where it is wrong.

   The reward model has learned from the first model's words. There soft letters are good, and repeated ones
   are rare. A policy without a constraint moves to words that it has never been asked about: "nononono"
   scores high, and people find it worse than what came before (Goodhart's law; Gao 2022). What helps:
     KL            a penalty for leaving the first model: the reward model stays valid (Ziegler 2019)
     minimum       of four reward models: where they disagree the worst score counts (Coste 2023); of four
                   that are wrong alike it is wrong, too (lesson 29)
     new data      every 12 iterations people compare samples of the policy, and the reward model learns from
                   all comparisons: it is valid where the policy is now (Ouyang 2022)
   You will see the proxy's score and the true reward of each. Only a laboratory sees the second curve;
   elsewhere one has to ask people again, and look at samples. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"
#include "letters.h"

enum { WAYS = 4, POINTS = 12, EVERY = 6, MEMBERS = 4, COMPARISONS = 500, RENEW = 12, RUNS = 3 };
enum { NONE, KL, MINIMUM, NEW_DATA };

static const char *const names[WAYS] = {"no remedy", "KL 0.2", "minimum of 4", "new data"};

/* The reward function of a run: its proxy, which may be replaced. */
static ppo_status score(const ppo_samples *samples, float *reward, void *user) {
    return ppo_reward_by_model(samples, reward, *(ppo_reward_model **)user);
}

/* One training. truth and scores are at every EVERY-th iteration; what is there is added to. */
static void train(int way, uint64_t seed, float *truth, float *scores) {
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    ppo_tokens prompts = {0}, chosen = {0}, rejected = {0};
    ppo_lm *first = first_model(seed), *judges[MEMBERS] = {NULL}, *policy = NULL;
    ppo_rlhf *rlhf = NULL;
    ppo_rlhf_config config = settings(seed);
    ppo_rlhf_progress p;
    int members = way == MINIMUM ? MEMBERS : 1;
    add_words(256, &rng, &prompts);
    for (int m = members - 1; m >= 0; m--) { /* each with comparisons of its own */
        ppo_tokens_clear(&chosen);
        ppo_tokens_clear(&rejected);
        ask_people(first, COMPARISONS, seed * 10 + (uint64_t)m, &chosen, &rejected);
        judges[m] = learn_reward(first, &chosen, &rejected, seed * 10 + (uint64_t)m);
    }
    ppo_reward_model *proxy = make_proxy(judges, members, PPO_ENSEMBLE_MINIMUM, first, seed);
    config.kl_coef = way == KL ? 0.2f : 0;
    config.normalize_rewards = 0; /* the proxy's are normalized */
    must(ppo_lm_copy(first, 0, &policy));
    must(ppo_rlhf_create(policy, way == KL ? first : NULL, NULL, &prompts, score, &proxy, &config, &rlhf));
    for (int i = 0; i < POINTS * EVERY; i++) {
        if (way == NEW_DATA && i > 0 && i % RENEW == 0) {
            ask_people(policy, COMPARISONS, seed * 10 + (uint64_t)i, &chosen, &rejected);
            ppo_reward_model_free(proxy);
            ppo_lm_free(judges[0]);
            judges[0] = learn_reward(first, &chosen, &rejected, seed);
            proxy = make_proxy(judges, 1, PPO_ENSEMBLE_MEAN, first, seed);
        }
        must(ppo_rlhf_iterate(rlhf, &p));
        if (i % EVERY) continue;
        scores[i / EVERY] += p.reward / RUNS;
        truth[i / EVERY] += worth(policy, first, seed).reward / RUNS;
    }
    printf("%-13s", names[way]);
    show(policy, 4, seed);
    fflush(stdout);
    ppo_rlhf_free(rlhf);
    ppo_reward_model_free(proxy);
    for (int m = 0; m < members; m++) ppo_lm_free(judges[m]);
    ppo_lm_free(policy);
    ppo_lm_free(first);
    ppo_tokens_free(&prompts);
    ppo_tokens_free(&chosen);
    ppo_tokens_free(&rejected);
}

int main(int argc, char **argv) {
    static float x[POINTS], truth[WAYS][POINTS], scores[WAYS][POINTS];
    float best[WAYS], end[WAYS];
    uint64_t seed = lesson_seed(argc, argv);
    chart c = {.title = "True reward, and the score without a remedy", .x_label = "iterations"};
    printf("words after %d iterations, and their true rewards:\n", POINTS * EVERY);
    for (int way = 0; way < WAYS; way++)
        for (int run = 0; run < RUNS; run++) train(way, seed * 10 + (uint64_t)run, truth[way], scores[way]);
    printf("\nmean of %d runs   score at the end   true reward at its best   at the end\n", RUNS);
    for (int way = 0; way < WAYS; way++) {
        best[way] = truth[way][0];
        for (int i = 0; i < POINTS; i++)
            best[way] = fmaxf(best[way], truth[way][i]), x[i] = (float)(i * EVERY);
        end[way] = (float)mean_of(truth[way] + POINTS - 2, 2);
        printf("  %-15s %15.2f %25.2f %12.2f\n", names[way], (double)scores[way][POINTS - 1],
               (double)best[way], (double)end[way]);
        chart_line(&c, names[way], x, truth[way], POINTS);
    }
    chart_line(&c, "score", x, scores[NONE], POINTS);
    chart_save(&c, "build/lessons/28_reward_hacking.svg");
    claim(scores[NONE][POINTS - 1] > scores[NONE][1] && end[NONE] < best[NONE] - 0.3f,
          "without a remedy the score rises, and the true reward falls from %.2f to %.2f", (double)best[NONE],
          (double)end[NONE]);
    claim(end[KL] > end[NONE] + 0.2f, "with a KL penalty it ends at %.2f", (double)end[KL]);
    claim(end[NEW_DATA] > end[NONE], "with new comparisons at %.2f", (double)end[NEW_DATA]);
    return lesson_failures > 0;
}
