/* memory.h - a T-maze for ppo.h (include that first): a task that needs memory.

       cue: left      +---+      The cue, left or right, is shown in the first observation only.
                      |   |      Then comes a corridor in which all cells look alike, and at its end a
       +--------------+   |      junction, which looks alike whatever the cue was. Turning as the cue said
       | @                |      pays 1, turning the other way costs 1, and both end the episode. Walking on
       +--------------+   |      is free; bumping into a wall (a turn in the corridor, walking on at the
                      |   |      junction) costs 0.1.
                      +---+

   Bakker 2001, "Reinforcement Learning with Long Short-Term Memory", with other rewards.

   The best return is 1. The best mean return without memory is exactly 0: after the first observation,
   no observation depends on the cue, on the time, or on the place in the corridor, where an action could
   have left a hint. A policy that sees only the present therefore turns left at the junction with the
   same probability under both cues, and is right in half of the episodes: (1 - 1) / 2 = 0. All other
   actions cost. A mean return above 0 proves memory.

   Learned within 100000 steps with recurrent 32. A longer MEMORY_CORRIDOR makes it harder: the cue must
   be remembered over that many cells. (A picture has room for 19.) */

#ifndef MEMORY_H
#define MEMORY_H

#include "canvas.h"

enum { MEMORY_CORRIDOR = 8 };

typedef struct memory {
    int cue;      /* -1: left, 1: right */
    int position; /* 0 .. MEMORY_CORRIDOR-1: in the corridor, MEMORY_CORRIDOR: at the junction */
    int turned;   /* -1: into the left arm, 1: into the right arm, 0: not yet */
} memory;

static inline void memory_observe(const memory *s, int cue, float *obs) {
    obs[0] = (float)cue;
    obs[1] = s->position < MEMORY_CORRIDOR ? 1.0f : 0.0f;
    obs[2] = s->position < MEMORY_CORRIDOR ? 0.0f : 1.0f;
}

static inline void memory_reset(void *state, ppo_rng *rng, float *obs) {
    memory *s = (memory *)state;
    s->cue = ppo_rng_below(rng, 2) ? 1 : -1;
    s->position = 0;
    s->turned = 0;
    memory_observe(s, s->cue, obs);
}

static inline void memory_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                               ppo_outcome *out) {
    memory *s = (memory *)state;
    int at_junction = s->position == MEMORY_CORRIDOR;
    int turn = action->discrete == 0 ? 0 : action->discrete == 1 ? -1 : 1;
    (void)rng; /* only the cue is random */

    if (at_junction && turn) {
        s->turned = turn;
        out->reward = turn == s->cue ? 1.0f : -1.0f;
        out->terminated = 1;
    } else if (at_junction || turn) {
        out->reward = -0.1f;
    } else {
        s->position++;
    }
    memory_observe(s, 0, obs);
}

static inline void memory_draw(const void *state, FILE *file) {
    const memory *s = (const memory *)state;
    const int wall = 3 * MEMORY_CORRIDOR; /* where the arms begin; a cell is three characters wide */
    canvas picture = canvas_blank(wall + 6, 7);
    canvas_line(&picture, 1, 2, wall, 2, '-');
    canvas_line(&picture, 1, 4, wall, 4, '-');
    canvas_text(&picture, 0, 2, "+");
    canvas_text(&picture, 0, 3, "|");
    canvas_text(&picture, 0, 4, "+");
    for (int row = 0; row < 7; row++) canvas_text(&picture, wall + 1, row, row == 3 ? "    |" : "|   |");
    canvas_text(&picture, wall + 1, 0, "+---+");
    canvas_text(&picture, wall + 1, 2, "+");
    canvas_text(&picture, wall + 1, 4, "+");
    canvas_text(&picture, wall + 1, 6, "+---+");
    canvas_text(&picture, 0, 0, s->cue < 0 ? "cue: left" : "cue: right");
    canvas_put(&picture, 3 * s->position + (s->position < MEMORY_CORRIDOR ? 2 : 3), 3 + 2 * s->turned, '@');
    canvas_print(&picture, file);
}

static inline ppo_env memory_env(void) {
    ppo_env env;
    memset(&env, 0, sizeof env);
    env.name = "Memory-v0";
    env.obs_size = 3; /* the cue (-1: left, 1: right, 0: not shown), 1 in the corridor, 1 at the junction */
    env.action_space = ppo_discrete(3); /* 0: walk on, 1: turn left, 2: turn right */
    env.state_size = sizeof(memory);
    env.max_steps = 5 * (MEMORY_CORRIDOR + 1);
    env.reset = memory_reset;
    env.step = memory_step;
    env.draw = memory_draw;
    return env;
}

#endif
