/* 09_trust_region.c - three ways to hold a step: TRPO, the KL penalty, and the clip.

   A rollout tells about policies near the one that collected it. All ways maximize the mean of r A on it, and
   differ in what keeps the new policy near:
     TRPO     one step along the natural gradient, as long as the KL is at most 0.01 (Schulman 2015; lesson 8)
     penalty  r A - b KL(old || new), 8 epochs of Adam; after each batch b doubles or halves to hold 0.01
              (Schulman 2017, eq. 8)
     clip     min(r A, clip(r) A), 8 epochs of Adam (eq. 7)
     neither  r A, 8 epochs of Adam (eq. 6)
   You will see the reward rise, and the KL of each update: TRPO's limit is hard, the penalty's and the clip's
   are not, and without any the policy jumps; and how many backward passes an update takes. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"
#include "trpo.h"

enum { ITERATIONS = 40, EPOCHS = 8, RUNS = 4 };
enum { TRPO, PENALTY, CLIP, NEITHER, WAYS };

static const char *const names[WAYS] = {"TRPO", "KL penalty", "clip", "neither"};
static const float limit = 0.01f;

/* Several epochs of Adam, as PPO takes them; returns the KL from the old policy after the last one. */
static float epochs(int way, float *b) {
    static const int objective[WAYS] = {0, PPO_UNCLIPPED, PPO_CLIP, PPO_UNCLIPPED};
    ppo_adam adam = ppo_adam_default();
    terms of = {objective[way], 0, way == PENALTY ? *b : 0};
    float kl;
    adam.lr = 0.02f;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        evaluate(of, &kl);
        must(ppo_params_step(params, &adam, 0, NULL));
    }
    evaluate(of, &kl);
    if (way == PENALTY) *b = ppo_adaptive_kl_2017(*b, kl, limit);
    return kl;
}

static float trpo(void) {
    static float g[SIZE], x[SIZE];
    float kl;
    gradient(g);
    natural_gradient(g, 10, x);
    line_search(x, limit, &kl);
    return kl;
}

int main(int argc, char **argv) {
    static float reward[WAYS][ITERATIONS], kls[WAYS][ITERATIONS], x[ITERATIONS];
    uint64_t seed = lesson_seed(argc, argv);
    float most[WAYS] = {0};
    long before[WAYS + 1] = {0};
    for (int way = 0; way < WAYS; before[++way] = passes)
        for (int run = 0; run < RUNS; run++) {
            ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, (uint32_t)run);
            float b = 1;
            new_policy(seed * 100 + (uint64_t)run);
            for (int k = 0; k < ITERATIONS; k++) {
                x[k] = (float)(k + 1);
                reward[way][k] += collect(&rng) / RUNS;
                float kl = way == TRPO ? trpo() : epochs(way, &b);
                kls[way][k] += kl / RUNS;
                most[way] = fmaxf(most[way], kl);
            }
        }
    printf("%d updates, mean of %d runs      mean reward            KL of an update   backward\n"
           "                       first 10   last 10      mean    largest     passes\n",
           ITERATIONS, RUNS);
    chart c = {.title = "KL of each update",
               .x_label = "update",
               .y_label = "KL(old || new)",
               .log_y = 1,
               .y = {0.0005, 1}};
    for (int way = 0; way < WAYS; way++) {
        printf("  %-18s %10.3f %9.3f %9.4f %10.4f %10.1f\n", names[way], mean_of(reward[way], 10),
               mean_of(reward[way] + ITERATIONS - 10, 10), mean_of(kls[way], ITERATIONS), (double)most[way],
               (double)(before[way + 1] - before[way]) / (RUNS * ITERATIONS));
        chart_line(&c, names[way], x, kls[way], ITERATIONS);
    }
    chart_save(&c, "build/lessons/09_trust_region.svg");

    claim(most[TRPO] <= limit, "TRPO never exceeds its limit of %.2f", (double)limit);
    claim(most[CLIP] > limit && most[PENALTY] > limit, "the clip and the penalty do: they hold it roughly");
    claim(mean_of(kls[NEITHER], ITERATIONS) > 2 * mean_of(kls[CLIP], ITERATIONS),
          "without either the policy goes %.0f times as far",
          mean_of(kls[NEITHER], ITERATIONS) / mean_of(kls[CLIP], ITERATIONS));
    for (int way = TRPO; way <= CLIP; way++)
        claim(mean_of(reward[way] + ITERATIONS - 10, 10) > 0.8, "%s learns the task", names[way]);
    ppo_tape_free(tape);
    ppo_params_free(params);
    return lesson_failures > 0;
}
