/* objectives.c - one task, seven objectives: what the trust region is for.

   All of them make actions with a positive advantage A more likely; r = pi_new(action) / pi_old(action).
   Gains:
       R  log pi A, A = the return that followed (REINFORCE, Williams 1992); one gradient step per rollout
       B  log pi A, A = the same minus a baseline, the critic's value; one gradient step per rollout
       A  like B, with rollouts of 80 samples (advantage actor-critic, Mnih 2016)
       U  r A; ten epochs of minibatches over each rollout, as in F, K and C (Schulman 2017, eq. 6)
       F  r A - 3 KL(old || new), the exact KL (PPO_KL_PENALTY)              (eq. 8)
       K  r A - b KL(old || new); b adapts to keep the KL near 0.01          (eq. 8)
       C  min(r A, clip(r, 0.8, 1.2) A)                                      (eq. 7)
   U uses its data many times, and F, K and C are U with a trust region: all other settings are equal.

   You will see that one step changes the policy little (the KL), and that R, B and A learn slowly. U changes
   it much: its return rises fast and falls again; the second picture shows each run. F, K and C learn as
   fast and end at the top, but K exceeds its 0.01. Four runs are few, and where U ends is chance:
   `objectives 5` shows seeds 5 to 8. A second argument changes settings: with `objectives 1 epochs=1` U
   stays near, too, and learns as well. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "envs/cartpole.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OBJECTIVES = 7, SEEDS = 4, POINTS = 20, STEPS_PER_POINT = 2048, EPISODES = 5 };
enum { ROWS = 17, COLUMNS = 72 }; /* of a picture */

static const char        letters[] = "RBAUFKC";
static const char *const presets[OBJECTIVES] = {
    "reinforce",          "reinforce-baseline",    "a2c",      "ppo-paper-unclipped",
    "ppo-paper-fixed-kl", "ppo-paper-adaptive-kl", "ppo-paper"}; /* of ppo_config_preset() */

static void must(ppo_status status) {
    if (status == PPO_OK) return;
    fprintf(stderr, "%s\n", ppo_last_error());
    exit(1);
}

/* How far an update has moved the policy from the one that acted, on the samples of that update. */
static ppo_policy_stats compare(ppo_tape *tape, const ppo_agent *agent, const ppo_rollout *acted) {
    ppo_policy_objective any = ppo_policy_objective_default();
    ppo_policy_stats     stats;
    ppo_inputs           inputs = {0};
    ppo_tensor          *logp, *entropy;
    inputs.rows = acted->steps * acted->envs;
    inputs.obs = acted->obs;
    ppo_tape_reset(tape);
    ppo_outputs now = ppo_actor_critic_forward(tape, &agent->model, &inputs, PPO_POLICY);
    ppo_actor_critic_logp(tape, &agent->model, &now, &acted->actions, &logp, &entropy);
    must(ppo_tape_status(tape));
    must(ppo_policy_loss(logp->data, acted->logp, acted->advantage, NULL, inputs.rows, &any, &stats, NULL));
    return stats;
}

typedef struct run {
    float curve[POINTS]; /* mean return of new episodes, with the most likely actions */
    float kl, ratio;     /* the largest of all updates */
    long  gradient_steps;
} run;

static run train(const ppo_env *env, const char *preset, const char *changes, uint64_t seed) {
    run          r = {{0}, 0, 0, 0};
    ppo_config   cfg = ppo_config_default();
    ppo_agent   *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_tape    *tape = NULL;
    must(ppo_config_preset(&cfg, preset));
    must(ppo_config_set_all(&cfg, changes));
    cfg.total_steps = POINTS * STEPS_PER_POINT;
    cfg.seed = seed;
    cfg.recurrent = 0; /* compare() evaluates a policy without memory */
    must(ppo_agent_create(env, &cfg, &agent));
    must(ppo_trainer_create(env, &cfg, agent, &trainer));
    must(ppo_tape_create(&tape));
    ppo_tape_record(tape, 0); /* no gradients wanted */
    for (int point = 0; !ppo_trainer_done(trainer);) {
        ppo_progress progress;
        must(ppo_trainer_iterate(trainer, &progress));
        ppo_policy_stats moved = compare(tape, agent, ppo_trainer_rollout(trainer));
        r.kl = fmaxf(r.kl, moved.approx_kl);
        r.ratio = fmaxf(r.ratio, moved.ratio_max);
        if (progress.steps < (point + 1L) * STEPS_PER_POINT) continue;
        ppo_evaluation level = ppo_evaluate(agent, env, EPISODES, seed);
        must(level.status);
        while (point < POINTS && progress.steps >= (point + 1L) * STEPS_PER_POINT)
            r.curve[point++] = level.mean_return;
    }
    r.gradient_steps = agent->model.params->step;
    ppo_tape_free(tape);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    return r;
}

/* Curves in one picture, from 0 to 500. Where several meet, their letters alternate. */
static void draw(const char *title, const char *names, const float curves[][POINTS], int n) {
    char sky[ROWS][COLUMNS];
    int  row[OBJECTIVES];
    memset(sky, ' ', sizeof sky);
    for (int column = 0; column < COLUMNS; column++) {
        float x = (float)column * (POINTS - 1) / (COLUMNS - 1);
        int   point = column < COLUMNS - 1 ? (int)x : POINTS - 2;
        for (int k = 0; k < n; k++) {
            const float *y = &curves[k][point];
            row[k] = (int)lroundf((y[0] + (x - (float)point) * (y[1] - y[0])) / 500 * (ROWS - 1));
        }
        for (int k = 0; k < n; k++) {
            int here = 0, before = 0;
            for (int j = 0; j < n; j++) here += row[j] == row[k], before += j < k && row[j] == row[k];
            if (column % here == before) sky[row[k]][column] = names[k];
        }
    }
    printf("\n%s\n", title);
    for (int i = ROWS - 1; i >= 0; i--) {
        if (i % 4 == 0) printf("%4d |%.*s\n", 500 * i / (ROWS - 1), COLUMNS, sky[i]);
        else printf("     |%.*s\n", COLUMNS, sky[i]);
    }
    printf("      %-*d%*d steps\n", COLUMNS - 8, STEPS_PER_POINT, 8, POINTS * STEPS_PER_POINT);
}

int main(int argc, char **argv) {
    static float mean[OBJECTIVES][POINTS], unclipped[SEEDS][POINTS];
    ppo_env      env = cartpole_env();
    uint64_t     first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    printf("CartPole-v1, %d steps, seeds %llu to %llu, the best return is 500\n\n"
           "                            final return   lowest in the    largest   largest   gradient\n"
           "                            mean   worst    second half          KL     ratio      steps\n",
           POINTS * STEPS_PER_POINT, (unsigned long long)first, (unsigned long long)first + SEEDS - 1);
    for (int k = 0; k < OBJECTIVES; k++) {
        float worst = INFINITY, lowest = INFINITY, kl = 0, ratio = 0;
        run   r[SEEDS];
        for (int j = 0; j < SEEDS; j++) {
            r[j] = train(&env, presets[k], argc > 2 ? argv[2] : "", first + (uint64_t)j);
            for (int i = 0; i < POINTS; i++) mean[k][i] += r[j].curve[i] / SEEDS;
            for (int i = POINTS / 2; i < POINTS; i++) lowest = fminf(lowest, r[j].curve[i]);
            if (letters[k] == 'U') memcpy(unclipped[j], r[j].curve, sizeof r[j].curve);
            worst = fminf(worst, r[j].curve[POINTS - 1]);
            kl = fmaxf(kl, r[j].kl);
            ratio = fmaxf(ratio, r[j].ratio);
        }
        printf("%c  %-22s %7.1f %7.1f %14.1f %11.3f %9.1f %10ld\n", letters[k], presets[k],
               (double)mean[k][POINTS - 1], (double)worst, (double)lowest, (double)kl, (double)ratio,
               r[0].gradient_steps);
        fflush(stdout);
    }
    draw("return against steps, mean of the seeds", letters, (const float(*)[POINTS])mean, OBJECTIVES);
    draw("U again, each of its runs", "1234", (const float(*)[POINTS])unclipped, SEEDS);
}
