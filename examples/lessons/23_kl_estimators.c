/* 23_kl_estimators.c - k1, k2, k3: three ways to estimate a KL from samples.

   KL(pi || ref) = E[log pi(a) - log ref(a)] over samples of pi. For the whole vocabulary it is a sum; for
   sequences only samples are left. With l = log ref(a) - log pi(a) of a sample (Schulman 2020, "Approximating
   KL divergence"):
       k1 = -l              unbiased; noisy, and half of the samples may be negative
       k2 = l^2 / 2         biased, little noise
       k3 = exp(l) - 1 - l  unbiased, never negative; little noise near ref, but far from it rare samples of a
                            large exp(l) carry the mean, and most batches have none
   You will see mean and noise of each against the exact KL, for policies that move away from the reference:
   which of them is best depends on how far. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"

enum { VOCAB = 50, SAMPLES = 400000, POINTS = 8 };

int main(int argc, char **argv) {
    static float ref[VOCAB], direction[VOCAB], pi[VOCAB], logp[SAMPLES], ref_logp[SAMPLES], k[SAMPLES];
    float kl[POINTS], noise[3][POINTS], mean[3][POINTS], negative = 0;
    ppo_rng rng = ppo_rng_stream(lesson_seed(argc, argv), PPO_STREAM_USER, 0);
    int unbiased = 1;
    for (int i = 0; i < VOCAB; i++) ref[i] = ppo_rng_normal(&rng), direction[i] = ppo_rng_normal(&rng);

    printf("exact KL        k1              k2              k3        mean and standard deviation of a "
           "sample\n");
    for (int p = 0; p < POINTS; p++) {
        static float pi_logp[VOCAB], reference_logp[VOCAB];
        float far = 0.1f * powf(1.6f, (float)p);
        for (int i = 0; i < VOCAB; i++) pi[i] = ref[i] + far * direction[i];
        must(ppo_categorical_kl(pi, ref, 1, VOCAB, &kl[p]));
        for (int i = 0; i < VOCAB; i++) { /* of each token */
            must(ppo_token_logp(pi, &i, 1, VOCAB, 1, &pi_logp[i], NULL));
            must(ppo_token_logp(ref, &i, 1, VOCAB, 1, &reference_logp[i], NULL));
        }
        for (int i = 0; i < SAMPLES; i++) {
            int token = ppo_categorical_sample(pi, VOCAB, 1, &rng);
            logp[i] = pi_logp[token], ref_logp[i] = reference_logp[token];
        }
        printf("%8.4f", (double)kl[p]);
        for (int e = PPO_K1; e <= PPO_K3; e++) {
            must(ppo_kl_estimate(logp, ref_logp, SAMPLES, e, k));
            mean[e - 1][p] = (float)mean_of(k, SAMPLES);
            noise[e - 1][p] = (float)deviation_of(k, SAMPLES);
            if (e == PPO_K1 || (e == PPO_K3 && kl[p] < 0.5f))
                unbiased &= fabsf(mean[e - 1][p] - kl[p]) < 5 * noise[e - 1][p] / sqrtf(SAMPLES) + 1e-6f;
            if (e == PPO_K1 && p == 0)
                for (int i = 0; i < SAMPLES; i++) negative += (k[i] < 0) / (float)SAMPLES;
            printf("  %6.4f +- %5.3f", (double)mean[e - 1][p], (double)noise[e - 1][p]);
        }
        printf("\n");
    }
    float bias_near = fabsf(mean[1][0] / kl[0] - 1), bias_far = 0;
    for (int p = 1; p < POINTS; p++) bias_far = fmaxf(bias_far, fabsf(mean[1][p] / kl[p] - 1));

    chart c = {.title = "Noise of one sample",
               .x_label = "KL(pi || ref)",
               .y_label = "standard deviation",
               .log_x = 1,
               .log_y = 1};
    chart_line(&c, "k1", kl, noise[0], POINTS);
    chart_line(&c, "k2", kl, noise[1], POINTS);
    chart_line(&c, "k3", kl, noise[2], POINTS);
    chart_line(&c, "the KL itself", kl, kl, POINTS);
    chart_save(&c, "build/lessons/23_kl_estimators.svg");
    claim(unbiased, "k1 and k3 are unbiased (k3 as far as its noise lets one see it, to a KL of 0.5)");
    claim(bias_near < 0.1f && bias_far > 0.01f + bias_near,
          "k2 is biased by %.0f %% near the reference, by up to %.0f %% farther away",
          100 * (double)bias_near, 100 * (double)bias_far);
    claim(negative > 0.3f, "near the reference %.0f %% of the k1 are negative", 100 * (double)negative);
    claim(noise[2][0] < noise[0][0] / 5, "there k3 has %.0f times less noise than k1",
          (double)(noise[0][0] / noise[2][0]));
    claim(noise[2][POINTS - 1] > noise[0][POINTS - 1], "far from it k3 has more");
    return lesson_failures > 0;
}
