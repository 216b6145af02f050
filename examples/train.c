/* train.c - trains a policy from the command line, and saves, resumes, watches or exports it.

   It teaches how a program drives a trainer: iterate until the steps are done, look at each iteration's progress,
   log it, evaluate and write a checkpoint now and then. You will see a progress line, the learning curve and, last, a
   line like
       eval: mean return 500.0 +- 0.0 over 20 episodes, 100000 steps in 0.71 s; sampled 498.7 +- 5.6
   by the most likely actions, and by sampled ones.
   Ctrl-C ends the training after the iteration: what was learned until then is evaluated all the same, and with --save
   the program says how to continue. A run that was cut short like that exits with 130.
   The command line is read in options.h; seeds.h trains with many seeds, search.h tries many settings. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "companions/ppo_conv.h"
#include "companions/ppo_export.h"
#include "companions/ppo_check.h"
#include "companions/ppo_gru.h"
#include "companions/ppo_onnx.h"
#include "companions/ppo_report.h"
#include "companions/ppo_resume.h"
#include "processes.h"
#include "options.h"
#include "best.h"
#include "watch.h"
#include "seeds.h"
#include "search.h"

#include <math.h>

enum { MAX_POINTS = 1024 };

typedef struct history { /* the learning curve */
    int64_t stride;      /* iterations per point */
    int points;
    float x[MAX_POINTS], y[MAX_POINTS];
} history;

static void remember(history *h, const ppo_progress *p) {
    if (h->points == MAX_POINTS) { /* full: every second point is kept, and half as many follow */
        for (h->points = 0; h->points < MAX_POINTS / 2; h->points++) {
            h->x[h->points] = h->x[2 * h->points + 1];
            h->y[h->points] = h->y[2 * h->points + 1];
        }
        h->stride *= 2;
    }
    if (p->iteration % h->stride || isnan(p->mean_return)) return; /* NaN before the first finished episode */
    h->x[h->points] = (float)p->steps;
    h->y[h->points++] = p->mean_return;
}

/* What seemed to go wrong in the run: the latest sentence of each symptom. */
enum { MAX_WARNINGS = 32 };
static struct {
    const char *symptom;
    char sentence[160];
} warnings[MAX_WARNINGS];
static int warning_count;

static void keep_warning(const char *symptom, const char *sentence) {
    int k = 0;
    if (!symptom) return;
    while (k < warning_count && strcmp(warnings[k].symptom, symptom)) k++;
    if (k == MAX_WARNINGS) return;
    if (k == warning_count) warning_count++;
    warnings[k].symptom = symptom;
    snprintf(warnings[k].sentence, sizeof warnings[k].sentence, "%s", sentence);
}

/* --export: a C header, or by its name an ONNX model. */
static ppo_status export_policy(const options *o, const ppo_agent *agent) {
    const char *end = strrchr(o->export_to, '.');
    const ppo_onnx_options how = {PPO_ONNX_STANDARD, 0, o->env.action_mask != NULL};
    if (end && strcmp(end, ".onnx") == 0) return ppo_export_onnx(agent, o->export_to, &how);
    return ppo_export_c(agent, "policy", o->export_to);
}

/* The files of --save and --export. */
static ppo_status store(const options *o, const ppo_agent *agent, const ppo_trainer *trainer) {
    ppo_status status = o->save ? ppo_trainer_save(trainer, o->save) : PPO_OK;
    if (!status && o->export_to) status = export_policy(o, agent);
    if (!status && o->export_int8) status = ppo_export_c_int8(agent, &o->env, "policy", o->export_int8);
    return status;
}

/* The loop. Ends when all steps are done, the target is reached, at Ctrl-C, or with a failure. */
static ppo_status train(const options *o, ppo_agent *agent, ppo_trainer *trainer, history *h, best *b) {
    ppo_log *log = NULL;
    ppo_progress p;
    ppo_status status = take_up_best(b, o, agent);
    if (!status && (o->csv || o->tensorboard))
        status = ppo_log_open(o->csv, o->tensorboard, ppo_trainer_steps(trainer), &log);
    if (!status) status = store(o, agent, trainer); /* what cannot be written shows at once */
    if (!status) status = judge(b, o, agent, ppo_trainer_steps(trainer), 0, log);
    while (!status && !interrupted && !b->reached && !ppo_trainer_done(trainer)) {
        status = ppo_trainer_iterate(trainer, &p);
        if (!status && log) status = ppo_log_write(log, &p);
        const int saves = o->save && p.iteration % o->save_every == 0;
        if (!status && saves) status = ppo_log_sync(log); /* its rows are on the disk before the checkpoint */
        if (!status && saves) status = ppo_trainer_save(trainer, o->save);
        if (status) break;
        remember(h, &p);
        keep_warning(p.symptom, p.warning);
        if (!o->quiet) ppo_print_progress(&p, stderr);
        status = judge(b, o, agent, p.steps, interrupted || ppo_trainer_done(trainer), log);
    }
    if (!status && o->save) status = ppo_log_sync(log);
    ppo_log_close(log);
    return status ? status : store(o, agent, trainer);
}

static void print_flag(const char *name, const char *path) {
    if (path) fprintf(stderr, " --%s \"%s\"", name, path);
}

static void say_how_to_continue(const options *o) {
    if (!o->quiet) fprintf(stderr, "\ninterrupted: this is what was learned until now\n");
    if (!o->save) return;
    fprintf(stderr, "to continue: %s", o->program);
    print_flag("resume", o->save);
    print_flag("save", o->save);
    print_flag("save-best", o->save_best);
    if (o->eval_every) fprintf(stderr, " --eval-every %d", o->eval_every);
    if (!isnan(o->target_return)) fprintf(stderr, " --target-return %g", o->target_return);
    print_flag("csv", o->csv);
    print_flag("tensorboard", o->tensorboard);
    print_flag("export", o->export_to);
    print_flag("export-int8", o->export_int8);
    fprintf(stderr, "\n");
}

static const char *json_number(char text[64], float x) { /* JSON has no NaN */
    if (!isfinite(x)) return "null";
    snprintf(text, 64, "%.1f", x);
    return text;
}

/* The last evaluation, by the most likely actions and by sampled ones; the best one of those before, if there were any.
   steps: of the whole run; done: in these seconds. */
static int report(const options *o, const ppo_evaluation *e, const ppo_evaluation *sampled, const best *b,
                  int64_t steps, int64_t done, double seconds) {
    char mean[64], std[64];
    double speed = seconds > 0 ? (double)done / seconds : 0;
    if (o->json) {
        printf("{\"env\":\"%s\",\"seed\":%llu,\"steps\":%lld,\"seconds\":%.2f,\"steps_per_second\":%.0f,"
               "\"eval_mean_return\":%s,\"eval_std_return\":%s,\"eval_episodes\":%d",
               o->env.name, (unsigned long long)o->config.seed, (long long)steps, seconds, speed,
               json_number(mean, e->mean_return), json_number(std, e->std_return), e->episodes);
        printf(",\"eval_sampled_mean_return\":%s,\"eval_sampled_std_return\":%s",
               json_number(mean, sampled->mean_return), json_number(std, sampled->std_return));
        if (b->evaluations) printf(",\"best_mean_return\":%s", json_number(mean, b->mean_return));
        if (b->steps) printf(",\"best_steps\":%lld", (long long)b->steps);
        printf(",\"warnings\":{");
        for (int k = 0; k < warning_count; k++) /* no sentence has a quotation mark */
            printf("%s\"%s\":\"%s\"", k ? "," : "", warnings[k].symptom, warnings[k].sentence);
        printf("}}\n");
    } else {
        printf("eval: mean return %.1f +- %.1f over %d episodes, %lld steps in %.2f s; sampled %.1f +- %.1f",
               e->mean_return, e->std_return, e->episodes, (long long)done, seconds, sampled->mean_return,
               sampled->std_return);
        if (b->evaluations) printf("; best %.1f", b->mean_return);
        if (b->steps) printf(" at %lld steps", (long long)b->steps);
        printf("\n");
    }
    return fflush(stdout) || ferror(stdout) ? fail("the results could not be written") : 0;
}

/* --inspect: the exit status is 1 if something was found. */
static int inspect(const options *o) {
    ppo_inspection found;
    if (ppo_env_check_with(&o->env, &o->config, 10000, o->config.seed, &found))
        return fail("%s", ppo_last_error());
    for (int i = 0; i < found.findings; i++) printf("%s: %s\n", o->env.name, found.finding[i]);
    if (!found.findings)
        printf("%s: nothing to complain about in %d random steps, %d episodes\n", o->env.name, found.steps,
               found.episodes);
    return found.findings > 0;
}

int main(int argc, char **argv) {
    static history h = {1, 0, {0}, {0}};
    best b = {0, 0, 0, 0, 0, 0};
    options o;
    if (read_options(&o, argc, argv)) return 1;
    if (o.help) {
        print_help(&o);
        return fflush(stdout) ? fail("the help could not be written") : 0;
    }
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* in one file or pipe, lines of stdout and stderr stay in order */
#ifndef WITH_MPI                           /* where mpirun ends all processes */
    signal(SIGINT, on_interrupt);
#endif
    if (o.watch) return watch(&o);
    if (o.inspect) return inspect(&o);
    if (o.seeds) return report_seeds(&o);
    if (o.trials) return search(&o);

    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_evaluation e = {PPO_OK, 0, 0, 0, 0, 0, 0}, sampled = e;
    double begin = ppo_clock();
    ppo_status status = start(&o, &agent, &trainer);
    int64_t before = ppo_trainer_steps(trainer);
    if (!status && !o.no_train && !o.quiet && ppo_trainer_done(trainer))
        fprintf(stderr, "all %lld steps are done: give a larger --total-steps to continue\n",
                (long long)o.config.total_steps);
    if (!status) status = o.no_train ? store(&o, agent, trainer) : train(&o, agent, trainer, &h, &b);
    double seconds = ppo_clock() - begin - b.seconds;
    int64_t steps = ppo_trainer_steps(trainer);
    int cut_short = interrupted && !b.reached && !ppo_trainer_done(trainer);
    ppo_trainer_free(trainer);
    signal(SIGINT, SIG_DFL); /* the evaluation ends at once */
    if (!status && cut_short) say_how_to_continue(&o);
    if (!status) e = ppo_evaluate(agent, &o.env, o.eval_episodes, o.config.seed);
    if (!status) status = e.status;
    if (!status) sampled = ppo_evaluate_sampled(agent, &o.env, o.eval_episodes, o.config.seed);
    if (!status) status = sampled.status;
    char sentence[160];
    if (!status && ppo_evaluation_check(&o.config, &e, &sampled, sentence)) {
        keep_warning("greedy", sentence);
        if (!o.quiet) fprintf(stderr, "warning: %s\n", sentence);
    }
    if (!status && !o.quiet && h.points)
        ppo_print_curve(o.json ? stderr : stdout, "mean return", h.x, h.y, h.points, 72, 16);

    int failed;
    if (status) failed = fail("%s", ppo_last_error());
    else failed = report(&o, &e, &sampled, &b, steps, steps - before, seconds);
    ppo_agent_free(agent);
    return !failed && cut_short ? 130 : failed;
}
