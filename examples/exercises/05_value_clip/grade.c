#include "../grade.h"
#include "value_clip.h"

#ifdef GRADE_STUDENT
static void answer(grade_case *c) {
    *floats(c, "loss") = value_loss(floats(c, "value"), floats(c, "old_value"), floats(c, "target"),
                                    integer(c, "n"), number(c, "clip_range"), floats(c, "grad_value"));
}
#else

enum { PLAIN, NEAR, TOWARDS, AWAY, PLAIN_GRADIENT, GRADIENT };

static void make(grade_case *c, int part, int number, ppo_rng *rng) {
    int n = number < 3 ? number + 1 : 1 + ppo_rng_below(rng, 30), gradient = part >= PLAIN_GRADIENT;
    float *value = add_floats(c, "value", n, 1), *old_value = add_floats(c, "old_value", n, 1);
    float *target = add_floats(c, "target", n, 1), range = ppo_rng_range(rng, 0.1f, 0.3f);
    for (int i = 0; i < n; i++) {
        int kind = part == GRADIENT ? NEAR + ppo_rng_below(rng, 3) : part;
        float up = ppo_rng_below(rng, 2) ? 1.0f : -1.0f;
        old_value[i] = ppo_rng_normal(rng);
        target[i] = old_value[i] + up * ppo_rng_range(rng, 1.5f, 3);
        value[i] = old_value[i] + up * (kind == TOWARDS ? ppo_rng_range(rng, 0.4f, 1)
                                        : kind == AWAY  ? ppo_rng_range(rng, -1, -0.4f)
                                                        : ppo_rng_range(rng, -0.09f, 0.09f));
        if (kind == PLAIN || kind == PLAIN_GRADIENT) value[i] = ppo_rng_normal(rng);
    }
    add_integer(c, "n", n), add_number(c, "clip_range", part == PLAIN || part == PLAIN_GRADIENT ? 0 : range);
    (gradient ? add_unused_output : add_output)(c, "loss", 1, 1);
    (gradient ? add_output : add_unused_output)(c, "grad_value", n, 1);
}

static void solve(grade_case *c, int mistake) {
    int n = integer(c, "n");
    float *value = floats(c, "value"), *old_value = floats(c, "old_value"), *target = floats(c, "target");
    float *grad = floats(c, "grad_value"), range = number(c, "clip_range"), *loss = floats(c, "loss");
    float only[64], only_grad[64], plain_grad[64], only_loss, plain_loss,
        clip_all = range > 0 ? range : INFINITY;
    for (int i = 0; i < n; i++)
        only[i] = fminf(fmaxf(value[i], old_value[i] - clip_all), old_value[i] + clip_all);
    must(ppo_value_loss(value, NULL, target, NULL, n, 0, &plain_loss, plain_grad));
    must(ppo_value_loss(only, NULL, target, NULL, n, 0, &only_loss, only_grad));
    must(ppo_value_loss(value, old_value, target, NULL, n,
                        mistake == 1                 ? 0
                        : mistake == 8 && range == 0 ? 1e-9f
                                                     : range,
                        loss, grad));
    if (mistake == 2) *loss = only_loss;
    if (mistake == 3) *loss = plain_loss + only_loss - *loss;
    for (int i = 0; i < n; i++) {
        if (only[i] != value[i]) only_grad[i] = 0;
        if (mistake == 2) grad[i] = only_grad[i];
        if (mistake == 3) grad[i] = plain_grad[i] + only_grad[i] - grad[i];
        if (mistake == 4) grad[i] = plain_grad[i];
        if (mistake == 5 && grad[i] == 0) grad[i] = (only[i] - target[i]) / (float)n;
        if (mistake == 6) grad[i] *= 2;
    }
    if (mistake == 7)
        for (int i = 0; i < n; i++) grad[i] = -grad[i];
}

static const grade_exercise exercise = {
    .file = "value_clip.c",
    .part = {{2, 6, "in the loss where clip_range is 0"},
             {1, 6, "in the loss where the value moved by less than clip_range"},
             {2, 8, "in the loss where the value moved far towards the target"},
             {1, 8, "in the loss where the value moved far away from the target"},
             {2, 6, "in the gradient where clip_range is 0"},
             {2, 8, "in the gradient with the clip"}},
    .make = make,
    .solve = solve,
    .mistake =
        {
            "Nothing is clipped, or the value is clipped around the target, which has no effect: it is "
            "around "
            "old_value.",
            "The clipped error alone is used: without the maximum, a value that moved away is not pulled "
            "back.",
            "The smaller of the two errors is taken; a loss takes the larger one.",
            "The gradient is 0 where the clipped error is the larger one: it does not depend on value.",
            "The gradient is 0, not clipped - target, where the clipped error is the larger one.",
            "The gradient is twice as large as it should be: the loss is half of a square.",
            "The gradient has the wrong sign: a value above its target must fall.",
            "clip_range 0 clips everything; it means that nothing is clipped.",
        },
};
#endif
