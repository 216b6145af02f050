/* Exercise 4: a KL penalty, and its coefficient.
   The task is in README.md; `make grade EX=04` grades this file. */
#include "kl_penalty.h"

#include <math.h>

/* Returns -mean(r A) + coef mean(k3); grad_logp[i] = d loss / d logp[i]. */
float kl_penalty_loss(const float *logp, const float *old_logp, const float *advantage, int n, float coef,
                      float *grad_logp) {
    /* your code */
    return 0;
}

/* Returns the coefficient for the next iteration. */
float adapt_coef(float coef, float kl, float target) {
    /* your code */
    return 0;
}
