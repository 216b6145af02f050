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

enum { WAYS = 4, POINTS = 10, EVERY = 8, PROMPTS = 64, EACH = 8 };

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

int main(int argc, char **argv) {
    static const char *const names[WAYS] = {"neither", "KL 0.3", "entropy 0.02", "entropy target"};
    static const char *const how[WAYS] = {"kl_coef=0", "kl_coef=0.3", "kl_coef=0 entropy_coef=0.02",
                                          "kl_coef=0 entropy_target=0.8"};
    static float share[WAYS][POINTS + 1], reward[WAYS][POINTS + 1];
    uint64_t seed = lesson_seed(argc, argv);
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    ppo_tokens prompts = {0}, chosen = {0}, rejected = {0};
    ppo_lm *first = first_model(seed);
    diversity d[WAYS], start = measure(first, seed);
    ask_people(first, 1000, seed, &chosen, &rejected);
    ppo_lm *judge = learn_reward(first, &chosen, &rejected, seed);
    ppo_reward_model *proxy = make_proxy(&judge, 1, PPO_ENSEMBLE_MEAN, first, seed);
    add_words(256, &rng, &prompts);
    printf("                  different words   true reward:   one sample   best of %d\n"
           "first model       %13.0f %% %25.2f %11.2f\n",
           EACH, 100 * (double)start.different, (double)start.mean, (double)start.best);
    chart c = {.title = "Diversity, and what it is worth, as training goes on",
               .x_label = "share of different words among eight samples",
               .y_label = "true reward",
               .x = {0, 1}};
    for (int k = 0; k < WAYS; k++) {
        ppo_lm *policy = NULL;
        ppo_rlhf *rlhf = NULL;
        ppo_rlhf_config config = settings(seed);
        must(ppo_rlhf_config_preset(&config, "grpo"));
        config.prompts = 16;
        config.learning_rate = 2e-3f;
        must(ppo_settings_set_all(ppo_rlhf_settings(), &config, how[k]));
        must(ppo_lm_copy(first, 0, &policy));
        must(ppo_rlhf_create(policy, k == 1 ? first : NULL, NULL, &prompts, ppo_reward_by_model, proxy,
                             &config, &rlhf));
        share[k][0] = start.different, reward[k][0] = start.mean;
        for (int i = 0; i < POINTS * EVERY; i++) {
            must(ppo_rlhf_iterate(rlhf, NULL));
            if ((i + 1) % EVERY) continue;
            d[k] = measure(policy, seed);
            share[k][i / EVERY + 1] = d[k].different, reward[k][i / EVERY + 1] = d[k].mean;
        }
        printf("%-18s%13.0f %% %25.2f %11.2f  ", names[k], 100 * (double)d[k].different, (double)d[k].mean,
               (double)d[k].best);
        show(policy, 4, seed);
        fflush(stdout);
        chart_line(&c, names[k], share[k], reward[k], POINTS + 1);
        ppo_rlhf_free(rlhf);
        ppo_lm_free(policy);
    }
    chart_points(&c, "first model", &start.different, &start.mean, 1);
    chart_save(&c, "build/lessons/30_diversity.svg");
    claim(d[0].different < start.different - 0.3f || d[0].mean < start.mean - 0.5f,
          "without a remedy words become the same, or worse");
    claim(d[1].mean > start.mean + 0.1f || d[1].mean > d[0].mean + 0.5f,
          "a KL penalty: %.0f %% different, reward %.1f", 100 * (double)d[1].different, (double)d[1].mean);
    claim(d[1].mean > d[2].mean + 0.5f && d[1].mean > d[3].mean + 0.5f,
          "entropy bonus and target: %.0f and %.0f %% different, reward %.1f and %.1f: noise is diverse",
          100 * (double)d[2].different, 100 * (double)d[3].different, (double)d[2].mean, (double)d[3].mean);
    ppo_lm_free(first);
    ppo_tokens_free(&prompts);
    return lesson_failures > 0;
}
