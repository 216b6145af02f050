/* ppo_methods.h - methods beside PPO and GRPO, for language models of ppo.h

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_methods.h"           // after ppo.h; other files may include it for its declarations

   Copy this file beside ppo.h. In the folder examples/, where it is in companions/, programs include it from
   there: #include "companions/ppo_methods.h".

DPO

   Learns from comparisons without a reward model, and without sampling:

       fit.learning_rate = 1e-4f;
       ppo_fit_dpo(policy, base, &chosen, &rejected, &fit);

KTO

   Learns from sequences that are good or bad by themselves, without comparisons (Ethayarajh 2024):

       ppo_fit_kto(policy, base, &desirable, &undesirable, 1, 1, &fit);

ON-POLICY DISTILLATION

   A model learns from what a larger one would have said about its own samples, token by token, without rewards:

       ppo_rlhf_config_preset(&cfg, "distill");
       ppo_rlhf_create(lm, teacher, NULL, &prompts, ppo_reward_none, NULL, &cfg, &rlhf);

LONG ANSWERS

   A critic that has learned nothing yet misleads the policy, and with it the more, the longer the answers are. VC-PPO
   (Yuan 2025) trains it first, and always by whole returns, which the settings of the policy need not be:

       cfg.critic_lambda = 1;
       ppo_rlhf_create(lm, NULL, NULL, &prompts, reward, NULL, &cfg, &rlhf);
       ppo_rlhf_warm_critic(rlhf, 20, NULL);            // then ppo_rlhf_iterate()

SETTINGS OF PPO ON TOKENS

   Settings of ppo_rlhf_config that need this file, and the presets that have them:

       refills           dynamic sampling: other prompts for those that teach nothing ("dapo")
       ratio             PPO_RATIO_SEQUENCE: one ratio for a whole sequence ("gspo")
       kl_estimator      PPO_KL_EXACT: the KL of whole distributions as a loss, instead of an estimate
       importance_cap    importance sampling, for samples of another policy
       reference_every   the policy becomes the reference, again and again

TOOLS

   A token that the model samples calls a function of yours, which writes what follows, such as a calculator. The
   model does not learn from what a tool has written:

       ppo_status add(const int *token, int n, int *answer, int capacity, int *count, void *user); // a ppo_tool_fn

       cfg.sampling.tool_token = ppo_tokenizer_special(tok, "=");      // or any other token
       cfg.sampling.tool = add;

   A watch sees each token as it is sampled, to show it, or to end the sequence: cfg.sampling.watch.

   License: that of ppo.h. */
#ifndef PPO_METHODS_H
#define PPO_METHODS_H
#ifndef PPO_H
#error "include ppo.h before ppo_methods.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_methods.h belongs to version 0.3 of ppo.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The loss on the tape, ppo_dpo_loss(): (1, 1). The arrays must not change until the tape's reset. */
PPO_DEF ppo_tensor *ppo_tape_dpo_loss(ppo_tape *tape, ppo_tensor *chosen_logp, ppo_tensor *rejected_logp,
                                      const float *ref_chosen_logp, const float *ref_rejected_logp,
                                      float beta, float label_smoothing);

/* Kahneman-Tversky optimization (Ethayarajh 2024, eq. 8), the mean over n sequences of |w| (1 - sigmoid(s beta (logp -
   ref_logp - baseline))), s the sign of the weight w [n]: above 0 the sequence is desirable, below 0 undesirable.
   baseline: an estimate of KL(policy || reference), a constant. Errors: a weight of 0, beta <= 0. */
PPO_DEF ppo_status ppo_kto_loss(const float *logp, const float *ref_logp, const float *weight, int n,
                                float baseline, float beta, float *loss, float *grad_logp);
/* The loss on the tape (1, 1), the baseline being the mean of kl_logp - ref_kl_logp, at least 0, of sequences that
   neither the policy nor the reference has sampled; no gradient flows into it. logp, kl_logp (n, 1). The arrays must not
   change until the tape's reset. */
PPO_DEF ppo_tensor *ppo_tape_kto_loss(ppo_tape *tape, ppo_tensor *logp, ppo_tensor *kl_logp,
                                      const float *ref_logp, const float *ref_kl_logp, const float *weight,
                                      float beta);

/* KL(new || ref), exact (n, 1), of softmax(logits / temperature) to the same of ref_logits (n, vocab). */
PPO_DEF ppo_tensor *ppo_tape_categorical_kl_to(ppo_tape *tape, ppo_tensor *logits, const float *ref_logits,
                                               float temperature);

#ifndef PPO_NO_LANGUAGE

/* Direct preference optimization (Rafailov 2023): ppo_dpo_loss() of the sums of logp. reference has the same
   vocabulary and no shorter context, and does not change; it may be lm, as it is at the start. DPO needs a lower
   learning rate than the default, such as 1e-4: it never samples, so nothing limits how far it goes. */
PPO_DEF ppo_status ppo_fit_dpo(ppo_lm *lm, const ppo_lm *reference, const ppo_tokens *chosen,
                               const ppo_tokens *rejected, const ppo_fit_config *config);

/* KTO on sequences that are desirable, and others that are not, with their weights: for balance, their numbers times
   these should be about equal. The baseline is estimated by each prompt with the response of the sequence before it, over
   a micro-batch, as by TRL's KTOTrainer; micro_batch = batch_size estimates it over a whole batch. fit.accuracy is NaN.
   held_out, held_out_rejected: likewise, desirable and undesirable. reference, learning rate: as of ppo_fit_dpo(). Errors:
   no sequence of a kind, a weight of 0 or less, or above 1e6. */
PPO_DEF ppo_status ppo_fit_kto(ppo_lm *lm, const ppo_lm *reference, const ppo_tokens *desirable,
                               const ppo_tokens *undesirable, float desirable_weight,
                               float undesirable_weight, const ppo_fit_config *config);

/* Value pretraining (Yuan 2025): iterations in which the policy samples and the critic alone learns, by whole returns.
   The next ppo_rlhf_iterate() is iteration 1, with what was learned of rewards. progress: of the last one, may be NULL.
   Errors: there is no critic, or it is the policy; an iteration is done; iterations is below 1. */
PPO_DEF ppo_status ppo_rlhf_warm_critic(ppo_rlhf *rlhf, int iterations, ppo_rlhf_progress *progress);

/* A ppo_reward_fn: 0 for every sample. user may be NULL. */
PPO_DEF ppo_status ppo_reward_none(const ppo_samples *samples, float *reward, void *user);

/* Continues the last sequence with a text; given not 0: as ppo_tokens_mark_given(), for what tools answer. */
PPO_DEF ppo_status ppo_tokens_append_text(ppo_tokens *tokens, const ppo_tokenizer *tokenizer,
                                          const char *text, int given);

#endif /* PPO_NO_LANGUAGE */

#ifdef __cplusplus
}
#endif
#endif /* PPO_METHODS_H */
/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__METHODS_IMPLEMENTED)
#define PPO__METHODS_IMPLEMENTED

PPO__WARNINGS_OFF

/* -- operations of a tape -- */

PPO_DEF ppo_tensor *ppo_tape_dpo_loss(ppo_tape *tape, ppo_tensor *chosen_logp, ppo_tensor *rejected_logp,
                                      const float *ref_chosen_logp, const float *ref_rejected_logp,
                                      float beta, float label_smoothing) {
    ppo__pair_args args = {"dpo_loss", ref_chosen_logp, ref_rejected_logp, beta, label_smoothing};
    return ppo__tape_pair_loss(tape, ref_chosen_logp && ref_rejected_logp, chosen_logp, rejected_logp, &args);
}

/* What one sequence adds to n times the loss, and the derivative of that by its logp. */
static float ppo__kto_term(float ratio, float weight, float baseline, float beta, float *slope) {
    const float x = beta * (ratio - baseline), sign = weight > 0 ? 1.0f : -1.0f;
    const float off = 1 / (1 + expf(sign * x)); /* 1 - sigmoid */
    *slope = -weight * beta * off * (1 - off);
    return sign * weight * off;
}

PPO_DEF ppo_status ppo_kto_loss(const float *logp, const float *ref_logp, const float *weight, int n,
                                float baseline, float beta, float *loss, float *grad_logp) {
    if (!PPO__GIVEN("ppo_kto_loss", logp, ref_logp, weight)) return PPO_ERROR_ARGUMENT;
    if (n <= 0 || !(beta > 0) || !ppo__finite(beta) || !ppo__finite(baseline))
        return ppo__refuse("ppo_kto_loss: %d sequences, beta %g, baseline %g", n, (double)beta,
                           (double)baseline);
    double sum = 0;
    for (int i = 0; i < n; ++i) {
        float slope;
        if (!ppo__finite(weight[i]) || weight[i] == 0)
            return ppo__refuse("ppo_kto_loss: the weight of sequence %d is %g", i, (double)weight[i]);
        const float term = ppo__kto_term(logp[i] - ref_logp[i], weight[i], baseline, beta, &slope);
        if (!ppo__finite(term))
            return ppo_fail(PPO_ERROR_NUMERIC, "ppo_kto_loss: the loss of sequence %d is %g", i,
                            (double)term);
        sum += term;
        if (grad_logp) grad_logp[i] = slope / (float)n;
    }
    if (loss) *loss = (float)(sum / n);
    return PPO_OK;
}

typedef struct ppo__kto_args {
    const float *ref_logp, *ref_kl_logp, *weight;
    float beta;
} ppo__kto_args;

static ppo_status ppo__kto_forward(ppo_node *node) {
    const ppo__kto_args *args = (const ppo__kto_args *)node->args;
    const ppo_tensor *logp = node->in[0], *kl = node->in[1];
    double baseline = 0;
    float *grad = ppo_tape_alloc(node->tape, (size_t)logp->rows);
    if (!grad) return PPO_ERROR_MEMORY;
    node->kept = grad;
    for (int i = 0; i < kl->rows; ++i)
        baseline += ((double)kl->data[i] - (double)args->ref_kl_logp[i]) / kl->rows;
    return ppo_kto_loss(logp->data, args->ref_logp, args->weight, logp->rows,
                        baseline > 0 ? (float)baseline : 0, args->beta, node->out[0]->data, grad);
}

static void ppo__kto_backward(ppo_node *node) {
    const float *grad = (const float *)node->kept;
    for (int i = 0; i < node->in[0]->rows && node->in[0]->grad; ++i)
        node->in[0]->grad[i] += node->out[0]->grad[0] * grad[i];
}

PPO_DEF ppo_tensor *ppo_tape_kto_loss(ppo_tape *tape, ppo_tensor *logp, ppo_tensor *kl_logp,
                                      const float *ref_logp, const float *ref_kl_logp, const float *weight,
                                      float beta) {
    static const ppo_op op = {"kto_loss", 1, ppo__kto_forward, ppo__kto_backward};
    if (!ppo__operands(tape, op.name, logp, kl_logp)) return NULL;
    if (!ref_logp || !ref_kl_logp || !weight || logp->cols != 1 || kl_logp->cols != 1 ||
        kl_logp->rows != logp->rows)
        return (ppo_tensor *)ppo__tape_fail(
            tape, ppo__refuse("kto_loss: an array is NULL, or the shapes are not (n, 1) and (n, 1)"));
    const ppo__kto_args args = {ref_logp, ref_kl_logp, weight, beta};
    ppo_tensor *in[2] = {logp, kl_logp};
    return ppo_tape_result(ppo_tape_apply(tape, &op, in, 2, 1, 1, &args, sizeof args));
}

/* log p - log q at j, from one row of logits of each */
static float ppo__log_ratio(const ppo__softmax *p, const float *z, const ppo__softmax *q, const float *z_ref,
                            int j, float inv_temperature) {
    return (z[j] * inv_temperature - p->max[0] - p->log_sum[0]) -
           (z_ref[j] * inv_temperature - q->max[0] - q->log_sum[0]);
}

/* KL(new || ref) = sum p (log p - log q). kept: d KL / d z_j = p_j (log p_j - log q_j - KL) / temperature */
static ppo_status ppo__kl_to_forward(ppo_node *node) {
    const ppo__categorical_args *args = (const ppo__categorical_args *)node->args;
    const ppo_tensor *logits = node->in[0];
    const float inv = args->heads.inv_temperature;
    const int vocab = logits->cols;
    float *derivative = ppo_tape_alloc(node->tape, ppo__size(logits));
    if (!derivative) return PPO_ERROR_MEMORY;
    node->kept = derivative;
    for (int i = 0; i < logits->rows; ++i, derivative += vocab) {
        const float *z = logits->data + ppo__at(i, vocab), *z_ref = args->logits + ppo__at(i, vocab);
        ppo__softmax p, q;
        double kl = 0;
        ppo__softmax_rows(1, vocab, z, vocab, inv, &p);
        ppo__softmax_rows(1, vocab, z_ref, vocab, inv, &q);
        memcpy(derivative, z, vocab * sizeof(float));
        ppo__k()->softmax(inv, derivative, vocab);
        for (int j = 0; j < vocab; ++j) /* 0 log 0 = 0; NaN stays NaN */
            if (derivative[j] != 0) kl += (double)derivative[j] * ppo__log_ratio(&p, z, &q, z_ref, j, inv);
        for (int j = 0; j < vocab; ++j)
            if (derivative[j] != 0)
                derivative[j] *= inv * (ppo__log_ratio(&p, z, &q, z_ref, j, inv) - (float)kl);
        node->out[0]->data[i] = kl < 0 ? 0 : (float)kl;
    }
    return PPO_OK;
}

static void ppo__kl_to_backward(ppo_node *node) {
    const ppo_tensor *logits = node->in[0];
    const float *derivative = (const float *)node->kept;
    for (int i = 0; i < logits->rows; ++i)
        for (int j = 0; j < logits->cols; ++j)
            logits->grad[ppo__at(i, logits->cols) + j] += node->out[0]->grad[i] * *derivative++;
}

PPO_DEF ppo_tensor *ppo_tape_categorical_kl_to(ppo_tape *tape, ppo_tensor *logits, const float *ref_logits,
                                               float temperature) {
    static const ppo_op op = {"categorical_kl_to", 1, ppo__kl_to_forward, ppo__kl_to_backward};
    const int *vocab = logits ? &logits->cols : NULL;
    return ppo_tape_result(
        ppo__categorical_apply(tape, &op, op.name, logits, vocab, 1, temperature, NULL, ref_logits));
}

#ifndef PPO_NO_LANGUAGE

/* -- tools, and the watch -- */

PPO_DEF ppo_status ppo_tokens_append_text(ppo_tokens *tokens, const ppo_tokenizer *tokenizer,
                                          const char *text, int given) {
    if (!PPO__GIVEN("ppo_tokens_append_text", tokens, tokenizer, text)) return PPO_ERROR_ARGUMENT;
    if (!tokens->memory || !tokens->count)
        return ppo__refuse("ppo_tokens_append_text: the arrays are not the library's, or hold no sequence");
    int s = tokens->count - 1, length = tokens->start[s + 1] - tokens->start[s];
    ppo__encoder encoder = ppo__encoder_start(tokenizer);
    ppo__encode_text(&encoder, PPO__CONTINUES, text, strlen(text), 1);
    if (encoder.count && !encoder.memory.failed)
        encoder.memory.failed = ppo_tokens_add(tokens, encoder.tokens, encoder.count, 0);
    if (tokens->count > s + 1) { /* the two sequences, which are side by side, become one */
        tokens->start[s + 1] = tokens->start[s + 2];
        --tokens->count;
        if (given) ppo_tokens_mark_given(tokens, length, encoder.count);
    }
    return ppo__encoder_end(&encoder);
}

/* The penalty of Keskar 2019, as transformers' RepetitionPenaltyLogitsProcessor: before the temperature. */
static const float *ppo__penalize(const ppo__slot_sampler *sampler, const ppo_sampling *sampling, int i,
                                  const float *logits) {
    const ppo_generator *g = sampler->generator;
    const ppo__slot *slot = &g->slot[sampler->row_slot[sampler->last[i]]];
    const int *token = g->results[g->turn].text + ppo__at(slot->sequence, g->context);
    const int vocab = g->lm->config.vocab;
    float *changed = sampler->p + ppo__at(2, vocab);
    memcpy(changed, logits, (size_t)vocab * sizeof *changed);
    for (int t = 0; t < slot->length; ++t) {
        const float x = logits[token[t]];
        changed[token[t]] = x < 0 ? x * sampling->repetition_penalty : x / sampling->repetition_penalty;
    }
    return changed;
}

static ppo_status ppo__check_tool(const ppo_sampling *sampling, int vocab) {
    if (sampling->tool_token >= vocab)
        return ppo__refuse("tool_token is %d, outside 0 .. %d (-1: no token calls a tool)",
                           sampling->tool_token, vocab - 1);
    if ((sampling->tool_token >= 0) != (sampling->tool != NULL))
        return ppo__refuse("tool_token is %d, but tool is %sNULL: both or none", sampling->tool_token,
                           sampling->tool ? "not " : "");
    if (sampling->tool && ppo__ends(sampling, sampling->tool_token))
        return ppo__refuse("tool_token and %s are both %d",
                           sampling->tool_token == sampling->eos ? "eos" : "one of stop_tokens",
                           sampling->tool_token);
    return PPO_OK;
}

/* Calls the watch with the sequence in slot k, which it may end. */
static ppo_status ppo__call_watch(ppo_generator *g, const ppo_sampling *sampling, int k) {
    const ppo__slot *slot = &g->slot[k];
    const ppo__result *out = &g->results[g->turn];
    const int s = slot->sequence;
    const size_t first = ppo__at(s, g->context);
    int start[2] = {0, slot->length}, end = 0;
    unsigned char *given = sampling->tool_token >= 0 ? out->given + first : NULL;
    const ppo_tokens so_far = {1, start, out->prompt + s, out->text + first, given, NULL};
    const unsigned failures = ppo__failures;
    ppo_status status = sampling->watch(&so_far, g->first + s, &end, sampling->watch_user);
    out->ended[s] |= end != 0;
    return status ? ppo__user_failed(status, failures, "watch") : PPO_OK;
}

/* Calls the tool, and adds its answer to the sequence in slot k. */
static ppo_status ppo__call_tool(ppo_generator *g, const ppo_sampling *sampling, int k) {
    ppo__slot *slot = &g->slot[k];
    const ppo__result *out = &g->results[g->turn];
    const int context = g->context, room = slot->end - slot->length;
    const size_t first = ppo__at(slot->sequence, context), at = first + (size_t)slot->length;
    int count = 0;
    const unsigned failures = ppo__failures;
    ppo_status status =
        sampling->tool(out->text + first, slot->length, out->text + at, room, &count, sampling->tool_user);
    if (status) return ppo__user_failed(status, failures, "tool");
    if (count < 0 || count > room)
        return ppo__refuse("the tool answers %d tokens, has room for %d (sequence %d)", count, room,
                           g->first + slot->sequence);
    for (int i = 0; i < count; ++i)
        if (out->text[at + i] < 0 || out->text[at + i] >= g->lm->config.vocab)
            return ppo__refuse("the tool answers token %d, outside 0 .. %d (sequence %d)", out->text[at + i],
                               g->lm->config.vocab - 1, g->first + slot->sequence);
    memset(out->logp + at, 0, count * sizeof(float));
    memset(out->given + at, 1, count);
    out->length[slot->sequence] = slot->length += count;
    return PPO_OK;
}

/* -- DPO, and KTO -- */

/* The sequences of KTO, desirable ones first, and for each its prompt with another one's response. */
typedef struct ppo__kto_set {
    ppo_tokens own, mismatched; /* a set's data[0] is `own` */
    int desirable;
    float weight[2];
} ppo__kto_set;

static ppo_status ppo__fit_dpo_begin(ppo__fit *fit, const ppo_lm *reference) {
    const int kto = fit->objective == PPO__KTO;
    ppo_status status = PPO_OK;
    for (int k = 0; k < 4 && !status; ++k) {
        ppo__fit_set *set = &fit->set[k / 2];
        if (!set->count) continue;
        float *logp = set->ref_logp[k % 2] = PPO__ARRAY(&fit->memory, float, ppo__at(set->count, 1 + kto));
        status =
            logp ? ppo_lm_logp(reference, set->data[k % 2], fit->learner.reserved, logp) : PPO_ERROR_MEMORY;
        const ppo__kto_set *own = (const ppo__kto_set *)(const void *)set->data[0];
        for (int s = 0; s < set->count && kto && !status; ++s) /* the second half: weights, by sign */
            logp[set->count + s] = s < own->desirable ? own->weight[0] : -own->weight[1];
    }
    return status;
}

/* The numbers of items, for the tape's round; NULL on failure. */
static float *ppo__fit_some(ppo_tape *tape, const float *numbers, const int *item, int n) {
    float *some = (float *)ppo__tape_take(tape, n, sizeof(float));
    for (int i = 0; i < n && some; ++i) some[i] = numbers[item[i]];
    return some;
}

static ppo_tensor *ppo__fit_dpo_loss(ppo_tape *tape, ppo_tensor *const logp[2], const int *item,
                                     const ppo__fit *fit) {
    const ppo_fit_config *c = fit->config;
    const ppo__fit_set *set = fit->now;
    const int n = logp[0]->rows;
    const float *first = ppo__fit_some(tape, set->ref_logp[0], item, n);
    const float *second = ppo__fit_some(tape, set->ref_logp[1], item, n);
    if (fit->objective == PPO__DPO)
        return ppo_tape_dpo_loss(tape, logp[0], logp[1], first, second, c->beta, c->label_smoothing);
    const float *weight = ppo__fit_some(tape, set->ref_logp[0] + set->count, item, n);
    return ppo_tape_kto_loss(tape, logp[0], ppo_tape_detach(tape, logp[1]), first, second, weight, c->beta);
}

PPO_DEF ppo_status ppo_fit_dpo(ppo_lm *lm, const ppo_lm *reference, const ppo_tokens *chosen,
                               const ppo_tokens *rejected, const ppo_fit_config *config) {
    if (!PPO__GIVEN("ppo_fit_dpo", lm, reference, chosen, rejected, config)) return PPO_ERROR_ARGUMENT;
    return ppo__fit_train(lm, reference, chosen, rejected, config, PPO__DPO);
}

/* Adds the prompt of sequence s with the response of sequence t, which is cut where the context ends. room [context] */
static ppo_status ppo__kto_mismatch(const ppo_tokens *from, int s, int t, int context, int *room,
                                    ppo_tokens *to) {
    const int prompt = ppo__prompt_end(from, s) - from->start[s], first = ppo__prompt_end(from, t);
    const int n = ppo__min_int(from->start[t + 1] - first, context - prompt);
    memcpy(room, from->token + from->start[s], prompt * sizeof(int));
    memcpy(room + prompt, from->token + first, n * sizeof(int));
    ppo_status status = ppo_tokens_add(to, room, prompt + n, prompt);
    for (int i = 0; i < n && from->given && !status; ++i)
        if (from->given[first + i]) status = ppo_tokens_mark_given(to, prompt + i, 1);
    return status;
}

static ppo_status ppo__kto_join(const ppo_lm *lm, const ppo_tokens *const data[2], ppo__kto_set *set) {
    const int context = lm->config.context;
    ppo_status status = PPO_OK;
    for (int k = 0; k < 2 && !status; ++k) {
        status = ppo__check_sequences(lm, data[k], PPO__IN_CONTEXT);
        for (int s = 0; !status && s < data[k]->count; ++s) {
            if (!ppo__response_length(data[k], s))
                return ppo__refuse("%s sequence %d has no token after its prompt",
                                   k ? "undesirable" : "desirable", s);
            status = ppo_tokens_add_from(&set->own, data[k], s);
        }
        if (!k) set->desirable = set->own.count;
    }
    if (status) return status;
    int *room = (int *)ppo__alloc((size_t)context * sizeof(int));
    if (!room) return PPO_ERROR_MEMORY;
    for (int s = 0, n = set->own.count; s < n && !status; ++s)
        status = ppo__kto_mismatch(&set->own, s, (s + n - 1) % n, context, room, &set->mismatched);
    ppo__free(room);
    return status;
}

PPO_DEF ppo_status ppo_fit_kto(ppo_lm *lm, const ppo_lm *reference, const ppo_tokens *desirable,
                               const ppo_tokens *undesirable, float desirable_weight,
                               float undesirable_weight, const ppo_fit_config *config) {
    if (!PPO__GIVEN("ppo_fit_kto", lm, reference, desirable, undesirable, config)) return PPO_ERROR_ARGUMENT;
    if (!(desirable_weight > 0 && desirable_weight <= 1e6f && undesirable_weight > 0 &&
          undesirable_weight <= 1e6f))
        return ppo__refuse("ppo_fit_kto: the weights are %g and %g, must be above 0, and at most 1e6",
                           (double)desirable_weight, (double)undesirable_weight);
    const ppo_tokens *const data[2][2] = {{desirable, undesirable},
                                          {config->held_out, config->held_out_rejected}};
    ppo__kto_set set[2];
    ppo_fit_config c = *config;
    memset(set, 0, sizeof set);
    ppo_status status = PPO_OK;
    if (c.held_out && !c.held_out_rejected)
        status = ppo__refuse("held_out_rejected is NULL: the held-out sequences that are undesirable");
    for (int k = 0; k < (c.held_out ? 2 : 1) && !status; ++k) {
        set[k].weight[0] = desirable_weight;
        set[k].weight[1] = undesirable_weight;
        status = ppo__kto_join(lm, data[k], &set[k]);
    }
    if (c.held_out) c.held_out = &set[1].own, c.held_out_rejected = &set[1].mismatched;
    if (!status) status = ppo__fit_train(lm, reference, &set[0].own, &set[0].mismatched, &c, PPO__KTO);
    for (int k = 0; k < 2; ++k) {
        ppo_tokens_free(&set[k].own);
        ppo_tokens_free(&set[k].mismatched);
    }
    return status;
}

/* -- distillation -- */

PPO_DEF ppo_status ppo_reward_none(const ppo_samples *samples, float *reward, void *user) {
    (void)user;
    if (!PPO__GIVEN("ppo_reward_none", samples, reward)) return PPO_ERROR_ARGUMENT;
    memset(reward, 0, samples->tokens.count * sizeof(float));
    return PPO_OK;
}

/* -- value pretraining -- */

PPO_DEF ppo_status ppo_rlhf_warm_critic(ppo_rlhf *rlhf, int iterations, ppo_rlhf_progress *progress) {
    if (!PPO__GIVEN("ppo_rlhf_warm_critic", rlhf)) return PPO_ERROR_ARGUMENT;
    if (iterations < 1)
        return ppo__refuse("ppo_rlhf_warm_critic: iterations is %d, must be above 0", iterations);
    if (!rlhf->critic || rlhf->critic == rlhf->policy)
        return ppo__refuse("ppo_rlhf_warm_critic: %s", rlhf->critic
                                                           ? "the critic is the policy, which would change"
                                                           : "the advantage needs no critic");
    if (rlhf->iteration)
        return ppo__refuse("ppo_rlhf_warm_critic: %lld iterations are done", (long long)rlhf->iteration);
    const ppo_rlhf_config own = rlhf->config;
    const float kl_coef = rlhf->kl_coef, entropy_coef = rlhf->entropy_coef;
    ppo_rlhf_config *c = &rlhf->config;
    ppo_status status = PPO_OK;
    if (!(c->critic_learning_rate > 0)) c->critic_learning_rate = c->learning_rate;
    c->learning_rate = 0;
    c->gae_lambda = 1, c->critic_lambda = -1;
    c->learning_rate_schedule = PPO_CONSTANT;
    for (int i = 0; i < iterations && !status; ++i) status = ppo_rlhf_iterate(rlhf, progress);
    rlhf->config = own;
    rlhf->iteration = 0;
    rlhf->rate_factor = 1;
    rlhf->kl_coef = kl_coef, rlhf->entropy_coef = entropy_coef;
    ppo_params_reset_optimizer(rlhf->policy->params);
    return status;
}

/* -- importance sampling -- */

/* Samples of another policy: the advantages are multiplied by the ratio of this policy's probabilities to those of
   sampling, within a range (Espeholt 2018). */
static ppo_status ppo__rlhf_weigh(ppo_rlhf *r, const ppo_samples *samples) {
    const float cap = r->config.importance_cap, low = r->config.importance_floor;
    const int mode = r->config.importance_mode, mask = mode == PPO_TOKEN_MASK || mode == PPO_SEQUENCE_MASK;
    for (int s = 0; s < samples->tokens.count; ++s) {
        const int row = r->first_row[s], n = r->first_row[s + 1] - row;
        const float *old = r->rows.old_logp + row;
        float *advantage = r->rows.advantage + row;
        double sum = 0;
        for (int i = 0, at = 0; i < n; ++i, ++at) {
            at = ppo__response_token(&samples->tokens, s, at);
            sum += old[i] - samples->logp[at];
        }
        for (int i = 0, at = 0; i < n; ++i, ++at) {
            at = ppo__response_token(&samples->tokens, s, at);
            float ratio = expf(mode >= PPO_SEQUENCE_TRUNCATE ? (float)sum : old[i] - samples->logp[at]);
            float within = ppo__clamp(ratio, low, cap);
            advantage[i] *= mask && within != ratio ? 0 : within;
        }
    }
    return PPO_OK;
}

/* -- new references -- */

/* With reference_every, the policy becomes the reference. */
static ppo_status ppo__rlhf_renew_reference(ppo_rlhf *r) {
    const int every = r->config.reference_every;
    if (!r->own_reference || r->iteration % every) return PPO_OK;
    ppo_params *reference = r->own_reference->params, *policy = r->policy->params;
    ppo_status status = ppo_params_sync(reference);
    if (!status) status = ppo__params_fetch(policy);
    if (!status) memcpy(reference->data, policy->data, reference->count * sizeof(float));
    return status;
}

/* -- refills -- */

/* Keeps the k samples from `first` on. */
static ppo_status ppo__rlhf_keep(ppo_rlhf *r, const ppo_samples *samples, int first, int k) {
    ppo_samples *kept = &r->kept_samples;
    ppo_tokens *to = &kept->tokens;
    ppo_status status = PPO_OK;
    for (int s = first; s < first + k && !status; ++s) {
        const int at = samples->tokens.start[s], n = samples->tokens.start[s + 1] - at;
        r->score[to->count] = r->drawn_score[s];
        kept->ended[to->count] = samples->ended[s];
        status = ppo_tokens_add_from(to, &samples->tokens, s);
        if (!status) memcpy(kept->logp + to->start[to->count - 1], samples->logp + at, n * sizeof(float));
    }
    return status;
}

/* Dynamic sampling (DAPO, Yu 2025): replaces prompts whose samples all have the same score by further
   prompts, up to `refills` times. Those left after that are kept: their advantages are 0. */
static ppo_status ppo__rlhf_refill(ppo_rlhf *r, ppo_rng *rng, int64_t *next, ppo_samples *samples) {
    const int k = r->config.samples;
    ppo_status status = PPO_OK;
    ppo_tokens_clear(&r->kept_samples.tokens);
    for (int round = 0; !status; ++round) {
        for (int first = 0; first < samples->tokens.count && !status; first += k) {
            const float *score = r->drawn_score + first;
            int same = 1;
            for (int i = 1; i < k; ++i) same &= score[i] == score[0];
            if (!same || round == r->config.refills) status = ppo__rlhf_keep(r, samples, first, k);
        }
        const int missing = r->config.prompts - r->kept_samples.tokens.count / k;
        if (status || !missing) break;
        status = ppo__rlhf_sample(r, missing, rng, next, samples, r->drawn_score);
    }
    *samples = r->kept_samples;
    return status;
}

/* -- the ratio of a sequence -- */

/* Log-probabilities whose ratio to the old ones is the geometric mean over the sequence, and whose gradient is each
   token's own (GSPO-token, Zheng 2025): log pi + mean log-ratio - own log-ratio, the last two held constant. */
static ppo_tensor *ppo__sequence_ratio(ppo_tape *tape, ppo_tensor *logp, const ppo_tokens *batch,
                                       const float *old_logp, const float *share) {
    int *sequence = logp ? (int *)ppo__tape_take(tape, logp->rows, sizeof *sequence) : NULL;
    if (!sequence) return NULL;
    for (int s = 0, row = 0; s < batch->count; ++s)
        for (int n = ppo__response_length(batch, s); n > 0; --n) sequence[row++] = s;
    ppo_tensor *own = ppo__tape_log_ratio(tape, ppo_tape_detach(tape, logp), old_logp);
    ppo_tensor *mean = ppo_tape_mul(tape, own, ppo_tape_constant(tape, share, logp->rows, 1));
    mean = ppo_tape_embedding(tape, ppo_tape_sequence_sum(tape, mean, batch), sequence, logp->rows);
    return ppo_tape_add(tape, logp, ppo_tape_add(tape, mean, ppo_tape_scale(tape, own, -1, 0)));
}

PPO__COMPANION_IS(ppo__methods, ppo__in_methods,
                  {ppo__check_tool, ppo__call_watch, ppo__call_tool, ppo__penalize, ppo__fit_dpo_begin,
                   ppo__fit_dpo_loss, ppo__rlhf_weigh, ppo__rlhf_renew_reference, ppo__rlhf_refill,
                   ppo__sequence_ratio, ppo_tape_categorical_kl_to});

#endif /* PPO_NO_LANGUAGE */

PPO__WARNINGS_BACK

#endif
