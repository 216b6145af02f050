/* Section 2: the generator. Statistical tests use fixed seeds; their limits are 5 standard deviations or p =
   1e-6. */
#include "../ppo.h"

#include "golden/core.h"
#include "test.h"

static ppo_rng at_counter(const unsigned *counter, const unsigned *key) {
    ppo_rng rng = {0};
    for (int i = 0; i < 2; i++) rng.key[i] = key[i];
    for (int i = 0; i < 4; i++) rng.counter[i] = counter[i];
    rng.used = 4; /* nothing left of the block: the next number comes from the counter */
    return rng;
}

static void philox_gives_the_known_answers(void **state) {
    (void)state;
    for (int i = 0; i < g_philox_n; i++) {
        ppo_rng rng = at_counter(g_philox_counter + 4 * i, g_philox_key + 2 * i);
        for (int j = 0; j < 4; j++) assert_int_equal(ppo_rng_u32(&rng), g_philox_out[4 * i + j]);
    }
}

static void position_counts_in_64_bits_and_leaves_index_and_purpose_alone(void **state) {
    (void)state;
    static const unsigned key[2] = {11, 22};
    static const unsigned pairs[][2][4] = {{{0, 0, 5, 6}, {1, 0, 5, 6}},
                                           {{UINT_MAX, 0, 5, 6}, {0, 1, 5, 6}},
                                           {{UINT_MAX, UINT_MAX, 5, 6}, {0, 0, 5, 6}}};
    for (int i = 0; i < COUNT(pairs); i++) {
        ppo_rng runs_on = at_counter(pairs[i][0], key), next = at_counter(pairs[i][1], key);
        for (int j = 0; j < 4; j++) ppo_rng_u32(&runs_on);
        for (int j = 0; j < 4; j++) assert_int_equal(ppo_rng_u32(&runs_on), ppo_rng_u32(&next));
    }
}

static void numbers_left_in_the_block_come_first(void **state) {
    (void)state;
    ppo_rng rng = test_rng(1);
    ppo_rng_u32(&rng);
    ppo_rng changed = rng;
    changed.block[1] = 12345;
    assert_int_equal(ppo_rng_u32(&changed), 12345);
    ppo_rng_u32(&rng);
    for (int i = 0; i < 10; i++) assert_int_equal(ppo_rng_u32(&changed), ppo_rng_u32(&rng));
}

static void a_copied_stream_goes_on_alike(void **state) {
    (void)state;
    assert_int_equal(sizeof(ppo_rng),
                     (2 + 4 + 4 + 1) * sizeof(uint32_t)); /* no gaps: it may be saved as it is */
    ppo_rng rng = test_rng(2);
    for (int i = 0; i < 7; i++) ppo_rng_normal(&rng);
    ppo_rng copy = rng;
    for (int i = 0; i < 100; i++) {
        float a = ppo_rng_normal(&rng), b = ppo_rng_normal(&copy);
        assert_memory_equal(&a, &b, sizeof a);
    }
    assert_memory_equal(&rng, &copy, sizeof rng);
}

static void streams_differ_by_seed_purpose_and_index(void **state) {
    (void)state;
    static const uint64_t seeds[] = {0, 1, UINT64_C(1) << 32, UINT64_MAX};
    static const uint32_t purposes[] = {PPO_STREAM_ENV, PPO_STREAM_ACTION, PPO_STREAM_USER},
                          indices[] = {0, 1, 77};
    uint64_t seen[4 * 3 * 3];
    int n = 0;
    for (int s = 0; s < 4; s++)
        for (int p = 0; p < 3; p++)
            for (int i = 0; i < 3; i++) {
                ppo_rng rng = ppo_rng_stream(seeds[s], purposes[p], indices[i]), same = rng;
                uint64_t high = ppo_rng_u32(&rng), both = high << 32 | ppo_rng_u32(&rng);
                for (int j = 0; j < n; j++) assert_true(seen[j] != both);
                seen[n++] = both;
                assert_int_equal(same.counter[2], indices[i]);
                assert_int_equal(same.counter[3], purposes[p]);
                same = ppo_rng_stream(seeds[s], purposes[p], indices[i]);
                assert_int_equal(ppo_rng_u32(&same), both >> 32);
            }
}

/* A stream whose next numbers are all `bits`. */
static ppo_rng stuck_at(uint32_t bits) {
    ppo_rng rng = test_rng(3);
    rng.used = 0;
    for (int i = 0; i < 4; i++) rng.block[i] = bits;
    return rng;
}

static void uniform_is_a_multiple_of_2_to_the_minus_24_in_0_to_below_1(void **state) {
    (void)state;
    ppo_rng rng = test_rng(4), zero = stuck_at(0), ones = stuck_at(UINT32_MAX);
    for (int i = 0; i < 100000; i++) {
        float u = ppo_rng_uniform(&rng), scaled = u * 16777216.0f;
        assert_true(u >= 0 && u < 1);
        assert_true(scaled == floorf(scaled));
    }
    assert_true(ppo_rng_uniform(&zero) == 0.0f);
    assert_true(ppo_rng_uniform(&ones) == 16777215.0f / 16777216.0f);
}

static void range_never_reaches_its_upper_end(void **state) {
    (void)state;
    static const float ends[][2] = {{1, 2}, {-1, 1}, {-3, -2}, {1000, 1001}, {0, 1e-3f}, {-0.05f, 0.05f}};
    for (int i = 0; i < COUNT(ends); i++) {
        float low = ends[i][0], high = ends[i][1];
        ppo_rng zero = stuck_at(0), ones = stuck_at(UINT32_MAX);
        assert_true(ppo_rng_range(&zero, low, high) == low);
        float top = ppo_rng_range(&ones, low, high); /* low + 0.99999994 (high - low) may round to high */
        assert_true(top < high && top >= low);
    }
}

/* Pearson's statistic of counts that should be equal. */
static double chi_square(const int *count, int n) {
    double total = 0, sum = 0;
    for (int i = 0; i < n; i++) total += count[i];
    for (int i = 0; i < n; i++) sum += (count[i] - total / n) * (count[i] - total / n) / (total / n);
    return sum;
}

static void uniform_is_uniform(void **state) {
    (void)state;
    ppo_rng rng = test_rng(5);
    int single[64] = {0}, pair[64] = {0};
    for (int i = 0, last = 0; i < 400000; i++) {
        int bin = (int)(ppo_rng_uniform(&rng) * 64);
        single[bin]++;
        if (i % 2) pair[8 * (last / 8) + bin / 8]++;
        last = bin;
    }
    assert_true(chi_square(single, 64) < 134); /* 63 degrees of freedom, p = 1e-6 */
    assert_true(chi_square(pair, 64) < 134);   /* neighbours are independent */
}

static void below_is_unbiased(void **state) {
    (void)state;
    ppo_rng rng = test_rng(6);
    int three[3] = {0}, thirds[3] = {0};
    const int big =
        0x60000000; /* 3/8 of 2^32: rejecting nothing would favour a third of the values by half */
    int lower = 0;
    for (int i = 0; i < 300000; i++) {
        int x = ppo_rng_below(&rng, 3), y = ppo_rng_below(&rng, big);
        assert_true(x >= 0 && x < 3 && y >= 0 && y < big);
        three[x]++, thirds[y % 3]++, lower += y < big / 2;
    }
    assert_true(chi_square(three, 3) < 27.6); /* 2 degrees of freedom, p = 1e-6 */
    assert_true(chi_square(thirds, 3) < 27.6);
    assert_true(fabs(lower - 150000.0) < 5 * 0.5 * sqrt(300000));
    static const int trivial[] = {1, 0, -5, INT_MIN};
    for (int i = 0; i < COUNT(trivial); i++) assert_int_equal(ppo_rng_below(&rng, trivial[i]), 0);
}

static void normal_has_the_moments_and_tails_of_the_normal(void **state) {
    (void)state;
    enum { N = 400000 };
    static const double limit[] = {0.5, 1, 2, 3, 4},
                        share[] = {0.617075, 0.317311, 0.0455003, 0.0026998, 6.3342e-5};
    ppo_rng rng = test_rng(7);
    double sum[5] = {0}, pairs = 0, last = 0;
    int beyond[5] = {0};
    for (int i = 0; i < N; i++) {
        double z = ppo_rng_normal(&rng), power = 1;
        for (int k = 0; k < 5; k++, power *= z) sum[k] += power;
        for (int k = 0; k < 5; k++) beyond[k] += fabs(z) > limit[k];
        pairs += z * last;
        last = z;
    }
    /* variances of z, z^2, z^3, z^4 and of the product of two: 1, 2, 15, 96, 1 */
    const double five = 5 / sqrt(N);
    assert_true(fabs(sum[1] / N) < five);
    assert_true(fabs(sum[2] / N - 1) < five * sqrt(2));
    assert_true(fabs(sum[3] / N) < five * sqrt(15));
    assert_true(fabs(sum[4] / N - 3) < five * sqrt(96));
    assert_true(fabs(pairs / N) < five);
    for (int k = 0; k < 5; k++) assert_true(fabs(beyond[k] - N * share[k]) < 5 * sqrt(N * share[k]));
}

static void normal_is_finite_for_the_extreme_uniforms(void **state) {
    (void)state;
    static const uint32_t bits[] = {0, 1, 255, 256, 0x7fffffff, 0x80000000, UINT32_MAX};
    for (int i = 0; i < COUNT(bits); i++) {
        ppo_rng rng = stuck_at(bits[i]);
        for (int j = 0; j < 4; j++) assert_true(isfinite(ppo_rng_normal(&rng)));
    }
}

static void shuffle_is_a_permutation(void **state) {
    (void)state;
    static const int sizes[] = {0, 1, 2, 3, 64, 1000};
    int x[1000], seen[1000];
    ppo_rng rng = test_rng(8);
    for (int s = 0; s < COUNT(sizes); s++) {
        memset(seen, 0, sizeof seen);
        int moved = 0;
        for (int i = 0; i < sizes[s]; i++) x[i] = i;
        ppo_rng_shuffle(&rng, x, sizes[s]);
        for (int i = 0; i < sizes[s]; i++) {
            assert_in_range(x[i], 0, sizes[s] - 1);
            assert_int_equal(seen[x[i]]++, 0);
            moved += x[i] != i;
        }
        if (sizes[s] >= 64) assert_true(moved > sizes[s] * 3 / 4);
    }
}

static void every_permutation_is_equally_likely(void **state) {
    (void)state;
    ppo_rng rng = test_rng(9);
    int count[27] = {0}, six[6], n = 0;
    for (int i = 0; i < 60000; i++) {
        int x[3] = {0, 1, 2};
        ppo_rng_shuffle(&rng, x, 3);
        count[9 * x[0] + 3 * x[1] + x[2]]++;
    }
    for (int i = 0; i < 27; i++)
        if (count[i] && n < 6) six[n++] = count[i];
    assert_int_equal(n, 6);
    assert_true(chi_square(six, 6) < 35.9); /* 5 degrees of freedom, p = 1e-6 */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_known_answers),
        cmocka_unit_test(position_counts_in_64_bits_and_leaves_index_and_purpose_alone),
        cmocka_unit_test(numbers_left_in_the_block_come_first),
        cmocka_unit_test(a_copied_stream_goes_on_alike),
        cmocka_unit_test(streams_differ_by_seed_purpose_and_index),
        cmocka_unit_test(uniform_is_a_multiple_of_2_to_the_minus_24_in_0_to_below_1),
        cmocka_unit_test(range_never_reaches_its_upper_end),
        cmocka_unit_test(uniform_is_uniform),
        cmocka_unit_test(below_is_unbiased),
        cmocka_unit_test(normal_has_the_moments_and_tails_of_the_normal),
        cmocka_unit_test(normal_is_finite_for_the_extreme_uniforms),
        cmocka_unit_test(shuffle_is_a_permutation),
        cmocka_unit_test(every_permutation_is_equally_likely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
