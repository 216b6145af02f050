#include "../grade.h"
#include "ppo_loop.h"

#include "examples/envs/cartpole.h"

enum { FIGURES = sizeof(iteration) / sizeof(float), EPISODES = 20, ITERATIONS = 97, ROLLOUTS = 2 };
enum { ACT, LEARN, COLLECT, UPDATE };
enum { SCRIPT_OBS = 3, SCRIPT_LIMIT = 8 };

/* ---- a scripted environment: what happens follows from the actions alone, and can be checked ---- */

typedef struct script {
    int id, episode, t, right;
} script;

static int script_pattern, script_copies;

static void script_see(const script *s, float *obs) {
    obs[0] = 0.25f * (float)s->id, obs[1] = 0.3f * (float)(s->episode % 7),
    obs[2] = 0.2f * (float)(s->t + s->right);
}
static void script_reset(void *state, ppo_rng *rng, float *obs) {
    script *s = (script *)state;
    (void)rng;
    if (!s->id) s->id = ++script_copies;
    s->episode++, s->t = s->right = 0;
    script_see(s, obs);
}
/* An episode terminates after 3 to 11 steps, if the limit of 8 leaves it as many. */
static void script_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    script *s = (script *)state;
    (void)rng;
    s->t++, s->right += action->discrete == 1;
    out->reward = 0.5f + 0.25f * (float)s->id - 0.1f * (float)(s->t * action->discrete);
    out->terminated = s->t >= 3 + (7 * s->id + 5 * s->episode + script_pattern) % 9;
    script_see(s, obs);
}
/* An agent that is not undecided: its last layer is not small. */
static void create_decided(agent *a, int obs_size) {
    create(a, obs_size, 2);
    for (size_t i = 0; i < (size_t)HIDDEN * 2; i++) a->actor[4]->data[i] *= 60;
}

/* CartPole with its observation in another order and with other signs, perhaps with the actions exchanged:
   one of 768 variants. A policy that was written for CartPole, not learned, falls. */
static int order[4] = {0, 1, 2, 3}, exchanged;
static float sign[4];

static void choose_variant(int number) {
    ppo_rng rng = ppo_rng_stream(9, PPO_STREAM_USER, (uint32_t)number);
    ppo_rng_shuffle(&rng, order, 4);
    for (int k = 0; k < 4; k++) sign[k] = ppo_rng_below(&rng, 2) ? 1.0f : -1.0f;
    exchanged = ppo_rng_below(&rng, 2);
}

static void see(const float *cartpole_obs, float *obs) {
    for (int k = 0; k < 4; k++) obs[k] = sign[k] * cartpole_obs[order[k]];
}

#ifdef GRADE_STUDENT
static int steps_done;

static void reset(void *state, ppo_rng *rng, float *obs) {
    float cartpole_obs[4];
    cartpole_reset(state, rng, cartpole_obs);
    see(cartpole_obs, obs);
}
static void step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    float cartpole_obs[4];
    ppo_action its = *action;
    its.discrete = exchanged ? !its.discrete : its.discrete;
    cartpole_step(state, rng, &its, cartpole_obs, out);
    see(cartpole_obs, obs);
    if (++steps_done > ITERATIONS * SAMPLES)
        out->reward = 0, out->terminated = 1; /* no more is to be learned */
}

static void answer_collect(grade_case *c) {
    static rollout r;
    agent a;
    games now;
    ppo_env env;
    memset(&env, 0, sizeof env);
    env.obs_size = SCRIPT_OBS, env.action_space.n = 2, env.state_size = sizeof(script);
    env.max_steps = SCRIPT_LIMIT, env.reset = script_reset, env.step = script_step;
    script_pattern = integer(c, "pattern");
    create_decided(&a, SCRIPT_OBS);
    start(&a, &now, &env);
    for (int k = 0; k < ROLLOUTS; k++) {
        memset(&r, 0, sizeof r);
        collect(&a, &now, &env, &r, (iteration *)floats(c, "report") + k);
        memcpy(floats(c, "obs") + k * SAMPLES * SCRIPT_OBS, r.obs, sizeof(float) * SAMPLES * SCRIPT_OBS);
        memcpy(floats(c, "next_obs") + k * SAMPLES * SCRIPT_OBS, r.next_obs,
               sizeof(float) * SAMPLES * SCRIPT_OBS);
        for (int i = 0; i < SAMPLES; i++) {
            const float row[9] = {(float)r.action[i],
                                  (float)r.terminated[i],
                                  (float)r.truncated[i],
                                  r.reward[i],
                                  r.logp[i],
                                  r.value[i],
                                  r.next_value[i],
                                  r.advantage[i],
                                  r.value_target[i]};
            memcpy(floats(c, "row") + 9 * (k * SAMPLES + i), row, sizeof row);
        }
    }
}

static void answer(grade_case *c) {
    static agent learner;
    int n = integer(c, "n");
    switch (integer(c, "task")) {
    case LEARN: {
        ppo_env env = cartpole_env();
        env.reset = reset, env.step = step, env.draw = NULL;
        choose_variant(integer(c, "pattern"));
        create(&learner, 4, 2);
        learn(&learner, &env, ITERATIONS, (iteration *)floats(c, "report"));
        *floats(c, "steps") = (float)steps_done;
        break;
    }
    case COLLECT:
        answer_collect(c);
        break;
    case UPDATE: {
        agent a;
        create_decided(&a, 4);
        size_t size = a.params->count;
        if (size != (size_t)integer(c, "size")) return;
        memcpy(floats(c, "change"), a.params->data, sizeof(float) * size);
        update(&a, (const rollout *)(const void *)integers(c, "rollout"), n, 1e-3f,
               (iteration *)floats(c, "report"));
        for (size_t i = 0; i < size; i++) floats(c, "change")[i] = a.params->data[i] - floats(c, "change")[i];
        break;
    }
    default: {
        int *action = integers(c, "zeros");
        act(&learner, floats(c, "obs"), n, action);
        for (int i = 0; i < n; i++) floats(c, "action")[i] = (float)action[i];
    }
    }
}
#else

/* ---- collect() ---- */

typedef struct collected { /* [ROLLOUTS * SAMPLES] */
    const float *obs, *next_obs, *row;
    const iteration *report;
} collected;

enum { ACTION, TERMINATED, TRUNCATED, REWARD, LOGP, VALUE, NEXT_VALUE, ADVANTAGE, TARGET, ROW };
static float script_obs[ROLLOUTS * SAMPLES * SCRIPT_OBS], script_next[ROLLOUTS * SAMPLES * SCRIPT_OBS];
static float script_row[ROLLOUTS * SAMPLES][ROW];

static int same_obs(const float *x, const float *y) {
    return fabsf(x[0] - y[0]) + fabsf(x[1] - y[1]) + fabsf(x[2] - y[2]) < 1e-4f;
}

/* What a right collect() does with these actions, up to rewards and ends. */
static void play_script(const float *row) {
    script state[ENVS];
    float obs[ENVS][SCRIPT_OBS];
    script_copies = 0;
    memset(state, 0, sizeof state);
    for (int e = 0; e < ENVS; e++) script_reset(&state[e], NULL, obs[e]);
    for (int i = 0; i < ROLLOUTS * SAMPLES; i++) {
        int e = i % ENVS;
        ppo_action action;
        ppo_outcome out;
        memset(&action, 0, sizeof action), memset(&out, 0, sizeof out);
        action.discrete = row[i * ROW + ACTION] == 1;
        memcpy(script_obs + i * SCRIPT_OBS, obs[e], sizeof obs[e]);
        script_step(&state[e], NULL, &action, obs[e], &out);
        memcpy(script_next + i * SCRIPT_OBS, obs[e], sizeof obs[e]);
        script_row[i][REWARD] = out.reward, script_row[i][TERMINATED] = out.terminated;
        script_row[i][TRUNCATED] = !out.terminated && state[e].t == SCRIPT_LIMIT;
        if (script_row[i][TERMINATED] + script_row[i][TRUNCATED] > 0) script_reset(&state[e], NULL, obs[e]);
    }
}

static void check_steps(const collected *c, char *wrong) {
    play_script(c->row);
    for (int i = 0; i < ROLLOUTS * SAMPLES; i++) {
        const float *right = script_row[i], *given = c->row + i * ROW, *obs = c->obs + i * SCRIPT_OBS,
                    *next = c->next_obs + i * SCRIPT_OBS;
        int before = i - ENVS, t = i / ENVS, later = i + ENVS < ROLLOUTS * SAMPLES;
        char *why = "";
        if (!same_obs(obs, script_obs + i * SCRIPT_OBS))
            why = before >= 0 && same_obs(obs, script_next + before * SCRIPT_OBS)
                      ? "obs is still that of the episode that ended: reset the environment, and go on from "
                        "there."
                  : same_obs(obs, script_next + i * SCRIPT_OBS)
                      ? "obs is the observation after the step; keep the one in which the action was chosen."
                      : "obs is not what the environment showed.";
        else if (right[TRUNCATED] == 1 && given[TERMINATED] == 1)
            why = "A time limit is kept as terminated: nothing ended, so it is truncated, and next_value "
                  "counts.";
        else if (right[TERMINATED] == 1 && given[TRUNCATED] == 1)
            why = "A step that terminates is truncated, too: it is only terminated, also at the limit.";
        else if (given[TERMINATED] != right[TERMINATED]) why = "terminated is not what the environment said.";
        else if (given[TRUNCATED] != right[TRUNCATED])
            why = right[TRUNCATED] == 1
                      ? "The time limit is missed: count the steps of each episode, max_steps is the last."
                      : "An episode is truncated too early: is its length set to 0 at each reset?";
        else if (!(fabsf(given[REWARD] - right[REWARD]) < 1e-4f))
            why = "reward is not that of this step, this environment, and this action.";
        else if (!same_obs(next, script_next + i * SCRIPT_OBS))
            why = later && same_obs(next, script_obs + (i + ENVS) * SCRIPT_OBS)
                      ? "next_obs is kept after the reset: it is what the step led to, before any reset."
                      : "next_obs is not what the step led to.";
        if (!*why) continue;
        grade_say(wrong, "step %d of environment %d%s\n%s", t, i % ENVS, t < STEPS ? "" : " (second rollout)",
                  why);
        return;
    }
}

/* The networks' outputs for the observations that were kept. */
static void check_numbers(const collected *c, char *wrong) {
    static float logits[ROLLOUTS * SAMPLES * 2], logp[2][ROLLOUTS * SAMPLES], V[ROLLOUTS * SAMPLES],
        next_V[ROLLOUTS * SAMPLES];
    static int action[2][ROLLOUTS * SAMPLES];
    enum { N = ROLLOUTS * SAMPLES };
    agent a;
    int best = 0, is_best[2] = {0, 0};
    create_decided(&a, SCRIPT_OBS);
    memcpy(logits, network(&a, a.actor, begin(&a, c->obs, N, 0))->data, sizeof logits);
    memcpy(V, network(&a, a.critic, begin(&a, c->obs, N, 0))->data, sizeof V);
    memcpy(next_V, network(&a, a.critic, begin(&a, c->next_obs, N, 0))->data, sizeof next_V);
    for (int i = 0; i < N; i++) {
        action[0][i] = c->row[i * ROW + ACTION] == 1, action[1][i] = !action[0][i];
        best = logits[2 * i + 1] > logits[2 * i];
        is_best[action[0][i] == best]++;
    }
    for (int k = 0; k < 2; k++) must(ppo_token_logp(logits, action[k], N, 2, 1, logp[k], NULL));
    for (int i = 0; i < N && !*wrong; i++) {
        const float *given = c->row + i * ROW;
        int reset = given[TERMINATED] + given[TRUNCATED] > 0, later = i + ENVS < N;
        const char *why = "", *what = "";
        float is = 0, should = 0;
        if (!(fabsf(given[LOGP] - logp[0][i]) < 1e-3f)) {
            what = "logp", is = given[LOGP], should = logp[0][i];
            why = fabsf(is - logp[1][i]) < 1e-3f     ? "It is that of the other action."
                  : fabsf(is - expf(should)) < 1e-3f ? "It is the probability; take its logarithm."
                  : fabsf(is - logits[2 * i + action[0][i]]) < 1e-3f
                      ? "It is the logit; log-softmax is missing."
                      : "Is it that of the sampled action, in obs, by this policy?";
        } else if (!(fabsf(given[VALUE] - V[i]) < 1e-3f))
            what = "value", is = given[VALUE], should = V[i], why = "It is the critic's output for obs.";
        else if (!(fabsf(given[NEXT_VALUE] - next_V[i]) < 1e-3f)) {
            what = "next_value", is = given[NEXT_VALUE], should = next_V[i];
            why = fabsf(is - V[i]) < 1e-3f ? "It is the value of obs; that of next_obs is asked for."
                  : later && reset && fabsf(is - V[i + ENVS]) < 1e-3f
                      ? "It is the value after the reset, of the next episode; that of next_obs is asked for."
                      : "It is the critic's output for next_obs.";
        }
        if (*what)
            grade_say(wrong, "%s of step %d of environment %d is %.4g, not %.4g\n%s", what, i / ENVS,
                      i % ENVS, (double)is, (double)should, why);
    }
    if (!*wrong && (is_best[0] == 0 || is_best[1] == 0))
        grade_say(wrong,
                  "all %d actions are the most likely ones\nActions are sampled, or nothing is ever tried.",
                  N);
    ppo_tape_free(a.tape), ppo_params_free(a.params);
}

/* The mean sum of rewards of the episodes that ended in rollout k, by the rewards and ends that were kept. */
static float mean_return(const collected *c, int k) {
    float sum[ENVS] = {0}, returns = 0, ended = 0;
    for (int i = 0; i < (k + 1) * SAMPLES; i++) {
        const float *row = c->row + i * ROW;
        sum[i % ENVS] += row[REWARD];
        if (row[TERMINATED] + row[TRUNCATED] == 0) continue;
        if (i >= k * SAMPLES) returns += sum[i % ENVS], ended++;
        sum[i % ENVS] = 0;
    }
    return ended > 0 ? returns / ended : 0;
}

static void check_advantages(const collected *c, char *wrong) {
    static const struct {
        float gamma, lambda;
        int ends; /* 1: truncated is terminated; 2: nothing ends */
        const char *words;
    } mistake[] = {{0.99f, 0.95f, 0, ""},
                   {0.99f, 0.95f, 1, "Truncated steps are given to ppo_gae() as terminated ones."},
                   {0.99f, 0.95f, 2, "The ends of episodes are not given to ppo_gae()."},
                   {1, 0.95f, 0, "gamma is 0.99, not 1."},
                   {0.99f, 1, 0, "lambda is 0.95, not 1."},
                   {0.95f, 0.99f, 0, "gamma and lambda are exchanged."},
                   {0.99f, 0, 0, "lambda is 0.95, not 0."}};
    static float A[SAMPLES], target[SAMPLES], column[4][SAMPLES];
    static unsigned char ended[2][SAMPLES];
    for (int k = 0; k < ROLLOUTS && !*wrong; k++) {
        const char *why = "Shapes are [STEPS][ENVS]: steps, then environments.";
        int fits = 0, at = 0;
        for (int m = 0; m < (int)(sizeof mistake / sizeof *mistake) && !fits; m++) {
            for (int i = 0; i < SAMPLES; i++) {
                const float *given = c->row + (k * SAMPLES + i) * ROW;
                for (int j = 0; j < 3; j++)
                    column[j][i] = given[j == 0 ? REWARD : j == 1 ? VALUE : NEXT_VALUE];
                ended[0][i] =
                    mistake[m].ends != 2 && given[TERMINATED] + (mistake[m].ends ? given[TRUNCATED] : 0) > 0;
                ended[1][i] = mistake[m].ends == 0 && given[TRUNCATED] > 0;
            }
            must(ppo_gae(column[0], column[1], column[2], ended[0], ended[1], STEPS, ENVS, mistake[m].gamma,
                         mistake[m].lambda, A, target));
            int same = 1, targets = 1;
            for (int i = 0; i < SAMPLES; i++) {
                const float *given = c->row + (k * SAMPLES + i) * ROW;
                if (!(fabsf(given[ADVANTAGE] - A[i]) < 1e-3f)) at = m == 0 && same ? i : at, same = 0;
                if (!(fabsf(given[TARGET] - target[i]) < 1e-3f)) targets = 0;
            }
            fits = same;
            if (same)
                why = m         ? mistake[m].words
                      : targets ? ""
                                : "advantage is right, but value_target is not: it is advantage + value.";
        }
        if (*why)
            grade_say(wrong, "in the advantages, first at step %d of environment %d\n%s", at / ENVS,
                      at % ENVS, why);
        else if (!(fabsf(c->report[k].mean_return - mean_return(c, k)) < 1e-2f))
            grade_say(wrong,
                      "mean_return is %.4g, not %.4g\nIt is the mean sum of rewards of the episodes "
                      "that ended in this rollout.",
                      (double)c->report[k].mean_return, (double)mean_return(c, k));
    }
}

/* ---- update() ---- */

static const char *const update_mistake[] = {
    "",
    "The advantages have the wrong sign.",
    "The advantages are not whitened.",
    "The entropy has the wrong sign: it is subtracted from the loss.",
    "The entropy is missing, or its coefficient of 0.01.",
    "The value loss counts twice as much: ppo_tape_value_loss() times 0.5.",
    "The critic's loss has the wrong sign.",
    "The critic's loss is missing.",
    "old_logp follows the policy that is trained; keep that of the rollout.",
    "The networks see next_obs; the action was chosen in obs.",
    "Gradients add up from minibatch to minibatch: set them to zero.",
    "The gradient's norm is not clipped at 0.5.",
    "There is one epoch; EPOCHS are asked for.",
    "The critic learns the advantage; its target is value_target.",
    "Nothing is clipped: PPO_CLIP with 0.2.",
};
enum { UPDATE_MISTAKES = sizeof update_mistake / sizeof *update_mistake };

/* The update, right (0) or with a mistake, of samples 0 to MINIBATCH - 1. change: of the weights. */
static void reference_update(const rollout *r, int mistake, float *change, iteration *report) {
    agent a;
    ppo_policy_objective how = ppo_policy_objective_default();
    ppo_adam adam = ppo_adam_default();
    create_decided(&a, 4);
    adam.lr = 1e-3f;
    if (mistake == 14) how.objective = PPO_UNCLIPPED;
    memcpy(change, a.params->data, sizeof(float) * a.params->count);
    for (int epoch = 0; epoch < (mistake == 12 ? 1 : EPOCHS); epoch++) {
        float A[MINIBATCH], logp[MINIBATCH];
        ppo_policy_stats stats;
        ppo_tensor *new_logp, *entropy, *x = begin(&a, mistake == 9 ? r->next_obs : r->obs, MINIBATCH, 1);
        for (int i = 0; i < MINIBATCH; i++)
            A[i] = mistake == 1 ? -r->advantage[i] : r->advantage[i], logp[i] = r->logp[i];
        if (mistake != 2) must(ppo_whiten(A, NULL, MINIBATCH, 1));
        ppo_tape_categorical(a.tape, network(&a, a.actor, x), r->action, 1, &new_logp, &entropy);
        if (mistake == 8) memcpy(logp, new_logp->data, sizeof logp);
        ppo_tensor *loss = ppo_tape_policy_loss(a.tape, new_logp, logp, A, NULL, &how, &stats);
        ppo_tensor *value =
            ppo_tape_value_loss(a.tape, network(&a, a.critic, x), NULL,
                                mistake == 13 ? r->advantage : r->value_target, NULL, 0, INFINITY);
        ppo_tensor *mean = ppo_tape_mean(a.tape, entropy);
        loss = ppo_tape_add(a.tape, loss,
                            ppo_tape_scale(a.tape, value,
                                           mistake == 5   ? 1
                                           : mistake == 6 ? -0.5f
                                           : mistake == 7 ? 0
                                                          : 0.5f,
                                           0));
        loss = ppo_tape_add(a.tape, loss,
                            ppo_tape_scale(a.tape, mean,
                                           mistake == 3   ? 0.01f
                                           : mistake == 4 ? 0
                                                          : -0.01f,
                                           0));
        if (mistake != 10) ppo_params_zero_grad(a.params);
        must(ppo_tape_backward(a.tape, loss));
        must(ppo_params_step(a.params, &adam, mistake == 11 ? 0 : 0.5f, NULL));
        if (epoch == 0) report->first_ratio_error = fmaxf(stats.ratio_max - 1, 1 - stats.ratio_min);
        report->approx_kl = stats.approx_kl, report->clip_fraction = stats.clip_fraction;
        report->entropy = mean->data[0];
    }
    for (size_t i = 0; i < a.params->count; i++) change[i] = a.params->data[i] - change[i];
    ppo_tape_free(a.tape), ppo_params_free(a.params);
}

/* How far two changes of the weights are apart, over the length of the second. */
static double distance(const float *x, const float *y, int n) {
    double apart = 0, all = 0;
    for (int i = 0; i < n; i++)
        apart += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]),
            all += (double)y[i] * (double)y[i];
    return sqrt(apart / all);
}

/* A rollout of MINIBATCH samples, of a policy near the agent's. */
static void make_rollout(rollout *r, int pattern) {
    ppo_rng rng = ppo_rng_stream((uint64_t)pattern, PPO_STREAM_USER, 77);
    agent a;
    create_decided(&a, 4);
    for (int i = 0; i < MINIBATCH; i++) {
        for (int k = 0; k < 4; k++) {
            r->obs[4 * i + k] = ppo_rng_normal(&rng);
            r->next_obs[4 * i + k] = r->obs[4 * i + k] + 0.5f * ppo_rng_normal(&rng);
        }
        r->action[i] = ppo_rng_below(&rng, 2), r->advantage[i] = 2 + 3 * ppo_rng_normal(&rng);
        r->value[i] = ppo_rng_normal(&rng), r->value_target[i] = r->advantage[i] + r->value[i];
    }
    must(ppo_token_logp(network(&a, a.actor, begin(&a, r->obs, MINIBATCH, 0))->data, r->action, MINIBATCH, 2,
                        1, r->logp, NULL));
    for (int i = 0; i < MINIBATCH; i++) r->logp[i] += ppo_rng_range(&rng, -0.1f, 0.4f);
    ppo_tape_free(a.tape), ppo_params_free(a.params);
}

/* Plays episodes in which the student's program chooses the actions. */
static float play(grade_run *run) {
    cartpole state[EPISODES];
    float obs[EPISODES][4], length[EPISODES] = {0}, sum = 0;
    for (int e = 0; e < EPISODES; e++) {
        ppo_rng rng = ppo_rng_stream(5, PPO_STREAM_USER, (uint32_t)e);
        cartpole_reset(&state[e], &rng, obs[e]);
    }
    int left = 1;
    for (int t = 0; t < 500 && left; t++) {
        grade_case c = {0};
        add_integer(&c, "task", ACT), add_integer(&c, "n", EPISODES), add_integers(&c, "zeros", EPISODES, 1);
        float *seen = add_floats(&c, "obs", EPISODES, 4);
        for (int e = 0; e < EPISODES; e++) see(obs[e], seen + 4 * e);
        add_output(&c, "action", EPISODES, 1);
        if (!grade_ask(run, &c)) return grade_free(&c), -1;
        left = 0;
        for (int e = 0; e < EPISODES; e++) {
            ppo_outcome out = {0};
            ppo_action action = {0};
            if (length[e] < (float)t) continue;
            action.discrete = (floats(&c, "action")[e] == 1) != exchanged;
            cartpole_step(&state[e], NULL, &action, obs[e], &out);
            if (!out.terminated) length[e]++, left = 1;
        }
        grade_free(&c);
    }
    for (int e = 0; e < EPISODES; e++) sum += length[e] < 500 ? length[e] + 1 : 500;
    return sum / EPISODES;
}

/* What the reported figures say about a loop that does not learn. */
static void diagnose(char *wrong, const iteration *report, float steps, float reached) {
    enum { FIFTH = ITERATIONS / 5 };
    float kl = 0, clipped = 0, explained = 0, last = 0, best = 0, first = report[0].mean_return;
    for (int i = 0; i < ITERATIONS; i++) {
        kl += report[i].approx_kl / ITERATIONS, clipped += report[i].clip_fraction / ITERATIONS;
        best = fmaxf(best, report[i].mean_return);
        if (i < ITERATIONS - FIFTH) continue;
        last += report[i].mean_return / FIFTH, explained += report[i].explained_variance / FIFTH;
    }
    grade_say(wrong,
              "\nreported: mean return %.0f at first, %.0f at last, at most %.0f; mean KL %.2g, clip "
              "fraction %.2g, "
              "explained variance %.2g\n",
              (double)first, (double)last, (double)best, (double)kl, (double)clipped, (double)explained);
    if (steps > ITERATIONS * SAMPLES)
        grade_say(wrong, "It took more than %d steps: what comes after them teaches nothing.",
                  ITERATIONS * SAMPLES);
    else if (last > 3 * reached)
        grade_say(wrong, "The policy that was trained did better: does act() return the best action?");
    else if (best > 0 && best < 1.5f)
        grade_say(wrong, "Every episode has one step: is the environment reset when one ends?");
    else if (kl == 0 && clipped == 0)
        grade_say(wrong, "Every ratio is 1 in all minibatches: old_logp follows the policy that is trained; "
                         "keep that of the rollout.");
    else if (kl > 0.05f || clipped > 0.4f)
        grade_say(wrong, "An iteration moves the policy too far: the learning rate? Is the gradient zeroed "
                         "before each minibatch?");
    else if (explained < 0.1f)
        grade_say(wrong, "The critic explains nothing of the returns: is its target A + V, does its loss "
                         "count, with the right sign?");
    else if (last < 0.8f * first)
        grade_say(wrong, "The return falls: the policy's loss, or the advantage, has the wrong sign.");
    else if (kl < 1e-4f)
        grade_say(wrong, "The policy hardly moves: the learning rate, the number of epochs?");
    else grade_say(wrong, "It learns, but too little: do the parts above tell why?");
}

static int pattern(void) {
    const char *seed = getenv("GRADE_SEED");
    return seed ? (int)(strtoul(seed, NULL, 10) % 1000000) : 2;
}

static void examine_collect(grade_run *run, int part, char *wrong) {
    static grade_case c;
    static int answered;
    enum { N = ROLLOUTS * SAMPLES };
    if (part == 0) {
        add_integer(&c, "task", COLLECT), add_integer(&c, "n", 0),
            add_integer(&c, "pattern", script_pattern = pattern());
        add_output(&c, "obs", N, SCRIPT_OBS), add_output(&c, "next_obs", N, SCRIPT_OBS),
            add_output(&c, "row", N, ROW);
        add_output(&c, "report", ROLLOUTS, FIGURES);
        answered = grade_ask(run, &c);
        run->written = 0;
        for (int i = 0; i < N * ROW && answered; i++) run->written |= isnormal(floats(&c, "row")[i]);
    }
    const collected got = {floats(&c, "obs"), floats(&c, "next_obs"), floats(&c, "row"),
                           (const iteration *)floats(&c, "report")};
    if (!answered) grade_say(wrong, "%s", run->death);
    else if (part == 0) check_steps(&got, wrong);
    else if (part == 1) check_numbers(&got, wrong);
    else check_advantages(&got, wrong);
}

static float told_ratio, right_ratio; /* first_ratio_error of the fixed rollout */

static void examine_update(grade_run *run, char *wrong) {
    static rollout r;
    static float right[1 << 16];
    iteration report = {0}, other;
    agent a;
    grade_case c = {0};
    create_decided(&a, 4);
    int size = (int)a.params->count, before = run->written;
    ppo_tape_free(a.tape), ppo_params_free(a.params);
    memset(&r, 0, sizeof r);
    make_rollout(&r, pattern());
    add_integer(&c, "task", UPDATE), add_integer(&c, "n", MINIBATCH), add_integer(&c, "size", size);
    memcpy(add_integers(&c, "rollout", (int)(sizeof r / sizeof(int)), 1), &r, sizeof r);
    add_output(&c, "change", size, 1), add_output(&c, "report", 1, FIGURES);
    int answered = grade_ask(run, &c), moved = 0;
    for (int i = 0; i < size && answered; i++) moved |= isnormal(floats(&c, "change")[i]);
    run->written = before | moved;
    reference_update(&r, 0, right, &report);
    right_ratio = report.first_ratio_error, told_ratio = floats(&c, "report")[1];
    double off = answered ? distance(floats(&c, "change"), right, size) : 0;
    if (!answered) grade_say(wrong, "%s", run->death);
    else if (!moved)
        grade_say(wrong, "no weight changes\nIs ppo_params_step() called, for n = %d samples?", MINIBATCH);
    else if (!(off < 0.01)) {
        int is = 0;
        for (int m = 1; m < UPDATE_MISTAKES && !is; m++) {
            reference_update(&r, m, right, &other);
            if (distance(floats(&c, "change"), right, size) < 0.01) is = m;
        }
        grade_say(wrong,
                  "after one update of a fixed rollout, n = %d, the weights' change is off by %.0f %%\n%s",
                  MINIBATCH, 100 * off,
                  is ? update_mistake[is] : "Compare the loss, term by term, with the statement.");
    }
    grade_free(&c);
}

static void examine(grade_run *run, int part, char *wrong) {
    static const float wanted[] = {100, 300, 475};
    static float reached, steps;
    static iteration report[ITERATIONS];
    if (part < 3) examine_collect(run, part, wrong);
    if (part == 3) examine_update(run, wrong);
    if (part < 4) return;
    if (part == 4) {
        grade_case c = {0};
        float largest = 0;
        int before = run->written;
        choose_variant(pattern());
        add_integer(&c, "task", LEARN), add_integer(&c, "n", 0), add_integer(&c, "pattern", pattern());
        add_output(&c, "report", ITERATIONS, FIGURES), add_output(&c, "steps", 1, 1);
        int answered = grade_ask(run, &c);
        run->written = before;
        for (int i = 0; i < ITERATIONS * FIGURES && answered; i++)
            run->written |= isnormal(floats(&c, "report")[i]);
        reached = answered ? play(run) : -1;
        steps = number(&c, "steps");
        memcpy(report, floats(&c, "report"), sizeof report);
        grade_free(&c);
        if (reached < 0) {
            grade_say(wrong, "%s", run->death);
            return;
        }
        for (int i = 0; i < ITERATIONS; i++)
            largest = fmaxf(largest, isfinite(report[i].first_ratio_error) ? report[i].first_ratio_error : 1);
        if (!(fabsf(told_ratio - right_ratio) < 1e-3f))
            grade_say(wrong,
                      "first_ratio_error of the fixed rollout is %.3g, not %.3g\n"
                      "It is the largest |ratio - 1| of the first minibatch: of ratio_max or of ratio_min.",
                      (double)told_ratio, (double)right_ratio);
        else if (largest > 1e-5f)
            grade_say(wrong,
                      "%s%.2g\nIn the first minibatch of an iteration every ratio is 1: logp must be that "
                      "of the action taken, in obs, by the policy that took it.",
                      "the policy has not moved yet, and a ratio is off by ", (double)largest);
        return;
    }
    if (reached >= wanted[part - 5]) return;
    if (reached < 0) grade_say(wrong, "%s", run->death);
    else {
        grade_say(wrong, "it reaches %.1f of %.0f, the mean of %d episodes", (double)reached,
                  (double)wanted[part - 5], EPISODES);
        diagnose(wrong, report, steps, reached);
    }
}

static const grade_exercise exercise = {
    .file = "ppo_loop.c",
    .part = {{1, 1, "in what collect() keeps of the steps"},
             {1, 1, "in its log-probabilities and values"},
             {1, 1, "in its advantages and mean return"},
             {2, 1, "in the weights after update()"},
             {1, 1, "in the first ratios"},
             {1, 1, "at a mean return of 100"},
             {1, 1, "at a mean return of 300"},
             {2, 1, "at a mean return of 475"}},
    .examine = examine,
    .allowed =
        "ppo_tape_* ppo_params_* ppo_init_* ppo_gae ppo_whiten ppo_explained_variance ppo_token_logp "
        "ppo_token_logp_backward ppo_categorical_sample ppo_categorical_mode ppo_policy_objective_default "
        "ppo_policy_loss ppo_value_loss ppo_adam_default ppo_adam_step ppo_clip_grad_norm ppo_rng_* "
        "ppo_schedule "
        "ppo_last_error ppo_fail",
    .seconds = 60,
};
#endif
