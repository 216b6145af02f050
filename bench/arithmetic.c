/* arithmetic.c - how near the processor's peak ppo.h computes, how fast it collects, and what a second thread adds.

   By set of kernels: collecting alone, from 1,024 copies of CartPole, and the products of whole trainings as a share
   of the core's peak. Matrix products against OpenBLAS's sgemm; the arithmetic of PPO's update at minibatches of 256, as a share of the
   core's multiply-add peak, which is measured, too; two threads against one, for the update at minibatches of 256 and 2048
   and for a transformer. Whatever is compared takes turns; a ratio is the median of the pairs. */
#define _DEFAULT_SOURCE
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "workloads.h"

#include <dlfcn.h>
#include <time.h>

/* -- the peak: multiply-adds whose numbers never leave the registers -- */

enum { CHAINS = 12, ROUNDS = 1 << 20 };

#define PEAK(name, width, attribute)                                                                   \
    typedef float           name##_vector __attribute__((vector_size(4 * (width))));                   \
    attribute static double name(void) {                                                               \
        name##_vector sum[CHAINS], factor = {0}, term = {0};                                           \
        float         all = 0;                                                                         \
        for (int i = 0; i < CHAINS; i++) sum[i] = factor + (float)i;                                   \
        for (int k = 0; k < (width); k++) factor[k] = 0.999f, term[k] = 0.001f;                        \
        double began = ppo_clock();                                                                    \
        for (int r = 0; r < ROUNDS; r++)                                                               \
            _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) sum[i] = sum[i] * factor + term; \
        double seconds = ppo_clock() - began;                                                          \
        for (int i = 0; i < CHAINS; i++) all += sum[i][0];                                             \
        return all > 0 ? 2.0 * (width)*CHAINS * ROUNDS / seconds * 1e-9 : 0;                           \
    }
#if defined(__x86_64__)
PEAK(peak_avx512, 16, __attribute__((target("avx512f,fma"))))
PEAK(peak_avx2, 8, __attribute__((target("avx2,fma"))))
#endif
PEAK(peak_plain, 4, )

static double peak(void) {
#if defined(__x86_64__)
    if (!strcmp(ppo_kernels_name(), "avx512")) return peak_avx512();
    if (!strcmp(ppo_kernels_name(), "avx2")) return peak_avx2();
#endif
    return peak_plain();
}

/* -- products -- */

typedef void (*sgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                         const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);

/* OpenBLAS's sgemm on one thread, NULL if it is not there. Where the processor has AVX-512, with the kernels for
   that: some versions do not choose them by themselves. */
static sgemm_fn find_openblas(void) {
    if (!strcmp(ppo_kernels_name(), "avx512")) setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    void    *library = dlopen("libopenblas.so.0", RTLD_NOW);
    void    *symbol = library ? dlsym(library, "cblas_sgemm") : NULL;
    sgemm_fn sgemm = NULL;
    if (symbol) memcpy(&sgemm, &symbol, sizeof sgemm);
    return sgemm;
}

static double measure_product(int m, int n, int k, sgemm_fn sgemm) {
    static float a[1 << 17], b[1 << 17], c[1 << 17];
    int          times = (int)(2e8 / ((double)m * n * k)) + 1;
    for (int i = 0; i < 1 << 17; i++) a[i] = b[i] = 0.001f * (float)(i % 1000);
    double began = ppo_clock();
    for (int i = 0; i < times; i++) {
        if (sgemm) sgemm(101, 111, 111, m, n, k, 1, a, k, b, n, 0, c, n);
        else ppo__k()->gemm(m, n, k, a, k, 1, b, n, NULL, 0, c, n);
    }
    return 2e-9 * m * n * k * times / (ppo_clock() - began);
}

static void products(void) {
    static const int shapes[][3] = {{64, 64, 64}, {256, 64, 64}, {512, 128, 128}};
    sgemm_fn         sgemm = find_openblas();
    if (!sgemm) printf("OpenBLAS: not measured, there is no libopenblas.so.0 (Debian: libopenblas0)\n");
    for (int s = 0; s < 3; s++) {
        const int *shape = shapes[s];
        double     ours[REPETITIONS], theirs[REPETITIONS], ratio[REPETITIONS];
        char       name[64];
        for (int i = 0; i < REPETITIONS; i++) {
            ours[i] = measure_product(shape[0], shape[1], shape[2], NULL);
            theirs[i] = sgemm ? measure_product(shape[0], shape[1], shape[2], sgemm) : 0;
            ratio[i] = sgemm ? ours[i] / theirs[i] : 0;
        }
        snprintf(name, sizeof name, "product %d x %d x %d, ppo.h", shape[0], shape[1], shape[2]);
        report(name, ours, 0, "GFLOP/s");
        if (!sgemm) continue;
        report("    OpenBLAS", theirs, 0, "GFLOP/s");
        report("    ratio", ratio, 2, "times");
    }
}

/* -- the update -- */

/* Seconds of training CartPole with so many epochs. */
static double training(int minibatch, int epochs, int threads) {
    ppo_config c = ppo_config_default();
    c.total_steps = 16 * 4096, c.num_envs = 8, c.rollout_steps = 512;
    c.minibatch_size = minibatch, c.epochs = epochs, c.threads = threads;
    return train(cartpole_env(), c, NULL);
}

/* Seconds of ten epochs, without collecting: the difference between twenty and ten. */
static double update(int minibatch, int threads) {
    return training(minibatch, 20, threads) - training(minibatch, 10, threads);
}

/* The multiply-adds of ten epochs: forward, and twice as many backward, but none to the observations. */
static double update_gflop(void) {
    double weights[2] = {4 * 64 + 64 * 64 + 64 * 2, 4 * 64 + 64 * 64 + 64}, products = 0;
    for (int net = 0; net < 2; net++) products += 3 * weights[net] - 4 * 64;
    return 2e-9 * products * 16 * 4096 * 10;
}

static void updates(void) {
    double share[REPETITIONS], highest[REPETITIONS], gain[REPETITIONS], small_gain[REPETITIONS];
    for (int i = 0; i < REPETITIONS; i++) {
        highest[i] = peak();
        double alone = update(256, 1);
        share[i] = 100 * update_gflop() / alone / highest[i];
        small_gain[i] = alone / update(256, 2);
        gain[i] = update(2048, 1) / update(2048, 2);
    }
    report("multiply-add peak of a core", highest, 0, "GFLOP/s");
    report("update at minibatch 256: products alone", share, 0, "% of it");
    report("update at minibatch 256, 2 threads", small_gain, 2, "times");
    report("update at minibatch 2048, 2 threads", gain, 2, "times");
}

/* -- collecting and whole trainings, by set of kernels, in seconds of the processor's time -- */

static double processor_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* Steps per second of rollouts of 64 steps from 1,024 environments, the critic's values included: the best of 20. */
static double collect_from(ppo_trainer *trainer) {
    enum { STEPS = 64, ENVS = 1024 };
    double best = 0;
    for (int i = 0; i < 20; i++) {
        double began = processor_seconds();
        if (ppo__collect(&trainer->collector, STEPS)) return fail(), NAN;
        best = fmax(best, STEPS * ENVS / (processor_seconds() - began));
    }
    return best;
}

static double collecting(void) {
    ppo_env      env = cartpole_many_env();
    ppo_config   c = ppo_config_default();
    ppo_agent   *agent = NULL;
    ppo_trainer *trainer = NULL;
    double       speed = NAN;
    c.num_envs = 1024, c.rollout_steps = 64, c.total_steps = 1 << 30;
    if (ppo_agent_create(&env, &c, &agent) || ppo_trainer_create(&env, &c, agent, &trainer)) fail();
    else speed = collect_from(trainer);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    return speed;
}

/* GFLOP/s of the products of a training: forward for each sample, and as in update_gflop() for each epoch. */
static double products_of(ppo_env env, ppo_config c, int obs, int outputs) {
    const double weights = 2 * (obs * 64 + 64 * 64) + 64 * (outputs + 1);
    const double began = processor_seconds();
    if (!(train(env, c, NULL) > 0)) return NAN;
    return 2e-9 * (double)c.total_steps * (weights + c.epochs * (3 * weights - 2 * obs * 64)) /
           (processor_seconds() - began);
}

static void by_kernels(void) {
    static const char *const sets[] = {"avx512", "avx2", "neon"};
    for (int k = 0; k < 3; k++) {
        double highest[REPETITIONS], collected[REPETITIONS], cartpole[REPETITIONS], pendulum[REPETITIONS];
        if (ppo_use_kernels(sets[k])) continue;
        for (int i = 0; i < REPETITIONS; i++) {
            highest[i] = 0;
            for (int j = 0; j < 5; j++) highest[i] = fmax(highest[i], peak());
            collected[i] = 1e-6 * collecting();
            cartpole[i] = 100 * products_of(cartpole_env(), cartpole_settings(i + 1), 4, 2) / highest[i];
            pendulum[i] = 100 * products_of(pendulum_env(), pendulum_settings(i + 1), 3, 1) / highest[i];
        }
        printf("%s\n", ppo_kernels_name());
        report("  multiply-add peak of a core", highest, 0, "GFLOP/s");
        report("  collecting, 1,024 environments of CartPole", collected, 2, "M steps/s");
        report("  CartPole, minibatch 64: products", cartpole, 0, "% of it");
        report("  Pendulum: products", pendulum, 0, "% of it");
    }
    ppo_use_kernels(NULL);
}

/* -- a transformer -- */

static double transformer(int threads) {
    ppo_tokens data = {0};
    ppo_lm    *lm = NULL;
    double     speed = NAN;
    ppo_status status = transformer_create(&lm, &data);
    if (!status) status = ppo_set_threads(threads);
    if (status) fail();
    else speed = train_transformer(lm, &data);
    ppo_set_threads(1);
    ppo_lm_free(lm);
    ppo_tokens_free(&data);
    return speed;
}

static void transformers(void) {
    double gain[REPETITIONS];
    for (int i = 0; i < REPETITIONS; i++) gain[i] = 1 / transformer(1) * transformer(2);
    report("transformer, training, 2 threads", gain, 2, "times");
}

int main(void) {
    printf("%s kernels\n\n", ppo_kernels_name());
    by_kernels();
    products();
    updates();
    transformers();
    return 0;
}
