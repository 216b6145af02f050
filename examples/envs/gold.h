/* gold.h - a game of 10 x 10 pixels for ppo.h (include that first): a runner among gold and spears that fly by.

        +--------------------+
        |                    |      the observation is a picture of four planes, 0 or 1 for each pixel:
        |  ..>>              |          0  the runner
        |              $$..  |          1  the spears
        |                    |          2  the trails: a pixel behind each spear and each piece of gold
        |        ()          |          3  the gold
        |..>>                |
        |                    |      The planes stand one after the other, row by row: env.shape is {4, 10, 10}.
        |                <<..|
        |      ..$$          |
        |                    |
        +--------------------+

   The runner moves one pixel left, up, right or down within rows 1 to 8, the lanes, or stays. Things fly along the
   lanes, each from one edge to the other, at most one in a lane: one in three is gold, which pays 1 when the runner
   touches it, the others are spears, which end the episode. At first a thing appears every tenth step, in a random
   free lane at a random edge, and all of them fly one pixel every fifth step. Every hundred steps the former interval
   becomes a step shorter, and every two hundred the latter, down to a step each.

   The rules are like those of Asterix in MinAtar (Young and Tian 2019; minatar.h), whose timers differ by a step, and
   whose actions may repeat by chance. A random player finds one piece of gold in two episodes.

   Train with --conv 8x3x1: a convolution sees the same things everywhere in the picture. */

#ifndef GOLD_H
#define GOLD_H

#include <string.h>

#include "canvas.h"

enum { GOLD_SIZE = 10, GOLD_PIXELS = 100, GOLD_PLANES = 4, GOLD_LANES = 8 };

typedef struct gold_thing {
    int there, x, dx, is_gold; /* there: 0 if the lane is empty; dx: 1 or -1 */
} gold_thing;

typedef struct gold {
    int x, y, steps;             /* the runner; the steps so far */
    int appear, fly;             /* steps until the next thing appears, and until all fly on */
    gold_thing lane[GOLD_LANES]; /* lane k is row k + 1 */
} gold;

static inline void gold_observe(const gold *s, float *obs) {
    memset(obs, 0, GOLD_PLANES * GOLD_PIXELS * sizeof(float));
    obs[s->y * GOLD_SIZE + s->x] = 1;
    for (int k = 0; k < GOLD_LANES; k++) {
        const gold_thing *thing = &s->lane[k];
        float *row = obs + (k + 1) * GOLD_SIZE;
        int trail = thing->x - thing->dx;
        if (!thing->there) continue;
        row[(thing->is_gold ? 3 : 1) * GOLD_PIXELS + thing->x] = 1;
        if (trail >= 0 && trail < GOLD_SIZE) row[2 * GOLD_PIXELS + trail] = 1;
    }
}

static inline void gold_reset(void *state, ppo_rng *rng, float *obs) {
    gold *s = (gold *)state;
    (void)rng;
    memset(s, 0, sizeof *s);
    s->x = s->y = GOLD_SIZE / 2;
    s->fly = 5;
    gold_observe(s, obs);
}

/* A thing appears in one of the empty lanes, if there is any. */
static inline void gold_appear(gold *s, ppo_rng *rng) {
    int empty[GOLD_LANES], n = 0;
    for (int k = 0; k < GOLD_LANES; k++)
        if (!s->lane[k].there) empty[n++] = k;
    if (!n) return;
    gold_thing *thing = &s->lane[empty[ppo_rng_below(rng, (uint32_t)n)]];
    thing->there = 1;
    thing->dx = ppo_rng_below(rng, 2) ? 1 : -1;
    thing->x = thing->dx > 0 ? 0 : GOLD_SIZE - 1;
    thing->is_gold = ppo_rng_below(rng, 3) == 0;
}

/* What the runner touches in its lane. */
static inline void gold_touch(gold *s, ppo_outcome *out) {
    gold_thing *thing = &s->lane[s->y - 1];
    if (!thing->there || thing->x != s->x) return;
    if (thing->is_gold) {
        thing->there = 0;
        out->reward += 1;
    } else {
        out->terminated = 1;
    }
}

/* All things move by one pixel. */
static inline void gold_fly(gold *s, ppo_outcome *out) {
    for (int k = 0; k < GOLD_LANES; k++) {
        s->lane[k].x += s->lane[k].dx;
        if (s->lane[k].x < 0 || s->lane[k].x >= GOLD_SIZE) s->lane[k].there = 0;
    }
    gold_touch(s, out);
}

static inline void gold_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                             ppo_outcome *out) {
    gold *s = (gold *)state;
    const int move = action->discrete, hundreds = s->steps / 100; /* stay, left, up, right, down */
    const int x = s->x + (move == 3) - (move == 1), y = s->y + (move == 4) - (move == 2);
    if (s->appear-- == 0) {
        gold_appear(s, rng);
        s->appear = hundreds < 9 ? 9 - hundreds : 0;
    }
    if (x >= 0 && x < GOLD_SIZE) s->x = x;
    if (y >= 1 && y <= GOLD_LANES) s->y = y;
    gold_touch(s, out);
    if (--s->fly == 0) {
        s->fly = hundreds < 8 ? 5 - hundreds / 2 : 1;
        gold_fly(s, out);
    }
    s->steps++;
    gold_observe(s, obs);
}

static inline void gold_draw(const void *state, FILE *file) {
    const gold *s = (const gold *)state;
    canvas picture = canvas_blank(2 * GOLD_SIZE + 2, GOLD_SIZE + 2);
    for (int y = 0; y <= GOLD_SIZE + 1; y++)
        canvas_text(&picture, 0, y,
                    y % (GOLD_SIZE + 1) ? "|                    |" : "+--------------------+");
    for (int k = 0; k < GOLD_LANES; k++) {
        const gold_thing *thing = &s->lane[k];
        const int trail = thing->x - thing->dx;
        if (!thing->there) continue;
        if (trail >= 0 && trail < GOLD_SIZE) canvas_text(&picture, 1 + 2 * trail, k + 2, "..");
        canvas_text(&picture, 1 + 2 * thing->x, k + 2, thing->is_gold ? "$$" : thing->dx > 0 ? ">>" : "<<");
    }
    canvas_text(&picture, 1 + 2 * s->x, 1 + s->y, "()");
    canvas_print(&picture, file);
}

static inline ppo_env gold_env(void) {
    ppo_env env;
    memset(&env, 0, sizeof env);
    env.name = "Gold";
    env.shape[0] = GOLD_PLANES;
    env.shape[1] = env.shape[2] = GOLD_SIZE;
    env.byte_scale = 1; /* all numbers are 0 or 1: a rollout takes a fourth of the memory */
    env.obs_size = GOLD_PLANES * GOLD_PIXELS;
    env.action_space = ppo_discrete(5); /* 0: stay, 1: left, 2: up, 3: right, 4: down */
    env.state_size = sizeof(gold);
    env.max_steps = 1000;
    env.reset = gold_reset;
    env.step = gold_step;
    env.draw = gold_draw;
    return env;
}

#endif
