/* language.c - a small transformer: tokens per second of training and of sampling on one thread, and beside it
   Hugging Face's GPT2LMHeadModel in PyTorch with the same shape, where PPO_BENCH_PYTHON (or python3) has it.

   Width 128, 4 layers, 4 heads, context 128, vocabulary 512. Training: forward, backward and Adam on 16 sequences of
   128 tokens. Sampling: 64 sequences side by side, from 1 token to 128, with a key/value cache. The two sides take
   turns; a ratio is the median of the pairs. */
#define _POSIX_C_SOURCE 200809L
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include <stdlib.h>

enum { REPETITIONS = 5, VOCAB = 512, CONTEXT = 128, BATCH = 16, STEPS = 10, SAMPLES = 64 };

typedef struct speeds { /* tokens per second; 0: not measured */
    double training, sampling;
} speeds;

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const char *name, double value[REPETITIONS], int digits) {
    qsort(value, REPETITIONS, sizeof *value, ascending);
    printf("%-36s %9.*f   median of %d, from %.*f to %.*f\n", name, digits, value[REPETITIONS / 2],
           REPETITIONS, digits, value[0], digits, value[REPETITIONS - 1]);
}

static int fail(void) { return fprintf(stderr, "%s\n", ppo_last_error()), 1; }

/* The last step tells the speed of the whole. */
static int keep_speed(const ppo_fit_progress *p, void *user) {
    *(double *)user = p->tokens_per_second;
    return 0;
}

static int measure_ppo_h(ppo_gpt *gpt, const ppo_tokens *data, const ppo_tokens *prompts, speeds *out) {
    ppo_generator *generator = NULL;
    ppo_samples    samples;
    ppo_sampling   how = ppo_sampling_default();
    ppo_fit_config fit = ppo_fit_config_default();
    fit.batch_size = BATCH;
    fit.callback = keep_speed;
    fit.callback_user = &out->training;
    if (ppo_fit_sft(gpt, data, &fit) || ppo_generator_create(gpt, SAMPLES, &generator)) return fail();
    double     start = ppo_clock();
    ppo_status status = ppo_generate(generator, prompts, &how, &samples);
    out->sampling = SAMPLES * (CONTEXT - 1) / (ppo_clock() - start);
    ppo_generator_free(generator);
    return status ? fail() : 0;
}

/* The same by language.py, which prints its versions and then the two speeds; 0 if it cannot be run. */
static int measure_peer(char version[96], speeds *out) {
    const char *python = getenv("PPO_BENCH_PYTHON");
    char        command[1024];
    snprintf(command, sizeof command, "'%s' bench/language.py 2>build/language.log",
             python ? python : "python3");
    FILE *pipe = popen(command, "r");
    if (!pipe) return 0;
    int read = fgets(version, 96, pipe) && fscanf(pipe, "%lf %lf", &out->training, &out->sampling) == 2;
    version[strcspn(version, "\n")] = '\0';
    return pclose(pipe) == 0 && read;
}

int main(void) {
    ppo_gpt_config shape = {VOCAB, CONTEXT, 128, 4, 4, 0, 1};
    ppo_gpt       *gpt = NULL;
    ppo_tokens     data = {0, NULL, NULL, NULL}, prompts = {0, NULL, NULL, NULL};
    ppo_rng        rng = ppo_rng_stream(1, PPO_STREAM_USER, 0);
    double         ours[2][REPETITIONS], theirs[2][REPETITIONS], ratio[2][REPETITIONS];
    int            token[CONTEXT], has_peer = 1;
    char           version[96] = "";
    ppo_status     status = ppo_gpt_create(&shape, &gpt);
    for (int s = 0; s < BATCH * STEPS && !status; s++) {
        for (int i = 0; i < CONTEXT; i++) token[i] = ppo_rng_below(&rng, VOCAB);
        status = ppo_tokens_add(&data, token, CONTEXT, 0);
        if (!status && s < SAMPLES) status = ppo_tokens_add(&prompts, token, 1, 1);
    }
    if (status) return fail();
    for (int k = 0; k < REPETITIONS; k++) {
        speeds mine, peer;
        if (measure_ppo_h(gpt, &data, &prompts, &mine)) return 1;
        ours[0][k] = mine.training, ours[1][k] = mine.sampling;
        if (!has_peer || !(has_peer = measure_peer(version, &peer))) continue;
        theirs[0][k] = peer.training, theirs[1][k] = peer.sampling;
        ratio[0][k] = mine.training / peer.training, ratio[1][k] = mine.sampling / peer.sampling;
    }
    printf("transformer of width 128, 4 layers, 4 heads, context 128, vocabulary 512, one thread (%s "
           "kernels; %s)\n\n",
           ppo_kernels_name(), *version ? version : "no peer");
    report("training, ppo.h, tokens/s", ours[0], 0);
    report("sampling, ppo.h, tokens/s", ours[1], 0);
    if (has_peer) {
        report("training, PyTorch, tokens/s", theirs[0], 0);
        report("sampling, transformers, tokens/s", theirs[1], 0);
        report("training, ratio", ratio[0], 2);
        report("sampling, ratio", ratio[1], 2);
    } else {
        printf("transformers: not measured, no Python with it (PPO_BENCH_PYTHON names one; see "
               "build/language.log)\n");
    }
    ppo_gpt_free(gpt);
    ppo_tokens_free(&data);
    ppo_tokens_free(&prompts);
    return 0;
}
