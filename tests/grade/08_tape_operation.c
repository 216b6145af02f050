/* wrong 1: 8 backward must add to it */
/* wrong 2: 9 is NULL): it crashed */
/* wrong 3: 7 The gradient of b has the wrong sign */
/* wrong 4: 2 out.0.->grad is not used */
/* wrong 5: 0 The differences are not squared */
/* wrong 6: 2 is half as large */
/* wrong 7: 0 refused: it uses ppo_tape_square() */
/* wrong 8: 2 Only the first row has a gradient */
#include "tape_operation.h"

static ppo_status forward(ppo_node *node) {
    int cols = node->in[0]->cols;
    for (int i = 0; i < node->in[0]->rows; i++) {
        float sum = 0;
        for (int j = 0; j < cols; j++) {
            float d = node->in[0]->data[i * cols + j] - node->in[1]->data[i * cols + j];
            sum += WRONG == 5 ? d : d * d;
        }
        node->out[0]->data[i] = sum;
    }
    return PPO_OK;
}

static void backward(ppo_node *node) {
    int cols = node->in[0]->cols, rows = WRONG == 8 ? 1 : node->in[0]->rows;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) {
            float d = node->in[0]->data[i * cols + j] - node->in[1]->data[i * cols + j];
            float step = (WRONG == 6 ? 1 : 2) * d * (WRONG == 4 ? 1 : node->out[0]->grad[i]);
            if (WRONG == 5) step = node->out[0]->grad[i];
            float *a = node->in[0]->grad, *b = node->in[1]->grad;
            if (WRONG == 1 && a) a[i * cols + j] = 0;
            if (a || WRONG == 2) a[i * cols + j] += step;
            if (b) b[i * cols + j] += WRONG == 3 ? step : -step;
        }
}

ppo_tensor *tape_squared_distance(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b) {
    static const ppo_op op = {"squared distance", 1, forward, backward};
    ppo_tensor *in[2] = {a, b};
#if WRONG == 7
    return ppo_tape_square(tape, a);
#endif
    return ppo_tape_result(ppo_tape_apply(tape, &op, in, 2, a->rows, 1, NULL, 0));
}
