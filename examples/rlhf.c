/* rlhf.c - reinforcement learning from human feedback, whole: a tiny language model learns to write (sft), people
   compare its samples and a reward model learns what they like (reward), and PPO makes the model write that (ppo).
   Beside PPO: DPO (dpo), best-of-n (bon) and filtered fine-tuning (rest).

       build/rlhf all                               every stage, with samples before and after
       build/rlhf sft reward ppo --dir build/mine   some of them; each reads and writes files in the folder

   You will see the TRUE reward rise, which here is known (tasks.h); the models only ever see comparisons. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#ifdef __CUDACC__ /* `make cuda` compiles this file with nvcc */
#include "ppo_cuda.cuh"
#endif
#include "stages.h"

static const struct stage {
    const char *name;
    ppo_status (*run)(run *r);
    int needs_proxy;  /* the sft model and the reward model must be there */
    int is_appraised; /* it tells what it is worth itself; the others are sampled for that */
    int is_in_all;
} stages[] = {{"sft", stage_sft, 0, 0, 1},      {"reward", stage_reward, 0, 0, 1},
              {"ppo", stage_ppo, 1, 0, 1},      {"dpo", stage_dpo, 1, 0, 1},
              {"bon", stage_bon, 1, 1, 1},      {"rest", stage_rest, 1, 0, 1},
              {"sample", stage_sample, 1, 0, 0}};
enum { STAGES = sizeof stages / sizeof *stages };

/* A stage, and what the model that it made is worth. */
static ppo_status perform(run *r, const struct stage *stage) {
    double began = ppo_clock();
    if (!r->json) printf("%s\n", stage->name), fflush(stdout);
    ppo_status status = stage->needs_proxy ? need_proxy(r) : PPO_OK;
    if (!status) status = stage->run(r);
    if (!status) status = need_prompts(r);
    const ppo_gpt *model = r->policy ? r->policy : r->sft;
    if (!status && !stage->is_appraised)
        status = evaluate(&r->lab, model, r->sft, r->proxy, &r->held_out, &r->worth);
    if (!status && !r->json && (r->policy || !r->proxy)) status = show_samples(r, model);
    if (!status && !r->json) {
        printf("  true reward %.2f  proxy %.2f  kl %s%.2f  entropy %.2f  length %.1f  %.1f s\n",
               (double)r->worth.true_reward, (double)r->worth.proxy_reward, stage->is_appraised ? "<= " : "",
               (double)r->worth.kl, (double)r->worth.entropy, (double)r->worth.length, ppo_clock() - began);
        fflush(stdout);
    }
    ppo_gpt_free(r->policy);
    r->policy = NULL;
    return status;
}

static ppo_status perform_named(run *r, const char *name) {
    ppo_status status = PPO_OK;
    int        all = !strcmp(name, "all"), found = all;
    for (int k = 0; k < STAGES && !status; k++) {
        if (all ? !stages[k].is_in_all : strcmp(name, stages[k].name) != 0) continue;
        found = 1;
        status = perform(r, &stages[k]);
    }
    return found ? status : ppo_fail(PPO_ERROR_ARGUMENT, "there is no stage %.60s, see --help", name);
}

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

/* Flags and stages in any order; the stages move to the front of argv. Returns how many, 0 after a complaint. */
static int read_flags(run *r, int argc, char **argv) {
    int stages = 0;
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

/* Where models compute from now on. */
static ppo_status use_device(run *r) {
    if (!strcmp(r->device, "cpu")) return PPO_OK;
    if (strcmp(r->device, "cuda") != 0)
        return ppo_fail(PPO_ERROR_ARGUMENT, "there is no device %.60s, see --help", r->device);
#ifdef PPO_CUDA_CUH
    r->lab.slots = 256; /* a GPU has room for more */
    return ppo_use_cuda(0);
#else
    return ppo_fail(PPO_ERROR_DEVICE, "this program was built without CUDA: `make cuda` builds it with");
#endif
}

int main(int argc, char **argv) {
    run    r;
    double began = ppo_clock();
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return usage();
    memset(&r, 0, sizeof r);
    r.lab.task = &tasks[0];
    r.lab.seed = 1;
    r.lab.slots = 16;
    r.device = "cpu";
    r.dir = "build/models";
    r.iterations = 60;
    r.threads = 1;
    r.best_of = 16;
    r.kl_coef = 0.2f;
    int         count = read_flags(&r, argc, argv);
    const char *problem = count ? r.lab.task->open() : NULL;
    if (problem) fprintf(stderr, "rlhf: %s\n", problem);
    if (problem || !count) return 1;
    ppo_status status = use_device(&r);
    if (!status) status = ppo_set_threads(r.threads);
    for (int i = 0; i < count && !status; i++) status = perform_named(&r, argv[i]);
    if (status) fprintf(stderr, "rlhf: %s\n", ppo_last_error());
    else if (r.json) {
        printf("{\"true_reward\":%.4f,\"proxy_reward\":%.4f,\"kl\":%.4f,\"entropy\":%.4f,\"length\":%.2f,"
               "\"tokens_per_second\":%.0f,\"seconds\":%.1f}\n",
               (double)r.worth.true_reward, (double)r.worth.proxy_reward, (double)r.worth.kl,
               (double)r.worth.entropy, (double)r.worth.length, (double)r.worth.tokens_per_second,
               ppo_clock() - began);
    }
    forget_all(&r);
    ppo_set_threads(1);
#ifdef PPO_CUDA_CUH
    ppo_use_cuda(-1);
#endif
    free(dictionary);
    return status != PPO_OK;
}
