/* Groups of processes (section 1): children of this program, connected by pipes, compute the bits that a single process
   computes, and a failure or an end of one of them ends the others. */
#include "../ppo.h"
#include "../examples/companions/ppo_methods.h"
#include "../examples/companions/ppo_resume.h"

#include "test.h"
#include "system.h"
#include "group.h"

#include "../examples/envs/connect4.h"
#include "../examples/envs/pursuit.h"

static uint64_t hash_norm(uint64_t hash, const ppo_normalizer *n) {
    hash = hash_bytes(hash, &n->count, sizeof n->count);
    hash = hash_bytes(hash, n->mean, n->size * sizeof(double));
    return hash_bytes(hash, n->var, n->size * sizeof(double));
}

/* -- control -- */

typedef struct training {
    const char *name;
    ppo_env (*env)(void);
    const char *settings;
    const char *save, *resume; /* paths: saved after two iterations, resumed from */
} training;

/* Everything in a report but the time. */
static uint64_t hash_progress(uint64_t hash, ppo_progress p) {
    p.seconds = p.steps_per_second = p.seconds_left = 0;
    p.metric_names = NULL;
    const float figures[] = {p.mean_return,
                             p.mean_length,
                             p.policy_loss,
                             p.value_loss,
                             p.entropy,
                             p.approx_kl,
                             p.old_approx_kl,
                             p.clip_fraction,
                             p.first_ratio_min,
                             p.first_ratio_max,
                             p.explained_variance,
                             p.learning_rate,
                             p.grad_norm,
                             p.kl,
                             p.kl_coef,
                             p.loss,
                             p.last_loss,
                             p.last_approx_kl,
                             p.std};
    const int64_t counts[] = {p.iteration, p.steps,          p.iteration_steps, p.episodes,
                              p.epochs,    p.gradient_steps, p.updates};
    return hash_bytes(hash_bytes(hash, figures, sizeof figures), counts, sizeof counts);
}

static ppo_config training_config(const training *t, result *r) {
    ppo_config cfg = ppo_config_default();
    cfg.hidden[0] = cfg.hidden[1] = 8, cfg.num_envs = 16, cfg.rollout_steps = 16, cfg.epochs = 2;
    r->status = ppo_config_set_all(&cfg, t->settings);
    cfg.total_steps = 4 * cfg.num_envs * cfg.rollout_steps - 40; /* the last rollout is shorter */
    return cfg;
}

/* After an iteration; a resumed run reports from the third on. */
static void report(const training *t, const ppo_trainer *trainer, ppo_progress p, result *r) {
    r->hash[1] = p.iteration == 2 ? 0 : hash_progress(t->resume && p.iteration == 3 ? 0 : r->hash[1], p);
    if (t->save && p.iteration == 2) r->status = ppo_trainer_save(trainer, t->save);
}

/* What was learned, and where `env` is not NULL what it is worth. */
static void describe(ppo_agent *agent, const ppo_env *env, result *r) {
    if (!agent) return;
    r->hash[0] = hash_params(0, agent->model.params);
    r->hash[2] = hash_norm(hash_norm(0, &agent->obs_norm), &agent->return_norm);
    for (int k = 0; k < 2 && env && !r->status; k++) { /* fewer than processes; more than are open at once */
        const ppo_evaluation e = ppo_evaluate_sampled(agent, env, k ? 300 : 5, 7);
        const float figures[] = {e.mean_return, e.std_return, e.min_return, e.max_return, e.mean_length};
        r->status = e.status;
        r->hash[3] = hash_bytes(r->hash[3], figures, sizeof figures);
    }
}

static void train(void *user, const ppo_group *group, result *r) {
    const training *t = (const training *)user;
    ppo_env env = t->env();
    ppo_config cfg = training_config(t, r);
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_progress p;
    (void)group;
    if (!r->status && t->resume) r->status = ppo_trainer_resume(t->resume, &env, NULL, &agent, &trainer);
    else if (!r->status) {
        r->status = ppo_agent_create(&env, &cfg, &agent);
        if (!r->status) r->status = ppo_trainer_create(&env, &cfg, agent, &trainer);
    }
    while (!r->status && !ppo_trainer_done(trainer)) {
        r->status = ppo_trainer_iterate(trainer, &p);
        if (!r->status) report(t, trainer, p, r);
    }
    describe(agent, t->save || t->resume ? NULL : &env, r);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

/* What one process without a group computes, in this one. */
static result alone(job_fn job, void *user) {
    result r = {PPO_OK, "", {0}, 0, 0, 0};
    job(user, NULL, &r);
    if (r.status) snprintf(r.error, sizeof r.error, "%s", ppo_last_error());
    return r;
}

/* The same by a program that steps its own worlds: each process those of its own sources. */
static void push(void *user, const ppo_group *group, result *r) {
    const training *t = (const training *)user;
    const int rank = group ? group->rank : 0, size = group ? group->size : 1;
    ppo_env env = t->env(), described = {0};
    ppo_config cfg = training_config(t, r);
    const int begin = cfg.num_envs * rank / size, end = cfg.num_envs * (rank + 1) / size;
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_progress p = {0};
    ppo_action action;
    walk world[16];
    ppo_rng rng[16];
    float obs[16][2];
    int age[16] = {0};
    described.name = env.name, described.obs_size = env.obs_size, described.action_space = env.action_space;
    if (!r->status) r->status = ppo_agent_create(&described, &cfg, &agent);
    if (!r->status) r->status = ppo_trainer_create(&described, &cfg, agent, &trainer);
    for (int s = begin; s < end && !r->status; s++) {
        rng[s] = ppo_rng_stream(cfg.seed, PPO_STREAM_ENV, (uint32_t)s);
        env.reset(&world[s], &rng[s], obs[s]);
        r->status = ppo_trainer_observe(trainer, s, obs[s], NULL, NULL);
    }
    while (!r->status && !ppo_trainer_done(trainer)) {
        const int ready = ppo_trainer_ready(trainer);
        for (int s = begin; s < end && !ready && !r->status; s++) {
            ppo_outcome out = {0};
            r->status = ppo_trainer_act(trainer, s, &action);
            if (r->status) break;
            env.step(&world[s], &rng[s], &action, obs[s], &out);
            out.truncated = ++age[s] == env.max_steps && !out.terminated;
            r->status = ppo_trainer_observe(trainer, s, obs[s], NULL, &out);
            if (r->status || (!out.terminated && !out.truncated)) continue;
            env.reset(&world[s], &rng[s], obs[s]), age[s] = 0;
            r->status = ppo_trainer_observe(trainer, s, obs[s], NULL, NULL);
        }
        if (!r->status) r->status = ppo_trainer_learn(trainer, rank % 2 ? -1 : 0, &p); /* -1: in slices */
        if (!r->status && p.iteration) report(t, trainer, p, r);
    }
    describe(agent, NULL, r);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

static void any_number_of_processes_trains_the_same_bits(void **state) {
    (void)state;
    static training kinds[] = {
        {"one shard", walk_env, "", NULL, NULL},
        {"shards", walk_env, "minibatch_size=128 shards=8", NULL, NULL},
        {"three shards", walk_env, "minibatch_size=128 shards=3 epochs=3", NULL, NULL},
        {"uneven shards and environments", walk_env, "minibatch_size=97 shards=7 num_envs=13", NULL, NULL},
        {"by size", walk_env, "minibatch_size=0 rollout_steps=64", NULL, NULL},
        {"normalized", walk_env, "normalize_obs=yes normalize_reward=yes shards=4", NULL, NULL},
        {"no critic", walk_env, "use_critic=no gae_lambda=1 shards=4", NULL, NULL},
        {"target_kl", walk_env, "target_kl=0.001 learning_rate=0.01 shards=4", NULL, NULL},
        {"a rate that follows the KL", walk_env, "lr_target_kl=0.01 learning_rate_schedule=constant shards=4",
         NULL, NULL},
        {"multi-discrete", dials_env, "shared_trunk=yes shards=2", NULL, NULL},
        {"masked", fenced_env, "normalize_reward=yes shards=2", NULL, NULL},
        {"gsde", reach_env, "gsde=yes gsde_steps=4 squash=yes normalize_obs=yes shards=4", NULL, NULL},
        {"adaptive KL", reach_env, "objective=kl-penalty penalty_target_kl=0.01 learning_rate=0.03 shards=4",
         NULL, NULL},
        {"noise in the update", reach_env, "rpo_alpha=0.5 shards=4", NULL, NULL},
        {"recurrent", walk_env, "recurrent=3 sequence_steps=4 shards=4 normalize_obs=yes", NULL, NULL},
        {"advantages anew", fenced_env, "recompute_advantages=yes recurrent=3 sequence_steps=4 shards=2",
         NULL, NULL},
        {"several agents", pursuit_env, "num_envs=144 shards=4 normalize_reward=yes rollout_steps=8", NULL,
         NULL},
        {"self-play", connect4_env, "num_envs=16 self_play=2 snapshot_every=1 shards=4", NULL, NULL},
    };
    for (int k = 0; k < COUNT(kinds); k++) {
        result want = alone(train, &kinds[k]), got[MOST];
        assert_string_equal(want.error, "");
        for (int size = SMALL(k ? 2 : 1, k % 2 ? 2 : MOST); size <= MOST; size *= SMALL(2, MOST)) {
            run_group(size, train, &kinds[k], got);
            assert_alike(got, &want, size);
        }
    }
}

static void pushed_experience_of_any_number_of_processes_trains_the_bits_of_one(void **state) {
    (void)state;
    static training kinds[] = {
        {"one shard", walk_env, "", NULL, NULL},
        {"normalized", walk_env, "normalize_obs=yes normalize_reward=yes shards=4", NULL, NULL},
        {"uneven", walk_env, "minibatch_size=97 shards=7 num_envs=13", NULL, NULL},
        {"recurrent", walk_env, "recurrent=3 sequence_steps=4 shards=4", NULL, NULL},
        {"advantages anew", walk_env, "recompute_advantages=yes shards=2", NULL, NULL},
    };
    for (int k = 0; k < COUNT(kinds); k++) {
        result want = alone(train, &kinds[k]), got[MOST];
        want.hash[3] = 0; /* there is no environment to evaluate with */
        assert_string_equal(want.error, "");
        for (int size = 1; size <= MOST; size *= SMALL(2, MOST)) {
            run_group(size, push, &kinds[k], got);
            assert_alike(got, &want, size);
        }
    }
}

/* A process pushes for a source of another one, and there are fewer sources than processes. */
/* A world in a global variable. */
static walk only_world;
static void only_reset(void *state, ppo_rng *rng, float *obs) {
    (void)state;
    walk_env().reset(&only_world, rng, obs);
}

static void only_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    (void)state;
    walk_env().step(&only_world, rng, action, obs, out);
}

static ppo_env only_env(void) {
    ppo_env env = walk_env();
    env.reset = only_reset, env.step = only_step, env.copies = 1;
    return env;
}

static void each_process_has_the_only_copy_of_a_world(void **state) {
    (void)state;
    training one = {"", walk_env, "num_envs=4", NULL, NULL}, only = {"", only_env, "num_envs=4", NULL, NULL};
    const result want = alone(train, &one), refused = alone(train, &only);
    result got[4];
    assert_ok(want.status);
    assert_non_null(strstr(refused.error, "set num_envs=1"));
    run_group(4, train, &only, got);
    assert_alike(got, &want, 4);
}

static void push_elsewhere(void *user, const ppo_group *group, result *r) {
    ppo_env described = {0};
    ppo_config cfg = eight_environments(0);
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    const float obs[2] = {0, 0};
    (void)user;
    described.obs_size = 2, described.action_space = ppo_discrete(3);
    r->status = ppo_agent_create(&described, &cfg, &agent);
    if (!r->status) r->status = ppo_trainer_create(&described, &cfg, agent, &trainer);
    if (!r->status)
        r->hash[0] = (ppo_trainer_observe(trainer, 2, obs, NULL, NULL) == PPO_OK) != (group->rank == 1);
    if (group->rank == 0) snprintf(r->error, sizeof r->error, "%s", ppo_last_error());
    cfg.num_envs = 3;
    if (!r->status && ppo_trainer_create(&described, &cfg, agent, &trainer) != PPO_ERROR_ARGUMENT)
        r->hash[1] = 1;
}

static void sources_belong_to_processes(void **state) {
    (void)state;
    result got[MOST];
    run_group(4, push_elsewhere, NULL, got);
    assert_non_null(strstr(got[0].error, "source 2 is another process's, this one has 0 to 1"));
    for (int r = 0; r < 4; r++) {
        assert_int_equal(got[r].status, PPO_OK);
        assert_int_equal(got[r].hash[0], 0);
        assert_int_equal(got[r].hash[1], 0);
    }
}

/* In episode 5 of an evaluation, or in none, the reward is NaN. */
static int resets, bad_episode;
static void counted_reset(void *state, ppo_rng *rng, float *obs) {
    resets++;
    walk_reset(state, rng, obs);
}
static void bad_episode_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                             ppo_outcome *out) {
    walk_step(state, rng, action, obs, out);
    if (env_index(rng) == bad_episode) out->reward = NAN;
}
static void evaluate(void *user, const ppo_group *group, result *r) {
    ppo_env env = walk_env();
    ppo_config cfg = eight_environments(0);
    ppo_agent *agent = NULL;
    (void)group;
    env.reset = counted_reset, env.step = bad_episode_step;
    resets = 0, bad_episode = *(int *)user;
    r->status = ppo_agent_create(&env, &cfg, &agent);
    for (int k = 0; k < 2; k++) { /* the second one, too */
        const ppo_evaluation e = ppo_evaluate(agent, &env, 70, 3);
        r->status = e.status;
        r->hash[0] = hash_bytes(r->hash[0], &e.std_return, sizeof e.std_return);
    }
    r->hash[1] = (uint64_t)resets;
    ppo_agent_free(agent);
}

static void evaluate_otherwise(void *user, const ppo_group *group, result *r) {
    ppo_env env = walk_env();
    ppo_config cfg = eight_environments(0);
    ppo_agent *agent = NULL;
    (void)user;
    r->status = ppo_agent_create(&env, &cfg, &agent);
    r->status = ppo_evaluate(agent, &env, group->rank ? 70 : 71, 3).status;
    r->hash[0] = ppo_evaluate(agent, &env, 9, 3).status;
}

static void processes_divide_the_episodes_of_an_evaluation(void **state) {
    (void)state;
    result got[MOST];
    for (int bad = -1; bad <= 5; bad += 6) {
        result want = alone(evaluate, &bad);
        assert_int_equal(want.status, bad < 0 ? PPO_OK : PPO_ERROR_NUMERIC);
        for (int size = 2; size <= MOST; size *= 2) {
            uint64_t sum = 0;
            run_group(size, evaluate, &bad, got);
            for (int r = 0; r < size; r++) {
                sum += got[r].hash[1];
                assert_true(bad >= 0 || got[r].hash[1] <= (uint64_t)(2 * (70 / size + 1)));
                got[r].hash[1] = want.hash[1];
            }
            if (bad < 0) assert_int_equal(sum, 2 * 70);
            assert_alike(got, &want, size);
        }
    }
    run_group(4, evaluate_otherwise, NULL, got);
    assert_alike(got, &got[0], 4);
    assert_int_equal(got[0].hash[0], PPO_OK);
    assert_string_equal(
        got[0].error,
        "process 1 of the group differs from process 0: all need the same number of episodes and seed");
}

/* -- language models -- */

static void any_number_of_processes_tunes_the_same_bits(void **state) {
    (void)state;
    static tuning kinds[] = {
        {"one shard", "", 0, NULL, NULL, 0, 0},
        {"a critic of its own", "shards=8", 0, NULL, NULL, 0, 0},
        {"three shards, micro-batches", "shards=3 micro_batch=2", 0, NULL, NULL, 0, 0},
        {"five uneven shards", "shards=5 minibatch_size=7", 0, NULL, NULL, 0, 0},
        {"micro-batches by their tokens", "shards=2 prompts=90 minibatch_size=72 epochs=1", 0, NULL, NULL, 0,
         0},
        {"pairs, by their tokens", "shards=1 batch_size=23", 3, NULL, NULL, 0, 0},
        {"groups",
         "advantage=group samples=4 prompts=5 shards=8 minibatch_size=16 kl_place=loss kl_estimator=k3", 0,
         NULL, NULL, 0, 0},
        {"refills", "advantage=group samples=2 refills=3 shards=4", 0, NULL, NULL, 0, 0},
        {"exact KL", "kl_place=loss kl_estimator=exact shards=4", 0, NULL, NULL, 0, 0},
        {"a tool", "tool_token=2 shards=4", 0, NULL, NULL, 0, 0},
        {"a long step", "learning_rate=0.05 target_kl=0.001 shards=4", 0, NULL, NULL, 0, 0},
        {"bootstrapped", "bootstrap_truncated=yes max_new_tokens=3 shards=4", 0, NULL, NULL, 0, 0},
        {"texts", "shards=4", 1, NULL, NULL, 0, 0},
        {"windows", "shards=4 window=9 batch_size=6 micro_batch=1", 1, NULL, NULL, 0, 0},
        {"pairs", "shards=4", 2, NULL, NULL, 0, 0},
        {"pairs and a reference", "shards=8 batch_size=9", 3, NULL, NULL, 0, 0},
        {"sums beside the backward pass", "shards=8 epochs=1", 1, NULL, NULL, 192, 0},
        {"the same, of two models", "shards=6 prompts=4 epochs=1 minibatch_size=4", 0, NULL, NULL, 160, 0},
        {"the same, recomputed", "shards=8 epochs=1 gradient_checkpointing=yes", 1, NULL, NULL, 192, 0},
    };
    for (int k = 0; k < COUNT(kinds); k++) {
        result want = alone(tune, &kinds[k]), got[MOST];
        assert_string_equal(want.error, "");
        for (int size = SMALL(k ? 2 : 1, k % 2 || kinds[k].width ? 2 : MOST); size <= MOST;
             size *= SMALL(2, MOST)) {
            run_group(size, tune, &kinds[k], got);
            if (memcmp(got[0].hash, want.hash, sizeof want.hash))
                print_message("%s, %d processes\n", kinds[k].name, size);
            assert_alike(got, &want, size);
        }
        for (int size = 1; size <= 2; size++) { /* and any number of threads, of one process and of two */
            kinds[k].threads = size == 2 ? 2 : 2 + k % 4;
            if (size == 2) run_group(size, tune, &kinds[k], got);
            else got[0] = alone(tune, &kinds[k]);
            kinds[k].threads = 0;
            if (memcmp(got[0].hash, want.hash, sizeof want.hash))
                print_message("%s, threads\n", kinds[k].name);
            assert_alike(got, &want, size);
        }
    }
}

/* One that cannot be saved as bytes: it owns a counter outside of its state. */
static int vault_open(void *state, void *user, int index) {
    int **v = (int **)state;
    (void)user, (void)index;
    *v = (int *)calloc(1, sizeof **v);
    return *v == NULL;
}
static void vault_close(void *state) { free(*(int **)state); }
static void vault_reset(void *state, ppo_rng *rng, float *obs) {
    **(int **)state = ppo_rng_below(rng, 5);
    obs[0] = (float)**(int **)state;
}
static void vault_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    int *v = *(int **)state;
    *v += action->discrete ? 1 : -ppo_rng_below(rng, 2);
    obs[0] = (float)*v;
    out->reward = 0.1f * (float)*v;
    out->terminated = *v > 9;
}
static ppo_env vault_env(void) {
    ppo_env env = {0};
    env.name = "vault", env.obs_size = 1, env.action_space = ppo_discrete(2), env.max_steps = 40;
    env.state_size = sizeof(int *), env.open = vault_open, env.close = vault_close;
    env.reset = vault_reset, env.step = vault_step;
    return env;
}

static void a_checkpoint_resumes_with_any_number_of_processes(void **state) {
    (void)state;
    const char *path = scratch_path("group");
    training kinds[] = {
        {"normalized", walk_env, "normalize_obs=yes normalize_reward=yes shards=4", path, NULL},
        {"recurrent", walk_env, "recurrent=3 sequence_steps=4 shards=4 normalize_obs=yes", path, NULL},
        {"self-play", connect4_env, "num_envs=16 self_play=2 snapshot_every=1 shards=4", path, NULL},
        {"several agents", pursuit_env, "num_envs=144 shards=4 rollout_steps=8", path, NULL},
        {"outside resources", vault_env, "shards=2", path, NULL},
    };
    tuning tunings[] = {{"a critic of its own", "shards=8", 0, path, NULL, 0, 0},
                        {"refills", "advantage=group samples=2 refills=3 shards=4", 0, path, NULL, 0, 0}};
    for (int k = 0; k < COUNT(tunings); k++) {
        tuning again = tunings[k];
        result want = alone(tune, &tunings[k]), got[MOST];
        again.save = NULL, again.resume = path;
        for (int size = SMALL(1, k ? 2 : MOST); size <= MOST; size *= SMALL(2, MOST)) {
            unlink(path);
            run_group(size, tune, &tunings[k], got);
            assert_alike(got, &want, size);
            run_group(MOST / size, tune, &again, got);
            assert_alike(got, &want, MOST / size);
        }
    }
    for (int k = 0; k < COUNT(kinds); k++) {
        training again = kinds[k];
        result want, saved[MOST], got[MOST];
        again.save = NULL, again.resume = path;
        const int first = SMALL(1, k % 2 ? 2 : MOST);
        for (int size = first; size <= MOST; size *= SMALL(2, MOST)) {
            unlink(path);
            run_group(size, train, &kinds[k], saved);
            if (size == first) want = saved[0];
            assert_string_equal(want.error, "");
            assert_alike(saved, &want, size);
            for (int other = 1; other <= MOST; other *= 8 / size > 1 ? 8 / size : 2) {
                run_group(other, train, &again, got);
                assert_alike(got, &want, other);
            }
        }
    }
    unlink(path);
}

/* Environment 5 misbehaves in its 20th step, as it is told. */
enum { GOES_ON, GIVES_NAN, ENDS_ITS_PROCESS };
static int misbehaves;
static void bad_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    walk_step(state, rng, action, obs, out);
    if (env_index(rng) != 5 || misbehaves == GOES_ON || rng->counter[0] < 3) return;
    if (misbehaves == ENDS_ITS_PROCESS) _exit(3);
    out->reward = NAN;
}
static ppo_env bad_env(void) {
    ppo_env env = walk_env();
    env.step = bad_step;
    return env;
}

/* Trains on after a failure, which it keeps. */
static void train_on(void *user, const ppo_group *group, result *r) {
    ppo_env env = bad_env();
    ppo_config cfg = eight_environments(1);
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    char error[256];
    (void)user, (void)group;
    cfg.total_steps = 100000, cfg.minibatch_size = 32, cfg.shards = 4;
    misbehaves = GIVES_NAN;
    r->status = ppo_agent_create(&env, &cfg, &agent);
    if (!r->status) r->status = ppo_trainer_create(&env, &cfg, agent, &trainer);
    while (!r->status) r->status = ppo_trainer_iterate(trainer, NULL);
    snprintf(error, sizeof error, "%s", ppo_last_error());
    misbehaves = GOES_ON;
    for (int k = 0; k < 2 && trainer; k++)
        if (ppo_trainer_iterate(trainer, NULL)) r->hash[3] = 1;
    if (agent) r->hash[0] = hash_params(0, agent->model.params);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    ppo_fail(r->status, "%s", error);
}

static void a_failure_in_one_process_is_the_same_in_all_and_training_goes_on(void **state) {
    (void)state;
    result want = alone(train_on, NULL), got[MOST];
    assert_int_equal(want.status, PPO_ERROR_NUMERIC);
    assert_int_equal(want.hash[3], 0);
    assert_non_null(strstr(want.error, "reward is NaN (environment 5"));
    for (int size = 2; size <= MOST; size *= 2) {
        run_group(size, train_on, NULL, got);
        assert_alike(got, &want, size);
    }
}

/* Rewards fail where a sample has this prompt. */
static ppo_status refuse_one(const ppo_samples *samples, float *reward, void *user) {
    for (int s = 0; s < samples->tokens.count; s++)
        if (samples->tokens.token[samples->tokens.start[s]] == *(const int *)user)
            return ppo_fail(PPO_ERROR_FILE, "no reward for token %d", *(const int *)user);
    return count_threes(samples, reward, NULL);
}

static void tune_without_a_reward(void *user, const ppo_group *group, result *r) {
    ppo_lm *lm = random_lm(lm_config(VOCAB, 16, 8, 1, 2), 0.4f);
    ppo_rlhf_config cfg = ppo_rlhf_config_default();
    ppo_tokens prompts = {0};
    ppo_rlhf *rlhf = NULL;
    (void)group;
    for (int i = 0; i < VOCAB; i++)
        if (ppo_tokens_add(&prompts, &i, 1, 1)) r->hash[0] = 1;
    cfg.prompts = VOCAB, cfg.shards = 4;
    r->status = ppo_rlhf_create(lm, NULL, NULL, &prompts, refuse_one, user, &cfg, &rlhf);
    if (!r->status) r->status = ppo_rlhf_iterate(rlhf, NULL);
    r->hash[1] = hash_params(0, lm->params);
    ppo_rlhf_free(rlhf);
    ppo_lm_free(lm);
    ppo_tokens_free(&prompts);
}

static void a_reward_that_fails_in_one_process_fails_in_all(void **state) {
    (void)state;
    for (int token = 0; token < VOCAB; token += 3) {
        result want = alone(tune_without_a_reward, &token), got[MOST];
        assert_int_equal(want.status, PPO_ERROR_FILE);
        for (int size = 2; size <= MOST; size *= 2) {
            run_group(size, tune_without_a_reward, &token, got);
            assert_alike(got, &want, size);
        }
    }
}

/* The callback of the last process stops, as one that looks at the clock may. */
typedef struct stopper {
    int last, calls;
} stopper;
static int stop_control(const ppo_progress *p, void *user) {
    stopper *s = (stopper *)user;
    return ++s->calls == 2 && p->iteration == 2 && s->last;
}
static int stop_fit(const ppo_fit_progress *p, void *user) {
    stopper *s = (stopper *)user;
    return ++s->calls == 3 && p->step == 3 && s->last;
}
static void stop_early(void *user, const ppo_group *group, result *r) {
    stopper s[2] = {{group->rank == group->size - 1, 0}, {group->rank == group->size - 1, 0}};
    ppo_lm *lm = random_lm(lm_config(VOCAB, 16, 8, 1, 2), 0.4f);
    ppo_env env = walk_env();
    ppo_config cfg = eight_environments(0);
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_tokens data = {0};
    ppo_rng rng = test_rng(7);
    ppo_agent *agent = NULL;
    (void)user;
    for (int i = 0; i < 12; i++) add_random(&data, &rng, VOCAB, 5 + i % 4, 3);
    cfg.total_steps = 100000, cfg.callback = stop_control, cfg.callback_user = &s[0];
    fit.epochs = 1000, fit.callback = stop_fit, fit.callback_user = &s[1];
    r->status = ppo_train(&env, &cfg, &agent);
    if (!r->status) r->status = ppo_fit_sft(lm, &data, &fit);
    r->hash[0] = (uint64_t)s[0].calls, r->hash[1] = (uint64_t)s[1].calls;
}

static void a_callback_that_stops_one_process_stops_all(void **state) {
    (void)state;
    const result want = {PPO_OK, "", {2, 3}, 0, 0, 0};
    for (int size = 1; size <= MOST; size *= 2) {
        result got[MOST];
        run_group(size, stop_early, NULL, got);
        assert_alike(got, &want, size);
    }
}

static void a_process_that_ends_ends_the_others(void **state) {
    (void)state;
    training t = {"", bad_env, "shards=4 total_steps=1000000", NULL, NULL};
    result got[MOST];
    misbehaves = ENDS_ITS_PROCESS;
    for (int size = 2; size <= MOST; size *= 2) {
        double began = ppo_clock();
        run_group(size, train, &t, got);
        assert_true(ppo_clock() - began < 10);
        for (int r = 0; r < size; r++) {
            if (r == 5 * size / 16) { /* of 16 environments */
                assert_true(got[r].ended);
                continue;
            }
            assert_int_equal(got[r].status, PPO_ERROR_GROUP);
            assert_non_null(strstr(got[r].error, "cannot be reached"));
        }
    }
    misbehaves = GOES_ON;
}

/* The last process differs in what it is told. */
static void train_otherwise(void *user, const ppo_group *group, result *r) {
    training t = {"", walk_env, "shards=4", NULL, NULL};
    if (group->rank == group->size - 1) t.settings = (const char *)user;
    train(&t, group, r);
}

/* Process 1 begins with another of these; from a later iteration: one that learned nothing, which a process alone saved. */
enum { ITERATION, PROMPTS, SETTINGS, WEIGHTS, OTHERS };
typedef struct beginning {
    int other;
    const char *path; /* of that iteration */
} beginning;
static void begin_otherwise(void *user, const ppo_group *group, result *r) {
    const beginning *b = (const beginning *)user;
    const int other = group && group->rank ? b->other : OTHERS;
    ppo_lm *lm = random_lm(lm_config(VOCAB, 16, 8, 1, 2), other == WEIGHTS ? 0.3f : 0.4f);
    ppo_rlhf_config cfg = ppo_rlhf_config_default();
    ppo_tokens data = {0};
    ppo_rng rng = test_rng(7);
    ppo_rlhf *rlhf = NULL;
    for (int i = 0; i < 4; i++) add_random(&data, &rng, VOCAB, other == PROMPTS ? 5 : 4, 3);
    cfg.prompts = 4, cfg.slots = 2, cfg.minibatch_size = 4, cfg.learning_rate = 0;
    cfg.advantage = PPO_ADVANTAGE_GROUP, cfg.samples = other == SETTINGS ? 4 : 2;
    if (other == ITERATION)
        r->status = ppo_rlhf_resume(b->path, lm, NULL, NULL, &data, count_threes, NULL, &cfg, &rlhf);
    else r->status = ppo_rlhf_create(lm, NULL, NULL, &data, count_threes, NULL, &cfg, &rlhf);
    if (!r->status && !group) r->status = ppo_rlhf_iterate(rlhf, NULL);
    if (!r->status && !group) r->status = ppo_rlhf_save(rlhf, b->path);
    ppo_rlhf_free(rlhf), ppo_lm_free(lm), ppo_tokens_free(&data);
}

/* In process 1 an allocation of the trainer fails, whose larger arrays have one each. */
static void fail_to_allocate(void *user, const ppo_group *group, result *r) {
    ppo_env env = walk_env();
    ppo_config cfg = eight_environments(1);
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    heap h = {0, 0, -1, 0};
    cfg.shards = 4, cfg.minibatch_size = 32, cfg.num_envs = 32;
    ppo_set_allocator(heap_hook, &h);
    r->status = ppo_agent_create(&env, &cfg, &agent);
    if (group->rank == 1) h.fail_at = h.calls + *(const int *)user;
    if (!r->status) r->status = ppo_trainer_create(&env, &cfg, agent, &trainer);
    r->hash[0] = trainer != NULL, r->hash[1] = h.calls > h.fail_at;
    ppo_trainer_free(trainer), ppo_agent_free(agent);
    r->hash[2] = (uint64_t)h.live;
}

/* In process 1 an allocation of the first iterations fails, or of a fine-tuning; then all go on. */
typedef struct shortage {
    int at;
    const char *settings;
} shortage;
static void train_short_of_memory(void *user, const ppo_group *group, result *r) {
    const shortage *t = (const shortage *)user;
    ppo_env env = walk_env();
    ppo_config cfg = eight_environments(1);
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    heap h = {0, 0, t->at, 0};
    cfg.minibatch_size = 32;
    r->status = ppo_config_set_all(&cfg, t->settings);
    if (!r->status) r->status = ppo_agent_create(&env, &cfg, &agent);
    if (!r->status) r->status = ppo_trainer_create(&env, &cfg, agent, &trainer);
    if (r->status) return;
    if (group && group->rank == 1) ppo_set_allocator(heap_hook, &h);
    for (int k = 0; k < 2 && !r->status; k++) r->status = ppo_trainer_iterate(trainer, NULL);
    snprintf(r->error, sizeof r->error, "%s", r->status ? ppo_last_error() : "");
    ppo_set_allocator(NULL, NULL);
    if (ppo_trainer_iterate(trainer, NULL)) r->hash[3] = 1;
    r->hash[0] = hash_params(0, agent->model.params);
    if (r->status) ppo_fail(r->status, "%s", r->error);
}

static void tune_short_of_memory(void *user, const ppo_group *group, result *r) {
    const shortage *t = (const shortage *)user;
    ppo_lm *lm = random_lm(lm_config(VOCAB, 16, 8, 1, 2), 0.4f);
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_tokens data = {0};
    ppo_rng rng = test_rng(7);
    heap h = {0, 0, t->at, 0};
    for (int i = 0; i < 12; i++) add_random(&data, &rng, VOCAB, 5 + i % 4, 3);
    fit.batch_size = 8, fit.held_out = &data;
    r->status = ppo_settings_set_all(ppo_fit_settings(), &fit, t->settings);
    if (group->rank == 1) ppo_set_allocator(heap_hook, &h);
    if (!r->status) r->status = ppo_fit_sft(lm, &data, &fit);
    snprintf(r->error, sizeof r->error, "%s", r->status ? ppo_last_error() : "");
    ppo_set_allocator(NULL, NULL);
    if (ppo_fit_sft(lm, &data, &fit)) r->hash[3] = 1;
    r->hash[0] = hash_params(0, lm->params);
    if (r->status) ppo_fail(r->status, "%s", r->error);
}

static void an_allocation_that_fails_in_one_process_fails_in_all(void **state) {
    (void)state;
    const struct {
        job_fn job;
        const char *settings;
    } kinds[] = {
        {train_short_of_memory, "shards=4"},
        {train_short_of_memory, "shards=1"},
        {train_short_of_memory, "shards=1 recurrent=3 sequence_steps=4"},
        {train_short_of_memory, "shards=4 objective=kl-penalty penalty_target_kl=0.01"},
        {tune_short_of_memory, "shards=4"},
        {tune_short_of_memory, ""},
    };
    for (int k = 0; k < COUNT(kinds); k++) {
        shortage t = {0, kinds[k].settings};
        result got[MOST];
        for (;; t.at++) {
            run_group(2, kinds[k].job, &t, got);
            if (got[0].ended || got[1].ended || strcmp(got[0].error, got[1].error))
                print_message("\"%s\", allocation %d\n", t.settings, t.at);
            assert_false(got[0].ended || got[1].ended);
            assert_alike(got, &got[0], 2);
            assert_int_equal(got[0].hash[3], 0);
            if (!got[0].status) break;
            assert_int_equal(got[0].status, PPO_ERROR_MEMORY);
        }
        assert_true(t.at > 2);
    }
}

/* Process 1 is told once that a message failed, which the other one got: `lost`, counted from 0. */
typedef struct loss {
    int lost;
    const char *control, *fit, *rlhf; /* the settings of one iteration; NULL: not this one */
} loss;
static int lost_message;
static ppo_status exchange_with_a_loss(void *user, int peer, const void *send, size_t sent, void *receive,
                                       size_t received) {
    const line *l = (const line *)user;
    const int lost = l->rank == 1 && l->messages == lost_message;
    ppo_status status = exchange(user, peer, send, sent, receive, received);
    return lost && !status ? ppo_fail(PPO_ERROR_GROUP, "message %d was lost", lost_message) : status;
}

static void train_with_a_loss(void *user, const ppo_group *group, result *r) {
    const loss *t = (const loss *)user;
    const ppo_group lossy = {group->rank, group->size, exchange_with_a_loss, group->user};
    ppo_env env = walk_env();
    ppo_config cfg = eight_environments(1);
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_lm *lm = random_lm(lm_config(VOCAB, 16, 8, 1, 2), 0.4f);
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_rlhf_config tuned = ppo_rlhf_config_default();
    ppo_rlhf *rlhf = NULL;
    ppo_tokens data = {0};
    ppo_rng rng = test_rng(7);
    cfg.minibatch_size = 64, cfg.epochs = 1;
    for (int i = 0; i < 6; i++) add_random(&data, &rng, VOCAB, 5 + i % 4, 3);
    fit.batch_size = 6, fit.held_out = &data;
    tuned.prompts = 6, tuned.slots = 3, tuned.minibatch_size = 6, tuned.epochs = 1;
    lost_message = t->lost;
    r->status = ppo_use_group(&lossy);
    if (t->control) {
        if (!r->status) r->status = ppo_config_set_all(&cfg, t->control);
        if (!r->status) r->status = ppo_agent_create(&env, &cfg, &agent);
        if (!r->status) r->status = ppo_trainer_create(&env, &cfg, agent, &trainer);
        if (!r->status) r->status = ppo_trainer_iterate(trainer, NULL);
        if (!r->status) r->status = ppo_evaluate(agent, &env, 3, 1).status;
    } else if (t->fit) {
        if (!r->status) r->status = ppo_settings_set_all(ppo_fit_settings(), &fit, t->fit);
        if (!r->status) r->status = ppo_fit_sft(lm, &data, &fit);
    } else {
        if (!r->status) r->status = ppo_settings_set_all(ppo_rlhf_settings(), &tuned, t->rlhf);
        if (!r->status) r->status = ppo_rlhf_create(lm, NULL, NULL, &data, count_threes, NULL, &tuned, &rlhf);
        if (!r->status) r->status = ppo_rlhf_iterate(rlhf, NULL);
    }
    ppo_rlhf_free(rlhf);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    ppo_lm_free(lm);
    ppo_tokens_free(&data);
}

static void a_message_that_fails_is_never_overlooked(void **state) {
    (void)state;
    loss kinds[] = {
        {0, "shards=4 normalize_obs=yes normalize_reward=yes", NULL, NULL},
        {0, NULL, "shards=4", NULL},
        {0, NULL, NULL, "shards=4 samples=2 advantage=group kl_place=loss kl_estimator=k3 refills=1"},
        {0, NULL, NULL, "shards=4"}};
    for (int k = 0; k < COUNT(kinds); k++) {
        result got[MOST];
        for (;; kinds[k].lost++) {
            run_group(2, train_with_a_loss, &kinds[k], got);
            assert_false(got[0].ended || got[1].ended);
            if (kinds[k].lost >= got[1].messages) break;
            if (got[1].status != PPO_ERROR_GROUP) print_message("kind %d, message %d\n", k, kinds[k].lost);
            assert_int_equal(got[1].status, PPO_ERROR_GROUP);
        }
        assert_int_equal(got[0].status | got[1].status, PPO_OK);
        assert_true(kinds[k].lost > 4);
    }
}

static void processes_that_cannot_train_together_say_so(void **state) {
    (void)state;
    static char others[][40] = {"shards=4 seed=2", "shards=4 learning_rate=0.1", "shards=4 epochs=3"};
    result got[MOST];
    for (int k = 0; k < COUNT(others); k++)
        for (int size = 2; size <= MOST; size *= 2) {
            run_group(size, train_otherwise, others[k], got);
            for (int r = 0; r < size; r++) {
                assert_int_equal(got[r].status, PPO_ERROR_ARGUMENT);
                assert_non_null(strstr(
                    got[r].error,
                    "differs from process 0: all need the same version, settings, weights and kernels"));
                assert_string_equal(got[r].error, got[0].error);
            }
        }
    beginning b = {0, scratch_path("group")};
    assert_string_equal(alone(begin_otherwise, &b).error, "");
    for (; b.other < OTHERS; b.other++) {
        run_group(2, begin_otherwise, &b, got);
        for (int r = 0; r < 2; r++)
            if (!strstr(got[r].error,
                        "differs from process 0: all need the same version, settings, weights, data"))
                fail_msg("%d: \"%s\"", b.other, got[r].error);
    }
    unlink(b.path);
    for (int at = 0;; at++) {
        run_group(2, fail_to_allocate, &at, got);
        if (!got[1].hash[1]) break;
        for (int r = 0; r < 2; r++) {
            if (got[r].status != PPO_ERROR_MEMORY) print_message("allocation %d\n", at);
            assert_int_equal(got[r].status, PPO_ERROR_MEMORY);
            assert_int_equal(got[r].hash[0], 0);
            assert_int_equal(got[r].hash[2], 0); /* nor is a block left in either */
        }
    }
    assert_int_equal(got[0].status | got[1].status, PPO_OK);
}

static ppo_status never_called(void *user, int peer, const void *send, size_t sent, void *receive,
                               size_t received) {
    (void)user, (void)peer, (void)send, (void)sent, (void)receive, (void)received;
    return ppo_fail(PPO_ERROR_FILE, "called");
}

static void a_group_that_cannot_be_is_refused(void **state) {
    (void)state;
    ppo_group group = {0, 3, never_called, NULL};
    ppo_env env = walk_env();
    ppo_config cfg = eight_environments(0);
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    assert_fails(ppo_use_group(&group), PPO_ERROR_ARGUMENT, "3 processes|1, 2, 4");
    group.size = 2048;
    assert_fails(ppo_use_group(&group), PPO_ERROR_ARGUMENT, "2048|1024");
    group.size = 4, group.rank = 4;
    assert_fails(ppo_use_group(&group), PPO_ERROR_ARGUMENT, "rank 4 of 4");
    group.rank = 3, group.exchange = NULL;
    assert_fails(ppo_use_group(&group), PPO_ERROR_ARGUMENT, "NULL");
    group.exchange = never_called;
    assert_int_equal(ppo_group_rank(), 0);
    assert_ok(ppo_use_group(&group));
    assert_int_equal(ppo_group_rank(), 3);
    cfg.num_envs = 3;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_fails(ppo_trainer_create(&env, &cfg, agent, &trainer), PPO_ERROR_GROUP, "called");
    assert_null(trainer);
    group.rank = 0, group.size = 1; /* no group */
    assert_ok(ppo_use_group(&group));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    assert_ok(ppo_use_group(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_processes_trains_the_same_bits),
        cmocka_unit_test(pushed_experience_of_any_number_of_processes_trains_the_bits_of_one),
        cmocka_unit_test(each_process_has_the_only_copy_of_a_world),
        cmocka_unit_test(sources_belong_to_processes),
        cmocka_unit_test(processes_divide_the_episodes_of_an_evaluation),
        cmocka_unit_test(any_number_of_processes_tunes_the_same_bits),
        cmocka_unit_test(a_checkpoint_resumes_with_any_number_of_processes),
        cmocka_unit_test(a_failure_in_one_process_is_the_same_in_all_and_training_goes_on),
        cmocka_unit_test(a_reward_that_fails_in_one_process_fails_in_all),
        cmocka_unit_test(a_callback_that_stops_one_process_stops_all),
        cmocka_unit_test(a_process_that_ends_ends_the_others),
        cmocka_unit_test(an_allocation_that_fails_in_one_process_fails_in_all),
        cmocka_unit_test(a_message_that_fails_is_never_overlooked),
        cmocka_unit_test(processes_that_cannot_train_together_say_so),
        cmocka_unit_test(a_group_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
