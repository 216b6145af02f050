/* nccl.cuh - rlhf.c on several GPUs, of one machine or many, by NCCL, a process for each: `make cuda` compiles
   it as build/cuda/rlhf-nccl where it finds NCCL, and

       torchrun --no-python --nproc-per-node 4 build/cuda/rlhf-nccl all --device cuda --shards 8 --fit shards=8

   trains with four. It teaches what a ppo_group needs where bytes travel from GPU to GPU: exchange() copies a
   piece to its GPU, sends it while another arrives, and copies that back.

   The launcher says who a process is: torchrun by RANK, WORLD_SIZE and LOCAL_RANK, srun and mpirun by names of
   their own. All meet at MASTER_ADDR, on the port after MASTER_PORT (127.0.0.1 and 29500 are the defaults);
   NCCL_COMM_ID=HOST:PORT names another place. NCCL does not always notice that a process has ended. Then the
   launcher ends the others, or they fail when nothing has arrived for NCCL_PATIENCE seconds [600]: raise it if
   one of them may compute for longer than that while the others wait. */
#ifndef EXAMPLES_NCCL_CUH
#define EXAMPLES_NCCL_CUH

#ifndef NCCL_MAJOR /* nor an emulation of it */
#include <nccl.h>
#endif
#include <sched.h>

static struct nccl_link {
    ncclComm_t comm; /* NULL: not connected */
    cudaStream_t stream;
    char *out, *in; /* [piece] on the GPU */
    int gpu;
    double patience; /* seconds */
    size_t piece;    /* bytes: both sides cut what they exchange into such pieces */
} nccl_link = {NULL, NULL, NULL, NULL, 0, 600, 1 << 24};

/* Aborts the communicator and says why. */
static ppo_status nccl_failed(int peer, const char *why) {
    struct nccl_link *l = &nccl_link;
    if (l->comm) ncclCommAbort(l->comm);
    l->comm = NULL;
    if (peer < 0) return ppo_fail(PPO_ERROR_GROUP, "the processes cannot be connected by NCCL: %s", why);
    return ppo_fail(PPO_ERROR_GROUP, "process %d cannot be reached by NCCL: %s", peer, why);
}

/* Waits for what was begun with a peer (-1: with all), which returned `state`. NCCL is asked as well as the
   stream: where a connection breaks, the stream would never end. */
static ppo_status nccl_await(int peer, ncclResult_t state) {
    struct nccl_link *l = &nccl_link;
    const double began = ppo_clock();
    while (state == ncclSuccess || state == ncclInProgress) {
        const ncclResult_t asked = ncclCommGetAsyncError(l->comm, &state);
        if (asked != ncclSuccess) state = asked;
        if (state == ncclSuccess) {
            const cudaError_t error = cudaStreamQuery(l->stream);
            if (error == cudaSuccess) return PPO_OK;
            if (error != cudaErrorNotReady) return nccl_failed(peer, cudaGetErrorString(error));
        }
        if (ppo_clock() - began > l->patience)
            return nccl_failed(peer, "nothing has arrived in NCCL_PATIENCE seconds");
        sched_yield();
    }
    return nccl_failed(peer, ncclGetErrorString(state));
}

static ppo_status nccl_exchange(void *, int peer, const void *send, size_t sent, void *receive,
                                size_t received) {
    struct nccl_link *l = &nccl_link;
    if (!l->comm) return nccl_failed(peer, "an earlier exchange has failed");
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
        if (nccl_await(peer, ncclGroupEnd())) return PPO_ERROR_GROUP;
        if (in) error = cudaMemcpyAsync((char *)receive + at, l->in, in, cudaMemcpyDeviceToHost, l->stream);
        if (in && error == cudaSuccess) error = cudaStreamSynchronize(l->stream);
    }
    return error == cudaSuccess ? PPO_OK : nccl_failed(peer, cudaGetErrorString(error));
}

static ppo_group nccl_group = {0, 1, nccl_exchange, NULL};

/* The environment variable `name` as a number; `otherwise` if it is not set. */
static int nccl_number(const char *name, int otherwise) {
    return getenv(name) ? atoi(getenv(name)) : otherwise;
}

/* Finds out who this process is, and connects it with the others. */
static ppo_status nccl_start(void) {
    static const char *const launchers[][3] = {
        {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
        {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}};
    struct nccl_link *l = &nccl_link;
    int k = 0, gpus = 0;
    char place[300];
    while (k < 2 && !getenv(launchers[k][0])) k++;
    nccl_group.rank = nccl_number(launchers[k][0], 0);
    nccl_group.size = getenv(launchers[k][0]) ? nccl_number(launchers[k][1], 1) : 1;
    l->patience = nccl_number("NCCL_PATIENCE", (int)l->patience);
    if (nccl_group.size == 1) return PPO_OK;
    snprintf(place, sizeof place, "%.250s:%d", getenv("MASTER_ADDR") ? getenv("MASTER_ADDR") : "127.0.0.1",
             nccl_number("MASTER_PORT", 29500) + 1);
    /* By this each process knows the id, and rank 0 waits there for the others. */
    setenv("NCCL_COMM_ID", place, 0);

    cudaError_t error = cudaGetDeviceCount(&gpus);
    if (gpus) l->gpu = nccl_number(launchers[k][2], 0) % gpus; /* some see their own GPU alone */
    if (error == cudaSuccess) error = cudaSetDevice(l->gpu);
    if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking);
    if (error == cudaSuccess) error = cudaMalloc(&l->out, l->piece);
    if (error == cudaSuccess) error = cudaMalloc(&l->in, l->piece);
    if (error != cudaSuccess) return nccl_failed(-1, cudaGetErrorString(error));
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0; /* no call waits: nccl_await() does */
    ncclResult_t state = ncclGetUniqueId(&id);
    if (state == ncclSuccess)
        state = ncclCommInitRankConfig(&l->comm, nccl_group.size, id, nccl_group.rank, &config);
    return l->comm ? nccl_await(-1, state) : nccl_failed(-1, ncclGetErrorString(state));
}

#ifdef WITH_NCCL

/* All print errors: the launcher marks whose they are. */
static inline int speaks(void) { return 1; }

static int program_main(int argc, char **argv);

int main(int argc, char **argv) {
    int status = 1;
    if (nccl_start() || ppo_use_group(&nccl_group)) fprintf(stderr, "%s\n", ppo_last_error());
    else if (!nccl_group.rank || freopen("/dev/null", "w", stdout)) status = program_main(argc, argv);
    if (nccl_link.comm) status ? ncclCommAbort(nccl_link.comm) : ncclCommDestroy(nccl_link.comm);
    return status;
}

#define main program_main

#endif
#endif
