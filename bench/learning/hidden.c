/* hidden.c - train.c with tasks that do not show their velocities, the environments -NoVel of rl-baselines3-zoo: what moves
   how fast must be remembered (--recurrent 32), or seen in a stack of the last four observations (environments named
   -stack, by stack.h).

   It teaches how an environment hides a part of another one's observation. records.md has its returns:
       build/hidden --env CartPoleNoVel-v1 --recurrent 32 */
#include "ppo.h"
#include "envs/cartpole.h"
#include "envs/mountaincar_continuous.h"
#include "envs/pendulum.h"
#include "envs/stack.h"

enum { MOST_SHOWN = 4 };

/* The only one of this program: train.c asks for one environment. */
static ppo_env whole;
static int shown[MOST_SHOWN]; /* which of its numbers are shown */
static ppo_env part;
static stack frames;

static void pick(const float *all, float *obs) {
    for (int k = 0; k < part.obs_size; k++) obs[k] = all[shown[k]];
}

static void part_reset(void *state, ppo_rng *rng, float *obs) {
    float all[MOST_SHOWN];
    whole.reset(state, rng, all);
    pick(all, obs);
}

static void part_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    float all[MOST_SHOWN];
    whole.step(state, rng, action, all, out);
    pick(all, obs);
}

/* `env` with its numbers `first` and `second` alone, or with the first alone if they are the same. */
static ppo_env hide(ppo_env env, const char *name, int first, int second) {
    whole = part = env;
    shown[0] = first;
    shown[1] = second;
    part.name = name;
    part.obs_size = 1 + (first != second);
    part.reset = part_reset;
    part.step = part_step;
    return part;
}

static ppo_env stacked(ppo_env env, const char *name) {
    frames.inner = env;
    frames.frames = 4;
    frames.repeat = 1;
    env = stack_env(&frames);
    env.name = name;
    return env;
}

static ppo_env cartpole_part(void) { return hide(cartpole_env(), "CartPoleNoVel-v1", 0, 2); }
static ppo_env pendulum_part(void) { return hide(pendulum_env(), "PendulumNoVel-v1", 0, 1); }
static ppo_env car_part(void) {
    return hide(mountaincar_continuous_env(), "MountainCarContinuousNoVel-v0", 0, 0);
}
static ppo_env cartpole_stack(void) { return stacked(cartpole_part(), "CartPoleNoVel-v1-stack"); }
static ppo_env pendulum_stack(void) { return stacked(pendulum_part(), "PendulumNoVel-v1-stack"); }
static ppo_env car_stack(void) { return stacked(car_part(), "MountainCarContinuousNoVel-v0-stack"); }

#define MORE_ENVIRONMENTS                                                                                \
    {"CartPoleNoVel-v1", cartpole_part, ""}, {"PendulumNoVel-v1", pendulum_part, ""},                    \
        {"MountainCarContinuousNoVel-v0", car_part, ""}, {"CartPoleNoVel-v1-stack", cartpole_stack, ""}, \
        {"PendulumNoVel-v1-stack", pendulum_stack, ""},                                                  \
        {"MountainCarContinuousNoVel-v0-stack", car_stack, ""},
#include "train.c"
