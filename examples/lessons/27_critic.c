/* 27_critic.c - what the critic is for, and what does without one.

   Two heads, one task: the actor chooses tokens, the critic expects rewards, and is thrown away after the
   training. It serves as a baseline (lesson 2), and divides the reward among tokens (lesson 26). It costs a
   model of its own, which has to be trained first: until it knows something its advantages are returns.
   Others use the policy's own samples as the baseline: the mean of the other samples of the prompt (RLOO,
   Ahmadian 2024; GRPO, Shao 2024), or only whiten the returns over the batch (REINFORCE++, Hu 2025).

   All ways get the same number of samples. You will see the true reward after some and after more iterations,
   over four seeds, and how much memory a run takes. On words of so few tokens the ways end near each other:
   what the critic saves in noise grows with the length of a sequence, what it costs does not shrink. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "../companions/ppo_hub.h"

#include "lesson.h"
#include "letters.h"

enum { WAYS = 5, SEEDS = 4, EARLY = 8, ITERATIONS = 24 };

static const struct {
    const char *name, *settings;
} ways[WAYS] = {{"GAE, critic", "advantage=gae"},
                {"GAE, frozen critic", "advantage=gae critic_learning_rate=1e-12"},
                {"sequence, critic", "advantage=sequence"},
                {"leave one out", "advantage=leave-one-out samples=8 prompts=8"},
                {"whitened returns", "advantage=return"}};

int main(int argc, char **argv) {
    uint64_t first_seed = lesson_seed(argc, argv) * 10;
    float early[WAYS][SEEDS], late[WAYS][SEEDS], mean[2][WAYS], low[2][WAYS], high[2][WAYS],
        variance[WAYS] = {0};
    double memory[WAYS];
    const char *names[WAYS];
    printf("                       true reward after %2d    after %d iterations   memory   explained\n"
           "                       (mean of %d seeds)                              MiB    variance\n",
           EARLY, ITERATIONS, SEEDS);
    for (int k = 0; k < WAYS; k++) {
        names[k] = ways[k].name;
        for (int j = 0; j < SEEDS; j++) {
            uint64_t seed = first_seed + (uint64_t)j;
            ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
            ppo_tokens prompts = {0};
            ppo_lm *first = first_model(seed), *policy = NULL;
            ppo_rlhf *rlhf = NULL;
            ppo_rlhf_config config = settings(seed);
            ppo_rlhf_progress p;
            must(ppo_settings_set_all(ppo_rlhf_settings(), &config, ways[k].settings));
            add_words(256, &rng, &prompts);
            must(ppo_lm_copy(first, 0, &policy));
            must(ppo_rlhf_create(policy, first, NULL, &prompts, people, NULL, &config, &rlhf));
            for (int i = 0; i < ITERATIONS; i++) {
                must(ppo_rlhf_iterate(rlhf, &p));
                if (i == EARLY - 1) early[k][j] = worth(policy, first, seed).reward;
            }
            late[k][j] = worth(policy, first, seed).reward;
            variance[k] += p.explained_variance / SEEDS;
            ppo_memory m = ppo_rlhf_memory(rlhf);
            memory[k] = (m.weights + m.training + m.activations + m.sampling + m.samples) / (1 << 20);
            ppo_rlhf_free(rlhf);
            ppo_lm_free(policy);
            ppo_lm_free(first);
            ppo_tokens_free(&prompts);
        }
        for (int when = 0; when < 2; when++) {
            const float *x = when ? late[k] : early[k];
            mean[when][k] = (float)mean_of(x, SEEDS);
            low[when][k] = mean[when][k] - (float)interval_of(x, SEEDS);
            high[when][k] = mean[when][k] + (float)interval_of(x, SEEDS);
        }
        char explained[16] = "-"; /* there is no critic */
        if (isfinite(variance[k])) snprintf(explained, sizeof explained, "%.2f", (double)variance[k]);
        printf("%-20s %12.2f +- %.2f %16.2f +- %.2f %10.1f %10s\n", names[k], (double)mean[0][k],
               interval_of(early[k], SEEDS), (double)mean[1][k], interval_of(late[k], SEEDS), memory[k],
               explained);
        fflush(stdout);
    }
    chart c = {.title = "True reward, mean of 4 seeds, 95 % intervals",
               .x_label = "true reward",
               .rows = names,
               .row_count = WAYS};
    chart_rows(&c, "after 8 iterations", mean[0], low[0], high[0], WAYS);
    chart_rows(&c, "after 24 iterations", mean[1], low[1], high[1], WAYS);
    chart_save(&c, "build/lessons/27_critic.svg");
    for (int k = 0; k < WAYS; k++)
        claim(mean[1][k] > 0.3f, "%s: learns, from about -0.2 to %.2f", names[k], (double)mean[1][k]);
    claim(variance[0] > variance[1] + 0.1f,
          "a critic that learns explains variance, one that does not, none");
    claim(memory[3] < 0.85 * memory[0], "without a critic a run takes %.0f %% of the memory",
          100 * memory[3] / memory[0]);
    return lesson_failures > 0;
}
