/* start.c - how soon something happens: the milliseconds from a program's start (its exec) to the first step
   of its environment, with the default settings of CartPole; and the seconds of `make run` in a clean clone
   of this repository's last commit, which is made in build/start. */
#define _DEFAULT_SOURCE
#include "ppo.h"

#include "examples/envs/cartpole.h"
#include "measure.h"

static double started;

/* The moment, on the clock that all processes share. */
static double moment(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void first_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    cartpole_step(state, rng, action, obs, out);
    printf("%.6f\n", 1000 * (moment() - started));
    exit(0);
}

int main(int argc, char **argv) {
    ppo_env env = cartpole_env();
    ppo_config c = ppo_config_default();
    figures milliseconds = {{0}, 0, 0};
    outcome o;
    if (argc == 2 &&
        sscanf(argv[1], "began=%lf", &started) == 1) { /* what is measured, begun at that moment */
        ppo_agent *agent = NULL;
        env.step = first_step;
        return ppo_train(&env, &c, &agent), fail();
    }
    for (int i = 0; i < REPETITIONS; i++) {
        char text[512];
        snprintf(text, sizeof text, "exec '%s' began=%.9f", argv[0], moment()); /* and the shell's start */
        if (!run(text, NULL, NULL, 1, &o)) return fprintf(stderr, "%s failed\n", text), 1;
        keep(&milliseconds, *o.number, o.mib);
    }
    tell("from the program's start to the first step", &milliseconds, 2, "ms");
    if (!run("rm -rf build/start && git clone -q . build/start", NULL, NULL, 0, &o))
        return printf("make run in a clean clone: not measured, git clone failed\n"), 0;
    double began = ppo_clock();
    if (!run("cd build/start && make run >log.txt 2>&1", NULL, NULL, 0, &o))
        return fprintf(stderr, "make run failed, see build/start/log.txt\n"), 1;
    printf("%-48s %9.1f s, %.1f s of the processor\n", "make run in a clean clone", ppo_clock() - began,
           o.processor);
    return system("rm -rf build/start");
}
