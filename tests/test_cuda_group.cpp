/* Groups of processes whose models are on GPUs compute the bits of a single process, and a failure of one is
   that of all; and ppo_nccl.cuh connects them, by an emulation of NCCL over the pipes of group.h. */
#include "cuda_test.h"
#include "system.h"
#include "group.h"

/* A process opens its GPU after fork(), so the results to compare with are those of a group of one. */
static result one_process(job_fn job, void *user) {
    result r;
    run_group(1, job, user, &r);
    assert_false(r.ended);
    return r;
}

static void open_gpu(result *r) {
    emulate();
#ifndef __CUDACC__
    emulation.complain = emulated::say_and_abort; /* the process ends without a report */
#endif
    r->status = ppo_use_cuda(0);
}

static void tune_on_the_gpu(void *user, const ppo_group *group, result *r) {
    open_gpu(r);
    if (!r->status) tune(user, group, r);
}

#define ONE_AT_A_TIME \
    SMALL("slots=1 micro_batch=1 shards=4", "slots=1 micro_batch=1 shards=4 prompts=4 epochs=1")

static void any_number_of_processes_tunes_the_same_bits_on_gpus(void **state) {
    (void)state;
    tuning kinds[] = {
        {"PPO, one sequence at a time", ONE_AT_A_TIME, 0, NULL, NULL, 0, 0},
        {"texts", "shards=4 epochs=1", 1, NULL, NULL, 0, 0},
        {"fewer shards than processes",
         SMALL("shards=3 window=9 batch_size=6 micro_batch=1",
               "shards=3 window=9 batch_size=6 micro_batch=1 epochs=1"),
         1, NULL, NULL, 0, 0},
        {"pairs", "shards=4 epochs=1", 2, NULL, NULL, 0, 0},
        {"pairs and a reference", SMALL("shards=8 batch_size=9", "shards=8 batch_size=9 epochs=1"), 3, NULL,
         NULL, 0, 0},
        {"a large model", "shards=2 epochs=1 steps=1 batch_size=4", 1, NULL, NULL, 192, 0},
    };
    for (int k = 0; k < COUNT(kinds); k++) {
        result want = one_process(tune_on_the_gpu, &kinds[k]), got[MOST];
        assert_string_equal(want.error, "");
        for (int size = SMALL(2, k == 1 ? 4 : 2); size <= SMALL(MOST, 4); size *= SMALL(2, MOST)) {
            run_group(size, tune_on_the_gpu, &kinds[k], got);
            if (memcmp(got[0].hash, want.hash, sizeof want.hash))
                print_message("%s, %d processes\n", kinds[k].name, size);
            assert_alike(got, &want, size);
        }
    }
}

/* How many sequences a GPU computes together decides how it rounds. */
static void processes_with_several_sequences_at_a_time_have_the_same_bits(void **state) {
    (void)state;
    tuning kinds[] = {
        {"three shards, micro-batches",
         SMALL("shards=3 micro_batch=2 gradient_checkpointing=yes",
               "shards=3 micro_batch=2 gradient_checkpointing=yes prompts=6 epochs=1"),
         0, NULL, NULL, 0, 0},
        {"a long step of one shard",
         SMALL("kl_place=loss kl_estimator=exact learning_rate=0.05 target_kl=0.001 epochs=1",
               "kl_place=loss kl_estimator=exact learning_rate=0.05 target_kl=0.001 epochs=1 prompts=8"),
         0, NULL, NULL, 0, 0},
    };
    for (tuning &kind : kinds) {
        result got[MOST];
        run_group(2, tune_on_the_gpu, &kind, got);
        assert_string_equal(got[0].error, "");
        assert_alike(got, &got[0], 2);
    }
}

/* The last process computes on the processor. */
static void tune_elsewhere(void *user, const ppo_group *group, result *r) {
    if (group->rank + 1 < group->size) tune_on_the_gpu(user, group, r);
    else tune(user, group, r);
}

static void processes_on_other_devices_say_so(void **state) {
    (void)state;
    tuning kinds[] = {{"", "shards=4", 1, NULL, NULL, 0, 0}, {"", "shards=4", 0, NULL, NULL, 0, 0}};
    for (tuning &kind : kinds) {
        result got[MOST];
        run_group(2, tune_elsewhere, &kind, got);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(got[r].status, PPO_ERROR_ARGUMENT);
            assert_non_null(strstr(got[r].error, "kind of GPU"));
        }
    }
}

#ifndef __CUDACC__

/* In process 1 a call of the runtime fails. */
typedef struct fault {
    tuning kind;
    int at;
} fault;
static void tune_with_a_fault(void *user, const ppo_group *group, result *r) {
    fault *f = (fault *)user;
    open_gpu(r);
    if (group->rank == 1) emulation.fail_at = f->at, emulation.error = cudaErrorLaunchFailure;
    if (!r->status) tune(&f->kind, group, r);
}

static void a_gpu_that_fails_in_one_process_fails_in_all(void **state) {
    (void)state;
    fault faults[] = {
        {{"", "shards=2 epochs=1 evaluate_every=1 steps=2 patience=5 batch_size=4", 1, NULL, NULL, 0, 0}, 0},
        {{"",
          SMALL("epochs=1 learning_rate=0.05 target_kl=0.001 kl_place=loss kl_estimator=exact prompts=8",
                "epochs=1 learning_rate=0.05 target_kl=0.001 kl_place=loss kl_estimator=exact prompts=4"),
          0, NULL, NULL, 0, 0},
         0}};
    for (fault &f : faults) {
        result got[MOST];
        int failed = 0;
        for (f.at = 3; f.at < 40000; f.at += f.kind.fit ? SMALL(13, 199) : SMALL(f.at / 2, 2 * f.at)) {
            run_group(2, tune_with_a_fault, &f, got);
            if (got[0].status == PPO_OK) break; /* both have trained */
            assert_int_equal(got[0].status, got[1].status);
            assert_string_equal(got[0].error, got[1].error);
            assert_int_not_equal(got[1].status, PPO_ERROR_GROUP);
            failed++;
        }
        assert_true(failed > 5);
    }
}

/* -- NCCL, of which a call only begins what the pipes do -- */

#define NCCL_MAJOR 2
enum ncclResult_t { ncclSuccess = 0, ncclRemoteError = 6, ncclInProgress = 7 };
enum { ncclChar };
struct ncclUniqueId {
    char place[64];
};
struct ncclConfig_t {
    int blocking;
};
#define NCCL_CONFIG_INITIALIZER \
    { 1 }
typedef struct emulated_nccl {
    const ppo_group *pipes;
    const void *send;
    void *receive;
    size_t sent, received;
    int peer, asked, silent, ended;
    char failing; /* 'u', 'i', 'a': ncclGetUniqueId, ncclCommInitRankConfig, ncclCommGetAsyncError fail */
    ncclResult_t state;
} * ncclComm_t;
static emulated_nccl nccl;

static const char *ncclGetErrorString(ncclResult_t state) {
    return state == ncclRemoteError ? "remote" : "other";
}
static ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    snprintf(id->place, sizeof id->place, "%s", getenv("NCCL_COMM_ID"));
    return nccl.failing == 'u' ? ncclRemoteError : ncclSuccess;
}
static ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank,
                                           ncclConfig_t *config) {
    if (nccl.failing == 'i') return ncclRemoteError;
    *comm = &nccl;
    nccl.state = !config->blocking && !strcmp(id.place, "localhost:1235") && size == nccl.pipes->size &&
                         rank == nccl.pipes->rank
                     ? ncclSuccess
                     : ncclRemoteError;
    return ncclInProgress;
}
static ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state) {
    *state = comm->silent || comm->asked++ % 3 < 2 ? ncclInProgress : comm->state;
    return comm->failing == 'a' ? ncclRemoteError : ncclSuccess;
}
static ncclResult_t ncclCommAbort(ncclComm_t comm) { return comm->ended = 1, ncclSuccess; }
static ncclResult_t ncclCommDestroy(ncclComm_t comm) { return comm->ended = 2, ncclSuccess; }
static ncclResult_t ncclGroupStart(void) { return nccl.sent = nccl.received = 0, ncclSuccess; }
static ncclResult_t ncclSend(const void *data, size_t n, int, int peer, ncclComm_t comm, cudaStream_t) {
    return comm->send = data, comm->sent = n, comm->peer = peer, ncclInProgress;
}
static ncclResult_t ncclRecv(void *data, size_t n, int, int peer, ncclComm_t comm, cudaStream_t) {
    return comm->receive = data, comm->received = n, comm->peer = peer, ncclSuccess;
}
static ncclResult_t ncclGroupEnd(void) {
    std::vector<char> out(nccl.sent), in(nccl.received);
    emulated::finish_work();
    cudaMemcpy(out.data(), nccl.send, nccl.sent, cudaMemcpyDeviceToHost);
    if (nccl.silent) return ncclInProgress;
    if (nccl.pipes->exchange(nccl.pipes->user, nccl.peer, out.data(), out.size(), in.data(), in.size()))
        nccl.state = ncclRemoteError;
    cudaMemcpy(nccl.receive, in.data(), nccl.received, cudaMemcpyHostToDevice);
    emulated::finish_work();
    return ncclInProgress;
}

#include "../examples/companions/ppo_nccl.cuh"

/* Connects the process by NCCL, as a launcher of this kind would. */
static void join(const ppo_group *pipes, const char *const name[3], result *r) {
    char rank[16], size[16];
    snprintf(rank, sizeof rank, "%d", pipes->rank), snprintf(size, sizeof size, "%d", pipes->size);
    setenv(name[0], rank, 1), setenv(name[1], size, 1), setenv(name[2], rank, 1);
    setenv("MASTER_ADDR", "localhost", 1), setenv("MASTER_PORT", "1234", 1), setenv("NCCL_PATIENCE", "1", 1);
    emulate();
    emulation.complain = emulated::say_and_abort, emulation.devices = 3;
    nccl.pipes = pipes, ppo__nccl.piece = 4096;
    int gpu = -1;
    r->status = ppo_use_nccl(&gpu);
    if (!r->status && gpu != pipes->rank % 3) r->status = ppo_fail(PPO_ERROR_DEVICE, "not on GPU %d", gpu);
}
static const char *const torchrun[] = {"RANK", "WORLD_SIZE", "LOCAL_RANK"};

static void tune_by_nccl(void *user, const ppo_group *group, result *r) {
    static const char *const srun[] = {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"};
    join(group, group->size > 2 ? srun : torchrun, r);
    if (!r->status) r->status = ppo_use_cuda(ppo__nccl.gpu);
    if (!r->status) tune(user, group, r);
}

/* Exchanges with all others: pieces and less than a piece, to both sides and to one. */
static void exchange_by_nccl(void *, const ppo_group *group, result *r) {
    const size_t sizes[] = {1, 0, 4096, 4096 + 3, 2 * 4096 + 1};
    join(group, torchrun, r);
    for (int distance = 1; distance < group->size; distance++)
        for (int k = 0; k < COUNT(sizes) && !r->status; k++) {
            const int peer = group->rank ^ distance, upper = group->rank > peer;
            std::vector<char> out(sizes[upper ? k : (k + 2) % COUNT(sizes)]),
                in(sizes[upper ? (k + 2) % COUNT(sizes) : k]);
            for (size_t i = 0; i < out.size(); i++) out[i] = (char)(i / 7 + 31 * group->rank + peer);
            r->status = ppo__nccl_exchange(NULL, peer, out.data(), out.size(), in.data(), in.size());
            for (size_t i = 0; i < in.size(); i++)
                r->hash[0] += in[i] != (char)(i / 7 + 31 * peer + group->rank);
        }
    ppo_nccl_end(r->status);
    r->hash[0] += nccl.ended != 2 || ppo_group_rank() != 0;
}

static void nccl_carries_what_processes_exchange(void **state) {
    (void)state;
    tuning kinds[] = {{"", "shards=4 epochs=1", 1, NULL, NULL, 0, 0},
                      {"", ONE_AT_A_TIME, 0, NULL, NULL, 0, 0}};
    result got[MOST];
    for (int size = 2; size <= 4; size *= 2) {
        run_group(size, exchange_by_nccl, NULL, got);
        for (int r = 0; r < size; r++) {
            assert_string_equal(got[r].error, "");
            assert_false(got[r].ended);
            assert_int_equal(got[r].hash[0], 0);
        }
        tuning *kind = &kinds[size > 2];
        result want = one_process(tune_on_the_gpu, kind);
        run_group(size, tune_by_nccl, kind, got);
        assert_alike(got, &want, size);
    }
}

/* Process 1 ends (how 0), or is silent (1). */
static void lose_a_process(void *user, const ppo_group *group, result *r) {
    char byte = 1, other;
    const int how = *(int *)user;
    join(group, torchrun, r);
    if (group->rank) _exit(0);
    nccl.silent = how;
    if (!r->status) r->status = ppo__nccl_exchange(NULL, 1, &byte, 1, &other, 1);
    const std::string first = ppo_last_error();
    if (ppo__nccl_exchange(NULL, 1, &byte, 1, &other, 1) != PPO_ERROR_GROUP ||
        !strstr(ppo_last_error(), "an earlier exchange has failed"))
        r->hash[1] = 1;
    r->hash[0] = nccl.ended;
    ppo_fail(r->status, "%s", first.c_str());
}

static void nccl_does_not_wait_for_ever(void **state) {
    (void)state;
    const char *const why[] = {"process 1 cannot be reached by NCCL: remote",
                               "nothing has arrived in NCCL_PATIENCE seconds"};
    for (int how = 0; how < 2; how++) {
        result got[MOST];
        const double began = ppo_clock();
        run_group(2, lose_a_process, &how, got);
        assert_true(ppo_clock() - began < 10);
        assert_int_equal(got[0].status, PPO_ERROR_GROUP);
        assert_non_null(strstr(got[0].error, why[how]));
        assert_int_equal(got[0].hash[0], 1); /* the communicator is aborted */
        assert_int_equal(got[0].hash[1], 0);
    }
}

/* A group of two in which this process hears itself. */
static ppo_status hear_oneself(void *, int, const void *send, size_t sent, void *receive, size_t received) {
    memcpy(receive, send, std::min(sent, received));
    return PPO_OK;
}

/* Connects, exchanges and ends, with what is failing. */
static ppo_status connect_once(const ppo_group *pipes, char failing, int *gpu) {
    char from[5000] = "abc", to[5000] = "";
    nccl = emulated_nccl();
    nccl.pipes = pipes, nccl.failing = failing;
    ppo_status status = ppo_use_nccl(gpu);
    if (!status) status = ppo_use_nccl(NULL); /* again: it is connected */
    if (!status) status = ppo__nccl_exchange(NULL, 1, from, sizeof from, to, sizeof to);
    if (!status && strcmp(to, "abc")) status = ppo_fail(PPO_ERROR_FILE, "\"%.9s\" arrived", to);
    char error[256];
    snprintf(error, sizeof error, "%s", ppo_last_error());
    ppo_nccl_end(status != PPO_OK);
    return status ? ppo_fail(status, "%s", error) : status;
}

static void what_fails_in_nccl_is_told_and_freed(void **state) {
    (void)state;
    const ppo_group pipes = {0, 2, hear_oneself, NULL};
    int gpu = -1;
    emulate();
    unsetenv("RANK"), unsetenv("WORLD_SIZE"), unsetenv("MASTER_ADDR"), unsetenv("MASTER_PORT"),
        unsetenv("NCCL_COMM_ID");
    unsetenv("OMPI_COMM_WORLD_RANK"), unsetenv("SLURM_PROCID");
    assert_ok(ppo_use_nccl(&gpu)); /* no launcher: a process of its own */
    assert_int_equal(gpu, 0);
    ppo_nccl_end(0);
    setenv("RANK", "0", 1), setenv("WORLD_SIZE", "2", 1), setenv("NCCL_PATIENCE", "1", 1);
    ppo__nccl.piece = 4096;
    assert_fails(connect_once(&pipes, 0, &gpu), PPO_ERROR_GROUP,
                 "cannot be connected by NCCL: remote"); /* another place */
    setenv("MASTER_ADDR", "localhost", 1), setenv("MASTER_PORT", "1234", 1),
        setenv("NCCL_COMM_ID", "localhost:1235", 1);
    assert_ok(connect_once(&pipes, 0, &gpu));
    for (const char *failing = "uia"; *failing; failing++)
        assert_fails(connect_once(&pipes, *failing, &gpu), PPO_ERROR_GROUP,
                     "cannot be connected by NCCL: remote");
    assert_int_equal(emulation.live, 0);
    emulation.calls = 0;
    assert_ok(connect_once(&pipes, 0, &gpu));
    const long calls = emulation.calls;
    int failed = 0;
    for (long k = 0; k < calls; k++) {
        emulation.fail_at = k, emulated::last_error = cudaSuccess;
        const ppo_status status = connect_once(&pipes, 0, &gpu);
        emulation.fail_at = -1;
        if (status && status != PPO_ERROR_FILE)
            assert_non_null(strstr(ppo_last_error(), "by NCCL: ")); /* else by the emulation */
        failed += status == PPO_ERROR_GROUP;
        if (emulation.live) fail_msg("%ld things are left after call %ld failed", emulation.live, k);
    }
    assert_true(failed > 5);
    unsetenv("RANK"), unsetenv("WORLD_SIZE"), unsetenv("MASTER_ADDR"), unsetenv("MASTER_PORT"),
        unsetenv("NCCL_COMM_ID");
}

#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_processes_tunes_the_same_bits_on_gpus),
        cmocka_unit_test(processes_with_several_sequences_at_a_time_have_the_same_bits),
        cmocka_unit_test(processes_on_other_devices_say_so),
#ifndef __CUDACC__
        cmocka_unit_test(a_gpu_that_fails_in_one_process_fails_in_all),
        cmocka_unit_test(nccl_carries_what_processes_exchange),
        cmocka_unit_test(nccl_does_not_wait_for_ever),
        cmocka_unit_test(what_fails_in_nccl_is_told_and_freed),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
