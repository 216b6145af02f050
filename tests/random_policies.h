/* random_policies.h - for export.c and onnx.c, after ppo.h: an environment of noise, and agents that learned in it for a
   moment, whose answers are compared with those of what was exported. */
#ifndef PPO_TEST_RANDOM_POLICIES_H
#define PPO_TEST_RANDOM_POLICIES_H

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

enum { CHANNELS = 2, HEIGHT = 3, WIDTH = 5, OBS = CHANNELS * HEIGHT * WIDTH };

/* Observations are noise around a place of their own, which normalized agents have to find out. */
static float place, spread;

static void noise(ppo_rng *rng, float *obs) {
    for (int j = 0; j < OBS; j++) obs[j] = place * (float)(j + 1) + spread * ppo_rng_normal(rng);
}

static void noise_reset(void *state, ppo_rng *rng, float *obs) {
    *(float *)state = 0;
    noise(rng, obs);
}

static void noise_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    float *last = (float *)state;
    out->reward = action->box ? action->box[0] * *last : (float)action->choices[0] * *last;
    noise(rng, obs);
    *last = (obs[0] - place) / spread;
}

static void check(ppo_status status) {
    if (status == PPO_OK) return;
    fprintf(stderr, "%s\n", ppo_last_error());
    exit(1);
}

/* An agent that was trained a little, and whose weights are then moved by `size` at random, to tell actions apart. */
static ppo_agent *train(const ppo_env *env, const char *settings, float size, int seed) {
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    check(ppo_config_set_all(&cfg, "total_steps=400 rollout_steps=50 hidden=8,8 learning_rate=0.01"));
    check(ppo_config_set_all(&cfg, settings));
    if (cfg.recurrent) cfg.sequence_steps = 10;
    check(ppo_train(env, &cfg, &agent));
    ppo_rng rng = ppo_rng_stream(2, PPO_STREAM_USER, (uint32_t)seed);
    for (size_t k = 0; k < agent->model.params->count; k++)
        agent->model.params->data[k] += size * ppo_rng_normal(&rng);
    return agent;
}

#endif
