/* ppo_cuda.cuh, sections 3 to 5: advantages, losses and steps of Adam are those of ppo.h. */
#include "cuda_test.h"

typedef std::vector<float> floats;
typedef std::vector<unsigned char> bytes;

/* One element, fewer and more than a block has, several blocks. */
static const int sizes[] = {1, 2, 3, 7, 255, 256, 513, 2049, 5000, 33333};

/* An array, or NULL. */
template <class T> struct given_or_not {
    std::vector<T> copy;
    device_array<T> memory;
    const T *host, *device; /* or NULL */
    given_or_not(const std::vector<T> &x, int given)
        : copy(x), memory(x), host(given ? copy.data() : NULL), device(given ? memory.at() : NULL) {}
};
typedef given_or_not<unsigned char> mask_or_none;
typedef given_or_not<float> floats_or_none;

static int first_not_finite(const floats &x) {
    for (size_t i = 0; i < x.size(); i++)
        if (!isfinite(x[i])) return (int)i;
    return -1;
}

/* The sentence of ppo_cuda_sync(). */
static const char *at_row(int row) {
    static char text[40];
    snprintf(text, sizeof text, "row %d ", row);
    return text;
}

/* --------------------------------------------------------------------------------------------------------
   Advantages
   -------------------------------------------------------------------------------------------------------- */

/* A rollout on the host and on the device. One step in `one_in` terminates, one is truncated; 0: none. */
struct rollout {
    int steps, envs;
    size_t n;
    floats reward, value, next_value;
    bytes terminated, truncated;

    rollout(ppo_rng *rng, int of_steps, int of_envs, int one_in)
        : steps(of_steps), envs(of_envs), n((size_t)steps * (size_t)envs), reward(normal_floats(rng, n, 1)),
          value(normal_floats(rng, n, 2)), next_value(normal_floats(rng, n, 2)), terminated(n), truncated(n) {
        for (size_t i = 0; i < n && one_in; i++) {
            terminated[i] = ppo_rng_below(rng, one_in) == 0;
            truncated[i] = ppo_rng_below(rng, one_in) == 0 ? 0x40 : 0;
        }
    }
};

/* GAE of a rollout on the device; flags and value_target may be NULL. */
struct advantages {
    floats advantage, value_target;

    advantages(const rollout &r, float gamma, float lambda, int flags = 3, int target = 1, int shift = 0) {
        device_array<float> reward(r.reward), value(r.value, (size_t)shift), next(r.next_value), a(r.n),
            v(r.n);
        mask_or_none terminated(r.terminated, flags & 1), truncated(r.truncated, flags & 2);
        assert_ok(ppo_cuda_gae(cuda, reward.at(), value.at(), next.at(), terminated.device, truncated.device,
                               r.steps, r.envs, gamma, lambda, a.at(), target ? v.at() : NULL));
        advantage = a.read();
        value_target = v.read();
    }
};

static void advantages_agree_with_the_processor(void **state) {
    (void)state;
    static const int shapes[][2] = {{1, 1},   {1, 40},  {2, 3},   {31, 33}, {32, 32}, {33, 65},
                                    {128, 8}, {255, 1}, {256, 2}, {257, 3}, {600, 5}, {513, 33}};
    static const float discounts[][2] = {{0.99f, 0.95f}, {1, 1}, {0.9f, 0}, {0, 0.9f}};
    ppo_rng rng = test_rng(1);
    for (int s = 0; s < COUNT(shapes); s++) {
        for (int k = 0; k < 8; k++) {
            static const int one_in[] = {0, 3, 60, 1};
            const float *d = discounts[k % 4];
            rollout r(&rng, shapes[s][0], shapes[s][1], one_in[(k + s) % 4]);
            int flags = k < 4 ? 3 : k - 4;
            floats a(r.n), v(r.n);
            assert_ok(ppo_gae(r.reward.data(), r.value.data(), r.next_value.data(),
                              flags & 1 ? r.terminated.data() : NULL, flags & 2 ? r.truncated.data() : NULL,
                              r.steps, r.envs, d[0], d[1], a.data(), v.data()));
            advantages got(r, d[0], d[1], flags, 1, k);
            assert_ok(ppo_cuda_sync(cuda));
            assert_close_array(got.advantage.data(), a.data(), (int)r.n, 1e-5);
            assert_close_array(got.value_target.data(), v.data(), (int)r.n, 1e-5);
        }
    }
}

static void a_long_rollout_loses_no_digits(void **state) {
    (void)state;
    ppo_rng rng = test_rng(2);
    for (int steps : {4096, 5001}) {
        rollout r(&rng, steps, 3, 0);
        floats a(r.n);
        assert_ok(ppo_gae(r.reward.data(), r.value.data(), r.next_value.data(), NULL, NULL, steps, 3, 0.999f,
                          1, a.data(), NULL));
        advantages got(r, 0.999f, 1);
        assert_close_array(got.advantage.data(), a.data(), (int)r.n, 1e-5);
    }
}

static void an_environment_is_the_same_in_every_batch_and_order(void **state) {
    (void)state;
    ppo_rng rng = test_rng(3);
    rollout r(&rng, 300, 41, 50), one(&rng, 300, 1, 0);
    advantages all(r, 0.99f, 0.95f);
    for (size_t t = 0; t < 300; t++) {
        const size_t i = t * 41 + 37;
        one.reward[t] = r.reward[i], one.value[t] = r.value[i], one.next_value[t] = r.next_value[i];
        one.terminated[t] = r.terminated[i], one.truncated[t] = r.truncated[i];
    }
    advantages alone(one, 0.99f, 0.95f);
    for (size_t t = 0; t < 300; t++)
        assert_false(bits_differ(&alone.advantage[t], &all.advantage[t * 41 + 37], 1));
    for (uint32_t order : thread_orders) {
        set_thread_order(order);
        advantages again(r, 0.99f, 0.95f);
        assert_false(bits_differ(again.advantage.data(), all.advantage.data(), r.n));
        assert_false(bits_differ(again.value_target.data(), all.value_target.data(), r.n));
    }
}

static void advantages_may_take_the_place_of_what_they_are_made_of(void **state) {
    (void)state;
    ppo_rng rng = test_rng(4);
    rollout r(&rng, 290, 35, 20);
    advantages apart(r, 0.99f, 0.95f), alone(r, 0.99f, 0.95f, 3, 0);
    device_array<float> reward(r.reward), value(r.value), next(r.next_value);
    mask_or_none terminated(r.terminated, 1), truncated(r.truncated, 1);
    assert_false(bits_differ(alone.advantage.data(), apart.advantage.data(), r.n));
    assert_ok(ppo_cuda_gae(cuda, reward.at(), value.at(), next.at(), terminated.device, truncated.device,
                           r.steps, r.envs, 0.99f, 0.95f, reward.at(), value.at()));
    assert_false(bits_differ(reward.read().data(), apart.advantage.data(), r.n));
    assert_false(bits_differ(value.read().data(), apart.value_target.data(), r.n));
}

static void a_next_value_is_not_read_where_an_episode_terminated(void **state) {
    (void)state;
    ppo_rng rng = test_rng(5);
    rollout r(&rng, 70, 34, 4), same(r);
    for (size_t i = 0; i < r.n; i++)
        if (r.terminated[i]) r.next_value[i] = i % 2 ? NAN : INFINITY;
    advantages got(r, 0.99f, 0.95f), want(same, 0.99f, 0.95f);
    assert_ok(ppo_cuda_sync(cuda));
    assert_false(bits_differ(got.advantage.data(), want.advantage.data(), r.n));
}

/* NaN spreads back in time to the end of the previous episode, and no further. */
static void the_lowest_advantage_that_is_not_finite_is_reported(void **state) {
    (void)state;
    enum { STEPS = 700, ENVS = 40 };
    ppo_rng rng = test_rng(6);
    for (int cut : {0, 1, 255, 256, 400, 449}) {
        for (int terminates = 0; terminates < 2; terminates++) {
            rollout r(&rng, STEPS, ENVS, 0);
            r.reward[450 * ENVS + 33] = NAN;
            r.reward[690 * ENVS + 3] = INFINITY;
            (terminates ? r.terminated : r.truncated)[(size_t)cut * ENVS + 33] = 1;
            r.truncated[680 * ENVS + 3] = 1;
            advantages got(r, 0.99f, 0.95f);
            int first = (cut + 1) * ENVS + 33;
            assert_int_equal(first_not_finite(got.advantage), first);
            assert_fails(ppo_cuda_sync(cuda), PPO_ERROR_NUMERIC, "ppo_cuda_gae");
            assert_non_null(strstr(ppo_last_error(), at_row(first)));
            assert_ok(ppo_cuda_sync(cuda));
        }
    }
}

static void advantages_of_bad_arguments_are_refused(void **state) {
    (void)state;
    device_array<float> x(8);
    float *p = x.at();
    assert_fails(ppo_cuda_gae(NULL, p, p, p, NULL, NULL, 2, 4, 1, 1, p, p), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_cuda_gae(cuda, NULL, p, p, NULL, NULL, 2, 4, 1, 1, p, p), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_cuda_gae(cuda, p, NULL, p, NULL, NULL, 2, 4, 1, 1, p, p), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_cuda_gae(cuda, p, p, NULL, NULL, NULL, 2, 4, 1, 1, p, p), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_cuda_gae(cuda, p, p, p, NULL, NULL, 2, 4, 1, 1, NULL, p), PPO_ERROR_ARGUMENT,
                 "ppo_cuda_gae|NULL");
    assert_fails(ppo_cuda_gae(cuda, p, p, p, NULL, NULL, 0, 4, 1, 1, p, p), PPO_ERROR_ARGUMENT, "0 steps|4");
    assert_fails(ppo_cuda_gae(cuda, p, p, p, NULL, NULL, 2, -4, 1, 1, p, p), PPO_ERROR_ARGUMENT, "2|-4");
    assert_fails(ppo_cuda_gae(cuda, p, p, p, NULL, NULL, 2, 4, 1.5f, 1, p, p), PPO_ERROR_ARGUMENT,
                 "gamma|1.5");
    assert_fails(ppo_cuda_gae(cuda, p, p, p, NULL, NULL, 2, 4, 1, NAN, p, p), PPO_ERROR_ARGUMENT,
                 "lambda|nan");
    assert_fails(ppo_cuda_gae(cuda, p, p, p, NULL, NULL, 1 << 20, 1 << 11, 1, 1, p, p), PPO_ERROR_ARGUMENT,
                 "1048576|2048|too many");
    assert_ok(ppo_cuda_sync(cuda));
}

/* --------------------------------------------------------------------------------------------------------
   Whitening
   -------------------------------------------------------------------------------------------------------- */

static floats whitened(const floats &x, const mask_or_none &mask, int shift_mean) {
    device_array<float> on_device(x, 1);
    assert_ok(ppo_cuda_whiten(cuda, on_device.at(), mask.device, (int)x.size(), shift_mean));
    return on_device.read();
}

static void whitening_agrees_with_the_processor(void **state) {
    (void)state;
    ppo_rng rng = test_rng(10);
    for (int n : sizes) {
        for (int k = 0; k < 8; k++) {
            floats x = normal_floats(&rng, (size_t)n, 3);
            mask_or_none mask(random_mask(&rng, (size_t)n, 3), k & 1);
            for (float &v : x) v += k & 2 ? 1000.0f : 0.5f;
            floats got = whitened(x, mask, k & 4);
            assert_ok(ppo_whiten(x.data(), mask.host, n, k & 4));
            assert_ok(ppo_cuda_sync(cuda));
            assert_close_array(got.data(), x.data(), n, 1e-6);
        }
    }
}

static void what_is_masked_is_not_whitened_whatever_it_is(void **state) {
    (void)state;
    floats x = {1, NAN, 3, INFINITY, 8};
    bytes some = {1, 0, 1, 0, 1}, one = {0, 0, 7, 0, 0};
    mask_or_none mask(some, 1), single(one, 1);
    floats got = whitened(x, mask, 1), same = whitened(x, single, 1);
    assert_ok(ppo_cuda_sync(cuda));
    assert_ok(ppo_whiten(x.data(), some.data(), 5, 1));
    for (size_t i = 0; i < 5; i++) assert_true(some[i] ? got[i] == x[i] : !isfinite(got[i]));
    assert_true(same[2] == 3); /* has no variance */
}

static void a_number_that_is_not_finite_leaves_all_as_they_were(void **state) {
    (void)state;
    ppo_rng rng = test_rng(11);
    for (float bad : {NAN, INFINITY, -INFINITY}) {
        floats x = normal_floats(&rng, 5000, 1);
        mask_or_none none(bytes(1), 0);
        x[4321] = x[4400] = bad;
        floats got = whitened(x, none, 1);
        assert_false(bits_differ(got.data(), x.data(), x.size()));
        assert_fails(ppo_cuda_sync(cuda), PPO_ERROR_NUMERIC, "ppo_cuda_whiten|row 4321 ");
    }
}

static void whitening_of_bad_arguments_is_refused(void **state) {
    (void)state;
    floats x(300, 1);
    mask_or_none mask(bytes(300), 1);
    floats got = whitened(x, mask, 1);
    assert_fails(ppo_cuda_sync(cuda), PPO_ERROR_ARGUMENT, "ppo_cuda_whiten|masked");
    assert_false(bits_differ(got.data(), x.data(), x.size()));
    device_array<float> there(x);
    assert_fails(ppo_cuda_whiten(NULL, there.at(), NULL, 3, 1), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_cuda_whiten(cuda, NULL, NULL, 3, 1), PPO_ERROR_ARGUMENT, "ppo_cuda_whiten|NULL");
    assert_fails(ppo_cuda_whiten(cuda, there.at(), NULL, 0, 1), PPO_ERROR_ARGUMENT, "0");
    assert_ok(ppo_cuda_sync(cuda));
}

/* --------------------------------------------------------------------------------------------------------
   Policy loss
   -------------------------------------------------------------------------------------------------------- */

static const ppo_policy_objective objectives[] = {{PPO_CLIP, 0.2f, 0.2f, 0, 0},
                                                  {PPO_CLIP, 0.1f, 0.3f, 3, 0},
                                                  {PPO_CLIP, 0.2f, 0.2f, 1.2f, 0},
                                                  {PPO_K3_PENALTY, 0.2f, 0.2f, 0, 0.7f},
                                                  {PPO_UNCLIPPED, 0.2f, 0.2f, 0, 1}};

/* Samples on the host and on the device. */
struct policy_samples {
    int n;
    floats logp, old_logp, advantage;
    bytes mask;
    device_array<float> dlogp, dold, dadvantage;

    policy_samples(ppo_rng *rng, int of, float step)
        : n(of), logp(normal_floats(rng, (size_t)n, 2)), old_logp(normal_floats(rng, (size_t)n, step)),
          advantage(normal_floats(rng, (size_t)n, 1.5f)), mask(random_mask(rng, (size_t)n, 3)),
          dlogp((size_t)n), dold((size_t)n, NULL, 1), dadvantage((size_t)n) {
        for (size_t i = 0; i < logp.size(); i++) old_logp[i] += logp[i];
        write();
    }
    void write() {
        dlogp.write(logp.data()), dold.write(old_logp.data()), dadvantage.write(advantage.data());
    }

    ppo_status loss(const unsigned char *m, const ppo_policy_objective *o, device_array<ppo_policy_stats> *s,
                    device_array<float> *grad) {
        return ppo_cuda_policy_loss(cuda, dlogp.at(), dold.at(), dadvantage.at(), m, n, o, s ? s->at() : NULL,
                                    grad ? grad->at() : NULL);
    }
};

static void check_stats(const ppo_policy_stats &got, const ppo_policy_stats &want) {
    const float a[] = {got.loss,       got.clip_fraction, got.approx_kl, got.old_approx_kl,
                       got.ratio_mean, got.ratio_max,     got.ratio_min};
    const float b[] = {want.loss,       want.clip_fraction, want.approx_kl, want.old_approx_kl,
                       want.ratio_mean, want.ratio_max,     want.ratio_min};
    assert_close_each(a, b, COUNT(a), 1e-5);
}

static void the_policys_loss_agrees_with_the_processor(void **state) {
    (void)state;
    ppo_rng rng = test_rng(20);
    for (int n : sizes) {
        for (int k = 0; k < 2 * COUNT(objectives); k++) {
            const ppo_policy_objective *o = &objectives[k / 2];
            policy_samples x(&rng, n, 0.3f);
            mask_or_none mask(x.mask, k % 2);
            device_array<ppo_policy_stats> stats(1);
            device_array<float> grad((size_t)n, NULL, 2), alone((size_t)n);
            ppo_policy_stats want;
            floats derivative((size_t)n);
            assert_ok(ppo_policy_loss(x.logp.data(), x.old_logp.data(), x.advantage.data(), mask.host, n, o,
                                      &want, derivative.data()));
            assert_ok(x.loss(mask.device, o, &stats, &grad));
            assert_ok(ppo_cuda_sync(cuda));
            check_stats(stats.read()[0], want);
            assert_close_array(grad.read().data(), derivative.data(), n, 1e-5);
            assert_ok(x.loss(mask.device, o, NULL, &alone));
            assert_false(bits_differ(alone.read().data(), grad.read().data(), (size_t)n));
            assert_ok(x.loss(mask.device, o, &stats, NULL));
            assert_ok(ppo_cuda_sync(cuda));
            check_stats(stats.read()[0], want);
        }
    }
}

static void statistics_agree_with_sums_in_double(void **state) {
    (void)state;
    enum { N = 60000 };
    ppo_rng rng = test_rng(21);
    policy_samples x(&rng, N, 0.02f);
    mask_or_none mask(x.mask, 1);
    device_array<ppo_policy_stats> stats(1);
    double loss = 0, k1 = 0, k3 = 0, ratios = 0, count = 0;
    for (size_t i = 0; i < N; i++) {
        if (!x.mask[i]) continue;
        const double l = x.logp[i] - x.old_logp[i];
        loss -= exp(l) * x.advantage[i], k1 -= l, k3 += expm1(l) - l, ratios += exp(l), count++;
    }
    assert_ok(x.loss(mask.device, &objectives[4], &stats, NULL));
    assert_ok(ppo_cuda_sync(cuda));
    const ppo_policy_stats got = stats.read()[0];
    assert_true(is_close(got.loss, loss / count, 3e-7, 1));
    assert_true(is_close(got.old_approx_kl, k1 / count, 1e-9, 1));
    assert_true(is_close(got.approx_kl, k3 / count, 1e-6, k3 / count));
    assert_true(is_close(got.ratio_mean, ratios / count, 3e-7, 1));

    for (size_t i = 0; i < N; i++) { /* the mean of large terms that cancel each other */
        x.old_logp[i] = x.logp[i];
        x.advantage[i] = (i % 2 ? 1e7f : -1e7f) + 1;
    }
    x.write();
    assert_ok(x.loss(NULL, &objectives[4], &stats, NULL));
    assert_true(stats.read()[0].loss == -1);
}

/* The first minibatch: every ratio is 1, to the bit. */
static void equal_policies_have_a_ratio_of_exactly_1(void **state) {
    (void)state;
    ppo_rng rng = test_rng(22);
    policy_samples x(&rng, 777, 0);
    device_array<ppo_policy_stats> stats(1);
    assert_ok(x.loss(NULL, &objectives[0], &stats, NULL));
    const ppo_policy_stats got = stats.read()[0];
    assert_true(got.ratio_min == 1 && got.ratio_mean == 1 && got.ratio_max == 1);
    assert_true(got.approx_kl == 0 && got.old_approx_kl == 0 && got.clip_fraction == 0);
}

static void what_is_masked_has_no_gradient_whatever_it_is(void **state) {
    (void)state;
    ppo_rng rng = test_rng(23);
    policy_samples x(&rng, 600, 0.1f);
    mask_or_none mask(x.mask, 1);
    device_array<ppo_policy_stats> stats(1);
    device_array<float> grad(600), loss(1);
    for (size_t i = 0; i < 600; i++)
        if (!x.mask[i]) x.logp[i] = x.advantage[i] = i % 2 ? NAN : INFINITY;
    x.write();
    assert_ok(x.loss(mask.device, &objectives[1], &stats, &grad));
    assert_ok(ppo_cuda_sync(cuda));
    floats derivative = grad.read();
    assert_true(isfinite(stats.read()[0].loss));
    for (size_t i = 0; i < 600; i++) assert_true(x.mask[i] ? isfinite(derivative[i]) : derivative[i] == 0);
    assert_ok(ppo_cuda_value_loss(cuda, x.dlogp.at(), NULL, x.dadvantage.at(), mask.device, 600, 0, INFINITY,
                                  loss.at(), grad.at()));
    assert_ok(ppo_cuda_sync(cuda));
    derivative = grad.read();
    assert_true(isfinite(loss.read()[0]));
    for (size_t i = 0; i < 600; i++) assert_true(x.mask[i] ? isfinite(derivative[i]) : derivative[i] == 0);
}

static void the_order_of_threads_changes_no_bit(void **state) {
    (void)state;
    ppo_rng rng = test_rng(24);
    policy_samples x(&rng, 9999, 0.3f);
    mask_or_none mask(x.mask, 1);
    ppo_policy_stats stats[COUNT(thread_orders)];
    float loss[COUNT(thread_orders)], norm[COUNT(thread_orders)];
    floats white[COUNT(thread_orders)];
    for (int k = 0; k < COUNT(thread_orders); k++) {
        device_array<ppo_policy_stats> s(1);
        device_array<float> l(1), g(1);
        set_thread_order(thread_orders[k]);
        assert_ok(x.loss(mask.device, &objectives[1], &s, NULL));
        assert_ok(ppo_cuda_value_loss(cuda, x.dlogp.at(), x.dold.at(), x.dadvantage.at(), mask.device, 9999,
                                      0.2f, INFINITY, l.at(), NULL));
        assert_ok(ppo_cuda_grad_norm(cuda, x.dlogp.at(), 9999, 1, g.at()));
        stats[k] = s.read()[0], loss[k] = l.read()[0], norm[k] = g.read()[0];
        white[k] = whitened(x.advantage, mask, 1);
        assert_memory_equal(&stats[k], &stats[0], sizeof *stats);
        assert_true(loss[k] == loss[0] && norm[k] == norm[0]);
        assert_false(bits_differ(white[k].data(), white[0].data(), 9999));
    }
    assert_ok(ppo_cuda_sync(cuda));
}

static void the_first_sample_that_is_not_finite_is_reported(void **state) {
    (void)state;
    ppo_rng rng = test_rng(25);
    for (uint32_t order : thread_orders) {
        for (int k = 0; k < 4; k++) {
            policy_samples x(&rng, 6000, 0.1f);
            device_array<float> grad(6000);
            if (k == 3) x.logp[4321] = x.old_logp[4321] + 300; /* e^300 */
            else (k == 0 ? x.logp : k == 1 ? x.old_logp : x.advantage)[4321] = NAN;
            if (k == 3) x.advantage[4321] = -1;
            x.advantage[5999] = INFINITY;
            x.write();
            set_thread_order(order);
            assert_ok(x.loss(NULL, &objectives[0], NULL, &grad));
            assert_fails(ppo_cuda_sync(cuda), PPO_ERROR_NUMERIC, "ppo_cuda_policy_loss|row 4321 ");
            assert_ok(ppo_cuda_sync(cuda));
        }
    }
}

static void the_policys_loss_refuses_bad_arguments(void **state) {
    (void)state;
    ppo_rng rng = test_rng(26);
    policy_samples x(&rng, 300, 0.1f);
    mask_or_none none(bytes(300), 1);
    device_array<float> grad(300);
    float *p = x.dlogp.at();
    ppo_policy_objective o = objectives[0], unknown = o, negative = o;
    unknown.objective = (ppo_objective)7;
    negative.clip_high = -0.5f;
    assert_fails(ppo_cuda_policy_loss(NULL, p, p, p, NULL, 3, &o, NULL, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_cuda_policy_loss(cuda, NULL, p, p, NULL, 3, &o, NULL, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_cuda_policy_loss(cuda, p, NULL, p, NULL, 3, &o, NULL, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_cuda_policy_loss(cuda, p, p, NULL, NULL, 3, &o, NULL, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_cuda_policy_loss(cuda, p, p, p, NULL, 3, NULL, NULL, NULL), PPO_ERROR_ARGUMENT,
                 "ppo_cuda_policy_loss|NULL");
    assert_fails(ppo_cuda_policy_loss(cuda, p, p, p, NULL, -8, &o, NULL, NULL), PPO_ERROR_ARGUMENT, "-8");
    assert_fails(ppo_cuda_policy_loss(cuda, p, p, p, NULL, 3, &unknown, NULL, NULL), PPO_ERROR_ARGUMENT,
                 "ppo_cuda_policy_loss|objective|7");
    assert_fails(ppo_cuda_policy_loss(cuda, p, p, p, NULL, 3, &negative, NULL, NULL), PPO_ERROR_ARGUMENT,
                 "clip_high|-0.5");
    assert_ok(ppo_cuda_sync(cuda));
    assert_ok(x.loss(none.device, &o, NULL, &grad));
    assert_fails(ppo_cuda_sync(cuda), PPO_ERROR_ARGUMENT, "ppo_cuda_policy_loss|masked");
    for (float g : grad.read()) assert_true(g == 0);
}

/* --------------------------------------------------------------------------------------------------------
   Value loss, KL
   -------------------------------------------------------------------------------------------------------- */

static void the_values_loss_agrees_with_the_processor(void **state) {
    (void)state;
    ppo_rng rng = test_rng(30);
    for (int n : sizes) {
        for (int k = 0; k < 12; k++) {
            const float delta = k < 4 ? INFINITY : k < 8 ? 0.5f : 2, range = k & 2 ? 0.3f : 0;
            policy_samples x(&rng, n, 0.5f);
            mask_or_none mask(x.mask, k & 1);
            floats_or_none old(x.old_logp, k & 2);
            device_array<float> loss(1), grad((size_t)n), alone((size_t)n);
            float want;
            floats derivative((size_t)n);
            const float *v = x.dlogp.at(), *target = x.dadvantage.at();
            assert_ok(ppo_huber_value_loss(x.logp.data(), old.host, x.advantage.data(), mask.host, n, range,
                                           delta, &want, derivative.data()));
            auto ask = [&](float *l, float *g) {
                return ppo_cuda_value_loss(cuda, v, old.device, target, mask.device, n, range, delta, l, g);
            };
            assert_ok(ask(loss.at(), grad.at()));
            assert_ok(ask(NULL, alone.at()));
            assert_ok(ppo_cuda_sync(cuda));
            assert_close(loss.read()[0], want, 1e-6);
            assert_close_array(grad.read().data(), derivative.data(), n, 1e-6);
            assert_false(bits_differ(alone.read().data(), grad.read().data(), (size_t)n));
            loss.write(&derivative[0]);
            assert_ok(ask(loss.at(), NULL));
            assert_close(loss.read()[0], want, 1e-6);
        }
    }
}

static void a_value_that_is_not_finite_is_reported_by_its_function(void **state) {
    (void)state;
    ppo_rng rng = test_rng(31);
    policy_samples x(&rng, 3000, 0.1f);
    float *v = x.dlogp.at(), *old = x.dold.at(), *t = x.dadvantage.at();
    x.old_logp[1234] = NAN;
    x.write();
    assert_ok(ppo_cuda_value_loss(cuda, v, old, t, NULL, 3000, 0, INFINITY, NULL, NULL)); /* unread */
    assert_ok(ppo_cuda_sync(cuda));
    assert_ok(ppo_cuda_value_loss(cuda, v, old, t, NULL, 3000, 0.1f, INFINITY, NULL, NULL));
    assert_fails(ppo_cuda_sync(cuda), PPO_ERROR_NUMERIC, "ppo_cuda_value_loss|row 1234 ");
    x.advantage[99] = -INFINITY;
    x.write();
    assert_ok(ppo_cuda_value_loss(cuda, v, old, t, NULL, 3000, 0.1f, 1, NULL, NULL));
    assert_fails(ppo_cuda_sync(cuda), PPO_ERROR_NUMERIC, "ppo_cuda_value_loss|row 99 ");
}

static void the_values_loss_refuses_bad_arguments(void **state) {
    (void)state;
    floats x(300, 1);
    device_array<float> a(x);
    mask_or_none none(bytes(300), 1);
    float *p = a.at();
    assert_fails(ppo_cuda_value_loss(NULL, p, p, p, NULL, 3, 0, INFINITY, p, NULL), PPO_ERROR_ARGUMENT,
                 "NULL");
    assert_fails(ppo_cuda_value_loss(cuda, NULL, p, p, NULL, 3, 0, INFINITY, p, NULL), PPO_ERROR_ARGUMENT,
                 "ppo_cuda_value_loss|NULL");
    assert_fails(ppo_cuda_value_loss(cuda, p, p, NULL, NULL, 3, 0, INFINITY, p, NULL), PPO_ERROR_ARGUMENT,
                 "NULL");
    assert_fails(ppo_cuda_value_loss(cuda, p, NULL, p, NULL, 3, 1, INFINITY, p, NULL), PPO_ERROR_ARGUMENT,
                 "NULL");
    assert_fails(ppo_cuda_value_loss(cuda, p, p, p, NULL, 0, 0, INFINITY, p, NULL), PPO_ERROR_ARGUMENT,
                 "0 samples");
    assert_fails(ppo_cuda_value_loss(cuda, p, p, p, NULL, 3, NAN, INFINITY, p, NULL), PPO_ERROR_ARGUMENT,
                 "clip_range|nan");
    assert_fails(ppo_cuda_value_loss(cuda, p, p, p, NULL, 3, 0, -2, p, NULL), PPO_ERROR_ARGUMENT,
                 "ppo_cuda_value_loss|delta is -2");
    assert_ok(ppo_cuda_sync(cuda));
    assert_ok(ppo_cuda_value_loss(cuda, p, p, p, none.device, 300, 0, INFINITY, NULL, NULL));
    assert_fails(ppo_cuda_sync(cuda), PPO_ERROR_ARGUMENT, "ppo_cuda_value_loss|masked");
}

static void kl_estimates_agree_with_the_processor(void **state) {
    (void)state;
    ppo_rng rng = test_rng(32);
    for (int n : sizes) {
        for (int estimator : {PPO_K1, PPO_K2, PPO_K3}) {
            policy_samples x(&rng, n, 0.4f);
            device_array<float> kl((size_t)n);
            floats want((size_t)n);
            assert_ok(ppo_kl_estimate(x.logp.data(), x.old_logp.data(), n, (ppo_kl_estimator)estimator,
                                      want.data()));
            assert_ok(ppo_cuda_kl_estimate(cuda, x.dlogp.at(), x.dold.at(), n, (ppo_kl_estimator)estimator,
                                           kl.at()));
            assert_ok(ppo_cuda_sync(cuda));
            assert_close_each(kl.read().data(), want.data(), n, 1e-6);
        }
    }
}

static void a_kl_of_bad_arguments_is_refused_and_of_bad_numbers_reported(void **state) {
    (void)state;
    floats x(700, -1);
    device_array<float> logp(x), kl(700);
    x[600] = NAN, x[699] = INFINITY;
    device_array<float> bad(x);
    float *p = logp.at(), *to = kl.at();
    assert_fails(ppo_cuda_kl_estimate(NULL, p, p, 700, PPO_K1, to), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_cuda_kl_estimate(cuda, NULL, p, 700, PPO_K1, to), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_cuda_kl_estimate(cuda, p, NULL, 700, PPO_K1, to), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_cuda_kl_estimate(cuda, p, p, 700, PPO_K1, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_cuda_kl_estimate(cuda, p, p, -1, PPO_K1, to), PPO_ERROR_ARGUMENT, "-1");
    assert_fails(ppo_cuda_kl_estimate(cuda, p, p, 700, PPO_KL_EXACT, to), PPO_ERROR_ARGUMENT,
                 "ppo_cuda_kl_estimate|estimator 4");
    assert_ok(ppo_cuda_sync(cuda));
    assert_ok(ppo_cuda_kl_estimate(cuda, p, bad.at(), 700, PPO_K3, to));
    assert_fails(ppo_cuda_sync(cuda), PPO_ERROR_NUMERIC, "ppo_cuda_kl_estimate|row 600 ");
}

/* --------------------------------------------------------------------------------------------------------
   The optimizer
   -------------------------------------------------------------------------------------------------------- */

static float norm_of(const floats &x, float scale, size_t shift = 0) {
    device_array<float> on_device(x.size(), NULL, shift + 1), norm(1); /* never empty */
    on_device.write(x.data());
    assert_ok(ppo_cuda_grad_norm(cuda, on_device.at(), x.size(), scale, norm.at()));
    return norm.read()[0];
}

static void the_norm_of_gradients_is_that_of_sums_in_double(void **state) {
    (void)state;
    ppo_rng rng = test_rng(40);
    for (int n : {0, 1, 3, 4, 511, 512, 513, 1027, 5000, 70000}) {
        for (size_t shift = 0; shift < 4; shift++) {
            floats x = normal_floats(&rng, (size_t)n, 2);
            const float scale = shift % 2 ? -0.25f : 3;
            double squares = 0;
            const double s = fabs((double)scale);
            for (float v : x) squares += (double)v * v;
            assert_close(norm_of(x, scale, shift), s * sqrt(squares), 1e-7);
        }
    }
    assert_close(norm_of({3e25f, -4e25f}, 1), 5e25, 1e-7);
    assert_close(norm_of({3e-30f, -4e-30f}, 1), 5e-30, 1e-7);
    assert_true(norm_of({3e38f, -3e38f}, 2) == INFINITY);
    assert_true(norm_of({1, INFINITY}, 1) == INFINITY);
    assert_nan(norm_of({1, NAN, 2}, 1));
    assert_ok(ppo_cuda_sync(cuda)); /* only the step reports it */
}

/* Parameters, gradients and moments, each `shift` floats after a multiple of 16 bytes, with `rest` floats
   after the n of the step. */
struct model {
    enum { REST = 5 };
    size_t n;
    floats param, grad, m, v;
    device_array<float> dparam, dgrad, dm, dv;

    model(ppo_rng *rng, size_t of, size_t shift, size_t another_shift)
        : n(of), param(normal_floats(rng, n + REST, 1)), grad(normal_floats(rng, n + REST, 1)), m(n + REST),
          v(n + REST), dparam(param, shift), dgrad(grad, shift), dm(m, shift), dv(v, another_shift) {}

    ppo_status step(const ppo_adam *adam, long count, float scale, const float *norm, float max_norm) {
        return ppo_cuda_adam_step(cuda, dparam.at(), dgrad.at(), dm.at(), dv.at(), n, adam, count, scale,
                                  norm, max_norm);
    }
    /* The step of the processor, on its copy. */
    void expect(const ppo_adam *adam, long count, float scale, float max_norm) {
        floats scaled(grad.begin(), grad.begin() + (ptrdiff_t)n);
        for (float &g : scaled) g *= scale;
        ppo_clip_grad_norm(scaled.data(), n, max_norm);
        ppo_adam_step(param.data(), scaled.data(), m.data(), v.data(), n, adam, count);
    }
    void check() {
        const int all = (int)n + REST;
        assert_close_array(dparam.read().data(), param.data(), all, 1e-6);
        assert_close_array(dm.read().data(), m.data(), all, 1e-5);
        assert_close_array(dv.read().data(), v.data(), all, 1e-5);
        assert_false(bits_differ(dgrad.read().data(), grad.data(), n + REST));
    }
    /* Nothing has changed on the device. */
    void check_same() {
        assert_false(bits_differ(dparam.read().data(), param.data(), n + REST));
        assert_false(bits_differ(dm.read().data(), m.data(), n + REST));
        assert_false(bits_differ(dv.read().data(), v.data(), n + REST));
    }
};

static ppo_adam fast_adam(float weight_decay) {
    ppo_adam adam = ppo_adam_default();
    adam.lr = 0.01f;
    adam.weight_decay = weight_decay;
    return adam;
}

static void steps_of_adam_agree_with_the_processor(void **state) {
    (void)state;
    static const float max_norms[] = {0, 0.5f, 1000};
    ppo_rng rng = test_rng(41);
    int k = 0;
    for (size_t n : {0, 1, 3, 4, 5, 127, 512, 513, 1500, 4103}) {
        for (size_t shifts = 0; shifts < 6; shifts++, k++) {
            const ppo_adam adam = fast_adam(k % 2 ? 0.05f : 0);
            const float max_norm = max_norms[k % 3], scale = k % 5 ? 1 : 0.125f;
            model x(&rng, n, shifts, shifts < 4 ? shifts : 1);
            device_array<float> norm(1);
            for (long step = 1; step <= 4; step++) {
                x.grad = normal_floats(&rng, x.grad.size(), 1);
                x.dgrad.write(x.grad.data());
                assert_ok(ppo_cuda_grad_norm(cuda, x.dgrad.at(), n, scale, norm.at()));
                assert_ok(x.step(&adam, step, scale, norm.at(), max_norm));
                x.expect(&adam, step, scale, max_norm);
                assert_ok(ppo_cuda_sync(cuda));
                x.check();
            }
            assert_ok(x.step(&adam, 5, scale, NULL, 1e-9f)); /* without a norm there is no limit */
            x.expect(&adam, 5, scale, 0);
            x.check();
        }
    }
}

static void a_norm_that_is_not_finite_changes_nothing(void **state) {
    (void)state;
    ppo_rng rng = test_rng(42);
    for (uint32_t order : thread_orders) {
        for (float bad : {NAN, INFINITY}) {
            const ppo_adam adam = fast_adam(0.1f);
            model x(&rng, 6000, 0, 0);
            device_array<float> norm(1, &bad);
            set_thread_order(order);
            assert_ok(x.step(&adam, 17, 1, norm.at(), 0));
            x.check_same();
            assert_fails(ppo_cuda_sync(cuda), PPO_ERROR_NUMERIC, "norm|optimizer step 17");
            assert_ok(x.step(&adam, 17, 1, NULL, 0));
            x.expect(&adam, 17, 1, 0);
            assert_ok(ppo_cuda_sync(cuda));
            x.check();
        }
    }
}

static void a_nan_loss_never_reaches_the_parameters(void **state) {
    (void)state;
    ppo_rng rng = test_rng(43);
    const ppo_adam adam = fast_adam(0);
    model x(&rng, 3000, 0, 0);
    policy_samples samples(&rng, 50, 0.1f);
    device_array<float> norm(1);
    samples.logp[7] = NAN;
    samples.write();
    for (int k = 0; k < 2; k++) {
        assert_ok(samples.loss(NULL, &objectives[0], NULL, NULL));
        for (long step = 1; step < 3; step++) {
            assert_ok(ppo_cuda_grad_norm(cuda, x.dgrad.at(), x.n, 1, norm.at()));
            assert_ok(x.step(&adam, step, 1, k ? norm.at() : NULL, 1));
        }
        x.check_same();
        assert_fails(ppo_cuda_sync(cuda), PPO_ERROR_NUMERIC, "ppo_cuda_policy_loss|row 7 ");
    }
    assert_ok(x.step(&adam, 1, 1, NULL, 0));
    x.expect(&adam, 1, 1, 0);
    assert_ok(ppo_cuda_sync(cuda));
    x.check();
}

static void the_optimizer_refuses_bad_arguments(void **state) {
    (void)state;
    ppo_rng rng = test_rng(44);
    const ppo_adam adam = fast_adam(0);
    model x(&rng, 30, 0, 0);
    float *p = x.dparam.at();
    assert_fails(ppo_cuda_grad_norm(NULL, p, 3, 1, p), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_cuda_grad_norm(cuda, NULL, 3, 1, p), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_cuda_grad_norm(cuda, p, 3, 1, NULL), PPO_ERROR_ARGUMENT, "ppo_cuda_grad_norm|NULL");
    assert_fails(ppo_cuda_grad_norm(cuda, p, 3, INFINITY, p), PPO_ERROR_ARGUMENT, "scale|inf");
    assert_fails(ppo_cuda_grad_norm(cuda, p, (size_t)1 << 40, 1, p), PPO_ERROR_ARGUMENT, "1099511627776");
    assert_fails(ppo_cuda_adam_step(NULL, p, p, p, p, 3, &adam, 1, 1, NULL, 0), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_cuda_adam_step(cuda, NULL, p, p, p, 3, &adam, 1, 1, NULL, 0), PPO_ERROR_ARGUMENT,
                 "NULL");
    assert_fails(ppo_cuda_adam_step(cuda, p, NULL, p, p, 3, &adam, 1, 1, NULL, 0), PPO_ERROR_ARGUMENT,
                 "NULL");
    assert_fails(ppo_cuda_adam_step(cuda, p, p, NULL, p, 3, &adam, 1, 1, NULL, 0), PPO_ERROR_ARGUMENT,
                 "NULL");
    assert_fails(ppo_cuda_adam_step(cuda, p, p, p, NULL, 3, &adam, 1, 1, NULL, 0), PPO_ERROR_ARGUMENT,
                 "NULL");
    assert_fails(ppo_cuda_adam_step(cuda, p, p, p, p, 3, NULL, 1, 1, NULL, 0), PPO_ERROR_ARGUMENT,
                 "ppo_cuda_adam_step|NULL");
    assert_fails(x.step(&adam, 0, 1, NULL, 0), PPO_ERROR_ARGUMENT, "step is 0");
    assert_fails(x.step(&adam, 1, NAN, NULL, 0), PPO_ERROR_ARGUMENT, "scale|nan");
    assert_ok(ppo_cuda_sync(cuda));
    x.check_same();
}

/* --------------------------------------------------------------------------------------------------------
   Calls that fail
   -------------------------------------------------------------------------------------------------------- */

#ifndef __CUDACC__
/* Calls all functions, up to the first failure. */
static ppo_status ask_everything(ppo_cuda *own, float *p, float *q, unsigned char *mask) {
    const ppo_adam adam = fast_adam(0);
    ppo_status status = ppo_cuda_gae(own, p, p, p, NULL, NULL, 5, 8, 0.9f, 0.9f, q, NULL);
    if (!status) status = ppo_cuda_whiten(own, q, NULL, 40, 1);
    if (!status) status = ppo_cuda_policy_loss(own, p, p, p, mask, 40, &objectives[0], NULL, q);
    if (!status) status = ppo_cuda_value_loss(own, p, p, p, mask, 40, 0.1f, INFINITY, q, NULL);
    if (!status) status = ppo_cuda_value_loss(own, p, p, p, NULL, 40, 0.1f, 1, q, NULL);
    if (!status) status = ppo_cuda_kl_estimate(own, p, p, 40, PPO_K3, q);
    if (!status) status = ppo_cuda_grad_norm(own, p, 40, 1, q);
    if (!status) status = ppo_cuda_adam_step(own, p, p, p, p, 40, &adam, 1, 1, q, 1);
    return status;
}

static void a_call_that_fails_is_a_status_and_leaves_nothing(void **state) {
    (void)state;
    for (cudaError_t error : {cudaErrorMemoryAllocation, cudaErrorLaunchFailure}) {
        for (long k = 0, failed = 1; failed; k++) {
            device_array<float> p(floats(40, 0.5f)), q(40);
            device_array<unsigned char> mask(bytes(40, 1));
            ppo_cuda *own = NULL;
            assert_ok(ppo_cuda_create(0, &own));
            emulation.fail_at = k;
            emulation.error = error;
            ppo_status status = ask_everything(own, p.at(), q.at(), mask.at());
            failed = emulation.fail_at < 0;
            emulation.fail_at = -1;
            if (!failed) assert_ok(status);
            else assert_true(status == PPO_ERROR_MEMORY || (status && error == cudaErrorLaunchFailure));
            assert_ok(ppo_cuda_sync(own)); /* queued work is done, and the next call works */
            assert_ok(ask_everything(own, p.at(), q.at(), mask.at()));
            assert_ok(ppo_cuda_sync(own));
            ppo_cuda_free(own);
        }
    }
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        on_a_device(advantages_agree_with_the_processor),
        on_a_device(a_long_rollout_loses_no_digits),
        on_a_device(an_environment_is_the_same_in_every_batch_and_order),
        on_a_device(advantages_may_take_the_place_of_what_they_are_made_of),
        on_a_device(a_next_value_is_not_read_where_an_episode_terminated),
        on_a_device(the_lowest_advantage_that_is_not_finite_is_reported),
        on_a_device(advantages_of_bad_arguments_are_refused),
        on_a_device(whitening_agrees_with_the_processor),
        on_a_device(what_is_masked_is_not_whitened_whatever_it_is),
        on_a_device(a_number_that_is_not_finite_leaves_all_as_they_were),
        on_a_device(whitening_of_bad_arguments_is_refused),
        on_a_device(the_policys_loss_agrees_with_the_processor),
        on_a_device(statistics_agree_with_sums_in_double),
        on_a_device(equal_policies_have_a_ratio_of_exactly_1),
        on_a_device(what_is_masked_has_no_gradient_whatever_it_is),
        on_a_device(the_order_of_threads_changes_no_bit),
        on_a_device(the_first_sample_that_is_not_finite_is_reported),
        on_a_device(the_policys_loss_refuses_bad_arguments),
        on_a_device(the_values_loss_agrees_with_the_processor),
        on_a_device(a_value_that_is_not_finite_is_reported_by_its_function),
        on_a_device(the_values_loss_refuses_bad_arguments),
        on_a_device(kl_estimates_agree_with_the_processor),
        on_a_device(a_kl_of_bad_arguments_is_refused_and_of_bad_numbers_reported),
        on_a_device(the_norm_of_gradients_is_that_of_sums_in_double),
        on_a_device(steps_of_adam_agree_with_the_processor),
        on_a_device(a_norm_that_is_not_finite_changes_nothing),
        on_a_device(a_nan_loss_never_reaches_the_parameters),
        on_a_device(the_optimizer_refuses_bad_arguments),
#ifndef __CUDACC__
        on_a_device(a_call_that_fails_is_a_status_and_leaves_nothing),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
