/* control.h - the page's first tab: a task is learned while one watches. Include ppo.h before it.

   The trainer is fed by this loop (ppo_trainer_observe(), ppo_trainer_act()) and learns in slices of a few
   milliseconds (ppo_trainer_learn()), so that the page can be paused, drawn or changed between any two gradient
   steps. What the page draws is written to a frame of floats, control_frame(). */

#ifndef WEB_CONTROL_H
#define WEB_CONTROL_H

#include <math.h>
#include <string.h>

#include "../envs/cartpole.h"
#include "../envs/pendulum.h"
#include "lander.h"

enum {
    CONTROL_SOURCES = 16,
    CONTROL_SAMPLES = 256,
    CONTROL_RECENT = 100,
    CONTROL_STATE = 24,
    CONTROL_BYTES = 256
};

/* The frame: names and numbers of floats, from which the page finds them. Samples are of the latest rollout: the
   ratio and the value are of the policy as it is now, the rest is as it was collected. */
#define CONTROL_FRAME(FIELD)                                                       \
    FIELD(steps, 1)     /* of the environment, since the start */                  \
    FIELD(iteration, 1) /* complete ones */                                        \
    FIELD(gradient_steps, 1)                                                       \
    FIELD(learning, 1)      /* 0: it collects; 1: it learns */                     \
    FIELD(progress, 1)      /* of that phase, 0 to 1 */                            \
    FIELD(learned_steps, 1) /* those that complete iterations have learned from */ \
    FIELD(mean_return, 1)   /* of the last 100 episodes */                         \
    FIELD(episodes, 1)                                                             \
    FIELD(kl, 1) /* of the latest iteration, and so on */                          \
    FIELD(clip_fraction, 1)                                                        \
    FIELD(most_kl, 1) /* the largest since the frame before */                     \
    FIELD(most_clip_fraction, 1)                                                   \
    FIELD(entropy, 1)                                                              \
    FIELD(explained_variance, 1)                                                   \
    FIELD(value_loss, 1)                                                           \
    FIELD(clip_low, 1) /* the sliders' settings */                                 \
    FIELD(gae_lambda, 1)                                                           \
    FIELD(epochs, 1)                                                               \
    FIELD(learning_rate, 1)                                                        \
    FIELD(entropy_coef, 1)                                                         \
    FIELD(now_kl, 1) /* of the samples below: mean of k3 */                        \
    FIELD(now_clip_fraction, 1)                                                    \
    FIELD(state, CONTROL_STATE) /* of the episode that is shown */                 \
    FIELD(shown_return, 1)                                                         \
    FIELD(samples, 1) /* how many of these are set */                              \
    FIELD(ratio, CONTROL_SAMPLES)                                                  \
    FIELD(advantage, CONTROL_SAMPLES) /* mean 0, standard deviation 1 */           \
    FIELD(value, CONTROL_SAMPLES)                                                  \
    FIELD(target, CONTROL_SAMPLES)
#define CONTROL_FIELD(name, count) float name[count];
struct control_frame {
    CONTROL_FRAME(CONTROL_FIELD)
};

/* A copy of the environment, in the middle of an episode. */
struct control_world {
    union {
        double aligned;
        char bytes[CONTROL_BYTES];
    } state;
    ppo_rng rng;
    float obs[8], total; /* the return so far */
    int age;
};

static struct {
    ppo_env env;
    ppo_config config;
    ppo_agent *agent;
    ppo_trainer *trainer;
    int changed; /* settings: the next iteration needs another trainer */
    int restarts;
    int learning;   /* in the middle of an iteration, */
    int64_t before; /* which began after this many gradient steps */

    struct control_world source[CONTROL_SOURCES], shown;
    float recent[CONTROL_RECENT]; /* returns of episodes, a ring */
    int64_t episodes, steps, learned, iteration;
    ppo_progress latest;
    float most_kl, most_clip_fraction; /* since the latest frame */

    /* samples of the latest rollout, as they were collected */
    ppo_tape *tape;
    int samples;
    float obs[CONTROL_SAMPLES * 8], logp[CONTROL_SAMPLES];
    float advantage[CONTROL_SAMPLES], target[CONTROL_SAMPLES], box[CONTROL_SAMPLES];
    int choice[CONTROL_SAMPLES];
    struct control_frame frame;
} control;

static const char *const control_presets[3] = {
    "num_envs=8 rollout_steps=128 minibatch_size=256 epochs=4 learning_rate=2e-3",
    "num_envs=8 rollout_steps=128 minibatch_size=128 epochs=8 learning_rate=1e-3 gamma=0.9 "
    "normalize_reward=yes",
    "num_envs=16 rollout_steps=128 minibatch_size=256 epochs=4 learning_rate=2e-3 gae_lambda=0.98 "
    "entropy_coef=0.01",
};

/* -- worlds -- */

static void control_begin(struct control_world *w) {
    memset(&w->state, 0, sizeof w->state);
    w->total = 0, w->age = 0;
    control.env.reset(&w->state, &w->rng, w->obs);
}

static ppo_outcome control_move(struct control_world *w, const ppo_action *action) {
    ppo_outcome out;
    memset(&out, 0, sizeof out);
    control.env.step(&w->state, &w->rng, action, w->obs, &out);
    w->total += out.reward;
    out.truncated = ++w->age >= control.env.max_steps;
    return out;
}

/* One step of every source. The outcome of a step is observed with the observation that follows it. */
static ppo_status control_collect(void) {
    for (int e = 0; e < control.config.num_envs; e++) {
        struct control_world *w = &control.source[e];
        ppo_action action;
        ppo_status status = ppo_trainer_act(control.trainer, e, &action);
        if (status) return status;
        ppo_outcome out = control_move(w, &action);
        control.steps++;
        status = ppo_trainer_observe(control.trainer, e, w->obs, NULL, &out);
        if (!status && (out.terminated || out.truncated)) {
            control.recent[control.episodes++ % CONTROL_RECENT] = w->total;
            control_begin(w);
            status = ppo_trainer_observe(control.trainer, e, w->obs, NULL, NULL);
        }
        if (status) return status;
    }
    return PPO_OK;
}

/* -- training -- */

/* A trainer with the settings as they are now. It begins where the one before has ended: with the agent, and with
   the sources in the middle of their episodes. */
static ppo_status control_renew(void) {
    ppo_env described = control.env; /* without functions: its steps are pushed */
    described.reset = NULL;
    described.step = NULL;
    described.draw = NULL;
    described.max_steps = 0;
    ppo_config config = control.config;
    config.seed += 1000003u * (uint64_t)control.restarts++;
    ppo_trainer_free(control.trainer);
    control.trainer = NULL;
    control.changed = 0;
    ppo_status status = ppo_trainer_create(&described, &config, control.agent, &control.trainer);
    for (int e = 0; e < config.num_envs && !status; e++)
        status = ppo_trainer_observe(control.trainer, e, control.source[e].obs, NULL, NULL);
    return status;
}

/* task: 0 CartPole, 1 Pendulum, 2 Lander. The sliders' settings, NULL or as "epochs=4", replace the task's. */
static ppo_status control_start(int task, unsigned seed, const char *settings) {
    ppo_trainer_free(control.trainer);
    ppo_agent_free(control.agent);
    ppo_tape_free(control.tape);
    memset(&control, 0, sizeof control);
    control.env = task == 0 ? cartpole_env() : task == 1 ? pendulum_env() : lander_env();
    control.config = ppo_config_default();
    ppo_status status =
        ppo_config_set_all(&control.config, "total_steps=1000000000000 learning_rate_schedule=constant "
                                            "hidden=32,32 activation=relu");
    if (!status) status = ppo_config_set_all(&control.config, control_presets[task]);
    if (!status && settings) status = ppo_config_set_all(&control.config, settings);
    control.config.seed = seed;
    if (!status) status = ppo_tape_create(&control.tape);
    if (!status) status = ppo_agent_create(&control.env, &control.config, &control.agent);
    if (status) return status;
    ppo_tape_record(control.tape, 0);
    for (int e = 0; e <= CONTROL_SOURCES; e++) {
        struct control_world *w = e < CONTROL_SOURCES ? &control.source[e] : &control.shown;
        w->rng = ppo_rng_stream(seed, PPO_STREAM_USER, (uint32_t)e);
        control_begin(w);
    }
    return control_renew();
}

/* Settings by name, as "clip_low=0.1 clip_high=0.1": they count from the next iteration on. */
static ppo_status control_set(const char *settings) {
    control.changed = 1;
    return ppo_config_set_all(&control.config, settings);
}

/* Keeps some samples of a rollout: evenly spaced, over all steps and sources. */
static void control_keep_samples(void) {
    const ppo_rollout *r = ppo_trainer_rollout(control.trainer);
    int all = r->steps * r->envs, obs_size = control.env.obs_size;
    double mean = 0, square = 0;
    control.samples = all < CONTROL_SAMPLES ? all : CONTROL_SAMPLES;
    for (int k = 0; k < control.samples; k++) {
        int row = ((int)((int64_t)all * k / control.samples) + k % r->envs) % all;
        memcpy(control.obs + k * obs_size, r->obs + row * obs_size, (size_t)obs_size * sizeof(float));
        if (r->actions.discrete) control.choice[k] = r->actions.discrete[row];
        else control.box[k] = r->actions.box[row];
        control.logp[k] = r->logp[row];
        control.advantage[k] = r->advantage[row];
        control.target[k] = r->value_target[row];
        mean += r->advantage[row], square += (double)r->advantage[row] * r->advantage[row];
    }
    mean /= control.samples;
    double std = sqrt(square / control.samples - mean * mean) + 1e-8;
    for (int k = 0; k < control.samples; k++)
        control.advantage[k] = (float)((control.advantage[k] - mean) / std);
}

/* Learns for about that many milliseconds; below 0: one minibatch. */
static ppo_status control_learn(double milliseconds) {
    ppo_progress progress;
    int first = !control.learning;
    if (first) control.before = control.agent->model.params->step;
    ppo_status status = ppo_trainer_learn(control.trainer, first ? -1 : milliseconds, &progress);
    control.learning = 1;
    if (first) control_keep_samples();
    if (status || !progress.iteration) return status;
    control.latest = progress;
    control.most_kl = fmaxf(control.most_kl, progress.approx_kl);
    control.most_clip_fraction = fmaxf(control.most_clip_fraction, progress.clip_fraction);
    control.learning = 0;
    control.learned = control.steps;
    control.iteration++;
    return control.changed ? control_renew() : PPO_OK;
}

/* Trains for about that many milliseconds. */
static ppo_status control_run(double milliseconds) {
    const double until = ppo_clock() + 1e-3 * milliseconds;
    ppo_status status = PPO_OK;
    while (!status && ppo_clock() < until) {
        if (ppo_trainer_ready(control.trainer)) status = control_learn(1e3 * (until - ppo_clock()) + 0.1);
        else status = control_collect();
    }
    return status;
}

/* To the end of the next gradient step, however many steps of the environment that takes. */
static ppo_status control_gradient_step(void) {
    ppo_status status = PPO_OK;
    while (!status && !ppo_trainer_ready(control.trainer)) status = control_collect();
    return status ? status : control_learn(-1);
}

/* A step of the episode that is shown, by the policy as it is now. */
static ppo_status control_show(void) {
    struct control_world *w = &control.shown;
    ppo_action action;
    ppo_status status = ppo_act(control.agent, w->obs, &w->rng, &action);
    if (status) return status;
    ppo_outcome out = control_move(w, &action);
    if (out.terminated || out.truncated) control_begin(w);
    return PPO_OK;
}

/* -- the frame -- */

/* The state as the page draws it. */
static void control_draw(float *to) {
    if (control.env.obs_size == 4) {
        const cartpole *s = (const cartpole *)(const void *)&control.shown.state;
        to[0] = (float)s->x, to[1] = (float)s->theta;
    } else if (control.env.obs_size == 3) {
        const pendulum *s = (const pendulum *)(const void *)&control.shown.state;
        to[0] = (float)s->theta, to[1] = (float)s->speed;
    } else {
        const lander *s = (const lander *)(const void *)&control.shown.state;
        to[0] = s->x, to[1] = s->y, to[2] = s->angle, to[3] = s->engine;
        memcpy(to + 4, s->ground, sizeof s->ground);
    }
}

/* The samples under the networks as they are now. */
static ppo_status control_look(struct control_frame *f) {
    ppo_inputs inputs;
    memset(&inputs, 0, sizeof inputs);
    inputs.rows = control.samples;
    inputs.obs = control.obs;
    ppo_tape_reset(control.tape);
    ppo_outputs out =
        ppo_actor_critic_forward(control.tape, &control.agent->model, &inputs, PPO_POLICY | PPO_VALUE);
    ppo_actions actions = {control.choice, control.box};
    ppo_tensor *logp = NULL;
    if (control.agent->model.action_space.kind == PPO_BOX) actions.discrete = NULL;
    else actions.box = NULL;
    ppo_actor_critic_logp(control.tape, &control.agent->model, &out, &actions, &logp, NULL);
    ppo_status status = ppo_tape_status(control.tape);
    float clip = control.config.clip_low;
    for (int k = 0; k < control.samples && !status; k++) {
        float l = logp->data[k] - control.logp[k], ratio = expf(l);
        f->ratio[k] = ratio;
        f->advantage[k] = control.advantage[k];
        f->value[k] = out.value->data[k];
        f->target[k] = control.target[k];
        f->now_kl[0] += (ratio - 1 - l) / (float)control.samples;
        f->now_clip_fraction[0] += (fabsf(ratio - 1) > clip) / (float)control.samples;
    }
    return status;
}

static ppo_status control_fill(void) {
    struct control_frame *f = &control.frame;
    const ppo_config *c = &control.config;
    const ppo_rollout *r = ppo_trainer_rollout(control.trainer);
    int all = c->num_envs * c->rollout_steps, recent = (int)control.episodes;
    int per_epoch = (all + c->minibatch_size - 1) / c->minibatch_size;
    int64_t step = control.agent->model.params->step;
    memset(f, 0, sizeof *f);
    if (recent > CONTROL_RECENT) recent = CONTROL_RECENT;
    for (int k = 0; k < recent; k++) f->mean_return[0] += control.recent[k] / (float)recent;
    if (!recent) f->mean_return[0] = NAN;
    f->steps[0] = (float)control.steps;
    f->learned_steps[0] = (float)control.learned;
    f->iteration[0] = (float)control.iteration;
    f->gradient_steps[0] = (float)step;
    f->learning[0] = (float)control.learning;
    f->progress[0] = control.learning ? (float)(step - control.before) / (float)(per_epoch * c->epochs)
                                      : (float)r->recorded[0] / (float)r->steps;
    f->episodes[0] = (float)control.episodes;
    f->kl[0] = control.latest.approx_kl;
    f->clip_fraction[0] = control.latest.clip_fraction;
    f->most_kl[0] = control.most_kl;
    f->most_clip_fraction[0] = control.most_clip_fraction;
    control.most_kl = control.most_clip_fraction = 0;
    f->entropy[0] = control.latest.entropy;
    f->explained_variance[0] = control.latest.explained_variance;
    f->value_loss[0] = control.latest.value_loss;
    f->clip_low[0] = c->clip_low;
    f->gae_lambda[0] = c->gae_lambda;
    f->epochs[0] = (float)c->epochs;
    f->learning_rate[0] = c->learning_rate;
    f->entropy_coef[0] = c->entropy_coef;
    f->shown_return[0] = control.shown.total;
    f->samples[0] = (float)control.samples;
    control_draw(f->state);
    return control.samples ? control_look(f) : PPO_OK;
}

#endif
