/* Shared by the tests of ppo_cuda.cuh. They run in the emulation, which reports kernels that break its rules
   and can make any call fail; and, compiled by nvcc, on a GPU. Includes ppo.h and ppo_cuda.cuh with their
   implementations. */
#ifndef PPO_CUDA_TEST_H
#define PPO_CUDA_TEST_H

#ifndef __CUDACC__
#include "cuda_emulation.h"
#include "pages.h"
#define PPO__CUDA_PAGE    (4 * test_page_size) /* the emulation fills new memory */
#define PPO__CUDA_STAGING 1000              /* becomes full, and is too small for some copies */
#endif
#define PPO_NO_CONTROL /* nothing of these is on the device */
#define PPO_NO_REPORTS
#define PPO_IMPLEMENTATION
#include "../ppo.h"
#include "../examples/companions/ppo_group.h"
#include "../examples/companions/ppo_hub.h"
#include "../examples/companions/ppo_judge.h"
#include "../examples/companions/ppo_methods.h"
#include "../examples/companions/ppo_resume.h"
#include "../ppo_cuda.cuh"

#include <vector>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
extern "C" {
#include <cmocka.h>
}
#include "test.h"

#define assert_cuda(call) assert_int_equal(call, cudaSuccess)

/* -- each test has a device of its own, `cuda`, and must free everything there -- */

static ppo_cuda *cuda;

#ifndef __CUDACC__
static void fail_the_test(const char *sentence) { fail_msg("%s", sentence); }

static void emulate(void) {
    emulation = emulation_settings();
    emulation.complain = fail_the_test;
    emulated::last_error = cudaSuccess;
}
static int leaks(void) {
    if (emulation.live) print_error("%ld things are left on the device\n", emulation.live);
    return emulation.live != 0;
}
#else
static void emulate(void) {}
static int leaks(void) { return 0; }
#endif

static inline int open_device(void **state) {
    (void)state;
    emulate();
    if (ppo_cuda_create(0, &cuda) == PPO_OK) return 0;
    print_error("%s\n", ppo_last_error());
    return 1;
}
static inline int close_device(void **state) {
    (void)state;
    ppo_cuda_free(cuda);
    cuda = NULL;
    return leaks();
}
#define on_a_device(test) cmocka_unit_test_setup_teardown(test, open_device, close_device)

/* -- arrays -- */

/* An array on the device, freed by the destructor. at() is `shift` elements after a multiple of 256 bytes. */
template <class T> struct device_array {
    T *memory = NULL;
    size_t n, shift;

    explicit device_array(size_t count, const T *host = NULL, size_t shift_by = 0)
        : n(count), shift(shift_by) {
        assert_cuda(cudaMalloc(&memory, (n + shift) * sizeof(T)));
        if (host) write(host);
    }
    explicit device_array(const std::vector<T> &host, size_t shift_by = 0)
        : device_array(host.size(), host.data(), shift_by) {}
    device_array(const device_array &) = delete;
    device_array &operator=(const device_array &) = delete;
    ~device_array() { cudaFree(memory); }

    T *at() { return memory + shift; }
    /* Waits before and after: the stream of `cuda` does not wait for cudaMemcpy(), which may return before
       the last bytes have arrived. */
    void write(const T *host) {
        assert_cuda(cudaDeviceSynchronize());
        assert_cuda(cudaMemcpy(at(), host, n * sizeof(T), cudaMemcpyHostToDevice));
        assert_cuda(cudaDeviceSynchronize());
    }
    std::vector<T> read() { /* waits for the stream, whose failures are not reported here */
        std::vector<T> host(n);
        if (cuda) assert_cuda(cudaStreamSynchronize((cudaStream_t)ppo_cuda_stream(cuda)));
        assert_cuda(cudaMemcpy(host.data(), at(), n * sizeof(T), cudaMemcpyDeviceToHost));
        return host;
    }
};

[[maybe_unused]] static std::vector<float> normal_floats(ppo_rng *rng, size_t n, float scale) {
    std::vector<float> x(n);
    fill_normal(rng, x.data(), (int)n, scale);
    return x;
}

[[maybe_unused]] static std::vector<int> random_tokens(ppo_rng *rng, size_t n, int vocab) {
    std::vector<int> token(n);
    for (int &t : token) t = ppo_rng_below(rng, vocab);
    return token;
}

/* About one in one_in is 0; the first is not. */
static inline std::vector<unsigned char> random_mask(ppo_rng *rng, size_t n, int one_in) {
    std::vector<unsigned char> mask(n);
    for (size_t i = 0; i < n; i++) mask[i] = i == 0 || ppo_rng_below(rng, one_in) != 0;
    return mask;
}

/* Returns x as bf16, for the device, and rounds x to it, for the processor. */
[[maybe_unused]] static std::vector<__nv_bfloat16> to_bf16(std::vector<float> *x) {
    std::vector<__nv_bfloat16> bits(x->size());
    for (size_t i = 0; i < x->size(); i++) {
        bits[i] = __float2bfloat16((*x)[i]);
        (*x)[i] = __bfloat162float(bits[i]);
    }
    return bits;
}

/* Orders of threads and blocks that tests try in the emulation. */
static const uint32_t thread_orders[] = {0, 1, 20170720};
static inline void set_thread_order(uint32_t seed) {
    (void)seed;
#ifndef __CUDACC__
    emulation.seed = seed;
#endif
}

#endif
