/* 13c_vectorized.c - what environments side by side buy: time, not learning; and what too many cost.

   A policy that looks at one observation reads all of its weights for it. With 16 copies of the environment
   it looks at 16 observations at once, for little more time: the cost of a call, and of reading the
   weights, is shared. The copies themselves share nothing; that the processor overlaps their steps is all
   that they gain. So much for seconds. A gain in learning is often said to come with it, since a rollout of
   many copies has many places in it; here it does not show. The price does: with a rollout of 1024 steps,
   256 copies are followed for 4 steps each, and what comes after them is left to the critic (lesson 4).

   You will see, for 1 to 256 copies, the microseconds that a step takes, network and environment apart, and
   the score of PPO after equally many steps, with intervals over seeds. Seconds are the smallest of several
   tries: other programs only add to them. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "../envs/cartpole.h"

#include "lesson.h"
#include "study.h"

enum { COUNTS = 5, MOST = 256, STEPS = 2048, TRIES = 40, SEEDS = 5, ROLLOUT = 1024 };

static const int counts[COUNTS] = {1, 4, 16, 64, 256};

/* Seconds for STEPS steps of the policy (network, sampling), n observations at a time. */
static double time_policy(const ppo_mlp *policy, ppo_tape *tape, int n, ppo_rng *rng) {
    static float obs[MOST][4];
    double start = ppo_clock();
    for (int steps = 0; steps < STEPS; steps += n) {
        ppo_tape_reset(tape);
        const float *logits = ppo_mlp_forward(tape, policy, ppo_tape_constant(tape, obs[0], n, 4))->data;
        for (int e = 0; e < n; e++) obs[e][0] = (float)ppo_categorical_sample(logits + 2 * e, 2, 1, rng);
    }
    return ppo_clock() - start;
}

/* The same for n copies of the environment, pushed to where the pole leans. */
static double time_environment(int n, ppo_rng *rng) {
    static cartpole state[MOST];
    static float obs[MOST][4];
    for (int e = 0; e < n; e++) cartpole_reset(&state[e], rng, obs[e]);
    double start = ppo_clock();
    for (int steps = 0; steps < STEPS; steps += n)
        for (int e = 0; e < n; e++) {
            ppo_action action = {.discrete = obs[e][2] > 0};
            ppo_outcome outcome = {0};
            cartpole_step(&state[e], rng, &action, obs[e], &outcome);
            if (outcome.terminated) cartpole_reset(&state[e], rng, obs[e]);
        }
    return ppo_clock() - start;
}

int main(int argc, char **argv) {
    static const int sizes[] = {4, 64, 64, 2};
    const ppo_env env = cartpole_env();
    uint64_t seed = lesson_seed(argc, argv);
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    ppo_params *params = NULL;
    ppo_tape *tape = NULL;
    ppo_mlp policy;
    float x[COUNTS], cost[3][COUNTS], score[COUNTS][SEEDS];
    must(ppo_params_create(&params));
    must(ppo_tape_create(&tape));
    must(ppo_mlp_init(&policy, params, "policy", sizes, 3, PPO_TANH, PPO_IDENTITY, 0.01f, &rng));
    ppo_tape_record(tape, 0);
    printf("microseconds per step   network   environment     both      score of PPO, 0 to 100\n");
    for (int j = 0; j < 2; j++)
        for (int k = 0; k < COUNTS; k++) cost[j][k] = INFINITY;
    for (int i = 0; i < TRIES; i++) /* all in turn: what slows the machine down for a while slows all down */
        for (int k = 0; k < COUNTS; k++) {
            double took[2] = {time_policy(&policy, tape, counts[k], &rng), time_environment(counts[k], &rng)};
            for (int j = 0; j < 2; j++) cost[j][k] = fminf(cost[j][k], (float)(1e6 * took[j] / STEPS));
        }
    for (int k = 0; k < COUNTS; k++) {
        cost[2][k] = cost[0][k] + cost[1][k], x[k] = (float)counts[k];
        for (int s = 0; s < SEEDS; s++) {
            char settings[128];
            snprintf(settings, sizeof settings, "num_envs=%d rollout_steps=%d learning_rate=1e-3", counts[k],
                     ROLLOUT / counts[k]);
            study result = study_run(&env, settings, 30 * ROLLOUT, seed * 100 + (uint64_t)s);
            score[k][s] = 100 * ((float)mean_of(result.curve, STUDY_POINTS) - 9) / (500 - 9);
        }
        printf("%5d copies %20.3f %13.3f %8.3f %13.1f +- %.1f\n", counts[k], (double)cost[0][k],
               (double)cost[1][k], (double)cost[2][k], mean_of(score[k], SEEDS),
               interval_of(score[k], SEEDS));
        fflush(stdout);
    }
    chart c = {.title = "A step's time, by the number of copies",
               .x_label = "copies of the environment",
               .y_label = "microseconds per step",
               .log_x = 1,
               .log_y = 1};
    static const char *const names[3] = {"network", "environment", "both"};
    for (int j = 0; j < 3; j++) chart_line(&c, names[j], x, cost[j], COUNTS);
    chart_save(&c, "build/lessons/13c_vectorized.svg");
    claim(cost[0][2] < 0.5f * cost[0][0], "with 16 copies the network takes %.0f %% of its time per step",
          100 * (double)(cost[0][2] / cost[0][0]));
    claim(cost[1][2] / cost[1][0] > cost[0][2] / cost[0][0],
          "the environment takes %.0f %%: copies share nothing but the processor, which overlaps their steps",
          100 * (double)(cost[1][2] / cost[1][0]));
    float saved = (cost[0][0] - cost[0][2]) / (cost[2][0] - cost[2][2]);
    claim(saved > 0.9f, "%.0f %% of what 16 copies save is the network's", 100 * (double)saved);
    claim(cost[2][4] > 0.4f * cost[2][2], "beyond 16 little is left to gain: 256 take %.0f %% of their time",
          100 * (double)(cost[2][4] / cost[2][2]));
    claim(!(better_by(score[2], score[0], SEEDS) > 0), "16 copies learn no more from a step than 1");
    claim(better_by(score[2], score[4], SEEDS) > 0, "256, 4 steps each, learn less, by %.1f at least",
          better_by(score[2], score[4], SEEDS));
    ppo_tape_free(tape);
    ppo_params_free(params);
    return lesson_failures > 0;
}
