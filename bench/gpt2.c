/* gpt2.c - GPT-2 with 124 million random weights: a training step of 4 x 64 tokens, and sampling one sequence with its
   weights as floats and in BF16, beside what the memory allows; for each number of threads (1 and 2, or the arguments).
   Beside it PyTorch with Hugging Face's GPT2LMHeadModel, where PPO_BENCH_PYTHON (or python3) has it, and llm.c's
   train_gpt2, where PPO_BENCH_LLMC is the folder in which `make train_gpt2` made it. They take turns. */
#define _POSIX_C_SOURCE 200809L
#include "ppo.h"

#include "measure.h"
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

enum { VOCAB = 50257, CONTEXT = 1024, WIDTH = 768, LAYERS = 12, HEADS = 12 };
enum { BATCH = 4, LENGTH = 64, STEPS = 4 }; /* of a repetition; the first step is not counted */

enum { TRAINING, FLOATS, PACKED, BANDWIDTH, TORCH_TRAINING, TORCH_SAMPLING, LLMC, FIGURES };

/* -- the memory: threads that add up 256 MB each, in GB/s -- */

enum { NUMBERS = 1 << 26, MAX_THREADS = 64 };

static void *add_up(void *user) {
    const float *x = (const float *)user;
    float        sum[64] = {0};
    for (size_t i = 0; i < NUMBERS; i += 64)
        for (int k = 0; k < 64; k++) sum[k] += x[i + (size_t)k];
    for (int k = 1; k < 64; k++) sum[0] += sum[k];
    return sum[0] < 0 ? user : NULL;
}

static double bandwidth(int threads, float *numbers) {
    pthread_t thread[MAX_THREADS];
    double    best = 0;
    for (int i = 0; i < 5; i++) {
        double began = ppo_clock();
        for (int k = 0; k < threads; k++)
            if (pthread_create(&thread[k], NULL, add_up, numbers + (size_t)k * NUMBERS)) return NAN;
        for (int k = 0; k < threads; k++) pthread_join(thread[k], NULL);
        double speed = 4e-9 * NUMBERS * threads / (ppo_clock() - began);
        if (speed > best) best = speed;
    }
    return best;
}

/* -- ppo.h -- */

static int keep_time(const ppo_fit_progress *p, void *user) {
    if (p->step == 1) *(double *)user = ppo_clock();
    return 0;
}

/* Seconds of a step. */
static double train(ppo_lm *lm) {
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_tokens     data = {0};
    ppo_rng        rng = ppo_rng_stream(1, PPO_STREAM_USER, 0);
    double         began = NAN;
    int            token[LENGTH + 1];
    fit.batch_size = BATCH, fit.callback = keep_time, fit.callback_user = &began;
    for (int s = 0; s < BATCH * STEPS; s++) {
        for (int i = 0; i <= LENGTH; i++) token[i] = ppo_rng_below(&rng, VOCAB);
        if (ppo_tokens_add(&data, token, LENGTH + 1, 0)) return fail(), NAN;
    }
    if (ppo_fit_sft(lm, &data, &fit)) return fail(), NAN;
    double seconds = (ppo_clock() - began) / (STEPS - 1);
    return ppo_tokens_free(&data), seconds;
}

/* Tokens per second. */
static double sample(const ppo_lm *lm) {
    ppo_generator *generator = NULL;
    ppo_tokens     prompt = {0};
    ppo_samples    samples;
    ppo_sampling   how = ppo_sampling_default();
    const int      first = 0;
    how.max_new = LENGTH;
    ppo_status status = ppo_generator_create(lm, 1, &generator);
    if (!status) status = ppo_tokens_add(&prompt, &first, 1, 1);
    if (!status) status = ppo_generate(generator, &prompt, &how, &samples); /* not counted, as there */
    double began = ppo_clock();
    if (!status) status = ppo_generate(generator, &prompt, &how, &samples);
    double speed = LENGTH / (ppo_clock() - began);
    ppo_generator_free(generator), ppo_tokens_free(&prompt);
    return status ? fail(), NAN : speed;
}

/* -- its peers -- */

/* Reads up to n numbers that a command prints; returns how many. */
static int numbers_of(const char *command, double *number, int n) {
    int   read = 0;
    FILE *pipe = popen(command, "r");
    while (pipe && read < n && fscanf(pipe, "%lf", &number[read]) == 1) read++;
    if (pipe) pclose(pipe);
    return read;
}

static void measure_torch(int threads, double figure[FIGURES]) {
    const char *python = getenv("PPO_BENCH_PYTHON");
    char        command[1024];
    double      number[2];
    snprintf(command, sizeof command, "'%s' bench/gpt2.py %d 2>build/gpt2.log", python ? python : "python3",
             threads);
    if (numbers_of(command, number, 2) != 2) return;
    figure[TORCH_TRAINING] = number[0], figure[TORCH_SAMPLING] = number[1];
}

/* A file of 256 ints and what follows them. */
static int write_file(const char *path, const int *header, int ints, const void *rest, size_t bytes) {
    int   all[256] = {0};
    FILE *file = fopen(path, "wb");
    memcpy(all, header, (size_t)ints * sizeof *header);
    if (!file || fwrite(all, sizeof all, 1, file) != 1 || fwrite(rest, 1, bytes, file) != bytes ||
        fclose(file))
        return perror(path), 1;
    return 0;
}

/* What train_gpt2 reads: a model and texts of random numbers. */
static int llmc_files(void) {
    enum { PADDED = 50304, TOKENS = 1 << 15 };
    const size_t count = (size_t)PADDED * WIDTH + (size_t)CONTEXT * WIDTH + 2 * WIDTH +
                         (size_t)LAYERS * (12 * WIDTH * WIDTH + 13 * WIDTH);
    const int model[] = {20240326, 3, CONTEXT, VOCAB, LAYERS, HEADS, WIDTH, PADDED},
              text[] = {20240520, 1, TOKENS};
    static uint16_t token[TOKENS];
    ppo_rng         rng = ppo_rng_stream(2, PPO_STREAM_USER, 0);
    float          *weights = (float *)malloc(count * sizeof *weights);
    const char     *folders[] = {"build/llmc", "build/llmc/dev", "build/llmc/dev/data",
                                 "build/llmc/dev/data/tinyshakespeare"};
    int             failed = !weights;
    for (size_t i = 0; i < count && !failed; i++) weights[i] = 0.02f * ppo_rng_normal(&rng);
    for (int i = 0; i < TOKENS; i++) token[i] = (uint16_t)ppo_rng_below(&rng, VOCAB);
    for (int k = 0; k < 4; k++) mkdir(folders[k], 0777);
    failed = failed || write_file("build/llmc/gpt2_124M.bin", model, 8, weights, count * sizeof *weights) ||
             write_file("build/llmc/dev/data/tinyshakespeare/tiny_shakespeare_train.bin", text, 3, token,
                        sizeof token) ||
             write_file("build/llmc/dev/data/tinyshakespeare/tiny_shakespeare_val.bin", text, 3, token,
                        sizeof token);
    return free(weights), failed;
}

static void measure_llmc(int threads, double figure[FIGURES]) {
    const char *folder = getenv("PPO_BENCH_LLMC");
    char        command[1024];
    double      number[3];
    static int  has_files;
    if (!folder || (!has_files && llmc_files())) return;
    has_files = 1;
    snprintf(command, sizeof command,
             "cd build/llmc && OMP_NUM_THREADS=%d stdbuf -oL '%s'/train_gpt2 2>llmc.log | grep -m3 took | "
             "sed 's/.*took \\([0-9.]*\\) ms.*/\\1/'",
             threads, folder);
    if (numbers_of(command, number, 3) == 3) figure[LLMC] = 1e-3 * (number[1] + number[2]) / 2;
}

/* -- the tables -- */

static void compare(const char *name, double figures[][FIGURES], int n, int over, int under) {
    double ratio[REPETITIONS];
    for (int i = 0; i < n; i++) ratio[i] = figures[i][over] / figures[i][under];
    if (isfinite(ratio[0])) report(name, ratio, 2, "times");
}

static void tell(const char *name, double figures[][FIGURES], int which, int digits, const char *unit) {
    double value[REPETITIONS];
    for (int i = 0; i < REPETITIONS; i++) value[i] = figures[i][which];
    if (!isnan(value[0])) report(name, value, digits, unit);
}

int main(int argc, char **argv) {
    static const char *const usual[] = {"1", "2"};
    ppo_lm_config            shape = ppo_lm_config_default();
    ppo_lm                  *lm = NULL, *packed = NULL;
    int                      count = argc > 1 ? argc - 1 : 2, most = 1;
    shape.vocab = VOCAB, shape.context = CONTEXT, shape.width = WIDTH, shape.layers = LAYERS,
    shape.heads = HEADS;
    if (ppo_lm_create(&shape, &lm) || ppo_lm_copy(lm, 0, &packed) || ppo_params_pack(packed->params))
        return fail();
    for (int k = 0; k < count; k++) {
        int threads = atoi(argc > 1 ? argv[1 + k] : usual[k]);
        if (threads < 1 || threads > MAX_THREADS) return fprintf(stderr, "1 to %d threads\n", MAX_THREADS), 1;
        if (threads > most) most = threads;
    }
    float *numbers = (float *)malloc((size_t)most * NUMBERS * sizeof *numbers);
    if (!numbers) return fprintf(stderr, "out of memory\n"), 1;
    for (size_t i = 0; i < (size_t)most * NUMBERS; i++) numbers[i] = 1;
    printf("GPT-2 with 124M random weights (%s kernels)\n", ppo_kernels_name());
    for (int k = 0; k < count; k++) {
        const int threads = atoi(argc > 1 ? argv[1 + k] : usual[k]);
        double    figures[REPETITIONS][FIGURES];
        for (int i = 0; i < REPETITIONS; i++) {
            for (int f = 0; f < FIGURES; f++) figures[i][f] = NAN;
            if (ppo_set_threads(threads)) return fail();
            figures[i][TRAINING] = train(lm);
            figures[i][FLOATS] = sample(lm);
            figures[i][PACKED] = sample(packed);
            if (isnan(figures[i][TRAINING] + figures[i][FLOATS] + figures[i][PACKED])) return 1;
            if (ppo_set_threads(1)) return fail();
            /* tokens per second of weights that are read at this speed, without the positions */
            figures[i][BANDWIDTH] =
                1e9 * bandwidth(threads, numbers) / (4.0 * (double)(lm->params->count - CONTEXT * WIDTH));
            measure_torch(threads, figures[i]);
            measure_llmc(threads, figures[i]);
        }
        printf("\n%d thread%s\n", threads, threads > 1 ? "s" : "");
        tell("training, 4 x 64 tokens, ppo.h", figures, TRAINING, 3, "s");
        tell("training, PyTorch", figures, TORCH_TRAINING, 3, "s");
        compare("training, PyTorch's time", figures, REPETITIONS, TORCH_TRAINING, TRAINING);
        tell("training, llm.c", figures, LLMC, 3, "s");
        compare("training, llm.c's time", figures, REPETITIONS, LLMC, TRAINING);
        tell("sampling 1 sequence, ppo.h", figures, FLOATS, 1, "tokens/s");
        tell("as many as the memory's bandwidth allows", figures, BANDWIDTH, 1, "tokens/s");
        compare("sampling, share of that", figures, REPETITIONS, FLOATS, BANDWIDTH);
        tell("sampling, BF16", figures, PACKED, 1, "tokens/s");
        compare("sampling, BF16 beside floats", figures, REPETITIONS, PACKED, FLOATS);
        tell("sampling, transformers", figures, TORCH_SAMPLING, 1, "tokens/s");
        compare("sampling, floats beside transformers", figures, REPETITIONS, FLOATS, TORCH_SAMPLING);
    }
    free(numbers);
    ppo_lm_free(lm), ppo_lm_free(packed);
    return 0;
}
