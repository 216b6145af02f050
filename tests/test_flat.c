/* ppo_flat.h: trainings through arrays and texts have the bits of those through structs, in each of the three ways in
   which a vector environment begins its next episode; what it lists and reports is what ppo.h has; refusals. */
#include "../ppo.h"
#include "../examples/companions/ppo_explain.h"
#include "../examples/companions/ppo_flat.h"
#include "../examples/envs/cartpole.h"

#include "test.h"

/* --------------------------------------------------------------------------------------------------------
   A vector environment, as Gymnasium has it, around the environments of test.h
   -------------------------------------------------------------------------------------------------------- */

enum { MOST = 4, NUMBERS = 4, OPTIONS = 9 };
typedef enum mode { SAME_STEP, NEXT_STEP, DISABLED } mode;

typedef struct vector {
    ppo_env env;
    int n;
    mode mode;
    char state[MOST][64];
    ppo_rng rng[MOST];
    int age[MOST], over[MOST];
    float obs[MOST * NUMBERS], final_obs[MOST * NUMBERS], reward[MOST];
    unsigned char mask[MOST * OPTIONS], terminated[MOST], truncated[MOST];
    int choices[MOST * NUMBERS];
    float box[MOST * NUMBERS];
} vector;

static int options_of(const ppo_space *space) {
    int sum = space->kind == PPO_DISCRETE ? space->n : 0;
    for (int j = 0; j < space->n && space->kind >= PPO_MULTI_DISCRETE; j++) sum += space->sizes[j];
    return sum;
}

static void vector_mask(vector *v, int i) {
    const int options = options_of(&v->env.action_space);
    memset(v->mask + i * options, 1, (size_t)options);
    if (v->env.action_mask) v->env.action_mask(v->state[i], v->mask + i * options);
}

static void vector_reset(vector *v, int i) {
    v->env.reset(v->state[i], &v->rng[i], v->obs + i * v->env.obs_size);
    v->age[i] = v->over[i] = 0;
    vector_mask(v, i);
}

static vector vector_of(const ppo_env *env, int n, mode mode, uint64_t seed) {
    vector v = {0};
    v.env = *env, v.n = n, v.mode = mode;
    for (int i = 0; i < n; i++) {
        v.rng[i] = ppo_rng_stream(seed, PPO_STREAM_ENV, (uint32_t)i);
        vector_reset(&v, i);
    }
    return v;
}

/* A step of all. What is not to be read is NaN. */
static void vector_step(vector *v) {
    const ppo_space *space = &v->env.action_space;
    const int size = v->env.obs_size, wide = space->kind == PPO_DISCRETE ? 1 : space->n;
    for (int k = 0; k < v->n * size; k++) v->final_obs[k] = NAN;
    for (int i = 0; i < v->n; i++) {
        ppo_outcome out = {0};
        if (v->over[i] && v->mode == NEXT_STEP) { /* the action is ignored */
            vector_reset(v, i);
            v->reward[i] = NAN, v->terminated[i] = v->truncated[i] = 1;
            continue;
        }
        const ppo_action action = {v->choices[i * wide], v->choices + i * wide, v->box + i * wide};
        assert_false(v->over[i]);
        v->env.step(v->state[i], &v->rng[i], &action, v->obs + i * size, &out);
        vector_mask(v, i);
        v->age[i]++;
        v->reward[i] = out.reward;
        v->terminated[i] = (unsigned char)out.terminated;
        v->truncated[i] = v->age[i] == v->env.max_steps;
        v->over[i] = out.terminated || v->truncated[i];
        if (!v->over[i] || v->mode != SAME_STEP) continue;
        memcpy(v->final_obs + i * size, v->obs + i * size, (size_t)size * sizeof(float));
        vector_reset(v, i);
    }
}

static ppo_config *settings(const char *text) {
    ppo_config *config = NULL;
    assert_ok(ppo_flat_config_create(&config));
    assert_ok(ppo_config_set_all(config, text));
    return config;
}

static ppo_env *described(const ppo_env *env) {
    char space[64];
    ppo_env *flat = NULL;
    const ppo_space *s = &env->action_space;
    if (s->kind == PPO_DISCRETE) snprintf(space, sizeof space, "discrete %d", s->n);
    if (s->kind == PPO_MULTI_BINARY) snprintf(space, sizeof space, "multi-binary %d", s->n);
    if (s->kind == PPO_BOX)
        snprintf(space, sizeof space, "box %d %g %g", s->n, (double)s->low, (double)s->high);
    if (s->kind == PPO_MULTI_DISCRETE) snprintf(space, sizeof space, "multi-discrete 3,2,4");
    assert_ok(ppo_flat_env_create(env->name, env->obs_size, 0, NULL, 0, space, &flat));
    return flat;
}

/* What is pushed: a training, its twin that pulls, and the vector environment. */
typedef struct training {
    vector v;
    ppo_env *flat;
    ppo_config *config;
    ppo_agent *agent, *twin;
    ppo_trainer *trainer, *pulling;
} training;

static training training_of(const ppo_env *env, const char *text, mode mode) {
    training t = {.config = settings(text), .flat = described(env)};
    t.v = vector_of(env, t.config->num_envs, mode, t.config->seed);
    assert_ok(ppo_agent_create(t.flat, t.config, &t.agent));
    assert_ok(ppo_trainer_create(t.flat, t.config, t.agent, &t.trainer));
    assert_ok(ppo_agent_create(env, t.config, &t.twin));
    assert_ok(ppo_trainer_create(env, t.config, t.twin, &t.pulling));
    return t;
}

static void training_free(training *t) {
    ppo_trainer_free(t->trainer);
    ppo_agent_free(t->agent);
    ppo_trainer_free(t->pulling);
    ppo_agent_free(t->twin);
    ppo_flat_env_free(t->flat);
    ppo_flat_config_free(t->config);
}

/* An action and a step of all, and what followed. */
static void push(training *t) {
    vector *v = &t->v;
    const int floats = v->env.action_space.kind == PPO_BOX, masked = v->env.action_mask != NULL;
    int begin[MOST], begins = 0;
    assert_ok(
        ppo_trainer_act_many(t->trainer, v->n, NULL, floats ? NULL : v->choices, floats ? v->box : NULL));
    vector_step(v);
    assert_ok(ppo_trainer_observe_many(t->trainer, v->n, NULL, v->obs, masked ? v->mask : NULL, v->reward,
                                       v->terminated, v->truncated,
                                       v->mode == SAME_STEP ? v->final_obs : NULL));
    for (int i = 0; i < v->n && v->mode == DISABLED; i++)
        if (v->over[i]) begin[begins++] = i, vector_reset(v, i);
    if (begins) { /* rows of their own, side by side */
        float obs[MOST * NUMBERS];
        unsigned char mask[MOST * OPTIONS];
        const int size = v->env.obs_size, options = options_of(&v->env.action_space);
        for (int k = 0; k < begins; k++) {
            memcpy(obs + k * size, v->obs + begin[k] * size, (size_t)size * sizeof(float));
            memcpy(mask + k * options, v->mask + begin[k] * options, (size_t)options);
        }
        assert_ok(ppo_trainer_observe_many(t->trainer, begins, begin, obs, masked ? mask : NULL, NULL, NULL,
                                           NULL, NULL));
    }
}

/* An iteration of both. */
static void iterate(training *t, double milliseconds) {
    int learned = 0;
    assert_ok(ppo_trainer_iterate(t->pulling, NULL));
    for (int i = 0; !learned && i < 10000; i++) {
        if (!ppo_trainer_ready(t->trainer)) push(t);
        assert_ok(ppo_flat_learn(t->trainer, milliseconds, &learned));
    }
    assert_true(learned);
}

static void start(training *t) {
    assert_ok(ppo_trainer_observe_many(t->trainer, t->v.n, NULL, t->v.obs,
                                       t->v.env.action_mask ? t->v.mask : NULL, NULL, NULL, NULL, NULL));
}

#define SMALL_RUN "rollout_steps=24 minibatch_size=20 epochs=2 hidden=8 total_steps=250 learning_rate=3e-3 "

static void arrays_train_to_the_bits_of_the_pulled_loop(void **state) {
    (void)state;
    const struct {
        ppo_env env;
        const char *settings;
    } kinds[] = {
        {walk_env(), SMALL_RUN "num_envs=4"},
        {walk_env(), SMALL_RUN "num_envs=3 recurrent=5 sequence_steps=8"},
        {walk_env(), SMALL_RUN "num_envs=3 normalize_obs=yes normalize_reward=yes threads=2"},
        {reach_env(), SMALL_RUN "num_envs=4 normalize_obs=yes"},
        {reach_env(), SMALL_RUN "num_envs=2 squash=yes gsde=yes gsde_steps=4"},
        {fenced_env(), SMALL_RUN "num_envs=4"},
        {dials_env(), SMALL_RUN "num_envs=3 objective=kl-penalty"},
        {lamps_env(), SMALL_RUN "num_envs=2 use_critic=no"},
    };
    for (int k = 0; k < COUNT(kinds); k++)
        for (mode m = SAME_STEP; m <= DISABLED; m++) {
            if (m == NEXT_STEP) continue; /* whose sources are not in step */
            training t = training_of(&kinds[k].env, kinds[k].settings, m);
            start(&t);
            while (!ppo_trainer_done(t.pulling)) {
                iterate(&t, 0);
                assert_int_equal(agents_differ(t.agent, t.twin), 0);
            }
            assert_true(ppo_trainer_done(t.trainer));
            training_free(&t);
        }
    assert_int_equal(illegal_actions, 0);
}

static void one_source_that_begins_a_step_later_trains_to_the_same_bits(void **state) {
    (void)state;
    const ppo_env envs[] = {walk_env(), reach_env(), dials_env()};
    for (int k = 0; k < COUNT(envs); k++) {
        training t = training_of(&envs[k], SMALL_RUN "num_envs=1", NEXT_STEP);
        start(&t);
        while (!ppo_trainer_done(t.pulling)) {
            iterate(&t, 0);
            assert_int_equal(agents_differ(t.agent, t.twin), 0);
        }
        training_free(&t);
    }
}

/* Until the policy changes, what each source does depends on itself alone. */
static void sources_that_begin_a_step_later_record_the_same_first_rollout(void **state) {
    (void)state;
    const ppo_env envs[] = {walk_env(), dials_env()};
    for (int k = 0; k < COUNT(envs); k++) {
        training t = training_of(&envs[k], SMALL_RUN "num_envs=4 epochs=1", NEXT_STEP);
        start(&t);
        iterate(&t, 0);
        const ppo_rollout *got = ppo_trainer_rollout(t.trainer), *want = ppo_trainer_rollout(t.pulling);
        const size_t rows = (size_t)(got->steps * got->envs);
        assert_int_equal(got->steps, want->steps);
        assert_memory_equal(got->obs, want->obs, rows * (size_t)envs[k].obs_size * sizeof(float));
        assert_memory_equal(got->reward, want->reward, rows * sizeof(float));
        assert_memory_equal(got->terminated, want->terminated, rows);
        assert_memory_equal(got->truncated, want->truncated, rows);
        assert_memory_equal(got->value, want->value, rows * sizeof(float));
        assert_memory_equal(got->next_value, want->next_value, rows * sizeof(float));
        assert_memory_equal(got->advantage, want->advantage, rows * sizeof(float));
        assert_memory_equal(got->episode_length, want->episode_length, rows * sizeof(int));
        training_free(&t);
    }
}

static void learning_in_slices_has_the_same_bits(void **state) {
    (void)state;
    ppo_env env = walk_env();
    training t = training_of(&env, SMALL_RUN "num_envs=4", SAME_STEP);
    start(&t);
    while (!ppo_trainer_done(t.pulling)) iterate(&t, -1);
    assert_int_equal(agents_differ(t.agent, t.twin), 0);
    training_free(&t);
}

/* --------------------------------------------------------------------------------------------------------
   Actions
   -------------------------------------------------------------------------------------------------------- */

static void many_sources_act_as_each_alone(void **state) {
    (void)state;
    const ppo_env envs[] = {walk_env(), reach_env(), dials_env()};
    for (int k = 0; k < COUNT(envs); k++) {
        const int floats = k == 1, wide = k == 2 ? DIALS : k == 1 ? 2 : 1;
        training t = training_of(&envs[k], SMALL_RUN "num_envs=4", SAME_STEP);
        training u = training_of(&envs[k], SMALL_RUN "num_envs=4", SAME_STEP);
        const int some[3] = {2, 0, 3}, rest[2] = {1, 0};
        int choices[MOST * NUMBERS];
        float box[MOST * NUMBERS];
        start(&t), start(&u);
        for (int round = 0; round < 2; round++) {
            const int n = round ? 2 : 3, *sources = round ? rest : some;
            assert_ok(
                ppo_trainer_act_many(t.trainer, n, sources, floats ? NULL : choices, floats ? box : NULL));
            for (int i = 0; i < n - round; i++) {
                ppo_action action;
                assert_ok(ppo_trainer_act(u.trainer, sources[i], &action));
                if (floats) assert_memory_equal(box + i * wide, action.box, (size_t)wide * sizeof(float));
                else assert_memory_equal(choices + i * wide, action.choices, (size_t)wide * sizeof(int));
            }
        }
        for (int j = 0; j < wide; j++) /* source 0 has acted before */
            assert_true(floats ? box[wide + j] == 0 : choices[wide + j] == 0);
        training_free(&t);
        training_free(&u);
    }
}

/* Sources that have acted get zeros, which nobody plays; and a policy that cannot choose leaves the turns as they were. */
static void where_nobody_can_act_nothing_changes(void **state) {
    (void)state;
    const ppo_env env = dials_env();
    training t = training_of(&env, SMALL_RUN "num_envs=3", SAME_STEP);
    int choices[3 * DIALS], again[3 * DIALS];
    start(&t);
    float *weight = t.agent->model.params->data, own = *weight;
    *weight = NAN;
    assert_int_equal(ppo_trainer_act_many(t.trainer, 3, NULL, choices, NULL), PPO_ERROR_NUMERIC);
    *weight = own;
    assert_ok(ppo_trainer_act_many(t.trainer, 3, NULL, choices, NULL));
    for (int i = 0; i < COUNT(again); i++) again[i] = 7;
    assert_ok(ppo_trainer_act_many(t.trainer, 3, NULL, again, NULL));
    for (int i = 0; i < COUNT(again); i++) assert_int_equal(again[i], 0);
    assert_ok(ppo_trainer_act_many(t.trainer, 0, NULL, again, NULL));
    training_free(&t);
}

static void a_source_without_an_episode_gets_an_action_within_the_box(void **state) {
    (void)state;
    ppo_config *config = settings("num_envs=2 total_steps=64 rollout_steps=8 minibatch_size=8");
    ppo_env *env = NULL;
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    float box[4] = {-1, -1, -1, -1};
    const float obs[4] = {0.1f, 0.2f, 0.3f, 0.4f};
    const int second = 1;
    assert_ok(ppo_flat_env_create("high", 2, 0, NULL, 0, "box 2 5 6", &env));
    assert_ok(ppo_agent_create(env, config, &agent));
    assert_ok(ppo_trainer_create(env, config, agent, &trainer));
    assert_ok(ppo_trainer_observe_many(trainer, 1, &second, obs, NULL, NULL, NULL, NULL, NULL));
    assert_ok(ppo_trainer_act_many(trainer, 2, NULL, NULL, box));
    assert_true(box[0] == 5 && box[1] == 5 && box[2] >= 5 && box[2] <= 6 && box[3] >= 5 && box[3] <= 6);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    ppo_flat_env_free(env);
    ppo_flat_config_free(config);
}

static void an_agent_acts_and_values_as_by_its_structs(void **state) {
    (void)state;
    const ppo_env envs[] = {walk_env(), reach_env(), dials_env()};
    for (int k = 0; k < 2 * COUNT(envs); k++) {
        const ppo_env *env = &envs[k / 2];
        const int floats = env->action_space.kind == PPO_BOX, recurrent = k % 2 ? 5 : 0,
                  wide = k / 2 + (k < 2);
        ppo_config *config = settings(recurrent ? "recurrent=5 hidden=8" : "normalize_obs=yes hidden=8");
        ppo_agent *agent = NULL;
        ppo_rng rng = ppo_rng_stream(9, PPO_STREAM_USER, 3);
        uint32_t stream[11];
        float obs[3 * NUMBERS], box[3 * 2], memory[3 * 5] = {0}, same[3 * 5] = {0}, value[3], want_box[3 * 2];
        int choices[3 * DIALS], want[3 * DIALS];
        const ppo_actions actions = {want, want_box};
        assert_ok(ppo_agent_create(env, config, &agent));
        fill_normal(&rng, obs, COUNT(obs), 1);
        if (!recurrent) ppo_normalizer_update(&agent->obs_norm, obs, 3);
        ppo_flat_rng(9, 3, stream);
        rng = ppo_rng_stream(9, PPO_STREAM_USER, 3);
        for (int round = 0; round < 6; round++) {
            uint32_t *draws = round % 2 ? stream : NULL;
            assert_ok(ppo_flat_act(agent, 3, obs, NULL, recurrent ? memory : NULL, draws,
                                   floats ? NULL : choices, floats ? box : NULL));
            assert_ok(
                ppo_act_many(agent, obs, NULL, 3, recurrent ? same : NULL, draws ? &rng : NULL, &actions));
            if (floats) assert_memory_equal(box, want_box, sizeof box);
            else assert_memory_equal(choices, want, (size_t)(3 * wide) * sizeof(int));
            assert_memory_equal(memory, same, sizeof memory);
            assert_ok(ppo_flat_value(agent, 3, obs, recurrent ? memory : NULL, value));
            for (int i = 0; i < 3; i++) {
                ppo_explanation why;
                if (recurrent) memcpy(agent->state, memory + 5 * i, 5 * sizeof(float));
                assert_ok(ppo_act_explain(agent, obs + i * env->obs_size, NULL, &why));
                assert_true(why.value == value[i]);
            }
        }
        if (recurrent)
            assert_fails(ppo_flat_value(agent, 3, obs, NULL, value), PPO_ERROR_ARGUMENT, "state|NULL");
        obs[1] = NAN;
        assert_fails(ppo_flat_value(agent, 3, obs, memory, value), PPO_ERROR_NUMERIC, "observation|NaN");
        assert_fails(ppo_flat_value(agent, -1, obs, memory, value), PPO_ERROR_ARGUMENT, "-1");
        assert_ok(ppo_flat_value(agent, 0, obs, memory, value));
        ppo_agent_free(agent);
        ppo_flat_config_free(config);
    }
}

static void an_agent_says_what_it_sees_and_does(void **state) {
    (void)state;
    ppo_env walk = walk_env(), reach = reach_env(), dials = dials_env();
    ppo_config *config = settings("recurrent=5 hidden=8 gamma=0.5"), read = ppo_config_default();
    ppo_agent *agent = NULL;
    int sizes[5];
    float range[2];
    char space[32], name[32];
    assert_ok(ppo_agent_create(&dials, config, &agent));
    assert_ok(ppo_flat_agent(agent, sizes, NULL, space, name, sizeof name, &read));
    assert_string_equal(space, "multi-discrete 3,2,4");
    assert_string_equal(name, "dials");
    assert_true(sizes[0] == 3 && sizes[1] == 3 && sizes[2] == 3 && sizes[3] == 9 && sizes[4] == 5);
    assert_true(read.gamma == 0.5f && read.recurrent == 5);
    assert_fails(ppo_flat_agent(agent, NULL, NULL, space, NULL, 8, NULL), PPO_ERROR_ARGUMENT, "8 bytes");
    assert_fails(ppo_flat_agent(agent, NULL, NULL, NULL, name, 5, NULL), PPO_ERROR_ARGUMENT, "5 bytes");
    assert_ok(ppo_flat_agent(agent, NULL, NULL, NULL, NULL, 0, NULL));
    ppo_agent_free(agent);
    reach.actor_obs = 0;
    assert_ok(ppo_agent_create(&reach, config, &agent));
    assert_ok(ppo_flat_agent(agent, sizes, range, space, NULL, sizeof space, NULL));
    assert_string_equal(space, "box 2 -1 1");
    assert_true(sizes[2] == 2 && sizes[3] == 0 && range[0] == -1 && range[1] == 1);
    ppo_agent_free(agent);
    walk.actor_obs = 1;
    assert_ok(ppo_agent_create(&walk, config, &agent));
    assert_ok(ppo_flat_agent(agent, sizes, NULL, NULL, NULL, 0, NULL));
    assert_true(sizes[0] == 2 && sizes[1] == 1 && sizes[2] == 1 && sizes[3] == 3);
    ppo_agent_free(agent);
    config->use_critic = 0;
    config->value_coef = 0.5f;
    assert_ok(ppo_agent_create(&walk, config, &agent));
    assert_fails(ppo_flat_value(agent, 1, range, range, range), PPO_ERROR_ARGUMENT, "no critic");
    ppo_agent_free(agent);
    ppo_flat_config_free(config);
}

/* --------------------------------------------------------------------------------------------------------
   Settings, figures, descriptions
   -------------------------------------------------------------------------------------------------------- */

static void every_setting_is_listed_with_what_it_may_be(void **state) {
    (void)state;
    const ppo_settings *all = ppo_config_settings();
    ppo_config *config = settings("");
    const char *texts[5];
    double range[2];
    int network, count = 0, networks = 0;
    char text[256];
    assert_string_equal(ppo_flat_version(), PPO_VERSION);
    for (; ppo_flat_setting(count, texts, range, &network) == PPO_OK; count++) {
        assert_string_equal(texts[0], all->field[count].name);
        assert_ok(ppo_flat_config_get(config, texts[0], text, sizeof text));
        assert_true(!strcmp(texts[2], text) || atof(texts[2]) == atof(text)); /* 3e-4 is 0.0003 */
        assert_ok(ppo_flat_config_set(config, texts[0], texts[2]));
        assert_true(strlen(texts[4]) > 5 && range[0] <= range[1]);
        assert_int_equal(!strcmp(texts[1], "choice"), strchr(texts[3], '|') != NULL);
        networks += network;
        if (!strcmp(texts[0], "conv")) assert_string_equal(texts[1], "kernels");
        if (!strcmp(texts[0], "hidden")) assert_string_equal(texts[1], "widths");
        if (!strcmp(texts[0], "gamma"))
            assert_true(!strcmp(texts[1], "float") && range[0] == 0 && range[1] == 1);
        if (!strcmp(texts[0], "epochs")) assert_true(!strcmp(texts[1], "int") && range[1] == 10000);
        if (!strcmp(texts[0], "seed")) assert_true(!strcmp(texts[1], "int") && range[1] > 1.8e19);
        if (!strcmp(texts[0], "squash")) assert_string_equal(texts[3], "no|yes");
    }
    assert_int_equal(count, all->count);
    assert_true(networks > 5 && networks < count);
    assert_fails(ppo_flat_setting(count, texts, range, &network), PPO_ERROR_ARGUMENT, "no setting");
    assert_fails(ppo_flat_setting(-1, texts, range, &network), PPO_ERROR_ARGUMENT, "-1");
    assert_ok(ppo_flat_setting(0, NULL, NULL, NULL));
    assert_non_null(strstr(ppo_flat_presets(), "a2c|"));
    assert_ok(ppo_flat_config_preset(config, "a2c"));
    assert_int_equal(config->num_envs, 16);
    assert_ok(ppo_flat_config_set(config, "rollout-steps", "7"));
    assert_int_equal(config->rollout_steps, 7);
    assert_fails(ppo_flat_config_set(config, "rollout", "7"), PPO_ERROR_ARGUMENT, "rollout");
    assert_fails(ppo_flat_config_set(config, "gamma", "2"), PPO_ERROR_ARGUMENT, "gamma|2");
    assert_fails(ppo_flat_config_get(config, "gamma", text, 1), PPO_ERROR_ARGUMENT, "gamma|bytes");
    assert_fails(ppo_flat_config_preset(config, "ppo"), PPO_ERROR_ARGUMENT, "ppo-paper");
    assert_fails(ppo_flat_config_create(NULL), PPO_ERROR_ARGUMENT, "NULL");
    ppo_flat_config_free(config);
    ppo_flat_config_free(NULL);
}

static void a_description_is_checked(void **state) {
    (void)state;
    const struct {
        int obs, actor, shape[3];
        float byte_scale;
        const char *space, *words;
    } wrong[] = {
        {0, 0, {0}, 0, "discrete 2", "obs_size is 0"},
        {4, 5, {0}, 0, "discrete 2", "actor_obs is 5"},
        {4, 0, {1, 3, 3}, 0, "discrete 2", "1 x 3 x 3|4"},
        {4, 0, {0}, -1, "discrete 2", "byte_scale is -1"},
        {4, 0, {0}, 0, "discrete", "\"discrete\" is no action space"},
        {4, 0, {0}, 0, "", "\"\" is no action space"},
        {4, 0, {0}, 0, "discret 2", "\"discret 2\" is no action space"},
        {4, 0, {0}, 0, "discrete 2 3", "\"discrete 2 3\" is no action space"},
        {4, 0, {0}, 0, "multi-discrete 3,", "choice 1"},
        {4, 0, {0}, 0, "box 2 -1", "\"box 2 -1\" is no action space"},
        {4, 0, {0}, 0, "box 2 1 -1", "1|-1"},
        {4, 0, {0}, 0, "multi-discrete 3,0", "0"},
    };
    ppo_env *env = NULL, *none = NULL;
    const int picture[3] = {2, 2, 2};
    for (int k = 0; k < COUNT(wrong); k++) {
        env = (ppo_env *)&env;
        assert_fails(ppo_flat_env_create("x", wrong[k].obs, wrong[k].actor, wrong[k].shape,
                                         wrong[k].byte_scale, wrong[k].space, &env),
                     PPO_ERROR_ARGUMENT, wrong[k].words);
        assert_null(env);
    }
    assert_fails(ppo_flat_env_create("x", 4, 0, NULL, 0, NULL, &none), PPO_ERROR_ARGUMENT,
                 "action_space|NULL");
    assert_fails(ppo_flat_env_create("x", 4, 0, NULL, 0, "discrete 2", NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_ok(ppo_flat_env_create("game", 10, 9, picture, 0.5f, "box 3 -inf inf", &env));
    assert_string_equal(env->name, "game");
    assert_true(env->obs_size == 10 && env->actor_obs == 9 && env->shape[1] == 2 && env->byte_scale == 0.5f);
    assert_true(env->action_space.kind == PPO_BOX && env->action_space.n == 3 &&
                isinf(env->action_space.high));
    ppo_flat_env_free(env);
    assert_ok(ppo_flat_env_create(NULL, 10, 0, NULL, 0, "multi-binary 4", &env));
    assert_true(!env->name && env->action_space.kind == PPO_MULTI_BINARY && env->action_space.sizes[3] == 2);
    ppo_flat_env_free(env);
}

static float falling(int setting, float initial, float progress, void *user) {
    *(int *)user |= 1 << setting;
    return initial * (1 - progress);
}

static void figures_are_those_of_the_progress(void **state) {
    (void)state;
    ppo_env env = walk_env();
    int asked = 0;
    double figures[64];
    training t = training_of(&env, SMALL_RUN "num_envs=4 value_clip=0.3", SAME_STEP);
    ppo_trainer_free(t.trainer), ppo_trainer_free(t.pulling);
    assert_ok(ppo_flat_config_set(t.config, "learning_rate_schedule", "custom"));
    assert_ok(ppo_flat_config_schedule(t.config, falling, &asked));
    assert_ok(ppo_trainer_create(t.flat, t.config, t.agent, &t.trainer));
    assert_ok(ppo_trainer_create(&env, t.config, t.twin, &t.pulling));
    start(&t);
    for (int k = 0; k < 2; k++) {
        ppo_progress p;
        int learned = 0, n = 0, found = 0;
        assert_ok(ppo_trainer_iterate(t.pulling, &p));
        while (!learned) {
            push(&t);
            assert_ok(ppo_flat_learn(t.trainer, 0, &learned));
        }
        assert_ok(ppo_flat_figures(t.trainer, figures));
        for (; ppo_flat_figure(n); n++) {
            const char *name = ppo_flat_figure(n);
            const struct {
                const char *name;
                double value;
            } known[] = {{"iteration", (double)p.iteration},
                         {"steps", (double)p.steps},
                         {"total_steps", (double)p.total_steps},
                         {"iteration_steps", (double)p.iteration_steps},
                         {"episodes", (double)p.episodes},
                         {"mean_return", (double)p.mean_return},
                         {"mean_length", (double)p.mean_length},
                         {"mean_reward", (double)p.mean_reward},
                         {"loss", (double)p.loss},
                         {"policy_loss", (double)p.policy_loss},
                         {"value_loss", (double)p.value_loss},
                         {"entropy", (double)p.entropy},
                         {"approx_kl", (double)p.approx_kl},
                         {"old_approx_kl", (double)p.old_approx_kl},
                         {"clip_fraction", (double)p.clip_fraction},
                         {"grad_norm", (double)p.grad_norm},
                         {"first_ratio_min", 1},
                         {"first_ratio_max", 1},
                         {"last_loss", (double)p.last_loss},
                         {"last_approx_kl", (double)p.last_approx_kl},
                         {"std", (double)p.std},
                         {"epochs", p.epochs},
                         {"updates", (double)p.updates},
                         {"gradient_steps", (double)p.gradient_steps},
                         {"learning_rate", (double)p.learning_rate},
                         {"clip_range", (double)p.clip_range},
                         {"kl_coef", (double)p.kl_coef},
                         {"entropy_coef", (double)p.entropy_coef},
                         {"value_clip", (double)p.value_clip},
                         {"explained_variance", (double)p.explained_variance}};
            for (int i = 0; i < COUNT(known); i++)
                if (!strcmp(name, known[i].name)) found++, assert_true(figures[n] == known[i].value);
        }
        assert_int_equal(found, 30);
        assert_int_equal(n, 34); /* and seconds, seconds_left, steps_per_second, and kl, which is NaN */
        assert_string_equal(ppo_flat_warning(t.trainer), p.warning);
        assert_true(asked == 1 && (!k || p.learning_rate < 3e-3f));
    }
    assert_null(ppo_flat_figure(-1));
    assert_fails(ppo_flat_figures(NULL, figures), PPO_ERROR_ARGUMENT, "NULL");
    assert_string_equal(ppo_flat_warning(NULL), "");

    ppo_log *log = NULL;
    char line[1024];
    assert_ok(ppo_log_open("build/test_flat.csv", NULL, 0, &log));
    assert_ok(ppo_flat_log(log, t.trainer, NULL));
    assert_ok(ppo_flat_figures(t.trainer, figures));
    assert_ok(ppo_flat_log(log, t.trainer, figures)); /* as if it had continued itself */
    figures[1] = NAN;
    assert_fails(ppo_flat_log(log, t.trainer, figures), PPO_ERROR_ARGUMENT, "steps before is nan");
    figures[1] = 1e18;
    assert_fails(ppo_flat_log(log, t.trainer, figures), PPO_ERROR_ARGUMENT, "steps before is 1e+18");
    ppo_log_close(log);
    FILE *file = fopen("build/test_flat.csv", "r");
    assert_non_null(file);
    assert_true(fgets(line, sizeof line, file) && strstr(line, "time/total_timesteps"));
    assert_true(fgets(line, sizeof line, file) && strstr(line, ",192,"));
    assert_true(fgets(line, sizeof line, file) && strstr(line, ",384,"));
    fclose(file);
    remove("build/test_flat.csv");
    training_free(&t);
}

/* --------------------------------------------------------------------------------------------------------
   Errors
   -------------------------------------------------------------------------------------------------------- */

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    ppo_env env = fenced_env();
    training t = training_of(&env, SMALL_RUN "num_envs=3", SAME_STEP);
    float obs[6] = {0.1f, 1, 0.2f, 1, 0.3f, 1}, reward[3] = {1, 1, 1};
    const unsigned char none[9] = {1, 1, 1, 1, 1, 1, 0, 0, 0}, ends[3] = {0, 0, 1};
    const int twice[2] = {1, 1}, outside[2] = {0, 3};
    int choices[3], learned = 1;
    ppo_trainer *p = t.trainer;
#define BEGIN(n, sources, mask) ppo_trainer_observe_many(p, n, sources, obs, mask, NULL, NULL, NULL, NULL)
    assert_fails(BEGIN(4, NULL, NULL), PPO_ERROR_ARGUMENT, "source 3"); /* 0 to 2 were observed */
    assert_fails(BEGIN(1, NULL, NULL), PPO_ERROR_ARGUMENT, "source 0 is in an episode");
    assert_ok(ppo_trainer_act_many(p, 3, NULL, choices, NULL));
    assert_fails(ppo_trainer_observe_many(p, 3, NULL, obs, none, reward, NULL, NULL, NULL),
                 PPO_ERROR_ARGUMENT, "mask|source 2");
    reward[2] = INFINITY;
    assert_fails(ppo_trainer_observe_many(p, 1, twice + 1, obs, NULL, reward, NULL, NULL, NULL),
                 PPO_ERROR_ARGUMENT, "source 1 has not acted");
    assert_ok(ppo_trainer_act_many(p, 2, NULL, choices, NULL));
    assert_fails(ppo_trainer_observe_many(p, 3, NULL, obs, NULL, reward, NULL, ends, obs), PPO_ERROR_NUMERIC,
                 "reward|source 2");
    assert_fails(ppo_trainer_observe_many(p, 3, NULL, obs, NULL, NULL, ends, NULL, NULL), PPO_ERROR_ARGUMENT,
                 "reward is NULL");
    assert_fails(ppo_trainer_observe_many(p, 3, NULL, obs, NULL, NULL, NULL, NULL, obs), PPO_ERROR_ARGUMENT,
                 "reward is NULL");
    assert_fails(ppo_trainer_observe_many(p, 3, NULL, NULL, NULL, reward, ends, NULL, NULL),
                 PPO_ERROR_ARGUMENT, "obs|NULL");
    assert_fails(ppo_trainer_act_many(p, 2, twice, choices, NULL), PPO_ERROR_ARGUMENT, "source 1|twice");
    assert_fails(ppo_trainer_act_many(p, 2, outside, choices, NULL), PPO_ERROR_ARGUMENT, "source 3");
    assert_fails(ppo_trainer_act_many(p, 2, NULL, NULL, obs), PPO_ERROR_ARGUMENT, "choices|NULL");
    assert_fails(ppo_trainer_act_many(NULL, 2, NULL, choices, NULL), PPO_ERROR_ARGUMENT, "trainer|NULL");
    assert_fails(ppo_trainer_act_many(t.pulling, 2, NULL, choices, NULL), PPO_ERROR_ARGUMENT,
                 "ppo_trainer_iterate");
    assert_ok(ppo_trainer_act_many(p, 2, NULL, choices, NULL)); /* what was refused changed nothing */
    assert_fails(ppo_trainer_act(p, 1, &(ppo_action){0}), PPO_ERROR_ARGUMENT, "source 1 has nothing");
    assert_fails(ppo_flat_learn(t.pulling, 0, &learned), PPO_ERROR_ARGUMENT, "ppo_trainer_iterate");
    assert_int_equal(learned, 0);
    assert_ok(ppo_flat_learn(p, 0, &learned));
    assert_int_equal(learned, 0);
    training_free(&t);
}

static ppo_status create_all(void *user) {
    ppo_config *config = NULL;
    ppo_env *env = NULL;
    ppo_agent *agent = NULL;
    float obs[2] = {0, 1}, value;
    (void)user;
    ppo_status status = ppo_flat_config_create(&config);
    if (!status) status = ppo_flat_config_set(config, "hidden", "8");
    if (!status) status = ppo_flat_env_create("x", 2, 0, NULL, 0, "discrete 2", &env);
    if (!status) status = ppo_agent_create(env, config, &agent);
    if (!status) status = ppo_flat_value(agent, 1, obs, NULL, &value);
    ppo_agent_free(agent);
    ppo_flat_env_free(env);
    ppo_flat_config_free(config);
    return status;
}

static void nothing_is_left_when_memory_ends(void **state) {
    (void)state;
    assert_true(fail_each_allocation(create_all, NULL) > 5);
}

static void steps_allocate_nothing(void **state) {
    (void)state;
    ppo_env env = dials_env();
    training t = training_of(&env, SMALL_RUN "num_envs=4", SAME_STEP);
    heap h = {0, 0, -1, 0};
    start(&t);
    iterate(&t, 0);
    ppo_set_allocator(heap_hook, &h);
    for (int i = 0; i < 60; i++) {
        push(&t);
        assert_ok(ppo_flat_learn(t.trainer, 0, NULL));
    }
    ppo_set_allocator(NULL, NULL);
    assert_int_equal(h.calls, 0);
    training_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_train_to_the_bits_of_the_pulled_loop),
        cmocka_unit_test(one_source_that_begins_a_step_later_trains_to_the_same_bits),
        cmocka_unit_test(sources_that_begin_a_step_later_record_the_same_first_rollout),
        cmocka_unit_test(learning_in_slices_has_the_same_bits),
        cmocka_unit_test(many_sources_act_as_each_alone),
        cmocka_unit_test(where_nobody_can_act_nothing_changes),
        cmocka_unit_test(a_source_without_an_episode_gets_an_action_within_the_box),
        cmocka_unit_test(an_agent_acts_and_values_as_by_its_structs),
        cmocka_unit_test(an_agent_says_what_it_sees_and_does),
        cmocka_unit_test(every_setting_is_listed_with_what_it_may_be),
        cmocka_unit_test(a_description_is_checked),
        cmocka_unit_test(figures_are_those_of_the_progress),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test_teardown(nothing_is_left_when_memory_ends, restore_allocator),
        cmocka_unit_test_teardown(steps_allocate_nothing, restore_allocator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
