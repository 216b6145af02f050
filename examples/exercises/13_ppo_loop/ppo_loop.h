#include "ppo.h"

#include <stdlib.h>
#include <string.h>

/* The frame of exercise 13: networks, arrays, the outer loop. You write collect(), update() and act(). */

enum {
    ENVS = 8,
    STEPS = 128,
    SAMPLES = ENVS * STEPS,
    MINIBATCH = 256,
    EPOCHS = 6,
    HIDDEN = 64,
    MOST_OBS = 16
};

/* What you report about an iteration. It tells you, and the grader, what goes wrong. */
typedef struct iteration {
    float mean_return;        /* of the episodes that ended in the rollout; 0: none did */
    float first_ratio_error;  /* first minibatch of the iteration: the largest |ratio - 1| */
    float approx_kl;          /* of the last minibatch */
    float clip_fraction;      /* of the last minibatch */
    float entropy;            /* of the last minibatch, mean */
    float explained_variance; /* ppo_explained_variance() of the rollout's values, before the update */
} iteration;

/* A rollout, [STEPS][ENVS]: what happened, and what follows from it. Sample t * ENVS + e is step t of game e.
   next_obs is what a step led to, before any reset. */
typedef struct rollout {
    float obs[SAMPLES * MOST_OBS], next_obs[SAMPLES * MOST_OBS]; /* [SAMPLES][obs_size], dense */
    int action[SAMPLES];
    float logp[SAMPLES], value[SAMPLES], next_value[SAMPLES], reward[SAMPLES];
    unsigned char terminated[SAMPLES], truncated[SAMPLES];
    float advantage[SAMPLES], value_target[SAMPLES];
} rollout;

/* The policy and the critic: three layers each, a weight and a bias side by side. */
typedef struct agent {
    ppo_params *params;
    ppo_tensor *actor[6], *critic[6];
    ppo_tape *tape;
    ppo_rng rng;
    int obs_size, actions;
} agent;

/* The environments as they are now: state, observation, return and length of the episode so far. */
typedef struct games {
    void *state[ENVS];
    float obs[ENVS * MOST_OBS], episode_return[ENVS];
    int length[ENVS];
} games;

/* ---- yours ---- */

/* Fills the rollout with STEPS steps of each environment, and with advantages and value targets. In report:
   mean_return, explained_variance. */
void collect(agent *a, games *now, const ppo_env *env, rollout *r, iteration *report);

/* EPOCHS epochs of shuffled minibatches of samples 0 to n - 1, n a multiple of MINIBATCH: loss, gradient, a
   step of Adam. In report: all the rest. */
void update(agent *a, const rollout *r, int n, float learning_rate, iteration *report);

/* The best action for each of n observations: [n][obs_size] -> [n]. */
void act(agent *a, const float *obs, int n, int *action);

/* ---- given ---- */

static inline void add_layer(agent *a, ppo_tensor **layer, const char *name, int in, int out, float gain) {
    char text[64];
    snprintf(text, sizeof text, "%s.weight", name);
    layer[0] = ppo_params_add(a->params, text, in, out);
    snprintf(text, sizeof text, "%s.bias", name);
    layer[1] = ppo_params_add(a->params, text, 1, out);
    ppo_init_orthogonal(layer[0], gain, &a->rng);
}

static inline void create(agent *a, int obs_size, int actions) {
    memset(a, 0, sizeof *a);
    a->obs_size = obs_size, a->actions = actions, a->rng = ppo_rng_stream(1, PPO_STREAM_USER, 0);
    ppo_params_create(&a->params), ppo_tape_create(&a->tape);
    add_layer(a, &a->actor[0], "actor.0", obs_size, HIDDEN, 1.414f);
    add_layer(a, &a->actor[2], "actor.1", HIDDEN, HIDDEN, 1.414f);
    add_layer(a, &a->actor[4], "actor.2", HIDDEN, actions, 0.01f);
    add_layer(a, &a->critic[0], "critic.0", obs_size, HIDDEN, 1.414f);
    add_layer(a, &a->critic[2], "critic.1", HIDDEN, HIDDEN, 1.414f);
    add_layer(a, &a->critic[4], "critic.2", HIDDEN, 1, 1);
}

static inline void start(agent *a, games *now, const ppo_env *env) {
    memset(now, 0, sizeof *now);
    for (int e = 0; e < ENVS; e++) {
        now->state[e] = calloc(env->state_size, 1);
        env->reset(now->state[e], &a->rng, now->obs + e * a->obs_size);
    }
}

/* Begins a computation on n observations, with gradients or without. */
static inline ppo_tensor *begin(agent *a, const float *obs, int n, int record) {
    ppo_tape_reset(a->tape), ppo_tape_record(a->tape, record);
    return ppo_tape_constant(a->tape, obs, n, a->obs_size);
}

/* The outputs of one network, (n, actions) or (n, 1): network(a, a->actor, x). */
static inline ppo_tensor *network(agent *a, ppo_tensor **layer, ppo_tensor *x) {
    x = ppo_tape_linear(a->tape, x, layer[0], layer[1], PPO_TANH);
    x = ppo_tape_linear(a->tape, x, layer[2], layer[3], PPO_TANH);
    return ppo_tape_linear(a->tape, x, layer[4], layer[5], PPO_IDENTITY);
}

/* The outer loop: `iterations` times a rollout and its update, with a learning rate that falls to 0. */
static inline void learn(agent *a, const ppo_env *env, int iterations, iteration *report) {
    static rollout r;
    games now;
    start(a, &now, env);
    for (int i = 0; i < iterations; i++) {
        collect(a, &now, env, &r, &report[i]);
        update(a, &r, SAMPLES, 2e-3f * (1 - (float)i / (float)iterations), &report[i]);
    }
}
