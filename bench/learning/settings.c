/* settings.c - train.c with tasks for settings.sh in which an agent sees less than there is: environments behind noisy
   sensors, and Memory-v0. In those with "-asymmetric" the critic also sees the truth (env.actor_obs). */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "envs/cartpole.h"
#include "envs/memory.h"
#include "envs/pendulum.h"

enum { MOST = 8 };

/* An environment, and how much its numbers tremble; 0: the last of them is for the critic, at every step. */
typedef struct sensors {
    ppo_env env;
    float noise;
    int asymmetric;
} sensors;

static void sense(const sensors *s, const void *state, ppo_rng *rng, const float *truth, float *obs) {
    const int n = s->env.obs_size;
    for (int j = 0; j < n; j++) obs[j] = truth[j] + s->noise * (s->noise > 0 ? ppo_rng_normal(rng) : 0);
    for (int j = 0; j < n && s->asymmetric && s->noise > 0; j++) obs[n + j] = truth[j];
    if (s->asymmetric && s->noise == 0) obs[n] = (float)((const memory *)state)->cue;
}

static void sensors_reset(void *state, ppo_rng *rng, float *obs) {
    const sensors *s = (const sensors *)ppo_env_user();
    float truth[MOST];
    s->env.reset(state, rng, truth);
    sense(s, state, rng, truth, obs);
}

static void sensors_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    const sensors *s = (const sensors *)ppo_env_user();
    float truth[MOST];
    s->env.step(state, rng, action, truth, out);
    sense(s, state, rng, truth, obs);
}

static ppo_env behind(sensors *s, ppo_env env, float noise, int asymmetric) {
    s->env = env;
    s->noise = noise;
    s->asymmetric = asymmetric;
    if (asymmetric) env.actor_obs = env.obs_size, env.obs_size += noise > 0 ? env.obs_size : 1;
    env.reset = sensors_reset;
    env.step = sensors_step;
    env.user = s;
    return env;
}

static sensors tasks[5];

static ppo_env cartpole_noisy(void) { return behind(&tasks[0], cartpole_env(), 0.3f, 0); }
static ppo_env cartpole_asymmetric(void) { return behind(&tasks[1], cartpole_env(), 0.3f, 1); }
static ppo_env pendulum_noisy(void) { return behind(&tasks[2], pendulum_env(), 0.3f, 0); }
static ppo_env pendulum_asymmetric(void) { return behind(&tasks[3], pendulum_env(), 0.3f, 1); }
static ppo_env memory_asymmetric(void) { return behind(&tasks[4], memory_env(), 0, 1); }

static const char swing[] =
    "rollout_steps=1024 gamma=0.9 learning_rate=1e-3 learning_rate_schedule=constant value_coef=1";

#define MORE_ENVIRONMENTS                                                                           \
    {"CartPole-noisy", cartpole_noisy, ""}, {"CartPole-noisy-asymmetric", cartpole_asymmetric, ""}, \
        {"Pendulum-noisy", pendulum_noisy, swing},                                                  \
        {"Pendulum-noisy-asymmetric", pendulum_asymmetric, swing},                                  \
        {"Memory-asymmetric", memory_asymmetric, "recurrent=16"},
#include "train.c"
