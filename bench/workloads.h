/* workloads.h - the trainings that more than one program of bench/ measures. Include ppo.h first. */
#ifndef WORKLOADS_H
#define WORKLOADS_H

#include "examples/envs/cartpole.h"
#include "examples/envs/pendulum.h"
#include "measure.h"

/* 49 rollouts of 4 environments x 512 steps, minibatches of 64, 10 epochs, two separate 64-64 tanh networks. */
static inline ppo_config cartpole_settings(int seed) {
    ppo_config c = ppo_config_default();
    c.total_steps = 49 * 4 * 512, c.num_envs = 4, c.rollout_steps = 512;
    c.minibatch_size = 64, c.epochs = 10;
    c.seed = (uint64_t)seed;
    return c;
}

/* 303,104 steps: 74 rollouts of 4 environments x 1024 steps, minibatches of 256, 2 epochs, separate 64-64 ReLU
   networks, observations normalized. */
static inline ppo_config pendulum_settings(int seed) {
    ppo_config c = ppo_config_default();
    c.total_steps = 74 * 4 * 1024, c.num_envs = 4, c.rollout_steps = 1024;
    c.minibatch_size = 256, c.epochs = 2;
    c.activation = PPO_RELU, c.normalize_obs = 1;
    c.gamma = 0.95f, c.learning_rate = 1e-3f, c.learning_rate_schedule = PPO_CONSTANT;
    c.seed = (uint64_t)seed;
    return c;
}

/* Seconds of a training; NAN if it failed. The agent is the caller's; where that is NULL, it is freed here. */
static inline double train(ppo_env env, ppo_config c, ppo_agent **agent) {
    ppo_agent *own = NULL, **to = agent ? agent : &own;
    double began = ppo_clock();
    if (ppo_train(&env, &c, to)) return fail(), NAN;
    double seconds = ppo_clock() - began;
    ppo_agent_free(own);
    return seconds;
}

/* The transformer: batches of random sequences, each with forward, backward, clipping and Adam. The first ones, in which
   memory is used for the first time, are not counted. */
enum { VOCAB = 512, CONTEXT = 128, BATCH = 16, BATCHES = 13, WARM_UP = 3 };

static inline ppo_status transformer_create(ppo_lm **lm, ppo_tokens *data) {
    ppo_lm_config shape = ppo_lm_config_default();
    ppo_rng rng = ppo_rng_stream(1, PPO_STREAM_USER, 0);
    int token[CONTEXT];
    shape.vocab = VOCAB, shape.context = CONTEXT, shape.width = 128, shape.layers = 4, shape.heads = 4;
    ppo_status status = ppo_lm_create(&shape, lm);
    for (int s = 0; s < BATCH * BATCHES && !status; s++) {
        for (int i = 0; i < CONTEXT; i++) token[i] = ppo_rng_below(&rng, VOCAB);
        status = ppo_tokens_add(data, token, CONTEXT, 0);
    }
    return status;
}

static inline int keep_time(const ppo_fit_progress *p, void *user) {
    if (p->step == WARM_UP) *(double *)user = ppo_clock();
    return 0;
}

/* Tokens per second; NAN if it failed. */
static inline double train_transformer(ppo_lm *lm, const ppo_tokens *data) {
    ppo_fit_config fit = ppo_fit_config_default();
    double began = NAN;
    fit.batch_size = BATCH;
    fit.callback = keep_time, fit.callback_user = &began;
    if (ppo_fit_sft(lm, data, &fit)) return fail(), NAN;
    return (BATCHES - WARM_UP) * BATCH * CONTEXT / (ppo_clock() - began);
}

#endif
