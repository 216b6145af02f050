/* ppo_check.h - checks of what you write for ppo.h: an environment, an operation or a loss of the tape

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_check.h"             // after ppo.h; other files may include it for its declarations

   Copy this file beside ppo.h. In the folder examples/, where it is in companions/, programs include it from
   there: #include "companions/ppo_check.h".

AN ENVIRONMENT

   ppo_env_check() plays it with random actions and says in sentences what is wrong with it, or worth a setting:

       ppo_inspection report;
       if (ppo_env_check(&env, 10000, 1, &report) != PPO_OK) puts(ppo_last_error());
       for (int i = 0; i < report.findings; ++i) puts(report.finding[i]);

   It is what check_env() is in Stable-Baselines3.

DERIVATIVES

   ppo_check_gradients() compares those of the tape with finite differences:

       static ppo_tensor *my_loss(ppo_tape *tape, ppo_tensor *const *inputs, void *user) {
           (void)user;
           return ppo_tape_mean(tape, ppo_tape_square(tape, inputs[0]));
       }

       float numbers[3] = {0.5f, -1, 2}, grad[3];
       ppo_tensor x = {1, 3, numbers, grad}, *inputs[1] = {&x};
       float worst;
       if (ppo_check_gradients(my_loss, inputs, 1, NULL, 1e-2f, 1e-2f, &worst) != PPO_OK) puts(ppo_last_error());

   License: that of ppo.h. */
#ifndef PPO_CHECK_H
#define PPO_CHECK_H
#ifndef PPO_H
#error "include ppo.h before ppo_check.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_check.h belongs to version 0.3 of ppo.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Compares the gradients of a scalar function of `inputs` with central differences of step epsilon. build()
   records the function on the tape and returns its (1, 1) result; it is called once, then twice per number,
   and must not draw new random numbers. inputs need data and grad; their gradients are zero afterwards.
   *max_error (may be NULL) is the largest |analytic - numeric| / max(0.1, |analytic|, |numeric|), NaN if
   nothing could be compared; PPO_ERROR_NUMERIC if it exceeds tolerance. epsilon 1e-2 and tolerance 1e-2 suit
   values around 1 in 32-bit arithmetic. Check away from special points: where every ratio is 1, a wrong
   derivative may not show. */
typedef ppo_tensor *(*ppo_scalar_fn)(ppo_tape *tape, ppo_tensor *const *inputs, void *user);
PPO_DEF ppo_status ppo_check_gradients(ppo_scalar_fn build, ppo_tensor *const *inputs, int n_inputs,
                                       void *user, float epsilon, float tolerance, float *max_error);

#ifndef PPO_NO_CONTROL
/* Plays an environment with random actions, in two copies side by side, before anything is trained, and says
   in a sentence each what will go wrong or is worth a setting: results that depend on more than the state;
   pointers in the state, which no checkpoint brings back; numbers that are never written or not finite;
   episodes that do not end; no rewards, or huge ones; observations far from unit scale; bounds of actions far
   from what a new policy chooses. findings 0: nothing was found. Errors: a function is missing, a size or the
   action space is invalid, env.open failed. */
enum { PPO_MAX_FINDINGS = 8 };
typedef struct ppo_inspection {
    int steps, episodes; /* that were played */
    int findings;
    char finding[PPO_MAX_FINDINGS][240];
} ppo_inspection;
PPO_DEF ppo_status ppo_env_check(const ppo_env *env, int steps, uint64_t seed, ppo_inspection *report);
#endif

#ifdef __cplusplus
}
#endif
#endif

/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__CHECK_IMPLEMENTED)
#define PPO__CHECK_IMPLEMENTED

PPO__WARNINGS_OFF

/* *value = the function's result */
static ppo_status ppo__scalar_at(ppo_scalar_fn build, ppo_tape *tape, ppo_tensor *const *inputs, void *user,
                                 float *value) {
    ppo_tape_reset(tape);
    ppo_tensor *result = build(tape, inputs, user);
    if (ppo_tape_status(tape)) return tape->status;
    if (!result || result->rows != 1 || result->cols != 1)
        return ppo__refuse("ppo_check_gradients: the function's result is not (1, 1)");
    *value = result->data[0];
    return PPO_OK;
}

/* Gradients start from this, so that an operation which overwrites instead of adding is detected. A power of
   two about as large as the gradients, so that adding it costs few digits. */
#define PPO__PREFILL 0.125f

static void ppo__fill_gradients(ppo_tensor *const *inputs, int n_inputs, float x) {
    for (int k = 0; k < n_inputs; ++k)
        for (size_t i = 0; i < ppo__size(inputs[k]); ++i) inputs[k]->grad[i] = x;
}

PPO_DEF ppo_status ppo_check_gradients(ppo_scalar_fn build, ppo_tensor *const *inputs, int n_inputs,
                                       void *user, float epsilon, float tolerance, float *max_error) {
    if (max_error) *max_error = NAN;
    if (!build || !inputs || n_inputs <= 0 || !(epsilon > 0))
        return ppo__refuse("ppo_check_gradients: needs a function, inputs and epsilon > 0");
    for (int k = 0; k < n_inputs; ++k) {
        if (!inputs[k] || !inputs[k]->data || !inputs[k]->grad)
            return ppo__refuse("ppo_check_gradients: input %d lacks data or grad", k);
    }
    ppo_tape *tape = NULL;
    ppo_status status = ppo_tape_create(&tape), wrong = PPO_OK;
    if (status) return status;
    ppo__fill_gradients(inputs, n_inputs, PPO__PREFILL);
    status = ppo_tape_backward(tape, build(tape, inputs, user));
    ppo_tape_record(tape, 0);
    float worst = status ? NAN : 0.0f;
    for (int k = 0; k < n_inputs && !status; ++k) {
        for (size_t i = 0; i < ppo__size(inputs[k]) && !status; ++i) {
            float *x = &inputs[k]->data[i], kept = *x, above = 0, below = 0;
            *x = kept + epsilon;
            float span = *x;
            status = ppo__scalar_at(build, tape, inputs, user, &above);
            *x = kept - epsilon;
            span -= *x;
            if (!status) status = ppo__scalar_at(build, tape, inputs, user, &below);
            *x = kept;
            if (status) break;
            float numeric = (above - below) / span, analytic = inputs[k]->grad[i] - PPO__PREFILL;
            float scale = ppo__max(0.1f, ppo__max(fabsf(analytic), fabsf(numeric)));
            float error = fabsf(analytic - numeric) / scale;
            if (!(error <= worst)) worst = error; /* NaN counts as the worst */
            if (!(error <= tolerance) && !wrong)
                wrong = ppo_fail(PPO_ERROR_NUMERIC,
                                 "gradient of input %d at (%d, %d) is %g, finite differences say %g", k,
                                 (int)(i / (size_t)inputs[k]->cols), (int)(i % (size_t)inputs[k]->cols),
                                 (double)analytic, (double)numeric);
        }
    }
    ppo__fill_gradients(inputs, n_inputs, 0);
    if (max_error) *max_error = worst;
    ppo_tape_free(tape);
    return status ? status : wrong;
}

#ifndef PPO_NO_CONTROL

/* -- inspecting an environment: two copies of it play the same episodes with random actions -- */

typedef struct ppo__inspection {
    const ppo_env *env;
    ppo_inspection *report;
    ppo__envs twin[2];
    ppo_rng rng;             /* of the actions */
    ppo_normalizer seen;     /* observations */
    double largest, squares; /* rewards; returns */
    int ended;               /* how often the episodes of all agents were over */
    int state_told;          /* 1: what is stored was reported */
} ppo__inspection;

static PPO__PRINTF(2, 3) void ppo__find(ppo_inspection *report, const char *format, ...) {
    va_list args;
    if (report->findings == PPO_MAX_FINDINGS) return;
    va_start(args, format);
    vsnprintf(report->finding[report->findings++], sizeof report->finding[0], format, args);
    va_end(args);
}

/* A random legal action of agent e, in both twins. */
static void ppo__inspect_choose(ppo__inspection *x, int e) {
    const ppo_space *space = &x->env->action_space;
    const int width = ppo__space_width(space);
    ppo__envs *envs = &x->twin[0];
    const unsigned char *mask = envs->own_mask ? envs->mask + ppo__at(e, ppo__space_outputs(space)) : NULL;
    ppo_action action = {0, NULL, NULL};
    if (ppo__kind(space)->continuous) {
        float *box = envs->box + ppo__at(e, width);
        float low = ppo__max(space->low, -1), high = ppo__min(space->high, 1);
        if (low >= high) {
            low = ppo__max(space->low, -FLT_MAX / 4);
            high = ppo__min(space->high, FLT_MAX / 4);
        }
        for (int j = 0; j < width; ++j) box[j] = low + (high - low) * ppo_rng_uniform(&x->rng);
        action.box = box;
    } else {
        int heads;
        const int *sizes = ppo__space_heads(space, &heads);
        int *choice = (int *)(void *)envs->box + ppo__at(e, width); /* a box has no choices */
        for (int h = 0, at = 0; h < heads; at += sizes[h++]) {
            do choice[h] = ppo_rng_below(&x->rng, sizes[h]);
            while (mask && !mask[at + choice[h]]);
        }
        action.choices = choice;
        action.discrete = choice[0];
    }
    x->twin[0].action[e] = x->twin[1].action[e] = action;
}

/* 1: a word of the state is an address near the environment's functions, like that of a static array. Small
   addresses do not count: they do not change from run to run, and could be numbers. */
static int ppo__is_static(const ppo_env *env, uintptr_t word) {
    const uintptr_t program = env->reset ? (uintptr_t)env->reset : (uintptr_t)env->reset_all;
    const uintptr_t distance = word > program ? word - program : program - word;
    return sizeof word == 8 && (uint64_t)program >> 40 && distance < (uintptr_t)1 << 28;
}

/* Finds what differs between the twins after the same calls, and addresses in their state. Returns 1 if they
   differ in what they show, which ends the inspection. */
static int ppo__inspect_twins(ppo__inspection *x) {
    const ppo__envs *a = &x->twin[0], *b = &x->twin[1];
    for (int e = 0; e < a->agents; ++e) {
        const ppo_outcome *p = &a->outcome[e], *q = &b->outcome[e];
        if (a->turn[e] == b->turn[e] && p->reward == q->reward && !p->terminated == !q->terminated &&
            (a->turn[e] != PPO__ACTS ||
             !memcmp(ppo__obs(a, e), ppo__obs(b, e), (size_t)x->env->obs_size * sizeof(float))))
            continue;
        ppo__find(x->report,
                  "two copies that did the same differ after %d steps: the environment depends on more than "
                  "its state, such as rand() or a static variable. Runs cannot be repeated or resumed",
                  x->report->steps);
        return 1;
    }
    for (size_t i = 0; i < x->env->state_size && !x->env->open && !x->state_told; i += sizeof(void *)) {
        const size_t left = x->env->state_size - i, n = left < sizeof(void *) ? left : sizeof(void *);
        const int same = !memcmp(a->state + i, b->state + i, n);
        uintptr_t word = 0;
        memcpy(&word, a->state + i, n);
        if (same && !(n == sizeof word && ppo__is_static(x->env, word))) continue;
        ppo__find(
            x->report,
            same
                ? "bytes %lu to %lu of the state are an address in the program: it is another one when the "
                  "program runs again, which no checkpoint knows. Keep an index, or the thing itself"
                : "bytes %lu to %lu of the state differ between two copies that did the same, as pointers, "
                  "numbers from rand() or holes of a struct copied whole do: no checkpoint brings them back. "
                  "Allocate in env.open, use indices, draw from rng",
            (unsigned long)i, (unsigned long)(i + n - 1));
        x->state_told = 1;
    }
    return 0;
}

/* Resets or steps both twins. Observations are NaN before the call, which shows those that it does not write.
   Returns 1 if the inspection ends. */
static int ppo__inspect_call(ppo__inspection *x, int reset) {
    const size_t size = ppo__obs_block(&x->twin[0]);
    for (int k = 0; k < 2; ++k) {
        ppo__envs *envs = &x->twin[k];
        float *own = ppo__own_obs(envs, 0);
        for (size_t i = 0; i < size && !k; ++i) own[i] = NAN;
        int stepped = 0;
        ppo_status status = reset ? ppo__env_reset(envs, 0) : ppo__env_step(envs, 0, 1, &stepped);
        for (size_t i = 0; i < size && !k && status == PPO_ERROR_NUMERIC; ++i)
            if (own[i] != own[i]) {
                ppo__find(x->report, "%s does not write observation[%d], or it is NaN",
                          reset ? "reset" : "step", (int)(i % (size_t)x->env->obs_size));
                return 1;
            }
        if (!status) continue;
        ppo__find(x->report, "%.180s", ppo_last_error());
        return 1;
    }
    return ppo__inspect_twins(x);
}

/* Plays this number of steps. Returns 1 if the inspection ended early. */
static int ppo__inspect_play(ppo__inspection *x, int steps) {
    ppo_inspection *report = x->report;
    ppo__envs *envs = &x->twin[0];
    const int agents = envs->agents;
    if (ppo__inspect_call(x, 1)) return 1;
    while (report->steps < steps) {
        for (int k = 0; k < 2 && envs->own_mask; ++k)
            if (ppo__env_mask(&x->twin[k], 0)) {
                ppo__find(report, "%.180s", ppo_last_error());
                return 1;
            }
        for (int e = 0; e < agents; ++e) {
            if (envs->turn[e] != PPO__ACTS) continue;
            ppo_normalizer_update(&x->seen, ppo__obs(envs, e), 1);
            ppo__inspect_choose(x, e);
        }
        ++report->steps;
        if (ppo__inspect_call(x, 0)) return 1;
        for (int e = 0; e < agents; ++e) {
            const ppo_outcome *out = &envs->outcome[e];
            x->largest = fmax(x->largest, fabs((double)out->reward));
            if (!out->terminated && !out->truncated && !ppo__env_is_over(envs, 0)) continue;
            if (!envs->length[e]) continue;
            x->squares += envs->episode_return[e] * envs->episode_return[e];
            ++report->episodes;
            for (int k = 0; k < 2; ++k) ppo__agent_begins(&x->twin[k], e);
        }
        x->ended += ppo__env_is_over(envs, 0);
        if (ppo__env_is_over(envs, 0) && ppo__inspect_call(x, 1)) return 1;
    }
    return 0;
}

/* Judges episodes, actions and rewards. */
static void ppo__inspect_episodes(ppo__inspection *x) {
    ppo_inspection *report = x->report;
    const ppo_space *space = &x->env->action_space;
    const int steps = report->steps;
    if (!report->episodes)
        ppo__find(report, "no episode ended in %d random steps: set env.max_steps, or let it end", steps);
    else if (!x->ended && !x->env->max_steps)
        ppo__find(report,
                  "the world never ended in %d random steps, as its agents join again: set env.max_steps",
                  steps);
    if (ppo__kind(space)->continuous && space->high - space->low < 1e6f &&
        ppo__max(fabsf(space->low), fabsf(space->high)) > 10)
        ppo__find(report,
                  "actions go from %g to %g, but a new policy's are near 0, +-1: scale them in step, or set "
                  "squash=yes",
                  (double)space->low, (double)space->high);
    if (x->largest == 0)
        ppo__find(report, "no reward came in %d random steps: there is nothing to learn from at first",
                  steps);
    if (x->largest > 1e6)
        ppo__find(report, "rewards reach %.3g: scale them, or set normalize_reward=yes", x->largest);
    else if (report->episodes && x->squares / report->episodes > 1e6)
        ppo__find(report, "returns are around %.3g: normalize_reward=yes helps the critic",
                  sqrt(x->squares / report->episodes));
}

/* Judges the observations. */
static void ppo__inspect_observations(ppo__inspection *x) {
    ppo_inspection *report = x->report;
    double largest = 0;
    int worst = 0, constant = 0;
    for (int j = 0; j < x->env->obs_size; ++j) {
        double size = sqrt(x->seen.mean[j] * x->seen.mean[j] + x->seen.var[j]);
        if (size > largest) {
            largest = size;
            worst = j;
        }
        constant += x->seen.var[j] < 1e-12;
    }
    if (largest > 10)
        ppo__find(report, "observation[%d] is %.3g +- %.3g, far from unit scale: set normalize_obs=yes",
                  worst, x->seen.mean[worst], sqrt(x->seen.var[worst]));
    if (largest < 0.01)
        ppo__find(report, "all observations are within %.2g of 0: set normalize_obs=yes", largest);
    if (constant == x->env->obs_size)
        ppo__find(report, "the observation never changed in %d random steps", report->steps);
}

PPO_DEF ppo_status ppo_env_check(const ppo_env *env, int steps, uint64_t seed, ppo_inspection *report) {
    ppo__inspection x;
    if (!PPO__GIVEN("ppo_env_check", report)) return PPO_ERROR_ARGUMENT;
    memset(report, 0, sizeof *report);
    ppo_status status = ppo__validate_env(env);
    if (!status && steps <= 0) status = ppo__refuse("ppo_env_check: steps is %d, must be above 0", steps);
    if (status) return status;
    memset(&x, 0, sizeof x);
    x.env = env;
    x.report = report;
    x.rng = ppo_rng_stream(seed, PPO_STREAM_ACTION, 0);
    status = ppo_normalizer_init(&x.seen, env->obs_size);
    for (int k = 0; k < 2 && !status; ++k)
        status = ppo__envs_open(&x.twin[k], env, NULL, 1, seed, PPO_STREAM_EVALUATE, 0);
    if (!status) ppo__normalizer_reset(&x.seen, 0);
    if (!status && !ppo__inspect_play(&x, steps)) {
        ppo__inspect_episodes(&x);
        ppo__inspect_observations(&x);
    }
    for (int k = 0; k < 2; ++k) ppo__envs_free(&x.twin[k]);
    ppo_normalizer_free(&x.seen);
    return status;
}

#endif

PPO__WARNINGS_BACK

#endif
