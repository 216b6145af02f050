/* overopt.c - the over-optimization laboratory: what happens when a policy is pressed hard against a reward model that
   is only a proxy for what people want (Gao 2022, "Scaling laws for reward model overoptimization"), and what helps.

   A model that writes sentences is optimized against proxies of several sizes, by PPO without a KL penalty (and without
   a critic: a sample is compared with others of its prompt) and by best-of-n. The proxy's reward keeps rising; the TRUE
   one, which is known here (tasks.h), turns and falls. With d = sqrt(KL to the first model), the gain in true reward
   follows

       best-of-n   d (a - b d)          PPO   d (a - b log d)

   whose a and b are fitted for each seed. Remedies: a KL penalty; an ensemble of three proxies, by its mean or its
   minimum (Coste 2023); a length penalty. Beside that, the frontier: how much true reward each method gets for its KL.

       build/overopt trace SEED         measures: build/overopt-SEED.csv
       build/overopt report SEED ...    means over the seeds with 95 % intervals, and build/overopt-*.svg */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "lab.h"
#include "curves.h"

enum { SIZES = 3, JUDGES = 5, MEMBERS = 3, PAIRS = 6000, CORPUS = 20000, PROMPTS = 128, BON = 256 };

static const int widths[SIZES] = {8, 16, 64};

/* Judges: the proxies by size; then three of the middle size, by their mean and by their minimum. */
enum { SMALL, MIDDLE, LARGE, MEAN, MINIMUM };

/* Nothing is to hold these back but what they name. The proxies are normalized already. Small minibatches in one
   epoch take as many steps as larger ones in several, and need less arithmetic. */
#define PRESSED                                                                                        \
    "iterations=32 prompts=64 samples=4 minibatch_size=32 epochs=1 advantage=leave-one-out kl_coef=0 " \
    "learning_rate=3e-4 missing_eos_penalty=3 normalize_rewards=no target_kl=0 "
/* PPO as it is meant to be, for its end. */
#define HELD                                                                                                 \
    "iterations=32 prompts=128 minibatch_size=32 epochs=1 learning_rate=1e-3 learning_rate_schedule=linear " \
    "missing_eos_penalty=1 "

static const struct experiment {
    const char *name, *settings;
    int judge, only_the_end;
} experiments[] = {
    {"PPO, width 8", PRESSED, SMALL, 0},
    {"PPO, width 16", PRESSED, MIDDLE, 0},
    {"PPO, width 64", PRESSED, LARGE, 0},
    {"PPO, 0.05 KL", PRESSED "kl_coef=0.05", MIDDLE, 0},
    {"PPO, 0.2 KL", PRESSED "kl_coef=0.2", MIDDLE, 0},
    {"PPO, 0.5 KL", PRESSED "kl_coef=0.5", MIDDLE, 0},
    {"PPO, mean of 3", PRESSED, MEAN, 0},
    {"PPO, minimum of 3", PRESSED, MINIMUM, 0},
    {"PPO, length penalty", PRESSED "length_penalty=0.1", MIDDLE, 0},
    {"PPO, kl_coef 1.2", HELD "kl_coef=1.2", LARGE, 1},
    {"PPO, kl_coef 0.7", HELD "kl_coef=0.7", LARGE, 1},
    {"PPO, kl_coef 0.4", HELD "kl_coef=0.4", LARGE, 1},
    {"PPO, kl_coef 0.2", HELD "kl_coef=0.2", LARGE, 1},
    {"PPO, kl_coef 0.1", HELD "kl_coef=0.1", LARGE, 1},
};
enum { EXPERIMENTS = sizeof experiments / sizeof *experiments };

typedef struct study {
    lab lab;
    ppo_lm *first; /* the model that everything starts from */
    ppo_tokens prompts, chosen, rejected;
    float mean, std; /* of its true reward */
    ppo_lm *member[SIZES + MEMBERS - 1];
    ppo_reward_model *judge[JUDGES];
    FILE *csv;
} study;

/* -- the first model, and the judges of what it writes -- */

static ppo_status prepare(study *s) {
    ppo_tokens lines = {0};
    ppo_fit_config config = ppo_fit_config_default();
    ppo_lm_evaluation e;
    ppo_sampling how = sampling(&s->lab, 5);
    config.epochs = 2;
    config.seed = s->lab.seed;
    ppo_status status = learn_to_write(&s->lab, CORPUS, &config, &s->first);
    if (!status) status = add_lines(&s->lab, PROMPTS, 2, &s->prompts);
    if (!status) status = add_lines(&s->lab, PAIRS, 3, &lines);
    if (!status) status = compare(&s->lab, s->first, &lines, 3, &s->chosen, &s->rejected);
    how.eos = s->lab.end;
    if (!status) status = ppo_lm_evaluate(s->first, NULL, &lines, &how, true_reward, &s->lab, &e);
    if (!status) s->mean = e.reward, s->std = e.reward_std;
    ppo_tokens_free(&lines);
    return status;
}

/* A proxy of its own size and seed, from nothing but the comparisons. */
static ppo_status train_proxy(study *s, int width, int k) {
    ppo_lm_config c = s->first->config;
    ppo_fit_config config = ppo_fit_config_default();
    c.width = width;
    c.layers = 1;
    c.heads = width < 32 ? 1 : 4;
    c.score = 1;
    c.seed = s->lab.seed + 100 * (uint64_t)k;
    config.epochs = 4;
    config.seed = c.seed;
    ppo_status status = ppo_lm_create(&c, &s->member[k]);
    return status ? status : ppo_fit_reward(s->member[k], &s->chosen, &s->rejected, &config);
}

static ppo_status make_judges(study *s) {
    ppo_status status = PPO_OK;
    for (int k = 0; k < SIZES + MEMBERS - 1 && !status; k++)
        status = train_proxy(s, k < SIZES ? widths[k] : widths[MIDDLE], k);
    ppo_lm *const ensemble[MEMBERS] = {s->member[MIDDLE], s->member[SIZES], s->member[SIZES + 1]};
    for (int k = 0; k < JUDGES && !status; k++) {
        int how = k == MINIMUM ? PPO_ENSEMBLE_MINIMUM : PPO_ENSEMBLE_MEAN;
        status = make_proxy(&s->lab, s->first, &s->prompts, k < SIZES ? &s->member[k] : ensemble,
                            k < SIZES ? 1 : MEMBERS, how, &s->judge[k]);
    }
    return status;
}

/* -- what is measured: gains over the first model, in its standard deviations, against d = sqrt(KL) -- */

static void note(const study *s, const char *name, float kl, float truth, float proxy) {
    if (kl > 0)
        fprintf(s->csv, "%s;%.5f;%.5f;%.5f\n", name, sqrt((double)kl),
                ((double)truth - (double)s->mean) / (double)s->std, (double)proxy);
}

static ppo_status note_model(study *s, const char *name, const ppo_lm *model, ppo_reward_model *judge) {
    worth w;
    ppo_status status = evaluate(&s->lab, model, s->first, judge, &s->prompts, &w);
    if (!status) note(s, name, w.e.kl, w.e.reward, w.proxy_reward);
    return status;
}

static ppo_status trace_ppo(study *s, const struct experiment *e) {
    ppo_lm *policy = NULL;
    ppo_rlhf *rlhf = NULL;
    ppo_rlhf_config config = ppo_rlhf_config_default();
    ppo_status status = ppo_settings_set_all(ppo_rlhf_settings(), &config, e->settings);
    config.sampling = sampling(&s->lab, 0);
    config.seed = s->lab.seed;
    if (!status) status = ppo_lm_copy(s->first, 0, &policy);
    if (!status)
        status = ppo_rlhf_create(policy, s->first, NULL, &s->prompts, ppo_reward_by_model, s->judge[e->judge],
                                 &config, &rlhf);
    for (int i = 1; i <= config.iterations && !status; i++) {
        status = ppo_rlhf_iterate(rlhf, NULL);
        if (!status && (i == config.iterations || (!e->only_the_end && (i <= 10 || i % 4 == 0))))
            status = note_model(s, e->name, policy, s->judge[e->judge]);
    }
    ppo_rlhf_free(rlhf);
    ppo_lm_free(policy);
    return status;
}

typedef struct scored {
    float proxy, truth;
} scored;

static int by_proxy(const void *a, const void *b) {
    float x = ((const scored *)a)->proxy, y = ((const scored *)b)->proxy;
    return (x > y) - (x < y);
}

/* Best-of-n for all n up to BON from the same BON samples of a prompt: with the samples sorted by proxy, the i-th
   of them (from 1) is the best of n drawn ones with probability C(i - 1, n - 1) / C(BON, n). */
static void add_best(const scored *sorted, int n, double *truth, double *proxy) {
    double p = (double)n / BON; /* of the last one */
    for (int i = BON; i >= n; i--) {
        *truth += p * (double)sorted[i - 1].truth;
        *proxy += p * (double)sorted[i - 1].proxy;
        p *= (double)(i - n) / (i - 1);
    }
}

static int next_n(int n) { return n < 8 ? n + 1 : n * 5 / 4; }

static ppo_status trace_best_of_n(study *s) {
    enum { ASKED = 64 };
    static const char *const names[SIZES] = {"best-of-n, width 8", "best-of-n, width 16",
                                             "best-of-n, width 64"};
    static double truth[SIZES][BON + 1], gain[SIZES][BON + 1];
    ppo_generator *generator = NULL;
    float score[BON], reward[BON];
    ppo_sampling how = sampling(&s->lab, 11);
    ppo_status status = ppo_generator_create(s->first, s->lab.slots, &generator);
    for (int k = 0; k < ASKED && !status; k++) {
        ppo_tokens asked = {0};
        ppo_samples samples;
        for (int i = 0; i < BON && !status; i++) status = ppo_tokens_add_from(&asked, &s->prompts, k);
        how.seed++;
        if (!status) status = ppo_generate(generator, &asked, &how, &samples);
        if (!status) status = true_reward(&samples, reward, &s->lab);
        for (int j = 0; j < SIZES && !status; j++) {
            scored all[BON];
            status = ppo_reward_model_score(s->judge[j], &samples.tokens, score);
            for (int i = 0; i < BON; i++) all[i].proxy = score[i], all[i].truth = reward[i];
            qsort(all, BON, sizeof *all, by_proxy);
            for (int n = 2; n <= BON; n = next_n(n)) add_best(all, n, &truth[j][n], &gain[j][n]);
        }
        ppo_tokens_free(&asked);
    }
    for (int j = 0; j < SIZES && !status; j++)
        for (int n = 2; n <= BON; n = next_n(n))
            note(s, names[j], ppo_best_of_n_kl(n), (float)(truth[j][n] / ASKED), (float)(gain[j][n] / ASKED));
    ppo_generator_free(generator);
    return status;
}

/* Fine-tuning on the best of four of its own samples, three times (ReST); and DPO with several beta. */
static ppo_status trace_others(study *s) {
    static const float betas[] = {2, 0.7f, 0.3f};
    static const char *const names[] = {"DPO, beta 2", "DPO, beta 0.7", "DPO, beta 0.3"};
    ppo_fit_config config = ppo_fit_config_default();
    ppo_lm *model = NULL;
    ppo_status status = ppo_lm_copy(s->first, 0, &model);
    config.seed = s->lab.seed;
    config.epochs = 2;
    config.learning_rate = 3e-4f;
    for (int round = 0; round < 3 && !status; round++) {
        static const char *const rounds[] = {"ReST, round 1", "ReST, round 2", "ReST, round 3"};
        ppo_tokens best = {0};
        ppo_generator *generator = NULL;
        ppo_sampling how = sampling(&s->lab, 20 + (uint64_t)round);
        status = ppo_generator_create(model, s->lab.slots, &generator);
        if (!status)
            status = ppo_best_of_n(generator, &s->prompts, 4, &how, ppo_reward_by_model, s->judge[LARGE],
                                   &best, NULL);
        if (!status) status = ppo_fit_sft(model, &best, &config);
        if (!status) status = note_model(s, rounds[round], model, s->judge[LARGE]);
        ppo_generator_free(generator);
        ppo_tokens_free(&best);
    }
    config.epochs = 1;
    config.learning_rate = 1e-4f;
    for (int k = 0; k < 3 && !status; k++) {
        ppo_lm_free(model);
        model = NULL;
        config.beta = betas[k];
        status = ppo_lm_copy(s->first, 0, &model);
        if (!status) status = ppo_fit_dpo(model, s->first, &s->chosen, &s->rejected, &config);
        if (!status) status = note_model(s, names[k], model, s->judge[LARGE]);
    }
    ppo_lm_free(model);
    return status;
}

/* Everything of one seed, into its file. */
static ppo_status trace_seed(uint64_t seed) {
    char path[64];
    double began = ppo_clock();
    study s;
    memset(&s, 0, sizeof s);
    s.lab.task = &tasks[0];
    s.lab.slots = 16;
    s.lab.seed = s.lab.sft_seed = seed;
    snprintf(path, sizeof path, "build/overopt-%llu.csv", (unsigned long long)seed);
    s.csv = fopen(path, "w");
    if (!s.csv) return ppo_fail(PPO_ERROR_FILE, "%s cannot be written", path);
    ppo_status status = prepare(&s);
    if (!status) status = make_judges(&s);
    if (!status) status = trace_best_of_n(&s);
    if (!status) status = trace_others(&s);
    for (int k = 0; k < EXPERIMENTS && !status; k++) status = trace_ppo(&s, &experiments[k]);
    if (fclose(s.csv) && !status) status = ppo_fail(PPO_ERROR_FILE, "%s cannot be written", path);
    if (!status) printf("%s  %.0f s\n", path, ppo_clock() - began);
    for (int k = 0; k < JUDGES; k++) ppo_reward_model_free(s.judge[k]);
    for (int k = 0; k < SIZES + MEMBERS - 1; k++) ppo_lm_free(s.member[k]);
    ppo_tokens_free(&s.prompts);
    ppo_tokens_free(&s.chosen);
    ppo_tokens_free(&s.rejected);
    ppo_tokenizer_free(s.lab.tokenizer);
    ppo_lm_free(s.first);
    return status;
}

int main(int argc, char **argv) {
    int report = argc > 1 && !strcmp(argv[1], "report"), usage = argc < 3;
    uint64_t seed[SEEDS];
    ppo_status status = PPO_OK;
    for (int i = 2; i < argc; i++) {
        char *end;
        if (i - 2 < SEEDS) seed[i - 2] = strtoull(argv[i], &end, 10);
        if (i - 2 >= SEEDS || end == argv[i] || *end) usage = 1;
    }
    if (usage || (!report && (strcmp(argv[1], "trace") != 0 || argc > 3)))
        return fprintf(stderr, "usage: overopt trace SEED, or overopt report SEED ..., at most %d\n", SEEDS),
               1;
    status = report ? report_seeds(seed, argc - 2) : trace_seed(seed[0]);
    if (status) fprintf(stderr, "overopt: %s\n", ppo_last_error());
    return status != PPO_OK;
}
