/* critic.c - arithmetic.c whose critic learns first, by ppo_rlhf_warm_critic(), for as many iterations as WARM says; prints
   the processor time, the imitation at the beginning included.

       WARM=10 build/critic 1 advantage=gae critic_lambda=1 iterations=44 */
#include "ppo.h"
#include "companions/ppo_methods.h"
#include <stdlib.h>
#include <time.h>

static void print_time(void) { printf("%.1f s of a processor\n", (double)clock() / CLOCKS_PER_SEC); }

static ppo_status create(ppo_lm *lm, const ppo_lm *reference, ppo_lm *critic, const ppo_tokens *prompts,
                         ppo_reward_fn reward, void *user, const ppo_rlhf_config *config, ppo_rlhf **rlhf) {
    const char *warm = getenv("WARM");
    ppo_status status = ppo_rlhf_create(lm, reference, critic, prompts, reward, user, config, rlhf);
    atexit(print_time);
    return status || !warm ? status : ppo_rlhf_warm_critic(*rlhf, atoi(warm), NULL);
}

#define ppo_rlhf_create create
#include "arithmetic.c"
