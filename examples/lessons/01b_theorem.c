/* 01b_theorem.c - the policy gradient theorem for sequences, exactly: over all trajectories of a small task.

   Lesson 1 had one action. Here an episode has three: in a state s the policy chooses an action, chance the
   next state. The probability of a trajectory is a product,
       p(tau) = product over t of pi(a[t] | s[t]) P(s[t+1] | s[t], a[t]),
   its logarithm a sum, and P does not depend on the policy: in grad log p(tau) the dynamics drop out. Hence
       grad J = sum over tau of p(tau) R(tau) sum over t of grad log pi(a[t] | s[t]).
   Nobody needs to know P, only to sample from it. Three things may be changed without changing the sum:
     full return      R(tau), as above
     reward to go     only rewards from t on: an action does not change what was before it
     baseline         and less V(s[t]), the expected reward to go: the advantage
   One thing may not: an action's own reward alone is short-sighted.

   There are 216 trajectories (3 states, 2 actions, 3 steps), so that J, gradients and variances are sums,
   without chance. You will see that the three are the gradient, which is taken from differences of J, and
   what a sample of each varies. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "lesson.h"

enum { STATES = 3, ACTIONS = 2, STEPS = 3, SIZE = STATES * ACTIONS, TRAJECTORIES = 216 };
enum { FULL, TO_GO, ADVANTAGE, OWN, WAYS };

static const char *const names[WAYS] = {"full return", "reward to go", "less a baseline", "own reward alone"};
static double P[STATES][ACTIONS][STATES], reward[STATES][ACTIONS]; /* the task */
static double V[STEPS + 1][STATES];                                /* of a policy, by step */

static void probabilities(const double *theta, double pi[STATES][ACTIONS]) {
    for (int s = 0; s < STATES; s++) {
        double sum = 0;
        for (int a = 0; a < ACTIONS; a++) sum += pi[s][a] = exp(theta[s * ACTIONS + a]);
        for (int a = 0; a < ACTIONS; a++) pi[s][a] /= sum;
    }
}

/* J = V[0][0]: every episode begins in state 0. */
static double expected_return(const double *theta) {
    double pi[STATES][ACTIONS];
    probabilities(theta, pi);
    memset(V, 0, sizeof V);
    for (int t = STEPS - 1; t >= 0; t--)
        for (int s = 0; s < STATES; s++)
            for (int a = 0; a < ACTIONS; a++) {
                double Q = reward[s][a];
                for (int next = 0; next < STATES; next++) Q += P[s][a][next] * V[t + 1][next];
                V[t][s] += pi[s][a] * Q;
            }
    return V[0][0];
}

/* Trajectory k: its states, actions and probability. */
static double trajectory(int k, double pi[STATES][ACTIONS], int *s, int *a) {
    double p = 1;
    for (int t = 0, now = 0; t < STEPS; t++) {
        s[t] = now, a[t] = k % ACTIONS, k /= ACTIONS;
        now = k % STATES, k /= STATES;
        p *= pi[s[t]][a[t]] * P[s[t]][a[t]][now];
    }
    return p;
}

/* What stands before grad log pi(a[t] | s[t]). */
static double weight(int way, int t, const int *s, const int *a) {
    double sum = 0;
    for (int k = way == FULL ? 0 : t; k < (way == OWN ? t + 1 : STEPS); k++) sum += reward[s[k]][a[k]];
    return way == ADVANTAGE ? sum - V[t][s[t]] : sum;
}

int main(int argc, char **argv) {
    ppo_rng rng = ppo_rng_stream(lesson_seed(argc, argv), PPO_STREAM_USER, 0);
    double theta[SIZE], by_difference[SIZE], pi[STATES][ACTIONS], total = 0, off[WAYS] = {0}, length = 0;
    float deviation[WAYS];
    for (int s = 0; s < STATES; s++)
        for (int a = 0; a < ACTIONS; a++) {
            double sum = 0;
            theta[s * ACTIONS + a] = (double)ppo_rng_normal(&rng) / 2,
                                reward[s][a] = 1 + (double)ppo_rng_normal(&rng);
            for (int next = 0; next < STATES; next++)
                sum += P[s][a][next] = (double)ppo_rng_range(&rng, 0.1f, 1);
            for (int next = 0; next < STATES; next++) P[s][a][next] /= sum;
        }
    for (int i = 0; i < SIZE; i++) {
        double at = theta[i], h = 1e-5;
        theta[i] = at + h, by_difference[i] = expected_return(theta) / (2 * h);
        theta[i] = at - h, by_difference[i] -= expected_return(theta) / (2 * h);
        theta[i] = at, length += by_difference[i] * by_difference[i];
    }
    printf("J = %.4f\n%-20s", expected_return(theta), "grad J, differences");
    for (int i = 0; i < SIZE; i++) printf(" %7.4f", by_difference[i]);
    printf("\n%-20s %*s   deviation of a sample\n", "over all trajectories", SIZE * 8, "");
    probabilities(theta, pi);
    for (int way = 0; way < WAYS; way++) {
        double sum[SIZE] = {0}, squares = 0;
        total = 0;
        for (int k = 0; k < TRAJECTORIES; k++) {
            int s[STEPS], a[STEPS];
            double p = trajectory(k, pi, s, a), g[SIZE] = {0};
            for (int t = 0; t < STEPS; t++)
                for (int b = 0; b < ACTIONS; b++) /* d log pi(a) / d logit b = (a == b) - pi(b) */
                    g[s[t] * ACTIONS + b] += weight(way, t, s, a) * ((a[t] == b) - pi[s[t]][b]);
            for (int i = 0; i < SIZE; i++) sum[i] += p * g[i], squares += p * g[i] * g[i];
            total += p;
        }
        printf("%-20s", names[way]);
        for (int i = 0; i < SIZE; i++) {
            printf(" %7.4f", sum[i]);
            off[way] += (sum[i] - by_difference[i]) * (sum[i] - by_difference[i]) / length;
            squares -= sum[i] * sum[i];
        }
        deviation[way] = (float)sqrt(squares);
        printf(" %23.3f\n", (double)deviation[way]);
    }
    chart c = {.title = "How much one trajectory's gradient varies",
               .x_label = "standard deviation",
               .rows = names,
               .row_count = WAYS};
    chart_rows(&c, NULL, deviation, NULL, NULL, WAYS);
    chart_save(&c, "build/lessons/01b_theorem.svg");
    claim(fabs(total - 1) < 1e-9, "the probabilities of all %d trajectories sum to 1", TRAJECTORIES);
    for (int way = FULL; way <= ADVANTAGE; way++)
        claim(off[way] < 1e-10, "%s: the gradient, to %.0e", names[way], sqrt(off[way]));
    claim(off[OWN] > 1e-4, "%s: another direction, off by %.0f %%", names[OWN], 100 * sqrt(off[OWN]));
    claim(deviation[ADVANTAGE] < deviation[FULL], "the advantage varies %.0f %% of what the full return does",
          100 * (double)(deviation[ADVANTAGE] / deviation[FULL]));
    return lesson_failures > 0;
}
