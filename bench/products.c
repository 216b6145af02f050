/* products.c [KERNELS...] - matrix products, c = a b, on one thread, of each set of kernels (or of these), beside OpenBLAS,
   BLIS and libxsmm where they are installed, held to the same instruction set.

   The shapes are those of the forward and backward pass of policies and transformers: rows x columns x inner dimension, t: a
   is stored transposed, as for the gradient of a weight. What is compared takes turns; the best of many short runs counts,
   because another process can only slow a run down. */
#define _GNU_SOURCE /* RTLD_DEEPBIND: each library calls its own functions */
#define PPO_VECTOR16
#define PPO_IMPLEMENTATION
#define PPO_NO_CONTROL
#define PPO_NO_LANGUAGE
#define PPO_NO_REPORTS
#include "ppo.h"
#include "examples/companions/ppo_amx.h"

#include "measure.h"
#include <dlfcn.h>
#ifdef WITH_LIBXSMM
#include <libxsmm.h>
#endif

enum { LARGEST = 1 << 20, ROUNDS = 25 };
static float a[LARGEST] __attribute__((aligned(64))), b[LARGEST] __attribute__((aligned(64)));
static float c[LARGEST] __attribute__((aligned(64)));

typedef void (*sgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                         const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef struct product {
    int rows, cols, inner, transposed;
} product;

static const product shapes[] = {
    {64, 64, 64, 0},     {256, 64, 64, 0},    {512, 128, 128, 0},  {2048, 128, 128, 0}, {2048, 512, 128, 0},
    {2048, 128, 512, 0}, {16, 384, 128, 0},   {16, 512, 128, 0},   {16, 128, 512, 0},   {1, 384, 128, 0},
    {1, 64, 64, 0},      {2, 64, 64, 0},      {4, 64, 64, 0},      {8, 64, 64, 0},      {64, 64, 4, 0},
    {64, 64, 8, 0},      {2048, 64, 4, 0},    {16, 64, 4, 0},      {64, 1, 64, 0},      {64, 2, 64, 0},
    {256, 4, 64, 0},     {2048, 1, 64, 0},    {2048, 2, 128, 0},   {16, 2, 64, 0},      {1, 2, 64, 0},
    {64, 64, 64, 1},     {64, 64, 256, 1},    {4, 64, 64, 1},      {64, 2, 64, 1},      {64, 1, 256, 1},
    {128, 128, 512, 1},  {128, 512, 2048, 1}, {512, 128, 2048, 1},
};

static sgemm_fn openblas, blis;
static const char *names[] = {"ppo.h", "OpenBLAS", "BLIS", "libxsmm"};
enum { OURS, OPENBLAS, BLIS, LIBXSMM, RIVALS };

static sgemm_fn find_sgemm(const char *library) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    void *symbol = handle ? dlsym(handle, "cblas_sgemm") : NULL;
    sgemm_fn sgemm = NULL;
    if (symbol) memcpy(&sgemm, &symbol, sizeof sgemm);
    else printf("%s: not measured, it is not installed\n", library);
    return sgemm;
}

/* GFLOP/s of a run of some 0.2 ms; 0 where the rival is missing */
static double product_speed(const product *p, int rival) {
    int m = p->rows, n = p->cols, k = p->inner, lda = p->transposed ? m : k;
    int times = (int)(1e7 / ((double)m * n * k)) + 1;
#ifdef WITH_LIBXSMM
    float one = 1, zero = 0;
    int flags = p->transposed ? LIBXSMM_GEMM_FLAG_TRANS_B : 0; /* it is column-major */
    libxsmm_smmfunction xsmm =
        rival == LIBXSMM ? libxsmm_smmdispatch(n, m, k, &n, &lda, &n, &one, &zero, &flags, NULL) : NULL;
#define AVAILABLE xsmm
#else
#define AVAILABLE 0
#endif
    sgemm_fn sgemm = rival == OPENBLAS ? openblas : rival == BLIS ? blis : NULL;
    if (rival == LIBXSMM ? !AVAILABLE : rival != OURS && !sgemm) return 0;
    double began = 0;
    for (int i = -1; i < times; i++) { /* once to warm up */
        if (i == 0) began = thread_clock();
        if (rival == OURS)
            ppo__layer_gemm(m, n, k, a, p->transposed ? 1 : k, p->transposed ? m : 1, b, n, NULL, 0, c, n);
        else if (sgemm) sgemm(101, p->transposed ? 112 : 111, 111, m, n, k, 1, a, lda, b, n, 0, c, n);
#ifdef WITH_LIBXSMM
        else xsmm(b, a, c);
#endif
    }
    return 2e-9 * m * n * k * times / (thread_clock() - began);
}

static int measure_set(const kernel_set *set) {
    double worst = INFINITY;
    (void)set;
#ifdef WITH_LIBXSMM
    libxsmm_init();
#endif
    openblas = find_sgemm("libopenblas.so.0");
    blis = find_sgemm("libblis.so.4");
    for (int i = 0; i < LARGEST; i++) a[i] = b[i] = 0.001f * (float)(i % 1000);
    printf("%-22s", "GFLOP/s");
    for (int r = 0; r < RIVALS; r++) printf("%9s", names[r]);
    printf("%9s\n", "ratio");
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        double best[RIVALS] = {0}, other = 0;
        char name[32];
        for (int i = 0; i < ROUNDS; i++)
            for (int r = 0; r < RIVALS; r++) best[r] = fmax(best[r], product_speed(&shapes[s], r));
        snprintf(name, sizeof name, "%d x %d x %d%s", shapes[s].rows, shapes[s].cols, shapes[s].inner,
                 shapes[s].transposed ? " t" : "");
        printf("  %-20s", name);
        for (int r = 0; r < RIVALS; r++) printf("%9.1f", best[r]);
        for (int r = 1; r < RIVALS; r++) other = fmax(other, best[r]);
        printf("%9.2f\n", best[OURS] / other);
        fflush(stdout);
        worst = fmin(worst, best[OURS] / other);
    }
    printf("  least ratio to the best of the others %.2f\n", worst);
    return 0;
}

int main(int argc, char **argv) {
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    setenv("BLIS_NUM_THREADS", "1", 1);
    return by_sets(argc, argv, 1, measure_set);
}
