/* What people ran into who wired a game to ppo.h: pictures with numbers beside them, worlds that exist once, programs
   with a loop of their own. */
#include "../ppo.h"
#include "../examples/companions/ppo_conv.h"
#include "../examples/companions/ppo_export.h"
#include "../examples/envs/cartpole.h"

#include "test.h"
#include "system.h"

static ppo_config settings(const char *text) {
    ppo_config cfg = ppo_config_default();
    assert_ok(ppo_config_set_all(&cfg, text));
    return cfg;
}

/* --------------------------------------------------------------------------------------------------------
   A picture and numbers
   -------------------------------------------------------------------------------------------------------- */

enum { SIDE = 6, PIXELS = SIDE * SIDE, NUMBERS = 3, SEEN = PIXELS + NUMBERS };

/* A step long: in which half of the picture is the light? A number says whether to point there or away. */
typedef struct lamp {
    int right, away;
} lamp;

static void lamp_reset(void *state, ppo_rng *rng, float *obs) {
    lamp *s = (lamp *)state;
    const int at = ppo_rng_below(rng, PIXELS);
    memset(obs, 0, SEEN * sizeof *obs);
    s->right = at % SIDE >= SIDE / 2;
    s->away = ppo_rng_below(rng, 2);
    obs[at] = 1;
    obs[PIXELS + 1] = s->away ? 1 : -1;
}

static void lamp_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    const lamp *s = (const lamp *)state;
    (void)rng, (void)obs;
    out->reward = action->discrete == (s->right ^ s->away) ? 1 : -1;
    out->terminated = 1;
}

static ppo_env lamp_env(void) {
    ppo_env env;
    memset(&env, 0, sizeof env);
    env.name = "lamp";
    env.obs_size = SEEN;
    env.shape[0] = 1, env.shape[1] = env.shape[2] = SIDE;
    env.action_space = ppo_discrete(2);
    env.state_size = sizeof(lamp);
    env.reset = lamp_reset;
    env.step = lamp_step;
    return env;
}

static const char lamp_settings[] = "conv=4x3x1,0x2x2 hidden=24 activation=relu num_envs=8 rollout_steps=64 "
                                    "total_steps=16384 learning_rate=4e-3";

static void a_task_that_needs_picture_and_numbers_is_learned(void **state) {
    (void)state;
    const ppo_env env = lamp_env();
    const ppo_config cfg = settings(lamp_settings);
    ppo_agent *agent = NULL;
    assert_ok(ppo_train(&env, &cfg, &agent));
    const float mean = ppo_evaluate(agent, &env, 200, 1).mean_return;
    if (mean < 0.9f) fail_msg("the mean return is %g", (double)mean);
    ppo_agent_free(agent);
}

/* Half a policy loss, half a value loss, through every part of the network. */
typedef struct whole_network {
    const ppo_actor_critic *model;
    const float *obs;
    int rows;
} whole_network;

static ppo_tensor *network_loss(ppo_tape *tape, ppo_tensor *const *inputs, void *user) {
    const whole_network *n = (const whole_network *)user;
    const ppo_outputs out = ask(tape, n->model, n->obs, n->rows);
    (void)inputs;
    return ppo_tape_add(tape, ppo_tape_mean(tape, ppo_tape_square(tape, out.policy)),
                        ppo_tape_mean(tape, ppo_tape_square(tape, ppo_tape_scale(tape, out.value, 1, 1))));
}

static void gradients_of_the_joined_network_are_central_differences(void **state) {
    (void)state;
    static const char *const networks[] = {"hidden=5", "hidden=5 shared_trunk=yes", "hidden=none",
                                           "hidden=4 recurrent=3", "hidden=4 recurrent=3 shared_trunk=yes"};
    for (int i = 0; i < 2 * COUNT(networks); i++) {
        ppo_env env = lamp_env();
        ppo_config cfg = settings("conv=2x3x1,3x2x2 activation=tanh");
        ppo_agent *agent = NULL;
        float obs[3 * SEEN];
        ppo_rng rng = test_rng(3);
        if (i % 2) env.actor_obs = SEEN - 1; /* the last number is the critic's */
        assert_ok(ppo_config_set_all(&cfg, networks[i / 2]));
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        ppo_params *params = agent->model.params;
        for (size_t k = 0; k < params->count; k++) params->data[k] += 0.3f * ppo_rng_normal(&rng);
        fill_normal(&rng, obs, COUNT(obs), 1);
        const whole_network network = {&agent->model, obs, 3};
        float worst;
        assert_ok(ppo_check_gradients(network_loss, params->tensors, params->tensor_count, (void *)&network,
                                      1e-2f, 2e-2f, &worst));
        ppo_agent_free(agent);
    }
}

/* The policy's outputs change with each number that it should see, and with no other. */
static void each_number_beside_the_picture_counts_for_who_sees_it(void **state) {
    (void)state;
    ppo_env env = lamp_env();
    const ppo_config cfg = settings("conv=2x3x1,3x2x1 hidden=5");
    ppo_agent *agent = NULL;
    ppo_tape *tape = NULL;
    float obs[2 * SEEN];
    ppo_rng rng = test_rng(4);
    env.actor_obs = SEEN - 1;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_tape_create(&tape));
    for (int j = 0; j < SEEN; j++) {
        fill_normal(&rng, obs, SEEN, 1);
        memcpy(obs + SEEN, obs, SEEN * sizeof *obs);
        obs[SEEN + j] += 1;
        ppo_tape_reset(tape);
        const ppo_outputs out = ask(tape, &agent->model, obs, 2);
        assert_ok(ppo_tape_status(tape));
        assert_int_equal(out.policy->data[0] != out.policy->data[2], j < SEEN - 1);
        assert_true(out.value->data[0] != out.value->data[1]);
    }
    ppo_tape_free(tape);
    ppo_agent_free(agent);
}

static char home[64] = "/tmp/test_traps_games.XXXXXX";

static int enter_folder(void **state) { return (void)state, mkdtemp(home) ? chdir(home) : -1; }

static int leave_folder(void **state) { return (void)state, chdir("/") || rmdir(home); }

static const char path[] = "run.safetensors";

/* Trained on, and trained on after a checkpoint: the same weights. */
static void picture_and_numbers_are_resumed_and_loaded_with_the_same_bits(void **state) {
    (void)state;
    static const char *const networks[] = {
        "normalize_obs=yes", "recurrent=4 sequence_steps=8 shared_trunk=yes", "threads=2 shards=4",
        "recompute_advantages=yes init=uniform"};
    for (int i = 0; i < COUNT(networks); i++) {
        const ppo_env env = lamp_env();
        ppo_config cfg = settings("conv=2x3x1,0x2x2 hidden=6 num_envs=4 rollout_steps=32 total_steps=512 "
                                  "minibatch_size=64 epochs=2");
        ppo_agent *agent = NULL, *again = NULL, *loaded = NULL;
        ppo_trainer *trainer = NULL, *resumed = NULL;
        ppo_progress now;
        assert_ok(ppo_config_set_all(&cfg, networks[i]));
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
        for (int k = 0; k < 2; k++) {
            assert_ok(ppo_trainer_iterate(trainer, &now));
            assert_true(now.first_ratio_min == 1 && now.first_ratio_max == 1);
        }
        assert_ok(ppo_trainer_save(trainer, path));
        assert_ok(ppo_trainer_resume(path, &env, NULL, &again, &resumed));
        while (!ppo_trainer_done(trainer)) assert_ok(ppo_trainer_iterate(trainer, NULL));
        while (!ppo_trainer_done(resumed)) assert_ok(ppo_trainer_iterate(resumed, NULL));
        const ppo_params *params = agent->model.params;
        assert_memory_equal(params->data, again->model.params->data, params->count * sizeof(float));
        assert_ok(ppo_agent_save(agent, path));
        assert_ok(ppo_agent_load(path, &env, &loaded));
        assert_memory_equal(params->data, loaded->model.params->data, params->count * sizeof(float));
        ppo_trainer_free(trainer);
        ppo_trainer_free(resumed);
        ppo_agent_free(agent);
        ppo_agent_free(again);
        ppo_agent_free(loaded);
    }
    assert_int_equal(remove(path), 0);
}

static void pictures_larger_than_what_the_actor_sees_are_refused(void **state) {
    (void)state;
    ppo_env env = lamp_env();
    const ppo_config cfg = settings("conv=2x3x1");
    ppo_agent *agent = NULL;
    env.obs_size = PIXELS - 1;
    assert_fails(ppo_agent_create(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, "1 x 6 x 6|35 numbers");
    env.obs_size = SEEN, env.actor_obs = PIXELS - 1;
    assert_fails(ppo_agent_create(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, "1 x 6 x 6|35 numbers");
}

/* --------------------------------------------------------------------------------------------------------
   Programs with a loop of their own
   -------------------------------------------------------------------------------------------------------- */

typedef struct kept_observations {
    int n;
    float obs[2048][4];
} kept_observations;

static int keep(const ppo_frame *frame, void *user) {
    kept_observations *kept = (kept_observations *)user;
    memcpy(kept->obs[kept->n++], frame->obs, sizeof kept->obs[0]);
    return kept->n == 2048;
}

static int same_files(const char *a, const char *b) {
    FILE *f[2] = {fopen(a, "r"), fopen(b, "r")};
    int one = 0, other = 0;
    assert_true(f[0] && f[1]);
    while (one == other && one != EOF) one = fgetc(f[0]), other = fgetc(f[1]);
    fclose(f[0]);
    fclose(f[1]);
    return one == other;
}

static void recorded_observations_round_to_8_bits_as_an_environment_does(void **state) {
    (void)state;
    static kept_observations kept;
    static float twice[2 * 2048][4];
    const ppo_env env = cartpole_env();
    const ppo_config cfg = settings("hidden=8 normalize_obs=yes total_steps=4096 learning_rate=3e-3");
    ppo_agent *agent = NULL;
    assert_ok(ppo_train(&env, &cfg, &agent));
    for (uint64_t seed = 0; kept.n < 2048; seed++)
        assert_ok(ppo_play(agent, &env, seed, seed % 2, keep, &kept, NULL));
    for (int i = 0; i < 2 * 2048; i++) memcpy(twice[i], kept.obs[i / 2], sizeof twice[i]);
    assert_ok(ppo_export_c_int8(agent, &env, "policy", "env.h"));
    assert_ok(ppo_export_c_int8(agent, NULL, "policy", "random.h"));
    assert_ok(ppo_export_c_int8_from(agent, kept.obs[0], 2048, "policy", "kept.h"));
    assert_ok(ppo_export_c_int8_from(agent, twice[0], 2 * 2048, "policy", "twice.h"));
    assert_ok(ppo_export_c_int8_from(agent, kept.obs[0], 1, "policy", "one.h"));
    assert_true(same_files("env.h", "kept.h"));
    assert_true(same_files("env.h", "twice.h"));
    assert_false(same_files("env.h", "random.h"));
    assert_fails(ppo_export_c_int8_from(agent, kept.obs[0], 0, "policy", "none.h"), PPO_ERROR_ARGUMENT, "0");
    assert_fails(ppo_export_c_int8_from(agent, NULL, 9, "policy", "none.h"), PPO_ERROR_ARGUMENT, "NULL");
    kept.obs[7][2] = NAN;
    assert_fails(ppo_export_c_int8_from(agent, kept.obs[0], 2048, "policy", "none.h"), PPO_ERROR_NUMERIC,
                 "observation[2]");
    ppo_agent_free(agent);
    static const char *const files[] = {"env.h", "random.h", "kept.h", "twice.h", "one.h"};
    for (int i = 0; i < COUNT(files); i++) assert_int_equal(remove(files[i]), 0);
    assert_int_equal(remove("none.h"), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_that_needs_picture_and_numbers_is_learned),
        cmocka_unit_test(gradients_of_the_joined_network_are_central_differences),
        cmocka_unit_test(each_number_beside_the_picture_counts_for_who_sees_it),
        cmocka_unit_test(picture_and_numbers_are_resumed_and_loaded_with_the_same_bits),
        cmocka_unit_test(pictures_larger_than_what_the_actor_sees_are_refused),
        cmocka_unit_test(recorded_observations_round_to_8_bits_as_an_environment_does),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
