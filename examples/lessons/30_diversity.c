/* 30_diversity.c - collapse of diversity: a policy that has found one good answer stops giving others.

   Many words are equally good. The policy gradient does not care: what was sampled more often is made more
   likely more often, and small differences grow until one answer is left (mode collapse), here one that a
   reward model likes more than people do. A score for each answer alone does not see it. Two remedies are
   in use:
     KL              the first model is diverse, so staying near it keeps diversity
     entropy bonus   pays for it directly (lesson 12); a target turns the bonus on only where it is needed
   Diversity alone is easily had: noise is diverse. You will see, as GRPO's training goes on, the true reward
   against the share of different words among eight samples of each prompt: the bonus buys noise, and what the
   KL penalty keeps is variety among good words. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"
#include "letters.h"

enum { WAYS = 4, POINTS = 10, EVERY = 8, PROMPTS = 64, EACH = 8, WORLDS = 8 };

typedef struct diversity {
    float different;  /* share of different words of a prompt */
    float mean, best; /* true reward of one sample, of the best of EACH */
} diversity;

static diversity measure(const ppo_lm *lm, uint64_t seed) {
    static float reward[PROMPTS * EACH];
    ppo_generator *generator;
    ppo_samples samples = sample(lm, PROMPTS, EACH, seed, &generator);
    const ppo_tokens *t = &samples.tokens;
    diversity d = {0, 0, 0};
    must(people(&samples, reward, NULL));
    for (int s = 0; s < PROMPTS * EACH; s++) {
        int n = t->start[s + 1] - t->start[s], is_new = 1;
        for (int other = s / EACH * EACH; other < s; other++) /* of the same prompt */
            is_new &= n != t->start[other + 1] - t->start[other] ||
                      memcmp(t->token + t->start[s], t->token + t->start[other], (size_t)n * sizeof(int));
        d.different += (float)is_new / (PROMPTS * EACH);
        d.mean += reward[s] / (PROMPTS * EACH);
    }
    for (int k = 0; k < PROMPTS; k++) {
        float best = reward[k * EACH];
        for (int i = 1; i < EACH; i++) best = fmaxf(best, reward[k * EACH + i]);
        d.best += best / PROMPTS;
    }
    ppo_generator_free(generator);
    return d;
}

static const char *const names[WAYS] = {"neither", "KL 0.3", "entropy 0.02", "entropy target"};
static const char *const how[WAYS] = {"kl_coef=0", "kl_coef=0.3", "kl_coef=0 entropy_coef=0.02",
                                      "kl_coef=0 entropy_target=0.8"};

/* Means over worlds, as training goes on; and of each world, at the end. */
static float share[WAYS][POINTS + 1], reward[WAYS][POINTS + 1];
static float different[WAYS + 1][WORLDS], mean[WAYS + 1][WORLDS],
    best[WAYS + 1][WORLDS]; /* last: at the start */

static void note(int k, int point, int w, diversity d) {
    share[k][point] += d.different / WORLDS, reward[k][point] += d.mean / WORLDS;
    different[k][w] = d.different, mean[k][w] = d.mean, best[k][w] = d.best;
}

/* A first model and people of its own, and a training of each way. */
static void add_world(int w, uint64_t seed) {
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    ppo_tokens prompts = {0}, chosen = {0}, rejected = {0};
    ppo_lm *first = first_model(seed);
    diversity start = measure(first, seed);
    different[WAYS][w] = start.different, mean[WAYS][w] = start.mean, best[WAYS][w] = start.best;
    ask_people(first, 1000, seed, &chosen, &rejected);
    ppo_lm *judge = learn_reward(first, &chosen, &rejected, seed);
    ppo_reward_model *proxy = make_proxy(&judge, 1, PPO_ENSEMBLE_MEAN, first, seed);
    add_words(256, &rng, &prompts);
    for (int k = 0; k < WAYS; k++) {
        ppo_lm *policy = copy_of(first);
        ppo_rlhf *rlhf = NULL;
        ppo_rlhf_config config = settings(seed);
        must(ppo_rlhf_config_preset(&config, "grpo"));
        config.prompts = 16;
        config.learning_rate = 2e-3f;
        must(ppo_settings_set_all(ppo_rlhf_settings(), &config, how[k]));
        must(ppo_rlhf_create(policy, k == 1 ? first : NULL, NULL, &prompts, ppo_reward_by_model, proxy,
                             &config, &rlhf));
        note(k, 0, w, start);
        for (int i = 1; i <= POINTS * EVERY; i++) {
            must(ppo_rlhf_iterate(rlhf, NULL));
            if (i % EVERY == 0) note(k, i / EVERY, w, measure(policy, seed));
        }
        if (w == 0) printf("%-15s", names[k]), show(policy, 4, seed);
        ppo_rlhf_free(rlhf), ppo_lm_free(policy);
    }
    ppo_reward_model_free(proxy), ppo_lm_free(judge), ppo_lm_free(first);
    ppo_tokens_free(&prompts), ppo_tokens_free(&chosen), ppo_tokens_free(&rejected);
}

int main(int argc, char **argv) {
    uint64_t seed = lesson_seed(argc, argv);
    for (int w = 0; w < WORLDS; w++) add_world(w, seed * 10 + (uint64_t)w);
    printf("\nmeans of %d worlds   different words   true reward: one sample   best of %d\n", WORLDS, EACH);
    chart c = {.title = "Diversity, and what it is worth, as training goes on",
               .x_label = "share of different words among eight samples",
               .y_label = "true reward",
               .x = {0, 1}};
    for (int k = WAYS, i = 0; i <= WAYS; k = i++) {
        printf("%-18s%14.0f %% %19.2f +- %.2f %11.2f\n", k == WAYS ? "first model" : names[k],
               100 * mean_of(different[k], WORLDS), mean_of(mean[k], WORLDS), interval_of(mean[k], WORLDS),
               mean_of(best[k], WORLDS));
        if (k < WAYS) chart_line(&c, names[k], share[k], reward[k], POINTS + 1);
    }
    chart_points(&c, "first model", share[0], reward[0], 1);
    chart_save(&c, "build/lessons/30_diversity.svg");
    claim(better_by(different[WAYS], different[0], WORLDS) > 0,
          "without a remedy words become the same, %.0f %%", 100 * mean_of(different[0], WORLDS));
    for (int k = 0; k < WAYS; k++) {
        int one = wins_of(mean[1], mean[k], WORLDS), of_eight = wins_of(best[1], best[k], WORLDS);
        if (k != 1)
            claim(of_eight >= WORLDS - 1,
                  "the best of %d words is better with the KL penalty than with \"%s\" in %d of %d worlds; "
                  "one word in %d",
                  EACH, names[k], of_eight, WORLDS, one);
    }
    claim(better_by(different[1], different[0], WORLDS) > 0 &&
              better_by(different[3], different[0], WORLDS) > 0,
          "both it and the entropy target keep words different: the one good words, the other noise");
    return lesson_failures > 0;
}
