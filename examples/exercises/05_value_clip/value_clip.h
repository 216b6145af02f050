float value_loss(const float *value, const float *old_value, const float *target, int n, float clip_range,
                 float *grad_value);
