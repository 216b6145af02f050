void returns(const float *reward, const unsigned char *terminated, int steps, float gamma, float last_value,
             float *g);
