/* Sections 14 and 15: copies of agents, many characters at once, several agents in one world, self-play, and
   programs that step their own world. */
#include "../ppo.h"

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
    ppo_env      env = cartpole_env();
    ppo_config   cfg = config_of("total_steps=2000 normalize_obs=yes normalize_reward=yes rollout_steps=64");
    ppo_agent   *agent = NULL, *copy = NULL;
    ppo_trainer *trainer = NULL;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    assert_ok(ppo_trainer_iterate(trainer, NULL));
    assert_ok(ppo_agent_copy(agent, &copy));
    assert_true(same_policy(agent, copy));
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
    ppo_env    env = cartpole_env(), other = memory_env();
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
    assert_fails(ppo_agent_assign(a, b), PPO_ERROR_ARGUMENT, "ppo_agent_assign|4");
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
    ppo_env    env = cartpole_env();
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
    const int       sizes[2] = {3, 2};
    const ppo_space spaces[] = {ppo_discrete(4), ppo_box(2, -0.5f, 1), ppo_multi_discrete(sizes, 2)};
    for (int k = 0; k < 6; k++) {
        ppo_space   space = spaces[k % 3];
        ppo_env     env = {.obs_size = SIZE, .action_space = space};
        ppo_config  cfg = config_of(k < 3 ? "hidden=16" : "hidden=16 recurrent=6");
        ppo_agent  *agent = NULL, *one[N] = {NULL};
        ppo_rng     rng = ppo_rng_stream(5, PPO_STREAM_USER, (uint32_t)k);
        int         width = cfg.recurrent, choices[2 * N], options = k % 3 == 0 ? 4 : 5;
        float       obs[N * SIZE], box[2 * N], memory[N * 6] = {0};
        ppo_actions actions = {choices, box};
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        for (int i = 0; i < N; i++) assert_ok(ppo_agent_copy(agent, &one[i]));
        for (int t = 0; t < STEPS; t++) {
            unsigned char mask[N * 5];
            heap          h = {0, 0, -1, 0};
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
    ppo_env      env;
    ppo_agent   *agent;
    ppo_trainer *trainer;
    cartpole     world[8];
    ppo_rng      rng[8];
    int          age[8], over[8];
    float        obs[8][4];
    ppo_action   action;
} pushed;

/* What ppo_trainer_iterate() does with each CartPole, in a loop of our own: to the next observation. */
static void push_a_step(pushed *p, int s, int limit) {
    ppo_outcome out = {0, 0, 0, 0, 0};
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
                                 "objective=kl-penalty adaptive_kl_target=0.01",
                                 "baseline=no value_coef=0.5",
                                 "target_kl=0.001 threads=2"};
    for (int k = 0; k < COUNT(kinds); k++) {
        ppo_env    env = cartpole_env(), described = {0};
        ppo_config cfg =
            config_of("total_steps=700 num_envs=3 rollout_steps=50 minibatch_size=40 epochs=3 hidden=16");
        assert_ok(ppo_config_set_all(&cfg, kinds[k]));
        env.max_steps = 17;
        described.name = env.name;
        described.obs_size = env.obs_size;
        described.action_space = env.action_space;
        ppo_agent   *agent = NULL;
        ppo_trainer *trainer = NULL;
        pushed       p = {.env = env};
        int64_t      gradients = 0;
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
            int          slices = 0;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_stays_as_it_was_until_it_is_assigned),
        cmocka_unit_test(agents_of_other_networks_are_not_assigned),
        cmocka_unit_test_teardown(a_copy_survives_every_failed_allocation, restore_allocator),
        cmocka_unit_test_teardown(many_act_as_each_by_itself, restore_allocator),
        cmocka_unit_test(pushed_experience_trains_to_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
