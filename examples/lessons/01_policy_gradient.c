/* 01_policy_gradient.c - the policy gradient, estimated from samples: right on average, and noisy.

   A policy pi chooses one of four actions. Its parameters are four numbers, the logits; pi is their
   softmax, as in the last layer of a classifier. Action a pays a reward R: q[a] on average, plus noise. The
   goal is the expected reward J = sum of pi(a) q[a]. Since grad pi = pi grad log pi,
       grad J = sum of q[a] pi(a) grad log pi(a) = E[ R grad log pi(a) ]          (REINFORCE, Williams 1992).
   It needs no derivative of the reward, and is estimated by the mean of R grad log pi(a) over n actions that
   were tried. Here J is so small a sum that the exact gradient is known: d J / d logit[a] = pi(a) (q[a] - J).

   You will see that the mean of many estimates is the exact gradient, that one estimate is mostly noise, that
   the noise falls as 1 / sqrt(n), and how often an estimate points uphill at all. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"

enum { ACTIONS = 4, SIZES = 7, ESTIMATES = 4000 };

static const float logits[ACTIONS] = {0.4f, 0, -0.3f, 0.1f}, q[ACTIONS] = {1, 2, 3, 0};

/* One estimate from n samples. ppo_token_logp_backward() gives grad_logp d log pi / d logits: with the reward
   as grad_logp it is the policy gradient. An action here is what a token is for a language model. */
static void estimate(int n, ppo_rng *rng, float gradient[ACTIONS]) {
    for (int a = 0; a < ACTIONS; a++) gradient[a] = 0;
    for (int i = 0; i < n; i++) {
        int action = ppo_categorical_sample(logits, ACTIONS, 1, rng); /* 1: the temperature */
        float reward = q[action] + ppo_rng_normal(rng), sample[ACTIONS];
        must(ppo_token_logp_backward(logits, &action, &reward, NULL, 1, ACTIONS, 1, sample));
        for (int a = 0; a < ACTIONS; a++) gradient[a] += sample[a] / (float)n;
    }
}

int main(int argc, char **argv) {
    ppo_rng rng = ppo_rng_stream(lesson_seed(argc, argv), PPO_STREAM_USER, 0);
    float exact[ACTIONS], J = 0, length = 0, size[SIZES], noise[SIZES], signal[SIZES], uphill[SIZES];
    double worst = 0; /* the largest distance of a mean from the exact one, in standard errors */

    for (int a = 0; a < ACTIONS; a++) {
        must(ppo_token_logp(logits, &a, 1, ACTIONS, 1, &exact[a], NULL));
        J += expf(exact[a]) * q[a];
    }
    for (int a = 0; a < ACTIONS; a++) {
        exact[a] = expf(exact[a]) * (q[a] - J);
        length += exact[a] * exact[a];
    }
    length = sqrtf(length);
    printf("J = %.3f; exact gradient %.3f %.3f %.3f %.3f, of length %.3f\n\n", (double)J, (double)exact[0],
           (double)exact[1], (double)exact[2], (double)exact[3], (double)length);

    printf("       n   estimates   their mean                        noise   uphill\n");
    for (int k = 0; k < SIZES; k++) {
        int n = 1 << 2 * k; /* 1, 4, 16, ... */
        int estimates = ESTIMATES >> (k > 4 ? k - 3 : 0);
        double mean[ACTIONS] = {0}, square[ACTIONS] = {0}, variance = 0, up = 0;
        for (int i = 0; i < estimates; i++) {
            float g[ACTIONS], dot = 0;
            estimate(n, &rng, g);
            for (int a = 0; a < ACTIONS; a++) {
                mean[a] += (double)g[a] / estimates;
                square[a] += (double)(g[a] * g[a]) / estimates;
                dot += g[a] * exact[a];
            }
            up += dot > 0;
        }
        for (int a = 0; a < ACTIONS; a++) {
            double v = square[a] - mean[a] * mean[a];
            variance += v;
            worst = fmax(worst, fabs(mean[a] - (double)exact[a]) / sqrt(v / estimates));
        }
        size[k] = (float)n, noise[k] = (float)sqrt(variance), signal[k] = length;
        uphill[k] = (float)(100 * up / estimates);
        printf("%8d   %9d   %6.3f %6.3f %6.3f %6.3f   %8.3f   %5.1f %%\n", n, estimates, mean[0], mean[1],
               mean[2], mean[3], sqrt(variance), (double)uphill[k]);
    }
    float slope = logf(noise[SIZES - 1] / noise[0]) / logf(size[SIZES - 1]);
    printf("\nnoise: the standard deviation of an estimate, over all of its numbers; it falls as n^%.2f\n",
           (double)slope);

    chart c = {
        .title = "Noise of the policy gradient", .x_label = "samples per estimate", .log_x = 1, .log_y = 1};
    chart_line(&c, "standard deviation", size, noise, SIZES);
    chart_points(&c, NULL, size, noise, SIZES);
    chart_line(&c, "length of the gradient itself", size, signal, SIZES);
    chart_save(&c, "build/lessons/01_policy_gradient.svg");

    claim(worst < 4.5, "every mean is within 4.5 standard errors of the exact gradient (farthest: %.1f)",
          worst);
    claim(noise[0] > 2 * length, "one sample is noise: %.1f times the length of the gradient",
          (double)(noise[0] / length));
    claim(fabsf(slope + 0.5f) < 0.05f, "the noise falls as 1 / sqrt(n)");
    claim(uphill[0] < 80 && uphill[SIZES - 1] == 100,
          "one sample points uphill in %.0f %% of cases, 4096 always", (double)uphill[0]);
    return lesson_failures > 0;
}
