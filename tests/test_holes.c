/* What a review by mutation found untested: each test here fails where one line of the library is changed in a way that
   no other test noticed. `make mutants` looks for more of them. */
#include "../ppo.h"
#include "../examples/companions/ppo_check.h"
#include "../examples/companions/ppo_conv.h"
#include "../examples/companions/ppo_export.h"
#include "../examples/companions/ppo_gru.h"
#include "../examples/companions/ppo_hub.h"
#include "../examples/companions/ppo_judge.h"
#include "../examples/companions/ppo_methods.h"
#include "../examples/companions/ppo_resume.h"

#include "../examples/envs/connect4.h"
#include "golden/v0_1.h"
#include "golden/v0_2.h"
#include "test.h"
#include "system.h"

static char home[] = "/tmp/test_holes.XXXXXX";

static int enter_folder(void **state) {
    (void)state;
    return !mkdtemp(home) || chdir(home);
}

static int leave_folder(void **state) {
    (void)state;
    return chdir("/") || remove(home);
}

/* --------------------------------------------------------------------------------------------------------
   Losses and normalizers
   -------------------------------------------------------------------------------------------------------- */

static void a_policy_loss_of_nan_fails_the_tape(void **state) {
    (void)state;
    float data[4] = {-1, -2, NAN, -1};
    const float old[4] = {-1, -2, -1, -1}, advantage[4] = {1, -1, 1, -1};
    const ppo_policy_objective clip = {PPO_CLIP, 0.2f, 0.2f, 0, 0};
    ppo_policy_stats stats;
    ppo_tensor logp = {4, 1, data, NULL};
    ppo_tape *tape = NULL;
    assert_ok(ppo_tape_create(&tape));
    assert_null(ppo_tape_policy_loss(tape, &logp, old, advantage, NULL, &clip, &stats));
    assert_int_equal(ppo_tape_status(tape), PPO_ERROR_NUMERIC);
    assert_non_null(strstr(ppo_last_error(), "logp"));
    ppo_tape_free(tape);
}

static void a_normalizer_that_could_not_be_made_is_freed(void **state) {
    (void)state;
    ppo_normalizer norm;
    memset(&norm, 0x55, sizeof norm);
    assert_fails(ppo_normalizer_init(&norm, 0), PPO_ERROR_ARGUMENT, "size is 0");
    assert_null(norm.mean);
    ppo_normalizer_free(&norm);
}

/* --------------------------------------------------------------------------------------------------------
   Settings and environments
   -------------------------------------------------------------------------------------------------------- */

static void a_dual_clip_of_at_most_one_is_refused(void **state) {
    (void)state;
    ppo_config config = ppo_config_default();
    static const struct {
        float dual_clip;
        int right;
    } cases[] = {{0, 1}, {0.25f, 0}, {0.999f, 0}, {1, 0}, {1.001f, 1}, {3, 1}};
    for (int i = 0; i < COUNT(cases); i++) {
        config.dual_clip = cases[i].dual_clip;
        if (cases[i].right) assert_ok(ppo_config_check(&config));
        else assert_fails(ppo_config_check(&config), PPO_ERROR_ARGUMENT, "dual_clip is|above 1");
    }
}

static void a_rollout_in_which_no_step_ends_is_refused(void **state) {
    (void)state;
    ppo_env env = connect4_env(); /* after its move the first player waits */
    ppo_config config = ppo_config_default();
    ppo_agent *agent = NULL;
    config.num_envs = 4, config.rollout_steps = 1, config.minibatch_size = 2, config.total_steps = 8;
    config.hidden[0] = 4, config.hidden_layers = 1;
    assert_fails(ppo_train(&env, &config, &agent), PPO_ERROR_ARGUMENT, "no agent completed a step|of 1 step");
    assert_null(agent);
}

/* Source 0 goes on while learning waits for source 1: what it sees then is not learned from, and not counted. */
static void observations_beyond_a_full_rollout_are_not_counted(void **state) {
    (void)state;
    enum { STEPS = 4 };
    ppo_env env = {0};
    ppo_config config = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_action action;
    ppo_outcome out = {0};
    float obs = 0;
    env.obs_size = 1;
    env.action_space = ppo_discrete(2);
    config.num_envs = 2, config.rollout_steps = STEPS, config.minibatch_size = 2 * STEPS,
    config.total_steps = 64;
    config.hidden[0] = 4, config.hidden_layers = 1, config.normalize_obs = 1;
    assert_ok(ppo_agent_create(&env, &config, &agent));
    assert_ok(ppo_trainer_create(&env, &config, agent, &trainer));
    for (int e = 0; e < 2; e++) assert_ok(ppo_trainer_observe(trainer, e, &obs, NULL, NULL));
    for (int e = 0; e < 2; e++)
        for (int t = 0; t < (e ? STEPS : 3 * STEPS); t++) {
            obs = (float)(e ? -t : t);
            assert_ok(ppo_trainer_act(trainer, e, &action));
            assert_ok(ppo_trainer_observe(trainer, e, &obs, NULL, &out));
        }
    assert_true(ppo_trainer_ready(trainer));
    assert_ok(ppo_trainer_learn(trainer, 0, NULL));
    /* of each source the first observation, and one after each step; of source 0 one more, at which it acts in vain */
    assert_true(agent->obs_norm.count == 2 * (STEPS + 1));
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

/* The row whose reward made the return too large is dropped, the one before it stays, and a new episode begins. */
static void a_return_that_is_too_large_costs_one_row(void **state) {
    (void)state;
    ppo_env env = {0};
    ppo_config config = tiny_config();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_action action;
    ppo_outcome huge = {0}, one = {0};
    ppo_progress progress;
    const float obs = 0.5f;
    int acts = 0;
    env.obs_size = 1;
    env.action_space = ppo_discrete(2);
    config.num_envs = 1, config.rollout_steps = 4, config.minibatch_size = 4, config.total_steps = 64;
    huge.reward = 3e38f, one.reward = 1;
    assert_ok(ppo_agent_create(&env, &config, &agent));
    assert_ok(ppo_trainer_create(&env, &config, agent, &trainer));
    assert_ok(ppo_trainer_observe(trainer, 0, &obs, NULL, NULL));
    assert_ok(ppo_trainer_act(trainer, 0, &action));
    assert_ok(ppo_trainer_observe(trainer, 0, &obs, NULL, &huge));
    assert_ok(ppo_trainer_act(trainer, 0, &action));
    assert_fails(ppo_trainer_observe(trainer, 0, &obs, NULL, &huge), PPO_ERROR_NUMERIC,
                 "reward 3e+38 is too large: the episode's return is 6e+38|source 0, step 2");
    assert_ok(ppo_trainer_observe(trainer, 0, &obs, NULL, NULL));
    for (; !ppo_trainer_ready(trainer); acts++) {
        assert_ok(ppo_trainer_act(trainer, 0, &action));
        assert_ok(ppo_trainer_observe(trainer, 0, &obs, NULL, &one));
    }
    assert_int_equal(acts, 3);
    ppo_trainer_free(trainer);
    config.num_envs = 2, huge.waits = 1; /* and the source stays away */
    assert_ok(ppo_trainer_create(&env, &config, agent, &trainer));
    for (int source = 0; source < 2; source++) {
        assert_ok(ppo_trainer_observe(trainer, source, &obs, NULL, NULL));
        for (int i = 0; i < (source ? 4 : 1); i++) {
            assert_ok(ppo_trainer_act(trainer, source, &action));
            assert_ok(ppo_trainer_observe(trainer, source, &obs, NULL, &one));
        }
        if (source) continue;
        assert_ok(ppo_trainer_act(trainer, source, &action));
        assert_ok(ppo_trainer_observe(trainer, source, NULL, NULL, &huge));
        assert_fails(ppo_trainer_observe(trainer, source, NULL, NULL, &huge), PPO_ERROR_NUMERIC, "too large");
    }
    assert_ok(ppo_trainer_learn(trainer, 0, &progress));
    assert_int_equal(progress.iteration_steps, 1 + 4);
    assert_ok(ppo_trainer_observe(trainer, 0, &obs, NULL, NULL)); /* with what it earned since */
    assert_ok(ppo_trainer_act(trainer, 0, &action));
    assert_ok(ppo_trainer_observe(trainer, 0, &obs, NULL, &one));
    assert_true(ppo_trainer_rollout(trainer)->reward[0] == 1);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

static void a_critic_that_values_by_no_number_is_told(void **state) {
    (void)state;
    const ppo_env env = walk_env();
    const ppo_config config = tiny_config();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    assert_ok(ppo_agent_create(&env, &config, &agent));
    assert_ok(ppo_trainer_create(&env, &config, agent, &trainer));
    const ppo_mlp *critic = &agent->model.critic;
    critic->bias[critic->layers - 1]->data[0] = INFINITY; /* the policy acts as before */
    assert_fails(ppo_trainer_iterate(trainer, NULL), PPO_ERROR_NUMERIC, "critic's value is infinite");
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

static void convolutions_that_reach_the_last_pixel_fit(void **state) {
    (void)state;
    static const struct {
        int side;
        const char *conv, *words; /* NULL: it fits */
    } cases[] = {{10, "2x4x3", NULL},
                 {11, "2x2x3", NULL},
                 {10, "2x5x3", "kernel of 5|stride of 3|misses the last 2"},
                 {10, "2x2x3", "kernel of 2|misses the last 2"},
                 {10, "2x3x3", "kernel of 3|misses the last 1"}};
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_env env = walk_env();
        ppo_config config = ppo_config_default();
        ppo_agent *agent = NULL;
        env.shape[0] = 1, env.shape[1] = env.shape[2] = cases[i].side;
        env.obs_size = cases[i].side * cases[i].side;
        assert_ok(ppo_config_set(&config, "conv", cases[i].conv));
        if (cases[i].words)
            assert_fails(ppo_agent_create(&env, &config, &agent), PPO_ERROR_ARGUMENT, cases[i].words);
        else assert_ok(ppo_agent_create(&env, &config, &agent));
        ppo_agent_free(agent);
    }
}

static void a_picture_without_channels_is_refused(void **state) {
    (void)state;
    static const int shapes[][3] = {{0, 5, 5}, {0, 0, 5}, {0, 5, 0}, {1, 0, 0}, {1, 0, 5}};
    for (int i = 0; i < COUNT(shapes); i++) {
        ppo_env env = walk_env();
        ppo_config config = ppo_config_default();
        ppo_agent *agent = NULL;
        env.obs_size = 25;
        memcpy(env.shape, shapes[i], sizeof env.shape);
        assert_fails(ppo_agent_create(&env, &config, &agent), PPO_ERROR_ARGUMENT, "the picture's shape is");
        assert_null(agent);
    }
}

static float least, most;

static void seen_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    least = fminf(least, action->box[0]);
    most = fmaxf(most, action->box[0]);
    (void)state, (void)rng;
    obs[0] = 0.5f;
    out->reward = -1;
}

/* The check of an environment draws from the whole box where a new policy reaches that, else from -1 to 1; where that
   is outside the box, from all that is finite. */
static void random_actions_reach_what_a_new_policy_does(void **state) {
    (void)state;
    static const struct {
        float low, high;
        const char *settings;
        float least, most;
    } cases[] = {{-10, 10, "", -10, 10},
                 {-10, 10, "scale_actions=no", -1, 1},
                 {-10, 10, "scale_actions=no squash=yes", -10, 10},
                 {-INFINITY, INFINITY, "", -1, 1},
                 {-0.5f, INFINITY, "", -0.5f, 1},
                 {1, 5, "scale_actions=no", 1, 5},
                 {-5, -1, "scale_actions=no", -5, -1},
                 {2, INFINITY, "", 2, FLT_MAX / 4},
                 {-INFINITY, -2, "", -FLT_MAX / 4, -2}};
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_env env = reach_env();
        ppo_config config = ppo_config_default();
        ppo_inspection report;
        const float size = cases[i].most - cases[i].least;
        env.action_space = ppo_box(1, cases[i].low, cases[i].high);
        env.step = seen_step;
        least = INFINITY, most = -INFINITY;
        assert_ok(ppo_config_set_all(&config, cases[i].settings));
        assert_ok(ppo_env_check_with(&env, &config, 300, 1, &report));
        assert_true(least >= cases[i].least && least < cases[i].least + 0.05f * size);
        assert_true(most <= cases[i].most && most > cases[i].most - 0.05f * size);
    }
}

static void the_check_of_an_environment_takes_legal_actions_alone(void **state) {
    (void)state;
    const ppo_env env = fenced_env();
    ppo_inspection report;
    illegal_actions = 0;
    assert_ok(ppo_env_check(&env, 300, 1, &report));
    assert_int_equal(illegal_actions, 0);
    assert_int_equal(report.findings, 0);
}

/* --------------------------------------------------------------------------------------------------------
   Language models
   -------------------------------------------------------------------------------------------------------- */

static ppo_lm *tiny_lm(int context) {
    ppo_lm_config config = ppo_lm_config_default();
    ppo_lm *lm = NULL;
    config.vocab = 5, config.context = context, config.width = 4, config.layers = 1, config.heads = 1;
    assert_ok(ppo_lm_create(&config, &lm));
    return lm;
}

static ppo_status one_each(const ppo_samples *samples, float *reward, void *user) {
    const double until = ppo_clock() + 0.003; /* so that there is a time to divide by */
    (void)user;
    while (ppo_clock() < until) {
    }
    for (int s = 0; s < samples->tokens.count; s++) reward[s] = 1;
    return PPO_OK;
}

static void tokens_per_second_are_tokens_by_seconds(void **state) {
    (void)state;
    ppo_rlhf_config config = ppo_rlhf_config_default();
    ppo_rlhf *rlhf = NULL;
    ppo_rlhf_progress progress;
    ppo_lm *lm = tiny_lm(8);
    ppo_tokens prompts = {0};
    const int token[2] = {1, 2};
    for (int i = 0; i < 4; i++) assert_ok(ppo_tokens_add(&prompts, token, 2, 2));
    config.prompts = 4, config.minibatch_size = 4, config.epochs = 1, config.sampling.max_new_tokens = 4;
    assert_ok(ppo_rlhf_create(lm, NULL, NULL, &prompts, one_each, NULL, &config, &rlhf));
    for (int i = 1; i < 3; i++) {
        assert_ok(ppo_rlhf_iterate(rlhf, &progress));
        assert_int_equal(progress.tokens, 16 * i);
        assert_true(progress.seconds >= 0.003 * i && progress.seconds < 100);
        assert_close(progress.tokens_per_second * progress.seconds, 16 * i, 1e-6);
    }
    ppo_rlhf_free(rlhf);
    ppo_tokens_free(&prompts);
    ppo_lm_free(lm);
}

static void what_kto_cannot_learn_from_is_refused(void **state) {
    (void)state;
    static const float weights[][2] = {{0, 1}, {1, 0}, {1, -1}, {1.1e6f, 1}, {1, 1.1e6f}, {NAN, 1}, {1, NAN}};
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_lm *lm = tiny_lm(64), *reference = tiny_lm(64);
    ppo_tokens good = {0}, silent = {0};
    const int token[64] = {1, 2, 3, 4};
    assert_ok(ppo_tokens_add(&good, token, 4, 2));
    assert_ok(
        ppo_tokens_mark_given(&good, 2, 1)); /* what a tool answered stays so in the other one's prompt */
    assert_ok(ppo_tokens_add(&good, token, 64, 2)); /* as long as the context */
    assert_ok(ppo_tokens_add(&silent, token, 3, 2));
    assert_ok(ppo_tokens_add(&silent, token, 2, 2));
    fit.batch_size = 2, fit.epochs = 1;
    for (int i = 0; i < COUNT(weights); i++)
        assert_fails(ppo_fit_kto(lm, reference, &good, &good, weights[i][0], weights[i][1], &fit),
                     PPO_ERROR_ARGUMENT, "the weights are|above 0, and at most 1e6");
    assert_fails(ppo_fit_kto(lm, reference, &good, &silent, 1, 1, &fit), PPO_ERROR_ARGUMENT,
                 "undesirable sequence 1 has no token after its prompt");
    assert_fails(ppo_fit_kto(lm, reference, &silent, &good, 1, 1, &fit), PPO_ERROR_ARGUMENT,
                 "desirable sequence 1 has no token after its prompt");
    assert_ok(ppo_fit_kto(lm, reference, &good, &good, 1e6f, 1e-6f, &fit));
    ppo_tokens_free(&good), ppo_tokens_free(&silent);
    ppo_lm_free(lm), ppo_lm_free(reference);
}

static void the_loss_of_kto_needs_each_array_and_columns_of_one(void **state) {
    (void)state;
    float x[4] = {-1, -2, -1, -2};
    const float *const arrays[][3] = {{NULL, x, x}, {x, NULL, x}, {x, x, NULL},
                                      {x, x, x},    {x, x, x},    {x, x, x}};
    for (int i = 0; i < COUNT(arrays); i++) {
        ppo_tensor logp = {2, i == 3 ? 2 : 1, x, NULL}, other = {i == 5 ? 1 : 2, i == 4 ? 2 : 1, x, NULL};
        ppo_tape *tape = NULL;
        assert_ok(ppo_tape_create(&tape));
        assert_null(ppo_tape_kto_loss(tape, &logp, &other, arrays[i][0], arrays[i][1], arrays[i][2], 1));
        assert_int_equal(ppo_tape_status(tape), PPO_ERROR_ARGUMENT);
        assert_non_null(strstr(ppo_last_error(), "kto_loss: an array is NULL, or the shapes are not"));
        ppo_tape_free(tape);
    }
}

/* The data reach positions 0 to 3; position 6, which the held-out sequence alone reaches, has one that is infinite. */
static void a_loss_of_held_out_data_that_is_no_number_is_told(void **state) {
    (void)state;
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_lm *lm = tiny_lm(8), *apart = NULL;
    ppo_lm_config config = lm->config;
    ppo_tokens data = {0}, held_out = {0};
    const int token[8] = {1, 2, 3, 4, 1, 2, 3, 4};
    assert_ok(ppo_tokens_add(&data, token, 4, 0));
    assert_ok(ppo_tokens_add(&held_out, token, 8, 0));
    lm->position_embedding->data[6 * 4] = INFINITY;
    fit.epochs = 1, fit.batch_size = 1, fit.held_out = &held_out, fit.evaluate_first = 1;
    assert_fails(ppo_fit_sft(lm, &data, &fit), PPO_ERROR_NUMERIC, "the held-out loss is|after step 0");
    lm->position_embedding->data[6 * 4] = 0;

    /* A loss that fails itself, after the last step; of token 4, whose logits are not made of its embedding. */
    config.tied = 0;
    assert_ok(ppo_lm_create(&config, &apart));
    apart->token_embedding->data[4 * 4] = INFINITY;
    ppo_tokens_clear(&data);
    assert_ok(ppo_tokens_add(&data, token, 3, 0));
    fit.held_out_rejected = &held_out, fit.evaluate_first = 0;
    assert_fails(ppo_fit_dpo(apart, lm, &data, &data, &fit), PPO_ERROR_NUMERIC, "pair 0 gives");
    ppo_tokens_free(&data), ppo_tokens_free(&held_out);
    ppo_lm_free(lm), ppo_lm_free(apart);
}

/* --------------------------------------------------------------------------------------------------------
   Files
   -------------------------------------------------------------------------------------------------------- */

static void put_file(const unsigned char *bytes, size_t n) {
    FILE *out = fopen("file", "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
}

/* Before version 0.3 1e-8 was added to a variance where it was used; now it is, where an old file is read. */
static void variances_of_old_files_get_what_was_added_to_them(void **state) {
    (void)state;
    const struct {
        const unsigned char *bytes;
        size_t size;
    } old[] = {{g_discrete_policy, sizeof g_discrete_policy},
               {g_v0_1_discrete_policy, sizeof g_v0_1_discrete_policy}};
    for (int i = 0; i < COUNT(old); i++) {
        ppo_file *file = NULL;
        ppo_agent *agent = NULL;
        put_file(old[i].bytes, old[i].size);
        assert_ok(ppo_file_read("file", &file));
        assert_ok(ppo_agent_load("file", NULL, &agent));
        assert_int_equal(agent->obs_norm.size, 2);
        assert_int_equal(agent->return_norm.size, 1);
        for (int j = 0; j < 3; j++) {
            const ppo_array *array = ppo_file_find(file, j < 2 ? "obs_norm.var" : "return_norm.var");
            double was;
            assert_non_null(array);
            memcpy(&was, (const char *)array->data + (j < 2 ? (size_t)j * sizeof was : 0), sizeof was);
            assert_true((j < 2 ? agent->obs_norm.var[j] : agent->return_norm.var[0]) == was + 1e-8);
        }
        ppo_agent_free(agent);
        ppo_file_free(file);
        remove("file");
    }
}

static void both_bounds_of_a_box_in_a_file_must_be_numbers(void **state) {
    (void)state;
    static const char *const texts[] = {"box 1 x 2", "box 1 -1 x", "box 1 x y"};
    ppo_env env = reach_env();
    ppo_config config = ppo_config_default();
    ppo_agent *agent = NULL;
    env.action_space = ppo_box(1, -1, 1);
    config.hidden[0] = 4, config.hidden_layers = 1;
    assert_ok(ppo_agent_create(&env, &config, &agent));
    for (int i = 0; i < COUNT(texts); i++) {
        ppo_file *file = NULL;
        ppo_agent *back = NULL;
        assert_ok(ppo_agent_save(agent, "file"));
        assert_ok(ppo_file_read("file", &file));
        assert_ok(ppo_file_set_text(file, "action_space", texts[i]));
        assert_ok(ppo_file_write(file, "file"));
        assert_fails(ppo_agent_load("file", NULL, &back), PPO_ERROR_FILE, "invalid action_space|box 1");
        assert_null(back);
        ppo_file_free(file);
    }
    ppo_agent_free(agent);
    remove("file");
}

static void a_file_of_tokens_without_sequences_says_how_many_it_has(void **state) {
    (void)state;
    const int token[5] = {1, 2, 3, 4, 5}, start[1] = {0};
    const int64_t five = 5, one = 1;
    ppo_file *file = NULL;
    ppo_tokens tokens = {0};
    assert_ok(ppo_file_create(&file));
    assert_ok(ppo_file_add(file, "tokens", PPO_I32, &five, 1, token));
    assert_ok(ppo_file_add(file, "tokens.start", PPO_I32, &one, 1, start));
    assert_ok(ppo_file_write(file, "file"));
    ppo_file_free(file);
    assert_fails(ppo_tokens_load("file", &tokens), PPO_ERROR_FILE, "5 tokens in 0 sequences");
    ppo_tokens_free(&tokens);
    remove("file");
}

/* What a checkpoint has besides weights and their moments: names, types and shapes. Whoever changes a line here changes
   what files hold: older ones must still be read. */
static const char layout_of_walk[] =
    "environments.action_rng u32 3 11; environments.discounted f32 3 1; environments.fresh i32 1 1; "
    "environments.length i32 3 1; environments.observation f32 3 2; environments.recurrent_state f32 3 3; "
    "environments.return f64 3 1; environments.rng u32 3 11; environments.start u8 3 1; "
    "environments.state u8 3 64; environments.steps i64 3 1; obs_norm.count f64; obs_norm.mean f64 2; "
    "obs_norm.var f64 2; return_norm.count f64; return_norm.mean f64 1; return_norm.var f64 1; "
    "trainer.counters i64 1 5; trainer.kl_coef f32 1 1; trainer.last_length i32 1 100; "
    "trainer.last_metrics f32 8 100; trainer.last_return f32 1 100; trainer.rate f32 1 1; "
    "trainer.seconds f64 1 1; trainer.shuffle_rng u32 1 11; ";
static const char layout_of_opened[] =
    "environments.action_rng u32 2 11; environments.discounted f32 2 1; environments.episode_rng u32 2 11; "
    "environments.fresh i32 1 1; environments.length i32 2 1; environments.observation f32 2 2; "
    "environments.played u32 2 20; environments.return f64 2 1; environments.rng u32 2 11; "
    "environments.start u8 2 1; environments.steps i64 2 1; trainer.counters i64 1 5; "
    "trainer.kl_coef f32 1 1; trainer.last_length i32 1 100; trainer.last_return f32 1 100; trainer.seconds "
    "f64 1 1; "
    "trainer.shuffle_rng u32 1 11; ";
static const char layout_of_connect4[] =
    "environments.action_rng u32 4 11; environments.age i32 2 1; environments.discounted f32 4 1; "
    "environments.earned f32 4 1; environments.fresh i32 1 1; environments.length i32 4 1; "
    "environments.match_rng u32 2 11; environments.observation f32 4 84; environments.open u8 4 1; "
    "environments.player i32 4 1; environments.return f64 4 1; environments.rng u32 2 11; "
    "environments.start u8 4 1; environments.state u8 2 64; environments.steps i64 4 1; "
    "environments.turn u8 4 1; open.choices i32 4 1; open.logp f32 4 1; open.mask u8 4 7; "
    "open.observation f32 4 84; open.policy f32 4 7; trainer.counters i64 1 5; trainer.kl_coef f32 1 1; "
    "trainer.last_length i32 1 100; trainer.last_return f32 1 100; trainer.seconds f64 1 1; "
    "trainer.shuffle_rng u32 1 11; trainer.snapshots i64 1 1; ";
static const char layout_of_pair[] =
    "environments.action_rng u32 4 11; environments.age i32 2 1; environments.discounted f32 4 1; "
    "environments.earned f32 4 1; environments.fresh i32 1 1; environments.length i32 4 1; "
    "environments.observation f32 4 3; environments.open u8 4 1; environments.recurrent_state f32 4 3; "
    "environments.return f64 4 1; environments.rng u32 2 11; environments.start u8 4 1; "
    "environments.state u8 2 64; environments.steps i64 4 1; environments.turn u8 4 1; open.box f32 4 2; "
    "open.log_std f32 4 2; open.logp f32 4 1; open.observation f32 4 1; open.observation_bytes u8 4 2; "
    "open.policy f32 4 2; open.recurrent_state f32 4 3; open.start u8 4 1; trainer.counters i64 1 5; "
    "trainer.kl_coef f32 1 1; trainer.last_length i32 1 100; trainer.last_return f32 1 100; "
    "trainer.seconds f64 1 1; trainer.shuffle_rng u32 1 11; ";
static const char layout_of_rlhf[] =
    "rlhf.counters i64 1 6; rlhf.entropy_coef f32 1 1; rlhf.first f32 1 5; rlhf.kl_coef f32 1 1; "
    "rlhf.rate_factor f32 1 1; rlhf.reward_mean f64 1 1; rlhf.reward_var f64 1 1; rlhf.seconds f64 1 1; ";
static const char layout_of_fit[] =
    "fit.best_loss f32 1 1; fit.counters i64 1 5; fit.seconds f64 1 1; reference.chosen f32 4; "
    "reference.held_out_chosen f32 3; reference.held_out_rejected f32 3; reference.rejected f32 4; ";

static void check_layout(const char *expected) {
    static const char *const kinds[] = {"trainer.",           "environments.", "open.", "obs_norm.",
                                        "return_norm.",       "rlhf.",         "fit.",  "reference.chosen",
                                        "reference.rejected", "reference.held"};
    static const char *const types[] = {"bool", "u8",  "f16", "bf16", "i32",
                                        "u32",  "f32", "f64", "i64",  "u64"};
    static char text[1 << 13];
    size_t n = 0;
    ppo_file *file = NULL;
    assert_ok(ppo_file_read("file", &file));
    *text = 0;
    for (int i = 0; i < ppo_file_count(file); i++) {
        const ppo_array *a = ppo_file_at(file, i);
        int is = 0;
        for (int k = 0; k < COUNT(kinds); k++) is |= !strncmp(a->name, kinds[k], strlen(kinds[k]));
        if (!is) continue;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s %s", a->name, types[a->type]);
        for (int d = 0; d < a->rank; d++)
            n += (size_t)snprintf(text + n, sizeof text - n, " %d", (int)a->shape[d]);
        n += (size_t)snprintf(text + n, sizeof text - n, "; ");
        assert_true(n < sizeof text);
    }
    ppo_file_free(file);
    remove("file");
    assert_string_equal(text, expected);
}

static void train_and_check_layout(const ppo_env *env, const char *settings, const char *expected) {
    ppo_config config = tiny_config();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    assert_ok(ppo_config_set_all(&config, settings));
    assert_ok(ppo_agent_create(env, &config, &agent));
    assert_ok(ppo_trainer_create(env, &config, agent, &trainer));
    assert_ok(ppo_trainer_iterate(trainer, NULL));
    assert_ok(ppo_trainer_save(trainer, "file"));
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    check_layout(expected);
}

static int open_nothing(void *state, void *user, int copy) {
    (void)state, (void)user, (void)copy;
    return 0;
}

/* Two agents, which see two pixels and a number. */
static void pair_see(float *obs, ppo_rng *rng) {
    for (int j = 0; j < 6; j++) obs[j] = (float)ppo_rng_below(rng, 256);
}

static void pair_reset(void *state, ppo_rng *rng, float *obs, ppo_outcome *out) {
    (void)state, (void)out;
    pair_see(obs, rng);
}

static void pair_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    (void)state;
    for (int i = 0; i < 2; i++) out[i].reward = action[i].box ? action[i].box[0] : 0;
    pair_see(obs, rng);
}

static void arrays_of_a_checkpoint_have_these_types_and_shapes(void **state) {
    (void)state;
    ppo_env env = walk_env(), opened = walk_env(), game = connect4_env(), pair = {0};
    env.metrics[0] = "goals";
    opened.open = open_nothing;
    pair.obs_size = 3, pair.shape[0] = 1, pair.shape[1] = 1, pair.shape[2] = 2, pair.byte_scale = 1;
    pair.action_space = ppo_box(2, -1, 1), pair.agents = 2, pair.max_steps = 5;
    pair.reset_all = pair_reset, pair.step_all = pair_step;
    train_and_check_layout(&env,
                           "normalize_obs=yes normalize_reward=yes recurrent=3 lr_target_kl=0.01 num_envs=3 "
                           "learning_rate_schedule=constant",
                           layout_of_walk);
    train_and_check_layout(&opened, "", layout_of_opened);
    train_and_check_layout(&game, "self_play=2 objective=kl-penalty num_envs=4", layout_of_connect4);
    train_and_check_layout(&pair, "recurrent=3 objective=kl-penalty gsde=yes num_envs=4", layout_of_pair);
}

/* An environment is brought back by its state, or with open() by playing again: a file has the one or the other. */
static void a_checkpoint_knows_whether_its_environment_opens(void **state) {
    (void)state;
    const ppo_config config = tiny_config();
    ppo_env env[2] = {walk_env(), walk_env()};
    env[1].open = open_nothing;
    for (int k = 0; k < 2; k++) {
        ppo_agent *agent = NULL;
        ppo_trainer *trainer = NULL;
        assert_ok(ppo_agent_create(&env[k], &config, &agent));
        assert_ok(ppo_trainer_create(&env[k], &config, agent, &trainer));
        assert_ok(ppo_trainer_iterate(trainer, NULL));
        assert_ok(ppo_trainer_save(trainer, "file"));
        ppo_trainer_free(trainer), ppo_agent_free(agent);
        assert_fails(ppo_trainer_resume("file", &env[!k], NULL, &agent, &trainer), PPO_ERROR_FILE,
                     k ? "saved with an environment with open(), not without it"
                       : "saved with an environment without open(), not with it");
        assert_true(!agent && !trainer);
        assert_ok(ppo_trainer_resume("file", &env[k], NULL, &agent, &trainer));
        ppo_trainer_free(trainer), ppo_agent_free(agent);
        remove("file");
    }
}

static void arrays_of_a_checkpoint_of_tokens_have_these_types_and_shapes(void **state) {
    (void)state;
    ppo_rlhf_config config = ppo_rlhf_config_default();
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_rlhf *rlhf = NULL;
    ppo_lm *lm = tiny_lm(8), *reference = tiny_lm(8);
    ppo_tokens prompts = {0}, held_out = {0};
    const int token[4] = {1, 2, 3, 4};
    for (int i = 0; i < 4; i++) assert_ok(ppo_tokens_add(&prompts, token, 3, 2));
    for (int i = 0; i < 3; i++) assert_ok(ppo_tokens_add(&held_out, token, 4, 2));
    config.prompts = 4, config.minibatch_size = 4, config.epochs = 1, config.sampling.max_new_tokens = 4;
    assert_ok(ppo_rlhf_create(lm, NULL, NULL, &prompts, one_each, NULL, &config, &rlhf));
    assert_ok(ppo_rlhf_iterate(rlhf, NULL));
    assert_ok(ppo_rlhf_save(rlhf, "file"));
    ppo_rlhf_free(rlhf);
    check_layout(layout_of_rlhf);
    fit.held_out = fit.held_out_rejected = &held_out, fit.evaluate_every = 1, fit.patience = 2;
    fit.batch_size = 2, fit.checkpoint = "file", fit.checkpoint_every = 1;
    assert_ok(ppo_fit_dpo(lm, reference, &prompts, &prompts, &fit));
    check_layout(layout_of_fit);
    fit.held_out_rejected = NULL;
    assert_ok(ppo_fit_sft(lm, &prompts, &fit));
    static const char *const sets[] = {"data", "rejected", "held_out", "held_out_rejected"};
    ppo_file *file = NULL; /* it knows the data that there are */
    assert_ok(ppo_file_read("file", &file));
    for (int i = 0; i < COUNT(sets); i++) {
        char key[40];
        snprintf(key, sizeof key, "saved_with.%s", sets[i]);
        assert_int_equal(ppo_file_text(file, key) != NULL, i % 2 == 0);
    }
    ppo_file_free(file);
    remove("file");
    ppo_tokens_free(&prompts), ppo_tokens_free(&held_out);
    ppo_lm_free(lm), ppo_lm_free(reference);
}

/* --------------------------------------------------------------------------------------------------------
   Policies of 8 bits
   -------------------------------------------------------------------------------------------------------- */

static void read_file(char text[1 << 16]) {
    char *whole = NULL;
    size_t n;
    assert_ok(ppo_text_load("policy.h", &whole, &n));
    assert_true(n < 1 << 16);
    memcpy(text, whole, n + 1);
    ppo_text_free(whole);
}

/* The numbers of a weight's array that are not 0; none may be above 127. */
static int weights_in(const char *text, const char *name) {
    int count = 0, at, number;
    text = strstr(text, name);
    assert_non_null(text);
    text = strchr(text, '{') + 1;
    for (; sscanf(text, " %d,%n", &number, &at) == 1; text += at) {
        assert_in_range(abs(number), 0, 127);
        count += number != 0;
    }
    return count;
}

static void a_unit_without_weights_leaves_those_of_others(void **state) {
    (void)state;
    static char text[1 << 16];
    const ppo_env env = walk_env();
    const ppo_config config = tiny_config();
    ppo_agent *agent = NULL;
    assert_ok(ppo_agent_create(&env, &config, &agent));
    const ppo_tensor *w = agent->model.actor.weight[0];
    for (int i = 0; i < w->rows; i++) w->data[i * w->cols + 2] = 0;
    assert_ok(ppo_export_c_int8(agent, &env, "unit", "policy.h"));
    read_file(text);
    assert_in_range(weights_in(text, "unit_actor_0_weight["), 10,
                    12); /* of 14, two are 0; a rounded one may be */
    assert_in_range(weights_in(text, "unit_actor_1_weight["), 14, 21);
    assert_non_null(strstr(text, "output [3]: logits"));
    remove("policy.h");
    ppo_agent_free(agent);
}

/* The whole numbers of a convolution follow from what it gives, not from what those after it make of that. */
static void a_convolution_of_8_bits_knows_its_own_range(void **state) {
    (void)state;
    static char text[1 << 16];
    ppo_env env = walk_env();
    ppo_config config = tiny_config();
    ppo_agent *agent = NULL;
    char line[2][160];
    env.shape[0] = 1, env.shape[1] = env.shape[2] = 6;
    env.obs_size = 36;
    assert_ok(ppo_config_set_all(&config, "conv=2x3x1,2x3x1 activation=relu"));
    assert_ok(ppo_agent_create(&env, &config, &agent));
    const ppo_tensor *w = agent->model.conv.weight[1];
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < w->rows * w->cols && k; i++) w->data[i] *= 1024;
        assert_ok(ppo_export_c_int8(agent, NULL, "seen", "policy.h"));
        read_file(text);
        const char *at = strstr(text, "_conv(x, seen_conv_0");
        assert_non_null(at);
        snprintf(line[k], sizeof line[k], "%.*s", (int)strcspn(at, "\n"), at);
    }
    assert_string_equal(line[0], line[1]);
    remove("policy.h");
    ppo_agent_free(agent);
}

/* What a layer is given has fewer bits, so that its sums have room. */
static void a_policy_of_8_bits_may_have_many_observations(void **state) {
    (void)state;
    static char text[1 << 16];
    ppo_config config = tiny_config();
    ppo_env env = walk_env();
    ppo_agent *agent = NULL;
    env.obs_size = 2300;
    assert_ok(ppo_config_set_all(&config, "hidden=1"));
    assert_ok(ppo_agent_create(&env, &config, &agent));
    const ppo_tensor *w = agent->model.actor.weight[0];
    for (int i = 0; i < w->rows * w->cols; i++) w->data[i] = 0.01f;
    assert_ok(ppo_export_c_int8(agent, NULL, "wide", "policy.h"));
    read_file(text);
    assert_non_null(strstr(text, "_fit(y, 2300, 13, "));
    assert_non_null(strstr(text, "_fit(y, 1, 15, "));
    remove("policy.h");
    ppo_agent_free(agent);
}

typedef struct met {
    float obs[2048 * 2];
    int rows;
} met;

static int meet(const ppo_frame *frame, void *user) {
    met *m = (met *)user;
    memcpy(m->obs + 2 * m->rows, frame->obs, 2 * sizeof(float));
    return ++m->rows == 2048;
}

static void endless_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    fenced_step(state, rng, action, obs, out);
    out->terminated = 0;
}

/* A memory begins anew with each episode that is met: what is met in a single one gives the weights of its observations
   in a row; what is met in many does not. */
static void a_memory_of_8_bits_is_rounded_episode_by_episode(void **state) {
    (void)state;
    static char text[2][1 << 16];
    static met m;
    for (int many = 0; many < 2; many++) {
        ppo_env env = fenced_env();
        ppo_config config = tiny_config();
        ppo_agent *agent = NULL;
        config.recurrent = 4, config.sequence_steps = 4;
        if (!many) env.max_steps = 5000, env.step = endless_step;
        assert_ok(ppo_agent_create(&env, &config, &agent));
        memset(&m, 0, sizeof m);
        for (uint64_t seed = 0; m.rows < 2048; seed++)
            assert_ok(ppo_play(agent, &env, seed, seed % 2, meet, &m, NULL));
        assert_ok(ppo_export_c_int8(agent, &env, "p", "policy.h"));
        read_file(text[0]);
        assert_ok(ppo_export_c_int8_from(agent, m.obs, m.rows, "p", "policy.h"));
        read_file(text[1]);
        assert_int_equal(strcmp(text[0], text[1]) != 0, many);
        remove("policy.h");
        ppo_agent_free(agent);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_unit_without_weights_leaves_those_of_others),
        cmocka_unit_test(a_convolution_of_8_bits_knows_its_own_range),
        cmocka_unit_test(a_policy_of_8_bits_may_have_many_observations),
        cmocka_unit_test(a_memory_of_8_bits_is_rounded_episode_by_episode),
        cmocka_unit_test(a_policy_loss_of_nan_fails_the_tape),
        cmocka_unit_test(a_normalizer_that_could_not_be_made_is_freed),
        cmocka_unit_test(a_dual_clip_of_at_most_one_is_refused),
        cmocka_unit_test(a_rollout_in_which_no_step_ends_is_refused),
        cmocka_unit_test(observations_beyond_a_full_rollout_are_not_counted),
        cmocka_unit_test(a_return_that_is_too_large_costs_one_row),
        cmocka_unit_test(a_critic_that_values_by_no_number_is_told),
        cmocka_unit_test(convolutions_that_reach_the_last_pixel_fit),
        cmocka_unit_test(a_picture_without_channels_is_refused),
        cmocka_unit_test(random_actions_reach_what_a_new_policy_does),
        cmocka_unit_test(the_check_of_an_environment_takes_legal_actions_alone),
        cmocka_unit_test(tokens_per_second_are_tokens_by_seconds),
        cmocka_unit_test(what_kto_cannot_learn_from_is_refused),
        cmocka_unit_test(the_loss_of_kto_needs_each_array_and_columns_of_one),
        cmocka_unit_test(a_loss_of_held_out_data_that_is_no_number_is_told),
        cmocka_unit_test(a_checkpoint_knows_whether_its_environment_opens),
        cmocka_unit_test(variances_of_old_files_get_what_was_added_to_them),
        cmocka_unit_test(both_bounds_of_a_box_in_a_file_must_be_numbers),
        cmocka_unit_test(a_file_of_tokens_without_sequences_says_how_many_it_has),
        cmocka_unit_test(arrays_of_a_checkpoint_have_these_types_and_shapes),
        cmocka_unit_test(arrays_of_a_checkpoint_of_tokens_have_these_types_and_shapes),
    };
    return cmocka_run_group_tests_name("holes", tests, enter_folder, leave_folder);
}
