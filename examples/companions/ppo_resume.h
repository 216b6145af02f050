/* ppo_resume.h - trainings of ppo.h that continue after they were stopped

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_resume.h"            // after ppo.h; other files may include it for its declarations

   Copy this file beside ppo.h. In the folder examples/, where it is in companions/, programs include it from
   there: #include "companions/ppo_resume.h".

CONTROL

       ppo_trainer_save(trainer, "run.safetensors");                          // between two iterations
       ppo_trainer_resume("run.safetensors", &env, NULL, &agent, &trainer);   // another day
       while (!ppo_trainer_done(trainer)) ppo_trainer_iterate(trainer, &progress);

   It ends with the same bits as if it had never stopped. ppo_agent_load() reads the file as a policy. Its CSV
   continues, too: ppo_log_open("progress.csv", NULL, ppo_trainer_steps(trainer), &log);
   and ppo_log_sync() before each save keeps its rows through a power failure.

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

   and in a program that is started later:

       ppo_settings_load(ppo_rlhf_settings(), "run.safetensors", &cfg);
       ppo_rlhf_resume("run.safetensors", policy, NULL, NULL, &prompts, reward, NULL, &cfg, &rlhf);
       while (ppo_rlhf_iterations(rlhf) < 100) ppo_rlhf_iterate(rlhf, NULL);

   ppo_lm_load() reads both kinds of files as models, unless these have LoRA.

   License: that of ppo.h. */
#ifndef PPO_RESUME_H
#define PPO_RESUME_H
#ifndef PPO_H
#error "include ppo.h before ppo_resume.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_resume.h belongs to version 0.3 of ppo.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef PPO_NO_CONTROL

/* Saves a checkpoint: a policy's file with the optimizer, random streams, running statistics, counters, and
   the environments in the middle of their episodes. A run that is resumed from it ends with the same bits as
   one that never stopped.

   An environment without open() is saved as the bytes of its state, which reach it as they are: the checksum
   detects damage, not malice. One with open() is restored by replaying its episode. It must depend on its
   random numbers and actions alone, and needs a max_steps: num_envs episodes may have 16 million numbers of
   actions. */
PPO_DEF ppo_status ppo_trainer_save(const ppo_trainer *trainer, const char *path);

/* Continues from a checkpoint: creates an agent and a trainer, which the caller frees. env must have the name
   and the sizes of the one that was trained on. config NULL: the settings in the file. Otherwise read them by
   ppo_config_load() and change any but the network's. What changes counts: another learning_rate or kl_coef
   replaces the one that was adapted to a KL, and it is an error if the setting can have no effect. With another
   num_envs, seed, or self_play all environments begin new episodes: those of another seed by its random streams,
   another self_play without opponents. env.max_steps may change, too: an episode that is older than the new limit,
   or that an environment with open() cannot play again without one, gives way to a new one.
   Callbacks and custom schedules are not in the file. Nor are rollouts, so a small file could ask for much
   memory: with config NULL, settings that need more than 256 MB and also more than 1024 times the file's size are
   an error. */
PPO_DEF ppo_status ppo_trainer_resume(const char *path, const ppo_env *env, const ppo_config *config,
                                      ppo_agent **agent, ppo_trainer **trainer);

#ifndef PPO_NO_REPORTS
/* Waits until all that was written to a log is on the disk: before a checkpoint is saved, so that a power failure
   does not leave a checkpoint without the rows before it. log NULL: nothing. Errors: those of the files. */
PPO_DEF ppo_status ppo_log_sync(ppo_log *log);
#endif

#endif /* PPO_NO_CONTROL */

#ifndef PPO_NO_LANGUAGE

/* Number of iterations since the start, also before a resume; 0 for NULL. */
PPO_DEF int64_t ppo_rlhf_iterations(const ppo_rlhf *rlhf);
/* Saves a run between two iterations: the policy, which ppo_lm_load() can read if it has no LoRA, the
   critic, the library's own reference, both optimizers, all settings by name, and what later iterations
   depend on. A resumed run ends with the same bits as one that never stopped. */
PPO_DEF ppo_status ppo_rlhf_save(const ppo_rlhf *rlhf, const char *path);
/* Continues it: as ppo_rlhf_create() with the same arguments, but the policy and the critic get the
   parameters and optimizers of the file. config: ppo_settings_load() reads the saved one. Settings may
   change, and what changes counts (another kl_coef replaces the one that was adapted), except the seed, and those that add or remove a critic (advantage) or the library's own
   reference (kl_coef from or to 0). Errors, which change no model: such a setting, another kind of file,
   other sizes, prompts or reference. */
PPO_DEF ppo_status ppo_rlhf_resume(const char *path, ppo_lm *policy, const ppo_lm *reference, ppo_lm *critic,
                                   const ppo_tokens *prompts, ppo_reward_fn reward, void *user,
                                   const ppo_rlhf_config *config, ppo_rlhf **rlhf);

#endif /* PPO_NO_LANGUAGE */

#ifdef __cplusplus
}
#endif
#endif /* PPO_RESUME_H */
/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__RESUME_IMPLEMENTED)
#define PPO__RESUME_IMPLEMENTED

PPO__WARNINGS_OFF

/* Adam's moments. */
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

#ifndef PPO_NO_CONTROL

/* -- control. A checkpoint is a policy's file with what training keeps from one iteration to the next: counters,
   Adam's moments, random streams, and the environments in the middle of their episodes. To resume is to create an
   agent and a trainer with the saved settings, and to load the list of ppo__serialize_trainer() into them.
   Everything else in a trainer is written anew in each iteration, so a resumed run computes the same bits.

   To add state of a trainer that lasts beyond an iteration: a row in ppo__serialize_trainer(). If memory grows with
   a setting, it belongs in ppo__trainer_bytes(). Add a run that uses the state to `kinds` in
   tests/test_checkpoints.c. -- */

/* A trainer, and what its file holds in another form. Must exist until the file is written. */
typedef struct ppo__checkpoint {
    ppo_trainer *trainer;
    int64_t counters[5];
    double seconds;
    int fresh; /* 1: every environment begins a new episode */
    /* of the settings and the environment when it is loaded: what they have changed */
    int other_seed, other_rivals;
    int anew; /* 1: so that the environments in the file are of no use */
} ppo__checkpoint;

/* Whether this is loaded from the file. */
static int ppo__is_kept(const ppo__checkpoint *kept, const char *name) {
    if (kept->other_rivals && !strcmp(name, "trainer.snapshots")) return 0;
    if (kept->other_seed && !strcmp(name, "trainer.shuffle_rng")) return 0;
    return !kept->anew || !strncmp(name, "trainer.", 8);
}

/* What a checkpoint holds besides the policy. Saving changes nothing in the trainer. */
static ppo_status ppo__serialize_trainer(ppo_file *file, int way, ppo__checkpoint *kept) {
    enum {
        PPO__EPISODES = PPO__LAST_EPISODES,
        PPO__FIGURES = PPO_MAX_METRICS,
        PPO__RNG = sizeof(ppo_rng) / sizeof(uint32_t)
    };
    ppo_trainer *trainer = kept->trainer;
    ppo__collector *collector = &trainer->collector;
    ppo__envs *envs = &collector->envs;
    ppo_rollout *held = &collector->held; /* NULLs but with several agents */
    ppo_params *params = trainer->agent->model.params;
    const ppo_space *space = &envs->env.action_space;
    const int64_t n = envs->count, copies = envs->copies, width = collector->model->core.width;
    const int64_t wide = ppo__space_width(space), outputs = ppo__space_outputs(space);
    const int64_t words = envs->played ? (int64_t)ppo__played_words(&envs->env) : 0, obs = envs->env.obs_size;
    const int64_t open_bytes = held->obs_bytes ? held->byte_count : 0;
    const char *limit = ppo_file_text(file, "max_steps"); /* NULL: saved by an older version */
    const char *rest = "";
    const int max_steps = way == PPO__SAVE ? envs->env.max_steps : limit ? ppo__parse_count(limit, &rest) : 0;
    const double most = 4e18, most_length = max_steps ? max_steps - 1 : INT_MAX;
    const int several = envs->agents > 1, rivals = collector->snapshot_room;
    const double last_rival = rivals - 1;
    uint32_t *played = way == PPO__LOAD ? NULL : envs->played; /* see ppo__get_played() */
    const int adapts =
        trainer->config.lr_target_kl > 0 && (way != PPO__LOAD || ppo_file_find(file, "trainer.rate"));
    const int has_figures =
        ppo__metric_count(&envs->env) && (way != PPO__LOAD || ppo_file_find(file, "trainer.last_metrics"));
    void *figures = has_figures ? trainer->last_metrics : NULL;
    char *bytes = envs->env.open ? NULL : envs->state;
    ppo_rng *const streams[] = {envs->rng, envs->episode_rng, collector->match_rng, collector->action_rng,
                                &trainer->shuffle_rng};
    int64_t *const counters[5] = {&trainer->iteration, &trainer->steps, &trainer->episodes, &trainer->updates,
                                  &params->step};
    const ppo__item items[] = {
        {"trainer.counters", PPO_I64, 2, {1, 5}, kept->counters, 0, most},
        {"trainer.seconds", PPO_F64, 2, {1, 1}, &kept->seconds, 0, 1e15},
        {"trainer.kl_coef", PPO_F32, 2, {1, 1}, &trainer->kl_coef, 0, FLT_MAX},
        {"trainer.rate", PPO_F32, 2, {1, 1}, adapts ? &trainer->rate : NULL, 0, 10},
        {"trainer.last_return", PPO_F32, 2, {1, PPO__EPISODES}, trainer->last_return, PPO__ANY},
        {"trainer.last_length", PPO_I32, 2, {1, PPO__EPISODES}, trainer->last_length, 0, INT_MAX},
        {"trainer.last_metrics", PPO_F32, 2, {PPO__FIGURES, PPO__EPISODES}, figures, PPO__ANY},
        {"trainer.shuffle_rng", PPO_U32, 2, {1, PPO__RNG}, &trainer->shuffle_rng, PPO__ANY},
        {"environments.fresh", PPO_I32, 2, {1, 1}, &kept->fresh, 0, 1},
        {"environments.rng", PPO_U32, 2, {copies, PPO__RNG}, envs->rng, PPO__ANY},
        {"environments.action_rng", PPO_U32, 2, {n, PPO__RNG}, collector->action_rng, PPO__ANY},
        {"environments.observation", PPO_F32, 2, {n, obs}, envs->obs, PPO__ANY},
        {"environments.return", PPO_F64, 2, {n, 1}, envs->episode_return, PPO__ANY},
        {"environments.length", PPO_I32, 2, {n, 1}, envs->length, 0, most_length},
        {"environments.steps", PPO_I64, 2, {n, 1}, envs->steps, 0, most},
        {"environments.discounted", PPO_F32, 2, {n, 1}, collector->discounted, PPO__ANY},
        {"environments.start", PPO_U8, 2, {n, 1}, collector->start, 0, 1},
        {"environments.recurrent_state", PPO_F32, 2, {n, width}, width ? collector->state : NULL, PPO__ANY},
        {"environments.episode_rng", PPO_U32, 2, {copies, PPO__RNG}, envs->episode_rng, PPO__ANY},
        {"environments.played", PPO_U32, 2, {copies, words}, played, PPO__ANY},
        {"environments.state", PPO_U8, 2, {copies, (int64_t)envs->stride}, bytes, PPO__ANY},
        {"environments.age", PPO_I32, 2, {copies, 1}, several ? envs->age : NULL, 0, most_length},
        {"environments.turn", PPO_U8, 2, {n, 1}, several ? envs->turn : NULL, 0, PPO__ACTS},
        {"environments.player", PPO_I32, 2, {n, 1}, rivals ? collector->player : NULL, -1, last_rival},
        {"environments.match_rng", PPO_U32, 2, {copies, PPO__RNG}, collector->match_rng, PPO__ANY},
        {"trainer.snapshots", PPO_I64, 2, {1, 1}, rivals ? &collector->snapshot_count : NULL, 0, most},
        {"environments.open", PPO_U8, 2, {n, 1}, several ? collector->row : NULL, 0, 1},
        {"environments.earned", PPO_F32, 2, {n, 1}, several ? collector->earned : NULL, PPO__ANY},
        {"open.observation", PPO_F32, 2, {n, obs - open_bytes}, held->obs, PPO__ANY},
        {"open.observation_bytes", PPO_U8, 2, {n, open_bytes}, held->obs_bytes, PPO__ANY},
        {"open.choices", PPO_I32, 2, {n, wide}, held->actions.discrete, 0, INT_MAX},
        {"open.box", PPO_F32, 2, {n, wide}, held->actions.box, PPO__ANY},
        {"open.mask", PPO_U8, 2, {n, outputs}, held->mask, 0, 1},
        {"open.logp", PPO_F32, 2, {n, 1}, held->logp, PPO__ANY},
        {"open.policy", PPO_F32, 2, {n, outputs}, held->policy, -INFINITY, FLT_MAX},
        {"open.log_std", PPO_F32, 2, {n, wide}, held->log_std, PPO__ANY},
        {"open.recurrent_state", PPO_F32, 2, {n, width}, held->state, PPO__ANY},
        {"open.start", PPO_U8, 2, {n, 1}, held->start, 0, 1},
    };
    for (size_t i = 0; way == PPO__GATHER && i < sizeof items / sizeof *items; ++i)
        if (items[i].data && (items[i].shape[0] == n || items[i].shape[0] == copies) &&
            ppo__group_share(collector->group, items[i].data, (int)copies,
                             (size_t)ppo__shape_bytes(items[i].type, items[i].shape, 2) / (size_t)copies))
            return ppo__failed;
    if (way == PPO__GATHER) return PPO_OK;
    for (int k = 0; k < 5; ++k) kept->counters[k] = *counters[k];
    kept->fresh = !ppo__is_pushed(&envs->env) && (envs->env.copies || ppo__env_is_over(envs, envs->begin));
    ppo_status status = PPO_OK;
    for (size_t i = 0; i < sizeof items / sizeof *items && !status; ++i)
        if (ppo__is_kept(kept, items[i].name)) status = ppo__serialize(file, way, &items[i]);
    if (!status) status = ppo__serialize_moments(file, way, "", params);
    for (int k = 0; k < rivals && !status && !kept->other_rivals; ++k) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "snapshot.%d.", k);
        status = ppo__serialize_agent(file, way, prefix, collector->snapshots[k]);
    }
    if (status || way == PPO__SAVE) return status;
    for (int k = 0; k < 5; ++k)
        for (int64_t e = 0; e < (k < 3 ? copies : k < 4 ? n : 1) && streams[k]; ++e)
            if (streams[k][e].used > 4)
                return ppo__file_fail(file->path, "corrupt file: invalid state of a random stream");
    for (int64_t e = 0; e < n && held->actions.discrete; ++e)
        if (!ppo__kind(space)->valid(space,
                                     (const uint32_t *)(const void *)(held->actions.discrete + e * wide)))
            return ppo__file_fail(file->path, "corrupt file: open.choices: no action of agent %d", (int)e);
    for (int k = 0; k < 5; ++k) *counters[k] = kept->counters[k];
    trainer->started = ppo_clock() - kept->seconds;
    return PPO_OK;
}

/* The size of an environment's state, whose bytes have the machine's order. */
static const char *ppo__state_size_text(const ppo_env *env, char text[32]) {
    snprintf(text, 32, "%.0f%s", (double)env->state_size, ppo__is_big_endian() ? " big-endian" : "");
    return text;
}

static ppo_status ppo__put_checkpoint(ppo_file *file, const void *object) {
    ppo__checkpoint *kept = (ppo__checkpoint *)object;
    const ppo_trainer *trainer = kept->trainer;
    const ppo__envs *envs = &trainer->collector.envs;
    char text[32];
    if (trainer->observed) return ppo__refuse("ppo_trainer_save: this is a player, which does not train");
    if (envs->env.open && !envs->env.copies && !envs->played)
        return ppo__refuse(
            "ppo_trainer_save: set env.max_steps, which is %d: environments with open() are saved as "
            "the actions of their episodes, and num_envs of these may have at most %d numbers",
            envs->env.max_steps, (int)PPO__MOST_PLAYED);
    if (trainer->learning)
        return ppo__refuse(
            "ppo_trainer_save: an iteration is half learned: call ppo_trainer_learn() to its end first");
    ppo_status status = ppo__put_agent(file, trainer->agent);
    if (!status) status = ppo_file_set_text(file, "state_size", ppo__state_size_text(&envs->env, text));
    if (!status) status = ppo_file_set_text(file, "pushed", ppo__is_pushed(&envs->env) ? "yes" : "no");
    snprintf(text, sizeof text, "%d", envs->env.max_steps);
    if (!status) status = ppo_file_set_text(file, "max_steps", text);
    if (!status) /* the agent may have another trainer, too */
        status = ppo__put_settings(file, ppo_config_settings(), &trainer->config);
    if (!status) status = ppo__serialize_trainer(file, PPO__SAVE, kept);
    return status ? status : ppo_file_set_text(file, "checksum", ppo__file_checksum(file, text));
}

PPO_DEF ppo_status ppo_trainer_save(const ppo_trainer *trainer, const char *path) {
    if (!PPO__GIVEN("ppo_trainer_save", trainer, path)) return PPO_ERROR_ARGUMENT;
    ppo__checkpoint kept = {(ppo_trainer *)trainer, {0}, ppo_clock() - trainer->started, 0, 0, 0, 0};
    const ppo_group *g = trainer->collector.group;
    ppo_status status = g ? ppo__serialize_trainer(NULL, PPO__GATHER, &kept) : PPO_OK;
    if (!status && !ppo__rank(g)) status = ppo__save("ppo_trainer_save", path, ppo__put_checkpoint, &kept);
    return ppo__group_agree(g, status, 0);
}

#define PPO__POLICY_ALONE "; ppo_agent_load() reads the policy alone"

/* The actions of the episodes, each of which has the room of env.max_steps, in the file perhaps of another one. */
static ppo_status ppo__get_played(const ppo_file *file, ppo__envs *envs) {
    const size_t step = ppo__played_words(&envs->env) / (size_t)envs->env.max_steps;
    const ppo_array *array = ppo_file_find(file, "environments.played");
    int64_t shape[2] = {envs->copies, (int64_t)ppo__played_words(&envs->env)};
    const size_t own = (size_t)shape[1];
    if (array && array->rank == 2 && array->shape[1] % (int64_t)step == 0) shape[1] = array->shape[1];
    const size_t words = (size_t)shape[1], least = words < own ? words : own;
    ppo_status status = ppo__file_expect(file, "environments.played", PPO_U32, shape, 2, &array);
    for (int k = 0; k < envs->copies && !status; ++k) {
        if ((size_t)envs->age[k] > words / step)
            return ppo__file_fail(file->path,
                                  "corrupt file: environment %d played %d steps, but only %.0f are there", k,
                                  envs->age[k], (double)(words / step));
        status = ppo__file_fetch(file, array, k * words * sizeof(uint32_t), least * sizeof(uint32_t),
                                 envs->played + k * own);
    }
    return status;
}

/* Brings copy k back to its state by playing the same episode with the same random numbers. */
static ppo_status ppo__replay(const ppo_file *file, ppo__envs *envs, int k) {
    const ppo_env *env = &envs->env;
    const ppo__space_kind *kind = ppo__kind(&env->action_space);
    const int agents = envs->agents, width = ppo__space_width(&env->action_space);
    const uint32_t *played = envs->played + (size_t)k * ppo__played_words(env);
    const float *saved = ppo__obs(envs, k * agents), *obs = ppo__own_obs(envs, k);
    ppo_action *action = envs->action + k * agents;
    const ppo_rng rng = envs->rng[k];
    const int age = envs->age[k];
    int same = 1;
    envs->rng[k] = envs->episode_rng[k];
    envs->age[k] = 0;
    ppo_status status = ppo__env_call(envs, k, 0, NULL);
    for (; envs->age[k] < age && same && !status; ++envs->age[k]) {
        for (int i = 0; i < agents; ++i, played += width) {
            const ppo_action none = {0, NULL, NULL};
            action[i] = none;
            if (kind->continuous) action[i].box = (const float *)(const void *)played;
            else
                action[i].choices = (const int *)(const void *)played,
                action[i].discrete = action[i].choices[0];
            int idle = agents > 1; /* of agents that did not act there are zeros */
            for (int j = 0; j < width; ++j) idle &= !played[j];
            same &= idle || kind->valid(&env->action_space, played);
        }
        if (same) status = ppo__env_call(envs, k, 1, NULL);
    }
    if (status) return status;
    for (int e = k * agents, size = env->obs_size; e < (k + 1) * agents; ++e, saved += size, obs += size)
        same = same && (envs->turn[e] != PPO__ACTS || memcmp(saved, obs, size * sizeof(float)) == 0);
    if (same && memcmp(&rng, &envs->rng[k], sizeof rng) == 0) return ppo__check_written(envs, k);
    return ppo__file_fail(file->path,
                          "replaying the episode of environment %d ends in another state: it has changed, or "
                          "depends on more than rng and actions" PPO__POLICY_ALONE,
                          k);
}

/* About the bytes that a trainer needs for these settings: the rollout, a minibatch, the environments'
   states, noise and actions, and the tapes of the shards that are computed at the same time (of the whole
   minibatch if the policy is recurrent or large). */
static double ppo__trainer_bytes(const ppo_env *env, const ppo_agent *agent, const ppo_config *config) {
    const ppo_actor_critic *model = &agent->model;
    const double outputs = ppo__space_outputs(&env->action_space), recurrent = config->recurrent;
    const double samples = (double)config->num_envs * config->rollout_steps;
    const double seen = env->obs_size + recurrent;
    const double kept =
        recurrent + env->obs_size - (config->normalize_obs ? 0 : 0.75 * (double)ppo__byte_count(env));
    const double sample = kept + seen * config->recompute_advantages + 2 * outputs + 16; /* floats */
    const double noise = model->gsde ? (double)ppo__size(model->log_std) : 0;
    double batch = config->minibatch_size ? config->minibatch_size : samples;
    double tape = seen + sample + 12 * recurrent, shards = config->threads;
    for (int k = 0; k < config->hidden_layers; ++k)
        tape += (config->layer_norm ? 12.0 : 8.0) * config->hidden[k];
    for (int k = 0; k < model->conv.layers; ++k) tape += 3.0 * ppo__picture_size(model->conv.shape[k + 1]);
    if (config->recurrent && batch < config->sequence_steps) batch = config->sequence_steps;
    if (batch > samples) batch = samples;
    if (config->recurrent || model->params->count > PPO__SHARD_PARAMS || shards > (int)PPO__SHARDS)
        shards = PPO__SHARDS;
    double floats = samples * sample + batch * (sample + tape * (shards / (double)(int)PPO__SHARDS)) +
                    config->num_envs * (noise + tape / 4);
    return floats * sizeof(float) + (double)config->num_envs * (double)env->state_size;
}

/* Errors: env is not like the one that was saved. */
static ppo_status ppo__check_saved_env(const ppo_file *file, const ppo_env *env) {
    const char *name = ppo_file_text(file, "environment"), *size = ppo_file_text(file, "state_size");
    const char *pushed = ppo_file_text(file, "pushed"); /* NULL: by an older version */
    const ppo_array *obs = ppo_file_find(file, "environments.observation");
    const ppo_array *rng = ppo_file_find(file, "environments.rng");
    const int opened = ppo_file_find(file, "environments.episode_rng") != NULL;
    char wanted_name[64], wanted_size[32];
    ppo__keep_name(wanted_name, env->name);
    if (name && strcmp(name, wanted_name) != 0)
        return ppo__file_fail(file->path, "saved with environment \"%.60s\", not \"%.60s\"" PPO__POLICY_ALONE,
                              name, wanted_name);
    if (pushed && (strcmp(pushed, "yes") == 0) != ppo__is_pushed(env))
        return ppo__file_fail(
            file->path,
            ppo__is_pushed(env)
                ? "saved with an environment that has functions, which this one lacks" PPO__POLICY_ALONE
                : "saved by a program that pushes what happens, with an environment that has no "
                  "functions" PPO__POLICY_ALONE);
    if (!size || strcmp(size, ppo__state_size_text(env, wanted_size)) != 0)
        return ppo__file_fail(file->path,
                              "its environments have a state of %.20s bytes, not %s" PPO__POLICY_ALONE,
                              size ? size : "no", ppo__state_size_text(env, wanted_size));
    if (rng && obs && rng->shape[0] > 0 && obs->shape[0] % rng->shape[0] == 0 &&
        obs->shape[0] / rng->shape[0] != ppo__agents(env))
        return ppo__file_fail(file->path, "its worlds have %.0f agents, not %d" PPO__POLICY_ALONE,
                              (double)(obs->shape[0] / rng->shape[0]), ppo__agents(env));
    if (pushed && opened != (env->open != NULL) && opened == !ppo_file_find(file, "environments.state"))
        return ppo__file_fail(file->path, "saved with an environment %s open(), not %s it" PPO__POLICY_ALONE,
                              opened ? "with" : "without", opened ? "without" : "with");
    return PPO_OK;
}

/* Errors: a setting that has changed is the network's, or cannot have an effect. */
static ppo_status ppo__check_changes(const ppo_env *env, const ppo_config *own, const ppo_config *config) {
    const ppo_settings *all = ppo_config_settings();
    ppo_status status = ppo__check_same(own, config, "checkpoint");
    for (int i = 0; i < all->count && !status; ++i) {
        const char *name = all->field[i].name;
        char was[PPO__SETTING_SIZE], is[PPO__SETTING_SIZE];
        status = ppo_settings_get(all, own, name, was, sizeof was);
        if (!status) status = ppo_settings_get(all, config, name, is, sizeof is);
        if (!status && strcmp(was, is)) status = ppo_config_check_effect(config, env, name);
    }
    return status;
}

/* 1: the open rows of agents in one world have columns that the file lacks: objective, action_mask or byte_scale
   were others. */
static int ppo__lacks_columns(const ppo_file *file, const ppo_rollout *held) {
    return (held->policy && !ppo_file_find(file, "open.policy")) ||
           (held->log_std && !ppo_file_find(file, "open.log_std")) ||
           (held->mask && !ppo_file_find(file, "open.mask")) ||
           (held->obs && !ppo_file_find(file, "open.observation")) ||
           (held->obs_bytes && !ppo_file_find(file, "open.observation_bytes"));
}

/* Brings all copies back to where they were. Those whose episode is older than env.max_steps is now, or which cannot
   play it again, begin a new one. */
static ppo_status ppo__restore_copies(const ppo_file *file, ppo__collector *c) {
    ppo__envs *envs = &c->envs;
    const ppo_env *env = &envs->env;
    ppo_status status = envs->played ? ppo__get_played(file, envs) : PPO_OK;
    for (int k = 0; k < envs->copies && !status; ++k) {
        const int own = k >= envs->begin && k < envs->end;
        const int late = env->max_steps && envs->age[k] >= env->max_steps;
        if (late || (env->open && !envs->played)) {
            memset(c->row + k * envs->agents, PPO__ROW_COMPLETE, (size_t)envs->agents);
            if (own) status = ppo__begin_copy(c, k);
        } else if (own && env->open) status = ppo__replay(file, envs, k);
    }
    return status;
}

static ppo_status ppo__resume(ppo_file *file, const ppo_env *env, const ppo_config *config, ppo_agent **agent,
                              ppo_trainer **trainer) {
    if (!ppo_file_text(file, "checksum"))
        return ppo__file_fail(file->path, "it is a policy, not a checkpoint: it can be loaded, not resumed");
    ppo_status status = config ? ppo_config_check(config) : PPO_OK;
    if (!status) status = ppo__get_agent(file, env, agent);
    if (!status) status = ppo__check_saved_env(file, env);
    if (status) return status;

    /* before making anything whose size is not that of an array in the file */
    const ppo_config own = (*agent)->config, *now = config ? config : &own;
    const int64_t shape[2] = {own.num_envs, env->obs_size};
    const ppo_array *array;
    double have = 0, need = ppo__trainer_bytes(env, *agent, &own);
    if (config) status = ppo__check_changes(env, &own, config);
    else if (ppo_config_check(&own)) status = ppo__file_blame(file);
    if (!status) status = ppo__file_expect(file, "environments.observation", PPO_F32, shape, 2, &array);
    for (int i = 0; i < ppo_file_count(file); ++i) have += (double)ppo_file_at(file, i)->bytes;
    if (!status && !config && need > 256e6 && need > 1024 * have)
        status = ppo__file_fail(file->path,
                                "its settings ask for %.0f bytes: pass a configuration to resume it", need);
    if (!status && ppo__check_room(env, now)) status = config ? PPO_ERROR_ARGUMENT : ppo__file_blame(file);
    if (!status) status = ppo__trainer_make(env, now, *agent, trainer);
    if (status) return status;

    ppo_trainer *made = *trainer;
    ppo__collector *c = &made->collector;
    ppo__envs *envs = &c->envs;
    ppo__checkpoint kept = {made, {0}, 0, 0, now->seed != own.seed, now->self_play != own.self_play, 0};
    kept.anew = kept.other_seed || kept.other_rivals || now->num_envs != own.num_envs ||
                ppo__lacks_columns(file, &c->held);
    status = ppo__serialize_trainer(file, PPO__LOAD, &kept);
    if (status) return status;
    if (kept.anew)
        ppo__forget_episodes(c, 1 + (uint32_t)made->iteration); /* numbers that were not drawn yet */
    else if (!ppo__is_pushed(env) && envs->agents == 1) {
        memset(envs->turn, PPO__ACTS, (size_t)envs->count);
        memcpy(envs->age, envs->length, envs->count * sizeof(int));
    }
    if (ppo__is_pushed(env)) ppo__rollout_begin(c, ppo__next_steps(made)); /* new episodes */
    if (kept.fresh) memset(envs->turn, PPO__OUT, (size_t)envs->count);
    ppo__envs_guard(envs);
    if (!ppo__adapts_kl(now) || now->kl_coef != own.kl_coef) made->kl_coef = now->kl_coef;
    if (now->learning_rate != own.learning_rate) made->rate = 0;
    return kept.fresh || kept.anew || ppo__is_pushed(env) ? PPO_OK : ppo__restore_copies(file, c);
}

PPO_DEF ppo_status ppo_trainer_resume(const char *path, const ppo_env *env, const ppo_config *config,
                                      ppo_agent **agent, ppo_trainer **trainer) {
    ppo_file *file = NULL;
    if (agent) *agent = NULL;
    if (trainer) *trainer = NULL;
    if (!PPO__GIVEN("ppo_trainer_resume", path, agent, trainer)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo__check_functions(env);
    if (!status) status = ppo_file_read(path, &file);
    if (!status) status = ppo__resume(file, env, config, agent, trainer);
    ppo_file_free(file);
    status = ppo__trainer_agree(trainer, status);
    if (status) {
        ppo_trainer_free(*trainer);
        ppo_agent_free(*agent);
        *trainer = NULL;
        *agent = NULL;
    }
    return status;
}

#ifndef PPO_NO_REPORTS
PPO_DEF ppo_status ppo_log_sync(ppo_log *log) {
    for (int k = 0; k < 2 && log; ++k) {
        ppo__log_file *file = k ? &log->events : &log->csv;
        if (!file->file) continue;
        if (ppo__sync(file->file, file->path)) return ppo__file_failed(file->path, "written", errno);
        ppo__sync_names(file->path, ppo__file_name(file->path));
    }
    return PPO_OK;
}
#endif

#endif

#ifndef PPO_NO_LANGUAGE

/* --------------------------------------------------------------------------------------------------------
   @@ What both kinds have in common

   A file holds the models that are trained, with their moments, and what else outlives a step: a table of items
   for each kind of training, by which it is saved and loaded. Facts about what is not in the file, such as a hash
   of the data, are compared. To add state: a row in ppo__serialize_fit() or ppo__serialize_rlhf().
   -------------------------------------------------------------------------------------------------------- */

static ppo_status ppo__serialize_items(ppo_file *file, int way, const ppo__item *items, size_t n) {
    ppo_status status = PPO_OK;
    for (size_t i = 0; i < n && !status; ++i) status = ppo__serialize(file, way, &items[i]);
    return status;
}

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

/* Compares the weights of a model that is not in the file, and of its base. */
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
    for (int i = 0; i < ppo__lm_settings.count && !status; ++i) {
        const char *name = ppo__lm_fields[i].name;
        if (strcmp(name, "seed") &&
            strcmp(name, "eos")) /* which no step depends on; eos may be set at any time */
            status = ppo__check_kept(&ppo__lm_settings, name, &(*read)->full, &lm->full, "checkpoint");
    }
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
    for (int k = 0; k < 4; ++k) {
        const ppo_tokens *data = fit->set[k / 2].data[k % 2];
        if (data) fit->hash[k] = ppo__hash_tokens(PPO__FNV1A, data);
    }
    if (ppo__what_is(path) == PPO__NOTHING) {
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
    const int over = counters[4] == 1; /* after the last step it is */
    if (!status && (counters[0] + !over > p->steps || counters[3] > INT_MAX || counters[4] > 1))
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
    if (!PPO__GIVEN("ppo_rlhf_save", r, path)) return PPO_ERROR_ARGUMENT;
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
    const ppo_rlhf_config *now = &r->config;
    if (!(now->penalty_target_kl > 0) || now->kl_coef != own.kl_coef) r->kl_coef = now->kl_coef;
    if (!(now->entropy_target > 0) || now->entropy_coef != own.entropy_coef)
        r->entropy_coef = now->entropy_coef;
    return status;
}

PPO_DEF ppo_status ppo_rlhf_resume(const char *path, ppo_lm *policy, const ppo_lm *reference, ppo_lm *critic,
                                   const ppo_tokens *prompts, ppo_reward_fn reward, void *user,
                                   const ppo_rlhf_config *config, ppo_rlhf **rlhf) {
    ppo_file *file = NULL;
    if (rlhf) *rlhf = NULL;
    if (!PPO__GIVEN("ppo_rlhf_resume", path, policy, prompts, config, rlhf)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo_file_read(path, &file);
    if (!status) status = ppo__rlhf_make(policy, reference, critic, prompts, reward, user, config, rlhf);
    if (!status) status = ppo__get_rlhf(file, *rlhf);
    ppo_file_free(file);
    return ppo__rlhf_agree(rlhf, config, prompts, status);
}

#endif

/* --------------------------------------------------------------------------------------------------------
   @@ Logs
   -------------------------------------------------------------------------------------------------------- */

#if !defined(PPO_NO_CONTROL) && !defined(PPO_NO_REPORTS)

static int ppo__commas(const char *line) {
    int n = 0;
    while (*line) n += *line++ == ',';
    return n;
}

/* time/total_timesteps of a row; -1: it is not a row under this header. */
static int64_t ppo__csv_steps(const char *line, const char *header) {
    const char *field = line;
    for (int k = 0; field && k < PPO__TOTAL_TIMESTEPS; ++k) field = strchr(field + (k > 0), ',');
    if (!field || ppo__commas(line) != ppo__commas(header)) return -1;
    char *end;
    int64_t steps = strtoll(field + 1, &end, 10);
    return end > field + 1 && *end == ',' ? steps : -1;
}

typedef struct ppo__csv_old {
    FILE *file;
    int64_t size; /* bytes */
    int64_t steps;
    char *header; /* [PPO__CSV_LINE] receives its own, which may have figures of the environment, too */
} ppo__csv_old;

/* Copies the header and the rows up to `steps`. A killed run may leave a last line without a newline, and a power
   failure anything after the rows that the checkpoint was to have. */
static ppo_status ppo__csv_copy(FILE *to, const char *path, void *user) {
    const ppo__csv_old *old = (const ppo__csv_old *)user;
    char line[PPO__CSV_LINE] = "";
    int64_t before = 0;
    const size_t usual = ppo__csv_usual(old->header) - 1;
    const int whole = fgets(line, sizeof line, old->file) && strchr(line, '\n');
    const int figures = !strncmp(line, old->header, usual) && !strncmp(line + usual, ",env/", 5);
    if (!ferror(old->file) && strcmp(line, old->header) && !figures && (whole || !feof(old->file)))
        return ppo__file_fail(path, "its columns are not those of this log: give another file");
    if (whole) strcpy(old->header, line);
    fputs(old->header, to);
    for (int64_t number = 2; whole && fgets(line, sizeof line, old->file); ++number) {
        const int whole_line = strchr(line, '\n') != NULL; /* a 0 ends it, too */
        const int64_t at = whole_line ? ppo__csv_steps(line, old->header) : -1;
        if ((!whole_line && feof(old->file)) || (at < 0 && before == old->steps)) break;
        if (at < 0) return ppo__file_fail(path, "line %lld is not a row of this log", (long long)number);
        if (at <= old->steps) fputs(line, to), before = at;
    }
    if (ferror(old->file)) return ppo__file_failed(path, "read", errno);
    if (feof(old->file) && PPO__TELL(old->file) < old->size)
        return ppo__file_fail(path, "cannot be read: it became shorter");
    return PPO_OK;
}

static ppo_status ppo__csv_resume(ppo__log_file *csv, FILE *file, int64_t steps, char *header) {
    ppo__csv_old old = {file, 0, steps, header};
    if (PPO__SEEK(file, 0, SEEK_END) || (old.size = PPO__TELL(file)) < 0 || PPO__SEEK(file, 0, SEEK_SET))
        return ppo__file_failed(csv->path, "read", errno);
    ppo_status status = ppo__write_file(csv->path, ppo__csv_copy, &old);
    if (status) return status;
    csv->file = fopen(csv->path, "r+b");
    if (csv->file) setvbuf(csv->file, NULL, _IONBF, 0);
    csv->end = csv->file && !fseek(csv->file, 0, SEEK_END) ? ftell(csv->file) : -1;
    return csv->end < 0 ? ppo__file_failed(csv->path, "written", errno) : PPO_OK;
}

PPO__COMPANION_IS(ppo__csv_functions, ppo__csv, {ppo__csv_resume});

#endif

PPO__WARNINGS_BACK

#endif
