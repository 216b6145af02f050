/* ppo_cuda.cuh, section 6: tokens are those that the processor draws with the same random numbers. */
#include "cuda_test.h"

struct setting {
    float temperature;
    int greedy, top_k;
    float top_p;
};
static const setting settings[] = {
    {1, 0, 0, 1},        {0.7f, 0, 0, 1}, {1, 1, 0, 1},       {1, 0, 1, 1},          {1, 0, 5, 1},
    {1.3f, 0, 50, 0.9f}, {1, 0, 0, 0.5f}, {1, 0, 0, 0.95f},   {2, 0, 1000, 0.99f},   {0.5f, 0, 0, 1e-6f},
    {1, 0, 30, 1},       {3, 0, 2, 0.4f}, {1, 0, 1000000, 1}, {0.1f, 0, 20, 0.999f}, {1.7f, 1, 3, 0.3f}};

static ppo_sampling sampling_of(const setting &s) {
    ppo_sampling how = ppo_sampling_default();
    how.temperature = s.temperature, how.greedy = s.greedy, how.top_k = s.top_k, how.top_p = s.top_p;
    return how;
}

/* Rows of logits, and more random streams than rows. */
struct problem {
    int n, vocab;
    std::vector<float> z;
    std::vector<ppo_rng> rng;
    std::vector<int> stream;

    problem(ppo_rng *from, int rows, int length, float scale) : n(rows), vocab(length) {
        z = normal_floats(from, (size_t)n * (size_t)vocab, scale);
        for (int i = 0; i < 2 * n + 1; i++) {
            rng.push_back(ppo_rng_stream(7, PPO_STREAM_USER, (uint32_t)i));
            for (int k = i % 5; k; k--) ppo_rng_uniform(&rng.back()); /* some in the middle of a block */
            stream.push_back(2 * n - 2 * i);
        }
        stream.resize((size_t)n);
    }
    const float *row(int i) const { return z.data() + (size_t)i * (size_t)vocab; }
};

/* The token that the processor chooses with this number. Another one is correct only if rounding can move the
   number across the boundary between them: of a sum of 10^5 floats there, of much less on the device. */
static void check_choice(const std::vector<float> &p, float uniform, int token, int choice) {
    const double rounding = 2e-6, of_the_processor = 1e-4;
    double total = 0, before = 0;
    assert_in_range(token, 0, p.size() - 1);
    assert_true(p[(size_t)token] > 0);
    for (float x : p) total += x;
    for (int j = 0; j < token; j++) before += p[(size_t)j] / total;
    double after = before + p[(size_t)token] / total;
    assert_true(before - rounding <= uniform && uniform < after + rounding);
    if (before + of_the_processor < uniform && uniform < after - of_the_processor)
        assert_int_equal(token, choice);
}

/* The next token of each row. Advances the streams on the processor, too. */
static void check_step(problem *p, const ppo_sampling *how, const std::vector<int> &token,
                       const std::vector<float> &logp) {
    size_t vocab = (size_t)p->vocab;
    std::vector<float> probability(vocab), scratch(vocab), want((size_t)p->n);
    for (int i = 0; i < p->n; i++) {
        ppo_rng *rng = &p->rng[(size_t)p->stream[(size_t)i]], same = *rng;
        assert_ok(ppo_sampling_probabilities(how, p->row(i), p->vocab, probability.data(), scratch.data()));
        const int choice = ppo__draw(probability.data(), p->vocab, rng);
        check_choice(probability, ppo_rng_uniform(&same), token[(size_t)i], choice);
    }
    assert_ok(ppo_token_logp(p->z.data(), token.data(), p->n, p->vocab, how->temperature, want.data(), NULL));
    assert_close_each(logp.data(), want.data(), p->n, 1e-5);
}

template <class T>
static void check_draws(problem *p, const std::vector<T> &z, int bf16, int shift, const setting &s,
                        int steps) {
    ppo_sampling how = sampling_of(s);
    device_array<T> logits(z, (size_t)shift);
    device_array<ppo_rng> rng(p->rng);
    device_array<int> stream(p->stream), token((size_t)p->n);
    device_array<float> logp((size_t)p->n);
    ppo_cuda_logits from = {logits.at(), bf16};
    for (int step = 0; step < steps; step++) {
        assert_ok(
            ppo_cuda_sample(cuda, &from, p->n, p->vocab, &how, rng.at(), stream.at(), token.at(), logp.at()));
        assert_ok(ppo_cuda_sync(cuda));
        check_step(p, &how, token.read(), logp.read());
        assert_memory_equal(rng.read().data(), p->rng.data(), p->rng.size() * sizeof(ppo_rng));
    }
}

/* Vocabularies for a warp and for a block; those of language models. */
static const int sizes[][2] = {{5, 1},    {9, 2},    {11, 31},  {8, 32},   {3, 255},
                               {4, 1000}, {2, 1024}, {2, 1025}, {1, 5000}, {1, 50257}};

static void floats_are_sampled_as_on_the_processor(void **state) {
    (void)state;
    ppo_rng rng = test_rng(1);
    for (int k = 0; k < COUNT(sizes); k++)
        for (int s = sizes[k][1] % 3; s < COUNT(settings); s += sizes[k][1] < 1000 ? 1 : 3) {
            problem p(&rng, sizes[k][0], sizes[k][1], s % 3 ? 2 : 5);
            check_draws(&p, p.z, 0, (k + s) % 5, settings[s], p.vocab < 1000 ? 3 : 1);
        }
}

static void bf16_is_sampled_as_on_the_processor(void **state) {
    (void)state;
    ppo_rng rng = test_rng(2);
    for (int k = 0; k < COUNT(sizes); k++)
        for (int s = sizes[k][1] % 3; s < COUNT(settings); s += sizes[k][1] < 1000 ? 1 : 3) {
            problem p(&rng, sizes[k][0], sizes[k][1], s % 3 ? 2 : 5);
            std::vector<__nv_bfloat16> z = to_bf16(&p.z);
            check_draws(&p, z, 1, (k + s) % 9, settings[s], p.vocab < 1000 ? 3 : 1);
        }
}

/* Also one of light tokens that are heavy together: sums exceed 32 bits. */
static void a_large_vocabulary_is_sampled_as_on_the_processor(void **state) {
    (void)state;
    ppo_rng rng = test_rng(3);
    for (const setting &s : {setting{1, 0, 0, 1}, setting{0.8f, 0, 100, 0.9f}, setting{1, 0, 0, 0.6f}}) {
        problem p(&rng, 1, 131072, s.top_k ? 4 : 0.5f);
        if (s.top_p == 0.6f) p.z[777] = 9;
        check_draws(&p, p.z, 0, 0, s, 1);
    }
}

/* Logits with few values: all tokens with the value at the threshold are kept, or none. */
static void equal_logits_stay_or_go_together(void **state) {
    (void)state;
    ppo_rng rng = test_rng(4);
    for (int vocab : {3, 40, 1200})
        for (const setting &s : settings) {
            problem p(&rng, 3, vocab, 1);
            for (float &z : p.z) z = roundf(2 * z) + 5;
            check_draws(&p, p.z, 0, 1, s, vocab < 1000 ? 2 : 1);
            for (float &z : p.z) z = 5;
            check_draws(&p, p.z, 0, 1, s, vocab < 1000 ? 2 : 1);
        }
}

/* Forbidden tokens, and those whose weight is too small for a float, are never chosen. */
static void forbidden_tokens_are_never_chosen(void **state) {
    (void)state;
    ppo_rng rng = test_rng(5);
    for (int vocab : {30, 1100})
        for (const setting &s : settings) {
            problem p(&rng, 3, vocab, 2);
            for (size_t j = 0; j < p.z.size(); j++)
                if (j % 7) p.z[j] = j % 3 ? -INFINITY : -2000;
            check_draws(&p, p.z, 0, 0, s, vocab < 1000 ? 2 : 1);
            for (size_t j = 0; j < p.z.size(); j++) p.z[j] = (int)j % vocab == vocab - 1 ? 1 : -INFINITY;
            check_draws(&p, p.z, 0, 0, s, 1);
        }
}

/* The first of equals; with logp and stream NULL. */
static void greedy_takes_the_first_of_the_largest(void **state) {
    (void)state;
    for (int vocab : {50, 4000})
        for (uint32_t order : thread_orders) {
            ppo_rng rng = test_rng(6);
            problem p(&rng, 3, vocab, 1);
            for (int i = 0; i < 3; i++)
                for (int j = 20 + 9 * i; j < vocab; j += 7) p.z[(size_t)(i * vocab + j)] = 9;
            ppo_sampling how = sampling_of({1, 1, 0, 1});
            device_array<float> z(p.z);
            device_array<ppo_rng> streams(p.rng);
            device_array<int> token(3);
            ppo_cuda_logits logits = {z.at(), 0};
            set_thread_order(order);
            assert_ok(ppo_cuda_sample(cuda, &logits, 3, vocab, &how, streams.at(), NULL, token.at(), NULL));
            assert_ok(ppo_cuda_sync(cuda));
            for (int i = 0; i < 3; i++) {
                assert_int_equal(token.read()[(size_t)i], 20 + 9 * i);
                ppo_rng_uniform(&p.rng[(size_t)i]);
            }
            assert_memory_equal(streams.read().data(), p.rng.data(), p.rng.size() * sizeof(ppo_rng));
        }
}

/* 1000 draws from one row: each token within five standard deviations. */
static void tokens_come_as_often_as_their_probability(void **state) {
    (void)state;
    const int n = 1000, vocab = 6;
    const float row[vocab] = {0.5f, -1, 1.5f, -INFINITY, 0, 1};
    std::vector<float> z, p(vocab), scratch(vocab);
    std::vector<double> seen(vocab);
    std::vector<ppo_rng> rng;
    for (int i = 0; i < n; i++) {
        z.insert(z.end(), row, row + vocab);
        rng.push_back(ppo_rng_stream(3, PPO_STREAM_USER, (uint32_t)i));
    }
    for (const setting &s : {setting{1, 0, 0, 1}, setting{0.8f, 0, 4, 0.9f}}) {
        ppo_sampling how = sampling_of(s);
        device_array<float> logits(z);
        device_array<ppo_rng> streams(rng);
        device_array<int> token((size_t)n);
        ppo_cuda_logits from = {logits.at(), 0};
        assert_ok(ppo_sampling_probabilities(&how, row, vocab, p.data(), scratch.data()));
        assert_ok(ppo_cuda_sample(cuda, &from, n, vocab, &how, streams.at(), NULL, token.at(), NULL));
        assert_ok(ppo_cuda_sync(cuda));
        std::fill(seen.begin(), seen.end(), 0);
        for (int t : token.read()) seen[(size_t)t]++;
        for (size_t j = 0; j < (size_t)vocab; j++)
            assert_true(fabs(seen[j] / n - p[j]) <= 5 * sqrt(p[j] * (1 - p[j]) / n));
    }
}

/* The next number of such a stream is `uniform`. */
static ppo_rng rng_with(double uniform) {
    ppo_rng rng = test_rng(10);
    rng.used = 3;
    rng.block[3] = (uint32_t)(uniform * 4294967296.0);
    return rng;
}

/* All tokens have the probability 1 / vocab but two, which have none: the first and the last. */
static void a_number_at_a_boundary_belongs_to_the_token_behind(void **state) {
    (void)state;
    for (int tokens : {2, 64, 2048}) {
        const int vocab = tokens + 2;
        std::vector<float> z;
        std::vector<ppo_rng> rng;
        const int chosen[] = {0, 1, tokens / 2, tokens - 1};
        ppo_sampling how = sampling_of({1, 0, 0, 1});
        for (int t : chosen) {
            z.insert(z.end(), (size_t)vocab, 3);
            z[z.size() - (size_t)vocab] = z.back() = -INFINITY;
            rng.push_back(rng_with((double)t / tokens));
        }
        rng[3] = rng_with(1 - 0x1p-24);
        device_array<float> logits(z);
        device_array<ppo_rng> streams(rng);
        device_array<int> token(4);
        ppo_cuda_logits from = {logits.at(), 0};
        assert_ok(ppo_cuda_sample(cuda, &from, 4, vocab, &how, streams.at(), NULL, token.at(), NULL));
        assert_ok(ppo_cuda_sync(cuda));
        for (int i = 0; i < 4; i++) assert_int_equal(token.read()[(size_t)i], chosen[i] + 1);
    }
}

static void the_order_of_threads_changes_no_bit(void **state) {
    (void)state;
    for (int vocab : {77, 3000}) {
        ppo_rng rng = test_rng(8);
        problem p(&rng, 5, vocab, 1);
        ppo_sampling how = sampling_of({1, 0, 60, 0.9f});
        device_array<float> z(p.z, 1), logp(5);
        device_array<int> token(5), stream(p.stream);
        ppo_cuda_logits logits = {z.at(), 0};
        std::vector<int> first;
        std::vector<float> first_logp;
        for (uint32_t order : thread_orders) {
            device_array<ppo_rng> streams(p.rng);
            set_thread_order(order);
            assert_ok(ppo_cuda_sample(cuda, &logits, 5, vocab, &how, streams.at(), stream.at(), token.at(),
                                      logp.at()));
            assert_ok(ppo_cuda_sync(cuda));
            if (first.empty()) first = token.read(), first_logp = logp.read();
            assert_memory_equal(token.read().data(), first.data(), 5 * sizeof(int));
            assert_false(bits_differ(logp.read().data(), first_logp.data(), 5));
        }
    }
}

/* --------------------------------------------------------------------------------------------------------
   Errors
   -------------------------------------------------------------------------------------------------------- */

/* It gets token 0 and NaN, and its stream does not advance; the other rows are sampled. */
static void a_row_that_is_not_finite_is_named_and_draws_nothing(void **state) {
    (void)state;
    ppo_rng rng = test_rng(9);
    for (int vocab : {20, 1300})
        for (int greedy = 0; greedy < 2; greedy++)
            for (float bad : {NAN, INFINITY, -INFINITY}) {
                problem p(&rng, 9, vocab, 1);
                std::vector<ppo_rng> before = p.rng;
                ppo_sampling how = sampling_of({1, greedy, 5, 0.9f});
                for (int i : {4, 6})
                    for (int j = 0; j < vocab; j++)
                        if (bad < 0 || j == vocab - 2) p.z[(size_t)(i * vocab + j)] = bad;
                device_array<float> z(p.z), logp(9);
                device_array<ppo_rng> streams(p.rng);
                device_array<int> token(9), stream(p.stream);
                ppo_cuda_logits logits = {z.at(), 0};
                assert_ok(ppo_cuda_sample(cuda, &logits, 9, vocab, &how, streams.at(), stream.at(),
                                          token.at(), logp.at()));
                assert_fails(ppo_cuda_sync(cuda), PPO_ERROR_NUMERIC, "ppo_cuda_sample|row 4");
                std::vector<int> got = token.read();
                std::vector<float> got_logp = logp.read();
                std::vector<ppo_rng> after = streams.read();
                std::vector<float> probability((size_t)vocab), scratch((size_t)vocab);
                for (size_t i = 0; i < 9; i++) {
                    ppo_rng *stood = &before[(size_t)p.stream[i]], same = *stood;
                    if (i == 4 || i == 6) {
                        assert_int_equal(got[i], 0);
                        assert_nan(got_logp[i]);
                        assert_memory_equal(&after[(size_t)p.stream[i]], stood, sizeof(ppo_rng));
                        continue;
                    }
                    assert_ok(ppo_sampling_probabilities(&how, p.row((int)i), vocab, probability.data(),
                                                         scratch.data()));
                    const int choice = ppo__draw(probability.data(), vocab, stood);
                    check_choice(probability, ppo_rng_uniform(&same), got[i], choice);
                }
            }
}

static void bad_arguments_are_named(void **state) {
    (void)state;
    device_array<float> z(8);
    device_array<int> token(2);
    device_array<ppo_rng> rng(2);
    ppo_cuda_logits logits = {z.at(), 0}, none = {NULL, 0};
    ppo_sampling how = ppo_sampling_default(), bad = how;
    assert_fails(ppo_cuda_sample(NULL, &logits, 2, 4, &how, rng.at(), NULL, token.at(), NULL),
                 PPO_ERROR_ARGUMENT, "ppo_cuda_sample|NULL");
    assert_fails(ppo_cuda_sample(cuda, &none, 2, 4, &how, rng.at(), NULL, token.at(), NULL),
                 PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_cuda_sample(cuda, &logits, 2, 4, NULL, rng.at(), NULL, token.at(), NULL),
                 PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_cuda_sample(cuda, &logits, 2, 4, &how, NULL, NULL, token.at(), NULL), PPO_ERROR_ARGUMENT,
                 "NULL");
    assert_fails(ppo_cuda_sample(cuda, &logits, 2, 4, &how, rng.at(), NULL, NULL, NULL), PPO_ERROR_ARGUMENT,
                 "NULL");
    assert_fails(ppo_cuda_sample(cuda, &logits, 0, 4, &how, rng.at(), NULL, token.at(), NULL),
                 PPO_ERROR_ARGUMENT, "0 rows|4");
    assert_fails(ppo_cuda_sample(cuda, &logits, 2, 0, &how, rng.at(), NULL, token.at(), NULL),
                 PPO_ERROR_ARGUMENT, "2 rows|0");
    bad.temperature = 0;
    assert_fails(ppo_cuda_sample(cuda, &logits, 2, 4, &bad, rng.at(), NULL, token.at(), NULL),
                 PPO_ERROR_ARGUMENT, "temperature|0");
    bad = how, bad.top_p = 1.5f;
    assert_fails(ppo_cuda_sample(cuda, &logits, 2, 4, &bad, rng.at(), NULL, token.at(), NULL),
                 PPO_ERROR_ARGUMENT, "top_p|1.5");
    bad = how, bad.top_k = -3;
    assert_fails(ppo_cuda_sample(cuda, &logits, 2, 4, &bad, rng.at(), NULL, token.at(), NULL),
                 PPO_ERROR_ARGUMENT, "top_k|-3");
    assert_ok(ppo_cuda_sync(cuda));
}

#ifndef __CUDACC__
static void a_launch_that_fails_is_a_status(void **state) {
    (void)state;
    std::vector<float> zeros(8);
    device_array<float> z(zeros);
    device_array<int> token(2);
    std::vector<ppo_rng> streams(2, test_rng(1));
    device_array<ppo_rng> rng(streams);
    ppo_cuda_logits logits = {z.at(), 0};
    ppo_sampling how = ppo_sampling_default();
    long calls = emulation.calls;
    assert_ok(ppo_cuda_sample(cuda, &logits, 2, 4, &how, rng.at(), NULL, token.at(), NULL));
    calls = emulation.calls - calls;
    for (long k = 0; k < calls; k++) {
        emulation.fail_at = k;
        emulation.error = cudaErrorLaunchFailure;
        assert_fails(ppo_cuda_sample(cuda, &logits, 2, 4, &how, rng.at(), NULL, token.at(), NULL),
                     PPO_ERROR_DEVICE, "ppo_cuda_sample|cudaErrorLaunchFailure");
        assert_true(emulation.fail_at < 0);
    }
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        on_a_device(floats_are_sampled_as_on_the_processor),
        on_a_device(bf16_is_sampled_as_on_the_processor),
        on_a_device(a_large_vocabulary_is_sampled_as_on_the_processor),
        on_a_device(equal_logits_stay_or_go_together),
        on_a_device(forbidden_tokens_are_never_chosen),
        on_a_device(greedy_takes_the_first_of_the_largest),
        on_a_device(tokens_come_as_often_as_their_probability),
        on_a_device(a_number_at_a_boundary_belongs_to_the_token_behind),
        on_a_device(the_order_of_threads_changes_no_bit),
        on_a_device(a_row_that_is_not_finite_is_named_and_draws_nothing),
        on_a_device(bad_arguments_are_named),
#ifndef __CUDACC__
        on_a_device(a_launch_that_fails_is_a_status),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
