/* wrong 1: 0 The return falls */
/* wrong 2: [03] old_logp follows */
/* wrong 3: 0 In the first minibatch of an iteration every ratio is 1 */
/* wrong 4: 0 An iteration moves the policy too far */
/* wrong 5: 0 The critic explains nothing of the returns */
#include "ppo_loop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ENVS = 8,
    STEPS = 128,
    SAMPLES = ENVS * STEPS,
    MINIBATCH = 256,
    EPOCHS = 6,
    HIDDEN = 64,
    MOST_OBS = 16
};

static ppo_params *params;
static ppo_tensor *actor[6], *critic[6];
static ppo_tape *tape;
static ppo_rng rng;
static int obs_size, actions;

static struct {
    float obs[SAMPLES * MOST_OBS], next_obs[SAMPLES * MOST_OBS];
    int action[SAMPLES];
    float logp[SAMPLES], value[SAMPLES], next_value[SAMPLES], reward[SAMPLES];
    unsigned char terminated[SAMPLES], truncated[SAMPLES];
    float advantage[SAMPLES], value_target[SAMPLES];
} r;

static struct {
    void *state[ENVS];
    float obs[ENVS * MOST_OBS], episode_return[ENVS];
    int length[ENVS];
} now;

static void add_layer(ppo_tensor **layer, const char *name, int in, int out, float gain) {
    char text[64];
    snprintf(text, sizeof text, "%s.weight", name);
    layer[0] = ppo_params_add(params, text, in, out);
    snprintf(text, sizeof text, "%s.bias", name);
    layer[1] = ppo_params_add(params, text, 1, out);
    ppo_init_orthogonal(layer[0], gain, &rng);
}

static void create(const ppo_env *env) {
    obs_size = env->obs_size, actions = env->action_space.n, rng = ppo_rng_stream(1, PPO_STREAM_USER, 0);
    ppo_params_create(&params), ppo_tape_create(&tape);
    add_layer(&actor[0], "actor.0", obs_size, HIDDEN, 1.414f),
        add_layer(&critic[0], "critic.0", obs_size, HIDDEN, 1.414f);
    add_layer(&actor[2], "actor.1", HIDDEN, HIDDEN, 1.414f),
        add_layer(&critic[2], "critic.1", HIDDEN, HIDDEN, 1.414f);
    add_layer(&actor[4], "actor.2", HIDDEN, actions, 0.01f), add_layer(&critic[4], "critic.2", HIDDEN, 1, 1);
    for (int e = 0; e < ENVS; e++) {
        now.state[e] = calloc(env->state_size, 1);
        env->reset(now.state[e], &rng, now.obs + e * obs_size);
    }
}

static ppo_tensor *network(ppo_tensor **layer, ppo_tensor *x) {
    x = ppo_tape_linear(tape, x, layer[0], layer[1], PPO_TANH);
    x = ppo_tape_linear(tape, x, layer[2], layer[3], PPO_TANH);
    return ppo_tape_linear(tape, x, layer[4], layer[5], PPO_IDENTITY);
}

static ppo_tensor *begin(const float *obs, int n, int record) {
    ppo_tape_reset(tape), ppo_tape_record(tape, record);
    return ppo_tape_constant(tape, obs, n, obs_size);
}

static void collect(const ppo_env *env, iteration *report) {
    int ended = 0;
    float returns = 0;
    for (int t = 0; t < STEPS; t++) {
        int at = t * ENVS;
        ppo_tensor *x = begin(now.obs, ENVS, 0), *logits = network(actor, x), *value = network(critic, x);
        memcpy(r.obs + at * obs_size, now.obs, sizeof(float) * ENVS * (size_t)obs_size);
        memcpy(r.value + at, value->data, sizeof(float) * ENVS);
        for (int e = 0; e < ENVS; e++)
            r.action[at + e] = ppo_categorical_sample(logits->data + e * actions, actions, 1, &rng);
        ppo_token_logp(logits->data, r.action + at, ENVS, actions, 1, r.logp + at, NULL);
        for (int e = 0; e < ENVS; e++) {
            int i = at + e;
            float *obs = now.obs + e * obs_size;
            ppo_action action;
            ppo_outcome out;
            memset(&action, 0, sizeof action), memset(&out, 0, sizeof out);
            action.discrete = r.action[i];
            if (WRONG == 3) r.action[i] = 0;
            env->step(now.state[e], &rng, &action, obs, &out);
            now.length[e]++, now.episode_return[e] += out.reward;
            r.reward[i] = out.reward, r.terminated[i] = out.terminated != 0;
            r.truncated[i] = !out.terminated && now.length[e] == env->max_steps;
            memcpy(r.next_obs + i * obs_size, obs, sizeof(float) * (size_t)obs_size);
            if (r.terminated[i] || r.truncated[i]) {
                returns += now.episode_return[e], ended++;
                now.length[e] = 0, now.episode_return[e] = 0;
                env->reset(now.state[e], &rng, obs);
            }
        }
    }
    memcpy(r.next_value, network(critic, begin(r.next_obs, SAMPLES, 0))->data, sizeof r.next_value);
    ppo_gae(r.reward, r.value, r.next_value, r.terminated, r.truncated, STEPS, ENVS, 0.99f, 0.95f,
            r.advantage, r.value_target);
    report->mean_return = ended ? returns / ended : 0;
    report->explained_variance = ppo_explained_variance(r.value, r.value_target, SAMPLES);
}

static void update(float learning_rate, iteration *report) {
    ppo_policy_objective clip = ppo_policy_objective_default();
    ppo_adam adam = ppo_adam_default();
    int order[SAMPLES], action[MINIBATCH];
    float obs[MINIBATCH * MOST_OBS], logp[MINIBATCH], advantage[MINIBATCH], target[MINIBATCH];
    adam.lr = learning_rate;
    for (int i = 0; i < SAMPLES; i++) order[i] = i;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        ppo_rng_shuffle(&rng, order, SAMPLES);
        for (int from = 0; from < SAMPLES; from += MINIBATCH) {
            for (int k = 0; k < MINIBATCH; k++) {
                int i = order[from + k];
                memcpy(obs + k * obs_size, r.obs + i * obs_size, sizeof(float) * (size_t)obs_size);
                action[k] = r.action[i], logp[k] = r.logp[i];
                advantage[k] = WRONG == 1 ? -r.advantage[i] : r.advantage[i], target[k] = r.value_target[i];
            }
            ppo_whiten(advantage, NULL, MINIBATCH, 1);
            ppo_policy_stats stats;
            ppo_tensor *x = begin(obs, MINIBATCH, 1), *new_logp, *entropy;
            ppo_tape_categorical(tape, network(actor, x), action, 1, &new_logp, &entropy);
            if (WRONG == 2) memcpy(logp, new_logp->data, sizeof logp);
            ppo_tensor *loss = ppo_tape_policy_loss(tape, new_logp, logp, advantage, NULL, &clip, &stats);
            ppo_tensor *value_loss =
                ppo_tape_value_loss(tape, network(critic, x), NULL, target, NULL, 0, INFINITY);
            ppo_tensor *mean_entropy = ppo_tape_mean(tape, entropy);
            loss = ppo_tape_add(tape, loss, ppo_tape_scale(tape, value_loss, WRONG == 5 ? -0.5f : 0.5f, 0));
            loss = ppo_tape_add(tape, loss, ppo_tape_scale(tape, mean_entropy, -0.01f, 0));
            ppo_params_zero_grad(params);
            ppo_tape_backward(tape, loss);
            ppo_params_step(params, &adam, 0.5f, NULL);
            if (epoch == 0 && from == 0)
                report->first_ratio_error = fmaxf(stats.ratio_max - 1, 1 - stats.ratio_min);
            report->approx_kl = stats.approx_kl, report->clip_fraction = stats.clip_fraction;
            report->entropy = mean_entropy->data[0];
        }
    }
}

int learn(const ppo_env *env, int steps, iteration *report, int most) {
    int iterations = steps / SAMPLES < most ? steps / SAMPLES : most;
    create(env);
    for (int i = 0; i < iterations; i++) {
        collect(env, &report[i]);
        update((WRONG == 4 ? 0.3f : 2e-3f) * (1 - (float)i / (float)iterations), &report[i]);
    }
    return iterations;
}

void act(const float *obs, int n, int *action) {
    ppo_tensor *logits = network(actor, begin(obs, n, 0));
    for (int i = 0; i < n; i++) action[i] = ppo_categorical_mode(logits->data + i * actions, actions);
}
