/* cores.c [KERNELS...] - what 2, 8 and 64 cores would gain, on one, by set of kernels: a model with measured parts.

   The library is compiled without threads here, and divides its work as it does for that many: the tasks of a division
   run one after another, and each is timed. With a core for each of them, a division takes as long as its longest task,
   and what passes between the cores; what is not divided takes as long as here. What passes is counted: a cache line
   goes from core to core to begin, to take a task (and to find none left), to report it, and to end. What one such
   passage takes is measured with two threads. Memory and its bandwidth are as for one core: not modelled. */
#define _GNU_SOURCE
static void timed_task(int tasks, void (*task)(void *user, int k), void *user, int k);
#define PPO__DO_TASK(pool, task, user, k) timed_task((pool)->tasks, task, user, k)
#define PPO_NO_THREADS
#define PPO__MODEL_THREADS
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include <pthread.h>
#include <time.h>

#include "workloads.h"

enum { PASSAGES = 1000000 };

/* -- the tasks -- */

static double all, longest;        /* of the division that is being done: seconds of its tasks */
static double divided, with_cores; /* of all: seconds on one core, and on one core per task */
static long divisions, tasks_done;

static void timed_task(int tasks, void (*task)(void *user, int k), void *user, int k) {
    double began = thread_clock();
    task(user, k);
    double seconds = thread_clock() - began;
    all += seconds;
    longest = seconds > longest ? seconds : longest;
    tasks_done++;
    if (k < tasks - 1) return;
    divided += all;
    with_cores += longest;
    all = longest = 0;
    divisions++;
}

static void nothing(void *user, int k) { (void)user, (void)k; }

/* Seconds that two clocks take: between them, and with what stands outside of them. */
static void clocks(double *between, double *whole) {
    double began = thread_clock();
    divided = 0;
    for (int i = 0; i < 100000; i++) timed_task(1, nothing, NULL, 0);
    *whole = (thread_clock() - began) / 100000;
    *between = divided / 100000;
}

/* -- a passage of a cache line between two cores -- */

static volatile int32_t turn;

static void *answer(void *user) {
    for (int32_t i = 0; i < PASSAGES; i++) {
        while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != 2 * i + 1) {
        }
        __atomic_store_n(&turn, 2 * i + 2, __ATOMIC_RELEASE);
    }
    return user;
}

static double passage(void) {
    double least = INFINITY;
    pthread_t other;
    for (int repeat = 0; repeat < 3; repeat++) {
        turn = 0;
        if (pthread_create(&other, NULL, answer, NULL)) return NAN;
        double began = ppo_clock();
        for (int32_t i = 0; i < PASSAGES; i++) {
            __atomic_store_n(&turn, 2 * i + 1, __ATOMIC_RELEASE);
            while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != 2 * i + 2) {
            }
        }
        double seconds = (ppo_clock() - began) / PASSAGES / 2;
        pthread_join(other, NULL);
        least = seconds < least ? seconds : least;
    }
    return least;
}

/* -- what is done -- */

/* Of some work: its seconds on one core, and what of them was divided. */
typedef struct parts {
    double seconds, divided, with_cores, divisions;
} parts;

/* a x + b y */
static parts sum(double a, parts x, double b, parts y) {
    return (parts){a * x.seconds + b * y.seconds, a * x.divided + b * y.divided,
                   a * x.with_cores + b * y.with_cores, a * x.divisions + b * y.divisions};
}

static double between, whole; /* of clocks() */

static parts parts_of(int (*work)(int threads, int minibatch, int epochs), int threads, int minibatch,
                      int epochs) {
    divided = with_cores = 0, divisions = tasks_done = 0;
    double began = thread_clock();
    if (!work(threads, minibatch, epochs)) exit(fail());
    double seconds = thread_clock() - began - (double)tasks_done * whole;
    return (parts){seconds, divided - (double)tasks_done * between, with_cores - (double)divisions * between,
                   (double)divisions};
}

/* 64 steps of 1,024 copies of CartPole, and epochs over them */
static int training(int threads, int minibatch, int epochs) {
    ppo_config c = ppo_config_default();
    c.num_envs = 1024, c.rollout_steps = 64, c.total_steps = 4 * 65536;
    c.minibatch_size = minibatch, c.epochs = epochs, c.threads = threads, c.shards = 64;
    return train(cartpole_env(), c, NULL) > 0;
}

static int transformer(int threads, int minibatch, int epochs) {
    ppo_lm *lm = NULL;
    ppo_tokens data = {0};
    ppo_fit_config fit = ppo_fit_config_default();
    fit.batch_size = minibatch, fit.epochs = epochs;
    int fine = !transformer_create(&lm, &data) && !ppo_set_threads(threads) && !ppo_fit_sft(lm, &data, &fit);
    ppo_lm_free(lm);
    ppo_tokens_free(&data);
    return fine;
}

static void report_parts(const char *what, int cores, double line, parts p) {
    double passages = p.divisions * line * (4 * cores + 2), serial = p.seconds - p.divided;
    double then = serial + p.with_cores + passages;
    printf("%-32s %5d %9.1f%% %9.1f%% %9.1f%% %9.1f%% %8.2f\n", what, cores, 100 * serial / p.seconds,
           100 * serial / then, 100 * (p.with_cores - p.divided / cores) / then, 100 * passages / then,
           p.seconds / then);
    fflush(stdout);
}

static int measure(const kernel_set *set) {
    static const int cores[] = {2, 8, 64}, minibatches[] = {256, 2048, 16384};
    const double line = passage();
    char name[64];
    (void)set;
    clocks(&between, &whole);
    printf("a cache line from core to core takes %.0f ns\n", 1e9 * line);
    printf("%-32s %5s %10s %10s %10s %10s %8s\n", "", "cores", "serial", "then", "uneven", "passages",
           "gain");
    for (int i = 0; i < 3; i++) {
        parts once = parts_of(training, cores[i], 16384, 1), twice = parts_of(training, cores[i], 16384, 2);
        report_parts("collecting, 1,024 environments", cores[i], line, sum(2, once, -1, twice));
    }
    for (int m = 0; m < 3; m++)
        for (int i = 0; i < 3; i++) {
            parts some = parts_of(training, cores[i], minibatches[m], 2);
            snprintf(name, sizeof name, "update, minibatch %d", minibatches[m]);
            report_parts(name, cores[i], line,
                         sum(1, parts_of(training, cores[i], minibatches[m], 6), -1, some));
        }
    for (int batch = BATCH; batch <= 4 * BATCH; batch *= 4)
        for (int i = 0; i < 3; i++) {
            parts some = parts_of(transformer, cores[i], batch, 1);
            snprintf(name, sizeof name, "a transformer, batch of %d", batch);
            report_parts(name, cores[i], line, sum(1, parts_of(transformer, cores[i], batch, 2), -1, some));
        }
    return 0;
}

int main(int argc, char **argv) {
    printf("cores by a model\n\n");
    return by_sets(argc, argv, 0, measure);
}
