/* Section 14: what an environment may rely on, what the rollout holds, and CartPole against Gymnasium's. */
#include "../ppo.h"

#include "../examples/envs/cartpole.h"
#include "../examples/envs/pursuit.h"
#include "golden/cartpole.h"
#include "test.h"

/* --------------------------------------------------------------------------------------------------------
   CartPole
   -------------------------------------------------------------------------------------------------------- */

/* The state from which the recorded step `at` was taken: that of the recorded observation before it, because
   free runs of an unstable system drift apart with any difference in rounding. `first`: of the episode. */
static void set_recorded_state(cartpole *s, int episode, int at, int first) {
    if (at == first) {
        memcpy(s, g_cartpole_start + 4 * episode, sizeof *s);
    } else {
        const float *obs = g_cartpole_obs + 4 * (at - 1);
        s->x = obs[0], s->x_dot = obs[1], s->theta = obs[2], s->theta_dot = obs[3];
    }
}

static int first_step_of(int episode) {
    int at = 0;
    for (int i = 0; i < episode; i++) at += g_cartpole_length[i];
    return at;
}

static void assert_step_as_recorded(cartpole *s, int at) {
    ppo_env env = cartpole_env();
    ppo_action action = {.discrete = g_cartpole_action[at]};
    ppo_outcome out = {0};
    float obs[4];
    env.step(s, NULL, &action, obs, &out);
    for (int j = 0; j < 4; j++)
        assert_true(fabs(obs[j] - g_cartpole_obs[4 * at + j]) < 1e-6 * fmax(1, fabs(obs[j])));
    assert_true(out.reward == g_cartpole_reward[at]);
    assert_int_equal(out.terminated, g_cartpole_terminated[at]);
    assert_int_equal(out.truncated, 0); /* the time limit is the library's */
}

static void every_step_of_cartpole_is_that_of_gymnasium(void **state) {
    (void)state;
    for (int i = 0; i < g_cartpole_episodes; i++)
        for (int t = 0, first = first_step_of(i); t < g_cartpole_length[i]; t++) {
            cartpole s;
            set_recorded_state(&s, i, first + t, first);
            assert_step_as_recorded(&s, first + t);
        }
}

static void short_episodes_of_cartpole_run_free_as_in_gymnasium(void **state) {
    (void)state;
    for (int i = 0; i < g_cartpole_episodes; i++) {
        cartpole s;
        set_recorded_state(&s, i, first_step_of(i), first_step_of(i));
        for (int t = 0; t < g_cartpole_length[i] && t < 50; t++)
            assert_step_as_recorded(&s, first_step_of(i) + t);
    }
}

static void cartpole_starts_near_upright_and_differently_each_time(void **state) {
    (void)state;
    ppo_env env = cartpole_env();
    ppo_rng rng = test_rng(1);
    cartpole s;
    double sum = 0, squares = 0;
    for (int i = 0; i < 2000; i++) {
        float obs[4];
        env.reset(&s, &rng, obs);
        for (int j = 0; j < 4; j++) {
            assert_true(fabsf(obs[j]) <= 0.05f);
            sum += obs[j], squares += obs[j] * obs[j];
        }
    }
    double variance = 0.1 * 0.1 / 12;
    assert_true(fabs(sum / 8000) < 5 * sqrt(variance / 8000));
    assert_true(fabs(squares / 8000 - variance) < 0.05 * variance);
}

/* CartPole that plays recorded steps, whatever the agent does: copy i those of episode i, or all the last. */
static int all_play_the_last;

typedef struct replay {
    cartpole pole;
    int episode, at;
} replay;

static void replay_reset(void *state, ppo_rng *rng, float *obs) {
    replay *r = (replay *)state;
    r->episode = all_play_the_last ? g_cartpole_episodes - 1 : env_index(rng);
    r->at = first_step_of(r->episode);
    set_recorded_state(&r->pole, r->episode, r->at, r->at);
    cartpole_observe(&r->pole, obs);
}

static void replay_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    replay *r = (replay *)state;
    ppo_action recorded = {.discrete = g_cartpole_action[r->at]};
    (void)action;
    set_recorded_state(&r->pole, r->episode, r->at++, first_step_of(r->episode));
    cartpole_step(&r->pole, rng, &recorded, obs, out);
}

static ppo_env replay_env(void) {
    ppo_env env = cartpole_env();
    env.state_size = sizeof(replay);
    env.reset = replay_reset;
    env.step = replay_step;
    return env;
}

static void cartpole_episodes_are_as_long_as_those_of_gymnasium(void **state) {
    (void)state;
    ppo_env env = replay_env();
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    double sum = 0;
    all_play_the_last = 0;
    for (int i = 0; i < g_cartpole_episodes; i++) sum += g_cartpole_length[i];
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    ppo_evaluation played = ppo_evaluate(agent, &env, g_cartpole_episodes, 1);
    assert_ok(played.status);
    assert_close(played.mean_length, sum / g_cartpole_episodes, 1e-6);
    assert_close(played.mean_return, sum / g_cartpole_episodes, 1e-6);
    assert_true(played.min_return == 9 && played.max_return == 500);
    ppo_agent_free(agent);
}

static void cartpole_is_truncated_not_terminated_after_500_steps(void **state) {
    (void)state;
    ppo_env env = replay_env();
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    all_play_the_last = 1;
    cfg.num_envs = 1, cfg.rollout_steps = 520, cfg.total_steps = 520, cfg.minibatch_size = 520,
    cfg.epochs = 1;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    assert_ok(ppo_trainer_iterate(trainer, NULL));
    const ppo_rollout *r = ppo_trainer_rollout(trainer);
    for (int t = 0; t < 520; t++) {
        assert_int_equal(r->terminated[t], 0);
        assert_int_equal(r->truncated[t], t == 499);
    }
    assert_false(bits_differ(r->obs, r->obs + 500 * 4, 4)); /* the next episode */
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

/* --------------------------------------------------------------------------------------------------------
   What an environment may rely on
   -------------------------------------------------------------------------------------------------------- */

enum {
    NOT_ZEROED = 1,
    NOT_OPEN = 2,
    OUTCOME_NOT_ZEROED = 4,
    OUT_OF_BOX = 8,
    WRONG_ACTION = 16,
    CLOSED_TWICE = 32
};
static int probe_faults, probe_opened, probe_closed,
    probe_fail_open;    /* probe_fail_open: which call of open fails */
static int probe_edges; /* how many actions lay exactly on an edge of the box */

typedef struct probe {
    int open, steps;
    float filler[13];
} probe;

static void note_fault(int fault) { __atomic_fetch_or(&probe_faults, fault, __ATOMIC_SEQ_CST); }

static int probe_open(void *state, void *user, int copy) {
    if (user != &probe_opened || copy < 0 || copy >= 32)
        __atomic_fetch_add(&probe_faults, 1, __ATOMIC_SEQ_CST);
    static const probe zeros;
    probe *p = (probe *)state;
    if (memcmp(p, &zeros, sizeof zeros)) note_fault(NOT_ZEROED);
    if (__atomic_fetch_add(&probe_opened, 1, __ATOMIC_SEQ_CST) == probe_fail_open) return 1;
    p->open = 1;
    return 0;
}

static void probe_close(void *state) {
    probe *p = (probe *)state;
    if (!p->open) note_fault(CLOSED_TWICE);
    p->open = 0;
    __atomic_fetch_add(&probe_closed, 1, __ATOMIC_SEQ_CST);
}

static void probe_reset(void *state, ppo_rng *rng, float *obs) {
    if (!((probe *)state)->open) note_fault(NOT_OPEN);
    obs[0] = ppo_rng_uniform(rng);
}

static void probe_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    probe *p = (probe *)state;
    if (!p->open) note_fault(NOT_OPEN);
    if (out->reward != 0 || out->terminated || out->truncated) note_fault(OUTCOME_NOT_ZEROED);
    for (int j = 0; j < 3; j++) {
        if (!(action->box[j] >= -0.5f && action->box[j] <= 0.25f)) note_fault(OUT_OF_BOX);
        if (action->box[j] == -0.5f || action->box[j] == 0.25f)
            __atomic_fetch_add(&probe_edges, 1, __ATOMIC_SEQ_CST);
    }
    obs[0] = ppo_rng_uniform(rng);
    out->reward = action->box[0]; /* so that the rollout's action can be held against what arrived here */
    out->terminated = ++p->steps % 5 == 0;
    out->truncated = p->steps % 3 == 0;
}

static ppo_env probe_env(void) {
    ppo_env env = {0};
    env.obs_size = 1;
    env.action_space = ppo_box(3, -0.5f, 0.25f);
    env.state_size = sizeof(probe);
    env.reset = probe_reset;
    env.step = probe_step;
    env.open = probe_open;
    env.user = &probe_opened;
    env.close = probe_close;
    probe_faults = probe_opened = probe_closed = probe_edges = 0;
    probe_fail_open = -1;
    return env;
}

static void an_environment_finds_all_as_promised(void **state) {
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        ppo_env env = probe_env();
        ppo_config cfg = tiny_config();
        ppo_agent *agent = NULL;
        ppo_trainer *trainer = NULL;
        cfg.num_envs = 4, cfg.threads = threads, cfg.total_steps = 1000;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        assert_int_equal(probe_opened, 0);
        assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
        assert_int_equal(probe_opened, 4);
        for (int i = 0; i < 3; i++) assert_ok(ppo_trainer_iterate(trainer, NULL));
        assert_int_equal(probe_closed, 0);
        const ppo_rollout *r = ppo_trainer_rollout(trainer);
        int beyond = 0;
        for (int i = 0; i < r->steps * r->envs;
             i++) { /* the rollout keeps what was sampled, before clipping */
            float drawn = r->actions.box[3 * i];
            beyond += drawn < -0.5f || drawn > 0.25f;
            assert_true(r->reward[i] == fminf(fmaxf(drawn, -0.5f), 0.25f));
            assert_false(r->terminated[i] && r->truncated[i]); /* both at once: the task ended */
        }
        assert_true(beyond > 0 && probe_edges > 0);
        ppo_trainer_free(trainer);
        assert_ok(ppo_evaluate(agent, &env, 40, 1).status);
        assert_int_equal(probe_opened, 44);
        assert_int_equal(probe_closed, probe_opened);
        assert_int_equal(probe_faults, 0);
        ppo_agent_free(agent);
    }
}

static void a_failing_open_is_reported_and_the_opened_ones_closed(void **state) {
    (void)state;
    for (int k = 0; k < 4; k++) {
        ppo_env env = probe_env();
        ppo_config cfg = tiny_config();
        ppo_agent *agent = NULL;
        char words[32];
        cfg.num_envs = 4;
        probe_fail_open = k;
        snprintf(words, sizeof words, "open|environment %d", k);
        assert_fails(ppo_train(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, words);
        assert_null(agent);
        assert_int_equal(probe_closed, k);
        assert_int_equal(probe_faults, 0);
    }
}

static void an_incomplete_environment_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *words;
        int what;
    } cases[] = {{"reset|NULL", 0},   {"step|NULL", 1},    {"obs_size|0", 2},    {"obs_size|-3", 3},
                 {"kind|0", 4},       {"n is 0", 5},       {"n is -2", 6},       {"low|high|1", 7},
                 {"low|high|nan", 8}, {"low|high|nan", 9}, {"max_steps|-1", 10}, {"kind|77", 11},
                 {"low|high|2", 12}};
    ppo_config cfg = tiny_config();
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_env env = reach_env();
        ppo_agent *agent = NULL;
        switch (cases[i].what) {
        case 0:
            env.reset = NULL;
            break;
        case 1:
            env.step = NULL;
            break;
        case 2:
            env.obs_size = 0;
            break;
        case 3:
            env.obs_size = -3;
            break;
        case 4:
            env.action_space.kind = 0;
            break;
        case 5:
            env.action_space = ppo_discrete(0);
            break;
        case 6:
            env.action_space = ppo_box(-2, -1, 1);
            break;
        case 7:
            env.action_space = ppo_box(1, 1, 1);
            break;
        case 8:
            env.action_space = ppo_box(1, NAN, 1);
            break;
        case 9:
            env.action_space = ppo_box(1, -1, NAN);
            break;
        case 10:
            env.max_steps = -1;
            break;
        case 11:
            env.action_space.kind = 77;
            break;
        default:
            env.action_space = ppo_box(1, 2, -2);
        }
        assert_fails(check_env(&env), PPO_ERROR_ARGUMENT, cases[i].words);
        assert_fails(ppo_train(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, cases[i].words);
        assert_null(agent);
    }
    assert_fails(check_env(NULL), PPO_ERROR_ARGUMENT, "environment|NULL");
    ppo_env good[] = {walk_env(), reach_env(), ticks_env(0), cartpole_env()};
    for (int i = 0; i < COUNT(good); i++) assert_ok(check_env(&good[i]));
}

static void a_number_that_is_not_finite_is_reported_with_environment_and_step(void **state) {
    (void)state;
    static const struct {
        int fault_at[4]; /* 0: reset, which the library calls before the first step */
        float obs, reward;
        const char *words;
    } cases[] = {
        {{-1, -1, -1, 5}, 0, NAN, "reward is NaN (environment 3, step 5)"},
        {{-1, 2, -1, -1}, 0, INFINITY, "reward is infinite (environment 1, step 2)"},
        {{11, -1, -1, -1}, 0, -INFINITY, "reward is -infinite (environment 0, step 11)"},
        {{-1, -1, 0, -1}, NAN, 0, "observation[0] is NaN (environment 2, step 0)"},
        {{-1, -1, 9, -1}, -INFINITY, 0, "observation[0] is -infinite (environment 2, step 9)"},
        {{3, 3, 3, 3}, NAN, 0, "observation[0] is NaN (environment 0, step 3)"},
        {{1, -1, -1, 0}, NAN, 0, "observation[0] is NaN (environment 3, step 0)"},
        {{6, -1, 5, 4}, 0, NAN, "reward is NaN (environment 3, step 4)"}}; /* the earliest of several */
    for (int i = 0; i < 3 * COUNT(cases); i++) {
        ppo_env env = ticks_env(0);
        ppo_config cfg = tiny_config();
        ppo_agent *agent = NULL;
        cfg.num_envs = 4, cfg.total_steps = 64, cfg.threads = i / COUNT(cases) + 1;
        memcpy(ticks_plan.fault_at, cases[i % COUNT(cases)].fault_at, sizeof ticks_plan.fault_at);
        ticks_plan.obs = cases[i % COUNT(cases)].obs, ticks_plan.reward = cases[i % COUNT(cases)].reward;
        assert_fails(ppo_train(&env, &cfg, &agent), PPO_ERROR_NUMERIC, cases[i % COUNT(cases)].words);
        assert_null(agent);
    }
}

/* A finite observation can still be too much for the network. What is said about it must not depend on the
   batch that a thread happened to work on. */
static void an_overflowing_policy_is_reported_alike_by_any_number_of_threads(void **state) {
    (void)state;
    for (int box = 0; box < 2; box++) {
        char first[256] = "";
        for (int threads = 1; threads <= 4; threads++) {
            ppo_env env = ticks_env(0);
            ppo_config cfg = tiny_config();
            ppo_agent *agent = NULL;
            if (box) env.action_space = ppo_box(2, -1, 1);
            cfg.num_envs = 4, cfg.total_steps = 64, cfg.threads = threads, cfg.activation = PPO_RELU;
            assert_ok(ppo_agent_create(&env, &cfg, &agent));
            for (size_t i = 0; i < agent->model.params->count; i++) agent->model.params->data[i] *= 1e4f;
            ticks_plan.fault_at[3] = 5, ticks_plan.fault_at[0] = 6, ticks_plan.obs = 3e38f; /* the first */
            assert_fails(ppo_train(&env, &cfg, &agent), PPO_ERROR_NUMERIC, "environment 3|step 5");
            ppo_agent_free(agent);
            if (threads == 1) snprintf(first, sizeof first, "%s", ppo_last_error());
            assert_string_equal(ppo_last_error(), first);
        }
    }
}

static void a_broken_number_in_evaluation_makes_all_figures_nan(void **state) {
    (void)state;
    ppo_env env = ticks_env(6);
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    ticks_plan.fault_at[1] = 4, ticks_plan.reward = NAN;
    ppo_evaluation result = ppo_evaluate(agent, &env, 3, 1);
    assert_fails(result.status, PPO_ERROR_NUMERIC, "");
    assert_fails(ppo_evaluate(agent, &env, 3, 1).status, PPO_ERROR_NUMERIC, "reward is NaN|step 4");
    assert_nan(result.mean_return);
    assert_nan(result.std_return);
    assert_nan(result.min_return);
    assert_nan(result.max_return);
    assert_nan(result.mean_length);
    ppo_agent_free(agent);
}

/* --------------------------------------------------------------------------------------------------------
   What the rollout holds
   -------------------------------------------------------------------------------------------------------- */

typedef struct bench {
    ppo_agent *agent;
    ppo_trainer *trainer;
    const ppo_rollout *rollout;
} bench;

/* One iteration with a learning rate of 0: the networks are still those that collected. */
static bench collect(const ppo_env *env, ppo_config cfg) {
    bench b = {NULL, NULL, NULL};
    cfg.learning_rate = 0;
    assert_ok(ppo_agent_create(env, &cfg, &b.agent));
    assert_ok(ppo_trainer_create(env, &cfg, b.agent, &b.trainer));
    assert_ok(ppo_trainer_iterate(b.trainer, NULL));
    b.rollout = ppo_trainer_rollout(b.trainer);
    return b;
}

static void drop(bench *b) {
    ppo_trainer_free(b->trainer);
    ppo_agent_free(b->agent);
}

static float value_of(bench *b, const float *obs) {
    ppo_tape_reset(b->agent->tape);
    ppo_tensor *value = ask(b->agent->tape, &b->agent->model, obs, 1).value;
    assert_ok(ppo_tape_status(b->agent->tape));
    return value->data[0];
}

static ppo_config ticks_config(void) {
    ppo_config cfg = tiny_config();
    cfg.num_envs = 3;
    cfg.rollout_steps = 20;
    cfg.total_steps = 60;
    return cfg;
}

static void a_rollout_is_time_major_and_holds_what_the_environment_gave(void **state) {
    (void)state;
    ppo_env env = ticks_env(7);
    bench b = collect(&env, ticks_config());
    const ppo_rollout *r = b.rollout;
    assert_true(r->steps == 20 && r->envs == 3);
    for (int t = 0; t < 20; t++)
        for (int e = 0; e < 3; e++) {
            int i = t * 3 + e;
            assert_true(r->obs[i] == (float)(t % 7) && r->reward[i] == 1);
            assert_true(r->truncated[i] == (t % 7 == 6) && r->terminated[i] == 0);
            assert_true(r->actions.discrete[i] == 0 || r->actions.discrete[i] == 1);
            assert_true(r->value[i] == value_of(&b, &r->obs[i]));
        }
    assert_null(r->actions.box);
    drop(&b);
}

/* The time limit of a task that would continue is not its end: V of the observation that the reset replaced
   counts. */
static void a_truncated_step_bootstraps_from_its_own_last_observation(void **state) {
    (void)state;
    for (int own = 0; own < 2; own++) { /* by max_steps, and by the environment itself */
        ppo_env env = ticks_env(own ? 0 : 7);
        ppo_config cfg = ticks_config();
        ticks_plan.truncate_at = own ? 7 : 0;
        bench b = collect(&env, cfg);
        const ppo_rollout *r = b.rollout;
        const float last = 7, first = 0;
        assert_true(value_of(&b, &last) != value_of(&b, &first));
        for (int e = 0; e < 3; e++)
            for (int t = 6; t < 20; t += 7) {
                int i = t * 3 + e;
                assert_true(r->truncated[i] && !r->terminated[i]);
                assert_true(r->next_value[i] == value_of(&b, &last));
                assert_close(r->value_target[i], 1 + 0.99 * value_of(&b, &last), 1e-6);
            }
        drop(&b);
    }
}

static void a_terminated_step_does_not_bootstrap(void **state) {
    (void)state;
    ppo_env env = ticks_env(7);
    ppo_config cfg = ticks_config();
    ticks_plan.terminate_at = 7; /* at the time limit: the task's own end wins */
    cfg.total_steps *= 2;
    bench b = collect(&env, cfg);
    for (int e = 0; e < 3; e++) {
        int i = 6 * 3 + e;
        assert_true(b.rollout->terminated[i] && !b.rollout->truncated[i]);
        assert_close(b.rollout->value_target[i], 1, 1e-6);
    }
    assert_ok(ppo_trainer_iterate(b.trainer, NULL)); /* ends one in row 7, which had a next value */
    for (int i = 7 * 3; i < 8 * 3; i++)
        assert_true(b.rollout->terminated[i] && b.rollout->next_value[i] == 0);
    drop(&b);
}

static void where_the_episode_goes_on_next_value_is_the_value_of_the_next_step(void **state) {
    (void)state;
    ppo_env env = ticks_env(7);
    bench b = collect(&env, ticks_config());
    const ppo_rollout *r = b.rollout;
    for (int i = 0; i < 19 * 3; i++)
        if (!r->truncated[i]) assert_true(r->next_value[i] == r->value[i + 3]);
    const float after = 20 % 7; /* and beyond the last step, that of the observation which comes next */
    for (int e = 0; e < 3; e++) assert_true(r->next_value[19 * 3 + e] == value_of(&b, &after));
    drop(&b);
}

static void advantages_are_those_of_ppo_gae(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_config cfg = ticks_config();
    cfg.gamma = 0.9f, cfg.gae_lambda = 0.8f;
    bench b = collect(&env, cfg);
    const ppo_rollout *r = b.rollout;
    float advantage[60], target[60];
    assert_ok(ppo_gae(r->reward, r->value, r->next_value, r->terminated, r->truncated, 20, 3, 0.9f, 0.8f,
                      advantage, target));
    assert_false(bits_differ(advantage, r->advantage, 60));
    assert_false(bits_differ(target, r->value_target, 60));
    drop(&b);
}

static void log_probabilities_are_of_the_actions_that_were_taken(void **state) {
    (void)state;
    for (int box = 0; box < 2; box++) {
        ppo_env env = box ? reach_env() : walk_env();
        bench b = collect(&env, ticks_config());
        const ppo_rollout *r = b.rollout;
        ppo_tensor *logp;
        ppo_tape_reset(b.agent->tape);
        ppo_outputs out = ask(b.agent->tape, &b.agent->model, r->obs, 60);
        ppo_actor_critic_logp(b.agent->tape, &b.agent->model, &out, &r->actions, &logp, NULL);
        assert_ok(ppo_tape_status(b.agent->tape));
        assert_false(bits_differ(logp->data, r->logp, 60));
        drop(&b);
    }
}

static void copies_draw_from_streams_of_their_own(void **state) {
    (void)state;
    ppo_env env = reach_env();
    bench b = collect(&env, ticks_config());
    const ppo_rollout *r = b.rollout;
    for (int e = 0; e < 3; e++) {
        ppo_rng rng = ppo_rng_stream(1, PPO_STREAM_ENV, (uint32_t)e); /* the seed's default is 1 */
        assert_true(r->obs[e] == ppo_rng_range(&rng, -1, 1));
        /* the fresh policy's means are within 0.01 of each other: only the noise can tell actions apart */
        assert_true(fabsf(r->actions.box[2 * e] - r->actions.box[2 * ((e + 1) % 3)]) > 0.05f);
    }
    drop(&b);
}

static void normalized_observations_and_rewards_stay_within_their_limits(void **state) {
    (void)state;
    ppo_env env = ticks_env(0);
    ppo_config cfg = ticks_config();
    cfg.normalize_obs = cfg.normalize_reward = 1, cfg.clip_obs = 1.25f, cfg.clip_reward = 0.125f;
    bench b = collect(&env, cfg);
    float most = 0, largest = 0;
    for (int i = 0; i < 60; i++) {
        most = fmaxf(most, fabsf(b.rollout->obs[i])), largest = fmaxf(largest, fabsf(b.rollout->reward[i]));
        assert_true(fabsf(b.rollout->obs[i]) <= 1.25f && fabsf(b.rollout->reward[i]) <= 0.125f);
    }
    assert_true(most == 1.25f && largest == 0.125f); /* the limits were reached, so it is them that hold */
    /* all that was seen is in the statistics: 21 observations of each copy, 0 to 20 */
    assert_true(b.agent->obs_norm.count == 63);
    assert_close(b.agent->obs_norm.mean[0], 10, 1e-5);
    assert_close(b.agent->obs_norm.var[0], 21.0 * 21 / 12 - 1.0 / 12, 1e-4);
    drop(&b);
}

/* After a failed iteration nothing of the broken episodes may be trained on: the next one begins afresh. */
static void an_iteration_after_a_failed_one_starts_with_fresh_episodes(void **state) {
    (void)state;
    ppo_env env = ticks_env(6);
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    cfg.total_steps = 64;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    assert_ok(ppo_trainer_iterate(trainer, NULL));
    ticks_plan.fault_at[1] = 5, ticks_plan.reward = NAN;
    assert_fails(ppo_trainer_iterate(trainer, NULL), PPO_ERROR_NUMERIC, "reward is NaN");
    ticks_plan.fault_at[1] = -1;
    assert_ok(ppo_trainer_iterate(trainer, NULL));
    const ppo_rollout *r = ppo_trainer_rollout(trainer);
    for (int i = 0; i < r->steps * r->envs; i++) assert_true(r->obs[i] == (float)(i / r->envs % 6));
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

/* Walks by chance; copy 1 fails at its third step while noise_fails. */
static int noise_fails;

static void noise_reset(void *state, ppo_rng *rng, float *obs) {
    *(int *)state = 0;
    obs[0] = ppo_rng_uniform(rng);
}

static void noise_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    obs[0] = ppo_rng_uniform(rng);
    out->reward = noise_fails && env_index(rng) == 1 && ++*(int *)state == 3 ? NAN : action->box[0];
}

/* How far the other copies got before the failure is the threads' business, and nobody else's. */
static void what_follows_a_failed_iteration_is_the_same_for_any_number_of_threads(void **state) {
    (void)state;
    float first[2][64], seen[2][64];
    for (int threads = 1; threads <= 4; threads++) {
        ppo_env env = {0};
        ppo_config cfg = tiny_config();
        ppo_agent *agent = NULL;
        ppo_trainer *trainer = NULL;
        env.obs_size = 1, env.action_space = ppo_box(1, -9, 9), env.state_size = sizeof(int);
        env.reset = noise_reset, env.step = noise_step;
        cfg.num_envs = 4, cfg.rollout_steps = 16, cfg.total_steps = 1000, cfg.threads = threads;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
        noise_fails = 1;
        assert_fails(ppo_trainer_iterate(trainer, NULL), PPO_ERROR_NUMERIC, "reward is NaN (environment 1");
        noise_fails = 0;
        assert_ok(ppo_trainer_iterate(trainer, NULL));
        const ppo_rollout *r = ppo_trainer_rollout(trainer);
        memcpy(seen[0], r->obs, sizeof seen[0]);
        memcpy(seen[1], r->actions.box, sizeof seen[1]);
        if (threads == 1) memcpy(first, seen, sizeof first);
        assert_memory_equal(first, seen, sizeof first);
        ppo_trainer_free(trainer);
        ppo_agent_free(agent);
    }
}

static void silent_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    (void)state, (void)rng, (void)action, (void)obs, (void)out;
}

static void silent_reset(void *state, ppo_rng *rng, float *obs) { (void)state, (void)rng, (void)obs; }

static void an_observation_that_nobody_writes_is_zero(void **state) {
    (void)state;
    ppo_env env = ticks_env(3);
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    env.reset = silent_reset, env.step = silent_step, env.obs_size = 5;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    assert_ok(ppo_trainer_iterate(trainer, NULL));
    const ppo_rollout *r = ppo_trainer_rollout(trainer);
    for (int i = 0; i < r->steps * r->envs * 5; i++) assert_true(r->obs[i] == 0);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

/* The policy sees an observation by the statistics of the rollouts before, which count each once; in the first
   rollout by those of its copy's observations up to this one. */
static void statistics_rest_during_a_rollout_and_take_it_in_afterwards(void **state) {
    (void)state;
    ppo_env env = ticks_env(6);
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    cfg.normalize_obs = 1, cfg.clip_obs = 1.2f, cfg.total_steps = 1000;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    for (int n = 0, step = 0; n < 4; n++, step += cfg.rollout_steps) {
        double mean = agent->obs_norm.mean[0], var = agent->obs_norm.var[0];
        assert_ok(ppo_trainer_iterate(trainer, NULL));
        const ppo_rollout *r = ppo_trainer_rollout(trainer);
        for (int i = 0; i < r->steps * r->envs; i++) {
            const int t = i / r->envs;
            double sum = 0, squares = 0;
            for (int k = 0; k <= t && n == 0; k++) sum += k % 6, squares += k % 6 * (k % 6);
            if (n == 0) mean = sum / (t + 1), var = squares / (t + 1) - mean * mean;
            double want = ((step + t) % 6 - mean) / (n || t ? sqrt(var) : 1);
            assert_close(r->obs[i], fmax(-1.2, fmin(1.2, want)), 1e-5);
        }
        /* every observation of the rollouts, and the one that is waiting */
        assert_true(agent->obs_norm.count == (step + cfg.rollout_steps + 1) * r->envs);
    }
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

static void a_rollout_tells_of_the_episodes_that_ended_in_it(void **state) {
    (void)state;
    ppo_env env = ticks_env(7); /* every reward is 1 */
    ppo_config cfg = eight_environments(1);
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    for (int k = 0; k < 2; k++) { /* the third episode goes from the first rollout into the second */
        assert_ok(ppo_trainer_iterate(trainer, NULL));
        const ppo_rollout *r = ppo_trainer_rollout(trainer);
        for (int i = 0; i < 16 * 8; i++) {
            int ends = (16 * k + i / 8 + 1) % 7 == 0;
            assert_int_equal(r->episode_length[i], ends ? 7 : 0);
            if (ends) assert_true(r->episode_return[i] == 7 && r->truncated[i]); /* raw, not normalized */
        }
    }
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

/* --------------------------------------------------------------------------------------------------------
   Many copies in one call
   -------------------------------------------------------------------------------------------------------- */

static ppo_env stepped_alone; /* whose copies step_each() steps */
static int many_calls, most_copies, many_steps, many_fails;

static void step_each(int n, void *state, ppo_rng *rng, const ppo_action *actions, float *obs,
                      ppo_outcome *out) {
    const ppo_env *env = &stepped_alone;
    const int agents = env->agents > 1 ? env->agents : 1;
    __atomic_fetch_add(&many_calls, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&many_steps, n, __ATOMIC_SEQ_CST);
    if (n > __atomic_load_n(&most_copies, __ATOMIC_SEQ_CST))
        __atomic_store_n(&most_copies, n, __ATOMIC_SEQ_CST);
    if (many_fails > 0 && many_calls == many_fails) ppo_env_fail("copy %d is stuck", n - 1);
    for (int i = 0; i < n; i++)
        (env->step_all ? env->step_all : env->step)((char *)state + i * env->state_size, &rng[i],
                                                    &actions[i * agents], &obs[i * agents * env->obs_size],
                                                    &out[i * agents]);
}

/* The same environment by step_many. */
static ppo_env many_of(ppo_env env) {
    stepped_alone = env;
    env.step = NULL, env.step_all = NULL, env.step_many = step_each;
    many_calls = most_copies = many_steps = many_fails = 0;
    return env;
}

static ppo_config many_config(const ppo_env *env, int threads) {
    ppo_config cfg = tiny_config();
    cfg.num_envs = 6 * (env->agents ? env->agents : 1), cfg.rollout_steps = 40, cfg.threads = threads;
    cfg.total_steps = 3 * 40 * cfg.num_envs;
    return cfg;
}

/* Three iterations, with a checkpoint after the first if a file is named. */
static ppo_agent *train_three(const ppo_env *env, int threads, const char *file) {
    ppo_config cfg = many_config(env, threads);
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    assert_ok(ppo_agent_create(env, &cfg, &agent));
    assert_ok(ppo_trainer_create(env, &cfg, agent, &trainer));
    assert_ok(ppo_trainer_iterate(trainer, NULL));
    if (file) {
        assert_ok(ppo_trainer_save(trainer, file));
        ppo_trainer_free(trainer);
        ppo_agent_free(agent);
        assert_ok(ppo_trainer_resume(file, env, NULL, &agent, &trainer));
        assert_int_equal(remove(file), 0);
    }
    while (!ppo_trainer_done(trainer)) assert_ok(ppo_trainer_iterate(trainer, NULL));
    ppo_trainer_free(trainer);
    return agent;
}

static int opens_nothing(void *state, void *user, int copy) { return (void)state, (void)user, (void)copy, 0; }

/* One agent, several in a world, one whose episodes a checkpoint plays again, and CartPole's own loop; on 1 to 3
   threads, and across a checkpoint. */
static void many_copies_do_what_each_would_do_alone(void **state) {
    (void)state;
    const int episodes = SMALL(40, 8);
    for (int k = 0; k < 4; k++) {
        ppo_env alone = k == 1 ? pursuit_env() : cartpole_env();
        if (k == 2) alone.open = opens_nothing;
        ppo_env many = k == 3 ? cartpole_many_env() : many_of(alone);
        ppo_agent *want = train_three(&alone, 1, NULL);
        for (int threads = SMALL(1, 2); threads <= 3; threads++) {
            ppo_agent *got = train_three(&many, threads, threads == 2 ? "build/many.tmp" : NULL);
            assert_false(
                bits_differ(got->model.params->data, want->model.params->data, want->model.params->count));
            for (int sampled = 0; sampled < 2; sampled++) {
                ppo_evaluation (*evaluate)(ppo_agent *, const ppo_env *, int, uint64_t) =
                    sampled ? ppo_evaluate_sampled : ppo_evaluate;
                ppo_evaluation a = evaluate(want, &alone, episodes, 1), b = evaluate(got, &many, episodes, 1);
                assert_ok(a.status);
                assert_ok(b.status);
                assert_true(a.mean_return == b.mean_return && a.std_return == b.std_return);
            }
            ppo_agent_free(got);
        }
        ppo_agent_free(want);
    }
}

static void a_thread_steps_its_copies_in_one_call(void **state) {
    (void)state;
    ppo_env env = many_of(cartpole_env());
    for (int threads = 1; threads <= 3; threads++) {
        many_calls = most_copies = many_steps = 0;
        ppo_agent_free(train_three(&env, threads, NULL));
        assert_int_equal(many_calls, 3 * 40 * threads);
        assert_int_equal(most_copies, 6 / threads);
        assert_int_equal(many_steps, 3 * 40 * 6);
    }
    ppo_config cfg = many_config(&env, 1);
    ppo_agent *agent = NULL;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    many_calls = most_copies = many_steps = 0;
    ppo_evaluation result =
        ppo_evaluate_sampled(agent, &env, 32, 1); /* no copy is stepped after its episode */
    assert_int_equal(many_steps, (int)(32 * result.mean_length + 0.5f));
    assert_int_equal(most_copies, 32);
    ppo_agent_free(agent);
}

static void stray_step_many(int n, void *state, ppo_rng *rng, const ppo_action *actions, float *obs,
                            ppo_outcome *out) {
    step_each(n, state, rng, actions, obs, out);
    if (many_fails == -5 && env_index(rng) == 2) ppo_env_fail("the second pair is stuck");
    if (many_fails == -5 || many_calls != 3) return; /* that is on three threads */
    if (many_fails == -1) memset((char *)state + n * stepped_alone.state_size, 1, 8);
    if (many_fails == -2) obs[n * stepped_alone.obs_size] = 1;
    if (many_fails == -3) out[2].reward = NAN;
    if (many_fails == -4) obs[4 * 4 + 1] = NAN;
}

static void a_fault_of_many_copies_is_reported(void **state) {
    (void)state;
    static const struct {
        int fails;
        const char *words;
    } cases[] = {{3, "env.step_many failed (environments 0 to 5): copy 5 is stuck"},
                 {-1, "environment 5 wrote beyond its state"},
                 {-2, "environment 5 wrote beyond its observation"},
                 {-3, "reward is NaN (environment 2, step 3)"},
                 {-4, "observation[1] is NaN (environment 4, step 3)"},
                 {-5, "env.step_many failed (environments 2 to 3): the second pair is stuck"}};
    ppo_env env = many_of(cartpole_env());
    ppo_agent *agent = NULL;
    env.step_many = stray_step_many;
    for (int i = 0; i < COUNT(cases); i++) {
        const int fails = cases[i].fails;
        ppo_config cfg = many_config(&env, fails == -5 ? 3 : 1);
        many_calls = 0, many_fails = fails;
        assert_fails(ppo_train(&env, &cfg, &agent),
                     fails == -3 || fails == -4 ? PPO_ERROR_NUMERIC : PPO_ERROR_ARGUMENT, cases[i].words);
    }
    env.step = cartpole_step;
    assert_fails(check_env(&env), PPO_ERROR_ARGUMENT, "env.step_many is given, so env.step must be NULL");
    env.step = NULL, env.reset = NULL;
    assert_fails(check_env(&env), PPO_ERROR_ARGUMENT, "env.reset is NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_of_cartpole_is_that_of_gymnasium),
        cmocka_unit_test(short_episodes_of_cartpole_run_free_as_in_gymnasium),
        cmocka_unit_test(cartpole_starts_near_upright_and_differently_each_time),
        cmocka_unit_test(cartpole_episodes_are_as_long_as_those_of_gymnasium),
        cmocka_unit_test(cartpole_is_truncated_not_terminated_after_500_steps),
        cmocka_unit_test(an_environment_finds_all_as_promised),
        cmocka_unit_test(a_failing_open_is_reported_and_the_opened_ones_closed),
        cmocka_unit_test(an_incomplete_environment_is_refused),
        cmocka_unit_test_teardown(a_number_that_is_not_finite_is_reported_with_environment_and_step,
                                  ticks_plan_clear),
        cmocka_unit_test_teardown(an_overflowing_policy_is_reported_alike_by_any_number_of_threads,
                                  ticks_plan_clear),
        cmocka_unit_test_teardown(a_broken_number_in_evaluation_makes_all_figures_nan, ticks_plan_clear),
        cmocka_unit_test(a_rollout_is_time_major_and_holds_what_the_environment_gave),
        cmocka_unit_test_teardown(a_truncated_step_bootstraps_from_its_own_last_observation,
                                  ticks_plan_clear),
        cmocka_unit_test_teardown(a_terminated_step_does_not_bootstrap, ticks_plan_clear),
        cmocka_unit_test(where_the_episode_goes_on_next_value_is_the_value_of_the_next_step),
        cmocka_unit_test(advantages_are_those_of_ppo_gae),
        cmocka_unit_test(log_probabilities_are_of_the_actions_that_were_taken),
        cmocka_unit_test(copies_draw_from_streams_of_their_own),
        cmocka_unit_test(normalized_observations_and_rewards_stay_within_their_limits),
        cmocka_unit_test(what_follows_a_failed_iteration_is_the_same_for_any_number_of_threads),
        cmocka_unit_test_teardown(an_iteration_after_a_failed_one_starts_with_fresh_episodes,
                                  ticks_plan_clear),
        cmocka_unit_test(an_observation_that_nobody_writes_is_zero),
        cmocka_unit_test(a_rollout_tells_of_the_episodes_that_ended_in_it),
        cmocka_unit_test_teardown(statistics_rest_during_a_rollout_and_take_it_in_afterwards,
                                  ticks_plan_clear),
        cmocka_unit_test(many_copies_do_what_each_would_do_alone),
        cmocka_unit_test(a_thread_steps_its_copies_in_one_call),
        cmocka_unit_test(a_fault_of_many_copies_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
