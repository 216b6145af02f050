/* best.h - evaluation during a training, for train.c: --eval-every, --save-best and --target-return. It teaches what an
   agent may be asked between two iterations: ppo_evaluate() and ppo_agent_save() change no bit of the run. A program that
   calls ppo_train() does the same in its callback, with progress->agent. */
#ifndef BEST_H
#define BEST_H

#include "options.h"

#include <math.h>

typedef struct best {
    int evaluations;   /* 0: none yet, */
    float mean_return; /* else the best so far, */
    int64_t steps;     /* after so many steps of the run */
    int64_t next;      /* steps at which the next one is due */
    int reached;       /* 1: the target is */
    double seconds;    /* that evaluations took */
} best;

/* Where a run continues, the best so far is in the file of --save-best, if that is of this environment. */
static ppo_status take_up_best(best *b, const options *o, int64_t steps) {
    ppo_agent *agent = NULL;
    if (!o->eval_every || !o->resume || !o->save_best) return PPO_OK;
    if (ppo_agent_load(o->save_best, &o->env, &agent)) return PPO_OK;
    ppo_evaluation e = ppo_evaluate(agent, &o->env, o->eval_episodes, o->config.seed);
    b->evaluations = 1;
    b->mean_return = e.mean_return;
    b->steps = steps;
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
    const int better = !b->evaluations || e.mean_return > b->mean_return;
    ppo_status status = e.status;
    if (!status && better && o->save_best && !ppo_group_rank()) status = ppo_agent_save(agent, o->save_best);
    if (!status && log) status = ppo_log_scalar(log, "eval/mean_reward", e.mean_return, steps);
    if (status) return status;
    if (better) b->mean_return = e.mean_return, b->steps = steps;
    b->evaluations++;
    b->reached = e.mean_return >= o->target_return; /* NaN: there is none */
    if (!o->quiet)
        fprintf(stderr, "\neval at %lld steps: mean return %.1f +- %.1f%s%s\n", (long long)steps,
                e.mean_return, e.std_return, better ? ", the best so far" : "",
                b->reached ? ", the target is reached" : "");
    return PPO_OK;
}

#endif
