/* wrong 1: 8 Truncated steps are treated as terminated ones */
/* wrong 2: 7 Terminated steps are treated as truncated ones */
/* wrong 3: 8 The advantage of the next episode reaches back over a truncated step */
/* wrong 4: 8 stands in for next_value */
/* wrong 5: 0 lambda is left out */
/* wrong 6: 9 value_target is the advantage */
/* wrong 7: 8 The environments are mixed */
/* wrong 8: 8 step t of environment e is number */
/* wrong 9: 8 goes on into the next one */
#include "gae.h"

void gae(const float *reward, const float *value, const float *next_value, const unsigned char *terminated,
         const unsigned char *truncated, int steps, int envs, float gamma, float lambda, float *advantage,
         float *value_target) {
    if (WRONG == 7) steps *= envs, envs = 1;
    float next = 0;
    for (int e = 0; e < envs; e++) {
        if (WRONG != 9) next = 0;
        for (int t = steps - 1; t >= 0; t--) {
            int i = WRONG == 8 ? e * steps + t : t * envs + e;
            int ended = WRONG == 1 ? terminated[i] || truncated[i] : WRONG == 2 ? 0 : terminated[i];
            int done = WRONG == 3 ? terminated[i] : terminated[i] || truncated[i];
            float after = WRONG == 4 && t < steps - 1 ? value[i + envs] : next_value[i];
            float delta = reward[i] + (ended ? 0 : gamma * after) - value[i];
            next = delta + (done ? 0 : gamma * (WRONG == 5 ? 1 : lambda) * next);
            advantage[i] = next;
            value_target[i] = WRONG == 6 ? next : next + value[i];
        }
    }
}
