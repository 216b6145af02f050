/* cartpole.c - CartPole-v1: training speed on one thread, the ratio to Stable-Baselines3, and the memory of a whole run.

   The work is the same on both sides: 4 environments x 512 steps, minibatches of 64, 10 epochs, two separate 64-64
   tanh networks, one thread. Speed is environment steps per second of training, collecting included. The two take
   turns, so that a machine that slows down does so for both, and the ratio is the median of the pairs. */
#define _POSIX_C_SOURCE 200809L
#include "ppo.h"

#include "workloads.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* The largest resident size of one `build/train` with its defaults, in KiB; 0 if it failed. The child's figure
   includes what this process held when it forked, so this is measured before anything else. */
static long peak_memory(void) {
    pid_t child = fork();
    if (child == 0) {
        execl("build/train", "train", "--quiet", (char *)NULL);
        _exit(127);
    }
    int           status;
    struct rusage usage;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 0;
    return getrusage(RUSAGE_CHILDREN, &usage) == 0 ? usage.ru_maxrss : 0;
}

static double measure_ppo_h(int repetition) { /* steps per second; 0 if it failed */
    ppo_config c = cartpole_settings(repetition + 1);
    double     seconds = train(cartpole_env(), c, NULL);
    return seconds > 0 ? (double)c.total_steps / seconds : 0;
}

/* Steps per second of bench/sb3_cartpole.py, which prints its versions and then that; 0 if it cannot be run. */
static double measure_sb3(int repetition, char version[64]) {
    const char *python = getenv("PPO_BENCH_PYTHON");
    char        command[1024], line[64] = "";
    snprintf(command, sizeof command, "'%s' bench/sb3_cartpole.py %d 2>build/sb3.log",
             python ? python : "python3", repetition + 1);
    FILE *pipe = popen(command, "r");
    if (!pipe) return 0;
    if (fgets(version, 64, pipe)) version[strcspn(version, "\n")] = '\0';
    double speed = fgets(line, sizeof line, pipe) ? atof(line) : 0;
    return pclose(pipe) == 0 ? speed : 0;
}

int main(void) {
    double ours[REPETITIONS], sb3[REPETITIONS], ratio[REPETITIONS];
    char   ours_name[64], sb3_name[64];
    long   kib = peak_memory();
    int    has_sb3 = 1;
    if (kib == 0) return fprintf(stderr, "build/train failed\n"), 1;

    printf("CartPole-v1, 4 envs x 512 steps, minibatch 64, 10 epochs, 64-64 tanh networks, one thread\n\n");
    fflush(stdout);
    for (int i = 0; i < REPETITIONS; i++) {
        ours[i] = measure_ppo_h(i);
        if (ours[i] == 0) return 1;
        sb3[i] = has_sb3 ? measure_sb3(i, sb3_name) : 0;
        if (sb3[i] == 0) has_sb3 = 0;
        if (has_sb3) ratio[i] = ours[i] / sb3[i];
    }

    snprintf(ours_name, sizeof ours_name, "ppo.h (%s)", ppo_kernels_name());
    report(ours_name, ours, 0, "steps/s");
    if (has_sb3) {
        report(sb3_name, sb3, 0, "steps/s");
        report("ratio", ratio, 1, "times");
    } else {
        printf("%-44s not measured: no Python with it (PPO_BENCH_PYTHON names one; see build/sb3.log)\n",
               "Stable-Baselines3");
    }
    printf("%-44s %9.1f MiB       resident, build/train with its defaults\n", "peak memory",
           (double)kib / 1024);
    return 0;
}
