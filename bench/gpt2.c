/* gpt2.c [THREADS...] [KERNELS...] - GPT-2 with 124 million random weights: a training step of 4 x 64 tokens,
   and sampling one sequence with its weights as floats and in BF16, beside what the memory allows; for each
   number of threads (1 and 2), by set of kernels, with the peak memory of each. Beside it PyTorch with
   Hugging Face's GPT2LMHeadModel, and llm.c's train_gpt2.c, which is compiled here, where PPO_BENCH_LLMC
   is a copy of its repository. They take turns, but for llm.c, which makes its steps at once. */
#define _DEFAULT_SOURCE
#include "ppo.h"
#include "../examples/companions/ppo_hub.h"

#include "measure.h"
#include <pthread.h>
#include <sys/stat.h>

enum { VOCAB = 50257, CONTEXT = 1024, WIDTH = 768, LAYERS = 12, HEADS = 12 };
enum { BATCH = 4, LENGTH = 64, STEPS = 3 }; /* of a repetition; the first step is not counted */
enum { TURNS = 3 };

/* -- the memory: threads that add up 256 MB each, in GB/s, from four places at once with the set's vectors;
   from one place, or with shorter vectors, one core reads up to 40 % less -- */

enum { NUMBERS = 1 << 26, MAX_THREADS = 64 };

#define ADD_UP(name, width, attribute)                                                     \
    typedef float name##_vector __attribute__((vector_size(4 * (width)), aligned(4)));     \
    attribute static void *name(void *user) {                                              \
        const float *x = (const float *)user;                                              \
        name##_vector sum[4] = {{0}};                                                      \
        for (size_t i = 0; i < NUMBERS / 4; i += 4 * (width))                              \
            for (size_t place = 0; place < 4; place++)                                     \
                _Pragma("GCC unroll 4") for (size_t k = 0; k < 4; k++) sum[k] +=           \
                    *(const name##_vector *)(x + place * (NUMBERS / 4) + i + k * (width)); \
        sum[0] += sum[1] + sum[2] + sum[3];                                                \
        return sum[0][0] < 0 ? user : NULL;                                                \
    }
#if defined(__x86_64__)
ADD_UP(add_up_avx512, 16, __attribute__((target("avx512f"))))
ADD_UP(add_up_avx2, 8, __attribute__((target("avx2"))))
#endif
ADD_UP(add_up_plain, 4, )

static void *add_up(void *user) {
#if defined(__x86_64__)
    if (!strcmp(ppo_kernels_name(), "avx512") || !strcmp(ppo_kernels_name(), "amx"))
        return add_up_avx512(user);
    if (!strcmp(ppo_kernels_name(), "avx2")) return add_up_avx2(user);
#endif
    return add_up_plain(user);
}

static double bandwidth(int threads) {
    pthread_t thread[MAX_THREADS];
    double best = 0;
    const size_t count = (size_t)threads * NUMBERS;
    float *numbers = (float *)malloc(count * sizeof *numbers);
    for (size_t i = 0; i < count && numbers; i++) numbers[i] = 1;
    if (!numbers) return NAN;
    for (int i = 0; i < 5; i++) {
        double began = ppo_clock();
        for (int k = 0; k < threads; k++)
            if (pthread_create(&thread[k], NULL, add_up, numbers + (size_t)k * NUMBERS)) return NAN;
        for (int k = 0; k < threads; k++) pthread_join(thread[k], NULL);
        double speed = 4e-9 * NUMBERS * threads / (ppo_clock() - began);
        if (speed > best) best = speed;
    }
    free(numbers);
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
    ppo_tokens data = {0};
    ppo_rng rng = ppo_rng_stream(1, PPO_STREAM_USER, 0);
    double began = NAN;
    int token[LENGTH + 1];
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
    ppo_tokens prompt = {0};
    ppo_samples samples;
    ppo_sampling how = ppo_sampling_default();
    const int first = 0;
    how.max_new_tokens = LENGTH;
    ppo_status status = ppo_generator_create(lm, 1, &generator);
    if (!status) status = ppo_tokens_add(&prompt, &first, 1, 1);
    if (!status) status = ppo_generate(generator, &prompt, &how, &samples); /* not counted, as there */
    double began = ppo_clock();
    if (!status) status = ppo_generate(generator, &prompt, &how, &samples);
    double speed = LENGTH / (ppo_clock() - began);
    ppo_generator_free(generator), ppo_tokens_free(&prompt);
    return status ? fail(), NAN : speed;
}

/* The work of a process of its own. */
enum { TRAINING, FLOATS, PACKED, BANDWIDTH, WORKS };

typedef struct job {
    int what, threads;
} job;

/* Seconds of a step, tokens per second, or those of weights that are read at the memory's speed, without the
   positions. */
static int work(const void *user, double *figure) {
    const job *j = (const job *)user;
    ppo_lm_config shape = ppo_lm_config_default();
    ppo_lm *lm = NULL;
    shape.vocab = VOCAB, shape.context = CONTEXT, shape.width = WIDTH, shape.layers = LAYERS,
    shape.heads = HEADS;
    if (j->what == BANDWIDTH) {
        const double weights =
            (double)(VOCAB + 12 * LAYERS * WIDTH) * WIDTH + (double)(13 * LAYERS + 2) * WIDTH;
        *figure = 1e9 * bandwidth(j->threads) / (4 * weights);
        return !(*figure > 0);
    }
    if (ppo_lm_create(&shape, &lm) || ppo_set_threads(j->threads)) return fail();
    if (j->what != TRAINING && ppo_params_freeze(lm->params, 1)) return fail();
    if (j->what == PACKED && ppo_params_to_bf16(lm->params)) return fail();
    forget_peak();
    *figure = j->what == TRAINING ? train(lm) : sample(lm);
    return !(*figure > 0);
}

/* -- llm.c -- */

/* A file of 256 ints and what follows them. */
static int write_file(const char *path, const int *header, int ints, const void *rest, size_t bytes) {
    int all[256] = {0};
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
    ppo_rng rng = ppo_rng_stream(2, PPO_STREAM_USER, 0);
    float *weights = (float *)malloc(count * sizeof *weights);
    const char *folders[] = {"build/llmc", "build/llmc/dev", "build/llmc/dev/data",
                             "build/llmc/dev/data/tinyshakespeare"};
    int failed = !weights;
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

/* Seconds of the steps after its first, after which it is stopped: a start takes it as long as two steps. */
static int run_llmc(const kernel_set *set, int threads, figures *f) {
    outcome o;
    static int has_files;
    const char *folder = getenv("PPO_BENCH_LLMC");
    char command[1024];
    struct stat found;
    if (!folder) return 0;
    snprintf(command, sizeof command, "%s/train_gpt2.c", folder);
    if (stat(command, &found) || (!has_files && llmc_files())) return 0;
    snprintf(command, sizeof command,
             "exec 2>>build/llmc.log; test %d = 1 || ${CC:-cc} -Ofast -march=%s -fopenmp -DOMP -w "
             "'%s/train_gpt2.c' -o build/llmc/train_gpt2 -lm "
             "|| exit 1; cd build/llmc\n"
             "OMP_NUM_THREADS=%d sh -c 'echo $$; exec stdbuf -oL ./train_gpt2' | { read -r process\n"
             "while read -r line; do case $line in 'step 0: '*) ;; 'step '*)\n"
             "echo \"$line\" | sed 's/.*took \\([0-9.]*\\) ms.*/\\1/'\n"
             "case $line in 'step %d: '*) kill $process; break; esac; esac; done; }",
             has_files, set->march, folder, threads, TURNS);
    has_files = 1;
    if (!run(command, NULL, NULL, TURNS, &o)) return 0;
    for (int i = 0; i < TURNS; i++) keep(f, o.number[i] / 1000, o.mib);
    return 1;
}

/* -- the tables -- */

static int thread_counts[16], thread_count_count;

static int measure_threads(const kernel_set *set, int threads) {
    figures ours[WORKS] = {{{0}, 0, 0}}, torch[2] = {{{0}, 0, 0}}, llmc = {{0}, 0, 0};
    outcome o;
    char text[16];
    for (int i = 0; i < TURNS; i++) {
        for (int w = 0; w < WORKS; w++) {
            const job j = {w, threads};
            if (!run(NULL, work, &j, 1, &o)) return 1;
            keep(&ours[w], *o.number, w == BANDWIDTH ? 0 : o.mib);
        }
        snprintf(text, sizeof text, "%d", threads);
        if (torch[0].count == i && run_python("gpt2.py", text, 4, &o))
            for (int k = 0; k < 2; k++) keep(&torch[k], o.number[2 * k], o.number[2 * k + 1]);
    }
    run_llmc(set, threads, &llmc);
    printf("  %d thread%s\n", threads, threads > 1 ? "s" : "");
    tell("    training, 4 x 64 tokens, ppo.h", &ours[TRAINING], 3, "s");
    tell("    training, PyTorch", &torch[0], 3, "s");
    tell_ratio("    training, PyTorch's time", &torch[0], &ours[TRAINING]);
    tell("    training, llm.c", &llmc, 3, "s");
    tell_ratio("    training, llm.c's time", &llmc, &ours[TRAINING]);
    tell("    sampling 1 sequence, ppo.h", &ours[FLOATS], 1, "tokens/s");
    tell("    as many as the memory's bandwidth allows", &ours[BANDWIDTH], 1, "tokens/s");
    tell_ratio("    sampling, share of that", &ours[FLOATS], &ours[BANDWIDTH]);
    tell("    sampling, BF16", &ours[PACKED], 1, "tokens/s");
    tell_ratio("    sampling, BF16 beside floats", &ours[PACKED], &ours[FLOATS]);
    tell("    sampling, transformers", &torch[1], 1, "tokens/s");
    tell_ratio("    sampling, floats beside transformers", &ours[FLOATS], &torch[1]);
    if (!torch[0].count) not_measured("gpt2.py");
    if (!llmc.count) printf("llm.c: not measured, PPO_BENCH_LLMC names no copy of it\n");
    return 0;
}

static int measure(const kernel_set *set) {
    for (int k = 0; k < thread_count_count; k++)
        if (measure_threads(set, thread_counts[k])) return 1;
    return 0;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc && thread_count_count < 16; i++) {
        const int threads = atoi(argv[i]);
        if (set_named(argv[i])) continue;
        if (threads < 1 || threads > MAX_THREADS) return fprintf(stderr, "1 to %d threads\n", MAX_THREADS), 1;
        thread_counts[thread_count_count++] = threads;
    }
    if (!thread_count_count) thread_counts[0] = 1, thread_counts[1] = 2, thread_count_count = 2;
    printf("GPT-2 with 124M random weights, 4 x 64 tokens\n\n");
    return by_sets(argc, argv, 0, measure);
}
