/* pendulum.c - Pendulum-v1: seconds of training, and beside it RLtools with OpenBLAS where build/bench-rltools is.

   303,104 steps: 74 rollouts of 4 environments x 1024 steps, minibatches of 256, 2 epochs, separate 64-64 ReLU networks,
   observations normalized, one thread on both sides. The two take turns; a ratio is the median of the pairs. Then the
   mean return of 100 episodes of what each has learned. */
#define _POSIX_C_SOURCE 200809L
#include "ppo.h"

#include "workloads.h"

#include <unistd.h>

typedef struct result {
    double seconds, mean_return;
} result;

static int measure_ppo_h(int seed, result *out) {
    ppo_env    env = pendulum_env();
    ppo_agent *agent = NULL;
    out->seconds = train(env, pendulum_settings(seed), &agent);
    if (!(out->seconds > 0)) return 0;
    out->mean_return = ppo_evaluate(agent, &env, 100, 1000).mean_return;
    ppo_agent_free(agent);
    return 1;
}

/* What rltools_pendulum.cpp says behind "result"; 0 if it is not there. kernels: those of OpenBLAS, "" for its own
   choice. */
static int run_rltools(int seed, const char *kernels, result *out) {
    char command[160], line[256];
    int  found = 0;
    snprintf(command, sizeof command,
             "env -u OPENBLAS_CORETYPE %s%s OPENBLAS_NUM_THREADS=1 build/bench-rltools %d",
             *kernels ? "OPENBLAS_CORETYPE=" : "", kernels, seed);
    FILE *pipe = popen(command, "r");
    if (!pipe) return 0;
    while (fgets(line, sizeof line, pipe))
        if (sscanf(line, "result %lf %lf", &out->seconds, &out->mean_return) == 2) found = 1;
    return pclose(pipe) == 0 && found;
}

/* The faster of OpenBLAS's choice and its kernels for AVX2: on some processors with AVX-512 it chooses badly. */
static int measure_rltools(int seed, result *out) {
    result avx2;
    if (access("build/bench-rltools", X_OK) != 0 || !run_rltools(seed, "", out)) return 0;
    if (run_rltools(seed, "Haswell", &avx2) && avx2.seconds < out->seconds) *out = avx2;
    return 1;
}

int main(void) {
    double ours[REPETITIONS], theirs[REPETITIONS], ratio[REPETITIONS], mean[2][REPETITIONS];
    int    has_peer = 1;
    for (int i = 0; i < REPETITIONS; i++) {
        result mine, peer;
        if (!measure_ppo_h(i + 1, &mine)) return 1;
        has_peer = has_peer && measure_rltools(i + 1, &peer);
        ours[i] = mine.seconds, mean[0][i] = mine.mean_return;
        theirs[i] = has_peer ? peer.seconds : 0, mean[1][i] = has_peer ? peer.mean_return : 0;
        ratio[i] = has_peer ? theirs[i] / ours[i] : 0;
    }
    printf(
        "Pendulum-v1, 303,104 steps, 4 envs x 1024, minibatch 256, 2 epochs, 64-64 ReLU, one thread (%s)\n\n",
        ppo_kernels_name());
    report("training, ppo.h", ours, 3, "seconds");
    report("mean return, ppo.h", mean[0], 1, "");
    if (has_peer) {
        report("training, RLtools with OpenBLAS", theirs, 3, "seconds");
        report("mean return, RLtools", mean[1], 1, "");
        report("ratio of the seconds", ratio, 2, "times");
    } else
        printf(
            "RLtools: not measured, it needs a C++ compiler, libopenblas-dev and Python's package rltools\n");
    return 0;
}
