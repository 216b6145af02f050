/* wrong 1: 7 Mean and std are of all samples */
/* wrong 2: 4 GRPO's is the mean over samples */
/* wrong 3: 6 The KL has the wrong direction */
/* wrong 4: 4 Tokens with mask 0 count */
/* wrong 5: 4 a token is predicted from the one before it */
/* wrong 6: 7 The std is divided by group_size */
/* wrong 7: 7 The softmax is missing in the gradient */
/* wrong 8: 9 or is it a division by 0 */
/* wrong 9: 7 The step goes uphill */
/* wrong 10: 4 token t follows token t - 1 */
/* wrong 11: 7 gradient has the wrong sign: that of k3 */
#include "grpo_step.h"

#include <math.h>
#include <stdlib.h>

static void log_softmax(const float *x, int n, float *y) {
    float largest = x[0], sum = 0;
    for (int j = 1; j < n; j++) largest = fmaxf(largest, x[j]);
    for (int j = 0; j < n; j++) sum += expf(x[j] - largest);
    for (int j = 0; j < n; j++) y[j] = x[j] - largest - logf(sum);
}

int sample_token(const float *logits, int vocab, float u) {
    float y[64], sum = 0;
    log_softmax(logits, vocab, y);
    for (int j = 0; j < vocab; j++)
        if ((sum += expf(y[j])) > u) return j;
    return vocab - 1;
}

void group_advantages(const float *score, int groups, int group_size, float *advantage) {
    float eps = WRONG == 8 ? 0 : 1e-4f;
    if (WRONG == 1) group_size *= groups, groups = 1;
    for (int g = 0; g < groups; g++, score += group_size, advantage += group_size) {
        double mean = 0, squares = 0;
        for (int i = 0; i < group_size; i++) mean += score[i] / group_size;
        for (int i = 0; i < group_size; i++) squares += (score[i] - mean) * (score[i] - mean);
        double std = sqrt(squares / (WRONG == 6 ? group_size : group_size - 1));
        for (int i = 0; i < group_size; i++) advantage[i] = (float)((score[i] - mean) / (std + eps));
    }
}

float grpo_step(float *theta, const int *start, const int *token, const unsigned char *mask,
                const float *old_logp, const float *ref_logp, const float *advantage, int n, int length,
                int vocab, float clip, float kl_coef, float lr) {
    int all = 0;
    float *gradient = calloc((size_t)(vocab * vocab), sizeof *gradient), y[64];
    double loss = 0;
    for (int i = 0; i < n * length; i++) all += mask[i];
    for (int i = 0; i < n; i++) {
        int tokens = 0;
        while (tokens < length && (mask[i * length + tokens] || WRONG == 4)) tokens++;
        float weight = WRONG == 2 ? 1.0f / all : 1.0f / (n * tokens), A = advantage[i];
        for (int t = 0; t < tokens; t++) {
            int k = i * length + t, previous = t ? token[k - 1] : start[i];
            if (WRONG == 5) previous = token[k];
            if (WRONG == 10) previous = start[i];
            log_softmax(theta + previous * vocab, vocab, y);
            float logp = y[token[k]], r = expf(logp - old_logp[k]),
                  d = WRONG == 3 ? logp - ref_logp[k] : ref_logp[k] - logp;
            float plain = r * A, clipped = fminf(fmaxf(r, 1 - clip), 1 + clip) * A;
            float slope = (plain <= clipped ? -plain : 0) +
                          kl_coef * (WRONG == 3 || WRONG == 11 ? expf(d) - 1 : 1 - expf(d));
            loss += weight * (-fminf(plain, clipped) + kl_coef * (expf(d) - 1 - d));
            for (int j = 0; j < vocab; j++)
                gradient[previous * vocab + j] +=
                    weight * slope * ((j == token[k]) - (WRONG == 7 ? 0 : expf(y[j])));
        }
    }
    for (int j = 0; j < vocab * vocab; j++) theta[j] -= (WRONG == 9 ? -lr : lr) * gradient[j];
    free(gradient);
    return (float)loss;
}
