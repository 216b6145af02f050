/* The library in somebody's process: in a thread with a small stack, among signals, after a fork(), and beside other
   trainings on other threads. */
#ifdef _WIN32
int main(void) { return 0; } /* which lacks what follows */
#else
#include "../ppo.h"

#include "../examples/companions/ppo_export.h"
#include "../examples/companions/ppo_gru.h"
#include "../examples/companions/ppo_hub.h"
#include "../examples/companions/ppo_report.h"
#include "../examples/envs/cartpole.h"
#include "test.h"
#include "system.h"

#include <pthread.h>
#include <sys/time.h>

static char home[4096];

static int enter_folder(void **state) {
    (void)state;
    return !getcwd(home, sizeof home) || system("rm -rf build/process && mkdir -p build/process") ||
           chdir("build/process");
}

static int leave_folder(void **state) {
    (void)state;
    return chdir(home);
}

/* --------------------------------------------------------------------------------------------------------
   What a program does. Each job returns a status, and may leave a hash of its results
   -------------------------------------------------------------------------------------------------------- */

static __thread uint64_t hash_of_job;

static void take_hash(const ppo_params *params) {
    for (size_t i = 0; i < params->count; i++) {
        uint32_t bits;
        memcpy(&bits, &params->data[i], sizeof bits);
        hash_of_job = (hash_of_job ^ bits) * 0x100000001b3u;
    }
}

static ppo_config short_run(const char *settings) {
    ppo_config c = ppo_config_default();
    c.total_steps = 512, c.num_envs = 4, c.rollout_steps = 64, c.epochs = 2;
    assert_ok(ppo_config_set_all(&c, settings));
    return c;
}

/* Trains, saves, resumes, evaluates. */
static ppo_status train_by(const char *settings, const char *path) {
    const ppo_env env = cartpole_env();
    const ppo_config c = short_run(settings);
    ppo_agent *agent = NULL, *again = NULL;
    ppo_trainer *trainer = NULL, *resumed = NULL;
    ppo_status status = ppo_agent_create(&env, &c, &agent);
    if (!status) status = ppo_trainer_create(&env, &c, agent, &trainer);
    if (!status) status = ppo_trainer_iterate(trainer, NULL);
    if (!status && path) status = ppo_trainer_save(trainer, path);
    if (!status && path) status = ppo_trainer_resume(path, &env, NULL, &again, &resumed);
    if (!status) status = ppo_trainer_iterate(path ? resumed : trainer, NULL);
    if (!status) status = ppo_evaluate(agent, &env, 2, 1).status;
    if (!status) take_hash((path ? again : agent)->model.params);
    ppo_trainer_free(resumed), ppo_trainer_free(trainer);
    ppo_agent_free(again), ppo_agent_free(agent);
    return status;
}

static ppo_status train_plain(void) { return train_by("", "plain.st"); }
static ppo_status train_wide(void) {
    return train_by("hidden=256,256 minibatch_size=256 normalize_obs=yes", "wide.st");
}
static ppo_status train_memory(void) { return train_by("recurrent=32", "memory.st"); }

static ppo_status save_policies(void) {
    const ppo_env env = cartpole_env();
    const ppo_config c = short_run("");
    ppo_agent *agent = NULL, *read = NULL;
    ppo_status status = ppo_train(&env, &c, &agent);
    if (!status) status = ppo_agent_save(agent, "policy.st");
    if (!status) status = ppo_agent_load("policy.st", &env, &read);
    if (!status) status = ppo_export_c(agent, "net", "policy.h");
    if (!status) status = ppo_export_c_int8(agent, &env, "net", "policy8.h");
    ppo_agent_free(agent), ppo_agent_free(read);
    return status;
}

static ppo_status write_reports(void) {
    const float x[3] = {0, 1, 2}, y[3] = {1, 3, 2};
    const ppo_curve curve = {"a", x, y, 3};
    ppo_progress progress;
    ppo_log *log = NULL;
    memset(&progress, 0, sizeof progress);
    progress.steps = 100;
    ppo_status status = ppo_log_open("log.csv", "log.tb", 0, &log);
    if (!status) status = ppo_log_write(log, &progress);
    if (!status) status = ppo_log_sync(log);
    ppo_log_close(log);
    if (!status) status = ppo_log_open("log.csv", "log.tb", 100, &log);
    ppo_log_close(log);
    return status ? status : ppo_plot_svg("curve.svg", "title", "x", "y", &curve, 1);
}

static const char words[] =
    "the cat sat on the mat. the dog sat on the log. a cat and a dog ran to the red hat. ";

static ppo_status some_reward(const ppo_samples *samples, float *reward, void *user) {
    (void)user;
    for (int s = 0; s < samples->tokens.count; s++) reward[s] = (float)(samples->tokens.start[s + 1] % 3);
    return PPO_OK;
}

/* Tokenizers and a model in all files, fine-tuning, PPO. */
static ppo_status tune_by(const char *settings, int files) {
    static const char *const specials[] = {"<eos>"};
    ppo_tokenizer *tok = NULL, *read_tok = NULL;
    ppo_tokens data = {0};
    ppo_lm *lm = NULL, *read = NULL, *adapted = NULL;
    ppo_rlhf *rlhf = NULL;
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_rlhf_config c = ppo_rlhf_config_default();
    int skipped;
    ppo_lm_config shape = lm_config(0, 32, 32, 2, 2);
    ppo_lora lora = ppo_lora_default();
    assert_ok(ppo_lm_config_family(&shape, "llama"));
    fit.steps = 2, fit.batch_size = 4;
    c.prompts = 8, c.samples = 2, c.epochs = 1, c.sampling.max_new_tokens = 8;
    assert_ok(ppo_settings_set_all(ppo_rlhf_settings(), &c, settings));
    ppo_status status = ppo_tokenizer_train(words, strlen(words), 300, specials, 1, &tok);
    shape.vocab = tok ? ppo_tokenizer_vocab(tok) : 0;
    if (!status) status = ppo_lm_create(&shape, &lm);
    for (int i = 0; i < 4 && !status; i++)
        status = ppo_tokens_add_text(&data, tok, -1, "the cat", " sat on", -1);
    if (!status) status = ppo_fit_sft(lm, &data, &fit);
    if (!status && files) status = ppo_tokens_save_lines(&data, tok, "data.jsonl");
    if (!status && files) status = ppo_tokens_add_lines(&data, NULL, "data.jsonl", tok, NULL, &skipped);
    if (!status && files) status = ppo_lm_save_file(lm, tok, "lm.st");
    if (!status && files) status = ppo_lm_load("lm.st", &read);
    ppo_lm_free(read), read = NULL;
    if (!status && files) status = ppo_lm_save(lm, "folder", PPO_F32);
    if (!status && files) status = ppo_tokenizer_save(tok, "folder");
    if (!status && files) status = ppo_lm_load("folder", &read);
    if (!status && files) status = ppo_tokenizer_load("folder", &read_tok);
    if (!status && files) status = ppo_lm_adapt(read, &lora, 0, &adapted);
    if (!status && files) status = ppo_lm_save(adapted, "adapter", PPO_F32);
    if (!status) status = ppo_rlhf_create(lm, NULL, NULL, &data, some_reward, NULL, &c, &rlhf);
    if (!status) status = ppo_rlhf_iterate(rlhf, NULL);
    if (!status && files) status = ppo_rlhf_save(rlhf, "rlhf.st");
    if (!status) take_hash(lm->params);
    ppo_rlhf_free(rlhf);
    ppo_lm_free(adapted), ppo_lm_free(read), ppo_lm_free(lm);
    ppo_tokenizer_free(read_tok), ppo_tokenizer_free(tok);
    ppo_tokens_free(&data);
    return status;
}

static ppo_status tune(void) { return tune_by("", 1); }
static ppo_status tune_groups(void) { return tune_by("advantage=group", 0); }

static const struct job {
    const char *name;
    ppo_status (*run)(void);
    int by_kernels; /* 1: its stack depends on the kernels */
} jobs[] = {
    {"training, a checkpoint, an evaluation", train_plain, 0},
    {"the same, 256-256", train_wide, 1},
    {"the same, recurrent", train_memory, 0},
    {"policies in files, and as C", save_policies, 0},
    {"logs, a chart", write_reports, 0},
    {"language models, tokenizers and data in files, fine-tuning, PPO", tune, 1},
    {"PPO on tokens, groups", tune_groups, 0},
};

/* --------------------------------------------------------------------------------------------------------
   Stacks
   -------------------------------------------------------------------------------------------------------- */

/* The manual promises that 64 KB are enough: an eighth of them is for other compilers. */
enum { STACK = 1 << 20, PROMISED = 64 << 10, PAINT = 0xA5 };

static void *run_job(void *user) {
    const struct job *job = (const struct job *)user;
    const ppo_status status = job->run();
    if (status) fprintf(stderr, "%s: %s\n", job->name, ppo_last_error());
    return status ? user : NULL;
}

/* Runs a job in a thread with a stack of this size, at `memory`, or where the system likes. */
static void run_in_a_thread(const struct job *job, size_t size, void *memory) {
    pthread_attr_t how;
    pthread_t thread;
    void *failed;
    assert_int_equal(pthread_attr_init(&how), 0);
    if (memory) assert_int_equal(pthread_attr_setstack(&how, memory, size), 0);
    else assert_int_equal(pthread_attr_setstacksize(&how, size), 0);
    assert_int_equal(pthread_create(&thread, &how, run_job, (void *)job), 0);
    assert_int_equal(pthread_join(thread, &failed), 0);
    pthread_attr_destroy(&how);
    assert_null(failed);
}

static void every_job_fits_into_the_stack_that_the_manual_promises(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* whose frames are larger */
#else
    unsigned char *memory = NULL;
    assert_int_equal(posix_memalign((void **)&memory, 4096, STACK), 0);
    FOR_EACH_KERNEL_SET(set) {
        const int amx = !strcmp(ppo_kernels_name(), "amx"); /* ppo_amx.h says what it takes more */
        const size_t promised = PROMISED + (amx ? 240 << 10 : 0);
        size_t most = 0;
        for (int k = 0; k < COUNT(jobs); k++) {
            size_t unused = 0;
            if (set < COUNT(kernel_sets) && !jobs[k].by_kernels) continue;
            memset(memory, PAINT, STACK);
            run_in_a_thread(&jobs[k], STACK, memory);
            while (unused < STACK && memory[unused] == PAINT) unused++;
            if (STACK - unused > most) most = STACK - unused;
            if (most > promised / 8 * 7)
                fail_msg("%s needs %.1f KB with %s", jobs[k].name, (double)most / 1024, ppo_kernels_name());
        }
        print_message("%.1f KB with %s\n", (double)most / 1024, ppo_kernels_name());
    }
    free(memory);
    for (int k = 0; k < COUNT(jobs); k++) run_in_a_thread(&jobs[k], PROMISED, NULL);
#endif
}

/* --------------------------------------------------------------------------------------------------------
   Signals
   -------------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t alarms;
static void on_alarm(int signal) { (void)signal, alarms = alarms + 1; }

/* A handler without SA_RESTART: reads, writes and waits that the signal meets fail with EINTR. */
static void signals_fail_no_call(void **state) {
    (void)state;
    struct sigaction action, before;
    const struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    alarms = 0;
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    ppo_status status = PPO_OK;
    for (int round = 0; round < SMALL(3, 1) && !status; round++) {
        for (int k = 0; k < COUNT(jobs) && !status; k++) status = jobs[k].run();
        if (!status) status = train_by("threads=3", "threads.st");
    }
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    assert_ok(status);
    assert_true(alarms > 50);
}

/* --------------------------------------------------------------------------------------------------------
   Other threads, other processes
   -------------------------------------------------------------------------------------------------------- */

typedef struct worker {
    int k;
    uint64_t hash;
} worker;

static void *train_and_tune(void *user) {
    worker *w = (worker *)user;
    char settings[64];
    hash_of_job = 1;
    snprintf(settings, sizeof settings, "seed=%d threads=%d", w->k + 1, 1 + w->k % 2);
    ppo_status status = train_by(settings, NULL);
    snprintf(settings, sizeof settings, "seed=%d", w->k + 1);
    if (!status) status = ppo_set_threads(1 + w->k % 2);
    if (!status) status = tune_by(settings, 0);
    ppo_set_threads(1);
    w->hash = status ? 0 : hash_of_job;
    return NULL;
}

static void trainings_on_four_threads_have_the_bits_of_each_alone(void **state) {
    (void)state;
    worker alone[4], together[4];
    pthread_t thread[4];
    for (int k = 0; k < 4; k++) {
        alone[k].k = together[k].k = k;
        train_and_tune(&alone[k]);
        assert_true(alone[k].hash != 0 && (k == 0 || alone[k].hash != alone[k - 1].hash));
    }
    for (int round = 0; round < SMALL(3, 1); round++) {
        for (int k = 0; k < 4; k++)
            assert_int_equal(pthread_create(&thread[k], NULL, train_and_tune, &together[k]), 0);
        for (int k = 0; k < 4; k++) pthread_join(thread[k], NULL);
        for (int k = 0; k < 4; k++) assert_true(together[k].hash == alone[k].hash);
    }
}

/* A trainer with threads, iterated before the fork(), goes on in both processes. */
static void a_training_goes_on_in_a_forked_child_with_the_same_bits(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it cannot follow threads that a child starts */
#endif
    const ppo_env env = cartpole_env();
    const ppo_config c = short_run("threads=3");
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    uint64_t theirs = 0;
    int ends[2], how;
    assert_ok(ppo_set_threads(4));
    assert_ok(ppo_agent_create(&env, &c, &agent));
    assert_ok(ppo_trainer_create(&env, &c, agent, &trainer));
    assert_ok(ppo_trainer_iterate(trainer, NULL));
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        alarm(60); /* ends a child that hangs */
        hash_of_job = 1;
        ppo_status status = ppo_trainer_iterate(trainer, NULL);
        if (!status) status = tune_by("", 0);
        if (!status) status = ppo_set_threads(2);
        if (!status) status = tune_by("", 0);
        if (!status) take_hash(agent->model.params);
        _exit(status || write(ends[1], &hash_of_job, sizeof hash_of_job) != (ssize_t)sizeof hash_of_job);
    }
    hash_of_job = 1;
    assert_ok(ppo_trainer_iterate(trainer, NULL));
    assert_ok(tune_by("", 0));
    assert_ok(tune_by("", 0));
    take_hash(agent->model.params);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    assert_int_equal(read(ends[0], &theirs, sizeof theirs), sizeof theirs);
    assert_true(theirs == hash_of_job);
    close(ends[0]), close(ends[1]);
    ppo_trainer_free(trainer), ppo_agent_free(agent);
    assert_ok(ppo_set_threads(1));
}

/* With an argument: only the jobs of language models, for memcheck.sh. */
int main(int argc, char **argv) {
    if (argc > 1) return enter_folder(NULL) || tune() || tune_groups() || leave_folder(NULL);
    (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_job_fits_into_the_stack_that_the_manual_promises, enter_folder,
                                        leave_folder),
        cmocka_unit_test_setup_teardown(signals_fail_no_call, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(trainings_on_four_threads_have_the_bits_of_each_alone, enter_folder,
                                        leave_folder),
        cmocka_unit_test_setup_teardown(a_training_goes_on_in_a_forked_child_with_the_same_bits, enter_folder,
                                        leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
