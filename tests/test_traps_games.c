/* What people ran into who wired a game to ppo.h: pictures with numbers beside them, worlds that exist once, programs
   with a loop of their own. */
#include "../ppo.h"
#include "../examples/companions/ppo_conv.h"
#include "../examples/companions/ppo_export.h"
#include "../examples/companions/ppo_hub.h"
#include "../examples/companions/ppo_player.h"
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
    static const char *const networks[] = {"normalize_obs=yes",
                                           "recurrent=4 sequence_steps=8 shared_trunk=yes",
                                           "threads=2 shards=4", "recompute_advantages=yes init=uniform"};
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

/* Two who see the lamp, and answer in turn. */
static void pair_reset(void *state, ppo_rng *rng, float *obs, ppo_outcome *out) {
    lamp_reset(state, rng, obs);
    obs[PIXELS] = ppo_rng_uniform(rng); /* no byte */
    memcpy(obs + SEEN, obs, SEEN * sizeof *obs);
    out[1].waits = 1;
}

static void pair_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    lamp *s = (lamp *)state;
    const int turn = action[0].choices == NULL;
    ppo_outcome one;
    memset(&one, 0, sizeof one);
    lamp_step(state, rng, &action[turn], obs, &one);
    pair_reset(state, rng, obs, out);
    for (int k = 0; k < 2; k++) {
        out[k].reward = k == turn ? one.reward : 0;
        out[k].waits = k == turn;
        out[k].terminated = s->away && s->right && ppo_rng_below(rng, 2);
    }
    if (out[0].terminated) out[0].waits = out[1].waits = 0, out[1].terminated = 1;
}

static ppo_env pair_env(void) {
    ppo_env env = lamp_env();
    env.name = "pair";
    env.reset = NULL, env.step = NULL;
    env.reset_all = pair_reset, env.step_all = pair_step;
    env.agents = 2;
    env.max_steps = 50;
    return env;
}

/* Also over a checkpoint, where an agent's row awaits its outcome; without convolutions, too. */
static void the_picture_alone_is_kept_in_bytes_and_changes_no_bit(void **state) {
    (void)state;
    static const char *const networks[] = {"conv=2x3x1 hidden=6", "hidden=5",
                                           "conv=2x3x1 recurrent=4 sequence_steps=8",
                                           "conv=2x3x1 hidden=6 recompute_advantages=yes"};
    for (int i = 0; i < 2 * COUNT(networks); i++) {
        const ppo_config base =
            settings("num_envs=4 rollout_steps=32 total_steps=640 minibatch_size=64 epochs=2");
        ppo_agent *agent[2] = {NULL, NULL};
        for (int bytes = 0; bytes < 2; bytes++) {
            ppo_env env = i % 2 ? pair_env() : lamp_env();
            ppo_config cfg = base;
            ppo_trainer *trainer = NULL;
            env.byte_scale = bytes ? 1 : 0;
            assert_ok(ppo_config_set_all(&cfg, networks[i / 2]));
            assert_ok(ppo_agent_create(&env, &cfg, &agent[bytes]));
            assert_ok(ppo_trainer_create(&env, &cfg, agent[bytes], &trainer));
            for (int k = 0; !ppo_trainer_done(trainer); k++) {
                assert_ok(ppo_trainer_iterate(trainer, NULL));
                const ppo_rollout *r = ppo_trainer_rollout(trainer);
                assert_true(r->obs && !r->obs_bytes == !bytes && (!bytes || r->byte_count == PIXELS));
                if (k != 2) continue;
                assert_ok(ppo_trainer_save(trainer, path));
                ppo_trainer_free(trainer);
                ppo_agent_free(agent[bytes]);
                assert_ok(ppo_trainer_resume(path, &env, NULL, &agent[bytes], &trainer));
            }
            ppo_trainer_free(trainer);
        }
        const ppo_params *params = agent[0]->model.params;
        assert_memory_equal(params->data, agent[1]->model.params->data, params->count * sizeof(float));
        ppo_agent_free(agent[0]);
        ppo_agent_free(agent[1]);
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
   Worlds that exist once: env.copies
   -------------------------------------------------------------------------------------------------------- */

/* Walk to the goal and stay there; with its state in a block of bytes, as the library wants it, and in a global variable,
   as games have it. */
typedef struct stroll {
    float place, goal;
    int age;
} stroll;

static stroll world;
static int is_open, most_open, opened, resets;
static __thread int in_thread;
static int *thread_of_calls;

static void stroll_look(const stroll *s, float *obs) {
    obs[0] = s->goal - s->place;
    obs[1] = (float)s->age / 32;
}

static void stroll_reset(void *state, ppo_rng *rng, float *obs) {
    stroll *s = (stroll *)state;
    s->place = 0;
    s->age = 0;
    s->goal = ppo_rng_range(rng, -3, 3);
    stroll_look(s, obs);
}

static void stroll_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    stroll *s = (stroll *)state;
    const float before = fabsf(s->goal - s->place);
    (void)rng;
    s->place += action->discrete ? 0.5f : -0.5f;
    out->reward = before - fabsf(s->goal - s->place);
    out->terminated = ++s->age >= 30;
    stroll_look(s, obs);
}

static void world_reset(void *state, ppo_rng *rng, float *obs) {
    (void)state;
    ++resets;
    thread_of_calls = &in_thread;
    stroll_reset(&world, rng, obs);
}

static void world_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    (void)state;
    if (thread_of_calls != &in_thread) ppo_env_fail("another thread calls");
    stroll_step(&world, rng, action, obs, out);
}

static int world_open(void *state, void *user, int copy) {
    (void)user, (void)copy;
    opened++;
    if (++is_open > most_open) most_open = is_open;
    return *(int *)state != 0; /* it is zeroed */
}

static void world_close(void *state) {
    *(int *)state = 7;
    is_open--;
}

/* in_globals 0: any number of copies; 1: one; 2: one, with outside resources */
static ppo_env stroll_env(int in_globals) {
    ppo_env env;
    memset(&env, 0, sizeof env);
    env.name = "walk";
    env.obs_size = 2;
    env.action_space = ppo_discrete(2);
    env.state_size = sizeof(stroll);
    env.max_steps = 100;
    env.reset = in_globals ? world_reset : stroll_reset;
    env.step = in_globals ? world_step : stroll_step;
    env.copies = in_globals > 0;
    if (in_globals == 2) env.open = world_open, env.close = world_close;
    return env;
}

static void a_world_that_exists_once_has_the_figures_of_one_with_copies(void **state) {
    (void)state;
    const ppo_config cfg =
        settings("num_envs=1 rollout_steps=200 total_steps=4000 learning_rate=2e-3 threads=3");
    ppo_agent *agents[3] = {NULL, NULL, NULL};
    ppo_evaluation result[3];
    for (int k = 0; k < 3; k++) {
        const ppo_env env = stroll_env(k);
        thread_of_calls = &in_thread;
        assert_ok(ppo_train(&env, &cfg, &agents[k]));
        assert_ptr_equal(thread_of_calls, &in_thread);
        result[k] =
            k == 2 ? ppo_evaluate_sampled(agents[k], &env, 40, 5) : ppo_evaluate(agents[k], &env, 40, 5);
        assert_ok(result[k].status);
        float total[2];
        const ppo_env other = stroll_env(0);
        assert_ok(ppo_play(agents[k], &env, 3, 1, NULL, NULL, &total[0]));
        assert_ok(ppo_play(agents[k], &other, 3, 1, NULL, NULL, &total[1]));
        assert_true(total[0] == total[1]);
        const ppo_params *params = agents[0]->model.params;
        assert_memory_equal(params->data, agents[k]->model.params->data, params->count * sizeof(float));
    }
    assert_memory_equal(&result[0], &result[1], sizeof result[0]);
    const ppo_env env = stroll_env(0);
    result[0] = ppo_evaluate_sampled(agents[0], &env, 40, 5);
    assert_memory_equal(&result[0], &result[2], sizeof result[0]);
    assert_true(result[0].mean_length == 30);
    for (int k = 0; k < 3; k++) ppo_agent_free(agents[k]);
}

/* The age that the first observation of a rollout shows. */
static int first_age(const ppo_trainer *trainer) {
    return (int)roundf(32 * ppo_trainer_rollout(trainer)->obs[1]);
}

static void what_uses_the_world_between_two_iterations_ends_the_episode_in_training(void **state) {
    (void)state;
    for (int kind = 1; kind <= 2; kind++) {
        const ppo_env env = stroll_env(kind);
        const ppo_config cfg = settings("num_envs=1 rollout_steps=20 total_steps=1000 minibatch_size=0");
        ppo_agent *agent = NULL, *copy = NULL, *again = NULL;
        ppo_trainer *trainer = NULL, *second = NULL;
        most_open = opened = 0;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        assert_ok(ppo_agent_copy(agent, &copy));
        assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
        assert_ok(ppo_trainer_iterate(trainer, NULL));
        assert_ok(ppo_trainer_iterate(trainer, NULL));
        assert_int_equal(first_age(trainer), 20);
        resets = 0;
        assert_ok(ppo_evaluate(copy, &env, 3, 1).status);
        assert_int_equal(resets, 3);
        assert_ok(ppo_trainer_iterate(trainer, NULL));
        assert_int_equal(first_age(trainer), 0);
        assert_ok(ppo_export_c_int8(agent, &env, "policy", "policy.h"));
        assert_ok(ppo_trainer_iterate(trainer, NULL));
        assert_int_equal(first_age(trainer), 0);
        assert_ok(ppo_trainer_iterate(trainer, NULL));
        assert_int_equal(first_age(trainer), 20);

        assert_ok(ppo_trainer_save(trainer, path));
        assert_ok(ppo_trainer_resume(path, &env, NULL, &again, &second));
        assert_ok(ppo_trainer_iterate(second, NULL));
        assert_int_equal(first_age(second), 0);
        assert_ok(ppo_trainer_iterate(second, NULL));
        assert_int_equal(first_age(second), 20);
        assert_ok(ppo_trainer_iterate(trainer, NULL));
        assert_int_equal(first_age(trainer), 0);
        assert_int_equal(most_open, kind == 2);
        assert_int_equal(is_open, kind == 2);
        ppo_trainer_free(trainer);
        ppo_trainer_free(second);
        ppo_agent_free(again);
        ppo_agent_free(copy);
        ppo_agent_free(agent);
        assert_int_equal(is_open, 0);
    }
    assert_int_equal(remove(path), 0);
    assert_int_equal(remove("policy.h"), 0);
}

/* Two copies of it would overwrite each other; checked with one, between two iterations of a training, it is sound. */
static void a_check_of_the_environment_plays_the_only_copy(void **state) {
    (void)state;
    const ppo_config cfg = settings("num_envs=1 rollout_steps=20 total_steps=1000 minibatch_size=0");
    ppo_env env = stroll_env(2);
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_inspection report;
    most_open = 0;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    assert_ok(ppo_trainer_iterate(trainer, NULL));
    assert_ok(ppo_env_check(&env, 2000, 1, &report));
    if (report.findings) fail_msg("%s", report.finding[0]);
    assert_in_range(report.episodes, 60, 70);
    assert_int_equal(most_open, 1);
    assert_ok(ppo_trainer_iterate(trainer, NULL));
    assert_int_equal(first_age(trainer), 0);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    env = stroll_env(1);
    env.copies = 0;
    assert_ok(ppo_env_check(&env, 2000, 1, &report));
    assert_true(report.findings >= 1 && strstr(report.finding[0], "env.copies"));
}

static void more_copies_than_can_exist_are_refused_with_the_number_that_can(void **state) {
    (void)state;
    ppo_env env = stroll_env(1);
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    assert_fails(ppo_train(&env, &cfg, &agent), PPO_ERROR_ARGUMENT,
                 "num_envs is 4|1 copy|env.copies|set num_envs=1");
    env.copies = 3;
    assert_fails(ppo_agent_create(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, "3 copies|set num_envs=3");
    env.copies = -1;
    assert_fails(ppo_agent_create(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, "env.copies is -1");
    env.copies = 4;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    env.copies = 2;
    assert_fails(ppo_trainer_create(&env, &cfg, agent, &trainer), PPO_ERROR_ARGUMENT, "set num_envs=2");
    ppo_agent_free(agent);
    env = stroll_env(1);
    env.reset = NULL, env.step = NULL, env.max_steps = 0;
    assert_fails(ppo_agent_create(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, "copies");
}

/* Two agents, who move in turn; the second one is paid. */
static void duel_reset(void *state, ppo_rng *rng, float *obs, ppo_outcome *out) {
    (void)state;
    world_reset(NULL, rng, obs);
    world_reset(NULL, rng, obs + 2);
    out[1].waits = 1;
}

static void duel_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    (void)state, (void)rng;
    const int turn = world.age % 2, over = world.age == 9;
    ppo_outcome one;
    memset(&one, 0, sizeof one);
    stroll_step(&world, rng, &action[turn], obs, &one);
    stroll_look(&world, obs + 2);
    for (int k = 0; k < 2; k++) {
        out[k].reward = k ? one.reward : -one.reward;
        out[k].terminated = over;
        out[k].waits = k == turn;
    }
}

static void two_agents_play_earlier_policies_in_the_only_world(void **state) {
    (void)state;
    ppo_env env = stroll_env(2);
    ppo_config cfg = settings("num_envs=2 rollout_steps=16 total_steps=640 minibatch_size=16 self_play=2 "
                              "snapshot_every=1");
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    env.reset = NULL, env.step = NULL;
    env.reset_all = duel_reset, env.step_all = duel_step;
    env.agents = env.teams = 2;
    most_open = 0;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    while (!ppo_trainer_done(trainer)) {
        assert_ok(ppo_trainer_iterate(trainer, NULL));
        const ppo_evaluation match = ppo_evaluate_match(agent, agent, &env, 6, 1);
        assert_ok(match.status);
        assert_true(match.mean_length == 10);
    }
    assert_int_equal(most_open, 1);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    cfg.num_envs = 4;
    assert_fails(ppo_agent_create(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, "set num_envs=2|agents");
}

/* --------------------------------------------------------------------------------------------------------
   Programs with a loop of their own
   -------------------------------------------------------------------------------------------------------- */

/* Two characters whose episodes never end: the mean of what they earned is exact, whatever the critic is shown. */
static void a_game_without_an_end_reports_its_reward_per_step(void **state) {
    (void)state;
    for (int normalized = 0; normalized < 2; normalized++) {
        ppo_env env;
        ppo_config cfg = settings("num_envs=2 rollout_steps=64 total_steps=1024 clip_reward=0.5");
        ppo_agent *agent = NULL;
        ppo_trainer *trainer = NULL;
        ppo_progress now;
        ppo_outcome outcome[2];
        ppo_action action;
        double earned = 0;
        int iterations = 0;
        ppo_rng rng = test_rng(6);
        memset(outcome, 0, sizeof outcome);
        memset(&env, 0, sizeof env);
        env.obs_size = 1;
        env.action_space = ppo_discrete(2);
        cfg.normalize_reward = normalized;
        if (!normalized) cfg.clip_reward = ppo_config_default().clip_reward;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
        for (int frame = 0; !ppo_trainer_done(trainer); frame++) {
            for (int i = 0; i < 2; i++) {
                const float obs = ppo_rng_normal(&rng);
                outcome[i].reward = 3 + 20 * obs;
                if (frame) earned += (double)outcome[i].reward;
                assert_ok(ppo_trainer_observe(trainer, i, &obs, NULL, frame ? &outcome[i] : NULL));
            }
            assert_ok(ppo_trainer_learn(trainer, 0, &now));
            for (int i = 0; i < 2; i++) assert_ok(ppo_trainer_act(trainer, i, &action));
            if (!now.iteration) continue;
            iterations++;
            assert_nan(now.mean_return);
            assert_close(now.mean_reward, earned / 128, 1e-5);
            earned = 0;
        }
        assert_int_equal(iterations, 8);
        ppo_trainer_free(trainer);
        ppo_agent_free(agent);
    }
}

/* A game with its own loop, whose characters walk to goals. Counts what a player should report. */
enum { WALKERS = 3 };
typedef struct counted {
    int episodes, unlike; /* unlike: actions that are not the most likely ones */
    double returns[4000], lengths, earned;
} counted;

static void play_game(ppo_trainer *trainer, ppo_agent *agent, int frames, counted *seen) {
    stroll walker[WALKERS];
    ppo_outcome outcome[WALKERS];
    double total[WALKERS] = {0};
    int begins[WALKERS] = {1, 1, 1};
    ppo_rng rng = test_rng(11);
    memset(seen, 0, sizeof *seen);
    for (int frame = 0; frame < frames; frame++) {
        for (int i = 0; i < WALKERS; i++) {
            float obs[2];
            unsigned char mask[2] = {1, 1};
            ppo_action action, likely;
            if (begins[i]) stroll_reset(&walker[i], &rng, obs);
            stroll_look(&walker[i], obs);
            if (walker[i].place < -5) mask[0] = 0;
            if (!begins[i]) seen->earned += (double)outcome[i].reward;
            assert_ok(ppo_trainer_observe(trainer, i, obs, mask, begins[i] ? NULL : &outcome[i]));
            assert_ok(ppo_trainer_act(trainer, i, &action));
            if (!agent->model.core.width) {
                assert_ok(ppo_act_masked(agent, obs, mask, NULL, &likely));
                seen->unlike += likely.discrete != action.discrete;
            }
            assert_true(mask[action.discrete]);
            memset(&outcome[i], 0, sizeof outcome[i]);
            stroll_step(&walker[i], &rng, &action, obs, &outcome[i]);
            total[i] += (double)outcome[i].reward;
            begins[i] = outcome[i].terminated;
            if (i == 1 && walker[i].age == 7 && !begins[i]) outcome[i].truncated = begins[i] = 1;
            if (!begins[i]) continue;
            seen->returns[seen->episodes++] = total[i];
            seen->lengths += walker[i].age;
            seen->earned += (double)outcome[i].reward;
            total[i] = 0;
            assert_ok(ppo_trainer_observe(trainer, i, obs, NULL, &outcome[i]));
        }
        assert_ok(ppo_trainer_learn(trainer, 0, NULL));
    }
}

static void a_player_takes_the_place_of_a_trainer_and_keeps_its_figures(void **state) {
    (void)state;
    ppo_env env;
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL, *player = NULL;
    const ppo_config cfg = settings("num_envs=3 rollout_steps=128 total_steps=20000 learning_rate=3e-3");
    static counted seen;
    float before = 0;
    memset(&env, 0, sizeof env);
    env.obs_size = 2;
    env.action_space = ppo_discrete(2);
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    for (int trained = 0; trained < 2; trained++) {
        for (int sample = 0; sample < 2; sample++) {
            const ppo_params *params = agent->model.params;
            float *weights = (float *)malloc(params->count * sizeof(float));
            memcpy(weights, params->data, params->count * sizeof(float));
            assert_ok(ppo_player_create(&env, agent, WALKERS, sample, 5, &player));
            assert_int_equal(ppo_player_result(player).episodes.episodes, 0);
            assert_nan(ppo_player_result(player).episodes.mean_return);
            assert_nan(ppo_player_result(player).mean_reward);
            play_game(player, agent, 400, &seen);
            const ppo_player_figures is = ppo_player_result(player);
            double mean = 0, var = 0, least = INFINITY, most = -INFINITY;
            for (int i = 0; i < seen.episodes; i++) mean += seen.returns[i] / seen.episodes;
            for (int i = 0; i < seen.episodes; i++) {
                var += (seen.returns[i] - mean) * (seen.returns[i] - mean) / seen.episodes;
                least = fmin(least, seen.returns[i]), most = fmax(most, seen.returns[i]);
            }
            assert_ok(is.episodes.status);
            assert_int_equal(is.episodes.episodes, seen.episodes);
            assert_close(is.episodes.mean_return, mean, 1e-5);
            assert_close(is.episodes.std_return, sqrt(var), 1e-4);
            assert_close(is.episodes.min_return, least, 1e-6);
            assert_close(is.episodes.max_return, most, 1e-6);
            assert_close(is.episodes.mean_length, seen.lengths / seen.episodes, 1e-6);
            assert_in_range(is.steps, 400 * WALKERS - WALKERS,
                            400 * WALKERS); /* some actions await their outcome */
            assert_close(is.mean_reward, seen.earned / (double)is.steps, 1e-6);
            assert_int_equal(seen.unlike > 0, sample);
            assert_memory_equal(weights, params->data, params->count * sizeof(float));
            free(weights);
            if (trained && is.episodes.mean_return < before + 1)
                fail_msg("%g after, %g before the training", (double)is.episodes.mean_return, (double)before);
            if (sample && !trained) before = is.episodes.mean_return; /* at random */
            assert_fails(ppo_trainer_save(player, path), PPO_ERROR_ARGUMENT, "player");
            assert_fails(ppo_trainer_iterate(player, NULL), PPO_ERROR_ARGUMENT, "a player");
            ppo_trainer_free(player);
        }
        if (trained) break;
        assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
        assert_int_equal(ppo_player_result(trainer).episodes.status, PPO_ERROR_ARGUMENT);
        play_game(trainer, agent, 7000, &seen);
        assert_true(ppo_trainer_done(trainer));
        ppo_trainer_free(trainer);
    }
    ppo_agent_free(agent);
}

static void a_player_of_a_recurrent_policy_remembers_for_each_character(void **state) {
    (void)state;
    ppo_env env;
    ppo_agent *agent = NULL;
    ppo_trainer *player[2] = {NULL, NULL};
    const ppo_config cfg = settings("recurrent=6 hidden=5");
    ppo_rng rng = test_rng(2);
    memset(&env, 0, sizeof env);
    env.obs_size = 2;
    env.action_space = ppo_box(1, -9, 9);
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    for (size_t k = 0; k < agent->model.params->count; k++)
        agent->model.params->data[k] += 0.5f * ppo_rng_normal(&rng);
    assert_ok(ppo_player_create(&env, agent, 2, 0, 1, &player[0]));
    assert_ok(ppo_player_create(&env, agent, 1, 0, 1, &player[1]));
    for (int t = 0; t < 20;
         t++) { /* source 0 of both sees the same; source 1 of the first sees something else */
        float obs[2], other[2];
        ppo_outcome none;
        ppo_action a, b;
        float number;
        fill_normal(&rng, obs, 2, 1);
        fill_normal(&rng, other, 2, 1);
        memset(&none, 0, sizeof none);
        assert_ok(ppo_trainer_observe(player[0], 1, other, NULL, t ? &none : NULL));
        assert_ok(ppo_trainer_act(player[0], 1, &a));
        assert_ok(ppo_trainer_observe(player[0], 0, obs, NULL, t ? &none : NULL));
        assert_ok(ppo_trainer_act(player[0], 0, &a));
        assert_ok(ppo_trainer_observe(player[1], 0, obs, NULL, t ? &none : NULL));
        assert_ok(ppo_trainer_act(player[1], 0, &b));
        number = a.box[0];
        assert_true(number == b.box[0]);
        assert_ok(ppo_act(agent, obs, NULL, &b)); /* which remembers what ppo_act() has seen */
        assert_true(number == b.box[0]);
    }
    ppo_trainer_free(player[0]);
    ppo_trainer_free(player[1]);
    ppo_agent_free(agent);
}

static void what_a_pushed_game_cannot_do_is_refused_with_what_it_can(void **state) {
    (void)state;
    ppo_env env;
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL, *none = NULL;
    ppo_trainer *player = NULL;
    ppo_inspection report;
    const ppo_env with = stroll_env(0);
    memset(&env, 0, sizeof env);
    env.obs_size = 2;
    env.action_space = ppo_discrete(2);
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_fails(ppo_evaluate(agent, &env, 5, 1).status, PPO_ERROR_ARGUMENT,
                 "env.reset is NULL|ppo_player.h");
    assert_fails(ppo_play(agent, &env, 5, 1, NULL, NULL, NULL), PPO_ERROR_ARGUMENT, "ppo_player.h");
    assert_fails(ppo_env_check(&env, 100, 1, &report), PPO_ERROR_ARGUMENT, "env.reset is NULL|warning");
    assert_fails(ppo_export_c_int8(agent, &env, "policy", "policy.h"), PPO_ERROR_ARGUMENT,
                 "ppo_export_c_int8_from");
    assert_fails(ppo_train(&env, &cfg, &none), PPO_ERROR_ARGUMENT, "ppo_trainer_observe");
    assert_fails(ppo_player_create(&with, agent, 1, 0, 1, &player), PPO_ERROR_ARGUMENT, "ppo_evaluate");
    assert_fails(ppo_player_create(&env, agent, 0, 0, 1, &player), PPO_ERROR_ARGUMENT, "0 sources");
    assert_fails(ppo_player_create(&env, NULL, 1, 0, 1, &player), PPO_ERROR_ARGUMENT, "agent");
    assert_null(player);
    env.obs_size = 3;
    assert_fails(ppo_player_create(&env, agent, 1, 0, 1, &player), PPO_ERROR_ARGUMENT, "3 observed");
    ppo_agent_free(agent);
}

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
    char *text[2], *weights[2];
    size_t n;
    for (int i = 0; i < 2; i++) {
        /* What was met is normalized: where all is further up, the weights stay. */
        for (int j = 0; j < 4; j++) agent->obs_norm.mean[j] = 1024 * i, agent->obs_norm.var[j] = 1;
        for (int k = 0; k < 4 * 2048; k++)
            kept.obs[k / 4][k % 4] = 1024 * (float)i + rintf(kept.obs[k / 4][k % 4] * 256) / 256;
        assert_ok(ppo_export_c_int8_from(agent, kept.obs[0], 2048, "policy", "moved.h"));
        assert_ok(ppo_text_load("moved.h", &text[i], &n));
        weights[i] = strstr(text[i], "policy_actor_0_weight[");
        assert_non_null(weights[i]);
    }
    assert_memory_equal(weights[0], weights[1], strcspn(weights[0], "}"));
    ppo_text_free(text[0]), ppo_text_free(text[1]);
    kept.obs[7][2] = NAN;
    assert_fails(ppo_export_c_int8_from(agent, kept.obs[0], 2048, "policy", "none.h"), PPO_ERROR_NUMERIC,
                 "observation[2]");
    ppo_agent_free(agent);
    static const char *const files[] = {"env.h", "random.h", "kept.h", "twice.h", "one.h", "moved.h"};
    for (int i = 0; i < COUNT(files); i++) assert_int_equal(remove(files[i]), 0);
    assert_int_equal(remove("none.h"), -1);
}

/* Pushes `rounds` steps of source 1, and each `slow` rounds one of source 0; where `slow` is 0, it falls silent. Returns
   how often a call failed; the failed one is repeated. */
static int push_in_turn(ppo_trainer *trainer, int rounds, int slow, int waits, int *iterations) {
    const float obs = 0.5f;
    ppo_outcome none, idle;
    ppo_action action;
    ppo_progress now;
    int failed = 0;
    memset(&none, 0, sizeof none);
    memset(&idle, 0, sizeof idle);
    idle.waits = 1;
    *iterations = 0;
    for (int i = 0; i < 2; i++) {
        assert_ok(ppo_trainer_observe(trainer, i, &obs, NULL, NULL));
        assert_ok(ppo_trainer_act(trainer, i, &action));
    }
    if (waits) assert_ok(ppo_trainer_observe(trainer, 0, NULL, NULL, &idle));
    for (int t = 1; t <= rounds; t++) {
        if (slow && t % slow == 0) {
            assert_ok(ppo_trainer_observe(trainer, 0, &obs, NULL, &none));
            assert_ok(ppo_trainer_act(trainer, 0, &action));
        }
        if (ppo_trainer_observe(trainer, 1, &obs, NULL, &none) != PPO_OK) {
            assert_non_null(strstr(ppo_last_error(), "source 0"));
            assert_non_null(strstr(ppo_last_error(), "truncated = 1"));
            assert_ok(ppo_trainer_observe(trainer, 1, &obs, NULL, &none));
            failed++;
        }
        assert_ok(ppo_trainer_act(trainer, 1, &action));
        assert_ok(ppo_trainer_learn(trainer, 0, &now));
        *iterations += now.iteration > 0;
    }
    return failed;
}

static void a_game_that_never_learns_is_told_once(void **state) {
    (void)state;
    ppo_env env;
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_outcome none;
    ppo_action action;
    const ppo_config cfg = settings("num_envs=2 rollout_steps=16 minibatch_size=32 epochs=1 hidden=4");
    const float obs = 0.5f;
    int failed = 0;
    memset(&env, 0, sizeof env);
    memset(&none, 0, sizeof none);
    env.obs_size = 1;
    env.action_space = ppo_discrete(2);
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    for (int t = 0; t < 5000; t++)
        for (int i = 0; i < 2; i++) {
            if (ppo_trainer_observe(trainer, i, &obs, NULL, t ? &none : NULL) != PPO_OK) {
                assert_non_null(
                    strstr(ppo_last_error(), "call ppo_trainer_learn(): the sources have their 16 steps"));
                assert_in_range(t, 1000, 1200);
                assert_ok(ppo_trainer_observe(trainer, i, &obs, NULL, &none));
                failed++;
            }
            assert_ok(ppo_trainer_act(trainer, i, &action));
        }
    assert_int_equal(failed, 1);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

static void a_source_that_falls_silent_is_named_once_and_a_slow_one_is_not(void **state) {
    (void)state;
    ppo_env env;
    const ppo_config cfg =
        settings("num_envs=2 rollout_steps=16 minibatch_size=32 epochs=1 total_steps=100000 hidden=4");
    memset(&env, 0, sizeof env);
    env.obs_size = 1;
    env.action_space = ppo_discrete(2);
    for (int k = 0; k < 3; k++) { /* silent, slow, waits by its own word */
        ppo_agent *agent = NULL;
        ppo_trainer *trainer = NULL;
        ppo_outcome gone;
        const float obs = 0.5f;
        int iterations;
        memset(&gone, 0, sizeof gone);
        gone.truncated = 1;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
        assert_int_equal(push_in_turn(trainer, 8000, k == 1 ? 300 : 0, k == 2, &iterations), k == 0);
        assert_int_equal(iterations, k == 1);
        if (k == 0) {
            ppo_progress now;
            assert_ok(ppo_trainer_observe(trainer, 0, &obs, NULL, &gone));
            assert_true(ppo_trainer_ready(trainer));
            assert_ok(ppo_trainer_learn(trainer, 0, &now));
            assert_int_equal(now.iteration, 1);
        }
        ppo_trainer_free(trainer);
        ppo_agent_free(agent);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_that_needs_picture_and_numbers_is_learned),
        cmocka_unit_test(gradients_of_the_joined_network_are_central_differences),
        cmocka_unit_test(each_number_beside_the_picture_counts_for_who_sees_it),
        cmocka_unit_test(picture_and_numbers_are_resumed_and_loaded_with_the_same_bits),
        cmocka_unit_test(the_picture_alone_is_kept_in_bytes_and_changes_no_bit),
        cmocka_unit_test(pictures_larger_than_what_the_actor_sees_are_refused),
        cmocka_unit_test(a_world_that_exists_once_has_the_figures_of_one_with_copies),
        cmocka_unit_test(what_uses_the_world_between_two_iterations_ends_the_episode_in_training),
        cmocka_unit_test(a_check_of_the_environment_plays_the_only_copy),
        cmocka_unit_test(more_copies_than_can_exist_are_refused_with_the_number_that_can),
        cmocka_unit_test(two_agents_play_earlier_policies_in_the_only_world),
        cmocka_unit_test(a_game_without_an_end_reports_its_reward_per_step),
        cmocka_unit_test(a_player_takes_the_place_of_a_trainer_and_keeps_its_figures),
        cmocka_unit_test(a_player_of_a_recurrent_policy_remembers_for_each_character),
        cmocka_unit_test(what_a_pushed_game_cannot_do_is_refused_with_what_it_can),
        cmocka_unit_test(recorded_observations_round_to_8_bits_as_an_environment_does),
        cmocka_unit_test(a_game_that_never_learns_is_told_once),
        cmocka_unit_test(a_source_that_falls_silent_is_named_once_and_a_slow_one_is_not),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
