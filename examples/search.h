/* search.h - --trials N of train.c: tries settings, and gives those that do well more steps and more seeds.
   It teaches successive halving (Jamieson and Talwalkar 2016): N trials get a ninth of the steps, the best
   third of them a third, and the best third of those all, with 2, 4 and 8 seeds. Each round trains anew:
   of a schedule that is cut off at a ninth one does not see what it is for. Trial 0 is the command line
   itself, and stays to the last round, so the search ends below what it began with only by chance. A third
   of the others are of chance, most of them worse than the command line; the rest are small changes of the
   best before them. Halfway through the first round, a run below the median of the others ends; which those
   are depends on which were first.

   What is found stands in a folder, a line per run in its study.txt, so a search that was interrupted
   continues. At the end the best settings and the first ones train with ten seeds that the search has not
   seen: the best of many trials is partly the luckiest, and only fresh seeds tell how much. */
#ifndef SEARCH_H
#define SEARCH_H

#include "seeds.h"

#include <sys/stat.h>
#ifdef _WIN32
#include <direct.h>
#define make_folder(path) _mkdir(path)
#else
#include <fcntl.h>
#include <unistd.h>
#define make_folder(path) mkdir(path, 0777)
#endif

/* What is worth trying: mostly what Stable-Baselines3's zoo searches. Rows without effect are left out. */
static const struct searched {
    const char *name, *also, *words; /* `also` gets the same word */
} searched[] = {
    {"learning_rate", NULL, "1e-4 3e-4 7e-4 1e-3 2e-3 4e-3"},
    {"learning_rate_schedule", NULL, "constant linear"},
    {"gamma", NULL, "0.9 0.95 0.98 0.99 0.995 0.999 0.9999"},
    {"gae_lambda", NULL, "0.8 0.9 0.94 0.97 0.99 1"},
    {"clip_low", "clip_high", "0.1 0.2 0.3 0.4"},
    {"entropy_coef", NULL, "0 1e-4 1e-3 0.005 0.01 0.03"},
    {"epochs", NULL, "2 4 10 20"},
    {"num_envs", NULL, "1 4 8 16"},
    {"rollout_steps", NULL, "8 16 32 128 256 512"},
    {"minibatch_size", NULL, "8 32 64 128 256"},
    {"max_grad_norm", NULL, "0.5 1 5"},
    {"value_coef", NULL, "0.25 0.5 1"},
    {"normalize_obs", NULL, "no yes"},
    {"normalize_reward", NULL, "no yes"},
    {"hidden", NULL, "32,32 64,64 128,128"},
    {"activation", NULL, "tanh relu"},
    {"log_std_init", NULL, "-3 -2 -1 0"},
};
enum {
    SEARCHED = sizeof searched / sizeof *searched,
    ROUNDS = 3,
    FIRST_SEEDS = 2,
    MAX_SEEDS = FIRST_SEEDS << (ROUNDS - 1)
};

typedef struct trial {
    ppo_config config;
    float score[ROUNDS][MAX_SEEDS]; /* NAN: not measured */
    float half[FIRST_SEEDS];        /* halfway through the first round; NAN: not yet */
    float mean;                     /* of the round */
    int alive;
} trial;

typedef struct study {
    crew team;
    const options *o;
    trial *trials;
    int round, *job; /* job k: trial job[k] / MAX_SEEDS with its seed job[k] % MAX_SEEDS */
    FILE *file;
    int locked; /* a descriptor of the same file */
    char error[256];
} study;

/* Word `at` of a list; how many there are if word is NULL. */
static int word_of(const char *words, int at, char word[32]) {
    int count = 0;
    for (; *words; words += strcspn(words, " "), words += strspn(words, " "), count++)
        if (word && count == at) snprintf(word, 32, "%.*s", (int)strcspn(words, " "), words);
    return count;
}

static int rollout_of(const ppo_config *c) { return c->num_envs * c->rollout_steps; }

static int are_equal(const ppo_config *a, const ppo_config *b) {
    const ppo_settings *all = ppo_config_settings();
    for (int i = 0; i < all->count; i++) {
        char is[2][1024] = {"", ""};
        ppo_config_get(a, all->field[i].name, is[0], sizeof is[0]);
        ppo_config_get(b, all->field[i].name, is[1], sizeof is[1]);
        if (strcmp(is[0], is[1])) return 0;
    }
    return 1;
}

/* Settings of trial t: those of `from`, of which it changes about this share. What the library would refuse is drawn
   again, and what an earlier trial has, unless nearly all have been tried. */
static ppo_config settings_of(const study *s, int t, const ppo_config *from, float share) {
    const options *o = s->o;
    ppo_rng rng = ppo_rng_stream(o->config.seed, PPO_STREAM_USER, (uint32_t)t);
    for (int tries = 0;;) {
        ppo_config c = *from;
        int earlier = 0;
        for (int i = 0; i < SEARCHED; i++) {
            char word[32];
            const uint32_t at = ppo_rng_below(&rng, (uint32_t)word_of(searched[i].words, 0, NULL));
            ppo_config changed = c;
            if (ppo_rng_uniform(&rng) >= share) continue;
            word_of(searched[i].words, (int)at, word);
            ppo_config_set(&changed, searched[i].name, word);
            if (searched[i].also) ppo_config_set(&changed, searched[i].also, word);
            if (!ppo_config_check_effect(&changed, &o->env, searched[i].name)) c = changed;
        }
        if (ppo_config_check(&c) || c.minibatch_size > rollout_of(&c) ||
            9 * (int64_t)rollout_of(&c) > c.total_steps)
            continue;
        while (earlier < t && !are_equal(&c, &s->trials[earlier].config)) earlier++;
        if (earlier == t || ++tries == 100) return c;
    }
}

/* The flags that make settings `to` of settings `from`. */
static void print_flags(const ppo_config *from, const ppo_config *to) {
    const ppo_settings *all = ppo_config_settings();
    for (int i = 0; i < all->count; i++) {
        const char *name = all->field[i].name;
        char before[1024], now[1024];
        if (strcmp(name, "threads") == 0 || ppo_config_get(from, name, before, sizeof before) ||
            ppo_config_get(to, name, now, sizeof now) || strcmp(before, now) == 0)
            continue;
        printf(" --");
        for (; *name; name++) putchar(*name == '_' ? '-' : *name);
        printf(" %s", now);
    }
    printf("\n");
}

/* 1: a run of the first round is below the median of those that have come as far. */
static int is_behind(study *s, int t, int seed, float half) {
    float x[1000];
    int n = 0;
    crew_lock(&s->team, 1);
    for (int k = 0; k < s->o->trials; k++)
        if (!isnan(s->trials[k].half[seed])) x[n++] = s->trials[k].half[seed];
    s->trials[t].half[seed] = half;
    crew_lock(&s->team, 0);
    qsort(x, (size_t)n, sizeof *x, by_size);
    return t > 0 && n >= 5 && half < x[n / 2];
}

static ppo_status train_until(ppo_trainer *trainer, int64_t steps) {
    ppo_status status = PPO_OK;
    ppo_progress p;
    while (!status && !interrupted && !ppo_trainer_done(trainer) && ppo_trainer_steps(trainer) < steps)
        status = ppo_trainer_iterate(trainer, &p);
    return status;
}

/* Trains a trial with one of its seeds, over the steps of the round. */
static void try_settings(void *user, int k) {
    study *s = (study *)user;
    const int t = s->job[k] / MAX_SEEDS, seed = s->job[k] % MAX_SEEDS;
    options o = *s->o;
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    o.config = s->trials[t].config;
    o.config.seed += (uint64_t)seed;
    for (int r = s->round; r < ROUNDS - 1; r++) o.config.total_steps /= 3;
    ppo_status status = start(&o, &agent, &trainer);
    ppo_evaluation e = {PPO_OK, 0, 0, 0, 0, 0, 0};
    int behind = 0;
    if (!status && s->round == 0) {
        status = train_until(trainer, o.config.total_steps / 2);
        if (!status) e = ppo_evaluate(agent, &o.env, o.eval_episodes, 1), status = e.status;
        if (!status) behind = !interrupted && is_behind(s, t, seed, e.mean_return);
    }
    if (!status && !behind) {
        status = train_until(trainer, o.config.total_steps);
        if (!status) e = ppo_evaluate(agent, &o.env, o.eval_episodes, 1), status = e.status;
    }
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    crew_lock(&s->team, 1);
    if (status && status != PPO_ERROR_NUMERIC) snprintf(s->error, sizeof s->error, "%s", ppo_last_error());
    else if (!interrupted) {
        s->trials[t].score[s->round][seed] =
            status ? -INFINITY : e.mean_return; /* its numbers became infinite */
        fprintf(s->file, "%d %d %d %g\n", s->round, t, seed, (double)s->trials[t].score[s->round][seed]);
        fflush(s->file);
    }
    crew_lock(&s->team, 0);
}

/* A number for all settings, by FNV-1a, and for what else a study's results depend on. */
static uint32_t mark_of(const options *o) {
    const ppo_settings *all = ppo_config_settings();
    uint32_t mark = 2166136261u ^ (uint32_t)o->eval_episodes;
    for (int i = 0; i < all->count; i++) {
        char value[1024] = "";
        if (strcmp(all->field[i].name, "threads") == 0) continue;
        ppo_config_get(&o->config, all->field[i].name, value, sizeof value);
        for (const char *c = value; *c; c++) mark = (mark ^ (unsigned char)*c) * 16777619u;
        mark = (mark ^ '\n') * 16777619u;
    }
    return mark;
}

/* Makes the study's folder, and those above it. */
static int make_folders(const char *path) {
    char part[1024];
    snprintf(part, sizeof part, "%s", path);
    for (char *c = part + 1; *c; c++) {
        if (*c != '/') continue;
        *c = 0;
        make_folder(part); /* the last one tells */
        *c = '/';
    }
    return make_folder(part) && errno != EEXIST ? fail("%s: %s", path, strerror(errno)) : 0;
}

/* Two searches would mix their lines. The lock ends with the process; not on Windows. */
static int lock_study(study *s, const char *path) {
#ifndef _WIN32
    struct flock lock;
    memset(&lock, 0, sizeof lock);
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    s->locked = open(path, O_WRONLY);
    if (s->locked >= 0 && fcntl(s->locked, F_SETLK, &lock) == -1 && (errno == EACCES || errno == EAGAIN))
        return fail("another search is at work in %s: name a new folder by --study", s->o->study);
#else
    (void)s, (void)path;
#endif
    return 0;
}

/* Reads the lines of a study that was interrupted. The first one says what it studies, and one that was cut off
   does not count. */
static int open_study(study *s) {
    const options *o = s->o;
    char path[1024], first[256], line[256] = "\n";
    int round, t, seed, lines = 0;
    float score;
    if (make_folders(o->study)) return 1;
    snprintf(path, sizeof path, "%s/study.txt", o->study);
    snprintf(first, sizeof first, "%s, %d trials, settings %08x\n", o->env.name, o->trials,
             (unsigned)mark_of(o));
    FILE *before = fopen(path, "r");
    while (before && fgets(line, sizeof line, before)) {
        if (!lines++ && strcmp(line, first) != 0)
            return fclose(before), fail("%s holds another study: name a new folder by --study", path);
        if (strchr(line, '\n') && sscanf(line, "%d %d %d %f", &round, &t, &seed, &score) == 4 && round >= 0 &&
            round < ROUNDS && t >= 0 && t < o->trials && seed >= 0 && seed < MAX_SEEDS && score < INFINITY)
            s->trials[t].score[round][seed] = score;
    }
    if (before) fclose(before);
    s->file = fopen(path, "a");
    if (!s->file) return fail("%s: %s", path, strerror(errno));
    if (lock_study(s, path)) return 1;
    if (!lines) fputs(first, s->file), fflush(s->file);
    if (!strchr(line, '\n')) fputs("\n", s->file);
    return 0;
}

/* The runs of a round that those alive lack, and their means. Returns 1 if it did not end. */
static int run_trials(study *s) {
    const options *o = s->o;
    s->team.count = 0;
    for (int t = 0; t < o->trials; t++)
        for (int seed = 0; seed < FIRST_SEEDS << s->round && s->trials[t].alive; seed++)
            if (isnan(s->trials[t].score[s->round][seed])) s->job[s->team.count++] = t * MAX_SEEDS + seed;
    run_crew(&s->team, o->jobs);
    if (*s->error) return fail("%s", s->error);
    if (interrupted) return 1;
    for (int t = 0; t < o->trials; t++) {
        s->trials[t].mean = 0;
        for (int seed = 0; seed < FIRST_SEEDS << s->round; seed++)
            s->trials[t].mean += s->trials[t].score[s->round][seed] / (FIRST_SEEDS << s->round);
    }
    return 0;
}

/* The best, second best, ... (place 0, 1, ...) of the first n trials. */
static int placed(const study *s, int place, int n) {
    for (int t = 0, above = 0;; t++, above = 0) {
        for (int k = 0; k < n; k++)
            above +=
                s->trials[k].mean > s->trials[t].mean || (s->trials[k].mean == s->trials[t].mean && k < t);
        if (above == place) return t;
    }
}

/* The trials of the first round. Of the first third, even ones change a quarter of the first settings, odd ones all.
   Those of the second and the last third change some of the settings of the best so far. */
static int run_generations(study *s) {
    const options *o = s->o;
    for (int t = 0, third = 0; third < 3; third++) {
        const int before = t;
        for (; t < (o->trials * (third + 1) + 2) / 3; t++) {
            const int parent = before ? placed(s, t % (1 + before / 6), before) : 0;
            const float share = before ? 2.0f / SEARCHED : t % 2 ? 1 : 0.25f;
            s->trials[t].config = t ? settings_of(s, t, &s->trials[parent].config, share) : o->config;
            s->trials[t].alive = 1;
        }
        if (run_trials(s)) return 1;
    }
    return 0;
}

/* One round of those that are alive. Returns the best trial, -1 if the round did not end. */
static int run_round(study *s) {
    const options *o = s->o;
    int alive = 0, top = 0;
    if (s->round ? run_trials(s) : run_generations(s)) return -1;
    for (int t = 0; t < o->trials; t++) alive += s->trials[t].alive;
    for (int t = 1; t < o->trials; t++)
        if (s->trials[t].alive && (!s->trials[top].alive || s->trials[t].mean > s->trials[top].mean)) top = t;
    printf("round %d of %d, %d trials of %d seeds: ", s->round + 1, ROUNDS, alive, FIRST_SEEDS << s->round);
    if (s->trials[0].alive) printf("the first settings have %.1f, ", s->trials[0].mean);
    printf("the best %.1f:%s", s->trials[top].mean, top ? "" : " the first");
    print_flags(&o->config, &s->trials[top].config);
    for (int kept = 1 + (alive + 1) / 3; alive > kept;
         alive--) { /* the first settings and a third of the others */
        int worst = -1;
        for (int t = 1; t < o->trials; t++)
            if (s->trials[t].alive && (worst < 0 || s->trials[t].mean <= s->trials[worst].mean)) worst = t;
        s->trials[worst].alive = 0;
    }
    return top;
}

/* The best and the first settings with ten fresh seeds. */
static int judge_fresh(const options *o, const ppo_config *found, int is_first) {
    enum { FRESH = 10 };
    for (int k = is_first; k < 2; k++) {
        float x[FRESH];
        if (train_seeds(o, k ? &o->config : found, o->config.seed + 1000, FRESH, x)) return 1;
        const several s = tell_several(x, FRESH);
        printf("the %s, ten fresh seeds: interquartile mean %.1f (%.1f to %.1f)\n",
               is_first ? "first settings, which are the best"
               : k      ? "first settings"
                        : "best settings",
               s.mean, s.low, s.high);
    }
    return 0;
}

/* --trials. Returns the exit status. */
static int search(const options *given) {
    options o = *given;
    study s;
    int top = 0, failed;
    if (!o.study) o.study = "build/study";
    memset(&s, 0, sizeof s);
    s.o = &o;
    s.locked = -1;
    s.team.job = try_settings, s.team.user = &s;
    s.trials = (trial *)calloc((size_t)o.trials, sizeof *s.trials);
    s.job = (int *)calloc((size_t)o.trials * MAX_SEEDS, sizeof *s.job);
    failed = !s.trials || !s.job ? fail("no memory for %d trials", o.trials) : 0;
    if (9 * (int64_t)rollout_of(&o.config) > o.config.total_steps)
        failed =
            fail("--trials needs --total-steps of nine rollouts, %lld", 9 * (long long)rollout_of(&o.config));
    for (int t = 0; t < o.trials && !failed; t++) {
        for (int i = 0; i < FIRST_SEEDS; i++) s.trials[t].half[i] = NAN;
        for (int i = 0; i < ROUNDS * MAX_SEEDS; i++) s.trials[t].score[i / MAX_SEEDS][i % MAX_SEEDS] = NAN;
    }
    if (!failed) failed = open_study(&s);
    for (s.round = 0; s.round < ROUNDS && !failed; s.round++) failed = (top = run_round(&s)) < 0;
    if (!failed) {
        ppo_config usual = ppo_config_default();
        ppo_config_set_all(&usual, environments[find_environment(&o, NULL)].settings);
        printf("the best: %s --env %s", o.program, environments[find_environment(&o, NULL)].name);
        print_flags(&usual, &s.trials[top].config);
        failed = judge_fresh(&o, &s.trials[top].config, top == 0);
    }
    if (interrupted) fprintf(stderr, "interrupted: the same command continues\n");
    if (s.file && (ferror(s.file) | fclose(s.file)) && !failed)
        failed = fail("%s cannot be written", o.study);
#ifndef _WIN32
    if (s.locked >= 0) close(s.locked);
#endif
    free(s.trials);
    free(s.job);
    return interrupted ? 130 : failed;
}

#endif
