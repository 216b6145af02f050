/* 14_own_loss.c - a loss of your own: written on the tape, checked, trained with.

   PPO's clip is flat outside its range. SPO ("Simple Policy Optimization", Xie et al. 2025) bends down there:
       L = -mean( r A - |A| / (2 e) (r - 1)^2 ),  r = pi_new / pi_old,  best at r = 1 + e or, if A < 0, 1 - e.
   The tape records operations as they are computed, and walks back along them for the gradient (automatic
   differentiation; section 5 of ppo.h). This lesson writes SPO as an expression of the tape's operations, and
   as one operation with its own backward pass. The policy and its task are those of lesson 8 (trpo.h).

   You will see the gradient checker find a mistake in that pass, but not where every ratio is 1: check away
   from special points. Then the clip and SPO train side by side, and SPO leaves fewer ratios outside the
   range. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "../companions/ppo_check.h"

#include "lesson.h"
#include "trpo.h"

enum { ITERATIONS = 40, EPOCHS = 8 };
enum { CLIP, EXPRESSION, OPERATION, MISTAKE, LOSSES }; /* the library's loss, and SPO in three versions */

static const ppo_policy_objective clip = {PPO_CLIP, 0.2f, 0.2f, 0, 0};

static ppo_policy_stats stats; /* of the latest policy_loss() */
static float weight[BATCH];    /* |A| / (2 e) */

/* 1. As an expression. If a call fails, NULL passes through the rest, and ppo_tape_backward() reports it. */
static ppo_tensor *expression(ppo_tape *t, ppo_tensor *logp) {
    ppo_tensor *r = ppo_tape_exp(t, ppo_tape_sub(t, logp, ppo_tape_constant(t, old_logp, BATCH, 1)));
    ppo_tensor *gain = ppo_tape_mul(t, r, ppo_tape_constant(t, A, BATCH, 1));
    ppo_tensor *away = ppo_tape_square(t, ppo_tape_scale(t, r, 1, -1));
    return ppo_tape_sub(t, gain, ppo_tape_mul(t, away, ppo_tape_constant(t, weight, BATCH, 1)));
}

/* 2. As an operation on logp, in[0]: forward fills out[0], backward adds to the gradient of in[0]. */
static ppo_status forward(ppo_node *node) {
    for (int i = 0; i < BATCH; i++) {
        float r = expf(node->in[0]->data[i] - old_logp[i]);
        node->out[0]->data[i] = r * A[i] - weight[i] * (r - 1) * (r - 1);
    }
    return PPO_OK;
}

static void backward(ppo_node *node) {
    int mistake = *(const int *)node->args;
    for (int i = 0; i < BATCH; i++) {
        float r = expf(node->in[0]->data[i] - old_logp[i]);
        float inner = mistake ? 1 : r; /* the chain rule: d r / d log pi = r */
        node->in[0]->grad[i] += node->out[0]->grad[i] * (A[i] - 2 * weight[i] * (r - 1)) * inner;
    }
}

static ppo_tensor *policy_loss(ppo_tape *t, ppo_tensor *const *theta, void *user) {
    static const ppo_op op = {"spo", 1, forward, backward};
    int kind = *(const int *)user, mistake = kind == MISTAKE;
    (void)theta; /* the same tensors as the policy's own */
    ppo_tensor *logp, *entropy, *logits = ppo_mlp_forward(t, &policy, ppo_tape_constant(t, obs, BATCH, 2));
    for (int i = 0; i < BATCH; i++) weight[i] = fabsf(A[i]) / (2 * clip.clip_high);
    ppo_tape_categorical(t, logits, action, 1, &logp, &entropy);
    ppo_tensor *clipped = ppo_tape_policy_loss(t, logp, old_logp, A, NULL, &clip, &stats);
    if (kind == CLIP) return clipped; /* otherwise only for its statistics: it gets no gradient */
    ppo_tensor *gain;
    if (kind == EXPRESSION) gain = expression(t, logp);
    else gain = ppo_tape_result(ppo_tape_apply(t, &op, &logp, 1, BATCH, 1, &mistake, sizeof mistake));
    return ppo_tape_scale(t, ppo_tape_mean(t, gain), -1, 0);
}

/* Returns the share of ratios outside the range in the last epochs. */
static float train(int kind, uint64_t seed, float reward[ITERATIONS]) {
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 1);
    ppo_adam adam = ppo_adam_default();
    float outside = 0;
    new_policy(seed);
    adam.lr = 0.02f;
    for (int i = 0; i < ITERATIONS; i++) {
        reward[i] = collect(&rng);
        for (int epoch = 0; epoch < EPOCHS; epoch++) {
            ppo_tape_reset(tape);
            ppo_params_zero_grad(params);
            must(ppo_tape_backward(tape, policy_loss(tape, params->tensors, &kind)));
            must(ppo_params_step(params, &adam, 0, NULL));
        }
        outside += stats.clip_fraction / ITERATIONS;
    }
    return outside;
}

int main(int argc, char **argv) {
    static const char *name[] = {"clip", "expression", "operation", "mistake"};
    float x[ITERATIONS], reward[2][ITERATIONS], outside[2], error[2][LOSSES] = {{0}};
    uint64_t seed = lesson_seed(argc, argv);
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    new_policy(seed);
    collect(&rng);
    for (int moved = 0; moved < 2; moved++) {
        printf("largest error of a gradient, %s\n", moved ? "weights changed" : "every ratio is 1");
        for (int k = EXPRESSION; k <= MISTAKE; k++) {
            ppo_status status = ppo_check_gradients(policy_loss, params->tensors, params->tensor_count, &k,
                                                    1e-2f, 2e-2f, &error[moved][k]);
            printf("  %-11s %6.4f  %s\n", name[k], (double)error[moved][k],
                   status ? ppo_last_error() : "passed");
        }
        for (size_t i = 0; i < params->count; i++) params->data[i] += 0.3f * ppo_rng_normal(&rng);
    }
    chart c = {.title = "Mean reward with the clip and with SPO", .x_label = "iterations"};
    for (int k = CLIP; k <= EXPRESSION; k++) {
        outside[k] = train(k, seed, reward[k]);
        printf("%s: %.1f %% of ratios outside 0.8 to 1.2, mean reward at the end %.2f\n", k ? "SPO" : "clip",
               100 * (double)outside[k], (double)reward[k][ITERATIONS - 1]);
        chart_line(&c, k ? "SPO" : "clip", x, reward[k], ITERATIONS);
    }
    for (int i = 0; i < ITERATIONS; i++) x[i] = (float)i;
    chart_save(&c, "build/lessons/14_own_loss.svg");
    claim(error[0][MISTAKE] < 0.02f && error[1][MISTAKE] > 0.02f,
          "the mistake shows only away from ratios of 1");
    claim(error[1][EXPRESSION] < 0.02f && error[1][OPERATION] < 0.02f,
          "expression and operation pass everywhere");
    claim(outside[1] < outside[0], "SPO leaves fewer ratios outside the range than the clip");
    return lesson_failures > 0;
}
