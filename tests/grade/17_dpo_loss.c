/* wrong 1: 0 The reference is missing */
/* wrong 2: 0 chosen and rejected are exchanged */
/* wrong 3: 0 beta is missing */
/* wrong 4: 3 beta is missing in the gradient */
/* wrong 5: 6 grad_rejected has the sign */
/* wrong 6: 3 pairs that are right already need no push */
/* wrong 7: 8 exp overflows */
#include "dpo_loss.h"

#include <math.h>

float dpo_loss(const float *chosen, const float *rejected, const float *ref_chosen, const float *ref_rejected,
               int n, float beta, float *grad_chosen, float *grad_rejected) {
    double loss = 0;
    for (int i = 0; i < n; i++) {
        double margin = (chosen[i] - ref_chosen[i]) - (rejected[i] - ref_rejected[i]);
        if (WRONG == 1) margin = chosen[i] - rejected[i];
        double b = WRONG == 3 ? 1 : WRONG == 2 ? -beta : beta, d = b * margin;
        if (WRONG == 7) loss += -logf(1 / (1 + expf(-(float)d)));
        else loss += fmax(-d, 0) + log1p(exp(-fabs(d)));
        grad_chosen[i] = (float)(-(WRONG == 4 ? 1 : b) / (1 + exp(WRONG == 6 ? -d : d)) / n);
        grad_rejected[i] = WRONG == 5 ? grad_chosen[i] : -grad_chosen[i];
    }
    return (float)(loss / n);
}
