/* wrong 1: 2 The height moves with the old speed */
/* wrong 2: 8 The time limit sets terminated */
/* wrong 3: 8 The engine burns without fuel */
/* wrong 4: 9 The copies share a state */
/* wrong 5: 1 The speed is drawn before the height */
/* wrong 6: 1 The observation is not scaled */
/* wrong 7: 9 max_steps is half as large */
#include "environment.h"

#include <math.h>
#include <string.h>

typedef struct {
    double height, speed, fuel;
    int steps;
} lander;

static lander shared;

static void observe(const lander *s, float *obs) {
    obs[0] = (float)s->height / (WRONG == 6 ? 1 : 50);
    obs[1] = (float)s->speed / (WRONG == 6 ? 1 : 10);
    obs[2] = (float)s->fuel / (WRONG == 6 ? 1 : 100);
}

static void lander_reset(void *state, ppo_rng *rng, float *obs) {
    lander *s = WRONG == 4 ? &shared : (lander *)state;
    if (WRONG == 5) s->speed = ppo_rng_range(rng, -5, 0);
    s->height = ppo_rng_range(rng, 40, 60);
    if (WRONG != 5) s->speed = ppo_rng_range(rng, -5, 0);
    s->fuel = 100, s->steps = 0;
    observe(s, obs);
}

static void lander_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    lander *s = WRONG == 4 ? &shared : (lander *)state;
    int burns = action->discrete == 1 && (s->fuel > 0 || WRONG == 3);
    double old_speed = s->speed;
    s->fuel -= burns;
    s->speed += 0.2 * ((burns ? 4.0 : 0) - 1.6);
    s->height += 0.2 * (WRONG == 1 ? old_speed : s->speed);
    out->reward = burns ? -0.05f : 0;
    if (s->height <= 0) {
        s->height = 0;
        out->terminated = 1;
        out->reward += (float)(10 - fabs(s->speed));
    }
    if (WRONG == 2 && ++s->steps >= 150) out->terminated = 1;
    observe(s, obs);
}

ppo_env lander_env(void) {
    ppo_env env;
    memset(&env, 0, sizeof env);
    env.name = "lander";
    env.obs_size = 3;
    env.action_space = ppo_discrete(2);
    env.state_size = sizeof(lander);
    env.max_steps = WRONG == 7 ? 75 : 150;
    env.reset = lander_reset;
    env.step = lander_step;
    return env;
}
