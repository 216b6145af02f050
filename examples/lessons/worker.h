/* worker.h - an actor-critic for CartPole that plays in environments of its own, for 10b_async.c: it collects,
   and computes a gradient. */
#ifndef WORKER_H
#define WORKER_H

#include <pthread.h>

enum { MOST_ENVS = 8, MOST_STEPS = 128, MOST = MOST_ENVS * MOST_STEPS };

static const float discount = 0.99f;

typedef struct worker {
    ppo_params *params; /* its copy of the weights, and its gradient */
    ppo_mlp actor, critic;
    ppo_tape *tape;
    ppo_rng rng;
    cartpole state[MOST_ENVS];
    float now[MOST_ENVS][4], earned[MOST_ENVS];
    int envs, steps, length[MOST_ENVS];
    float obs[MOST][4], next_obs[MOST][4], A[MOST], target[MOST], logp[MOST];
    int action[MOST];
} worker;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that threads share */
static long played;

/* Called with each episode that ends, under `lock`. */
static void (*on_episode)(float its_return);

static inline void begin(worker *w, int envs, int steps, uint64_t seed) {
    static const int actor_sizes[] = {4, 64, 64, 2}, critic_sizes[] = {4, 64, 64, 1};
    ppo_rng init = ppo_rng_stream(seed, PPO_STREAM_INIT, 0); /* the same weights for all */
    w->envs = envs, w->steps = steps;
    must(ppo_params_create(&w->params));
    must(ppo_tape_create(&w->tape));
    must(ppo_mlp_init(&w->actor, w->params, "actor", actor_sizes, 3, PPO_TANH, PPO_IDENTITY, 0.01f, &init));
    must(ppo_mlp_init(&w->critic, w->params, "critic", critic_sizes, 3, PPO_TANH, PPO_IDENTITY, 1, &init));
    for (int e = 0; e < envs; e++) cartpole_reset(&w->state[e], &w->rng, w->now[e]);
}

static inline ppo_tensor *run(worker *w, const ppo_mlp *mlp, const float *obs, int n) {
    return ppo_mlp_forward(w->tape, mlp, ppo_tape_constant(w->tape, obs, n, 4));
}

/* Plays steps of all its environments; advantages with lambda 0.95. */
static inline void collect(worker *w) {
    float reward[MOST], value[MOST], next_value[MOST];
    unsigned char terminated[MOST], truncated[MOST];
    int n = w->steps * w->envs;
    ppo_tape_record(w->tape, 0);
    for (int i = 0; i < n;) {
        ppo_tape_reset(w->tape);
        const float *logits = run(w, &w->actor, w->now[0], w->envs)->data;
        for (int e = 0; e < w->envs; e++, i++) {
            ppo_outcome outcome = {0};
            memcpy(w->obs[i], w->now[e], sizeof w->now[e]);
            w->action[i] = ppo_categorical_sample(logits + 2 * e, 2, 1, &w->rng);
            must(ppo_token_logp(logits + 2 * e, &w->action[i], 1, 2, 1, &w->logp[i], NULL));
            ppo_action action = {.discrete = w->action[i]};
            cartpole_step(&w->state[e], &w->rng, &action, w->now[e], &outcome);
            memcpy(w->next_obs[i], w->now[e], sizeof w->now[e]);
            reward[i] = outcome.reward, w->earned[e] += outcome.reward;
            terminated[i] = outcome.terminated != 0, truncated[i] = ++w->length[e] == 500 && !terminated[i];
            if (!terminated[i] && !truncated[i]) continue;
            pthread_mutex_lock(&lock);
            on_episode(w->earned[e]);
            pthread_mutex_unlock(&lock);
            w->earned[e] = 0, w->length[e] = 0;
            cartpole_reset(&w->state[e], &w->rng, w->now[e]);
        }
    }
    ppo_tape_reset(w->tape);
    memcpy(value, run(w, &w->critic, w->obs[0], n)->data, sizeof(float) * (size_t)n);
    memcpy(next_value, run(w, &w->critic, w->next_obs[0], n)->data, sizeof(float) * (size_t)n);
    must(ppo_gae(reward, value, next_value, terminated, truncated, w->steps, w->envs, discount, 0.95f, w->A,
                 w->target));
    pthread_mutex_lock(&lock);
    played += n;
    pthread_mutex_unlock(&lock);
}

/* The gradient of samples order[0 .. n - 1], in w->params->grad. */
static inline void gradient(worker *w, const int *order, int n, int objective) {
    float obs[MOST][4], A[MOST], target[MOST], logp[MOST];
    int action[MOST];
    ppo_policy_objective how = {(ppo_objective)objective, 0.2f, 0.2f, 0, 0};
    ppo_tensor *now, *entropy;
    for (int k = 0; k < n; k++) {
        int i = order[k];
        memcpy(obs[k], w->obs[i], sizeof obs[k]);
        A[k] = w->A[i], target[k] = w->target[i], logp[k] = w->logp[i], action[k] = w->action[i];
    }
    must(ppo_whiten(A, NULL, n, 1));
    ppo_tape_reset(w->tape), ppo_tape_record(w->tape, 1);
    ppo_tape_categorical(w->tape, run(w, &w->actor, obs[0], n), action, 1, &now, &entropy);
    ppo_tensor *loss = ppo_tape_policy_loss(w->tape, now, logp, A, NULL, &how, NULL);
    ppo_tensor *value =
        ppo_tape_value_loss(w->tape, run(w, &w->critic, obs[0], n), NULL, target, NULL, 0, INFINITY);
    loss = ppo_tape_add(w->tape, loss, ppo_tape_scale(w->tape, value, 0.5f, 0));
    loss = ppo_tape_add(w->tape, loss, ppo_tape_scale(w->tape, ppo_tape_mean(w->tape, entropy), -0.01f, 0));
    ppo_params_zero_grad(w->params);
    must(ppo_tape_backward(w->tape, loss));
}

#endif
