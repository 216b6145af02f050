/* environment.c - an environment of your own in 40 lines, trained within a second.

   A lander falls towards the Moon; its engine is on or off. It must touch down softly before the fuel is used
   up. This lesson teaches the parts of an environment, which are a state, two functions and a description, and
   how a program watches an agent with ppo_play(). You will see a flight of the untrained agent, which crashes,
   the progress of the training, and the same flight again: the agent falls, then brakes above the ground. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include <stdlib.h>

/* ------------------------------------ the environment, from here ------------------------------------ */
typedef struct lander {        /* the state of one copy: plain bytes, which the library owns */
    float height, speed, fuel; /* m, m/s upwards, s of burning */
} lander;

static void observe(const lander *s, float *obs) { /* numbers around 1 suit the network */
    obs[0] = s->height / 50;
    obs[1] = s->speed / 10;
    obs[2] = s->fuel / 10;
}
static void lander_reset(void *state, ppo_rng *rng, float *obs) { /* starts an episode; random numbers: rng */
    lander *s = (lander *)state;
    s->height = ppo_rng_range(rng, 40, 60);
    s->speed = ppo_rng_range(rng, -10, 0);
    s->fuel = 10;
    observe(s, obs);
}
static void lander_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    const float gravity = 1.62f, thrust = 4, dt = 0.25f; /* m/s^2, m/s^2, s */
    lander     *s = (lander *)state;
    int         burn = action->discrete == 1 && s->fuel > 0;
    (void)rng; /* the Moon has no wind */
    s->speed += dt * ((burn ? thrust : 0) - gravity);
    s->height += dt * s->speed;
    s->fuel -= burn ? dt : 0;
    out->terminated = s->height <= 0;
    out->reward = out->terminated ? 10 + s->speed : 0; /* 10 for a touchdown, minus 1 for each m/s */
    observe(s, obs);
}
static ppo_env lander_env(void) {
    ppo_env env = {0};
    env.name = "lander";
    env.obs_size = 3;
    env.action_space = ppo_discrete(2); /* engine off, engine on */
    env.state_size = sizeof(lander);
    env.max_steps = 200; /* then the episode is truncated: it has not touched down */
    env.reset = lander_reset;
    env.step = lander_step;
    return env;
}
/* ------------------------------------ to here -------------------------------------------------------- */

static void must(ppo_status status) {
    if (status == PPO_OK) return;
    fprintf(stderr, "%s\n", ppo_last_error());
    exit(1);
}

/* Called at the start, as step 0, and after every step of a flight. Prints every second step as a line with the
   ground on the left: '.' falls, '*' burns. */
static int watch(const ppo_frame *frame, void *user) {
    const lander *s = (const lander *)frame->state;
    int           burns = frame->action && frame->action->discrete == 1 && s->fuel > 0;
    (void)user;
    if (frame->step % 2 == 0 || frame->terminated)
        printf("step %2d %7.1f m/s |%*c\n", frame->step, (double)s->speed, 1 + (int)s->height,
               burns ? '*' : '.');
    if (frame->terminated) printf("touchdown, with fuel for %.1f s\n", (double)s->fuel);
    return 0; /* not 0 ends the flight */
}

/* One flight, from the same start for every agent. */
static void fly(ppo_agent *agent, const ppo_env *env, const char *title) {
    float total;
    printf("\n%s\n", title);
    must(ppo_play(agent, env, 1, 0, watch, NULL, &total)); /* seed 1; 0: the most likely actions */
    printf("return %.1f\n", (double)total);
    fflush(stdout); /* before the progress of the training, which goes to stderr */
}

int main(void) {
    ppo_env    env = lander_env();
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    cfg.total_steps = 100000;
    cfg.callback = ppo_print_progress;

    must(ppo_agent_create(&env, &cfg, &agent));
    fly(agent, &env, "before training");
    ppo_evaluation before = ppo_evaluate(agent, &env, 100, cfg.seed);
    must(before.status);
    must(ppo_train(&env, &cfg, &agent));
    fly(agent, &env, "after training");
    ppo_evaluation after = ppo_evaluate(agent, &env, 100, cfg.seed);
    must(after.status);
    printf("\nmean return of 100 flights: %.1f before, %.1f after\n", (double)before.mean_return,
           (double)after.mean_return);
    ppo_agent_free(agent);
}
