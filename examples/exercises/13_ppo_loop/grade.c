#include "../grade.h"
#include "ppo_loop.h"

#include "examples/envs/cartpole.h"

enum { STEPS = 100000, MOST = 1000, FIGURES = sizeof(iteration) / sizeof(float), EPISODES = 20 };

/* CartPole with its observation in another order and with other signs, and perhaps with the actions exchanged:
   one of 768 variants. A policy that was written for CartPole, not learned, falls. */
static int order[4] = {0, 1, 2, 3}, exchanged;
static float sign[4];

static void choose_variant(int number) {
    ppo_rng rng = ppo_rng_stream(9, PPO_STREAM_USER, (uint32_t)number);
    ppo_rng_shuffle(&rng, order, 4);
    for (int k = 0; k < 4; k++) sign[k] = ppo_rng_below(&rng, 2) ? 1.0f : -1.0f;
    exchanged = ppo_rng_below(&rng, 2);
}

static void see(const float *cartpole_obs, float *obs) {
    for (int k = 0; k < 4; k++) obs[k] = sign[k] * cartpole_obs[order[k]];
}

#ifdef GRADE_STUDENT
static int steps_done;

static void reset(void *state, ppo_rng *rng, float *obs) {
    float cartpole_obs[4];
    cartpole_reset(state, rng, cartpole_obs);
    see(cartpole_obs, obs);
}
static void step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    float cartpole_obs[4];
    ppo_action its = *action;
    its.discrete = exchanged ? !its.discrete : its.discrete;
    cartpole_step(state, rng, &its, cartpole_obs, out);
    see(cartpole_obs, obs);
    if (++steps_done > STEPS) out->reward = 0, out->terminated = 1; /* nothing more is to be learned */
}

static void answer(grade_case *c) {
    if (integer(c, "learn")) {
        ppo_env env = cartpole_env();
        env.reset = reset, env.step = step, env.draw = NULL;
        choose_variant(integer(c, "variant"));
        *floats(c, "iterations") = (float)learn(&env, STEPS, (iteration *)floats(c, "report"), MOST);
        *floats(c, "steps") = (float)steps_done;
        return;
    }
    int n = integer(c, "n"), *action = integers(c, "zeros");
    act(floats(c, "obs"), n, action);
    for (int i = 0; i < n; i++) floats(c, "action")[i] = (float)action[i];
}
#else

/* Plays episodes in which the student's program chooses the actions. */
static float play(grade_run *run) {
    cartpole state[EPISODES];
    float obs[EPISODES][4], length[EPISODES] = {0}, sum = 0;
    for (int e = 0; e < EPISODES; e++) {
        ppo_rng rng = ppo_rng_stream(5, PPO_STREAM_USER, (uint32_t)e);
        cartpole_reset(&state[e], &rng, obs[e]);
    }
    int left = 1;
    for (int t = 0; t < 500 && left; t++) {
        grade_case c = {0};
        add_integer(&c, "learn", 0), add_integer(&c, "n", EPISODES), add_integers(&c, "zeros", EPISODES, 1);
        float *seen = add_floats(&c, "obs", EPISODES, 4);
        for (int e = 0; e < EPISODES; e++) see(obs[e], seen + 4 * e);
        add_output(&c, "action", EPISODES, 1);
        if (!grade_ask(run, &c)) return grade_free(&c), -1;
        left = 0;
        for (int e = 0; e < EPISODES; e++) {
            ppo_outcome out = {0};
            ppo_action action = {0};
            if (length[e] < (float)t) continue;
            action.discrete = (floats(&c, "action")[e] == 1) != exchanged;
            cartpole_step(&state[e], NULL, &action, obs[e], &out);
            if (!out.terminated) length[e]++, left = 1;
        }
        grade_free(&c);
    }
    for (int e = 0; e < EPISODES; e++) sum += length[e] < 500 ? length[e] + 1 : 500;
    return sum / EPISODES;
}

/* What the reported figures say about a loop that does not learn. */
static void diagnose(char *wrong, const iteration *report, int n, float steps) {
    float ratio = 0, kl = 0, clipped = 0, explained = 0, last = 0, best = 0,
          first = n ? report[0].mean_return : 0;
    int fifth = n / 5 + 1;
    for (int i = 0; i < n; i++) {
        ratio = fmaxf(ratio, report[i].first_ratio_error), kl += report[i].approx_kl / (float)n;
        clipped += report[i].clip_fraction / (float)n, best = fmaxf(best, report[i].mean_return);
        if (i < n - fifth) continue;
        last += report[i].mean_return / (float)fifth,
            explained += report[i].explained_variance / (float)fifth;
    }
    grade_say(
        wrong,
        "\nreported: %d iterations; mean return %.0f at first, %.0f at last, at most %.0f; mean KL %.2g, "
        "clip fraction %.2g, explained variance %.2g\n",
        n, (double)first, (double)last, (double)best, (double)kl, (double)clipped, (double)explained);
    if (n == 0) grade_say(wrong, "learn() reports no iteration.");
    else if (steps > STEPS)
        grade_say(wrong, "It took more than %d steps: what comes after them teaches nothing.", STEPS);
    else if (ratio > 1e-3f)
        grade_say(wrong,
                  "In the first minibatch of an iteration every ratio is 1; here one is off by %.2g: "
                  "old_logp must be that "
                  "of the action taken, by the policy that took it.",
                  (double)ratio);
    else if (kl == 0 && clipped == 0)
        grade_say(wrong, "Every ratio is 1 in all minibatches: old_logp follows the policy that is trained; "
                         "keep that of the rollout.");
    else if (kl > 0.05f || clipped > 0.4f)
        grade_say(wrong, "An iteration moves the policy too far: the learning rate? Is the gradient zeroed "
                         "before each minibatch?");
    else if (explained < 0.1f)
        grade_say(wrong, "The critic explains nothing of the returns: is its target A + V, does its loss "
                         "count, with the right sign?");
    else if (last < 0.8f * first)
        grade_say(wrong, "The return falls: the policy's loss, or the advantage, has the wrong sign.");
    else if (kl < 1e-4f)
        grade_say(wrong, "The policy hardly moves: the learning rate, the number of epochs?");
    else
        grade_say(wrong,
                  "It learns, but too little: gamma, lambda, epochs, learning rate, whitened advantages?");
}

static void examine(grade_run *run, int part, char *wrong) {
    static const float wanted[] = {100, 300, 475};
    static float reached;
    static iteration report[MOST];
    static int iterations;
    static float steps;
    if (part == 0) {
        grade_case c = {0};
        const char *seed = getenv("GRADE_SEED");
        int variant = seed ? atoi(seed) : 2;
        choose_variant(variant);
        add_integer(&c, "learn", 1), add_integer(&c, "variant", variant);
        add_output(&c, "report", MOST, FIGURES), add_output(&c, "iterations", 1, 1),
            add_output(&c, "steps", 1, 1);
        int answered = grade_ask(run, &c);
        run->written = 0;
        for (int i = 0; i < MOST * FIGURES; i++)
            run->written |= answered && isnormal(floats(&c, "report")[i]);
        reached = answered ? play(run) : -1;
        iterations = (int)fminf(fmaxf(number(&c, "iterations"), 0), MOST), steps = number(&c, "steps");
        memcpy(report, floats(&c, "report"), sizeof report);
        grade_free(&c);
    }
    if (reached >= wanted[part]) return;
    if (reached < 0) grade_say(wrong, "%s", run->death);
    else {
        grade_say(wrong, "it reaches %.1f of %.0f, the mean of %d episodes", (double)reached,
                  (double)wanted[part], EPISODES);
        diagnose(wrong, report, iterations, steps);
    }
}

static const grade_exercise exercise = {
    .file = "ppo_loop.c",
    .part = {{3, 1, "at a mean return of 100"},
             {3, 1, "at a mean return of 300"},
             {4, 1, "at a mean return of 475"}},
    .examine = examine,
    .allowed =
        "ppo_tape_* ppo_params_* ppo_init_* ppo_gae ppo_whiten ppo_explained_variance ppo_token_logp "
        "ppo_token_logp_backward ppo_categorical_sample ppo_categorical_mode ppo_policy_objective_default "
        "ppo_policy_loss ppo_value_loss ppo_adam_default ppo_adam_step ppo_clip_grad_norm ppo_rng_* "
        "ppo_schedule "
        "ppo_last_error ppo_fail",
    .seconds = 60,
};
#endif
