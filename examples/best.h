/* best.h - evaluation during a training, for train.c: --eval-every, --save-best and --target-return. It teaches what an
   agent may be asked between two iterations: ppo_evaluate() and ppo_agent_save() change no bit of the run. A program that
   calls ppo_train() does the same in its callback, with progress->agent. What a run begins with is evaluated, too, but is
   no best and reaches no target. */
#ifndef BEST_H
#define BEST_H

#include "options.h"

#include <errno.h>
#include <math.h>
#include <sys/stat.h>

typedef struct best {
    int evaluations;   /* 0: none yet */
    float mean_return; /* the best so far */
    int64_t steps;     /* step of the run at which it was found; 0: unknown, as the run was resumed after it */
    int64_t next;      /* steps at which the next one is due */
    int reached;       /* 1: the target is */
    double seconds;    /* that evaluations took */
} best;

/* Where a run continues, the best so far is in the file of --save-best, unless there is none: one that cannot be used is
   an error before anything is written. For a new run, a file that cannot be made shows at once. */
static ppo_status take_up_best(best *b, const options *o, const ppo_agent *begins) {
    if (!o->save_best) return PPO_OK;
    struct stat found; /* without opening it: a pipe would wait for a writer */
    const int there = !stat(o->save_best, &found), missing = !there && errno == ENOENT;
    if (!o->resume && !(there && S_ISREG(found.st_mode)) && !ppo_group_rank()) {
        ppo_status status = ppo_agent_save(begins, o->save_best);
        if (!status) remove(o->save_best); /* until there is a best */
        return status;
    }
    if (!o->resume || missing) return PPO_OK;
    ppo_agent *agent = NULL;
    ppo_status status = ppo_agent_load(o->save_best, &o->env, &agent);
    if (status) return status;
    ppo_evaluation e = ppo_evaluate(agent, &o->env, o->eval_episodes, o->config.seed);
    b->evaluations = 1;
    b->mean_return = e.mean_return;
    ppo_agent_free(agent);
    return e.status;
}

/* Evaluates if that is due, at the start and after the last iteration, too. What is better than all before is saved. */
static ppo_status judge(best *b, const options *o, ppo_agent *agent, int64_t steps, int last, ppo_log *log) {
    if (!o->eval_every || (steps < b->next && !last)) return PPO_OK;
    while (b->next <= steps) b->next += o->eval_every;
    const double begin = ppo_clock();
    ppo_evaluation e = ppo_evaluate(agent, &o->env, o->eval_episodes, o->config.seed);
    b->seconds += ppo_clock() - begin;
    const int better = steps && (!b->evaluations || e.mean_return > b->mean_return);
    ppo_status status = e.status;
    if (!status && better && o->save_best && !ppo_group_rank()) status = ppo_agent_save(agent, o->save_best);
    if (!status && log) status = ppo_log_scalar(log, "eval/mean_reward", e.mean_return, steps);
    if (status) return status;
    if (better) b->mean_return = e.mean_return, b->steps = steps;
    b->evaluations += steps > 0;
    b->reached = steps && e.mean_return >= o->target_return; /* NaN: there is none */
    if (!o->quiet)
        fprintf(stderr, "\neval at %lld steps: mean return %.1f +- %.1f%s%s\n", (long long)steps,
                e.mean_return, e.std_return, better ? ", the best so far" : "",
                b->reached ? ", the target is reached" : "");
    return PPO_OK;
}

#endif
