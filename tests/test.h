/* Shared by the test programs: an allocator that counts and fails, comparisons that print what differs, random
   data, and small environments. A program tests one section of ppo.h, and includes ppo.h first. */
#ifndef PPO_TEST_H
#define PPO_TEST_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <limits.h>
#ifdef __GLIBC__
#include <execinfo.h>
#endif
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../examples/companions/ppo_check.h"
#include "../examples/companions/ppo_resume.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* A size or a number of rounds: programs with a sanitizer are some ten times slower and use the small one, but in
   make test-long. What it leaves out is tested by the plain program. */
#ifdef PPO_TEST_SMALL
#define SMALL(full, small) (getenv("PPO_TEST_FULL") ? (full) : (small))
#else
#define SMALL(full, small) (full)
#endif

/* Test programs that are compiled together, see private.c: runs the one after which the program is called. */
typedef struct test_program {
    const char *name;
    int (*run)(void);
} test_program;

static inline int run_program(const test_program *programs, int count, const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (int i = 0; i < count; i++)
        if (strcmp(name, programs[i].name) == 0) return programs[i].run();
    fprintf(stderr, "%s is not among the programs that are compiled together\n", name);
    return 1;
}

/* --------------------------------------------------------------------------------------------------------
   Comparisons
   -------------------------------------------------------------------------------------------------------- */

/* |got - want| <= tolerance * scale; infinities must be equal, and NaN is close to nothing. */
static inline int is_close(double got, double want, double tolerance, double scale) {
    return got == want || fabs(got - want) <= tolerance * scale;
}

static inline void check_close(double got, double want, double tolerance, const char *what, const char *file,
                               int line) {
    if (is_close(got, want, tolerance, want != 0 ? fabs(want) : 1)) return;
    print_error("%s is %.9g, not %.9g (off by %.2g, tolerance %.2g)\n", what, got, want, fabs(got - want),
                tolerance);
    _fail(file, line);
}

/* The tolerance is relative to the largest expected element. */
static inline void check_close_array(const float *got, const float *want, int n, double tolerance,
                                     const char *what, const char *file, int line) {
    double scale = 0;
    for (int i = 0; i < n; i++)
        if (isfinite(want[i])) scale = fmax(scale, fabs((double)want[i]));
    for (int i = 0; i < n; i++) {
        if (is_close(got[i], want[i], tolerance, scale > 0 ? scale : 1)) continue;
        print_error("%s[%d] of %d is %.9g, not %.9g (off by %.2g, tolerance %.2g)\n", what, i, n,
                    (double)got[i], (double)want[i], fabs((double)got[i] - (double)want[i]),
                    tolerance * scale);
        _fail(file, line);
    }
}

/* The tolerance is relative to each expected element, or to 1 where that is larger. */
static inline void check_close_each(const float *got, const float *want, int n, double tolerance,
                                    const char *what, const char *file, int line) {
    for (int i = 0; i < n; i++) {
        if (is_close(got[i], want[i], tolerance, fmax(1, fabs((double)want[i])))) continue;
        print_error("%s[%d] of %d is %.9g, not %.9g (off by %.2g)\n", what, i, n, (double)got[i],
                    (double)want[i], fabs((double)got[i] - (double)want[i]));
        _fail(file, line);
    }
}

/* The call failed with this status, and its sentence contains each of the words, given as "token|7". */
static inline void check_fails(ppo_status got, ppo_status want, const char *words, const char *call,
                               const char *file, int line) {
    if (got != want) {
        print_error("%s returned %d, not %d: %s\n", call, got, want, ppo_last_error());
        _fail(file, line);
    }
    char copy[256];
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok(copy, "|"); word; word = strtok(NULL, "|")) {
        if (strstr(ppo_last_error(), word)) continue;
        print_error("%s failed with the right status, but \"%s\" does not name \"%s\"\n", call,
                    ppo_last_error(), word);
        _fail(file, line);
    }
}

#define assert_close(got, want, tolerance) check_close(got, want, tolerance, #got, __FILE__, __LINE__)
#define assert_close_array(got, want, n, tolerance) \
    check_close_array(got, want, n, tolerance, #got, __FILE__, __LINE__)
#define assert_close_each(got, want, n, tolerance) \
    check_close_each(got, want, n, tolerance, #got, __FILE__, __LINE__)
/* Overwrites the sentence of an earlier failure first. */
#define assert_fails(call, status, words) \
    (ppo_fail(PPO_OK, "(no sentence)"), check_fails(call, status, words, #call, __FILE__, __LINE__))
#define assert_ok(call) check_ok(call, #call, __FILE__, __LINE__)
#define assert_nan(x)   assert_true(isnan(x))

static inline void check_ok(ppo_status status, const char *call, const char *file, int line) {
    if (status == PPO_OK) return;
    print_error("%s returned %d: %s\n", call, status, ppo_last_error());
    _fail(file, line);
}

/* --------------------------------------------------------------------------------------------------------
   Memory
   -------------------------------------------------------------------------------------------------------- */

typedef struct heap {
    long live;    /* blocks not freed yet */
    long calls;   /* allocations and reallocations asked for */
    long fail_at; /* the one that fails, counted from 0; -1: none */
    int for_good; /* and all after it */
} heap;

static inline void *heap_hook(void *user, void *ptr, size_t size) {
    heap *h = (heap *)user;
    if (size == 0) {
        if (ptr) __atomic_fetch_sub(&h->live, 1, __ATOMIC_SEQ_CST);
        free(ptr);
        return NULL;
    }
    long call = __atomic_fetch_add(&h->calls, 1, __ATOMIC_SEQ_CST);
    if (h->fail_at >= 0 && (call == h->fail_at || (h->for_good && call > h->fail_at))) return NULL;
    void *block = realloc(ptr, size);
    if (!ptr && block) __atomic_fetch_add(&h->live, 1, __ATOMIC_SEQ_CST);
    return block;
}

/* A cmocka teardown: a test that failed leaves no hook for the next. */
static inline int restore_allocator(void **state) {
    (void)state;
    ppo_set_allocator(NULL, NULL);
    return 0;
}

/* Where allocations are asked for: a hash of the calls that lead to each. */
enum { MOST_ALLOCATIONS = 1 << 16 };
typedef struct sites {
    heap h; /* the hook's user pointer is one to a heap */
    long count;
    uint64_t from[MOST_ALLOCATIONS];
} sites;

static inline void *sites_hook(void *user, void *ptr, size_t size) {
    sites *s = (sites *)user;
    const long call = size ? __atomic_fetch_add(&s->count, 1, __ATOMIC_SEQ_CST) : (long)MOST_ALLOCATIONS;
    if (call < MOST_ALLOCATIONS) {
        s->from[call] = (uint64_t)call + 1; /* each is a site of its own where the system does not tell */
#if defined(PPO_TEST_FRAMES) /* tcc, in mutants.py, leaves frame pointers, but no tables to unwind by */
        void **frame = (void **)__builtin_frame_address(0);
        s->from[call] = 1;
        for (char *up = (char *)frame; up >= (char *)frame && up - (char *)frame < 1 << 20;
             up = (char *)*frame) {
            frame = (void **)up;
            s->from[call] = (s->from[call] ^ (uint64_t)(uintptr_t)frame[1]) * 0x9e3779b97f4a7c15u;
            if ((char *)*frame == up) break;
        }
#elif defined(__GLIBC__)
        void *frame[64];
        const int n = backtrace(frame, COUNT(frame));
        s->from[call] = 1;
        for (int i = 1; i < n; i++)
            s->from[call] = (s->from[call] ^ (uint64_t)(uintptr_t)frame[i]) * 0x9e3779b97f4a7c15u;
#endif
    }
    return heap_hook(user, ptr, size);
}

/* Each array of an arena is an allocation of its own: where the library is tests/private.c. */
static inline void set_fine_pages(int on) {
#if defined(PPO_TEST_PAGES_H)
    test_page_size = on ? 1 : 16 * 1024;
#elif defined(__GLIBC__)
    extern size_t test_page_size __attribute__((weak));
    if (&test_page_size) test_page_size = on ? 1 : 16 * 1024;
#else
    (void)on;
#endif
}

/* Allocation k of the job fails, and with for_good all after it: that must be reported as such, and leave no block. spare:
   the job may have needed none of them, as the reset of an arena does not. */
static inline void fail_allocation(ppo_status (*run)(void *user), void *user, long k, int for_good,
                                   int spare) {
    heap h = {0, 0, k, for_good};
    ppo_set_allocator(heap_hook, &h);
    ppo_fail(PPO_OK, "(no sentence)");
    ppo_status status = run(user);
    ppo_set_allocator(NULL, NULL);
    if (h.live != 0) fail_msg("%ld blocks are left after allocation %ld failed", h.live, k);
    if (status == PPO_OK && (!for_good || spare || h.calls <= k)) return;
    if (status != PPO_ERROR_MEMORY)
        fail_msg("status %d after allocation %ld failed: %s", status, k, ppo_last_error());
    if (!strstr(ppo_last_error(), "memory")) fail_msg("\"%s\" does not speak of memory", ppo_last_error());
}

/* run() does a job, frees all it made, and returns the job's status. Of the allocations that are asked for at the same
   place, the first fails: once alone, which the job may get over by asking again, and once with all that follow (under
   a sanitizer in one of these ways). `fine`: of all the arrays in an arena, too. Returns how many the job makes. */
static inline long fail_each_site(ppo_status (*run)(void *user), void *user, int fine) {
    static sites s;
    long calls = 0;
    int failed = 0;
    for (int pass = 0; pass < 3; pass++) { /* the second shows what a run asks for that is not the first */
        memset(&s, 0, sizeof s);
        s.h.fail_at = -1;
        set_fine_pages(fine && pass == 2);
        ppo_set_allocator(sites_hook, &s);
        ppo_status status = run(user);
        ppo_set_allocator(NULL, NULL);
        if (status) fail_msg("without a failing allocation: %s", ppo_last_error());
        if (s.h.live) fail_msg("%ld blocks are left", s.h.live);
        if (pass < 2) calls = s.h.calls;
    }
    for (long k = 0; k < s.count && k < MOST_ALLOCATIONS; k++) {
        long first = 0;
        while (s.from[first] != s.from[k]) first++;
        if (first < k) continue;
        for (int for_good = 0; for_good < 2; for_good++)
            if (SMALL(1, for_good == failed % 2)) fail_allocation(run, user, k, for_good, fine);
        failed++;
    }
    set_fine_pages(0);
    return calls;
}

static inline long fail_each_allocation(ppo_status (*run)(void *user), void *user) {
    return fail_each_site(run, user,
                          getenv("PPO_TEST_FINE") || getenv("PPO_TEST_FULL")); /* which takes its time */
}

/* --------------------------------------------------------------------------------------------------------
   Data
   -------------------------------------------------------------------------------------------------------- */

#ifndef PPO_NO_CONTROL
/* Policy and value of (rows, obs_size) observations. */
static inline ppo_outputs ask(ppo_tape *tape, const ppo_actor_critic *model, const float *obs, int rows) {
    ppo_inputs inputs = {0};
    inputs.rows = rows;
    inputs.obs = obs;
    return ppo_actor_critic_forward(tape, model, &inputs, PPO_POLICY | PPO_VALUE);
}
#endif

/* Attention of `heads` heads, each with keys and values of its own. */
#ifndef PPO_NO_LANGUAGE
static inline ppo_tensor *attend(ppo_tape *tape, ppo_tensor *qkv, int heads, const int *start, int count) {
    const ppo_attention how = {heads, 0, 0, 0};
    return ppo_tape_attention(tape, qkv, &how, start, count);
}
#endif

static inline ppo_rng test_rng(uint32_t index) { return ppo_rng_stream(20170720, PPO_STREAM_USER, index); }

static inline void fill_normal(ppo_rng *rng, float *x, int n, float scale) {
    for (int i = 0; i < n; i++) x[i] = scale * ppo_rng_normal(rng);
}

/* 0 where two arrays have the same bits */
static inline int bits_differ(const float *a, const float *b, size_t n) {
    return memcmp(a, b, n * sizeof *a) != 0;
}

/* The kernel sets, with the floats of a vector; those which this processor lacks are skipped. */
static const struct kernel_set {
    const char *name;
    int lanes;
} kernel_sets[] = {{"plain", 1}, {"vector16", 4}, {"avx2", 8}, {"avx512", 16},
                   {"neon", 4},  {"fma", 4},      {"amx", 16}};
#define FOR_EACH_KERNEL_SET(k)                       \
    for (int k = 0; k < COUNT(kernel_sets) + 1; k++) \
        if (k == COUNT(kernel_sets)) {               \
            assert_ok(ppo_use_kernels(NULL));        \
        } else if (ppo_use_kernels(kernel_sets[k].name) == PPO_OK)
/* For tests of what is built on kernels, each of which has tests of its own: under a sanitizer, every second set; with
   ThreadSanitizer, to which they are all the same, the first. */
#ifdef PPO_TEST_TSAN
#define FOR_KERNEL_SETS(k) FOR_EACH_KERNEL_SET(k) if (k == 0)
#else
#define FOR_KERNEL_SETS(k) FOR_EACH_KERNEL_SET(k) if (SMALL(1, k % 2 == 0))
#endif

#ifndef PPO_NO_CONTROL
/* --------------------------------------------------------------------------------------------------------
   Environments
   -------------------------------------------------------------------------------------------------------- */

/* Which copy this is: the stream that the library hands out is indexed by environment. */
static inline int env_index(const ppo_rng *rng) { return (int)rng->counter[2]; }

/* A random walk between -5 and 5 that the agent pushes; leaving at the right end pays. An episode is
   terminated at an end, or truncated by max_steps. */
typedef struct walk {
    int x;
} walk;

static inline void walk_reset(void *state, ppo_rng *rng, float *obs) {
    walk *w = (walk *)state;
    w->x = ppo_rng_below(rng, 5) - 2;
    obs[0] = 0.2f * (float)w->x;
    obs[1] = 1;
}

static inline void walk_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                             ppo_outcome *out) {
    walk *w = (walk *)state;
    int way = ppo_rng_uniform(rng) < 0.2f ? ppo_rng_below(rng, 3) : action->discrete;
    w->x += way - 1;
    obs[0] = 0.2f * (float)w->x;
    obs[1] = ppo_rng_uniform(rng);
    out->reward = w->x == 5 ? 1.0f : -0.01f;
    out->terminated = w->x == 5 || w->x == -5;
}

static inline ppo_env walk_env(void) {
    ppo_env env = {0};
    env.name = "walk";
    env.obs_size = 2;
    env.action_space = ppo_discrete(3);
    env.state_size = sizeof(walk);
    env.max_steps = 20;
    env.reset = walk_reset;
    env.step = walk_step;
    return env;
}

/* A point on a line (first coordinate of the action; the second only costs) that must be brought to 0. Never
   terminated. */
typedef struct reach {
    float x;
} reach;

static inline void reach_reset(void *state, ppo_rng *rng, float *obs) {
    reach *r = (reach *)state;
    r->x = ppo_rng_range(rng, -1, 1);
    obs[0] = r->x;
}

static inline void reach_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                              ppo_outcome *out) {
    reach *r = (reach *)state;
    r->x += 0.5f * action->box[0] + 0.01f * ppo_rng_normal(rng);
    obs[0] = r->x;
    out->reward = -r->x * r->x - 0.1f * action->box[1] * action->box[1];
}

static inline ppo_env reach_env(void) {
    ppo_env env = {0};
    env.name = "reach";
    env.obs_size = 1;
    env.action_space = ppo_box(2, -1, 1);
    env.state_size = sizeof(reach);
    env.max_steps = 10;
    env.reset = reach_reset;
    env.step = reach_step;
    return env;
}

/* The walk with masks: at the ends the step off them is illegal, and every other place may not be kept, so
   that an episode ends by max_steps alone. Illegal actions are counted. */
static int illegal_actions;

static inline void fenced_mask(const void *state, unsigned char *mask) {
    const walk *w = (const walk *)state;
    if (w->x <= -4) mask[0] = 0;
    if (w->x >= 4) mask[2] = 0;
    if (w->x % 2) mask[1] = 0;
}

static inline void fenced_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                               ppo_outcome *out) {
    walk *w = (walk *)state;
    unsigned char mask[3] = {1, 1, 1};
    fenced_mask(state, mask);
    if (!mask[action->discrete]) __atomic_fetch_add(&illegal_actions, 1, __ATOMIC_SEQ_CST);
    w->x += action->discrete - 1;
    obs[0] = 0.2f * (float)w->x;
    obs[1] = ppo_rng_uniform(rng);
    out->reward = 0.1f * (float)w->x;
}

static inline ppo_env fenced_env(void) {
    ppo_env env = walk_env();
    env.name = "fenced";
    env.max_steps = 13;
    env.step = fenced_step;
    env.action_mask = fenced_mask;
    return env;
}

/* Three dials of 3, 2 and 4 positions: the observation says where each should stand (-1 to 1), the reward is
   the share that does. One position of the first and of the last dial, never the right one, is illegal. */
enum { DIALS = 3 };
static const int dial_sizes[DIALS] = {3, 2, 4};
typedef struct dials {
    int want[DIALS];
} dials;

static inline void dials_show(dials *d, ppo_rng *rng, float *obs) {
    for (int j = 0; j < DIALS; j++) {
        d->want[j] = ppo_rng_below(rng, dial_sizes[j]);
        obs[j] = 2 * (float)d->want[j] / (float)(dial_sizes[j] - 1) - 1;
    }
}

static inline void dials_reset(void *state, ppo_rng *rng, float *obs) {
    dials_show((dials *)state, rng, obs);
}

static inline void dials_mask(const void *state, unsigned char *mask) {
    const dials *d = (const dials *)state;
    mask[(d->want[0] + 1) % 3] = 0;
    mask[5 + (d->want[2] + 2) % 4] = 0;
}

static inline void dials_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                              ppo_outcome *out) {
    dials *d = (dials *)state;
    unsigned char mask[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    dials_mask(state, mask);
    if (!mask[action->choices[0]] || !mask[5 + action->choices[2]])
        __atomic_fetch_add(&illegal_actions, 1, __ATOMIC_SEQ_CST);
    for (int j = 0; j < DIALS; j++) out->reward += (action->choices[j] == d->want[j]) / (float)DIALS;
    out->terminated = ppo_rng_uniform(rng) < 0.1f;
    dials_show(d, rng, obs);
}

static inline ppo_env dials_env(void) {
    ppo_env env = {0};
    env.name = "dials";
    env.obs_size = DIALS;
    env.action_space = ppo_multi_discrete(dial_sizes, DIALS);
    env.state_size = sizeof(dials);
    env.max_steps = 8;
    env.reset = dials_reset;
    env.step = dials_step;
    env.action_mask = dials_mask;
    return env;
}

/* Four lamps to be switched on or off as the observation says; the reward is the share that is right. */
enum { LAMPS = 4 };
typedef struct lamps {
    int want[LAMPS];
} lamps;

static inline void lamps_reset(void *state, ppo_rng *rng, float *obs) {
    lamps *l = (lamps *)state;
    for (int j = 0; j < LAMPS; j++) obs[j] = (l->want[j] = ppo_rng_below(rng, 2)) ? 1.0f : -1.0f;
}

static inline void lamps_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                              ppo_outcome *out) {
    lamps *l = (lamps *)state;
    for (int j = 0; j < LAMPS; j++) out->reward += (action->choices[j] == l->want[j]) / (float)LAMPS;
    lamps_reset(state, rng, obs);
}

static inline ppo_env lamps_env(void) {
    ppo_env env = {0};
    env.name = "lamps";
    env.obs_size = LAMPS;
    env.action_space = ppo_multi_binary(LAMPS);
    env.state_size = sizeof(lamps);
    env.max_steps = 5;
    env.reset = lamps_reset;
    env.step = lamps_step;
    return env;
}

/* A clock: obs is the episode's step, the reward is 1. Ends by max_steps, unless the plan says otherwise. */
typedef struct ticks {
    int t;
} ticks;

static struct {
    int fault_at[4];   /* of copies 0 to 3: the episode's step at which it misbehaves (0: reset); -1: none */
    float obs, reward; /* what it then hands out, where not 0 */
    int terminate_at, truncate_at; /* episode steps; 0: never */
} ticks_plan = {{-1, -1, -1, -1}, 0, 0, 0, 0};

static inline int ticks_fault(const ticks *c, const ppo_rng *rng) {
    return env_index(rng) < 4 && ticks_plan.fault_at[env_index(rng)] == c->t;
}

static inline void ticks_observe(const ticks *c, const ppo_rng *rng, float *obs) {
    obs[0] = ticks_fault(c, rng) && ticks_plan.obs != 0 ? ticks_plan.obs : (float)c->t;
}

static inline void ticks_reset(void *state, ppo_rng *rng, float *obs) {
    ticks *c = (ticks *)state;
    c->t = 0;
    ticks_observe(c, rng, obs);
}

static inline void ticks_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                              ppo_outcome *out) {
    ticks *c = (ticks *)state;
    (void)action;
    c->t++;
    ticks_observe(c, rng, obs);
    out->reward = ticks_fault(c, rng) && ticks_plan.reward != 0 ? ticks_plan.reward : 1;
    out->terminated = ticks_plan.terminate_at > 0 && c->t >= ticks_plan.terminate_at;
    out->truncated = ticks_plan.truncate_at > 0 && c->t >= ticks_plan.truncate_at;
}

static inline ppo_env ticks_env(int max_steps) {
    ppo_env env = {0};
    env.name = "ticks";
    env.obs_size = 1;
    env.action_space = ppo_discrete(2);
    env.state_size = sizeof(ticks);
    env.max_steps = max_steps;
    env.reset = ticks_reset;
    env.step = ticks_step;
    return env;
}

static inline int ticks_plan_clear(void **state) { /* as a cmocka teardown */
    (void)state;
    memset(&ticks_plan, 0, sizeof ticks_plan);
    for (int e = 0; e < 4; e++) ticks_plan.fault_at[e] = -1;
    return 0;
}

/* --------------------------------------------------------------------------------------------------------
   Training
   -------------------------------------------------------------------------------------------------------- */

/* Two iterations of 2 environments x 8 steps with networks of one hidden layer. */
static inline ppo_config tiny_config(void) {
    ppo_config cfg = ppo_config_default();
    cfg.total_steps = 32;
    cfg.num_envs = 2;
    cfg.rollout_steps = 8;
    cfg.minibatch_size = 5;
    cfg.epochs = 2;
    cfg.hidden[0] = 7;
    cfg.hidden_layers = 1;
    return cfg;
}

static inline ppo_config eight_environments(int normalize) {
    ppo_config cfg = tiny_config();
    cfg.num_envs = 8, cfg.rollout_steps = 16, cfg.minibatch_size = 30, cfg.total_steps = 8 * 16 * 4;
    cfg.normalize_obs = cfg.normalize_reward = normalize;
    cfg.learning_rate = 3e-3f;
    return cfg;
}

static inline ppo_agent *trained(const ppo_env *env, const ppo_config *cfg) {
    ppo_agent *agent = NULL;
    assert_ok(ppo_train(env, cfg, &agent));
    assert_non_null(agent);
    return agent;
}

/* 0 where two agents agree in every bit of parameters, moments and statistics. */
static inline int agents_differ(const ppo_agent *a, const ppo_agent *b) {
    const ppo_params *p = a->model.params, *q = b->model.params;
    size_t n = (size_t)a->obs_norm.size * sizeof(double);
    if (p->count != q->count || p->step != q->step || a->obs_norm.size != b->obs_norm.size) return 1;
    if (a->obs_norm.count != b->obs_norm.count) return 1;
    if (n && (memcmp(a->obs_norm.mean, b->obs_norm.mean, n) || memcmp(a->obs_norm.var, b->obs_norm.var, n)))
        return 1;
    return bits_differ(p->data, q->data, p->count) || bits_differ(p->m, q->m, p->count) ||
           bits_differ(p->v, q->v, p->count);
}

typedef struct log_of_run {
    int calls, stop_at;
    ppo_progress p[64];
} log_of_run;

static inline int keep_log(const ppo_progress *p, void *user) {
    log_of_run *log = (log_of_run *)user;
    assert_true(log->calls < COUNT(log->p));
    log->p[log->calls++] = *p;
    return log->calls == log->stop_at;
}

static inline log_of_run run_with_log(const ppo_env *env, ppo_config cfg, int stop_at) {
    log_of_run log = {0, 0, {{0}}};
    log.stop_at = stop_at;
    cfg.callback = keep_log;
    cfg.callback_user = &log;
    ppo_agent_free(trained(env, &cfg));
    return log;
}

#endif

#ifndef PPO_NO_LANGUAGE
/* --------------------------------------------------------------------------------------------------------
   Language models
   -------------------------------------------------------------------------------------------------------- */

static inline ppo_lm_config lm_config(int vocab, int context, int width, int layers, int heads) {
    ppo_lm_config c = ppo_lm_config_default();
    c.vocab = vocab, c.context = context, c.width = width, c.layers = layers, c.heads = heads;
    c.score = 1;
    c.seed = 1;
    return c;
}

/* A model of which no number is 0, 1, or like another. */
static inline ppo_lm *random_lm(ppo_lm_config config, float scale) {
    ppo_lm *lm = NULL;
    ppo_rng rng = test_rng(77 + (uint32_t)config.seed);
    assert_ok(ppo_lm_create(&config, &lm));
    for (int k = 0; k < lm->params->tensor_count; k++) {
        const ppo_tensor *t = lm->params->tensors[k];
        for (int i = 0; i < t->rows * t->cols; i++) t->data[i] += scale * ppo_rng_normal(&rng);
    }
    return lm;
}

static inline void add_random(ppo_tokens *tokens, ppo_rng *rng, int vocab, int n, int prompt) {
    int text[256];
    assert_true(n <= COUNT(text));
    for (int i = 0; i < n; i++) text[i] = ppo_rng_below(rng, vocab);
    assert_ok(ppo_tokens_add(tokens, text, n, prompt));
}

/* Sequence s alone, in the same arrays; start is room for its bounds. */
static inline ppo_tokens one_sequence(const ppo_tokens *tokens, int s, int start[2]) {
    ppo_tokens one = {1,
                      start,
                      tokens->prompt ? tokens->prompt + s : NULL,
                      tokens->token + tokens->start[s],
                      tokens->given ? tokens->given + tokens->start[s] : NULL,
                      NULL};
    start[0] = 0, start[1] = tokens->start[s + 1] - tokens->start[s];
    return one;
}

#ifdef GOLDEN_LANGUAGE_H
/* The GPT-2 of golden/language.h, with its scalar head. */
static inline float golden_weight(uint32_t tensor, uint32_t index, int is_scale) {
    uint32_t h = tensor * 0x9e3779b9u + index;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    h ^= h >> 16;
    return is_scale ? (float)((int32_t)(h >> 14) + 917504) / 1048576
                    : (float)((int32_t)(h >> 12) - 524288) / 1048576;
}

static inline ppo_lm *golden_lm(void) {
    ppo_lm_config c = lm_config(g_gpt_vocab, g_gpt_positions, g_gpt_width, g_gpt_layers, g_gpt_heads);
    ppo_lm *lm = NULL;
    assert_ok(ppo_lm_create(&c, &lm));
    assert_int_equal(lm->params->tensor_count, g_gpt_tensors);
    for (int k = 0; k < g_gpt_tensors; k++) {
        const ppo_tensor *t = lm->params->tensors[k];
        int n = t->rows * t->cols;
        for (int i = 0; i < n; i++) t->data[i] = golden_weight((uint32_t)k, (uint32_t)i, g_gpt_is_scale[k]);
        assert_true(t->data[0] == g_gpt_first[k] && t->data[n - 1] == g_gpt_last[k]);
    }
    return lm;
}

/* The arrays are those of the header, given as sequences. */
static inline ppo_tokens golden_tokens(const int *length, const int *prompt, const int *token, int count) {
    static int start[8];
    ppo_tokens tokens = {count, start, (int *)(uintptr_t)prompt, (int *)(uintptr_t)token, NULL, NULL};
    for (int s = 0; s < count; s++) start[s + 1] = start[s] + length[s];
    return tokens;
}
#endif

#endif

#ifndef PPO_NO_CONTROL
/* What ppo_env_check() says of a description before it plays the environment, for a step. */
static inline ppo_status check_env(const ppo_env *env) {
    ppo_inspection report;
    return ppo_env_check(env, 1, 1, &report);
}

/* The mean return of a player who acts at random: discrete actions. */
static inline double return_at_random(const ppo_env *env, int episodes) {
    ppo_rng rng = test_rng(40);
    void *state = calloc(1, env->state_size);
    float *obs = (float *)calloc((size_t)env->obs_size, sizeof *obs);
    double sum = 0;
    assert_true(state && obs);
    for (int i = 0; i < episodes; i++) {
        env->reset(state, &rng, obs);
        for (int t = 0, over = 0; t < env->max_steps && !over; t++) {
            const ppo_action action = {(int)ppo_rng_below(&rng, (uint32_t)env->action_space.n), NULL, NULL};
            ppo_outcome out;
            memset(&out, 0, sizeof out);
            env->step(state, &rng, &action, obs, &out);
            sum += (double)out.reward;
            over = out.terminated;
        }
    }
    free(state), free(obs);
    return sum / episodes;
}
#endif

#endif /* PPO_TEST_H */
