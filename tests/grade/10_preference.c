/* wrong 1: 0 chosen and rejected are exchanged */
/* wrong 2: 8 exp overflows */
/* wrong 3: 5 pairs that are right already need no push */
/* wrong 4: 7 grad_rejected has the sign of grad_chosen */
/* wrong 5: 5 This is a hinge loss */
/* wrong 6: 0 is n times too large */
#include "preference.h"

#include <math.h>

float preference_loss(const float *chosen, const float *rejected, int n, float *grad_chosen,
                      float *grad_rejected) {
    double loss = 0;
    for (int i = 0; i < n; i++) {
        float d = WRONG == 1 ? rejected[i] - chosen[i] : chosen[i] - rejected[i];
        float slope = -1 / (1 + expf(WRONG == 3 ? -d : d)) / (WRONG == 6 ? 1 : n);
        loss += WRONG == 2   ? -logf(1 / (1 + expf(-d)))
                : WRONG == 5 ? fmaxf(0, 1 - d)
                             : fmaxf(-d, 0) + log1pf(expf(-fabsf(d)));
        grad_chosen[i] = WRONG == 1 ? -slope : slope;
        grad_rejected[i] = WRONG == 4 || WRONG == 1 ? slope : -slope;
    }
    return (float)(WRONG == 6 ? loss : loss / n);
}
