/* In Ocean's style: several agents in one world with two numbers each as actions, floats, terminals of type float. */
#include <math.h>
#include <stdlib.h>

typedef struct Swarm {
    float *observations; /* [agents][2] where the agent's goal is */
    float *actions;      /* [agents][2] */
    float *rewards;
    float *terminals;
    int num_agents;
    float *x;
} Swarm;

static void place(Swarm *env, int i) {
    for (int j = 0; j < 2; j++) env->x[2 * i + j] = 2.0f * (float)rand() / (float)RAND_MAX - 1.0f;
}

static void show(Swarm *env) {
    for (int i = 0; i < 2 * env->num_agents; i++) env->observations[i] = env->x[i];
}

static void c_reset(Swarm *env) {
    for (int i = 0; i < env->num_agents; i++) place(env, i);
    show(env);
}

static void c_step(Swarm *env) {
    for (int i = 0; i < env->num_agents; i++) {
        float distance = 0;
        for (int j = 0; j < 2; j++) {
            env->x[2 * i + j] += 0.2f * env->actions[2 * i + j];
            distance += fabsf(env->x[2 * i + j]);
        }
        env->rewards[i] = -distance / 4;
        env->terminals[i] = distance < 0.2f || distance > 4;
        if (env->terminals[i] != 0) place(env, i);
    }
    show(env);
}

static void c_close(Swarm *env) { free(env->x); }
