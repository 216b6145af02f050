/* mpi.h - train.c and rlhf.c on several processors or machines, by MPI: `make mpi` compiles both WITH_MPI, and

       mpirun -n 4 build/train-mpi --env CartPole-v1 --num-envs 16

   trains with four processes, to the bits of build/train. It teaches what a ppo_group needs: a rank, a size, and one
   function that exchanges bytes with another process. This one calls MPI_Sendrecv(); another may use sockets.

   main() of the program runs in each process. All of them print their errors, but rank 0 alone prints results and
   writes files. A failure of all is printed once. */
#ifndef EXAMPLES_MPI_H
#define EXAMPLES_MPI_H

#ifndef WITH_MPI

static inline int speaks(void) { return 1; }

#else
#include <mpi.h>

/* MPI counts in ints: more goes in pieces, of which both sides make the same. */
static ppo_status mpi_exchange(void *user, int peer, const void *send, size_t sent, void *receive,
                               size_t received) {
    const size_t most = 1 << 30;
    (void)user;
    for (size_t at = 0; at < sent || at < received; at += most) {
        const size_t out = at >= sent ? 0 : sent - at < most ? sent - at : most;
        const size_t in = at >= received ? 0 : received - at < most ? received - at : most;
        if (MPI_Sendrecv((const char *)send + (out ? at : 0), (int)out, MPI_BYTE, peer, 0,
                         (char *)receive + (in ? at : 0), (int)in, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return ppo_fail(PPO_ERROR_GROUP, "process %d cannot be reached by MPI", peer);
    }
    return PPO_OK;
}

static ppo_group mpi_group = {0, 1, mpi_exchange, NULL};
static int mpi_all_failed; /* 1: all processes, so that nobody waits for another */

/* Whether this process prints that it failed. Where all fail within a second, for the same reason, rank 0 does; a process
   that fails alone does, too. */
static int speaks(void) {
    MPI_Request arrived;
    if (mpi_all_failed) return !mpi_group.rank;
    MPI_Ibarrier(MPI_COMM_WORLD, &arrived);
    for (double began = ppo_clock(); !mpi_all_failed && ppo_clock() - began < 1;)
        MPI_Test(&arrived, &mpi_all_failed, MPI_STATUS_IGNORE);
    return !mpi_all_failed || !mpi_group.rank;
}

static int program_main(int argc, char **argv);

int main(int argc, char **argv) {
    int given, status = 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &given);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &mpi_group.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mpi_group.size);
    if (mpi_group.rank && !freopen("/dev/null", "w", stdout)) return 1;
    if (given < MPI_THREAD_SERIALIZED)
        ppo_fail(PPO_ERROR_GROUP, "this MPI allows calls from one thread only");
    if (given >= MPI_THREAD_SERIALIZED && !ppo_use_group(&mpi_group)) status = program_main(argc, argv);
    else if (speaks()) fprintf(stderr, "%s\n", ppo_last_error());
    if (status && !mpi_all_failed) MPI_Abort(MPI_COMM_WORLD, status); /* the others wait for this one */
    MPI_Finalize();
    return status;
}

#define main program_main

#endif
#endif
