/* Section 16: policies and checkpoints; the container that holds them is tested in test_files.c.
   PPO_FUZZ=100000 sets how many hostile files the last test tries. */

/* Thousands of files need not reach the disk; test_files.c sees to it that the library waits for that. */
#include <unistd.h>
#define fsync(descriptor) ((void)(descriptor), 0)

#define PPO_NO_LANGUAGE
#define PPO_NO_REPORTS
#define PPO_IMPLEMENTATION
#include "../ppo.h"
#include "../examples/companions/ppo_conv.h"
#include "../examples/companions/ppo_gru.h"
#include "../examples/companions/ppo_export.h"

#undef fsync

#include "odd_texts.h"
#include "test.h"
#include "system.h"

/* The program works in a folder of its own, so that paths are names; in memory where that can be, for some file
   systems wait for the disk whenever a file is replaced. */
static char home[64] = "/dev/shm/test_checkpoints.XXXXXX";

static int enter_folder(void **state) {
    (void)state;
    if (mkdtemp(home)) return chdir(home);
    snprintf(home, sizeof home, "/tmp/test_checkpoints.XXXXXX");
    return mkdtemp(home) ? chdir(home) : -1;
}

static int files_in_folder(void) {
    int count = 0;
    DIR *folder = opendir(".");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(folder);
    return count;
}

static int vaults_opened, vaults_closed, vault_refuses = -1; /* see below */
static int vault_drift, vault_abused, vault_orphaned, vault_fails;

static void empty_folder(const char *path) {
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char inside[512];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        if (remove(inside)) empty_folder(inside), remove(inside);
    }
    if (folder) closedir(folder);
}

/* After every test: no file, no hook, no plan of a fault is left for the next. */
static int clean_up(void **state) {
    empty_folder(".");
    setlocale(LC_ALL, "C");
    vault_drift = vault_abused = vault_orphaned = vault_fails = 0;
    vault_refuses = -1;
    ticks_plan_clear(state);
    return restore_allocator(state);
}

static int leave_folder(void **state) {
    clean_up(state);
    return chdir("/") || rmdir(home);
}

/* --------------------------------------------------------------------------------------------------------
   Environments
   -------------------------------------------------------------------------------------------------------- */

/* Two knobs that should show the same; any bytes are a valid state. */
typedef struct knobs {
    unsigned x[2];
} knobs;

static void knobs_show(const knobs *d, float *obs) {
    obs[0] = 0.25f * (float)(d->x[0] % 5);
    obs[1] = 0.25f * (float)(d->x[1] % 5);
}

static void knobs_reset(void *state, ppo_rng *rng, float *obs) {
    knobs *d = (knobs *)state;
    for (int j = 0; j < 2; j++) d->x[j] = (unsigned)ppo_rng_below(rng, 5);
    knobs_show(d, obs);
}

static void knobs_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    knobs *d = (knobs *)state;
    for (int j = 0; j < 2; j++) {
        unsigned turn = action->box ? (unsigned)(action->box[j] > 0) : (unsigned)action->choices[j];
        d->x[j] = (d->x[j] + turn + (unsigned)ppo_rng_below(rng, 2)) % 5;
    }
    knobs_show(d, obs);
    out->reward = d->x[0] == d->x[1] ? 1.0f : -0.5f;
    out->terminated = d->x[0] == 4 && d->x[1] == 4;
}

/* The first dial is not left where it shows 0. */
static void knobs_mask(const void *state, unsigned char *mask) {
    if (((const knobs *)state)->x[0] % 5 == 0) mask[0] = 0;
}

static ppo_env knobs_env(ppo_space space) {
    ppo_env env = {0};
    env.name = "knobs";
    env.obs_size = 2;
    env.action_space = space;
    env.state_size = sizeof(knobs);
    env.max_steps = 9;
    env.reset = knobs_reset;
    env.step = knobs_step;
    return env;
}

static ppo_env choices_env(void) { return knobs_env(ppo_multi_discrete((const int[]){3, 2}, 2)); }
static ppo_env bits_env(void) { return knobs_env(ppo_multi_binary(2)); }
static ppo_env picture_env(void) {
    ppo_env env = choices_env();
    env.shape[0] = env.shape[1] = 1, env.shape[2] = env.obs_size;
    return env;
}
static ppo_env secret_env(void) { /* the actor sees one knob of two */
    ppo_env env = choices_env();
    env.actor_obs = 1;
    return env;
}
static ppo_env masked_env(void) {
    ppo_env env = choices_env();
    env.action_mask = knobs_mask;
    return env;
}

/* The same knobs behind a pointer that no file can hold; with a drift, episodes do not repeat themselves. */
typedef struct vault {
    knobs *inside;
} vault;

static int vault_open(void *state, void *user, int copy) {
    vault *v = (vault *)state;
    if (ppo_env_user() != user) vault_orphaned = 1;
    if (copy == vault_refuses) return ppo_env_fail("the lock of vault %d jams", copy), 0;
    v->inside = (knobs *)calloc(1, sizeof *v->inside);
    vaults_opened++;
    return !v->inside;
}

static void vault_close(void *state) {
    if (ppo_env_user() != &vaults_opened) vault_orphaned = 1;
    free(((vault *)state)->inside);
    vaults_closed++;
}

static void vault_reset(void *state, ppo_rng *rng, float *obs) {
    if (ppo_env_user() != &vaults_opened) vault_orphaned = 1;
    if (vault_fails) ppo_env_fail("no key for a vault");
    knobs_reset(((vault *)state)->inside, rng, obs);
}

static void vault_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    knobs *d = ((vault *)state)->inside;
    if (ppo_env_user() != &vaults_opened) vault_orphaned = 1;
    if (vault_drift) d->x[0] += (unsigned)vault_drift++;
    const int *c = action->choices;
    if (c && (c[0] < 0 || c[0] > 2 || c[1] < 0 || c[1] > 1)) vault_abused = 1;
    knobs_step(d, rng, action, obs, out);
}

static void vault_mask(const void *state, unsigned char *mask) {
    knobs_mask(((const vault *)state)->inside, mask);
}

static ppo_env vault_env(ppo_env env) {
    env.name = "vault";
    env.state_size = sizeof(vault);
    env.reset = vault_reset;
    env.step = vault_step;
    env.open = vault_open;
    env.close = vault_close;
    env.user = &vaults_opened;
    if (env.action_mask) env.action_mask = vault_mask;
    return env;
}

static ppo_env vault_masked_env(void) { return vault_env(masked_env()); }
static ppo_env vault_box_env(void) { return vault_env(knobs_env(ppo_box(2, -1, 1))); }
static ppo_env free_box_env(void) { return knobs_env(ppo_box(2, -INFINITY, INFINITY)); }

/* --------------------------------------------------------------------------------------------------------
   Runs
   -------------------------------------------------------------------------------------------------------- */

/* Five iterations, the last of which is short. */
enum { ITERATIONS = 5, FIGURES = 1024 };

static ppo_config settings(const char *more) {
    ppo_config cfg = ppo_config_default();
    assert_ok(ppo_config_set_all(&cfg,
                                 "num_envs=4 rollout_steps=6 total_steps=104 minibatch_size=10 epochs=2 "
                                 "hidden=5 learning_rate=0.01"));
    assert_ok(ppo_config_set_all(&cfg, more));
    return cfg;
}

/* What training remembers differs from one to the other. */
static const struct kind {
    const char *name;
    ppo_env (*env)(void);
    const char *settings;
} kinds[] = {
    {"discrete", walk_env, ""},
    {"discrete, normalized", walk_env, "normalize_obs=yes normalize_reward=yes"},
    {"discrete, schedules", walk_env,
     "learning_rate_schedule=cosine clip_schedule=linear entropy_schedule=linear entropy_coef=0.1 "
     "value_clip=0.2"},
    {"discrete, no critic", walk_env, "use_critic=no gae_lambda=1 activation=relu"},
    {"discrete, two learning rates", walk_env, "critic_learning_rate=0.003 weight_decay=0.1 target_kl=0.01"},
    {"discrete, a rate that follows the KL", walk_env, "lr_target_kl=0.01 learning_rate_schedule=constant"},
    {"multi-discrete", choices_env, "shared_trunk=yes"},
    {"multi-binary", bits_env, "hidden=none"},
    {"masked", masked_env, "normalize_reward=yes"},
    {"box", reach_env, "init=uniform"},
    {"box without limits", free_box_env, "log_std_init=-1"},
    {"gsde", reach_env, "gsde=yes gsde_steps=4"},
    {"gsde, squashed", reach_env, "gsde=yes squash=yes normalize_obs=yes"},
    {"adaptive KL", reach_env, "objective=kl-penalty penalty_target_kl=0.01 learning_rate=0.03"},
    {"recurrent", walk_env, "recurrent=3 sequence_steps=4"},
    {"recurrent, shared, masked", masked_env,
     "recurrent=4 shared_trunk=yes sequence_steps=3 objective=kl-penalty"},
    {"convolutions", picture_env, "conv=4x1x1,3x1x1 normalize_obs=yes"},
    {"a critic that sees more", secret_env, "normalize_obs=yes"},
    {"a critic that sees more, recurrent", secret_env, "recurrent=3 sequence_steps=4 shared_trunk=yes"},
    {"layer norm", walk_env, "layer_norm=yes activation=elu hidden=5,4"},
    {"advantages anew", walk_env, "recompute_advantages=yes value_clip=0.2"},
    {"advantages anew, recurrent", masked_env, "recompute_advantages=yes recurrent=3 sequence_steps=4"},
    {"noise in the update", reach_env, "rpo_alpha=0.5"},
    {"noise in the update, gsde, recurrent", reach_env,
     "rpo_alpha=0.2 gsde=yes squash=yes recurrent=3 objective=kl-penalty"},
    {"opened", vault_masked_env, "normalize_obs=yes"},
    {"opened, box, recurrent", vault_box_env, "recurrent=3 normalize_obs=yes normalize_reward=yes gsde=yes"},
};

typedef struct run {
    ppo_agent *agent;
    ppo_trainer *trainer;
} run;

static run begin(const ppo_env *env, const ppo_config *cfg) {
    run r = {NULL, NULL};
    assert_ok(ppo_agent_create(env, cfg, &r.agent));
    assert_ok(ppo_trainer_create(env, cfg, r.agent, &r.trainer));
    return r;
}

static run resume(const char *path, const ppo_env *env, const ppo_config *cfg) {
    run r = {NULL, NULL};
    assert_ok(ppo_trainer_resume(path, env, cfg, &r.agent, &r.trainer));
    assert_true(r.agent && r.trainer);
    return r;
}

static void end(run *r) {
    ppo_trainer_free(r->trainer);
    ppo_agent_free(r->agent);
}

/* An iteration, and all that its report says but the times, bit for bit. */
static void iterate(run *r, char figures[FIGURES]) {
    ppo_progress p;
    assert_ok(ppo_trainer_iterate(r->trainer, &p));
    const float f[] = {p.mean_return,
                       p.mean_length,
                       p.policy_loss,
                       p.value_loss,
                       p.entropy,
                       p.approx_kl,
                       p.old_approx_kl,
                       p.clip_fraction,
                       p.explained_variance,
                       p.clip_range,
                       p.learning_rate,
                       p.first_ratio_min,
                       p.first_ratio_max,
                       p.grad_norm,
                       p.loss,
                       p.kl,
                       p.kl_coef,
                       p.entropy_coef,
                       p.std};
    int used = snprintf(
        figures, FIGURES, "iteration %lld, steps %lld of %lld, %lld, episodes %lld, gradient %lld, epochs %d",
        (long long)p.iteration, (long long)p.steps, (long long)p.total_steps, (long long)p.iteration_steps,
        (long long)p.episodes, (long long)p.gradient_steps, p.epochs);
    for (int i = 0; i < COUNT(f); i++)
        used += snprintf(figures + used, (size_t)(FIGURES - used), ", %a", isnan(f[i]) ? NAN : (double)f[i]);
}

static void finish(run *r) {
    char figures[FIGURES];
    while (!ppo_trainer_done(r->trainer)) iterate(r, figures);
}

/* 1 where two agents differ in a bit of the parameters, the moments or the statistics. */
static int norms_differ(const ppo_normalizer *a, const ppo_normalizer *b) {
    size_t n = (size_t)a->size * sizeof(double);
    return a->size != b->size || a->count != b->count ||
           (n && (memcmp(a->mean, b->mean, n) || memcmp(a->var, b->var, n)));
}

static int policies_differ(const ppo_agent *a, const ppo_agent *b) {
    const ppo_params *p = a->model.params, *q = b->model.params;
    return p->count != q->count || bits_differ(p->data, q->data, p->count) ||
           norms_differ(&a->obs_norm, &b->obs_norm) || norms_differ(&a->return_norm, &b->return_norm);
}

static int parts_differ(const ppo_agent *a, const ppo_agent *b) {
    const ppo_params *p = a->model.params, *q = b->model.params;
    return policies_differ(a, b) || p->step != q->step || bits_differ(p->m, q->m, p->count) ||
           bits_differ(p->v, q->v, p->count);
}

/* The latest rollouts are the same in every column. */
static void assert_same_rollout(const run *a, const run *b) {
    const ppo_rollout *x = ppo_trainer_rollout(a->trainer), *y = ppo_trainer_rollout(b->trainer);
    assert_int_equal(x->steps, y->steps);
    assert_int_equal(x->envs, y->envs);
    for (int i = 0; i < PPO__COLUMNS; i++) {
        const ppo__column *column = &a->trainer->collector.columns[i];
        if (!column->bytes) continue;
        assert_memory_equal(ppo__column_data(x, column), ppo__column_data(y, column),
                            column->bytes * (size_t)(x->steps * x->envs));
    }
}

static ppo_file *read_file(const char *path) {
    ppo_file *file = NULL;
    assert_ok(ppo_file_read(path, &file));
    return file;
}

/* Two checkpoints hold the same, but for the seconds, the checksum, and the number of threads. */
static void assert_same_checkpoint(const char *a, const char *b) {
    ppo_file *x = read_file(a), *y = read_file(b);
    assert_int_equal(ppo__file_text_count(x), ppo__file_text_count(y));
    assert_int_equal(ppo_file_count(x), ppo_file_count(y));
    for (int i = 0; i < ppo__file_text_count(x); i++) {
        const char *key = ppo_file_key_at(x, i), *text = ppo_file_text(y, key);
        if (strcmp(key, "checksum") == 0 || strcmp(key, "threads") == 0) continue;
        if (!text || strcmp(text, ppo_file_text(x, key)) != 0)
            fail_msg("%s is %s in %s, but %s in %s", key, ppo_file_text(x, key), a, text ? text : "nothing",
                     b);
    }
    for (int i = 0; i < ppo_file_count(x); i++) {
        const ppo_array *one = ppo_file_at(x, i), *other = NULL;
        assert_ok(ppo__file_expect(y, one->name, one->type, one->shape, one->rank, &other));
        if (strcmp(one->name, "trainer.seconds") == 0 || memcmp(one->data, other->data, one->bytes) == 0)
            continue;
        size_t at = 0;
        while (((const char *)one->data)[at] == ((const char *)other->data)[at]) at++;
        fail_msg("\"%s\" of %s and %s differ from byte %zu of %zu on", one->name, a, b, at, one->bytes);
    }
    ppo_file_free(x);
    ppo_file_free(y);
}

/* Runs to the end, and saves a checkpoint before the first iteration and after each: "0", "1", ... */
static run run_and_save(const ppo_env *env, const ppo_config *cfg, char figures[ITERATIONS + 1][FIGURES]) {
    run r = begin(env, cfg);
    for (int i = 0; i <= ITERATIONS; i++) {
        const char path[2] = {(char)('0' + i), 0};
        if (i) iterate(&r, figures[i]);
        assert_ok(ppo_trainer_save(r.trainer, path));
    }
    assert_true(ppo_trainer_done(r.trainer));
    return r;
}

/* --------------------------------------------------------------------------------------------------------
   Resuming
   -------------------------------------------------------------------------------------------------------- */

/* From each of its checkpoints, and with other threads than it had. *state: the kind. */
static void a_resumed_run_ends_with_the_same_bits(void **state) {
    const struct kind *kind = (const struct kind *)*state;
    const ppo_env env = kind->env();
    ppo_config cfg = settings(kind->settings);
    static char figures[ITERATIONS + 1][FIGURES], again[FIGURES];
    run whole = run_and_save(&env, &cfg, figures);
    assert_int_equal(files_in_folder(), ITERATIONS + 1);
    for (int from = 0; from <= ITERATIONS; from++) {
        const char path[2] = {(char)('0' + from), 0};
        char name[64];
        assert_ok(ppo_config_load(path, &cfg, name));
        assert_string_equal(name, env.name);
        cfg.threads = 1 + (from + 2) % 4;
        run part = resume(path, &env, from % 2 ? NULL : &cfg);
        assert_string_equal(part.agent->environment, env.name);
        assert_int_equal(ppo_trainer_steps(part.trainer), from < ITERATIONS ? 24 * from : 104);
        for (int i = from; i < ITERATIONS; i++) {
            iterate(&part, again);
            assert_string_equal(again, figures[i + 1]);
        }
        assert_true(ppo_trainer_done(part.trainer));
        assert_false(parts_differ(part.agent, whole.agent));
        if (from < ITERATIONS) assert_same_rollout(&part, &whole);
        assert_ok(ppo_trainer_save(part.trainer, "again"));
        assert_same_checkpoint("again", "5");
        end(&part);
    }
    end(&whole);
}

static void saving_changes_nothing_and_so_do_threads(void **state) {
    (void)state;
    for (int k = 0; k < COUNT(kinds); k++) {
        const ppo_env env = kinds[k].env();
        ppo_config cfg = settings(kinds[k].settings);
        static char figures[ITERATIONS + 1][FIGURES], again[FIGURES];
        run saved = run_and_save(&env, &cfg, figures);
        cfg.threads = 3;
        run plain = begin(&env, &cfg);
        for (int i = 0; i < ITERATIONS; i++) {
            iterate(&plain, again);
            assert_string_equal(again, figures[i + 1]);
        }
        assert_ok(ppo_trainer_save(plain.trainer, "plain"));
        assert_same_checkpoint("plain", "5");
        end(&plain);
        end(&saved);
    }
}

/* Each time by another number of threads. */
static void a_run_that_is_resumed_after_every_iteration_ends_with_the_same_bits(void **state) {
    (void)state;
    for (int k = 0; k < COUNT(kinds); k++) {
        const ppo_env env = kinds[k].env();
        ppo_config cfg = settings(kinds[k].settings);
        static char figures[ITERATIONS + 1][FIGURES], again[FIGURES];
        run whole = run_and_save(&env, &cfg, figures);
        int iterations = 0;
        for (int done = 0; !done; iterations++) {
            cfg.threads = 1 + iterations % 4;
            run part = resume(iterations ? "chain" : "0", &env, &cfg);
            iterate(&part, again);
            assert_string_equal(again, figures[iterations + 1]);
            assert_ok(ppo_trainer_save(part.trainer, "chain"));
            done = ppo_trainer_done(part.trainer);
            end(&part);
        }
        assert_int_equal(iterations, ITERATIONS);
        assert_same_checkpoint("chain", "5");
        end(&whole);
    }
}

/* More than the hundred episodes that the mean return is taken over. */
static void episodes_of_long_ago_are_remembered_as_long_as_they_count(void **state) {
    (void)state;
    const ppo_env env = walk_env();
    ppo_config cfg = settings("rollout_steps=300 total_steps=6000 minibatch_size=0");
    static char figures[ITERATIONS + 1][FIGURES], again[FIGURES];
    run whole = run_and_save(&env, &cfg, figures), part = resume("3", &env, NULL);
    for (int i = 3; i < ITERATIONS; i++) {
        iterate(&part, again);
        assert_string_equal(again, figures[i + 1]);
    }
    assert_true(whole.trainer->episodes > 2 * PPO__LAST_EPISODES);
    end(&part);
    end(&whole);
}

static void the_seconds_continue_where_they_were(void **state) {
    (void)state;
    const ppo_env env = walk_env();
    ppo_config cfg = settings("");
    ppo_progress p;
    run r = begin(&env, &cfg);
    r.trainer->started -= 1000;
    assert_ok(ppo_trainer_save(r.trainer, "1000 s"));
    end(&r);
    r = resume("1000 s", &env, NULL);
    assert_ok(ppo_trainer_iterate(r.trainer, &p));
    assert_true(p.seconds > 1000 && p.seconds < 1100);
    end(&r);
}

/* Fresh memory holds anything; none of it may get into a file, or keep one from being resumed. */
static void *dirty_hook(void *user, void *ptr, size_t size) {
    if (size == 0) {
        free(ptr);
        return NULL;
    }
    assert_null(ptr);
    void *block = malloc(size);
    return block ? memset(block, *(const int *)user, size) : NULL;
}

static void a_checkpoint_is_the_same_whatever_memory_held_before(void **state) {
    (void)state;
    static int bytes[] = {0, 0xff, 0x7f}; /* as floats: 0, NaN, 3.4e38 */
    for (int k = 0; k < COUNT(kinds) * ITERATIONS; k += SMALL(1, 2)) {
        const struct kind *kind = &kinds[k / ITERATIONS];
        const ppo_env env = kind->env();
        ppo_config cfg = settings(kind->settings);
        char path[8], figures[FIGURES];
        for (int i = 0; i < COUNT(bytes); i++) {
            snprintf(path, sizeof path, "x%02x", bytes[i]);
            ppo_set_allocator(dirty_hook, &bytes[i]);
            run r = begin(&env, &cfg);
            for (int n = 0; n < k % ITERATIONS; n++) iterate(&r, figures);
            assert_ok(ppo_trainer_save(r.trainer, path));
            end(&r);
            r = resume(path, &env, NULL);
            iterate(&r, figures);
            end(&r);
            ppo_set_allocator(NULL, NULL);
            assert_same_checkpoint(path, "x00");
        }
    }
}

static void after_a_failed_iteration_a_run_can_be_saved_and_resumed(void **state) {
    static const struct {
        int at;            /* the episode's step; 0: its reset */
        float obs, reward; /* 3e38 is a number, but fails in the update */
    } faults[] = {{3, NAN, 0},       {0, INFINITY, 0}, {4, 0, NAN},
                  {1, 0, -INFINITY}, {2, 0, 3e38f},    {3, -INFINITY, 0}};
    static const char *const more[] = {"", "recurrent=3 sequence_steps=4",
                                       "normalize_obs=yes normalize_reward=yes threads=2"};
    for (int i = 0; i < COUNT(faults) * COUNT(more) * 2; i++) {
        const ppo_env env = ticks_env(5);
        ppo_config cfg = settings(more[i % 3]);
        char figures[FIGURES], again[FIGURES];
        run r = begin(&env, &cfg);
        if (i % 2) iterate(&r, figures); /* or the first one fails */
        ticks_plan.fault_at[1] = faults[i / 6].at;
        ticks_plan.obs = faults[i / 6].obs;
        ticks_plan.reward = faults[i / 6].reward;
        ppo_status status = ppo_trainer_iterate(r.trainer, NULL);
        ticks_plan_clear(state);
        if (strstr(more[i % 3], "normalize") && faults[i / 6].reward == 3e38f) { /* that is tamed */
            assert_int_equal(status, PPO_OK);
        } else {
            assert_int_equal(status, PPO_ERROR_NUMERIC);
        }
        assert_ok(ppo_trainer_save(r.trainer, "failed"));
        ppo_file *file = read_file("failed");
        assert_int_equal(*(const int *)ppo_file_find(file, "environments.fresh")->data, status != PPO_OK);
        ppo_file_free(file);
        run back = resume("failed", &env, NULL);
        while (!ppo_trainer_done(r.trainer)) {
            iterate(&r, figures);
            iterate(&back, again);
            assert_string_equal(figures, again);
        }
        assert_ok(ppo_trainer_save(r.trainer, "one"));
        assert_ok(ppo_trainer_save(back.trainer, "other"));
        assert_same_checkpoint("one", "other");
        end(&back);
        end(&r);
    }
}

static void a_failure_is_told_with_the_step_of_the_whole_run(void **state) {
    const ppo_env env = ticks_env(5);
    ppo_config cfg = settings("threads=2");
    char figures[FIGURES];
    run r = begin(&env, &cfg);
    iterate(&r, figures);
    iterate(&r, figures);
    assert_ok(ppo_trainer_save(r.trainer, "one"));
    run back = resume("one", &env, NULL);
    ticks_plan.fault_at[2] = 4;
    ticks_plan.obs = NAN;
    assert_fails(ppo_trainer_iterate(r.trainer, NULL), PPO_ERROR_NUMERIC, "environment 2, step 14)");
    assert_fails(ppo_trainer_iterate(back.trainer, NULL), PPO_ERROR_NUMERIC, "environment 2, step 14)");
    ticks_plan_clear(state);
    end(&back);
    end(&r);
}

/* --- Environments with open() ---------------------------------------------------------------------------- */

static void what_was_opened_is_closed(void **state) {
    (void)state;
    const ppo_env env = vault_masked_env();
    ppo_config cfg = settings("");
    run r = begin(&env, &cfg), back = {NULL, NULL};
    char figures[FIGURES];
    vaults_opened = vaults_closed = 0;
    iterate(&r, figures);
    assert_ok(ppo_trainer_save(r.trainer, "one"));
    assert_int_equal(vaults_opened, 0);
    back = resume("one", &env, NULL);
    assert_int_equal(vaults_opened, 4);
    assert_int_equal(vaults_closed, 0);
    end(&back);
    assert_int_equal(vaults_closed, 4);
    assert_false(vault_orphaned);
    vault_fails = 1;
    assert_fails(ppo_trainer_resume("one", &env, NULL, &back.agent, &back.trainer), PPO_ERROR_ARGUMENT,
                 "reset|environment 0, step 0)|no key for a vault");
    vault_fails = 0;
    vault_refuses = 2;
    vaults_opened = vaults_closed = 0;
    assert_fails(ppo_trainer_resume("one", &env, NULL, &back.agent, &back.trainer), PPO_ERROR_ARGUMENT,
                 "env.open failed|environment 2|the lock of vault 2 jams");
    assert_true(!back.agent && !back.trainer);
    vault_refuses = -1;
    assert_int_equal(vaults_opened, 2);
    assert_int_equal(vaults_closed, 2);
    end(&r);
}

static void an_environment_that_does_not_repeat_itself_is_refused(void **state) {
    (void)state;
    const ppo_env env = vault_masked_env();
    ppo_config cfg = settings("");
    run r = begin(&env, &cfg), back = {NULL, NULL};
    char figures[FIGURES];
    assert_ok(ppo_trainer_save(r.trainer, "before"));
    vault_drift = 1;
    iterate(&r, figures);
    assert_ok(ppo_trainer_save(r.trainer, "after"));
    vaults_opened = vaults_closed = 0;
    assert_fails(ppo_trainer_resume("after", &env, NULL, &back.agent, &back.trainer), PPO_ERROR_FILE,
                 "after: |replaying|episode|environment 0");
    assert_true(!back.agent && !back.trainer);
    assert_int_equal(vaults_opened, vaults_closed);
    back = resume("before", &env, NULL); /* no episode had begun */
    end(&back);
    vault_drift = 0;
    end(&r);
}

static void an_environment_with_open_needs_a_time_limit_to_be_saved_not_to_be_trained(void **state) {
    (void)state;
    ppo_env env = vault_masked_env();
    ppo_config cfg = settings("");
    char figures[FIGURES];
    env.max_steps = 0;
    run r = begin(&env, &cfg);
    iterate(&r, figures);
    assert_fails(ppo_trainer_save(r.trainer, "none"), PPO_ERROR_ARGUMENT, "open|max_steps");
    assert_int_equal(files_in_folder(), 0);
    assert_ok(ppo_agent_save(r.agent, "policy")); /* which has nothing of the environment */
    end(&r);
    env.max_steps = INT_MAX; /* as good as none */
    r = begin(&env, &cfg);
    iterate(&r, figures);
    end(&r);
}

/* Saved exactly where an episode has ended by its time limit, one before, and one after. */
static void episodes_are_played_again_from_their_first_step_to_their_last(void **state) {
    (void)state;
    for (int steps = 1; steps <= 10; steps++) {
        const ppo_env env = vault_box_env();
        ppo_config cfg = settings("num_envs=2 minibatch_size=0 total_steps=60");
        cfg.rollout_steps = steps;
        char figures[FIGURES], again[FIGURES];
        run r = begin(&env, &cfg);
        while (!ppo_trainer_done(r.trainer)) {
            assert_ok(ppo_trainer_save(r.trainer, "one"));
            run back = resume("one", &env, NULL);
            iterate(&r, figures);
            iterate(&back, again);
            assert_string_equal(figures, again);
            assert_same_rollout(&r, &back);
            end(&back);
        }
        end(&r);
    }
}

/* Its bytes would be taken for something else. */
static void a_state_of_another_size_is_refused(void **state) {
    (void)state;
    ppo_env env = masked_env();
    ppo_config cfg = settings("");
    run r = begin(&env, &cfg), back = {NULL, NULL};
    assert_ok(ppo_trainer_save(r.trainer, "one"));
    end(&r);
    static const size_t sizes[] = {4, 12, 63, 64, 1000}; /* and it has 8 */
    for (int i = 0; i < COUNT(sizes); i++) {
        env.state_size = sizes[i];
        assert_fails(ppo_trainer_resume("one", &env, NULL, &back.agent, &back.trainer), PPO_ERROR_FILE,
                     "one: |state");
    }
}

/* --- Other settings -------------------------------------------------------------------------------------- */

static void more_steps_and_another_learning_rate_take_effect(void **state) {
    (void)state;
    const ppo_env env = walk_env();
    ppo_config cfg = settings("learning_rate_schedule=constant"), more;
    char figures[FIGURES];
    ppo_progress p;
    run r = begin(&env, &cfg);
    finish(&r);
    assert_ok(ppo_trainer_save(r.trainer, "done"));
    end(&r);
    r = resume("done", &env, NULL);
    assert_true(ppo_trainer_done(r.trainer));
    assert_fails(ppo_trainer_iterate(r.trainer, NULL), PPO_ERROR_ARGUMENT, "104");
    end(&r);
    assert_ok(ppo_config_load("done", &more, NULL));
    assert_ok(ppo_config_set_all(
        &more, "total_steps=1000 learning_rate=0.5 critic_learning_rate=0.25 clip_high=0.3"));
    r = resume("done", &env, &more);
    assert_false(ppo_trainer_done(r.trainer));
    assert_ok(ppo_trainer_iterate(r.trainer, &p));
    assert_int_equal(p.total_steps, 1000);
    assert_int_equal(p.steps, 128);
    assert_true(p.learning_rate == 0.5f && p.clip_range == 0.3f);
    for (int i = 0; i < r.agent->model.params->tensor_count; i++)
        assert_true(r.agent->model.params->lr_scale[i] ==
                    (strncmp(r.agent->model.params->names[i], "critic", 6) == 0 ? 0.5f : 1.0f));
    assert_ok(ppo_trainer_save(r.trainer, "more")); /* and the next resumption keeps them */
    iterate(&r, figures);
    end(&r);
    r = resume("more", &env, NULL);
    assert_int_equal(r.trainer->config.total_steps, 1000);
    assert_true(r.trainer->config.learning_rate == 0.5f);
    end(&r);
}

/* One that adapts is part of what was learned, unless it is set anew. */
static void another_kl_coef_takes_effect_and_the_same_one_goes_on_adapting(void **state) {
    (void)state;
    const ppo_env env = walk_env();
    for (int i = 0; i < 4; i++) {
        const int adaptive = i % 2, changes = i / 2;
        ppo_config cfg = settings("objective=kl-penalty kl_coef=1"), other;
        char figures[FIGURES];
        ppo_progress p;
        if (adaptive) cfg.penalty_target_kl = 1e6f; /* halves it each time */
        run r = begin(&env, &cfg);
        iterate(&r, figures);
        assert_ok(ppo_trainer_save(r.trainer, "one"));
        end(&r);
        assert_ok(ppo_config_load("one", &other, NULL));
        if (changes) other.kl_coef = 3;
        r = resume("one", &env, &other);
        assert_ok(ppo_trainer_iterate(r.trainer, &p));
        assert_true(p.kl_coef == (changes ? 3 : adaptive ? 0.5f : 1));
        end(&r);
    }
}

static void rollouts_of_another_length_are_no_obstacle(void **state) {
    (void)state;
    const ppo_env env = masked_env();
    ppo_config cfg = settings("");
    char figures[FIGURES];
    run r = begin(&env, &cfg);
    iterate(&r, figures);
    assert_ok(ppo_trainer_save(r.trainer, "one"));
    end(&r);
    assert_ok(
        ppo_config_set_all(&cfg, "rollout_steps=2 minibatch_size=3 epochs=5 normalize_reward=yes threads=4"));
    r = resume("one", &env, &cfg);
    iterate(&r, figures);
    assert_int_equal(ppo_trainer_steps(r.trainer), 24 + 8);
    end(&r);
}

/* What makes another network is named; nothing is quietly ignored. */
static void settings_that_cannot_change_during_a_run_are_refused_by_name(void **state) {
    (void)state;
    static const char *const changes[][2] = {
        {"hidden", "6"},        {"hidden", "5,5"}, {"hidden", "none"}, {"shared_trunk", "yes"},
        {"recurrent", "2"},     {"gsde", "yes"},   {"squash", "yes"},  {"normalize_obs", "yes"},
        {"activation", "relu"}, {"clip_obs", "3"}};
    const ppo_env env = reach_env();
    ppo_config cfg = settings("");
    run r = begin(&env, &cfg), back = {NULL, NULL};
    assert_ok(ppo_trainer_save(r.trainer, "one"));
    end(&r);
    for (int i = 0; i < COUNT(changes); i++) {
        ppo_config other = cfg;
        assert_ok(ppo_config_set(&other, changes[i][0], changes[i][1]));
        assert_fails(ppo_trainer_resume("one", &env, &other, &back.agent, &back.trainer), PPO_ERROR_ARGUMENT,
                     changes[i][0]);
        assert_non_null(strstr(ppo_last_error(), "in the checkpoint: it cannot become"));
        assert_true(!back.agent && !back.trainer);
    }
    cfg.gamma = 2;
    assert_fails(ppo_trainer_resume("one", &env, &cfg, &back.agent, &back.trainer), PPO_ERROR_ARGUMENT,
                 "gamma");
}

static void a_checkpoint_of_another_environment_is_refused_by_both_names(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_config cfg = settings("");
    env.name = "walk";
    run r = begin(&env, &cfg), back = {NULL, NULL};
    assert_ok(ppo_trainer_save(r.trainer, "one"));
    end(&r);
    env.name = "stroll"; /* the same sizes: nothing but the name tells */
    assert_fails(ppo_trainer_resume("one", &env, NULL, &back.agent, &back.trainer), PPO_ERROR_FILE,
                 "one: |\"walk\"|\"stroll\"");
    assert_true(!back.agent && !back.trainer);
    assert_ok(ppo_agent_load("one", &env, &back.agent)); /* its policy may play there */
    ppo_agent_free(back.agent);
}

/* An agent that was made for one environment and is trained on another belongs to the other from then on. */
static void a_checkpoint_has_the_name_of_the_environment_that_the_agent_is_trained_on(void **state) {
    (void)state;
    ppo_env walk = walk_env(), stroll = walk_env();
    ppo_config cfg = settings("");
    run r = {NULL, NULL}, back = {NULL, NULL};
    char name[64];
    walk.name = "walk";
    stroll.name = "stroll";
    assert_ok(ppo_agent_create(&walk, &cfg, &r.agent));
    assert_ok(ppo_trainer_create(&stroll, &cfg, r.agent, &r.trainer));
    assert_ok(ppo_trainer_save(r.trainer, "one"));
    assert_ok(ppo_agent_save(r.agent, "policy"));
    end(&r);
    for (int i = 0; i < 2; i++) {
        assert_ok(ppo_config_load(i ? "policy" : "one", &cfg, name));
        assert_string_equal(name, "stroll");
    }
    assert_fails(ppo_trainer_resume("one", &walk, NULL, &back.agent, &back.trainer), PPO_ERROR_FILE,
                 "one: |\"stroll\"|\"walk\"");
    back = resume("one", &stroll, NULL);
    finish(&back);
    assert_string_equal(back.agent->environment, "stroll");
    end(&back);
}

static float own_schedule(int setting, float initial, float progress, void *user) {
    (void)setting;
    return initial * (1 - progress * *(const float *)user);
}

static void a_schedule_of_ones_own_must_be_given_again(void **state) {
    (void)state;
    const ppo_env env = walk_env();
    ppo_config cfg = settings("learning_rate_schedule=custom"), read;
    static char figures[ITERATIONS + 1][FIGURES];
    float slope = 0.5f;
    cfg.schedule = own_schedule;
    cfg.schedule_user = &slope;
    run whole = run_and_save(&env, &cfg, figures), part = {NULL, NULL};
    assert_fails(ppo_trainer_resume("2", &env, NULL, &part.agent, &part.trainer), PPO_ERROR_FILE,
                 "2: |schedule|custom");
    assert_ok(ppo_config_load("2", &read, NULL));
    assert_int_equal(read.learning_rate_schedule, PPO_CUSTOM);
    assert_true(!read.schedule && !read.schedule_user && !read.callback && !read.callback_user);
    read.schedule = own_schedule;
    read.schedule_user = &slope;
    part = resume("2", &env, &read);
    finish(&part);
    assert_false(parts_differ(part.agent, whole.agent));
    end(&part);
    end(&whole);
}

/* --------------------------------------------------------------------------------------------------------
   Policies
   -------------------------------------------------------------------------------------------------------- */

static void assert_same_bytes(const char *a, const char *b) {
    static char one[1 << 20], other[1 << 20];
    FILE *x = fopen(a, "rb"), *y = fopen(b, "rb");
    assert_true(x && y);
    size_t n = fread(one, 1, sizeof one, x);
    assert_int_equal(fread(other, 1, sizeof other, y), n);
    assert_memory_equal(one, other, n);
    fclose(x);
    fclose(y);
}

/* A trained agent of each kind, which the caller frees, and its checkpoint "one". */
static ppo_agent *trained_as(const struct kind *kind, const ppo_env *env, int iterations) {
    ppo_config cfg = settings(kind->settings);
    run r = begin(env, &cfg);
    char figures[FIGURES];
    for (int i = 0; i < iterations; i++) iterate(&r, figures);
    assert_ok(ppo_trainer_save(r.trainer, "one"));
    ppo_trainer_free(r.trainer);
    return r.agent;
}

/* The same actions, sampled or not, from memories that continue, and the same episodes. */
static void assert_same_behaviour(ppo_agent *a, ppo_agent *b, const ppo_env *env) {
    ppo_rng obs_rng = test_rng(3), rng_a = test_rng(4), rng_b = rng_a;
    for (int i = 0; i < 40; i++) {
        float obs[2];
        ppo_action x, y;
        int n = env->action_space.n;
        fill_normal(&obs_rng, obs, 2, 1);
        if (i % 8 == 0) ppo_agent_reset(a), ppo_agent_reset(b);
        assert_ok(ppo_act(a, obs, i % 2 ? &rng_a : NULL, &x));
        assert_ok(ppo_act(b, obs, i % 2 ? &rng_b : NULL, &y));
        assert_int_equal(x.discrete, y.discrete);
        assert_true(!x.box == !y.box && !x.choices == !y.choices);
        if (x.box) assert_memory_equal(x.box, y.box, (size_t)n * sizeof(float));
        else if (n > 1 && env->action_space.kind != PPO_DISCRETE)
            assert_memory_equal(x.choices, y.choices, (size_t)n * sizeof(int));
    }
    ppo_evaluation e = ppo_evaluate(a, env, 7, 5), f = ppo_evaluate(b, env, 7, 5);
    assert_ok(e.status);
    assert_memory_equal(&e, &f, sizeof e);
}

static void a_policy_is_loaded_as_it_was_saved(void **state) {
    (void)state;
    for (int k = 0; k < COUNT(kinds) * 4; k++) {
        const ppo_env env = kinds[k / 4].env();
        ppo_agent *agent = trained_as(&kinds[k / 4], &env, k % 2 ? 3 : 0), *back = NULL;
        assert_ok(ppo_agent_save(agent, "policy"));
        assert_ok(ppo_agent_load("policy", k % 4 < 2 ? &env : NULL, &back));
        assert_string_equal(back->environment, env.name);
        assert_false(policies_differ(agent, back));
        assert_same_behaviour(agent, back, &env);
        assert_ok(ppo_agent_save(back, "again"));
        assert_same_bytes("policy", "again");
        ppo_agent_free(back);
        ppo_agent_free(agent);
    }
}

static void a_checkpoint_is_a_policy_as_well(void **state) {
    (void)state;
    for (int k = 0; k < COUNT(kinds); k++) {
        const ppo_env env = kinds[k].env();
        ppo_agent *agent = trained_as(&kinds[k], &env, 2), *back = NULL;
        assert_ok(ppo_agent_load("one", &env, &back));
        assert_false(policies_differ(agent, back));
        assert_same_behaviour(agent, back, &env);
        assert_ok(ppo_agent_save(agent, "policy"));
        assert_ok(ppo_agent_save(back, "again"));
        assert_same_bytes("policy", "again");
        ppo_agent_free(back);
        ppo_agent_free(agent);
    }
}

static void a_policy_is_no_checkpoint(void **state) {
    (void)state;
    const ppo_env env = walk_env();
    ppo_agent *agent = trained_as(&kinds[0], &env, 1), *back = NULL;
    ppo_trainer *trainer = NULL;
    assert_ok(ppo_agent_save(agent, "policy"));
    assert_fails(ppo_trainer_resume("policy", &env, NULL, &back, &trainer), PPO_ERROR_FILE,
                 "policy: |not a checkpoint");
    assert_true(!back && !trainer);
    ppo_agent_free(agent);
}

/* Where the network itself looks at more than it remembers, or has less in the middle than at its ends. */
static void policies_of_every_shape_are_loaded(void **state) {
    (void)state;
    static const char *const shapes[] = {"hidden=none",
                                         "hidden=none recurrent=2",
                                         "hidden=9,1,7",
                                         "hidden=9,1,7 shared_trunk=yes",
                                         "recurrent=2 hidden=20,20",
                                         "recurrent=2 hidden=20,3 shared_trunk=yes",
                                         "recurrent=10 hidden=1 shared_trunk=yes",
                                         "recurrent=40 hidden=3",
                                         "gsde=yes recurrent=2 hidden=3",
                                         "gsde=yes hidden=none"};
    for (int i = 0; i < COUNT(shapes) * 6; i++) {
        ppo_env env = walk_env();
        ppo_config cfg = settings("init=uniform");
        ppo_agent *agent = NULL, *back = NULL;
        assert_ok(ppo_config_set_all(&cfg, shapes[i / 6]));
        if (cfg.gsde && i % 3 < 2) continue; /* needs a box */
        env.obs_size = i % 2 ? 1 : 700;
        env.action_space = i % 3 == 0 ? ppo_discrete(1) : i % 3 == 1 ? ppo_discrete(90) : ppo_box(30, 0, 1);
        if (i % 3 < 2) cfg.gsde = 0;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        assert_ok(ppo_agent_save(agent, "policy"));
        assert_ok(ppo_agent_load("policy", &env, &back));
        assert_false(policies_differ(agent, back));
        ppo_agent_free(back);
        ppo_agent_free(agent);
    }
}

static void spaces_of_every_kind_come_back(void **state) {
    (void)state;
    int wide[PPO_MAX_CHOICES];
    for (int j = 0; j < PPO_MAX_CHOICES; j++) wide[j] = 1 + j;
    const ppo_space spaces[] = {ppo_discrete(1),
                                ppo_discrete(1000),
                                ppo_box(1, -1, 1),
                                ppo_box(3, 0.1f, 1e30f),
                                ppo_box(2, -INFINITY, INFINITY),
                                ppo_box(1, 0, INFINITY),
                                ppo_box(5, -FLT_MIN, 1.0f / 3),
                                ppo_multi_discrete(wide, 1),
                                ppo_multi_discrete(wide + 5, 3),
                                ppo_multi_discrete(wide, PPO_MAX_CHOICES),
                                ppo_multi_binary(1),
                                ppo_multi_binary(PPO_MAX_CHOICES)};
    for (int i = 0; i < COUNT(spaces); i++) {
        ppo_env env = knobs_env(spaces[i]);
        ppo_config cfg = settings("");
        ppo_agent *agent = NULL, *back = NULL;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        assert_ok(ppo_agent_save(agent, "policy"));
        assert_ok(ppo_agent_load("policy", NULL, &back));
        assert_memory_equal(&back->model.action_space, &spaces[i], sizeof spaces[i]);
        assert_int_equal(back->model.obs_size, 2);
        ppo_agent_free(back);
        ppo_agent_free(agent);
    }
}

static void an_environment_that_does_not_fit_is_refused_with_the_difference(void **state) {
    (void)state;
    const ppo_env discrete = walk_env(), box = reach_env(), choices = choices_env(), bits = bits_env();
    ppo_env wide = walk_env(), more = walk_env(), half = reach_env(), swapped = choices_env();
    wide.obs_size = 7;
    more.action_space = ppo_discrete(4);
    half.action_space.high = 0.5f;
    swapped.action_space = ppo_multi_discrete((const int[]){2, 3}, 2);
    ppo_env three = knobs_env(ppo_box(3, -1, 1)), two = knobs_env(ppo_discrete(2));
    three.obs_size = 2;
    const struct {
        const ppo_env *saved, *other;
        const char *words;
    } cases[] = {{&discrete, &wide, "2|7"},
                 {&discrete, &more, "3|4"},
                 {&discrete, &three, "discrete 3|box 3"},
                 {&box, &half, "-1|1|0.5"},
                 {&choices, &swapped, "3,2|2,3"},
                 {&choices, &bits, "multi-discrete 3,2|multi-binary 2"},
                 {&bits, &two, "multi-binary 2|discrete 2"}};
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_config cfg = settings("");
        run r = begin(cases[i].saved, &cfg);
        ppo_agent *agent = NULL;
        ppo_trainer *trainer = NULL;
        assert_ok(ppo_agent_save(r.agent, "policy"));
        assert_ok(ppo_trainer_save(r.trainer, "one"));
        end(&r);
        assert_fails(ppo_agent_load("policy", cases[i].other, &agent), PPO_ERROR_FILE, "policy: ");
        assert_fails(ppo_agent_load("policy", cases[i].other, &agent), PPO_ERROR_FILE, cases[i].words);
        assert_fails(ppo_trainer_resume("one", cases[i].other, NULL, &agent, &trainer), PPO_ERROR_FILE,
                     "one: ");
        assert_fails(ppo_trainer_resume("one", cases[i].other, NULL, &agent, &trainer), PPO_ERROR_FILE,
                     cases[i].words);
        assert_true(!agent && !trainer);
    }
    ppo_agent *agent = NULL;
    wide.reset = NULL;
    assert_fails(ppo_agent_load("policy", &wide, &agent), PPO_ERROR_ARGUMENT, "env.reset");
}

static void names_of_environments_come_back(void **state) {
    (void)state;
    static const struct {
        const char *name, *back;
    } names[] = {{NULL, ""},
                 {"", ""},
                 {"CartPole-v1", "CartPole-v1"},
                 {"a \"b\"\\\n", "a \"b\"\\\n"},
                 {"0123456789012345678901234567890123456789012345678901234567890123456789",
                  "012345678901234567890123456789012345678901234567890123456789012"},
                 /* cut between two characters, not within the last */
                 {"01234567890123456789012345678901234567890123456789012345678901\303\251",
                  "01234567890123456789012345678901234567890123456789012345678901"}};
    for (int i = 0; i < COUNT(names); i++) {
        ppo_env env = walk_env();
        ppo_config cfg = settings("");
        ppo_agent *agent = NULL, *back = NULL;
        char name[64];
        env.name = names[i].name;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        assert_ok(ppo_agent_save(agent, "policy"));
        assert_ok(ppo_agent_load("policy", NULL, &back));
        assert_string_equal(back->environment, names[i].back);
        assert_ok(ppo_config_load("policy", NULL, name));
        assert_string_equal(name, names[i].back);
        ppo_agent_free(back);
        ppo_agent_free(agent);
    }
}

/* Something else than the default, for any field. */
static void set_to_something_else(ppo_config *cfg, const ppo_field *field) {
    char text[64];
    double number = 0;
    assert_ok(ppo_config_get(cfg, field->name, text, sizeof text));
    sscanf(text, "%lf", &number);
    if (field->type == PPO_FIELD_CHOICE) {
        int now = *(int *)((char *)cfg + field->offset), last = (int)field->max;
        snprintf(text, sizeof text, "%d",
                 strstr(field->choices, "custom") ? PPO_COSINE : (now + 1) % (last + 1));
    } else if (field->type == PPO_FIELD_FLOAT) {
        snprintf(text, sizeof text, "%.9g", number == 0 ? 0.3 : 0.7 * number);
    } else if (field->type == PPO_FIELD_U64) {
        snprintf(text, sizeof text, "18446744073709551615");
    } else if (field->type == PPO_FIELD_WIDTHS) {
        snprintf(text, sizeof text, "3,4,5");
    } else if (field->type == PPO_FIELD_KERNELS) {
        snprintf(text, sizeof text, "3x1x1,4x1x1");
    } else {
        snprintf(text, sizeof text, "%.0f", number + 3);
    }
    assert_ok(ppo_config_set(cfg, field->name, text));
}

static void assert_same_settings(const ppo_config *a, const ppo_config *b) {
    int count;
    const ppo_field *fields = ppo_config_settings()->field;
    count = ppo_config_settings()->count;
    for (int i = 0; i < count; i++) {
        char one[1024], other[1024];
        assert_ok(ppo_config_get(a, fields[i].name, one, sizeof one));
        assert_ok(ppo_config_get(b, fields[i].name, other, sizeof other));
        if (strcmp(one, other) != 0) fail_msg("%s is %s, not %s", fields[i].name, one, other);
    }
}

static void settings_come_back(ppo_config cfg) {
    ppo_env env = reach_env();
    const ppo_config usual = ppo_config_default();
    const ppo_field *fields = ppo_config_settings()->field;
    ppo_config read;
    env.shape[0] = env.shape[1] = env.shape[2] = 1;
    for (int i = 0; i < ppo_config_settings()->count; i++) {
        char text[1024]; /* settings that cannot have an effect are refused */
        if (!ppo_config_check_effect(&cfg, &env, fields[i].name)) continue;
        assert_ok(ppo_config_get(&usual, fields[i].name, text, sizeof text));
        assert_ok(ppo_config_set(&cfg, fields[i].name, text));
    }
    if (cfg.threads > sysconf(_SC_NPROCESSORS_ONLN)) cfg.threads = 1;
    run r = begin(&env, &cfg), back = {NULL, NULL};
    assert_ok(ppo_agent_save(r.agent, "policy"));
    assert_ok(ppo_trainer_save(r.trainer, "one"));
    for (int i = 0; i < 2; i++) {
        memset(&read, 0xff, sizeof read);
        assert_ok(ppo_config_load(i ? "one" : "policy", &read, NULL));
        assert_same_settings(&read, &cfg);
        assert_ok(ppo_agent_load(i ? "one" : "policy", &env, &back.agent));
        assert_same_settings(&back.agent->config, &cfg);
        assert_true(back.agent->clip_obs == cfg.clip_obs);
        ppo_agent_free(back.agent);
    }
    back = resume("one", &env, NULL);
    assert_same_settings(&back.agent->config, &cfg);
    assert_same_settings(&back.trainer->config, &cfg);
    end(&back);
    end(&r);
}

static void all_settings_come_back(void **state) {
    (void)state;
    ppo_config cfg = ppo_config_default();
    const ppo_field *fields = ppo_config_settings()->field;
    for (int i = 0; i < ppo_config_settings()->count; i++) {
        char before[64], after[64];
        assert_ok(ppo_config_get(&cfg, fields[i].name, before, sizeof before));
        set_to_something_else(&cfg, &fields[i]);
        assert_ok(ppo_config_get(&cfg, fields[i].name, after, sizeof after));
        assert_string_not_equal(before, after);
    }
    cfg.dual_clip = 1.25f; /* not every number will do */
    cfg.self_play = 0;     /* needs an environment with teams */
    cfg.snapshot_every = ppo_config_default().snapshot_every;
    cfg.self_play_latest = ppo_config_default().self_play_latest;
    if (cfg.threads > sysconf(_SC_NPROCESSORS_ONLN)) cfg.threads = 1;
    settings_come_back(cfg);
    cfg.objective = PPO_CLIP, cfg.use_critic = 1;
    settings_come_back(cfg);
}

/* To where decimals have a comma, as in most of Europe: 0 if it cannot be had. */
static int use_comma(void) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE",
                                        "fr_FR.UTF-8", "fr_FR.utf8", "fr_FR"};
    for (int i = 0; i < COUNT(names); i++)
        if (setlocale(LC_ALL, names[i])) return 1;
    if (system("localedef -i de_DE -f UTF-8 ./de_DE.UTF-8 >localedef.log 2>&1")) return 0;
    setenv("LOCPATH", ".", 1);
    return setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
}

static void a_file_does_not_depend_on_the_locale(void **state) {
    (void)state;
    const ppo_env env = knobs_env(ppo_box(2, -0.5f, 1.5f));
    ppo_config cfg = settings("gamma=0.5");
    ppo_agent *agent = NULL, *back = NULL;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_agent_save(agent, "plain"));
    assert_ok(ppo_export_c(agent, "policy", "plain.h"));
    if (!use_comma()) {
        ppo_agent_free(agent);
        skip();
    }
    assert_ok(ppo_agent_save(agent, "comma"));
    assert_ok(ppo_export_c(agent, "policy", "comma.h"));
    assert_ok(ppo_agent_load("plain", &env, &back));
    assert_same_bytes("comma", "plain");
    assert_same_bytes("comma.h", "plain.h");
    ppo_agent_free(back);
    ppo_agent_free(agent);
}

static void a_loaded_policy_is_trained_further(void **state) {
    (void)state;
    for (int k = 0; k < COUNT(kinds); k++) {
        const ppo_env env = kinds[k].env();
        ppo_config cfg = settings(kinds[k].settings);
        ppo_agent *fresh = trained_as(&kinds[k], &env, 0), *back = NULL;
        assert_ok(ppo_agent_save(fresh, "policy"));
        assert_ok(ppo_agent_load("policy", &env, &back));
        assert_ok(ppo_train(&env, &cfg, &fresh));
        assert_ok(ppo_train(&env, &cfg, &back)); /* nothing of the optimizer was lost: there was none yet */
        assert_false(parts_differ(fresh, back));
        ppo_agent_free(back);
        assert_ok(ppo_agent_save(fresh, "policy"));
        assert_ok(ppo_agent_load("policy", &env, &back));
        cfg.seed = 7;
        assert_ok(ppo_train(&env, &cfg, &back));
        assert_true(policies_differ(fresh, back));
        ppo_agent_free(back);
        ppo_agent_free(fresh);
    }
}

/* Nothing that the settings say of the network is quietly ignored. */
static void a_warm_start_with_the_settings_of_another_network_is_refused_by_name(void **state) {
    (void)state;
    static const char *const changes[][2] = {{"hidden", "9,9"},  {"activation", "relu"},
                                             {"clip_obs", "3"},  {"normalize_obs", "yes"},
                                             {"recurrent", "2"}, {"gsde", "no"}};
    const ppo_env env = reach_env();
    ppo_config small = settings("recurrent=3 gsde=yes");
    run r = begin(&env, &small);
    char figures[FIGURES];
    ppo_trainer_free(r.trainer);
    assert_ok(ppo_agent_save(r.agent, "policy"));
    ppo_agent_free(r.agent);
    assert_ok(ppo_agent_load("policy", &env, &r.agent));
    for (int i = 0; i < COUNT(changes); i++) {
        ppo_config other = r.agent->config;
        assert_ok(ppo_config_set(&other, changes[i][0], changes[i][1]));
        assert_fails(ppo_trainer_create(&env, &other, r.agent, &r.trainer), PPO_ERROR_ARGUMENT,
                     changes[i][0]);
        assert_null(r.trainer);
        assert_fails(ppo_train(&env, &other, &r.agent), PPO_ERROR_ARGUMENT, changes[i][0]);
        assert_non_null(r.agent); /* it is still the caller's, and as it was */
    }
    ppo_config other = r.agent->config;
    other.gamma = 0.5f, other.seed = 9, other.num_envs = 3;
    assert_ok(ppo_trainer_create(&env, &other, r.agent, &r.trainer));
    iterate(&r, figures);
    end(&r);
}

static void weights_that_are_not_finite_do_not_replace_a_good_file(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    const ppo_env env = walk_env();
    ppo_config cfg = settings("");
    run r = begin(&env, &cfg);
    assert_ok(ppo_trainer_save(r.trainer, "one"));
    assert_ok(ppo_trainer_save(r.trainer, "kept"));
    for (int i = 0; i < COUNT(bad); i++) {
        float *x = &r.agent->model.actor.weight[i % 2]->data[i], was = *x;
        *x = bad[i];
        assert_fails(ppo_trainer_save(r.trainer, "one"), PPO_ERROR_NUMERIC, "actor|weight|not finite");
        assert_fails(ppo_agent_save(r.agent, "one"), PPO_ERROR_NUMERIC, "actor|weight|not finite");
        *x = was;
    }
    assert_same_checkpoint("one", "kept");
    end(&r);
}

static void a_policy_is_not_loaded_from_a_damaged_checkpoint(void **state) {
    (void)state;
    const ppo_env env = walk_env();
    ppo_config cfg = settings("");
    ppo_agent *agent = NULL;
    run r = begin(&env, &cfg);
    assert_ok(ppo_trainer_save(r.trainer, "one"));
    end(&r);
    FILE *f = fopen("one", "r+b");
    assert_true(f && fseek(f, -5, SEEK_END) == 0);
    int byte = fgetc(f);
    fseek(f, -5, SEEK_END);
    fputc(byte ^ 1, f);
    fclose(f);
    assert_fails(ppo_agent_load("one", &env, &agent), PPO_ERROR_FILE, "one: |corrupt|checksum");
    assert_null(agent);
}

/* A second trainer of the same agent does not get its settings into the first one's checkpoint. */
static void a_checkpoint_has_the_settings_of_its_own_trainer(void **state) {
    (void)state;
    const ppo_env env = walk_env();
    ppo_config cfg = settings("gamma=0.5"), other = settings("gamma=0.25 num_envs=2 minibatch_size=0"), read;
    run r = begin(&env, &cfg);
    ppo_trainer *second = NULL;
    assert_ok(ppo_trainer_create(&env, &other, r.agent, &second));
    assert_ok(ppo_trainer_save(r.trainer, "one"));
    ppo_trainer_free(second);
    assert_ok(ppo_config_load("one", &read, NULL));
    assert_same_settings(&read, &cfg);
    end(&r);
}

static void null_is_refused(void **state) {
    (void)state;
    const ppo_env env = walk_env();
    ppo_agent *agent = trained_as(&kinds[0], &env, 0), *none = NULL;
    ppo_trainer *trainer = NULL;
    ppo_config cfg;
    assert_fails(ppo_agent_save(NULL, "x"), PPO_ERROR_ARGUMENT, "ppo_agent_save|NULL");
    assert_fails(ppo_agent_save(agent, NULL), PPO_ERROR_ARGUMENT, "ppo_agent_save|NULL");
    assert_fails(ppo_agent_load(NULL, &env, &none), PPO_ERROR_ARGUMENT, "ppo_agent_load|NULL");
    assert_fails(ppo_agent_load("one", &env, NULL), PPO_ERROR_ARGUMENT, "ppo_agent_load|NULL");
    assert_fails(ppo_config_load(NULL, &cfg, NULL), PPO_ERROR_ARGUMENT, "ppo_config_load|NULL");
    assert_fails(ppo_trainer_save(NULL, "x"), PPO_ERROR_ARGUMENT, "ppo_trainer_save|NULL");
    assert_fails(ppo_trainer_resume(NULL, &env, NULL, &none, &trainer), PPO_ERROR_ARGUMENT, "resume|NULL");
    assert_fails(ppo_trainer_resume("one", NULL, NULL, &none, &trainer), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_trainer_resume("one", &env, NULL, NULL, &trainer), PPO_ERROR_ARGUMENT, "resume|NULL");
    assert_fails(ppo_trainer_resume("one", &env, NULL, &none, NULL), PPO_ERROR_ARGUMENT, "resume|NULL");
    assert_fails(ppo_export_c(NULL, "x", "x.h"), PPO_ERROR_ARGUMENT, "ppo_export_c|NULL");
    assert_fails(ppo_export_c(agent, NULL, "x.h"), PPO_ERROR_ARGUMENT, "ppo_export_c|NULL");
    assert_fails(ppo_export_c(agent, "x", NULL), PPO_ERROR_ARGUMENT, "ppo_export_c|NULL");
    /* what an export would leave out is refused */
    assert_non_null(ppo_params_add(agent->model.params, "norm.weight", 1, 4));
    assert_fails(ppo_export_c(agent, "x", "x.h"), PPO_ERROR_ARGUMENT, "ppo_export_c|\"norm.weight\"");
    assert_null(fopen("x.h", "r"));
    assert_ok(ppo_config_load("one", NULL, NULL));
    assert_true(!none && !trainer);
    ppo_agent *stale = agent; /* what is to be created is NULL after any failure */
    ppo_trainer *stale_trainer = (ppo_trainer *)(void *)agent;
    assert_fails(ppo_agent_load(NULL, &env, &stale), PPO_ERROR_ARGUMENT, "NULL");
    assert_null(stale);
    stale = agent;
    assert_fails(ppo_trainer_resume(NULL, &env, NULL, &stale, &stale_trainer), PPO_ERROR_ARGUMENT, "NULL");
    assert_true(!stale && !stale_trainer);
    stale = agent;
    assert_fails(ppo_trainer_resume("one", &env, NULL, &stale, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_null(stale);
    memset(&cfg, 7, sizeof cfg); /* settings are only written where all is well */
    ppo_config was = cfg;
    assert_fails(ppo_config_load("missing", &cfg, NULL), PPO_ERROR_FILE, "missing");
    assert_memory_equal(&cfg, &was, sizeof cfg);
    assert_int_equal(files_in_folder(), 1);
    ppo_agent_free(agent);
}

/* --------------------------------------------------------------------------------------------------------
   Failures
   -------------------------------------------------------------------------------------------------------- */

static ppo_env job_env; /* what the jobs below work with */
static run job_run;

static ppo_status save_both(void *user) {
    (void)user;
    ppo_status status = ppo_agent_save(job_run.agent, "policy");
    if (!status) status = ppo_trainer_save(job_run.trainer, "one");
    return status ? status : ppo_export_c(job_run.agent, "policy", "policy.h");
}

static ppo_status load_both(void *user) {
    ppo_agent *agent = NULL;
    ppo_config cfg;
    (void)user;
    ppo_status status = ppo_agent_load("policy", &job_env, &agent);
    if (!status) status = ppo_config_load("one", &cfg, NULL);
    ppo_agent_free(agent);
    return status;
}

static ppo_status resume_it(void *user) {
    run back = {NULL, NULL};
    (void)user;
    ppo_status status = ppo_trainer_resume("one", &job_env, NULL, &back.agent, &back.trainer);
    if (status && (back.agent || back.trainer)) fail_msg("something was handed out after a failure");
    if (!status) status = ppo_trainer_iterate(back.trainer, NULL);
    end(&back);
    return status;
}

static void every_failing_allocation_is_reported_and_leaks_nothing(void **state) {
    (void)state;
    static const int some[] = {1, 11, 14, 16};
    for (int k = 0; k < COUNT(some); k++) {
        ppo_config cfg = settings(kinds[some[k]].settings);
        char figures[FIGURES];
        job_env = kinds[some[k]].env();
        job_run = begin(&job_env, &cfg);
        iterate(&job_run, figures);
        assert_ok(save_both(NULL));
        vaults_opened = vaults_closed = 0;
        assert_true(fail_each_allocation(load_both, NULL) > 10);
        assert_true(fail_each_allocation(resume_it, NULL) > 20);
        assert_int_equal(vaults_opened, vaults_closed);
        end(&job_run);
    }
}

/* A failed save leaves no new file, and the old one unchanged. */
static void a_failing_allocation_leaves_the_old_checkpoint(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        ppo_config cfg = settings(kinds[16].settings);
        job_env = kinds[16].env();
        heap h = {0, 0, -1, 0};
        ppo_set_allocator(heap_hook, &h);
        job_run = begin(&job_env, &cfg);
        assert_ok(ppo_trainer_save(job_run.trainer, "one"));
        assert_ok(ppo_trainer_save(job_run.trainer, "kept"));
        long live = h.live, most;
        h.calls = 0;
        assert_ok(save_both(NULL));
        most = h.calls;
        assert_true(most > 5);
        assert_ok(ppo_trainer_save(job_run.trainer, "kept"));
        rename("kept", "one");
        ppo_agent_save(job_run.agent, "policy");
        for (h.fail_at = 0, h.for_good = k; h.fail_at < most; h.fail_at++) {
            h.calls = 0;
            ppo_fail(PPO_OK, "(no sentence)");
            assert_int_equal(save_both(NULL), PPO_ERROR_MEMORY);
            assert_non_null(strstr(ppo_last_error(), "memory"));
            assert_int_equal(h.live, live);
            assert_int_equal(files_in_folder(), 3);
        }
        h.fail_at = -1;
        run back = resume("one", &job_env, NULL);
        end(&back);
        end(&job_run);
        assert_int_equal(h.live, 0);
        ppo_set_allocator(NULL, NULL);
    }
}

static void assert_save_fails(const char *path, const char *words) {
    int before = files_in_folder();
    assert_fails(ppo_trainer_save(job_run.trainer, path), PPO_ERROR_FILE, words);
    assert_fails(ppo_agent_save(job_run.agent, path), PPO_ERROR_FILE, words);
    assert_fails(ppo_export_c(job_run.agent, "policy", path), PPO_ERROR_FILE, words);
    assert_int_equal(files_in_folder(), before);
}

static void a_failing_write_leaves_the_old_file_and_no_other(void **state) {
    (void)state;
    struct rlimit old, limit;
    ppo_config cfg = settings("hidden=40,40");
    char figures[FIGURES];
    job_env = walk_env();
    job_run = begin(&job_env, &cfg);
    assert_ok(ppo_trainer_save(job_run.trainer, "one"));
    assert_ok(ppo_trainer_save(job_run.trainer, "kept"));
    iterate(&job_run, figures);
    assert_save_fails("one/one", "one/one: ");
    assert_save_fails(".", "not a plain file");
    assert_save_fails("/dev/full", "/dev/full: ");
    if (geteuid()) { /* root may write everywhere */
        chmod(".", 0500);
        ppo_status status = ppo_trainer_save(job_run.trainer, "one");
        chmod(".", 0700);
        assert_int_equal(status, PPO_ERROR_FILE);
        assert_non_null(strstr(ppo_last_error(), "one: "));
    }
    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t room = 0; room < 10000; room += 777) { /* the disk is full, here and there */
        limit = old;
        limit.rlim_cur = room;
        setrlimit(RLIMIT_FSIZE, &limit);
        ppo_status one = ppo_trainer_save(job_run.trainer, "one");
        ppo_status other = ppo_export_c(job_run.agent, "policy", "one");
        setrlimit(RLIMIT_FSIZE, &old);
        assert_int_equal(one, PPO_ERROR_FILE);
        assert_int_equal(other, PPO_ERROR_FILE);
        assert_non_null(strstr(ppo_last_error(), "one: cannot be written"));
        assert_int_equal(files_in_folder(), 2);
        assert_same_checkpoint("one", "kept");
    }
    signal(SIGXFSZ, SIG_DFL);
    assert_ok(ppo_trainer_save(job_run.trainer, "one"));
    run back = resume("one", &job_env, NULL);
    assert_int_equal(ppo_trainer_steps(back.trainer), 24);
    end(&back);
    end(&job_run);
}

static void what_is_no_file_of_ours_is_told(void **state) {
    (void)state;
    const ppo_env env = walk_env();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_config cfg;
    ppo_file *file = NULL;
    assert_ok(ppo_file_create(&file));
    assert_ok(ppo_file_set_text(file, "format", "pt"));
    assert_ok(ppo_file_write(file, "other"));
    ppo_file_free(file);
    FILE *out = fopen("text", "w");
    fputs("a text of some length", out);
    fclose(out);
    static const char *const paths[] = {"missing", "other", "text", "."};
    for (int i = 0; i < COUNT(paths); i++) {
        char words[32];
        snprintf(words, sizeof words, "%s: %s", paths[i], i == 1 ? "|not a policy" : "");
        assert_fails(ppo_agent_load(paths[i], &env, &agent), PPO_ERROR_FILE, words);
        assert_fails(ppo_config_load(paths[i], &cfg, NULL), PPO_ERROR_FILE, words);
        snprintf(words, sizeof words, "%s: ", paths[i]);
        assert_fails(ppo_trainer_resume(paths[i], &env, NULL, &agent, &trainer), PPO_ERROR_FILE, words);
        assert_true(!agent && !trainer);
    }
}

/* --------------------------------------------------------------------------------------------------------
   Files that other programs wrote
   -------------------------------------------------------------------------------------------------------- */

/* The checksum by its description: FNV-1a over keys and texts, then over names and data, in their order, each
   string with its 0. The key itself is left out. */
static uint64_t fnv(uint64_t hash, const void *data, size_t n) {
    for (size_t i = 0; i < n; i++) hash = (hash ^ ((const unsigned char *)data)[i]) * UINT64_C(1099511628211);
    return hash;
}

static void put_checksum(ppo_file *file) {
    uint64_t hash = UINT64_C(14695981039346656037);
    char text[32];
    for (int i = 0; i < ppo__file_text_count(file); i++) {
        const char *key = ppo_file_key_at(file, i), *value = ppo_file_text(file, key);
        if (strcmp(key, "checksum") != 0)
            hash = fnv(fnv(hash, key, strlen(key) + 1), value, strlen(value) + 1);
    }
    for (int i = 0; i < ppo_file_count(file); i++) {
        const ppo_array *array = ppo_file_at(file, i);
        hash = fnv(fnv(hash, array->name, strlen(array->name) + 1), array->data, array->bytes);
    }
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    assert_ok(ppo_file_set_text(file, "checksum", text));
}

/* What is different in a copy of a file. */
typedef struct change {
    const char *without;    /* the text or array that is left out, or NULL */
    const char *key, *text; /* the text that is set, or NULL */
    ppo_array array;        /* the array that is there instead of that of its name; name NULL: none */
} change;

static void write_changed(const ppo_file *from, const change *changes, int n, int sum, const char *path) {
    ppo_file *to = NULL;
    assert_ok(ppo_file_create(&to));
    for (int i = 0; i < ppo__file_text_count(from); i++) {
        const char *key = ppo_file_key_at(from, i);
        int keep = 1;
        for (int k = 0; k < n; k++) keep &= !changes[k].without || strcmp(changes[k].without, key) != 0;
        if (keep) assert_ok(ppo_file_set_text(to, key, ppo_file_text(from, key)));
    }
    for (int i = 0; i < ppo_file_count(from); i++) {
        const ppo_array *array = ppo_file_at(from, i);
        int keep = 1;
        for (int k = 0; k < n; k++) {
            keep &= !changes[k].without || strcmp(changes[k].without, array->name) != 0;
            keep &= !changes[k].array.name || strcmp(changes[k].array.name, array->name) != 0;
        }
        if (keep)
            assert_ok(ppo_file_add(to, array->name, array->type, array->shape, array->rank, array->data));
    }
    for (int k = 0; k < n; k++) {
        const ppo_array *array = &changes[k].array;
        if (changes[k].key) ppo_file_set_text(to, changes[k].key, changes[k].text);
        if (array->name) ppo_file_add(to, array->name, array->type, array->shape, array->rank, array->data);
    }
    if (sum && ppo_file_text(to, "checksum")) put_checksum(to);
    assert_ok(ppo_file_write(to, path));
    ppo_file_free(to);
}

/* One number of an array, whatever its type. */
static void poke(void *data, int type, size_t at, double value) {
    int64_t whole = value != value ? 0 : (int64_t)fmin(fmax(value, -9.2e18), 9.2e18);
    if (type == PPO_U8) ((uint8_t *)data)[at] = (uint8_t)whole;
    if (type == PPO_I32) ((int32_t *)data)[at] = (int32_t)whole;
    if (type == PPO_U32) ((uint32_t *)data)[at] = (uint32_t)whole;
    if (type == PPO_F32)
        ((float *)data)[at] = fabs(value) > 3.4e38 ? (float)copysign(INFINITY, value) : (float)value;
    if (type == PPO_F64) ((double *)data)[at] = value;
    if (type == PPO_I64) ((int64_t *)data)[at] = whole;
    if (type == PPO_U64) ((uint64_t *)data)[at] = (uint64_t)whole;
}

/* Small runs in the middle of their episodes, saved as "0", "1" and "2", from which the hostile files are made. */
static const struct kind bases[] = {
    {"masked", masked_env, "shared_trunk=yes"},
    {"box", NULL,
     "recurrent=2 gsde=yes gsde_steps=1 normalize_obs=yes normalize_reward=yes objective=kl-penalty "
     "penalty_target_kl=0.01"},
    {"opened", vault_masked_env, "hidden=2,2 recurrent=1"},
};

static ppo_env base_env(int b) { return bases[b].env ? bases[b].env() : knobs_env(ppo_box(2, -1, 1)); }

static void make_bases(void) {
    for (int b = 0; b < COUNT(bases); b++) {
        const ppo_env env = base_env(b);
        ppo_config cfg =
            settings("num_envs=2 rollout_steps=2 minibatch_size=0 epochs=1 hidden=2 total_steps=400");
        char path[8], figures[FIGURES];
        assert_ok(ppo_config_set_all(&cfg, bases[b].settings));
        snprintf(path, sizeof path, "%d", b);
        run r = begin(&env, &cfg);
        for (int i = 0; i < 2 || r.trainer->collector.envs.length[0] < 2; i++) iterate(&r, figures);
        assert_ok(ppo_trainer_save(r.trainer, "base"));
        end(&r);
        ppo_file *file = read_file("base");
        const double seconds = 1; /* that the bytes are always the same */
        const change c = {
            NULL, NULL, NULL, {"trainer.seconds", PPO_F64, 2, {1, 1}, sizeof seconds, &seconds}};
        write_changed(file, &c, 1, 1, path);
        ppo_file_free(file);
    }
}

/* The file is refused, with its name and these words, by what reads a checkpoint; policy: and a policy as well. */
static void assert_refused(const char *path, int base, int policy, const char *words) {
    const ppo_env env = base_env(base);
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    char name[64];
    snprintf(name, sizeof name, "%s: ", path);
    assert_fails(ppo_trainer_resume(path, &env, NULL, &agent, &trainer), PPO_ERROR_FILE, name);
    check_fails(PPO_ERROR_FILE, PPO_ERROR_FILE, words, "resume", __FILE__, __LINE__);
    assert_true(!agent && !trainer);
    if (!policy) return;
    assert_fails(ppo_agent_load(path, &env, &agent), PPO_ERROR_FILE, name);
    assert_fails(ppo_agent_load(path, NULL, &agent), PPO_ERROR_FILE, name);
    check_fails(PPO_ERROR_FILE, PPO_ERROR_FILE, words, "load", __FILE__, __LINE__);
    assert_null(agent);
}

static void unknown_texts_and_arrays_are_ignored_and_missing_settings_have_their_defaults(void **state) {
    (void)state;
    const ppo_env env = masked_env();
    make_bases();
    ppo_file *file = read_file("0");
    float numbers[3] = {1, NAN, 3};
    const change changes[] = {{NULL, "colour", "blue", {0}},
                              {NULL, NULL, NULL, {"notes", PPO_F32, 1, {3}, sizeof numbers, numbers}},
                              {"learning_rate", NULL, NULL, {0}},
                              {"environment", NULL, NULL, {0}},
                              {"epochs", NULL, NULL, {0}}};
    ppo_config cfg;
    char name[64];
    run r = {NULL, NULL};
    write_changed(file, changes, COUNT(changes), 1, "changed");
    assert_ok(ppo_config_load("changed", &cfg, name));
    assert_true(cfg.learning_rate == 3e-4f && cfg.epochs == 10 && cfg.num_envs == 2);
    assert_string_equal(name, "");
    assert_ok(ppo_agent_load("changed", &env, &r.agent));
    assert_true(r.agent->config.learning_rate == 3e-4f);
    ppo_agent_free(r.agent);
    r = resume("changed", &env, NULL);
    assert_int_equal(r.trainer->config.epochs, 10);
    finish(&r);
    end(&r);
    ppo_file_free(file);
}

/* What has no effect is refused where a trainer is created, but not in a file that may be older than this rule. */
static void a_checkpoint_with_settings_that_have_no_effect_is_resumed(void **state) {
    (void)state;
    static const char *const more[][2] = {{"sequence_steps", "7"}, {"gsde_steps", "2"},
                                          {"clip_reward", "5"},    {"dual_clip", "3"},
                                          {"squash", "yes"},       {"log_std_init", "-1"}};
    const ppo_env env = walk_env();
    ppo_config cfg = settings("objective=unclipped"), read;
    char figures[FIGURES];
    change changes[COUNT(more)];
    run r = begin(&env, &cfg), back = {NULL, NULL};
    iterate(&r, figures);
    assert_ok(ppo_trainer_save(r.trainer, "one"));
    ppo_file *file = read_file("one");
    memset(changes, 0, sizeof changes);
    for (int i = 0; i < COUNT(more); i++) changes[i].key = more[i][0], changes[i].text = more[i][1];
    write_changed(file, changes, COUNT(changes), 1, "changed");
    ppo_file_free(file);
    finish(&r);
    assert_ok(ppo_config_load("changed", &read, NULL));
    assert_true(read.dual_clip == 3 && read.sequence_steps == 7 && read.squash == 1);
    for (int i = 0; i < 2; i++) {
        back = resume("changed", &env, i ? &read : NULL);
        finish(&back);
        assert_false(parts_differ(r.agent, back.agent));
        end(&back);
    }
    end(&r);
}

/* A bit of every byte of a whole checkpoint. */
static void a_checkpoint_with_a_wrong_byte_is_refused(void **state) {
    (void)state;
    static unsigned char whole[1 << 16];
    make_bases();
    FILE *in = fopen("1", "rb");
    size_t n = fread(whole, 1, sizeof whole, in);
    fclose(in);
    assert_in_range(n, 5000, sizeof whole - 1);
    for (size_t i = 0; i < n; i += SMALL(1, 7)) {
        FILE *out = fopen("wrong", "wb");
        ppo_agent *agent = NULL;
        ppo_trainer *trainer = NULL;
        const ppo_env env = base_env(1);
        whole[i] ^= (unsigned char)(1 << i % 8);
        fwrite(whole, 1, n, out);
        fclose(out);
        whole[i] ^= (unsigned char)(1 << i % 8);
        if (ppo_trainer_resume("wrong", &env, NULL, &agent, &trainer) != PPO_ERROR_FILE)
            fail_msg("the wrong byte %zu of %zu is not noticed", i, n);
        assert_true(!agent && !trainer && strncmp(ppo_last_error(), "wrong: ", 7) == 0);
    }
}

static void every_array_must_be_there_with_its_type_and_shape(void **state) {
    (void)state;
    static double zeros[512];
    make_bases();
    for (int b = 0; b < COUNT(bases); b++) {
        char path[8];
        snprintf(path, sizeof path, "%d", b);
        ppo_file *file = read_file(path);
        for (int i = 0; i < ppo_file_count(file) * 4; i++) {
            change c = {NULL, NULL, NULL, {0}};
            const ppo_array *array = ppo_file_at(file, i / 4);
            int policy = !strchr("et", array->name[0]) && strncmp(array->name, "adam", 4) != 0;
            if (strncmp(array->name, "return_norm", 11) == 0) continue; /* not every agent has one */
            c.array = *array;
            c.array.data = zeros;
            assert_true(array->bytes < sizeof zeros / 2);
            if (i % 4 == 0) c.without = array->name, c.array.name = NULL;
            if (i % 4 == 1) c.array.type = array->type == PPO_F32 ? PPO_U32 : PPO_F32;
            if (i % 4 == 2) c.array.shape[c.array.rank++] = 1;
            if (i % 4 == 3) c.array.shape[0]++, c.array.rank = array->rank ? array->rank : 1;
            write_changed(file, &c, 1, 1, "changed");
            assert_refused("changed", b, policy, array->name);
        }
        ppo_file_free(file);
    }
}

static void numbers_that_no_training_leaves_are_refused(void **state) {
    (void)state;
    enum { POLICY = 1 };
    static const struct {
        int base;
        const char *array;
        int at;
        double value;
        int policy;
    } cases[] = {
        {1, "actor.0.weight", 0, NAN, POLICY},
        {1, "actor.1.bias", 1, INFINITY, POLICY},
        {1, "actor.log_std", 0, -INFINITY, POLICY},
        {1, "obs_norm.mean", 0, INFINITY, POLICY},
        {1, "obs_norm.var", 1, -1, POLICY},
        {1, "obs_norm.var", 0, NAN, POLICY},
        {1, "obs_norm.count", 0, -1, POLICY},
        {1, "obs_norm.count", 0, NAN, POLICY},
        {1, "return_norm.mean", 0, NAN, POLICY},
        {1, "return_norm.var", 0, -1e-300, POLICY},
        {1, "return_norm.count", 0, -5, POLICY},
        {0, "adam.m.trunk.0.weight", 0, NAN, 0},
        {0, "adam.v.trunk.0.weight", 1, -1e-30, 0},
        {0, "adam.v.critic.0.bias", 0, INFINITY, 0},
        {0, "trainer.counters", 0, -1, 0},
        {0, "trainer.counters", 1, -1, 0},
        {0, "trainer.counters", 2, -1, 0},
        {0, "trainer.counters", 3, -1, 0},
        {0, "trainer.counters", 0, 9.2e18, 0},
        {0, "trainer.counters", 2, 9.2e18, 0},
        {0, "trainer.counters", 3, 9.2e18, 0},
        {0, "trainer.seconds", 0, -1, 0},
        {0, "trainer.seconds", 0, NAN, 0},
        {0, "trainer.seconds", 0, INFINITY, 0},
        {1, "trainer.kl_coef", 0, -1, 0},
        {1, "trainer.kl_coef", 0, NAN, 0},
        {0, "trainer.last_return", 99, NAN, 0},
        {0, "trainer.last_length", 0, -1, 0},
        {0, "trainer.shuffle_rng", 10, 5, 0},
        {0, "trainer.shuffle_rng", 10, 4294967295.0, 0},
        {0, "environments.fresh", 0, 2, 0},
        {0, "environments.fresh", 0, -1, 0},
        {0, "environments.rng", 10, 5, 0},
        {0, "environments.rng", 21, 4294967295.0, 0},
        {0, "environments.action_rng", 21, 2147483648.0, 0},
        {0, "environments.observation", 3, NAN, 0},
        {0, "environments.return", 1, NAN, 0},
        {0, "environments.return", 0, -INFINITY, 0},
        {0, "environments.length", 0, -1, 0},
        {0, "environments.length", 1, 9, 0}, /* max_steps: that episode would be over */
        {0, "environments.length", 1, 10, 0},
        {0, "environments.length", 0, 2147483647, 0},
        {0, "environments.steps", 0, -1, 0},
        {0, "environments.steps", 1, 9.2e18, 0},
        {1, "environments.discounted", 1, NAN, 0},
        {0, "environments.start", 0, 2, 0},
        {0, "environments.start", 1, 255, 0},
        {1, "environments.recurrent_state", 0, NAN, 0},
        {1, "environments.recurrent_state", 3, INFINITY, 0},
        {2, "environments.episode_rng", 10, 5, 0},
        {2, "environments.episode_rng", 21, 4294967295.0, 0},
        {2, "environments.episode_rng", 0, 17, 0}, /* the episode of another seed */
        {2, "environments.rng", 0, 17, 0},
        {2, "environments.observation", 0, 0.125, 0},
        {2, "environments.length", 0, 0, 0},
        {2, "environments.length", 0, 9, 0},
        {2, "environments.played", 0, 3, 0}, /* of 3 choices */
        {2, "environments.played", 0, 4294967295.0, 0},
        {2, "environments.played", 1, 2, 0},
        {2, "environments.played", 3, 2147483648.0, 0},
    };
    static double data[512];
    make_bases();
    for (int i = 0; i < COUNT(cases); i++) {
        char path[8];
        snprintf(path, sizeof path, "%d", cases[i].base);
        ppo_file *file = read_file(path);
        const ppo_array *array = ppo_file_find(file, cases[i].array);
        change c = {NULL, NULL, NULL, {0}};
        if (!array || array->bytes > sizeof data) fail_msg("there is no %s", cases[i].array);
        memcpy(data, array->data, array->bytes);
        poke(data, array->type, (size_t)cases[i].at, cases[i].value);
        c.array = *array;
        c.array.data = data;
        write_changed(file, &c, 1, 1, "changed");
        const ppo_env env = base_env(cases[i].base);
        run r = {NULL, NULL};
        if (ppo_trainer_resume("changed", &env, NULL, &r.agent, &r.trainer) == PPO_OK)
            fail_msg("%s[%d] may be %g", cases[i].array, cases[i].at, cases[i].value);
        const char *words = cases[i].base == 2                 ? "changed"
                            : strstr(cases[i].array, "rng")    ? "corrupt|random stream"
                            : strstr(cases[i].array, "adam.v") ? "adam.v"
                                                               : cases[i].array;
        assert_refused("changed", cases[i].base, cases[i].policy, words);
        assert_false(vault_abused); /* it was refused before an environment saw it */
        ppo_file_free(file);
    }
}

static void a_world_with_fewer_copies_does_not_resume(void **state) {
    (void)state;
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_env env = base_env(0);
    ppo_config cfg;
    make_bases();
    assert_ok(ppo_config_load("0", &cfg, NULL));
    env.copies = 1;
    assert_fails(ppo_trainer_resume("0", &env, NULL, &agent, &trainer), PPO_ERROR_FILE,
                 "num_envs is 2|1 copy exists");
    assert_fails(ppo_trainer_resume("0", &env, &cfg, &agent, &trainer), PPO_ERROR_ARGUMENT,
                 "num_envs is 2|1 copy exists");
    assert_true(!agent && !trainer);
}

/* In the episode of a box environment that is played again. */
static void played_numbers_outside_the_box_are_refused(void **state) {
    (void)state;
    static const float values[] = {1.5f, -1.0001f, NAN, INFINITY, -INFINITY};
    for (int i = 0; i < COUNT(values) * 2; i++) {
        ppo_env env = vault_box_env();
        ppo_config cfg = settings("rollout_steps=5");
        run r = {NULL, NULL};
        char figures[FIGURES];
        float data[512];
        if (i % 2) env.action_space = ppo_box(2, -INFINITY, INFINITY);
        if (i % 2 && fabsf(values[i / 2]) < 2) continue; /* is no longer outside */
        r = begin(&env, &cfg);
        do iterate(&r, figures);
        while (r.trainer->collector.envs.length[0] < 2);
        assert_ok(ppo_trainer_save(r.trainer, "one"));
        end(&r);
        ppo_file *file = read_file("one");
        const ppo_array *array = ppo_file_find(file, "environments.played");
        change c = {NULL, NULL, NULL, {0}};
        assert_true(array && array->bytes <= sizeof data);
        c.array = *array;
        c.array.data = memcpy(data, array->data, array->bytes);
        memcpy(data + 1, &values[i / 2], sizeof(float));
        write_changed(file, &c, 1, 1, "changed");
        assert_fails(ppo_trainer_resume("changed", &env, NULL, &r.agent, &r.trainer), PPO_ERROR_FILE,
                     "changed: |environment 0");
        ppo_file_free(file);
    }
}

/* -- several agents in one world -- */

/* Two who turn the knobs by turns, each his own; who waits has an open row. */
typedef struct pair {
    knobs knobs;
    unsigned moves;
} pair;

static void pair_show(const pair *p, float *obs, ppo_outcome *out) {
    for (int k = 0; k < 2; k++) {
        knobs_show(&p->knobs, obs + 2 * k);
        out[k].waits = p->moves % 2 != (unsigned)k;
    }
}

static void pair_reset(void *state, ppo_rng *rng, float *obs, ppo_outcome *out) {
    pair *p = (pair *)state;
    p->moves = 0;
    for (int k = 0; k < 2; k++) p->knobs.x[k] = ppo_rng_below(rng, 5);
    pair_show(p, obs, out);
}

static void pair_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    pair *p = (pair *)state;
    const unsigned k = p->moves++ % 2;
    if (!action[k].box && !action[k].choices) ppo_env_fail("no action of the one at turn");
    else p->knobs.x[k] += action[k].box ? action[k].box[0] > 0 : (unsigned)action[k].choices[0];
    p->knobs.x[!k] += ppo_rng_below(rng, 2);
    pair_show(p, obs, out);
    out[k].reward = p->knobs.x[0] % 5 == p->knobs.x[1] % 5 ? 1.0f : -0.5f;
}

static void pair_mask(const void *state, unsigned char *mask) {
    for (int k = 0; k < 2; k++) knobs_mask(&((const pair *)state)->knobs, mask + 5 * k);
}

static int pair_open(void *state, void *user, int copy) { return (void)state, (void)user, copy < 0; }

static ppo_env pair_env(ppo_env env) {
    env.name = "pair";
    env.agents = env.teams = 2;
    env.state_size = sizeof(pair);
    env.reset = NULL, env.step = NULL;
    env.reset_all = pair_reset, env.step_all = pair_step;
    if (env.action_mask) env.action_mask = pair_mask;
    return env;
}

/* One whose state is in the file, and one that plays its actions again. */
static ppo_env pairs(int k) {
    ppo_env env = pair_env(k ? knobs_env(ppo_box(2, -1, 1)) : masked_env());
    if (k) env.open = pair_open, env.byte_scale = 0.25f;
    return env;
}

static ppo_file *checkpoint_of_pair(int k) {
    static const char *const more[] = {"recurrent=2 self_play=2 snapshot_every=1", ""};
    const ppo_env env = pairs(k);
    ppo_config cfg =
        settings("num_envs=4 rollout_steps=7 minibatch_size=0 objective=kl-penalty total_steps=4000");
    char figures[FIGURES];
    assert_ok(ppo_config_set_all(&cfg, more[k]));
    run r = begin(&env, &cfg);
    do iterate(&r, figures);
    while (r.trainer->collector.envs.age[0] < 5);
    assert_ok(ppo_trainer_save(r.trainer, "pair"));
    end(&r);
    return read_file("pair");
}

/* The array with one number changed, in data. */
static change with_number(const ppo_file *file, const char *name, int at, double value, double data[512]) {
    const ppo_array *array = ppo_file_find(file, name);
    change c = {NULL, NULL, NULL, {0}};
    if (!array || array->bytes > 512 * sizeof *data) fail_msg("there is no %s", name);
    memcpy(data, array->data, array->bytes);
    poke(data, array->type, (size_t)at, value);
    c.array = *array;
    c.array.data = data;
    return c;
}

static void numbers_that_no_training_of_several_agents_leaves_are_refused(void **state) {
    (void)state;
    static const struct {
        int kind;
        const char *array;
        int at;
        double value;
        const char *words; /* NULL: those of the array's name */
    } cases[] = {
        {0, "environments.age", 1, -1, NULL},
        {0, "environments.age", 0, 9, NULL}, /* max_steps */
        {0, "environments.turn", 3, 3, NULL},
        {0, "environments.turn", 0, 255, NULL},
        {0, "environments.player", 2, 2, NULL}, /* of two snapshots */
        {0, "environments.player", 0, -2, NULL},
        {0, "environments.open", 1, 2, NULL},
        {0, "environments.earned", 3, NAN, NULL},
        {0, "environments.match_rng", 10, 5, "random stream"},
        {0, "environments.match_rng", 21, 4294967295.0, "random stream"},
        {0, "environments.rng", 21, 5, "random stream"},
        {0, "environments.action_rng", 43, 5, "random stream"},
        {0, "trainer.snapshots", 0, -1, NULL},
        {0, "open.observation", 7, INFINITY, NULL},
        {0, "open.choices", 0, -1, NULL},
        {0, "open.choices", 2, 3, "no action of agent 1"}, /* of 3 choices */
        {0, "open.choices", 7, 2147483647, "no action of agent 3"},
        {0, "open.mask", 4, 2, NULL},
        {0, "open.logp", 3, NAN, NULL},
        {0, "open.policy", 0, NAN, NULL},
        {0, "open.policy", 19, INFINITY, NULL},
        {0, "open.recurrent_state", 1, NAN, NULL},
        {0, "open.start", 0, 2, NULL},
        {0, "snapshot.1.critic.0.bias", 0, NAN, NULL},
        {1, "open.box", 0, INFINITY, NULL},
        {1, "open.log_std", 7, NAN, NULL},
        {1, "open.policy", 2, NAN, NULL},
        {1, "environments.played", 0, 0x40000000, "replaying|environment 0"}, /* 2: outside the box */
        {1, "environments.rng", 0, 17, "replaying|environment 0"},
        {1, "environments.observation", 2, 0.125, "replaying|environment 0"},
        {1, "environments.age", 0, 0, "replaying|environment 0"},
    };
    double data[512];
    ppo_file *file[2] = {checkpoint_of_pair(0), checkpoint_of_pair(1)};
    for (int i = 0; i < COUNT(cases); i++) {
        const ppo_env env = pairs(cases[i].kind);
        const change c = with_number(file[cases[i].kind], cases[i].array, cases[i].at, cases[i].value, data);
        run r = {NULL, NULL};
        write_changed(file[cases[i].kind], &c, 1, 1, "changed");
        if (ppo_trainer_resume("changed", &env, NULL, &r.agent, &r.trainer) == PPO_OK)
            fail_msg("%s[%d] may be %g", cases[i].array, cases[i].at, cases[i].value);
        assert_fails(ppo_trainer_resume("changed", &env, NULL, &r.agent, &r.trainer), PPO_ERROR_FILE,
                     cases[i].words ? cases[i].words : cases[i].array);
        assert_true(!r.agent && !r.trainer);
    }
    ppo_file_free(file[0]);
    ppo_file_free(file[1]);
}

static void an_episode_of_more_actions_than_the_file_has_is_refused(void **state) {
    (void)state;
    const ppo_env env = pairs(1);
    ppo_file *file = checkpoint_of_pair(1);
    const ppo_array *array = ppo_file_find(file, "environments.played");
    change c = {NULL, NULL, NULL, {0}};
    run r = {NULL, NULL};
    c.array = *array;
    c.array.shape[1] = 2 * 4; /* of two steps, of two agents with two numbers each */
    write_changed(file, &c, 1, 1, "changed");
    assert_fails(ppo_trainer_resume("changed", &env, NULL, &r.agent, &r.trainer), PPO_ERROR_FILE,
                 "changed: |environment 0 played|steps, but only 2 are there");
    c.array.shape[1] = 7;
    write_changed(file, &c, 1, 1, "changed");
    assert_fails(ppo_trainer_resume("changed", &env, NULL, &r.agent, &r.trainer), PPO_ERROR_FILE,
                 "changed: |environments.played");
    ppo_file_free(file);
}

/* What a rollout keeps of the step that an agent has begun follows from settings and the environment: where that has
   changed, episodes begin anew. */
static void open_steps_without_what_a_rollout_keeps_now_begin_anew(void **state) {
    (void)state;
    static const char *const columns[] = {"open.policy", "open.mask", "open.log_std", "open.observation",
                                          "open.observation_bytes"};
    int found = 0;
    for (int k = 0; k < 2; k++) {
        const ppo_env env = pairs(k);
        ppo_file *file = checkpoint_of_pair(k);
        for (int i = 0; i < COUNT(columns); i++) {
            const change c = {columns[i], NULL, NULL, {0}};
            run r = {NULL, NULL};
            if (!ppo_file_find(file, c.without)) continue;
            found++;
            write_changed(file, &c, 1, 1, "changed");
            assert_ok(ppo_trainer_resume("changed", &env, NULL, &r.agent, &r.trainer));
            for (int e = 0; e < 4; e++) assert_int_equal(r.trainer->collector.row[e], PPO__ROW_COMPLETE);
            assert_ok(ppo_trainer_iterate(r.trainer, NULL));
            end(&r);
        }
        ppo_file_free(file);
    }
    assert_int_equal(found, 6);
}

/* An environment that only counts can be given an episode that is over. There is no room to note another step. */
static void counter_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    (void)rng, (void)action, (void)out;
    obs[0] = (float)++*(int *)state;
}
static void counter_reset(void *state, ppo_rng *rng, float *obs) {
    (void)rng;
    obs[0] = (float)(*(int *)state = 0);
}
static int counter_open(void *state, void *user, int copy) {
    (void)state, (void)user, (void)copy;
    return 0;
}

static void an_episode_that_is_over_is_not_continued(void **state) {
    (void)state;
    ppo_env env = ticks_env(6);
    ppo_config cfg = settings("num_envs=2 minibatch_size=0 rollout_steps=4 recurrent=1");
    char figures[FIGURES];
    env.state_size = sizeof(int);
    env.reset = counter_reset;
    env.step = counter_step;
    env.open = counter_open;
    run r = begin(&env, &cfg), back = {NULL, NULL};
    iterate(&r, figures);
    assert_ok(ppo_trainer_save(r.trainer, "one"));
    end(&r);
    back = resume("one", &env, NULL);
    end(&back);
    ppo_file *file = read_file("one");
    float obs[2] = {4, 6};
    int32_t length[2] = {4, 6};
    change changes[] = {
        {NULL, NULL, NULL, {"environments.observation", PPO_F32, 2, {2, 1}, sizeof obs, obs}},
        {NULL, NULL, NULL, {"environments.length", PPO_I32, 2, {2, 1}, sizeof length, length}}};
    write_changed(file, changes, 2, 1, "changed");
    assert_fails(ppo_trainer_resume("changed", &env, NULL, &back.agent, &back.trainer), PPO_ERROR_FILE,
                 "changed: ");
    obs[1] = 5, length[1] = 5; /* which would be no fault */
    write_changed(file, changes, 2, 1, "changed");
    back = resume("changed", &env, NULL);
    iterate(&back, figures);
    end(&back);
    ppo_file_free(file);
}

static void settings_that_are_none_are_refused_by_name(void **state) {
    (void)state;
    static const char *const texts[] = {
        "",         "nonsense", "-2",    "nan", "1e999", "99999999999999999999",
        "0x10",     " 1",       "1 ",    "1,",  ",",     "\1",
        "\303\251", "1e",       "none ", "YES", "inf",   "1;2",
        "- 1",      "0,5"};
    make_bases();
    ppo_file *file = read_file("0");
    char much[6000];
    memset(much, '7', sizeof much - 1);
    much[sizeof much - 1] = 0;
    int count;
    const ppo_field *fields = ppo_config_settings()->field;
    count = ppo_config_settings()->count;
    for (int i = 0; i < (count + 2) * (COUNT(texts) + 1); i += SMALL(1, 2)) {
        const int k = i / (COUNT(texts) + 1), t = i % (COUNT(texts) + 1);
        const char *key = k == count ? "observation_size" : k > count ? "action_space" : fields[k].name;
        const char *text = t < COUNT(texts) ? texts[t] : much;
        ppo_config cfg = ppo_config_default();
        change c = {NULL, NULL, NULL, {0}};
        c.key = key, c.text = text;
        if (k < count && ppo_config_set(&cfg, key, text) == PPO_OK) continue; /* a setting after all */
        write_changed(file, &c, 1, 1, "changed");
        assert_refused("changed", 0, 1, key);
        assert_fails(ppo_config_load("changed", &cfg, NULL), PPO_ERROR_FILE, "changed: ");
    }
    ppo_file_free(file);
}

static void action_spaces_that_are_none_are_refused(void **state) {
    (void)state;
    static const char *const texts[] = {"discrete",
                                        "discrete ",
                                        "discrete 0",
                                        "discrete -3",
                                        "discrete 3 ",
                                        "discrete 3,2",
                                        "Discrete 3",
                                        "discrete 2147483648",
                                        "discrete 99999999999999999999",
                                        "box 2",
                                        "box 2 1",
                                        "box 2 1 -1",
                                        "box 2 1 1",
                                        "box 2 nan nan",
                                        "box 2 -1 nan",
                                        "box 0 -1 1",
                                        "box 2 -1 1 1",
                                        "box 2 -1 1x",
                                        "box 2 inf -inf",
                                        "multi-discrete",
                                        "multi-discrete 3,",
                                        "multi-discrete ,3",
                                        "multi-discrete 3,0",
                                        "multi-discrete 3,-2",
                                        "multi-discrete 3 2",
                                        "multi-discrete 2147483647",
                                        "multi-binary 0",
                                        "multi-binary 129",
                                        "multi-binary 2,2",
                                        "text 5"};
    make_bases();
    ppo_file *file = read_file("0");
    char wide[2000] = "multi-discrete 2";
    for (int i = 0; i < PPO_MAX_CHOICES; i++) strcat(wide, ",2"); /* one too many */
    for (int i = 0; i <= COUNT(texts); i++) {
        change c = {NULL, NULL, NULL, {0}};
        c.key = "action_space", c.text = i < COUNT(texts) ? texts[i] : wide;
        write_changed(file, &c, 1, 1, "changed");
        assert_refused("changed", 0, 1, "action_space");
    }
    ppo_file_free(file);
}

/* Counts what is in use, and refuses to let that grow beyond `most`. */
typedef struct meter {
    size_t now, peak, most;
    int refused;
} meter;

static void *meter_hook(void *user, void *ptr, size_t size) {
    enum { HEAD = 16 };
    meter *m = (meter *)user;
    if (size == 0) {
        char *block = ptr ? (char *)ptr - HEAD : NULL;
        if (block) __atomic_fetch_sub(&m->now, *(size_t *)(void *)block, __ATOMIC_SEQ_CST);
        free(block);
        return NULL;
    }
    size_t now = __atomic_add_fetch(&m->now, size, __ATOMIC_SEQ_CST);
    char *block = now <= m->most && !ptr ? (char *)malloc(size + HEAD) : NULL;
    if (!block) {
        m->refused = 1;
        __atomic_fetch_sub(&m->now, size, __ATOMIC_SEQ_CST);
        return NULL;
    }
    *(size_t *)(void *)block = size;
    if (now > m->peak) m->peak = now;
    return block + HEAD;
}

/* Each asks for gigabytes; the file has some hundred kilobytes, so that small claims are no excuse. */
static void a_file_gets_no_more_memory_than_it_has_weights_for(void **state) {
    (void)state;
    static const struct {
        const char *hidden, *observed, *space, *more, *value;
    } claims[] = {
        {"65536,65536,65536", "2", "multi-discrete 3,2", "seed", "1"},
        {"none", "2000000000", "multi-discrete 3,2", "seed", "1"},
        {"none", "2147483647", "discrete 2147483647", "seed", "1"},
        {"none", "30000", "discrete 60000", "seed", "1"},
        {"none", "30000", "box 60000 -1 1", "squash", "yes"},
        {"60000", "1", "discrete 60000", "seed", "1"},
        {"60000", "1", "box 60000 0 1", "gsde", "yes"},
        {"1", "60000", "discrete 2", "recurrent", "20000"},
        {"none", "60000", "discrete 2", "recurrent", "200"},
        {"60000", "1", "discrete 2", "recurrent", "200"},
        {"none", "1", "discrete 60000", "recurrent", "200"},
        {"60000", "1", "multi-discrete 16777215,16777215,16777215", "shared_trunk", "yes"},
        {"2", "2", "multi-discrete 3,2", "num_envs", "65536"},
        {"2", "2", "multi-discrete 3,2", "recurrent", "65536"},
    };
    static float notes[70000];
    make_bases();
    ppo_file *file = read_file("0");
    for (int i = 0; i < COUNT(claims); i++) {
        meter m = {0, 0, 64 << 20, 0};
        const change changes[] = {
            {NULL, "hidden", claims[i].hidden, {0}},
            {NULL, "observation_size", claims[i].observed, {0}},
            {NULL, "action_space", claims[i].space, {0}},
            {NULL, claims[i].more, claims[i].value, {0}},
            {NULL, NULL, NULL, {"notes", PPO_F32, 1, {COUNT(notes)}, sizeof notes, notes}}};
        ppo_agent *agent = NULL;
        ppo_trainer *trainer = NULL;
        ppo_env env = base_env(0);
        write_changed(file, changes, COUNT(changes), 1, "changed");
        ppo_set_allocator(meter_hook, &m);
        if (strcmp(claims[i].more, "num_envs") != 0)
            assert_fails(ppo_agent_load("changed", NULL, &agent), PPO_ERROR_FILE, "changed: ");
        assert_fails(ppo_trainer_resume("changed", &env, NULL, &agent, &trainer), PPO_ERROR_FILE,
                     "changed: ");
        ppo_set_allocator(NULL, NULL);
        assert_int_equal(m.now, 0);
        if (m.peak > 2000000) fail_msg("claim %d was given %zu bytes", i, m.peak);
    }
    ppo_file_free(file);
}

/* Rollouts are not in the file, so their memory is what the settings say: of a file alone, or of a caller. */
static void a_checkpoint_that_asks_for_endless_rollouts_is_refused_without_memory(void **state) {
    (void)state;
    static const char *const claims[][2] = {{"16777216", "0"}, {"16777216", "10"}, {"3000000", "5999999"}};
    make_bases();
    ppo_file *file = read_file("0");
    for (int i = 0; i < COUNT(claims); i++) {
        meter m = {0, 0, 64 << 20, 0};
        const change c[] = {{NULL, "rollout_steps", claims[i][0], {0}},
                            {NULL, "minibatch_size", claims[i][1], {0}}};
        ppo_env env = base_env(0);
        ppo_config cfg;
        run back = {NULL, NULL};
        write_changed(file, c, COUNT(c), 1, "changed");
        ppo_set_allocator(meter_hook, &m);
        assert_fails(ppo_trainer_resume("changed", &env, NULL, &back.agent, &back.trainer), PPO_ERROR_FILE,
                     "changed: |ask for|bytes|configuration");
        assert_true(!back.agent && !back.trainer && m.now == 0);
        assert_in_range(m.peak, 1, 2000000);
        assert_ok(ppo_config_load("changed", &cfg, NULL));
        assert_fails(ppo_trainer_resume("changed", &env, &cfg, &back.agent, &back.trainer), PPO_ERROR_MEMORY,
                     "memory");
        ppo_set_allocator(NULL, NULL);
        assert_true(!back.agent && !back.trainer && m.now == 0);
    }
    ppo_file_free(file);
}

/* A caller who gives the settings has chosen them; and a large file may ask for more than a small one. */
static void a_run_with_long_rollouts_is_resumed(void **state) {
    (void)state;
    make_bases();
    ppo_file *file = read_file("0");
    static float notes[1 << 18];
    const change long_ones = {NULL, "rollout_steps", "2000000", {0}};
    const change large[] = {{NULL, "rollout_steps", "2000000", {0}},
                            {NULL, NULL, NULL, {"notes", PPO_F32, 1, {COUNT(notes)}, sizeof notes, notes}}};
    ppo_env env = base_env(0);
    ppo_config cfg;
    run back = {NULL, NULL};
    write_changed(file, &long_ones, 1, 1, "long");
    assert_fails(ppo_trainer_resume("long", &env, NULL, &back.agent, &back.trainer), PPO_ERROR_FILE,
                 "long: |ask for|bytes|configuration");
    assert_ok(ppo_config_load("long", &cfg, NULL));
    back = resume("long", &env, &cfg);
    assert_int_equal(back.trainer->config.rollout_steps, 2000000);
    end(&back);
    write_changed(file, large, COUNT(large), 1, "large");
    back = resume("large", &env, NULL);
    assert_int_equal(back.trainer->config.rollout_steps, 2000000);
    end(&back);
    ppo_file_free(file);
}

/* What is compared with the size of the file is about what a trainer takes in its first iteration. */
static void the_memory_of_a_trainer_is_known_before_it_is_made(void **state) {
    (void)state;
    const char *const more[] = {
        "",
        SMALL("minibatch_size=10000 hidden=64,64", "minibatch_size=2000 hidden=64,64"),
        "minibatch_size=0 hidden=64,64",
        "minibatch_size=0 hidden=64,64 threads=2",
        "minibatch_size=0 hidden=300,300",
        "minibatch_size=0 shared_trunk=yes",
        "recurrent=16 sequence_steps=1000",
        "recurrent=8 sequence_steps=10 minibatch_size=0",
        SMALL("hidden=200 num_envs=1000 rollout_steps=5 total_steps=5000",
              "hidden=200 num_envs=300 rollout_steps=5 total_steps=1500")};
    const char *const base = SMALL("rollout_steps=5000 total_steps=20000 minibatch_size=100 epochs=1",
                                   "rollout_steps=500 total_steps=2000 minibatch_size=100 epochs=1");
    for (int i = 0; i < COUNT(more) * 2; i += SMALL(1, i % 2 ? 1 : 3)) { /* with both environments, or one */
        ppo_env env = i % 2 ? choices_env() : reach_env();
        ppo_config cfg = settings(base);
        meter m = {0, 0, (size_t)1 << 30, 0};
        assert_ok(ppo_config_set_all(&cfg, more[i / 2]));
        ppo_set_allocator(meter_hook, &m);
        run r = begin(&env, &cfg);
        assert_ok(ppo_trainer_iterate(r.trainer, NULL));
        double bytes = ppo__trainer_bytes(&env, r.agent, &cfg);
        if (bytes < 0.4 * (double)m.peak || bytes > 2.5 * (double)m.peak)
            fail_msg("%s: %.0f bytes, not %zu", more[i / 2], bytes, m.peak);
        end(&r);
        ppo_set_allocator(NULL, NULL);
    }
}

/* Results do not depend on threads, so a file from a larger machine, or from nowhere, starts no more than help. */
static void a_file_starts_no_more_threads_than_there_are_processors(void **state) {
    (void)state;
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const change c = {NULL, "threads", "1024", {0}};
    ppo_env env = base_env(0);
    ppo_config cfg;
    make_bases();
    ppo_file *file = read_file("0");
    write_changed(file, &c, 1, 1, "changed");
    run back = resume("changed", &env, NULL);
    assert_in_range(back.trainer->config.threads, 1, processors);
    assert_in_range(back.agent->config.threads, 1, processors);
    end(&back);
    assert_ok(ppo_config_load("changed", &cfg, NULL));
    assert_in_range(cfg.threads, 1, processors);
    cfg.threads = (int)processors + 2; /* the caller's own number counts */
    back = resume("changed", &env, &cfg);
    assert_int_equal(back.trainer->config.threads, processors + 2);
    end(&back);
    ppo_file_free(file);
}

/* --- Anything ------------------------------------------------------------------------------------------- */

enum { DATA = 1 << 13 };

static const char *any_text(ppo_rng *rng) { return odd_texts[ppo_rng_below(rng, COUNT(odd_texts))]; }

static double any_number(ppo_rng *rng) {
    static const double numbers[] = {0,          1,
                                     -1,         2,
                                     3,          4,
                                     5,          9,
                                     10,         255,
                                     0.5,        1e-45,
                                     1e-300,     3e38,
                                     -3e38,      1e300,
                                     NAN,        NAN,
                                     1e10,       9.2e18,
                                     -9.2e18,    4294967295.0,
                                     2147483647, -2147483648.0,
                                     INFINITY,   -INFINITY};
    return ppo_rng_below(rng, 4) ? numbers[ppo_rng_below(rng, COUNT(numbers))] : (double)ppo_rng_normal(rng);
}

/* The array, or one of its name: other numbers, another type, another shape. data: [DATA] bytes. */
static ppo_array any_array(ppo_rng *rng, const ppo_array *old, void *data) {
    static const int sizes[] = {1, 1, 2, 2, 4, 4, 4, 8, 8, 8};
    ppo_array array = *old;
    memset(data, 0, DATA);
    memcpy(data, old->data, old->bytes);
    array.data = data;
    size_t count = old->bytes / (size_t)sizes[old->type];
    switch (ppo_rng_below(rng, 6)) {
    case 0:
        array.type = ppo_rng_below(rng, COUNT(sizes));
        break;
    case 1:
        if (array.rank) array.shape[ppo_rng_below(rng, array.rank)] = ppo_rng_below(rng, 10);
        break;
    case 2:
        array.rank = ppo_rng_below(rng, 4);
        for (int k = old->rank; k < array.rank; k++) array.shape[k] = 1 + ppo_rng_below(rng, 2);
        break;
    case 3:
        for (size_t i = 0; i < old->bytes; i++) ((unsigned char *)data)[i] = (unsigned char)ppo_rng_u32(rng);
        break;
    default:
        for (int n = 1 + ppo_rng_below(rng, 3); n > 0 && count; n--) {
            double number = any_number(rng);
            poke(data, array.type, (size_t)ppo_rng_below(rng, (int)count), number);
        }
    }
    int64_t bytes = sizes[array.type];
    for (int k = 0; k < array.rank; k++) bytes *= array.shape[k];
    if (bytes > DATA) array.shape[0] = 0;
    return array;
}

static change any_change(ppo_rng *rng, const ppo_file *file, void *data) {
    const ppo_array *array = ppo_file_at(file, ppo_rng_below(rng, ppo_file_count(file)));
    const char *key = ppo_file_key_at(file, ppo_rng_below(rng, ppo__file_text_count(file)));
    change c = {NULL, NULL, NULL, {0}};
    int what = ppo_rng_below(rng, 20);
    if (what == 0) c.without = key;
    else if (what == 1) c.without = array->name;
    else if (what < 9) c.key = key, c.text = any_text(rng);
    else c.array = any_array(rng, array, data);
    return c;
}

/* Bytes that change, vanish or come in, wherever they are. */
static void put_damaged(ppo_rng *rng, const char *from, const char *path) {
    static unsigned char whole[1 << 16];
    FILE *in = fopen(from, "rb"), *out = fopen(path, "wb");
    int n = (int)fread(whole, 1, sizeof whole - 64, in);
    for (int k = 1 + ppo_rng_below(rng, 3); k > 0; k--) {
        int at = ppo_rng_below(rng, n), size = ppo_rng_below(rng, 16);
        switch (ppo_rng_below(rng, 12)) {
        case 0:
            n = at;
            k = 0;
            break;
        case 1:
            memmove(whole + at + size, whole + at, (size_t)(n - at));
            n += size;
            k = 0;
            break;
        case 2:
        case 3:
        case 4:
            whole[at] = (unsigned char)ppo_rng_u32(rng);
            break;
        case 5: /* a digit of the header */
            while (at < n && (whole[at] < '0' || whole[at] > '9')) at++;
            if (at < n) whole[at] = (unsigned char)('0' + ppo_rng_below(rng, 10));
            break;
        default:
            whole[at] ^= (unsigned char)(1 << ppo_rng_below(rng, 8));
        }
    }
    fwrite(whole, 1, (size_t)n, out);
    fclose(in);
    fclose(out);
}

static long hostile_file; /* which one it is */

/* Refused by the file's name, or for want of memory that the meter refused. */
static void assert_refused_well(ppo_status status, const meter *m) {
    if (status == PPO_ERROR_FILE && strncmp(ppo_last_error(), "hostile: ", 9) == 0) return;
    if (status == PPO_ERROR_MEMORY && m->refused) return;
    fail_msg("file %ld, status %d: \"%s\"", hostile_file, status, ppo_last_error());
}

/* All that can be done with a file. Counts how far it came: settings, policy, checkpoint, iteration. */
static void use_hostile(ppo_rng *rng, const ppo_env *env, const meter *m, long came[4]) {
    ppo_config cfg;
    char name[64];
    run r = {NULL, NULL};
    ppo_fail(PPO_OK, "(no sentence)");
    ppo_status status = ppo_config_load("hostile", &cfg, name);
    if (status) assert_refused_well(status, m);
    else came[0]++;
    status = ppo_agent_load("hostile", ppo_rng_below(rng, 2) ? env : NULL, &r.agent);
    if (status) {
        assert_refused_well(status, m);
        assert_null(r.agent);
    } else {
        float *obs = (float *)calloc((size_t)r.agent->model.obs_size, sizeof *obs);
        ppo_action action;
        came[1]++;
        ppo_act(r.agent, obs, rng, &action);
        ppo_act(r.agent, obs, NULL, &action);
        ppo_evaluate(r.agent, env, 2, 1);
        if (ppo_rng_below(rng, 8) == 0) assert_ok(ppo_agent_save(r.agent, "again"));
        ppo_agent_free(r.agent);
        free(obs);
    }
    status = ppo_trainer_resume("hostile", env, NULL, &r.agent, &r.trainer);
    if (status) {
        assert_refused_well(status, m);
        assert_true(!r.agent && !r.trainer);
        return;
    }
    came[2]++;
    const ppo_config *own = &r.trainer->config;
    for (int i = 0; i < 3 && !status; i++) { /* unless it would take long, as it may */
        if ((double)own->num_envs * own->rollout_steps * own->epochs > 1000) break;
        if (ppo_trainer_done(r.trainer)) break;
        status = ppo_trainer_iterate(r.trainer, NULL);
        came[3] += i == 0 && !status;
    }
    if (ppo_rng_below(rng, 8) == 0) { /* what training has blown up meanwhile is no file */
        ppo_status saved = ppo_trainer_save(r.trainer, "again");
        assert_true(saved == PPO_OK || saved == PPO_ERROR_NUMERIC);
    }
    end(&r);
}

static void hostile_files_are_refused_or_used_without_harm(void **state) {
    (void)state;
    const char *count = getenv("PPO_FUZZ");
    long files = count ? atol(count) : 1500, came[4] = {0, 0, 0, 0};
    ppo_rng rng = test_rng(6);
    double slowest = 0, began = ppo_clock();
    size_t peak = 0;
    ppo_file *file[COUNT(bases)];
    make_bases();
    for (int b = 0; b < COUNT(bases); b++) {
        char path[8];
        snprintf(path, sizeof path, "%d", b);
        file[b] = read_file(path);
    }
    vaults_opened = vaults_closed = 0;
    for (hostile_file = 0; hostile_file < files; hostile_file++) {
        static double data[3][DATA / sizeof(double)];
        int b = ppo_rng_below(&rng, COUNT(bases)), n = 1 + ppo_rng_below(&rng, 3);
        change changes[3];
        meter m = {0, 0, 64 << 20, 0};
        const ppo_env env = base_env(b);
        char path[8];
        snprintf(path, sizeof path, "%d", b);
        if (ppo_rng_below(&rng, 3) == 0) {
            ppo_file *damaged = NULL;
            put_damaged(&rng, path, "hostile");
            if (ppo_rng_below(&rng, 2) && ppo_file_read("hostile", &damaged) == PPO_OK) {
                write_changed(damaged, NULL, 0, 1, "hostile");
                ppo_file_free(damaged);
            }
        } else {
            for (int k = 0; k < n; k++) changes[k] = any_change(&rng, file[b], data[k]);
            write_changed(file[b], changes, n, ppo_rng_below(&rng, 16) != 0, "hostile");
        }
        double start = ppo_clock();
        ppo_set_allocator(meter_hook, &m);
        alarm(60);
        use_hostile(&rng, &env, &m, came);
        alarm(0);
        ppo_set_allocator(NULL, NULL);
        assert_int_equal(m.now, 0);
        if (ppo_clock() - start > slowest) slowest = ppo_clock() - start;
        if (m.peak > peak) peak = m.peak;
    }
    for (int b = 0; b < COUNT(bases); b++) ppo_file_free(file[b]);
    assert_int_equal(vaults_opened, vaults_closed);
    print_message("# of %ld hostile files %ld had settings, %ld a policy, %ld were resumed, %ld iterated\n",
                  files, came[0], came[1], came[2], came[3]);
    print_message("# %.0f s, the slowest took %.3f s, at most %.1f MB\n", ppo_clock() - began, slowest,
                  (double)peak / 1e6);
    if (files >= 1000) { /* or they are of no use */
        assert_in_range(came[1], files / 20, files * 4 / 5);
        assert_in_range(came[2], files / 20, files / 2);
        assert_true(came[3] > files / 40);
    }
}

#define TEST(function) cmocka_unit_test_teardown(function, clean_up)

int main(void) {
    static const struct CMUnitTest plain[] = {
        TEST(saving_changes_nothing_and_so_do_threads),
        TEST(a_run_that_is_resumed_after_every_iteration_ends_with_the_same_bits),
        TEST(episodes_of_long_ago_are_remembered_as_long_as_they_count),
        TEST(the_seconds_continue_where_they_were),
#ifndef PPO_TEST_TSAN /* these have one thread */
        TEST(a_checkpoint_is_the_same_whatever_memory_held_before),
#endif
        TEST(after_a_failed_iteration_a_run_can_be_saved_and_resumed),
        TEST(a_failure_is_told_with_the_step_of_the_whole_run),
        TEST(what_was_opened_is_closed),
        TEST(an_environment_that_does_not_repeat_itself_is_refused),
        TEST(an_environment_with_open_needs_a_time_limit_to_be_saved_not_to_be_trained),
        TEST(episodes_are_played_again_from_their_first_step_to_their_last),
        TEST(a_state_of_another_size_is_refused),
        TEST(more_steps_and_another_learning_rate_take_effect),
        TEST(another_kl_coef_takes_effect_and_the_same_one_goes_on_adapting),
        TEST(rollouts_of_another_length_are_no_obstacle),
        TEST(a_checkpoint_of_another_environment_is_refused_by_both_names),
        TEST(settings_that_cannot_change_during_a_run_are_refused_by_name),
        TEST(a_checkpoint_has_the_name_of_the_environment_that_the_agent_is_trained_on),
        TEST(a_schedule_of_ones_own_must_be_given_again),
#ifndef PPO_TEST_TSAN /* these have one thread */
        TEST(a_policy_is_loaded_as_it_was_saved),
        TEST(a_checkpoint_is_a_policy_as_well),
        TEST(a_policy_is_no_checkpoint),
        TEST(policies_of_every_shape_are_loaded),
        TEST(spaces_of_every_kind_come_back),
        TEST(an_environment_that_does_not_fit_is_refused_with_the_difference),
        TEST(names_of_environments_come_back),
        TEST(all_settings_come_back),
        TEST(a_file_does_not_depend_on_the_locale),
        TEST(a_loaded_policy_is_trained_further),
        TEST(a_warm_start_with_the_settings_of_another_network_is_refused_by_name),
        TEST(weights_that_are_not_finite_do_not_replace_a_good_file),
        TEST(a_policy_is_not_loaded_from_a_damaged_checkpoint),
        TEST(a_checkpoint_has_the_settings_of_its_own_trainer),
        TEST(null_is_refused),
        TEST(every_failing_allocation_is_reported_and_leaks_nothing),
        TEST(a_failing_allocation_leaves_the_old_checkpoint),
        TEST(a_failing_write_leaves_the_old_file_and_no_other),
        TEST(what_is_no_file_of_ours_is_told),
        TEST(unknown_texts_and_arrays_are_ignored_and_missing_settings_have_their_defaults),
        TEST(a_checkpoint_with_settings_that_have_no_effect_is_resumed),
        TEST(a_checkpoint_with_a_wrong_byte_is_refused),
        TEST(a_world_with_fewer_copies_does_not_resume),
        TEST(every_array_must_be_there_with_its_type_and_shape),
        TEST(numbers_that_no_training_leaves_are_refused),
        TEST(played_numbers_outside_the_box_are_refused),
        TEST(numbers_that_no_training_of_several_agents_leaves_are_refused),
        TEST(an_episode_of_more_actions_than_the_file_has_is_refused),
        TEST(open_steps_without_what_a_rollout_keeps_now_begin_anew),
        TEST(an_episode_that_is_over_is_not_continued),
        TEST(settings_that_are_none_are_refused_by_name),
        TEST(action_spaces_that_are_none_are_refused),
        TEST(a_file_gets_no_more_memory_than_it_has_weights_for),
        TEST(a_checkpoint_that_asks_for_endless_rollouts_is_refused_without_memory),
        TEST(a_run_with_long_rollouts_is_resumed),
        TEST(the_memory_of_a_trainer_is_known_before_it_is_made),
        TEST(a_file_starts_no_more_threads_than_there_are_processors),
        TEST(hostile_files_are_refused_or_used_without_harm),
#endif
    };
    static char names[COUNT(kinds)][100];
    static struct CMUnitTest tests[COUNT(kinds) + COUNT(plain)];
    for (int k = 0; k < COUNT(kinds); k++) {
        snprintf(names[k], sizeof names[k], "a_resumed_run_ends_with_the_same_bits (%s)", kinds[k].name);
        tests[k].name = names[k];
        tests[k].test_func = a_resumed_run_ends_with_the_same_bits;
        tests[k].teardown_func = clean_up;
        tests[k].initial_state = (void *)(uintptr_t)&kinds[k];
    }
    memcpy(tests + COUNT(kinds), plain, sizeof plain);
    return cmocka_run_group_tests_name("checkpoints", tests, enter_folder, leave_folder);
}
