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

   It is what check_env() is in Stable-Baselines3. The symptoms of a task, like observations far from unit scale, are those
   that a training looks for, too (ppo_progress.warning). What only copies of the environment show is looked for here:

       symptom         what it does to learning
       obs-unwritten   the policy sees what an earlier step left there
       copies-random   noise that no policy can foresee; runs cannot be repeated or resumed
       copies-shared   all copies play one game, and the moves of one are rewarded to another
       reset-forgets   an episode depends on earlier ones: training reports returns that no fresh game gives
       state-differs, state-address   a checkpoint does not bring the state back
       world-endless   its agents join again for ever, so it is never reset

AN EVALUATION

   ppo_evaluation_check() compares greedy play with sampled play, which can be far better.

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
/* Plays an environment with random actions before anything is trained, in two copies side by side and then again, and
   says in a sentence each what will go wrong or is worth a setting. findings 0: nothing was found. settings: what it
   will be trained with (NULL: the defaults), so that no advice is followed already. seed: the play begins where the
   first episode of ppo_evaluate() with this seed does. Errors: a function is missing, a size or the action space is
   invalid, env.open failed. */
enum { PPO_MAX_FINDINGS = 8 };
typedef struct ppo_inspection {
    int steps, episodes; /* that were played */
    int findings;
    char finding[PPO_MAX_FINDINGS][240];
    const char *symptom[PPO_MAX_FINDINGS]; /* its name, like "obs-far"; "failed": a call failed */
} ppo_inspection;
PPO_DEF ppo_status ppo_env_check(const ppo_env *env, int steps, uint64_t seed, ppo_inspection *report);
PPO_DEF ppo_status ppo_env_check_with(const ppo_env *env, const ppo_config *settings, int steps,
                                      uint64_t seed, ppo_inspection *report);

/* 1: greedy play, ppo_evaluate(), earned far less than sampled play, ppo_evaluate_sampled(); sentence [160] says so.
   0: it did not, and the sentence is "". */
PPO_DEF int ppo_evaluation_check(const ppo_config *settings, const ppo_evaluation *greedy,
                                 const ppo_evaluation *sampled, char sentence[160]);
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

/* -- checking an environment: two copies of it play with the same random actions and must show the same, then the
   beginning is played again and must be what it was. Where it is not, a copy alone plays it twice, afresh: that tells
   chance from copies that share variables, and from a reset that forgets -- */

enum { PPO__TRACED = 1000 }; /* steps that are compared */

typedef struct ppo__check {
    const ppo_env *env;
    ppo_inspection *report;
    ppo__envs copy[2];
    int copies;                     /* that play now */
    uint64_t seed;                  /* of the environment; the actions have a stream of their own */
    ppo_rng rng;                    /* of the actions */
    ppo__signs signs;               /* of what is seen and earned */
    double *discounted;             /* [agents] returns so far */
    uint64_t trace[2][PPO__TRACED]; /* what was shown in each step */
    int differs;                    /* the step after which the two differed; 0: they did not */
    int ended;                      /* how often the episodes of all agents were over */
    int state_told;                 /* 1: what is stored was reported */
} ppo__check;

static PPO__PRINTF(3, 4) void ppo__find(ppo_inspection *report, const char *symptom, const char *format,
                                        ...) {
    va_list args;
    if (report->findings == PPO_MAX_FINDINGS) return;
    va_start(args, format);
    vsnprintf(report->finding[report->findings], sizeof report->finding[0], format, args);
    va_end(args);
    report->symptom[report->findings++] = symptom;
}

/* A random legal action of agent e, in all copies. */
static void ppo__check_choose(ppo__check *x, int e) {
    const ppo_space *space = &x->env->action_space;
    const int width = ppo__space_width(space);
    ppo__envs *envs = &x->copy[0];
    const unsigned char *mask = envs->own_mask ? envs->mask + ppo__at(e, ppo__space_outputs(space)) : NULL;
    ppo_action action = {0, NULL, NULL};
    if (ppo__kind(space)->continuous) {
        float *box = envs->box + ppo__at(e, width);
        const ppo_config *c = x->signs.config; /* a new policy reaches a whole box only by these */
        const float reach = c->squash || ppo__box_scales(space, c) ? FLT_MAX / 4 : 1;
        float low = ppo__max(space->low, -reach), high = ppo__min(space->high, reach);
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
    for (int k = 0; k < x->copies; ++k) x->copy[k].action[e] = action;
}

/* 1: a word of the state is an address near the environment's functions, like that of a static array. Small
   addresses do not count: they do not change from run to run, and could be numbers. */
static int ppo__is_static(const ppo_env *env, uintptr_t word) {
    const uintptr_t program = env->reset ? (uintptr_t)env->reset : (uintptr_t)env->reset_all;
    const uintptr_t distance = word > program ? word - program : program - word;
    return sizeof word == 8 && (uint64_t)program >> 40 && distance < (uintptr_t)1 << 28;
}

/* What a copy shows after a call, as one number. */
static uint64_t ppo__check_hash(const ppo__envs *envs) {
    uint64_t hash = ppo__fnv1a(0, envs->turn, (size_t)envs->agents);
    for (int e = 0; e < envs->agents; ++e) {
        const float reward = envs->outcome[e].reward + 0.0f; /* -0 is 0 */
        const char terminated = envs->outcome[e].terminated != 0;
        hash = ppo__fnv1a(ppo__fnv1a(hash, &reward, sizeof reward), &terminated, 1);
        if (envs->turn[e] == PPO__ACTS)
            hash = ppo__fnv1a(hash, ppo__obs(envs, e), (size_t)envs->env.obs_size * sizeof(float));
    }
    return hash;
}

/* Reports bytes of the state that differ between the copies after the same calls, or are an address. */
static void ppo__check_state(ppo__check *x) {
    const ppo__envs *a = &x->copy[0], *b = &x->copy[1];
    for (size_t i = 0; i < x->env->state_size && !x->env->open && !x->state_told; i += sizeof(void *)) {
        const size_t left = x->env->state_size - i, n = left < sizeof(void *) ? left : sizeof(void *);
        const int same = !memcmp(a->state + i, b->state + i, n);
        uintptr_t word = 0;
        memcpy(&word, a->state + i, n);
        if (same && !(n == sizeof word && ppo__is_static(x->env, word))) continue;
        ppo__find(
            x->report, same ? "state-address" : "state-differs",
            same
                ? "bytes %lu to %lu of the state are an address in the program: it is another one when the "
                  "program runs again, which no checkpoint knows. Keep an index, or the thing itself"
                : "bytes %lu to %lu of the state differ between two copies that did the same, as pointers, "
                  "numbers from rand() or holes of a struct copied whole do: no checkpoint brings them back. "
                  "Allocate in env.open, use indices, draw from rng",
            (unsigned long)i, (unsigned long)(i + n - 1));
        x->state_told = 1;
    }
}

/* Resets or steps all copies. Observations are NaN before the call, which shows those that it does not write.
   Returns 1 if the check ends. */
static int ppo__check_call(ppo__check *x, int reset) {
    const size_t size = ppo__obs_block(&x->copy[0]);
    for (int k = 0; k < x->copies; ++k) {
        ppo__envs *envs = &x->copy[k];
        float *own = ppo__own_obs(envs, 0);
        for (size_t i = 0; i < size && !k; ++i) own[i] = NAN;
        int stepped = 0;
        ppo_status status = reset ? ppo__env_reset(envs, 0) : ppo__env_step(envs, 0, 1, &stepped);
        for (size_t i = 0; i < size && !k && status == PPO_ERROR_NUMERIC; ++i)
            if (own[i] != own[i]) {
                ppo__find(x->report, "obs-unwritten", "%s does not write observation[%d], or it is NaN",
                          reset ? "reset" : "step", (int)(i % (size_t)x->env->obs_size));
                return 1;
            }
        if (!status) continue;
        ppo__find(x->report, "failed", "%.180s", ppo_last_error());
        return 1;
    }
    if (x->copies < 2) return 0;
    x->differs = ppo__check_hash(&x->copy[0]) != ppo__check_hash(&x->copy[1]);
    if (!x->differs) ppo__check_state(x);
    return x->differs;
}

/* Plays this number of steps with random actions, always the same ones, from the same first reset. judge: takes in
   what is seen and earned, and then lets the episode end, as the next play begins with a reset. Returns 1 if the
   check ends. */
static int ppo__check_play(ppo__check *x, int steps, uint64_t *trace, int judge) {
    ppo__envs *envs = &x->copy[0];
    const int agents = envs->agents;
    x->rng = ppo_rng_stream(x->seed, PPO_STREAM_ACTION, 0);
    for (int call = 0; call < 2; ++call) { /* the first reset of a copy may begin an episode anywhere */
        for (int k = 0; k < x->copies; ++k)
            x->copy[k].rng[0] = ppo_rng_stream(x->seed, PPO_STREAM_EVALUATE, 0);
        if (ppo__check_call(x, 1)) return 1;
    }
    const int after = judge ? PPO__TRACED : 0;
    for (int t = 0, over = 0; t < steps || (t < steps + after && x->ended && !over); ++t) {
        judge = judge && t < steps;
        for (int k = 0; k < x->copies && envs->own_mask; ++k)
            if (ppo__env_mask(&x->copy[k], 0)) {
                ppo__find(x->report, "failed", "%.180s", ppo_last_error());
                return 1;
            }
        for (int e = 0; e < agents; ++e) {
            if (envs->turn[e] != PPO__ACTS) continue;
            if (judge) ppo__see(&x->signs, ppo__obs(envs, e), 0);
            ppo__check_choose(x, e);
        }
        x->report->steps += judge;
        if (ppo__check_call(x, 0)) return 1;
        if (t < PPO__TRACED) trace[t] = ppo__check_hash(envs);
        over = ppo__env_is_over(envs, 0);
        for (int e = 0; e < agents; ++e) {
            const ppo_outcome *out = &envs->outcome[e];
            const int ends = envs->length[e] && (out->terminated || out->truncated || over);
            if (judge && envs->length[e]) {
                x->discounted[e] = x->discounted[e] * x->signs.config->gamma + (double)out->reward;
                ppo__see_reward(&x->signs, out->reward, ends);
                ppo__follow(&x->signs.target, 1 / x->signs.steps, x->discounted[e] * x->discounted[e]);
            }
            if (!ends) continue;
            x->report->episodes += judge;
            x->discounted[e] = 0;
            for (int k = 0; k < x->copies; ++k) ppo__agent_begins(&x->copy[k], e);
        }
        x->ended += over;
        if (over && ppo__check_call(x, 1)) return 1;
        if (over && t < PPO__TRACED) trace[t] += ppo__check_hash(envs);
    }
    return 0;
}

static ppo_status ppo__check_open(ppo__check *x, int copies) {
    ppo_status status = PPO_OK;
    for (int k = 0; k < 2; ++k) ppo__envs_free(&x->copy[k]);
    memset(x->copy, 0, sizeof x->copy);
    x->copies = copies;
    for (int k = 0; k < copies && !status; ++k) {
        ppo_env env = *x->env;
        if (k) env.copies = 0; /* it does not close the first one */
        status = ppo__envs_open(&x->copy[k], &env, NULL, 1, x->seed, PPO_STREAM_EVALUATE, 0);
    }
    return status;
}

/* The first step that differs between the traces; 0: none does. */
static int ppo__check_traces(const ppo__check *x, int steps) {
    for (int t = 0; t < steps; ++t)
        if (x->trace[0][t] != x->trace[1][t]) return t + 1;
    return 0;
}

/* Says why two copies differed, or the second play from the first. */
static ppo_status ppo__check_alone(ppo__check *x, int played, int steps) {
    const int differs = x->differs, at = differs ? x->report->steps : ppo__check_traces(x, steps);
    char when[32] = "in reset()";
    ppo_status status = PPO_OK;
    if (at) snprintf(when, sizeof when, "after %d steps", at);
    for (int k = 0; k < 2 && !status; ++k) {
        memset(x->trace[k], 0, sizeof x->trace[k]);
        status = ppo__check_open(x, 1);
        if (!status) ppo__check_play(x, steps, x->trace[k], 0);
    }
    if (status) return status;
    if (ppo__check_traces(x, steps))
        ppo__find(
            x->report, "copies-random",
            "%s two copies that did the same differ, and one alone from itself: the environment depends on "
            "more than its state, such as rand() or static variables. No policy can foresee it, no run can "
            "be "
            "resumed",
            when);
    else if (differs)
        ppo__find(x->report, "copies-shared",
                  "two copies differ %s, but one alone repeats itself: they share static variables "
                  "and play one game, of which training and evaluation see a mixture. Keep all in the state, "
                  "or set env.copies = 1",
                  when);
    else
        ppo__find(
            x->report, "reset-forgets",
            "played again after %d others, the first episodes differ at step %d: reset() leaves something "
            "behind, so training earns returns that no fresh game gives",
            played, at);
    return PPO_OK;
}

PPO_DEF ppo_status ppo_env_check_with(const ppo_env *env, const ppo_config *settings, int steps,
                                      uint64_t seed, ppo_inspection *report) {
    const ppo_config usual = ppo_config_default();
    ppo_progress none;
    ppo__check x;
    if (!PPO__GIVEN("ppo_env_check", report)) return PPO_ERROR_ARGUMENT;
    memset(report, 0, sizeof *report);
    ppo_status status = ppo__validate_env(env);
    if (!status && steps <= 0) status = ppo__refuse("ppo_env_check: steps is %d, must be above 0", steps);
    if (status) return status;
    memset(&none, 0, sizeof none);
    memset(&x, 0, sizeof x);
    x.env = x.signs.env = env;
    x.report = report;
    x.seed = seed;
    x.signs.config = settings ? settings : &usual;
    x.signs.progress = &none;
    x.signs.looked = 1;
    x.signs.feature = (ppo__feature *)ppo__alloc((size_t)env->obs_size * sizeof(ppo__feature));
    x.discounted = (double *)ppo__alloc((size_t)ppo__agents(env) * sizeof(double));
    status =
        x.signs.feature && x.discounted ? ppo__check_open(&x, env->copies == 1 ? 1 : 2) : PPO_ERROR_MEMORY;
    const int again = ppo__min_int(steps, PPO__TRACED);
    int ended = status || ppo__check_play(&x, steps, x.trace[0], 1);
    const int episodes = report->episodes;
    if (!ended) ended = ppo__check_play(&x, again, x.trace[1], 0);
    if (x.differs || (!ended && ppo__check_traces(&x, again))) status = ppo__check_alone(&x, episodes, again);
    for (int row = 0; !ended && !status;) {
        const ppo__symptom found = ppo__diagnose(&x.signs, row);
        if (found.row < 0) break;
        ppo__find(report, found.name, "%s", found.sentence);
        row = found.row + 1;
    }
    if (!ended && episodes && !x.ended && !env->max_steps)
        ppo__find(report, "world-endless",
                  "the world never ended in %d random steps, as its agents join again: set env.max_steps",
                  steps);
    for (int k = 0; k < 2; ++k) ppo__envs_free(&x.copy[k]);
    ppo__free(x.signs.feature);
    ppo__free(x.discounted);
    return status;
}

PPO_DEF ppo_status ppo_env_check(const ppo_env *env, int steps, uint64_t seed, ppo_inspection *report) {
    return ppo_env_check_with(env, NULL, steps, seed, report);
}

/* -- checking an evaluation -- */

PPO_DEF int ppo_evaluation_check(const ppo_config *settings, const ppo_evaluation *greedy,
                                 const ppo_evaluation *sampled, char sentence[160]) {
    if (sentence) *sentence = 0;
    if (!settings || !greedy || !sampled || !sentence || greedy->status || sampled->status) return 0;
    const double a = greedy->mean_return, b = sampled->mean_return;
    const double error = sqrt((double)greedy->std_return * greedy->std_return / greedy->episodes +
                              (double)sampled->std_return * sampled->std_return / sampled->episodes);
    if (!(b > a + 3 * error && b > a + 0.1 * fmax(fabs(a), fabs(b)))) return 0;
    snprintf(sentence, 160, "greedy play earns %.4g, sampled play %.4g", a, b);
    ppo__advise(settings, "ppo_act() with rng|higher total_steps|lower entropy_coef", sentence, 160);
    return 1;
}

#endif

PPO__WARNINGS_BACK

#endif
