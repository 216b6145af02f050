/* pursuit.h - a hunt for ppo.h (include that first): sixteen agents in one world, which leave it and join again.

       . . . . . . . .      Hunters (h) and boars (B) walk on a torus of 16 x 16 cells: who leaves on one side comes
       . . h . . . . .      in on the other. In a step, every hunter stays or goes to one of the four cells around
       . h B . . . . .      it. Then, two hunters or more who are at a boar, on its cell or beside it, catch it, and
       . . . . . . . .      share a reward of 2; another boar appears anywhere. A single hunter at a boar is hurt,
       . . . . . B . .      and out: its episode ends. After 20 steps it joins again, anywhere. At last the boars
       . . . . . . h .      move: half of the time to a cell around.

   So hunters must wait for each other, without words: each sees the hunters and the boars of the 7 x 7 cells around it,
   and nothing else. After 200 steps the world ends for all. The reward is shared for a reason: when each of those at
   a boar got 1, the policy that was learned hunted in packs of seven, and caught fewer. */

#ifndef PURSUIT_H
#define PURSUIT_H

#include <stdlib.h>

#include "canvas.h"

enum {
    PURSUIT_SIZE = 16,
    PURSUIT_HUNTERS = 16,
    PURSUIT_BOARS = 4,
    PURSUIT_SIGHT = 3, /* cells in each direction */
    PURSUIT_WINDOW = 2 * PURSUIT_SIGHT + 1,
    PURSUIT_OBS = 2 * PURSUIT_WINDOW * PURSUIT_WINDOW,
    PURSUIT_PAUSE = 20 /* steps for which a hurt hunter is out */
};

typedef struct pursuit_place {
    int x, y;
} pursuit_place;

typedef struct pursuit {
    pursuit_place hunter[PURSUIT_HUNTERS], boar[PURSUIT_BOARS];
    int pause[PURSUIT_HUNTERS]; /* steps until it joins again; 0: it is in */
    int caught, hurt;           /* boars and hunters, since the reset */
} pursuit;

/* The shortest way from a to b along one axis of the torus, -8 to 7. */
static inline int pursuit_way(int a, int b) {
    return (b - a + 3 * PURSUIT_SIZE / 2) % PURSUIT_SIZE - PURSUIT_SIZE / 2;
}

static inline int pursuit_distance(pursuit_place a, pursuit_place b) {
    return abs(pursuit_way(a.x, b.x)) + abs(pursuit_way(a.y, b.y));
}

static inline pursuit_place pursuit_anywhere(ppo_rng *rng) {
    pursuit_place p;
    p.x = ppo_rng_below(rng, PURSUIT_SIZE);
    p.y = ppo_rng_below(rng, PURSUIT_SIZE);
    return p;
}

/* 0: stay, 1 to 4: left, right, up, down. */
static inline pursuit_place pursuit_go(pursuit_place p, int move) {
    static const int dx[5] = {0, -1, 1, 0, 0}, dy[5] = {0, 0, 0, -1, 1};
    p.x = (p.x + dx[move] + PURSUIT_SIZE) % PURSUIT_SIZE;
    p.y = (p.y + dy[move] + PURSUIT_SIZE) % PURSUIT_SIZE;
    return p;
}

/* Adds 1 to the cell of a window [7][7] around `from` in which p is, if it is in it. */
static inline void pursuit_see(pursuit_place from, pursuit_place p, float *window) {
    int x = pursuit_way(from.x, p.x) + PURSUIT_SIGHT, y = pursuit_way(from.y, p.y) + PURSUIT_SIGHT;
    if (x >= 0 && x < PURSUIT_WINDOW && y >= 0 && y < PURSUIT_WINDOW) window[PURSUIT_WINDOW * y + x] += 1;
}

/* What every hunter sees [16][2][7][7]: the other hunters, and the boars. */
static inline void pursuit_observe(const pursuit *s, float *obs) {
    memset(obs, 0, (size_t)PURSUIT_HUNTERS * PURSUIT_OBS * sizeof *obs);
    for (int i = 0; i < PURSUIT_HUNTERS; i++, obs += PURSUIT_OBS) {
        for (int k = 0; k < PURSUIT_HUNTERS; k++)
            if (k != i && !s->pause[k]) pursuit_see(s->hunter[i], s->hunter[k], obs);
        for (int k = 0; k < PURSUIT_BOARS; k++)
            pursuit_see(s->hunter[i], s->boar[k], obs + PURSUIT_WINDOW * PURSUIT_WINDOW);
    }
}

static inline void pursuit_reset_all(void *state, ppo_rng *rng, float *obs, ppo_outcome *out) {
    pursuit *s = (pursuit *)state;
    (void)out; /* all are in, and none waits */
    memset(s, 0, sizeof *s);
    for (int i = 0; i < PURSUIT_HUNTERS; i++) s->hunter[i] = pursuit_anywhere(rng);
    for (int k = 0; k < PURSUIT_BOARS; k++) s->boar[k] = pursuit_anywhere(rng);
    pursuit_observe(s, obs);
}

/* Those who are at a boar catch it; one who is there alone is hurt. */
static inline void pursuit_judge(pursuit *s, int boar, ppo_rng *rng, ppo_outcome *out) {
    int at[PURSUIT_HUNTERS], n = 0;
    for (int i = 0; i < PURSUIT_HUNTERS; i++)
        if (!s->pause[i] && pursuit_distance(s->hunter[i], s->boar[boar]) <= 1) at[n++] = i;
    if (n > 1) {
        for (int i = 0; i < n; i++) out[at[i]].reward += 2 / (float)n;
        s->boar[boar] = pursuit_anywhere(rng);
        s->caught++;
    } else if (n == 1) {
        s->pause[at[0]] = PURSUIT_PAUSE;
        s->hurt++;
        out[at[0]].terminated = 1;
    }
}

static inline void pursuit_step_all(void *state, ppo_rng *rng, const ppo_action *actions, float *obs,
                                    ppo_outcome *out) {
    pursuit *s = (pursuit *)state;
    for (int i = 0; i < PURSUIT_HUNTERS; i++) {
        if (!s->pause[i]) s->hunter[i] = pursuit_go(s->hunter[i], actions[i].discrete);
        else if (--s->pause[i] == 0) {
            s->hunter[i] = pursuit_anywhere(rng);
            out[i].joins = 1;
        }
    }
    for (int k = 0; k < PURSUIT_BOARS; k++) pursuit_judge(s, k, rng, out);
    for (int k = 0; k < PURSUIT_BOARS; k++)
        if (ppo_rng_below(rng, 2)) s->boar[k] = pursuit_go(s->boar[k], 1 + ppo_rng_below(rng, 4));
    pursuit_observe(s, obs);
}

static inline void pursuit_draw(const void *state, FILE *file) {
    const pursuit *s = (const pursuit *)state;
    canvas picture = canvas_blank(2 * PURSUIT_SIZE, PURSUIT_SIZE);
    for (int i = 0; i < PURSUIT_SIZE * PURSUIT_SIZE; i++)
        canvas_put(&picture, 2 * (i % PURSUIT_SIZE), i / PURSUIT_SIZE, '.');
    for (int i = 0; i < PURSUIT_HUNTERS; i++)
        if (!s->pause[i]) canvas_put(&picture, 2 * s->hunter[i].x, s->hunter[i].y, 'h');
    for (int k = 0; k < PURSUIT_BOARS; k++) canvas_put(&picture, 2 * s->boar[k].x, s->boar[k].y, 'B');
    canvas_print(&picture, file);
}

static inline ppo_env pursuit_env(void) {
    ppo_env env;
    memset(&env, 0, sizeof env);
    env.name = "Pursuit-v0";
    env.obs_size = PURSUIT_OBS;
    env.action_space = ppo_discrete(5); /* stay, left, right, up, down */
    env.state_size = sizeof(pursuit);
    env.max_steps = 200;
    env.agents = PURSUIT_HUNTERS;
    env.reset_all = pursuit_reset_all;
    env.step_all = pursuit_step_all;
    env.draw = pursuit_draw;
    return env;
}

#endif
