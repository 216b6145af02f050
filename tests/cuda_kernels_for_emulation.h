/* Small kernels for test_cuda_emulation.cpp, and host code that makes every call of the runtime and of cuBLAS
   that the emulation has. tests/compile.sh compiles it with nvcc, too, if there is one: what the emulation
   accepts must be CUDA, and its constants must be CUDA's. */
#ifndef PPO_TEST_CUDA_KERNELS_FOR_EMULATION_H
#define PPO_TEST_CUDA_KERNELS_FOR_EMULATION_H

#ifdef __CUDACC__
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#define PPO__LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
    kernel<<<grid, block, shared_bytes, stream>>>(__VA_ARGS__)
#define PPO__DYNAMIC_SHARED(type, name)                             \
    extern __shared__ __align__(16) unsigned char dynamic_shared[]; \
    auto name = reinterpret_cast<type *>(dynamic_shared)
#else
#include "cuda_emulation.h"
#endif

/* --------------------------------------------------------------------------------------------------------
   Correct kernels
   -------------------------------------------------------------------------------------------------------- */

static __global__ void write_indices(int *out) {
    int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    int threads = blockDim.x * blockDim.y * blockDim.z;
    atomicAdd(&out[block * threads + thread], block * threads + thread + 1);
}

/* The order in which threads arrive, by a counter that all of them increment. */
static __global__ void write_order(unsigned *counter, unsigned *order) {
    order[atomicAdd(counter, 1u)] = blockIdx.x * blockDim.x + threadIdx.x;
    __syncthreads();
    order[atomicAdd(counter, 1u)] = blockIdx.x * blockDim.x + threadIdx.x;
}

static __forceinline__ __device__ float warp_sum(float x) {
    for (int lanes = warpSize / 2; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffff, x, lanes);
    return x;
}

/* The sum over the block, in its first thread. */
static __device__ float block_sum(float x) {
    __shared__ float part[32];
    unsigned lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
    x = warp_sum(x);
    if (lane == 0) part[warp] = x;
    __syncthreads();
    return warp == 0 ? warp_sum(lane < blockDim.x / warpSize ? part[lane] : 0) : 0;
}

static __global__ void __launch_bounds__(1024) sum_by_shuffles(const float *__restrict__ x, float *out) {
    float sum = block_sum(__ldg(&x[blockIdx.x * blockDim.x + threadIdx.x]));
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

/* A tree in shared memory, with a barrier for each of its levels. */
static __global__ void sum_by_shared(const float *x, float *out) {
    PPO__DYNAMIC_SHARED(float, part);
    part[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

/* Prefix sums over a block (Hillis and Steele). */
static __global__ void scan(int *x) {
    __shared__ int warps[32];
    int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize, sum = x[threadIdx.x];
    for (unsigned by = 1; by < 32; by *= 2) {
        int before = __shfl_up_sync(0xffffffff, sum, by);
        if (lane >= (int)by) sum += before;
    }
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    for (int w = 0; w < warp; w++) sum += warps[w];
    x[threadIdx.x] = sum;
}

/* The results of the four kinds of shuffle, of lanes with the number 100 + lane: [4][lanes]. */
static __global__ void shuffle_all(int by, int width, int *out) {
    int lane = threadIdx.x, lanes = blockDim.x, x = 100 + lane;
    out[lane] = __shfl_sync(0xffffffff, x, by, width);
    out[lanes + lane] = __shfl_xor_sync(0xffffffff, x, by, width);
    out[2 * lanes + lane] = __shfl_down_sync(0xffffffff, x, by, width);
    out[3 * lanes + lane] = __shfl_up_sync(0xffffffff, x, by, width);
}

/* The two halves of a warp take different branches, and shuffle among themselves. */
static __global__ void shuffle_in_halves(double *out) {
    double x = threadIdx.x;
    if (threadIdx.x < 16) x = __shfl_sync(0x0000ffff, x, 3);
    else x = __shfl_sync(0xffff0000, -x, 20);
    __syncwarp();
    out[threadIdx.x] = x;
}

static __global__ void vote(unsigned yes, unsigned *out) {
    int mine = (yes >> threadIdx.x & 1) * 7;
    out[threadIdx.x] = __ballot_sync(0xffffffff, mine);
    out[32 + threadIdx.x] = __any_sync(0xffffffff, mine) + 2 * __all_sync(0xffffffff, mine);
}

struct totals {
    int whole, most;
    unsigned positive, by_cas;
    float real;
    unsigned long long large;
};

static __global__ void add_up(const int *x, totals *t) {
    int mine = x[blockIdx.x * blockDim.x + threadIdx.x];
    atomicAdd(&t->whole, mine);
    atomicMax(&t->most, mine);
    atomicAdd(&t->positive, (unsigned)(mine > 0));
    atomicAdd(&t->real, (float)mine);
    atomicAdd(&t->large, 1ull << 40);
    unsigned seen = t->by_cas, expected;
    do seen = atomicCAS(&t->by_cas, expected = seen, seen + 3);
    while (seen != expected);
    __threadfence();
}

/* The content of a block's shared memory before it writes there. */
static __global__ void look_at_shared(unsigned *of_static, unsigned *of_dynamic, int n) {
    __shared__ unsigned mine[64];
    PPO__DYNAMIC_SHARED(unsigned, yours);
    for (int i = 0; i < 64; i++) of_static[64 * blockIdx.x + i] = mine[i], mine[i] = 7;
    for (int i = 0; i < n; i++) of_dynamic[n * blockIdx.x + i] = yours[i], yours[i] = 7;
}

template <int scale, class T> static __global__ void scale_pairs(const float4 *x, T *out) {
    float4 v = x[threadIdx.x];
    out[2 * threadIdx.x] = __floats2bfloat162_rn(scale * v.x, scale * v.y);
    out[2 * threadIdx.x + 1] = __floats2bfloat162_rn(scale * v.z, scale * v.w);
}

static inline void launch_a_template(const float4 *x, int n, __nv_bfloat162 *out) {
    PPO__LAUNCH((scale_pairs<2, __nv_bfloat162>), 1, n, 0, 0, x, out);
}

static __global__ void transcendental(const float *x, float *out) {
    float v = x[threadIdx.x];
    float *mine = out + 4 * threadIdx.x;
    mine[0] = __expf(v), mine[1] = __logf(v), mine[2] = rsqrtf(v), mine[3] = __fdividef(1, v);
}

static __global__ void write_first(int *out, int n) {
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x) out[i] = i;
}

/* --------------------------------------------------------------------------------------------------------
   Incorrect kernels
   -------------------------------------------------------------------------------------------------------- */

static __global__ void barrier_after_return(unsigned who) {
    if (threadIdx.x == who) return;
    __syncthreads();
}

static __global__ void barrier_elsewhere(void) {
    if (threadIdx.y < 4) __syncthreads();
    else __syncthreads();
}

static __global__ void barrier_in_one_branch(void) {
    if (threadIdx.x % 2) __syncwarp();
    __syncthreads();
}

static __global__ void barrier_too_often(void) {
    for (unsigned i = 0; i <= threadIdx.x / 32; i++) __syncthreads();
}

static __global__ void shuffle_after_return(int *out) {
    if (threadIdx.x == 9) return;
    out[threadIdx.x] = __shfl_xor_sync(0xffffffff, 1, 1);
}

static __global__ void shuffle_outside_mask(int *out) {
    out[threadIdx.x] = __shfl_xor_sync(0x7fffffff, 1, 1);
}

static __global__ void shuffle_from_inactive(int *out) {
    if (threadIdx.x < 16) out[threadIdx.x] = __shfl_down_sync(0x0000ffff, 1, 4);
}

static __global__ void shuffle_with_two_masks(int *out) {
    out[threadIdx.x] = __shfl_sync(threadIdx.x < 16 ? 0xffffffff : 0xfffffffe, 1, 3);
}

static __global__ void vote_for_two_things(int *out) {
    out[threadIdx.x] = threadIdx.x % 2 ? __all_sync(0xffffffff, 1) : __any_sync(0xffffffff, 1);
}

static __global__ void vote_in_half_a_warp(unsigned *out) { out[threadIdx.x] = __ballot_sync(0xffffffff, 1); }

[[maybe_unused]] static __global__ void overrun_static_shared(int *out, int at) {
    __shared__ int mine[5];
    memset(mine + at, 0, sizeof *mine);
    out[0] = mine[0];
}

static __global__ void overrun_dynamic_shared(int at) {
    PPO__DYNAMIC_SHARED(int, yours);
    yours[at] = 1;
}

/* --------------------------------------------------------------------------------------------------------
   The host
   -------------------------------------------------------------------------------------------------------- */

static_assert(cudaSuccess == 0 && cudaErrorInvalidValue == 1 && cudaErrorMemoryAllocation == 2 &&
                  cudaErrorInvalidConfiguration == 9 && cudaErrorInsufficientDriver == 35 &&
                  cudaErrorDevicesUnavailable == 46 && cudaErrorNoDevice == 100 &&
                  cudaErrorInvalidDevice == 101 && cudaErrorNoKernelImageForDevice == 209 &&
                  cudaErrorInvalidResourceHandle == 400 && cudaErrorLaunchFailure == 719,
              "errors of the runtime");
static_assert(CUBLAS_STATUS_SUCCESS == 0 && CUBLAS_STATUS_NOT_INITIALIZED == 1 &&
                  CUBLAS_STATUS_ALLOC_FAILED == 3 && CUBLAS_STATUS_INVALID_VALUE == 7 &&
                  CUBLAS_STATUS_EXECUTION_FAILED == 13 && CUBLAS_STATUS_NOT_SUPPORTED == 15,
              "errors of cuBLAS");
static_assert(sizeof(float2) == 8 && sizeof(int4) == 16 && sizeof(uint4) == 16 &&
                  sizeof(__nv_bfloat16) == 2 && sizeof(__nv_bfloat162) == 4 && alignof(float2) == 8 &&
                  alignof(float4) == 16 && alignof(__nv_bfloat162) == 4,
              "sizes and alignments");

#define DO(call) \
    if (!error) error = (int)(call)

/* Each returns 0 or the first error, and frees everything. */
static int ask_the_device(void) {
    int error = 0, number = 0;
    size_t unused = 0, all = 0;
    cudaDeviceProp properties;
    DO(cudaGetDeviceCount(&number));
    DO(cudaSetDevice(0));
    DO(cudaGetDevice(&number));
    DO(cudaDriverGetVersion(&number));
    DO(cudaRuntimeGetVersion(&number));
    DO(number == CUDART_VERSION ? cudaSuccess : cudaErrorInsufficientDriver);
    DO(cudaMemGetInfo(&unused, &all));
    DO(cudaGetDeviceProperties(&properties, 0));
    DO(properties.major >= 8 && properties.minor >= 0 && properties.name[0]
           ? cudaSuccess
           : cudaErrorNoKernelImageForDevice);
    DO(cudaDeviceGetAttribute(&number, cudaDevAttrComputeCapabilityMajor, 0));
    DO(number == properties.major ? cudaSuccess : cudaErrorInvalidDevice);
    DO(cudaDeviceGetAttribute(&number, cudaDevAttrComputeCapabilityMinor, 0));
    DO(number == properties.minor ? cudaSuccess : cudaErrorInvalidDevice);
    DO(cudaDeviceGetAttribute(&number, cudaDevAttrMultiProcessorCount, 0));
    DO(number == properties.multiProcessorCount ? cudaSuccess : cudaErrorInvalidDevice);
    DO(cudaDeviceGetAttribute(&number, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    DO((size_t)number == properties.sharedMemPerBlockOptin ? cudaSuccess : cudaErrorInvalidDevice);
    DO(all == properties.totalGlobalMem && unused <= all ? cudaSuccess : cudaErrorInvalidDevice);
    return error;
}

static int copy_there_and_back(cudaStream_t stream) {
    int error = 0, n = 12, ok = 1;
    int *device = NULL, *other = NULL, *host = NULL;
    DO(cudaMallocHost(&host, n * sizeof *host));
    DO(cudaMalloc(&device, n * sizeof *device));
    DO(cudaMemset(device, 0, n * sizeof *device));
    DO(cudaDeviceSynchronize());
    DO(cudaMallocAsync(&other, n * sizeof *other, stream));
    DO(cudaMemsetAsync(other, 0xff, n * sizeof *other, stream));
    DO(cudaMemcpyAsync(other, device, n * sizeof *device / 2, cudaMemcpyDeviceToDevice, stream));
    DO(cudaMemcpy2DAsync(host, 4 * sizeof *host, other, 4 * sizeof *host, 3 * sizeof *host, 3,
                         cudaMemcpyDeviceToHost, stream));
    DO(cudaStreamSynchronize(stream));
    for (int i = 0; i < n && !error; i++) ok = ok && (i % 4 == 3 || host[i] == (i < 6 ? 0 : -1));
    DO(cudaMemcpy(host, other, n * sizeof *other, cudaMemcpyDefault));
    DO(ok ? cudaSuccess : cudaErrorInvalidValue);
    cudaError_t freed[] = {cudaFreeHost(host), cudaFree(device), cudaFreeAsync(other, stream)};
    for (cudaError_t f : freed) DO(f);
    return error;
}

static int time_a_kernel(cudaStream_t stream) {
    int error = 0;
    int *device = NULL;
    float ms = -1;
    cudaEvent_t from = NULL, to = NULL;
    DO(cudaEventCreate(&from));
    DO(cudaEventCreate(&to));
    DO(cudaMalloc(&device, 100 * sizeof *device));
    DO(cudaFuncSetAttribute(write_first, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000));
    DO(cudaEventRecord(from, stream));
    if (!error) PPO__LAUNCH(write_first, 1, 32, 100000, stream, device, 100);
    DO(cudaPeekAtLastError());
    DO(cudaGetLastError());
    DO(cudaEventRecord(to, stream));
    DO(cudaEventSynchronize(to));
    DO(cudaEventElapsedTime(&ms, from, to));
    DO(cudaDeviceSynchronize());
    DO(ms >= 0 ? cudaSuccess : cudaErrorInvalidValue);
    cudaError_t freed = cudaFree(device);
    DO(freed);
    if (from) freed = cudaEventDestroy(from);
    DO(freed);
    if (to) freed = cudaEventDestroy(to);
    DO(freed);
    return error;
}

static int multiply_matrices(cudaStream_t stream) {
    int error = 0;
    float *x = NULL, one = 1, zero = 0;
    __nv_bfloat16 *h = NULL;
    cublasHandle_t handle = NULL;
    DO(cublasCreate(&handle));
    DO(cublasSetStream(handle, stream));
    DO(cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH));
    DO(cublasSetMathMode(handle, CUBLAS_PEDANTIC_MATH));
    DO(cublasSetMathMode(handle, CUBLAS_DEFAULT_MATH));
    DO(cudaMalloc(&x, 3 * 8 * sizeof *x));
    DO(cudaMalloc(&h, 2 * 8 * sizeof *h));
    DO(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, 2, 2, 2, &one, x, 2, x + 8, 2, &zero, x + 16, 2));
    DO(cublasSgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, x, 2, 4, x + 8, 2, 4, &zero,
                                 x + 16, 2, 4, 2));
    DO(cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, 2, 2, 2, &one, h, CUDA_R_16BF, 2, h + 8, CUDA_R_16BF, 2,
                    &zero, x, CUDA_R_32F, 2, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    DO(cublasGemmStridedBatchedEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, 2, 2, 2, &one, h, CUDA_R_16BF, 2, 4, h,
                                  CUDA_R_16BF, 2, 4, &zero, h + 8, CUDA_R_16BF, 2, 4, 2, CUBLAS_COMPUTE_32F,
                                  CUBLAS_GEMM_DEFAULT));
    cudaError_t freed[] = {cudaFree(x), cudaFree(h)};
    for (cudaError_t f : freed) DO(f);
    if (handle) {
        cublasStatus_t destroyed = cublasDestroy(handle);
        DO(destroyed);
    }
    return error;
}

static inline int make_every_call(void) {
    int error = 0;
    cudaStream_t stream = NULL;
    DO(ask_the_device());
    DO(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    DO(copy_there_and_back(stream));
    DO(time_a_kernel(stream));
    DO(multiply_matrices(stream));
    if (stream) {
        cudaError_t destroyed = cudaStreamDestroy(stream);
        DO(destroyed);
    }
    return error;
}

#endif /* PPO_TEST_CUDA_KERNELS_FOR_EMULATION_H */
