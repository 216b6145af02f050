/* wrong 1: 4 The penalty has the wrong sign */
/* wrong 2: 4 The penalty is k1 */
/* wrong 3: 7 that of -log r is missing */
/* wrong 4: 8 Up and down are exchanged */
/* wrong 5: 9 between target / 1.5 and 1.5 target it stays */
/* wrong 6: 4 The penalty is k3 of the other direction */
/* wrong 7: 7 The ratio is missing in the gradient of r A */
#include "kl_penalty.h"

#include <math.h>

float kl_penalty_loss(const float *logp, const float *old_logp, const float *advantage, int n, float coef,
                      float *grad_logp) {
    double loss = 0;
    if (WRONG == 1) coef = -coef;
    for (int i = 0; i < n; i++) {
        float l = logp[i] - old_logp[i], r = expf(l), k = r - 1 - l, slope = WRONG == 3 ? r : r - 1;
        if (WRONG == 2) k = -l, slope = -1;
        if (WRONG == 6) k = 1 / r - 1 + l, slope = 1 - 1 / r;
        loss += -r * advantage[i] + coef * k;
        grad_logp[i] = (-(WRONG == 7 ? 1 : r) * advantage[i] + coef * slope) / n;
    }
    return (float)(loss / n);
}

float adapt_coef(float coef, float kl, float target) {
    float band = WRONG == 5 ? 1 : 1.5f, up = WRONG == 4 ? 0.5f : 2;
    return kl > band * target ? coef * up : kl < target / band ? coef / up : coef;
}
