/* Section 9: losses and their gradients, against PyTorch and TRL. */
#include "../ppo.h"
#include "../examples/companions/ppo_methods.h"

#include "golden/control.h"
#include "golden/core.h"
#include "golden/kto.h"
#include "test.h"

enum { N = g_policy_n };
#define POLICY g_policy_logp, g_policy_old_logp, g_policy_advantage

static const ppo_policy_objective clip = {PPO_CLIP, 0.2f, 0.2f, 0, 0};

static ppo_policy_objective golden_objective(int i) {
    const float *row = g_policy_objective + 5 * i;
    static const int kinds[3] = {PPO_CLIP, PPO_K3_PENALTY, PPO_UNCLIPPED};
    ppo_policy_objective objective = {kinds[(int)row[0]], row[1], row[2], row[3], row[4]};
    return objective;
}

static void policy_loss_agrees_with_pytorch_for_every_objective_and_mask(void **state) {
    (void)state;
    for (int i = 0; i < 2 * g_policy_objectives; i++) {
        ppo_policy_objective objective = golden_objective(i / 2);
        const unsigned char *mask = i % 2 ? g_policy_mask : NULL;
        ppo_policy_stats stats;
        float grad[N], alone[N];
        assert_ok(ppo_policy_loss(POLICY, mask, N, &objective, &stats, grad));
        assert_close_array(grad, g_policy_grad_logp + i * N, N, 2e-6);
        assert_close(stats.loss, g_policy_loss[i], 2e-6);
        assert_close(stats.clip_fraction, g_policy_clip_fraction[i], 1e-6);
        assert_close(stats.approx_kl, g_policy_approx_kl[i], 2e-6);
        assert_close(stats.old_approx_kl, g_policy_old_approx_kl[i], 2e-6);
        assert_close(stats.ratio_mean, g_policy_ratio_mean[i], 1e-6);
        assert_close(stats.ratio_max, g_policy_ratio_max[i], 1e-6);
        float smallest = INFINITY;
        for (int j = 0; j < N; j++)
            if (!mask || mask[j]) smallest = fminf(smallest, expf(g_policy_logp[j] - g_policy_old_logp[j]));
        assert_close(stats.ratio_min, smallest, 1e-6);
        assert_ok(ppo_policy_loss(POLICY, mask, N, &objective, NULL, alone));
        assert_close_array(alone, grad, N, 1e-6);
        assert_ok(ppo_policy_loss(POLICY, mask, N, &objective, &stats, NULL));
        assert_close(stats.loss, g_policy_loss[i], 2e-6);
    }
}

/* An objective that ppo__policy_term() does not know would be the last one there, the clip. */
static void every_objective_has_a_term_of_its_own(void **state) {
    (void)state;
    const float logp = logf(2), old_logp = 0, advantage = 1;
    float loss[PPO__OBJECTIVES];
    ppo_policy_objective objective = ppo_policy_objective_default();
    ppo_policy_stats stats;
    for (int i = 0; i < PPO__OBJECTIVES; i++) {
        objective.objective = i, loss[i] = NAN;
        if (i == PPO_KL_PENALTY) continue; /* its term is not of log-probabilities */
        assert_ok(ppo_policy_loss(&logp, &old_logp, &advantage, NULL, 1, &objective, &stats, NULL));
        loss[i] = stats.loss;
        for (int k = 0; k < i; k++) assert_true(loss[i] != loss[k]);
    }
}

static void gradient_is_zero_where_masked_even_if_the_numbers_there_are_not(void **state) {
    (void)state;
    float logp[3] = {-1, NAN, -2}, old_logp[3] = {-1, -INFINITY, -2}, advantage[3] = {1, NAN, -3}, grad[3];
    unsigned char mask[3] = {1, 0, 1};
    ppo_policy_stats stats;
    assert_ok(ppo_policy_loss(logp, old_logp, advantage, mask, 3, &clip, &stats, grad));
    assert_close(stats.loss, 1, 1e-6); /* -(1 - 3) / 2 */
    assert_true(grad[0] == -0.5f && grad[1] == 0 && grad[2] == 1.5f);
    assert_true(stats.ratio_mean == 1 && stats.ratio_max == 1 && stats.approx_kl == 0 &&
                stats.old_approx_kl == 0);
    float loss;
    assert_ok(ppo_value_loss(logp, NULL, old_logp, mask, 3, 0, &loss, grad));
    assert_true(loss == 0 && grad[1] == 0);
}

/* The plateau of the clipped objective, as drawn at the top of ppo.h: exactly no gradient beyond the good
   end. */
static void clipped_gradient_flows_only_on_the_sides_that_were_drawn(void **state) {
    (void)state;
    static const struct {
        float ratio, advantage;
        int flows;
    } cases[] = {{1.3f, 1, 0}, {1.1f, 1, 1}, {0.5f, 1, 1}, {1.3f, -1, 1}, {0.9f, -1, 1}, {0.7f, -1, 0}};
    for (int i = 0; i < COUNT(cases); i++) {
        float logp = logf(cases[i].ratio), old_logp = 0, grad;
        assert_ok(ppo_policy_loss(&logp, &old_logp, &cases[i].advantage, NULL, 1, &clip, NULL, &grad));
        assert_close(grad, cases[i].flows ? -cases[i].ratio * cases[i].advantage : 0, 1e-6);
    }
}

/* k3 = (r - 1) - log r is of second order; computed term by term in float it would be mostly rounding, and
   negative now and then. */
static void approx_kl_is_precise_and_not_negative_for_tiny_steps(void **state) {
    (void)state;
    static const float steps[] = {1e-2f, 1e-3f, 3e-4f};
    for (int i = 0; i < COUNT(steps); i++) {
        float logp[2] = {steps[i], -steps[i]}, old_logp[2] = {0, 0}, advantage[2] = {1, 1};
        ppo_policy_stats stats;
        assert_ok(ppo_policy_loss(logp, old_logp, advantage, NULL, 2, &clip, &stats, NULL));
        double want = (expm1(steps[i]) - steps[i] + expm1(-(double)steps[i]) + steps[i]) / 2;
        assert_true(stats.approx_kl >= 0);
        assert_true(fabs(stats.approx_kl - want) < 1e-6 * want);
    }
}

static void policy_loss_refuses_bad_input(void **state) {
    (void)state;
    float x[3] = {-1, -2, -3}, bad[3] = {-1, -2, NAN}, huge[3] = {-1, 300, -3};
    unsigned char none[3] = {0, 0, 0};
    ppo_policy_objective unknown = clip, exact = clip, negative = clip, low = clip;
    ppo_policy_stats stats;
    unknown.objective = 9, exact.objective = PPO_KL_PENALTY, negative.clip_high = -0.5f, low.clip_low = NAN;
    assert_fails(ppo_policy_loss(NULL, x, x, NULL, 3, &clip, &stats, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_policy_loss(x, NULL, x, NULL, 3, &clip, &stats, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_policy_loss(x, x, NULL, NULL, 3, &clip, &stats, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_policy_loss(x, x, x, NULL, 3, NULL, &stats, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_policy_loss(x, x, x, NULL, 0, &clip, &stats, NULL), PPO_ERROR_ARGUMENT, "0");
    assert_fails(ppo_policy_loss(x, x, x, NULL, -8, &clip, &stats, NULL), PPO_ERROR_ARGUMENT, "-8");
    assert_fails(ppo_policy_loss(x, x, x, none, 3, &clip, &stats, NULL), PPO_ERROR_ARGUMENT, "mask");
    assert_fails(ppo_policy_loss(x, x, x, NULL, 3, &unknown, &stats, NULL), PPO_ERROR_ARGUMENT,
                 "objective|9");
    assert_fails(ppo_policy_loss(x, x, x, NULL, 3, &exact, &stats, NULL), PPO_ERROR_ARGUMENT,
                 "PPO_KL_PENALTY needs the distributions|PPO_K3_PENALTY|PPO_UNCLIPPED and add");
    assert_fails(ppo_policy_loss(x, x, x, NULL, 3, &negative, &stats, NULL), PPO_ERROR_ARGUMENT,
                 "clip_high|-0.5");
    assert_fails(ppo_policy_loss(x, x, x, NULL, 3, &low, &stats, NULL), PPO_ERROR_ARGUMENT, "clip_low|nan");
    assert_fails(ppo_policy_loss(bad, x, x, NULL, 3, &clip, &stats, NULL), PPO_ERROR_NUMERIC, "2");
    assert_fails(ppo_policy_loss(x, bad, x, NULL, 3, &clip, &stats, NULL), PPO_ERROR_NUMERIC, "2");
    assert_fails(ppo_policy_loss(x, x, bad, NULL, 3, &clip, &stats, NULL), PPO_ERROR_NUMERIC, "2");
    assert_fails(ppo_policy_loss(huge, x, x, NULL, 3, &clip, &stats, NULL), PPO_ERROR_NUMERIC,
                 "1"); /* exp(302) */
    float never[3] = {-1, -2, -INFINITY}, good[3] = {1, 1, 1};
    assert_fails(ppo_policy_loss(x, never, good, NULL, 3, &clip, &stats, NULL), PPO_ERROR_NUMERIC,
                 "sample 2|old logp -inf");
}

/* The clip keeps the loss finite where a ratio overflows, or a token has become impossible. */
static void statistics_may_be_infinite_but_are_never_nan(void **state) {
    (void)state;
    const float logp[2][2] = {{0, -1}, {-INFINITY, -1}}, old[2][2] = {{-200, -1}, {-2, -1}};
    const float advantage[2] = {1, 1};
    float grad[2];
    ppo_policy_stats stats;
    for (int i = 0; i < 2; i++) {
        assert_ok(ppo_policy_loss(logp[i], old[i], advantage, NULL, 2, &clip, &stats, grad));
        assert_close(stats.loss, i ? -0.5 : -1.1, 1e-6);
        assert_close(grad[0], 0, 0);
        assert_true(stats.approx_kl == INFINITY);
        assert_true(stats.ratio_max == (i ? 1 : INFINITY) && stats.ratio_min == (i ? 0 : 1));
        assert_true(stats.old_approx_kl == (i ? INFINITY : -100));
    }
}

static void value_loss_agrees_with_pytorch_and_trl(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        float loss, grad[g_value_n], range = i < 2 ? 0 : g_value_clip_range;
        const unsigned char *mask = i % 2 ? g_policy_mask : NULL;
        const float *old = i < 2 ? NULL : g_value_old_value;
        assert_ok(ppo_value_loss(g_value_value, old, g_value_target, mask, g_value_n, range, &loss, grad));
        assert_close(loss, g_value_loss[i], 1e-6);
        assert_close_array(grad, g_value_grad + i * g_value_n, g_value_n, 1e-6);
        assert_ok(ppo_value_loss(g_value_value, old, g_value_target, mask, g_value_n, range, NULL, grad));
        assert_ok(ppo_value_loss(g_value_value, old, g_value_target, mask, g_value_n, range, &loss, NULL));
        assert_close(loss, g_value_loss[i], 1e-6);
    }
}

static void value_loss_refuses_bad_input(void **state) {
    (void)state;
    float x[3] = {1, 2, 3}, bad[3] = {1, INFINITY, 3}, nans[3] = {1, NAN, 3}, loss;
    unsigned char none[3] = {0, 0, 0};
    assert_fails(ppo_value_loss(NULL, x, x, NULL, 3, 0, &loss, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_value_loss(x, x, NULL, NULL, 3, 0, &loss, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_value_loss(x, NULL, x, NULL, 3, 0.2f, &loss, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_value_loss(x, x, x, NULL, 0, 0, &loss, NULL), PPO_ERROR_ARGUMENT, "0");
    assert_fails(ppo_value_loss(x, x, x, none, 3, 0, &loss, NULL), PPO_ERROR_ARGUMENT, "mask");
    assert_fails(ppo_value_loss(bad, x, x, NULL, 3, 0, &loss, NULL), PPO_ERROR_NUMERIC, "1");
    assert_fails(ppo_value_loss(x, x, bad, NULL, 3, 0, &loss, NULL), PPO_ERROR_NUMERIC, "1");
    assert_fails(ppo_value_loss(x, bad, x, NULL, 3, 0.2f, &loss, NULL), PPO_ERROR_NUMERIC, "1");
    assert_fails(ppo_value_loss(x, nans, x, NULL, 3, 0.2f, &loss, NULL), PPO_ERROR_NUMERIC, "1");
    assert_fails(ppo_value_loss(x, x, x, NULL, 3, NAN, &loss, NULL), PPO_ERROR_ARGUMENT, "clip_range|nan");
}

enum { H = g_huber_n };

static void huber_loss_agrees_with_pytorch_also_clipped_and_masked(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++) { /* delta, clip_range, mask */
        float loss, grad[H], alone[H], delta = i < 4 ? 0.5f : 2, range = i / 2 % 2 ? 0.3f : 0;
        const unsigned char *mask = i % 2 ? g_huber_mask : NULL;
        const float *old = range > 0 ? g_huber_old_value : NULL;
        assert_ok(
            ppo_huber_value_loss(g_huber_value, old, g_huber_target, mask, H, range, delta, &loss, grad));
        assert_close(loss, g_huber_loss[i], 1e-6);
        assert_close_array(grad, g_huber_grad + i * H, H, 1e-6);
        assert_ok(
            ppo_huber_value_loss(g_huber_value, old, g_huber_target, mask, H, range, delta, NULL, alone));
        assert_false(bits_differ(alone, grad, H));
    }
}

static void huber_loss_with_an_infinite_delta_is_the_value_loss_to_the_bit(void **state) {
    (void)state;
    float data[H], grads[2][H], slopes[2][H], loss[2];
    ppo_tensor x = {H, 1, data, NULL};
    ppo_tape *tape;
    memcpy(data, g_huber_value, sizeof data);
    assert_ok(ppo_tape_create(&tape));
    for (int i = 0; i < 4; i++) {
        const unsigned char *mask = i % 2 ? g_huber_mask : NULL;
        float range = i / 2 * 0.3f;
        assert_ok(
            ppo_value_loss(data, g_huber_old_value, g_huber_target, mask, H, range, &loss[0], grads[0]));
        assert_ok(ppo_huber_value_loss(data, g_huber_old_value, g_huber_target, mask, H, range, INFINITY,
                                       &loss[1], grads[1]));
        assert_true(loss[0] == loss[1]);
        assert_false(bits_differ(grads[0], grads[1], H));
        for (int k = 0; k < 2; k++) { /* and the operations are the functions */
            float delta = k ? 0.5f : INFINITY;
            memset(slopes[k], 0, sizeof slopes[k]);
            x.grad = slopes[k];
            ppo_tape_reset(tape);
            ppo_tensor *y =
                ppo_tape_value_loss(tape, &x, g_huber_old_value, g_huber_target, mask, range, delta);
            assert_ok(ppo_tape_backward(tape, y));
            assert_ok(ppo_huber_value_loss(data, g_huber_old_value, g_huber_target, mask, H, range, delta,
                                           &loss[1], grads[1]));
            assert_true(y->data[0] == loss[1]);
            assert_false(bits_differ(slopes[k], grads[1], H));
        }
        assert_false(bits_differ(slopes[0], grads[0], H));
        assert_true(bits_differ(slopes[1], grads[0], H));
    }
    ppo_tape_free(tape);
}

static void huber_loss_refuses_bad_input(void **state) {
    (void)state;
    float x[3] = {1, 2, 3}, bad[3] = {1, INFINITY, 3}, nans[3] = {1, NAN, 3}, loss;
    assert_fails(ppo_huber_value_loss(NULL, x, x, NULL, 3, 0, 1, &loss, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_huber_value_loss(x, NULL, x, NULL, 3, 0.1f, 1, &loss, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_huber_value_loss(x, x, x, NULL, 3, 0, 0, &loss, NULL), PPO_ERROR_ARGUMENT, "delta is 0");
    assert_fails(ppo_huber_value_loss(x, x, x, NULL, 3, 0, -2, &loss, NULL), PPO_ERROR_ARGUMENT,
                 "delta is -2");
    assert_fails(ppo_huber_value_loss(x, x, x, NULL, 3, 0, NAN, &loss, NULL), PPO_ERROR_ARGUMENT,
                 "delta is|nan");
    for (int i = 0; i < 2; i++) {
        float delta = i ? INFINITY : 1;
        assert_fails(ppo_huber_value_loss(bad, x, x, NULL, 3, 0, delta, &loss, NULL), PPO_ERROR_NUMERIC, "1");
        assert_fails(ppo_huber_value_loss(x, x, nans, NULL, 3, 0, delta, &loss, NULL), PPO_ERROR_NUMERIC,
                     "1");
        assert_fails(ppo_huber_value_loss(x, nans, x, NULL, 3, 0.1f, delta, &loss, NULL), PPO_ERROR_NUMERIC,
                     "1");
    }
}

static void kl_estimates_agree_with_their_formulas(void **state) {
    (void)state;
    static const float *const want[] = {g_kl_k1, g_kl_k2, g_kl_k3};
    for (int k = 0; k < 3; k++) {
        float kl[g_kl_n];
        assert_ok(ppo_kl_estimate(g_kl_logp, g_kl_ref_logp, g_kl_n, PPO_K1 + k, kl));
        for (int i = 0; i < g_kl_n; i++) { /* each to its own size: they span ten orders of magnitude */
            double l = g_kl_ref_logp[i] - g_kl_logp[i];
            assert_true(fabs(kl[i] - want[k][i]) <=
                        1e-6 * fabs(want[k][i]) + (k == 2 && fabs(l) < 1 ? 1e-3 * want[k][i] : 0));
            if (k == 2) assert_true(fabs(kl[i] - (expm1(l) - l)) <= 6e-7 * kl[i]);
            if (k > 0) assert_true(kl[i] >= 0);
        }
    }
}

/* Near 0 by its series, beyond by expm1. */
static void k3_is_precise_for_every_log_ratio(void **state) {
    (void)state;
    for (int i = -8000; i <= 8000; i++) {
        float zero = 0, l = (float)i * (i % 2 ? 1e-3f : 3.3e-5f), bound = fabsf(l) < 0.25f ? 2e-7f : 6e-7f,
              k3;
        double want = fabs(l) < 1e-3 ? (double)l * l * (0.5 + l / 6.0 + l * (double)l / 24) : expm1(l) - l;
        assert_ok(ppo_kl_estimate(&zero, &l, 1, PPO_K3, &k3));
        assert_true(fabs(k3 - want) <= bound * want);
    }
}

/* The mean of k1, and of k3, over samples of a policy is its KL divergence from the reference. */
static void kl_estimates_have_the_exact_kl_as_their_mean(void **state) {
    (void)state;
    enum { DRAWS = 40000 };
    static const float pi[4] = {0, 1, -1, 0.5f}, ref[4] = {0.3f, 0.2f, -0.5f, 0};
    static float logp[DRAWS], ref_logp[DRAWS], kl[DRAWS];
    ppo_rng rng = test_rng(1);
    float exact;
    assert_ok(ppo_categorical_kl(pi, ref, 1, 4, &exact));
    for (int i = 0; i < DRAWS; i++) {
        int token = ppo_categorical_sample(pi, 4, 1, &rng);
        assert_ok(ppo_token_logp(pi, &token, 1, 4, 1, &logp[i], NULL));
        assert_ok(ppo_token_logp(ref, &token, 1, 4, 1, &ref_logp[i], NULL));
    }
    for (int k = 0; k < 2; k++) {
        double sum = 0, squares = 0;
        assert_ok(ppo_kl_estimate(logp, ref_logp, DRAWS, k ? PPO_K3 : PPO_K1, kl));
        for (int i = 0; i < DRAWS; i++) sum += kl[i], squares += kl[i] * kl[i];
        double error = sqrt((squares / DRAWS - sum / DRAWS * sum / DRAWS) / DRAWS);
        assert_true(fabs(sum / DRAWS - exact) < 5 * error);
    }
}

static void kl_estimate_refuses_bad_input(void **state) {
    (void)state;
    float x[2] = {-1, -2}, bad[2] = {-1, NAN}, kl[2];
    assert_fails(ppo_kl_estimate(NULL, x, 2, PPO_K1, kl), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_kl_estimate(x, NULL, 2, PPO_K1, kl), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_kl_estimate(x, x, 2, PPO_K1, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_kl_estimate(x, x, 0, PPO_K1, kl), PPO_ERROR_ARGUMENT, "0");
    assert_fails(ppo_kl_estimate(x, x, 2, 0, kl), PPO_ERROR_ARGUMENT, "estimator|0");
    assert_fails(ppo_kl_estimate(x, x, 2, 4, kl), PPO_ERROR_ARGUMENT, "estimator|4");
    assert_fails(ppo_kl_estimate(bad, x, 2, PPO_K2, kl), PPO_ERROR_NUMERIC, "1");
    assert_fails(ppo_kl_estimate(x, bad, 2, PPO_K3, kl), PPO_ERROR_NUMERIC, "1");
}

#define DPO g_dpo_chosen, g_dpo_rejected, g_dpo_ref_chosen, g_dpo_ref_rejected

static void dpo_loss_agrees_with_trl(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        float loss, chosen[g_dpo_n], rejected[g_dpo_n], smoothing = k ? 0.1f : 0;
        assert_ok(ppo_dpo_loss(DPO, g_dpo_n, g_dpo_beta, smoothing, &loss, chosen, rejected));
        assert_close(loss, k ? g_dpo_loss_1 : g_dpo_loss_0, 1e-6);
        assert_close_array(chosen, k ? g_dpo_grad_chosen_1 : g_dpo_grad_chosen_0, g_dpo_n, 2e-6);
        assert_close_array(rejected, k ? g_dpo_grad_rejected_1 : g_dpo_grad_rejected_0, g_dpo_n, 2e-6);
        assert_ok(ppo_dpo_loss(DPO, g_dpo_n, g_dpo_beta, smoothing, &loss, NULL, NULL));
        assert_ok(ppo_dpo_loss(DPO, g_dpo_n, g_dpo_beta, smoothing, NULL, chosen, NULL));
        assert_close_array(chosen, k ? g_dpo_grad_chosen_1 : g_dpo_grad_chosen_0, g_dpo_n, 2e-6);
    }
}

static void kto_loss_agrees_with_trl(void **state) {
    (void)state;
    ppo_tape *tape;
    assert_ok(ppo_tape_create(&tape));
    for (int k = 0; k < 2; k++) { /* the second batch has a negative estimate of the KL, which counts as 0 */
        const float *kl = k ? g_kto_low_kl_logp : g_kto_kl_logp;
        const float *want = k ? g_kto_low_grad : g_kto_grad, value = k ? g_kto_low_loss : g_kto_loss;
        const float baseline = k ? 0 : g_kto_baseline;
        float logp[g_kto_n], kl_logp[g_kto_n], grad[g_kto_n], kl_grad[g_kto_n] = {0},
                                                              tape_grad[g_kto_n] = {0}, loss;
        memcpy(logp, g_kto_logp, sizeof logp);
        memcpy(kl_logp, kl, sizeof kl_logp);
        assert_ok(
            ppo_kto_loss(logp, g_kto_ref_logp, g_kto_weight, g_kto_n, baseline, g_kto_beta, &loss, grad));
        assert_close(loss, value, 1e-6);
        assert_close_array(grad, want, g_kto_n, 2e-6);
        ppo_tensor x = {g_kto_n, 1, logp, tape_grad}, y = {g_kto_n, 1, kl_logp, kl_grad};
        ppo_tape_reset(tape);
        ppo_tensor *on_tape =
            ppo_tape_kto_loss(tape, &x, &y, g_kto_ref_logp, g_kto_ref_kl_logp, g_kto_weight, g_kto_beta);
        assert_ok(ppo_tape_backward(tape, on_tape));
        assert_close(on_tape->data[0], value, 1e-6);
        assert_close_array(tape_grad, want, g_kto_n, 2e-6);
        for (int i = 0; i < g_kto_n; i++) assert_true(kl_grad[i] == 0);
    }
    ppo_tape_free(tape);
}

static void kto_loss_refuses_bad_input(void **state) {
    (void)state;
    float x[2] = {-1, -2}, bad[2] = {-1, NAN}, none[2] = {1, 0}, loss;
    assert_fails(ppo_kto_loss(NULL, x, x, 2, 0, 1, &loss, NULL), PPO_ERROR_ARGUMENT, "logp is NULL");
    assert_fails(ppo_kto_loss(x, NULL, x, 2, 0, 1, &loss, NULL), PPO_ERROR_ARGUMENT, "ref_logp is NULL");
    assert_fails(ppo_kto_loss(x, x, NULL, 2, 0, 1, &loss, NULL), PPO_ERROR_ARGUMENT, "weight is NULL");
    assert_fails(ppo_kto_loss(x, x, x, 0, 0, 1, &loss, NULL), PPO_ERROR_ARGUMENT, "0 sequences");
    assert_fails(ppo_kto_loss(x, x, x, 2, 0, 0, &loss, NULL), PPO_ERROR_ARGUMENT, "beta 0");
    assert_fails(ppo_kto_loss(x, x, x, 2, NAN, 1, &loss, NULL), PPO_ERROR_ARGUMENT, "baseline nan");
    assert_fails(ppo_kto_loss(x, x, none, 2, 0, 1, &loss, NULL), PPO_ERROR_ARGUMENT,
                 "weight of sequence 1 is 0");
    assert_fails(ppo_kto_loss(bad, x, x, 2, 0, 1, &loss, NULL), PPO_ERROR_NUMERIC, "sequence 1");
    assert_ok(ppo_kto_loss(x, x, x, 2, 1e30f, 1e30f, &loss, NULL)); /* certain: no overflow */
    assert_close(loss, 0, 0);                                       /* both are undesirable */
    ppo_tape *tape;
    ppo_tensor a = {2, 1, x, NULL}, b = {1, 1, x, NULL};
    assert_ok(ppo_tape_create(&tape));
    assert_null(ppo_tape_kto_loss(tape, &a, &b, x, x, x, 1));
    assert_int_equal(ppo_tape_status(tape), PPO_ERROR_ARGUMENT);
    ppo_tape_free(tape);
}

static void dpo_loss_refuses_bad_input(void **state) {
    (void)state;
    float x[2] = {-1, -2}, bad[2] = {-1, NAN}, loss;
    assert_fails(ppo_dpo_loss(NULL, x, x, x, 2, 1, 0, &loss, NULL, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_dpo_loss(x, NULL, x, x, 2, 1, 0, &loss, NULL, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_dpo_loss(x, x, NULL, x, 2, 1, 0, &loss, NULL, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_dpo_loss(x, x, x, NULL, 2, 1, 0, &loss, NULL, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_dpo_loss(x, x, x, x, 0, 1, 0, &loss, NULL, NULL), PPO_ERROR_ARGUMENT, "0");
    assert_fails(ppo_dpo_loss(x, x, x, x, 2, 0, 0, &loss, NULL, NULL), PPO_ERROR_ARGUMENT, "beta|0");
    assert_fails(ppo_dpo_loss(x, x, x, x, 2, 1, 0.5f, &loss, NULL, NULL), PPO_ERROR_ARGUMENT,
                 "label_smoothing is 0.5|below 0.5");
    assert_fails(ppo_dpo_loss(x, x, x, x, 2, 1, -0.25f, &loss, NULL, NULL), PPO_ERROR_ARGUMENT,
                 "label_smoothing|-0.25");
    assert_fails(ppo_dpo_loss(x, x, bad, x, 2, 1, 0, &loss, NULL, NULL), PPO_ERROR_NUMERIC, "1");
}

static void pairwise_loss_agrees_with_pytorch(void **state) {
    (void)state;
    float loss = 0, chosen[g_pairwise_n], rejected[g_pairwise_n];
    assert_ok(
        ppo_pairwise_loss(g_pairwise_chosen, g_pairwise_rejected, g_pairwise_n, &loss, chosen, rejected));
    assert_close(loss, g_pairwise_loss, 1e-6);
    assert_close_array(chosen, g_pairwise_grad_chosen, g_pairwise_n, 1e-6);
    assert_close_array(rejected, g_pairwise_grad_rejected, g_pairwise_n, 1e-6);
    assert_ok(ppo_pairwise_loss(g_pairwise_chosen, g_pairwise_rejected, g_pairwise_n, NULL, NULL, rejected));
    assert_close_array(rejected, g_pairwise_grad_rejected, g_pairwise_n, 1e-6);
}

static void pairwise_loss_refuses_bad_input(void **state) {
    (void)state;
    float x[2] = {1, 2}, bad[2] = {1, NAN}, loss;
    assert_fails(ppo_pairwise_loss(NULL, x, 2, &loss, NULL, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_pairwise_loss(x, NULL, 2, &loss, NULL, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_pairwise_loss(x, x, -1, &loss, NULL, NULL), PPO_ERROR_ARGUMENT, "-1");
    assert_fails(ppo_pairwise_loss(x, bad, 2, &loss, NULL, NULL), PPO_ERROR_NUMERIC, "1");
}

static void losses_on_the_tape_are_the_plain_ones(void **state) {
    (void)state;
    float grad[N], want[N], loss, data[N];
    ppo_policy_stats on_tape, plain;
    ppo_tape *tape;
    assert_ok(ppo_tape_create(&tape));
    for (int i = 0; i < g_policy_objectives; i++) {
        ppo_policy_objective objective = golden_objective(i);
        ppo_tensor x = {N, 1, data, grad};
        memcpy(data, g_policy_logp, sizeof data);
        memset(grad, 0, sizeof grad);
        ppo_tape_reset(tape);
        ppo_tensor *y = ppo_tape_policy_loss(tape, &x, g_policy_old_logp, g_policy_advantage, g_policy_mask,
                                             &objective, &on_tape);
        assert_ok(ppo_tape_backward(tape, y));
        assert_ok(ppo_policy_loss(POLICY, g_policy_mask, N, &objective, &plain, want));
        assert_memory_equal(&on_tape, &plain, sizeof plain);
        assert_true(y->data[0] == plain.loss);
        for (int j = 0; j < N; j++) assert_true(grad[j] == want[j]);
    }
    for (int i = 0; i < 2; i++) {
        ppo_tensor x = {N, 1, data, grad};
        memcpy(data, g_value_value, sizeof data);
        memset(grad, 0, sizeof grad);
        ppo_tape_reset(tape);
        ppo_tensor *y = ppo_tape_value_loss(tape, &x, g_value_old_value, g_value_target, NULL,
                                            i * g_value_clip_range, INFINITY);
        assert_ok(ppo_tape_backward(tape, y));
        assert_ok(ppo_value_loss(g_value_value, g_value_old_value, g_value_target, NULL, N,
                                 i * g_value_clip_range, &loss, want));
        assert_true(y->data[0] == loss);
        for (int j = 0; j < N; j++) assert_true(grad[j] == want[j]);
    }
    ppo_tape_free(tape);
}

/* Of a pair either side, both or none may want a gradient. */
static void a_loss_of_pairs_gives_gradients_to_those_that_want_one(void **state) {
    (void)state;
    float c[3] = {1, -2, 0.5f}, r[3] = {0.5f, 1, 2}, ref[3] = {0.1f, 0.2f, 0.3f}, want[2][3], loss;
    ppo_tape *tape;
    assert_ok(ppo_tape_create(&tape));
    for (int i = 0; i < 8; i++) {
        float grad[2][3] = {{0}};
        int dpo = i / 4;
        ppo_tensor chosen = {3, 1, c, i & 1 ? grad[0] : NULL}, rejected = {3, 1, r, i & 2 ? grad[1] : NULL};
        ppo_tape_reset(tape);
        ppo_tensor *y = dpo ? ppo_tape_dpo_loss(tape, &chosen, &rejected, ref, c, 0.3f, 0.1f)
                            : ppo_tape_pairwise_loss(tape, &chosen, &rejected);
        assert_ok(dpo ? ppo_dpo_loss(c, r, ref, c, 3, 0.3f, 0.1f, &loss, want[0], want[1])
                      : ppo_pairwise_loss(c, r, 3, &loss, want[0], want[1]));
        assert_ok(ppo_tape_status(tape));
        assert_true(y->data[0] == loss);
        if (i % 4) assert_ok(ppo_tape_backward(tape, y));
        for (int k = 0; k < 2; k++) {
            if (i >> k & 1) assert_false(bits_differ(grad[k], want[k], 3));
        }
    }
    ppo_tape_free(tape);
}

/* Within their ranges the clipped losses are the plain ones, to the bit, wherever the numbers lie; also where
   floats are computed with excess precision (gcc -m32 -mfpmath=387). */
static void gradients_flow_everywhere_within_the_clip_ranges(void **state) {
    (void)state;
    enum { SAMPLES = 20000 };
    static float x[SAMPLES], old[SAMPLES], y[SAMPLES], clipped[SAMPLES], plain[SAMPLES];
    ppo_policy_objective unclipped = clip;
    ppo_rng rng = test_rng(77);
    for (int i = 0; i < SAMPLES; i++) {
        x[i] = 100 * ppo_rng_normal(&rng), old[i] = x[i] + ppo_rng_range(&rng, -0.49f, 0.49f);
        y[i] = x[i] + 0.01f * ppo_rng_normal(&rng);
    }
    assert_ok(ppo_value_loss(x, old, y, NULL, SAMPLES, 0.5f, NULL, clipped));
    assert_ok(ppo_value_loss(x, NULL, y, NULL, SAMPLES, 0, NULL, plain));
    assert_false(bits_differ(clipped, plain, SAMPLES));
    for (int i = 0; i < SAMPLES; i++) {
        old[i] = -fabsf(x[i]) / 10, x[i] = old[i] + ppo_rng_range(&rng, -0.22f, 0.18f);
        y[i] = ppo_rng_normal(&rng);
    }
    unclipped.objective = PPO_UNCLIPPED;
    assert_ok(ppo_policy_loss(x, old, y, NULL, SAMPLES, &clip, NULL, clipped));
    assert_ok(ppo_policy_loss(x, old, y, NULL, SAMPLES, &unclipped, NULL, plain));
    assert_false(bits_differ(clipped, plain, SAMPLES));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policy_loss_agrees_with_pytorch_for_every_objective_and_mask),
        cmocka_unit_test(every_objective_has_a_term_of_its_own),
        cmocka_unit_test(gradient_is_zero_where_masked_even_if_the_numbers_there_are_not),
        cmocka_unit_test(clipped_gradient_flows_only_on_the_sides_that_were_drawn),
        cmocka_unit_test(approx_kl_is_precise_and_not_negative_for_tiny_steps),
        cmocka_unit_test(policy_loss_refuses_bad_input),
        cmocka_unit_test(statistics_may_be_infinite_but_are_never_nan),
        cmocka_unit_test(value_loss_agrees_with_pytorch_and_trl),
        cmocka_unit_test(value_loss_refuses_bad_input),
        cmocka_unit_test(huber_loss_agrees_with_pytorch_also_clipped_and_masked),
        cmocka_unit_test(huber_loss_with_an_infinite_delta_is_the_value_loss_to_the_bit),
        cmocka_unit_test(huber_loss_refuses_bad_input),
        cmocka_unit_test(kl_estimates_agree_with_their_formulas),
        cmocka_unit_test(k3_is_precise_for_every_log_ratio),
        cmocka_unit_test(kl_estimates_have_the_exact_kl_as_their_mean),
        cmocka_unit_test(kl_estimate_refuses_bad_input),
        cmocka_unit_test(dpo_loss_agrees_with_trl),
        cmocka_unit_test(dpo_loss_refuses_bad_input),
        cmocka_unit_test(kto_loss_agrees_with_trl),
        cmocka_unit_test(kto_loss_refuses_bad_input),
        cmocka_unit_test(pairwise_loss_agrees_with_pytorch),
        cmocka_unit_test(pairwise_loss_refuses_bad_input),
        cmocka_unit_test(losses_on_the_tape_are_the_plain_ones),
        cmocka_unit_test(a_loss_of_pairs_gives_gradients_to_those_that_want_one),
        cmocka_unit_test(gradients_flow_everywhere_within_the_clip_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
