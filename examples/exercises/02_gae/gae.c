/* Exercise 2: generalized advantage estimation.
   The task is in README.md; `make grade EX=02` grades this file. */
#include "gae.h"

/* All arrays are [steps][envs]: the number of step t and environment e is at [t * envs + e]. */
void gae(const float *reward, const float *value, const float *next_value, const unsigned char *terminated,
         const unsigned char *truncated, int steps, int envs, float gamma, float lambda, float *advantage,
         float *value_target) {
    /* your code */
}
