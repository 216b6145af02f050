/* Exercise 13: a whole PPO loop.
   The task is in README.md; `make grade EX=13` grades this file.

   The networks, the arrays and the loop around are in ppo_loop.h. What is missing is PPO: collect(),
   update(), and act(). */
#include "ppo_loop.h"

#include <math.h>

void collect(agent *a, games *now, const ppo_env *env, rollout *r, iteration *report) {
    for (int t = 0; t < STEPS; t++) {
        memcpy(r->obs + t * ENVS * a->obs_size, now->obs, sizeof(float) * (size_t)(ENVS * a->obs_size));
        /* your code */
    }
}

void update(agent *a, const rollout *r, int n, float learning_rate, iteration *report) { /* your code */
}

void act(agent *a, const float *obs, int n, int *action) { /* your code */
}
