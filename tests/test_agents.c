/* Sections 14 and 15: copies of agents, many characters at once, several agents in one world, self-play, and
   programs that step their own world. */
#include "../ppo.h"
#include "../examples/companions/ppo_player.h"

#include "../examples/envs/cartpole.h"
#include "../examples/envs/memory.h"
#include "test.h"

static ppo_config config_of(const char *settings) {
    ppo_config cfg = ppo_config_default();
    assert_ok(ppo_config_set_all(&cfg, settings));
    return cfg;
}

/* --------------------------------------------------------------------------------------------------------
   Copies
   -------------------------------------------------------------------------------------------------------- */

static int same_policy(const ppo_agent *a, const ppo_agent *b) {
    const ppo_params *p = a->model.params, *q = b->model.params;
    return p->count == q->count && !memcmp(p->data, q->data, p->count * sizeof(float)) &&
           (!a->obs_norm.size ||
            (a->obs_norm.count == b->obs_norm.count &&
             !memcmp(a->obs_norm.mean, b->obs_norm.mean, 2 * (size_t)a->obs_norm.size * sizeof(double))));
}

static void a_copy_stays_as_it_was_until_it_is_assigned(void **state) {
    (void)state;
    ppo_env env = cartpole_env();
    ppo_config cfg = config_of("total_steps=2000 normalize_obs=yes normalize_reward=yes rollout_steps=64");
    ppo_agent *agent = NULL, *copy = NULL, *early = NULL;
    ppo_trainer *trainer = NULL;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_agent_copy(agent, &early)); /* before there are statistics of rewards */
    cfg.learning_rate = 1e-3f;                /* who is trained remembers how, but not who listened */
    cfg.callback = ppo_print_progress, cfg.callback_user = &cfg, cfg.schedule_user = &cfg;
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    assert_true(agent->config.learning_rate == 1e-3f && !agent->config.callback &&
                !agent->config.callback_user && !agent->config.schedule_user);
    assert_ok(ppo_trainer_iterate(trainer, NULL));
    assert_ok(ppo_agent_assign(early, agent));
    assert_true(same_policy(agent, early));
    ppo_agent_free(early);
    assert_ok(ppo_agent_copy(agent, &copy));
    assert_true(same_policy(agent, copy));
    assert_string_equal(copy->environment, env.name);
    assert_true(copy->return_norm.size && copy->return_norm.count == agent->return_norm.count);
    float before = ppo_evaluate(copy, &env, 5, 1).mean_return;
    assert_ok(ppo_trainer_iterate(trainer, NULL));
    assert_false(same_policy(agent, copy));
    assert_true(ppo_evaluate(copy, &env, 5, 1).mean_return == before);

    heap h = {0, 0, -1, 0};
    ppo_set_allocator(heap_hook, &h);
    assert_ok(ppo_agent_assign(copy, agent));
    ppo_set_allocator(NULL, NULL);
    assert_int_equal(h.calls, 0);
    assert_true(same_policy(agent, copy));
    assert_true(ppo_evaluate(copy, &env, 5, 1).mean_return == ppo_evaluate(agent, &env, 5, 1).mean_return);

    ppo_agent_free(agent); /* a copy shares nothing, and can be trained itself */
    ppo_trainer_free(trainer);
    cfg = copy->config;
    assert_ok(ppo_train(&env, &cfg, &copy));
    ppo_agent_free(copy);
}

static void agents_of_other_networks_are_not_assigned(void **state) {
    (void)state;
    ppo_env env = cartpole_env(), other = memory_env();
    ppo_config cfg = ppo_config_default(), wide = config_of("hidden=32"),
               norm = config_of("normalize_obs=yes");
    ppo_agent *a = NULL, *b = NULL;
    assert_ok(ppo_agent_create(&env, &cfg, &a));
    assert_ok(ppo_agent_create(&env, &wide, &b));
    assert_fails(ppo_agent_assign(a, b), PPO_ERROR_ARGUMENT, "hidden|64,64|32");
    ppo_agent_free(b);
    assert_ok(ppo_agent_create(&env, &norm, &b));
    assert_fails(ppo_agent_assign(a, b), PPO_ERROR_ARGUMENT, "normalize_obs");
    ppo_agent_free(b);
    assert_ok(ppo_agent_create(&other, &cfg, &b));
    assert_fails(ppo_agent_assign(a, b), PPO_ERROR_ARGUMENT, "does not fit the other agent|4");
    assert_fails(ppo_agent_assign(a, NULL), PPO_ERROR_ARGUMENT, "NULL");
    ppo_agent_free(b);
    b = a;
    assert_fails(ppo_agent_copy(NULL, &b), PPO_ERROR_ARGUMENT, "NULL");
    assert_null(b);
    ppo_agent_free(a);
}

static ppo_status copy_once(void *user) {
    ppo_agent *copy = NULL;
    ppo_status status = ppo_agent_copy((ppo_agent *)user, &copy);
    if (status) assert_null(copy);
    ppo_agent_free(copy);
    return status;
}

static void a_copy_survives_every_failed_allocation(void **state) {
    (void)state;
    ppo_env env = cartpole_env();
    ppo_config cfg = config_of("normalize_obs=yes hidden=8 recurrent=4");
    ppo_agent *agent = NULL;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    fail_each_allocation(copy_once, agent);
    ppo_agent_free(agent);
}

/* --------------------------------------------------------------------------------------------------------
   Many characters at once
   -------------------------------------------------------------------------------------------------------- */

static void many_act_as_each_by_itself(void **state) {
    (void)state;
    enum { N = 7, SIZE = 5, STEPS = 4 };
    const int sizes[2] = {3, 2};
    const ppo_space spaces[] = {ppo_discrete(4), ppo_box(2, -0.5f, 1), ppo_multi_discrete(sizes, 2)};
    for (int k = 0; k < 6; k++) {
        ppo_space space = spaces[k % 3];
        ppo_env env = {.obs_size = SIZE, .action_space = space};
        ppo_config cfg = config_of(k < 3 ? "hidden=16" : "hidden=16 recurrent=6");
        ppo_agent *agent = NULL, *one[N] = {NULL};
        ppo_rng rng = ppo_rng_stream(5, PPO_STREAM_USER, (uint32_t)k);
        int width = cfg.recurrent, choices[2 * N], options = k % 3 == 0 ? 4 : 5;
        float obs[N * SIZE], box[2 * N], memory[N * 6] = {0};
        ppo_actions actions = {choices, box};
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        for (int i = 0; i < N; i++) assert_ok(ppo_agent_copy(agent, &one[i]));
        for (int t = 0; t < STEPS; t++) {
            unsigned char mask[N * 5];
            heap h = {0, 0, -1, 0};
            for (int i = 0; i < N * SIZE; i++) obs[i] = ppo_rng_normal(&rng);
            for (int i = 0; i < N * options; i++)
                mask[i] = i % options == 0 || i % options == 3 || i % 3 != 0;
            if (t == 2) { /* one begins anew */
                memset(memory + 3 * width, 0, (size_t)width * sizeof(float));
                ppo_agent_reset(one[3]);
            }
            ppo_set_allocator(heap_hook, &h);
            assert_ok(ppo_act_many(agent, obs, mask, N, memory, NULL, &actions));
            ppo_set_allocator(NULL, NULL);
            if (t) assert_int_equal(h.calls, 0);
            for (int i = 0; i < N; i++) {
                ppo_action action;
                assert_ok(ppo_act_masked(one[i], obs + i * SIZE, mask + i * options, NULL, &action));
                if (k % 3 == 0) assert_int_equal(choices[i], action.discrete);
                if (k % 3 == 1) assert_memory_equal(box + 2 * i, action.box, 2 * sizeof(float));
                if (k % 3 == 2) assert_memory_equal(choices + 2 * i, action.choices, 2 * sizeof(int));
            }
        }
        ppo_rng sampler = rng, same = rng;
        assert_ok(ppo_act_many(agent, obs, NULL, 1, memory, &sampler, &actions)); /* samples as ppo_act() */
        memset(one[0]->state, 0, (size_t)width * sizeof(float));
        memset(memory, 0, sizeof memory);
        sampler = rng;
        ppo_action action;
        assert_ok(ppo_act_many(agent, obs, NULL, 1, memory, &sampler, &actions));
        assert_ok(ppo_act(one[0], obs, &same, &action));
        if (k % 3 == 1) assert_memory_equal(box, action.box, 2 * sizeof(float));
        else assert_memory_equal(choices, action.choices, (size_t)(k % 3 ? 2 : 1) * sizeof(int));

        obs[SIZE + 1] = NAN;
        assert_fails(ppo_act_many(agent, obs, NULL, N, memory, NULL, &actions), PPO_ERROR_NUMERIC,
                     "observation[1]|NaN");
        assert_fails(ppo_act_many(agent, obs, NULL, -1, memory, NULL, &actions), PPO_ERROR_ARGUMENT, "-1");
        if (width)
            assert_fails(ppo_act_many(agent, obs, NULL, 1, NULL, NULL, &actions), PPO_ERROR_ARGUMENT, "NULL");
        for (int i = 0; i < N; i++) ppo_agent_free(one[i]);
        ppo_agent_free(agent);
    }
}

/* --------------------------------------------------------------------------------------------------------
   A program that steps its own world
   -------------------------------------------------------------------------------------------------------- */

typedef struct pushed {
    ppo_env env;
    ppo_agent *agent;
    ppo_trainer *trainer;
    cartpole world[8];
    ppo_rng rng[8];
    int age[8], over[8];
    float obs[8][4];
    ppo_action action;
} pushed;

/* What ppo_trainer_iterate() does with each CartPole, in a loop of our own: to the next observation. */
static void push_a_step(pushed *p, int s, int limit) {
    ppo_outcome out = {0};
    assert_ok(ppo_trainer_act(p->trainer, s, &p->action));
    p->env.step(&p->world[s], &p->rng[s], &p->action, p->obs[s], &out);
    if (++p->age[s] >= limit && !out.terminated) out.truncated = 1;
    assert_ok(ppo_trainer_observe(p->trainer, s, p->obs[s], NULL, &out));
    if (!out.terminated && !out.truncated) return;
    p->env.reset(&p->world[s], &p->rng[s], p->obs[s]);
    p->age[s] = 0;
    assert_ok(ppo_trainer_observe(p->trainer, s, p->obs[s], NULL, NULL));
}

static void pushed_experience_trains_to_the_same_bits(void **state) {
    (void)state;
    const char *const kinds[] = {"",
                                 "recurrent=5 sequence_steps=8 hidden=12",
                                 "normalize_obs=yes normalize_reward=yes",
                                 "objective=kl-penalty penalty_target_kl=0.01",
                                 "use_critic=no value_coef=0.5",
                                 "target_kl=0.001 threads=2",
                                 "recompute_advantages=yes normalize_obs=yes",
                                 "recompute_advantages=yes recurrent=5 sequence_steps=8 hidden=12"};
    for (int k = 0; k < COUNT(kinds); k++) {
        ppo_env env = cartpole_env(), described = {0};
        ppo_config cfg =
            config_of("total_steps=700 num_envs=3 rollout_steps=50 minibatch_size=40 epochs=3 hidden=16");
        assert_ok(ppo_config_set_all(&cfg, kinds[k]));
        env.max_steps = 17;
        described.name = env.name;
        described.obs_size = env.obs_size;
        described.action_space = env.action_space;
        ppo_agent *agent = NULL;
        ppo_trainer *trainer = NULL;
        pushed p = {.env = env};
        int64_t gradients = 0;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
        assert_ok(ppo_agent_create(&described, &cfg, &p.agent));
        assert_ok(ppo_trainer_create(&described, &cfg, p.agent, &p.trainer));
        for (int s = 0; s < 3; s++) {
            p.rng[s] = ppo_rng_stream(cfg.seed, PPO_STREAM_ENV, (uint32_t)s);
            env.reset(&p.world[s], &p.rng[s], p.obs[s]);
            assert_ok(ppo_trainer_observe(p.trainer, s, p.obs[s], NULL, NULL));
        }
        while (!ppo_trainer_done(trainer)) {
            ppo_progress pulled, got = {0};
            int slices = 0;
            assert_ok(ppo_trainer_iterate(trainer, &pulled));
            for (int t = 0; !got.iteration; t++) {
                assert_true(t < 10000);
                if (!ppo_trainer_ready(
                        p.trainer)) /* sources at their own pace: backwards, or all steps at once */
                    for (int s = 2; s >= 0; s--)
                        for (int i = 0; i < (k % 2 && t == 0 ? 50 : k % 2 ? 0 : 1); i++)
                            push_a_step(&p, s, env.max_steps);
                slices += ppo_trainer_ready(p.trainer);
                assert_ok(ppo_trainer_learn(p.trainer, k == 0 ? 1e-6 : 0, &got));
            }
            assert_int_equal(slices, k ? 1 : (int)(pulled.gradient_steps - gradients));
            gradients = pulled.gradient_steps;
            assert_true(same_policy(agent, p.agent));
            assert_int_equal(got.steps, pulled.steps);
            assert_int_equal(got.episodes, pulled.episodes);
            assert_true(got.loss == pulled.loss || (isnan(got.loss) && isnan(pulled.loss)));
            assert_true(got.mean_return == pulled.mean_return);
            assert_memory_equal(&got.explained_variance, &pulled.explained_variance, sizeof(float));
        }
        assert_true(ppo_trainer_done(p.trainer));
        assert_false(ppo_trainer_ready(p.trainer));
        push_a_step(&p, 0, 17); /* the world goes on */
        ppo_trainer_free(trainer);
        ppo_agent_free(agent);
        ppo_trainer_free(p.trainer);
        ppo_agent_free(p.agent);
    }
}

static void what_is_pushed_in_the_wrong_order_is_refused(void **state) {
    (void)state;
    ppo_env env = cartpole_env(), described = {.obs_size = 4, .action_space = ppo_discrete(2)};
    ppo_config cfg = config_of("num_envs=2 rollout_steps=8 minibatch_size=8 total_steps=64");
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL, *pulled = NULL;
    ppo_action action;
    ppo_outcome out = {.reward = 1, .terminated = 0, .waits = 0},
                bad = {.reward = NAN, .terminated = 0, .waits = 0},
                ends = {.reward = 1, .terminated = 1, .waits = 0},
                cut = {.reward = 1, .truncated = 1, .waits = 0},
                both = {.reward = 1, .terminated = 1, .truncated = 1},
                waits = {.reward = 1, .terminated = 0, .waits = 1};
    const float obs[4] = {0.1f, 0, 0, 0}, nan[4] = {0, NAN, 0, 0};
    const unsigned char none[2] = {0, 0}, second[2] = {0, 1};
    assert_ok(ppo_agent_create(&described, &cfg, &agent));
    assert_ok(ppo_trainer_create(&described, &cfg, agent, &trainer));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &pulled));
    assert_fails(ppo_trainer_iterate(trainer, NULL), PPO_ERROR_ARGUMENT, "ppo_trainer_observe");
    assert_fails(ppo_trainer_act(pulled, 0, &action), PPO_ERROR_ARGUMENT, "ppo_trainer_iterate");
    assert_fails(ppo_trainer_learn(pulled, 0, NULL), PPO_ERROR_ARGUMENT, "ppo_trainer_iterate");
    assert_fails(ppo_trainer_act(trainer, 0, &action), PPO_ERROR_ARGUMENT, "source 0|ppo_trainer_observe");
    assert_fails(ppo_trainer_act(trainer, 2, &action), PPO_ERROR_ARGUMENT, "source 2|1");
    assert_fails(ppo_trainer_observe(trainer, -1, obs, NULL, NULL), PPO_ERROR_ARGUMENT, "source -1");
    assert_fails(ppo_trainer_observe(trainer, 0, obs, NULL, &out), PPO_ERROR_ARGUMENT,
                 "source 0|in no episode|outcome must be NULL");
    assert_fails(ppo_trainer_observe(trainer, 0, NULL, NULL, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_trainer_observe(trainer, 0, nan, NULL, NULL), PPO_ERROR_NUMERIC,
                 "observation[1]|NaN|source 0");
    assert_fails(ppo_trainer_observe(trainer, 0, obs, none, NULL), PPO_ERROR_ARGUMENT, "mask|source 0");
    assert_ok(ppo_trainer_observe(trainer, 0, obs, second, NULL));
    assert_fails(ppo_trainer_observe(trainer, 0, obs, NULL, NULL), PPO_ERROR_ARGUMENT,
                 "source 0|in an episode");
    assert_fails(ppo_trainer_observe(trainer, 0, obs, NULL, &out), PPO_ERROR_ARGUMENT,
                 "source 0|has not acted");
    assert_ok(ppo_trainer_act(trainer, 0, &action));
    assert_int_equal(action.discrete, 1); /* the mask left no other */
    assert_fails(ppo_trainer_act(trainer, 0, &action), PPO_ERROR_ARGUMENT, "source 0");
    assert_fails(ppo_trainer_observe(trainer, 0, NULL, NULL, &out), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_trainer_observe(trainer, 0, obs, NULL, &bad), PPO_ERROR_NUMERIC,
                 "reward|NaN|source 0|step 1");
    assert_fails(ppo_trainer_observe(trainer, 0, nan, NULL, &out), PPO_ERROR_NUMERIC,
                 "observation|NaN|source 0|step 1");
    assert_fails(ppo_trainer_observe(trainer, 0, NULL, NULL, &cut), PPO_ERROR_ARGUMENT,
                 "obs is NULL|truncated");
    assert_ok(ppo_trainer_observe(trainer, 0, nan, NULL, &both)); /* what failed changed nothing */
    assert_ok(ppo_trainer_observe(trainer, 0, obs, NULL, NULL));
    assert_ok(ppo_trainer_learn(trainer, 0, NULL)); /* nothing to do yet */
    for (int t = 1; t < 8; t++) {
        assert_false(ppo_trainer_ready(trainer));
        assert_ok(ppo_trainer_act(trainer, 0, &action));
        assert_ok(ppo_trainer_observe(trainer, 0, NULL, NULL, &waits));
        assert_ok(ppo_trainer_observe(trainer, 0, NULL, NULL, &waits));
        assert_ok(ppo_trainer_observe(trainer, 0, t == 4 ? NULL : obs, NULL, t == 4 ? &ends : &out));
        if (t == 4) assert_ok(ppo_trainer_observe(trainer, 0, obs, NULL, NULL));
    }
    assert_true(ppo_trainer_ready(trainer)); /* source 1 has never been there */
    ppo_progress progress;
    int slices = 0;
    do {
        assert_ok(ppo_trainer_learn(trainer, -1, &progress)); /* no time: one minibatch */
        if (slices++) continue;
        assert_fails(ppo_trainer_save(trainer, "pushed.tmp"), PPO_ERROR_ARGUMENT, "half learned");
        assert_ok(ppo_trainer_observe(trainer, 1, obs, NULL, NULL)); /* what is done now is not recorded */
        assert_ok(ppo_trainer_act(trainer, 1, &action));
        assert_ok(ppo_trainer_observe(trainer, 1, obs, NULL, &out));
    } while (!progress.iteration);
    assert_int_equal(slices, cfg.epochs);
    assert_int_equal(progress.iteration_steps, 8);
    assert_int_equal(progress.episodes, 2);
    assert_true(progress.mean_return == (1 + 12) / 2.0 && progress.mean_length == (1 + 12) / 2.0);
    const ppo_rollout *r = ppo_trainer_rollout(trainer);
    float value[8], target[8];
    for (int t = 0; t < 8; t++) {
        assert_true(r->reward[2 * t] == (t ? 3 : 1) && r->reward[2 * t + 1] == 0);
        value[t] = r->value[2 * t], target[t] = r->value_target[2 * t];
    }
    assert_close(progress.explained_variance, ppo_explained_variance(value, target, 8), 1e-6);
    ppo_trainer_free(pulled);
    assert_fails(ppo_train(&described, &cfg, &agent), PPO_ERROR_ARGUMENT,
                 "ppo_trainer_observe"); /* has no world */
    assert_ok(ppo_trainer_save(trainer, "pushed.tmp"));
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    assert_ok(ppo_trainer_resume("pushed.tmp", &described, NULL, &agent, &trainer));
    assert_int_equal(ppo_trainer_steps(trainer), 8);
    assert_ok(ppo_trainer_observe(trainer, 1, obs, NULL, NULL)); /* new episodes */
    assert_ok(ppo_trainer_act(trainer, 1, &action));
    ppo_agent *loaded = NULL;
    assert_ok(ppo_agent_load("pushed.tmp", &described, &loaded));
    ppo_agent_free(loaded);
    out.reward = 1e30f;
    for (int t = 0; t < 8; t++) {
        if (t) assert_ok(ppo_trainer_act(trainer, 1, &action));
        assert_ok(ppo_trainer_observe(trainer, 1, obs, NULL, &out));
        out.reward = 1;
    }
    assert_fails(ppo_trainer_learn(trainer, 0, NULL), PPO_ERROR_NUMERIC,
                 "the advantage is 1e+30|source 1, step 1 of the rollout");
    remove("pushed.tmp");
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

/* --------------------------------------------------------------------------------------------------------
   Several agents in one world
   -------------------------------------------------------------------------------------------------------- */

/* Agent k observes where it is on a way of k + 3 steps, on which it is paid for going right. */
typedef struct way {
    int copy, at[4];
} way;

static int way_open(void *state, void *user, int copy) { return (void)user, ((way *)state)->copy = copy, 0; }

static void way_observe(const way *w, int k, int number, float *obs) {
    obs[0] = (float)w->at[k] / 8;
    obs[1] = number % 3 == 1 ? 0.5f : 0;
}

static void way_go(way *w, int k, int number, int right, float *obs, ppo_outcome *out) {
    w->at[k]++;
    out->reward = right ? 1 : -0.25f * (float)(number + 1);
    out->terminated = w->at[k] == number + 3;
    way_observe(w, k, number, obs);
}

static void way_reset(void *state, ppo_rng *rng, float *obs) {
    (void)rng;
    ((way *)state)->at[0] = 0;
    way_observe((way *)state, 0, ((way *)state)->copy, obs);
}

static void way_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    (void)rng;
    way_go((way *)state, 0, ((way *)state)->copy, action->discrete, obs, out);
}

static void ways_reset(void *state, ppo_rng *rng, float *obs, ppo_outcome *out) {
    (void)rng, (void)out;
    way *w = (way *)state;
    for (int k = 0; k < 3; k++) w->at[k] = 0, way_observe(w, k, 3 * w->copy + k, obs + 2 * k);
}

/* Who has arrived begins anew at once. */
static void ways_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    (void)rng;
    way *w = (way *)state;
    for (int k = 0; k < 3; k++) {
        int number = 3 * w->copy + k;
        way_go(w, k, number, action[k].discrete, obs + 2 * k, &out[k]);
        if (!out[k].terminated) continue;
        out[k].joins = 1;
        w->at[k] = 0;
        way_observe(w, k, number, obs + 2 * k);
    }
}

static void agents_that_do_not_meet_train_as_in_worlds_of_their_own(void **state) {
    (void)state;
    for (int k = 0; k < 3; k++) {
        ppo_env single = {.obs_size = 2,
                          .action_space = ppo_discrete(2),
                          .state_size = sizeof(way),
                          .reset = way_reset,
                          .step = way_step,
                          .open = way_open};
        ppo_env several = single;
        several.agents = 3;
        several.reset = NULL, several.step = NULL;
        several.reset_all = ways_reset, several.step_all = ways_step;
        ppo_config cfg =
            config_of("num_envs=6 rollout_steps=40 minibatch_size=60 total_steps=1200 hidden=16");
        if (k) assert_ok(ppo_config_set_all(&cfg, "normalize_obs=yes normalize_reward=yes threads=2"));
        if (k == 2) assert_ok(ppo_config_set_all(&cfg, "recurrent=4 sequence_steps=7"));
        ppo_agent *a = NULL, *b = NULL;
        assert_ok(ppo_train(&single, &cfg, &a));
        assert_ok(ppo_train(&several, &cfg, &b));
        assert_true(same_policy(a, b));
        ppo_agent_free(a);
        ppo_agent_free(b);
    }
}

/* Two take turns in naming a bit; after six, the one whose bits agree more often with its number wins. The
   one who is not at turn waits. The third agent watches, and joins after two steps. */
typedef struct turns {
    int step, score[2];
} turns;

static int turns_fail; /* 1: the second move of each game */

static void turns_observe(const turns *w, float *obs, ppo_outcome *out) {
    for (int k = 0; k < 2; k++) {
        obs[2 * k] = k ? 1 : -1;
        obs[2 * k + 1] = (float)w->step / 6;
        out[k].waits = w->step % 2 != k;
        if (out[k].waits) obs[2 * k] = NAN; /* is not read */
    }
}

static void turns_reset(void *state, ppo_rng *rng, float *obs, ppo_outcome *out) {
    turns *w = (turns *)state;
    memset(w, 0, sizeof *w);
    (void)rng;
    turns_observe(w, obs, out);
}

static void turns_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    turns *w = (turns *)state;
    int k = w->step % 2;
    (void)rng;
    if (action[!k].choices) out[k].reward = 1000; /* who waits has no action */
    w->score[k] += action[k].choices[0] == k;
    out[k].reward += 0.5f;   /* for the one who moved, */
    out[!k].reward = -0.25f; /* and for the one who waits */
    w->step++;
    turns_observe(w, obs, out);
    if (turns_fail && w->step == 2) out[k].reward = NAN;
    if (w->step < 6) return;
    for (int i = 0; i < 2; i++) {
        out[i].terminated = 1;
        out[i].reward += (float)(w->score[i] - w->score[!i]);
    }
}

static ppo_env turns_env(void) {
    ppo_env env = {.name = "turns",
                   .obs_size = 2,
                   .action_space = ppo_discrete(2),
                   .state_size = sizeof(turns),
                   .agents = 2,
                   .teams = 2,
                   .reset_all = turns_reset,
                   .step_all = turns_step};
    return env;
}

static void what_an_agent_earns_while_it_waits_counts_for_its_latest_action(void **state) {
    (void)state;
    ppo_env env = turns_env();
    ppo_config cfg =
        config_of("num_envs=2 rollout_steps=15 minibatch_size=0 total_steps=100 hidden=8 gamma=0.5 "
                  "gae_lambda=1 recompute_advantages=yes");
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_progress progress;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    assert_ok(ppo_trainer_iterate(trainer, &progress));
    const ppo_rollout *r = ppo_trainer_rollout(trainer);
    /* 15 steps: two games of six moves, and three moves. The first player moves 8 times, but at the end it waits
       for the answer to its latest move: 3 + 3 + 2 and, since no outcome has come, one less; the second 7 */
    assert_int_equal(r->recorded[0], 7);
    assert_int_equal(r->recorded[1], 7);
    assert_int_equal(progress.iteration_steps, 14);
    assert_int_equal(progress.episodes, 4);
    assert_true(fabsf(progress.mean_return - 0.75f) < 1e-6f &&
                progress.mean_length == 6); /* zero-sum but for tips */
    for (int k = 0; k < 2; k++) {
        for (int t = 0; t < 15; t++) {
            int at = 2 * t + k, last = t == 2 || t == 5;
            /* what follows the last row: for the first player the observation of the row that waits */
            assert_true(r->next_obs[2 * at] == (t == 6 ? r->obs[2 * at] : 0));
            assert_true(r->next_obs[2 * at + 1] == (t == 6 ? (float)(2 + k) / 6 : 0));
            if (t >= 7) {
                assert_true(r->reward[at] == 0 && r->value[at] == 0 && r->advantage[at] == 0 &&
                            r->terminated[at]);
                continue;
            }
            assert_true(r->obs[2 * at] == (k ? 1 : -1));
            assert_true(r->obs[2 * at + 1] == (float)(2 * (t % 3) + k) / 6);
            assert_int_equal(r->terminated[at], last);
            if (!last) assert_true(r->reward[at] == 0.25f);
            assert_int_equal(r->episode_length[at], last ? 6 : 0);
            if (t < 6) assert_true(r->next_value[at] == (last ? 0 : r->value[at + 2]));
        }
        float v = r->value[2 * 4 + k], target = r->reward[2 * 4 + k] + 0.5f * r->reward[2 * 5 + k];
        assert_close(r->advantage[2 * 4 + k], target - v, 1e-5);
    }
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

/* The second of two leaves after two steps, comes again at the fifth, leaves at the eighth, and would come again at the
   tenth, which is the last. Of what is said of it while it is out, only that it comes counts. */
static void comings_reset(void *state, ppo_rng *rng, float *obs, ppo_outcome *out) {
    (void)rng, (void)out;
    obs[0] = obs[1] = (float)(*(int *)state = 0);
}

static void comings_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    const int step = ++*(int *)state, is_out = (step > 2 && step < 5) || step > 8;
    (void)rng, (void)action;
    obs[0] = (float)step, obs[1] = is_out ? NAN : (float)step;
    out[0].reward = 1, out[1].reward = is_out ? NAN : (float)step;
    out[1].terminated = step == 2 || step == 8;
    out[1].truncated = is_out;
    out[1].joins = step == 5 || step == 10;
    out[0].joins = step == 4; /* it is there: this means nothing */
}

static void who_is_out_comes_again_when_it_says_so(void **state) {
    (void)state;
    ppo_env env = {.obs_size = 1,
                   .action_space = ppo_discrete(2),
                   .state_size = sizeof(int),
                   .max_steps = 10,
                   .agents = 2,
                   .reset_all = comings_reset,
                   .step_all = comings_step};
    ppo_config cfg = config_of("num_envs=2 rollout_steps=10 minibatch_size=0 total_steps=100 hidden=8");
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_progress progress;
    const int seen[5] = {0, 1, 5, 6, 7}, length[5] = {0, 2, 0, 0, 3};
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    for (int k = 1; k <= 2; k++) {
        assert_ok(ppo_trainer_iterate(trainer, &progress));
        const ppo_rollout *r = ppo_trainer_rollout(trainer);
        assert_int_equal(progress.episodes, 3 * k);
        assert_true(r->recorded[0] == 10 && r->recorded[1] == 5 && r->episode_length[2 * 9] == 10);
        for (int t = 0; t < 5; t++) {
            assert_true(r->obs[2 * t] == (float)t && r->obs[2 * t + 1] == (float)seen[t]);
            assert_true(r->reward[2 * t + 1] == (float)(seen[t] + 1));
            assert_int_equal(r->episode_length[2 * t + 1], length[t]);
        }
    }
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

/* An action whose outcome comes in the next rollout is recorded there. */
static void no_outcome_is_lost_between_rollouts(void **state) {
    (void)state;
    ppo_env env = turns_env();
    ppo_config cfg =
        config_of("num_envs=4 rollout_steps=5 minibatch_size=0 total_steps=1000 hidden=8 recurrent=3 "
                  "normalize_obs=yes normalize_reward=yes objective=kl-penalty threads=2");
    ppo_agent *kept = NULL;
    for (int resumed = 0; resumed < 2; resumed++) {
        ppo_agent *agent = NULL;
        ppo_trainer *trainer = NULL;
        int moves = 0, ends[2] = {0, 0};
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
        for (int i = 0; i < 12; i++) { /* 60 steps of two worlds: ten games in each */
            assert_ok(ppo_trainer_iterate(trainer, NULL));
            const ppo_rollout *r = ppo_trainer_rollout(trainer);
            for (int e = 0; e < 4; e++) {
                moves += r->recorded[e];
                for (int t = 0; t < r->recorded[e]; t++) ends[e % 2] += r->terminated[4 * t + e];
            }
            if (!resumed) continue;
            assert_ok(ppo_trainer_save(trainer, "turns.tmp"));
            ppo_trainer_free(trainer);
            ppo_agent_free(agent);
            assert_ok(ppo_trainer_resume("turns.tmp", &env, NULL, &agent, &trainer));
        }
        assert_int_equal(moves, 120);
        assert_int_equal(ends[0], 20);
        assert_int_equal(ends[1], 20);
        if (kept) assert_true(same_policy(agent, kept));
        ppo_trainer_free(trainer);
        if (kept) ppo_agent_free(agent), ppo_agent_free(kept);
        else kept = agent;
    }
    remove("turns.tmp");
}

static void after_a_failure_no_outcome_is_awaited(void **state) {
    (void)state;
    ppo_env env = turns_env();
    ppo_config cfg = config_of("num_envs=4 rollout_steps=5 minibatch_size=0 total_steps=1000 hidden=8");
    ppo_agent *agent[2] = {NULL, NULL};
    ppo_trainer *trainer[2] = {NULL, NULL};
    ppo_file *file = NULL;
    assert_ok(ppo_agent_create(&env, &cfg, &agent[0]));
    assert_ok(ppo_trainer_create(&env, &cfg, agent[0], &trainer[0]));
    assert_ok(ppo_trainer_iterate(trainer[0], NULL));
    turns_fail = 1;
    assert_fails(ppo_trainer_iterate(trainer[0], NULL), PPO_ERROR_NUMERIC, "reward is NaN");
    turns_fail = 0;
    assert_ok(ppo_trainer_save(trainer[0], "turns.tmp"));
    assert_ok(ppo_file_read("turns.tmp", &file));
    const ppo_array *open = ppo_file_find(file, "environments.open");
    assert_true(open && open->bytes == 4);
    for (int e = 0; e < 4; e++) assert_int_equal(((const unsigned char *)open->data)[e], 0);
    ppo_file_free(file);
    assert_ok(ppo_trainer_resume("turns.tmp", &env, NULL, &agent[1], &trainer[1]));
    for (int k = 0; k < 2; k++) assert_ok(ppo_trainer_iterate(trainer[k], NULL));
    assert_true(same_policy(agent[0], agent[1]));
    for (int k = 0; k < 2; k++) ppo_trainer_free(trainer[k]), ppo_agent_free(agent[k]);
    remove("turns.tmp");
}

/* --------------------------------------------------------------------------------------------------------
   Self-play
   -------------------------------------------------------------------------------------------------------- */

static void turns_env_without_teams_is_no_match(ppo_agent *agent) {
    ppo_env env = turns_env();
    env.teams = 0;
    assert_int_equal(ppo_evaluate_match(agent, agent, &env, 2, 1).status, PPO_ERROR_ARGUMENT);
}

/* Whose memory is of another size. */
static void players_of_any_kind_meet(void **state) {
    (void)state;
    ppo_env env = turns_env();
    ppo_config cfg[3] = {config_of("hidden=4 num_envs=2"), config_of("hidden=4 num_envs=2 recurrent=3"),
                         config_of("hidden=4 num_envs=2 recurrent=40 seed=2")};
    ppo_agent *agent[3] = {NULL, NULL, NULL};
    for (int k = 0; k < 3; k++) assert_ok(ppo_agent_create(&env, &cfg[k], &agent[k]));
    for (int k = 0; k < 9; k++) {
        /* an episode is the same whatever stands beside it: mean(2) - mean(1) / 2 is that of the second one */
        ppo_evaluation one = ppo_evaluate_match(agent[k / 3], agent[k % 3], &env, 1, 5),
                       two = ppo_evaluate_match(agent[k / 3], agent[k % 3], &env, 2, 5);
        assert_ok(one.status);
        assert_ok(two.status);
        assert_true(two.min_return == one.min_return || two.max_return == one.min_return);
    }
    for (int k = 0; k < 3; k++) ppo_agent_free(agent[k]);
}

static void earlier_policies_play_and_are_not_learned_from(void **state) {
    (void)state;
    ppo_env env = turns_env();
    ppo_config cfg =
        config_of("num_envs=8 rollout_steps=12 minibatch_size=32 total_steps=1500 hidden=8 "
                  "learning_rate=3e-3 self_play=2 snapshot_every=2 self_play_latest=0.25 normalize_obs=yes");
    ppo_agent *kept = NULL;
    for (int threads = 1; threads <= 2; threads++) {
        ppo_agent *agent = NULL;
        ppo_trainer *trainer = NULL;
        int fewer = 0, i = 0;
        cfg.threads = threads;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
        for (; !ppo_trainer_done(trainer); i++) {
            ppo_progress progress;
            const ppo_rollout *r = ppo_trainer_rollout(trainer);
            heap h = {0, 0, -1, 0};
            if (i > 3 && i % 5) ppo_set_allocator(heap_hook, &h);
            assert_ok(ppo_trainer_iterate(trainer, &progress));
            ppo_set_allocator(NULL, NULL);
            assert_int_equal(h.calls, 0);
            for (int w = 0; w < 4; w++) {
                int rows = r->recorded[2 * w] + r->recorded[2 * w + 1];
                assert_true((rows >= 5 || r->steps < 12) && rows <= 12);
                if (i < 2) assert_int_equal(rows, 12); /* there is no snapshot yet */
                fewer += rows < 12;
            }
            if (threads == 2 && i % 5 == 4) { /* goes on with the same bits */
                assert_ok(ppo_trainer_save(trainer, "match.tmp"));
                ppo_trainer_free(trainer);
                ppo_agent_free(agent);
                assert_ok(ppo_trainer_resume("match.tmp", &env, NULL, &agent, &trainer));
            }
        }
        assert_true(fewer > i);
        if (kept) assert_true(same_policy(agent, kept));
        ppo_trainer_free(trainer);
        if (kept) ppo_agent_free(agent);
        else kept = agent;
    }
    remove("match.tmp");

    ppo_agent *weak = NULL;
    assert_ok(ppo_agent_create(&env, &cfg, &weak));
    ppo_evaluation won = ppo_evaluate_match(kept, weak, &env, 101, 1),
                   lost = ppo_evaluate_match(weak, kept, &env, 101, 1);
    ppo_evaluation even = ppo_evaluate_match(kept, kept, &env, 64, 1),
                   greedy = ppo_evaluate(kept, &env, 64, 1);
    assert_ok(won.status);
    assert_true(won.mean_return > 1 && lost.mean_return < 0.5f && won.mean_length == 6);
    assert_true(greedy.mean_return == 0.75f && greedy.std_return == 0);
    assert_true(even.std_return > 0 && fabsf(even.mean_return - 0.75f) < 0.5f); /* of one of two equals */
    turns_env_without_teams_is_no_match(kept);
    ppo_agent_free(weak);
    ppo_agent_free(kept);
}

/* Two rounds of three teams of two. In each an agent earns a point for each opponent that plays 0, loses one for each of
   its team that does, and earns ten times the number of its team. */
static void rounds_reset(void *state, ppo_rng *rng, float *obs, ppo_outcome *out) {
    (void)rng, (void)out;
    *(int *)state = 0;
    memset(obs, 0, 6 * sizeof *obs);
}

static void rounds_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    (void)rng;
    const int over = ++*(int *)state == 2;
    for (int i = 0; i < 6; i++) {
        obs[i] = (float)over, out[i].terminated = over;
        out[i].reward = 10 * (float)(i / 2);
        for (int k = 0; k < 6; k++)
            if (action[k].discrete == 0) out[i].reward += k / 2 == i / 2 ? -1 : 1;
    }
}

static ppo_env rounds_env(void) {
    const ppo_env env = {.name = "rounds",
                         .obs_size = 1,
                         .action_space = ppo_discrete(2),
                         .state_size = sizeof(int),
                         .agents = 6,
                         .teams = 3,
                         .reset_all = rounds_reset,
                         .step_all = rounds_step};
    return env;
}

/* Each team in turn is the first player's, all others are the second's. */
static void a_match_is_one_team_against_all_others(void **state) {
    (void)state;
    const ppo_env env = rounds_env();
    const ppo_config cfg = config_of("hidden=none num_envs=6");
    ppo_agent *agent[2];
    for (int k = 0; k < 2; k++) { /* plays 1 - k */
        assert_ok(ppo_agent_create(&env, &cfg, &agent[k]));
        agent[k]->model.actor.bias[0]->data[1 - k] = 100;
    }
    for (int k = 0; k < 3; k++) {
        const int episodes = (int[]){3, 4, 300}[k]; /* 300: not all at once */
        const ppo_evaluation e = ppo_evaluate_match(agent[0], agent[1], &env, episodes, 1);
        assert_ok(e.status);
        assert_true(e.min_return == 8 && e.max_return == 48 && e.mean_length == 2);
        assert_close(e.mean_return, k == 1 ? 23 : 28, 1e-6);
        assert_close(ppo_evaluate_match(agent[1], agent[0], &env, episodes, 1).min_return, -4, 1e-6);
    }
    for (int k = 0; k < 2; k++) ppo_agent_free(agent[k]);
}

/* All is played by the learner, or one team by the learner and the others by one of the earlier policies. */
static void the_players_of_a_game_are_drawn_evenly(void **state) {
    (void)state;
    enum { GAMES = 1200, ROOM = 2, TEAMS = 3 };
    const ppo_env env = rounds_env();
    ppo_config cfg = config_of("num_envs=7200 rollout_steps=2 minibatch_size=0 epochs=1 total_steps=60000 "
                               "hidden=4 self_play=2 snapshot_every=1 self_play_latest=0.4");
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    for (int snapshots = 0; snapshots < ROOM + 2; snapshots++) { /* during the rollout */
        const int there = snapshots < ROOM ? snapshots : ROOM;
        int latest = 0, games[ROOM][TEAMS] = {{0}};
        ppo_file *file = NULL;
        assert_ok(ppo_trainer_iterate(trainer, NULL));
        assert_ok(ppo_trainer_save(trainer, "match.tmp"));
        assert_ok(ppo_file_read("match.tmp", &file));
        const int *player = (const int *)ppo_file_find(file, "environments.player")->data;
        for (int g = 0; g < GAMES; g++, player += 2 * TEAMS) {
            int own = 0, team = 0, earlier = -1;
            for (int i = 0; i < 2 * TEAMS; i++) {
                assert_int_equal(player[i], player[i / 2 * 2]);
                if (player[i] < 0) own++, team = i / 2;
                else
                    assert_true(player[i] < there && (earlier < 0 || player[i] == earlier)),
                        earlier = player[i];
            }
            assert_int_equal(own, earlier < 0 ? 2 * TEAMS : 2);
            if (earlier < 0) latest++;
            else games[earlier][team]++;
        }
        assert_true(abs(latest - (there ? 480 : GAMES)) < 85); /* five standard deviations */
        for (int k = 0; k < there; k++)
            for (int team = 0; team < TEAMS; team++) assert_true(abs(games[k][team] - 240 / there) < 70);
        ppo_file_free(file);
    }
    remove("match.tmp");
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

/* A shorter one could end before some agent has had its turn. */
static void the_last_rollout_of_a_world_is_a_whole_one(void **state) {
    (void)state;
    ppo_env env = {.obs_size = 2,
                   .action_space = ppo_discrete(2),
                   .state_size = sizeof(way),
                   .agents = 3,
                   .reset_all = ways_reset,
                   .step_all = ways_step,
                   .open = way_open};
    ppo_config cfg = config_of("num_envs=6 rollout_steps=10 minibatch_size=0 total_steps=61 hidden=8");
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_progress progress;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    while (!ppo_trainer_done(trainer)) assert_ok(ppo_trainer_iterate(trainer, &progress));
    assert_int_equal(progress.steps, 2 * 60);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

static void worlds_that_do_not_fit_are_refused(void **state) {
    (void)state;
    ppo_env env = turns_env(), lonely = turns_env(), single = cartpole_env();
    ppo_config cfg = config_of("num_envs=3"), match = config_of("self_play=2");
    ppo_agent *agent = NULL;
    assert_fails(ppo_train(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, "num_envs is 3|env.agents|2");
    lonely.teams = 1;
    assert_fails(ppo_train(&lonely, &match, &agent), PPO_ERROR_ARGUMENT, "self_play|env.teams of 2 or more, not 1");
    assert_fails(ppo_agent_create(&lonely, &match, &agent), PPO_ERROR_ARGUMENT, "self_play|env.teams of 2 or more, not 1");
    assert_fails(ppo_agent_create(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, "num_envs is 3|env.agents|2");
    lonely.teams = 3;
    assert_fails(ppo_train(&lonely, &match, &agent), PPO_ERROR_ARGUMENT, "env.teams is 3|2");
    env.step_all = NULL;
    assert_fails(ppo_train(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, "env.step_all is NULL");
    single.reset = NULL;
    assert_fails(ppo_train(&single, &cfg, &agent), PPO_ERROR_ARGUMENT, "env.reset is NULL");
    single.step = NULL;
    assert_fails(ppo_train(&single, &cfg, &agent), PPO_ERROR_ARGUMENT, "without reset and step|max_steps");
    env = turns_env();
    match.snapshot_every = 3, match.self_play = 0;
    assert_fails(ppo_train(&env, &match, &agent), PPO_ERROR_ARGUMENT, "snapshot_every|self_play");
    assert_null(agent);
}

/* --------------------------------------------------------------------------------------------------------
   What an environment's functions may ask and say
   -------------------------------------------------------------------------------------------------------- */

typedef struct told {
    int fail_in; /* 1: reset, 2: step, 3: action_mask */
    int asked;
    int silent; /* gives no reason */
} told;

static void told_look(int where, int step) {
    told *t = (told *)ppo_env_user();
    t->asked |= 1 << where;
    if (t->fail_in == where && step == 3) {
        if (t->silent) ppo_env_fail(NULL);
        ppo_env_fail("the server at %s is gone", "port 8080");
        ppo_env_fail("this is not the first reason");
    }
}

static void told_reset(void *state, ppo_rng *rng, float *obs) {
    int *step = (int *)state;
    (void)rng;
    if (*step) *step = 3;
    told_look(1, *step);
    *step = 0;
    obs[0] = 0;
}

static void told_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    int *step = (int *)state;
    (void)rng, (void)action;
    told_look(2, ++*step);
    obs[0] = (float)*step;
    out->reward = 1;
    out->terminated = *step == 5;
    out->metrics[0] = (float)*step;
    out->metrics[1] = -0.5f;
}

static void told_mask(const void *state, unsigned char *mask) {
    told_look(3, *(const int *)state);
    mask[1] = 0;
}

static ppo_env told_env(told *user) {
    ppo_env env = {.name = "told",
                   .obs_size = 1,
                   .action_space = ppo_discrete(2),
                   .state_size = sizeof(int),
                   .reset = told_reset,
                   .step = told_step,
                   .action_mask = told_mask,
                   .user = user,
                   .metrics = {"height", "depth_m"}};
    return env;
}

static void an_environment_reaches_its_user_and_gives_reasons(void **state) {
    (void)state;
    static const char *const names[] = {"", "env.reset failed", "env.step failed", "env.action_mask failed"};
    for (int k = 0; k < 5; k++) {
        told user = {k < 4 ? k : 1, 0, k == 4};
        ppo_env env = told_env(&user);
        ppo_config cfg = config_of("total_steps=64 num_envs=2 rollout_steps=16 minibatch_size=16 hidden=4");
        ppo_agent *agent = NULL;
        assert_null(ppo_env_user());
        ppo_env_fail("nobody listens");
        ppo_fail(PPO_OK, "(no sentence)");
        ppo_status status = ppo_train(&env, &cfg, &agent);
        if (!k) {
            assert_ok(status);
            assert_int_equal(user.asked, 2 + 4 + 8);
            assert_true(ppo_evaluate(agent, &env, 3, 1).mean_return == 5);
        } else {
            assert_int_equal(status, PPO_ERROR_ARGUMENT);
            assert_non_null(strstr(ppo_last_error(), names[user.fail_in]));
            assert_non_null(
                strstr(ppo_last_error(), k == 2 ? "(environment 0, step 3)" : "(environment 0, step "));
            assert_non_null(strstr(ppo_last_error(), user.silent ? ": no reason is given"
                                                                 : ": the server at port 8080 is gone"));
        }
        assert_null(ppo_env_user());
        ppo_agent_free(agent);
    }
}

static int keep_progress(const ppo_progress *progress, void *user) {
    return *(ppo_progress *)user = *progress, 0;
}

static void an_environments_own_figures_are_reported(void **state) {
    (void)state;
    told user = {0, 0, 0};
    ppo_env env = told_env(&user);
    ppo_config cfg = config_of("total_steps=128 num_envs=2 rollout_steps=16 minibatch_size=16 hidden=4");
    ppo_agent *agent = NULL, *again = NULL;
    ppo_trainer *trainer = NULL, *resumed = NULL;
    ppo_log *log = NULL;
    ppo_progress progress, more;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    assert_ok(ppo_log_open("figures.csv", NULL, 0, &log));
    assert_ok(ppo_trainer_iterate(trainer, &progress));
    assert_string_equal(progress.metric_names[0], "height");
    assert_true(progress.metrics[0] == 5 && progress.metrics[1] == -0.5f);
    assert_ok(ppo_log_write(log, &progress));
    ppo_log_close(log);
    assert_ok(ppo_trainer_save(trainer, "figures.tmp"));
    assert_ok(ppo_trainer_resume("figures.tmp", &env, NULL, &again, &resumed));
    assert_ok(ppo_trainer_iterate(trainer, &progress));
    assert_ok(ppo_trainer_iterate(resumed, &more));
    assert_memory_equal(progress.metrics, more.metrics, sizeof progress.metrics);
    assert_ok(ppo_log_open("figures.csv", NULL, progress.steps - progress.iteration_steps, &log));
    assert_ok(ppo_log_write(log, &progress));
    ppo_log_close(log);
    char lines[3][1024], *tail;
    FILE *file = fopen("figures.csv", "r");
    for (int i = 0; i < 3; i++) assert_non_null(fgets(lines[i], sizeof lines[i], file));
    assert_null(fgets(lines[0] + 512, 16, file));
    fclose(file);
    tail = strstr(lines[0], ",train/value_loss,train/warning,env/height,env/depth_m\n");
    assert_non_null(tail);
    for (int i = 1; i < 3; i++) assert_non_null(strstr(lines[i], ",5,-0.5\n"));
    env.metrics[1] = NULL; /* another environment: other columns */
    ppo_trainer_free(resumed);
    assert_ok(ppo_trainer_create(&env, &cfg, again, &resumed));
    assert_ok(ppo_trainer_iterate(resumed, &more));
    assert_ok(ppo_log_open("figures.csv", NULL, 1000, &log));
    assert_fails(ppo_log_write(log, &more), PPO_ERROR_FILE, "figures.csv|columns");
    ppo_log_close(log);
    env.metrics[1] = "a,b";
    assert_fails(check_env(&env), PPO_ERROR_ARGUMENT, "env.metrics[1]|a,b");
    remove("figures.csv");
    remove("figures.tmp");
    ppo_trainer_free(resumed);
    ppo_trainer_free(trainer);
    ppo_agent_free(again);
    ppo_agent_free(agent);
}

/* Rewards that have nothing to do with the actions, or far too large ones. */
static void chance_reset(void *state, ppo_rng *rng, float *obs) { (void)state, (void)rng, obs[0] = 0; }

static void chance_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    (void)action;
    float scale = *(float *)ppo_env_user();
    obs[0] = (scale < 0 ? 9 : 1) * ppo_rng_normal(rng);
    out->reward = fabsf(scale) * ppo_rng_normal(rng);
    out->terminated = ++*(int *)state % 7 == 0;
}

static void what_seems_to_go_wrong_is_said(void **state) {
    (void)state;
    static const struct {
        float scale;
        const char *settings, *says;
    } cases[] = {
        {1, "learning_rate=1e-6 total_steps=30000", "at random (entropy 1.386"},
        {1e5f, "total_steps=512 value_coef=100", "near overflow"},
        {-1, "hidden=none learning_rate=10 learning_rate_schedule=constant epochs=1 total_steps=512",
         "critic's squared error"},
        {1, "learning_rate=0.3 clip_low=1e-4 clip_high=1e-4 total_steps=2048", "left the clip range"},
        {1, "total_steps=256", ""},
    };
    for (int k = 0; k < COUNT(cases); k++) {
        float scale = cases[k].scale;
        ppo_env env = {.obs_size = 1,
                       .action_space = ppo_discrete(4),
                       .state_size = sizeof(int),
                       .reset = chance_reset,
                       .step = chance_step,
                       .user = &scale};
        ppo_config cfg = config_of("num_envs=4 rollout_steps=32 hidden=8");
        ppo_progress progress;
        ppo_agent *agent = NULL;
        assert_ok(ppo_config_set_all(&cfg, cases[k].settings));
        cfg.callback = keep_progress;
        cfg.callback_user = &progress;
        assert_ok(ppo_train(&env, &cfg, &agent));
        if (!strstr(progress.warning, cases[k].says) || !*cases[k].says != !*progress.warning)
            fail_msg("case %d: \"%s\" does not say \"%s\" (explained %g, clipped %g, value loss %g)", k,
                     progress.warning, cases[k].says, (double)progress.explained_variance,
                     (double)progress.clip_fraction, (double)progress.value_loss);
        ppo_agent_free(agent);
    }
}

/* --------------------------------------------------------------------------------------------------------
   Inspecting an environment
   -------------------------------------------------------------------------------------------------------- */

enum {
    SOUND,
    RAND,
    POINTER,
    STATIC,
    TAIL,
    FORGETS,
    ENDLESS,
    UNPAID,
    HUGE_REWARD,
    LARGE,
    TINY,
    FROZEN,
    FAULTS
};

typedef struct faulty {
    int fault, step;
    const void *self;
    int drawn[3]; /* the last one is half a pointer's size */
} faulty;

static void faulty_show(faulty *s, float *obs) {
    static unsigned elsewhere;
    int fault = *(int *)ppo_env_user();
    float size = fault == LARGE ? 300 : fault == TINY ? 1e-4f : fault == FROZEN ? 0 : 1;
    if (fault == POINTER) s->self = &s->step;
    if (fault == STATIC) s->self = &elsewhere;
    if (fault == TAIL) s->drawn[2] = (int)elsewhere++;
    obs[0] = fault == FROZEN ? 0.5f : size * sinf((float)s->step);
    if (fault != FORGETS || s->step < 3) obs[1] = fault == FROZEN ? 0.5f : size * cosf(2 * (float)s->step);
    if (fault == RAND && s->step > 4) obs[0] = (float)(elsewhere++ % 100) / 100;
}

static void faulty_reset(void *state, ppo_rng *rng, float *obs) {
    faulty *s = (faulty *)state;
    s->step = ppo_rng_below(rng, 3);
    faulty_show(s, obs);
}

static void faulty_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    faulty *s = (faulty *)state;
    int fault = *(int *)ppo_env_user();
    (void)rng;
    s->step++;
    faulty_show(s, obs);
    out->reward = fault == UNPAID ? 0 : fault == HUGE_REWARD ? 1e7f : (float)action->choices[1];
    out->terminated = fault != ENDLESS && s->step > 20;
}

/* Two agents, who join again at once where their episodes end. */
static void rejoin_reset(void *state, ppo_rng *rng, float *obs, ppo_outcome *out) {
    (void)out, *(int *)state = 0;
    for (int e = 0; e < 2; e++) obs[e] = ppo_rng_normal(rng);
}

static void rejoin_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    const int step = ++*(int *)state;
    for (int e = 0; e < 2; e++) {
        obs[e] = ppo_rng_normal(rng);
        out[e].reward = (float)action[e].discrete;
        out[e].terminated = out[e].joins = step % 10 == e;
    }
}

static ppo_env rejoin_env(void) {
    ppo_env env = {.obs_size = 1,
                   .action_space = ppo_discrete(2),
                   .state_size = sizeof(int),
                   .agents = 2,
                   .reset_all = rejoin_reset,
                   .step_all = rejoin_step};
    return env;
}

static void faulty_mask(const void *state, unsigned char *mask) { (void)state, mask[1] = 0; }

static void an_inspection_names_what_is_wrong(void **state) {
    (void)state;
    static const char *const says[FAULTS] = {"",
                                             "depends on more than its state",
                                             "bytes 8 to 15 of the state differ|as pointers, numbers",
                                             "bytes 8 to 15 of the state are an address in the program",
                                             "bytes 24 to 27 of the state differ",
                                             "does not write observation[1]",
                                             "no episode ended",
                                             "no reward came in 500 steps",
                                             "rewards reach 1e+07",
                                             "observation[|far from unit scale: try normalize_obs=yes",
                                             "all observations are within",
                                             "the observation never changed"};
    const int sizes[2] = {3, 2};
    ppo_inspection report;
    for (int fault = 0; fault < FAULTS; fault++) {
        ppo_env env = {.obs_size = 2,
                       .action_space = ppo_multi_discrete(sizes, 2),
                       .state_size = offsetof(faulty, drawn) + 3 * sizeof(int),
                       .reset = faulty_reset,
                       .step = faulty_step,
                       .action_mask = faulty_mask,
                       .user = &fault};
        if (sizeof(void *) < 8 && fault > RAND && fault < FORGETS) continue;         /* other bytes */
        if (!((uint64_t)(uintptr_t)faulty_reset >> 40) && fault == STATIC) continue; /* such addresses stay */
        assert_ok(ppo_env_check(&env, 500, 1, &report));
        if (report.findings != !!fault)
            fail_msg("fault %d: %d findings: %s", fault, report.findings, report.finding[0]);
        char words[128];
        snprintf(words, sizeof words, "%s", says[fault]);
        for (char *word = strtok(words, "|"); word; word = strtok(NULL, "|"))
            if (!strstr(report.finding[0], word))
                fail_msg("\"%s\" does not say \"%s\"", report.finding[0], word);
        if (!fault || fault == POINTER) assert_true(report.steps == 500 && report.episodes > 20);
    }
    const ppo_env sound[] = {cartpole_env(), memory_env(), turns_env()};
    for (int i = 0; i < COUNT(sound); i++) {
        assert_ok(ppo_env_check(&sound[i], 500, 1, &report));
        if (report.findings) fail_msg("%s: %s", sound[i].name, report.finding[0]);
    }
    float scale = -1;
    ppo_env far_off = {.obs_size = 1,
                       .action_space = ppo_box(1, -20, 100),
                       .state_size = sizeof(int),
                       .reset = chance_reset,
                       .step = chance_step,
                       .user = &scale};
    for (int k = 0; k < 3; k++) {
        ppo_config cfg = config_of(k ? "scale_actions=no" : "");
        assert_ok(ppo_env_check_with(&far_off, &cfg, 500, 1, &report));
        assert_int_equal(strstr(report.finding[0], "actions go from -20 to 100") != NULL, k == 1);
        if (k == 1) far_off.action_space = ppo_box(1, -3, 3);
    }
    ppo_env again = rejoin_env();
    assert_ok(ppo_env_check(&again, 500, 1, &report));
    assert_true(report.findings == 1 &&
                strstr(report.finding[0], "the world never ended in 500 random steps"));
    again.max_steps = 100;
    assert_ok(ppo_env_check(&again, 500, 1, &report));
    assert_int_equal(report.findings, 0);
    again.reset = chance_reset;
    assert_fails(check_env(&again), PPO_ERROR_ARGUMENT, "env.reset must be NULL");
    ppo_env box = {.obs_size = 1,
                   .action_space = ppo_box(2, -INFINITY, INFINITY),
                   .reset = chance_reset,
                   .step = chance_step};
    assert_fails(ppo_env_check(&box, 0, 1, &report), PPO_ERROR_ARGUMENT, "steps is 0");
    assert_fails(ppo_env_check(&box, 1, 1, NULL), PPO_ERROR_ARGUMENT, "NULL");
    box.step = NULL;
    assert_fails(ppo_env_check(&box, 1, 1, &report), PPO_ERROR_ARGUMENT, "env.step is NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_stays_as_it_was_until_it_is_assigned),
        cmocka_unit_test(agents_of_other_networks_are_not_assigned),
        cmocka_unit_test_teardown(a_copy_survives_every_failed_allocation, restore_allocator),
        cmocka_unit_test_teardown(many_act_as_each_by_itself, restore_allocator),
        cmocka_unit_test(pushed_experience_trains_to_the_same_bits),
        cmocka_unit_test(what_is_pushed_in_the_wrong_order_is_refused),
        cmocka_unit_test(agents_that_do_not_meet_train_as_in_worlds_of_their_own),
        cmocka_unit_test(what_an_agent_earns_while_it_waits_counts_for_its_latest_action),
        cmocka_unit_test(who_is_out_comes_again_when_it_says_so),
        cmocka_unit_test(no_outcome_is_lost_between_rollouts),
        cmocka_unit_test(after_a_failure_no_outcome_is_awaited),
        cmocka_unit_test(players_of_any_kind_meet),
        cmocka_unit_test_teardown(earlier_policies_play_and_are_not_learned_from, restore_allocator),
        cmocka_unit_test(the_players_of_a_game_are_drawn_evenly),
        cmocka_unit_test(a_match_is_one_team_against_all_others),
        cmocka_unit_test(the_last_rollout_of_a_world_is_a_whole_one),
        cmocka_unit_test(worlds_that_do_not_fit_are_refused),
        cmocka_unit_test(an_environment_reaches_its_user_and_gives_reasons),
        cmocka_unit_test(an_environments_own_figures_are_reported),
        cmocka_unit_test(what_seems_to_go_wrong_is_said),
        cmocka_unit_test(an_inspection_names_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
