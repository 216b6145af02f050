#include "../grade.h"
#include "preference.h"

#ifdef GRADE_STUDENT
static void answer(grade_case *c) {
    *floats(c, "loss") = preference_loss(floats(c, "chosen"), floats(c, "rejected"), integer(c, "n"),
                                         floats(c, "grad_chosen"), floats(c, "grad_rejected"));
}
#else

enum { LOSS, SURE, WRONG, CHOSEN, REJECTED, FAR };

static void make(grade_case *c, int part, int number, ppo_rng *rng) {
    int n = number < 3 ? number + 1 : 1 + ppo_rng_below(rng, 30);
    float *chosen = add_floats(c, "chosen", n, 1), *rejected = add_floats(c, "rejected", n, 1);
    for (int i = 0; i < n; i++) {
        float sign = part == SURE                           ? 1.0f
                     : part == WRONG                        ? -1.0f
                     : part == FAR && ppo_rng_below(rng, 2) ? 1.0f
                                                            : -1.0f;
        rejected[i] = ppo_rng_normal(rng);
        chosen[i] = part == SURE || part == WRONG || part == FAR
                        ? rejected[i] + sign * ppo_rng_range(rng, 100, 200)
                        : ppo_rng_normal(rng);
    }
    if (part == SURE) chosen[0] = rejected[0] + 1; /* so that the right loss is not 0 */
    if (part == FAR) chosen[n - 1] = rejected[n - 1] - 150;
    add_integer(c, "n", n);
    (part <= WRONG ? add_output : add_unused_output)(c, "loss", 1, 1);
    (part == CHOSEN || part == FAR ? add_output : add_unused_output)(c, "grad_chosen", n, 1);
    (part == REJECTED || part == FAR ? add_output : add_unused_output)(c, "grad_rejected", n, 1);
}

static void solve(grade_case *c, int mistake) {
    int n = integer(c, "n");
    float *chosen = floats(c, "chosen"), *rejected = floats(c, "rejected"), *loss = floats(c, "loss");
    float *up = floats(c, "grad_chosen"), *down = floats(c, "grad_rejected"), sum = 0;
    must(mistake == 1 ? ppo_pairwise_loss(rejected, chosen, n, loss, down, up)
                      : ppo_pairwise_loss(chosen, rejected, n, loss, up, down));
    for (int i = 0; i < n; i++) {
        float d = chosen[i] - rejected[i], p = 1 / (1 + expf(-d)), q = expf(d) / (1 + expf(d));
        if (mistake == 2) sum -= logf(p);
        if (mistake == 3) sum -= logf(q);
        if (mistake == 4) sum += logf(1 + expf(-d));
        if (mistake == 5) sum -= p;
        if (mistake == 6) sum += fmaxf(0, 1 - d);
        if (mistake == 7) up[i] = -p / (float)n, down[i] = -up[i];
        if (mistake == 8) down[i] = up[i];
        if (mistake == 9) up[i] = -up[i], down[i] = -down[i];
        if (mistake == 10) up[i] = (p - 1) * p / (float)n, down[i] = -up[i];
        if (mistake == 11) up[i] = (q - 1) / (float)n, down[i] = -up[i];
    }
    if (mistake >= 2 && mistake <= 6) *loss = sum / (float)n;
}

#define OVERFLOWS "exp overflows, or a probability of 0 gets a logarithm: rearrange the formula first."
static const grade_exercise exercise = {
    .file = "preference.c",
    .part = {{2, 8, "in the loss"},
             {1, 6, "in the loss where the model is sure and right"},
             {2, 6, "in the loss where the model is sure and wrong"},
             {2, 8, "in the gradient for chosen"},
             {2, 8, "in the gradient for rejected"},
             {1, 6, "in the gradients where scores are far apart"}},
    .make = make,
    .solve = solve,
    .mistake =
        {
            "chosen and rejected are exchanged.",
            OVERFLOWS,
            OVERFLOWS,
            OVERFLOWS,
            "The logarithm is missing: this is minus the probability.",
            "This is a hinge loss, max(0, 1 - d); Bradley and Terry's is -log sigmoid(d).",
            "The gradient is -sigmoid(-d), not -sigmoid(d): pairs that are right already need no push.",
            "grad_rejected has the sign of grad_chosen; the loss depends on the difference.",
            "The gradients have the wrong sign: a higher score for chosen makes the loss smaller.",
            "The gradient is that of the probability; the logarithm divides it by the probability.",
            OVERFLOWS,
        },
};
#endif
