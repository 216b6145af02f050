/* ppo_onnx.h - a policy of ppo.h as an ONNX model: for ONNX Runtime, browsers, Unity, and what else reads ONNX

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_onnx.h"              // after ppo.h; other files may include it for its declarations

       ppo_export_onnx(agent, "policy.onnx", NULL);

   Copy this file beside ppo.h. In the folder examples/, where it is in companions/, programs include it from
   there: #include "companions/ppo_onnx.h". In Python:

       import onnxruntime
       session = onnxruntime.InferenceSession("policy.onnx")
       actions, logits = session.run(None, {"input": observations})       # float32 [n][numbers that the actor sees]

INPUTS AND OUTPUTS

   One row for each character; the number of rows, n, is free. The inputs:

       input          float [n][numbers]    observations as ppo_act() takes them: not normalized. With value: of all
                                            numbers, also those that only the critic sees
       action_masks   bool [n][options]     with mask: 0 where an option is illegal
       recurrent_in   float [n][width]      of a recurrent policy: zeros where an episode begins, else recurrent_out

   The outputs, in this order:

       actions        the most likely ones, as ppo_act() gives them: int64 [n] (discrete), int64 [n][choices]
                      (multi-discrete, multi-binary), float [n][numbers] within [low, high] (box)
       values         float [n][1], with value: what the critic expects; where normalize_reward is set, in units
                      of the normalized rewards
       logits         float [n][options], of all choices side by side; -FLT_MAX where the mask is 0
       mean, log_std  float [n][numbers]: of a box, instead of the logits. The Gaussian before its numbers are brought
                      into the box; of gsde over all explorations
       recurrent_out  float [n][width]

   "input", "actions" and "values" are the names of Stable-Baselines3's page on exporting. The results agree with
   ppo_act() up to rounding. NaN in an observation, or a mask that leaves a choice no option, is not reported.

FOR UNITY

       ppo_onnx_options options = {0};                                    // in C++: {}
       options.names = PPO_ONNX_ML_AGENTS;
       ppo_export_onnx(agent, "policy.onnx", &options);

   The names and shapes are those that version 2 and later of Unity's ML-Agents expect of a model ("version_number" 3):
   the inputs obs_0 (a picture [n][channels][height][width], if the policy has convolutions, and the numbers beside
   it as obs_1), action_masks (float, for all actions but a box's) and recurrent_in [n][1][width]; the outputs
   version_number, memory_size, and continuous_actions or discrete_actions, which are sampled, deterministic_... of
   the same names, which are the most likely, their ..._action_output_shape, and recurrent_out; with value also
   value_estimate. The agent in Unity must show the observations in the order in which the policy learned them.
   The files were checked by ONNX Runtime, not in Unity itself.

HOW IT IS MADE

   Operators of version 13 (ONNX 1.8, 2020) of the plainest kinds, floats of 32 bits. Layer norm and the recurrent
   core are written out as sums and products, since not all readers have operators for them.

   License: that of ppo.h. */
#ifndef PPO_ONNX_H
#define PPO_ONNX_H
#ifndef PPO_H
#error "include ppo.h before ppo_onnx.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_onnx.h belongs to version 0.3 of ppo.h"
#endif

#ifndef PPO_NO_CONTROL
#ifdef __cplusplus
extern "C" {
#endif

typedef enum ppo_onnx_names { PPO_ONNX_STANDARD, PPO_ONNX_ML_AGENTS } ppo_onnx_names;

/* Zeros are the defaults. */
typedef struct ppo_onnx_options {
    ppo_onnx_names names; /* of inputs and outputs, as above [PPO_ONNX_STANDARD] */
    int value;            /* 1: the critic's value is an output, too [0] */
    int mask;             /* 1: there is an input for masks; ML-Agents' models always have it [0] */
} ppo_onnx_options;

/* Writes a policy as an ONNX model; options NULL: the defaults. Folders of the path that are missing are made. A
   failure leaves the file that was there. Errors: a number is not finite, a parameter that is not of the library's
   network, a mask for a box, a value of an agent without a critic, weights of more than 2 GB. */
PPO_DEF ppo_status ppo_export_onnx(const ppo_agent *agent, const char *path, const ppo_onnx_options *options);

#ifdef __cplusplus
}
#endif
#endif
#endif

/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__ONNX_IMPLEMENTED)
#define PPO__ONNX_IMPLEMENTED
#ifndef PPO_NO_CONTROL

PPO__WARNINGS_OFF

/* An ONNX file is one message of protobuf: fields, each a number with a type, and a value: an integer, or bytes with
   their length before them, which may be a message again. All is made in memory, and then written. The graph is a list
   of nodes, in which values have names; constants (initializers) stand among the nodes that use them.

   To export a layer: the nodes that compute it, at its place in ppo__onnx_policy(); ppo__onnx_parameter() makes a
   constant of each of its tensors. */

/* The numbers of the fields in onnx.proto3 that are written. */
enum {
    PPO__ONNX_MODEL_IR_VERSION = 1,
    PPO__ONNX_MODEL_PRODUCER = 2,
    PPO__ONNX_MODEL_PRODUCER_VERSION = 3,
    PPO__ONNX_MODEL_GRAPH = 7,
    PPO__ONNX_MODEL_OPSET = 8,
    PPO__ONNX_MODEL_METADATA = 14,
    PPO__ONNX_OPSET_VERSION = 2,
    PPO__ONNX_GRAPH_NODE = 1,
    PPO__ONNX_GRAPH_NAME = 2,
    PPO__ONNX_GRAPH_INITIALIZER = 5,
    PPO__ONNX_GRAPH_INPUT = 11,
    PPO__ONNX_GRAPH_OUTPUT = 12,
    PPO__ONNX_NODE_INPUT = 1,
    PPO__ONNX_NODE_OUTPUT = 2,
    PPO__ONNX_NODE_NAME = 3,
    PPO__ONNX_NODE_OP = 4,
    PPO__ONNX_NODE_ATTRIBUTE = 5,
    PPO__ONNX_ATTRIBUTE_NAME = 1,
    PPO__ONNX_ATTRIBUTE_INT = 3,
    PPO__ONNX_ATTRIBUTE_TENSOR = 5,
    PPO__ONNX_ATTRIBUTE_INTS = 8,
    PPO__ONNX_ATTRIBUTE_TYPE = 20,
    PPO__ONNX_TENSOR_DIMS = 1,
    PPO__ONNX_TENSOR_TYPE = 2,
    PPO__ONNX_TENSOR_NAME = 8,
    PPO__ONNX_TENSOR_RAW = 9
};

/* Types of numbers, and of attributes. */
enum { PPO__ONNX_FLOAT = 1, PPO__ONNX_INT64 = 7, PPO__ONNX_BOOL = 9 };
enum { PPO__ONNX_IS_INT = 2, PPO__ONNX_IS_TENSOR = 4, PPO__ONNX_IS_INTS = 7 };

/* The name of a value. */
typedef struct ppo__onnx_value {
    char name[40];
} ppo__onnx_value;

typedef struct ppo__onnx_attribute {
    const char *name;
    int count; /* of a list; 0: it is one number, value[0] */
    int value[4];
} ppo__onnx_attribute;

typedef struct ppo__onnx {
    const ppo_agent *agent;
    ppo_onnx_options options;
    unsigned char *bytes; /* of the file, so far */
    size_t size, room;
    int values;          /* as many names were made up */
    unsigned char *used; /* [parameters] 1: it is in the file */
    ppo_status status;   /* after the first failure nothing counts */
} ppo__onnx;

/* -- messages -- */

/* Room for `more` bytes at the end; NULL: there is none. */
static unsigned char *ppo__onnx_room(ppo__onnx *x, size_t more) {
    if (x->status) return NULL;
    if (more > x->room - x->size) {
        const size_t room = 2 * x->room + more + 4096;
        unsigned char *bytes = (unsigned char *)ppo__alloc_uncleared(room);
        if (!bytes) {
            x->status = PPO_ERROR_MEMORY;
            return NULL;
        }
        if (x->size) memcpy(bytes, x->bytes, x->size);
        ppo__free(x->bytes);
        x->bytes = bytes, x->room = room;
    }
    return x->bytes + x->size;
}

/* Seven bits in each byte, the lowest first; the last byte is below 128. Returns the number of bytes, at most 10. */
static size_t ppo__onnx_varint(uint64_t number, unsigned char *bytes) {
    size_t n = 0;
    for (; number > 127; number >>= 7) bytes[n++] = (unsigned char)(number & 127) | 128;
    bytes[n++] = (unsigned char)number;
    return n;
}

static void ppo__onnx_number(ppo__onnx *x, uint64_t number) {
    unsigned char *to = ppo__onnx_room(x, 10);
    if (to) x->size += ppo__onnx_varint(number, to);
}

/* A field's number, and whether it is bytes with a length. */
static void ppo__onnx_tag(ppo__onnx *x, int field, int bytes) {
    ppo__onnx_number(x, (uint64_t)field << 3 | (bytes ? 2 : 0));
}

static void ppo__onnx_int(ppo__onnx *x, int field, int64_t number) {
    ppo__onnx_tag(x, field, 0);
    ppo__onnx_number(x, (uint64_t)number);
}

/* Begins a message, or bytes, whose length is not known yet; what follows up to ppo__onnx_end() belongs to it. */
static size_t ppo__onnx_begin(ppo__onnx *x, int field) {
    ppo__onnx_tag(x, field, 1);
    return x->size;
}

/* Puts the length before what was added since. */
static void ppo__onnx_end(ppo__onnx *x, size_t begin) {
    unsigned char length[10];
    const size_t content = x->size - begin, n = ppo__onnx_varint(content, length);
    if (!ppo__onnx_room(x, n)) return;
    memmove(x->bytes + begin + n, x->bytes + begin, content);
    memcpy(x->bytes + begin, length, n);
    x->size += n;
}

static void ppo__onnx_bytes(ppo__onnx *x, int field, const void *data, size_t size) {
    const size_t begin = ppo__onnx_begin(x, field);
    unsigned char *to = ppo__onnx_room(x, size);
    if (!to) return;
    if (size) memcpy(to, data, size);
    x->size += size;
    ppo__onnx_end(x, begin);
}

static void ppo__onnx_string(ppo__onnx *x, int field, const char *text) {
    ppo__onnx_bytes(x, field, text, strlen(text));
}

/* -- constants -- */

/* The inside of a tensor; its numbers, of 4 or 8 bytes, are at `data`. */
static void ppo__onnx_tensor(ppo__onnx *x, const char *name, int type, const int *dims, int rank,
                             const void *data) {
    size_t n = 1, begin;
    for (int k = 0; k < rank; ++k) {
        ppo__onnx_int(x, PPO__ONNX_TENSOR_DIMS, dims[k]);
        n *= (size_t)dims[k];
    }
    ppo__onnx_int(x, PPO__ONNX_TENSOR_TYPE, type);
    if (*name) ppo__onnx_string(x, PPO__ONNX_TENSOR_NAME, name);
    const int size = type == PPO__ONNX_INT64 ? 8 : 4;
    begin = ppo__onnx_begin(x, PPO__ONNX_TENSOR_RAW);
    unsigned char *to = ppo__onnx_room(x, n * (size_t)size);
    if (!to) return;
    memcpy(to, data, n * (size_t)size);
    ppo__swap_bytes(to, n * (size_t)size, size);
    x->size += n * (size_t)size;
    ppo__onnx_end(x, begin);
}

static void ppo__onnx_constant(ppo__onnx *x, const char *name, int type, const int *dims, int rank,
                               const void *data) {
    const size_t begin = ppo__onnx_begin(x, PPO__ONNX_GRAPH_INITIALIZER);
    ppo__onnx_tensor(x, name, type, dims, rank, data);
    ppo__onnx_end(x, begin);
}

static ppo__onnx_value ppo__onnx_new_name(ppo__onnx *x, const char *what) {
    ppo__onnx_value value;
    snprintf(value.name, sizeof value.name, "%.24s_%d", what, x->values++);
    return value;
}

static ppo__onnx_value ppo__onnx_scalar(ppo__onnx *x, double number) {
    const ppo__onnx_value value = ppo__onnx_new_name(x, "number");
    const float as_float = (float)number;
    ppo__onnx_constant(x, value.name, PPO__ONNX_FLOAT, NULL, 0, &as_float);
    return value;
}

static ppo__onnx_value ppo__onnx_shape(ppo__onnx *x, int n, int64_t first, int64_t second, int64_t third,
                                       int64_t fourth) {
    const ppo__onnx_value value = ppo__onnx_new_name(x, "shape");
    const int64_t numbers[4] = {first, second, third, fourth};
    ppo__onnx_constant(x, value.name, PPO__ONNX_INT64, &n, 1, numbers);
    return value;
}

static void ppo__onnx_floats(ppo__onnx *x, const char *name, const int *dims, int rank, const float *data) {
    size_t n = 1;
    for (int k = 0; k < rank; ++k) n *= (size_t)dims[k];
    for (size_t i = 0; i < n && !x->status; ++i)
        if (!ppo__finite(data[i]))
            x->status = ppo_fail(PPO_ERROR_NUMERIC, "ppo_export_onnx: a number of %s is not finite", name);
    ppo__onnx_constant(x, name, PPO__ONNX_FLOAT, dims, rank, data);
}

/* The name of a parameter, which counts as exported. */
static const char *ppo__onnx_use(ppo__onnx *x, const ppo_tensor *tensor) {
    const ppo_params *params = x->agent->model.params;
    int i = 0;
    while (params->tensors[i] != tensor) ++i;
    x->used[i] = 1;
    return params->names[i];
}

/* A weight (in, out), or a row of numbers, as it is. */
static void ppo__onnx_parameter(ppo__onnx *x, const ppo_tensor *tensor) {
    const int dims[2] = {tensor->rows, tensor->cols}, row = tensor->rows == 1;
    const char *name = ppo__onnx_use(x, tensor);
    const int vector = row && !strstr(name, ".weight");
    ppo__onnx_floats(x, name, dims + vector, 2 - vector, tensor->data);
}

/* -- nodes -- */

/* Adds an operation. Inputs are names, of which one text may have several, separated by spaces; NULL: no more. Returns
   its output: the name that is given, or NULL: a new one. */
static ppo__onnx_value ppo__onnx_node(ppo__onnx *x, const char *output, const char *op,
                                      const ppo__onnx_attribute *attribute, int attributes, const char *first,
                                      const char *second, const char *third, const char *fourth) {
    const char *const inputs[4] = {first, second, third, fourth};
    ppo__onnx_value value = ppo__onnx_new_name(x, op);
    const size_t node = ppo__onnx_begin(x, PPO__ONNX_GRAPH_NODE);
    for (int k = 0; k < 4 && inputs[k]; ++k)
        for (const char *at = inputs[k]; *at; at += strcspn(at, " "), at += strspn(at, " "))
            ppo__onnx_bytes(x, PPO__ONNX_NODE_INPUT, at, strcspn(at, " "));
    ppo__onnx_string(x, PPO__ONNX_NODE_NAME, value.name);
    if (output) snprintf(value.name, sizeof value.name, "%s", output);
    ppo__onnx_string(x, PPO__ONNX_NODE_OUTPUT, value.name);
    ppo__onnx_string(x, PPO__ONNX_NODE_OP, op);
    for (int k = 0; k < attributes; ++k) {
        const ppo__onnx_attribute *a = &attribute[k];
        const size_t begin = ppo__onnx_begin(x, PPO__ONNX_NODE_ATTRIBUTE);
        ppo__onnx_string(x, PPO__ONNX_ATTRIBUTE_NAME, a->name);
        if (!a->count) ppo__onnx_int(x, PPO__ONNX_ATTRIBUTE_INT, a->value[0]);
        for (int i = 0; i < a->count; ++i) ppo__onnx_int(x, PPO__ONNX_ATTRIBUTE_INTS, a->value[i]);
        ppo__onnx_int(x, PPO__ONNX_ATTRIBUTE_TYPE, a->count ? PPO__ONNX_IS_INTS : PPO__ONNX_IS_INT);
        ppo__onnx_end(x, begin);
    }
    ppo__onnx_end(x, node);
    return value;
}

/* An operation of one or two values, without attributes. */
static ppo__onnx_value ppo__onnx_of(ppo__onnx *x, const char *op, ppo__onnx_value a) {
    return ppo__onnx_node(x, NULL, op, NULL, 0, a.name, NULL, NULL, NULL);
}

static ppo__onnx_value ppo__onnx_of_two(ppo__onnx *x, const char *op, ppo__onnx_value a, ppo__onnx_value b) {
    return ppo__onnx_node(x, NULL, op, NULL, 0, a.name, b.name, NULL, NULL);
}

static ppo__onnx_value ppo__onnx_by(ppo__onnx *x, const char *op, ppo__onnx_value a, double number) {
    return ppo__onnx_of_two(x, op, a, ppo__onnx_scalar(x, number));
}

/* Columns from .. to - 1. */
static ppo__onnx_value ppo__onnx_columns(ppo__onnx *x, ppo__onnx_value a, int from, int to) {
    const ppo__onnx_value begin = ppo__onnx_shape(x, 1, from, 0, 0, 0),
                          end = ppo__onnx_shape(x, 1, to, 0, 0, 0);
    const ppo__onnx_value axis = ppo__onnx_shape(x, 1, 1, 0, 0, 0);
    return ppo__onnx_node(x, NULL, "Slice", NULL, 0, a.name, begin.name, end.name, axis.name);
}

/* Columns of a, then those of b. */
static ppo__onnx_value ppo__onnx_concat(ppo__onnx *x, ppo__onnx_value a, ppo__onnx_value b) {
    static const ppo__onnx_attribute axis = {"axis", 0, {1}};
    return ppo__onnx_node(x, NULL, "Concat", &axis, 1, a.name, b.name, NULL, NULL);
}

/* Rows of n numbers. */
static ppo__onnx_value ppo__onnx_rows(ppo__onnx *x, ppo__onnx_value a, int n) {
    return ppo__onnx_of_two(x, "Reshape", a, ppo__onnx_shape(x, 2, 0, n, 0, 0));
}

/* -- layers -- */

static ppo__onnx_value ppo__onnx_activate(ppo__onnx *x, ppo__onnx_value a, int activation) {
    ppo__onnx_value inner;
    switch (activation) {
    case PPO_TANH:
        return ppo__onnx_of(x, "Tanh", a);
    case PPO_RELU:
        return ppo__onnx_of(x, "Relu", a);
    case PPO_ELU:
        return ppo__onnx_of(x, "Elu", a);
    case PPO_SILU:
        return ppo__onnx_of_two(x, "Mul", a, ppo__onnx_of(x, "Sigmoid", a));
    case PPO_GELU: /* 0.5 a (1 + tanh(sqrt(2 / pi) a (1 + 0.044715 a^2))) */
        inner = ppo__onnx_by(x, "Mul", ppo__onnx_of_two(x, "Mul", a, a), 0.044715);
        inner = ppo__onnx_of_two(x, "Mul", a, ppo__onnx_by(x, "Add", inner, 1));
        inner = ppo__onnx_of(x, "Tanh", ppo__onnx_by(x, "Mul", inner, 0.7978845608028654));
        break;
    case PPO_GELU_ERF:
        inner = ppo__onnx_of(x, "Erf", ppo__onnx_by(x, "Mul", a, 0.7071067811865476));
        break;
    default:
        return a;
    }
    return ppo__onnx_of_two(x, "Mul", ppo__onnx_by(x, "Mul", a, 0.5), ppo__onnx_by(x, "Add", inner, 1));
}

/* a w + b */
static ppo__onnx_value ppo__onnx_linear(ppo__onnx *x, ppo__onnx_value a, const ppo_tensor *w,
                                        const ppo_tensor *b) {
    ppo__onnx_parameter(x, w);
    ppo__onnx_parameter(x, b);
    return ppo__onnx_node(x, NULL, "Gemm", NULL, 0, a.name, ppo__onnx_use(x, w), ppo__onnx_use(x, b), NULL);
}

static ppo__onnx_value ppo__onnx_norm(ppo__onnx *x, ppo__onnx_value a, const ppo_tensor *w,
                                      const ppo_tensor *b) {
    static const ppo__onnx_attribute columns[] = {{"axes", 1, {1}}, {"keepdims", 0, {1}}};
    const ppo__onnx_value mean = ppo__onnx_node(x, NULL, "ReduceMean", columns, 2, a.name, NULL, NULL, NULL);
    const ppo__onnx_value shift = ppo__onnx_of_two(x, "Sub", a, mean);
    const ppo__onnx_value square = ppo__onnx_of_two(x, "Mul", shift, shift);
    const ppo__onnx_value var =
        ppo__onnx_node(x, NULL, "ReduceMean", columns, 2, square.name, NULL, NULL, NULL);
    const ppo__onnx_value std = ppo__onnx_of(x, "Sqrt", ppo__onnx_by(x, "Add", var, 1e-5));
    ppo__onnx_parameter(x, w);
    ppo__onnx_parameter(x, b);
    a = ppo__onnx_of_two(x, "Div", shift, std);
    a = ppo__onnx_node(x, NULL, "Mul", NULL, 0, a.name, ppo__onnx_use(x, w), NULL, NULL);
    return ppo__onnx_node(x, NULL, "Add", NULL, 0, a.name, ppo__onnx_use(x, b), NULL, NULL);
}

/* Layers from .. to - 1. */
static ppo__onnx_value ppo__onnx_layers(ppo__onnx *x, const ppo_mlp *mlp, ppo__onnx_value a, int from,
                                        int to) {
    for (int k = from; k < to; ++k) {
        a = ppo__onnx_linear(x, a, mlp->weight[k], mlp->bias[k]);
        if (mlp->norm_weight[k]) a = ppo__onnx_norm(x, a, mlp->norm_weight[k], mlp->norm_bias[k]);
        a = ppo__onnx_activate(x, a, k == mlp->layers - 1 ? mlp->last_activation : mlp->hidden_activation);
    }
    return a;
}

/* A weight (kernel kernel channels, out), whose rows go through a square pixel by pixel, in ONNX's order: (out,
   channels, kernel, kernel). */
static void ppo__onnx_conv_weight(ppo__onnx *x, const ppo_tensor *w, int channels, int kernel) {
    const int dims[4] = {w->cols, channels, kernel, kernel}, square = kernel * kernel;
    float *turned = (float *)ppo__alloc(ppo__size(w) * sizeof(float)), *to = turned;
    if (!turned) x->status = PPO_ERROR_MEMORY;
    if (x->status) return;
    for (int j = 0; j < w->cols; ++j)
        for (int c = 0; c < channels; ++c)
            for (int k = 0; k < square; ++k) *to++ = w->data[ppo__at(k * channels + c, w->cols) + j];
    ppo__onnx_floats(x, ppo__onnx_use(x, w), dims, 4, turned);
    ppo__free(turned);
}

/* Rows of pictures, plane by plane -> rows of the results, pixel by pixel. */
static ppo__onnx_value ppo__onnx_convolve(ppo__onnx *x, ppo__onnx_value a) {
    static const ppo__onnx_attribute pixels = {"perm", 4, {0, 2, 3, 1}};
    const ppo_conv *conv = &x->agent->model.conv;
    const int *shape = conv->shape[0];
    a = ppo__onnx_of_two(x, "Reshape", a, ppo__onnx_shape(x, 4, 0, shape[0], shape[1], shape[2]));
    for (int k = 0; k < conv->layers; ++k) {
        const int kernel = conv->kernel[k], stride = conv->stride[k];
        const ppo__onnx_attribute window[2] = {{"kernel_shape", 2, {kernel, kernel}},
                                               {"strides", 2, {stride, stride}}};
        if (!conv->weight[k]) {
            a = ppo__onnx_node(x, NULL, "MaxPool", window, 2, a.name, NULL, NULL, NULL);
            continue;
        }
        ppo__onnx_conv_weight(x, conv->weight[k], conv->shape[k][0], kernel);
        ppo__onnx_parameter(x, conv->bias[k]);
        a = ppo__onnx_node(x, NULL, "Conv", window, 2, a.name, ppo__onnx_use(x, conv->weight[k]),
                           ppo__onnx_use(x, conv->bias[k]), NULL);
        a = ppo__onnx_activate(x, a, conv->activation);
    }
    a = ppo__onnx_node(x, NULL, "Transpose", &pixels, 1, a.name, NULL, NULL, NULL);
    return ppo__onnx_rows(x, a, ppo__picture_size(conv->shape[conv->layers]));
}

/* One step from a state: ppo_gru.h has the formulas. */
static ppo__onnx_value ppo__onnx_recur(ppo__onnx *x, ppo__onnx_value a, ppo__onnx_value state) {
    const ppo_gru *core = &x->agent->model.core;
    const int w = core->width;
    const ppo__onnx_value in = ppo__onnx_linear(x, a, core->input_weight, core->input_bias);
    const ppo__onnx_value old = ppo__onnx_linear(x, state, core->state_weight, core->state_bias);
    const ppo__onnx_value sum =
        ppo__onnx_of_two(x, "Add", ppo__onnx_columns(x, in, 0, 2 * w), ppo__onnx_columns(x, old, 0, 2 * w));
    const ppo__onnx_value gates = ppo__onnx_of(x, "Sigmoid", sum);
    const ppo__onnx_value r = ppo__onnx_columns(x, gates, 0, w), z = ppo__onnx_columns(x, gates, w, 2 * w);
    const ppo__onnx_value inner = ppo__onnx_of_two(x, "Mul", r, ppo__onnx_columns(x, old, 2 * w, 3 * w));
    const ppo__onnx_value n =
        ppo__onnx_of(x, "Tanh", ppo__onnx_of_two(x, "Add", ppo__onnx_columns(x, in, 2 * w, 3 * w), inner));
    const ppo__onnx_value change = ppo__onnx_of_two(x, "Mul", z, ppo__onnx_of_two(x, "Sub", state, n));
    return ppo__onnx_of_two(x, "Add", n, change);
}

/* -- inputs and outputs -- */

/* Declares an input or output of n rows: dims [rank] are those of a row; fixed: there are no rows, dims are all. */
static void ppo__onnx_declare(ppo__onnx *x, int field, const char *name, int type, const int *dims, int rank,
                              int fixed) {
    const size_t value = ppo__onnx_begin(x, field);
    ppo__onnx_string(x, 1, name);
    const size_t whole = ppo__onnx_begin(x, 2), tensor = ppo__onnx_begin(x, 1);
    ppo__onnx_int(x, 1, type);
    const size_t shape = ppo__onnx_begin(x, 2);
    for (int k = fixed ? 0 : -1; k < rank; ++k) {
        const size_t dim = ppo__onnx_begin(x, 1);
        if (k < 0) ppo__onnx_string(x, 2, "batch");
        else ppo__onnx_int(x, 1, dims[k]);
        ppo__onnx_end(x, dim);
    }
    ppo__onnx_end(x, shape);
    ppo__onnx_end(x, tensor);
    ppo__onnx_end(x, whole);
    ppo__onnx_end(x, value);
}

static ppo__onnx_value ppo__onnx_input(ppo__onnx *x, const char *name, int type, const int *dims, int rank) {
    ppo__onnx_value value;
    snprintf(value.name, sizeof value.name, "%s", name);
    ppo__onnx_declare(x, PPO__ONNX_GRAPH_INPUT, name, type, dims, rank, 0);
    return value;
}

/* n numbers in each row; 0: one, and the output has no columns. */
static void ppo__onnx_declare_output(ppo__onnx *x, const char *name, int type, int n) {
    ppo__onnx_declare(x, PPO__ONNX_GRAPH_OUTPUT, name, type, &n, n > 0, 0);
}

/* A value that is known already becomes an output of floats. */
static void ppo__onnx_output(ppo__onnx *x, ppo__onnx_value a, const char *name, int n) {
    ppo__onnx_node(x, name, "Identity", NULL, 0, a.name, NULL, NULL, NULL);
    ppo__onnx_declare_output(x, name, PPO__ONNX_FLOAT, n);
}

/* ML-Agents' outputs that are constants: floats of these dims. */
static void ppo__onnx_fact(ppo__onnx *x, const char *name, const int *numbers, int n, int rank) {
    float data[PPO_MAX_CHOICES];
    const int dims[2] = {1, n};
    for (int k = 0; k < n; ++k) data[k] = (float)numbers[k];
    ppo__onnx_declare(x, PPO__ONNX_GRAPH_OUTPUT, name, PPO__ONNX_FLOAT, dims + 2 - rank, rank, 1);
    const size_t node = ppo__onnx_begin(x, PPO__ONNX_GRAPH_NODE);
    ppo__onnx_string(x, PPO__ONNX_NODE_OUTPUT, name);
    ppo__onnx_string(x, PPO__ONNX_NODE_NAME, name);
    ppo__onnx_string(x, PPO__ONNX_NODE_OP, "Constant");
    const size_t attribute = ppo__onnx_begin(x, PPO__ONNX_NODE_ATTRIBUTE);
    ppo__onnx_string(x, PPO__ONNX_ATTRIBUTE_NAME, "value");
    const size_t tensor = ppo__onnx_begin(x, PPO__ONNX_ATTRIBUTE_TENSOR);
    ppo__onnx_tensor(x, "", PPO__ONNX_FLOAT, dims + 2 - rank, rank, data);
    ppo__onnx_end(x, tensor);
    ppo__onnx_int(x, PPO__ONNX_ATTRIBUTE_TYPE, PPO__ONNX_IS_TENSOR);
    ppo__onnx_end(x, attribute);
    ppo__onnx_end(x, node);
}

/* The first `size` numbers of observations, as rows. */
static ppo__onnx_value ppo__onnx_observation(ppo__onnx *x, int size) {
    const int *shape = x->agent->model.conv.shape[0];
    const int picture = x->agent->model.conv.layers ? ppo__picture_size(shape) : 0, rest = size - picture;
    if (!x->options.names) return ppo__onnx_input(x, "input", PPO__ONNX_FLOAT, &size, 1);
    if (!picture) return ppo__onnx_input(x, "obs_0", PPO__ONNX_FLOAT, &size, 1);
    const ppo__onnx_value seen = ppo__onnx_input(x, "obs_0", PPO__ONNX_FLOAT, shape, 3);
    const ppo__onnx_value rows = ppo__onnx_rows(x, seen, picture);
    return rest ? ppo__onnx_concat(x, rows, ppo__onnx_input(x, "obs_1", PPO__ONNX_FLOAT, &rest, 1)) : rows;
}

/* (a - mean) / std, clipped. What rounding the mean to a float leaves out is subtracted, too. */
static ppo__onnx_value ppo__onnx_normalize(ppo__onnx *x, ppo__onnx_value a, int size) {
    static const char *const names[] = {"obs_norm.mean", "obs_norm.rest", "obs_norm.scale"};
    const ppo_normalizer *norm = &x->agent->obs_norm;
    const double limit = (double)x->agent->clip_obs;
    float *numbers = norm->size ? (float *)ppo__alloc((size_t)size * sizeof(float)) : NULL;
    if (!norm->size) return a;
    if (!numbers) x->status = PPO_ERROR_MEMORY;
    for (int k = 0; k < 3 && numbers; ++k) {
        for (int j = 0; j < size; ++j) {
            const float mean = fabs(norm->mean[j]) <= FLT_MAX ? (float)norm->mean[j] : INFINITY;
            const float scale = (float)fmin(ppo__inv_std(norm->var[j]), FLT_MAX);
            numbers[j] = k == 0 ? mean : k == 1 ? (float)(norm->mean[j] - (double)mean) : scale;
        }
        ppo__onnx_floats(x, names[k], &size, 1, numbers);
        a = ppo__onnx_node(x, NULL, k < 2 ? "Sub" : "Mul", NULL, 0, a.name, names[k], NULL, NULL);
    }
    ppo__free(numbers);
    const ppo__onnx_value low = ppo__onnx_scalar(x, -limit), high = ppo__onnx_scalar(x, limit);
    return ppo__onnx_node(x, NULL, "Clip", NULL, 0, a.name, low.name, high.name, NULL);
}

/* log_std (rows, n), by the features of gsde or the same in all rows. */
static ppo__onnx_value ppo__onnx_log_std(ppo__onnx *x, ppo__onnx_value mean, ppo__onnx_value features) {
    const ppo_actor_critic *model = &x->agent->model;
    const ppo_tensor *log_std = model->log_std;
    const int dims[2] = {log_std->rows, log_std->cols};
    const char *name = model->gsde ? "variance" : "log_std.constant";
    float *numbers = (float *)ppo__alloc(ppo__size(log_std) * sizeof(float));
    if (!numbers) x->status = PPO_ERROR_MEMORY;
    ppo__onnx_use(x, log_std);
    for (size_t i = 0; i < ppo__size(log_std) && numbers; ++i) {
        const float number = ppo__finite(log_std->data[i]) ? ppo__log_std_at(model, i) : NAN;
        numbers[i] = model->gsde ? expf(2 * number) : number;
    }
    if (numbers) ppo__onnx_floats(x, name, dims, 2, numbers);
    ppo__free(numbers);
    if (!model->gsde) {
        const ppo__onnx_value shape = ppo__onnx_of(x, "Shape", mean);
        return ppo__onnx_node(x, NULL, "Expand", NULL, 0, name, shape.name, NULL, NULL);
    }
    const ppo__onnx_value square = ppo__onnx_of_two(x, "Mul", features, features);
    const ppo__onnx_value variance =
        ppo__onnx_node(x, NULL, "MatMul", NULL, 0, square.name, name, NULL, NULL);
    return ppo__onnx_by(x, "Mul", ppo__onnx_of(x, "Log", ppo__onnx_by(x, "Add", variance, 1e-6)), 0.5);
}

/* Numbers of the Gaussian, brought into the box, as an output. */
static void ppo__onnx_into_box(ppo__onnx *x, ppo__onnx_value u, const char *name) {
    const ppo_actor_critic *model = &x->agent->model;
    const ppo_space *space = &model->action_space;
    const double half = (double)ppo__box_half(space), centre = (double)ppo__box_centre(space);
    if (model->squash) u = ppo__onnx_by(x, "Add", ppo__onnx_of(x, "Tanh", u), 1);
    if (model->squash || model->scale)
        u = ppo__onnx_by(x, "Add", ppo__onnx_by(x, "Mul", u, half),
                         model->squash ? (double)space->low : centre);
    const ppo__onnx_value low = ppo__onnx_scalar(x, (double)ppo__clamp(space->low, -FLT_MAX, FLT_MAX));
    const ppo__onnx_value high = ppo__onnx_scalar(x, (double)ppo__clamp(space->high, -FLT_MAX, FLT_MAX));
    ppo__onnx_node(x, name, "Clip", NULL, 0, u.name, low.name, high.name, NULL);
    ppo__onnx_declare_output(x, name, PPO__ONNX_FLOAT, space->n);
}

/* The option of each choice, the most likely or sampled, as an output. */
static void ppo__onnx_choose(ppo__onnx *x, ppo__onnx_value logits, int sampled, const char *name) {
    static const ppo__onnx_attribute column[] = {{"axis", 0, {1}}, {"keepdims", 0, {1}}};
    static const ppo__onnx_attribute alone[] = {{"axis", 0, {1}}, {"keepdims", 0, {0}}};
    static const ppo__onnx_attribute draw[] = {{"sample_size", 0, {1}}, {"dtype", 0, {PPO__ONNX_INT64}}};
    const ppo_space *space = &x->agent->model.action_space;
    const int flat = space->kind == PPO_DISCRETE && !x->options.names;
    char chosen[40 * PPO_MAX_CHOICES] = "";
    int heads;
    const int *sizes = ppo__space_heads(space, &heads);
    for (int h = 0, from = 0; h < heads; from += sizes[h++]) {
        const ppo__onnx_value head = heads > 1 ? ppo__onnx_columns(x, logits, from, from + sizes[h]) : logits;
        const char *output = heads > 1 ? NULL : name;
        const ppo__onnx_value option =
            sampled
                ? ppo__onnx_node(x, output, "Multinomial", draw, 2, head.name, NULL, NULL, NULL)
                : ppo__onnx_node(x, output, "ArgMax", flat ? alone : column, 2, head.name, NULL, NULL, NULL);
        sprintf(chosen + strlen(chosen), " %s", option.name);
    }
    if (heads > 1) ppo__onnx_node(x, name, "Concat", column, 1, chosen + 1, NULL, NULL, NULL);
    ppo__onnx_declare_output(x, name, PPO__ONNX_INT64, flat ? 0 : heads);
}

/* -- the policy -- */

/* The logits of what the mask allows. */
static ppo__onnx_value ppo__onnx_mask(ppo__onnx *x, ppo__onnx_value logits) {
    const int n = ppo__space_outputs(&x->agent->model.action_space);
    const int type = x->options.names ? PPO__ONNX_FLOAT : PPO__ONNX_BOOL;
    ppo__onnx_value mask = ppo__onnx_input(x, "action_masks", type, &n, 1);
    if (x->options.names) mask = ppo__onnx_by(x, "Greater", mask, 0.5);
    const ppo__onnx_value none = ppo__onnx_scalar(x, -FLT_MAX);
    return ppo__onnx_node(x, NULL, "Where", NULL, 0, mask.name, logits.name, none.name, NULL);
}

/* The outputs that ML-Agents expects first, and then actions. */
static void ppo__onnx_unity_actions(ppo__onnx *x, ppo__onnx_value policy, ppo__onnx_value log_std) {
    const ppo_space *space = &x->agent->model.action_space;
    const int version = 3, width = x->agent->model.core.width;
    int heads;
    const int *sizes = ppo__space_heads(space, &heads);
    ppo__onnx_fact(x, "version_number", &version, 1, 1);
    ppo__onnx_fact(x, "memory_size", &width, 1, 1);
    if (!ppo__kind(space)->continuous) {
        ppo__onnx_choose(x, policy, 1, "discrete_actions");
        ppo__onnx_fact(x, "discrete_action_output_shape", sizes, heads, 2);
        ppo__onnx_choose(x, policy, 0, "deterministic_discrete_actions");
        return;
    }
    const ppo__onnx_value std = ppo__onnx_of(x, "Exp", log_std);
    const ppo__onnx_value noise =
        ppo__onnx_of_two(x, "Mul", std, ppo__onnx_of(x, "RandomNormalLike", policy));
    ppo__onnx_into_box(x, ppo__onnx_of_two(x, "Add", policy, noise), "continuous_actions");
    ppo__onnx_fact(x, "continuous_action_output_shape", &space->n, 1, 1);
    ppo__onnx_into_box(x, policy, "deterministic_continuous_actions");
}

/* All nodes, inputs and outputs. */
static void ppo__onnx_policy(ppo__onnx *x) {
    const ppo_actor_critic *model = &x->agent->model;
    const ppo_space *space = &model->action_space;
    const int unity = x->options.names == PPO_ONNX_ML_AGENTS, continuous = ppo__kind(space)->continuous;
    const int seen = model->actor_obs, size = x->options.value ? model->obs_size : seen;
    const int picture = seen - ppo__beside_picture(model), width = model->core.width;
    const int outputs = ppo__space_outputs(space), state_dims[2] = {1, width}, last = model->actor.layers - 1;
    ppo__onnx_value all = ppo__onnx_normalize(x, ppo__onnx_observation(x, size), size), a = all, log_std,
                    state;
    if (size > seen) a = ppo__onnx_columns(x, a, 0, seen);
    if (model->conv.layers) {
        const ppo__onnx_value before = a;
        a = ppo__onnx_convolve(x, picture < seen ? ppo__onnx_columns(x, a, 0, picture) : a);
        if (picture < seen) a = ppo__onnx_concat(x, a, ppo__onnx_columns(x, before, picture, seen));
    }
    a = ppo__onnx_layers(x, &model->trunk, a, 0, model->trunk.layers);
    if (width) {
        state = ppo__onnx_input(x, "recurrent_in", PPO__ONNX_FLOAT, state_dims + !unity, 1 + unity);
        a = state = ppo__onnx_recur(x, a, unity ? ppo__onnx_rows(x, state, width) : state);
    }
    const ppo__onnx_value features = ppo__onnx_layers(x, &model->actor, a, 0, last);
    ppo__onnx_value policy = ppo__onnx_layers(x, &model->actor, features, last, last + 1);
    log_std = policy;
    if (continuous) log_std = ppo__onnx_log_std(x, policy, features);
    else if (x->options.mask) policy = ppo__onnx_mask(x, policy);
    if (unity) ppo__onnx_unity_actions(x, policy, log_std);
    else if (continuous) ppo__onnx_into_box(x, policy, "actions");
    else ppo__onnx_choose(x, policy, 0, "actions");
    if (x->options.value) {
        if (size > seen) a = ppo__onnx_concat(x, a, ppo__onnx_columns(x, all, seen, size));
        a = ppo__onnx_layers(x, &model->critic, a, 0, model->critic.layers);
        ppo__onnx_output(x, a, unity ? "value_estimate" : "values", 1);
    }
    if (!unity) ppo__onnx_output(x, policy, continuous ? "mean" : "logits", outputs);
    if (!unity && continuous) ppo__onnx_output(x, log_std, "log_std", outputs);
    if (!width) return;
    if (unity) state = ppo__onnx_of_two(x, "Reshape", state, ppo__onnx_shape(x, 3, 0, 1, width, 0));
    ppo__onnx_node(x, "recurrent_out", "Identity", NULL, 0, state.name, NULL, NULL, NULL);
    ppo__onnx_declare(x, PPO__ONNX_GRAPH_OUTPUT, "recurrent_out", PPO__ONNX_FLOAT, state_dims + !unity,
                      1 + unity, 0);
}

/* A text about the policy, in letters that are UTF-8 whatever they were. */
static void ppo__onnx_about(ppo__onnx *x, const char *key, const char *text) {
    char letters[PPO__SPACE_SIZE];
    const size_t entry = ppo__onnx_begin(x, PPO__ONNX_MODEL_METADATA);
    snprintf(letters, sizeof letters, "%s", text);
    for (char *c = letters; *c; ++c) *c = *c < ' ' || *c > '~' ? '_' : *c;
    ppo__onnx_string(x, 1, key);
    ppo__onnx_string(x, 2, letters);
    ppo__onnx_end(x, entry);
}

static void ppo__onnx_model(ppo__onnx *x) {
    char space[PPO__SPACE_SIZE];
    ppo__space_text(&x->agent->model.action_space, space);
    ppo__onnx_int(x, PPO__ONNX_MODEL_IR_VERSION, 7);
    ppo__onnx_string(x, PPO__ONNX_MODEL_PRODUCER, "ppo.h");
    ppo__onnx_string(x, PPO__ONNX_MODEL_PRODUCER_VERSION, PPO_VERSION);
    const size_t graph = ppo__onnx_begin(x, PPO__ONNX_MODEL_GRAPH);
    ppo__onnx_string(x, PPO__ONNX_GRAPH_NAME, "policy");
    ppo__onnx_policy(x);
    ppo__onnx_end(x, graph);
    const size_t opset = ppo__onnx_begin(x, PPO__ONNX_MODEL_OPSET);
    ppo__onnx_int(x, PPO__ONNX_OPSET_VERSION, 13);
    ppo__onnx_end(x, opset);
    ppo__onnx_about(x, "environment", x->agent->environment);
    ppo__onnx_about(x, "action_space", space);
}

static ppo_status ppo__onnx_write(FILE *out, const char *path, void *user) {
    const ppo__onnx *x = (const ppo__onnx *)user;
    fwrite(x->bytes, 1, x->size, out);
    return PPO_OK;
}

/* What cannot be exported this way. */
static ppo_status ppo__onnx_check(const ppo_agent *agent, const ppo_onnx_options *options) {
    const ppo_space *space = &agent->model.action_space;
    if (options->names < PPO_ONNX_STANDARD || options->names > PPO_ONNX_ML_AGENTS)
        return ppo__refuse("ppo_export_onnx: there are no names %d", (int)options->names);
    if (options->mask && ppo__kind(space)->continuous)
        return ppo__refuse("ppo_export_onnx: mask has no effect: the actions are numbers of a box");
    if (options->value && !agent->config.use_critic)
        return ppo__refuse("ppo_export_onnx: there is no value: use_critic is no");
    if (agent->model.params->count <= (size_t)INT32_MAX / sizeof(float) - (1 << 20)) return PPO_OK;
    return ppo__refuse("ppo_export_onnx: %.0f weights are more than the 2 GB of an ONNX file",
                       (double)agent->model.params->count);
}

PPO_DEF ppo_status ppo_export_onnx(const ppo_agent *agent, const char *path,
                                   const ppo_onnx_options *options) {
    if (!PPO__GIVEN("ppo_export_onnx", agent, path)) return PPO_ERROR_ARGUMENT;
    ppo__onnx x;
    memset(&x, 0, sizeof x);
    x.agent = agent;
    if (options) x.options = *options;
    x.status = ppo__onnx_check(agent, &x.options);
    if (x.options.names && !ppo__kind(&agent->model.action_space)->continuous) x.options.mask = 1;
    const ppo_params *params = agent->model.params;
    if (!x.status) x.used = (unsigned char *)ppo__alloc((size_t)params->tensor_count);
    if (!x.status && !x.used) x.status = PPO_ERROR_MEMORY;
    if (!x.status) ppo__onnx_model(&x);
    for (int i = 0; i < params->tensor_count && !x.status; ++i)
        if (!x.used[i] && (x.options.value || strncmp(params->names[i], "critic.", 7)))
            x.status =
                ppo__refuse("ppo_export_onnx: does not know the parameter \"%.100s\"", params->names[i]);
    if (!x.status) x.status = ppo__write_file(path, ppo__onnx_write, &x);
    ppo__free(x.used);
    ppo__free(x.bytes);
    return x.status;
}

PPO__WARNINGS_BACK

#endif
#endif
