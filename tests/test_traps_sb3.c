/* What users of Stable-Baselines3 look for first: the agent in a callback, resuming a training that was changed, what a
   policy would do and why, stacks of frames. */
#include "../ppo.h"

#include "../examples/companions/ppo_explain.h"
#include "../examples/companions/ppo_export.h"
#include "../examples/envs/cartpole.h"
#include "../examples/envs/connect4.h"
#include "../examples/envs/pendulum.h"
#include "../examples/envs/stack.h"
#include "test.h"

static ppo_config config_of(const char *settings) {
    ppo_config cfg = ppo_config_default();
    assert_ok(ppo_config_set_all(&cfg, settings));
    return cfg;
}

/* --------------------------------------------------------------------------------------------------------
   The agent in a callback
   -------------------------------------------------------------------------------------------------------- */

typedef struct judge {
    const ppo_env *env;
    int calls, stop_after;
    float best;
} judge;

/* Everything that a program may want to do with the agent while it learns. */
static int judge_agent(const ppo_progress *progress, void *user) {
    judge *j = (judge *)user;
    ppo_agent *agent = progress->agent, *again = NULL;
    ppo_rng rng = ppo_rng_stream(7, PPO_STREAM_USER, 0);
    ppo_action action;
    float obs[8] = {0};
    assert_non_null(agent);
    const ppo_evaluation greedy = ppo_evaluate(agent, j->env, 3, 99);
    const ppo_evaluation sampled = ppo_evaluate_sampled(agent, j->env, 3, 99);
    assert_ok(greedy.status);
    assert_ok(sampled.status);
    assert_ok(ppo_act(agent, obs, &rng, &action));
    assert_ok(ppo_export_c(agent, "policy", "build/traps_sb3.h"));
    assert_ok(ppo_export_c_int8(agent, j->env, "policy", "build/traps_sb3.h"));
    if (!j->calls || greedy.mean_return > j->best) {
        j->best = greedy.mean_return;
        assert_ok(ppo_agent_save(agent, "build/traps_sb3_best.safetensors"));
        assert_ok(ppo_agent_load("build/traps_sb3_best.safetensors", j->env, &again));
        assert_true(ppo_evaluate(again, j->env, 3, 99).mean_return == greedy.mean_return);
        ppo_agent_free(again);
    }
    return ++j->calls == j->stop_after;
}

static ppo_agent *train_judged(const ppo_env *env, const char *settings, judge *j) {
    ppo_config cfg = config_of(settings);
    ppo_agent *agent = NULL; /* as in the synopsis: ppo_train() makes it */
    if (j) cfg.callback = judge_agent;
    cfg.callback_user = j;
    assert_ok(ppo_train(env, &cfg, &agent));
    return agent;
}

static void a_callback_has_the_agent_and_judging_it_changes_no_bit(void **state) {
    (void)state;
    const ppo_env envs[] = {cartpole_env(), pendulum_env(), cartpole_env()};
    static const char *const settings[] = {"total_steps=1024 rollout_steps=64",
                                           "total_steps=1024 rollout_steps=64 gsde=yes gsde_steps=4 "
                                           "normalize_obs=yes normalize_reward=yes threads=2",
                                           "total_steps=1024 rollout_steps=64 recurrent=8 sequence_steps=16"};
    for (int k = 0; k < COUNT(envs); k++) {
        judge j = {&envs[k], 0, 0, 0};
        ppo_agent *alone = train_judged(&envs[k], settings[k], NULL);
        ppo_agent *judged = train_judged(&envs[k], settings[k], &j);
        const ppo_params *p = alone->model.params, *q = judged->model.params;
        assert_int_equal(j.calls, 4);
        assert_int_equal(p->count, q->count);
        assert_memory_equal(p->data, q->data, p->count * sizeof(float));
        assert_true(alone->obs_norm.count == judged->obs_norm.count);
        ppo_agent_free(alone);
        ppo_agent_free(judged);
    }
}

static void a_callback_ends_the_training_with_the_agent_as_it_is(void **state) {
    (void)state;
    ppo_env env = cartpole_env();
    judge j = {&env, 0, 2, 0};
    ppo_agent *agent = train_judged(&env, "total_steps=2048 rollout_steps=64", &j);
    assert_int_equal(j.calls, 2);
    assert_true(agent->model.params->step > 0);
    ppo_agent_free(agent);
}

/* --------------------------------------------------------------------------------------------------------
   A training that continues in another way
   -------------------------------------------------------------------------------------------------------- */

static const char file[] = "build/traps_sb3.safetensors";

typedef struct run {
    ppo_agent *agent;
    ppo_trainer *trainer;
    ppo_progress p;
} run;

static void go_on(run *r, int iterations) {
    for (int i = 0; i < iterations; i++) assert_ok(ppo_trainer_iterate(r->trainer, &r->p));
}

static void end(run *r) {
    ppo_trainer_free(r->trainer);
    ppo_agent_free(r->agent);
}

/* A run of so many iterations, saved. */
static ppo_config begin_and_save(const ppo_env *env, const char *settings, int iterations, run *r) {
    ppo_config cfg =
        config_of("num_envs=4 rollout_steps=30 epochs=2 total_steps=100000 hidden=8 minibatch_size=40");
    assert_ok(ppo_config_set_all(&cfg, settings));
    assert_ok(ppo_agent_create(env, &cfg, &r->agent));
    assert_ok(ppo_trainer_create(env, &cfg, r->agent, &r->trainer));
    go_on(r, iterations);
    assert_ok(ppo_trainer_save(r->trainer, file));
    return cfg;
}

static run resume(const ppo_env *env, const ppo_config *cfg) {
    run r = {NULL, NULL, {0}};
    assert_ok(ppo_trainer_resume(file, env, cfg, &r.agent, &r.trainer));
    return r;
}

static void refuse(const ppo_env *env, const ppo_config *cfg, ppo_status status, const char *words) {
    run r = {NULL, NULL, {0}};
    assert_fails(ppo_trainer_resume(file, env, cfg, &r.agent, &r.trainer), status, words);
    assert_null(strstr(ppo_last_error(), "corrupt"));
    assert_true(!r.agent && !r.trainer);
}

/* An episode without an end, which shows its age; each begins with a number that is kept. */
enum { BEGINNINGS = 256 };
static float beginnings[BEGINNINGS];
static int begun;

static void clock_reset(void *state, ppo_rng *rng, float *obs) {
    *(int *)state = 0;
    obs[0] = 0;
    obs[1] = ppo_rng_uniform(rng);
    if (begun < BEGINNINGS) beginnings[begun++] = obs[1];
}

static void clock_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    obs[0] = 0.01f * (float)++*(int *)state;
    obs[1] = ppo_rng_uniform(rng);
    out->reward = action->discrete ? 1.0f : 0.5f;
}

static int clock_open(void *state, void *user, int copy) {
    (void)state, (void)user, (void)copy;
    return 0;
}

static ppo_env clock_env(int max_steps, int opens) {
    ppo_env env = walk_env();
    env.name = "clock";
    env.state_size = sizeof(int);
    env.max_steps = max_steps;
    env.reset = clock_reset;
    env.step = clock_step;
    env.open = opens ? clock_open : NULL;
    return env;
}

static void a_run_continues_with_another_number_of_environments(void **state) {
    (void)state;
    static const char *const settings[] = {
        "", "recurrent=4 sequence_steps=10 normalize_obs=yes normalize_reward=yes"};
    for (int k = 0; k < 2 * 2 * 2; k++) {
        const ppo_env env = clock_env(70, k / 4);
        run r;
        begun = 0;
        ppo_config cfg = begin_and_save(&env, settings[k % 2], 5, &r);
        const int before = begun;
        const int64_t steps = r.p.steps, gradients = r.p.gradient_steps;
        cfg.num_envs = k / 2 % 2 ? 9 : 2;
        run more = resume(&env, &cfg);
        assert_memory_equal(more.agent->model.params->data, r.agent->model.params->data,
                            r.agent->model.params->count * sizeof(float));
        assert_memory_equal(more.agent->model.params->m, r.agent->model.params->m,
                            r.agent->model.params->count * sizeof(float));
        go_on(&more, 1);
        assert_int_equal(more.p.iteration, 6);
        assert_int_equal(more.p.steps, steps + 30 * cfg.num_envs);
        assert_true(more.p.gradient_steps > gradients && more.p.episodes == r.p.episodes);
        assert_true(more.p.mean_return == r.p.mean_return); /* of the episodes so far */
        assert_int_equal(begun - before, cfg.num_envs); /* all begin, with numbers that were not drawn yet */
        for (int i = before; i < begun; i++)
            for (int j = 0; j < i; j++) assert_true(beginnings[i] != beginnings[j]);
        go_on(&more, 3);
        assert_ok(ppo_trainer_save(more.trainer, file));
        run again = resume(&env, NULL); /* and from there with the same bits */
        go_on(&more, 2);
        go_on(&again, 2);
        assert_memory_equal(more.agent->model.params->data, again.agent->model.params->data,
                            r.agent->model.params->count * sizeof(float));
        end(&again);
        end(&more);
        end(&r);
    }
}

static void worlds_of_several_agents_continue_with_more_copies_and_other_opponents(void **state) {
    (void)state;
    static const char *const changes[] = {"num_envs=8", "num_envs=2", "self_play=2", "self_play=5",
                                          "objective=kl-penalty"};
    const ppo_env env = connect4_env();
    for (int k = 0; k < COUNT(changes); k++) {
        run r;
        ppo_config cfg = begin_and_save(&env, "self_play=3 snapshot_every=1", 4, &r);
        assert_ok(ppo_config_set_all(&cfg, changes[k]));
        run more = resume(&env, &cfg);
        go_on(&more, 3);
        assert_int_equal(more.p.iteration, 7);
        end(&more);
        end(&r);
    }
    ppo_env four = env;
    four.agents = 4;
    refuse(&four, NULL, PPO_ERROR_FILE, "its worlds have 2 agents, not 4");
}

static void another_seed_begins_its_random_streams(void **state) {
    (void)state;
    const ppo_env env = clock_env(70, 0);
    float first[4];
    run r;
    begun = 0;
    ppo_config cfg = begin_and_save(&env, "", 3, &r);
    end(&r);
    cfg.seed = 12;
    for (int k = 0; k < 2; k++) {
        begun = 0;
        r = resume(&env, &cfg);
        go_on(&r, 1);
        assert_int_equal(begun, 4);
        if (k) assert_memory_equal(first, beginnings, sizeof first);
        memcpy(first, beginnings, sizeof first);
        end(&r);
        cfg.seed = 12;
    }
}

static void a_shorter_time_limit_is_no_damage(void **state) {
    (void)state;
    for (int k = 0; k < 2 * 4; k++) {
        static const int limits[] = {50, 20, 200, 0}; /* the episodes are 60 steps old */
        ppo_env env = clock_env(100, k % 2);
        run r;
        ppo_config cfg = begin_and_save(&env, "", 2, &r);
        const int limit = env.max_steps = limits[k / 2], lost = env.open && !limit;
        begun = 0;
        run other = resume(&env, &cfg);
        if (!lost) { /* saved before a step, it continues all the same */
            assert_ok(ppo_trainer_save(other.trainer, file));
            end(&other);
            other = resume(&env, NULL);
        }
        go_on(&other, 4);
        assert_int_equal(begun > 0, (limit && limit < 180) || env.open); /* open: they are played again */
        if (limit) assert_int_equal(other.p.episodes > 0, limit < 180);
        if (other.p.episodes) assert_true(other.p.mean_length == (float)limit);
        end(&other);
        end(&r);
    }
}

static void a_longer_time_limit_goes_on_with_the_episodes_as_they_are(void **state) {
    (void)state;
    for (int opens = 0; opens < 2; opens++) {
        ppo_env env = clock_env(100, opens);
        run r;
        ppo_config cfg = begin_and_save(&env, "", 2, &r);
        env.max_steps = 110;
        run other = resume(&env, &cfg);
        go_on(&other, 2);
        assert_int_equal(other.p.episodes, 4); /* 60 steps before, 50 since */
        assert_true(other.p.mean_length == 110);
        end(&other);
        end(&r);
    }
}

static void a_learning_rate_that_is_set_anew_replaces_the_one_that_was_adapted(void **state) {
    (void)state;
    const ppo_env env = cartpole_env();
    run r;
    ppo_config cfg = begin_and_save(&env, "lr_target_kl=0.01 learning_rate_schedule=constant", 5, &r);
    const float adapted = r.p.learning_rate;
    run same = resume(&env, &cfg);
    go_on(&r, 1);
    go_on(&same, 1);
    assert_true(same.p.learning_rate == r.p.learning_rate && adapted != cfg.learning_rate);
    cfg.learning_rate = 5e-3f;
    cfg.epochs = 1;
    cfg.minibatch_size = 0; /* a step alone has no KL to adapt to */
    run other = resume(&env, &cfg);
    go_on(&other, 1);
    assert_true(other.p.learning_rate == 5e-3f);
    end(&other);
    end(&same);
    end(&r);
}

static void a_change_without_effect_is_refused_when_a_run_continues(void **state) {
    (void)state;
    static const char *const changes[][2] = {
        {"gsde_steps=4", "gsde_steps is 4, but has no effect: gsde is no"},
        {"kl_coef=3", "kl_coef is 3, but has no effect"},
        {"clip_reward=3", "clip_reward is 3, but has no effect"},
        {"snapshot_every=3", "snapshot_every is 3, but has no effect"}};
    const ppo_env env = cartpole_env();
    run r;
    const ppo_config cfg = begin_and_save(&env, "", 1, &r);
    for (int k = 0; k < COUNT(changes); k++) {
        ppo_config other = cfg;
        assert_ok(ppo_config_set_all(&other, changes[k][0]));
        refuse(&env, &other, PPO_ERROR_ARGUMENT, changes[k][1]);
    }
    end(&r);
}

static void a_pushed_game_and_an_environment_are_told_apart(void **state) {
    (void)state;
    const ppo_env full = cartpole_env();
    ppo_env pushed = {0};
    ppo_agent *agent = NULL;
    run r;
    pushed.name = full.name;
    pushed.obs_size = full.obs_size;
    pushed.action_space = full.action_space;
    begin_and_save(&pushed, "", 0, &r);
    refuse(&full, NULL, PPO_ERROR_FILE, "pushes|ppo_agent_load()");
    assert_ok(ppo_agent_load(file, &full, &agent));
    ppo_agent_free(agent);
    end(&r);
    begin_and_save(&full, "", 0, &r);
    refuse(&pushed, NULL, PPO_ERROR_FILE, "has functions|ppo_agent_load()");
    end(&r);
    const ppo_env opened = clock_env(100, 1), plain = clock_env(100, 0);
    begin_and_save(&opened, "", 1, &r);
    refuse(&plain, NULL, PPO_ERROR_FILE, "with open(), not without");
    end(&r);
}

static ppo_status count_tokens(const ppo_samples *samples, float *reward, void *user) {
    (void)user;
    for (int s = 0; s < samples->tokens.count; s++)
        reward[s] = (float)(samples->tokens.start[s + 1] - samples->tokens.start[s]);
    return PPO_OK;
}

/* Coefficients that adapt go on as they were, unless they are set anew. */
static void coefficients_of_ppo_on_tokens_are_set_anew_or_go_on(void **state) {
    (void)state;
    const int prompt[] = {0};
    ppo_tokens prompts = {0};
    ppo_lm_config shape = ppo_lm_config_default();
    ppo_rlhf_config cfg = ppo_rlhf_config_default(), other;
    ppo_rlhf_progress p;
    ppo_lm *lm = NULL;
    ppo_rlhf *rlhf = NULL;
    assert_ok(ppo_settings_set_all(ppo_lm_settings(), &shape, "vocab=5 context=8 width=8 layers=1 heads=1"));
    assert_ok(
        ppo_settings_set_all(ppo_rlhf_settings(), &cfg,
                             "eos=1 penalty_target_kl=1 kl_horizon=64 entropy_coef=0.02 entropy_target=9"));
    assert_ok(ppo_lm_create(&shape, &lm));
    assert_ok(ppo_tokens_add(&prompts, prompt, 1, 1));
    assert_ok(ppo_rlhf_create(lm, NULL, NULL, &prompts, count_tokens, NULL, &cfg, &rlhf));
    for (int i = 0; i < 2; i++) assert_ok(ppo_rlhf_iterate(rlhf, NULL));
    assert_ok(ppo_rlhf_save(rlhf, file));
    ppo_rlhf_free(rlhf);
    for (int anew = 0; anew < 2; anew++) {
        other = cfg;
        if (anew) other.kl_coef = 0.5f, other.entropy_coef = 0.3f;
        assert_ok(ppo_rlhf_resume(file, lm, NULL, NULL, &prompts, count_tokens, NULL, &other, &rlhf));
        assert_ok(ppo_rlhf_iterate(rlhf, &p));
        assert_true(anew ? p.kl_coef == 0.5f : p.kl_coef != cfg.kl_coef && p.kl_coef < 0.1f);
        assert_true(anew ? p.entropy_coef >= 0.3f
                         : p.entropy_coef > cfg.entropy_coef && p.entropy_coef < 0.1f);
        ppo_rlhf_free(rlhf);
    }
    ppo_tokens_free(&prompts);
    ppo_lm_free(lm);
}

/* --------------------------------------------------------------------------------------------------------
   Stacks of frames, actions that last, bounded rewards
   -------------------------------------------------------------------------------------------------------- */

static void blind_reset(void *state, ppo_rng *rng, float *obs) {
    float all[4];
    cartpole_reset(state, rng, all);
    obs[0] = all[0], obs[1] = all[2];
}

static void blind_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    float all[4];
    cartpole_step(state, rng, action, all, out);
    obs[0] = all[0], obs[1] = all[2];
}

/* CartPole without its velocities. */
static ppo_env blind_env(void) {
    ppo_env env = cartpole_env();
    env.obs_size = 2;
    env.reset = blind_reset;
    env.step = blind_step;
    return env;
}

static float learned(const ppo_env *env) {
    ppo_config cfg = config_of("learning_rate=1e-3");
    ppo_agent *agent = NULL;
    cfg.total_steps = SMALL(60000, 4096);
    assert_ok(ppo_train(env, &cfg, &agent));
    const ppo_evaluation e = ppo_evaluate(agent, env, 20, 1);
    assert_ok(e.status);
    ppo_agent_free(agent);
    return e.mean_return;
}

static void a_pole_without_velocities_is_balanced_by_a_stack_of_frames(void **state) {
    (void)state;
    const ppo_env blind = blind_env();
    const stack of = {blind, 4, 1, 0};
    const ppo_env env = stack_env(&of);
    assert_int_equal(env.obs_size, 8);
    const float with_stack = learned(&env), without = SMALL(learned(&blind), 0);
    if (SMALL(1, 0)) assert_true(with_stack > 400 && without < 150);
}

/* An observation counts the steps and shows the place of a user's number; it is told by ppo_env_user(). */
enum { TICKS = 20 };
typedef struct tick {
    int age, opened;
} tick;
static int tick_told; /* how often something else than the number was found */

static void tick_show(const tick *t, float *obs) {
    for (int j = 0; j < 6; j++) obs[j] = (float)(100 * j + t->age);
}

static void tick_reset(void *state, ppo_rng *rng, float *obs) {
    tick *t = (tick *)state;
    (void)rng;
    if (ppo_env_user() != &tick_told || t->opened != 7) tick_told++;
    t->age = 0;
    tick_show(t, obs);
}

static void tick_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    tick *t = (tick *)state;
    (void)rng;
    if (ppo_env_user() != &tick_told || t->opened != 7 || !action->choices[0]) tick_told++;
    out->reward = (float)++t->age;
    out->metrics[0] = (float)t->age;
    out->terminated = t->age == 2 * TICKS;
    tick_show(t, obs);
}

static void tick_mask(const void *state, unsigned char *mask) {
    if (ppo_env_user() != &tick_told || ((const tick *)state)->opened != 7) tick_told++;
    mask[0] = 0; /* always */
}

static int tick_open(void *state, void *user, int copy) {
    ((tick *)state)->opened = user == &tick_told && user == ppo_env_user() && copy >= 0 ? 7 : 0;
    return 0;
}

static void tick_close(void *state) {
    if (ppo_env_user() != &tick_told || ((const tick *)state)->opened != 7) tick_told++;
}

static ppo_env tick_env(void) {
    ppo_env env = {0};
    env.name = "tick";
    env.obs_size = 6;
    env.actor_obs = 5;
    env.shape[0] = 1, env.shape[1] = 2, env.shape[2] = 2; /* and a number, and what the critic alone sees */
    env.action_space = ppo_discrete(3);
    env.state_size = sizeof(tick);
    env.max_steps = TICKS;
    env.reset = tick_reset;
    env.step = tick_step;
    env.action_mask = tick_mask;
    env.open = tick_open;
    env.close = tick_close;
    env.user = &tick_told;
    env.metrics[0] = "age";
    return env;
}

typedef struct seen {
    int frames, repeat, steps;
    float total;
} seen;

static int look(const ppo_frame *frame, void *user) {
    seen *s = (seen *)user;
    const float *obs = frame->obs;
    const int age = frame->step * s->repeat < TICKS ? frame->step * s->repeat : TICKS;
    static const int ends[] = {4, 5, 6};
    for (int part = 0, from = 0; part < 3; from = ends[part++])
        for (int k = 0; k < s->frames; k++) {
            const int behind = frame->step < k ? 0 : (frame->step - k) * s->repeat;
            for (int j = from; j < ends[part]; j++)
                assert_true(*obs++ == (float)(100 * j + (k ? behind : age)));
        }
    s->steps = frame->step;
    s->total = frame->total;
    return 0;
}

static void a_stack_shows_its_frames_and_leaves_the_inner_environment_its_own(void **state) {
    (void)state;
    static const struct {
        int frames, repeat;
        float clip;
    } cases[] = {{1, 1, 0}, {3, 1, 0}, {4, 3, 0}, {2, 7, 10}, {0, 0, 0}};
    const ppo_env inner = tick_env();
    for (int i = 0; i < COUNT(cases); i++) {
        const stack of = {inner, cases[i].frames, cases[i].repeat, cases[i].clip};
        const ppo_env env = stack_env(&of);
        ppo_config cfg = config_of("total_steps=256 rollout_steps=64 hidden=8 conv=4x1x1");
        ppo_agent *agent = NULL;
        ppo_inspection found;
        seen s = {cases[i].frames ? cases[i].frames : 1, cases[i].repeat ? cases[i].repeat : 1, 0, 0};
        float want = 0;
        tick_told = 0;
        assert_int_equal(env.max_steps, (TICKS + s.repeat - 1) / s.repeat);
        assert_ok(ppo_train(&env, &cfg, &agent));
        assert_ok(ppo_play(agent, &env, 1, 1, look, &s, NULL));
        assert_ok(ppo_env_check(&env, 500, 1, &found));
        assert_int_equal(tick_told, 0);
        assert_int_equal(s.steps, env.max_steps);
        for (int t = 0; t < TICKS; t += s.repeat) { /* the sum of a step's rewards, each clipped */
            float sum = 0;
            for (int k = t + 1; k <= t + s.repeat && k <= TICKS; k++) sum += (float)k;
            want += cases[i].clip > 0 && sum > cases[i].clip ? cases[i].clip : sum;
        }
        assert_true(s.total == want);
        ppo_agent_free(agent);
    }
}

/* At even ages the first option of each choice is forbidden, at odd ones the second. */
static int turn_illegal, turn_steps;

static int turn_forbidden(const void *state) { return ((const tick *)state)->age % 2; }

static void turn_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    tick *t = (tick *)state;
    (void)rng;
    turn_steps++;
    for (int j = 0; j < *(const int *)ppo_env_user(); j++)
        turn_illegal += action->choices[j] == turn_forbidden(t);
    out->reward = 1;
    t->age++;
    obs[0] = (float)(t->age % 2);
}

static void turn_reset(void *state, ppo_rng *rng, float *obs) {
    ((tick *)state)->age = (int)ppo_rng_below(rng, 2);
    obs[0] = 0;
}

static void turn_mask(const void *state, unsigned char *mask) {
    mask[turn_forbidden(state)] = 0;
    if (*(const int *)ppo_env_user() == 2) mask[3 + turn_forbidden(state)] = 0;
}

static void an_action_lasts_as_long_as_it_is_legal(void **state) {
    (void)state;
    const int sizes[] = {3, 4};
    int choices[] = {1, 2};
    for (int kind = 0; kind < 2; kind++) {
        ppo_env inner = {0};
        inner.name = "turn", inner.obs_size = 1, inner.state_size = sizeof(tick), inner.max_steps = 64;
        inner.action_space = kind ? ppo_multi_discrete(sizes, 2) : ppo_discrete(3);
        inner.reset = turn_reset, inner.step = turn_step, inner.action_mask = turn_mask;
        inner.user = &choices[kind];
        const stack of = {inner, 2, 4, 0}, once = {inner, 1, 3, 0}, twice = {stack_env(&once), 1, 2, 0};
        const ppo_env envs[] = {stack_env(&of), stack_env(&twice)};
        for (int i = 0; i < COUNT(envs); i++) {
            ppo_config cfg = config_of("total_steps=512 rollout_steps=64 hidden=8 threads=1");
            ppo_agent *agent = NULL;
            turn_illegal = turn_steps = 0;
            assert_ok(ppo_train(&envs[i], &cfg, &agent));
            assert_int_equal(turn_illegal, 0);
            assert_true(turn_steps > 512); /* some did last: one option is always legal */
            ppo_agent_free(agent);
        }
    }
}

/* Also one in another, on any number of threads, and where the run is resumed. */
static void stacks_of_every_kind_train_to_the_same_bits(void **state) {
    (void)state;
    const ppo_env kinds[] = {blind_env(),         tick_env(),     connect4_env(),
                             cartpole_many_env(), pendulum_env(), dials_env()};
    for (int i = 0; i < COUNT(kinds); i++) {
        const stack inner = {kinds[i], 2, kinds[i].agents ? 1 : 2, 0};
        const stack outer = {stack_env(&inner), 2, 2, 1};
        const ppo_env env = stack_env(&outer);
        run alone = {NULL, NULL, {0}}, threads;
        ppo_config cfg = begin_and_save(&env, "threads=1", 2, &alone);
        cfg.threads = 3;
        threads = resume(&env, &cfg);
        go_on(&alone, 2);
        go_on(&threads, 2);
        assert_memory_equal(alone.agent->model.params->data, threads.agent->model.params->data,
                            alone.agent->model.params->count * sizeof(float));
        assert_ok(ppo_evaluate(alone.agent, &env, 3, 1).status);
        end(&threads);
        end(&alone);
    }
}

/* Connect four with a stack and without: the same games, as long as the same moves are made. */
static void turns_of_several_agents_stay_as_they_are(void **state) {
    (void)state;
    const ppo_env plain = connect4_env();
    const stack of = {plain, 1, 4, 0}; /* a move is one step all the same: then it is the other's turn */
    const ppo_env env = stack_env(&of);
    ppo_agent *agent[2] = {NULL, NULL};
    ppo_config cfg = config_of("total_steps=2048 rollout_steps=128 hidden=8");
    assert_ok(ppo_train(&plain, &cfg, &agent[0]));
    assert_ok(ppo_train(&env, &cfg, &agent[1]));
    assert_memory_equal(agent[0]->model.params->data, agent[1]->model.params->data,
                        agent[0]->model.params->count * sizeof(float));
    for (int k = 0; k < 2; k++) ppo_agent_free(agent[k]);
}

/* --------------------------------------------------------------------------------------------------------
   What a policy would do
   -------------------------------------------------------------------------------------------------------- */

static ppo_agent *agent_of(const ppo_env *env, const char *settings) {
    ppo_config cfg = config_of("total_steps=2048 rollout_steps=128 hidden=16 learning_rate=0.01");
    ppo_agent *agent = NULL;
    assert_ok(ppo_config_set_all(&cfg, settings));
    assert_ok(ppo_train(env, &cfg, &agent));
    return agent;
}

/* How often ppo_act() samples each option is what it says, and an illegal one is impossible. */
static void probabilities_are_those_of_the_actions_that_are_sampled(void **state) {
    (void)state;
    const ppo_env envs[] = {walk_env(), fenced_env(), dials_env(), lamps_env()};
    enum { DRAWS = 4000 };
    for (int i = 0; i < COUNT(envs); i++) {
        ppo_agent *agent = agent_of(&envs[i], "normalize_obs=yes");
        const ppo_space *space = &envs[i].action_space;
        const int heads = space->kind == PPO_DISCRETE ? 1 : space->n;
        const float obs[4] = {0.4f, 1, -1, 0.3f};
        const unsigned char mask[9] = {1, 0, 1, 1, 1, 1, 0, 1, 1};
        ppo_rng rng = test_rng(i);
        ppo_explanation why;
        ppo_action action;
        int count[9] = {0};
        for (int masked = 0; masked < 2; masked++) {
            const unsigned char *legal = masked && i < 3 ? mask : NULL;
            double entropy = 0;
            memset(count, 0, sizeof count);
            for (int k = 0; k < DRAWS; k++) {
                assert_ok(ppo_act_masked(agent, obs, legal, &rng, &action));
                for (int h = 0, at = 0; h<heads; at += heads> 1 ? space->sizes[h] : 0, h++)
                    count[at + action.choices[h]]++;
            }
            assert_ok(ppo_act_explain(agent, obs, legal, &why));
            assert_true(!why.mean && !why.std && isfinite(why.value));
            for (int h = 0, at = 0; h < heads; h++) {
                const int options = heads > 1 ? space->sizes[h] : space->n;
                double sum = 0;
                int best = at;
                for (int j = at; j < at + options; j++) {
                    const double p = (double)why.probability[j];
                    assert_true(fabs(count[j] / (double)DRAWS - p) < 5 * sqrt(p * (1 - p) / DRAWS) + 1e-6);
                    if (legal && !legal[j]) assert_true(p == 0);
                    entropy -= p > 0 ? p * log(p) : 0;
                    if (p > why.probability[best]) best = j;
                    sum += p;
                }
                assert_close(sum, 1, 1e-6);
                assert_int_equal(why.action.choices[h], best - at);
                at += options;
                assert_true(at <= why.options);
            }
            assert_close(why.entropy, entropy, 1e-5);
        }
        ppo_agent_free(agent);
    }
}

static void a_box_is_explained_by_its_gaussian_and_the_critic_by_its_value(void **state) {
    (void)state;
    static const char *const settings[] = {"", "squash=yes", "gsde=yes normalize_obs=yes",
                                           "use_critic=no gae_lambda=1"};
    for (int i = 0; i < COUNT(settings); i++) {
        const ppo_env env = reach_env();
        ppo_agent *agent = agent_of(&env, settings[i]);
        const float obs[1] = {0.6f};
        double sum[2] = {0, 0}, squares[2] = {0, 0};
        ppo_rng rng = test_rng(3);
        ppo_explanation why;
        ppo_action greedy, action;
        const float *mean, *std;
        enum { DRAWS = 4000 };
        agent->model.action_space.low = -1000, agent->model.action_space.high = 1000; /* nothing is clipped */
        for (int k = 0; k < DRAWS; k++) {
            assert_ok(ppo_act(agent, obs, &rng, &action));
            for (int j = 0; j < 2; j++) {
                const double x = i == 1 ? atanh((double)action.box[j] / 1000) : (double)action.box[j];
                sum[j] += x / DRAWS, squares[j] += x * x / DRAWS;
            }
        }
        assert_ok(ppo_act_explain(agent, obs, NULL, &why));
        mean = why.mean, std = why.std;
        assert_true(!why.probability && !why.options);
        for (int j = 0; j < 2; j++) {
            assert_true(fabs(sum[j] - mean[j]) < 5 * std[j] / sqrt(DRAWS));
            assert_close(sqrt(squares[j] - sum[j] * sum[j]), std[j], 0.06);
        }
        if (i == 0) assert_close(why.entropy, log(std[0] * std[1]) + log(2 * 3.14159265358979) + 1, 1e-5);
        assert_int_equal(isnan(why.value), i == 3);
        const float box[2] = {why.action.box[0], why.action.box[1]};
        assert_ok(ppo_act(agent, obs, NULL, &greedy));
        assert_memory_equal(box, greedy.box, sizeof box);
        ppo_agent_free(agent);
    }
}

static void asking_changes_nothing_and_sees_what_the_critic_sees(void **state) {
    (void)state;
    ppo_env env = walk_env();
    env.actor_obs = 1; /* the second number is the critic's alone */
    ppo_agent *agent = agent_of(&env, "recurrent=4 sequence_steps=16"), *other = NULL;
    ppo_rng rng[2] = {test_rng(5), test_rng(5)};
    ppo_explanation why, again;
    ppo_action a, b;
    assert_ok(ppo_agent_copy(agent, &other));
    for (int t = 0; t < 50; t++) {
        const float obs[2] = {0.2f * (float)(t % 7 - 3), 1}, seen[2] = {obs[0], -1};
        assert_ok(ppo_act_explain(agent, obs, NULL, &why));
        const float first = why.probability[0], value = why.value;
        assert_ok(ppo_act_explain(agent, seen, NULL, &again));
        assert_true(again.probability[0] == first && again.value != value);
        assert_ok(ppo_act(agent, obs, &rng[0], &a));
        assert_ok(ppo_act(other, obs, &rng[1], &b));
        assert_int_equal(a.discrete, b.discrete);
        assert_memory_equal(agent->state, other->state, 4 * sizeof(float));
    }
    const float bad[2] = {0, NAN};
    const unsigned char none[3] = {0, 0, 0};
    assert_fails(ppo_act_explain(agent, bad, NULL, &why), PPO_ERROR_NUMERIC, "observation[1] is NaN");
    assert_fails(ppo_act_explain(agent, bad, NULL, NULL), PPO_ERROR_ARGUMENT, "ppo_act_explain");
    const float good[2] = {0, 1};
    assert_fails(ppo_act_explain(agent, good, none, &why), PPO_ERROR_ARGUMENT, "the mask leaves no action");
    ppo_agent_free(other);
    ppo_agent_free(agent);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_callback_has_the_agent_and_judging_it_changes_no_bit),
        cmocka_unit_test(a_callback_ends_the_training_with_the_agent_as_it_is),
        cmocka_unit_test(a_run_continues_with_another_number_of_environments),
        cmocka_unit_test(worlds_of_several_agents_continue_with_more_copies_and_other_opponents),
        cmocka_unit_test(another_seed_begins_its_random_streams),
        cmocka_unit_test(a_shorter_time_limit_is_no_damage),
        cmocka_unit_test(a_longer_time_limit_goes_on_with_the_episodes_as_they_are),
        cmocka_unit_test(a_learning_rate_that_is_set_anew_replaces_the_one_that_was_adapted),
        cmocka_unit_test(a_change_without_effect_is_refused_when_a_run_continues),
        cmocka_unit_test(a_pushed_game_and_an_environment_are_told_apart),
        cmocka_unit_test(coefficients_of_ppo_on_tokens_are_set_anew_or_go_on),
        cmocka_unit_test(a_pole_without_velocities_is_balanced_by_a_stack_of_frames),
        cmocka_unit_test(a_stack_shows_its_frames_and_leaves_the_inner_environment_its_own),
        cmocka_unit_test(an_action_lasts_as_long_as_it_is_legal),
        cmocka_unit_test(stacks_of_every_kind_train_to_the_same_bits),
        cmocka_unit_test(turns_of_several_agents_stay_as_they_are),
        cmocka_unit_test(probabilities_are_those_of_the_actions_that_are_sampled),
        cmocka_unit_test(a_box_is_explained_by_its_gaussian_and_the_critic_by_its_value),
        cmocka_unit_test(asking_changes_nothing_and_sees_what_the_critic_sees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
