/* Exercise 3: PPO's clipped loss and its gradient.
   The task is in README.md; `make grade EX=03` grades this file. */
#include "clipped_loss.h"

#include <math.h>

/* Returns the loss, a mean over n samples; grad_logp[i] = d loss / d logp[i]. */
float clipped_loss(const float *logp, const float *old_logp, const float *advantage, int n, float clip,
                   float *grad_logp) {
    /* your code */
    return 0;
}
