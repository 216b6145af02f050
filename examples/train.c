/* train.c - trains a policy from the command line; every field of ppo_config is a flag.

   It teaches how a program drives ppo_train(): settings by name, a callback that watches the run and can end it, an
   evaluation on fresh episodes. You will see a progress line, the learning curve and, last, a line like
       eval: mean return 500.0 +- 0.0 over 20 episodes, 100000 steps in 0.71 s
   Ctrl-C ends the training early; what was learned until then is evaluated all the same. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "envs/cartpole.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const struct { /* a new environment is an #include above and a row here */
    const char *name;
    ppo_env (*make)(void);
} environments[] = {
    {"CartPole-v1", cartpole_env},
};
enum { ENVIRONMENTS = sizeof environments / sizeof *environments, MAX_POINTS = 1024 };

typedef struct options {
    ppo_config config;
    int        env; /* row of the table */
    int        eval_episodes, json, quiet, help;
} options;

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig) {
    interrupted = 1;
    signal(sig, SIG_DFL); /* the second Ctrl-C kills */
}

static int fail(const char *reason, const char *what) {
    fprintf(stderr, "train: %s%s\n", reason, what);
    return 1;
}

static void print_help(const options *o) {
    int              count;
    const ppo_field *field = ppo_config_fields(&count);
    printf("usage: train [--flag value | --flag=value] ...    in brackets: the default; what is allowed\n\n"
           "  --env NAME               [%s",
           environments[0].name);
    for (int i = 0; i < ENVIRONMENTS; i++) printf("%s%s", i == 0 ? "; " : "|", environments[i].name);
    printf("]\n"
           "  --eval-episodes N        fresh episodes after the training [%d; 1 to 1000000]\n"
           "  --kernels NAME           the instruction set [%s, the best here; plain avx2 avx512 neon]\n"
           "  --json                   stdout gets one line of JSON and nothing else\n"
           "  --quiet                  no progress, no curve\n"
           "  --steps N                the same as --total-steps\n\n",
           o->eval_episodes, ppo_kernels_name());
    for (; count-- > 0; field++) {
        char flag[64], value[256] = "";
        snprintf(flag, sizeof flag, "%s", field->name);
        for (char *c = flag; *c; c++) *c = *c == '_' ? '-' : *c;
        ppo_config_get(&o->config, field->name, value, sizeof value);
        printf("  --%-22s %s [%s; ", flag, field->help, value);
        if (field->choices) printf("%s]\n", field->choices);
        else if (field->max >= 1e9) printf("%g or more]\n", field->min);
        else printf("%g to %.9g]\n", field->min, field->max);
    }
}

static int set_value(options *o, const char *name, const char *value) { /* 0 if it worked */
    if (!strcmp(name, "env")) {
        for (o->env = 0; o->env < ENVIRONMENTS; o->env++)
            if (!strcmp(environments[o->env].name, value)) return 0;
        return fail("--env: there is no such environment, see --help: ", value);
    }
    if (!strcmp(name, "eval-episodes")) {
        char *end;
        long  n = strtol(value, &end, 10);
        o->eval_episodes = (int)n;
        if (end > value && !*end && n >= 1 && n <= 1000000) return 0;
        return fail("--eval-episodes is a number from 1 to 1000000, not ", value);
    }
    ppo_status status = !strcmp(name, "kernels") ? ppo_use_kernels(value)
                        : !strcmp(name, "steps") ? ppo_config_set(&o->config, "total_steps", value)
                                                 : ppo_config_set(&o->config, name, value);
    return status == PPO_OK ? 0 : fail("", ppo_last_error());
}

static int parse(options *o, int argc, char **argv) { /* 0 if it worked */
    for (int i = 1; i < argc; i++) {
        char name[64], *value = strchr(argv[i], '=');
        if (!strcmp(argv[i], "-h")) argv[i] = (char *)"--help";
        if (strncmp(argv[i], "--", 2) != 0) return fail("a flag starts with --, unlike ", argv[i]);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(argv[i] + 2, "="), argv[i] + 2);
        int *flag = !strcmp(name, "json")    ? &o->json
                    : !strcmp(name, "quiet") ? &o->quiet
                    : !strcmp(name, "help")  ? &o->help
                                             : NULL;
        if (flag && value) return fail("no value belongs to --", name);
        if (flag) *flag = 1;
        else if (!value && (i + 1 == argc || !strncmp(argv[i + 1], "--", 2)))
            return fail("a value is missing after --", name);
        else if (set_value(o, name, value ? value + 1 : argv[++i])) return 1;
    }
    return 0;
}

typedef struct history { /* what the callback gathers */
    long  steps, stride; /* done so far; iterations per point */
    int   quiet, points;
    float x[MAX_POINTS], y[MAX_POINTS];
} history;

static int on_iteration(const ppo_progress *p, void *user) {
    history *h = (history *)user;
    h->steps = p->steps;
    if (h->points == MAX_POINTS) { /* full: every second point is kept, and half as many follow */
        for (h->points = 0; h->points < MAX_POINTS / 2; h->points++) {
            h->x[h->points] = h->x[2 * h->points + 1];
            h->y[h->points] = h->y[2 * h->points + 1];
        }
        h->stride *= 2;
    }
    if (p->iteration % h->stride == 0) {
        h->x[h->points] = (float)p->steps;
        h->y[h->points++] = p->mean_return; /* NaN before the first finished episode */
    }
    if (!h->quiet) ppo_print_progress(p, stderr);
    if (interrupted && !h->quiet) fprintf(stderr, "\ninterrupted: this is what was learned until now\n");
    return interrupted;
}

static const char *json_number(char text[64], float x) { /* JSON has no NaN */
    if (!isfinite(x)) return "null";
    snprintf(text, 64, "%.1f", x);
    return text;
}

int main(int argc, char **argv) {
    static history h = {.stride = 1};
    options        o = {.config = ppo_config_default(), .eval_episodes = 20};
    char           mean[64], std[64];
    if (parse(&o, argc, argv)) return 1;
    if (o.help) return print_help(&o), fflush(stdout) ? fail("the help could not be written", "") : 0;

    ppo_env    env = environments[o.env].make();
    ppo_agent *agent = NULL;
    h.quiet = o.quiet;
    o.config.callback = on_iteration;
    o.config.callback_user = &h;
    signal(SIGINT, on_interrupt);
    double start = ppo_clock();
    if (ppo_train(&env, &o.config, &agent) != PPO_OK) return fail("", ppo_last_error());
    double seconds = ppo_clock() - start;

    if (!o.quiet) ppo_print_curve(o.json ? stderr : stdout, "mean return", h.x, h.y, h.points, 72, 16);
    ppo_evaluation e = ppo_evaluate(agent, &env, o.eval_episodes, o.config.seed);
    ppo_agent_free(agent);
    if (e.status != PPO_OK) return fail("", ppo_last_error());
    if (o.json)
        printf("{\"env\":\"%s\",\"seed\":%llu,\"steps\":%ld,\"seconds\":%.2f,\"steps_per_second\":%.0f,"
               "\"eval_mean_return\":%s,\"eval_std_return\":%s,\"eval_episodes\":%d}\n",
               environments[o.env].name, (unsigned long long)o.config.seed, h.steps, seconds,
               (double)h.steps / seconds, json_number(mean, e.mean_return), json_number(std, e.std_return),
               e.episodes);
    else
        printf("eval: mean return %.1f +- %.1f over %d episodes, %ld steps in %.2f s\n", e.mean_return,
               e.std_return, e.episodes, h.steps, seconds);
    return fflush(stdout) || ferror(stdout) ? fail("the results could not be written", "") : 0;
}
