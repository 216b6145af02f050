float clipped_loss(const float *logp, const float *old_logp, const float *advantage, int n, float clip,
                   float *grad_logp);
