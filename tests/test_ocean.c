/* ppo_ocean.h, with environments in that style. */
#include "../ppo.h"

#include "../examples/companions/ppo_ocean.h"
#include "test.h"

#include "ocean/catch.h"
PPO_OCEAN_ENV(catching, Catch, 30, ppo_discrete(3), 1, 0, catching->width = 5; catching->height = 6;
              init(catching))

/* Another one needs another file: its functions have the same names. */
#define c_reset swarm_c_reset
#define c_step  swarm_c_step
#define c_close swarm_c_close
#include "ocean/swarm.h"
PPO_OCEAN_ENV(swarm, Swarm, 2, ppo_box(2, -1, 1), 6, 25, swarm->num_agents = 6;
              swarm->x = calloc(12, sizeof(float)))

/* Told less than the environment writes: too few numbers, far too few, too few agents. */
PPO_OCEAN_ENV(narrow, Swarm, 1, ppo_box(2, -1, 1), 6, 25, narrow->num_agents = 6;
              narrow->x = calloc(12, sizeof(float)))
PPO_OCEAN_ENV(wide, Swarm, 1, ppo_box(2, -1, 1), 1, 25, wide->num_agents = 900;
              wide->x = calloc(1800, sizeof(float)))
PPO_OCEAN_ENV(lonely, Swarm, 12, ppo_box(2, -1, 1), 1, 25, lonely->num_agents = 6;
              lonely->x = calloc(12, sizeof(float)))

static ppo_config config_of(const char *settings) {
    ppo_config cfg = ppo_config_default();
    assert_ok(ppo_config_set_all(&cfg, settings));
    return cfg;
}

static void such_environments_are_sound(void **state) {
    (void)state;
    const ppo_env envs[] = {catching_env(), swarm_env()};
    for (int i = 0; i < COUNT(envs); i++) {
        ppo_inspection report;
        assert_ok(ppo_env_check(&envs[i], 300, 1, &report));
        if (report.findings) fail_msg("%s: %s", envs[i].name, report.finding[0]);
        assert_true(report.episodes > 10);
    }
}

static int is_silent(const ppo_progress *p, void *user) {
    (void)user;
    if (p->symptom) fail_msg("%s: %s", p->symptom, p->warning);
    return 0;
}

static void one_learns_to_catch(void **state) {
    (void)state;
    ppo_env env = catching_env();
    ppo_config cfg = config_of("total_steps=16000 num_envs=8 rollout_steps=64 minibatch_size=128 hidden=32 "
                               "learning_rate=3e-3 entropy_coef=0.01");
    ppo_agent *agent = NULL;
    cfg.callback = is_silent;
    assert_ok(ppo_train(&env, &cfg, &agent));
    ppo_evaluation e = ppo_evaluate(agent, &env, 100, 1);
    assert_ok(e.status);
    assert_true(e.mean_return > 0.95f && e.mean_length == 5);
    ppo_agent_free(agent);
}

static void rand_draws_from_our_streams(void **state) {
    (void)state;
    ppo_env env = swarm_env();
    ppo_config cfg = config_of("total_steps=3000 num_envs=24 rollout_steps=20 minibatch_size=120 hidden=16");
    ppo_agent *agents[3] = {NULL};
    for (int k = 0; k < 3; k++) { /* with more threads, and interrupted */
        ppo_trainer *trainer = NULL;
        cfg.threads = 1 + (k == 1);
        assert_ok(ppo_agent_create(&env, &cfg, &agents[k]));
        assert_ok(ppo_trainer_create(&env, &cfg, agents[k], &trainer));
        for (int i = 0; !ppo_trainer_done(trainer); i++) {
            ppo_progress p;
            assert_ok(ppo_trainer_iterate(trainer, &p));
            is_silent(&p, NULL);
            if (k < 2 || i != 2) continue;
            assert_ok(ppo_trainer_save(trainer, "ocean.tmp"));
            ppo_trainer_free(trainer);
            ppo_agent_free(agents[k]);
            assert_ok(ppo_trainer_resume("ocean.tmp", &env, NULL, &agents[k], &trainer));
        }
        ppo_trainer_free(trainer);
        const ppo_params *a = agents[0]->model.params, *b = agents[k]->model.params;
        assert_memory_equal(a->data, b->data, a->count * sizeof(float));
    }
    remove("ocean.tmp");
    for (int k = 0; k < 3; k++) ppo_agent_free(agents[k]);
}

static void what_is_written_beyond_an_array_is_said_in_a_sentence(void **state) {
    (void)state;
    const struct {
        ppo_env env;
        const char *words;
    } cases[] = {{narrow_env(), "c_reset()|12 observations|which has 6|third"},
                 {wide_env(), "c_reset()|1800 observations|which has 1|third"},
                 {lonely_env(), "c_step()|6 rewards|which has 1|fifth"}};
    for (int i = 0; i < COUNT(cases); i++) {
        const ppo_env *env = &cases[i].env;
        const ppo_config cfg = config_of("num_envs=12");
        ppo_agent *agent = NULL;
        ppo_inspection report;
        assert_ok(ppo_env_check(env, 300, 1, &report));
        assert_int_equal(report.findings, 1);
        assert_ok(ppo_agent_create(env, &cfg, &agent));
        assert_fails(ppo_evaluate(agent, env, 3, 1).status, PPO_ERROR_ARGUMENT, cases[i].words);
        assert_fails(ppo_train(env, &cfg, &agent), PPO_ERROR_ARGUMENT, cases[i].words);
        ppo_agent_free(agent);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(such_environments_are_sound),
        cmocka_unit_test(one_learns_to_catch),
        cmocka_unit_test(rand_draws_from_our_streams),
        cmocka_unit_test(what_is_written_beyond_an_array_is_said_in_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
