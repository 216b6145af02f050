/* 19_shaping.c - sparse rewards: shaping that cannot lie, shaping that can, and a curriculum.

   A corridor of 32 cells, the start in the first one, a reward of 1 at the end, none before: at random it
   takes long to find. What helps?
     hint       0.1 for every step to the right. Nothing is taken for a step back: walking to and fro pays
     potential  gamma F(s') - F(s) with F(s) = s / 32 is added to the reward. Over a path the terms cancel,
                whatever F is: the best policy stays the best (Ng 1999)
     curriculum the start moves away from the end as the policy learns: easy tasks first (Bengio 2009)
   You will see how often each policy reaches the end from the first cell, in the true task, as it learns. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"

enum { CELLS = 32, LIMIT = 64, POINTS = 40, RUNS = 6, EPISODES = 20 };
enum { SPARSE, HINT, POTENTIAL, CURRICULUM, WAYS };

static int way, nearest; /* of the curriculum: the start is between `nearest` and the last cell but one */

static const float discount = 0.98f;

static void observe(int cell, float *obs) {
    for (int i = 0; i < CELLS; i++) obs[i] = i == cell;
}

static void corridor_reset(void *state, ppo_rng *rng, float *obs) {
    int *cell = (int *)state;
    *cell = way == CURRICULUM ? nearest + ppo_rng_below(rng, CELLS - 1 - nearest) : 0;
    observe(*cell, obs);
}

static void corridor_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    int *cell = (int *)state, before = *cell;
    (void)rng;
    *cell += action->discrete ? 1 : *cell > 0 ? -1 : 0;
    out->terminated = *cell == CELLS - 1;
    out->reward = out->terminated ? 1 : 0;
    if (way == HINT && *cell > before) out->reward += 0.1f;
    /* The potential is 0 where the episode ends. */
    if (way == POTENTIAL)
        out->reward += discount * (out->terminated ? 0 : (float)*cell / CELLS) - (float)before / CELLS;
    observe(*cell, obs);
}

/* How many of the episodes of the true task, from the first cell, reach the end. */
static float success(ppo_agent *agent, const ppo_env *env, uint64_t seed) {
    int here = way;
    way = SPARSE;
    ppo_evaluation level = ppo_evaluate_sampled(agent, env, EPISODES, seed);
    must(level.status);
    way = here;
    return level.mean_return;
}

int main(int argc, char **argv) {
    static const char *const names[WAYS] = {"sparse", "hint", "potential", "curriculum"};
    static float curve[WAYS][POINTS], x[POINTS];
    uint64_t first = lesson_seed(argc, argv) * 100;
    ppo_env env = {0};
    chart c = {.title = "Share of episodes that reach the end", .x_label = "steps", .y = {-0.02, 1.05}};
    env.name = "corridor";
    env.obs_size = CELLS;
    env.action_space = ppo_discrete(2);
    env.state_size = sizeof(int);
    env.max_steps = LIMIT;
    env.reset = corridor_reset;
    env.step = corridor_step;
    for (way = 0; way < WAYS; way++) {
        for (int run = 0; run < RUNS; run++) {
            ppo_config cfg = ppo_config_default();
            ppo_agent *agent = NULL;
            ppo_trainer *trainer = NULL;
            ppo_progress p;
            must(ppo_config_set_all(&cfg, "num_envs=8 rollout_steps=64 minibatch_size=128 learning_rate=1e-3 "
                                          "hidden=32 entropy_coef=0.01"));
            cfg.gamma = discount;
            cfg.total_steps = POINTS * 512;
            cfg.seed = first + (uint64_t)run;
            nearest = CELLS - 4;
            must(ppo_agent_create(&env, &cfg, &agent));
            must(ppo_trainer_create(&env, &cfg, agent, &trainer));
            for (int i = 0; i < POINTS; i++) {
                must(ppo_trainer_iterate(trainer, &p));
                if (p.mean_return > 0.8f && nearest > 0)
                    nearest -= nearest < 2 ? nearest : 2; /* the next grade */
                curve[way][i] += success(agent, &env, cfg.seed) / RUNS;
                x[i] = (float)p.steps;
            }
            ppo_trainer_free(trainer);
            ppo_agent_free(agent);
        }
        printf("%-12s reached the end in %3.0f %% of episodes, at last\n", names[way],
               100 * (double)curve[way][POINTS - 1]);
        chart_line(&c, names[way], x, curve[way], POINTS);
    }
    chart_save(&c, "build/lessons/19_shaping.svg");
    claim(mean_of(curve[SPARSE], POINTS) < mean_of(curve[POTENTIAL], POINTS) - 0.2,
          "the sparse reward is found late, or never");
    claim(curve[POTENTIAL][POINTS - 1] > 0.9f, "the potential leads to the end");
    claim(curve[CURRICULUM][POINTS - 1] > 0.8f, "so does the curriculum");
    claim(curve[HINT][POINTS - 1] < curve[POTENTIAL][POINTS - 1] - 0.2f,
          "the hint pays for walking to and fro, and the policy does");
    return lesson_failures > 0;
}
