/* Files that versions 0.2 and 0.1 wrote: policies, checkpoints, tokenizers and models are read, under the names that
   settings had then, and training continues to the figures of that version. */
#include "../ppo.h"
#include "../examples/companions/ppo_resume.h"
#include "golden/v0_1.h"
#include "golden/v0_2.h"

#include "test.h"
#include "system.h"
#include "golden/line_env.h"

static char home[] = "/tmp/test_v0_2.XXXXXX";

static int enter_folder(void **state) {
    (void)state;
    return !mkdtemp(home) || chdir(home) || ppo_use_kernels("plain") != PPO_OK;
}

static int leave_folder(void **state) {
    (void)state;
    return chdir("/") || remove(home);
}

/* Writes the file, which the test removes. */
static const char *file_of(const unsigned char *bytes, size_t n) {
    FILE *out = fopen("file", "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
    return "file";
}
#define FILE_OF(bytes) file_of(bytes, sizeof(bytes))

static ppo_agent *policy(const char *path, const ppo_env *env, float action) {
    const float obs[2] = {0.3f, 1};
    ppo_agent *agent = NULL;
    ppo_action chosen;
    assert_ok(ppo_agent_load(path, env, &agent));
    assert_ok(ppo_act(agent, obs, NULL, &chosen));
    assert_close(chosen.box ? chosen.box[0] : (float)chosen.discrete, action, 1e-5);
    remove(path);
    return agent;
}

static void policies_act_as_they_did(void **state) {
    (void)state;
    ppo_env two = line_env(ppo_discrete(2)), box = line_env(ppo_box(1, -1, 1));
    ppo_agent_free(policy(FILE_OF(g_discrete_policy), &two, g_discrete_action));
    ppo_agent_free(policy(FILE_OF(g_box_policy), &box, g_box_action));
    ppo_agent_free(policy(FILE_OF(g_reinforce_policy), &two, g_reinforce_action));
    ppo_agent_free(policy(FILE_OF(g_v0_1_discrete_policy), &two, g_v0_1_discrete_action));
    ppo_agent_free(policy(FILE_OF(g_v0_1_box_policy), &box, g_v0_1_box_action));
    ppo_agent_free(policy(FILE_OF(g_v0_1_reinforce_policy), &two, g_v0_1_reinforce_action));
}

static void settings_keep_their_values_under_new_names(void **state) {
    (void)state;
    ppo_env two = line_env(ppo_discrete(2)), box = line_env(ppo_box(1, -1, 1));
    ppo_agent *agent = policy(FILE_OF(g_discrete_policy), &two, g_discrete_action);
    assert_close(agent->config.penalty_target_kl, 0.01, 1e-6);
    assert_int_equal(agent->config.objective, PPO_KL_PENALTY);
    assert_int_equal(agent->config.use_critic, 1);
    ppo_agent_free(agent);
    agent = policy(FILE_OF(g_box_policy), &box, g_box_action);
    assert_close(agent->config.lr_target_kl, 0.01, 1e-6);
    assert_close(agent->config.huber_delta, 1, 1e-6);
    ppo_agent_free(agent);
    agent = policy(FILE_OF(g_reinforce_policy), &two, g_reinforce_action);
    assert_int_equal(agent->config.use_critic, 0);
    ppo_agent_free(agent);
}

static void continues(const char *path, const ppo_env *env, float loss, float value_loss,
                      double tolerance) {
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_progress progress;
    assert_ok(ppo_trainer_resume(path, env, NULL, &agent, &trainer));
    assert_int_equal(ppo_trainer_steps(trainer), 64);
    assert_ok(ppo_trainer_iterate(trainer, &progress));
    assert_close(progress.loss, loss, tolerance);
    assert_close(progress.value_loss, value_loss, tolerance);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    remove(path);
}

static void checkpoints_continue_to_the_same_figures(void **state) {
    (void)state;
    ppo_env two = line_env(ppo_discrete(2)), box = line_env(ppo_box(1, -1, 1));
    /* it normalizes rewards: their rollout is part of the statistics now, of which 64 steps are still few */
    continues(FILE_OF(g_discrete_checkpoint), &two, g_discrete_loss, g_discrete_value_loss, 0.5);
    continues(FILE_OF(g_v0_1_discrete_checkpoint), &two, g_v0_1_discrete_loss, g_v0_1_discrete_value_loss, 0.5);
    continues(FILE_OF(g_box_checkpoint), &box, g_box_loss, g_box_value_loss, 1e-5);
    continues(FILE_OF(g_v0_1_box_checkpoint), &box, g_v0_1_box_loss, g_v0_1_box_value_loss, 1e-5);
}

static void a_tokenizer_has_the_same_tokens(void **state) {
    (void)state;
    static const int want[] = {1, 2, 2, 1, 0, 3, 1, 2, 4};
    int tokens[COUNT(want)], n = 0;
    char text[16];
    ppo_tokenizer *tokenizer = NULL;
    assert_ok(ppo_tokenizer_load(FILE_OF(g_v0_1_tokenizer), &tokenizer));
    assert_int_equal(ppo_tokenizer_vocab(tokenizer), 5);
    assert_ok(ppo_encode(tokenizer, "abba cab", 8, tokens, COUNT(tokens) - 1, &n));
    assert_int_equal(n, COUNT(want) - 1);
    assert_memory_equal(tokens, want, sizeof(int) * (COUNT(want) - 1));
    assert_int_equal(ppo_tokenizer_special(tokenizer, "<eos>"), 4);
    assert_ok(ppo_decode(tokenizer, want, COUNT(want), text, sizeof text, NULL));
    assert_string_equal(text, "abba cab<eos>");
    ppo_tokenizer_free(tokenizer);
    remove("file");
}

static ppo_status many_ones(const ppo_samples *samples, float *reward, void *user) {
    const ppo_tokens *t = &samples->tokens;
    (void)user;
    for (int s = 0; s < t->count; ++s) {
        reward[s] = 0;
        for (int i = t->start[s] + t->prompt[s]; i < t->start[s + 1]; ++i) reward[s] += t->token[i] == 1;
    }
    return PPO_OK;
}

static void a_model_and_its_run_continue_to_the_same_figures(void **state) {
    (void)state;
    ppo_lm *lm = NULL;
    ppo_tokenizer *tokenizer = NULL;
    ppo_rlhf *rlhf = NULL;
    ppo_tokens prompts = {0};
    ppo_rlhf_progress progress;
    ppo_rlhf_config config = ppo_rlhf_config_default();
    assert_ok(ppo_lm_load(FILE_OF(g_lm_model), &lm));
    assert_ok(ppo_tokenizer_load("file", &tokenizer));
    assert_int_equal(lm->config.glu, 1);
    assert_int_equal(lm->config.qk_norm, 1);
    for (int s = 0; s < 4; ++s)
        assert_ok(ppo_tokens_add_text(&prompts, tokenizer, -1, s % 2 ? "a" : "b", NULL, -1));

    const char *path = FILE_OF(g_lm_checkpoint);
    assert_ok(ppo_settings_load(ppo_rlhf_settings(), path, &config));
    assert_close(config.penalty_target_kl, 2, 1e-6);
    assert_int_equal(config.sampling.max_new_tokens, 4);
    config.sampling.eos = lm->config.eos;
    assert_ok(ppo_rlhf_resume(path, lm, NULL, NULL, &prompts, many_ones, NULL, &config, &rlhf));
    assert_int_equal(ppo_rlhf_iterations(rlhf), 1);
    assert_ok(ppo_rlhf_iterate(rlhf, &progress));
    assert_close(progress.reward, g_lm_reward, 1e-5);
    assert_close(progress.kl, g_lm_kl, 1e-4);
    assert_close(progress.value_loss, g_lm_value_loss, 1e-5);
    ppo_rlhf_free(rlhf);
    ppo_tokens_free(&prompts);
    ppo_tokenizer_free(tokenizer);
    ppo_lm_free(lm);
    remove(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_act_as_they_did),
        cmocka_unit_test(settings_keep_their_values_under_new_names),
        cmocka_unit_test(checkpoints_continue_to_the_same_figures),
        cmocka_unit_test(a_tokenizer_has_the_same_tokens),
        cmocka_unit_test(a_model_and_its_run_continue_to_the_same_figures),
    };
    return cmocka_run_group_tests_name("v0_2", tests, enter_folder, leave_folder);
}
