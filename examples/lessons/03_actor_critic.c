/* 03_actor_critic.c - actor and critic: the TD error says how good one action was.

   A corridor: cells 1 .. 7, steps to the left or to the right. A step costs 0.1, plus noise of deviation 1;
   cell 8 pays 5, cell 0 pays 0. Both end the episode. The return is the sum of the rewards from here to the
   end; the critic V(s) predicts it for state s, and Q(s, a) is its mean if the next action is a. After a
   step,
       delta = r + V(s') - V(s)                         (temporal difference, Sutton 1988)
   estimates the advantage of the action, A(s, a) = Q(s, a) - V(s), if V is right: how much better it was than
   what the policy does on average. It does not wait for the end of the episode.

   You will see that the mean of delta is A, that a return is noisier than delta, and three learners side by
   side: REINFORCE (returns), REINFORCE with the critic as baseline, and actor-critic (delta) (Sutton and
   Barto 13.5). */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"

enum { CELLS = 9, MIDDLE = 4, MAX_STEPS = 400, EPISODES = 300 };
enum { RUNS = 100, BLOCK = 10, POINTS = EPISODES / BLOCK };
enum { RETURNS, BASELINE, TD, LEARNERS };

typedef struct step {
    int s, action;
    float reward;
} step;

static int ended(int s) { return s == 0 || s == CELLS - 1; }

/* One episode from the middle by the policy softmax(theta[s]); returns its number of steps. */
static int episode(float theta[CELLS][2], ppo_rng *rng, step *steps) {
    int n = 0;
    for (int s = MIDDLE; !ended(s) && n < MAX_STEPS; n++) {
        steps[n].s = s;
        steps[n].action = ppo_categorical_sample(theta[s], 2, 1, rng);
        s += steps[n].action ? 1 : -1;
        steps[n].reward = (s == CELLS - 1 ? 5.0f : 0.0f) - 0.1f + ppo_rng_normal(rng);
    }
    return n;
}

/* theta[s] += rate A grad log pi(action): an actor's step. */
static void improve(float theta[CELLS][2], const step *at, float A, float rate) {
    float gradient[2];
    must(ppo_token_logp_backward(theta[at->s], &at->action, &A, NULL, 1, 2, 1, gradient));
    for (int a = 0; a < 2; a++) theta[at->s][a] += rate * gradient[a];
}

static void learn(int learner, ppo_rng *rng, float curve[POINTS]) {
    static step steps[MAX_STEPS];
    float theta[CELLS][2] = {{0}}, V[CELLS] = {0};
    for (int e = 0; e < EPISODES; e++) {
        int n = episode(theta, rng, steps);
        float G = 0;
        for (int t = n - 1; t >= 0; t--) {
            int next = steps[t].s + (steps[t].action ? 1 : -1), s = steps[t].s;
            float delta = steps[t].reward + (ended(next) ? 0 : V[next]) - V[s];
            G += steps[t].reward;
            improve(theta, &steps[t], learner == RETURNS ? G : learner == BASELINE ? G - V[s] : delta, 0.1f);
            V[s] += 0.1f * (learner == TD ? delta : G - V[s]);
        }
        curve[e / BLOCK] += G / (BLOCK * RUNS);
    }
}

int main(int argc, char **argv) {
    static step steps[MAX_STEPS];
    static float curve[LEARNERS][POINTS], x[POINTS];
    static float delta[200000], G[200000];
    uint64_t seed = lesson_seed(argc, argv);
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);

    /* The exact values of the random policy: Bellman's equation, iterated until it holds. */
    float V[CELLS] = {0}, theta[CELLS][2] = {{0}};
    for (int sweep = 0; sweep < 2000; sweep++)
        for (int s = 1; s < CELLS - 1; s++)
            V[s] = 0.5f * (V[s - 1] + V[s + 1] + (s == CELLS - 2 ? 5.0f : 0)) - 0.1f;
    float A = -0.1f + V[MIDDLE + 1] - V[MIDDLE];
    int count = 0;
    while (count < 20000) { /* episodes whose first step is to the right */
        int n = episode(theta, &rng, steps);
        if (!steps[0].action) continue;
        for (int t = 0; t < n; t++) G[count] += steps[t].reward;
        G[count] -= V[MIDDLE];
        delta[count++] = steps[0].reward + V[MIDDLE + 1] - V[MIDDLE];
    }
    double td = mean_of(delta, count), td_dev = deviation_of(delta, count), mc = mean_of(G, count),
           mc_dev = deviation_of(G, count);
    printf("advantage of a step to the right in the middle: %.3f exactly\n"
           "  TD error     mean %.3f, standard deviation %.2f\n  return - V   mean %.3f, standard deviation "
           "%.2f\n",
           (double)A, td, td_dev, mc, mc_dev);

    for (int k = 0; k < LEARNERS; k++)
        for (int run = 0; run < RUNS; run++) {
            ppo_rng own = ppo_rng_stream(seed, PPO_STREAM_USER + 1, (uint32_t)run);
            learn(k, &own, curve[k]);
        }
    printf("\nreturn, mean of %d runs   first 50 episodes   last 100\n", RUNS);
    static const char *const names[] = {"REINFORCE", "with a baseline", "actor-critic"};
    double end[LEARNERS];
    chart c = {.title = "Learning to walk to the right", .x_label = "episodes", .y_label = "return"};
    for (int i = 0; i < POINTS; i++) x[i] = (float)(BLOCK * (i + 1));
    for (int k = 0; k < LEARNERS; k++) {
        end[k] = mean_of(curve[k] + POINTS - 10, 10);
        printf("  %-22s %17.2f %10.2f\n", names[k], mean_of(curve[k], 5), end[k]);
        chart_line(&c, names[k], x, curve[k], POINTS);
    }
    chart_save(&c, "build/lessons/03_actor_critic.svg");

    claim(fabs(td - (double)A) < 4.5 * td_dev / sqrt(count), "the mean TD error is the advantage");
    claim(mc_dev > 2 * td_dev, "a return is %.1f times as noisy as a TD error", mc_dev / td_dev);
    claim(end[TD] > end[BASELINE] && end[BASELINE] > end[RETURNS],
          "the less noise, the better the actor learns");
    return lesson_failures > 0;
}
