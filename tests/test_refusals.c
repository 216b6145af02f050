/* What cannot work is refused with a sentence that says why: pointers that are NULL, both ends of limits, and parts that do
   not fit, of every section and companion. Other programs test what one function refuses beside what it does. */
#define _XOPEN_SOURCE 700
#include <unistd.h>

#include "../ppo.h"
#include "../examples/companions/ppo_conv.h"
#include "../examples/companions/ppo_explain.h"
#include "../examples/companions/ppo_export.h"
#include "../examples/companions/ppo_chat.h"
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
    ppo_lm *lm = a_model(), *none = NULL;
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
    REFUSED(ppo_tokenizer_add(NULL, NULL, 0), "ppo_tokenizer_add: tokenizer");
    REFUSED(ppo_tokenizer_add(tok, NULL, 0), "ppo_tokenizer_add: specials");
    REFUSED(ppo_lm_resize(NULL, 8, &none), "ppo_lm_resize: lm");
    REFUSED(ppo_lm_resize(lm, 8, NULL), "ppo_lm_resize: resized");
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
    REFUSED(ppo_lm_adapt(lm, NULL, 0, &none), "ppo_lm_adapt: lora");
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
    "env.actor_obs is -1, outside 0 to obs_size, 2",
    "env.actor_obs is 3, outside 0 to obs_size, 2",
    "env.byte_scale is -1",
    "env.byte_scale is nan",
    "env.state_size is|too large",
    "env.copies is -1",
    "env.name is not UTF-8",
    "env.metrics[1] is \"\", not 1-40",
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
    "without reset and step has no agents, copies, open, max_steps (set outcome.truncated)",
    "without reset and step has no agents, copies, open",
    "or action_mask (ppo_trainer_observe() takes the mask)"};

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
    ppo_env alone = sound;
    ppo_config cfg = tiny_config();
    ppo_trainer *trainer = NULL;
    alone.agents = alone.teams = 1; /* is what it was */
    assert_ok(ppo_trainer_create(&alone, &cfg, agent, &trainer));
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

/* -- settings -- */

/* A choice may be an enum of a byte, and a preset may be of a struct of the user's own. */
typedef struct own_settings {
    float speed;
    unsigned char kind;
    int rank;
} own_settings;

static void settings_of_ones_own_are_refused_by_name(void **state) {
    (void)state;
    static const ppo_field fields[] = {
        {"top_speed", PPO_FIELD_FLOAT, offsetof(own_settings, speed), "2", 0, 9, NULL, "", 0, 0},
        {"kind", PPO_FIELD_CHOICE, offsetof(own_settings, kind), "fast", 0, 1, "slow|fast", "", 0, 1},
        {"rank", PPO_FIELD_INT, offsetof(own_settings, rank), NULL, 0, 3, NULL, "", 0, 0}};
    static const ppo_preset presets[] = {
        {"calm", "top_speed kind", "kind=slow"}, {"broken", "speeds", ""}, {NULL, NULL, NULL}};
    const ppo_settings all = {fields, 3, NULL, presets, "calm|broken"}, bare = {fields, 3, NULL, NULL, NULL};
    own_settings own = {5, 0, 3};
    char text[64], name[80], value[2000], both[2100];
    assert_ok(ppo_settings_set_all(&all, &own, "  top-speed=1.5 kind=fast "));
    assert_true(own.speed == 1.5f && own.kind == 1);
    assert_ok(ppo_settings_get(&all, &own, "kind", text, sizeof text));
    assert_string_equal(text, "fast");
    assert_ok(ppo_settings_set(&all, &own, "kind", "0"));
    assert_int_equal(own.kind, 0);
    own.kind = 1;
    assert_ok(ppo_settings_preset(&all, &own, "calm"));
    assert_true(own.speed == 2 && own.kind == 0 && own.rank == 3);
    assert_fails(ppo_settings_preset(&all, &own, "wild"), PPO_ERROR_ARGUMENT,
                 "there is no preset \"wild\", only calm|broken");
    assert_fails(ppo_settings_preset(&bare, &own, "wild"), PPO_ERROR_ARGUMENT,
                 "there is no preset \"wild\", only none");
    assert_fails(ppo_settings_preset(&all, &own, "broken"), PPO_ERROR_ARGUMENT,
                 "there is no setting \"speeds\"");
    memset(name, 'n', sizeof name - 1), name[sizeof name - 1] = 0;
    memset(value, '1', sizeof value - 1), value[sizeof value - 1] = 0;
    static const char *const bad[][2] = {{"top_speed", "\"top_speed\" is not name=value"},
                                         {"top_speed =3", "\"top_speed =3\" is not name=value"},
                                         {"top_spee=3", "no setting \"top_spee\""},
                                         {"top_speeds=3", "no setting \"top_speeds\""},
                                         {"top+speed=3", "no setting \"top+speed\""},
                                         {"kind=2", "kind: \"2\" is none of slow|fast"},
                                         {"kind=", "kind: \"\" is none of slow|fast"},
                                         {"rank=4", "rank is 4"},
                                         {"rank=1.5", "rank: \"1.5\""},
                                         {"top_speed=nan", "top_speed"},
                                         {"top_speed=-1", "top_speed is -1"}};
    for (int i = 0; i < COUNT(bad); i++)
        assert_fails(ppo_settings_set_all(&all, &own, bad[i][0]), PPO_ERROR_ARGUMENT, bad[i][1]);
    snprintf(both, sizeof both, "%s=1", name);
    assert_fails(ppo_settings_set_all(&all, &own, both), PPO_ERROR_ARGUMENT, "nnn\" is not name=value");
    snprintf(both, sizeof both, "rank=%s", value);
    assert_fails(ppo_settings_set_all(&all, &own, both), PPO_ERROR_ARGUMENT, "111\" is not name=value");
    assert_fails(ppo_settings_get(&all, &own, "speed", text, sizeof text), PPO_ERROR_ARGUMENT,
                 "no setting \"speed\"");
    assert_fails(ppo_settings_get(&all, &own, "kind", text, 2), PPO_ERROR_ARGUMENT, "kind");
    assert_fails(ppo_settings_load(&all, "missing.safetensors", &own), PPO_ERROR_FILE, "missing.safetensors");
    assert_true(own.speed == 2 && own.rank == 3);
}

/* -- the tape -- */

static ppo_status do_nothing(ppo_node *node) { return (void)node, PPO_OK; }

static void operands_that_do_not_fit_are_refused(void **state) {
    (void)state;
    static const ppo_op op = {"own", 1, do_nothing, NULL}, none = {"none", 0, do_nothing, NULL},
                        three = {"three", 3, do_nothing, NULL};
    static float numbers[64];
    static const int start[] = {0, 2, 4}, late[] = {1, 2, 4}, twice[] = {0, 0, 4}, beyond[] = {0, 2, 5};
    const ppo_attention how = {2, 0, 0, 0}, no_heads = {0, 0, 0, 0}, odd = {3, 2, 0, 0},
                        negative = {2, -1, 0, 0}, window = {2, 0, -1, 0}, scale = {2, 0, 0, -1},
                        many = {9, 9, 0, 0};
    ppo_tensor x = {4, 6, numbers, NULL}, column = {4, 1, numbers, NULL}, row = {1, 6, numbers, NULL},
               rows = {2, 6, numbers, NULL}, wide = {4, INT_MAX, numbers, NULL}, w = {6, 5, numbers, NULL},
               bias = {1, 5, numbers, NULL}, biases = {2, 5, numbers, NULL},
               short_bias = {1, 4, numbers, NULL}, angle = {4, 2, numbers, NULL},
               odd_angle = {4, 3, numbers, NULL}, few_angles = {3, 2, numbers, NULL},
               wide_angle = {4, 4, numbers, NULL}, pictures = {2, 16, numbers, NULL},
               kernel = {4, 1, numbers, NULL}, one = {1, 1, numbers, NULL}, ones = {2, 1, numbers, NULL};
    ppo_tensor *in[9] = {&x, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};
    int token[] = {1, 2, 3, 4}, bounds[] = {0, 2, 4}, shape[3] = {1, 4, 4}, huge[3] = {1, 4, 4},
        no_shape[3] = {0, 4, 4};
    ppo_tokens tokens = {2, bounds, NULL, token, NULL, NULL};
    ppo_tape *tape = NULL;
    assert_ok(ppo_tape_create(&tape));
#define TAPE_REFUSES(call, words)                                       \
    do {                                                                \
        assert_null(call);                                              \
        assert_fails(ppo_tape_status(tape), PPO_ERROR_ARGUMENT, words); \
        ppo_tape_reset(tape);                                           \
    } while (0)
    TAPE_REFUSES(ppo_tape_apply(tape, NULL, in, 1, 1, 1, NULL, 0),
                 "1 inputs, 0 outputs of (1, 1) are impossible");
    TAPE_REFUSES(ppo_tape_apply(tape, &op, NULL, 1, 1, 1, NULL, 0), "1 inputs, 1 outputs");
    TAPE_REFUSES(ppo_tape_apply(tape, &op, in, -1, 1, 1, NULL, 0), "-1 inputs");
    TAPE_REFUSES(ppo_tape_apply(tape, &op, in, 9, 1, 1, NULL, 0), "9 inputs");
    TAPE_REFUSES(ppo_tape_apply(tape, &none, in, 1, 1, 1, NULL, 0), "0 outputs");
    TAPE_REFUSES(ppo_tape_apply(tape, &three, in, 1, 1, 1, NULL, 0), "3 outputs");
    TAPE_REFUSES(ppo_tape_apply(tape, &op, in, 1, 0, 1, NULL, 0), "(0, 1) are impossible");
    TAPE_REFUSES(ppo_tape_apply(tape, &op, in, 1, 1, -1, NULL, 0), "(1, -1) are impossible");
    TAPE_REFUSES(ppo_tape_constant(tape, NULL, 1, 1), "constant: data is NULL");
    TAPE_REFUSES(ppo_tape_constant(tape, numbers, 0, 1), "constant: 0 x 1 floats");
    TAPE_REFUSES(ppo_tape_constant(tape, numbers, 1, 0), "constant: 1 x 0 floats");
    TAPE_REFUSES(ppo_tape_linear(tape, &x, &w, &biases, PPO_TANH), "(2, 5)");
    TAPE_REFUSES(ppo_tape_linear(tape, &x, &w, &short_bias, PPO_TANH), "(1, 4)");
    TAPE_REFUSES(ppo_tape_linear(tape, &x, &w, &bias, (ppo_activation)99), "99");
    TAPE_REFUSES(ppo_tape_layer_norm(tape, &x, &row, &rows, 1e-5f), "(2, 6)");
    TAPE_REFUSES(ppo_tape_layer_norm(tape, &x, &row, &bias, 1e-5f), "(1, 5)");
    TAPE_REFUSES(ppo_tape_layer_norm(tape, &x, &row, &row, 0), "layer_norm: eps is 0, must be above 0");
    TAPE_REFUSES(ppo_tape_layer_norm(tape, &x, &row, &row, INFINITY), "layer_norm: eps is inf");
    TAPE_REFUSES(ppo_tape_layer_norm(tape, &x, &row, &row, NAN), "layer_norm: eps is nan");
    TAPE_REFUSES(ppo_tape_concat(tape, &x, &row), "(1, 6)");
    TAPE_REFUSES(ppo_tape_concat(tape, &x, &wide), "(4, 2147483647)");
    TAPE_REFUSES(ppo_tape_attention(tape, &x, &how, NULL, 2), "NULL");
    TAPE_REFUSES(ppo_tape_attention(tape, &x, NULL, start, 2), "NULL");
    TAPE_REFUSES(ppo_tape_attention(tape, &x, &no_heads, start, 2), "is not 0 heads");
    TAPE_REFUSES(ppo_tape_attention(tape, &x, &odd, start, 2), "is not 3 heads of queries, 2 of keys");
    TAPE_REFUSES(ppo_tape_attention(tape, &x, &negative, start, 2), "-1 of keys");
    TAPE_REFUSES(ppo_tape_attention(tape, &x, &many, start, 2), "is not 9 heads");
    TAPE_REFUSES(ppo_tape_attention(tape, &x, &window, start, 2), "is not 2 heads");
    TAPE_REFUSES(ppo_tape_attention(tape, &x, &scale, start, 2), "is not 2 heads");
    TAPE_REFUSES(ppo_tape_attention(tape, &x, &how, start, 0), "in 0 sequences");
    TAPE_REFUSES(ppo_tape_attention(tape, &x, &how, late, 2), "in 2 sequences");
    TAPE_REFUSES(ppo_tape_attention(tape, &x, &how, twice, 2), "in 2 sequences");
    TAPE_REFUSES(ppo_tape_attention(tape, &x, &how, beyond, 2), "in 2 sequences");
    TAPE_REFUSES(ppo_tape_attention(tape, &w, &how, start, 2), "(6, 5) is not");
    TAPE_REFUSES(ppo_tape_rotary(tape, &x, &few_angles, 2, 3), "(3, 2)");
    TAPE_REFUSES(ppo_tape_rotary(tape, &x, &odd_angle, 2, 3), "(4, 3)");
    TAPE_REFUSES(ppo_tape_rotary(tape, &x, &wide_angle, 2, 3), "(4, 4)");
    TAPE_REFUSES(ppo_tape_rotary(tape, &x, &angle, 0, 3), "rotary: 0 heads of 3 columns in 6");
    TAPE_REFUSES(ppo_tape_rotary(tape, &x, &angle, 3, 3), "rotary: 3 heads of 3 columns in 6");
    TAPE_REFUSES(ppo_tape_sequence_sum(tape, &column, NULL), "NULL");
    TAPE_REFUSES(ppo_tape_sequence_sum(tape, &x, &tokens), "sequence_sum: (4, 6) is not (2, 1)");
    TAPE_REFUSES(ppo_tape_sequence_sum(tape, &rows, &tokens), "sequence_sum: (2, 6) is not (2, 1)");
    TAPE_REFUSES(ppo_tape_pairwise_loss(tape, &x, &column), "(4, 6)");
    TAPE_REFUSES(ppo_tape_pairwise_loss(tape, &column, &x), "(4, 6)");
    TAPE_REFUSES(ppo_tape_pairwise_loss(tape, &column, &ones), "(2, 1)");
    TAPE_REFUSES(ppo_tape_policy_loss(tape, &column, numbers, numbers, NULL, NULL, NULL), "NULL");
    TAPE_REFUSES(ppo_tape_conv(tape, &pictures, NULL, &kernel, NULL, 2, 1, PPO_RELU), "NULL");
    TAPE_REFUSES(ppo_tape_conv(tape, &pictures, no_shape, &kernel, NULL, 2, 1, PPO_RELU),
                 "conv: there are no pictures of 0 channels, 4 x 4 pixels");
    TAPE_REFUSES(ppo_tape_conv(tape, &pictures, shape, &kernel, NULL, 0, 1, PPO_RELU), "conv");
    TAPE_REFUSES(ppo_tape_conv(tape, &pictures, shape, &kernel, NULL, 5, 1, PPO_RELU), "conv");
    TAPE_REFUSES(ppo_tape_conv(tape, &pictures, shape, &kernel, NULL, 2, 0, PPO_RELU), "conv");
    TAPE_REFUSES(ppo_tape_conv(tape, &pictures, shape, &kernel, NULL, 2, 5, PPO_RELU), "conv");
    TAPE_REFUSES(ppo_tape_conv(tape, &pictures, shape, &kernel, &ones, 2, 1, PPO_RELU), "a bias (2, 1)");
    TAPE_REFUSES(ppo_tape_conv(tape, &pictures, shape, &kernel, &bias, 2, 1, PPO_RELU), "a bias (1, 5)");
    TAPE_REFUSES(ppo_tape_conv(tape, &pictures, shape, &ones, &one, 2, 1, PPO_RELU), "a weight (2, 1)");
    TAPE_REFUSES(ppo_tape_conv(tape, &x, shape, &kernel, NULL, 2, 1, PPO_RELU),
                 "conv: rows of 6 numbers are no pictures");
    TAPE_REFUSES(ppo_tape_max_pool(tape, &pictures, NULL, 2, 1), "NULL");
    TAPE_REFUSES(ppo_tape_max_pool(tape, &pictures, shape, 5, 1), "max_pool");
    TAPE_REFUSES(ppo_tape_max_pool(tape, &pictures, no_shape, 2, 1),
                 "max_pool: there are no pictures of 0 channels, 4 x 4 pixels");
    TAPE_REFUSES(ppo_tape_channels_last(tape, &pictures, NULL), "NULL");
    TAPE_REFUSES(ppo_tape_channels_last(tape, &x, shape), "rows of 6 numbers are no pictures");
    TAPE_REFUSES(ppo_tape_channels_last(tape, &x, no_shape),
                 "channels_last: there are no pictures of 0 channels, 4 x 4 pixels");
    assert_memory_equal(shape, huge, sizeof shape); /* no refusal changes it */
    assert_null(ppo_tape_alloc(NULL, 1));
    assert_fails(ppo_tape_backward(NULL, &one), PPO_ERROR_ARGUMENT, "the tape is NULL");
    ppo_tape_free(tape);
}

/* -- functions of arrays, and sizes of networks -- */

static void numbers_outside_of_their_range_are_refused(void **state) {
    (void)state;
    static float x[4] = {0.1f, 0.2f, 0.3f, 0.4f}, out[4];
    ppo_policy_stats stats;
    static const float range[][2] = {{-0.1f, 1}, {1.1f, 1}, {1, -0.1f}, {1, 1.1f}, {NAN, 1}, {1, NAN}};
    ppo_policy_objective o = ppo_policy_objective_default();
    ppo_mlp mlp;
    ppo_params *params = NULL;
    const int sizes[] = {2, 3};
    char name[120];
    for (int i = 0; i < COUNT(range); i++)
        assert_fails(ppo_gae(x, x, x, NULL, NULL, 2, 2, range[i][0], range[i][1], out, NULL),
                     PPO_ERROR_ARGUMENT, "gamma is|lambda is|0 to 1");
    assert_fails(ppo_gae(x, x, x, NULL, NULL, 0, 2, 1, 1, out, NULL), PPO_ERROR_ARGUMENT, "0 steps of 2");
    assert_fails(ppo_gae(x, x, x, NULL, NULL, 2, 0, 1, 1, out, NULL), PPO_ERROR_ARGUMENT, "2 steps of 0");
    for (int i = 0; i < 4; i++) {
        o = ppo_policy_objective_default();
        if (i == 0) o.clip_low = -1;
        if (i == 1) o.clip_high = -1;
        if (i == 2) o.kl_coef = -1;
        if (i == 3) o.objective = (ppo_objective)99;
        assert_fails(ppo_policy_loss(x, x, x, NULL, 4, &o, &stats, NULL), PPO_ERROR_ARGUMENT,
                     i == 3 ? "no objective 99" : "must be 0 or more");
    }
    assert_ok(ppo_params_create(&params));
    memset(name, 'n', sizeof name), name[100] = 0;
    assert_ok(ppo_mlp_init(&mlp, params, name, sizes, 1, PPO_TANH, PPO_IDENTITY, 1, NULL));
    name[100] = 'n', name[101] = 0;
    assert_fails(ppo_mlp_init(&mlp, params, name, sizes, 1, PPO_TANH, PPO_IDENTITY, 1, NULL),
                 PPO_ERROR_ARGUMENT, "the name is longer than 100");
    assert_fails(ppo_mlp_init(&mlp, params, "m", sizes, -1, PPO_TANH, PPO_IDENTITY, 1, NULL),
                 PPO_ERROR_ARGUMENT, "-1 layers, outside 0 to 64");
    assert_fails(ppo_mlp_init(&mlp, params, "m", sizes, 65, PPO_TANH, PPO_IDENTITY, 1, NULL),
                 PPO_ERROR_ARGUMENT, "65 layers, outside 0 to 64");
    ppo_params_free(params);
}

static void observations_that_are_too_large_for_a_network_are_refused(void **state) {
    (void)state;
    static const struct {
        int actor_obs;
        const char *settings;
    } cases[] = {{0, "conv=64x1x1"}, {16, "shared_trunk=yes"}, {16, "recurrent=32"}};
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_env env = walk_env();
        ppo_config cfg = tiny_config();
        ppo_agent *agent = NULL;
        env.obs_size = INT_MAX, env.actor_obs = cases[i].actor_obs;
        env.shape[0] = 1, env.shape[1] = env.shape[2] = 4;
        assert_ok(ppo_settings_set_all(ppo_config_settings(), &cfg, cases[i].settings));
        if (cases[i].actor_obs) cfg.hidden[0] = 64;
        assert_fails(ppo_agent_create(&env, &cfg, &agent), PPO_ERROR_ARGUMENT,
                     "obs_size is too large: 2147483647");
        assert_null(agent);
    }
}

/* -- tokens and language models -- */

static void tokens_that_are_not_the_librarys_are_refused(void **state) {
    (void)state;
    int token[] = {1, 2, 3}, start[] = {0, 3}, prompt[] = {1};
    ppo_tokens mine[] = {{1, start, prompt, token, NULL, NULL},
                         {0, start, NULL, NULL, NULL, NULL},
                         {0, NULL, prompt, NULL, NULL, NULL},
                         {0, NULL, NULL, token, NULL, NULL}};
    for (int i = 0; i < COUNT(mine); i++)
        assert_fails(ppo_tokens_add(&mine[i], token, 1, 0), PPO_ERROR_ARGUMENT,
                     "the arrays are not the library's");
    assert_fails(ppo_tokens_mark_given(&mine[0], 0, 1), PPO_ERROR_ARGUMENT,
                 "not the library's, or hold no sequence");
    ppo_tokens own = {0};
    assert_fails(ppo_tokens_mark_given(&own, 0, 1), PPO_ERROR_ARGUMENT, "hold no sequence");
    assert_ok(ppo_tokens_add(&own, token, 3, 1));
    static const int ranges[][2] = {{-1, 1}, {0, -1}, {4, 0}, {2, 2}, {0, 4}};
    for (int i = 0; i < COUNT(ranges); i++)
        assert_fails(ppo_tokens_mark_given(&own, ranges[i][0], ranges[i][1]), PPO_ERROR_ARGUMENT, "of 3");
    static const int counts[][2] = {{0, 0}, {-1, 0}, {1, -1}, {1, 2}};
    for (int i = 0; i < COUNT(counts); i++)
        assert_fails(ppo_tokens_add(&own, token, counts[i][0], counts[i][1]), PPO_ERROR_ARGUMENT,
                     "tokens,|of them given");
    assert_fails(ppo_tokens_add(&own, NULL, 1, 0), PPO_ERROR_ARGUMENT, "token is NULL");
    assert_fails(ppo_tokens_add_from(&own, &mine[0], 1), PPO_ERROR_ARGUMENT, "there is no sequence 1 in 1");
    assert_fails(ppo_tokens_add_from(&own, &mine[0], -1), PPO_ERROR_ARGUMENT, "there is no sequence -1 in 1");
    ppo_tokens_free(&own);
}

static void language_models_that_cannot_be_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *settings, *words;
    } cases[] = {{"eos=9", "eos is 9, outside 0 .. 8 (-1: none)"},
                 {"pre_norm=no", "pre_norm and post_norm are no"},
                 {"positions=rotary window_theta=100", "window_theta is 100, but has no effect: window is 0"},
                 {"heads=3", "width is 8, which 3 heads cannot share"},
                 {"heads=4 kv_heads=3", "heads is 4, which 3 kv_heads cannot share"},
                 {"positions=rotary rotary_size=3", "rotary_size is 3, must be even and at most 4"},
                 {"positions=rotary rotary_size=6", "rotary_size is 6, must be even and at most 4"},
                 {"positions=rotary heads=8", "rotary_size is 1, must be even"},
                 {"heads=65536 head_size=65536", "65536 heads of 65536 numbers are too many"},
                 {"positions=rotary rope_scaling=llama3 rope_low=4 rope_high=4",
                  "rope_low is 4, must be below rope_high, which is 4"},
                 {"vocab=0", "vocab is 0"}};
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_lm_config c = lm_config(9, 8, 8, 1, 2);
        ppo_lm *lm = NULL;
        for (const char *at = cases[i].settings; *at; at += strspn(at, " ")) {
            const char *value = strchr(at, '=') + 1;
            const int number = atoi(value);
            if (!strncmp(at, "eos=", 4)) c.eos = number;
            if (!strncmp(at, "heads=", 6)) c.heads = number;
            if (!strncmp(at, "kv_heads=", 9)) c.kv_heads = number;
            if (!strncmp(at, "head_size=", 10)) c.head_size = number;
            if (!strncmp(at, "positions=", 10)) c.positions = PPO_ROTARY;
            if (!strncmp(at, "rotary_size=", 12)) c.rotary_size = number;
            if (!strncmp(at, "rope_scaling=", 13))
                c.rope_scaling = PPO_ROPE_LLAMA3, c.rope_context = 8, c.rope_factor = 2;
            if (!strncmp(at, "rope_low=", 9)) c.rope_low = (float)number;
            if (!strncmp(at, "rope_high=", 10)) c.rope_high = (float)number;
            if (!strncmp(at, "vocab=", 6)) c.vocab = number;
            if (!strncmp(at, "pre_norm=", 9)) c.pre_norm = 0;
            if (!strncmp(at, "window_theta=", 13)) c.window_theta = (float)number;
            at += strcspn(at, " ");
        }
        assert_fails(ppo_lm_create(&c, &lm), PPO_ERROR_ARGUMENT, cases[i].words);
        assert_null(lm);
    }
}

static void sequences_that_a_model_cannot_read_are_refused(void **state) {
    (void)state;
    ppo_lm *lm = a_model();
    int token[] = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2}, start[] = {0, 2, 4}, late[] = {1, 2, 4}, none[] = {0, 2, 2},
        all[] = {0, 10}, prompt[] = {1, 1}, no_prompt[] = {0, 1}, long_prompt[] = {3, 1}, whole[] = {8},
        eight[] = {0, 8}, wrong[] = {1, 9, 3, 4}, low[] = {1, 2, 3, -1};
    const struct {
        ppo_tokens tokens;
        int prompts; /* what is asked: 0: scores; 1: samples */
        const char *words;
    } cases[] = {
        {{2, NULL, prompt, token, NULL, NULL}, 0, "start or token of 2 sequences is NULL"},
        {{2, start, prompt, NULL, NULL, NULL}, 0, "start or token of 2 sequences is NULL"},
        {{0, start, prompt, token, NULL, NULL}, 0, "there are 0 sequences"},
        {{2, late, prompt, token, NULL, NULL}, 0, "start[0] is 1, must be 0"},
        {{2, none, prompt, token, NULL, NULL}, 0, "sequence 1 has 0 tokens, must have 1 to 8"},
        {{1, all, NULL, token, NULL, NULL}, 0, "sequence 0 has 10 tokens, must have 1 to 8"},
        {{2, start, prompt, wrong, NULL, NULL}, 0, "9"},
        {{2, start, prompt, low, NULL, NULL}, 0, "-1"},
        {{2, start, no_prompt, token, NULL, NULL}, 1, "prompt 0 has 0 of 2 tokens"},
        {{2, start, long_prompt, token, NULL, NULL}, 1, "prompt 0 has 3 of 2 tokens"},
        {{1, eight, whole, token, NULL, NULL}, 1, "prompt 0 has 8 tokens: no room is left in 8"}};
    ppo_generator *generator = NULL;
    assert_ok(ppo_generator_create(lm, 2, &generator));
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_sampling sampling = ppo_sampling_default();
        ppo_samples samples;
        float score[2];
        memset(&samples, 0, sizeof samples);
        if (cases[i].prompts)
            assert_fails(ppo_generate(generator, &cases[i].tokens, &sampling, &samples), PPO_ERROR_ARGUMENT,
                         cases[i].words);
        else assert_fails(ppo_lm_scores(lm, &cases[i].tokens, 2, score), PPO_ERROR_ARGUMENT, cases[i].words);
    }
    ppo_generator_free(generator);
    ppo_lm_free(lm);
}

/* -- policies in files, and worlds -- */

static void what_a_policys_file_says_must_be_possible(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"actor_observation_size", "0", "invalid actor_observation_size \"0\""},
        {"actor_observation_size", "3", "invalid actor_observation_size \"3\""},
        {"actor_observation_size", "2x", "invalid actor_observation_size \"2x\""},
        {"observation_size", "0", "invalid observation_size \"0\""},
        {"observation_size", "2.5", "invalid observation_size \"2.5\""},
        {"observation_shape", "1x3x1", "invalid observation_shape \"1x3x1\""},
        {"observation_shape", "0x1x1", "invalid observation_shape \"0x1x1\""},
        {"observation_shape", "1x1x1x1", "invalid observation_shape"},
        {"action_space", "box 2 -1", "box"},
        {"action_space", "box 2 -1 1 1", "box"},
        {"action_space", "box 2 a 1", "box"},
        {"action_space", "box 2 -1 b", "box"},
        {"action_space", "box", "box"},
        {"action_space", "square 3", "square"},
        {"action_space", "discrete 0", "discrete"},
        {"gamma", "2", "gamma"},
    };
    ppo_env env = reach_env();
    ppo_config cfg = tiny_config(), kept;
    ppo_agent *agent = NULL;
    env.obs_size = 2, cfg.threads = 64;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_agent_save(agent, "policy.safetensors"));
    ppo_agent_free(agent), agent = NULL;
    assert_ok(ppo_config_load("policy.safetensors", &kept, NULL));
    assert_in_range(kept.threads, 1, 64); /* no more than there are processors here */
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_file *file = NULL;
        assert_ok(ppo_file_read("policy.safetensors", &file));
        assert_ok(ppo_file_set_text(file, cases[i][0], cases[i][1]));
        assert_ok(ppo_file_write(file, "changed.safetensors"));
        ppo_file_free(file);
        char words[100];
        snprintf(words, sizeof words, "changed.safetensors|%s", cases[i][2]);
        assert_fails(ppo_agent_load("changed.safetensors", NULL, &agent), PPO_ERROR_FILE, words);
        assert_null(agent);
    }
    assert_fails(ppo_config_load("nothing.safetensors", &kept, NULL), PPO_ERROR_FILE, "nothing.safetensors");
    remove("policy.safetensors"), remove("changed.safetensors");
}

/* Two agents, of which one may wait or be out, in a world that fails when it is told to. */
static int two_fault;

static void two_reset(void *state, ppo_rng *rng, float *obs, ppo_outcome *out) {
    (void)state, (void)rng;
    obs[0] = 0.5f, obs[1] = two_fault == 1 ? NAN : 0.5f;
    out[0].terminated = two_fault == 2, out[1].terminated = two_fault == 2 || two_fault == 3;
    out[1].truncated = two_fault == 4, out[1].waits = two_fault == 5;
    if (two_fault == 6) out[0].terminated = 0, out[0].waits = out[1].waits = 1;
}

static void two_step(void *state, ppo_rng *rng, const ppo_action *actions, float *obs, ppo_outcome *out) {
    (void)state, (void)rng, (void)actions;
    obs[0] = obs[1] = 0.25f;
    out[1].reward = two_fault == 7 ? NAN : two_fault == 8 ? 3e38f : 0;
    out[1].waits = two_fault == 5;
    if (two_fault == 6) out[0].waits = out[1].waits = 1;
}

static void the_agent_of_a_world_that_fails_is_named(void **state) {
    (void)state;
    static const struct {
        int fault;
        ppo_status status;
        const char *words;
    } cases[] = {
        {0, PPO_OK, ""},
        {1, PPO_ERROR_NUMERIC, "is NaN (environment 0, agent 1, step 0)"},
        {2, PPO_ERROR_ARGUMENT, "env.reset_all left every agent out (environment 0)"},
        {3, PPO_OK, ""},
        {4, PPO_OK, ""},
        {5, PPO_OK, ""},
        {6, PPO_ERROR_ARGUMENT, "no agent completed a step in a rollout of 8 steps"},
        {7, PPO_ERROR_NUMERIC, "reward is NaN (environment 0, agent 1, step 1)"},
        {8, PPO_ERROR_NUMERIC, "is too large: the episode's return is|(environment 0, agent 1, step 2)"}};
    for (int i = 0; i < 2 * COUNT(cases); i++) {
        const int k = i / 2;
        ppo_env env = reach_env();
        ppo_config cfg = tiny_config();
        ppo_agent *agent = NULL;
        env.reset = NULL, env.step = NULL, env.reset_all = two_reset, env.step_all = two_step, env.agents = 2;
        env.state_size = 0;
        if (i % 2) env.open = open_nothing; /* its episodes can be replayed */
        for (int m = 0; m < PPO_MAX_METRICS && i % 2; m++) env.metrics[m] = "goals";
        two_fault = cases[k].fault;
        ppo_status status = ppo_train(&env, &cfg, &agent);
        assert_int_equal(status, cases[k].status);
        for (const char *word = cases[k].words; status && *word; word += strspn(word, "|")) {
            char one[100];
            snprintf(one, sizeof one, "%.*s", (int)strcspn(word, "|"), word);
            if (!strstr(ppo_last_error(), one))
                fail_msg("\"%s\" does not name \"%s\"", ppo_last_error(), one);
            word += strcspn(word, "|");
        }
        if (!status) assert_ok(ppo_train(&env, &cfg, &agent)); /* goes on with the same agent */
        ppo_agent_free(agent);
    }
    two_fault = 0;
    ppo_env_set_user(&two_fault); /* no function runs that it could be of */
    assert_null(ppo_env_user());
    ppo_env_fail("nothing runs");
}

static void what_a_source_pushes_must_follow_its_turn(void **state) {
    (void)state;
    ppo_env env = walk_env(), box = reach_env(), own = walk_env();
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_action action;
    ppo_progress progress;
    float obs[2] = {0.1f, 0.2f}, wrong[2] = {0.1f, NAN};
    const unsigned char none[3] = {0, 0, 0}, one[3] = {0, 1, 0};
    ppo_outcome plain = {0.5f, 0, 0, 0, 0, {0}}, ended = plain, cut = plain, waits = plain, huge = plain,
                nan = plain;
    ended.terminated = 1, cut.truncated = 1, waits.waits = 1, huge.reward = 3e38f, nan.reward = NAN;
    env.reset = NULL, env.step = NULL, env.max_steps = 0;
    box.reset = NULL, box.step = NULL, box.max_steps = 0;
    agent = an_agent(&env);
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    REFUSED(ppo_trainer_act(trainer, 0, NULL), "ppo_trainer_act: action");
#define WRONG(call, words) assert_fails(call, PPO_ERROR_ARGUMENT, words)
    WRONG(ppo_trainer_observe(trainer, 2, obs, NULL, NULL), "source 2, outside 0 to 1, num_envs - 1");
    WRONG(ppo_trainer_observe(trainer, -1, obs, NULL, NULL), "source -1, outside 0");
    WRONG(ppo_trainer_observe(trainer, 0, obs, NULL, &plain),
          "source 0 is in no episode: to begin one, outcome must be NULL");
    WRONG(ppo_trainer_act(trainer, 0, &action), "source 0 has nothing to act on");
    WRONG(ppo_trainer_observe(trainer, 0, NULL, NULL, NULL), "obs is NULL, but source 0 acts next");
    WRONG(ppo_trainer_observe(trainer, 0, obs, none, NULL), "the mask leaves no action (choice 0, source 0)");
    assert_fails(ppo_trainer_observe(trainer, 0, wrong, NULL, NULL), PPO_ERROR_NUMERIC, "NaN|source 0");
    assert_ok(ppo_trainer_observe(trainer, 0, obs, one, NULL));
    WRONG(ppo_trainer_observe(trainer, 0, obs, NULL, &plain), "source 0 has not acted since");
    assert_ok(ppo_trainer_act(trainer, 0, &action));
    assert_int_equal(action.discrete, 1);
    WRONG(ppo_trainer_observe(trainer, 0, obs, NULL, NULL),
          "source 0 is in an episode: its outcome is needed");
    WRONG(ppo_trainer_observe(trainer, 0, NULL, NULL, &plain), "obs is NULL, but source 0 acts next");
    WRONG(ppo_trainer_observe(trainer, 0, NULL, NULL, &cut), "obs is NULL, but source 0 was truncated");
    assert_fails(ppo_trainer_observe(trainer, 0, obs, NULL, &nan), PPO_ERROR_NUMERIC, "reward|NaN|source 0");
    assert_ok(ppo_trainer_observe(trainer, 0, NULL, NULL, &waits)); /* no observation: it does not act */
    WRONG(ppo_trainer_act(trainer, 0, &action), "source 0 has nothing to act on");
    assert_ok(ppo_trainer_observe(trainer, 0, obs, NULL, &plain));
    assert_ok(ppo_trainer_act(trainer, 0, &action));
    assert_ok(ppo_trainer_observe(trainer, 0, NULL, NULL, &ended));
    assert_ok(ppo_trainer_observe(trainer, 0, obs, NULL, NULL)); /* a new episode, */
    assert_ok(ppo_trainer_act(trainer, 0, &action));
    assert_ok(ppo_trainer_observe(trainer, 0, obs, NULL, &huge));
    assert_ok(ppo_trainer_act(trainer, 0, &action));
    assert_fails(ppo_trainer_observe(trainer, 0, obs, NULL, &huge), PPO_ERROR_NUMERIC,
                 "reward 3e+38 is too large|source 0");
    WRONG(ppo_trainer_act(trainer, 0, &action), "source 0 has nothing to act on");
    assert_ok(ppo_trainer_observe(trainer, 0, obs, NULL, NULL)); /* which that ended */
    assert_false(ppo_trainer_ready(trainer));
    memset(&progress, 1, sizeof progress);
    assert_ok(ppo_trainer_learn(trainer, 0, &progress)); /* nothing is complete */
    WRONG(ppo_trainer_learn(trainer, NAN, &progress), "milliseconds is NaN");
    assert_true(progress.iteration == 0);
    ppo_trainer_free(trainer), ppo_agent_free(agent), trainer = NULL;
    /* a mask means nothing to a box; an environment with functions is not pushed */
    agent = an_agent(&box);
    assert_ok(ppo_trainer_create(&box, &cfg, agent, &trainer));
    assert_ok(ppo_trainer_observe(trainer, 0, obs, none, NULL));
    assert_ok(ppo_trainer_act(trainer, 0, &action));
    ppo_trainer_free(trainer), ppo_agent_free(agent), trainer = NULL;
    agent = an_agent(&own);
    assert_ok(ppo_trainer_create(&own, &cfg, agent, &trainer));
    WRONG(ppo_trainer_observe(trainer, 0, obs, NULL, NULL),
          "the environment has functions, use ppo_trainer_iterate()");
    WRONG(ppo_trainer_act(trainer, 0, &action), "the environment has functions");
    WRONG(ppo_trainer_learn(trainer, 0, NULL), "the environment has functions");
    assert_false(ppo_trainer_ready(trainer));
    ppo_actions actions = {NULL, NULL};
    int taken = 7;
    REFUSED(ppo_act_many(agent, obs, NULL, 1, NULL, NULL, &actions), "ppo_act_many");
    actions.discrete = &taken;
    WRONG(ppo_act_many(agent, obs, NULL, -1, NULL, NULL, &actions), "n is -1, must not be below 0");
    assert_ok(ppo_act_many(agent, obs, NULL, 0, NULL, NULL, &actions));
    assert_int_equal(taken, 7);
    ppo_trainer_free(trainer), ppo_agent_free(agent);
}

/* A run whose threads the system refuses does not begin: in a process of its own, with little memory left. */
static void threads_that_the_system_refuses_are_told(void **state) {
    (void)state;
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    int how;
    fflush(NULL);
    const int child = fork();
    if (!child) {
        long pages = 0;
        FILE *statm = fopen("/proc/self/statm", "r");
        if (!statm || fscanf(statm, "%ld", &pages) != 1) _exit(2);
        fclose(statm);
        struct rlimit limit;
        limit.rlim_cur = limit.rlim_max = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (64u << 20);
        if (setrlimit(RLIMIT_AS, &limit)) _exit(3);
        const ppo_status status = ppo_set_threads(64);
        _exit(status == PPO_ERROR_THREAD && strstr(ppo_last_error(), "the system refused thread") &&
                      !ppo_set_threads(1)
                  ? 0
                  : 1);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
#else
    skip();
#endif
}

/* Wherever settings are compared or checked by themselves, one that means nothing is told. */
static void settings_that_mean_nothing_are_refused_everywhere(void **state) {
    (void)state;
    ppo_env env = walk_env(), box = reach_env();
    ppo_agent *agent = an_agent(&env), *other = an_agent(&env);
    ppo_config cfg = tiny_config();
    int refused = 0;
    other->config.activation = (ppo_activation)99;
    WRONG(ppo_agent_assign(agent, other), "activation");
    other->config = agent->config;
    agent->config.activation = (ppo_activation)99;
    WRONG(ppo_agent_assign(agent, other), "activation");
    agent->config = other->config;
    cfg.dual_clip = 2, cfg.objective = (ppo_objective)99;
    WRONG(ppo_config_check_effect(&cfg, &env, "dual_clip"), "objective");
    cfg.objective = PPO_CLIP;
    assert_ok(ppo_config_check_effect(&cfg, &env, "dual_clip"));
    WRONG(ppo_config_check_effect(&cfg, &env, "dual"), "there is no setting \"dual\"");
    REFUSED(ppo_config_check_effect(NULL, &env, NULL), "config");
    for (int i = 0; i < ppo_config_settings()->count; i++) { /* lists and choices that are out of bounds */
        const ppo_field *f = &ppo_config_settings()->field[i];
        ppo_config bad = tiny_config();
        char text[1024];
        if (f->type == PPO_FIELD_CHOICE && f->size == 1) *((unsigned char *)&bad + f->offset) = 99;
        else if (f->type == PPO_FIELD_CHOICE) *(int *)(void *)((char *)&bad + f->offset) = 99;
        else continue;
        WRONG(ppo_config_get(&bad, f->name, text, sizeof text), f->name);
        WRONG(ppo_config_check(&bad), f->name);
        refused += ppo_config_check_effect(&bad, &box, NULL) == PPO_ERROR_ARGUMENT;
    }
    assert_true(refused > 1);
    ppo_agent_free(agent), ppo_agent_free(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_pointers_are_named),
        cmocka_unit_test(an_environment_that_cannot_be_is_refused),
        cmocka_unit_test(settings_of_ones_own_are_refused_by_name),
        cmocka_unit_test(operands_that_do_not_fit_are_refused),
        cmocka_unit_test(numbers_outside_of_their_range_are_refused),
        cmocka_unit_test(observations_that_are_too_large_for_a_network_are_refused),
        cmocka_unit_test(tokens_that_are_not_the_librarys_are_refused),
        cmocka_unit_test(language_models_that_cannot_be_are_refused),
        cmocka_unit_test(sequences_that_a_model_cannot_read_are_refused),
        cmocka_unit_test(what_a_policys_file_says_must_be_possible),
        cmocka_unit_test(the_agent_of_a_world_that_fails_is_named),
        cmocka_unit_test(what_a_source_pushes_must_follow_its_turn),
        cmocka_unit_test(threads_that_the_system_refuses_are_told),
        cmocka_unit_test(settings_that_mean_nothing_are_refused_everywhere),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
