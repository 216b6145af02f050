/* Exercise 15: find five bugs.
   The task is in README.md; `make grade EX=15` grades this file. It compiles, it runs, it even learns a little. */
#include "find_bugs.h"

#include <math.h>
#include <stdlib.h>

/* Probabilities [vocab] of the next token, from its logits. */
static void softmax(const float *logits, int vocab, float *p) {
    float largest = logits[0], sum = 0;
    for (int j = 1; j < vocab; j++) largest = fmaxf(largest, logits[j]);
    for (int j = 0; j < vocab; j++) sum += p[j] = expf(logits[j] - largest);
    for (int j = 0; j < vocab; j++) p[j] /= sum;
}

void iterate(float *theta, float *V, const int *start, const int *token, const float *old_logp,
             const float *ref_logp, const float *score, int n, int length, int vocab, const settings *s,
             float *advantage) {
    const int all = n * length;
    float *p = malloc(sizeof(float) * (size_t)(all * vocab)),
          *gradient = malloc(sizeof(float) * (size_t)(vocab * vocab));
    float *slope = malloc(sizeof(float) * (size_t)vocab);

    /* Rewards and advantages: each token pays for its KL, the last one gets the score. */
    for (int i = 0; i < n; i++) {
        float next_value = 0, next_advantage = 0;
        for (int t = length - 1; t >= 0; t--) {
            int k = i * length + t, before = t ? token[k - 1] : start[i];
            float reward = -s->beta * (ref_logp[k] - old_logp[k]) + (t == length - 1 ? score[i] : 0);
            float delta = reward + next_value - V[before];
            advantage[k] = delta + s->lambda * next_advantage;
            next_value = V[before], next_advantage = advantage[k];
        }
    }

    for (int k = 0; k < all; k++)
        softmax(theta + (k % length ? token[k - 1] : start[k / length]) * vocab, vocab, p + k * vocab);

    for (int epoch = 0; epoch < s->epochs; epoch++) {
        for (int j = 0; j < vocab * vocab; j++) gradient[j] = 0;
        for (int j = 0; j < vocab; j++) slope[j] = 0;
        for (int k = 0; k < all; k++) {
            int before = k % length ? token[k - 1] : start[k / length];
            const float *own = p + k * vocab;
            float A = advantage[k], logp = logf(own[token[k]]), ratio = expf(logp - ref_logp[k]);

            /* policy: the smaller of r A and clip(r) A, to be made large */
            float clipped = fminf(fmaxf(ratio, 1 - s->clip), 1 + s->clip);
            float by_logp = ratio * A <= clipped * A ? -ratio * A : 0;

            /* entropy: -log p, to be made large */
            by_logp += s->entropy_coef;
            for (int j = 0; j < vocab; j++)
                gradient[before * vocab + j] += by_logp * ((j == token[k]) - own[j]) / (float)all;

            /* critic: half of the squared error to the target, A + V */
            float target = A + V[before];
            slope[before] += (V[before] - target) / (float)all;
        }
        for (int j = 0; j < vocab * vocab; j++) theta[j] -= s->lr * gradient[j];
        for (int j = 0; j < vocab; j++) V[j] -= s->lr * slope[j];
    }
    free(p), free(gradient), free(slope);
}
