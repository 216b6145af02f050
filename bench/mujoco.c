/* mujoco.c - steps per second of the tasks of MuJoCo from C, without training, and the ratio to Gymnasium's.

   Both sides step one environment with uniform random actions, drawn beforehand, and reset it where an episode
   ends, on one thread; seconds are the processor's. They take turns, and the ratio is the median of the pairs. */
#define _DEFAULT_SOURCE
#include "ppo.h"

#include "examples/envs/mujoco.h"
#include "measure.h"

#include <time.h>

enum { STEPS = 20000, ACTIONS = 1000 };

static double measure_c(const ppo_env *env) { /* steps per second; 0 if it failed */
    static float box[ACTIONS][8];
    float obs[128];
    mujoco s;
    ppo_rng rng = ppo_rng_stream(1, 0, 0);
    if (env->open(&s, env->user, 0)) return 0;
    for (int i = 0; i < ACTIONS * 8; i++)
        box[i / 8][i % 8] = ppo_rng_range(&rng, env->action_space.low, env->action_space.high);
    env->reset(&s, &rng, obs);
    clock_t begin = clock();
    for (int i = 0, length = 1; i < STEPS; i++, length++) {
        ppo_action action = {0};
        ppo_outcome out = {0};
        action.box = box[i % ACTIONS];
        env->step(&s, &rng, &action, obs, &out);
        if (!out.terminated && length < env->max_steps) continue;
        env->reset(&s, &rng, obs);
        length = 0;
    }
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    env->close(&s);
    return STEPS / seconds;
}

/* Of bench/gymnasium_steps.py, which prints its versions and then that; 0 if it cannot be run. */
static double measure_gymnasium(const char *name, char version[64]) {
    const char *python = getenv("PPO_BENCH_PYTHON");
    char command[1024], line[64] = "";
    snprintf(command, sizeof command, "'%s' -W ignore bench/gymnasium_steps.py %s %d 2>build/gymnasium.log",
             python ? python : "python3", name, STEPS);
    FILE *pipe = popen(command, "r");
    if (!pipe) return 0;
    if (fgets(version, 64, pipe)) version[strcspn(version, "\n")] = '\0';
    double speed = fgets(line, sizeof line, pipe) ? atof(line) : 0;
    return pclose(pipe) == 0 ? speed : 0;
}

int main(void) {
    printf("Stepping with random actions, MuJoCo %s here\n", mj_versionString());
    for (int k = 1; k < MUJOCO_TASKS; k += 2) { /* version 5 */
        const ppo_env env = mujoco_env(mujoco_tasks[k].name);
        double ours[REPETITIONS], theirs[REPETITIONS], ratio[REPETITIONS];
        char version[64] = "";
        int has_gymnasium = 1;
        for (int i = 0; i < REPETITIONS; i++) {
            ours[i] = measure_c(&env);
            if (ours[i] == 0) return fail();
            theirs[i] = has_gymnasium ? measure_gymnasium(env.name, version) : 0;
            if (theirs[i] == 0) has_gymnasium = 0;
            if (has_gymnasium) ratio[i] = ours[i] / theirs[i];
        }
        printf("\n");
        report(env.name, ours, 0, "steps/s");
        if (has_gymnasium) {
            report(version, theirs, 0, "steps/s");
            report("ratio", ratio, 2, "times");
        } else {
            printf("%-44s not measured: no Python with it (PPO_BENCH_PYTHON names one)\n", "Gymnasium");
        }
    }
    return 0;
}
