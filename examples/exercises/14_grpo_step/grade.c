#include "../grade.h"
#include "grpo_step.h"

#ifdef GRADE_STUDENT
static void answer(grade_case *c) {
    int vocab = integer(c, "vocab");
    *floats(c, "sampled") = (float)sample_token(floats(c, "logits"), vocab, number(c, "u"));
    group_advantages(floats(c, "score"), integer(c, "groups"), integer(c, "group_size"),
                     floats(c, "advantage"));
    *floats(c, "loss") = grpo_step(
        copy_input(c, "new_theta", "theta"), integers(c, "start"), integers(c, "token"), bytes(c, "mask"),
        floats(c, "old_logp"), floats(c, "ref_logp"), floats(c, "A"), integer(c, "n"), integer(c, "length"),
        vocab, number(c, "clip"), number(c, "kl_coef"), number(c, "lr"));
}
#else

enum { SAMPLE, ADVANTAGE, EQUAL, LOSS, CLIP, KL, STEP };
enum { MOST_TOKENS = 256 };

/* logp of each token under theta; where mask is 0, 0. context 1 and 2 (mistakes): the row of the token
   itself, or that of the prompt's last token. */
static void log_probabilities(const grade_case *c, int context, int *previous, float *logits, float *logp) {
    int n = integer(c, "n"), length = integer(c, "length"), vocab = integer(c, "vocab");
    int *token = integers(c, "token");
    for (int i = 0; i < n * length; i++) {
        int last = integers(c, "start")[i / length];
        previous[i] = context == 1 ? token[i] : context == 2 || i % length == 0 ? last : token[i - 1];
        memcpy(logits + i * vocab, floats(c, "theta") + previous[i] * vocab, sizeof(float) * (size_t)vocab);
    }
    must(ppo_token_logp(logits, token, n * length, vocab, 1, logp, NULL));
}

static void make(grade_case *c, int part, int number, ppo_rng *rng) {
    int groups = number < 2 && part != EQUAL ? 1 : 2 + ppo_rng_below(rng, 2);
    int size = part == EQUAL ? 4 : number < 2 ? 2 : 3 + ppo_rng_below(rng, 2);
    int n = groups * size, length = number < 2 ? 2 : 3 + ppo_rng_below(rng, 4),
        vocab = 3 + ppo_rng_below(rng, 3);
    int previous[MOST_TOKENS];
    float logits[MOST_TOKENS * 8], logp[MOST_TOKENS], *theta = add_floats(c, "theta", vocab, vocab);
    int *start = add_integers(c, "start", n, 1), *token = add_integers(c, "token", n, length);
    unsigned char *mask = add_bytes(c, "mask", n, length);
    float *old_logp = add_floats(c, "old_logp", n, length), *ref_logp = add_floats(c, "ref_logp", n, length);
    float *score = add_floats(c, "score", n, 1), *row = add_floats(c, "logits", vocab, 1), u = 0;
    for (int j = 0; j < vocab * vocab; j++) theta[j] = ppo_rng_normal(rng);
    for (int i = 0; i < n; i++) {
        int tokens = part == LOSS && number < 2 ? length : 1 + ppo_rng_below(rng, length),
            group = i / size * size;
        if (i == 0 && number > 1) tokens = 1;
        start[i] = i > group ? start[group] : ppo_rng_below(rng, vocab);
        score[i] = part == EQUAL && i < size ? 1.5f : 3.0f * (float)(i / size) + ppo_rng_normal(rng);
        for (int t = 0; t < length; t++)
            token[i * length + t] = ppo_rng_below(rng, vocab), mask[i * length + t] = t < tokens;
    }
    float *A = add_floats(c, "A", n, 1);
    for (int i = 0; i < n; i++) A[i] = ppo_rng_normal(rng);
    add_integer(c, "n", n), add_integer(c, "groups", groups), add_integer(c, "group_size", size),
        add_integer(c, "length", length);
    add_integer(c, "vocab", vocab);
    log_probabilities(c, 0, previous, logits, logp);
    for (int i = 0; i < n * length; i++) {
        float far = ppo_rng_range(rng, 0.4f, 0.8f) * (ppo_rng_below(rng, 2) ? 1.0f : -1.0f);
        float near = ppo_rng_range(rng, -0.09f, 0.09f);
        old_logp[i] = logp[i] - (part == CLIP || (part == STEP && ppo_rng_below(rng, 2)) ? far : near);
        ref_logp[i] = logp[i] + ppo_rng_range(rng, -1, 1);
    }
    for (int j = 0; j < vocab; j++) row[j] = ppo_rng_normal(rng);
    for (float edge = 0; edge < 1e-3f;) { /* u is not at a border between two tokens */
        float sum = 0, all = 0;
        u = ppo_rng_uniform(rng), edge = 1;
        for (int j = 0; j < vocab; j++) all += expf(row[j]);
        for (int j = 0; j < vocab; j++) sum += expf(row[j]) / all, edge = fminf(edge, fabsf(u - sum));
    }
    add_number(c, "u", u), add_number(c, "clip", 0.2f);
    add_number(c, "kl_coef", part == KL || part == STEP ? ppo_rng_range(rng, 0.2f, 0.5f) : 0);
    add_number(c, "lr", ppo_rng_range(rng, 0.5f, 1));
    (part == SAMPLE ? add_output : add_unused_output)(c, "sampled", 1, 1);
    (part == ADVANTAGE || part == EQUAL ? add_output : add_unused_output)(c, "advantage", n, 1);
    (part == LOSS || part == CLIP || part == KL ? add_output : add_unused_output)(c, "loss", 1, 1);
    (part == STEP ? add_output : add_unused_output)(c, "new_theta", vocab, vocab);
}

static void solve(grade_case *c, int mistake) {
    int groups = integer(c, "groups"), size = integer(c, "group_size"), n = groups * size;
    int length = integer(c, "length"), vocab = integer(c, "vocab"), tokens_of_all = 0, previous[MOST_TOKENS];
    float logits[MOST_TOKENS * 8], logp[MOST_TOKENS], k3[MOST_TOKENS], grad[MOST_TOKENS],
        *advantage = floats(c, "advantage");
    float *ref_logp = floats(c, "ref_logp"), *old_logp = floats(c, "old_logp"), *score = floats(c, "score"),
          loss = 0;
    float kl_coef = mistake == 5 ? 0 : number(c, "kl_coef"), u = number(c, "u"), sum = 0, all = 0,
          each[MOST_TOKENS];
    unsigned char *mask = bytes(c, "mask");
    ppo_policy_objective how = ppo_policy_objective_default();

    /* sampling: the largest token below which all probabilities sum to u or less */
    float *row = floats(c, "logits"), *sampled = floats(c, "sampled");
    for (int j = 0; j < vocab; j++) all += expf(row[j]);
    for (int j = 0; j < vocab; j++) *sampled = sum <= u ? (float)j : *sampled, sum += expf(row[j]) / all;
    if (mistake == 12) *sampled = (float)ppo_categorical_mode(row, vocab);
    if (mistake == 13) *sampled = fminf(*sampled + 1, (float)vocab - 1);

    /* advantages: of each group, mean 0 and deviation 1 */
    memcpy(advantage, score, sizeof(float) * (size_t)n);
    for (int g = 0; g < (mistake == 2 ? 1 : groups); g++) {
        int count = mistake == 2 ? n : size;
        float *a = advantage + g * count, mean = 0, squares = 0;
        for (int i = 0; i < count; i++) mean += a[i] / (float)count;
        for (int i = 0; i < count; i++) squares += (a[i] - mean) * (a[i] - mean);
        float std = sqrtf(squares / (float)(count - 1)),
              by = mistake == 3 ? sqrtf(squares / (float)count) : std;
        if (mistake != 1) must(ppo_whiten(a, NULL, count, 1));
        for (int i = 0; i < count; i++) a[i] = mistake == 1 ? a[i] - mean : a[i] * std / (by + 1e-4f);
    }

    log_probabilities(c, mistake == 10 ? 1 : mistake == 15 ? 2 : 0, previous, logits, logp);
    must(ppo_kl_estimate(logp, ref_logp, n * length, PPO_K3, k3));
    if (mistake == 7) must(ppo_kl_estimate(ref_logp, logp, n * length, PPO_K3, k3));
    if (mistake == 6) memset(mask, 1, (size_t)(n * length));
    how.objective = mistake == 8 ? PPO_UNCLIPPED : PPO_CLIP;
    for (int i = 0; i < n * length; i++) each[i] = floats(c, "A")[i / length], tokens_of_all += mask[i];
    for (int i = 0; i < n; i++) {
        ppo_policy_stats stats;
        int tokens = 0, from = i * length;
        while (tokens < length && mask[from + tokens]) tokens++;
        float weight = mistake == 4 ? (float)tokens / (float)tokens_of_all : 1 / (float)n;
        must(ppo_policy_loss(logp + from, old_logp + from, each + from, NULL, tokens, &how, &stats,
                             grad + from));
        loss += weight * stats.loss;
        for (int t = 0; t < length; t++) {
            int k = from + t;
            float slope = mistake == 7 ? expf(logp[k] - ref_logp[k]) - 1 : 1 - expf(ref_logp[k] - logp[k]);
            if (mistake == 16) slope = -slope;
            if (t >= tokens) grad[k] = k3[k] = slope = 0;
            loss += weight * kl_coef * k3[k] / (float)tokens;
            grad[k] = weight * (grad[k] + (mistake == 11 ? 0 : kl_coef) * slope / (float)tokens);
        }
    }
    *floats(c, "loss") = loss;

    must(ppo_token_logp_backward(logits, integers(c, "token"), grad, NULL, n * length, vocab, 1, logits));
    memcpy(floats(c, "new_theta"), floats(c, "theta"), sizeof(float) * (size_t)(vocab * vocab));
    for (int i = 0; i < n * length; i++)
        for (int j = 0; j < vocab; j++) {
            float g = logits[i * vocab + j];
            if (mistake == 14) g = j == integers(c, "token")[i] ? grad[i] : 0;
            floats(c, "new_theta")[previous[i] * vocab + j] -= (mistake == 9 ? -1 : 1) * number(c, "lr") * g;
        }
}

static const grade_exercise exercise = {
    .file = "grpo_step.c",
    .part = {{1, 12, "in sample_token()"},
             {2, 8, "in the advantages"},
             {1, 6, "in the advantages where all scores of a group are equal"},
             {1, 8, "in the loss"},
             {1, 8, "in the loss where ratios leave the range"},
             {1, 8, "in the loss with the KL"},
             {3, 10, "in theta after the step"}},
    .make = make,
    .solve = solve,
    .mistake =
        {
            "The advantages are not divided by the group's std.",
            "Mean and std are of all samples; they should be of the sample's own group.",
            "The std is divided by group_size; unbiased it is divided by group_size - 1.",
            "The loss is a mean over all tokens; GRPO's is the mean over samples of each one's mean.",
            "The KL is missing.",
            "Tokens with mask 0 count: they are garbage.",
            "The KL has the wrong direction: d = ref_logp - logp.",
            "Nothing is clipped.",
            "The step goes uphill: the gradient of the loss is subtracted.",
            "The row of the token itself is used; a token is predicted from the one before it.",
            "The KL is missing in the gradient.",
            "This is the most likely token; the number u decides.",
            "The token after the right one: the first whose running sum is above u.",
            "The softmax is missing in the gradient: every logit of the row changes logp.",
            "All tokens use the row of the prompt's last token; token t follows token t - 1.",
            "The KL's gradient has the wrong sign: that of k3 is 1 - exp(ref_logp - logp).",
        },
    .tolerance = 1e-3,
};
#endif
