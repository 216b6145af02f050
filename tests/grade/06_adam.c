/* wrong 1: 2 without their correction by 1 - beta^step */
/* wrong 2: 7 eps is inside the square root */
/* wrong 3: 8 The weight decay is added to the gradient */
/* wrong 4: 2 counted one too far */
/* wrong 5: 2 The root of v_hat is missing */
/* wrong 6: 2 The step goes uphill */
/* wrong 7: 8 The weight decay is not multiplied by lr */
/* wrong 8: 2 v is used without its correction */
/* wrong 9: 8 m_hat and v_hat are kept */
#include "adam.h"

#include <math.h>

void adam_step(float *param, const float *grad, float *m, float *v, int n, float lr, float beta1, float beta2,
               float eps, float weight_decay, int step) {
    if (WRONG == 4) step++;
    for (int i = 0; i < n; i++) {
        float g = grad[i] + (WRONG == 3 ? weight_decay * param[i] : 0);
        m[i] = beta1 * m[i] + (1 - beta1) * g;
        v[i] = beta2 * v[i] + (1 - beta2) * g * g;
        float m_hat = m[i] / (1 - powf(beta1, (float)step)), v_hat = v[i] / (1 - powf(beta2, (float)step));
        if (WRONG == 9) m[i] = m_hat, v[i] = v_hat;
        if (WRONG == 1) m_hat = m[i];
        if (WRONG == 1 || WRONG == 8) v_hat = v[i];
        if (WRONG != 3) param[i] -= (WRONG == 7 ? 1 : lr) * weight_decay * param[i];
        float root = WRONG == 2 ? sqrtf(v_hat + eps) : (WRONG == 5 ? v_hat : sqrtf(v_hat)) + eps;
        param[i] -= (WRONG == 6 ? -lr : lr) * m_hat / root;
    }
}
