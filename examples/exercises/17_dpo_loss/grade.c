#include "../grade.h"
#include "dpo_loss.h"

#ifdef GRADE_STUDENT
static void answer(grade_case *c) {
    *floats(c, "loss") = dpo_loss(floats(c, "chosen"), floats(c, "rejected"), floats(c, "ref_chosen"),
                                  floats(c, "ref_rejected"), integer(c, "n"), number(c, "beta"),
                                  floats(c, "grad_chosen"), floats(c, "grad_rejected"));
}
#else

enum { LOSS, FAR, CHOSEN, REJECTED };

static void make(grade_case *c, int part, int number, ppo_rng *rng) {
    int n = number < 3 ? number + 1 : 1 + ppo_rng_below(rng, 30);
    float *chosen = add_floats(c, "chosen", n, 1), *rejected = add_floats(c, "rejected", n, 1);
    float *ref_chosen = add_floats(c, "ref_chosen", n, 1),
          *ref_rejected = add_floats(c, "ref_rejected", n, 1);
    for (int i = 0; i < n; i++) {
        ref_chosen[i] = ppo_rng_range(rng, -6, -2), ref_rejected[i] = ppo_rng_range(rng, -6, -2);
        chosen[i] = ref_chosen[i] + ppo_rng_normal(rng), rejected[i] = ref_rejected[i] + ppo_rng_normal(rng);
        if (part == FAR)
            rejected[i] += (ppo_rng_below(rng, 2) && i ? -1.0f : 1.0f) * ppo_rng_range(rng, 500, 900);
    }
    add_integer(c, "n", n), add_number(c, "beta", ppo_rng_range(rng, 0.2f, 0.8f));
    (part <= FAR ? add_output : add_unused_output)(c, "loss", 1, 1);
    (part == CHOSEN || part == FAR ? add_output : add_unused_output)(c, "grad_chosen", n, 1);
    (part == REJECTED || part == FAR ? add_output : add_unused_output)(c, "grad_rejected", n, 1);
}

static void solve(grade_case *c, int mistake) {
    int n = integer(c, "n");
    float *chosen = floats(c, "chosen"), *rejected = floats(c, "rejected"), *up = floats(c, "grad_chosen");
    float *ref_chosen = floats(c, "ref_chosen"), *ref_rejected = floats(c, "ref_rejected"),
          *down = floats(c, "grad_rejected");
    float beta = number(c, "beta"), sum = 0;
    for (int i = 0; i < n; i++) {
        if (mistake == 1) ref_chosen[i] = ref_rejected[i] = 0;
        if (mistake == 2) ref_chosen[i] = -ref_chosen[i], ref_rejected[i] = -ref_rejected[i];
        if (mistake == 12) rejected[i] = ref_rejected[i];
    }
    must(mistake == 3 ? ppo_dpo_loss(rejected, chosen, ref_rejected, ref_chosen, n, beta, 0,
                                     floats(c, "loss"), down, up)
                      : ppo_dpo_loss(chosen, rejected, ref_chosen, ref_rejected, n, mistake == 4 ? 1 : beta,
                                     0, floats(c, "loss"), up, down));
    for (int i = 0; i < n; i++) {
        float d = beta * ((chosen[i] - ref_chosen[i]) - (rejected[i] - ref_rejected[i])),
              p = 1 / (1 + expf(-d));
        if (mistake == 5) up[i] /= beta, down[i] /= beta;
        if (mistake == 6) down[i] = up[i];
        if (mistake == 7) up[i] = -up[i], down[i] = -down[i];
        if (mistake == 8) up[i] = -beta * p / (float)n, down[i] = -up[i];
        if (mistake == 9) sum -= logf(p);
        if (mistake == 10) sum -= p;
        if (mistake == 11) sum += logf(1 + expf(-d));
    }
    if (mistake >= 9 && mistake <= 11) *floats(c, "loss") = sum / (float)n;
}

#define OVERFLOWS "exp overflows, or a probability of 0 gets a logarithm: rearrange the formula first."
static const grade_exercise exercise = {
    .file = "dpo_loss.c",
    .part = {{3, 8, "in the loss"},
             {2, 6, "where margins are hundreds"},
             {3, 8, "in the gradient for chosen"},
             {2, 8, "in the gradient for rejected"}},
    .make = make,
    .solve = solve,
    .mistake =
        {
            "The reference is missing: what counts is how far the policy moved from it.",
            "The reference is added; it is subtracted.",
            "chosen and rejected are exchanged.",
            "beta is missing.",
            "beta is missing in the gradient.",
            "grad_rejected has the sign of grad_chosen; the loss depends on the difference.",
            "The gradients have the wrong sign: a larger margin makes the loss smaller.",
            "The gradient is -beta sigmoid(-d), not -beta sigmoid(d): pairs that are right already need no "
            "push.",
            OVERFLOWS,
            "The logarithm is missing: this is minus the probability.",
            OVERFLOWS,
            "The rejected text is missing in the margin.",
        },
};
#endif
