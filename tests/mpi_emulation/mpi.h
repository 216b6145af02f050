/* mpi.h - what ppo_mpi.h uses of MPI, for a single process that hears its own messages; test_mpi.c says which call fails. */
#ifndef PPO_TEST_MPI_H
#define PPO_TEST_MPI_H

#include <string.h>

typedef int MPI_Comm;
enum { MPI_SUCCESS, MPI_ERR_OTHER };
enum { MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE };
enum { MPI_COMM_WORLD = 1, MPI_BYTE, MPI_ERRORS_RETURN };
#define MPI_STATUS_IGNORE NULL

static struct emulated_mpi {
    const char *failing;        /* the function that fails, or "" */
    int running, threads, size; /* MPI_Init_thread() was called; what it allows; processes */
    int started, ended, copies; /* how often it was started and ended; communicators that are there */
    int messages, aborted;
} mpi = {"", 0, MPI_THREAD_MULTIPLE, 1, 0, 0, 0, 0, 0};

static inline int mpi_result(const char *name) {
    return strcmp(mpi.failing, name) ? MPI_SUCCESS : MPI_ERR_OTHER;
}

static inline int MPI_Initialized(int *flag) { return *flag = mpi.running, MPI_SUCCESS; }
static inline int MPI_Query_thread(int *threads) { return *threads = mpi.threads, MPI_SUCCESS; }
static inline int MPI_Init_thread(int *argc, char ***argv, int wanted, int *threads) {
    (void)argc, (void)argv, (void)wanted;
    *threads = mpi.threads;
    if (mpi_result("MPI_Init_thread")) return MPI_ERR_OTHER;
    mpi.running = 1, mpi.started++;
    return MPI_SUCCESS;
}
static inline int MPI_Finalize(void) { return mpi.running = 0, mpi.ended++, MPI_SUCCESS; }
static inline int MPI_Abort(MPI_Comm comm, int code) { return (void)comm, mpi.aborted = code, MPI_SUCCESS; }
static inline int MPI_Comm_dup(MPI_Comm from, MPI_Comm *to) {
    if (mpi_result("MPI_Comm_dup")) return MPI_ERR_OTHER;
    return *to = from + 1, mpi.copies++, MPI_SUCCESS;
}
static inline int MPI_Comm_free(MPI_Comm *comm) { return *comm = 0, mpi.copies--, MPI_SUCCESS; }
static inline int MPI_Comm_set_errhandler(MPI_Comm comm, int handler) {
    return (void)comm, (void)handler, MPI_SUCCESS;
}
static inline int MPI_Comm_rank(MPI_Comm comm, int *rank) { return (void)comm, *rank = 0, MPI_SUCCESS; }
static inline int MPI_Comm_size(MPI_Comm comm, int *size) {
    return (void)comm, *size = mpi.size, MPI_SUCCESS;
}
static inline int MPI_Sendrecv(const void *send, int sent, int type, int to, int tag, void *receive,
                               int received, int as, int from, int other_tag, MPI_Comm comm, void *status) {
    (void)type, (void)to, (void)tag, (void)as, (void)from, (void)other_tag, (void)comm, (void)status;
    mpi.messages++;
    if (received && sent == received) memcpy(receive, send, (size_t)sent);
    return mpi_result("MPI_Sendrecv");
}

#endif
