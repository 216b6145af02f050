/* 20_rlhf.c - reinforcement learning from human feedback, all three stages, on words.

     1. supervised fine-tuning: a model learns to write from examples. It is the first model.
     2. a reward model learns from comparisons which of two samples people prefer (Bradley and Terry 1952)
     3. PPO: the policy, a copy of the first model, writes what the reward model scores highly, and a KL
        penalty keeps it near the first model: R = score - beta KL (Ziegler 2019, Ouyang 2022)
   In stage 3 a token is an action, and the state is the text so far. Four models are in memory: policy,
   reference, reward model, critic. letters.h is the task: people like soft words; only the computer that
   plays "people" knows a formula.

   You will see words of each stage with what people think of them, and the policy's reward and KL as it
   learns. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"
#include "letters.h"

enum { COMPARISONS = 1000, ITERATIONS = 30 };

int main(int argc, char **argv) {
    static float x[ITERATIONS], proxy_curve[ITERATIONS], true_curve[ITERATIONS], kl_curve[ITERATIONS];
    uint64_t seed = lesson_seed(argc, argv);
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    ppo_tokens chosen = {0}, rejected = {0}, prompts = {0};
    ppo_lm *policy = NULL;
    ppo_rlhf *rlhf = NULL;
    ppo_rlhf_config config = settings(seed);
    ppo_rlhf_progress p;

    printf("words of each stage, and what people think of them:\n1 first model:    ");
    ppo_lm *first = first_model(seed);
    show(first, 6, seed);

    ask_people(first, COMPARISONS, seed, &chosen, &rejected);
    ppo_lm *judge = learn_reward(first, &chosen, &rejected, seed);
    ppo_reward_model *proxy = make_proxy(&judge, 1, PPO_ENSEMBLE_MEAN, first, seed);
    printf("2 comparisons:    ");
    for (int s = 0; s < 3; s++) {
        char a[CONTEXT + 1], b[CONTEXT + 1];
        printf(" %s rather than %s;",
               spell(chosen.token + chosen.start[s], chosen.start[s + 1] - chosen.start[s], a),
               spell(rejected.token + rejected.start[s], rejected.start[s + 1] - rejected.start[s], b));
    }
    printf(" and %d more\n", chosen.count - 3);

    add_words(256, &rng, &prompts);
    must(ppo_lm_copy(first, 0, &policy));
    config.kl_coef = 0.1f;
    must(ppo_rlhf_create(policy, first, NULL, &prompts, ppo_reward_by_model, proxy, &config, &rlhf));
    for (int i = 0; i < ITERATIONS; i++) {
        must(ppo_rlhf_iterate(rlhf, &p));
        x[i] = (float)(i + 1);
        proxy_curve[i] = p.reward;
        kl_curve[i] = p.kl;
        true_curve[i] = worth(policy, first, seed).reward;
    }
    ppo_lm_evaluation before = worth(first, first, seed), after = worth(policy, first, seed);
    printf("3 policy:         ");
    show(policy, 6, seed);
    printf("\n                  true reward   KL   wins against the first model\n  first model   %15.2f\n  "
           "policy        %15.2f %6.1f %10.0f %%\n",
           (double)before.reward, (double)after.reward, (double)after.kl, 100 * (double)after.win_rate);

    chart c = {.title = "PPO against a reward model", .x_label = "iterations of 64 samples"};
    chart_line(&c, "score (the proxy)", x, proxy_curve, ITERATIONS);
    chart_line(&c, "true reward", x, true_curve, ITERATIONS);
    chart_line(&c, "KL to the first model", x, kl_curve, ITERATIONS);
    chart_save(&c, "build/lessons/20_rlhf.svg");
    claim(after.reward > before.reward + 0.7f, "people like the policy's words more: %.2f, not %.2f",
          (double)after.reward, (double)before.reward);
    claim(after.win_rate > 0.65f, "its sample is better for %.0f %% of prompts",
          100 * (double)after.win_rate);
    claim(after.kl < 6, "and it stays near the first model");
    ppo_rlhf_free(rlhf);
    ppo_reward_model_free(proxy);
    ppo_lm_free(judge);
    ppo_lm_free(policy);
    ppo_lm_free(first);
    ppo_tokens_free(&prompts);
    ppo_tokens_free(&chosen);
    ppo_tokens_free(&rejected);
    return lesson_failures > 0;
}
