/* Exercise 11: rewards of tokens.
   The task is in README.md; `make grade EX=11` grades this file. */
#include "token_rewards.h"

/* logp, ref_logp, mask and reward are [n][length]: token t of sequence i is at [i * length + t]. */
void token_rewards(const float *logp, const float *ref_logp, const unsigned char *mask, const float *score,
                   const unsigned char *ended, int n, int length, float coef, float missing_eos_penalty,
                   float *reward) {
    /* your code */
}
