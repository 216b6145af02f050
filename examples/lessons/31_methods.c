/* 31_methods.c - PPO, GRPO, best-of-n, ReST and DPO side by side: what each makes of the same comparisons.

     PPO        reward model, critic, KL in the reward (Ouyang 2022)
     GRPO       reward model; eight samples of a prompt are the baseline, k3 in the loss (Shao 2024)
     best of n  nothing is trained: the reward model picks one of n. Its KL is at most log n - (n - 1) / n
     ReST       the best of four samples of each prompt are learned by supervision, thrice (Gulcehre 2023)
     DPO        no reward model, no sampling: a loss on the comparisons; beta holds the KL (Rafailov 2023)
   A method buys reward with KL, its drift from the first model. You will see the fair picture: true reward
   against KL, several points per method. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "../companions/ppo_methods.h"
#include "lesson.h"
#include "letters.h"

enum { METHODS = 5, MOST = 4 };

static const char *const names[METHODS] = {"PPO", "GRPO", "best of n", "ReST", "DPO"};
static ppo_lm *first;
static ppo_reward_model *proxy;
static ppo_tokens prompts, chosen, rejected;
static uint64_t seed;
static float kl[METHODS][MOST], truth[METHODS][MOST];
static int points[METHODS];

static void note(int method, float setting, float its_kl, float reward) {
    printf("%-10s %11.2f %8.2f %12.2f\n", names[method], (double)setting, (double)its_kl, (double)reward);
    kl[method][points[method]] = its_kl;
    truth[method][points[method]++] = reward;
}

static void note_model(int method, float setting, const ppo_lm *lm) {
    ppo_lm_evaluation e = worth(lm, first, seed);
    note(method, setting, e.kl, e.reward);
}

static void reinforce(int method, const char *preset, float kl_coef) {
    ppo_lm *policy = copy_of(first);
    ppo_rlhf *rlhf = NULL;
    ppo_rlhf_config config = settings(seed);
    must(ppo_rlhf_config_preset(&config, preset));
    config.kl_coef = kl_coef, config.prompts = 64 / config.samples;
    must(ppo_rlhf_create(policy, first, NULL, &prompts, ppo_reward_by_model, proxy, &config, &rlhf));
    for (int i = 0; i < 30; i++) must(ppo_rlhf_iterate(rlhf, NULL));
    note_model(method, kl_coef, policy);
    ppo_rlhf_free(rlhf);
    ppo_lm_free(policy);
}

/* The best of n samples of each prompt, by the reward model. */
static ppo_tokens best_words(const ppo_lm *lm, int n, uint64_t its_seed) {
    ppo_generator *generator = NULL;
    ppo_tokens best = {0};
    ppo_sampling how = sampling(its_seed);
    must(ppo_generator_create(lm, 16, &generator));
    must(ppo_best_of_n(generator, &prompts, n, &how, ppo_reward_by_model, proxy, &best, NULL));
    ppo_generator_free(generator);
    return best;
}

static void best_of(int method, int n) {
    ppo_tokens best = best_words(first, n, seed + 5);
    float reward = 0;
    for (int s = 0; s < best.count; s++)
        reward +=
            true_reward(best.token + best.start[s], best.start[s + 1] - best.start[s]) / (float)best.count;
    note(method, (float)n, ppo_best_of_n_kl(n), reward);
    ppo_tokens_free(&best);
}

static void rest(int method) {
    ppo_lm *policy = copy_of(first);
    ppo_fit_config fit = ppo_fit_config_default();
    fit.epochs = 2;
    for (int round = 1; round <= 3; round++) {
        ppo_tokens best = best_words(policy, 4, seed + 5 + (uint64_t)round);
        must(ppo_fit_sft(policy, &best, &fit));
        note_model(method, (float)round, policy);
        ppo_tokens_free(&best);
    }
    ppo_lm_free(policy);
}

static void dpo(int method, float beta) {
    ppo_lm *policy = copy_of(first);
    ppo_fit_config fit = ppo_fit_config_default();
    fit.beta = beta;
    fit.epochs = 2;
    fit.learning_rate = 3e-4f;
    must(ppo_fit_dpo(policy, first, &chosen, &rejected, &fit));
    note_model(method, beta, policy);
    ppo_lm_free(policy);
}

int main(int argc, char **argv) {
    seed = lesson_seed(argc, argv);
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    first = first_model(seed);
    ask_people(first, 1500, seed, &chosen, &rejected);
    ppo_lm *judge = learn_reward(first, &chosen, &rejected, seed);
    proxy = make_proxy(&judge, 1, PPO_ENSEMBLE_MEAN, first, seed);
    add_words(256, &rng, &prompts);
    float start = worth(first, first, seed).reward;
    printf("method  beta, n, round       KL  true reward (the first model: %.2f)\n", (double)start);
    for (int i = 0; i < 3; i++) reinforce(0, "ppo", i == 0 ? 1 : i == 1 ? 0.3f : 0.1f);
    for (int i = 0; i < 3; i++) reinforce(1, "grpo", i == 0 ? 0.3f : i == 1 ? 0.1f : 0.03f);
    for (int n = 2; n <= 16; n *= 2) best_of(2, n);
    rest(3);
    for (int i = 0; i < 3; i++) dpo(4, i == 0 ? 1 : i == 1 ? 0.3f : 0.1f);
    chart c = {.title = "True reward and what it costs in KL", .x_label = "KL", .y_label = "true reward"};
    for (int k = 0; k < METHODS; k++) {
        chart_line(&c, names[k], kl[k], truth[k], points[k]);
        chart_points(&c, NULL, kl[k], truth[k], points[k]);
        float best = truth[k][0];
        for (int i = 1; i < points[k]; i++) best = fmaxf(best, truth[k][i]);
        claim(best > start + 0.2f, "%s: from %.2f to %.2f", names[k], (double)start, (double)best);
    }
    chart_save(&c, "build/lessons/31_methods.svg");
    return lesson_failures > 0;
}
