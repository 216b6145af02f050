/* teachers.cpp - how many steps PPO needs until a threshold, after cloning ten scripted episodes, and without. Prints a
   line of JSON for each run; teachers.py runs it, and makes a table of the lines.

       build/teachers MountainCar-v0 clone 1        task, "clone", "dagger" or "none", seed

   More arguments are settings. Every 10,000 steps (LunarLander: 30,000) the policy is evaluated, 50 fresh episodes with the
   most likely actions, and the run ends where their mean has reached the zoo's threshold: -110, or 200. */
#include "ppo.h"
#include "companions/ppo_teach.h"
#include "envs/lunarlander.hpp"
#include "envs/mountaincar.h"
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

/* Pushes the way the car moves. */
static ppo_status swing(const void *, const float *obs, const unsigned char *, const ppo_actions *action,
                        void *) {
    action->discrete[0] = obs[1] >= 0 ? 2 : 0;
    return PPO_OK;
}

/* Two proportional-derivative controllers, of the angle and of the height, as in Gymnasium's demonstration. */
static ppo_status land(const void *, const float *s, const unsigned char *, const ppo_actions *action,
                       void *) {
    const float lean = std::fmax(-0.4f, std::fmin(0.4f, 0.5f * s[0] + s[2]));
    float turn = 0.5f * (lean - s[4]) - s[5], lift = 0.5f * (0.55f * std::fabs(s[0]) - s[1]) - 0.5f * s[3];
    if (s[6] > 0 || s[7] > 0) turn = 0, lift = -0.5f * s[3];
    action->discrete[0] = lift > std::fabs(turn) && lift > 0.05f ? 2
                          : turn < -0.05f                        ? 3
                          : turn > 0.05f                         ? 1
                                                                 : 0;
    return PPO_OK;
}

struct run {
    ppo_env env;
    float threshold, mean;
    int64_t next, every, reached; /* -1: not yet */
};

static int look(const ppo_progress *progress, void *user) {
    run *r = (run *)user;
    if (progress->steps < r->next) return 0;
    r->next += r->every;
    r->mean = ppo_evaluate(progress->agent, &r->env, 50, 1000000007u).mean_return;
    if (r->mean >= r->threshold) r->reached = progress->steps;
    return r->reached >= 0;
}

int main(int argc, char **argv) {
    if (argc < 4)
        return std::fprintf(stderr, "teachers TASK clone|dagger|none SEED [SETTING=VALUE ...]\n"), 2;
    const int car = !std::strcmp(argv[1], "MountainCar-v0"), clone = !std::strcmp(argv[2], "clone"),
              dagger = !std::strcmp(argv[2], "dagger");
    ppo_config cfg = ppo_config_default();
    ppo_clone_config how = ppo_clone_config_default();
    ppo_clone_report report = {};
    ppo_recording play = {};
    ppo_agent *agent = NULL;
    const int64_t every = car ? 10000 : 30000;
    run r = {car ? mountaincar_env() : lunarlander_env(), car ? -110.f : 200.f, 0, every, every, -1};
    float taught = 0;
    ppo_status status = PPO_OK;
    cfg.seed = how.seed = std::strtoull(argv[3], NULL, 10);
    cfg.callback = look;
    cfg.callback_user = &r;
    for (int i = 4; i < argc && !status; ++i) status = ppo_config_set_all(&cfg, argv[i]);
    if (car) how.epochs = 20; // a clone that is less certain explores more
    if (!status) status = ppo_agent_create(&r.env, &cfg, &agent);
    if (!status && clone) status = ppo_record(&r.env, NULL, 0, car ? swing : land, NULL, 10, cfg.seed, &play);
    if (!status && clone) status = ppo_clone(agent, &play, &how, &report);
    ppo_dagger_config rounds = ppo_dagger_config_default();
    rounds.clone = how;
    rounds.seed = cfg.seed;
    if (!status && dagger)
        status = ppo_dagger(agent, &r.env, car ? swing : land, NULL, &rounds, &play, &report);
    for (int i = 0; i < play.steps && clone; ++i) taught += play.reward[i] / 10;
    if (!status) r.mean = ppo_evaluate(agent, &r.env, 50, 1000000007u).mean_return;
    const float before = r.mean;
    if (r.mean >= r.threshold) r.reached = 0;
    else if (!status) status = ppo_train(&r.env, &cfg, &agent);
    if (status) return std::fprintf(stderr, "%s\n", ppo_last_error()), 1;
    std::printf("{\"task\": \"%s\", \"teacher\": \"%s\", \"seed\": %s, \"recorded_steps\": %d, "
                "\"teacher_return\": %.1f, "
                "\"first_return\": %.1f, \"reached\": %lld, \"last_return\": %.1f}\n",
                argv[1], argv[2], argv[3], play.steps, taught, before, (long long)r.reached, r.mean);
    ppo_recording_free(&play);
    ppo_agent_free(agent);
    return 0;
}
