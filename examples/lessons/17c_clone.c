/* 17c_clone.c - behaviour cloning before PPO: what a teacher gives, and where a clone goes wrong.

   MountainCar pays -1 for each step until the flag, so a policy that does not know the way learns nothing
   before it has found it by chance. A script of one line knows a way: push as the car moves. Cloning is
   supervised learning of what it did: maximize the mean of log pi(a | s) over recorded steps (Pomerleau
   1989). Where its rewards are known, the critic learns their sums, too. Then PPO continues.
     drift     a clone is right where its teacher was. Its own mistakes lead it to other states, in which it
               never saw what to do, and mistakes add up (Ross 2010). DAgger (Ross 2011) lets the clone act,
               and asks the teacher what it would have done there: the same number of episodes, other states.
     the dip   PPO's first updates make a clone worse; probably because its critic knows the teacher's states
               alone. A copy of the clone can hold it: the loss has coef KL(clone || policy) in addition, and
               coef fades (Schmitt 2018).

   You will see how often clones of three episodes agree with the script, in its states and in their own;
   then PPO's return without a teacher, from a clone of ten episodes, and from a clone that is held: the clone
   saves the search, falls below its teacher, and then passes it. The one that is held does not fall. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "../companions/ppo_teach.h"
#include "../envs/mountaincar.h"

#include "lesson.h"

enum { SEEDS = 8, RUNS = 5, POINTS = 11, EVERY = 8192, DIP = 4, HELD_STEPS = 50000, EPISODES = 20 };
enum { CLONE, DAGGER, WAYS };
enum { ALONE, FROM_CLONE, HELD, STARTS };

static ppo_env env;

static ppo_status script(const void *state, const float *obs, const unsigned char *mask,
                         const ppo_actions *action, void *user) {
    (void)state, (void)mask, (void)user;
    action->discrete[0] = obs[1] >= 0 ? 2 : 0; /* the way it moves */
    return PPO_OK;
}

static ppo_agent *new_agent(uint64_t seed) {
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    must(ppo_config_set_all(&cfg, "num_envs=16 rollout_steps=256 hidden=32,32 normalize_obs=1 "
                                  "normalize_reward=1 learning_rate_schedule=constant"));
    cfg.seed = seed;
    must(ppo_agent_create(&env, &cfg, &agent));
    return agent;
}

/* Share of the states of a player (NULL: of the script) in which the agent does what the script would. */
static float agreement(ppo_agent *agent, ppo_agent *player, uint64_t seed) {
    ppo_recording play = {0};
    int same = 0;
    must(ppo_record(&env, player, 0, script, NULL, 10, seed + 1000, &play));
    for (int t = 0; t < play.steps; t++) {
        ppo_action action;
        must(ppo_act(agent, play.obs + t * play.obs_size, NULL, &action));
        same += action.discrete == play.actions.discrete[t];
    }
    float share = 100 * (float)same / (float)play.steps;
    ppo_recording_free(&play);
    return share;
}

/* Trains with PPO; value[k] is the return after k EVERY steps. clone: what holds the agent, or NULL. */
static void train(ppo_agent *agent, const ppo_agent *clone, float value[POINTS]) {
    ppo_trainer *trainer = NULL;
    must(ppo_trainer_create(&env, &agent->config, agent, &trainer));
    for (int k = 0; k < POINTS; k++) {
        while (ppo_trainer_steps(trainer) < (int64_t)k * EVERY) {
            float done = (float)ppo_trainer_steps(trainer) / HELD_STEPS;
            if (clone) must(ppo_trainer_teach(trainer, clone, fmaxf(0, 1 - done)));
            must(ppo_trainer_iterate(trainer, NULL));
        }
        value[k] = ppo_evaluate(agent, &env, EPISODES, 1).mean_return;
    }
    ppo_trainer_free(trainer);
}

int main(int argc, char **argv) {
    static float theirs[WAYS][SEEDS], own[WAYS][SEEDS], earned[WAYS][SEEDS], teacher[RUNS];
    static float run[POINTS], mean[STARTS][POINTS], x[POINTS];
    static float first[STARTS][RUNS], early[STARTS][RUNS], dip[STARTS][RUNS], last[STARTS][RUNS];
    static const char *const names[STARTS] = {"no teacher", "from a clone", "held by a copy"};
    uint64_t from = lesson_seed(argc, argv) * 100;
    ppo_clone_config how = ppo_clone_config_default();
    how.epochs = 20; /* a clone that is less certain explores more */
    env = mountaincar_env();
    printf("three episodes   agrees in the script's states   in its own   return\n");
    for (int way = 0; way < WAYS; way++) {
        for (int j = 0; j < SEEDS; j++) {
            ppo_recording play = {0};
            ppo_dagger_config rounds = ppo_dagger_config_default();
            ppo_agent *agent = new_agent(how.seed = rounds.seed = from + (uint64_t)j);
            rounds.rounds = 2, rounds.episodes = 1, rounds.clone = how;
            must(ppo_record(&env, NULL, 0, script, NULL, way == CLONE ? 3 : 1, how.seed, &play));
            must(way == CLONE ? ppo_clone(agent, &play, &how, NULL)
                              : ppo_dagger(agent, &env, script, NULL, &rounds, &play, NULL));
            theirs[way][j] = agreement(agent, NULL, how.seed);
            own[way][j] = agreement(agent, agent, how.seed);
            earned[way][j] = ppo_evaluate(agent, &env, EPISODES, 1).mean_return;
            ppo_recording_free(&play), ppo_agent_free(agent);
        }
        printf("%-14s %29.1f %% %10.1f %% %8.1f\n", way == CLONE ? "cloned" : "DAgger",
               mean_of(theirs[way], SEEDS), mean_of(own[way], SEEDS), mean_of(earned[way], SEEDS));
    }
    chart c = {.title = "PPO on MountainCar", .x_label = "steps of PPO", .y_label = "return"};
    for (int k = 0; k < STARTS; k++) {
        for (int j = 0; j < RUNS; j++) {
            ppo_recording play = {0};
            ppo_agent *clone = NULL, *agent = new_agent(how.seed = from + (uint64_t)j);
            must(ppo_record(&env, NULL, 0, script, NULL, 10, how.seed, &play));
            if (k != ALONE) must(ppo_clone(agent, &play, &how, NULL));
            if (k == HELD) must(ppo_agent_copy(agent, &clone));
            train(agent, clone, run);
            for (int i = 0; i < POINTS; i++) mean[k][i] += run[i] / RUNS, x[i] = (float)(i * EVERY);
            first[k][j] = run[0], early[k][j] = run[1], last[k][j] = (run[POINTS - 2] + run[POINTS - 1]) / 2;
            dip[k][j] = (run[DIP - 1] + run[DIP] + run[DIP + 1]) / 3, teacher[j] = -(float)play.steps / 10;
            ppo_recording_free(&play), ppo_agent_free(agent), ppo_agent_free(clone);
        }
        chart_line(&c, names[k], x, mean[k], POINTS);
    }
    double script_return = mean_of(teacher, RUNS), fallen = mean_of(dip[FROM_CLONE], RUNS);
    printf("\nsteps of PPO   %s   %s   %s   (the script: %.1f)\n", names[0], names[1], names[2],
           script_return);
    for (int i = 0; i < POINTS; i++)
        printf("%12.0f %12.1f %14.1f %16.1f\n", (double)x[i], (double)mean[0][i], (double)mean[1][i],
               (double)mean[2][i]);
    chart_save(&c, "build/lessons/17c_clone.svg");
    claim(better_by(theirs[CLONE], own[CLONE], SEEDS) > 0, "a clone agrees less often in its own states");
    claim(better_by(own[DAGGER], own[CLONE], SEEDS) > 0, "one that asks the script there agrees more often");
    claim(better_by(early[FROM_CLONE], early[ALONE], RUNS) > 0, "after %d steps a clone is ahead", EVERY);
    claim(better_by(first[FROM_CLONE], dip[FROM_CLONE], RUNS) > 0, "then it falls, from %.0f to %.0f",
          mean_of(first[FROM_CLONE], RUNS), fallen);
    claim(better_by(dip[HELD], dip[FROM_CLONE], RUNS) > 0, "held by a copy it is at %.0f, not %.0f",
          mean_of(dip[HELD], RUNS), fallen);
    claim(better_by(last[FROM_CLONE], teacher, RUNS) > 0, "in the end it passes the script: %.0f, not %.0f",
          mean_of(last[FROM_CLONE], RUNS), script_return);
    return lesson_failures > 0;
}
