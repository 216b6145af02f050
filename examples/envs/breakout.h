/* breakout.h - a game of 10 x 10 pixels for ppo.h (include that first): a wall, a ball and a paddle.

        +--------------------+
        |                    |      the observation is a picture of four planes, 0 or 1 for each pixel:
        |####################|          0  the paddle, in the lowest row
        |##########  ########|          1  the ball
        |####################|          2  its trail: where it was one step before
        |                    |          3  the bricks, in rows 1 to 3
        |        ..          |
        |          ()        |      The planes stand one after the other, row by row: env.shape is {4, 10, 10}.
        |                    |
        |                    |
        |        ====        |
        +--------------------+

   The ball moves one pixel diagonally per step. It bounces off the walls, the ceiling, the bricks and the paddle. The
   first brick that it touches disappears and pays 1; until it has moved through free air again, it flies through bricks
   without breaking them. On the paddle's pixel the ball goes back up; at the paddle's edge it also turns back sideways.
   When it passes the paddle the episode is over. A cleared wall is built anew when the ball comes down. Only the start
   is random: the ball comes from the left or from the right.

   The rules are those of Breakout in MinAtar (Young and Tian 2019), with its three actions that matter and without its
   sticky actions, which minatar.h adds. A random player breaks about one brick in two episodes.

   Train with --conv 8x3x1, a convolution, or without: hidden layers learn it as well, since each brick and the paddle's
   row have their place. */

#ifndef BREAKOUT_H
#define BREAKOUT_H

#include <string.h>

#include "canvas.h"

enum { BREAKOUT_SIZE = 10, BREAKOUT_PIXELS = 100, BREAKOUT_PLANES = 4, BREAKOUT_TOP = 1, BREAKOUT_WALL = 3 };

typedef struct breakout {
    int x, y, dx, dy; /* the ball, and its next move: 1 or -1 */
    int trail_x, trail_y, paddle;
    int struck; /* 1: it broke a brick in the last step */
    int bricks; /* how many are left */
    unsigned char brick[BREAKOUT_WALL][BREAKOUT_SIZE];
} breakout;

static inline void breakout_build(breakout *s) {
    memset(s->brick, 1, sizeof s->brick);
    s->bricks = BREAKOUT_WALL * BREAKOUT_SIZE;
}

/* The brick at a pixel, NULL where there is none. */
static inline unsigned char *breakout_brick(breakout *s, int x, int y) {
    int row = y - BREAKOUT_TOP;
    return row >= 0 && row < BREAKOUT_WALL && s->brick[row][x] ? &s->brick[row][x] : NULL;
}

static inline void breakout_observe(const breakout *s, float *obs) {
    float *bricks = obs + 3 * BREAKOUT_PIXELS + BREAKOUT_TOP * BREAKOUT_SIZE;
    memset(obs, 0, BREAKOUT_PLANES * BREAKOUT_PIXELS * sizeof(float));
    obs[(BREAKOUT_SIZE - 1) * BREAKOUT_SIZE + s->paddle] = 1;
    obs[BREAKOUT_PIXELS + s->y * BREAKOUT_SIZE + s->x] = 1;
    obs[2 * BREAKOUT_PIXELS + s->trail_y * BREAKOUT_SIZE + s->trail_x] = 1;
    for (int i = 0; i < BREAKOUT_WALL * BREAKOUT_SIZE; i++)
        bricks[i] = s->brick[i / BREAKOUT_SIZE][i % BREAKOUT_SIZE];
}

static inline void breakout_reset(void *state, ppo_rng *rng, float *obs) {
    breakout *s = (breakout *)state;
    int right = ppo_rng_below(rng, 2);
    s->x = s->trail_x = right ? BREAKOUT_SIZE - 1 : 0;
    s->y = s->trail_y = BREAKOUT_TOP + BREAKOUT_WALL - 1;
    s->dx = right ? -1 : 1;
    s->dy = 1;
    s->paddle = 4;
    s->struck = 0;
    breakout_build(s);
    breakout_observe(s, obs);
}

static inline void breakout_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                                 ppo_outcome *out) {
    breakout *s = (breakout *)state;
    int last = BREAKOUT_SIZE - 1, move = action->discrete == 1 ? -1 : action->discrete == 2;
    (void)rng;
    if (s->paddle + move >= 0 && s->paddle + move <= last) s->paddle += move;
    s->trail_x = s->x;
    s->trail_y = s->y;

    int x = s->x + s->dx, y = s->y + s->dy, struck = 0;
    if (x < 0 || x > last) {
        x = s->x;
        s->dx = -s->dx;
    }
    unsigned char *brick = breakout_brick(s, x, y);
    if (y < 0) {
        y = 0;
        s->dy = 1;
    } else if (brick) {
        struck = 1;
        if (!s->struck) {
            y = s->y;
            s->dy = -s->dy;
            *brick = 0;
            s->bricks--;
            out->reward = 1;
        }
    } else if (y == last) {
        if (!s->bricks) breakout_build(s);
        if (s->x != s->paddle && x == s->paddle) s->dx = -s->dx; /* at its edge */
        out->terminated = s->x != s->paddle && x != s->paddle;
        if (!out->terminated) {
            y = s->y;
            s->dy = -1;
        }
    }
    s->struck = struck;
    s->x = x;
    s->y = y;
    breakout_observe(s, obs);
}

static inline void breakout_draw(const void *state, FILE *file) {
    const breakout *s = (const breakout *)state;
    canvas picture = canvas_blank(2 * BREAKOUT_SIZE + 2, BREAKOUT_SIZE + 2);
    for (int y = 0; y <= BREAKOUT_SIZE + 1; y++)
        canvas_text(&picture, 0, y,
                    y % (BREAKOUT_SIZE + 1) ? "|                    |" : "+--------------------+");
    for (int i = 0; i < BREAKOUT_WALL * BREAKOUT_SIZE; i++)
        if (s->brick[i / BREAKOUT_SIZE][i % BREAKOUT_SIZE])
            canvas_text(&picture, 1 + 2 * (i % BREAKOUT_SIZE), 1 + BREAKOUT_TOP + i / BREAKOUT_SIZE, "##");
    canvas_text(&picture, 1 + 2 * s->paddle, BREAKOUT_SIZE, "==");
    canvas_text(&picture, 1 + 2 * s->trail_x, 1 + s->trail_y, "..");
    canvas_text(&picture, 1 + 2 * s->x, 1 + s->y, "()");
    canvas_print(&picture, file);
}

static inline ppo_env breakout_env(void) {
    ppo_env env;
    memset(&env, 0, sizeof env);
    env.name = "Breakout";
    env.shape[0] = BREAKOUT_PLANES;
    env.shape[1] = env.shape[2] = BREAKOUT_SIZE;
    env.byte_scale = 1; /* all numbers are 0 or 1: a rollout takes a fourth of the memory */
    env.obs_size = BREAKOUT_PLANES * BREAKOUT_PIXELS;
    env.action_space = ppo_discrete(3); /* 0: stay, 1: left, 2: right */
    env.state_size = sizeof(breakout);
    env.max_steps = 1000;
    env.reset = breakout_reset;
    env.step = breakout_step;
    env.draw = breakout_draw;
    return env;
}

#endif
