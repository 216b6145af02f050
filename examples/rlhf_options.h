/* rlhf_options.h - the command line of rlhf.c. */
#ifndef RLHF_OPTIONS_H
#define RLHF_OPTIONS_H

#include "stages.h"

static int usage(void) {
    printf(
        "usage: rlhf [--flag value] STAGE ...\n"
        "stages: sft reward ppo dpo bon rest, or all; sample shows what the ppo model writes\n"
        "  --task NAME        sentences (default) or words (needs a word list: Debian's wamerican)\n"
        "  --dir FOLDER       where models are written and read, in a folder for each task [build/models]\n"
        "  --seed N           [1]\n"
        "  --iterations N     of PPO [60]\n"
        "  --kl-coef X        of PPO: how dear it is to leave the sft model [0.2]\n"
        "  --best-of N        samples per prompt of bon [16]\n"
        "  --threads N        to compute with; the results are the same for any number [1]\n"
        "  --device NAME      cpu, or cuda for a GPU (after `make cuda`) [cpu]\n"
        "  --json             one line of results at the end, and nothing else\n"
        "  --quiet            no progress\n");
    return 0;
}

/* A number from least to most, or NaN after a complaint. */
static double number(const char *flag, const char *text, double least, double most) {
    char  *end;
    double x = strtod(text, &end);
    if (end > text && !*end && x >= least && x <= most) return x;
    fprintf(stderr, "rlhf: %s is a number from %g to %g, not %s\n", flag, least, most, text);
    return NAN;
}

/* A flag with its value; 0 after a complaint. */
static int take(run *r, const char *flag, const char *value) {
    double x = 0;
    if (!strcmp(flag, "--dir")) r->dir = value;
    else if (!strcmp(flag, "--device")) r->device = value;
    else if (!strcmp(flag, "--seed")) r->lab.seed = (uint64_t)(x = number(flag, value, 0, 1e9));
    else if (!strcmp(flag, "--iterations")) r->iterations = (int)(x = number(flag, value, 1, 1e6));
    else if (!strcmp(flag, "--best-of")) r->best_of = (int)(x = number(flag, value, 1, 1e4));
    else if (!strcmp(flag, "--kl-coef")) r->kl_coef = (float)(x = number(flag, value, 0, 1e3));
    else if (!strcmp(flag, "--threads")) r->threads = (int)(x = number(flag, value, 1, 1024));
    else if (!strcmp(flag, "--task")) {
        r->lab.task = NULL;
        for (int k = 0; k < TASKS; k++) r->lab.task = strcmp(tasks[k].name, value) ? r->lab.task : &tasks[k];
        if (!r->lab.task) return fprintf(stderr, "rlhf: there is no task %s, see --help\n", value), 0;
    } else return fprintf(stderr, "rlhf: there is no flag %s, see --help\n", flag), 0;
    return !isnan(x);
}

/* Flags and stages in any order; the stages move to the front of argv. Returns how many, 0 after a complaint,
   -1 if help is wanted. */
static int read_flags(run *r, int argc, char **argv) {
    int stages = 0;
    memset(r, 0, sizeof *r);
    r->lab.task = &tasks[0];
    r->lab.seed = 1;
    r->lab.slots = 16;
    r->device = "cpu";
    r->dir = "build/models";
    r->iterations = 60;
    r->threads = 1;
    r->best_of = 16;
    r->kl_coef = 0.2f;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return -1; /* whatever else is wrong */
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json")) r->json = r->quiet = 1;
        else if (!strcmp(argv[i], "--quiet")) r->quiet = 1;
        else if (strncmp(argv[i], "--", 2) != 0) argv[stages++] = argv[i];
        else if (i + 1 == argc) return fprintf(stderr, "rlhf: a value is missing after %s\n", argv[i]), 0;
        else if (i++, !take(r, argv[i - 1], argv[i])) return 0;
    }
    if (!stages) fprintf(stderr, "rlhf: which stage? See --help\n");
    return stages;
}

#endif
