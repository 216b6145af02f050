/* 18_memory.c - recurrent policies: when one observation does not say enough.

   In the T-maze (envs/memory.h) a cue, left or right, is shown in the first observation only. Eight steps
   later, at the junction, all looks alike, and the reward depends on turning as the cue said. Without memory
   the best mean return is exactly 0: no policy that sees only the present can be right more often than half
   of the time. A core of gated recurrent units (GRU, Cho 2014) carries a state from step to step; the
   gradient goes back through sequence_steps.

   You will see the return of policies with the core, without it, and with a gradient that reaches back only
   two steps, with the same settings; and what the trained state holds: in the corridor the observations are
   equal, but the state tells the two cues apart. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "../companions/ppo_gru.h"
#include "../envs/memory.h"

#include "lesson.h"

enum { POLICIES = 3, POINTS = 100, WIDTH = 32 };

static const struct {
    const char *name, *settings;
} policies[POLICIES] = {{"GRU", "recurrent=32"},
                        {"GRU, gradient of 2 steps", "recurrent=32 sequence_steps=2"},
                        {"no memory", "recurrent=0"}};

static ppo_agent *train(const ppo_env *env, const char *settings, uint64_t seed, float *steps, float *score,
                        int *n) {
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_progress p;
    must(ppo_config_set_all(&cfg, "num_envs=16 rollout_steps=64 minibatch_size=128 learning_rate=1e-3 "
                                  "epochs=5 hidden=32 entropy_coef=0.01"));
    must(ppo_config_set_all(&cfg, settings));
    cfg.total_steps = 80000;
    cfg.seed = seed;
    must(ppo_agent_create(env, &cfg, &agent));
    must(ppo_trainer_create(env, &cfg, agent, &trainer));
    for (*n = 0; !ppo_trainer_done(trainer) && *n < POINTS; ++*n) {
        must(ppo_trainer_iterate(trainer, &p));
        steps[*n] = (float)p.steps, score[*n] = p.mean_return;
    }
    ppo_trainer_free(trainer);
    return agent;
}

/* The state before the junction, after a walk down the corridor with this cue. */
static void remembered(ppo_agent *agent, int cue, float state[WIDTH]) {
    ppo_action action;
    memory s = {0, 0, 0};
    float obs[3];
    s.cue = cue;
    ppo_agent_reset(agent);
    for (s.position = 0; s.position < MEMORY_CORRIDOR; s.position++) {
        memory_observe(&s, s.position == 0 ? cue : 0, obs);
        must(ppo_act(agent, obs, NULL, &action));
    }
    memcpy(state, agent->state, WIDTH * sizeof *state);
}

int main(int argc, char **argv) {
    static float steps[POLICIES][POINTS], score[POLICIES][POINTS];
    uint64_t seed = lesson_seed(argc, argv);
    ppo_env env = memory_env();
    float value[POLICIES], apart = 0, left[WIDTH], right[WIDTH];
    chart c = {.title = "T-maze: return", .x_label = "steps", .y = {-1.5, 1.1}};
    printf("%-26s return of 200 episodes, sampled\n", "");
    for (int k = 0; k < POLICIES; k++) {
        int n;
        ppo_agent *agent = train(&env, policies[k].settings, seed, steps[k], score[k], &n);
        value[k] = ppo_evaluate_sampled(agent, &env, 200, seed).mean_return;
        printf("%-26s %6.2f\n", policies[k].name, (double)value[k]);
        chart_line(&c, policies[k].name, steps[k], score[k], n);
        if (k == 0) {
            remembered(agent, -1, left);
            remembered(agent, 1, right);
            for (int i = 0; i < WIDTH; i++) apart += (left[i] - right[i]) * (left[i] - right[i]);
            printf("  its state before the junction, by cue: %.2f apart (after %d equal observations)\n",
                   (double)sqrtf(apart), MEMORY_CORRIDOR - 1);
        }
        ppo_agent_free(agent);
    }
    chart_save(&c, "build/lessons/18_memory.svg");
    claim(value[0] > 0.7f, "with a core the maze is solved");
    claim(value[2] < 0.2f, "without it the return stays near 0, the most that is possible");
    claim(sqrtf(apart) > 0.5f, "the state holds the cue");
    return lesson_failures > 0;
}
