/* processes.h - main() of train.c and rlhf.c in each of several processes that train together. `make mpi` compiles both
   WITH_MPI, by ppo_mpi.h, and

       mpirun -n 4 build/train-mpi --env CartPole-v1 --num-envs 16

   trains with four, to the bits of build/train. `make cuda` compiles rlhf.c WITH_NCCL, by ppo_nccl.cuh.

   All processes run the program's main(), which has the name program_main() then. All print their errors, but rank 0
   alone prints results and writes files. With MPI a failure of all is printed once. */
#ifndef EXAMPLES_PROCESSES_H
#define EXAMPLES_PROCESSES_H

#if defined(WITH_MPI) || defined(WITH_NCCL)

#ifdef WITH_MPI
#define PPO_MPI_IMPLEMENTATION
#include "companions/ppo_mpi.h"

static int all_failed; /* 1: all processes, so that nobody waits for another */

static ppo_status join(void) {
    ppo_status status = ppo_use_mpi();
    if (!status) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    return status;
}

static void leave(int failed) { ppo_mpi_end(failed && !all_failed); }

/* Whether this process prints that it failed. Where all fail within a second, for the same reason, rank 0 does; a process
   that fails alone does, too. */
static int speaks(void) {
    MPI_Request arrived;
    if (all_failed) return !ppo_group_rank();
    MPI_Ibarrier(MPI_COMM_WORLD, &arrived);
    for (double began = ppo_clock(); !all_failed && ppo_clock() - began < 1;)
        MPI_Test(&arrived, &all_failed, MPI_STATUS_IGNORE);
    return !all_failed || !ppo_group_rank();
}

#else
#include "companions/ppo_nccl.cuh"

static int own_gpu; /* of this process */
static ppo_status join(void) { return ppo_use_nccl(&own_gpu); }
static void leave(int failed) { ppo_nccl_end(failed); }
static inline int speaks(void) { return 1; } /* the launcher marks whose errors they are */

#endif

static int program_main(int argc, char **argv);

int main(int argc, char **argv) {
    int status = 1;
    if (join()) {
        if (speaks()) fprintf(stderr, "%s\n", ppo_last_error());
    } else if (!ppo_group_rank() || freopen("/dev/null", "w", stdout)) {
        status = program_main(argc, argv);
    }
    leave(status);
    return status;
}

#define main program_main

#else

static inline int speaks(void) { return 1; }

#endif
#endif
