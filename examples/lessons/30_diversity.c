/* 30_diversity.c - collapse of diversity: a policy that has found one good answer stops giving others.

   Many words are equally good. The policy gradient does not care: what was sampled more often is made more
   likely more often, and small differences grow until one answer is left (mode collapse). A score for each
   answer alone does not see it. It costs nothing as long as one sample is all that is asked for, but
   best-of-n, exploration and people lose.
     KL              the first model is diverse, so staying near it keeps diversity
     entropy bonus   pays for it directly (lesson 12); a target turns the bonus on only where it is needed
   You will see the share of different words among eight samples of each prompt, as GRPO's training goes on,
   and in the end the true reward of one sample and of the best of eight. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"
#include "letters.h"

enum { WAYS = 4, POINTS = 10, EVERY = 8, PROMPTS = 64, EACH = 8 };

typedef struct diversity {
    float different, mean,
        best; /* share of different words of a prompt; rewards of one sample, of the best */
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
    static float x[POINTS], share[WAYS][POINTS];
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
    chart c = {.title = "Different words among eight samples",
               .x_label = "iterations",
               .y_label = "share",
               .y = {0, 1}};
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
        for (int i = 0; i < POINTS * EVERY; i++) {
            must(ppo_rlhf_iterate(rlhf, NULL));
            if ((i + 1) % EVERY) continue;
            d[k] = measure(policy, seed);
            x[i / EVERY] = (float)(i + 1);
            share[k][i / EVERY] = d[k].different;
        }
        printf("%-18s%13.0f %% %25.2f %11.2f  ", names[k], 100 * (double)d[k].different, (double)d[k].mean,
               (double)d[k].best);
        show(policy, 4, seed);
        fflush(stdout);
        chart_line(&c, names[k], x, share[k], POINTS);
        ppo_rlhf_free(rlhf);
        ppo_lm_free(policy);
    }
    chart_save(&c, "build/lessons/30_diversity.svg");
    claim(d[0].different < start.different - 0.3f,
          "without a remedy %.0f %% of the words are different, not %.0f %%", 100 * (double)d[0].different,
          100 * (double)start.different);
    claim(d[1].different > d[0].different + 0.1f, "a KL penalty keeps %.0f %%", 100 * (double)d[1].different);
    claim(d[3].different > d[0].different + 0.1f, "an entropy target keeps %.0f %%",
          100 * (double)d[3].different);
    claim(d[0].best - d[0].mean < 0.6f * (start.best - start.mean),
          "a collapsed policy gains less from the best of %d", EACH);
    ppo_lm_free(first);
    ppo_tokens_free(&prompts);
    return lesson_failures > 0;
}
