#include "ppo.h"

/* What you report about an iteration. It earns no points, but the grader tells from it what goes wrong. */
typedef struct iteration {
    float mean_return;        /* of the episodes that ended in the rollout; 0: none did */
    float first_ratio_error;  /* first minibatch of the iteration: the largest |ratio - 1| */
    float approx_kl;          /* of the last minibatch */
    float clip_fraction;      /* of the last minibatch */
    float entropy;            /* of the last minibatch, mean */
    float explained_variance; /* ppo_explained_variance() of the rollout's values, before the update */
} iteration;

/* Trains a policy in `steps` steps of the environment; report has room for `most` iterations. Returns their
   number. */
int learn(const ppo_env *env, int steps, iteration *report, int most);

/* The best action of the trained policy for each of n observations: [n][obs_size] -> [n]. */
void act(const float *obs, int n, int *action);
