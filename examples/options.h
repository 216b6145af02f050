/* options.h - the command line of train.c: the environments by name, and flags that fill a ppo_config.

   Every field of ppo_config is a flag, by ppo_config_settings(); what is not a field is in the table `flags` below.
   Settings come first from a saved file (--resume, --load, --watch), or else from the environment's row; then from a
   --preset; then from the other flags, in whatever order they stand. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

#include "envs/acrobot.h"
#include "envs/breakout.h"
#include "envs/cartpole.h"
#include "envs/gold.h"
#include "envs/gridworld.h"
#include "envs/invaders.h"
#include "envs/memory.h"
#include "envs/minatar.h"
#include "envs/mountaincar.h"
#include "envs/mountaincar_continuous.h"
#include "envs/pendulum.h"
#include "envs/tictactoe.h"

/* The games of 10 x 10 pixels. */
static const char of_pixels[] = "num_envs=64 rollout_steps=128 minibatch_size=256 epochs=4 "
                                "learning_rate=5e-3 entropy_coef=0.01 activation=relu "
                                "conv=8x3x1 hidden=128 shared_trunk=yes total_steps=1000000";

/* A new environment is an #include above and a row here: its name, its description, and settings with which it is
   learned, where the defaults are not enough (those of the zoo of Stable-Baselines3, where it has them). */
static const struct {
    const char *name;
    ppo_env (*make)(void);
    const char *settings;
} environments[] = {
    {"CartPole-v1", cartpole_env, ""},
    {"Acrobot-v1", acrobot_env,
     "num_envs=16 rollout_steps=256 epochs=4 gae_lambda=0.94 normalize_obs=yes normalize_reward=yes "
     "learning_rate_schedule=constant value_coef=1 total_steps=1000000"},
    {"MountainCar-v0", mountaincar_env,
     "num_envs=16 rollout_steps=16 epochs=4 gae_lambda=0.98 normalize_obs=yes normalize_reward=yes "
     "learning_rate_schedule=constant value_coef=1 total_steps=1000000"},
    {"MountainCarContinuous-v0", mountaincar_continuous_env,
     "num_envs=1 rollout_steps=8 minibatch_size=8 epochs=10 learning_rate=7.77e-5 gamma=0.9999 "
     "learning_rate_schedule=constant gae_lambda=0.9 clip_low=0.1 clip_high=0.1 value_coef=0.38 "
     "entropy_coef=0.00429 max_grad_norm=5 gsde=yes log_std_init=-3.29 init=uniform normalize_obs=yes "
     "normalize_reward=yes total_steps=20000"},
    {"Pendulum-v1", pendulum_env,
     "rollout_steps=1024 gamma=0.9 learning_rate=1e-3 learning_rate_schedule=constant value_coef=1 gsde=yes "
     "gsde_steps=4"},
    {"Memory-v0", memory_env, "recurrent=16"},
    {"TicTacToe-v0", tictactoe_env,
     "num_envs=16 minibatch_size=256 learning_rate=1e-3 entropy_coef=0.02 activation=relu "
     "total_steps=300000"},
    {"Breakout", breakout_env, of_pixels},
    {"Gold", gold_env, of_pixels},
    {"Invaders", invaders_env, of_pixels},
    {"MinAtar/Asterix-v1", minatar_asterix_env, of_pixels},
    {"MinAtar/Breakout-v1", minatar_breakout_env, of_pixels},
    {"MinAtar/Freeway-v1", minatar_freeway_env, of_pixels},
    {"MinAtar/Seaquest-v1", minatar_seaquest_env, of_pixels},
    {"MinAtar/SpaceInvaders-v1", minatar_space_invaders_env, of_pixels},
    {"GridWorld-v0", gridworld_env, "gamma=1 hidden=none learning_rate=3e-3"},
#ifdef MORE_ENVIRONMENTS
    MORE_ENVIRONMENTS
#endif
};
enum { ENVIRONMENTS = sizeof environments / sizeof *environments };

typedef struct options {
    ppo_config config;
    ppo_env env;
    const char *env_name, *preset, *kernels; /* NULL: not given */
    const char *resume, *load, *watch, *save, *csv, *tensorboard, *export_to,
        *export_int8; /* paths, or NULL */
    const char *save_best;
    float target_return; /* NAN: none */
    int save_every, eval_every, eval_episodes, no_train, inspect, json, quiet, help;
    int seeds, trials, jobs; /* 0: not given */
    const char *study;       /* a folder */
    const char *program;     /* as it was called */
    char saved_env[64];      /* the environment of the saved file */
} options;

static int fail(const char *format, ...) {
    va_list args;
    if (!speaks()) return 1;
    va_start(args, format);
    fprintf(stderr, "train: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    return 1;
}

/* 1: this output, 1 or 2, is a person's, not a file or a pipe. */
static int is_terminal(int output) {
#if defined(__unix__) || defined(__APPLE__)
    return isatty(output);
#else
    return output > 0;
#endif
}

static int processors(void) {
#ifdef _SC_NPROCESSORS_ONLN
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 1 ? (int)n : 1;
#else
    return 1;
#endif
}

/* The flags that are no settings. */
enum { TEXT, NUMBER, FEW, STEPS, REAL, SWITCH };
static const struct flag {
    const char *name, *value, *help;
    int kind;
    size_t offset; /* in options: a const char *, an int, or a float */
} flags[] = {
    {"env", "NAME", "the environment", TEXT, offsetof(options, env_name)},
    {"preset", "NAME", "known settings, to start from", TEXT, offsetof(options, preset)},
    {"save", "FILE", "writes a checkpoint, also a policy, as training goes", TEXT, offsetof(options, save)},
    {"save-every", "N", "iterations between two checkpoints", NUMBER, offsetof(options, save_every)},
    {"save-best", "FILE", "writes the policy of the best evaluation; a new run replaces it", TEXT,
     offsetof(options, save_best)},
    {"eval-every", "STEPS", "evaluates as training goes; with --save-best, --target-return", STEPS,
     offsetof(options, eval_every)},
    {"target-return", "R", "ends the training when the mean return of an evaluation is R", REAL,
     offsetof(options, target_return)},
    {"resume", "FILE", "continues from a checkpoint, with its settings", TEXT, offsetof(options, resume)},
    {"load", "FILE", "starts from the weights and the settings of a policy", TEXT, offsetof(options, load)},
    {"watch", "FILE", "plays a saved policy in the terminal", TEXT, offsetof(options, watch)},
    {"csv", "FILE", "writes progress.csv, as Stable-Baselines3 does", TEXT, offsetof(options, csv)},
    {"tensorboard", "DIR", "writes TensorBoard's event files", TEXT, offsetof(options, tensorboard)},
    {"export", "FILE.h", "writes the policy as a C header; FILE.onnx: as an ONNX model", TEXT,
     offsetof(options, export_to)},
    {"export-int8", "FILE.h", "the same with weights of 8 bits, a third of the size", TEXT,
     offsetof(options, export_int8)},
    {"eval-episodes", "N", "fresh episodes of an evaluation, also after the training", NUMBER,
     offsetof(options, eval_episodes)},
    {"seeds", "N", "trains with N seeds, and tells the mean of their middle half", FEW,
     offsetof(options, seeds)},
    {"trials", "N", "tries N settings, the best of them longer and longer", FEW, offsetof(options, trials)},
    {"study", "DIR", "where --trials keeps what it has found, and continues [build/study]", TEXT,
     offsetof(options, study)},
    {"jobs", "N", "runs of --seeds and --trials at a time", NUMBER, offsetof(options, jobs)},
    {"kernels", "NAME", "plain or a set like avx2; else the best here", TEXT, offsetof(options, kernels)},
    {"no-train", "", "only evaluates what was loaded, and exports it", SWITCH, offsetof(options, no_train)},
    {"inspect", "", "plays the environment at random, and says what may go wrong", SWITCH,
     offsetof(options, inspect)},
    {"json", "", "stdout gets one line of JSON and nothing else", SWITCH, offsetof(options, json)},
    {"quiet", "", "no progress, no curve", SWITCH, offsetof(options, quiet)},
    {"help", "", "prints this", SWITCH, offsetof(options, help)},
};
enum { FLAGS = sizeof flags / sizeof *flags };

static void print_help(const options *o) {
    int count;
    const ppo_field *field = ppo_config_settings()->field;
    count = ppo_config_settings()->count;
    printf("usage: train [--flag value | --flag=value] ...    in brackets: the default; what is allowed\n\n");
    for (int i = 0; i < FLAGS; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s %s", flags[i].name, flags[i].value);
        printf("  --%-24s %s", name, flags[i].help);
        const int *number = (const int *)((const char *)o + flags[i].offset);
        if ((flags[i].kind == NUMBER || flags[i].kind == STEPS) && *number) printf(" [%d]", *number);
        printf("\n");
    }
    printf("  --steps N                  the same as --total-steps\n\n");
    printf("environments, and the settings that each begins with, before --preset and flags:\n");
    for (int i = 0; i < ENVIRONMENTS; i++)
        printf("  %s %s\n", environments[i].name, environments[i].settings);
#ifndef MORE_ENVIRONMENTS
    printf("  (more: make lunarlander, make mujoco)\n");
#endif
    printf("presets: %s\n\n", ppo_config_settings()->preset_names);
    for (; count-- > 0; field++) {
        char name[64], value[256] = "";
        snprintf(name, sizeof name, "%s", field->name);
        for (char *c = name; *c; c++) *c = *c == '_' ? '-' : *c;
        ppo_config_get(&o->config, field->name, value, sizeof value);
        printf("  --%-24s %s [%s; ", name, field->help, value);
        if (field->choices) { /* a schedule of one's own is a function: no command line can give it */
            const char *custom = strstr(field->choices, "|custom");
            printf("%.*s]\n", custom ? (int)(custom - field->choices) : 1000, field->choices);
        } else if (field->max >= 1e9) printf("%g or more]\n", field->min);
        else printf("%g to %.9g]\n", field->min, field->max);
    }
}

/* The next flag of the command line, "--name value" or "--name=value", from argv[*at] on; NULL after the last. */
static const char *next_flag(int argc, char **argv, int *at, char name[64], const char **value) {
    if (*at >= argc) return NULL;
    const char *text = argv[(*at)++], *equals = strchr(text, '=');
    const char *bare = strncmp(text, "--", 2) == 0 ? text + 2 : text;
    snprintf(name, 64, "%.*s", (int)strcspn(bare, "="), bare);
    *value = equals ? equals + 1 : NULL;
    if (!equals && *at < argc && strncmp(argv[*at], "--", 2) != 0) *value = argv[(*at)++];
    return text;
}

static const struct flag *find_flag(const char *name) {
    for (int i = 0; i < FLAGS; i++)
        if (strcmp(flags[i].name, name) == 0) return &flags[i];
    return NULL;
}

static int take_flag(options *o, const struct flag *f, const char *value) {
    void *at = (char *)o + f->offset;
    char *end;
    if (f->kind == SWITCH) {
        *(int *)at = 1;
        return value ? fail("no value belongs to --%s", f->name) : 0;
    }
    if (!value || !*value) return fail("a value is missing after --%s", f->name);
    if (f->kind == TEXT) {
        *(const char **)at = value;
        return 0;
    }
    if (f->kind == REAL) {
        *(float *)at = strtof(value, &end);
        return end == value || *end || !isfinite(*(float *)at)
                   ? fail("--%s is a number, not %s", f->name, value)
                   : 0;
    }
    const long n = strtol(value, &end, 10), most = f->kind == STEPS ? 1000000000
                                                   : f->kind == FEW ? 1000
                                                                    : 1000000;
    if (end == value || *end || n < 1 || n > most)
        return fail("--%s is a number from 1 to %ld, not %s", f->name, most, value);
    *(int *)at = (int)n;
    return 0;
}

static int is_setting(const options *o, const char *name) {
    char text[1024];
    return strcmp(name, "steps") == 0 || !ppo_config_get(&o->config, name, text, sizeof text);
}

static int take_setting(options *o, const char *name, const char *value) {
    if (!value) return fail("a value is missing after --%s", name);
    if (strcmp(name, "steps") == 0) name = "total_steps";
    return ppo_config_set(&o->config, name, value) ? fail("%s", ppo_last_error()) : 0;
}

/* One pass over the command line: for the flags of the table, or for the settings. 0 if it worked. */
static int parse(options *o, int argc, char **argv, int settings) {
    char name[64];
    const char *value, *text;
    for (int at = 1; (text = next_flag(argc, argv, &at, name, &value)) != NULL;) {
        if (strncmp(text, "--", 2) != 0) return fail("a flag starts with --, unlike %s", text);
        const struct flag *f = find_flag(name);
        if (!f && !is_setting(o, name)) return fail("there is no flag --%s, see --help", name);
        if (f && !settings && take_flag(o, f, value)) return 1;
        if (!f && settings && take_setting(o, name, value)) return 1;
    }
    return 0;
}

/* What would do harm together, or nothing, is refused. 0 if all is well. */
static int check_together(const options *o) {
    int writes = o->save || o->csv || o->tensorboard,
        judges = o->eval_every || o->save_best || !isnan(o->target_return);
    if (!!o->resume + !!o->load + !!o->watch > 1) return fail("one of --resume, --load, --watch at a time");
    if (o->watch && (writes || judges || o->export_to || o->export_int8 || o->json || o->no_train))
        return fail(
            "--watch goes with no --save, --save-best, --eval-every, --target-return, --csv, --tensorboard, "
            "--export, --export-int8, --json, --no-train");
    if ((o->seeds || o->trials) && (writes || judges || o->watch || o->resume || o->no_train ||
                                    o->export_to || o->export_int8 || o->inspect || (o->seeds && o->trials)))
        return fail(
            "--seeds and --trials go with no --save, --save-best, --eval-every, --target-return, --csv, "
            "--tensorboard, --export, --export-int8, --resume, --watch, --no-train, --inspect, and not "
            "together");
    if (o->trials && (o->load || o->json)) return fail("--trials goes with no --load, --json");
    if (o->study && !o->trials) return fail("--study goes with --trials");
#ifdef WITH_MPI
    if (o->seeds || o->trials) return fail("--seeds and --trials run in one process");
#endif
    if (o->save_every && !o->save) return fail("--save-every goes with --save");
    if (o->no_train && (writes || judges || !(o->resume || o->load)))
        return fail(
            "--no-train needs --load or --resume, and goes with no --save, --save-best, --eval-every, "
            "--target-return, --csv, --tensorboard");
    return 0;
}

/* The row of the environment, -1 after a complaint. */
static int find_environment(const options *o, const char *file) {
    const char *name = o->env_name ? o->env_name : *o->saved_env ? o->saved_env : environments[0].name;
    for (int i = 0; i < ENVIRONMENTS; i++)
        if (strcmp(environments[i].name, name) == 0) return i;
    if (o->env_name) fail("--env: there is no such environment, see --help: %s", name);
    else fail("%s: its environment, %s, needs a row in examples/options.h", file, name);
    return -1;
}

/* What the environment's row, a preset or a file has set, and the command line has made useless, gets its default:
   the library refuses settings without effect. Those of the command line itself stay, to be refused. */
static ppo_status drop_useless(options *o, const ppo_config *before, int keep_network) {
    const ppo_settings *all = ppo_config_settings();
    const ppo_config usual = ppo_config_default();
    ppo_status status = PPO_OK;
    for (int i = 0; i < all->count && !status; i++) {
        const char *name = all->field[i].name;
        char was[1024], is[1024];
        status = ppo_config_get(before, name, was, sizeof was);
        if (!status) status = ppo_config_get(&o->config, name, is, sizeof is);
        if (status || strcmp(was, is) || !ppo_config_check_effect(&o->config, &o->env, name)) continue;
        if (keep_network && all->field[i].kind == PPO_FIELD_NETWORK) continue;
        ppo_config_get(&usual, name, is, sizeof is);
        status = ppo_config_set(&o->config, name, is);
    }
    return status;
}

/* Everything from the command line. 0 if it worked. */
static int read_options(options *o, int argc, char **argv) {
    memset(o, 0, sizeof *o);
    o->config = ppo_config_default();
    o->program = argv[0];
    o->save_every = 10;
    o->eval_every = 10000;
    o->eval_episodes = 20;
    o->jobs = processors();
    o->target_return = NAN;
    for (int i = 1; i < argc; i++) o->help |= strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
    if (o->help) return 0;             /* whatever else is wrong */
    o->save_every = o->eval_every = 0; /* not given */
    if (parse(o, argc, argv, 0) || check_together(o)) return 1;
    if (!o->save_every) o->save_every = 10;
    if (!o->eval_every && (o->save_best || !isnan(o->target_return))) o->eval_every = 10000;
    const char *from = o->resume ? o->resume : o->load ? o->load : o->watch;
    ppo_status status = from ? ppo_config_load(from, &o->config, o->saved_env) : PPO_OK;
    int row = status ? -1 : find_environment(o, from);
    if (row < 0) return status ? fail("%s", ppo_last_error()) : 1;
    o->env = environments[row].make();
    if (!from) status = ppo_config_set_all(&o->config, environments[row].settings);
    if (!status && o->preset) status = ppo_config_preset(&o->config, o->preset);
    if (!status && o->kernels) status = ppo_use_kernels(o->kernels);
    ppo_config before = o->config;
    if (!status && parse(o, argc, argv, 1)) return 1;
    if (!status) status = drop_useless(o, &before, from != NULL);
    if (ppo_group_rank()) o->quiet = 1, o->csv = o->tensorboard = o->export_to = o->export_int8 = NULL;
    return status ? fail("%s", ppo_last_error()) : 0;
}

/* A new agent and its trainer, or those of a saved file. */
static ppo_status start(const options *o, ppo_agent **agent, ppo_trainer **trainer) {
    if (o->resume) return ppo_trainer_resume(o->resume, &o->env, &o->config, agent, trainer);
    ppo_status status =
        o->load ? ppo_agent_load(o->load, &o->env, agent) : ppo_agent_create(&o->env, &o->config, agent);
    return status ? status : ppo_trainer_create(&o->env, &o->config, *agent, trainer);
}

#endif
