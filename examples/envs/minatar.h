/* minatar.h - the five games of MinAtar (Young and Tian 2019) for ppo.h (include that first), step by step as the Python
   package plays them: sticky actions, and games that become harder.

       ppo_env env = minatar_breakout_env();       // _asterix_, _freeway_, _seaquest_, _space_invaders_

   A game is a picture of 10 x 10 pixels with 4 to 10 planes of 0 and 1, [plane][row][column]: env.shape. The actions are
   those that matter in it (the package's minimal set, as in its environments -v1). With probability 0.1 the previous
   action is repeated instead. Difficulty rises as in the package.

   Asterix         a runner catches gold (1) and avoids spears; more and faster with time
   Breakout        a ball, a paddle, a wall of 30 bricks (1 each), which is built anew
   Freeway         a chicken crosses a road of eight lanes (1), whose cars then change their speeds; 2,501 steps
   Seaquest        a submarine shoots fish and submarines (1 each), picks up divers, and rises for air: with six divers for
                   up to 10; each time what swims comes sooner and faster
   Space Invaders  a cannon under 4 x 6 ships (1 each); each block moves faster than the one before

   An episode begins without an action to repeat, where the package keeps that of the episode before. The end of Freeway
   is a time limit (env.max_steps): the package calls it so, too, but returns it as an end. The other games have a limit
   of 10,000 steps, the package none: two policies can keep a ball in the air for ever. After the last step the picture
   is not that of the package: nobody reads it.

   A random player gets 0.5 (Asterix), 0.4 (Breakout, Freeway), 0.1 (Seaquest), 4 (Space Invaders) in an episode.

   Train with --conv 8x3x1 (with --num-envs 1 also --minibatch-size 128): a convolution sees the same things everywhere
   in the picture. */

#ifndef MINATAR_H
#define MINATAR_H

#include <stdlib.h>
#include <string.h>

#include "breakout.h"
#include "canvas.h"
#include "gold.h"
#include "invaders.h"

enum { MINATAR_SIZE = 10, MINATAR_PIXELS = 100, MINATAR_MOST_STEPS = 10000 };

/* What is done instead of an action; *last is what was done in the step before. */
static inline int minatar_sticky(int *last, ppo_rng *rng, int action) {
    if (ppo_rng_uniform(rng) >= 0.1f) *last = action;
    return *last;
}

static inline void minatar_set(float *obs, int plane, int x, int y) {
    if (x >= 0 && x < MINATAR_SIZE) obs[plane * MINATAR_PIXELS + y * MINATAR_SIZE + x] = 1;
}

/* Each pixel as the letter of its last plane that is not empty. */
static inline void minatar_draw(const float *obs, const char *letters, FILE *file) {
    canvas picture = canvas_blank(2 * MINATAR_SIZE + 2, MINATAR_SIZE + 2);
    for (int y = 0; y <= MINATAR_SIZE + 1; y++)
        canvas_text(&picture, 0, y,
                    y % (MINATAR_SIZE + 1) ? "|                    |" : "+--------------------+");
    for (int plane = 0; letters[plane]; plane++)
        for (int i = 0; i < MINATAR_PIXELS; i++)
            if (obs[plane * MINATAR_PIXELS + i] > 0)
                canvas_put(&picture, 1 + 2 * (i % MINATAR_SIZE), 1 + i / MINATAR_SIZE, letters[plane]);
    canvas_print(&picture, file);
}

static inline ppo_env minatar_env(const char *name, int planes, int actions, size_t state_size) {
    ppo_env env;
    memset(&env, 0, sizeof env);
    env.name = name;
    env.shape[0] = planes;
    env.shape[1] = env.shape[2] = MINATAR_SIZE;
    env.byte_scale = 1;
    env.obs_size = planes * MINATAR_PIXELS;
    env.action_space = ppo_discrete(actions);
    env.state_size = state_size;
    env.max_steps = MINATAR_MOST_STEPS;
    return env;
}

/* -- Breakout: the game of breakout.h, with sticky actions -- */

typedef struct minatar_breakout {
    int last;
    breakout game;
} minatar_breakout;

static inline void minatar_breakout_reset(void *state, ppo_rng *rng, float *obs) {
    minatar_breakout *s = (minatar_breakout *)state;
    s->last = 0;
    breakout_reset(&s->game, rng, obs);
}

static inline void minatar_breakout_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                                         ppo_outcome *out) {
    minatar_breakout *s = (minatar_breakout *)state;
    const ppo_action done = {minatar_sticky(&s->last, rng, action->discrete), NULL, NULL};
    breakout_step(&s->game, rng, &done, obs, out);
}

static inline void minatar_breakout_draw(const void *state, FILE *file) {
    breakout_draw(&((const minatar_breakout *)state)->game, file);
}

static inline ppo_env minatar_breakout_env(void) {
    ppo_env env = minatar_env("MinAtar/Breakout-v1", BREAKOUT_PLANES, 3, sizeof(minatar_breakout));
    env.reset = minatar_breakout_reset; /* 0: stay, 1: left, 2: right */
    env.step = minatar_breakout_step;
    env.draw = minatar_breakout_draw;
    return env;
}

/* -- Asterix: runner, things and picture are those of gold.h; the timers are not -- */

typedef struct minatar_asterix {
    int last;
    gold game;
    int appear, fly;             /* steps between two things, and between two of their moves */
    int appear_in, fly_in;       /* until the next */
    int harder_in, times_harder; /* until both become smaller, and how often they did */
} minatar_asterix;

static inline void minatar_asterix_reset(void *state, ppo_rng *rng, float *obs) {
    minatar_asterix *s = (minatar_asterix *)state;
    gold_reset(&s->game, rng, obs);
    s->last = s->times_harder = 0;
    s->appear = s->appear_in = 10;
    s->fly = s->fly_in = 5;
    s->harder_in = 100;
}

static inline void minatar_asterix_appear(gold *s, ppo_rng *rng) {
    const int right = ppo_rng_uniform(rng) < 0.5f, is_gold = ppo_rng_uniform(rng) < 1 / 3.0f;
    int empty[GOLD_LANES], n = 0;
    for (int k = 0; k < GOLD_LANES; k++)
        if (!s->lane[k].there) empty[n++] = k;
    if (!n) return;
    gold_thing *thing = &s->lane[empty[ppo_rng_below(rng, n)]];
    thing->there = 1;
    thing->dx = right ? 1 : -1;
    thing->x = right ? 0 : GOLD_SIZE - 1;
    thing->is_gold = is_gold;
}

static inline void minatar_asterix_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                                        ppo_outcome *out) {
    minatar_asterix *s = (minatar_asterix *)state;
    gold *game = &s->game;
    const int move = minatar_sticky(&s->last, rng, action->discrete); /* stay, left, up, right, down */
    const int x = game->x + (move == 3) - (move == 1), y = game->y + (move == 4) - (move == 2);
    if (s->appear_in == 0) {
        minatar_asterix_appear(game, rng);
        s->appear_in = s->appear;
    }
    if (x >= 0 && x < GOLD_SIZE) game->x = x;
    if (y >= 1 && y <= GOLD_LANES) game->y = y;
    gold_touch(game, out);
    if (s->fly_in == 0) {
        s->fly_in = s->fly;
        gold_fly(game, out);
    }
    s->appear_in--;
    s->fly_in--;
    if ((s->appear > 1 || s->fly > 1) && s->harder_in-- < 0) {
        s->fly -= s->fly > 1 && s->times_harder % 2;
        s->appear -= s->appear > 1;
        s->times_harder++;
        s->harder_in = 100;
    }
    gold_observe(game, obs);
}

static inline void minatar_asterix_draw(const void *state, FILE *file) {
    gold_draw(&((const minatar_asterix *)state)->game, file);
}

static inline ppo_env minatar_asterix_env(void) {
    ppo_env env = minatar_env("MinAtar/Asterix-v1", GOLD_PLANES, 5, sizeof(minatar_asterix));
    env.reset = minatar_asterix_reset; /* 0: stay, 1: left, 2: up, 3: right, 4: down */
    env.step = minatar_asterix_step;
    env.draw = minatar_asterix_draw;
    return env;
}

/* -- Freeway. Planes: the chicken, the cars, and behind each car a pixel in one of five planes, which says how many steps
   the car takes to move by one -- */

enum { FREEWAY_CARS = 8, FREEWAY_PLANES = 7, FREEWAY_X = 4, FREEWAY_START = 9, FREEWAY_STEPS = 2501 };

typedef struct minatar_freeway {
    int last, y, wait; /* steps until the chicken may move */
    struct {
        int x, wait, period, dx;
    } car[FREEWAY_CARS]; /* car k is in row k + 1 */
} minatar_freeway;

static inline void minatar_freeway_observe(const minatar_freeway *s, float *obs) {
    memset(obs, 0, sizeof(float) * FREEWAY_PLANES * MINATAR_PIXELS);
    minatar_set(obs, 0, FREEWAY_X, s->y);
    for (int k = 0; k < FREEWAY_CARS; k++) {
        const int x = s->car[k].x;
        minatar_set(obs, 1, x, k + 1);
        minatar_set(obs, 1 + s->car[k].period, (x - s->car[k].dx + MINATAR_SIZE) % MINATAR_SIZE, k + 1);
    }
}

static inline void minatar_freeway_speeds(minatar_freeway *s, ppo_rng *rng) {
    for (int k = 0; k < FREEWAY_CARS; k++) s->car[k].wait = s->car[k].period = 1 + ppo_rng_below(rng, 5);
    for (int k = 0; k < FREEWAY_CARS; k++) s->car[k].dx = ppo_rng_uniform(rng) < 0.5f ? -1 : 1;
}

static inline void minatar_freeway_reset(void *state, ppo_rng *rng, float *obs) {
    minatar_freeway *s = (minatar_freeway *)state;
    memset(s, 0, sizeof *s);
    s->y = FREEWAY_START;
    s->wait = 3;
    minatar_freeway_speeds(s, rng);
    minatar_freeway_observe(s, obs);
}

static inline void minatar_freeway_hit(minatar_freeway *s, int k) {
    if (s->car[k].x == FREEWAY_X && s->y == k + 1) s->y = FREEWAY_START;
}

static inline void minatar_freeway_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                                        ppo_outcome *out) {
    minatar_freeway *s = (minatar_freeway *)state;
    const int move = minatar_sticky(&s->last, rng, action->discrete);
    if (move && s->wait == 0) {
        s->wait = 3;
        s->y += move == 1 ? -1 : s->y < FREEWAY_START;
    }
    if (s->y == 0) {
        out->reward = 1;
        minatar_freeway_speeds(s, rng);
        s->y = FREEWAY_START;
    }
    for (int k = 0; k < FREEWAY_CARS; k++) {
        minatar_freeway_hit(s, k);
        if (s->car[k].wait-- > 0) continue;
        s->car[k].wait = s->car[k].period;
        s->car[k].x = (s->car[k].x + s->car[k].dx + MINATAR_SIZE) % MINATAR_SIZE;
        minatar_freeway_hit(s, k);
    }
    s->wait -= s->wait > 0;
    minatar_freeway_observe(s, obs);
}

static inline void minatar_freeway_draw(const void *state, FILE *file) {
    float obs[(int)FREEWAY_PLANES * MINATAR_PIXELS];
    minatar_freeway_observe((const minatar_freeway *)state, obs);
    minatar_draw(obs, "^#12345", file);
}

static inline ppo_env minatar_freeway_env(void) {
    ppo_env env = minatar_env("MinAtar/Freeway-v1", FREEWAY_PLANES, 3, sizeof(minatar_freeway));
    env.max_steps = FREEWAY_STEPS;
    env.reset = minatar_freeway_reset; /* 0: stay, 1: up, 2: down */
    env.step = minatar_freeway_step;
    env.draw = minatar_freeway_draw;
    return env;
}

/* -- Seaquest. Planes: the submarine's front and back, its shots, the trails of what swims, shots at it, fish,
   submarines, the air that is left, the divers on board, divers -- */

enum {
    SEAQUEST_PLANES = 10,
    SEAQUEST_AIR = 200,
    SEAQUEST_DIVERS = 6,
    SEAQUEST_MOST = 64 /* of a kind: one comes each step at most, and is gone after 30 */
};

typedef struct seaquest_thing {
    int x, y, right, move_in, shoot_in;
} seaquest_thing;

typedef struct seaquest_things {
    int n;
    seaquest_thing at[SEAQUEST_MOST];
} seaquest_things;

typedef struct minatar_seaquest {
    int last, x, y, right, on_top; /* the submarine */
    int air, divers;               /* divers: below 0 after a rise with six, as in the package */
    int come, come_in, diver_in; /* steps between two of fish and submarines, until the next, until a diver */
    int move, load;              /* steps between two of their moves; until the submarine may shoot */
    int times_harder;
    seaquest_things shots, diver, fish, sub, shots_at;
} minatar_seaquest;

static inline void seaquest_remove(seaquest_things *of, int k) {
    memmove(of->at + k, of->at + k + 1, (size_t)(--of->n - k) * sizeof *of->at);
}

static inline void seaquest_add(seaquest_things *to, int x, int y, int right, int move_in, int shoot_in) {
    const seaquest_thing thing = {x, y, right, move_in, shoot_in};
    if (to->n < SEAQUEST_MOST) to->at[to->n++] = thing;
}

static inline int seaquest_outside(const seaquest_thing *t) { return t->x < 0 || t->x >= MINATAR_SIZE; }

/* The first of them at a place; -1: none. */
static inline int seaquest_find(const seaquest_things *in, const seaquest_thing *place) {
    for (int k = 0; k < in->n; k++)
        if (in->at[k].x == place->x && in->at[k].y == place->y) return k;
    return -1;
}

static inline void seaquest_show(float *obs, int plane, const seaquest_things *things, int trail) {
    for (int k = 0; k < things->n; k++) {
        const seaquest_thing *t = &things->at[k];
        minatar_set(obs, plane, t->x, t->y);
        if (trail) minatar_set(obs, trail, t->right ? t->x - 1 : t->x + 1, t->y);
    }
}

static inline void minatar_seaquest_observe(const minatar_seaquest *s, float *obs) {
    const int air = s->air > 0 ? s->air * 10 / SEAQUEST_AIR : 0;
    memset(obs, 0, sizeof(float) * SEAQUEST_PLANES * MINATAR_PIXELS);
    minatar_set(obs, 0, s->x, s->y);
    minatar_set(obs, 1, s->right ? s->x - 1 : s->x + 1, s->y);
    for (int x = 0; x < air; x++) minatar_set(obs, 7, x, MINATAR_SIZE - 1);
    for (int k = 1; k <= s->divers; k++) minatar_set(obs, 8, MINATAR_SIZE - 1 - k, MINATAR_SIZE - 1);
    seaquest_show(obs, 2, &s->shots, 0);
    seaquest_show(obs, 4, &s->shots_at, 0);
    seaquest_show(obs, 5, &s->fish, 3);
    seaquest_show(obs, 6, &s->sub, 3);
    seaquest_show(obs, 9, &s->diver, 3);
}

static inline void minatar_seaquest_reset(void *state, ppo_rng *rng, float *obs) {
    minatar_seaquest *s = (minatar_seaquest *)state;
    (void)rng;
    memset(s, 0, sizeof *s);
    s->x = 5;
    s->on_top = 1;
    s->air = SEAQUEST_AIR;
    s->come = s->come_in = 20;
    s->diver_in = 30;
    s->move = 5;
    minatar_seaquest_observe(s, obs);
}

/* A fish or a submarine, unless something in its row swims the other way. */
static inline void seaquest_come(minatar_seaquest *s, ppo_rng *rng) {
    const int right = ppo_rng_uniform(rng) < 0.5f, is_sub = ppo_rng_uniform(rng) < 1 / 3.0f,
              y = 1 + ppo_rng_below(rng, 8);
    for (int k = 0; k < s->fish.n; k++)
        if (s->fish.at[k].y == y && s->fish.at[k].right != right) return;
    for (int k = 0; k < s->sub.n; k++)
        if (s->sub.at[k].y == y && s->sub.at[k].right != right) return;
    seaquest_add(is_sub ? &s->sub : &s->fish, right ? 0 : MINATAR_SIZE - 1, y, right, s->move,
                 is_sub ? 10 : 0);
}

static inline void seaquest_diver_comes(minatar_seaquest *s, ppo_rng *rng) {
    const int right = ppo_rng_uniform(rng) < 0.5f;
    seaquest_add(&s->diver, right ? 0 : MINATAR_SIZE - 1, 1 + ppo_rng_below(rng, 8), right, 5, 0);
}

static inline void seaquest_act(minatar_seaquest *s, int action) {
    if (action == 5 && s->load == 0) {
        seaquest_add(&s->shots, s->x, s->y, s->right, 0, 0);
        s->load = 5;
    }
    if (action == 1 || action == 3) s->right = action == 3;
    if (action == 1) s->x -= s->x > 0;
    if (action == 3) s->x += s->x < 9;
    if (action == 2) s->y -= s->y > 0;
    if (action == 4) s->y += s->y < 8;
}

static inline int seaquest_here(const minatar_seaquest *s, const seaquest_thing *t) {
    return t->x == s->x && t->y == s->y;
}

static inline void seaquest_move(seaquest_thing *t) { t->x += t->right ? 1 : -1; }

static inline void seaquest_move_shots(minatar_seaquest *s, ppo_outcome *out) {
    for (int k = s->shots.n - 1; k >= 0; k--) {
        seaquest_thing *shot = &s->shots.at[k];
        seaquest_move(shot);
        const int fish = seaquest_find(&s->fish, shot), sub = seaquest_find(&s->sub, shot);
        if (fish >= 0) seaquest_remove(&s->fish, fish);
        else if (sub >= 0) seaquest_remove(&s->sub, sub);
        out->reward += fish >= 0 || sub >= 0;
        if (fish >= 0 || sub >= 0 || seaquest_outside(shot)) seaquest_remove(&s->shots, k);
    }
}

static inline void seaquest_move_divers(minatar_seaquest *s) {
    for (int k = s->diver.n - 1; k >= 0; k--) {
        seaquest_thing *diver = &s->diver.at[k];
        int aboard = seaquest_here(s, diver) && s->divers < SEAQUEST_DIVERS;
        if (!aboard && diver->move_in-- == 0) {
            diver->move_in = 5;
            seaquest_move(diver);
            aboard = seaquest_here(s, diver) && s->divers < SEAQUEST_DIVERS;
        }
        s->divers += aboard;
        if (aboard || seaquest_outside(diver)) seaquest_remove(&s->diver, k);
    }
}

/* Fish, or submarines, which also shoot: even in the step in which they leave, or are hit. */
static inline void seaquest_move_enemies(minatar_seaquest *s, seaquest_things *of, int shoot,
                                         ppo_outcome *out) {
    for (int k = of->n - 1; k >= 0; k--) {
        seaquest_thing *t = &of->at[k];
        int shot = -1;
        out->terminated |= seaquest_here(s, t);
        if (t->move_in-- == 0) {
            t->move_in = s->move;
            seaquest_move(t);
            out->terminated |= seaquest_here(s, t);
            if (!seaquest_here(s, t)) shot = seaquest_find(&s->shots, t);
        }
        if (shoot && t->shoot_in-- == 0) {
            t->shoot_in = 10;
            seaquest_add(&s->shots_at, t->x, t->y, t->right, 0, 0);
        }
        if (shot >= 0) seaquest_remove(&s->shots, shot);
        out->reward += shot >= 0;
        if (shot >= 0 || seaquest_outside(t)) seaquest_remove(of, k);
    }
}

static inline void seaquest_move_shots_at(minatar_seaquest *s, ppo_outcome *out) {
    for (int k = s->shots_at.n - 1; k >= 0; k--) {
        seaquest_thing *shot = &s->shots_at.at[k];
        out->terminated |= seaquest_here(s, shot);
        seaquest_move(shot);
        out->terminated |= seaquest_here(s, shot);
        if (seaquest_outside(shot)) seaquest_remove(&s->shots_at, k);
    }
}

/* New air for a diver, or for six, which pay for the air that was left. */
static inline void seaquest_rise(minatar_seaquest *s, ppo_outcome *out) {
    s->on_top = 1;
    if (s->divers == SEAQUEST_DIVERS) {
        s->divers = 0;
        out->reward += (float)(s->air * 10 / SEAQUEST_AIR);
    }
    s->air = SEAQUEST_AIR;
    s->divers--;
    if (s->come <= 1 && s->move <= 2) return;
    s->move -= s->move > 2 && s->times_harder % 2;
    s->come -= s->come > 1;
    s->times_harder++;
}

static inline void minatar_seaquest_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                                         ppo_outcome *out) {
    minatar_seaquest *s = (minatar_seaquest *)state;
    const int done = minatar_sticky(&s->last, rng, action->discrete); /* stay, left, up, right, down, shoot */
    if (s->come_in == 0) {
        seaquest_come(s, rng);
        s->come_in = s->come;
    }
    if (s->diver_in == 0) {
        seaquest_diver_comes(s, rng);
        s->diver_in = 30;
    }
    seaquest_act(s, done);
    seaquest_move_shots(s, out);
    seaquest_move_divers(s);
    seaquest_move_enemies(s, &s->sub, 1, out);
    seaquest_move_shots_at(s, out);
    seaquest_move_enemies(s, &s->fish, 0, out);
    s->come_in--;
    s->diver_in--;
    s->load -= s->load > 0;
    out->terminated |= s->air <= 0;
    if (s->y > 0) {
        s->air--;
        s->on_top = 0;
    } else if (!s->on_top) {
        if (s->divers == 0) out->terminated = 1;
        else seaquest_rise(s, out);
    }
    minatar_seaquest_observe(s, obs);
}

static inline void minatar_seaquest_draw(const void *state, FILE *file) {
    float obs[(int)SEAQUEST_PLANES * MINATAR_PIXELS];
    minatar_seaquest_observe((const minatar_seaquest *)state, obs);
    minatar_draw(obs, "@=-.*fsoDd", file);
}

static inline ppo_env minatar_seaquest_env(void) {
    ppo_env env = minatar_env("MinAtar/Seaquest-v1", SEAQUEST_PLANES, 6, sizeof(minatar_seaquest));
    env.reset = minatar_seaquest_reset; /* 0: stay, 1: left, 2: up, 3: right, 4: down, 5: shoot */
    env.step = minatar_seaquest_step;
    env.draw = minatar_seaquest_draw;
    return env;
}

/* -- Space Invaders: cannon, ships and shots are those of invaders.h; when they come, move and shoot is not. Planes: the
   cannon, the ships, again if they move left, again if right, the cannon's shots, the ships' -- */

enum { SPACE_INVADERS_PLANES = 6 };

typedef struct minatar_space_invaders {
    int last;
    invaders game;
} minatar_space_invaders;

static inline void space_invaders_observe(const invaders *s, float *obs) {
    memset(obs, 0, sizeof(float) * SPACE_INVADERS_PLANES * MINATAR_PIXELS);
    minatar_set(obs, 0, s->cannon, MINATAR_SIZE - 1);
    for (int i = 0; i < MINATAR_PIXELS; i++) {
        const int y = i / MINATAR_SIZE, x = i % MINATAR_SIZE;
        obs[MINATAR_PIXELS + i] = obs[(s->dx < 0 ? 2 : 3) * MINATAR_PIXELS + i] = s->ship[y][x];
        obs[4 * MINATAR_PIXELS + i] = s->up[y][x];
        obs[5 * MINATAR_PIXELS + i] = s->down[y][x];
    }
}

static inline void space_invaders_come(invaders *s) {
    for (int y = 0; y < INVADERS_ROWS; y++) memset(&s->ship[y][2], 1, INVADERS_COLUMNS);
    s->left = INVADERS_ROWS * INVADERS_COLUMNS;
}

static inline void minatar_space_invaders_reset(void *state, ppo_rng *rng, float *obs) {
    minatar_space_invaders *s = (minatar_space_invaders *)state;
    (void)rng;
    memset(s, 0, sizeof *s);
    s->game.cannon = INVADERS_SIZE / 2;
    s->game.dx = -1;
    s->game.interval = s->game.move = 12;
    s->game.shoot = 10;
    space_invaders_come(&s->game);
    space_invaders_observe(&s->game, obs);
}

/* The lowest ship of the column nearest to the cannon shoots; of two that are as near, that on the left. */
static inline void space_invaders_shoot(invaders *s) {
    int nearest = -1;
    for (int x = 0; x < INVADERS_SIZE; x++)
        if (invaders_lowest(s, x) >= 0 && (nearest < 0 || abs(x - s->cannon) < abs(nearest - s->cannon)))
            nearest = x;
    s->down[invaders_lowest(s, nearest)][nearest] = 1;
    s->shoot = 10;
}

static inline void minatar_space_invaders_step(void *state, ppo_rng *rng, const ppo_action *action,
                                               float *obs, ppo_outcome *out) {
    minatar_space_invaders *all = (minatar_space_invaders *)state;
    invaders *s = &all->game;
    const int last = INVADERS_SIZE - 1, done = minatar_sticky(&all->last, rng, action->discrete);
    if (done == 1) s->cannon -= s->cannon > 0;
    if (done == 2) s->cannon += s->cannon < last;
    if (done == 3 && s->load == 0) {
        s->up[last][s->cannon] = 1;
        s->load = 5;
    }
    invaders_shift(s->up, 0, -1);
    invaders_shift(s->down, 0, 1);
    out->terminated = s->down[last][s->cannon] || s->ship[last][s->cannon];
    if (s->move == 0) {
        const int landed = memchr(s->ship[last], 1, INVADERS_SIZE) != NULL, way = s->dx;
        invaders_move_ships(s);
        out->terminated |= (landed && s->dx != way) || s->ship[last][s->cannon];
    }
    if (s->shoot == 0) space_invaders_shoot(s);
    invaders_hit(s, out);
    s->load -= s->load > 0;
    s->move--;
    s->shoot--;
    if (!s->left) {
        s->interval -= s->interval > 6;
        space_invaders_come(s);
    }
    space_invaders_observe(s, obs);
}

static inline void minatar_space_invaders_draw(const void *state, FILE *file) {
    invaders_draw(&((const minatar_space_invaders *)state)->game, file);
}

static inline ppo_env minatar_space_invaders_env(void) {
    ppo_env env =
        minatar_env("MinAtar/SpaceInvaders-v1", SPACE_INVADERS_PLANES, 4, sizeof(minatar_space_invaders));
    env.reset = minatar_space_invaders_reset; /* 0: stay, 1: left, 2: right, 3: shoot */
    env.step = minatar_space_invaders_step;
    env.draw = minatar_space_invaders_draw;
    return env;
}

#endif
