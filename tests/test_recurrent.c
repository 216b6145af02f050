/* The recurrent core (section 13) against PyTorch's GRU, and what sections 14 and 15 make of it: states in
   rollouts, segments of sequences in minibatches, memory when acting. */
#include "../ppo.h"

#include "golden/control.h"
#include "models.h"

/* --------------------------------------------------------------------------------------------------------
   The layer
   -------------------------------------------------------------------------------------------------------- */

enum { INPUTS = g_gru_in, WIDTH = g_gru_width, ROWS = g_gru_rows };

typedef struct layer {
    ppo_params *params;
    ppo_tape *tape;
    ppo_gru gru;
} layer;

static layer create(int in, int width, uint32_t seed) {
    layer l = {0};
    ppo_rng rng = test_rng(seed);
    assert_ok(ppo_params_create(&l.params));
    assert_ok(ppo_tape_create(&l.tape));
    assert_ok(ppo__gru_init(&l.gru, l.params, "core", in, width, &rng));
    return l;
}

static void drop(layer *l) {
    ppo_tape_free(l->tape);
    ppo_params_free(l->params);
}

static ppo_sequences golden_sequences(int inside) {
    ppo_sequences s = {g_gru_steps, g_gru_count, g_gru_h0, inside ? g_gru_start : NULL};
    return s;
}

static void gru_agrees_with_pytorch_over_packed_sequences_and_episodes_inside_them(void **state) {
    (void)state;
    static const float *const want[2][6] = {
        {g_gru_out, g_gru_grad_x, g_gru_grad_input_weight, g_gru_grad_input_bias, g_gru_grad_state_weight,
         g_gru_grad_state_bias},
        {g_gru_out_start, g_gru_grad_x_start, g_gru_grad_input_weight_start, g_gru_grad_input_bias_start,
         g_gru_grad_state_weight_start, g_gru_grad_state_bias_start}};
    layer l = create(INPUTS, WIDTH, 1);
    float x[ROWS * INPUTS], x_grad[ROWS * INPUTS];
    ppo_tensor input = {ROWS, INPUTS, x, x_grad};
    memcpy(x, g_gru_x, sizeof x);
    memcpy(l.gru.input_weight->data, g_gru_input_weight, sizeof g_gru_input_weight);
    memcpy(l.gru.input_bias->data, g_gru_input_bias, sizeof g_gru_input_bias);
    memcpy(l.gru.state_weight->data, g_gru_state_weight, sizeof g_gru_state_weight);
    memcpy(l.gru.state_bias->data, g_gru_state_bias, sizeof g_gru_state_bias);
    FOR_KERNEL_SETS(set) {
        for (int inside = 0; inside < 2; inside++) {
            ppo_sequences sequences = golden_sequences(inside);
            memset(x_grad, 0, sizeof x_grad);
            ppo_params_zero_grad(l.params);
            ppo_tape_reset(l.tape);
            ppo_tensor *out = ppo__gru_layer(l.tape, &l.gru, &input, &sequences);
            ppo_tensor *w = ppo_tape_constant(l.tape, g_gru_w, ROWS, WIDTH);
            assert_ok(ppo_tape_backward(l.tape, ppo_tape_sum(l.tape, ppo_tape_mul(l.tape, out, w))));
            assert_true(out->rows == ROWS && out->cols == WIDTH);
            const float *const *expected = want[inside];
            assert_close_array(out->data, expected[0], ROWS * WIDTH, 1e-6);
            assert_close_array(x_grad, expected[1], ROWS * INPUTS, 2e-6);
            assert_close_array(l.gru.input_weight->grad, expected[2], INPUTS * 3 * WIDTH, 2e-6);
            assert_close_array(l.gru.input_bias->grad, expected[3], 3 * WIDTH, 2e-6);
            assert_close_array(l.gru.state_weight->grad, expected[4], WIDTH * 3 * WIDTH, 2e-6);
            assert_close_array(l.gru.state_bias->grad, expected[5], 3 * WIDTH, 2e-6);
        }
    }
    drop(&l);
}

/* One row after another, each from the state that the one before left: what a policy does when it acts. */
static void steps_at_once_are_single_steps_to_the_bit_in_any_batch(void **state) {
    (void)state;
    static const int widths[] = {1, 5, 16, 33};
    ppo_rng rng = test_rng(2);
    FOR_KERNEL_SETS(set) {
        for (int i = 0; i < COUNT(widths); i++) {
            enum { MAX = 33, SIZE = 6 };
            int width = widths[i];
            layer l = create(SIZE, width, 3), one = l;
            static float x[ROWS * SIZE], h0[5 * MAX];
            ppo_sequences whole = golden_sequences(1);
            ppo_tensor input = {ROWS, SIZE, x, NULL};
            assert_ok(ppo_tape_create(&one.tape));
            fill_normal(&rng, x, ROWS * SIZE, 1);
            fill_normal(&rng, h0, 5 * width, 1);
            fill_normal(&rng, l.gru.state_bias->data, 3 * width, 1);
            whole.state = h0;
            const ppo_tensor *out = ppo__gru_layer(l.tape, &l.gru, &input, &whole);
            assert_ok(ppo_tape_status(l.tape));
            for (int t = 0, row = 0, before = 0; t < g_gru_steps; t++) {
                int count = g_gru_count[t];
                const float *previous = t ? out->data + before * width : h0;
                for (int begin = 0; begin <= count; begin++) { /* rows begin .. alone, and then all */
                    int from = begin < count ? begin : 0, n = begin < count ? 1 : count;
                    ppo_tensor part = {n, SIZE, x + (row + from) * SIZE, NULL};
                    ppo_sequences step = {0, NULL, previous + from * width, g_gru_start + row + from};
                    ppo_tape_reset(one.tape);
                    const ppo_tensor *after = ppo__gru_layer(one.tape, &l.gru, &part, &step);
                    assert_ok(ppo_tape_status(one.tape));
                    assert_false(
                        bits_differ(after->data, out->data + (row + from) * width, (size_t)(n * width)));
                }
                before = row, row += count;
            }
            ppo_tape_free(one.tape);
            drop(&l);
        }
    }
}

static void no_states_are_states_of_zeros(void **state) {
    (void)state;
    layer l = create(INPUTS, WIDTH, 4);
    float zeros[ROWS * WIDTH] = {0}, x[ROWS * INPUTS];
    unsigned char all[ROWS];
    ppo_tensor input = {ROWS, INPUTS, x, NULL};
    memcpy(x, g_gru_x, sizeof x);
    memset(all, 1, sizeof all);
    ppo_sequences a = {g_gru_steps, g_gru_count, NULL, NULL}, b = a, none = {0, NULL, NULL, NULL},
                  fresh = none, first = a;
    b.state = zeros, fresh.state = g_gru_w, fresh.start = all, first.state = g_gru_h0, first.start = all;
    const ppo_tensor *x_a = ppo__gru_layer(l.tape, &l.gru, &input, &a),
                     *x_b = ppo__gru_layer(l.tape, &l.gru, &input, &b);
    const ppo_tensor *alone = ppo__gru_layer(l.tape, &l.gru, &input, &none),
                     *begun = ppo__gru_layer(l.tape, &l.gru, &input, &fresh),
                     *each = ppo__gru_layer(l.tape, &l.gru, &input, &first);
    assert_ok(ppo_tape_status(l.tape));
    assert_false(bits_differ(x_a->data, x_b->data, ROWS * WIDTH));
    assert_false(bits_differ(alone->data, begun->data, ROWS * WIDTH)); /* without steps: all alone */
    assert_false(bits_differ(alone->data, each->data, ROWS * WIDTH));  /* an episode in every row */
    assert_true(bits_differ(alone->data, x_a->data, ROWS * WIDTH));
    drop(&l);
}

static double off_orthonormal(const ppo_tensor *w) { /* largest deviation of W W^T from I */
    double worst = 0;
    for (int i = 0; i < w->rows; i++)
        for (int j = 0; j < w->rows; j++) {
            double dot = 0;
            for (int k = 0; k < w->cols; k++)
                dot += (double)w->data[i * w->cols + k] * w->data[j * w->cols + k];
            worst = fmax(worst, fabs(dot - (i == j)));
        }
    return worst;
}

static void a_gru_starts_orthogonal_with_biases_of_zero(void **state) {
    (void)state;
    static const char *const names[] = {"core.input.weight", "core.input.bias", "core.state.weight",
                                        "core.state.bias"};
    layer l = create(4, 5, 5);
    assert_int_equal(l.params->tensor_count, 4);
    for (int i = 0; i < 4; i++) assert_string_equal(l.params->names[i], names[i]);
    assert_true(l.gru.width == 5 && l.gru.input_weight->rows == 4 && l.gru.state_weight->rows == 5);
    for (int i = 0; i < 4; i++) assert_int_equal(l.params->tensors[i]->cols, 15);
    assert_true(off_orthonormal(l.gru.input_weight) < 2e-6 && off_orthonormal(l.gru.state_weight) < 2e-6);
    for (int j = 0; j < 15; j++)
        assert_true(l.gru.input_bias->data[j] == 0 && l.gru.state_bias->data[j] == 0);
    drop(&l);
}

static void a_gru_refuses_what_cannot_work(void **state) {
    (void)state;
    static const int grows[3] = {2, 3, 1}, zero[3] = {6, 0, 0}, few[2] = {3, 2}, many[2] = {4, 3};
    layer l = create(INPUTS, 4, 6);
    ppo_rng rng = test_rng(7);
    ppo_gru gru;
    float x[6 * INPUTS] = {0};
    ppo_tensor six = {6, INPUTS, x, NULL}, narrow = {6, INPUTS - 1, x, NULL};
    const struct {
        ppo_sequences sequences;
        const char *words;
    } cases[] = {{{3, grows, NULL, NULL}, "gru|fall|6"}, {{3, zero, NULL, NULL}, "gru|6"},
                 {{2, few, NULL, NULL}, "add up|6"},     {{2, many, NULL, NULL}, "add up|6"},
                 {{2, NULL, NULL, NULL}, "gru|6"},       {{-1, few, NULL, NULL}, "gru|6"}};
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_tape_reset(l.tape);
        assert_null(ppo__gru_layer(l.tape, &l.gru, &six, &cases[i].sequences));
        assert_fails(ppo_tape_backward(l.tape, NULL), PPO_ERROR_ARGUMENT, cases[i].words);
    }
    ppo_sequences none = {0, NULL, NULL, NULL};
    ppo_tape_reset(l.tape);
    assert_null(ppo__gru_layer(l.tape, &l.gru, &narrow, &none));
    assert_fails(ppo_tape_backward(l.tape, NULL), PPO_ERROR_ARGUMENT, "2|3");
    ppo_tape_reset(l.tape);
    assert_null(ppo__gru_layer(l.tape, &l.gru, &six, NULL));
    assert_fails(ppo_tape_backward(l.tape, NULL), PPO_ERROR_ARGUMENT, "NULL");
    ppo_tape_reset(l.tape);
    assert_null(ppo__gru_layer(l.tape, NULL, &six, &none));
    assert_fails(ppo_tape_backward(l.tape, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo__gru_init(&gru, l.params, "a", 0, 2, &rng), PPO_ERROR_ARGUMENT, "a|0 inputs");
    assert_fails(ppo__gru_init(&gru, l.params, "a", 2, -3, &rng), PPO_ERROR_ARGUMENT, "width -3");
    assert_fails(ppo__gru_init(&gru, l.params, "a", 2, INT_MAX, &rng), PPO_ERROR_ARGUMENT, "width");
    drop(&l);
}

/* trunk, if shared -> core -> heads, and every part of it is in the parameter set */
static void a_recurrent_policy_is_made_of_its_parts(void **state) {
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        static const int hidden[2] = {6, 8};
        model_config config = {0};
        ppo_actor_critic model;
        ppo_tape *tape;
        config.obs_size = INPUTS, config.action_space = ppo_discrete(3), config.hidden = hidden;
        config.layers = 2, config.activation = PPO_TANH, config.shared_trunk = shared, config.seed = 1;
        config.recurrent = WIDTH;
        assert_ok(model_init(&model, &config));
        assert_ok(ppo_tape_create(&tape));
        ppo_inputs inputs = {ROWS, g_gru_x, NULL, golden_sequences(1), NULL, 0, 0};
        ppo_outputs out = ppo_actor_critic_forward(tape, &model, &inputs, PPO_POLICY | PPO_VALUE);
        ppo_tensor *x = ppo_mlp_forward(tape, &model.trunk, ppo_tape_constant(tape, g_gru_x, ROWS, INPUTS));
        ppo_tensor *h = ppo__gru_layer(tape, &model.core, x, &inputs.sequences);
        ppo_tensor *policy = ppo_mlp_forward(tape, &model.actor, h),
                   *value = ppo_mlp_forward(tape, &model.critic, h);
        assert_ok(ppo_tape_status(tape));
        assert_true(model.trunk.layers == (shared ? 2 : 0) && model.actor.layers == (shared ? 1 : 3));
        assert_true(x->cols == (shared ? 8 : INPUTS) && out.state->cols == WIDTH &&
                    out.features->rows == ROWS);
        assert_false(bits_differ(out.state->data, h->data, ROWS * WIDTH));
        assert_false(bits_differ(out.policy->data, policy->data, ROWS * 3));
        assert_false(bits_differ(out.value->data, value->data, ROWS));
        ppo_params_zero_grad(model.params);
        ppo_tensor *sum = ppo_tape_add(tape, ppo_tape_sum(tape, ppo_tape_square(tape, out.policy)),
                                       ppo_tape_sum(tape, out.value));
        assert_ok(ppo_tape_backward(tape, sum));
        for (int i = 0; i < model.params->tensor_count; i++) {
            const ppo_tensor *t = model.params->tensors[i];
            double size = 0;
            for (int k = 0; k < t->rows * t->cols; k++) size += fabs((double)t->grad[k]);
            if (!(size > 0)) fail_msg("%s gets no gradient", model.params->names[i]);
        }
        ppo_tape_free(tape);
        ppo__actor_critic_free(&model);
    }
}

/* --------------------------------------------------------------------------------------------------------
   What the rollout holds
   -------------------------------------------------------------------------------------------------------- */

typedef struct bench {
    ppo_agent *agent;
    ppo_trainer *trainer;
    const ppo_rollout *rollout;
} bench;

/* A recurrent policy that is collected with and never learns. */
static bench start_bench(const ppo_env *env, ppo_config cfg) {
    bench b = {NULL, NULL, NULL};
    cfg.learning_rate = 0, cfg.recurrent = cfg.recurrent ? cfg.recurrent : 6;
    assert_ok(ppo_agent_create(env, &cfg, &b.agent));
    assert_ok(ppo_trainer_create(env, &cfg, b.agent, &b.trainer));
    b.rollout = ppo_trainer_rollout(b.trainer);
    return b;
}

static void drop_bench(bench *b) {
    ppo_trainer_free(b->trainer);
    ppo_agent_free(b->agent);
}

/* The network's answer to one observation in one state; start 1: of an episode's first step. */
static ppo_outputs answer(bench *b, const float *obs, const float *state, const unsigned char *start,
                          const unsigned char *mask) {
    ppo_inputs inputs = {1, obs, mask, {0, NULL, state, start}, NULL, 0, 0};
    ppo_tape_reset(b->agent->tape);
    ppo_outputs out =
        ppo_actor_critic_forward(b->agent->tape, &b->agent->model, &inputs, PPO_POLICY | PPO_VALUE);
    assert_ok(ppo_tape_status(b->agent->tape));
    return out;
}

static ppo_config several(int threads) {
    ppo_config cfg = tiny_config();
    cfg.num_envs = 5, cfg.rollout_steps = 23, cfg.total_steps = 5 * 23 * 3, cfg.sequence_steps = 7;
    cfg.minibatch_size = 30, cfg.threads = threads, cfg.epochs = 1;
    return cfg;
}

/* Every sample is what one step of the network makes of it, and the state is handed on: from step to step,
   from rollout to rollout, and not from episode to episode. */
static void every_step_goes_on_from_the_state_of_the_one_before(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++) {
        const ppo_env envs[] = {walk_env(), fenced_env(), dials_env(), reach_env()};
        const ppo_env *env = &envs[i / 2];
        bench b = start_bench(env, several(1 + i % 2 * 2));
        const ppo_rollout *r = b.rollout;
        float last[5][6], last_value[5];
        int was_done[5] = {1, 1, 1, 1, 1}, begun = 0;
        for (int n = 0; n < 3; n++) {
            assert_ok(ppo_trainer_iterate(b.trainer, NULL));
            for (int at = 0; at < 23 * 5; at++) {
                int e = at % 5, width = env->action_space.kind == PPO_DISCRETE ? 1 : env->action_space.n;
                const unsigned char *mask = r->mask ? r->mask + at * (env->obs_size == 3 ? 9 : 3) : NULL;
                ppo_actions actions = {r->actions.discrete ? r->actions.discrete + at * width : NULL,
                                       r->actions.box ? r->actions.box + at * width : NULL};
                ppo_tensor *logp;
                assert_int_equal(r->start[at], was_done[e]);
                if (!was_done[e]) assert_false(bits_differ(r->state + at * 6, last[e], 6));
                if (!was_done[e] && at < 5)
                    assert_true(r->value[at] == last_value[e]); /* the last next_value */
                ppo_outputs out =
                    answer(&b, r->obs + at * env->obs_size, r->state + at * 6, r->start + at, mask);
                ppo_actor_critic_logp(b.agent->tape, &b.agent->model, &out, &actions, &logp, NULL);
                assert_ok(ppo_tape_status(b.agent->tape));
                assert_true(logp->data[0] == r->logp[at] && out.value->data[0] == r->value[at]);
                memcpy(last[e], out.state->data, sizeof last[e]);
                last_value[e] = r->next_value[at];
                begun += was_done[e] && at / 5 % 7; /* inside a segment */
                was_done[e] = r->terminated[at] || r->truncated[at];
                if (!was_done[e] && at + 5 < 23 * 5) assert_true(r->next_value[at] == r->value[at + 5]);
            }
        }
        assert_true(begun > 5);
        drop_bench(&b);
    }
}

/* V of where a truncated episode ended is that of the observation after its last step, in the state which
   that step left. */
static void a_truncated_episode_is_bootstrapped_in_the_state_after_its_last_step(void **state) {
    (void)state;
    for (int threads = 1; threads <= 3; threads += 2) {
        ppo_env env = ticks_env(7);
        bench b = start_bench(&env, several(threads));
        const ppo_rollout *r = b.rollout;
        const float seven = 7;
        assert_ok(ppo_trainer_iterate(b.trainer, NULL));
        for (int e = 0; e < 5; e++)
            for (int t = 6; t < 23; t += 7) {
                int at = t * 5 + e;
                float after[6];
                assert_true(r->truncated[at] && r->obs[at] == 6);
                memcpy(after, answer(&b, &r->obs[at], r->state + at * 6, NULL, NULL).state->data,
                       sizeof after);
                float value = answer(&b, &seven, after, NULL, NULL).value->data[0];
                assert_true(r->next_value[at] == value);
                assert_true(value != answer(&b, &seven, NULL, NULL, NULL).value->data[0]);
                assert_true(value != answer(&b, &seven, r->state + at * 6, NULL, NULL).value->data[0]);
            }
        drop_bench(&b);
    }
}

static void policies_without_memory_keep_no_states(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_config cfg = several(1);
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    cfg.sequence_steps = ppo_config_default().sequence_steps;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    assert_ok(ppo_trainer_iterate(trainer, NULL));
    const ppo_rollout *r = ppo_trainer_rollout(trainer);
    assert_true(r->state == NULL && r->start == NULL && r->mask == NULL);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

/* --------------------------------------------------------------------------------------------------------
   The update
   -------------------------------------------------------------------------------------------------------- */

/* Samples of a rollout, packed as sequences that never hold more than one episode: where one begins inside
   a segment, the segment is cut. So no restart is left to the network. */
typedef struct packed {
    float obs[4 * 260], number[2 * 260], logp[260], value[260], advantage[260], target[260], state[260 * 8];
    int index[260], count[260], from[260], length[260], sequences;
    unsigned char mask[4 * 260];
    ppo_inputs inputs;
    ppo_actions actions;
} packed;

static void pack_cut(packed *p, const ppo_rollout *r, int env, int begin, int end) {
    for (int t = begin; t < end; t++) {
        if (t > begin && !r->start[t * r->envs + env]) {
            p->length[p->sequences - 1]++;
        } else {
            p->from[p->sequences] = t * r->envs + env;
            p->length[p->sequences++] = 1;
        }
    }
}

/* Rows: step 0 of all sequences in falling order of length, then step 1, ... */
static int pack_rows(packed *p, const ppo_rollout *r, int obs_size, int width, int masks) {
    int rows = 0;
    for (int i = 0; i < p->sequences; i++) /* a stable sort by length */
        for (int j = i; j > 0 && p->length[j] > p->length[j - 1]; j--) {
            int length = p->length[j], from = p->from[j];
            p->length[j] = p->length[j - 1], p->from[j] = p->from[j - 1];
            p->length[j - 1] = length, p->from[j - 1] = from;
        }
    for (int k = 0; k < p->sequences; k++) {
        const float *state = r->state + p->from[k] * width;
        for (int j = 0; j < width; j++) p->state[k * width + j] = r->start[p->from[k]] ? 0 : state[j];
    }
    for (int t = 0; t < p->length[0]; t++) {
        p->count[t] = 0;
        for (int k = 0; k < p->sequences && p->length[k] > t; k++, rows++) {
            int at = p->from[k] + t * r->envs;
            for (int j = 0; j < obs_size; j++) p->obs[rows * obs_size + j] = r->obs[at * obs_size + j];
            for (int j = 0; j < masks; j++) p->mask[rows * masks + j] = r->mask[at * masks + j];
            for (int j = 0; j < 2 && r->actions.box; j++)
                p->number[2 * rows + j] = r->actions.box[2 * at + j];
            if (r->actions.discrete) p->index[rows] = r->actions.discrete[at];
            p->logp[rows] = r->logp[at], p->value[rows] = r->value[at];
            p->advantage[rows] = r->advantage[at], p->target[rows] = r->value_target[at];
            p->count[t]++;
        }
    }
    ppo_inputs inputs = {rows, p->obs, masks ? p->mask : NULL, {p->length[0], p->count, p->state, NULL}, NULL,
                         0,    0};
    ppo_actions actions = {p->index, p->number};
    p->inputs = inputs, p->actions = actions;
    return rows;
}

/* An iteration of 8 environments in segments of 5 steps and a last one of those that are left, some of them in
   a minibatch, written out with the public building blocks. */
static void update_by_hand(ppo_agent *agent, const ppo_config *cfg, const ppo_rollout *r, ppo_rng *rng) {
    enum { MOST = 104 };
    const int segments = 8 * ((r->steps + 4) / 5), some = cfg->minibatch_size / 5;
    const ppo_policy_objective objective = {PPO_CLIP, cfg->clip_low, cfg->clip_high, 0, 0};
    const ppo_adam adam = {cfg->learning_rate, cfg->adam_beta1, cfg->adam_beta2, cfg->adam_eps, 0};
    static packed p;
    ppo_tape *t;
    assert_ok(ppo_tape_create(&t));
    for (int epoch = 0; epoch < cfg->epochs; epoch++) {
        int order[MOST];
        for (int i = 0; i < segments; i++) order[i] = i;
        ppo_rng_shuffle(rng, order, segments);
        for (int batch = 0; batch < segments / some; batch++) {
            ppo_tensor *logp, *entropy;
            p.sequences = 0;
            for (int i = 0; i < some; i++) {
                int segment = order[some * batch + i], begin = segment / 8 * 5,
                    end = begin + 5 < r->steps ? begin + 5 : r->steps;
                pack_cut(&p, r, segment % 8, begin, end);
            }
            int n = pack_rows(&p, r, agent->model.obs_size, agent->model.core.width, r->mask ? 3 : 0);
            assert_ok(ppo_whiten(p.advantage, NULL, n, 1));
            ppo_tape_reset(t);
            ppo_outputs out = ppo_actor_critic_forward(t, &agent->model, &p.inputs, PPO_POLICY | PPO_VALUE);
            ppo_actor_critic_logp(t, &agent->model, &out, &p.actions, &logp, &entropy);
            ppo_tensor *a = ppo_tape_policy_loss(t, logp, p.logp, p.advantage, NULL, &objective, NULL);
            ppo_tensor *b = ppo_tape_value_loss(t, out.value, p.value, p.target, NULL, 0, INFINITY);
            ppo_tensor *loss = ppo_tape_add(t, a, ppo_tape_scale(t, b, cfg->value_coef, 0));
            loss = ppo_tape_sub(t, loss, ppo_tape_scale(t, ppo_tape_mean(t, entropy), cfg->entropy_coef, 0));
            ppo_params_zero_grad(agent->model.params);
            assert_ok(ppo_tape_backward(t, loss));
            assert_ok(ppo_params_step(agent->model.params, &adam, cfg->max_grad_norm, NULL));
        }
    }
    ppo_tape_free(t);
}

static void an_update_of_a_recurrent_policy_is_the_algorithm_written_out(void **state) {
    (void)state;
    const ppo_env envs[] = {walk_env(), fenced_env(), reach_env(), reach_env()};
    for (int i = 0; i < 16; i++) {
        const ppo_env *env = &envs[i % 4];
        ppo_config cfg = eight_environments(0);
        ppo_agent *agent = NULL, *hand = NULL;
        ppo_trainer *trainer = NULL;
        cfg.recurrent = 8, cfg.sequence_steps = 5, cfg.minibatch_size = 40, cfg.epochs = 3;
        if (i >= 8) /* minibatches so large that they are cut into parts */
            cfg.rollout_steps = 64, cfg.minibatch_size = 260, cfg.total_steps = 8 * 64 * 4;
        cfg.learning_rate = 0.02f, cfg.learning_rate_schedule = PPO_CONSTANT, cfg.entropy_coef = 0.02f;
        cfg.max_grad_norm = 0.2f, cfg.shared_trunk = i / 4 % 2, cfg.gsde = i % 4 == 3;
        assert_ok(ppo_agent_create(env, &cfg, &agent));
        assert_ok(ppo_agent_create(env, &cfg, &hand));
        assert_ok(ppo_trainer_create(env, &cfg, agent, &trainer));
        ppo_params *p = agent->model.params, *q = hand->model.params;
        ppo_rng rng = ppo_rng_stream(cfg.seed, PPO_STREAM_SHUFFLE, 0);
        for (int k = 0; k < 3; k++) {
            memcpy(q->data, p->data, p->count * sizeof(float)); /* what rounding there was does not add up */
            memcpy(q->m, p->m, p->count * sizeof(float));
            memcpy(q->v, p->v, p->count * sizeof(float));
            assert_ok(ppo_trainer_iterate(trainer, NULL));
            float before[2048], farthest = 0, worst = 0;
            assert_true(p->count <= COUNT(before));
            memcpy(before, q->data, p->count * sizeof(float));
            update_by_hand(hand, &cfg, ppo_trainer_rollout(trainer), &rng);
            for (size_t j = 0; j < p->count; j++) {
                worst = fmaxf(worst, fabsf(p->data[j] - q->data[j]));
                farthest = fmaxf(farthest, fabsf(p->data[j] - before[j]));
            }
            if (!(worst < 2e-6f)) fail_msg("case %d, iteration %d: off by %g", i, k, (double)worst);
            assert_true(farthest > 1e-2f);
        }
        ppo_trainer_free(trainer);
        ppo_agent_free(agent);
        ppo_agent_free(hand);
    }
}

/* With a learning rate of 0 the means over the minibatches are those over the rollout, if no sample is left
   out or taken twice: also where segments, minibatches and the last rollout come out uneven. */
static void every_sample_of_every_segment_is_used_once_per_epoch(void **state) {
    (void)state;
    static const int shapes[][4] = {/* environments, steps, sequence_steps, minibatch_size */
                                    {8, 16, 4, 16}, {8, 16, 16, 32}, {8, 16, 40, 128}, {4, 12, 6, 24},
                                    {6, 10, 1, 12}, {2, 16, 8, 5},   {8, 64, 4, 512},  {9, 61, 8, 0}};
    for (int i = 0; i < COUNT(shapes); i++) {
        ppo_env env = walk_env();
        ppo_config cfg = tiny_config();
        ppo_progress progress;
        cfg.num_envs = shapes[i][0], cfg.rollout_steps = shapes[i][1], cfg.sequence_steps = shapes[i][2];
        cfg.minibatch_size = shapes[i][3], cfg.epochs = 2, cfg.normalize_advantage = 0;
        cfg.total_steps = 10000;
        bench b = start_bench(&env, cfg);
        for (int n = 0; n < 2; n++) {
            assert_ok(ppo_trainer_iterate(b.trainer, &progress));
            const ppo_rollout *r = b.rollout;
            double squares = 0, advantages = 0, samples = r->steps * r->envs;
            for (int k = 0; k < samples; k++) {
                squares += pow(r->value[k] - r->value_target[k], 2) / samples;
                advantages += r->advantage[k] / samples;
            }
            assert_close(progress.value_loss, 0.5 * squares, 3e-6);
            assert_true(fabs(progress.policy_loss + advantages) < 1e-6);
            assert_true(progress.approx_kl == 0 && progress.clip_fraction == 0);
        }
        drop_bench(&b);
    }
}

/* Steps of the optimizer tell how many minibatches there were: as many whole segments go into one as fit. */
static void minibatches_hold_as_many_whole_segments_as_fit(void **state) {
    (void)state;
    static const int cases[][5] = {/* environments, steps, sequence_steps, minibatch_size, minibatches */
                                   {4, 32, 8, 64, 2}, {4, 32, 8, 63, 3}, {4, 32, 8, 8, 16},
                                   {4, 32, 8, 5, 16}, {4, 32, 8, 0, 1},  {4, 32, 100, 64, 2},
                                   {3, 20, 8, 16, 5}, {2, 9, 4, 18, 2},  {4, 32, 1, 10, 13},
                                   {4, 12, 11, 0, 1}, {2, 9, 4, 0, 1},   {3, 7, 5, 0, 1}};
    ppo_env env = walk_env();
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_config cfg = tiny_config();
        cfg.num_envs = cases[i][0], cfg.rollout_steps = cases[i][1], cfg.sequence_steps = cases[i][2];
        cfg.minibatch_size = cases[i][3], cfg.epochs = 1, cfg.recurrent = 3;
        cfg.total_steps = cfg.num_envs * cfg.rollout_steps;
        log_of_run log = run_with_log(&env, cfg, 0);
        assert_int_equal(log.p[0].gradient_steps, cases[i][4]);
    }
}

/* Of three environments whose last segments have 3, 2 and 1 steps to learn from. */
static void segments_of_any_lengths_are_packed_by_time(void **state) {
    (void)state;
    static ppo_trainer trainer;
    static const int want[] = {0, 12, 13, 14, 3, 15, 16, 6, 18, 9};
    int usable[] = {7, 6, 5}, segments[] = {5, 0, 4, 3}, count[4], picked[16];
    trainer.collector.rollout.envs = 3, trainer.minibatch.segment_steps = 4, trainer.usable = usable;
    assert_int_equal(ppo__pack_rows(&trainer, segments, 4, count, picked), COUNT(want));
    for (int t = 0; t < 4; t++) assert_int_equal(count[t], 4 - t);
    assert_memory_equal(picked, want, sizeof want);
}

/* Segments of 64 steps and of 1, two to a minibatch: the first iteration may see none of two long ones. */
static void a_minibatch_of_long_segments_needs_no_memory_of_its_own(void **state) {
    (void)state;
    heap h = {0, 0, -1, 0};
    ppo_set_allocator(heap_hook, &h);
    for (int seed = 1; seed <= 8; seed++) {
        ppo_env env = walk_env();
        ppo_config cfg = tiny_config();
        ppo_agent *agent = NULL;
        ppo_trainer *trainer = NULL;
        cfg.num_envs = 2, cfg.rollout_steps = 65, cfg.sequence_steps = 64, cfg.minibatch_size = 128;
        cfg.epochs = 1, cfg.recurrent = 64, cfg.seed = (uint64_t)seed, cfg.total_steps = 2 * 65 * 8;
        if (seed > 4) { /* shards, of which any may have the long segments alone */
            cfg.num_envs = 41, cfg.rollout_steps = 33, cfg.sequence_steps = 32, cfg.minibatch_size = 0;
            cfg.recurrent = 16, cfg.threads = 2, cfg.total_steps = 41 * 33 * 6;
        }
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
        assert_ok(ppo_trainer_iterate(trainer, NULL));
        long calls = h.calls;
        while (!ppo_trainer_done(trainer)) assert_ok(ppo_trainer_iterate(trainer, NULL));
        assert_int_equal(h.calls, calls);
        ppo_trainer_free(trainer);
        ppo_agent_free(agent);
    }
    ppo_set_allocator(NULL, NULL);
}

/* --------------------------------------------------------------------------------------------------------
   Acting
   -------------------------------------------------------------------------------------------------------- */

enum { KEPT = 4000 };
static int kept_action[KEPT], kept_actions;

static void keeping_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    assert_true(kept_actions < KEPT);
    kept_action[kept_actions++] = action->discrete;
    walk_step(state, rng, action, obs, out);
}

/* Plays episode k of an evaluation with ppo_act(). Returns what it returned. */
static double play_by_hand(ppo_agent *agent, const ppo_env *env, uint64_t seed, int k, ppo_rng *sample) {
    walk w = {0};
    float obs[2];
    double sum = 0;
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_EVALUATE, (uint32_t)k);
    ppo_outcome out = {0};
    env->reset(&w, &rng, obs);
    for (int t = 0; t < env->max_steps && !out.terminated; t++) {
        ppo_action action;
        assert_ok(ppo_act(agent, obs, sample, &action));
        memset(&out, 0, sizeof out);
        env->step(&w, &rng, &action, obs, &out);
        sum += out.reward;
    }
    return sum;
}

/* A policy whose choices hang on what it remembers: statistics from a little training, and then weights under
   which the state wanders. */
static ppo_agent *wanderer(const ppo_env *env) {
    ppo_config cfg = eight_environments(1);
    ppo_rng rng = test_rng(8);
    cfg.recurrent = 8;
    ppo_agent *agent = trained(env, &cfg);
    ppo_actor_critic *model = &agent->model;
    fill_normal(&rng, model->core.state_weight->data, 8 * 24, 1);
    fill_normal(&rng, model->actor.weight[1]->data, 7 * 3, 1);
    for (int j = 0; j < 3; j++) model->actor.bias[1]->data[j] = 0;
    return agent;
}

static void acting_by_hand_is_evaluation_if_the_memory_is_reset_between_episodes(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_agent *agent = wanderer(&env);
    float zeros[8] = {0}, before[8];
    int alone[KEPT], n = 0, differ = 0;
    env.step = keeping_step;
    for (int k = 0; k < 20; k++) { /* every episode from a fresh start */
        kept_actions = 0;
        ppo_agent_reset(agent);
        assert_false(bits_differ(agent->state, zeros, 8));
        play_by_hand(agent, &env, 3, k, NULL);
        assert_true(bits_differ(agent->state, zeros, 8));
        memcpy(alone + n, kept_action, (size_t)kept_actions * sizeof(int));
        n += kept_actions;
    }
    memcpy(before, agent->state, sizeof before);
    kept_actions = 0;
    for (int k = 0; k < 20; k++) { /* one episode at a time is the same, whoever plays */
        ppo_evaluation one;
        if (k == 0) {
            one = ppo_evaluate(agent, &env, 1, 3);
            assert_ok(one.status);
        } else {
            ppo_agent_reset(agent);
            play_by_hand(agent, &env, 3, k, NULL);
        }
    }
    assert_int_equal(kept_actions, n);
    assert_memory_equal(kept_action, alone, (size_t)n * sizeof(int));
    kept_actions = 0;
    ppo_agent_reset(agent);
    for (int k = 0; k < 20; k++)
        play_by_hand(agent, &env, 3, k, NULL); /* and without a reset something else */
    for (int i = 0; i < n && i < kept_actions; i++) differ += kept_action[i] != alone[i];
    assert_true(differ > 0 || kept_actions != n);
    ppo_agent_free(agent);
}

/* More episodes than are played side by side, which end at different times: each has a memory of its own. */
static void evaluation_keeps_the_memories_of_its_episodes_apart_and_leaves_the_agents_alone(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_agent *agent = wanderer(&env);
    double sum = 0, smallest = INFINITY, largest = -INFINITY;
    float before[8];
    for (int k = 0; k < 70; k++) {
        ppo_agent_reset(agent);
        double one = play_by_hand(agent, &env, 5, k, NULL);
        sum += one, smallest = fmin(smallest, one), largest = fmax(largest, one);
    }
    memcpy(before, agent->state, sizeof before);
    ppo_evaluation all = ppo_evaluate(agent, &env, 70, 5);
    assert_ok(all.status);
    assert_close(all.mean_return, sum / 70, 1e-6);
    assert_true(all.min_return == (float)smallest && all.max_return == (float)largest && largest > smallest);
    assert_false(bits_differ(agent->state, before, 8));
    ppo_agent_reset(NULL);
    ppo_agent_free(agent);
}

static void playing_an_episode_is_acting_by_hand_also_with_sampled_actions(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_agent *agent = wanderer(&env);
    env.step = keeping_step;
    for (int i = 0; i < 20; i++) {
        uint64_t seed = (uint64_t)(i / 2);
        ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_ACTION, 0);
        float total = 0;
        kept_actions = 0;
        ppo_agent_reset(agent);
        double by_hand = play_by_hand(agent, &env, seed, 0, i % 2 ? &rng : NULL);
        int n = kept_actions;
        assert_ok(ppo_play(agent, &env, seed, i % 2, NULL, NULL, &total));
        assert_int_equal(kept_actions, 2 * n);
        assert_memory_equal(kept_action, kept_action + n, (size_t)n * sizeof(int));
        assert_close(total, by_hand, 1e-6);
    }
    ppo_agent_free(agent);
}

/* What fails is not remembered. */
static void a_refused_observation_leaves_the_memory_as_it_was(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_agent *agent = wanderer(&env);
    float good[2] = {0.4f, 0.5f}, bad[2] = {NAN, 0}, before[8];
    ppo_action action;
    assert_ok(ppo_act(agent, good, NULL, &action));
    memcpy(before, agent->state, sizeof before);
    assert_fails(ppo_act(agent, bad, NULL, &action), PPO_ERROR_NUMERIC, "observation[0]");
    assert_false(bits_differ(agent->state, before, 8));
    ppo_agent_free(agent);
}

/* --------------------------------------------------------------------------------------------------------
   Learning
   -------------------------------------------------------------------------------------------------------- */

/* A bit is shown at the first step and must be told at the sixth; in between there is nothing to see. */
typedef struct recall {
    int bit, t;
} recall;

static void recall_reset(void *state, ppo_rng *rng, float *obs) {
    recall *r = (recall *)state;
    r->bit = ppo_rng_below(rng, 2);
    r->t = 0;
    obs[0] = r->bit ? 1.0f : -1.0f;
    obs[1] = 0;
}

static void recall_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    recall *r = (recall *)state;
    (void)rng;
    obs[0] = 0;
    obs[1] = 0.2f * (float)++r->t;
    out->terminated = r->t == 6;
    out->reward = out->terminated && action->discrete == r->bit ? 1.0f : 0.0f;
}

static void remembering_a_bit_is_learned_with_memory_and_not_without(void **state) {
    (void)state;
    ppo_env env = {0};
    env.obs_size = 2, env.action_space = ppo_discrete(2), env.state_size = sizeof(recall);
    env.reset = recall_reset, env.step = recall_step;
    for (int recurrent = 16; recurrent >= 0; recurrent -= 16) {
        ppo_config cfg = ppo_config_default();
        cfg.total_steps = 16000, cfg.num_envs = 8, cfg.rollout_steps = 64, cfg.minibatch_size = 128;
        cfg.epochs = 6, cfg.learning_rate = 0.01f, cfg.hidden[0] = 16, cfg.hidden_layers = 1;
        cfg.recurrent = recurrent, cfg.sequence_steps = recurrent ? 16 : cfg.sequence_steps;
        ppo_agent *agent = trained(&env, &cfg);
        float told = ppo_evaluate(agent, &env, 200, 1).mean_return;
        if (recurrent) assert_true(told > 0.97f);
        else assert_true(told > 0.3f && told < 0.7f);
        ppo_agent_free(agent);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gru_agrees_with_pytorch_over_packed_sequences_and_episodes_inside_them),
        cmocka_unit_test(steps_at_once_are_single_steps_to_the_bit_in_any_batch),
        cmocka_unit_test(no_states_are_states_of_zeros),
        cmocka_unit_test(a_gru_starts_orthogonal_with_biases_of_zero),
        cmocka_unit_test(a_gru_refuses_what_cannot_work),
        cmocka_unit_test(a_recurrent_policy_is_made_of_its_parts),
        cmocka_unit_test(every_step_goes_on_from_the_state_of_the_one_before),
        cmocka_unit_test(a_truncated_episode_is_bootstrapped_in_the_state_after_its_last_step),
        cmocka_unit_test(policies_without_memory_keep_no_states),
#ifndef PPO_TEST_TSAN /* these have one thread */
        cmocka_unit_test(an_update_of_a_recurrent_policy_is_the_algorithm_written_out),
#endif
        cmocka_unit_test(every_sample_of_every_segment_is_used_once_per_epoch),
        cmocka_unit_test(minibatches_hold_as_many_whole_segments_as_fit),
        cmocka_unit_test(segments_of_any_lengths_are_packed_by_time),
        cmocka_unit_test_teardown(a_minibatch_of_long_segments_needs_no_memory_of_its_own, restore_allocator),
        cmocka_unit_test(acting_by_hand_is_evaluation_if_the_memory_is_reset_between_episodes),
        cmocka_unit_test(evaluation_keeps_the_memories_of_its_episodes_apart_and_leaves_the_agents_alone),
        cmocka_unit_test(playing_an_episode_is_acting_by_hand_also_with_sampled_actions),
        cmocka_unit_test(a_refused_observation_leaves_the_memory_as_it_was),
#ifndef PPO_TEST_TSAN /* these have one thread */
        cmocka_unit_test(remembering_a_bit_is_learned_with_memory_and_not_without),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
