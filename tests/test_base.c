/* Section 1: the text of the last error, the allocator hook, the clock. */
#include "../ppo.h"

#include "test.h"

#include <pthread.h>
#include <time.h>

static void the_version_is_the_same_in_numbers_and_text(void **state) {
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", PPO_VERSION_MAJOR, PPO_VERSION_MINOR, PPO_VERSION_PATCH);
    assert_string_equal(text, PPO_VERSION);
}

/* Must run before anything fails. */
static void last_error_is_empty_before_the_first_failure(void **state) {
    (void)state;
    assert_string_equal(ppo_last_error(), "");
}

static void fail_returns_its_status_and_keeps_the_sentence(void **state) {
    (void)state;
    assert_int_equal(ppo_fail(PPO_ERROR_NUMERIC, "reward is %s (environment %d)", "NaN", 3),
                     PPO_ERROR_NUMERIC);
    assert_string_equal(ppo_last_error(), "reward is NaN (environment 3)");
    assert_int_equal(ppo_fail(PPO_ERROR_ARGUMENT, "second"), PPO_ERROR_ARGUMENT);
    assert_string_equal(ppo_last_error(), "second");
}

static void a_success_leaves_the_sentence_alone(void **state) {
    (void)state;
    float x[2] = {1, 2};
    ppo_fail(PPO_ERROR_ARGUMENT, "earlier");
    assert_ok(ppo_whiten(x, NULL, 2, 1));
    assert_string_equal(ppo_last_error(), "earlier");
}

static void an_overlong_sentence_is_cut_not_overrun(void **state) {
    (void)state;
    ppo_fail(PPO_ERROR_ARGUMENT, "%s%0*d", "begin", 100000, 7);
    size_t length = strlen(ppo_last_error());
    assert_in_range(length, 100, 99999);
    assert_memory_equal(ppo_last_error(), "begin000", 8);
}

typedef struct worker {
    int number;
    char before[256], after[256];
} worker;

static void *fail_in_a_thread(void *arg) {
    worker *w = (worker *)arg;
    snprintf(w->before, sizeof w->before, "%s", ppo_last_error());
    for (int i = 0; i < 1000; i++) ppo_fail(PPO_ERROR_ARGUMENT, "thread %d, failure %d", w->number, i);
    snprintf(w->after, sizeof w->after, "%s", ppo_last_error());
    return NULL;
}

static void each_thread_has_its_own_last_error(void **state) {
    (void)state;
    pthread_t threads[3];
    worker workers[3];
    ppo_fail(PPO_ERROR_ARGUMENT, "of the main thread");
    for (int i = 0; i < 3; i++) {
        workers[i].number = i;
        assert_int_equal(pthread_create(&threads[i], NULL, fail_in_a_thread, &workers[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        char want[64];
        snprintf(want, sizeof want, "thread %d, failure 999", i);
        pthread_join(threads[i], NULL);
        assert_string_equal(workers[i].before, "");
        assert_string_equal(workers[i].after, want);
    }
    assert_string_equal(ppo_last_error(), "of the main thread");
}

static void free_functions_accept_null_and_empty(void **state) {
    (void)state;
    ppo_normalizer norm = {0};
    ppo_params_free(NULL);
    ppo_tape_free(NULL);
    ppo_agent_free(NULL);
    ppo_trainer_free(NULL);
    ppo_normalizer_free(NULL);
    ppo_normalizer_free(&norm);
}

/* --- One of each thing that holds memory. Each does its job, frees all, and returns the job's status. --- */

static ppo_status use_params(void *user) {
    (void)user;
    ppo_params *params = NULL;
    ppo_status status = ppo_params_create(&params);
    if (status != PPO_OK) {
        assert_null(params);
        return status;
    }
    char name[16];
    for (int i = 0; i < 40 && status == PPO_OK; i++) {
        snprintf(name, sizeof name, "p.%d", i);
        if (!ppo_params_add(params, name, 3, 1 + i)) status = PPO_ERROR_MEMORY;
    }
    ppo_params_free(params);
    return status;
}

static ppo_status use_tape(void *user) {
    (void)user;
    float x[300], grad[300] = {0};
    ppo_tensor input = {100, 3, x, grad};
    ppo_rng rng = test_rng(0);
    ppo_tape *tape = NULL;
    ppo_status status = ppo_tape_create(&tape);
    if (status != PPO_OK) {
        assert_null(tape);
        return status;
    }
    fill_normal(&rng, x, 300, 1);
    for (int round = 0; round < 2 && status == PPO_OK; round++) {
        ppo_tape_reset(tape);
        ppo_tensor *y = &input;
        for (int i = 0; i < 30; i++) y = ppo_tape_activate(tape, y, PPO_TANH);
        status = ppo_tape_backward(tape, ppo_tape_mean(tape, y));
    }
    assert_int_equal(ppo_tape_status(tape), status);
    ppo_tape_free(tape);
    return status;
}

static ppo_tensor *sum_of_squares(ppo_tape *tape, ppo_tensor *const *inputs, void *user) {
    (void)user;
    return ppo_tape_sum(tape, ppo_tape_square(tape, inputs[0]));
}

static ppo_status use_check_gradients(void *user) {
    (void)user;
    float data[3] = {1, 2, 3}, grad[3] = {0, 0, 0};
    ppo_tensor x = {1, 3, data, grad};
    ppo_tensor *const inputs[1] = {&x};
    return ppo_check_gradients(sum_of_squares, inputs, 1, NULL, 1e-2f, 1e-2f, NULL);
}

static ppo_status use_normalizer(void *user) {
    (void)user;
    ppo_normalizer norm = {0};
    ppo_status status = ppo_normalizer_init(&norm, 5);
    ppo_normalizer_free(&norm);
    return status;
}

static ppo_status use_model(void *user) {
    ppo_env env = reach_env();
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    cfg.shared_trunk = *(int *)user;
    ppo_status status = ppo_agent_create(&env, &cfg, &agent);
    ppo_agent_free(agent);
    return status;
}

static ppo_status use_agent(void *user) {
    (void)user;
    ppo_env env = reach_env();
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    ppo_action action;
    float obs[1] = {0.5f};
    cfg.normalize_obs = 1;
    ppo_status status = ppo_agent_create(&env, &cfg, &agent);
    if (status != PPO_OK) assert_null(agent);
    if (status == PPO_OK) status = ppo_act(agent, obs, NULL, &action);
    if (status == PPO_OK) status = ppo_evaluate(agent, &env, 2, 1).status;
    ppo_agent_free(agent);
    return status;
}

static ppo_status use_trainer(void *user) {
    ppo_env env = reach_env();
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    cfg.threads = *(int *)user;
    cfg.normalize_obs = cfg.normalize_reward = 1;
    ppo_status status = ppo_train(&env, &cfg, &agent);
    if (status != PPO_OK) assert_null(agent);
    ppo_agent_free(agent);
    return status;
}

/* Minibatches of two parts, for which each thread has a tape. */
static ppo_status use_parts(void *user) {
    ppo_env env = reach_env();
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    cfg.threads = *(int *)user;
    cfg.rollout_steps = 64, cfg.num_envs = 4, cfg.minibatch_size = 256, cfg.total_steps = 512;
    cfg.hidden[0] = 32, cfg.hidden[1] = 32;
    ppo_status status = ppo_train(&env, &cfg, &agent);
    ppo_agent_free(agent);
    return status;
}

static void every_failing_allocation_is_reported_and_leaks_nothing(void **state) {
    (void)state;
    static int zero = 0, one = 1, two = 2;
    static const struct {
        ppo_status (*run)(void *user);
        void *user;
        int at_least; /* allocations: fewer would mean that the hook is passed by */
    } jobs[] = {{use_params, NULL, 3},     {use_tape, NULL, 2},    {use_check_gradients, NULL, 1},
                {use_normalizer, NULL, 1}, {use_model, &zero, 3},  {use_model, &one, 3},
                {use_agent, NULL, 5},      {use_trainer, &one, 8}, {use_trainer, &two, 8},
                {use_parts, &two, 12}};
    for (int i = 0; i < COUNT(jobs); i++)
        assert_true(fail_each_allocation(jobs[i].run, jobs[i].user) >= jobs[i].at_least);
}

static void allocator_hook_gets_its_user_pointer_and_null_restores_the_c_library(void **state) {
    (void)state;
    heap h = {0, 0, -1, 0};
    ppo_set_allocator(heap_hook, &h);
    assert_ok(use_params(NULL));
    assert_true(h.calls > 0);
    assert_int_equal(h.live, 0);
    ppo_set_allocator(NULL, NULL);
    long calls = h.calls;
    assert_ok(use_params(NULL));
    assert_int_equal(h.calls, calls);
}

static void clock_never_goes_back_and_counts_seconds(void **state) {
    (void)state;
    double start = ppo_clock(), last = start, smallest = 1;
    time_t began = time(NULL);
    while (last - start < 0.05 && time(NULL) - began < 5) {
        double now = ppo_clock();
        assert_true(now >= last);
        if (now > last && now - last < smallest) smallest = now - last;
        last = now;
    }
    assert_true(last - start >= 0.05);
    assert_true(time(NULL) - began <= 1 + 1); /* 0.05 of its seconds are not several of the calendar's */
    assert_true(smallest < 1e-3);             /* fine enough to time an iteration */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_error_is_empty_before_the_first_failure),
        cmocka_unit_test(fail_returns_its_status_and_keeps_the_sentence),
        cmocka_unit_test(a_success_leaves_the_sentence_alone),
        cmocka_unit_test(an_overlong_sentence_is_cut_not_overrun),
        cmocka_unit_test(each_thread_has_its_own_last_error),
        cmocka_unit_test(free_functions_accept_null_and_empty),
        cmocka_unit_test_teardown(every_failing_allocation_is_reported_and_leaks_nothing, restore_allocator),
        cmocka_unit_test_teardown(allocator_hook_gets_its_user_pointer_and_null_restores_the_c_library,
                                  restore_allocator),
        cmocka_unit_test(the_version_is_the_same_in_numbers_and_text),
        cmocka_unit_test(clock_never_goes_back_and_counts_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
