/* game.c - characters that learn inside a game, which keeps its own loop and never waits for them.

   Sixteen characters each catch what falls on their side of the screen. A frame begins every millisecond: the world
   moves on, every character acts, and what it sees and earns is pushed to the trainer. That can learn in two ways:

       slices    in the game's own thread: each frame gives ppo_trainer_learn() what is left of half a millisecond
       thread    in another thread: the game lends it the trainer once a rollout is full; meanwhile the characters
                 act with a copy of the agent, and what they do is not recorded

   You will see for each way how many they catch, second by second, and how long a frame took: the median, and the
   longest. A busy system may stop any program for some milliseconds, which the processor time does not count.

       build/game [seconds [seed]] */
#define _POSIX_C_SOURCE 200809L /* for clock_gettime() and nanosleep() */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- the game ---- */

enum { CHARACTERS = 16, OBS = 4 };

typedef struct character {
    float x, thing_x, thing_y,
        drift; /* where it is, and the thing, from -1 to 1; the thing's way per frame */
} character;

static void drop_thing(character *c, ppo_rng *rng) {
    c->thing_x = ppo_rng_range(rng, -1, 1);
    c->thing_y = 1;
    c->drift = ppo_rng_range(rng, -0.03f, 0.03f);
}

static void observe(const character *c, float *obs) {
    obs[0] = c->x;
    obs[1] = c->thing_x;
    obs[2] = c->thing_y;
    obs[3] = 30 * c->drift;
}

/* One frame of a character, which steps left (0), stays (1) or steps right. Returns 1 if it caught the thing, -1 if it
   missed it, 0 while that falls. */
static int move_on(character *c, int action, ppo_rng *rng) {
    c->x = fminf(1, fmaxf(-1, c->x + 0.05f * (float)(action - 1)));
    c->thing_x += c->drift;
    if (fabsf(c->thing_x) > 1) c->drift = -c->drift, c->thing_x = copysignf(1, c->thing_x);
    c->thing_y -= 0.05f;
    if (c->thing_y > -1) return 0;
    int caught = fabsf(c->x - c->thing_x) < 0.1f;
    drop_thing(c, rng);
    return caught ? 1 : -1;
}

/* ---- the learner's thread: learns whenever it is lent the trainer ---- */

typedef struct loan {
    ppo_trainer *trainer;
    pthread_mutex_t lock; /* for what follows; held only to read or to write it */
    pthread_cond_t lent_or_quit;
    int lent, quit;
    ppo_status status; /* of the latest learning, and what was wrong */
    char error[256];
} loan;

static void *learner_thread(void *user) {
    loan *l = (loan *)user;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (!l->lent && !l->quit) pthread_cond_wait(&l->lent_or_quit, &l->lock);
        if (!l->lent) break;
        pthread_mutex_unlock(&l->lock);
        ppo_status status = ppo_trainer_learn(l->trainer, 0, NULL); /* 0: all there is to learn */
        pthread_mutex_lock(&l->lock);
        l->status = status;
        if (status) snprintf(l->error, sizeof l->error, "%s", ppo_last_error());
        l->lent = 0;
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* 1: the trainer is the game's. With `lend` 1 it is then lent. The game never waits: 0 also if the lock is taken. */
static int trainer_is_here(loan *l, int lend) {
    if (pthread_mutex_trylock(&l->lock)) return 0;
    int here = !l->lent;
    if (here && lend) {
        l->lent = 1;
        pthread_cond_signal(&l->lent_or_quit);
    }
    pthread_mutex_unlock(&l->lock);
    return here;
}

/* ---- the loop ---- */

static void must(ppo_status status) {
    if (status == PPO_OK) return;
    fprintf(stderr, "game: %s\n", ppo_last_error());
    exit(1);
}

static double processor_seconds(void) { /* of this thread */
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_until(double time) {
    double left = time - ppo_clock();
    if (left <= 0) return;
    struct timespec t = {0, (long)(1e9 * left)};
    nanosleep(&t, NULL);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct result {
    double caught;                     /* share of the things, in the last second */
    int rollouts;                      /* learned from, or being learned from at the end */
    double median, longest, processor; /* seconds of a frame; the longest in processor time */
} result;

/* Plays `frames` frames, one each `frame` seconds (0: no waiting), and prints every second. */
static result play(int threaded, int frames, double frame, uint64_t seed, FILE *out) {
    enum { SECOND = 1000 };
    ppo_env env; /* a description: the world is ours */
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL, *copy = NULL;
    ppo_trainer *trainer = NULL;
    memset(&env, 0, sizeof env);
    env.obs_size = OBS;
    env.action_space = ppo_discrete(3);
    must(ppo_config_set_all(&cfg,
                            "num_envs=16 rollout_steps=128 epochs=8 gamma=0.95 learning_rate=1e-3 "
                            "learning_rate_schedule=constant entropy_coef=0.01 total_steps=1000000000"));
    cfg.seed = seed;
    must(ppo_agent_create(&env, &cfg, &agent));
    must(ppo_agent_copy(agent, &copy));
    must(ppo_trainer_create(&env, &cfg, agent, &trainer));
    loan l = {trainer, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, PPO_OK, ""};
    pthread_t thread;
    if (threaded && pthread_create(&thread, NULL, learner_thread, &l))
        must(ppo_fail(PPO_ERROR_MEMORY, "no thread can be started"));

    character all[CHARACTERS];
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    float obs[CHARACTERS][OBS];
    int choice[CHARACTERS], here = 1, caught = 0, things = 0;
    ppo_actions choices = {choice, NULL};
    result r = {0, 0, 0, 0, 0};
    double *took = (double *)malloc((size_t)frames * sizeof *took), start = ppo_clock();
    if (!took) must(ppo_fail(PPO_ERROR_MEMORY, "no memory for %d frames", frames));
    for (int i = 0; i < CHARACTERS; i++) all[i].x = 0, drop_thing(&all[i], &rng);

    for (int f = 0; f < frames; f++) {
        sleep_until(start + f * frame);
        double begin = ppo_clock(), processor = processor_seconds();

        if (threaded && !here) here = trainer_is_here(&l, 0);
        must(here && l.status ? ppo_fail(l.status, "%s", l.error) : PPO_OK);
        for (int i = 0; i < CHARACTERS; i++) { /* the world moves on */
            ppo_outcome outcome;
            memset(&outcome, 0, sizeof outcome);
            if (f) outcome.reward = (float)move_on(&all[i], choice[i], &rng);
            observe(&all[i], obs[i]);
            if (here) must(ppo_trainer_observe(trainer, i, obs[i], NULL, f ? &outcome : NULL));
            things += outcome.reward != 0;
            caught += outcome.reward > 0;
        }
        for (int i = 0; i < CHARACTERS && here; i++) { /* everybody acts, */
            ppo_action action;
            must(ppo_trainer_act(trainer, i, &action));
            choice[i] = action.discrete;
        }
        if (!here) must(ppo_act_many(copy, obs[0], NULL, CHARACTERS, NULL, &rng, &choices));
        if (here && !threaded) { /* and learns in what is left of the slice, */
            ppo_progress progress;
            must(ppo_trainer_learn(trainer, fmax(0.5 - 1e3 * (ppo_clock() - begin), 0.001), &progress));
            r.rollouts += progress.iteration > 0;
        } else if (here && ppo_trainer_ready(trainer)) { /* or lets the other thread learn */
            must(ppo_agent_assign(copy, agent));
            here = !trainer_is_here(&l, 1);
            r.rollouts += !here;
        }
        r.processor = fmax(r.processor, processor_seconds() - processor);
        took[f] = ppo_clock() - begin;

        if ((f + 1) % SECOND && f + 1 < frames) continue;
        r.caught = things ? (double)caught / things : 0;
        fprintf(out, "  %d frames: caught %3.0f %% of %d, rollouts %d\n", f + 1, 100 * r.caught, things,
                r.rollouts);
        things = caught = 0;
    }
    if (threaded) {
        pthread_mutex_lock(&l.lock);
        l.quit = 1;
        pthread_cond_signal(&l.lent_or_quit);
        pthread_mutex_unlock(&l.lock);
        pthread_join(thread, NULL);
    }
    qsort(took, (size_t)frames, sizeof *took, by_size);
    r.median = took[frames / 2];
    r.longest = took[frames - 1];
    free(took);
    ppo_trainer_free(trainer);
    ppo_agent_free(copy);
    ppo_agent_free(agent);
    return r;
}

int main(int argc, char **argv) {
    const char *const way[2] = {"learning in slices of half a millisecond", "learning in another thread"};
    int seconds = argc > 1 ? atoi(argv[1]) : 8;
    uint64_t seed = argc > 2 ? (uint64_t)atoi(argv[2]) : 1;
    if (seconds < 1 || seconds > 3600)
        must(ppo_fail(PPO_ERROR_ARGUMENT, "seconds are 1 to 3600, not %d", seconds));
    for (int threaded = 0; threaded < 2; threaded++) {
        printf("%s\n", way[threaded]);
        result r = play(threaded, 1000 * seconds, 1e-3, seed, stdout);
        printf("  a frame took %.2f ms (median), at most %.2f ms, at most %.2f ms of processor time\n",
               1e3 * r.median, 1e3 * r.longest, 1e3 * r.processor);
    }
    return 0;
}
