/* 08_natural_gradient.c - which way is uphill depends on how distance is measured.

   The gradient g is the steepest way for steps of equal length in the parameters. But a step of length 0.1
   in one weight may change nothing and in another one everything. What a step does to the policy is
   measured by the KL, which near the old policy is d' F d / 2, with the Fisher matrix F. The steepest way
   for steps of equal KL is the natural gradient F^-1 g (Kakade 2001), and TRPO's direction (Schulman 2015).
   F has as many entries as parameters squared; conjugate gradients, a way to solve F x = g step by step,
   need only products F v, two backward passes each (trpo.h, where the code is). What is left, F x - g,
   falls with the steps, though not with every one.

   The task is badly scaled: one coordinate is 10 times as large as the other. You will see that d' F d / 2
   predicts the KL, how few conjugate gradient steps are enough, and that for the same KL the natural gradient
   gains more. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"
#include "trpo.h"

enum { POLICIES = 8, LIMITS = 7, CG = 10 };

int main(int argc, char **argv) {
    static float g[SIZE], x[SIZE], Fx[SIZE], start[SIZE];
    uint64_t seed = lesson_seed(argc, argv);
    float limits[LIMITS], plain[LIMITS] = {0}, natural[LIMITS] = {0}, kl, residual[CG];
    double prediction = 0, ratio = 0;

    /* A policy that has learned a little: at the start, where all actions are equally likely, F is nearly
       blind to the hidden layer. */
    for (int run = 0; run < POLICIES; run++) {
        ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, (uint32_t)run);
        new_policy(seed * 100 + (uint64_t)run);
        for (int warm = 0; warm < 3; warm++) {
            collect(&rng);
            gradient(g);
            natural_gradient(g, CG, x);
            line_search(x, 0.05f, &kl);
        }
        collect(&rng);
        gradient(g);
        memcpy(start, params->data, params->count * sizeof *start);
        for (int steps = 1; steps <= CG && run == 0; steps++) { /* |F x - g| / |g| after this many */
            natural_gradient(g, steps, x);
            fisher_times(x, Fx);
            add(Fx, -1, g);
            residual[steps - 1] = (float)sqrt(dot(Fx, Fx) / dot(g, g));
        }
        natural_gradient(g, CG, x);

        /* The prediction: a natural step of expected KL 0.001. */
        fisher_times(x, Fx);
        add(params->data, sqrt(2 * 0.001 / dot(x, Fx)), x);
        evaluate((terms){PPO_UNCLIPPED, 0, 0}, &kl);
        memcpy(params->data, start, params->count * sizeof *start);
        prediction += (double)kl / 0.001 / POLICIES;

        for (int k = 0; k < LIMITS; k++) {
            limits[k] = 0.0005f * powf(2, (float)k);
            plain[k] += line_search(g, limits[k], &kl) / POLICIES;
            memcpy(params->data, start, params->count * sizeof *start);
            natural[k] += line_search(x, limits[k], &kl) / POLICIES;
            memcpy(params->data, start, params->count * sizeof *start);
        }
    }
    printf("a step of predicted KL 0.001 has KL %.5f (mean of %d policies)\n\n", 0.001 * prediction,
           POLICIES);
    printf("conjugate gradient steps   ");
    for (int i = 0; i < CG; i++) printf("%6d", i + 1);
    printf("\nrest |F x - g| / |g|       ");
    for (int i = 0; i < CG; i++) printf("%6.2f", (double)residual[i]);
    printf("\n\nKL at most   gain of the gradient   of the natural gradient\n");
    for (int k = 0; k < LIMITS; k++) {
        printf("%10.4f %22.4f %25.4f\n", (double)limits[k], (double)plain[k], (double)natural[k]);
        ratio += (double)(natural[k] / plain[k]) / LIMITS;
    }
    chart c = {.title = "What a step gains for the same KL",
               .x_label = "KL of the step",
               .y_label = "gain: mean of r A",
               .log_x = 1};
    chart_line(&c, "natural gradient", limits, natural, LIMITS);
    chart_line(&c, "gradient", limits, plain, LIMITS);
    chart_save(&c, "build/lessons/08_natural_gradient.svg");

    claim(fabs(prediction - 1) < 0.2, "1/2 d' F d predicts the KL of a small step");
    claim(residual[CG - 1] < 0.3f * residual[0],
          "%d conjugate gradient steps for %d parameters come close to F^-1 g", CG, (int)params->count);
    claim(ratio > 1.2, "for the same KL the natural gradient gains %.1f times as much", ratio);
    ppo_tape_free(tape);
    ppo_params_free(params);
    return lesson_failures > 0;
}
