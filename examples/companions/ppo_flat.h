/* ppo_flat.h - ppo.h for programs in other languages: numbers, texts and handles, with no struct to be mirrored

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_flat.h"              // after ppo.h; other files may include it for its declarations

   Copy this file beside ppo.h. In the folder examples/, where it is in companions/, programs include it from
   there: #include "companions/ppo_flat.h".

   `make shared` builds it into a library: build/libppo.so, libppo.dylib on macOS, ppo.dll by mingw.
   examples/python/ has a class for Python that uses it, examples/csharp/ one for C#, which Unity and Godot run.

A TRAINING

   Every argument is a pointer, a number or a text in UTF-8 that ends with 0; every handle is a pointer. In C:

       ppo_config *config;
       ppo_env *world;
       ppo_flat_config_create(&config);
       ppo_flat_config_set(config, "num_envs", "8");
       ppo_flat_env_create("cart", 4, 0, NULL, 0, "discrete 2", &world);
       ppo_agent_create(world, config, &agent);
       ppo_trainer_create(world, config, agent, &trainer);

   The program owns its worlds, here 8 of them, and steps them itself, each a source of experience:

       float state[8][4], last[8][4], reward[8];
       unsigned char terminated[8], truncated[8];
       int push[8], learned;
       ppo_trainer_observe_many(trainer, 8, NULL, *state, NULL, NULL, NULL, NULL, NULL);   // episodes begin
       while (!ppo_trainer_done(trainer)) {
           ppo_trainer_act_many(trainer, 8, NULL, push, NULL);
           // here push[k] moves world k on, and fills row k of the arrays
           ppo_trainer_observe_many(trainer, 8, NULL, *state, NULL, reward, terminated, truncated, *last);
           ppo_flat_learn(trainer, 0, &learned);
       }

   It has the bits of ppo_train() for the same experience. The time limit of an episode is the program's: it
   sets truncated. Several agents in one world are several sources.

WHERE AN EPISODE ENDS

   ppo_trainer_observe_many() takes the three ways of Gymnasium's vector environments:

       same step    obs is already of the next episode, final_obs has the last observation of the one before
       next step    obs is that last observation, final_obs is NULL. The next call has the first observation of
                    the next episode; its reward and flags are not read, as that step had no action
       disabled     the same, but the program resets worlds when it likes, and says by a call with reward NULL
                    that those sources begin an episode. In between it leaves them out

   A source that begins its episodes a step later is behind the others. Learning waits for it, and what the
   others do meanwhile is not recorded: a few steps in each rollout are lost.

FUNCTIONS OF PPO.H

   These have such arguments, too, and are called as they are:

       ppo_last_error()         ppo_agent_create(), _free(), _save(), _load(), _copy(), _assign(), _reset()
       ppo_set_threads()        ppo_trainer_create(), _free(), _done(), _steps(), _ready()
       ppo_use_kernels()        ppo_config_load(), ppo_log_open(), ppo_log_close()
       ppo_kernels_name()       ppo_trainer_save() and ppo_trainer_resume() of ppo_resume.h

   License: that of ppo.h. */
#ifndef PPO_FLAT_H
#define PPO_FLAT_H
#ifndef PPO_H
#error "include ppo.h before ppo_flat.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_flat.h belongs to version 0.3 of ppo.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library, as "0.3.0". */
PPO_DEF const char *ppo_flat_version(void);

#ifndef PPO_NO_CONTROL

/* -- settings -- */

/* A ppo_config with its defaults, which the caller frees. */
PPO_DEF ppo_status ppo_flat_config_create(ppo_config **config);
PPO_DEF void ppo_flat_config_free(ppo_config *config);

/* ppo_settings_set(), _get() and _preset() for a ppo_config: one setting as text, in a name '-' may stand for
   '_'. */
PPO_DEF ppo_status ppo_flat_config_set(ppo_config *config, const char *name, const char *value);
PPO_DEF ppo_status ppo_flat_config_get(const ppo_config *config, const char *name, char *text, size_t size);
PPO_DEF ppo_status ppo_flat_config_preset(ppo_config *config, const char *name);

/* The function for settings whose schedule is "custom": setting is a ppo_scheduled_setting. It is called by the
   thread that learns. NULL: none. */
PPO_DEF ppo_status ppo_flat_config_schedule(ppo_config *config, ppo_schedule_fn schedule, void *user);

/* Describes setting `index`, from 0 on. texts: its name, its type ("int", "float", "choice", "widths" or
   "kernels", the latter two lists like "64,64" and "16x3x1"), its default, its choices ("no|yes"; else ""), and
   a line of help. range: what it may be at least and at most; of a choice 0 and the number of choices - 1.
   network: 1 if an existing agent keeps it. Each may be NULL. Error: there is no such index, which is how a
   list ends. */
PPO_DEF ppo_status ppo_flat_setting(int index, const char *texts[5], double range[2], int *network);
/* The names of presets, as "reinforce|a2c|...". */
PPO_DEF const char *ppo_flat_presets(void);

/* -- the description of a world -- */

/* An environment without functions, which ppo_agent_create(), ppo_agent_load(), ppo_trainer_create() and
   ppo_player_create() take. The caller frees it after them.
       name          of the task, kept in files; NULL: none
       obs_size      numbers in an observation
       actor_obs     the actor sees the first of them, the critic all; 0: both see all
       shape         {channels, height, width} of the picture that comes first, for conv; NULL: there is none
       byte_scale    above 0: the numbers of the picture (without one: all) are 0 to 255 times this, kept in bytes
       action_space  "discrete 2", "multi-discrete 3,2", "multi-binary 4", "box 2 -1 1" (2 numbers in -1 .. 1),
                     "box 1 -inf inf": as in a policy's file
   Errors: a size that cannot be, another text. */
PPO_DEF ppo_status ppo_flat_env_create(const char *name, int obs_size, int actor_obs, const int *shape,
                                       float byte_scale, const char *action_space, ppo_env **env);
PPO_DEF void ppo_flat_env_free(ppo_env *env);

/* -- agents -- */

/* What an agent sees and does, for one that was loaded. sizes: numbers of an observation, of it those that the
   actor sees, numbers or choices in an action (1 for "discrete"), options in a mask (0 for "box"), numbers in
   the state of a recurrent one. action_space: as in ppo_flat_env_create(); environment: the name. range: the
   box. config: receives the agent's settings. Each may be NULL. Error: a text needs more than `size` bytes. */
PPO_DEF ppo_status ppo_flat_agent(const ppo_agent *agent, int sizes[5], float range[2], char *action_space,
                                  char *environment, size_t size, ppo_config *config);

/* Fills 11 numbers with a stream of random ones, for ppo_flat_act(): streams of another seed or index are
   independent. */
PPO_DEF void ppo_flat_rng(uint64_t seed, uint32_t index, uint32_t rng[11]);

/* ppo_act_many() with arrays: obs [n][actor's numbers], mask [n][options] or NULL, state [n][width] of a
   recurrent agent, else NULL; rng NULL: the most likely actions. They go into choices [n][choices], or into box
   [n][numbers] if the action space is one; the other may be NULL. */
PPO_DEF ppo_status ppo_flat_act(ppo_agent *agent, int n, const float *obs, const unsigned char *mask,
                                float *state, uint32_t *rng, int *choices, float *box);
/* What the critic expects, [n]: obs [n][obs_size]; state as above, not changed. Error: there is no critic. */
PPO_DEF ppo_status ppo_flat_value(ppo_agent *agent, int n, const float *obs, const float *state,
                                  float *value);

/* -- training: steps of many sources -- */

/* ppo_trainer_observe() for n sources, in order: row i is of source[i], or of i where `source` is NULL. obs
   [n][obs_size]; mask [n][options] or NULL: of the next action; reward, terminated, truncated [n]: what
   followed the latest one. terminated and truncated may be NULL (0). final_obs [n][obs_size]: the rows of
   sources whose episode ended are read, and obs begins their next episode; NULL: obs is the last observation,
   and the source's next row begins an episode, whatever reward, terminated and truncated say there. reward
   NULL: an episode of each source begins, and terminated, truncated and final_obs must be NULL, too. Errors:
   those of ppo_trainer_observe(); the sources before the one that it names were observed, those after it were
   not. */
PPO_DEF ppo_status ppo_trainer_observe_many(ppo_trainer *trainer, int n, const int *source, const float *obs,
                                            const unsigned char *mask, const float *reward,
                                            const unsigned char *terminated, const unsigned char *truncated,
                                            const float *final_obs);

/* ppo_trainer_act() for n sources, all at once, with the same actions: into choices [n][choices] or box
   [n][numbers], the other may be NULL. A source that has nothing to act on, as its episode is over, gets zeros,
   or what is nearest to them in the box. What ppo_trainer_act() pointed to is no longer valid.
   Errors: a source twice, or one that there is not; a policy's output that is not finite. */
PPO_DEF ppo_status ppo_trainer_act_many(ppo_trainer *trainer, int n, const int *source, int *choices,
                                        float *box);

/* ppo_trainer_learn(). *learned (may be NULL) 1: an iteration is complete, with new figures; 0: it is not. */
PPO_DEF ppo_status ppo_flat_learn(ppo_trainer *trainer, double milliseconds, int *learned);

/* The figures of the latest iteration, the numbers of ppo_progress in its order: names "iteration", "steps",
   ... by index from 0 on, NULL at the end; and their values, as many. */
PPO_DEF const char *ppo_flat_figure(int index);
PPO_DEF ppo_status ppo_flat_figures(const ppo_trainer *trainer, double *figures);
/* What seems to go wrong, as ppo_progress.warning; "" if nothing does. Valid until the next iteration. */
PPO_DEF const char *ppo_flat_warning(const ppo_trainer *trainer);
#ifndef PPO_NO_REPORTS
/* ppo_log_write() of the latest iteration. before: ppo_flat_figures() of the end of a training that this one
   continues, with another trainer: what both count from their start, like steps and seconds, is added. NULL:
   there is none. */
PPO_DEF ppo_status ppo_flat_log(ppo_log *log, const ppo_trainer *trainer, const double *before);
#endif

#endif /* PPO_NO_CONTROL */

#ifdef __cplusplus
}
#endif
#endif /* PPO_FLAT_H */

/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__FLAT_IMPLEMENTED)
#define PPO__FLAT_IMPLEMENTED

PPO__WARNINGS_OFF

PPO_DEF const char *ppo_flat_version(void) { return PPO_VERSION; }

#ifndef PPO_NO_CONTROL

/* -- settings -- */

PPO_DEF ppo_status ppo_flat_config_create(ppo_config **config) {
    if (!PPO__GIVEN("ppo_flat_config_create", config)) return PPO_ERROR_ARGUMENT;
    *config = (ppo_config *)ppo__alloc(sizeof **config);
    if (!*config) return PPO_ERROR_MEMORY;
    **config = ppo_config_default();
    return PPO_OK;
}

PPO_DEF void ppo_flat_config_free(ppo_config *config) { ppo__free(config); }

PPO_DEF ppo_status ppo_flat_config_set(ppo_config *config, const char *name, const char *value) {
    return ppo_config_set(config, name, value);
}

PPO_DEF ppo_status ppo_flat_config_get(const ppo_config *config, const char *name, char *text, size_t size) {
    return ppo_config_get(config, name, text, size);
}

PPO_DEF ppo_status ppo_flat_config_preset(ppo_config *config, const char *name) {
    return ppo_config_preset(config, name);
}

PPO_DEF ppo_status ppo_flat_config_schedule(ppo_config *config, ppo_schedule_fn schedule, void *user) {
    if (!PPO__GIVEN("ppo_flat_config_schedule", config)) return PPO_ERROR_ARGUMENT;
    config->schedule = schedule;
    config->schedule_user = user;
    return PPO_OK;
}

PPO_DEF ppo_status ppo_flat_setting(int index, const char *texts[5], double range[2], int *network) {
    static const char *const types[] = {"int", "int", "int", "float", "choice", "widths", "kernels"};
    const ppo_settings *all = ppo_config_settings();
    if (index < 0 || index >= all->count)
        return ppo__refuse("there is no setting %d, only 0 to %d", index, all->count - 1);
    const ppo_field *field = &all->field[index];
    if (texts) {
        texts[0] = field->name;
        texts[1] = types[field->type];
        texts[2] = field->initial ? field->initial : "0";
        texts[3] = field->choices ? field->choices : "";
        texts[4] = field->help;
    }
    if (range)
        range[0] = field->min, range[1] = field->type == PPO_FIELD_U64 ? 18446744073709551615.0 : field->max;
    if (network) *network = field->kind == PPO_FIELD_NETWORK;
    return PPO_OK;
}

PPO_DEF const char *ppo_flat_presets(void) { return ppo_config_settings()->preset_names; }

/* -- the description of a world -- */

typedef struct ppo__flat_env {
    ppo_env env; /* first: it is what the program has */
    char name[64];
} ppo__flat_env;

PPO_DEF ppo_status ppo_flat_env_create(const char *name, int obs_size, int actor_obs, const int *shape,
                                       float byte_scale, const char *action_space, ppo_env **env) {
    if (env) *env = NULL;
    if (!PPO__GIVEN("ppo_flat_env_create", action_space, env)) return PPO_ERROR_ARGUMENT;
    ppo__flat_env *made = (ppo__flat_env *)ppo__alloc(sizeof *made);
    if (!made) return PPO_ERROR_MEMORY;
    ppo__keep_name(made->name, name);
    made->env.name = name ? made->name : NULL;
    made->env.obs_size = obs_size;
    made->env.actor_obs = actor_obs;
    if (shape) memcpy(made->env.shape, shape, sizeof made->env.shape);
    made->env.byte_scale = byte_scale;
    made->env.action_space = ppo__parse_space(action_space);
    ppo_status status = ppo__check_functions(&made->env);
    if (status && made->env.action_space.n == 0) /* what is wrong is the text, not a number in it */
        status = ppo__refuse("\"%.60s\" is no action space like \"discrete 2\", \"multi-discrete 3,2\", "
                             "\"multi-binary 4\" or \"box 2 -1 1\"",
                             action_space);
    if (status) ppo__free(made);
    else *env = &made->env;
    return status;
}

PPO_DEF void ppo_flat_env_free(ppo_env *env) { ppo__free(env); }

/* -- agents -- */

PPO_DEF ppo_status ppo_flat_agent(const ppo_agent *agent, int sizes[5], float range[2], char *action_space,
                                  char *environment, size_t size, ppo_config *config) {
    if (!PPO__GIVEN("ppo_flat_agent", agent)) return PPO_ERROR_ARGUMENT;
    const ppo_actor_critic *model = &agent->model;
    const ppo_space *space = &model->action_space;
    const int continuous = ppo__kind(space)->continuous;
    char text[PPO__SPACE_SIZE];
    ppo__space_text(space, text);
    if ((action_space && strlen(text) >= size) || (environment && strlen(agent->environment) >= size))
        return ppo__refuse("ppo_flat_agent: a text needs more than %lu bytes", (unsigned long)size);
    if (sizes) {
        sizes[0] = model->obs_size;
        sizes[1] = model->actor_obs;
        sizes[2] = ppo__space_width(space);
        sizes[3] = continuous ? 0 : ppo__space_outputs(space);
        sizes[4] = model->core.width;
    }
    if (range) range[0] = space->low, range[1] = space->high;
    if (action_space) strcpy(action_space, text);
    if (environment) strcpy(environment, agent->environment);
    if (config) *config = agent->config;
    return PPO_OK;
}

PPO_DEF void ppo_flat_rng(uint64_t seed, uint32_t index, uint32_t rng[11]) {
    const ppo_rng stream = ppo_rng_stream(seed, PPO_STREAM_USER, index);
    PPO__ASSERT(sizeof stream == 11 * sizeof *rng);
    if (rng) memcpy(rng, &stream, sizeof stream);
}

PPO_DEF ppo_status ppo_flat_act(ppo_agent *agent, int n, const float *obs, const unsigned char *mask,
                                float *state, uint32_t *rng, int *choices, float *box) {
    const ppo_actions actions = {choices, box};
    ppo_rng stream;
    if (rng) memcpy(&stream, rng, sizeof stream);
    ppo_status status = ppo_act_many(agent, obs, mask, n, state, rng ? &stream : NULL, &actions);
    if (rng) memcpy(rng, &stream, sizeof stream);
    return status;
}

PPO_DEF ppo_status ppo_flat_value(ppo_agent *agent, int n, const float *obs, const float *state,
                                  float *value) {
    if (!PPO__GIVEN("ppo_flat_value", agent, obs, value)) return PPO_ERROR_ARGUMENT;
    const ppo_actor_critic *model = &agent->model;
    const int size = model->obs_size;
    if (model->core.width && !PPO__GIVEN("ppo_flat_value", state)) return PPO_ERROR_ARGUMENT;
    if (!agent->config.use_critic) return ppo__refuse("ppo_flat_value: the agent has no critic (use_critic)");
    if (n < 0) return ppo__refuse("ppo_flat_value: n is %d, must not be below 0", n);
    for (int i = 0; i < n; ++i) {
        ppo_status status = ppo__check_numbers(obs + ppo__at(i, size), size, "observation", NULL, 0, 0);
        if (status) return status;
    }
    if (!n) return PPO_OK;
    ppo_tape_reset(agent->tape);
    float *view = ppo_tape_alloc(agent->tape, ppo__at(n, size));
    if (!view) return ppo_tape_status(agent->tape);
    ppo__normalized(&agent->obs_norm, agent->clip_obs, obs, n, size, view);
    const ppo_inputs inputs = {n, view, NULL, {0, NULL, state, NULL}, NULL, 0, 0};
    ppo_outputs out = ppo_actor_critic_forward(agent->tape, model, &inputs, PPO_VALUE);
    if (!out.value) return ppo_tape_status(agent->tape);
    memcpy(value, out.value->data, (size_t)n * sizeof *value);
    return PPO_OK;
}

/* -- training -- */

/* Rows are sources 0 .. n-1 unless they are named. */
static int ppo__flat_source(const int *source, int i) { return source ? source[i] : i; }

PPO_DEF ppo_status ppo_trainer_observe_many(ppo_trainer *trainer, int n, const int *source, const float *obs,
                                            const unsigned char *mask, const float *reward,
                                            const unsigned char *terminated, const unsigned char *truncated,
                                            const float *final_obs) {
    if (!PPO__GIVEN("ppo_trainer_observe_many", trainer, obs)) return PPO_ERROR_ARGUMENT;
    if (!reward && (terminated || truncated || final_obs))
        return ppo__refuse(
            "ppo_trainer_observe_many: reward is NULL, so terminated, truncated and final_obs must be");
    const ppo__envs *envs = &trainer->collector.envs;
    const ppo_space *space = &envs->env.action_space;
    const int size = envs->env.obs_size, options = ppo__space_outputs(space);
    ppo_status status = PPO_OK;
    if (ppo__kind(space)->continuous) mask = NULL;
    for (int i = 0; i < n && !status; ++i) {
        const int e = ppo__source(trainer, "ppo_trainer_observe_many", ppo__flat_source(source, i));
        if (e < 0) return PPO_ERROR_ARGUMENT;
        const float *seen = obs + ppo__at(i, size);
        const unsigned char *legal = mask ? mask + ppo__at(i, options) : NULL;
        int begins = !reward || envs->turn[e] == PPO__OUT;
        if (!begins) {
            ppo_outcome outcome;
            memset(&outcome, 0, sizeof outcome);
            outcome.reward = reward[i];
            outcome.terminated = terminated && terminated[i];
            outcome.truncated = truncated && truncated[i];
            begins = final_obs && (outcome.terminated || outcome.truncated);
            status = ppo_trainer_observe(trainer, e, begins ? final_obs + ppo__at(i, size) : seen, legal,
                                         &outcome);
        }
        if (begins && !status) status = ppo_trainer_observe(trainer, e, seen, legal, NULL);
    }
    return status;
}

/* A mark among the turns, of sources that are about to act. */
enum { PPO__FLAT_LISTED = PPO__ACTS + 1 };

/* Those of the sources that act now, in order, into the worker's list, each marked by its turn. Returns how
   many, or -1 for an error, after which none is marked. */
static int ppo__flat_list(ppo_trainer *trainer, int n, const int *source) {
    ppo__envs *envs = &trainer->collector.envs;
    int *acting = trainer->collector.workers[0].acting, count = 0, failed = 0;
    for (int i = 0; i < n && !failed; ++i) {
        const int e = ppo__source(trainer, "ppo_trainer_act_many", ppo__flat_source(source, i));
        failed = e < 0;
        if (!failed && envs->turn[e] == PPO__FLAT_LISTED)
            failed = ppo__refuse("ppo_trainer_act_many: source %d is there twice", e) != PPO_OK;
        if (failed || envs->turn[e] != PPO__ACTS) continue;
        envs->turn[e] = PPO__FLAT_LISTED;
        acting[count++] = e;
    }
    for (int k = 0; k < count && failed; ++k) envs->turn[acting[k]] = PPO__ACTS;
    return failed ? -1 : count;
}

PPO_DEF ppo_status ppo_trainer_act_many(ppo_trainer *trainer, int n, const int *source, int *choices,
                                        float *box) {
    if (!PPO__GIVEN("ppo_trainer_act_many", trainer)) return PPO_ERROR_ARGUMENT;
    ppo__envs *envs = &trainer->collector.envs;
    const ppo_space *space = &envs->env.action_space;
    const int continuous = ppo__kind(space)->continuous, width = ppo__space_width(space);
    if (continuous ? !PPO__GIVEN("ppo_trainer_act_many", box) : !PPO__GIVEN("ppo_trainer_act_many", choices))
        return PPO_ERROR_ARGUMENT;
    ppo__worker *worker = &trainer->collector.workers[0];
    ppo__acting batch;
    batch.agent = worker->acting, batch.n = ppo__flat_list(trainer, n, source);
    if (batch.n < 0) return PPO_ERROR_ARGUMENT;
    ppo_status status = batch.n ? ppo__act_batch(worker, &batch, 0) : PPO_OK;
    if (status)
        for (int k = 0; k < batch.n; ++k) envs->turn[worker->acting[k]] = PPO__ACTS;
    const float rest = fminf(fmaxf(0, space->low), space->high);
    for (int i = 0; i < n && !status; ++i) {
        const int e = ppo__flat_source(source, i);
        const ppo_action *action = &envs->action[e];
        const int acts = envs->turn[e] == PPO__FLAT_LISTED;
        for (int j = 0; j < width && continuous; ++j)
            box[ppo__at(i, width) + j] = acts ? action->box[j] : rest;
        for (int j = 0; j < width && !continuous; ++j)
            choices[ppo__at(i, width) + j] = acts ? action->choices[j] : 0;
        if (acts) envs->turn[e] = PPO__WAITS;
    }
    return status;
}

PPO_DEF ppo_status ppo_flat_learn(ppo_trainer *trainer, double milliseconds, int *learned) {
    ppo_progress progress;
    memset(&progress, 0, sizeof progress);
    ppo_status status = ppo_trainer_learn(trainer, milliseconds, &progress);
    if (learned) *learned = !status && progress.iteration > 0;
    return status;
}

/* -- figures -- */

typedef enum ppo__flat_type {
    PPO__FLAT_INT,
    PPO__FLAT_I64,
    PPO__FLAT_COUNT, /* an int64_t, since the start */
    PPO__FLAT_FLOAT,
    PPO__FLAT_DOUBLE
} ppo__flat_type;

static const struct ppo__flat_figure {
    const char *name;
    size_t offset;
    ppo__flat_type type;
} ppo__flat_figures[] = {
#define PPO__FIGURE_OF(field, type) \
    { #field, offsetof(ppo_progress, field), PPO__FLAT_##type }
    PPO__FIGURE_OF(iteration, COUNT),
    PPO__FIGURE_OF(steps, COUNT),
    PPO__FIGURE_OF(total_steps, COUNT),
    PPO__FIGURE_OF(iteration_steps, I64),
    PPO__FIGURE_OF(seconds, DOUBLE),
    PPO__FIGURE_OF(seconds_left, DOUBLE),
    PPO__FIGURE_OF(steps_per_second, DOUBLE),
    PPO__FIGURE_OF(episodes, COUNT),
    PPO__FIGURE_OF(mean_return, FLOAT),
    PPO__FIGURE_OF(mean_length, FLOAT),
    PPO__FIGURE_OF(mean_reward, FLOAT),
    PPO__FIGURE_OF(loss, FLOAT),
    PPO__FIGURE_OF(policy_loss, FLOAT),
    PPO__FIGURE_OF(value_loss, FLOAT),
    PPO__FIGURE_OF(entropy, FLOAT),
    PPO__FIGURE_OF(approx_kl, FLOAT),
    PPO__FIGURE_OF(old_approx_kl, FLOAT),
    PPO__FIGURE_OF(clip_fraction, FLOAT),
    PPO__FIGURE_OF(grad_norm, FLOAT),
    PPO__FIGURE_OF(first_ratio_min, FLOAT),
    PPO__FIGURE_OF(first_ratio_max, FLOAT),
    PPO__FIGURE_OF(last_loss, FLOAT),
    PPO__FIGURE_OF(last_approx_kl, FLOAT),
    PPO__FIGURE_OF(explained_variance, FLOAT),
    PPO__FIGURE_OF(kl, FLOAT),
    PPO__FIGURE_OF(std, FLOAT),
    PPO__FIGURE_OF(epochs, INT),
    PPO__FIGURE_OF(updates, COUNT),
    PPO__FIGURE_OF(gradient_steps, COUNT),
    PPO__FIGURE_OF(learning_rate, FLOAT),
    PPO__FIGURE_OF(clip_range, FLOAT),
    PPO__FIGURE_OF(kl_coef, FLOAT),
    PPO__FIGURE_OF(entropy_coef, FLOAT),
    PPO__FIGURE_OF(value_clip, FLOAT),
#undef PPO__FIGURE_OF
};
enum { PPO__FLAT_FIGURES = sizeof ppo__flat_figures / sizeof *ppo__flat_figures };

PPO_DEF const char *ppo_flat_figure(int index) {
    return index >= 0 && index < PPO__FLAT_FIGURES ? ppo__flat_figures[index].name : NULL;
}

PPO_DEF ppo_status ppo_flat_figures(const ppo_trainer *trainer, double *figures) {
    if (!PPO__GIVEN("ppo_flat_figures", trainer, figures)) return PPO_ERROR_ARGUMENT;
    for (int k = 0; k < PPO__FLAT_FIGURES; ++k) {
        const void *at = (const char *)&trainer->progress + ppo__flat_figures[k].offset;
        const int type = ppo__flat_figures[k].type;
        figures[k] = type == PPO__FLAT_INT      ? *(const int *)at
                     : type == PPO__FLAT_FLOAT  ? (double)*(const float *)at
                     : type == PPO__FLAT_DOUBLE ? *(const double *)at
                                                : (double)*(const int64_t *)at;
    }
    return PPO_OK;
}

PPO_DEF const char *ppo_flat_warning(const ppo_trainer *trainer) {
    return trainer ? trainer->progress.warning : "";
}

#ifndef PPO_NO_REPORTS
PPO_DEF ppo_status ppo_flat_log(ppo_log *log, const ppo_trainer *trainer, const double *before) {
    if (!PPO__GIVEN("ppo_flat_log", log, trainer)) return PPO_ERROR_ARGUMENT;
    ppo_progress progress = trainer->progress;
    for (int k = 0; before && k < PPO__FLAT_FIGURES; ++k) {
        const struct ppo__flat_figure *figure = &ppo__flat_figures[k];
        if (figure->type == PPO__FLAT_COUNT && !(before[k] >= 0 && before[k] < 1e18))
            return ppo__refuse("ppo_flat_log: %s before is %g, must be 0 to 1e18", figure->name, before[k]);
        if (figure->type == PPO__FLAT_COUNT)
            *(int64_t *)((char *)&progress + figure->offset) += (int64_t)before[k];
        else if (figure->offset == offsetof(ppo_progress, seconds)) progress.seconds += before[k];
    }
    return ppo_log_write(log, &progress);
}
#endif

#endif /* PPO_NO_CONTROL */

PPO__WARNINGS_BACK

#endif
