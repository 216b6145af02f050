/* profile.c - where the time of a training goes: per cent by section of ppo.h, and the ten hottest functions.

   A timer interrupts the training a thousand times a second, and the program counter is kept. Afterwards
   addr2line (binutils) names the lines. A line counts for the section of ppo.h that it stands in, wherever it was
   inlined, and for the outermost function of that section around it: for a kernel, not for a part of one. */
#define _GNU_SOURCE /* the registers of an interrupted program, dladdr() */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "workloads.h"

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))

#include <dlfcn.h>
#include <signal.h>
#include <ucontext.h>

enum { WORKLOADS = 3, SAMPLES = 8192, FUNCTIONS = 512, LINES = 1 << 15 };

static uintptr_t             sampled[WORKLOADS][SAMPLES];
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

static int run_workload(void) {
    static ppo_lm    *lm;
    static ppo_tokens data;
    if (workload == 0) return train(cartpole_env(), cartpole_settings(1), NULL) > 0;
    if (workload == 1) return train(pendulum_env(), pendulum_settings(1), NULL) > 0;
    if (!lm && transformer_create(&lm, &data)) return fail(), 0;
    return train_transformer(lm, &data) > 0;
}

/* Once without samples, for what is prepared once; then for three seconds. The timer goes by the wall clock, as
   that of the processor's time may tick only 100 times a second; while others run there is at most one sample. */
static int run_sampled(void) {
    const struct itimerval often = {{0, 997}, {0, 997}}, never = {{0, 0}, {0, 0}};
    int                    fine = run_workload();
    double                 began = ppo_clock();
    setitimer(ITIMER_REAL, &often, NULL);
    while (fine && ppo_clock() - began < 3) fine = run_workload();
    setitimer(ITIMER_REAL, &never, NULL);
    return fine;
}

/* -- what a sample counts for -- */

typedef struct place {
    char name[64];
    int  count[WORKLOADS];
} place;

enum { ENVIRONMENT = 24, LIBM, C_LIBRARY, SECTIONS }; /* behind the 23 of ppo.h; 0 is all else */

static place functions[FUNCTIONS], sections[SECTIONS] = {[0] = {"other", {0}},
                                                         [ENVIRONMENT] = {"environment", {0}},
                                                         [LIBM] = {"libm", {0}},
                                                         [C_LIBRARY] = {"C library", {0}}};
static int   section_at[LINES]; /* by line of ppo.h */

/* Sections begin with `   3 Kernels` behind a line of dashes, with @@ before the number in the implementation. */
static int read_sections(void) {
    FILE *f = fopen("ppo.h", "r");
    char  line[512], name[48];
    int   dashes = 0, number, section = 0;
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
    int         line = in_header ? atoi(in_header + 7) : 0;
    if (strstr(location, "/examples/envs/")) return ENVIRONMENT;
    return line > 0 && line < LINES ? section_at[line] : 0;
}

static void count_function(const char *name) {
    char   prefix[32];
    int    k = 0;
    size_t length = (size_t)snprintf(prefix, sizeof prefix, "ppo__%s_", ppo_kernels_name());
    if (!strncmp(name, prefix, length)) name += length;
    while (k < FUNCTIONS - 1 && *functions[k].name && strcmp(functions[k].name, name) != 0) k++;
    snprintf(functions[k].name, sizeof functions->name, "%s", name);
    functions[k].count[workload]++;
}

/* Reads the functions at an address, inlined ones first, and the next address, which stands behind them. */
static void count_sample(FILE *names, uintptr_t address) {
    char    function[256], location[4096], hot[256] = "";
    int     section = 0;
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
    char  command[512], line[64];
    FILE *addresses = fopen("build/profile.addresses", "w");
    for (int w = 0; addresses && w < WORKLOADS; w++)
        for (int i = 0; i < taken[w]; i++) fprintf(addresses, "%p\n", (void *)sampled[w][i]);
    if (!addresses || fclose(addresses)) return 0;
    snprintf(command, sizeof command, "addr2line -afie '%s' <build/profile.addresses", program);
    FILE *names = popen(command, "r");
    int   fine = names && fgets(line, sizeof line, names);
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

int main(int argc, char **argv) {
    struct sigaction action = {0};
    if (argc < 1 || system("command -v addr2line >/dev/null") != 0)
        return printf("profile: not measured, there is no addr2line (Debian: binutils)\n"), 0;
    action.sa_sigaction = take_sample, action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    for (workload = 0; workload < WORKLOADS; workload++)
        if (!run_sampled()) return 1;
    if (!read_sections() || !count_samples(argv[0]))
        return fprintf(stderr, "profile: ppo.h, or what addr2line says, cannot be read\n"), 1;
    printf("where the time of training goes, per cent (%s kernels; %d, %d and %d samples)\n",
           ppo_kernels_name(), taken[0], taken[1], taken[2]);
    qsort(functions, FUNCTIONS, sizeof *functions, hottest_first);
    print_places("section of ppo.h", sections, SECTIONS);
    print_places("hottest functions", functions, 10);
    return 0;
}

#else

int main(void) { return printf("profile: not measured, only on Linux with x86-64 or aarch64\n"), 0; }

#endif
