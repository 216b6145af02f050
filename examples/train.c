/* train.c - trains a policy from the command line, and saves, resumes, watches or exports it.

   It teaches how a program drives a trainer: iterate until the steps are done, look at each iteration's progress,
   log it, write a checkpoint now and then. You will see a progress line, the learning curve and, last, a line like
       eval: mean return 500.0 +- 0.0 over 20 episodes, 100000 steps in 0.71 s
   Ctrl-C ends the training after the iteration; what was learned until then is saved and evaluated all the same.
   The command line is read in options.h. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "options.h"

#include <math.h>
#include <signal.h>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/select.h>
#include <sys/time.h>
#endif

enum { MAX_POINTS = 1024 };

typedef struct history { /* the learning curve */
    long  stride;        /* iterations per point */
    int   points;
    float x[MAX_POINTS], y[MAX_POINTS];
} history;

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig) {
    interrupted = 1;
    signal(sig, SIG_DFL); /* the second Ctrl-C kills */
}

static void remember(history *h, const ppo_progress *p) {
    if (h->points == MAX_POINTS) { /* full: every second point is kept, and half as many follow */
        for (h->points = 0; h->points < MAX_POINTS / 2; h->points++) {
            h->x[h->points] = h->x[2 * h->points + 1];
            h->y[h->points] = h->y[2 * h->points + 1];
        }
        h->stride *= 2;
    }
    if (p->iteration % h->stride) return;
    h->x[h->points] = (float)p->steps;
    h->y[h->points++] = p->mean_return; /* NaN before the first finished episode */
}

/* A new agent and its trainer, or those of a saved file. */
static ppo_status start(const options *o, ppo_agent **agent, ppo_trainer **trainer) {
    if (o->resume) return ppo_trainer_resume(o->resume, &o->env, &o->config, agent, trainer);
    ppo_status status =
        o->load ? ppo_agent_load(o->load, &o->env, agent) : ppo_agent_create(&o->env, &o->config, agent);
    return status ? status : ppo_trainer_create(&o->env, &o->config, *agent, trainer);
}

/* The loop. Ends when all steps are done, at Ctrl-C, or with a failure. */
static ppo_status train(const options *o, ppo_trainer *trainer, ppo_progress *p, history *h) {
    ppo_log   *log = NULL;
    ppo_status status = PPO_OK;
    if (o->csv || o->tensorboard)
        status = ppo_log_open(o->csv, o->tensorboard, ppo_trainer_steps(trainer), &log);
    while (!status && !interrupted && !ppo_trainer_done(trainer)) {
        status = ppo_trainer_iterate(trainer, p);
        if (!status && log) status = ppo_log_write(log, p);
        if (!status && o->save && p->iteration % o->save_every == 0)
            status = ppo_trainer_save(trainer, o->save);
        if (status) break;
        remember(h, p);
        if (!o->quiet) ppo_print_progress(p, stderr);
    }
    ppo_log_close(log);
    return status || !o->save ? status : ppo_trainer_save(trainer, o->save);
}

static const char *json_number(char text[64], float x) { /* JSON has no NaN */
    if (!isfinite(x)) return "null";
    snprintf(text, 64, "%.1f", x);
    return text;
}

static int report(const options *o, const ppo_evaluation *e, long steps, double seconds) {
    char mean[64], std[64];
    if (o->json) {
        printf("{\"env\":\"%s\",\"seed\":%llu,\"steps\":%ld,\"seconds\":%.2f,\"steps_per_second\":%.0f,"
               "\"eval_mean_return\":%s,\"eval_std_return\":%s,\"eval_episodes\":%d}\n",
               o->env.name, (unsigned long long)o->config.seed, steps, seconds, (double)steps / seconds,
               json_number(mean, e->mean_return), json_number(std, e->std_return), e->episodes);
    } else {
        printf("eval: mean return %.1f +- %.1f over %d episodes, %ld steps in %.2f s\n", e->mean_return,
               e->std_return, e->episodes, steps, seconds);
    }
    return fflush(stdout) || ferror(stdout) ? fail("the results could not be written", "") : 0;
}

static void rest(double seconds) {
#if defined(__unix__) || defined(__APPLE__)
    struct timeval pause = {0, (long)(1e6 * seconds)};
    select(0, NULL, NULL, NULL, &pause);
#endif
}

/* Draws each step of an episode over the one before. */
static int show(const ppo_frame *frame, void *user) {
    const ppo_env *env = (const ppo_env *)user;
    printf("%s", frame->step ? "\033[H" : "\033[H\033[2J");
    if (env->draw) env->draw(frame->state, stdout);
    printf("step %d  return %.2f %s\033[K\n", frame->step, frame->total,
           frame->terminated  ? "(the end)"
           : frame->truncated ? "(out of time)"
                              : "");
    fflush(stdout);
    rest(frame->terminated || frame->truncated ? 1 : 0.03);
    return interrupted;
}

static int watch(const options *o) {
    ppo_agent *agent = NULL;
    ppo_status status = ppo_agent_load(o->watch, &o->env, &agent);
    for (int i = 0; i < o->eval_episodes && !status && !interrupted; i++) {
        status = ppo_play(agent, &o->env, o->config.seed + (uint64_t)i, 0, show, (void *)&o->env, NULL);
    }
    ppo_agent_free(agent);
    return status ? fail("", ppo_last_error()) : 0;
}

int main(int argc, char **argv) {
    static history h = {1, 0, {0}, {0}};
    options        o;
    if (read_options(&o, argc, argv)) return 1;
    if (o.help) return print_help(&o), fflush(stdout) ? fail("the help could not be written", "") : 0;
    signal(SIGINT, on_interrupt);
    if (o.watch) return watch(&o);

    ppo_agent     *agent = NULL;
    ppo_trainer   *trainer = NULL;
    ppo_progress   p;
    long           steps = 0;
    ppo_evaluation e = {PPO_OK, 0, 0, 0, 0, 0, 0};
    double         start_time = ppo_clock(), seconds = 0;
    ppo_status     status = start(&o, &agent, &trainer);
    if (!status) status = train(&o, trainer, &p, &h);
    seconds = ppo_clock() - start_time;
    steps = ppo_trainer_steps(trainer);
    ppo_trainer_free(trainer);
    if (!status && o.export_to) status = ppo_export_c(agent, "policy", o.export_to);
    if (!status) e = ppo_evaluate(agent, &o.env, o.eval_episodes, o.config.seed);
    ppo_agent_free(agent);
    if (status || e.status) return fail("", ppo_last_error());
    if (interrupted && !o.quiet) fprintf(stderr, "\ninterrupted: this is what was learned until now\n");
    if (interrupted && o.save)
        fprintf(stderr, "to go on: build/train --resume %s --save %s\n", o.save, o.save);
    if (!o.quiet) ppo_print_curve(o.json ? stderr : stdout, "mean return", h.x, h.y, h.points, 72, 16);
    return report(&o, &e, steps, seconds);
}
