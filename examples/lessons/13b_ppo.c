/* 13b_ppo.c - PPO whole, on two screens: CartPole-v1 from nothing to 475, by plain arrays and the tape.

   What ppo_train() does, without its choices, threads and files. Read from main() upwards. An iteration:
     collect   the policy plays STEPS steps of ENVS games, then A, the advantage of each action (lesson 4)
     step      EPOCHS times over the data, in minibatches: the gradient of clipped loss (lesson 7) + critic's
               loss (11) - entropy bonus (12), its norm clipped; Adam (15)
   You will see the return rise to 475, and that the first ratios of each iteration are exactly 1. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "../envs/cartpole.h"
#include "lesson.h"

enum { ENVS = 8, STEPS = 128, SAMPLES = ENVS * STEPS, ITERATIONS = 98, EPOCHS = 8, MINIBATCH = 256 };
enum { OBS = 4, ACTIONS = 2, TIME_LIMIT = 500 };
static const int actor_sizes[] = {OBS, 64, 64, ACTIONS}, critic_sizes[] = {OBS, 64, 64, 1};
static const float discount = 0.99f, lambda = 0.95f, value_coef = 0.5f, entropy_coef = 0.01f;
static const float learning_rate = 1.5e-3f, max_grad_norm = 0.5f;
static const ppo_policy_objective clip = {PPO_CLIP, 0.2f, 0.2f, 0, 0}; /* ratios from 0.8 to 1.2 */

static ppo_rng rng;
static ppo_tape *tape;        /* records operations, for the gradient */
static ppo_params *params;    /* all weights, and their gradients */
static ppo_mlp actor, critic; /* networks: from observations to logits of actions, and to values */

static struct { /* the rollout: sample t * ENVS + e is step t of game e */
    float obs[SAMPLES][OBS], next_obs[SAMPLES][OBS], logp[SAMPLES], reward[SAMPLES];
    float value[SAMPLES], next_value[SAMPLES], advantage[SAMPLES], value_target[SAMPLES];
    int action[SAMPLES];
    unsigned char terminated[SAMPLES], truncated[SAMPLES];
} r;

static cartpole state[ENVS]; /* the games as they are now: state, observation, reward so far, steps so far */
static float now[ENVS][OBS], earned[ENVS];
static int length[ENVS], order[SAMPLES]; /* order of the samples in an epoch */

/* obs (n, OBS) -> (n, outputs) */
static ppo_tensor *network(const ppo_mlp *mlp, const float *obs, int n) {
    return ppo_mlp_forward(tape, mlp, ppo_tape_constant(tape, obs, n, OBS));
}

/* Fills the rollout, up to advantages; returns the mean return of the latest episodes. */
static float collect(void) {
    static float mean_return;
    float returns = 0, episodes = 0;
    ppo_tape_record(tape, 0); /* no gradient is asked for */
    for (int i = 0; i < SAMPLES;) {
        ppo_tape_reset(tape);
        const float *logits = network(&actor, now[0], ENVS)->data;
        const float *V = network(&critic, now[0], ENVS)->data;
        for (int e = 0; e < ENVS; e++, i++, logits += ACTIONS) {
            memcpy(r.obs[i], now[e], sizeof r.obs[i]);
            r.value[i] = V[e];
            r.action[i] = ppo_categorical_sample(logits, ACTIONS, 1, &rng);
            must(ppo_token_logp(logits, &r.action[i], 1, ACTIONS, 1, &r.logp[i], NULL));
            ppo_action action = {.discrete = r.action[i]};
            ppo_outcome outcome = {0};
            cartpole_step(&state[e], &rng, &action, now[e], &outcome);
            memcpy(r.next_obs[i], now[e], sizeof r.next_obs[i]); /* before the reset */
            r.reward[i] = outcome.reward;
            r.terminated[i] = outcome.terminated != 0;
            r.truncated[i] = ++length[e] == TIME_LIMIT && !r.terminated[i];
            earned[e] += outcome.reward;
            if (!r.terminated[i] && !r.truncated[i]) continue;
            returns += earned[e], episodes++;
            earned[e] = 0, length[e] = 0;
            cartpole_reset(&state[e], &rng, now[e]);
        }
    }
    ppo_tape_reset(tape);
    memcpy(r.next_value, network(&critic, r.next_obs[0], SAMPLES)->data, sizeof r.next_value);
    must(ppo_gae(r.reward, r.value, r.next_value, r.terminated, r.truncated, STEPS, ENVS, discount, lambda,
                 r.advantage, r.value_target));
    if (episodes > 0) mean_return = returns / episodes;
    return mean_return;
}

/* One gradient step on a minibatch, samples by number; returns how far the ratios are from 1 before it. */
static float step(const int *sample, const ppo_adam *adam) {
    float obs[MINIBATCH][OBS], old_logp[MINIBATCH], A[MINIBATCH], target[MINIBATCH];
    int action[MINIBATCH];
    for (int k = 0; k < MINIBATCH; k++) {
        memcpy(obs[k], r.obs[sample[k]], sizeof obs[k]);
        action[k] = r.action[sample[k]], old_logp[k] = r.logp[sample[k]];
        A[k] = r.advantage[sample[k]], target[k] = r.value_target[sample[k]];
    }
    must(ppo_whiten(A, NULL, MINIBATCH, 1)); /* mean 0, standard deviation 1 */
    ppo_policy_stats stats;
    ppo_tensor *logp, *entropy;
    ppo_tape_reset(tape), ppo_tape_record(tape, 1);
    ppo_tape_categorical(tape, network(&actor, obs[0], MINIBATCH), action, 1, &logp, &entropy);
    ppo_tensor *V = network(&critic, obs[0], MINIBATCH);
    ppo_tensor *policy = ppo_tape_policy_loss(tape, logp, old_logp, A, NULL, &clip, &stats);
    ppo_tensor *value = ppo_tape_value_loss(tape, V, NULL, target, NULL, 0, INFINITY);
    ppo_tensor *loss = ppo_tape_add(tape, policy, ppo_tape_scale(tape, value, value_coef, 0));
    loss = ppo_tape_add(tape, loss, ppo_tape_scale(tape, ppo_tape_mean(tape, entropy), -entropy_coef, 0));
    ppo_params_zero_grad(params);
    must(ppo_tape_backward(tape, loss));
    must(ppo_params_step(params, adam, max_grad_norm, NULL));
    return fmaxf(stats.ratio_max - 1, 1 - stats.ratio_min);
}

int main(int argc, char **argv) {
    ppo_adam adam = ppo_adam_default();
    float x[ITERATIONS], curve[ITERATIONS], first = 0;
    rng = ppo_rng_stream(lesson_seed(argc, argv), PPO_STREAM_USER, 0);
    must(ppo_params_create(&params)), must(ppo_tape_create(&tape));
    /* The gain of the last layer, 0.01: logits near 0 make both actions as likely at first. */
    must(ppo_mlp_init(&actor, params, "actor", actor_sizes, 3, PPO_TANH, PPO_IDENTITY, 0.01f, &rng));
    must(ppo_mlp_init(&critic, params, "critic", critic_sizes, 3, PPO_TANH, PPO_IDENTITY, 1, &rng));
    for (int e = 0; e < ENVS; e++) cartpole_reset(&state[e], &rng, now[e]);
    for (int i = 0; i < SAMPLES; i++) order[i] = i;
    for (int k = 0; k < ITERATIONS; k++) {
        adam.lr = learning_rate * (1 - (float)k / ITERATIONS); /* falls to 0 */
        curve[k] = collect(), x[k] = (float)((k + 1) * SAMPLES);
        for (int epoch = 0; epoch < EPOCHS; epoch++) {
            ppo_rng_shuffle(&rng, order, SAMPLES);
            for (int from = 0; from < SAMPLES; from += MINIBATCH) {
                float off = step(&order[from], &adam);
                if (epoch == 0 && from == 0) first = fmaxf(first, off); /* by the policy that collected */
            }
        }
        if (k % 14 == 13) printf("%7d steps   return %6.1f\n", (k + 1) * SAMPLES, (double)curve[k]);
    }
    chart c = {.title = "PPO whole: CartPole-v1", .x_label = "steps", .y_label = "return"};
    chart_line(&c, "mean return of the latest episodes", x, curve, ITERATIONS);
    chart_save(&c, "build/lessons/13b_ppo.svg");
    claim(first == 0, "the first ratios of every iteration are exactly 1");
    claim(mean_of(&curve[ITERATIONS - 10], 10) >= 475, "the last 10 iterations return 475 or more");
    return lesson_failures > 0;
}
