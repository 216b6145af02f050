/* mujoco.h - tasks of MuJoCo for ppo.h (include that first): HalfCheetah, Hopper, InvertedDoublePendulum,
   InvertedPendulum, Reacher, Swimmer, Walker2d and Ant. Needs libmujoco (the Python package mujoco holds it).

   Robots learn to walk, swim, balance or reach. Observation, reward, end and reset are those of Gymnasium's
   environments of these names, version 5, the newest, or 4: mujoco_env("Hopper-v5"). A task is a row of the
   table in part 3. The models are XML files of the Python package gymnasium, in its folder
   envs/mujoco/assets; the environment variable MUJOCO_MODELS names it, or else the macro of this name at
   compile time.

   MuJoCo works in double. The state owns a model and its simulation, which open creates and close frees.
   Every reset starts the simulation anew, so an episode depends on its random numbers and actions alone. A
   failed allocation in MuJoCo ends the program, as MuJoCo does by default. */

#ifndef MUJOCO_TASKS_H
#define MUJOCO_TASKS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <mujoco/mujoco.h>

#include "canvas.h"

#ifndef MUJOCO_MODELS
#define MUJOCO_MODELS ""
#endif

/* --------------------------------------------------------------------------------------------------------
   1. A task and its simulation
   -------------------------------------------------------------------------------------------------------- */

typedef struct mujoco mujoco;

/* What a robot that moves forward is paid for, and when its episode ends: when it is not healthy. */
typedef struct mujoco_gait {
    int unseen;             /* its first positions, which are not observed: where it is */
    double fastest;         /* observed velocities are clipped to +- this */
    double effort_cost;     /* of the sum of the actions' squares */
    double bonus;           /* for being healthy; 0: it always is */
    double lowest, highest; /* healthy: its height, */
    double lean;            /* its angle: within +- this, */
    double limit;           /* and everything but its place: within +- this */
    double contact_cost;    /* of the sum of the contact forces' squares; 0: these are not observed either */
} mujoco_gait;

typedef struct mujoco_task {
    const char *name, *file;
    int version;                        /* of Gymnasium's environment */
    int obs, actions;                   /* numbers */
    float reach;                        /* actions are within +- this */
    int frames, steps;                  /* of physics per step; of an episode */
    int nq, nv, nbody;                  /* of the model: positions, velocities, bodies with the world */
    double noise, noise_v;              /* at reset, uniform within +- this: positions and velocities; */
    int normal;                         /* 1: those of the velocities are normal, with this deviation */
    const mujoco_gait *gait;            /* NULL: it does not move forward */
    double (*measure)(const mujoco *s); /* what the reward compares before and after a step; may be NULL */
    void (*observe)(const mujoco *s, float *obs);
    void (*judge)(const mujoco *s, double before, double effort, ppo_outcome *out);
    double across; /* meters in the picture; below 0: seen from above */
} mujoco_task;

struct mujoco {
    const mujoco_task *task;
    mjModel *model;
    mjData *data;
};

static inline double mujoco_clip(double x, double most) { return fmin(fmax(x, -most), most); }

/* --------------------------------------------------------------------------------------------------------
   2. Observations and rewards
   -------------------------------------------------------------------------------------------------------- */

/* Robots that move forward. The x of Ant's torso is that of the last physics frame's beginning. */
static inline double mujoco_x(const mujoco *s) {
    return s->model->nq == s->model->nv ? s->data->qpos[0] : s->data->xpos[3];
}

static inline double mujoco_force(const mujoco *s, int i) { return mujoco_clip(s->data->cfrc_ext[i], 1); }

static inline void mujoco_gait_observe(const mujoco *s, float *obs) {
    const mujoco_gait *gait = s->task->gait;
    const int forces = gait->contact_cost > 0 ? 6 * s->model->nbody : 0;
    for (int i = gait->unseen; i < s->model->nq; i++) *obs++ = (float)s->data->qpos[i];
    for (int i = 0; i < s->model->nv; i++) *obs++ = (float)mujoco_clip(s->data->qvel[i], gait->fastest);
    for (int i = 6; i < forces; i++) *obs++ = (float)mujoco_force(s, i); /* the first 6 are the world's */
}

static inline int mujoco_healthy(const mujoco *s) {
    const mujoco_gait *gait = s->task->gait;
    const int free = s->model->nq != s->model->nv; /* Ant: x, y, z and a quaternion */
    const double height = s->data->qpos[free ? 2 : 1], angle = free ? 0 : s->data->qpos[2];
    int healthy = height >= gait->lowest && height <= gait->highest && fabs(angle) < gait->lean;
    for (int i = 2; i < s->model->nq; i++) healthy &= fabs(s->data->qpos[i]) < gait->limit;
    for (int i = 0; i < s->model->nv; i++) healthy &= fabs(s->data->qvel[i]) < gait->limit;
    return healthy;
}

static inline void mujoco_gait_judge(const mujoco *s, double before, double effort, ppo_outcome *out) {
    const mujoco_gait *gait = s->task->gait;
    const double dt = s->model->opt.timestep * s->task->frames;
    const int healthy = gait->bonus > 0 ? mujoco_healthy(s) : 1;
    double reward = (mujoco_x(s) - before) / dt - gait->effort_cost * effort;
    if (healthy || s->task->version == 4) reward += gait->bonus;
    for (int i = 0; i < 6 * s->model->nbody && gait->contact_cost > 0; i++)
        reward -= gait->contact_cost * mujoco_force(s, i) * mujoco_force(s, i);
    out->reward = (float)reward;
    out->terminated = !healthy;
}

/* InvertedPendulum: cart and angle. */
static inline void mujoco_pole_observe(const mujoco *s, float *obs) {
    for (int i = 0; i < 2; i++) obs[i] = (float)s->data->qpos[i], obs[2 + i] = (float)s->data->qvel[i];
}

static inline void mujoco_pole_judge(const mujoco *s, double before, double effort, ppo_outcome *out) {
    (void)before, (void)effort;
    out->terminated = !(fabs(s->data->qpos[1]) <= 0.2);
    out->reward = s->task->version == 4 ? 1.0f : (float)!out->terminated;
}

/* InvertedDoublePendulum: a cart with two poles, one on the other; the forces hold the joints within limits. */
static inline void mujoco_poles_observe(const mujoco *s, float *obs) {
    *obs++ = (float)s->data->qpos[0];
    for (int i = 1; i < 3; i++) *obs++ = (float)sin(s->data->qpos[i]);
    for (int i = 1; i < 3; i++) *obs++ = (float)cos(s->data->qpos[i]);
    for (int i = 0; i < 3; i++) *obs++ = (float)mujoco_clip(s->data->qvel[i], 10);
    for (int i = 0; i < (s->task->version == 4 ? 3 : 1); i++)
        *obs++ = (float)mujoco_clip(s->data->qfrc_constraint[i], 10);
}

static inline void mujoco_poles_judge(const mujoco *s, double before, double effort, ppo_outcome *out) {
    const double x = s->data->site_xpos[0], y = s->data->site_xpos[2]; /* of the tip */
    const double v1 = s->data->qvel[1], v2 = s->data->qvel[2];
    const double penalty = 0.01 * x * x + (y - 2) * (y - 2) + 1e-3 * v1 * v1 + 5e-3 * v2 * v2;
    (void)before, (void)effort;
    out->terminated = !(y > 1);
    out->reward = (float)((out->terminated && s->task->version > 4 ? 0 : 10) - penalty);
}

/* Reacher: an arm of two links. Its fingertip and the target are the last two bodies. */
static inline double mujoco_reach(const mujoco *s, int axis) {
    const double *target = s->data->xpos + 3 * (s->model->nbody - 1);
    return target[axis - 3] - target[axis];
}

static inline double mujoco_distance(const mujoco *s) {
    const double x = mujoco_reach(s, 0), y = mujoco_reach(s, 1), z = mujoco_reach(s, 2);
    return sqrt(x * x + y * y + z * z);
}

static inline void mujoco_arm_observe(const mujoco *s, float *obs) {
    for (int i = 0; i < 2; i++) {
        obs[i] = (float)cos(s->data->qpos[i]);
        obs[2 + i] = (float)sin(s->data->qpos[i]);
        obs[4 + i] = (float)s->data->qpos[2 + i];
        obs[6 + i] = (float)s->data->qvel[i];
    }
    for (int i = 0; i < (s->task->version == 4 ? 3 : 2); i++) obs[8 + i] = (float)mujoco_reach(s, i);
}

/* Version 4 takes the distance before the step. */
static inline void mujoco_arm_judge(const mujoco *s, double before, double effort, ppo_outcome *out) {
    out->reward = (float)-((s->task->version == 4 ? before : mujoco_distance(s)) + effort);
}

/* --------------------------------------------------------------------------------------------------------
   3. The tasks
   -------------------------------------------------------------------------------------------------------- */

static const mujoco_gait mujoco_cheetah = {1, INFINITY, 0.1, 0, 0, 0, 0, 0, 0};
static const mujoco_gait mujoco_swimmer = {2, INFINITY, 1e-4, 0, 0, 0, 0, 0, 0};
static const mujoco_gait mujoco_hopper = {1, 10, 1e-3, 1, 0.7, INFINITY, 0.2, 100, 0};
static const mujoco_gait mujoco_walker = {1, 10, 1e-3, 1, 0.8, 2, 1, INFINITY, 0};
static const mujoco_gait mujoco_ant_v4 = {2, INFINITY, 0.5, 1, 0.2, 1, INFINITY, INFINITY, 0};
static const mujoco_gait mujoco_ant_v5 = {2, INFINITY, 0.5, 1, 0.2, 1, INFINITY, INFINITY, 5e-4};

#define MUJOCO_GAIT(gait) &gait, mujoco_x, mujoco_gait_observe, mujoco_gait_judge
#define MUJOCO_POLE       NULL, NULL, mujoco_pole_observe, mujoco_pole_judge
#define MUJOCO_POLES      NULL, NULL, mujoco_poles_observe, mujoco_poles_judge
#define MUJOCO_ARM        NULL, mujoco_distance, mujoco_arm_observe, mujoco_arm_judge

/* clang-format off */
static const mujoco_task mujoco_tasks[] = {
    {"HalfCheetah-v4",            "half_cheetah.xml",             4,  17, 6, 1, 5, 1000,  9,  9,  8, 0.1,   0.1,   1, MUJOCO_GAIT(mujoco_cheetah), 8},
    {"HalfCheetah-v5",            "half_cheetah.xml",             5,  17, 6, 1, 5, 1000,  9,  9,  8, 0.1,   0.1,   1, MUJOCO_GAIT(mujoco_cheetah), 8},
    {"Hopper-v4",                 "hopper.xml",                   4,  11, 3, 1, 4, 1000,  6,  6,  5, 0.005, 0.005, 0, MUJOCO_GAIT(mujoco_hopper),  6},
    {"Hopper-v5",                 "hopper.xml",                   5,  11, 3, 1, 4, 1000,  6,  6,  5, 0.005, 0.005, 0, MUJOCO_GAIT(mujoco_hopper),  6},
    {"InvertedDoublePendulum-v4", "inverted_double_pendulum.xml", 4,  11, 1, 1, 5, 1000,  3,  3,  4, 0.1,   0.1,   1, MUJOCO_POLES,                6},
    {"InvertedDoublePendulum-v5", "inverted_double_pendulum.xml", 5,   9, 1, 1, 5, 1000,  3,  3,  4, 0.1,   0.1,   1, MUJOCO_POLES,                6},
    {"InvertedPendulum-v4",       "inverted_pendulum.xml",        4,   4, 1, 3, 2, 1000,  2,  2,  3, 0.01,  0.01,  0, MUJOCO_POLE,                 4},
    {"InvertedPendulum-v5",       "inverted_pendulum.xml",        5,   4, 1, 3, 2, 1000,  2,  2,  3, 0.01,  0.01,  0, MUJOCO_POLE,                 4},
    {"Reacher-v4",                "reacher.xml",                  4,  11, 2, 1, 2,   50,  4,  4,  5, 0.1,   0.005, 0, MUJOCO_ARM,                 -1},
    {"Reacher-v5",                "reacher.xml",                  5,  10, 2, 1, 2,   50,  4,  4,  5, 0.1,   0.005, 0, MUJOCO_ARM,                 -1},
    {"Swimmer-v4",                "swimmer.xml",                  4,   8, 2, 1, 4, 1000,  5,  5,  4, 0.1,   0.1,   0, MUJOCO_GAIT(mujoco_swimmer), -8},
    {"Swimmer-v5",                "swimmer.xml",                  5,   8, 2, 1, 4, 1000,  5,  5,  4, 0.1,   0.1,   0, MUJOCO_GAIT(mujoco_swimmer), -8},
    {"Walker2d-v4",               "walker2d.xml",                 4,  17, 6, 1, 4, 1000,  9,  9,  8, 0.005, 0.005, 0, MUJOCO_GAIT(mujoco_walker),  6},
    {"Walker2d-v5",               "walker2d_v5.xml",              5,  17, 6, 1, 4, 1000,  9,  9,  8, 0.005, 0.005, 0, MUJOCO_GAIT(mujoco_walker),  6},
    {"Ant-v4",                    "ant.xml",                      4,  27, 8, 1, 5, 1000, 15, 14, 14, 0.1,   0.1,   1, MUJOCO_GAIT(mujoco_ant_v4),  6},
    {"Ant-v5",                    "ant.xml",                      5, 105, 8, 1, 5, 1000, 15, 14, 14, 0.1,   0.1,   1, MUJOCO_GAIT(mujoco_ant_v5),  6},
};
/* clang-format on */
enum { MUJOCO_TASKS = sizeof mujoco_tasks / sizeof *mujoco_tasks };

/* --------------------------------------------------------------------------------------------------------
   4. What ppo.h calls
   -------------------------------------------------------------------------------------------------------- */

/* A simulation that diverges is reset by MuJoCo, as in Gymnasium; its warning would go to a file. */
static inline void mujoco_ignore(const char *warning) { (void)warning; }

static inline int mujoco_fail(mujoco *s, const char *path, const char *reason) {
    ppo_fail(PPO_ERROR_ARGUMENT, "%s: %s", path, reason);
    if (s->data) mj_deleteData(s->data);
    if (s->model) mj_deleteModel(s->model);
    return 1;
}

static inline int mujoco_open(void *state, void *user, int copy) {
    mujoco *s = (mujoco *)state;
    const char *folder = getenv("MUJOCO_MODELS");
    char path[1024], error[256] = "";
    (void)copy;
    s->task = (const mujoco_task *)user;
    s->model = NULL;
    s->data = NULL;
    mju_user_warning = mujoco_ignore;
    if (!folder || !*folder) folder = MUJOCO_MODELS;
    snprintf(path, sizeof path, "%s/%s", folder, s->task->file);
    if (mj_version() != mjVERSION_HEADER)
        return mujoco_fail(s, mj_versionString(),
                           "not the version of MuJoCo that this program was compiled for");
    if (!*folder)
        return mujoco_fail(s, s->task->file, "set MUJOCO_MODELS to gymnasium's folder envs/mujoco/assets");
    s->model = mj_loadXML(path, NULL, error, sizeof error);
    if (!s->model) return mujoco_fail(s, path, *error ? error : "MuJoCo cannot load it");
    if (s->model->nq != s->task->nq || s->model->nv != s->task->nv || s->model->nbody != s->task->nbody ||
        s->model->nu != s->task->actions)
        return mujoco_fail(s, path, "not the model of Gymnasium's environment");
    s->data = mj_makeData(s->model);
    return s->data ? 0 : mujoco_fail(s, path, "out of memory");
}

static inline void mujoco_close(void *state) {
    mujoco *s = (mujoco *)state;
    mj_deleteData(s->data);
    mj_deleteModel(s->model);
}

/* Begins an episode at these positions [nq] and velocities [nv]. */
static inline void mujoco_begin(mujoco *s, const double *qpos, const double *qvel, float *obs) {
    mj_resetData(s->model, s->data);
    memcpy(s->data->qpos, qpos, (size_t)s->task->nq * sizeof *qpos);
    memcpy(s->data->qvel, qvel, (size_t)s->task->nv * sizeof *qvel);
    mj_forward(s->model, s->data);
    s->task->observe(s, obs);
}

static inline double mujoco_within(ppo_rng *rng, double most) {
    return ppo_rng_range(rng, (float)-most, (float)most);
}

static inline void mujoco_reset(void *state, ppo_rng *rng, float *obs) {
    mujoco *s = (mujoco *)state;
    const mujoco_task *task = s->task;
    double qpos[16], qvel[16];
    for (int i = 0; i < task->nq; i++) qpos[i] = s->model->qpos0[i] + mujoco_within(rng, task->noise);
    for (int i = 0; i < task->nv; i++)
        qvel[i] = task->normal ? task->noise_v * ppo_rng_normal(rng) : mujoco_within(rng, task->noise_v);
    if (task->judge == mujoco_arm_judge) { /* the target rests anywhere in a circle */
        do qpos[2] = mujoco_within(rng, 0.2), qpos[3] = mujoco_within(rng, 0.2);
        while (qpos[2] * qpos[2] + qpos[3] * qpos[3] >= 0.04);
        qvel[2] = qvel[3] = 0;
    }
    mujoco_begin(s, qpos, qvel, obs);
}

static inline void mujoco_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                               ppo_outcome *out) {
    mujoco *s = (mujoco *)state;
    const mujoco_task *task = s->task;
    const double before = task->measure ? task->measure(s) : 0;
    double effort = 0;
    (void)rng; /* the motion is deterministic */
    for (int i = 0; i < task->actions; i++) {
        const double force = action->box[i];
        s->data->ctrl[i] = force;
        effort += force * force;
    }
    for (int i = 0; i < task->frames; i++) mj_step(s->model, s->data);
    if (task->gait && task->gait->contact_cost > 0) mj_rnePostConstraint(s->model, s->data); /* cfrc_ext */
    task->judge(s, before, effort, out);
    task->observe(s, obs);
}

/* The robot from the side, or from above, in the middle; along the ground a mark for every meter. */
static inline void mujoco_draw(const void *state, FILE *file) {
    const mujoco *s = (const mujoco *)state;
    canvas picture = canvas_blank(63, 16);
    const double across = fabs(s->task->across), column = 62 / across, row = column / 2;
    const int up = s->task->across < 0 ? 1 : 2; /* the axis of the picture's height */
    const double left = (s->task->gait ? s->data->xpos[3] : 0) - across / 2;
    const double top = up == 2 ? 14 / row : (s->task->gait ? s->data->xpos[4] : 0) + 7.5 / row;
    for (double x = ceil(left); x < left + across; x++) canvas_put(&picture, (x - left) * column, 15, '|');
    for (int g = 0; g < s->model->ngeom; g++) {
        const double *center = s->data->geom_xpos + 3 * g, *turn = s->data->geom_xmat + 9 * g;
        const double half = s->model->geom_type[g] == mjGEOM_SPHERE ? 0 : s->model->geom_size[3 * g + 1];
        const double x = half * turn[2], y = half * turn[3 * up + 2]; /* along the geom's own z axis */
        if (s->model->geom_type[g] == mjGEOM_PLANE || s->model->geom_bodyid[g] == 0) continue;
        canvas_line(&picture, (center[0] - x - left) * column, (top - center[up] + y) * row,
                    (center[0] + x - left) * column, (top - center[up] - y) * row, half > 0 ? '#' : 'o');
    }
    canvas_print(&picture, file);
}

/* By name, a text that must stay: "Hopper-v5", or "Hopper-v5-unbounded", whose actions are not clipped to the
   box. MuJoCo clips the forces all the same, but the reward counts the whole effort, as in the runs of the paper.
   An unknown name: all zeros, which ppo.h refuses. */
static inline ppo_env mujoco_env(const char *name) {
    ppo_env env;
    memset(&env, 0, sizeof env);
    for (int i = 0; i < MUJOCO_TASKS; i++) {
        const mujoco_task *task = &mujoco_tasks[i];
        const size_t length = strlen(task->name);
        const float reach = strstr(name, "-unbounded") ? 1e6f : task->reach;
        if (strncmp(task->name, name, length) != 0) continue;
        if (name[length] && strcmp(name + length, "-unbounded") != 0) continue;
        env.name = name;
        env.obs_size = task->obs;
        env.action_space = ppo_box(task->actions, -reach, reach);
        env.state_size = sizeof(mujoco);
        env.max_steps = task->steps;
        env.reset = mujoco_reset;
        env.step = mujoco_step;
        env.draw = mujoco_draw;
        env.open = mujoco_open;
        env.close = mujoco_close;
        env.user = (void *)task;
    }
    return env;
}

#endif
