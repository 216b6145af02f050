/* docs.c - what surrounds an example of the manual when docs.sh compiles it: TOP has its declarations, BODY its
   statements, and the parameters are what an example may use without saying what it is: those of CONTROL, LANGUAGE or
   HUB. */

#include <math.h>
#include <string.h>

#include "ppo.h"
#include "examples/companions/ppo_bpe.h"
#include "examples/companions/ppo_check.h"
#include "examples/companions/ppo_conv.h"
#include "examples/companions/ppo_explain.h"
#include "examples/companions/ppo_export.h"
#include "examples/companions/ppo_flat.h"
#include "examples/companions/ppo_chat.h"
#include "examples/companions/ppo_gguf.h"
#include "examples/companions/ppo_hub.h"
#include "examples/companions/ppo_judge.h"
#include "examples/companions/ppo_methods.h"
#include "examples/companions/ppo_onnx.h"
#include "examples/companions/ppo_player.h"
#include "examples/companions/ppo_report.h"
#include "examples/companions/ppo_resume.h"
#include "examples/companions/ppo_teach.h"
#include "examples/companions/ppo_unicode.h"

int policy_predict(const float *obs);                                /* a policy that ppo_export_c() wrote */
void print_piece(void *user, size_t begin, size_t end, int matches); /* a ppo_piece_fn */

#include TOP

#if defined(CONTROL)
#define PARAMETERS                                                                                        \
    ppo_expert_fn expert, ppo_recording recording, ppo_clone_report report, ppo_env env, ppo_config cfg,  \
        ppo_agent *agent, ppo_trainer *trainer, ppo_progress progress, int source, const float *obs,      \
        const unsigned char *mask, ppo_outcome outcome, ppo_action action, ppo_tape *tape, ppo_tensor *x, \
        ppo_tensor *w, ppo_tensor *b
#elif defined(LANGUAGE)
#define PARAMETERS                                                                                        \
    const char *text, size_t bytes, const char *const *specials, int n, int eos, ppo_tokenizer *tok,      \
        ppo_tokens data, ppo_tokens chosen, ppo_tokens rejected, ppo_tokens prompts, ppo_tokens held_out, \
        ppo_lm_config shape, ppo_fit_config fit, ppo_rlhf_config cfg, ppo_lm *lm, ppo_lm *before,         \
        ppo_lm *judge, ppo_rlhf *rlhf, ppo_rlhf_progress progress, ppo_lm_evaluation evaluation
#else
#define PARAMETERS                                                                                         \
    ppo_lm *lm, ppo_lm *base, ppo_lm *policy, ppo_lm *whole, ppo_tokenizer *tok, ppo_generator *generator, \
        ppo_samples samples, ppo_tokens data, ppo_tokens prompt, ppo_tokens prompts, ppo_tokens chat,      \
        ppo_tokens chosen, ppo_tokens rejected, ppo_tokens held_out, ppo_fit_config fit,                   \
        ppo_rlhf_config cfg, ppo_reward_fn reward, ppo_rlhf *rlhf, const ppo_lm *teacher,                  \
        ppo_tokens desirable, ppo_tokens undesirable
#endif

void example(PARAMETERS);
void example(PARAMETERS) {
#ifdef HUB
    char text[1000];
#endif
    {
#include BODY
    }
}
