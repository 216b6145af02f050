void adam_step(float *param, const float *grad, float *m, float *v, int n, float lr, float beta1, float beta2,
               float eps, float weight_decay, int step);
