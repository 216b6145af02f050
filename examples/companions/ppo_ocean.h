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
   statements that set up the struct, which they find under the name. Its arrays are there by then, of any type. An
   environment that writes beyond them ends the run with a sentence that says how many numbers it needs.

   What else a ppo_env has may be set in what pong_env() returns. For an environment that shows a picture of bytes:

       env.shape[0] = 1, env.shape[1] = env.shape[2] = 11;     // the first numbers are a picture: see ppo_conv.h
       env.byte_scale = 1;                                     // whose numbers are whole ones from 0 to 255

   Most of these environments draw with raylib. Its header must be there, but not the library: compile with
   -ffunction-sections -Wl,--gc-sections, and define the three functions that c_close() may call,

       bool IsWindowReady(void) { return false; }
       void CloseWindow(void) {}
       void UnloadTexture(Texture2D texture) { (void)texture; }

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

/* A copy: its struct and the arrays in it, each with a guard behind it that shows what is written there. It is long,
   so that what follows stays whole; its first bytes are looked at after every call. */
enum { PPO__OCEAN_ARRAYS = 4, PPO__OCEAN_GUARD = 16384, PPO__OCEAN_LOOK = 64, PPO__OCEAN_BYTE = 0xa5 };
typedef struct ppo__ocean {
    void *world;
    struct {
        unsigned char *data; /* [count * size + PPO__OCEAN_GUARD] */
        size_t count, size;
    } array[PPO__OCEAN_ARRAYS]; /* observations, actions, rewards, terminals */
} ppo__ocean;

static inline void ppo__ocean_free(ppo__ocean *ocean) {
    for (int k = 0; k < PPO__OCEAN_ARRAYS; ++k) free(ocean->array[k].data);
    free(ocean->world);
}

/* Array k, of zeros; NULL: there is no memory. */
static inline void *ppo__ocean_array(ppo__ocean *ocean, int k, size_t count, size_t size) {
    unsigned char *data = ocean->array[k].data = (unsigned char *)calloc(1, count * size + PPO__OCEAN_GUARD);
    ocean->array[k].count = count;
    ocean->array[k].size = size;
    if (data) memset(data + count * size, PPO__OCEAN_BYTE, PPO__OCEAN_GUARD);
    return data;
}

/* After a function of the environment: fails, with a sentence, if it has written into a guard. */
static inline void ppo__ocean_check(const ppo__ocean *ocean, const char *function) {
    static const char *const name[] = {"observations", "actions", "rewards", "terminals"};
    static const char *const which[] = {"third, the numbers that an agent observes",
                                        "fourth, the action space", "fifth, the agents", "fifth, the agents"};
    for (int k = 0; k < PPO__OCEAN_ARRAYS; ++k) {
        const size_t count = ocean->array[k].count, size = ocean->array[k].size;
        const unsigned char *guard = ocean->array[k].data + count * size;
        size_t last = PPO__OCEAN_LOOK;
        while (last && guard[last - 1] == PPO__OCEAN_BYTE) --last;
        if (!last) continue;
        for (last = PPO__OCEAN_GUARD; guard[last - 1] == PPO__OCEAN_BYTE;) --last;
        ppo_env_fail("%s writes %lu %s or more, which has %lu: see the arguments of PPO_OCEAN_ENV(), the %s",
                     function, (unsigned long)(count + (last + size - 1) / size), name[k],
                     (unsigned long)count, which[k]);
        return;
    }
}

#define PPO_OCEAN_ENV(NAME, Struct, numbers, space, agent_count, limit, ...)                                \
    typedef char NAME##_needs_a_limit[(agent_count) == 1 || (limit) > 0 ? 1 : -1];                          \
                                                                                                            \
    static int NAME##_open(void *state, void *user, int copy) {                                             \
        ppo__ocean *ocean = (ppo__ocean *)state;                                                            \
        Struct *NAME = calloc(1, sizeof *NAME);                                                             \
        (void)user, (void)copy;                                                                             \
        ocean->world = NAME;                                                                                \
        if (NAME &&                                                                                         \
            (NAME->observations = ppo__ocean_array(ocean, 0, (size_t)(agent_count) * (numbers),             \
                                                   sizeof *NAME->observations)) != NULL &&                  \
            (NAME->actions = ppo__ocean_array(ocean, 1, (size_t)(agent_count)*PPO_MAX_CHOICES,              \
                                              sizeof *NAME->actions)) != NULL &&                            \
            (NAME->rewards = ppo__ocean_array(ocean, 2, agent_count, sizeof *NAME->rewards)) != NULL &&     \
            (NAME->terminals = ppo__ocean_array(ocean, 3, agent_count, sizeof *NAME->terminals)) != NULL) { \
            __VA_ARGS__;                                                                                    \
            return 0;                                                                                       \
        }                                                                                                   \
        ppo__ocean_free(ocean);                                                                             \
        return 1;                                                                                           \
    }                                                                                                       \
                                                                                                            \
    static void NAME##_close(void *state) {                                                                 \
        c_close((Struct *)((ppo__ocean *)state)->world);                                                    \
        ppo__ocean_free((ppo__ocean *)state);                                                               \
    }                                                                                                       \
                                                                                                            \
    static void NAME##_reset(void *state, ppo_rng *rng, float *obs, ppo_outcome *out) {                     \
        Struct *NAME = (Struct *)((ppo__ocean *)state)->world;                                              \
        (void)out;                                                                                          \
        ppo__ocean_rng = rng;                                                                               \
        c_reset(NAME);                                                                                      \
        ppo__ocean_check((ppo__ocean *)state, "c_reset()");                                                 \
        for (int i = 0; i < (agent_count) * (numbers); ++i) obs[i] = (float)NAME->observations[i];          \
    }                                                                                                       \
                                                                                                            \
    static void NAME##_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,                \
                            ppo_outcome *out) {                                                             \
        Struct *NAME = (Struct *)((ppo__ocean *)state)->world;                                              \
        const ppo_space actions = space;                                                                    \
        const int width = actions.kind == PPO_DISCRETE ? 1 : actions.n;                                     \
        ppo__ocean_rng = rng;                                                                               \
        for (int i = 0; i < (agent_count)*width; ++i) {                                                     \
            const ppo_action *own = &action[i / width];                                                     \
            if (own->box) NAME->actions[i] = own->box[i % width];                                           \
            else if (own->choices) NAME->actions[i] = own->choices[i % width];                              \
        }                                                                                                   \
        for (int i = 0; i < (agent_count); ++i) NAME->rewards[i] = 0, NAME->terminals[i] = 0;               \
        c_step(NAME);                                                                                       \
        ppo__ocean_check((ppo__ocean *)state, "c_step()");                                                  \
        for (int i = 0; i < (agent_count) * (numbers); ++i) obs[i] = (float)NAME->observations[i];          \
        for (int i = 0; i < (agent_count); ++i) {                                                           \
            out[i].reward = (float)NAME->rewards[i];                                                        \
            out[i].terminated = NAME->terminals[i] != 0;                                                    \
            out[i].joins = out[i].terminated && (agent_count) > 1; /* at once, in the same world */         \
        }                                                                                                   \
    }                                                                                                       \
                                                                                                            \
    static ppo_env NAME##_env(void) {                                                                       \
        ppo_env env;                                                                                        \
        memset(&env, 0, sizeof env);                                                                        \
        env.name = #NAME;                                                                                   \
        env.obs_size = numbers;                                                                             \
        env.action_space = space;                                                                           \
        env.state_size = sizeof(ppo__ocean);                                                                \
        env.agents = agent_count;                                                                           \
        env.max_steps = limit;                                                                              \
        env.reset_all = NAME##_reset;                                                                       \
        env.step_all = NAME##_step;                                                                         \
        env.open = NAME##_open;                                                                             \
        env.close = NAME##_close;                                                                           \
        return env;                                                                                         \
    }

#endif
#endif
