/* wrong 1: 6 Nothing is clipped */
/* wrong 2: 5 The smaller of the two errors is taken */
/* wrong 3: 6 clipped around the target, which has no effect */
/* wrong 4: 7 The clipped error alone is used */
/* wrong 5: 0 is twice as large */
/* wrong 6: 8 it does not depend on value */
/* wrong 7: 6 The gradient is twice as large */
/* wrong 8: 6 clip_range 0 clips everything */
#include "value_clip.h"

#include <math.h>

float value_loss(const float *value, const float *old_value, const float *target, int n, float clip_range,
                 float *grad_value) {
    double loss = 0;
    for (int i = 0; i < n; i++) {
        float from = WRONG == 3 ? target[i] : old_value[i], clipped = value[i];
        if (clip_range > 0 || WRONG == 8)
            clipped = fminf(fmaxf(clipped, from - clip_range), from + clip_range);
        float a = (value[i] - target[i]) * (value[i] - target[i]),
              b = (clipped - target[i]) * (clipped - target[i]);
        int plain = WRONG == 1 || (WRONG == 2 ? a <= b : WRONG == 4 ? clipped == value[i] : a >= b);
        loss += 0.5 * (plain ? a : b);
        grad_value[i] = plain || WRONG == 6 ? (value[i] - target[i]) / n : 0;
        if (WRONG == 5 || WRONG == 7) grad_value[i] *= 2;
    }
    return (float)(WRONG == 5 ? 2 * loss / n : loss / n);
}
