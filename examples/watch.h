/* watch.h - plays a saved policy in the terminal, for train.c. It teaches ppo_play(), which shows an episode step by
   step; what a state looks like is the environment's draw(). */
#ifndef WATCH_H
#define WATCH_H

#include "options.h"

#if defined(__unix__) || defined(__APPLE__)
#include <sys/select.h>
#include <sys/time.h>
#endif

static void rest(double seconds) {
#if defined(__unix__) || defined(__APPLE__)
    struct timeval pause;
    pause.tv_sec = (int)seconds;
    pause.tv_usec = (int)(1e6 * (seconds - (int)seconds)); /* below a second, or BSD's select() refuses */
    select(0, NULL, NULL, NULL, &pause);
#endif
}

typedef struct watcher {
    const ppo_env *env;
    int (*is_interrupted)(void);
} watcher;

/* Draws each step of an episode over the one before. */
static int show(const ppo_frame *frame, void *user) {
    const watcher *w = (const watcher *)user;
    printf("%s", frame->step ? "\033[H" : "\033[H\033[2J");
    if (w->env->draw) w->env->draw(frame->state, stdout);
    printf("step %d  return %.2f %s\033[K\n", frame->step, frame->total,
           frame->terminated  ? "(the end)"
           : frame->truncated ? "(out of time)"
                              : "");
    fflush(stdout);
    rest(frame->terminated || frame->truncated ? 1 : 0.03);
    return w->is_interrupted();
}

static int watch(const options *o, int (*is_interrupted)(void)) {
    ppo_agent *agent = NULL;
    watcher    w = {&o->env, is_interrupted};
    ppo_status status = ppo_agent_load(o->watch, &o->env, &agent);
    for (int i = 0; i < o->eval_episodes && !status && !is_interrupted(); i++) {
        status = ppo_play(agent, &o->env, o->config.seed + (uint64_t)i, 0, show, &w, NULL);
    }
    ppo_agent_free(agent);
    return status ? fail("%s", ppo_last_error()) : 0;
}

#endif
