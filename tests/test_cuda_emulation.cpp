/* tests/cuda_emulation.h: correct kernels give CUDA's results, in any order of threads; incorrect kernels,
   incorrect copies and leaks are found; every call can fail. */
#include "cuda_kernels_for_emulation.h"

#include <random>

#include <setjmp.h>
#include <sys/wait.h>
#include <unistd.h>
extern "C" {
#include <cmocka.h>
}

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* --------------------------------------------------------------------------------------------------------
   Helpers
   -------------------------------------------------------------------------------------------------------- */

static char complaint[512];

static void keep_the_sentence(const char *sentence) { snprintf(complaint, sizeof complaint, "%s", sentence); }
static void fail_the_test(const char *sentence) { fail_msg("%s", sentence); }

static int start_anew(void **state) {
    (void)state;
    emulation = emulation_settings();
    emulation.complain = fail_the_test;
    emulated::last_error = cudaSuccess;
    return 0;
}

static int nothing_is_left(void **state) {
    (void)state;
    if (emulation.live) print_error("%ld things are left on the device\n", emulation.live);
    return emulation.live != 0;
}

/* There was a complaint, and it has each of the words, given as "kernel|3". */
static void check_complaint(const char *words, int line) {
    char copy[256];
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok(copy, "|"); word; word = strtok(NULL, "|")) {
        if (strstr(complaint, word)) continue;
        print_error("\"%s\" does not name \"%s\"\n", complaint, word);
        _fail(__FILE__, line);
    }
}
#define assert_complains(call, words)                            \
    do {                                                         \
        snprintf(complaint, sizeof complaint, "(no complaint)"); \
        emulation.complain = keep_the_sentence;                  \
        (void)(call);                                            \
        emulation.complain = fail_the_test;                      \
        check_complaint(words, __LINE__);                        \
    } while (0)
#define assert_ok(call) assert_int_equal(call, 0)

/* An array on the device, a copy of `host` unless that is NULL. */
template <class T> static T *on_device(int n, const T *host = NULL) {
    T *device = NULL;
    assert_ok(cudaMalloc(&device, (size_t)n * sizeof(T)));
    if (host) assert_ok(cudaMemcpy(device, host, (size_t)n * sizeof(T), cudaMemcpyHostToDevice));
    return device;
}

template <class T> static std::vector<T> on_host(const T *device, int n) {
    std::vector<T> host((size_t)n);
    assert_ok(cudaMemcpy(host.data(), device, (size_t)n * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
}

template <class T> static std::vector<T> take_back(T *device, int n) {
    std::vector<T> host = on_host(device, n);
    assert_ok(cudaFree(device));
    return host;
}

/* The orders of threads that tests try: as numbered, and some others. */
static const uint32_t seeds[] = {0, 1, 2, 20170720};

/* From -1 to 1, in multiples of 1 / 1000. */
static std::vector<float> random_floats(int n, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<float> x((size_t)n);
    for (float &v : x) v = (float)(random() % 2001) / 1000 - 1;
    return x;
}

/* --------------------------------------------------------------------------------------------------------
   Threads
   -------------------------------------------------------------------------------------------------------- */

static void every_thread_runs_once_and_knows_its_place(void **state) {
    (void)state;
    enum { N = 3 * 2 * 4 * 5 * 3 * 7 };
    for (uint32_t seed : seeds) {
        emulation.seed = seed;
        int *out = on_device<int>(N);
        assert_ok(cudaMemset(out, 0, N * sizeof *out));
        PPO__LAUNCH(write_indices, dim3(3, 2, 4), dim3(5, 3, 7), 0, 0, out);
        assert_ok(cudaGetLastError());
        std::vector<int> got = take_back(out, N);
        for (int i = 0; i < N; i++) assert_int_equal(got[(size_t)i], i + 1);
    }
}

/* Two rounds of 3 blocks of 40 threads. */
enum { ORDERED = 3 * 40 };
static std::vector<unsigned> order_of_threads(uint32_t seed) {
    unsigned *counter = on_device<unsigned>(1), *order = on_device<unsigned>(2 * ORDERED);
    emulation.seed = seed;
    assert_ok(cudaMemset(counter, 0, sizeof *counter));
    PPO__LAUNCH(write_order, 3, 40, 0, 0, counter, order);
    assert_ok(cudaFree(counter));
    return take_back(order, 2 * ORDERED);
}

static void threads_and_blocks_come_in_the_order_of_the_seed(void **state) {
    (void)state;
    std::vector<unsigned> numbered = order_of_threads(0), a = order_of_threads(1), b = order_of_threads(2);
    for (unsigned i = 0; i < 2 * ORDERED; i++) assert_int_equal(numbered[i], i / 80 * 40 + i % 40);
    assert_true(a != numbered && b != numbered && a != b);
    assert_true(a == order_of_threads(1));
    unsigned first = a[0] / 40, second = a[80] / 40, third = a[160] / 40;
    assert_int_equal(first + second + third, 3);
    assert_true(first != 0 || second != 1);
    assert_false(std::is_sorted(a.begin(), a.begin() + 40));
    for (unsigned i = 0; i < 2 * ORDERED; i++) assert_int_equal(a[i] / 40, a[i / 80 * 80] / 40);
}

static void sums_over_blocks_of_up_to_1024_threads_are_right(void **state) {
    (void)state;
    for (uint32_t seed : seeds) {
        for (int threads : {32, 64, 256, 1024}) {
            std::vector<float> x = random_floats(3 * threads, seed), want(3);
            for (int i = 0; i < 3 * threads; i++) want[(size_t)(i / threads)] += x[(size_t)i];
            float *device = on_device(3 * threads, x.data()), *out = on_device<float>(6);
            emulation.seed = seed;
            PPO__LAUNCH(sum_by_shuffles, 3, threads, 0, 0, device, out);
            PPO__LAUNCH(sum_by_shared, 3, threads, (size_t)threads * sizeof(float), 0, device, out + 3);
            assert_ok(cudaFree(device));
            std::vector<float> got = take_back(out, 6);
            for (size_t i = 0; i < 6; i++) assert_true(fabsf(got[i] - want[i % 3]) < 1e-4f);
        }
    }
}

static void a_scan_is_right(void **state) {
    (void)state;
    for (uint32_t seed : seeds) {
        std::vector<int> x(256);
        for (int i = 0; i < 256; i++) x[(size_t)i] = i * i % 17 - 5;
        int *device = on_device(256, x.data());
        emulation.seed = seed;
        PPO__LAUNCH(scan, 1, 256, 0, 0, device);
        std::vector<int> got = take_back(device, 256);
        for (size_t i = 0, sum = 0; i < 256; i++) assert_int_equal(got[i], (int)(sum += (size_t)x[i]));
    }
}

/* The source lane according to CUDA's documentation, with the kinds in the order of shuffle_all(). */
static int lane_taken(int kind, int lane, int by, int width) {
    int first = lane / width * width, last = first + width - 1;
    if (kind == 0) return first + by % width;
    if (kind == 1) return (lane ^ by) <= last ? lane ^ by : lane;
    if (kind == 2) return lane + by <= last ? lane + by : lane;
    return lane - by >= first ? lane - by : lane;
}

static void shuffles_take_from_the_right_lanes(void **state) {
    (void)state;
    int *out = on_device<int>(4 * 64);
    for (int width = 2; width <= 32; width *= 2) {
        for (int by = 0; by < 32; by++) {
            emulation.seed = (uint32_t)by;
            PPO__LAUNCH(shuffle_all, 1, 64, 0, 0, by, width, out);
            std::vector<int> got = on_host(out, 4 * 64);
            for (int i = 0; i < 4 * 64; i++)
                assert_int_equal(got[(size_t)i],
                                 100 + i % 64 / 32 * 32 + lane_taken(i / 64, i % 32, by, width));
        }
    }
    assert_ok(cudaFree(out));
}

static void halves_of_a_warp_may_go_different_ways(void **state) {
    (void)state;
    for (uint32_t seed : seeds) {
        double *out = on_device<double>(32);
        emulation.seed = seed;
        PPO__LAUNCH(shuffle_in_halves, 1, 32, 0, 0, out);
        std::vector<double> got = take_back(out, 32);
        for (size_t i = 0; i < 32; i++) assert_true(got[i] == (i < 16 ? 3 : -20));
    }
}

static void votes_count_every_lane(void **state) {
    (void)state;
    unsigned *out = on_device<unsigned>(64);
    for (unsigned yes : {0u, 1u, 0x80000000u, 0x12345678u, 0xffffffffu}) {
        PPO__LAUNCH(vote, 1, 32, 0, 0, yes, out);
        std::vector<unsigned> got = on_host(out, 64);
        for (size_t i = 0; i < 32; i++) {
            assert_int_equal(got[i], yes);
            assert_int_equal(got[32 + i], (yes != 0) + 2 * (yes == 0xffffffff));
        }
    }
    assert_ok(cudaFree(out));
}

static void atomics_add_up(void **state) {
    (void)state;
    enum { N = 4 * 96 };
    std::vector<int> x(N);
    int sum = 0, positive = 0;
    for (int i = 0; i < N; i++) {
        x[(size_t)i] = i * 7919 % 1000 - 500;
        sum += x[(size_t)i], positive += x[(size_t)i] > 0;
    }
    for (uint32_t seed : seeds) {
        const totals none = {0, INT_MIN, 0, 0, 0, 0};
        int *numbers = on_device(N, x.data());
        totals *t = on_device(1, &none);
        emulation.seed = seed;
        PPO__LAUNCH(add_up, 4, 96, 0, 0, numbers, t);
        assert_ok(cudaFree(numbers));
        totals got = take_back(t, 1)[0];
        assert_int_equal(got.whole, sum);
        assert_int_equal(got.most, *std::max_element(x.begin(), x.end()));
        assert_int_equal(got.positive, positive);
        assert_int_equal(got.by_cas, 3 * N);
        assert_true(got.real == (float)sum);
        assert_true(got.large == (unsigned long long)N << 40);
    }
}

static void each_block_finds_rubbish_in_shared_memory(void **state) {
    (void)state;
    enum { BLOCKS = 3, BYTES = 40 };
    unsigned *of_static = on_device<unsigned>(64 * BLOCKS), *of_dynamic = on_device<unsigned>(10 * BLOCKS);
    PPO__LAUNCH(look_at_shared, BLOCKS, 1, BYTES, 0, of_static, of_dynamic, 10);
    std::vector<unsigned> in_static = take_back(of_static, 64 * BLOCKS);
    for (unsigned x : take_back(of_dynamic, 10 * BLOCKS)) assert_int_equal(x, 0xffffffff);
#ifndef EMULATION_ASAN
    for (unsigned x : in_static) assert_int_equal(x, 0xffffffff);
#endif
}

static void templates_and_vectors_work(void **state) {
    (void)state;
    const float4 x[] = {make_float4(1, 2, 3, 4), make_float4(-1, 0.5f, 1000, 0)};
    float4 *device = on_device(2, x);
    __nv_bfloat162 *out = on_device<__nv_bfloat162>(4);
    launch_a_template(device, 2, out);
    assert_ok(cudaFree(device));
    std::vector<__nv_bfloat162> got = take_back(out, 4);
    for (size_t i = 0; i < 4; i++) {
        float2 pair = __bfloat1622float2(got[i]);
        assert_true(pair.x == 2 * (i % 2 ? x[i / 2].z : x[i / 2].x));
        assert_true(pair.y == 2 * (i % 2 ? x[i / 2].w : x[i / 2].y));
    }
}

/* --------------------------------------------------------------------------------------------------------
   Threads that wait forever
   -------------------------------------------------------------------------------------------------------- */

/* The launch is abandoned, and the next one works. */
static void check_that_all_is_well_again(void) {
    assert_int_equal(cudaGetLastError(), cudaErrorLaunchFailure);
    int *out = on_device<int>(64);
    assert_ok(cudaMemset(out, 0, 64 * sizeof *out));
    PPO__LAUNCH(write_indices, 1, 64, 0, 0, out);
    assert_ok(cudaGetLastError());
    std::vector<int> got = take_back(out, 64);
    for (int i = 0; i < 64; i++) assert_int_equal(got[(size_t)i], i + 1);
}

static void a_barrier_that_not_all_reach_is_found(void **state) {
    (void)state;
    for (uint32_t seed : seeds) {
        emulation.seed = seed;
        assert_complains(
            PPO__LAUNCH(barrier_after_return, dim3(1, 1), 96, 0, 0, 70u),
            "kernel barrier_after_return|block (0, 0, 0)|thread (0, 0, 0) waits at __syncthreads|"
            "for thread 70 of its block|has returned");
        check_that_all_is_well_again();
        assert_complains(PPO__LAUNCH(barrier_elsewhere, 1, dim3(8, 8), 0, 0),
                         "kernel barrier_elsewhere|thread (0, 0, 0) waits at __syncthreads|"
                         "for thread 63 of its block, which waits at __syncthreads");
        check_that_all_is_well_again();
        assert_complains(PPO__LAUNCH(barrier_in_one_branch, 1, 64, 0, 0),
                         "thread (0, 0, 0) waits at __syncthreads|which waits at __syncwarp|0xffffffff");
        check_that_all_is_well_again();
        assert_complains(PPO__LAUNCH(barrier_too_often, 1, 64, 0, 0),
                         "thread (32, 0, 0) waits at __syncthreads|for thread 31 of its block|has returned");
        check_that_all_is_well_again();
    }
}

static void a_shuffle_that_not_all_its_lanes_reach_is_found(void **state) {
    (void)state;
    int *out = on_device<int>(64);
    for (uint32_t seed : seeds) {
        emulation.seed = seed;
        assert_complains(PPO__LAUNCH(shuffle_after_return, 1, 64, 0, 0, out),
                         "kernel shuffle_after_return|thread (0, 0, 0) waits at __shfl_xor_sync|"
                         "mask 0xffffffff|for thread 9 of its block|has returned");
        check_that_all_is_well_again();
        assert_complains(PPO__LAUNCH(vote_for_two_things, 1, 32, 0, 0, out),
                         "thread (0, 0, 0) waits at __any_sync|for thread 31|waits at __all_sync");
        check_that_all_is_well_again();
        assert_complains(PPO__LAUNCH(shuffle_with_two_masks, 1, 32, 0, 0, out),
                         "thread (0, 0, 0) waits at __shfl_sync|0xffffffff|for thread 31|0xfffffffe");
        check_that_all_is_well_again();
    }
    assert_complains(PPO__LAUNCH(vote_in_half_a_warp, 1, 48, 0, 0, (unsigned *)out),
                     "thread (32, 0, 0) waits at __ballot_sync|thread 63 of its block, which does not exist");
    assert_ok(cudaFree(out));
}

static void a_lane_outside_the_mask_is_found(void **state) {
    (void)state;
    int *out = on_device<int>(64);
    for (uint32_t seed : seeds) {
        emulation.seed = seed;
        assert_complains(PPO__LAUNCH(shuffle_outside_mask, 1, 32, 0, 0, out),
                         "lane 31|mask 0x7fffffff does not name|__shfl_xor_sync");
        check_that_all_is_well_again();
        assert_complains(PPO__LAUNCH(shuffle_from_inactive, 1, 32, 0, 0, out),
                         "reads from lane 1|mask 0x0000ffff does not name|__shfl_down_sync");
    }
    assert_ok(cudaFree(out));
}

static void launches_beyond_the_limits_fail(void **state) {
    (void)state;
    int *out = on_device<int>(1024);
    const dim3 grids[] = {dim3(0), dim3(1, 65536), dim3(1, 1, 65536), 1, 1, 1, 1};
    const dim3 blocks[] = {1, 1, 1, 1025, 0, dim3(1, 1, 65), dim3(33, 32)};
    const size_t kilobytes = 100;
    for (int i = 0; i < COUNT(grids); i++) {
        PPO__LAUNCH(write_first, grids[i], blocks[i], 0, 0, out, 5);
        assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidConfiguration);
        assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
        assert_ok(cudaGetLastError());
    }
    PPO__LAUNCH(overrun_dynamic_shared, 1, 1, kilobytes << 10, 0, 0);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    int most = (int)emulation.device.sharedMemPerBlockOptin;
    assert_int_equal(
        cudaFuncSetAttribute(overrun_dynamic_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, most + 1),
        cudaErrorInvalidValue);
    (void)cudaGetLastError();
    assert_ok(
        cudaFuncSetAttribute(overrun_dynamic_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
    PPO__LAUNCH(overrun_dynamic_shared, 1, 1, kilobytes << 10, 0, 0);
    assert_ok(cudaGetLastError());
    for (int x : on_host(out, 1024)) assert_int_equal(x, -1);
    assert_ok(cudaFree(out));
}

/* --------------------------------------------------------------------------------------------------------
   Memory
   -------------------------------------------------------------------------------------------------------- */

static void device_memory_starts_as_nan(void **state) {
    (void)state;
    float *pinned, *device = on_device<float>(77);
    assert_ok(cudaMallocHost(&pinned, 77 * sizeof *pinned));
    for (int i = 0; i < 77; i++) assert_true(isnan(pinned[i]));
    assert_ok(cudaFreeHost(pinned));
    for (float x : take_back(device, 77)) assert_true(isnan(x));
}

static void device_memory_is_told_from_the_hosts(void **state) {
    (void)state;
    char *device = on_device<char>(10), *other = on_device<char>(10), *pinned, local;
    assert_ok(cudaMallocHost(&pinned, 10));
    assert_true(emulation_is_device(device) && emulation_is_device(device + 9) && emulation_is_device(other));
    assert_false(emulation_is_device(device + 10) || emulation_is_device(pinned));
    assert_false(emulation_is_device(&local) || emulation_is_device(NULL));
    assert_ok(cudaFree(device));
    assert_false(emulation_is_device(device));
    assert_ok(cudaFree(other));
    assert_ok(cudaFreeHost(pinned));
}

static void copies_that_do_not_fit_are_found(void **state) {
    (void)state;
    char *d = on_device<char>(10), *e = on_device<char>(10), h[20] = {0};
    assert_complains(cudaMemcpy(h, d, 10, cudaMemcpyHostToDevice), "the destination|not device memory");
    assert_complains(cudaMemcpy(d, e, 10, cudaMemcpyHostToDevice), "the source|is device memory");
    assert_complains(cudaMemcpy(d, h, 10, cudaMemcpyDeviceToHost), "the destination|is device memory");
    assert_complains(cudaMemcpy(d, h, 10, cudaMemcpyDeviceToDevice), "the source|not device memory");
    assert_complains(cudaMemcpy(d, h, 10, cudaMemcpyHostToHost), "the destination|is device memory");
    assert_complains(cudaMemcpy(d, h, 11, cudaMemcpyHostToDevice), "room for 10 bytes, not for 11");
    assert_complains(cudaMemcpy(h, d + 4, 7, cudaMemcpyDefault), "room for 6 bytes, not for 7");
    assert_complains(cudaMemset(d + 1, 0, 10), "room for 9 bytes, not for 10");
    assert_complains(cudaMemset(h, 0, 1), "not device memory");
    assert_complains(cudaMemcpy2DAsync(d, 4, h, 3, 3, 3, cudaMemcpyHostToDevice),
                     "room for 10 bytes, not for 11");
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy2DAsync(d, 2, h, 3, 3, 3, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_ok(cudaFree(d));
    assert_complains(cudaMemcpy(d, h, 1, cudaMemcpyHostToDevice), "not device memory");
    assert_ok(cudaFree(e));
}

static void what_was_not_allocated_cannot_be_freed(void **state) {
    (void)state;
    char *device = on_device<char>(10), *pinned;
    assert_ok(cudaMallocHost(&pinned, 10));
    assert_complains(cudaFree(pinned), "cudaFree|not allocated");
    assert_complains(cudaFreeHost(device), "cudaFreeHost|not allocated");
    assert_complains(cudaFree(device + 1), "cudaFree|not allocated");
    assert_ok(cudaFree(device));
    assert_complains(cudaFree(device), "cudaFree|not allocated");
    assert_ok(cudaFreeHost(pinned));
    assert_ok(cudaFree(NULL));
}

static void the_device_runs_out_of_memory(void **state) {
    (void)state;
    char *a = NULL, *b = NULL, *pinned;
    size_t unused, all;
    emulation.device.totalGlobalMem = 1000;
    assert_ok(cudaMalloc(&a, 600));
    assert_int_equal(cudaMalloc(&b, 401), cudaErrorMemoryAllocation);
    assert_null(b);
    assert_ok(cudaMemGetInfo(&unused, &all));
    assert_int_equal(unused, 400);
    assert_int_equal(all, 1000);
    assert_ok(cudaMallocHost(&pinned, 2000));
    assert_ok(cudaMalloc(&b, 400));
    assert_int_equal(emulation.allocations, 3);
    assert_int_equal(emulation.live, 3);
    assert_ok(cudaFree(a));
    assert_ok(cudaFree(b));
    assert_ok(cudaFreeHost(pinned));
    assert_int_equal(emulation.device_bytes, 0);
}

#ifdef EMULATION_ASAN
/* Runs a job in a process of its own: its output on standard error, and its exit status. */
static int in_child(void (*job)(void), char *text, size_t size) {
    int ends[2], status;
    size_t n = 0;
    fflush(NULL);
    assert_ok(pipe(ends));
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]), close(ends[1]);
        job();
        exit(0);
    }
    close(ends[1]);
    for (ssize_t got; n + 1 < size && (got = read(ends[0], text + n, size - n - 1)) > 0;) n += (size_t)got;
    text[n] = 0;
    close(ends[0]);
    waitpid(child, &status, 0);
    return status;
}

static void overrun_a_block(void) {
    int *x = on_device<int>(100);
    PPO__LAUNCH(write_first, 1, 32, 0, 0, x, 101);
}

static void use_a_freed_block(void) {
    int *x = on_device<int>(100);
    (void)cudaFree(x);
    PPO__LAUNCH(write_first, 1, 32, 0, 0, x, 100);
}

static void overrun_shared(void) { PPO__LAUNCH(overrun_dynamic_shared, 1, 1, 12, 0, 3); }

static void overrun_static(void) {
    int *x = on_device<int>(1);
    PPO__LAUNCH(overrun_static_shared, 1, 1, 0, 0, x, 5);
}

static void touch_from_the_host(void) {
    volatile int *x = on_device<int>(1);
    *x = 1;
}

static void use_a_destroyed_stream(void) {
    static cudaStream_t stream; /* so that the compiler does not find it, too */
    (void)cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    (void)cudaStreamDestroy(stream);
    (void)cudaStreamSynchronize(stream);
}

static void leak(void) { /* several, because a register may still have the address of the last */
    for (int i = 0; i < 10; i++) on_device<int>(100);
}

static void address_sanitizer_finds_what_a_gpu_would_not(void **state) {
    (void)state;
    static char text[1 << 16];
    struct {
        void (*job)(void);
        const char *words;
    } cases[] = {{overrun_a_block, "heap-buffer-overflow"}, {use_a_freed_block, "heap-use-after-free"},
                 {overrun_shared, "heap-buffer-overflow"},  {overrun_static, "global-buffer-overflow"},
                 {touch_from_the_host, "use-after-poison"}, {use_a_destroyed_stream, "heap-use-after-free"}};
    for (auto &c : cases) {
        assert_int_not_equal(in_child(c.job, text, sizeof text), 0);
        if (!strstr(text, c.words)) fail_msg("no %s in: %s", c.words, text);
    }
}

static void leaks_are_found(void **state) {
    (void)state;
    static char text[1 << 16];
    const char *options = getenv("ASAN_OPTIONS");
    if (options && strstr(options, "detect_leaks=0")) skip();
    assert_int_not_equal(in_child(leak, text, sizeof text), 0);
    assert_non_null(strstr(text, "LeakSanitizer"));
}
#endif

/* --------------------------------------------------------------------------------------------------------
   The runtime
   -------------------------------------------------------------------------------------------------------- */

static void every_call_works(void **state) {
    (void)state;
    assert_ok(make_every_call());
    assert_int_equal(emulation.live, 0);
}

static void every_call_can_fail(void **state) {
    (void)state;
    const cudaError_t errors[] = {cudaErrorMemoryAllocation, cudaErrorNoDevice, cudaErrorInsufficientDriver,
                                  cudaErrorDevicesUnavailable, cudaErrorLaunchFailure};
    assert_ok(make_every_call());
    long calls = emulation.calls;
    for (cudaError_t error : errors) {
        for (long k = 0; k < 2 * calls; k++) {
            emulation.fail_at = k % calls;
            emulation.for_good = k >= calls;
            emulation.error = error;
            int got = make_every_call();
            if (got != (int)error && got != (int)emulated::blas_status(error))
                fail_msg("%d instead of %d after call %ld failed", got, (int)error, k);
            emulation.fail_at = -1;
            assert_int_equal(emulation.live, 0);
            (void)cudaGetLastError();
        }
    }
    emulation.fail_at = calls;
    assert_ok(make_every_call());
}

static void errors_stay_until_they_are_got(void **state) {
    (void)state;
    int *nothing = NULL;
    emulation.fail_at = 1;
    emulation.error = cudaErrorDevicesUnavailable;
    assert_ok(cudaDeviceSynchronize());
    PPO__LAUNCH(write_first, 1, 1, 0, 0, nothing, 1);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorDevicesUnavailable);
    assert_ok(cudaDeviceSynchronize());
    assert_int_equal(cudaGetLastError(), cudaErrorDevicesUnavailable);
    assert_ok(cudaGetLastError());
}

static void one_call_fails_or_all_that_follow(void **state) {
    (void)state;
    for (int for_good = 0; for_good < 2; for_good++) {
        emulation.fail_at = 2;
        emulation.for_good = for_good;
        for (int k = 0; k < 5; k++)
            assert_int_equal(cudaDeviceSynchronize(),
                             k == 2 || (k > 2 && for_good) ? cudaErrorMemoryAllocation : cudaSuccess);
    }
    assert_int_equal(emulation.calls, 10);
}

static void errors_have_names_and_sentences(void **state) {
    (void)state;
    assert_string_equal(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
    assert_string_equal(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    assert_string_equal(cudaGetErrorName((cudaError_t)700), "unrecognized error code");
    assert_string_equal(cudaGetErrorString((cudaError_t)700), "unrecognized error code");
    assert_string_equal(cublasGetStatusString(CUBLAS_STATUS_ALLOC_FAILED), "the resource allocation failed");
}

static void a_machine_may_have_no_device_or_an_old_one(void **state) {
    (void)state;
    int count = -1, number = -1;
    assert_int_equal(cudaSetDevice(1), cudaErrorInvalidDevice);
    assert_int_equal(cudaSetDevice(-1), cudaErrorInvalidDevice);
    emulation.devices = 0;
    assert_int_equal(cudaGetDeviceCount(&count), cudaErrorNoDevice);
    assert_int_equal(count, 0);
    assert_int_equal(cudaSetDevice(0), cudaErrorNoDevice);
    emulation.devices = 2;
    emulation.driver_version = 11000;
    emulation.device.major = 5;
    assert_ok(cudaSetDevice(1));
    assert_ok(cudaGetDevice(&number));
    assert_int_equal(number, 1);
    assert_ok(cudaSetDevice(0));
    assert_ok(cudaDriverGetVersion(&number));
    assert_int_equal(number, 11000);
    assert_ok(cudaDeviceGetAttribute(&number, cudaDevAttrComputeCapabilityMajor, 0));
    assert_int_equal(number, 5);
}

static void streams_and_the_default_one_do_not_wait_for_each_other(void **state) {
    (void)state;
    char bytes[4] = {0};
    char *x = on_device<char>(4);
    cudaStream_t stream = NULL;
    assert_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    assert_ok(cudaMemsetAsync(x, 1, 4, stream));
    assert_complains(cudaMemcpy(bytes, x, 4, cudaMemcpyDeviceToHost), "does not wait");
    assert_ok(cudaStreamSynchronize(stream));
    assert_ok(cudaMemcpy(bytes, x, 4, cudaMemcpyDeviceToHost));
    assert_ok(cudaMemsetAsync(x, 1, 4, stream));
    assert_ok(cudaDeviceSynchronize());
    assert_ok(cudaMemcpy(x, bytes, 4, cudaMemcpyHostToDevice)); /* may return before it is done */
    assert_complains(cudaMemsetAsync(x, 1, 4, stream), "does not wait");
    assert_ok(cudaDeviceSynchronize());
    assert_ok(cudaMemsetAsync(x, 1, 4, stream));
    assert_ok(cudaStreamDestroy(stream));
    assert_ok(cudaFree(x));
}

static void copies_take_until_they_are_waited_for(void **state) {
    (void)state;
    char *x = on_device<char>(4), *pinned = NULL, local[4] = {7, 7, 7, 7};
    cudaStream_t stream = NULL;
    assert_ok(cudaMallocHost(&pinned, 4));
    assert_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    memset(pinned, 7, 4);
    assert_ok(cudaMemcpyAsync(x, pinned, 4, cudaMemcpyHostToDevice, stream));
    pinned[3] = 8;
    assert_complains(cudaStreamSynchronize(stream), "memory has changed");
    assert_ok(cudaMemcpyAsync(x, local, 4, cudaMemcpyHostToDevice, stream));
    local[3] = 8;
    assert_complains(cudaStreamSynchronize(stream), "memory has changed");
    assert_ok(cudaMemcpyAsync(local, x, 4, cudaMemcpyDeviceToHost, stream)); /* not pinned: copied at once */
    assert_true(local[0] == 7 && local[3] == 7);
    assert_ok(cudaMemcpyAsync(pinned, x, 4, cudaMemcpyDeviceToHost, stream));
    assert_true(pinned[0] != 7);
    assert_ok(cudaStreamSynchronize(stream));
    assert_true(pinned[0] == 7 && pinned[3] == 7);
    assert_ok(cudaMemcpyAsync(pinned, x, 4, cudaMemcpyDeviceToHost, stream));
    assert_ok(cudaFree(x)); /* waits, too */
    assert_true(pinned[0] == 7);
    assert_ok(cudaStreamDestroy(stream));
    assert_ok(cudaFreeHost(pinned));
}

static void only_recorded_events_have_a_time(void **state) {
    (void)state;
    cudaEvent_t from = NULL, to = NULL;
    float ms = -1;
    assert_ok(cudaEventCreate(&from));
    assert_ok(cudaEventCreate(&to));
    assert_ok(cudaEventRecord(from));
    assert_int_equal(cudaEventElapsedTime(&ms, from, to), cudaErrorInvalidResourceHandle);
    usleep(2000);
    assert_ok(cudaEventRecord(to));
    assert_ok(cudaEventElapsedTime(&ms, from, to));
    assert_true(ms >= 2 && ms < 10000);
    assert_ok(cudaEventDestroy(from));
    assert_ok(cudaEventDestroy(to));
}

/* --------------------------------------------------------------------------------------------------------
   Arithmetic
   -------------------------------------------------------------------------------------------------------- */

static void bits_are_counted_and_turned(void **state) {
    (void)state;
    for (unsigned i = 0; i < 32; i++) {
        assert_int_equal(__clz((int)(1u << i)), 31 - i);
        assert_int_equal(__brev(1u << i), 1u << (31 - i));
        assert_int_equal(__popc((1u << i) - 1), i);
        assert_int_equal(__umulhi(1u << i, 0xffffffff), i ? (1u << i) - 1 : 0);
    }
    assert_int_equal(__clz(0), 32);
    assert_int_equal(__float_as_uint(1.0f), 0x3f800000);
    assert_true(__uint_as_float(0xbf800000) == -1);
    assert_int_equal(__float_as_int(-0.0f), INT_MIN);
    assert_true(__int_as_float(0x7f800000) == INFINITY);
}

/* (1 + 2^-12)^2 is 1 + 2^-11 + 2^-24: a fused subtraction would keep what rounding drops. */
static void a_product_is_rounded_before_a_difference(void **state) {
    (void)state;
    volatile float x = 1 + 0x1p-12f;
    assert_true(__fmul_rn(x, x) - 1 == 0x1p-11f);
}

static void fast_functions_are_close_to_the_exact_ones(void **state) {
    (void)state;
    const float x[] = {0.001f, 0.5f, 1, 3, 80};
    float *device = on_device(COUNT(x), x), *out = on_device<float>(4 * COUNT(x));
    PPO__LAUNCH(transcendental, 1, COUNT(x), 0, 0, device, out);
    assert_ok(cudaFree(device));
    std::vector<float> got = take_back(out, 4 * COUNT(x));
    for (size_t i = 0; i < COUNT(x); i++) {
        double v = x[i], want[] = {exp(v), log(v), 1 / sqrt(v), 1 / v};
        for (size_t k = 0; k < 4; k++) assert_true(fabs(got[4 * i + k] - want[k]) <= 1e-6 * fabs(want[k]));
    }
}

/* The size of a bf16. To a number that is rounded, infinity is the one after the largest. */
static double size_of(unsigned short bits) {
    return (bits & 0x7fff) == 0x7f80 ? ldexp(1, 128) : fabs(__bfloat162float(__ushort_as_bfloat16(bits)));
}

/* The bf16 nearest to x, of two the even one; x is no smaller than `cut`, and smaller than the one after. */
static unsigned short nearest(double x, unsigned short cut) {
    unsigned short next = (unsigned short)(cut + 1);
    double down = fabs(x) - size_of(cut), up = size_of(next) - fabs(x);
    return down < up || (down == up && cut % 2 == 0) ? cut : next;
}

static void bf16_is_rounded_to_the_nearest(void **state) {
    (void)state;
    for (unsigned high = 0; high < 65536; high++) {
        unsigned short bits = (unsigned short)high;
        for (unsigned low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu, high * 40503 & 0xffff}) {
            float x = __uint_as_float(high << 16 | low);
            unsigned short got = __bfloat16_as_ushort(__float2bfloat16(x));
            if (isnan(x)) assert_int_equal(got, 0x7fff);
            else if (isinf(x)) assert_int_equal(got, bits);
            else if (got != nearest(x, bits)) fail_msg("%a becomes %04x, not %04x", x, got, nearest(x, bits));
        }
        assert_int_equal(__float_as_uint(__bfloat162float(__ushort_as_bfloat16(bits))), high << 16);
    }
}

/* --------------------------------------------------------------------------------------------------------
   cuBLAS
   -------------------------------------------------------------------------------------------------------- */

/* Products of (5, 3) and (3, 4) matrices, three of each, with gaps between columns and between matrices. */
enum { M = 5, N = 4, K = 3, LD = 7, STRIDE = 41, BATCH = 3, ROOM = STRIDE * BATCH };

struct product {
    cudaDataType type, type_c;
    cublasOperation_t ta, tb;
    float alpha, beta;
};

static double plain_element(const product &p, const float *a, const float *b, float c, int i, int j) {
    double sum = 0;
    for (int l = 0; l < K; l++)
        sum += (double)(p.ta ? a[l + i * LD] : a[i + l * LD]) * (p.tb ? b[j + l * LD] : b[l + j * LD]);
    return p.alpha * sum + (p.beta != 0 ? (double)p.beta * c : 0);
}

static std::vector<__nv_bfloat16> to_bf16(const std::vector<float> &x) {
    std::vector<__nv_bfloat16> y;
    for (float v : x) y.push_back(__float2bfloat16(v));
    return y;
}

static void *on_device_as(cudaDataType type, std::vector<float> &x) {
    std::vector<__nv_bfloat16> h = to_bf16(x);
    if (type == CUDA_R_32F) return on_device((int)x.size(), x.data());
    for (size_t i = 0; i < x.size(); i++) x[i] = __bfloat162float(h[i]);
    return on_device((int)x.size(), h.data());
}

static std::vector<float> take_back_as(cudaDataType type, void *device, int n) {
    if (type == CUDA_R_32F) return take_back((float *)device, n);
    std::vector<float> x;
    for (__nv_bfloat16 v : take_back((__nv_bfloat16 *)device, n)) x.push_back(__bfloat162float(v));
    return x;
}

/* The first `batches` matrices of C are as computed here; the rest of its array is unchanged. */
static void check_product(const product &p, int batches) {
    std::vector<float> a = random_floats(ROOM, 1), b = random_floats(ROOM, 2), c = random_floats(ROOM, 3);
    if (p.beta == 0) c[0] = NAN; /* must not be read */
    void *da = on_device_as(p.type, a), *db = on_device_as(p.type, b), *dc = on_device_as(p.type_c, c);
    cublasHandle_t handle = NULL;
    assert_ok(cublasCreate(&handle));
    if (batches == 1 && p.type_c == CUDA_R_32F && p.type == CUDA_R_32F)
        assert_ok(cublasSgemm(handle, p.ta, p.tb, M, N, K, &p.alpha, (float *)da, LD, (float *)db, LD,
                              &p.beta, (float *)dc, LD));
    else
        assert_ok(cublasGemmStridedBatchedEx(handle, p.ta, p.tb, M, N, K, &p.alpha, da, p.type, LD, STRIDE,
                                             db, p.type, LD, 0, &p.beta, dc, p.type_c, LD, STRIDE, batches,
                                             CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    assert_ok(cublasDestroy(handle));
    assert_ok(cudaFree(da));
    assert_ok(cudaFree(db));
    std::vector<float> got = take_back_as(p.type_c, dc, ROOM);
    for (int at = 0; at < ROOM; at++) {
        int batch = at / STRIDE, i = at % STRIDE % LD, j = at % STRIDE / LD;
        float before = c[(size_t)at];
        bool is_element = i < M && j < N && batch < batches;
        double want =
            is_element ? plain_element(p, &a[(size_t)(batch * STRIDE)], b.data(), before, i, j) : before;
        double tolerance = is_element ? (p.type_c == CUDA_R_32F ? 1e-6 : 4e-3) * fmax(1, fabs(want)) : 0;
        if (!(fabs(got[(size_t)at] - want) <= tolerance))
            fail_msg("%d: %g, not %g", at, got[(size_t)at], want);
    }
}

static void products_are_those_of_plain_loops(void **state) {
    (void)state;
    const cudaDataType types[][2] = {
        {CUDA_R_32F, CUDA_R_32F}, {CUDA_R_16BF, CUDA_R_16BF}, {CUDA_R_16BF, CUDA_R_32F}};
    for (auto &type : types)
        for (cublasOperation_t ta : {CUBLAS_OP_N, CUBLAS_OP_T})
            for (cublasOperation_t tb : {CUBLAS_OP_N, CUBLAS_OP_T})
                for (int batches : {0, 1, (int)BATCH})
                    for (float beta : {0.0f, 1.0f, -0.5f})
                        check_product({type[0], type[1], ta, tb, 0.75f, batches ? beta : 1}, batches);
}

static void wrong_arguments_of_a_product_are_found(void **state) {
    (void)state;
    float *x = on_device<float>(40), one = 1, host[40];
    cublasHandle_t h = NULL;
    assert_ok(cublasCreate(&h));
    auto gemm = [&](cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, int lda, int ldb,
                    int ldc, const float *a) {
        return cublasSgemm(h, ta, tb, m, n, k, &one, a, lda, x, ldb, &one, x + 20, ldc);
    };
    const cublasOperation_t no = CUBLAS_OP_N, yes = CUBLAS_OP_T;
    assert_int_equal(gemm(no, no, 5, 4, 3, 4, 3, 5, x), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(gemm(yes, no, 5, 4, 3, 2, 3, 5, x), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(gemm(no, no, 5, 4, 3, 5, 2, 5, x), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(gemm(no, yes, 5, 4, 3, 5, 3, 5, x), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(gemm(no, no, 5, 4, 3, 5, 3, 4, x), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(gemm(no, no, -1, 4, 3, 5, 3, 5, x), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(gemm(no, no, 5, 4, 3, 5, 3, 5, x), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(gemm(no, no, 0, 0, 0, 1, 1, 1, NULL), CUBLAS_STATUS_SUCCESS);
    assert_complains(gemm(no, no, 5, 4, 3, 5, 3, 5, host), "A|is not device memory");
    assert_complains(gemm(no, no, 5, 4, 3, 5, 3, 6, x), "C|has room for 80 bytes, not for 92");
    for (int k = 0; k < 2; k++)
        assert_int_equal(cublasGemmEx(h, no, no, 2, 2, 2, &one, x, CUDA_R_32F, 2, x,
                                      k ? CUDA_R_32F : CUDA_R_16BF, 2, &one, x, k ? CUDA_R_16BF : CUDA_R_32F,
                                      2, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                         CUBLAS_STATUS_NOT_SUPPORTED);
    assert_ok(cublasDestroy(h));
    assert_ok(cudaFree(x));
}

/* -------------------------------------------------------------------------------------------------------- */

#define TEST(name) cmocka_unit_test_setup_teardown(name, start_anew, nothing_is_left)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(every_thread_runs_once_and_knows_its_place),
        TEST(threads_and_blocks_come_in_the_order_of_the_seed),
        TEST(sums_over_blocks_of_up_to_1024_threads_are_right),
        TEST(a_scan_is_right),
        TEST(shuffles_take_from_the_right_lanes),
        TEST(halves_of_a_warp_may_go_different_ways),
        TEST(votes_count_every_lane),
        TEST(atomics_add_up),
        TEST(each_block_finds_rubbish_in_shared_memory),
        TEST(templates_and_vectors_work),
        TEST(a_barrier_that_not_all_reach_is_found),
        TEST(a_shuffle_that_not_all_its_lanes_reach_is_found),
        TEST(a_lane_outside_the_mask_is_found),
        TEST(launches_beyond_the_limits_fail),
        TEST(device_memory_starts_as_nan),
        TEST(device_memory_is_told_from_the_hosts),
        TEST(copies_that_do_not_fit_are_found),
        TEST(what_was_not_allocated_cannot_be_freed),
        TEST(the_device_runs_out_of_memory),
#ifdef EMULATION_ASAN
        TEST(address_sanitizer_finds_what_a_gpu_would_not),
        TEST(leaks_are_found),
#endif
        TEST(every_call_works),
        TEST(every_call_can_fail),
        TEST(one_call_fails_or_all_that_follow),
        TEST(errors_stay_until_they_are_got),
        TEST(errors_have_names_and_sentences),
        TEST(a_machine_may_have_no_device_or_an_old_one),
        TEST(streams_and_the_default_one_do_not_wait_for_each_other),
        TEST(copies_take_until_they_are_waited_for),
        TEST(only_recorded_events_have_a_time),
        TEST(bits_are_counted_and_turned),
        TEST(a_product_is_rounded_before_a_difference),
        TEST(fast_functions_are_close_to_the_exact_ones),
        TEST(bf16_is_rounded_to_the_nearest),
        TEST(products_are_those_of_plain_loops),
        TEST(wrong_arguments_of_a_product_are_found),
    };
    return cmocka_run_group_tests_name("cuda_emulation", tests, NULL, NULL);
}
