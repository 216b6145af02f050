/* 04_gae.c - lambda: bias of the critic against variance of the rewards.

   Generalized advantage estimation (Schulman 2016, eq. 16) adds up TD errors until the end of the episode:
       A[t] = sum over k of (gamma lambda)^k delta[t + k],    delta[t] = r[t] + gamma V(s[t + 1]) - V(s[t]).
   gamma, the discount, is what a reward is worth if it comes one step later; here it is 1. lambda 0 uses one
   reward and the critic V for all later ones; lambda 1 uses every reward of the episode.
   This lesson measures both on the random walk of Sutton and Barto (2018, example 6.2), which can be solved
   exactly. You will see bias and standard deviation for each lambda, with a critic that is wrong and with one
   that is right, and the error of averaged estimates as curves: with a wrong critic the best lambda lies
   between 0 and 1, and the more estimates are averaged, the nearer it is to 1. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"

/* A row of states, 1 .. N. Each step goes left or right with probability 1/2. 0 and N + 1 end the episode;
   the reward is 1 at N + 1, else 0. */
enum { N = 9, MIDDLE = (N + 1) / 2, EPISODES = 20000, MAX_STEPS = 1 << 20, POINTS = 41, BATCHES = 3 };

/* Episodes one after another, as in a rollout: `terminated` tells ppo_gae() where each ends. */
static int state[MAX_STEPS], next_state[MAX_STEPS], first[EPISODES], steps;
static unsigned char terminated[MAX_STEPS];
static float reward[MAX_STEPS], value[MAX_STEPS], next_value[MAX_STEPS], advantage[MAX_STEPS];

/* Every episode starts in the middle with a step to the right: the action whose advantage is estimated. */
static void walk(ppo_rng *rng) {
    for (int episode = 0; episode < EPISODES; episode++) {
        first[episode] = steps;
        for (int s = MIDDLE, move = 1; s >= 1 && s <= N && steps < MAX_STEPS; steps++) {
            state[steps] = s;
            s += move;
            next_state[steps] = s;
            reward[steps] = s == N + 1;
            terminated[steps] = s == 0 || s == N + 1;
            move = ppo_rng_below(rng, 2) ? 1 : -1;
        }
    }
}

typedef struct error {
    double bias, deviation; /* of one estimate from the exact advantage */
} error;

static error measure(const float V[N + 2], float lambda, float exact) {
    static float off[EPISODES];
    for (int t = 0; t < steps; t++) {
        value[t] = V[state[t]];
        next_value[t] = V[next_state[t]];
    }
    must(ppo_gae(reward, value, next_value, terminated, NULL, steps, 1, 1, lambda, advantage, NULL));
    for (int i = 0; i < EPISODES; i++) off[i] = advantage[first[i]] - exact;
    error e = {mean_of(off, EPISODES), deviation_of(off, EPISODES)};
    return e;
}

/* The rms error of the mean of n independent estimates: averaging shrinks the noise, not the bias. */
static double rms_of_mean(error e, int n) { return sqrt(e.bias * e.bias + e.deviation * e.deviation / n); }

int main(int argc, char **argv) {
    static const float lambdas[] = {0, 0.5f, 0.8f, 0.9f, 0.95f, 1};
    static const int batches[BATCHES] = {16, 64, 256};
    float V[N + 2] = {0}, coarse[N + 2] = {0}, x[POINTS], y[BATCHES][POINTS], best[BATCHES];
    ppo_rng rng = ppo_rng_stream(lesson_seed(argc, argv), PPO_STREAM_USER, 0);

    /* Bellman's equation, V = mean of (r + V(next)) over both directions, iterated until it holds. */
    for (int sweep = 0; sweep < 1000; sweep++)
        for (int s = 1; s <= N; s++) V[s] = (V[s - 1] + V[s + 1] + (s == N)) / 2;
    /* A critic with one value for three neighbours: their mean. In the middle it is right: an error there
       would shift the estimates for left and right alike, and cancel in the policy gradient. */
    for (int s = 1; s <= N; s++) {
        int left = s - (s - 1) % 3;
        coarse[s] = (V[left] + V[left + 1] + V[left + 2]) / 3;
    }
    float exact = V[MIDDLE + 1] - V[MIDDLE]; /* A(s, a) = Q(s, a) - V(s) */
    for (int k = 0; k < 2; k++) {
        printf("%-14s", k ? "coarse critic" : "exact values");
        for (int s = 1; s <= N; s++) printf(" %5.2f", (double)(k ? coarse : V)[s]);
        printf("\n");
    }
    printf("\nThe advantage of a step to the right from the middle is %.3f. Its estimates:\n\n",
           (double)exact);

    walk(&rng);
    printf("         coarse critic       error of the mean of     exact critic\n"
           "lambda    bias  std dev    16        64       256      bias  std dev\n");
    for (int i = 0; i < 6; i++) {
        error wrong = measure(coarse, lambdas[i], exact), right = measure(V, lambdas[i], exact);
        printf("%6.2f  %6.3f  %6.3f   %6.3f   %6.3f   %6.3f    %6.3f  %6.3f\n", (double)lambdas[i],
               wrong.bias, wrong.deviation, rms_of_mean(wrong, 16), rms_of_mean(wrong, 64),
               rms_of_mean(wrong, 256), right.bias, right.deviation);
    }
    chart c = {
        .title = "Error of the mean advantage, coarse critic", .x_label = "lambda", .y_label = "rms error"};
    for (int i = 0; i < POINTS; i++) {
        x[i] = (float)i / (POINTS - 1);
        error e = measure(coarse, x[i], exact);
        for (int k = 0; k < BATCHES; k++) y[k][i] = (float)rms_of_mean(e, batches[k]);
    }
    for (int k = 0; k < BATCHES; k++) {
        static const char *const names[] = {"mean of 16", "mean of 64", "mean of 256"};
        int least = 0;
        for (int i = 1; i < POINTS; i++) least = y[k][i] < y[k][least] ? i : least;
        best[k] = x[least];
        printf("best lambda for a mean of %3d: %.3f\n", batches[k], (double)best[k]);
        chart_line(&c, names[k], x, y[k], POINTS);
    }
    chart_save(&c, "build/lessons/04_gae.svg");

    error td = measure(coarse, 0, exact), half = measure(coarse, 0.5f, exact), mc = measure(coarse, 1, exact);
    claim(fabs(td.bias) > 10 * fabs(mc.bias), "lambda 0 has the critic's bias, lambda 1 none");
    claim(mc.deviation > 5 * half.deviation,
          "lambda 1 has the noise of all rewards: %.1f times that of lambda 0.5",
          mc.deviation / half.deviation);
    claim(best[0] > 0 && best[0] <= best[1] && best[1] <= best[2] && best[2] < 1,
          "the best lambda lies between, and nearer to 1 for larger batches");
    claim(fabs(measure(V, 0, exact).bias) < 0.01, "with an exact critic lambda 0 has no bias");
    return lesson_failures > 0;
}
