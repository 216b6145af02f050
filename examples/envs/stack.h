/* stack.h - an environment around another one, for ppo.h (include that first): the latest observations side by side, an
   action that lasts for several steps, bounded rewards.

       ppo_env inner = cartpole_env();
       stack of = {inner, 4, 1, 0};         // 4 observations, 1 step for each action, rewards as they are
       ppo_env env = stack_env(&of);        // `of` must stay where it is

   A stack shows how things move, which one observation may not: a policy without memory then learns what would need one
   otherwise, and often sooner. Where an episode begins, the stack holds the first observation several times. An action that
   lasts is for environments with many steps a second.

   Any environment can be wrapped: with masks, pictures, resources, several agents, a critic that sees more, a stack of its
   own. Its functions find what they know: their state, and their own pointer by ppo_env_user(). A world with env.copies is
   known by its functions and its user, and a stack has its own: in two stacks, or in one and without, it is taken for two
   worlds, which are open at the same time. Give it one stack, and use that alone. */
#ifndef STACK_H
#define STACK_H

#include <string.h>

typedef struct stack {
    ppo_env inner;
    int frames; /* observations that are seen, the latest first; 0 or 1: that alone */
    /* steps that an action lasts, unless an episode ends, a turn does, or the action is no longer legal; 0 or 1: one.
       The stack's max_steps counts actions: after some that ended early, an episode is cut sooner */
    int repeat;
    float clip_reward; /* > 0: what they earn together is clipped to +- this; 0: as it is */
} stack;

/* A block of state begins with the inner environment's. Then come 16 bytes with its age in steps, and these, of each
   agent. There are no pointers in it, so it can be saved. */
typedef struct stack_parts {
    int *age;
    float *earned;  /* [agents] by the latest action */
    float *frames;  /* [agents][frames][obs_size of the inner one] */
    char *standing; /* [agents] in no episode; in one, but it has not seen anything yet; has seen something */
    unsigned char *mask; /* [agents][options], if they are masked and last: those that are still legal */
} stack_parts;
enum { STACK_OUT, STACK_BEGINS, STACK_SEES };

static inline size_t stack_agents(const stack *s) {
    return s->inner.agents > 1 ? (size_t)s->inner.agents : 1;
}
static inline size_t stack_frames(const stack *s) { return s->frames > 1 ? (size_t)s->frames : 1; }
static inline size_t stack_size(const stack *s) { return (size_t)s->inner.obs_size; }

/* All options of an agent, if it is to be asked whether they are still legal. */
static inline size_t stack_options(const stack *s) {
    const ppo_space *space = &s->inner.action_space;
    size_t options = 0;
    if (s->repeat <= 1 || !s->inner.action_mask || space->kind == PPO_BOX) return 0;
    if (space->kind == PPO_DISCRETE) return (size_t)space->n;
    for (int j = 0; j < space->n; j++) options += (size_t)space->sizes[j];
    return options;
}

static inline size_t stack_own(const stack *s) { return (s->inner.state_size + 15) / 16 * 16; }

static inline stack_parts stack_at(const stack *s, void *state) {
    char *own = (char *)state + stack_own(s);
    stack_parts at;
    at.age = (int *)(void *)own;
    at.earned = (float *)(void *)(own + 16);
    at.frames = at.earned + stack_agents(s);
    at.standing = (char *)(at.frames + stack_agents(s) * stack_frames(s) * stack_size(s));
    at.mask = (unsigned char *)at.standing + stack_agents(s);
    return at;
}

/* Puts numbers from .. to - 1 of all frames side by side. */
static inline float *stack_columns(const stack *s, const float *frame, size_t from, size_t to, float *obs) {
    for (size_t k = 0; k < stack_frames(s); k++, obs += to - from)
        memcpy(obs, frame + k * stack_size(s) + from, (to - from) * sizeof(float));
    return obs;
}

/* Takes each agent's observation into its frames, and writes those in place of it: first the pictures of all frames, then
   the rest of what the actor sees, then what the critic alone does. */
static inline void stack_observe(const stack *s, const stack_parts *at, const ppo_outcome *out, float *obs) {
    const int *shape = s->inner.shape;
    const size_t frames = stack_frames(s), size = stack_size(s),
                 picture = (size_t)(shape[0] * shape[1] * shape[2]);
    const size_t actor = s->inner.actor_obs ? (size_t)s->inner.actor_obs : size;
    for (size_t e = 0; e < stack_agents(s); e++) {
        float *frame = at->frames + e * frames * size;
        if (at->standing[e] != STACK_OUT && out[e].waits && !out[e].truncated) continue; /* it is not read */
        memmove(frame + size, frame, (frames - 1) * size * sizeof(float));
        memcpy(frame, obs + e * size, size * sizeof(float));
        if (at->standing[e] != STACK_BEGINS) continue;
        for (size_t k = 1; k < frames; k++) memcpy(frame + k * size, frame, size * sizeof(float));
        at->standing[e] = STACK_SEES;
    }
    for (size_t e = 0; e < stack_agents(s); e++) {
        const float *frame = at->frames + e * frames * size;
        obs = stack_columns(s, frame, 0, picture, obs);
        obs = stack_columns(s, frame, picture, actor, obs);
        obs = stack_columns(s, frame, actor, size, obs);
    }
}

static inline void stack_reset(void *state, ppo_rng *rng, float *obs, ppo_outcome *out) {
    const stack *s = (const stack *)ppo_env_user();
    const stack_parts at = stack_at(s, state);
    ppo_env_set_user(s->inner.user);
    if (s->inner.reset_all) s->inner.reset_all(state, rng, obs, out);
    else s->inner.reset(state, rng, obs);
    *at.age = 0;
    for (size_t e = 0; e < stack_agents(s); e++)
        at.standing[e] = out[e].terminated || out[e].truncated ? STACK_OUT : STACK_BEGINS;
    stack_observe(s, &at, out, obs);
}

/* One inner step. Returns 1 if an action cannot last beyond it. */
static inline int stack_inner_step(const stack *s, const stack_parts *at, void *state, ppo_rng *rng,
                                   const ppo_action *actions, float *obs, ppo_outcome *out) {
    const ppo_env *inner = &s->inner;
    int over = ++*at->age == inner->max_steps;
    memset(out, 0, stack_agents(s) * sizeof *out);
    ppo_env_set_user(inner->user); /* a stack in there sets its own */
    if (inner->step_many) inner->step_many(1, state, rng, actions, obs, out);
    else if (inner->step_all) inner->step_all(state, rng, actions, obs, out);
    else inner->step(state, rng, actions, obs, out);
    for (size_t e = 0; e < stack_agents(s); e++) {
        const int ends = out[e].terminated || out[e].truncated,
                  waited = !actions[e].choices && !actions[e].box;
        over |= out[e].joins;
        if (at->standing[e] == STACK_OUT) continue;
        over |= ends || !out[e].waits != !waited;
        at->earned[e] += out[e].reward;
    }
    return over;
}

/* 1: each agent may do once more what it did. */
static inline int stack_legal(const stack *s, const stack_parts *at, const void *state,
                              const ppo_action *actions) {
    const ppo_space *space = &s->inner.action_space;
    const size_t options = stack_options(s);
    if (!options) return 1;
    memset(at->mask, 1, stack_agents(s) * options);
    ppo_env_set_user(s->inner.user);
    s->inner.action_mask(state, at->mask);
    for (size_t e = 0; e < stack_agents(s); e++) {
        const unsigned char *mask = at->mask + e * options;
        if (at->standing[e] == STACK_OUT || !actions[e].choices) continue;
        for (int j = 0; j < (space->kind == PPO_DISCRETE ? 1 : space->n); mask += space->sizes[j++])
            if (!mask[actions[e].choices[j]]) return 0;
    }
    return 1;
}

static inline void stack_step(void *state, ppo_rng *rng, const ppo_action *actions, float *obs,
                              ppo_outcome *out) {
    const stack *s = (const stack *)ppo_env_user();
    const stack_parts at = stack_at(s, state);
    const float limit = s->clip_reward;
    int left = s->repeat > 1 ? s->repeat : 1;
    memset(at.earned, 0, stack_agents(s) * sizeof *at.earned);
    while (!stack_inner_step(s, &at, state, rng, actions, obs, out) && --left &&
           stack_legal(s, &at, state, actions)) {
    }
    for (size_t e = 0; e < stack_agents(s); e++) {
        const int ends = out[e].terminated || out[e].truncated;
        const float earned = at.earned[e];
        out[e].reward = limit > 0 && earned > limit ? limit : limit > 0 && earned < -limit ? -limit : earned;
        if (out[e].joins) at.standing[e] = STACK_BEGINS;
        else if (ends) at.standing[e] = STACK_OUT;
    }
    stack_observe(s, &at, out, obs);
}

static inline void stack_mask(const void *state, unsigned char *mask) {
    const stack *s = (const stack *)ppo_env_user();
    ppo_env_set_user(s->inner.user);
    s->inner.action_mask(state, mask);
}

static inline int stack_open(void *state, void *user, int copy) {
    const stack *s = (const stack *)user;
    ppo_env_set_user(s->inner.user);
    return s->inner.open(state, s->inner.user, copy);
}

static inline void stack_close(void *state) {
    const stack *s = (const stack *)ppo_env_user();
    ppo_env_set_user(s->inner.user);
    s->inner.close(state);
}

static inline ppo_env stack_env(const stack *s) {
    const int frames = (int)stack_frames(s), repeat = s->repeat > 1 ? s->repeat : 1;
    ppo_env env = s->inner;
    env.obs_size *= frames;
    env.actor_obs *= frames;
    env.shape[0] *= frames; /* a frame's channels are side by side */
    env.state_size =
        stack_own(s) + 16 +
        stack_agents(s) * ((1 + stack_frames(s) * stack_size(s)) * sizeof(float) + 1 + stack_options(s));
    env.max_steps = (s->inner.max_steps + repeat - 1) / repeat;
    env.reset_all = s->inner.reset || s->inner.reset_all ? stack_reset : NULL;
    env.step_all = s->inner.step || s->inner.step_all || s->inner.step_many ? stack_step : NULL;
    env.reset = NULL;
    env.step = NULL;
    env.step_many = NULL;
    env.action_mask = s->inner.action_mask ? stack_mask : NULL;
    env.open = s->inner.open ? stack_open : NULL;
    env.close = s->inner.close ? stack_close : NULL;
    env.user = (void *)s;
    return env;
}

#endif
