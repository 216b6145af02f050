/* ppo_cuda.cuh, sections 1 and 2: a device and its errors; log-probabilities, entropies, exact KL and their
   gradients are those of ppo.h. */
#include "cuda_test.h"

/* --------------------------------------------------------------------------------------------------------
   A device
   -------------------------------------------------------------------------------------------------------- */

static void a_device_that_is_not_there_is_refused(void **state) {
    (void)state;
    ppo_cuda *other = NULL;
    assert_fails(ppo_cuda_create(99, &other), PPO_ERROR_DEVICE, "99");
    assert_fails(ppo_cuda_create(-1, &other), PPO_ERROR_DEVICE, "-1");
    assert_null(other);
    assert_fails(ppo_cuda_create(0, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_cuda_sync(NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_null(ppo_cuda_stream(NULL));
    ppo_cuda_free(NULL);
}

static void nothing_to_report_is_ok(void **state) {
    (void)state;
    assert_ok(ppo_cuda_sync(cuda));
    assert_ok(ppo_cuda_sync(cuda));
}

/* --------------------------------------------------------------------------------------------------------
   Rows of logits
   -------------------------------------------------------------------------------------------------------- */

typedef struct shape {
    int n, vocab, shift; /* the first logit is `shift` elements after a multiple of 256 bytes */
    float temperature;
} shape;

/* Rows that a warp reads, and that a block reads; lengths that are multiples of 4 and 8, and that are not. */
static const shape shapes[] = {{1, 1, 0, 1},    {3, 2, 1, 1},    {9, 7, 0, 0.7f},    {20, 32, 3, 1},
                               {2, 64, 0, 2},   {5, 100, 1, 1},  {3, 513, 0, 1.3f},  {2, 1024, 0, 1},
                               {2, 1025, 0, 1}, {3, 4096, 0, 1}, {2, 5000, 5, 0.5f}, {1, 20001, 2, 1}};

struct rows_of {
    device_array<float> logp, entropy, max, log_sum, kl;
    ppo_cuda_rows rows;
    explicit rows_of(size_t n) : logp(n), entropy(n), max(n), log_sum(n), kl(n) {
        rows = {logp.at(), entropy.at(), max.at(), log_sum.at(), kl.at()};
    }
};

/* The processor's results, and the arguments on the device. */
struct problem {
    shape s;
    size_t count;
    std::vector<float> z, ref, grad_logp, grad_entropy;
    std::vector<int> token;

    problem(const shape &of, ppo_rng *rng, float scale) : s(of), count((size_t)of.n * (size_t)of.vocab) {
        size_t n = (size_t)s.n;
        z = normal_floats(rng, count, scale);
        ref = normal_floats(rng, count, scale);
        token = random_tokens(rng, n, s.vocab);
        grad_logp = normal_floats(rng, n, 1);
        grad_entropy = normal_floats(rng, n, 1);
    }
};

/* grad_logp or grad_entropy may be NULL. */
template <class T>
static void check_rows(problem &p, const std::vector<T> &z, const std::vector<T> &ref, int bf16,
                       double tolerance) {
    const shape &s = p.s;
    size_t n = (size_t)s.n;
    rows_of out(n);
    device_array<T> dz(z, (size_t)s.shift), dref(ref, (size_t)s.shift), dgrad(p.count);
    device_array<int> token(p.token);
    device_array<float> grad_logp(p.grad_logp), grad_entropy(p.grad_entropy);
    ppo_cuda_logits logits = {dz.at(), bf16}, reference = {dref.at(), bf16}, grad = {dgrad.at(), bf16};

    std::vector<float> logp(n), entropy(n), kl(n), scaled(p.z), scaled_ref(p.ref), want(p.count);
    for (float &x : scaled) x /= s.temperature;
    for (float &x : scaled_ref) x /= s.temperature;
    assert_ok(
        ppo_token_logp(p.z.data(), p.token.data(), s.n, s.vocab, s.temperature, logp.data(), entropy.data()));
    assert_ok(ppo_categorical_kl(scaled.data(), scaled_ref.data(), s.n, s.vocab, kl.data()));

    assert_ok(ppo_cuda_token_logp(cuda, &logits, NULL, token.at(), s.n, s.vocab, s.temperature, &out.rows));
    assert_ok(ppo_cuda_sync(cuda));
    assert_close_each(out.logp.read().data(), logp.data(), s.n, 1e-5);
    assert_close_each(out.entropy.read().data(), entropy.data(), s.n, 1e-5);
    assert_ok(
        ppo_cuda_token_logp(cuda, &logits, &reference, token.at(), s.n, s.vocab, s.temperature, &out.rows));
    assert_ok(ppo_cuda_sync(cuda));
    assert_close_each(out.logp.read().data(), logp.data(), s.n, 1e-5);
    assert_close_each(out.entropy.read().data(), entropy.data(), s.n, 1e-5);
    assert_close_each(out.kl.read().data(), kl.data(), s.n, 1e-5);

    for (int parts = 1; parts < 4; parts++) {
        const float *gl = parts & 1 ? p.grad_logp.data() : NULL,
                    *ge = parts & 2 ? p.grad_entropy.data() : NULL;
        assert_ok(ppo_token_logp_backward(p.z.data(), p.token.data(), gl, ge, s.n, s.vocab, s.temperature,
                                          want.data()));
        assert_ok(ppo_cuda_token_logp_backward(cuda, &logits, token.at(), &out.rows,
                                               gl ? grad_logp.at() : NULL, ge ? grad_entropy.at() : NULL, s.n,
                                               s.vocab, s.temperature, &grad));
        assert_ok(ppo_cuda_sync(cuda));
        std::vector<T> got = dgrad.read();
        std::vector<float> floats(p.count);
        for (size_t i = 0; i < p.count; i++) floats[i] = ppo__cuda_float(got[i]);
        assert_close_array(floats.data(), want.data(), (int)p.count, tolerance);
    }
    /* in place: the same bits */
    std::vector<T> apart = dgrad.read();
    assert_ok(ppo_cuda_token_logp_backward(cuda, &logits, token.at(), &out.rows, grad_logp.at(),
                                           grad_entropy.at(), s.n, s.vocab, s.temperature, &logits));
    assert_ok(ppo_cuda_sync(cuda));
    std::vector<T> in_place = dz.read();
    if (s.shift % (int)(16 / sizeof(T)) == 0)
        assert_memory_equal(in_place.data(), apart.data(), p.count * sizeof(T));
}

static void floats_agree_with_the_processor(void **state) {
    (void)state;
    ppo_rng rng = test_rng(1);
    for (int k = 0; k < COUNT(shapes); k++) {
        problem p(shapes[k], &rng, 3);
        check_rows(p, p.z, p.ref, 0, 1e-5);
    }
}

static void bf16_agrees_with_the_processor(void **state) {
    (void)state;
    ppo_rng rng = test_rng(2);
    for (int k = 0; k < COUNT(shapes); k++) {
        problem p(shapes[k], &rng, 3);
        std::vector<__nv_bfloat16> z = to_bf16(&p.z), ref = to_bf16(&p.ref);
        check_rows(p, z, ref, 1, 1e-2);
    }
}

/* Large logits, whose exponentials overflow, and that differ by little. */
static void large_logits_lose_no_more_than_their_digits(void **state) {
    (void)state;
    ppo_rng rng = test_rng(3);
    problem p({4, 3000, 0, 1}, &rng, 2);
    for (float &x : p.z) x = roundf(x * 64) / 64 + 2000;
    for (float &x : p.ref) x = roundf(x * 64) / 64 - 1000;
    check_rows(p, p.z, p.ref, 0, 1e-5);
}

static void the_order_of_threads_changes_no_bit(void **state) {
    (void)state;
    for (int vocab : {77, 3000}) {
        ppo_rng rng = test_rng(4);
        problem p({5, vocab, 1, 1}, &rng, 3);
        std::vector<float> first[3];
        device_array<float> z(p.z, 1), ref(p.ref, 1);
        device_array<int> token(p.token);
        ppo_cuda_logits logits = {z.at(), 0}, reference = {ref.at(), 0};
        for (uint32_t order : thread_orders) {
            rows_of out(5);
            set_thread_order(order);
            assert_ok(ppo_cuda_token_logp(cuda, &logits, &reference, token.at(), 5, vocab, 1, &out.rows));
            std::vector<float> now[3] = {out.logp.read(), out.entropy.read(), out.kl.read()};
            for (int k = 0; k < 3; k++) {
                if (order == thread_orders[0]) first[k] = now[k];
                assert_false(bits_differ(now[k].data(), first[k].data(), 5));
            }
        }
    }
}

/* A row's results do not depend on other rows. */
static void a_row_is_the_same_in_every_batch(void **state) {
    (void)state;
    ppo_rng rng = test_rng(5);
    problem p({12, 40, 0, 1}, &rng, 3);
    device_array<float> z(p.z);
    device_array<int> token(p.token);
    rows_of all(12), one(1);
    ppo_cuda_logits logits = {z.at(), 0}, row = {z.at() + 7 * 40, 0};
    assert_ok(ppo_cuda_token_logp(cuda, &logits, NULL, token.at(), 12, 40, 1, &all.rows));
    assert_ok(ppo_cuda_token_logp(cuda, &row, NULL, token.at() + 7, 1, 40, 1, &one.rows));
    assert_false(bits_differ(&all.logp.read()[7], &one.logp.read()[0], 1));
    assert_false(bits_differ(&all.entropy.read()[7], &one.entropy.read()[0], 1));
}

/* Tokens that a mask forbids: logits of -INFINITY. */
static void forbidden_tokens_have_no_probability_and_no_gradient(void **state) {
    (void)state;
    for (int vocab : {50, 2000}) {
        ppo_rng rng = test_rng(6);
        problem p({3, vocab, 0, 1}, &rng, 2);
        for (size_t i = 0; i < p.count; i++)
            if (i % 3 && (int)i % vocab != p.token[i / (size_t)vocab]) p.z[i] = -INFINITY;
        rows_of out(3);
        device_array<float> z(p.z), grad_logp(p.grad_logp), grad_entropy(p.grad_entropy), grad(p.count);
        device_array<int> token(p.token);
        ppo_cuda_logits logits = {z.at(), 0}, to = {grad.at(), 0};
        std::vector<float> logp(3), entropy(3), want(p.count);
        assert_ok(ppo_token_logp(p.z.data(), p.token.data(), 3, vocab, 1, logp.data(), entropy.data()));
        assert_ok(ppo_token_logp_backward(p.z.data(), p.token.data(), p.grad_logp.data(),
                                          p.grad_entropy.data(), 3, vocab, 1, want.data()));
        assert_ok(ppo_cuda_token_logp(cuda, &logits, NULL, token.at(), 3, vocab, 1, &out.rows));
        assert_ok(ppo_cuda_token_logp_backward(cuda, &logits, token.at(), &out.rows, grad_logp.at(),
                                               grad_entropy.at(), 3, vocab, 1, &to));
        assert_ok(ppo_cuda_sync(cuda));
        assert_close_each(out.logp.read().data(), logp.data(), 3, 1e-5);
        assert_close_each(out.entropy.read().data(), entropy.data(), 3, 1e-5);
        assert_close_array(grad.read().data(), want.data(), (int)p.count, 1e-5);
    }
}

/* --------------------------------------------------------------------------------------------------------
   Errors
   -------------------------------------------------------------------------------------------------------- */

static void bad_arguments_are_named(void **state) {
    (void)state;
    device_array<float> z(8);
    device_array<int> token(2);
    rows_of out(2);
    ppo_cuda_logits logits = {z.at(), 0}, other = {z.at(), 1}, none = {NULL, 0};
    ppo_cuda_rows no_kl = out.rows, no_max = out.rows;
    no_kl.kl = no_max.max = NULL;
    assert_fails(ppo_cuda_token_logp(NULL, &logits, NULL, token.at(), 2, 4, 1, &out.rows), PPO_ERROR_ARGUMENT,
                 "NULL");
    assert_fails(ppo_cuda_token_logp(cuda, &none, NULL, token.at(), 2, 4, 1, &out.rows), PPO_ERROR_ARGUMENT,
                 "NULL");
    assert_fails(ppo_cuda_token_logp(cuda, &logits, &logits, token.at(), 2, 4, 1, &no_kl), PPO_ERROR_ARGUMENT,
                 "NULL");
    assert_fails(ppo_cuda_token_logp(cuda, &logits, NULL, token.at(), 0, 4, 1, &out.rows), PPO_ERROR_ARGUMENT,
                 "0|4");
    assert_fails(ppo_cuda_token_logp(cuda, &logits, NULL, token.at(), 2, -4, 1, &out.rows),
                 PPO_ERROR_ARGUMENT, "-4");
    assert_fails(ppo_cuda_token_logp(cuda, &logits, NULL, token.at(), 2, 4, 0, &out.rows), PPO_ERROR_ARGUMENT,
                 "temperature|0");
    assert_fails(ppo_cuda_token_logp(cuda, &logits, &other, token.at(), 2, 4, 1, &out.rows),
                 PPO_ERROR_ARGUMENT, "type");
    assert_fails(
        ppo_cuda_token_logp_backward(cuda, &logits, token.at(), &no_max, NULL, NULL, 2, 4, 1, &logits),
        PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(
        ppo_cuda_token_logp_backward(cuda, &logits, token.at(), &out.rows, NULL, NULL, 2, 4, 1, &other),
        PPO_ERROR_ARGUMENT, "type");
    assert_ok(ppo_cuda_sync(cuda));
}

/* Names the lowest row of the earliest call, whichever was reported first; and only once. */
static void the_first_fault_is_reported_once(void **state) {
    (void)state;
    for (uint32_t order : thread_orders) {
        std::vector<float> z(30, 1), bad(z);
        std::vector<int> token(10, 1);
        bad[3 * 4] = bad[3 * 8] = NAN;
        device_array<float> dz(z), dbad(bad);
        device_array<int> dtoken(token);
        rows_of out(10);
        ppo_cuda_logits good_logits = {dz.at(), 0}, bad_logits = {dbad.at(), 0};
        set_thread_order(order);
        assert_ok(ppo_cuda_token_logp(cuda, &good_logits, NULL, dtoken.at(), 10, 3, 1, &out.rows));
        assert_ok(ppo_cuda_token_logp(cuda, &bad_logits, NULL, dtoken.at(), 10, 3, 1, &out.rows));
        token[2] = 3; /* outside */
        dtoken.write(token.data());
        assert_ok(ppo_cuda_token_logp(cuda, &good_logits, NULL, dtoken.at(), 10, 3, 1, &out.rows));
        assert_fails(ppo_cuda_sync(cuda), PPO_ERROR_NUMERIC, "ppo_cuda_token_logp|row 4");
        assert_ok(ppo_cuda_sync(cuda));
        assert_ok(ppo_cuda_token_logp(cuda, &good_logits, NULL, dtoken.at(), 10, 3, 1, &out.rows));
        assert_fails(ppo_cuda_sync(cuda), PPO_ERROR_NUMERIC, "row 2");
    }
}

#ifndef __CUDACC__
/* Makes each call of the runtime fail, one per pass. */
static void a_call_that_fails_is_a_status_and_leaves_nothing(void **state) {
    (void)state;
    std::vector<float> z(40, 1);
    std::vector<int> token(4, 1);
    for (cudaError_t error : {cudaErrorMemoryAllocation, cudaErrorLaunchFailure}) {
        for (long k = 0, failed = 1; failed; k++) {
            device_array<float> dz(z);
            device_array<int> dtoken(token);
            rows_of out(4);
            ppo_cuda_logits logits = {dz.at(), 0};
            ppo_cuda *own = NULL;
            long live = emulation.live;
            emulation.fail_at = k;
            emulation.error = error;
            ppo_status status = ppo_cuda_create(0, &own);
            if (!status) status = ppo_cuda_token_logp(own, &logits, NULL, dtoken.at(), 4, 10, 1, &out.rows);
            if (!status) status = ppo_cuda_sync(own);
            failed = emulation.fail_at < 0;
            emulation.fail_at = -1;
            ppo_cuda_free(own);
            assert_int_equal(emulation.live, live);
            if (!failed) assert_ok(status);
            else
                assert_int_equal(status,
                                 error == cudaErrorMemoryAllocation ? PPO_ERROR_MEMORY : PPO_ERROR_DEVICE);
        }
    }
}

static void no_device_and_an_old_one_are_refused(void **state) {
    (void)state;
    ppo_cuda *other = NULL;
    emulation.devices = 0;
    assert_fails(ppo_cuda_create(0, &other), PPO_ERROR_DEVICE, "no CUDA-capable device");
    emulation.devices = 1;
    emulation.device.major = 7;
    assert_fails(ppo_cuda_create(0, &other), PPO_ERROR_DEVICE, "7|8");
    emulation.device.major = 8;
    emulation.fail_at = 0;
    emulation.error = cudaErrorInsufficientDriver;
    assert_fails(ppo_cuda_create(0, &other), PPO_ERROR_DEVICE, "driver");
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        on_a_device(a_device_that_is_not_there_is_refused),
        on_a_device(nothing_to_report_is_ok),
        on_a_device(floats_agree_with_the_processor),
        on_a_device(bf16_agrees_with_the_processor),
        on_a_device(large_logits_lose_no_more_than_their_digits),
        on_a_device(the_order_of_threads_changes_no_bit),
        on_a_device(a_row_is_the_same_in_every_batch),
        on_a_device(forbidden_tokens_have_no_probability_and_no_gradient),
        on_a_device(bad_arguments_are_named),
        on_a_device(the_first_fault_is_reported_once),
#ifndef __CUDACC__
        on_a_device(a_call_that_fails_is_a_status_and_leaves_nothing),
        on_a_device(no_device_and_an_old_one_are_refused),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
