/* 11_value_loss.c - the critic's loss: squared error, its clip, and Huber's.

   The critic learns 0.5 mean((V - target)^2), target = A + V by GAE. PPO's code adds a clip like the
   policy's: V may move by at most c from the value that the rollout was collected with, V_old (Schulman's
   baselines; Engstrom 2020):
       0.5 mean(max((V - target)^2, (clip(V, V_old - c, V_old + c) - target)^2)).
   c is a distance, so it depends on the scale of returns. Huber's loss bounds the gradient of one sample
   instead.

   You will see the gradients of single samples; a critic of one number that has to learn a return of 50, in
   iterations of ten epochs; and the same where one rollout has an outlier, which is what clip and Huber are
   against. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"

enum { LEVEL = 50, SAMPLES = 64, EPOCHS = 10, ITERATIONS = 60, OUTLIER = 40, LOSSES = 4 };

static const struct {
    const char *name;
    float clip, huber;
} losses[LOSSES] = {{"squared error", 0, INFINITY},
                    {"clip 0.2", 0.2f, INFINITY},
                    {"clip 10", 10, INFINITY},
                    {"Huber 1", 0, 1}};

static float gradient(int k, float value, float old, float target) {
    float g;
    must(ppo_huber_value_loss(&value, &old, &target, NULL, 1, losses[k].clip, losses[k].huber, NULL, &g));
    return g;
}

/* Learns one value from returns of mean `level` and deviation 1; at OUTLIER one in eight is 20 times that. */
static void train(int k, float level, uint64_t seed, float V[ITERATIONS]) {
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    float v = 0;
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        float target[SAMPLES], old[SAMPLES], value[SAMPLES], grad[SAMPLES];
        for (int i = 0; i < SAMPLES; i++) {
            old[i] = v;
            target[i] = (iteration == OUTLIER && i % 8 == 0 ? 20 : 1) * level + ppo_rng_normal(&rng);
        }
        for (int epoch = 0; epoch < EPOCHS; epoch++) {
            for (int i = 0; i < SAMPLES; i++) value[i] = v;
            must(ppo_huber_value_loss(value, old, target, NULL, SAMPLES, losses[k].clip, losses[k].huber,
                                      NULL, grad));
            v -= 0.1f * SAMPLES * (float)mean_of(grad, SAMPLES);
        }
        V[iteration] = v;
    }
}

/* Iterations until the value is within 10 % of the level; ITERATIONS if it never is before the outlier. */
static int needed(const float V[ITERATIONS], float level) {
    for (int i = 0; i < OUTLIER; i++)
        if (fabsf(V[i] - level) < 0.1f * level) return i + 1;
    return ITERATIONS;
}

int main(int argc, char **argv) {
    static float V[LOSSES][ITERATIONS], small[LOSSES][ITERATIONS], x[ITERATIONS];
    uint64_t seed = lesson_seed(argc, argv);
    int takes[LOSSES], takes_small[LOSSES];
    float jump[LOSSES];

    printf("gradient of one sample, V_old 0, target 5:\n      V");
    for (int k = 0; k < LOSSES; k++) printf("  %13s", losses[k].name);
    for (float v = -0.5f; v <= 0.5f; v += 0.25f) {
        printf("\n%7.2f", (double)v);
        for (int k = 0; k < LOSSES; k++) printf("  %13.2f", (double)gradient(k, v, 0, 5));
    }
    float towards = gradient(1, 0.25f, 0, 5), away = gradient(1, -0.25f, 0, 5);

    printf("\n\nreturns near             %6d                     1\n"
           "                 iterations   jump at the      iterations\n"
           "                 to 10 %%       outlier         to 10 %%\n",
           LEVEL);
    chart c = {.title = "A critic of one number", .x_label = "iterations of ten epochs", .y_label = "V"};
    c.y[1] = 2.4f * LEVEL;
    for (int k = 0; k < LOSSES; k++) {
        train(k, LEVEL, seed, V[k]);
        train(k, 1, seed, small[k]);
        takes[k] = needed(V[k], LEVEL), takes_small[k] = needed(small[k], 1);
        jump[k] = V[k][OUTLIER] - V[k][OUTLIER - 1];
        char text[16];
        snprintf(text, sizeof text, takes[k] < ITERATIONS ? "%d" : "> %d",
                 takes[k] < ITERATIONS ? takes[k] : OUTLIER);
        printf("  %-14s %8s %12.1f %16d\n", losses[k].name, text, (double)jump[k], takes_small[k]);
        chart_line(&c, losses[k].name, x, V[k], ITERATIONS);
    }
    for (int i = 0; i < ITERATIONS; i++) x[i] = (float)(i + 1);
    chart_save(&c, "build/lessons/11_value_loss.svg");

    claim(towards == 0 && away != 0,
          "the clip takes the gradient of a value that has moved far enough towards its target");
    claim(takes[1] > 4 * takes[0] && takes_small[1] <= ITERATIONS / 4,
          "a clip of 0.2 suits returns near 1; near 50 it slows the critic down");
    claim(jump[0] > 5 * jump[1] && jump[0] > 5 * jump[3],
          "an outlier moves the squared error's critic by %.0f, the others little", (double)jump[0]);
    return lesson_failures > 0;
}
