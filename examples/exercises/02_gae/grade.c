#include "../grade.h"
#include "gae.h"

#ifdef GRADE_STUDENT
static void answer(grade_case *c) {
    gae(floats(c, "reward"), floats(c, "value"), floats(c, "next_value"), bytes(c, "terminated"),
        bytes(c, "truncated"), integer(c, "steps"), integer(c, "envs"), number(c, "gamma"),
        number(c, "lambda"), floats(c, "advantage"), floats(c, "value_target"));
}
#else

enum { MIDDLE, ENVS, TERMINATED, TRUNCATED, TARGET };

static void make(grade_case *c, int part, int number, ppo_rng *rng) {
    int steps = number < 3 ? number + 2 : 2 + ppo_rng_below(rng, 20);
    int envs = part == ENVS ? 2 + ppo_rng_below(rng, 3) : 1, n = steps * envs;
    float *reward = add_floats(c, "reward", steps, envs), *value = add_floats(c, "value", steps, envs);
    float *next_value = add_floats(c, "next_value", steps, envs);
    unsigned char *terminated = add_bytes(c, "terminated", steps, envs);
    unsigned char *truncated = add_bytes(c, "truncated", steps, envs);
    for (int i = 0; i < n; i++) reward[i] = ppo_rng_normal(rng), value[i] = ppo_rng_normal(rng);
    for (int i = 0; i < n; i++) {
        int ends = ppo_rng_below(rng, 3) == 0 || i / envs == steps - 2;
        terminated[i] = ends && part == TERMINATED;
        truncated[i] = ends && part == TRUNCATED;
        next_value[i] =
            i + envs < n && !terminated[i] && !truncated[i] ? value[i + envs] : ppo_rng_range(rng, 1, 3);
    }
    add_integer(c, "steps", steps), add_integer(c, "envs", envs);
    add_number(c, "gamma", ppo_rng_range(rng, 0.7f, 0.99f));
    add_number(c, "lambda",
               part == MIDDLE && number > 4 ? (float)(number % 2) : ppo_rng_range(rng, 0.5f, 0.95f));
    (part == TARGET ? add_unused_output : add_output)(c, "advantage", steps, envs);
    (part == TARGET ? add_output : add_unused_output)(c, "value_target", steps, envs);
}

/* All arrays of the case: [rows][cols] becomes [cols][rows]. */
static void transpose(grade_case *c, int rows, int cols) {
    for (int k = 0; k < c->count; k++) {
        grade_array *a = &c->array[k];
        size_t n = grade_length(a), size = a->kind == 'b' ? 1 : 4;
        if (n != (size_t)(rows * cols)) continue;
        char *old = (char *)malloc(n * size);
        if (!old) grade_give_up("no memory for", a->name);
        memcpy(old, a->data, n * size);
        for (size_t i = 0; i < n; i++)
            memcpy((char *)a->data + (i % (size_t)cols * (size_t)rows + i / (size_t)cols) * size,
                   old + i * size, size);
        free(old);
    }
}

static void solve(grade_case *c, int mistake) {
    int steps = integer(c, "steps"), envs = integer(c, "envs"), n = steps * envs;
    float *reward = floats(c, "reward"), *value = floats(c, "value"), *next_value = floats(c, "next_value");
    unsigned char *terminated = bytes(c, "terminated"), *truncated = bytes(c, "truncated");
    float gamma = number(c, "gamma"), lambda = number(c, "lambda"), *advantage = floats(c, "advantage");
    float *target = floats(c, "value_target");
    for (int i = 0; i < n; i++) {
        if (mistake == 1) terminated[i] |= truncated[i], truncated[i] = 0;
        if (mistake == 2) truncated[i] |= terminated[i], terminated[i] = 0;
        if (mistake == 3 && truncated[i]) truncated[i] = 0;
        if (mistake == 4) terminated[i] = 0;
        if (mistake == 7 && i + envs < n) next_value[i] = value[i + envs];
    }
    if (mistake == 5) lambda = 1;
    if (mistake == 6) lambda = 0;
    if (mistake == 8) lambda /= gamma;
    if (mistake == 11) steps = n, envs = 1;
    if (mistake == 12) transpose(c, envs, steps);
    lambda = lambda > 1 ? 1 : lambda;
    must(ppo_gae(reward, value, next_value, terminated, truncated, steps, envs, gamma, lambda, advantage,
                 target));
    for (int i = 0; i < n; i++)
        if (mistake == 9) target[i] = advantage[i];
        else if (mistake == 10) target[i] = advantage[i] + next_value[i];
    if (mistake == 12) transpose(c, steps, envs);
    for (int e = 1; e < envs && mistake == 13; e++) {
        float carried = advantage[e - 1];
        for (int t = steps - 1; t >= 0 && !terminated[t * envs + e] && !truncated[t * envs + e]; t--)
            advantage[t * envs + e] += carried *= gamma * lambda;
    }
}

static const grade_exercise exercise = {
    .file = "gae.c",
    .part = {{2, 10, "in the middle of an episode"},
             {2, 6, "with several environments"},
             {3, 8, "where terminated[t] is 1"},
             {2, 8, "where truncated[t] is 1"},
             {1, 6, "in value_target"}},
    .make = make,
    .solve = solve,
    .mistake =
        {
            "Truncated steps are treated as terminated ones: after a time limit next_value still counts.",
            "Terminated steps are treated as truncated ones: after them no value counts.",
            "The advantage of the next episode reaches back over a truncated step.",
            "terminated is not looked at.",
            "lambda is left out: the TD errors are discounted by gamma alone.",
            "Only the TD error is there; the later ones, times gamma lambda, are missing.",
            "value[t + 1] stands in for next_value[t]: after an end it belongs to another episode.",
            "gamma is left out where the later TD errors are added: their factor is gamma lambda.",
            "value_target is the advantage; V has to be added.",
            "value_target is A + next_value; it should be A + value.",
            "The environments are mixed: [steps][envs] means that the next step is envs numbers further on.",
            "The arrays are read as [envs][steps]; step t of environment e is number t * envs + e.",
            "The advantage of one environment goes on into the next one: each starts at 0.",
        },
};
#endif
