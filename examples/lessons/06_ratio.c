/* 06_ratio.c - the ratio: what old data say about a new policy, and how far that reaches.

   Samples of an old policy can estimate the reward of a new one (importance sampling):
       E under new [ R(a) ] = E under old [ r R(a) ],   r = pi_new(a) / pi_old(a).
   PPO's objective is this with the advantage in place of R (the CPI objective, Kakade and Langford 2002;
   Schulman 2017, eq. 6), and it is why one rollout can serve several gradient steps. The mean is right for
   any new policy; the noise is not bounded: a few samples with huge ratios carry the estimate, and in most
   batches they are missing.

   A policy draws numbers with mean 0 and deviation 1; the new one has mean d. R(a) = a, so the answer is d.
   The Kullback-Leibler divergence says how far apart two policies are; it is 0 only if they are equal:
       KL(p || q) = E under p [ log p - log q ],   in nats: all logarithms of this course are natural ones.
   You will see estimates of 1000 samples for growing d, their noise, and the effective sample size (sum r)^2
   / sum r^2. In the drawing the band of estimates leaves the frame. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"

enum { SAMPLES = 1000, REPEATS = 400, POINTS = 13 };

int main(int argc, char **argv) {
    static float action[SAMPLES], at_old[SAMPLES], at_new[SAMPLES], old_logp[SAMPLES], logp[SAMPLES];
    float x[POINTS], low[POINTS], high[POINTS], truth[POINTS], effective[POINTS], noise[POINTS], kl[POINTS];
    const float log_std = 0;
    ppo_rng rng = ppo_rng_stream(lesson_seed(argc, argv), PPO_STREAM_USER, 0);
    int right = 0;
    printf("   d     KL   mean of %d estimates   deviation   effective samples of %d   largest ratio\n",
           REPEATS, SAMPLES);
    for (int k = 0; k < POINTS; k++) {
        float d = x[k] = 0.25f * (float)k, estimate[REPEATS];
        double share = 0, largest = 0;
        for (int repeat = 0; repeat < REPEATS; repeat++) {
            double sum = 0, squares = 0, weighted = 0;
            for (int i = 0; i < SAMPLES; i++) action[i] = ppo_rng_normal(&rng), at_old[i] = 0, at_new[i] = d;
            must(ppo_gaussian_logp(at_old, &log_std, action, SAMPLES, 1, old_logp, NULL));
            must(ppo_gaussian_logp(at_new, &log_std, action, SAMPLES, 1, logp, NULL));
            for (int i = 0; i < SAMPLES; i++) {
                double r =
                    exp((double)(logp[i] - old_logp[i])); /* always from logarithms: densities underflow */
                sum += r, squares += r * r, weighted += r * (double)action[i];
                largest = fmax(largest, r);
            }
            estimate[repeat] = (float)(weighted / SAMPLES);
            share += sum * sum / squares / REPEATS;
        }
        double mean = mean_of(estimate, REPEATS), deviation = deviation_of(estimate, REPEATS);
        must(ppo_gaussian_kl(&x[0], &log_std, &d, &log_std, 1, 1, &kl[k])); /* KL(old || new) = d^2 / 2 */
        low[k] = (float)(mean - 2 * deviation), high[k] = (float)(mean + 2 * deviation);
        truth[k] = d, effective[k] = (float)share, noise[k] = (float)deviation;
        right += d > 1.3f || fabs(mean - (double)d) < 4.5 * deviation / sqrt(REPEATS);
        printf("%4.2f  %5.2f %20.3f %13.3f %20.0f %21.1f\n", (double)d, (double)kl[k], mean, deviation, share,
               largest);
    }

    chart c = {.title = "E[a] under mean d, from samples under mean 0",
               .x_label = "d, the new policy's mean",
               .y_label = "estimate",
               .y = {-1, 6}};
    chart_band(&c, "95 % of the estimates", x, low, high, POINTS);
    chart_line(&c, "right answer", x, truth, POINTS);
    chart_save(&c, "build/lessons/06_ratio.svg");

    claim(right == POINTS, "the mean is right as far as the noise lets one see it (d up to 1.25)");
    claim(noise[8] > 5 * noise[0], "at d = 2 the noise is %.0f times that at 0",
          (double)(noise[8] / noise[0]));
    claim(effective[1] > 0.9f * SAMPLES && effective[8] < 0.2f * SAMPLES,
          "of %d samples %.0f count at d = 0.25, %.0f at d = 2", SAMPLES, (double)effective[1],
          (double)effective[8]);
    return lesson_failures > 0;
}
