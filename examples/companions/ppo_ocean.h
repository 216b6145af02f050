/* ppo_ocean.h - environments in the style of PufferLib's Ocean, in C, for ppo.h

   Such an environment is a struct with pointers to `observations`, `actions`, `rewards` and `terminals`, and has
   c_reset(), c_step() and c_close(); c_step() begins the next episode by itself. Include this file between ppo.h
   and the environment's, and wire it in one statement:

       #include "ppo.h"
       #include "ppo_ocean.h"
       #include "pong.h"
       PPO_OCEAN_ENV(pong, Pong, 8, ppo_discrete(3), 1, 0, pong->width = 500; pong->height = 640; init(pong))

   This defines pong_env(). In the brackets: the name; the struct; how many numbers an agent observes; the action
   space; the agents in a world; a limit to a world's steps (with several agents it needs one; 0: none); and the
   statements that set up the struct, which they find under the name. Its arrays are there by then, of any type.

   All environments call their functions c_reset, c_step and c_close, so each needs a C file of its own. rand() in
   them draws from the library's random streams: results do not depend on the threads, and runs can be repeated.
   With a limit, they can be resumed as well, by playing their episodes again. An environment that begins anew
   without setting `terminals` hides where its episodes end: give it a limit that is less than its own.

   Copy this file beside ppo.h. In the folder examples/, where it is in companions/, programs include it from
   there: #include "companions/ppo_ocean.h". It has no implementation besides, and nothing that other files could
   share.

   License: that of ppo.h. */
#ifndef PPO_OCEAN_H
#define PPO_OCEAN_H
#ifndef PPO_H
#error "include ppo.h before ppo_ocean.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_ocean.h belongs to version 0.3 of ppo.h"
#endif

#ifndef PPO_NO_CONTROL
#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(_MSC_VER)
static __declspec(thread) ppo_rng *ppo__ocean_rng;
#else
static __thread ppo_rng *ppo__ocean_rng;
#endif

static inline int ppo__ocean_rand(void) {
    return ppo__ocean_rng ? (int)(ppo_rng_u32(ppo__ocean_rng) % ((unsigned)RAND_MAX + 1u)) : 0;
}

#define rand()       ppo__ocean_rand()
#define rand_r(seed) ((void)(seed), ppo__ocean_rand())
#define srand(seed)  ((void)(seed))

#define PPO_OCEAN_ENV(NAME, Struct, numbers, space, agent_count, limit, ...)                        \
    typedef char NAME##_needs_a_limit[(agent_count) == 1 || (limit) > 0 ? 1 : -1];                  \
                                                                                                    \
    static int NAME##_open(void *state, void *user, int copy) {                                     \
        Struct *NAME = *(Struct **)state = calloc(1, sizeof *NAME);                                 \
        (void)user, (void)copy;                                                                     \
        if (!NAME) return 1;                                                                        \
        NAME->observations = calloc((size_t)(agent_count) * (numbers), sizeof *NAME->observations); \
        NAME->actions = calloc((size_t)(agent_count)*PPO_MAX_CHOICES, sizeof *NAME->actions);       \
        NAME->rewards = calloc(agent_count, sizeof *NAME->rewards);                                 \
        NAME->terminals = calloc(agent_count, sizeof *NAME->terminals);                             \
        if (!NAME->observations || !NAME->actions || !NAME->rewards || !NAME->terminals) return 1;  \
        __VA_ARGS__;                                                                                \
        return 0;                                                                                   \
    }                                                                                               \
                                                                                                    \
    static void NAME##_close(void *state) {                                                         \
        Struct *NAME = *(Struct **)state;                                                           \
        c_close(NAME);                                                                              \
        free(NAME->observations);                                                                   \
        free(NAME->actions);                                                                        \
        free(NAME->rewards);                                                                        \
        free(NAME->terminals);                                                                      \
        free(NAME);                                                                                 \
    }                                                                                               \
                                                                                                    \
    static void NAME##_reset(void *state, ppo_rng *rng, float *obs, ppo_outcome *out) {             \
        Struct *NAME = *(Struct **)state;                                                           \
        (void)out;                                                                                  \
        ppo__ocean_rng = rng;                                                                       \
        c_reset(NAME);                                                                              \
        for (int i = 0; i < (agent_count) * (numbers); ++i) obs[i] = (float)NAME->observations[i];  \
    }                                                                                               \
                                                                                                    \
    static void NAME##_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,        \
                            ppo_outcome *out) {                                                     \
        Struct *NAME = *(Struct **)state;                                                           \
        const ppo_space actions = space;                                                            \
        const int width = actions.kind == PPO_DISCRETE ? 1 : actions.n;                             \
        ppo__ocean_rng = rng;                                                                       \
        for (int i = 0; i < (agent_count)*width; ++i) {                                             \
            const ppo_action *own = &action[i / width];                                             \
            if (own->box) NAME->actions[i] = own->box[i % width];                                   \
            else if (own->choices) NAME->actions[i] = own->choices[i % width];                      \
        }                                                                                           \
        for (int i = 0; i < (agent_count); ++i) NAME->rewards[i] = 0, NAME->terminals[i] = 0;       \
        c_step(NAME);                                                                               \
        for (int i = 0; i < (agent_count) * (numbers); ++i) obs[i] = (float)NAME->observations[i];  \
        for (int i = 0; i < (agent_count); ++i) {                                                   \
            out[i].reward = (float)NAME->rewards[i];                                                \
            out[i].terminated = NAME->terminals[i] != 0;                                            \
            out[i].joins = out[i].terminated && (agent_count) > 1; /* at once, in the same world */ \
        }                                                                                           \
    }                                                                                               \
                                                                                                    \
    static ppo_env NAME##_env(void) {                                                               \
        ppo_env env;                                                                                \
        memset(&env, 0, sizeof env);                                                                \
        env.name = #NAME;                                                                           \
        env.obs_size = numbers;                                                                     \
        env.action_space = space;                                                                   \
        env.state_size = sizeof(Struct *);                                                          \
        env.agents = agent_count;                                                                   \
        env.max_steps = limit;                                                                      \
        env.reset_all = NAME##_reset;                                                               \
        env.step_all = NAME##_step;                                                                 \
        env.open = NAME##_open;                                                                     \
        env.close = NAME##_close;                                                                   \
        return env;                                                                                 \
    }

#endif
#endif
