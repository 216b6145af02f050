/* ppo_explain.h - what a policy of ppo.h would do in a state, and how well it expects to do: for an overlay

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_explain.h"           // after ppo.h; other files may include it for its declarations

   Copy this file beside ppo.h. In the folder examples/, where it is in companions/, programs include it from
   there: #include "companions/ppo_explain.h".

       ppo_explanation why;
       ppo_act_explain(agent, obs, NULL, &why);
       for (int j = 0; j < why.options; ++j) printf("action %d: %.0f %%\n", j, 100 * why.probability[j]);
       printf("expects %.1f\n", why.value);
       ppo_act(agent, obs, NULL, &action);      // acts as if it had not been asked

   License: that of ppo.h. */
#ifndef PPO_EXPLAIN_H
#define PPO_EXPLAIN_H
#ifndef PPO_H
#error "include ppo.h before ppo_explain.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_explain.h belongs to version 0.3 of ppo.h"
#endif

#ifndef PPO_NO_CONTROL
#ifdef __cplusplus
extern "C" {
#endif

/* The arrays are valid until the agent's next call. */
typedef struct ppo_explanation {
    ppo_action action;        /* the most likely one, as ppo_act() gives it */
    int options;              /* of all choices together; PPO_BOX: 0 */
    const float *probability; /* [options] of choice 0, then of choice 1, ...; 0: illegal. NULL: PPO_BOX */
    const float *mean, *std;  /* PPO_BOX: [n] of the Gaussian, before its numbers are brought into the box */
    float entropy;            /* of the distribution, in nats */
    /* V: the discounted sum of the rewards from here on, as the critic expects it; NAN: there is no critic. Where
       normalize_reward is set, rewards are those divided by sqrt(agent->return_norm.var[0]) */
    float value;
} ppo_explanation;

/* Says what the agent makes of an observation [obs_size], all that the critic sees, and of a mask as in
   ppo_act_masked(), which may be NULL. The agent stays as it is; a recurrent one is asked before ppo_act(),
   which moves its state on: after it, the answer would be that of another state. Errors: as ppo_act_masked(). */
PPO_DEF ppo_status ppo_act_explain(ppo_agent *agent, const float *obs, const unsigned char *mask,
                                   ppo_explanation *explanation);

#ifdef __cplusplus
}
#endif
#endif
#endif

/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__EXPLAIN_IMPLEMENTED)
#define PPO__EXPLAIN_IMPLEMENTED
#ifndef PPO_NO_CONTROL

PPO__WARNINGS_OFF

/* The probabilities of each choice, by its logits. */
static void ppo__softmax_heads(const ppo__distribution *d, float *probability) {
    const float *logit = d->policy->data;
    for (int h = 0; h < d->heads; logit += d->sizes[h], probability += d->sizes[h++]) {
        const int n = d->sizes[h];
        const float most = logit[ppo_categorical_mode(logit, n)];
        float sum = 0;
        for (int j = 0; j < n; ++j) sum += probability[j] = expf(logit[j] - most);
        for (int j = 0; j < n; ++j) probability[j] /= sum;
    }
}

PPO_DEF ppo_status ppo_act_explain(ppo_agent *agent, const float *obs, const unsigned char *mask,
                                   ppo_explanation *explanation) {
    if (!PPO__GIVEN("ppo_act_explain", agent, obs, explanation)) return PPO_ERROR_ARGUMENT;
    const ppo_actor_critic *model = &agent->model;
    const int size = model->obs_size, width = model->core.width;
    const int continuous = ppo__kind(&model->action_space)->continuous;
    ppo_tape *tape = agent->tape;
    ppo_explanation made;
    memset(&made, 0, sizeof made);
    float *state = (float *)ppo__alloc(width * sizeof(float));
    if (!state) return PPO_ERROR_MEMORY;
    memcpy(state, agent->state, width * sizeof(float));
    ppo_status status = ppo__check_numbers(obs, size, "observation", NULL, 0, 0);
    if (!status) status = ppo_act_masked(agent, obs, mask, NULL, &made.action); /* which checks all else */
    memcpy(agent->state, state, width * sizeof(float));
    ppo__free(state);
    if (status) return status;

    ppo_tape_reset(tape);
    float *view = ppo_tape_alloc(tape, (size_t)size);
    if (!view) return ppo_tape_status(tape);
    ppo__normalized(&agent->obs_norm, agent->clip_obs, obs, 1, size, view);
    const ppo_inputs inputs = {1, view, continuous ? NULL : mask, {0, NULL, agent->state, NULL}, NULL, 0, 0};
    const ppo_outputs out = ppo_actor_critic_forward(tape, model, &inputs, PPO_POLICY | PPO_VALUE);
    if (!out.policy) return ppo_tape_status(tape);
    const ppo_actions actions = {(int *)(void *)agent->scratch, out.policy->data};
    const ppo__distribution d = ppo__distribution_of(model, &out);
    const int n = out.policy->cols;
    float *numbers = ppo_tape_alloc(tape, (size_t)n);
    ppo_tensor *entropy;
    ppo_actor_critic_logp(tape, model, &out, &actions, NULL, &entropy);
    if (!numbers || !entropy) return ppo_tape_status(tape);
    if (continuous) {
        for (int j = 0; j < n; ++j) numbers[j] = expf(out.log_std->data[j]);
        made.mean = out.policy->data;
        made.std = numbers;
    } else {
        ppo__softmax_heads(&d, numbers);
        made.options = n;
        made.probability = numbers;
    }
    made.entropy = entropy->data[0];
    made.value = agent->config.use_critic ? out.value->data[0] : NAN;
    *explanation = made;
    return PPO_OK;
}

PPO__WARNINGS_BACK

#endif
#endif
