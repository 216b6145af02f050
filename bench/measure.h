/* measure.h - what the programs of bench/ share: the sets of kernels by which rows are measured; the sides of
   a row, each in a process of its own, whose peak memory is known; and the lines that tell the median and
   both ends. Include ppo.h first. */
#ifndef MEASURE_H
#define MEASURE_H

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REPETITIONS = 5 };

static inline int fail(void) { return fprintf(stderr, "%s\n", ppo_last_error()), 1; }

/* Seconds of the processor that this thread took: what other processes take does not count. */
static inline double thread_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* -- sets of kernels -- */

/* Rows are measured by each of these sets that the processor has; `extra` ones where a program asks for them.
   The variables hold what is compared, and is started afterwards, to the same instruction set: PyTorch, MKL
   and oneDNN in it, OpenBLAS, BLIS, libxsmm and XLA. `march` is gcc's name for that instruction set. */
typedef struct kernel_set {
    const char *name;
    int extra;
    const char *march, *variables[8];
} kernel_set;

static const kernel_set kernel_sets[] = {
    {"amx", 0, "native", {"OPENBLAS_CORETYPE=SkylakeX", "BLIS_ARCH_TYPE=0"}},
    {"avx512", 0, "native", {"OPENBLAS_CORETYPE=SkylakeX", "BLIS_ARCH_TYPE=0", "LIBXSMM_TARGET=skx"}},
    {"avx2",
     0,
     "haswell",
     {"ATEN_CPU_CAPABILITY=avx2", "MKL_ENABLE_INSTRUCTIONS=AVX2", "ONEDNN_MAX_CPU_ISA=AVX2",
      "OPENBLAS_CORETYPE=Haswell", "BLIS_ARCH_TYPE=3", "LIBXSMM_TARGET=hsw",
      "XLA_FLAGS=--xla_cpu_max_isa=AVX2"}},
    {"neon", 0, "native", {NULL}},
    {"fma", 1, "native", {NULL}},
    {"vector16", 1, "x86-64", {"OPENBLAS_CORETYPE=Prescott", "BLIS_ARCH_TYPE=5", "LIBXSMM_TARGET=wsm"}},
    {"plain", 1, "x86-64", {"OPENBLAS_CORETYPE=Prescott", "BLIS_ARCH_TYPE=5", "LIBXSMM_TARGET=wsm"}},
};
enum { KERNEL_SETS = sizeof kernel_sets / sizeof *kernel_sets };

/* The set of this name; NULL if there is none. */
static inline const kernel_set *set_named(const char *name) {
    for (int k = 0; k < KERNEL_SETS; k++)
        if (!strcmp(name, kernel_sets[k].name)) return &kernel_sets[k];
    return NULL;
}

/* Runs measure(set) in a process for each set that is named among the arguments, or without one for all that
   this processor has. The other arguments are the program's. */
static inline int by_sets(int argc, char **argv, int extra, int (*measure)(const kernel_set *set)) {
    int named = 0, failed = 0;
    for (int i = 1; i < argc; i++) named += set_named(argv[i]) != NULL;
    for (int k = 0; k < KERNEL_SETS && !failed; k++) {
        const kernel_set *set = &kernel_sets[k];
        int wanted = !named && (extra || !set->extra), status = 1;
        for (int i = 1; i < argc; i++) wanted |= !strcmp(argv[i], set->name);
        if (!wanted || ppo_use_kernels(set->name)) continue;
        printf("%s kernels\n", set->name);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            for (int v = 0; set->variables[v]; v++) putenv((char *)set->variables[v]);
            status = measure(set);
            fflush(stdout);
            _exit(status);
        }
        failed = child < 0 || waitpid(child, &status, 0) != child || status != 0;
        printf("\n");
    }
    return failed;
}

/* -- the sides of a row -- */

/* What a side measured: the figure of each repetition, and the most memory of all. */
typedef struct figures {
    double value[REPETITIONS], mib;
    int count;
} figures;

static inline void keep(figures *f, double value, double mib) {
    if (f->count < REPETITIONS) f->value[f->count++] = value;
    f->mib = fmax(f->mib, mib);
}

/* From here on, the system's count of the most memory anew. */
static inline void forget_peak(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file) return;
    fputs("5", file);
    fclose(file);
}

/* What a process printed and took. */
typedef struct outcome {
    double number[16], mib, processor; /* figures, peak memory, seconds of the processor */
    char name[96];                     /* a line that begins with a letter */
} outcome;

/* Runs a command, or else work(user, number), in a process of its own, from which n numbers are wanted; 0 if
   it failed. The peak memory counts what this process had, so that should not be much. */
static inline int run(const char *command, int (*work)(const void *user, double *number), const void *user,
                      int n, outcome *o) {
    int ends[2], read = 0, status = 1;
    char line[256], *rest, *next;
    struct rusage used;
    memset(o, 0, sizeof *o);
    fflush(stdout);
    if (pipe(ends)) return 0;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]), close(ends[1]);
        if (command) execl("/bin/sh", "sh", "-c", command, (char *)NULL), _exit(127);
        status = work(user, o->number);
        for (int i = 0; i < n && !status; i++) printf("%.9g\n", o->number[i]);
        fflush(stdout);
        _exit(status);
    }
    close(ends[1]);
    FILE *in = fdopen(ends[0], "r");
    while (in && fgets(line, sizeof line, in)) {
        if (isalpha((unsigned char)*line))
            snprintf(o->name, sizeof o->name, "%.*s", (int)strcspn(line, "\n"), line);
        else
            for (rest = line; read < 16; rest = next) {
                double number = strtod(rest, &next);
                if (next == rest) break;
                o->number[read++] = number;
            }
    }
    if (in) fclose(in);
    int fine = child > 0 && wait4(child, &status, 0, &used) == child && status == 0 && read >= n;
    o->processor = fine ? (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                              1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec)
                        : 0;
    o->mib = fine ? (double)used.ru_maxrss / 1024 : 0;
    return fine;
}

/* Runs bench/SCRIPT with arguments by the Python that has the peers. What it complains about goes to
   build/SCRIPT.log. */
static inline int run_python(const char *script, const char *arguments, int n, outcome *o) {
    const char *python = getenv("PPO_BENCH_PYTHON");
    char command[1024];
    snprintf(command, sizeof command, "'%s' bench/%s %s 2>build/%s.log", python ? python : "python3", script,
             arguments, script);
    return run(command, NULL, NULL, n, o);
}

static inline void not_measured(const char *script) {
    printf("%s: not measured, PPO_BENCH_PYTHON names no Python that can run it (build/%s.log)\n", script,
           script);
}

/* -- lines -- */

static inline int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Nothing where nothing was measured. The peak memory is told where it is known. */
static inline void tell(const char *name, const figures *f, int digits, const char *unit) {
    figures sorted = *f;
    if (!f->count) return;
    qsort(sorted.value, (size_t)f->count, sizeof *sorted.value, ascending);
    printf("%-48s %9.*f %-9s median of %d, from %.*f to %.*f", name, digits, sorted.value[f->count / 2], unit,
           f->count, digits, sorted.value[0], digits, sorted.value[f->count - 1]);
    if (f->mib > 0) printf("; peak %.1f MiB", f->mib);
    printf("\n");
    fflush(stdout);
}

/* The ratio of what took turns, pair by pair. */
static inline void tell_ratio(const char *name, const figures *above, const figures *below) {
    figures ratio = {{0}, 0, 0};
    for (int i = 0; i < above->count && i < below->count; i++)
        keep(&ratio, above->value[i] / below->value[i], 0);
    tell(name, &ratio, 2, "times");
}

static inline void report(const char *name, const double value[REPETITIONS], int digits, const char *unit) {
    figures f = {{0}, 0, 0};
    for (int i = 0; i < REPETITIONS; i++) keep(&f, value[i], 0);
    tell(name, &f, digits, unit);
}

#endif
