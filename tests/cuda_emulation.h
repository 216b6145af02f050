/* Runs the kernels of ppo_cuda.cuh on the processor, so that they can be tested without nvcc and a GPU, also
   under AddressSanitizer. Replaces the headers of CUDA and cuBLAS where another compiler is used.

   - The threads of a block are fibers: each runs until it waits for others, then the next one runs. Blocks
     run one after another. emulation.seed shuffles both orders; results must not depend on it.
   - A barrier or a shuffle that some of its threads never reach is reported: emulation.complain gets a
     sentence with the kernel, the block and the thread. So are other errors, such as copies with a pointer to
     the wrong memory.
   - Device memory is on the heap. It starts as NaN, as does shared memory in each block. Under
     AddressSanitizer the host cannot touch it.
   - emulation.fail_at makes any call of the runtime and of cuBLAS fail.

   Stricter than CUDA: all threads that a mask names must exist and reach the same line of the source. Not
   emulated: concurrency (blocks cannot wait for each other, nothing can wait by polling; streams finish work
   at once, but struct stream says what is reported nevertheless), the rounding of TF32, __expf and others,
   launches from several host threads, and that kernels cannot touch host memory. */
#ifndef PPO_TEST_CUDA_EMULATION_H
#define PPO_TEST_CUDA_EMULATION_H

#include "cuda_emulation_device.h"

#include <map>
#include <set>

#include <limits.h>
#include <time.h>

/* --------------------------------------------------------------------------------------------------------
   Settings and counters for tests
   -------------------------------------------------------------------------------------------------------- */

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInsufficientDriver = 35,
    cudaErrorDevicesUnavailable = 46,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorNoKernelImageForDevice = 209,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
    cudaErrorLaunchFailure = 719
};

struct cudaDeviceProp {
    char name[256];
    int major, minor, multiProcessorCount;
    size_t sharedMemPerBlockOptin, totalGlobalMem;
};

namespace emulated {
inline void say_and_abort(const char *sentence) {
    fprintf(stderr, "%s\n", sentence);
    abort();
}
} // namespace emulated

inline struct emulation_settings {
    uint32_t seed = 0; /* of the orders of threads and blocks; 0: as numbered */
    void (*complain)(const char *sentence) = emulated::say_and_abort; /* may longjmp */

    long fail_at = -1;                             /* the call that fails; 0: the next; -1: none */
    bool for_good = false;                         /* all calls after it fail, too */
    cudaError_t error = cudaErrorMemoryAllocation; /* of that call; calls that free do free */

    int devices = 1, driver_version = 13000;
    cudaDeviceProp device = {"emulated GPU", 8, 0, 4, 163 << 10, (size_t)1 << 30};

    long calls = 0;           /* of the runtime and of cuBLAS so far, launches among them */
    long allocations = 0;     /* of device and of pinned memory so far */
    long live = 0;            /* blocks of such memory, streams, events and handles of cuBLAS now */
    size_t device_bytes = 0;  /* now */
    size_t bytes_to_host = 0; /* copied from the device so far */
} emulation;

/* --------------------------------------------------------------------------------------------------------
   Memory
   -------------------------------------------------------------------------------------------------------- */

namespace emulated {

inline cudaError_t last_error = cudaSuccess;

inline cudaError_t result(cudaError_t error) {
    if (error) last_error = error;
    return error;
}

/* Counts a call, and fails it if it is call fail_at. */
inline cudaError_t call() {
    emulation.calls++;
    if (emulation.fail_at < 0 || (emulation.fail_at > 0 && emulation.fail_at--)) return cudaSuccess;
    if (!emulation.for_good) emulation.fail_at = -1;
    return result(emulation.error);
}
#define EMULATED_CALL() \
    if (cudaError_t injected = emulated::call()) return injected

/* Reports a sentence. Returns the error for the call to return. */
__attribute__((format(printf, 1, 2))) inline cudaError_t complain(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(gpu.sentence, sizeof gpu.sentence, format, arguments);
    va_end(arguments);
    emulation.complain(gpu.sentence);
    return result(cudaErrorInvalidValue);
}

struct block {
    size_t size;
    bool device;
};
/* Keys are complements of addresses, so that a leak checker does not find the block here. */
inline std::map<uintptr_t, block> blocks;

/* The block that contains p, and the number of its bytes from p on; NULL if there is none. */
inline const block *find(const void *p, size_t *left) {
    auto found = blocks.lower_bound(~(uintptr_t)p);
    if (found == blocks.end()) return NULL;
    size_t at = (uintptr_t)p - ~found->first;
    *left = found->second.size - at;
    return at < found->second.size ? &found->second : NULL;
}

/* May a call use p as memory of the device, or of the host? An empty range may be anywhere. */
inline bool fits(const char *call, const char *what, const void *p, size_t size, bool device) {
    size_t left = 0;
    const block *b = size ? find(p, &left) : NULL;
    if (size && (b && b->device) != device)
        complain("%s: %s %p is %sdevice memory", call, what, p, device ? "not " : "");
    else if (b && left < size)
        complain("%s: %s %p has room for %zu bytes, not for %zu", call, what, p, left, size);
    else return true;
    return false;
}

/* Device memory may be touched while one of these exists. */
struct access {
    access() { allow(true); }
    ~access() { allow(false); }
    static void allow(bool yes) {
        (void)yes;
#ifdef EMULATION_ASAN
        for (auto &b : blocks) {
            void *start = reinterpret_cast<void *>(~b.first);
            if (b.second.device && yes) __asan_unpoison_memory_region(start, b.second.size);
            else if (b.second.device) __asan_poison_memory_region(start, b.second.size);
        }
#endif
    }
};

template <class T> cudaError_t allocate(T **p, size_t size, bool device) {
    EMULATED_CALL();
    void *memory = NULL;
    if (device && size > emulation.device.totalGlobalMem - emulation.device_bytes)
        return result(cudaErrorMemoryAllocation);
    if (size && posix_memalign(&memory, 256, size)) return result(cudaErrorMemoryAllocation);
    *p = static_cast<T *>(memory);
    if (!size) return cudaSuccess;
    memset(memory, 0xff, size);
    blocks[~(uintptr_t)memory] = {size, device};
    access::allow(false);
    emulation.allocations++;
    emulation.live++;
    if (device) emulation.device_bytes += size;
    return cudaSuccess;
}

inline void finish_work();

/* Waits for the device, as CUDA does. */
inline cudaError_t free(const char *name, void *p, bool device) {
    cudaError_t injected = call();
    if (!p) return injected;
    finish_work();
    auto found = blocks.find(~(uintptr_t)p);
    if (found == blocks.end() || found->second.device != device)
        return complain("%s: %p was not allocated as such, or is free already", name, p);
    if (device) emulation.device_bytes -= found->second.size;
    blocks.erase(found);
    emulation.live--;
    ::free(p);
    return injected;
}

/* All work is done at once. A busy stream has work that the host has not waited for. */
struct stream {
    bool busy;
};
inline std::set<stream *> streams;
inline bool default_is_busy;

/* Streams and the default stream do not wait for each other (streams are non-blocking). */
inline void use(stream *s) {
    bool &busy = s ? s->busy : default_is_busy, other = s && default_is_busy;
    for (stream *t : streams) other |= !s && t->busy;
    if (other) complain("a stream has work that the default one does not wait for, or the other way");
    busy = true;
}

/* A copy between host and device may read host memory as late as when the host waits for it. It writes pinned
   memory only then. */
struct copy {
    void *host;
    bool to_host;
    std::vector<char> bytes;
};
inline std::vector<copy> copies;

inline void copy_bytes(void *to, const void *from, size_t size, bool to_host, bool one_side) {
    const char *now = static_cast<const char *>(from);
    void *host = to_host ? to : const_cast<void *>(from);
    size_t left;
    const bool late = !one_side && (!to_host || find(host, &left));
    if (late) copies.push_back({host, to_host, std::vector<char>(now, now + size)});
    if (late && to_host) memset(to, 0xff, size);
    else memcpy(to, from, size);
}

inline void finish_copies() {
    bool changed = false;
    for (const copy &c : copies) {
        if (c.to_host) memcpy(c.host, c.bytes.data(), c.bytes.size());
        else changed |= memcmp(c.host, c.bytes.data(), c.bytes.size()) != 0;
    }
    copies.clear();
    if (changed) complain("the host's memory has changed before a copy from there was waited for");
}

inline void finish_work() {
    finish_copies();
    for (stream *s : streams) s->busy = false;
    default_is_busy = false;
}
} // namespace emulated

typedef emulated::stream *cudaStream_t;

enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};

inline bool emulation_is_device(const void *p) {
    size_t left;
    const emulated::block *b = emulated::find(p, &left);
    return b && b->device;
}

template <class T> cudaError_t cudaMalloc(T **p, size_t size) { return emulated::allocate(p, size, true); }
template <class T> cudaError_t cudaMallocHost(T **p, size_t size) {
    return emulated::allocate(p, size, false);
}
template <class T> cudaError_t cudaMallocAsync(T **p, size_t size, cudaStream_t stream) {
    emulated::use(stream);
    return emulated::allocate(p, size, true);
}
inline cudaError_t cudaFree(void *p) { return emulated::free("cudaFree", p, true); }
inline cudaError_t cudaFreeHost(void *p) { return emulated::free("cudaFreeHost", p, false); }
inline cudaError_t cudaFreeAsync(void *p, cudaStream_t stream) {
    emulated::use(stream);
    return emulated::free("cudaFreeAsync", p, true);
}

/* Copies rows of `width` bytes, which are to_pitch and from_pitch bytes apart. */
inline cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                     size_t width, size_t height, cudaMemcpyKind kind,
                                     cudaStream_t stream = NULL) {
    EMULATED_CALL();
    emulated::use(stream);
    if (!width || !height) return cudaSuccess;
    size_t to_size = (height - 1) * to_pitch + width, from_size = (height - 1) * from_pitch + width;
    bool to_device = kind == cudaMemcpyDefault ? emulation_is_device(to) : kind & 1;
    bool from_device = kind == cudaMemcpyDefault ? emulation_is_device(from) : kind & 2;
    if (to_pitch < width || from_pitch < width ||
        !emulated::fits("a copy", "the destination", to, to_size, to_device) ||
        !emulated::fits("a copy", "the source", from, from_size, from_device))
        return emulated::result(cudaErrorInvalidValue);
    if (from_device && !to_device) emulation.bytes_to_host += width * height;
    emulated::access access;
    for (size_t row = 0; row < height; row++)
        emulated::copy_bytes((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width,
                             !to_device, to_device == from_device);
    return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind,
                                   cudaStream_t stream = NULL) {
    return cudaMemcpy2DAsync(to, size, from, size, size, 1, kind, stream);
}
/* May return before data from unpinned memory has reached the device. */
inline cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind kind) {
    const cudaError_t error = cudaMemcpyAsync(to, from, size, kind);
    emulated::finish_copies();
    if (kind == cudaMemcpyDeviceToHost) emulated::default_is_busy = false;
    return error;
}
inline cudaError_t cudaMemsetAsync(void *p, int byte, size_t size, cudaStream_t stream = NULL) {
    EMULATED_CALL();
    emulated::use(stream);
    if (!emulated::fits("cudaMemset", "the destination", p, size, true))
        return emulated::result(cudaErrorInvalidValue);
    emulated::access access;
    memset(p, byte, size);
    return cudaSuccess;
}
inline cudaError_t cudaMemset(void *p, int byte, size_t size) { return cudaMemsetAsync(p, byte, size); }

inline cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    EMULATED_CALL();
    *total = emulation.device.totalGlobalMem;
    *free = *total - emulation.device_bytes;
    return cudaSuccess;
}

/* --------------------------------------------------------------------------------------------------------
   The rest of the runtime
   -------------------------------------------------------------------------------------------------------- */

#define CUDART_VERSION 13000

namespace emulated {
inline const struct {
    cudaError_t code;
    const char *name, *text;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
};
} // namespace emulated

inline const char *cudaGetErrorString(cudaError_t error) {
    for (auto &e : emulated::errors)
        if (e.code == error) return e.text;
    return "unrecognized error code";
}
inline const char *cudaGetErrorName(cudaError_t error) {
    for (auto &e : emulated::errors)
        if (e.code == error) return e.name;
    return "unrecognized error code";
}
inline cudaError_t cudaPeekAtLastError() {
    EMULATED_CALL();
    return emulated::last_error;
}
inline cudaError_t cudaGetLastError() {
    cudaError_t error = cudaPeekAtLastError();
    emulated::last_error = cudaSuccess;
    return error;
}

namespace emulated {
inline int device;

/* A call that returns a number, of a device if one is named. */
enum { no_device = INT_MIN };
inline cudaError_t query(int *to, int value, int device = no_device) {
    EMULATED_CALL();
    if (device != no_device && !emulation.devices) return result(cudaErrorNoDevice);
    if (device != no_device && (device < 0 || device >= emulation.devices))
        return result(cudaErrorInvalidDevice);
    *to = value;
    return cudaSuccess;
}

/* Created objects are counted, and destroyed even by a call that fails. */
template <class T> cudaError_t create(T **created) {
    EMULATED_CALL();
    *created = new T();
    emulation.live++;
    return cudaSuccess;
}
template <class T> cudaError_t destroy(T *created) {
    cudaError_t injected = call();
    if (!created) return result(cudaErrorInvalidResourceHandle);
    delete created;
    emulation.live--;
    return injected;
}
} // namespace emulated

inline cudaError_t cudaDeviceSynchronize() {
    EMULATED_CALL();
    emulated::finish_work();
    return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int *version) {
    return emulated::query(version, emulation.driver_version);
}
inline cudaError_t cudaRuntimeGetVersion(int *version) { return emulated::query(version, CUDART_VERSION); }
inline cudaError_t cudaSetDevice(int device) { return emulated::query(&emulated::device, device, device); }
inline cudaError_t cudaGetDevice(int *device) {
    return emulated::query(device, emulated::device, emulated::device);
}
inline cudaError_t cudaGetDeviceCount(int *count) {
    *count = emulation.devices;
    return emulated::query(count, emulation.devices, 0);
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
    int ignored;
    *properties = emulation.device;
    return emulated::query(&ignored, 0, device);
}

enum cudaDeviceAttr {
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
    const cudaDeviceProp &d = emulation.device;
    return emulated::query(value,
                           attribute == cudaDevAttrMultiProcessorCount      ? d.multiProcessorCount
                           : attribute == cudaDevAttrComputeCapabilityMajor ? d.major
                           : attribute == cudaDevAttrComputeCapabilityMinor ? d.minor
                                                                            : (int)d.sharedMemPerBlockOptin,
                           device);
}

enum { cudaStreamDefault, cudaStreamNonBlocking };
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
    const cudaError_t error = emulated::create(stream);
    if (!error) emulated::streams.insert(*stream);
    return error;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    emulated::streams.erase(stream);
    return emulated::destroy(stream);
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    (stream ? stream->busy : emulated::default_is_busy) = false;
    if (cudaError_t injected = emulated::call()) return emulated::copies.clear(), injected;
    emulated::finish_copies();
    return cudaSuccess;
}
/* Is never asked too early. */
inline cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }

typedef struct timespec *cudaEvent_t; /* 0: not recorded */

inline cudaError_t cudaEventCreate(cudaEvent_t *event) { return emulated::create(event); }
inline cudaError_t cudaEventDestroy(cudaEvent_t event) { return emulated::destroy(event); }
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = NULL) {
    EMULATED_CALL();
    emulated::use(stream);
    clock_gettime(CLOCK_MONOTONIC, event);
    return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    return event ? emulated::call() : emulated::result(cudaErrorInvalidResourceHandle);
}
inline cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    EMULATED_CALL();
    if (!from->tv_sec || !to->tv_sec) return emulated::result(cudaErrorInvalidResourceHandle);
    *ms = (float)((double)(to->tv_sec - from->tv_sec) * 1e3 + (double)(to->tv_nsec - from->tv_nsec) * 1e-6);
    return cudaSuccess;
}

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

namespace emulated {
inline std::map<const void *, size_t> most_shared; /* of kernels that may use more than 48 KiB */

inline cudaError_t check_launch(const void *kernel, dim3 grid, dim3 block, size_t shared_bytes) {
    EMULATED_CALL();
    size_t threads = (size_t)block.x * block.y * block.z;
    if (!grid.x || !grid.y || !grid.z || grid.x > INT_MAX || grid.y > 65535 || grid.z > 65535 || !threads ||
        threads > max_threads || block.z > 64)
        return result(cudaErrorInvalidConfiguration);
    auto granted = most_shared.find(kernel);
    size_t most = granted == most_shared.end() ? 48 << 10 : granted->second;
    return result(shared_bytes <= most ? cudaSuccess : cudaErrorInvalidValue);
}

template <class... P>
void launch(const char *name, dim3 grid, dim3 block, size_t shared_bytes, void (*kernel)(P...),
            cudaStream_t stream, std::decay_t<P>... arguments) {
    auto body = [&] { kernel(arguments...); };
    if (check_launch(reinterpret_cast<const void *>(kernel), grid, block, shared_bytes)) return;
    use(stream);
    gridDim = grid, blockDim = block;
    gpu.seed = &emulation.seed;
    gpu.kernel = name;
    gpu.body = [](void *b) { (*static_cast<decltype(body) *>(b))(); };
    gpu.arguments = &body;
    {
        access access;
        run_blocks(shared_bytes);
    }
    if (!gpu.failed) return;
    result(cudaErrorLaunchFailure);
    emulation.complain(gpu.sentence);
}
} // namespace emulated

template <class T> cudaError_t cudaFuncSetAttribute(T *kernel, cudaFuncAttribute, int value) {
    EMULATED_CALL();
    if (value < 0 || (size_t)value > emulation.device.sharedMemPerBlockOptin)
        return emulated::result(cudaErrorInvalidValue);
    size_t &most = emulated::most_shared[reinterpret_cast<const void *>(kernel)];
    most = std::max<size_t>(48 << 10, (size_t)value);
    return cudaSuccess;
}

#include "cuda_emulation_blas.h"

#endif /* PPO_TEST_CUDA_EMULATION_H */
