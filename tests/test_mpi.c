/* ppo_mpi.h, with an emulation of MPI in which each call can fail; mpi.sh runs it with a real one. */
#include "../ppo.h"

#define PPO_MPI_IMPLEMENTATION
#include "../examples/companions/ppo_mpi.h"
#include "test.h"

static void begin_again(const char *failing, int threads, int size) {
    ppo_mpi_end(0);
    const struct emulated_mpi fresh = {failing, 0, threads, size, 0, 0, 0, 0, 0};
    mpi = fresh;
}

static void mpi_is_started_and_ended_unless_the_program_does(void **state) {
    (void)state;
    begin_again("", MPI_THREAD_MULTIPLE, 1);
    ppo_mpi_end(0); /* it is not running */
    assert_int_equal(mpi.ended, 0);
    assert_ok(ppo_use_mpi());
    assert_ok(ppo_use_mpi()); /* again: the same group */
    assert_true(mpi.started == 1 && mpi.copies == 1 && ppo_group_rank() == 0);
    ppo_mpi_end(0);
    assert_true(mpi.ended == 1 && mpi.copies == 0);
    begin_again("", MPI_THREAD_SERIALIZED, 1);
    mpi.running = 1; /* the program has started it */
    assert_ok(ppo_use_mpi());
    ppo_mpi_end(0);
    assert_true(mpi.started == 0 && mpi.ended == 0 && mpi.copies == 0);
}

static void what_mpi_cannot_do_is_told(void **state) {
    (void)state;
    static const struct {
        const char *failing;
        int threads, size;
        ppo_status status;
        const char *words;
    } cases[] = {
        {"MPI_Init_thread", MPI_THREAD_MULTIPLE, 1, PPO_ERROR_GROUP, "MPI does not start"},
        {"", MPI_THREAD_FUNNELED, 1, PPO_ERROR_GROUP, "this MPI allows calls from one thread only"},
        {"MPI_Comm_dup", MPI_THREAD_MULTIPLE, 1, PPO_ERROR_GROUP, "the processes cannot be connected by MPI"},
        {"", MPI_THREAD_MULTIPLE, 3, PPO_ERROR_ARGUMENT, "3"}};
    for (int i = 0; i < COUNT(cases); i++) {
        begin_again(cases[i].failing, cases[i].threads, cases[i].size);
        assert_fails(ppo_use_mpi(), cases[i].status, cases[i].words);
    }
    begin_again("", MPI_THREAD_MULTIPLE, 1);
    assert_ok(ppo_use_mpi());
    ppo_mpi_end(1); /* the others must not wait for this process */
    assert_int_equal(mpi.aborted, 1);
    begin_again("", MPI_THREAD_MULTIPLE, 1);
}

/* Also where one side has more to say than the other, and more than MPI can count. */
static void messages_arrive_whole_and_in_pieces(void **state) {
    (void)state;
    char from[5] = "abcd", to[5] = "";
    begin_again("", MPI_THREAD_MULTIPLE, 2);
    assert_ok(ppo_use_mpi());
    ppo_status (*const exchange)(void *, int, const void *, size_t, void *, size_t) = ppo__mpi_group.exchange;
    assert_ok(exchange(NULL, 1, from, sizeof from, to, sizeof to));
    assert_string_equal(to, "abcd");
    assert_int_equal(mpi.messages, 1);
    assert_ok(exchange(NULL, 1, from, 0, to, 3));
    assert_ok(exchange(NULL, 1, from, 3, to, 0));
    assert_ok(exchange(NULL, 1, from, 0, to, 0));
    assert_int_equal(mpi.messages, 3);
    assert_ok(exchange(NULL, 1, from, 0, to, (size_t)5 << 29)); /* nothing comes, in three pieces */
    assert_int_equal(mpi.messages, 6);
    mpi.failing = "MPI_Sendrecv";
    assert_fails(exchange(NULL, 1, from, 5, to, 5), PPO_ERROR_GROUP, "process 1 cannot be reached by MPI");
    begin_again("", MPI_THREAD_MULTIPLE, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mpi_is_started_and_ended_unless_the_program_does),
        cmocka_unit_test(what_mpi_cannot_do_is_told),
        cmocka_unit_test(messages_arrive_whole_and_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
