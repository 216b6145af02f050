/* ppo_judge.h - what the samples of ppo.h's language models are worth: ensembles of reward models,
   evaluation, best of n, comparisons

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_judge.h"             // after ppo.h; other files may include it for its declarations

   Copy this file beside ppo.h. In the folder examples/, where it is in companions/, programs include it from
   there: #include "companions/ppo_judge.h".

   A judge is a reward function (ppo_reward_fn): a rule, a verifier, ppo_reward_by_lm() with a reward model, or
   ppo_reward_by_model() with several, or with scores that are normalized.

       ppo_compare(generator, &prompts, &cfg.sampling, reward, NULL, NULL, &chosen, &rejected);
       ppo_fit_dpo(policy, base, &chosen, &rejected, &fit);        // or a reward model, and PPO on tokens
       ppo_lm_evaluation e;
       ppo_lm_evaluate(policy, base, &held_out, &cfg.sampling, reward, NULL, &e);
       printf("%.2f, wins %.0f %%, KL %.1f\n", e.reward, 100 * e.win_rate, e.kl);
       ppo_print_samples(stdout, tok, &samples, NULL, 6);          // a look at what was sampled

   Fine-tuning measures the loss of other data by this file, and stops in time:

       fit.held_out = &held_out;
       fit.patience = 3;

   License: that of ppo.h. */
#ifndef PPO_JUDGE_H
#define PPO_JUDGE_H
#ifndef PPO_H
#error "include ppo.h before ppo_judge.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_judge.h belongs to version 0.3 of ppo.h"
#endif

#ifndef PPO_NO_LANGUAGE
#ifdef __cplusplus
extern "C" {
#endif

/* One model, or an ensemble of models: the mean of their scores, or the minimum, which is harder to
   exploit (Coste 2023). The members have a score, and are borrowed. batch: sequences in memory at once. */
enum { PPO_MAX_MEMBERS = 16 };
typedef enum ppo_ensemble { PPO_ENSEMBLE_MEAN, PPO_ENSEMBLE_MINIMUM } ppo_ensemble;
typedef struct ppo_reward_model ppo_reward_model;
PPO_DEF ppo_status ppo_reward_model_create(ppo_lm *const *members, int count, ppo_ensemble ensemble,
                                           int batch, ppo_reward_model **model);
PPO_DEF void ppo_reward_model_free(ppo_reward_model *model);
/* Shifts and scales each member's scores to mean 0 and standard deviation 1 on these sequences. Errors,
   which change nothing: a score that is not finite, scores that are all equal. */
PPO_DEF ppo_status ppo_reward_model_normalize(ppo_reward_model *model, const ppo_tokens *reference);
/* score [count] of sequences; and the same as a ppo_reward_fn, whose user is the model. */
PPO_DEF ppo_status ppo_reward_model_score(ppo_reward_model *model, const ppo_tokens *tokens, float *score);
PPO_DEF ppo_status ppo_reward_by_model(const ppo_samples *samples, float *reward, void *model);

/* Adds to best, which is not prompts, the sample of the highest reward of n samples of each prompt. Its
   reward is written to score [prompts->count], which may be NULL. reward is called once for each prompt,
   with its n samples. A failure leaves best unchanged. ppo_best_of_n_kl(): log n - (n - 1) / n, an upper
   bound of the KL to the model. */
PPO_DEF ppo_status ppo_best_of_n(ppo_generator *generator, const ppo_tokens *prompts, int n,
                                 const ppo_sampling *sampling, ppo_reward_fn reward, void *user,
                                 ppo_tokens *best, float *score);
PPO_DEF float ppo_best_of_n_kl(int n);

/* Comparisons for ppo_fit_reward() and ppo_fit_dpo(): of two samples of each prompt, adds the one to which
   the judge gives the higher reward to chosen, the other to rejected; neither is prompts. Pairs of equal
   rewards are left out, so there may be fewer than prompts. With `mistakes` not NULL the judge errs as
   people do: the first sample is chosen with probability sigmoid(difference of rewards) (Bradley and Terry
   1952), and no pair is left out. A failure leaves chosen and rejected unchanged. */
PPO_DEF ppo_status ppo_compare(ppo_generator *generator, const ppo_tokens *prompts,
                               const ppo_sampling *sampling, ppo_reward_fn judge, void *user,
                               ppo_rng *mistakes, ppo_tokens *chosen, ppo_tokens *rejected);

/* What a model is worth: means over one sample of each prompt. */
typedef struct ppo_lm_evaluation {
    float reward, reward_std; /* NaN without a reward function */
    /* share of prompts for which the reference's sample has the lower reward, plus half of those for which
       both have the same; NaN without a reference or a reward function */
    float win_rate;
    float kl;                 /* to the reference, summed over a sequence: mean of k1; NaN without one */
    float entropy;            /* per sampled token: mean of -logp */
    float mean_length, ended; /* sampled tokens; share of sequences that were not cut off */
    double tokens_per_second; /* of sampling */
} ppo_lm_evaluation;
/* reference and reward may be NULL. Both models sample with the same random numbers. */
PPO_DEF ppo_status ppo_lm_evaluate(const ppo_lm *lm, const ppo_lm *reference, const ppo_tokens *prompts,
                                   const ppo_sampling *sampling, ppo_reward_fn reward, void *user,
                                   ppo_lm_evaluation *evaluation);

/* Prints the first `count` samples as lines: the reward (reward NULL: none), the prompt, " | ", what was
   sampled, with what a tool wrote in [brackets], and "..." where it was cut off. Line ends and other control
   characters print as spaces. */
PPO_DEF void ppo_print_samples(FILE *file, const ppo_tokenizer *tokenizer, const ppo_samples *samples,
                               const float *reward, int count);

#ifdef __cplusplus
}
#endif
#endif /* PPO_NO_LANGUAGE */
#endif /* PPO_JUDGE_H */
/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__JUDGE_IMPLEMENTED)
#define PPO__JUDGE_IMPLEMENTED
#ifndef PPO_NO_LANGUAGE

PPO__WARNINGS_OFF

struct ppo_reward_model {
    ppo_lm *member[PPO_MAX_MEMBERS];
    float mean[PPO_MAX_MEMBERS], inv_std[PPO_MAX_MEMBERS];
    int count, ensemble, batch;
};

PPO_DEF void ppo_reward_model_free(ppo_reward_model *model) { ppo__free(model); }

PPO_DEF ppo_status ppo_reward_model_create(ppo_lm *const *members, int count, ppo_ensemble ensemble,
                                           int batch, ppo_reward_model **model) {
    if (model) *model = NULL;
    if (!PPO__GIVEN("ppo_reward_model_create", members, model)) return PPO_ERROR_ARGUMENT;
    if (count < 1 || count > PPO_MAX_MEMBERS || batch < 1 ||
        (ensemble != PPO_ENSEMBLE_MEAN && ensemble != PPO_ENSEMBLE_MINIMUM))
        return ppo__refuse("ppo_reward_model_create: %d members, batch %d, ensemble %d", count, batch,
                           ensemble);
    for (int k = 0; k < count; ++k)
        if (!members[k] || !members[k]->score_weight)
            return ppo__refuse("ppo_reward_model_create: member %d has no score", k);
    *model = (ppo_reward_model *)ppo__alloc(sizeof **model);
    if (!*model) return PPO_ERROR_MEMORY;
    (*model)->count = count;
    (*model)->ensemble = ensemble;
    (*model)->batch = batch;
    for (int k = 0; k < count; ++k) {
        (*model)->member[k] = members[k];
        (*model)->inv_std[k] = 1;
    }
    return PPO_OK;
}

PPO_DEF ppo_status ppo_reward_model_normalize(ppo_reward_model *model, const ppo_tokens *reference) {
    if (!PPO__GIVEN("ppo_reward_model_normalize", model, reference)) return PPO_ERROR_ARGUMENT;
    ppo_reward_model normal = *model;
    int n = reference->count;
    float *score = (float *)ppo__alloc((n > 0 ? n : 1) * sizeof(float));
    ppo_status status = score ? PPO_OK : PPO_ERROR_MEMORY;
    for (int k = 0; k < model->count && !status; ++k) {
        status = ppo_lm_scores(model->member[k], reference, model->batch, score);
        if (status) break;
        double std, mean = ppo__mean_std(score, n, &std);
        normal.mean[k] = (float)mean;
        normal.inv_std[k] = (float)(1 / std);
        if (!(std > 0))
            status = ppo_fail(PPO_ERROR_NUMERIC, "reward model %d gives %d sequences the same score", k, n);
    }
    if (!status) *model = normal;
    ppo__free(score);
    return status;
}

PPO_DEF ppo_status ppo_reward_model_score(ppo_reward_model *model, const ppo_tokens *tokens, float *score) {
    if (!PPO__GIVEN("ppo_reward_model_score", model, tokens, score)) return PPO_ERROR_ARGUMENT;
    int n = tokens->count;
    float *one = (float *)ppo__alloc((n > 0 ? n : 1) * sizeof(float));
    ppo_status status = one ? PPO_OK : PPO_ERROR_MEMORY;
    for (int k = 0; k < model->count && !status; ++k) {
        status = ppo_lm_scores(model->member[k], tokens, model->batch, one);
        for (int s = 0; s < n && !status; ++s) {
            float x = (one[s] - model->mean[k]) * model->inv_std[k];
            if (model->ensemble == PPO_ENSEMBLE_MEAN) score[s] = (k ? score[s] : 0) + x / (float)model->count;
            else score[s] = k && score[s] < x ? score[s] : x;
        }
    }
    ppo__free(one);
    return status;
}

PPO_DEF ppo_status ppo_reward_by_model(const ppo_samples *samples, float *reward, void *model) {
    if (!PPO__GIVEN("ppo_reward_by_model", model, samples, reward)) return PPO_ERROR_ARGUMENT;
    return ppo_reward_model_score((ppo_reward_model *)model, &samples->tokens, reward);
}

PPO_DEF float ppo_best_of_n_kl(int n) { return n > 1 ? (float)(log(n) - (n - 1.0) / n) : 0; }

PPO_DEF ppo_status ppo_best_of_n(ppo_generator *generator, const ppo_tokens *prompts, int n,
                                 const ppo_sampling *sampling, ppo_reward_fn reward, void *user,
                                 ppo_tokens *best, float *score) {
    ppo_tokens asked = {0, NULL, NULL, NULL, NULL, NULL};
    ppo_tokens given = {0, NULL, NULL, NULL, NULL, NULL}; /* a copy: the prompts may be the generator's */
    ppo_samples samples;
    if (!PPO__GIVEN("ppo_best_of_n", generator, prompts, sampling, best)) return PPO_ERROR_ARGUMENT;
    if (n < 1) return ppo__refuse("ppo_best_of_n: n is %d, must be 1 or more", n);
    if (best == prompts) return ppo__refuse("ppo_best_of_n: best is the prompts themselves");
    ppo_sampling now = *sampling;
    int before = best->count;
    ppo_status status = ppo__check_sequences(generator->lm, prompts, PPO__BEFORE_MORE);
    if (status) return status;
    float *scores = (float *)ppo__alloc(n * sizeof(float));
    if (!scores) return PPO_ERROR_MEMORY;
    for (int s = 0; s < prompts->count && !status; ++s) status = ppo__add_prompt(&given, prompts, s, 1);
    for (int s = 0; s < given.count && !status; ++s) {
        int top = 0;
        ppo_tokens_clear(&asked);
        status = ppo__add_prompt(&asked, &given, s, n);
        now.seed = sampling->seed + (uint64_t)s * 0x9e3779b97f4a7c15u;
        if (!status) status = ppo_generate(generator, &asked, &now, &samples);
        if (!status) status = ppo__call_reward(generator, reward, user, &samples, scores);
        for (int i = 0; i < n && !status; ++i) {
            if (scores[i] > scores[top]) top = i;
            if (ppo__finite(scores[i])) continue;
            status =
                ppo_fail(PPO_ERROR_NUMERIC, "the reward of sample %d of prompt %d is %g", i, s, scores[i]);
        }
        if (!status) status = ppo_tokens_add_from(best, &samples.tokens, top);
        if (!status && score) score[s] = scores[top];
    }
    if (status) best->count = before;
    ppo__free(scores);
    ppo_tokens_free(&asked);
    ppo_tokens_free(&given);
    return status;
}

PPO_DEF ppo_status ppo_compare(ppo_generator *generator, const ppo_tokens *prompts,
                               const ppo_sampling *sampling, ppo_reward_fn judge, void *user,
                               ppo_rng *mistakes, ppo_tokens *chosen, ppo_tokens *rejected) {
    ppo_tokens asked = {0, NULL, NULL, NULL, NULL, NULL};
    ppo_samples samples;
    if (!PPO__GIVEN("ppo_compare", generator, prompts, sampling, chosen, rejected)) return PPO_ERROR_ARGUMENT;
    if (chosen == prompts || rejected == prompts || chosen == rejected)
        return ppo__refuse("ppo_compare: prompts, chosen and rejected must be three");
    const int before[2] = {chosen->count, rejected->count};
    ppo_status status = ppo__check_sequences(generator->lm, prompts, PPO__BEFORE_MORE);
    if (status) return status;
    float *reward = (float *)ppo__alloc(2 * (size_t)prompts->count * sizeof(float));
    if (!reward) return PPO_ERROR_MEMORY;
    for (int s = 0; s < prompts->count && !status; ++s) status = ppo__add_prompt(&asked, prompts, s, 2);
    if (!status) status = ppo_generate(generator, &asked, sampling, &samples);
    if (!status) status = ppo__call_reward(generator, judge, user, &samples, reward);
    for (int s = 0; s < asked.count && !status; s += 2) {
        float more = reward[s] - reward[s + 1];
        int second = mistakes ? !(ppo_rng_uniform(mistakes) < 1 / (1 + expf(-more))) : more < 0;
        if (!ppo__finite(more))
            status = ppo_fail(PPO_ERROR_NUMERIC, "the rewards of prompt %d are %g and %g", s / 2, reward[s],
                              reward[s + 1]);
        if (!mistakes && more == 0) continue;
        if (!status) status = ppo_tokens_add_from(chosen, &samples.tokens, s + second);
        if (!status) status = ppo_tokens_add_from(rejected, &samples.tokens, s + !second);
    }
    if (status) {
        chosen->count = before[0];
        rejected->count = before[1];
    }
    ppo__free(reward);
    ppo_tokens_free(&asked);
    return status;
}

/* -- held-out data of fine-tuning -- */

/* With patience: keeps the parameters if the held-out loss is the lowest so far. */
static ppo_status ppo__fit_keep_best(ppo__fit *fit, float loss) {
    const ppo_params *params = fit->lm->params;
    if (!fit->best) return PPO_OK;
    if (loss >= fit->best_loss) {
        ++fit->worse;
        return PPO_OK;
    }
    fit->best_loss = loss;
    fit->worse = 0;
    ppo_status status = ppo__params_fetch(params);
    if (!status) memcpy(fit->best, params->data, params->count * sizeof(float));
    return ppo__group_agree(fit->learner.group, status, 0);
}

/* The loss of the held-out data. */
static ppo_status ppo__fit_evaluate(ppo__fit *fit, ppo_fit_progress *p) {
    ppo__learner *learner = &fit->learner;
    ppo__lane *lane = learner->lane;
    const int count = fit->set[1].count;
    double total = 0, sum = 0;
    int correct = 0;
    ppo_status status = PPO_OK;
    ppo__fit_use(fit, 1);
    ppo_tape_record(lane->tape, 0);
    lane->done = lane->micro = 0;
    learner->micros = 1;
    for (int i = 0, n; i < count && !status; i += n) {
        const int *item = fit->set[1].order + i;
        float weight = 0;
        n = ppo__micro_items(learner, item, count - i);
        status = ppo__gather_items(learner, lane, item, n);
        ppo_tape_reset(lane->tape);
        if (!status) ppo__fit_loss(fit, lane, item, &weight);
        if (!status) status = ppo__tape_settle(lane->tape);
        if (!status) ppo__fit_sum_up(fit, item, n, &sum, &correct);
        total += weight;
    }
    ppo_tape_record(lane->tape, 1);
    ppo__fit_use(fit, 0);
    status = ppo__group_agree(learner->group, status, 0);
    if (status) return status;
    p->held_out_loss = (float)(sum / total);
    if (fit->score[0] && fit->objective != PPO__KTO) p->held_out_accuracy = (float)((double)correct / count);
    if (!fit->score[0]) p->perplexity = expf(p->held_out_loss);
    if (!ppo__finite(p->held_out_loss))
        return ppo_fail(PPO_ERROR_NUMERIC, "the held-out loss is %g after step %lld", p->held_out_loss,
                        (long long)p->step);
    return ppo__fit_keep_best(fit, p->held_out_loss);
}

PPO__COMPANION_IS(ppo__judge_functions, ppo__in_judge, {ppo__fit_evaluate});

/* -- evaluation -- */

/* Samples once from each prompt, and calls the reward function. */
static ppo_status ppo__sample_once(const ppo_lm *lm, const ppo_tokens *prompts, const ppo_sampling *sampling,
                                   ppo_reward_fn reward, void *user, ppo_generator **generator,
                                   ppo_samples *samples, float *score) {
    ppo_status status = ppo_generator_create(lm, ppo__device_in_use ? 256 : 16, generator);
    if (!status) status = ppo_generate(*generator, prompts, sampling, samples);
    return status || !reward ? status : ppo__call_reward(*generator, reward, user, samples, score);
}

PPO_DEF ppo_status ppo_lm_evaluate(const ppo_lm *lm, const ppo_lm *reference, const ppo_tokens *prompts,
                                   const ppo_sampling *sampling, ppo_reward_fn reward, void *user,
                                   ppo_lm_evaluation *evaluation) {
    ppo_generator *generator[2] = {NULL, NULL};
    ppo_samples samples, others;
    double std = 0, mean = 0, wins = 0, logp = 0, ref_logp = 0;
    int rows = 0, ended = 0;
    if (!PPO__GIVEN("ppo_lm_evaluate", lm, prompts, sampling, evaluation)) return PPO_ERROR_ARGUMENT;
    memset(evaluation, 0, sizeof *evaluation);
    ppo_status status = ppo__check_sequences(lm, prompts, PPO__BEFORE_MORE);
    if (status || ppo__check_peer(lm, reference, "reference")) return ppo__failed;
    int n = prompts->count;
    float *numbers = (float *)ppo__alloc(3 * (size_t)n * sizeof(float));
    float *score = numbers, *other = numbers + n, *ref = numbers + 2 * (size_t)n;
    double began = ppo_clock();
    if (!numbers) return PPO_ERROR_MEMORY;
    status = ppo__sample_once(lm, prompts, sampling, reward, user, &generator[0], &samples, score);
    double seconds = ppo_clock() - began;
    if (!status && reference)
        status = ppo__measure(reference, &samples.tokens, 64, sampling->temperature, ref);
    if (!status && reference && reward)
        status = ppo__sample_once(reference, prompts, sampling, reward, user, &generator[1], &others, other);
    for (int s = 0; s < n && !status; ++s) {
        if (!ppo__finite(score[s]) || !ppo__finite(other[s]))
            status = ppo_fail(PPO_ERROR_NUMERIC, "the reward of sample %d is %g, the reference's %g", s,
                              score[s], other[s]);
        wins += score[s] > other[s] ? 1 : score[s] == other[s] ? 0.5 : 0;
        ref_logp += ref[s];
        rows += ppo__response_length(&samples.tokens, s);
        ended += samples.ended[s];
    }
    if (!status) mean = ppo__mean_std(score, n, &std);
    for (int i = 0; !status && i < samples.tokens.start[n]; ++i) logp += samples.logp[i];
    if (!status) {
        evaluation->reward = reward ? (float)mean : NAN;
        evaluation->reward_std = reward ? (float)std : NAN;
        evaluation->win_rate = reward && reference ? (float)(wins / n) : NAN;
        evaluation->kl = reference ? (float)((logp - ref_logp) / n) : NAN;
        evaluation->entropy = (float)(-logp / rows);
        evaluation->mean_length = (float)rows / (float)n;
        evaluation->ended = (float)ended / (float)n;
        evaluation->tokens_per_second = seconds > 0 ? rows / seconds : 0;
    }
    ppo_generator_free(generator[0]);
    ppo_generator_free(generator[1]);
    ppo__free(numbers);
    return status;
}

/* The ordinary tokens i to end - 1, those that a tool wrote in brackets. */
static void ppo__print_tokens(FILE *file, const ppo_tokenizer *tokenizer, const ppo_tokens *tokens, int i,
                              int end) {
    for (int given = 0; i < end || given; ++i) {
        const int now = i < end && tokens->given && tokens->given[i];
        if (now != given) putc(now ? '[' : ']', file);
        given = now;
        int length;
        const char *text = i < end ? ppo__text_of(tokenizer, tokens->token[i], &length) : NULL;
        if (!text || tokenizer->special[tokens->token[i]]) continue;
        for (; length > 0; --length, ++text)
            putc((unsigned char)*text < 32 || *text == 127 ? ' ' : (unsigned char)*text, file);
    }
}

PPO_DEF void ppo_print_samples(FILE *file, const ppo_tokenizer *tokenizer, const ppo_samples *samples,
                               const float *reward, int count) {
    for (int s = 0; file && tokenizer && samples && s < count && s < samples->tokens.count; ++s) {
        const ppo_tokens *tokens = &samples->tokens;
        const int sampled = ppo__prompt_end(tokens, s);
        if (reward) fprintf(file, "%8.2f  ", (double)reward[s]);
        ppo__print_tokens(file, tokenizer, tokens, tokens->start[s], sampled);
        fprintf(file, " | ");
        ppo__print_tokens(file, tokenizer, tokens, sampled, tokens->start[s + 1]);
        fprintf(file, "%s\n", samples->ended && !samples->ended[s] ? "..." : "");
    }
}

PPO__WARNINGS_BACK

#endif
#endif
