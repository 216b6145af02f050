/* ppo_cuda.cuh, section 7: without all logits in memory, results are those of ppo.h. */
#include "cuda_test.h"

#include <memory>

struct shape {
    int n, vocab, width;
    float temperature;
};

/* Vocabularies whose rows a warp computes, and a block, in one step and in more. */
static const shape shapes[] = {{1, 2, 1, 1},    {3, 1, 4, 1},    {13, 37, 9, 0.7f},  {10, 64, 16, 1},
                               {7, 1024, 5, 2}, {5, 1031, 7, 1}, {3, 8200, 3, 1.3f}, {2, 17003, 2, 1}};
static const int tiles[] = {1, 4, 1000}; /* rows */

static void set_tile(const shape &s, int rows) {
    cuda->linear_bytes = (size_t)rows * (size_t)((s.vocab + 7) / 8 * 8) * sizeof(float);
}

struct rows_of {
    device_array<float> logp, entropy, max, log_sum;
    ppo_cuda_rows rows;
    explicit rows_of(size_t n) : logp(n), entropy(n), max(n), log_sum(n) {
        rows = {logp.at(), entropy.at(), max.at(), log_sum.at(), NULL};
    }
};

/* The arguments on the device, in T, and the logits on the processor. */
template <class T> struct problem {
    shape s;
    size_t n, vocab, width;
    std::vector<float> x, w, z;
    std::vector<int> token;
    std::unique_ptr<device_array<T>> dx, dw;
    device_array<int> dtoken;
    const int *given; /* the tokens, on the device */
    ppo_cuda_linear linear;

    problem(const shape &of, ppo_rng *rng, float scale = 1.5f)
        : s(of), n((size_t)of.n), vocab((size_t)of.vocab), width((size_t)of.width),
          x(normal_floats(rng, n * width, scale)), w(normal_floats(rng, vocab * width, 1)), z(n * vocab),
          token(random_tokens(rng, n, s.vocab)), dtoken(token), given(dtoken.at()) {
        give();
    }
    void give() {
        load(&dx, &x), load(&dw, &w);
        linear = {dx->at(), dw->at(), sizeof(T) == 2, s.n, s.width, s.vocab};
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < vocab; j++) {
                double sum = 0;
                for (size_t k = 0; k < width; k++) sum += (double)x[i * width + k] * w[j * width + k];
                z[i * vocab + j] = (float)sum;
            }
    }
    static void load(std::unique_ptr<device_array<float>> *to, std::vector<float> *from) {
        to->reset(new device_array<float>(*from));
    }
    static void load(std::unique_ptr<device_array<__nv_bfloat16>> *to, std::vector<float> *from) {
        to->reset(new device_array<__nv_bfloat16>(to_bf16(from)));
    }
    double tolerance() const { return sizeof(T) == 2 ? 1e-2 : 1e-5; }     /* of gradients */
    double row_tolerance() const { return sizeof(T) == 2 ? 3e-5 : 1e-5; } /* tensor cores truncate sums */

    /* Gradients of x, and of w added to `before`, from those of the logits. */
    std::vector<float> grad_x(const std::vector<float> &g) const {
        std::vector<float> to(n * width);
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < width; k++) {
                double sum = 0;
                for (size_t j = 0; j < vocab; j++) sum += (double)g[i * vocab + j] * w[j * width + k];
                to[i * width + k] = (float)sum;
            }
        return to;
    }
    std::vector<float> grad_w(const std::vector<float> &g, const std::vector<float> &before) const {
        std::vector<float> to(before);
        for (size_t j = 0; j < vocab; j++)
            for (size_t k = 0; k < width; k++) {
                double sum = before[j * width + k];
                for (size_t i = 0; i < n; i++) sum += (double)g[i * vocab + j] * x[i * width + k];
                to[j * width + k] = (float)sum;
            }
        return to;
    }
};

/* Gradients on the device; those of w are added to other numbers. */
template <class T> struct gradients {
    std::vector<float> before;
    device_array<T> x;
    device_array<float> w;
    gradients(const problem<T> &p, ppo_rng *rng)
        : before(normal_floats(rng, p.vocab * p.width, 0.1f)), x(p.n * p.width), w(before) {}

    void check(const problem<T> &p, const std::vector<float> &grad_logits, int with_x, int with_w) {
        std::vector<float> want_x = p.grad_x(grad_logits), want_w = p.grad_w(grad_logits, before), floats;
        if (with_x) {
            for (T v : x.read()) floats.push_back(ppo__cuda_float(v));
            assert_close_array(floats.data(), want_x.data(), (int)floats.size(), p.tolerance());
        }
        if (!with_w) want_w = before;
        assert_close_array(w.read().data(), want_w.data(), (int)want_w.size(), with_w ? p.tolerance() : 0);
        w.write(before.data());
    }
};

/* --------------------------------------------------------------------------------------------------------
   Log-probabilities
   -------------------------------------------------------------------------------------------------------- */

template <class T> static void check_logp(problem<T> &p, ppo_rng *rng) {
    const shape &s = p.s;
    std::vector<float> logp(p.n), entropy(p.n), grad(p.n * p.vocab);
    std::vector<float> gl = normal_floats(rng, p.n, 1), ge = normal_floats(rng, p.n, 1);
    device_array<float> grad_logp(gl), grad_entropy(ge);
    rows_of out(p.n);
    gradients<T> to(p, rng);
    assert_ok(
        ppo_token_logp(p.z.data(), p.token.data(), s.n, s.vocab, s.temperature, logp.data(), entropy.data()));
    assert_ok(ppo_cuda_linear_token_logp(cuda, &p.linear, p.given, s.temperature, &out.rows));
    assert_ok(ppo_cuda_sync(cuda));
    assert_close_each(out.logp.read().data(), logp.data(), s.n, p.row_tolerance());
    assert_close_each(out.entropy.read().data(), entropy.data(), s.n, p.row_tolerance());
    for (int parts = 1; parts < 4; parts++)
        for (int with = 0; with < 4; with++) {
            int with_logp = parts & 1, with_entropy = parts & 2, with_x = with & 1, with_w = with & 2;
            if (parts != 3 && with != 3) continue;
            assert_ok(ppo_token_logp_backward(p.z.data(), p.token.data(), with_logp ? gl.data() : NULL,
                                              with_entropy ? ge.data() : NULL, s.n, s.vocab, s.temperature,
                                              grad.data()));
            assert_ok(ppo_cuda_linear_token_logp_backward(
                cuda, &p.linear, p.given, &out.rows, with_logp ? grad_logp.at() : NULL,
                with_entropy ? grad_entropy.at() : NULL, s.temperature, with_x ? to.x.at() : NULL,
                with_w ? to.w.at() : NULL));
            assert_ok(ppo_cuda_sync(cuda));
            to.check(p, grad, with_x, with_w);
        }
}

static void floats_agree_with_explicit_logits(void **state) {
    (void)state;
    ppo_rng rng = test_rng(1);
    for (const shape &s : shapes) {
        problem<float> p(s, &rng);
        for (int rows : tiles) set_tile(s, rows), check_logp(p, &rng);
    }
}

/* Log-probabilities are as exact as with floats: only the factors of x and w are rounded. */
static void bf16_agrees_with_explicit_logits(void **state) {
    (void)state;
    ppo_rng rng = test_rng(2);
    for (const shape &s : shapes) {
        problem<__nv_bfloat16> p(s, &rng);
        for (int rows : tiles) set_tile(s, rows), check_logp(p, &rng);
    }
}

/* --------------------------------------------------------------------------------------------------------
   Policy loss
   -------------------------------------------------------------------------------------------------------- */

/* Samples on the host and on the device. */
struct samples {
    std::vector<float> old_logp, advantage;
    std::vector<unsigned char> mask;
    device_array<float> dold, dadvantage;
    device_array<unsigned char> dmask;

    template <class T>
    samples(const problem<T> &p, ppo_rng *rng, int one_in = 3)
        : old_logp(p.n), advantage(normal_floats(rng, p.n, 1)), mask(random_mask(rng, p.n, one_in)),
          dold(p.n), dadvantage(advantage), dmask(mask) {
        std::vector<float> off = normal_floats(rng, p.n, 0.3f), entropy(p.n);
        assert_ok(ppo_token_logp(p.z.data(), p.token.data(), p.s.n, p.s.vocab, p.s.temperature,
                                 old_logp.data(), entropy.data()));
        for (size_t i = 0; i < p.n; i++) old_logp[i] += off[i];
        dold.write(old_logp.data());
    }
};

static void check_stats(const ppo_policy_stats &got, const ppo_policy_stats &want) {
    assert_close_each(&got.loss, &want.loss, 1, 1e-5);
    assert_close_each(&got.clip_fraction, &want.clip_fraction, 1, 1e-5);
    assert_close_each(&got.approx_kl, &want.approx_kl, 1, 1e-5);
    assert_close_each(&got.old_approx_kl, &want.old_approx_kl, 1, 1e-5);
    assert_close_each(&got.ratio_mean, &want.ratio_mean, 1, 1e-5);
    assert_close_each(&got.ratio_min, &want.ratio_min, 1, 1e-5);
    assert_close_each(&got.ratio_max, &want.ratio_max, 1, 1e-5);
}

template <class T>
static void check_policy(problem<T> &p, samples &in, int masked, int objective_kind, float entropy_coef,
                         ppo_rng *rng) {
    const shape &s = p.s;
    const unsigned char *mask = masked ? in.mask.data() : NULL;
    ppo_policy_objective objective = ppo_policy_objective_default();
    std::vector<float> logp(p.n), entropy(p.n), gl(p.n), ge(p.n), grad(p.n * p.vocab);
    ppo_policy_stats want;
    device_array<ppo_policy_stats> stats(1);
    rows_of out(p.n);
    gradients<T> to(p, rng);
    float count = 0;
    objective.objective = (ppo_objective)objective_kind;
    assert_ok(
        ppo_token_logp(p.z.data(), p.token.data(), s.n, s.vocab, s.temperature, logp.data(), entropy.data()));
    assert_ok(ppo_policy_loss(logp.data(), in.old_logp.data(), in.advantage.data(), mask, s.n, &objective,
                              &want, gl.data()));
    for (size_t i = 0; i < p.n; i++) count += !mask || mask[i];
    for (size_t i = 0; i < p.n; i++) ge[i] = !mask || mask[i] ? -entropy_coef / count : 0;
    assert_ok(ppo_token_logp_backward(p.z.data(), p.token.data(), gl.data(), ge.data(), s.n, s.vocab,
                                      s.temperature, grad.data()));
    for (int with = 0; with < 4; with++) {
        int with_x = with & 1, with_w = with & 2;
        assert_ok(ppo_cuda_linear_policy_loss(cuda, &p.linear, p.given, s.temperature, in.dold.at(),
                                              in.dadvantage.at(), masked ? in.dmask.at() : NULL, &objective,
                                              entropy_coef, &out.rows, stats.at(), with_x ? to.x.at() : NULL,
                                              with_w ? to.w.at() : NULL));
        assert_ok(ppo_cuda_sync(cuda));
        check_stats(stats.read()[0], want);
        to.check(p, grad, with_x, with_w);
    }
    for (size_t i = 0; i < p.n; i++)
        if (mask && !mask[i]) logp[i] = entropy[i] = 0;
    assert_close_each(out.logp.read().data(), logp.data(), s.n, p.row_tolerance());
    assert_close_each(out.entropy.read().data(), entropy.data(), s.n, p.row_tolerance());
}

static void policy_loss_and_its_gradients_agree(void **state) {
    (void)state;
    ppo_rng rng = test_rng(3);
    for (const shape &s : {shapes[2], shapes[3], shapes[5]})
        for (int k = 0; k < COUNT(tiles); k++) {
            problem<float> p(s, &rng);
            problem<__nv_bfloat16> q(s, &rng);
            samples in(p, &rng), qin(q, &rng);
            set_tile(s, tiles[k]);
            for (int objective : {PPO_CLIP, PPO_K3_PENALTY, PPO_UNCLIPPED})
                check_policy(p, in, (objective + k) % 2, objective, objective == PPO_CLIP ? 0 : 0.3f, &rng);
            check_policy(q, qin, k % 2, PPO_CLIP, 0.1f, &rng);
        }
}

/* Whatever their tokens and numbers are. */
static void masked_samples_are_left_out(void **state) {
    (void)state;
    for (int vocab : {50, 1100}) {
        ppo_rng rng = test_rng(4);
        problem<float> p({9, vocab, 4, 1}, &rng);
        samples in(p, &rng);
        set_tile(p.s, 2);
        for (size_t i = 0; i < p.n; i++)
            if (!in.mask[i]) p.token[i] = -1, in.old_logp[i] = in.advantage[i] = NAN;
        for (size_t i = 0; i < p.n * p.width; i++)
            if (!in.mask[i / p.width]) p.x[i] *= 1000; /* e^z is infinite */
        p.give();
        in.dold.write(in.old_logp.data());
        in.dadvantage.write(in.advantage.data());
        p.dtoken.write(p.token.data());
        for (size_t i = 0; i < p.n; i++)
            if (!in.mask[i]) p.token[i] = 0;
        check_policy(p, in, 1, PPO_CLIP, 0.2f, &rng);
    }
}

/* Only logp is required. */
static void what_nobody_asks_for_may_be_null(void **state) {
    (void)state;
    ppo_rng rng = test_rng(5);
    problem<float> p({6, 40, 4, 1}, &rng);
    samples in(p, &rng);
    rows_of out(6), all(6);
    ppo_policy_objective objective = ppo_policy_objective_default();
    gradients<float> to(p, &rng), other(p, &rng);
    out.rows.entropy = out.rows.max = out.rows.log_sum = NULL;
    other.w.write(to.before.data());
    assert_ok(ppo_cuda_linear_policy_loss(cuda, &p.linear, p.given, 1, in.dold.at(), in.dadvantage.at(), NULL,
                                          &objective, 0.1f, &out.rows, NULL, to.x.at(), to.w.at()));
    assert_ok(ppo_cuda_linear_policy_loss(cuda, &p.linear, p.given, 1, in.dold.at(), in.dadvantage.at(), NULL,
                                          &objective, 0.1f, &all.rows, NULL, other.x.at(), other.w.at()));
    assert_ok(
        ppo_cuda_linear_token_logp_backward(cuda, &p.linear, p.given, &all.rows, NULL, NULL, 1, NULL, NULL));
    assert_ok(ppo_cuda_sync(cuda));
    assert_false(bits_differ(to.x.read().data(), other.x.read().data(), p.n * p.width));
    assert_false(bits_differ(to.w.read().data(), other.w.read().data(), p.vocab * p.width));
    assert_false(bits_differ(out.logp.read().data(), all.logp.read().data(), p.n));
}

/* --------------------------------------------------------------------------------------------------------
   Bits and memory
   -------------------------------------------------------------------------------------------------------- */

template <class T> static void check_orders(int vocab) {
    ppo_rng rng = test_rng(6);
    problem<T> p({5, vocab, 3, 1}, &rng);
    samples in(p, &rng);
    rows_of out(5);
    ppo_policy_objective objective = ppo_policy_objective_default();
    gradients<T> to(p, &rng);
    std::vector<T> first_x;
    std::vector<float> first_w, first_logp;
    set_tile(p.s, 2);
    for (uint32_t order : thread_orders) {
        set_thread_order(order);
        assert_ok(ppo_cuda_linear_policy_loss(cuda, &p.linear, p.given, 1, in.dold.at(), in.dadvantage.at(),
                                              in.dmask.at(), &objective, 0.1f, &out.rows, NULL, to.x.at(),
                                              to.w.at()));
        assert_ok(ppo_cuda_sync(cuda));
        if (first_x.empty()) first_x = to.x.read(), first_w = to.w.read(), first_logp = out.logp.read();
        assert_memory_equal(to.x.read().data(), first_x.data(), first_x.size() * sizeof(T));
        assert_false(bits_differ(to.w.read().data(), first_w.data(), first_w.size()));
        assert_false(bits_differ(out.logp.read().data(), first_logp.data(), 5));
        to.w.write(to.before.data());
    }
}

static void the_order_of_threads_changes_no_bit(void **state) {
    (void)state;
    for (int vocab : {77, 8333}) {
        check_orders<float>(vocab);
        check_orders<__nv_bfloat16>(vocab);
    }
}

#ifndef __CUDACC__
static size_t bytes_of_a_loss(int n) {
    const size_t few = 1 << 16;
    ppo_rng rng = test_rng(7);
    problem<float> p({n, 500, 2, 1}, &rng);
    samples in(p, &rng);
    rows_of out(p.n);
    ppo_policy_objective objective = ppo_policy_objective_default();
    gradients<float> to(p, &rng);
    size_t before = emulation.device_bytes;
    ppo_cuda *own = NULL;
    assert_ok(ppo_cuda_create(0, &own));
    own->linear_bytes = few;
    assert_ok(ppo_cuda_linear_policy_loss(own, &p.linear, p.given, 1, in.dold.at(), in.dadvantage.at(),
                                          in.dmask.at(), &objective, 0.1f, &out.rows, NULL, to.x.at(),
                                          to.w.at()));
    size_t bytes = emulation.device_bytes - before;
    assert_true(bytes <= few + (1 << 15));
    assert_ok(ppo_cuda_sync(own));
    ppo_cuda_free(own);
    return bytes;
}

static void memory_does_not_grow_with_the_rows(void **state) {
    (void)state;
    assert_int_equal(bytes_of_a_loss(32), bytes_of_a_loss(320));
}
#endif

/* --------------------------------------------------------------------------------------------------------
   Errors
   -------------------------------------------------------------------------------------------------------- */

/* Only forward, with a mask, without entropy. */
static ppo_status loss_of(const problem<float> &p, const ppo_cuda_linear *linear, float temperature,
                          samples &in, const ppo_policy_objective &objective, const ppo_cuda_rows *rows) {
    return ppo_cuda_linear_policy_loss(cuda, linear, p.given, temperature, in.dold.at(), in.dadvantage.at(),
                                       in.dmask.at(), &objective, 0, rows, NULL, NULL, NULL);
}

/* By its number among all rows, not within its tile. */
static void a_row_that_is_not_finite_is_named(void **state) {
    (void)state;
    for (int vocab : {30, 1200})
        for (int rows : tiles) {
            ppo_rng rng = test_rng(8);
            problem<float> p({12, vocab, 3, 1}, &rng);
            samples in(p, &rng, 1000);
            rows_of out(12);
            ppo_policy_objective objective = ppo_policy_objective_default();
            set_tile(p.s, rows);
            in.advantage[10] = NAN;
            in.dadvantage.write(in.advantage.data());
            assert_ok(loss_of(p, &p.linear, 1, in, objective, &out.rows));
            assert_fails(ppo_cuda_sync(cuda), PPO_ERROR_NUMERIC, "ppo_cuda_linear_policy_loss|row 10");
            p.x[9 * 3 + 1] = INFINITY;
            p.give();
            assert_ok(ppo_cuda_linear_token_logp(cuda, &p.linear, p.given, 1, &out.rows));
            assert_fails(ppo_cuda_sync(cuda), PPO_ERROR_NUMERIC, "ppo_cuda_linear_token_logp|row 9");
            assert_ok(loss_of(p, &p.linear, 1, in, objective, &out.rows));
            assert_fails(ppo_cuda_sync(cuda), PPO_ERROR_NUMERIC, "ppo_cuda_linear_policy_loss|row 9");
            p.token[7] = vocab;
            p.dtoken.write(p.token.data());
            assert_ok(ppo_cuda_linear_token_logp(cuda, &p.linear, p.given, 1, &out.rows));
            assert_fails(ppo_cuda_sync(cuda), PPO_ERROR_NUMERIC, "ppo_cuda_linear_token_logp|row 7");
            std::fill(in.mask.begin(), in.mask.end(), 0);
            in.dmask.write(in.mask.data());
            assert_ok(loss_of(p, &p.linear, 1, in, objective, &out.rows));
            assert_fails(ppo_cuda_sync(cuda), PPO_ERROR_ARGUMENT, "ppo_cuda_linear_policy_loss|masked");
        }
}

/* All three functions return the error. */
static void check_refused(const problem<float> &p, samples &in, const ppo_cuda_rows &rows,
                          const ppo_cuda_linear *linear, float temperature, const char *words) {
    assert_fails(ppo_cuda_linear_token_logp(cuda, linear, p.given, temperature, &rows), PPO_ERROR_ARGUMENT,
                 words);
    assert_fails(ppo_cuda_linear_token_logp_backward(cuda, linear, p.given, &rows, NULL, NULL, temperature,
                                                     NULL, NULL),
                 PPO_ERROR_ARGUMENT, words);
    assert_fails(loss_of(p, linear, temperature, in, ppo_policy_objective_default(), &rows),
                 PPO_ERROR_ARGUMENT, words);
}

static void bad_arguments_are_named(void **state) {
    (void)state;
    ppo_rng rng = test_rng(9);
    problem<float> p({4, 6, 3, 1}, &rng);
    samples in(p, &rng);
    rows_of out(4);
    ppo_cuda_rows no_logp = out.rows, no_max = out.rows, no_entropy = out.rows;
    ppo_cuda_linear bad = p.linear;
    ppo_policy_objective objective = ppo_policy_objective_default();
    const int *token = p.given;
    no_logp.logp = no_max.max = no_entropy.entropy = NULL;
    check_refused(p, in, out.rows, NULL, 1, "ppo_cuda_linear|NULL");
    bad.x = NULL, check_refused(p, in, out.rows, &bad, 1, "NULL");
    bad = p.linear, bad.w = NULL, check_refused(p, in, out.rows, &bad, 1, "NULL");
    bad = p.linear, bad.n = 0, check_refused(p, in, out.rows, &bad, 1, "0 rows");
    bad = p.linear, bad.vocab = -6, check_refused(p, in, out.rows, &bad, 1, "-6");
    bad = p.linear, bad.width = 0, check_refused(p, in, out.rows, &bad, 1, "width 0");
    bad = p.linear, bad.vocab = INT_MAX, check_refused(p, in, out.rows, &bad, 1, "2147483647");
    check_refused(p, in, out.rows, &p.linear, 0, "temperature|0");
    check_refused(p, in, out.rows, &p.linear, NAN, "temperature");
    assert_fails(ppo_cuda_linear_token_logp(NULL, &p.linear, token, 1, &out.rows), PPO_ERROR_ARGUMENT,
                 "NULL");
    assert_fails(ppo_cuda_linear_token_logp(cuda, &p.linear, token, 1, &no_logp), PPO_ERROR_ARGUMENT, "NULL");
    for (ppo_cuda_rows *rows : {&no_max, &no_entropy})
        assert_fails(ppo_cuda_linear_token_logp_backward(cuda, &p.linear, token, rows, NULL, in.dold.at(), 1,
                                                         NULL, NULL),
                     PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_cuda_linear_policy_loss(cuda, &p.linear, token, 1, NULL, in.dadvantage.at(), NULL,
                                             &objective, 0, &out.rows, NULL, NULL, NULL),
                 PPO_ERROR_ARGUMENT, "ppo_cuda_linear_policy_loss|NULL");
    assert_fails(loss_of(p, &p.linear, 1, in, objective, &no_logp), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_cuda_linear_policy_loss(cuda, &p.linear, token, 1, in.dold.at(), in.dadvantage.at(),
                                             NULL, &objective, INFINITY, &out.rows, NULL, NULL, NULL),
                 PPO_ERROR_ARGUMENT, "entropy_coef|inf");
    objective.clip_low = -1;
    assert_fails(loss_of(p, &p.linear, 1, in, objective, &out.rows), PPO_ERROR_ARGUMENT,
                 "ppo_cuda_linear_policy_loss|-1");
    assert_ok(ppo_cuda_sync(cuda));
}

#ifndef __CUDACC__
/* Makes each call of the runtime and of cuBLAS fail, one per pass. */
static void a_call_that_fails_is_a_status_and_leaves_nothing(void **state) {
    (void)state;
    ppo_rng rng = test_rng(10);
    problem<float> p({5, 20, 3, 1}, &rng);
    samples in(p, &rng);
    rows_of out(5);
    ppo_policy_objective objective = ppo_policy_objective_default();
    gradients<float> to(p, &rng);
    device_array<ppo_policy_stats> stats(1);
    for (cudaError_t error : {cudaErrorMemoryAllocation, cudaErrorLaunchFailure})
        for (long k = 0, failed = 1; failed; k++) {
            ppo_cuda *own = NULL;
            long live = emulation.live;
            assert_ok(ppo_cuda_create(0, &own));
            own->linear_bytes = 300;
            emulation.fail_at = k;
            emulation.error = error;
            ppo_status status = ppo_cuda_linear_token_logp(own, &p.linear, p.given, 1, &out.rows);
            if (!status)
                status = ppo_cuda_linear_policy_loss(own, &p.linear, p.given, 1, in.dold.at(),
                                                     in.dadvantage.at(), in.dmask.at(), &objective, 0.1f,
                                                     &out.rows, stats.at(), to.x.at(), to.w.at());
            if (!status)
                status = ppo_cuda_linear_token_logp_backward(own, &p.linear, p.given, &out.rows, in.dold.at(),
                                                             NULL, 1, to.x.at(), to.w.at());
            if (!status) status = ppo_cuda_sync(own);
            failed = emulation.fail_at < 0;
            emulation.fail_at = -1;
            ppo_cuda_free(own);
            assert_int_equal(emulation.live, live);
            if (!failed) assert_ok(status);
            else /* missing scratch memory is PPO_ERROR_MEMORY, for any cause */
                assert_true(status == PPO_ERROR_MEMORY ||
                            (status == PPO_ERROR_DEVICE && error == cudaErrorLaunchFailure));
        }
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        on_a_device(floats_agree_with_explicit_logits),
        on_a_device(bf16_agrees_with_explicit_logits),
        on_a_device(policy_loss_and_its_gradients_agree),
        on_a_device(masked_samples_are_left_out),
        on_a_device(what_nobody_asks_for_may_be_null),
        on_a_device(the_order_of_threads_changes_no_bit),
#ifndef __CUDACC__
        on_a_device(memory_does_not_grow_with_the_rows),
#endif
        on_a_device(a_row_that_is_not_finite_is_named),
        on_a_device(bad_arguments_are_named),
#ifndef __CUDACC__
        on_a_device(a_call_that_fails_is_a_status_and_leaves_nothing),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
