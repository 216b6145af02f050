/* Section 13: multilayer perceptrons and the actor-critic, against PyTorch's and Stable-Baselines3's. */
#include "../ppo.h"

#include "golden/control.h"
#include "golden/core.h"
#include "models.h"

enum { N = 7, OBS = 5 };

/* A golden network with all that was computed from it. */
typedef struct golden {
    ppo_space space;
    int activation, hidden[2], size; /* size: of the flat parameters */
    ppo_actions actions;
    const float *params, *obs, *old_logp, *old_value, *advantage, *value_target, *head, *value, *logp,
        *entropy;
    const float *parts, *grad, *step_loss, *step_norm, *params_after;
} golden;

#define GOLDEN(name)                                                                                     \
    g_##name##_params, g_##name##_obs, g_##name##_old_logp, g_##name##_old_value, g_##name##_advantage,  \
        g_##name##_value_target, g_##name##_head, g_##name##_value, g_##name##_logp, g_##name##_entropy, \
        g_##name##_parts, g_##name##_grad, g_##name##_step_loss, g_##name##_step_norm,                   \
        g_##name##_params_after

static golden golden_network(int continuous) {
    if (continuous) {
        golden g = {ppo_box(g_mlpc_out, -1, 1),     PPO_RELU,    {g_mlpc_h0, g_mlpc_h1}, g_mlpc_params_n,
                    {NULL, (float *)g_mlpc_action}, GOLDEN(mlpc)};
        return g;
    }
    golden g = {ppo_discrete(g_mlp_out),     PPO_TANH,   {g_mlp_h0, g_mlp_h1}, g_mlp_params_n,
                {(int *)g_mlp_action, NULL}, GOLDEN(mlp)};
    return g;
}

static ppo_actor_critic create(int obs_size, ppo_space space, const int *hidden, int layers, int activation,
                               int shared) {
    model_config config = {0};
    ppo_actor_critic model = {0};
    config.obs_size = obs_size;
    config.action_space = space;
    config.hidden = hidden;
    config.layers = layers;
    config.activation = activation;
    config.shared_trunk = shared;
    config.log_std_init = -0.5f;
    config.seed = 1;
    assert_ok(model_init(&model, &config));
    return model;
}

/* The golden order, found by name and not by position: actor, log_std, critic; weight before bias. */
static void visit_flat(const ppo_actor_critic *model, int which, float *flat, int into_model) {
    static const char *const prefixes[] = {"actor.0.",  "actor.1.",  "actor.2.", "actor.log_std",
                                           "critic.0.", "critic.1.", "critic.2."};
    int at = 0;
    for (int p = 0; p < COUNT(prefixes); p++)
        for (int bias = 0; bias < 2; bias++)
            for (int i = 0; i < model->params->tensor_count; i++) {
                const char *name = model->params->names[i];
                if (strncmp(name, prefixes[p], strlen(prefixes[p])) || (strstr(name, "bias") != NULL) != bias)
                    continue;
                ppo_tensor *t = model->params->tensors[i];
                float *block = which ? t->grad : t->data;
                size_t bytes = (size_t)(t->rows * t->cols) * sizeof(float);
                memcpy(into_model ? block : flat + at, into_model ? flat + at : block, bytes);
                at += t->rows * t->cols;
            }
}

typedef struct parts {
    ppo_tensor *policy, *value, *logp, *entropy, *policy_loss, *value_loss, *mean_entropy, *total;
} parts;

static parts build_total(ppo_tape *tape, const ppo_actor_critic *model, const golden *g) {
    static const ppo_policy_objective clip = {PPO_CLIP, 0.2f, 0.2f, 0, 0};
    ppo_outputs out = ask(tape, model, g->obs, N);
    parts p = {.policy = out.policy, .value = out.value};
    ppo_actor_critic_logp(tape, model, &out, &g->actions, &p.logp, &p.entropy);
    p.policy_loss = ppo_tape_policy_loss(tape, p.logp, g->old_logp, g->advantage, NULL, &clip, NULL);
    p.value_loss = ppo_tape_value_loss(tape, p.value, NULL, g->value_target, NULL, 0, INFINITY);
    p.mean_entropy = ppo_tape_mean(tape, p.entropy);
    p.total =
        ppo_tape_sub(tape, ppo_tape_add(tape, p.policy_loss, ppo_tape_scale(tape, p.value_loss, 0.5f, 0)),
                     ppo_tape_scale(tape, p.mean_entropy, 0.01f, 0));
    return p;
}

static void forward_and_loss_and_gradient_agree_with_pytorch(void **state) {
    (void)state;
    FOR_KERNEL_SETS(set) {
        for (int continuous = 0; continuous < 2; continuous++) {
            golden g = golden_network(continuous);
            ppo_actor_critic model = create(OBS, g.space, g.hidden, 2, g.activation, 0);
            ppo_tape *tape;
            float flat[256];
            assert_ok(ppo_tape_create(&tape));
            memcpy(flat, g.params, (size_t)g.size * sizeof(float));
            visit_flat(&model, 0, flat, 1);
            parts p = build_total(tape, &model, &g);
            assert_ok(ppo_tape_backward(tape, p.total));
            assert_close_array(p.policy->data, g.head, N * g.space.n, 1e-6);
            assert_close_array(p.value->data, g.value, N, 1e-6);
            assert_close_array(p.logp->data, g.logp, N, 1e-6);
            assert_close_array(p.entropy->data, g.entropy, N, 1e-6);
            const float losses[4] = {p.policy_loss->data[0], p.value_loss->data[0], p.mean_entropy->data[0],
                                     p.total->data[0]};
            assert_close_array(losses, g.parts, 4,
                               1e-6); /* relative to the largest: the total nearly cancels */
            visit_flat(&model, 1, flat, 0);
            assert_close_array(flat, g.grad, g.size, 2e-6);
            ppo_tape_free(tape);
            ppo__actor_critic_free(&model);
        }
    }
}

static void three_training_steps_end_where_pytorch_ends(void **state) {
    (void)state;
    for (int continuous = 0; continuous < 2; continuous++) {
        golden g = golden_network(continuous);
        ppo_actor_critic model = create(OBS, g.space, g.hidden, 2, g.activation, 0);
        ppo_adam adam = ppo_adam_default();
        ppo_tape *tape;
        float flat[256], norm;
        assert_ok(ppo_tape_create(&tape));
        memcpy(flat, g.params, (size_t)g.size * sizeof(float));
        visit_flat(&model, 0, flat, 1);
        for (int step = 0; step < 3; step++) {
            ppo_tape_reset(tape);
            parts p = build_total(tape, &model, &g);
            ppo_params_zero_grad(model.params);
            assert_ok(ppo_tape_backward(tape, p.total));
            assert_true(fabs(p.total->data[0] - g.step_loss[step]) < 1e-6);
            assert_ok(ppo_params_step(model.params, &adam, 0.5f, &norm));
            assert_close(norm, g.step_norm[step], 1e-5);
        }
        visit_flat(&model, 0, flat, 0);
        for (int i = 0; i < g.size; i++) /* a step is 3e-4: this is a thousandth of what was gone */
            assert_true(fabs(flat[i] - g.params_after[i]) < 1e-6);
        ppo_tape_free(tape);
        ppo__actor_critic_free(&model);
    }
}

/* Largest deviation of W^T W (tall) or W W^T (wide) from gain^2 I. */
static double off_orthogonal(const ppo_tensor *w, double gain) {
    int tall = w->rows >= w->cols, n = tall ? w->cols : w->rows, m = tall ? w->rows : w->cols;
    double worst = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double dot = 0;
            for (int k = 0; k < m; k++)
                dot += tall ? (double)w->data[k * w->cols + i] * w->data[k * w->cols + j]
                            : (double)w->data[i * w->cols + k] * w->data[j * w->cols + k];
            worst = fmax(worst, fabs(dot / (gain * gain) - (i == j)));
        }
    return worst;
}

static const int widths[3] = {16, 8, 12};

static void initial_weights_are_orthogonal_with_their_gains_and_biases_zero(void **state) {
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        ppo_actor_critic model = create(10, ppo_box(3, -1, 1), widths, 3, PPO_TANH, shared);
        for (int i = 0; i < model.params->tensor_count; i++) {
            const ppo_tensor *t = model.params->tensors[i];
            const char *name = model.params->names[i];
            int head = shared || strstr(name, ".3.") != NULL; /* of the actor or the critic */
            double gain = sqrt(2);
            if (head && strncmp(name, "actor", 5) == 0) gain = 0.01;
            if (head && strncmp(name, "critic", 6) == 0) gain = 1;
            if (strstr(name, ".weight")) assert_true(off_orthogonal(t, gain) < 2e-6);
            for (int k = 0; k < t->cols && t->rows == 1 && !strstr(name, ".weight"); k++)
                assert_true(t->data[k] == (strstr(name, "log_std") ? -0.5f : 0.0f));
        }
        ppo__actor_critic_free(&model);
    }
}

static int has_parameter(const ppo_actor_critic *model, const char *name, int rows, int cols) {
    for (int i = 0; i < model->params->tensor_count; i++) {
        const ppo_tensor *t = model->params->tensors[i];
        if (strcmp(model->params->names[i], name) == 0) return t->rows == rows && t->cols == cols;
    }
    return 0;
}

static void parameters_have_the_names_and_shapes_that_were_promised(void **state) {
    (void)state;
    ppo_actor_critic own = create(10, ppo_discrete(4), widths, 3, PPO_TANH, 0),
                     shared = create(10, ppo_box(3, -1, 1), widths, 3, PPO_RELU, 1);
    ppo_actor_critic linear = create(10, ppo_discrete(4), NULL, 0, PPO_TANH, 1);
    assert_int_equal(own.params->tensor_count, 16);
    assert_true(has_parameter(&own, "actor.0.weight", 10, 16) && has_parameter(&own, "actor.0.bias", 1, 16));
    assert_true(has_parameter(&own, "actor.2.weight", 8, 12) && has_parameter(&own, "actor.3.weight", 12, 4));
    assert_true(has_parameter(&own, "critic.3.weight", 12, 1) && has_parameter(&own, "critic.3.bias", 1, 1));
    assert_null(own.log_std);
    assert_int_equal(shared.params->tensor_count, 6 + 2 + 2 + 1);
    assert_true(has_parameter(&shared, "trunk.2.weight", 8, 12) &&
                has_parameter(&shared, "actor.0.weight", 12, 3));
    assert_true(has_parameter(&shared, "critic.0.weight", 12, 1) && shared.log_std->cols == 3);
    assert_int_equal(linear.params->tensor_count, 4);
    assert_true(has_parameter(&linear, "actor.0.weight", 10, 4) &&
                has_parameter(&linear, "critic.0.weight", 10, 1));
    ppo__actor_critic_free(&own);
    ppo__actor_critic_free(&shared);
    ppo__actor_critic_free(&linear);
}

static void the_same_seed_gives_the_same_weights_and_another_one_others(void **state) {
    (void)state;
    model_config config = {0};
    ppo_actor_critic a, b, c;
    config.obs_size = 4, config.action_space = ppo_discrete(2), config.hidden = widths, config.layers = 2;
    config.activation = PPO_TANH, config.seed = 7;
    assert_ok(model_init(&a, &config));
    assert_ok(model_init(&b, &config));
    config.seed = 8;
    assert_ok(model_init(&c, &config));
    assert_int_equal(a.params->count, b.params->count);
    assert_false(bits_differ(a.params->data, b.params->data, a.params->count));
    assert_true(bits_differ(a.params->data, c.params->data, a.params->count));
    ppo__actor_critic_free(&a);
    ppo__actor_critic_free(&b);
    ppo__actor_critic_free(&c);
}

static double gradient_size(const ppo_actor_critic *model, const char *prefix) {
    double sum = 0;
    for (int i = 0; i < model->params->tensor_count; i++) {
        const ppo_tensor *t = model->params->tensors[i];
        if (strncmp(model->params->names[i], prefix, strlen(prefix))) continue;
        for (int k = 0; k < t->rows * t->cols; k++) sum += fabs(t->grad[k]);
    }
    return sum;
}

/* from: 0 policy, 1 value, 2 both */
static void backward_from(ppo_actor_critic *model, int from) {
    ppo_tape *tape;
    memset(model->params->grad, 0, model->params->count * sizeof(float));
    assert_ok(ppo_tape_create(&tape));
    ppo_outputs out = ask(tape, model, g_mlp_obs, N);
    ppo_tensor *a = ppo_tape_sum(tape, ppo_tape_square(tape, out.policy)),
               *b = ppo_tape_sum(tape, ppo_tape_square(tape, out.value));
    assert_ok(ppo_tape_backward(tape, from == 0 ? a : from == 1 ? b : ppo_tape_add(tape, a, b)));
    ppo_tape_free(tape);
}

static void a_shared_trunk_gets_the_gradients_of_both_heads(void **state) {
    (void)state;
    ppo_actor_critic model = create(OBS, ppo_discrete(3), widths, 2, PPO_TANH, 1);
    float sum[1024];
    assert_true(model.params->count <= COUNT(sum));
    backward_from(&model, 0);
    assert_true(gradient_size(&model, "trunk.0") > 0 && gradient_size(&model, "actor") > 0);
    assert_true(gradient_size(&model, "critic") == 0);
    memcpy(sum, model.params->grad, model.params->count * sizeof(float));
    backward_from(&model, 1);
    assert_true(gradient_size(&model, "trunk.0") > 0 && gradient_size(&model, "critic") > 0);
    assert_true(gradient_size(&model, "actor") == 0);
    for (size_t i = 0; i < model.params->count; i++) sum[i] += model.params->grad[i];
    backward_from(&model, 2);
    assert_close_array(model.params->grad, sum, (int)model.params->count, 1e-6);
    ppo__actor_critic_free(&model);

    model = create(OBS, ppo_discrete(3), widths, 2, PPO_TANH, 0);
    backward_from(&model, 0);
    assert_true(gradient_size(&model, "critic") == 0 && gradient_size(&model, "actor.0") > 0);
    ppo__actor_critic_free(&model);
}

static void forward_computes_either_result_alone(void **state) {
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        ppo_actor_critic model = create(OBS, ppo_discrete(3), widths, 2, PPO_RELU, shared);
        ppo_tape *tape;
        ppo_inputs inputs = {.rows = N, .obs = g_mlp_obs};
        assert_ok(ppo_tape_create(&tape));
        ppo_outputs both = ask(tape, &model, g_mlp_obs, N);
        ppo_outputs policy = ppo_actor_critic_forward(tape, &model, &inputs, PPO_POLICY);
        ppo_outputs value = ppo_actor_critic_forward(tape, &model, &inputs, PPO_VALUE);
        assert_true(both.policy->rows == N && both.policy->cols == 3);
        assert_true(both.value->rows == N && both.value->cols == 1);
        assert_true(policy.value == NULL && value.policy == NULL);
        assert_false(bits_differ(both.policy->data, policy.policy->data, N * 3));
        assert_false(bits_differ(both.value->data, value.value->data, N));
        ppo_tape_free(tape);
        ppo__actor_critic_free(&model);
    }
}

/* What has no status fails the tape. */
static void null_arguments_of_forward_functions_fail_the_tape(void **state) {
    (void)state;
    ppo_actor_critic model = create(OBS, ppo_discrete(3), widths, 2, PPO_TANH, 0);
    ppo_inputs inputs = {.rows = N, .obs = g_mlp_obs};
    ppo_actions actions = {NULL, NULL};
    ppo_tape *tape;
    assert_ok(ppo_tape_create(&tape));
    for (int i = 0; i < 7; i++) {
        static const char *const words[7] = {"mlp_forward|NULL",          "mlp_forward|NULL",
                                             "actor_critic_forward|NULL", "actor_critic_forward|NULL",
                                             "actor_critic_logp|NULL",    "actor_critic_logp|NULL",
                                             "actor_critic_logp|NULL"};
        ppo_tape_reset(tape);
        ppo_outputs out = ask(tape, &model, g_mlp_obs, N);
        ppo_tensor *x = ppo_tape_constant(tape, g_mlp_obs, N, OBS), *logp = x, *entropy = x;
        if (i == 0) assert_null(ppo_mlp_forward(tape, NULL, x));
        if (i == 1) assert_null(ppo_mlp_forward(tape, &model.actor, NULL));
        if (i == 2) assert_null(ppo_actor_critic_forward(tape, NULL, &inputs, PPO_POLICY).policy);
        if (i == 3) assert_null(ppo_actor_critic_forward(tape, &model, NULL, PPO_POLICY).policy);
        if (i == 4) ppo_actor_critic_logp(tape, NULL, &out, &actions, &logp, &entropy);
        if (i == 5) ppo_actor_critic_logp(tape, &model, NULL, &actions, &logp, &entropy);
        if (i == 6) ppo_actor_critic_logp(tape, &model, &out, NULL, &logp, &entropy);
        if (i >= 4 && i <= 6) assert_true(!logp && !entropy);
        assert_fails(ppo_tape_status(tape), PPO_ERROR_ARGUMENT, words[i]);
    }
    assert_null(ppo_actor_critic_forward(NULL, &model, &inputs, PPO_POLICY).policy);
    ppo_tape_free(tape);
    ppo__actor_critic_free(&model);
}

static void mlp_applies_the_activations_it_was_given(void **state) {
    (void)state;
    static const int sizes[3] = {OBS, 4, 3};
    ppo_params *params;
    ppo_tape *tape;
    ppo_mlp mlp;
    ppo_rng rng = test_rng(1);
    assert_ok(ppo_params_create(&params));
    assert_ok(ppo_tape_create(&tape));
    assert_ok(ppo_mlp_init(&mlp, params, "net", sizes, 2, PPO_RELU, PPO_TANH, 0.5f, &rng));
    assert_int_equal(mlp.layers, 2);
    assert_string_equal(params->names[3], "net.1.bias");
    assert_true(off_orthogonal(mlp.weight[0], sqrt(2)) < 2e-6 && off_orthogonal(mlp.weight[1], 0.5) < 2e-6);
    mlp.bias[0]->data[1] = 0.3f;
    ppo_tensor *x = ppo_tape_constant(tape, g_mlp_obs, N, OBS), *y = ppo_mlp_forward(tape, &mlp, x);
    ppo_tensor *h = ppo_tape_activate(
        tape, ppo_tape_add(tape, ppo_tape_matmul(tape, x, mlp.weight[0]), mlp.bias[0]), PPO_RELU);
    ppo_tensor *want = ppo_tape_activate(
        tape, ppo_tape_add(tape, ppo_tape_matmul(tape, h, mlp.weight[1]), mlp.bias[1]), PPO_TANH);
    assert_ok(ppo_tape_status(tape));
    assert_close_array(y->data, want->data, N * 3, 1e-6);
    ppo_tape_free(tape);
    ppo_params_free(params);
}

/* By PyTorch's defaults every weight and bias of a layer lies within 1 / sqrt(inputs), evenly, and those of a
   recurrent core within 1 / sqrt(width). */
static void uniform_weights_fill_their_range(void **state) {
    (void)state;
    for (int form = 0; form < 4; form++) {
        static const int hidden[2] = {50, 40};
        model_config config = {0};
        ppo_actor_critic model;
        config.obs_size = 30, config.action_space = ppo_box(3, -1, 1), config.hidden = hidden;
        config.layers = 2, config.activation = PPO_TANH, config.shared_trunk = form % 2, config.seed = 3;
        config.log_std_init = -0.5f, config.init = PPO_UNIFORM, config.recurrent = form / 2 * 15;
        assert_ok(model_init(&model, &config));
        for (int i = 0, inputs = 0; i < model.params->tensor_count; i++) {
            const ppo_tensor *t = model.params->tensors[i];
            const char *name = model.params->names[i];
            int n = t->rows * t->cols;
            double squares = 0, largest = 0;
            if (strstr(name, "log_std")) {
                for (int k = 0; k < n; k++) assert_true(t->data[k] == -0.5f);
                continue;
            }
            if (strstr(name, ".weight")) inputs = t->rows; /* its bias comes next */
            if (strstr(name, "core.")) inputs = 15;
            for (int k = 0; k < n; k++) {
                squares += (double)t->data[k] * t->data[k] * inputs / n;
                largest = fmax(largest, fabs((double)t->data[k]) * sqrt(inputs));
            }
            assert_true(largest <= 1.000001);
            if (n >= 40) assert_true(largest > 0.9 && fabs(squares - 1.0 / 3) < 5 * 0.3 / sqrt(n));
        }
        ppo__actor_critic_free(&model);
    }
}

/* --------------------------------------------------------------------------------------------------------
   State-dependent exploration
   -------------------------------------------------------------------------------------------------------- */

enum { SDE = g_sde_n, FEATURES = g_sde_features, DIM = g_sde_dim };

static model_config sde_config(void) {
    static const int features = FEATURES;
    model_config config = {0};
    config.obs_size = g_sde_obs, config.action_space = ppo_box(DIM, -1, 1), config.hidden = &features;
    config.layers = 1, config.activation = PPO_TANH, config.gsde = 1, config.seed = 1;
    config.log_std_init = -1.25f;
    return config;
}

/* The parameters of the golden policy, in the order of its arrays. */
static void sde_parameters(const ppo_actor_critic *model, ppo_tensor **t) {
    t[0] = model->actor.weight[0], t[1] = model->actor.bias[0];
    t[2] = model->actor.weight[1], t[3] = model->actor.bias[1];
    t[4] = model->log_std;
}

static void state_dependent_exploration_agrees_with_stable_baselines3(void **state) {
    (void)state;
    static const float *const values[] = {g_sde_hidden_weight, g_sde_hidden_bias, g_sde_head_weight,
                                          g_sde_head_bias, g_sde_log_std};
    static const float *const grads[] = {g_sde_grad_hidden_weight, g_sde_grad_hidden_bias,
                                         g_sde_grad_head_weight, g_sde_grad_head_bias, g_sde_grad_log_std};
    model_config config = sde_config();
    ppo_actor_critic model;
    ppo_tensor *t[5], *logp, *entropy;
    ppo_actions actions = {NULL, (float *)g_sde_action};
    ppo_tape *tape;
    float std[SDE * DIM];
    assert_ok(model_init(&model, &config));
    assert_ok(ppo_tape_create(&tape));
    sde_parameters(&model, t);
    assert_true(t[4]->rows == FEATURES && t[4]->cols == DIM);
    for (int i = 0; i < FEATURES * DIM; i++) assert_true(t[4]->data[i] == -1.25f);
    for (int k = 0; k < 5; k++)
        memcpy(t[k]->data, values[k], (size_t)(t[k]->rows * t[k]->cols) * sizeof(float));
    FOR_KERNEL_SETS(set) {
        ppo_tape_reset(tape);
        ppo_outputs out = ask(tape, &model, g_sde_seen, SDE);
        ppo_actor_critic_logp(tape, &model, &out, &actions, &logp, &entropy);
        ppo_tensor *a = ppo_tape_mul(tape, logp, ppo_tape_constant(tape, g_sde_w1, SDE, 1));
        ppo_tensor *b = ppo_tape_mul(tape, entropy, ppo_tape_constant(tape, g_sde_w2, SDE, 1));
        ppo_params_zero_grad(model.params);
        assert_ok(ppo_tape_backward(tape, ppo_tape_sum(tape, ppo_tape_add(tape, a, b))));
        assert_true(out.features->rows == SDE && out.features->cols == FEATURES);
        assert_true(out.log_std->rows == SDE && out.log_std->cols == DIM);
        for (int i = 0; i < SDE * DIM; i++) std[i] = expf(out.log_std->data[i]);
        assert_close_array(out.policy->data, g_sde_mean, SDE * DIM, 1e-6);
        for (int i = 0; i < SDE * DIM; i++) assert_close(std[i], g_sde_std[i], 3e-6);
        assert_close_each(logp->data, g_sde_logp, SDE, 2e-5); /* an error of the mean counts 1 / 0.03 */
        assert_close_each(entropy->data, g_sde_entropy, SDE, 2e-6);
        for (int k = 0; k < 5; k++) assert_close_array(t[k]->grad, grads[k], t[k]->rows * t[k]->cols, 2e-5);
    }
    ppo_tape_free(tape);
    ppo__actor_critic_free(&model);
}

/* The entropy depends on the features only through the exploration: no gradient may take that way. */
static void exploration_teaches_the_features_nothing(void **state) {
    (void)state;
    for (int recurrent = 0; recurrent < 2; recurrent++) {
        model_config config = sde_config();
        ppo_actor_critic model;
        ppo_tensor *entropy;
        ppo_actions actions = {NULL, (float *)g_sde_action};
        ppo_tape *tape;
        config.recurrent = recurrent ? 5 : 0;
        assert_ok(model_init(&model, &config));
        assert_ok(ppo_tape_create(&tape));
        ppo_outputs out = ask(tape, &model, g_sde_seen, SDE);
        ppo_actor_critic_logp(tape, &model, &out, &actions, NULL, &entropy);
        assert_ok(ppo_tape_backward(tape, ppo_tape_mean(tape, entropy)));
        assert_true(gradient_size(&model, "actor.log_std") > 0.1);
        assert_true(gradient_size(&model, "") == gradient_size(&model, "actor.log_std"));
        ppo_tape_free(tape);
        ppo__actor_critic_free(&model);
    }
}

/* --------------------------------------------------------------------------------------------------------
   The kinds of action
   -------------------------------------------------------------------------------------------------------- */

/* A squashed policy's log-probability is that of the action in the box, its entropy likewise has the mean of that
   determinant, and squashing changes nothing about the KL. */
static void a_squashed_policy_gives_the_density_in_the_box(void **state) {
    (void)state;
    model_config config = sde_config();
    ppo_actor_critic model[2];
    ppo_tensor *logp[2], *entropy[2], *kl[2];
    ppo_outputs out;
    ppo_actions actions = {NULL, (float *)g_sde_action};
    float log_det[SDE], old_mean[SDE * DIM], old_log_std[SDE * DIM] = {0};
    ppo_rng rng = test_rng(3);
    ppo_tape *tape;
    assert_ok(ppo_tape_create(&tape));
    config.action_space = ppo_box(DIM, -2, 3);
    fill_normal(&rng, old_mean, SDE * DIM, 1);
    for (int k = 0; k < 2; k++) {
        config.squash = k;
        assert_ok(model_init(&model[k], &config));
        out = ask(tape, &model[k], g_sde_seen, SDE);
        ppo_actor_critic_logp(tape, &model[k], &out, &actions, &logp[k], &entropy[k]);
        kl[k] = ppo__actor_critic_kl(tape, &model[k], &out, old_mean, old_log_std);
        assert_ok(ppo_tape_status(tape));
    }
    ppo_squash_log_det(g_sde_action, SDE, DIM, -2, 3, log_det);
    for (int i = 0; i < SDE; i++) {
        assert_true(logp[1]->data[i] == logp[0]->data[i] - log_det[i]);
        double want = entropy[0]->data[i];
        for (int j = i * DIM; j < i * DIM + DIM; j++)
            want += ppo_squash_mean_log_det(out.policy->data[j], out.log_std->data[j], -2, 3, NULL, NULL);
        assert_close(entropy[1]->data[i], want, 1e-6);
        assert_true(entropy[0]->data[i] != entropy[1]->data[i] && kl[0]->data[i] == kl[1]->data[i]);
    }
    /* the entropy of a squashed policy depends on its mean */
    ppo_params_zero_grad(model[1].params);
    assert_ok(ppo_tape_backward(tape, ppo_tape_mean(tape, entropy[1])));
    assert_true(gradient_size(&model[1], "actor.0") > 0);
    ppo_tape_free(tape);
    ppo__actor_critic_free(&model[0]);
    ppo__actor_critic_free(&model[1]);
}

/* Outputs, actions and KL of every kind of space, from the plain functions of section 7. */
static void policies_over_several_choices_are_those_of_section_7(void **state) {
    (void)state;
    static const int sizes[3] = {2, 4, 3}, bits[4] = {2, 2, 2, 2};
    static const unsigned char mask[N * 9] = {1, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0, 1, 0, 0, 1, 1, 1};
    for (int i = 0; i < 4; i++) {
        ppo_space space = i % 2 ? ppo_multi_binary(4) : ppo_multi_discrete(sizes, 3);
        const int *of = i % 2 ? bits : sizes;
        int heads = space.n, cols = i % 2 ? 8 : 9, action[N * 4] = {0};
        unsigned char all[N * 9];
        ppo_actor_critic model = create(OBS, space, widths, 2, PPO_TANH, 0);
        ppo_inputs inputs = {.rows = N, .obs = g_mlp_obs, .mask = i / 2 ? all : NULL};
        ppo_actions actions = {action, NULL};
        ppo_tensor *logp, *entropy;
        float want[N], want_entropy[N], old[N * 9] = {0};
        ppo_tape *tape;
        assert_ok(ppo_tape_create(&tape));
        memset(all, 1, sizeof all);
        memcpy(all, mask, 18);
        if (i % 2) all[0] = all[7] = all[9] = 1; /* pairs of the two: one is left */
        for (int k = 0; k < N * heads; k++) action[k] = k % of[k % heads];
        for (size_t k = 0; k < model.params->count; k++) model.params->data[k] *= 3; /* not all alike */
        ppo_outputs out = ppo_actor_critic_forward(tape, &model, &inputs, PPO_POLICY);
        ppo_actor_critic_logp(tape, &model, &out, &actions, &logp, &entropy);
        ppo_tensor *kl = ppo__actor_critic_kl(tape, &model, &out, old, NULL);
        assert_ok(ppo_tape_status(tape));
        assert_true(out.policy->rows == N && out.policy->cols == cols && out.log_std == NULL);
        for (int k = 0; k < 2 * cols && inputs.mask; k++)
            assert_true((out.policy->data[k] == -INFINITY) == !all[k]);
        assert_ok(ppo_multi_categorical_logp(out.policy->data, of, heads, action, N, want, want_entropy));
        assert_false(bits_differ(logp->data, want, N));
        assert_false(bits_differ(entropy->data, want_entropy, N));
        assert_ok(ppo_multi_categorical_kl(old, out.policy->data, of, heads, N, want));
        assert_false(bits_differ(kl->data, want, N));
        ppo_tape_free(tape);
        ppo__actor_critic_free(&model);
    }
}

static void spaces_hold_what_they_were_given(void **state) {
    (void)state;
    static const int sizes[3] = {2, 7, 1};
    ppo_space a = ppo_multi_discrete(sizes, 3), b = ppo_multi_binary(128), c = ppo_box(4, -2, 8);
    assert_true(a.kind == PPO_MULTI_DISCRETE && a.n == 3);
    assert_true(a.sizes[0] == 2 && a.sizes[1] == 7 && a.sizes[2] == 1 && a.sizes[3] == 0);
    assert_true(b.kind == PPO_MULTI_BINARY && b.n == 128 && b.sizes[0] == 2 && b.sizes[127] == 2);
    assert_true(c.kind == PPO_BOX && c.n == 4 && c.low == -2 && c.high == 8);
}

static void models_refuse_what_cannot_work(void **state) {
    (void)state;
    static const int zero[1] = {0}, sizes[2] = {3, 2}, bad_sizes[2] = {3, -2};
    model_config good = {0}, c;
    ppo_actor_critic model;
    ppo_params *params;
    ppo_mlp mlp;
    ppo_rng rng = test_rng(2);
    good.obs_size = 3, good.action_space = ppo_discrete(2), good.hidden = widths, good.layers = 1,
    good.activation = PPO_TANH;
#define REFUSE(field, value, words) \
    (c = good, c.field = value, assert_fails(model_init(&model, &c), PPO_ERROR_ARGUMENT, words))
    REFUSE(obs_size, 0, "obs_size|0");
    REFUSE(obs_size, -2, "obs_size|-2");
    REFUSE(hidden, zero, "0");
    REFUSE(activation, 9, "9");
    REFUSE(action_space.kind, 0, "kind|0");
    REFUSE(action_space, ppo_discrete(-1), "-1");
    REFUSE(action_space, ppo_box(0, -1, 1), "0");
    REFUSE(action_space, ppo_box(1, 1, 1), "1");
    REFUSE(action_space, ppo_box(1, NAN, 1), "nan");
    static const int with_zero[3] = {2, 0, 3}, negative[1] = {-4}, many[200] = {2};
    REFUSE(action_space, ppo_multi_discrete(with_zero, 3), "choice 1|0");
    REFUSE(action_space, ppo_multi_discrete(negative, 1), "choice 0|-4");
    REFUSE(action_space, ppo_multi_discrete(sizes, 0), "no actions|0");
    REFUSE(action_space, ppo_multi_discrete(many, 129), "129 choices|128");
    REFUSE(action_space, ppo_multi_binary(200), "200 choices|128");
    REFUSE(action_space, ppo_multi_binary(-1), "no actions|-1");
    REFUSE(recurrent, -1, "width -1");
    good.squash = 1; /* matters for boxes alone */
    REFUSE(action_space, ppo_box(1, -INFINITY, 1), "squash|finite|-inf");
    REFUSE(action_space, ppo_box(1, 0, INFINITY), "squash|finite|inf");
    REFUSE(action_space, ppo_box(1, -3e38f, 3e38f), "squash|finite");
    good.gsde = 1;
    assert_ok(model_init(&model, &good));
    assert_true(!model.squash && !model.gsde && !model.log_std);
    ppo__actor_critic_free(&model);
    assert_ok(ppo_params_create(&params));
    assert_fails(ppo_mlp_init(NULL, params, "n", sizes, 1, 0, 0, 1, &rng), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_mlp_init(&mlp, NULL, "n", sizes, 1, 0, 0, 1, &rng), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_mlp_init(&mlp, params, NULL, sizes, 1, 0, 0, 1, &rng), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_mlp_init(&mlp, params, "n", NULL, 1, 0, 0, 1, &rng), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_mlp_init(&mlp, params, "n", sizes, 65, 0, 0, 1, &rng), PPO_ERROR_ARGUMENT, "65");
    assert_fails(ppo_mlp_init(&mlp, params, "n", bad_sizes, 1, 0, 0, 1, &rng), PPO_ERROR_ARGUMENT, "-2");
    ppo_params_free(params);
}

static ppo_tensor *mean_square_of_mlp(ppo_tape *tape, ppo_tensor *const *inputs, void *user) {
    static const float x[9 * 5] = {0.3f, -1,    0.7f, 0.1f, 2,     -0.4f, 0.9f, -0.2f, 1.1f,
                                   0.5f, -0.6f, 0.2f, 0.8f, -1.3f, 1,     0.6f, 0.4f,  -0.9f,
                                   0.2f, -0.1f, 0.3f, 1.2f, -0.7f, 0.1f,  0.9f};
    (void)inputs;
    ppo_tensor *y = ppo_mlp_forward(tape, (const ppo_mlp *)user, ppo_tape_constant(tape, x, 9, 5));
    return ppo_tape_mean(tape, ppo_tape_square(tape, y));
}

/* Layers are computed three at a time; a gradient must get past those that want none. */
static void gradients_flow_past_frozen_layers(void **state) {
    (void)state;
    static const int sizes[] = {5, 7, 4, 6, 3, 5, 4, 6};
    for (int layers = 1; layers <= 7; layers++) {
        for (unsigned frozen = 0; frozen < 1u << 2 * (layers < 4 ? layers : 4); frozen++) {
            ppo_params *params = NULL;
            ppo_tensor *wanted[2 * 7];
            ppo_mlp mlp;
            int n = 0;
            ppo_rng rng = ppo_rng_stream(1, PPO_STREAM_USER, (uint32_t)layers);
            assert_ok(ppo_params_create(&params));
            assert_ok(ppo_mlp_init(&mlp, params, "m", sizes, layers, PPO_TANH, PPO_IDENTITY, 1, &rng));
            for (int k = 0; k < layers; k++) ppo__fill_normal(mlp.bias[k], 0.3f, &rng);
            for (int k = 0; k < 2 * layers; k++) {
                ppo_tensor *p = k % 2 ? mlp.bias[k / 2] : mlp.weight[k / 2];
                if (frozen >> k % 8 & 1) p->grad = NULL;
                else wanted[n++] = p;
            }
            if (n) assert_ok(ppo_check_gradients(mean_square_of_mlp, wanted, n, &mlp, 1e-2f, 1e-2f, NULL));
            ppo_params_free(params);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_and_loss_and_gradient_agree_with_pytorch),
        cmocka_unit_test(gradients_flow_past_frozen_layers),
        cmocka_unit_test(three_training_steps_end_where_pytorch_ends),
        cmocka_unit_test(initial_weights_are_orthogonal_with_their_gains_and_biases_zero),
        cmocka_unit_test(parameters_have_the_names_and_shapes_that_were_promised),
        cmocka_unit_test(the_same_seed_gives_the_same_weights_and_another_one_others),
        cmocka_unit_test(a_shared_trunk_gets_the_gradients_of_both_heads),
        cmocka_unit_test(forward_computes_either_result_alone),
        cmocka_unit_test(mlp_applies_the_activations_it_was_given),
        cmocka_unit_test(uniform_weights_fill_their_range),
        cmocka_unit_test(state_dependent_exploration_agrees_with_stable_baselines3),
        cmocka_unit_test(exploration_teaches_the_features_nothing),
        cmocka_unit_test(a_squashed_policy_gives_the_density_in_the_box),
        cmocka_unit_test(policies_over_several_choices_are_those_of_section_7),
        cmocka_unit_test(spaces_hold_what_they_were_given),
        cmocka_unit_test(null_arguments_of_forward_functions_fail_the_tape),
        cmocka_unit_test(models_refuse_what_cannot_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
