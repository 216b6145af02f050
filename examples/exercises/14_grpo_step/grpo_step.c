/* Exercise 14: a whole GRPO step.
   The task is in README.md; `make grade EX=14` grades this file. */
#include "grpo_step.h"

#include <math.h>
#include <stdlib.h>

/* The first token at which the running sum of softmax(logits) is above u, which is in [0, 1). */
int sample_token(const float *logits, int vocab, float u) {
    /* your code */
    return 0;
}

/* The samples of a group are adjacent: sample i belongs to group i / group_size. */
void group_advantages(const float *score, int groups, int group_size, float *advantage) { /* your code */
}

/* One step of theta [vocab][vocab] downhill. Returns the loss before the step. */
float grpo_step(float *theta, const int *start, const int *token, const unsigned char *mask,
                const float *old_logp, const float *ref_logp, const float *advantage, int n, int length,
                int vocab, float clip, float kl_coef, float lr) {
    /* your code */
    return 0;
}
