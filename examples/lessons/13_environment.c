/* 13_environment.c - an environment of your own in 40 lines, trained within a second.

   A lander falls towards the Moon; its engine is on or off. It must touch down softly before the fuel is used
   up. This lesson teaches the parts of an environment, which are a state, two functions and a description,
   and how a program watches an agent with ppo_play(). You will see a flight of the untrained agent, which
   crashes, the progress of the training, and the same flight again: the agent falls, then brakes above the
   ground. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "../companions/ppo_check.h"

#include "lesson.h"

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
    lander *s = (lander *)state;
    int burn = action->discrete == 1 && s->fuel > 0;
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

enum { MOST = 201 };
typedef struct flight {
    float step[MOST], height[MOST];
    int n;
} flight;

/* Called at the start, as step 0, and after every step of a flight. Prints every fourth step as a line with
   the ground on the left: '.' falls, '*' burns. */
static int watch(const ppo_frame *frame, void *user) {
    const lander *s = (const lander *)frame->state;
    flight *f = (flight *)user;
    int burns = frame->action && frame->action->discrete == 1 && s->fuel > 0;
    f->step[f->n] = (float)frame->step;
    f->height[f->n++] = s->height;
    if (frame->step % 4 == 0 || frame->terminated)
        printf("step %2d %7.1f m/s |%*c\n", frame->step, (double)s->speed, 1 + (int)s->height,
               burns ? '*' : '.');
    if (frame->terminated) printf("touchdown, with fuel for %.1f s\n", (double)s->fuel);
    return 0; /* not 0 ends the flight */
}

/* One flight, from the same start for every agent. */
static void fly(ppo_agent *agent, const ppo_env *env, uint64_t seed, const char *title, flight *f) {
    float total;
    printf("\n%s\n", title);
    must(ppo_play(agent, env, seed, 0, watch, f, &total)); /* 0: the most likely actions */
    printf("return %.1f\n", (double)total);
    fflush(stdout); /* before the progress of the training, which goes to stderr */
}

int main(int argc, char **argv) {
    static flight crash, landing;
    ppo_env env = lander_env();
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_inspection report; /* what random actions find wrong with an environment */
    cfg.total_steps = 100000;
    cfg.callback = ppo_print_progress;
    cfg.seed = lesson_seed(argc, argv);
    must(ppo_env_check(&env, 2000, cfg.seed, &report));
    printf("inspected for %d steps: %d findings\n", report.steps, report.findings);
    for (int i = 0; i < report.findings; i++) printf("  %s\n", report.finding[i]);

    must(ppo_agent_create(&env, &cfg, &agent));
    fly(agent, &env, cfg.seed, "before training", &crash);
    ppo_evaluation before = ppo_evaluate(agent, &env, 100, cfg.seed);
    must(before.status);
    must(ppo_train(&env, &cfg, &agent));
    fly(agent, &env, cfg.seed, "after training", &landing);
    ppo_evaluation after = ppo_evaluate(agent, &env, 100, cfg.seed);
    must(after.status);
    printf("\nmean return of 100 flights: %.1f before, %.1f after\n", (double)before.mean_return,
           (double)after.mean_return);

    chart c = {.title = "One flight", .x_label = "steps of 0.25 s", .y_label = "height, m", .y = {0, 60}};
    chart_line(&c, "before training", crash.step, crash.height, crash.n);
    chart_line(&c, "after training", landing.step, landing.height, landing.n);
    chart_save(&c, "build/lessons/13_environment.svg");
    claim(report.findings == 0, "the inspection finds nothing");
    claim(before.mean_return < 3 && after.mean_return > 8, "trained, it lands at below %.0f m/s on average",
          2.0);
    ppo_agent_free(agent);
    return lesson_failures > 0;
}
