/* corridor.h - the task of lesson 12, which bench/learning/claims.c measures as well: a local optimum.

   A corridor of 6 cells, of which the agent sees its own as a 1 among 0. Action 0 leaves, from any cell, and is
   worth 0.3; action 1 goes on, at a cost of 0.05, and pays 1.5 at the end. A policy that leaves at once no
   longer sees the end. */
#ifndef CORRIDOR_H
#define CORRIDOR_H

enum { CORRIDOR_CELLS = 6 };

static inline void corridor_see(int cell, float *obs) {
    for (int i = 0; i < CORRIDOR_CELLS; i++) obs[i] = i == cell;
}

static inline void corridor_reset(void *state, ppo_rng *rng, float *obs) {
    (void)rng;
    corridor_see(*(int *)state = 0, obs);
}

static inline void corridor_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                                 ppo_outcome *out) {
    int *cell = (int *)state;
    (void)rng;
    if (action->discrete == 0) {
        out->reward = 0.3f;
        out->terminated = 1;
    } else {
        out->reward = -0.05f + (++*cell == CORRIDOR_CELLS ? 1.5f : 0);
        out->terminated = *cell == CORRIDOR_CELLS;
    }
    corridor_see(*cell, obs);
}

static inline ppo_env corridor_env(void) {
    ppo_env env;
    memset(&env, 0, sizeof env);
    env.name = "corridor";
    env.obs_size = CORRIDOR_CELLS;
    env.action_space = ppo_discrete(2);
    env.state_size = sizeof(int);
    env.max_steps = 20;
    env.reset = corridor_reset;
    env.step = corridor_step;
    return env;
}

#endif
