/* ppo_cuda.cuh - the token-level mathematics of ppo.h on an NVIDIA GPU

   Include it behind the ppo.h that has the implementation, in a file that nvcc compiles:

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_cuda.cuh"

       nvcc -O2 -std=c++17 -arch=native app.cu -lcublas

   Other files, of C too, may include it for the declarations alone. CUDA 12 or later; GPUs of compute capability 8.0
   (A100) or later.

   The functions are those of ppo.h with ppo_cuda_ before their names: the same formulas, argument for argument, and
   where a formula is of one sample, the same inline function. But their arrays lie in the memory of the device
   (cudaMalloc()), results and statistics too, and they queue their work on a stream and return at once. What only
   the numbers can tell, as a logit that is NaN, ppo_cuda_sync() reports:

       ppo_cuda *cuda = NULL;
       if (ppo_cuda_create(0, &cuda)) ...                  no device, an old driver: a status and a sentence
       ppo_cuda_token_logp(cuda, &logits, NULL, token, n, vocab, 1, &rows);             logits are read once
       ppo_cuda_token_logp_backward(cuda, &logits, token, &rows, grad_logp, NULL, n, vocab, 1, &logits);
       if (ppo_cuda_sync(cuda)) fprintf(stderr, "%s\n", ppo_last_error());

   The same arguments give the same bits on the same device, run after run: no sum is made in an order of chance.

   License: that of ppo.h. */
#ifndef PPO_CUDA_CUH
#define PPO_CUDA_CUH

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------------------------------------------------
   1 Base: a device, its stream, its errors
   -------------------------------------------------------------------------------------------------------- */

/* Work that is done on a device one after another. For one host thread at a time. */
typedef struct ppo_cuda ppo_cuda;

/* device: 0 is the first. Errors: PPO_ERROR_DEVICE (none, an old driver or GPU), PPO_ERROR_MEMORY. */
PPO_DEF ppo_status ppo_cuda_create(int device, ppo_cuda **cuda);
PPO_DEF void       ppo_cuda_free(ppo_cuda *cuda);
PPO_DEF void      *ppo_cuda_stream(ppo_cuda *cuda); /* the cudaStream_t on which everything is queued */

/* Waits for all that is queued, and reports the first failure since the last call. */
PPO_DEF ppo_status ppo_cuda_sync(ppo_cuda *cuda);

/* --------------------------------------------------------------------------------------------------------
   2 Tokens: logits (n, vocab) of float or bfloat16, all else float. Arithmetic is in float.
   -------------------------------------------------------------------------------------------------------- */

typedef struct ppo_cuda_logits {
    void *data;
    int   bf16; /* 1: __nv_bfloat16; 0: float */
} ppo_cuda_logits;

/* What one read of the logits leaves, arrays [n]: log softmax(z)[j] = z[j] - max - log_sum, z = logits /
   temperature. */
typedef struct ppo_cuda_rows {
    float *logp;          /* of the token */
    float *entropy;       /* may be NULL, if backward gets no grad_entropy */
    float *max, *log_sum; /* for backward; NULL without */
    float *kl;            /* KL(p || reference), exact; NULL without a reference */
} ppo_cuda_rows;

/* ppo_token_logp(), and the KL to reference logits of the same type, which may be NULL. */
PPO_DEF ppo_status ppo_cuda_token_logp(ppo_cuda *cuda, const ppo_cuda_logits *logits,
                                       const ppo_cuda_logits *reference, const int *token, int n, int vocab,
                                       float temperature, const ppo_cuda_rows *rows);

/* ppo_token_logp_backward() from the rows that forward left. grad_logits has the logits' type and may be the
   logits: in place. grad_logp or grad_entropy may be NULL (0). */
PPO_DEF ppo_status ppo_cuda_token_logp_backward(ppo_cuda *cuda, const ppo_cuda_logits *logits,
                                                const int *token, const ppo_cuda_rows *rows,
                                                const float *grad_logp, const float *grad_entropy, int n,
                                                int vocab, float temperature,
                                                const ppo_cuda_logits *grad_logits);

#ifdef __cplusplus
}
#endif
#endif /* PPO_CUDA_CUH */

/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__CUDA_IMPLEMENTED)
#define PPO__CUDA_IMPLEMENTED

#ifdef __CUDACC__ /* else an emulation, by which the tests run the kernels on the processor */
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#define PPO__LAUNCH(kernel, grid, block, shared, stream, ...) \
    kernel<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__)
#define PPO__DYNAMIC_SHARED(type, name)                             \
    extern __shared__ __align__(16) unsigned char dynamic_shared[]; \
    type *const                                   name = reinterpret_cast<type *>(dynamic_shared)
#define PPO__CUDA_UNROLL _Pragma("unroll")
#else
#define PPO__CUDA_UNROLL
#endif

/* --------------------------------------------------------------------------------------------------------
   1 Base
   -------------------------------------------------------------------------------------------------------- */

/* Who can find a fault in the numbers, and what it says. A fault is one 64-bit number: the number of the call
   << 40, the name << 32, the row or sample; the smallest is the first. */
enum { PPO__CUDA_TOKEN_LOGP, PPO__CUDA_NAMES };
static const char *const ppo__cuda_names[PPO__CUDA_NAMES] = {"ppo_cuda_token_logp"};

typedef unsigned long long ppo__cuda_fault;
#define PPO__NO_FAULT (~0ull)
enum { PPO__ALL_MASKED = 0x7fffffff }; /* as a row */

/* What kernels and their calls share, on the device. */
typedef struct ppo__cuda_shared {
    ppo__cuda_fault fault;
    unsigned        done; /* blocks of a reduction that are; 0 between two */
} ppo__cuda_shared;

struct ppo_cuda {
    int               device, processors; /* streaming multiprocessors */
    cudaStream_t      stream;
    cublasHandle_t    blas;
    ppo__cuda_shared *shared;
    unsigned          calls; /* since the last sync */
    void             *scratch;
    size_t            scratch_size;
};

/* What a kernel needs to report. */
typedef struct ppo__cuda_site {
    ppo__cuda_fault *fault;
    unsigned         call; /* number << 8, name */
} ppo__cuda_site;

static __device__ void ppo__cuda_report(const ppo__cuda_site &site, int row) {
    atomicMin(site.fault, (ppo__cuda_fault)site.call << 32 | (unsigned)row);
}

static ppo__cuda_site ppo__cuda_site_of(ppo_cuda *cuda, int name) {
    return {&cuda->shared->fault, cuda->calls++ << 8 | (unsigned)name};
}

static ppo_status ppo__cuda_status(cudaError_t error, const char *what) {
    if (error == cudaSuccess) return PPO_OK;
    cudaGetLastError(); /* or the next launch would seem to have failed */
    return ppo_fail(error == cudaErrorMemoryAllocation ? PPO_ERROR_MEMORY : PPO_ERROR_DEVICE, "%s: %s (%s)",
                    what, cudaGetErrorString(error), cudaGetErrorName(error));
}

static ppo_status ppo__cuda_launched(const char *what) { return ppo__cuda_status(cudaGetLastError(), what); }

static ppo_status ppo__blas_status(cublasStatus_t status, const char *what) {
    if (status == CUBLAS_STATUS_SUCCESS) return PPO_OK;
    return ppo_fail(status == CUBLAS_STATUS_ALLOC_FAILED ? PPO_ERROR_MEMORY : PPO_ERROR_DEVICE,
                    "%s: cuBLAS: %s", what, cublasGetStatusString(status));
}

/* Memory for what is queued next; the next call may get the same. NULL on failure. */
static void *ppo__cuda_scratch(ppo_cuda *cuda, size_t size) {
    if (size > cuda->scratch_size) {
        cudaFree(cuda->scratch); /* which waits for those that use it */
        cuda->scratch = NULL;
        cuda->scratch_size = 0;
        if (ppo__cuda_status(cudaMalloc(&cuda->scratch, size), "scratch memory")) return NULL;
        cuda->scratch_size = size;
    }
    return cuda->scratch;
}

static ppo_status ppo__cuda_open(ppo_cuda *cuda) {
    int        major = 0;
    ppo_status status = ppo__cuda_status(cudaSetDevice(cuda->device), "the device");
    if (!status)
        status = ppo__cuda_status(
            cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, cuda->device), "the device");
    if (!status && major < 8)
        status =
            ppo_fail(PPO_ERROR_DEVICE, "the device has compute capability %d, it takes 8 or more", major);
    if (!status)
        status = ppo__cuda_status(
            cudaDeviceGetAttribute(&cuda->processors, cudaDevAttrMultiProcessorCount, cuda->device),
            "the device");
    if (!status)
        status =
            ppo__cuda_status(cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking), "a stream");
    if (!status)
        status = ppo__cuda_status(cudaMalloc(&cuda->shared, sizeof *cuda->shared), "the device's memory");
    if (!status)
        status =
            ppo__cuda_status(cudaMemsetAsync(cuda->shared, 0, sizeof *cuda->shared, cuda->stream), "a fill");
    if (!status)
        status = ppo__cuda_status(
            cudaMemsetAsync(&cuda->shared->fault, 0xff, sizeof cuda->shared->fault, cuda->stream), "a fill");
    if (!status) status = ppo__blas_status(cublasCreate(&cuda->blas), "the device");
    if (!status) status = ppo__blas_status(cublasSetStream(cuda->blas, cuda->stream), "the device");
    return status;
}

PPO_DEF ppo_status ppo_cuda_create(int device, ppo_cuda **cuda) {
    if (!cuda) return ppo_fail(PPO_ERROR_ARGUMENT, "ppo_cuda_create: cuda is NULL");
    *cuda = NULL;
    int        count = 0;
    ppo_status status = ppo__cuda_status(cudaGetDeviceCount(&count), "ppo_cuda_create");
    if (status) return status;
    if (device < 0 || device >= count)
        return ppo_fail(PPO_ERROR_DEVICE, "ppo_cuda_create: there is no device %d, there are %d", device,
                        count);
    ppo_cuda *made = (ppo_cuda *)ppo__alloc(sizeof *made);
    if (!made) return PPO_ERROR_MEMORY;
    made->device = device;
    status = ppo__cuda_open(made);
    if (status) ppo_cuda_free(made);
    else *cuda = made;
    return status;
}

PPO_DEF void ppo_cuda_free(ppo_cuda *cuda) {
    if (!cuda) return;
    if (cuda->blas) cublasDestroy(cuda->blas);
    if (cuda->stream) cudaStreamDestroy(cuda->stream);
    cudaFree(cuda->shared);
    cudaFree(cuda->scratch);
    ppo__free(cuda);
}

PPO_DEF void *ppo_cuda_stream(ppo_cuda *cuda) { return cuda ? cuda->stream : NULL; }

PPO_DEF ppo_status ppo_cuda_sync(ppo_cuda *cuda) {
    if (!cuda) return ppo_fail(PPO_ERROR_ARGUMENT, "ppo_cuda_sync: cuda is NULL");
    ppo__cuda_fault fault = PPO__NO_FAULT, *where = &cuda->shared->fault;
    ppo_status      status = ppo__cuda_status(
             cudaMemcpyAsync(&fault, where, sizeof fault, cudaMemcpyDeviceToHost, cuda->stream), "ppo_cuda_sync");
    if (!status) status = ppo__cuda_status(cudaStreamSynchronize(cuda->stream), "ppo_cuda_sync");
    cuda->calls = 0;
    if (status || fault == PPO__NO_FAULT) return status;
    status = ppo__cuda_status(cudaMemsetAsync(where, 0xff, sizeof fault, cuda->stream), "ppo_cuda_sync");
    if (status) return status;
    const char *name = ppo__cuda_names[fault >> 32 & 0xff];
    unsigned    row = (unsigned)fault;
    if (row == PPO__ALL_MASKED) return ppo_fail(PPO_ERROR_ARGUMENT, "%s: all samples are masked", name);
    return ppo_fail(PPO_ERROR_NUMERIC, "%s: row %u gives NaN or infinity", name, row);
}

/* -- rows of numbers, read by a group of threads in pieces of 16 bytes -- */

static __device__ float ppo__cuda_float(float x) { return x; }
static __device__ float ppo__cuda_float(__nv_bfloat16 x) { return __bfloat162float(x); }
static __device__ void  ppo__cuda_set(float *to, float x) { *to = x; }
static __device__ void  ppo__cuda_set(__nv_bfloat16 *to, float x) { *to = __float2bfloat16(x); }

template <class T> struct alignas(16) ppo__pack {
    enum { SIZE = 16 / sizeof(T) };
    T x[SIZE];
};

/* How many elements lie before the first address that 16 divides. */
template <class T> static __device__ int ppo__cuda_head(const T *row, int n) {
    int head = (int)((16 - (uintptr_t)row % 16) % 16 / sizeof(T));
    return head < n ? head : n;
}

/* visit(j, z) for all elements j of ROWS rows: z[r][i] is element j + i of row r as a float, for as many i as the
   array z has. Several loads are on their way before the first is used. */
template <int ROWS, class T, class F>
static __device__ void ppo__cuda_each(const T *const (&row)[ROWS], int n, int thread, int threads, F visit) {
    enum { SIZE = ppo__pack<T>::SIZE, AHEAD = 4 };
    int head = ppo__cuda_head(row[0], n);
    for (int r = 1; r < ROWS; ++r)
        if (ppo__cuda_head(row[r], n) != head) head = n; /* no piece lies straight in both */
    const int packs = (n - head) / SIZE, rest = head + packs * SIZE;
    for (int k = thread; k < packs; k += threads * AHEAD) {
        ppo__pack<T> pack[AHEAD][ROWS];
        PPO__CUDA_UNROLL
        for (int a = 0; a < AHEAD; ++a) {
            PPO__CUDA_UNROLL
            for (int r = 0; r < ROWS; ++r)
                if (k + a * threads < packs)
                    pack[a][r] = ((const ppo__pack<T> *)(row[r] + head))[k + a * threads];
        }
        PPO__CUDA_UNROLL
        for (int a = 0; a < AHEAD; ++a) {
            float z[ROWS][SIZE];
            if (k + a * threads >= packs) break;
            PPO__CUDA_UNROLL
            for (int r = 0; r < ROWS; ++r) {
                PPO__CUDA_UNROLL
                for (int i = 0; i < SIZE; ++i) z[r][i] = ppo__cuda_float(pack[a][r].x[i]);
            }
            visit(head + (k + a * threads) * SIZE, z);
        }
    }
    for (int k = thread; k < head + n - rest; k += threads) { /* what lies before and behind the pieces */
        const int at = k < head ? k : rest + k - head;
        float     z[ROWS][1];
        for (int r = 0; r < ROWS; ++r) z[r][0] = ppo__cuda_float(row[r][at]);
        visit(at, z);
    }
}

/* Writes what change(j, x) makes of the floats x of a row, an array as above, to another row or to the same. */
template <class T, class F>
static __device__ void ppo__cuda_map(const T *from, T *to, int n, int thread, int threads, F change) {
    enum { SIZE = ppo__pack<T>::SIZE };
    int head = ppo__cuda_head(from, n);
    if (ppo__cuda_head(to, n) != head) head = n;
    const int packs = (n - head) / SIZE, rest = head + packs * SIZE;
    for (int k = thread; k < packs; k += threads) {
        ppo__pack<T> pack = ((const ppo__pack<T> *)(from + head))[k];
        float        x[SIZE];
        PPO__CUDA_UNROLL
        for (int i = 0; i < SIZE; ++i) x[i] = ppo__cuda_float(pack.x[i]);
        change(head + k * SIZE, x);
        PPO__CUDA_UNROLL
        for (int i = 0; i < SIZE; ++i) ppo__cuda_set(&pack.x[i], x[i]);
        ((ppo__pack<T> *)(to + head))[k] = pack;
    }
    for (int k = thread; k < head + n - rest; k += threads) {
        const int at = k < head ? k : rest + k - head;
        float     x[1] = {ppo__cuda_float(from[at])};
        change(at, x);
        ppo__cuda_set(&to[at], x[0]);
    }
}

/* A short row belongs to a warp, of which a block has several; a long one to a whole block. */
enum { PPO__SHORT_ROW = 1024, PPO__WARPS = 8, PPO__ROW_THREADS = 512 };

/* This thread's row; n or more where there is none. */
static __device__ int ppo__cuda_row() { return (int)(blockIdx.x * blockDim.y + threadIdx.y); }

/* Launches kernel<T, threads>(job) for n rows of so many elements. */
#define PPO__LAUNCH_ROWS(kernel, T, job, n, length, stream)                                               \
    do {                                                                                                  \
        if ((length) <= PPO__SHORT_ROW)                                                                   \
            PPO__LAUNCH((kernel<T, 32>), dim3(((n)-1) / PPO__WARPS + 1), dim3(32, PPO__WARPS), 0, stream, \
                        job);                                                                             \
        else PPO__LAUNCH((kernel<T, PPO__ROW_THREADS>), dim3(n), dim3(PPO__ROW_THREADS), 0, stream, job); \
    } while (0)

/* -- sums over arrays, in an order that does not depend on chance --

   A job has a struct Sum with clear() and merge(), visit(i, sum) for element i, and done(sum), which one thread calls
   with the sum of all n. The block that ends last adds up what the others left in `partial`. */

enum { PPO__SUM_THREADS = 256, PPO__SUM_BLOCKS = 256 };

template <class S> static __device__ S ppo__cuda_block_sum(S sum) {
    __shared__ S part[PPO__SUM_THREADS];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = PPO__SUM_THREADS / 2; half; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x].merge(part[threadIdx.x + half]);
        __syncthreads();
    }
    return part[0];
}

template <class J>
static __global__ void ppo__cuda_sum_kernel(J job, int n, typename J::Sum *partial, unsigned *done) {
    __shared__ unsigned order;
    typename J::Sum     sum;
    sum.clear();
    for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += (int)(gridDim.x * blockDim.x))
        job.visit(i, sum);
    sum = ppo__cuda_block_sum(sum);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        order = atomicAdd(done, 1u);
    }
    __syncthreads();
    if (order != gridDim.x - 1) return;
    __threadfence();
    sum.clear();
    if (threadIdx.x < gridDim.x) sum = partial[threadIdx.x];
    sum = ppo__cuda_block_sum(sum);
    if (threadIdx.x) return;
    *done = 0;
    job.done(sum);
}

/* n is above 0. */
template <class J> static ppo_status ppo__cuda_sum(ppo_cuda *cuda, const char *name, const J &job, int n) {
    enum { EACH = 8 }; /* elements that a thread takes at least */
    typedef typename J::Sum Sum;
    const int               blocks = (n - 1) / (PPO__SUM_THREADS * EACH) + 1;
    const int               grid = blocks < PPO__SUM_BLOCKS ? blocks : (int)PPO__SUM_BLOCKS;
    Sum                    *partial = (Sum *)ppo__cuda_scratch(cuda, PPO__SUM_BLOCKS * sizeof(Sum));
    if (!partial) return PPO_ERROR_MEMORY;
    PPO__LAUNCH((ppo__cuda_sum_kernel<J>), dim3(grid), dim3(PPO__SUM_THREADS), 0, cuda->stream, job, n,
                partial, &cuda->shared->done);
    return ppo__cuda_launched(name);
}

/* -- one thread for each of n elements -- */

template <class F> static __global__ void ppo__cuda_for_kernel(F each, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        each(i);
}

/* each(i) for i = 0 .. n - 1: a struct with a const __device__ operator()(size_t). */
template <class F>
static ppo_status ppo__cuda_for(ppo_cuda *cuda, const char *name, const F &each, size_t n) {
    enum { THREADS = 256, BLOCKS = 1 << 16 };
    const size_t blocks = (n + THREADS - 1) / THREADS;
    if (!n) return PPO_OK;
    PPO__LAUNCH((ppo__cuda_for_kernel<F>), dim3((unsigned)(blocks < BLOCKS ? blocks : (size_t)BLOCKS)),
                dim3(THREADS), 0, cuda->stream, each, n);
    return ppo__cuda_launched(name);
}

/* --------------------------------------------------------------------------------------------------------
   2 Tokens
   -------------------------------------------------------------------------------------------------------- */

/* Softmax in one read (Milakov and Gimelshein 2018): sums relative to the largest z so far. */
struct ppo__online {
    float max, sum, dot; /* max z, sum e^(z - max), sum e^(z - max) (z - max) */

    __device__ void clear() { max = -FLT_MAX, sum = dot = 0; } /* not -inf: less itself that is NaN */

    /* Moves the sums to a maximum of at least `top`. Returns by how much z - max has changed for them. */
    __device__ float raise(float top) {
        if (!(top > max)) return 0;
        const float shift = max - top, factor = __expf(shift);
        dot = sum == 0 ? 0 : factor * (dot + shift * sum); /* an infinite shift of nothing */
        sum *= factor;
        max = top;
        return shift;
    }

    /* z is at most max, which raise() has seen to. Returns e^(z - max). */
    __device__ float add(float z) {
        const float d = z - max, e = __expf(d);
        sum += e;
        if (e != 0) dot += e * d; /* for 0 times infinity is NaN */
        return e;
    }

    __device__ void merge(ppo__online other) {
        raise(other.max);
        other.raise(max);
        sum += other.sum, dot += other.dot;
    }

    __device__ ppo__online from_lane(int distance) const {
        return {__shfl_xor_sync(~0u, max, distance), __shfl_xor_sync(~0u, sum, distance),
                __shfl_xor_sync(~0u, dot, distance)};
    }
};

/* Two rows at once. */
struct ppo__online_pair {
    ppo__online p, q;
    float       cross; /* sum e^(z - max) ((z - max) - (z' - max')), z' and max' of q */

    __device__ void clear() { p.clear(), q.clear(), cross = 0; }

    __device__ void raise(float top, float q_top) {
        const float sum = p.sum, max = p.max, shift = p.raise(top), q_shift = q.raise(q_top);
        if (sum == 0) return;
        cross += sum * (shift - q_shift);
        if (p.max != max) cross *= __expf(shift);
    }

    __device__ void add(float z, float q_z) {
        const float e = p.add(z);
        q.add(q_z);
        if (e != 0) cross += e * ((z - p.max) - (q_z - q.max));
    }

    __device__ void merge(ppo__online_pair other) {
        raise(other.p.max, other.q.max);
        other.raise(p.max, q.max);
        p.merge(other.p), q.merge(other.q);
        cross += other.cross;
    }

    __device__ ppo__online_pair from_lane(int distance) const {
        return {p.from_lane(distance), q.from_lane(distance), __shfl_xor_sync(~0u, cross, distance)};
    }
};

/* Of all threads of a group, which is a warp or the block; all of them get it. */
template <int THREADS, class S> static __device__ S ppo__cuda_merge(S x) {
    for (int distance = 16; distance; distance /= 2) x.merge(x.from_lane(distance));
    if (THREADS == 32) return x;
    __shared__ S warp[THREADS / 32];
    if (threadIdx.x % 32 == 0) warp[threadIdx.x / 32] = x;
    __syncthreads();
    x = warp[0];
    for (int w = 1; w < THREADS / 32; ++w) x.merge(warp[w]);
    return x;
}

template <class T> struct ppo__token_job {
    const T       *logits, *reference;
    const int     *token;
    int            n, vocab;
    float          inv_temperature;
    ppo_cuda_rows  rows;
    ppo__cuda_site site;
};

template <class T>
static __device__ void ppo__cuda_write_row(const ppo__token_job<T> &job, int row, const ppo__online &p,
                                           const T *logits) {
    const int   token = job.token[row];
    const float log_sum = logf(p.sum), entropy = log_sum - p.dot / p.sum;
    const int   there = token >= 0 && token < job.vocab;
    const float logp = there ? ppo__cuda_float(logits[token]) * job.inv_temperature - p.max - log_sum : NAN;
    if (!(logp < INFINITY)) ppo__cuda_report(job.site, row);
    job.rows.logp[row] = ppo__at_most_0(logp);
    if (job.rows.entropy) job.rows.entropy[row] = -ppo__at_most_0(-entropy);
    if (job.rows.max) job.rows.max[row] = p.max;
    if (job.rows.log_sum) job.rows.log_sum[row] = log_sum;
}

template <class T, int THREADS> static __global__ void ppo__token_logp_kernel(ppo__token_job<T> job) {
    const int row = ppo__cuda_row(), lane = (int)threadIdx.x;
    if (row >= job.n) return;
    const T *const from[1] = {job.logits + (size_t)row * job.vocab};
    const float    inv = job.inv_temperature;
    ppo__online    p;
    p.clear();
    ppo__cuda_each(from, job.vocab, lane, THREADS, [&](int, auto &x) {
        float top = -INFINITY;
        for (float v : x[0]) top = fmaxf(top, v * inv);
        p.raise(top);
        for (float v : x[0]) p.add(v * inv);
    });
    p = ppo__cuda_merge<THREADS>(p);
    if (lane == 0) ppo__cuda_write_row(job, row, p, from[0]);
}

/* The same, and the KL to the reference: sum p ((z - max) - (z' - max')) - log_sum + log_sum'. */
template <class T, int THREADS> static __global__ void ppo__token_kl_kernel(ppo__token_job<T> job) {
    const int row = ppo__cuda_row(), lane = (int)threadIdx.x;
    if (row >= job.n) return;
    const size_t     at = (size_t)row * job.vocab;
    const T *const   from[2] = {job.logits + at, job.reference + at};
    const float      inv = job.inv_temperature;
    ppo__online_pair x;
    x.clear();
    ppo__cuda_each(from, job.vocab, lane, THREADS, [&](int, auto &z) {
        float top = -INFINITY, q_top = -INFINITY;
        for (float v : z[0]) top = fmaxf(top, v * inv);
        for (float v : z[1]) q_top = fmaxf(q_top, v * inv);
        x.raise(top, q_top);
        for (int i = 0; i < (int)(sizeof z[0] / sizeof *z[0]); ++i) x.add(z[0][i] * inv, z[1][i] * inv);
    });
    x = ppo__cuda_merge<THREADS>(x);
    if (lane) return;
    ppo__cuda_write_row(job, row, x.p, from[0]);
    const float kl = x.cross / x.p.sum - logf(x.p.sum / x.q.sum);
    if (!(kl < INFINITY)) ppo__cuda_report(job.site, row);
    job.rows.kl[row] = kl < 0 ? 0 : kl;
}

/* d logp / d z_j = [j = token] - p_j;  d entropy / d z_j = -p_j (log p_j + entropy). */
template <class T> struct ppo__token_gradient {
    const T      *logits;
    T            *grad_logits;
    const int    *token;
    int           n, vocab;
    float         inv_temperature;
    ppo_cuda_rows rows;
    const float  *grad_logp, *grad_entropy; /* [n] or NULL */
};

template <class T, int THREADS>
static __global__ void ppo__token_gradient_kernel(ppo__token_gradient<T> job) {
    const int row = ppo__cuda_row();
    if (row >= job.n) return;
    const size_t at = (size_t)row * job.vocab;
    const int    token = job.token[row];
    const float  inv = job.inv_temperature, max = job.rows.max[row], log_sum = job.rows.log_sum[row];
    const float  grad = job.grad_logp ? job.grad_logp[row] : 0;
    const float  grad_entropy = job.grad_entropy ? job.grad_entropy[row] : 0;
    const float  entropy = job.grad_entropy ? job.rows.entropy[row] : 0;
    ppo__cuda_map(job.logits + at, job.grad_logits + at, job.vocab, (int)threadIdx.x, THREADS,
                  [&](int j, auto &x) {
                      for (int i = 0; i < (int)(sizeof x / sizeof *x); ++i) {
                          const float logp = x[i] * inv - max - log_sum, p = __expf(logp);
                          float       d = p == 0 ? 0 : -p * (grad + grad_entropy * (logp + entropy));
                          if (j + i == token) d += grad;
                          x[i] = d * inv;
                      }
                  });
}

static ppo_status ppo__cuda_check_rows(const char *name, int given, int n, int vocab, float temperature) {
    if (!given) return ppo_fail(PPO_ERROR_ARGUMENT, "%s: an argument is NULL", name);
    if (n <= 0 || vocab <= 0) return ppo_fail(PPO_ERROR_ARGUMENT, "%s: %d rows of %d logits", name, n, vocab);
    if (!(temperature > 0) || !ppo__finite(temperature))
        return ppo_fail(PPO_ERROR_ARGUMENT, "%s: temperature is %g, must be above 0", name,
                        (double)temperature);
    return PPO_OK;
}

template <class T>
static ppo_status ppo__cuda_token_logp(ppo_cuda *cuda, const ppo_cuda_logits *logits,
                                       const ppo_cuda_logits *reference, const int *token, int n, int vocab,
                                       float temperature, const ppo_cuda_rows *rows) {
    ppo__token_job<T> job = {(const T *)logits->data,
                             reference ? (const T *)reference->data : NULL,
                             token,
                             n,
                             vocab,
                             1 / temperature,
                             *rows,
                             ppo__cuda_site_of(cuda, PPO__CUDA_TOKEN_LOGP)};
    if (reference) PPO__LAUNCH_ROWS(ppo__token_kl_kernel, T, job, n, vocab, cuda->stream);
    else PPO__LAUNCH_ROWS(ppo__token_logp_kernel, T, job, n, vocab, cuda->stream);
    return ppo__cuda_launched("ppo_cuda_token_logp");
}

PPO_DEF ppo_status ppo_cuda_token_logp(ppo_cuda *cuda, const ppo_cuda_logits *logits,
                                       const ppo_cuda_logits *reference, const int *token, int n, int vocab,
                                       float temperature, const ppo_cuda_rows *rows) {
    const int given = cuda && logits && logits->data && token && rows && rows->logp &&
                      (!reference || (reference->data && rows->kl));
    ppo_status status = ppo__cuda_check_rows("ppo_cuda_token_logp", given, n, vocab, temperature);
    if (!status && reference && reference->bf16 != logits->bf16)
        status = ppo_fail(PPO_ERROR_ARGUMENT, "ppo_cuda_token_logp: logits and reference differ in type");
    if (status) return status;
    return logits->bf16
               ? ppo__cuda_token_logp<__nv_bfloat16>(cuda, logits, reference, token, n, vocab, temperature,
                                                     rows)
               : ppo__cuda_token_logp<float>(cuda, logits, reference, token, n, vocab, temperature, rows);
}

template <class T>
static ppo_status ppo__cuda_token_gradient(ppo_cuda *cuda, const ppo_cuda_logits *logits, const int *token,
                                           const ppo_cuda_rows *rows, const float *grad_logp,
                                           const float *grad_entropy, int n, int vocab, float temperature,
                                           const ppo_cuda_logits *grad_logits) {
    ppo__token_gradient<T> job = {(const T *)logits->data,
                                  (T *)grad_logits->data,
                                  token,
                                  n,
                                  vocab,
                                  1 / temperature,
                                  *rows,
                                  grad_logp,
                                  grad_entropy};
    PPO__LAUNCH_ROWS(ppo__token_gradient_kernel, T, job, n, vocab, cuda->stream);
    return ppo__cuda_launched("ppo_cuda_token_logp_backward");
}

PPO_DEF ppo_status ppo_cuda_token_logp_backward(ppo_cuda *cuda, const ppo_cuda_logits *logits,
                                                const int *token, const ppo_cuda_rows *rows,
                                                const float *grad_logp, const float *grad_entropy, int n,
                                                int vocab, float temperature,
                                                const ppo_cuda_logits *grad_logits) {
    const int given = cuda && logits && logits->data && token && rows && rows->max && rows->log_sum &&
                      grad_logits && grad_logits->data && (!grad_entropy || rows->entropy);
    ppo_status status = ppo__cuda_check_rows("ppo_cuda_token_logp_backward", given, n, vocab, temperature);
    if (!status && grad_logits->bf16 != logits->bf16)
        status =
            ppo_fail(PPO_ERROR_ARGUMENT, "ppo_cuda_token_logp_backward: logits and gradients differ in type");
    if (status) return status;
    return logits->bf16
               ? ppo__cuda_token_gradient<__nv_bfloat16>(cuda, logits, token, rows, grad_logp, grad_entropy,
                                                         n, vocab, temperature, grad_logits)
               : ppo__cuda_token_gradient<float>(cuda, logits, token, rows, grad_logp, grad_entropy, n, vocab,
                                                 temperature, grad_logits);
}

#endif
