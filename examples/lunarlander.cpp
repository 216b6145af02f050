/* lunarlander.cpp - train.c with two more environments: LunarLander on Box2D, the physics library of Gymnasium.

   It teaches how to train an environment that owns resources, and how C++ uses ppo.h. The output is that of train.c. The
   agent learns to land in half a minute; then watch it:
       build/lunarlander --env LunarLander-v3 --save lander.safetensors
       build/lunarlander --watch lander.safetensors */
#include "ppo.h"
#include "envs/lunarlander.hpp"

static const char zoo[] =
    "num_envs=16 rollout_steps=1024 epochs=4 gamma=0.999 gae_lambda=0.98 entropy_coef=0.01 "
    "learning_rate_schedule=constant value_coef=1 total_steps=1000000";

#define MORE_ENVIRONMENTS \
    {"LunarLander-v3", lunarlander_env, zoo}, {"LunarLanderContinuous-v3", lunarlander_continuous_env, zoo},
#include "train.c"
