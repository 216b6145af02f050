/* gae.c - lambda: bias of the critic against variance of the rewards.

   Generalized advantage estimation (Schulman 2016, eq. 16) adds up TD errors until the end of the episode:
       A[t] = sum over k of (gamma lambda)^k delta[t + k],    delta[t] = r[t] + gamma V(s[t + 1]) - V(s[t]).
   lambda 0 uses one reward and the critic V for all later ones; lambda 1 uses every reward of the episode.
   This lesson measures both on the random walk of Sutton and Barto (2018, example 6.2), which can be solved
   exactly. You will see bias and standard deviation for each lambda, with a critic that is wrong and with one
   that is right, and the error of averaged estimates as a curve, which is lowest between 0 and 1. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include <math.h>
#include <stdlib.h>

/* A row of states, 1 .. N. Each step goes left or right with probability 1/2. 0 and N + 1 end the episode;
   the reward is 1 at N + 1, else 0. */
enum { N = 9, MIDDLE = (N + 1) / 2, EPISODES = 20000, MAX_STEPS = 1 << 20, POINTS = 41 };

static const float discount = 1;

/* Episodes one after another, as in a rollout: `terminated` tells ppo_gae() where each ends. */
static int           state[MAX_STEPS], next_state[MAX_STEPS], first[EPISODES], steps;
static unsigned char terminated[MAX_STEPS];
static float         reward[MAX_STEPS], value[MAX_STEPS], next_value[MAX_STEPS], advantage[MAX_STEPS];

static float paid_for(int s) { return s == N + 1 ? 1.0f : 0.0f; } /* the reward of a step to s */

/* Iterates Bellman's equation, V = mean of (r + discount V(next)) over both directions, until it holds. */
static void solve(float V[N + 2]) {
    float change = 1;
    for (int s = 0; s <= N + 1; s++) V[s] = 0;
    while (change > 1e-7f) {
        change = 0;
        for (int s = 1; s <= N; s++) {
            float left = paid_for(s - 1) + discount * V[s - 1], right = paid_for(s + 1) + discount * V[s + 1];
            change = fmaxf(change, fabsf((left + right) / 2 - V[s]));
            V[s] = (left + right) / 2;
        }
    }
}

/* Every episode starts in the middle with a step to the right: the action whose advantage is estimated. */
static void walk(void) {
    ppo_rng rng = ppo_rng_stream(1, PPO_STREAM_USER, 0);
    for (int episode = 0; episode < EPISODES; episode++) {
        first[episode] = steps;
        for (int s = MIDDLE, move = 1; s >= 1 && s <= N && steps < MAX_STEPS; steps++) {
            state[steps] = s;
            s += move;
            next_state[steps] = s;
            reward[steps] = paid_for(s);
            terminated[steps] = s == 0 || s == N + 1;
            move = ppo_rng_below(&rng, 2) ? 1 : -1;
        }
    }
}

typedef struct error {
    double bias, deviation; /* of one estimate from the exact advantage */
} error;

static error measure(const float V[N + 2], float lambda, float exact) {
    double sum = 0, squares = 0;
    for (int t = 0; t < steps; t++) {
        value[t] = V[state[t]];
        next_value[t] = V[next_state[t]];
    }
    if (ppo_gae(reward, value, next_value, terminated, NULL, steps, 1, discount, lambda, advantage, NULL) !=
        PPO_OK) {
        fprintf(stderr, "%s\n", ppo_last_error());
        exit(1);
    }
    for (int i = 0; i < EPISODES; i++) {
        double off = advantage[first[i]] - exact;
        sum += off;
        squares += off * off;
    }
    double bias = sum / EPISODES, variance = squares / EPISODES - bias * bias;
    error  e = {bias, sqrt(fmax(0, variance))};
    return e;
}

/* The rms error of the mean of n independent estimates: averaging shrinks the noise, not the bias. */
static double rms_of_mean(error e, int n) { return sqrt(e.bias * e.bias + e.deviation * e.deviation / n); }

static void print_values(const char *name, const float V[N + 2]) {
    printf("%-14s", name);
    for (int s = 1; s <= N; s++) printf(" %5.2f", (double)V[s]);
    printf("\n");
}

int main(void) {
    static const float lambdas[] = {0, 0.5f, 0.8f, 0.9f, 0.95f, 1};
    static const int   batches[] = {1, 16, 256};
    float              V[N + 2], coarse[N + 2] = {0}, x[POINTS], y[3][POINTS];
    solve(V);
    /* A critic with one value for three neighbours: their mean. In the middle it is right: an error there
       would shift the estimates for left and right alike, and cancel in the policy gradient. */
    for (int s = 1; s <= N; s++) {
        int left = s - (s - 1) % 3;
        coarse[s] = (V[left] + V[left + 1] + V[left + 2]) / 3;
    }
    float exact = paid_for(MIDDLE + 1) + discount * V[MIDDLE + 1] - V[MIDDLE]; /* A(s, a) = Q(s, a) - V(s) */
    print_values("exact values", V);
    print_values("coarse critic", coarse);
    printf("\nThe advantage of a step to the right from the middle is %.3f. Its estimates:\n\n",
           (double)exact);

    walk();
    printf("         coarse critic       error of the mean of     exact critic\n"
           "lambda    bias  std dev     1        16       256      bias  std dev\n");
    for (int i = 0; i < 6; i++) {
        error wrong = measure(coarse, lambdas[i], exact), right = measure(V, lambdas[i], exact);
        printf("%6.2f  %6.3f  %6.3f   %6.3f   %6.3f   %6.3f    %6.3f  %6.3f\n", (double)lambdas[i],
               wrong.bias, wrong.deviation, rms_of_mean(wrong, 1), rms_of_mean(wrong, 16),
               rms_of_mean(wrong, 256), right.bias, right.deviation);
    }
    for (int i = 0; i < POINTS; i++) {
        x[i] = (float)i / (POINTS - 1);
        error e = measure(coarse, x[i], exact);
        for (int k = 0; k < 3; k++) y[k][i] = (float)rms_of_mean(e, batches[k]);
    }
    ppo_print_curve(stdout, "\nerror of the mean of 16 against lambda, coarse critic", x, y[1], POINTS, 72,
                    16);
    for (int k = 0; k < 3; k++) {
        int best = 0;
        for (int i = 1; i < POINTS; i++) best = y[k][i] < y[k][best] ? i : best;
        printf("best lambda for a mean of %3d: %.2f\n", batches[k], (double)x[best]);
    }
}
