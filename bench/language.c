/* language.c - a small transformer: tokens per second of training and of sampling on one thread, and beside it
   Hugging Face's GPT2LMHeadModel in PyTorch with the same shape, where PPO_BENCH_PYTHON (or python3) has it.

   Width 128, 4 layers, 4 heads, context 128, vocabulary 512. Training: forward, backward and Adam on 16 sequences of
   128 tokens. Sampling: 1, 16 and 64 sequences, from 1 token to 128, with a key/value cache; here up to 16 side by
   side. The two sides take turns; a ratio is the median of the pairs. */
#define _POSIX_C_SOURCE 200809L
#include "ppo.h"

#include "workloads.h"

enum { SLOTS = 16, KINDS = 4 };

/* What is measured: training, and sampling of so many sequences. */
static const int sequences[KINDS] = {0, 1, 16, 64};

/* Tokens per second of sampling `count` sequences. */
static int measure_sampling(const ppo_lm *lm, int count, double *speed) {
    ppo_generator *generator = NULL;
    ppo_tokens     prompts = {0};
    ppo_samples    samples;
    ppo_sampling   how = ppo_sampling_default();
    ppo_status     status = ppo_generator_create(lm, count < SLOTS ? count : SLOTS, &generator);
    for (int s = 0; s < count && !status; s++) status = ppo_tokens_add(&prompts, &s, 1, 1);
    if (!status) status = ppo_generate(generator, &prompts, &how, &samples); /* not counted, as there */
    double start = ppo_clock();
    if (!status) status = ppo_generate(generator, &prompts, &how, &samples);
    *speed = count * (CONTEXT - 1) / (ppo_clock() - start);
    ppo_generator_free(generator);
    ppo_tokens_free(&prompts);
    return status ? fail() : 0;
}

static int measure_ppo_h(ppo_lm *lm, const ppo_tokens *data, double speed[KINDS]) {
    speed[0] = train_transformer(lm, data);
    if (!(speed[0] > 0)) return 1;
    for (int k = 1; k < KINDS; k++)
        if (measure_sampling(lm, sequences[k], &speed[k])) return 1;
    return 0;
}

/* The same by language.py, which prints its versions and then its speeds; 0 if it cannot be run. */
static int measure_peer(char version[96], double speed[KINDS]) {
    const char *python = getenv("PPO_BENCH_PYTHON");
    char        command[1024];
    snprintf(command, sizeof command, "'%s' bench/language.py 2>build/language.log",
             python ? python : "python3");
    FILE *pipe = popen(command, "r");
    if (!pipe) return 0;
    int read = fgets(version, 96, pipe) != NULL;
    for (int k = 0; k < KINDS && read; k++) read = fscanf(pipe, "%lf", &speed[k]) == 1;
    version[strcspn(version, "\n")] = '\0';
    return pclose(pipe) == 0 && read;
}

/* "sampling 16 sequences, ratio" */
static void report_kind(int k, const char *what, double value[REPETITIONS], int digits) {
    char name[96];
    if (k == 0) snprintf(name, sizeof name, "training, %s", what);
    else snprintf(name, sizeof name, "sampling %d, %s", sequences[k], what);
    report(name, value, digits, digits ? "times" : "tokens/s");
}

int main(void) {
    ppo_lm    *lm = NULL;
    ppo_tokens data = {0};
    double     ours[KINDS][REPETITIONS], theirs[KINDS][REPETITIONS], ratio[KINDS][REPETITIONS];
    int        has_peer = 1;
    char       version[96] = "";
    if (transformer_create(&lm, &data)) return fail();
    for (int i = 0; i < REPETITIONS; i++) {
        double mine[KINDS], peer[KINDS];
        if (measure_ppo_h(lm, &data, mine)) return 1;
        has_peer = has_peer && measure_peer(version, peer);
        for (int k = 0; k < KINDS; k++) {
            ours[k][i] = mine[k];
            theirs[k][i] = has_peer ? peer[k] : 0;
            ratio[k][i] = has_peer ? mine[k] / peer[k] : 0;
        }
    }
    printf("transformer of width 128, 4 layers, 4 heads, context 128, vocabulary 512, one thread (%s "
           "kernels; %s)\n\n",
           ppo_kernels_name(), *version ? version : "no peer");
    for (int k = 0; k < KINDS; k++) {
        report_kind(k, "ppo.h", ours[k], 0);
        if (!has_peer) continue;
        report_kind(k, "transformers", theirs[k], 0);
        report_kind(k, "ratio", ratio[k], 2);
    }
    if (!has_peer) {
        printf("transformers: not measured, no Python with it (PPO_BENCH_PYTHON names one; see "
               "build/language.log)\n");
    }
    ppo_lm_free(lm);
    ppo_tokens_free(&data);
    return 0;
}
