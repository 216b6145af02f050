/* flags.c - what a plain `cc -O2` loses against `cc -O3 -march=native`: the ratio of the training speeds.

   The Makefile compiles this file both ways, as build/flags-plain and build/flags-native, which train once and print
   the seconds; and once more as build/bench-flags, which lets them take turns. A ratio is the median of the pairs. */
#define _DEFAULT_SOURCE
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "workloads.h"

static double train_here(const char *what, int seed) {
    if (!strcmp(what, "CartPole")) return train(cartpole_env(), cartpole_settings(seed), NULL);
    return train(pendulum_env(), pendulum_settings(seed), NULL);
}

/* Seconds of a training by build/flags-HOW; 0 if it is not there or fails. */
static double train_by(const char *how, const char *what, int seed) {
    char command[128];
    double seconds = 0;
    snprintf(command, sizeof command, "test -x build/flags-%s && build/flags-%s %s %d", how, how, what, seed);
    FILE *pipe = popen(command, "r");
    int read = pipe && fscanf(pipe, "%lf", &seconds) == 1;
    return pipe && pclose(pipe) == 0 && read ? seconds : 0;
}

static int compare(const char *what) {
    double plain[REPETITIONS], native[REPETITIONS], ratio[REPETITIONS];
    char name[64];
    for (int i = 0; i < REPETITIONS; i++) {
        plain[i] = train_by("plain", what, i + 1);
        native[i] = train_by("native", what, i + 1);
        if (plain[i] <= 0 || native[i] <= 0) return 0;
        ratio[i] = native[i] / plain[i];
    }
    snprintf(name, sizeof name, "%s, -O2", what);
    report(name, plain, 3, "seconds");
    snprintf(name, sizeof name, "%s, -O3 -march=native", what);
    report(name, native, 3, "seconds");
    report("    -O2 is so many times as fast", ratio, 2, "times");
    return 1;
}

int main(int argc, char **argv) {
    if (argc == 3) {
        double seconds = train_here(argv[1], atoi(argv[2]));
        return printf("%.6f\n", seconds), !(seconds > 0);
    }
    printf("the same program compiled with -O2 and with -O3 -march=native (%s kernels)\n\n",
           ppo_kernels_name());
    if (!compare("CartPole") || !compare("Pendulum"))
        printf("not measured: no training by build/flags-plain and -native (see build/flags.log)\n");
    return 0;
}
