#include "../grade.h"
#include "environment.h"

enum { MOST_COPIES = 2 };

#ifdef GRADE_STUDENT
/* Plays the copies in turn; row k of the outputs is step k / copies of copy k % copies. */
static void answer(grade_case *c) {
    int copies = integer(c, "copies"), steps = integer(c, "steps");
    ppo_env env = lander_env();
    ppo_rng rng[MOST_COPIES];
    void *state[MOST_COPIES] = {NULL, NULL};
    *floats(c, "obs_size") = (float)env.obs_size, *floats(c, "actions") = (float)env.action_space.n;
    *floats(c, "max_steps") = (float)env.max_steps;
    if (env.obs_size != 3 || !env.reset || !env.step) return;
    for (int k = 0; k < copies; k++) {
        state[k] = calloc(env.state_size + 1, 1);
        rng[k] = ppo_rng_stream(7, PPO_STREAM_USER, (uint32_t)(integer(c, "episode") + k));
        env.reset(state[k], &rng[k], floats(c, "first_obs") + 3 * k);
    }
    for (int t = 0; t < steps; t++)
        for (int k = 0; k < copies; k++) {
            int at = t * copies + k;
            ppo_outcome out;
            ppo_action action;
            memset(&out, 0, sizeof out), memset(&action, 0, sizeof action);
            action.discrete = integers(c, "action")[at];
            env.step(state[k], &rng[k], &action, floats(c, "obs") + 3 * at, &out);
            floats(c, "reward")[at] = out.reward, floats(c, "terminated")[at] = (float)out.terminated;
            if (out.terminated) env.reset(state[k], &rng[k], floats(c, "next_obs") + 3 * at);
        }
    for (int k = 0; k < copies; k++) free(state[k]);
}
#else

enum { DESCRIPTION, RESET, FALL, BURN, TOUCHDOWN, EMPTY, TIME, COPIES };

static void make(grade_case *c, int part, int number, ppo_rng *rng) {
    static const struct {
        int steps, burns;
    } how[] = {{1, 0}, {1, 0}, {10, 0}, {10, 2}, {90, 9}, {200, 1}, {180, 1}, {20, 2}};
    int copies = part == COPIES ? 2 : 1, rows = how[part].steps * copies;
    int *action = add_integers(c, "action", rows, 1);
    for (int t = 0; t < rows; t++) /* burns: 1 always, n: in every n-th step on average, 0 never */
        action[t] = how[part].burns && ppo_rng_below(rng, how[part].burns) == 0;
    add_integer(c, "copies", copies), add_integer(c, "steps", how[part].steps),
        add_integer(c, "episode", 10 * number);
    (part == DESCRIPTION ? add_output : add_unused_output)(c, "obs_size", 1, 1);
    (part == DESCRIPTION ? add_output : add_unused_output)(c, "actions", 1, 1);
    (part == DESCRIPTION ? add_output : add_unused_output)(c, "max_steps", 1, 1);
    (part == RESET ? add_output : add_unused_output)(c, "first_obs", copies, 3);
    (part > RESET ? add_output : add_unused_output)(c, "obs", rows, 3);
    (part > RESET ? add_output : add_unused_output)(c, "reward", rows, 1);
    (part > RESET ? add_output : add_unused_output)(c, "terminated", rows, 1);
    add_unused_output(c, "next_obs", rows, 3);
}

/* By sums over the steps since the reset instead of a state: B burns in k steps give a speed of v + 0.2 (4 B
   - 1.6 k). */
static void solve(grade_case *c, int mistake) {
    int copies = integer(c, "copies"), steps = integer(c, "steps");
    int episode = integer(c, "episode");
    *floats(c, "obs_size") = 3, *floats(c, "actions") = 2, *floats(c, "max_steps") = 150;
    if (mistake == 7)
        episode += copies - 1, steps *= copies, copies = 1; /* all that the copies do happens to one state */
    for (int k = 0; k < copies; k++) {
        ppo_rng rng = ppo_rng_stream(7, PPO_STREAM_USER, (uint32_t)(episode + k));
        float from[2];
        double height = 0, speed = 0;
        for (int t = 0, since = -1, burns = 0; t < steps; t++) {
            int at = t * copies + k, on = integers(c, "action")[at], ends = 0;
            if (since < 0) {
                if (mistake == 5) from[1] = ppo_rng_range(&rng, -5, 0);
                from[0] = ppo_rng_range(&rng, 40, 60);
                if (mistake != 5) from[1] = ppo_rng_range(&rng, -5, 0);
                height = (double)from[0], since = burns = 0;
                float *first = floats(c, "first_obs") + 3 * k;
                if (t == 0) first[0] = from[0] / 50, first[1] = from[1] / 10, first[2] = 1;
                if (t == 0 && mistake == 6) first[0] *= 50, first[1] *= 10, first[2] *= 100;
            }
            int burnt = on && (burns < 100 || mistake == 2);
            double before = (double)from[1] + 0.2 * (4.0 * burns - 1.6 * since);
            burns += burnt, since++;
            speed = (double)from[1] + 0.2 * (4.0 * burns - 1.6 * since);
            height += 0.2 * (mistake == 1 ? before : speed);
            ends = height <= 0;
            float *obs = floats(c, "obs") + 3 * at;
            obs[0] = (float)((ends && mistake != 4 ? 0 : height) / 50), obs[1] = (float)speed / 10;
            obs[2] = (float)(100 - burns) / 100;
            if (mistake == 6) obs[0] *= 50, obs[1] *= 10, obs[2] *= 100;
            floats(c, "reward")[at] = (float)((burnt && mistake != 8 ? -0.05 : 0) +
                                              (ends ? 10 - fabs(mistake == 9 ? before : speed) : 0) -
                                              (mistake == 10 && on && !burnt ? 0.05 : 0));
            floats(c, "terminated")[at] = ends || (mistake == 3 && since == 150);
            if (ends || (mistake == 3 && since == 150)) since = -1;
        }
    }
}

static const grade_exercise exercise = {
    .file = "environment.c",
    .part = {{1, 1, "in the description"},
             {1, 6, "in the first observation"},
             {2, 6, "while the engine is off"},
             {2, 6, "while the engine burns"},
             {1, 6, "at touchdown"},
             {1, 4, "where the tank is empty"},
             {1, 4, "beyond the time limit"},
             {1, 4, "with two copies side by side"}},
    .make = make,
    .solve = solve,
    .allowed = "ppo_discrete ppo_rng_*",
    .mistake =
        {
            "The height moves with the old speed; the specification says the new one.",
            "The engine burns without fuel.",
            "The time limit sets terminated: it belongs in max_steps, and the library truncates there.",
            "The height at touchdown is below 0; it is set to 0.",
            "The speed is drawn before the height; the specification draws the height first.",
            "The observation is not scaled: height / 50, speed / 10, fuel / 100.",
            "The copies share a state: everything must be in *state, nothing in static variables.",
            "Burning costs nothing: the reward lacks -0.05.",
            "The reward at touchdown has the speed from before the step.",
            "An engine without fuel still costs 0.05.",
        },
};
#endif
