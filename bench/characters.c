/* characters.c [steps=2000] [seed=1] [threads=1] [KERNELS...] - nanoGPT's recipe for a CPU
   (config/train_shakespeare_char.py with the flags of its README, with biases): seconds and held-out loss by
   build/finetune (characters.sh) and in PyTorch (characters.py), on as many threads, by set of kernels, with
   the peak memory of both.

   4 layers of width 128, context 64, batches of 12, 2,000 steps, on the King James Bible. The two sides train
   one after the other; the ratio is of the fifths of a training: their median and both ends. */
#define _DEFAULT_SOURCE
#include "ppo.h"

#include "measure.h"

enum { FIFTHS = 5, PROCESSOR = FIFTHS, LOSS, NUMBERS };

static int steps = 2000, seed = 1, threads = 1;

static void tell_side(const char *name, const outcome *o, figures *fifths) {
    double seconds = 0;
    for (int k = 0; k < FIFTHS; k++) keep(fifths, o->number[k], 0), seconds += o->number[k];
    printf("  %-46s %9.1f s, %.1f s of the processor, held-out loss %.4f; peak %.1f MiB\n", name, seconds,
           o->number[PROCESSOR], o->number[LOSS], o->mib);
    fflush(stdout);
}

static int measure(const kernel_set *set) {
    outcome mine, peer;
    figures ours = {{0}, 0, 0}, theirs = {{0}, 0, 0};
    char text[128];
    snprintf(text, sizeof text, "sh bench/characters.sh %d %d %s %d", seed, steps, set->name, threads);
    if (!run(text, NULL, NULL, NUMBERS, &mine)) return fprintf(stderr, "%s failed\n", text), 1;
    tell_side("ppo.h", &mine, &ours);
    snprintf(text, sizeof text, "%d %d %d", seed, steps, threads);
    if (!run_python("characters.py", text, NUMBERS, &peer)) return not_measured("characters.py"), 0;
    tell_side(peer.name, &peer, &theirs);
    tell_ratio("  ratio", &theirs, &ours);
    return 0;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (sscanf(argv[i], "steps=%d", &steps) != 1 && sscanf(argv[i], "seed=%d", &seed) != 1 &&
            sscanf(argv[i], "threads=%d", &threads) != 1 && !set_named(argv[i]))
            return fprintf(stderr,
                           "usage: bench-characters [steps=2000] [seed=1] [threads=1] [KERNELS...]\n"),
                   1;
    if (steps < 10) return fprintf(stderr, "at least 10 steps\n"), 1;
    if (system("sh bench/characters.sh")) return printf("characters: not measured, there is no text\n"), 0;
    printf("nanoGPT's recipe for characters, %d steps, seed %d, threads: %d\n\n", steps, seed, threads);
    return by_sets(argc, argv, 0, measure);
}
