/* profile.c [KERNELS...] - where the time of a training goes, by set of kernels: what its matrix products are
   of the core's multiply-add peak, over the whole time and over that of the products alone; per cent by
   section of ppo.h; and the ten hottest functions.

   A timer interrupts the training a thousand times a second, and the program counter is kept. Afterwards
   addr2line (binutils) names the lines. A line counts for the section of ppo.h that it stands in, wherever it
   was inlined, and for the outermost function of that section around it: for a kernel, not for a part of
   one. */
#define _GNU_SOURCE /* the registers of an interrupted program, dladdr() */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "workloads.h"

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))

#include <dlfcn.h>
#include <signal.h>
#include <ucontext.h>

/* -- the peak: multiply-adds whose numbers never leave the registers -- */

enum { CHAINS = 12, ROUNDS = 1 << 20 };

#define PEAK(name, width, attribute)                                                                   \
    typedef float name##_vector __attribute__((vector_size(4 * (width))));                             \
    attribute static double name(void) {                                                               \
        name##_vector sum[CHAINS], factor = {0}, term = {0};                                           \
        float all = 0;                                                                                 \
        for (int i = 0; i < CHAINS; i++) sum[i] = factor + (float)i;                                   \
        for (int k = 0; k < (width); k++) factor[k] = 0.999f, term[k] = 0.001f;                        \
        double began = thread_clock();                                                                 \
        for (int r = 0; r < ROUNDS; r++)                                                               \
            _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) sum[i] = sum[i] * factor + term; \
        double seconds = thread_clock() - began;                                                       \
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
    if (!strcmp(ppo_kernels_name(), "avx512") || !strcmp(ppo_kernels_name(), "amx")) return peak_avx512();
    if (!strcmp(ppo_kernels_name(), "avx2")) return peak_avx2();
#endif
    return peak_plain();
}

enum { WORKLOADS = 3, SAMPLES = 8192, FUNCTIONS = 512, LINES = 1 << 15 };

static uintptr_t sampled[WORKLOADS][SAMPLES];
static volatile sig_atomic_t taken[WORKLOADS], workload;

static void take_sample(int signal_number, siginfo_t *info, void *context) {
    const mcontext_t *machine = &((ucontext_t *)context)->uc_mcontext;
    (void)signal_number, (void)info;
    if (taken[workload] == SAMPLES) return;
#ifdef __x86_64__
    sampled[workload][taken[workload]++] = (uintptr_t)machine->gregs[REG_RIP];
#else
    sampled[workload][taken[workload]++] = (uintptr_t)machine->pc;
#endif
}

static double gflop[WORKLOADS],
    seconds[WORKLOADS]; /* of the products of what was run, and the processor's for all of it */

/* The products' multiply-adds of a training with two networks of two hidden layers of 64: forward for each
   sample; in each epoch forward, and twice as many backward, but none to the observations. */
static double products_of(ppo_config c, int obs, int outputs) {
    const double weights = 2 * (obs * 64 + 64 * 64) + 64 * (outputs + 1);
    return 2e-9 * (double)c.total_steps * (weights + c.epochs * (3 * weights - 2 * obs * 64));
}

/* Those of the transformer's training: the layers' weights and the table of tokens, and attention, whose half
   is not masked. */
static double products_of_transformer(void) {
    const double weights = 4.0 * 12 * 128 * 128 + 128.0 * VOCAB, attention = 4.0 * 2 * 128 * (CONTEXT / 2);
    return 2e-9 * 3 * (weights + attention) * BATCHES * BATCH * CONTEXT;
}

static int run_workload(void) {
    static ppo_lm *lm;
    static ppo_tokens data;
    if (workload == 0) return train(cartpole_env(), cartpole_settings(1), NULL) > 0;
    if (workload == 1) return train(pendulum_env(), pendulum_settings(1), NULL) > 0;
    if (!lm && transformer_create(&lm, &data)) return fail(), 0;
    return train_transformer(lm, &data) > 0;
}

/* Once without samples, for what is prepared once; then for three seconds. The timer goes by the wall clock,
   as that of the processor's time may tick only 100 times a second; while others run there is at most one
   sample. */
static int run_sampled(void) {
    const struct itimerval often = {{0, 997}, {0, 997}}, never = {{0, 0}, {0, 0}};
    int fine = run_workload(), runs = 0;
    double began = ppo_clock(), processor = thread_clock();
    setitimer(ITIMER_REAL, &often, NULL);
    for (; fine && ppo_clock() - began < 3; runs++) fine = run_workload();
    setitimer(ITIMER_REAL, &never, NULL);
    seconds[workload] = thread_clock() - processor;
    gflop[workload] = runs * (workload == 0   ? products_of(cartpole_settings(1), 4, 2)
                              : workload == 1 ? products_of(pendulum_settings(1), 3, 1)
                                              : products_of_transformer());
    return fine;
}

/* -- what a sample counts for -- */

typedef struct place {
    char name[64];
    int count[WORKLOADS];
} place;

enum { ENVIRONMENT = 24, LIBM, C_LIBRARY, SECTIONS }; /* behind the 23 of ppo.h; 0 is all else */

static place functions[FUNCTIONS], sections[SECTIONS] = {[0] = {"other", {0}},
                                                         [ENVIRONMENT] = {"environment", {0}},
                                                         [LIBM] = {"libm", {0}},
                                                         [C_LIBRARY] = {"C library", {0}}};
static int section_at[LINES]; /* by line of ppo.h */

/* Sections begin with ` 3 Kernels` behind a line of dashes, with @@ before the number in the
   implementation. */
static int read_sections(void) {
    FILE *f = fopen("ppo.h", "r");
    char line[512], name[48];
    int dashes = 0, number, section = 0;
    for (int i = 1; f && i < LINES && fgets(line, sizeof line, f); i++) {
        if (dashes && sscanf(line + strspn(line, " @"), "%d %47[^.:,\n]", &number, name) == 2 &&
            number < ENVIRONMENT)
            snprintf(sections[section = number].name, sizeof sections->name, "%2d %s", number, name);
        dashes = !strncmp(line, "/* -----", 8);
        section_at[i] = section;
    }
    return f && fclose(f) == 0;
}

/* Of `file:line`; 0 for the headers of the compiler and the system. */
static int section_of(const char *location) {
    const char *in_header = strstr(location, "/ppo.h:");
    int line = in_header ? atoi(in_header + 7) : 0;
    if (strstr(location, "/examples/envs/")) return ENVIRONMENT;
    return line > 0 && line < LINES ? section_at[line] : 0;
}

static void count_function(const char *name) {
    int k = 0;
    for (int set = 0; set < KERNEL_SETS; set++) {
        char prefix[32];
        size_t length = (size_t)snprintf(prefix, sizeof prefix, "ppo__%s_", kernel_sets[set].name);
        if (!strncmp(name, prefix, length)) name += length;
    }
    while (k < FUNCTIONS - 1 && *functions[k].name && strcmp(functions[k].name, name) != 0) k++;
    snprintf(functions[k].name, sizeof functions->name, "%s", name);
    functions[k].count[workload]++;
}

/* Reads the functions at an address, inlined ones first, and the next address, which stands behind them. */
static void count_sample(FILE *names, uintptr_t address) {
    char function[256], location[4096], hot[256] = "";
    int section = 0;
    Dl_info library;
    while (fgets(function, sizeof function, names) && strncmp(function, "0x", 2) != 0 &&
           fgets(location, sizeof location, names)) {
        int here = section_of(location);
        if (!section) section = here;
        if (here == section) sscanf(function, "%255s", hot);
    }
    if (!section && dladdr((void *)address, &library) && strstr(library.dli_fname, ".so")) {
        section = strstr(library.dli_fname, "/libm.") ? LIBM : C_LIBRARY; /* of them there are no lines */
        strcpy(hot, sections[section].name);
    }
    sections[section].count[workload]++;
    count_function(hot);
}

static int count_samples(const char *program) {
    char command[512], line[64];
    FILE *addresses = fopen("build/profile.addresses", "w");
    for (int w = 0; addresses && w < WORKLOADS; w++)
        for (int i = 0; i < taken[w]; i++) fprintf(addresses, "%p\n", (void *)sampled[w][i]);
    if (!addresses || fclose(addresses)) return 0;
    snprintf(command, sizeof command, "addr2line -afie '%s' <build/profile.addresses", program);
    FILE *names = popen(command, "r");
    int fine = names && fgets(line, sizeof line, names);
    for (workload = 0; fine && workload < WORKLOADS; workload++)
        for (int i = 0; i < taken[workload]; i++) count_sample(names, sampled[workload][i]);
    return names && pclose(names) == 0 && fine;
}

static double percent(const place *p, int w) { return 100.0 * p->count[w] / taken[w]; }

static int hottest_first(const void *a, const void *b) {
    double more = 0;
    for (int w = 0; w < WORKLOADS; w++) more += percent((const place *)b, w) - percent((const place *)a, w);
    return (more > 0) - (more < 0);
}

static void print_places(const char *title, const place *places, int n) {
    printf("\n%-44s %11s %11s %11s\n", title, "CartPole", "Pendulum", "transformer");
    for (const place *p = places; p < places + n; p++) {
        if (percent(p, 0) < 0.5 && percent(p, 1) < 0.5 && percent(p, 2) < 0.5) continue;
        printf("%-44s %9.1f %% %9.1f %% %9.1f %%\n", p->name, percent(p, 0), percent(p, 1), percent(p, 2));
    }
}

/* Whether a function of the kernels, by its name without the set, multiplies matrices; copying for that
   counts, transposing does not. */
static int is_product(const char *name) {
    static const char *const begins[] = {"gemm",     "strip_",  "tile",  "row_times", "few",
                                         "add_rows", "narrow_", "panel", "multiply",  "pack"};
    for (int k = 0; k < 10; k++)
        if (!strncmp(name, begins[k], strlen(begins[k]))) return 1;
    return 0;
}

/* What the products reach of the peak, over all and in products alone. */
static void print_shares(double highest) {
    double all[WORKLOADS], products[WORKLOADS];
    for (int w = 0; w < WORKLOADS; w++) {
        double in_products = 0;
        for (int k = 0; k < FUNCTIONS; k++)
            if (is_product(functions[k].name)) in_products += functions[k].count[w];
        all[w] = 100 * gflop[w] / seconds[w] / highest;
        products[w] = all[w] * taken[w] / in_products;
    }
    printf("\n%-44s %11s %11s %11s\n", "matrix products", "CartPole", "Pendulum", "transformer");
    printf("%-44s %9.1f %% %9.1f %% %9.1f %%\n", "of the peak, over all", all[0], all[1], all[2]);
    printf("%-44s %9.1f %% %9.1f %% %9.1f %%\n", "of the peak, in products alone", products[0], products[1],
           products[2]);
}

static const char *program;

static int measure(const kernel_set *set) {
    struct sigaction action;
    double highest = 0;
    (void)set;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = take_sample, action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    for (workload = 0; workload < WORKLOADS; workload++) {
        for (int i = 0; i < 10; i++) highest = fmax(highest, peak());
        if (!run_sampled()) return 1;
    }
    if (!read_sections() || !count_samples(program))
        return fprintf(stderr, "profile: ppo.h, or what addr2line says, cannot be read\n"), 1;
    printf("multiply-add peak of a core: %.0f GFLOP/s; %d, %d and %d samples\n", highest, taken[0], taken[1],
           taken[2]);
    print_shares(highest);
    qsort(functions, FUNCTIONS, sizeof *functions, hottest_first);
    print_places("section of ppo.h", sections, SECTIONS);
    print_places("hottest functions", functions, 10);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 1 || system("command -v addr2line >/dev/null") != 0)
        return printf("profile: not measured, there is no addr2line (Debian: binutils)\n"), 0;
    program = argv[0];
    printf("where the time of training goes, per cent, on one thread\n\n");
    return by_sets(argc, argv, 0, measure);
}

#else

int main(void) { return printf("profile: not measured, only on Linux with x86-64 or aarch64\n"), 0; }

#endif
