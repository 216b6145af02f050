/* ppo_cuda.cuh - language models of ppo.h, and its functions on tokens, on an NVIDIA GPU. It has never run on hardware:
   it is compiled by nvcc, and tested in an emulation.

   Include it after the ppo.h that has the implementation, in a file that nvcc compiles:

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_cuda.cuh"

       nvcc -O2 -std=c++17 -arch=sm_80 app.cu -lcublas      (or the GPU's own, such as sm_90: then its driver
                                                             need not compile when the program starts)

   Other files, also those in C, may include it for its declarations only. Needs CUDA 12 or later, and a GPU
   of compute capability 8.0 (A100) or later, for which nvcc must be given -arch.

ONE CALL

       if (ppo_use_cuda(0)) fprintf(stderr, "%s\n", ppo_last_error());     on failure the processor is used

   From then on this thread trains and samples language models on the GPU: supervised fine-tuning, reward
   models, DPO, PPO on tokens, generation. The rest of the program stays the same (section 8). A program
   with ppo_hub.h (LoRA) includes it before this file.

A LA CARTE

   The other functions are the plain functions of ppo.h with the prefix ppo_cuda_, for your own loop and
   network. Arguments and formulas are the same, and a formula of one sample is the same inline function. But
   all arrays, results and statistics are in device memory (cudaMalloc()), and a call queues its work on a
   stream and returns at once. ppo_cuda_sync() reports errors that depend on the numbers, such as a logit that
   is NaN:

       ppo_cuda *cuda = NULL;
       if (ppo_cuda_create(0, &cuda)) ...                  no device, an old driver: a status and a sentence
       ppo_cuda_token_logp(cuda, &logits, NULL, token, n, vocab, 1, &rows);             logits are read once
       ppo_cuda_policy_loss(cuda, rows.logp, old_logp, advantage, mask, n, &objective, stats, grad_logp);
       ppo_cuda_token_logp_backward(cuda, &logits, token, &rows, grad_logp, NULL, n, vocab, 1, &logits);
       if (ppo_cuda_sync(cuda)) fprintf(stderr, "%s\n", ppo_last_error());

   The same arguments give the same bits in every run on the same device: all sums have a fixed order.

   License: that of ppo.h. */
#ifndef PPO_CUDA_CUH
#define PPO_CUDA_CUH
#ifndef PPO_H
#error "include ppo.h before ppo_cuda.cuh"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------------------------------------------------
   1 Base: a device, its stream, its errors
   -------------------------------------------------------------------------------------------------------- */

/* A device, and a stream that does its work in order. Use it on one host thread at a time. Its device must be
   the thread's current one: ppo_cuda_create() makes it so; call cudaSetDevice() on another thread, or after
   you used another device. */
typedef struct ppo_cuda ppo_cuda;

/* device: 0 is the first. Errors: PPO_ERROR_DEVICE (no such device, the driver or the GPU is too old),
   PPO_ERROR_MEMORY. */
PPO_DEF ppo_status ppo_cuda_create(int device, ppo_cuda **cuda);
PPO_DEF void ppo_cuda_free(ppo_cuda *cuda);
PPO_DEF void *ppo_cuda_stream(ppo_cuda *cuda); /* the cudaStream_t on which everything is queued */

/* Waits for all queued work, and reports the first failure since the last call. */
PPO_DEF ppo_status ppo_cuda_sync(ppo_cuda *cuda);

/* --------------------------------------------------------------------------------------------------------
   2 Tokens: logits (n, vocab) are float or bfloat16, all other numbers float. Arithmetic is in float.
   -------------------------------------------------------------------------------------------------------- */

typedef struct ppo_cuda_logits {
    void *data;
    int bf16; /* 1: __nv_bfloat16; 0: float */
} ppo_cuda_logits;

/* Results of one read of the logits, arrays [n]. With z = logits / temperature,
   log softmax(z)[j] = z[j] - max - log_sum. */
typedef struct ppo_cuda_rows {
    float *logp;          /* of the token */
    float *entropy;       /* backward needs it with grad_entropy; else NULL is allowed */
    float *max, *log_sum; /* backward needs them; else NULL is allowed */
    float *kl;            /* KL(p || reference), exact; without a reference NULL is allowed */
} ppo_cuda_rows;

/* ppo_token_logp(), and the KL to `reference`, logits of the same type, which may be NULL. */
PPO_DEF ppo_status ppo_cuda_token_logp(ppo_cuda *cuda, const ppo_cuda_logits *logits,
                                       const ppo_cuda_logits *reference, const int *token, int n, int vocab,
                                       float temperature, const ppo_cuda_rows *rows);

/* ppo_token_logp_backward(), with the rows of the forward call. grad_logits has the type of the logits and
   may be the logits (in place). grad_logp and grad_entropy may be NULL (0). */
PPO_DEF ppo_status ppo_cuda_token_logp_backward(ppo_cuda *cuda, const ppo_cuda_logits *logits,
                                                const int *token, const ppo_cuda_rows *rows,
                                                const float *grad_logp, const float *grad_entropy, int n,
                                                int vocab, float temperature,
                                                const ppo_cuda_logits *grad_logits);

/* --------------------------------------------------------------------------------------------------------
   3 Advantages: time-major arrays [steps][envs]
   -------------------------------------------------------------------------------------------------------- */

/* ppo_gae(), for at most 2^30 advantages. terminated, truncated and value_target may be NULL; advantage may
   be one of the input arrays. */
PPO_DEF ppo_status ppo_cuda_gae(ppo_cuda *cuda, const float *reward, const float *value,
                                const float *next_value, const unsigned char *terminated,
                                const unsigned char *truncated, int steps, int envs, float gamma,
                                float lambda, float *advantage, float *value_target);

/* ppo_whiten(). mask may be NULL (all 1). Changes nothing if an unmasked number is not finite. */
PPO_DEF ppo_status ppo_cuda_whiten(ppo_cuda *cuda, float *x, const unsigned char *mask, int n,
                                   int shift_mean);

/* --------------------------------------------------------------------------------------------------------
   4 Losses: arrays [n]; *stats and *loss are on the device, too. mask, stats, loss and gradients may be NULL.
   -------------------------------------------------------------------------------------------------------- */

/* ppo_policy_loss() */
PPO_DEF ppo_status ppo_cuda_policy_loss(ppo_cuda *cuda, const float *logp, const float *old_logp,
                                        const float *advantage, const unsigned char *mask, int n,
                                        const ppo_policy_objective *objective, ppo_policy_stats *stats,
                                        float *grad_logp);

/* ppo_huber_value_loss(). old_value may be NULL if clip_range <= 0. */
PPO_DEF ppo_status ppo_cuda_value_loss(ppo_cuda *cuda, const float *value, const float *old_value,
                                       const float *target, const unsigned char *mask, int n,
                                       float clip_range, float delta, float *loss, float *grad_value);

/* ppo_kl_estimate() */
PPO_DEF ppo_status ppo_cuda_kl_estimate(ppo_cuda *cuda, const float *logp, const float *ref_logp, int n,
                                        ppo_kl_estimator estimator, float *kl);

/* --------------------------------------------------------------------------------------------------------
   5 Optimizer: arrays [n], fastest where all of them begin at multiples of 16 bytes
   -------------------------------------------------------------------------------------------------------- */

/* Sets *norm, on the device, to the Euclidean norm of scale grad, which may be NaN or infinite. */
PPO_DEF ppo_status ppo_cuda_grad_norm(ppo_cuda *cuda, const float *grad, size_t n, float scale, float *norm);

/* ppo_adam_step() with the gradient scale grad, clipped as ppo_clip_grad_norm() does if its norm is *norm, on
   the device (max_norm <= 0: no limit). norm may be NULL: no clipping. Does not change grad. Changes nothing
   if *norm is not finite; ppo_cuda_sync() then reports the step. Changes nothing either after a call whose
   failure has not been reported yet, so that a NaN in a loss never reaches the parameters. */
PPO_DEF ppo_status ppo_cuda_adam_step(ppo_cuda *cuda, float *param, const float *grad, float *m, float *v,
                                      size_t n, const ppo_adam *adam, int64_t step, float scale,
                                      const float *norm, float max_norm);

/* --------------------------------------------------------------------------------------------------------
   6 Sampling from a language model: logits as in section 2
   -------------------------------------------------------------------------------------------------------- */

/* Draws token[i] for each row i with ppo_sampling_probabilities(). how is on the host. Row i takes one number
   from rng[stream[i]], on the device, also if greedy, as ppo_generate() does; no two rows may share a stream.
   stream [n] may be NULL: row i uses rng[i]. logp [n] may be NULL; it is the log-probability of the token
   before top_k and top_p. A row whose logits are not finite takes no number, and gets token 0 and logp NaN;
   ppo_cuda_sync() reports it. */
PPO_DEF ppo_status ppo_cuda_sample(ppo_cuda *cuda, const ppo_cuda_logits *logits, int n, int vocab,
                                   const ppo_sampling *how, ppo_rng *rng, const int *stream, int *token,
                                   float *logp);

/* --------------------------------------------------------------------------------------------------------
   7 Linear and loss: logits = x w^T are computed a tile of rows at a time, and never stored in full
   -------------------------------------------------------------------------------------------------------- */

/* Hidden states x (n, width) and the vocabulary's matrix w (vocab, width), such as GPT's token embedding.
   Logits and sums are float, without TF32. Fastest where width is a multiple of 8. Bits also depend on n,
   because cuBLAS may sum in another order for another size. */
typedef struct ppo_cuda_linear {
    const void *x, *w;
    int bf16; /* both 1: __nv_bfloat16; 0: float */
    int n, width, vocab;
} ppo_cuda_linear;

/* ppo_cuda_token_logp() of these logits, without a reference. */
PPO_DEF ppo_status ppo_cuda_linear_token_logp(ppo_cuda *cuda, const ppo_cuda_linear *linear, const int *token,
                                              float temperature, const ppo_cuda_rows *rows);

/* The gradients of that, with the rows of the forward call; computes the logits again. Overwrites grad_x
   (n, width), which has the type of x; adds to grad_w (vocab, width), which is always float. Each may be
   NULL, as may grad_logp and grad_entropy (0). */
PPO_DEF ppo_status ppo_cuda_linear_token_logp_backward(ppo_cuda *cuda, const ppo_cuda_linear *linear,
                                                       const int *token, const ppo_cuda_rows *rows,
                                                       const float *grad_logp, const float *grad_entropy,
                                                       float temperature, void *grad_x, float *grad_w);

/* ppo_policy_loss() - entropy_coef times the mean entropy: forward and backward in one call, which saves a
   matrix product. mask may be NULL (all 1). A masked sample has no effect, whatever its token: its elements
   of rows and grad_x are set to 0. Of rows only logp is required. stats, on the device, are those of
   ppo_policy_loss(). stats, grad_x and grad_w may be NULL; the gradients are as above. */
PPO_DEF ppo_status ppo_cuda_linear_policy_loss(ppo_cuda *cuda, const ppo_cuda_linear *linear,
                                               const int *token, float temperature, const float *old_logp,
                                               const float *advantage, const unsigned char *mask,
                                               const ppo_policy_objective *objective, float entropy_coef,
                                               const ppo_cuda_rows *rows, ppo_policy_stats *stats,
                                               void *grad_x, float *grad_w);

/* --------------------------------------------------------------------------------------------------------
   8 Language models on the device
   -------------------------------------------------------------------------------------------------------- */

/* From now on this thread computes language models on a GPU, 0 is the first: forward, backward, Adam and
   sampling, in generators, ppo_fit_...(), ppo_lm_scores(), ppo_lm_logp(), reward models and trainers of PPO
   on tokens (sections 18 to 22 of ppo.h). Models, and the cached keys and values of generators, stay on the
   GPU. Call ppo_params_sync() before you read or change a model's numbers yourself; nothing else in the
   program changes. Only one thread at a time may use a model then, even to read it. An attention head has at
   most 256 numbers there; the last bits of results differ from the processor's.
   -1: on the processor again; brings the models' numbers back. Call it also before the thread ends. If the
   device fails then, the models keep the numbers that were last brought back.
   Errors, which change nothing: those of ppo_cuda_create(); a trainer or generator still uses the device. */
PPO_DEF ppo_status ppo_use_cuda(int device);

#ifdef __cplusplus
}
#endif
#endif /* PPO_CUDA_CUH */

/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__CUDA_IMPLEMENTED)
#define PPO__CUDA_IMPLEMENTED
#if !defined(__CUDACC__) && !defined(PPO_TEST_CUDA_EMULATION_H)
#error "nvcc compiles the implementation of ppo_cuda.cuh: nvcc -x cu, or a file whose name ends in .cu"
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "ppo_cuda.cuh needs a GPU of compute capability 8.0 or later: nvcc -arch=sm_80"
#else

#ifdef __CUDACC__ /* else an emulation: the tests run the kernels on the processor */
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#define PPO__LAUNCH(kernel, grid, block, shared, stream, ...) \
    kernel<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__)
#define PPO__DYNAMIC_SHARED(type, name)                             \
    extern __shared__ __align__(16) unsigned char dynamic_shared[]; \
    type *const name = reinterpret_cast<type *>(dynamic_shared)
#define PPO__CUDA_UNROLL _Pragma("unroll")
#else
#define PPO__CUDA_UNROLL
#endif

/* --------------------------------------------------------------------------------------------------------
   1 Base
   -------------------------------------------------------------------------------------------------------- */

/* The functions that report faults in the numbers, and their names in the sentence. A fault is one 64-bit
   number: the number of the call << 40, the function << 32, the row or sample. The smallest is the first. */
enum {
    PPO__CUDA_TOKEN_LOGP,
    PPO__CUDA_GAE,
    PPO__CUDA_WHITEN,
    PPO__CUDA_POLICY_LOSS,
    PPO__CUDA_VALUE_LOSS,
    PPO__CUDA_KL_ESTIMATE,
    PPO__CUDA_ADAM_STEP,
    PPO__CUDA_SAMPLE,
    PPO__CUDA_LINEAR_TOKEN_LOGP,
    PPO__CUDA_LINEAR_POLICY_LOSS,
    PPO__CUDA_PAIR_LOSS,
    PPO__CUDA_NAMES
};
static const char *const ppo__cuda_names[PPO__CUDA_NAMES] = {"ppo_cuda_token_logp",
                                                             "ppo_cuda_gae",
                                                             "ppo_cuda_whiten",
                                                             "ppo_cuda_policy_loss",
                                                             "ppo_cuda_value_loss",
                                                             "ppo_cuda_kl_estimate",
                                                             "ppo_cuda_adam_step",
                                                             "ppo_cuda_sample",
                                                             "ppo_cuda_linear_token_logp",
                                                             "ppo_cuda_linear_policy_loss",
                                                             "pair_loss"};

typedef unsigned long long ppo__cuda_fault;
#define PPO__NO_FAULT (~0ull)
enum { PPO__ALL_MASKED = 0x7fffffff }; /* instead of a row */

/* On the device, for all kernels. */
typedef struct ppo__cuda_shared {
    ppo__cuda_fault fault;
    unsigned done; /* blocks that have finished in this reduction; 0 between two */
    float norm;    /* of the gradients of a step */
} ppo__cuda_shared;

/* Section 8: data on its way between host and device is staged in pinned memory. */
typedef struct ppo__pending_copy { /* to the host */
    void *to;
    size_t at, size;     /* of its bytes in the staging memory */
    ppo_params *stepped; /* not NULL: the bytes are a fault; if there was one, these made no step */
} ppo__pending_copy;
typedef struct ppo__staging {
    char *memory;
    size_t used;
    ppo__pending_copy *copy;
    int count;
} ppo__staging;

struct ppo_cuda {
    ppo__device device; /* what ppo.h sees (section 8); the first member */
    cudaStream_t stream;
    cublasHandle_t blas;
    ppo__cuda_shared *shared;
    unsigned calls; /* since the last sync */
    void *scratch;  /* grows as needed */
    size_t scratch_size;
    size_t linear_bytes; /* most memory for the logits of a tile, in section 7 */
    ppo__staging staging;
    ppo_status failed; /* section 8: the first failure since the last settle(), and its sentence */
    char error[PPO__ERROR_SIZE];
};

/* Where a kernel reports a fault, and as which call. */
typedef struct ppo__cuda_site {
    ppo__cuda_fault *fault;
    unsigned call; /* number << 8, function */
} ppo__cuda_site;

static __device__ void ppo__cuda_report(const ppo__cuda_site &site, int row) {
    atomicMin(site.fault, (ppo__cuda_fault)site.call << 32 | (unsigned)row);
}

static ppo__cuda_site ppo__cuda_site_of(ppo_cuda *cuda, int name) {
    return {&cuda->shared->fault, cuda->calls++ << 8 | (unsigned)name};
}

static ppo_status ppo__cuda_status(cudaError_t error, const char *what) {
    if (error == cudaSuccess) return PPO_OK;
    cudaGetLastError(); /* clears it, or the next launch would seem to have failed */
    return ppo_fail(error == cudaErrorMemoryAllocation ? PPO_ERROR_MEMORY : PPO_ERROR_DEVICE, "%s: %s (%s)",
                    what, cudaGetErrorString(error), cudaGetErrorName(error));
}

static ppo_status ppo__cuda_clear_fault(ppo_cuda *cuda, const char *what) {
    ppo__cuda_fault *fault = &cuda->shared->fault;
    return ppo__cuda_status(cudaMemsetAsync(fault, 0xff, sizeof *fault, cuda->stream), what);
}

static ppo_status ppo__cuda_launched(const char *what) { return ppo__cuda_status(cudaGetLastError(), what); }

static ppo_status ppo__blas_status(cublasStatus_t status, const char *what) {
    if (status == CUBLAS_STATUS_SUCCESS) return PPO_OK;
    cudaGetLastError(); /* as above, because cuBLAS launches kernels */
    return ppo_fail(status == CUBLAS_STATUS_ALLOC_FAILED ? PPO_ERROR_MEMORY : PPO_ERROR_DEVICE,
                    "%s: cuBLAS: %s", what, cublasGetStatusString(status));
}

/* Memory for what is queued next; the next call may return the same memory. NULL on failure. */
static void *ppo__cuda_scratch(ppo_cuda *cuda, size_t size) {
    if (size <= cuda->scratch_size) return cuda->scratch;
    cudaFree(cuda->scratch); /* which waits for the kernels that use it */
    cuda->scratch = NULL;
    cuda->scratch_size = 0;
    if (ppo__cuda_status(cudaMalloc(&cuda->scratch, size), "the device's memory")) return NULL;
    cuda->scratch_size = size;
    return cuda->scratch;
}

static ppo_status ppo__cuda_open(ppo_cuda *cuda, int device) {
    const char *const what = "the device";
    int major = 0;
    if (ppo__cuda_status(cudaSetDevice(device), what) ||
        ppo__cuda_status(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), what))
        return ppo__failed;
    if (major < 8)
        return ppo_fail(PPO_ERROR_DEVICE, "the device has compute capability %d, must be at least 8", major);
    if (ppo__cuda_status(cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking), "a stream") ||
        ppo__cuda_status(cudaMalloc(&cuda->shared, sizeof *cuda->shared), "the device's memory") ||
        ppo__cuda_status(cudaMemsetAsync(cuda->shared, 0, sizeof *cuda->shared, cuda->stream), "a fill") ||
        ppo__cuda_clear_fault(cuda, "a fill") || ppo__blas_status(cublasCreate(&cuda->blas), what) ||
        ppo__blas_status(cublasSetStream(cuda->blas, cuda->stream), what))
        return ppo__failed;
    /* no TF32; partial sums are float even where the result is bf16 */
    return ppo__blas_status(cublasSetMathMode(cuda->blas, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
                            what);
}

PPO_DEF ppo_status ppo_cuda_create(int device, ppo_cuda **cuda) {
    if (!PPO__GIVEN("ppo_cuda_create", cuda)) return PPO_ERROR_ARGUMENT;
    *cuda = NULL;
    int count = 0;
    ppo_status status =
        ppo__cuda_status(cudaGetDeviceCount(&count), "there is no GPU, or its driver is too old");
    if (status) return status;
    if (device < 0 || device >= count)
        return ppo_fail(PPO_ERROR_DEVICE, "there is no device %d, the last one is %d", device, count - 1);
    ppo_cuda *made = (ppo_cuda *)ppo__alloc(sizeof *made);
    if (!made) return PPO_ERROR_MEMORY;
    made->linear_bytes = (size_t)1 << 29;
    status = ppo__cuda_open(made, device);
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
    cudaFreeHost(cuda->staging.memory);
    ppo__free(cuda->staging.copy);
    ppo__free(cuda);
}

PPO_DEF void *ppo_cuda_stream(ppo_cuda *cuda) { return cuda ? cuda->stream : NULL; }

/* The status and sentence of a fault that was read; clears it on the device. */
static ppo_status ppo__cuda_fault_status(ppo_cuda *cuda, ppo__cuda_fault fault) {
    if (fault == PPO__NO_FAULT) return PPO_OK;
    if (ppo__cuda_clear_fault(cuda, "ppo_cuda_sync")) return ppo__failed;
    const unsigned function = fault >> 32 & 0xff, row = (unsigned)fault;
    const char *const name = ppo__cuda_names[function];
    if (function == PPO__CUDA_ADAM_STEP)
        return ppo_fail(PPO_ERROR_NUMERIC, "the gradient's norm is NaN or infinite at optimizer step %u",
                        row);
    if (row == PPO__ALL_MASKED) return ppo__refuse("%s: all samples are masked", name);
    return ppo_fail(PPO_ERROR_NUMERIC, "%s: row %u gives NaN or infinity", name, row);
}

PPO_DEF ppo_status ppo_cuda_sync(ppo_cuda *cuda) {
    if (!PPO__GIVEN("ppo_cuda_sync", cuda)) return PPO_ERROR_ARGUMENT;
    ppo__cuda_fault fault = PPO__NO_FAULT, *where = &cuda->shared->fault;
    cudaError_t copied = cudaMemcpyAsync(&fault, where, sizeof fault, cudaMemcpyDeviceToHost, cuda->stream);
    ppo_status status = ppo__cuda_status(copied, "ppo_cuda_sync");
    if (!status) status = ppo__cuda_status(cudaStreamSynchronize(cuda->stream), "ppo_cuda_sync");
    cuda->calls = 0;
    return status ? status : ppo__cuda_fault_status(cuda, fault);
}

/* Calls a template for __nv_bfloat16 or float. */
#define PPO__CUDA_BY_TYPE(bf16, function, ...) \
    ((bf16) ? function<__nv_bfloat16>(__VA_ARGS__) : function<float>(__VA_ARGS__))

/* -- rows of numbers, read by a group of threads in packs of 16 bytes -- */

static __device__ float ppo__cuda_float(float x) { return x; }
static __device__ float ppo__cuda_float(__nv_bfloat16 x) { return __bfloat162float(x); }
static __device__ void ppo__cuda_set(float *to, float x) { *to = x; }
static __device__ void ppo__cuda_set(__nv_bfloat16 *to, float x) { *to = __float2bfloat16(x); }

template <class Type> struct alignas(16) ppo__cuda_pack {
    enum { PPO__SIZE = 16 / sizeof(Type) };
    Type x[PPO__SIZE];
};

/* Number of elements before the first address that is a multiple of 16. */
template <class Type> static __device__ int ppo__cuda_head(const Type *row, int n) {
    int head = (int)((16 - (uintptr_t)row % 16) % 16 / sizeof(Type));
    return head < n ? head : n;
}

/* Calls visit(j, z) for all elements of ROWS rows: z[r][i] is element j + i of row r as a float, for each i
   in the array z. Issues several loads before it uses the first. */
template <int PPO__ROWS, class Type, class Visit>
static __device__ void ppo__cuda_each(const Type *const (&row)[PPO__ROWS], int n, int thread, int threads,
                                      Visit visit) {
    enum { PPO__SIZE = ppo__cuda_pack<Type>::PPO__SIZE, PPO__AHEAD = 4 };
    int head = ppo__cuda_head(row[0], n);
    for (int r = 1; r < PPO__ROWS; ++r)
        if (ppo__cuda_head(row[r], n) != head) head = n; /* no pack is aligned in both */
    const int packs = (n - head) / PPO__SIZE, rest = head + packs * PPO__SIZE;
    for (int k = thread; k < packs; k += threads * PPO__AHEAD) {
        ppo__cuda_pack<Type> pack[PPO__AHEAD][PPO__ROWS];
        PPO__CUDA_UNROLL
        for (int a = 0; a < PPO__AHEAD; ++a) {
            PPO__CUDA_UNROLL
            for (int r = 0; r < PPO__ROWS; ++r)
                if (k + a * threads < packs)
                    pack[a][r] = ((const ppo__cuda_pack<Type> *)(row[r] + head))[k + a * threads];
        }
        PPO__CUDA_UNROLL
        for (int a = 0; a < PPO__AHEAD; ++a) {
            float z[PPO__ROWS][PPO__SIZE];
            if (k + a * threads >= packs) break;
            PPO__CUDA_UNROLL
            for (int r = 0; r < PPO__ROWS; ++r) {
                PPO__CUDA_UNROLL
                for (int i = 0; i < PPO__SIZE; ++i) z[r][i] = ppo__cuda_float(pack[a][r].x[i]);
            }
            visit(head + (k + a * threads) * PPO__SIZE, z);
        }
    }
    for (int k = thread; k < head + n - rest; k += threads) { /* elements before and after the packs */
        const int at = k < head ? k : rest + k - head;
        float z[PPO__ROWS][1];
        for (int r = 0; r < PPO__ROWS; ++r) z[r][0] = ppo__cuda_float(row[r][at]);
        visit(at, z);
    }
}

/* Applies change(j, x) to the row `from`, with x an array as above, and writes the results to the row `to`,
   which may be the same. If add is 1, adds them to that row. */
template <class Type, class Visit>
static __device__ void ppo__cuda_map(const Type *from, Type *to, int n, int thread, int threads, int add,
                                     Visit change) {
    enum { PPO__SIZE = ppo__cuda_pack<Type>::PPO__SIZE, PPO__AHEAD = 4 };
    int head = ppo__cuda_head(from, n);
    if (ppo__cuda_head(to, n) != head) head = n;
    const int packs = (n - head) / PPO__SIZE, rest = head + packs * PPO__SIZE;
    for (int k = thread; k < packs; k += threads * PPO__AHEAD) {
        ppo__cuda_pack<Type> pack[PPO__AHEAD];
        PPO__CUDA_UNROLL
        for (int a = 0; a < PPO__AHEAD; ++a)
            if (k + a * threads < packs)
                pack[a] = ((const ppo__cuda_pack<Type> *)(from + head))[k + a * threads];
        PPO__CUDA_UNROLL
        for (int a = 0; a < PPO__AHEAD; ++a) {
            ppo__cuda_pack<Type> *const into = (ppo__cuda_pack<Type> *)(to + head) + k + a * threads;
            float x[PPO__SIZE];
            if (k + a * threads >= packs) break;
            PPO__CUDA_UNROLL
            for (int i = 0; i < PPO__SIZE; ++i) x[i] = ppo__cuda_float(pack[a].x[i]);
            change(head + (k + a * threads) * PPO__SIZE, x);
            if (add) pack[a] = *into;
            PPO__CUDA_UNROLL
            for (int i = 0; i < PPO__SIZE; ++i)
                ppo__cuda_set(&pack[a].x[i], x[i] + (add ? ppo__cuda_float(pack[a].x[i]) : 0));
            *into = pack[a];
        }
    }
    for (int k = thread; k < head + n - rest; k += threads) {
        const int at = k < head ? k : rest + k - head;
        float x[1] = {ppo__cuda_float(from[at])};
        change(at, x);
        ppo__cuda_set(&to[at], x[0] + (add ? ppo__cuda_float(to[at]) : 0));
    }
}

/* -- groups of threads, each a warp or a block: all threads of a group get the result -- */

template <int PPO__PER_BLOCK> static __device__ void ppo__cuda_row_sync() {
    if (PPO__PER_BLOCK == 32) __syncwarp();
    else __syncthreads();
}

template <class Type> static __device__ Type ppo__cuda_warp_sum(Type x) {
    for (int distance = 16; distance; distance /= 2) x += __shfl_xor_sync(~0u, x, distance);
    return x;
}

static __device__ float ppo__cuda_warp_max(float x) {
    for (int distance = 16; distance; distance /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, distance));
    return x;
}

/* Merges the x of all threads. S has merge() with another S, and merge_lanes() over a warp. */
template <int PPO__PER_BLOCK, class Value> static __device__ Value ppo__cuda_merge(Value x) {
    x.merge_lanes();
    if (PPO__PER_BLOCK == 32) return x;
    __shared__ Value warp[PPO__PER_BLOCK / 32];
    if (threadIdx.x % 32 == 0) warp[threadIdx.x / 32] = x;
    __syncthreads();
    x = warp[0];
    for (int w = 1; w < PPO__PER_BLOCK / 32; ++w) x.merge(warp[w]);
    __syncthreads(); /* for the next call */
    return x;
}

template <class Type> struct ppo__cuda_total {
    Type x;

    __device__ void clear() { x = 0; }
    __device__ void merge(const ppo__cuda_total &other) { x += other.x; }
    __device__ void merge_lanes() { x = ppo__cuda_warp_sum(x); }
};

template <int PPO__PER_BLOCK> static __device__ float ppo__cuda_group_sum(float x) {
    return ppo__cuda_merge<PPO__PER_BLOCK>(ppo__cuda_total<float>{x}).x;
}

/* A warp computes a short row, with several warps to a block; a whole block computes a long one. */
enum { PPO__SHORT_ROW = 1024, PPO__WARPS = 8, PPO__ROW_THREADS = 512 };

/* This thread's row; n or more: it has none. */
static __device__ int ppo__cuda_row() { return (int)(blockIdx.x * blockDim.y + threadIdx.y); }

/* Launches kernel<T, threads of a group>(job) for n rows of `length` elements. */
#define PPO__LAUNCH_ROWS(kernel, Type, job, n, length, stream)                                               \
    do {                                                                                                     \
        if ((length) <= PPO__SHORT_ROW)                                                                      \
            PPO__LAUNCH((kernel<Type, 32>), dim3(ppo__divide_up(n, PPO__WARPS)), dim3(32, PPO__WARPS), 0,    \
                        stream, job);                                                                        \
        else PPO__LAUNCH((kernel<Type, PPO__ROW_THREADS>), dim3(n), dim3(PPO__ROW_THREADS), 0, stream, job); \
    } while (0)

/* -- sums over arrays, in a fixed order --

   A job has a type Sum with clear() and merge(), visit(i, sum) for element i, and done(sum), which one thread
   calls with the sum of all n. The block that finishes last adds up the partial sums of all blocks. */

enum { PPO__SUM_THREADS = 256, PPO__SUM_BLOCKS = 256 };

template <class Value> static __device__ Value ppo__cuda_block_sum(Value sum) {
    __shared__ Value partial[PPO__SUM_THREADS];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = PPO__SUM_THREADS / 2; half; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x].merge(partial[threadIdx.x + half]);
        __syncthreads();
    }
    return partial[0];
}

template <class Job>
static __global__ void ppo__cuda_sum_kernel(Job job, int n, typename Job::Sum *partial, unsigned *done) {
    __shared__ unsigned order;
    typename Job::Sum sum;
    sum.clear();
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < (unsigned)n; i += gridDim.x * blockDim.x)
        job.visit((int)i, sum);
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

/* n must be above 0. */
template <class Job>
static ppo_status ppo__cuda_sum(ppo_cuda *cuda, const char *name, const Job &job, int n) {
    typedef typename Job::Sum Sum;
    const int blocks = ppo__divide_up(n, PPO__SUM_THREADS);
    const int grid = blocks < PPO__SUM_BLOCKS ? blocks : (int)PPO__SUM_BLOCKS;
    Sum *partial = (Sum *)ppo__cuda_scratch(cuda, PPO__SUM_BLOCKS * sizeof(Sum));
    if (!partial) return ppo__failed;
    PPO__LAUNCH((ppo__cuda_sum_kernel<Job>), dim3(grid), dim3(PPO__SUM_THREADS), 0, cuda->stream, job, n,
                partial, &cuda->shared->done);
    return ppo__cuda_launched(name);
}

/* -- one thread for each of n elements -- */

template <class Visit> static __global__ void ppo__cuda_for_kernel(Visit each, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        each(i);
}

/* Calls each(i) for i = 0 .. n - 1; F has a const __device__ operator()(size_t). */
template <class Visit>
static ppo_status ppo__cuda_for(ppo_cuda *cuda, const char *name, const Visit &each, size_t n) {
    enum { PPO__PER_BLOCK = 256, PPO__BLOCKS = 1 << 16 };
    const size_t blocks = (n + PPO__PER_BLOCK - 1) / PPO__PER_BLOCK;
    if (!n) return PPO_OK;
    PPO__LAUNCH((ppo__cuda_for_kernel<Visit>),
                dim3((unsigned)(blocks < PPO__BLOCKS ? blocks : (size_t)PPO__BLOCKS)), dim3(PPO__PER_BLOCK),
                0, cuda->stream, each, n);
    return ppo__cuda_launched(name);
}

/* --------------------------------------------------------------------------------------------------------
   2 Tokens
   -------------------------------------------------------------------------------------------------------- */

/* 2^x. On a GPU, subnormal numbers (below 2^-126) become 0. */
static __device__ float ppo__cuda_exp2(float x) {
#ifdef __CUDACC__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

/* The larger of the two; NaN if x is NaN. */
static __device__ float ppo__cuda_at_least(float x, float low) {
#ifdef __CUDACC__
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(low));
    return y;
#else
    return x < low ? low : x;
#endif
}

#define PPO__LOG2_E 1.44269504f

/* Softmax of z = x / temperature in one read (Milakov and Gimelshein 2018): sums are relative to the largest
   x so far, with e = exp((x - max) / temperature). A logit must take few instructions: at the rate at which
   memory delivers bf16, a multiprocessor has time for some twenty per logit. */
struct ppo__online {
    float scale;         /* log2(e) / temperature */
    float max, sum, dot; /* max x, sum e, sum e (x - max) */

    __device__ void clear(float inv_temperature) {
        scale = inv_temperature * PPO__LOG2_E;
        max = -FLT_MAX, sum = dot = 0; /* not -inf, because -inf - -inf is NaN */
    }

    /* Makes the sums relative to a maximum of at least `top`. Returns the change of x - max. */
    __device__ float raise(float top) {
        if (!(top > max)) return 0;
        const float shift = max - top, factor = ppo__cuda_exp2(shift * scale);
        dot = sum == 0 ? 0 : factor * (dot + shift * sum); /* 0 times infinity is NaN */
        sum *= factor;
        max = top;
        return shift;
    }

    /* x must be at most max: call raise() first. -inf counts as the smallest finite number, because 0 times
       infinity is NaN. Returns e. */
    __device__ float add(float x) {
        const float d = ppo__cuda_at_least(x - max, -FLT_MAX), e = ppo__cuda_exp2(d * scale);
        sum += e;
        dot += e * d;
        return e;
    }

    __device__ void merge(ppo__online other) {
        raise(other.max);
        other.raise(max);
        sum += other.sum, dot += other.dot;
    }

    __device__ void merge_lanes() {
        raise(ppo__cuda_warp_max(max));
        sum = ppo__cuda_warp_sum(sum);
        dot = ppo__cuda_warp_sum(dot);
    }

    /* log sum e^(z - max z), and -sum p log p */
    __device__ float log_sum() const { return logf(sum); }
    __device__ float entropy(float inv_temperature) const { return logf(sum) - dot * inv_temperature / sum; }
};

/* The same for two rows, and the KL between them. */
struct ppo__online_pair {
    ppo__online p, q;
    float cross; /* sum e ((x - max) - (x' - max')), with x' and max' of q */

    __device__ void clear(float inv_temperature) {
        p.clear(inv_temperature), q.clear(inv_temperature);
        cross = 0;
    }

    __device__ void raise(float top, float q_top) {
        const float sum = p.sum, max = p.max, shift = p.raise(top), q_shift = q.raise(q_top);
        if (sum == 0) return;
        cross += sum * (shift - q_shift);
        if (p.max != max) cross *= ppo__cuda_exp2(shift * p.scale);
    }

    __device__ void add(float x, float q_x) {
        const float e = p.add(x);
        q.add(q_x);
        if (e != 0) cross += e * ((x - p.max) - (q_x - q.max)); /* infinite where only q forbids x */
    }

    __device__ void merge(ppo__online_pair other) {
        raise(other.p.max, other.q.max);
        other.raise(p.max, q.max);
        p.merge(other.p), q.merge(other.q);
        cross += other.cross;
    }

    __device__ float kl(float inv_temperature) const {
        return cross * inv_temperature / p.sum - logf(p.sum / q.sum);
    }

    __device__ void merge_lanes() {
        raise(ppo__cuda_warp_max(p.max), ppo__cuda_warp_max(q.max));
        p.merge_lanes(), q.merge_lanes();
        cross = ppo__cuda_warp_sum(cross);
    }
};

/* Reads a row once, with a group of threads. */
template <class Type, int PPO__PER_BLOCK>
static __device__ ppo__online ppo__cuda_softmax(const Type *logits, int vocab, float inv_temperature) {
    const Type *const from[1] = {logits};
    ppo__online p;
    p.clear(inv_temperature);
    ppo__cuda_each(from, vocab, (int)threadIdx.x, PPO__PER_BLOCK, [&](int, auto &x) {
        float top = -INFINITY;
        for (float v : x[0]) top = fmaxf(top, v);
        p.raise(top);
        for (float v : x[0]) p.add(v);
    });
    return ppo__cuda_merge<PPO__PER_BLOCK>(p);
}

/* Reads two rows once. */
template <class Type, int PPO__PER_BLOCK>
static __device__ ppo__online_pair ppo__cuda_pair(const Type *logits, const Type *reference, int vocab,
                                                  float inv_temperature) {
    const Type *const from[2] = {logits, reference};
    ppo__online_pair pair;
    pair.clear(inv_temperature);
    ppo__cuda_each(from, vocab, (int)threadIdx.x, PPO__PER_BLOCK, [&](int, auto &x) {
        float top = -INFINITY, q_top = -INFINITY;
        for (float v : x[0]) top = fmaxf(top, v);
        for (float v : x[1]) q_top = fmaxf(q_top, v);
        pair.raise(top, q_top);
        for (int i = 0; i < (int)(sizeof x[0] / sizeof *x[0]); ++i) pair.add(x[0][i], x[1][i]);
    });
    return ppo__cuda_merge<PPO__PER_BLOCK>(pair);
}

template <class Type> struct ppo__token_job {
    const Type *logits, *reference;
    const int *token;
    int n, vocab;
    float inv_temperature;
    ppo_cuda_rows rows;
    ppo__cuda_site site;
};

/* The z of a row's token; NaN if the token is outside the vocabulary. Read it early: it takes two loads. */
template <class Type>
static __device__ float ppo__cuda_token_z(const ppo__token_job<Type> &job, int row, const Type *logits) {
    const int token = job.token[row];
    return token >= 0 && token < job.vocab ? ppo__cuda_float(logits[token]) * job.inv_temperature : NAN;
}

template <class Type>
static __device__ void ppo__cuda_write_row(const ppo__token_job<Type> &job, int row, const ppo__online &p,
                                           float z) {
    const float max = p.max * job.inv_temperature, log_sum = p.log_sum(), logp = z - max - log_sum;
    const float entropy = p.entropy(job.inv_temperature);
    if (!(logp < INFINITY)) ppo__cuda_report(job.site, row);
    job.rows.logp[row] = ppo__at_most_0(logp);
    if (job.rows.entropy) job.rows.entropy[row] = -ppo__at_most_0(-entropy);
    if (job.rows.max) job.rows.max[row] = max;
    if (job.rows.log_sum) job.rows.log_sum[row] = log_sum;
}

template <class Type, int PPO__PER_BLOCK>
static __global__ void ppo__token_logp_kernel(ppo__token_job<Type> job) {
    const int row = ppo__cuda_row(), lane = (int)threadIdx.x;
    if (row >= job.n) return;
    const Type *const logits = job.logits + (size_t)row * job.vocab;
    const float z = lane == 0 ? ppo__cuda_token_z(job, row, logits) : 0;
    const ppo__online p = ppo__cuda_softmax<Type, PPO__PER_BLOCK>(logits, job.vocab, job.inv_temperature);
    if (lane == 0) ppo__cuda_write_row(job, row, p, z);
}

/* Also the KL to the reference: sum p ((z - max) - (z' - max')) - log_sum + log_sum'. */
template <class Type, int PPO__PER_BLOCK>
static __global__ void __launch_bounds__(PPO__ROW_THREADS) ppo__token_kl_kernel(ppo__token_job<Type> job) {
    const int row = ppo__cuda_row(), lane = (int)threadIdx.x;
    if (row >= job.n) return;
    const size_t at = (size_t)row * job.vocab;
    const float z = lane == 0 ? ppo__cuda_token_z(job, row, job.logits + at) : 0;
    const ppo__online_pair x = ppo__cuda_pair<Type, PPO__PER_BLOCK>(job.logits + at, job.reference + at,
                                                                    job.vocab, job.inv_temperature);
    if (lane) return;
    ppo__cuda_write_row(job, row, x.p, z);
    const float kl = x.kl(job.inv_temperature);
    if (!(kl < INFINITY)) ppo__cuda_report(job.site, row);
    job.rows.kl[row] = kl < 0 ? 0 : kl;
}

/* The derivative of a loss with respect to a row of logits, from dlogp and dentropy. */
struct ppo__token_derivative {
    float max, log_sum, entropy, dlogp, dentropy;
    int token, masked;

    /* Replaces the logits x from index j on with their derivatives: d logp / d z_j = [j = token] - p_j;
       d entropy / d z_j = -p_j (log p_j + entropy). */
    template <int Count> __device__ void apply(int j, float (&x)[Count], float inv_temperature) const {
        PPO__CUDA_UNROLL
        for (int i = 0; i < Count; ++i) {
            const float logp = ppo__cuda_at_least(x[i] * inv_temperature - max - log_sum, -1e4f); /* p = 0 */
            const float d = -ppo__cuda_exp2(logp * PPO__LOG2_E) * (dlogp + dentropy * (logp + entropy));
            x[i] = masked ? 0 : d * inv_temperature;
        }
        if ((unsigned)(token - j) >= Count) return;
        for (int i = 0; i < Count; ++i)
            if (j + i == token) x[i] += dlogp * inv_temperature;
    }
};

/* From the rows of the forward call. grad_logp and grad_entropy may be NULL (0). */
static __device__ ppo__token_derivative ppo__token_derivative_of(const ppo_cuda_rows &rows, const int *token,
                                                                 const float *grad_logp,
                                                                 const float *grad_entropy, int row) {
    return {rows.max[row],
            rows.log_sum[row],
            grad_entropy ? rows.entropy[row] : 0,
            grad_logp ? grad_logp[row] : 0,
            grad_entropy ? grad_entropy[row] : 0,
            token[row],
            0};
}

template <class Type> struct ppo__token_gradient {
    const Type *logits;
    Type *grad_logits;
    const int *token;
    int n, vocab;
    float inv_temperature;
    ppo_cuda_rows rows;
    const float *grad_logp, *grad_entropy; /* [n] or NULL */
    int add;                               /* 1: adds to grad_logits */
};

template <class Type, int PPO__PER_BLOCK>
static __global__ void ppo__token_gradient_kernel(ppo__token_gradient<Type> job) {
    const int row = ppo__cuda_row();
    if (row >= job.n) return;
    const size_t at = (size_t)row * job.vocab;
    const float inv = job.inv_temperature;
    const ppo__token_derivative derivative =
        ppo__token_derivative_of(job.rows, job.token, job.grad_logp, job.grad_entropy, row);
    ppo__cuda_map(job.logits + at, job.grad_logits + at, job.vocab, (int)threadIdx.x, PPO__PER_BLOCK, job.add,
                  [&](int j, auto &x) { derivative.apply(j, x, inv); });
}

static ppo_status ppo__cuda_check_rows(const char *name, int given, int n, int vocab, float temperature) {
    if (!given) return PPO_ERROR_ARGUMENT;
    if (n <= 0 || vocab <= 0) return ppo__refuse("%s: %d rows of %d logits", name, n, vocab);
    if (!(temperature > 0) || !ppo__finite(temperature))
        return ppo__refuse("%s: temperature is %g, must be finite and above 0", name, (double)temperature);
    return PPO_OK;
}

template <class Type>
static ppo_status ppo__cuda_token_logp(ppo_cuda *cuda, const ppo_cuda_logits *logits,
                                       const ppo_cuda_logits *reference, const int *token, int n, int vocab,
                                       float temperature, const ppo_cuda_rows *rows) {
    ppo__token_job<Type> job = {(const Type *)logits->data,
                                reference ? (const Type *)reference->data : NULL,
                                token,
                                n,
                                vocab,
                                1 / temperature,
                                *rows,
                                ppo__cuda_site_of(cuda, PPO__CUDA_TOKEN_LOGP)};
    if (reference) PPO__LAUNCH_ROWS(ppo__token_kl_kernel, Type, job, n, vocab, cuda->stream);
    else PPO__LAUNCH_ROWS(ppo__token_logp_kernel, Type, job, n, vocab, cuda->stream);
    return ppo__cuda_launched("ppo_cuda_token_logp");
}

PPO_DEF ppo_status ppo_cuda_token_logp(ppo_cuda *cuda, const ppo_cuda_logits *logits,
                                       const ppo_cuda_logits *reference, const int *token, int n, int vocab,
                                       float temperature, const ppo_cuda_rows *rows) {
    const char *const name = "ppo_cuda_token_logp";
    const int given = PPO__GIVEN(name, cuda, logits, token, rows) &&
                      PPO__GIVEN(name, logits->data, rows->logp) &&
                      (!reference || PPO__GIVEN(name, reference->data, rows->kl));
    ppo_status status = ppo__cuda_check_rows(name, given, n, vocab, temperature);
    if (!status && reference && reference->bf16 != logits->bf16)
        status = ppo__refuse("ppo_cuda_token_logp: logits and reference differ in type");
    if (status) return status;
    return PPO__CUDA_BY_TYPE(logits->bf16, ppo__cuda_token_logp, cuda, logits, reference, token, n, vocab,
                             temperature, rows);
}

template <class Type>
static ppo_status ppo__cuda_token_gradient(ppo_cuda *cuda, const ppo_cuda_logits *logits, const int *token,
                                           const ppo_cuda_rows *rows, const float *grad_logp,
                                           const float *grad_entropy, int n, int vocab, float temperature,
                                           const ppo_cuda_logits *grad_logits) {
    ppo__token_gradient<Type> job = {(const Type *)logits->data,
                                     (Type *)grad_logits->data,
                                     token,
                                     n,
                                     vocab,
                                     1 / temperature,
                                     *rows,
                                     grad_logp,
                                     grad_entropy,
                                     0};
    PPO__LAUNCH_ROWS(ppo__token_gradient_kernel, Type, job, n, vocab, cuda->stream);
    return ppo__cuda_launched("ppo_cuda_token_logp_backward");
}

PPO_DEF ppo_status ppo_cuda_token_logp_backward(ppo_cuda *cuda, const ppo_cuda_logits *logits,
                                                const int *token, const ppo_cuda_rows *rows,
                                                const float *grad_logp, const float *grad_entropy, int n,
                                                int vocab, float temperature,
                                                const ppo_cuda_logits *grad_logits) {
    const char *const name = "ppo_cuda_token_logp_backward";
    const int given = PPO__GIVEN(name, cuda, logits, token, rows, grad_logits) &&
                      PPO__GIVEN(name, logits->data, rows->max, rows->log_sum, grad_logits->data) &&
                      (!grad_entropy || PPO__GIVEN(name, rows->entropy));
    ppo_status status = ppo__cuda_check_rows(name, given, n, vocab, temperature);
    if (!status && grad_logits->bf16 != logits->bf16)
        status = ppo__refuse("ppo_cuda_token_logp_backward: logits and gradients differ in type");
    if (status) return status;
    return PPO__CUDA_BY_TYPE(logits->bf16, ppo__cuda_token_gradient, cuda, logits, token, rows, grad_logp,
                             grad_entropy, n, vocab, temperature, grad_logits);
}

/* --------------------------------------------------------------------------------------------------------
   3 Advantages
   -------------------------------------------------------------------------------------------------------- */

/* Advantages by a parallel scan. A_t = delta_t + c_t A_{t+1}, with c_t = gamma lambda (1 - done_t), is an
   affine map of A_{t+1}, and maps compose. A block computes 32 environments, one per lane, so that a warp
   reads neighboring floats. It walks through time from the end in tiles of all its environments:

       warp       0           1                 31
       time   [ range ] [ range ]   ...    [ range ]  <- carry, A after the tile
                 map       map                map

   A thread keeps the deltas and values of its range of steps of one environment, and composes their map. Then
   each warp scans the maps of one environment, one per lane, which gives the A after every range. From it the
   threads compute their steps. Everything is read once and written once. */
enum { PPO__GAE_LANES = 32, PPO__GAE_WARPS = 32, PPO__GAE_RANGE = 8, PPO__GAE_AHEAD = 4 };

/* Flags, or none (all 0): then `flag` points to other memory, so that at() needs no branch between loads. */
struct ppo__gae_flags {
    const unsigned char *flag;
    int given;

    __device__ int at(int i) const { return (flag[given ? i : 0] != 0) & given; }
};

struct ppo__gae_job {
    const float *reward, *value, *next_value;
    ppo__gae_flags terminated, truncated;
    float *advantage, *value_target;
    int steps, envs, range; /* steps of a range, at most PPO__GAE_RANGE */
    float gamma, decay;     /* decay = gamma lambda */
    ppo__cuda_site site;
};

struct ppo__gae_map {
    float delta, factor;

    __device__ float of(float later) const { /* finite at an episode's end even if `later` is not */
        return factor == 0 ? delta : delta + factor * later;
    }
    __device__ ppo__gae_map after(ppo__gae_map later) const {
        return {of(later.delta), factor * later.factor};
    }
};

/* A thread's steps of a tile. */
struct ppo__gae_range {
    int at, count; /* its first element; number of steps */
    unsigned done; /* one bit per step */
    float delta[PPO__GAE_RANGE], value[PPO__GAE_RANGE];

    __device__ ppo__gae_range(const ppo__gae_job &job, int first, int env) : done(0) {
        const int left = env < job.envs ? job.steps - first : 0;
        at = left > 0 ? first * job.envs + env : 0;
        count = left < 0 ? 0 : left < job.range ? left : job.range;
    }

    /* Reads the last step again for steps after it, so that no load waits for a branch. */
    __device__ void load(const ppo__gae_job &job) {
        if (!count) return;
        PPO__CUDA_UNROLL
        for (int k = 0; k < PPO__GAE_RANGE; ++k) {
            if (k % PPO__GAE_AHEAD == 0 && k >= job.range) break;
            const int i = at + (k < count ? k : count - 1) * job.envs;
            const int ends = job.terminated.at(i), cut = ends | job.truncated.at(i);
            value[k] = job.value[i];
            delta[k] = ppo__gae_delta(job.reward[i], value[k], job.next_value[i], ends, job.gamma);
            done |= (unsigned)cut << k;
        }
    }

    __device__ ppo__gae_map step(int k, float decay) const {
        if (k >= count) return {0, 1};
        return {delta[k], done >> k & 1 ? 0 : decay};
    }

    __device__ ppo__gae_map map(float decay) const {
        ppo__gae_map all = {0, 1};
        PPO__CUDA_UNROLL
        for (int k = PPO__GAE_RANGE - 1; k >= 0; --k) all = step(k, decay).after(all);
        return all;
    }

    __device__ void store(const ppo__gae_job &job, float later) const {
        int bad = -1;
        PPO__CUDA_UNROLL
        for (int k = PPO__GAE_RANGE - 1; k >= 0; --k) {
            if (k >= count) continue;
            const int i = at + k * job.envs;
            later = step(k, job.decay).of(later);
            if (!ppo__finite(later)) bad = i;
            job.advantage[i] = later;
            if (job.value_target) job.value_target[i] = later + value[k];
        }
        if (bad >= 0) ppo__cuda_report(job.site, bad);
    }
};

/* For a warp whose lanes have the maps of one environment's ranges: returns the A after this lane's range.
   Sets *carry to the A at the first. */
static __device__ float ppo__gae_scan(ppo__gae_map map, float *carry) {
    const int lane = (int)threadIdx.x;
    for (int distance = 1; distance < PPO__GAE_WARPS; distance *= 2) {
        const ppo__gae_map later = {__shfl_down_sync(~0u, map.delta, distance),
                                    __shfl_down_sync(~0u, map.factor, distance)};
        if (lane + distance < PPO__GAE_WARPS) map = map.after(later);
    }
    const float a = map.of(*carry), next = __shfl_down_sync(~0u, a, 1);
    const float later = lane == PPO__GAE_WARPS - 1 ? *carry : next;
    *carry = __shfl_sync(~0u, a, 0);
    return later;
}

static __global__ void __launch_bounds__(PPO__GAE_LANES *PPO__GAE_WARPS) ppo__gae_kernel(ppo__gae_job job) {
    __shared__ float delta[PPO__GAE_WARPS][PPO__GAE_LANES + 1], factor[PPO__GAE_WARPS][PPO__GAE_LANES + 1];
    const int lane = (int)threadIdx.x, warp = (int)threadIdx.y, tile = PPO__GAE_WARPS * job.range;
    const int env = (int)blockIdx.x * PPO__GAE_LANES + lane;
    float carry = 0; /* of environment `warp` of the block */
    for (int begin = (job.steps - 1) / tile * tile; begin >= 0; begin -= tile) {
        ppo__gae_range range(job, begin + warp * job.range, env);
        range.load(job);
        const ppo__gae_map map = range.map(job.decay);
        delta[warp][lane] = map.delta, factor[warp][lane] = map.factor;
        __syncthreads();
        delta[lane][warp] = ppo__gae_scan({delta[lane][warp], factor[lane][warp]}, &carry);
        __syncthreads();
        range.store(job, delta[warp][lane]);
    }
}

PPO_DEF ppo_status ppo_cuda_gae(ppo_cuda *cuda, const float *reward, const float *value,
                                const float *next_value, const unsigned char *terminated,
                                const unsigned char *truncated, int steps, int envs, float gamma,
                                float lambda, float *advantage, float *value_target) {
    const int given = PPO__GIVEN("ppo_cuda_gae", cuda, reward, value, next_value, advantage);
    ppo_status status = ppo__check_gae("ppo_cuda_gae", given, steps, envs, gamma, lambda);
    if (!status && (long long)steps * envs > 1 << 30)
        status = ppo__refuse("ppo_cuda_gae: %d steps of %d environments are too many", steps, envs);
    if (status) return status;
    const unsigned char *any = (const unsigned char *)reward;
    const ppo__gae_flags ends = {terminated ? terminated : any, terminated != NULL};
    const ppo__gae_flags cuts = {truncated ? truncated : any, truncated != NULL};
    const int tiles = ppo__divide_up(steps, PPO__GAE_WARPS * PPO__GAE_RANGE);
    const int range = ppo__divide_up(steps, PPO__GAE_WARPS * tiles); /* the same in all tiles */
    const ppo__cuda_site site = ppo__cuda_site_of(cuda, PPO__CUDA_GAE);
    ppo__gae_job job = {reward, value, next_value, ends,  cuts,           advantage, value_target,
                        steps,  envs,  range,      gamma, gamma * lambda, site};
    PPO__LAUNCH(ppo__gae_kernel, dim3(ppo__divide_up(envs, PPO__GAE_LANES)),
                dim3(PPO__GAE_LANES, PPO__GAE_WARPS), 0, cuda->stream, job);
    return ppo__cuda_launched("ppo_cuda_gae");
}

/* Scratch memory that ppo__cuda_sum() does not use if its sums have at most PPO__SUM_SIZE bytes each. NULL on
   failure. */
enum { PPO__SUM_SIZE = 64 };

static void *ppo__cuda_scratch_after_sums(ppo_cuda *cuda, size_t size) {
    const size_t sums = (size_t)PPO__SUM_BLOCKS * PPO__SUM_SIZE;
    char *scratch = (char *)ppo__cuda_scratch(cuda, sums + size);
    return scratch ? scratch + sums : NULL;
}

/* Of the unmasked elements. */
struct ppo__moments {
    double mean, scale; /* scale = 1 / std, or 1 if that is 0; 0: leave x unchanged */
};

/* One job computes the mean, the next one the scale. */
struct ppo__moments_job {
    const float *x;
    const unsigned char *mask;
    ppo__moments *moments;
    ppo__cuda_site site;

    struct Sum {
        double x;
        int count;

        __device__ void clear() { x = 0, count = 0; }
        __device__ void merge(const Sum &other) { x += other.x, count += other.count; }
    };
};

struct ppo__mean_job : ppo__moments_job {
    __device__ void visit(int i, Sum &sum) const {
        if (mask && !mask[i]) return;
        if (!ppo__finite(x[i])) ppo__cuda_report(site, i);
        sum.x += x[i], ++sum.count;
    }
    __device__ void done(const Sum &sum) const {
        if (!sum.count) ppo__cuda_report(site, PPO__ALL_MASKED);
        moments->mean = sum.x / sum.count;
    }
};

struct ppo__scale_job : ppo__moments_job {
    __device__ void visit(int i, Sum &sum) const {
        if (mask && !mask[i]) return;
        const double d = x[i] - moments->mean;
        sum.x += d * d, ++sum.count;
    }
    __device__ void done(const Sum &sum) const {
        const int exists = sum.count > 1 && sum.x < INFINITY;
        moments->scale = !exists ? 0 : sum.x > 0 ? 1 / sqrt(sum.x / (sum.count - 1)) : 1;
    }
};

struct ppo__whiten_job {
    float *x;
    const unsigned char *mask;
    const ppo__moments *moments;
    int shift_mean;

    __device__ void operator()(size_t i) const {
        const double mean = moments->mean, scale = moments->scale;
        if (scale == 0 || (mask && !mask[i])) return;
        x[i] = (float)((x[i] - mean) * scale + (shift_mean ? 0 : mean));
    }
};

PPO_DEF ppo_status ppo_cuda_whiten(ppo_cuda *cuda, float *x, const unsigned char *mask, int n,
                                   int shift_mean) {
    const char *const name = "ppo_cuda_whiten";
    if (!PPO__GIVEN(name, cuda, x)) return PPO_ERROR_ARGUMENT;
    if (n <= 0) return ppo__refuse("%s: %d numbers", name, n);
    ppo__moments *moments = (ppo__moments *)ppo__cuda_scratch_after_sums(cuda, sizeof *moments);
    if (!moments) return ppo__failed;
    const ppo__cuda_site site = ppo__cuda_site_of(cuda, PPO__CUDA_WHITEN);
    ppo_status status = ppo__cuda_sum(cuda, name, ppo__mean_job{{x, mask, moments, site}}, n);
    if (!status) status = ppo__cuda_sum(cuda, name, ppo__scale_job{{x, mask, moments, site}}, n);
    if (!status) status = ppo__cuda_for(cuda, name, ppo__whiten_job{x, mask, moments, shift_mean}, (size_t)n);
    return status;
}

/* --------------------------------------------------------------------------------------------------------
   4 Losses
   -------------------------------------------------------------------------------------------------------- */

struct ppo__samples {
    const unsigned char *mask;
    const int *unmasked; /* their count, on the device; NULL without a mask */
    int n;
    ppo__cuda_site site;

    __device__ int has(int i) const { return !mask || mask[i]; }
    __device__ int count() const { return unmasked ? *unmasked : n; }
};

struct ppo__count_job {
    const unsigned char *mask;
    int *unmasked;
    ppo__cuda_site site;

    typedef ppo__cuda_total<int> Sum;

    __device__ void visit(int i, Sum &sum) const { sum.x += mask[i] != 0; }
    __device__ void done(const Sum &sum) const {
        if (!sum.x) ppo__cuda_report(site, PPO__ALL_MASKED);
        *unmasked = sum.x;
    }
};

/* Checks the arguments, and counts the unmasked samples. The next sum does not overwrite the count. */
static ppo_status ppo__cuda_samples(ppo_cuda *cuda, int name, int given, const unsigned char *mask, int n,
                                    ppo__samples *samples) {
    const char *const function = ppo__cuda_names[name];
    if (!given) return PPO_ERROR_ARGUMENT;
    if (n <= 0) return ppo__refuse("%s: %d samples", function, n);
    *samples = {mask, NULL, n, ppo__cuda_site_of(cuda, name)};
    if (!mask) return PPO_OK;
    int *unmasked = (int *)ppo__cuda_scratch_after_sums(cuda, sizeof *unmasked);
    if (!unmasked) return ppo__failed;
    samples->unmasked = unmasked;
    return ppo__cuda_sum(cuda, function, ppo__count_job{mask, unmasked, samples->site}, n);
}

struct ppo__policy_job {
    const float *logp, *old_logp, *advantage;
    ppo__samples samples;
    ppo_policy_objective objective;
    ppo_policy_stats *stats;
    float *grad_logp;

    struct Sum {
        double loss, k1, k3, ratio;
        float ratio_min, ratio_max;
        int clipped;

        __device__ void clear() {
            loss = k1 = k3 = ratio = 0, clipped = 0;
            ratio_min = INFINITY, ratio_max = 0;
        }
        __device__ void merge(const Sum &other) {
            loss += other.loss, k1 += other.k1, k3 += other.k3, ratio += other.ratio;
            clipped += other.clipped;
            ratio_min = ppo__min(ratio_min, other.ratio_min);
            ratio_max = ppo__max(ratio_max, other.ratio_max);
        }
    };
    static_assert(sizeof(Sum) <= PPO__SUM_SIZE, "the count would be overwritten");

    __device__ void visit(int i, Sum &sum) const {
        float dlogp = 0;
        if (samples.has(i)) {
            const float log_ratio = logp[i] - old_logp[i], ratio = expf(log_ratio);
            const float term = ppo__policy_term(&objective, logp[i], ratio, log_ratio, advantage[i], &dlogp);
            if (!ppo__finite(term)) ppo__cuda_report(samples.site, i);
            sum.merge({term, -log_ratio, ppo__k3(log_ratio), ratio, ratio, ratio,
                       ratio < 1 - objective.clip_low || ratio > 1 + objective.clip_high});
            dlogp *= 1 / (float)samples.count();
        }
        if (grad_logp) grad_logp[i] = dlogp;
    }

    __device__ void done(const Sum &sum) const {
        if (!stats) return;
        const int count = samples.count();
        stats->loss = (float)(sum.loss / count);
        stats->clip_fraction = (float)sum.clipped * (1 / (float)count);
        stats->approx_kl = (float)(sum.k3 / count);
        stats->old_approx_kl = (float)(sum.k1 / count);
        stats->ratio_mean = (float)(sum.ratio / count);
        stats->ratio_min = sum.ratio_min;
        stats->ratio_max = sum.ratio_max;
    }
};

PPO_DEF ppo_status ppo_cuda_policy_loss(ppo_cuda *cuda, const float *logp, const float *old_logp,
                                        const float *advantage, const unsigned char *mask, int n,
                                        const ppo_policy_objective *objective, ppo_policy_stats *stats,
                                        float *grad_logp) {
    const char *const name = "ppo_cuda_policy_loss";
    const int given = PPO__GIVEN(name, cuda, logp, old_logp, advantage, objective);
    ppo__samples samples;
    if (given && ppo__check_objective(name, objective)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo__cuda_samples(cuda, PPO__CUDA_POLICY_LOSS, given, mask, n, &samples);
    if (status) return status;
    return ppo__cuda_sum(
        cuda, name, ppo__policy_job{logp, old_logp, advantage, samples, *objective, stats, grad_logp}, n);
}

struct ppo__value_job {
    const float *value, *old_value, *target;
    ppo__samples samples;
    float clip_range, delta;
    float *loss, *grad_value;

    typedef ppo__cuda_total<double> Sum;

    __device__ void visit(int i, Sum &sum) const {
        float dvalue = 0;
        if (samples.has(i)) {
            const float old = clip_range > 0 ? old_value[i] : 0;
            const float term = ppo__value_term(value[i], old, target[i], clip_range, delta, &dvalue);
            if (!ppo__finite(term)) ppo__cuda_report(samples.site, i);
            sum.x += term;
            dvalue /= (float)samples.count();
        }
        if (grad_value) grad_value[i] = dvalue;
    }

    __device__ void done(const Sum &sum) const {
        if (loss) *loss = (float)(sum.x / samples.count());
    }
};

PPO_DEF ppo_status ppo_cuda_value_loss(ppo_cuda *cuda, const float *value, const float *old_value,
                                       const float *target, const unsigned char *mask, int n,
                                       float clip_range, float delta, float *loss, float *grad_value) {
    const char *const function = ppo__cuda_names[PPO__CUDA_VALUE_LOSS];
    const int given =
        PPO__GIVEN(function, cuda, value, target) && (!(clip_range > 0) || PPO__GIVEN(function, old_value));
    ppo__samples samples;
    if (given && ppo__check_value_range(function, clip_range, delta)) return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo__cuda_samples(cuda, PPO__CUDA_VALUE_LOSS, given, mask, n, &samples);
    if (status) return status;
    return ppo__cuda_sum(
        cuda, function,
        ppo__value_job{value, old_value, target, samples, clip_range, delta, loss, grad_value}, n);
}

struct ppo__kl_job {
    const float *logp, *ref_logp;
    int estimator;
    float *kl;
    ppo__cuda_site site;

    __device__ void operator()(size_t i) const {
        kl[i] = ppo__kl_of(estimator, ref_logp[i] - logp[i]);
        if (!ppo__finite(kl[i])) ppo__cuda_report(site, (int)i);
    }
};

PPO_DEF ppo_status ppo_cuda_kl_estimate(ppo_cuda *cuda, const float *logp, const float *ref_logp, int n,
                                        ppo_kl_estimator estimator, float *kl) {
    const char *const name = "ppo_cuda_kl_estimate";
    const int given = PPO__GIVEN(name, cuda, logp, ref_logp, kl);
    ppo_status status = ppo__check_kl(name, given, n, estimator);
    if (status) return status;
    const ppo__cuda_site site = ppo__cuda_site_of(cuda, PPO__CUDA_KL_ESTIMATE);
    return ppo__cuda_for(cuda, name, ppo__kl_job{logp, ref_logp, estimator, kl, site}, (size_t)n);
}

/* --------------------------------------------------------------------------------------------------------
   5 Optimizer
   -------------------------------------------------------------------------------------------------------- */

/* A warp computes a grain of PPO__WARP_GRAIN elements. Thread i has lane i % 32 of grain i / 32. */
enum { PPO__WARP_GRAIN = 512 };

static size_t ppo__cuda_grain_threads(size_t n) { return (n / PPO__WARP_GRAIN + 1) * 32; }

static __device__ int ppo__cuda_grain_size(size_t at, size_t n) {
    return n - at < PPO__WARP_GRAIN ? (int)(n - at) : (int)PPO__WARP_GRAIN;
}

struct ppo__norm_job {
    const float *grad;
    size_t n;
    float scale, *norm;

    typedef ppo__cuda_total<double> Sum;

    __device__ void visit(int i, Sum &sum) const {
        const size_t at = (size_t)(i / 32) * PPO__WARP_GRAIN;
        const float *const row[1] = {grad + at};
        ppo__cuda_each(row, ppo__cuda_grain_size(at, n), i % 32, 32, [&](int, auto &x) {
            for (double g : x[0]) sum.x += g * g;
        });
    }
    __device__ void done(const Sum &sum) const { *norm = (float)(fabs((double)scale) * sqrt(sum.x)); }
};

PPO_DEF ppo_status ppo_cuda_grad_norm(ppo_cuda *cuda, const float *grad, size_t n, float scale, float *norm) {
    const char *const name = "ppo_cuda_grad_norm";
    if (!PPO__GIVEN(name, cuda, grad, norm)) return PPO_ERROR_ARGUMENT;
    if (!ppo__finite(scale)) return ppo__refuse("%s: scale is %g", name, (double)scale);
    const size_t threads = ppo__cuda_grain_threads(n);
    if (threads > INT_MAX) return ppo__refuse("%s: %zu numbers are too many", name, n);
    return ppo__cuda_sum(cuda, name, ppo__norm_job{grad, n, scale, norm}, (int)threads);
}

/* Writes x, with one store if it is a pack. */
template <int PPO__SIZE> static __device__ void ppo__cuda_put(float *to, const float (&x)[PPO__SIZE]) {
    ppo__cuda_pack<float> pack;
    for (int i = 0; i < PPO__SIZE; ++i) pack.x[i] = x[i];
    if (PPO__SIZE == ppo__cuda_pack<float>::PPO__SIZE) *(ppo__cuda_pack<float> *)to = pack;
    else
        for (int i = 0; i < PPO__SIZE; ++i) to[i] = pack.x[i];
}

struct ppo__adam_step_job {
    float *param, *m, *v;
    const float *grad;
    size_t n;
    ppo_adam adam;
    ppo__adam_factors factors;
    unsigned step;
    float scale, max_norm;
    const float *norm;
    ppo__cuda_site site;

    __device__ void operator()(size_t i) const {
        const ppo__cuda_fault fault = *site.fault; /* of an earlier call: read it before this call reports */
        const float size = norm ? *norm : 0;
        if (!ppo__finite(size) && i == 0) ppo__cuda_report(site, (int)step);
        if (!ppo__finite(size) || fault != PPO__NO_FAULT) return;
        const float clip = norm ? ppo__clip_factor(size, max_norm) : 1;
        const size_t at = i / 32 * PPO__WARP_GRAIN;
        const float *const row[4] = {param + at, grad + at, m + at, v + at};
        ppo__cuda_each(row, ppo__cuda_grain_size(at, n), (int)(i % 32), 32, [&](int j, auto &x) {
            for (int k = 0; k < (int)(sizeof x[0] / sizeof *x[0]); ++k)
                ppo__adam_one(&x[0][k], x[1][k] * scale * clip, &x[2][k], &x[3][k], adam.beta1, adam.beta2,
                              adam.eps, factors.step_size, factors.inv_sqrt_bias2, factors.decay);
            ppo__cuda_put(param + at + j, x[0]);
            ppo__cuda_put(m + at + j, x[2]);
            ppo__cuda_put(v + at + j, x[3]);
        });
    }
};

PPO_DEF ppo_status ppo_cuda_adam_step(ppo_cuda *cuda, float *param, const float *grad, float *m, float *v,
                                      size_t n, const ppo_adam *adam, int64_t step, float scale,
                                      const float *norm, float max_norm) {
    const char *const name = "ppo_cuda_adam_step";
    if (!PPO__GIVEN(name, cuda, param, grad, m, v, adam)) return PPO_ERROR_ARGUMENT;
    if (step < 1) return ppo__refuse("%s: step is %lld, must be at least 1", name, (long long)step);
    if (!ppo__finite(scale)) return ppo__refuse("%s: scale is %g", name, (double)scale);
    const unsigned row = step < PPO__ALL_MASKED ? (unsigned)step : PPO__ALL_MASKED - 1u;
    ppo__adam_step_job job = {param,
                              m,
                              v,
                              grad,
                              n,
                              *adam,
                              ppo__adam_factors_of(adam, step),
                              row,
                              scale,
                              max_norm,
                              norm,
                              ppo__cuda_site_of(cuda, PPO__CUDA_ADAM_STEP)};
    return ppo__cuda_for(cuda, name, job, ppo__cuda_grain_threads(n));
}

/* --------------------------------------------------------------------------------------------------------
   6 Sampling
   -------------------------------------------------------------------------------------------------------- */

/* The weight of a token is e^(z - max), at most 1. The bits of that float are its key, a number below 2^30 by
   which tokens are ordered; tokens with the same key are equally likely. The weight in fixed point is its
   mass: a sum of integers is the same in every order. top_k and top_p need no sorting, only the smallest key
   that is kept. A radix descent finds it from its first bits to its last: a histogram over the first bits is
   summed from the heaviest tokens down until it reaches top_k tokens, or top_p of the mass. The bin where
   that happens gives these bits; the next histogram is over the next bits of the tokens in that bin. */
template <class Type> struct ppo__sample_job {
    const Type *logits;
    int n, vocab;
    ppo_sampling how;
    float inv_temperature, unit; /* the mass of weight 1 */
    ppo_rng *rng;
    const int *stream;
    int *token;
    float *logp;
    ppo__cuda_site site;

    __device__ ppo_rng *rng_of(int row) const { return rng + (stream ? stream[row] : row); }
};

/* Shared memory of a row's threads. 64-bit sums are kept in halves, which have fast atomics. */
template <int PPO__PER_BLOCK> struct ppo__sample_shared {
    enum { PPO__BINS = 2 * PPO__PER_BLOCK, PPO__BITS = PPO__PER_BLOCK == 32 ? 6 : 10, PPO__KEY_BITS = 30 };
    static_assert(PPO__BINS == 1 << PPO__BITS && PPO__KEY_BITS % PPO__BITS == 0,
                  "a key has a whole number of levels");
    unsigned low[PPO__BINS], high[PPO__BINS];
    uint64_t warp[PPO__PER_BLOCK / 32];
    uint64_t before; /* the sum before `found` */
    int found;       /* a bin or a thread */
    float uniform;

    __device__ uint64_t get(int bin) const { return (uint64_t)high[bin] << 32 | low[bin]; }
    __device__ void set(int bin, uint64_t x) { low[bin] = (unsigned)x, high[bin] = (unsigned)(x >> 32); }

    __device__ void add(int bin, uint64_t x) {
        const unsigned half = (unsigned)x, old = atomicAdd(&low[bin], half);
        const unsigned upper = (unsigned)(x >> 32) + (old + half < old);
        if (upper) atomicAdd(&high[bin], upper);
    }
};

/* The sum over the lanes before this one. */
static __device__ uint64_t ppo__warp_sum_before(uint64_t x, int lane) {
    uint64_t sum = x;
    for (int distance = 1; distance < 32; distance *= 2) {
        const uint64_t other = __shfl_up_sync(~0u, sum, distance);
        if (lane >= distance) sum += other;
    }
    return sum - x;
}

/* A row, for one of its threads. All threads of the row must call the same functions. */
template <class Type, int PPO__PER_BLOCK> struct ppo__sampler {
    typedef ppo__sample_shared<PPO__PER_BLOCK> Shared;
    const Type *logits;
    int vocab, thread;
    float scale, max, unit;
    Shared *shared;

    /* Must round the same in every pass, so that a token keeps its key and mass. */
    __device__ float weight(float x) const { return ppo__cuda_exp2((x - max) * scale); }
    __device__ unsigned key(float weight) const { return __float_as_uint(weight); }
    __device__ uint64_t mass(float weight) const { return (uint64_t)(weight * unit); }

    template <class Visit> __device__ void each(Visit visit) const {
        const Type *const from[1] = {logits};
        ppo__cuda_each(from, vocab, thread, PPO__PER_BLOCK, [&](int, auto &x) {
            for (float z : x[0]) visit(weight(z));
        });
    }

    /* The sum of x over the threads before this one; *total: over all. */
    __device__ uint64_t sum_before(uint64_t x, uint64_t *total) const {
        const int warp = thread / 32, lane = thread % 32;
        uint64_t before = ppo__warp_sum_before(x, lane);
        if (lane == 31) shared->warp[warp] = before + x;
        ppo__cuda_row_sync<PPO__PER_BLOCK>();
        *total = 0;
        for (int w = 0; w < PPO__PER_BLOCK / 32; ++w) {
            if (w == warp) before += *total;
            *total += shared->warp[w];
        }
        return before;
    }

    /* Sums measure(weight) over the tokens whose key is at least `from`, heaviest first. Returns the key at
       which the sum reaches limit(total). */
    template <class Visit, class Limit>
    __device__ unsigned least_key(unsigned from, Visit measure, Limit limit) const {
        const int first = Shared::PPO__BINS - 1 - 2 * thread; /* this thread's bins: first, first - 1 */
        unsigned prefix = 0;
        uint64_t above = 0, wanted = 0, total;
        for (int shift = Shared::PPO__KEY_BITS - Shared::PPO__BITS; shift >= 0; shift -= Shared::PPO__BITS) {
            shared->set(first, 0), shared->set(first - 1, 0);
            ppo__cuda_row_sync<PPO__PER_BLOCK>();
            each([&](float w) {
                const unsigned k = key(w);
                if (k && k >= from && k >> shift >> Shared::PPO__BITS == prefix)
                    shared->add((int)(k >> shift) & (Shared::PPO__BINS - 1), measure(w));
            });
            ppo__cuda_row_sync<PPO__PER_BLOCK>();
            const uint64_t upper = shared->get(first), lower = shared->get(first - 1);
            uint64_t before = above + sum_before(upper + lower, &total);
            if (shift == Shared::PPO__KEY_BITS - Shared::PPO__BITS) wanted = limit(total);
            if (before < wanted && before + upper + lower >= wanted) {
                const int second = before + upper < wanted;
                shared->found = first - second;
                shared->before = before + (second ? upper : 0);
            }
            ppo__cuda_row_sync<PPO__PER_BLOCK>();
            prefix = prefix << Shared::PPO__BITS | (unsigned)shared->found;
            above = shared->before;
        }
        return prefix;
    }

    __device__ unsigned least_kept(const ppo_sampling &how) const {
        const uint64_t k = (uint64_t)how.top_k;
        const double p = how.top_p;
        unsigned least = 0;
        if (how.top_k && how.top_k < vocab)
            least = least_key(
                0, [](float) { return (uint64_t)1; }, [=](uint64_t total) { return k < total ? k : total; });
        if (how.top_p < 1)
            least = least_key(
                least, [this](float w) { return mass(w); },
                [=](uint64_t total) {
                    const uint64_t wanted = (uint64_t)ceil(p * (double)total);
                    return wanted < 1 ? 1 : wanted < total ? wanted : total;
                });
        return least;
    }

    __device__ uint64_t kept_mass(float weight, unsigned least) const {
        return key(weight) < least ? 0 : mass(weight);
    }

    /* Sums the mass of each thread's range of the row. A warp reads a range together. */
    __device__ int range_length() const { return ((vocab - 1) / (8 * PPO__PER_BLOCK) + 1) * 8; }
    __device__ void sum_ranges(unsigned least) const {
        const int length = range_length(), lane = thread % 32;
        for (int s = thread / 32; s < PPO__PER_BLOCK; s += PPO__PER_BLOCK / 32) {
            const long long begin = (long long)s * length, left = vocab - begin;
            const Type *const from[1] = {logits + begin};
            uint64_t sum = 0;
            ppo__cuda_each(from,
                           left < 0        ? 0
                           : left < length ? (int)left
                                           : length,
                           lane, 32, [&](int, auto &x) {
                               for (float z : x[0]) sum += kept_mass(weight(z), least);
                           });
            sum = ppo__cuda_warp_sum(sum);
            if (lane == 0) shared->set(s, sum);
        }
    }

    /* The first token from `begin` on whose cumulative mass, with `before` added, exceeds target. For one
       warp. */
    __device__ int search(int begin, uint64_t before, uint64_t target, unsigned least) const {
        for (int j = begin + thread;; j += 32) {
            const uint64_t x = j < vocab ? kept_mass(weight(ppo__cuda_float(logits[j])), least) : 0;
            const uint64_t sum = before + ppo__warp_sum_before(x, thread) + x;
            const unsigned past = __ballot_sync(~0u, sum > target);
            if (past) return j - thread + __clz((int)__brev(past));
            before = __shfl_sync(~0u, sum, 31);
        }
    }

    /* The first token whose cumulative mass exceeds the total times a uniform number. Only the first warp
       gets it, others get 0. */
    __device__ int draw(ppo_rng *rng, unsigned least) const {
        if (thread == 0) shared->uniform = ppo__rng_uniform(rng);
        sum_ranges(least);
        ppo__cuda_row_sync<PPO__PER_BLOCK>();
        const uint64_t sum = shared->get(thread);
        uint64_t total;
        const uint64_t before = sum_before(sum, &total), uniform = (uint64_t)(shared->uniform * 16777216);
        const uint64_t target = (total >> 24) * uniform + ((total & 0xffffff) * uniform >> 24);
        if (before <= target && target < before + sum) shared->found = thread, shared->before = before;
        ppo__cuda_row_sync<PPO__PER_BLOCK>();
        return thread < 32 ? search(shared->found * range_length(), shared->before, target, least) : 0;
    }
};

/* The largest logit, the first of equals. */
struct ppo__argmax {
    float z;
    int at;

    __device__ void add(float other, int other_at) {
        if (other > z || (other == z && other_at < at)) z = other, at = other_at;
    }
    __device__ void merge(const ppo__argmax &other) { add(other.z, other.at); }
    __device__ void merge_lanes() {
        for (int distance = 16; distance; distance /= 2) {
            const float other = __shfl_xor_sync(~0u, z, distance);
            add(other, __shfl_xor_sync(~0u, at, distance));
        }
    }
};

template <class Type, int PPO__PER_BLOCK>
static __device__ int ppo__cuda_argmax(const Type *logits, int vocab, int thread) {
    const Type *const from[1] = {logits};
    ppo__argmax argmax = {-INFINITY, INT_MAX};
    ppo__cuda_each(from, vocab, thread, PPO__PER_BLOCK, [&](int j, auto &x) {
        for (float z : x[0]) argmax.add(z, j++);
    });
    return ppo__cuda_merge<PPO__PER_BLOCK>(argmax).at;
}

template <class Type, int PPO__PER_BLOCK>
static __global__ void ppo__sample_kernel(ppo__sample_job<Type> job) {
    __shared__ ppo__sample_shared<PPO__PER_BLOCK> shared[PPO__PER_BLOCK == 32 ? PPO__WARPS : 1];
    const int row = ppo__cuda_row(), thread = (int)threadIdx.x;
    if (row >= job.n) return;
    const Type *const logits = job.logits + (size_t)row * job.vocab;
    const ppo__online p = ppo__cuda_softmax<Type, PPO__PER_BLOCK>(logits, job.vocab, job.inv_temperature);
    const int valid = p.sum > 0; /* all are finite or -inf, and not all -inf */
    int token = 0;
    if (valid && job.how.greedy) {
        token = ppo__cuda_argmax<Type, PPO__PER_BLOCK>(logits, job.vocab, thread);
        if (thread == 0) ppo__rng_uniform(job.rng_of(row));
    } else if (valid) {
        const ppo__sampler<Type, PPO__PER_BLOCK> sampler = {
            logits, job.vocab, thread, p.scale, p.max, job.unit, &shared[threadIdx.y]};
        token = sampler.draw(job.rng_of(row), sampler.least_kept(job.how));
    }
    if (thread) return;
    if (!valid) ppo__cuda_report(job.site, row);
    job.token[row] = token;
    if (!job.logp) return;
    const float inv = job.inv_temperature, z = ppo__cuda_float(logits[token]) * inv;
    job.logp[row] = valid ? ppo__at_most_0(z - p.max * inv - p.log_sum()) : NAN;
}

template <class Type>
static ppo_status ppo__cuda_sample(ppo_cuda *cuda, const ppo_cuda_logits *logits, int n, int vocab,
                                   const ppo_sampling *how, ppo_rng *rng, const int *stream, int *token,
                                   float *logp) {
    int unit_bits = 62; /* so that the total mass is at most 2^62 */
    for (int left = vocab; left; left /= 2) --unit_bits;
    ppo__sample_job<Type> job = {(const Type *)logits->data,
                                 n,
                                 vocab,
                                 *how,
                                 1 / how->temperature,
                                 ldexpf(1, unit_bits),
                                 rng,
                                 stream,
                                 token,
                                 logp,
                                 ppo__cuda_site_of(cuda, PPO__CUDA_SAMPLE)};
    PPO__LAUNCH_ROWS(ppo__sample_kernel, Type, job, n, vocab, cuda->stream);
    return ppo__cuda_launched("ppo_cuda_sample");
}

PPO_DEF ppo_status ppo_cuda_sample(ppo_cuda *cuda, const ppo_cuda_logits *logits, int n, int vocab,
                                   const ppo_sampling *how, ppo_rng *rng, const int *stream, int *token,
                                   float *logp) {
    const int given = PPO__GIVEN("ppo_cuda_sample", cuda, logits, how, rng, token) &&
                      PPO__GIVEN("ppo_cuda_sample", logits->data);
    ppo_status status =
        ppo__cuda_check_rows("ppo_cuda_sample", given, n, vocab, given ? how->temperature : 1);
    if (!status) status = ppo__check_sampling(how, vocab);
    if (!status && (how->min_p > 0 || ppo__penalizes(how)))
        status = ppo__refuse("ppo_cuda_sample: min_p and repetition_penalty need the processor");
    if (status) return status;
    return PPO__CUDA_BY_TYPE(logits->bf16, ppo__cuda_sample, cuda, logits, n, vocab, how, rng, stream, token,
                             logp);
}

/* --------------------------------------------------------------------------------------------------------
   7 Linear and loss
   -------------------------------------------------------------------------------------------------------- */

/* Computes a tile of rows at a time, with its logits in scratch memory. They are float even where x and w are
   bf16: as bf16 a logit of 20 would be off by up to 0.06, and a ratio of probabilities by 6 %, while twice
   the bytes cost little compared with the products. The gradient is rounded to the type of x and w, with
   which it is multiplied; it overwrites the logits, from the start of the same row. A tile has as many rows
   as memory allows, because each tile reads all of w and adds to all of grad_w. */
enum { PPO__LINEAR_ALIGN = 8 };

struct ppo__linear_policy {
    const float *old_logp, *advantage;
    ppo__samples samples;
    ppo_policy_objective objective;
    float entropy_coef;
};

struct ppo__linear_job {
    ppo__token_job<float> tokens; /* of all rows, without logits */
    float *tile;                  /* (count, ld): logits of rows first .. first + count - 1 */
    int ld, first, count;
    int forward, backward, has_policy;
    const float *grad_logp, *grad_entropy; /* for backward without a policy; may be NULL (0) */
    ppo__linear_policy policy;             /* for backward with a policy */
};

/* Reads the logp of the row: call it on the thread that wrote it. */
static __device__ ppo__token_derivative ppo__linear_policy_derivative(const ppo__linear_job &job, int row,
                                                                      const ppo__online &p) {
    const ppo__linear_policy &policy = job.policy;
    const float logp = job.tokens.rows.logp[row], inv = job.tokens.inv_temperature;
    const float log_ratio = logp - policy.old_logp[row], ratio = expf(log_ratio);
    const float inv_count = 1 / (float)policy.samples.count();
    float dlogp;
    const float term =
        ppo__policy_term(&policy.objective, logp, ratio, log_ratio, policy.advantage[row], &dlogp);
    if (!ppo__finite(term)) ppo__cuda_report(job.tokens.site, row);
    return {p.max * inv,
            p.log_sum(),
            p.entropy(inv),
            dlogp * inv_count,
            -policy.entropy_coef * inv_count,
            job.tokens.token[row],
            0};
}

static __device__ ppo__token_derivative ppo__linear_mask(const ppo__linear_job &job, int row) {
    const ppo_cuda_rows &rows = job.tokens.rows;
    for (float *to : {rows.logp, rows.entropy, rows.max, rows.log_sum})
        if (to) to[row] = 0;
    return {0, 0, 0, 0, 0, -1, 1};
}

template <class Type> struct alignas(4 * sizeof(Type)) ppo__linear_four { Type x[4]; };

/* In place. If T is half the size of a float, writes stay before the elements that are not read yet, except
   those of threads at the same step, which wait for each other. A row has room for a multiple of 4 floats. */
template <class Type, int PPO__PER_BLOCK>
static __device__ void ppo__linear_gradient(float *row, int vocab, float inv_temperature,
                                            const ppo__token_derivative &derivative) {
    enum { PPO__AHEAD = 4, PPO__STEP = PPO__PER_BLOCK * 4 };
    Type *const to = (Type *)row;
    for (int base = 0; base < vocab; base += PPO__AHEAD * PPO__STEP) {
        const int begin = base + 4 * (int)threadIdx.x;
        ppo__cuda_pack<float> pack[PPO__AHEAD];
        PPO__CUDA_UNROLL
        for (int a = 0; a < PPO__AHEAD; ++a)
            if (begin + a * PPO__STEP < vocab)
                pack[a] = *(const ppo__cuda_pack<float> *)(row + begin + a * PPO__STEP);
        ppo__cuda_row_sync<PPO__PER_BLOCK>();
        PPO__CUDA_UNROLL
        for (int a = 0; a < PPO__AHEAD; ++a) {
            const int j = begin + a * PPO__STEP;
            ppo__linear_four<Type> four;
            if (j >= vocab) break;
            derivative.apply(j, pack[a].x, inv_temperature);
            PPO__CUDA_UNROLL
            for (int i = 0; i < 4; ++i) ppo__cuda_set(&four.x[i], pack[a].x[i]);
            *(ppo__linear_four<Type> *)(to + j) = four;
        }
    }
}

template <class Type, int PPO__PER_BLOCK> static __global__ void ppo__linear_kernel(ppo__linear_job job) {
    __shared__ ppo__token_derivative shared[PPO__PER_BLOCK == 32 ? PPO__WARPS : 1];
    const int at = ppo__cuda_row(), row = job.first + at;
    if (at >= job.count) return;
    float *const logits = job.tile + (size_t)at * job.ld;
    const int unmasked = !job.has_policy || job.policy.samples.has(row), lane = (int)threadIdx.x;
    const float inv = job.tokens.inv_temperature;
    ppo__token_derivative &derivative = shared[threadIdx.y];
    ppo__online p = {};
    const float z = lane == 0 && unmasked ? ppo__cuda_token_z(job.tokens, row, logits) : 0;
    if (unmasked && job.forward) p = ppo__cuda_softmax<float, PPO__PER_BLOCK>(logits, job.tokens.vocab, inv);
    if (lane == 0) {
        if (unmasked && job.forward) ppo__cuda_write_row(job.tokens, row, p, z);
        if (!unmasked) derivative = ppo__linear_mask(job, row);
        else if (job.has_policy) derivative = ppo__linear_policy_derivative(job, row, p);
        else if (job.backward)
            derivative = ppo__token_derivative_of(job.tokens.rows, job.tokens.token, job.grad_logp,
                                                  job.grad_entropy, row);
    }
    ppo__cuda_row_sync<PPO__PER_BLOCK>();
    if (job.backward) ppo__linear_gradient<Type, PPO__PER_BLOCK>(logits, job.tokens.vocab, inv, derivative);
}

/* A call, on the host. */
struct ppo__linear_call {
    ppo_cuda *cuda;
    const char *name;
    const ppo_cuda_linear *linear;
    void *grad_x;
    float *grad_w;
    int ld, most; /* of a tile: floats of a row, number of rows */
    float *tile;
};

/* c = op(a) op(b) + beta c, column-major. */
static ppo_status ppo__linear_product(const ppo__linear_call &call, cublasOperation_t op_a,
                                      cublasOperation_t op_b, int m, int n, int k, const void *a, int ld_a,
                                      const void *b, int ld_b, float beta, void *c, int ld_c, int c_bf16) {
    const float one = 1;
    const cudaDataType type = call.linear->bf16 ? CUDA_R_16BF : CUDA_R_32F;
    return ppo__blas_status(cublasGemmEx(call.cuda->blas, op_a, op_b, m, n, k, &one, a, type, ld_a, b, type,
                                         ld_b, &beta, c, c_bf16 ? CUDA_R_16BF : CUDA_R_32F, ld_c,
                                         CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                            call.name);
}

/* Memory for tiles of about the same number of rows, after that of ppo__cuda_samples(). */
static ppo_status ppo__linear_open(ppo__linear_call *call) {
    enum { PPO__FRONT = 256 };
    const ppo_cuda_linear *l = call->linear;
    call->ld = ppo__divide_up(l->vocab, PPO__LINEAR_ALIGN) * PPO__LINEAR_ALIGN;
    const size_t row = (size_t)call->ld * sizeof(float), fit = call->cuda->linear_bytes / row;
    const int most = fit < 1 ? 1 : fit < (size_t)l->n ? (int)fit : l->n;
    call->most = ppo__divide_up(l->n, ppo__divide_up(l->n, most));
    char *memory = (char *)ppo__cuda_scratch_after_sums(call->cuda, PPO__FRONT + (size_t)call->most * row);
    if (!memory) return ppo__failed;
    call->tile = (float *)(memory + PPO__FRONT);
    return PPO_OK;
}

template <class Type>
static ppo_status ppo__linear_tile(const ppo__linear_call &call, const ppo__linear_job &job) {
    const ppo_cuda_linear *l = call.linear;
    const size_t at = (size_t)job.first * l->width;
    const Type *const x = (const Type *)l->x + at;
    const int derivatives = (int)(call.ld * (sizeof(float) / sizeof(Type))); /* of a row of the gradient */
    ppo_status status = ppo__linear_product(call, CUBLAS_OP_T, CUBLAS_OP_N, l->vocab, job.count, l->width,
                                            l->w, l->width, x, l->width, 0, job.tile, job.ld, 0);
    if (status) return status;
    PPO__LAUNCH_ROWS(ppo__linear_kernel, Type, job, job.count, l->vocab, call.cuda->stream);
    status = ppo__cuda_launched(call.name);
    if (!status && call.grad_x)
        status =
            ppo__linear_product(call, CUBLAS_OP_N, CUBLAS_OP_N, l->width, job.count, l->vocab, l->w, l->width,
                                job.tile, derivatives, 0, (Type *)call.grad_x + at, l->width, l->bf16);
    if (!status && call.grad_w)
        status = ppo__linear_product(call, CUBLAS_OP_N, CUBLAS_OP_T, l->width, l->vocab, job.count, x,
                                     l->width, job.tile, derivatives, 1, call.grad_w, l->width, 0);
    return status;
}

static ppo_status ppo__linear_run(const ppo__linear_call &call, ppo__linear_job *job) {
    ppo_status status = PPO_OK;
    job->tile = call.tile;
    job->ld = call.ld;
    job->backward = call.grad_x || call.grad_w;
    for (int left = call.linear->n; left && !status; left -= job->count) {
        job->first = call.linear->n - left;
        job->count = left < call.most ? left : call.most;
        status = PPO__CUDA_BY_TYPE(call.linear->bf16, ppo__linear_tile, call, *job);
    }
    return status;
}

static ppo_status ppo__cuda_check_linear(const char *name, int given, const ppo_cuda_linear *linear,
                                         float temperature) {
    if (!given || !PPO__GIVEN(name, linear) || !PPO__GIVEN(name, linear->x, linear->w))
        return PPO_ERROR_ARGUMENT;
    ppo_status status = ppo__cuda_check_rows(name, 1, linear->n, linear->vocab, temperature);
    if (!status && linear->width <= 0) status = ppo__refuse("%s: rows of width %d", name, linear->width);
    if (!status && linear->vocab > INT_MAX / 2 - PPO__LINEAR_ALIGN)
        status = ppo__refuse("%s: a vocabulary of %d is too large", name, linear->vocab);
    return status;
}

static ppo__linear_job ppo__linear_job_of(const ppo_cuda_linear *linear, const int *token, float temperature,
                                          const ppo_cuda_rows *rows) {
    ppo__linear_job job;
    memset(&job, 0, sizeof job);
    job.tokens.token = token;
    job.tokens.n = linear->n;
    job.tokens.vocab = linear->vocab;
    job.tokens.inv_temperature = 1 / temperature;
    job.tokens.rows = *rows;
    return job;
}

PPO_DEF ppo_status ppo_cuda_linear_token_logp(ppo_cuda *cuda, const ppo_cuda_linear *linear, const int *token,
                                              float temperature, const ppo_cuda_rows *rows) {
    const char *const name = "ppo_cuda_linear_token_logp";
    const int given = PPO__GIVEN(name, cuda, token, rows) && PPO__GIVEN(name, rows->logp);
    ppo__linear_call call = {cuda, name, linear, NULL, NULL, 0, 0, NULL};
    ppo_status status = ppo__cuda_check_linear(name, given, linear, temperature);
    if (!status) status = ppo__linear_open(&call);
    if (status) return status;
    ppo__linear_job job = ppo__linear_job_of(linear, token, temperature, rows);
    job.tokens.site = ppo__cuda_site_of(cuda, PPO__CUDA_LINEAR_TOKEN_LOGP);
    job.forward = 1;
    return ppo__linear_run(call, &job);
}

PPO_DEF ppo_status ppo_cuda_linear_token_logp_backward(ppo_cuda *cuda, const ppo_cuda_linear *linear,
                                                       const int *token, const ppo_cuda_rows *rows,
                                                       const float *grad_logp, const float *grad_entropy,
                                                       float temperature, void *grad_x, float *grad_w) {
    const char *const name = "ppo_cuda_linear_token_logp_backward";
    const int given = PPO__GIVEN(name, cuda, token, rows) && PPO__GIVEN(name, rows->max, rows->log_sum) &&
                      (!grad_entropy || PPO__GIVEN(name, rows->entropy));
    ppo__linear_call call = {cuda, name, linear, grad_x, grad_w, 0, 0, NULL};
    ppo_status status = ppo__cuda_check_linear(name, given, linear, temperature);
    if (status || !(grad_x || grad_w)) return status;
    status = ppo__linear_open(&call);
    if (status) return status;
    ppo__linear_job job = ppo__linear_job_of(linear, token, temperature, rows);
    job.grad_logp = grad_logp;
    job.grad_entropy = grad_entropy;
    return ppo__linear_run(call, &job);
}

PPO_DEF ppo_status ppo_cuda_linear_policy_loss(ppo_cuda *cuda, const ppo_cuda_linear *linear,
                                               const int *token, float temperature, const float *old_logp,
                                               const float *advantage, const unsigned char *mask,
                                               const ppo_policy_objective *objective, float entropy_coef,
                                               const ppo_cuda_rows *rows, ppo_policy_stats *stats,
                                               void *grad_x, float *grad_w) {
    const char *const name = "ppo_cuda_linear_policy_loss";
    const int given =
        PPO__GIVEN(name, cuda, token, old_logp, advantage, objective, rows) && PPO__GIVEN(name, rows->logp);
    ppo__linear_call call = {cuda, name, linear, grad_x, grad_w, 0, 0, NULL};
    ppo__samples samples;
    ppo_status status = ppo__cuda_check_linear(name, given, linear, temperature);
    if (!status) status = ppo__check_objective(name, objective);
    if (!status && !ppo__finite(entropy_coef))
        status = ppo__refuse("%s: entropy_coef is %g", name, (double)entropy_coef);
    if (!status) status = ppo__linear_open(&call);
    if (!status) status = ppo__cuda_samples(cuda, PPO__CUDA_LINEAR_POLICY_LOSS, 1, mask, linear->n, &samples);
    if (status) return status;
    ppo__linear_job job = ppo__linear_job_of(linear, token, temperature, rows);
    job.tokens.site = samples.site;
    job.forward = job.has_policy = 1;
    job.policy = {old_logp, advantage, samples, *objective, entropy_coef};
    status = ppo__linear_run(call, &job);
    if (!status && stats)
        status = ppo_cuda_policy_loss(cuda, rows->logp, old_logp, advantage, mask, linear->n, objective,
                                      stats, NULL);
    return status;
}

/* --------------------------------------------------------------------------------------------------------
   8 Language models on the device
   -------------------------------------------------------------------------------------------------------- */

/* -- matrix products; activations; column sums -- */

/* C = op(A) op(B) + beta C, all row-major: op(A) is (m, k), op(B) (k, n), C (m, n). cuBLAS is column-major,
   so it computes C^T = op(B)^T op(A)^T. */
static ppo_status ppo__cuda_gemm(ppo_cuda *cuda, int m, int n, int k, const float *a, int a_transposed,
                                 const float *b, int b_transposed, float beta, float *c) {
    const float one = 1;
    return ppo__blas_status(cublasSgemm(cuda->blas, b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                                        a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, b,
                                        b_transposed ? k : n, a, a_transposed ? m : k, &beta, c, n),
                            "a matrix product");
}

/* before = y + b, y = activation(before) */
struct ppo__cuda_activate {
    float *y, *before; /* before may be NULL */
    const float *b;    /* [cols] or NULL */
    int cols, activation;

    __device__ void operator()(size_t i) const {
        float z = y[i] + (b ? b[i % cols] : 0);
        if (before) before[i] = z;
        if (activation == PPO_TANH) z = tanhf(z);
        if (activation == PPO_RELU) z = z < 0 ? 0 : z;
        if (activation == PPO_GELU) z = ppo__gelu(z);
        if (activation == PPO_GELU_ERF) z = ppo__gelu_erf(z);
        if (activation == PPO_SILU) z = ppo__silu(z);
        if (activation == PPO_ELU) z = z < 0 ? expm1f(z) : z;
        y[i] = z;
    }
};

/* dz = dy activation'(before), in place. tanh, ReLU and ELU need only y for that, the others `before`. */
struct ppo__cuda_activate_backward {
    const float *y, *before;
    float *dz;
    int activation;

    __device__ void operator()(size_t i) const {
        if (activation == PPO_TANH) dz[i] *= 1 - y[i] * y[i];
        if (activation == PPO_RELU) dz[i] = y[i] > 0 ? dz[i] : 0;
        if (activation == PPO_GELU) dz[i] *= ppo__gelu_derivative(before[i]);
        if (activation == PPO_GELU_ERF) dz[i] *= ppo__gelu_erf_derivative(before[i]);
        if (activation == PPO_SILU) dz[i] *= ppo__silu_derivative(before[i]);
        if (activation == PPO_ELU) dz[i] *= y[i] < 0 ? y[i] + 1 : 1;
    }
};

/* A block sums 8 columns. A thread adds every 128th row of its column; then a warp adds the partial sums of a
   column. */
enum { PPO__CUDA_COLUMNS = 8, PPO__CUDA_ROWS = 128 };

template <class Visit>
static __global__ void __launch_bounds__(PPO__CUDA_COLUMNS *PPO__CUDA_ROWS)
    ppo__cuda_columns_kernel(Visit element, int rows, int cols) {
    __shared__ float partial[2][PPO__CUDA_COLUMNS][PPO__CUDA_ROWS + 4]; /* 4 avoids bank conflicts */
    const int x = (int)threadIdx.x, y = (int)threadIdx.y, first = (int)blockIdx.x * PPO__CUDA_COLUMNS;
    const int warp = (y * PPO__CUDA_COLUMNS + x) / 32, lane = (y * PPO__CUDA_COLUMNS + x) % 32;
    float sum[2] = {0, 0};
    if (first + x < cols)
        for (int i = y; i < rows; i += PPO__CUDA_ROWS) element.add(i, first + x, sum);
    for (int k = 0; k < 2; ++k) partial[k][x][y] = sum[k];
    __syncthreads();
    if (warp >= PPO__CUDA_COLUMNS || first + warp >= cols) return;
    for (int k = 0; k < 2; ++k) {
        sum[k] = 0;
        for (int i = lane; i < PPO__CUDA_ROWS; i += 32) sum[k] += partial[k][warp][i];
        sum[k] = ppo__cuda_warp_sum(sum[k]);
    }
    if (lane == 0) element.done(first + warp, sum);
}

template <class Visit>
static ppo_status ppo__cuda_columns(ppo_cuda *cuda, const Visit &element, int rows, int cols) {
    PPO__LAUNCH((ppo__cuda_columns_kernel<Visit>), dim3((cols - 1) / PPO__CUDA_COLUMNS + 1),
                dim3(PPO__CUDA_COLUMNS, PPO__CUDA_ROWS), 0, cuda->stream, element, rows, cols);
    return ppo__cuda_launched("column sums");
}

struct ppo__cuda_bias { /* db += column sums of dz */
    const float *dz;
    float *db;
    int cols;

    __device__ void add(int i, int j, float *sum) const { sum[0] += dz[(size_t)i * cols + j]; }
    __device__ void done(int j, const float *sum) const { db[j] += sum[0]; }
};

/* -- operations of a tape: those of ppo.h with the same names -- */

static ppo_cuda *ppo__cuda_of(const ppo_node *node) { return (ppo_cuda *)node->tape->device; }

/* Keeps a failure of backward, which returns no status, in the tape. */
static void ppo__cuda_keep(const ppo_node *node, ppo_status status) {
    if (status) ppo__tape_fail(node->tape, status);
}

/* Copies n elements from the host to the device. NULL stays NULL. */
template <class Type> static Type *ppo__cuda_upload(ppo_tape *tape, const Type *from, size_t n) {
    return from ? (Type *)ppo__tape_write(tape, from, n * sizeof *from) : NULL;
}

struct ppo__cuda_add {
    const float *a, *b;
    float *y;

    __device__ void operator()(size_t i) const { y[i] = a[i] + b[i]; }
};

static ppo_status ppo__cuda_add_forward(ppo_node *node) {
    ppo__cuda_add job = {node->in[0]->data, node->in[1]->data, node->out[0]->data};
    return ppo__cuda_for(ppo__cuda_of(node), "add", job, ppo__size(node->out[0]));
}

struct ppo__cuda_add_derivatives { /* da += dy, db += dy; each may be NULL */
    const float *dy;
    float *da, *db;

    __device__ void operator()(size_t i) const {
        if (da) da[i] += dy[i];
        if (db) db[i] += dy[i];
    }
};

static void ppo__cuda_add_backward(ppo_node *node) {
    ppo__cuda_add_derivatives job = {node->out[0]->grad, node->in[0]->grad, node->in[1]->grad};
    ppo__cuda_keep(node, ppo__cuda_for(ppo__cuda_of(node), "add", job, ppo__size(node->out[0])));
}

struct ppo__cuda_mul { /* y = a b; backward: da += dy b, db += dy a, each may be NULL */
    const float *a, *b;
    float *y;
    const float *dy;
    float *da, *db;

    __device__ void operator()(size_t i) const {
        if (!dy) y[i] = a[i] * b[i];
        if (da) da[i] += dy[i] * b[i];
        if (db) db[i] += dy[i] * a[i];
    }
};

static ppo_status ppo__cuda_binary_run(ppo_node *node, const float *dy, float *da, float *db) {
    const char *name = ((const ppo__binary_args *)node->args)->f->name;
    const ppo_tensor *a = node->in[0], *b = node->in[1];
    ppo__cuda_mul job = {a->data, b->data, node->out[0]->data, dy, da, db};
    if (strcmp(name, "mul") != 0 || a->rows != b->rows || a->cols != b->cols)
        return ppo__refuse("the device does not know the operation \"%s\" of these shapes", name);
    return ppo__cuda_for(ppo__cuda_of(node), name, job, ppo__size(a));
}

static ppo_status ppo__cuda_binary_forward(ppo_node *node) {
    return ppo__cuda_binary_run(node, NULL, NULL, NULL);
}

static void ppo__cuda_binary_backward(ppo_node *node) {
    ppo__cuda_keep(node,
                   ppo__cuda_binary_run(node, node->out[0]->grad, node->in[0]->grad, node->in[1]->grad));
}

struct ppo__cuda_unary { /* those that losses of language models use */
    enum { PPO__EXP, PPO__SQUARE, PPO__SCALE } kind;
    const float *x;
    float *y;
    const float *dy; /* backward: adds to dx */
    float *dx;
    float p, q;

    __device__ void operator()(size_t i) const {
        if (dx) dx[i] += dy[i] * (kind == PPO__EXP ? y[i] : kind == PPO__SQUARE ? 2 * x[i] : p);
        else y[i] = kind == PPO__EXP ? expf(x[i]) : kind == PPO__SQUARE ? x[i] * x[i] : p * x[i] + q;
    }
};

static ppo_status ppo__cuda_unary_run(ppo_node *node, const float *dy, float *dx) {
    const ppo__unary_args *args = (const ppo__unary_args *)node->args;
    ppo__cuda_unary job = {
        ppo__cuda_unary::PPO__SCALE, node->in[0]->data, node->out[0]->data, dy, dx, args->p, args->q};
    if (!strcmp(args->f->name, "exp")) job.kind = ppo__cuda_unary::PPO__EXP;
    else if (!strcmp(args->f->name, "square")) job.kind = ppo__cuda_unary::PPO__SQUARE;
    else if (strcmp(args->f->name, "scale") != 0)
        return ppo__refuse("the device does not know the operation \"%s\"", args->f->name);
    return ppo__cuda_for(ppo__cuda_of(node), args->f->name, job, ppo__size(node->in[0]));
}

static ppo_status ppo__cuda_unary_forward(ppo_node *node) { return ppo__cuda_unary_run(node, NULL, NULL); }
static void ppo__cuda_unary_backward(ppo_node *node) {
    ppo__cuda_keep(node, ppo__cuda_unary_run(node, node->out[0]->grad, node->in[0]->grad));
}

struct ppo__cuda_mean { /* a sum / divisor */
    typedef ppo__cuda_total<double> Sum;

    const float *x;
    float *to;
    double divisor;

    __device__ void visit(int i, Sum &sum) const { sum.x += x[i]; }
    __device__ void done(const Sum &sum) const { *to = (float)(sum.x / divisor); }
};

static ppo_status ppo__cuda_sum_forward(ppo_node *node) {
    ppo__cuda_mean job = {node->in[0]->data, node->out[0]->data, *(const double *)node->args};
    return ppo__cuda_sum(ppo__cuda_of(node), "sum", job, (int)ppo__size(node->in[0]));
}

struct ppo__cuda_spread { /* dx[i] += *dy derivatives[i]; if that is NULL: *dy derivative */
    const float *dy, *derivatives;
    float derivative;
    float *dx;

    __device__ void operator()(size_t i) const { dx[i] += *dy * (derivatives ? derivatives[i] : derivative); }
};

static void ppo__cuda_spread_to(ppo_node *node, int k, const float *derivatives, float derivative) {
    ppo__cuda_spread job = {node->out[0]->grad, derivatives, derivative, node->in[k]->grad};
    if (job.dx)
        ppo__cuda_keep(node, ppo__cuda_for(ppo__cuda_of(node), "a loss", job, ppo__size(node->in[k])));
}

static void ppo__cuda_sum_backward(ppo_node *node) {
    ppo__cuda_spread_to(node, 0, NULL, (float)(1 / *(const double *)node->args));
}

static ppo_status ppo__cuda_layer_forward(ppo_node *node, ppo__layer *layer) {
    int in = layer->w->rows, out = layer->w->cols;
    ppo__cuda_activate job = {layer->y, layer->before, layer->b ? layer->b->data : NULL, out,
                              layer->activation};
    ppo_status status =
        ppo__cuda_gemm(ppo__cuda_of(node), layer->rows, out, in, layer->x, 0, layer->w->data, 0, 0, layer->y);
    if (status || (!job.b && !job.activation)) return status;
    return ppo__cuda_for(ppo__cuda_of(node), "linear", job, ppo__at(layer->rows, out));
}

static ppo_status ppo__cuda_chain_forward(ppo_node *node) {
    ppo__chain *chain = (ppo__chain *)node->args;
    ppo_status status = ppo__chain_layers(node, chain);
    for (int k = 0; k < chain->count && !status; ++k)
        status = ppo__cuda_layer_forward(node, &chain->layer[k]);
    return status;
}

/* Overwrites dy with dz, and computes dx, dw, db from it. */
static ppo_status ppo__cuda_layer_backward(ppo_node *node, const ppo__layer *layer) {
    ppo_cuda *cuda = ppo__cuda_of(node);
    int in = layer->w->rows, out = layer->w->cols, rows = layer->rows;
    ppo__cuda_activate_backward job = {layer->y, layer->before, layer->dz, layer->activation};
    ppo_status status = PPO_OK;
    if (layer->activation) status = ppo__cuda_for(cuda, "linear", job, ppo__at(rows, out));
    if (!status && layer->dx)
        status = ppo__cuda_gemm(cuda, rows, in, out, layer->dz, 0, layer->w->data, 1,
                                layer->dx_before ? 1.0f : 0.0f, layer->dx);
    if (!status && layer->w->grad)
        status = ppo__cuda_gemm(cuda, in, out, rows, layer->x, 1, layer->dz, 0, 1, layer->w->grad);
    if (status || !layer->b || !layer->b->grad) return status;
    ppo__cuda_bias bias = {layer->dz, layer->b->grad, out};
    return ppo__cuda_columns(cuda, bias, rows, out);
}

static void ppo__cuda_chain_backward(ppo_node *node) {
    ppo__chain *chain = (ppo__chain *)node->args;
    ppo_status status = ppo__chain_gradients(node, chain);
    for (int k = chain->count - 1; k >= 0 && chain->layer[k].dz && !status; --k)
        status = ppo__cuda_layer_backward(node, &chain->layer[k]);
    ppo__cuda_keep(node, status);
}

#ifdef PPO__HUB_IMPLEMENTED
struct ppo__cuda_lora { /* some columns of y += scale part; or, backward, part = scale these columns */
    float *y, *part;
    int out, column, cols, backward;
    float scale;

    __device__ void operator()(size_t i) const {
        float *const at = y + i / cols * out + column + i % cols;
        if (backward) part[i] = scale * *at;
        else *at += scale * part[i];
    }
};

static ppo_status ppo__cuda_lora_forward(ppo_node *node) {
    const ppo__lora_args *args = (const ppo__lora_args *)node->args;
    const ppo_tensor *x = node->in[0], *out = node->out[0];
    ppo_cuda *cuda = ppo__cuda_of(node);
    const int rows = x->rows, rank = node->in[2]->cols, keeps = ppo__lora_keeps_z(args);
    float *kept = ppo_tape_alloc(node->tape, ppo__lora_kept(node) + (keeps ? ppo__size(out) : 0));
    float *part = ppo_tape_alloc(node->tape, ppo__size(out));
    node->kept = kept;
    if (!kept || !part) return PPO_ERROR_MEMORY;
    ppo__tape_copy(node->tape, node->in[1]->data, ppo__size(out), out->data);
    ppo_status status = PPO_OK;
    for (int i = 0; i < args->parts && !status; ++i, kept += ppo__at(rows, rank)) {
        const ppo_tensor *a = node->in[2 + 2 * i], *b = node->in[3 + 2 * i];
        ppo__cuda_lora job = {out->data, part, out->cols, args->column[i], b->cols, 0, args->scale};
        status = ppo__cuda_gemm(cuda, rows, rank, x->cols, x->data, 0, a->data, 0, 0, kept);
        if (!status) status = ppo__cuda_gemm(cuda, rows, b->cols, rank, kept, 0, b->data, 0, 0, part);
        if (!status) status = ppo__cuda_for(cuda, "lora", job, ppo__at(rows, b->cols));
    }
    ppo__cuda_activate f = {out->data, keeps ? kept : NULL, NULL, out->cols, args->activation};
    return status || !args->activation ? status : ppo__cuda_for(cuda, "lora", f, ppo__size(out));
}

static void ppo__cuda_lora_backward(ppo_node *node) {
    const ppo__lora_args *args = (const ppo__lora_args *)node->args;
    const ppo_tensor *x = node->in[0], *y = node->in[1], *out = node->out[0];
    ppo_cuda *cuda = ppo__cuda_of(node);
    const int rows = x->rows, rank = node->in[2]->cols;
    float *kept = (float *)node->kept;
    float *g = ppo_tape_alloc(node->tape, ppo__size(out) + ppo__at(rows, rank)), *u = g + ppo__size(out);
    ppo_status status = g ? PPO_OK : PPO_ERROR_MEMORY;
    ppo__cuda_activate_backward f = {out->data, kept + ppo__lora_kept(node), out->grad, args->activation};
    ppo__cuda_add_derivatives add = {out->grad, y->grad, NULL};
    if (!status && args->activation) status = ppo__cuda_for(cuda, "lora", f, ppo__size(out));
    if (!status && y->grad) status = ppo__cuda_for(cuda, "lora", add, ppo__size(out));
    for (int i = 0; i < args->parts && !status; ++i, kept += ppo__at(rows, rank)) {
        const ppo_tensor *a = node->in[2 + 2 * i], *b = node->in[3 + 2 * i];
        const int cols = b->cols;
        ppo__cuda_lora job = {out->grad, g, out->cols, args->column[i], cols, 1, args->scale};
        status = ppo__cuda_for(cuda, "lora", job, ppo__at(rows, cols));
        if (!status && b->grad) status = ppo__cuda_gemm(cuda, rank, cols, rows, kept, 1, g, 0, 1, b->grad);
        if (!status) status = ppo__cuda_gemm(cuda, rows, rank, cols, g, 0, b->data, 1, 0, u);
        if (!status && a->grad)
            status = ppo__cuda_gemm(cuda, x->cols, rank, rows, x->data, 1, u, 0, 1, a->grad);
        if (!status && x->grad)
            status = ppo__cuda_gemm(cuda, rows, x->cols, rank, u, 0, a->data, 1, 1, x->grad);
    }
    ppo__cuda_keep(node, status);
}
#endif

static ppo_status ppo__cuda_transposed_forward(ppo_node *node) {
    const ppo_tensor *a = node->in[0], *b = node->in[1];
    return ppo__cuda_gemm(ppo__cuda_of(node), a->rows, b->rows, a->cols, a->data, 0, b->data, 1, 0,
                          node->out[0]->data);
}

static void ppo__cuda_transposed_backward(ppo_node *node) {
    const ppo_tensor *a = node->in[0], *b = node->in[1];
    const float *dy = node->out[0]->grad;
    ppo_cuda *cuda = ppo__cuda_of(node);
    if (a->grad)
        ppo__cuda_keep(node, ppo__cuda_gemm(cuda, a->rows, a->cols, b->rows, dy, 0, b->data, 0, 1, a->grad));
    if (b->grad)
        ppo__cuda_keep(node, ppo__cuda_gemm(cuda, b->rows, b->cols, a->rows, dy, 1, a->data, 0, 1, b->grad));
}

struct ppo__cuda_gather {
    const float *table;
    const int *index;
    float *to;
    int cols;

    __device__ void operator()(size_t i) const { to[i] = table[(size_t)index[i / cols] * cols + i % cols]; }
};

static ppo_status ppo__cuda_embedding_forward(ppo_node *node) {
    const int *index = *(const int *const *)node->args;
    ppo_tensor *out = node->out[0];
    ppo_status status = ppo__check_index("embedding", index, out->rows, node->in[0]->rows);
    if (status) return status;
    int *uploaded = ppo__cuda_upload(node->tape, index, (size_t)out->rows);
    if (!uploaded) return PPO_ERROR_MEMORY;
    node->kept = uploaded;
    ppo__cuda_gather job = {node->in[0]->data, uploaded, out->data, out->cols};
    return ppo__cuda_for(ppo__cuda_of(node), "embedding", job, ppo__size(out));
}

/* A block sums the rows of dy that belong to one row of the table, 256 columns at a time: each of its warps
   searches every 8th group of 32 indices. It adds in the order of the indices, warp by warp. */
enum { PPO__SCATTER_WARPS = 8, PPO__SCATTER_EACH = 8, PPO__SCATTER_COLUMNS = 32 * PPO__SCATTER_EACH };

static __global__ void ppo__cuda_scatter_kernel(const float *dy, const int *index, int n, int cols,
                                                float *table) {
    __shared__ float partial[PPO__SCATTER_WARPS][PPO__SCATTER_COLUMNS];
    const int row = (int)blockIdx.x, lane = (int)threadIdx.x, warp = (int)threadIdx.y;
    for (int from = 0; from < cols; from += PPO__SCATTER_COLUMNS) {
        float sum[PPO__SCATTER_EACH] = {0};
        for (int i = 32 * warp; i < n; i += 32 * PPO__SCATTER_WARPS) {
            unsigned found = __ballot_sync(~0u, i + lane < n && index[i + lane] == row);
            for (; found; found &= found - 1) {
                const float *y = dy + (size_t)(i + __clz((int)__brev(found))) * cols + from;
                for (int c = 0; c < PPO__SCATTER_EACH; ++c)
                    if (from + lane + 32 * c < cols) sum[c] += y[lane + 32 * c];
            }
        }
        for (int c = 0; c < PPO__SCATTER_EACH; ++c) partial[warp][lane + 32 * c] = sum[c];
        __syncthreads();
        const int column = lane + 32 * warp;
        float total = 0;
        for (int w = 0; w < PPO__SCATTER_WARPS; ++w) total += partial[w][column];
        if (from + column < cols) table[(size_t)row * cols + from + column] += total;
        __syncthreads();
    }
}

static void ppo__cuda_embedding_backward(ppo_node *node) {
    const ppo_tensor *table = node->in[0], *out = node->out[0];
    if (!table->grad) return;
    PPO__LAUNCH(ppo__cuda_scatter_kernel, dim3(table->rows), dim3(32, PPO__SCATTER_WARPS), 0,
                ppo__cuda_of(node)->stream, out->grad, (const int *)node->kept, out->rows, out->cols,
                table->grad);
    ppo__cuda_keep(node, ppo__cuda_launched("embedding"));
}

struct ppo__cuda_norm {
    const float *x, *w, *b;
    float *y, *kept; /* kept: mean and 1 / standard deviation of each row */
    const float *dy;
    float *dx, *dw, *db;
    int rows, cols, centred;
    float eps;

    __device__ float normal(int i, int j) const {
        return (x[(size_t)i * cols + j] - kept[2 * i]) * kept[2 * i + 1];
    }
    __device__ void add(int i, int j, float *sum) const {
        const float d = dy[(size_t)i * cols + j];
        sum[0] += d * normal(i, j);
        sum[1] += d;
    }
    __device__ void done(int j, const float *sum) const {
        if (dw) dw[j] += sum[0];
        if (db) db[j] += sum[1];
    }
};

template <class Type, int PPO__PER_BLOCK> static __global__ void ppo__cuda_norm_kernel(ppo__cuda_norm job) {
    const int row = ppo__cuda_row(), n = job.cols, lane = (int)threadIdx.x;
    if (row >= job.rows) return;
    const Type *x = job.x + (size_t)row * n;
    Type *y = job.y + (size_t)row * n;
    float sum = 0, squares = 0;
    for (int j = lane; j < n && job.centred; j += PPO__PER_BLOCK) sum += x[j];
    const float mean = ppo__cuda_group_sum<PPO__PER_BLOCK>(sum) / (float)n;
    for (int j = lane; j < n; j += PPO__PER_BLOCK) squares += (x[j] - mean) * (x[j] - mean);
    const float rstd = 1 / sqrtf(ppo__cuda_group_sum<PPO__PER_BLOCK>(squares) / (float)n + job.eps);
    for (int j = lane; j < n; j += PPO__PER_BLOCK)
        y[j] = (x[j] - mean) * rstd * job.w[j] + (job.b ? (float)job.b[j] : 0);
    if (lane == 0) job.kept[2 * row] = mean, job.kept[2 * row + 1] = rstd;
}

template <class Type, int PPO__PER_BLOCK>
static __global__ void ppo__cuda_norm_backward_kernel(ppo__cuda_norm job) {
    const int row = ppo__cuda_row(), n = job.cols, lane = (int)threadIdx.x;
    if (row >= job.rows) return;
    const Type *dy = job.dy + (size_t)row * n;
    Type *dx = job.dx + (size_t)row * n;
    float g_sum = 0, gx_sum = 0;
    for (int j = lane; j < n; j += PPO__PER_BLOCK) {
        const float g = dy[j] * job.w[j];
        g_sum += job.centred ? g : 0;
        gx_sum += g * job.normal(row, j);
    }
    g_sum = ppo__cuda_group_sum<PPO__PER_BLOCK>(g_sum) / (float)n;
    gx_sum = ppo__cuda_group_sum<PPO__PER_BLOCK>(gx_sum) / (float)n;
    for (int j = lane; j < n; j += PPO__PER_BLOCK)
        dx[j] += job.kept[2 * row + 1] * (dy[j] * job.w[j] - g_sum - job.normal(row, j) * gx_sum);
}

static ppo__cuda_norm ppo__cuda_norm_of(const ppo_node *node) {
    const ppo__norm_args *args = (const ppo__norm_args *)node->args;
    const ppo_tensor *x = node->in[0], *w = node->in[1], *b = node->in[2], *y = node->out[0];
    return {x->data,
            w->data,
            b ? b->data : NULL,
            y->data,
            (float *)node->kept,
            y->grad,
            x->grad,
            w->grad,
            b ? b->grad : NULL,
            x->rows,
            x->cols,
            args->centred,
            args->eps};
}

static ppo_status ppo__cuda_norm_forward(ppo_node *node) {
    node->kept = ppo_tape_alloc(node->tape, ppo__at(2, node->in[0]->rows));
    if (!node->kept) return PPO_ERROR_MEMORY;
    ppo__cuda_norm job = ppo__cuda_norm_of(node);
    PPO__LAUNCH_ROWS(ppo__cuda_norm_kernel, float, job, job.rows, job.cols, ppo__cuda_of(node)->stream);
    return ppo__cuda_launched("norm");
}

static void ppo__cuda_norm_backward(ppo_node *node) {
    ppo__cuda_norm job = ppo__cuda_norm_of(node);
    if (job.dx)
        PPO__LAUNCH_ROWS(ppo__cuda_norm_backward_kernel, float, job, job.rows, job.cols,
                         ppo__cuda_of(node)->stream);
    ppo__cuda_keep(node, ppo__cuda_launched("norm"));
    if (job.dw || job.db)
        ppo__cuda_keep(node, ppo__cuda_columns(ppo__cuda_of(node), job, job.rows, job.cols));
}

/* -- attention, as in ppo.h, with an online softmax instead of P in memory (Dao 2022). A block computes a
   tile of rows: queries or, for dK and dV, keys. Each of its warps has two of them, and reads the rows of the
   other kind 32 at a time, one per lane -- */

enum { PPO__ATTEND_WARPS = 8, PPO__ATTEND_EACH = 2, PPO__ATTEND_OWN = PPO__ATTEND_WARPS * PPO__ATTEND_EACH };

struct ppo__cuda_attention {
    const float *qkv, *dy; /* (rows, ld); backward: (rows, width) */
    float *y, *dqkv;       /* (rows, width); backward: added to */
    float *log_sum, *dot;  /* (rows, heads): log sum exp(score); backward: dy . y */
    const int *tile;       /* (tiles, 3): begin, n, first of each ppo__cuda_attention_tile */
    int ld, width, size;
    ppo_attention how;
    int tiles;

    /* Does row i attend to row j? */
    __device__ bool sees(int i, int j) const { return j <= i && (!how.window || i - j < how.window); }
    /* Where the keys for a head of queries begin in a row. Values are kv_heads * size further on. */
    __device__ size_t keys(int head) const {
        return (size_t)(how.heads + head / (how.heads / how.kv_heads)) * size;
    }
};

/* The tile of this block. */
struct ppo__cuda_attention_tile {
    int begin, n, first, head; /* the sequence's first row and length; the tile's first row in it */
    __device__ explicit ppo__cuda_attention_tile(const ppo__cuda_attention &job) {
        const int *tile = job.tile + 3 * (size_t)blockIdx.x;
        begin = tile[0], n = tile[1], first = tile[2];
        head = (int)blockIdx.y;
    }
};

/* Copies `count` rows of `size` numbers to shared memory, where they are ld_to floats apart. Rows after the
   last of the sequence become 0. Call it from all threads. */
static __device__ void ppo__cuda_load_rows(float *to, int ld_to, const float *from, int ld, int first,
                                           int count, int n, int size) {
    const int thread = (int)(threadIdx.y * 32 + threadIdx.x);
    for (int at = thread; at < count * size; at += 32 * PPO__ATTEND_WARPS) {
        const int i = at / size, j = at % size;
        to[i * ld_to + j] = first + i < n ? from[(size_t)(first + i) * ld + j] : 0;
    }
}

/* The dot product of n numbers. Those of b are `step` floats apart. */
static __device__ float ppo__cuda_dot(const float *a, const float *b, int n, int step = 1) {
    float sum = 0;
    for (int j = 0; j < n; ++j) sum += a[j] * b[j * step];
    return sum;
}

/* sum += weight of lane i times row i, over all rows in shared memory. Lane j has columns j, j + 32, ... */
template <int Columns>
static __device__ void ppo__cuda_weigh(float (&sum)[Columns], float weight, const float *row, int ld,
                                       int size, int rows) {
    const int lane = (int)threadIdx.x;
    for (int i = 0; i < rows; ++i) {
        const float w = __shfl_sync(~0u, weight, i);
        PPO__CUDA_UNROLL
        for (int c = 0; c < Columns; ++c)
            if (lane + 32 * c < size) sum[c] += w * row[i * ld + lane + 32 * c];
    }
}

/* A row of softmax(scores) V, computed online. */
template <int Columns> struct ppo__cuda_mixture {
    float max, sum, value[Columns];

    __device__ void clear() {
        max = -INFINITY, sum = 0;
        for (float &v : value) v = 0;
    }
    /* Adds one score per lane (-INFINITY: none), and `rows` rows of V. */
    __device__ void add(float score, const float *row, int ld, int size, int rows) {
        const float top = fmaxf(max, ppo__cuda_warp_max(score)), factor = expf(max - top),
                    p = expf(score - top);
        sum = sum * factor + ppo__cuda_warp_sum(p);
        for (float &v : value) v *= factor;
        ppo__cuda_weigh(value, p, row, ld, size, rows);
        max = top;
    }
    __device__ void write(float *to, int size) const {
        for (int c = 0; c < Columns; ++c)
            if ((int)threadIdx.x + 32 * c < size) to[threadIdx.x + 32 * c] = value[c] / sum;
    }
};

template <int Columns> static __global__ void ppo__cuda_attend_kernel(ppo__cuda_attention job) {
    PPO__DYNAMIC_SHARED(float, shared);
    const ppo__cuda_attention_tile at(job);
    const int size = job.size, ld = job.ld, pitch = size | 1, lane = (int)threadIdx.x;
    const float *row = job.qkv + (size_t)at.begin * ld, *q = row + (size_t)at.head * size;
    const float *k = row + job.keys(at.head), *v = k + (size_t)job.how.kv_heads * size;
    float *keys = shared, *values = keys + 32 * pitch, *own = values + 32 * pitch;
    ppo__cuda_mixture<Columns> mix[PPO__ATTEND_EACH];
    for (auto &m : mix) m.clear();
    ppo__cuda_load_rows(own, size, q, ld, at.first, PPO__ATTEND_OWN, at.n, size);
    for (int j = 0; j < at.n && j < at.first + PPO__ATTEND_OWN; j += 32) {
        __syncthreads();
        ppo__cuda_load_rows(keys, pitch, k, ld, j, 32, at.n, size);
        ppo__cuda_load_rows(values, pitch, v, ld, j, 32, at.n, size);
        __syncthreads();
        PPO__CUDA_UNROLL
        for (int r = 0; r < PPO__ATTEND_EACH; ++r) {
            const int mine = (int)threadIdx.y * PPO__ATTEND_EACH + r, i = at.first + mine;
            if (j > i || !job.sees(i, j + 31 < i ? j + 31 : i)) continue; /* the same for the whole warp */
            const float score = job.how.scale * ppo__cuda_dot(own + mine * size, keys + lane * pitch, size);
            mix[r].add(job.sees(i, j + lane) ? score : -INFINITY, values, pitch, size, 32);
        }
    }
    PPO__CUDA_UNROLL
    for (int r = 0; r < PPO__ATTEND_EACH; ++r) {
        const int i = at.first + (int)threadIdx.y * PPO__ATTEND_EACH + r;
        if (i >= at.n) continue;
        mix[r].write(job.y + (size_t)(at.begin + i) * job.width + at.head * size, size);
        if (lane == 0) job.log_sum[(at.begin + i) * job.how.heads + at.head] = mix[r].max + logf(mix[r].sum);
    }
}

/* With p = exp(score - log_sum): dscore = p (dy . v - dy . y), dq = scale sum dscore k. Stores dy . y for the
   next kernel. */
template <int Columns> static __global__ void ppo__cuda_attend_dq_kernel(ppo__cuda_attention job) {
    PPO__DYNAMIC_SHARED(float, shared);
    const ppo__cuda_attention_tile at(job);
    const int size = job.size, ld = job.ld, pitch = size | 1, lane = (int)threadIdx.x;
    const size_t begin = (size_t)at.begin * ld + at.head * size,
                 begin_y = (size_t)at.begin * job.width + at.head * size;
    const float *k = job.qkv + (size_t)at.begin * ld + job.keys(at.head),
                *v = k + (size_t)job.how.kv_heads * size;
    float *keys = shared, *values = keys + 32 * pitch, *own = values + 32 * pitch,
          *own_dy = own + PPO__ATTEND_OWN * size;
    float dq[PPO__ATTEND_EACH][Columns] = {{0}}, dot[PPO__ATTEND_EACH], log_sum[PPO__ATTEND_EACH];
    ppo__cuda_load_rows(own, size, job.qkv + begin, ld, at.first, PPO__ATTEND_OWN, at.n, size);
    ppo__cuda_load_rows(own_dy, size, job.dy + begin_y, job.width, at.first, PPO__ATTEND_OWN, at.n, size);
    PPO__CUDA_UNROLL
    for (int r = 0; r < PPO__ATTEND_EACH; ++r) {
        const int i = at.first + (int)threadIdx.y * PPO__ATTEND_EACH + r,
                  row = (at.begin + i) * job.how.heads + at.head;
        float sum = 0;
        for (int c = lane; c < size && i < at.n; c += 32)
            sum += job.dy[begin_y + (size_t)i * job.width + c] * job.y[begin_y + (size_t)i * job.width + c];
        dot[r] = ppo__cuda_warp_sum(sum);
        log_sum[r] = i < at.n ? job.log_sum[row] : 0;
        if (lane == 0 && i < at.n) job.dot[row] = dot[r];
    }
    for (int j = 0; j < at.n && j < at.first + PPO__ATTEND_OWN; j += 32) {
        __syncthreads();
        ppo__cuda_load_rows(keys, pitch, k, ld, j, 32, at.n, size);
        ppo__cuda_load_rows(values, pitch, v, ld, j, 32, at.n, size);
        __syncthreads();
        PPO__CUDA_UNROLL
        for (int r = 0; r < PPO__ATTEND_EACH; ++r) {
            const int mine = (int)threadIdx.y * PPO__ATTEND_EACH + r, i = at.first + mine;
            if (j > i) continue;
            const float score = job.how.scale * ppo__cuda_dot(own + mine * size, keys + lane * pitch, size);
            const float p = job.sees(i, j + lane) ? expf(score - log_sum[r]) : 0;
            const float dp = ppo__cuda_dot(own_dy + mine * size, values + lane * pitch, size);
            ppo__cuda_weigh(dq[r], job.how.scale * p * (dp - dot[r]), keys, pitch, size, 32);
        }
    }
    PPO__CUDA_UNROLL
    for (int r = 0; r < PPO__ATTEND_EACH; ++r) {
        const int i = at.first + (int)threadIdx.y * PPO__ATTEND_EACH + r;
        for (int c = 0; c < Columns && i < at.n; ++c)
            if (lane + 32 * c < size) job.dqkv[begin + (size_t)i * ld + lane + 32 * c] += dq[r][c];
    }
}

/* dk = scale sum dscore q, dv = sum p dy, over the queries that attend to a key, of all heads that share it. */
template <int Columns> static __global__ void ppo__cuda_attend_dkv_kernel(ppo__cuda_attention job) {
    PPO__DYNAMIC_SHARED(float, shared);
    const ppo__cuda_attention_tile at(job);
    const int size = job.size, ld = job.ld, pitch = size | 1, lane = (int)threadIdx.x;
    const int heads = job.how.heads / job.how.kv_heads, to_values = job.how.kv_heads * size;
    const size_t begin = (size_t)at.begin * ld, own_begin = begin + job.keys(at.head * heads);
    const float *k = job.qkv + own_begin, *v = k + to_values;
    float *queries = shared, *dys = queries + 32 * pitch, *own_k = dys + 32 * pitch,
          *own_v = own_k + PPO__ATTEND_OWN * size;
    float dk[PPO__ATTEND_EACH][Columns] = {{0}}, dv[PPO__ATTEND_EACH][Columns] = {{0}};
    ppo__cuda_load_rows(own_k, size, k, ld, at.first, PPO__ATTEND_OWN, at.n, size);
    ppo__cuda_load_rows(own_v, size, v, ld, at.first, PPO__ATTEND_OWN, at.n, size);
    for (int head = at.head * heads; head < (at.head + 1) * heads; ++head) {
        for (int i = at.first; i < at.n; i += 32) {
            __syncthreads();
            ppo__cuda_load_rows(queries, pitch, job.qkv + begin + head * size, ld, i, 32, at.n, size);
            ppo__cuda_load_rows(dys, pitch, job.dy + (size_t)at.begin * job.width + head * size, job.width, i,
                                32, at.n, size);
            __syncthreads();
            const int row = (at.begin + i + lane) * job.how.heads + head;
            const float log_sum = i + lane < at.n ? job.log_sum[row] : 0,
                        dot = i + lane < at.n ? job.dot[row] : 0;
            PPO__CUDA_UNROLL
            for (int r = 0; r < PPO__ATTEND_EACH; ++r) {
                const int mine = (int)threadIdx.y * PPO__ATTEND_EACH + r, j = at.first + mine;
                const float score =
                    job.how.scale * ppo__cuda_dot(own_k + mine * size, queries + lane * pitch, size);
                const float p = i + lane < at.n && job.sees(i + lane, j) ? expf(score - log_sum) : 0;
                const float dp = ppo__cuda_dot(own_v + mine * size, dys + lane * pitch, size);
                ppo__cuda_weigh(dv[r], p, dys, pitch, size, 32);
                ppo__cuda_weigh(dk[r], job.how.scale * p * (dp - dot), queries, pitch, size, 32);
            }
        }
    }
    PPO__CUDA_UNROLL
    for (int r = 0; r < PPO__ATTEND_EACH; ++r) {
        const int j = at.first + (int)threadIdx.y * PPO__ATTEND_EACH + r;
        float *to = job.dqkv + own_begin + (size_t)j * ld;
        for (int c = 0; c < Columns && j < at.n; ++c) {
            if (lane + 32 * c >= size) continue;
            to[lane + 32 * c] += dk[r][c];
            to[lane + 32 * c + to_values] += dv[r][c];
        }
    }
}

/* A kernel needs permission for more than 48 KiB of shared memory. */
template <class Kernel> static ppo_status ppo__cuda_allow(Kernel kernel, size_t shared) {
    if (shared <= 48 << 10) return PPO_OK;
    return ppo__cuda_status(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared), "attention");
}

/* Launches kernel<C>, where C is how many numbers of a head a lane has. */
#define PPO__LAUNCH_HEAD(kernel, grid, block, shared, stream, job, status)    \
    do {                                                                      \
        status = ppo__cuda_allow(kernel, shared);                             \
        if (!status) PPO__LAUNCH((kernel), grid, block, shared, stream, job); \
        if (!status) status = ppo__cuda_launched("attention");                \
    } while (0)
#define PPO__LAUNCH_HEADS(kernel, size, grid, block, shared, stream, job, status)                        \
    do {                                                                                                 \
        if ((size) <= 32) PPO__LAUNCH_HEAD((kernel<1>), grid, block, shared, stream, job, status);       \
        else if ((size) <= 64) PPO__LAUNCH_HEAD((kernel<2>), grid, block, shared, stream, job, status);  \
        else if ((size) <= 128) PPO__LAUNCH_HEAD((kernel<4>), grid, block, shared, stream, job, status); \
        else PPO__LAUNCH_HEAD((kernel<8>), grid, block, shared, stream, job, status);                    \
    } while (0)
enum { PPO__CUDA_HEAD = 256 }; /* the largest size of a head */

static ppo_status ppo__cuda_check_head(int size) {
    if (size <= PPO__CUDA_HEAD) return PPO_OK;
    return ppo__refuse("an attention head has %d numbers, must be at most %d on the device", size,
                       PPO__CUDA_HEAD);
}

/* Lists the tiles of all sequences, and copies the list to the device. */
static int *ppo__cuda_tiles(ppo_tape *tape, const ppo__attention_args *args, int *tiles) {
    const int *start = args->start;
    *tiles = 0;
    for (int s = 0; s < args->count; ++s) *tiles += ppo__divide_up(start[s + 1] - start[s], PPO__ATTEND_OWN);
    int *list = (int *)ppo__tape_take(tape, ppo__at(3, *tiles), sizeof *list), *next = list;
    for (int s = 0; s < args->count && list; ++s) {
        const int n = start[s + 1] - start[s];
        for (int i = 0; i < n; i += PPO__ATTEND_OWN, next += 3) next[0] = start[s], next[1] = n, next[2] = i;
    }
    return ppo__cuda_upload(tape, list, ppo__at(3, *tiles));
}

static ppo_status ppo__cuda_attention_forward(ppo_node *node) {
    const ppo__attention_args *args = (const ppo__attention_args *)node->args;
    ppo_tape *tape = node->tape;
    ppo_tensor *qkv = node->in[0], *y = node->out[0];
    ppo__cuda_attention *job = (ppo__cuda_attention *)ppo__tape_take(tape, 1, sizeof *job);
    if (!job) return PPO_ERROR_MEMORY;
    node->kept = job;
    int size = args->size;
    size_t numbers = ppo__at(y->rows, args->attention.heads);
    int tiles;
    const int *tile = ppo__cuda_tiles(tape, args, &tiles);
    float *log_sum = ppo_tape_alloc(tape, numbers), *dot = y->grad ? ppo_tape_alloc(tape, numbers) : NULL;
    ppo_status status = ppo_tape_status(tape);
    if (!status) status = ppo__cuda_check_head(size);
    if (status) return status;
    *job = {qkv->data, NULL,      y->data, NULL, log_sum,         dot,
            tile,      qkv->cols, y->cols, size, args->attention, tiles};
    dim3 grid(tiles, args->attention.heads), block(32, PPO__ATTEND_WARPS);
    size_t shared = (64 * (size + 1) + PPO__ATTEND_OWN * size) * sizeof(float);
    PPO__LAUNCH_HEADS(ppo__cuda_attend_kernel, size, grid, block, shared, ppo__cuda_of(node)->stream, *job,
                      status);
    return status;
}

static void ppo__cuda_attention_backward(ppo_node *node) {
    ppo__cuda_attention &job = *(ppo__cuda_attention *)node->kept;
    dim3 grid(job.tiles, job.how.heads), block(32, PPO__ATTEND_WARPS);
    dim3 kv_grid(job.tiles, job.how.kv_heads);
    job.dy = node->out[0]->grad, job.dqkv = node->in[0]->grad;
    size_t shared = (64 * (job.size + 1) + 2 * PPO__ATTEND_OWN * job.size) * sizeof(float);
    cudaStream_t stream = ppo__cuda_of(node)->stream;
    ppo_status status;
    PPO__LAUNCH_HEADS(ppo__cuda_attend_dq_kernel, job.size, grid, block, shared, stream, job, status);
    if (!status)
        PPO__LAUNCH_HEADS(ppo__cuda_attend_dkv_kernel, job.size, kv_grid, block, shared, stream, job, status);
    ppo__cuda_keep(node, status);
}

/* -- attention of a generator's rows to the cached keys and values of their slots, in ppo.h's layout -- */

struct ppo__cuda_cache {
    const float *qkv; /* (rows, ld) */
    float *keys, *values, *out;
    const int *slot, *position; /* [rows] */
    size_t slot_keys, slot_values;
    int rows, ld, width, size; /* width: of all keys of a row */
    ppo_attention how;

    /* Writes number i of the rows' keys, and of their values, to the cache. */
    __device__ void operator()(size_t i) const {
        const int row = (int)(i / width), j = (int)(i % width), at = position[row], in = at % PPO__KEY_PAGE;
        const float *k = qkv + (size_t)row * ld + how.heads * size + j, *v = k + width;
        keys[slot[row] * slot_keys + (size_t)(at - in) * width + j * PPO__KEY_PAGE + in] = *k;
        values[slot[row] * slot_values + (size_t)at * width + j] = *v;
    }
};

/* One warp per head and row. */
template <int Columns> static __global__ void ppo__cuda_cached_kernel(ppo__cuda_cache job) {
    const int heads = job.how.heads, warp = (int)(blockIdx.x * blockDim.y + threadIdx.y), row = warp / heads,
              head = warp % heads, shared = head / (heads / job.how.kv_heads) * job.size;
    if (row >= job.rows) return;
    const int seen = job.position[row] + 1, lane = (int)threadIdx.x;
    const int first = job.how.window && seen > job.how.window ? seen - job.how.window : 0;
    const float *q = job.qkv + (size_t)row * job.ld + head * job.size;
    const float *keys = job.keys + job.slot[row] * job.slot_keys + shared * PPO__KEY_PAGE;
    const float *values = job.values + job.slot[row] * job.slot_values + shared;
    ppo__cuda_mixture<Columns> mix;
    mix.clear();
    for (int j = first / 32 * 32; j < seen; j += 32) {
        const float *key = keys + (size_t)(j / PPO__KEY_PAGE) * PPO__KEY_PAGE * job.width + j % PPO__KEY_PAGE;
        /* lanes after `seen` read unused memory of the page */
        const float score = job.how.scale * ppo__cuda_dot(q, key + lane, job.size, PPO__KEY_PAGE);
        mix.add(j + lane >= first && j + lane < seen ? score : -INFINITY, values + (size_t)j * job.width,
                job.width, job.size, seen - j < 32 ? seen - j : 32);
    }
    mix.write(job.out + (size_t)(row * heads + head) * job.size, job.size);
}

/* Copies the slots and positions of the rows to the device, for all blocks of the model. */
static ppo_status ppo__cuda_rows(ppo_tape *tape, ppo__slot_sampler *sampler) {
    sampler->device_slot = ppo__cuda_upload(tape, sampler->row_slot, (size_t)sampler->rows);
    sampler->device_position = ppo__cuda_upload(tape, sampler->row_position, (size_t)sampler->rows);
    return ppo_tape_status(tape);
}

static ppo_status ppo__cuda_cached_forward(ppo_node *node) {
    const ppo__cached_args *args = (const ppo__cached_args *)node->args;
    ppo_generator *g = args->sampler->generator;
    const ppo_tensor *qkv = node->in[0];
    const ppo_lm_config *c = &g->lm->full;
    int size = c->head_size, width = c->kv_heads * size;
    size_t cache = ppo__at(args->block, g->slots);
    ppo_status status = ppo__cuda_check_head(size);
    if (!status && !args->block) status = ppo__cuda_rows(node->tape, args->sampler);
    if (status) return status;
    ppo__cuda_cache job = {qkv->data,
                           g->keys + cache * g->slot_keys,
                           g->values + cache * g->slot_values,
                           node->out[0]->data,
                           args->sampler->device_slot,
                           args->sampler->device_position,
                           g->slot_keys,
                           g->slot_values,
                           qkv->rows,
                           qkv->cols,
                           width,
                           size,
                           ppo__lm_attention(c, args->block)};
    status = ppo__cuda_for(ppo__cuda_of(node), "cached_attention", job, ppo__at(qkv->rows, width));
    if (status) return status;
    dim3 grid((qkv->rows * c->heads - 1) / PPO__WARPS + 1), block(32, PPO__WARPS);
    PPO__LAUNCH_HEADS(ppo__cuda_cached_kernel, size, grid, block, 0, ppo__cuda_of(node)->stream, job, status);
    return status;
}

/* -- rotary positions, norms of heads, gates -- */

struct ppo__cuda_rotary {
    const float *x, *angle;
    float *y; /* added to, if sign is -1 */
    int cols, heads, size, half;
    float sign;

    __device__ void operator()(size_t i) const {
        const int j = (int)(i % cols), c = j % size;
        const size_t row = i / cols;
        const float *a = angle + row * 2 * half;
        float turned = x[i];
        if (j < heads * size && c < half) turned = x[i] * a[c] - x[i + half] * sign * a[half + c];
        else if (j < heads * size && c < 2 * half) turned = x[i] * a[c - half] + x[i - half] * sign * a[c];
        y[i] = sign < 0 ? y[i] + turned : turned;
    }
};

static ppo_status ppo__cuda_rotary_run(const ppo_node *node, const float *x, float sign, float *y) {
    const ppo__rotary_args *args = (const ppo__rotary_args *)node->args;
    const ppo_tensor *angle = node->in[1];
    ppo__cuda_rotary job = {x,          angle->data,     y,   node->in[0]->cols, args->heads,
                            args->size, angle->cols / 2, sign};
    return ppo__cuda_for(ppo__cuda_of(node), "rotary", job, ppo__size(node->in[0]));
}

static ppo_status ppo__cuda_rotary_forward(ppo_node *node) {
    return ppo__cuda_rotary_run(node, node->in[0]->data, 1, node->out[0]->data);
}

static void ppo__cuda_rotary_backward(ppo_node *node) {
    if (node->in[0]->grad)
        ppo__cuda_keep(node, ppo__cuda_rotary_run(node, node->out[0]->grad, -1, node->in[0]->grad));
}

struct ppo__cuda_gated {
    const float *x, *dy; /* (rows, 2 n), (rows, n) */
    float *y, *dx;
    int n, activation;

    __device__ void operator()(size_t i) const {
        const size_t a = i / n * 2 * n + i % n, b = a + n;
        float f = x[a], derivative = 1;
        if (activation == PPO_TANH) f = tanhf(x[a]), derivative = 1 - f * f;
        if (activation == PPO_RELU) f = x[a] < 0 ? 0 : x[a], derivative = x[a] > 0;
        if (activation == PPO_GELU) f = ppo__gelu(x[a]), derivative = ppo__gelu_derivative(x[a]);
        if (activation == PPO_GELU_ERF) f = ppo__gelu_erf(x[a]), derivative = ppo__gelu_erf_derivative(x[a]);
        if (activation == PPO_SILU) f = ppo__silu(x[a]), derivative = ppo__silu_derivative(x[a]);
        if (activation == PPO_ELU) f = x[a] < 0 ? expm1f(x[a]) : x[a], derivative = f < 0 ? f + 1 : 1;
        if (y) y[i] = f * x[b];
        if (dx) dx[a] += dy[i] * x[b] * derivative, dx[b] += dy[i] * f;
    }
};

static ppo_status ppo__cuda_gated_forward(ppo_node *node) {
    const ppo_tensor *x = node->in[0], *y = node->out[0];
    ppo__cuda_gated job = {x->data, NULL, y->data, NULL, y->cols, *(const int *)node->args};
    return ppo__cuda_for(ppo__cuda_of(node), "glu", job, ppo__size(y));
}

static void ppo__cuda_gated_backward(ppo_node *node) {
    const ppo_tensor *x = node->in[0], *y = node->out[0];
    ppo__cuda_gated job = {x->data, y->grad, NULL, x->grad, y->cols, *(const int *)node->args};
    if (x->grad) ppo__cuda_keep(node, ppo__cuda_for(ppo__cuda_of(node), "glu", job, ppo__size(y)));
}

#ifdef PPO__HUB_IMPLEMENTED
/* One thread for each head of a row; a row has few of them, and they are short, but for OLMo 2's, which are wide. */
struct ppo__cuda_head_norm {
    const float *x, *weight[2], *dy;
    float *y, *kept, *dx;               /* kept (rows, heads): 1 / root mean square */
    int cols, sizes[2], heads, queries; /* sizes of queries, of keys */
    float eps;

    /* The first column of a head. */
    __device__ int first(int head) const {
        return head < queries ? head * sizes[0] : queries * sizes[0] + (head - queries) * sizes[1];
    }
    __device__ void operator()(size_t i) const {
        const int head = (int)(i % heads), size = sizes[head >= queries];
        const size_t at = i / heads * cols + first(head);
        const float *w = weight[head >= queries];
        float sum = 0;
        if (y) {
            for (int j = 0; j < size; ++j) sum += x[at + j] * x[at + j];
            kept[i] = 1 / sqrtf(sum / (float)size + eps);
            for (int j = 0; j < size; ++j) y[at + j] = x[at + j] * kept[i] * w[j];
        } else {
            for (int j = 0; j < size; ++j) sum += dy[at + j] * w[j] * x[at + j] * kept[i];
            for (int j = 0; j < size; ++j)
                dx[at + j] += kept[i] * (dy[at + j] * w[j] - x[at + j] * kept[i] * sum / (float)size);
        }
    }
    /* The gradients of the weights, as ppo__cuda_columns() sums them: column j of a row is number j of both. */
    float *dw[2];
    __device__ void add(int i, int j, float *sum) const {
        for (int head = 0; head < heads; ++head) {
            if (j >= sizes[head >= queries]) continue;
            const size_t at = (size_t)i * cols + first(head) + j;
            sum[head >= queries] += dy[at] * x[at] * kept[(size_t)i * heads + head];
        }
    }
    __device__ void done(int j, const float *sum) const {
        for (int k = 0; k < 2; ++k)
            if (dw[k] && j < sizes[k]) dw[k][j] += sum[k];
    }
};

static ppo__cuda_head_norm ppo__cuda_head_norm_of(const ppo_node *node) {
    const ppo__head_norm_args *args = (const ppo__head_norm_args *)node->args;
    const ppo_tensor *x = node->in[0], *q = node->in[1], *k = node->in[2];
    return {x->data,     {q->data, k->data},  node->out[0]->grad,
            NULL,        (float *)node->kept, x->grad,
            x->cols,     {q->cols, k->cols},  args->heads + args->kv_heads,
            args->heads, args->eps,           {q->grad, k->grad}};
}

/* The columns after the heads, the values: y = x, or dx += dy. */
struct ppo__cuda_rest {
    const float *x;
    float *y;
    int cols, first, add;
    __device__ void operator()(size_t i) const {
        const size_t at = i / (cols - first) * cols + first + i % (cols - first);
        y[at] = add ? y[at] + x[at] : x[at];
    }
};

static ppo_status ppo__cuda_head_norm_run(ppo_node *node, const ppo__cuda_head_norm &job,
                                          const ppo__cuda_rest &rest) {
    ppo_cuda *cuda = ppo__cuda_of(node);
    const int rows = node->in[0]->rows;
    ppo_status status = ppo__cuda_for(cuda, "qk_norm", job, ppo__at(rows, job.heads));
    return status ? status : ppo__cuda_for(cuda, "qk_norm", rest, ppo__at(rows, rest.cols - rest.first));
}

static ppo_status ppo__cuda_head_norm_forward(ppo_node *node) {
    const ppo__head_norm_args *args = (const ppo__head_norm_args *)node->args;
    const ppo_tensor *x = node->in[0];
    node->kept = ppo_tape_alloc(node->tape, ppo__at(x->rows, args->heads + args->kv_heads));
    if (!node->kept) return PPO_ERROR_MEMORY;
    ppo__cuda_head_norm job = ppo__cuda_head_norm_of(node);
    job.y = node->out[0]->data;
    const int end = args->heads * job.sizes[0] + args->kv_heads * job.sizes[1];
    return ppo__cuda_head_norm_run(node, job, {x->data, job.y, x->cols, end, 0});
}

static void ppo__cuda_head_norm_backward(ppo_node *node) {
    const ppo_tensor *x = node->in[0];
    ppo__cuda_head_norm job = ppo__cuda_head_norm_of(node);
    const int *sizes = job.sizes, queries = job.queries;
    const int end = queries * sizes[0] + (job.heads - queries) * sizes[1];
    const int widest = sizes[0] > sizes[1] ? sizes[0] : sizes[1];
    if (x->grad) ppo__cuda_keep(node, ppo__cuda_head_norm_run(node, job, {job.dy, x->grad, x->cols, end, 1}));
    if (job.dw[0] || job.dw[1])
        ppo__cuda_keep(node, ppo__cuda_columns(ppo__cuda_of(node), job, x->rows, widest));
}
#endif

/* -- distributions and losses -- */

typedef struct ppo__cuda_token_kept {
    int *token;
    ppo_cuda_rows rows;
} ppo__cuda_token_kept;

static ppo_status ppo__cuda_categorical_forward(ppo_node *node) {
    const ppo__categorical_args *args = (const ppo__categorical_args *)node->args;
    const ppo_tensor *logits = node->in[0];
    const size_t n = (size_t)logits->rows;
    const ppo__heads &heads = args->heads;
    if (heads.count != 1)
        return ppo__refuse("categorical: %d choices at once, must be 1 on the device", heads.count);
    ppo_status status = ppo__check_tokens("categorical", &heads, args->action, logits->rows);
    ppo__cuda_token_kept *kept = (ppo__cuda_token_kept *)ppo__tape_take(node->tape, 1, sizeof *kept);
    if (status || !kept) return status ? status : PPO_ERROR_MEMORY;
    node->kept = kept;
    kept->token = ppo__cuda_upload(node->tape, args->action, n);
    kept->rows = {node->out[0]->data, node->out[1]->data, ppo_tape_alloc(node->tape, n),
                  ppo_tape_alloc(node->tape, n), NULL};
    if (ppo_tape_status(node->tape)) return PPO_ERROR_MEMORY;
    ppo_cuda_logits z = {logits->data, 0};
    return ppo_cuda_token_logp(ppo__cuda_of(node), &z, NULL, kept->token, logits->rows, logits->cols,
                               1 / heads.inv_temperature, &kept->rows);
}

static void ppo__cuda_categorical_backward(ppo_node *node) {
    const ppo__categorical_args *args = (const ppo__categorical_args *)node->args;
    const ppo__cuda_token_kept *kept = (const ppo__cuda_token_kept *)node->kept;
    const ppo_tensor *logits = node->in[0];
    ppo_cuda *cuda = ppo__cuda_of(node);
    ppo__token_gradient<float> job = {logits->data,       logits->grad,
                                      kept->token,        logits->rows,
                                      logits->cols,       args->heads.inv_temperature,
                                      kept->rows,         node->out[0]->grad,
                                      node->out[1]->grad, 1};
    PPO__LAUNCH_ROWS(ppo__token_gradient_kernel, float, job, job.n, job.vocab, cuda->stream);
    ppo__cuda_keep(node, ppo__cuda_launched("categorical"));
}

/* KL = sum p (log p - log q), d KL / d z_j = p_j (log p_j - log q_j - KL) / temperature */
struct ppo__cuda_kl_to {
    const float *z, *ref; /* both on the device */
    float *stats;         /* (n, 4) max and log_sum of both */
    float *kl;            /* [n] */
    const float *dy;
    float *dz;
    int n, vocab;
    float inv_temperature;
};

template <class Type, int PPO__PER_BLOCK> static __global__ void ppo__cuda_kl_to_kernel(ppo__cuda_kl_to job) {
    const int row = ppo__cuda_row(), lane = (int)threadIdx.x;
    if (row >= job.n) return;
    const size_t at = (size_t)row * job.vocab;
    const ppo__online_pair x =
        ppo__cuda_pair<float, PPO__PER_BLOCK>(job.z + at, job.ref + at, job.vocab, job.inv_temperature);
    const float kl = x.kl(job.inv_temperature);
    if (lane) return;
    job.kl[row] = kl < 0 ? 0 : kl;
    const float inv = job.inv_temperature;
    const float stats[4] = {x.p.max * inv, x.p.log_sum(), x.q.max * inv, x.q.log_sum()};
    for (int k = 0; k < 4; ++k) job.stats[4 * row + k] = stats[k];
}

template <class Type, int PPO__PER_BLOCK>
static __global__ void ppo__cuda_kl_to_backward_kernel(ppo__cuda_kl_to job) {
    const int row = ppo__cuda_row();
    if (row >= job.n) return;
    const float *stats = job.stats + 4 * row, kl = job.kl[row],
                derivative = job.dy[row] * job.inv_temperature;
    for (int j = (int)threadIdx.x; j < job.vocab; j += PPO__PER_BLOCK) {
        const size_t at = (size_t)row * job.vocab + j;
        const float logp = job.z[at] * job.inv_temperature - stats[0] - stats[1], p = expf(logp);
        const float logq = job.ref[at] * job.inv_temperature - stats[2] - stats[3];
        if (p != 0) job.dz[at] += derivative * p * (logp - logq - kl);
    }
}

static ppo__cuda_kl_to ppo__cuda_kl_to_of(const ppo_node *node) {
    const ppo__categorical_args *args = (const ppo__categorical_args *)node->args;
    const ppo_tensor *z = node->in[0], *kl = node->out[0];
    return {z->data, args->logits, (float *)node->kept,        kl->data, kl->grad, z->grad,
            z->rows, z->cols,      args->heads.inv_temperature};
}

static ppo_status ppo__cuda_kl_to_forward(ppo_node *node) {
    node->kept = ppo_tape_alloc(node->tape, ppo__at(4, node->in[0]->rows));
    if (!node->kept) return PPO_ERROR_MEMORY;
    ppo__cuda_kl_to job = ppo__cuda_kl_to_of(node);
    PPO__LAUNCH_ROWS(ppo__cuda_kl_to_kernel, float, job, job.n, job.vocab, ppo__cuda_of(node)->stream);
    return ppo__cuda_launched("categorical_kl_to");
}

static void ppo__cuda_kl_to_backward(ppo_node *node) {
    ppo__cuda_kl_to job = ppo__cuda_kl_to_of(node);
    PPO__LAUNCH_ROWS(ppo__cuda_kl_to_backward_kernel, float, job, job.n, job.vocab,
                     ppo__cuda_of(node)->stream);
    ppo__cuda_keep(node, ppo__cuda_launched("categorical_kl_to"));
}

/* node->kept of a loss has the derivatives, which backward scales. */
static void ppo__cuda_loss_backward(ppo_node *node) {
    ppo__cuda_spread_to(node, 0, (const float *)node->kept, 0);
}

static ppo_status ppo__cuda_policy_forward(ppo_node *node) {
    const ppo__policy_args *args = (const ppo__policy_args *)node->args;
    ppo_tape *tape = node->tape;
    const size_t n = ppo__size(node->in[0]);
    ppo_status status = ppo__loss_keep(node);
    ppo_policy_stats *stats = (ppo_policy_stats *)ppo_tape_alloc(tape, sizeof *stats / sizeof(float));
    const float *old_logp = ppo__cuda_upload(tape, args->old_logp, n);
    const float *advantage = ppo__cuda_upload(tape, args->advantage, n);
    const unsigned char *mask = ppo__cuda_upload(tape, args->mask, n);
    if (status || ppo_tape_status(tape)) return PPO_ERROR_MEMORY;
    status = ppo_cuda_policy_loss(ppo__cuda_of(node), node->in[0]->data, old_logp, advantage, mask, (int)n,
                                  &args->objective, stats, (float *)node->kept);
    if (status) return status;
    ppo__tape_copy(tape, &stats->loss, 1, node->out[0]->data);
    if (args->stats)
        ppo__tape_read(tape, (const float *)stats, sizeof *stats / sizeof(float), (float *)args->stats);
    return PPO_OK;
}

static ppo_status ppo__cuda_value_forward(ppo_node *node) {
    const ppo__value_args *args = (const ppo__value_args *)node->args;
    ppo_tape *tape = node->tape;
    const size_t n = ppo__size(node->in[0]);
    ppo_status status = ppo__loss_keep(node);
    const float *old_value = ppo__cuda_upload(tape, args->old_value, n);
    const float *target = ppo__cuda_upload(tape, args->target, n);
    const unsigned char *mask = ppo__cuda_upload(tape, args->mask, n);
    if (status || ppo_tape_status(tape)) return PPO_ERROR_MEMORY;
    return ppo_cuda_value_loss(ppo__cuda_of(node), node->in[0]->data, old_value, target, mask, (int)n,
                               args->clip_range, args->delta, node->out[0]->data, (float *)node->kept);
}

struct ppo__cuda_pairs {
    typedef ppo__cuda_total<double> Sum;

    const float *chosen, *rejected, *ref_chosen, *ref_rejected; /* references: NULL without */
    float *loss, *derivative;                                   /* derivative: [2n] */
    float beta, smoothing;
    int n;
    ppo__cuda_site site;

    __device__ void visit(int i, Sum &sum) const {
        const float c = chosen[i] - (ref_chosen ? ref_chosen[i] : 0),
                    r = rejected[i] - (ref_rejected ? ref_rejected[i] : 0);
        float dx, term = ppo__preference_term(beta * (c - r), smoothing, &dx);
        if (!ppo__finite(term)) ppo__cuda_report(site, i);
        sum.x += term;
        derivative[i] = beta * dx / (float)n;
        derivative[n + i] = -beta * dx / (float)n;
    }
    __device__ void done(const Sum &sum) const { *loss = (float)(sum.x / n); }
};

static ppo_status ppo__cuda_pair_forward(ppo_node *node) {
    const ppo__pair_args *args = (const ppo__pair_args *)node->args;
    ppo_cuda *cuda = ppo__cuda_of(node);
    ppo_tape *tape = node->tape;
    const int n = node->in[0]->rows;
    float *derivative = ppo_tape_alloc(tape, ppo__at(2, n));
    const float *ref_chosen = ppo__cuda_upload(tape, args->ref_chosen_logp, (size_t)n);
    const float *ref_rejected = ppo__cuda_upload(tape, args->ref_rejected_logp, (size_t)n);
    if (ppo_tape_status(tape)) return PPO_ERROR_MEMORY;
    node->kept = derivative;
    ppo__cuda_pairs job = {node->in[0]->data,
                           node->in[1]->data,
                           ref_chosen,
                           ref_rejected,
                           node->out[0]->data,
                           derivative,
                           args->beta,
                           args->label_smoothing,
                           n,
                           ppo__cuda_site_of(cuda, PPO__CUDA_PAIR_LOSS)};
    return ppo__cuda_sum(cuda, "pair_loss", job, n);
}

static void ppo__cuda_pair_backward(ppo_node *node) {
    const float *derivative = (const float *)node->kept;
    for (int k = 0; k < 2; ++k) ppo__cuda_spread_to(node, k, derivative + ppo__at(k, node->in[0]->rows), 0);
}

struct ppo__cuda_sequences { /* sums of rows first[s] .. first[s + 1] - 1, with one warp per sequence */
    const float *x;
    float *to;
    const int *first;
    const float *dy;
    float *dx;

    __device__ void operator()(size_t i) const {
        const size_t s = i / 32;
        const int lane = (int)(i % 32);
        double sum = 0;
        for (int k = first[s] + lane; k < first[s + 1]; k += 32) {
            if (dx) dx[k] += dy[s];
            else sum += x[k];
        }
        sum = ppo__cuda_warp_sum(sum);
        if (!dx && lane == 0) to[s] = (float)sum;
    }
};

static ppo_status ppo__cuda_sequences_run(ppo_node *node, const float *dy, float *dx) {
    ppo__cuda_sequences job = {node->in[0]->data, node->out[0]->data, (const int *)node->kept, dy, dx};
    return ppo__cuda_for(ppo__cuda_of(node), "sequence_sum", job, 32 * (size_t)node->out[0]->rows);
}

static ppo_status ppo__cuda_sequences_forward(ppo_node *node) {
    const ppo_tokens *tokens = *(const ppo_tokens *const *)node->args;
    int *first = (int *)ppo__tape_take(node->tape, (size_t)tokens->count + 1, sizeof *first);
    if (!first) return PPO_ERROR_MEMORY;
    first[0] = 0;
    for (int s = 0; s < tokens->count; ++s) first[s + 1] = first[s] + ppo__response_length(tokens, s);
    node->kept = ppo__cuda_upload(node->tape, first, (size_t)tokens->count + 1);
    return node->kept ? ppo__cuda_sequences_run(node, NULL, NULL) : PPO_ERROR_MEMORY;
}

static void ppo__cuda_sequences_backward(ppo_node *node) {
    ppo__cuda_keep(node, ppo__cuda_sequences_run(node, node->out[0]->grad, node->in[0]->grad));
}

static ppo_status ppo__cuda_sample_forward(ppo_node *node) {
    const ppo__sample_args *args = (const ppo__sample_args *)node->args;
    const ppo_tensor *logits = node->in[0];
    ppo_rng *rng = ppo__cuda_upload(node->tape, args->rng, (size_t)logits->rows);
    ppo_cuda_logits z = {logits->data, 0};
    if (!rng) return PPO_ERROR_MEMORY;
    return ppo_cuda_sample(ppo__cuda_of(node), &z, logits->rows, logits->cols, args->sampling, rng, NULL,
                           (int *)node->out[0]->data, node->out[1]->data);
}

static const ppo_op *ppo__cuda_find(const char *name) {
    static const ppo_op ops[] = {
        {"add", 1, ppo__cuda_add_forward, ppo__cuda_add_backward},
        {"binary", 1, ppo__cuda_binary_forward, ppo__cuda_binary_backward},
        {"unary", 1, ppo__cuda_unary_forward, ppo__cuda_unary_backward},
        {"sum", 1, ppo__cuda_sum_forward, ppo__cuda_sum_backward},
        {"linear", 1, ppo__cuda_chain_forward, ppo__cuda_chain_backward},
#ifdef PPO__HUB_IMPLEMENTED
        {"lora", 1, ppo__cuda_lora_forward, ppo__cuda_lora_backward},
        {"qk_norm", 1, ppo__cuda_head_norm_forward, ppo__cuda_head_norm_backward},
#endif
        {"matmul_transposed", 1, ppo__cuda_transposed_forward, ppo__cuda_transposed_backward},
        {"embedding", 1, ppo__cuda_embedding_forward, ppo__cuda_embedding_backward},
        {"norm", 1, ppo__cuda_norm_forward, ppo__cuda_norm_backward},
        {"glu", 1, ppo__cuda_gated_forward, ppo__cuda_gated_backward},
        {"rotary", 1, ppo__cuda_rotary_forward, ppo__cuda_rotary_backward},
        {"attention", 1, ppo__cuda_attention_forward, ppo__cuda_attention_backward},
        {"cached_attention", 1, ppo__cuda_cached_forward, NULL},
        {"sample", 2, ppo__cuda_sample_forward, NULL},
        {"categorical", 2, ppo__cuda_categorical_forward, ppo__cuda_categorical_backward},
        {"categorical_kl_to", 1, ppo__cuda_kl_to_forward, ppo__cuda_kl_to_backward},
        {"policy_loss", 1, ppo__cuda_policy_forward, ppo__cuda_loss_backward},
        {"value_loss", 1, ppo__cuda_value_forward, ppo__cuda_loss_backward},
        {"pair_loss", 1, ppo__cuda_pair_forward, ppo__cuda_pair_backward},
        {"sequence_sum", 1, ppo__cuda_sequences_forward, ppo__cuda_sequences_backward},
    };
    for (const ppo_op &op : ops)
        if (!strcmp(op.name, name)) return &op;
    return NULL;
}

/* -- the functions of ppo__device. Small copies between host and device are staged in pinned memory, so that
   the host need not wait for them. Those to the host are completed by the next settle(), or when the staging
   memory is full -- */

#ifndef PPO__CUDA_STAGING
#define PPO__CUDA_STAGING (4 << 20)
#endif
enum { PPO__STAGING_COPIES = PPO__CUDA_STAGING / PPO__ALIGN + 1 };

/* Keeps the first failure for settle(). */
static void ppo__cuda_failed(ppo_cuda *cuda, ppo_status status) {
    if (!status || cuda->failed) return;
    cuda->failed = status;
    memcpy(cuda->error, ppo__error, sizeof cuda->error);
}

/* Waits for all that is queued, and completes the copies to the host. */
static void ppo__cuda_complete(ppo_cuda *cuda) {
    ppo__staging *staging = &cuda->staging;
    ppo_status status = ppo__cuda_status(cudaStreamSynchronize(cuda->stream), "the device");
    ppo__cuda_failed(cuda, status);
    for (int i = 0; i < staging->count && !status; ++i) {
        const ppo__pending_copy *copy = &staging->copy[i];
        ppo__cuda_fault fault = PPO__NO_FAULT;
        memcpy(copy->stepped ? &fault : copy->to, staging->memory + copy->at, copy->size);
        if (fault != PPO__NO_FAULT) --copy->stepped->step;
    }
    staging->count = 0;
    staging->used = 0;
}

/* Staging memory for a copy; NULL if it is too large. */
static char *ppo__cuda_stage(ppo_cuda *cuda, size_t size) {
    ppo__staging *staging = &cuda->staging;
    if (size > PPO__CUDA_STAGING) return NULL;
    if (staging->used + size > PPO__CUDA_STAGING) ppo__cuda_complete(cuda);
    char *staged = staging->memory + staging->used;
    staging->used += size / PPO__ALIGN * PPO__ALIGN + PPO__ALIGN;
    return staged;
}

static ppo_status ppo__cuda_copy_as(ppo_cuda *cuda, void *to, const void *from, size_t size,
                                    cudaMemcpyKind kind) {
    ppo_status status = ppo__cuda_status(cudaMemcpyAsync(to, from, size, kind, cuda->stream), "a copy");
    ppo__cuda_failed(cuda, status);
    return status;
}

static ppo_status ppo__cuda_write(ppo__device *device, void *to, const void *from, size_t size) {
    ppo_cuda *cuda = (ppo_cuda *)device;
    char *staged = ppo__cuda_stage(cuda, size);
    if (staged) memcpy(staged, from, size);
    ppo_status status = ppo__cuda_copy_as(cuda, to, staged ? staged : from, size, cudaMemcpyHostToDevice);
    if (!staged) ppo__cuda_complete(cuda);
    return status;
}

static void ppo__cuda_copy_to_host(ppo_cuda *cuda, void *to, const void *from, size_t size,
                                   ppo_params *stepped) {
    ppo__staging *staging = &cuda->staging;
    char *staged = ppo__cuda_stage(cuda, size);
    if (ppo__cuda_copy_as(cuda, staged ? staged : to, from, size, cudaMemcpyDeviceToHost)) return;
    if (staged) staging->copy[staging->count++] = {to, (size_t)(staged - staging->memory), size, stepped};
}

static void ppo__cuda_read(ppo__device *device, void *to, const void *from, size_t size) {
    ppo__cuda_copy_to_host((ppo_cuda *)device, to, from, size, NULL);
}

static void ppo__cuda_copy(ppo__device *device, void *to, const void *from, size_t size) {
    ppo__cuda_copy_as((ppo_cuda *)device, to, from, size, cudaMemcpyDeviceToDevice);
}

static void ppo__cuda_zero(ppo__device *device, void *to, size_t size) {
    ppo_cuda *cuda = (ppo_cuda *)device;
    ppo__cuda_failed(cuda, ppo__cuda_status(cudaMemsetAsync(to, 0, size, cuda->stream), "a fill"));
}

/* As ppo_cuda_sync(), and completes the copies to the host. */
static ppo_status ppo__cuda_settle(ppo__device *device) {
    ppo_cuda *cuda = (ppo_cuda *)device;
    ppo__cuda_fault fault = PPO__NO_FAULT;
    ppo__cuda_read(device, &fault, &cuda->shared->fault, sizeof fault);
    ppo__cuda_complete(cuda);
    ppo_status status = ppo__cuda_fault_status(cuda, fault), first = cuda->failed;
    cuda->calls = 0;
    cuda->failed = PPO_OK;
    return first ? ppo_fail(first, "%s", cuda->error) : status;
}

static void *ppo__cuda_take(ppo__device *, size_t size) {
    void *memory = NULL;
    return ppo__cuda_status(cudaMalloc(&memory, size), "the device's memory") ? NULL : memory;
}

static void ppo__cuda_give(ppo__device *, void *memory) { cudaFree(memory); }

static ppo_status ppo__cuda_mirror(ppo__device *device, ppo_params *params) {
    ppo__mirror *mirror = (ppo__mirror *)ppo__alloc(sizeof *mirror);
    if (!mirror) return PPO_ERROR_MEMORY;
    mirror->data = (float *)ppo__cuda_take(device, ppo__blocks_size(params, 4));
    if (!mirror->data) {
        ppo__free(mirror);
        return ppo__failed;
    }
    mirror->m = params->frozen ? NULL : mirror->data + params->capacity;
    mirror->v = params->frozen ? NULL : mirror->m + params->capacity;
    mirror->grad = params->frozen ? NULL : mirror->v + params->capacity;
    mirror->params = params;
    mirror->device = device;
    mirror->next = device->mirrors;
    device->mirrors = params->mirror = mirror;
    return PPO_OK;
}

static void ppo__cuda_forget(ppo_params *params) {
    ppo__mirror *mirror = params->mirror, **link = &mirror->device->mirrors;
    while (*link != mirror) link = &(*link)->next;
    *link = mirror->next;
    ppo__cuda_give(mirror->device, mirror->data);
    ppo__free(mirror);
    params->mirror = NULL;
}

static void ppo__cuda_step(ppo__device *device, ppo_params *params, const ppo_adam *adam, float scale,
                           float max_norm, float *norm) {
    ppo_cuda *cuda = (ppo_cuda *)device;
    ppo__mirror *mirror = params->mirror;
    float *norm_there = &cuda->shared->norm;
    ppo_status status = ppo_cuda_grad_norm(cuda, mirror->grad, params->count, scale, norm_there);
    for (int i = 0; i < params->tensor_count && !status;) {
        ppo_adam scaled;
        size_t at, end;
        i = ppo__params_group(params, i, adam, &scaled, &at, &end);
        status =
            ppo_cuda_adam_step(cuda, mirror->data + at, mirror->grad + at, mirror->m + at, mirror->v + at,
                               end - at, &scaled, params->step, scale, norm_there, max_norm);
    }
    ppo__cuda_failed(cuda, status);
    if (status) --params->step;
    else ppo__cuda_copy_to_host(cuda, NULL, &cuda->shared->fault, sizeof cuda->shared->fault, params);
    if (norm) ppo__cuda_read(device, norm, norm_there, sizeof *norm);
}

/* The size of an arena's page, large because cudaMalloc() is slow. */
#ifndef PPO__CUDA_PAGE
#define PPO__CUDA_PAGE ((size_t)8 << 20)
#endif

static ppo_status ppo__cuda_equip(ppo_cuda *cuda, int device) {
    cudaDeviceProp properties;
    if (ppo__cuda_status(cudaGetDeviceProperties(&properties, device), "the device")) return ppo__failed;
    cuda->device = {ppo__cuda_take,
                    ppo__cuda_give,
                    ppo__cuda_write,
                    ppo__cuda_read,
                    ppo__cuda_copy,
                    ppo__cuda_zero,
                    ppo__cuda_settle,
                    ppo__cuda_find,
                    ppo__cuda_step,
                    ppo__cuda_mirror,
                    ppo__cuda_forget,
                    PPO__CUDA_PAGE,
                    NULL,
                    0,
                    {}};
    snprintf(cuda->device.kind, sizeof cuda->device.kind, "%.63s", properties.name);
    ppo__staging *staging = &cuda->staging;
    staging->copy = (ppo__pending_copy *)ppo__alloc(PPO__STAGING_COPIES * sizeof *staging->copy);
    if (!staging->copy) return PPO_ERROR_MEMORY;
    return ppo__cuda_status(cudaMallocHost(&staging->memory, PPO__CUDA_STAGING), "pinned memory");
}

/* Copies all sets of parameters back to the host, and frees cuda. */
static ppo_status ppo__cuda_retire(ppo_cuda *cuda) {
    ppo_status first = PPO_OK;
    char error[PPO__ERROR_SIZE];
    while (cuda->device.mirrors) {
        ppo_params *params = cuda->device.mirrors->params;
        ppo_status status = ppo_params_sync(params);
        if (status && !first) memcpy(error, ppo__error, sizeof error);
        first = first ? first : status;
        ppo__mirror_free(params);
    }
    ppo_cuda_free(cuda);
    return first ? ppo_fail(first, "%s", error) : PPO_OK;
}

PPO_DEF ppo_status ppo_use_cuda(int device) {
    ppo_cuda *before = (ppo_cuda *)ppo__device_in_use, *now = NULL;
    ppo_status status = PPO_OK;
    if (device < -1) return ppo__refuse("ppo_use_cuda: there is no device %d", device);
    if (before && before->device.users)
        return ppo__refuse("ppo_use_cuda: trainers or generators still use the device");
    if (device >= 0) status = ppo_cuda_create(device, &now);
    if (!status && now) status = ppo__cuda_equip(now, device);
    if (status) {
        ppo_cuda_free(now);
        return status;
    }
    ppo__device_in_use = now ? &now->device : NULL;
    return before ? ppo__cuda_retire(before) : PPO_OK;
}

#endif
#endif
