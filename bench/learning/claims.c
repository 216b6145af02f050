/* claims.c - what people say about PPO, measured: the runs of claims.md, and that page itself.

       build/claims bench/learning/results/claims.txt run [control | update | words | memory]
       build/claims bench/learning/results/claims.txt report >bench/learning/claims.md

   A finished run is a line of the file, "study task arm setting seed: numbers", and is not repeated. Each side of a
   comparison has the setting (mostly a learning rate) that was best on TUNE seeds of its own; what is compared are
   SEEDS other ones. What the page says of a comparison is computed from its interval: compare(), sign_of(). */
#include "ppo.h"

#include "companions/ppo_methods.h"
#include "envs/acrobot.h"
#include "envs/cartpole.h"
#include "envs/pendulum.h"

#include "lessons/corridor.h"
#include "lessons/lesson.h"
#include "lessons/letters.h"
#include "lessons/study.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SEEDS = 50, TUNE = 6, FIRST_TUNE = 101, NUMBERS = 4, TASKS = 4, RATES = 5 };

/* ---- the file of finished runs ---- */

typedef struct run {
    char key[80];
    float v[NUMBERS];
} run;

static run *runs;
static int run_count;
static const char *path;

static void load(void) {
    FILE *file = fopen(path, "r");
    char line[256];
    run_count = 0;
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        run r = {{0}, {0}};
        if (!colon || colon - line >= (long)sizeof r.key) continue;
        memcpy(r.key, line, (size_t)(colon - line));
        if (sscanf(colon + 1, "%f %f %f %f", &r.v[0], &r.v[1], &r.v[2], &r.v[3]) != NUMBERS) continue;
        if (!(runs = (run *)realloc(runs, (size_t)(run_count + 1) * sizeof *runs))) exit(1);
        runs[run_count++] = r;
    }
    if (file) fclose(file);
}

static const float *find(const char *key) {
    for (int i = 0; i < run_count; i++)
        if (!strcmp(runs[i].key, key)) return runs[i].v;
    return NULL;
}

static void keep(const char *key, const float v[NUMBERS]) {
    FILE *file = fopen(path, "a");
    if (!file ||
        fprintf(file, "%s: %.5g %.5g %.5g %.5g\n", key, (double)v[0], (double)v[1], (double)v[2],
                (double)v[3]) < 0 ||
        fclose(file)) {
        fprintf(stderr, "%s cannot be written\n", path);
        exit(1);
    }
}

static const char *key_of(const char *study, const char *task, const char *arm, double setting, int seed) {
    static char key[80];
    snprintf(key, sizeof key, "%s %s %s %g %d", study, task, arm, setting, seed);
    return key;
}

/* ---- control: each arm on each task ---- */

enum { CART, ACRO, PEND, CORRIDOR, ALL = 1 << CART | 1 << ACRO | 1 << PEND };
static const struct {
    const char *name;
    ppo_env (*env)(void);
    const char *settings;
    int steps;
    float nothing, best; /* returns that score 0 and 100 */
} tasks[TASKS] = {{"CartPole-v1", cartpole_env, "num_envs=8 rollout_steps=128 hidden=32,32", 20480, 9, 500},
                  {"Acrobot-v1", acrobot_env, "num_envs=8 rollout_steps=128 hidden=32,32", 40960, -500, -75},
                  {"Pendulum-v1", pendulum_env,
                   "num_envs=4 rollout_steps=256 hidden=32,32 gamma=0.9 value_coef=1 normalize_reward=1",
                   40960, -1250, -150},
                  {"corridor", corridor_env, "num_envs=4 rollout_steps=64 hidden=16", 20480, 0.3f, 1.2f}};

enum {
    BASE,
    RAW,
    NO_GRAD_CLIP,
    CLIP_05,
    EPOCHS_20,
    EPOCHS_30,
    ENTROPY,
    ENTROPY_05,
    ENTROPY_TO_0,
    VALUE_CLIP,
    SHARED,
    LARGE,
    LARGE_NO_GRAD_CLIP,
    LARGE_DIVIDED,
    ARMS
};
static const struct {
    const char *name, *settings;
    float reward; /* is multiplied by this */
    int tasks;    /* bits */
} arms[ARMS] = {{"base", "", 1, ALL | 1 << CORRIDOR},
                {"raw", "normalize_advantage=0", 1, ALL},
                {"no-grad-clip", "max_grad_norm=0", 1, ALL},
                {"clip-0.5", "clip_low=0.5 clip_high=0.5", 1, ALL},
                {"20-epochs", "epochs=20", 1, ALL},
                {"30-epochs", "epochs=30", 1, ALL},
                {"entropy-0.01", "entropy_coef=0.01", 1, ALL | 1 << CORRIDOR},
                {"entropy-0.5", "entropy_coef=0.5", 1, 1 << CORRIDOR},
                {"entropy-2-to-0", "entropy_coef=2 entropy_schedule=linear", 1, 1 << CORRIDOR},
                {"value-clip-0.2", "value_clip=0.2", 1, ALL},
                {"shared", "shared_trunk=1", 1, ALL},
                {"large", "", 1000, 1 << CART},
                {"large-no-grad-clip", "max_grad_norm=0", 1000, 1 << CART},
                {"large-divided", "normalize_reward=1", 1000, 1 << CART}};
static const float rates[RATES] = {3e-4f, 1e-3f, 3e-3f, 1e-2f, 3e-2f};

static ppo_env original;
static float reward_scale;

static void scaled_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    original.step(state, rng, action, obs, out);
    out->reward *= reward_scale;
}

static ppo_env task_env(int task, float scale) {
    ppo_env env = original = tasks[task].env();
    reward_scale = scale;
    if (scale != 1) env.step = scaled_step;
    return env;
}

/* Score, return in the end, largest KL of an update, share of clipped samples. */
static void control_run(int task, int arm, float rate, int seed) {
    char settings[512], key[80];
    snprintf(key, sizeof key, "%s", key_of("control", tasks[task].name, arms[arm].name, (double)rate, seed));
    if (find(key)) return;
    ppo_env env = task_env(task, arms[arm].reward);
    snprintf(settings, sizeof settings, "%s learning_rate=%g %s", tasks[task].settings, (double)rate,
             arms[arm].settings);
    study s = study_run(&env, settings, tasks[task].steps, (uint64_t)seed);
    float level = (float)mean_of(s.curve, STUDY_POINTS) / reward_scale;
    float v[NUMBERS] = {100 * (level - tasks[task].nothing) / (tasks[task].best - tasks[task].nothing),
                        s.end / reward_scale, s.kl, s.clipped};
    keep(key, v);
}

/* The index of the best of n settings by its mean on the seeds for tuning. In keys they are at[i], or i if `at` is NULL. */
static int best_of(const char *study, const char *task, const char *arm, const float *at, int n) {
    int best = 0;
    double highest = -1e30;
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int k = 0; k < TUNE; k++) {
            const float *v = find(key_of(study, task, arm, at ? (double)at[i] : i, FIRST_TUNE + k));
            sum += v ? (double)v[0] : -1e30;
        }
        if (sum > highest) highest = sum, best = i;
    }
    return best;
}

/* The best learning rate. */
static float tuned(int task, int arm) {
    return rates[best_of("control", tasks[task].name, arms[arm].name, rates, RATES)];
}

static void control(void) {
    for (int tuning = 1; tuning >= 0; tuning--) {
        for (int arm = 0; arm < ARMS; arm++)
            for (int task = 0; task < TASKS; task++)
                for (int k = 0; arms[arm].tasks >> task & 1 && k < (tuning ? TUNE * RATES : SEEDS); k++)
                    control_run(task, arm, tuning ? rates[k / TUNE] : tuned(task, arm),
                                tuning ? FIRST_TUNE + k % TUNE : 1 + k);
        load();
    }
}

/* ---- one update: what the clip does to the KL, and what the size of rewards does to gradients ---- */

enum { PASSES = 3, GRADIENTS = 4 };
static const int passes[PASSES] = {10, 30, 100};
static const char *const gradients[GRADIENTS] = {"gradient-raw", "gradient-raw-large", "gradient",
                                                 "gradient-large"};

/* KL(old || new) by k3 in the last epoch, share of clipped samples, norm of the gradient; of the first rollout. */
static void update_run(const char *arm, double setting, const char *settings, float scale, int seed) {
    ppo_env env = task_env(CART, scale);
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_progress p;
    char key[80];
    snprintf(key, sizeof key, "%s", key_of("update", tasks[CART].name, arm, setting, seed));
    if (find(key)) return;
    must(ppo_config_set_all(&cfg, tasks[CART].settings));
    must(ppo_config_set_all(&cfg, settings));
    cfg.total_steps = 1024;
    cfg.seed = (uint64_t)seed;
    must(ppo_agent_create(&env, &cfg, &agent));
    must(ppo_trainer_create(&env, &cfg, agent, &trainer));
    must(ppo_trainer_iterate(trainer, &p));
    float v[NUMBERS] = {p.last_approx_kl, p.clip_fraction, p.grad_norm, 0};
    keep(key, v);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

static void update(void) {
    char settings[128], arm[40];
    for (int seed = 1; seed <= SEEDS; seed++) {
        for (int k = 0; k <= PASSES; k++) /* the last one without a clip */
            for (int i = 0; i < RATES - 1; i++) {
                int most = passes[k < PASSES ? k : PASSES - 1];
                snprintf(settings, sizeof settings, "epochs=%d learning_rate=%g%s", most, (double)rates[i],
                         k < PASSES ? "" : " objective=unclipped");
                snprintf(arm, sizeof arm, "%d-epochs%s", most, k < PASSES ? "" : "-unclipped");
                update_run(arm, (double)rates[i], settings, 1, seed);
            }
        for (int k = 0; k < GRADIENTS; k++) /* of the policy alone, and with the critic's */
            for (int critic = 0; critic < 2; critic++) {
                snprintf(settings, sizeof settings,
                         "epochs=1 minibatch_size=0 normalize_advantage=%d value_coef=%g", k / 2,
                         0.5 * critic);
                update_run(gradients[k], 0.5 * critic, settings, k % 2 ? 1000 : 1, seed);
            }
    }
}

/* ---- words: PPO and DPO on tokens, and diversity, in worlds of letters.h ---- */

enum { PROMPTS = 32, EACH = 8, PAIRS = 1500, DIVERSITY = 4, METHOD_SETTINGS = 9 };
enum { WORDS_PPO, WORDS_DPO };
static const char *const methods[2] = {"ppo", "dpo"};
static const char *const diversities[DIVERSITY] = {"no-remedy", "entropy-0.02", "entropy-0.1", "kl-0.3"};
static const char *const remedies[DIVERSITY] = {"kl_coef=0", "kl_coef=0 entropy_coef=0.02",
                                                "kl_coef=0 entropy_coef=0.1", "kl_coef=0.3"};

/* Setting 0 to 8 of PPO and of DPO: three learning rates, three strengths of the KL constraint. */
static const float words_rates[] = {3e-4f, 1e-3f, 3e-3f}, words_betas[] = {0.1f, 0.3f, 1};
static float words_rate(int setting) { return words_rates[setting / 3]; }
static float words_beta(int setting) { return words_betas[setting % 3]; }

/* The share of different words among EACH samples of a prompt. */
static float different_words(const ppo_lm *lm, uint64_t seed) {
    ppo_generator *generator;
    ppo_samples samples = sample(lm, PROMPTS, EACH, seed, &generator);
    const ppo_tokens *t = &samples.tokens;
    int different = 0;
    for (int s = 0; s < PROMPTS * EACH; s++) {
        int n = t->start[s + 1] - t->start[s], is_new = 1;
        for (int other = s / EACH * EACH; other < s; other++)
            is_new &= n != t->start[other + 1] - t->start[other] ||
                      memcmp(t->token + t->start[s], t->token + t->start[other], (size_t)n * sizeof(int));
        different += is_new;
    }
    ppo_generator_free(generator);
    return (float)different / (PROMPTS * EACH);
}

typedef struct world {
    uint64_t seed;
    ppo_lm *first, *judge;
    ppo_reward_model *proxy;
    ppo_tokens prompts, chosen, rejected;
    double judged; /* seconds that the reward model took */
} world;

static double seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

static void world_open(world *w, int seed) {
    ppo_rng rng = ppo_rng_stream((uint64_t)seed, PPO_STREAM_USER, 0);
    memset(w, 0, sizeof *w);
    w->seed = (uint64_t)seed;
    w->first = first_model(w->seed);
    ask_people(w->first, PAIRS, w->seed, &w->chosen, &w->rejected);
    double began = seconds();
    w->judge = learn_reward(w->first, &w->chosen, &w->rejected, w->seed);
    w->proxy = make_proxy(&w->judge, 1, PPO_ENSEMBLE_MEAN, w->first, w->seed);
    w->judged = seconds() - began;
    add_words(256, &rng, &w->prompts);
}

static void world_close(world *w) {
    if (!w->first) return;
    ppo_reward_model_free(w->proxy), ppo_lm_free(w->judge), ppo_lm_free(w->first);
    ppo_tokens_free(&w->prompts), ppo_tokens_free(&w->chosen), ppo_tokens_free(&w->rejected);
    memset(w, 0, sizeof *w);
}

/* True reward, KL to the first model, share of different words, seconds of processor time. text: PPO's settings, NULL: DPO. */
static void words_run(world *w, const char *arm, int setting, int seed, int iterations, const char *text) {
    char key[80];
    snprintf(key, sizeof key, "%s", key_of("words", "letters", arm, setting, seed));
    if (find(key)) return;
    if (!w->first) world_open(w, seed);
    ppo_lm *policy = copy_of(w->first);
    double began = seconds(), took;
    if (text) {
        ppo_rlhf *rlhf = NULL;
        ppo_rlhf_config config = settings(w->seed);
        must(ppo_settings_set_all(ppo_rlhf_settings(), &config, text));
        must(ppo_rlhf_create(policy, config.kl_coef > 0 ? w->first : NULL, NULL, &w->prompts,
                             ppo_reward_by_model, w->proxy, &config, &rlhf));
        for (int i = 0; i < iterations; i++) must(ppo_rlhf_iterate(rlhf, NULL));
        ppo_rlhf_free(rlhf);
        took = seconds() - began + w->judged;
    } else {
        ppo_fit_config fit = ppo_fit_config_default();
        fit.beta = words_beta(setting), fit.learning_rate = words_rate(setting), fit.epochs = 6;
        fit.seed = w->seed;
        must(ppo_fit_dpo(policy, w->first, &w->chosen, &w->rejected, &fit));
        took = seconds() - began;
    }
    ppo_lm_evaluation e = worth(policy, w->first, w->seed);
    float v[NUMBERS] = {e.reward, e.kl, different_words(policy, w->seed), (float)took};
    keep(key, v);
    ppo_lm_free(policy);
}

static void words_method(world *w, int method, int setting, int seed) {
    char text[128];
    snprintf(text, sizeof text, "kl_coef=%g learning_rate=%g", (double)words_beta(setting),
             (double)words_rate(setting));
    words_run(w, methods[method], setting, seed, 30, method == WORDS_PPO ? text : NULL);
}

static int words_tuned(int method) {
    return best_of("words", "letters", methods[method], NULL, METHOD_SETTINGS);
}

static void words(void) {
    world w = {0};
    for (int seed = FIRST_TUNE; seed < FIRST_TUNE + TUNE; seed++, world_close(&w))
        for (int k = 0; k < 2 * METHOD_SETTINGS; k++)
            words_method(&w, k / METHOD_SETTINGS, k % METHOD_SETTINGS, seed);
    load();
    for (int seed = 1; seed <= SEEDS; seed++, world_close(&w)) {
        for (int k = 0; k < 2; k++) words_method(&w, k, words_tuned(k), seed);
        for (int k = 0; k < DIVERSITY; k++) words_run(&w, diversities[k], 0, seed, 60, remedies[k]);
    }
}

/* ---- memory: the largest resident size of a process that does one thing ---- */

enum { NOTHING, MODEL, SAMPLING, FINE_TUNING, DPO_RUN, GRPO_RUN, PPO_RUN, JOBS };
static const char *const jobs[JOBS] = {"nothing", "model", "sampling", "fine-tuning", "dpo", "grpo", "ppo"};

/* A model in a file, as most are: from there it comes without gradients and moments. */
static const char *const model_path = "build/claims-model.safetensors", *const judge_path =
                                                                            "build/claims-judge.safetensors";

static void save_model(int score, const char *to) {
    ppo_lm_config shape = ppo_lm_config_default();
    ppo_lm *lm = NULL;
    shape.vocab = 2000, shape.context = 48, shape.width = 192, shape.layers = 4, shape.heads = 6,
    shape.score = score;
    must(ppo_lm_create(&shape, &lm));
    must(ppo_lm_save_file(lm, NULL, to));
    ppo_lm_free(lm);
}

static ppo_lm *load_model(const char *from, int trained) {
    ppo_lm *lm = NULL;
    must(ppo_lm_load(from, &lm));
    must(ppo_params_freeze(lm->params, !trained));
    return lm;
}

/* In a process of its own; what it takes is not freed. */
static void do_job(int job) {
    ppo_rng rng = ppo_rng_stream(1, PPO_STREAM_USER, 0);
    ppo_tokens prompts = {0}, texts = {0}, others = {0};
    ppo_fit_config fit = ppo_fit_config_default();
    if (job == NOTHING) return;
    ppo_lm *lm = load_model(model_path, job > SAMPLING);
    for (int i = 0; i < 16; i++) {
        int text[48];
        for (int k = 0; k < 48; k++) text[k] = ppo_rng_below(&rng, 2000);
        must(ppo_tokens_add(&prompts, text, 16, 16));
        must(ppo_tokens_add(&texts, text, 48, 16));
        text[47] = (text[47] + 1) % 2000;
        must(ppo_tokens_add(&others, text, 48, 16));
    }
    fit.epochs = 1, fit.batch_size = 16;
    if (job == SAMPLING) {
        ppo_generator *generator = NULL;
        ppo_sampling how = ppo_sampling_default();
        ppo_samples samples;
        must(ppo_generator_create(lm, 16, &generator));
        must(ppo_generate(generator, &prompts, &how, &samples));
    }
    if (job == FINE_TUNING) must(ppo_fit_sft(lm, &texts, &fit));
    if (job == DPO_RUN) must(ppo_fit_dpo(lm, load_model(model_path, 0), &texts, &others, &fit));
    if (job == PPO_RUN || job == GRPO_RUN) {
        ppo_rlhf *rlhf = NULL;
        ppo_rlhf_config config = ppo_rlhf_config_default();
        ppo_lm *critic = job == PPO_RUN ? load_model(judge_path, 1) : NULL;
        if (job == GRPO_RUN) must(ppo_rlhf_config_preset(&config, "grpo"));
        config.prompts = 16 / config.samples, config.minibatch_size = 16, config.epochs = 1,
        config.target_kl = 0;
        must(ppo_rlhf_create(lm, load_model(model_path, 0), critic, &prompts, ppo_reward_by_lm,
                             load_model(judge_path, 0), &config, &rlhf));
        must(ppo_rlhf_iterate(rlhf, NULL));
    }
}

/* Megabytes, and those of the weights of one model. */
static void memory(void) {
    save_model(0, model_path), save_model(1, judge_path);
    for (int job = 0; job < JOBS; job++) {
        char key[80];
        struct rusage used;
        int status;
        snprintf(key, sizeof key, "%s", key_of("memory", "transformer", jobs[job], 0, 1));
        if (find(key)) continue;
        pid_t child = fork();
        if (child == 0) do_job(job), _exit(0);
        if (child < 0 || wait4(child, &status, 0, &used) < 0 || status) exit(1);
        ppo_lm *lm = load_model(model_path, 0);
        float v[NUMBERS] = {(float)used.ru_maxrss / 1024, 4e-6f * (float)lm->params->count, 0, 0};
        keep(key, v);
        ppo_lm_free(lm);
    }
    remove(model_path), remove(judge_path);
}

/* ---- the page ---- */

/* Intervals on the page: all of them hold together at 95 % (Bonferroni). */
enum { COMPARISONS = 47, SECTIONS = 12 };
static int compared;

/* Student's t at 1 - p, with many degrees of freedom: the normal quantile, and Hill's expansion. */
static double t_quantile(double p, double degrees) {
    double low = 0, high = 10;
    for (int i = 0; i < 100; i++) {
        double mid = (low + high) / 2;
        erfc(mid / sqrt(2)) / 2 > p ? (low = mid) : (high = mid);
    }
    double z = low, cube = z * z * z;
    return z + (cube + z) / (4 * degrees) + (5 * cube * z * z + 16 * cube + 3 * z) / (96 * degrees * degrees);
}

typedef struct difference {
    double mean, half;
} difference;

/* Of a[i] - b[i], seed by seed. */
static difference compare(const float *a, const float *b) {
    float d[SEEDS];
    difference r;
    for (int i = 0; i < SEEDS; i++) d[i] = a[i] - b[i];
    r.mean = mean_of(d, SEEDS);
    r.half = t_quantile(0.025 / COMPARISONS, SEEDS - 1) * deviation_of(d, SEEDS) / sqrt(SEEDS);
    compared++;
    return r;
}

/* What an interval says: 1: above 0, -1: below, 0: neither. */
static int sign_of(difference d) { return d.mean > d.half ? 1 : d.mean < -d.half ? -1 : 0; }

/* Number `which` of SEEDS runs. Ends if one is missing. */
static const float *column(const char *study, const char *task, const char *arm, double setting, int which) {
    static float ring[16][SEEDS];
    static int next;
    float *to = ring[next++ % 16];
    for (int i = 0; i < SEEDS; i++) {
        const char *key = key_of(study, task, arm, setting, i + 1);
        const float *v = find(key);
        if (!v) fprintf(stderr, "missing: %s\n", key), exit(1);
        to[i] = v[which];
    }
    return to;
}

static const float *control_column(int task, int arm, int which) {
    return column("control", tasks[task].name, arms[arm].name, (double)tuned(task, arm), which);
}

/* The page is written to a file of its own, because its first table has all verdicts. */
static FILE *page;
static char verdicts[SECTIONS][512];
static const char *titles[SECTIONS];
static int sections;

static void out(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vfprintf(page, format, args);
    va_end(args);
}

static void section(const char *title, const char *people) {
    titles[sections++] = title;
    out("## %d. \"%s\"\n\n**People say:** %s\n\n", sections, title, people);
}

/* A sentence on the page, and in its first table. */
static void verdict(const char *format, ...) {
    char text[256], *all = verdicts[sections - 1];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    out("\n**Verdict:** %s.\n\n", text);
    snprintf(all + strlen(all), sizeof verdicts[0] - strlen(all), "%s%s", *all ? "; " : "", text);
}

/* A row for each task: scores with `arm` and with `other`; and the verdict. */
static void table(int arm, int other, const char *arm_name, const char *other_name, int bits) {
    static const char *const say[] = {"worse on ", "not shown either way on ", "better on "};
    int signs[TASKS] = {0};
    char text[200] = "", *at = text;
    out("| task | %s (rate) | %s (rate) | difference |\n| --- | --- | --- | --- |\n", arm_name, other_name);
    for (int task = 0; task < TASKS; task++) {
        if (!(bits >> task & 1)) continue;
        const float *a = control_column(task, arm, 0), *b = control_column(task, other, 0);
        difference d = compare(a, b);
        signs[task] = sign_of(d);
        out("| %s | %.1f (%g) | %.1f (%g) | %+.1f +- %.1f |\n", tasks[task].name, mean_of(a, SEEDS),
            (double)tuned(task, arm), mean_of(b, SEEDS), (double)tuned(task, other), d.mean, d.half);
    }
    for (int k = 1; k >= -1; k--) {
        const char *before = say[k + 1];
        for (int task = 0; task < TASKS; task++) {
            if (!(bits >> task & 1) || signs[task] != k) continue;
            at += sprintf(at, "%s%s%s", at > text && *before != ',' ? ", " : "", before, tasks[task].name);
            before = ", ";
        }
    }
    verdict("%s, beside %s: %s", arm_name, other_name, text);
}

/* ---- small decision processes, solved exactly: is the clipped objective below the true gain? ---- */

enum { STATES = 8, ACTIONS = 3, ASCENT = 200 };

typedef struct mdp {
    double next[STATES][ACTIONS][STATES], reward[STATES][ACTIONS];
} mdp;
static const double mdp_gamma = 0.95;

static void softmax(const double *logits, int n, double *p) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += p[i] = exp(logits[i]);
    for (int i = 0; i < n; i++) p[i] /= sum;
}

/* Values of a policy, Q[s][a], and how often each state is seen, discounted, from state 0. Returns V of state 0. */
static double solve(const mdp *m, double pi[STATES][ACTIONS], double Q[STATES][ACTIONS],
                    double seen[STATES]) {
    double V[STATES] = {0}, at[STATES] = {1};
    memset(seen, 0, STATES * sizeof *seen);
    for (int sweep = 0; sweep < 400; sweep++) {
        double next[STATES] = {0}, W[STATES] = {0};
        for (int s = 0; s < STATES; s++) {
            seen[s] += at[s];
            for (int a = 0; a < ACTIONS; a++) {
                Q[s][a] = m->reward[s][a];
                for (int t = 0; t < STATES; t++) {
                    Q[s][a] += mdp_gamma * m->next[s][a][t] * V[t];
                    next[t] += mdp_gamma * at[s] * pi[s][a] * m->next[s][a][t];
                }
                W[s] += pi[s][a] * Q[s][a];
            }
        }
        memcpy(V, W, sizeof V), memcpy(at, next, sizeof at);
    }
    return V[0];
}

/* The clipped objective of a policy, less its value at the old one: what it promises. */
static double promise_of(double pi[STATES][ACTIONS], double old[STATES][ACTIONS], double Q[STATES][ACTIONS],
                         const double seen[STATES], double clip) {
    double promise = 0;
    for (int s = 0; s < STATES; s++) {
        double V = 0;
        for (int a = 0; a < ACTIONS; a++) V += old[s][a] * Q[s][a];
        for (int a = 0; a < ACTIONS; a++) {
            double A = Q[s][a] - V, r = old[s][a] > 0 ? pi[s][a] / old[s][a] : 1;
            promise += seen[s] * old[s][a] * fmin(r * A, fmin(fmax(r, 1 - clip), 1 + clip) * A);
        }
    }
    return promise;
}

/* A random process and policy, a number for each state and action: the clipped objective is climbed with all that can be
   known. What it promises, and what the true return gains. */
static void climb(int seed, double clip, float *promised, float *gained) {
    ppo_rng rng = ppo_rng_stream((uint64_t)seed, PPO_STREAM_USER, 0);
    mdp m;
    double logits[STATES][ACTIONS], old[STATES][ACTIONS], pi[STATES][ACTIONS], Q[STATES][ACTIONS],
        P[STATES][ACTIONS], seen[STATES], ignored[STATES];
    for (int s = 0; s < STATES; s++) {
        for (int a = 0; a < ACTIONS; a++) {
            double draw[STATES];
            for (int t = 0; t < STATES; t++) draw[t] = 2 * (double)ppo_rng_normal(&rng);
            softmax(draw, STATES, m.next[s][a]);
            m.reward[s][a] = (double)ppo_rng_normal(&rng);
            logits[s][a] = (double)ppo_rng_normal(&rng);
        }
        softmax(logits[s], ACTIONS, old[s]);
    }
    double before = solve(&m, old, Q, seen);
    for (int step = 0; step < ASCENT; step++)
        for (int s = 0; s < STATES; s++) {
            double V = 0, g[ACTIONS], mean = 0, scale = 1e-9;
            softmax(logits[s], ACTIONS, pi[s]);
            for (int a = 0; a < ACTIONS; a++) V += old[s][a] * Q[s][a];
            for (int a = 0; a < ACTIONS; a++) {
                double A = Q[s][a] - V, r = pi[s][a] / old[s][a];
                g[a] = (A > 0 ? r > 1 + clip : r < 1 - clip) ? 0 : A;
                mean += pi[s][a] * g[a], scale = fmax(scale, fabs(A));
            }
            for (int a = 0; a < ACTIONS; a++) logits[s][a] += 0.1 * pi[s][a] * (g[a] - mean) / scale;
        }
    for (int s = 0; s < STATES; s++) softmax(logits[s], ACTIONS, pi[s]);
    *promised = (float)promise_of(pi, old, Q, seen, clip),
    *gained = (float)(solve(&m, pi, P, ignored) - before);
}

/* A ridge, as in lesson 6b, of random length: each step to the right pays 1, the last one falls into a pit. The policy
   has one number, the probability of "right", and takes the one that the clipped objective likes best. */
static void ridge(int seed, double clip, float *promised, float *gained) {
    ppo_rng rng = ppo_rng_stream((uint64_t)seed, PPO_STREAM_USER, 1);
    int cells = 4 + ppo_rng_below(&rng, STATES - 3);
    double p_old = 0.1 + 0.4 * (double)ppo_rng_uniform(&rng), pit = -5 - 25 * (double)ppo_rng_uniform(&rng);
    double old[STATES][ACTIONS] = {{0}}, pi[STATES][ACTIONS] = {{0}}, Q[STATES][ACTIONS], P[STATES][ACTIONS],
           seen[STATES], ignored[STATES], best = 0, p_best = p_old;
    mdp m;
    memset(&m, 0, sizeof m);
    for (int s = 0; s < cells; s++) {
        m.next[s][0][s ? s - 1 : 0] = 1;
        if (s + 1 < cells) m.next[s][1][s + 1] = 1;
        m.reward[s][1] = s + 1 < cells ? 1 : pit;
        old[s][0] = 1 - p_old, old[s][1] = p_old;
    }
    double before = solve(&m, old, Q, seen);
    for (int k = 1; k < 200; k++) {
        for (int s = 0; s < cells; s++) pi[s][1] = 0.005 * k, pi[s][0] = 1 - pi[s][1];
        double promise = promise_of(pi, old, Q, seen, clip);
        if (promise > best) best = promise, p_best = 0.005 * k;
    }
    for (int s = 0; s < cells; s++) pi[s][1] = p_best, pi[s][0] = 1 - p_best;
    *promised = (float)best, *gained = (float)(solve(&m, pi, P, ignored) - before);
}

/* What an interval says of `what`. */
static const char *says(difference d, const char *more, const char *less) {
    return sign_of(d) > 0 ? more : sign_of(d) < 0 ? less : "not shown either way";
}

static void report_bound(void) {
    static const struct {
        const char *name;
        void (*one)(int seed, double clip, float *promised, float *gained);
    } worlds[2] = {{"random processes", climb}, {"ridges", ridge}};
    static const double clips[3] = {0.1, 0.2, 0.5};
    out("| 50 each of | clip | promised | gained | gained - promised | the bound holds in, of 50 | the "
        "return falls in, "
        "of 50 |\n| --- | --- | --- | --- | --- | --- | --- |\n");
    int broken = 0;
    for (int k = 0; k < 6; k++) {
        float promised[SEEDS], gained[SEEDS];
        int holds = 0, falls = 0;
        for (int i = 0; i < SEEDS; i++) {
            worlds[k / 3].one(i + 1, clips[k % 3], &promised[i], &gained[i]);
            holds += gained[i] >= promised[i], falls += gained[i] < 0;
        }
        difference d = compare(gained, promised);
        broken += holds < SEEDS;
        out("| %s | %g | %.2f | %.2f | %+.2f +- %.2f | %d | %d |\n", worlds[k / 3].name, clips[k % 3],
            mean_of(promised, SEEDS), mean_of(gained, SEEDS), d.mean, d.half, holds, falls);
    }
    verdict(broken ? "it is none; counterexamples were found"
                   : "no counterexample was found, which is no proof");
}

/* The median of SEEDS numbers, and the largest. */
static double median_of(const float *x, float *largest) {
    float sorted[SEEDS];
    for (int a = 0; a < SEEDS; a++) {
        int b = a;
        for (; b > 0 && sorted[b - 1] > x[a]; b--) sorted[b] = sorted[b - 1];
        sorted[b] = x[a];
    }
    *largest = sorted[SEEDS - 1];
    return (double)(sorted[SEEDS / 2 - 1] + sorted[SEEDS / 2]) / 2;
}

/* If all ratios are in 0.8 to 1.2, r - 1 - log r is at most this. */
static const float in_range = 0.0231f;

static void report_kl(void) {
    int grows = 0, beyond[TASKS] = {0};
    float logs[2][SEEDS], largest;
    out("| learning rate | epochs | KL of the update, median | largest of %d | samples outside the range |\n"
        "| --- | --- | --- | --- | --- |\n",
        SEEDS);
    for (int i = 0; i < RATES - 1; i++) {
        for (int k = 0; k <= PASSES; k++) {
            char arm[40];
            snprintf(arm, sizeof arm, "%d-epochs%s", passes[k < PASSES ? k : PASSES - 1],
                     k < PASSES ? "" : "-unclipped");
            const float *kl = column("update", tasks[CART].name, arm, (double)rates[i], 0);
            const float *outside = column("update", tasks[CART].name, arm, (double)rates[i], 1);
            double median = median_of(kl, &largest);
            out("| %g | %d%s | %.4f | %.4f | %.0f %% |\n", (double)rates[i],
                passes[k < PASSES ? k : PASSES - 1], k < PASSES ? "" : ", no clip", median, (double)largest,
                100 * mean_of(outside, SEEDS));
            for (int j = 0; j < SEEDS && (k == 0 || k == PASSES - 1); j++) logs[k > 0][j] = logf(kl[j]);
        }
        difference d = compare(logs[1], logs[0]);
        grows += sign_of(d) > 0;
        out("| %g | 100 beside 10 | times %.2f (%.2f to %.2f) | | |\n", (double)rates[i], exp(d.mean),
            exp(d.mean - d.half), exp(d.mean + d.half));
    }
    out("\nAnd in whole runs, of section 4: the largest KL of an update.\n\n"
        "| task | epochs (rate) | median of %d runs | largest | runs beyond %.4f |\n| --- | --- | --- | --- "
        "| --- |\n",
        SEEDS, (double)in_range);
    for (int task = 0; task < CORRIDOR; task++)
        for (int k = 0; k < 2; k++) {
            int arm = k ? EPOCHS_30 : BASE, count = 0;
            const float *kl = control_column(task, arm, 2);
            for (int i = 0; i < SEEDS; i++) count += kl[i] > in_range;
            double median = median_of(kl, &largest);
            beyond[task] += count;
            out("| %s | %d (%g) | %.4f | %.4f | %d |\n", tasks[task].name, k ? 30 : 10,
                (double)tuned(task, arm), median, (double)largest, count);
        }
    verdict("more epochs move the policy further at %d of %d learning rates; of 100 runs of each task, %d, "
            "%d and %d have an update that ratios within the range could not make",
            grows, RATES - 1, beyond[CART], beyond[ACRO], beyond[PEND]);
}

static void report_gradients(void) {
    static const char *const names[2] = {"the policy's", "policy's and critic's"};
    static const int rows[3][2] = {{LARGE, BASE}, {LARGE_NO_GRAD_CLIP, LARGE}, {LARGE_DIVIDED, LARGE}};
    static const char *const what[3][2] = {{"rewards of 1000", "rewards of 1"},
                                           {"the same, gradient not clipped", "rewards of 1000"},
                                           {"the same, divided by their deviation", "rewards of 1000"}};
    double times[4];
    out("The first gradient of CartPole-v1:\n\n| gradient | advantages | norm | with rewards of 1000 | times "
        "|\n"
        "| --- | --- | --- | --- | --- |\n");
    for (int k = 0; k < 4; k++) {
        const float *one = column("update", tasks[CART].name, gradients[k / 2 * 2], 0.5 * (k % 2), 2);
        const float *large = column("update", tasks[CART].name, gradients[k / 2 * 2 + 1], 0.5 * (k % 2), 2);
        float ratio[SEEDS];
        for (int i = 0; i < SEEDS; i++) ratio[i] = large[i] / one[i];
        times[k] = mean_of(ratio, SEEDS);
        const double norm = mean_of(large, SEEDS);
        out(norm < 100 ? "| %s | %s | %.3f | %.3f | %.4g |\n" : "| %s | %s | %.3f | %.0f | %.4g |\n",
            names[k % 2], k / 2 ? "normalized" : "raw", mean_of(one, SEEDS), norm, times[k]);
    }
    verdict("the policy's gradient grows %.0f times with raw advantages, %.2f times with normalized ones; "
            "with the critic's in it, %.0f times either way",
            times[0], times[2], times[3]);
    out("And what it does to learning:\n\n| CartPole-v1 | score (rate) | beside | score (rate) | difference "
        "| verdict |\n"
        "| --- | --- | --- | --- | --- | --- |\n");
    for (int k = 0; k < 3; k++) {
        const float *a = control_column(CART, rows[k][0], 0), *b = control_column(CART, rows[k][1], 0);
        difference d = compare(a, b);
        out("| %s | %.1f (%g) | %s | %.1f (%g) | %+.1f +- %.1f | %s |\n", what[k][0], mean_of(a, SEEDS),
            (double)tuned(CART, rows[k][0]), what[k][1], mean_of(b, SEEDS), (double)tuned(CART, rows[k][1]),
            d.mean, d.half, says(d, "better", "worse"));
    }
    out("\n");
}

static void report_words(void) {
    const float *v[2][4];
    out("| method | learning rate, beta | true reward | KL | different words | seconds |\n"
        "| --- | --- | --- | --- | --- | --- |\n");
    for (int m = 0; m < 2; m++) {
        for (int k = 0; k < 4; k++) v[m][k] = column("words", "letters", methods[m], words_tuned(m), k);
        out("| %s | %g, %g | %.2f +- %.2f | %.2f | %.0f %% | %.2f |\n", m == WORDS_PPO ? "PPO" : "DPO",
            (double)words_rate(words_tuned(m)), (double)words_beta(words_tuned(m)), mean_of(v[m][0], SEEDS),
            interval_of(v[m][0], SEEDS), mean_of(v[m][1], SEEDS), 100 * mean_of(v[m][2], SEEDS),
            mean_of(v[m][3], SEEDS));
    }
    out("\nThe intervals of the two rows are of one mean each, at 95 %%.\n");
    difference d = compare(v[WORDS_DPO][0], v[WORDS_PPO][0]);
    verdict("DPO's true reward less PPO's is %+.2f +- %.2f: %s; it takes %.0f %% of the processor's time",
            d.mean, d.half, says(d, "it is better here", "it is not as good here"),
            100 * mean_of(v[WORDS_DPO][3], SEEDS) / mean_of(v[WORDS_PPO][3], SEEDS));
}

static void report_diversity(void) {
    static const char *const signs[3] = {"less", "not shown either way", "more"};
    static const char *const names[DIVERSITY] = {"no remedy", "an entropy bonus of 0.02",
                                                 "an entropy bonus of 0.1", "a KL penalty of 0.3"};
    const float *without[2] = {NULL, NULL};
    int found[DIVERSITY][2] = {{0}};
    out("| PPO, 60 iterations | true reward | beside no remedy | different words | beside no remedy |\n"
        "| --- | --- | --- | --- | --- |\n");
    for (int k = 0; k < DIVERSITY; k++) {
        const float *reward = column("words", "letters", diversities[k], 0, 0),
                    *share = column("words", "letters", diversities[k], 0, 2);
        out("| %s | %.2f | ", names[k], mean_of(reward, SEEDS));
        if (k == 0) {
            without[0] = reward, without[1] = share;
            out("| %.0f %% | |\n", 100 * mean_of(share, SEEDS));
            continue;
        }
        difference r = compare(reward, without[0]), d = compare(share, without[1]);
        found[k][0] = sign_of(r), found[k][1] = sign_of(d);
        out("%+.2f +- %.2f: %s | %.0f %% | %+.0f +- %.0f: %s |\n", r.mean, r.half, says(r, "more", "less"),
            100 * mean_of(share, SEEDS), 100 * d.mean, 100 * d.half, says(d, "more", "fewer"));
    }
    verdict("words of a language model with a bonus of 0.1, beside none: variety: %s, true reward: %s; with "
            "a KL penalty: variety: %s, true reward: %s",
            signs[found[2][1] + 1], signs[found[2][0] + 1], signs[found[3][1] + 1], signs[found[3][0] + 1]);
}

static void report_memory(void) {
    float mb[JOBS], one = 0;
    for (int job = 0; job < JOBS; job++) {
        const float *v = find(key_of("memory", "transformer", jobs[job], 0, 1));
        if (!v) fprintf(stderr, "missing: memory of %s\n", jobs[job]), exit(1);
        mb[job] = v[0] - (job ? mb[NOTHING] : 0), one = v[1];
    }
    out("| a process that has | MB | weights of one model | one that samples |\n| --- | --- | --- | --- |\n");
    for (int job = MODEL; job < JOBS; job++)
        out("| %s | %.1f | %.1f times | %.1f times |\n", jobs[job], (double)mb[job], (double)(mb[job] / one),
            (double)(mb[job] / mb[SAMPLING]));
    verdict("PPO takes %.0f times the weights of one model, %.1f times what sampling takes, %.1f times what "
            "fine-tuning takes",
            (double)(mb[PPO_RUN] / one), (double)(mb[PPO_RUN] / mb[SAMPLING]),
            (double)(mb[PPO_RUN] / mb[FINE_TUNING]));
}

static void report_head(void) {
    printf("# What people say about PPO, measured\n\n"
           "Twelve sentences from courses, posts and papers, each with a measurement on tasks that take less "
           "than a second. `make claims`\nrepeats the runs that are missing in "
           "[results/claims.txt](results/claims.txt), and writes this page; [claims.c](claims.c) is the "
           "program.\n\n"
           "| | people say | what was measured |\n| --- | --- | --- |\n");
    for (int i = 0; i < SECTIONS; i++) printf("| %d | %s | %s |\n", i + 1, titles[i], verdicts[i]);
    printf("\n- **Runs**: %d seeds of each row. A side of a comparison has the learning rate that was best "
           "for it on %d other seeds, of\n ",
           SEEDS, TUNE);
    for (int i = 0; i < RATES; i++) printf(" %g%s", (double)rates[i], i + 1 < RATES ? "," : "");
    printf("; it is in brackets (where it is the first or the last of\n  them, a better one may lie beyond). "
           "A setting is not tested by giving one side a rate that suits the other.\n"
           "- **Score**: the mean of a run's learning curve, from 0 (learned nothing) to 100 (solved at "
           "once), with the most likely actions.\n"
           "- **Intervals**: of the difference, seed by seed. All %d on this page hold together at 95 %% "
           "(Bonferroni: %.2f standard errors, not\n  2.01). A verdict says what the interval says. \"Not "
           "shown either way\" is one: the effect, if there is any, is inside the interval.\n"
           "- **Where this ends**: networks of 32, 32, runs of 20,480 or 40,960 steps, three tasks and a "
           "corridor, and a language model of words\n  with a known true reward. A sentence with \"always\" "
           "or \"never\" can fall here; none becomes a law here.\n\n",
           COMPARISONS, t_quantile(0.025 / COMPARISONS, SEEDS - 1));
}

static void report(void) {
    if (!(page = tmpfile())) fprintf(stderr, "no temporary file\n"), exit(1);
    section("Always normalize advantages",
            "every list of details has it; without it, learning is said to fail.");
    table(BASE, RAW, "normalized", "raw", ALL);

    section("Never skip gradient clipping",
            "a norm of 0.5 belongs to PPO. (The paper does not mention it; OpenAI's code does it.)");
    table(BASE, NO_GRAD_CLIP, "clipped to 0.5", "not clipped", ALL);

    section("A clip of 0.5 is too much", "0.1 to 0.3 are safe, and above it training collapses.");
    table(BASE, CLIP_05, "clip 0.2", "clip 0.5", ALL);

    section("More than 15 epochs ruin it", "many passes over old data overfit it.");
    table(EPOCHS_20, BASE, "20 epochs", "10 epochs", ALL);
    table(EPOCHS_30, BASE, "30 epochs", "10 epochs", ALL);

    section("The clip bounds the KL", "the ratio is kept within 1 +- 0.2, so the policy cannot move far.");
    out("The first update of CartPole-v1. If all ratios were in 0.8 to 1.2, r - 1 - log r of a sample, whose "
        "mean estimates the KL, would\nbe %.4f at most.\n\n",
        (double)in_range);
    report_kl();
    out("It does hold a lot: compare the rows without it. But a sample outside the range has no gradient, "
        "and what others do moves it on\n([lesson 7](../../examples/lessons/07_clip.c)).\n\n");

    section("PPO's objective is a lower bound of the improvement",
            "so a step that raises it cannot do harm. (The paper says: of the objective without the clip.)");
    out("Solved exactly: the clipped objective is maximized, and what it promises stands beside what the "
        "return gains. Random processes have\n%d states, %d actions, and a policy with a number for each; "
        "ridges, as in lesson 6b, have one number for all states.\n\n",
        STATES, ACTIONS);
    report_bound();
    out("Where each state has numbers of its own, improvements add up, and the promise was too low. Where "
        "states share one, the new\npolicy comes to states that the old one hardly saw ([lesson "
        "6b](../../examples/lessons/06b_surrogate.c)).\n\n");

    section("The entropy bonus prevents collapse", "it keeps a policy from settling too early.");
    table(ENTROPY, BASE, "bonus of 0.01", "no bonus", ALL | 1 << CORRIDOR);
    table(ENTROPY_05, BASE, "bonus of 0.5", "no bonus", 1 << CORRIDOR);
    table(ENTROPY_TO_0, BASE, "bonus from 2 to 0", "no bonus", 1 << CORRIDOR);
    out("The corridor is that of [lesson 12](../../examples/lessons/12_entropy.c), and both sides have their "
        "best rate. And a language model\nagainst its reward model, with a learning rate of 0.001:\n\n");
    report_diversity();
    out("Different words are not yet good words: read both columns ([lesson "
        "30](../../examples/lessons/30_diversity.c)).\n\n");

    section("DPO is simpler, and as good",
            "no reward model, no sampling, the same result (Rafailov 2023; Xu 2024 disagrees).");
    out("Both learn from the same %d comparisons, with the best of %d settings on %d other worlds, by the "
        "true reward, which a real project\ndoes not know. Seconds are those of a processor, with the reward "
        "model's.\n\n",
        PAIRS, METHOD_SETTINGS, TUNE);
    report_words();
    out("Curves over the KL, and other methods: [lesson 31](../../examples/lessons/31_methods.c).\n\n");

    section("RLHF takes four times the memory",
            "there are four models: policy, reference, reward model, critic.");
    out("The largest resident size of a process, less that of one that does nothing; a transformer with 2.2 "
        "million parameters, read from a\nfile, and 16 sequences of 48 tokens.\n\n");
    report_memory();
    out("Two of the four are trained, and gradients, moments and activations take more than weights ([lesson "
        "34](../../examples/lessons/34_cost.c)).\n\n");

    section("Clip the value loss", "OpenAI's code does. (Andrychowicz 2021 found that it hurts.)");
    table(VALUE_CLIP, BASE, "clip of 0.2", "not clipped", ALL);
    out("0.2 is in the unit of returns ([lesson 11](../../examples/lessons/11_value_loss.c)). Here "
        "Pendulum's rewards are normalized, and\nthose of the other two are not.\n\n");

    section("Rewards 1,000 times larger make gradients 1,000 times larger",
            "so scale them, or training explodes.");
    report_gradients();
    out("The clip of the norm is that of policy and critic together; see [lesson "
        "16](../../examples/lessons/16_mistakes.c).\n\n");

    section("The paper's actor and critic share a network",
            "therefore its loss has a coefficient for the value.");
    out("A matter of text: for continuous control the paper shares nothing between them, and uses no entropy "
        "bonus (section 6.1); for Atari\nit takes the network of Mnih 2016, which is shared. What sharing "
        "does here:\n\n");
    table(SHARED, BASE, "shared", "two networks", ALL);
    if (compared != COMPARISONS || sections != SECTIONS)
        fprintf(stderr, "%d intervals, not %d\n", compared, COMPARISONS), exit(1);
    report_head();
    rewind(page);
    for (int c = getc(page); c != EOF; c = getc(page)) putchar(c);
    fclose(page);
}

int main(int argc, char **argv) {
    const char *what = argc > 2 ? argv[2] : "", *part = argc > 3 ? argv[3] : "";
    if (strcmp(what, "run") != 0 && strcmp(what, "report") != 0) {
        fprintf(stderr, "claims FILE run [control | update | words | memory], or claims FILE report\n");
        return 2;
    }
    path = argv[1];
    load();
    if (!strcmp(what, "report")) report();
    else {
        must(ppo_use_kernels("avx2")); /* others end in other digits */
        if (!*part || !strcmp(part, "memory")) memory();
        if (!*part || !strcmp(part, "update")) update();
        if (!*part || !strcmp(part, "control")) control();
        if (!*part || !strcmp(part, "words")) words();
    }
    free(runs);
    return 0;
}
