/* 05_time_limits.c - terminated or truncated: the same last step, two different targets.

   An episode can end because the task did (the pole fell: terminated), or because a clock ran out
   (truncated). After termination no reward follows: the target of the last step is r. After truncation
   rewards would have followed, and the critic has to stand for them: the target is r + gamma V(s') (Pardo
   2018). Many programs keep one flag, `done`, for both, and so teach the critic that the world ends at the
   time limit, which no observation shows.

   The task: stay, and earn 1 per step for ever, which is worth 1 / (1 - gamma) = 10; or leave with 6 at
   once. An episode is cut after 10 steps; a rollout has 16, and its end is neither of the two. You will see
   what the critic learns of a policy that stays: 10 with two flags, less than half of it with one; and the
   policy that learns from the second critic leave. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"

enum { LIMIT = 10, STEPS = 16, ENVS = 16, SAMPLES = STEPS * ENVS, ITERATIONS = 300, STAY = 0, LEAVE = 1 };

static const float discount = 0.9f, leaving = 6;

typedef struct result {
    float value[ITERATIONS], stays[ITERATIONS]; /* V of the one state; the probability of staying */
} result;

/* Actor-critic with one state: a value V and two logits. `merged` 1: a truncated step is said to be terminated.
   `held` 1: the policy stays, and only the critic learns. */
static void train(int merged, int held, ppo_rng *rng, result *out) {
    float V = 0, logits[2] = {held ? 50 : 1, 0};
    int age[ENVS] = {0};
    for (int k = 0; k < ITERATIONS; k++) {
        float reward[SAMPLES], value[SAMPLES], next[SAMPLES], A[SAMPLES], target[SAMPLES];
        unsigned char terminated[SAMPLES], truncated[SAMPLES];
        int action[SAMPLES];
        for (int i = 0; i < SAMPLES; i++) { /* time-major: step i / ENVS of environment i % ENVS */
            action[i] = ppo_categorical_sample(logits, 2, 1, rng);
            reward[i] = action[i] == STAY ? 1 : leaving;
            value[i] = next[i] = V;
            terminated[i] = action[i] == LEAVE;
            truncated[i] = ++age[i % ENVS] == LIMIT && !terminated[i];
            if (terminated[i] || truncated[i]) age[i % ENVS] = 0;
            if (merged && truncated[i]) terminated[i] = 1, truncated[i] = 0;
        }
        must(ppo_gae(reward, value, next, terminated, truncated, STEPS, ENVS, discount, 0.95f, A, target));
        float gradient[2] = {0}, mean_A = (float)mean_of(A, SAMPLES);
        V += 0.2f * ((float)mean_of(target, SAMPLES) - V);
        for (int i = 0; i < SAMPLES && !held; i++) {
            float sample[2], weight = (A[i] - mean_A) / SAMPLES;
            must(ppo_token_logp_backward(logits, &action[i], &weight, NULL, 1, 2, 1, sample));
            for (int a = 0; a < 2; a++) gradient[a] += sample[a];
        }
        for (int a = 0; a < 2; a++) logits[a] += 0.5f * gradient[a];
        out->value[k] = V;
        float logp;
        int stay = STAY;
        must(ppo_token_logp(logits, &stay, 1, 2, 1, &logp, NULL));
        out->stays[k] = expf(logp);
    }
}

int main(int argc, char **argv) {
    static result kept, merged, kept_held, merged_held;
    float x[ITERATIONS], exact[ITERATIONS];
    ppo_rng rng = ppo_rng_stream(lesson_seed(argc, argv), PPO_STREAM_USER, 0);

    /* One step, by hand: reward 1, V 10 before and after it. */
    float one = 1, ten = 10, A, target;
    unsigned char yes = 1;
    printf("a last step with reward 1, V = 10:    advantage   target\n");
    must(ppo_gae(&one, &ten, &ten, &yes, NULL, 1, 1, discount, 0.95f, &A, &target));
    printf("  terminated                          %9.1f %8.1f\n", (double)A, (double)target);
    must(ppo_gae(&one, &ten, &ten, NULL, &yes, 1, 1, discount, 0.95f, &A, &target));
    printf("  truncated                           %9.1f %8.1f\n\n", (double)A, (double)target);
    float cut = target;

    train(0, 1, &rng, &kept_held);
    train(1, 1, &rng, &merged_held);
    printf("V of a policy that stays: %.2f with two flags, %.2f with one\n\n",
           (double)kept_held.value[ITERATIONS - 1], (double)merged_held.value[ITERATIONS - 1]);
    train(0, 0, &rng, &kept);
    train(1, 0, &rng, &merged);
    double still = pow((double)kept.stays[ITERATIONS - 1], LIMIT),
           still_merged = pow((double)merged.stays[ITERATIONS - 1], LIMIT);
    printf("after %d iterations      V   stays until the limit (staying is worth %.0f, leaving %.0f)\n",
           ITERATIONS, 1 / (1 - (double)discount), (double)leaving);
    printf("  two flags          %6.2f   %3.0f %%\n", (double)kept.value[ITERATIONS - 1], 100 * still);
    printf("  one flag, `done`   %6.2f   %3.0f %%\n", (double)merged.value[ITERATIONS - 1],
           100 * still_merged);

    for (int k = 0; k < ITERATIONS; k++) x[k] = (float)k, exact[k] = 1 / (1 - discount);
    chart c = {
        .title = "What the critic learns of a policy that stays", .x_label = "iterations", .y_label = "V"};
    chart_line(&c, "two flags", x, kept_held.value, ITERATIONS);
    chart_line(&c, "one flag: done", x, merged_held.value, ITERATIONS);
    chart_line(&c, "true value", x, exact, ITERATIONS);
    chart_save(&c, "build/lessons/05_time_limits.svg");

    claim(fabsf(cut - 10) < 1e-4f, "a truncated step of a critic that is right has advantage 0");
    claim(fabsf(kept_held.value[ITERATIONS - 1] - 10) < 0.5f && merged_held.value[ITERATIONS - 1] < 5,
          "staying is worth 10; the critic learns that from two flags, and less than half of it from one");
    claim(still > 0.9 && still_merged < 0.5,
          "so with two flags the policy stays; with one it leaves before the limit");
    return lesson_failures > 0;
}
