/* wrong 1: 6 The rewards of the next episode count */
/* wrong 2: 4 last_value is left out */
/* wrong 3: 4 last_value is not discounted */
/* wrong 4: 0 The reward of the step itself is left out */
/* wrong 5: 9 last_value counts although the last step terminated */
/* wrong 6: 0 Rewards are discounted by their distance from the first step */
/* wrong 7: 0 gamma is left out */
#include "returns.h"

#include <math.h>

void returns(const float *reward, const unsigned char *terminated, int steps, float gamma, float last_value,
             float *g) {
    float next = WRONG == 2 ? 0 : WRONG == 3 ? last_value / gamma : last_value;
    for (int t = steps - 1; t >= 0; t--) {
        if (WRONG == 1 ? 0 : WRONG == 5 ? terminated[t] && t < steps - 1 : terminated[t]) next = 0;
        g[t] = reward[t] + (WRONG == 7 ? 1 : gamma) * next;
        next = g[t];
        if (WRONG == 4) g[t] -= reward[t];
        if (WRONG == 6) g[t] *= powf(gamma, (float)t);
    }
}
