/* models.h - networks for the tests: what ppo_env and ppo_config say about one. */
#ifndef TEST_MODELS_H
#define TEST_MODELS_H

#include "test.h"

typedef struct model_config {
    int obs_size;
    ppo_space action_space;
    const int *hidden; /* [layers] */
    int layers, activation, shared_trunk, recurrent, init, gsde, squash;
    float log_std_init;
    uint64_t seed;
} model_config;

static inline ppo_status model_init(ppo_actor_critic *model, const model_config *c) {
    ppo_env env = {0};
    ppo_config config = ppo_config_default();
    env.obs_size = c->obs_size;
    env.action_space = c->action_space;
    config.hidden_layers = c->layers;
    if (c->layers) memcpy(config.hidden, c->hidden, (size_t)c->layers * sizeof *c->hidden);
    config.activation = c->activation;
    config.shared_trunk = c->shared_trunk;
    config.recurrent = c->recurrent;
    config.init = c->init;
    config.gsde = c->gsde;
    config.squash = c->squash;
    config.log_std_init = c->log_std_init;
    config.seed = c->seed;
    ppo_status status = ppo__check_network(&env, &config);
    return status ? status : ppo__actor_critic_init(model, &env, &config, 0);
}

#endif
