/* The environment of the files that earlier versions wrote, for v0_2.c and test_v0_2.c: a place on a line, seen beside a
   constant. It is compiled with the ppo.h of each version. */
static void line_reset(void *state, ppo_rng *rng, float *obs) {
    float *x = (float *)state;
    obs[0] = *x = ppo_rng_range(rng, -1, 1);
    obs[1] = 1;
}

static void line_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    float *x = (float *)state;
    (void)rng;
    *x += action->box ? 0.1f * action->box[0] : 0.1f * (float)(2 * action->discrete - 1);
    obs[0] = *x;
    obs[1] = 1;
    out->reward = -*x * *x;
    out->terminated = *x > 2 || *x < -2;
}

static ppo_env line_env(ppo_space space) {
    ppo_env env = {0};
    env.name = "walk";
    env.obs_size = 2;
    env.action_space = space;
    env.state_size = sizeof(float);
    env.max_steps = 20;
    env.reset = line_reset;
    env.step = line_step;
    return env;
}
