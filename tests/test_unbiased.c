/* The gradient of ppo_trainer_iterate(), in expectation: for each way to estimate it, the mean of many updates is the
   exact expectation, which is computed here in double precision from the task's probabilities, over all histories of a
   rollout, or by integration over all actions. `make stats` runs it with many rounds and prints a table. */
#include "../ppo.h"

#include "../examples/companions/ppo_gru.h"
#include "test.h"
#include "stats.h"
#include "system.h"

#include <pthread.h>

/* --------------------------------------------------------------------------------------------------------
   A small task: 3 states, 3 actions, rollouts of 4 steps. Episodes begin in state 0
   -------------------------------------------------------------------------------------------------------- */

enum { S = 3, A = 3, STEPS = 4, AGES = STEPS };
enum { WEIGHT = 0, BIAS = S * A, CRITIC = BIAS + A, CRITIC_BIAS = CRITIC + S, NUMBERS = CRITIC_BIAS + 1 };

static struct {
    double next[S][A][S], ends[S][A], reward[S][A][S + 1]; /* reward[][][S]: where the episode terminates */
    unsigned char legal[S][A];
    int max_steps, terminates, masked, blurred; /* blurred: only state 2 is told from the others */
} task;

static void make_task(int max_steps, int terminates, int masked, int blurred) {
    ppo_rng rng = test_rng(1);
    task.max_steps = max_steps, task.terminates = terminates, task.masked = masked, task.blurred = blurred;
    for (int s = 0; s < S; s++)
        for (int a = 0; a < A; a++) {
            double all = 0;
            for (int n = 0; n < S; n++) all += task.next[s][a][n] = 0.1 + ppo_rng_uniform(&rng);
            for (int n = 0; n < S; n++) task.next[s][a][n] /= all;
            task.ends[s][a] = terminates ? 0.05 + 0.4 * ppo_rng_uniform(&rng) : 0;
            for (int n = 0; n <= S; n++) task.reward[s][a][n] = (float)(2 * ppo_rng_normal(&rng));
            task.legal[s][a] = !masked || a != (s + 1) % A;
        }
}

static void show_state(int s, float *obs) {
    for (int i = 0; i < S; i++) obs[i] = task.blurred ? (i == 0 ? s == 2 : i == 1 ? 0.5f : 0) : i == s;
}

static void task_reset(void *state, ppo_rng *rng, float *obs) {
    (void)rng;
    *(int *)state = 0;
    show_state(0, obs);
}

/* The state after an action; S: the episode terminates. */
static int task_next(int s, int a, ppo_rng *rng) {
    double u = ppo_rng_uniform(rng) + ppo_rng_uniform(rng) / (1 << 24);
    if (u < task.ends[s][a]) return S;
    u = (u - task.ends[s][a]) / (1 - task.ends[s][a]);
    for (int n = 0; n < S - 1; u -= task.next[s][a][n++])
        if (u < task.next[s][a][n]) return n;
    return S - 1;
}

static void task_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    int *s = (int *)state;
    const int n = task_next(*s, action->discrete, rng);
    out->reward = (float)task.reward[*s][action->discrete][n];
    out->terminated = n == S;
    *s = n == S ? 0 : n;
    show_state(*s, obs);
}

static void task_mask(const void *state, unsigned char *mask) {
    memcpy(mask, task.legal[*(const int *)state], A);
}

static ppo_env task_env(void) {
    ppo_env env = {0};
    env.name = "task";
    env.obs_size = S;
    env.action_space = ppo_discrete(A);
    env.state_size = sizeof(int);
    env.max_steps = task.max_steps;
    env.reset = task_reset;
    env.step = task_step;
    if (task.masked) env.action_mask = task_mask;
    return env;
}

/* --------------------------------------------------------------------------------------------------------
   A linear policy and critic, and what is exact of them
   -------------------------------------------------------------------------------------------------------- */

typedef struct policy {
    double pi[S][A], v[S]; /* v: of the critic */
} policy;

static policy acting, learned; /* that which acts, and that whose gradient is asked */

static policy policy_of(const double *w) {
    policy p;
    for (int s = 0; s < S; s++) {
        double all = 0;
        for (int a = 0; a < A; a++)
            all += p.pi[s][a] = task.legal[s][a] ? exp(w[WEIGHT + s * A + a] + w[BIAS + a]) : 0;
        for (int a = 0; a < A; a++) p.pi[s][a] /= all;
        p.v[s] = w[CRITIC + s] + w[CRITIC_BIAS];
    }
    return p;
}

/* The state and its age, steps since the episode's begin, after an action: only truncation restarts here. */
static int is_last(int age) { return task.max_steps && age + 1 == task.max_steps; }

/* Values of the policy that acts, v [S][AGES + 1]. bootstrap 1: as if there were no time limit, which truncates only;
   0: an episode ends there. */
static void true_values(const policy *p, double gamma, int bootstrap, double v[S][AGES + 1]) {
    memset(v, 0, sizeof(double) * S * (AGES + 1));
    for (int sweep = 0; sweep < (bootstrap ? 2000 : AGES); sweep++)
        for (int age = AGES - 1; age >= 0; age--)
            for (int s = 0; s < S; s++) {
                double sum = 0;
                for (int a = 0; a < A; a++) {
                    double q = task.ends[s][a] * task.reward[s][a][S];
                    for (int n = 0; n < S; n++) {
                        const double later = bootstrap ? v[n][0] : is_last(age) ? 0 : v[n][age + 1];
                        q += (1 - task.ends[s][a]) * task.next[s][a][n] *
                             (task.reward[s][a][n] + gamma * later);
                    }
                    sum += p->pi[s][a] * q;
                }
                v[s][age] = sum;
            }
}

typedef struct chance {
    double of[S][AGES];
} chance;

static chance after_a_step(const policy *p, const chance *before) {
    chance after = {{{0}}};
    for (int s = 0; s < S; s++)
        for (int age = 0; age < AGES; age++)
            for (int a = 0; a < A; a++) {
                const double q = before->of[s][age] * p->pi[s][a];
                if (q == 0) continue;
                after.of[0][0] += q * task.ends[s][a];
                for (int n = 0; n < S; n++)
                    after.of[is_last(age) ? 0 : n][is_last(age) ? 0 : age + 1] +=
                        q * (1 - task.ends[s][a]) * task.next[s][a][n];
            }
    return after;
}

static chance at_first(int steps) {
    chance c = {{{0}}};
    c.of[0][0] = 1;
    while (steps-- > 0) c = after_a_step(&acting, &c);
    return c;
}

/* The policy gradient: minus the mean over a rollout of E[(Q - V) d log pi], [CRITIC]. */
static void true_gradient(double gamma, int bootstrap, int skipped, double *g) {
    double v[S][AGES + 1];
    chance at = at_first(skipped);
    true_values(&acting, gamma, bootstrap, v);
    memset(g, 0, NUMBERS * sizeof *g);
    for (int k = 0; k < STEPS; k++, at = after_a_step(&acting, &at))
        for (int s = 0; s < S; s++)
            for (int age = 0; age < AGES; age++)
                for (int a = 0; a < A; a++) {
                    double q = task.ends[s][a] * task.reward[s][a][S];
                    for (int n = 0; n < S; n++) {
                        const double later = bootstrap ? v[n][0] : is_last(age) ? 0 : v[n][age + 1];
                        q += (1 - task.ends[s][a]) * task.next[s][a][n] *
                             (task.reward[s][a][n] + gamma * later);
                    }
                    for (int j = 0; j < A; j++) {
                        const double d = -at.of[s][age] * acting.pi[s][a] * (q - v[s][age]) *
                                         ((a == j) - acting.pi[s][j]) / STEPS;
                        g[WEIGHT + s * A + j] += d, g[BIAS + j] += d;
                    }
                }
}

/* The undiscounted return of an episode of STEPS steps, as a function of the weights. */
static double expected_return(const double *w) {
    double v[S][AGES + 1];
    const policy p = policy_of(w);
    true_values(&p, 1, 0, v);
    return v[0][0];
}

/* --------------------------------------------------------------------------------------------------------
   All histories of a rollout
   -------------------------------------------------------------------------------------------------------- */

typedef struct event { /* a step */
    int s, a, n, term, trunc, start;
    double reward;
} event;

typedef void (*history_fn)(const event *t, double p, void *user);

static void each_history(event *t, int k, int s, int age, int start, double p, history_fn f, void *user) {
    if (k == STEPS) {
        f(t, p, user);
        return;
    }
    for (int a = 0; a < A; a++)
        for (int n = 0; n <= S; n++) {
            const double q =
                acting.pi[s][a] * (n == S ? task.ends[s][a] : (1 - task.ends[s][a]) * task.next[s][a][n]);
            const int ends = n == S || is_last(age);
            const event e = {s, a, n, n == S, n < S && is_last(age), start, task.reward[s][a][n]};
            t[k] = e;
            if (q > 0) each_history(t, k + 1, ends ? 0 : n, ends ? 0 : age + 1, ends, p * q, f, user);
        }
}

/* Those of the rollout that begins after `skipped` steps of all environments. */
static void all_histories(int skipped, history_fn f, void *user) {
    const chance c = at_first(skipped);
    event t[STEPS];
    for (int s = 0; s < S; s++)
        for (int age = 0; age < AGES; age++)
            if (c.of[s][age] > 0) each_history(t, 0, s, age, age == 0, c.of[s][age], f, user);
}

/* Advantages of a history, by the formulas in the manual; returns how many of its steps are learned from: without a
   critic those of episodes that end. */
static int advantages_of(const event *t, const ppo_config *c, const double *v, double *advantage) {
    int usable = STEPS;
    double next = 0;
    for (int k = STEPS - 1; k >= 0; k--) {
        const int done = t[k].term || t[k].trunc, last = done || k == STEPS - 1;
        if (c->use_critic) {
            const double delta = t[k].reward + (t[k].term ? 0 : c->gamma * v[t[k].n]) - v[t[k].s];
            next = delta + (last ? 0 : c->gamma * c->gae_lambda * next);
        } else next = t[k].reward + (last ? 0 : c->gamma * next);
        advantage[k] = next;
    }
    while (!c->use_critic && usable && !t[usable - 1].term && !t[usable - 1].trunc) --usable;
    return usable;
}

/* d loss / d log pi of a sample with this ratio. */
static double policy_term(const ppo_config *c, double ratio, double advantage) {
    const double low = 1 - c->clip_low, high = 1 + c->clip_high;
    switch (c->objective) {
    case PPO_CLIP:
        if (advantage >= 0) return ratio <= high ? -advantage * ratio : 0;
        if (c->dual_clip > 1 && ratio > c->dual_clip) return 0;
        return ratio >= low ? -advantage * ratio : 0;
    case PPO_CISPO:
        return -advantage * fmin(fmax(ratio, low), high);
    default:
        return -advantage * ratio;
    }
}

typedef struct expectation {
    const ppo_config *config;
    double g[NUMBERS], rows;
} expectation;

static void add_history(const event *t, double p, void *user) {
    expectation *e = (expectation *)user;
    const ppo_config *c = e->config;
    double advantage[STEPS];
    const int usable = advantages_of(t, c, learned.v, advantage);
    for (int k = 0; k < usable; k++) {
        const int s = t[k].s, a = t[k].a;
        const double *pi = learned.pi[s], *old = acting.pi[s];
        const double d = policy_term(c, pi[a] / old[a], advantage[k]);
        double entropy = 0;
        for (int j = 0; j < A; j++)
            if (pi[j] > 0) entropy -= pi[j] * log(pi[j]);
        for (int j = 0; j < A; j++) {
            double z = d * ((a == j) - pi[j]);
            if (pi[j] > 0) z += c->entropy_coef * pi[j] * (log(pi[j]) + entropy);
            if (c->objective == PPO_KL_PENALTY) z += c->kl_coef * (pi[j] - old[j]);
            e->g[WEIGHT + s * A + j] += p * z, e->g[BIAS + j] += p * z;
        }
        if (c->use_critic) { /* the target is advantage + value */
            double off = -advantage[k];
            if (c->huber_delta > 0) off = fmin(fmax(off, -c->huber_delta), c->huber_delta);
            e->g[CRITIC + s] += p * c->value_coef * off, e->g[CRITIC_BIAS] += p * c->value_coef * off;
        }
    }
    e->rows += p * usable;
}

/* --------------------------------------------------------------------------------------------------------
   The library's gradients
   -------------------------------------------------------------------------------------------------------- */

static ppo_tensor *tensor_of(const ppo_params *params, const char *name) {
    for (int k = 0; k < params->tensor_count; k++)
        if (!strcmp(params->names[k], name)) return params->tensors[k];
    fail_msg("there is no parameter %s", name);
    return NULL;
}

/* The numbers of these parameters, or their gradients, one after another; to 1: sets the parameters. Returns how many.
   All parameters must be among them. */
static int parameters(const ppo_params *params, const char *const *names, int count, double *x, int grad,
                      int to) {
    int n = 0, all = 0;
    for (int k = 0; k < count; k++) {
        const ppo_tensor *t = tensor_of(params, names[k]);
        for (int i = 0; i < t->rows * t->cols; i++, n++)
            if (to) t->data[i] = (float)x[n];
            else x[n] = grad ? t->grad[i] : t->data[i];
    }
    for (int k = 0; k < params->tensor_count; k++) all += params->tensors[k]->rows * params->tensors[k]->cols;
    assert_int_equal(n, all);
    return n;
}

static const char *const linear_names[] = {"actor.0.weight", "actor.0.bias", "critic.0.weight",
                                           "critic.0.bias"};

/* Pushes a rollout of the policy `w` to the trainer, whose agent then has the weights `then`, and learns. */
static void push_rollout(ppo_trainer *trainer, ppo_agent *agent, const ppo_config *c, double *w, double *then,
                         ppo_rng *rng) {
    parameters(agent->model.params, linear_names, 4, w, 0, 1);
    for (int e = 0; e < c->num_envs; e++) {
        float obs[S];
        int s = 0, age = 0;
        show_state(0, obs);
        assert_ok(ppo_trainer_observe(trainer, e, obs, NULL, NULL));
        for (int k = 0; k < STEPS; k++) {
            ppo_action action;
            ppo_outcome out = {0};
            assert_ok(ppo_trainer_act(trainer, e, &action));
            const int n = task_next(s, action.discrete, rng);
            out.reward = (float)task.reward[s][action.discrete][n];
            out.terminated = n == S;
            out.truncated = n < S && is_last(age);
            if (n < S) show_state(n, obs);
            assert_ok(ppo_trainer_observe(trainer, e, n < S ? obs : NULL, NULL, &out));
            if (!out.terminated && !out.truncated) {
                s = n, ++age;
                continue;
            }
            s = age = 0;
            show_state(0, obs);
            if (k + 1 < STEPS) assert_ok(ppo_trainer_observe(trainer, e, obs, NULL, NULL));
        }
    }
    parameters(agent->model.params, linear_names, 4, then, 0, 1);
    assert_ok(ppo_trainer_learn(trainer, 0, NULL));
}

enum {             /* bits of a way */
       CLAIMS = 1, /* its expectation is a multiple of the policy gradient */
       EXACT = 2,  /* the critic knows the true values */
       ENDS = 4,   /* episodes terminate */
       MASKED = 8,
       PUSHED = 16, /* by ppo_trainer_observe(), and the weights are others before it learns */
       GROUP = 32   /* two processes */
};

typedef struct way { /* to estimate a gradient: that of the last of `rollouts` is compared */
    const char *name, *preset, *settings;
    int max_steps, rollouts, bits;
} way;

static void choose_weights(double *w, double *then) {
    ppo_rng rng = test_rng(2);
    for (int j = 0; j < CRITIC; j++) w[j] = (float)(0.7 * ppo_rng_normal(&rng));
    for (int s = 0; s < S; s++) w[CRITIC + s] = s - 0.75;
    w[CRITIC_BIAS] = 0.25;
    memcpy(then, w, NUMBERS * sizeof *w);
    for (int j = 0; j < CRITIC; j++) then[j] = (float)(w[j] + 0.4 * ppo_rng_normal(&rng));
}

static ppo_config way_config(const way *m) {
    ppo_config c = ppo_config_default();
    if (m->preset) assert_ok(ppo_config_preset(&c, m->preset));
    assert_ok(
        ppo_config_set_all(&c, "rollout_steps=4 minibatch_size=0 epochs=1 hidden=none normalize_advantage=no "
                               "max_grad_norm=0 learning_rate=0 learning_rate_schedule=constant"));
    assert_ok(ppo_config_set_all(&c, m->settings));
    c.num_envs = (m->bits & PUSHED ? 25 : 60) * (long_stats() ? 5 : 1);
    c.total_steps = (int64_t)c.num_envs * STEPS * m->rollouts;
    return c;
}

/* One gradient: of a new trainer's last update. */
static void one_gradient(const way *m, const ppo_env *env, ppo_config c, double *w, double *then, long round,
                         double *g) {
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    c.seed = seed_of(m->name, round);
    assert_ok(ppo_agent_create(env, &c, &agent));
    parameters(agent->model.params, linear_names, 4, w, 0, 1);
    assert_ok(ppo_trainer_create(env, &c, agent, &trainer));
    if (m->bits & PUSHED) {
        ppo_rng rng = ppo_rng_stream(c.seed, PPO_STREAM_USER + 1, 0);
        push_rollout(trainer, agent, &c, w, then, &rng);
    } else {
        while (!ppo_trainer_done(trainer)) assert_ok(ppo_trainer_iterate(trainer, NULL));
    }
    parameters(agent->model.params, linear_names, 4, g, 1, 0);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

/* The gradients of a group of two, whose processes are threads here, connected by pipes. */
typedef struct member {
    const way *m;
    const ppo_env *env;
    const ppo_config *c;
    double *w, *g; /* g [rounds][NUMBERS] */
    long rounds;
    int rank, (*pipes)[2]; /* pipes[r]: what rank r writes */
} member;

static ppo_status exchange(void *user, int peer, const void *send, size_t sent, void *receive,
                           size_t received) {
    const member *me = (const member *)user;
    const char *from = (const char *)send;
    char *to = (char *)receive;
    ssize_t n = 1;
    while ((sent || received) && n > 0) { /* in small parts, so that no pipe is full */
        const size_t out = sent < 4096 ? sent : 4096, in = received < 4096 ? received : 4096;
        if (out && (n = write(me->pipes[me->rank][1], from, out)) > 0) from += n, sent -= (size_t)n;
        for (size_t left = in; left && n > 0; to += n, left -= (size_t)n, received -= (size_t)n)
            n = read(me->pipes[peer][0], to, left);
    }
    return n > 0 ? PPO_OK : ppo_fail(PPO_ERROR_GROUP, "rank %d cannot be reached", peer);
}

static void *gradients_of_a_member(void *user) {
    member *me = (member *)user;
    const ppo_group group = {me->rank, 2, exchange, me};
    if (ppo_use_group(&group)) return NULL;
    for (long i = 0; i < me->rounds; i++)
        one_gradient(me->m, me->env, *me->c, me->w, me->w, i, me->g + i * NUMBERS);
    ppo_use_group(NULL);
    return NULL;
}

static void gradients_of_a_group(const way *m, const ppo_env *env, const ppo_config *c, double *w,
                                 long rounds, estimate *s) {
    int pipes[2][2];
    pthread_t thread[2];
    member members[2];
    for (int r = 0; r < 2; r++) {
        const member one = {m, env, c, w, NULL, rounds, r, pipes};
        members[r] = one;
        members[r].g = (double *)calloc((size_t)rounds * NUMBERS, sizeof(double));
        assert_int_equal(pipe(pipes[r]), 0);
    }
    for (int r = 0; r < 2; r++)
        assert_int_equal(pthread_create(&thread[r], NULL, gradients_of_a_member, &members[r]), 0);
    for (int r = 0; r < 2; r++) pthread_join(thread[r], NULL);
    for (long i = 0; i < rounds; i++) stat_add(s, members[1].g + i * NUMBERS);
    for (int r = 0; r < 2; r++) close(pipes[r][0]), close(pipes[r][1]), free(members[r].g);
}

static void compare_way(const way *m) {
    double w[NUMBERS], then[NUMBERS], truth[NUMBERS], one[NUMBERS];
    expectation e = {0};
    make_task(m->max_steps, m->bits & ENDS, m->bits & MASKED, 0);
    ppo_config c = way_config(m);
    ppo_env env = task_env();
    choose_weights(w, then);
    acting = policy_of(w);
    if (m->bits & EXACT) {
        double v[S][AGES + 1];
        true_values(&acting, c.gamma, 1, v);
        for (int s = 0; s < S; s++) w[CRITIC + s] = (float)v[s][0];
        w[CRITIC_BIAS] = 0;
        acting = policy_of(w);
    }
    learned = m->bits & PUSHED ? policy_of(then) : acting;
    const int skipped = (m->rollouts - 1) * STEPS;
    true_gradient(c.gamma, c.use_critic, skipped, truth);
    e.config = &c;
    all_histories(skipped, add_history, &e);
    for (int j = 0; j < NUMBERS; j++) e.g[j] /= e.rows;
    const double own = m->bits & PUSHED || c.entropy_coef != 0 ? -1 : stat_angle(e.g, truth, CRITIC);
    if (m->bits & CLAIMS && own > 1e-6) fail_msg("%s: the expectation is off by %g", m->name, own);

    estimate *s = stat_begin(NUMBERS, e.g);
    const long rounds = long_stats() ? (m->bits & PUSHED ? 1000 : 1600) : 100;
    if (m->bits & PUSHED) env.reset = NULL, env.step = NULL, env.max_steps = 0;
    if (m->bits & GROUP) gradients_of_a_group(m, &env, &c, w, rounds, s);
    for (long i = 0; i < rounds && !(m->bits & GROUP); i++) {
        one_gradient(m, &env, c, w, then, i, one);
        stat_add(s, one);
    }
    stat_end(s, m->name, own);
}

static const way ways[] = {
    /* name, preset, settings, steps until the time limit (0: none), rollouts, bits */
    {"REINFORCE, episodes of 2 steps", "reinforce", "gamma=0.9", 2, 1, CLAIMS},
    {"REINFORCE, gamma 1", "reinforce", "gamma=1", 4, 1, CLAIMS},
    {"REINFORCE, steps of cut episodes left out", "reinforce", "gamma=0.9", 3, 1, ENDS},
    {"REINFORCE with a baseline", "reinforce-baseline", "gamma=0.9", 3, 1, ENDS},
    {"the same, the exact critic", "reinforce-baseline", "gamma=0.9", 3, 1, CLAIMS | EXACT | ENDS},
    {"GAE, lambda 0", NULL, "gamma=0.9 gae_lambda=0", 3, 1, ENDS},
    {"GAE, lambda 0.95, no time limit", NULL, "gamma=0.9 gae_lambda=0.95", 0, 1, ENDS},
    {"GAE, lambda 0.95, no termination", NULL, "gamma=0.9 gae_lambda=0.95", 3, 1, 0},
    {"GAE, lambda 0.95, terminated, truncated and cut", NULL, "gamma=0.9 gae_lambda=0.95", 3, 1, ENDS},
    {"GAE, lambda 1", NULL, "gamma=0.9 gae_lambda=1", 3, 1, ENDS},
    {"GAE, lambda 0, the exact critic", NULL, "gamma=0.9 gae_lambda=0", 3, 1, CLAIMS | EXACT | ENDS},
    {"GAE, lambda 0.5, the exact critic", NULL, "gamma=0.9 gae_lambda=0.5", 3, 1, CLAIMS | EXACT | ENDS},
    {"a2c, 3 threads", "a2c", "gamma=0.9 gae_lambda=0.7 threads=3", 2, 1, ENDS},
    {"clip at ratio 1, the second rollout, episodes go on", NULL, "gamma=0.9 gae_lambda=0.8", 3, 2, ENDS},
    {"the last minibatch of three epochs of 4", NULL, "gamma=0.9 gae_lambda=0.8 epochs=3 minibatch_size=60",
     3, 1, ENDS},
    {"4 shards, 2 threads", NULL, "gamma=0.9 gae_lambda=0.8 shards=4 threads=2", 3, 1, ENDS},
    {"4 shards, 2 processes", NULL, "gamma=0.9 gae_lambda=0.8 shards=4", 3, 1, ENDS | GROUP},
    {"masked actions", NULL, "gamma=0.9 gae_lambda=0.8", 3, 1, ENDS | MASKED},
    {"entropy bonus 0.5", NULL, "gamma=0.9 gae_lambda=0.8 entropy_coef=0.5", 3, 1, ENDS},
    {"entropy bonus 0.5, masked actions", NULL, "gamma=0.9 gae_lambda=0.8 entropy_coef=0.5", 3, 1,
     ENDS | MASKED},
    {"value loss: Huber, delta 1, weight 1", NULL, "gamma=0.9 gae_lambda=0.8 huber_delta=1 value_coef=1", 3,
     1, ENDS},
    {"value loss: clipped, at the old value", NULL, "gamma=0.9 gae_lambda=0.8 value_clip=0.2", 3, 1, ENDS},
    {"another policy acted: clip", NULL, "gamma=0.9 gae_lambda=0.8", 3, 1, ENDS | PUSHED},
    {"another policy acted: clip 0.1 to 0.3, dual clip", NULL,
     "gamma=0.9 gae_lambda=0.8 clip_low=0.1 clip_high=0.3 dual_clip=1.5", 3, 1, ENDS | PUSHED},
    {"another policy acted: unclipped", NULL, "gamma=0.9 gae_lambda=0.8 objective=unclipped", 3, 1,
     ENDS | PUSHED},
    {"another policy acted: exact KL penalty", NULL,
     "gamma=0.9 gae_lambda=0.8 objective=kl-penalty kl_coef=2", 3, 1, ENDS | PUSHED},
    {"another policy acted: CISPO", NULL, "gamma=0.9 gae_lambda=0.8 objective=cispo", 3, 1, ENDS | PUSHED},
};

static void the_policy_gradient_of_the_tables_is_the_derivative_of_the_return(void **state) {
    (void)state;
    double w[NUMBERS], then[NUMBERS], g[NUMBERS];
    make_task(STEPS, 0, 0, 0);
    choose_weights(w, then);
    acting = policy_of(w);
    true_gradient(1, 0, 0, g);
    for (int j = 0; j < CRITIC; j++) {
        const double h = 1e-4, at = w[j];
        w[j] = at + h;
        const double more = expected_return(w);
        w[j] = at - h;
        assert_close(g[j], -(more - expected_return(w)) / (2 * h) / STEPS, 1e-6);
        w[j] = at;
    }
}

static void estimators_of_an_advantage_have_their_expectation(void **state) {
    (void)state;
    for (int k = 0; k < COUNT(ways); k++) compare_way(&ways[k]);
}

/* --------------------------------------------------------------------------------------------------------
   Action spaces: episodes of one step, in one of 3 situations. All actions are enumerated, or integrated over
   -------------------------------------------------------------------------------------------------------- */

enum { SITUATIONS = 3, SEEN = 2, MOST_CHOICES = 3, MOST_OPTIONS = 5, GRID = 241 };
static const double situation_chance[SITUATIONS] = {0.5, 0.3, 0.2};
static const float situation_obs[SITUATIONS][SEEN] = {{1, 0.25f}, {-0.5f, 1}, {0.75f, -0.75f}};

static void situation_reset(void *state, ppo_rng *rng, float *obs) {
    const float u = ppo_rng_uniform(rng);
    const int c = u < 0.5f ? 0 : u < 0.8f ? 1 : 2;
    *(int *)state = c;
    memcpy(obs, situation_obs[c], sizeof situation_obs[c]);
}

static double choice_reward(int c, const int *choice, int n) {
    double r = 0.5 * c;
    for (int j = 0; j < n; j++) r += (choice[j] * (j + 2) + c) % 3 - 0.25 * choice[j] * choice[(j + 1) % n];
    return r;
}

static double box_reward(int c, const double *x, double scale) {
    return sin(2 * x[0] / scale) + 0.5 * (x[0] / scale) * (x[1] / scale) - x[1] / scale * (x[1] / scale) +
           0.3 * c;
}

static struct {
    ppo_space space;
    double scale;
} arm;

static void arm_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    const int c = *(int *)state;
    (void)rng, (void)obs;
    if (arm.space.kind == PPO_BOX) {
        const double x[2] = {action->box[0], action->box[1]};
        out->reward = (float)box_reward(c, x, arm.scale);
    } else
        out->reward =
            (float)choice_reward(c, action->choices, arm.space.kind == PPO_DISCRETE ? 1 : arm.space.n);
    out->terminated = 1;
}

/* In situation 1 the last option of each choice is illegal. */
static int heads_of(const ppo_space *space, int *sizes) {
    const int heads = space->kind == PPO_DISCRETE ? 1 : space->n;
    for (int h = 0; h < heads; h++) sizes[h] = space->kind == PPO_DISCRETE ? space->n : space->sizes[h];
    return heads;
}

static void arm_mask(const void *state, unsigned char *mask) {
    int sizes[MOST_CHOICES], heads = heads_of(&arm.space, sizes);
    for (int h = 0; h < heads; mask += sizes[h++])
        if (*(const int *)state == 1) mask[sizes[h] - 1] = 0;
}

typedef struct arm_way {
    const char *name, *settings;
    ppo_space space;
    int masked;
    double scale, tolerance;
} arm_way;

/* Where the parameters begin: outputs of the policy's last layer, then its bias, log_std, and the critic. */
typedef struct layout {
    int outputs, bias, log_std, log_std_rows, critic, count;
} layout;

static double weighted(const double *w, const float *obs, int cols, int j) {
    double sum = 0;
    for (int i = 0; i < SEEN; i++) sum += obs[i] * w[i * cols + j];
    return sum + w[SEEN * cols + j];
}

/* Adds d, the derivative along output j of a layer at w, to the gradient. */
static void add_layer(double *g, const float *obs, int cols, int j, double d) {
    for (int i = 0; i < SEEN; i++) g[i * cols + j] += d * obs[i];
    g[SEEN * cols + j] += d;
}

static void expect_choices(const ppo_config *c, const double *w, const layout *at, int masked, double *g) {
    int sizes[MOST_CHOICES], choice[MOST_CHOICES], heads = heads_of(&arm.space, sizes), all = 1;
    for (int h = 0; h < heads; h++) all *= sizes[h];
    for (int s = 0; s < SITUATIONS; s++) {
        const float *obs = situation_obs[s];
        const double v = weighted(w + at->critic, obs, 1, 0);
        double pi[MOST_CHOICES][MOST_OPTIONS], entropy[MOST_CHOICES] = {0};
        for (int h = 0, j = 0; h < heads; j += sizes[h++]) {
            double sum = 0;
            for (int i = 0; i < sizes[h]; i++) {
                const int legal = !masked || s != 1 || i < sizes[h] - 1;
                sum += pi[h][i] = legal ? exp(weighted(w, obs, at->outputs, j + i)) : 0;
            }
            for (int i = 0; i < sizes[h]; i++) {
                pi[h][i] /= sum;
                if (pi[h][i] > 0) entropy[h] -= pi[h][i] * log(pi[h][i]);
            }
            for (int i = 0; i < sizes[h]; i++)
                if (pi[h][i] > 0)
                    add_layer(g, obs, at->outputs, j + i,
                              situation_chance[s] * c->entropy_coef * pi[h][i] *
                                  (log(pi[h][i]) + entropy[h]));
        }
        for (int a = 0; a < all; a++) {
            double p = situation_chance[s];
            for (int h = 0, rest = a; h < heads; rest /= sizes[h++])
                choice[h] = rest % sizes[h], p *= pi[h][choice[h]];
            const double advantage = (float)choice_reward(s, choice, heads) - v;
            for (int h = 0, j = 0; h < heads; j += sizes[h++])
                for (int i = 0; i < sizes[h]; i++)
                    add_layer(g, obs, at->outputs, j + i, -p * advantage * ((choice[h] == i) - pi[h][i]));
            add_layer(g + at->critic, obs, 1, 0, -p * c->value_coef * advantage);
        }
    }
}

/* The number that the environment gets for u. */
static double to_box(const ppo_config *c, double u) {
    const double low = arm.space.low, high = arm.space.high;
    if (c->squash) return low + (high - low) * (tanh(u) + 1) / 2;
    if (c->scale_actions == PPO_SCALE_YES) u = (low + high) / 2 + u * (high - low) / 2;
    return fmin(fmax(u, low), high);
}

/* By Simpson's rule over 8 standard deviations to each side, in both dimensions. */
static void expect_box(const ppo_config *c, const double *w, const layout *at, double *g) {
    static double weight[GRID], x[GRID], action[2][GRID];
    double sum = 0;
    for (int k = 0; k < GRID; k++) {
        x[k] = -8 + 16.0 * k / (GRID - 1);
        sum += weight[k] = (k == 0 || k == GRID - 1 ? 1 : k % 2 ? 4 : 2) * exp(-x[k] * x[k] / 2);
    }
    for (int k = 0; k < GRID; k++) weight[k] /= sum;
    for (int s = 0; s < SITUATIONS; s++) {
        const float *obs = situation_obs[s];
        const double v = weighted(w + at->critic, obs, 1, 0), p = situation_chance[s];
        double mean[2], std[2], d_mean[2] = {0}, d_log_std[2] = {0}, d_value = 0;
        for (int j = 0; j < 2; j++) {
            mean[j] = weighted(w, obs, 2, j);
            double var = 0;
            for (int i = 0; i < at->log_std_rows; i++)
                var += (c->gsde ? obs[i] * obs[i] : 1) * exp(2 * w[at->log_std + i * 2 + j]);
            std[j] = sqrt(var);
            d_log_std[j] = -c->entropy_coef;
            for (int k = 0; k < GRID; k++) {
                const double u = mean[j] + std[j] * x[k];
                action[j][k] = to_box(c, u);
                if (!c->squash) continue; /* the entropy of tanh(u): plus E[log(1 - tanh(u)^2)] */
                d_mean[j] += c->entropy_coef * weight[k] * 2 * tanh(u);
                d_log_std[j] += c->entropy_coef * weight[k] * 2 * tanh(u) * std[j] * x[k];
            }
        }
        for (int k = 0; k < GRID; k++)
            for (int l = 0; l < GRID; l++) {
                const double a[2] = {action[0][k], action[1][l]}, q = weight[k] * weight[l];
                const double advantage = box_reward(s, a, arm.scale) - v;
                d_mean[0] -= q * advantage * x[k] / std[0], d_log_std[0] -= q * advantage * (x[k] * x[k] - 1);
                d_mean[1] -= q * advantage * x[l] / std[1], d_log_std[1] -= q * advantage * (x[l] * x[l] - 1);
                d_value -= q * advantage;
            }
        for (int j = 0; j < 2; j++) {
            add_layer(g, obs, 2, j, p * d_mean[j]);
            for (int i = 0; i < at->log_std_rows; i++) {
                const double part = (c->gsde ? obs[i] * obs[i] : 1) * exp(2 * w[at->log_std + i * 2 + j]);
                g[at->log_std + i * 2 + j] += p * d_log_std[j] * part / (std[j] * std[j]);
            }
        }
        add_layer(g + at->critic, obs, 1, 0, p * c->value_coef * d_value);
    }
}

static void compare_arm(const arm_way *m) {
    static const char *const boxes[] = {"actor.0.weight", "actor.0.bias", "actor.log_std", "critic.0.weight",
                                        "critic.0.bias"};
    static const char *const choices[] = {"actor.0.weight", "actor.0.bias", "critic.0.weight",
                                          "critic.0.bias"};
    const int box = m->space.kind == PPO_BOX, named = box ? 5 : 4;
    const char *const *names = box ? boxes : choices;
    double w[64], g[64] = {0}, one[64];
    int sizes[MOST_CHOICES] = {0};
    ppo_env env = {0};
    ppo_config c = ppo_config_default();
    ppo_rng rng = test_rng(3);
    layout at = {0, 0, 0, 0, 0, 0};
    arm.space = m->space, arm.scale = m->scale;
    env.name = m->name, env.obs_size = SEEN, env.action_space = m->space, env.state_size = sizeof(int);
    env.reset = situation_reset, env.step = arm_step;
    if (m->masked) env.action_mask = arm_mask;
    assert_ok(ppo_config_set_all(&c, "rollout_steps=4 minibatch_size=0 epochs=1 "
                                     "hidden=none normalize_advantage=no max_grad_norm=0 learning_rate=0"));
    assert_ok(ppo_config_set_all(&c, m->settings));
    c.num_envs = long_stats() ? 300 : 60;
    c.total_steps = 4 * c.num_envs;
    if (box) at.outputs = 2, at.log_std_rows = c.gsde ? SEEN : 1;
    for (int h = 0, heads = box ? 0 : heads_of(&m->space, sizes); h < heads; h++) at.outputs += sizes[h];
    at.bias = SEEN * at.outputs, at.log_std = at.bias + at.outputs;
    at.critic = at.log_std + 2 * at.log_std_rows, at.count = at.critic + SEEN + 1;
    for (int j = 0; j < at.count; j++)
        w[j] = (float)((j >= at.log_std && j < at.critic ? 0.3 : 0.6) * ppo_rng_normal(&rng));
    if (box) expect_box(&c, w, &at, g);
    else expect_choices(&c, w, &at, m->masked, g);

    estimate *s = stat_begin(at.count, g);
    s->tolerance = m->tolerance;
    for (long i = 0, rounds = long_stats() ? 1600 : 100; i < rounds; i++) {
        ppo_agent *agent = NULL;
        c.seed = seed_of(m->name, i);
        assert_ok(ppo_agent_create(&env, &c, &agent));
        assert_int_equal(parameters(agent->model.params, names, named, w, 0, 1), at.count);
        assert_ok(ppo_train(&env, &c, &agent));
        parameters(agent->model.params, names, named, one, 1, 0);
        stat_add(s, one);
        ppo_agent_free(agent);
    }
    stat_end(s, m->name, -1);
}

static void action_spaces_have_their_expectation(void **state) {
    (void)state;
    static const int sizes[] = {3, 2};
    const arm_way all[] = {
        {"discrete, 5 actions", "entropy_coef=0", ppo_discrete(5), 0, 1, 0},
        {"discrete, masked, entropy bonus 0.3", "entropy_coef=0.3", ppo_discrete(5), 1, 1, 0},
        {"multi-discrete 3, 2", "entropy_coef=0", ppo_multi_discrete(sizes, 2), 0, 1, 0},
        {"multi-discrete 3, 2, masked, entropy bonus 0.3", "entropy_coef=0.3", ppo_multi_discrete(sizes, 2),
         1, 1, 0},
        {"multi-binary 3, entropy bonus 0.3", "entropy_coef=0.3", ppo_multi_binary(3), 0, 1, 0},
        {"box, clipped", "scale_actions=no", ppo_box(2, -1, 1.5f), 0, 1, 0},
        {"box, unbounded, entropy bonus 0.3", "scale_actions=no entropy_coef=0.3",
         ppo_box(2, -INFINITY, INFINITY), 0, 1, 0},
        {"box, scaled", "scale_actions=yes", ppo_box(2, 0, 100), 0, 60, 0},
        {"box, squashed", "squash=yes", ppo_box(2, -1, 2), 0, 1, 0},
        {"box, squashed, entropy bonus 0.3", "squash=yes entropy_coef=0.3", ppo_box(2, -1, 2), 0, 1, 3e-4},
        {"box, gSDE, one matrix per rollout", "gsde=yes scale_actions=no", ppo_box(2, -1, 1.5f), 0, 1, 0},
        {"box, gSDE, 2 steps, entropy bonus 0.3", "gsde=yes gsde_steps=2 entropy_coef=0.3 scale_actions=no",
         ppo_box(2, -1, 1.5f), 0, 1, 0},
        {"box, gSDE, squashed, entropy bonus 0.3", "gsde=yes squash=yes entropy_coef=0.3", ppo_box(2, -1, 2),
         0, 1, 3e-4},
    };
    for (int k = 0; k < COUNT(all); k++) compare_arm(&all[k]);
}

/* --------------------------------------------------------------------------------------------------------
   Recurrent policies, which tell state 2 from the others, and no more. The gradient of the mean over all histories is
   by differences of a loss in double precision
   -------------------------------------------------------------------------------------------------------- */

enum { WIDTH = 2, GATES = 3 * WIDTH };
enum { /* the parameters, in the order of the names below */
       IN_WEIGHT = 0,
       IN_BIAS = IN_WEIGHT + S * GATES,
       STATE_WEIGHT = IN_BIAS + GATES,
       STATE_BIAS = STATE_WEIGHT + WIDTH * GATES,
       ACTOR_WEIGHT = STATE_BIAS + GATES,
       ACTOR_BIAS = ACTOR_WEIGHT + WIDTH * A,
       VALUE_WEIGHT = ACTOR_BIAS + A,
       VALUE_BIAS = VALUE_WEIGHT + WIDTH,
       MEMORY_NUMBERS = VALUE_BIAS + 1
};
static const char *const memory_names[] = {"core.input.weight", "core.input.bias", "core.state.weight",
                                           "core.state.bias",   "actor.0.weight",  "actor.0.bias",
                                           "critic.0.weight",   "critic.0.bias"};

typedef struct memory_row { /* what the networks say after an observation */
    double h[WIDTH], pi[A], v;
} memory_row;

static memory_row remember(const double *w, const double *before, int s) {
    float obs[S];
    double x[GATES], u[GATES], all = 0;
    memory_row out;
    show_state(s, obs);
    for (int j = 0; j < GATES; j++) {
        x[j] = w[IN_BIAS + j], u[j] = w[STATE_BIAS + j];
        for (int i = 0; i < S; i++) x[j] += obs[i] * w[IN_WEIGHT + i * GATES + j];
        for (int i = 0; i < WIDTH; i++) u[j] += before[i] * w[STATE_WEIGHT + i * GATES + j];
    }
    out.v = w[VALUE_BIAS];
    for (int i = 0; i < WIDTH; i++) {
        const double r = 1 / (1 + exp(-x[i] - u[i])), z = 1 / (1 + exp(-x[WIDTH + i] - u[WIDTH + i]));
        out.h[i] = (1 - z) * tanh(x[2 * WIDTH + i] + r * u[2 * WIDTH + i]) + z * before[i];
        out.v += out.h[i] * w[VALUE_WEIGHT + i];
    }
    for (int a = 0; a < A; a++) {
        double z = w[ACTOR_BIAS + a];
        for (int i = 0; i < WIDTH; i++) z += out.h[i] * w[ACTOR_WEIGHT + i * A + a];
        all += out.pi[a] = task.legal[s][a] ? exp(z) : 0;
    }
    for (int a = 0; a < A; a++) out.pi[a] /= all;
    return out;
}

/* A pass over all histories: the loss of the weights `now`, while the policy with the weights `then` acts. */
typedef struct recollection {
    const ppo_config *c;
    const double *then, *now;
    double loss;
    memory_row old[STEPS], row[STEPS];
    event t[STEPS];
    double next_value[STEPS];
} recollection;

static void add_recollection(recollection *r, double p) {
    double advantage = 0;
    for (int k = STEPS - 1; k >= 0; k--) {
        const event *e = &r->t[k];
        const memory_row *old = &r->old[k], *now = &r->row[k];
        const double delta = e->reward + (e->term ? 0 : r->c->gamma * r->next_value[k]) - old->v;
        advantage =
            delta + (e->term || e->trunc || k == STEPS - 1 ? 0 : r->c->gamma * r->c->gae_lambda * advantage);
        const double off = now->v - (advantage + old->v);
        double entropy = 0;
        for (int a = 0; a < A; a++)
            if (now->pi[a] > 0) entropy -= now->pi[a] * log(now->pi[a]);
        r->loss += p / STEPS *
                   (-advantage * now->pi[e->a] / old->pi[e->a] + r->c->value_coef * 0.5 * off * off -
                    r->c->entropy_coef * entropy);
    }
}

static void recollect(recollection *r, int k, int s, int age, const double *then, const double *now,
                      double p) {
    static const double empty[WIDTH] = {0};
    if (k == STEPS) {
        add_recollection(r, p);
        return;
    }
    if (k % r->c->sequence_steps == 0) now = then; /* no gradient goes back from here */
    const memory_row old = remember(r->then, then, s), row = remember(r->now, now, s);
    for (int a = 0; a < A; a++)
        for (int n = 0; n <= S; n++) {
            const double q =
                old.pi[a] * (n == S ? task.ends[s][a] : (1 - task.ends[s][a]) * task.next[s][a][n]);
            const int ends = n == S || is_last(age);
            const event e = {s, a, n, n == S, n < S && is_last(age), 0, task.reward[s][a][n]};
            if (q == 0) continue;
            r->t[k] = e, r->old[k] = old, r->row[k] = row;
            r->next_value[k] = n < S ? remember(r->then, old.h, n).v : 0;
            recollect(r, k + 1, ends ? 0 : n, ends ? 0 : age + 1, ends ? empty : old.h, ends ? empty : row.h,
                      p * q);
        }
}

static double memory_loss(const ppo_config *c, const double *then, const double *now) {
    static recollection r;
    static const double empty[WIDTH] = {0};
    memset(&r, 0, sizeof r);
    r.c = c, r.then = then, r.now = now;
    recollect(&r, 0, 0, 0, empty, empty, 1);
    return r.loss;
}

static void recurrent_policies_have_their_expectation(void **state) {
    (void)state;
    static const struct {
        const char *name, *settings;
    } all[] = {
        {"recurrent, back through 4 steps, entropy bonus 0.2", "sequence_steps=4 entropy_coef=0.2"},
        {"recurrent, back through 2 steps, 2 shards", "sequence_steps=2 shards=2"},
    };
    double w[MEMORY_NUMBERS], then[MEMORY_NUMBERS], g[MEMORY_NUMBERS], one[MEMORY_NUMBERS];
    ppo_rng rng = test_rng(4);
    make_task(3, 1, 1, 1);
    const ppo_env env = task_env();
    for (int j = 0; j < MEMORY_NUMBERS; j++) then[j] = (float)(0.8 * ppo_rng_normal(&rng));
    for (int k = 0; k < COUNT(all); k++) {
        ppo_config c = ppo_config_default();
        assert_ok(ppo_config_set_all(&c, "rollout_steps=4 minibatch_size=0 epochs=1 "
                                         "hidden=none normalize_advantage=no max_grad_norm=0 learning_rate=0 "
                                         "gamma=0.9 gae_lambda=0.8 recurrent=2"));
        assert_ok(ppo_config_set_all(&c, all[k].settings));
        c.num_envs = long_stats() ? 300 : 60;
        c.total_steps = 4 * c.num_envs;
        for (int j = 0; j < MEMORY_NUMBERS; j++) {
            const double h = 1e-4;
            memcpy(w, then, sizeof w);
            w[j] = then[j] + h;
            const double more = memory_loss(&c, then, w);
            w[j] = then[j] - h;
            g[j] = (more - memory_loss(&c, then, w)) / (2 * h);
        }
        estimate *s = stat_begin(MEMORY_NUMBERS, g);
        for (long i = 0, rounds = long_stats() ? 1600 : 100; i < rounds; i++) {
            ppo_agent *agent = NULL;
            c.seed = seed_of(all[k].name, i);
            assert_ok(ppo_agent_create(&env, &c, &agent));
            assert_int_equal(parameters(agent->model.params, memory_names, 8, then, 0, 1), MEMORY_NUMBERS);
            assert_ok(ppo_train(&env, &c, &agent));
            parameters(agent->model.params, memory_names, 8, one, 1, 0);
            stat_add(s, one);
            ppo_agent_free(agent);
        }
        stat_end(s, all[k].name, -1);
    }
}

int main(void) {
    stat_head("CONTROL");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_policy_gradient_of_the_tables_is_the_derivative_of_the_return),
        cmocka_unit_test(estimators_of_an_advantage_have_their_expectation),
        cmocka_unit_test(action_spaces_have_their_expectation),
        cmocka_unit_test(recurrent_policies_have_their_expectation),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    stat_foot();
    return failed;
}
