/* ppo_export.h - a policy of ppo.h as C source: a header for firmware, without any dependency

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_export.h"            // after ppo.h; other files may include it for its declarations

       ppo_export_c(agent, "policy", "policy.h");             // writes policy.h

   In the firmware, which has neither ppo.h nor a C library:

       #include "policy.h"
       int action = policy_predict(obs);

   Copy this file beside ppo.h. In the folder examples/, where it is in companions/, programs include it from
   there: #include "companions/ppo_export.h".

WHAT IS WRITTEN

   Constant arrays, and functions that are static inline and need no other, in C99 or C++11:

       void NAME_forward(const float *obs, float *output)     logits, or the mean before the box

       int  NAME_predict(const float *obs)                    discrete: the most likely action
       void NAME_predict(const float *obs, int *choices)      multi-discrete, multi-binary
       void NAME_predict(const float *obs, float *action)     box: within [low, high]

       int  NAME_sample(const float *obs, float uniform)      the same, sampled
       void NAME_sample(const float *obs, const float *uniform, int *choices)
       void NAME_sample(const float *obs, const float *uniform, float *action)

       int  NAME_predict_masked(const float *obs, const unsigned char *mask)      and so on: where some of the
       int  NAME_sample_masked(const float *obs, const unsigned char *mask, ...)  choices are illegal

   obs [NAME_OBS] is what the actor sees of the environment's observation, not normalized. A recurrent
   policy's functions have a second parameter, NAME_memory *state [NAME_STATE] (floats, or 16 bits): set it to zeros
   where an episode begins. uniform [NAME_UNIFORMS] are independent random numbers, 0 <= u < 1, from a generator of yours; those of
   ppo_rng_uniform() give what ppo_act() samples. mask has a byte for each logit, 0 where the option is illegal; a
   choice for which it leaves nothing is -1. The results agree with ppo_act() up to rounding, but obs is not checked:
   NaN there gives NaN.

IN 8 BITS

   A policy of 64-64 for CartPole-v1 takes some 20 KB as floats. ppo_export_c_int8() writes its weights as whole
   numbers from -127 to 127, and two numbers for each unit of a layer: a third of the size, with the same functions.
   They compute with whole numbers of 8, 16 and 32 bits, and 64 once for each unit; float is left for the observation,
   the outputs, and sampling. So a chip without floating point needs a tenth of the instructions or less. Each layer's
   numbers keep 15 bits, wherever their point is: observations may be a thousand times as large as those that were met.

   Each weight is rounded up or down, whichever brings its unit's sum closer to the exact one over
   2048 observations (fewer if they are large) that the policy meets as it plays env, in turn an episode with
   the most likely actions and one with sampled ones (after Lybrand and Saab 2021). At least 99.7 % of the
   actions of policies of 64-64 stayed the same that way. Weights of convolutions are rounded to the nearest.
   A program with a loop of its own has no env: it keeps some observations of its characters, and gives them to
   ppo_export_c_int8_from(). Without either the observations are random, normal numbers with the agent's
   statistics, or N(0, 1), and fewer actions stay the same.

ON CHIPS

   A header says in its first lines how many bytes its arrays take on the stack. All constants are NAME_CONST, which
   is const; for avr-gcc (in C with its extensions, not C++) const __flash, which keeps them out of the little
   memory. Define it before the header to put them elsewhere.

   License: that of ppo.h. */
#ifndef PPO_EXPORT_H
#define PPO_EXPORT_H
#ifndef PPO_H
#error "include ppo.h before ppo_export.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_export.h belongs to version 0.3 of ppo.h"
#endif

#ifndef PPO_NO_CONTROL
#ifdef __cplusplus
extern "C" {
#endif

/* Writes a policy as a C header. name: 1 to 60 letters, digits and _, a letter first. Folders of the path that
   are missing are made. Errors: a number is not finite, a parameter that is not of the library's network. */
PPO_DEF ppo_status ppo_export_c(const ppo_agent *agent, const char *name, const char *path);

/* The same with weights of 8 bits, rounded by what the policy meets in env; NULL: by random observations.
   Errors: also those of ppo_play(). */
PPO_DEF ppo_status ppo_export_c_int8(const ppo_agent *agent, const ppo_env *env, const char *name,
                                     const char *path);

/* The same, rounded by the n observations of obs [n][numbers that the actor sees], as the program shows them to
   ppo_trainer_observe() or ppo_act(), in the order in which they were met; some 2000 of several episodes serve
   best. Of more, 2048 are used: every k-th, or for a recurrent policy the first, as one episode. What
   ppo_trainer_rollout() holds will do where the policy does not normalize, and byte_scale is 0. Errors: also n below 1, a number that is
   not finite. */
PPO_DEF ppo_status ppo_export_c_int8_from(const ppo_agent *agent, const float *obs, int n, const char *name,
                                          const char *path);

#ifdef __cplusplus
}
#endif
#endif
#endif

/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__EXPORT_IMPLEMENTED)
#define PPO__EXPORT_IMPLEMENTED
#ifndef PPO_NO_CONTROL

PPO__WARNINGS_OFF

/* A policy as C source. What is the same in all is text with "@" for the policy's name; the arrays and one line
   for each layer are printed. tanh is a polynomial below 0.26; tanh(2 x) = 2 tanh(x) / (1 + tanh(x)^2) takes it
   from there.

   To export a layer: ppo__export_uses(), and its call in ppo__export_forward(), where `widest` must include its
   width, and only the core may write into `state`. */

typedef enum ppo__int8_kind {
    PPO__INT8_LINEAR,
    PPO__INT8_NORM,
    PPO__INT8_CONV, /* without a weight: max pooling */
    PPO__INT8_CORE_INPUT,
    PPO__INT8_CORE_STATE
} ppo__int8_kind;

/* A layer that computes with whole numbers. */
typedef struct ppo__int8_layer {
    ppo__int8_kind kind;
    int index; /* of its part; -1: the part is one layer */
    const char *part;
    const ppo_tensor *weight, *bias;
    ppo_tensor *rounded; /* the weight that 8 bits can hold; NULL: a norm, or max pooling */
    int activation;
    const float *row; /* factors of the weight's rows; NULL: 1 */
    int point;        /* its results are whole numbers times 2^-point */
    int shift;        /* the scales of its units are whole numbers times 2^-shift */
    int bits;         /* its inputs are below 2^bits, so that no sum leaves 32 bits */
} ppo__int8_layer;

typedef struct ppo__export {
    const ppo_agent *agent;
    const char *name;
    ppo_agent *rounded; /* the agent with weights that 8 bits can hold; NULL: they stay float */
    ppo_tape *tape;     /* for its making */
    ppo__int8_layer *layer;
    int layers;
    const float
        *row; /* sizes of the observation's numbers, or of those beside a picture; NULL: they have one size */
    int point; /* of the numbers before the first layer */
    int size;  /* whole numbers after the convolutions are below 2^size, and so are those beside a picture */
    FILE *out;
} ppo__export;

/* Prints source text, with the policy's name for each "@". */
static PPO__PRINTF(2, 3) void ppo__export_text(const ppo__export *x, const char *format, ...) {
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (const char *c = text; *c; ++c)
        if (*c == '@') fputs(x->name, x->out);
        else fputc(*c, x->out);
}

typedef struct ppo__constant {
    char text[32];
} ppo__constant;

/* A float as C spells it, in nine digits, which read back as the same float. */
static ppo__constant ppo__c_float(double number) {
    ppo__constant constant;
    snprintf(constant.text, sizeof constant.text, "%.8e", number);
    strcat(ppo__with_point(constant.text), "f");
    return constant;
}

/* "actor.0.weight" becomes NAME_actor_0_weight. */
static ppo_status ppo__export_floats(const ppo__export *x, const char *array, const float *data, size_t n) {
    ppo__export_text(x, "static @_CONST float @_%s[%lu] = {", array, (unsigned long)n);
    for (size_t i = 0; i < n; ++i) {
        if (!ppo__finite(data[i]))
            return ppo_fail(PPO_ERROR_NUMERIC, "ppo_export_c: a number of %s is not finite", array);
        fprintf(x->out, "%s%s,", i % 6 == 0 ? "\n    " : " ", ppo__c_float((double)data[i]).text);
    }
    ppo__export_text(x, "\n};\n\n");
    return PPO_OK;
}

/* The factor of each column, whose weights, each times row[i], are whole numbers from -127 to 127 times that; not
   finite if a weight is not, 0 if all are 0. 126.99, so that no rounding error leads beyond 127. */
static float *ppo__int8_scale(ppo_tape *tape, const ppo_tensor *w, const float *row) {
    float *scale = ppo_tape_alloc(tape, (size_t)w->cols);
    for (int j = 0; j < w->cols && scale; ++j) {
        float most = 0;
        for (int i = 0; i < w->rows; ++i) {
            const float size = fabsf(w->data[ppo__at(i, w->cols) + j]) * (row ? row[i] : 1);
            if (!(size <= most) && ppo__finite(most)) most = size;
        }
        scale[j] = most / 126.99f;
    }
    return scale;
}

/* Rounds each weight up or down, so that its unit's sums over the rows of y (n, rows) come closest to those of the
   exact weights over x: it makes up for the error of the weights before it and, the second time, of all others.
   x, y NULL: rounds to the nearest. */
static void ppo__int8_round(ppo_tape *tape, const ppo__int8_layer *layer, ppo_tensor *x, ppo_tensor *y) {
    const ppo_tensor *w = layer->weight;
    const int in = w->rows, out = w->cols, n = x && y ? x->rows : 0;
    const float *scale = ppo__int8_scale(tape, w, layer->row);
    float *step = ppo_tape_alloc(tape, (size_t)out);
    ppo_tensor *error =
        n ? ppo_tape_matmul(tape, ppo_tape_sub(tape, x, y), (ppo_tensor *)w) : NULL; /* (n, cols) */
    for (int k = 0; k < 2 * in && !ppo_tape_status(tape); ++k) {
        const int i = k % in;
        const float *exact = w->data + ppo__at(i, out);
        float *now = layer->rounded->data + ppo__at(i, out), square = 0;
        for (int t = 0; t < n; ++t) square += y->data[ppo__at(t, in) + i] * y->data[ppo__at(t, in) + i];
        if (n) ppo__k()->gemm(1, out, n, y->data + i, 0, in, error->data, out, NULL, 0, step, out);
        for (int j = 0; j < out; ++j) {
            const float before = now[j], best = before + (square > 0 ? step[j] / square : 0);
            const float one = scale[j] > 0 ? scale[j] / (layer->row ? layer->row[i] : 1) : 1;
            now[j] = one * ppo__clamp(roundf(best / one), floorf(exact[j] / one), ceilf(exact[j] / one));
            step[j] = before - now[j];
        }
        if (n) ppo__k()->gemm(n, out, 1, y->data + i, in, 0, step, out, error->data, out, error->data, out);
    }
}

enum { PPO__MET_ROWS = 2048, PPO__MET_PICTURES = 64, PPO__MET_NUMBERS = 1 << 24 };

/* Observations in the order in which a policy met them. */
typedef struct ppo__met {
    int rows, room, size;
    float *obs;           /* [room][size] */
    unsigned char *start; /* [room] 1: an episode begins */
    int *count;           /* [room] 1: it is one sequence */
} ppo__met;

static int ppo__meet(const ppo_frame *frame, void *user) {
    ppo__met *met = (ppo__met *)user;
    memcpy(met->obs + ppo__at(met->rows, met->size), frame->obs, (size_t)met->size * sizeof(float));
    met->start[met->rows] = frame->step == 0;
    return ++met->rows == met->room;
}

static float ppo__largest(const ppo_tensor *x) {
    float most = 0;
    for (size_t i = 0; x && i < ppo__size(x); ++i) most = fmaxf(most, fabsf(x->data[i]));
    return most;
}

/* The least k for which |x| < 2^k; 0 for 0. */
static int ppo__exponent(float x) {
    int k;
    frexpf(ppo__finite(x) ? x : FLT_MAX, &k);
    return k;
}

/* The power of 2 above each number's size. */
static const float *ppo__int8_rows(ppo_tape *tape, const ppo_tensor *x) {
    float *row = x ? ppo_tape_alloc(tape, (size_t)x->cols) : NULL;
    for (int j = 0; row && j < x->cols; ++j) {
        float most = 0;
        for (int i = 0; i < x->rows; ++i) most = fmaxf(most, fabsf(x->data[ppo__at(i, x->cols) + j]));
        row[j] = ldexpf(1, ppo__exponent(most));
    }
    return row;
}

/* Whole numbers after a table have 14 bits behind the point; those of other layers are below 2^20 where the largest
   result that was met is `range`, which leaves room for others a thousand times as large. */
enum { PPO__INT8_POINT = 14, PPO__INT8_MET = 20 };

static ppo__int8_layer ppo__int8_layer_of(ppo__int8_kind kind, const char *part, int index,
                                          const ppo_tensor *weight, const ppo_tensor *bias, int activation) {
    ppo__int8_layer layer;
    memset(&layer, 0, sizeof layer);
    layer.kind = kind, layer.part = part, layer.index = index;
    layer.weight = weight, layer.bias = bias, layer.activation = activation;
    layer.bits = 15;
    return layer;
}

static void ppo__int8_add(ppo__export *x, ppo__int8_layer layer, float range) {
    const int line = layer.activation == PPO_IDENTITY || layer.activation == PPO_RELU;
    const int core = layer.kind == PPO__INT8_CORE_INPUT || layer.kind == PPO__INT8_CORE_STATE;
    if (layer.bias) range = fmaxf(range, ppo__largest(layer.bias));
    layer.point = line && !core ? PPO__INT8_MET - ppo__exponent(range) : PPO__INT8_POINT;
    if (!layer.weight) layer.point = x->layers ? x->layer[x->layers - 1].point : x->point;
    if (layer.kind == PPO__INT8_CONV) x->size = layer.point + ppo__exponent(range);
    x->layer[x->layers++] = layer;
}

/* Convolutions over pictures; their weights are rounded to the nearest. */
static void ppo__int8_convolutions(ppo__export *x, const ppo_actor_critic *const m[2], ppo_inputs inputs) {
    const ppo_conv *conv = &m[0]->conv;
    inputs.rows = ppo__min_int(inputs.rows, PPO__MET_PICTURES);
    ppo_tensor *pictures =
        ppo__obs_columns(x->tape, &inputs, m[0]->obs_size, 0, ppo__picture_size(conv->shape[0]));
    if (!x->agent->obs_norm.size) x->point = PPO__INT8_MET - ppo__exponent(ppo__largest(pictures));
    for (int k = 0; k < conv->layers; ++k) {
        ppo_conv up_to = *conv;
        ppo__int8_layer layer = ppo__int8_layer_of(PPO__INT8_CONV, "conv", k, conv->weight[k], conv->bias[k],
                                                   conv->weight[k] ? (int)conv->activation : PPO_IDENTITY);
        layer.rounded = m[1]->conv.weight[k];
        if (layer.weight) ppo__int8_round(x->tape, &layer, NULL, NULL);
        up_to.layers = k + 1;
        ppo__int8_add(x, layer, ppo__largest(ppo__conv.forward(x->tape, &up_to, pictures)));
    }
}

/* A core's two weights: y are its inputs, and then its results. */
static void ppo__int8_core(ppo__export *x, const ppo_actor_critic *const m[2], const ppo_sequences *sequences,
                           const float *row, ppo_tensor *y[2]) {
    const ppo_gru *core = &m[0]->core;
    ppo_tensor *h[2];
    ppo__int8_layer input = ppo__int8_layer_of(PPO__INT8_CORE_INPUT, "core_input", -1, core->input_weight,
                                               core->input_bias, PPO_IDENTITY);
    ppo__int8_layer state = ppo__int8_layer_of(PPO__INT8_CORE_STATE, "core_state", -1, core->state_weight,
                                               core->state_bias, PPO_IDENTITY);
    input.rounded = m[1]->core.input_weight, input.row = row;
    state.rounded = m[1]->core.state_weight;
    ppo__int8_round(x->tape, &input, y[0], y[1]);
    for (int s = 0; s < 2; ++s) h[s] = ppo__recurrent.forward(x->tape, &m[s]->core, y[s], sequences);
    ppo__int8_round(x->tape, &state, h[0], h[1]);
    for (int s = 0; s < 2; ++s) y[s] = ppo__recurrent.forward(x->tape, &m[s]->core, y[s], sequences);
    ppo__int8_add(x, input, 0);
    ppo__int8_add(x, state, 0);
}

/* Layer k of a part: y are its inputs, and then its results. */
static void ppo__int8_linear_layer(ppo__export *x, const char *part, const ppo_mlp *const mlp[2], int k,
                                   const float *row, ppo_tensor *y[2]) {
    const int activation = k == mlp[0]->layers - 1 ? mlp[0]->last_activation : mlp[0]->hidden_activation;
    const ppo_tensor *norm = mlp[0]->norm_weight[k];
    ppo__int8_layer layer = ppo__int8_layer_of(PPO__INT8_LINEAR, part, k, mlp[0]->weight[k], mlp[0]->bias[k],
                                               norm ? (int)PPO_IDENTITY : activation);
    layer.rounded = mlp[1]->weight[k], layer.row = row;
    ppo__int8_round(x->tape, &layer, y[0], y[1]);
    if (norm) {
        const ppo_tensor *sums =
            ppo_tape_linear(x->tape, y[0], mlp[0]->weight[k], mlp[0]->bias[k], PPO_IDENTITY);
        ppo__int8_add(x, layer, ppo__largest(sums));
        layer = ppo__int8_layer_of(PPO__INT8_NORM, part, k, norm, mlp[0]->norm_bias[k], activation);
    }
    for (int s = 0; s < 2; ++s) y[s] = ppo__mlp_layers(x->tape, mlp[s], y[s], k, k + 1);
    ppo__int8_add(x, layer, ppo__largest(y[0]));
}

/* The factors of the first layer's rows, which bring its inputs to one size; NULL: they have one. */
static const float *ppo__int8_first_rows(ppo__export *x, const ppo_inputs *inputs) {
    const ppo_actor_critic *model = &x->agent->model;
    const int seen = model->actor_obs, beside = ppo__beside_picture(model);
    const int picture = model->conv.layers ? ppo__picture_size(model->conv.shape[model->conv.layers]) : 0;
    const int from = model->conv.layers ? seen - beside : 0;
    if ((model->conv.layers && !beside) || (!model->conv.layers && x->agent->obs_norm.size)) return NULL;
    x->row = ppo__int8_rows(x->tape, ppo__obs_columns(x->tape, inputs, model->obs_size, from, seen));
    float *row = x->row && beside ? ppo_tape_alloc(x->tape, ppo__at(picture + beside, 1)) : NULL;
    if (!row) return x->row;
    for (int j = 0; j < picture; ++j) row[j] = 1;
    for (int j = 0; j < beside; ++j) /* as large as the picture's numbers */
        row[picture + j] = ldexpf(x->row[j], x->layer[x->layers - 1].point - x->size);
    return row;
}

/* Rounds the weights of m[1], at first a copy of m[0], and lists the layers. y[0] and y[1] are a layer's inputs in
   either. */
static void ppo__int8_layers(ppo__export *x, const ppo_actor_critic *const m[2], const ppo__met *met) {
    const ppo_inputs inputs = {met->rows, met->obs, NULL, {met->rows, met->count, NULL, met->start},
                               NULL,      0,        0};
    const ppo_mlp *const trunk[2] = {&m[0]->trunk, &m[1]->trunk}, *const actor[2] = {&m[0]->actor,
                                                                                     &m[1]->actor};
    ppo_tensor *y[2];
    x->point = PPO__INT8_MET;
    if (x->agent->obs_norm.size) x->point = ppo__min_int(x->point, 30 - ppo__exponent(x->agent->clip_obs));
    if (m[0]->conv.layers) ppo__int8_convolutions(x, m, inputs);
    const float *row = ppo__int8_first_rows(x, &inputs);
    for (int s = 0; s < 2; ++s) y[s] = ppo__actor_inputs(x->tape, m[s], &inputs);
    for (int k = 0; k < trunk[0]->layers; ++k, row = NULL)
        ppo__int8_linear_layer(x, "trunk", trunk, k, row, y);
    if (m[0]->core.width) ppo__int8_core(x, m, &inputs.sequences, row, y), row = NULL;
    for (int k = 0; k < actor[0]->layers; ++k, row = NULL)
        ppo__int8_linear_layer(x, "actor", actor, k, row, y);
}

/* What an 8-bit policy is rounded by: an environment, or n observations; NULL and 0: neither. */
typedef struct ppo__rounding {
    const ppo_env *env;
    const float *obs; /* [n][actor_obs] */
    int n;
} ppo__rounding;

/* Takes the observations that the program has kept: what only the critic sees is 0. */
static ppo_status ppo__meet_again(ppo__met *met, const ppo_actor_critic *model, const ppo__rounding *by) {
    const int size = model->actor_obs;
    const double apart = model->core.width || by->n < met->room ? 1 : (double)by->n / met->room;
    if (by->n < met->room) met->room = by->n;
    memset(met->obs, 0, ppo__at(met->room, met->size) * sizeof(float));
    for (; met->rows < met->room; ++met->rows) {
        const int from = (int)(met->rows * apart);
        const float *obs = by->obs + ppo__at(from, size);
        ppo_status status = ppo__check_numbers(obs, size, "observation", NULL, 0, 0);
        if (status) return status;
        memcpy(met->obs + ppo__at(met->rows, met->size), obs, (size_t)size * sizeof(float));
        met->start[met->rows] = met->rows == 0;
    }
    return PPO_OK;
}

/* Makes x->rounded, by what the agent meets in an environment, or has met. */
static ppo_status ppo__int8_agent(ppo__export *x, const ppo__rounding *by) {
    const ppo_env *env = by->env;
    const ppo_agent *agent = x->agent;
    const int size = agent->model.obs_size;
    ppo_rng rng = ppo_rng_stream(0, PPO_STREAM_EVALUATE, 0);
    ppo__met met = {0, ppo__min_int(PPO__MET_ROWS, 1 + PPO__MET_NUMBERS / size), size, NULL, NULL, NULL};
    ppo_status status = ppo_agent_copy(agent, &x->rounded);
    if (!status) status = ppo_tape_create(&x->tape);
    if (status) return status;
    const ppo_actor_critic *const models[2] = {&agent->model, &x->rounded->model};
    ppo_tape_record(x->tape, 0);
    met.obs = ppo_tape_alloc(x->tape, ppo__at(met.room, size));
    met.start = (unsigned char *)ppo__tape_take(x->tape, (size_t)met.room, 1);
    met.count = (int *)ppo__tape_take(x->tape, (size_t)met.room, sizeof(int));
    status = ppo_tape_status(x->tape);
    for (uint64_t seed = 0; env && met.rows < met.room && !status; ++seed)
        status = ppo_play(x->rounded, env, seed, seed % 2, ppo__meet, &met, NULL);
    if (by->obs && !status) status = ppo__meet_again(&met, &agent->model, by);
    if (status) return status;
    if (met.rows && agent->obs_norm.size)
        ppo_normalize(&agent->obs_norm, met.obs, met.rows, agent->clip_obs, met.obs);
    for (; met.rows < met.room; ++met.rows) { /* there is neither */
        for (int j = 0; j < size; ++j) met.obs[ppo__at(met.rows, size) + j] = ppo_rng_normal(&rng);
        met.start[met.rows] = met.rows == 0;
    }
    for (int i = 0; i < met.room; ++i) met.count[i] = 1;
    x->layer =
        (ppo__int8_layer *)ppo__tape_take(x->tape,
                                          (size_t)(agent->model.conv.layers + 2 * agent->model.trunk.layers +
                                                   2 * agent->model.actor.layers + 2),
                                          sizeof *x->layer);
    if (x->layer) ppo__int8_layers(x, models, &met);
    return ppo_tape_status(x->tape);
}

/* A layer's numbers: the weights of each unit; its scale, of which the point is at `shift`; and its bias, whose point
   is that of the results. Of a norm only scales and biases. */
static ppo_status ppo__int8_array(const ppo__export *x, ppo__int8_layer *layer) {
    const ppo_tensor *w = layer->weight, *b = layer->bias;
    const int norm = layer->kind == PPO__INT8_NORM, in = norm ? 0 : w->rows;
    const float *scale = norm ? w->data : ppo__int8_scale(x->tape, w, layer->row);
    char name[48], index[16] = "";
    float most = 0;
    int64_t largest = 0;
    if (!scale) return ppo_tape_status(x->tape);
    if (layer->index >= 0) snprintf(index, sizeof index, "_%d", layer->index);
    snprintf(name, sizeof name, "%s%s%s", layer->part, index, norm ? "_norm" : "");
    for (int j = 0; j < w->cols; ++j) {
        if (!ppo__finite(scale[j]) || !ppo__finite(b->data[j]))
            return ppo_fail(PPO_ERROR_NUMERIC, "ppo_export_c_int8: a number of %s is not finite", name);
        most = fmaxf(most, fabsf(scale[j]));
    }
    layer->shift = 30 - ppo__exponent(most);
    if (!norm)
        ppo__export_text(x, "static @_CONST int8_t @_%s_weight[%lu] = {", name, (unsigned long)ppo__size(w));
    for (int j = 0, at = 0; j < w->cols; ++j) {
        int64_t sum = 0;
        for (int i = 0; i < in; ++i, ++at) {
            const float exact =
                layer->rounded->data[ppo__at(i, w->cols) + j] * (layer->row ? layer->row[i] : 1);
            const int whole = scale[j] > 0 ? (int)lroundf(exact / scale[j]) : 0;
            fprintf(x->out, "%s%d,", at % 20 == 0 ? "\n    " : " ", whole);
            sum += abs(whole);
        }
        largest = sum > largest ? sum : largest;
    }
    while (largest << layer->bits > INT32_MAX) --layer->bits;
    if (!norm) ppo__export_text(x, "\n};\n");
    if (layer->kind == PPO__INT8_CORE_STATE && largest << PPO__INT8_POINT > INT32_MAX)
        return ppo__refuse("ppo_export_c_int8: a memory of %d numbers is too wide", in);
    for (int k = 0; k < 2; ++k) {
        ppo__export_text(x, "static @_CONST int32_t @_%s_%s[%d] = {", name, k ? "bias" : "scale", w->cols);
        for (int j = 0; j < w->cols; ++j) {
            const double whole = ldexp((double)(k ? b->data[j] : scale[j]), k ? layer->point : layer->shift);
            fprintf(x->out, "%s%ld,", j % 10 == 0 ? "\n    " : " ",
                    lround(fmax(fmin(whole, 1073741823), -1073741823)));
        }
        ppo__export_text(x, "\n};\n");
    }
    if (norm)
        ppo__export_text(x, "static @_CONST @_weights @_%s = {0, @_%s_scale, @_%s_bias};\n\n", name, name,
                         name);
    else
        ppo__export_text(x, "static @_CONST @_weights @_%s = {@_%s_weight, @_%s_scale, @_%s_bias};\n\n", name,
                         name, name, name);
    return PPO_OK;
}

/* 1: ppo__export_forward() uses this weight or bias. */
static int ppo__export_uses(const ppo_actor_critic *model, const ppo_tensor *tensor) {
    const ppo_gru *core = &model->core;
    for (int k = 0; k < PPO_MAX_LAYERS; ++k)
        if (tensor == model->conv.weight[k] || tensor == model->conv.bias[k] ||
            tensor == model->trunk.weight[k] || tensor == model->trunk.bias[k] ||
            tensor == model->trunk.norm_weight[k] || tensor == model->trunk.norm_bias[k] ||
            tensor == model->actor.weight[k] || tensor == model->actor.bias[k] ||
            tensor == model->actor.norm_weight[k] || tensor == model->actor.norm_bias[k])
            return 1;
    return tensor == core->input_weight || tensor == core->input_bias || tensor == core->state_weight ||
           tensor == core->state_bias;
}

/* Of a box the standard deviations; of gsde the squares of those that belong to each feature. */
static ppo_status ppo__export_std(const ppo__export *x) {
    const ppo_actor_critic *model = &x->agent->model;
    const size_t n = model->log_std ? ppo__size(model->log_std) : 0;
    float *std = n ? (float *)ppo__alloc(n * sizeof(float)) : NULL;
    if (!n) return PPO_OK;
    if (!std) return PPO_ERROR_MEMORY;
    for (size_t j = 0; j < n; ++j) std[j] = expf(ppo__log_std_at(model, j) * (model->gsde ? 2.0f : 1.0f));
    ppo_status status = ppo__export_floats(x, model->gsde ? "variance" : "std", std, n);
    ppo__free(std);
    return status;
}

/* Weights; of the observations' statistics the mean, what rounding it to a float leaves out, the factor. */
static ppo_status ppo__export_arrays(const ppo__export *x) {
    const ppo_params *params = x->agent->model.params;
    const ppo_normalizer *norm = &x->agent->obs_norm;
    const char *const names[] = {"obs_mean", "obs_rest", "obs_scale"};
    size_t n = norm->size ? (size_t)x->agent->model.actor_obs : 0;
    ppo_status status = PPO_OK;
    for (int i = 0; i < params->tensor_count && !status; ++i) {
        const ppo_tensor *tensor = params->tensors[i];
        char name[128];
        snprintf(name, sizeof name, "%s", params->names[i]);
        if (strncmp(name, "critic.", 7) == 0 || strcmp(name, "actor.log_std") == 0) continue;
        if (!ppo__export_uses(&x->agent->model, tensor))
            return ppo__refuse("ppo_export_c: does not know the parameter \"%.100s\"", name);
        for (char *c = name; *c; ++c) *c = *c == '.' ? '_' : *c;
        if (!x->rounded) status = ppo__export_floats(x, name, tensor->data, ppo__size(tensor));
    }
    for (int k = 0; k < x->layers && !status; ++k)
        if (x->layer[k].weight) status = ppo__int8_array(x, &x->layer[k]);
    float *numbers = (float *)ppo__alloc(n * sizeof(float));
    if (!numbers) return PPO_ERROR_MEMORY;
    for (int k = 0; k < 3 && n && !status; ++k) {
        for (size_t j = 0; j < n; ++j) {
            float mean = fabs(norm->mean[j]) <= FLT_MAX ? (float)norm->mean[j] : INFINITY;
            float scale = (float)fmin(ppo__inv_std(norm->var[j]), FLT_MAX);
            numbers[j] = k == 0 ? mean : k == 1 ? (float)(norm->mean[j] - (double)mean) : scale;
        }
        status = ppo__export_floats(x, names[k], numbers, n);
    }
    if (x->row && !status) {
        const int beside = ppo__beside_picture(&x->agent->model),
                  count = beside ? beside : (int)x->agent->model.actor_obs;
        float *factor = ppo_tape_alloc(x->tape, (size_t)count);
        for (int j = 0; j < count && factor; ++j)
            factor[j] = ldexpf(1 / x->row[j], beside ? x->size : PPO__INT8_MET);
        status =
            factor ? ppo__export_floats(x, "obs_point", factor, (size_t)count) : ppo_tape_status(x->tape);
    }
    ppo__free(numbers);
    return status ? status : ppo__export_std(x);
}

static const char ppo__export_tanh[] =
    "static inline float @_tanh(float x) {\n"
    "    int   doublings = 0;\n"
    "    float square, t;\n"
    "    if (x > 9.0f) return 1.0f;\n"
    "    if (x < -9.0f) return -1.0f;\n"
    "    for (; x > 0.26f || x < -0.26f; ++doublings) x *= 0.5f;\n"
    "    square = x * x;\n"
    "    t = x + x * square * (-0.333332151f + square * (0.133226871f - 0.0512248948f * square));\n"
    "    for (; doublings > 0; --doublings) t = 2.0f * t / (1.0f + t * t);\n"
    "    return t;\n"
    "}\n\n";

static const char ppo__export_activate[] =
    "/* 1: tanh, 2: relu, 3: gelu by tanh, 4: gelu, 5: silu, 6: elu */\n"
    "static inline float @_activate(float x, int activation) {\n"
    "    float t, z = x < 0.0f ? -0.707106781f * x : 0.707106781f * x;\n"
    "    if (activation == 0) return x;\n"
    "    if (activation == 1) return @_tanh(x);\n"
    "    if (activation == 2) return x > 0.0f ? x : 0.0f;\n"
    "    if (activation == 3) return x * (0.5f + 0.5f * @_tanh(0.797884561f * (x + 0.044715f * x * x * "
    "x)));\n"
    "    if (activation == 5) return x * (0.5f + 0.5f * @_tanh(0.5f * x));\n"
    "    t = @_tanh(activation == 4 ? -0.5f * z * z : 0.5f * x); /* exp of twice that: (1 + t) / (1 - t) */\n"
    "    if (activation == 6) return x > 0.0f ? x : 2.0f * t / (1.0f - t);\n"
    "    z = 1.0f / (1.0f + 0.3275911f * z); /* Abramowitz and Stegun 7.1.26 */\n"
    "    z *= 0.254829592f + z * (-0.284496736f + z * (1.421413741f + z * (-1.453152027f + z * "
    "1.061405429f)));\n"
    "    z *= 0.5f * (1.0f + t) / (1.0f - t);\n"
    "    return x > 0.0f ? x - x * z : x * z;\n"
    "}\n\n";

static const char ppo__export_linear[] =
    "/* y [cols] = x [rows] w + b */\n"
    "static inline void @_linear(const float *x, @_weights w, @_weights b, int rows, int cols, int "
    "activation, float *y) {\n"
    "    int i, j;\n"
    "    for (j = 0; j < cols; ++j) y[j] = b[j];\n"
    "    for (i = 0; i < rows; ++i) {\n"
    "        for (j = 0; j < cols; ++j) y[j] += x[i] * w[i * cols + j];\n"
    "    }\n"
    "    for (j = 0; j < cols; ++j) y[j] = @_activate(y[j], activation);\n"
    "}\n\n";

static const char ppo__export_root[] = "/* 1 / sqrt(x) by Newton's iteration, x > 0 */\n"
                                       "static inline float @_inverse_root(float x) {\n"
                                       "    float r = 1.0f;\n"
                                       "    int   j;\n"
                                       "    while (x * r * r > 2.0f) r *= 0.5f;\n"
                                       "    while (x * r * r < 0.5f) r *= 2.0f;\n"
                                       "    for (j = 0; j < 6; ++j) r *= 1.5f - 0.5f * x * r * r;\n"
                                       "    return r;\n"
                                       "}\n\n";

/* Box and Muller 1958, as ppo_rng_normal(): the logarithm by its series in (x - 1) / (x + 1), the cosine as the sine
   of the angle from the nearest zero. */
static const char ppo__export_normal[] =
    "/* a normal number from two uniform ones, 0 <= u < 1 */\n"
    "static inline float @_normal(const float *u) {\n"
    "    float x = 1.0f - u[0], ln = 0.0f, angle = u[1] < 0.5f ? 0.25f - u[1] : u[1] - 0.75f, y, z;\n"
    "    if (!(x > 5.9e-8f)) x = 5.9e-8f;\n"
    "    for (; x < 0.7071068f; ln -= 0.693147181f) x *= 2.0f;\n"
    "    x = (x - 1.0f) / (x + 1.0f);\n"
    "    y = x * x;\n"
    "    y = 0.333333333f + y * (0.2f + y * (0.142857143f + y * 0.111111111f));\n"
    "    ln += 2.0f * (x + x * x * x * y);\n"
    "    angle *= 6.28318531f;\n"
    "    z = angle * angle;\n"
    "    y = 8.33333333e-3f - z * (1.98412698e-4f - z * (2.75573192e-6f - z * 2.50521084e-8f));\n"
    "    angle *= 1.0f + z * (-0.166666667f + z * y);\n"
    "    return ln < 0.0f ? -2.0f * ln * @_inverse_root(-2.0f * ln) * angle : 0.0f;\n"
    "}\n\n";

static const char ppo__export_spread[] =
    "/* std [%d] by the features of this observation */\n"
    "static inline void @_spread(const float *features, float *std) {\n"
    "    int i, j;\n"
    "    for (j = 0; j < %d; ++j) {\n"
    "        std[j] = 1e-6f;\n"
    "        for (i = 0; i < %d; ++i) std[j] += features[i] * features[i] * @_variance[i * %d + j];\n"
    "        std[j] *= @_inverse_root(std[j]);\n"
    "    }\n"
    "}\n\n";

static const char ppo__export_norm[] =
    "/* layer norm of x [n], then the activation */\n"
    "static inline void @_norm(float *x, @_weights w, @_weights b, int n, int activation) {\n"
    "    float mean = 0.0f, var = 0.0f, r;\n"
    "    int   j;\n"
    "    for (j = 0; j < n; ++j) mean += x[j] / (float)n;\n"
    "    for (j = 0; j < n; ++j) var += (x[j] - mean) * (x[j] - mean) / (float)n;\n"
    "    r = @_inverse_root(var + 1e-5f);\n"
    "    for (j = 0; j < n; ++j) x[j] = @_activate((x[j] - mean) * r * w[j] + b[j], activation);\n"
    "}\n\n";

static const char ppo__export_gru[] =
    "/* updates state [width] by one step: gated recurrent units */\n"
    "static inline void @_recur(const float *x, int in, @_memory *state) {\n"
    "    float a[3 * @_STATE], b[3 * @_STATE];\n"
    "    int   j;\n"
    "    @_linear(x, @_core_input_weight, @_core_input_bias, in, 3 * @_STATE, 0, a);\n"
    "    @_linear(state, @_core_state_weight, @_core_state_bias, @_STATE, 3 * @_STATE, 0, b);\n"
    "    for (j = 0; j < @_STATE; ++j) {\n"
    "        float r = 0.5f * @_tanh(0.5f * (a[j] + b[j])) + 0.5f;\n"
    "        float z = 0.5f * @_tanh(0.5f * (a[@_STATE + j] + b[@_STATE + j])) + 0.5f;\n"
    "        float n = @_tanh(a[2 * @_STATE + j] + r * b[2 * @_STATE + j]);\n"
    "        state[j] = (1.0f - z) * n + z * state[j];\n"
    "    }\n"
    "}\n\n";

static const char ppo__export_conv[] =
    "/* y, pixel by pixel, from x: each square of kernel x kernel pixels as a row for @_linear() */\n"
    "static inline void @_conv(const float *x, @_weights w, @_weights b, int channels, int height, int "
    "width,\n"
    "                          int kernel, int stride, int cols, int activation, float *y) {\n"
    "    float square[%d];\n"
    "    int   row, column, k, line = kernel * channels;\n"
    "    for (row = 0; row + kernel <= height; row += stride)\n"
    "        for (column = 0; column + kernel <= width; column += stride, y += cols) {\n"
    "            for (k = 0; k < kernel * line; ++k)\n"
    "                square[k] = x[((row + k / line) * width + column) * channels + k %% line];\n"
    "            @_linear(square, w, b, kernel * line, cols, activation, y);\n"
    "        }\n"
    "}\n\n";

static const char ppo__export_pool[] =
    "/* the largest of each square of each channel */\n"
    "static inline void @_max_pool(const %s *x, int channels, int height, int width, int kernel, int stride, "
    "%s *y) {\n"
    "    int row, column, k, c;\n"
    "    for (row = 0; row + kernel <= height; row += stride)\n"
    "        for (column = 0; column + kernel <= width; column += stride, y += channels)\n"
    "            for (k = 0; k < kernel * kernel; ++k)\n"
    "                for (c = 0; c < channels; ++c) {\n"
    "                    %s at = x[((row + k / kernel) * width + column + k %% kernel) * channels + c];\n"
    "                    if (k == 0 || at > y[c]) y[c] = at;\n"
    "                }\n"
    "}\n\n";

/* Writes the convolutions; returns the buffer that holds their result, and the numbers beside the picture. */
static const char *ppo__export_convolve(const ppo__export *x) {
    const ppo_conv *conv = &x->agent->model.conv;
    const int pixels = conv->shape[0][1] * conv->shape[0][2], picture = ppo__picture_size(conv->shape[0]);
    const int beside = ppo__beside_picture(&x->agent->model);
    const char *result = conv->layers % 2 ? "even" : "odd";
    if (!conv->layers) return "even";
    ppo__export_text(x, "    for (j = 0; j < %d; ++j) odd[j %% %d * %d + j / %d] = even[j];\n", picture,
                     pixels, conv->shape[0][0], pixels);
    if (beside)
        ppo__export_text(x, "    float beside[%d];\n    for (j = 0; j < %d; ++j) beside[j] = even[%d + j];\n",
                         beside, beside, picture);
    for (int k = 0; k < conv->layers; ++k) {
        const int *shape = conv->shape[k];
        const char *from = k % 2 ? "even" : "odd", *to = k % 2 ? "odd" : "even";
        if (conv->weight[k])
            ppo__export_text(
                x, "    @_conv(%s, @_conv_%d_weight, @_conv_%d_bias, %d, %d, %d, %d, %d, %d, %d, %s);\n",
                from, k, k, shape[0], shape[1], shape[2], conv->kernel[k], conv->stride[k],
                conv->weight[k]->cols, conv->activation, to);
        else
            ppo__export_text(x, "    @_max_pool(%s, %d, %d, %d, %d, %d, %s);\n", from, shape[0], shape[1],
                             shape[2], conv->kernel[k], conv->stride[k], to);
    }
    if (beside)
        ppo__export_text(x, "    for (j = 0; j < %d; ++j) %s[%d + j] = beside[j];\n", beside, result,
                         ppo__picture_size(conv->shape[conv->layers]));
    return result;
}

/* The widest of a policy's arrays, and of its convolutions the largest square, and whether some are max pooling. */
static void ppo__export_sizes(const ppo_actor_critic *model, int *widest, int *square, int *pools) {
    const ppo_mlp *const parts[] = {&model->trunk, &model->actor};
    *widest = model->actor_obs > model->core.width ? model->actor_obs : model->core.width;
    *square = *pools = 0;
    for (int k = 0; k < model->conv.layers; ++k) {
        const ppo_tensor *weight = model->conv.weight[k];
        const int size = ppo__picture_size(model->conv.shape[k + 1]) + ppo__beside_picture(model);
        *widest = size > *widest ? size : *widest;
        if (weight && weight->rows > *square) *square = weight->rows;
        *pools |= !weight;
    }
    for (int p = 0; p < 2; ++p)
        for (int k = 0; k < parts[p]->layers; ++k)
            if (parts[p]->weight[k]->cols > *widest) *widest = parts[p]->weight[k]->cols;
}

/* The first line of the function that computes a policy's outputs. */
static void ppo__export_head(const ppo__export *x) {
    const ppo_actor_critic *model = &x->agent->model;
    ppo__export_text(x,
                     "/* output [%d]: %s */\n"
                     "static inline void @_%s(const float *obs, %sfloat *output%s) {\n",
                     ppo__space_outputs(&model->action_space),
                     ppo__kind(&model->action_space)->continuous ? "the mean, before the box" : "logits",
                     model->gsde ? "outputs" : "forward", model->core.width ? "@_memory *state, " : "",
                     model->gsde ? ", float *std" : "");
}

/* The same with whole numbers. A layer takes x of 16 bits, times 2^-e, and gives y of 32 bits, times 2^-point;
   @_fit() makes that an x. 64 bits occur once for each unit: its sum times its scale. */
static const char ppo__int8_look_up[] =
    "/* a function of |x| by 16 values for each unit and lines between them; numbers are times 2^-14 */\n"
    "static inline int32_t @_look_up(@_CONST int16_t *table, int32_t x) {\n"
    "    int32_t size = x < 0 ? -x : x, at = size >> 10;\n"
    "    if (at >= 128) return table[128];\n"
    "    return table[at] + (((int32_t)table[at + 1] - table[at]) * (size & 1023) >> 10);\n"
    "}\n\n";

static const char ppo__int8_linear[] =
    "static inline int32_t @_whole(float x) {\n"
    "    return !(x > -1073741824.0f) ? -1073741823 : x < 1073741824.0f ? (int32_t)x : 1073741823;\n"
    "}\n\n"
    "/* sum * scale, times 2^-shift, below 2^30 */\n"
    "static inline int32_t @_scaled(int32_t sum, int32_t scale, int shift) {\n"
    "    int64_t y = (int64_t)sum * scale;\n"
    "    if (shift > 0) y = shift > 62 ? 0 : ((y >> (shift - 1)) + 1) >> 1;\n"
    "    return y > 1073741823 ? 1073741823 : y < -1073741823 ? -1073741823 : (int32_t)y;\n"
    "}\n"
    "\n"
    "/* x = y, halved until it is below 2^bits; returns the place of its point, that of y is e */\n"
    "static inline int @_fit(const int32_t *y, int n, int bits, int e, int16_t *x) {\n"
    "    int32_t all = 0;\n"
    "    int     j, halved = 0;\n"
    "    for (j = 0; j < n; ++j) all |= y[j] < 0 ? -y[j] : y[j];\n"
    "    while (all >> halved >> bits) ++halved;\n"
    "    for (j = 0; j < n; ++j) x[j] = (int16_t)(y[j] >> halved);\n"
    "    return e - halved;\n"
    "}\n"
    "\n"
    "/* y [cols] = x [rows] w + b; shift: from the points of x and the scales to that of y */\n"
    "static inline void @_linear(const int16_t *x, @_weights w, int rows, int cols, int shift, int "
    "activation, int32_t *y) {\n"
    "    @_CONST int8_t *number = w.number;\n"
    "    int             i, j;\n"
    "    for (j = 0; j < cols; ++j) {\n"
    "        int32_t sum = 0;\n"
    "        for (i = 0; i < rows; ++i) {\n"
    "            const int16_t weight = *number++;\n"
    "            sum += (int32_t)x[i] * weight;\n"
    "        }\n"
    "        y[j] = @_activate(@_scaled(sum, w.scale[j], shift) + w.bias[j], activation);\n"
    "    }\n"
    "}\n\n";

static const char ppo__int8_norm[] =
    "/* layer norm of x [n], then the activation */\n"
    "static inline void @_norm(const int16_t *x, int e, @_weights w, int n, int shift, int activation, "
    "int32_t *y) {\n"
    "    int32_t  mean = 0;\n"
    "    uint64_t square = 0, root = 0, bit;\n"
    "    int      j;\n"
    "    for (j = 0; j < n; ++j) mean += x[j];\n"
    "    mean /= n;\n"
    "    for (j = 0; j < n; ++j) square += (uint64_t)((int64_t)(x[j] - mean) * (x[j] - mean));\n"
    "    square = square / (uint64_t)n + (e > 8 ? ((uint64_t)1 << (2 * e)) / 100000 : 0); /* epsilon is 1e-5 "
    "*/\n"
    "    for (bit = 131072; bit; bit >>= 1)\n"
    "        if ((root | bit) * (root | bit) <= square) root |= bit;\n"
    "    for (j = 0; j < n; ++j) {\n"
    "        int32_t z = (x[j] - mean) * 16384 / (root ? (int32_t)root : 1);\n"
    "        y[j] = @_activate(@_scaled(z, w.scale[j], shift) + w.bias[j], activation);\n"
    "    }\n"
    "}\n\n";

static const char ppo__int8_gru[] =
    "/* updates state [width] by one step: gated recurrent units; y = state */\n"
    "static inline void @_recur(const int16_t *x, int e, int in, int16_t *state, int32_t *y) {\n"
    "    int32_t a[3 * @_STATE], b[3 * @_STATE];\n"
    "    int     j;\n"
    "    @_linear(x, @_core_input, in, 3 * @_STATE, %d + e, 0, a);\n"
    "    @_linear(state, @_core_state, @_STATE, 3 * @_STATE, %d, 0, b);\n"
    "    for (j = 0; j < @_STATE; ++j) {\n"
    "        int32_t r = (@_whole_tanh(a[j] / 2 + b[j] / 2) + 16384) / 2;\n"
    "        int32_t z = (@_whole_tanh(a[@_STATE + j] / 2 + b[@_STATE + j] / 2) + 16384) / 2;\n"
    "        int32_t n = @_whole_tanh(@_scaled(a[2 * @_STATE + j], 1, 0) + @_scaled(b[2 * @_STATE + j], r, "
    "14));\n"
    "        y[j] = ((16384 - z) * n + z * state[j] + 8192) >> 14;\n"
    "        state[j] = (int16_t)y[j];\n"
    "    }\n"
    "}\n\n";

static const char ppo__int8_conv[] =
    "/* y, pixel by pixel, from x: each square of kernel x kernel pixels as a row for @_linear() */\n"
    "static inline void @_conv(const int16_t *x, @_weights w, int channels, int height, int width, int "
    "kernel, int stride,\n"
    "                          int cols, int shift, int activation, int32_t *y) {\n"
    "    int16_t square[%d];\n"
    "    int     row, column, k, line = kernel * channels;\n"
    "    for (row = 0; row + kernel <= height; row += stride)\n"
    "        for (column = 0; column + kernel <= width; column += stride, y += cols) {\n"
    "            for (k = 0; k < kernel * line; ++k)\n"
    "                square[k] = x[((row + k / line) * width + column) * channels + k %% line];\n"
    "            @_linear(square, w, kernel * line, cols, shift, activation, y);\n"
    "        }\n"
    "}\n\n";

static const char ppo__int8_spread[] =
    "/* std [%d] by the features of this observation */\n"
    "static inline void @_spread(const int16_t *features, int e, float *std) {\n"
    "    float unit = 1.0f;\n"
    "    int   i, j;\n"
    "    for (; e > 0; --e) unit *= 0.5f;\n"
    "    for (; e < 0; ++e) unit *= 2.0f;\n"
    "    for (j = 0; j < %d; ++j) {\n"
    "        float sum = 0.0f;\n"
    "        for (i = 0; i < %d; ++i) sum += (float)((int32_t)features[i] * features[i]) * @_variance[i * %d "
    "+ j];\n"
    "        std[j] = sum * unit * unit + 1e-6f;\n"
    "        std[j] *= @_inverse_root(std[j]);\n"
    "    }\n"
    "}\n\n";

/* An activation where x <= 0, but of tanh where x >= 0. */
static double ppo__int8_curve(int activation, double x) {
    switch (activation) {
    case PPO_TANH:
        return tanh(-x);
    case PPO_GELU:
        return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case PPO_GELU_ERF:
        return 0.5 * x * erfc(-x / 1.4142135623730951);
    case PPO_SILU:
        return x / (1 + exp(-x));
    default:
        return expm1(x);
    }
}

/* 1: a layer has an activation in this range; of the core, which has tanh, only its own text says so. */
static int ppo__int8_has(const ppo__export *x, int from, int to) {
    for (int k = 0; k < x->layers; ++k)
        if (x->layer[k].activation >= from && x->layer[k].activation <= to) return x->layer[k].activation;
    return 0;
}

enum { PPO__INT8_ENTRIES = 128 }; /* of a table, 16 for each unit of x */

/* The tables of the activations that are used, and the functions that read them. */
static void ppo__int8_activations(const ppo__export *x) {
    const int bent = ppo__int8_has(x, PPO_GELU, PPO_ELU);
    const int used[] = {x->agent->model.core.width || ppo__int8_has(x, PPO_TANH, PPO_TANH) ? PPO_TANH : 0,
                        bent};
    if (used[0] || used[1]) ppo__export_text(x, "%s", ppo__int8_look_up);
    for (int k = 0; k < 2; ++k) {
        if (!used[k]) continue;
        ppo__export_text(x, "static @_CONST int16_t @_%s[%d] = {", k ? "bend" : "tanh_table",
                         PPO__INT8_ENTRIES + 1);
        for (int i = 0; i <= PPO__INT8_ENTRIES; ++i)
            fprintf(x->out, "%s%ld,", i % 16 == 0 ? "\n    " : " ",
                    lround(ldexp(ppo__int8_curve(used[k], -i / 16.0), PPO__INT8_POINT)));
        ppo__export_text(x, "\n};\n\n");
    }
    if (used[0])
        ppo__export_text(x, "static inline int32_t @_whole_tanh(int32_t x) {\n"
                            "    return x < 0 ? -@_look_up(@_tanh_table, x) : @_look_up(@_tanh_table, x);\n"
                            "}\n\n");
    ppo__export_text(x, "/* 0: identity, 1: tanh, 2: relu, 3: gelu by tanh, 4: gelu, 5: silu, 6: elu */\n"
                        "static inline int32_t @_activate(int32_t x, int activation) {\n");
    if (used[0]) ppo__export_text(x, "    if (activation == 1) return @_whole_tanh(x);\n");
    if (bent)
        ppo__export_text(x, "    if (activation > 2) return %s@_look_up(@_bend, x);\n",
                         bent == PPO_ELU ? "x > 0 ? x : " : "(x > 0 ? x : 0) + ");
    ppo__export_text(x, "    return activation == 2 && x < 0 ? 0 : x;\n}\n\n");
}

/* Of all layers, in the order of the list. */
static void ppo__int8_forward(const ppo__export *x, int widest, int square, int pools) {
    const ppo_actor_critic *model = &x->agent->model;
    const ppo_conv *conv = &model->conv;
    const int outputs = ppo__space_outputs(&model->action_space), n = model->action_space.n;
    const float clip = x->agent->clip_obs;
    const int normed = x->agent->obs_norm.size != 0, pixels = conv->shape[0][1] * conv->shape[0][2];
    const int beside = ppo__beside_picture(model), picture = model->actor_obs - beside;
    int width = picture; /* of the numbers before a layer */
    char at[16];         /* the place of their point */
    if (model->squash) ppo__export_text(x, "%s", ppo__export_tanh);
    ppo__int8_activations(x);
    ppo__export_text(x, "%s", ppo__int8_linear);
    if (x->agent->config.layer_norm) ppo__export_text(x, "%s", ppo__int8_norm);
    if (model->core.width) {
        int k = 0;
        while (x->layer[k].kind != PPO__INT8_CORE_INPUT) ++k;
        ppo__export_text(x, ppo__int8_gru, x->layer[k].shift - PPO__INT8_POINT, x->layer[k + 1].shift);
    }
    if (square) ppo__export_text(x, ppo__int8_conv, square);
    if (pools) ppo__export_text(x, ppo__export_pool, "int16_t", "int32_t", "int16_t");
    if (model->gsde) ppo__export_text(x, ppo__int8_spread, n, n, model->log_std->rows, n);
    const ppo__constant limit = ppo__c_float((double)clip), one = ppo__c_float(ldexp(1, x->point));
    ppo__export_head(x);
    ppo__export_text(x, "    int32_t y[%d];\n    int16_t x[%d];\n    int     j, e;\n", widest, widest);
    if (beside) ppo__export_text(x, "    int32_t beside[%d];\n", beside);
    ppo__export_text(x, "    for (j = 0; j < @_OBS; ++j) {\n");
    if (normed)
        ppo__export_text(x,
                         "        float number = (obs[j] - @_obs_mean[j] - @_obs_rest[j]) * @_obs_scale[j];\n"
                         "        number = number > %s ? %s : number < -%s ? -%s : number;\n",
                         limit.text, limit.text, limit.text, limit.text);
    else ppo__export_text(x, "        float number = obs[j];\n");
    if (beside)
        ppo__export_text(
            x, "        if (j >= %d) beside[j - %d] = @_whole(number * @_obs_point[j - %d]);\n        else ",
            picture, picture, picture);
    else ppo__export_text(x, "        ");
    if (conv->layers) ppo__export_text(x, "y[j %% %d * %d + j / %d] = ", pixels, conv->shape[0][0], pixels);
    else ppo__export_text(x, "y[j] = ");
    if (x->row && !beside) ppo__export_text(x, "@_whole(number * @_obs_point[j]);\n    }\n");
    else ppo__export_text(x, "@_whole(number * %s);\n    }\n", one.text);
    snprintf(at, sizeof at, "%d", x->point);
    for (int k = 0; k < x->layers; ++k) {
        const ppo__int8_layer *l = &x->layer[k];
        const int last = k == x->layers - 1;
        char name[48];
        snprintf(name, sizeof name, l->index < 0 ? "%s" : "%s_%d", l->part, l->index);
        if (l->kind == PPO__INT8_CORE_INPUT) continue; /* @_recur() has both */
        ppo__export_text(x, "    e = @_fit(y, %d, %d, %s, x);\n", width,
                         l->kind == PPO__INT8_CORE_STATE ? l[-1].bits : l->bits, at);
        if (last && model->gsde) ppo__export_text(x, "    if (std) @_spread(x, e, std);\n");
        switch (l->kind) {
        case PPO__INT8_LINEAR:
            ppo__export_text(x, "    @_linear(x, @_%s, %d, %d, %d + e, %d, y);\n", name, width,
                             l->weight->cols, l->shift - l->point, l->activation);
            break;
        case PPO__INT8_NORM:
            ppo__export_text(x, "    @_norm(x, e, @_%s_norm, %d, %d, %d, y);\n", name, width,
                             l->shift + PPO__INT8_POINT - l->point, l->activation);
            break;
        case PPO__INT8_CONV: {
            const int *shape = conv->shape[l->index], kernel = conv->kernel[l->index],
                      stride = conv->stride[l->index];
            if (l->weight)
                ppo__export_text(x, "    @_conv(x, @_%s, %d, %d, %d, %d, %d, %d, %d + e, %d, y);\n", name,
                                 shape[0], shape[1], shape[2], kernel, stride, l->weight->cols,
                                 l->shift - l->point, l->activation);
            else
                ppo__export_text(x, "    @_max_pool(x, %d, %d, %d, %d, %d, y);\n", shape[0], shape[1],
                                 shape[2], kernel, stride);
            break;
        }
        default:
            ppo__export_text(x, "    @_recur(x, e, %d, state, y);\n", width);
        }
        snprintf(at, sizeof at, l->weight ? "%d" : "e", l->point); /* max pooling does not move it */
        const int joins = beside && l->kind == PPO__INT8_CONV && l->index == conv->layers - 1;
        width = l->kind == PPO__INT8_CONV         ? ppo__picture_size(conv->shape[l->index + 1])
                : l->kind == PPO__INT8_CORE_STATE ? model->core.width
                                                  : l->weight->cols;
        if (!joins) continue;
        ppo__export_text(x, "    for (j = 0; j < %d; ++j) y[%d + j] = beside[j] >> (%d - %s);\n", beside,
                         width, l->point, at);
        width += beside;
    }
    ppo__export_text(x, "    for (j = 0; j < %d; ++j) output[j] = (float)y[j] * %s;\n}\n\n", outputs,
                     ppo__c_float(ldexp(1, -x->layer[x->layers - 1].point)).text);
}

/* One line per layer; values go from one of two buffers to the other, the last layer's to output. */
static void ppo__float_forward(const ppo__export *x, int widest, int square, int pools) {
    const ppo_actor_critic *model = &x->agent->model;
    const ppo_mlp *const parts[] = {&model->trunk, &model->actor};
    const char *const names[] = {"trunk", "actor"};
    const ppo__constant limit = ppo__c_float((double)x->agent->clip_obs);
    const char *from, *l = limit.text;
    const int recurrent = model->core.width, n = model->action_space.n;
    PPO__ASSERT((int)PPO__ACTIVATIONS == (int)PPO_ELU + 1); /* that many are in ppo__export_activate */
    ppo__export_text(x, "%s%s", ppo__export_tanh, ppo__export_activate);
    ppo__export_text(x, "%s", ppo__export_linear);
    ppo__export_text(x, "%s%s", x->agent->config.layer_norm ? ppo__export_norm : "",
                     recurrent ? ppo__export_gru : "");
    if (model->gsde) ppo__export_text(x, ppo__export_spread, n, n, model->log_std->rows, n);
    if (square) ppo__export_text(x, ppo__export_conv, square);
    if (pools) ppo__export_text(x, ppo__export_pool, "float", "float", "float");
    ppo__export_head(x);
    ppo__export_text(x,
                     "    float even[%d], odd[%d];\n"
                     "    int   j;\n"
                     "    for (j = 0; j < @_OBS; ++j) even[j] = obs[j];\n",
                     widest, widest);
    if (x->agent->obs_norm.size)
        ppo__export_text(x,
                         "    for (j = 0; j < @_OBS; ++j) {\n"
                         "        even[j] = (obs[j] - @_obs_mean[j] - @_obs_rest[j]) * @_obs_scale[j];\n"
                         "        even[j] = even[j] > %s ? %s : even[j] < -%s ? -%s : even[j];\n"
                         "    }\n",
                         l, l, l, l);
    from = ppo__export_convolve(x);
    for (int p = 0; p < 2; ++p) { /* the core is between the two */
        if (p == 1 && recurrent) {
            ppo__export_text(x, "    @_recur(%s, %d, state);\n", from, model->core.input_weight->rows);
            from = "state";
        }
        for (int k = 0; k < parts[p]->layers; ++k) {
            const ppo_tensor *weight = parts[p]->weight[k];
            const int last = k == parts[p]->layers - 1, normed = parts[p]->norm_weight[k] != NULL;
            const char *to = last && p == 1 ? "output" : strcmp(from, "even") == 0 ? "odd" : "even";
            const int activation = last ? parts[p]->last_activation : parts[p]->hidden_activation;
            if (last && p == 1 && model->gsde) ppo__export_text(x, "    if (std) @_spread(%s, std);\n", from);
            ppo__export_text(x, "    @_linear(%s, @_%s_%d_weight, @_%s_%d_bias, %d, %d, %d, %s);\n", from,
                             names[p], k, names[p], k, weight->rows, weight->cols, normed ? 0 : activation,
                             to);
            if (normed)
                ppo__export_text(x, "    @_norm(%s, @_%s_%d_norm_weight, @_%s_%d_norm_bias, %d, %d);\n", to,
                                 names[p], k, names[p], k, weight->cols, activation);
            from = to;
        }
    }
    ppo__export_text(x, "    (void)odd;\n}\n\n");
}

/* The policy's outputs, and what they need. */
static void ppo__export_forward(const ppo__export *x) {
    const ppo_actor_critic *model = &x->agent->model;
    int widest, square, pools;
    ppo__export_sizes(model, &widest, &square, &pools);
    if (ppo__kind(&model->action_space)->continuous || (x->agent->config.layer_norm && !x->rounded))
        ppo__export_text(x, "%s", ppo__export_root);
    if (x->rounded) ppo__int8_forward(x, widest, square, pools);
    else ppo__float_forward(x, widest, square, pools);
    if (model->gsde)
        ppo__export_text(x,
                         "static inline void @_forward(const float *obs, %sfloat *output) {\n"
                         "    @_outputs(obs, %soutput, 0);\n"
                         "}\n\n",
                         model->core.width ? "@_memory *state, " : "", model->core.width ? "state, " : "");
}

/* What chooses among the options of one choice. */
static const char ppo__export_choose[] =
    "/* exp(x), x <= 0: a series below 1/4, squared as often as x was halved */\n"
    "static inline float @_exp(float x) {\n"
    "    int   doublings = 0;\n"
    "    float y;\n"
    "    if (!(x > -80.0f)) return 0.0f;\n"
    "    for (; x < -0.25f; ++doublings) x *= 0.5f;\n"
    "    y = 0.166666667f + x * (4.16666667e-2f + x * (8.33333333e-3f + x * 1.38888889e-3f));\n"
    "    y = 1.0f + x * (1.0f + x * (0.5f + x * y));\n"
    "    for (; doublings > 0; --doublings) y *= y;\n"
    "    return y;\n"
    "}\n\n"
    "/* the most likely of the options from .. end - 1, but those whose byte in mask is 0 (mask 0: all); -1: "
    "none */\n"
    "static inline int @_most_likely(const float *logit, const unsigned char *mask, int from, int end) {\n"
    "    int j, best = -1;\n"
    "    for (j = from; j < end; ++j)\n"
    "        if ((!mask || mask[j]) && (best < 0 || logit[j] > logit[best])) best = j;\n"
    "    return best < 0 ? -1 : best - from;\n"
    "}\n\n"
    "/* one of them by their probabilities and a uniform number, 0 <= u < 1; overwrites the logits */\n"
    "static inline int @_draw(float *logit, const unsigned char *mask, int from, int end, float u) {\n"
    "    const int   most = @_most_likely(logit, mask, from, end);\n"
    "    const float top = most < 0 ? 0.0f : logit[from + most];\n"
    "    float       sum = 0.0f;\n"
    "    int         j;\n"
    "    for (j = from; j < end; ++j) {\n"
    "        logit[j] = !mask || mask[j] ? @_exp(logit[j] - top) : 0.0f;\n"
    "        sum += logit[j];\n"
    "    }\n"
    "    u *= sum;\n"
    "    for (sum = 0.0f, j = from; j < end; ++j) {\n"
    "        sum += logit[j];\n"
    "        if (u < sum) return j - from;\n"
    "    }\n"
    "    return most;\n"
    "}\n\n";

/* The actions of a box: the mean or a sample, brought into the box. */
static void ppo__export_box(const ppo__export *x) {
    const ppo_actor_critic *model = &x->agent->model;
    const ppo_space *space = &model->action_space;
    const ppo__constant low = ppo__c_float((double)space->low), high = ppo__c_float((double)space->high);
    const ppo__constant half = ppo__c_float((double)ppo__box_half(space));
    const ppo__constant centre = ppo__c_float((double)ppo__box_centre(space));
    const char *state = model->core.width ? ", @_memory *state" : "",
               *pass = model->core.width ? "state, " : "";
    const int n = space->n;
    ppo__export_text(x, "%sstatic inline float @_into_box(float x) {\n", ppo__export_normal);
    if (model->squash) ppo__export_text(x, "    x = %s + %s * (@_tanh(x) + 1.0f);\n", low.text, half.text);
    if (model->scale) ppo__export_text(x, "    x = %s + %s * x;\n", centre.text, half.text);
    for (int k = 0; k < 2; ++k)
        if (ppo__finite(k ? space->high : space->low))
            ppo__export_text(x, "    if (x %c %s) x = %s;\n", k ? '>' : '<', k ? high.text : low.text,
                             k ? high.text : low.text);
    ppo__export_text(
        x,
        "    return x;\n}\n\n"
        "/* action [%d], within [%s, %s]: the most likely */\n"
        "static inline void @_predict(const float *obs%s, float *action) {\n"
        "    int j;\n"
        "    @_forward(obs, %saction);\n"
        "    for (j = 0; j < %d; ++j) action[j] = @_into_box(action[j]);\n"
        "}\n\n"
        "/* the same, sampled by uniform [@_UNIFORMS] */\n"
        "static inline void @_sample(const float *obs%s, const float *uniform, float *action) {\n"
        "    int j;\n",
        n, low.text, high.text, state, pass, n, state);
    if (model->gsde) ppo__export_text(x, "    float std[%d];\n    @_outputs(obs, %saction, std);\n", n, pass);
    else ppo__export_text(x, "    @_forward(obs, %saction);\n", pass);
    ppo__export_text(x,
                     "    for (j = 0; j < %d; ++j)\n"
                     "        action[j] = @_into_box(action[j] + %sstd[j] * @_normal(uniform + 2 * j));\n"
                     "}\n\n",
                     n, model->gsde ? "" : "@_");
}

/* The actions that are choices: the most likely, and sampled ones; each with a mask and without. */
static void ppo__export_choices(const ppo__export *x) {
    const ppo_space *space = &x->agent->model.action_space;
    const int outputs = ppo__space_outputs(space), one = space->kind == PPO_DISCRETE;
    const char *state = x->agent->model.core.width ? ", @_memory *state" : "",
               *pass = *state ? "state, " : "";
    const char *result = one ? "int" : "void", *out = one ? "" : ", int *choices",
               *ret = one ? "return " : "";
    int heads;
    const int *sizes = ppo__space_heads(space, &heads);
    ppo__export_text(x, "%s", ppo__export_choose);
    for (int draw = 0; draw < 2; ++draw) {
        const char *name = draw ? "sample" : "predict", *chooses = draw ? "draw" : "most_likely";
        const char *uniform = !draw ? "" : one ? ", float uniform" : ", const float *uniform";
        ppo__export_text(x,
                         "/* %s%d%s: %s; mask [%d]: 0 for what is illegal */\n"
                         "static inline %s @_%s_masked(const float *obs%s, const unsigned char *mask%s%s) {\n"
                         "    float logit[%d];\n"
                         "    @_forward(obs, %slogit);\n",
                         one ? "action, 0 .. " : "choices [", one ? outputs - 1 : heads, one ? "" : "]",
                         draw ? "sampled" : "the most likely", outputs, result, name, state, uniform, out,
                         outputs, pass);
        for (int h = 0, at = 0; h < heads; at += sizes[h++]) {
            if (!one) ppo__export_text(x, "    choices[%d] = ", h);
            ppo__export_text(x, "%s@_%s(logit, mask, %d, %d", one ? "    return " : "", chooses, at,
                             at + sizes[h]);
            if (draw && one) ppo__export_text(x, ", uniform");
            else if (draw) ppo__export_text(x, ", uniform[%d]", h);
            ppo__export_text(x, ");\n");
        }
        ppo__export_text(x,
                         "}\n\n"
                         "static inline %s @_%s(const float *obs%s%s%s) {\n"
                         "    %s@_%s_masked(obs, %s0%s%s);\n"
                         "}\n\n",
                         result, name, state, uniform, out, ret, name, pass, draw ? ", uniform" : "",
                         one ? "" : ", choices");
    }
}

static const char ppo__export_const[] =
    "/* of the arrays; for avr-gcc, which copies other constants into memory, they stay in flash */\n"
    "#ifndef @_CONST\n"
    "#if defined(__FLASH) && !defined(__STRICT_ANSI__)\n"
    "#define @_CONST const __flash\n"
    "#else\n"
    "#define @_CONST const\n"
    "#endif\n"
    "#endif\n\n";

static const char ppo__float_types[] = "typedef @_CONST float *@_weights;\n\n";

static const char ppo__int8_types[] =
    "#include <stdint.h>\n\n"
    "typedef struct @_weights {\n"
    "    @_CONST int8_t  *number; /* unit by unit, times the unit's scale */\n"
    "    @_CONST int32_t *scale, *bias;\n"
    "} @_weights;\n\n";

/* Bytes of the arrays that are on the stack at once: those of a layer's input and output, what a convolution or the
   core adds, and the outputs. */
static int ppo__export_stack(const ppo__export *x) {
    const ppo_actor_critic *model = &x->agent->model;
    const int outputs = ppo__space_outputs(&model->action_space), number = x->rounded ? 2 : 4;
    int widest, square, pools;
    ppo__export_sizes(model, &widest, &square, &pools);
    const int conv = number * square, core = 24 * model->core.width;
    return (4 + number) * widest + 4 * ppo__beside_picture(model) + (conv > core ? conv : core) +
           4 * outputs * (model->gsde ? 2 : 1);
}

static ppo_status ppo__export_all(FILE *out, const char *path, void *user) {
    ppo__export *x = (ppo__export *)user;
    const ppo_space *space = &x->agent->model.action_space;
    char name[64];
    x->out = out;
    snprintf(name, sizeof name, "%s", x->agent->environment);
    for (char *c = name; *c; ++c) /* nothing that ends a comment, a line or more */
        if (!isalnum((unsigned char)*c) && !strchr(" -_.,:()", *c)) *c = '_';
    ppo__export_text(
        x,
        "/* A policy%s%s, written by ppo.h. Include it where it is used; it needs nothing else.\n"
        "   The observation is that of the environment, unscaled. Arrays on the stack: %d bytes. */\n"
        "#ifndef @_INCLUDED\n#define @_INCLUDED\n\nenum { @_OBS = %d",
        name[0] ? " for " : "", name, ppo__export_stack(x), x->agent->model.actor_obs);
    if (x->agent->model.core.width) ppo__export_text(x, ", @_STATE = %d", x->agent->model.core.width);
    ppo__export_text(
        x, ", @_UNIFORMS = %d };\n\n%s%s%s", ppo__space_width(space) * (ppo__kind(space)->continuous ? 2 : 1),
        ppo__export_const, x->rounded ? ppo__int8_types : ppo__float_types,
        x->agent->model.core.width ? x->rounded ? "typedef int16_t @_memory; /* the type of state */\n\n"
                                                : "typedef float @_memory; /* the type of state */\n\n"
                                   : "");
    ppo_status status = ppo__export_arrays(x);
    if (status) return status;
    ppo__export_forward(x);
    if (ppo__kind(space)->continuous) ppo__export_box(x);
    else ppo__export_choices(x);
    ppo__export_text(x, "#endif\n");
    return PPO_OK;
}

/* by NULL: with weights of floats. */
static ppo_status ppo__export_policy(const ppo_agent *agent, const ppo__rounding *by, const char *name,
                                     const char *path) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    const size_t length = name ? strlen(name) : 0;
    if (!PPO__GIVEN("ppo_export_c", agent, name, path)) return PPO_ERROR_ARGUMENT;
    if (!length || length > 60 || strspn(name, letters) != length || strchr("_0123456789", *name))
        return ppo__refuse(
            "ppo_export_c: invalid name \"%.60s\": 1 to 60 letters, digits and _, a letter first", name);
    ppo__export export_ = {agent, name, NULL, NULL, NULL, 0, NULL, 0, 0, NULL};
    ppo_status status = by ? ppo__int8_agent(&export_, by) : PPO_OK;
    if (!status) status = ppo__write_file(path, ppo__export_all, &export_);
    ppo_tape_free(export_.tape);
    ppo_agent_free(export_.rounded);
    return status;
}

PPO_DEF ppo_status ppo_export_c(const ppo_agent *agent, const char *name, const char *path) {
    return ppo__export_policy(agent, NULL, name, path);
}

PPO_DEF ppo_status ppo_export_c_int8(const ppo_agent *agent, const ppo_env *env, const char *name,
                                     const char *path) {
    const ppo__rounding by = {env, NULL, 0};
    return ppo__export_policy(agent, &by, name, path);
}

PPO_DEF ppo_status ppo_export_c_int8_from(const ppo_agent *agent, const float *obs, int n, const char *name,
                                          const char *path) {
    const ppo__rounding by = {NULL, obs, n};
    if (!PPO__GIVEN("ppo_export_c_int8_from", obs)) return PPO_ERROR_ARGUMENT;
    if (n < 1) return ppo__refuse("ppo_export_c_int8_from: %d observations, must be above 0", n);
    return ppo__export_policy(agent, &by, name, path);
}

PPO__WARNINGS_BACK

#endif
#endif
