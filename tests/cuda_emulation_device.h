/* What kernels use of cuda_emulation.h: the language, the threads of a block and how they wait for each
   other, arithmetic. */
#ifndef PPO_TEST_CUDA_EMULATION_DEVICE_H
#define PPO_TEST_CUDA_EMULATION_DEVICE_H

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define EMULATION_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMULATION_ASAN 1
#endif
#endif
#ifdef EMULATION_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
/* For functions that run at each barrier and only touch the emulation's own memory: sanitizers, which are for
   kernels, do not check them, because that would take most of the time. */
#define EMULATION_OWN __attribute__((no_sanitize("address", "undefined")))
#if !(defined(__x86_64__) && defined(__ELF__)) && !defined(EMULATION_UCONTEXT)
#define EMULATION_UCONTEXT 1
#endif
#ifdef EMULATION_UCONTEXT
#include <ucontext.h>
#endif

/* --------------------------------------------------------------------------------------------------------
   Language
   -------------------------------------------------------------------------------------------------------- */

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

/* One block runs at a time, so shared memory is `static`. Such variables are in a section of their own, which
   is filled with garbage for each block. GCC does not put those of templates there, and functions that have
   some must be `static` then. AddressSanitizer detects overruns only without that section. */
#if defined(__ELF__) && !defined(EMULATION_ASAN)
#define __shared__ static __attribute__((section("emulation_shared")))
extern "C" __attribute__((weak)) char __start_emulation_shared[], __stop_emulation_shared[];
#define EMULATED_SPOIL_STATIC() \
    memset(__start_emulation_shared, 0xff, (size_t)(__stop_emulation_shared - __start_emulation_shared))
#else
#define __shared__              static
#define EMULATED_SPOIL_STATIC() ((void)0)
#endif

/* Under nvcc: kernel<<<grid, block, shared_bytes, stream>>>(arguments). */
#define PPO__LAUNCH(kernel, grid, block, shared_bytes, ...) \
    emulated::launch(#kernel, grid, block, shared_bytes, kernel, __VA_ARGS__)
/* Under nvcc: extern __shared__ __align__(16) unsigned char bytes[];
   auto name = reinterpret_cast<type *>(bytes). */
#define PPO__DYNAMIC_SHARED(type, name) auto name = static_cast<type *>(emulated::gpu.shared)

template <class T> struct emulated_pair {
    alignas(2 * sizeof(T)) T x;
    T y;
};
template <class T> struct emulated_four {
    alignas(4 * sizeof(T)) T x;
    T y, z, w;
};
typedef emulated_pair<float> float2;
typedef emulated_four<float> float4;
typedef emulated_four<int> int4;
typedef emulated_four<unsigned> uint4;

inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
inline dim3 threadIdx, blockIdx, blockDim, gridDim; /* of the running thread */
constexpr int warpSize = 32;

/* --------------------------------------------------------------------------------------------------------
   Threads
   -------------------------------------------------------------------------------------------------------- */

namespace emulated {

enum { max_threads = 1024, stack_size = 256 << 10, guard_size = 64 << 10 };
enum status { ready, waiting, returned };
struct abandoned {}; /* thrown through the kernel by the threads of a failed launch */

struct site {
    const char *file;
    int line;
};

struct thread {
    dim3 index;
    int number; /* in its block */
    status now;

    /* what it waits for */
    const char *call;
    site where;
    unsigned mask;         /* the lanes that must arrive; 0: the whole block */
    int source;            /* the lane whose number it takes; -1: the ballot */
    uint64_t given, taken; /* its number, and the number that it gets */

    /* its stack, which the next thread of this number uses again */
    const void *bottom;
    size_t size;
    void *fake_stack; /* AddressSanitizer's */
#ifdef EMULATION_UCONTEXT
    ucontext_t context;
#else
    void *pointer;
#endif
};

inline struct machine {
    thread host, threads[max_threads];
    thread *current, *left; /* the running thread, and the one before */
    bool told;              /* is AddressSanitizer told of the change from one to the other? */

    thread *queue[max_threads]; /* of threads that are ready: a ring */
    unsigned first, queued;
    int count, running;
    uint32_t *seed; /* shuffles the orders of threads and blocks; 0: as numbered */

    const char *kernel;
    void (*body)(void *);
    void *arguments, *shared;
    bool failed;
    char sentence[512]; /* what went wrong */
} gpu;

#ifdef EMULATION_UCONTEXT
inline void swap(thread *from, thread *to) { swapcontext(&from->context, &to->context); }

inline void prepare(thread *t, char *bottom, size_t size, void (*run)()) {
    getcontext(&t->context);
    t->context.uc_stack.ss_sp = bottom;
    t->context.uc_stack.ss_size = size;
    makecontext(&t->context, run, 0);
}
#else
/* Instead of swapcontext(), which calls the system for the signal mask: a thousand cycles. In the function that switches, not
   in one of its own, and with a jump: a return to where no call was is guessed wrong each time, and so are the returns after it. */
EMULATION_OWN __attribute__((always_inline)) inline void swap(thread *from, thread *to) {
    void **kept = &from->pointer, *next = to->pointer;
    asm volatile("leaq -128(%%rsp), %%rsp\n" /* below it is what a function may use without saying so */
                 "pushq %%rbp\n"
                 "leaq 1f(%%rip), %%rax\n"
                 "pushq %%rax\n"
                 "movq %%rsp, (%0)\n"
                 "movq %1, %%rsp\n"
                 "popq %%rax\n"
                 "jmpq *%%rax\n"
                 "1: popq %%rbp\n"
                 "leaq 128(%%rsp), %%rsp\n"
                 : "+D"(kept), "+S"(next)
                 :
                 : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory",
                   "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                   "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

inline void prepare(thread *t, char *bottom, size_t size, void (*run)()) {
    void **top = reinterpret_cast<void **>(bottom + size);
    top[-2] = reinterpret_cast<void *>(run); /* at whose start a stack has no multiple of 16 */
    t->pointer = top - 2;
}
#endif

/* AddressSanitizer is told when the threads of a block take over from the host, and when the host does again. It takes their
   stacks for one: it asks where a stack is only when something is thrown, and then it is told of each. */
#ifdef EMULATION_ASAN
EMULATION_OWN inline void leave_stack(thread *from, const thread *to) {
    gpu.told = gpu.failed || from == &gpu.host || to == &gpu.host;
    if (gpu.told) __sanitizer_start_switch_fiber(&from->fake_stack, to->bottom, to->size);
}
EMULATION_OWN inline void enter_stack() {
    if (!gpu.told) return;
    const void *bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(gpu.current->fake_stack, &bottom, &size);
    if (gpu.left == &gpu.host) gpu.host.bottom = bottom, gpu.host.size = size;
}
#else
inline void leave_stack(thread *, const thread *) {}
inline void enter_stack() {}
#endif

/* Call it first on a stack that runs again. */
EMULATION_OWN inline void arrive() {
    enter_stack();
    threadIdx = gpu.current->index;
}

EMULATION_OWN __attribute__((noinline)) inline void switch_to(thread *to) {
    thread *from = gpu.current;
    gpu.left = from;
    gpu.current = to;
    leave_stack(from, to);
    swap(from, to);
    arrive();
}

EMULATION_OWN inline unsigned random_below(unsigned n) {
    uint32_t &x = *gpu.seed; /* xorshift, which never becomes 0 */
    x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    return x % n;
}

EMULATION_OWN inline void put(thread *t) {
    t->now = ready;
    gpu.queue[(gpu.first + gpu.queued++) % max_threads] = t;
}

EMULATION_OWN inline thread *take() {
    unsigned chosen = gpu.first + (*gpu.seed ? random_below(gpu.queued) : 0);
    thread *t = gpu.queue[chosen % max_threads];
    gpu.queue[chosen % max_threads] = gpu.queue[gpu.first];
    gpu.first = (gpu.first + 1) % max_threads;
    gpu.queued--;
    return t;
}

/* Ends the launch with a sentence about a thread. Wakes waiting threads, which throw. */
__attribute__((format(printf, 2, 3))) inline void fail(const thread *t, const char *format, ...) {
    char what[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(gpu.sentence, sizeof gpu.sentence, "kernel %s, block (%u, %u, %u), thread (%u, %u, %u) %s",
             gpu.kernel, blockIdx.x, blockIdx.y, blockIdx.z, t->index.x, t->index.y, t->index.z, what);
    gpu.failed = true;
    leave_stack(gpu.left = gpu.current, gpu.current);
    enter_stack();
    for (int i = 0; i < gpu.count; i++)
        if (gpu.threads[i].now == waiting) put(&gpu.threads[i]);
}

/* The threads that a thread waits for, including itself: those from begin to end - 1 with has(). */
struct group {
    int begin, end;
    unsigned mask;
    EMULATION_OWN explicit group(const thread *t)
        : begin(t->mask ? t->number & ~31 : 0), end(gpu.count), mask(t->mask) {
        if (mask) end = begin + 32;
    }
    EMULATION_OWN bool has(int i) const { return !mask || mask >> (i - begin) & 1; }
};

EMULATION_OWN inline bool at_the_same_place(const thread *a, const thread *b) {
    return a->call == b->call && a->mask == b->mask && a->where.line == b->where.line &&
           (a->where.file == b->where.file || strcmp(a->where.file, b->where.file) == 0);
}

/* A thread that t still has to wait for, or -1. */
EMULATION_OWN inline int missing(const thread *t) {
    group g(t);
    thread *all = gpu.threads;
    for (int i = g.end - 1; i >= g.begin; i--)
        if (g.has(i) && (i >= gpu.count || all[i].now != waiting || !at_the_same_place(t, &all[i]))) return i;
    return -1;
}

EMULATION_OWN inline void release(const thread *t) {
    group g(t);
    unsigned ballot = 0;
    for (int i = g.begin; i < g.end; i++)
        if (g.has(i) && gpu.threads[i].given) ballot |= 1u << (i & 31);
    for (int i = g.begin; i < g.end; i++) {
        if (!g.has(i)) continue;
        thread *other = &gpu.threads[i];
        other->taken = other->source < 0 ? ballot : gpu.threads[g.begin + other->source].given;
        put(other);
    }
}

inline std::string place(const thread *t) {
    char text[160];
    snprintf(text, sizeof text, t->mask ? "waits at %s (%s:%d, mask 0x%08x)" : "waits at %s (%s:%d)", t->call,
             t->where.file, t->where.line, t->mask);
    return text;
}

/* No thread can continue: one waits for another that will not arrive. */
inline void explain_stall() {
    const thread *t = gpu.threads;
    while (t->now != waiting) t++;
    int i = missing(t);
    std::string what = i >= gpu.count                   ? "does not exist"
                       : gpu.threads[i].now == returned ? "has returned"
                                                        : place(&gpu.threads[i]);
    fail(t, "%s for thread %d of its block, which %s", place(t).c_str(), i, what.c_str());
}

/* Lets the next thread run, or the host after the last one. */
EMULATION_OWN inline void pass_on() {
    if (!gpu.queued && gpu.running) explain_stall();
    thread *next = gpu.queued ? take() : &gpu.host;
    if (next != gpu.current) switch_to(next);
}

/* Runs on a stack: one thread of each block. */
inline void run_threads() {
    arrive();
    for (;;) {
        try {
            if (!gpu.failed) gpu.body(gpu.arguments);
        } catch (const abandoned &) {
        }
        gpu.current->now = returned;
        gpu.running--;
        pass_on();
    }
}

inline void make_stack(thread *t) {
    void *memory = mmap(NULL, guard_size + stack_size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, guard_size, PROT_NONE)) {
        fprintf(stderr, "no memory for the stacks of emulated threads\n");
        abort();
    }
    char *bottom = static_cast<char *>(memory) + guard_size;
    t->bottom = bottom;
    t->size = stack_size;
    /* Not all at the same distance from a page, where they would share few lines of the cache. */
    prepare(t, bottom, stack_size - (size_t)(t - gpu.threads) % 256 * 192, run_threads);
}

EMULATION_OWN inline dim3 unfold(unsigned i, dim3 size) {
    return dim3(i % size.x, i / size.x % size.y, i / size.x / size.y);
}

EMULATION_OWN inline void run_block(unsigned number, size_t shared_bytes) {
    blockIdx = unfold(number, gridDim);
    memset(gpu.shared, 0xff, shared_bytes);
    EMULATED_SPOIL_STATIC();
    for (gpu.running = 0; gpu.running < gpu.count; gpu.running++) {
        thread *t = &gpu.threads[gpu.running];
        if (!t->bottom) make_stack(t);
        t->number = gpu.running;
        t->index = unfold((unsigned)t->number, blockDim);
        put(t);
    }
    switch_to(take());
}

/* All blocks, up to the first that fails. */
inline void run_blocks(size_t shared_bytes) {
    std::vector<unsigned> order((size_t)gridDim.x * gridDim.y * gridDim.z);
    for (size_t i = 0; i < order.size(); i++) {
        size_t other = *gpu.seed ? random_below((unsigned)i + 1) : i;
        order[i] = order[other];
        order[other] = (unsigned)i;
    }
    gpu.current = &gpu.host;
    gpu.count = (int)(blockDim.x * blockDim.y * blockDim.z);
    gpu.shared = malloc(shared_bytes);
    gpu.failed = false;
    for (size_t i = 0; i < order.size() && !gpu.failed; i++) run_block(order[i], shared_bytes);
    free(gpu.shared);
}

/* --------------------------------------------------------------------------------------------------------
   Barriers, shuffles, atomics
   -------------------------------------------------------------------------------------------------------- */

EMULATION_OWN inline void meet(const char *call, site where, unsigned mask) {
    thread *t = gpu.current;
    t->call = call, t->where = where, t->mask = mask;
    t->now = waiting;
    if (missing(t) < 0) release(t);
    pass_on();
    if (gpu.failed) throw abandoned();
}

/* Each lane gives a number, and takes that of lane `source`, or the ballot. */
EMULATION_OWN inline uint64_t exchange(const char *call, site where, unsigned mask, uint64_t given,
                                       int source) {
    thread *t = gpu.current;
    int lane = t->number & 31, absent = mask >> lane & 1 ? source : lane;
    if (absent >= 0 && !(mask >> absent & 1)) {
        fail(t, "%s lane %d, which the mask 0x%08x does not name, at %s (%s:%d)",
             absent == lane ? "is" : "reads from", absent, mask, call, where.file, where.line);
        throw abandoned();
    }
    t->given = given, t->source = source;
    meet(call, where, mask);
    return t->taken;
}

EMULATION_OWN inline int lane() { return gpu.current->number & 31; }

template <class T> EMULATION_OWN T shuffle(const char *call, site where, unsigned mask, T value, int source) {
    static_assert(std::is_arithmetic<T>::value && (sizeof(T) == 4 || sizeof(T) == 8), "as in CUDA");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = exchange(call, where, mask, bits, source);
    memcpy(&value, &bits, sizeof value);
    return value;
}

template <class T> T replace(T *at, T value) {
    std::swap(*at, value);
    return value;
}

template <class T, class F> T same_bits(F from) {
    T to;
    static_assert(sizeof to == sizeof from, "bits of another size");
    memcpy(&to, &from, sizeof to);
    return to;
}
} // namespace emulated

/* A default argument: the source line of the call. */
#define EMULATED_SITE emulated::site where = {__builtin_FILE(), __builtin_LINE()}

inline void __syncthreads(EMULATED_SITE) { emulated::meet("__syncthreads", where, 0); }
inline void __syncwarp(unsigned mask = 0xffffffff, EMULATED_SITE) {
    emulated::exchange("__syncwarp", where, mask, 0, -1);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, EMULATED_SITE) {
    return (unsigned)emulated::exchange("__ballot_sync", where, mask, predicate != 0, -1);
}
inline int __any_sync(unsigned mask, int predicate, EMULATED_SITE) {
    return emulated::exchange("__any_sync", where, mask, predicate != 0, -1) != 0;
}
inline int __all_sync(unsigned mask, int predicate, EMULATED_SITE) {
    return emulated::exchange("__all_sync", where, mask, predicate != 0, -1) == mask;
}

template <class T> T __shfl_sync(unsigned mask, T value, int lane, int width = 32, EMULATED_SITE) {
    int source = (emulated::lane() & ~(width - 1)) | (lane & (width - 1));
    return emulated::shuffle("__shfl_sync", where, mask, value, source);
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, EMULATED_SITE) {
    int lane = emulated::lane(), source = lane ^ bits;
    return emulated::shuffle("__shfl_xor_sync", where, mask, value,
                             source > (lane | (width - 1)) ? lane : source);
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, EMULATED_SITE) {
    int lane = emulated::lane(), source = lane + (int)by;
    return emulated::shuffle("__shfl_down_sync", where, mask, value,
                             source > (lane | (width - 1)) ? lane : source);
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, EMULATED_SITE) {
    int lane = emulated::lane(), source = lane - (int)by;
    return emulated::shuffle("__shfl_up_sync", where, mask, value,
                             source < (lane & ~(width - 1)) ? lane : source);
}

inline int atomicAdd(int *at, int x) { return emulated::replace(at, (int)((unsigned)*at + (unsigned)x)); }
inline unsigned atomicAdd(unsigned *at, unsigned x) { return emulated::replace(at, *at + x); }
inline float atomicAdd(float *at, float x) { return emulated::replace(at, *at + x); }
inline unsigned long long atomicAdd(unsigned long long *at, unsigned long long x) {
    return emulated::replace(at, *at + x);
}
inline unsigned long long atomicMin(unsigned long long *at, unsigned long long x) {
    return emulated::replace(at, std::min(*at, x));
}
inline int atomicMax(int *at, int x) { return emulated::replace(at, std::max(*at, x)); }
inline unsigned atomicCAS(unsigned *at, unsigned old, unsigned x) {
    return emulated::replace(at, *at == old ? x : *at);
}
inline void __threadfence() {}

/* --------------------------------------------------------------------------------------------------------
   Arithmetic
   -------------------------------------------------------------------------------------------------------- */

using std::max;
using std::min;

/* Macros, because some C libraries have functions of these names. */
#define __expf(x)        expf(x)
#define __logf(x)        logf(x)
#define rsqrtf(x)        ((float)(1 / sqrt((double)(x))))
#define __fdividef(x, y) ((float)(x) / (float)(y))

/* Never part of a fused multiplication and addition. */
inline float __fmul_rn(float x, float y) {
    volatile float product = x * y;
    return product;
}

inline unsigned __float_as_uint(float x) { return emulated::same_bits<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return emulated::same_bits<float>(x); }
inline int __float_as_int(float x) { return emulated::same_bits<int>(x); }
inline float __int_as_float(int x) { return emulated::same_bits<float>(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int i = 0; i < 32; i++) reversed |= (x >> i & 1) << (31 - i);
    return reversed;
}
template <class T> T __ldg(const T *at) { return *at; }

struct __nv_bfloat16 {
    unsigned short bits;
};
typedef emulated_pair<__nv_bfloat16> __nv_bfloat162;

inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return {bits}; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
inline float __bfloat162float(__nv_bfloat16 x) { return __uint_as_float((unsigned)x.bits << 16); }
/* Rounds to nearest even; every NaN becomes the same NaN. */
inline __nv_bfloat16 __float2bfloat16(float x) {
    unsigned bits = __float_as_uint(x);
    return {(unsigned short)(isnan(x) ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return {__float2bfloat16(x), __float2bfloat16(y)};
}
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {__bfloat162float(v.x), __bfloat162float(v.y)}; }

#endif /* PPO_TEST_CUDA_EMULATION_DEVICE_H */
