/* 16_mistakes.c - common mistakes, each beside its remedy, and two that are none.

   CartPole is easy; it must be made harder for mistakes to show. Here its rewards may be a thousand times as
   large, and its observations in odd units (the cart's position in micrometres). For a person
   nothing has changed; for the optimizer it has. Below each mistake stands what helps, one change at a time:
       large rewards                   divide them by the deviation of the return; or do not clip the gradient:
                                       its norm is that of policy and critic together, and the critic takes all
       observations in odd units       normalize them by running statistics
       a clip of 0.9 with 30 epochs    a clip of 0.2 with as many: many epochs alone are no mistake
       no clip with 30 epochs          stop the epochs when the KL exceeds 0.015 (1.5 target_kl)
   You will see the score of each (as in lesson 15) over eight seeds, and the largest KL of an update. That
   a row is better is claimed where the interval of the difference, seed by seed, does not contain 0. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "../envs/cartpole.h"

#include "lesson.h"
#include "study.h"

enum { SEEDS = 8, ROWS = 11, STEPS = 30720, NONE = -1, NO_CLIP = 8, STOPPED = 9 };

static const struct {
    const char *name, *settings;
    float reward, unit; /* rewards are multiplied by this, the cart's position by that */
    int mistake;        /* the row that it must beat */
} rows[ROWS] = {{"as usual", "", 1, 1, NONE},
                {"large rewards", "", 1000, 1, NONE},
                {"  rewards divided", "normalize_reward=1", 1000, 1, 1},
                {"  gradient not clipped", "max_grad_norm=0", 1000, 1, 1},
                {"odd units", "", 1, 1e6f, NONE},
                {"  normalized", "normalize_obs=1", 1, 1e6f, 4},
                {"clip 0.9, 30 epochs", "clip_low=0.9 clip_high=0.9 epochs=30", 1, 1, NONE},
                {"  clip 0.2, 30 epochs", "epochs=30", 1, 1, 6},
                {"no clip, 30 epochs", "objective=unclipped epochs=30", 1, 1, NONE},
                {"  stopped by KL", "objective=unclipped epochs=30 target_kl=0.01", 1, 1, NONE},
                {"clip 0.5", "clip_low=0.5 clip_high=0.5", 1, 1, NONE}};

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
    static float score[ROWS][SEEDS], kl[ROWS], bad[3][ROWS], good[3][ROWS]; /* mean and interval */
    const char *names[ROWS];
    original = cartpole_env();
    ppo_env env = original;
    env.reset = scaled_reset;
    env.step = scaled_step;
    printf("%-22s %16s   largest KL of an update\n", "", "score");
    for (int k = 0; k < ROWS; k++) {
        reward_scale = rows[k].reward;
        unit = rows[k].unit;
        names[k] = rows[k].name;
        for (int j = 0; j < SEEDS; j++) {
            char text[256];
            snprintf(text, sizeof text, "num_envs=8 rollout_steps=128 learning_rate=1e-3 %s",
                     rows[k].settings);
            study s = study_run(&env, text, STEPS, first + (uint64_t)j);
            score[k][j] = 100 * ((float)mean_of(s.curve, STUDY_POINTS) / reward_scale - 9) / 491;
            kl[k] = fmaxf(kl[k], s.kl);
        }
        double half = interval_of(score[k], SEEDS), mean = mean_of(score[k], SEEDS);
        int remedy = rows[k].mistake != NONE || k == 0 || k >= STOPPED;
        for (int i = 0; i < 3; i++) {
            float at = (float)(mean + (i - 1) * half);
            (remedy ? good : bad)[i][k] = at, (remedy ? bad : good)[i][k] = NAN;
        }
        printf("%-22s %7.1f +- %5.1f %14.3f\n", names[k], mean, half, (double)kl[k]);
        fflush(stdout);
    }
    chart c = {.title = "Mistakes and their remedies, 95 % intervals",
               .x_label = "0: learned nothing, 100: solved at once",
               .rows = names,
               .row_count = ROWS,
               .x = {-5, 105}};
    chart_rows(&c, "mistakes", bad[1], bad[0], bad[2], ROWS);
    chart_rows(&c, "remedies, and no mistakes", good[1], good[0], good[2], ROWS);
    chart_save(&c, "build/lessons/16_mistakes.svg");
    for (int k = 0; k < ROWS; k++) {
        int than = rows[k].mistake;
        if (than == NONE) continue;
        claim(better_by(score[k], score[than], SEEDS) > 0, "%s: %.0f,%s: %.0f", names[than],
              mean_of(score[than], SEEDS), names[k] + 1, mean_of(score[k], SEEDS));
    }
    claim(kl[STOPPED] < 0.1f * kl[NO_CLIP], "%s: a KL of %.1f;%s: %.2f", names[NO_CLIP], (double)kl[NO_CLIP],
          names[STOPPED] + 1, (double)kl[STOPPED]);
    claim(better_by(score[0], score[7], SEEDS) < 0 && better_by(score[0], score[ROWS - 1], SEEDS) < 0,
          "30 epochs with a clip of 0.2, and a clip of 0.5 with 10, are not worse than chance explains");
    return lesson_failures > 0;
}
