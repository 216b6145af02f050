/* 17b_sac.c - SAC beside PPO on Pendulum: few samples against few seconds.

   PPO throws its data away after each update: they are of the old policy. Soft Actor-Critic is off-policy
   (Haarnoja 2018): it keeps them all, and after each step of the environment learns from a batch of old
   steps. It can, because its critic asks what an action is worth, Q(s, a), not how likely it was: no ratio
   is needed. Its actor follows the gradient of Q by the action, so actions must be continuous. (For
   discrete ones there are DQN, and variants of SAC.) How it works is in sac.h, on the tape.

   You will see the return against steps for both, with intervals over seeds, and what a step costs: SAC
   learns in a fraction of the steps, and computes many times as long for each. Where a step is a line of C,
   PPO is done no later; where it is a second of a robot's time, SAC is. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "../envs/pendulum.h"

#include "lesson.h"
#include "sac.h"

enum { SEEDS = 4, POINTS = 25, SHOWN = 5, PPO_STEPS = 160000, METHODS = 2 };

static const float good = -250, swings = -400; /* a pendulum that hangs and swings: -1200 */
static float curve[METHODS][POINTS][SEEDS], x[METHODS][POINTS];
static double seconds[METHODS], reached[METHODS][SEEDS]; /* the first step at which it is good */

static void note(int method, int point, int run, int64_t steps, float mean_return) {
    curve[method][point][run] = mean_return, x[method][point] = (float)steps;
    if (mean_return >= good && reached[method][run] == 0) reached[method][run] = (double)steps;
}

static void run_sac(const ppo_env *env, int run, uint64_t seed) {
    create(seed);
    for (int point = 0, steps = 0; point < POINTS; point++) {
        double start = ppo_clock();
        for (; steps < (point + 1) * SAC_STEPS / POINTS; steps += env->max_steps) episode(env, steps);
        seconds[0] += ppo_clock() - start;
        float mean = 0;
        for (int k = 0; k < 5; k++) mean += episode(env, -1) / 5;
        note(0, point, run, steps, mean);
    }
}

static void run_ppo(const ppo_env *env, int run, uint64_t seed) {
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_progress p;
    must(ppo_config_set_all(&cfg,
                            "num_envs=8 rollout_steps=256 gamma=0.9 learning_rate=1e-3 minibatch_size=128"));
    cfg.total_steps = PPO_STEPS, cfg.seed = seed;
    must(ppo_agent_create(env, &cfg, &agent));
    must(ppo_trainer_create(env, &cfg, agent, &trainer));
    for (int point = 0; point < POINTS; point++) {
        double start = ppo_clock();
        do must(ppo_trainer_iterate(trainer, &p));
        while (p.steps < (point + 1) * (int64_t)PPO_STEPS / POINTS);
        seconds[1] += ppo_clock() - start;
        ppo_evaluation e = ppo_evaluate(agent, env, 5, seed);
        must(e.status);
        note(1, point, run, p.steps, e.mean_return);
    }
    ppo_trainer_free(trainer), ppo_agent_free(agent);
}

int main(int argc, char **argv) {
    static const char *const names[METHODS] = {"SAC", "PPO"};
    static const int total[METHODS] = {SAC_STEPS, PPO_STEPS};
    const ppo_env env = pendulum_env();
    uint64_t seed = lesson_seed(argc, argv);
    float mean[METHODS][POINTS], cost[METHODS];
    must(ppo_tape_create(&tape));
    for (int run = 0; run < SEEDS; run++) {
        run_sac(&env, run, seed * 10 + (uint64_t)run);
        run_ppo(&env, run, seed * 10 + (uint64_t)run);
    }
    chart c = {.title = "Pendulum: return against steps",
               .x_label = "steps of the environment",
               .y_label = "return",
               .log_x = 1};
    for (int m = 0; m < METHODS; m++) {
        cost[m] = (float)(1e6 * seconds[m] / ((double)total[m] * SEEDS));
        printf("%s: %.1f microseconds a step\n     steps      return\n", names[m], (double)cost[m]);
        for (int k = 0; k < POINTS; k++) {
            mean[m][k] = (float)mean_of(curve[m][k], SEEDS);
            if (k == 0 || (k + 1) % SHOWN == 0)
                printf("%10.0f %11.0f +- %.0f\n", (double)x[m][k], (double)mean[m][k],
                       interval_of(curve[m][k], SEEDS));
        }
        chart_line(&c, names[m], x[m], mean[m], POINTS);
        for (int run = 0; run < SEEDS; run++)
            printf("%s %.0f steps, %.2f s", run ? "," : "at a return of -250 after", reached[m][run],
                   1e-6 * reached[m][run] * (double)cost[m]);
        printf("\n");
    }
    chart_save(&c, "build/lessons/17b_sac.svg");
    claim(mean[0][POINTS - 1] > swings, "SAC swings the pendulum up after %d steps: %.0f", SAC_STEPS,
          (double)mean[0][POINTS - 1]);
    claim(better_by(curve[0][POINTS - 1], curve[1][0], SEEDS) > 0,
          "PPO after more than as many is worse, by %.0f at least",
          better_by(curve[0][POINTS - 1], curve[1][0], SEEDS));
    claim(mean[1][POINTS - 1] > swings, "PPO does after %d: %.0f", PPO_STEPS, (double)mean[1][POINTS - 1]);
    claim(cost[0] > 8 * cost[1], "but a step of SAC takes %.0f times as long", (double)(cost[0] / cost[1]));
    ppo_tape_free(tape);
    return lesson_failures > 0;
}
