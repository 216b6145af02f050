/* 17_continuous.c - continuous actions: a Gaussian, its deviation, and what happens at the edge of the box.

   For numbers as actions the policy is a Gaussian: a network gives the mean, and one parameter per number
   the logarithm of the deviation, which learning makes smaller. A density takes the place of a probability:
   it may be above 1, and its logarithm positive. An action outside the box is clipped by the environment,
   not by the formula. Or it is squashed into the box: a = tanh(u), u Gaussian; then the density needs the
   correction log pi(a) = log pi(u) - log |da / du| (Haarnoja 2018, appendix C).

   You will see the squashed density against a histogram of actions, with the correction and without it, and
   why PPO need not mind: in the ratio the correction cancels. Then Pendulum learns to swing up, and its
   deviation falls. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "../envs/pendulum.h"

#include "lesson.h"

enum { SAMPLES = 100000, BINS = 40, ITERATIONS = 200 };

int main(int argc, char **argv) {
    static float a[BINS], histogram[BINS], density[BINS], wrong[BINS], spread[ITERATIONS], steps[ITERATIONS];
    uint64_t seed = lesson_seed(argc, argv);
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    const float mean = 0.5f, log_std = logf(0.8f), newer = 0.6f;
    double total = 0, total_wrong = 0, error = 0, largest = 0;

    for (int i = 0; i < SAMPLES; i++) { /* actions between -1 and 1 */
        float u, action;
        ppo_gaussian_sample(&mean, &log_std, 1, &rng, &u);
        ppo_squash(&u, 1, -1, 1, &action);
        int bin = (int)((action + 1) / 2 * BINS);
        histogram[bin < BINS ? bin : BINS - 1] += BINS / 2.0f / SAMPLES;
    }
    for (int i = 0; i < BINS; i++) {
        float u, logp, new_logp, log_det;
        a[i] = 2 * ((float)i + 0.5f) / BINS - 1;
        u = atanhf(a[i]);
        must(ppo_gaussian_logp(&mean, &log_std, &u, 1, 1, &logp, NULL));
        must(ppo_gaussian_logp(&newer, &log_std, &u, 1, 1, &new_logp, NULL));
        ppo_squash_log_det(&u, 1, 1, -1, 1, &log_det);
        density[i] = expf(logp - log_det);
        wrong[i] = expf(logp);
        total += (double)density[i] * 2 / BINS, total_wrong += (double)wrong[i] * 2 / BINS;
        error += fabs((double)(density[i] - histogram[i])) * 2 / BINS;
        float with = expf((new_logp - log_det) - (logp - log_det)), without = expf(new_logp - logp);
        largest = fmax(largest, fabs((double)(with / without - 1)));
    }
    printf("sum of the density over the box: %.3f with the correction, %.3f without\n", total, total_wrong);
    printf("ratios of two policies with and without it differ by at most %.0e\n\n", largest);

    ppo_env env = pendulum_env();
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_progress p;
    must(ppo_config_set_all(&cfg,
                            "num_envs=8 rollout_steps=256 gamma=0.9 learning_rate=1e-3 minibatch_size=128"));
    cfg.total_steps = 120000;
    cfg.seed = seed;
    must(ppo_agent_create(&env, &cfg, &agent));
    must(ppo_trainer_create(&env, &cfg, agent, &trainer));
    ppo_evaluation before = ppo_evaluate(agent, &env, 20, seed), level;
    must(before.status);
    int n = 0;
    printf("   steps   return   deviation   entropy\n");
    for (; !ppo_trainer_done(trainer) && n < ITERATIONS; n++) {
        must(ppo_trainer_iterate(trainer, &p));
        steps[n] = (float)p.steps, spread[n] = p.std;
        if (n % 8 == 0 || ppo_trainer_done(trainer))
            printf("%8lld %8.0f %11.2f %9.2f\n", (long long)p.steps, (double)p.mean_return, (double)p.std,
                   (double)p.entropy);
    }
    level = ppo_evaluate(agent, &env, 20, seed);
    must(level.status);
    printf("mean return of the means, without noise: %.0f before, %.0f after\n", (double)before.mean_return,
           (double)level.mean_return);

    chart c = {.title = "Density of a squashed Gaussian", .x_label = "action", .y_label = "density"};
    chart_points(&c, "histogram of actions", a, histogram, BINS);
    chart_line(&c, "with correction", a, density, BINS);
    chart_line(&c, "without", a, wrong, BINS);
    chart_save(&c, "build/lessons/17_continuous.svg");
    chart d = {
        .title = "Pendulum: the policy's deviation", .x_label = "steps", .y_label = "standard deviation"};
    chart_line(&d, NULL, steps, spread, n);
    chart_save(&d, "build/lessons/17_continuous_std.svg");

    claim(fabs(total - 1) < 0.02 && fabs(total_wrong - 1) > 0.1 && error < 0.05,
          "only the corrected density is one");
    claim(largest < 1e-4, "in the ratio the correction cancels");
    claim(spread[n - 1] < spread[0], "learning makes the deviation smaller: %.2f to %.2f", (double)spread[0],
          (double)spread[n - 1]);
    claim(level.mean_return > -400, "the pendulum swings up");
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    return lesson_failures > 0;
}
