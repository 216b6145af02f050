/* What cannot work is refused with a sentence that says why: pointers that are NULL, both ends of limits, and parts that do
   not fit, of every section and companion. Other programs test what one function refuses beside what it does. */
#define _XOPEN_SOURCE 700
#include <unistd.h>

#include "../ppo.h"
#include "../examples/companions/ppo_conv.h"
#include "../examples/companions/ppo_explain.h"
#include "../examples/companions/ppo_export.h"
#include "../examples/companions/ppo_hub.h"
#include "../examples/companions/ppo_judge.h"
#include "../examples/companions/ppo_methods.h"
#include "../examples/companions/ppo_player.h"
#include "../examples/companions/ppo_report.h"

#include "test.h"
#include "system.h"

static char home[] = "/tmp/test_refusals.XXXXXX";

static int begin(void **state) {
    (void)state;
    return !mkdtemp(home) || chdir(home);
}

static int end(void **state) {
    (void)state;
    return chdir("/") || rmdir(home);
}

/* What the tests below ask, and are refused. */
static ppo_agent *an_agent(const ppo_env *env) {
    ppo_agent *agent = NULL;
    ppo_config cfg = tiny_config();
    assert_ok(ppo_agent_create(env, &cfg, &agent));
    return agent;
}

static ppo_lm *a_model(void) { return random_lm(lm_config(9, 8, 8, 1, 2), 0.3f); }

static void null_pointers_are_named(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_config cfg = tiny_config();
    ppo_agent *agent = an_agent(&env);
    ppo_lm *lm = a_model();
    ppo_lm_config shape;
    ppo_lora lora = ppo_lora_default();
    ppo_sampling sampling = ppo_sampling_default();
    ppo_tokens tokens = {0};
    ppo_tokenizer *tok = NULL;
    ppo_trainer *trainer = NULL;
    ppo_generator *generator = NULL;
    ppo_message message = {"user", NULL}, nobody = {NULL, "text"};
    ppo_action action;
    float obs[2] = {0, 0};
    char *text = NULL;
    assert_ok(ppo_tokenizer_bytes(NULL, 0, &tok));
    assert_ok(ppo_generator_create(lm, 1, &generator));
#define REFUSED(call, words) assert_fails(call, PPO_ERROR_ARGUMENT, words "|NULL")
    REFUSED(ppo_params_sync(NULL), "ppo_params_sync: params");
    REFUSED(ppo_params_to_bf16(NULL), "ppo_params_to_bf16: params");
    REFUSED(ppo_settings_load(NULL, "file", &cfg), "ppo_settings_load: settings");
    REFUSED(ppo_settings_load(ppo_config_settings(), NULL, &cfg), "ppo_settings_load: path");
    REFUSED(ppo_settings_load(ppo_config_settings(), "file", NULL), "ppo_settings_load: config");
    REFUSED(ppo_agent_copy(agent, NULL), "ppo_agent_copy: to");
    REFUSED(ppo_act_many(NULL, obs, NULL, 1, NULL, NULL, NULL), "ppo_act_many: agent");
    REFUSED(ppo_act_many(agent, NULL, NULL, 1, NULL, NULL, NULL), "ppo_act_many: obs");
    REFUSED(ppo_act_many(agent, obs, NULL, 1, NULL, NULL, NULL), "ppo_act_many: actions");
    REFUSED(ppo_trainer_observe(NULL, 0, obs, NULL, NULL), "ppo_trainer_observe: trainer");
    REFUSED(ppo_trainer_act(NULL, 0, &action), "ppo_trainer_act: trainer");
    REFUSED(ppo_trainer_learn(NULL, 0, NULL), "ppo_trainer_learn: trainer");
    REFUSED(ppo_player_create(&env, agent, 1, 0, 1, NULL), "ppo_player_create: out");
    REFUSED(ppo_trainer_resume("file", &env, NULL, NULL, &trainer), "ppo_trainer_resume");
    REFUSED(ppo_tokenizer_bytes(NULL, 0, NULL), "ppo_tokenizer_bytes: tokenizer");
    REFUSED(ppo_tokenizer_fits(NULL, "qwen2"), "ppo_tokenizer_fits: tokenizer");
    REFUSED(ppo_tokenizer_fits(tok, NULL), "ppo_tokenizer_fits: family");
    REFUSED(ppo_text_load(NULL, &text, NULL), "ppo_text_load: path");
    REFUSED(ppo_text_load("file", NULL, NULL), "ppo_text_load: text");
    REFUSED(ppo_text_save(NULL, "text", 4), "ppo_text_save: path");
    REFUSED(ppo_text_save("file", NULL, 4), "ppo_text_save: text");
    REFUSED(ppo_tokens_add_chat(&tokens, tok, PPO_CHATML, &message, 1, 0), "ppo_tokens_add_chat");
    REFUSED(ppo_tokens_add_chat(&tokens, tok, PPO_CHATML, &nobody, 1, 0), "ppo_tokens_add_chat");
    REFUSED(ppo_tokens_add_written(NULL, tok, -1, "a", NULL, -1), "ppo_tokens_add_written: tokens");
    REFUSED(ppo_tokens_add_written(&tokens, NULL, -1, "a", NULL, -1), "ppo_tokens_add_written: tokenizer");
    REFUSED(ppo_tokens_add_written(&tokens, tok, -1, NULL, NULL, -1), "ppo_tokens_add_written: prompt");
    REFUSED(ppo_lm_config_family(NULL, "gpt2"), "ppo_lm_config_family: config");
    REFUSED(ppo_lm_config_family(&shape, NULL), "ppo_lm_config_family: family");
    REFUSED(ppo_lm_copy(lm, 0, NULL), "ppo_lm_copy: copy");
    REFUSED(ppo_lm_load("file", NULL), "ppo_lm_load: lm");
    REFUSED(ppo_lm_adapt(lm, &lora, 0, NULL), "ppo_lm_adapt: lm");
    REFUSED(ppo_lm_adapt(lm, NULL, 0, &lm), "ppo_lm_adapt: lora");
    lm = a_model(); /* which the failure above set to NULL */
    REFUSED(ppo_lm_merge(lm, NULL), "ppo_lm_merge: merged");
    REFUSED(ppo_lm_load_adapter("folder", lm, NULL), "ppo_lm_load_adapter: lm");
    REFUSED(ppo_rlhf_create(lm, NULL, NULL, &tokens, NULL, NULL, NULL, NULL), "ppo_rlhf_create: config");
    REFUSED(ppo_rlhf_resume("file", lm, NULL, NULL, &tokens, NULL, NULL, NULL, NULL), "ppo_rlhf_resume");
    REFUSED(ppo_best_of_n(NULL, &tokens, 2, &sampling, NULL, NULL, &tokens, NULL),
            "ppo_best_of_n: generator");
    REFUSED(ppo_best_of_n(generator, &tokens, 2, &sampling, NULL, NULL, NULL, NULL), "ppo_best_of_n: best");
    assert_true(ppo_rlhf_memory(NULL).weights == 0);
    assert_true(ppo_trainer_steps(NULL) == 0 && !ppo_trainer_rollout(NULL) && ppo_trainer_done(NULL) &&
                !ppo_trainer_ready(NULL));
    assert_string_equal(ppo_tokenizer_note(NULL), "");
    assert_int_equal(ppo_tokenizer_pad(NULL, 3), -1);
    assert_int_equal(ppo_tokenizer_find(NULL, "a"), -1);
    assert_int_equal(ppo_tokenizer_find(tok, NULL), -1);
    ppo_tape_checkpointing(NULL, 1);
    ppo_tape_record(NULL, 1);
    ppo_tape_reset(NULL), ppo_tape_free(NULL);
    ppo_generator_free(generator);
    ppo_tokenizer_free(tok);
    ppo_lm_free(lm);
    ppo_agent_free(agent);
}

/* A walk with one thing wrong, and the sentence. */
static void reset_all(void *state, ppo_rng *rng, float *obs, ppo_outcome *out) {
    walk_reset(state, rng, obs);
    (void)out;
}

static void step_all(void *state, ppo_rng *rng, const ppo_action *actions, float *obs, ppo_outcome *out) {
    walk_step(state, rng, actions, obs, out);
}

static void step_many(int n, void *state, ppo_rng *rng, const ppo_action *actions, float *obs,
                      ppo_outcome *out) {
    for (int i = 0; i < n; i++) walk_step((walk *)state + i, rng + i, actions + i, obs + 2 * i, out + i);
}

static int open_nothing(void *state, void *user, int copy) { return (void)state, (void)user, (void)copy, 0; }

#define PUSHED env->reset = NULL, env->step = NULL
static void spoil(ppo_env *env, int fault) {
    int k = 0;
    if (fault == k++) env->agents = -1;
    if (fault == k++) env->agents = 65537;
    if (fault == k++) env->teams = -1;
    if (fault == k++) env->agents = 2, env->teams = 3;
    if (fault == k++) env->actor_obs = -1;
    if (fault == k++) env->actor_obs = 3;
    if (fault == k++) env->byte_scale = -1;
    if (fault == k++) env->byte_scale = NAN;
    if (fault == k++) env->state_size = SIZE_MAX;
    if (fault == k++) env->copies = -1;
    if (fault == k++) env->name = "\377";
    if (fault == k++) env->metrics[0] = "goals", env->metrics[1] = "";
    if (fault == k++) env->metrics[0] = "a space";
    if (fault == k++) env->metrics[0] = "a name of forty-one letters, which is long";
    if (fault == k++) env->metrics[0] = "abcdefghijklmnopqrstuvwxyzabcdefghijklmno";
    if (fault == k++) env->shape[0] = 1;
    if (fault == k++) env->shape[1] = 1;
    if (fault == k++) env->shape[2] = 1;
    if (fault == k++) env->shape[0] = env->shape[2] = 1, env->shape[1] = 3;
    if (fault == k++) env->reset_all = reset_all;
    if (fault == k++) env->step_all = step_all;
    if (fault == k++) env->reset_all = reset_all, env->reset = NULL;
    if (fault == k++) env->agents = 2;
    if (fault == k++) PUSHED, env->step_all = step_all;
    if (fault == k++) PUSHED, env->reset_all = reset_all;
    if (fault == k++) env->step_many = step_many;
    if (fault == k++)
        PUSHED, env->reset_all = reset_all, env->step_all = step_all, env->step_many = step_many;
    if (fault == k++) PUSHED, env->step_many = step_many;
    if (fault == k++) PUSHED, env->agents = 2;
    if (fault == k++) PUSHED, env->copies = 2;
    if (fault == k++) PUSHED;
    if (fault == k++) PUSHED, env->max_steps = 0, env->open = open_nothing;
    if (fault == k++) PUSHED, env->max_steps = 0, env->action_mask = fenced_mask;
}

static const char *const words_of_faults[] = {
    "env.agents is -1, outside 0 to 65536",
    "env.agents is 65537, outside 0 to 65536",
    "env.teams is -1, outside 0 to env.agents, 0",
    "env.teams is 3, outside 0 to env.agents, 2",
    "env.actor_obs is -1, outside 0 to env.obs_size, 2",
    "env.actor_obs is 3, outside 0 to env.obs_size, 2",
    "env.byte_scale is -1",
    "env.byte_scale is nan",
    "env.state_size is|too large",
    "env.copies is -1",
    "env.name is not UTF-8",
    "env.metrics[1] is \"\", not 1 to 40",
    "env.metrics[0] is \"a space\"",
    "env.metrics[0] is \"a name of forty-one",
    "env.metrics[0] is \"abcdefghijklmnopqrstuvwxyzabcdefghijklmno\"",
    "picture's shape is 1 x 0 x 0, but the actor sees 2",
    "picture's shape is 0 x 1 x 0",
    "picture's shape is 0 x 0 x 1",
    "picture's shape is 1 x 3 x 1, but the actor sees 2 numbers",
    "env.reset_all is given|env.reset must be NULL",
    "env.reset_all is given|env.reset must be NULL",
    "env.step_all is given|env.step must be NULL",
    "several agents, so env.reset must be NULL",
    "env.reset_all is NULL",
    "env.step_all is NULL",
    "env.step_many is given, so env.step must be NULL",
    "env.step_many is given, so env.step_all must be NULL",
    "env.reset is NULL",
    "without reset and step has no agents",
    "without reset and step has no agents, copies",
    "without reset and step has no agents, copies, max_steps",
    "has no agents, copies, max_steps, open",
    "open or action_mask"};

static void an_environment_that_cannot_be_is_refused(void **state) {
    (void)state;
    ppo_env sound = walk_env();
    ppo_agent *agent = an_agent(&sound);
    for (int k = 0; k < COUNT(words_of_faults); k++) {
        ppo_env env = walk_env();
        ppo_config cfg = tiny_config();
        ppo_trainer *trainer = NULL;
        spoil(&env, k);
        assert_true(memcmp(&env, &sound, sizeof env) != 0);
        assert_fails(ppo_trainer_create(&env, &cfg, agent, &trainer), PPO_ERROR_ARGUMENT, words_of_faults[k]);
        assert_null(trainer);
    }
    ppo_agent_free(agent);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_pointers_are_named),
        cmocka_unit_test(an_environment_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
