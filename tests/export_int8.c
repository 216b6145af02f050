/* For export.sh: plays CartPole by an exported policy (exact.h), 50,000 steps with its most likely actions and 50,000
   with every tenth at random, and counts how often the same policy with weights of 8 bits (int8.h, whose names begin
   with int8_) chooses the same: 99.5 % must agree in either half. */
#include "ppo.h"
#include "envs/cartpole.h"

#include "exact.h"
#include "int8.h"

enum { STEPS = 50000 };

/* How many of the actions are the same, where `random` in ten are replaced. */
static int play(int random) {
    ppo_rng rng = ppo_rng_stream(1, PPO_STREAM_USER, 0);
    cartpole state;
    float obs[4];
    int same = 0;
    cartpole_reset(&state, &rng, obs);
    for (int i = 0, age = 0; i < STEPS; i++) {
        ppo_outcome out;
        ppo_action action = {policy_predict(obs), NULL, NULL};
        same += int8_predict(obs) == action.discrete;
        if (ppo_rng_below(&rng, 10) < random) action.discrete = ppo_rng_below(&rng, 2);
        memset(&out, 0, sizeof out);
        cartpole_step(&state, &rng, &action, obs, &out);
        if (out.terminated || ++age == 500) cartpole_reset(&state, &rng, obs), age = 0;
    }
    printf("%.2f %% of the actions are the same, %d %% at random\n", 100.0 * same / STEPS, 10 * random);
    return same;
}

int main(void) {
    int greedy = play(0), explored = play(1);
    return greedy < STEPS / 1000 * 995 || explored < STEPS / 1000 * 995;
}
