int sample_token(const float *logits, int vocab, float u);
void group_advantages(const float *score, int groups, int group_size, float *advantage);
float grpo_step(float *theta, const int *start, const int *token, const unsigned char *mask,
                const float *old_logp, const float *ref_logp, const float *advantage, int n, int length,
                int vocab, float clip, float kl_coef, float lr);
