#include "../grade.h"
#include "adam.h"

#ifdef GRADE_STUDENT
static void answer(grade_case *c) {
    adam_step(copy_input(c, "new_param", "param"), floats(c, "grad"), copy_input(c, "new_m", "m"),
              copy_input(c, "new_v", "v"), integer(c, "n"), number(c, "lr"), number(c, "beta1"),
              number(c, "beta2"), number(c, "eps"), number(c, "weight_decay"), integer(c, "step"));
}
#else

enum { MOMENTS, FIRST, LATER, TINY, DECAY };

static void make(grade_case *c, int part, int number, ppo_rng *rng) {
    int n = number < 3 ? number + 1 : 1 + ppo_rng_below(rng, 20), first = part == FIRST;
    float *param = add_floats(c, "param", n, 1), *grad = add_floats(c, "grad", n, 1);
    float *m = add_floats(c, "m", n, 1), *v = add_floats(c, "v", n, 1), size = part == TINY ? 1e-3f : 1;
    for (int i = 0; i < n; i++) {
        param[i] = ppo_rng_normal(rng), grad[i] = size * (ppo_rng_normal(rng) + 0.1f);
        if (!first)
            m[i] = size * 0.3f * ppo_rng_normal(rng), v[i] = size * size * ppo_rng_range(rng, 0.01f, 0.2f);
    }
    add_integer(c, "n", n), add_number(c, "lr", ppo_rng_range(rng, 0.1f, 1));
    add_number(c, "beta1", ppo_rng_range(rng, 0.7f, 0.9f)),
        add_number(c, "beta2", ppo_rng_range(rng, 0.95f, 0.99f));
    add_number(c, "eps", part == TINY ? 1e-3f : 1e-5f);
    add_number(c, "weight_decay", part == DECAY ? ppo_rng_range(rng, 0.1f, 0.5f) : 0);
    add_integer(c, "step", first ? 1 : 2 + ppo_rng_below(rng, 10));
    (part == MOMENTS ? add_unused_output : add_output)(c, "new_param", n, 1);
    (part == MOMENTS ? add_output : add_unused_output)(c, "new_m", n, 1);
    (part == MOMENTS ? add_output : add_unused_output)(c, "new_v", n, 1);
}

static void solve(grade_case *c, int mistake) {
    int n = integer(c, "n");
    int64_t step = integer(c, "step");
    float *param = floats(c, "param"), *grad = floats(c, "grad"), *new_param = floats(c, "new_param");
    float *m = floats(c, "new_m"), *v = floats(c, "new_v");
    ppo_adam how = {number(c, "lr"), number(c, "beta1"), number(c, "beta2"), number(c, "eps"),
                    number(c, "weight_decay")};
    float lr = how.lr, decay = how.weight_decay, power2 = 1 - powf(how.beta2, (float)step);
    if (mistake == 1 || mistake == 2) step = 100000;
    if (mistake == 2) how.lr /= 1 - powf(how.beta1, (float)integer(c, "step"));
    if (mistake == 2) how.weight_decay *= lr / how.lr;
    if (mistake == 3) how.weight_decay = 0;
    if (mistake == 4) how.weight_decay = decay / lr;
    if (mistake == 6) step++;
    if (mistake == 7 && step > 1) step--;
    if (mistake == 9) how.beta1 = number(c, "beta2"), how.beta2 = number(c, "beta1");
    for (int i = 0; i < n; i++) {
        new_param[i] = param[i], m[i] = floats(c, "m")[i], v[i] = floats(c, "v")[i];
        float g = mistake == 5 ? grad[i] + decay * param[i] : grad[i], was_m = m[i], was_v = v[i];
        if (mistake == 5) how.weight_decay = 0;
        if (mistake == 8 || mistake == 10) { /* the eps for which the library's step is the mistaken one */
            float hat = (how.beta2 * v[i] + (1 - how.beta2) * g * g) / power2;
            how.eps = (mistake == 8 ? sqrtf(hat + number(c, "eps")) : hat + number(c, "eps")) - sqrtf(hat);
        }
        ppo_adam_step(&new_param[i], &g, &m[i], &v[i], 1, &how, step);
        if (mistake == 11) new_param[i] = 2 * param[i] - new_param[i];
        if (mistake == 12) m[i] = how.beta1 * was_m + grad[i], v[i] = how.beta2 * was_v + grad[i] * grad[i];
        if (mistake == 13) m[i] /= 1 - powf(how.beta1, (float)step), v[i] /= power2;
    }
}

static const grade_exercise exercise = {
    .file = "adam.c",
    .part = {{2, 6, "in m and v"},
             {2, 6, "in the first step"},
             {3, 8, "in later steps"},
             {1, 6, "where the gradient is as small as eps"},
             {2, 8, "with weight_decay"}},
    .make = make,
    .solve = solve,
    .mistake =
        {
            "m and v are used without their correction by 1 - beta^step.",
            "v is used without its correction by 1 - beta2^step.",
            "The weight decay is missing.",
            "The weight decay is not multiplied by lr.",
            "The weight decay is added to the gradient (L2 regularization): in AdamW it passes m and v by.",
            "The step is counted one too far: the first is 1, and the correction uses it as it is.",
            "The step is counted one too short: the first is 1, and the correction uses it as it is.",
            "eps is inside the square root; it is added to the root.",
            "beta1 and beta2 are exchanged.",
            "The root of v_hat is missing.",
            "The step goes uphill: it is subtracted from the parameter.",
            "m and v are sums: the new gradient counts by 1 - beta.",
            "m_hat and v_hat are kept as m and v: the correction is for the step alone.",
        },
};
#endif
