/* mujoco.c - train.c with the tasks of MuJoCo, the physics library of the paper on PPO and of Gymnasium.

   It teaches how robots are trained from C alone, with continuous actions, and observations and rewards that are
   normalized as they come. Hopper learns to hop for the whole of an episode in a million steps, a minute and a half, and
   returns some 3,000; then watch it:
       build/mujoco --env Hopper-v5 --save hopper.safetensors
       build/mujoco --watch hopper.safetensors
   The settings are those of CleanRL's ppo_continuous_action.py; bench/mujoco.sh repeats the paper's Table 1. */
#include "ppo.h"
#include "envs/mujoco.h"

static const char cleanrl[] =
    "num_envs=1 rollout_steps=2048 minibatch_size=64 epochs=10 learning_rate_schedule=linear value_clip=0.2 "
    "normalize_obs=yes normalize_reward=yes total_steps=1000000"; /* and the defaults */

/* A row of options.h makes its environment by a function without arguments. */
#define FUNCTION(id, name) \
    static ppo_env id(void) { return mujoco_env(name); }
#define ROW(id, name) {name, id, cleanrl},
#define TASK(what, task) \
    what(task##_v4, #task "-v4") what(task##_v5, #task "-v5") what(task##_unbounded, #task "-v5-unbounded")
/* clang-format off */
#define ALL(what) \
    TASK(what, HalfCheetah) TASK(what, Hopper) TASK(what, InvertedDoublePendulum) TASK(what, InvertedPendulum) \
    TASK(what, Reacher) TASK(what, Swimmer) TASK(what, Walker2d) TASK(what, Ant)
/* clang-format on */
ALL(FUNCTION)

#define MORE_ENVIRONMENTS ALL(ROW)
#include "train.c"
