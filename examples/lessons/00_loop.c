/* 00_loop.c - the loop by hand: an agent, an environment, episodes, returns; nothing is learned yet.

   The agent sees an observation and chooses an action. The environment answers with a reward and the next
   observation, until the episode ends: it terminated (the pole fell) or it was truncated (500 steps are the
   limit here). That is all there is; everything later is about how to choose.
     return       the sum of an episode's rewards; the aim is a large expected one
     discounted   a reward k steps later counts gamma^k. G[t] = reward[t] + gamma G[t + 1], backwards
     policy       what chooses: here a coin, and two rules that somebody wrote
   The task is CartPole: observation [position, speed, angle, angular speed], actions 0 (left) and 1
   (right), reward 1 for each step.

   You will see the returns of three policies, with intervals: one episode says little, a hundred say much.
   And that the backward recursion gives what the definition of G gives, with one multiplication a step. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "../envs/cartpole.h"
#include "lesson.h"

enum { EPISODES = 100, LIMIT = 500, POLICIES = 3 };

static const char *const names[POLICIES] = {"a coin", "push where it leans", "... and where it turns"};

static int choose(int policy, const float *obs, ppo_rng *rng) {
    if (policy == 0) return ppo_rng_below(rng, 2);
    if (policy == 1) return obs[2] > 0; /* the angle */
    return obs[2] + obs[3] > 0;         /* the angle, and where it will be */
}

/* Plays an episode; reward [LIMIT], angle [LIMIT]. Returns its number of steps. */
static int play(int policy, ppo_rng *rng, float *reward, float *angle) {
    cartpole state;
    float obs[4];
    cartpole_reset(&state, rng, obs);
    for (int t = 0; t < LIMIT; t++) {
        ppo_action action = {.discrete = choose(policy, obs, rng)};
        ppo_outcome outcome = {0};
        cartpole_step(&state, rng, &action, obs, &outcome);
        reward[t] = outcome.reward, angle[t] = obs[2];
        if (outcome.terminated) return t + 1;
    }
    return LIMIT; /* truncated: the pole still stands */
}

int main(int argc, char **argv) {
    static float returns[POLICIES][EPISODES], angle[POLICIES][LIMIT], reward[LIMIT], G[LIMIT + 1], x[LIMIT];
    ppo_rng rng = ppo_rng_stream(lesson_seed(argc, argv), PPO_STREAM_USER, 0);
    const float gamma = 0.99f;
    double worst = 0; /* of the two ways to compute G */
    int first[POLICIES], truncated[POLICIES] = {0};
    for (int t = 0; t < LIMIT; t++) x[t] = (float)t;
    printf("%d episodes of each policy      return of the first   mean return      most   truncated\n",
           EPISODES);
    for (int p = 0; p < POLICIES; p++) {
        float most = 0;
        for (int k = 0; k < EPISODES; k++) {
            static float now[LIMIT];
            int steps = play(p, &rng, reward, now);
            if (k == 0) first[p] = steps, memcpy(angle[p], now, sizeof now);
            truncated[p] += steps == LIMIT;
            G[steps] = 0;
            for (int t = steps - 1; t >= 0; t--) { /* backwards */
                G[t] = reward[t] + gamma * G[t + 1];
                returns[p][k] += reward[t];
            }
            double sum = 0; /* forwards, by the definition */
            for (int t = 0; t < steps; t++) sum += pow((double)gamma, t) * (double)reward[t];
            worst = fmax(worst, fabs(sum - (double)G[0]));
            most = fmaxf(most, returns[p][k]);
        }
        printf("  %-26s %22.0f %9.1f +- %4.1f %9.0f %11d\n", names[p], (double)returns[p][0],
               mean_of(returns[p], EPISODES), interval_of(returns[p], EPISODES), (double)most, truncated[p]);
    }
    chart c = {.title = "CartPole by hand: the first episode of each policy",
               .x_label = "step",
               .y_label = "angle (rad)"};
    for (int p = 0; p < POLICIES; p++) chart_line(&c, names[p], x, angle[p], first[p]);
    chart_save(&c, "build/lessons/00_loop.svg");

    claim(worst < 1e-3, "both ways to compute a discounted return agree, to %.0e", worst);
    claim(better_by(returns[1], returns[0], EPISODES) > 0, "a rule beats the coin, by %.0f at least",
          better_by(returns[1], returns[0], EPISODES));
    claim(better_by(returns[2], returns[1], EPISODES) > 0,
          "a rule that looks ahead beats it by %.0f more at least",
          better_by(returns[2], returns[1], EPISODES));
    float spread = (float)deviation_of(returns[0], EPISODES);
    claim((double)spread > 0.3 * mean_of(returns[0], EPISODES),
          "one episode says little: the coin's returns are %.0f +- %.0f (deviation)",
          mean_of(returns[0], EPISODES), (double)spread);
    return lesson_failures > 0;
}
