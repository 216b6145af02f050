/* ends.c - train.c with environments whose time limit ends an episode as a failure would: the value after it counts as
   0, as in CleanRL's ppo.py. In ppo.h the limit truncates, and the critic's value stands for what would have followed.

   It teaches how an environment wraps another one. published.md says what the difference is worth:
       build/ends --env CartPole-v1-ends */
#include "ppo.h"
#include "envs/acrobot.h"
#include "envs/cartpole.h"

typedef struct limited { /* the state */
    double inside[16];   /* of the wrapped environment */
    int steps;
} limited;

static ppo_env wrapped; /* the only one of this program: train.c asks for one environment */

static void limited_reset(void *state, ppo_rng *rng, float *obs) {
    limited *l = (limited *)state;
    l->steps = 0;
    wrapped.reset(l->inside, rng, obs);
}

static void limited_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    limited *l = (limited *)state;
    wrapped.step(l->inside, rng, action, obs, out);
    if (++l->steps == wrapped.max_steps) out->terminated = 1;
}

static ppo_env limit(ppo_env env) {
    wrapped = env;
    env.state_size = sizeof(limited);
    env.max_steps = 0;
    env.reset = limited_reset;
    env.step = limited_step;
    env.draw = NULL;
    return env;
}

static ppo_env cartpole_ends_env(void) { return limit(cartpole_env()); }
static ppo_env acrobot_ends_env(void) { return limit(acrobot_env()); }

#define MORE_ENVIRONMENTS \
    {"CartPole-v1-ends", cartpole_ends_env, ""}, {"Acrobot-v1-ends", acrobot_ends_env, ""},
#include "train.c"
