/* acrobot.h - Acrobot-v1 for ppo.h (include that first): a double pendulum with a motor between its links.

   Two links hang from a fixed joint. The motor sits in the joint between them, like a gymnast's hips: swing
   until the free end is higher than one link above the fixed joint. Every step costs 1 until then, so the
   return is minus the number of steps; about -80 is good, -500 is the time limit.

   Equations: Sutton 1996, as corrected in Sutton and Barto 1998, section 11.3 ("book" in Gymnasium),
   integrated with one Runge-Kutta step of 0.2 s per action, in the form and the order of Gymnasium's
   Acrobot-v1, which works in double. The motion is chaotic: a difference in the last bit is visible after
   some hundred steps.

   Learned within 100000 steps with normalize_obs. */

#ifndef ACROBOT_H
#define ACROBOT_H

#include <math.h>
#include <string.h>

#include "canvas.h"

typedef struct acrobot {
    double theta1; /* rad: the first link, from hanging down */
    double theta2; /* rad: the second link, from being in line with the first */
    double speed1, speed2;
} acrobot;

static inline void acrobot_observe(const acrobot *s, float *obs) {
    obs[0] = (float)cos(s->theta1); /* continuous at a full turn, unlike the angles */
    obs[1] = (float)sin(s->theta1);
    obs[2] = (float)cos(s->theta2);
    obs[3] = (float)sin(s->theta2);
    obs[4] = (float)s->speed1;
    obs[5] = (float)s->speed2;
}

static inline void acrobot_reset(void *state, ppo_rng *rng, float *obs) {
    acrobot *s = (acrobot *)state;
    s->theta1 = ppo_rng_range(rng, -0.1f, 0.1f);
    s->theta2 = ppo_rng_range(rng, -0.1f, 0.1f);
    s->speed1 = ppo_rng_range(rng, -0.1f, 0.1f);
    s->speed2 = ppo_rng_range(rng, -0.1f, 0.1f);
    acrobot_observe(s, obs);
}

/* d state / dt, under a torque on the second joint. */
static inline acrobot acrobot_derivative(const acrobot *s, double torque) {
    const double m = 1.0, l = 1.0, c = 0.5; /* kg, m: of each link; m: from its joint to its center of mass */
    const double inertia = 1.0, g = 9.8;    /* kg m^2: of each link about its center; m/s^2 */
    const double quarter_turn = 3.14159265358979323846 / 2;

    double cos2 = cos(s->theta2), sin2 = sin(s->theta2);
    double d1 = m * (c * c) + m * (l * l + c * c + 2 * l * c * cos2) + inertia + inertia;
    double d2 = m * (c * c + l * c * cos2) + inertia;
    double phi2 = m * c * g * cos(s->theta1 + s->theta2 - quarter_turn);
    double phi1 = -m * l * c * (s->speed2 * s->speed2) * sin2 - 2 * m * l * c * s->speed2 * s->speed1 * sin2 +
                  (m * c + m * l) * g * cos(s->theta1 - quarter_turn) + phi2;

    acrobot derivative;
    derivative.theta1 = s->speed1;
    derivative.theta2 = s->speed2;
    derivative.speed2 = (torque + d2 / d1 * phi1 - m * l * c * (s->speed1 * s->speed1) * sin2 - phi2) /
                        (m * (c * c) + inertia - d2 * d2 / d1);
    derivative.speed1 = -(d2 * derivative.speed2 + phi1) / d1;
    return derivative;
}

/* s + t derivative */
static inline acrobot acrobot_along(const acrobot *s, double t, const acrobot *derivative) {
    acrobot to;
    to.theta1 = s->theta1 + t * derivative->theta1;
    to.theta2 = s->theta2 + t * derivative->theta2;
    to.speed1 = s->speed1 + t * derivative->speed1;
    to.speed2 = s->speed2 + t * derivative->speed2;
    return to;
}

/* The classical Runge-Kutta method: s + dt/6 (k1 + 2 k2 + 2 k3 + k4), with derivatives at the start, twice in
   the middle, and at the end of the interval. Its error is of order dt^4, Euler's of order dt. */
static inline acrobot acrobot_runge_kutta(const acrobot *s, double torque, double dt) {
    acrobot k1 = acrobot_derivative(s, torque);
    acrobot middle = acrobot_along(s, dt / 2, &k1);
    acrobot k2 = acrobot_derivative(&middle, torque);
    middle = acrobot_along(s, dt / 2, &k2);
    acrobot k3 = acrobot_derivative(&middle, torque);
    acrobot end = acrobot_along(s, dt, &k3);
    acrobot k4 = acrobot_derivative(&end, torque);

    acrobot sum = acrobot_along(&k1, 2, &k2);
    sum = acrobot_along(&sum, 2, &k3);
    sum = acrobot_along(&sum, 1, &k4);
    return acrobot_along(s, dt / 6, &sum);
}

/* The same angle in [-pi, pi]. */
static inline double acrobot_wrap(double angle) {
    const double pi = 3.14159265358979323846;
    while (angle > pi) angle -= 2 * pi;
    while (angle < -pi) angle += 2 * pi;
    return angle;
}

static inline void acrobot_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                                ppo_outcome *out) {
    const double pi = 3.14159265358979323846;
    const double max_speed1 = 4 * pi, max_speed2 = 9 * pi; /* rad/s */

    acrobot *s = (acrobot *)state;
    (void)rng; /* the motion is deterministic */

    *s = acrobot_runge_kutta(s, action->discrete - 1.0, 0.2);
    s->theta1 = acrobot_wrap(s->theta1);
    s->theta2 = acrobot_wrap(s->theta2);
    s->speed1 = fmin(fmax(s->speed1, -max_speed1), max_speed1);
    s->speed2 = fmin(fmax(s->speed2, -max_speed2), max_speed2);

    acrobot_observe(s, obs);
    out->terminated = -cos(s->theta1) - cos(s->theta2 + s->theta1) > 1.0; /* the height of the free end */
    out->reward = out->terminated ? 0.0f : -1.0f;
}

static inline void acrobot_draw(const void *state, FILE *file) {
    const acrobot *s = (const acrobot *)state;
    canvas picture = canvas_blank(31, 16);
    const double column = 15, row = 8, length = 3.6; /* the fixed joint; a link, in rows */
    double column1 = column + 2 * length * sin(s->theta1), row1 = row + length * cos(s->theta1);
    double both = s->theta1 + s->theta2;
    canvas_line(&picture, 0, row - length, 30, row - length, '-'); /* the height to be reached */
    canvas_line(&picture, column, row, column1, row1, '#');
    canvas_line(&picture, column1, row1, column1 + 2 * length * sin(both), row1 + length * cos(both), '*');
    canvas_put(&picture, column, row, 'O');
    canvas_put(&picture, column1, row1, 'o');
    canvas_print(&picture, file);
}

static inline ppo_env acrobot_env(void) {
    ppo_env env;
    memset(&env, 0, sizeof env);
    env.name = "Acrobot-v1";
    env.obs_size = 6;
    env.action_space = ppo_discrete(3); /* 0: a torque of -1 N m, 1: none, 2: 1 N m */
    env.state_size = sizeof(acrobot);
    env.max_steps = 500;
    env.reset = acrobot_reset;
    env.step = acrobot_step;
    env.draw = acrobot_draw;
    return env;
}

#endif
