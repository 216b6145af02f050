/* 03_actor_critic.c - actor and critic: the TD error says how good one action was.

   A corridor: cells 1 .. 7, steps to the left or to the right. A step costs 0.1, plus noise of deviation 1;
   cell 8 pays 5, cell 0 pays 0. Both end the episode. The return is the sum of the rewards from here to the
   end; the critic V(s) predicts it for state s, and Q(s, a) is its mean if the next action is a. After a
   step,
       delta = r + V(s') - V(s)                         (temporal difference, Sutton 1988)
   estimates the advantage of the action, A(s, a) = Q(s, a) - V(s), if V is right: how much better it was than
   what the policy does on average. It needs one step, not the rest of the episode.

   You will see that the mean of delta is A, that a return is noisier than delta, and three learners side by
   side, each at seven learning rates: REINFORCE (returns), REINFORCE with the critic as baseline, and
   actor-critic (delta; Sutton and Barto 13.5). With small steps noise averages out, and all learn; less noise
   allows larger steps. A baseline helps little here: a return still has the noise of all later steps. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"

enum { CELLS = 9, MIDDLE = 4, MAX_STEPS = 400, EPISODES = 300 };
enum { RUNS = 100, LAST = 100, RATES = 7 };
enum { RETURNS, BASELINE, TD, LEARNERS };

static const float rates[RATES] = {0.01f, 0.02f, 0.05f, 0.1f, 0.2f, 0.4f, 0.8f};

typedef struct step {
    int s, action;
    float reward;
} step;

static int ended(int s) { return s == 0 || s == CELLS - 1; }

/* One episode from the middle by the policy softmax(theta[s]); returns its number of steps. last: the cell
   after it. */
static int episode(float theta[CELLS][2], ppo_rng *rng, step *steps, int *last) {
    int n = 0, s = MIDDLE;
    for (; !ended(s) && n < MAX_STEPS; n++) {
        steps[n].s = s;
        steps[n].action = ppo_categorical_sample(theta[s], 2, 1, rng);
        s += steps[n].action ? 1 : -1;
        steps[n].reward = (s == CELLS - 1 ? 5.0f : 0.0f) - 0.1f + ppo_rng_normal(rng);
    }
    *last = s;
    return n;
}

/* theta[s] += rate A grad log pi(action): an actor's step. */
static void improve(float theta[CELLS][2], const step *at, float A, float rate) {
    float gradient[2];
    must(ppo_token_logp_backward(theta[at->s], &at->action, &A, NULL, 1, 2, 1, gradient));
    for (int a = 0; a < 2; a++) theta[at->s][a] += rate * gradient[a];
}

/* The mean return of the last episodes. A return from the middle of an episode that was cut is V (lesson 5). */
static float learn(int learner, float rate, ppo_rng *rng) {
    static step steps[MAX_STEPS];
    float theta[CELLS][2] = {{0}}, V[CELLS] = {0}, late = 0;
    for (int e = 0; e < EPISODES; e++) {
        int last, n = episode(theta, rng, steps, &last);
        float G = ended(last) ? 0 : V[last], earned = 0;
        for (int t = n - 1; t >= 0; t--) {
            int next = steps[t].s + (steps[t].action ? 1 : -1), s = steps[t].s;
            float delta = steps[t].reward + (ended(next) ? 0 : V[next]) - V[s];
            G += steps[t].reward, earned += steps[t].reward;
            improve(theta, &steps[t], learner == RETURNS ? G : learner == BASELINE ? G - V[s] : delta, rate);
            V[s] += 0.1f * (learner == TD ? delta : G - V[s]);
        }
        if (e >= EPISODES - LAST) late += earned / LAST;
    }
    return late;
}

int main(int argc, char **argv) {
    static step steps[MAX_STEPS];
    static float late[LEARNERS][RATES][RUNS], mean[LEARNERS][RATES];
    float largest[LEARNERS] = {0};
    int last;
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
        int n = episode(theta, &rng, steps, &last);
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

    static const char *const names[] = {"REINFORCE", "with a baseline", "actor-critic"};
    chart c = {.title = "Return in the end, by learning rate",
               .x_label = "learning rate",
               .y_label = "return",
               .log_x = 1};
    c.y[0] = -6, c.y[1] = 5;
    printf("\nreturn of the last %d of %d episodes, mean of %d runs\n  learning rate     ", LAST, EPISODES,
           RUNS);
    for (int i = 0; i < RATES; i++) printf("%9.2f", (double)rates[i]);
    for (int k = 0; k < LEARNERS; k++) {
        printf("\n  %-18s", names[k]);
        for (int i = 0; i < RATES; i++) {
            for (int run = 0; run < RUNS; run++) {
                ppo_rng own = ppo_rng_stream(seed, PPO_STREAM_USER + 1, (uint32_t)run);
                late[k][i][run] = learn(k, rates[i], &own);
            }
            mean[k][i] = (float)mean_of(late[k][i], RUNS);
            if (mean[k][i] > 4) largest[k] = rates[i];
            printf("%9.2f", (double)mean[k][i]);
        }
        chart_line(&c, names[k], rates, mean[k], RATES);
    }
    printf("\nThe largest rate that ends above 4: %.2f, %.2f, %.2f\n", (double)largest[RETURNS],
           (double)largest[BASELINE], (double)largest[TD]);
    chart_save(&c, "build/lessons/03_actor_critic.svg");

    claim(fabs(td - (double)A) < 4.5 * td_dev / sqrt(count), "the mean TD error is the advantage");
    claim(mc_dev > 2 * td_dev, "a return is %.1f times as noisy as a TD error", mc_dev / td_dev);
    claim(fabs((double)(mean[RETURNS][1] - mean[TD][1])) < 0.5, "with small steps all three learn");
    claim(better_by(late[TD][4], late[RETURNS][4], RUNS) > 0 &&
              better_by(late[TD][4], late[BASELINE][4], RUNS) > 0,
          "with steps of 0.2 the TD error ends above both returns, by more than chance");
    claim(largest[TD] >= 4 * largest[RETURNS], "less noise allows larger steps");
    return lesson_failures > 0;
}
