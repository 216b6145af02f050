/* In Ocean's style: bytes as observations, memory of its own, rand(), an episode that begins anew in c_step(). */
#include <stdlib.h>
#include <string.h>

typedef struct Log {
    float score, n;
} Log;

typedef struct Catch {
    Log log;
    unsigned char *observations; /* 6 x 5 */
    int *actions;                /* left, stay, right */
    float *rewards;
    unsigned char *terminals;
    int width, height, *ball;
    int paddle;
} Catch;

static void init(Catch *env) { env->ball = (int *)calloc(2, sizeof(int)); }

static void compute_observations(Catch *env) {
    memset(env->observations, 0, (size_t)(env->width * env->height));
    env->observations[env->ball[1] * env->width + env->ball[0]] = 1;
    env->observations[(env->height - 1) * env->width + env->paddle] = 2;
}

static void c_reset(Catch *env) {
    env->ball[0] = rand() % env->width;
    env->ball[1] = 0;
    env->paddle = env->width / 2;
    compute_observations(env);
}

static void c_step(Catch *env) {
    env->paddle += env->actions[0] - 1;
    if (env->paddle < 0) env->paddle = 0;
    if (env->paddle >= env->width) env->paddle = env->width - 1;
    if (++env->ball[1] == env->height - 1) {
        env->rewards[0] = env->ball[0] == env->paddle ? 1 : -1;
        env->terminals[0] = 1;
        env->log.score += env->rewards[0];
        env->log.n += 1;
        c_reset(env);
    }
    compute_observations(env);
}

static void c_close(Catch *env) { free(env->ball); }
