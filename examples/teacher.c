/* teacher.c - a policy that begins as a copy of a script, and then becomes better than it.

   MountainCar pays nothing until the flag is reached, so an untrained policy has to find it by chance. A script of one
   line, push the way the car moves, reaches it in about 120 steps. Ten recorded episodes of it are cloned, and PPO goes on
   from there. You will see the mean return of the script, of the clone, and during training, beside that of a policy
   that had no teacher, in a few seconds:

       make build/teacher && build/teacher */
#include "ppo.h"
#include "companions/ppo_teach.h"
#include "envs/mountaincar.h"

/* The observation is the position and the velocity; actions 0, 1, 2 push left, not at all, right. */
static ppo_status script(const void *state, const float *obs, const unsigned char *mask,
                         const ppo_actions *action, void *user) {
    (void)state, (void)mask, (void)user;
    action->discrete[0] = obs[1] >= 0 ? 2 : 0;
    return PPO_OK;
}

enum { STOPS = 6, STEPS = 25600 };

/* Trains on, and evaluates at each of the stops; returns[0] is the policy as it came. */
static ppo_status train(ppo_env *env, const ppo_config *cfg, ppo_agent *agent, float returns[STOPS + 1]) {
    ppo_trainer *trainer = NULL;
    ppo_status status = ppo_trainer_create(env, cfg, agent, &trainer);
    for (int k = 0; k <= STOPS && !status; ++k) {
        while (!status && ppo_trainer_steps(trainer) < (int64_t)k * STEPS)
            status = ppo_trainer_iterate(trainer, NULL);
        if (!status) returns[k] = ppo_evaluate(agent, env, 50, 1).mean_return;
    }
    ppo_trainer_free(trainer);
    return status;
}

int main(void) {
    ppo_env env = mountaincar_env();
    ppo_config cfg = ppo_config_default();
    ppo_clone_config how = ppo_clone_config_default();
    ppo_clone_report report;
    ppo_recording play = {0};
    ppo_agent *taught = NULL, *alone = NULL;
    float with[STOPS + 1], without[STOPS + 1], best = 0;
    ppo_status status = ppo_config_set_all(&cfg, "num_envs=16 normalize_obs=yes normalize_reward=yes");
    how.epochs = 20; /* a clone that is less certain explores more */
    cfg.total_steps = 1000000;
    if (!status) status = ppo_agent_create(&env, &cfg, &alone);
    if (!status) status = ppo_agent_create(&env, &cfg, &taught);
    if (!status) status = ppo_record(&env, NULL, 0, script, NULL, 10, 1, &play);
    if (!status) status = ppo_clone(taught, &play, &how, &report);
    if (!status) status = train(&env, &cfg, taught, with);
    if (!status) status = train(&env, &cfg, alone, without);
    for (int i = 0; i < play.steps; ++i) best += play.reward[i] / 10;
    if (status) fprintf(stderr, "%s\n", ppo_last_error());
    else {
        printf(
            "the script earns %.1f in %d recorded steps; the clone agrees in %.1f %% of those held out\n\n",
            best, play.steps, 100 * report.accuracy[1]);
        printf("    steps    cloned   without a teacher\n");
        for (int k = 0; k <= STOPS; ++k) printf("%9d  %8.1f  %8.1f\n", k * STEPS, with[k], without[k]);
    }
    ppo_recording_free(&play);
    ppo_agent_free(taught);
    ppo_agent_free(alone);
    return status != PPO_OK;
}
