/* ppo_onnx.h: what is written is read back by a reader of protobuf of this file's own, which knows nothing of the
   writer; the graph must be one that ONNX allows, and what it computes, operation by operation in double precision,
   must be what ppo_act_many() and the networks answer. `make doors` asks ONNX's checker and ONNX Runtime, too. */
#include "../ppo.h"
#include "../examples/companions/ppo_conv.h"
#include "../examples/companions/ppo_gru.h"
#include "../examples/companions/ppo_onnx.h"

#include "test.h"
#include "system.h"

enum { CHANNELS = 2, HEIGHT = 3, WIDTH = 5, OBS = CHANNELS * HEIGHT * WIDTH, ROWS = 6, RANK = 4 };
enum { NODES = 256, VALUES = 512, INPUTS = 12, NAME = 64 };

/* --------------------------------------------------------------------------------------------------------
   Reading protobuf
   -------------------------------------------------------------------------------------------------------- */

typedef struct message {
    const unsigned char *at, *end;
} message;

typedef struct field {
    int number;
    uint64_t value;  /* of an integer */
    message content; /* of bytes */
} field;

static uint64_t varint(message *m) {
    uint64_t x = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        assert_true(m->at < m->end);
        x |= (uint64_t)(*m->at & 127) << shift;
        if (*m->at++ < 128) return x;
    }
    fail_msg("a number does not end");
    return 0;
}

/* 0: the message has ended. */
static int next(message *m, field *f) {
    if (m->at == m->end) return 0;
    const uint64_t tag = varint(m);
    f->number = (int)(tag >> 3);
    f->value = varint(m); /* the length of bytes */
    assert_true((tag & 7) == 0 || (tag & 7) == 2);
    f->content.at = f->content.end = m->at;
    if ((tag & 7) == 0) return 1;
    assert_true(f->value <= (uint64_t)(m->end - m->at));
    f->content.end = m->at += f->value;
    return 1;
}

static void text_of(const field *f, char text[NAME]) {
    const size_t n = (size_t)(f->content.end - f->content.at);
    assert_in_range(n, 1, NAME - 1);
    memcpy(text, f->content.at, n);
    text[n] = 0;
}

/* --------------------------------------------------------------------------------------------------------
   The graph
   -------------------------------------------------------------------------------------------------------- */

typedef struct value {
    char name[NAME];
    int type, rank, dims[RANK]; /* dims -1: the batch */
    double *data;
    int used;
} value;

typedef struct node {
    char op[NAME], input[INPUTS][NAME], output[NAME];
    int inputs, axis, keepdims, axes, perm[RANK], kernel[2], strides[2], dtype;
    value tensor; /* of a Constant */
} node;

typedef struct graph {
    int nodes, values, inputs, outputs; /* values: constants, then inputs, then results */
    node node[NODES];
    value value[VALUES], input[INPUTS], output[INPUTS];
    int64_t ir, opset;
    char producer[NAME], version[NAME], environment[NAME], space[NAME];
} graph;

static size_t count_of(const value *v) {
    size_t n = 1;
    for (int k = 0; k < v->rank; k++) n *= (size_t)v->dims[k];
    return n;
}

static value *find(graph *g, const char *name) {
    for (int i = 0; i < g->values; i++)
        if (strcmp(g->value[i].name, name) == 0) return &g->value[i];
    return NULL;
}

/* Names are given once. */
static value *add(graph *g, const char *name, int rank, const int *dims) {
    assert_true(g->values < VALUES && rank <= RANK && !find(g, name));
    value *v = &g->value[g->values++];
    memset(v, 0, sizeof *v);
    snprintf(v->name, NAME, "%s", name);
    v->rank = rank;
    for (int k = 0; k < rank; k++) v->dims[k] = dims[k];
    v->data = (double *)calloc(count_of(v) + 1, sizeof(double));
    assert_non_null(v->data);
    return v;
}

static value read_tensor(message m) {
    value v;
    field f;
    message raw = {NULL, NULL};
    memset(&v, 0, sizeof v);
    while (next(&m, &f)) {
        if (f.number == 1) v.dims[v.rank++] = (int)f.value;
        if (f.number == 2) v.type = (int)f.value;
        if (f.number == 8) text_of(&f, v.name);
        if (f.number == 9) raw = f.content;
        assert_true(f.number == 1 || f.number == 2 || f.number == 8 || f.number == 9);
        assert_true(v.rank <= RANK);
    }
    const size_t n = count_of(&v), size = v.type == 7 ? 8 : 4;
    assert_true(v.type == 1 || v.type == 7);
    assert_int_equal(raw.end - raw.at, n * size); /* as many numbers as the shape says */
    v.data = (double *)calloc(n + 1, sizeof(double));
    for (size_t i = 0; i < n; i++) {
        float x;
        int64_t k;
        memcpy(&x, raw.at + i * size, sizeof x);
        if (size == 8) memcpy(&k, raw.at + i * size, sizeof k), v.data[i] = (double)k;
        else v.data[i] = (double)x;
    }
    return v;
}

static void read_attribute(node *n, message m) {
    char name[NAME] = "";
    int64_t one = 0, list[RANK] = {0};
    int count = 0, type = 0;
    message tensor = {NULL, NULL};
    for (field f; next(&m, &f);) {
        if (f.number == 1) text_of(&f, name);
        else if (f.number == 3) one = (int64_t)f.value;
        else if (f.number == 8 && count < RANK) list[count++] = (int64_t)f.value;
        else if (f.number == 5) tensor = f.content;
        else if (f.number == 20) type = (int)f.value;
        else fail_msg("an attribute has a field %d", f.number);
    }
    assert_int_equal(type, tensor.at ? 4 : count ? 7 : 2); /* INT, TENSOR or INTS */
    if (strcmp(name, "axis") == 0) n->axis = (int)one;
    else if (strcmp(name, "keepdims") == 0) n->keepdims = (int)one;
    else if (strcmp(name, "dtype") == 0) n->dtype = (int)one;
    else if (strcmp(name, "sample_size") == 0) assert_int_equal(one, 1);
    else if (strcmp(name, "value") == 0) n->tensor = read_tensor(tensor);
    else if (strcmp(name, "axes") == 0) n->axes = count == 1 ? (int)list[0] : -1;
    else if (strcmp(name, "perm") == 0)
        for (int k = 0; k < RANK; k++) n->perm[k] = (int)list[k];
    else if (strcmp(name, "kernel_shape") == 0 && count == 2)
        n->kernel[0] = (int)list[0], n->kernel[1] = (int)list[1];
    else if (strcmp(name, "strides") == 0 && count == 2)
        n->strides[0] = (int)list[0], n->strides[1] = (int)list[1];
    else fail_msg("%s has an attribute %s", n->op, name);
}

static void read_node(node *n, message m) {
    const message whole = m;
    memset(n, 0, sizeof *n);
    for (field f; next(&m, &f);) {
        char name[NAME];
        if (f.number == 1) assert_true(n->inputs < INPUTS), text_of(&f, n->input[n->inputs++]);
        else if (f.number == 2) text_of(&f, n->output);
        else if (f.number == 3) text_of(&f, name);
        else if (f.number == 4) text_of(&f, n->op);
        else assert_int_equal(f.number, 5);
    }
    m = whole;
    for (field f; next(&m, &f);)
        if (f.number == 5) read_attribute(n, f.content);
}

/* An input or output, as it is declared. */
static void read_declared(value *v, message m) {
    memset(v, 0, sizeof *v);
    for (field f; next(&m, &f);) {
        if (f.number == 1) text_of(&f, v->name);
        else assert_int_equal(f.number, 2);
        if (f.number == 1) continue;
        message type = f.content; /* TypeProto, and in it a tensor's */
        field tensor, part, dim, extent;
        assert_true(next(&type, &tensor) && tensor.number == 1);
        while (next(&tensor.content, &part)) {
            if (part.number == 1) v->type = (int)part.value;
            while (part.number == 2 && next(&part.content, &dim)) {
                assert_true(v->rank < RANK && next(&dim.content, &extent));
                v->dims[v->rank++] = extent.number == 1 ? (int)extent.value : -1;
            }
        }
    }
}

static void read_graph(graph *g, message m) {
    int named = 0;
    for (field f; next(&m, &f);) {
        char name[NAME];
        if (f.number == 1) assert_true(g->nodes < NODES), read_node(&g->node[g->nodes++], f.content);
        else if (f.number == 2) text_of(&f, name), named = 1;
        else if (f.number == 5) {
            value constant = read_tensor(f.content);
            value *v = add(g, constant.name, 0, NULL);
            free(v->data);
            *v = constant;
        } else if (f.number == 11)
            assert_true(g->inputs < INPUTS), read_declared(&g->input[g->inputs++], f.content);
        else if (f.number == 12)
            assert_true(g->outputs < INPUTS), read_declared(&g->output[g->outputs++], f.content);
        else fail_msg("the graph has a field %d", f.number);
    }
    assert_true(named);
}

static graph *read_model(const char *path) {
    graph *g = (graph *)calloc(1, sizeof *g);
    file_bytes bytes = bytes_of(path);
    message m = {bytes.data, bytes.data + bytes.n};
    assert_non_null(g);
    for (field f; next(&m, &f);) {
        field part;
        char key[NAME] = "";
        if (f.number == 1) g->ir = (int64_t)f.value;
        else if (f.number == 2) text_of(&f, g->producer);
        else if (f.number == 3) text_of(&f, g->version);
        else if (f.number == 7) read_graph(g, f.content);
        else if (f.number == 8)
            while (next(&f.content, &part)) assert_int_equal(part.number, 2), g->opset = (int64_t)part.value;
        else assert_int_equal(f.number, 14);
        while (f.number == 14 && next(&f.content, &part)) {
            if (part.number == 1) text_of(&part, key);
            else if (part.number != 2) fail_msg("%s has a field %d", key, part.number);
            else if (strcmp(key, "environment") == 0) text_of(&part, g->environment);
            else if (strcmp(key, "action_space") == 0) text_of(&part, g->space);
            else fail_msg("the model has a property %s", key);
        }
    }
    free(bytes.data);
    return g;
}

/* What the operations were called in version 13 of ONNX's, and how many inputs they take. */
static const struct {
    const char *name;
    int inputs; /* 0: any number */
} operators[] = {{"Add", 2},        {"ArgMax", 1},    {"Clip", 3},        {"Concat", 0},
                 {"Constant", 0},   {"Conv", 3},      {"Div", 2},         {"Elu", 1},
                 {"Erf", 1},        {"Exp", 1},       {"Expand", 2},      {"Gemm", 3},
                 {"Greater", 2},    {"Identity", 1},  {"Log", 1},         {"MatMul", 2},
                 {"MaxPool", 1},    {"Mul", 2},       {"Multinomial", 1}, {"RandomNormalLike", 1},
                 {"ReduceMean", 1}, {"Relu", 1},      {"Reshape", 2},     {"Shape", 1},
                 {"Sigmoid", 1},    {"Slice", 4},     {"Sqrt", 1},        {"Sub", 2},
                 {"Tanh", 1},       {"Transpose", 1}, {"Where", 3}};

static void check_operator(const node *n) {
    for (int i = 0; i < COUNT(operators); i++) {
        if (strcmp(operators[i].name, n->op)) continue;
        if (operators[i].inputs && operators[i].inputs != n->inputs)
            fail_msg("%s has %d inputs", n->op, n->inputs);
        return;
    }
    fail_msg("%s is no operator of version 13", n->op);
}

/* --------------------------------------------------------------------------------------------------------
   Its operations
   -------------------------------------------------------------------------------------------------------- */

/* The index in v of element i of a result with these dims, of which v is broadcast. */
static size_t broadcast(const value *v, size_t i, int rank, const int *dims) {
    size_t at = 0, step = 1;
    for (int k = rank - 1, own = v->rank - 1; own >= 0; k--, own--) {
        if (v->dims[own] > 1) at += i % (size_t)dims[k] * step;
        step *= (size_t)v->dims[own];
        i /= (size_t)dims[k];
    }
    return at;
}

static double of_one(const char *op, double x) {
    if (strcmp(op, "Tanh") == 0) return tanh(x);
    if (strcmp(op, "Relu") == 0) return x > 0 ? x : 0;
    if (strcmp(op, "Elu") == 0) return x > 0 ? x : expm1(x);
    if (strcmp(op, "Erf") == 0) return erf(x);
    if (strcmp(op, "Exp") == 0) return exp(x);
    if (strcmp(op, "Log") == 0) return log(x);
    if (strcmp(op, "Sqrt") == 0) return sqrt(x);
    if (strcmp(op, "Sigmoid") == 0) return 1 / (1 + exp(-x));
    if (strcmp(op, "RandomNormalLike") == 0) return 0.25; /* a number that might have been drawn */
    assert_string_equal(op, "Identity");
    return x;
}

static double of_more(const char *op, double x, double y, double z) {
    if (strcmp(op, "Add") == 0) return x + y;
    if (strcmp(op, "Sub") == 0) return x - y;
    if (strcmp(op, "Mul") == 0) return x * y;
    if (strcmp(op, "Div") == 0) return x / y;
    if (strcmp(op, "Greater") == 0) return x > y;
    if (strcmp(op, "Where") == 0) return x != 0 ? y : z;
    assert_string_equal(op, "Clip");
    return fmin(fmax(x, y), z);
}

static void each(graph *g, const node *n, value *const in[3]) {
    int rank = 0, dims[RANK] = {1, 1, 1, 1};
    for (int i = 0; i < n->inputs; i++)
        if (in[i]->rank > rank) rank = in[i]->rank;
    for (int i = 0; i < n->inputs; i++) {
        for (int k = 1; k <= in[i]->rank; k++) {
            int *dim = &dims[rank - k], own = in[i]->dims[in[i]->rank - k];
            assert_true(own == 1 || *dim == 1 || *dim == own);
            if (own > *dim) *dim = own;
        }
    }
    value *out = add(g, n->output, rank, dims);
    for (size_t i = 0; i < count_of(out); i++) {
        double x[3] = {0, 0, 0};
        for (int k = 0; k < n->inputs; k++) x[k] = in[k]->data[broadcast(in[k], i, rank, dims)];
        out->data[i] = n->inputs == 1 ? of_one(n->op, x[0]) : of_more(n->op, x[0], x[1], x[2]);
    }
}

static void product(graph *g, const node *n, value *const in[3]) {
    const value *x = in[0], *w = in[1];
    const int dims[2] = {x->dims[0], w->dims[1]};
    assert_true(x->rank == 2 && w->rank == 2 && x->dims[1] == w->dims[0]);
    value *out = add(g, n->output, 2, dims);
    if (n->inputs == 3) assert_true(in[2]->rank == 1 && in[2]->dims[0] == dims[1]);
    for (int i = 0; i < dims[0]; i++) {
        for (int j = 0; j < dims[1]; j++) {
            double sum = n->inputs == 3 ? in[2]->data[j] : 0;
            for (int k = 0; k < w->dims[0]; k++)
                sum += x->data[i * x->dims[1] + k] * w->data[k * dims[1] + j];
            out->data[i * dims[1] + j] = sum;
        }
    }
}

/* Conv, and MaxPool without a weight. */
static void window(graph *g, const node *n, value *const in[3]) {
    const value *x = in[0], *w = n->inputs == 3 ? in[1] : NULL;
    int dims[4] = {x->dims[0], w ? w->dims[0] : x->dims[1], 0, 0};
    assert_int_equal(x->rank, 4);
    if (w)
        assert_true(w->rank == 4 && w->dims[1] == x->dims[1] && in[2]->rank == 1 &&
                    in[2]->dims[0] == dims[1]);
    for (int k = 0; k < 2; k++) {
        assert_true(n->kernel[k] > 0 && n->strides[k] > 0 && (!w || w->dims[2 + k] == n->kernel[k]));
        dims[2 + k] = (x->dims[2 + k] - n->kernel[k]) / n->strides[k] + 1;
    }
    value *out = add(g, n->output, 4, dims);
    for (size_t i = 0; i < count_of(out); i++) {
        const int column = (int)(i % (size_t)dims[3]), row = (int)(i / (size_t)dims[3]) % dims[2];
        const int to = (int)(i / ((size_t)dims[2] * dims[3])) % dims[1],
                  at = (int)(i / ((size_t)dims[1] * dims[2] * dims[3]));
        double y = w ? in[2]->data[to] : -DBL_MAX;
        for (int c = w ? 0 : to; c < (w ? x->dims[1] : to + 1); c++)
            for (int a = 0; a < n->kernel[0]; a++)
                for (int b = 0; b < n->kernel[1]; b++) {
                    const double pixel =
                        x->data[((at * x->dims[1] + c) * x->dims[2] + row * n->strides[0] + a) * x->dims[3] +
                                column * n->strides[1] + b];
                    if (w)
                        y += pixel * w->data[((to * x->dims[1] + c) * n->kernel[0] + a) * n->kernel[1] + b];
                    else y = fmax(y, pixel);
                }
        out->data[i] = y;
    }
}

static void transpose(graph *g, const node *n, value *const in[3]) {
    int dims[RANK];
    assert_int_equal(in[0]->rank, RANK);
    for (int k = 0; k < RANK; k++) dims[k] = in[0]->dims[n->perm[k]];
    value *out = add(g, n->output, RANK, dims);
    for (size_t i = 0; i < count_of(out); i++) {
        size_t rest = i, at = 0, index[RANK] = {0};
        for (int k = RANK - 1; k >= 0; rest /= (size_t)dims[k], k--)
            index[n->perm[k]] = rest % (size_t)dims[k];
        for (int k = 0; k < RANK; k++) at = at * (size_t)in[0]->dims[k] + index[k];
        out->data[i] = in[0]->data[at];
    }
}

/* Of rows: a part of the columns, several side by side, their mean, the largest. */
static void columns(graph *g, const node *n, value *const *in) {
    const int slice = strcmp(n->op, "Slice") == 0, mean = strcmp(n->op, "ReduceMean") == 0;
    const int concat = strcmp(n->op, "Concat") == 0, drawn = strcmp(n->op, "Multinomial") == 0;
    const int rows = in[0]->dims[0], all = in[0]->dims[1], from = slice ? (int)in[1]->data[0] : 0;
    int width = slice ? (int)in[2]->data[0] - from : concat ? all : 1;
    assert_int_equal(in[0]->rank, 2);
    assert_int_equal(slice ? (int)in[3]->data[0] : mean ? n->axes : drawn ? 1 : n->axis, 1);
    if (slice) assert_true(from >= 0 && width > 0 && from + width <= all);
    if (drawn) assert_int_equal(n->dtype, 7);
    if (mean) assert_int_equal(n->keepdims, 1);
    for (int k = 1; k < n->inputs && concat; k++) {
        assert_true(in[k]->rank == 2 && in[k]->dims[0] == rows);
        width += in[k]->dims[1];
    }
    const int dims[2] = {rows, width};
    value *out = add(g, n->output, 1 + (slice || concat || drawn || n->keepdims), dims);
    for (int i = 0; i < rows; i++) {
        const double *x = in[0]->data + (size_t)i * all;
        double *y = out->data + (size_t)i * width, sum = 0;
        int best = 0;
        for (int j = 0; j < all; j++) sum += x[j], best = x[j] > x[best] ? j : best;
        if (slice) memcpy(y, x + from, (size_t)width * sizeof *y);
        else if (mean) *y = sum / all;
        else if (!concat) *y = best; /* of ArgMax, and in place of a draw */
        else
            for (int k = 0; k < n->inputs; y += in[k++]->dims[1])
                memcpy(y, in[k]->data + (size_t)i * in[k]->dims[1], (size_t)in[k]->dims[1] * sizeof *y);
    }
}

/* The same numbers in another shape, or a shape. */
static void reshape(graph *g, const node *n, value *const in[3]) {
    int dims[RANK];
    const int shape = strcmp(n->op, "Shape") == 0, rank = shape ? 1 : in[1]->dims[0];
    for (int k = 0; k < rank && !shape; k++)
        dims[k] = in[1]->data[k] > 0 ? (int)in[1]->data[k] : in[0]->dims[k];
    value *out = add(g, n->output, rank, shape ? &in[0]->rank : dims);
    for (int k = 0; k < in[0]->rank && shape; k++) out->data[k] = in[0]->dims[k];
    for (size_t i = 0; i < count_of(out) && !shape; i++)
        out->data[i] = in[0]->data[strcmp(n->op, "Expand") ? i : broadcast(in[0], i, rank, dims)];
    if (strcmp(n->op, "Reshape") == 0) assert_int_equal(count_of(out), count_of(in[0]));
}

/* Everything is there before it is used, and ends as it is declared. */
static void run_graph(graph *g) {
    for (int i = 0; i < g->nodes; i++) {
        const node *n = &g->node[i];
        value *in[INPUTS];
        check_operator(n);
        for (int k = 0; k < n->inputs; k++) {
            in[k] = find(g, n->input[k]);
            if (!in[k]) fail_msg("%s, an input of %s, is not there", n->input[k], n->op);
            in[k]->used = 1;
        }
        if (strcmp(n->op, "Constant") == 0) {
            value *v = add(g, n->output, n->tensor.rank, n->tensor.dims);
            memcpy(v->data, n->tensor.data, count_of(v) * sizeof *v->data);
        } else if (strcmp(n->op, "Gemm") == 0 || strcmp(n->op, "MatMul") == 0) product(g, n, in);
        else if (strcmp(n->op, "Conv") == 0 || strcmp(n->op, "MaxPool") == 0) window(g, n, in);
        else if (strcmp(n->op, "Transpose") == 0) transpose(g, n, in);
        else if (strcmp(n->op, "Shape") == 0 || strcmp(n->op, "Reshape") == 0 || strcmp(n->op, "Expand") == 0)
            reshape(g, n, in);
        else if (strcmp(n->op, "Slice") == 0 || strcmp(n->op, "Concat") == 0 ||
                 strcmp(n->op, "ReduceMean") == 0 || strcmp(n->op, "ArgMax") == 0 ||
                 strcmp(n->op, "Multinomial") == 0)
            columns(g, n, in);
        else each(g, n, in);
    }
    for (int k = 0; k < g->outputs; k++) {
        value *v = find(g, g->output[k].name), *declared = &g->output[k];
        assert_non_null(v);
        assert_int_equal(v->rank, declared->rank);
        for (int d = 0; d < v->rank; d++)
            assert_int_equal(v->dims[d], declared->dims[d] < 0 ? ROWS : declared->dims[d]);
        v->used = 1;
    }
    for (int i = 0; i < g->values; i++)
        if (!g->value[i].used) fail_msg("nothing uses %s", g->value[i].name);
}

static void free_graph(graph *g) {
    for (int i = 0; i < g->values; i++) free(g->value[i].data);
    for (int i = 0; i < g->nodes; i++) free(g->node[i].tensor.data);
    free(g);
}

/* --------------------------------------------------------------------------------------------------------
   Policies
   -------------------------------------------------------------------------------------------------------- */

static char home[64] = "/tmp/test_onnx.XXXXXX";

static int enter_folder(void **state) {
    (void)state;
    return mkdtemp(home) ? chdir(home) : -1;
}

static int leave_folder(void **state) {
    (void)state;
    return remove("a.onnx") || chdir("/") || rmdir(home);
}

static const int three_choices[] = {3, 1, 5};

typedef struct kind {
    const char *name, *settings;
    int space; /* of spaces[] */
    int actor_obs, picture;
} kind;

static ppo_space space_of(int which) {
    switch (which) {
    case 0:
        return ppo_discrete(4);
    case 1:
        return ppo_multi_discrete(three_choices, 3);
    case 2:
        return ppo_multi_binary(3);
    case 3:
        return ppo_box(2, -0.3f, 0.1f);
    case 4:
        return ppo_box(2, 5, 6);
    default:
        return ppo_box(2, 0.1f, INFINITY);
    }
}

static const char *const text_of_space[] = {"discrete 4",     "multi-discrete 3,1,5",
                                            "multi-binary 3", "box 2 -0.300000012 0.100000001",
                                            "box 2 5 6",      "box 2 0.100000001 inf"};

static const kind kinds[] = {
    {"plain", "", 0, 0, 0},
    {"one layer, relu", "hidden=7 activation=relu shared_trunk=yes", 1, 0, 0},
    {"no layer", "hidden=none activation=tanh", 2, 0, 0},
    {"normalized gelu", "normalize_obs=yes activation=gelu clip_obs=1.5", 0, 0, 0},
    {"gelu by erf, in a box", "activation=gelu_erf scale_actions=no log_std_init=-1 log_std_max=-1", 3, 0, 0},
    {"silu, scaled", "activation=silu normalize_obs=yes", 4, 0, 0},
    {"elu, half bounded", "activation=elu gsde=yes log_std_max=0", 5, 0, 0},
    {"identity, squashed", "activation=identity squash=yes", 3, 0, 0},
    {"layer norm", "layer_norm=yes normalize_obs=yes", 4, 7, 0},
    {"recurrent", "recurrent=5 normalize_obs=yes", 1, 0, 0},
    {"recurrent gsde", "recurrent=3 shared_trunk=yes layer_norm=yes gsde=yes squash=yes", 3, 7, 0},
    {"picture", "conv=3x2x1,5x1x1 activation=relu", 0, 0, CHANNELS},
    {"picture and numbers", "conv=3x1x1,0x2x1,2x2x2 normalize_obs=yes recurrent=4", 2, 0, 1},
    {"picture, numbers, and more for the critic", "conv=4x3x2 activation=elu normalize_obs=yes", 4, OBS - 4,
     1},
    {"one unit", "hidden=1", 1, 0, 0},
};

static ppo_agent *agent_of(const kind *k, uint32_t seed) {
    ppo_env env = {0};
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_rng rng = test_rng(seed);
    env.name = "a \303\251 name~";
    env.obs_size = OBS;
    env.actor_obs = k->actor_obs;
    if (k->picture) env.shape[0] = k->picture, env.shape[1] = HEIGHT, env.shape[2] = WIDTH;
    env.action_space = space_of(k->space);
    env.reset = walk_reset, env.step = walk_step, env.state_size = sizeof(walk), env.max_steps = 5;
    assert_ok(ppo_config_set_all(&cfg, "hidden=8,6"));
    assert_ok(ppo_config_set_all(&cfg, k->settings));
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    for (size_t i = 0; i < agent->model.params->count; i++)
        agent->model.params->data[i] += 0.3f * ppo_rng_normal(&rng);
    for (int j = 0; j < agent->obs_norm.size; j++) {
        agent->obs_norm.mean[j] = 1000 + (double)ppo_rng_normal(&rng) / 7; /* a float has no room for it */
        agent->obs_norm.var[j] = 0.1f + ppo_rng_uniform(&rng);
    }
    return agent;
}

/* Gives an input its numbers, [ROWS][n]. */
static void feed(graph *g, const char *name, int type, const float *x, int n) {
    for (int k = 0; k < g->inputs; k++) {
        const value *declared = &g->input[k];
        int dims[RANK] = {ROWS, 0, 0, 0};
        if (strcmp(declared->name, name)) continue;
        assert_true(declared->rank > 1 && declared->dims[0] == -1 && declared->type == type);
        for (int d = 1; d < declared->rank; d++) dims[d] = declared->dims[d];
        value *v = add(g, name, declared->rank, dims);
        assert_int_equal(count_of(v), (size_t)ROWS * n);
        for (size_t i = 0; i < count_of(v); i++) v->data[i] = (double)x[i];
        return;
    }
    fail_msg("there is no input %s", name);
}

/* An output is [ROWS][n] such numbers. */
static void compare(graph *g, const char *kind_name, const char *name, const float *want, int n,
                    double tolerance) {
    const value *v = find(g, name);
    double scale = 0;
    if (!v || count_of(v) != (size_t)ROWS * n)
        fail_msg("%s: %s is missing, or of another size", kind_name, name);
    for (int i = 0; i < ROWS * n; i++)
        if (isfinite(want[i])) scale = fmax(scale, fabs((double)want[i]));
    for (int i = 0; i < ROWS * n; i++) {
        if (is_close(v->data[i], (double)want[i], tolerance, scale)) continue;
        if (want[i] < -FLT_MAX && v->data[i] == (double)-FLT_MAX) continue; /* what a mask forbids */
        fail_msg("%s: %s[%d] is %.9g, not %.9g", kind_name, name, i, v->data[i], (double)want[i]);
    }
}

/* What an agent answers to ROWS observations. */
typedef struct answers {
    float obs[ROWS * OBS], mask[ROWS * 16], policy[ROWS * 16], log_std[ROWS * 16], values[ROWS],
        action[ROWS * 16];
    float before[ROWS * 8], after[ROWS * 8];
    unsigned char legal[ROWS * 16];
} answers;

/* The options of each choice; a box has numbers instead. */
static const int *options_of(const ppo_space *space, int *choices) {
    *choices = space->kind == PPO_DISCRETE ? 1 : space->n;
    return space->kind == PPO_DISCRETE ? &space->n : space->sizes;
}

static int outputs_of(const ppo_space *space) {
    int choices, n = 0;
    const int *options = options_of(space, &choices);
    for (int h = 0; h < choices; h++) n += space->kind == PPO_BOX ? 1 : options[h];
    return n;
}

/* At least one option of each choice is legal. */
static void draw_mask(const ppo_space *space, ppo_rng *rng, unsigned char *mask) {
    int choices;
    const int *options = options_of(space, &choices);
    for (int h = 0; h < choices; mask += options[h++]) {
        for (int j = 0; j < options[h]; j++) mask[j] = (unsigned char)ppo_rng_below(rng, 2);
        mask[ppo_rng_below(rng, options[h])] = 1;
    }
}

static void ask_agent(ppo_agent *agent, int masked, answers *a) {
    const ppo_actor_critic *model = &agent->model;
    const ppo_space *space = &model->action_space;
    const int box = space->kind == PPO_BOX, n = outputs_of(space), seen = model->actor_obs,
              width = model->core.width;
    const int numbers = space->kind == PPO_DISCRETE ? 1 : space->n;
    float view[ROWS * OBS], of_actor[ROWS * OBS];
    int choice[ROWS * 16];
    ppo_rng rng = test_rng(7);
    ppo_tape *tape = NULL;
    ppo_inputs inputs = {0};
    memset(a, 0, sizeof *a);
    fill_normal(&rng, a->obs, ROWS * OBS, 1);
    fill_normal(&rng, a->before, ROWS * width, 0.5f);
    for (int i = 0; i < ROWS * OBS && agent->obs_norm.size; i++) a->obs[i] += 1000;
    memset(a->legal, 1, sizeof a->legal);
    for (int i = 0; i < ROWS && masked; i++) draw_mask(space, &rng, a->legal + i * n);
    for (int i = 0; i < ROWS * n; i++) a->mask[i] = a->legal[i];
    for (int i = 0; i < ROWS; i++)
        memcpy(of_actor + i * seen, a->obs + i * OBS, (size_t)seen * sizeof(float));
    memcpy(a->after, a->before, sizeof a->after);
    const ppo_actions actions = {box ? NULL : choice, box ? a->action : NULL};
    assert_ok(ppo_act_many(agent, of_actor, masked ? a->legal : NULL, ROWS, width ? a->after : NULL, NULL,
                           &actions));
    for (int i = 0; i < ROWS * numbers && !box; i++) a->action[i] = (float)choice[i];
    memcpy(view, a->obs, sizeof view);
    if (agent->obs_norm.size) ppo_normalize(&agent->obs_norm, a->obs, ROWS, agent->clip_obs, view);
    inputs.rows = ROWS;
    inputs.obs = view;
    inputs.mask = masked ? a->legal : NULL;
    inputs.sequences.state = a->before;
    assert_ok(ppo_tape_create(&tape));
    const ppo_outputs y = ppo_actor_critic_forward(tape, model, &inputs, PPO_POLICY | PPO_VALUE);
    assert_ok(ppo_tape_status(tape));
    memcpy(a->policy, y.policy->data, (size_t)(ROWS * n) * sizeof(float));
    memcpy(a->values, y.value->data, sizeof a->values);
    for (int i = 0; i < ROWS && box; i++)
        memcpy(a->log_std + i * n, y.log_std->data + (y.log_std->rows > 1 ? i * n : 0),
               (size_t)n * sizeof(float));
    ppo_tape_free(tape);
}

/* The names of all outputs, in order. */
static void expect_outputs(const graph *g, const char *names) {
    char all[512] = "";
    for (int k = 0; k < g->outputs; k++)
        snprintf(all + strlen(all), 64, "%s%s", k ? " " : "", g->output[k].name);
    assert_string_equal(all, names);
}

static void a_graph_is_valid_and_answers_as_the_agent_does(void **state) {
    (void)state;
    for (int i = 0; i < 4 * COUNT(kinds); i++) {
        const kind *k = &kinds[i / 4];
        const ppo_onnx_options options = {PPO_ONNX_STANDARD, i % 2, i % 4 / 2 && k->space < 3};
        ppo_agent *agent = agent_of(k, (uint32_t)i);
        const ppo_space *space = &agent->model.action_space;
        const int box = space->kind == PPO_BOX, n = outputs_of(space), width = agent->model.core.width;
        const int numbers = space->kind == PPO_DISCRETE ? 1 : space->n,
                  seen = options.value ? OBS : agent->model.actor_obs;
        static answers a;
        float shown[ROWS * OBS];
        char names[128];
        assert_ok(ppo_export_onnx(agent, "a.onnx", i % 4 ? &options : NULL));
        graph *g = read_model("a.onnx");
        ask_agent(agent, options.mask, &a);
        for (int r = 0; r < ROWS; r++)
            memcpy(shown + r * seen, a.obs + r * OBS, (size_t)seen * sizeof(float));
        assert_true(g->ir == 7 && g->opset == 13 && strcmp(g->producer, "ppo.h") == 0);
        assert_string_equal(g->version, PPO_VERSION);
        assert_string_equal(g->environment, "a __ name~");
        assert_string_equal(g->space, text_of_space[k->space]);
        assert_int_equal(g->inputs, 1 + options.mask + (width > 0));
        feed(g, "input", 1, shown, seen);
        if (options.mask) feed(g, "action_masks", 9, a.mask, n);
        if (width) feed(g, "recurrent_in", 1, a.before, width);
        run_graph(g);
        for (int j = 0; j < g->nodes && k == kinds; j++) /* it has nothing to divide */
            assert_string_not_equal(g->node[j].op, "Slice");
        snprintf(names, sizeof names, "actions%s %s%s", options.value ? " values" : "",
                 box ? "mean log_std" : "logits", width ? " recurrent_out" : "");
        expect_outputs(g, names);
        assert_int_equal(g->output[0].type, box ? 1 : 7);
        assert_int_equal(g->output[0].rank, space->kind == PPO_DISCRETE ? 1 : 2);
        compare(g, k->name, "actions", a.action, numbers, box ? 1e-5 : 0);
        compare(g, k->name, box ? "mean" : "logits", a.policy, n, 1e-5);
        if (box) compare(g, k->name, "log_std", a.log_std, n, 1e-5);
        if (options.value) compare(g, k->name, "values", a.values, 1, 1e-5);
        if (width) compare(g, k->name, "recurrent_out", a.after, width, 1e-5);
        free_graph(g);
        ppo_agent_free(agent);
    }
}

static void expect_fact(graph *g, const char *name, int n, const int *numbers, int rank) {
    const value *v = find(g, name);
    assert_true(v && v->rank == rank && v->dims[rank - 1] == n && v->dims[0] == (rank == 2 ? 1 : n));
    for (int k = 0; k < n; k++) assert_true(v->data[k] == numbers[k]);
}

static void ml_agents_finds_its_names_and_shapes(void **state) {
    (void)state;
    for (int i = 0; i < 2 * COUNT(kinds); i++) {
        const kind *k = &kinds[i / 2];
        const ppo_onnx_options options = {PPO_ONNX_ML_AGENTS, i % 2, 0};
        ppo_agent *agent = agent_of(k, (uint32_t)i);
        const ppo_space *space = &agent->model.action_space;
        const int box = space->kind == PPO_BOX, n = outputs_of(space), width = agent->model.core.width;
        const int numbers = space->kind == PPO_DISCRETE ? 1 : space->n,
                  seen = options.value ? OBS : agent->model.actor_obs;
        const int picture = agent->model.conv.layers ? k->picture * HEIGHT * WIDTH : 0, version = 3;
        static answers a;
        float shown[2][ROWS * OBS];
        char names[256];
        assert_ok(ppo_export_onnx(agent, "a.onnx", &options));
        graph *g = read_model("a.onnx");
        ask_agent(agent, !box, &a);
        for (int r = 0; r < ROWS; r++) {
            memcpy(shown[0] + r * picture, a.obs + r * OBS, (size_t)picture * sizeof(float));
            memcpy(shown[1] + r * (seen - picture), a.obs + r * OBS + picture,
                   (size_t)(seen - picture) * sizeof(float));
        }
        if (picture) feed(g, "obs_0", 1, shown[0], picture);
        if (picture) assert_int_equal(g->input[0].rank, 4);
        if (seen > picture) feed(g, picture ? "obs_1" : "obs_0", 1, shown[1], seen - picture);
        if (!box) feed(g, "action_masks", 1, a.mask, n);
        if (width) feed(g, "recurrent_in", 1, a.before, width);
        run_graph(g);
        snprintf(names, sizeof names,
                 "version_number memory_size %s_actions %s_action_output_shape deterministic_%s_actions%s%s",
                 box ? "continuous" : "discrete", box ? "continuous" : "discrete",
                 box ? "continuous" : "discrete", options.value ? " value_estimate" : "",
                 width ? " recurrent_out" : "");
        expect_outputs(g, names);
        expect_fact(g, "version_number", 1, &version, 1);
        expect_fact(g, "memory_size", 1, &width, 1);
        if (box) expect_fact(g, "continuous_action_output_shape", 1, &numbers, 1);
        else
            expect_fact(g, "discrete_action_output_shape", numbers,
                        space->kind == PPO_DISCRETE ? &n : space->sizes, 2);
        compare(g, k->name, box ? "deterministic_continuous_actions" : "deterministic_discrete_actions",
                a.action, numbers, box ? 1e-5 : 0);
        for (int r = 0; r < ROWS * n && box; r++) { /* the draw of this file's interpreter */
            const float u = a.policy[r] + 0.25f * expf(a.log_std[r]);
            const float centre = (space->low + space->high) / 2, half = (space->high - space->low) / 2;
            a.action[r] = agent->model.squash  ? centre + half * tanhf(u)
                          : agent->model.scale ? centre + half * u
                                               : u;
            a.action[r] = fminf(fmaxf(a.action[r], space->low), space->high);
        }
        compare(g, k->name, box ? "continuous_actions" : "discrete_actions", a.action, numbers,
                box ? 1e-5 : 0);
        if (options.value) compare(g, k->name, "value_estimate", a.values, 1, 1e-5);
        if (width) compare(g, k->name, "recurrent_out", a.after, width, 1e-5);
        if (width) assert_true(find(g, "recurrent_out")->rank == 3 && find(g, "recurrent_out")->dims[1] == 1);
        free_graph(g);
        ppo_agent_free(agent);
    }
}

/* --------------------------------------------------------------------------------------------------------
   Failures
   -------------------------------------------------------------------------------------------------------- */

static size_t left_bytes(void) {
    file_bytes bytes = bytes_of("a.onnx");
    free(bytes.data);
    return bytes.n;
}

static void what_cannot_be_exported_is_refused_and_leaves_the_old_file(void **state) {
    (void)state;
    ppo_agent *agent = agent_of(&kinds[4], 1), *choices = agent_of(&kinds[3], 2),
              *plain = agent_of(&kinds[0], 3);
    ppo_onnx_options options = {PPO_ONNX_STANDARD, 0, 1};
    ppo_params *params = choices->model.params;
    put_bytes("a.onnx", "old", 3);
    assert_fails(ppo_export_onnx(NULL, "a.onnx", NULL), PPO_ERROR_ARGUMENT, "ppo_export_onnx|agent|NULL");
    assert_fails(ppo_export_onnx(agent, NULL, NULL), PPO_ERROR_ARGUMENT, "ppo_export_onnx|path|NULL");
    assert_fails(ppo_export_onnx(agent, "a.onnx", &options), PPO_ERROR_ARGUMENT, "mask|box");
    options.mask = 0, options.names = (ppo_onnx_names)7;
    assert_fails(ppo_export_onnx(agent, "a.onnx", &options), PPO_ERROR_ARGUMENT, "names 7");
    options.names = PPO_ONNX_STANDARD, options.value = 1;
    agent->config.use_critic = 0;
    assert_fails(ppo_export_onnx(agent, "a.onnx", &options), PPO_ERROR_ARGUMENT, "value|use_critic");
    for (int i = 0; i < params->tensor_count; i++) { /* also of the critic, where it is exported */
        float *x = &params->tensors[i]->data[0], was = *x;
        *x = i % 2 ? NAN : INFINITY;
        assert_fails(ppo_export_onnx(choices, "a.onnx", &options), PPO_ERROR_NUMERIC, "not finite");
        assert_non_null(strstr(ppo_last_error(), params->names[i]));
        *x = was;
    }
    agent->model.log_std->data[1] = NAN;
    assert_fails(ppo_export_onnx(agent, "a.onnx", NULL), PPO_ERROR_NUMERIC, "log_std|not finite");
    choices->obs_norm.mean[2] = 1e300;
    assert_fails(ppo_export_onnx(choices, "a.onnx", NULL), PPO_ERROR_NUMERIC, "obs_norm.mean|not finite");
    const size_t count = plain->model.params->count;
    plain->model.params->count = (size_t)1 << 29;
    assert_fails(ppo_export_onnx(plain, "a.onnx", NULL), PPO_ERROR_ARGUMENT, "536870912|2 GB");
    plain->model.params->count = count;
    options.value = 1;
    assert_non_null(
        ppo_params_add(plain->model.params, "critic.extra", 1, 4)); /* of a value that is not wanted */
    assert_fails(ppo_export_onnx(plain, "a.onnx", &options), PPO_ERROR_ARGUMENT, "\"critic.extra\"");
    assert_int_equal(left_bytes(), 3);
    assert_ok(ppo_export_onnx(plain, "a.onnx", NULL));
    put_bytes("a.onnx", "old", 3);
    assert_non_null(ppo_params_add(plain->model.params, "extra.weight", 1, 4));
    assert_fails(ppo_export_onnx(plain, "a.onnx", NULL), PPO_ERROR_ARGUMENT, "\"extra.weight\"");
    file_bytes bytes = bytes_of("a.onnx");
    assert_true(bytes.n == 3 && memcmp(bytes.data, "old", 3) == 0);
    free(bytes.data);
    ppo_agent_free(agent);
    ppo_agent_free(choices);
    ppo_agent_free(plain);
}

static ppo_status export_one(const ppo_agent *agent) {
    const ppo_onnx_options options = {PPO_ONNX_ML_AGENTS, 1, 0};
    return ppo_export_onnx(agent, "a.onnx", &options);
}

static void each_failing_allocation_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    for (int k = 0; k < 2 * COUNT(kinds); k += 5) {
        ppo_agent *agent = agent_of(&kinds[k / 2], 1);
        heap h = {0, 0, 0, k % 2};
        put_bytes("a.onnx", "old", 3);
        for (;; h.fail_at++) { /* the old file stays */
            h.calls = 0;
            ppo_set_allocator(heap_hook, &h);
            const ppo_status status = export_one(agent);
            ppo_set_allocator(NULL, NULL);
            assert_int_equal(h.live, 0);
            if (h.calls <= h.fail_at) break;
            assert_int_equal(status, PPO_ERROR_MEMORY);
            assert_int_equal(left_bytes(), 3);
        }
        assert_true(h.fail_at >= 3 && left_bytes() > 1000);
        ppo_agent_free(agent);
    }
}

static void a_full_disk_leaves_the_old_file(void **state) {
    (void)state;
    struct rlimit old, limit;
    ppo_agent *agent = agent_of(&kinds[3], 1);
    put_bytes("a.onnx", "old", 3);
    assert_fails(ppo_export_onnx(agent, "a.onnx/a.onnx", NULL), PPO_ERROR_FILE, "a.onnx");
    assert_fails(ppo_export_onnx(agent, ".", NULL), PPO_ERROR_FILE, "not a plain file");
    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t room = 0; room < 2000; room += 400) {
        limit = old;
        limit.rlim_cur = room;
        setrlimit(RLIMIT_FSIZE, &limit);
        const ppo_status status = ppo_export_onnx(agent, "a.onnx", NULL);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_int_equal(status, PPO_ERROR_FILE);
        assert_non_null(strstr(ppo_last_error(), "a.onnx: cannot be written"));
        assert_int_equal(left_bytes(), 3);
    }
    signal(SIGXFSZ, SIG_DFL);
    assert_ok(ppo_export_onnx(agent, "folder/a.onnx", NULL)); /* which is made */
    assert_int_equal(remove("folder/a.onnx"), 0);
    assert_int_equal(remove("folder"), 0);
    ppo_agent_free(agent);
}

static void the_same_agent_gives_the_same_bytes(void **state) {
    (void)state;
    const ppo_agent *agent = agent_of(&kinds[12], 1);
    file_bytes bytes[2];
    for (int k = 0; k < 2; k++) {
        assert_ok(ppo_export_onnx(agent, "a.onnx", NULL));
        bytes[k] = bytes_of("a.onnx");
    }
    assert_int_equal(bytes[0].n, bytes[1].n);
    assert_memory_equal(bytes[0].data, bytes[1].data, bytes[0].n);
    free(bytes[0].data);
    free(bytes[1].data);
    ppo_agent_free((ppo_agent *)agent);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_is_valid_and_answers_as_the_agent_does),
        cmocka_unit_test(ml_agents_finds_its_names_and_shapes),
        cmocka_unit_test(what_cannot_be_exported_is_refused_and_leaves_the_old_file),
        cmocka_unit_test_teardown(each_failing_allocation_is_an_error_and_leaks_nothing, restore_allocator),
        cmocka_unit_test(a_full_disk_leaves_the_old_file),
        cmocka_unit_test(the_same_agent_gives_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
