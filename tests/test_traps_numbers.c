/* Numbers that went wrong in the hands of users: masks, entropies, standard deviations, what files hold. */
#include "../ppo.h"

#include "../examples/companions/ppo_hub.h"
#include "test.h"

/* --------------------------------------------------------------------------------------------------------
   Illegal actions
   -------------------------------------------------------------------------------------------------------- */

/* The fenced walk, with a place that is seen `unit` times as large. */
static float unit;

static void far_reset(void *state, ppo_rng *rng, float *obs) {
    walk_reset(state, rng, obs);
    obs[0] *= unit, obs[1] *= unit;
}

static void far_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    fenced_step(state, rng, action, obs, out);
    obs[0] *= unit, obs[1] *= unit;
}

static ppo_env far_env(void) {
    ppo_env env = fenced_env();
    env.reset = far_reset;
    env.step = far_step;
    return env;
}

static void an_illegal_action_has_probability_0_for_any_finite_logits(void **state) {
    (void)state;
    static const float sizes[] = {1, 1e8f, 1e12f, 1e30f, FLT_MAX};
    enum { COLS = 40, ROWS = 3 };
    FOR_EACH_KERNEL_SET(k) {
        for (int i = 0; i < COUNT(sizes) * 2; i++) {
            const int heads[2] = {i % 2 ? 5 : 33, i % 2 ? 35 : 7};
            float data[ROWS * COLS], grad[ROWS * COLS] = {0}, old[ROWS * COLS];
            unsigned char mask[ROWS * COLS] = {0};
            int action[2 * ROWS];
            ppo_tensor logits = {ROWS, COLS, data, grad}, *logp, *entropy;
            ppo_rng rng = test_rng(i);
            ppo_tape *tape;
            for (int j = 0; j < ROWS * COLS; j++) data[j] = sizes[i / 2] * (j % 3 ? 1.f : -1.f);
            for (int r = 0; r < ROWS; r++) /* row 0 has one legal option in each choice, the others two */
                for (int h = 0; h < 2; h++) {
                    const int at = r * COLS + h * heads[0], one = (7 * r + i) % heads[h];
                    action[2 * r + h] = one;
                    mask[at + one] = 1;
                    data[at + one] = -sizes[i / 2];
                    if (r)
                        mask[at + (one + 2) % heads[h]] = 1, data[at + (one + 2) % heads[h]] = -sizes[i / 2];
                }
            assert_ok(ppo_tape_create(&tape));
            ppo_tensor *masked = ppo_tape_mask(tape, &logits, mask);
            ppo_tape_multi_categorical(tape, masked, heads, 2, action, &logp, &entropy);
            memcpy(old, masked->data, sizeof old);
            ppo_tensor *kl = ppo_tape_multi_categorical_kl(tape, old, heads, 2, masked);
            ppo_tensor *loss = ppo_tape_add(tape, ppo_tape_sub(tape, logp, entropy), kl);
            assert_ok(ppo_tape_backward(tape, ppo_tape_sum(tape, loss)));
            assert_true(logp->data[0] == 0 && entropy->data[0] == 0);
            for (int r = 0; r < ROWS; r++) {
                assert_close(logp->data[r], r ? -2 * log(2) : 0, 1e-6);
                assert_close(entropy->data[r], r ? 2 * log(2) : 0, 1e-6);
                assert_true(kl->data[r] == 0);
                for (int h = 0; h < 2; h++) {
                    const float *row = masked->data + r * COLS + h * heads[0];
                    const unsigned char *legal = mask + r * COLS + h * heads[0];
                    assert_true(legal[ppo_categorical_mode(row, heads[h])]);
                    for (int n = 0; n < 20; n++)
                        assert_true(legal[ppo_categorical_sample(row, heads[h], 1, &rng)]);
                }
            }
            for (int j = 0; j < ROWS * COLS; j++) assert_true(isfinite(grad[j]) && (mask[j] || grad[j] == 0));
            ppo_tape_free(tape);
        }
    }
}

static void illegal_actions_are_not_taken_however_large_the_observations(void **state) {
    (void)state;
    static const char *const settings[] = {"hidden=none", "activation=relu",
                                           "hidden=none objective=kl-penalty"};
    ppo_env env = far_env();
    for (int i = 0; i < 2 * COUNT(settings); i++) {
        ppo_config cfg = ppo_config_default();
        ppo_agent *agent = NULL;
        ppo_action action;
        const unsigned char only[3] = {1, 0, 0};
        const float far[2] = {1.1e9f, 1e12f};
        unit = i % 2 ? 1e12f : 1e10f;
        illegal_actions = 0;
        assert_ok(ppo_config_set_all(&cfg, "total_steps=2048 rollout_steps=128 learning_rate=0.01"));
        assert_ok(ppo_config_set_all(&cfg, settings[i / 2]));
        assert_ok(ppo_train(&env, &cfg, &agent));
        ppo_evaluate(agent, &env, 20, 1);
        assert_int_equal(illegal_actions, 0);
        for (int j = 0; j < 2; j++) {
            assert_ok(ppo_act_masked(agent, far, only, NULL, &action));
            assert_int_equal(action.discrete, 0);
        }
        ppo_agent_free(agent);
    }
}

static void a_policy_that_is_not_finite_is_named_where_an_action_is_legal(void **state) {
    (void)state;
    ppo_env env = fenced_env();
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_action action;
    const unsigned char mask[3] = {0, 1, 1};
    const float obs[2] = {0.5f, 1};
    cfg.hidden_layers = 0;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    agent->model.actor.bias[0]->data[0] = NAN; /* where it is illegal it has no effect */
    assert_ok(ppo_act_masked(agent, obs, mask, NULL, &action));
    assert_true(action.discrete > 0);
    agent->model.actor.bias[0]->data[2] = -INFINITY;
    assert_fails(ppo_act_masked(agent, obs, mask, NULL, &action), PPO_ERROR_NUMERIC,
                 "policy output[2] is -infinite");
    ppo_agent_free(agent);
}

/* --------------------------------------------------------------------------------------------------------
   The entropy of squashed policies
   -------------------------------------------------------------------------------------------------------- */

/* The mean of f(mean + std z), by the trapezoid rule over z in +-12. */
static double mean_of(double (*f)(double u, double z), double mean, double std) {
    const int steps = 24 * (int)fmax(20, 40 * std);
    double sum = 0;
    for (int i = 0; i <= steps; i++) {
        const double z = -12 + 24.0 * i / steps;
        sum += exp(-z * z / 2) * f(mean + std * z, z) * 24 / steps;
    }
    return sum / sqrt(2 * acos(-1));
}
static double log_det_of(double u, double z) {
    return (void)z, 2 * (log(2) - fabs(u) - log1p(exp(-2 * fabs(u))));
}
static double tanh_of(double u, double z) { return (void)z, tanh(u); }
static double tanh_z(double u, double z) { return z * tanh(u); }

static void the_entropy_of_a_squashed_gaussian_and_its_derivatives_are_exact(void **state) {
    (void)state;
    float d_mean, d_log_std;
    ppo_squash_mean_log_det(0.3f, logf(0.5f), -1, 1, &d_mean, &d_log_std);
    assert_close(1 + d_log_std, 0.608541, 1e-5);
    assert_close(d_mean, -0.487069, 1e-5);
    for (int i = -24; i <= 24; i++) {
        for (int j = -8; j <= 9; j++) {
            const float mean = 0.25f * (float)(i * abs(i)) / 4, log_std = 0.5f * (float)j;
            const double std = exp(log_std);
            const float got = ppo_squash_mean_log_det(mean, log_std, -3, 7, &d_mean, &d_log_std);
            const double scale = fmax(1, std);
            assert_true(fabs(got - log(5) - mean_of(log_det_of, mean, std)) < 1e-4 * scale);
            assert_true(fabs(d_mean + 2 * mean_of(tanh_of, mean, std)) < 1e-4);
            assert_true(fabs(d_log_std + 2 * std * mean_of(tanh_z, mean, std)) < 1e-4 * scale);
        }
    }
    for (int j = -1; j <= 1; j += 2) { /* at the bounds of log_std it is finite, and pushes back */
        assert_true(isfinite(ppo_squash_mean_log_det(1, 20.0f * (float)j, -1, 1, &d_mean, &d_log_std)));
        assert_true(isfinite(d_mean) && (j < 0 ? fabsf(d_log_std) < 1e-6f : d_log_std < -1e8f));
    }
}

/* On the tape, for a Gaussian and with state-dependent exploration, at actions that mean nothing: the gradient is that of
   the entropy, which the actions do not enter. */
static void the_entropy_of_a_squashed_policy_has_its_own_gradient_whatever_the_actions(void **state) {
    (void)state;
    enum { ROWS = 70, DIM = 2, MOST = 4096 };
    ppo_env env = reach_env();
    for (int gsde = 0; gsde < 2; gsde++) {
        ppo_config cfg = ppo_config_default();
        ppo_agent *agent = NULL;
        float obs[ROWS], actions[ROWS * DIM], slope[ROWS * DIM], curve[ROWS * DIM], want[MOST];
        ppo_rng rng = test_rng(3 + gsde);
        ppo_tape *tape;
        ppo_inputs inputs = {0};
        ppo_actions taken = {NULL, actions};
        ppo_tensor *logp, *entropy;
        cfg.hidden[0] = 5, cfg.hidden_layers = 1, cfg.squash = 1, cfg.gsde = gsde;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        ppo_params *params = agent->model.params;
        assert_true(params->count <= MOST);
        fill_normal(&rng, params->data, (int)params->count, 0.5f);
        fill_normal(&rng, obs, ROWS, 1);
        fill_normal(&rng, actions, ROWS * DIM, 5);
        inputs.rows = ROWS, inputs.obs = obs;
        assert_ok(ppo_tape_create(&tape));
        ppo_outputs out = ppo_actor_critic_forward(tape, &agent->model, &inputs, PPO_POLICY);
        for (int i = 0; i < ROWS; i++) {
            for (int j = 0; j < DIM; j++) {
                const float log_std = out.log_std->data[gsde ? DIM * i + j : j];
                ppo_squash_mean_log_det(out.policy->data[DIM * i + j], log_std, -1, 1, &slope[DIM * i + j],
                                        &curve[DIM * i + j]);
                curve[DIM * i + j] += 1;
            }
        }
        ppo_tensor *linear =
            ppo_tape_add(tape, ppo_tape_mul(tape, ppo_tape_constant(tape, slope, ROWS, DIM), out.policy),
                         ppo_tape_mul(tape, ppo_tape_constant(tape, curve, ROWS, DIM), out.log_std));
        ppo_params_zero_grad(params);
        assert_ok(ppo_tape_backward(tape, ppo_tape_sum(tape, linear)));
        memcpy(want, params->grad, params->count * sizeof *want);
        ppo_params_zero_grad(params);
        ppo_actor_critic_logp(tape, &agent->model, &out, &taken, &logp, &entropy);
        assert_ok(ppo_tape_backward(tape, ppo_tape_sum(tape, entropy)));
        assert_close_array(params->grad, want, (int)params->count, 1e-5);
        assert_ok(ppo_tape_backward(tape, ppo_tape_sum(tape, logp))); /* one after the other, or together */
        memcpy(want, params->grad, params->count * sizeof *want);
        ppo_params_zero_grad(params);
        assert_ok(ppo_tape_backward(tape, ppo_tape_sum(tape, ppo_tape_add(tape, logp, entropy))));
        assert_close_array(params->grad, want, (int)params->count, 1e-5);
        ppo_tape_free(tape);
        ppo_agent_free(agent);
    }
}

static void the_gradient_of_the_entropy_of_many_rows_has_no_error_of_rounding(void **state) {
    (void)state;
    enum { ROWS = 200000 };
    static float mean[ROWS], grad[ROWS], action[ROWS];
    float log_std[1] = {logf(0.25f)}, grad_log_std[1] = {0}, slope, curve;
    const ppo_space box = ppo_box(1, -1, 1);
    ppo_actor_critic model = {0};
    ppo_tensor policy = {ROWS, 1, mean, grad}, deviation = {1, 1, log_std, grad_log_std}, *entropy;
    ppo_outputs out = {&policy, &deviation, NULL, NULL, NULL};
    ppo_actions actions = {NULL, action};
    ppo_tape *tape;
    model.action_space = box, model.squash = 1;
    for (int i = 0; i < ROWS; i++) mean[i] = 0.3f;
    assert_ok(ppo_tape_create(&tape));
    ppo_actor_critic_logp(tape, &model, &out, &actions, NULL, &entropy);
    assert_ok(ppo_tape_backward(tape, ppo_tape_mean(tape, entropy)));
    ppo_squash_mean_log_det(0.3f, log_std[0], -1, 1, &slope, &curve);
    assert_close(grad_log_std[0], 1 + curve, 1e-6);
    assert_close(grad[ROWS - 1] * ROWS, slope, 1e-5);
    ppo_tape_free(tape);
}

/* Nothing pays here, so the bonus alone teaches: the widest squashed Gaussian has mean 0 and std 0.87. */
static void free_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    reach_step(state, rng, action, obs, out);
    out->reward = 0;
}

static ppo_env free_env(void) {
    ppo_env env = reach_env();
    env.step = free_step;
    return env;
}

static void an_entropy_bonus_makes_a_squashed_policy_wide_not_narrow(void **state) {
    (void)state;
    ppo_env env = free_env();
    for (int i = 0; i < 4; i++) {
        ppo_config cfg = ppo_config_default();
        ppo_agent *agent = NULL;
        assert_ok(ppo_config_set_all(&cfg, "total_steps=24576 entropy_coef=0.05 normalize_advantage=no "
                                           "learning_rate=3e-3 squash=yes hidden=8"));
        cfg.seed = (uint64_t)i;
        cfg.log_std_init = i % 2 ? -2 : 1;
        cfg.rpo_alpha = i == 3 ? 0.3f : 0;
        assert_ok(ppo_train(&env, &cfg, &agent));
        for (int j = 0; j < 2; j++) assert_close(exp(agent->model.log_std->data[j]), 0.87, 0.15);
        for (int j = 0; j < 20; j++) {
            const float obs = 0.1f * (float)(j - 10);
            ppo_action action;
            assert_ok(ppo_act(agent, &obs, NULL, &action));
            assert_true(fabsf(action.box[0]) < 0.35f && fabsf(action.box[1]) < 0.35f);
        }
        ppo_agent_free(agent);
    }
}

/* --------------------------------------------------------------------------------------------------------
   Bounds of the standard deviation
   -------------------------------------------------------------------------------------------------------- */

static float widest;
static int watch_std(const ppo_progress *progress, void *user) {
    (void)user;
    widest = fmaxf(widest, progress->std);
    return 0;
}

static void a_standard_deviation_stays_within_its_bounds(void **state) {
    (void)state;
    ppo_env env = free_env();
    static const char *const settings[] = {"log_std_max=0.5", "log_std_max=0.5 gsde=yes", ""};
    for (int i = 0; i < COUNT(settings); i++) {
        ppo_config cfg = ppo_config_default();
        ppo_agent *agent = NULL;
        widest = 0;
        assert_ok(ppo_config_set_all(&cfg, "total_steps=12288 entropy_coef=1 learning_rate=0.1 hidden=8 "
                                           "learning_rate_schedule=constant"));
        assert_ok(ppo_config_set_all(&cfg, settings[i]));
        cfg.callback = watch_std;
        assert_ok(ppo_train(&env, &cfg, &agent));
        assert_true(widest > 1.5f && widest <= (i < 2 ? expf(0.5f) : expf(20)) * 1.000001f);
        ppo_agent_free(agent);
    }
}

static void a_log_std_beyond_its_bounds_counts_as_the_bound_and_learns_to_come_back(void **state) {
    (void)state;
    ppo_env env = reach_env();
    for (int i = 0; i < 16; i++) {
        const int gsde = i & 1, above = i & 2, inward = i & 4, at_bound = i & 8;
        ppo_config cfg = ppo_config_default();
        ppo_agent *agent = NULL, *again = NULL;
        ppo_tape *tape;
        ppo_inputs inputs = {0};
        float obs = 0.5f, spread = 0;
        ppo_rng rng = test_rng(i);
        cfg.log_std_min = -2, cfg.log_std_max = -1, cfg.log_std_init = -1.5f, cfg.gsde = gsde;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        ppo_tensor *log_std = agent->model.log_std;
        for (size_t k = 0; k < (size_t)log_std->rows * (size_t)log_std->cols; k++)
            log_std->data[k] = at_bound ? above ? -1 : -2 : above ? 3 : -9;
        assert_ok(ppo_tape_create(&tape));
        inputs.rows = 1, inputs.obs = &obs;
        ppo_outputs out = ppo_actor_critic_forward(tape, &agent->model, &inputs, PPO_POLICY);
        double want = above ? -1 : -2, features = 0;
        for (int k = 0; gsde && k < out.features->cols; k++)
            features += (double)out.features->data[k] * out.features->data[k];
        if (gsde) want += 0.5 * log(features);
        assert_close(out.log_std->data[0], want, 1e-3);
        ppo_params_zero_grad(agent->model.params); /* what is minimized: its sum, or the negative of that */
        assert_ok(ppo_tape_backward(
            tape, ppo_tape_sum(tape, ppo_tape_scale(tape, out.log_std, !above == !inward ? 1 : -1, 0))));
        assert_true((log_std->grad[0] != 0) == (inward != 0));
        for (int k = 0; k < 2000; k++) {
            ppo_action action;
            assert_ok(ppo_act(agent, &obs, &rng, &action));
            spread = fmaxf(spread, fabsf(action.box[0]));
        }
        if (!gsde) assert_true(spread > 2 * exp(want) && spread < 5 * exp(want) + 0.05f);
        assert_ok(ppo_agent_save(agent, "build/traps_numbers.safetensors")); /* files keep the bounds */
        assert_ok(ppo_agent_load("build/traps_numbers.safetensors", &env, &again));
        assert_true(again->model.log_std_min == -2 && again->model.log_std_max == -1);
        remove("build/traps_numbers.safetensors");
        ppo_agent_free(again);
        ppo_agent_free(agent);
        ppo_tape_free(tape);
    }
}

static void a_log_std_that_is_not_finite_is_named(void **state) {
    (void)state;
    ppo_env env = reach_env();
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_rng rng = test_rng(1);
    ppo_action action;
    const float obs = 0;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    agent->model.log_std->data[1] = NAN;
    assert_fails(ppo_trainer_iterate(trainer, NULL), PPO_ERROR_NUMERIC,
                 "log_std[1] is NaN (environment 0, step 0)");
    assert_fails(ppo_act(agent, &obs, &rng, &action), PPO_ERROR_NUMERIC, "log_std[1] is NaN");
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    cfg.log_std_min = 1, cfg.log_std_max = 2;
    assert_fails(ppo_config_check(&cfg), PPO_ERROR_ARGUMENT, "log_std_init is 0|log_std_min|1 to 2");
}

/* --------------------------------------------------------------------------------------------------------
   Numbers in files
   -------------------------------------------------------------------------------------------------------- */

#define FOLDER "build/traps_numbers_model"
#define QWEN                                                                                              \
    "{\"model_type\": \"qwen2\", \"vocab_size\": 9, \"max_position_embeddings\": 8, \"hidden_size\": 8, " \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"intermediate_size\": 8, \"rms_norm_eps\": "  \
    "1e-6, \"hidden_act\": \"silu\", \"tie_word_embeddings\": true, \"use_sliding_window\": true, "       \
    "\"sliding_window\": 4, "

/* What a folder's config.json says: "count LAYERS EOS", the layers with a window as bits; or why it is refused. */
static void read_config(const char *more, char said[256]) {
    char text[1024];
    ppo_lm *lm = NULL;
    snprintf(text, sizeof text, QWEN "%s}", more);
    assert_ok(ppo_text_save(FOLDER "/config.json", text, strlen(text)));
    if (ppo_lm_load(FOLDER, &lm)) snprintf(said, 256, "%s", ppo_last_error());
    else snprintf(said, 256, "%d %d %d", lm->full.window, (int)lm->full.window_layers, lm->full.eos);
    ppo_lm_free(lm);
}

static void a_number_in_a_file_that_failed_or_is_too_large_is_not_used(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"\"max_window_layers\": 1, \"eos_token_id\": 3", "4 2 3"},
        {"\"max_window_layers\": 1, \"eos_token_id\": [3, 5]", "4 2 3"},
        {"\"max_window_layers\": 1, \"eos_token_id\": 4294967299",
         "4 2 -1"}, /* which is not token 0, nor 3 */
        {"\"max_window_layers\": 1, \"eos_token_id\": 99999999999999999999", "4 2 -1"},
        {"\"max_window_layers\": 4294967296", "0 0 -1"}, /* no layer */
        {"\"max_window_layers\": 99999999999999999999", "max_window_layers"},
        {"\"layer_types\": [\"full_attention\", -1]", "whole number"},
        {"\"layer_types\": [\"full_attention\", 1.5]", "whole number"},
        {"\"layer_types\": [[[\"full_attention\", \"sliding_attention\"], -1]]", "whole number"},
        {"\"layer_types\": [[[\"full_attention\"], 99999999999999999999]]", "whole number"},
    };
    ppo_lm_config c;
    ppo_lm *lm = NULL;
    char said[256];
    int end[2], count;
    assert_ok(ppo_settings_set_all(ppo_lm_settings(), (c = ppo_lm_config_default(), &c),
                                   "vocab=9 context=8 width=8 layers=2 heads=2"));
    assert_ok(ppo_lm_config_family(&c, "qwen2"));
    c.hidden = 8, c.norm_eps = 1e-6f, c.tied = 1;
    assert_ok(ppo_lm_create(&c, &lm));
    remove(FOLDER "/config.json"); /* of a run that failed */
    assert_ok(ppo_lm_save(lm, FOLDER, PPO_F32));
    ppo_lm_free(lm);
    for (int i = 0; i < COUNT(cases); i++) {
        read_config(cases[i][0], said);
        if (!strstr(said, cases[i][1])) fail_msg("%s: %s", cases[i][0], said);
    }
    read_config("\"eos_token_id\": 2147483648", said);
    assert_fails(ppo_lm_load_ends(FOLDER, end, 2, &count), PPO_ERROR_FILE, "below 2^31");
    remove(FOLDER "/config.json"), remove(FOLDER "/model.safetensors"), remove(FOLDER);
}

/* Presets and settings of every table, whose bounds are beyond an int: under a sanitizer no cast overflows. */
static void settings_with_bounds_beyond_an_int_are_read_without_casting_them(void **state) {
    (void)state;
    ppo_rlhf_config rlhf = ppo_rlhf_config_default();
    ppo_config config = ppo_config_default();
    static const char *const presets[] = {"ppo", "grpo", "gspo", "reinforce++-baseline"};
    for (int i = 0; i < COUNT(presets); i++) assert_ok(ppo_rlhf_config_preset(&rlhf, presets[i]));
    assert_ok(ppo_config_preset(&config, "ppo-paper-adaptive-kl"));
    assert_fails(ppo_config_set(&config, "num_envs", "1e300"), PPO_ERROR_ARGUMENT, "num_envs");
    assert_fails(ppo_config_set(&config, "total_steps", "-1e300"), PPO_ERROR_ARGUMENT, "total_steps");
    assert_fails(ppo_config_set(&config, "objective", "nan"), PPO_ERROR_ARGUMENT, "objective");
}

static void functions_without_a_status_take_null(void **state) {
    (void)state;
    int x[2] = {1, 2};
    float logits[2] = {0, 1};
    ppo_rng rng = test_rng(1);
    ppo_rng_shuffle(&rng, NULL, 2);
    ppo_rng_shuffle(NULL, x, 2);
    assert_true(x[0] == 1 && x[1] == 2);
    assert_int_equal(ppo_categorical_mode(NULL, 2), 0);
    assert_int_equal(ppo_categorical_sample(NULL, 2, 1, &rng), 0);
    assert_int_equal(ppo_categorical_sample(logits, 2, 1, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_illegal_action_has_probability_0_for_any_finite_logits),
        cmocka_unit_test(illegal_actions_are_not_taken_however_large_the_observations),
        cmocka_unit_test(a_policy_that_is_not_finite_is_named_where_an_action_is_legal),
        cmocka_unit_test(the_entropy_of_a_squashed_gaussian_and_its_derivatives_are_exact),
        cmocka_unit_test(the_entropy_of_a_squashed_policy_has_its_own_gradient_whatever_the_actions),
        cmocka_unit_test(the_gradient_of_the_entropy_of_many_rows_has_no_error_of_rounding),
        cmocka_unit_test(an_entropy_bonus_makes_a_squashed_policy_wide_not_narrow),
        cmocka_unit_test(a_standard_deviation_stays_within_its_bounds),
        cmocka_unit_test(a_log_std_beyond_its_bounds_counts_as_the_bound_and_learns_to_come_back),
        cmocka_unit_test(a_log_std_that_is_not_finite_is_named),
        cmocka_unit_test(a_number_in_a_file_that_failed_or_is_too_large_is_not_used),
        cmocka_unit_test(settings_with_bounds_beyond_an_int_are_read_without_casting_them),
        cmocka_unit_test(functions_without_a_status_take_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
