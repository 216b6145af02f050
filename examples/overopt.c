/* overopt.c - the over-optimization laboratory: what happens when a policy is pressed hard against a reward model
   that is only a proxy for what people want (Gao 2022, "Scaling laws for reward model overoptimization").

   A model that writes sentences is optimized against proxies of several sizes, by PPO without any KL penalty (and
   without a critic: a sample is compared to others of its prompt) and by best-of-n. The proxy's reward keeps rising;
   the TRUE one, which is known here (tasks.h), rises, turns and falls.
   With d = sqrt(KL to the first model), the gain in true reward follows

       best-of-n   d (a - b d)          PPO   d (a - b log d)

   whose a and b are fitted, with their standard errors. You will see the table, and the drawings build/overopt-*.svg:
   for each proxy, PPO and best-of-n; and what a KL penalty changes for one of them.

       build/overopt [SEED] */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "lab.h"

enum {
    SIZES = 3,
    COEFS = 4,
    POINTS = 256,
    ITERATIONS = 60,
    PAIRS = 6000,
    CORPUS = 20000,
    PROMPTS = 128,
    BON = 256
};
static const int   widths[SIZES] = {8, 16, 64};
static const float coefs[COEFS] = {0, 0.05f, 0.2f, 0.5f};

typedef struct trace { /* gains over the first model, in its standard deviations, against sqrt(KL) */
    int   n;
    float d[POINTS], truth[POINTS], proxy[POINTS];
    float a, b, a_error, b_error;
} trace;

typedef struct study {
    lab        lab;
    ppo_gpt   *first; /* the model that everything starts from */
    ppo_tokens prompts, chosen, rejected;
    float      mean, std; /* of its true reward */
} study;

/* The first model, and comparisons of its samples. */
static ppo_status prepare(study *s) {
    ppo_tokens     lines = {0, NULL, NULL, NULL};
    ppo_fit_config config = ppo_fit_config_default();
    config.epochs = 3;
    ppo_status status = learn_to_write(&s->lab, CORPUS, &config, &s->first);
    if (!status) status = add_lines(&s->lab, PROMPTS, 2, &s->prompts);
    if (!status) status = add_lines(&s->lab, PAIRS, 3, &lines);
    if (!status) status = compare(&s->lab, s->first, &lines, 3, &s->chosen, &s->rejected);
    ppo_tokens_free(&lines);
    return status;
}

/* A proxy of its own size, from nothing but the comparisons. */
static ppo_status train_proxy(study *s, int width, ppo_gpt **model, ppo_reward_model **proxy) {
    ppo_gpt_config c = s->first->config;
    ppo_fit_config config = ppo_fit_config_default();
    c.width = width;
    c.layers = 1;
    c.heads = width < 32 ? 1 : 4;
    c.score = 1;
    config.epochs = 6;
    ppo_status status = ppo_gpt_create(&c, model);
    if (!status) status = ppo_fit_reward(*model, &s->chosen, &s->rejected, &config);
    if (!status) status = ppo_reward_model_create(model, 1, PPO_ENSEMBLE_MEAN, 64, proxy);
    return status;
}

/* The proxy's scores and the true ones of samples of the first model have mean 0 and standard deviation 1. */
static ppo_status normalize(study *s, ppo_reward_model *proxy) {
    ppo_generator *generator = NULL;
    ppo_samples    samples;
    ppo_sampling   how = sampling(&s->lab, 5);
    float         *x = (float *)malloc(sizeof(float) * PROMPTS);
    ppo_status     status = ppo_generator_create(s->first, 16, &generator);
    if (!status) status = ppo_generate(generator, &s->prompts, &how, &samples);
    if (!status) status = ppo_reward_model_normalize(proxy, &samples.tokens);
    if (!status) status = true_reward(&samples, x, &s->lab);
    double sum = 0, squares = 0;
    for (int i = 0; i < PROMPTS && !status; i++) sum += x[i];
    for (int i = 0; i < PROMPTS && !status; i++) squares += (x[i] - sum / PROMPTS) * (x[i] - sum / PROMPTS);
    s->mean = (float)(sum / PROMPTS);
    s->std = (float)sqrt(squares / PROMPTS);
    free(x);
    ppo_generator_free(generator);
    return status;
}

static void add_point(const study *s, trace *t, float kl, float truth, float proxy) {
    if (t->n == POINTS || !(kl > 0)) return;
    t->d[t->n] = sqrtf(kl);
    t->truth[t->n] = (truth - s->mean) / s->std;
    t->proxy[t->n++] = proxy;
}

/* Least squares for truth = d (a - b f(d)), f(d) = d or log d: linear in a and b, with standard errors. */
static void fit_curve(trace *t, int is_ppo) {
    double xx = 0, xz = 0, zz = 0, xy = 0, zy = 0, rest = 0;
    for (int i = 0; i < t->n; i++) {
        double x = t->d[i], z = -x * (is_ppo ? log(x) : x), y = t->truth[i];
        xx += x * x, xz += x * z, zz += z * z, xy += x * y, zy += z * y;
    }
    double det = xx * zz - xz * xz;
    t->a = (float)((xy * zz - zy * xz) / det);
    t->b = (float)((zy * xx - xy * xz) / det);
    for (int i = 0; i < t->n; i++) {
        double x = t->d[i], z = -x * (is_ppo ? log(x) : x), e = t->truth[i] - t->a * x - t->b * z;
        rest += e * e;
    }
    rest /= t->n - 2;
    t->a_error = (float)sqrt(rest * zz / det);
    t->b_error = (float)sqrt(rest * xx / det);
}

static ppo_status trace_ppo(study *s, ppo_reward_model *proxy, float kl_coef, trace *t) {
    ppo_gpt          *policy = NULL;
    ppo_rlhf         *rlhf = NULL;
    ppo_rlhf_progress p;
    ppo_rlhf_config   config = ppo_rlhf_config_default();
    config.sampling = sampling(&s->lab, 0);
    config.kl_coef = kl_coef;
    config.advantage =
        PPO_ADVANTAGE_LEAVE_ONE_OUT; /* a critic in the same trunk shakes the policy: KL for nothing */
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
        add_point(s, t, w.kl, w.true_reward, w.proxy_reward);
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
    ppo_status     status = ppo_generator_create(s->first, 16, &generator);
    for (int k = 0; k < ASKED && !status; k++) {
        ppo_tokens  asked = {0, NULL, NULL, NULL};
        ppo_samples samples;
        scored      all[BON];
        for (int i = 0; i < BON && !status; i++)
            status = ppo_tokens_add(&asked, s->prompts.token + s->prompts.start[k], s->prompts.prompt[k],
                                    s->prompts.prompt[k]);
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

/* A drawing wants ascending x, but the KL goes back at times. */
static void sort_by_kl(trace *t) {
    for (int i = 1; i < t->n; i++) {
        for (int k = i; k > 0 && t->d[k] < t->d[k - 1]; k--) {
            float *const arrays[3] = {t->d, t->truth, t->proxy};
            for (int a = 0; a < 3; a++) {
                float x = arrays[a][k];
                arrays[a][k] = arrays[a][k - 1];
                arrays[a][k - 1] = x;
            }
        }
    }
}

/* The truth and the proxy of each trace and, with fits, the fitted curve. */
static ppo_status draw(const char *path, const char *title, trace *traces, const char *const *names,
                       int count, int is_ppo, int fits) {
    enum { FIT = 60 };
    static float x[SIZES + COEFS][FIT], y[SIZES + COEFS][FIT];
    static char  label[3 * (SIZES + COEFS)][64];
    ppo_curve    curves[3 * (SIZES + COEFS)];
    int          n = 0;
    for (int k = 0; k < count; k++) {
        trace *t = &traces[k];
        sort_by_kl(t);
        for (int i = 0; i < FIT; i++) {
            float d = x[k][i] = t->n ? t->d[t->n - 1] * (float)(i + 1) / FIT : 0;
            y[k][i] = d * (t->a - t->b * (is_ppo ? logf(d) : d));
        }
        const ppo_curve three[3] = {{label[n], t->d, t->truth, t->n},
                                    {label[n + 1], t->d, t->proxy, t->n},
                                    {label[n + 2], x[k], y[k], FIT}};
        snprintf(label[n], 64, "true, %s", names[k]);
        snprintf(label[n + 1], 64, "proxy, %s", names[k]);
        snprintf(label[n + 2], 64, "fit, %s", names[k]);
        memcpy(curves + n, three, sizeof three);
        n += 2 + fits;
    }
    return ppo_plot_svg(path, title, "sqrt(KL to the first model)", "gain, in its standard deviations",
                        curves, n);
}

static void tell(const char *what, const char *name, const trace *t) {
    float best = -INFINITY, last = t->n ? t->truth[t->n - 1] : 0;
    for (int i = 0; i < t->n; i++) best = fmaxf(best, t->truth[i]);
    printf("%-10s %-12s a %6.3f +- %.3f  b %6.3f +- %.3f  truth: best %5.2f, last %5.2f  proxy: last %5.2f  "
           "sqrt(KL) up to %.2f\n",
           what, name, (double)t->a, (double)t->a_error, (double)t->b, (double)t->b_error, (double)best,
           (double)last, t->n ? (double)t->proxy[t->n - 1] : 0.0, t->n ? (double)t->d[t->n - 1] : 0.0);
    fflush(stdout);
}

int main(int argc, char **argv) {
    static trace             ppo[SIZES], bon[SIZES], penalty[COEFS];
    static const char *const size_names[SIZES] = {"width 8", "width 16", "width 64"};
    static const char *const coef_names[COEFS] = {"no penalty", "0.05 KL", "0.2 KL", "0.5 KL"};
    study s = {{&tasks[0], NULL, 0, 0, 1}, NULL, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, 0, 1};
    if (argc > 1) s.lab.seed = strtoull(argv[1], NULL, 10);
    ppo_status status = prepare(&s);
    for (int k = 0; k < SIZES && !status; k++) {
        ppo_gpt          *model = NULL;
        ppo_reward_model *proxy = NULL;
        status = train_proxy(&s, widths[k], &model, &proxy);
        if (!status) status = normalize(&s, proxy);
        if (!status) status = trace_best_of_n(&s, proxy, &bon[k]);
        if (!status) tell("best-of-n", size_names[k], &bon[k]);
        if (!status) status = trace_ppo(&s, proxy, 0, &ppo[k]);
        if (!status) tell("PPO", size_names[k], &ppo[k]);
        for (int i = 0; i < COEFS && k == 1 && !status; i++) {
            status = trace_ppo(&s, proxy, coefs[i], &penalty[i]);
            if (!status) tell("PPO", coef_names[i], &penalty[i]);
        }
        ppo_reward_model_free(proxy);
        ppo_gpt_free(model);
    }
    if (!status) status = draw("build/overopt-ppo.svg", "PPO against proxies", ppo, size_names, SIZES, 1, 1);
    if (!status)
        status = draw("build/overopt-bon.svg", "Best-of-n against proxies", bon, size_names, SIZES, 0, 1);
    if (!status)
        status = draw("build/overopt-kl.svg", "PPO with a KL penalty", penalty, coef_names, COEFS, 1, 0);
    if (status) fprintf(stderr, "overopt: %s\n", ppo_last_error());
    ppo_tokens_free(&s.prompts);
    ppo_tokens_free(&s.chosen);
    ppo_tokens_free(&s.rejected);
    ppo_tokenizer_free(s.lab.tokenizer);
    ppo_gpt_free(s.first);
    return status != PPO_OK;
}
