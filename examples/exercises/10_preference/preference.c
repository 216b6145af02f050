/* Exercise 10: the loss of a reward model.
   The task is in README.md; `make grade EX=10` grades this file. */
#include "preference.h"

#include <math.h>

/* Returns the mean of -log sigmoid(chosen - rejected), and its gradients [n]. */
float preference_loss(const float *chosen, const float *rejected, int n, float *grad_chosen,
                      float *grad_rejected) {
    /* your code */
    return 0;
}
