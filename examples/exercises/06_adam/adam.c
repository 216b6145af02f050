/* Exercise 6: Adam with decoupled weight decay.
   The task is in README.md; `make grade EX=06` grades this file. */
#include "adam.h"

#include <math.h>

/* Changes param, m and v [n] in place; step is 1 for the first update. */
void adam_step(float *param, const float *grad, float *m, float *v, int n, float lr, float beta1, float beta2,
               float eps, float weight_decay, int step) {
    /* your code */
}
