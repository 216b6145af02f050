/* ppo_mpi.h - processes that train together, on one machine or many, connected by MPI

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_mpi.h"          // after ppo.h; other files may include it for its declarations

       int main(void) {
           ppo_status status = ppo_use_mpi();
           if (!status) status = train();     // the same calls with the same arguments in every process
           if (status) fprintf(stderr, "%s\n", ppo_last_error());
           ppo_mpi_end(status);
           return status;
       }

       mpicc -O2 app.c -lm
       mpirun -n 4 ./a.out

   Every process gets the same results, to the bits of a single one. Usually one of them prints and writes files,
   that with ppo_group_rank() 0. What is divided among the processes, and how, is said in ppo_group.h.

   Copy this file and ppo_group.h beside ppo.h. In the folder examples/, where it is in companions/, programs include it from
   there: #include "companions/ppo_mpi.h". Its implementation uses public functions of ppo.h only: a program that
   is linked with a ppo.h compiled before defines PPO_MPI_IMPLEMENTATION in one of its files instead.

   To connect processes by something else, such as sockets: a ppo_group is a rank, a size, and one function that
   exchanges bytes with another process. ppo__mpi_exchange() below shows one in ten lines.

   License: that of ppo.h. */
#ifndef PPO_MPI_H
#define PPO_MPI_H
#ifndef PPO_H
#error "include ppo.h before ppo_mpi.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_mpi.h belongs to version 0.3 of ppo.h"
#endif

#include "ppo_group.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Divides what the calling thread trains from now on among all processes of MPI (MPI_COMM_WORLD), which make this
   call together. Starts MPI, unless the program has. Errors: MPI does not start, or allows calls from one thread
   only (below MPI_THREAD_SERIALIZED); the number of processes is not 1, 2, 4, ... PPO_MAX_RANKS. */
PPO_DEF ppo_status ppo_use_mpi(void);

/* Leaves the group, at the end of the program, and ends MPI if ppo_use_mpi() has started it. failed 1: the others
   may wait for this process, so MPI ends all. */
PPO_DEF void ppo_mpi_end(int failed);

#ifdef __cplusplus
}
#endif
#endif

/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if (defined(PPO_IMPLEMENTATION) || defined(PPO_MPI_IMPLEMENTATION)) && !defined(PPO__MPI_IMPLEMENTED)
#define PPO__MPI_IMPLEMENTED

/* Not the bindings for C++, which some versions still have. */
#define OMPI_SKIP_MPICXX  1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

static MPI_Comm ppo__mpi_comm; /* the library's own: messages of the program do not mix with its */
static int ppo__mpi_started;   /* 1: by ppo_use_mpi() */

/* MPI counts in ints: more goes in pieces, of which both sides make the same. */
static ppo_status ppo__mpi_exchange(void *user, int peer, const void *send, size_t sent, void *receive,
                                    size_t received) {
    const size_t most = 1 << 30;
    (void)user;
    for (size_t at = 0; at < sent || at < received; at += most) {
        const size_t out = at >= sent ? 0 : sent - at < most ? sent - at : most;
        const size_t in = at >= received ? 0 : received - at < most ? received - at : most;
        if (MPI_Sendrecv((const char *)send + (out ? at : 0), (int)out, MPI_BYTE, peer, 0,
                         (char *)receive + (in ? at : 0), (int)in, MPI_BYTE, peer, 0, ppo__mpi_comm,
                         MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return ppo_fail(PPO_ERROR_GROUP, "process %d cannot be reached by MPI", peer);
    }
    return PPO_OK;
}

static ppo_group ppo__mpi_group = {0, 0, ppo__mpi_exchange, NULL}; /* size 0: there is none */

PPO_DEF ppo_status ppo_use_mpi(void) {
    int running = 0, threads = MPI_THREAD_SINGLE;
    if (ppo__mpi_group.size) return ppo_use_group(&ppo__mpi_group);
    MPI_Initialized(&running);
    if (!running && MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &threads) != MPI_SUCCESS)
        return ppo_fail(PPO_ERROR_GROUP, "MPI does not start");
    if (running) MPI_Query_thread(&threads);
    ppo__mpi_started = !running;
    if (threads < MPI_THREAD_SERIALIZED)
        return ppo_fail(PPO_ERROR_GROUP, "this MPI allows calls from one thread only");
    if (MPI_Comm_dup(MPI_COMM_WORLD, &ppo__mpi_comm) != MPI_SUCCESS)
        return ppo_fail(PPO_ERROR_GROUP, "the processes cannot be connected by MPI");
    MPI_Comm_set_errhandler(ppo__mpi_comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(ppo__mpi_comm, &ppo__mpi_group.rank);
    MPI_Comm_size(ppo__mpi_comm, &ppo__mpi_group.size);
    return ppo_use_group(&ppo__mpi_group);
}

PPO_DEF void ppo_mpi_end(int failed) {
    int running = 0;
    MPI_Initialized(&running);
    if (!running) return;
    if (failed) MPI_Abort(MPI_COMM_WORLD, 1);
    ppo_use_group(NULL);
    if (ppo__mpi_group.size) MPI_Comm_free(&ppo__mpi_comm);
    ppo__mpi_group.size = 0;
    if (ppo__mpi_started) MPI_Finalize();
}

#endif
