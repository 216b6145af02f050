/* rlhf_options.h - the command line of rlhf.c. Every setting of PPO on tokens is a flag, by ppo_rlhf_settings();
   those of fine-tuning go together into --fit; what is neither is in usage() and take_flag(). */
#ifndef RLHF_OPTIONS_H
#define RLHF_OPTIONS_H

#include "stages.h"

/* The tokenizer says which token ends a sequence; there is no tool to call. */
static int is_flag(const char *name) { return strcmp(name, "eos") != 0 && strcmp(name, "tool_token") != 0; }

static void print_settings(const ppo_settings *settings, const void *config) {
    for (int i = 0; i < settings->count; i++) {
        const ppo_field *field = &settings->field[i];
        char name[64], value[64] = "";
        if (!is_flag(field->name)) continue;
        snprintf(name, sizeof name, "%s", field->name);
        for (char *c = name; *c; c++) *c = *c == '_' ? '-' : *c;
        ppo_settings_get(settings, config, field->name, value, sizeof value);
        printf("  --%-24s %s [%s%s%s]\n", name, field->help, value, field->choices ? "; " : "",
               field->choices ? field->choices : "");
    }
}

static int usage(const run *r) {
    printf("usage: rlhf [--flag value] STAGE ...          in brackets: the default; what is allowed\n"
           "stages: sft reward ppo dpo bon rest, or all; sample shows what the ppo model writes\n\n"
           "  --task NAME                sentences, or words (needs a word list: Debian's wamerican) "
           "[sentences]\n"
           "  --dir FOLDER               where models are written and read, a folder for each task [%s]\n"
           "  --best-of N                samples per prompt of bon [%d]\n"
           "  --fit SETTINGS             of sft, reward, dpo, rest, as \"epochs=2 batch_size=16\"; see "
           "ppo_fit_config\n"
           "  --threads N                to compute with; the results are the same for any number [%d]\n"
           "  --kernels NAME             plain or a set like avx2; else the best here\n"
           "  --device NAME              cpu, or cuda for a GPU (after `make cuda`) [%s]\n"
           "  --preset NAME              settings of ppo: %s\n"
           "  --json                     one line of results at the end, and nothing else\n"
           "  --quiet                    no progress\n\n"
           "of ppo (the seed is that of all stages):\n",
           r->dir, r->best_of, r->threads, r->device, ppo_rlhf_settings()->preset_names);
    print_settings(ppo_rlhf_settings(), &r->ppo);
    return fflush(stdout) || ferror(stdout);
}

static int complain(const char *flag, const char *problem) {
    fprintf(stderr, "rlhf: %s: %s\n", flag, problem);
    return 0;
}

/* A whole number from 1 to most; 0 after a complaint. */
static int take_number(const char *flag, const char *value, int most, int *number) {
    char *end;
    long x = strtol(value, &end, 10);
    *number = (int)x;
    return (end > value && !*end && x >= 1 && x <= most) || complain(flag, "not a number that is allowed");
}

/* A flag with its value; 0 after a complaint. */
static int take_flag(run *r, const char *flag, const char *value) {
    if (!strcmp(flag, "--dir")) return r->dir = value, 1;
    if (!strcmp(flag, "--device")) return r->device = value, 1;
    if (!strcmp(flag, "--kernels")) return !ppo_use_kernels(value) || complain(flag, ppo_last_error());
    if (!strcmp(flag, "--preset"))
        return !ppo_rlhf_config_preset(&r->ppo, value) || complain(flag, ppo_last_error());
    if (!strcmp(flag, "--best-of")) return take_number(flag, value, 10000, &r->best_of);
    if (!strcmp(flag, "--threads")) return take_number(flag, value, 1024, &r->threads);
    if (!strcmp(flag, "--fit")) {
        ppo_fit_config config = ppo_fit_config_default();
        r->fit = value;
        return !ppo_settings_set_all(ppo_fit_settings(), &config, value) || complain(flag, ppo_last_error());
    }
    if (!strcmp(flag, "--task")) {
        r->lab.task = NULL;
        for (int k = 0; k < TASKS; k++) r->lab.task = strcmp(tasks[k].name, value) ? r->lab.task : &tasks[k];
        return r->lab.task || complain(value, "there is no such task, see --help");
    }
    char text[64];
    if (ppo_settings_get(ppo_rlhf_settings(), &r->ppo, flag + 2, text, sizeof text) || !is_flag(flag + 2))
        return complain(flag, "there is no such flag, see --help");
    return !ppo_settings_set(ppo_rlhf_settings(), &r->ppo, flag + 2, value) ||
           complain(flag, ppo_last_error());
}

/* Flags and stages in any order; the stages move to the front of argv. Returns how many, 0 after a complaint,
   -1 if help is wanted. */
static int read_flags(run *r, int argc, char **argv) {
    int stages = 0;
    memset(r, 0, sizeof *r);
    r->lab.task = &tasks[0];
    r->device = "cpu";
    r->dir = "build/models";
    r->threads = 1;
    r->best_of = 16;
    r->fit = "";
    r->ppo = ppo_rlhf_config_default();
    ppo_settings_set_all(ppo_rlhf_settings(), &r->ppo, ppo_defaults);
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return -1; /* whatever else is wrong */
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json")) r->json = r->quiet = 1;
        else if (!strcmp(argv[i], "--quiet")) r->quiet = 1;
        else if (strncmp(argv[i], "--", 2) != 0) argv[stages++] = argv[i];
        else if (i + 1 == argc) return complain(argv[i], "a value is missing");
        else if (i++, !take_flag(r, argv[i - 1], argv[i])) return 0;
    }
    if (r->ppo.iterations < 1) return complain("--iterations", "must be 1 or more");
    r->lab.seed = r->ppo.seed;
    r->lab.slots = r->ppo.slots;
    return stages ? stages : complain("which stage?", "see --help");
}

#endif
