float preference_loss(const float *chosen, const float *rejected, int n, float *grad_chosen,
                      float *grad_rejected);
