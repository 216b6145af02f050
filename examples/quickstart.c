/* quickstart.c - trains CartPole and prints how long the result balances: about 20 steps before, the full 500 after.

   This is a program in one file. A larger one has the first two lines in a file of their own, too, ppo.c, which is
   compiled once; its other files include ppo.h without PPO_IMPLEMENTATION, and compile in a moment. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "envs/cartpole.h"

int main(void) {
    ppo_env env = cartpole_env();
    ppo_config cfg = ppo_config_default();
    cfg.total_steps = 100000;

    ppo_agent *agent = NULL;
    if (ppo_train(&env, &cfg, &agent) != PPO_OK) {
        fprintf(stderr, "%s\n", ppo_last_error());
        return 1;
    }
    printf("mean return %.1f\n", ppo_evaluate(agent, &env, 20, cfg.seed).mean_return);
    ppo_agent_free(agent);
}
