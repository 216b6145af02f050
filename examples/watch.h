/* watch.h - plays a saved policy in the terminal, for train.c. It teaches ppo_play(), which calls a function after each
   step of an episode; the environment's draw() prints the state. Into a file or a pipe the steps are printed one below the
   other, without waiting. */
#ifndef WATCH_H
#define WATCH_H

#include "options.h"

#include <signal.h>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/select.h>
#include <sys/time.h>
#endif

static volatile sig_atomic_t interrupted; /* by Ctrl-C, which ends training and watching */

static void on_interrupt(int sig) {
    interrupted = 1;
    signal(sig, SIG_DFL); /* the second Ctrl-C kills */
}

static void rest(double seconds) {
#if defined(__unix__) || defined(__APPLE__)
    struct timeval pause;
    pause.tv_sec = (int)seconds;
    pause.tv_usec = (int)(1e6 * (seconds - (int)seconds)); /* below a second, as BSD's select() requires */
    select(0, NULL, NULL, NULL, &pause);
#endif
}

/* Draws each step of an episode, in a terminal over the previous one. */
static int show(const ppo_frame *frame, void *user) {
    const ppo_env *env = (const ppo_env *)user;
    const int terminal = is_terminal(1);
    if (terminal) printf("%s", frame->step ? "\033[H" : "\033[H\033[2J");
    if (env->draw) env->draw(frame->state, stdout);
    printf("step %d  return %.2f %s%s\n", frame->step, frame->total,
           frame->terminated  ? "(the end)"
           : frame->truncated ? "(out of time)"
                              : "",
           terminal ? "\033[K" : "");
    fflush(stdout);
    if (terminal) rest(frame->terminated || frame->truncated ? 1 : 0.03);
    return interrupted || ferror(stdout);
}

static int watch(const options *o) {
    ppo_agent *agent = NULL;
    ppo_env env = o->env;
    ppo_status status = ppo_agent_load(o->watch, &env, &agent);
    for (int i = 0; i < o->eval_episodes && !status && !interrupted; i++) {
        status = ppo_play(agent, &env, o->config.seed + (uint64_t)i, 0, show, &env, NULL);
    }
    ppo_agent_free(agent);
    return status ? fail("%s", ppo_last_error()) : 0;
}

#endif
