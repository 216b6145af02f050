/* 05_time_limits.c - terminated or truncated: the same last step, two different targets.

   An episode can end because the task did (the pole fell: terminated), or because a clock ran out
   (truncated). After termination no reward follows: the target of the last step is r. After truncation
   rewards would have followed, and the critic has to stand for them: the target is r + gamma V(s') (Pardo
   2018). Many programs keep one flag, `done`, for both, and so teach the critic that the world ends at the
   time limit, which no observation shows.

   The task: stay, and earn 1 per step for ever, which is worth 1 / (1 - gamma) = 10; or leave with 6 at once.
   Episodes are cut after 10 steps. You will see the critic with two flags reach 10, with one flag stay far
   below; and the policy that learns from the second one leave. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"

enum { LIMIT = 10, ENVS = 16, ITERATIONS = 150, STAY = 0, LEAVE = 1 };

static const float discount = 0.9f, leaving = 6;

typedef struct result {
    float value[ITERATIONS], stays[ITERATIONS]; /* V of the one state; the probability of staying */
} result;

/* Actor-critic with one state: a value V and two logits. The rollouts are LIMIT steps in ENVS environments.
   `merged` 1: a truncated step is said to be terminated. */
static void train(int merged, ppo_rng *rng, result *out) {
    float V = 0, logits[2] = {1, 0};
    for (int k = 0; k < ITERATIONS; k++) {
        float reward[LIMIT * ENVS], value[LIMIT * ENVS], next[LIMIT * ENVS], A[LIMIT * ENVS],
            target[LIMIT * ENVS];
        unsigned char terminated[LIMIT * ENVS], truncated[LIMIT * ENVS];
        int action[LIMIT * ENVS];
        for (int i = 0; i < LIMIT * ENVS; i++) { /* time-major: step i / ENVS of environment i % ENVS */
            action[i] = ppo_categorical_sample(logits, 2, 1, rng);
            reward[i] = action[i] == STAY ? 1 : leaving;
            value[i] = next[i] = V;
            terminated[i] = action[i] == LEAVE;
            truncated[i] = !terminated[i] && i / ENVS == LIMIT - 1;
            if (merged && truncated[i]) terminated[i] = 1, truncated[i] = 0;
        }
        must(ppo_gae(reward, value, next, terminated, truncated, LIMIT, ENVS, discount, 0.95f, A, target));
        float gradient[2] = {0}, mean_A = (float)mean_of(A, LIMIT * ENVS);
        V += 0.2f * ((float)mean_of(target, LIMIT * ENVS) - V);
        for (int i = 0; i < LIMIT * ENVS; i++) {
            float sample[2], weight = (A[i] - mean_A) / (LIMIT * ENVS);
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
    static result kept, merged;
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

    train(0, &rng, &kept);
    train(1, &rng, &merged);
    printf("after %d iterations      V   probability of staying (staying is worth %.0f, leaving %.0f)\n",
           ITERATIONS, 1 / (1 - (double)discount), (double)leaving);
    printf("  two flags          %6.2f   %.2f\n", (double)kept.value[ITERATIONS - 1],
           (double)kept.stays[ITERATIONS - 1]);
    printf("  one flag, `done`   %6.2f   %.2f\n", (double)merged.value[ITERATIONS - 1],
           (double)merged.stays[ITERATIONS - 1]);

    for (int k = 0; k < ITERATIONS; k++) x[k] = (float)k, exact[k] = 1 / (1 - discount);
    chart c = {.title = "What the critic learns of staying", .x_label = "iterations", .y_label = "V"};
    chart_line(&c, "two flags", x, kept.value, ITERATIONS);
    chart_line(&c, "one flag: done", x, merged.value, ITERATIONS);
    chart_line(&c, "true value", x, exact, ITERATIONS);
    chart_save(&c, "build/lessons/05_time_limits.svg");

    claim(fabsf(cut - 10) < 1e-4f, "a truncated step of a critic that is right has advantage 0");
    claim(fabsf(kept.value[ITERATIONS - 1] - 10) < 1 && kept.stays[ITERATIONS - 1] > 0.9f,
          "with two flags V nears the true value, and the policy stays");
    claim(merged.stays[ITERATIONS - 1] < 0.1f,
          "with one flag the policy leaves: it never sees what staying is worth");
    return lesson_failures > 0;
}
