float kl_penalty_loss(const float *logp, const float *old_logp, const float *advantage, int n, float coef,
                      float *grad_logp);
float adapt_coef(float coef, float kl, float target);
