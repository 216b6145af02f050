#include "../grade.h"
#include "returns.h"

#ifdef GRADE_STUDENT
static void answer(grade_case *c) {
    returns(floats(c, "reward"), bytes(c, "terminated"), integer(c, "steps"), number(c, "gamma"),
            number(c, "last_value"), floats(c, "g"));
}
#else

enum { MIDDLE, BOOTSTRAP, TERMINATED, LAST, ENDS };

static void make(grade_case *c, int part, int number, ppo_rng *rng) {
    int steps = number < 3 ? number + 2 : 2 + ppo_rng_below(rng, 40);
    float *reward = add_floats(c, "reward", steps, 1);
    unsigned char *terminated = add_bytes(c, "terminated", steps, 1);
    for (int t = 0; t < steps; t++) {
        reward[t] = number ? ppo_rng_normal(rng) : (float)(t + 1);
        terminated[t] = part == TERMINATED && ppo_rng_below(rng, 3) == 0;
    }
    if (part == TERMINATED) terminated[steps - 2] = 1, terminated[steps - 1] = 0;
    if (part == LAST) terminated[steps - 1] = 1;
    add_integer(c, "steps", steps);
    add_number(c, "gamma",
               part == ENDS ? (float)(number % 2)
               : number     ? ppo_rng_range(rng, 0.5f, 0.99f)
                            : 0.5f);
    add_number(c, "last_value", part == MIDDLE ? 0 : number ? ppo_rng_range(rng, 2, 5) : 10);
    add_output(c, "g", steps, 1);
}

/* With V = 0 and lambda = 1 the advantages of ppo_gae() are returns. */
static void solve(grade_case *c, int mistake) {
    int steps = integer(c, "steps"), last = steps - 1;
    float gamma = number(c, "gamma"), *g = floats(c, "g"), *reward = floats(c, "reward");
    float *value = (float *)calloc(2 * (size_t)steps, sizeof *value), *next_value = value + steps;
    unsigned char *terminated = bytes(c, "terminated");
    next_value[last] = number(c, "last_value");
    if (mistake == 1) terminated[last] = 0;
    if (mistake == 2) memset(terminated, 0, (size_t)steps);
    if (mistake == 3) next_value[last] = 0;
    if (mistake == 4) next_value[last] /= gamma;
    if (mistake == 5) gamma = 1;
    must(ppo_gae(reward, value, next_value, terminated, NULL, steps, 1, gamma, 1, g, NULL));
    for (int t = 0; t < steps; t++)
        if (mistake == 6) g[t] -= reward[t];
        else if (mistake == 7) g[t] *= powf(gamma, (float)t);
        else if (mistake == 8) g[t] = terminated[t] ? 0 : g[t];
        else if (mistake == 9) g[t] *= gamma;
    free(value);
}

static const grade_exercise exercise = {
    .file = "returns.c",
    .part = {{3, 6, "in the middle of an episode"},
             {2, 6, "where the rollout stops in the middle of an episode (last_value)"},
             {3, 8, "where terminated[t] is 1"},
             {1, 6, "where the last step terminated"},
             {1, 4, "where gamma is 0 or 1"}},
    .make = make,
    .solve = solve,
    .mistake =
        {
            "last_value counts although the last step terminated.",
            "The rewards of the next episode count for the one before: terminated is not looked at.",
            "last_value is left out.",
            "last_value is not discounted: it is the value one step after the last reward.",
            "gamma is left out.",
            "The reward of the step itself is left out: G[t] begins with r[t].",
            "Rewards are discounted by their distance from the first step, not from step t.",
            "The reward of the last step of an episode is left out.",
            "The reward of the step itself is discounted: r[t] counts in full, only later ones are "
            "discounted.",
        },
};
#endif
