/* mountaincar_continuous.h - MountainCarContinuous-v0 for ppo.h (include that first): a local optimum.

   The car of mountaincar.h with an accelerator instead of three levers: the action is a force in [-1, 1].
   Reaching the flag pays 100, and every step costs 0.1 force^2. Standing still costs nothing, so a policy
   that explores too little to reach the flag learns to stand still, with a return of 0; one that reaches it
   gets above 90. Learned within 100000 steps with normalize_obs and log_std_init 1; with less noise
   some runs end at 0, and without normalize_obs nearly all.

   Gymnasium's MountainCarContinuous-v0, which keeps this state in float and computes in float; the cosine and
   the reward are double. (Its first step after a reset is double throughout: the one step that can differ, in
   the last bit.) The cost is that of the action before clipping; the actions of ppo.h are within the box. */

#ifndef MOUNTAINCAR_CONTINUOUS_H
#define MOUNTAINCAR_CONTINUOUS_H

#include <math.h>
#include <string.h>

#include "mountaincar.h"

typedef struct mountaincar_continuous {
    float x; /* the valley's floor is at -pi/6 = -0.52, the flag at 0.45 */
    float v; /* per step */
} mountaincar_continuous;

static inline void mountaincar_continuous_observe(const mountaincar_continuous *s, float *obs) {
    obs[0] = s->x;
    obs[1] = s->v;
}

static inline void mountaincar_continuous_reset(void *state, ppo_rng *rng, float *obs) {
    mountaincar_continuous *s = (mountaincar_continuous *)state;
    s->x = ppo_rng_range(rng, -0.6f, -0.4f);
    s->v = 0;
    mountaincar_continuous_observe(s, obs);
}

static inline void mountaincar_continuous_step(void *state, ppo_rng *rng, const ppo_action *action,
                                               float *obs, ppo_outcome *out) {
    const float power = 0.0015f, max_speed = 0.07f;
    const float x_min = -1.2f, x_max = 0.6f, flag = 0.45f;
    const double gravity = 0.0025;

    mountaincar_continuous *s = (mountaincar_continuous *)state;
    double given = action->box[0];
    float force = fminf(fmaxf(action->box[0], -1.0f), 1.0f);
    (void)rng; /* the motion is deterministic */

    s->v += force * power - (float)(gravity * cos((double)(3 * s->x)));
    s->v = fminf(fmaxf(s->v, -max_speed), max_speed);
    s->x = fminf(fmaxf(s->x + s->v, x_min), x_max);
    if (s->x <= x_min && s->v < 0) s->v = 0; /* the wall on the left stops the car */

    mountaincar_continuous_observe(s, obs);
    out->terminated = s->x >= flag && s->v >= 0;
    out->reward = (float)((out->terminated ? 100.0 : 0.0) - given * given * 0.1);
}

static inline void mountaincar_continuous_draw(const void *state, FILE *file) {
    mountaincar_picture((double)((const mountaincar_continuous *)state)->x, 0.45, file);
}

static inline ppo_env mountaincar_continuous_env(void) {
    ppo_env env;
    memset(&env, 0, sizeof env);
    env.name = "MountainCarContinuous-v0";
    env.obs_size = 2;
    env.action_space = ppo_box(1, -1.0f, 1.0f); /* the force, to the right */
    env.state_size = sizeof(mountaincar_continuous);
    env.max_steps = 999;
    env.reset = mountaincar_continuous_reset;
    env.step = mountaincar_continuous_step;
    env.draw = mountaincar_continuous_draw;
    return env;
}

#endif
