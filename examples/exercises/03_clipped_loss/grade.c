#include "../grade.h"
#include "clipped_loss.h"

#ifdef GRADE_STUDENT
static void answer(grade_case *c) {
    *floats(c, "loss") = clipped_loss(floats(c, "logp"), floats(c, "old_logp"), floats(c, "advantage"),
                                      integer(c, "n"), number(c, "clip"), floats(c, "grad_logp"));
}
#else

enum { INSIDE, GOOD_ABOVE, GOOD_BELOW, BAD_BELOW, BAD_ABOVE, GRADIENT, GRADIENT_CLIPPED };

static void make(grade_case *c, int part, int number, ppo_rng *rng) {
    int n = number < 3 ? number + 1 : 1 + ppo_rng_below(rng, 30), gradient = part >= GRADIENT;
    float *logp = add_floats(c, "logp", n, 1), *old_logp = add_floats(c, "old_logp", n, 1);
    float *advantage = add_floats(c, "advantage", n, 1), clip = ppo_rng_range(rng, 0.1f, 0.3f);
    for (int i = 0; i < n; i++) {
        float far = ppo_rng_range(rng, 0.4f, 0.9f), near = ppo_rng_range(rng, -0.09f, 0.09f);
        int kind = part == GRADIENT ? 0 : part == GRADIENT_CLIPPED ? 1 + ppo_rng_below(rng, 4) : part;
        float good = ppo_rng_range(rng, 0.5f, 2), sign = ppo_rng_below(rng, 2) ? 1.0f : -1.0f;
        old_logp[i] = ppo_rng_range(rng, -3, -1);
        logp[i] = old_logp[i] + (kind == INSIDE                            ? near
                                 : kind == GOOD_ABOVE || kind == BAD_ABOVE ? far
                                                                           : -far);
        advantage[i] = good * (kind == INSIDE                             ? sign
                               : kind == GOOD_ABOVE || kind == GOOD_BELOW ? 1.0f
                                                                          : -1.0f);
    }
    add_integer(c, "n", n), add_number(c, "clip", clip);
    (gradient ? add_unused_output : add_output)(c, "loss", 1, 1);
    (gradient ? add_output : add_unused_output)(c, "grad_logp", n, 1);
}

static void solve(grade_case *c, int mistake) {
    int n = integer(c, "n");
    float clip = number(c, "clip"), *logp = floats(c, "logp"), *old_logp = floats(c, "old_logp");
    float *advantage = floats(c, "advantage"), *grad = floats(c, "grad_logp"), ratio[64];
    ppo_policy_objective how = ppo_policy_objective_default();
    ppo_policy_stats stats;
    how.clip_low = how.clip_high = clip;
    if (mistake == 1) how.objective = PPO_UNCLIPPED;
    for (int i = 0; i < n; i++) {
        float logp_i = logp[i], log_ratio = logp_i - old_logp[i];
        ratio[i] = expf(log_ratio);
        if (mistake == 2) logp[i] = old_logp[i], old_logp[i] = logp_i;
        if (mistake == 3) advantage[i] = -advantage[i];
        if (mistake == 5) logp[i] = old_logp[i] + logf(fminf(fmaxf(ratio[i], 1 - clip), 1 + clip));
        if (mistake == 6)
            logp[i] = old_logp[i] + logf(ratio[i] <= 1 - clip || ratio[i] >= 1 + clip ? 1e-30f : ratio[i]);
        if (mistake == 9) logp[i] = old_logp[i] + log1pf(log_ratio);
        if (mistake == 10) logp[i] = old_logp[i] + logf(logp_i / old_logp[i]);
    }
    must(ppo_policy_loss(logp, old_logp, advantage, NULL, n, &how, &stats, grad));
    *floats(c, "loss") = mistake == 3 ? -stats.loss : stats.loss;
    how.objective = PPO_UNCLIPPED;
    if (mistake == 8) must(ppo_policy_loss(logp, old_logp, advantage, NULL, n, &how, NULL, grad));
    for (int i = 0; i < n; i++)
        if (mistake == 3) grad[i] = -grad[i];
        else if (mistake == 4) grad[i] /= ratio[i];
        else if (mistake == 7) grad[i] = -grad[i];
        else if (mistake == 5) grad[i] = fabsf(ratio[i] - 1) > clip ? 0 : grad[i];
}

static const grade_exercise exercise = {
    .file = "clipped_loss.c",
    .part = {{2, 6, "in the loss inside of the range"},
             {1, 5, "in the loss where A > 0 and r > 1 + clip"},
             {1, 5, "in the loss where A > 0 and r < 1 - clip"},
             {1, 5, "in the loss where A < 0 and r < 1 - clip"},
             {1, 5, "in the loss where A < 0 and r > 1 + clip"},
             {2, 6, "in the gradient inside of the range"},
             {2, 8, "in the gradient outside of the range"}},
    .make = make,
    .solve = solve,
    .mistake =
        {
            "Nothing is clipped: this is -r A.",
            "The ratio is upside down: it is new over old, exp(logp - old_logp).",
            "The larger of the two products is taken; PPO takes the smaller one.",
            "The ratio is missing in the gradient: d r / d logp = r.",
            "The clipped product alone is used: without the minimum, a change for the worse is clipped, too.",
            "Samples outside of the range are left out altogether.",
            "The gradient has the wrong sign: the loss is minus the objective.",
            "The gradient of a sample is 0 where the clipped product is the smaller one.",
            "The ratio is 1 + logp - old_logp, not its exponential.",
            "The ratio is one of log-probabilities; it is one of probabilities, exp(logp - old_logp).",
        },
};
#endif
