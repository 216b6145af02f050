/* Groups of processes whose models are on GPUs compute the bits of a single process, and a failure of one is that of all. */
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

static void any_number_of_processes_tunes_the_same_bits_on_gpus(void **state) {
    (void)state;
    static tuning kinds[] = {
        {"PPO, one sequence at a time", "slots=1 micro_batch=1 shards=4", 0, NULL, NULL, 0},
        {"texts", "shards=4 epochs=1", 1, NULL, NULL, 0},
        {"fewer shards than processes", "shards=3 window=9 batch_size=6 micro_batch=1", 1, NULL, NULL, 0},
        {"pairs", "shards=4 epochs=1", 2, NULL, NULL, 0},
        {"pairs and a reference", "shards=8 batch_size=9", 3, NULL, NULL, 0},
        {"a large model", "shards=2 epochs=1 steps=1", 1, NULL, NULL, 192},
    };
    for (int k = 0; k < COUNT(kinds); k++) {
        result want = one_process(tune_on_the_gpu, &kinds[k]), got[MOST];
        assert_string_equal(want.error, "");
        for (int size = SMALL(2, k % 2 ? 4 : 2); size <= SMALL(MOST, 4); size *= SMALL(2, MOST)) {
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
    static tuning kinds[] = {
        {"three shards, micro-batches", "shards=3 micro_batch=2 recompute=yes", 0, NULL, NULL, 0},
        {"a long step of one shard",
         "kl_place=loss kl_estimator=exact learning_rate=0.05 target_kl=0.001 epochs=1", 0, NULL, NULL, 0},
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
    tuning kinds[] = {{"", "shards=4", 1, NULL, NULL, 0}, {"", "shards=4", 0, NULL, NULL, 0}};
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
    int    at;
} fault;
static void tune_with_a_fault(void *user, const ppo_group *group, result *r) {
    fault *f = (fault *)user;
    open_gpu(r);
    if (group->rank == 1) emulation.fail_at = f->at, emulation.error = cudaErrorLaunchFailure;
    if (!r->status) tune(&f->kind, group, r);
}

static void a_gpu_that_fails_in_one_process_fails_in_all(void **state) {
    (void)state;
    fault faults[] = {{{"", "shards=2 epochs=1", 1, NULL, NULL, 0}, 0},
                      {{"", "epochs=1", 1, NULL, NULL, 0}, 0},
                      {{"", "epochs=1 learning_rate=0.05 target_kl=0.001", 0, NULL, NULL, 0}, 0}};
    for (fault &f : faults) {
        result got[MOST];
        int    failed = 0;
        for (f.at = 3; f.at < 40000; f.at *= 2) {
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

#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_processes_tunes_the_same_bits_on_gpus),
        cmocka_unit_test(processes_with_several_sequences_at_a_time_have_the_same_bits),
        cmocka_unit_test(processes_on_other_devices_say_so),
#ifndef __CUDACC__
        cmocka_unit_test(a_gpu_that_fails_in_one_process_fails_in_all),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
