/* mountaincar.h - MountainCar-v0 for ppo.h (include that first): a goal that random actions hardly ever reach.

   A car stands in a valley. Its engine is too weak for the hill on the right, so it has to back up the hill
   on the left first, several times. Every step costs 1 until the flag is reached, and no reward leads
   there: nearly every episode of a random policy is cut off at 200 steps with a return of -200. About -110 is
   good.

   The ground at x is sin(3 x) high, so its slope goes with cos(3 x):

       v += 0.001 (action - 1) - 0.0025 cos(3 x),   x += v

   Moore 1990, in the form and the order of Gymnasium's MountainCar-v0, which works in double.

   Learned within 300000 steps with normalize_obs. Without it the policy learns nothing: v stays below
   0.07, too small an input to push with the motion. */

#ifndef MOUNTAINCAR_H
#define MOUNTAINCAR_H

#include <math.h>
#include <string.h>

#include "canvas.h"

typedef struct mountaincar {
    double x; /* the valley's floor is at -pi/6 = -0.52, the flag at 0.5 */
    double v; /* per step */
} mountaincar;

static inline void mountaincar_observe(const mountaincar *s, float *obs) {
    obs[0] = (float)s->x;
    obs[1] = (float)s->v;
}

static inline void mountaincar_reset(void *state, ppo_rng *rng, float *obs) {
    mountaincar *s = (mountaincar *)state;
    s->x = ppo_rng_range(rng, -0.6f, -0.4f);
    s->v = 0;
    mountaincar_observe(s, obs);
}

static inline void mountaincar_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                                    ppo_outcome *out) {
    const double force = 0.001, gravity = 0.0025, max_speed = 0.07;
    const double x_min = -1.2, x_max = 0.6, flag = 0.5;

    mountaincar *s = (mountaincar *)state;
    (void)rng; /* the motion is deterministic */

    s->v += (action->discrete - 1) * force + cos(3 * s->x) * -gravity;
    s->v = fmin(fmax(s->v, -max_speed), max_speed);
    s->x = fmin(fmax(s->x + s->v, x_min), x_max);
    if (s->x <= x_min && s->v < 0) s->v = 0; /* the wall on the left stops the car */

    mountaincar_observe(s, obs);
    out->reward = -1.0f;
    out->terminated = s->x >= flag && s->v >= 0;
}

/* The ground from wall to wall, the flag, and a car at x. */
static inline void mountaincar_picture(double x, double flag, FILE *file) {
    const double per_column = 0.03, ground = 12.0, half_height = 5.0; /* x; rows: of sin = -1; for sin = 1 */
    canvas picture = canvas_blank(61, 13);
    for (int column = 0; column < picture.width; column++) {
        double height = 1 + sin(3 * (-1.2 + per_column * column));
        canvas_put(&picture, column, ground - half_height * height, '.');
    }
    canvas_put(&picture, (flag + 1.2) / per_column, ground - 1 - half_height * (1 + sin(3 * flag)), 'P');
    canvas_put(&picture, (x + 1.2) / per_column, ground - 1 - half_height * (1 + sin(3 * x)), 'o');
    canvas_print(&picture, file);
}

static inline void mountaincar_draw(const void *state, FILE *file) {
    mountaincar_picture(((const mountaincar *)state)->x, 0.5, file);
}

static inline ppo_env mountaincar_env(void) {
    ppo_env env;
    memset(&env, 0, sizeof env);
    env.name = "MountainCar-v0";
    env.obs_size = 2;
    env.action_space = ppo_discrete(3); /* 0: push left, 1: do not push, 2: push right */
    env.state_size = sizeof(mountaincar);
    env.max_steps = 200;
    env.reset = mountaincar_reset;
    env.step = mountaincar_step;
    env.draw = mountaincar_draw;
    return env;
}

#endif
