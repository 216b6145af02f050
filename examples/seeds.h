/* seeds.h - --seeds N of train.c: the same training with N seeds, some at a time, and what they reach
   together. It teaches that one run says little: PPO's returns differ from seed to seed more than from
   setting to setting. What is told is the interquartile mean, the mean of the middle half, with an interval
   that holds 95 % of the means of resampled seeds (Agarwal 2021, "Deep Reinforcement Learning at the Edge of
   the Statistical Precipice"). */
#ifndef SEEDS_H
#define SEEDS_H

#include "best.h"
#include "watch.h"

#include <errno.h>

#if !defined(PPO_NO_THREADS) && !defined(_WIN32)
#define SEEDS_IN_THREADS
#include <pthread.h>
#endif

/* Jobs for threads: each takes the next one. */
typedef struct crew {
    void (*job)(void *user, int k);
    void *user;
    int next, count;
#ifdef SEEDS_IN_THREADS
    pthread_mutex_t lock; /* also held by who prints */
#endif
} crew;

static void crew_lock(crew *c, int lock) {
#ifdef SEEDS_IN_THREADS
    if (lock) pthread_mutex_lock(&c->lock);
    else pthread_mutex_unlock(&c->lock);
#else
    (void)c, (void)lock;
#endif
}

static void *crew_member(void *user) {
    crew *c = (crew *)user;
    for (;;) {
        crew_lock(c, 1);
        const int k = interrupted ? c->count : c->next++;
        crew_lock(c, 0);
        if (k >= c->count) return NULL;
        c->job(c->user, k);
    }
}

/* Jobs 0 to count - 1, `at_once` at a time. After Ctrl-C no other is begun. */
static void run_crew(crew *c, int at_once) {
    c->next = 0;
#ifdef SEEDS_IN_THREADS
    pthread_t thread[64];
    int started = 0;
    pthread_mutex_init(&c->lock, NULL);
    while (started < 63 && started < at_once - 1 && started < c->count - 1 &&
           pthread_create(&thread[started], NULL, crew_member, c) == 0)
        started++;
    crew_member(c);
    while (started > 0) pthread_join(thread[--started], NULL);
    pthread_mutex_destroy(&c->lock);
#else
    (void)at_once;
    crew_member(c);
#endif
}

static int by_size(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The mean of x [n] without the least quarter and the largest; sorts x. */
static float interquartile_mean(float *x, int n) {
    const int cut = n / 4;
    double sum = 0;
    qsort(x, (size_t)n, sizeof *x, by_size);
    for (int i = cut; i < n - cut; i++) sum += x[i];
    return (float)(sum / (n - 2 * cut));
}

typedef struct several { /* of returns */
    float mean, low, high, least, most;
} several;

/* The interquartile mean of x [n], which is sorted, and the interval of those of 2000 resamples. */
static several tell_several(float *x, int n) {
    enum { DRAWS = 2000 };
    static float mean[DRAWS];
    float sample[1000];
    ppo_rng rng = ppo_rng_stream(0, PPO_STREAM_USER, 0);
    several s = {interquartile_mean(x, n), 0, 0, x[0], x[n - 1]};
    for (int d = 0; d < DRAWS; d++) {
        for (int i = 0; i < n; i++) sample[i] = x[ppo_rng_below(&rng, (uint32_t)n)];
        mean[d] = interquartile_mean(sample, n);
    }
    qsort(mean, DRAWS, sizeof *mean, by_size);
    s.low = mean[DRAWS / 40];
    s.high = mean[DRAWS - 1 - DRAWS / 40];
    return s;
}

/* One run of the command line's training, by one thread. */
typedef struct seed_run {
    ppo_config config;
    ppo_evaluation result;
    char error[256];
} seed_run;

typedef struct seed_runs {
    crew team;
    const options *o;
    seed_run *run;
} seed_runs;

static void train_seed(void *user, int k) {
    seed_runs *all = (seed_runs *)user;
    seed_run *run = &all->run[k];
    options o = *all->o;
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_progress p;
    o.config = run->config;
    o.config.threads = 1;
    ppo_status status = start(&o, &agent, &trainer);
    while (!status && !interrupted && !ppo_trainer_done(trainer)) status = ppo_trainer_iterate(trainer, &p);
    if (!status) run->result = ppo_evaluate(agent, &o.env, o.eval_episodes, o.config.seed);
    if (!status) status = run->result.status;
    run->result.status = status;
    if (status) snprintf(run->error, sizeof run->error, "%s", ppo_last_error());
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    crew_lock(&all->team, 1);
    if (!o.quiet && !status && !interrupted)
        fprintf(stderr, "seed %llu: mean return %.1f\n", (unsigned long long)o.config.seed,
                run->result.mean_return);
    crew_lock(&all->team, 0);
}

/* Trains `config` with n seeds from `first` on; x [n] receives their returns. 0 if all of them ended. */
static int train_seeds(const options *o, const ppo_config *config, uint64_t first, int n, float *x) {
    seed_runs all;
    memset(&all, 0, sizeof all);
    all.run = (seed_run *)calloc((size_t)n, sizeof *all.run);
    if (!all.run) return fail("no memory for %d runs", n);
    all.team.job = train_seed, all.team.user = &all, all.team.count = n;
    all.o = o;
    for (int k = 0; k < n; k++) all.run[k].config = *config, all.run[k].config.seed = first + (uint64_t)k;
    run_crew(&all.team, o->jobs);
    int failed = 0;
    for (int k = 0; k < n && !failed && !interrupted; k++) {
        x[k] = all.run[k].result.mean_return;
        if (all.run[k].result.status)
            failed = fail("seed %llu: %s", (unsigned long long)all.run[k].config.seed, all.run[k].error);
    }
    free(all.run);
    return failed || interrupted;
}

/* --seeds. Returns the exit status. */
static int report_seeds(const options *o) {
    float x[1000];
    const int n = o->seeds;
    if (train_seeds(o, &o->config, o->config.seed, n, x)) {
        if (interrupted) fprintf(stderr, "interrupted: not all seeds have ended\n");
        return interrupted ? 130 : 1;
    }
    if (o->json) {
        printf("{\"env\":\"%s\",\"seed\":%llu,\"seeds\":%d,\"returns\":[", o->env.name,
               (unsigned long long)o->config.seed, n);
        for (int k = 0; k < n; k++) printf("%s%.1f", k ? "," : "", x[k]);
    }
    const several s = tell_several(x, n);
    if (o->json)
        printf("],\"iqm\":%.1f,\"iqm_low\":%.1f,\"iqm_high\":%.1f,\"least\":%.1f,\"most\":%.1f}\n", s.mean,
               s.low, s.high, s.least, s.most);
    else
        printf(
            "%d seed%s: interquartile mean %.1f, of 95 %% of resamples %.1f to %.1f; least %.1f, most %.1f\n",
            n, n == 1 ? "" : "s", s.mean, s.low, s.high, s.least, s.most);
    return fflush(stdout) || ferror(stdout) ? fail("the results could not be written") : 0;
}

#endif
