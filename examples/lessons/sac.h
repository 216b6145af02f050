/* sac.h - Soft Actor-Critic on the tape (Haarnoja 2018), for 17b_sac.c. Read it from act() on: the policy, the
   critics, one step of learning, an episode. Networks and sizes suit Pendulum: one action, no end but the limit.

   critic   two networks Q(s, a); both learn r + gamma (min of both at s' - alpha log pi(a' | s')), with slowly
            moving copies of themselves on the right side, and an action a' of the policy as it is now
   actor    alpha log pi(a | s) - min Q(s, a), made small: the gradient goes through Q into the action, which is
            tanh(mean + deviation x noise)
   alpha    the price of a lack of entropy; it falls where the policy is more random than wanted */
#ifndef SAC_H
#define SAC_H

enum { OBS = 3, WIDTH = 64, BATCH = 64, SAC_STEPS = 5000, FIRST = 500 };

static const float discount = 0.98f, keep = 0.99f, reward_scale = 0.2f, wanted_entropy = -1;

static ppo_rng rng;
static ppo_tape *tape;
static ppo_params *actor_params, *critic_params, *target_params;
static ppo_mlp trunk, mean_head, spread_head, critic[2], target[2];

static struct { /* all steps so far */
    float obs[SAC_STEPS][OBS], next_obs[SAC_STEPS][OBS], action[SAC_STEPS], reward[SAC_STEPS];
} kept;

static ppo_adam adam; /* one rate for all networks */
static float log_alpha;

static inline void create(uint64_t seed) {
    static const int trunk_sizes[] = {OBS, WIDTH, WIDTH}, head_sizes[] = {WIDTH, 1},
                     q_sizes[] = {OBS + 1, WIDTH, WIDTH, 1};
    ppo_params **all[] = {&actor_params, &critic_params, &target_params};
    rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    adam = ppo_adam_default(), adam.lr = 1e-3f, log_alpha = -1.5f;
    for (int k = 0; k < 3; k++) {
        ppo_params_free(*all[k]), *all[k] = NULL;
        must(ppo_params_create(all[k]));
    }
    must(ppo_mlp_init(&trunk, actor_params, "trunk", trunk_sizes, 2, PPO_RELU, PPO_RELU, 1.414f, &rng));
    must(ppo_mlp_init(&mean_head, actor_params, "mean", head_sizes, 1, PPO_RELU, PPO_IDENTITY, 0.1f, &rng));
    must(ppo_mlp_init(&spread_head, actor_params, "spread", head_sizes, 1, PPO_RELU, PPO_IDENTITY, 0.1f,
                      &rng));
    for (int k = 0; k < 2; k++) {
        must(ppo_mlp_init(&critic[k], critic_params, k ? "q2" : "q1", q_sizes, 3, PPO_RELU, PPO_IDENTITY, 1,
                          &rng));
        must(ppo_mlp_init(&target[k], target_params, k ? "q2" : "q1", q_sizes, 3, PPO_RELU, PPO_IDENTITY, 1,
                          &rng));
    }
    memcpy(target_params->data, critic_params->data, sizeof(float) * critic_params->count);
}

/* Actions in -1..1 (n, 1) and, if not NULL, their log-probabilities (Haarnoja 2018, appendix C). */
static inline ppo_tensor *act(ppo_tensor *obs, int random, ppo_tensor **logp) {
    static float noise[BATCH], constant[BATCH]; /* of the normal density: -noise^2 / 2 - log sqrt(2 pi) */
    for (int i = 0; i < obs->rows; i++)
        noise[i] = random ? ppo_rng_normal(&rng) : 0, constant[i] = -0.5f * noise[i] * noise[i] - 0.919f;
    ppo_tensor *h = ppo_mlp_forward(tape, &trunk, obs), *mean = ppo_mlp_forward(tape, &mean_head, h);
    ppo_tensor *log_std = ppo_tape_clamp(tape, ppo_mlp_forward(tape, &spread_head, h), -5, 2);
    ppo_tensor *e = ppo_tape_constant(tape, noise, obs->rows, 1);
    ppo_tensor *a = ppo_tape_activate(
        tape, ppo_tape_add(tape, mean, ppo_tape_mul(tape, ppo_tape_exp(tape, log_std), e)), PPO_TANH);
    if (logp) {
        ppo_tensor *squash =
            ppo_tape_log(tape, ppo_tape_scale(tape, ppo_tape_square(tape, a), -1, 1 + 1e-6f));
        *logp = ppo_tape_sub(tape, ppo_tape_constant(tape, constant, obs->rows, 1),
                             ppo_tape_add(tape, log_std, squash));
    }
    return a;
}

static inline ppo_tensor *smaller_q(const ppo_mlp *q, ppo_tensor *obs, ppo_tensor *action) {
    ppo_tensor *x = ppo_tape_concat(tape, obs, action);
    return ppo_tape_min(tape, ppo_mlp_forward(tape, &q[0], x), ppo_mlp_forward(tape, &q[1], x));
}

/* A step of critics, actor and alpha on a random batch of all steps so far. */
static inline void learn(int steps) {
    float obs[BATCH][OBS], next[BATCH][OBS], action[BATCH], y[BATCH], alpha = expf(log_alpha);
    int at[BATCH];
    ppo_tensor *logp;
    for (int i = 0; i < BATCH; i++) {
        at[i] = ppo_rng_below(&rng, steps), action[i] = kept.action[at[i]];
        memcpy(obs[i], kept.obs[at[i]], sizeof obs[i]), memcpy(next[i], kept.next_obs[at[i]], sizeof next[i]);
    }
    ppo_tape_reset(tape), ppo_tape_record(tape, 0);
    ppo_tensor *x = ppo_tape_constant(tape, next[0], BATCH, OBS), *a = act(x, 1, &logp),
               *Q = smaller_q(target, x, a);
    for (int i = 0; i < BATCH; i++) /* nothing terminates: the time limit is no end */
        y[i] = reward_scale * kept.reward[at[i]] + discount * (Q->data[i] - alpha * logp->data[i]);

    ppo_tape_reset(tape), ppo_tape_record(tape, 1);
    x = ppo_tape_concat(tape, ppo_tape_constant(tape, obs[0], BATCH, OBS),
                        ppo_tape_constant(tape, action, BATCH, 1));
    ppo_tensor *loss[2];
    for (int k = 0; k < 2; k++)
        loss[k] = ppo_tape_value_loss(tape, ppo_mlp_forward(tape, &critic[k], x), NULL, y, NULL, 0, INFINITY);
    ppo_params_zero_grad(critic_params);
    must(ppo_tape_backward(tape, ppo_tape_add(tape, loss[0], loss[1])));
    must(ppo_params_step(critic_params, &adam, 0, NULL));

    ppo_tape_reset(tape);
    x = ppo_tape_constant(tape, obs[0], BATCH, OBS), a = act(x, 1, &logp);
    ppo_tensor *cost = ppo_tape_mean(
        tape, ppo_tape_sub(tape, ppo_tape_scale(tape, logp, alpha, 0), smaller_q(critic, x, a)));
    ppo_params_zero_grad(actor_params);
    must(ppo_tape_backward(tape, cost));
    must(ppo_params_step(actor_params, &adam, 0, NULL));
    log_alpha += adam.lr * ((float)mean_of(logp->data, BATCH) + wanted_entropy);
    for (size_t i = 0; i < critic_params->count; i++)
        target_params->data[i] = keep * target_params->data[i] + (1 - keep) * critic_params->data[i];
}

/* One episode with the policy as it is; from >= 0: steps are kept there, and learned from. */
static inline float episode(const ppo_env *env, int from) {
    pendulum state;
    float obs[OBS], sum = 0;
    env->reset(&state, &rng, obs);
    for (int t = 0; t < env->max_steps; t++) {
        ppo_action action = {0};
        ppo_outcome outcome = {0};
        ppo_tape_reset(tape), ppo_tape_record(tape, 0);
        float a = from < 0 || from + t >= FIRST
                      ? act(ppo_tape_constant(tape, obs, 1, OBS), from >= 0, NULL)->data[0]
                      : ppo_rng_range(&rng, -1, 1);
        const float torque = 2 * a; /* the motor's range */
        action.box = &torque;
        if (from >= 0) memcpy(kept.obs[from + t], obs, sizeof obs), kept.action[from + t] = a;
        env->step(&state, &rng, &action, obs, &outcome);
        sum += outcome.reward;
        if (from < 0) continue;
        memcpy(kept.next_obs[from + t], obs, sizeof obs), kept.reward[from + t] = outcome.reward;
        if (from + t >= FIRST) learn(from + t + 1);
    }
    return sum;
}

#endif
