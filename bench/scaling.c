/* scaling.c - how cost grows with steps, with environments and with parameters, over three decades each: the time of
   one unit, which stays the same where cost is linear. One thread; medians of five repetitions. */
#define _DEFAULT_SOURCE
#include "ppo.h"

#include "examples/envs/cartpole.h"
#include "measure.h"

/* Seconds of training CartPole, without taking the memory. */
static double training(long steps, int envs, int rollout, int width, int *parameters) {
    ppo_env env = cartpole_env();
    ppo_config c = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    double seconds = NAN;
    c.total_steps = steps, c.num_envs = envs, c.rollout_steps = rollout;
    c.minibatch_size = 256, c.epochs = 4, c.hidden[0] = c.hidden[1] = width;
    ppo_status status = ppo_agent_create(&env, &c, &agent);
    if (!status) status = ppo_trainer_create(&env, &c, agent, &trainer);
    if (!status) {
        double began = ppo_clock();
        while (!status && !ppo_trainer_done(trainer)) status = ppo_trainer_iterate(trainer, NULL);
        seconds = ppo_clock() - began;
        *parameters = 2 * (4 * width + width * width); /* all but the heads and the biases */
    }
    if (status) fail();
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    return seconds;
}

int main(void) {
    static const long steps[] = {2048, 20480, 204800, 2048000};
    static const int envs[] = {4, 40, 400, 4000}, widths[] = {16, 51, 160, 512};
    double value[REPETITIONS];
    int parameters = 0;
    char name[64];
    printf("CartPole-v1, minibatch 256, 4 epochs (%s kernels)\n\n", ppo_kernels_name());
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < REPETITIONS; i++)
            value[i] = 1e6 * training(steps[k], 4, 512, 64, &parameters) / (double)steps[k];
        snprintf(name, sizeof name, "%ld steps: one step", steps[k]);
        report(name, value, 2, "us");
    }
    for (int k = 0; k < 4;
         k++) { /* the same rollout of 16,000 steps, and ten of them, from more environments */
        for (int i = 0; i < REPETITIONS; i++)
            value[i] = 1e6 * training(160000, envs[k], 16000 / envs[k], 64, &parameters) / 160000;
        snprintf(name, sizeof name, "%d environments: one step of one", envs[k]);
        report(name, value, 2, "us");
    }
    for (int k = 0; k < 4; k++) {
        long n = 4096L * (k == 3 ? 2 : 8);
        for (int i = 0; i < REPETITIONS; i++)
            value[i] = 1e12 * training(n, 4, 512, widths[k], &parameters) / (double)n / parameters;
        snprintf(name, sizeof name, "%d parameters: one, in one step", parameters);
        report(name, value, 0, "ps");
    }
    return 0;
}
