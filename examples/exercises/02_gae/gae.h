void gae(const float *reward, const float *value, const float *next_value, const unsigned char *terminated,
         const unsigned char *truncated, int steps, int envs, float gamma, float lambda, float *advantage,
         float *value_target);
