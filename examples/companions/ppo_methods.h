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

/* KL(new || ref), exact (n, 1), of softmax(logits / temperature) to the same of ref_logits (n, vocab). */
PPO_DEF ppo_tensor *ppo_tape_categorical_kl_to(ppo_tape *tape, ppo_tensor *logits, const float *ref_logits,
                                               float temperature);

#ifndef PPO_NO_LANGUAGE

/* Direct preference optimization (Rafailov 2023): ppo_dpo_loss() of the sums of logp. reference has the same
   vocabulary and no shorter context, and does not change; it may be lm, as it is at the start. DPO needs a lower
   learning rate than the default, such as 1e-4: it never samples, so nothing limits how far it goes. */
PPO_DEF ppo_status ppo_fit_dpo(ppo_lm *lm, const ppo_lm *reference, const ppo_tokens *chosen,
                               const ppo_tokens *rejected, const ppo_fit_config *config);

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

/* -- DPO -- */

static ppo_status ppo__fit_dpo_begin(ppo__fit *fit, const ppo_lm *reference) {
    ppo_status status = PPO_OK;
    for (int k = 0; k < 4 && !status; ++k) {
        ppo__fit_set *set = &fit->set[k / 2];
        if (!set->count) continue;
        float *logp = set->ref_logp[k % 2] = PPO__ARRAY(&fit->memory, float, set->count);
        status =
            logp ? ppo_lm_logp(reference, set->data[k % 2], fit->learner.reserved, logp) : PPO_ERROR_MEMORY;
    }
    return status;
}

static ppo_tensor *ppo__fit_dpo_loss(ppo_tape *tape, ppo_tensor *const logp[2], float *const ref_logp[2],
                                     const int *item, const ppo_fit_config *config) {
    float *ref[2];
    for (int k = 0; k < 2; ++k) {
        ref[k] = (float *)ppo__tape_take(tape, logp[k]->rows, sizeof(float));
        for (int i = 0; i < logp[k]->rows && ref[k]; ++i) ref[k][i] = ref_logp[k][item[i]];
    }
    return ppo_tape_dpo_loss(tape, logp[0], logp[1], ref[0], ref[1], config->beta, config->label_smoothing);
}

PPO_DEF ppo_status ppo_fit_dpo(ppo_lm *lm, const ppo_lm *reference, const ppo_tokens *chosen,
                               const ppo_tokens *rejected, const ppo_fit_config *config) {
    if (!PPO__GIVEN("ppo_fit_dpo", lm, reference, chosen, rejected, config)) return PPO_ERROR_ARGUMENT;
    return ppo__fit_train(lm, reference, chosen, rejected, config, PPO__DPO);
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
                  {ppo__check_tool, ppo__call_watch, ppo__call_tool, ppo__fit_dpo_begin, ppo__fit_dpo_loss,
                   ppo__rlhf_weigh, ppo__rlhf_renew_reference, ppo__rlhf_refill, ppo__sequence_ratio,
                   ppo_tape_categorical_kl_to});

#endif /* PPO_NO_LANGUAGE */

PPO__WARNINGS_BACK

#endif
