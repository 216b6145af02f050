void log_softmax(const float *x, int rows, int cols, float *y);
void log_softmax_backward(const float *y, const float *grad_y, int rows, int cols, float *grad_x);
