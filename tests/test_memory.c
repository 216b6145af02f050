/* Whole jobs, each of which has its memory refused at every place where it asks for some: the failure is told, and nothing is
   left. Jobs of single sections are in their tests. */
#define PPO_IMPLEMENTATION
#include "../ppo.h"
#include "../examples/companions/ppo_bpe.h"
#include "../examples/companions/ppo_check.h"
#include "../examples/companions/ppo_conv.h"
#include "../examples/companions/ppo_explain.h"
#include "../examples/companions/ppo_export.h"
#include "../examples/companions/ppo_gru.h"
#include "../examples/companions/ppo_chat.h"
#include "../examples/companions/ppo_hub.h"
#include "../examples/companions/ppo_judge.h"
#include "../examples/companions/ppo_methods.h"
#include "../examples/companions/ppo_player.h"
#include "../examples/companions/ppo_report.h"
#include "../examples/companions/ppo_resume.h"
#include "test.h"
#include "system.h"

static char memory_home[] = "/tmp/test_memory.XXXXXX";

static int enter_memory_home(void **state) {
    (void)state;
    return !mkdtemp(memory_home) || chdir(memory_home) || mkdir("folder", 0700) || mkdir("copy", 0700);
}

static int leave_memory_home(void **state) {
    static const char *const files[] = {"folder/config.json",
                                        "folder/model.safetensors",
                                        "folder/tokenizer.json",
                                        "folder/tokenizer_config.json",
                                        "folder/chat_template.jinja",
                                        "folder/model.safetensors.index.json",
                                        "folder/adapter_config.json",
                                        "folder/adapter_model.safetensors",
                                        "copy/config.json",
                                        "copy/model.safetensors",
                                        "copy/tokenizer.json",
                                        "copy/tokenizer_config.json",
                                        "copy/adapter_config.json",
                                        "copy/adapter_model.safetensors",
                                        "policy.h",
                                        "lines.jsonl",
                                        "tokens.safetensors",
                                        "run.safetensors",
                                        "text"};
    (void)state;
    for (int i = 0; i < COUNT(files); i++) remove(files[i]);
    return rmdir("folder") || rmdir("copy") || chdir("/") || rmdir(memory_home) || restore_allocator(NULL);
}

/* -- policies -- */

/* What is done with an agent: it is copied, acts, explains itself, is judged, exported and played. */
typedef struct policy_job {
    ppo_env (*env)(void);
    const char *settings;
} policy_job;

static ppo_config policy_settings(const policy_job *job) {
    ppo_config cfg = tiny_config();
    assert_ok(ppo_settings_set_all(ppo_config_settings(), &cfg, job->settings));
    return cfg;
}

static ppo_env pushed_walk(void) {
    ppo_env env = walk_env();
    env.reset = NULL, env.step = NULL, env.max_steps = 0;
    return env;
}

static ppo_env walk_of_pictures(void) {
    ppo_env env = walk_env();
    env.shape[0] = 1, env.shape[1] = 1, env.shape[2] = 2;
    return env;
}

static ppo_env walk_with_metrics(void) {
    ppo_env env = walk_env();
    env.metrics[0] = "goals";
    return env;
}

static const policy_job use_jobs[] = {{walk_env, ""},
                                      {reach_env, "gsde=yes squash=yes log_std_init=-20"},
                                      {reach_env, "recurrent=3 scale_actions=yes"},
                                      {dials_env, "normalize_obs=yes"},
                                      {walk_of_pictures, "conv=2x1x1 layer_norm=yes"}};

static ppo_status use_agent_of(void *user) {
    const policy_job *job = (const policy_job *)user;
    ppo_env env = job->env();
    ppo_config cfg = policy_settings(job);
    ppo_agent *agent = NULL, *copy = NULL;
    ppo_explanation why;
    ppo_action action;
    ppo_trainer *player = NULL;
    float obs[8] = {0.1f, 0.2f, 0.3f, 0.4f};
    ppo_rng rng = test_rng(1);
    ppo_status status = ppo_agent_create(&env, &cfg, &agent);
    if (!status) status = ppo_agent_copy(agent, &copy);
    if (!status) status = ppo_act(agent, obs, &rng, &action);
    if (!status) status = ppo_act_explain(copy, obs, NULL, &why);
    if (!status) status = ppo_export_c(copy, "policy", "policy.h");
    if (!status) status = ppo_evaluate(copy, &env, 2, 1).status;
    if (!status) {
        env.reset = NULL, env.step = NULL, env.max_steps = 0, env.action_mask = NULL;
        status = ppo_player_create(&env, agent, 2, 1, 1, &player);
    }
    if (!status) status = ppo_trainer_observe(player, 0, obs, NULL, NULL);
    if (!status) status = ppo_trainer_act(player, 0, &action);
    ppo_trainer_free(player);
    ppo_agent_free(copy), ppo_agent_free(agent);
    return status;
}

static ppo_status export_small(void *user) {
    const policy_job *job = (const policy_job *)user;
    ppo_env env = job->env();
    ppo_config cfg = policy_settings(job);
    ppo_agent *agent = NULL;
    cfg.normalize_obs = 1;
    ppo_status status = ppo_train(&env, &cfg, &agent);
    if (!status) status = ppo_export_c_int8(agent, &env, "policy", "policy.h");
    ppo_agent_free(agent);
    return status;
}

static ppo_status check_world(void *user) {
    const policy_job *job = (const policy_job *)user;
    ppo_env env = job->env();
    ppo_config cfg = policy_settings(job);
    ppo_inspection report;
    return ppo_env_check_with(&env, &cfg, 60, 1, &report);
}

static const policy_job train_jobs[] = {
    {walk_env, "self_play=0 threads=2 minibatch_size=0"},
    {walk_with_metrics, "normalize_obs=yes normalize_reward=yes target_kl=0.1"},
    {fenced_env, "objective=kl-penalty penalty_target_kl=0.01 entropy_coef=0.1"},
    {reach_env, "recurrent=3 gsde=yes minibatch_size=8 rollout_steps=16"},
    {walk_env, "use_critic=no"},
    {walk_of_pictures, "conv=2x1x1 critic_learning_rate=0.01"},
    {pushed_walk, ""}};

/* A training is stopped and continued; the program steps its own world where that has no functions. */
static ppo_status train_stop_and_continue(void *user) {
    const policy_job *job = (const policy_job *)user;
    ppo_env env = job->env();
    ppo_config cfg = policy_settings(job);
    ppo_agent *agent = NULL, *back = NULL;
    ppo_trainer *trainer = NULL, *again = NULL;
    ppo_action action;
    const ppo_outcome outcome = {0.5f, 0, 0, 0, 0, {0}};
    float obs[2] = {0.1f, 0.2f};
    cfg.total_steps = 64;
    ppo_status status = ppo_agent_create(&env, &cfg, &agent);
    if (!status) status = ppo_trainer_create(&env, &cfg, agent, &trainer);
    if (!status && env.reset) status = ppo_trainer_iterate(trainer, NULL);
    for (int t = 0; t < 9 && !status && !env.reset; t++)
        for (int e = 0; e < 2 && !status; e++) {
            status = ppo_trainer_observe(trainer, e, obs, NULL, t ? &outcome : NULL);
            if (!status) status = ppo_trainer_act(trainer, e, &action);
        }
    if (!status && !env.reset) status = ppo_trainer_learn(trainer, 0, NULL);
    if (!status) status = ppo_trainer_save(trainer, "run.safetensors");
    if (!status) status = ppo_trainer_resume("run.safetensors", &env, NULL, &back, &again);
    if (!status && env.reset) status = ppo_trainer_iterate(again, NULL);
    ppo_trainer_free(trainer), ppo_trainer_free(again);
    ppo_agent_free(agent), ppo_agent_free(back);
    return status;
}

/* make test runs some of the jobs; make coverage and make test-long all of them, array by array. */
static int job_step(void) { return getenv("PPO_TEST_FINE") || getenv("PPO_TEST_FULL") ? 1 : 4; }

static void policies_without_memory_say_so(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(use_jobs); i += job_step())
        assert_true(fail_each_allocation(use_agent_of, (void *)&use_jobs[i]) > 10);
    assert_true(fail_each_site(use_agent_of, (void *)&use_jobs[1], 1) > 10); /* state-dependent exploration */
    assert_true(fail_each_allocation(export_small, (void *)&use_jobs[0]) > 10);
    assert_true(fail_each_allocation(export_small, (void *)&use_jobs[2]) > 10);
    assert_true(fail_each_allocation(export_small, (void *)&use_jobs[4]) > 10);
    assert_true(fail_each_allocation(check_world, (void *)&train_jobs[2]) > 3);
    assert_true(fail_each_allocation(check_world, (void *)&train_jobs[0]) > 3);
}

static void trainings_without_memory_say_so(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(train_jobs); i += job_step())
        assert_true(fail_each_allocation(train_stop_and_continue, (void *)&train_jobs[i]) > 10);
}

static ppo_tensor *sum_of_squares(ppo_tape *tape, ppo_tensor *const *x, void *user) {
    (void)user;
    return ppo_tape_sum(tape, ppo_tape_square(tape, x[0]));
}

static ppo_status check_squares(void *user) {
    float data[3] = {1, 2, 3}, grad[3], error;
    ppo_tensor x = {1, 3, data, grad}, *inputs[] = {&x};
    return ppo_check_gradients(sum_of_squares, inputs, 1, user, 1e-2f, 1e-2f, &error);
}

/* -- language models -- */

static ppo_status count_token_3(const ppo_samples *samples, float *reward, void *user) {
    const ppo_tokens *t = &samples->tokens;
    (void)user;
    for (int s = 0; s < t->count; s++) {
        reward[s] = 0;
        for (int i = t->start[s] + t->prompt[s]; i < t->start[s + 1]; i++) reward[s] += t->token[i] == 3;
    }
    return PPO_OK;
}

static ppo_status say_four(const int *text, int n, int *answer, int room, int *count, void *user) {
    (void)text, (void)n, (void)user;
    *count = room > 0;
    if (room > 0) *answer = 4;
    return PPO_OK;
}

/* What a folder of the hub holds. */
static const char folder_tokenizer[] =
    "{\"added_tokens\": [{\"id\": 4, \"content\": \"<|im_start|>\", \"special\": true}, {\"id\": 5, "
    "\"content\": \"<|im_end|>\", "
    "\"special\": true}, {\"id\": 6, \"content\": \"\303\251x\", \"special\": false, \"normalized\": true}], "
    "\"normalizer\": "
    "{\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true}, "
    "\"post_processor\": {\"type\": "
    "\"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<|im_start|>\"}}, {\"Sequence\": "
    "{\"id\": \"A\"}}], "
    "\"special_tokens\": {\"<|im_start|>\": {\"ids\": [4]}}}, \"decoder\": {\"type\": \"ByteLevel\"}, "
    "\"model\": {\"type\": \"BPE\", "
    "\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"\304\240\": 3}, \"merges\": [\"a b\"]}}";

static ppo_status use_folder(void *user) {
    const ppo_message messages[] = {{"user", "ab \303\251"}, {"assistant", "b"}};
    const char *const stop_texts[] = {"ab"};
    ppo_tokenizer *tok = NULL, *copy = NULL;
    ppo_lm *lm = NULL, *adapted = NULL, *merged = NULL;
    ppo_tokens tokens = {0};
    ppo_lora lora = ppo_lora_default();
    char *text = NULL;
    int count, ends[2], stop = 0;
    (void)user;
    lora.rank = 2;
    ppo_status status = ppo_tokenizer_load("folder", &tok);
    if (!status)
        status = ppo_encode_as(tok, PPO_ENCODE_SPECIALS, "e\314\201x ab<|im_end|>", 17, NULL, 0, &count);
    if (!status) status = ppo_tokens_add_chat(&tokens, tok, PPO_CHATML, messages, 2, 0);
    if (!status) status = ppo_tokens_add_written(&tokens, tok, 4, "a", "b", 5);
    if (!status) status = ppo_tokenizer_save(tok, "copy");
    if (!status) status = ppo_tokenizer_load("copy", &copy);
    if (!status) status = ppo_lm_load("folder", &lm);
    if (!status) status = ppo_lm_load_ends("folder", ends, 2, &count);
    if (!status) status = ppo_lm_adapt(lm, &lora, 1, &adapted);
    if (!status) adapted->score_bias->data[0] = 0;
    if (!status) status = ppo_lm_merge(adapted, &merged);
    if (!status) status = ppo_lm_save(adapted, "copy", PPO_BF16);
    ppo_lm_free(adapted), adapted = NULL;
    if (!status) status = ppo_lm_load_adapter("copy", lm, &adapted);
    if (!status) status = ppo_tokens_save_lines(&tokens, tok, "lines.jsonl");
    if (!status) status = ppo_tokens_add_lines(&tokens, NULL, "lines.jsonl", tok, NULL, NULL);
    if (!status) status = ppo_text_load("folder/config.json", &text, NULL);
    if (!status) {
        const ppo_stops stops = {tok, stop_texts, 1};
        ppo_tokens one = {0};
        status = ppo_tokens_add_from(&one, &tokens, 0);
        if (!status) status = ppo_stop_at(&one, 0, &stop, (void *)&stops);
        ppo_tokens_free(&one);
    }
    ppo_text_free(text);
    remove("copy/adapter_config.json"), remove("copy/adapter_model.safetensors");
    ppo_tokens_free(&tokens);
    ppo_lm_free(merged), ppo_lm_free(adapted), ppo_lm_free(lm);
    ppo_tokenizer_free(tok), ppo_tokenizer_free(copy);
    return status;
}

static void folders_without_memory_say_so(void **state) {
    (void)state;
    static const char *const families[] = {"gpt2", "gpt_neox", "qwen3"};
    assert_ok(ppo_text_save("folder/tokenizer.json", folder_tokenizer, sizeof folder_tokenizer - 1));
    static const char config[] = "{\"eos_token\": \"<|im_end|>\", \"chat_template\": \"<|im_start|>\"}";
    assert_ok(ppo_text_save("folder/tokenizer_config.json", config, sizeof config - 1));
    for (int i = 0; i < COUNT(families); i += job_step()) {
        ppo_lm_config c = lm_config(7, 24, 8, 1, 2);
        assert_ok(ppo_lm_config_family(&c, families[i]));
        ppo_lm *lm = random_lm(c, 0.1f);
        lm->score_bias->data[0] = 0;
        remove("folder/config.json"), remove("folder/model.safetensors"),
            remove("copy/tokenizer_config.json");
        assert_ok(ppo_lm_save(lm, "folder", PPO_F32));
        ppo_lm_free(lm);
        assert_true(fail_each_allocation(use_folder, NULL) > 20);
    }
    remove("folder/tokenizer_config.json"); /* the one that is written says what the tokenizer knows */
    assert_true(fail_each_allocation(use_folder, NULL) > 20);
}

typedef struct judge_job {
    ppo_lm *lm, *reference;
    ppo_tokens prompts;
} judge_job;

static ppo_status judge_all(void *user) {
    judge_job *job = (judge_job *)user;
    ppo_generator *generator = NULL;
    ppo_sampling how = ppo_sampling_default();
    ppo_tokens chosen = {0}, rejected = {0}, best = {0};
    ppo_lm_evaluation figures;
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_rng rng = test_rng(2);
    float score[8];
    how.max_new_tokens = 3, how.tool = say_four, how.tool_token = 2;
    fit.held_out = &job->prompts, fit.evaluate_every = 1, fit.patience = 2;
    ppo_status status = ppo_generator_create(job->lm, 2, &generator);
    if (!status) status = ppo_best_of_n(generator, &job->prompts, 2, &how, count_token_3, NULL, &best, score);
    if (!status)
        status = ppo_compare(generator, &job->prompts, &how, count_token_3, NULL, &rng, &chosen, &rejected);
    if (!status)
        status = ppo_lm_evaluate(job->lm, job->reference, &job->prompts, &how, count_token_3, NULL, &figures);
    if (!status) status = ppo_fit_sft(job->lm, &chosen, &fit);
    fit.held_out = &chosen, fit.held_out_rejected = &rejected;
    if (!status) status = ppo_fit_dpo(job->lm, job->reference, &chosen, &rejected, &fit);
    ppo_generator_free(generator);
    ppo_tokens_free(&best), ppo_tokens_free(&chosen), ppo_tokens_free(&rejected);
    return status;
}

/* Two iterations with all that a run may have, a checkpoint between them. */
static ppo_status train_tokens(void *user) {
    judge_job *job = (judge_job *)user;
    ppo_rlhf_config c = ppo_rlhf_config_default();
    ppo_rlhf *rlhf = NULL;
    c.prompts = 2, c.samples = 2, c.slots = 2, c.minibatch_size = 4, c.epochs = 1, c.micro_batch = 2;
    c.sampling.max_new_tokens = 3, c.sampling.eos = 0, c.sampling.tool = say_four, c.sampling.tool_token = 2;
    c.kl_place = PPO_KL_IN_LOSS, c.kl_estimator = PPO_KL_EXACT, c.reference_every = 1,
    c.bootstrap_truncated = 1;
    ppo_status status = ppo_rlhf_create(job->lm, NULL, NULL, &job->prompts, count_token_3, NULL, &c, &rlhf);
    if (!status) status = ppo_rlhf_iterate(rlhf, NULL);
    if (!status) status = ppo_rlhf_save(rlhf, "run.safetensors");
    ppo_rlhf_free(rlhf), rlhf = NULL;
    if (!status)
        status = ppo_rlhf_resume("run.safetensors", job->lm, NULL, NULL, &job->prompts, count_token_3, NULL,
                                 &c, &rlhf);
    if (!status) status = ppo_rlhf_iterate(rlhf, NULL);
    ppo_rlhf_free(rlhf);
    return status;
}

static void language_models_without_memory_say_so(void **state) {
    (void)state;
    judge_job job;
    ppo_rng rng = test_rng(3);
    memset(&job, 0, sizeof job);
    job.lm = random_lm(lm_config(9, 8, 8, 1, 2), 0.3f),
    job.reference = random_lm(lm_config(9, 8, 8, 1, 2), 0.3f);
    for (int i = 0; i < 4; i++) add_random(&job.prompts, &rng, 9, 3, 2);
    assert_true(fail_each_allocation(judge_all, &job) > 20);
    assert_true(fail_each_allocation(train_tokens, &job) > 20);
    assert_true(fail_each_allocation(check_squares, NULL) > 0);
    ppo_lm_free(job.lm), ppo_lm_free(job.reference);
    ppo_tokens_free(&job.prompts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(policies_without_memory_say_so, restore_allocator),
        cmocka_unit_test_teardown(trainings_without_memory_say_so, restore_allocator),
        cmocka_unit_test_teardown(folders_without_memory_say_so, restore_allocator),
        cmocka_unit_test_teardown(language_models_without_memory_say_so, restore_allocator),
    };
    return cmocka_run_group_tests(tests, enter_memory_home, leave_memory_home);
}
