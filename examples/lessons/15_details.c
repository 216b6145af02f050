/* 15_details.c - the implementation details, switched off one by one.

   PPO's formula fits in a line; its programs contain more (Engstrom 2020; Andrychowicz 2021; Huang 2022, "The
   37 implementation details"). Which of it matters? An ablation changes one thing and leaves the rest, over
   several seeds, because a single seed shows chance. A run's score is the mean of its learning curve, from 0
   (a policy that has learned nothing) to 100 (solved at once), so that both speed and the end count.

   raw advantages   not whitened per minibatch       lambda            of GAE (lesson 4); 0.95 otherwise
   1 environment    1024 steps of it, not 128 of 8   no minibatches    one gradient step per epoch
   uniform init     weights as PyTorch starts them, not orthogonal
   constant rate    the learning rate does not fall to 0
   shared trunk     one network with two heads for policy and value, not two networks

   You will see the score of each change on CartPole and on Acrobot, with its 95 % interval over six seeds,
   and, marked by *, those whose difference to the first row is larger than chance: the interval of the
   differences, seed by seed, does not contain 0. But who asks 26 times at 95 % finds one or two stars where
   there is nothing. ** is for differences beyond an interval 2.3 times as wide, so that all 26 hold
   together at 95 % (Bonferroni: Student's t for six seeds is 5.9 at 1 - 0.05 / 26, and 2.57 at 0.95). Few
   reach it. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "../envs/acrobot.h"
#include "../envs/cartpole.h"

#include "lesson.h"
#include "study.h"

enum { SEEDS = 6, DETAILS = 14, TASKS = 2 };

static const char *const names[DETAILS] = {
    "all details",      "raw advantages", "lambda 1",       "lambda 0",     "1 environment",
    "1 epoch",          "no minibatches", "no clip",        "uniform init", "constant rate",
    "no gradient clip", "Adam eps 1e-8",  "value clip 0.2", "shared trunk"};
static const char *const settings[DETAILS] = {"",
                                              "normalize_advantage=0",
                                              "gae_lambda=1",
                                              "gae_lambda=0",
                                              "num_envs=1 rollout_steps=1024",
                                              "epochs=1",
                                              "minibatch_size=0",
                                              "objective=unclipped",
                                              "init=uniform",
                                              "learning_rate_schedule=constant",
                                              "max_grad_norm=0",
                                              "adam_eps=1e-8",
                                              "value_clip=0.2",
                                              "shared_trunk=1"};

int main(int argc, char **argv) {
    const ppo_env tasks[TASKS] = {cartpole_env(), acrobot_env()};
    static const int steps[TASKS] = {30720, 51200};
    static const float nothing[TASKS] = {9, -500}, best[TASKS] = {500, -75};
    static float score[TASKS][DETAILS][SEEDS], mean[TASKS][DETAILS], low[TASKS][DETAILS],
        high[TASKS][DETAILS];
    int differs = 0, surely = 0, worse[DETAILS] = {0};
    uint64_t first = lesson_seed(argc, argv) * 100;
    printf("%-18s %16s %18s\n", "", "CartPole-v1", "Acrobot-v1");
    for (int k = 0; k < DETAILS; k++) {
        printf("%-18s", names[k]);
        for (int task = 0; task < TASKS; task++) {
            float difference[SEEDS];
            for (int j = 0; j < SEEDS; j++) {
                char text[256];
                snprintf(text, sizeof text, "num_envs=8 rollout_steps=128 learning_rate=1e-3 %s",
                         settings[k]);
                study s = study_run(&tasks[task], text, steps[task], first + (uint64_t)j);
                double curve = mean_of(s.curve, STUDY_POINTS);
                score[task][k][j] = 100 * ((float)curve - nothing[task]) / (best[task] - nothing[task]);
                difference[j] = score[task][k][j] - score[task][0][j];
            }
            double half = interval_of(score[task][k], SEEDS), d = mean_of(difference, SEEDS);
            int clear = fabs(d) > interval_of(difference, SEEDS),
                sure = fabs(d) > 2.3 * interval_of(difference, SEEDS);
            mean[task][k] = (float)mean_of(score[task][k], SEEDS);
            low[task][k] = mean[task][k] - (float)half, high[task][k] = mean[task][k] + (float)half;
            differs += clear, surely += sure;
            worse[k] += clear && d < 0;
            printf("  %6.1f +- %5.1f %-2s", (double)mean[task][k], half, sure ? "**" : clear ? "*" : "");
        }
        printf("\n");
        fflush(stdout);
    }
    chart c = {.title = "Score without one detail, 95 % intervals",
               .x_label = "0: learned nothing, 100: solved at once",
               .rows = names,
               .row_count = DETAILS,
               .x = {-5, 105}};
    chart_rows(&c, "CartPole-v1", mean[0], low[0], high[0], DETAILS);
    chart_rows(&c, "Acrobot-v1", mean[1], low[1], high[1], DETAILS);
    chart_save(&c, "build/lessons/15_details.svg");

    claim(mean[0][0] > 60 && mean[1][0] > 50, "with all details both tasks are learned");
    claim(worse[3] && worse[6] && worse[13], "%s, %s and %s are clearly worse", names[3], names[6],
          names[13]);
    claim(surely >= 2 && surely < differs,
          "%d of %d differences are larger than chance, %d if all are asked at once", differs,
          TASKS * (DETAILS - 1), surely);
    return lesson_failures > 0;
}
