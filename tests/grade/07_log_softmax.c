/* wrong 1: 7 exp overflows */
/* wrong 2: 4 This is the softmax, without the logarithm */
/* wrong 3: 8 All rows together are one distribution */
/* wrong 4: 6 The sum over the row is missing */
/* wrong 5: 6 y stands where its exponential */
/* wrong 6: 6 This is the backward pass of softmax, not of log-softmax */
#include "log_softmax.h"

#include <math.h>

void log_softmax(const float *x, int rows, int cols, float *y) {
    if (WRONG == 3) cols *= rows, rows = 1;
    for (int i = 0; i < rows; i++, x += cols, y += cols) {
        float largest = x[0], sum = 0;
        for (int j = 1; j < cols; j++) largest = fmaxf(largest, x[j]);
        if (WRONG == 1) largest = 0;
        for (int j = 0; j < cols; j++) sum += expf(x[j] - largest);
        for (int j = 0; j < cols; j++)
            y[j] = WRONG == 2 ? expf(x[j] - largest) / sum : x[j] - largest - logf(sum);
    }
}

void log_softmax_backward(const float *y, const float *grad_y, int rows, int cols, float *grad_x) {
    if (WRONG == 3) cols *= rows, rows = 1;
    for (int i = 0; i < rows; i++, y += cols, grad_y += cols, grad_x += cols) {
        float sum = 0, mean = 0;
        for (int j = 0; j < cols; j++) sum += grad_y[j], mean += expf(y[j]) * grad_y[j];
        for (int j = 0; j < cols; j++) {
            grad_x[j] = grad_y[j] - (WRONG == 4 ? 0 : WRONG == 5 ? y[j] : expf(y[j])) * sum;
            if (WRONG == 6) grad_x[j] = expf(y[j]) * (grad_y[j] - mean);
        }
    }
}
