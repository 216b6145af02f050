/* overopt.c - the over-optimization laboratory: what happens when a policy is pressed hard against a reward model
   that is only a proxy for what people want (Gao 2022, "Scaling laws for reward model overoptimization").

   A model that writes sentences is optimized against proxies of several sizes, by PPO without any KL penalty (and
   without a critic: a sample is compared to others of its prompt) and by best-of-n. The proxy's reward keeps rising;
   the TRUE one, which is known here (tasks.h), rises less and less, and under PPO, which goes further, turns and falls.
   With d = sqrt(KL to the first model), the gain in true reward follows

       best-of-n   d (a - b d)          PPO   d (a - b log d)

   whose a and b are fitted, with their standard errors. You will see the table, and the drawings build/overopt-*.svg:
   for each proxy, PPO and best-of-n; and what a KL penalty changes for one of them.

       build/overopt [SEED] */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "lab.h"
#include "curves.h"

enum { SIZES = 3, COEFS = 4, ITERATIONS = 60, PAIRS = 6000, CORPUS = 20000, PROMPTS = 128, BON = 256 };
static const int   widths[SIZES] = {8, 16, 64};
static const float coefs[COEFS] = {0, 0.05f, 0.2f, 0.5f};

typedef struct study {
    lab        lab;
    ppo_gpt   *first; /* the model that everything starts from */
    ppo_tokens prompts, chosen, rejected;
    float      mean, std; /* of its true reward */
} study;

/* The mean and the standard deviation of the first model's true reward. */
static ppo_status measure_first(study *s) {
    ppo_generator *generator = NULL;
    ppo_samples    samples;
    ppo_sampling   how = sampling(&s->lab, 5);
    float          x[PROMPTS];
    double         sum = 0, squares = 0;
    ppo_status     status = ppo_generator_create(s->first, s->lab.slots, &generator);
    if (!status) status = ppo_generate(generator, &s->prompts, &how, &samples);
    if (!status) status = true_reward(&samples, x, &s->lab);
    for (int i = 0; i < PROMPTS && !status; i++) sum += x[i];
    for (int i = 0; i < PROMPTS && !status; i++) squares += (x[i] - sum / PROMPTS) * (x[i] - sum / PROMPTS);
    s->mean = (float)(sum / PROMPTS);
    s->std = (float)sqrt(squares / PROMPTS);
    ppo_generator_free(generator);
    return status;
}

/* The first model, and comparisons of its samples. */
static ppo_status prepare(study *s) {
    ppo_tokens     lines = {0};
    ppo_fit_config config = ppo_fit_config_default();
    config.epochs = 3;
    config.seed = s->lab.seed;
    ppo_status status = learn_to_write(&s->lab, CORPUS, &config, &s->first);
    if (!status) status = add_lines(&s->lab, PROMPTS, 2, &s->prompts);
    if (!status) status = add_lines(&s->lab, PAIRS, 3, &lines);
    if (!status) status = compare(&s->lab, s->first, &lines, 3, &s->chosen, &s->rejected);
    ppo_tokens_free(&lines);
    return status ? status : measure_first(s);
}

/* A proxy of its own size, from nothing but the comparisons. */
static ppo_status train_proxy(study *s, int width, ppo_gpt **judge, ppo_reward_model **proxy) {
    ppo_gpt_config c = s->first->config;
    ppo_fit_config config = ppo_fit_config_default();
    c.width = width;
    c.layers = 1;
    c.heads = width < 32 ? 1 : 4;
    c.score = 1;
    config.epochs = 6;
    config.seed = s->lab.seed;
    ppo_status status = ppo_gpt_create(&c, judge);
    if (!status) status = ppo_fit_reward(*judge, &s->chosen, &s->rejected, &config);
    return status ? status : make_proxy(&s->lab, s->first, &s->prompts, *judge, proxy);
}

static void add_point(const study *s, trace *t, float kl, float truth, float proxy) {
    if (t->n == POINTS || !(kl > 0)) return;
    t->d[t->n] = sqrtf(kl);
    t->truth[t->n] = (truth - s->mean) / s->std;
    t->proxy[t->n++] = proxy;
}

static ppo_status trace_ppo(study *s, ppo_reward_model *proxy, float kl_coef, trace *t) {
    ppo_gpt          *policy = NULL;
    ppo_rlhf         *rlhf = NULL;
    ppo_rlhf_progress p;
    ppo_rlhf_config   config = ppo_rlhf_config_default();
    config.sampling = sampling(&s->lab, 0);
    config.normalize_rewards = 0; /* the proxy is normalized already */
    config.target_kl = 0;         /* nothing is to hold it back but kl_coef */
    config.kl_coef = kl_coef;
    config.advantage = PPO_ADVANTAGE_LEAVE_ONE_OUT;
    config.prompts = 64;
    config.samples = 8;
    config.minibatch_size = 256;
    config.learning_rate = 1e-4f;
    config.missing_eos_penalty = 3; /* or it would first of all learn never to end */
    config.seed = s->lab.seed;
    ppo_status status = ppo_gpt_copy(s->first, 1, &policy);
    if (!status)
        status =
            ppo_rlhf_create(policy, s->first, NULL, &s->prompts, ppo_reward_by_model, proxy, &config, &rlhf);
    for (int i = 1; i <= ITERATIONS && !status; i++) {
        worth w;
        status = ppo_rlhf_iterate(rlhf, &p);
        if (status || (i > 10 && i % 4)) continue;
        status = evaluate(&s->lab, policy, s->first, proxy, &s->prompts, &w);
        add_point(s, t, w.e.kl, w.e.reward, w.proxy_reward);
    }
    fit_curve(t, 1);
    ppo_rlhf_free(rlhf);
    ppo_gpt_free(policy);
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
        *truth += p * sorted[i - 1].truth;
        *proxy += p * sorted[i - 1].proxy;
        p *= (double)(i - n) / (i - 1);
    }
}

static ppo_status trace_best_of_n(study *s, ppo_reward_model *proxy, trace *t) {
    enum { ASKED = 64 };
    ppo_generator *generator = NULL;
    double         truth[BON + 1] = {0}, gain[BON + 1] = {0};
    float          score[BON], reward[BON];
    ppo_sampling   how = sampling(&s->lab, 11);
    ppo_status     status = ppo_generator_create(s->first, s->lab.slots, &generator);
    for (int k = 0; k < ASKED && !status; k++) {
        ppo_tokens  asked = {0};
        ppo_samples samples;
        scored      all[BON];
        for (int i = 0; i < BON && !status; i++) status = ppo_tokens_add_from(&asked, &s->prompts, k);
        how.seed++;
        if (!status) status = ppo_generate(generator, &asked, &how, &samples);
        if (!status) status = ppo_reward_model_score(proxy, &samples.tokens, score);
        if (!status) status = true_reward(&samples, reward, &s->lab);
        ppo_tokens_free(&asked);
        for (int i = 0; i < BON && !status; i++) all[i].proxy = score[i], all[i].truth = reward[i];
        if (!status) qsort(all, BON, sizeof *all, by_proxy);
        for (int n = 2; n <= BON && !status; n = n < 8 ? n + 1 : n * 5 / 4)
            add_best(all, n, &truth[n], &gain[n]);
    }
    for (int n = 2; n <= BON && !status; n = n < 8 ? n + 1 : n * 5 / 4)
        add_point(s, t, ppo_best_of_n_kl(n), (float)(truth[n] / ASKED), (float)(gain[n] / ASKED));
    fit_curve(t, 0);
    ppo_generator_free(generator);
    return status;
}

/* Everything about one proxy; for the middle one, also with a penalty in the reward. */
static ppo_status study_proxy(study *s, int k, trace *bon, trace *ppo, trace penalty[COEFS]) {
    char              name[32];
    ppo_gpt          *judge = NULL;
    ppo_reward_model *proxy = NULL;
    ppo_status        status = train_proxy(s, widths[k], &judge, &proxy);
    snprintf(name, sizeof name, "width %d", widths[k]);
    if (!status) status = trace_best_of_n(s, proxy, bon);
    if (!status) tell("best-of-n", name, bon);
    if (!status) status = trace_ppo(s, proxy, 0, ppo);
    if (!status) tell("PPO", name, ppo);
    if (k == 1) penalty[0] = *ppo;
    for (int i = 1; i < COEFS && k == 1 && !status; i++) {
        snprintf(name, sizeof name, "%g KL", (double)coefs[i]);
        status = trace_ppo(s, proxy, coefs[i], &penalty[i]);
        if (!status) tell("PPO", name, &penalty[i]);
    }
    ppo_reward_model_free(proxy);
    ppo_gpt_free(judge);
    return status;
}

static ppo_status draw_all(trace *bon, trace *ppo, trace *penalty) {
    static const char *const sizes[SIZES] = {"width 8", "width 16", "width 64"};
    static const char *const terms[COEFS] = {"no penalty", "0.05 KL", "0.2 KL", "0.5 KL"};
    ppo_status status = draw("build/overopt-ppo.svg", "PPO against proxies", ppo, sizes, SIZES, 1, 1);
    if (!status) status = draw("build/overopt-bon.svg", "Best-of-n against proxies", bon, sizes, SIZES, 0, 1);
    if (!status) status = draw("build/overopt-kl.svg", "PPO with a KL penalty", penalty, terms, COEFS, 1, 0);
    return status;
}

int main(int argc, char **argv) {
    static trace bon[SIZES], ppo[SIZES], penalty[COEFS];
    char        *end = argc > 1 ? argv[1] : NULL;
    study        s;
    memset(&s, 0, sizeof s);
    s.lab.task = &tasks[0];
    s.lab.slots = 16;
    s.lab.seed = argc > 1 ? strtoull(argv[1], &end, 10) : 1;
    if (argc > 2 || (end && (end == argv[1] || *end)))
        return fprintf(stderr, "usage: overopt [SEED], a number; it takes some minutes\n"), 1;
    ppo_status status = prepare(&s);
    for (int k = 0; k < SIZES && !status; k++) status = study_proxy(&s, k, &bon[k], &ppo[k], penalty);
    if (!status) status = draw_all(bon, ppo, penalty);
    if (status) fprintf(stderr, "overopt: %s\n", ppo_last_error());
    ppo_tokens_free(&s.prompts);
    ppo_tokens_free(&s.chosen);
    ppo_tokens_free(&s.rejected);
    ppo_tokenizer_free(s.lab.tokenizer);
    ppo_gpt_free(s.first);
    return status != PPO_OK;
}
