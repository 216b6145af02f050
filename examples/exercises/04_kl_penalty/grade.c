#include "../grade.h"
#include "kl_penalty.h"

#ifdef GRADE_STUDENT
static void answer(grade_case *c) {
    *floats(c, "loss") = kl_penalty_loss(floats(c, "logp"), floats(c, "old_logp"), floats(c, "advantage"),
                                         integer(c, "n"), number(c, "coef"), floats(c, "grad_logp"));
    *floats(c, "next_coef") = adapt_coef(number(c, "coef"), number(c, "kl"), number(c, "target"));
}
#else

enum { PLAIN, PENALTY, GRADIENT, HIGH, LOW, BETWEEN };

static void make(grade_case *c, int part, int number, ppo_rng *rng) {
    int n = number < 3 ? number + 1 : 1 + ppo_rng_below(rng, 30);
    float *logp = add_floats(c, "logp", n, 1), *old_logp = add_floats(c, "old_logp", n, 1);
    float *advantage = add_floats(c, "advantage", n, 1), target = ppo_rng_range(rng, 0.005f, 0.05f);
    for (int i = 0; i < n; i++) {
        old_logp[i] = ppo_rng_range(rng, -3, -1);
        logp[i] = old_logp[i] + ppo_rng_range(rng, 0.2f, 0.8f) * (ppo_rng_below(rng, 2) ? 1.0f : -1.0f);
        advantage[i] = ppo_rng_normal(rng);
    }
    add_integer(c, "n", n), add_number(c, "coef", part == PLAIN ? 0 : ppo_rng_range(rng, 0.5f, 2));
    add_number(c, "kl",
               target * (part == HIGH  ? ppo_rng_range(rng, 1.6f, 3)
                         : part == LOW ? ppo_rng_range(rng, 0.1f, 0.6f)
                                       : ppo_rng_range(rng, 0.7f, 1.4f)));
    add_number(c, "target", target);
    (part <= PENALTY ? add_output : add_unused_output)(c, "loss", 1, 1);
    (part == GRADIENT ? add_output : add_unused_output)(c, "grad_logp", n, 1);
    (part > GRADIENT ? add_output : add_unused_output)(c, "next_coef", 1, 1);
}

static void solve(grade_case *c, int mistake) {
    int n = integer(c, "n");
    float *logp = floats(c, "logp"), *old_logp = floats(c, "old_logp"), *advantage = floats(c, "advantage");
    float *grad = floats(c, "grad_logp"), plain_grad[64];
    float coef = number(c, "coef"), kl = number(c, "kl"), target = number(c, "target");
    ppo_policy_objective how = ppo_policy_objective_default();
    ppo_policy_stats stats, plain;
    how.objective = PPO_UNCLIPPED;
    must(ppo_policy_loss(logp, old_logp, advantage, NULL, n, &how, &plain, plain_grad));
    how.objective = PPO_K3_PENALTY, how.kl_coef = coef;
    must(ppo_policy_loss(logp, old_logp, advantage, NULL, n, &how, &stats, grad));
    float loss = stats.loss, penalty = loss - plain.loss, next = ppo_adaptive_kl_2017(coef, kl, target);
    for (int i = 0; i < n; i++) {
        float r = expf(logp[i] - old_logp[i]), of_penalty = grad[i] - plain_grad[i];
        if (mistake == 1) grad[i] = plain_grad[i];
        if (mistake == 2) grad[i] = plain_grad[i] - of_penalty;
        if (mistake == 3) grad[i] = plain_grad[i] - coef / (float)n;
        if (mistake == 4) grad[i] = plain_grad[i] + coef * (1 - 1 / r) / (float)n;
        if (mistake == 5) grad[i] = plain_grad[i] + coef * r / (float)n;
        if (mistake == 6) grad[i] = plain_grad[i] + of_penalty * (float)n;
        if (mistake == 11) grad[i] = plain_grad[i] / r + of_penalty;
    }
    if (mistake == 1) loss = plain.loss;
    if (mistake == 2) loss = plain.loss - penalty;
    if (mistake == 3) loss = plain.loss + coef * stats.old_approx_kl;
    if (mistake == 4) {
        must(ppo_policy_loss(old_logp, logp, advantage, NULL, n, &how, &stats, NULL));
        loss = plain.loss + coef * stats.approx_kl;
    }
    if (mistake == 6) loss = plain.loss + penalty * (float)n;
    if (mistake == 7) next = next > coef ? coef / 2 : next < coef ? coef * 2 : coef;
    if (mistake == 8) next = kl > target ? coef * 2 : coef / 2;
    if (mistake == 9) next = ppo_adaptive_kl(coef, kl, target, 1, 1);
    if (mistake == 10) next = next > coef ? coef * 1.5f : next < coef ? coef / 1.5f : coef;
    *floats(c, "loss") = loss, *floats(c, "next_coef") = next;
}

static const grade_exercise exercise = {
    .file = "kl_penalty.c",
    .part = {{1, 6, "in the loss where coef is 0"},
             {3, 8, "in the loss with the penalty"},
             {3, 8, "in the gradient"},
             {1, 6, "in adapt_coef() where kl > 1.5 target"},
             {1, 6, "in adapt_coef() where kl < target / 1.5"},
             {1, 6, "in adapt_coef() where kl is near the target"}},
    .make = make,
    .solve = solve,
    .mistake =
        {
            "The penalty is missing.",
            "The penalty has the wrong sign: the loss must grow with the KL.",
            "The penalty is k1, -log r, whose gradient is the same for every sample; k3 is meant.",
            "The penalty is k3 of the other direction, 1/r - 1 + log r.",
            "The derivative of k3 is r - 1: that of -log r is missing.",
            "The penalty is a sum; it should be a mean.",
            "Up and down are exchanged: too large a KL needs a larger coefficient.",
            "The coefficient changes on every side of the target; between target / 1.5 and 1.5 target it "
            "stays.",
            "This is the proportional rule of Ziegler 2019; the one of 2017 doubles or halves.",
            "The coefficient changes by 1.5; that is the limit of the KL, the factor is 2.",
            "The ratio is missing in the gradient of r A: d r / d logp = r.",
        },
};
#endif
