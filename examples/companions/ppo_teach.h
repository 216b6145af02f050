/* ppo_teach.h - teachers for policies of ppo.h: recorded play, experts that can be asked, and other policies

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_teach.h"             // after ppo.h; other files may include it for its declarations

   Copy this file beside ppo.h. In the folder examples/, where it is in companions/, programs include it from
   there: #include "companions/ppo_teach.h".

RECORDED PLAY

   Behaviour cloning makes what a person or a script did the most likely actions, and fits the critic to the returns.
   PPO continues from there:

       static ppo_status script(const void *state, const float *obs, const unsigned char *mask,
                                const ppo_actions *action, void *user) {
           action->discrete[0] = obs[1] > 0 ? 2 : 0;
           return PPO_OK;
       }

       ppo_recording recording = {0};
       ppo_clone_config how = ppo_clone_config_default();
       ppo_clone_report report;
       ppo_record(&env, NULL, 0, script, NULL, 10, 1, &recording);        // ten episodes; or ppo_recording_add()
       ppo_agent_create(&env, &cfg, &agent);
       ppo_clone(agent, &recording, &how, &report);
       ppo_train(&env, &cfg, &agent);
       ppo_recording_free(&recording);

   For every action space, for masks, and for policies with memory. A clone explores little: fewer epochs, how.min_std
   and how.entropy_coef leave it more. What an expert does for reasons that are not observed cannot be cloned.

AN EXPERT THAT CAN BE ASKED

   A clone drifts into states in which its teacher never was. DAgger (Ross 2011) lets the policy act, asks the expert
   what it would have done there, and clones all of it again:

       ppo_dagger_config rounds = ppo_dagger_config_default();
       ppo_dagger(agent, &env, expert, NULL, &rounds, &recording, &report);

A TEACHER WHILE PPO TRAINS

   A policy that was trained before, for the same task or with another network, is a teacher, too (Kickstarting, Schmitt
   2018): the loss has coef KL(teacher || policy) in addition, on the states that the policy visits, and coef fades:

       while (!ppo_trainer_done(trainer)) {
           ppo_trainer_teach(trainer, agent, ppo_schedule(PPO_LINEAR, 1, (float)ppo_trainer_steps(trainer) / 50000));
           ppo_trainer_iterate(trainer, &progress);
       }

   This direction of the KL has the gradient of cloning: the policy takes up all that the teacher does. The other
   direction would let it choose the part that it already has. A clone that would be unlearned before PPO has an accurate
   critic is held by a copy of itself.

   License: that of ppo.h. */
#ifndef PPO_TEACH_H
#define PPO_TEACH_H
#ifndef PPO_H
#error "include ppo.h before ppo_teach.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_teach.h belongs to version 0.3 of ppo.h"
#endif

#ifndef PPO_NO_CONTROL
#ifdef __cplusplus
extern "C" {
#endif

/* Steps of one agent, one episode after the other. Zeros are an empty one; ppo_record() and ppo_recording_add() fill
   it. To use arrays of your own, leave memory NULL and set the others. */
typedef struct ppo_recording {
    int obs_size;           /* numbers of an observation, as in the environment */
    ppo_space action_space; /* as in the environment */
    int steps;
    float *obs;                /* [steps][obs_size], as the environment gives them */
    ppo_actions actions;       /* as the environment sees them: [steps], [steps][choices], [steps][numbers] */
    unsigned char *mask;       /* [steps][options] 0: illegal; NULL: all are legal */
    float *reward;             /* [steps] what followed; NULL: not known, and no critic is fitted */
    unsigned char *terminated; /* [steps] 1: the task ended after this step; NULL: it never did */
    unsigned char *truncated;  /* [steps] 1: the episode was cut short after it; NULL: none was */
    struct ppo__play_memory *memory; /* the library's; NULL: the arrays are not its own */
} ppo_recording;

/* Adds a step: obs [obs_size], mask [options] or NULL, the action as the environment sees it, what followed (NULL:
   reward 0, and the episode continues). Set obs_size and action_space before the first one. Errors: a number is not
   finite, the action is outside its space or illegal, arrays that are not the library's, another size or space than
   that of the first step. */
PPO_DEF ppo_status ppo_recording_add(ppo_recording *recording, const float *obs, const unsigned char *mask,
                                     const ppo_action *action, const ppo_outcome *outcome);
PPO_DEF void
ppo_recording_free(ppo_recording *recording); /* the arrays, not the struct, which is zero then */

/* An expert writes its action, as the environment sees it, to action->discrete [1 or choices] or action->box [numbers];
   the other one is NULL. It sees the environment's state, obs [obs_size], and mask [options] (NULL: all are legal). On
   failure it calls ppo_fail() and returns its status. */
typedef ppo_status (*ppo_expert_fn)(const void *state, const float *obs, const unsigned char *mask,
                                    const ppo_actions *action, void *user);

/* Plays episodes and adds them to a recording. The player acts, with sampled actions if sample is 1, else with the most
   likely ones; player NULL: the expert acts. What is recorded as the action: what the expert would do, or did; expert NULL:
   what the player did. The player's memory of an episode is lost. An episode of the recording that was not ended counts
   as truncated from then on, as no other one continues it. Errors: both are NULL, the environment has several
   agents, an action is outside its space; those of the environment and the expert. Then nothing is added. */
PPO_DEF ppo_status ppo_record(const ppo_env *env, ppo_agent *player, int sample, ppo_expert_fn expert,
                              void *user, int episodes, uint64_t seed, ppo_recording *recording);

typedef struct ppo_clone_config {
    float learning_rate; /* of Adam [1e-3] */
    int epochs;          /* at most [100] */
    int batch_size;      /* steps, of a policy with memory in sequences of config.sequence_steps [64] */
    float held_out; /* share of the episodes that are not learned from; of one alone its last steps [0.1] */
    int patience;   /* epochs without a better held-out loss, after which it ends; 0: never [20] */
    float max_grad_norm; /* 0: no limit [0.5] */
    float entropy_coef;  /* weight of an entropy bonus [0] */
    float min_std; /* PPO_BOX: the standard deviation does not fall below this, or exp(log_std_init) [0.2] */
    uint64_t seed; /* of what is held out, and of the order [1] */
} ppo_clone_config;
PPO_DEF ppo_clone_config ppo_clone_config_default(void);

/* Index 0: the steps that were learned from, 1: those held out (NaN: there are none). */
typedef struct ppo_clone_report {
    int steps[2];
    int epochs, critic_epochs; /* that were done; the parameters are those of the best */
    float loss[2];             /* -mean(log pi(action | obs)), by ppo_actor_critic_logp() */
    float accuracy[2];         /* share of the choices that are the most likely ones; PPO_BOX: NaN */
    float error[2];            /* PPO_BOX: root mean square error of the most likely action; else NaN */
    float value_loss[2];       /* 0.5 mean((V - return)^2); NaN: no critic was fitted */
} ppo_clone_report;

/* Behaviour cloning: maximizes the likelihood of the recorded actions; then, where there are rewards, fits the critic
   to their discounted sums. What follows a truncated or unfinished end counts as V of the last step. A critic that
   shares layers with the policy learns in its own alone, slowly unless normalize_reward is set. A policy that normalizes
   observations or rewards, and has seen none, takes its statistics from the recording. Actions of a policy that squashes
   count as at least 0.5 % of half the box away from its bounds. Adam begins anew; after a failure the agent is as it
   was. report may be NULL. Errors: no steps, sizes or spaces differ from the agent's, a number is not finite, an action is
   outside its space or illegal, a setting is out of range, a loss is not finite. */
PPO_DEF ppo_status ppo_clone(ppo_agent *agent, const ppo_recording *recording, const ppo_clone_config *config,
                             ppo_clone_report *report);

typedef struct ppo_dagger_config {
    int rounds;             /* of play and cloning [5] */
    int episodes;           /* in each [10] */
    int sample;             /* 1: the policy acts with sampled actions; 0: the most likely ones [1] */
    uint64_t seed;          /* of the episodes [1] */
    ppo_clone_config clone; /* [ppo_clone_config_default()] */
} ppo_dagger_config;
PPO_DEF ppo_dagger_config ppo_dagger_config_default(void);

/* DAgger (Ross 2011), the expert acting in the first round alone (beta_1 = 1, then 0): clones the recording; then in
   each round adds episodes in which the agent acts and the expert says what to do, and clones all of them. An empty
   recording begins with `episodes` of the expert. Rewards are those of who acted. report: of the last cloning, may be
   NULL. Errors: those of ppo_record() and ppo_clone(). */
PPO_DEF ppo_status ppo_dagger(ppo_agent *agent, const ppo_env *env, ppo_expert_fn expert, void *user,
                              const ppo_dagger_config *config, ppo_recording *recording,
                              ppo_clone_report *report);

/* Call it before each iteration: from then on the loss has coef mean(KL(teacher || policy)), exact, in addition; coef
   0 or teacher NULL: no more. The teacher is borrowed, must outlive the iteration, and does not change. It may have
   another network, but no memory. What a policy with normalize_obs saw is brought back by the statistics of that
   rollout; before it has any, as in the first iteration of a new policy, there is no teacher. In a group, each process
   has the same teacher. Errors: the teacher is the agent that is trained, has a memory, or does not fit it; squash or the
   scaling of actions differ; byte_scale, and a teacher that normalizes; coef below 0 or not finite. */
PPO_DEF ppo_status ppo_trainer_teach(ppo_trainer *trainer, const ppo_agent *teacher, float coef);

#ifdef __cplusplus
}
#endif
#endif
#endif

/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__TEACH_IMPLEMENTED)
#define PPO__TEACH_IMPLEMENTED
#ifndef PPO_NO_CONTROL

PPO__WARNINGS_OFF

/* -- recordings -- */

/* A block of memory: this, then obs, actions, reward, mask, terminated and truncated. */
struct ppo__play_memory {
    int steps;    /* there is room for */
    double bytes; /* that they take */
    ppo_space_kind kind;
};

/* The bytes of n steps in such a block, and where its arrays are. */
static double ppo__play_bytes(const ppo_recording *r, double n) {
    const double numbers = (double)r->obs_size + ppo__space_width(&r->action_space) + 1;
    return n * (numbers * sizeof(float) + ppo__space_outputs(&r->action_space) + 2) + sizeof *r->memory;
}

static void ppo__play_point(ppo_recording *r) {
    const int width = ppo__space_width(&r->action_space), floats = ppo__kind(&r->action_space)->continuous;
    const size_t room = (size_t)r->memory->steps;
    r->obs = (float *)(void *)(r->memory + 1);
    r->reward = r->obs + room * (size_t)r->obs_size;
    r->actions.box = floats ? r->reward + room : NULL;
    r->actions.discrete = floats ? NULL : (int *)(void *)(r->reward + room);
    r->mask = (unsigned char *)(r->reward + room + room * (size_t)width);
    r->terminated = r->mask + room * (size_t)ppo__space_outputs(&r->action_space);
    r->truncated = r->terminated + room;
}

/* Step i of `from` becomes step j of `to`. */
static void ppo__play_copy(const ppo_recording *from, int i, ppo_recording *to, int j, int n) {
    const size_t size = (size_t)to->obs_size, width = (size_t)ppo__space_width(&to->action_space);
    const size_t options = (size_t)ppo__space_outputs(&to->action_space);
    memcpy(to->obs + j * size, from->obs + i * size, n * size * sizeof(float));
    if (to->actions.box)
        memcpy(to->actions.box + j * width, from->actions.box + i * width, n * width * sizeof(float));
    else
        memcpy(to->actions.discrete + j * width, from->actions.discrete + i * width, n * width * sizeof(int));
    memcpy(to->mask + j * options, from->mask + i * options, n * options);
    memcpy(to->reward + j, from->reward + i, n * sizeof(float));
    memcpy(to->terminated + j, from->terminated + i, n);
    memcpy(to->truncated + j, from->truncated + i, n);
}

/* An action as the environment sees it: in its space, and legal. */
static ppo_status ppo__check_action(const ppo_space *space, const unsigned char *mask,
                                    const ppo_actions *action, const char *whose, int step) {
    const int width = ppo__space_width(space);
    int heads;
    const int *sizes = ppo__space_heads(space, &heads);
    for (int j = 0; j < width && ppo__kind(space)->continuous; ++j) {
        const float x = action->box[j];
        if (ppo__finite(x) && x >= space->low && x <= space->high) continue;
        return ppo__refuse("%s action[%d] is %g, outside %g to %g (step %d)", whose, j, (double)x,
                           (double)space->low, (double)space->high, step);
    }
    for (int h = 0; h < heads && !ppo__kind(space)->continuous; ++h) {
        const int choice = action->discrete[h];
        if (choice < 0 || choice >= sizes[h])
            return ppo__refuse("%s choice %d is %d, outside 0 to %d (step %d)", whose, h, choice,
                               sizes[h] - 1, step);
        if (mask && !mask[choice])
            return ppo__refuse("%s choice %d is %d, which the mask forbids (step %d)", whose, h, choice,
                               step);
        if (mask) mask += sizes[h];
    }
    return PPO_OK;
}

/* Row i of such actions. */
static ppo_actions ppo__action_at(const ppo_actions *actions, const ppo_space *space, int i) {
    const size_t at = ppo__at(i, ppo__space_width(space));
    const ppo_actions one = {actions->discrete ? actions->discrete + at : NULL,
                             actions->box ? actions->box + at : NULL};
    return one;
}

static ppo_status ppo__check_step(const ppo_recording *r, int i) {
    const int options = ppo__space_outputs(&r->action_space);
    const float *obs = r->obs + ppo__at(i, r->obs_size);
    const ppo_actions action = ppo__action_at(&r->actions, &r->action_space, i);
    for (int j = 0; j < r->obs_size; ++j)
        if (!ppo__finite(obs[j]))
            return ppo_fail(PPO_ERROR_NUMERIC, "the recorded observation[%d] is %g (step %d)", j,
                            (double)obs[j], i);
    if (r->reward && !ppo__finite(r->reward[i]))
        return ppo_fail(PPO_ERROR_NUMERIC, "the recorded reward is %g (step %d)", (double)r->reward[i], i);
    return ppo__check_action(&r->action_space, r->mask ? r->mask + ppo__at(i, options) : NULL, &action,
                             "the recorded", i);
}

static ppo_status ppo__check_recording(const ppo_recording *r) {
    if (r->obs_size <= 0) return ppo__refuse("the recording's obs_size is %d, must be above 0", r->obs_size);
    return ppo__check_space(&r->action_space);
}

PPO_DEF ppo_status ppo_recording_add(ppo_recording *recording, const float *obs, const unsigned char *mask,
                                     const ppo_action *action, const ppo_outcome *outcome) {
    if (!PPO__GIVEN("ppo_recording_add", recording, obs, action)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo__check_recording(recording);
    if (status) return status;
    ppo_recording now = *recording;
    const ppo_space *space = &now.action_space;
    const size_t options = (size_t)ppo__space_outputs(space);
    const int floats = ppo__kind(space)->continuous;
    if (!now.memory && (now.steps || now.obs))
        return ppo__refuse("ppo_recording_add: the arrays are not the library's");
    if (now.memory &&
        (ppo__play_bytes(&now, now.memory->steps) != now.memory->bytes || space->kind != now.memory->kind))
        return ppo__refuse("ppo_recording_add: obs_size or action_space is not that of the first step");
    if (floats ? !action->box : space->kind != PPO_DISCRETE && !action->choices)
        return ppo__refuse("ppo_recording_add: action->%s is NULL", floats ? "box" : "choices");
    if (now.steps == INT_MAX) return ppo__refuse("ppo_recording_add: too many steps");
    if (!now.memory || now.steps == now.memory->steps) {
        const int room = now.steps < INT_MAX / 2 ? 2 * now.steps + 64 : INT_MAX;
        const double bytes = ppo__play_bytes(&now, room);
        now.memory =
            (struct ppo__play_memory *)(bytes < (double)(SIZE_MAX / 4) ? ppo__alloc_uncleared((size_t)bytes)
                                                                       : ppo__out_of_memory(bytes));
        if (!now.memory) return PPO_ERROR_MEMORY;
        now.memory->steps = room, now.memory->bytes = bytes, now.memory->kind = space->kind;
        ppo__play_point(&now);
        if (now.steps) ppo__play_copy(recording, 0, &now, 0, now.steps);
    }
    const ppo_actions to = ppo__action_at(&now.actions, space, now.steps);
    memcpy(now.obs + ppo__at(now.steps, now.obs_size), obs, now.obs_size * sizeof(float));
    if (floats) memcpy(to.box, action->box, space->n * sizeof(float));
    else if (space->kind == PPO_DISCRETE) *to.discrete = action->discrete;
    else memcpy(to.discrete, action->choices, space->n * sizeof(int));
    if (mask) memcpy(now.mask + now.steps * options, mask, options);
    else memset(now.mask + now.steps * options, 1, options);
    now.reward[now.steps] = outcome ? outcome->reward : 0;
    now.terminated[now.steps] = outcome && outcome->terminated;
    now.truncated[now.steps] = outcome && outcome->truncated && !outcome->terminated;
    status = ppo__check_step(&now, now.steps);
    if (!status) ++now.steps;
    if (now.memory != recording->memory) ppo__free(recording->memory);
    *recording = now;
    return status;
}

PPO_DEF void ppo_recording_free(ppo_recording *recording) {
    if (!recording) return;
    ppo__free(recording->memory);
    memset(recording, 0, sizeof *recording);
}

/* -- playing -- */

typedef struct ppo__record_play {
    ppo_agent *player;
    int sample;
    ppo_expert_fn expert;
    void *user;
    ppo__envs envs;
    ppo_actions label; /* what is recorded as the action */
    float *obs;        /* [obs_size], and the mask [options], in which it is taken */
    unsigned char *mask;
} ppo__record_play;

/* A label as an action. */
static ppo_action ppo__label_action(const ppo_actions *label) {
    const ppo_action action = {label->discrete ? *label->discrete : 0, label->discrete, label->box};
    return action;
}

/* What the player does in its present state, and what is recorded of that. */
static ppo_status ppo__record_choose(ppo__record_play *p, ppo_rng *rng) {
    ppo__envs *envs = &p->envs;
    const ppo_space *space = &envs->env.action_space;
    ppo_status status = PPO_OK;
    if (p->mask) status = ppo__env_mask(envs, 0);
    if (status) return status;
    memcpy(p->obs, envs->obs, envs->env.obs_size * sizeof(float));
    if (p->mask) memcpy(p->mask, envs->mask, ppo__space_outputs(space));
    if (p->player) status = ppo_act_masked(p->player, p->obs, p->mask, p->sample ? rng : NULL, envs->action);
    if (status) return status;
    if (p->expert) {
        const unsigned failures = ppo__failures;
        status = p->expert(envs->state, p->obs, p->mask, &p->label, p->user);
        if (status) return ppo__user_failed(status, failures, "expert");
        status = ppo__check_action(space, p->mask, &p->label, "the expert's", (int)envs->steps[0]);
    } else if (p->label.box) memcpy(p->label.box, envs->action->box, space->n * sizeof(float));
    else memcpy(p->label.discrete, envs->action->choices, ppo__space_width(space) * sizeof(int));
    if (!p->player) envs->action[0] = ppo__label_action(&p->label);
    return status;
}

static ppo_status ppo__record_episode(ppo__record_play *p, ppo_rng *rng, ppo_recording *recording) {
    ppo__envs *envs = &p->envs;
    ppo_outcome earned;
    ppo_status status = ppo__env_reset(envs, 0);
    int open = 0; /* 1: an action was taken; what comes before the first is not recorded */
    memset(&earned, 0, sizeof earned);
    ppo_agent_reset(p->player);
    while (!status && envs->turn[0] != PPO__OUT) {
        int stepped = 0;
        if (envs->length[0] == PPO__EVAL_STEPS)
            return ppo__refuse("ppo_record: an episode has not ended in %d steps: set env.max_steps",
                               (int)PPO__EVAL_STEPS);
        if (envs->turn[0] == PPO__ACTS) {
            status = ppo__record_choose(p, rng);
            open = 1;
        }
        if (!status) status = ppo__env_step(envs, 0, 1, &stepped);
        if (status) return status;
        const ppo_outcome *out = envs->outcome;
        earned.reward += out->reward;
        earned.terminated = out->terminated;
        earned.truncated = out->truncated;
        if (envs->turn[0] == PPO__WAITS) continue;
        const ppo_action action = ppo__label_action(&p->label);
        if (open) status = ppo_recording_add(recording, p->obs, p->mask, &action, &earned);
        earned.reward = 0;
    }
    return status;
}

PPO_DEF ppo_status ppo_record(const ppo_env *env, ppo_agent *player, int sample, ppo_expert_fn expert,
                              void *user, int episodes, uint64_t seed, ppo_recording *recording) {
    if (!PPO__GIVEN("ppo_record", env, recording)) return PPO_ERROR_ARGUMENT;
    if (!player && !expert) return ppo__refuse("ppo_record: player and expert are both NULL");
    if (episodes <= 0) return ppo__refuse("ppo_record: episodes is %d, must be above 0", episodes);
    ppo_status status = ppo__validate_env(env);
    if (!status && player) status = ppo__check_fits(player, env, "environment");
    if (status) return status;
    if (env->agents > 1)
        return ppo__refuse("ppo_record: env.agents is %d: record one of them by ppo_recording_add()",
                           env->agents);
    if (!recording->obs_size && !recording->steps) {
        recording->obs_size = env->obs_size;
        recording->action_space = env->action_space;
    }
    char space[2][PPO__SPACE_SIZE];
    status = ppo__check_recording(recording);
    if (status) return status;
    ppo__space_text(&recording->action_space, space[0]);
    ppo__space_text(&env->action_space, space[1]);
    if (recording->obs_size != env->obs_size || strcmp(space[0], space[1]))
        return ppo__refuse(
            "ppo_record: the recording (%d observed, %.40s) is not of this environment (%d observed, "
            "%.40s)",
            recording->obs_size, space[0], env->obs_size, space[1]);
    const int before = recording->steps, width = ppo__space_width(&env->action_space);
    const int floats = ppo__kind(&env->action_space)->continuous;
    ppo__record_play p;
    memset(&p, 0, sizeof p);
    p.player = player, p.sample = sample;
    p.expert = expert, p.user = user;
    status = ppo__envs_open(&p.envs, env, NULL, 1, seed, PPO_STREAM_EVALUATE, 0);
    ppo__arena *memory = &p.envs.memory;
    p.obs = PPO__ARRAY(memory, float, env->obs_size);
    p.label.box = floats ? PPO__ZEROS(memory, float, width) : NULL;
    p.label.discrete = floats ? NULL : PPO__ZEROS(memory, int, width);
    if (p.envs.own_mask) p.mask = PPO__ARRAY(memory, unsigned char, ppo__space_outputs(&env->action_space));
    if (!status) status = ppo__arena_status(memory);
    for (int k = 0; k < episodes && !status; ++k) {
        ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_ACTION, (uint32_t)k);
        p.envs.rng[0] = ppo_rng_stream(seed, PPO_STREAM_EVALUATE, (uint32_t)k);
        status = ppo__record_episode(&p, &rng, recording);
    }
    ppo__envs_free(&p.envs);
    if (status) recording->steps = before;
    else if (before && !recording->terminated[before - 1]) recording->truncated[before - 1] = 1;
    return status;
}

/* -- cloning. The recording is cut into segments, as rollouts are: one step each, of a policy with memory up to
   sequence_steps of an episode. Before each epoch all segments go forward, in the order of their place in the episode:
   that gives the losses, the states with which segments begin, and the values at ends that are not known -- */

typedef struct ppo__clone {
    ppo_agent *agent;
    const ppo_recording *data;
    const ppo_clone_config *config;
    ppo__arena memory;
    float *scaled;         /* [steps] rewards as the critic sees them */
    float *value, *target; /* [steps] V, and what it should be */
    float *best, *before;  /* [params->count] the parameters of the best epoch, and those at first */
    float *rates;          /* [tensor_count] the agent's own lr_scale */
    int most;              /* steps of a segment, at most */
    int segments;
    int *first;    /* [segments + 1] segment s is the steps first[s] .. first[s + 1] - 1 */
    int *place;    /* [segments] how many of its episode come before it; without memory 0 */
    int *by_place; /* [segments] in this order */
    int *learned;  /* [learns] those that are not held out, shuffled */
    int learns;
    unsigned char *held; /* [segments] 1: held out */
    float *state;        /* [segments][width] before the segment */

    /* a batch: n segments, packed by time, the longest first */
    int batch;           /* segments in one, at most */
    int *count, *row;    /* [most] how many have a step t; [batch * most] which steps of the recording */
    float *obs;          /* of these rows: as the policy sees them, */
    unsigned char *mask; /* what is legal, */
    ppo_actions actions; /* before scaling or squashing, */
    float *wanted;       /* and what V should be */
    float *begins;       /* [batch][width] the states before the segments */
} ppo__clone;

/* Sums over the steps that are learned from, or held out. */
typedef struct ppo__clone_sums {
    double rows, loss, agree, error;
} ppo__clone_sums;

static int ppo__play_ends(const ppo_recording *r, int i) {
    return (r->terminated && r->terminated[i]) || (r->truncated && r->truncated[i]);
}

static int ppo__clone_begins(const ppo__clone *x, int s) {
    return !x->first[s] || ppo__play_ends(x->data, x->first[s] - 1);
}

/* Cuts the recording into segments, and sorts them by their place in the episode. Returns the number of episodes,
   whose first segments are in `learned`. */
static int ppo__clone_cut(ppo__clone *x) {
    const ppo_recording *r = x->data;
    int episodes = 0, *before = x->row; /* before[p + 1]: segments of place p, then of those up to it */
    for (int i = 0, place = 0, length = 0; i < r->steps; ++i, ++length) {
        const int begins = !i || ppo__play_ends(r, i - 1);
        if (!begins && length < x->most) continue;
        place = begins || !x->agent->model.core.width ? 0 : place + 1;
        if (begins) x->learned[episodes++] = x->segments;
        ++before[place + 1];
        x->place[x->segments] = place;
        x->first[x->segments++] = i;
        length = 0;
    }
    x->first[x->segments] = r->steps;
    for (int p = 1; p <= x->segments; ++p) before[p] += before[p - 1];
    for (int s = 0; s < x->segments; ++s) x->by_place[before[x->place[s]]++] = s;
    return episodes;
}

/* Chooses what is held out: whole episodes; of a single one, its end. */
static void ppo__clone_hold_out(ppo__clone *x, int episodes) {
    ppo_rng rng = ppo_rng_stream(x->config->seed, PPO_STREAM_SHUFFLE, 0);
    const int all = episodes > 1 ? episodes : x->segments;
    int hold = (int)(x->config->held_out * (float)all + 0.5f);
    if (hold < 1) hold = 1;
    if (hold >= all) hold = all - 1;
    if (!(x->config->held_out > 0)) hold = 0;
    if (episodes > 1) ppo_rng_shuffle(&rng, x->learned, episodes);
    for (int k = 0; k < hold; ++k) {
        int s = episodes > 1 ? x->learned[k] : x->segments - 1 - k;
        do x->held[s] = 1;
        while (episodes > 1 && ++s < x->segments && !ppo__clone_begins(x, s));
    }
    for (int s = 0; s < x->segments; ++s)
        if (!x->held[s]) x->learned[x->learns++] = s;
}

static ppo_status ppo__clone_room(ppo__clone *x) {
    const ppo_recording *r = x->data;
    const ppo_actor_critic *model = &x->agent->model;
    const ppo_params *params = model->params;
    ppo__arena *memory = &x->memory;
    const size_t steps = (size_t)r->steps, width = (size_t)model->core.width;
    const int most = model->core.width ? x->agent->config.sequence_steps : 1;
    x->most = ppo__min_int(most, r->steps);
    x->batch = x->config->batch_size > x->most ? x->config->batch_size / x->most : 1;
    x->batch = ppo__min_int(x->batch, r->steps);
    const size_t rows = ppo__at(x->batch, x->most), room = rows > steps ? rows : steps;
    x->scaled = PPO__ARRAY(memory, float, steps);
    x->value = PPO__ZEROS(memory, float, steps);
    x->target = PPO__ZEROS(memory, float, steps);
    x->best = PPO__ARRAY(memory, float, params->count);
    x->before = PPO__ARRAY(memory, float, params->count);
    x->rates = PPO__ARRAY(memory, float, params->tensor_count);
    x->first = PPO__ARRAY(memory, int, steps + 1);
    x->place = PPO__ARRAY(memory, int, steps);
    x->by_place = PPO__ARRAY(memory, int, steps);
    x->learned = PPO__ARRAY(memory, int, steps);
    x->held = PPO__ZEROS(memory, unsigned char, steps);
    x->state = PPO__ZEROS(memory, float, steps *width);
    x->count = PPO__ARRAY(memory, int, x->most);
    x->row = PPO__ZEROS(memory, int, room + 2);
    x->obs = PPO__ARRAY(memory, float, rows *(size_t)r->obs_size);
    x->wanted = PPO__ARRAY(memory, float, rows);
    x->begins = PPO__ARRAY(memory, float, ppo__at(x->batch, (int)width));
    x->actions.discrete = PPO__ARRAY(memory, int, rows *(size_t)ppo__space_width(&model->action_space));
    x->actions.box = PPO__ARRAY(memory, float, rows *(size_t)ppo__space_width(&model->action_space));
    x->mask = PPO__ARRAY(memory, unsigned char, rows *(size_t)ppo__space_outputs(&model->action_space));
    return ppo__arena_status(memory);
}

/* The number whose action, as the environment sees it, is a. */
static float ppo__clone_number(const ppo_actor_critic *model, float a) {
    const ppo_space *space = &model->action_space;
    if (!model->squash && !model->scale) return a;
    const float x = (a - ppo__box_centre(space)) / ppo__box_half(space);
    return model->squash ? atanhf(ppo__clamp(x, -0.995f, 0.995f)) : x;
}

/* Copies step i of the recording to row k of the batch. */
static void ppo__clone_gather(ppo__clone *x, int i, int k) {
    const ppo_recording *r = x->data;
    const ppo_actor_critic *model = &x->agent->model;
    const int size = r->obs_size, width = ppo__space_width(&r->action_space);
    const int options = ppo__space_outputs(&r->action_space);
    const size_t from = ppo__at(i, width), to = ppo__at(k, width);
    x->row[k] = i;
    ppo__normalized(&x->agent->obs_norm, x->agent->clip_obs, r->obs + ppo__at(i, size), 1, size,
                    x->obs + ppo__at(k, size));
    if (r->mask) memcpy(x->mask + ppo__at(k, options), r->mask + ppo__at(i, options), options);
    for (int j = 0; j < width; ++j) {
        if (r->actions.box) x->actions.box[to + j] = ppo__clone_number(model, r->actions.box[from + j]);
        else x->actions.discrete[to + j] = r->actions.discrete[from + j];
    }
    x->wanted[k] = x->target[i];
}

static int ppo__clone_length(const ppo__clone *x, int s) { return x->first[s + 1] - x->first[s]; }

/* Packs n segments, which it sorts by length, and puts them forward. */
static ppo_outputs ppo__clone_forward(ppo__clone *x, int *segment, int n, int want) {
    const ppo_actor_critic *model = &x->agent->model;
    const size_t width = (size_t)model->core.width;
    int rows = 0, steps = 0;
    for (int i = 1; i < n; ++i) {
        const int moved = segment[i];
        int j = i;
        for (; j && ppo__clone_length(x, segment[j - 1]) < ppo__clone_length(x, moved); --j)
            segment[j] = segment[j - 1];
        segment[j] = moved;
    }
    for (int k = 0; k < n; ++k)
        memcpy(x->begins + k * width, x->state + segment[k] * width, width * sizeof(float));
    for (; steps < ppo__clone_length(x, segment[0]); ++steps) {
        int k = 0;
        for (; k < n && steps < ppo__clone_length(x, segment[k]); ++k)
            ppo__clone_gather(x, x->first[segment[k]] + steps, rows++);
        x->count[steps] = k;
    }
    const unsigned char *mask = x->data->mask && !x->data->actions.box ? x->mask : NULL;
    const ppo_sequences sequences = {steps, x->count, x->begins, NULL}, none = {0, NULL, NULL, NULL};
    const ppo_inputs inputs = {rows, x->obs, mask, width ? sequences : none, NULL, 0, 0};
    return ppo__forward_once(x->agent->tape, model, inputs, want);
}

/* Takes row k of the batch into the sums of its kind: what the policy makes of it. */
static void ppo__clone_judge(ppo__clone *x, const ppo_outputs *out, const ppo_tensor *logp, int k,
                             ppo__clone_sums *sums) {
    const ppo_actor_critic *model = &x->agent->model;
    const ppo_space *space = &model->action_space;
    const int width = ppo__space_width(space);
    const ppo_actions best = {(int *)(void *)x->agent->scratch, x->agent->scratch};
    const ppo_actions did = ppo__action_at(&x->data->actions, space, x->row[k]);
    const ppo__distribution d = ppo__distribution_of(model, out);
    ppo_action action;
    ppo__choose_action(&d, NULL, k, NULL, NULL, &best, 0, best.box, &action);
    sums->loss -= (double)logp->data[k];
    sums->rows += 1;
    for (int j = 0; j < width && did.box; ++j) {
        const double off = (double)action.box[j] - (double)did.box[j];
        sums->error += off * off / width;
    }
    for (int j = 0; j < width && !did.box; ++j)
        sums->agree += (action.choices[j] == did.discrete[j]) / (double)width;
}

/* Puts all segments forward: values, states, and the sums of those learned from and those held out. */
static ppo_status ppo__clone_pass(ppo__clone *x, int want, ppo__clone_sums sums[2]) {
    const size_t width = (size_t)x->agent->model.core.width;
    ppo_tape *tape = x->agent->tape;
    memset(sums, 0, 2 * sizeof *sums);
    ppo_tape_record(tape, 0);
    for (int s = 0, n; s < x->segments; s += n) {
        int *segment = x->by_place + s;
        for (n = 1; n < x->batch && s + n < x->segments; ++n)
            if (x->place[segment[n]] != x->place[*segment]) break;
        const ppo_outputs out = ppo__clone_forward(x, segment, n, want);
        ppo_tensor *logp = NULL;
        if (out.policy) ppo_actor_critic_logp(tape, &x->agent->model, &out, &x->actions, &logp, NULL);
        if (ppo_tape_status(tape)) return ppo_tape_status(tape);
        for (int t = 0, row = 0; t < ppo__clone_length(x, *segment); ++t)
            for (int k = 0; k < x->count[t]; ++k, ++row) {
                const int at = segment[k], next = at + 1;
                if (out.value) x->value[x->row[row]] = out.value->data[row];
                if (logp) ppo__clone_judge(x, &out, logp, row, &sums[x->held[at]]);
                if (width && t == ppo__clone_length(x, at) - 1 && next < x->segments && x->place[next])
                    memcpy(x->state + next * width, out.state->data + row * width, width * sizeof(float));
            }
    }
    return PPO_OK;
}

/* Discounted returns; what follows an end that is not the task's counts as V of the last step. And their losses. */
static void ppo__clone_returns(ppo__clone *x, ppo__clone_sums sums[2]) {
    const ppo_recording *r = x->data;
    for (int i = r->steps - 1; i >= 0; --i) {
        const int terminated = r->terminated && r->terminated[i];
        const int cut = i == r->steps - 1 || ppo__play_ends(r, i);
        if (cut && !terminated) x->target[i] = x->value[i];
        else x->target[i] = x->scaled[i] + (terminated ? 0 : x->agent->config.gamma * x->target[i + 1]);
    }
    for (int s = 0; s < x->segments; ++s)
        for (int i = x->first[s]; i < x->first[s + 1]; ++i) {
            const double off = (double)x->value[i] - (double)x->target[i];
            sums[x->held[s]].loss += 0.5 * off * off;
            sums[x->held[s]].rows += 1;
        }
}

/* Moves the critic's last bias by the mean error, which may be large, so that Adam need not. */
static ppo_status ppo__clone_centre(ppo__clone *x) {
    const ppo_mlp *critic = &x->agent->model.critic;
    ppo__clone_sums sums[2];
    ppo_status status = ppo__clone_pass(x, PPO_VALUE, sums);
    double off = 0;
    if (status) return status;
    ppo__clone_returns(x, sums);
    for (int i = 0; i < x->data->steps; ++i)
        off += ((double)x->target[i] - (double)x->value[i]) / x->data->steps;
    critic->bias[critic->layers - 1]->data[0] += (float)off;
    return PPO_OK;
}

/* One epoch over the segments that are learned from. */
static ppo_status ppo__clone_epoch(ppo__clone *x, int want, ppo_rng *rng) {
    const ppo_clone_config *c = x->config;
    const ppo_actor_critic *model = &x->agent->model;
    const ppo_adam usual = ppo_adam_default(),
                   adam = {c->learning_rate, usual.beta1, usual.beta2, usual.eps, 0};
    ppo_tape *tape = x->agent->tape;
    const int batches = ppo__divide_up(x->learns, x->batch);
    ppo_status status = PPO_OK;
    ppo_tape_record(tape, 1);
    ppo_rng_shuffle(rng, x->learned, x->learns);
    for (int b = 0; b < batches && !status; ++b) {
        const int begin = ppo__share(x->learns, b, batches),
                  n = ppo__share(x->learns, b + 1, batches) - begin;
        const ppo_outputs out = ppo__clone_forward(x, x->learned + begin, n, want);
        ppo_tensor *loss, *logp, *entropy;
        if (want == PPO_POLICY) {
            ppo_actor_critic_logp(tape, model, &out, &x->actions, &logp, &entropy);
            loss = ppo_tape_scale(tape, ppo_tape_mean(tape, logp), -1, 0);
            if (c->entropy_coef > 0)
                loss = ppo_tape_sub(tape, loss,
                                    ppo_tape_scale(tape, ppo_tape_mean(tape, entropy), c->entropy_coef, 0));
        } else loss = ppo_tape_value_loss(tape, out.value, x->wanted, x->wanted, NULL, 0, INFINITY);
        ppo_params_zero_grad(model->params);
        status = ppo_tape_backward(tape, loss);
        if (!status) status = ppo_params_step(model->params, &adam, c->max_grad_norm, NULL);
    }
    ppo_tape_record(tape, 0);
    return status;
}

static void ppo__clone_bound_std(ppo_actor_critic *model) {
    for (size_t i = 0; model->log_std && i < ppo__size(model->log_std); ++i)
        model->log_std->data[i] = ppo__log_std_at(model, i);
}

/* Trains the policy, or the critic alone, and leaves the parameters of the best epoch. */
static ppo_status ppo__clone_fit(ppo__clone *x, int want, ppo__clone_sums best[2], int *epochs) {
    const ppo_clone_config *c = x->config;
    ppo_params *params = x->agent->model.params;
    ppo_rng rng = ppo_rng_stream(c->seed, PPO_STREAM_SHUFFLE, want);
    const size_t bytes = params->count * sizeof(float);
    const int judged = x->learns < x->segments; /* by what is held out, if there is something */
    ppo_status status = PPO_OK;
    ppo_params_reset_optimizer(params);
    for (int i = 0; i < params->tensor_count; ++i)
        params->lr_scale[i] = want == PPO_POLICY || !strncmp(params->names[i], "critic.", 7);
    for (int worse = 0;; ++*epochs) {
        ppo__clone_sums sums[2];
        status = ppo__clone_pass(x, want, sums);
        if (status) break;
        if (want == PPO_VALUE) ppo__clone_returns(x, sums);
        const double loss = sums[judged].loss / sums[judged].rows;
        if (!ppo__finite((float)loss)) {
            status = ppo_fail(PPO_ERROR_NUMERIC, "ppo_clone: the %s loss is %g after %d epochs",
                              want == PPO_POLICY ? "policy's" : "critic's", loss, *epochs);
            break;
        }
        if (!*epochs || !judged || !c->patience || loss < best[judged].loss / best[judged].rows) {
            memcpy(best, sums, sizeof sums);
            memcpy(x->best, params->data, bytes);
            worse = 0;
        } else if (++worse == c->patience) break;
        if (*epochs == c->epochs) break;
        status = ppo__clone_epoch(x, want, &rng);
        if (status) break;
        if (want == PPO_POLICY) ppo__clone_bound_std(&x->agent->model);
    }
    if (!status) memcpy(params->data, x->best, bytes);
    return status;
}

/* Takes statistics from the recording, where the agent has none yet, and scales the rewards. */
static ppo_status ppo__clone_normalize(ppo__clone *x) {
    ppo_agent *agent = x->agent;
    const ppo_recording *r = x->data;
    ppo_normalizer *returns = &agent->return_norm;
    const int scales = agent->config.normalize_reward && r->reward;
    if (agent->obs_norm.size && !(agent->obs_norm.count > 0))
        ppo_normalizer_update(&agent->obs_norm, r->obs, r->steps);
    if (scales && !returns->size && ppo_normalizer_init(returns, 1)) return PPO_ERROR_MEMORY;
    const int unseen = scales && !(returns->count > 0);
    float discounted = 0;
    for (int i = 0; i < r->steps && unseen; ++i) {
        discounted = discounted * agent->config.gamma + r->reward[i];
        ppo_normalizer_update(returns, &discounted, 1);
        if (ppo__play_ends(r, i)) discounted = 0;
    }
    const float limit = scales ? agent->config.clip_reward : INFINITY;
    const double scale = scales ? ppo__inv_std(returns->var[0]) : 1;
    for (int i = 0; i < r->steps && r->reward; ++i)
        x->scaled[i] = ppo__clamp((float)(r->reward[i] * scale), -limit, limit);
    return PPO_OK;
}

static ppo_status ppo__check_clone(const ppo_agent *agent, const ppo_recording *r,
                                   const ppo_clone_config *c) {
    const float *number[] = {&c->learning_rate, &c->held_out, &c->max_grad_norm, &c->entropy_coef,
                             &c->min_std};
    static const char *const name[] = {"learning_rate", "held_out", "max_grad_norm", "entropy_coef",
                                       "min_std"};
    const float most[] = {1, 0.9f, FLT_MAX, FLT_MAX, FLT_MAX};
    char space[2][PPO__SPACE_SIZE];
    ppo_status status = ppo__check_recording(r);
    if (status) return status;
    for (int k = 0; k < 5; ++k)
        if (!(*number[k] >= 0 && *number[k] <= most[k]))
            return ppo__refuse("ppo_clone: %s is %g, outside 0 to %g", name[k], (double)*number[k],
                               (double)most[k]);
    if (c->epochs < 0 || c->patience < 0 || c->batch_size <= 0)
        return ppo__refuse("ppo_clone: epochs %d, patience %d or batch_size %d is out of range", c->epochs,
                           c->patience, c->batch_size);
    ppo__space_text(&agent->model.action_space, space[0]);
    ppo__space_text(&r->action_space, space[1]);
    if (agent->model.obs_size != r->obs_size || strcmp(space[0], space[1]))
        return ppo__refuse(
            "ppo_clone: the recording (%d observed, %.40s) does not fit the agent (%d observed, %.40s)",
            r->obs_size, space[1], agent->model.obs_size, space[0]);
    if (r->steps <= 0) return ppo__refuse("ppo_clone: the recording has %d steps", r->steps);
    const int floats = ppo__kind(&r->action_space)->continuous;
    if (!r->obs || !(floats ? (const void *)r->actions.box : (const void *)r->actions.discrete))
        return ppo__refuse("ppo_clone: the recording's %s is NULL", !r->obs  ? "obs"
                                                                    : floats ? "actions.box"
                                                                             : "actions.discrete");
    for (int i = 0; i < r->steps && !status; ++i) status = ppo__check_step(r, i);
    return status;
}

PPO_DEF ppo_clone_config ppo_clone_config_default(void) {
    const ppo_clone_config c = {1e-3f, 100, 64, 0.1f, 20, 0.5f, 0, 0.2f, 1};
    return c;
}

/* Fits the policy, then the critic. */
static ppo_status ppo__clone_all(ppo__clone *x, ppo_clone_report *report) {
    ppo_actor_critic *model = &x->agent->model;
    const float lowest = model->log_std_min;
    const float rows = model->log_std ? (float)model->log_std->rows : 1; /* gsde: the sum of as many */
    float floor = logf(x->config->min_std / sqrtf(rows));
    for (size_t i = 0; model->log_std && i < ppo__size(model->log_std); ++i)
        floor = ppo__min(floor, model->log_std->data[i]);
    model->log_std_min = ppo__max(lowest, floor);
    ppo__clone_sums sums[2][2];
    ppo_status status = ppo__clone_fit(x, PPO_POLICY, sums[0], &report->epochs);
    model->log_std_min = lowest;
    const int critic = x->data->reward && x->agent->config.use_critic;
    if (!status && critic) status = ppo__clone_centre(x);
    if (!status && critic) status = ppo__clone_fit(x, PPO_VALUE, sums[1], &report->critic_epochs);
    const int floats = model->log_std != NULL;
    for (int k = 0; k < 2 && !status; ++k) {
        const ppo__clone_sums *s = &sums[0][k];
        report->steps[k] = (int)s->rows;
        report->loss[k] = s->rows > 0 ? (float)(s->loss / s->rows) : NAN;
        report->accuracy[k] = s->rows > 0 && !floats ? (float)(s->agree / s->rows) : NAN;
        report->error[k] = s->rows > 0 && floats ? (float)sqrt(s->error / s->rows) : NAN;
        report->value_loss[k] = critic && s->rows > 0 ? (float)(sums[1][k].loss / s->rows) : NAN;
    }
    return status;
}

PPO_DEF ppo_status ppo_clone(ppo_agent *agent, const ppo_recording *recording, const ppo_clone_config *config,
                             ppo_clone_report *report) {
    if (!PPO__GIVEN("ppo_clone", agent, recording, config)) return PPO_ERROR_ARGUMENT;
    ppo_params *params = agent->model.params;
    ppo_clone_report made;
    ppo__clone x;
    ppo_status status = ppo__check_clone(agent, recording, config);
    if (status) return status;
    memset(&x, 0, sizeof x);
    memset(&made, 0, sizeof made);
    x.agent = agent, x.data = recording, x.config = config;
    status = ppo_params_freeze(params, 0);
    if (!status) status = ppo__clone_room(&x);
    if (status) {
        ppo__arena_free(&x.memory);
        return status;
    }
    const int no_obs = !(agent->obs_norm.count > 0), no_returns = !(agent->return_norm.count > 0);
    memcpy(x.before, params->data, params->count * sizeof(float));
    memcpy(x.rates, params->lr_scale, params->tensor_count * sizeof(float));
    ppo__clone_hold_out(&x, ppo__clone_cut(&x));
    status = ppo__clone_normalize(&x);
    if (!status) status = ppo__clone_all(&x, &made);
    if (status) memcpy(params->data, x.before, params->count * sizeof(float));
    if (status && no_obs && agent->obs_norm.size) ppo__normalizer_reset(&agent->obs_norm);
    if (status && no_returns && agent->return_norm.size) ppo__normalizer_reset(&agent->return_norm);
    memcpy(params->lr_scale, x.rates, params->tensor_count * sizeof(float));
    ppo_params_reset_optimizer(params);
    ppo_agent_reset(agent);
    ppo_tape_record(agent->tape, 0);
    ppo__arena_free(&x.memory);
    if (!status && report) *report = made;
    return status;
}

/* -- DAgger -- */

PPO_DEF ppo_dagger_config ppo_dagger_config_default(void) {
    const ppo_dagger_config c = {5, 10, 1, 1, ppo_clone_config_default()};
    return c;
}

PPO_DEF ppo_status ppo_dagger(ppo_agent *agent, const ppo_env *env, ppo_expert_fn expert, void *user,
                              const ppo_dagger_config *config, ppo_recording *recording,
                              ppo_clone_report *report) {
    if (!PPO__GIVEN("ppo_dagger", agent, env, expert, config, recording)) return PPO_ERROR_ARGUMENT;
    if (config->rounds < 0)
        return ppo__refuse("ppo_dagger: rounds is %d, must not be below 0", config->rounds);
    ppo_status status = PPO_OK;
    for (int round = 0; round <= config->rounds && !status; ++round) { /* round 0 is the expert's */
        const uint64_t seed = config->seed + (uint64_t)round;
        if (round || !recording->steps)
            status = ppo_record(env, round ? agent : NULL, config->sample, expert, user, config->episodes,
                                seed, recording);
        if (!status) status = ppo_clone(agent, recording, &config->clone, report);
    }
    return status;
}

/* -- a teacher while PPO trains -- */

typedef struct ppo__teacher {
    const ppo_agent *agent; /* NULL: none now */
    float coef;
    int normal;         /* 1: the policy's observations are normalized by these */
    double *mean, *std; /* [obs_size] */
} ppo__teacher;

/* What the teacher makes of rows that the policy saw; the tape does not record it. */
static ppo_outputs ppo__teacher_outputs(const ppo__teacher *t, ppo_tape *tape, const ppo_inputs *seen) {
    const ppo_actor_critic *model = &t->agent->model;
    const int size = model->obs_size;
    ppo_inputs inputs = *seen;
    float *obs = NULL;
    ppo_tape_record(tape, 0);
    if (!seen->obs_bytes) obs = ppo_tape_alloc(tape, ppo__at(seen->rows, size));
    for (size_t i = 0; obs && i < ppo__at(seen->rows, size); ++i) {
        const size_t j = i % (size_t)size;
        obs[i] = t->normal ? (float)(seen->obs[i] * t->std[j] + t->mean[j]) : seen->obs[i];
    }
    if (obs) ppo__normalized(&t->agent->obs_norm, t->agent->clip_obs, obs, seen->rows, size, obs);
    if (obs) inputs.obs = obs;
    const ppo_outputs out = ppo_actor_critic_forward(tape, model, &inputs, PPO_POLICY);
    ppo_tape_record(tape, 1);
    return out;
}

static ppo_tensor *ppo__teacher_term(const void *teacher, ppo_tape *tape, const ppo_inputs *seen,
                                     const ppo_outputs *out, ppo_tensor *loss) {
    const ppo__teacher *t = (const ppo__teacher *)teacher;
    if (!t->agent || !loss) return loss;
    const ppo_outputs own = ppo__teacher_outputs(t, tape, seen);
    float *log_std = NULL;
    if (!own.policy) return NULL;
    if (own.log_std) { /* a row for each sample */
        const size_t n = ppo__size(own.policy), cols = (size_t)own.policy->cols;
        log_std = ppo_tape_alloc(tape, n);
        for (size_t i = 0; log_std && i < n; ++i)
            log_std[i] = ppo__log_std_row(own.log_std, (int)(i / cols))[i % cols];
    }
    ppo_tensor *kl = ppo__actor_critic_kl(tape, &t->agent->model, out, own.policy->data, log_std);
    return ppo_tape_add(tape, loss, ppo_tape_scale(tape, ppo_tape_mean(tape, kl), t->coef, 0));
}

static ppo_status ppo__check_teacher(const ppo_trainer *trainer, const ppo_agent *teacher) {
    const ppo_agent *agent = trainer->agent;
    const ppo_env env = ppo__env_of(agent);
    if (teacher == agent)
        return ppo__refuse("ppo_trainer_teach: the teacher is the agent that is trained: copy it");
    ppo_status status = ppo__check_fits(teacher, &env, "agent that is trained");
    if (status) return status;
    if (teacher->model.core.width)
        return ppo__refuse("ppo_trainer_teach: the teacher has a memory (recurrent)");
    if (teacher->model.squash != agent->model.squash || teacher->model.scale != agent->model.scale)
        return ppo__refuse(
            "ppo_trainer_teach: the teacher's actions are brought into the box otherwise (squash, "
            "scale_actions)");
    if (ppo__byte_count(&trainer->collector.envs.env) && teacher->obs_norm.size)
        return ppo__refuse("ppo_trainer_teach: the teacher normalizes observations, which are bytes here");
    return PPO_OK;
}

PPO_DEF ppo_status ppo_trainer_teach(ppo_trainer *trainer, const ppo_agent *teacher, float coef) {
    if (!PPO__GIVEN("ppo_trainer_teach", trainer)) return PPO_ERROR_ARGUMENT;
    if (!(coef >= 0) || !ppo__finite(coef)) return ppo__refuse("ppo_trainer_teach: coef is %g", (double)coef);
    const ppo_normalizer *norm = &trainer->agent->obs_norm;
    ppo__teacher *t = (ppo__teacher *)trainer->teacher;
    if (t) t->agent = NULL;
    if (!teacher || coef == 0) return PPO_OK;
    ppo_status status = ppo__check_teacher(trainer, teacher);
    if (status || (norm->size && !(norm->count > 0))) return status;
    if (!t) {
        const int size = trainer->agent->model.obs_size;
        t = PPO__ZEROS(&trainer->memory, ppo__teacher, 1);
        double *numbers = PPO__ZEROS(&trainer->memory, double, ppo__at(2, size));
        status = ppo__arena_status(&trainer->memory);
        if (status) return status;
        t->mean = numbers, t->std = numbers + size;
    }
    t->agent = teacher;
    t->coef = coef;
    t->normal = norm->size > 0;
    for (int j = 0; j < norm->size; ++j) t->mean[j] = norm->mean[j], t->std[j] = sqrt(norm->var[j]);
    trainer->teacher = t;
    trainer->teach = ppo__teacher_term;
    return PPO_OK;
}

PPO__WARNINGS_BACK

#endif
#endif
