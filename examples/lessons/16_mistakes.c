/* 16_mistakes.c - common mistakes, each beside its remedy.

   CartPole is easy; it must be made harder for mistakes to show. Here its rewards may be a thousand times as
   large or as small, and its observations in odd units (the cart's position in micrometres). For a person
   nothing has changed; for the optimizer it has. Each pair of rows is a mistake and what helps:
       raw advantages, small rewards   normalize them per minibatch, or the entropy bonus is all that counts
       large rewards                   divide them by the deviation of the return: max_grad_norm limits the
                                       gradients of value and policy together; a large value loss uses it up
       observations in odd units       normalize them by running statistics
       a clip of 0.9, and 30 epochs    a clip of 0.2, and 10 epochs
       no clip, and 30 epochs          stop the epochs when the KL exceeds 0.015 (1.5 target_kl)
   You will see the score of each (as in lesson 15) over five seeds, and the largest KL of an update. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "../envs/cartpole.h"

#include "lesson.h"
#include "study.h"

enum { SEEDS = 5, ROWS = 10, STEPS = 30720 };

static const struct {
    const char *name, *settings;
    float reward, unit; /* rewards are multiplied by this, the cart's position by that */
} rows[ROWS] = {{"raw advantages", "entropy_coef=0.01 normalize_advantage=0", 1e-3f, 1},
                {"  normalized", "entropy_coef=0.01", 1e-3f, 1},
                {"large rewards", "", 1000, 1},
                {"  normalized", "normalize_reward=1", 1000, 1},
                {"odd units", "", 1, 1e6f},
                {"  normalized", "normalize_obs=1", 1, 1e6f},
                {"clip 0.9, 30 epochs", "clip_low=0.9 clip_high=0.9 epochs=30", 1, 1},
                {"  clip 0.2, 10 epochs", "", 1, 1},
                {"no clip, 30 epochs", "objective=unclipped epochs=30", 1, 1},
                {"  stopped by KL", "objective=unclipped epochs=30 target_kl=0.01", 1, 1}};

static ppo_env original;
static float reward_scale, unit;

static void scaled_reset(void *state, ppo_rng *rng, float *obs) {
    original.reset(state, rng, obs);
    obs[0] *= unit;
}

static void scaled_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    original.step(state, rng, action, obs, out);
    obs[0] *= unit;
    out->reward *= reward_scale;
}

int main(int argc, char **argv) {
    uint64_t first = lesson_seed(argc, argv) * 100;
    float mean[ROWS], low[ROWS], high[ROWS], kl[ROWS] = {0};
    const char *names[ROWS];
    original = cartpole_env();
    ppo_env env = original;
    env.reset = scaled_reset;
    env.step = scaled_step;
    printf("%-20s %16s   largest KL of an update\n", "", "score");
    for (int k = 0; k < ROWS; k++) {
        float score[SEEDS];
        reward_scale = rows[k].reward;
        unit = rows[k].unit;
        names[k] = rows[k].name;
        for (int j = 0; j < SEEDS; j++) {
            char text[256];
            snprintf(text, sizeof text, "num_envs=8 rollout_steps=128 learning_rate=1e-3 %s",
                     rows[k].settings);
            study s = study_run(&env, text, STEPS, first + (uint64_t)j);
            score[j] = 100 * ((float)mean_of(s.curve, STUDY_POINTS) / reward_scale - 9) / 491;
            kl[k] = fmaxf(kl[k], s.kl);
        }
        double half = interval_of(score, SEEDS);
        mean[k] = (float)mean_of(score, SEEDS);
        low[k] = mean[k] - (float)half, high[k] = mean[k] + (float)half;
        printf("%-20s %7.1f +- %5.1f %14.3f\n", names[k], (double)mean[k], half, (double)kl[k]);
        fflush(stdout);
    }
    chart c = {.title = "Mistakes and their remedies, 95 % intervals",
               .x_label = "0: learned nothing, 100: solved at once",
               .rows = names,
               .row_count = ROWS,
               .x = {-5, 105}};
    chart_rows(&c, NULL, mean, low, high, ROWS);
    chart_save(&c, "build/lessons/16_mistakes.svg");
    for (int k = 0; k < ROWS; k += 2)
        claim(mean[k + 1] > mean[k], "%s: %.0f, with the remedy %.0f", names[k], (double)mean[k],
              (double)mean[k + 1]);
    return lesson_failures > 0;
}
