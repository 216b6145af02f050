/* pendulum.c [KERNELS...] - Pendulum-v1: seconds of training beside RLtools (build/rltools-native and
   -haswell) with OpenBLAS, BLIS and MKL, where they are installed, by set of kernels; and the peak memory of
   all.

   303,104 steps: 74 rollouts of 4 environments x 1024 steps, minibatches of 256, 2 epochs, separate 64-64
   ReLU networks, observations normalized, one thread on both sides. They take turns; a ratio is the median of
   the pairs, and the last one is to the fastest of a turn. Then the mean return of 100 episodes of what each
   has learned. */
#define _DEFAULT_SOURCE
#include "ppo.h"

#include "workloads.h"

/* RLtools calls cblas_sgemm() of the first library in which it is found. MKL comes with Python's package
   mkl. */
static const struct blas {
    const char *name, *preload;
} libraries[] = {
    {"OpenBLAS", ""},
    {"BLIS", "libblis.so.4"},
    {"MKL", "$(ls \"$(dirname \"$(command -v \"${PPO_BENCH_PYTHON:-python3}\")\")\"/../lib/libmkl_rt.so.* "
            "2>/dev/null || echo libmkl_rt.so)"}};
enum { LIBRARIES = 3 };

/* Seconds, and the mean return. */
static int training(const void *seed, double *number) {
    ppo_env env = pendulum_env();
    ppo_agent *agent = NULL;
    number[0] = train(env, pendulum_settings(*(const int *)seed), &agent);
    if (!(number[0] > 0)) return 1;
    number[1] = ppo_evaluate(agent, &env, 100, 1000).mean_return;
    ppo_agent_free(agent);
    return 0;
}

static int run_rltools(const struct blas *blas, const kernel_set *set, int seed, outcome *o) {
    char command[512];
    snprintf(command, sizeof command,
             "export OPENBLAS_NUM_THREADS=1 BLIS_NUM_THREADS=1 MKL_NUM_THREADS=1; library=%s\n"
             "LD_PRELOAD=$library build/rltools-%s %d 2>build/rltools.log | sed -n 's/^result //p'\n"
             "! grep -q 'cannot be preloaded' build/rltools.log",
             blas->preload, set->march, seed);
    return run(command, NULL, NULL, 2, o);
}

static int measure(const kernel_set *set) {
    figures ours = {0}, mean = {0}, theirs[LIBRARIES] = {{{0}, 0, 0}}, best = {0}, best_mean = {0};
    char name[64];
    for (int seed = 1; seed <= REPETITIONS; seed++) {
        outcome mine, fastest = {{INFINITY}, 0, 0, ""};
        if (!run(NULL, training, &seed, 2, &mine)) return 1;
        keep(&ours, mine.number[0], mine.mib), keep(&mean, mine.number[1], 0);
        for (int b = 0; b < LIBRARIES; b++) {
            outcome peer;
            if (theirs[b].count < seed - 1 || !run_rltools(&libraries[b], set, seed, &peer)) continue;
            keep(&theirs[b], peer.number[0], peer.mib);
            if (peer.number[0] < fastest.number[0]) fastest = peer;
        }
        if (isfinite(fastest.number[0]))
            keep(&best, fastest.number[0], 0), keep(&best_mean, fastest.number[1], 0);
    }
    tell("  ppo.h", &ours, 3, "seconds");
    for (int b = 0; b < LIBRARIES; b++) {
        snprintf(name, sizeof name, "  RLtools, %s", libraries[b].name);
        tell(name, &theirs[b], 3, "seconds");
        if (!theirs[b].count) printf("%s: not measured (build/rltools.log)\n", name);
    }
    tell_ratio("  ratio to the fastest of RLtools", &best, &ours);
    tell("  mean return, ppo.h", &mean, 1, "");
    tell("  mean return, RLtools", &best_mean, 1, "");
    return 0;
}

int main(int argc, char **argv) {
    printf("Pendulum-v1, 303,104 steps, 4 envs x 1024, minibatch 256, 2 epochs, 64-64 ReLU, one thread\n\n");
    return by_sets(argc, argv, 0, measure);
}
