/* Exercise 7: log-softmax and its backward pass.
   The task is in README.md; `make grade EX=07` grades this file. */
#include "log_softmax.h"

#include <math.h>

/* All arrays are [rows][cols]: row i, column j is at [i * cols + j]. */
void log_softmax(const float *x, int rows, int cols, float *y) { /* your code */
}

/* y is what log_softmax() returned. */
void log_softmax_backward(const float *y, const float *grad_y, int rows, int cols, float *grad_x) {
    /* your code */
}
