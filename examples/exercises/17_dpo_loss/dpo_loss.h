float dpo_loss(const float *chosen, const float *rejected, const float *ref_chosen, const float *ref_rejected,
               int n, float beta, float *grad_chosen, float *grad_rejected);
