/* 09_trust_region.c - three ways to hold a step, at the same KL: TRPO, the KL penalty, and the clip.

   A rollout tells about policies near the one that collected it. All ways maximize the mean of r A on it, and
   differ in what keeps the new policy near:
     TRPO     one step along the natural gradient, until the KL is at a limit (Schulman 2015; lesson 8)
     penalty  r A - b KL(old || new), 8 epochs of Adam; after each batch b doubles or halves to hold 0.01
              (Schulman 2017, eq. 8)
     clip     min(r A, clip(r) A), 8 epochs of Adam (eq. 7)
     neither  r A, 8 epochs of Adam (eq. 6)
   Larger steps learn faster, so a comparison at one setting compares sizes of steps. Here each way has four
   strengths, TRPO four limits and the others four learning rates, and they are compared where their updates
   have the same mean KL.

   You will see the reward against that KL: for the same KL TRPO gains most, and "neither" least. The clip is
   liked for other reasons: a third of the backward passes, and a few lines of code. And TRPO's limit is hard;
   what holds the others on average lets single updates go much farther. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"
#include "trpo.h"

enum { ITERATIONS = 12, EPOCHS = 8, RUNS = 6, STRENGTHS = 4 };
enum { TRPO, PENALTY, CLIP, NEITHER, WAYS };

static const char *const names[WAYS] = {"TRPO", "KL penalty", "clip", "neither"};
static const float limit[STRENGTHS] = {0.005f, 0.01f, 0.02f, 0.04f};  /* of TRPO */
static const float rate[STRENGTHS] = {0.0025f, 0.005f, 0.01f, 0.02f}; /* of Adam, for the others */

/* Of each run: mean reward, mean KL. */
static float reward[WAYS][STRENGTHS][RUNS], kls[WAYS][STRENGTHS][RUNS];

/* Several epochs of Adam, as PPO takes them; returns the KL from the old policy after the last one. */
static float epochs(int way, float learning_rate, float *b) {
    static const int objective[WAYS] = {0, PPO_UNCLIPPED, PPO_CLIP, PPO_UNCLIPPED};
    ppo_adam adam = ppo_adam_default();
    terms of = {objective[way], 0, way == PENALTY ? *b : 0};
    float kl;
    adam.lr = learning_rate;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        evaluate(of, &kl);
        must(ppo_params_step(params, &adam, 0, NULL));
    }
    evaluate(of, &kl);
    if (way == PENALTY) *b = ppo_adaptive_kl_2017(*b, kl, 0.01f);
    return kl;
}

static float trpo(float most) {
    static float g[SIZE], x[SIZE];
    float kl;
    gradient(g);
    natural_gradient(g, 10, x);
    line_search(x, most, &kl);
    return kl;
}

/* The reward of a run at a mean KL: between two strengths, on a line over log KL. */
static float at_kl(int way, int run, float kl) {
    int k = 1;
    while (k < STRENGTHS - 1 && kls[way][k][run] < kl) k++;
    float x0 = logf(kls[way][k - 1][run]), x1 = logf(kls[way][k][run]), part = (logf(kl) - x0) / (x1 - x0);
    return reward[way][k - 1][run] + part * (reward[way][k][run] - reward[way][k - 1][run]);
}

int main(int argc, char **argv) {
    static const float same = 0.02f;
    uint64_t seed = lesson_seed(argc, argv);
    float equal[WAYS][RUNS], mean_kl[WAYS][STRENGTHS], mean_reward[WAYS][STRENGTHS];
    float jump[WAYS] = {0}, beyond = 0; /* largest KL over the mean; over TRPO's limit */
    double each[WAYS];
    chart c = {.title = "Reward of the first updates, and their KL",
               .x_label = "mean KL of an update",
               .y_label = "mean reward",
               .log_x = 1};
    printf("%d updates, %d runs   limit or rate   mean reward   KL: mean   largest   backward passes\n",
           ITERATIONS, RUNS);
    for (int way = 0; way < WAYS; way++) {
        long before = passes;
        for (int k = 0; k < STRENGTHS; k++) {
            float most = 0;
            for (int run = 0; run < RUNS; run++) {
                ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, (uint32_t)run);
                float b = 1;
                new_policy(seed * 100 + (uint64_t)run);
                for (int i = 0; i < ITERATIONS; i++) {
                    reward[way][k][run] += collect(&rng) / ITERATIONS;
                    float kl = way == TRPO ? trpo(limit[k]) : epochs(way, rate[k], &b);
                    kls[way][k][run] += kl / ITERATIONS;
                    most = fmaxf(most, kl);
                }
            }
            mean_reward[way][k] = (float)mean_of(reward[way][k], RUNS);
            mean_kl[way][k] = (float)mean_of(kls[way][k], RUNS);
            jump[way] = fmaxf(jump[way], most / mean_kl[way][k]);
            if (way == TRPO) beyond = fmaxf(beyond, most / limit[k]);
            printf("  %-18s %13.4f %13.3f %10.4f %9.4f\n", names[way],
                   (double)(way == TRPO ? limit[k] : rate[k]), (double)mean_reward[way][k],
                   (double)mean_kl[way][k], (double)most);
        }
        each[way] = (double)(passes - before) / (STRENGTHS * RUNS * ITERATIONS);
        for (int run = 0; run < RUNS; run++) equal[way][run] = at_kl(way, run, same);
        printf("    at a KL of %.2f %29.3f +- %.3f %26.1f\n", (double)same, mean_of(equal[way], RUNS),
               interval_of(equal[way], RUNS), each[way]);
        chart_line(&c, names[way], mean_kl[way], mean_reward[way], STRENGTHS);
        chart_points(&c, NULL, mean_kl[way], mean_reward[way], STRENGTHS);
    }
    chart_save(&c, "build/lessons/09_trust_region.svg");

    claim(beyond <= 1, "TRPO never exceeds its limit");
    claim(jump[CLIP] > 2 * jump[TRPO] && jump[PENALTY] > 2 * jump[TRPO],
          "clip and penalty let one update go %.1f and %.1f times as far as the mean one", (double)jump[CLIP],
          (double)jump[PENALTY]);
    claim(better_by(equal[TRPO], equal[CLIP], RUNS) > 0,
          "at a KL of %.2f TRPO's reward is higher than the clip's, by %.3f at least", (double)same,
          better_by(equal[TRPO], equal[CLIP], RUNS));
    claim(better_by(equal[CLIP], equal[NEITHER], RUNS) > 0,
          "and the clip's than that of neither, by %.3f at least",
          better_by(equal[CLIP], equal[NEITHER], RUNS));
    claim(each[CLIP] < each[TRPO] / 2, "for %.1f backward passes, not %.1f", each[CLIP], each[TRPO]);
    ppo_tape_free(tape);
    ppo_params_free(params);
    return lesson_failures > 0;
}
