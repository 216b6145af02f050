/* cartpole.c [KERNELS...] - CartPole-v1: training speed on one thread beside Stable-Baselines3, by set of
   kernels, and the peak memory of both, and of build/train with its defaults.

   The work is the same on both sides: 4 environments x 512 steps, minibatches of 64, 10 epochs, two separate
   64-64 tanh networks. Speed is environment steps per second of training, collecting included. The two take
   turns, so that a machine that slows down does so for both, and the ratio is the median of the pairs. */
#define _DEFAULT_SOURCE
#include "ppo.h"

#include "workloads.h"

/* Steps per second. */
static int training(const void *seed, double *speed) {
    ppo_config c = cartpole_settings(*(const int *)seed);
    *speed = (double)c.total_steps / train(cartpole_env(), c, NULL);
    return !(*speed > 0);
}

static int measure(const kernel_set *set) {
    figures ours = {0}, sb3 = {0};
    outcome mine, peer = {0};
    int has_peer = 1;
    char text[16];
    (void)set;
    for (int seed = 1; seed <= REPETITIONS; seed++) {
        if (!run(NULL, training, &seed, 1, &mine)) return 1;
        keep(&ours, *mine.number, mine.mib);
        snprintf(text, sizeof text, "%d", seed);
        has_peer = has_peer && run_python("sb3_cartpole.py", text, 1, &peer);
        if (has_peer) keep(&sb3, *peer.number, peer.mib);
    }
    tell("  ppo.h", &ours, 0, "steps/s");
    if (!has_peer) return not_measured("sb3_cartpole.py"), 0;
    printf("  %s\n", peer.name);
    tell("  Stable-Baselines3", &sb3, 0, "steps/s");
    tell_ratio("  ratio", &ours, &sb3);
    return 0;
}

int main(int argc, char **argv) {
    outcome alone;
    printf("CartPole-v1, 4 envs x 512 steps, minibatch 64, 10 epochs, 64-64 tanh networks, one thread\n\n");
    if (by_sets(argc, argv, 0, measure)) return 1;
    if (!run("build/train --quiet", NULL, NULL, 0, &alone)) return fprintf(stderr, "build/train failed\n"), 1;
    printf("build/train with its defaults: peak %.1f MiB\n", alone.mib);
    return 0;
}
