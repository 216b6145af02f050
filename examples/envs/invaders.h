/* invaders.h - a game of 10 x 10 pixels for ppo.h (include that first): a cannon under a block of ships.

        +--------------------+
        |  <><><><><><>      |      the observation is a picture of five planes, 0 or 1 for each pixel:
        |  <><><>  <><>      |          0  the cannon, in the lowest row
        |  <><><>  <><>      |          1  the ships, if they move left
        |  <><><>  <>        |          2  the ships, if they move right
        |                    |          3  the shots of the cannon
        |        ''          |          4  the shots of the ships
        |                    |
        |            ,,      |      The planes stand one after the other, row by row: env.shape is {5, 10, 10}.
        |                    |
        |          /\        |
        +--------------------+

   The cannon moves left or right, shoots, or stays. It shoots at most every fifth step. Its shots move up, one pixel per
   step; a ship that is hit disappears and pays 1. The 4 x 6 ships move sideways together, one pixel every twelfth step;
   once n < 12 of them are left, every n-th. At a wall they turn round, and move down instead. Every tenth step the lowest
   ship of a random column shoots; its shot moves down, one pixel per step. The episode is over when a shot reaches the
   cannon, or a ship the lowest row. When all ships are hit, 24 new ones come, which move every eleventh step, and so on,
   down to every sixth. They start in the upper four rows, at a random column, to the left or to the right.

   The rules are like those of Space Invaders in MinAtar (Young and Tian 2019; minatar.h), where the block's start and the
   ships' shots are not random, but actions may repeat by chance. A random player hits seven or eight ships in an episode.

   Train with --conv 8x3x1: a convolution sees the same things everywhere in the picture. */

#ifndef INVADERS_H
#define INVADERS_H

#include <string.h>

#include "canvas.h"

enum {
    INVADERS_SIZE = 10,
    INVADERS_PIXELS = 100,
    INVADERS_PLANES = 5,
    INVADERS_ROWS = 4,
    INVADERS_COLUMNS = 6
};

typedef unsigned char invaders_map[INVADERS_SIZE][INVADERS_SIZE]; /* [row][column], 1: something is there */

typedef struct invaders {
    int cannon, dx, left;        /* columns of the cannon; the ships' direction, and how many there are */
    int interval, move;          /* between two moves of 24 ships, and steps until the next */
    int load, shoot;             /* steps until the cannon may shoot, and until a ship does */
    invaders_map ship, up, down; /* up: the cannon's shots */
} invaders;

static inline void invaders_observe(const invaders *s, float *obs) {
    memset(obs, 0, INVADERS_PLANES * INVADERS_PIXELS * sizeof(float));
    obs[(INVADERS_SIZE - 1) * INVADERS_SIZE + s->cannon] = 1;
    for (int i = 0; i < INVADERS_PIXELS; i++) {
        const int y = i / INVADERS_SIZE, x = i % INVADERS_SIZE;
        obs[(s->dx < 0 ? 1 : 2) * INVADERS_PIXELS + i] = s->ship[y][x];
        obs[3 * INVADERS_PIXELS + i] = s->up[y][x];
        obs[4 * INVADERS_PIXELS + i] = s->down[y][x];
    }
}

/* All ships anew. */
static inline void invaders_come(invaders *s, ppo_rng *rng) {
    const int first = ppo_rng_below(rng, INVADERS_SIZE - INVADERS_COLUMNS + 1);
    for (int y = 0; y < INVADERS_ROWS; y++) memset(&s->ship[y][first], 1, INVADERS_COLUMNS);
    s->left = INVADERS_ROWS * INVADERS_COLUMNS;
    s->dx = ppo_rng_below(rng, 2) ? 1 : -1;
    s->move = s->interval;
}

static inline void invaders_reset(void *state, ppo_rng *rng, float *obs) {
    invaders *s = (invaders *)state;
    memset(s, 0, sizeof *s);
    s->cannon = INVADERS_SIZE / 2;
    s->interval = 12;
    s->shoot = 10;
    invaders_come(s, rng);
    invaders_observe(s, obs);
}

/* Moves all that is in the map; what leaves it below or above is gone. */
static inline void invaders_shift(invaders_map map, int dx, int dy) {
    invaders_map before;
    memcpy(before, map, sizeof before);
    memset(map, 0, sizeof before);
    for (int y = 0; y < INVADERS_SIZE; y++)
        for (int x = 0; x < INVADERS_SIZE; x++)
            if (before[y][x] && y + dy >= 0 && y + dy < INVADERS_SIZE) map[y + dy][x + dx] = 1;
}

/* The lowest row with a ship in this column; -1: none. */
static inline int invaders_lowest(const invaders *s, int x) {
    int y = INVADERS_SIZE - 1;
    while (y >= 0 && !s->ship[y][x]) y--;
    return y;
}

/* Ships that a shot has reached. */
static inline void invaders_hit(invaders *s, ppo_outcome *out) {
    for (int y = 0; y < INVADERS_SIZE; y++) {
        for (int x = 0; x < INVADERS_SIZE; x++) {
            if (!s->up[y][x] || !s->ship[y][x]) continue;
            s->up[y][x] = s->ship[y][x] = 0;
            s->left--;
            out->reward += 1;
        }
    }
}

static inline void invaders_move_ships(invaders *s) {
    const int last = INVADERS_SIZE - 1, wall = s->dx < 0 ? 0 : last;
    const int down = invaders_lowest(s, wall) >= 0;
    s->move = s->left < s->interval ? s->left : s->interval;
    invaders_shift(s->ship, down ? 0 : s->dx, down);
    if (down) s->dx = -s->dx;
}

static inline void invaders_shoot(invaders *s, ppo_rng *rng) {
    int column[INVADERS_SIZE], n = 0;
    for (int x = 0; x < INVADERS_SIZE; x++)
        if (invaders_lowest(s, x) >= 0) column[n++] = x;
    if (!n) return;
    const int x = column[ppo_rng_below(rng, (uint32_t)n)];
    s->down[invaders_lowest(s, x)][x] = 1;
    s->shoot = 10;
}

static inline void invaders_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                                 ppo_outcome *out) {
    invaders *s = (invaders *)state;
    const int last = INVADERS_SIZE - 1, move = action->discrete;
    if (s->load > 0) s->load--;
    if (move == 1 && s->cannon > 0) s->cannon--;
    if (move == 2 && s->cannon < last) s->cannon++;
    invaders_shift(s->up, 0, -1);
    if (move == 3 && !s->load) {
        s->up[last - 1][s->cannon] = 1;
        s->load = 5;
    }
    invaders_hit(s, out);
    invaders_shift(s->down, 0, 1);
    if (--s->move <= 0 && s->left) {
        invaders_move_ships(s);
        invaders_hit(s, out);
    }
    if (--s->shoot <= 0) invaders_shoot(s, rng);
    out->terminated = s->down[last][s->cannon] || memchr(s->ship[last], 1, INVADERS_SIZE);
    if (!s->left) {
        s->interval -= s->interval > 6;
        invaders_come(s, rng);
    }
    invaders_observe(s, obs);
}

static inline void invaders_draw(const void *state, FILE *file) {
    const invaders *s = (const invaders *)state;
    canvas picture = canvas_blank(2 * INVADERS_SIZE + 2, INVADERS_SIZE + 2);
    for (int y = 0; y <= INVADERS_SIZE + 1; y++)
        canvas_text(&picture, 0, y,
                    y % (INVADERS_SIZE + 1) ? "|                    |" : "+--------------------+");
    canvas_text(&picture, 1 + 2 * s->cannon, INVADERS_SIZE, "/\\");
    for (int i = 0; i < INVADERS_PIXELS; i++) {
        const int y = i / INVADERS_SIZE, x = i % INVADERS_SIZE;
        if (s->up[y][x] || s->down[y][x] || s->ship[y][x])
            canvas_text(&picture, 1 + 2 * x, 1 + y, s->ship[y][x] ? "<>" : s->up[y][x] ? "''" : ",,");
    }
    canvas_print(&picture, file);
}

static inline ppo_env invaders_env(void) {
    ppo_env env;
    memset(&env, 0, sizeof env);
    env.name = "Invaders";
    env.shape[0] = INVADERS_PLANES;
    env.shape[1] = env.shape[2] = INVADERS_SIZE;
    env.byte_scale = 1; /* all numbers are 0 or 1: a rollout takes a fourth of the memory */
    env.obs_size = INVADERS_PLANES * INVADERS_PIXELS;
    env.action_space = ppo_discrete(4); /* 0: stay, 1: left, 2: right, 3: shoot */
    env.state_size = sizeof(invaders);
    env.max_steps = 1000;
    env.reset = invaders_reset;
    env.step = invaders_step;
    env.draw = invaders_draw;
    return env;
}

#endif
