/* rlhf.c - reinforcement learning from human feedback, whole: a tiny language model learns to write (sft), people
   compare its samples and a reward model learns what they like (reward), and PPO makes the model write that (ppo).
   Beside PPO: DPO (dpo), best-of-n (bon) and filtered fine-tuning (rest).

       build/rlhf all                               every stage, with samples before and after
       build/rlhf sft reward ppo --dir build/mine   some of them; each reads and writes files in the folder

   You will see the TRUE reward rise, which here is known (tasks.h); the models only ever see comparisons. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "stages.h"

/* A stage by its name, and what came of it. */
static ppo_status stage(run *r, const char *name) {
    ppo_reward_model *proxy = NULL;
    double            began = ppo_clock();
    int               trains = !strcmp(name, "ppo") || !strcmp(name, "dpo") || !strcmp(name, "rest");
    int               is_sft = !strcmp(name, "sft"), is_reward = !strcmp(name, "reward");
    int known = is_sft || is_reward || trains || !strcmp(name, "bon") || !strcmp(name, "sample");
    if (!known) return ppo_fail(PPO_ERROR_ARGUMENT, "there is no stage %.60s, see --help", name);
    if (!r->json) printf("%s\n", name);
    ppo_status status = is_sft ? stage_sft(r) : is_reward ? stage_reward(r) : need_prompts(r);
    if (!status && !is_sft) status = need_proxy(r, &proxy);
    if (!status && !strcmp(name, "ppo")) status = stage_ppo(r, proxy);
    if (!status && !strcmp(name, "dpo")) status = stage_dpo(r);
    if (!status && !strcmp(name, "rest")) status = stage_rest(r, proxy);
    if (!status && !strcmp(name, "sample")) status = load(r, "ppo", &r->policy);
    const ppo_gpt *model = r->policy ? r->policy : r->sft;
    if (!status) status = need_prompts(r);
    if (!status && !strcmp(name, "bon")) status = stage_bon(r, proxy);
    else if (!status) status = evaluate(&r->lab, model, r->sft, proxy, &r->prompts, &r->worth);
    if (!status && trains) status = save(r, r->policy, name);
    if (!status && strcmp(name, "bon") != 0 && !is_reward) status = stage_sample(r, model);
    if (!status && !r->json) {
        printf("  true reward %.2f  proxy %.2f  kl %.2f  entropy %.2f  length %.1f  %.1f s\n",
               (double)r->worth.true_reward, (double)r->worth.proxy_reward, (double)r->worth.kl,
               (double)r->worth.entropy, (double)r->worth.length, ppo_clock() - began);
    }
    ppo_reward_model_free(proxy);
    ppo_gpt_free(r->policy);
    r->policy = NULL;
    return status;
}

static int usage(void) {
    printf("usage: rlhf [--flag value] STAGE ...\n"
           "stages: sft reward ppo dpo bon rest sample, or all\n"
           "  --task NAME        sentences (default) or words (needs a word list: Debian's wamerican)\n"
           "  --dir FOLDER       where models are written and read [build/models]\n"
           "  --seed N           [1]\n"
           "  --iterations N     of PPO [60]\n"
           "  --kl-coef X        of PPO: how dear it is to leave the sft model [0.2]\n"
           "  --best-of N        samples per prompt of bon [16]\n"
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
    else if (!strcmp(flag, "--seed")) r->lab.seed = (uint64_t)(x = number(flag, value, 0, 1e9));
    else if (!strcmp(flag, "--iterations")) r->iterations = (int)(x = number(flag, value, 1, 1e6));
    else if (!strcmp(flag, "--best-of")) r->best_of = (int)(x = number(flag, value, 1, 1e4));
    else if (!strcmp(flag, "--kl-coef")) r->kl_coef = (float)(x = number(flag, value, 0, 1e3));
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

static ppo_status run_stages(run *r, int count, char **names) {
    static const char *const all[] = {"sft", "reward", "ppo", "dpo", "bon", "rest"};
    ppo_status               status = PPO_OK;
    for (int i = 0; i < count && !status; i++) {
        if (strcmp(names[i], "all") != 0) status = stage(r, names[i]);
        for (int k = 0; !strcmp(names[i], "all") && k < 6 && !status; k++) status = stage(r, all[k]);
    }
    return status;
}

int main(int argc, char **argv) {
    run    r;
    double began = ppo_clock();
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return usage();
    memset(&r, 0, sizeof r);
    r.lab.task = &tasks[0];
    r.lab.seed = 1;
    r.dir = "build/models";
    r.iterations = 60;
    r.best_of = 16;
    r.kl_coef = 0.2f;
    int         count = read_flags(&r, argc, argv);
    const char *problem = count ? r.lab.task->open() : NULL;
    if (problem) fprintf(stderr, "rlhf: %s\n", problem);
    if (problem || !count) return 1;
    ppo_status status = run_stages(&r, count, argv);
    if (status) fprintf(stderr, "rlhf: %s\n", ppo_last_error());
    else if (r.json) {
        printf("{\"true_reward\":%.4f,\"proxy_reward\":%.4f,\"kl\":%.4f,\"entropy\":%.4f,\"length\":%.2f,"
               "\"tokens_per_second\":%.0f,\"seconds\":%.1f}\n",
               (double)r.worth.true_reward, (double)r.worth.proxy_reward, (double)r.worth.kl,
               (double)r.worth.entropy, (double)r.worth.length, (double)r.worth.tokens_per_second,
               ppo_clock() - began);
    }
    ppo_tokens_free(&r.prompts);
    ppo_tokens_free(&r.chosen);
    ppo_tokens_free(&r.rejected);
    ppo_tokenizer_free(r.lab.tokenizer);
    ppo_gpt_free(r.sft);
    ppo_gpt_free(r.reward);
    free(dictionary);
    return status != PPO_OK;
}
