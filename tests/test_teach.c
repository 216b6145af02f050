/* ppo_teach.h: recorded play, cloning, experts that are asked. */
#include <math.h>

#include "../ppo.h"
#include "../examples/companions/ppo_explain.h"
#include "../examples/companions/ppo_gru.h"
#include "../examples/companions/ppo_teach.h"
#include "../examples/envs/memory.h"
#include "../examples/envs/pursuit.h"

#include "golden/teach.h"
#include "test.h"

#define WRONG(call, words) assert_fails(call, PPO_ERROR_ARGUMENT, words)

enum { STEPS = g_teach_steps, OBS = g_teach_obs_size, EPOCHS = g_teach_epochs };

/* -- experts -- */

typedef struct expert {
    int calls, fault; /* 1: fails silently; 2: with a reason; 3: an action that is none; 4: an illegal one */
} expert;

static ppo_status failing(const expert *e, const ppo_actions *action) {
    if (e->calls < 5) return PPO_OK;
    if (e->fault == 1) return PPO_ERROR_FILE;
    if (e->fault == 2) return ppo_fail(PPO_ERROR_FILE, "the joystick is gone");
    if (e->fault == 3 && action->box) action->box[0] = NAN;
    if (e->fault == 3 && action->discrete) action->discrete[0] = 3;
    return PPO_OK;
}

/* Of the walk and of the fenced one: to the right, where that is legal. */
static ppo_status walker(const void *state, const float *obs, const unsigned char *mask,
                         const ppo_actions *action, void *user) {
    const walk *w = (const walk *)state;
    expert *e = (expert *)user;
    ++e->calls;
    assert_close(obs[0], 0.2f * (float)w->x, 1e-6);
    action->discrete[0] = mask && !mask[2] ? 0 : 2;
    if (e->fault == 4) action->discrete[0] = w->x % 2 ? 1 : 2;
    return failing(e, action);
}

static ppo_status reacher(const void *state, const float *obs, const unsigned char *mask,
                          const ppo_actions *action, void *user) {
    (void)state, (void)mask;
    ++((expert *)user)->calls;
    action->box[0] = fmaxf(-1, fminf(1, -1.5f * obs[0]));
    action->box[1] = 0.25f;
    return failing((const expert *)user, action);
}

static ppo_status dialer(const void *state, const float *obs, const unsigned char *mask,
                         const ppo_actions *action, void *user) {
    (void)obs, (void)mask;
    ++((expert *)user)->calls;
    for (int j = 0; j < DIALS; ++j) action->discrete[j] = ((const dials *)state)->want[j];
    return PPO_OK;
}

static ppo_status lighter(const void *state, const float *obs, const unsigned char *mask,
                          const ppo_actions *action, void *user) {
    (void)obs, (void)mask;
    ++((expert *)user)->calls;
    for (int j = 0; j < LAMPS; ++j) action->discrete[j] = ((const lamps *)state)->want[j];
    return PPO_OK;
}

static ppo_status turner(const void *state, const float *obs, const unsigned char *mask,
                         const ppo_actions *action, void *user) {
    (void)mask, (void)user;
    const memory *m = (const memory *)state;
    action->discrete[0] = obs[2] < 1 ? 0 : m->cue < 0 ? 1 : 2;
    return PPO_OK;
}

static ppo_agent *new_agent(const ppo_env *env, const char *settings) {
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    assert_ok(ppo_config_set_all(&cfg, settings));
    assert_ok(ppo_agent_create(env, &cfg, &agent));
    return agent;
}

/* -- cloning -- */

static ppo_env golden_env(ppo_space space) {
    ppo_env env = {0};
    env.obs_size = OBS;
    env.action_space = space;
    return env;
}

static ppo_recording golden_play(ppo_space space) {
    static unsigned char terminated[STEPS], truncated[STEPS];
    ppo_recording play = {0};
    terminated[4] = truncated[7] = 1;
    play.obs_size = OBS;
    play.action_space = space;
    play.steps = STEPS;
    play.obs = (float *)g_teach_obs;
    play.reward = (float *)g_teach_reward;
    play.terminated = terminated;
    play.truncated = truncated;
    if (space.kind == PPO_BOX) play.actions.box = (float *)g_teach_box;
    else play.actions.discrete = (int *)g_teach_choices, play.mask = (unsigned char *)g_teach_mask;
    return play;
}

static void losses_are_those_of_pytorch(void **state) {
    (void)state;
    static const int sizes[2] = {3, 2};
    const struct {
        ppo_space space;
        const char *settings;
        const float *weights, *loss, *value_loss;
    } cases[] = {
        {ppo_multi_discrete(sizes, 2), "", g_teach_choices_weights, g_teach_choices_loss,
         g_teach_choices_value_loss},
        {ppo_box(2, 0, 10), "", g_teach_scaled_weights, g_teach_scaled_loss, g_teach_scaled_value_loss},
        {ppo_box(2, 0, 10), "squash=yes", g_teach_squashed_weights, g_teach_squashed_loss,
         g_teach_squashed_value_loss},
    };
    for (int k = 0; k < COUNT(cases); ++k)
        for (int epochs = 0; epochs <= EPOCHS; ++epochs) {
            const ppo_env env = golden_env(cases[k].space);
            const ppo_recording play = golden_play(cases[k].space);
            ppo_clone_config how = ppo_clone_config_default();
            ppo_clone_report report;
            ppo_agent *agent = new_agent(&env, "hidden=4 gamma=0.9");
            ppo_agent_free(agent);
            ppo_config cfg = ppo_config_default();
            assert_ok(ppo_config_set_all(&cfg, "hidden=4 gamma=0.9"));
            assert_ok(ppo_config_set_all(&cfg, cases[k].settings));
            assert_ok(ppo_agent_create(&env, &cfg, &agent));
            const float *from = cases[k].weights;
            for (int i = 0; i < agent->model.params->tensor_count; ++i) {
                ppo_tensor *t = agent->model.params->tensors[i];
                if (t == agent->model.log_std) continue;
                memcpy(t->data, from, (size_t)t->rows * t->cols * sizeof(float));
                from += t->rows * t->cols;
            }
            how.epochs = epochs, how.batch_size = STEPS, how.held_out = 0;
            how.learning_rate = 0.02f, how.entropy_coef = 0.05f;
            assert_ok(ppo_clone(agent, &play, &how, &report));
            assert_int_equal(report.epochs, epochs);
            assert_int_equal(report.steps[0], STEPS);
            assert_int_equal(report.steps[1], 0);
            assert_close(report.loss[0], cases[k].loss[epochs], 2e-5);
            assert_close(report.value_loss[0], cases[k].value_loss[epochs], 2e-5);
            assert_nan(report.loss[1]);
            assert_nan(report.value_loss[1]);
            ppo_agent_free(agent);
        }
}

/* What an expert does can be learned in every space, and the policy then does it. */
static void a_clone_does_what_its_teacher_did(void **state) {
    (void)state;
    const struct {
        ppo_env env;
        ppo_expert_fn expert;
        const char *settings;
        float most; /* of the held-out error, or of wrong choices */
    } cases[] = {
        {walk_env(), walker, "", 0.01f},
        {walk_env(), walker, "normalize_obs=yes normalize_reward=yes shared_trunk=yes", 0.01f},
        {fenced_env(), walker, "", 0.02f},
        {dials_env(), dialer, "", 0.01f},
        {lamps_env(), lighter, "", 0.01f},
        {lamps_env(), lighter, "recurrent=8", 0.01f},
        {reach_env(), reacher, "", 0.05f},
        {reach_env(), reacher, "squash=yes", 0.08f},
        {reach_env(), reacher, "scale_actions=yes", 0.05f},
        {reach_env(), reacher, "gsde=yes", 0.06f},
        {reach_env(), reacher, "use_critic=no", 0.05f},
        {walk_env(), walker, "recurrent=8 sequence_steps=4 gamma=0.9", 0.02f}, /* sequences of any length */
    };
    for (int k = 0; k < COUNT(cases); ++k) {
        const ppo_env *env = &cases[k].env;
        const int box = env->action_space.kind == PPO_BOX;
        ppo_agent *agent = new_agent(env, cases[k].settings);
        ppo_clone_config how = ppo_clone_config_default();
        ppo_clone_report report;
        ppo_recording play = {0};
        expert e = {0, 0};
        illegal_actions = 0;
        how.learning_rate = 5e-3f;
        assert_ok(ppo_params_freeze(agent->model.params, 1)); /* a clone learns all the same */
        assert_ok(ppo_record(env, NULL, 0, cases[k].expert, &e, SMALL(60, 30), 1, &play));
        assert_int_equal(illegal_actions, 0);
        assert_int_equal(e.calls, play.steps);
        assert_ok(ppo_clone(agent, &play, &how, &report));
        assert_int_equal(report.steps[0] + report.steps[1], play.steps);
        assert_true(report.steps[1] > 0 && report.steps[1] < play.steps / 4);
        assert_true(box ? isnan(report.accuracy[1]) : isnan(report.error[1]));
        const float off = box ? report.error[1] : 1 - report.accuracy[1];
        if (!(off <= cases[k].most)) fail_msg("case %d: %g off", k, (double)off);
        assert_int_equal(isnan(report.value_loss[1]), strstr(cases[k].settings, "use_critic") != NULL);

        /* The figures of the report, once more by ppo_act(). */
        double wrong = 0;
        int n = 0;
        for (int i = 0; i < play.steps; ++i) {
            const int options = env->action_space.kind == PPO_DISCRETE ? 3
                                : k == 3                               ? 9
                                                                       : 8,
                      w = env->action_space.n;
            ppo_action action;
            if (i && (play.terminated[i - 1] || play.truncated[i - 1])) ppo_agent_reset(agent);
            assert_ok(ppo_act_masked(agent, play.obs + i * env->obs_size,
                                     box ? NULL : play.mask + i * options, NULL, &action));
            for (int j = 0; j < (env->action_space.kind == PPO_DISCRETE ? 1 : w); ++j, ++n)
                if (box) wrong += pow(action.box[j] - play.actions.box[i * w + j], 2);
                else wrong += action.choices[j] != play.actions.discrete[n];
        }
        const double steps[2] = {report.steps[0], report.steps[1]};
        double told = 0;
        for (int s = 0; s < 2; ++s)
            told += steps[s] / play.steps * (box ? pow(report.error[s], 2) : 1 - report.accuracy[s]);
        assert_close(told, wrong / n, 1e-5);

        if (agent->obs_norm.size) {
            double mean = 0, discounted = 0, sum = 0, squares = 0;
            for (int i = 0; i < play.steps; ++i) {
                mean += play.obs[2 * i] / (double)play.steps;
                discounted = discounted * (double)agent->config.gamma + (double)play.reward[i];
                sum += discounted / play.steps, squares += discounted * discounted / play.steps;
                if (play.terminated[i] || play.truncated[i]) discounted = 0;
            }
            assert_close(agent->obs_norm.mean[0], mean, 1e-6);
            assert_close(agent->return_norm.mean[0], sum, 1e-5);
            assert_close(agent->return_norm.var[0], squares - sum * sum, 1e-5);
            assert_close(agent->obs_norm.count, play.steps, 0);
            assert_close(agent->return_norm.count, play.steps, 0);
            assert_ok(ppo_clone(agent, &play, &how, NULL)); /* which has statistics */
            assert_close(agent->obs_norm.count, play.steps, 0);
        }
        if (k == 2) assert_true(ppo_evaluate(agent, env, 20, 5).mean_return > 3); /* near 0.1 * 4 * 13 */
        ppo_recording_free(&play);
        ppo_agent_free(agent);
    }
}

/* The cue of the maze is seen once: without memory half of the turns are wrong. */
static void a_clone_with_memory_remembers(void **state) {
    (void)state;
    const ppo_env env = memory_env();
    static const char *const settings[] = {"", "recurrent=16", "recurrent=16 sequence_steps=5"};
    ppo_recording play = {0};
    float first[3];
    assert_ok(ppo_record(&env, NULL, 0, turner, NULL, 60, 1, &play));
    assert_int_equal(play.steps, 60 * (MEMORY_CORRIDOR + 1));
    for (int k = 0; k < 3; ++k) {
        ppo_agent *agent = new_agent(&env, settings[k]);
        ppo_clone_config how = ppo_clone_config_default();
        ppo_clone_report report;
        how.learning_rate = 1e-2f;
        how.epochs = 0;
        assert_ok(ppo_clone(agent, &play, &how, &report));
        first[k] = report.loss[0];
        how.epochs = 60;
        if (k < 2) assert_ok(ppo_clone(agent, &play, &how, NULL));
        const float mean = ppo_evaluate(agent, &env, 100, 3).mean_return;
        if (k == 0) assert_true(mean < 0.5f);
        if (k == 1) assert_true(mean > 0.9f);
        ppo_agent_free(agent);
    }
    assert_close(first[1], first[2], 1e-6); /* a sequence begins with the state that the one before it left */
    ppo_recording_free(&play);
}

/* Actions of the held-out episodes are changed to what nothing predicts: the others are learned as before. */
static void what_is_held_out_is_not_learned(void **state) {
    (void)state;
    const ppo_env env = walk_env();
    ppo_clone_config how = ppo_clone_config_default();
    ppo_recording play = {0};
    ppo_clone_report report[2];
    expert e = {0, 0};
    float weights[2][8];
    how.epochs = 5, how.patience = 0;
    assert_ok(ppo_record(&env, NULL, 0, walker, &e, 20, 1, &play));
    for (int k = 0; k < 2; ++k) {
        ppo_agent *agent = new_agent(&env, "");
        assert_ok(ppo_clone(agent, &play, &how, &report[k]));
        memcpy(weights[k], agent->model.params->data, sizeof weights[k]);
        ppo_agent_free(agent);
        if (k) break;
        /* Which they are: changing an episode that is learned from changes the weights. */
        int held = 0, places = 0;
        for (int begin = 0, i = 0, place = 0; i < play.steps; ++i) {
            if (!play.terminated[i] && !play.truncated[i]) continue;
            ppo_agent *other = new_agent(&env, "");
            play.actions.discrete[begin] = 0;
            assert_ok(ppo_clone(other, &play, &how, NULL));
            if (bits_differ(other->model.params->data, weights[0], 8)) play.actions.discrete[begin] = 2;
            else ++held, places += place;
            ppo_agent_free(other);
            begin = i + 1, ++place;
        }
        assert_int_equal(held, 2); /* a tenth of 20 */
        assert_true(places > 1);   /* not the first two: they are drawn */
    }
    assert_false(bits_differ(weights[0], weights[1], 8));
    assert_true(report[0].loss[0] == report[1].loss[0] && report[0].loss[1] != report[1].loss[1]);
    ppo_recording_free(&play);
}

/* With patience the parameters are those of the best epoch; with a bound the policy stays as wide. */
static void the_best_epoch_is_kept_and_the_policy_stays_wide(void **state) {
    (void)state;
    const ppo_env env = reach_env();
    ppo_clone_config how = ppo_clone_config_default();
    ppo_clone_report report;
    ppo_recording play = {0};
    expert e = {0, 0};
    assert_ok(ppo_record(&env, NULL, 0, reacher, &e, 20, 1, &play));
    how.learning_rate = 0.05f;
    for (int k = 0; k < 2; ++k) {
        ppo_agent *agent = new_agent(&env, "");
        how.min_std = k ? 0 : 0.3f;
        assert_ok(ppo_clone(agent, &play, &how, &report));
        for (int j = 0; j < 2; ++j)
            if (k) assert_true(expf(agent->model.log_std->data[j]) < 0.25f);
            else assert_close(expf(agent->model.log_std->data[j]), 0.3, 1e-6);
        assert_close(agent->model.log_std_min, -20, 0);
        ppo_clone_report again;
        how.epochs = 0;
        assert_ok(ppo_clone(agent, &play, &how, &again));
        assert_true(again.loss[1] == report.loss[1] && again.epochs == 0);
        how.epochs = 100;
        ppo_agent_free(agent);
    }
    for (int i = 0; i < play.steps; ++i)
        play.actions.box[2 * i] = i % 2 ? 0.9f : -0.9f; /* nothing to learn */
    ppo_agent *agent = new_agent(&env, "");
    how.patience = 3, how.epochs = 1000;
    assert_ok(ppo_clone(agent, &play, &how, &report));
    assert_true(report.epochs < 200);
    ppo_agent_free(agent);
    ppo_recording_free(&play);
}

/* -- DAgger -- */

static void the_expert_labels_what_the_agent_sees(void **state) {
    (void)state;
    const ppo_env env = reach_env();
    ppo_dagger_config how = ppo_dagger_config_default();
    ppo_clone_report report;
    ppo_recording play = {0}, own = {0};
    expert e = {0, 0};
    ppo_agent *agent = new_agent(&env, "");
    how.rounds = 2, how.episodes = 4;
    how.clone.epochs = 3;
    assert_ok(ppo_dagger(agent, &env, reacher, &e, &how, &play, &report));
    assert_int_equal(play.steps, 3 * 4 * 10);
    assert_int_equal(e.calls, play.steps);
    assert_int_equal(report.steps[0] + report.steps[1], play.steps);
    int off = 0;
    for (int i = 0; i < play.steps; ++i) {
        assert_close(play.actions.box[2 * i], fmaxf(-1, fminf(1, -1.5f * play.obs[i])), 1e-6);
        assert_close(play.actions.box[2 * i + 1], 0.25, 1e-6);
        if (play.truncated[i]) continue; /* did x move as the expert would have moved it? */
        off += fabsf(play.obs[i + 1] - play.obs[i] - 0.5f * play.actions.box[2 * i]) > 0.1f;
        assert_true(i >= 40 || fabsf(play.obs[i + 1] - play.obs[i] - 0.5f * play.actions.box[2 * i]) < 0.1f);
    }
    assert_true(off > 30);
    /* What the agent did itself: a recording of its own actions. */
    assert_ok(ppo_record(&env, agent, 0, NULL, NULL, 2, 1, &own));
    assert_int_equal(own.steps, 20);
    for (int i = 0; i < 20; ++i) {
        ppo_action action;
        assert_ok(ppo_act(agent, own.obs + i, NULL, &action));
        assert_false(bits_differ(action.box, own.actions.box + 2 * i, 2));
    }
    ppo_recording_free(&own);
    ppo_recording_free(&play);
    ppo_agent_free(agent);
}

/* What a policy does by itself is recorded as it acts: with a mask, and its choices of several kinds. */
static void the_play_of_an_agent_is_recorded(void **state) {
    (void)state;
    const ppo_env envs[] = {fenced_env(), dials_env()};
    static const int options[] = {3, 9}, widths[] = {1, DIALS};
    for (int k = 0; k < 2; ++k) {
        ppo_agent *agent = new_agent(&envs[k], "");
        ppo_recording own = {0};
        assert_ok(ppo_record(&envs[k], agent, 0, NULL, NULL, 3, 1, &own));
        assert_true(own.steps > 3);
        for (int i = 0; i < own.steps; ++i) {
            ppo_action action;
            assert_ok(ppo_act_masked(agent, own.obs + i * envs[k].obs_size, own.mask + i * options[k], NULL,
                                     &action));
            assert_memory_equal(action.choices, own.actions.discrete + i * widths[k],
                                (size_t)widths[k] * sizeof(int));
        }
        ppo_recording_free(&own);
        ppo_agent_free(agent);
    }
}

static void dear_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    walk_step(state, rng, action, obs, out);
    if (out->terminated) out->reward = 3e38f;
}

/* Each episode has a stream of random numbers of its own, whatever the ones before it took, and a return of its own. */
static void episodes_begin_as_their_seed_says(void **state) {
    (void)state;
    ppo_env env = walk_env();
    ppo_recording play = {0};
    expert e = {0, 0};
    char world[256];
    env.step = dear_step; /* the returns of two episodes would be above the largest float */
    float obs[8];
    assert_true(env.state_size <= sizeof world && env.obs_size <= COUNT(obs));
    assert_ok(ppo_record(&env, NULL, 0, walker, &e, 4, 9, &play));
    for (int i = 0, k = 0; i < play.steps; ++i) {
        if (i && !play.terminated[i - 1] && !play.truncated[i - 1]) continue;
        ppo_rng rng = ppo_rng_stream(9, PPO_STREAM_EVALUATE, (uint32_t)k++);
        memset(world, 0, sizeof world);
        env.reset(world, &rng, obs);
        assert_memory_equal(obs, play.obs + i * env.obs_size, (size_t)env.obs_size * sizeof(float));
    }
    ppo_recording_free(&play);
}

/* Rewards, masks and ends are optional. Without rewards the critic is not trained; without masks every action is legal;
   without ends the recording is one episode, whose last part is held out. DAgger continues from what is recorded. */
static void a_recording_may_lack_what_is_optional(void **state) {
    (void)state;
    const ppo_env env = walk_env();
    ppo_agent *agent = new_agent(&env, "");
    ppo_clone_config how = ppo_clone_config_default();
    ppo_dagger_config dagger = ppo_dagger_config_default();
    ppo_clone_report report, of_one;
    ppo_recording play = {0}, bare;
    expert e = {0, 0};
    how.epochs = 3, how.batch_size = 1;
    assert_ok(ppo_record(&env, NULL, 0, walker, &e, 4, 1, &play));
    bare = play;
    bare.reward = NULL, bare.mask = NULL, bare.terminated = NULL, bare.truncated = NULL;
    assert_ok(ppo_clone(agent, &bare, &how, &report));
    assert_nan(report.value_loss[0]);
    assert_int_equal(report.critic_epochs, 0);
    assert_int_equal(report.steps[1], (int)(0.1f * (float)play.steps + 0.5f));
    ppo_agent_free(agent);
    agent = new_agent(&env, "");
    bare.steps -= report.steps[1], how.held_out = 0;
    assert_ok(ppo_clone(agent, &bare, &how, &of_one));
    assert_close(of_one.loss[0], report.loss[0], 0.2); /* the others were learned */
    ppo_agent_free(agent);

    ppo_outcome both = {0};
    const ppo_action right = {2, NULL, NULL};
    both.terminated = both.truncated = 1;
    assert_ok(ppo_recording_add(&play, play.obs, NULL, &right, &both)); /* the task's end is that */
    assert_true(play.terminated[play.steps - 1] && !play.truncated[play.steps - 1]);
    const int before = play.steps;
    dagger.rounds = 0, dagger.clone = how;
    e.calls = 0;
    agent = new_agent(&env, "normalize_reward=yes");
    assert_ok(ppo_dagger(agent, &env, walker, &e, &dagger, &play, &report));
    assert_int_equal(e.calls, 0);
    assert_int_equal(play.steps, before);
    assert_true(isfinite(report.value_loss[0]));
    ppo_agent_free(agent);
    ppo_recording_free(&play);
}

/* -- a teacher while PPO trains -- */

static double kl_of(const ppo_explanation *teacher, const ppo_explanation *policy, int n) {
    double kl = 0;
    for (int j = 0; j < teacher->options; j++)
        if (teacher->probability[j] > 0)
            kl += teacher->probability[j] * log((double)teacher->probability[j] / policy->probability[j]);
    for (int j = 0; j < n && !teacher->options; j++) {
        const double off = teacher->mean[j] - policy->mean[j], var = pow(policy->std[j], 2);
        kl += log((double)policy->std[j] / teacher->std[j]) +
              (pow(teacher->std[j], 2) + off * off) / (2 * var) - 0.5;
    }
    return kl;
}

/* The mean KL(teacher || policy) over a rollout, by ppo_act_explain(). */
static double kl_over(ppo_agent *teacher, ppo_agent *policy, const ppo_rollout *r, int size, int options) {
    double kl = 0;
    for (int i = 0; i < r->steps * r->envs; i++) {
        ppo_explanation of[2];
        const unsigned char *mask = r->mask ? r->mask + i * options : NULL;
        assert_ok(ppo_act_explain(teacher, r->obs + i * size, mask, &of[0]));
        assert_ok(ppo_act_explain(policy, r->obs + i * size, mask, &of[1]));
        kl += kl_of(&of[0], &of[1], policy->model.action_space.n) / (r->steps * r->envs);
    }
    return kl;
}

static void a_teacher_adds_its_kl_to_the_loss(void **state) {
    (void)state;
    const struct {
        ppo_env env;
        const char *settings;
    } cases[] = {{walk_env(), ""},         {fenced_env(), ""},
                 {dials_env(), ""},        {lamps_env(), "recurrent=4"},
                 {reach_env(), ""},        {reach_env(), "squash=yes"},
                 {reach_env(), "gsde=yes"}};
    for (int k = 0; k < COUNT(cases); k++) {
        const ppo_env *env = &cases[k].env;
        const int options = k == 2 ? 9 : 3, recurrent = strstr(cases[k].settings, "recurrent") != NULL;
        ppo_config cfg = ppo_config_default();
        ppo_agent *teacher = new_agent(env, recurrent ? "hidden=7 seed=9" : cases[k].settings);
        ppo_agent *agent[2], *before = NULL;
        ppo_progress p[2];
        double kl = 0;
        for (int i = 0; i < teacher->model.actor.layers; i++) /* far from the policy */
            for (int j = 0; j < teacher->model.actor.weight[i]->rows * teacher->model.actor.weight[i]->cols;
                 j++)
                teacher->model.actor.weight[i]->data[j] += 0.8f * sinf(1.7f * (float)j);
        for (int j = 0; k > 3 && j < teacher->model.log_std->rows * teacher->model.log_std->cols; j++)
            teacher->model.log_std->data[j] += 0.2f - 0.1f * (float)j;
        assert_ok(ppo_config_set_all(
            &cfg, "num_envs=2 rollout_steps=40 epochs=1 minibatch_size=0 threads=2 shards=2"));
        assert_ok(ppo_config_set_all(&cfg, cases[k].settings));
        for (int taught = 0; taught < 2; taught++) {
            ppo_trainer *trainer = NULL;
            agent[taught] = NULL;
            assert_ok(ppo_agent_create(env, &cfg, &agent[taught]));
            if (taught) assert_ok(ppo_agent_copy(agent[1], &before));
            assert_ok(ppo_trainer_create(env, &cfg, agent[taught], &trainer));
            if (taught) assert_ok(ppo_trainer_teach(trainer, teacher, 1)); /* the last one counts */
            if (taught) assert_ok(ppo_trainer_teach(trainer, teacher, 0.75f));
            assert_ok(ppo_trainer_iterate(trainer, &p[taught]));
            if (taught && !recurrent)
                kl = kl_over(teacher, before, ppo_trainer_rollout(trainer), env->obs_size, options);
            if (taught && !recurrent) assert_true(kl > 0.01);
            if (taught) { /* no more: the loss is that of PPO again */
                float loss = p[1].loss;
                assert_ok(ppo_trainer_teach(trainer, NULL, 1));
                assert_ok(ppo_trainer_iterate(trainer, &p[1]));
                assert_close(p[1].loss, p[1].policy_loss + cfg.value_coef * p[1].value_loss, 1e-5);
                p[1].loss = loss;
            }
            ppo_trainer_free(trainer);
        }
        if (!recurrent)
            assert_close(p[1].loss - p[0].loss, 0.75 * kl, 2e-5 * fmax(1, fabs((double)p[0].loss)));
        else assert_true(p[1].loss > p[0].loss + 0.01f);
        ppo_agent_free(agent[0]), ppo_agent_free(agent[1]);
        ppo_agent_free(before), ppo_agent_free(teacher);
    }
}

/* A copy of the policy as it is has no KL to it, with its statistics of the time of the rollout. */
static void a_teacher_sees_what_the_policy_saw(void **state) {
    (void)state;
    const ppo_env env = walk_env();
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL, *teacher = NULL;
    ppo_trainer *trainer = NULL;
    ppo_progress p;
    assert_ok(ppo_config_set_all(&cfg,
                                 "num_envs=2 rollout_steps=10 epochs=1 minibatch_size=0 normalize_obs=yes "
                                 "learning_rate=1e-2"));
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    assert_ok(ppo_agent_copy(agent, &teacher));
    assert_ok(ppo_trainer_teach(trainer, teacher, 1e6f)); /* there are no statistics: not yet */
    assert_ok(ppo_trainer_iterate(trainer, &p));
    assert_close(p.loss, p.policy_loss + cfg.value_coef * p.value_loss, 1e-5);
    for (int k = 0; k < 3; k++) {
        ppo_agent_free(teacher);
        assert_ok(ppo_agent_copy(agent, &teacher));
        assert_ok(ppo_trainer_teach(trainer, teacher, 1e4f));
        assert_ok(ppo_trainer_iterate(trainer, &p));
        assert_close(p.loss, p.policy_loss + cfg.value_coef * p.value_loss, 1e-2);
    }
    assert_ok(ppo_trainer_teach(trainer, teacher, 1e4f)); /* the same teacher is another one now */
    assert_ok(ppo_trainer_iterate(trainer, &p));
    assert_true(p.loss > p.policy_loss + cfg.value_coef * p.value_loss + 0.02f);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent), ppo_agent_free(teacher);
}

/* A place on a ring of seven, as bytes. */
static void ring_reset(void *state, ppo_rng *rng, float *obs) {
    *(int *)state = ppo_rng_below(rng, 7);
    obs[0] = (float)*(int *)state, obs[1] = 1;
}

static void ring_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    (void)rng;
    *(int *)state = (*(int *)state + action->discrete) % 7;
    obs[0] = (float)*(int *)state, obs[1] = 1;
    out->reward = obs[0];
}

/* Each normalizes by statistics of its own, or does not. Bits of k: the policy does, the teacher does; 4: the observations
   are bytes. */
static void a_teacher_sees_what_the_environment_gave(void **state) {
    (void)state;
    enum { SEEN = 2, ROWS = 2 * 40 };
    for (int k = 0; k < 5; k++) {
        ppo_env env = {.name = "ring",
                       .obs_size = SEEN,
                       .action_space = ppo_discrete(3),
                       .state_size = sizeof(int),
                       .max_steps = 9,
                       .reset = ring_reset,
                       .step = ring_step,
                       .byte_scale = k == 4};
        ppo_config cfg = ppo_config_default();
        ppo_agent *agent = NULL, *before = NULL,
                  *teacher = new_agent(&env, k & 2 ? "hidden=7 normalize_obs=yes" : "hidden=7");
        ppo_trainer *trainer = NULL;
        ppo_progress p;
        float seen[ROWS * SEEN];
        assert_ok(ppo_config_set_all(&cfg, "num_envs=2 rollout_steps=40 epochs=1 minibatch_size=0"));
        cfg.normalize_obs = k & 1;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        ppo_agent *const both[] = {agent, teacher};
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < both[i]->obs_norm.size; j++) {
                ppo_normalizer *norm = &both[i]->obs_norm;
                norm->count = 50, norm->mean[j] = i - 0.3 * j, norm->var[j] = 4 + 3 * i - j;
            }
        const ppo_tensor *last = teacher->model.actor.weight[teacher->model.actor.layers - 1];
        for (int j = 0; j < last->rows * last->cols; j++) last->data[j] += 0.8f * sinf(1.7f * (float)j);
        assert_ok(ppo_agent_copy(agent, &before));
        assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
        assert_ok(ppo_trainer_teach(trainer, teacher, 2));
        assert_ok(ppo_trainer_iterate(trainer, &p));
        ppo_rollout r = *ppo_trainer_rollout(trainer);
        for (int i = 0; i < ROWS * SEEN; i++) {
            const int j = i % SEEN;
            if (k & 1) seen[i] = (float)(r.obs[i] * sqrt(before->obs_norm.var[j]) + before->obs_norm.mean[j]);
            else seen[i] = k == 4 ? r.obs_bytes[i] : r.obs[i];
        }
        r.obs = seen;
        const double kl = kl_over(teacher, before, &r, SEEN, 3);
        assert_true(kl > 0.01);
        assert_close(p.loss - p.policy_loss - cfg.value_coef * p.value_loss, 2 * kl,
                     2e-5 * fmax(1, fabs((double)p.loss)));
        ppo_trainer_free(trainer);
        ppo_agent_free(agent), ppo_agent_free(before), ppo_agent_free(teacher);
    }
}

static void a_student_follows_its_teacher(void **state) {
    (void)state;
    const ppo_env env = walk_env();
    ppo_config cfg = ppo_config_default();
    double kl[2];
    ppo_agent *teacher = new_agent(&env, "");
    ppo_recording play = {0};
    const ppo_clone_config how = ppo_clone_config_default();
    expert e = {0, 0};
    assert_ok(ppo_record(&env, NULL, 0, walker, &e, 30, 1, &play));
    assert_ok(ppo_clone(teacher, &play, &how, NULL));
    assert_ok(ppo_config_set_all(&cfg, "num_envs=4 rollout_steps=64 learning_rate=1e-3 hidden=16"));
    for (int taught = 0; taught < 2; taught++) {
        ppo_agent *agent = NULL;
        ppo_trainer *trainer = NULL;
        assert_ok(ppo_agent_create(&env, &cfg, &agent));
        assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
        for (int i = 0; i < 5; i++) {
            if (taught)
                assert_ok(ppo_trainer_teach(trainer, teacher, ppo_schedule(PPO_LINEAR, 2, 0.1f * (float)i)));
            assert_ok(ppo_trainer_iterate(trainer, NULL));
        }
        kl[taught] = kl_over(teacher, agent, ppo_trainer_rollout(trainer), env.obs_size, 3);
        ppo_trainer_free(trainer);
        ppo_agent_free(agent);
    }
    assert_true(kl[1] < 0.5 * kl[0]);
    ppo_recording_free(&play);
    ppo_agent_free(teacher);
}

/* -- refusals -- */

static void who_cannot_teach_is_refused(void **state) {
    (void)state;
    const ppo_env env = reach_env(), other = walk_env();
    ppo_env bytes = reach_env();
    ppo_config cfg = ppo_config_default();
    ppo_trainer *trainer = NULL, *pixels = NULL;
    ppo_agent *agent = new_agent(&env, ""), *stranger = new_agent(&other, ""),
              *thinker = new_agent(&env, "recurrent=4"), *squasher = new_agent(&env, "squash=yes"),
              *normal = new_agent(&env, "normalize_obs=yes"), *raw = new_agent(&env, "scale_actions=yes"),
              *seer, *watcher;
    bytes.byte_scale = 0.01f;
    seer = new_agent(&bytes, ""), watcher = new_agent(&bytes, "seed=2");
    assert_ok(ppo_trainer_create(&env, &cfg, agent, &trainer));
    assert_ok(ppo_trainer_create(&bytes, &cfg, seer, &pixels));
    WRONG(ppo_trainer_teach(trainer, agent, 1), "the teacher is the agent that is trained");
    WRONG(ppo_trainer_teach(trainer, stranger, 1), "does not fit the agent that is trained");
    WRONG(ppo_trainer_teach(trainer, thinker, 1), "has a memory");
    WRONG(ppo_trainer_teach(trainer, squasher, 1), "brought into the box otherwise");
    WRONG(ppo_trainer_teach(trainer, stranger, -1), "coef is -1");
    WRONG(ppo_trainer_teach(trainer, stranger, NAN), "coef is nan");
    WRONG(ppo_trainer_teach(trainer, stranger, INFINITY), "coef is inf");
    WRONG(ppo_trainer_teach(trainer, raw, 1), "brought into the box otherwise");
    WRONG(ppo_trainer_teach(NULL, stranger, 1), "trainer is NULL");
    assert_ok(ppo_trainer_teach(pixels, watcher, 1)); /* of bytes, as they are */
    WRONG(ppo_trainer_teach(pixels, normal, 1), "which are bytes here");
    assert_ok(ppo_trainer_teach(trainer, normal, 1));
    ppo_trainer_free(trainer), trainer = NULL;
    /* at once, though a new policy that normalizes has no teacher in its first iteration */
    ppo_agent *blank = new_agent(&env, "normalize_obs=yes");
    cfg.normalize_obs = 1;
    assert_ok(ppo_trainer_create(&env, &cfg, blank, &trainer));
    WRONG(ppo_trainer_teach(trainer, stranger, 1), "does not fit the agent that is trained");
    assert_ok(ppo_trainer_teach(trainer, normal, 1));
    ppo_trainer_free(trainer), ppo_trainer_free(pixels), ppo_agent_free(blank);
    ppo_agent_free(agent), ppo_agent_free(stranger), ppo_agent_free(thinker), ppo_agent_free(squasher);
    ppo_agent_free(normal), ppo_agent_free(seer), ppo_agent_free(raw), ppo_agent_free(watcher);
}

static void what_cannot_be_cloned_is_refused(void **state) {
    (void)state;
    static const int sizes[2] = {3, 2};
    const ppo_space space = ppo_multi_discrete(sizes, 2), box_space = ppo_box(2, 0, 10);
    const ppo_env env = golden_env(space), box_env = golden_env(box_space);
    ppo_agent *agent = new_agent(&env, ""), *box = new_agent(&box_env, "");
    const ppo_recording sound = golden_play(space), sound_box = golden_play(box_space);
    const ppo_clone_config usual = ppo_clone_config_default();
    float obs[STEPS * OBS], reward[STEPS], numbers[STEPS * 2];
    int choices[STEPS * 2];
    memcpy(obs, g_teach_obs, sizeof obs);
    memcpy(reward, g_teach_reward, sizeof reward);
    memcpy(choices, g_teach_choices, sizeof choices);
    memcpy(numbers, g_teach_box, sizeof numbers);
    ppo_recording play = sound;
    play.obs = obs, play.reward = reward, play.actions.discrete = choices;

    ppo_clone_config large = usual;
    large.learning_rate = 1.5f;
    WRONG(ppo_clone(agent, &play, &large, NULL), "learning_rate is 1.5, outside 0 to 1");
    large.learning_rate = usual.learning_rate, large.held_out = 0.95f;
    WRONG(ppo_clone(agent, &play, &large, NULL), "held_out is 0.95, outside 0 to 0.9");
    obs[7] = NAN;
    assert_fails(ppo_clone(agent, &play, &usual, NULL), PPO_ERROR_NUMERIC,
                 "the recorded observation[1] is nan|(step 2)");
    obs[7] = 0;
    reward[3] = INFINITY;
    assert_fails(ppo_clone(agent, &play, &usual, NULL), PPO_ERROR_NUMERIC,
                 "the recorded reward is inf|(step 3)");
    reward[3] = 0;
    choices[3] = 2;
    WRONG(ppo_clone(agent, &play, &usual, NULL), "the recorded choice 1 is 2, outside 0 to 1 (step 1)");
    choices[3] = -1;
    WRONG(ppo_clone(agent, &play, &usual, NULL), "the recorded choice 1 is -1, outside 0 to 1 (step 1)");
    choices[3] = g_teach_choices[3];
    for (int i = 0; i < STEPS; ++i) {
        if (g_teach_mask[5 * i]) continue;
        char words[64];
        choices[2 * i] = 0;
        snprintf(words, sizeof words, "choice 0 is 0, which the mask forbids (step %d)", i);
        WRONG(ppo_clone(agent, &play, &usual, NULL), words);
        choices[2 * i] = g_teach_choices[2 * i];
    }
    play.steps = 0;
    WRONG(ppo_clone(agent, &play, &usual, NULL), "has 0 steps");
    play.steps = -3;
    WRONG(ppo_clone(agent, &play, &usual, NULL), "has -3 steps");
    play.steps = 1; /* nothing can be held out */
    ppo_clone_report report;
    assert_ok(ppo_clone(agent, &play, &usual, &report));
    assert_int_equal(report.steps[0], 1);
    assert_int_equal(report.steps[1], 0);
    play = sound;
    play.obs_size = 4;
    WRONG(ppo_clone(agent, &play, &usual, NULL), "the recording (4 observed, multi-discrete 3,2) does not "
                                                 "fit the agent (3 observed, multi-discrete 3,2)");
    play.obs_size = 0;
    WRONG(ppo_clone(agent, &play, &usual, NULL), "obs_size is 0");
    play = sound;
    play.action_space = ppo_discrete(3);
    WRONG(ppo_clone(agent, &play, &usual, NULL), "discrete 3) does not fit the agent");
    play.action_space.kind = (ppo_space_kind)9;
    WRONG(ppo_clone(agent, &play, &usual, NULL), "action_space.kind is 9");
    play = sound;
    play.obs = NULL;
    WRONG(ppo_clone(agent, &play, &usual, NULL), "recording's obs is NULL");
    play = sound;
    play.actions.discrete = NULL;
    WRONG(ppo_clone(agent, &play, &usual, NULL), "actions.discrete is NULL");
    play = sound_box;
    play.actions.box = NULL;
    WRONG(ppo_clone(box, &play, &usual, NULL), "actions.box is NULL");
    play.actions.box = numbers;
    numbers[5] = 10.5f;
    WRONG(ppo_clone(box, &play, &usual, NULL), "action[1] is 10.5, outside 0 to 10 (step 2)");
    numbers[5] = NAN;
    WRONG(ppo_clone(box, &play, &usual, NULL), "action[1] is nan");

    static const char *const names[] = {"learning_rate", "held_out", "max_grad_norm", "entropy_coef",
                                        "min_std"};
    for (int k = 0; k < 5; ++k)
        for (int j = 0; j < 2; ++j) {
            ppo_clone_config how = usual;
            float *const field[] = {&how.learning_rate, &how.held_out, &how.max_grad_norm, &how.entropy_coef,
                                    &how.min_std};
            *field[k] = j ? NAN : -1;
            WRONG(ppo_clone(agent, &sound, &how, NULL), names[k]);
        }
    ppo_clone_config how = usual;
    how.batch_size = 0;
    WRONG(ppo_clone(agent, &sound, &how, NULL), "batch_size 0");
    how = usual;
    how.epochs = -1;
    WRONG(ppo_clone(agent, &sound, &how, NULL), "epochs -1");
    how = usual;
    how.patience = -1;
    WRONG(ppo_clone(agent, &sound, &how, NULL), "patience -1");
    WRONG(ppo_clone(NULL, &sound, &usual, NULL), "agent is NULL");
    WRONG(ppo_clone(agent, NULL, &usual, NULL), "recording is NULL");
    WRONG(ppo_clone(agent, &sound, NULL, NULL), "config is NULL");

    /* A loss that is not finite: the agent is as it was. */
    const size_t n = agent->model.params->count;
    float *before = (float *)malloc(n * sizeof(float));
    memcpy(before, agent->model.params->data, n * sizeof(float));
    how = usual;
    how.learning_rate = 1;
    for (int i = 0; i < STEPS; ++i) reward[i] = 3e38f;
    play = sound;
    play.reward = reward;
    assert_fails(ppo_clone(agent, &play, &how, NULL), PPO_ERROR_NUMERIC, "the critic's loss is");
    assert_false(bits_differ(before, agent->model.params->data, n));
    for (size_t i = 0; i < n; ++i) agent->model.params->data[i] = NAN;
    assert_fails(ppo_clone(agent, &sound, &usual, NULL), PPO_ERROR_NUMERIC,
                 "the policy's loss is|after 0 epochs");
    free(before);
    ppo_agent_free(agent);
    ppo_agent_free(box);

    /* So are its statistics: there are none, or those that it had. */
    agent = new_agent(&env, "normalize_obs=yes normalize_reward=yes");
    float *weight = agent->model.params->data, kept = *weight;
    for (int k = 0; k < 2; ++k) {
        const double seen = agent->obs_norm.count, earned = agent->return_norm.count;
        assert_true(k ? seen > 0 && earned > 0 : seen == 0 && earned == 0);
        *weight = NAN;
        assert_fails(ppo_clone(agent, &sound, &usual, NULL), PPO_ERROR_NUMERIC, "the policy's loss is");
        assert_true(agent->obs_norm.count == seen && agent->return_norm.count == earned);
        *weight = kept;
        if (!k) assert_ok(ppo_clone(agent, &sound, &usual, NULL));
    }
    ppo_agent_free(agent);
}

static void no_action(const void *state, unsigned char *mask) {
    fenced_mask(state, mask);
    memset(mask, 0, 3);
}

static void no_reward(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    fenced_step(state, rng, action, obs, out);
    if (((const walk *)state)->x) out->reward = NAN;
}

static void an_episode_that_is_open_ends_where_others_follow(void **state) {
    (void)state;
    const ppo_env env = walk_env();
    const ppo_action right = {2, NULL, NULL};
    const float obs[8] = {0};
    ppo_recording play = {0};
    expert e = {0, 0};
    play.obs_size = env.obs_size, play.action_space = env.action_space;
    assert_ok(ppo_recording_add(&play, obs, NULL, &right, NULL));
    e.fault = 2;
    assert_fails(ppo_record(&env, NULL, 0, walker, &e, 1, 1, &play), PPO_ERROR_FILE, "the joystick is gone");
    assert_int_equal(play.truncated[0], 0);
    e.fault = 0, e.calls = 0;
    assert_ok(ppo_record(&env, NULL, 0, walker, &e, 1, 1, &play));
    assert_true(play.steps > 1 && play.truncated[0] && !play.terminated[0]);
    ppo_recording_free(&play);
}

static void what_cannot_be_recorded_is_refused(void **state) {
    (void)state;
    const ppo_env env = fenced_env(), line = reach_env();
    ppo_recording play = {0}, mine = {0};
    ppo_agent *agent = new_agent(&env, "");
    expert e = {0, 0};
    WRONG(ppo_record(&env, NULL, 0, NULL, NULL, 1, 1, &play), "player and expert are both NULL");
    WRONG(ppo_record(&env, NULL, 0, walker, &e, 0, 1, &play), "episodes is 0");
    const ppo_env many = pursuit_env();
    WRONG(ppo_record(&many, NULL, 0, walker, &e, 1, 1, &play), "record one of them by ppo_recording_add()");
    WRONG(ppo_record(&line, agent, 0, walker, &e, 1, 1, &play), "does not fit the environment");
    assert_ok(ppo_record(&env, agent, 1, walker, &e, 2, 1, &play));
    assert_int_equal(play.steps, 26);
    WRONG(ppo_record(&line, NULL, 0, reacher, &e, 1, 1, &play),
          "the recording (2 observed, discrete 3) is not of this environment (1 observed, box 2 -1 1)");
    ppo_env other = env; /* that shows as many numbers */
    other.action_space = ppo_discrete(2), other.action_mask = NULL;
    WRONG(ppo_record(&other, NULL, 0, walker, &e, 1, 1, &play),
          "the recording (2 observed, discrete 3) is not of this environment (2 observed, discrete 2)");
    static const struct {
        ppo_status status;
        const char *words;
    } faults[] = {{PPO_ERROR_FILE, "the expert failed and gave no reason"},
                  {PPO_ERROR_FILE, "the joystick is gone"},
                  {PPO_ERROR_ARGUMENT, "the expert's choice 0 is 3, outside 0 to 2"},
                  {PPO_ERROR_ARGUMENT, "the expert's choice 0 is 1, which the mask forbids"}};
    for (int k = 0; k < COUNT(faults); ++k) {
        e.fault = k + 1, e.calls = 0;
        assert_fails(ppo_record(&env, NULL, 0, walker, &e, 3, 1, &play), faults[k].status, faults[k].words);
        assert_int_equal(play.steps, 26);
    }
    e.fault = 3, e.calls = 0;
    assert_fails(ppo_record(&line, NULL, 0, reacher, &e, 3, 1, &mine), PPO_ERROR_ARGUMENT,
                 "the expert's action[0] is nan, outside -1 to 1");
    ppo_recording_free(&mine);

    /* What fails in the environment or the agent leaves the recording as it was. */
    ppo_env ill = env;
    for (int k = 0; k < 3; ++k) {
        static const char *const words[] = {"env.action_mask leaves no action", "reward is", "is NaN"};
        ill = env;
        if (k == 0) ill.action_mask = no_action;
        if (k == 1) ill.step = no_reward;
        if (k == 2) agent->model.params->data[0] = NAN;
        const ppo_status status = ppo_record(&ill, agent, 0, NULL, NULL, 2, 1, &play);
        if (status != (k ? PPO_ERROR_NUMERIC : PPO_ERROR_ARGUMENT) || !strstr(ppo_last_error(), words[k]))
            fail_msg("fault %d: %d, %s", k, status, ppo_last_error());
        assert_int_equal(play.steps, 26);
    }
    ppo_dagger_config dagger = ppo_dagger_config_default();
    WRONG(ppo_dagger(NULL, &env, walker, &e, &dagger, &play, NULL), "agent is NULL");
    dagger.rounds = -1;
    WRONG(ppo_dagger(agent, &env, walker, &e, &dagger, &play, NULL), "rounds is -1");
    WRONG(ppo_record(NULL, agent, 0, NULL, NULL, 1, 1, &play), "env is NULL");
    WRONG(ppo_record(&env, agent, 0, NULL, NULL, 1, 1, NULL), "recording is NULL");
    mine.steps = 3;
    WRONG(ppo_record(&env, agent, 0, NULL, NULL, 1, 1, &mine), "obs_size is 0");
    mine.steps = 0, mine.obs_size = 5, mine.action_space = env.action_space;
    WRONG(ppo_record(&env, agent, 0, NULL, NULL, 1, 1, &mine), "(5 observed, discrete 3) is not of this");
    memset(&mine, 0, sizeof mine);

    ppo_action action = {2, NULL, NULL};
    const float obs[2] = {0, 1};
    WRONG(ppo_recording_add(NULL, obs, NULL, &action, NULL), "recording is NULL");
    WRONG(ppo_recording_add(&mine, obs, NULL, &action, NULL), "obs_size is 0");
    mine.obs_size = 2;
    WRONG(ppo_recording_add(&mine, obs, NULL, &action, NULL), "action_space.kind is 0");
    mine.action_space = ppo_multi_binary(2);
    WRONG(ppo_recording_add(&mine, obs, NULL, &action, NULL), "action->choices is NULL");
    mine.action_space = ppo_box(2, -1, 1);
    WRONG(ppo_recording_add(&mine, obs, NULL, &action, NULL), "action->box is NULL");
    mine.obs = (float *)obs;
    action.box = obs;
    WRONG(ppo_recording_add(&mine, obs, NULL, &action, NULL), "the arrays are not the library's");
    mine.obs = NULL, mine.steps = 1;
    WRONG(ppo_recording_add(&mine, obs, NULL, &action, NULL), "the arrays are not the library's");
    mine.steps = 0;
    assert_ok(ppo_recording_add(&mine, obs, NULL, &action, NULL));
    const int choices[2] = {1, 0};
    action.choices = choices;
    mine.obs_size = 400;
    WRONG(ppo_recording_add(&mine, obs, NULL, &action, NULL), "not that of the first step");
    mine.obs_size = 2, mine.action_space = ppo_box(3, -1, 1);
    WRONG(ppo_recording_add(&mine, obs, NULL, &action, NULL), "not that of the first step");
    mine.action_space = ppo_multi_binary(2);
    WRONG(ppo_recording_add(&mine, obs, NULL, &action, NULL), "not that of the first step");
    mine.action_space = ppo_box(2, -1, 1);
    const float far[2] = {0, 2};
    action.box = far;
    WRONG(ppo_recording_add(&mine, obs, NULL, &action, NULL), "action[1] is 2, outside -1 to 1 (step 1)");
    const float near[2] = {-2, 0};
    action.box = near;
    WRONG(ppo_recording_add(&mine, obs, NULL, &action, NULL), "action[0] is -2, outside -1 to 1 (step 1)");
    assert_int_equal(mine.steps, 1);
    mine.steps = INT_MAX;
    WRONG(ppo_recording_add(&mine, obs, NULL, &action, NULL), "too many steps");
    mine.steps = 1;
    ppo_recording_free(&mine);
    assert_true(!mine.memory && !mine.steps);
    ppo_recording_free(&play);
    ppo_recording_free(NULL);
    ppo_agent_free(agent);
}

static ppo_status teach(void *user) {
    const ppo_env env = fenced_env();
    ppo_dagger_config how = ppo_dagger_config_default();
    ppo_config cfg = ppo_config_default();
    ppo_recording play = {0};
    ppo_agent *agent = NULL;
    expert e = {0, 0};
    (void)user;
    how.rounds = 1, how.episodes = 6;
    how.clone.epochs = 1;
    ppo_status status =
        ppo_config_set_all(&cfg, "hidden=4 recurrent=2 normalize_obs=yes normalize_reward=yes");
    if (!status) status = ppo_agent_create(&env, &cfg, &agent);
    if (!status) status = ppo_dagger(agent, &env, walker, &e, &how, &play, NULL);
    ppo_recording_free(&play);
    ppo_agent_free(agent);
    return status;
}

static ppo_status be_taught(void *user) {
    const ppo_env env = reach_env();
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL, *teacher = NULL;
    ppo_trainer *trainer = NULL;
    (void)user;
    ppo_status status = ppo_agent_create(&env, &cfg, &agent);
    if (!status) status = ppo_agent_copy(agent, &teacher);
    if (!status) status = ppo_trainer_create(&env, &cfg, agent, &trainer);
    if (!status) status = ppo_trainer_teach(trainer, teacher, 1);
    if (!status) status = ppo_trainer_iterate(trainer, NULL);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent), ppo_agent_free(teacher);
    return status;
}

static void each_allocation_may_fail(void **state) {
    (void)state;
    assert_true(fail_each_allocation(teach, NULL) > 20);
    assert_true(fail_each_allocation(be_taught, NULL) > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_those_of_pytorch),
        cmocka_unit_test(a_clone_does_what_its_teacher_did),
        cmocka_unit_test(a_clone_with_memory_remembers),
        cmocka_unit_test(what_is_held_out_is_not_learned),
        cmocka_unit_test(the_best_epoch_is_kept_and_the_policy_stays_wide),
        cmocka_unit_test(the_expert_labels_what_the_agent_sees),
        cmocka_unit_test(the_play_of_an_agent_is_recorded),
        cmocka_unit_test(episodes_begin_as_their_seed_says),
        cmocka_unit_test(a_recording_may_lack_what_is_optional),
        cmocka_unit_test(a_teacher_adds_its_kl_to_the_loss),
        cmocka_unit_test(a_teacher_sees_what_the_policy_saw),
        cmocka_unit_test(a_teacher_sees_what_the_environment_gave),
        cmocka_unit_test(a_student_follows_its_teacher),
        cmocka_unit_test(who_cannot_teach_is_refused),
        cmocka_unit_test(what_cannot_be_cloned_is_refused),
        cmocka_unit_test(an_episode_that_is_open_ends_where_others_follow),
        cmocka_unit_test(what_cannot_be_recorded_is_refused),
        cmocka_unit_test_teardown(each_allocation_may_fail, restore_allocator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
