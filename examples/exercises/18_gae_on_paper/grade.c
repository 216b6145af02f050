#include "../grade.h"
#include "gae_on_paper.h"

#ifdef GRADE_STUDENT
static void answer(grade_case *c) {
    memcpy(floats(c, "delta"), delta, sizeof delta);
    memcpy(floats(c, "advantage"), advantage, sizeof advantage);
    memcpy(floats(c, "value_target"), value_target, sizeof value_target);
}
#else

enum { DELTA, ADVANTAGE, TARGET };

static void make(grade_case *c, int part, int number, ppo_rng *rng) {
    static const float reward[STEPS] = {1, 0, 2, 3, 4}, value[STEPS] = {2, 4, 2, 1, 6},
                       next[STEPS] = {4, 2, 8, 6, 10};
    (void)number, (void)rng;
    memcpy(add_floats(c, "reward", STEPS, 1), reward, sizeof reward);
    memcpy(add_floats(c, "value", STEPS, 1), value, sizeof value);
    memcpy(add_floats(c, "next_value", STEPS, 1), next, sizeof next);
    add_bytes(c, "terminated", STEPS, 1)[4] = 1, add_bytes(c, "truncated", STEPS, 1)[2] = 1;
    (part == DELTA ? add_output : add_unused_output)(c, "delta", STEPS, 1);
    (part == ADVANTAGE ? add_output : add_unused_output)(c, "advantage", STEPS, 1);
    (part == TARGET ? add_output : add_unused_output)(c, "value_target", STEPS, 1);
}

static void solve(grade_case *c, int mistake) {
    float *reward = floats(c, "reward"), *value = floats(c, "value"), *next = floats(c, "next_value"),
          gamma = 0.5f, lambda = 0.5f;
    unsigned char *terminated = bytes(c, "terminated"), *truncated = bytes(c, "truncated");
    if (mistake == 1) terminated[2] = 1, truncated[2] = 0;
    if (mistake == 2) terminated[4] = 0;
    if (mistake == 3) truncated[2] = 0;
    if (mistake == 4) lambda = 1;
    if (mistake == 5) gamma = 1;
    if (mistake == 6) lambda = 1, gamma = 1;
    if (mistake == 8) next[2] = value[3];
    must(ppo_gae(reward, value, next, terminated, truncated, STEPS, 1, gamma, 0, floats(c, "delta"),
                 floats(c, "value_target")));
    must(ppo_gae(reward, value, next, terminated, truncated, STEPS, 1, gamma, lambda, floats(c, "advantage"),
                 floats(c, "value_target")));
    for (int t = 0; t < STEPS; t++) {
        if (mistake == 7) floats(c, "value_target")[t] = floats(c, "advantage")[t];
        if (mistake == 9) floats(c, "delta")[t] = reward[t] + (terminated[t] ? 0 : gamma * next[t]);
    }
}

static const grade_exercise exercise = {
    .file = "gae_on_paper.c",
    .on_paper = 1,
    .part = {{4, 1, "in the TD errors"}, {4, 1, "in the advantages"}, {2, 1, "in value_target"}},
    .make = make,
    .solve = solve,
    .mistake =
        {
            "Step 2 is treated as terminated: after a time limit next_value still counts.",
            "Step 4 is treated as if the episode went on: after it no value counts.",
            "The advantage of step 3, another episode, reaches back over step 2.",
            "lambda is left out.",
            "gamma is left out.",
            "gamma and lambda are left out.",
            "value_target is the advantage; the value has to be added.",
            "At step 2 the value of step 3 is used, which belongs to another episode.",
            "The value is not subtracted.",
        },
    .tolerance = 1e-3,
};
#endif
