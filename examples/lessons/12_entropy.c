/* 12_entropy.c - the entropy bonus: exploration has a price, and too little of it has a higher one.

   A corridor of 6 cells. In each the agent may leave, with 0.3, or go on, at a cost of 0.05; the end pays
   1.5. A new policy leaves somewhere on the way, and learns first that leaving at once saves the cost. Then
   it hardly ever sees the end again: a local optimum. The bonus entropy_coef * H, H = -sum pi log pi (Mnih
   2016), pays for staying undecided, until the end has been seen often enough; a large one keeps the policy
   undecided for ever. H is 0 if the policy is certain, and at most log 2 = 0.69 with two actions.

   You will see the return of the trained, sampled policies against the coefficient, over 12 seeds each, and
   how many of them found the end. The last row lowers a large coefficient to 0 during the training. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"

#include "corridor.h"

enum { SEEDS = 12, SETTINGS = 5 };

int main(int argc, char **argv) {
    static const struct {
        const char *name, *settings;
    } settings[SETTINGS] = {{"0", "entropy_coef=0"},
                            {"0.1", "entropy_coef=0.1"},
                            {"0.5", "entropy_coef=0.5"},
                            {"2", "entropy_coef=2"},
                            {"2 to 0", "entropy_coef=2 entropy_schedule=linear"}};
    uint64_t first = lesson_seed(argc, argv) * 100;
    float mean[SETTINGS], low[SETTINGS], high[SETTINGS];
    int found[SETTINGS] = {0};
    ppo_env env = corridor_env();

    printf("leaving at once is worth 0.3, going to the end %.2f\n\n"
           "coefficient   return of %d seeds      found the end   entropy of the last policy\n",
           1.5 - 0.05 * CORRIDOR_CELLS, SEEDS);
    for (int k = 0; k < SETTINGS; k++) {
        float value[SEEDS], entropy = 0;
        for (int j = 0; j < SEEDS; j++) {
            ppo_config cfg = ppo_config_default();
            ppo_agent *agent = NULL;
            ppo_trainer *trainer = NULL;
            ppo_progress progress;
            must(ppo_config_set_all(&cfg, "rollout_steps=64 minibatch_size=64 learning_rate=1e-3 hidden=16"));
            must(ppo_config_set_all(&cfg, settings[k].settings));
            cfg.total_steps = 20000;
            cfg.seed = first + (uint64_t)j;
            must(ppo_agent_create(&env, &cfg, &agent));
            must(ppo_trainer_create(&env, &cfg, agent, &trainer));
            while (!ppo_trainer_done(trainer)) must(ppo_trainer_iterate(trainer, &progress));
            ppo_evaluation level = ppo_evaluate_sampled(agent, &env, 100, cfg.seed);
            must(level.status);
            value[j] = level.mean_return;
            entropy += progress.entropy / SEEDS;
            found[k] += ppo_evaluate(agent, &env, 1, cfg.seed).mean_return > 1;
            ppo_trainer_free(trainer);
            ppo_agent_free(agent);
        }
        double half = interval_of(value, SEEDS);
        mean[k] = (float)mean_of(value, SEEDS);
        low[k] = mean[k] - (float)half, high[k] = mean[k] + (float)half;
        printf("%-12s %7.2f +- %-4.2f %15d of %d %20.2f\n", settings[k].name, (double)mean[k], half, found[k],
               SEEDS, (double)entropy);
    }
    static const char *const names[SETTINGS] = {"0", "0.1", "0.5", "2", "2 to 0"};
    chart c = {.title = "Return, mean of 12 seeds and its 95 % interval",
               .x_label = "return",
               .rows = names,
               .row_count = SETTINGS,
               .y_label = "entropy_coef"};
    chart_rows(&c, NULL, mean, low, high, SETTINGS);
    chart_save(&c, "build/lessons/12_entropy.svg");

    claim(found[0] < SEEDS && mean[4] > mean[0], "without a bonus %d of %d policies never find the end",
          SEEDS - found[0], SEEDS);
    claim(found[4] > found[0] && found[4] >= SEEDS - 2, "with a bonus that falls to 0, %d of %d find it",
          found[4], SEEDS);
    claim(mean[3] < mean[4] - 0.3f, "a large bonus that stays costs return: the policy never decides");
    return lesson_failures > 0;
}
