#include "../grade.h"
#include "tape_operation.h"

/* loss = sum(weight distance(a, b)) + sum(other a), the latter with `again`; the gradients that are wanted */
static void differentiate(grade_case *c, ppo_tensor *(*distance)(ppo_tape *, ppo_tensor *, ppo_tensor *)) {
    int rows = integer(c, "rows"), cols = integer(c, "cols");
    float *grad_a = floats(c, "grad_a"), *grad_b = floats(c, "grad_b");
    ppo_tensor a = {rows, cols, floats(c, "a"), integer(c, "a_has_gradient") ? grad_a : NULL};
    ppo_tensor b = {rows, cols, floats(c, "b"), integer(c, "b_has_gradient") ? grad_b : NULL};
    ppo_tape *tape = NULL;
    if (ppo_tape_create(&tape)) return;
    ppo_tensor *out = distance(tape, &a, &b);
    if (out && out->rows == rows && out->cols == 1) {
        memcpy(floats(c, "out"), out->data, sizeof(float) * (size_t)rows);
        ppo_tensor *loss = ppo_tape_sum(
            tape, ppo_tape_mul(tape, out, ppo_tape_constant(tape, floats(c, "weight"), rows, 1)));
        if (integer(c, "again")) {
            ppo_tensor *other = ppo_tape_constant(tape, floats(c, "other"), rows, cols);
            loss = ppo_tape_add(tape, loss, ppo_tape_sum(tape, ppo_tape_mul(tape, &a, other)));
        }
        memset(grad_a, 0, sizeof(float) * (size_t)(rows * cols)),
            memset(grad_b, 0, sizeof(float) * (size_t)(rows * cols));
        ppo_tape_backward(tape, loss);
    }
    ppo_tape_free(tape);
}

#ifdef GRADE_STUDENT
static void answer(grade_case *c) { differentiate(c, tape_squared_distance); }
#else

enum { FORWARD, OF_A, OF_B, NONE, AGAIN };

static void make(grade_case *c, int part, int number, ppo_rng *rng) {
    int rows = number < 2 ? number + 1 : 1 + ppo_rng_below(rng, 5),
        cols = number < 2 ? 2 : 2 + ppo_rng_below(rng, 5);
    int n = rows * cols, none = part == NONE ? 1 + number % 2 : 0;
    float *a = add_floats(c, "a", rows, cols), *b = add_floats(c, "b", rows, cols),
          *w = add_floats(c, "weight", rows, 1);
    float *other = add_floats(c, "other", rows, cols);
    for (int i = 0; i < n; i++)
        a[i] = ppo_rng_normal(rng), b[i] = ppo_rng_normal(rng), other[i] = ppo_rng_normal(rng);
    for (int i = 0; i < rows; i++) w[i] = ppo_rng_range(rng, 0.5f, 2);
    add_integer(c, "rows", rows), add_integer(c, "cols", cols), add_integer(c, "again", part == AGAIN);
    add_integer(c, "a_has_gradient", part != FORWARD && none != 1);
    add_integer(c, "b_has_gradient", part != FORWARD && none != 2);
    (part == FORWARD ? add_output : add_unused_output)(c, "out", rows, 1);
    (part == OF_A || part == NONE || part == AGAIN ? add_output : add_unused_output)(c, "grad_a", rows, cols);
    (part == OF_B || part == NONE ? add_output : add_unused_output)(c, "grad_b", rows, cols);
}

static int mistaken; /* what composed() does wrong */

static ppo_tensor *composed(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b) {
    static float ones[64];
    for (int j = 0; j < 64; j++) ones[j] = mistaken == 4 && j ? 0 : 1;
    ppo_tensor *x = ppo_tape_sub(tape, a, b);
    x = mistaken == 5   ? ppo_tape_max(tape, x, ppo_tape_scale(tape, x, -1, 0))
        : mistaken == 6 ? x
                        : ppo_tape_square(tape, x);
    x = ppo_tape_matmul(tape, x, ppo_tape_constant(tape, ones, a->cols, 1));
    return mistaken == 7 ? ppo_tape_exp(tape, ppo_tape_scale(tape, ppo_tape_log(tape, x), 0.5f, 0)) : x;
}

static void solve(grade_case *c, int mistake) {
    int rows = integer(c, "rows"), n = rows * integer(c, "cols");
    if (mistake == 1) *integers(c, "again") = 0;
    for (int i = 0; mistake == 3 && i < rows; i++) floats(c, "weight")[i] = 1;
    mistaken = mistake;
    differentiate(c, composed);
    for (int i = 0; mistake == 2 && i < n; i++) floats(c, "grad_b")[i] *= -1;
    for (int i = 0; mistake == 8 && i < n; i++) floats(c, "grad_a")[i] *= -1;
    for (int i = 1; mistake == 9 && i < n; i++) floats(c, "grad_a")[i] *= i < integer(c, "cols");
}

static const grade_exercise exercise = {
    .file = "tape_operation.c",
    .part = {{2, 6, "in the forward pass"},
             {3, 6, "in the gradient of a"},
             {2, 6, "in the gradient of b"},
             {1, 6, "where a or b has no gradient (in[k]->grad is NULL)"},
             {2, 6, "where a is used elsewhere, too"}},
    .make = make,
    .solve = solve,
    .allowed = "ppo_tape_apply ppo_tape_result ppo_tape_alloc ppo_fail",
    .mistake =
        {
            "The gradient replaces what is there: backward must add to it, with +=.",
            "The gradient of b has the wrong sign: it is minus that of a.",
            "out[0]->grad is not used: it says how much each row counts in the loss.",
            "Only the first column counts.",
            "This is the sum of absolute differences; squares are asked for.",
            "The differences are not squared.",
            "This is the distance; the squared distance has no root.",
            "The gradient of a has the wrong sign.",
            "Only the first row has a gradient.",
        },
};
#endif
