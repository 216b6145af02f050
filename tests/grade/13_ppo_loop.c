/* wrong 1: 4 The advantages have the wrong sign */
/* wrong 2: 4 old_logp follows the policy */
/* wrong 3: 6 that of the other action */
/* wrong 4: 4 Gradients add up */
/* wrong 5: 4 The critic's loss has the wrong sign */
/* wrong 6: 9 next_obs is kept after the reset */
/* wrong 7: 9 A time limit is kept as terminated */
/* wrong 8: 5 The advantages are not whitened */
/* wrong 9: 8 The entropy has the wrong sign */
/* wrong 10: 5 reset the environment, and go on from there */
/* wrong 11: 7 The networks see next_obs */
/* wrong 12: 9 Actions are sampled, or nothing is ever tried */
/* wrong 13: 5 The ends of episodes are not given */
/* wrong 14: 9 It is the value after the reset */
/* wrong 15: 8 The critic learns the advantage */
/* wrong 16: 8 The gradient's norm is not clipped */
/* wrong 17: 9 its length set to 0 at each reset */
/* wrong 18: 9 It is the mean sum of rewards */
/* wrong 19: 9 of ratio_max or of ratio_min */
/* wrong 20: 6 does act() return the best action */
#include "ppo_loop.h"

#include <math.h>

void collect(agent *a, games *now, const ppo_env *env, rollout *r, iteration *report) {
    int ended = 0;
    float returns = 0;
    const int size = a->obs_size;
    for (int t = 0; t < STEPS; t++) {
        int at = t * ENVS;
        ppo_tensor *x = begin(a, now->obs, ENVS, 0);
        ppo_tensor *logits = network(a, a->actor, x), *value = network(a, a->critic, x);
        memcpy(r->obs + at * size, now->obs, sizeof(float) * ENVS * (size_t)size);
        memcpy(r->value + at, value->data, sizeof(float) * ENVS);
        for (int e = 0; e < ENVS; e++) {
            float *own = logits->data + e * a->actions;
            r->action[at + e] = WRONG == 12 ? ppo_categorical_mode(own, a->actions)
                                            : ppo_categorical_sample(own, a->actions, 1, &a->rng);
        }
        int other[ENVS];
        for (int e = 0; e < ENVS; e++) other[e] = WRONG == 3 ? !r->action[at + e] : r->action[at + e];
        ppo_token_logp(logits->data, other, ENVS, a->actions, 1, r->logp + at, NULL);
        for (int e = 0; e < ENVS; e++) {
            int i = at + e;
            float *obs = now->obs + e * size;
            ppo_action action;
            ppo_outcome out;
            memset(&action, 0, sizeof action), memset(&out, 0, sizeof out);
            action.discrete = r->action[i];
            env->step(now->state[e], &a->rng, &action, obs, &out);
            now->length[e]++, now->episode_return[e] += out.reward;
            r->reward[i] = out.reward, r->terminated[i] = out.terminated != 0;
            r->truncated[i] = !out.terminated && now->length[e] == env->max_steps;
            if (WRONG != 6) memcpy(r->next_obs + i * size, obs, sizeof(float) * (size_t)size);
            if (r->terminated[i] || r->truncated[i]) {
                if (WRONG == 7) r->terminated[i] = 1, r->truncated[i] = 0;
                returns += now->episode_return[e], ended++;
                if (WRONG != 17) now->length[e] = 0;
                if (WRONG != 18) now->episode_return[e] = 0;
                if (WRONG != 10) env->reset(now->state[e], &a->rng, obs);
            }
            if (WRONG == 6) memcpy(r->next_obs + i * size, obs, sizeof(float) * (size_t)size);
        }
    }
    memcpy(r->next_value, network(a, a->critic, begin(a, r->next_obs, SAMPLES, 0))->data,
           sizeof r->next_value);
    if (WRONG == 14) memcpy(r->next_value, r->value + ENVS, sizeof(float) * (SAMPLES - ENVS));
    static const unsigned char none[SAMPLES];
    ppo_gae(r->reward, r->value, r->next_value, WRONG == 13 ? none : r->terminated,
            WRONG == 13 ? none : r->truncated, STEPS, ENVS, 0.99f, 0.95f, r->advantage, r->value_target);
    report->mean_return = ended ? returns / (float)ended : 0;
    report->explained_variance = ppo_explained_variance(r->value, r->value_target, SAMPLES);
}

void update(agent *a, const rollout *r, int n, float learning_rate, iteration *report) {
    ppo_policy_objective clip = ppo_policy_objective_default();
    ppo_adam adam = ppo_adam_default();
    int order[SAMPLES], action[MINIBATCH];
    float obs[MINIBATCH * MOST_OBS], logp[MINIBATCH], advantage[MINIBATCH], target[MINIBATCH];
    adam.lr = learning_rate;
    for (int i = 0; i < n; i++) order[i] = i;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        ppo_rng_shuffle(&a->rng, order, n);
        for (int from = 0; from < n; from += MINIBATCH) {
            for (int k = 0; k < MINIBATCH; k++) {
                int i = order[from + k];
                memcpy(obs + k * a->obs_size, (WRONG == 11 ? r->next_obs : r->obs) + i * a->obs_size,
                       sizeof(float) * (size_t)a->obs_size);
                action[k] = r->action[i], logp[k] = r->logp[i];
                advantage[k] = WRONG == 1 ? -r->advantage[i] : r->advantage[i];
                target[k] = WRONG == 15 ? r->advantage[i] : r->value_target[i];
            }
            if (WRONG != 8) ppo_whiten(advantage, NULL, MINIBATCH, 1);
            ppo_policy_stats stats;
            ppo_tensor *x = begin(a, obs, MINIBATCH, 1), *new_logp, *entropy;
            ppo_tape_categorical(a->tape, network(a, a->actor, x), action, 1, &new_logp, &entropy);
            if (WRONG == 2) memcpy(logp, new_logp->data, sizeof logp);
            ppo_tensor *loss = ppo_tape_policy_loss(a->tape, new_logp, logp, advantage, NULL, &clip, &stats);
            ppo_tensor *value_loss =
                ppo_tape_value_loss(a->tape, network(a, a->critic, x), NULL, target, NULL, 0, INFINITY);
            ppo_tensor *mean = ppo_tape_mean(a->tape, entropy);
            loss = ppo_tape_add(a->tape, loss,
                                ppo_tape_scale(a->tape, value_loss, WRONG == 5 ? -0.5f : 0.5f, 0));
            loss = ppo_tape_add(a->tape, loss, ppo_tape_scale(a->tape, mean, WRONG == 9 ? 0.01f : -0.01f, 0));
            if (WRONG != 4) ppo_params_zero_grad(a->params);
            ppo_tape_backward(a->tape, loss);
            ppo_params_step(a->params, &adam, WRONG == 16 ? 0 : 0.5f, NULL);
            if (epoch == 0 && from == 0)
                report->first_ratio_error =
                    WRONG == 19 ? stats.ratio_max - 1 : fmaxf(stats.ratio_max - 1, 1 - stats.ratio_min);
            report->approx_kl = stats.approx_kl, report->clip_fraction = stats.clip_fraction;
            report->entropy = mean->data[0];
        }
    }
}

void act(agent *a, const float *obs, int n, int *action) {
    ppo_tensor *logits = network(a, a->actor, begin(a, obs, n, 0));
    for (int i = 0; i < n; i++)
        action[i] = (WRONG == 20) != ppo_categorical_mode(logits->data + i * a->actions, a->actions);
}
