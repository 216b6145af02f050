/* lander.h - Lander for ppo.h (include that first): the task of Gymnasium's LunarLander-v3 with physics of its own.

   Bring a craft down on the pad between the flags, gently, upright and with little fuel. Observations, actions and
   rewards are those of LunarLander-v3, and so is the size of everything; but that one is made of bodies and joints
   of Box2D, and this is one rigid body on two springs, so returns of the two cannot be compared. About 200 is a
   good landing here, too.

   Forces are per unit of mass: m/s^2. A step is 1/50 s in lander_parts equal parts. */

#ifndef LANDER_H
#define LANDER_H

#include <math.h>
#include <string.h>

enum { lander_points = 11, lander_parts = 8 };
static const float lander_width = 20, lander_height = 40 / 3.0f,
                   lander_pad = 10 / 3.0f; /* m; of the pad's ground */

typedef struct lander {
    float x, y, angle;           /* of the centre; rad from upright, counterclockwise */
    float vx, vy, spin;          /* m/s, m/s, rad/s */
    float touches[2];            /* 1: the left or right foot stands on the ground */
    float engine;                /* the action of the last step */
    float shaping;               /* the potential after it, whose gain is the reward */
    int still;                   /* steps for which it has been at rest on both feet */
    float ground[lander_points]; /* m, at equal distances over the width */
} lander;

static const float lander_foot[2][2] = {{-0.67f, -0.6f}, {0.67f, -0.6f}}; /* m, from the centre */
static const float lander_hull[6][2] = {{-0.47f, 0.57f}, {-0.57f, 0}, {-0.57f, -0.33f},
                                        {0.57f, -0.33f}, {0.57f, 0},  {0.47f, 0.57f}};

/* The height of the ground at x, and its slope. */
static inline float lander_ground(const lander *s, float x, float *slope) {
    float at = fminf(fmaxf(x / lander_width, 0), 0.9999f) * (lander_points - 1),
          width = lander_width / (lander_points - 1);
    int k = (int)at;
    *slope = (s->ground[k + 1] - s->ground[k]) / width;
    return s->ground[k] + (at - (float)k) * width * *slope;
}

/* How deep a point of the craft is below the ground; out: where it is, from the centre. */
static inline float lander_depth(const lander *s, const float point[2], float out[2], float *slope) {
    float c = cosf(s->angle), n = sinf(s->angle);
    out[0] = c * point[0] - n * point[1];
    out[1] = n * point[0] + c * point[1];
    return (lander_ground(s, s->x + out[0], slope) - s->y - out[1]) / sqrtf(1 + *slope * *slope);
}

/* A part of a step, under the engines' forces: the feet are springs with dampers, on ground that rubs. */
static inline void lander_move(lander *s, float fx, float fy, float turn) {
    const float dt = 1 / 50.0f / lander_parts, gravity = 10, stiff = 250, damp = 8, rub = 0.5f,
                inertia = 0.3f;
    fy -= gravity;
    for (int k = 0; k < 2; k++) {
        float r[2], slope, depth = lander_depth(s, lander_foot[k], r, &slope);
        if (depth <= 0) continue;
        float nx = -slope / sqrtf(1 + slope * slope), ny = 1 / sqrtf(1 + slope * slope);
        float vx = s->vx - s->spin * r[1], vy = s->vy + s->spin * r[0];
        float push = fmaxf(stiff * depth - damp * (vx * nx + vy * ny), 0);
        float slip = vx * ny - vy * nx, hold = -fminf(fmaxf(damp * slip, -rub * push), rub * push);
        float px = push * nx + hold * ny, py = push * ny - hold * nx;
        fx += px, fy += py, turn += (r[0] * py - r[1] * px) / inertia;
    }
    s->vx += dt * fx, s->vy += dt * fy, s->spin += dt * turn;
    s->x += dt * s->vx, s->y += dt * s->vy, s->angle += dt * s->spin;
}

/* The observation, and the potential: position (the pad is 0, 0), velocity, angle, spin, scaled to about 1, feet. */
static inline float lander_observe(lander *s, float *obs) {
    float slope, r[2], half_w = lander_width / 2, half_h = lander_height / 2;
    for (int k = 0; k < 2; k++) s->touches[k] = lander_depth(s, lander_foot[k], r, &slope) > 0;
    obs[0] = (s->x - half_w) / half_w;
    obs[1] = (s->y - lander_pad + lander_foot[0][1]) / half_h;
    obs[2] = s->vx * half_w / 50;
    obs[3] = s->vy * half_h / 50;
    obs[4] = s->angle;
    obs[5] = s->spin * 20 / 50;
    obs[6] = s->touches[0];
    obs[7] = s->touches[1];
    return -100 * hypotf(obs[0], obs[1]) - 100 * hypotf(obs[2], obs[3]) - 100 * fabsf(obs[4]) +
           10 * (obs[6] + obs[7]);
}

static inline void lander_reset(void *state, ppo_rng *rng, float *obs) {
    lander *s = (lander *)state;
    float rough[lander_points + 2];
    memset(s, 0, sizeof *s);
    for (int k = 0; k < lander_points + 2; k++)
        rough[k] = k >= 4 && k <= 8 ? lander_pad : ppo_rng_range(rng, 0, lander_height / 2);
    for (int k = 0; k < lander_points; k++) s->ground[k] = (rough[k] + rough[k + 1] + rough[k + 2]) / 3;
    s->x = lander_width / 2;
    s->y = lander_height - 1;
    s->vx = ppo_rng_range(rng, -4, 4);
    s->vy = ppo_rng_range(rng, -4, 4);
    s->spin = -s->vx / 5;
    s->shaping = lander_observe(s, obs);
}

/* 0: nothing; 1: the left engine, which pushes to the right and turns clockwise; 2: the main one; 3: the right one. */
static inline void lander_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                               ppo_outcome *out) {
    const float main_power = 17.5f, side_power = 2.4f, side_turn = 4; /* m/s^2, m/s^2, rad/s^2 */
    lander *s = (lander *)state;
    float main = action->discrete == 2, side = (action->discrete == 1) - (float)(action->discrete == 3);
    float r[2], slope;
    int lost = 0;
    (void)rng; /* the motion is deterministic */
    s->engine = (float)action->discrete;
    for (int part = 0; part < lander_parts; part++) {
        float c = cosf(s->angle), n = sinf(s->angle);
        lander_move(s, main * main_power * -n + side * side_power * c,
                    main * main_power * c + side * side_power * n, -side * side_turn);
    }
    float shaping = lander_observe(s, obs);
    for (int k = 0; k < 6; k++) lost |= lander_depth(s, lander_hull[k], r, &slope) > 0;
    lost |= fabsf(obs[0]) >= 1 || obs[1] > 1.5f;
    int rests = s->touches[0] && s->touches[1] && hypotf(s->vx, s->vy) < 0.05f && fabsf(s->spin) < 0.05f;
    s->still = rests ? s->still + 1 : 0;
    out->terminated = lost || s->still >= 25;
    out->reward = lost             ? -100
                  : s->still >= 25 ? 100
                                   : shaping - s->shaping - 0.3f * main - 0.03f * fabsf(side);
    s->shaping = shaping;
}

static inline ppo_env lander_env(void) {
    ppo_env env;
    memset(&env, 0, sizeof env);
    env.name = "Lander";
    env.obs_size = 8;
    env.action_space = ppo_discrete(4);
    env.state_size = sizeof(lander);
    env.max_steps = 1000;
    env.reset = lander_reset;
    env.step = lander_step;
    return env;
}

#endif
