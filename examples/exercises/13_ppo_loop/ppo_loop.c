/* Exercise 13: a whole PPO loop.
   The task is in README.md; `make grade EX=13` grades this file.

   The networks, the arrays and the loop around are here. What is missing is PPO: collect() and update(), and
   act(). All of it may be changed. */
#include "ppo_loop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ENVS = 8,
    STEPS = 128,
    SAMPLES = ENVS * STEPS,
    MINIBATCH = 256,
    EPOCHS = 6,
    HIDDEN = 64,
    MOST_OBS = 16
};

/* The policy and the critic: three layers each, a weight and a bias side by side. */
static ppo_params *params;
static ppo_tensor *actor[6], *critic[6];
static ppo_tape *tape;
static ppo_rng rng;
static int obs_size, actions;

/* A rollout, [STEPS][ENVS]: what happened, and what follows from it. next_obs is what a step led to, before
   any reset. */
static struct {
    float obs[SAMPLES * MOST_OBS], next_obs[SAMPLES * MOST_OBS];
    int action[SAMPLES];
    float logp[SAMPLES], value[SAMPLES], next_value[SAMPLES], reward[SAMPLES];
    unsigned char terminated[SAMPLES], truncated[SAMPLES];
    float advantage[SAMPLES], value_target[SAMPLES];
} r;

/* The environments as they are now: state, observation, return and length of the episode so far. */
static struct {
    void *state[ENVS];
    float obs[ENVS * MOST_OBS], episode_return[ENVS];
    int length[ENVS];
} now;

static void add_layer(ppo_tensor **layer, const char *name, int in, int out, float gain) {
    char text[64];
    snprintf(text, sizeof text, "%s.weight", name);
    layer[0] = ppo_params_add(params, text, in, out);
    snprintf(text, sizeof text, "%s.bias", name);
    layer[1] = ppo_params_add(params, text, 1, out);
    ppo_init_orthogonal(layer[0], gain, &rng);
}

static void create(const ppo_env *env) {
    obs_size = env->obs_size, actions = env->action_space.n, rng = ppo_rng_stream(1, PPO_STREAM_USER, 0);
    ppo_params_create(&params), ppo_tape_create(&tape);
    add_layer(&actor[0], "actor.0", obs_size, HIDDEN, 1.414f),
        add_layer(&critic[0], "critic.0", obs_size, HIDDEN, 1.414f);
    add_layer(&actor[2], "actor.1", HIDDEN, HIDDEN, 1.414f),
        add_layer(&critic[2], "critic.1", HIDDEN, HIDDEN, 1.414f);
    add_layer(&actor[4], "actor.2", HIDDEN, actions, 0.01f), add_layer(&critic[4], "critic.2", HIDDEN, 1, 1);
    for (int e = 0; e < ENVS; e++) {
        now.state[e] = calloc(env->state_size, 1);
        env->reset(now.state[e], &rng, now.obs + e * obs_size);
    }
}

/* The outputs of one network, (n, actions) or (n, 1). */
static ppo_tensor *network(ppo_tensor **layer, ppo_tensor *x) {
    x = ppo_tape_linear(tape, x, layer[0], layer[1], PPO_TANH);
    x = ppo_tape_linear(tape, x, layer[2], layer[3], PPO_TANH);
    return ppo_tape_linear(tape, x, layer[4], layer[5], PPO_IDENTITY);
}

/* Begins a computation on n observations, with gradients or without. */
static ppo_tensor *begin(const float *obs, int n, int record) {
    ppo_tape_reset(tape), ppo_tape_record(tape, record);
    return ppo_tape_constant(tape, obs, n, obs_size);
}

/* Fills the rollout with STEPS steps of each environment, and with advantages and value targets. In report:
   mean_return, explained_variance. */
static void collect(const ppo_env *env, iteration *report) {
    for (int t = 0; t < STEPS; t++) {
        memcpy(r.obs + t * ENVS * obs_size, now.obs, sizeof(float) * (size_t)(ENVS * obs_size));
        /* your code */
    }
}

/* Epochs of shuffled minibatches: loss, gradient, a step of Adam. In report: all the rest. */
static void update(float learning_rate, iteration *report) { /* your code */
}

int learn(const ppo_env *env, int steps, iteration *report, int most) {
    int iterations = steps / SAMPLES < most ? steps / SAMPLES : most;
    create(env);
    for (int i = 0; i < iterations; i++) {
        collect(env, &report[i]);
        update(2e-3f * (1 - (float)i / (float)iterations), &report[i]); /* falls to 0 */
    }
    return iterations;
}

void act(const float *obs, int n, int *action) { /* your code */
}
