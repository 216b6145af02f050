/* quickstart.c - trains CartPole and says how well the result balances: from about 20 steps to the full 500. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "envs/cartpole.h"

int main(void) {
    ppo_env    env = cartpole_env();
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
