/* collecting.c [KERNELS...] - how fast ppo.h collects, by set of kernels: rollouts of 64 steps from 1,024
   copies of CartPole with two 64-64 tanh networks, sampled actions, their log-probabilities and the critic's
   values included; the same copies with random actions and nothing kept; gymnax's CartPole with the same work
   on one core (gymnax_cartpole.py); the peak memory of all; and what a second thread adds to the first. Speed
   is steps per second of the processor, the best of 20 rollouts; with two threads, of the clock. They take
   turns, and a ratio is the median of the pairs. */
#define _DEFAULT_SOURCE
#define PPO_IMPLEMENTATION
#define PPO_NO_LANGUAGE
#define PPO_NO_REPORTS
#include "ppo.h"

#include "examples/envs/cartpole.h"
#include "measure.h"

enum { STEPS = 64, ENVS = 1024, ROUNDS = 20, TURNS = 3 };

/* With a policy. The clock is the processor's for one thread alone. */
static int collect(int threads, double (*clock_of)(void), double *speed) {
    ppo_env env = cartpole_many_env();
    ppo_config c = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    c.num_envs = ENVS, c.rollout_steps = STEPS, c.total_steps = 1 << 30, c.threads = threads;
    if (ppo_agent_create(&env, &c, &agent) || ppo_trainer_create(&env, &c, agent, &trainer)) return fail();
    for (int i = 0; i < ROUNDS; i++) {
        double began = clock_of();
        if (ppo__collect(&trainer->collector, STEPS)) return fail();
        *speed = fmax(*speed, STEPS * ENVS / (clock_of() - began));
    }
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    return 0;
}

static int with_policy(const void *user, double *speed) {
    return (void)user, collect(1, thread_clock, speed);
}
static int one_thread(const void *user, double *speed) { return (void)user, collect(1, ppo_clock, speed); }
static int two_threads(const void *user, double *speed) { return (void)user, collect(2, ppo_clock, speed); }

/* Random actions, without anything of ppo.h but its random numbers. */
static int at_random(const void *user, double *speed) {
    static cartpole state[ENVS];
    static ppo_rng rng[ENVS];
    static ppo_action action[ENVS];
    static ppo_outcome out[ENVS];
    static float obs[ENVS][4];
    static int length[ENVS];
    (void)user;
    for (int e = 0; e < ENVS; e++) {
        rng[e] = ppo_rng_stream(1, PPO_STREAM_USER, (uint32_t)e);
        cartpole_reset(&state[e], &rng[e], obs[e]);
    }
    for (int i = 0; i < ROUNDS; i++) {
        double began = thread_clock();
        for (int t = 0; t < STEPS; t++) {
            for (int e = 0; e < ENVS; e++) action[e].discrete = (int)(ppo_rng_u32(&rng[e]) >> 31);
            cartpole_step_many(ENVS, state, rng, action, obs[0], out);
            for (int e = 0; e < ENVS; e++) {
                if (!out[e].terminated && ++length[e] < 500) continue;
                cartpole_reset(&state[e], &rng[e], obs[e]);
                length[e] = 0;
            }
        }
        *speed = fmax(*speed, STEPS * ENVS / (thread_clock() - began));
    }
    return 0;
}

static int measure(const kernel_set *set) {
    enum { POLICY, RANDOM, ONE, TWO, KINDS };
    static int (*const works[KINDS])(const void *, double *) = {with_policy, at_random, one_thread,
                                                                two_threads};
    figures ours[KINDS] = {{{0}, 0, 0}}, gymnax[2] = {{{0}, 0, 0}};
    outcome mine, peer = {{0}, 0, 0, ""};
    int has_peer = 1;
    (void)set;
    for (int i = 0; i < TURNS; i++) {
        for (int k = 0; k < KINDS; k++) {
            if (!run(NULL, works[k], NULL, 1, &mine)) return 1;
            keep(&ours[k], 1e-6 * *mine.number, mine.mib);
        }
        has_peer = has_peer && run_python("gymnax_cartpole.py", "", 4, &peer);
        for (int k = 0; k < 2 && has_peer; k++)
            keep(&gymnax[k], 1e-6 * peer.number[2 * k], peer.number[2 * k + 1]);
    }
    if (has_peer) printf("  %s\n", peer.name);
    else not_measured("gymnax_cartpole.py");
    tell("  with a policy and a critic, ppo.h", &ours[POLICY], 2, "M steps/s");
    tell("  with a policy and a critic, gymnax", &gymnax[0], 2, "M steps/s");
    tell_ratio("  ratio", &ours[POLICY], &gymnax[0]);
    tell("  random actions, ppo.h's CartPole", &ours[RANDOM], 2, "M steps/s");
    tell("  random actions, gymnax", &gymnax[1], 2, "M steps/s");
    tell_ratio("  ratio", &ours[RANDOM], &gymnax[1]);
    tell_ratio("  two threads beside one, with a policy", &ours[TWO], &ours[ONE]);
    return 0;
}

int main(int argc, char **argv) {
    printf("collecting from 1,024 copies of CartPole\n\n");
    return by_sets(argc, argv, 0, measure);
}
