/* gridworld.h - a world of twelve cells for ppo.h (include that first), small enough to be solved on paper.

        column  0     1     2     3                  the optimal value of each cell, without discount
             +-----+-----+-----+-----+             +-------+-------+-------+-------+
       row 0 |     |     |     | +1  |  goal       | 0.812 | 0.868 | 0.918 |       |
             +-----+-----+-----+-----+             +-------+-------+-------+-------+
           1 |     |#####|     | -1  |  pit        | 0.762 |       | 0.660 |       |
             +-----+-----+-----+-----+             +-------+-------+-------+-------+
           2 |     |     |     |     |             | 0.705 | 0.655 | 0.611 | 0.388 |
             +-----+-----+-----+-----+             +-------+-------+-------+-------+

   Each step costs 0.04. The goal pays 1, the pit costs 1, and both end the episode. The floor is slippery: a
   step goes in the chosen direction with probability 0.8, and to the left or the right of it with 0.1 each.
   A step into the wall or out of the world has no effect. An episode starts in any of the nine free cells,
   so the best mean return is the mean of the nine values: 0.709.

   It is the world of Russell and Norvig, "Artificial Intelligence: A Modern Approach", chapter "Making
   Complex Decisions", and the values are those printed there. They solve Bellman's equation

       V(cell) = max over actions: sum over next cells: P(next) (reward + V(next)),  V(goal) = V(pit) = 0

   Train with gamma 1, no hidden layers and a learning rate of 3e-3, and compare the critic with them: the
   observation is one-hot, so the critic is a table of twelve numbers. They come out a little lower, because
   they are those of the policy in training, which still explores. Look at row 2, column 2: the shortest way
   leads up, past the pit; the best policy avoids it. */

#ifndef GRIDWORLD_H
#define GRIDWORLD_H

#include <string.h>

#include "canvas.h"

enum { GRIDWORLD_ROWS = 3, GRIDWORLD_COLUMNS = 4, GRIDWORLD_CELLS = 12 };

typedef struct gridworld {
    int cell; /* row * 4 + column */
} gridworld;

/* ' ': free, '#': wall, 'G': goal, 'P': pit. */
static inline char gridworld_at(int cell) {
    return "   G"
           " # P"
           "    "[cell];
}

/* The cell reached from `cell` by going 0: up, 1: right, 2: down, 3: left, without slipping. */
static inline int gridworld_move(int cell, int way) {
    int row = cell / GRIDWORLD_COLUMNS + (way == 2) - (way == 0);
    int column = cell % GRIDWORLD_COLUMNS + (way == 1) - (way == 3);
    if (row < 0 || row >= GRIDWORLD_ROWS || column < 0 || column >= GRIDWORLD_COLUMNS) return cell;
    int next = row * GRIDWORLD_COLUMNS + column;
    return gridworld_at(next) == '#' ? cell : next;
}

static inline void gridworld_observe(const gridworld *s, float *obs) {
    for (int cell = 0; cell < GRIDWORLD_CELLS; cell++) obs[cell] = cell == s->cell ? 1.0f : 0.0f;
}

static inline void gridworld_reset(void *state, ppo_rng *rng, float *obs) {
    gridworld *s = (gridworld *)state;
    do s->cell = ppo_rng_below(rng, GRIDWORLD_CELLS);
    while (gridworld_at(s->cell) != ' ');
    gridworld_observe(s, obs);
}

static inline void gridworld_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                                  ppo_outcome *out) {
    gridworld *s = (gridworld *)state;
    int slip = ppo_rng_below(rng, 10); /* 0: to the left, 1: to the right, else: straight on */
    int way = action->discrete + (slip == 0 ? 3 : slip == 1 ? 1 : 0);

    s->cell = gridworld_move(s->cell, way % 4);
    gridworld_observe(s, obs);
    out->reward = -0.04f;
    if (gridworld_at(s->cell) == 'G') out->reward += 1.0f;
    if (gridworld_at(s->cell) == 'P') out->reward -= 1.0f;
    out->terminated = gridworld_at(s->cell) != ' ';
}

static inline void gridworld_draw(const void *state, FILE *file) {
    const gridworld *s = (const gridworld *)state;
    canvas picture = canvas_blank(4 * GRIDWORLD_COLUMNS + 1, 2 * GRIDWORLD_ROWS + 1);
    for (int row = 0; row <= GRIDWORLD_ROWS; row++) canvas_text(&picture, 0, 2 * row, "+---+---+---+---+");
    for (int cell = 0; cell < GRIDWORLD_CELLS; cell++) {
        int row = 2 * (cell / GRIDWORLD_COLUMNS) + 1, column = 4 * (cell % GRIDWORLD_COLUMNS);
        char there[] = "|   |";
        if (gridworld_at(cell) == '#') memset(there + 1, '#', 3);
        else there[2] = cell == s->cell ? '@' : gridworld_at(cell);
        canvas_text(&picture, column, row, there);
    }
    canvas_print(&picture, file);
}

static inline ppo_env gridworld_env(void) {
    ppo_env env;
    memset(&env, 0, sizeof env);
    env.name = "GridWorld-v0";
    env.obs_size = GRIDWORLD_CELLS;
    env.action_space = ppo_discrete(4); /* 0: up, 1: right, 2: down, 3: left */
    env.state_size = sizeof(gridworld);
    env.max_steps = 100;
    env.reset = gridworld_reset;
    env.step = gridworld_step;
    env.draw = gridworld_draw;
    return env;
}

#endif
