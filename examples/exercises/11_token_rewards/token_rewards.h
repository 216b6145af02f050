void token_rewards(const float *logp, const float *ref_logp, const unsigned char *mask, const float *score,
                   const unsigned char *ended, int n, int length, float coef, float missing_eos_penalty,
                   float *reward);
