/* For `make mutants`: runs single tests of the test programs, which are all linked together, and ends at the first that
   fails, so that a mutant dies as early as it can. It takes the place of cmocka's runner.

       run list PROGRAM            prints the names of the program's tests
       run PROGRAM TEST...         runs these, in the order of the program; * stands for all

   With COVERAGE=FILE, where the library was compiled with -fsanitize-coverage=trace-pc, it leaves a file of as many bytes
   as the code has: 1 where a block of the library began that ran, in this process or in a child. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define PROGRAM(name) int name##_main(int argc, char **argv);
#include "programs.h"
#undef PROGRAM

static const struct {
    const char *name;
    int (*main)(int argc, char **argv);
} programs[] = {
#define PROGRAM(name) {#name, name##_main},
#include "programs.h"
#undef PROGRAM
};

extern char __executable_start[], etext[];
static unsigned char *ran;
static char **wanted;
static int count, listing;
static jmp_buf skipped;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) {
    if (ran) ran[(char *)__builtin_return_address(0) - __executable_start] = 1;
}

void _fail(const char *const file, const int line) {
    printf("%s:%d: failed\n", file, line);
    fflush(stdout);
    _exit(1);
}

void _skip(const char *const file, const int line) {
    (void)file;
    (void)line;
    longjmp(skipped, 1);
}

static int is_wanted(const char *name) {
    for (int i = 0; i < count; i++)
        if (!strcmp(wanted[i], name) || !strcmp(wanted[i], "*")) return 1;
    return 0;
}

int _cmocka_run_group_tests(const char *group, const struct CMUnitTest *const tests, const size_t n,
                            CMFixtureFunction setup, CMFixtureFunction teardown) {
    void *shared = NULL;
    (void)group;
    if (!listing && setup && setup(&shared)) _fail("group setup", 0);
    for (size_t i = 0; i < n; i++) {
        void *state = shared;
        if (listing) {
            printf("%s\n", tests[i].name);
            continue;
        }
        if (!is_wanted(tests[i].name)) continue;
        if (tests[i].initial_state) state = tests[i].initial_state;
        if (tests[i].setup_func && tests[i].setup_func(&state)) _fail(tests[i].name, 0);
        if (!setjmp(skipped)) {
            tests[i].test_func(&state);
            if (!getenv("QUIET")) printf("ran %s\n", tests[i].name);
        }
        if (tests[i].teardown_func && tests[i].teardown_func(&state)) _fail(tests[i].name, 0);
    }
    if (!listing && teardown && teardown(&shared)) _fail("group teardown", 0);
    return 0;
}

int main(int argc, char **argv) {
    const char *coverage = getenv("COVERAGE");
    if (argc < 3) return 2;
    if (coverage) {
        int file = open(coverage, O_RDWR | O_CREAT | O_TRUNC, 0666);
        size_t size = (size_t)(etext - __executable_start);
        if (file < 0 || ftruncate(file, (off_t)size)) return 2;
        ran = (unsigned char *)mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (ran == MAP_FAILED) return 2;
    }
    listing = !strcmp(argv[1], "list");
    wanted = argv + 2;
    count = argc - 2;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (!strcmp(programs[i].name, argv[listing ? 2 : 1])) {
            char *own[] = {(char *)programs[i].name, NULL};
            return programs[i].main(1, own);
        }
    return 2;
}
