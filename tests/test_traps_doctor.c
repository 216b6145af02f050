/* What goes wrong without an error is named: sick tasks, each by its own symptom and no other, and sound ones by none. */
#include "../ppo.h"

#include "../examples/companions/ppo_check.h"
#include "../examples/companions/ppo_report.h"
#include "../examples/envs/acrobot.h"
#include "../examples/envs/cartpole.h"
#include "../examples/envs/gridworld.h"
#include "../examples/envs/memory.h"
#include "../examples/envs/mountaincar_continuous.h"
#include "../examples/envs/pendulum.h"
#include "../examples/envs/tictactoe.h"
#include "test.h"

#include <dirent.h>

/* A task that is sound unless it is told otherwise. The observation is a place, -1..1, and two numbers that do not
   matter. Which third of the range is it in? Ten questions are an episode. In a box the answer is the place itself. */
typedef struct task {
    float scale, narrow, shift; /* of all numbers; of the place alone */
    float reward, cost;         /* for the right answer; of each step */
    int length, stop;           /* of an episode; 1: the last choice ends it */
    int fixed, frozen, forgets, shares, blind, holds;
    int chance; /* 1: of what is seen; 2: of rewards of 0 */
    int copies; /* of the world: above 1 they must be open */
    float far;  /* a box pays only beyond this */
} task;

typedef struct world {
    float place;
    int step, episodes;
    const void *here;
    int opened;
} world;

static int shared_step, drawn;

static void show(world *w, ppo_rng *rng, float *obs) {
    const task *t = (const task *)ppo_env_user();
    w->place = t->fixed ? 0.3f : ppo_rng_range(rng, -1, 1);
    obs[0] = t->frozen ? 0.5f : t->scale * (t->narrow * w->place + t->shift);
    for (int j = 1; j < 3; j++)
        if (!t->blind || !w->step) obs[j] = t->frozen ? 0.5f : t->scale * ppo_rng_range(rng, -1, 1);
    if (t->chance == 1) obs[1] = (float)(drawn++ % 97) / 97;
    if (t->holds) w->here = t->holds > 1 ? (const void *)&shared_step : (const void *)w;
}

static void task_reset(void *state, ppo_rng *rng, float *obs) {
    world *w = (world *)state;
    if (((const task *)ppo_env_user())->copies > 1 && !w->opened) ppo_env_fail("it is closed");
    w->step = shared_step = 0;
    w->episodes++;
    show(w, rng, obs);
}

static void task_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    const task *t = (const task *)ppo_env_user();
    world *w = (world *)state;
    const float off = action->box ? action->box[0] - w->place : 0;
    const int right = w->place < -0.33f ? 0 : w->place < 0.33f ? 1 : 2;
    out->reward = action->box ? -t->reward * off * off : action->discrete == right ? t->reward : 0;
    if (t->far > 0) out->reward = fabsf(action->box[0]) > t->far;
    if (t->forgets) out->reward += 0.1f * (float)w->episodes;
    if (t->chance == 2 && out->reward == 0) out->reward = 1e-20f * (float)(drawn++ % 97);
    out->reward -= t->cost;
    const int step = t->shares ? ++shared_step : ++w->step;
    out->terminated = (t->length && step >= t->length) || (t->stop && action->discrete == 2);
    show(w, rng, obs);
}

static int task_open(void *state, void *user, int copy) {
    (void)user, (void)copy;
    ((world *)state)->opened = 1;
    return 0;
}

static ppo_env env_of(task *t) {
    ppo_env env = {.name = "task",
                   .obs_size = 3,
                   .action_space = ppo_discrete(3),
                   .state_size = sizeof(world),
                   .reset = task_reset,
                   .step = task_step,
                   .user = t};
    return env;
}

static ppo_env box_of(task *t, float low, float high) {
    ppo_env env = env_of(t);
    env.action_space = ppo_box(1, low, high);
    return env;
}

/* What was said of a run: the names of its symptoms in the order of their coming, and the sentence of the first. */
typedef struct story {
    char names[256], sentence[160];
    int iterations; /* with a symptom of their own */
} story;

static int take_warning(const ppo_progress *p, void *user) {
    story *s = (story *)user;
    assert_true(strlen(p->warning) < sizeof p->warning - 1 && !p->warning[0] == !p->symptom);
    if (!p->symptom) return 0;
    s->iterations++;
    if (strstr(s->names, p->symptom)) return 0;
    if (!*s->names) strcpy(s->sentence, p->warning);
    snprintf(s->names + strlen(s->names), sizeof s->names - strlen(s->names), "%s%s", *s->names ? " " : "",
             p->symptom);
    return 0;
}

static story story_of(const ppo_env *env, const char *settings) {
    story s = {"", "", 0};
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    assert_ok(ppo_config_set_all(&cfg, "total_steps=16384 hidden=16"));
    if (env->reset != task_reset) assert_ok(ppo_config_set_all(&cfg, "hidden=64,64"));
    assert_ok(ppo_config_set_all(&cfg, settings));
    cfg.callback = take_warning;
    cfg.callback_user = &s;
    assert_ok(ppo_train(env, &cfg, &agent));
    ppo_agent_free(agent);
    return s;
}

/* One line per sick task: what is wrong with it, or with its settings; the symptom; what its sentence must say. */
typedef struct sick {
    task is;
    float low, high; /* of a box; 0, 0: it is a choice */
    const char *settings, *name, *says;
} sick;

#define TASK .narrow = 1, .length = 10
#define FINE TASK, .scale = 1, .reward = 1
#define FAST "learning_rate_schedule=constant learning_rate="
#define WIDE "clip_low=1 clip_high=1000"

static const sick sick_tasks[] = {
    {{FINE}, 0, 0, "", "", ""},
    {{FINE}, -1, 1, "", "", ""},
    {{TASK, .reward = 1, .scale = 1000},
     0,
     0,
     "",
     "obs-far",
     "observation[|far from unit scale|normalize_obs=yes"},
    {{TASK, .reward = 1, .scale = 1000}, 0, 0, "normalize_obs=yes", "", ""},
    {{TASK, .reward = 1, .scale = 1e-4f}, 0, 0, "", "obs-tiny", "within|normalize_obs=yes"},
    {{TASK, .reward = 1, .scale = 0.1f},
     0,
     0,
     "recurrent=8 total_steps=4096",
     "obs-memory",
     "memory|normalize_obs=yes"},
    {{.narrow = 0.01f, .scale = 1, .reward = 1, .length = 10},
     0,
     0,
     "",
     "obs-small",
     "observation[0] varies by 0.0057 only, beside numbers of up to 0.59|normalize_obs=yes"},
    {{.narrow = 0.01f, .shift = 1, .scale = 1, .reward = 1, .length = 10},
     0,
     0,
     "",
     "obs-small",
     "observation[0] varies by 0.0057|normalize_obs=yes"},
    {{FINE, .frozen = 1}, 0, 0, "", "obs-constant", "never changed"},
    {{TASK, .scale = 1}, 0, 0, "", "reward-none", "no reward"},
    {{TASK, .scale = 1, .reward = 1e7f},
     0,
     0,
     "",
     "reward-large",
     "rewards reach 1e+07|normalize_reward=yes"},
    {{TASK, .scale = 1, .reward = 1e4f}, 0, 0, "", "gradient", "max_grad_norm|normalize_reward=yes"},
    {{TASK, .scale = 1, .reward = 1e4f}, 0, 0, "normalize_reward=yes", "", ""},
    {{TASK, .scale = 1, .reward = 9e5f},
     0,
     0,
     "value_coef=100",
     "overflow",
     "near overflow|normalize_reward=yes"},
    {{.narrow = 1, .scale = 1, .reward = 1}, 0, 0, "", "no-end", "no episode ended|env.max_steps"},
    {{FINE},
     -100,
     100,
     "scale_actions=no",
     "box-far",
     "scale_actions is no, and actions go from -100 to 100|: try scale_actions=auto"},
    {{FINE},
     0,
     0,
     FAST "0.03 target_kl=0.003",
     "kl-stops",
     "first epoch|lower learning_rate, higher target_kl"},
    {{FINE}, 0, 0, "learning_rate=1e-7", "random", "at random|: try higher learning_rate, normalize_obs=yes"},
    {{FINE}, -1, 1, "learning_rate=1e-8", "random", "at random|higher learning_rate"},
    {{FINE},
     0,
     0,
     FAST "0.01 clip_low=1e-4 clip_high=1e-4",
     "clip",
     "left the clip range|lower learning_rate"},
    {{FINE},
     0,
     0,
     FAST "0.01 clip_low=1e-4 clip_high=1e-4 target_kl=1 epochs=1",
     "clip",
     "KL is|lower learning_rate"},
    {{FINE}, 0, 0, FAST "0.3 " WIDE, "clip", "KL is|lower learning_rate, fewer epochs, target_kl"},
    {{FINE},
     -1,
     1,
     "entropy_coef=1 " FAST "0.03 " WIDE,
     "std-high",
     "rose to|lower entropy_coef, lower learning_rate"},
    {{FINE}, 0, 0, "entropy_coef=5", "entropy-high", "keeps the policy near random: try lower entropy_coef"},
    {{FINE}, -1, 1, "log_std_init=-5", "std-small", "deviation of 0.0067 only|: try higher log_std_init"},
    {{FINE}, -1, 1, "log_std_init=-5 gsde=yes", "", ""},
    {{TASK, .scale = 1, .reward = 0.1f, .cost = 1, .stop = 1},
     0,
     0,
     FAST "3e-4",
     "shorter",
     "episodes got shorter"},
};

static void sick_tasks_are_named_by_their_own_symptoms(void **state) {
    (void)state;
    static const char *const kernels[] = {NULL, "avx2"};
    int wrong = 0;
    for (int i = 0; i < SMALL(COUNT(kernels), 1); i++) {
        if (ppo_use_kernels(kernels[i])) continue;
        for (int k = 0; k < COUNT(sick_tasks); k += SMALL(1, 2)) {
            const sick *c = &sick_tasks[k];
            task t = c->is;
            ppo_env env = c->low < c->high ? box_of(&t, c->low, c->high) : env_of(&t);
            story s = story_of(&env, c->settings);
            char words[200];
            snprintf(words, sizeof words, "%s", c->says);
            int good = !strcmp(s.names, c->name);
            for (char *word = strtok(words, "|"); word; word = strtok(NULL, "|"))
                good &= strstr(s.sentence, word) != NULL;
            wrong += !good;
            if (!good)
                print_error("task %d, %s: \"%s\", not \"%s\": %s\n", k, ppo_kernels_name(), s.names, c->name,
                            s.sentence);
        }
    }
    assert_ok(ppo_use_kernels(NULL));
    assert_int_equal(wrong, 0);
}

/* The environments of examples/envs with which build/train is silent for ten seeds; here the first part of a run. */
static void sound_tasks_have_no_symptom(void **state) {
    (void)state;
    static const struct {
        ppo_env (*make)(void);
        const char *settings;
    } tasks[] = {
        {cartpole_env, "total_steps=20480"},
        {pendulum_env, "rollout_steps=1024 gamma=0.9 learning_rate=1e-3 value_coef=1 gsde=yes gsde_steps=4 "
                       "total_steps=20480"},
        {memory_env, "recurrent=16 total_steps=20480"},
        {gridworld_env, "gamma=1 hidden=none learning_rate=3e-3 total_steps=40960"},
        {tictactoe_env, "num_envs=16 rollout_steps=256 minibatch_size=256 learning_rate=1e-3 entropy_coef=0.02 activation=relu "
                        "total_steps=40960"},
        {acrobot_env,
         "num_envs=16 rollout_steps=256 epochs=4 gae_lambda=0.94 normalize_obs=yes normalize_reward=yes "
         "value_coef=1 total_steps=40960"},
        {mountaincar_continuous_env, "num_envs=1 rollout_steps=8 minibatch_size=8 epochs=10 "
                                     "learning_rate=7.77e-5 gamma=0.9999 gae_lambda=0.9 clip_low=0.1 "
                                     "clip_high=0.1 value_coef=0.38 entropy_coef=0.00429 max_grad_norm=5 "
                                     "gsde=yes log_std_init=-3.29 init=uniform "
                                     "normalize_obs=yes normalize_reward=yes total_steps=4000"},
    };
    for (int k = 0; k < COUNT(tasks); k += SMALL(1, 3)) {
        const ppo_env env = tasks[k].make();
        ppo_config cfg = ppo_config_default();
        ppo_inspection report;
        story s = story_of(&env, tasks[k].settings);
        if (*s.names) fail_msg("%s: %s", env.name, s.sentence);
        assert_ok(ppo_config_set_all(&cfg, tasks[k].settings));
        assert_ok(ppo_env_check_with(&env, &cfg, 3000, 1, &report));
        if (report.findings) fail_msg("%s: %s", env.name, report.finding[0]);
    }
}

/* An environment by other functions, with settings, and the one symptom that it must have. */
static void named(const ppo_env *env, const char *settings, const char *name, const char *says) {
    const story s = story_of(env, settings);
    if (strcmp(s.names, name) || !strstr(s.sentence, says))
        fail_msg("\"%s\", not \"%s\": %s", s.names, name, s.sentence);
}

static void collapsed_policies_are_named(void **state) {
    (void)state;
    ppo_env cartpole = cartpole_env();
    named(&cartpole, FAST "1 total_steps=20480", "entropy-gone", "one action only");
    task t = {FINE};
    ppo_env box = box_of(&t, -1, 1);
    for (int k = 0; k < 2; k++) {
        story s = {"", "", 0};
        ppo_config cfg = ppo_config_default();
        ppo_agent *agent = NULL;
        cfg.total_steps = 4096;
        cfg.callback = take_warning;
        cfg.callback_user = &s;
        assert_ok(ppo_agent_create(&box, &cfg, &agent));
        agent->model.log_std->data[0] = k ? 8 : -8;
        assert_ok(ppo_train(&box, &cfg, &agent));
        assert_string_equal(s.names, k ? "std-high" : "std-gone");
        assert_non_null(strstr(s.sentence, k ? "rose to" : "fell to"));
        ppo_agent_free(agent);
    }
}

/* Which of two thirds of a long episode it is; all copies begin together. */
static void clock_reset(void *state, ppo_rng *rng, float *obs) {
    const int *at_once = (const int *)ppo_env_user();
    int *w = (int *)state;
    w[0] = !*at_once && !w[1] ? ppo_rng_below(rng, 300) : 0;
    w[1] = 1;
    obs[0] = obs[1] = 0;
}

static void clock_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    int *w = (int *)state;
    (void)rng;
    out->reward = action->discrete == w[0] / 100 % 2;
    out->truncated = ++w[0] >= 300;
    for (int j = 0; j < 2; j++) obs[j] = w[0] / 100 % 2 == j;
}

static void copies_in_step_are_named(void **state) {
    (void)state;
    int at_once = 1;
    ppo_env env = {.obs_size = 2,
                   .action_space = ppo_discrete(2),
                   .state_size = 2 * sizeof(int),
                   .reset = clock_reset,
                   .step = clock_step,
                   .user = &at_once};
    const char *settings =
        "num_envs=64 rollout_steps=16 minibatch_size=256 epochs=2 learning_rate=3e-3 total_steps=65536";
    named(&env, settings, "in-step", "all 64 copies are at the same step of 300, and a rollout sees 16");
    at_once = 0; /* by the first reset of a copy, which is no fault */
    if (SMALL(1, 0)) named(&env, settings, "", "");
    ppo_inspection report;
    assert_ok(ppo_env_check(&env, 2000, 1, &report));
    assert_int_equal(report.findings, 0);
}

/* A cause is said before what follows from it, and again where that shows; but not what has been set. */
static void an_effect_is_said_with_its_cause(void **state) {
    (void)state;
    task t = {TASK, .scale = 1000, .reward = 1e4f};
    ppo_env env = env_of(&t);
    story s = story_of(&env, "");
    assert_string_equal(s.names, "obs-far");
    assert_true(s.iterations > 4); /* the gradient is too large in each */
    s = story_of(&env, "normalize_obs=yes");
    assert_string_equal(s.names, "gradient");
    assert_null(strstr(s.sentence, "normalize_obs"));
    s = story_of(&env, "normalize_obs=yes normalize_reward=yes");
    assert_string_equal(s.names, "");
}

/* What a program pushes is judged as what an environment shows. */
static story pushed_story(float scale, float reward, int length) {
    task t = {TASK, .scale = scale, .reward = reward};
    t.length = length;
    ppo_env env = env_of(&t);
    story s = {"", "", 0};
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_progress p;
    env.reset = NULL, env.step = NULL;
    assert_ok(ppo_config_set_all(&cfg, "num_envs=1 rollout_steps=256 total_steps=4096 hidden=16"));
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    ppo_rng rng = ppo_rng_stream(1, 0, 0);
    ppo_outcome out = {0};
    for (int frame = 0, step = 0; !ppo_trainer_done(trainer); frame++) {
        float place = ppo_rng_range(&rng, -1, 1),
              obs[3] = {scale * place, scale * ppo_rng_range(&rng, -1, 1), 0};
        ppo_action action;
        assert_ok(ppo_trainer_observe(trainer, 0, obs, NULL, step ? &out : NULL));
        if (step && out.terminated) {
            step = 0;
            frame--;
            memset(&out, 0, sizeof out);
            continue;
        }
        assert_ok(ppo_trainer_act(trainer, 0, &action));
        memset(&out, 0, sizeof out);
        out.reward = reward * (float)(action.discrete == (place < 0 ? 0 : 1));
        out.terminated = ++step == length;
        assert_ok(ppo_trainer_learn(trainer, 0, &p));
        if (p.iteration) take_warning(&p, &s);
    }
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    return s;
}

static void a_pushed_game_is_judged_by_its_first_rollout(void **state) {
    (void)state;
    assert_string_equal(pushed_story(1, 1, 10).names, "");
    assert_string_equal(pushed_story(1000, 1, 10).names, "obs-far");
    assert_string_equal(pushed_story(1e-4f, 1, 10).names, "obs-tiny");
    assert_string_equal(pushed_story(1, 0, 10).names, "reward-none");
    story s = pushed_story(1, 1, -1);
    assert_string_equal(s.names, "no-end");
    assert_non_null(strstr(s.sentence, "outcome.truncated"));
}

/* -- inspection: what copies show -- */

static void checked(task t, const char *name, const char *says) {
    ppo_env env = env_of(&t);
    ppo_inspection report;
    env.copies = t.copies;
    if (t.copies > 1) env.open = task_open;
    assert_ok(ppo_env_check(&env, 2000, 1, &report));
    if (report.findings != !!*name)
        fail_msg("%d findings, for \"%s\": %s, %s", report.findings, name, report.finding[0],
                 report.finding[1]);
    if (!*name) return;
    assert_string_equal(report.symptom[0], name);
    for (size_t n; *says; says += n + (says[n] == '|')) {
        char word[80];
        snprintf(word, sizeof word, "%.*s", (int)(n = strcspn(says, "|")), says);
        if (!strstr(report.finding[0], word)) fail_msg("\"%s\" does not say \"%s\"", report.finding[0], word);
    }
}

static void what_copies_of_an_environment_show_is_named(void **state) {
    (void)state;
    const task fine = {FINE};
    task t = fine;
    checked(t, "", "");
    t = fine, t.shares = 1, checked(t, "copies-shared", "one alone repeats itself");
    t = fine, t.shares = t.copies = 1, checked(t, "", "");
    t = fine, t.copies = 2, checked(t, "", "");
    t = fine, t.shares = 1, t.copies = 2, checked(t, "copies-shared", "one alone repeats itself");
    t = fine, t.chance = 1, checked(t, "copies-random", "in reset() two copies|rand() or static variables");
    t.chance = 2, checked(t, "copies-random", "two copies|rand() or static variables");
    t = fine, t.forgets = 1, checked(t, "reset-forgets", "differ at step 1: reset() leaves something");
    t = fine, t.length = 1, t.reward = 9e5f, checked(t, "", ""); /* which no episode adds up */
    t = fine, t.blind = 1, checked(t, "obs-unwritten", "step does not write observation[1]");
    t.copies = 1, checked(t, "obs-unwritten", "step does not write observation[1]");
    if (sizeof(void *) < 8) return; /* other bytes */
    t = fine, t.holds = 1, checked(t, "state-differs", "no checkpoint");
    if ((uint64_t)(uintptr_t)task_reset >> 40)
        t.holds = 2, checked(t, "state-address", "an address in the program");
}

static void an_inspection_knows_the_settings(void **state) {
    (void)state;
    task t = {TASK, .scale = 1000, .reward = 1e7f};
    ppo_env env = env_of(&t);
    ppo_config cfg = ppo_config_default();
    ppo_inspection report;
    assert_ok(ppo_env_check_with(&env, NULL, 1000, 1, &report));
    assert_int_equal(report.findings, 2);
    assert_string_equal(report.symptom[0], "obs-far");
    assert_string_equal(report.symptom[1], "reward-large");
    cfg.normalize_obs = 1;
    assert_ok(ppo_env_check_with(&env, &cfg, 1000, 1, &report));
    assert_int_equal(report.findings, 1);
    cfg.normalize_reward = 1;
    assert_ok(ppo_env_check_with(&env, &cfg, 1000, 1, &report));
    assert_int_equal(report.findings, 0);
}

/* A policy over the whole box earns what one that acts near 0 never finds; the advice for the latter makes it so. */
static void a_check_draws_from_all_that_a_new_policy_reaches(void **state) {
    (void)state;
    task t = {FINE, .far = 30};
    ppo_env env = box_of(&t, -100, 100);
    ppo_config cfg = ppo_config_default();
    ppo_inspection report;
    assert_ok(ppo_env_check(&env, 1000, 1, &report));
    assert_int_equal(report.findings, 0);
    cfg.scale_actions = PPO_SCALE_NO;
    assert_ok(ppo_env_check_with(&env, &cfg, 1000, 1, &report));
    assert_int_equal(report.findings, 2);
    assert_string_equal(report.symptom[0], "box-far");
    const char *advice = strstr(report.finding[0], "try ");
    assert_non_null(advice);
    assert_ok(ppo_config_set_all(&cfg, advice + 4));
    for (int squash = 0; squash < 2; squash++) {
        assert_ok(ppo_config_check_effect(&cfg, &env, NULL));
        assert_ok(ppo_env_check_with(&env, &cfg, 1000, 1, &report));
        assert_int_equal(report.findings, 0);
        cfg.squash = 1;
    }
}

/* Rewards of a few thousand make discounted returns of some ten thousand: far below a million. */
static void returns_below_a_million_are_not_large(void **state) {
    (void)state;
    task t = {TASK, .scale = 1, .reward = 5000};
    ppo_env env = env_of(&t);
    ppo_inspection report;
    assert_ok(ppo_env_check(&env, 1000, 1, &report));
    assert_int_equal(report.findings, 0);
    t.reward = 9e5f; /* a single one is not, but the sum of ten is */
    assert_ok(ppo_env_check(&env, 1000, 1, &report));
    assert_int_equal(report.findings, 1);
    assert_string_equal(report.symptom[0], "reward-large");
}

/* A picture of 2 x 2 bytes, and beside it two numbers. */
static void picture_reset(void *state, ppo_rng *rng, float *obs) {
    (void)state;
    for (int j = 0; j < 4; j++) obs[j] = (float)ppo_rng_below(rng, 256);
    for (int j = 4; j < 6; j++) obs[j] = *(const float *)ppo_env_user() * ppo_rng_range(rng, -1, 1);
}

static void picture_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    out->reward = (float)action->discrete;
    out->terminated = ++*(int *)state % 10 == 0;
    picture_reset(state, rng, obs);
}

static void numbers_beside_a_picture_are_judged(void **state) {
    (void)state;
    float scale = 1000;
    ppo_env env = {.obs_size = 6,
                   .shape = {1, 2, 2},
                   .byte_scale = 1,
                   .action_space = ppo_discrete(2),
                   .state_size = sizeof(int),
                   .reset = picture_reset,
                   .step = picture_step,
                   .user = &scale};
    ppo_inspection report;
    for (int k = 0; k < 3; k++, scale = k == 1 ? 1 : 0) {
        assert_ok(ppo_env_check(&env, 1000, 1, &report));
        assert_int_equal(report.findings, !k);
        if (!k) assert_string_equal(report.symptom[0], "obs-far");
        named(&env, "total_steps=2048 rollout_steps=128", k ? "" : "obs-far", k ? "" : "observation[");
    }
}

static void sampled_play_that_is_far_better_is_said(void **state) {
    (void)state;
    ppo_config cfg = ppo_config_default();
    ppo_evaluation greedy = {PPO_OK, 20, 0.58f, 0.3f, 0, 0, 0}, sampled = {PPO_OK, 20, 1.27f, 0.3f, 0, 0, 0};
    char sentence[160];
    assert_int_equal(ppo_evaluation_check(&cfg, &greedy, &sampled, sentence), 1);
    assert_non_null(strstr(sentence, "greedy play earns 0.58, sampled play 1.27"));
    assert_int_equal(ppo_evaluation_check(&cfg, &sampled, &greedy, sentence), 0);
    assert_string_equal(sentence, "");
    sampled.mean_return = 0.65f;
    assert_int_equal(ppo_evaluation_check(&cfg, &greedy, &sampled, sentence), 0);
}

/* -- where warnings are shown -- */

static int write_log(const ppo_progress *p, void *log) { return ppo_log_write((ppo_log *)log, p) != PPO_OK; }

static int print_to(const ppo_progress *p, void *file) { return ppo_print_progress(p, file); }

static void a_warning_is_kept_until_it_is_shown(void **state) {
    (void)state;
    task t = {TASK, .scale = 1000, .reward = 1};
    ppo_env env = env_of(&t);
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    char line[400];
    int said = 0;
    assert_ok(
        ppo_config_set_all(&cfg, "total_steps=16000 rollout_steps=20 minibatch_size=80 epochs=1 hidden=8"));
    cfg.callback = print_to;
    cfg.callback_user = tmpfile();
    assert_ok(ppo_train(&env, &cfg, &agent)); /* 200 iterations, the first of which shows it; ten to a line */
    rewind((FILE *)cfg.callback_user);
    while (fgets(line, sizeof line, (FILE *)cfg.callback_user)) said += strstr(line, "observation[") != NULL;
    assert_int_equal(said, 1);
    fclose((FILE *)cfg.callback_user);
    ppo_agent_free(agent);
}

/* The bytes of the only event file of a folder; where NULL: removes it and the folder. */
static int events_have(const char *folder, const char *what) {
    static char bytes[65536];
    char path[400];
    DIR *dir = opendir(folder);
    size_t n = 0;
    int found = 0;
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (!strstr(entry->d_name, "tfevents")) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        n = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        if (!what) remove(path);
    }
    closedir(dir);
    if (!what) return remove(folder);
    for (size_t i = 0; i + strlen(what) <= n; i++) found |= !memcmp(bytes + i, what, strlen(what));
    return found;
}

static void warnings_are_in_the_logs(void **state) {
    (void)state;
    task t = {TASK, .scale = 1};
    ppo_env env = env_of(&t);
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_log *log = NULL;
    char line[2048];
    int column = 0, rows = 0;
    assert_ok(ppo_config_set_all(&cfg, "total_steps=4096 hidden=8"));
    assert_ok(ppo_log_open("warned.csv", "warned", 0, &log));
    cfg.callback = write_log;
    cfg.callback_user = log;
    assert_ok(ppo_train(&env, &cfg, &agent));
    ppo_log_close(log);
    FILE *file = fopen("warned.csv", "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    for (const char *c = strstr(line, "train/warning"); c > line; c--) column += c[-1] == ',';
    while (fgets(line, sizeof line, file)) {
        const char *c = line;
        for (int k = 0; k < column; k++) c = strchr(c, ',') + 1;
        assert_true(!strncmp(c, "reward-none: no reward came in ", 31));
        rows++;
    }
    assert_int_equal(rows, 2);
    fclose(file);
    remove("warned.csv");
    assert_true(events_have("warned", "\n\rtrain/warning")); /* a tag, 13 bytes long */
    assert_true(events_have("warned", "reward-none: no reward came in 2048 steps"));
    assert_true(events_have("warned", "\x0a\x06\x0a\x04text")); /* for the plugin of texts */
    assert_int_equal(events_have("warned", NULL), 0);
    ppo_agent_free(agent);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sick_tasks_are_named_by_their_own_symptoms),
        cmocka_unit_test(sound_tasks_have_no_symptom),
        cmocka_unit_test(collapsed_policies_are_named),
        cmocka_unit_test(copies_in_step_are_named),
        cmocka_unit_test(an_effect_is_said_with_its_cause),
        cmocka_unit_test(a_pushed_game_is_judged_by_its_first_rollout),
        cmocka_unit_test(what_copies_of_an_environment_show_is_named),
        cmocka_unit_test(an_inspection_knows_the_settings),
        cmocka_unit_test(a_check_draws_from_all_that_a_new_policy_reaches),
        cmocka_unit_test(returns_below_a_million_are_not_large),
        cmocka_unit_test(numbers_beside_a_picture_are_judged),
        cmocka_unit_test(sampled_play_that_is_far_better_is_said),
        cmocka_unit_test(a_warning_is_kept_until_it_is_shown),
        cmocka_unit_test(warnings_are_in_the_logs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
