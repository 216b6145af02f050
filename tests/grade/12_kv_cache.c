/* wrong 1: 1 not divided by sqrt(size) */
/* wrong 2: 1 Only the newest token is attended to */
/* wrong 3: 8 divided by the root of heads . size */
/* wrong 4: 8 The heads are not apart */
/* wrong 5: 0 Rows of the cache beyond position */
/* wrong 6: 8 exp overflows at 88.7 */
/* wrong 7: 1 it crashed */
#include "kv_cache.h"

#include <math.h>

void attend(const float *q, const float *k, const float *v, int position, int capacity, int heads, int size,
            float *cache_k, float *cache_v, float *out) {
    int width = heads * size, row = WRONG == 2 ? 0 : WRONG == 7 ? position * width : position;
    for (int j = 0; j < width; j++) cache_k[row * width + j] = k[j], cache_v[row * width + j] = v[j];
    if (WRONG == 4) size = width, heads = 1;
    int count = WRONG == 2 ? 1 : WRONG == 5 ? capacity : position + 1;
    for (int h = 0; h < heads; h++) {
        float score[64], largest = -INFINITY, sum = 0;
        for (int t = 0; t < count; t++) {
            score[t] = 0;
            for (int j = h * size; j < (h + 1) * size; j++) score[t] += q[j] * cache_k[t * width + j];
            if (WRONG != 1) score[t] /= sqrtf((float)(WRONG == 3 ? width : size));
            largest = fmaxf(largest, score[t]);
        }
        if (WRONG == 6) largest = 0;
        for (int t = 0; t < count; t++) sum += expf(score[t] - largest);
        for (int j = h * size; j < (h + 1) * size; j++) {
            out[j] = 0;
            for (int t = 0; t < count; t++) out[j] += expf(score[t] - largest) / sum * cache_v[t * width + j];
        }
    }
}
