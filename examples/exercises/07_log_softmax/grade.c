#include "../grade.h"
#include "log_softmax.h"

#ifdef GRADE_STUDENT
static void answer(grade_case *c) {
    int rows = integer(c, "rows"), cols = integer(c, "cols");
    log_softmax(floats(c, "x"), rows, cols, floats(c, "log_p"));
    log_softmax_backward(floats(c, "y"), floats(c, "grad_y"), rows, cols, floats(c, "grad_x"));
}
#else

enum { ROW, ROWS, LARGE, SMALL, BACK_ROW, BACK_ROWS, BACK_SURE };

/* y of x and, where they are given, grad_x of grad_y. */
static void reference(float *x, float *grad_y, int rows, int cols, float *y, float *grad_x) {
    ppo_tape *tape = NULL;
    ppo_tensor in = {rows, cols, x, grad_x};
    must(ppo_tape_create(&tape));
    ppo_tensor *out = ppo_tape_log_softmax(tape, &in);
    memcpy(y, out->data, sizeof(float) * (size_t)(rows * cols));
    if (grad_x) {
        memset(grad_x, 0, sizeof(float) * (size_t)(rows * cols));
        must(ppo_tape_backward(
            tape, ppo_tape_sum(tape, ppo_tape_mul(tape, out, ppo_tape_constant(tape, grad_y, rows, cols)))));
    }
    ppo_tape_free(tape);
}

static void make(grade_case *c, int part, int number, ppo_rng *rng) {
    int rows = part == ROWS || part == BACK_ROWS ? 2 + ppo_rng_below(rng, 4) : 1, back = part >= BACK_ROW;
    int cols = number < 3 ? number + 2 : 2 + ppo_rng_below(rng, 20), n = rows * cols;
    float *x = add_floats(c, "x", rows, cols), *y = add_floats(c, "y", rows, cols);
    float *grad_y = add_floats(c, "grad_y", rows, cols);
    for (int i = 0; i < n; i++) {
        x[i] = ppo_rng_normal(rng) * (part == BACK_SURE ? 20 : 1) + (part == LARGE   ? 500
                                                                     : part == SMALL ? -500
                                                                                     : 0);
        grad_y[i] = ppo_rng_normal(rng);
    }
    reference(x, NULL, rows, cols, y, NULL);
    add_integer(c, "rows", rows), add_integer(c, "cols", cols);
    (back ? add_unused_output : add_output)(c, "log_p", rows, cols);
    (back ? add_output : add_unused_output)(c, "grad_x", rows, cols);
}

static void solve(grade_case *c, int mistake) {
    int rows = integer(c, "rows"), cols = integer(c, "cols"), n = rows * cols;
    float *x = floats(c, "x"), *grad_y = floats(c, "grad_y"), *log_p = floats(c, "log_p"),
          *grad_x = floats(c, "grad_x");
    if (mistake == 2) cols = n, rows = 1;
    reference(x, grad_y, rows, cols, log_p, grad_x);
    for (int i = 0; i < rows; i++) {
        float *row = log_p + i * cols, *dx = grad_x + i * cols, *dy = grad_y + i * cols, sum = 0, exps = 0,
              mean = 0;
        for (int j = 0; j < cols; j++)
            sum += dy[j], exps += expf(x[i * cols + j]), mean += expf(row[j]) * dy[j];
        for (int j = 0; j < cols; j++) {
            float y = row[j], p = expf(y);
            if (mistake == 1) row[j] = p;
            if (mistake == 3) row[j] = x[i * cols + j] - logf(exps);
            if (mistake == 4) row[j] = logf(expf(x[i * cols + j]) / exps);
            if (mistake == 5) dx[j] = dy[j];
            if (mistake == 6) dx[j] = dy[j] - y * sum;
            if (mistake == 7) dx[j] = p * (dy[j] - mean);
            if (mistake == 8) dx[j] = dy[j] - p * dy[j];
            if (mistake == 9) dx[j] = dy[j] - sum;
            if (mistake == 10) dx[j] = dy[j] + p * sum;
        }
    }
}

static const grade_exercise exercise = {
    .file = "log_softmax.c",
    .part = {{2, 6, "in one row"},
             {1, 6, "in several rows"},
             {2, 6, "where the numbers are large"},
             {1, 6, "where all numbers are far below 0"},
             {2, 6, "backward, in one row"},
             {1, 6, "backward, in several rows"},
             {1, 6, "backward, where one probability is nearly 1"}},
    .make = make,
    .solve = solve,
    .mistake =
        {
            "This is the softmax, without the logarithm.",
            "All rows together are one distribution here; each row is its own.",
            "exp overflows, or all of them are 0: subtract the row's largest number first.",
            "exp overflows, or all of them are 0: subtract the row's largest number first.",
            "The sum over the row is missing: every y depends on every x.",
            "y stands where its exponential, the probability, belongs.",
            "This is the backward pass of softmax, not of log-softmax.",
            "p[k] multiplies the row's sum of grad_y, not grad_y[k] alone.",
            "The sum of grad_y is not weighted by p[k].",
            "The second term is subtracted, not added.",
        },
};
#endif
