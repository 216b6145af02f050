/* trpo.h - a small policy with its batch, and TRPO's step on the tape, for 08_natural_gradient.c,
   09_trust_region.c and 14_own_loss.c. Read it from top to bottom: the task, the objective, the Fisher-vector
   product, conjugate gradients, the line search.

   The task: say in which quadrant a point lies. The second coordinate is 10 times as large as the first. */
#ifndef TRPO_H
#define TRPO_H

enum { BATCH = 512, ACTIONS = 4, SIZE = 1024 };

static ppo_mlp policy;
static ppo_params *params;
static ppo_tape *tape;
static float obs[2 * BATCH], old_logits[BATCH * ACTIONS], old_logp[BATCH], A[BATCH];
static int action[BATCH];
static long passes; /* backward passes so far */

static inline void new_policy(uint64_t seed) {
    static const int sizes[] = {2, 16, ACTIONS};
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_INIT, 0);
    ppo_params_free(params);
    if (!tape) must(ppo_tape_create(&tape));
    must(ppo_params_create(&params));
    must(ppo_mlp_init(&policy, params, "policy", sizes, 2, PPO_TANH, PPO_IDENTITY, 0.01f, &rng));
    must(params->count <= SIZE ? PPO_OK : PPO_ERROR_MEMORY);
}

/* Points, and the policy's actions. The reward is 1 for the right quadrant, else 0; returns its mean. */
static inline float collect(ppo_rng *rng) {
    for (int i = 0; i < BATCH; i++) {
        obs[2 * i] = ppo_rng_range(rng, -1, 1);
        obs[2 * i + 1] = ppo_rng_range(rng, -10, 10);
    }
    ppo_tape_reset(tape);
    ppo_tensor *logits = ppo_mlp_forward(tape, &policy, ppo_tape_constant(tape, obs, BATCH, 2));
    must(ppo_tape_status(tape));
    memcpy(old_logits, logits->data, sizeof old_logits);
    for (int i = 0; i < BATCH; i++) {
        action[i] = ppo_categorical_sample(old_logits + i * ACTIONS, ACTIONS, 1, rng);
        A[i] = action[i] == 2 * (obs[2 * i] > 0) + (obs[2 * i + 1] > 0);
    }
    float mean = (float)mean_of(A, BATCH);
    must(ppo_token_logp(old_logits, action, BATCH, ACTIONS, 1, old_logp, NULL));
    must(ppo_whiten(A, NULL, BATCH, 1));
    return mean;
}

/* What the loss is: the objective's, plus kl_weight times the mean KL(old || new); or that KL alone. */
typedef struct terms {
    int objective, kl_alone;
    float kl_weight;
} terms;

/* Computes gain (the objective, without the KL) and KL on the batch; params->grad is that of the loss. */
static inline float evaluate(terms of, float *kl) {
    ppo_policy_objective how = {of.objective, 0.2f, 0.2f, 0, 0};
    ppo_policy_stats stats;
    const int sizes[] = {ACTIONS};
    ppo_tensor *logp, *entropy;
    ppo_tape_reset(tape);
    ppo_params_zero_grad(params);
    ppo_tensor *logits = ppo_mlp_forward(tape, &policy, ppo_tape_constant(tape, obs, BATCH, 2));
    ppo_tape_categorical(tape, logits, action, 1, &logp, &entropy);
    ppo_tensor *loss = ppo_tape_policy_loss(tape, logp, old_logp, A, NULL, &how, &stats);
    ppo_tensor *mean = ppo_tape_mean(tape, ppo_tape_multi_categorical_kl(tape, old_logits, sizes, 1, logits));
    if (of.kl_alone) loss = mean;
    else if (of.kl_weight > 0) loss = ppo_tape_add(tape, loss, ppo_tape_scale(tape, mean, of.kl_weight, 0));
    must(ppo_tape_backward(tape, loss));
    passes++;
    *kl = mean->data[0];
    return 0 - stats.loss;
}

static inline double dot(const float *x, const float *y) {
    double sum = 0;
    for (size_t i = 0; i < params->count; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}

static inline void add(float *x, double scale, const float *d) { /* x += scale d */
    for (size_t i = 0; i < params->count; i++) x[i] += (float)(scale * (double)d[i]);
}

/* The gradient of the mean of r A, where every ratio is 1: uphill. */
static inline void gradient(float *g) {
    terms surrogate = {PPO_UNCLIPPED, 0, 0};
    float kl;
    evaluate(surrogate, &kl);
    for (size_t i = 0; i < params->count; i++) g[i] = 0 - params->grad[i];
}

/* F v. F is the Hessian of the KL at the old policy, so F v is how the KL's gradient changes along v: a
   central difference of two backward passes. A thousandth of v is added, so that no direction is free
   (damping). */
static inline void fisher_times(const float *v, float *Fv) {
    double h = 0.05 / sqrt(dot(v, v));
    terms only_kl = {PPO_UNCLIPPED, 1, 0};
    float kl;
    for (size_t i = 0; i < params->count; i++) Fv[i] = 1e-3f * v[i];
    add(params->data, h, v);
    evaluate(only_kl, &kl);
    add(Fv, 1 / (2 * h), params->grad);
    add(params->data, -2 * h, v);
    evaluate(only_kl, &kl);
    add(Fv, -1 / (2 * h), params->grad);
    add(params->data, h, v);
}

/* x = F^-1 g by conjugate gradients, `steps` of them, each with one product F p. */
static inline void natural_gradient(const float *g, int steps, float *x) {
    static float r[SIZE], p[SIZE], Fp[SIZE];
    memset(x, 0, params->count * sizeof *x);
    memcpy(r, g, params->count * sizeof *r);
    memcpy(p, g, params->count * sizeof *p);
    for (int i = 0; i < steps; i++) {
        double rr = dot(r, r);
        fisher_times(p, Fp);
        double step = rr / dot(p, Fp);
        add(x, step, p);
        add(r, -step, Fp);
        double keep = dot(r, r) / rr;
        for (size_t j = 0; j < params->count; j++) p[j] = r[j] + (float)keep * p[j];
    }
}

/* Goes along d, as far as KL = limit is expected, and back until the KL is at most the limit and the gain is
   positive. Returns the gain. */
static inline float line_search(const float *d, float limit, float *kl) {
    static float start[SIZE], Fd[SIZE];
    terms surrogate = {PPO_UNCLIPPED, 0, 0};
    fisher_times(d, Fd);
    double step = sqrt(2 * (double)limit / dot(d, Fd)); /* KL = 1/2 d' F d */
    memcpy(start, params->data, params->count * sizeof *start);
    for (int i = 0; i < 40; i++, step *= 0.9) {
        memcpy(params->data, start, params->count * sizeof *start);
        add(params->data, step, d);
        float gain = evaluate(surrogate, kl);
        if (*kl <= limit && gain > 0) return gain;
    }
    memcpy(params->data, start, params->count * sizeof *start);
    *kl = 0;
    return 0;
}

#endif
