/* make_which_run.c - records the runs of exercise 16: CartPole, each with one mistake or none.

   cc -O2 -I. tests/golden/make_which_run.c -lm -o build/make_which_run && build/make_which_run
   writes examples/exercises/16_which_run/run_a.csv to run_h.csv. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "examples/envs/cartpole.h"

#include <stdio.h>
#include <stdlib.h>

enum { RUNS = 8, ITERATIONS = 48, EVERY = 2 };

static const struct {
    char run;
    float reward_scale;
    const char *settings;
} list[RUNS] = {
    {'a', 1, "entropy_coef=0.5"},
    {'b', 1, "value_coef=0"},
    {'c', 1, ""},
    {'d', 1000, ""},
    {'e', 1, "learning_rate=0.05"},
    {'f', 1, "gamma=0.5"},
    {'g', 1, "clip_low=0.002 clip_high=0.002"},
    {'h', 1, "objective=unclipped epochs=40"},
};

static float scale;

static void step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    cartpole_step(state, rng, action, obs, out);
    out->reward *= scale;
}

static void must(ppo_status status) {
    if (status == PPO_OK) return;
    fprintf(stderr, "%s\n", ppo_last_error());
    exit(1);
}

int main(void) {
    for (int k = 0; k < RUNS; k++) {
        ppo_env env = cartpole_env();
        ppo_config cfg = ppo_config_default();
        ppo_agent *agent = NULL;
        ppo_trainer *trainer = NULL;
        char path[128];
        env.step = step, scale = list[k].reward_scale;
        must(ppo_config_set_all(
            &cfg, "num_envs=16 rollout_steps=128 epochs=8 minibatch_size=256 learning_rate=1e-3 "
                  "entropy_coef=0.005 learning_rate_schedule=constant"));
        must(ppo_config_set_all(&cfg, list[k].settings));
        cfg.total_steps = (int64_t)ITERATIONS * 16 * 128, cfg.seed = 20 + (uint64_t)k;
        must(ppo_agent_create(&env, &cfg, &agent));
        must(ppo_trainer_create(&env, &cfg, agent, &trainer));
        snprintf(path, sizeof path, "examples/exercises/16_which_run/run_%c.csv", list[k].run);
        FILE *file = fopen(path, "w");
        if (!file) return 1;
        fprintf(file, "time/total_timesteps,rollout/ep_len_mean,rollout/ep_rew_mean,train/approx_kl,train/"
                      "clip_fraction,"
                      "train/entropy,train/explained_variance,train/value_loss\n");
        for (int i = 1; i <= ITERATIONS; i++) {
            ppo_progress p;
            must(ppo_trainer_iterate(trainer, &p));
            if (i % EVERY) continue;
            fprintf(file, "%d,%.1f,%.4g,%.3g,%.3f,%.3f,%.3f,%.4g\n", (int)p.steps, (double)p.mean_length,
                    (double)p.mean_return, (double)p.last_approx_kl, (double)p.clip_fraction,
                    (double)p.entropy, (double)p.explained_variance, (double)p.value_loss);
        }
        fclose(file);
        ppo_trainer_free(trainer), ppo_agent_free(agent);
    }
    return 0;
}
