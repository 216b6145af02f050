/* cartpole.h - CartPole-v1, and the worked example of an environment for ppo.h (include that first).

   A pole stands on a cart; push the cart left or right so that the pole does not fall. Every step pays 1, so the
   return of an episode is its length. Equations: Barto, Sutton and Anderson 1983, in the form and the order of
   Gymnasium's CartPole-v1. As there, the state is double and the observation float, so that a recorded
   trajectory of Gymnasium is reproduced.

   An environment is one struct, two functions, and a description that binds them together. An optional
   third function draws a picture. */

#ifndef CARTPOLE_H
#define CARTPOLE_H

#include <math.h>
#include <string.h>

#include "canvas.h"

/* 1. The state of one copy: plain bytes without pointers. The library owns one for each environment. */
typedef struct cartpole {
    double x, x_dot;         /* m, m/s */
    double theta, theta_dot; /* rad from upright, rad/s */
} cartpole;

static inline void cartpole_observe(const cartpole *s, float *obs) {
    obs[0] = (float)s->x;
    obs[1] = (float)s->x_dot;
    obs[2] = (float)s->theta;
    obs[3] = (float)s->theta_dot;
}

/* 2. Starts an episode: fill the state and the first observation. All random numbers come from rng, so
      that a run can be repeated on any number of threads. */
static inline void cartpole_reset(void *state, ppo_rng *rng, float *obs) {
    cartpole *s = (cartpole *)state;
    s->x = ppo_rng_range(rng, -0.05f, 0.05f);
    s->x_dot = ppo_rng_range(rng, -0.05f, 0.05f);
    s->theta = ppo_rng_range(rng, -0.05f, 0.05f);
    s->theta_dot = ppo_rng_range(rng, -0.05f, 0.05f);
    cartpole_observe(s, obs);
}

/* 3. Takes one step: read the action, advance the state, fill the observation and the outcome. */
static inline void cartpole_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                                 ppo_outcome *out) {
    const double gravity = 9.8, mass_pole = 0.1, mass = 0.1 + 1.0; /* m/s^2, kg, kg: pole and cart together */
    const double half_length = 0.5, pole = 0.1 * 0.5;              /* m, kg m: mass_pole half_length */
    const double push = 10.0, dt = 0.02;                           /* N, s */
    const double x_limit = 2.4, theta_limit = 12 * 2 * 3.14159265358979323846 / 360;

    cartpole *s = (cartpole *)state;
    double force = action->discrete == 1 ? push : -push;
    double cos_t = cos(s->theta), sin_t = sin(s->theta);
    double accel = (force + pole * (s->theta_dot * s->theta_dot) * sin_t) / mass;
    double swing = half_length * (4.0 / 3.0 - mass_pole * (cos_t * cos_t) / mass);
    double theta_acc = (gravity * sin_t - cos_t * accel) / swing;
    double x_acc = accel - pole * theta_acc * cos_t / mass;
    (void)rng; /* the motion is deterministic */

    s->x += dt * s->x_dot; /* Euler: positions move with the old velocities */
    s->x_dot += dt * x_acc;
    s->theta += dt * s->theta_dot;
    s->theta_dot += dt * theta_acc;

    cartpole_observe(s, obs);
    out->reward = 1.0f;
    out->terminated = fabs(s->x) > x_limit || fabs(s->theta) > theta_limit;
}

/* 4. Optional: draws the state. Pole and track are to scale; an episode ends at either end of the track. */
static inline void cartpole_draw(const void *state, FILE *file) {
    const cartpole *s = (const cartpole *)state;
    const double per_column = 0.08, per_row = 0.16, length = 1.0; /* m, m, m: of the pole */
    canvas picture = canvas_blank(61, 9);
    double column = 30 + s->x / per_column, row = 7;
    canvas_line(&picture, 0, row + 1, 60, row + 1, '-');
    canvas_text(&picture, column - 3, row, "[=====]");
    canvas_line(&picture, column, row, column + length * sin(s->theta) / per_column,
                row - length * cos(s->theta) / per_row, '#');
    canvas_put(&picture, column, row, 'O');
    canvas_print(&picture, file);
}

/* 5. The description. The time limit belongs here, not in step(): an episode that reaches it is truncated, not
      terminated, and the value of its last state still counts. */
static inline ppo_env cartpole_env(void) {
    ppo_env env;
    memset(&env, 0, sizeof env);
    env.name = "CartPole-v1";
    env.obs_size = 4;
    env.action_space = ppo_discrete(2); /* 0: push left, 1: push right */
    env.state_size = sizeof(cartpole);
    env.max_steps = 500;
    env.reset = cartpole_reset;
    env.step = cartpole_step;
    env.draw = cartpole_draw;
    return env;
}

/* 6. Optional: the same for thousands of copies, whose states stand side by side, in one call. */
static inline void cartpole_step_many(int n, void *state, ppo_rng *rng, const ppo_action *actions, float *obs,
                                      ppo_outcome *out) {
    cartpole *s = (cartpole *)state;
    for (int i = 0; i < n; i++) cartpole_step(&s[i], &rng[i], &actions[i], obs + 4 * i, &out[i]);
}

static inline ppo_env cartpole_many_env(void) {
    ppo_env env = cartpole_env();
    env.step = NULL;
    env.step_many = cartpole_step_many;
    return env;
}

#endif
