/* ppo_nccl.cuh - processes that train together, each with a GPU, on one machine or many, connected by NCCL

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_cuda.cuh"
       #include "ppo_nccl.cuh"       // after ppo.h; other files may include it for its declarations

       int gpu;
       ppo_status status = ppo_use_nccl(&gpu);
       if (!status) status = ppo_use_cuda(gpu);
       if (!status) status = train();         // the same calls with the same arguments in every process
       if (status) fprintf(stderr, "%s\n", ppo_last_error());
       ppo_nccl_end(status);

       nvcc -O2 -std=c++17 -arch=sm_80 app.cu -lcublas -lnccl
       torchrun --no-python --nproc-per-node 4 ./a.out

   Bytes travel from GPU to GPU: an exchange copies a piece to its GPU, sends it while another arrives, and copies
   that back. What is divided among the processes, and how, is said in ppo_group.h.

   The launcher says who a process is: torchrun by RANK, WORLD_SIZE and LOCAL_RANK, srun and mpirun by names of
   their own. All meet at MASTER_ADDR, on the port after MASTER_PORT (127.0.0.1 and 29500 are the defaults);
   NCCL_COMM_ID=HOST:PORT names another place. NCCL does not always notice that a process has ended. Then the
   launcher ends the others, or they fail when nothing has arrived for NCCL_PATIENCE seconds [600]: raise it if
   one of them may compute for longer than that while the others wait.

   Copy this file and ppo_group.h beside ppo.h. In the folder examples/, where it is in companions/, programs include it from
   there: #include "companions/ppo_nccl.cuh". It has run on an emulation of NCCL, not yet on several GPUs.

   License: that of ppo.h. */
#ifndef PPO_NCCL_CUH
#define PPO_NCCL_CUH
#ifndef PPO_H
#error "include ppo.h before ppo_nccl.cuh"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_nccl.cuh belongs to version 0.3 of ppo.h"
#endif

#include "ppo_group.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Connects this process with the others of its launcher, and divides among them what the calling thread trains from
   now on. *gpu (gpu may be NULL) becomes the number of its GPU. A process without a launcher is a group of one.
   Errors: no GPU, NCCL fails, another process does not come. */
PPO_DEF ppo_status ppo_use_nccl(int *gpu);

/* Leaves the group, at the end of the program. failed 1: without waiting for the others, which then fail, too. */
PPO_DEF void ppo_nccl_end(int failed);

#ifdef __cplusplus
}
#endif
#endif

/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__NCCL_IMPLEMENTED)
#define PPO__NCCL_IMPLEMENTED

#ifndef NCCL_MAJOR /* nor an emulation of it */
#include <nccl.h>
#endif
#include <sched.h>

typedef struct ppo__nccl_link {
    ncclComm_t comm; /* NULL: not connected */
    cudaStream_t stream;
    char *out, *in; /* [piece] on the GPU */
    int gpu;
    double patience; /* seconds */
    size_t piece;    /* bytes: both sides cut what they exchange into such pieces */
} ppo__nccl_link;

static ppo__nccl_link ppo__nccl = {NULL, NULL, NULL, NULL, 0, 600, 1 << 24};

/* Frees what exchanges need on the GPU. */
static void ppo__nccl_forget(void) {
    ppo__nccl_link *l = &ppo__nccl;
    if (l->stream) cudaStreamDestroy(l->stream);
    cudaFree(l->out);
    cudaFree(l->in);
    l->stream = NULL;
    l->out = l->in = NULL;
}

/* Aborts the communicator and says why. */
static ppo_status ppo__nccl_failed(int peer, const char *why) {
    ppo__nccl_link *l = &ppo__nccl;
    if (l->comm) ncclCommAbort(l->comm);
    l->comm = NULL;
    if (peer < 0) return ppo_fail(PPO_ERROR_GROUP, "the processes cannot be connected by NCCL: %s", why);
    return ppo_fail(PPO_ERROR_GROUP, "process %d cannot be reached by NCCL: %s", peer, why);
}

/* Waits for what was begun with a peer (-1: with all), which returned `state`. NCCL is asked as well as the
   stream: where a connection breaks, the stream would never end. */
static ppo_status ppo__nccl_await(int peer, ncclResult_t state) {
    ppo__nccl_link *l = &ppo__nccl;
    const double began = ppo_clock();
    while (state == ncclSuccess || state == ncclInProgress) {
        const ncclResult_t asked = ncclCommGetAsyncError(l->comm, &state);
        if (asked != ncclSuccess) state = asked;
        if (state == ncclSuccess) {
            const cudaError_t error = cudaStreamQuery(l->stream);
            if (error == cudaSuccess) return PPO_OK;
            if (error != cudaErrorNotReady) return ppo__nccl_failed(peer, cudaGetErrorString(error));
        }
        if (ppo_clock() - began > l->patience)
            return ppo__nccl_failed(peer, "nothing has arrived in NCCL_PATIENCE seconds");
        sched_yield();
    }
    return ppo__nccl_failed(peer, ncclGetErrorString(state));
}

static ppo_status ppo__nccl_exchange(void *, int peer, const void *send, size_t sent, void *receive,
                                     size_t received) {
    ppo__nccl_link *l = &ppo__nccl;
    if (!l->comm) return ppo__nccl_failed(peer, "an earlier exchange has failed");
    cudaError_t error = cudaSetDevice(l->gpu); /* of this thread */
    for (size_t at = 0; (at < sent || at < received) && error == cudaSuccess; at += l->piece) {
        const size_t out = at >= sent ? 0 : sent - at < l->piece ? sent - at : l->piece;
        const size_t in = at >= received ? 0 : received - at < l->piece ? received - at : l->piece;
        if (out)
            error = cudaMemcpyAsync(l->out, (const char *)send + at, out, cudaMemcpyHostToDevice, l->stream);
        if (error != cudaSuccess) break;
        ncclGroupStart(); /* what fails in between, its end returns */
        if (out) ncclSend(l->out, out, ncclChar, peer, l->comm, l->stream);
        if (in) ncclRecv(l->in, in, ncclChar, peer, l->comm, l->stream);
        if (ppo__nccl_await(peer, ncclGroupEnd())) return PPO_ERROR_GROUP;
        if (in) error = cudaMemcpyAsync((char *)receive + at, l->in, in, cudaMemcpyDeviceToHost, l->stream);
        if (in && error == cudaSuccess) error = cudaStreamSynchronize(l->stream);
    }
    return error == cudaSuccess ? PPO_OK : ppo__nccl_failed(peer, cudaGetErrorString(error));
}

static ppo_group ppo__nccl_group = {0, 1, ppo__nccl_exchange, NULL};

/* The environment variable `name` as a number; `otherwise` if it is not set. */
static int ppo__nccl_number(const char *name, int otherwise) {
    return getenv(name) ? atoi(getenv(name)) : otherwise;
}

/* Finds out who this process is, and connects it with the others. */
static ppo_status ppo__nccl_start(void) {
    static const char *const launchers[][3] = {
        {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
        {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}};
    ppo__nccl_link *l = &ppo__nccl;
    int k = 0, gpus = 0;
    char place[300];
    while (k < 2 && !getenv(launchers[k][0])) ++k;
    ppo__nccl_group.rank = ppo__nccl_number(launchers[k][0], 0);
    ppo__nccl_group.size = getenv(launchers[k][0]) ? ppo__nccl_number(launchers[k][1], 1) : 1;
    l->patience = ppo__nccl_number("NCCL_PATIENCE", (int)l->patience);
    if (ppo__nccl_group.size == 1) return PPO_OK;
    snprintf(place, sizeof place, "%.250s:%d", getenv("MASTER_ADDR") ? getenv("MASTER_ADDR") : "127.0.0.1",
             ppo__nccl_number("MASTER_PORT", 29500) + 1);
    /* By this each process knows the id, and rank 0 waits there for the others. */
    setenv("NCCL_COMM_ID", place, 0);

    cudaError_t error = cudaGetDeviceCount(&gpus);
    if (gpus) l->gpu = ppo__nccl_number(launchers[k][2], 0) % gpus; /* some see their own GPU alone */
    if (error == cudaSuccess) error = cudaSetDevice(l->gpu);
    if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking);
    if (error == cudaSuccess) error = cudaMalloc(&l->out, l->piece);
    if (error == cudaSuccess) error = cudaMalloc(&l->in, l->piece);
    if (error != cudaSuccess) {
        ppo__nccl_forget();
        return ppo__nccl_failed(-1, cudaGetErrorString(error));
    }
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0; /* no call waits: ppo__nccl_await() does */
    ncclResult_t state = ncclGetUniqueId(&id);
    if (state == ncclSuccess)
        state = ncclCommInitRankConfig(&l->comm, ppo__nccl_group.size, id, ppo__nccl_group.rank, &config);
    return l->comm ? ppo__nccl_await(-1, state) : ppo__nccl_failed(-1, ncclGetErrorString(state));
}

PPO_DEF ppo_status ppo_use_nccl(int *gpu) {
    ppo_status status = ppo__nccl.comm ? PPO_OK : ppo__nccl_start();
    if (!status && gpu) *gpu = ppo__nccl.gpu;
    return status ? status : ppo_use_group(&ppo__nccl_group);
}

PPO_DEF void ppo_nccl_end(int failed) {
    ppo_use_group(NULL);
    if (ppo__nccl.comm && failed) ncclCommAbort(ppo__nccl.comm);
    else if (ppo__nccl.comm) ncclCommDestroy(ppo__nccl.comm);
    ppo__nccl.comm = NULL;
    ppo__nccl_forget();
}

#endif
