/* pendulum.h - Pendulum-v1 for ppo.h (include that first): one continuous action.

   A pendulum hangs from a motor that is too weak to lift it straight up: swing it, bring it upright and keep
   it there with as little torque as possible. Every step costs angle^2 + 0.1 speed^2 + 0.001 torque^2, so the
   return is negative; about -150 is good, -1200 that of an untrained policy. Only the time limit ends it.

   A rod of mass m and length l on a pivot, theta measured from upright (m l^2 / 3 is its moment of inertia):

       theta'' = 3 g / (2 l) sin(theta) + 3 / (m l^2) torque

   in the form and the order of Gymnasium's Pendulum-v1, which works in double, with the action in float.

   Learned within 200000 steps with gamma 0.9 and a learning rate of 1e-3. */

#ifndef PENDULUM_H
#define PENDULUM_H

#include <math.h>
#include <string.h>

#include "canvas.h"

typedef struct pendulum {
    double theta; /* rad from upright, counterclockwise; grows beyond a full turn */
    double speed; /* rad/s */
} pendulum;

static inline void pendulum_observe(const pendulum *s, float *obs) {
    obs[0] = (float)cos(s->theta); /* continuous at a full turn, unlike the angle */
    obs[1] = (float)sin(s->theta);
    obs[2] = (float)s->speed;
}

static inline void pendulum_reset(void *state, ppo_rng *rng, float *obs) {
    pendulum *s = (pendulum *)state;
    s->theta = ppo_rng_range(rng, -3.14159265f, 3.14159265f);
    s->speed = ppo_rng_range(rng, -1.0f, 1.0f);
    pendulum_observe(s, obs);
}

/* The same angle in [-pi, pi). */
static inline double pendulum_wrap(double angle) {
    const double pi = 3.14159265358979323846;
    double turn = fmod(angle + pi, 2 * pi);
    return (turn < 0 ? turn + 2 * pi : turn) - pi;
}

static inline void pendulum_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                                 ppo_outcome *out) {
    const double gravity = 10.0, length = 1.0, dt = 0.05, max_speed = 8.0; /* m/s^2, m, s, rad/s; m = 1 kg */
    const float max_torque = 2.0f;                                         /* N m */

    pendulum *s = (pendulum *)state;
    float torque = fminf(fmaxf(action->box[0], -max_torque), max_torque);
    double angle = pendulum_wrap(s->theta);
    double cost = angle * angle + 0.1 * (s->speed * s->speed) + (double)(0.001f * (torque * torque));
    double acceleration = 3 * gravity / (2 * length) * sin(s->theta) + (double)(3.0f * torque);
    (void)rng; /* the motion is deterministic */

    s->speed = fmin(fmax(s->speed + acceleration * dt, -max_speed), max_speed);
    s->theta += s->speed * dt; /* with the new speed */

    pendulum_observe(s, obs);
    out->reward = (float)-cost; /* of the state before the step */
}

static inline void pendulum_draw(const void *state, FILE *file) {
    const pendulum *s = (const pendulum *)state;
    canvas picture = canvas_blank(31, 15);
    const double column = 15, row = 7, length = 6.5; /* the pivot; the rod, in rows */
    double end = column - 2 * length * sin(s->theta), end_row = row - length * cos(s->theta);
    canvas_line(&picture, column, row, end, end_row, '#');
    canvas_put(&picture, column, row, 'O');
    canvas_print(&picture, file);
}

static inline ppo_env pendulum_env(void) {
    ppo_env env;
    memset(&env, 0, sizeof env);
    env.name = "Pendulum-v1";
    env.obs_size = 3;
    env.action_space = ppo_box(1, -2.0f, 2.0f); /* the torque, counterclockwise */
    env.state_size = sizeof(pendulum);
    env.max_steps = 200;
    env.reset = pendulum_reset;
    env.step = pendulum_step;
    env.draw = pendulum_draw;
    return env;
}

#endif
