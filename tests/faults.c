/* faults.c - what is left when calls fail, and when power does.

       build/asan/faults              a sample of the faults, in TAP, as make test runs it; --seed N: another sample
       build/asan/faults all [NAME]   every fault of all operations, or of those whose name contains NAME, as a table;
                                        1/2 and 2/2: of every second one

   A fault is a use of a call (fault_shim.h) that fails once, or from then on. After each the operation returned PPO_OK, and
   did all that it does without a fault; or a status with a sentence, and what it replaces is what it was. Nothing else is
   left: no memory, no open file, no draft; and the operation, called again, succeeds. Then a record of what it tells the
   disk without faults is cut at each place (fault_disk.h): what is left is the old state or the new one. */
#define _GNU_SOURCE
#include "fault_cases.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#include <sys/resource.h>

/* Freed memory that is kept to find its use makes each fork() slower. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "quarantine_size_mb=1:allocator_may_return_null=1"; }

static char now[300]; /* what is being done */

/* The signal of alarm(), or the end of a program in which a sanitizer found a fault. */
static void tell(void) {
    static const char newline = '\n';
    if (write(2, now, strlen(now)) < 0 || write(2, &newline, 1) < 0) return;
}

static void too_long(int sig) {
    (void)sig;
    strncat(now, " does not end", sizeof now - strlen(now) - 1);
    tell();
    _exit(1);
}

static unsigned seed = 20170720;
static unsigned random_below(unsigned n) {
    seed = seed * 1664525u + 1013904223u;
    return (unsigned)(((uint64_t)seed * n) >> 32);
}

/* What an operation does without a fault. */
typedef struct expected {
    uint64_t before, after, result; /* of look(), and of run() */
    int uses[FAULT_CALLS];
} expected;

static void begin(const operation *o) {
    disk_clear();
    if (o->prepare) o->prepare();
    complaint = NULL;
}

static void count_draft(const char *path, const unsigned char *bytes, size_t size, void *user) {
    (void)bytes, (void)size;
    *(int *)user += ends_with(path, ".tmp");
}

static int drafts(void) {
    int n = 0;
    disk_walk(count_draft, &n);
    return n;
}

static const char no_sentence[] = "(no sentence)";

/* Runs an operation with a fault. Returns NULL, or what is wrong. MAY_FAIL: it may fail for another reason. ODD_FILES: its
   files are not to be looked at, besides. */
enum { PLAIN, MAY_FAIL, ODD_FILES };
static const char *run(const operation *o, const fault *f, const expected *e, int circumstances) {
    uint64_t result = 0;
    const long blocks = fault_blocks(), streams = fault_streams();
    const int descriptors = fault_descriptors(), drafts_before = drafts();
    ppo_fail(PPO_OK, no_sentence);
    complaint = NULL;
    fault_begin(f);
    alarm(60);
    const ppo_status status = o->run(&result);
    alarm(0);
    const int failed = fault_end();
    const char *sentence = ppo_last_error();
    complain_if(status && (!strcmp(sentence, no_sentence) || strlen(sentence) < 10), "no sentence");
    complain_if(status && strstr(sentence, "Success") != NULL, "a sentence without a reason");
    complain_if(!failed && status && circumstances == PLAIN, "it fails without a fault");
    const int others =
        circumstances == ODD_FILES && o->kind & PROGRAM; /* which belong to a program's result */
    complain_if(!status && result != e->result && !others, "PPO_OK, but another result");
    if (o->look && !complaint && circumstances != ODD_FILES) {
        char kept[400];
        snprintf(kept, sizeof kept, "%s", sentence);
        const uint64_t found = o->look();
        const int steps = o->kind & STEPS || (o->kind & FILES && f->call == FAULT_RENAME);
        const int between = (steps && found != DAMAGED && (found || !e->before)) ||
                            (o->kind & FOLDER_OF_A_MODEL && f->call == FAULT_RENAME && found == e->after);
        complain_if(found == DAMAGED, "what was saved is damaged");
        complain_if(!status && found != e->after, "PPO_OK, but not saved");
        complain_if(status && found != e->before &&
                        (o->kind & PROGRAM ? found != e->after && !between : !between),
                    "a status, but what was there has changed");
        ppo_fail(status, "%s", kept);
    }
    complain_if(drafts() > drafts_before && f->call != FAULT_REMOVE, "a draft is left");
    complain_if(fault_descriptors() != descriptors || fault_streams() != streams, "a file is left open");
    complain_if(fault_blocks() != blocks, "memory is not freed");
    fault_forget(blocks, streams);
    return complaint;
}

static const fault none = {0, 0, 0, 0};

/* The same, and once more without the fault. */
static const char *try_fault(const operation *o, const fault *f, const expected *e, int again) {
    char kept[400];
    begin(o);
    snprintf(now, sizeof now, "%s: %s, use %d%s, %s", o->name, fault_calls[f->call].name, f->use,
             f->for_good ? " and later" : "", strerror(f->error));
    const char *wrong = run(o, f, e, PLAIN);
    if (wrong || !again) return wrong;
    snprintf(kept, sizeof kept, "%s", ppo_last_error());
    if (run(o, &none, e, PLAIN)) wrong = "called again without a fault, it fails";
    if (wrong && complaint)
        snprintf(now + strlen(now), sizeof now - strlen(now), " (then: %.60s: %.120s)", complaint,
                 ppo_last_error());
    ppo_fail(PPO_OK, "%s", kept);
    return wrong;
}

/* The k-th fault of an operation; 0: there are not so many. Allocations, which may be thousands, are sampled. In a program
   a call fails with one error alone. */
static int fault_number(const operation *o, const expected *e, long k, fault *f) {
    for (int call = 0; call < FAULT_CALLS; ++call)
        for (int use = 1; use <= e->uses[call]; use += call == FAULT_MEMORY ? 1 + use / 8 : 1)
            for (int way = 0; way < 4; ++way) {
                const int error = fault_calls[call].errors[way < 3 ? way : 0];
                if (!error || (o->kind & PROGRAM && way && way < 3) || k--) continue;
                const fault found = {call, use, error, way == 3};
                return *f = found, 1;
            }
    return 0;
}

static long count_faults(const operation *o, const expected *e) {
    fault f;
    long n = 0;
    while (fault_number(o, e, n, &f)) ++n;
    return n;
}

/* Runs it without a fault, and sees which calls it makes. */
static const char *expect(const operation *o, expected *e) {
    begin(o);
    snprintf(now, sizeof now, "%s, without a fault", o->name);
    e->before = o->look ? o->look() : NOTHING;
    fault_begin(&none);
    const ppo_status status = o->run(&e->result);
    fault_end();
    if (status) return "it fails without a fault";
    for (int k = 0; k < FAULT_CALLS; ++k) e->uses[k] = fault_uses(k);
    e->after = o->look ? o->look() : NOTHING;
    if (complaint) return complaint;
    if (!count_faults(o, e)) return "it makes no call that may fail";
    if (o->look && (e->before == DAMAGED || e->after < FIRST_NUMBER))
        return "the state that it saves cannot be told";
    if (o->look && !(o->kind & STEPS) && e->after == e->before) return "it saves what was there already";
    begin(o);
    return run(o, &none, e, PLAIN); /* and again: the same result? */
}

/* -- power -- */

typedef struct power {
    const operation *o;
    const expected *e;
    int again; /* 1: the operation is also run again */
} power;

static const char *after_power_loss(int ended, void *user) {
    const power *p = (const power *)user;
    const uint64_t found = p->o->look();
    complaint = NULL;
    if (found == DAMAGED) return "what the disk has is damaged";
    if (ended && found != p->e->after) return "after PPO_OK, the disk has not what was saved";
    if (p->o->kind & (STEPS | FILES) ? !found && p->e->before : found != p->e->before && found != p->e->after)
        return found ? "the disk has neither the old state nor the new one"
                     : "the disk has lost the old state";
    if (p->again && run(p->o, &none, p->e, PLAIN)) return "called again after a power failure, it fails";
    return NULL;
}

static const char *lose_power(const operation *o, const expected *e, int most, unsigned from, int *states) {
    const disk_event *events;
    const power p = {o, e, (o->kind & PROGRAM) != 0};
    uint64_t result;
    begin(o);
    snprintf(now, sizeof now, "%s, power failures", o->name);
    disk *d = disk_open();
    fault_record(1);
    fault_begin(&none);
    ppo_status status = o->run(&result);
    fault_end();
    fault_record(0);
    const int count = fault_events(&events);
    const char *wrong = status       ? "it fails without a fault"
                        : count == 0 ? "it writes nothing"
                                     : disk_lose_power(d, events, count, "../after", most, from,
                                                       after_power_loss, (void *)&p, states);
    disk_free(d);
    return wrong;
}

/* -- the disk as it may be: full, not to be written, with other things in place of files -- */

enum { PIPE, DEVICE, FOLDER, LOOP, FULL, PROTECTED, CIRCUMSTANCES };
static const char *const circumstances[CIRCUMSTANCES] = {"a_pipe_in_place_of_a_file",
                                                         "a_device_in_place_of_a_file",
                                                         "a_folder_in_place_of_a_file",
                                                         "a_link_to_itself_in_place_of_a_file",
                                                         "a_full_disk",
                                                         "a_folder_that_is_not_to_be_written"};

typedef struct nth_file {
    int left;
    char path[120];
} nth_file;

static void find_file(const char *path, const unsigned char *bytes, size_t size, void *user) {
    nth_file *n = (nth_file *)user;
    (void)size;
    if (bytes && !n->left--) snprintf(n->path, sizeof n->path, "%s", path);
}

/* Puts something else in place of the k-th file. Returns 0 if there are not so many. */
static int replace_file(int k, int by) {
    nth_file n = {k, ""};
    disk_walk(find_file, &n);
    if (!*n.path) return 0;
    remove(n.path);
    const char *slash = strrchr(n.path, '/');
    const int failed = by == PIPE     ? mkfifo(n.path, 0666)
                       : by == DEVICE ? symlink("/dev/full", n.path)
                       : by == FOLDER ? mkdir(n.path, 0777)
                                      : symlink(slash ? slash + 1 : n.path, n.path);
    snprintf(now + strlen(now), sizeof now - strlen(now), ", %s", n.path);
    return !failed;
}

/* The k-th way of a circumstance: a file, or a size from which on files cannot grow. *more 0: there are not so many. */
static const char *try_circumstance(const operation *o, const expected *e, int circumstance, int k,
                                    int *more) {
    struct rlimit old, small;
    const char *wrong = NULL;
    begin(o);
    snprintf(now, sizeof now, "%s, %s", o->name, circumstances[circumstance]);
    *more = circumstance < FULL ? replace_file(k, circumstance) : k < (circumstance == FULL ? 3 : 1);
    if (!*more) return NULL;
    if (circumstance < FULL) wrong = run(o, &none, e, ODD_FILES);
    else if (circumstance == FULL) {
        getrlimit(RLIMIT_FSIZE, &old);
        small = old;
        small.rlim_cur = (rlim_t)(k * k * 300);
        setrlimit(RLIMIT_FSIZE, &small);
        wrong = run(o, &none, e, MAY_FAIL);
        setrlimit(RLIMIT_FSIZE, &old);
    } else {
        const int root = !geteuid();
        chmod(".", 0555);
        if (root && seteuid(65534)) abort(); /* who writes everywhere is somebody else meanwhile */
        wrong = run(o, &none, e, MAY_FAIL);
        if (root && seteuid(0)) abort();
        chmod(".", 0755);
    }
    return wrong;
}

/* -- all faults, or some -- */

static void print_problem(const char *wrong) { printf("# %s: %s; \"%s\"\n", now, wrong, ppo_last_error()); }

static int test_all(const char *part) {
    long all = 0, problems = 0;
    int half = 0, halves = 1;
    if (sscanf(part, "%d/%d", &half, &halves) == 2 && halves > 0) part = "";
    printf("%-32s %8s %8s %8s %8s\n", "operation", "faults", "problems", "states", "problems");
    for (int k = 0; k < OPERATIONS; ++k) {
        const operation *o = &operations[k];
        expected e;
        fault f;
        long n = 0, wrong = 0;
        int states = 0, lost = 0;
        if (!strstr(o->name, part) || k % halves != half % halves) continue;
        const char *first = expect(o, &e);
        if (first) print_problem(first), ++wrong;
        for (; !first && fault_number(o, &e, n, &f); ++n) {
            const char *problem = try_fault(o, &f, &e, !(o->kind & PROGRAM && n % 2));
            if (problem) print_problem(problem), ++wrong;
        }
        for (int c = 0, more; c < CIRCUMSTANCES && !first; ++c)
            for (int w = 0; !(o->kind & PROGRAM && c >= FULL); ++w) { /* what those print is to be written */
                const char *problem = try_circumstance(o, &e, c, w, &more);
                if (problem) print_problem(problem), ++wrong;
                if (!more) break;
                ++n;
            }
        const char *torn =
            first || !o->look ? NULL : lose_power(o, &e, o->kind & PROGRAM ? 40 : 4000, 1, &states);
        if (torn) print_problem(torn), ++lost;
        printf("%-32s %8ld %8ld %8d %8d\n", o->name, n, wrong, states, lost);
        fflush(stdout);
        all += n + states;
        problems += wrong + lost;
    }
    printf("%ld faults and states, %ld problems\n", all, problems);
    return problems > 0;
}

static int test(const char *name, const char *wrong) {
    static int number;
    if (wrong) print_problem(wrong);
    printf("%sok %d - ", wrong ? "not " : "", ++number);
    for (; *name; ++name) putchar(strchr(" ,=", *name) ? '_' : *name);
    printf("\n");
    return number;
}

static int test_some(void) {
    enum { FAULTS = 12, OF_PROGRAM = 1, STATES = 6 };
    int failures = 0, states = 0, number = 0, more;
    const char *in[CIRCUMSTANCES] = {NULL};
    for (int k = 0; k < OPERATIONS; ++k) {
        const operation *o = &operations[k];
        char name[80];
        expected e;
        fault f;
        const char *wrong = expect(o, &e), *lost = NULL;
        const long n = wrong ? 0 : count_faults(o, &e);
        for (int i = 0; i < (o->kind & PROGRAM ? OF_PROGRAM : FAULTS) && n && !wrong; ++i) {
            fault_number(o, &e, (long)random_below((unsigned)n), &f);
            wrong = try_fault(o, &f, &e, !(o->kind & PROGRAM));
        }
        snprintf(name, sizeof name, "%s_after_failing_calls", o->name);
        number = test(name, wrong);
        if (wrong || o->kind & PROGRAM) {
            failures += wrong != NULL;
            continue;
        }
        if (o->look) lost = lose_power(o, &e, STATES, random_below(1u << 31), &states);
        snprintf(name, sizeof name, "%s_after_power_failures", o->name);
        if (o->look) number = test(name, lost);
        failures += lost != NULL;
        for (int c = 0; c < CIRCUMSTANCES; ++c) {
            const char *problem = try_circumstance(o, &e, c, (int)random_below(2), &more);
            if (problem) print_problem(problem), in[c] = problem;
        }
    }
    for (int c = 0; c < CIRCUMSTANCES; ++c) {
        snprintf(now, sizeof now, "%s", circumstances[c]);
        number = test(circumstances[c], in[c]);
        failures += in[c] != NULL;
    }
    printf("1..%d\n", number);
    return failures > 0;
}

static void enter(const char *folder) {
    mkdir(folder, 0777);
    if (!chdir(folder)) return;
    fprintf(stderr, "%s: %s\n", folder, strerror(errno));
    exit(1);
}

int main(int argc, char **argv) {
    const int all = argc > 1 && !strcmp(argv[1], "all");
    if (argc > 2 && !strcmp(argv[1], "--seed")) seed = (unsigned)atol(argv[2]);
    signal(SIGALRM, too_long);
    signal(SIGXFSZ, SIG_IGN);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_set_death_callback(tell);
#endif
    enter("build");
    enter("faults");
    enter(!all ? "some" : argc > 2 && *argv[2] == '1' ? "first" : "all"); /* two halves may run at once */
    disk_clear();
    enter("after");
    enter("../fixtures");
    make_objects();
    make_fixtures();
    enter("../work");
    const int failed = all ? test_all(argc > 2 ? argv[2] : "") : test_some();
    free_objects();
    enter("..");
    disk_clear();
    return failed;
}
