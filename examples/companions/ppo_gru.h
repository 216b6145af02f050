/* ppo_gru.h - a recurrent core (GRU) for ppo.h: policies with memory

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_gru.h"               // after ppo.h, in the file with PPO_IMPLEMENTATION

   Copy this file beside ppo.h. In the folder examples/, where it is in companions/, programs include it from
   there: #include "companions/ppo_gru.h".

A POLICY WITH MEMORY

   Where one observation is not enough, because a speed or an earlier sign is hidden, a setting puts a layer with
   memory of this width before the heads of actor and critic:

       cfg.recurrent = 64;
       cfg.sequence_steps = 32;                              // that gradients go back through

   Everything else is as for other policies: training, files, checkpoints, export to C. ppo_act() keeps the state of
   one episode in the agent: call ppo_agent_reset() where an episode begins. ppo_act_many() takes states of yours.

HOW IT WORKS

   The gates of a gated recurrent unit (Cho 2014, in PyTorch's form) for an input x, with h the state before:

       r = sigmoid(x W_r + b_r + h U_r + c_r)                  z = sigmoid(x W_z + b_z + h U_z + c_z)
       n = tanh(x W_n + b_n + r (h U_n + c_n))                 state = (1 - z) n + z h

   x W + b of all rows is one product; the steps of a sequence follow one another, those of several side by side.

   License: that of ppo.h. */
#ifndef PPO_GRU_H
#define PPO_GRU_H
#ifndef PPO_H
#error "include ppo.h before ppo_gru.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_gru.h belongs to version 0.3 of ppo.h"
#endif
#endif

/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__GRU_IMPLEMENTED)
#define PPO__GRU_IMPLEMENTED

PPO__WARNINGS_OFF

#ifndef PPO_NO_CONTROL

/* Orthogonal weights, zero biases; parameters "name.input.weight", "name.state.bias", ... rng NULL: zero
   weights. */
static ppo_status ppo__gru_init(ppo_gru *gru, ppo_params *params, const char *name, int in, int width,
                                ppo_rng *rng) {
    if (in <= 0 || width <= 0 || width > INT_MAX / 3)
        return ppo__refuse("%s: a core of %d inputs and width %d", name, in, width);
    static const char *const part[4] = {"input.weight", "input.bias", "state.weight", "state.bias"};
    const int rows[4] = {in, 1, width, 1};
    ppo_tensor **tensor[4] = {&gru->input_weight, &gru->input_bias, &gru->state_weight, &gru->state_bias};
    ppo_status status = PPO_OK;
    memset(gru, 0, sizeof *gru);
    gru->width = width;
    for (int k = 0; k < 4 && !status; ++k) {
        *tensor[k] = ppo__layer_param(params, name, -1, part[k], rows[k], 3 * width);
        if (!*tensor[k]) return ppo__failed;
        if (k % 2 == 0 && rng) status = ppo_init_orthogonal(*tensor[k], 1, rng); /* biases stay 0 */
    }
    return status;
}

static void ppo__sigmoid(float *x, size_t n) {
    for (size_t i = 0; i < n; ++i) x[i] *= 0.5f;
    ppo__k()->vtanh(x, x, n);
    for (size_t i = 0; i < n; ++i) x[i] = 0.5f * x[i] + 0.5f;
}

/* in[0] are the rows x W + b. Kept for backward, of all rows: the state before, zeros where an episode begins
   (rows, width); the gates r, z, n (rows, 3 width); and h U_n + c_n (rows, width). */
static ppo_status ppo__gru_forward(ppo_node *node) {
    const ppo_sequences *sequences = (const ppo_sequences *)node->args;
    const ppo_tensor *x = node->in[0], *u = node->in[1], *c = node->in[2];
    int w = u->rows, rows = x->rows;
    size_t n = ppo__at(rows, w);
    float *states = ppo_tape_alloc(node->tape, 5 * n);
    float *sum = ppo_tape_alloc(node->tape, 3 * (size_t)w);
    if (!states || !sum) return PPO_ERROR_MEMORY;
    node->kept = states;
    const float *previous = sequences->state; /* NULL: zeros */
    for (int t = 0, first = 0, count; first < rows; ++t, first += count) {
        float *before = states + ppo__at(first, w), *gates = states + n + 3 * ppo__at(first, w);
        count = sequences->steps ? sequences->count[t] : rows;
        for (int k = 0; k < count; ++k) {
            int begins = !previous || (sequences->start && sequences->start[first + k]);
            if (begins) memset(before + ppo__at(k, w), 0, w * sizeof(float));
            else memcpy(before + ppo__at(k, w), previous + ppo__at(k, w), w * sizeof(float));
        }
        ppo__k()->gemm(count, 3 * w, w, before, w, 1, u->data, 3 * w, c->data, 0, gates, 3 * w);
        for (int k = 0; k < count; ++k) {
            size_t row = ppo__at(first + k, w);
            const float *h = states + row, *in = x->data + 3 * row;
            float *gate = states + n + 3 * row, *inner = states + 4 * n + row;
            memcpy(inner, gate + 2 * w, w * sizeof(float));
            for (int j = 0; j < 2 * w; ++j) sum[j] = gate[j] + in[j];
            ppo__sigmoid(sum, 2 * (size_t)w);
            for (int j = 0; j < w; ++j) sum[2 * w + j] = in[2 * w + j] + sum[j] * inner[j];
            ppo__k()->vtanh(sum + 2 * w, sum + 2 * w, w);
            memcpy(gate, sum, 3 * w * sizeof(float));
            for (int j = 0; j < w; ++j)
                node->out[0]->data[row + j] = (1 - gate[w + j]) * gate[2 * w + j] + gate[w + j] * h[j];
        }
        previous = node->out[0]->data + ppo__at(first, w);
    }
    return PPO_OK;
}

/* Back through time: the derivative of a step's state (dh) is added to that of the step before it, unless an
   episode began in between. dx: of one row along x W + b; du: along h U + c; dbefore: along h before. */
static void ppo__gru_backward(ppo_node *node) {
    const ppo_sequences *sequences = (const ppo_sequences *)node->args;
    ppo_tensor *x = node->in[0], *u = node->in[1], *c = node->in[2];
    int w = u->rows, rows = x->rows, steps = sequences->steps ? sequences->steps : 1;
    const float *states = (const float *)node->kept;
    const float *gates = states + ppo__at(rows, w), *inner = gates + ppo__at(rows, 3 * w);
    float *dh = node->out[0]->grad, *dx = ppo_tape_alloc(node->tape, 3 * (size_t)w);
    float *du = ppo_tape_alloc(node->tape, ppo__at(rows, 3 * w));
    float *ut = ppo_tape_alloc(node->tape, ppo__size(u));
    float *dbefore = ppo_tape_alloc(node->tape, ppo__at(rows, w));
    if (!dx || !du || !ut || !dbefore) return;
    ppo__k()->transpose(w, 3 * w, u->data, 3 * w, ut, w);
    for (int t = steps - 1, end = rows; t >= 0; --t) {
        int count = sequences->steps ? sequences->count[t] : rows, first = end - count;
        size_t at = ppo__at(first, w);
        for (int k = 0; k < count; ++k) {
            size_t row = at + ppo__at(k, w);
            for (int j = 0; j < w; ++j) {
                float r = gates[3 * row + j], z = gates[3 * row + w + j], n = gates[3 * row + 2 * w + j];
                float dn = dh[row + j] * (1 - z) * (1 - n * n);
                float dz = dh[row + j] * (states[row + j] - n) * z * (1 - z);
                dx[j] = du[3 * row + j] = dn * inner[row + j] * r * (1 - r);
                dx[w + j] = du[3 * row + w + j] = dz;
                dx[2 * w + j] = dn;
                du[3 * row + 2 * w + j] = dn * r;
                dbefore[row + j] = dh[row + j] * z;
            }
            if (x->grad) ppo__k()->add(dx, x->grad + 3 * row, 3 * (size_t)w);
        }
        ppo__k()->gemm(count, w, 3 * w, du + 3 * at, 3 * w, 1, ut, w, dbefore + at, w, dbefore + at, w);
        int before = t ? first - sequences->count[t - 1] : 0;
        for (int k = 0; k < count && t; ++k) {
            if (sequences->start && sequences->start[first + k]) continue;
            ppo__k()->add(dbefore + at + ppo__at(k, w), dh + ppo__at(before + k, w), w);
        }
        end = first;
    }
    if (u->grad) ppo__k()->gemm(w, 3 * w, rows, states, 1, w, du, 3 * w, u->grad, 3 * w, u->grad, 3 * w);
    if (c->grad) ppo__k()->column_sum(rows, 3 * w, du, 3 * w, c->grad);
}

/* 1 if the counts fit the rows. */
static int ppo__sequences_fit(const ppo_sequences *sequences, int rows) {
    int64_t sum = 0;
    for (int t = 0; t < sequences->steps; ++t) {
        if (!sequences->count || sequences->count[t] <= 0) return 0;
        if (t && sequences->count[t] > sequences->count[t - 1]) return 0;
        sum += sequences->count[t];
    }
    return sequences->steps == 0 || sum == rows;
}

/* (rows, in) -> the state after each row (rows, width). The arrays of sequences must stay until
   ppo_tape_reset(). */
static ppo_tensor *ppo__gru_layer(ppo_tape *tape, const ppo_gru *gru, ppo_tensor *x,
                                  const ppo_sequences *sequences) {
    static const ppo_op op = {"gru", 1, ppo__gru_forward, ppo__gru_backward};
    if (!ppo__operands(tape, op.name, x, gru && sequences ? x : NULL)) return NULL;
    if (!ppo__sequences_fit(sequences, x->rows))
        return (ppo_tensor *)ppo__tape_fail(
            tape,
            ppo__refuse("gru: the sequences' counts do not fall, or do not add up to %d rows", x->rows));
    ppo_tensor *projected = ppo_tape_linear(tape, x, gru->input_weight, gru->input_bias, PPO_IDENTITY);
    ppo_tensor *in[3] = {projected, gru->state_weight, gru->state_bias};
    if (!projected) return NULL;
    return ppo_tape_result(
        ppo_tape_apply(tape, &op, in, 3, x->rows, gru->width, sequences, sizeof *sequences));
}

PPO__COMPANION_IS(ppo__recurrence, ppo__recurrent, {ppo__gru_init, ppo__gru_layer});

#endif

PPO__WARNINGS_BACK

#endif
