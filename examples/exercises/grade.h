/* grade.h - what all exercises share: two programs for each of them, and the pipe between.

   A grade.c beside an exercise is compiled twice. With GRADE_STUDENT it becomes the student's program: main()
   here reads a case, answer() calls the student's function, and main() sends back what it wrote. Without, it
   becomes the judge: make() invents cases, and solve() computes the right outputs with ppo.h, after the
   student's have arrived. So the student's program holds no answer, no mark and, unless the exercise is about
   it, no library: it can only send numbers, and only right ones earn points.

   A case is a list of named arrays; a scalar is an array of one number. Both sides find them by name:

       float *reward = add_floats(c, "reward", steps, envs);      // the judge, in make(): to be filled
       add_output(c, "advantage", steps, envs);                   // floats that the student's function writes
       floats(c, "reward"), bytes(c, "terminated"), integer(c, "steps"), number(c, "gamma")   // both, by name

   How to add an exercise: README.md in this folder. POSIX only: it needs fork(). */
#ifndef GRADE_H
#define GRADE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GRADE_ARRAYS = 24, GRADE_NAME = 24, GRADE_READ = 3, GRADE_WRITE = 4, GRADE_UNWRITTEN = 0x7fc0beef };

typedef struct grade_array {
    char name[GRADE_NAME];
    int kind; /* 'f' floats, 'i' ints, 'b' bytes; 'o' outputs, floats; 'w' outputs that are not looked at */
    int rows, cols;
    void *data;
} grade_array;

typedef struct grade_case {
    int count;
    grade_array array[GRADE_ARRAYS];
} grade_case;

static inline size_t grade_length(const grade_array *a) { return (size_t)a->rows * (size_t)a->cols; }
static inline size_t grade_bytes(const grade_array *a) { return grade_length(a) * (a->kind == 'b' ? 1 : 4); }

static inline void grade_give_up(const char *what, const char *name) {
    fprintf(stderr, "grade.h: %s %s\n", what, name);
    exit(9);
}

/* Every array is a block of its own, exactly as long as it says, so that AddressSanitizer sees a step too
   far. Outputs start as a NaN of its own kind, which tells what was never written. */
static inline void *grade_add(grade_case *c, const char *name, int kind, int rows, int cols) {
    if (c->count == GRADE_ARRAYS || strlen(name) >= GRADE_NAME) grade_give_up("no room for", name);
    grade_array *a = &c->array[c->count++];
    memset(a, 0, sizeof *a);
    strcpy(a->name, name);
    a->kind = kind, a->rows = rows, a->cols = cols, a->data = calloc(grade_bytes(a) + !grade_bytes(a), 1);
    if (!a->data) grade_give_up("no memory for", name);
    for (size_t i = 0; strchr("ow", kind) && i < grade_length(a); i++)
        ((unsigned *)a->data)[i] = GRADE_UNWRITTEN;
    return a->data;
}
static inline float *add_floats(grade_case *c, const char *name, int rows, int cols) {
    return (float *)grade_add(c, name, 'f', rows, cols);
}
static inline unsigned char *add_bytes(grade_case *c, const char *name, int rows, int cols) {
    return (unsigned char *)grade_add(c, name, 'b', rows, cols);
}
static inline int *add_integers(grade_case *c, const char *name, int rows, int cols) {
    return (int *)grade_add(c, name, 'i', rows, cols);
}
static inline void add_number(grade_case *c, const char *name, float x) { *add_floats(c, name, 1, 1) = x; }
static inline void add_integer(grade_case *c, const char *name, int x) { *add_integers(c, name, 1, 1) = x; }
static inline void add_output(grade_case *c, const char *name, int rows, int cols) {
    grade_add(c, name, 'o', rows, cols);
}

static inline void add_unused_output(grade_case *c, const char *name, int rows, int cols) {
    grade_add(c, name, 'w', rows, cols);
}

static inline grade_array *grade_find(const grade_case *c, const char *name) {
    for (int k = 0; k < c->count; k++)
        if (!strcmp(c->array[k].name, name)) return (grade_array *)&c->array[k];
    grade_give_up("the case has no", name);
    return NULL;
}
static inline float *floats(const grade_case *c, const char *name) {
    return (float *)grade_find(c, name)->data;
}
static inline int *integers(const grade_case *c, const char *name) {
    return (int *)grade_find(c, name)->data;
}
static inline unsigned char *bytes(const grade_case *c, const char *name) {
    return (unsigned char *)grade_find(c, name)->data;
}
static inline float number(const grade_case *c, const char *name) { return *floats(c, name); }
static inline int integer(const grade_case *c, const char *name) { return *integers(c, name); }

static inline void grade_free(grade_case *c) {
    while (c->count) free(c->array[--c->count].data);
}

#ifdef GRADE_STUDENT

/* -- the student's program -- */

static void answer(grade_case *c); /* in grade.c: calls the student's function */

static const grade_array *grade_origin[GRADE_ARRAYS];

/* For a function that works in place: output `to` begins as input `from`. Left as it is, it counts as not
   written. */
static inline float *copy_input(grade_case *c, const char *to, const char *from) {
    grade_array *a = grade_find(c, to);
    grade_origin[a - c->array] = grade_find(c, from);
    return (float *)memcpy(a->data, floats(c, from), grade_bytes(a));
}

/* 1 if all `size` bytes went through */
static int grade_put(const void *data, size_t size) {
    for (ssize_t n; size > 0; data = (const char *)data + n, size -= (size_t)n)
        if ((n = write(GRADE_WRITE, data, size)) <= 0) return 0;
    return 1;
}

static int grade_get(void *data, size_t size) {
    for (ssize_t n; size > 0; data = (char *)data + n, size -= (size_t)n)
        if ((n = read(GRADE_READ, data, size)) <= 0) return 0;
    return 1;
}

int main(void) {
    grade_case c = {0};
    int count, ok = 1;
    while (ok && grade_get(&count, sizeof count)) {
        for (grade_array a; ok && c.count < count;) {
            ok = grade_get(&a, sizeof a);
            void *data = ok ? grade_add(&c, a.name, a.kind, a.rows, a.cols) : NULL;
            if (ok && !strchr("ow", a.kind)) ok = grade_get(data, grade_bytes(&a));
        }
        memset(grade_origin, 0, sizeof grade_origin);
        if (ok) answer(&c);
        for (int k = 0; k < c.count; k++)
            if (grade_origin[k] && !memcmp(c.array[k].data, grade_origin[k]->data, grade_bytes(&c.array[k])))
                for (size_t i = 0; i < grade_length(&c.array[k]); i++)
                    ((unsigned *)c.array[k].data)[i] = GRADE_UNWRITTEN;
        fflush(stdout);
        for (int k = 0; ok && k < c.count; k++)
            if (c.array[k].kind == 'o') ok = grade_put(c.array[k].data, grade_bytes(&c.array[k]));
        grade_free(&c);
    }
    return 0;
}

#else

/* -- the judge -- */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "ppo.h"

enum { GRADE_POINTS = 10, GRADE_PARTS = 10, GRADE_MISTAKES = 24, GRADE_TEXT = 1024 };

/* A part of an exercise: all of its points, or none. `what` completes "wrong ...". */
typedef struct grade_part {
    int points, cases;
    const char *what;
} grade_part;

typedef struct grade_run grade_run;

typedef struct grade_exercise {
    const char *file;             /* "gae.c" */
    int on_paper;                 /* 1: numbers are asked for, so a case shows none of them */
    grade_part part[GRADE_PARTS]; /* their points add up to 10 */
    /* Fills case `number` of a part: 0, 1, ...; small ones first, so that the first failure can be read. */
    void (*make)(grade_case *c, int part, int number, ppo_rng *rng);
    /* Writes the right outputs (mistake 0), or those of mistake[mistake - 1]. c is a copy: change its inputs
       at will. */
    void (*solve)(grade_case *c, int mistake);
    const char *mistake[GRADE_MISTAKES]; /* a sentence each: common mistakes and what to think about */
    /* Instead of the three above: tries a part by grade_ask(); "", or what is wrong, in words. */
    void (*examine)(grade_run *run, int part, char *wrong);
    /* Functions of ppo.h that the student's file may use, by name; "ppo_tape_*": all of these. NULL: ppo.h is
       out of reach. */
    const char *allowed;
    double tolerance, seconds; /* 0: 1e-4; 5 s for a case */
} grade_exercise;

static const grade_exercise exercise; /* in grade.c */

static int grade_mistaken; /* solve() makes a mistake */

/* For calls of the library in make() and solve(). */
static inline void must(ppo_status status) {
    if (status && !grade_mistaken) grade_give_up("the reference fails:", ppo_last_error());
}

/* The student's program, as it runs. */
struct grade_run {
    const char *folder; /* with `program`, and `log`, which gets what it prints */
    pid_t process;      /* 0: none */
    int to, from;
    int over;    /* it took too long: no more questions */
    int written; /* an output has been written that is not 0 */
    char death[GRADE_TEXT];
};

static void grade_say(char *text, const char *format, ...) {
    size_t n = strlen(text);
    va_list list;
    va_start(list, format);
    vsnprintf(text + n, GRADE_TEXT - n, format, list);
    va_end(list);
}

/* The time for a case. */
static double grade_seconds(void) {
    const char *other = getenv("GRADE_SECONDS");
    return other ? atof(other) : exercise.seconds > 0 ? exercise.seconds : 5;
}

static void grade_begin(grade_run *run) {
    int to[2], from[2];
    if (pipe(to) || pipe(from)) grade_give_up("no pipe for", exercise.file);
    if ((run->process = fork()) < 0) grade_give_up("no process for", exercise.file);
    if (!run->process) {
        if (chdir(run->folder)) _exit(127);
        int out = open("log", O_WRONLY | O_CREAT | O_TRUNC, 0666), nothing = open("/dev/null", O_RDONLY);
        int in = fcntl(to[0], F_DUPFD, 10), back = fcntl(from[1], F_DUPFD, 10);
        rlim_t cpu = (rlim_t)(60 + grade_seconds());
        struct rlimit file = {1 << 20, 1 << 20}, none = {0, 0}, most = {cpu, cpu};
        dup2(nothing, 0), dup2(out, 1), dup2(out, 2), dup2(in, GRADE_READ), dup2(back, GRADE_WRITE);
        for (int k = 5; k < 256; k++) close(k);
        setpgid(0, 0), setrlimit(RLIMIT_FSIZE, &file), setrlimit(RLIMIT_CORE, &none),
            setrlimit(RLIMIT_CPU, &most);
#ifdef PR_SET_PDEATHSIG
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* Ctrl-C ends the judge, and with it this */
#endif
        setenv("ASAN_OPTIONS", "detect_leaks=0:hard_rss_limit_mb=500:max_allocation_size_mb=500", 1);
        execl("./program", "program", (char *)NULL);
        _exit(127);
    }
    close(to[0]), close(from[1]);
    run->to = to[1], run->from = from[0];
    fcntl(run->to, F_SETFL, O_NONBLOCK);
}

/* Copies to `into` the first line of the program's output that contains `what`, from there on. */
static int grade_printed(const grade_run *run, const char *what, char *into) {
    char line[GRADE_TEXT], path[GRADE_TEXT], *at = NULL;
    snprintf(path, sizeof path, "%s/log", run->folder);
    FILE *file = fopen(path, "r");
    while (file && !at && fgets(line, sizeof line, file)) at = strstr(line, what);
    if (file) fclose(file);
    if (at) at[strcspn(at, "\n")] = 0, snprintf(into, GRADE_TEXT, "%s", at);
    return at != NULL;
}

/* Ends the program; says why it ended, if that was before it answered. */
static void grade_end(grade_run *run, const char *early) {
    int status = 0;
    if (!run->process) return;
    close(run->to), close(run->from);
    if (early && run->over) kill(-run->process, SIGKILL);
    for (int wait_ms = 0; early && !run->over && wait_ms < 5000 && !waitpid(run->process, &status, WNOHANG);
         wait_ms += 5)
        usleep(5000);
    kill(-run->process, SIGKILL), kill(run->process, SIGKILL);
    waitpid(run->process, &status, 0);
    run->process = 0;
    if (!early) return;

    char line[GRADE_TEXT], place[GRADE_TEXT];
    run->death[0] = 0;
    if (run->over) grade_say(run->death, "%s", early);
    else if (grade_printed(run, "AddressSanitizer: ", line)) {
        for (const char *end = " on \0 (\0"; *end; end += strlen(end) + 1)
            if (strstr(line, end)) *strstr(line, end) = 0;
        grade_say(run->death, "it crashed: %s", line);
        if (grade_printed(run, exercise.file, place)) grade_say(run->death, " at %s", strtok(place, " "));
    } else if (grade_printed(run, "runtime error: ", line)) {
        grade_say(run->death, "it crashed: %s", line + 15);
        if (grade_printed(run, exercise.file, place))
            place[strcspn(place, " ")] = 0, grade_say(run->death, " at %.*s", (int)strlen(place) - 1, place);
    } else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ)
        grade_say(run->death, "it printed more than a megabyte: an endless loop?");
    else if (WIFSIGNALED(status)) grade_say(run->death, "it crashed: %s", strsignal(WTERMSIG(status)));
    else grade_say(run->death, "it ended (exit status %d) before it answered", WEXITSTATUS(status));
}

/* 1 once `file` is ready for `event`; not later than `until`. */
static int grade_wait(grade_run *run, int file, short event, double until) {
    struct pollfd one = {file, event, 0};
    int ready = poll(&one, 1, (int)fmax(0, 1000 * (until - ppo_clock())));
    run->over = ready == 0;
    return ready > 0;
}

/* 1 if all `size` bytes went to the program, which may answer without reading, until the pipe is full. */
static int grade_send(grade_run *run, const void *data, size_t size, double until) {
    for (ssize_t n; size > 0; data = (const char *)data + n, size -= (size_t)n)
        if (!grade_wait(run, run->to, POLLOUT, until) || (n = write(run->to, data, size)) <= 0) return 0;
    return 1;
}

/* Sends a case, and writes the answer into its outputs. 0: there is none, and run->death says why. */
static int grade_ask(grade_run *run, grade_case *c) {
    double seconds = grade_seconds(), until = ppo_clock() + seconds;
    char late[GRADE_TEXT];
    if (run->over) return 0;
    if (!run->process) grade_begin(run);
    int ok = grade_send(run, &c->count, sizeof c->count, until);
    for (int k = 0; ok && k < c->count; k++) {
        grade_array *a = &c->array[k];
        ok = grade_send(run, a, sizeof *a, until) &&
             (strchr("ow", a->kind) || grade_send(run, a->data, grade_bytes(a), until));
    }
    for (int k = 0; ok && k < c->count; k++) {
        grade_array *a = &c->array[k];
        for (size_t got = 0; ok && a->kind == 'o' && got < grade_bytes(a);) {
            ssize_t n = grade_wait(run, run->from, POLLIN, until)
                            ? read(run->from, (char *)a->data + got, grade_bytes(a) - got)
                            : 0;
            ok = n > 0, got += ok ? (size_t)n : 0;
        }
        for (size_t i = 0; ok && a->kind == 'o' && i < grade_length(a); i++) {
            unsigned bits = ((unsigned *)a->data)[i];
            if (bits != GRADE_UNWRITTEN && bits != 0) run->written = 1;
        }
    }
    snprintf(late, sizeof late, "it did not answer within %g s: an endless loop?", seconds);
    if (!ok) grade_end(run, late);
    return ok;
}

static void grade_copy(const grade_case *c, grade_case *copy) {
    memset(copy, 0, sizeof *copy);
    for (int k = 0; k < c->count; k++) {
        const grade_array *a = &c->array[k];
        memcpy(grade_add(copy, a->name, a->kind, a->rows, a->cols), a->data, grade_bytes(a));
    }
}

/* The first number of output k that differs; -1: none does. */
static int grade_differs(const grade_array *given, const grade_array *right, double factor) {
    double tolerance = exercise.tolerance > 0 ? exercise.tolerance : 1e-4;
    const float *x = (const float *)given->data, *y = (const float *)right->data;
    for (size_t i = 0; i < grade_length(given); i++)
        if (!(fabs(x[i] - factor * y[i]) <= tolerance * (0.1 + fabs(factor * y[i]))) &&
            !(isnan(x[i]) && isnan(y[i])) && !(isinf(x[i]) && x[i] == y[i]))
            return (int)i;
    return -1;
}

/* Mistakes that every exercise knows: an output times -1, 2, 1/2, or times or divided by a size. */
static double grade_factor(const grade_case *c, int kind, char words[GRADE_TEXT]) {
    static const double known[] = {-1, 2, 0.5};
    static const char *what[] = {"has the wrong sign.", "is twice as large as it should be.",
                                 "is half as large as it should be."};
    int k = (kind - 3) / 2;
    words[0] = 0;
    if (kind < 3) return grade_say(words, "%s", what[kind]), known[kind];
    if (k >= c->count || c->array[k].kind != 'i' || grade_length(&c->array[k]) != 1) return 0;
    int size = *(int *)c->array[k].data;
    if (size <= 0) return 0;
    grade_say(words,
              kind % 2 ? "is %s times too large: a sum where a mean is meant?"
                       : "is %s times too small: divided once too often?",
              c->array[k].name);
    return kind % 2 ? size : 1.0 / size;
}

static void grade_show(char *text, const grade_array *a, int i) {
    if (a->kind == 'b') grade_say(text, "%d", ((unsigned char *)a->data)[i]);
    else if (a->kind == 'i') grade_say(text, "%d", ((int *)a->data)[i]);
    else if (!isfinite(((float *)a->data)[i]))
        grade_say(text, isnan(((float *)a->data)[i]) ? "not a number" : "infinite");
    else grade_say(text, "%.6g", (double)((float *)a->data)[i]);
}
static void grade_index(char *text, const grade_array *a, int i) {
    if (grade_length(a) == 1) grade_say(text, "%s", a->name);
    else if (a->rows == 1 || a->cols == 1) grade_say(text, "%s[%d]", a->name, i);
    else grade_say(text, "%s[%d][%d]", a->name, i / a->cols, i % a->cols);
}

/* "advantage[3] is 1.25 and should be 0.75", and in lines of their own the inputs there, and the scalars. */
static void grade_describe(char *text, const grade_case *given, const grade_case *right, int k, int i) {
    const grade_array *out = &given->array[k];
    grade_index(text, out, i);
    if (((unsigned *)out->data)[i] == GRADE_UNWRITTEN) {
        grade_say(text, " was not written");
        return;
    }
    grade_say(text, " is "), grade_show(text, out, i);
    grade_say(text, " and should be "), grade_show(text, &right->array[k], i);
    for (int scalars = 0; scalars < 2; scalars++)
        for (int j = 0, said = 0; j < given->count; j++) {
            const grade_array *a = &given->array[j];
            int here = a->rows == out->rows && a->cols == out->cols && grade_length(a) > 1;
            if (strchr("ow", a->kind) || (scalars ? grade_length(a) != 1 : !here)) continue;
            grade_say(text, said++ ? ", " : scalars ? "\nwith " : "\nwhere ");
            grade_index(text, a, scalars ? 0 : i), grade_say(text, " is "),
                grade_show(text, a, scalars ? 0 : i);
        }
}

enum { GRADE_KINDS = GRADE_MISTAKES + 3 + 2 * GRADE_ARRAYS };

/* Which common mistakes explain all that is wrong in a part; and which explain all parts, those that are
   right, too. */
static int grade_part_of[GRADE_PARTS][GRADE_KINDS], grade_all_of[GRADE_KINDS];
static grade_case grade_example; /* for the names of arrays */

/* Does mistake m give the outputs of this case: output k or, if k is -1, all of them? */
static int grade_explains(int m, const grade_case *given, const grade_case *right, int k) {
    char words[GRADE_TEXT];
    grade_case wrongly;
    double factor = m < GRADE_MISTAKES ? 1 : grade_factor(given, m - GRADE_MISTAKES, words);
    int same = factor != 0 && (m >= GRADE_MISTAKES || exercise.mistake[m]);
    if (!same) return 0;
    grade_copy(right, &wrongly);
    grade_mistaken = 1;
    if (m < GRADE_MISTAKES) exercise.solve(&wrongly, m + 1);
    grade_mistaken = 0;
    for (int j = 0; j < given->count; j++)
        if (given->array[j].kind == 'o' && (k < 0 || k == j))
            same = same && grade_differs(&given->array[j], &wrongly.array[j], factor) < 0;
    grade_free(&wrongly);
    return same;
}

/* Tries the cases of a part. */
static void grade_cases(grade_run *run, int part, char *wrong) {
    const char *seed = getenv("GRADE_SEED");
    for (int n = 0; n < exercise.part[part].cases; n++) {
        grade_case c = {0}, right, asked;
        ppo_rng rng = ppo_rng_stream(seed ? strtoull(seed, NULL, 10) : 1, PPO_STREAM_USER + (unsigned)part,
                                     (unsigned)n);
        exercise.make(&c, part, n, &rng);
        grade_copy(&c, &asked), grade_copy(&c, &right);
        int k = 0, at = -1, answered = grade_ask(run, &c);
        if (!answered) snprintf(wrong, GRADE_TEXT, "%s", run->death), n = exercise.part[part].cases;
        exercise.solve(&right, 0);
        for (; answered && k < c.count; k++)
            if (c.array[k].kind == 'o' && (at = grade_differs(&c.array[k], &right.array[k], 1)) >= 0) break;
        for (int m = 0; answered && m < GRADE_KINDS; m++) {
            int explains = grade_explains(m, &c, m < GRADE_MISTAKES ? &asked : &right, at < 0 ? -1 : k);
            grade_all_of[m] &= explains;
            if (at >= 0) grade_part_of[part][m] &= explains;
        }
        if (at >= 0 && !*wrong) grade_describe(wrong, &c, &right, k, at);
        if (!grade_example.count) grade_copy(&c, &grade_example);
        grade_free(&c), grade_free(&asked), grade_free(&right);
    }
}

/* The sentence about the mistake that explains a part, best one that explains the others, too. */
static void grade_name_mistake(int part, char *wrong) {
    int best = -1;
    char words[GRADE_TEXT];
    if (!strstr(wrong, " should be ")) return;
    for (int m = GRADE_KINDS - 1; m >= 0; m--)
        if (grade_part_of[part][m] && (best < 0 || grade_all_of[m] >= grade_all_of[best])) best = m;
    if (best < 0 && (strstr(wrong, " is not a number and") || strstr(wrong, " is infinite and")))
        grade_say(wrong,
                  "\nexp overflows at 88.7 in floats; or is it a division by 0, or the logarithm of 0?");
    if (best >= GRADE_MISTAKES) grade_factor(&grade_example, best - GRADE_MISTAKES, words);
    if (best >= GRADE_MISTAKES) grade_say(wrong, "\n%.*s %s", (int)strcspn(wrong, "[ "), wrong, words);
    else if (best >= 0) grade_say(wrong, "\n%s", exercise.mistake[best]);
}

/* May the student's object need this function? Names of ppo.h beyond `allowed` are the reference, which is
   not there. */
static int grade_refuses(const char *name) {
    static const char *const system[] = {
        "fork",   "_Fork",  "vfork",  "clone",   "daemon",  "posix_spawn", "posix_spawnp", "system", "popen",
        "execv",  "execve", "execvp", "execvpe", "fexecve", "execl",       "execle",       "execlp", "kill",
        "killpg", "ptrace", "dlopen", "dlsym",   "syscall", "open",        "socket",       "connect"};
    for (size_t k = 0; k < sizeof system / sizeof *system; k++)
        if (!strcmp(name, system[k])) return 1;
    if (strncmp(name, "ppo_", 4)) return 0;
    for (const char *a = exercise.allowed; a && *a; a += strcspn(a, " "), a += strspn(a, " ")) {
        size_t n = strcspn(a, " ");
        if (a[n - 1] == '*' ? !strncmp(a, name, n - 1) : strlen(name) == n && !strncmp(a, name, n)) return 0;
    }
    return 1;
}

/* Prints an array as C. */
static void grade_print(const grade_array *a) {
    size_t n = grade_length(a);
    const char *type = a->kind == 'b' ? "unsigned char" : a->kind == 'i' ? "int" : "float";
    int right = a->kind == 'o';
    printf(n == 1 && !right ? "%s %s%s = " : "%s %s%s[] = {", type, right ? "right_" : "", a->name);
    for (size_t i = 0; i < n; i++) {
        char text[GRADE_TEXT] = "";
        if (strchr("ib", a->kind)) grade_show(text, a, (int)i);
        else if (((unsigned *)a->data)[i] == GRADE_UNWRITTEN) grade_say(text, "0");
        else {
            float x = ((float *)a->data)[i];
            grade_say(text,
                      isnan(x)   ? "NAN"
                      : isinf(x) ? x > 0 ? "INFINITY" : "-INFINITY"
                                 : "%.9g",
                      (double)x);
            if (isfinite(x)) grade_say(text, strpbrk(text, ".e") ? "f" : ".0f");
        }
        printf("%s%s", i == 0 ? "" : i % 8 == 0 ? ",\n    " : ", ", text);
    }
    printf(n == 1 && !right ? ";\n" : "}; /* [%d][%d] */\n", a->rows, a->cols);
}

/* The first case of a part, counted from 1, with the right outputs. */
static int grade_print_case(int part) {
    const char *seed = getenv("GRADE_SEED");
    int parts = 0;
    grade_case c = {0};
    while (parts < GRADE_PARTS && exercise.part[parts].points) parts++;
    if (!exercise.make) return fprintf(stderr, "this exercise has no cases of arrays\n"), 1;
    if (part < 1 || part > parts)
        return fprintf(stderr, "PART=%d: this exercise has parts 1 to %d\n", part, parts), 1;
    ppo_rng rng =
        ppo_rng_stream(seed ? strtoull(seed, NULL, 10) : 1, PPO_STREAM_USER + (unsigned)(part - 1), 0);
    exercise.make(&c, part - 1, 0, &rng);
    printf("/* %s, part %d of %d, the first case: wrong %s */\n", exercise.file, part, parts,
           exercise.part[part - 1].what);
    for (int k = 0; k < c.count; k++)
        if (!strchr("ow", c.array[k].kind)) grade_print(&c.array[k]);
    exercise.solve(&c, 0);
    if (!exercise.on_paper) printf("/* what your function should write */\n");
    for (int k = 0; k < c.count && !exercise.on_paper; k++)
        if (c.array[k].kind == 'o') grade_print(&c.array[k]);
    grade_free(&c);
    return 0;
}

/* judge allowed          prints the functions of ppo.h that the exercise allows
   judge check <symbols   reads what nm prints; says which symbol is refused, and then returns 1
   judge run FOLDER       grades FOLDER/program; the last line, printed when that has ended, is the points, a tab,
                          and the first failure in short
   judge case PART        prints the first case of a part as C arrays */
int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "allowed")) return puts(exercise.allowed ? exercise.allowed : ""), 0;
    if (argc == 2 && !strcmp(argv[1], "check")) {
        for (char line[GRADE_TEXT]; fgets(line, sizeof line, stdin);) {
            char *name = strrchr(line, ' ');
            name = name ? name + 1 : line, name[strcspn(name, "\n")] = 0;
            if (*name == '_' && grade_refuses(name + 1)) name++; /* macOS */
            if (grade_refuses(name))
                return printf("refused: it uses %s(), %s\n", name,
                              strncmp(name, "ppo_", 4)
                                  ? "which no exercise needs"
                                  : "with which your answer is compared: write it yourself"),
                       1;
        }
        return 0;
    }
    if (argc == 3 && !strcmp(argv[1], "case")) return grade_print_case(atoi(argv[2]));
    if (argc != 3 || strcmp(argv[1], "run")) return 2;
    signal(SIGPIPE, SIG_IGN);
#ifdef PR_SET_DUMPABLE
    prctl(PR_SET_DUMPABLE, 0); /* nobody's process may read this one, unless it is root's */
#endif
    grade_run run = {argv[2], 0, 0, 0, 0, 0, ""};
    char wrong[GRADE_PARTS][GRADE_TEXT] = {""}, shorts[GRADE_TEXT] = "";
    int points = 0, total = 0, parts = 0;
    for (int p = 0; p < GRADE_PARTS; p++)
        for (int m = 0; m < GRADE_KINDS; m++) grade_part_of[p][m] = grade_all_of[m] = 1;
    for (; parts < GRADE_PARTS && exercise.part[parts].points; total += exercise.part[parts++].points) {
        if (run.over) snprintf(wrong[parts], GRADE_TEXT, "not tried, after that");
        else (exercise.examine ? exercise.examine : grade_cases)(&run, parts, wrong[parts]);
        points += *wrong[parts] ? 0 : exercise.part[parts].points;
    }
    for (int p = parts - 1; p >= 0; p--) {
        if (!*wrong[p]) continue;
        grade_name_mistake(p, wrong[p]);
        char *last = strrchr(wrong[p], '\n');
        if (!last || !strncmp(last, "\nwith ", 6) || !strncmp(last, "\nwhere ", 7)) last = wrong[p] - 1;
        shorts[0] = 0;
        grade_say(shorts, "wrong %s: %.*s", exercise.part[p].what, (int)strcspn(last + 1, "\n"), last + 1);
    }
    grade_end(&run, NULL);
    if (total != GRADE_POINTS) grade_give_up("the points of the parts do not add up to 10 in", exercise.file);
    if (!points && !run.written && !*run.death)
        snprintf(shorts, sizeof shorts, "nothing is written yet: fill in the hole in %s", exercise.file);
    for (int p = 0; p < parts && (run.written || points || *run.death); p++) {
        const grade_part *part = &exercise.part[p];
        printf("    %-5s %d/%d  %s\n", *wrong[p] ? "wrong" : "ok", *wrong[p] ? 0 : part->points, part->points,
               part->what);
        for (char *line = strtok(wrong[p], "\n"); line; line = strtok(NULL, "\n"))
            printf("               %s\n", line);
    }
    printf("%d\t%s\n", points, shorts);
    return 0;
}

#endif
#endif
