/* ppo_resume.h - trainings of ppo.h's language models that continue after they were stopped

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_resume.h"            // after ppo.h; other files may include it for its declarations

   Copy this file beside ppo.h. In the folder examples/, where it is in companions/, programs include it from
   there: #include "companions/ppo_resume.h". Policies of control need none of this: ppo_trainer_save() and
   ppo_trainer_resume() are in ppo.h.

FINE-TUNING

   A path is all that it takes. The file is written every 100 steps, at the end, and when the callback ends the
   training. A program that was killed, and is started again, continues from it:

       fit.checkpoint = "run.safetensors";
       fit.checkpoint_every = 100;
       ppo_fit_sft(lm, &data, &fit);        // also ppo_fit_reward(), ppo_fit_dpo()

   It ends with the same bits as if it had never stopped. If the training in the file is complete, its model is
   read. It is an error that changes nothing if the file is of another kind of training, of a model of other
   sizes, of other data or other settings (except checkpoint_every and gradient_checkpointing): delete the file
   to start again.

PPO ON TOKENS

       ppo_rlhf_save(rlhf, "run.safetensors");                          // between two iterations
       ...
       ppo_settings_load(ppo_rlhf_settings(), "run.safetensors", &config);
       ppo_rlhf_resume("run.safetensors", policy, NULL, NULL, &prompts, reward, NULL, &config, &rlhf);
       while (ppo_rlhf_iterations(rlhf) < 100) ...

   ppo_lm_load() reads both kinds of files as models, unless these have LoRA.

   License: that of ppo.h. */
#ifndef PPO_RESUME_H
#define PPO_RESUME_H
#ifndef PPO_H
#error "include ppo.h before ppo_resume.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 2
#error "ppo_resume.h belongs to version 0.2 of ppo.h"
#endif

#ifndef PPO_NO_LANGUAGE
#ifdef __cplusplus
extern "C" {
#endif

/* Number of iterations since the start, also before a resume; 0 for NULL. */
PPO_DEF int64_t ppo_rlhf_iterations(const ppo_rlhf *rlhf);
/* Saves a run between two iterations: the policy, which ppo_lm_load() can read if it has no LoRA, the
   critic, the library's own reference, both optimizers, all settings by name, and what later iterations
   depend on. A resumed run ends with the same bits as one that never stopped. */
PPO_DEF ppo_status ppo_rlhf_save(const ppo_rlhf *rlhf, const char *path);
/* Continues it: as ppo_rlhf_create() with the same arguments, but the policy and the critic get the
   parameters and optimizers of the file. config: ppo_settings_load() reads the saved one. Settings may
   change, except the seed, and those that add or remove a critic (advantage) or the library's own
   reference (kl_coef from or to 0). Errors, which change no model: such a setting, another kind of file,
   other sizes, prompts or reference. */
PPO_DEF ppo_status ppo_rlhf_resume(const char *path, ppo_lm *policy, const ppo_lm *reference, ppo_lm *critic,
                                   const ppo_tokens *prompts, ppo_reward_fn reward, void *user,
                                   const ppo_rlhf_config *config, ppo_rlhf **rlhf);

#ifdef __cplusplus
}
#endif
#endif /* PPO_NO_LANGUAGE */
#endif /* PPO_RESUME_H */
/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__RESUME_IMPLEMENTED)
#define PPO__RESUME_IMPLEMENTED
#ifndef PPO_NO_LANGUAGE

PPO__WARNINGS_OFF

/* --------------------------------------------------------------------------------------------------------
   @@ What both kinds have in common

   A file holds the models that are trained, with their moments, and what else outlives a step: a table of items
   for each kind of training, by which it is saved and loaded. Facts about what is not in the file, such as a hash
   of the data, are compared. To add state: a row in ppo__serialize_fit() or ppo__serialize_rlhf().
   -------------------------------------------------------------------------------------------------------- */

/* Writes a fact about a run to its checkpoint or, when loading, checks that it is the same. */
static ppo_status ppo__serialize_fact(ppo_file *file, int way, const char *name, const char *fact) {
    char key[64];
    snprintf(key, sizeof key, "saved_with.%s", name); /* apart from settings of the same name */
    const char *text = ppo_file_text(file, key);
    if (way == PPO__SAVE) return ppo_file_set_text(file, key, fact);
    if (text && strcmp(text, fact) == 0) return PPO_OK;
    return ppo__file_fail(
        file->path, "saved with another \"%s\": give the same again, or begin anew without this file", name);
}

static ppo_status ppo__serialize_hash(ppo_file *file, int way, const char *key, uint64_t hash) {
    char text[32];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    return ppo__serialize_fact(file, way, key, text);
}

/* Checks that a file is a checkpoint of this function, and complete. */
static ppo_status ppo__check_checkpoint(const ppo_file *file, const char *function) {
    const char *by = ppo_file_text(file, "checkpoint");
    if (!by) return ppo__file_fail(file->path, "it is no checkpoint of %s()", function);
    if (strcmp(by, function) == 0) return ppo__check_checksum(file);
    return ppo__file_fail(file->path, "it is a checkpoint of %.40s(), not of %s()", by, function);
}

static ppo_status ppo__serialize_moments(ppo_file *file, int way, const char *prefix,
                                         const ppo_params *params) {
    const ppo__item second = {"adam.v", PPO_F32, 1, {(int64_t)params->count, 0}, params->v, 0, FLT_MAX};
    char name[32];
    snprintf(name, sizeof name, "%sadam.m.", prefix);
    ppo_status status = ppo__serialize_params(file, way, name, params, params->m, 2);
    snprintf(name, sizeof name, "%sadam.v.", prefix);
    if (!status) status = ppo__serialize_params(file, way, name, params, params->v, 2);
    return status ? status : ppo__check_item(file, way, &second);
}

/* The same of the weights of a model that is not in the file, and of its base. */
static ppo_status ppo__serialize_weights(ppo_file *file, int way, const char *prefix, const char *name,
                                         const ppo_lm *lm) {
    uint64_t hash = PPO__FNV1A;
    char key[32];
    snprintf(key, sizeof key, "%s%s", prefix, name);
    return ppo__hash_weights(lm, &hash) ? ppo__failed : ppo__serialize_hash(file, way, key, hash);
}

/* A model that is being trained: parameters and moments, under a prefix; "": as a model's file, if it has
   no base. */
static ppo_status ppo__put_trained(ppo_file *file, const char *prefix, const ppo_lm *lm) {
    const ppo_params *params = lm->params;
    ppo_status status = ppo__params_fetch(params);
    if (!status && (*prefix || lm->base))
        status = ppo__serialize_params(file, PPO__SAVE, prefix, params, params->data, 2);
    else if (!status) status = ppo_lm_put(lm, file);
    if (!status && lm->base) status = ppo__serialize_weights(file, PPO__SAVE, prefix, "base", lm->base);
    return status ? status : ppo__serialize_moments(file, PPO__SAVE, prefix, params);
}

/* Reads it into a new model. ppo__copy_trained() copies that to lm once nothing can fail any more. */
static ppo_status ppo__get_trained(ppo_file *file, const char *prefix, const ppo_lm *lm, ppo_lm **read) {
    const int part = *prefix || lm->base;
    ppo_status status = part ? ppo_lm_copy(lm, 0, read) : ppo_lm_get(file, read);
    for (int i = 0; i < ppo__lm_settings.count && !status; ++i)
        if (strcmp(ppo__lm_fields[i].name, "seed") != 0)
            status = ppo__check_kept(&ppo__lm_settings, ppo__lm_fields[i].name, &(*read)->full, &lm->full,
                                     "checkpoint");
    if (!status && part)
        status = ppo__serialize_params(file, PPO__LOAD, prefix, (*read)->params, (*read)->params->data, 2);
    if (!status && lm->base) status = ppo__serialize_weights(file, PPO__LOAD, prefix, "base", lm->base);
    if (!status) status = ppo_params_freeze((*read)->params, 0);
    return status ? status : ppo__serialize_moments(file, PPO__LOAD, prefix, (*read)->params);
}

static void ppo__copy_trained(ppo_lm *lm, const ppo_lm *read, int64_t step) {
    ppo_params *params = lm->params;
    const ppo_params *from = read->params;
    memcpy(params->data, from->data, from->count * sizeof(float));
    memcpy(params->m, from->m, from->count * sizeof(float));
    memcpy(params->v, from->v, from->count * sizeof(float));
    params->step = step;
}

/* --------------------------------------------------------------------------------------------------------
   @@ Fine-tuning
   -------------------------------------------------------------------------------------------------------- */

/* A training, and in another form what its file holds. Must last until the file is written. */
typedef struct ppo__fit_checkpoint {
    ppo__fit *fit;
    ppo_fit_progress *progress;
    int64_t counters[5];
} ppo__fit_checkpoint;

/* What a checkpoint holds besides the model. */
static ppo_status ppo__serialize_fit(ppo_file *file, int way, ppo__fit_checkpoint *kept) {
    ppo__fit *fit = kept->fit;
    const ppo__fit_set *learned = &fit->set[0], *held_out = &fit->set[1];
    const int64_t n = learned->count, held_n = held_out->count;
    float *best_loss = fit->best ? &fit->best_loss : NULL;
    const ppo__item items[] = {
        {"fit.counters", PPO_I64, 2, {1, 5}, kept->counters, 0, 4e18},
        {"fit.seconds", PPO_F64, 2, {1, 1}, &kept->progress->seconds, 0, 1e15},
        {"fit.best_loss", PPO_F32, 2, {1, 1}, best_loss, PPO__ANY},
        {"reference.chosen", PPO_F32, 1, {n, 0}, learned->ref_logp[0], PPO__ANY},
        {"reference.rejected", PPO_F32, 1, {n, 0}, learned->ref_logp[1], PPO__ANY},
        {"reference.held_out_chosen", PPO_F32, 1, {held_n, 0}, held_out->ref_logp[0], PPO__ANY},
        {"reference.held_out_rejected", PPO_F32, 1, {held_n, 0}, held_out->ref_logp[1], PPO__ANY},
    };
    ppo_status status = ppo__serialize_items(file, way, items, sizeof items / sizeof *items);
    for (int k = 0; k < 4 && !status; ++k) {
        static const char *const names[] = {"data", "rejected", "held_out", "held_out_rejected"};
        if (fit->set[k / 2].data[k % 2]) status = ppo__serialize_hash(file, way, names[k], fit->hash[k]);
    }
    if (status || !fit->best) return status;
    return ppo__serialize_params(file, way, "best.", fit->lm->params, fit->best, 2);
}

static ppo_status ppo__put_fit(ppo_file *file, const void *object) {
    ppo__fit_checkpoint *kept = (ppo__fit_checkpoint *)object;
    const ppo__fit *fit = kept->fit;
    char text[32];
    if (ppo__put_trained(file, "", fit->lm) ||
        ppo_file_set_text(file, "checkpoint", ppo__fit_names[fit->objective]) ||
        ppo__put_settings(file, ppo_fit_settings(), fit->config) || ppo__serialize_fit(file, PPO__SAVE, kept))
        return ppo__failed;
    return ppo_file_set_text(file, "checksum", ppo__file_checksum(file, text));
}

static ppo_status ppo__fit_save(ppo__fit *fit, ppo_fit_progress *p) {
    ppo__fit_checkpoint kept = {
        fit, p, {p->step, fit->learner.tokens, fit->lm->params->step, fit->worse, fit->over}};
    const ppo_group *g = fit->learner.group;
    ppo_status status = PPO_OK;
    if (!ppo__rank(g))
        status = ppo__save(ppo__fit_names[fit->objective], fit->config->checkpoint, ppo__put_fit, &kept);
    return ppo__group_agree(g, status, 0);
}

/* Continues from the checkpoint if there is one, and restarts the optimizer otherwise. */
static ppo_status ppo__fit_resume(ppo__fit *fit, ppo_fit_progress *p) {
    const ppo_settings *settings = ppo_fit_settings();
    const char *path = fit->config->checkpoint;
    ppo__fit_checkpoint kept = {fit, p, {0}};
    const int64_t *counters = kept.counters;
    ppo_fit_config own = ppo_fit_config_default();
    ppo_file *file = NULL;
    ppo_lm *read = NULL;
    FILE *found = fopen(path, "rb");
    const int there = found || errno != ENOENT;
    if (found) fclose(found);
    for (int k = 0; k < 4; ++k) {
        const ppo_tokens *data = fit->set[k / 2].data[k % 2];
        if (data) fit->hash[k] = ppo__hash_tokens(PPO__FNV1A, data);
    }
    if (!there) {
        ppo_params_reset_optimizer(fit->lm->params);
        return PPO_OK;
    }
    ppo_status status = ppo_file_read(path, &file);
    if (!status) status = ppo__check_checkpoint(file, ppo__fit_names[fit->objective]);
    if (!status) status = ppo__get_settings(file, settings, &own);
    for (int i = 0; i < settings->count && !status; ++i)
        if (strcmp(settings->field[i].name, "checkpoint_every") &&
            strcmp(settings->field[i].name, "gradient_checkpointing"))
            status = ppo__check_kept(settings, settings->field[i].name, &own, fit->config, "checkpoint");
    if (!status) status = ppo__get_trained(file, "", fit->lm, &read);
    if (!status) status = ppo__serialize_fit(file, PPO__LOAD, &kept);
    if (!status && (counters[0] > p->steps || counters[3] > INT_MAX || counters[4] > 1))
        status = ppo__file_fail(file->path, "corrupt file: step %lld of %lld, with %lld and %lld",
                                (long long)counters[0], (long long)p->steps, (long long)counters[3],
                                (long long)counters[4]);
    if (!status) status = ppo_params_sync(fit->lm->params);
    if (!status) {
        ppo__copy_trained(fit->lm, read, counters[2]);
        p->step = counters[0];
        fit->learner.tokens = counters[1];
        fit->worse = (int)counters[3];
        fit->over = (int)counters[4];
    }
    ppo_file_free(file);
    ppo_lm_free(read);
    return status;
}

PPO__COMPANION_IS(ppo__fit_functions, ppo__in_resume, {ppo__fit_resume, ppo__fit_save});

/* --------------------------------------------------------------------------------------------------------
   @@ PPO on tokens
   -------------------------------------------------------------------------------------------------------- */

PPO_DEF int64_t ppo_rlhf_iterations(const ppo_rlhf *r) { return r ? r->iteration : 0; }

/* A run, and in another form what its file holds. Must last until the file is written. */
typedef struct ppo__rlhf_checkpoint {
    ppo_rlhf *rlhf;
    int64_t counters[6];
    double seconds;
    float first[5]; /* figures of the first iteration */
} ppo__rlhf_checkpoint;

/* What a checkpoint holds beside the models that are trained. Saving does not change the run. */
static ppo_status ppo__serialize_rlhf(ppo_file *file, int way, ppo__rlhf_checkpoint *kept) {
    ppo_rlhf *r = kept->rlhf;
    const double most = 4e18;
    const ppo_params *reference = r->reference ? r->reference->params : NULL;
    const char *critic = !r->critic ? "none" : r->critic == r->policy ? "the policy" : "a model";
    const ppo__item items[] = {
        {"rlhf.counters", PPO_I64, 2, {1, 6}, kept->counters, 0, most},
        {"rlhf.seconds", PPO_F64, 2, {1, 1}, &kept->seconds, 0, 1e15},
        {"rlhf.reward_mean", PPO_F64, 2, {1, 1}, &r->reward_mean[0], -1e15, 1e15},
        {"rlhf.reward_var", PPO_F64, 2, {1, 1}, &r->reward_var[0], 0, DBL_MAX},
        {"rlhf.kl_coef", PPO_F32, 2, {1, 1}, &r->kl_coef, 0, FLT_MAX},
        {"rlhf.entropy_coef", PPO_F32, 2, {1, 1}, &r->entropy_coef, PPO__ANY},
        {"rlhf.rate_factor", PPO_F32, 2, {1, 1}, &r->rate_factor, 0, 1},
        {"rlhf.first", PPO_F32, 2, {1, 5}, kept->first, PPO__ANY},
    };
    ppo_status status = reference ? ppo__params_fetch(reference) : PPO_OK;
    if (!status) status = ppo__serialize_fact(file, way, "critic", critic);
    if (!status)
        status = ppo__serialize_hash(file, way, "prompts", ppo__hash_tokens(PPO__FNV1A, &r->prompts));
    if (!status && reference && !r->own_reference)
        status = ppo__serialize_weights(file, way, "", "reference", r->reference);
    else if (!status)
        status = ppo__serialize_fact(file, way, "reference", reference ? "in this file" : "none");
    if (!status && r->own_reference)
        status = ppo__serialize_params(file, way, "reference.", reference, reference->data, 2);
    return status ? status : ppo__serialize_items(file, way, items, sizeof items / sizeof *items);
}

static ppo_status ppo__put_rlhf(ppo_file *file, const void *object) {
    ppo__rlhf_checkpoint *kept = (ppo__rlhf_checkpoint *)object;
    const ppo_rlhf *r = kept->rlhf;
    char text[32];
    if (ppo__put_trained(file, "", r->policy) ||
        (r->critic && r->critic != r->policy && ppo__put_trained(file, "critic.", r->critic)) ||
        ppo_file_set_text(file, "checkpoint", "ppo_rlhf_save") ||
        ppo__put_settings(file, ppo_rlhf_settings(), &r->config) ||
        ppo__serialize_rlhf(file, PPO__SAVE, kept))
        return ppo__failed;
    return ppo_file_set_text(file, "checksum", ppo__file_checksum(file, text));
}

PPO_DEF ppo_status ppo_rlhf_save(const ppo_rlhf *r, const char *path) {
    if (!ppo__given("ppo_rlhf_save", r && path)) return PPO_ERROR_ARGUMENT;
    const ppo_rlhf_progress *first = &r->initial;
    ppo__rlhf_checkpoint kept = {
        (ppo_rlhf *)r,
        {r->iteration, r->samples, r->tokens, r->next_prompt, r->policy->params->step,
         r->critic ? r->critic->params->step : 0},
        ppo_clock() - r->started,
        {first->reward, first->reward_std, first->mean_length, first->entropy, r->first_variety}};
    const ppo_group *g = r->learner.group;
    ppo_status status = ppo__rank(g) ? PPO_OK : ppo__save("ppo_rlhf_save", path, ppo__put_rlhf, &kept);
    return ppo__group_agree(g, status, 0);
}

static ppo_status ppo__get_rlhf(ppo_file *file, ppo_rlhf *r) {
    ppo__rlhf_checkpoint kept = {r, {0}, 0, {0}};
    const int64_t *n = kept.counters;
    ppo_lm *const lm[2] = {r->policy, r->critic == r->policy ? NULL : r->critic};
    ppo_lm *read[2] = {NULL, NULL};
    ppo_rlhf_config own = ppo_rlhf_config_default();
    ppo_status status = ppo__check_checkpoint(file, "ppo_rlhf_save");
    if (!status) status = ppo__get_settings(file, ppo_rlhf_settings(), &own);
    const int critic = ppo__advantage_needs[own.advantage].critic != (r->critic != NULL);
    const int reference = r->reference == r->own_reference && (own.kl_coef > 0) != (r->reference != NULL);
    const int fixed[] = {1, critic, reference};
    static const char *const names[] = {"seed", "advantage", "kl_coef"};
    for (int k = 0; k < 3 && !status; ++k)
        if (fixed[k]) status = ppo__check_kept(ppo_rlhf_settings(), names[k], &own, &r->config, "checkpoint");
    if (!status) status = ppo__get_trained(file, "", lm[0], &read[0]);
    if (!status && r->own_reference) status = ppo_params_sync(r->own_reference->params);
    if (!status) status = ppo__serialize_rlhf(file, PPO__LOAD, &kept);
    if (!status && lm[1]) status = ppo__get_trained(file, "critic.", lm[1], &read[1]);
    for (int k = 0; k < 2 && lm[k] && !status; ++k) status = ppo_params_sync(lm[k]->params);
    for (int k = 0; k < 2; ++k) {
        if (!status && lm[k]) ppo__copy_trained(lm[k], read[k], n[4 + k]);
        ppo_lm_free(read[k]);
    }
    r->iteration = n[0];
    r->samples = n[1];
    r->tokens = n[2];
    r->next_prompt = n[3];
    r->started = ppo_clock() - kept.seconds;
    r->initial.reward = kept.first[0];
    r->initial.reward_std = kept.first[1];
    r->initial.mean_length = kept.first[2];
    r->initial.entropy = kept.first[3];
    r->first_variety = kept.first[4];
    if (!(r->config.penalty_target_kl > 0)) r->kl_coef = r->config.kl_coef;
    if (!(r->config.entropy_target > 0)) r->entropy_coef = r->config.entropy_coef;
    return status;
}

PPO_DEF ppo_status ppo_rlhf_resume(const char *path, ppo_lm *policy, const ppo_lm *reference, ppo_lm *critic,
                                   const ppo_tokens *prompts, ppo_reward_fn reward, void *user,
                                   const ppo_rlhf_config *config, ppo_rlhf **rlhf) {
    ppo_file *file = NULL;
    if (rlhf) *rlhf = NULL;
    if (!ppo__given("ppo_rlhf_resume", path && policy && prompts && config && rlhf))
        return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo_file_read(path, &file);
    if (!status) status = ppo__rlhf_make(policy, reference, critic, prompts, reward, user, config, rlhf);
    if (!status) status = ppo__get_rlhf(file, *rlhf);
    ppo_file_free(file);
    return ppo__rlhf_agree(rlhf, config, prompts, status);
}

PPO__WARNINGS_BACK

#endif
#endif
