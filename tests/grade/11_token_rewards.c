/* wrong 1: 5 The score is at the end of the row */
/* wrong 2: 0 Every token gets the score */
/* wrong 3: 2 The KL has the wrong sign */
/* wrong 4: 5 Padding gets a reward */
/* wrong 5: 0 subtracted where the text ended */
/* wrong 6: 2 The KL is estimated by k3 */
/* wrong 7: 2 The score replaces the last */
#include "token_rewards.h"

#include <math.h>

void token_rewards(const float *logp, const float *ref_logp, const unsigned char *mask, const float *score,
                   const unsigned char *ended, int n, int length, float coef, float missing_eos_penalty,
                   float *reward) {
    for (int i = 0; i < n; i++) {
        int last = 0;
        float whole = score[i] - ((WRONG == 5 ? !ended[i] : ended[i]) ? 0 : missing_eos_penalty);
        for (int t = 0; t < length; t++) {
            int k = i * length + t;
            float l = ref_logp[k] - logp[k], kl = WRONG == 3 ? l : WRONG == 6 ? expf(l) - 1 - l : -l;
            reward[k] = mask[k] || WRONG == 4 ? -coef * kl : 0;
            if (mask[k]) last = t;
            if (WRONG == 2 && mask[k]) reward[k] += whole;
        }
        if (WRONG == 1) last = length - 1;
        if (WRONG == 7) reward[i * length + last] = 0;
        if (WRONG != 2) reward[i * length + last] += whole;
    }
}
