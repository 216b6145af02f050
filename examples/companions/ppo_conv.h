/* ppo_conv.h - convolutions and max pooling for ppo.h: policies that see pictures

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_conv.h"              // after ppo.h; other files may include it for its declarations

   Copy this file beside ppo.h. In the folder examples/, where it is in companions/, programs include it from
   there: #include "companions/ppo_conv.h".

A POLICY THAT SEES PICTURES

   The environment says what its observations are, and a setting puts convolutions before the hidden layers:

       env.obs_size = 4 * 10 * 10 + 5;                                    // [channels][height][width], numbers
       env.shape[0] = 4; env.shape[1] = 10; env.shape[2] = 10;
       ppo_config_set(&cfg, "conv", "16x3x1,0x2x2,32x3x1");               // channels x kernel x stride

   0 channels: max pooling. The others are followed by cfg.activation. Kernels and strides must leave out no
   pixel. Actor and critic share these layers. Numbers after the picture, such as health or the next piece, join
   its result before the hidden layers; they may be missing. Everything else is as for other policies: training,
   files, checkpoints, export to C. If the picture's numbers are bytes, set env.byte_scale: a rollout then keeps bytes, a
   fourth of the memory. examples/envs/breakout.h, gold.h, invaders.h and minatar.h are such environments.

A NETWORK OF YOUR OWN

       int shape[3] = {4, 10, 10};
       x = ppo_tape_channels_last(tape, x, shape);                  // planes -> pixels
       x = ppo_tape_conv(tape, x, shape, w, b, 3, 1, PPO_RELU);     // w (3 * 3 * 4, 16); shape is {16, 8, 8}
       x = ppo_tape_max_pool(tape, x, shape, 2, 2);                 // {16, 4, 4}; x is (n, 16 * 4 * 4)

   ppo_cuda.cuh does not have these operations.

   License: that of ppo.h. */
#ifndef PPO_CONV_H
#define PPO_CONV_H
#ifndef PPO_H
#error "include ppo.h before ppo_conv.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_conv.h belongs to version 0.3 of ppo.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Pictures, one per row, pixel by pixel, the channels of a pixel side by side: [height][width][channels].
   shape: {channels, height, width}; conv and max_pool replace it by that of their result.
       channels_last   makes such rows of planes, [channels][height][width], as environments give them
       conv            activation(x w + b) for x each square of kernel x kernel pixels; squares are `stride`
                       pixels apart and do not reach over the edge. w (kernel kernel channels, out), its rows
                       in the order of a square's numbers, b (1, out) or NULL. -> `out` channels; height and
                       width: (size - kernel) / stride + 1
       max_pool        per channel the largest of each square; of equal numbers the first gets the gradient
   Errors: x has no rows of this shape; kernel or stride is larger than the picture. */
PPO_DEF ppo_tensor *ppo_tape_channels_last(ppo_tape *tape, ppo_tensor *x, const int shape[3]);
PPO_DEF ppo_tensor *ppo_tape_conv(ppo_tape *tape, ppo_tensor *x, int shape[3], ppo_tensor *w, ppo_tensor *b,
                                  int kernel, int stride, ppo_activation activation);
PPO_DEF ppo_tensor *ppo_tape_max_pool(ppo_tape *tape, ppo_tensor *x, int shape[3], int kernel, int stride);

#ifdef __cplusplus
}
#endif
#endif

/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__CONV_IMPLEMENTED)
#define PPO__CONV_IMPLEMENTED

PPO__WARNINGS_OFF

/* A square of pixels that moves over a picture; both shapes as {channels, height, width}. */
typedef struct ppo__window {
    int shape[3], after[3], kernel, stride, activation;
} ppo__window;

/* The window that makes pictures of `channels` from those of this shape. */
static ppo_status ppo__window_make(const char *where, const int shape[3], int channels, int kernel,
                                   int stride, ppo__window *window) {
    const int *size = window->shape;
    memcpy(window->shape, shape, sizeof window->shape);
    window->kernel = kernel;
    window->stride = stride;
    if (!ppo__picture_size(shape))
        return ppo__refuse("%s: there are no pictures of %d channels, %d x %d pixels", where, size[0],
                           size[1], size[2]);
    if (kernel <= 0 || stride <= 0 || kernel > size[1] || kernel > size[2] || stride > size[1] ||
        stride > size[2])
        return ppo__refuse("%s: a kernel of %d, moved by %d, does not fit pictures of %d x %d pixels", where,
                           kernel, stride, size[1], size[2]);
    window->after[0] = channels;
    for (int k = 1; k < 3; ++k) window->after[k] = (size[k] - kernel) / stride + 1;
    if (ppo__picture_size(window->after)) return PPO_OK;
    return ppo__refuse("%s: pictures of %d channels, %d x %d pixels are too large", where, channels,
                       window->after[1], window->after[2]);
}

static ppo_tensor *ppo__tape_window(ppo_tape *tape, const ppo_op *op, ppo_tensor *const *in, int n_in,
                                    const ppo__window *window, int *shape) {
    if (in[0]->cols != ppo__picture_size(window->shape)) {
        ppo__refuse("%s: rows of %d numbers are no pictures of %d channels, %d x %d pixels", op->name,
                    in[0]->cols, window->shape[0], window->shape[1], window->shape[2]);
        return (ppo_tensor *)ppo__tape_fail(tape, PPO_ERROR_ARGUMENT);
    }
    ppo_node *node = ppo_tape_apply(tape, op, in, n_in, in[0]->rows, ppo__picture_size(window->after), window,
                                    sizeof *window);
    if (node && shape) memcpy(shape, window->after, sizeof window->after);
    return ppo_tape_result(node);
}

static ppo_status ppo__channels_last_forward(ppo_node *node) {
    const ppo__window *window = (const ppo__window *)node->args;
    const int channels = window->shape[0], pixels = node->in[0]->cols / channels;
    for (int i = 0; i < node->in[0]->rows; ++i)
        ppo__k()->transpose(channels, pixels, node->in[0]->data + ppo__at(i, node->in[0]->cols), pixels,
                            node->out[0]->data + ppo__at(i, node->in[0]->cols), channels);
    return PPO_OK;
}

static void ppo__channels_last_backward(ppo_node *node) {
    const ppo__window *window = (const ppo__window *)node->args;
    const int channels = window->shape[0], pixels = node->in[0]->cols / channels;
    const float *dy = node->out[0]->grad;
    float *dx = node->in[0]->grad;
    for (int i = 0; i < node->in[0]->rows; ++i, dx += node->in[0]->cols)
        for (int at = 0; at < pixels; ++at)
            for (int c = 0; c < channels; ++c) dx[c * pixels + at] += *dy++;
}

PPO_DEF ppo_tensor *ppo_tape_channels_last(ppo_tape *tape, ppo_tensor *x, const int shape[3]) {
    static const ppo_op op = {"channels_last", 1, ppo__channels_last_forward, ppo__channels_last_backward};
    ppo__window window;
    if (!ppo__operands(tape, op.name, x, shape ? x : NULL)) return NULL;
    ppo_status status = ppo__window_make(op.name, shape, shape[0], 1, 1, &window);
    if (status) return (ppo_tensor *)ppo__tape_fail(tape, status);
    return ppo__tape_window(tape, &op, &x, 1, &window, NULL);
}

/* Convolution. The pixels of a line of a square lie together, and the same line of the next square begins
   `stride` pixels later. So a line of the result is one matrix product per line of the square, and no squares
   are copied. kept: z, if the activation needs it. scratch: w^T */
static void ppo__conv_rows(void *user, int range, int from, int to) {
    const ppo_node *node = (const ppo_node *)user;
    const ppo__window *window = (const ppo__window *)node->args;
    const ppo__activation *f = &ppo__k()->activation[window->activation];
    const ppo_tensor *x = node->in[0], *w = node->in[1], *b = node->in[2], *y = node->out[0];
    const int channels = window->shape[0], out = w->cols, width = window->after[2],
              line = window->kernel * channels;
    const size_t at = ppo__at(from, y->cols);
    float *z = node->kept ? (float *)node->kept : y->data, *to_z = z + at;
    for (int i = from; i < to; ++i) {
        for (int row = 0; row < window->after[1]; ++row, to_z += width * out) {
            const float *from_x =
                x->data + ppo__at(i, x->cols) + ppo__at(row * window->stride, window->shape[2] * channels);
            for (int k = 0; k < window->kernel; ++k, from_x += window->shape[2] * channels) {
                const float *init = k ? to_z : b ? b->data : NULL;
                ppo__k()->gemm(width, out, line, from_x, window->stride * channels, 1,
                               w->data + ppo__at(k * line, out), out, init, k ? out : 0, to_z, out);
            }
        }
    }
    if (f->value) f->value(z + at, y->data + at, ppo__at(to - from, y->cols));
}

static ppo_status ppo__conv_forward(ppo_node *node) {
    const ppo__window *window = (const ppo__window *)node->args;
    const ppo_tensor *y = node->out[0], *w = node->in[1];
    if (ppo__k()->activation[window->activation].keeps_z && y->grad) {
        node->kept = ppo_tape_alloc(node->tape, ppo__size(y));
        if (!node->kept) return PPO_ERROR_MEMORY;
    }
    ppo__parallel_for(y->rows, 1, (double)y->cols * (w->rows + 20), ppo__conv_rows, node);
    return PPO_OK;
}

/* dz in place of dy; and dx: each pixel of a square gets its share from all channels of the result. */
static void ppo__conv_rows_backward(void *user, int range, int from, int to) {
    const ppo_node *node = (const ppo_node *)user;
    const ppo__window *window = (const ppo__window *)node->args;
    const ppo__activation *f = &ppo__k()->activation[window->activation];
    const ppo_tensor *x = node->in[0], *w = node->in[1], *y = node->out[0];
    const int channels = window->shape[0], out = w->cols, width = window->after[2];
    const int kernel = window->kernel, stride = window->stride;
    float *dz = y->grad + ppo__at(from, y->cols);
    if (f->backward)
        f->backward((f->keeps_z ? (const float *)node->kept : y->data) + ppo__at(from, y->cols), dz, dz,
                    ppo__at(to - from, y->cols));
    for (int i = from; i < to && x->grad; ++i) {
        for (int row = 0; row < window->after[1]; ++row, dz += width * out) {
            for (int k = 0; k < kernel * kernel; ++k) {
                float *dx = x->grad + ppo__at(i, x->cols) +
                            ((row * stride + k / kernel) * window->shape[2] + k % kernel) * channels;
                ppo__k()->gemm(width, channels, out, dz, out, 1, node->scratch + k * channels, w->rows, dx,
                               stride * channels, dx, stride * channels);
            }
        }
    }
}

/* How many lines of a result one product adds to dw, and how many squares those are. With a stride of 1 it
   takes all lines: their squares are evenly spaced, together with those that reach over the end of a line,
   whose dz is 0. */
static int ppo__conv_lines(const ppo__window *window, int *squares) {
    const int lines = window->stride == 1 ? window->after[1] : 1;
    *squares = (lines - 1) * window->shape[2] + window->after[2];
    return lines;
}

/* Some rows of dw, picture by picture; those of one line of the square at a time. scratch: w^T, and for each
   range dz of the lines of a product */
static void ppo__conv_dw(void *user, int range, int from, int to) {
    const ppo_node *node = (const ppo_node *)user;
    const ppo__window *window = (const ppo__window *)node->args;
    const ppo_tensor *x = node->in[0], *w = node->in[1], *y = node->out[0];
    const int channels = window->shape[0], out = w->cols, width = window->after[2] * out;
    const int line = window->kernel * channels, all = window->shape[2] * channels;
    const float *dy = y->grad;
    int squares, lines = ppo__conv_lines(window, &squares);
    float *dz = node->scratch + ppo__size(w) + ppo__at(range, squares) * (size_t)out;
    for (int i = 0; i < y->rows; ++i) {
        for (int row = 0; row < window->after[1]; row += lines) {
            const float *from_x = x->data + ppo__at(i, x->cols) + ppo__at(row * window->stride, all);
            for (int k = 0; k < lines; ++k, dy += width)
                memcpy(dz + ppo__at(k * window->shape[2], out), dy, (size_t)width * sizeof(float));
            for (int r = from, end; r < to; r = end) {
                const int k = r / line;
                float *dw = w->grad + ppo__at(r, out);
                end = ppo__min_int((k + 1) * line, to);
                ppo__k()->gemm(end - r, out, squares, from_x + k * all + r % line, 1,
                               window->stride * channels, dz, out, dw, out, dw, out);
            }
        }
    }
}

static void ppo__conv_backward(ppo_node *node) {
    const ppo_tensor *x = node->in[0], *w = node->in[1], *b = node->in[2], *y = node->out[0];
    const int pixels = y->cols / w->cols;
    const double dw_work = (double)ppo__size(y);
    int squares;
    ppo__conv_lines((const ppo__window *)node->args, &squares);
    const size_t dz = ppo__at(ppo__range_count(w->rows, PPO__ROW_GRAIN, dw_work), squares) * (size_t)w->cols;
    node->scratch = ppo_tape_alloc(node->tape, ppo__size(w) + dz);
    if (!node->scratch) return;
    ppo__k()->transpose(w->rows, w->cols, w->data, w->cols, node->scratch, w->rows);
    memset(node->scratch + ppo__size(w), 0, dz * sizeof(float));
    ppo__parallel_for(y->rows, 1, (double)y->cols * ((x->grad ? w->rows : 0) + 20), ppo__conv_rows_backward,
                      node);
    for (int i = 0; i < y->rows && b && b->grad; ++i)
        ppo__k()->column_sum(pixels, w->cols, y->grad + ppo__at(i, y->cols), w->cols, b->grad);
    if (w->grad) ppo__parallel_for(w->rows, PPO__ROW_GRAIN, dw_work, ppo__conv_dw, node);
}

PPO_DEF ppo_tensor *ppo_tape_conv(ppo_tape *tape, ppo_tensor *x, int shape[3], ppo_tensor *w, ppo_tensor *b,
                                  int kernel, int stride, ppo_activation activation) {
    static const ppo_op op = {"conv", 1, ppo__conv_forward, ppo__conv_backward};
    ppo_tensor *in[3] = {x, w, b};
    ppo__window window;
    if (!ppo__operands(tape, op.name, x, shape ? w : NULL)) return NULL;
    ppo_status status = ppo__window_make(op.name, shape, w->cols, kernel, stride, &window);
    window.activation = activation;
    if (!status) status = ppo__check_activation(op.name, activation);
    if (!status && (w->rows != kernel * kernel * shape[0] || (b && (b->rows != 1 || b->cols != w->cols))))
        status =
            ppo__refuse("conv: a weight (%d, %d) and a bias (%d, %d), for %d channels and a kernel of %d",
                        w->rows, w->cols, b ? b->rows : 0, b ? b->cols : 0, shape[0], kernel);
    if (status) return (ppo_tensor *)ppo__tape_fail(tape, status);
    return ppo__tape_window(tape, &op, in, 3, &window, shape);
}

/* The index in a picture of pixel k, channel c of the square that becomes pixel `at` of the result. */
static size_t ppo__pool_at(const ppo__window *window, int at, int k, int c) {
    const int row = at / window->after[2] * window->stride + k / window->kernel;
    const int column = at % window->after[2] * window->stride + k % window->kernel;
    return (ppo__at(row, window->shape[2]) + column) * window->shape[0] + c;
}

static void ppo__pool_rows(void *user, int range, int from, int to) {
    const ppo_node *node = (const ppo_node *)user;
    const ppo__window *window = (const ppo__window *)node->args;
    const int channels = window->shape[0], pixels = node->out[0]->cols / channels;
    float *y = node->out[0]->data + ppo__at(from, node->out[0]->cols);
    for (int i = from; i < to; ++i) {
        for (int at = 0; at < pixels; ++at, y += channels) {
            for (int k = 0; k < window->kernel * window->kernel; ++k) {
                const float *x =
                    node->in[0]->data + ppo__at(i, node->in[0]->cols) + ppo__pool_at(window, at, k, 0);
                for (int c = 0; c < channels; ++c)
                    if (k == 0 || !(x[c] <= y[c] || isnan(y[c]))) y[c] = x[c];
            }
        }
    }
}

static void ppo__pool_rows_backward(void *user, int range, int from, int to) {
    const ppo_node *node = (const ppo_node *)user;
    const ppo__window *window = (const ppo__window *)node->args;
    for (int i = from; i < to; ++i) {
        const float *x = node->in[0]->data + ppo__at(i, node->in[0]->cols);
        float *dx = node->in[0]->grad + ppo__at(i, node->in[0]->cols);
        for (int j = 0; j < node->out[0]->cols; ++j) {
            const size_t at_y = ppo__at(i, node->out[0]->cols) + j;
            for (int k = 0; k < window->kernel * window->kernel; ++k) {
                const size_t at = ppo__pool_at(window, j / window->shape[0], k, j % window->shape[0]);
                if (!(x[at] >= node->out[0]->data[at_y])) continue;
                dx[at] += node->out[0]->grad[at_y];
                break;
            }
        }
    }
}

static void ppo__pool_for(ppo_node *node, ppo__range_fn rows) {
    const ppo__window *window = (const ppo__window *)node->args;
    ppo__parallel_for(node->out[0]->rows, 1, (double)node->out[0]->cols * window->kernel * window->kernel,
                      rows, node);
}

static ppo_status ppo__pool_forward(ppo_node *node) {
    ppo__pool_for(node, ppo__pool_rows);
    return PPO_OK;
}

static void ppo__pool_backward(ppo_node *node) { ppo__pool_for(node, ppo__pool_rows_backward); }

PPO_DEF ppo_tensor *ppo_tape_max_pool(ppo_tape *tape, ppo_tensor *x, int shape[3], int kernel, int stride) {
    static const ppo_op op = {"max_pool", 1, ppo__pool_forward, ppo__pool_backward};
    ppo__window window;
    if (!ppo__operands(tape, op.name, x, shape ? x : NULL)) return NULL;
    ppo_status status = ppo__window_make(op.name, shape, shape[0], kernel, stride, &window);
    if (status) return (ppo_tensor *)ppo__tape_fail(tape, status);
    return ppo__tape_window(tape, &op, &x, 1, &window, shape);
}

#ifndef PPO_NO_CONTROL

/* -- the layers of a policy -- */

/* Error: a picture becomes smaller than the next kernel. */
static ppo_status ppo__conv_make(ppo_conv *conv, ppo_params *params, const ppo_config *config, ppo_rng *rng) {
    ppo_status status = PPO_OK;
    conv->activation = config->activation;
    for (int k = 0; k < config->conv_layers && !status; ++k, ++conv->layers) {
        const int *layer = config->conv[k], channels = layer[0] ? layer[0] : conv->shape[k][0];
        ppo__window window;
        conv->kernel[k] = layer[1];
        conv->stride[k] = layer[2];
        status = ppo__window_make("conv", conv->shape[k], channels, layer[1], layer[2], &window);
        for (int d = 1; d < 3 && !status; ++d) {
            const int rest = (conv->shape[k][d] - layer[1]) % layer[2];
            if (rest)
                status =
                    ppo__refuse("conv.%d: of %d pixels a kernel of %d with a stride of %d misses the last "
                                "%d: choose others",
                                k, conv->shape[k][d], layer[1], layer[2], rest);
        }
        if (status) return status;
        memcpy(conv->shape[k + 1], window.after, sizeof window.after);
        if (!layer[0] || !params) continue;
        conv->weight[k] = ppo__layer_param(params, "conv", k, "weight",
                                           window.kernel * window.kernel * window.shape[0], window.after[0]);
        if (conv->weight[k]) conv->bias[k] = ppo__layer_param(params, "conv", k, "bias", 1, window.after[0]);
        if (!conv->bias[k]) return ppo__failed;
        if (rng) status = ppo_init_orthogonal(conv->weight[k], sqrtf(2), rng);
    }
    return status;
}

static ppo_tensor *ppo__conv_layers(ppo_tape *tape, const ppo_conv *conv, ppo_tensor *x) {
    int shape[3];
    memcpy(shape, conv->shape[0], sizeof shape);
    x = ppo_tape_channels_last(tape, x, shape);
    for (int k = 0; k < conv->layers; ++k)
        x = conv->weight[k] ? ppo_tape_conv(tape, x, shape, conv->weight[k], conv->bias[k], conv->kernel[k],
                                            conv->stride[k], conv->activation)
                            : ppo_tape_max_pool(tape, x, shape, conv->kernel[k], conv->stride[k]);
    return x;
}

PPO__COMPANION_IS(ppo__convolutions, ppo__conv, {ppo__conv_make, ppo__conv_layers});

#endif

PPO__WARNINGS_BACK

#endif
