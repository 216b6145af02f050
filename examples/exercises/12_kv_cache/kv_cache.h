void attend(const float *q, const float *k, const float *v, int position, int capacity, int heads, int size,
            float *cache_k, float *cache_v, float *out);
