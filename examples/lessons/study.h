/* study.h - trains one task with one list of settings and one seed, and keeps its learning curve: for the
   lessons that compare settings. */
#ifndef STUDY_H
#define STUDY_H

enum { STUDY_POINTS = 10, STUDY_EPISODES = 4 };

typedef struct study {
    float curve[STUDY_POINTS]; /* mean return of new episodes, with the most likely actions */
    float end;                 /* the mean of its last three points */
    float kl, clipped; /* the largest approx_kl of an iteration's last epoch; the mean clip fraction */
} study;

/* settings: as for ppo_settings_set_all(), "clip_low=0.1 epochs=4", on top of the defaults. */
static inline study study_run(const ppo_env *env, const char *settings, int64_t steps, uint64_t seed) {
    study s = {{0}, 0, 0, 0};
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_progress p;
    must(ppo_config_set_all(&cfg, settings));
    cfg.total_steps = steps;
    cfg.seed = seed;
    must(ppo_agent_create(env, &cfg, &agent));
    must(ppo_trainer_create(env, &cfg, agent, &trainer));
    int iterations = 0;
    for (int point = 0; !ppo_trainer_done(trainer); iterations++) {
        must(ppo_trainer_iterate(trainer, &p));
        s.kl = fmaxf(s.kl, p.last_approx_kl);
        s.clipped += p.clip_fraction;
        if (p.steps * STUDY_POINTS < (point + 1) * steps) continue;
        ppo_evaluation level = ppo_evaluate(agent, env, STUDY_EPISODES, seed);
        must(level.status);
        while (point < STUDY_POINTS && p.steps * STUDY_POINTS >= (point + 1) * steps)
            s.curve[point++] = level.mean_return;
    }
    s.clipped /= (float)iterations;
    s.end = (float)mean_of(s.curve + STUDY_POINTS - 3, 3);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    return s;
}

#endif
