/* Section 15's variants of the algorithm: penalties that adapt, schedules, a critic of another pace or none at
   all, and the presets that put them together. */
#include "../ppo.h"

#include "test.h"

typedef struct bench {
    ppo_agent *agent;
    ppo_trainer *trainer;
    const ppo_rollout *rollout;
} bench;

static bench start_bench(const ppo_env *env, const ppo_config *cfg) {
    bench b = {NULL, NULL, NULL};
    assert_ok(ppo_agent_create(env, cfg, &b.agent));
    assert_ok(ppo_trainer_create(env, cfg, b.agent, &b.trainer));
    b.rollout = ppo_trainer_rollout(b.trainer);
    return b;
}

static void drop_bench(bench *b) {
    ppo_trainer_free(b->trainer);
    ppo_agent_free(b->agent);
}

/* --------------------------------------------------------------------------------------------------------
   The KL penalty that adapts
   -------------------------------------------------------------------------------------------------------- */

/* The mean KL(old || new) over the rollout of a policy without memory, from plain functions. */
static double kl_by_hand(bench *b, int box) {
    const ppo_rollout *r = b->rollout;
    const ppo_space *space = &b->agent->model.action_space;
    int n = r->steps * r->envs, cols = b->agent->model.actor.weight[1]->cols;
    double sum = 0;
    ppo_inputs inputs = {.rows = n, .obs = r->obs, .mask = r->mask};
    ppo_tape_reset(b->agent->tape);
    ppo_outputs out = ppo_actor_critic_forward(b->agent->tape, &b->agent->model, &inputs, PPO_POLICY);
    assert_ok(ppo_tape_status(b->agent->tape));
    for (int i = 0; i < n; i++) {
        const float *old = r->policy + i * cols, *now = out.policy->data + i * cols;
        float kl = 0;
        if (box) {
            const float *log_std = out.log_std->data + (out.log_std->rows > 1 ? i * cols : 0);
            assert_ok(ppo_gaussian_kl(old, r->log_std + i * cols, now, log_std, 1, cols, &kl));
        } else if (space->kind == PPO_DISCRETE) {
            assert_ok(ppo_categorical_kl(old, now, 1, cols, &kl));
        } else {
            assert_ok(ppo_multi_categorical_kl(old, now, space->sizes, space->n, 1, &kl));
        }
        sum += kl;
    }
    return sum / n;
}

static void the_reported_kl_is_the_exact_one_over_the_rollout_and_moves_the_penalty(void **state) {
    (void)state;
    const ppo_env envs[] = {walk_env(), dials_env(), reach_env(), reach_env(), lamps_env()};
    int halved = 0, doubled = 0, kept = 0;
    for (int i = 0; i < 2 * COUNT(envs); i++) {
        int kind = i % COUNT(envs), box = kind == 2 || kind == 3;
        ppo_config cfg = eight_environments(0);
        ppo_progress p;
        float coef = 0.25f;
        cfg.objective = PPO_KL_PENALTY, cfg.penalty_target_kl = 0.02f, cfg.kl_coef = coef;
        cfg.learning_rate = i < COUNT(envs) ? 3e-3f : 0.02f, cfg.gsde = kind == 3, cfg.epochs = 3;
        cfg.total_steps = 128 * 6;
        if (i % 3 == 0) /* minibatches so large that they are cut into parts */
            cfg.rollout_steps = 75, cfg.minibatch_size = 300, cfg.total_steps = 600 * 6, cfg.epochs = 15;
        bench b = start_bench(&envs[kind], &cfg);
        for (int n = 0; n < 6; n++) {
            assert_ok(ppo_trainer_iterate(b.trainer, &p));
            double kl = kl_by_hand(&b, box);
            assert_true(p.kl_coef == coef); /* as used in this iteration */
            assert_true(kl > 0 && fabs(p.kl - kl) < 1e-6 + 1e-5 * kl);
            float next = p.kl < 0.02f / 1.5f ? coef / 2 : p.kl > 0.02f * 1.5f ? coef * 2 : coef;
            halved += next<coef, doubled += next> coef, kept += next == coef;
            coef = next;
        }
        drop_bench(&b);
    }
    assert_true(halved > 9 && doubled > 9 && kept > 1);
}

/* A recurrent policy's KL is over its sequences: each step in the state that the rollout had before it. */
static void the_reported_kl_of_a_recurrent_policy_follows_its_sequences(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_config cfg = eight_environments(0);
    ppo_progress p;
    cfg.objective = PPO_KL_PENALTY, cfg.penalty_target_kl = 0.01f, cfg.recurrent = 4;
    cfg.sequence_steps = 16, cfg.num_envs = 3, cfg.rollout_steps = 16, cfg.total_steps = 48 * 3;
    cfg.learning_rate = 0.02f;
    bench b = start_bench(&env, &cfg);
    for (int n = 0; n < 3; n++) {
        static const int count[16] = {3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3};
        const ppo_rollout *r = b.rollout;
        float kl[48];
        double sum = 0;
        assert_ok(ppo_trainer_iterate(b.trainer, &p));
        /* time-major, as it lies */
        ppo_inputs inputs = {48, r->obs, NULL, {16, count, r->state, r->start}, NULL, 0, 0};
        ppo_tape_reset(b.agent->tape);
        ppo_outputs out = ppo_actor_critic_forward(b.agent->tape, &b.agent->model, &inputs, PPO_POLICY);
        assert_ok(ppo_categorical_kl(r->policy, out.policy->data, 48, 3, kl));
        for (int i = 0; i < 48; i++) sum += kl[i] / 48.0;
        assert_true(sum > 0 && fabs(p.kl - sum) < 1e-6 + 1e-5 * sum);
    }
    drop_bench(&b);
}

static void without_a_target_the_penalty_stays_and_no_kl_is_reported(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_config cfg = eight_environments(0);
    for (int i = 0; i < 2; i++) {
        cfg.objective = i == 0 ? PPO_KL_PENALTY : PPO_CLIP;
        cfg.kl_coef = i == 0 ? 0.75f : 1;
        log_of_run log = run_with_log(&env, cfg, 0);
        for (int n = 0; n < log.calls; n++) {
            assert_nan(log.p[n].kl);
            assert_true(log.p[n].kl_coef == cfg.kl_coef);
        }
    }
}

/* Always down, or always up: it must come back from there in a reasonable time, and break nothing. */
static void the_penalty_stays_within_bounds(void **state) {
    (void)state;
    for (int up = 0; up < 2; up++) {
        ppo_env env = walk_env();
        ppo_config cfg = tiny_config();
        log_of_run log;
        cfg.objective = PPO_KL_PENALTY, cfg.penalty_target_kl = up ? 1e-12f : 100, cfg.kl_coef = up ? 1 : 0;
        cfg.total_steps = 16 * 60, cfg.learning_rate_schedule = PPO_CONSTANT, cfg.learning_rate = 1e-3f;
        log = run_with_log(&env, cfg, 0);
        assert_true(log.p[59].kl_coef >= 1e-6f && log.p[59].kl_coef <= 1e6f);
    }
}

/* The policy's outputs are kept where a KL needs them, and are those of the policy that acted. */
static void a_rollout_keeps_the_outputs_of_the_policy_for_a_penalty_alone(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        ppo_env env = i / 2 == 0 ? fenced_env() : reach_env();
        ppo_config cfg = eight_environments(0);
        cfg.objective = i % 2 ? PPO_KL_PENALTY : PPO_CLIP, cfg.learning_rate = 0, cfg.gsde = i / 2 == 2;
        cfg.penalty_target_kl = i % 2 ? 0.01f : 0;
        bench b = start_bench(&env, &cfg);
        ppo_progress p;
        assert_ok(ppo_trainer_iterate(b.trainer, &p));
        const ppo_rollout *r = b.rollout;
        assert_true((r->policy != NULL) == i % 2 && (r->log_std != NULL) == (i % 2 && i > 1));
        if (i % 2) {
            int cols = i / 2 == 0 ? 3 : 2;
            ppo_inputs inputs = {.rows = 128, .obs = r->obs, .mask = r->mask};
            ppo_outputs out = ppo_actor_critic_forward(b.agent->tape, &b.agent->model, &inputs, PPO_POLICY);
            assert_ok(ppo_tape_status(b.agent->tape));
            assert_false(bits_differ(r->policy, out.policy->data, (size_t)(128 * cols)));
            for (int k = 0; k < 128 * 2 && r->log_std; k++)
                assert_true(r->log_std[k] == out.log_std->data[cfg.gsde ? k : k % 2]);
            assert_true(p.kl == 0); /* nothing was learned */
        }
        drop_bench(&b);
    }
}

/* --------------------------------------------------------------------------------------------------------
   Schedules
   -------------------------------------------------------------------------------------------------------- */

static void the_entropy_bonus_falls_as_scheduled_and_is_that_of_the_loss(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_config cfg = eight_environments(0);
    cfg.entropy_coef = 0.1f, cfg.value_coef = 0.3f, cfg.minibatch_size = 32;
    for (int schedule = PPO_CONSTANT; schedule <= PPO_COSINE; schedule++) {
        cfg.entropy_schedule = schedule;
        log_of_run log = run_with_log(&env, cfg, 0);
        assert_int_equal(log.calls, 4);
        for (int i = 0; i < 4; i++) {
            const ppo_progress *p = &log.p[i];
            double left = schedule == PPO_CONSTANT ? 1
                          : schedule == PPO_LINEAR ? 1 - i / 4.0
                                                   : 0.5 + 0.5 * cos(3.14159265358979 * i / 4);
            assert_close(p->entropy_coef, 0.1 * left, 1e-6);
            assert_close(p->loss, p->policy_loss + 0.3 * p->value_loss - 0.1 * left * p->entropy, 1e-5);
        }
    }
}

typedef struct asked {
    int setting;
    float initial, progress;
} asked;

static struct {
    asked calls[64];
    int count;
    float bad; /* given in place of the value of setting `bad_setting` from progress 0.5 on */
    int bad_setting;
} schedule_log;

static float my_schedule(int setting, float initial, float progress, void *user) {
    asked a = {setting, initial, progress};
    assert_true(user == &schedule_log && schedule_log.count < COUNT(schedule_log.calls));
    schedule_log.calls[schedule_log.count++] = a;
    if (setting == schedule_log.bad_setting && progress >= 0.5f) return schedule_log.bad;
    return initial / (1 + progress);
}

static ppo_config custom_schedules(void) {
    ppo_config cfg = eight_environments(0);
    cfg.learning_rate_schedule = cfg.clip_schedule = cfg.entropy_schedule = PPO_CUSTOM;
    cfg.clip_low = 0.1f, cfg.clip_high = 0.3f, cfg.entropy_coef = 0.05f;
    cfg.schedule = my_schedule, cfg.schedule_user = &schedule_log;
    memset(&schedule_log, 0, sizeof schedule_log);
    schedule_log.bad_setting = -1;
    return cfg;
}

static void a_schedule_of_ones_own_is_asked_for_every_setting_and_obeyed(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_config cfg = custom_schedules();
    log_of_run log = run_with_log(&env, cfg, 0);
    const float initial[] = {3e-3f, 0.1f, 0.3f, 0.05f}; /* in the order of the settings */
    assert_int_equal(schedule_log.count, 4 * 4);
    for (int i = 0; i < 4; i++) {
        int seen[4] = {0};
        for (int k = 4 * i; k < 4 * i + 4; k++) {
            asked a = schedule_log.calls[k];
            assert_in_range(a.setting, PPO_SETTING_LEARNING_RATE, PPO_SETTING_ENTROPY_COEF);
            seen[a.setting]++;
            assert_true(a.initial == initial[a.setting] && a.progress == 0.25f * (float)i);
        }
        for (int k = 0; k < 4; k++) assert_int_equal(seen[k], 1);
        double shrink = 1 / (1 + 0.25 * i);
        assert_close(log.p[i].learning_rate, 3e-3 * shrink, 1e-6);
        assert_close(log.p[i].clip_range, 0.3 * shrink, 1e-6);
        assert_close(log.p[i].entropy_coef, 0.05 * shrink, 1e-6);
    }
    cfg = custom_schedules(); /* and not about the settings with schedules of the library's */
    cfg.learning_rate_schedule = PPO_LINEAR, cfg.clip_schedule = PPO_CONSTANT;
    log = run_with_log(&env, cfg, 0);
    assert_int_equal(schedule_log.count, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(schedule_log.calls[i].setting, PPO_SETTING_ENTROPY_COEF);
        assert_close(log.p[i].learning_rate, 3e-3 * (1 - i / 4.0), 1e-6);
        assert_true(log.p[i].clip_range == 0.3f);
    }
}

/* That the clip range is not only reported: a range of 0 clips whatever moved at all. */
static float clip_nothing(int setting, float initial, float progress, void *user) {
    (void)initial, (void)progress, (void)user;
    return setting == PPO_SETTING_CLIP_LOW ? 0 : 1e6f;
}

static void both_ends_of_the_clip_follow_their_own_schedule(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_config cfg = eight_environments(0), never = cfg;
    cfg.clip_schedule = PPO_CUSTOM, cfg.schedule = clip_nothing;
    never.clip_low = 1, never.clip_high = 1e6f;
    log_of_run some = run_with_log(&env, cfg, 0), none = run_with_log(&env, never, 0);
    for (int i = 0; i < 4; i++) {
        assert_true(some.p[i].clip_fraction > 0.2f && some.p[i].clip_fraction < 0.8f);
        assert_true(none.p[i].clip_fraction == 0);
    }
}

static void a_schedule_that_gives_nonsense_is_refused(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -1e-6f};
    ppo_env env = walk_env();
    for (int i = 0; i < COUNT(bad) * 4; i++) {
        ppo_config cfg = custom_schedules();
        schedule_log.bad = bad[i % COUNT(bad)], schedule_log.bad_setting = i / COUNT(bad);
        bench b = start_bench(&env, &cfg);
        for (int n = 0; n < 2; n++) assert_ok(ppo_trainer_iterate(b.trainer, NULL));
        const size_t bytes = b.agent->model.params->count * sizeof(float);
        float *before = (float *)malloc(bytes);
        memcpy(before, b.agent->model.params->data, bytes);
        assert_fails(ppo_trainer_iterate(b.trainer, NULL), PPO_ERROR_ARGUMENT, "schedule|gave");
        assert_memory_equal(before, b.agent->model.params->data, bytes);
        schedule_log.bad_setting = -1;
        assert_ok(ppo_trainer_iterate(b.trainer, NULL)); /* nothing is broken by it */
        free(before);
        drop_bench(&b);
    }
    for (int i = 0; i < 3; i++) {
        ppo_config cfg = eight_environments(0);
        ppo_agent *agent = NULL;
        *(i == 0   ? &cfg.learning_rate_schedule
          : i == 1 ? &cfg.clip_schedule
                   : &cfg.entropy_schedule) = PPO_CUSTOM;
        assert_fails(ppo_train(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, "custom|config.schedule|NULL");
    }
}

/* --------------------------------------------------------------------------------------------------------
   The critic
   -------------------------------------------------------------------------------------------------------- */

/* The largest change of the parameters whose names begin so. */
static double moved(const bench *b, const float *before, const char *prefix) {
    const ppo_params *p = b->agent->model.params;
    double most = 0;
    for (int i = 0; i < p->tensor_count; i++) {
        const ppo_tensor *t = p->tensors[i];
        if (strncmp(p->names[i], prefix, strlen(prefix))) continue;
        for (int k = 0; k < t->rows * t->cols; k++)
            most = fmax(most, fabs((double)t->data[k] - before[t->data - p->data + k]));
    }
    return most;
}

/* Adam's first step is lr sign(g), but for eps: so it shows the rate. */
static void the_critic_learns_at_its_own_rate(void **state) {
    (void)state;
    static const float cases[][3] = {/* learning_rate, critic_learning_rate, the critic's then */
                                     {1e-3f, 0, 1e-3f},
                                     {1e-3f, 8e-3f, 8e-3f},
                                     {4e-3f, 5e-4f, 5e-4f}};
    for (int i = 0; i < 2 * COUNT(cases); i++) {
        ppo_env env = reach_env();
        ppo_config cfg = eight_environments(0);
        const float *rates = cases[i % COUNT(cases)];
        float before[512];
        cfg.learning_rate = rates[0], cfg.critic_learning_rate = rates[1],
        cfg.shared_trunk = i >= COUNT(cases);
        cfg.minibatch_size = 0, cfg.epochs = 1, cfg.adam_eps = 1e-9f, cfg.max_grad_norm = 0;
        cfg.learning_rate_schedule = PPO_LINEAR;
        bench b = start_bench(&env, &cfg);
        assert_true(b.agent->model.params->count <= COUNT(before));
        memcpy(before, b.agent->model.params->data, b.agent->model.params->count * sizeof(float));
        assert_ok(ppo_trainer_iterate(b.trainer, NULL));
        assert_close(moved(&b, before, "actor."), rates[0], 1e-3);
        assert_close(moved(&b, before, "critic."), rates[2], 1e-3);
        if (cfg.shared_trunk) assert_close(moved(&b, before, "trunk."), rates[0], 1e-3);
        drop_bench(&b);
    }
}

/* Both rates follow the one schedule: towards the end of a run neither network moves any more. */
/* rsl_rl's rule: 7 of 8 steps of an iteration come after a KL above 0, and all of the next one but its first. */
static void the_learning_rate_follows_the_kl(void **state) {
    (void)state;
    const ppo_env env = walk_env();
    for (int k = 0; k < 2; k++) {
        ppo_config cfg = ppo_config_default();
        ppo_progress progress;
        double want = 3e-4;
        cfg.num_envs = 4, cfg.rollout_steps = 32, cfg.epochs = 4;
        cfg.learning_rate_schedule = PPO_CONSTANT;
        cfg.lr_target_kl = k ? 1e6f : 1e-12f; /* always too little, too much */
        bench b = start_bench(&env, &cfg);
        for (int i = 0; i < 2; i++) {
            assert_ok(ppo_trainer_iterate(b.trainer, &progress));
            assert_int_equal(progress.gradient_steps, 8 * (i + 1));
            for (int j = 0; j < 7; j++) want = k ? fmin(want * 1.5, 1e-2) : fmax(want / 1.5, 1e-5);
            assert_close(progress.learning_rate, want, 1e-5);
        }
        drop_bench(&b);
    }
}

static void the_critics_rate_is_scheduled_alike(void **state) {
    (void)state;
    ppo_env env = reach_env();
    ppo_config cfg = eight_environments(0);
    double first[2], last[2];
    cfg.learning_rate = 1e-3f, cfg.critic_learning_rate = 4e-3f, cfg.minibatch_size = 0, cfg.epochs = 1;
    cfg.adam_beta1 = 0, cfg.adam_beta2 = 0, cfg.adam_eps = 1e-9f, cfg.total_steps = 128 * 10; /* lr sign(g) */
    bench b = start_bench(&env, &cfg);
    for (int n = 0; n < 10; n++) {
        float before[512];
        memcpy(before, b.agent->model.params->data, b.agent->model.params->count * sizeof(float));
        assert_ok(ppo_trainer_iterate(b.trainer, NULL));
        last[0] = moved(&b, before, "actor."), last[1] = moved(&b, before, "critic.");
        if (n == 0) memcpy(first, last, sizeof first);
        for (int k = 0; k < 2; k++) assert_close(last[k], first[k] * (1 - n / 10.0), 1e-2);
    }
    assert_close(first[1], 4 * first[0], 1e-3);
    drop_bench(&b);
}

/* The critic's rate is a multiple of the other: there is none of 0. */
static void a_rate_of_the_critic_alone_is_refused_not_forgotten(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    cfg.learning_rate = 0, cfg.critic_learning_rate = 1e-3f;
    assert_fails(ppo_train(&env, &cfg, &agent), PPO_ERROR_ARGUMENT,
                 "critic_learning_rate|learning_rate is 0");
}

static void without_a_critic_the_advantage_is_the_discounted_return_that_followed(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        ppo_env env = i % 2 ? reach_env() : walk_env(); /* truncated; ended both ways */
        ppo_config cfg = eight_environments(0);
        float before[1024];
        assert_ok(ppo_config_preset(&cfg, "reinforce"));
        cfg.gamma = 0.9f, cfg.shared_trunk = i / 2, cfg.total_steps = 128 * 2;
        bench b = start_bench(&env, &cfg);
        ppo_progress p;
        memcpy(before, b.agent->model.params->data, b.agent->model.params->count * sizeof(float));
        assert_ok(ppo_trainer_iterate(b.trainer, &p));
        const ppo_rollout *r = b.rollout;
        double sum = 0;
        int count = 0;
        for (int e = 0; e < 8; e++) {
            double to_go = 0;
            int ended = 0;
            for (int t = 15; t >= 0; t--) {
                int at = 8 * t + e;
                if (r->terminated[at] || r->truncated[at]) to_go = 0, ended = 1;
                to_go = r->reward[at] + 0.9f * to_go;
                assert_true(fabs(r->advantage[at] - to_go) < 1e-5 * fmax(1, fabs(to_go)));
                if (ended) sum += to_go, count++; /* what followed the others is not known yet */
            }
        }
        assert_in_range(count, 1, 127);
        /* one step on all of these, neither shifted nor scaled */
        assert_true(fabs(p.policy_loss + sum / count) < 1e-5);
        assert_true(p.value_loss == 0 && p.gradient_steps == 1);
        assert_true(moved(&b, before, "critic.") == 0 && moved(&b, before, "actor.") > 1e-4);
        drop_bench(&b);
    }
}

/* Whole episodes alone are learned from, also by policies with memory, in minibatches of any size. */
static void without_a_critic_unfinished_episodes_are_left_out(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        ppo_env env = ticks_env(i % 2 ? 40 : 7); /* every reward is 1; longer or shorter than a rollout */
        ppo_config cfg = eight_environments(0);
        float before[1024];
        assert_ok(ppo_config_preset(&cfg, "reinforce"));
        cfg.gamma = 1, cfg.total_steps = 128 * 3, cfg.normalize_advantage = i / 2 == 2;
        if (i / 2) cfg.recurrent = 3, cfg.sequence_steps = 5, cfg.minibatch_size = 20;
        bench b = start_bench(&env, &cfg);
        ppo_params *params = b.agent->model.params;
        ppo_progress p;
        assert_true(params->count <= COUNT(before));
        for (int k = 0; k < 3; k++) {
            memcpy(before, params->data, params->count * sizeof(float));
            assert_ok(ppo_trainer_iterate(b.trainer, &p));
            int ends = 0, first = k * 16; /* all environments are alike; steps 40 and 80, or 7, 14, ... end */
            for (int t = first; t < first + 16; t++) ends += (t + 1) % (i % 2 ? 40 : 7) == 0;
            assert_int_equal(p.epochs, ends > 0);
            assert_int_equal(bits_differ(before, params->data, params->count), ends > 0);
            assert_true(isfinite(p.policy_loss) && isfinite(p.loss));
            if (!ends) assert_true(p.policy_loss == 0 && p.entropy == 0);
            /* two whole episodes of 7 in the first rollout: returns 7, 6, ..., 1 twice */
            if (i == 0 && k == 0) assert_close(p.policy_loss, -4, 1e-5);
        }
        drop_bench(&b);
    }
}

static void without_a_critic_its_values_do_not_matter(void **state) {
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        ppo_env env = walk_env();
        ppo_config cfg = eight_environments(0);
        assert_ok(ppo_config_preset(&cfg, "reinforce"));
        cfg.shared_trunk = shared;
        bench b[2];
        for (int k = 0; k < 2; k++) {
            b[k] = start_bench(&env, &cfg);
            ppo_params *params = b[k].agent->model.params;
            for (int i = 0; i < params->tensor_count && k; i++)
                if (strncmp(params->names[i], "critic.", 7) == 0) params->tensors[i]->data[0] = NAN;
            assert_ok(ppo_trainer_iterate(b[k].trainer, NULL));
        }
        for (int i = 0; i < 128; i++)
            assert_true(b[1].rollout->value[i] == 0 && b[1].rollout->next_value[i] == 0);
        assert_false(bits_differ(b[0].agent->model.actor.weight[0]->data,
                                 b[1].agent->model.actor.weight[0]->data,
                                 (size_t)b[0].agent->model.actor.weight[0]->cols));
        drop_bench(&b[0]);
        drop_bench(&b[1]);
    }
}

static void huber_delta_bounds_the_value_loss_of_the_trainer(void **state) {
    (void)state;
    ppo_env env = ticks_env(15); /* returns far from a fresh critic's 0 */
    ppo_config cfg = eight_environments(0);
    for (int i = 0; i < 3; i++) {
        ppo_progress p;
        float want;
        cfg.huber_delta = i ? 0.5f : 0, cfg.value_clip = i == 2 ? 0.1f : 0;
        cfg.learning_rate = 0, cfg.minibatch_size = 32;
        bench b = start_bench(&env, &cfg);
        assert_ok(ppo_trainer_iterate(b.trainer, &p));
        assert_ok(ppo_huber_value_loss(b.rollout->value, b.rollout->value, b.rollout->value_target, NULL, 128,
                                       cfg.value_clip, i ? 0.5f : INFINITY, &want, NULL));
        assert_close(p.value_loss, want, 1e-5);
        drop_bench(&b);
    }
    cfg = eight_environments(0); /* a delta beyond every error is none, to the bit */
    ppo_agent *plain = trained(&env, &cfg);
    cfg.huber_delta = 1e6f;
    ppo_agent *huge = trained(&env, &cfg);
    cfg.huber_delta = 0.01f;
    ppo_agent *small = trained(&env, &cfg);
    assert_false(agents_differ(plain, huge));
    assert_true(agents_differ(plain, small));
    ppo_agent_free(plain);
    ppo_agent_free(huge);
    ppo_agent_free(small);
}

/* --------------------------------------------------------------------------------------------------------
   Other settings
   -------------------------------------------------------------------------------------------------------- */

static void a_minibatch_size_of_0_is_the_whole_rollout(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_config cfg = eight_environments(0);
    cfg.total_steps += 50; /* the last rollout is a short one, and still one minibatch */
    cfg.minibatch_size = 128;
    ppo_agent *all = trained(&env, &cfg);
    cfg.minibatch_size = 0;
    ppo_agent *zero = trained(&env, &cfg);
    assert_false(agents_differ(all, zero));
    assert_int_equal(zero->model.params->step, 5 * cfg.epochs);
    ppo_agent_free(all);
    ppo_agent_free(zero);
}

static void the_reported_deviation_is_that_of_the_policy(void **state) {
    (void)state;
    ppo_env reach = reach_env(), walk = walk_env();
    ppo_config cfg = eight_environments(0);
    cfg.learning_rate = 0;
    assert_true(run_with_log(&walk, cfg, 1).p[0].std == 0);
    cfg.log_std_init = -1;
    for (cfg.gsde = 0; cfg.gsde < 2; cfg.gsde++)
        assert_close(run_with_log(&reach, cfg, 1).p[0].std, exp(-1), 1e-6);
    ppo_progress p;
    cfg.gsde = 0;
    bench b = start_bench(&reach, &cfg);
    b.agent->model.log_std->data[1] = 0.5f;
    assert_ok(ppo_trainer_iterate(b.trainer, &p));
    assert_close(p.std, 0.5 * (exp(-1) + exp(0.5)), 1e-6);
    drop_bench(&b);
}

static void initial_weights_are_as_configured(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_config cfg = tiny_config();
    double size[2] = {0};
    for (cfg.init = PPO_ORTHOGONAL; cfg.init <= PPO_UNIFORM; cfg.init++) {
        ppo_agent *agent = NULL;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        for (int i = 0; i < 21; i++)
            size[cfg.init] += fabs((double)agent->model.actor.weight[1]->data[i]) / 21;
        assert_true((agent->model.actor.bias[0]->data[0] == 0) == (cfg.init == PPO_ORTHOGONAL));
        ppo_agent_free(agent);
    }
    assert_true(size[0] < 0.01 && size[1] > 0.1); /* a gain of 0.01; up to 1 / sqrt(7) */
    assert_ok(ppo_config_set(&cfg, "init", "orthogonal"));
    assert_int_equal(cfg.init, PPO_ORTHOGONAL);
}

/* --------------------------------------------------------------------------------------------------------
   A critic that sees more than the actor (Pinto et al. 2017)
   -------------------------------------------------------------------------------------------------------- */

enum { SEEN = 4, SECRET = 3, ALL = SEEN + SECRET };

static ppo_env secret_env(void) {
    ppo_env env = {.obs_size = ALL, .actor_obs = SEEN, .action_space = ppo_discrete(3), .shape = {1, 2, 2}};
    return env;
}

static void the_critic_alone_reads_the_rest_of_an_observation(void **state) {
    (void)state;
    static const char *const kinds[] = {"", "shared_trunk=yes", "recurrent=4", "conv=3x2x1 hidden=none"};
    for (int k = 0; k < COUNT(kinds); k++) {
        const ppo_env env = secret_env();
        ppo_config cfg = ppo_config_default();
        ppo_agent *agent = NULL;
        ppo_rng rng = test_rng((uint32_t)k);
        float obs[2 * ALL], value[2];
        assert_ok(ppo_config_set_all(&cfg, "hidden=6 normalize_obs=yes"));
        assert_ok(ppo_config_set_all(&cfg, kinds[k]));
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        const ppo_actor_critic *model = &agent->model;
        fill_normal(&rng, obs, ALL, 1);
        memcpy(obs + ALL, obs, ALL * sizeof(float));
        obs[2 * ALL - 1] += 1;
        ppo_outputs out = ask(agent->tape, model, obs, 2);
        assert_ok(ppo_tape_status(agent->tape));
        assert_memory_equal(out.policy->data, out.policy->data + 3, 3 * sizeof(float));
        assert_true(out.value->data[0] != out.value->data[1]);
        memcpy(value, out.value->data, sizeof value);
        if (k == 0) { /* nothing is shared: the critic's own layers read the observation as it is */
            ppo_tensor *whole = ppo_tape_constant(agent->tape, obs, 2, ALL);
            assert_memory_equal(ppo_mlp_forward(agent->tape, &model->critic, whole)->data, value,
                                sizeof value);
        }
        if (k == 2) { /* the core's state, then the rest */
            float both[4 + SECRET];
            memcpy(both, out.state->data, 4 * sizeof(float));
            memcpy(both + 4, obs + SEEN, SECRET * sizeof(float));
            ppo_tensor *whole = ppo_tape_constant(agent->tape, both, 1, 4 + SECRET);
            assert_memory_equal(ppo_mlp_forward(agent->tape, &model->critic, whole)->data, value,
                                sizeof *value);
        }
        ppo_agent_free(agent);
    }
}

static ppo_tensor *concat_twice(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    (void)user;
    ppo_tensor *both = ppo_tape_concat(tape, in[0], in[1]);
    return ppo_tape_mean(tape, ppo_tape_mul(tape, both, ppo_tape_concat(tape, in[2], in[2])));
}

static void columns_are_put_side_by_side_and_their_gradients_apart(void **state) {
    (void)state;
    float data[20], grad[20] = {0};
    ppo_rng rng = test_rng(50);
    ppo_tensor a = {2, 1, data, grad}, b = {2, 5, data + 2, grad + 2}, c = {2, 3, data + 12, grad + 12};
    ppo_tensor *in[] = {&a, &b, &c};
    ppo_tape *tape = NULL;
    fill_normal(&rng, data, COUNT(data), 1);
    assert_ok(ppo_check_gradients(concat_twice, in, 3, NULL, 1e-2f, 1e-2f, NULL));
    assert_ok(ppo_tape_create(&tape));
    const float *y = ppo_tape_concat(tape, &a, &b)->data;
    assert_true(y[0] == data[0] && y[1] == data[2] && y[5] == data[6] && y[6] == data[1] && y[7] == data[7]);
    a.rows = 1;
    assert_null(ppo_tape_concat(tape, &a, &b));
    assert_fails(ppo_tape_status(tape), PPO_ERROR_ARGUMENT, "concat|(1, 1)|(2, 5)");
    ppo_tape_free(tape);
}

static void the_actor_acts_on_its_part_alone(void **state) {
    (void)state;
    const ppo_env env = secret_env();
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_rng rng = test_rng(9);
    cfg.normalize_obs = 1;
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    for (int j = 0; j < ALL; j++) agent->obs_norm.mean[j] = j, agent->obs_norm.var[j] = 1 + j;
    float obs[50 * SEEN];
    int together[50];
    fill_normal(&rng, obs, COUNT(obs), 5);
    assert_ok(ppo_act_many(agent, obs, NULL, 50, NULL, NULL, &(ppo_actions){together, NULL}));
    for (int i = 0, ones = 0; i < 50; i++) {
        ppo_action action;
        float view[ALL] = {0};
        for (int j = 0; j < SEEN; j++) view[j] = (obs[i * SEEN + j] - (float)j) / sqrtf(1 + (float)j);
        assert_ok(ppo_act(agent, obs + i * SEEN, NULL, &action));
        assert_int_equal(action.discrete, together[i]);
        const float *logits = ask(agent->tape, &agent->model, view, 1).policy->data;
        assert_int_equal(action.discrete, ppo_categorical_mode(logits, 3));
        ones += action.discrete == 1;
        assert_true(i < 49 || (ones > 0 && ones < 50));
    }
    ppo_agent_free(agent);
}

static void an_actors_part_that_does_not_fit_is_refused(void **state) {
    (void)state;
    ppo_env env = secret_env(), other = env;
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL, *open = NULL;
    env.actor_obs = ALL + 1;
    assert_fails(ppo_agent_create(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, "actor_obs is 8|obs_size, 7");
    env.actor_obs = -1;
    assert_fails(ppo_agent_create(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, "actor_obs is -1");
    env.actor_obs = 3;
    assert_fails(ppo_agent_create(&env, &cfg, &agent), PPO_ERROR_ARGUMENT, "1 x 2 x 2|3 numbers");
    memset(other.shape, 0, sizeof other.shape);
    other.actor_obs = 0;
    assert_ok(ppo_agent_create(&other, &cfg, &open));
    env = secret_env();
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_fails(ppo_agent_assign(open, agent), PPO_ERROR_ARGUMENT, "sees 7 numbers|other agent 4");
    assert_fails(ppo_train(&(ppo_env){.obs_size = ALL, .action_space = ppo_discrete(3)}, &cfg, &agent),
                 PPO_ERROR_ARGUMENT, "sees 4 numbers|environment 7");
    ppo_agent_free(agent);
    ppo_agent_free(open);
}

/* --------------------------------------------------------------------------------------------------------
   Layer norm, and activations
   -------------------------------------------------------------------------------------------------------- */

static double activated(double x, int activation) {
    switch (activation) {
    case PPO_TANH:
        return tanh(x);
    case PPO_RELU:
        return x > 0 ? x : 0;
    case PPO_GELU:
        return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case PPO_GELU_ERF:
        return 0.5 * x * erfc(-x * sqrt(0.5));
    case PPO_SILU:
        return x / (1 + exp(-x));
    case PPO_ELU:
        return x > 0 ? x : expm1(x);
    default:
        return x;
    }
}

/* activation(norm(x w + b)) of one row, in double precision. */
static void layer_by_hand(const ppo_mlp *mlp, int k, int activation, double *x) {
    const ppo_tensor *w = mlp->weight[k];
    double y[16], mean = 0, var = 0;
    for (int j = 0; j < w->cols; j++) {
        y[j] = mlp->bias[k]->data[j];
        for (int i = 0; i < w->rows; i++) y[j] += x[i] * w->data[i * w->cols + j];
    }
    for (int j = 0; j < w->cols; j++) mean += y[j] / w->cols;
    for (int j = 0; j < w->cols; j++) var += (y[j] - mean) * (y[j] - mean) / w->cols;
    for (int j = 0; j < w->cols; j++) {
        if (mlp->norm_weight[k])
            y[j] =
                (y[j] - mean) / sqrt(var + 1e-5) * mlp->norm_weight[k]->data[j] + mlp->norm_bias[k]->data[j];
        x[j] = activated(y[j], activation);
    }
}

static ppo_tensor *spread_of_policy(ppo_tape *tape, ppo_tensor *const *in, void *user) {
    static const float obs[6] = {0.3f, -0.8f, 1.4f, -0.2f, 0.5f, 0.9f};
    (void)in;
    ppo_outputs out = ask(tape, (const ppo_actor_critic *)user, obs, 3);
    return ppo_tape_add(tape, ppo_tape_mean(tape, ppo_tape_square(tape, out.policy)),
                        ppo_tape_mean(tape, ppo_tape_square(tape, out.value)));
}

static void layers_with_layer_norm_follow_the_formula_and_its_gradient(void **state) {
    (void)state;
    const ppo_env env = walk_env();
    for (int a = 0; a < 2 * PPO__ACTIVATIONS; a++) {
        ppo_config cfg = ppo_config_default();
        ppo_agent *agent = NULL;
        ppo_rng rng = test_rng((uint32_t)a);
        assert_ok(ppo_config_set_all(&cfg, "hidden=5,4,6,3,5 layer_norm=yes"));
        cfg.activation = a % PPO__ACTIVATIONS, cfg.shared_trunk = a >= PPO__ACTIVATIONS;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        ppo_params *params = agent->model.params;
        const float fresh = cfg.shared_trunk ? agent->model.trunk.norm_weight[4]->data[4]
                                             : agent->model.critic.norm_weight[4]->data[4];
        assert_true(fresh == 1);
        for (size_t i = 0; i < params->count; i++) params->data[i] += 0.4f * ppo_rng_normal(&rng);
        double x[16] = {0.7, -1.2};
        const float obs[2] = {0.7f, -1.2f};
        const float *y = ask(agent->tape, &agent->model, obs, 1).policy->data;
        for (int k = 0; k < 5; k++)
            layer_by_hand(cfg.shared_trunk ? &agent->model.trunk : &agent->model.actor, k, cfg.activation, x);
        assert_null(agent->model.actor.norm_weight[cfg.shared_trunk ? 0 : 5]); /* the head has none */
        layer_by_hand(&agent->model.actor, cfg.shared_trunk ? 0 : 5, PPO_IDENTITY, x);
        for (int j = 0; j < 3; j++) assert_true(fabs(y[j] - x[j]) < 1e-4 * (1 + fabs(x[j])));
        if (cfg.activation != PPO_RELU) /* whose kinks no difference quotient knows */
            for (int i = 0; i < params->tensor_count; i += 3)
                assert_ok(ppo_check_gradients(spread_of_policy, &params->tensors[i], 1, &agent->model, 3e-3f,
                                              0.03f, NULL));
        ppo_agent_free(agent);
    }
    ppo_tape *tape = NULL;
    ppo_tensor one = {1, 1, (float[1]){1}, NULL};
    assert_ok(ppo_tape_create(&tape));
    assert_null(ppo_tape_activate(tape, &one, PPO__ACTIVATIONS));
    assert_fails(ppo_tape_status(tape), PPO_ERROR_ARGUMENT, "activate|no activation");
    ppo_tape_free(tape);
}

/* --------------------------------------------------------------------------------------------------------
   Advantages that are computed anew before each epoch (Andrychowicz 2021)
   -------------------------------------------------------------------------------------------------------- */

static void each_epoch_has_advantages_by_the_critic_as_it_is(void **state) {
    (void)state;
    static const char *const kinds[] = {"", "normalize_obs=yes", "recurrent=4 sequence_steps=5"};
    for (int k = 0; k < COUNT(kinds); k++) {
        ppo_env env = walk_env();
        ppo_config cfg = ppo_config_default();
        assert_ok(ppo_config_set_all(&cfg, "num_envs=3 rollout_steps=25 minibatch_size=20 hidden=8 epochs=1 "
                                           "learning_rate=0.01 total_steps=300"));
        assert_ok(ppo_config_set_all(&cfg, kinds[k]));
        env.max_steps = 4;
        bench first = start_bench(&env, &cfg), both;
        cfg.epochs = 2, cfg.recompute_advantages = 1;
        both = start_bench(&env, &cfg);
        const ppo_rollout *a = first.rollout, *r = both.rollout;
        float before[75], value[75], advantage[75], target[75], next[75];
        int alone = 0, n = 75, width = cfg.recurrent;
        ppo_agent *untrained = NULL;
        assert_ok(ppo_agent_copy(first.agent, &untrained));
        assert_ok(ppo_trainer_iterate(first.trainer, NULL));
        assert_ok(ppo_trainer_iterate(both.trainer, NULL));
        memcpy(before, a->value, sizeof before);
        for (int i = 0; i < n; i++) {
            ppo_inputs row = {.rows = 1, .obs = r->obs + 2 * i},
                       after = {.rows = 1, .obs = r->next_obs + 2 * i};
            if (width) {
                row.sequences.state = r->state + i * width, row.sequences.start = r->start + i;
                after.sequences.state = r->next_state + i * width;
            }
            const int own = !r->terminated[i] && (r->truncated[i] || i >= n - 3);
            ppo_tape_reset(first.agent->tape);
            value[i] = ppo_actor_critic_forward(first.agent->tape, &first.agent->model, &row, PPO_VALUE)
                           .value->data[0];
            next[i] = ppo_actor_critic_forward(first.agent->tape, &first.agent->model, &after, PPO_VALUE)
                          .value->data[0];
            if (own) { /* what is kept is what the first values were of */
                ppo_tape_reset(untrained->tape);
                assert_true(a->next_value[i] ==
                            ppo_actor_critic_forward(untrained->tape, &untrained->model, &after, PPO_VALUE)
                                .value->data[0]);
                alone++;
            }
        }
        for (int i = 0; i < n; i++)
            if (r->terminated[i]) next[i] = 0;
            else if (!r->truncated[i] && i < n - 3) next[i] = value[i + 3];
        assert_true(alone > 8 && memcmp(before, value, sizeof value));
        assert_memory_equal(r->value, value, sizeof value);
        assert_memory_equal(r->next_value, next, sizeof next);
        assert_ok(ppo_gae(r->reward, value, next, r->terminated, r->truncated, 25, 3, cfg.gamma,
                          cfg.gae_lambda, advantage, target));
        assert_memory_equal(r->advantage, advantage, sizeof advantage);
        assert_memory_equal(r->value_target, target, sizeof target);
        for (int more = 0; more < 3; more++) { /* nothing stays of the rollout before */
            assert_ok(ppo_trainer_iterate(both.trainer, NULL));
            for (int i = 0; i < n - 3; i++) {
                if (r->truncated[i]) continue;
                for (int j = 0; j < 2; j++) assert_true(r->next_obs[2 * i + j] == 0);
                for (int j = 0; j < width; j++) assert_true(r->next_state[width * i + j] == 0);
            }
        }
        ppo_agent_free(untrained);
        drop_bench(&first);
        drop_bench(&both);
    }
}

/* --------------------------------------------------------------------------------------------------------
   Robust policy optimization (Rahman and Xue 2022)
   -------------------------------------------------------------------------------------------------------- */

static void the_update_sees_means_that_moved_by_uniform_noise(void **state) {
    (void)state;
    enum { N = 3 * 40, DIM = 2 };
    const ppo_env env = reach_env();
    ppo_config cfg = ppo_config_default();
    ppo_progress p, plain;
    assert_ok(ppo_config_set_all(&cfg, "num_envs=3 rollout_steps=40 minibatch_size=0 hidden=8 epochs=1 "
                                       "total_steps=120 rpo_alpha=0.5"));
    bench b = start_bench(&env, &cfg);
    cfg.rpo_alpha = 0;
    bench without = start_bench(&env, &cfg);
    const ppo_rollout *r = b.rollout;
    ppo_rng rng = ppo_rng_stream(cfg.seed, PPO_STREAM_SHUFFLE, 0);
    int order[N];
    double least = 1e9, most = 0, kl = 0, spread = 0;
    ppo_agent *before = NULL;
    assert_ok(ppo_agent_copy(b.agent, &before));
    assert_ok(ppo_trainer_iterate(b.trainer, &p));
    assert_ok(ppo_trainer_iterate(without.trainer, &plain));
    assert_memory_equal(r->obs, without.rollout->obs, N * sizeof(float)); /* acting is not touched */
    assert_memory_equal(r->actions.box, without.rollout->actions.box, N * DIM * sizeof(float));
    assert_true(plain.first_ratio_min == 1 && plain.first_ratio_max == 1);
    for (int i = 0; i < N; i++) order[i] = i;
    ppo_rng_shuffle(&rng, order, N);
    const float *mean = ask(before->tape, &before->model, r->obs, N).policy->data;
    for (int i = 0; i < N; i++) {
        float moved[DIM], logp;
        for (int j = 0; j < DIM; j++) {
            const float noise = ppo_rng_range(&rng, -0.5f, 0.5f);
            moved[j] = mean[order[i] * DIM + j] + noise;
            spread += noise * noise / (N * DIM);
        }
        assert_ok(ppo_gaussian_logp(moved, before->model.log_std->data, r->actions.box + order[i] * DIM, 1,
                                    DIM, &logp, NULL));
        const double l = (double)logp - r->logp[order[i]];
        least = fmin(least, exp(l)), most = fmax(most, exp(l)), kl += (exp(l) - 1 - l) / N;
    }
    assert_true(fabs(spread - 1.0 / 12) < 0.02); /* the variance of the noise */
    assert_true(fabs(p.first_ratio_min - least) < 1e-4 && fabs(p.first_ratio_max - most) < 1e-4 * most);
    assert_true(most > 1.2 && least < 0.8 && fabs(p.approx_kl - kl) < 1e-4 * (1 + kl));
    ppo_agent_free(before);
    drop_bench(&b);
    drop_bench(&without);
}

/* --------------------------------------------------------------------------------------------------------
   Presets
   -------------------------------------------------------------------------------------------------------- */

#define GRADIENT                                                                     \
    "objective=unclipped epochs=1 minibatch_size=0 learning_rate_schedule=constant " \
    "normalize_advantage=no gae_lambda=1 target_kl=0 dual_clip=0 kl_coef=1 penalty_target_kl=0 "
#define PAPER                                                                                             \
    "num_envs=1 rollout_steps=2048 minibatch_size=64 epochs=10 learning_rate=0.0003 "                     \
    "learning_rate_schedule=constant gamma=0.99 gae_lambda=0.95 hidden=64,64 activation=tanh "            \
    "shared_trunk=no entropy_coef=0 entropy_schedule=constant use_critic=yes value_coef=0.5 target_kl=0 " \
    "dual_clip=0 "

static const char *const presets[][2] = {
    {"reinforce", GRADIENT "use_critic=no learning_rate=0.003 max_grad_norm=0 value_coef=0.5 value_clip=0 "
                           "huber_delta=0 critic_learning_rate=0 "},
    {"reinforce-baseline", GRADIENT "use_critic=yes learning_rate=0.003 max_grad_norm=0 "},
    {"a2c", GRADIENT
     "use_critic=yes num_envs=16 rollout_steps=5 learning_rate=0.0007 value_coef=1 max_grad_norm=0.5 "},
    {"ppo-paper", PAPER "objective=clip clip_low=0.2 clip_high=0.2 clip_schedule=constant kl_coef=1 "
                        "penalty_target_kl=0 "},
    {"ppo-paper-fixed-kl", PAPER "objective=kl-penalty kl_coef=3 penalty_target_kl=0 "},
    {"ppo-paper-adaptive-kl", PAPER "objective=kl-penalty kl_coef=1 penalty_target_kl=0.01 "},
    {"ppo-paper-unclipped", PAPER "objective=unclipped kl_coef=1 penalty_target_kl=0 "}};

/* A value for every field that no preset has. */
static ppo_config unusual(void) {
    ppo_config cfg = ppo_config_default();
    cfg.total_steps = 777, cfg.num_envs = 3, cfg.rollout_steps = 33, cfg.minibatch_size = 9, cfg.epochs = 7;
    cfg.learning_rate = 0.123f, cfg.learning_rate_schedule = PPO_COSINE, cfg.critic_learning_rate = 0.2f;
    cfg.gamma = 0.5f, cfg.gae_lambda = 0.25f, cfg.objective = PPO_CLIP, cfg.clip_low = 0.11f;
    cfg.clip_high = 0.33f, cfg.clip_schedule = PPO_LINEAR, cfg.dual_clip = 3, cfg.kl_coef = 0.17f;
    cfg.penalty_target_kl = 0.5f, cfg.target_kl = 0.07f, cfg.value_coef = 0.77f, cfg.value_clip = 0.6f;
    cfg.huber_delta = 5, cfg.entropy_coef = 0.09f, cfg.entropy_schedule = PPO_COSINE;
    cfg.normalize_advantage = 1, cfg.max_grad_norm = 0.9f, cfg.hidden[0] = 5, cfg.hidden_layers = 1;
    cfg.activation = PPO_RELU, cfg.shared_trunk = 1, cfg.seed = 99, cfg.weight_decay = 0.3f;
    return cfg;
}

/* The text after "name=" among settings; NULL: they do not speak of it. */
static const char *setting_in(const char *settings, const char *name, char *value) {
    size_t length = strlen(name);
    for (const char *at = settings; *at; at += strcspn(at, " ") + 1) {
        if (strncmp(at, name, length) || at[length] != '=') continue;
        snprintf(value, 64, "%.*s", (int)strcspn(at + length + 1, " "), at + length + 1);
        return value;
    }
    return NULL;
}

static void a_preset_sets_what_it_says_and_leaves_the_rest(void **state) {
    (void)state;
    int count, spoken = 0;
    const ppo_field *fields = ppo_config_settings()->field;
    count = ppo_config_settings()->count;
    for (int i = 0; i < COUNT(presets); i++) {
        ppo_config before = unusual(), after = before;
        assert_ok(ppo_config_preset(&after, presets[i][0]));
        assert_ok(ppo_config_check(&after));
        assert_ok(ppo_config_check_effect(&after, NULL, NULL)); /* whatever it was before */
        for (int k = 0; k < count; k++) {
            char is[64], was[64], value[64];
            const char *want = setting_in(presets[i][1], fields[k].name, value);
            assert_ok(ppo_config_get(&after, fields[k].name, is, sizeof is));
            assert_ok(ppo_config_get(&before, fields[k].name, was, sizeof was));
            if (strcmp(is, want ? want : was))
                fail_msg("%s: %s is %s, not %s", presets[i][0], fields[k].name, is, want ? want : was);
            spoken += want != NULL;
        }
    }
    assert_true(spoken > 60);
}

static void presets_are_known_by_their_names_alone(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "", "ppo", "reinforce|reinforce-baseline", "reinforce ", "PPO-paper", "a2", "a2c|"};
    char names[512] = "";
    for (int i = 0; i < COUNT(presets); i++) {
        strcat(names, i ? "|" : "");
        strcat(names, presets[i][0]);
    }
    assert_string_equal(ppo_config_settings()->preset_names, names);
    for (int i = 0; i < COUNT(wrong); i++) {
        ppo_config cfg = unusual(), before = cfg;
        assert_fails(ppo_config_preset(&cfg, wrong[i]), PPO_ERROR_ARGUMENT, "preset|ppo-paper-fixed-kl");
        assert_memory_equal(&cfg, &before, sizeof cfg);
    }
    ppo_config cfg = ppo_config_default();
    assert_fails(ppo_config_preset(&cfg, "ppo2"), PPO_ERROR_ARGUMENT, "\"ppo2\"");
    assert_fails(ppo_config_preset(NULL, "a2c"), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_config_preset(&cfg, NULL), PPO_ERROR_ARGUMENT, "NULL");
}

static void every_preset_trains_with_choices_and_with_numbers(void **state) {
    (void)state;
    const ppo_env envs[] = {walk_env(), reach_env(), dials_env()};
    for (int i = 0; i < COUNT(presets) * COUNT(envs); i++) {
        ppo_config cfg = ppo_config_default();
        assert_ok(ppo_config_preset(&cfg, presets[i / COUNT(envs)][0]));
        if (cfg.rollout_steps > 64) cfg.rollout_steps = 64; /* for the sake of time */
        cfg.total_steps = 2 * cfg.num_envs * cfg.rollout_steps;
        log_of_run log = run_with_log(&envs[i % COUNT(envs)], cfg, 0);
        assert_int_equal(log.calls, 2);
        for (int n = 0; n < 2; n++) {
            const ppo_progress *p = &log.p[n];
            assert_true(p->first_ratio_min == 1 && p->first_ratio_max == 1);
            assert_true(isfinite(p->loss) && isfinite(p->policy_loss) && p->grad_norm > 0);
            assert_int_equal(p->epochs, cfg.epochs);
            assert_true((p->value_loss > 0) == cfg.use_critic);
            assert_true(isnan(p->kl) == !(cfg.penalty_target_kl > 0));
        }
    }
}

/* The plain policy gradient with and without a baseline, and A2C: they all get somewhere. */
static void the_gradient_presets_learn(void **state) {
    (void)state;
    ppo_env env = lamps_env();
    for (int i = 0; i < 3; i++) {
        ppo_config cfg = ppo_config_default();
        assert_ok(ppo_config_preset(&cfg, presets[i][0]));
        cfg.total_steps = 40000, cfg.rollout_steps = 20, cfg.num_envs = 16, cfg.learning_rate = 0.02f;
        cfg.hidden[0] = 16, cfg.hidden_layers = 1, cfg.gamma = 0;
        ppo_agent *agent = trained(&env, &cfg);
        ppo_evaluation after = ppo_evaluate(agent, &env, 50, 1);
        assert_ok(after.status);
        assert_true(after.mean_return > 0.95f * 5);
        ppo_agent_free(agent);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reported_kl_is_the_exact_one_over_the_rollout_and_moves_the_penalty),
        cmocka_unit_test(the_reported_kl_of_a_recurrent_policy_follows_its_sequences),
        cmocka_unit_test(without_a_target_the_penalty_stays_and_no_kl_is_reported),
        cmocka_unit_test(the_penalty_stays_within_bounds),
        cmocka_unit_test(a_rollout_keeps_the_outputs_of_the_policy_for_a_penalty_alone),
        cmocka_unit_test(the_entropy_bonus_falls_as_scheduled_and_is_that_of_the_loss),
        cmocka_unit_test(a_schedule_of_ones_own_is_asked_for_every_setting_and_obeyed),
        cmocka_unit_test(both_ends_of_the_clip_follow_their_own_schedule),
        cmocka_unit_test(a_schedule_that_gives_nonsense_is_refused),
        cmocka_unit_test(the_critic_learns_at_its_own_rate),
        cmocka_unit_test(the_critics_rate_is_scheduled_alike),
        cmocka_unit_test(the_learning_rate_follows_the_kl),
        cmocka_unit_test(a_rate_of_the_critic_alone_is_refused_not_forgotten),
        cmocka_unit_test(without_a_critic_the_advantage_is_the_discounted_return_that_followed),
        cmocka_unit_test(without_a_critic_unfinished_episodes_are_left_out),
        cmocka_unit_test(without_a_critic_its_values_do_not_matter),
        cmocka_unit_test(huber_delta_bounds_the_value_loss_of_the_trainer),
        cmocka_unit_test(a_minibatch_size_of_0_is_the_whole_rollout),
        cmocka_unit_test(the_reported_deviation_is_that_of_the_policy),
        cmocka_unit_test(initial_weights_are_as_configured),
        cmocka_unit_test(the_critic_alone_reads_the_rest_of_an_observation),
        cmocka_unit_test(columns_are_put_side_by_side_and_their_gradients_apart),
        cmocka_unit_test(the_actor_acts_on_its_part_alone),
        cmocka_unit_test(an_actors_part_that_does_not_fit_is_refused),
        cmocka_unit_test(layers_with_layer_norm_follow_the_formula_and_its_gradient),
        cmocka_unit_test(each_epoch_has_advantages_by_the_critic_as_it_is),
        cmocka_unit_test(the_update_sees_means_that_moved_by_uniform_noise),
        cmocka_unit_test(a_preset_sets_what_it_says_and_leaves_the_rest),
        cmocka_unit_test(presets_are_known_by_their_names_alone),
        cmocka_unit_test(every_preset_trains_with_choices_and_with_numbers),
        cmocka_unit_test(the_gradient_presets_learn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
