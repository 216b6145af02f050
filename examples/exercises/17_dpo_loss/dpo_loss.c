/* Exercise 17: the loss of DPO.
   The task is in README.md; `make grade EX=17` grades this file. */
#include "dpo_loss.h"

#include <math.h>

/* Returns the mean of -log sigmoid(beta times the margin), and its gradients [n] by chosen and rejected. */
float dpo_loss(const float *chosen, const float *rejected, const float *ref_chosen, const float *ref_rejected,
               int n, float beta, float *grad_chosen, float *grad_rejected) {
    /* your code */
    return 0;
}
