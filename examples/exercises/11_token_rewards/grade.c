#include "../grade.h"
#include "token_rewards.h"

#ifdef GRADE_STUDENT
static void answer(grade_case *c) {
    token_rewards(floats(c, "logp"), floats(c, "ref_logp"), bytes(c, "mask"), floats(c, "score"),
                  bytes(c, "ended"), integer(c, "n"), integer(c, "length"), number(c, "coef"),
                  number(c, "missing_eos_penalty"), floats(c, "reward"));
}
#else

enum { SCORE, KL, PADDED, CUT };

static void make(grade_case *c, int part, int number, ppo_rng *rng) {
    int n = number < 2 ? 1 : 2 + ppo_rng_below(rng, 4), length = 3 + (number < 3 ? 0 : ppo_rng_below(rng, 8));
    float *logp = add_floats(c, "logp", n, length), *ref_logp = add_floats(c, "ref_logp", n, length);
    unsigned char *mask = add_bytes(c, "mask", n, length), *ended = NULL;
    float *score = add_floats(c, "score", n, 1);
    ended = add_bytes(c, "ended", n, 1);
    for (int i = 0; i < n; i++) {
        int tokens = part == PADDED || part == CUT ? 1 + ppo_rng_below(rng, length - 1) : length;
        score[i] = ppo_rng_range(rng, 1, 3), ended[i] = part != CUT || (i == 0 && n > 1);
        for (int t = 0; t < length; t++) {
            mask[i * length + t] = t < tokens;
            logp[i * length + t] = ppo_rng_range(rng, -3, -1),
                              ref_logp[i * length + t] = ppo_rng_range(rng, -3, -1);
            if (part == SCORE) ref_logp[i * length + t] = logp[i * length + t];
        }
    }
    add_integer(c, "n", n), add_integer(c, "length", length);
    add_number(c, "coef", ppo_rng_range(rng, 0.1f, 0.5f)),
        add_number(c, "missing_eos_penalty", ppo_rng_range(rng, 0.5f, 2));
    add_output(c, "reward", n, length);
}

static void solve(grade_case *c, int mistake) {
    int n = integer(c, "n"), length = integer(c, "length"), all = n * length;
    float *logp = floats(c, "logp"), *ref_logp = floats(c, "ref_logp"), *reward = floats(c, "reward");
    unsigned char *mask = bytes(c, "mask"), *ended = bytes(c, "ended");
    float coef = number(c, "coef"), sum;
    must(ppo_kl_estimate(logp, ref_logp, all,
                         mistake == 3    ? PPO_K3
                         : mistake == 10 ? PPO_K2
                                         : PPO_K1,
                         reward));
    for (int i = 0; i < n; i++) {
        int last = 0;
        float score = floats(c, "score")[i] -
                      (ended[i] != (mistake == 8) || mistake == 7 ? 0 : number(c, "missing_eos_penalty"));
        sum = 0;
        for (int t = 0; t < length; t++) {
            float *r = &reward[i * length + t];
            int real = mask[i * length + t];
            *r *= mistake == 2 ? coef : mistake == 9 ? 0 : -coef;
            if (!real && mistake != 1) *r = 0;
            if (real) last = t, sum += *r;
            if (real && mistake == 4) *r += score;
        }
        for (int t = 0; mistake == 11 && t < length; t++) reward[i * length + t] = t == last ? sum : 0;
        if (mistake == 5) last = length - 1;
        if (mistake == 12) last = 0;
        if (mistake == 13) reward[i * length + last] = 0;
        if (mistake != 4 && mistake != 6) reward[i * length + last] += score;
    }
}

static const grade_exercise exercise = {
    .file = "token_rewards.c",
    .part = {{2, 8, "in the score, where the policy is the reference"},
             {3, 8, "with the KL"},
             {3, 8, "where rows are padded"},
             {2, 8, "where a text was cut off (ended is 0)"}},
    .make = make,
    .solve = solve,
    .mistake =
        {
            "Padding gets a reward: where mask is 0, it is 0.",
            "The KL has the wrong sign: moving away from the reference costs.",
            "The KL is estimated by k3; in a reward it is k1, logp - ref_logp.",
            "Every token gets the score; only the last one does.",
            "The score is at the end of the row; the last token is the last one with mask 1.",
            "The score is missing.",
            "missing_eos_penalty is left out.",
            "missing_eos_penalty is subtracted where the text ended, not where it was cut off.",
            "The KL is missing.",
            "The KL is estimated by k2; in a reward it is k1, logp - ref_logp.",
            "The KL of the whole sequence is paid by its last token; each token pays its own.",
            "The score is at the first token.",
            "The score replaces the last token's KL; it is added to it.",
        },
};
#endif
