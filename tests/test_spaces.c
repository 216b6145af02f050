/* Sections 14 and 15 for every kind of policy: several choices at once, masks, squashing, state-dependent
   exploration, and recurrent ones among them. What test_control.c says of plain policies must hold for all. */
#include "../ppo.h"

#include "test.h"

/* --------------------------------------------------------------------------------------------------------
   The promises of the training loop, with any number of threads
   -------------------------------------------------------------------------------------------------------- */

enum { KINDS = 10 };

/* Every kind of policy; environments, rollouts and segments of sizes that do not divide one another, so that
   there are short segments, short last minibatches, and episodes that end inside segments. */
static ppo_config kind_of_policy(int kind, ppo_env *env) {
    ppo_config cfg = eight_environments(0);
    cfg.num_envs = 5, cfg.rollout_steps = 19, cfg.minibatch_size = 31, cfg.total_steps = 5 * 19 * 3;
    switch (kind) {
    case 0:
        *env = fenced_env();
        break;
    case 1:
        *env = dials_env();
        break;
    case 2:
        *env = lamps_env();
        break;
    case 3:
        *env = reach_env();
        cfg.squash = 1, cfg.entropy_coef = 0.01f;
        break;
    case 4:
        *env = reach_env();
        cfg.gsde = 1, cfg.gsde_steps = 4, cfg.normalize_obs = cfg.normalize_reward = 1;
        break;
    case 5:
        *env = walk_env();
        cfg.recurrent = 6, cfg.sequence_steps = 7;
        break;
    case 6:
        *env = fenced_env();
        cfg.recurrent = 9, cfg.sequence_steps = 1, cfg.shared_trunk = 1, cfg.entropy_coef = 0.01f;
        break;
    case 7:
        *env = dials_env();
        cfg.recurrent = 5, cfg.sequence_steps = 40, cfg.normalize_obs = cfg.normalize_reward = 1;
        break;
    case 8:
        *env = reach_env();
        cfg.recurrent = 4, cfg.sequence_steps = 6, cfg.squash = cfg.gsde = 1;
        break;
    default:
        *env = dials_env();
        cfg.objective = PPO_KL_PENALTY, cfg.penalty_target_kl = 0.01f, cfg.recurrent = 3;
        cfg.sequence_steps = 5;
    }
    return cfg;
}

static int ratios_checked, ratios_kind;

static int check_first_ratio(const ppo_progress *p, void *user) {
    (void)user;
    ratios_checked++;
    if (p->first_ratio_min != 1.0f || p->first_ratio_max != 1.0f)
        fail_msg("kind %d: ratios from %.9g to %.9g at iteration %lld with %s kernels", ratios_kind,
                 (double)p->first_ratio_min, (double)p->first_ratio_max, (long long)p->iteration,
                 ppo_kernels_name());
    assert_true(p->gradient_steps == p->iteration || p->approx_kl != 0); /* there was some training */
    return 0;
}

/* With a minibatch of the whole rollout, every ratio of it. */
static void ratio_is_exactly_one_on_first_minibatch_of_every_policy(void **state) {
    (void)state;
    FOR_KERNEL_SETS(set) {
        for (int i = 0; i < 3 * KINDS; i++) {
            ppo_env env;
            ppo_config cfg = kind_of_policy(i % KINDS, &env);
            ratios_kind = i % KINDS;
            cfg.callback = check_first_ratio, cfg.threads = 1 + i / KINDS;
            if (i / KINDS == 1) cfg.minibatch_size = 0;
            if (i / KINDS == 2)
                cfg.num_envs = 7, cfg.hidden_layers = cfg.shared_trunk, cfg.total_steps = 7 * 19 * 3;
            ppo_agent_free(trained(&env, &cfg));
        }
    }
    assert_true(ratios_checked >= 3 * 3 * KINDS);
}

static void results_of_every_policy_have_the_same_bits_for_any_number_of_threads(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        ppo_env env;
        ppo_config cfg = kind_of_policy(kind, &env);
        ppo_agent *one = trained(&env, &cfg), *other = NULL;
        for (cfg.threads = 2; cfg.threads <= 4; cfg.threads++) {
            ppo_agent *many = trained(&env, &cfg);
            if (agents_differ(one, many)) fail_msg("kind %d with %d threads", kind, cfg.threads);
            ppo_agent_free(many);
        }
        cfg.threads = 1, cfg.seed = 2;
        other = trained(&env, &cfg);
        assert_true(agents_differ(one, other));
        ppo_agent_free(one);
        ppo_agent_free(other);
    }
}

static void no_policy_allocates_after_the_first_iteration(void **state) {
    (void)state;
    heap h = {0, 0, -1, 0};
    ppo_set_allocator(heap_hook, &h);
    for (int i = 0; i < 2 * KINDS; i++) {
        ppo_env env;
        ppo_config cfg = kind_of_policy(i % KINDS, &env);
        ppo_agent *agent = NULL;
        ppo_trainer *trainer = NULL;
        cfg.total_steps += 42; /* the last rollout is a short one */
        if (i >= KINDS) cfg.threads = 2, cfg.minibatch_size = 0, cfg.hidden[0] = 200;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
        assert_ok(ppo_trainer_iterate(trainer, NULL));
        long calls = h.calls;
        for (long n = 2; !ppo_trainer_done(trainer); n++) {
            assert_ok(ppo_trainer_iterate(trainer, NULL));
            if (h.calls != calls)
                fail_msg("kind %d: %ld allocations in iteration %ld", i % KINDS, h.calls - calls, n);
        }
        ppo_trainer_free(trainer);
        ppo_agent_free(agent);
        assert_int_equal(h.live, 0);
    }
    ppo_set_allocator(NULL, NULL);
}

static ppo_status train_and_use(void *user) {
    ppo_env env;
    ppo_config cfg = kind_of_policy(*(int *)user, &env);
    ppo_agent *agent = NULL;
    ppo_action action;
    ppo_rng rng = test_rng(1);
    const float obs[4] = {0.5f, -0.5f, 0.25f, 1};
    unsigned char mask[9] = {1, 0, 1, 1, 1, 0, 1, 1, 1};
    cfg.total_steps = 5 * 19, cfg.epochs = 1, cfg.threads = 2;
    ppo_status status = ppo_train(&env, &cfg, &agent);
    if (status != PPO_OK) assert_null(agent);
    if (status == PPO_OK) status = ppo_act_masked(agent, obs, mask, &rng, &action);
    if (status == PPO_OK) status = ppo_evaluate(agent, &env, 2, 1).status;
    ppo_agent_free(agent);
    return status;
}

static void every_failing_allocation_of_a_policy_is_reported_and_leaks_nothing(void **state) {
    (void)state;
    static int kinds[] = {4, 6, 8, 9}; /* gsde; recurrent and masked; recurrent, squashed, gsde; with a KL */
    for (int i = 0; i < COUNT(kinds); i++) assert_true(fail_each_allocation(train_and_use, &kinds[i]) > 10);
}

/* --------------------------------------------------------------------------------------------------------
   Several choices at once
   -------------------------------------------------------------------------------------------------------- */

typedef struct bench {
    ppo_agent *agent;
    ppo_trainer *trainer;
    const ppo_rollout *rollout;
} bench;

/* A policy that is collected with and never learns. */
static bench start_bench(const ppo_env *env, ppo_config cfg) {
    bench b = {NULL, NULL, NULL};
    cfg.learning_rate = 0;
    assert_ok(ppo_agent_create(env, &cfg, &b.agent));
    assert_ok(ppo_trainer_create(env, &cfg, b.agent, &b.trainer));
    b.rollout = ppo_trainer_rollout(b.trainer);
    return b;
}

static void drop_bench(bench *b) {
    ppo_trainer_free(b->trainer);
    ppo_agent_free(b->agent);
}

/* The environment's rewards tell which choices arrived there; the rollout's own must give the same. */
static void the_environment_gets_the_choices_that_the_rollout_holds(void **state) {
    (void)state;
    for (int bits = 0; bits < 2; bits++) {
        ppo_env env = bits ? lamps_env() : dials_env();
        ppo_config cfg = eight_environments(0);
        int n = env.action_space.n, seen[4][4] = {{0}};
        bench b = start_bench(&env, cfg);
        assert_ok(ppo_trainer_iterate(b.trainer, NULL));
        const ppo_rollout *r = b.rollout;
        assert_null(r->actions.box);
        for (int i = 0; i < r->steps * r->envs; i++) {
            float reward = 0;
            for (int j = 0; j < n; j++) {
                float want = bits ? 0.5f * r->obs[i * n + j] + 0.5f
                                  : 0.5f * (r->obs[i * n + j] + 1) * (float)(dial_sizes[j] - 1);
                int choice = r->actions.discrete[i * n + j];
                assert_in_range(choice, 0, env.action_space.sizes[j] - 1);
                seen[j][choice]++;
                reward += (choice == (int)(want + 0.5f)) / (float)n;
            }
            assert_true(fabsf(reward - r->reward[i]) < 1e-6f);
        }
        for (int j = 0; j < n; j++)
            for (int k = 0; k < env.action_space.sizes[j]; k++) assert_true(seen[j][k] > 5);
        drop_bench(&b);
    }
}

static void choices_are_drawn_independently_and_as_often_as_their_probabilities_say(void **state) {
    (void)state;
    enum { DRAWS = 20000 };
    ppo_env env = lamps_env();
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    ppo_rng rng = test_rng(2);
    double on[LAMPS] = {0}, both = 0;
    float obs[LAMPS] = {1, -1, 1, 1};
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    float *bias = agent->model.actor.bias[1]->data;
    memset(agent->model.actor.weight[1]->data, 0, 7 * 2 * LAMPS * sizeof(float));
    for (int j = 0; j < LAMPS; j++) bias[2 * j + 1] = (float)j - 1; /* log odds -1, 0, 1, 2 */
    for (int i = 0; i < DRAWS; i++) {
        ppo_action action;
        assert_ok(ppo_act(agent, obs, &rng, &action));
        assert_true(action.box == NULL && action.discrete == action.choices[0]);
        for (int j = 0; j < LAMPS; j++) on[j] += action.choices[j] / (double)DRAWS;
        both += (action.choices[1] && action.choices[2]) / (double)DRAWS;
    }
    for (int j = 0; j < LAMPS; j++) assert_true(fabs(on[j] - 1 / (1 + exp(1 - j))) < 5 * 0.5 / sqrt(DRAWS));
    assert_true(fabs(both - on[1] * on[2]) < 5 * 0.5 / sqrt(DRAWS));
    ppo_action mode;
    assert_ok(ppo_act(agent, obs, NULL, &mode));
    for (int j = 0; j < LAMPS; j++) assert_int_equal(mode.choices[j], j > 1); /* the first of equals */
    ppo_agent_free(agent);
}

static void several_choices_are_learned(void **state) {
    (void)state;
    for (int bits = 0; bits < 2; bits++) {
        ppo_env env = bits ? lamps_env() : dials_env();
        ppo_config cfg = ppo_config_default();
        ppo_agent *agent = NULL;
        cfg.total_steps = 12000, cfg.rollout_steps = 128, cfg.epochs = 4, cfg.learning_rate = 0.01f;
        cfg.hidden[0] = 16, cfg.hidden_layers = 1, cfg.gamma = 0; /* what comes next is not of our doing */
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        ppo_evaluation before = ppo_evaluate(agent, &env, 50, 1);
        illegal_actions = 0;
        assert_ok(ppo_train(&env, &cfg, &agent));
        ppo_evaluation after = ppo_evaluate(agent, &env, 50, 1);
        assert_ok(after.status);
        assert_int_equal(illegal_actions, 0);
        assert_true(before.mean_return / before.mean_length < 0.7f);
        assert_true(after.mean_return / after.mean_length > 0.95f);
        ppo_agent_free(agent);
    }
}

/* --------------------------------------------------------------------------------------------------------
   Masks
   -------------------------------------------------------------------------------------------------------- */

/* A policy that would rather do what it must not. */
static ppo_agent *wilful(const ppo_env *env, const ppo_config *cfg) {
    ppo_agent *agent = NULL;
    assert_ok(ppo_agent_create(env, cfg, &agent));
    const ppo_mlp *actor = &agent->model.actor;
    actor->bias[actor->layers - 1]->data[0] = 30; /* left, always, until that is illegal */
    return agent;
}

static void illegal_actions_are_neither_sampled_nor_evaluated_nor_played(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        ppo_env env = i % 2 ? dials_env() : fenced_env();
        ppo_config cfg = eight_environments(0);
        cfg.threads = 1 + i, cfg.recurrent = i / 2 * 5;
        ppo_agent *agent = wilful(&env, &cfg);
        float total;
        illegal_actions = 0;
        assert_ok(ppo_train(&env, &cfg, &agent));
        assert_ok(ppo_evaluate(agent, &env, 40, 1).status);
        assert_ok(ppo_play(agent, &env, 1, 1, NULL, NULL, &total));
        assert_int_equal(illegal_actions, 0);
        env.action_mask = NULL; /* and that is the masks' doing */
        assert_ok(ppo_evaluate(agent, &env, 40, 1).status);
        assert_true(illegal_actions > 0);
        ppo_agent_free(agent);
    }
}

static void the_rollout_holds_the_masks_and_probabilities_of_what_was_legal(void **state) {
    (void)state;
    ppo_env env = fenced_env();
    ppo_config cfg = eight_environments(0);
    bench b = {wilful(&env, &cfg), NULL, NULL};
    cfg.learning_rate = 0, cfg.epochs = 1, cfg.minibatch_size = 0;
    ppo_progress progress;
    double entropy = 0, plain = 0;
    assert_ok(ppo_trainer_create(&env, &cfg, b.agent, &b.trainer));
    assert_ok(ppo_trainer_iterate(b.trainer, &progress));
    const ppo_rollout *r = ppo_trainer_rollout(b.trainer);
    for (int i = 0; i < 128; i++) {
        unsigned char mask[3] = {1, 1, 1};
        walk w = {(int)lrintf(5 * r->obs[2 * i])};
        float logits[3], logp, h;
        int action[3], legal = 0;
        fenced_mask(&w, mask);
        assert_memory_equal(r->mask + 3 * i, mask, 3);
        assert_true(mask[r->actions.discrete[i]]);
        ppo_tape_reset(b.agent->tape);
        const float *all = ask(b.agent->tape, &b.agent->model, r->obs + 2 * i, 1).policy->data;
        for (int j = 0; j < 3; j++) { /* the same, as if there were no other actions than the legal ones */
            if (j == r->actions.discrete[i]) action[0] = legal;
            if (mask[j]) logits[legal++] = all[j];
        }
        assert_ok(ppo_token_logp(logits, action, 1, legal, 1, &logp, &h));
        assert_close(r->logp[i], logp, 1e-5);
        entropy += h / 128.0;
        assert_ok(ppo_token_logp(all, action, 1, 3, 1, &logp, &h));
        plain += h / 128.0;
    }
    assert_close(progress.entropy, entropy, 1e-5);
    assert_true(fabs(plain - entropy) > 0.05); /* it makes a difference here */
    drop_bench(&b);
}

static void masked_acting_takes_legal_actions_only(void **state) {
    (void)state;
    ppo_env env = fenced_env();
    ppo_config cfg = tiny_config();
    ppo_agent *agent = wilful(&env, &cfg);
    ppo_rng rng = test_rng(3);
    float obs[2] = {0.2f, 0.5f};
    int count[3] = {0};
    ppo_action action;
    static const unsigned char no_left[3] = {0, 1, 1}, only_right[3] = {0, 0, 1};
    for (int i = 0; i < 2000; i++) {
        assert_ok(ppo_act_masked(agent, obs, no_left, &rng, &action));
        count[action.discrete]++;
    }
    assert_true(count[0] == 0 && count[1] > 700 && count[2] > 700);
    assert_ok(ppo_act_masked(agent, obs, only_right, NULL, &action));
    assert_int_equal(action.discrete, 2);
    assert_ok(ppo_act_masked(agent, obs, NULL, NULL, &action)); /* without a mask: all are legal */
    assert_int_equal(action.discrete, 0);
    ppo_agent_free(agent);
}

static void acting_refuses_a_mask_that_leaves_nothing(void **state) {
    (void)state;
    ppo_env env = dials_env();
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    ppo_rng rng = test_rng(6);
    float obs[DIALS] = {0, 1, 0}, before[4];
    unsigned char mask[9] = {0, 1, 0, 0, 0, 1, 1, 1, 1};
    ppo_action action;
    cfg.recurrent = 4;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    memcpy(before, agent->state, sizeof before);
    assert_fails(ppo_act_masked(agent, obs, mask, &rng, &action), PPO_ERROR_ARGUMENT, "mask|choice 1");
    assert_fails(ppo_act_masked(agent, obs, mask, NULL, &action), PPO_ERROR_ARGUMENT, "mask|choice 1");
    assert_false(bits_differ(agent->state, before, 4)); /* nor is it remembered */
    mask[4] = 1;
    assert_ok(ppo_act_masked(agent, obs, mask, NULL, &action));
    assert_true(action.choices[0] == 1 && action.choices[1] == 1);
    ppo_agent_free(agent);
}

static int asked_for_a_mask;

static void note_mask(const void *state, unsigned char *mask) {
    (void)state, (void)mask;
    asked_for_a_mask++;
}

/* Numbers cannot be illegal. Forty of them, which leaves no room for a buffer that is a little short. */
static void a_box_of_many_numbers_has_no_masks(void **state) {
    (void)state;
    enum { MANY = 40 };
    ppo_env env = reach_env();
    ppo_config cfg = tiny_config();
    env.action_space = ppo_box(MANY, -0.5f, 0.5f), env.action_mask = note_mask;
    bench b = start_bench(&env, cfg);
    ppo_rng rng = test_rng(5);
    ppo_action action;
    float obs = 0.3f;
    asked_for_a_mask = 0;
    assert_ok(ppo_trainer_iterate(b.trainer, NULL));
    assert_ok(ppo_evaluate(b.agent, &env, 3, 1).status);
    assert_true(b.rollout->mask == NULL && asked_for_a_mask == 0);
    assert_ok(ppo_act(b.agent, &obs, &rng, &action));
    for (int j = 0; j < MANY; j++) assert_true(fabsf(action.box[j]) <= 0.5f);
    assert_ok(ppo_act(b.agent, &obs, NULL, &action));
    ppo_tape_reset(b.agent->tape);
    const float *mean = ask(b.agent->tape, &b.agent->model, &obs, 1).policy->data;
    assert_false(bits_differ(action.box, mean, MANY));
    drop_bench(&b);
}

static int stuck_copy, stuck_step, stuck_choice, stuck_faults;

/* Dials of which copy `stuck_copy`, told by its stream, leaves nothing to choose after `stuck_step` steps. */
typedef struct stuck {
    dials dials;
    int copy, steps;
} stuck;

static void stuck_reset(void *state, ppo_rng *rng, float *obs) {
    ((stuck *)state)->copy = env_index(rng);
    dials_reset(&((stuck *)state)->dials, rng, obs);
}

static void stuck_step_(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    ((stuck *)state)->steps++;
    dials_step(&((stuck *)state)->dials, rng, action, obs, out);
    out->terminated = 0;
}

static void stuck_mask(const void *state, unsigned char *mask) {
    const stuck *s = (const stuck *)state;
    int first = stuck_choice == 0 ? 0 : stuck_choice == 1 ? 3 : 5;
    for (int k = 0; k < 9; k++) /* it comes filled with ones, every time */
        if (mask[k] != 1) __atomic_fetch_add(&stuck_faults, 1, __ATOMIC_SEQ_CST);
    dials_mask(&s->dials, mask);
    if (s->copy == stuck_copy && s->steps == stuck_step)
        memset(mask + first, 0, (size_t)dial_sizes[stuck_choice]);
}

static void a_mask_that_leaves_nothing_is_refused_with_environment_and_step(void **state) {
    (void)state;
    for (int i = 0; i < 12; i++) {
        ppo_env env = dials_env();
        ppo_config cfg = tiny_config();
        ppo_agent *agent = NULL;
        char words[80];
        env.state_size = sizeof(stuck), env.reset = stuck_reset, env.step = stuck_step_;
        env.action_mask = stuck_mask, env.max_steps = 30;
        cfg.num_envs = 4, cfg.total_steps = 64, cfg.threads = 1 + i % 4, cfg.recurrent = i / 6 * 3;
        stuck_copy = i % 3 + 1, stuck_step = i % 5 * 3, stuck_choice = i % DIALS;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        snprintf(words, sizeof words, "action_mask leaves no action|choice %d|environment %d|step %d)",
                 stuck_choice, stuck_copy, stuck_step);
        assert_fails(ppo_train(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, words);
        assert_fails(ppo_evaluate(agent, &env, 8, 1).status, PPO_ERROR_ARGUMENT, words);
        stuck_copy = -1; /* and then all is well again */
        assert_ok(ppo_train(&env, &cfg, &agent));
        ppo_agent_free(agent);
    }
    assert_int_equal(stuck_faults, 0);
}

/* Sets one byte more than there are options, after a few steps of the last copy. */
static void long_mask(const void *state, unsigned char *mask) {
    const stuck *s = (const stuck *)state;
    if (s->copy == stuck_copy && s->steps >= 3) mask[9] = 0;
}

static void a_mask_that_is_written_beyond_its_end_is_refused(void **state) {
    (void)state;
    for (stuck_copy = 0; stuck_copy < 4; stuck_copy++) {
        ppo_env env = dials_env();
        ppo_config cfg = tiny_config();
        ppo_agent *agent = NULL;
        char words[80];
        env.state_size = sizeof(stuck), env.reset = stuck_reset, env.step = stuck_step_;
        env.action_mask = long_mask, env.max_steps = 30;
        cfg.num_envs = 4, cfg.total_steps = 64, cfg.threads = 1 + stuck_copy % 2;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        snprintf(words, sizeof words, "action_mask wrote beyond|9 options|environment %d)", stuck_copy);
        assert_fails(ppo_train(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, words);
        assert_fails(ppo_evaluate(agent, &env, 8, 1).status, PPO_ERROR_ARGUMENT, words);
        ppo_agent_free(agent);
    }
}

/* Of two failures in one step it is the same one that is told of, however the copies are dealt out. */
static void nan_and_stuck_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                               ppo_outcome *out) {
    stuck_step_(state, rng, action, obs, out);
    if (((stuck *)state)->copy == 0 && ((stuck *)state)->steps == 4) out->reward = NAN;
}

static void the_earlier_failure_of_a_step_is_reported_by_any_number_of_threads(void **state) {
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        ppo_env env = dials_env();
        ppo_config cfg = tiny_config();
        ppo_agent *agent = NULL;
        env.state_size = sizeof(stuck), env.reset = stuck_reset, env.step = nan_and_stuck_step;
        env.action_mask = stuck_mask;
        cfg.num_envs = 4, cfg.total_steps = 64, cfg.threads = threads;
        stuck_copy = 3, stuck_step = 3, stuck_choice = 0; /* it is asked before the others have stepped */
        assert_fails(ppo_train(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, "action_mask|environment 3|step 3");
    }
}

/* --------------------------------------------------------------------------------------------------------
   Squashing
   -------------------------------------------------------------------------------------------------------- */

/* The reward is the first number that arrived, so that the rollout's u can be held against it. */
static void telling_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    (void)state;
    obs[0] = ppo_rng_range(rng, -1, 1);
    out->reward = action->box[0];
    assert_true(action->box[0] >= -3 && action->box[0] <= 1 && action->box[1] >= -3 && action->box[1] <= 1);
}

static ppo_env telling_env(void) {
    ppo_env env = reach_env();
    env.action_space = ppo_box(2, -3, 1);
    env.step = telling_step;
    return env;
}

static void a_squashed_policy_keeps_u_and_hands_out_its_place_in_the_box(void **state) {
    (void)state;
    ppo_env env = telling_env();
    ppo_config cfg = eight_environments(0);
    int inner = 0;
    cfg.squash = 1, cfg.log_std_init = 1;
    bench b = start_bench(&env, cfg);
    assert_ok(ppo_trainer_iterate(b.trainer, NULL));
    const ppo_rollout *r = b.rollout;
    for (int i = 0; i < 128; i++) {
        float u[2] = {r->actions.box[2 * i], r->actions.box[2 * i + 1]}, logp = NAN, log_det;
        double want = -3 + 2 * (tanh(u[0]) + 1);
        assert_true(fabs(r->reward[i] - want) < 1e-6);
        inner += fabsf(u[0]) < 1;
        ppo_tape_reset(b.agent->tape);
        ppo_outputs out = ask(b.agent->tape, &b.agent->model, r->obs + i, 1);
        assert_ok(ppo_gaussian_logp(out.policy->data, out.log_std->data, u, 1, 2, &logp, NULL));
        ppo_squash_log_det(u, 1, 2, -3, 1, &log_det);
        assert_close(r->logp[i], logp - log_det, 1e-5);
    }
    assert_true(inner > 10 && inner < 100); /* a standard deviation of e: many are far out */
    for (int i = 0; i < 20; i++) {          /* acting: tanh of the mean, into the box */
        float obs = 0.1f * (float)(i - 10);
        ppo_action action;
        ppo_tape_reset(b.agent->tape);
        const float *mean = ask(b.agent->tape, &b.agent->model, &obs, 1).policy->data;
        double want = -3 + 2 * (tanh(mean[1]) + 1);
        assert_ok(ppo_act(b.agent, &obs, NULL, &action));
        assert_true(fabs(action.box[1] - want) < 1e-6);
    }
    drop_bench(&b);
}

/* --------------------------------------------------------------------------------------------------------
   State-dependent exploration
   -------------------------------------------------------------------------------------------------------- */

/* Always the same to see, so that the exploration is all that moves the actions. Episodes last 4 steps. */
static void still_reset(void *state, ppo_rng *rng, float *obs) {
    (void)state, (void)rng;
    obs[0] = 0.7f, obs[1] = -0.4f;
}

static void still_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    (void)action, (void)out;
    still_reset(state, rng, obs);
}

static ppo_env still_env(void) {
    ppo_env env = reach_env();
    env.obs_size = 2;
    env.reset = still_reset;
    env.step = still_step;
    env.max_steps = 4;
    return env;
}

static void explorations_last_as_long_as_they_should_and_end_with_the_rollout(void **state) {
    (void)state;
    static const int lasting[] = {0, 1, 3, 5, 100};
    for (int i = 0; i < 2 * COUNT(lasting); i++) {
        ppo_env env = still_env();
        ppo_config cfg = tiny_config();
        int steps = lasting[i % COUNT(lasting)], rows = 11;
        float before[6] = {0};
        cfg.gsde = 1, cfg.gsde_steps = steps, cfg.num_envs = 3, cfg.rollout_steps = rows;
        cfg.total_steps = 3 * rows * 3, cfg.threads = 1 + i / COUNT(lasting);
        bench b = start_bench(&env, cfg);
        for (int n = 0; n < 3; n++) {
            assert_ok(ppo_trainer_iterate(b.trainer, NULL));
            for (int t = 0; t < rows; t++) {
                const float *now = b.rollout->actions.box + t * 6;
                int renewed = t == 0 || (steps && t % steps == 0);
                for (int j = 0; j < 6; j++) assert_true((now[j] == before[j]) == !renewed);
                memcpy(before, now, sizeof before);
            }
            assert_true(before[0] != before[2] && before[2] != before[4]); /* to each environment its own */
        }
        drop_bench(&b);
    }
}

/* Over many matrices number j has the variance sum_i f_i^2 exp(2 log_std_ij). */
static void explorations_have_the_variance_of_the_formula(void **state) {
    (void)state;
    enum { ENVS = 600, STEPS = 5 };
    ppo_env env = still_env();
    ppo_config cfg = tiny_config();
    double squares[2] = {0}, sum[2] = {0}, cross = 0, variance[2] = {0};
    cfg.gsde = 1, cfg.gsde_steps = 1, cfg.num_envs = ENVS, cfg.rollout_steps = STEPS, cfg.epochs = 1;
    cfg.total_steps = ENVS * STEPS, cfg.minibatch_size = ENVS;
    bench b = start_bench(&env, cfg);
    ppo_tensor *log_std = b.agent->model.log_std;
    ppo_rng rng = test_rng(4);
    assert_true(log_std->rows == 7 && log_std->cols == 2);
    fill_normal(&rng, log_std->data, 14, 0.8f);
    assert_ok(ppo_trainer_iterate(b.trainer, NULL));
    ppo_tape_reset(b.agent->tape);
    ppo_outputs out = ask(b.agent->tape, &b.agent->model, b.rollout->obs, 1);
    for (int j = 0; j < 2; j++)
        for (int i = 0; i < 7; i++)
            variance[j] += pow(out.features->data[i], 2) * exp(2 * log_std->data[2 * i + j]);
    for (int j = 0; j < 2; j++) assert_close(exp(2 * out.log_std->data[j]), variance[j] + 1e-6, 1e-5);
    for (int k = 0; k < ENVS * STEPS; k++) {
        double z[2];
        for (int j = 0; j < 2; j++) {
            z[j] = (b.rollout->actions.box[2 * k + j] - out.policy->data[j]) / sqrt(variance[j]);
            sum[j] += z[j] / (ENVS * STEPS), squares[j] += z[j] * z[j] / (ENVS * STEPS);
        }
        cross += z[0] * z[1] / (ENVS * STEPS);
    }
    for (int j = 0; j < 2; j++) {
        assert_true(fabs(sum[j]) < 5 / sqrt(ENVS * STEPS));
        assert_true(fabs(squares[j] - 1) < 5 * sqrt(2.0 / (ENVS * STEPS)));
    }
    assert_true(fabs(cross) < 5 / sqrt(ENVS * STEPS));
    drop_bench(&b);
}

/* One matrix for many observations: the action's distance from the mean is linear in the features. */
static void an_exploration_is_a_function_of_the_features(void **state) {
    (void)state;
    ppo_env env = telling_env();
    ppo_config cfg = tiny_config();
    cfg.gsde = 1, cfg.hidden_layers = 0, cfg.rollout_steps = 20, cfg.total_steps = 80; /* feature: the obs */
    bench b = start_bench(&env, cfg);
    assert_ok(ppo_trainer_iterate(b.trainer, NULL));
    const ppo_rollout *r = b.rollout;
    for (int e = 0; e < 2; e++) {
        double slope[2] = {0};
        for (int t = 0; t < 20; t++) {
            int at = 2 * t + e;
            ppo_tape_reset(b.agent->tape);
            const float *mean = ask(b.agent->tape, &b.agent->model, r->obs + at, 1).policy->data;
            for (int j = 0; j < 2; j++) {
                double now = (r->actions.box[2 * at + j] - (double)mean[j]) / r->obs[at];
                if (t && fabsf(r->obs[at]) > 0.05f) assert_close(now, slope[j], 1e-4);
                if (!t) slope[j] = now;
            }
        }
    }
    drop_bench(&b);
}

static void squashed_and_state_dependent_policies_learn_to_reach(void **state) {
    (void)state;
    ppo_env env = reach_env();
    for (int i = 1; i < 4; i++) {
        ppo_config cfg = ppo_config_default();
        ppo_agent *agent = NULL;
        cfg.total_steps = 16000, cfg.rollout_steps = 128, cfg.epochs = 4, cfg.learning_rate = 3e-3f;
        cfg.hidden[0] = 16, cfg.hidden_layers = 1, cfg.log_std_init = i & 2 ? -1.5f : -0.5f;
        cfg.squash = i & 1, cfg.gsde = i >> 1, cfg.gsde_steps = cfg.gsde ? 8 : 0;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        float before = ppo_evaluate(agent, &env, 50, 1).mean_return;
        assert_ok(ppo_train(&env, &cfg, &agent));
        float after = ppo_evaluate(agent, &env, 50, 1).mean_return;
        assert_true(before < -2);           /* standing still */
        assert_true(after > 0.3f * before); /* at best the first step's third remains */
        ppo_agent_free(agent);
    }
}

/* --------------------------------------------------------------------------------------------------------
   What does not fit
   -------------------------------------------------------------------------------------------------------- */

static void spaces_and_settings_that_cannot_work_are_refused(void **state) {
    (void)state;
    static const int zero[2] = {3, 0}, one[2] = {3, 1};
    const struct {
        ppo_space space;
        int squash;
        const char *words;
    } cases[] = {{ppo_multi_discrete(zero, 2), 0, "choice 1 has 0 options|1 to 16777215"},
                 {ppo_discrete(INT_MAX), 0, "choice 0 has 2147483647 options|1 to 16777215"},
                 {ppo_multi_discrete(one, 0), 0, "n is 0"},
                 {ppo_multi_binary(129), 0, "129 choices|128"},
                 {ppo_multi_binary(-2), 0, "n is -2"},
                 {ppo_box(2, -1, INFINITY), 1, "squash needs a box of finite size"},
                 {ppo_box(2, -INFINITY, INFINITY), 1, "squash needs a box of finite size"}};
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_env env = reach_env();
        ppo_config cfg = tiny_config();
        ppo_agent *agent = NULL;
        env.action_space = cases[i].space;
        cfg.squash = cases[i].squash;
        if (!cfg.squash) assert_fails(check_env(&env), PPO_ERROR_ARGUMENT, cases[i].words);
        assert_fails(ppo_train(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, cases[i].words);
        assert_null(agent);
    }
    ppo_env fine = reach_env();
    fine.action_space = ppo_multi_discrete(one, 2); /* a single option is a choice, too */
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    assert_ok(ppo_agent_create(&fine, &cfg, &agent));
    ppo_agent_free(agent);
    fine.action_space = ppo_multi_binary(128);
    assert_ok(ppo_agent_create(&fine, &cfg, &agent));
    ppo_agent_free(agent);
    agent = NULL;
    cfg.recurrent = -1;
    assert_fails(ppo_train(&fine, &cfg, &agent), PPO_ERROR_ARGUMENT, "recurrent|-1");
}

static void an_agent_is_refused_where_its_choices_would_not_fit(void **state) {
    (void)state;
    ppo_env env = dials_env(), other = env, bits = env;
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    other.action_space.sizes[2] = 5;
    bits.action_space = ppo_multi_binary(3);
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_evaluate(agent, &env, 1, 1).status);
    assert_fails(ppo_evaluate(agent, &other, 1, 1).status, PPO_ERROR_ARGUMENT, "agent|environment");
    assert_fails(ppo_evaluate(agent, &bits, 1, 1).status, PPO_ERROR_ARGUMENT, "agent|environment");
    assert_fails(ppo_trainer_create(&other, &cfg, agent, &trainer), PPO_ERROR_ARGUMENT, "agent|environment");
    assert_null(trainer);
    ppo_agent_free(agent);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ratio_is_exactly_one_on_first_minibatch_of_every_policy),
        cmocka_unit_test(results_of_every_policy_have_the_same_bits_for_any_number_of_threads),
        cmocka_unit_test_teardown(no_policy_allocates_after_the_first_iteration, restore_allocator),
#ifndef PPO_TEST_TSAN /* these have one thread */
        cmocka_unit_test_teardown(every_failing_allocation_of_a_policy_is_reported_and_leaks_nothing,
                                  restore_allocator),
        cmocka_unit_test(the_environment_gets_the_choices_that_the_rollout_holds),
        cmocka_unit_test(choices_are_drawn_independently_and_as_often_as_their_probabilities_say),
        cmocka_unit_test(several_choices_are_learned),
#endif
        cmocka_unit_test(illegal_actions_are_neither_sampled_nor_evaluated_nor_played),
        cmocka_unit_test(the_rollout_holds_the_masks_and_probabilities_of_what_was_legal),
        cmocka_unit_test(masked_acting_takes_legal_actions_only),
        cmocka_unit_test(acting_refuses_a_mask_that_leaves_nothing),
        cmocka_unit_test(a_box_of_many_numbers_has_no_masks),
        cmocka_unit_test(a_mask_that_leaves_nothing_is_refused_with_environment_and_step),
        cmocka_unit_test(a_mask_that_is_written_beyond_its_end_is_refused),
        cmocka_unit_test(the_earlier_failure_of_a_step_is_reported_by_any_number_of_threads),
        cmocka_unit_test(a_squashed_policy_keeps_u_and_hands_out_its_place_in_the_box),
        cmocka_unit_test(explorations_last_as_long_as_they_should_and_end_with_the_rollout),
        cmocka_unit_test(explorations_have_the_variance_of_the_formula),
        cmocka_unit_test(an_exploration_is_a_function_of_the_features),
#ifndef PPO_TEST_TSAN /* these have one thread */
        cmocka_unit_test(squashed_and_state_dependent_policies_learn_to_reach),
#endif
        cmocka_unit_test(spaces_and_settings_that_cannot_work_are_refused),
        cmocka_unit_test(an_agent_is_refused_where_its_choices_would_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
