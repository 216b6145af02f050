/* wrong 1: 6 Nothing is clipped */
/* wrong 2: 4 The larger of the two products is taken */
/* wrong 3: 6 The clipped product alone is used */
/* wrong 4: 6 The ratio is missing in the gradient */
/* wrong 5: 0 has the wrong sign */
/* wrong 6: 0 is n times too large */
/* wrong 7: 0 The ratio is upside down */
/* wrong 8: 8 is 0 where the clipped product is the smaller one */
/* wrong 9: 0 The ratio is one of log-probabilities */
#include "clipped_loss.h"

#include <math.h>

float clipped_loss(const float *logp, const float *old_logp, const float *advantage, int n, float clip,
                   float *grad_logp) {
    double loss = 0;
    for (int i = 0; i < n; i++) {
        float r = expf(WRONG == 7 ? old_logp[i] - logp[i] : logp[i] - old_logp[i]), A = advantage[i];
        if (WRONG == 9) r = logp[i] / old_logp[i];
        float plain = r * A, clipped = fminf(fmaxf(r, 1 - clip), 1 + clip) * A;
        float term = fminf(plain, clipped);
        if (WRONG == 1) term = plain;
        if (WRONG == 2) term = fmaxf(plain, clipped);
        if (WRONG == 3) term = clipped;
        int flat = WRONG == 3 ? fabsf(r - 1) > clip : term != plain;
        if (WRONG == 8) flat = 0;
        loss -= term;
        grad_logp[i] = flat ? 0 : -(WRONG == 4 ? A : r * A) / n;
        if (WRONG == 5) grad_logp[i] = -grad_logp[i];
        if (WRONG == 6) grad_logp[i] *= n;
    }
    return (float)(WRONG == 5 ? -loss / n : WRONG == 6 ? loss : loss / n);
}
