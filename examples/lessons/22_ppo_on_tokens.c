/* 22_ppo_on_tokens.c - PPO on tokens, step by step: every number of one small batch, by hand.

   Four prompts, one sample of each. A token is an action; its state is the text before it.
     1. sample tokens, keep log pi_old                  2. a reward for each whole sequence, R
     3. log pi_ref; k1 = log pi_old - log pi_ref        4. the critic's value before each token
     5. reward of a token: -beta k1, R at the last      6. GAE over the tokens, gamma 1: A; target A + V
     7. whiten A over the batch                         8. ratio, clipped loss, gradient, Adam
   The library does the same in ppo_rlhf_update(), with the same samples. You will see the numbers, a picture
   of one sequence, and that both end with the same weights: there is nothing else to PPO on tokens. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"
#include "letters.h"

enum { BATCH = 4, MOST = BATCH * CONTEXT };

int main(int argc, char **argv) {
    uint64_t seed = lesson_seed(argc, argv);
    ppo_tokens chosen = {0}, rejected = {0};
    ppo_lm *first = first_model(seed), *policy = NULL, *mine = NULL;
    ppo_rlhf_config cfg = settings(seed);
    ppo_fit_config fit = ppo_fit_config_default();

    /* So that there is something to see, the policy has already left the reference, and the critic is not
       0: it starts as a reward model (Ouyang 2022, C.4). */
    ask_people(first, 500, seed, &chosen, &rejected);
    ppo_lm *critic = learn_reward(first, &chosen, &rejected, seed);
    must(ppo_lm_copy(first, 0, &policy));
    must(ppo_fit_sft(policy, &chosen, &fit));

    /* 1, 2. */
    ppo_generator *generator;
    ppo_samples samples = sample(policy, BATCH, 1, seed, &generator);
    const ppo_tokens *t = &samples.tokens;
    float R[BATCH];
    must(people(&samples, R, NULL));

    /* 3, 4. A row of a response is a token that was sampled; its numbers are columns of a table. */
    enum { OLD, REF, K1, REWARD, VALUE, A, TARGET, WHITENED, RATIO, COLUMNS };
    static float table[COLUMNS][MOST];
    ppo_tape *tape = NULL;
    int rows = ppo_response_row(t, BATCH);
    must(ppo_tape_create(&tape));
    ppo_tensor *ref = ppo_lm_response(tape, first, t, 1, PPO_POLICY).logp;
    ppo_tensor *V = ppo_lm_response(tape, critic, t, 1, PPO_VALUE).value;
    must(ppo_tape_status(tape));
    memcpy(table[REF], ref->data, (size_t)rows * sizeof(float));
    memcpy(table[VALUE], V->data, (size_t)rows * sizeof(float));

    /* 5, 6, 7. */
    float kl = 0, value_loss;
    for (int s = 0; s < BATCH; s++) {
        int row = ppo_response_row(t, s), n = ppo_response_row(t, s + 1) - row;
        const float *logp = samples.logp + t->start[s] + t->prompt[s];
        unsigned char ended[CONTEXT] = {0};
        for (int i = 0; i < n; i++) {
            table[OLD][row + i] = logp[i];
            table[K1][row + i] = logp[i] - table[REF][row + i];
            table[REWARD][row + i] = -cfg.kl_coef * table[K1][row + i];
            kl += table[K1][row + i] / BATCH;
        }
        table[REWARD][row + n - 1] += R[s] - (samples.ended[s] ? 0 : cfg.missing_eos_penalty);
        ended[n - 1] = 1;
        must(ppo_gae(&table[REWARD][row], &table[VALUE][row], &table[VALUE][row + 1], ended, NULL, n, 1,
                     cfg.gamma, cfg.gae_lambda, &table[A][row], &table[TARGET][row]));
    }
    must(ppo_value_loss(table[VALUE], table[VALUE], table[TARGET], NULL, rows, 0, &value_loss, NULL));
    memcpy(table[WHITENED], table[A], sizeof table[A]);
    must(ppo_whiten(table[WHITENED], NULL, rows, 1));

    /* 8. On a copy. */
    ppo_adam adam = {cfg.learning_rate, cfg.adam_beta1, cfg.adam_beta2, cfg.adam_eps, 0};
    ppo_policy_stats stats;
    must(ppo_lm_copy(policy, 0, &mine));
    must(ppo_params_freeze(mine->params, 0));
    ppo_tape_reset(tape);
    ppo_tensor *logp = ppo_lm_response(tape, mine, t, 1, PPO_POLICY).logp;
    logp = ppo_tape_policy_loss(tape, logp, table[OLD], table[WHITENED], NULL, &cfg.objective, &stats);
    must(ppo_tape_backward(tape, logp));
    must(ppo_params_step(mine->params, &adam, cfg.max_grad_norm, NULL));
    ppo_tape_reset(tape);
    logp = ppo_lm_response(tape, mine, t, 1, PPO_POLICY).logp;
    for (int row = 0; row < rows; row++) table[RATIO][row] = expf(logp->data[row] - table[OLD][row]);

    printf("token   log old log ref      k1  reward   value       A  target whitened  new ratio\n");
    for (int s = 0; s < BATCH; s++) {
        char text[CONTEXT + 1];
        printf("%s  R = %.1f\n", spell(t->token + t->start[s], t->start[s + 1] - t->start[s], text), R[s]);
        for (int row = ppo_response_row(t, s); row < ppo_response_row(t, s + 1); row++) {
            int i = t->start[s] + t->prompt[s] + row - ppo_response_row(t, s);
            printf("%5s ", spell(&t->token[i], 1, text));
            for (int k = 0; k < COLUMNS; k++) printf(" %7.2f%s", table[k][row], k < COLUMNS - 1 ? "" : "\n");
        }
    }

    /* The same by the library. */
    ppo_rlhf *rlhf = NULL;
    ppo_rlhf_progress p;
    cfg.prompts = cfg.minibatch_size = BATCH, cfg.epochs = 1, cfg.normalize_rewards = 0;
    must(ppo_rlhf_create(policy, first, critic, t, NULL, NULL, &cfg, &rlhf));
    must(ppo_rlhf_update(rlhf, &samples, R, &p));
    double apart = 0;
    for (size_t i = 0; i < mine->params->count; i++)
        apart = fmax(apart, fabs((double)(mine->params->data[i] - policy->params->data[i])));
    chart c = {.title = "The first sequence", .x_label = "token"};
    float x[CONTEXT];
    int n = ppo_response_row(t, 1);
    for (int i = 0; i < n; i++) x[i] = (float)(i + 1);
    chart_points(&c, "reward", x, table[REWARD], n);
    chart_line(&c, "value", x, table[VALUE], n);
    chart_line(&c, "advantage", x, table[A], n);
    chart_save(&c, "build/lessons/22_ppo_on_tokens.svg");
    claim(stats.ratio_min == 1 && stats.ratio_max == 1, "before the step every ratio is exactly 1");
    claim(fabsf(kl - p.kl) < 1e-4f, "the KL, %.4f, is the library's (an estimate, and so it can be negative)",
          (double)kl);
    claim(fabsf(value_loss - p.value_loss) < 1e-4f, "so is the value loss, %.4f", (double)value_loss);
    claim(apart < 1e-6, "and so are the weights after the step: they differ by at most %.0e", apart);
    return lesson_failures > 0;
}
