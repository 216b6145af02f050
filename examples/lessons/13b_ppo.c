/* 13b_ppo.c - PPO whole, on two screens: CartPole-v1 from nothing to 475, by plain arrays and the tape.

   What ppo_train() does, without its choices, threads and files. Read from main() upwards. An iteration:
     collect   the policy plays STEPS steps of ENVS games, then A, the advantage of each action (lesson 4)
     step      EPOCHS times over the data, in minibatches: clipped loss (lesson 7) + critic's loss (lesson 11)
               - entropy bonus (lesson 12); its gradient, the norm clipped; Adam (lesson 15)
   You will see the return rise to 475, and that the first ratios of each iteration are exactly 1. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "../envs/cartpole.h"

#include "lesson.h"

enum { ENVS = 8, STEPS = 128, SAMPLES = ENVS * STEPS, ITERATIONS = 98, EPOCHS = 8, MINIBATCH = 256 };
enum { OBS = 4, ACTIONS = 2, HIDDEN = 64, LAYERS = 3 };

static const float discount = 0.99f, lambda = 0.95f, clip = 0.2f, value_coef = 0.5f, entropy_coef = 0.01f,
                   learning_rate = 1.5e-3f, max_grad_norm = 0.5f;

static ppo_env env;
static ppo_rng rng;
static ppo_tape *tape;                                     /* records operations, for the gradient */
static ppo_params *params;                                 /* all weights, and their gradients */
static ppo_tensor *actor[2 * LAYERS], *critic[2 * LAYERS]; /* weight and bias of each layer */

static struct { /* the rollout: sample t * ENVS + e is step t of game e */
    float obs[SAMPLES][OBS], next_obs[SAMPLES][OBS], logp[SAMPLES], reward[SAMPLES];
    float value[SAMPLES], next_value[SAMPLES], advantage[SAMPLES], value_target[SAMPLES];
    int action[SAMPLES];
    unsigned char terminated[SAMPLES], truncated[SAMPLES];
} r;

static struct { /* the games, as they are now */
    cartpole state[ENVS];
    float obs[ENVS][OBS], earned[ENVS];
    int length[ENVS];
} game;

/* Orthogonal weights; the actor's last ones are nearly 0, so that both actions are as likely at first. */
static void create_network(ppo_tensor **layer, char name, int outputs, float last_gain) {
    for (int k = 0; k < LAYERS; k++) {
        int in = k == 0 ? OBS : HIDDEN, last = k == LAYERS - 1, out = last ? outputs : HIDDEN;
        layer[2 * k] = ppo_params_add(params, (char[]){name, 'w', (char)('0' + k), 0}, in, out);
        layer[2 * k + 1] = ppo_params_add(params, (char[]){name, 'b', (char)('0' + k), 0}, 1, out);
        ppo_init_orthogonal(layer[2 * k], last ? last_gain : 1.414f, &rng);
    }
}

/* obs (n, OBS) -> (n, outputs) */
static ppo_tensor *network(ppo_tensor **layer, const float *obs, int n) {
    ppo_tensor *x = ppo_tape_constant(tape, obs, n, OBS);
    for (int k = 0; k < LAYERS; k++, layer += 2)
        x = ppo_tape_linear(tape, x, layer[0], layer[1], k < LAYERS - 1 ? PPO_TANH : PPO_IDENTITY);
    return x;
}

/* Fills the rollout, up to advantages; returns the mean return of the latest episodes. */
static float collect(void) {
    static float mean_return;
    float returns = 0, episodes = 0;
    ppo_tape_record(tape, 0); /* no gradient is asked for */
    for (int i = 0; i < SAMPLES;) {
        ppo_tape_reset(tape);
        const float *logits = network(actor, game.obs[0], ENVS)->data,
                    *V = network(critic, game.obs[0], ENVS)->data;
        for (int e = 0; e < ENVS; e++, i++, logits += ACTIONS) {
            memcpy(r.obs[i], game.obs[e], sizeof r.obs[i]);
            r.value[i] = V[e];
            r.action[i] = ppo_categorical_sample(logits, ACTIONS, 1, &rng);
            must(ppo_token_logp(logits, &r.action[i], 1, ACTIONS, 1, &r.logp[i], NULL));
            ppo_action action = {.discrete = r.action[i]};
            ppo_outcome outcome = {0};
            env.step(&game.state[e], &rng, &action, game.obs[e], &outcome);
            memcpy(r.next_obs[i], game.obs[e], sizeof r.next_obs[i]); /* before the reset */
            r.reward[i] = outcome.reward, game.earned[e] += outcome.reward;
            r.terminated[i] = outcome.terminated != 0;
            r.truncated[i] = ++game.length[e] == env.max_steps && !r.terminated[i];
            if (!r.terminated[i] && !r.truncated[i]) continue;
            returns += game.earned[e], episodes++, game.earned[e] = 0, game.length[e] = 0;
            env.reset(&game.state[e], &rng, game.obs[e]);
        }
    }
    ppo_tape_reset(tape);
    memcpy(r.next_value, network(critic, r.next_obs[0], SAMPLES)->data, sizeof r.next_value);
    must(ppo_gae(r.reward, r.value, r.next_value, r.terminated, r.truncated, STEPS, ENVS, discount, lambda,
                 r.advantage, r.value_target));
    if (episodes > 0) mean_return = returns / episodes;
    return mean_return;
}

/* One gradient step on n samples; returns how far the ratios are from 1 before it. */
static float step(const int *sample, int n, const ppo_adam *adam) {
    float obs[MINIBATCH][OBS], old_logp[MINIBATCH], A[MINIBATCH], target[MINIBATCH];
    int action[MINIBATCH];
    for (int k = 0; k < n; k++, sample++) {
        memcpy(obs[k], r.obs[*sample], sizeof obs[k]);
        action[k] = r.action[*sample], old_logp[k] = r.logp[*sample];
        A[k] = r.advantage[*sample], target[k] = r.value_target[*sample];
    }
    must(ppo_whiten(A, NULL, n, 1)); /* mean 0, standard deviation 1 */
    const ppo_policy_objective how = {PPO_CLIP, clip, clip, 0, 0};
    ppo_policy_stats stats;
    ppo_tensor *logp, *entropy;
    ppo_tape_reset(tape), ppo_tape_record(tape, 1);
    ppo_tape_categorical(tape, network(actor, obs[0], n), action, 1, &logp, &entropy);
    ppo_tensor *policy = ppo_tape_policy_loss(tape, logp, old_logp, A, NULL, &how, &stats);
    ppo_tensor *V = network(critic, obs[0], n);
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
    static float x[ITERATIONS], curve[ITERATIONS];
    float first = 0;
    int order[SAMPLES];
    rng = ppo_rng_stream(lesson_seed(argc, argv), PPO_STREAM_USER, 0);
    env = cartpole_env();
    must(ppo_params_create(&params)), must(ppo_tape_create(&tape));
    create_network(actor, 'a', ACTIONS, 0.01f), create_network(critic, 'c', 1, 1);
    for (int e = 0; e < ENVS; e++) env.reset(&game.state[e], &rng, game.obs[e]);
    for (int i = 0; i < SAMPLES; i++) order[i] = i;
    for (int k = 0; k < ITERATIONS; k++) {
        adam.lr = learning_rate * (1 - (float)k / ITERATIONS); /* falls to 0 */
        curve[k] = collect(), x[k] = (float)((k + 1) * SAMPLES);
        for (int epoch = 0; epoch < EPOCHS; epoch++) {
            ppo_rng_shuffle(&rng, order, SAMPLES);
            for (int from = 0; from < SAMPLES; from += MINIBATCH) {
                float off = step(&order[from], MINIBATCH, &adam);
                if (epoch + from == 0) first = fmaxf(first, off); /* by the policy that collected */
            }
        }
        if (k % 14 == 13) printf("%7d steps   return %6.1f\n", (k + 1) * SAMPLES, (double)curve[k]);
    }
    chart c = {.title = "PPO whole: CartPole-v1", .x_label = "steps", .y_label = "return"};
    chart_line(&c, "mean return of the latest episodes", x, curve, ITERATIONS);
    chart_save(&c, "build/lessons/13b_ppo.svg");
    double last = mean_of(&curve[ITERATIONS - 10], 10);
    claim(first == 0, "the first ratios of every iteration are exactly 1");
    claim(last >= 475, "the last 10 iterations return %.1f, at least 475", last);
    ppo_params_free(params), ppo_tape_free(tape);
    return lesson_failures > 0;
}
