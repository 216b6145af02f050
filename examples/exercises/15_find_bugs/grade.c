#include "../grade.h"
#include "find_bugs.h"

static settings settings_of(const grade_case *c) {
    settings s = {number(c, "beta"),         number(c, "lambda"), number(c, "clip"),
                  number(c, "entropy_coef"), number(c, "lr"),     integer(c, "epochs")};
    return s;
}

#ifdef GRADE_STUDENT
static void answer(grade_case *c) {
    settings s = settings_of(c);
    iterate(copy_input(c, "new_theta", "theta"), copy_input(c, "new_V", "V"), integers(c, "start"),
            integers(c, "token"), floats(c, "old_logp"), floats(c, "ref_logp"), floats(c, "score"),
            integer(c, "n"), integer(c, "length"), integer(c, "vocab"), &s, floats(c, "advantage"));
}
#else

enum { REWARD, RATIO, EPOCHS, TARGET, ENTROPY };
enum { MOST = 64, VOCAB = 8 };

/* The logits of each token's distribution, and its logp. */
static void look_up(const grade_case *c, const float *theta, int *before, float *logits, float *logp) {
    int n = integer(c, "n"), length = integer(c, "length"), vocab = integer(c, "vocab");
    const int *token = integers(c, "token");
    for (int k = 0; k < n * length; k++) {
        before[k] = k % length ? token[k - 1] : integers(c, "start")[k / length];
        memcpy(logits + k * vocab, theta + before[k] * vocab, sizeof(float) * (size_t)vocab);
    }
    must(ppo_token_logp(logits, token, n * length, vocab, 1, logp, NULL));
}

static void make(grade_case *c, int part, int number, ppo_rng *rng) {
    int n = number < 2 ? 1 : 2 + ppo_rng_below(rng, 3),
        length = 2 + (number < 2 ? number : ppo_rng_below(rng, 4));
    int vocab = number < 2 ? 3 : 3 + ppo_rng_below(rng, 3), before[MOST];
    float logits[MOST * VOCAB], logp[MOST];
    float *theta = add_floats(c, "theta", vocab, vocab), *V = add_floats(c, "V", vocab, 1);
    int *start = add_integers(c, "start", n, 1), *token = add_integers(c, "token", n, length);
    float *old_logp = add_floats(c, "old_logp", n, length), *ref_logp = add_floats(c, "ref_logp", n, length);
    float *score = add_floats(c, "score", n, 1);
    for (int j = 0; j < vocab * vocab; j++) theta[j] = ppo_rng_normal(rng);
    for (int j = 0; j < vocab; j++) V[j] = ppo_rng_normal(rng);
    for (int i = 0; i < n; i++) start[i] = ppo_rng_below(rng, vocab), score[i] = ppo_rng_range(rng, 1, 3);
    for (int k = 0; k < n * length; k++) token[k] = ppo_rng_below(rng, vocab);
    add_integer(c, "n", n), add_integer(c, "length", length), add_integer(c, "vocab", vocab);
    look_up(c, theta, before, logits, logp);
    for (int k = 0; k < n * length; k++) {
        old_logp[k] = logp[k] + (part == RATIO || part == REWARD ? ppo_rng_range(rng, -0.15f, 0.15f) : 0);
        ref_logp[k] = old_logp[k] + (part == RATIO || part == REWARD ? ppo_rng_range(rng, 0.05f, 0.15f) : 0);
    }
    add_number(c, "beta", part == REWARD ? ppo_rng_range(rng, 1, 2) : 0);
    add_number(c, "lambda", 0.9f), add_number(c, "clip", part == RATIO ? 0.9f : 0.2f);
    add_number(c, "entropy_coef", part == ENTROPY ? ppo_rng_range(rng, 0.5f, 1) : 0);
    add_number(c, "lr", 1), add_integer(c, "epochs", part == EPOCHS || part == TARGET ? 3 : 1);
    (part == REWARD ? add_output : add_unused_output)(c, "advantage", n, length);
    (part == REWARD || part == TARGET ? add_unused_output : add_output)(c, "new_theta", vocab, vocab);
    (part == TARGET ? add_output : add_unused_output)(c, "new_V", vocab, 1);
}

/* Mistakes 1 to 5 are the bugs of the file. */
static void solve(grade_case *c, int mistake) {
    int n = integer(c, "n"), length = integer(c, "length"), vocab = integer(c, "vocab"), all = n * length,
        before[MOST];
    float reward[MOST], value[MOST], next[MOST], target[MOST], logits[MOST * VOCAB], logp[MOST],
        by_logp[MOST], by_entropy[MOST], *A = floats(c, "advantage"), *theta = floats(c, "new_theta"),
                                         *V = floats(c, "new_V");
    const float *old_logp = floats(c, "old_logp"), *ref_logp = floats(c, "ref_logp");
    unsigned char ends[MOST], none[MOST] = {0};
    settings s = settings_of(c);
    ppo_policy_objective how = ppo_policy_objective_default();
    how.clip_low = how.clip_high = s.clip;
    memcpy(theta, floats(c, "theta"), sizeof(float) * (size_t)(vocab * vocab));
    memcpy(V, floats(c, "V"), sizeof(float) * (size_t)vocab);
    look_up(c, theta, before, logits, logp);
    for (int k = 0; k < all; k++) value[k] = V[before[k]];
    for (int k = 0; k < all; k++) {
        ends[k] = k % length == length - 1, next[k] = ends[k] ? 0 : value[k + 1];
        reward[k] = (mistake == 1 ? s.beta : -s.beta) * (old_logp[k] - ref_logp[k]) +
                    (ends[k] ? floats(c, "score")[k / length] : 0);
    }
    for (int i = 0; i < n; i++) {
        int at = i * length;
        must(ppo_gae(reward + at, value + at, next + at, ends + at, none, length, 1, 1, s.lambda, A + at,
                     target + at));
    }
    for (int epoch = 0; epoch < s.epochs; epoch++) {
        if (mistake != 3) look_up(c, theta, before, logits, logp);
        must(ppo_policy_loss(logp, mistake == 2 ? ref_logp : old_logp, A, NULL, all, &how, NULL, by_logp));
        for (int k = 0; k < all; k++) {
            by_entropy[k] = mistake == 5 ? 0 : -s.entropy_coef / (float)all;
            by_logp[k] += mistake == 5 ? s.entropy_coef / (float)all : 0;
            value[k] = V[before[k]];
            if (mistake == 4) target[k] = A[k] + value[k];
        }
        float slope[MOST], rows[MOST * VOCAB];
        must(ppo_value_loss(value, NULL, target, NULL, all, 0, NULL, slope));
        must(ppo_token_logp_backward(logits, integers(c, "token"), by_logp, by_entropy, all, vocab, 1, rows));
        for (int k = 0; k < all; k++) {
            V[before[k]] -= s.lr * slope[k];
            for (int j = 0; j < vocab; j++) theta[before[k] * vocab + j] -= s.lr * rows[k * vocab + j];
        }
    }
}

static const grade_exercise exercise = {
    .file = "find_bugs.c",
    .part = {{2, 8, "in the advantages, with a KL"},
             {2, 8, "in theta, where the policy that sampled is not the reference"},
             {2, 8, "in theta after three epochs"},
             {2, 8, "in V after three epochs"},
             {2, 8, "in theta, with an entropy bonus"}},
    .make = make,
    .solve = solve,
    .mistake =
        {
            "As it was: does moving away from the reference cost, or pay?",
            "As it was: which two policies does the ratio compare?",
            "As it was: of which moment are the log-probabilities in the second epoch?",
            "As it was: does the target stand still while V learns?",
            "As it was: is this the gradient of the entropy, or of the log-probability of what was sampled?",
        },
    .tolerance = 1e-3,
};
#endif
