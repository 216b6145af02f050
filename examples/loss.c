/* loss.c - a loss of your own: written on the tape, checked, trained with.

   PPO's clip is flat outside its range. SPO ("Simple Policy Optimization", Xie et al. 2025) bends down there:
       L = -mean( r A - |A| / (2 e) (r - 1)^2 ),  r = pi_new / pi_old,  best at r = 1 + e or, if A < 0, 1 - e.
   This lesson writes it as an expression, and as an operation with its own backward pass. You will see the
   gradient checker find a mistake in that pass, but not where every ratio is 1; how many ratios end outside
   the range with the clip and with SPO; and a learning curve. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include <math.h>
#include <stdlib.h>

enum { BATCH = 256, ACTIONS = 4, ITERATIONS = 40, EPOCHS = 8 };
enum { CLIP, EXPRESSION, OPERATION, MISTAKE }; /* the library's loss, and SPO in three versions */

static const ppo_policy_objective clip = {.objective = PPO_CLIP, .clip_low = 0.2f, .clip_high = 0.2f};

typedef struct batch {
    int   loss, n, action[BATCH];
    float obs[2 * BATCH], old_logp[BATCH], A[BATCH], weight[BATCH]; /* weight: |A| / (2 e), e = 0.2 */
    ppo_policy_stats stats;
} batch;

static void must(ppo_status status) {
    if (status == PPO_OK) return;
    fprintf(stderr, "%s\n", ppo_last_error());
    exit(1);
}

/* 1. As an expression. If a call fails, NULL passes through the rest, and ppo_tape_backward() reports it. */
static ppo_tensor *spo(ppo_tape *tape, ppo_tensor *logp, const batch *b) {
    ppo_tensor *r =
        ppo_tape_exp(tape, ppo_tape_sub(tape, logp, ppo_tape_constant(tape, b->old_logp, b->n, 1)));
    ppo_tensor *gain = ppo_tape_mul(tape, r, ppo_tape_constant(tape, b->A, b->n, 1));
    ppo_tensor *away = ppo_tape_square(tape, ppo_tape_scale(tape, r, 1, -1));
    return ppo_tape_sub(tape, gain, ppo_tape_mul(tape, away, ppo_tape_constant(tape, b->weight, b->n, 1)));
}

/* 2. As an operation on logp, in[0]: forward fills out[0], backward adds to the gradient of in[0]. */
static ppo_status forward(ppo_node *node) {
    const batch *b = *(batch **)node->args;
    for (int i = 0; i < b->n; i++) {
        float r = expf(node->in[0]->data[i] - b->old_logp[i]);
        node->out[0]->data[i] = r * b->A[i] - b->weight[i] * (r - 1) * (r - 1);
    }
    return PPO_OK;
}

static void backward(ppo_node *node) {
    const batch *b = *(batch **)node->args;
    for (int i = 0; i < b->n; i++) {
        float r = expf(node->in[0]->data[i] - b->old_logp[i]);
        float inner = b->loss == MISTAKE ? 1 : r; /* the chain rule: d r / d log pi = r */
        node->in[0]->grad[i] += node->out[0]->grad[i] * (b->A[i] - 2 * b->weight[i] * (r - 1)) * inner;
    }
}

/* Logits (n, ACTIONS) of a linear policy. theta: its weight (2, ACTIONS) and bias (1, ACTIONS). */
static ppo_tensor *policy(ppo_tape *tape, ppo_tensor *const *theta, const batch *b) {
    return ppo_tape_linear(tape, ppo_tape_constant(tape, b->obs, b->n, 2), theta[0], theta[1], PPO_IDENTITY);
}

static ppo_tensor *policy_loss(ppo_tape *tape, ppo_tensor *const *theta, void *user) {
    static const ppo_op op = {"spo", 1, forward, backward};
    batch              *b = (batch *)user;
    ppo_tensor         *logp, *entropy;
    ppo_tape_categorical(tape, policy(tape, theta, b), b->action, 1, &logp, &entropy);
    ppo_tensor *clipped = ppo_tape_policy_loss(tape, logp, b->old_logp, b->A, NULL, &clip, &b->stats);
    if (b->loss == CLIP) return clipped; /* otherwise only for its statistics: it gets no gradient */
    ppo_tensor *gain = b->loss == EXPRESSION
                           ? spo(tape, logp, b)
                           : ppo_tape_result(ppo_tape_apply(tape, &op, &logp, 1, b->n, 1, &b, sizeof b));
    return ppo_tape_scale(tape, ppo_tape_mean(tape, gain), -1, 0);
}

/* Random points and the policy's actions. The reward is 1 for the right quadrant, else 0; returns its mean. */
static float collect(ppo_tape *tape, ppo_tensor *const *theta, ppo_rng *rng, batch *b) {
    float mean = 0;
    for (int i = 0; i < 2 * b->n; i++) b->obs[i] = ppo_rng_range(rng, -1, 1);
    ppo_tape_reset(tape);
    ppo_tensor *logits = policy(tape, theta, b);
    must(ppo_tape_status(tape));
    for (int i = 0; i < b->n; i++) {
        b->action[i] = ppo_categorical_sample(logits->data + i * ACTIONS, ACTIONS, 1, rng);
        b->A[i] = b->action[i] == 2 * (b->obs[2 * i] > 0) + (b->obs[2 * i + 1] > 0);
        mean += b->A[i] / (float)b->n;
    }
    must(ppo_token_logp(logits->data, b->action, b->n, ACTIONS, 1, b->old_logp, NULL));
    must(ppo_whiten(b->A, NULL, b->n, 1)); /* the reward less the mean, in standard deviations */
    for (int i = 0; i < b->n; i++) b->weight[i] = fabsf(b->A[i]) / (2 * clip.clip_high);
    return mean;
}

/* Trains from zero weights. Returns the share of ratios outside the range in the last epochs. */
static float train(ppo_tape *tape, ppo_params *params, batch *b, float *reward) {
    ppo_rng  rng = ppo_rng_stream(1, PPO_STREAM_USER, 1);
    ppo_adam adam = ppo_adam_default();
    float    outside = 0;
    for (size_t i = 0; i < params->count; i++) params->data[i] = params->m[i] = params->v[i] = 0;
    params->step = 0;
    adam.lr = 0.05f;
    for (int i = 0; i < ITERATIONS; i++) {
        reward[i] = collect(tape, params->tensors, &rng, b);
        for (int epoch = 0; epoch < EPOCHS; epoch++) {
            ppo_tape_reset(tape);
            ppo_params_zero_grad(params);
            must(ppo_tape_backward(tape, policy_loss(tape, params->tensors, b)));
            must(ppo_params_step(params, &adam, 0, NULL));
        }
        outside += b->stats.clip_fraction / ITERATIONS;
    }
    return outside;
}

int main(void) {
    static const char *name[] = {"clip", "expression", "operation", "mistake"};
    static batch       b;
    float              x[ITERATIONS], reward[ITERATIONS], error = 0;
    ppo_rng            rng = ppo_rng_stream(1, PPO_STREAM_USER, 0);
    ppo_params        *params = NULL;
    ppo_tape          *tape = NULL;
    must(ppo_params_create(&params));
    must(ppo_tape_create(&tape));
    ppo_tensor *w = ppo_params_add(params, "w", 2, ACTIONS), *bias = ppo_params_add(params, "b", 1, ACTIONS);
    must(w && bias ? PPO_OK : PPO_ERROR_MEMORY);

    ppo_tensor *const *theta = params->tensors;
    b.n = 8;
    collect(tape, theta, &rng, &b);
    for (int moved = 0; moved < 2; moved++) {
        printf("largest error of a gradient, %s\n", moved ? "after a change of w" : "where every ratio is 1");
        for (b.loss = EXPRESSION; b.loss <= MISTAKE; b.loss++) {
            int bad = ppo_check_gradients(policy_loss, theta, 2, &b, 1e-2f, 1e-2f, &error) != PPO_OK;
            printf("  %-11s %6.4f  %s\n", name[b.loss], (double)error, bad ? ppo_last_error() : "passed");
        }
        for (int k = 0; k < 2 * ACTIONS; k++) w->data[k] = 0.5f * ppo_rng_normal(&rng);
    }
    printf("\n             ratios outside 0.8 to 1.2   mean reward at the end\n");
    b.n = BATCH;
    for (b.loss = CLIP; b.loss <= OPERATION; b.loss++) {
        double outside = train(tape, params, &b, reward);
        printf("  %-11s %16.1f %% %24.2f\n", name[b.loss], 100 * outside, (double)reward[ITERATIONS - 1]);
    }
    for (int i = 0; i < ITERATIONS; i++) x[i] = (float)i;
    ppo_print_curve(stdout, "\nmean reward against iterations, SPO", x, reward, ITERATIONS, 72, 16);
    ppo_tape_free(tape);
    ppo_params_free(params);
}
