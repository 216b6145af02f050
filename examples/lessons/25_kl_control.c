/* 25_kl_control.c - the clip slows each step, the KL penalty holds their sum.

   PPO's paper proposes the clip or a penalty. On tokens both are used, for two different jobs (Ziegler
   2019, Ouyang 2022): the clip keeps an update near the policy that sampled (old), the penalty keeps the
   whole training near the first model (reference). Small steps add up. The coefficient beta of the penalty
   is either fixed, or adapts to hold a KL that is asked for (penalty_target_kl). Some trainings replace the
   reference by the policy every few iterations: then the penalty holds only what happened since, and small
   steps add up again.

   You will see the KL of an update, and the KL to the first model, against iterations: for no penalty, two
   fixed beta, an adaptive one, and the larger beta with a moving reference. The reward is a proxy (lesson
   20). */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "../companions/ppo_methods.h"

#include "lesson.h"
#include "letters.h"

enum { ITERATIONS = 40, WAYS = 5 };
enum { NONE, WEAK, STRONG, ADAPTIVE, MOVING };

int main(int argc, char **argv) {
    static const char *const names[WAYS] = {"beta 0", "beta 0.05", "beta 1", "KL target 1.5",
                                            "beta 1, moving"};
    static const char *const how[WAYS] = {"kl_coef=0", "kl_coef=0.05", "kl_coef=1",
                                          "kl_coef=0.1 penalty_target_kl=1.5 kl_horizon=500",
                                          "kl_coef=1 reference_every=4"};
    static float x[ITERATIONS], kl[WAYS][ITERATIONS], late[WAYS], proxies[WAYS];
    uint64_t seed = lesson_seed(argc, argv);
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    ppo_tokens chosen = {0}, rejected = {0}, prompts = {0};
    ppo_lm *first = first_model(seed);
    double update[WAYS] = {0};
    ask_people(first, 1000, seed, &chosen, &rejected);
    ppo_lm *judge = learn_reward(first, &chosen, &rejected, seed);
    ppo_reward_model *proxy = make_proxy(&judge, 1, PPO_ENSEMBLE_MEAN, first, seed);
    add_words(256, &rng, &prompts);

    printf("                      KL of an update          KL to the first model      true reward\n"
           "               mean, of the policy     iteration 10     20  31-40      at the end\n");
    chart c = {.title = "KL to the first model", .x_label = "iterations", .log_y = 1, .y = {0.05, 20}};
    for (int k = 0; k < WAYS; k++) {
        ppo_lm *policy = NULL;
        ppo_rlhf *rlhf = NULL;
        ppo_rlhf_config config = settings(seed);
        ppo_rlhf_progress p;
        must(ppo_settings_set_all(ppo_rlhf_settings(), &config, how[k]));
        must(ppo_lm_copy(first, 0, &policy));
        /* A reference that moves must be the library's own copy of the policy: NULL. */
        must(ppo_rlhf_create(policy, k == MOVING ? NULL : first, NULL, &prompts, ppo_reward_by_model, proxy,
                             &config, &rlhf));
        for (int i = 0; i < ITERATIONS; i++) {
            must(ppo_rlhf_iterate(rlhf, &p));
            update[k] += (double)p.approx_kl / ITERATIONS;
            x[i] = (float)(i + 1);
            kl[k][i] = worth(policy, first, seed).kl;
        }
        ppo_lm_evaluation end = worth(policy, first, seed);
        proxies[k] = p.reward;
        late[k] = (float)mean_of(kl[k] + ITERATIONS - 10, 10);
        printf("%-14s %19.4f %16.2f %6.2f %6.2f %12.2f\n", names[k], update[k], (double)kl[k][9],
               (double)kl[k][19], (double)late[k], (double)end.reward);
        fflush(stdout);
        chart_line(&c, names[k], x, kl[k], ITERATIONS);
        ppo_rlhf_free(rlhf);
        ppo_lm_free(policy);
    }
    chart_save(&c, "build/lessons/25_kl_control.svg");
    claim(update[NONE] < 0.05 && late[NONE] > 20 * update[NONE],
          "no update goes far, and their sum does: %.1f", (double)late[NONE]);
    claim(late[STRONG] < late[WEAK] && late[WEAK] < late[NONE],
          "the larger beta, the nearer the policy stays");
    claim(late[STRONG] < 1 && proxies[STRONG] < proxies[WEAK], "and the less it learns");
    claim(fabsf(late[ADAPTIVE] - 1.5f) < 0.75f, "the adaptive one holds about the KL that was asked for");
    claim(late[MOVING] > 1.5f * late[STRONG], "a reference that moves along lets the same beta drift: %.1f",
          (double)late[MOVING]);
    ppo_reward_model_free(proxy);
    ppo_lm_free(judge);
    ppo_lm_free(first);
    ppo_tokens_free(&prompts);
    ppo_tokens_free(&chosen);
    ppo_tokens_free(&rejected);
    return lesson_failures > 0;
}
