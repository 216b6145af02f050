/* docs.c - what surrounds an example of the manual when docs.sh compiles it: TOP has its declarations, BODY its
   statements, and the parameters are what an example may use without saying what it is. LANGUAGE chooses among two. */

#include <math.h>

#include "ppo.h"
#include TOP

#ifdef LANGUAGE
void example(const char *text, size_t bytes, const char *const *specials, int n, int eos, ppo_tokenizer *tok,
             ppo_tokens data, ppo_tokens chosen, ppo_tokens rejected, ppo_tokens prompts, ppo_tokens held_out,
             ppo_lm_config shape, ppo_fit_config fit, ppo_rlhf_config cfg, ppo_lm *lm, ppo_lm *before,
             ppo_lm *judge, ppo_reward_model *model, ppo_rlhf *rlhf, ppo_rlhf_progress progress,
             ppo_lm_evaluation evaluation);
void example(const char *text, size_t bytes, const char *const *specials, int n, int eos, ppo_tokenizer *tok,
             ppo_tokens data, ppo_tokens chosen, ppo_tokens rejected, ppo_tokens prompts, ppo_tokens held_out,
             ppo_lm_config shape, ppo_fit_config fit, ppo_rlhf_config cfg, ppo_lm *lm, ppo_lm *before,
             ppo_lm *judge, ppo_reward_model *model, ppo_rlhf *rlhf, ppo_rlhf_progress progress,
             ppo_lm_evaluation evaluation)
#else
void example(ppo_env env, ppo_config cfg, ppo_agent *agent, ppo_trainer *trainer, ppo_progress progress,
             int source, const float *obs, const unsigned char *mask, ppo_outcome outcome, ppo_action action,
             ppo_tape *tape, ppo_tensor *x);
void example(ppo_env env, ppo_config cfg, ppo_agent *agent, ppo_trainer *trainer, ppo_progress progress,
             int source, const float *obs, const unsigned char *mask, ppo_outcome outcome, ppo_action action,
             ppo_tape *tape, ppo_tensor *x)
#endif
{
    {
#include BODY
    }
}
