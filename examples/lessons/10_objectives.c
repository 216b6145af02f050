/* 10_objectives.c - one task, seven objectives: what the trust region is for.

   All of them make actions with a positive advantage A more likely; r = pi_new(action) / pi_old(action).
   Gains:
       REINFORCE      log pi A, A = the return that followed (Williams 1992); one gradient step per rollout
       + baseline     the same minus a baseline, the critic's value
       A2C            the same with rollouts of 80 samples (advantage actor-critic, Mnih 2016)
       unclipped      r A; ten epochs of minibatches over each rollout, as below (Schulman 2017, eq. 6)
       fixed KL       r A - 3 KL(old || new), the exact KL (eq. 8)
       adaptive KL    r A - b KL(old || new); b adapts to keep the KL near 0.01 (eq. 8)
       clip           min(r A, clip(r, 0.8, 1.2) A) (eq. 7)
   "unclipped" uses its data many times, and the three below it are the same with a trust region.

   You will see that one step changes the policy little: the first two learn slowly, and A2C, whose short
   rollouts allow 25 times as many steps, faster. "unclipped" changes it much: its return rises fast and falls
   again. With a trust region it learns as fast and stays at the top. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "../envs/cartpole.h"

#include "lesson.h"

enum { OBJECTIVES = 7, SEEDS = 4, POINTS = 20, STEPS_PER_POINT = 2048, EPISODES = 5 };
enum { UNCLIPPED = 3 };

static const char *const names[OBJECTIVES] = {"REINFORCE", "+ baseline",  "A2C", "unclipped",
                                              "fixed KL",  "adaptive KL", "clip"};
static const char *const presets[OBJECTIVES] = {
    "reinforce",          "reinforce-baseline",    "a2c",      "ppo-paper-unclipped",
    "ppo-paper-fixed-kl", "ppo-paper-adaptive-kl", "ppo-paper"}; /* of ppo_settings_preset() */

/* How far an update has moved the policy from the one that acted, on the samples of that update. */
static ppo_policy_stats compare(ppo_tape *tape, const ppo_agent *agent, const ppo_rollout *acted) {
    ppo_policy_objective any = ppo_policy_objective_default();
    ppo_policy_stats stats;
    ppo_inputs inputs = {0};
    ppo_tensor *logp, *entropy;
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
    long gradient_steps;
} run;

static run train(const ppo_env *env, const char *preset, uint64_t seed) {
    run r = {{0}, 0, 0, 0};
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_tape *tape = NULL;
    must(ppo_config_preset(&cfg, preset));
    cfg.total_steps = POINTS * STEPS_PER_POINT;
    cfg.seed = seed;
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

int main(int argc, char **argv) {
    static float mean[OBJECTIVES][POINTS], x[POINTS], end[OBJECTIVES], kl[OBJECTIVES];
    uint64_t first = 4 * (lesson_seed(argc, argv) - 1) + 1;
    ppo_env env = cartpole_env();
    printf("CartPole-v1, %d steps, seeds %d to %d, the best return is 500\n\n"
           "                 return: last quarter   lowest in the    largest   largest   gradient\n"
           "                    mean                  second half         KL     ratio      steps\n",
           POINTS * STEPS_PER_POINT, (int)first, (int)first + SEEDS - 1);
    chart c = {.title = "CartPole: return, mean of 4 seeds", .x_label = "steps"};
    for (int k = 0; k < OBJECTIVES; k++) {
        float lowest = INFINITY, ratio = 0;
        run r;
        for (int j = 0; j < SEEDS; j++) {
            r = train(&env, presets[k], first + (uint64_t)j);
            for (int i = 0; i < POINTS; i++) mean[k][i] += r.curve[i] / SEEDS;
            for (int i = POINTS / 2; i < POINTS; i++) lowest = fminf(lowest, r.curve[i]);
            kl[k] = fmaxf(kl[k], r.kl);
            ratio = fmaxf(ratio, r.ratio);
        }
        end[k] = (float)mean_of(mean[k] + POINTS * 3 / 4, POINTS / 4);
        printf("%-12s %11.1f %28.1f %10.3f %9.1f %10ld\n", names[k], (double)end[k], (double)lowest,
               (double)kl[k], (double)ratio, r.gradient_steps);
        fflush(stdout);
        chart_line(&c, names[k], x, mean[k], POINTS);
    }
    for (int i = 0; i < POINTS; i++) x[i] = (float)(STEPS_PER_POINT * (i + 1));
    chart_save(&c, "build/lessons/10_objectives.svg");
    float least = fminf(end[UNCLIPPED + 1], fminf(end[UNCLIPPED + 2], end[UNCLIPPED + 3]));
    claim(least > 400 && least > end[UNCLIPPED], "with any trust region the mean return ends above %.0f",
          400.0);
    claim(kl[UNCLIPPED] > 5 * kl[UNCLIPPED + 3], "without one the policy moves much further");
    claim(fmaxf(end[0], end[1]) < end[2] && end[2] < least,
          "one step per rollout learns slowly, faster if rollouts are short");
    return lesson_failures > 0;
}
