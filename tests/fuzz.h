/* fuzz.h - all that reads what others wrote, each as a function of some bytes, for tests/fuzz.c, which looks for bytes
   that do harm, and tests/test_corpus.c, which repeats those of tests/golden/corpus/. To add a target: its function,
   one that gives inputs to begin with, and a row of fuzz_targets[].

   A target holds if all that is taken is given back, each failure has a sentence, and what is read and written reads
   the same. FUZZ_FAIL(text) is defined by who includes this, after ppo.h with its implementation and companions. */
#ifndef PPO_TEST_FUZZ_H
#define PPO_TEST_FUZZ_H

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "golden/gguf.h"
#include "golden/hub.h"
#include "golden/unicode.h"

typedef void (*fuzz_give)(void *user, const void *data, size_t size);
typedef enum fuzz_form {
    FUZZ_BYTES,
    FUZZ_JSON,
    FUZZ_ARRAYS,
    FUZZ_SETTINGS
} fuzz_form; /* what mutators know */
typedef struct fuzz_target {
    const char *name;
    void (*run)(const unsigned char *data, size_t size);
    void (*seed)(fuzz_give give, void *user);
    fuzz_form form;
    int head; /* bytes in front of what has that form: they choose a case */
    int most; /* bytes of an input */
} fuzz_target;

#define FUZZ_COUNT(array) ((int)(sizeof(array) / sizeof *(array)))
#define FUZZ(condition)                                              \
    do {                                                             \
        if (!(condition)) fuzz_fail(#condition, __FILE__, __LINE__); \
    } while (0)

static void fuzz_fail(const char *condition, const char *file, int line) {
    char text[1000];
    snprintf(text, sizeof text, "%s:%d: it does not hold that %s; the last error is: %s", file, line,
             condition, ppo_last_error());
    FUZZ_FAIL(text);
}

/* --------------------------------------------------------------------------------------------------------
   What the targets share: memory that is counted, files in memory, numbers from bytes
   -------------------------------------------------------------------------------------------------------- */

static size_t fuzz_taken; /* bytes */
static const size_t fuzz_limit = (size_t)64 << 20;

static void *fuzz_hook(void *user, void *ptr, size_t size) {
    enum { HEAD = 16 };
    char *old = ptr ? (char *)ptr - HEAD : NULL;
    (void)user;
    if (size == 0) {
        if (old) __atomic_fetch_sub(&fuzz_taken, *(size_t *)(void *)old, __ATOMIC_SEQ_CST);
        free(old);
        return NULL;
    }
    size_t now = __atomic_add_fetch(&fuzz_taken, size, __ATOMIC_SEQ_CST);
    char *block = !ptr && size < fuzz_limit && now < fuzz_limit ? (char *)malloc(size + HEAD) : NULL;
    if (!block) {
        __atomic_fetch_sub(&fuzz_taken, size, __ATOMIC_SEQ_CST);
        return NULL;
    }
    *(size_t *)(void *)block = size;
    return block + HEAD;
}

static char fuzz_home[64];

static const char *fuzz_path(const char *name) {
    static char path[16][256];
    static int next;
    next = (next + 1) % FUZZ_COUNT(path);
    snprintf(path[next], sizeof path[next], "%s/%s", fuzz_home, name);
    return path[next];
}

static void fuzz_remove(const char *path) {
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        char inside[600];
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        fuzz_remove(inside);
    }
    if (folder) closedir(folder);
    remove(path);
}

static void fuzz_put(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file)) FUZZ_FAIL("a file cannot be written");
}

/* With a 0 after it, for free(). */
static char *fuzz_get(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    *size = 0;
    for (size_t room = 4096, n = 1; file && n; *size += n) {
        data = (char *)realloc(data, (room *= 2) + 1);
        n = fread(data + *size, 1, room - *size, file);
    }
    if (!file) FUZZ_FAIL("a file cannot be read");
    fclose(file);
    data[*size] = 0;
    return data;
}

static int fuzz_same_files(const char *a, const char *b) {
    size_t n, m;
    char *x = fuzz_get(a, &n), *y = fuzz_get(b, &m);
    int same = n == m && memcmp(x, y, n) == 0;
    free(x);
    free(y);
    return same;
}

/* 1: it succeeded. A failure must have a sentence that does nothing to a terminal, unless it repeats a name that the
   caller gave. */
static int fuzz_named;

static int fuzz_ok(ppo_status status) {
    const unsigned char *sentence = (const unsigned char *)ppo_last_error();
    if (status == PPO_OK) return 1;
    FUZZ(*sentence != 0);
    for (; *sentence && !fuzz_named; ++sentence) FUZZ(*sentence >= 32 && *sentence != 127);
    return 0;
}

/* Numbers made of bytes: zeros after the last one. */
typedef struct fuzz_bytes {
    const unsigned char *at, *end;
} fuzz_bytes;

static int fuzz_byte(fuzz_bytes *bytes) { return bytes->at < bytes->end ? *bytes->at++ : 0; }
static int fuzz_below(fuzz_bytes *bytes, int n) { return fuzz_byte(bytes) % n; }

static float fuzz_float(fuzz_bytes *bytes) {
    static const float wild[] = {0,     -0.0f, 1e-45f, 1e-30f, -1e-30f, 0.5f, 2,        100,      -1e6f,
                                 1e15f, 1e30f, -1e30f, 3e38f,  -3e38f,  NAN,  INFINITY, -INFINITY};
    int code = fuzz_byte(bytes);
    return code < FUZZ_COUNT(wild) ? wild[code] : (float)(code - 128) / 64;
}

static int fuzz_int(fuzz_bytes *bytes) {
    static const int wild[] = {
        0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 7, 12, 100, -1, 65536, 2147483647, -2147483647 - 1};
    return wild[fuzz_below(bytes, FUZZ_COUNT(wild))];
}

/* What is left, as a text in `text`, up to a 0. */
static char *fuzz_rest(fuzz_bytes *bytes, char *text, size_t room) {
    size_t n = (size_t)(bytes->end - bytes->at);
    if (n > room - 1) n = room - 1;
    memcpy(text, bytes->at, n);
    text[n] = 0;
    return text;
}

static void fuzz_give_text(fuzz_give give, void *user, int head, const char *text) {
    static char whole[1 << 16];
    size_t n = strlen(text), before = head >= 0;
    if (n >= sizeof whole) return;
    whole[0] = (char)head;
    memcpy(whole + before, text, n);
    give(user, whole, n + before);
}

static void fuzz_give_file(fuzz_give give, void *user, int head, const char *path) {
    size_t n;
    char *data = fuzz_get(path, &n);
    data = (char *)realloc(data, n + 1);
    memmove(data + (head >= 0), data, n);
    if (head >= 0) data[0] = (char)head;
    give(user, data, n + (head >= 0));
    free(data);
}

/* Gives a checkpoint the checksum of what it holds now. */
static void fuzz_mend(const char *path) {
    ppo_file *file = NULL;
    char sum[32];
    if (ppo_file_read(path, &file)) return;
    const char *old = ppo_file_text(file, "checksum");
    if (old && strcmp(old, ppo__file_checksum(file, sum)) != 0) {
        FUZZ(!ppo_file_set_text(file, "checksum", sum));
        FUZZ(!ppo_file_write(file, path));
    }
    ppo_file_free(file);
}

/* Do two checkpoints differ in nothing but the seconds that the run has taken? */
static int fuzz_same_checkpoints(const char *a, const char *b) {
    ppo_file *x = NULL, *y = NULL;
    FUZZ(fuzz_ok(ppo_file_read(a, &x)) && fuzz_ok(ppo_file_read(b, &y)));
    int same = ppo_file_count(x) == ppo_file_count(y), texts = 0;
    for (int i = 0; same && i < ppo_file_count(x); ++i) {
        const ppo_array *array = ppo_file_at(x, i), *other = ppo_file_find(y, array->name);
        if (strstr(array->name, ".seconds")) continue;
        same = other && array->bytes == other->bytes &&
               (!array->bytes || !memcmp(array->data, other->data, array->bytes));
    }
    for (const char *key; same && (key = ppo_file_key_at(x, texts)) != NULL; ++texts)
        same = ppo_file_text(y, key) &&
               (!strcmp(key, "checksum") || !strcmp(ppo_file_text(x, key), ppo_file_text(y, key)));
    same = same && !ppo_file_key_at(y, texts);
    ppo_file_free(x);
    ppo_file_free(y);
    return same;
}

static int fuzz_same_params(const ppo_params *a, const ppo_params *b) {
    return a->count == b->count && a->tensor_count == b->tensor_count &&
           (!a->data || !b->data || memcmp(a->data, b->data, a->count * sizeof(float)) == 0);
}

/* --------------------------------------------------------------------------------------------------------
   Files of arrays
   -------------------------------------------------------------------------------------------------------- */

static void fuzz_arrays(const unsigned char *data, size_t size) {
    const char *in = fuzz_path("in.st"), *out = fuzz_path("out.st"), *again = fuzz_path("again.st");
    ppo_file *file = NULL, *read = NULL;
    fuzz_put(in, data, size);
    if (!fuzz_ok(ppo_file_read(in, &file))) return;
    FUZZ(fuzz_ok(ppo_file_write(file, out)));
    FUZZ(fuzz_ok(ppo_file_read(out, &read)));
    FUZZ(ppo_file_count(file) == ppo_file_count(read));
    for (int i = 0; i < ppo_file_count(file); ++i) {
        const ppo_array *a = ppo_file_at(file, i), *b = ppo_file_at(read, i);
        FUZZ(!strcmp(a->name, b->name) && a->type == b->type && a->rank == b->rank && a->bytes == b->bytes);
        FUZZ(!memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape));
        FUZZ(!a->bytes || !memcmp(a->data, b->data, a->bytes));
        FUZZ(ppo_file_find(read, a->name) == b);
    }
    int texts = 0;
    for (const char *key; (key = ppo_file_key_at(file, texts)) != NULL; ++texts)
        FUZZ(ppo_file_text(read, key) && !strcmp(ppo_file_text(file, key), ppo_file_text(read, key)));
    FUZZ(!ppo_file_key_at(read, texts));
    FUZZ(fuzz_ok(ppo_file_write(read, again)));
    FUZZ(fuzz_same_files(out, again));
    ppo_file_free(file);
    ppo_file_free(read);
}

static void fuzz_seed_arrays(fuzz_give give, void *user) {
    static const float numbers[24] = {1, -0.0f, NAN, INFINITY, 1e-45f};
    static const int64_t shape[] = {2, 3, 1, 2, 1, 1, 1, 1};
    for (int k = 0; k < 12; ++k) {
        ppo_file *file = NULL;
        FUZZ(!ppo_file_create(&file));
        if (k > 0) FUZZ(!ppo_file_set_text(file, "key", "a \"text\"\n\\ \303\251"));
        for (int i = 0; i < k % 4; ++i) {
            char name[16];
            snprintf(name, sizeof name, "array%d", i);
            FUZZ(!ppo_file_add(file, name, (ppo_dtype)((k + i) % 10), shape, (k * 3 + i) % 5, numbers));
        }
        FUZZ(!ppo_file_write(file, fuzz_path("seed.st")));
        ppo_file_free(file);
        fuzz_give_file(give, user, -1, fuzz_path("seed.st"));
    }
}

/* --------------------------------------------------------------------------------------------------------
   Policies and checkpoints: the first byte is the world they are said to be of
   -------------------------------------------------------------------------------------------------------- */

typedef struct fuzz_state {
    float x;
    int t;
} fuzz_state;

static void fuzz_reset(void *state, ppo_rng *rng, float *obs) {
    fuzz_state *s = (fuzz_state *)state;
    s->x = ppo_rng_range(rng, -1, 1);
    s->t = 0;
    for (int i = 0; i < 3; ++i) obs[i] = i ? s->x : 0;
}

static void fuzz_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    fuzz_state *s = (fuzz_state *)state;
    const int up = action->choices ? action->choices[0] : action->box ? action->box[0] > 0 : action->discrete;
    s->x += (up ? 0.2f : -0.2f) + 0.1f * ppo_rng_normal(rng);
    ++s->t;
    for (int i = 0; i < 3; ++i) obs[i] = i ? s->x : (float)s->t / 8;
    out->reward = 1 - s->x * s->x;
    out->terminated = s->x > 2 || s->x < -2;
    out->metrics[0] = s->x;
}

static void fuzz_picture_reset(void *state, ppo_rng *rng, float *obs) {
    ((fuzz_state *)state)->t = 0;
    for (int i = 0; i < 37; ++i) obs[i] = (float)ppo_rng_below(rng, 256) / (i < 36 ? 255.f : 1);
}

static void fuzz_picture_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                              ppo_outcome *out) {
    fuzz_state *s = (fuzz_state *)state;
    int t = s->t + 1;
    fuzz_picture_reset(state, rng, obs);
    s->t = t;
    out->reward = (float)action->discrete;
    out->terminated = ppo_rng_below(rng, 8) == 0;
}

static void fuzz_reset_all(void *state, ppo_rng *rng, float *obs, ppo_outcome *out) {
    fuzz_state *s = (fuzz_state *)state;
    s->t = 0;
    for (int i = 0; i < 2 * 3; ++i) obs[i] = ppo_rng_range(rng, -1, 1);
    out[1].waits = 1;
}

static void fuzz_step_all(void *state, ppo_rng *rng, const ppo_action *actions, float *obs,
                          ppo_outcome *out) {
    fuzz_state *s = (fuzz_state *)state;
    ++s->t;
    for (int k = 0; k < 2; ++k) {
        const int acted = actions[k].choices != NULL;
        out[k].reward = acted ? (float)actions[k].choices[0] : 0;
        out[k].waits = s->t % 2 != k;
        out[k].terminated = s->t > 6;
        for (int i = 0; i < 3; ++i) obs[k * 3 + i] = ppo_rng_range(rng, -1, 1);
    }
}

static void fuzz_mask(const void *state, unsigned char *mask) {
    mask[((const fuzz_state *)state)->t % 3] = 0;
}

static const char *const fuzz_worlds[] = {
    "normalize_obs=yes normalize_reward=yes",
    "squash=yes gsde=yes gsde_steps=3 critic_learning_rate=1e-3",
    "recurrent=3 sequence_steps=4 minibatch_size=8",
    "self_play=2 snapshot_every=1",
    "conv=2x3x3 minibatch_size=8",
    "objective=kl-penalty penalty_target_kl=0.01 rpo_alpha=0.2 shared_trunk=yes layer_norm=yes",
    "num_envs=3",
    "use_critic=no objective=unclipped epochs=1 weight_decay=0.1",
};

static ppo_env fuzz_world(int k) {
    static const int sizes[] = {3, 2};
    ppo_env env;
    memset(&env, 0, sizeof env);
    env.name = "fuzz";
    env.obs_size = 3;
    env.state_size = sizeof(fuzz_state);
    env.max_steps = 9;
    env.action_space = ppo_discrete(2);
    env.reset = fuzz_reset;
    env.step = fuzz_step;
    env.metrics[0] = "x";
    if (k == 1) env.action_space = ppo_box(2, -1, 1);
    if (k == 2) env.action_space = ppo_multi_discrete(sizes, 2), env.action_mask = fuzz_mask;
    if (k == 3) {
        env.action_space = ppo_multi_binary(3);
        env.reset = NULL, env.step = NULL;
        env.reset_all = fuzz_reset_all, env.step_all = fuzz_step_all;
        env.agents = env.teams = 2;
    }
    if (k == 4) {
        env.action_space = ppo_discrete(3);
        env.obs_size = 37, env.shape[0] = 1, env.shape[1] = env.shape[2] = 6, env.byte_scale = 1 / 255.f;
        env.reset = fuzz_picture_reset, env.step = fuzz_picture_step;
    }
    if (k == 5) env.action_space = ppo_box(1, 0, INFINITY), env.actor_obs = 2;
    if (k == 6) env.reset = NULL, env.step = NULL, env.max_steps = 0; /* its experience is pushed */
    return env;
}

static ppo_config fuzz_config(int k) {
    ppo_config config = ppo_config_default();
    FUZZ(!ppo_config_set_all(
        &config, "num_envs=2 rollout_steps=16 minibatch_size=16 epochs=2 total_steps=200 hidden=4"));
    FUZZ(!ppo_config_set_all(&config, fuzz_worlds[k]));
    return config;
}

static void fuzz_push(ppo_trainer *trainer, const ppo_env *env, int steps) {
    ppo_rng rng = ppo_rng_stream(1, PPO_STREAM_USER, 0);
    float obs[3] = {0, 1, -1};
    ppo_outcome out;
    ppo_action action;
    memset(&out, 0, sizeof out);
    (void)env;
    for (int e = 0; e < 3; ++e) FUZZ(fuzz_ok(ppo_trainer_observe(trainer, e, obs, NULL, NULL)));
    for (int t = 0; t < steps; ++t) {
        for (int e = 0; e < 3; ++e) {
            if (!fuzz_ok(ppo_trainer_act(trainer, e, &action))) return;
            obs[0] = ppo_rng_normal(&rng);
            out.reward = (float)action.discrete;
            if (!fuzz_ok(ppo_trainer_observe(trainer, e, obs, NULL, &out))) return;
        }
        if (!fuzz_ok(ppo_trainer_learn(trainer, 0, NULL))) return;
    }
}

static void fuzz_use_agent(ppo_agent *agent, const ppo_env *env) {
    const ppo_actor_critic *model = &agent->model;
    const int n = model->obs_size;
    ppo_rng rng = ppo_rng_stream(1, PPO_STREAM_USER, 0);
    ppo_agent *copy = NULL, *read = NULL;
    ppo_action action;
    if (n > 100000) return;
    float *obs = (float *)calloc((size_t)n, sizeof *obs);
    for (int i = 0; i < n; ++i) obs[i] = ppo_rng_normal(&rng);
    fuzz_ok(ppo_act(agent, obs, NULL, &action));
    fuzz_ok(ppo_act(agent, obs, &rng, &action));
    free(obs);
    FUZZ(fuzz_ok(ppo_agent_save(agent, fuzz_path("policy.st"))));
    FUZZ(fuzz_ok(ppo_agent_load(fuzz_path("policy.st"), NULL, &read)));
    FUZZ(fuzz_same_params(model->params, read->model.params));
    FUZZ(fuzz_ok(ppo_agent_save(read, fuzz_path("again.st"))));
    FUZZ(fuzz_same_files(fuzz_path("policy.st"), fuzz_path("again.st")));
    if (fuzz_ok(ppo_agent_copy(agent, &copy))) FUZZ(fuzz_ok(ppo_agent_assign(copy, read)));
    if (model->params->count < 4000) fuzz_ok(ppo_export_c(agent, "net", fuzz_path("net.h")));
    if (env->step || env->step_all) fuzz_ok(ppo_evaluate(agent, env, 2, 1).status);
    ppo_agent_free(copy);
    ppo_agent_free(read);
}

static void fuzz_policies(const unsigned char *data, size_t size) {
    if (size < 1) return;
    const ppo_env env = fuzz_world(data[0] % FUZZ_COUNT(fuzz_worlds));
    const char *in = fuzz_path("in.st");
    ppo_config config;
    char name[64];
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    fuzz_put(in, data + 1, size - 1);
    fuzz_mend(in);
    fuzz_ok(ppo_config_load(in, &config, name));
    if (fuzz_ok(ppo_agent_load(in, NULL, &agent))) fuzz_use_agent(agent, &env);
    ppo_agent_free(agent);
    if (!fuzz_ok(ppo_trainer_resume(in, &env, NULL, &agent, &trainer))) return;
    const ppo_config *own = &trainer->config;
    const double work = (double)own->num_envs * own->rollout_steps * (1 + own->epochs);
    FUZZ(fuzz_ok(ppo_trainer_save(trainer, fuzz_path("checkpoint.st"))));
    if (work * (double)agent->model.params->count < 1e6) {
        if (env.step || env.step_all)
            for (int i = 0; i < 2 && !ppo_trainer_done(trainer); ++i)
                if (!fuzz_ok(ppo_trainer_iterate(trainer, NULL))) break;
        if (!env.step && !env.step_all && own->num_envs == 3) fuzz_push(trainer, &env, 40);
        fuzz_ok(ppo_trainer_save(trainer, fuzz_path("later.st")));
    }
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    FUZZ(fuzz_ok(ppo_trainer_resume(fuzz_path("checkpoint.st"), &env, NULL, &agent, &trainer)));
    FUZZ(fuzz_ok(ppo_trainer_save(trainer, fuzz_path("again.st"))));
    FUZZ(fuzz_same_checkpoints(fuzz_path("checkpoint.st"), fuzz_path("again.st")));
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

static void fuzz_seed_policies(fuzz_give give, void *user) {
    for (int k = 0; k < FUZZ_COUNT(fuzz_worlds); ++k) {
        const ppo_env env = fuzz_world(k);
        const ppo_config config = fuzz_config(k);
        ppo_agent *agent = NULL;
        ppo_trainer *trainer = NULL;
        FUZZ(fuzz_ok(ppo_agent_create(&env, &config, &agent)));
        FUZZ(fuzz_ok(ppo_trainer_create(&env, &config, agent, &trainer)));
        if (k == 6) fuzz_push(trainer, &env, 20);
        else FUZZ(fuzz_ok(ppo_trainer_iterate(trainer, NULL)));
        FUZZ(fuzz_ok(ppo_trainer_save(trainer, fuzz_path("seed.st"))));
        fuzz_give_file(give, user, k, fuzz_path("seed.st"));
        if (k == 4 || k == 5) FUZZ(fuzz_ok(ppo_agent_save(agent, fuzz_path("seed.st"))));
        if (k == 4 || k == 5) fuzz_give_file(give, user, k, fuzz_path("seed.st"));
        ppo_trainer_free(trainer);
        ppo_agent_free(agent);
    }
}

/* --------------------------------------------------------------------------------------------------------
   Models and tokenizers in single files, and checkpoints of their trainings
   -------------------------------------------------------------------------------------------------------- */

static const char fuzz_text[] =
    "the cat sat on the mat. the dog sat on the log. a cat and a dog ran to the hat. ";
static ppo_tokenizer *fuzz_letters, *fuzz_pairs;
static ppo_lm *fuzz_base;

static ppo_lm *fuzz_model(const char *family, int vocab, int score) {
    ppo_lm_config c = ppo_lm_config_default();
    ppo_lm *lm = NULL;
    c.vocab = vocab;
    FUZZ(fuzz_ok(ppo_lm_config_family(&c, family)));
    c.context = 16, c.width = 8, c.layers = 1, c.heads = 2, c.kv_heads = 0, c.head_size = 0, c.hidden = 8;
    c.rotary_size = c.rotary_size > 0 && c.rotary_size < 4 ? c.rotary_size : 0;
    c.score = score;
    FUZZ(fuzz_ok(ppo_lm_create(&c, &lm)));
    return lm;
}

static void fuzz_use_model(ppo_lm *lm) {
    ppo_generator *generator = NULL;
    ppo_tokens prompts = {0};
    ppo_sampling how = ppo_sampling_default();
    ppo_samples samples;
    const int token = 0;
    how.max_new_tokens = 3;
    if (lm->config.context > 100000) return;
    FUZZ(fuzz_ok(ppo_tokens_add(&prompts, &token, 1, 1)));
    if (fuzz_ok(ppo_generator_create(lm, 1, &generator)))
        fuzz_ok(ppo_generate(generator, &prompts, &how, &samples));
    ppo_generator_free(generator);
    ppo_tokens_free(&prompts);
}

static void fuzz_use_tokenizer(ppo_tokenizer *tok, const char *text, size_t bytes) {
    static const ppo_message said[] = {
        {"system", "be <s> kind"}, {"user", " 12 cats?"}, {"assistant", "no\n"}};
    ppo_tokens chat = {0};
    for (int flags = 0; flags < 16; ++flags) {
        int n = 0, k = 0;
        size_t length = 0;
        if (!fuzz_ok(ppo_encode_as(tok, flags, text, bytes, NULL, 0, &n)) || n > 10000) continue;
        int *tokens = (int *)malloc((size_t)(n + 1) * sizeof *tokens);
        FUZZ(fuzz_ok(ppo_encode_as(tok, flags, text, bytes, tokens, n, &k)) || n == 0);
        FUZZ(k == n || n == 0);
        if (fuzz_ok(ppo_decode(tok, tokens, k, NULL, 0, &length)) && length < 1000000) {
            char *out = (char *)malloc(length + 1);
            FUZZ(fuzz_ok(ppo_decode(tok, tokens, k, out, length + 1, &length)));
            free(out);
        }
        free(tokens);
    }
    for (int form = PPO_CHAT_OWN; form < PPO_CHAT_FORMS; ++form)
        fuzz_ok(ppo_tokens_add_chat(&chat, tok, form, said, 3, form == 1));
    for (int form = PPO_CHAT_OWN; form < PPO_CHAT_FORMS; ++form) FUZZ(ppo_tokenizer_chat_note(tok, form) && ppo_tokenizer_note(tok));
    fuzz_ok(ppo_tokenizer_fits(tok, "llama"));
    FUZZ(ppo_tokenizer_pad(tok, 0) < ppo_tokenizer_vocab(tok));
    FUZZ(ppo_tokenizer_find(tok, text) < ppo_tokenizer_vocab(tok));
    ppo_tokens_free(&chat);
}

/* Saves it to `path`, and reads it again. */
static void fuzz_keep_tokenizer(const ppo_tokenizer *tok, const char *path) {
    static const char text[] = "the 12  cats,<s> \303\251\xe4\xb8\xad";
    ppo_tokenizer *read = NULL;
    int a[64], b[64], n = 0, m = 0;
    if (!fuzz_ok(ppo_tokenizer_save(tok, path))) return;
    FUZZ(fuzz_ok(ppo_tokenizer_load(path, &read)));
    FUZZ(ppo_tokenizer_vocab(tok) == ppo_tokenizer_vocab(read));
    const int first = fuzz_ok(ppo_encode(tok, text, sizeof text - 1, a, 64, &n));
    FUZZ(first == fuzz_ok(ppo_encode(read, text, sizeof text - 1, b, 64, &m)));
    FUZZ(!first || (n == m && !memcmp(a, b, (size_t)n * sizeof *a)));
    ppo_tokenizer_free(read);
}

static void fuzz_models(const unsigned char *data, size_t size) {
    const char *in = fuzz_path("in.st"), *out = fuzz_path("out.st");
    ppo_tokenizer *tok = NULL;
    ppo_tokens tokens = {0}, read = {0};
    ppo_lm *lm = NULL, *again = NULL;
    fuzz_put(in, data, size);
    if (fuzz_ok(ppo_tokenizer_load(in, &tok))) {
        fuzz_use_tokenizer(tok, fuzz_text, sizeof fuzz_text - 1);
        fuzz_keep_tokenizer(tok, out);
    }
    if (fuzz_ok(ppo_tokens_load(in, &tokens)) && tokens.count) {
        FUZZ(fuzz_ok(ppo_tokens_save(&tokens, out)));
        FUZZ(fuzz_ok(ppo_tokens_load(out, &read)));
        FUZZ(tokens.count == read.count && tokens.start[tokens.count] == read.start[read.count]);
    }
    ppo_tokens_free(&tokens);
    ppo_tokens_free(&read);
    if (fuzz_ok(ppo_lm_load(in, &lm))) {
        fuzz_use_model(lm);
        FUZZ(fuzz_ok(ppo_lm_save_file(lm, tok, out)));
        FUZZ(fuzz_ok(ppo_lm_load(out, &again)));
        FUZZ(fuzz_same_params(lm->params, again->params));
        FUZZ(fuzz_ok(ppo_lm_save_file(again, tok, fuzz_path("again.st"))));
        FUZZ(fuzz_same_files(out, fuzz_path("again.st")));
    }
    ppo_tokenizer_free(tok);
    ppo_lm_free(lm);
    ppo_lm_free(again);
}

static const char *const fuzz_families[] = {"gpt2",  "gpt_neo", "gpt_neox",    "llama", "mistral",
                                            "qwen2", "qwen3",   "gemma3_text", "olmo2", "smollm3",
                                            "phi3",  "granite", "opt"};

static void fuzz_seed_models(fuzz_give give, void *user) {
    const char *seed = fuzz_path("seed.st");
    for (int k = 0; k < FUZZ_COUNT(fuzz_families); ++k) {
        ppo_tokenizer *tok = k % 2 ? fuzz_pairs : fuzz_letters;
        ppo_lm *lm = fuzz_model(fuzz_families[k], ppo_tokenizer_vocab(tok), k % 2);
        FUZZ(fuzz_ok(ppo_lm_save_file(lm, k % 3 ? NULL : tok, seed)));
        fuzz_give_file(give, user, -1, seed);
        ppo_lm_free(lm);
    }
    FUZZ(fuzz_ok(ppo_tokenizer_save(fuzz_letters, seed)));
    fuzz_give_file(give, user, -1, seed);
    FUZZ(fuzz_ok(ppo_tokenizer_save(fuzz_pairs, seed)));
    fuzz_give_file(give, user, -1, seed);
    for (int k = 0; k < 2; ++k) {
        ppo_tokens tokens = {0};
        FUZZ(fuzz_ok(ppo_tokens_add_text(&tokens, fuzz_letters, -1, "the", " cat", 0)));
        if (k) FUZZ(fuzz_ok(ppo_tokens_add_text(&tokens, fuzz_letters, -1, "a", " dog", 0)));
        if (k) FUZZ(fuzz_ok(ppo_tokens_mark_given(&tokens, 1, 2)));
        FUZZ(fuzz_ok(ppo_tokens_save(&tokens, seed)));
        ppo_tokens_free(&tokens);
        fuzz_give_file(give, user, -1, seed);
    }
}

static ppo_status fuzz_reward(const ppo_samples *samples, float *reward, void *user) {
    (void)user;
    for (int s = 0; s < samples->tokens.count; ++s) reward[s] = (float)(samples->tokens.start[s + 1] % 3);
    return PPO_OK;
}

/* Trains a model a little; kind 0 and 1: by ppo_fit_...(), with this checkpoint; 2: on tokens, and saves that. */
static int fuzz_train(int kind, const char *checkpoint, int resume) {
    static const char *const texts[] = {"the cat", "a dog", "the hat", "a log"};
    ppo_tokens data = {0}, other = {0};
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_rlhf_config on_tokens = ppo_rlhf_config_default();
    ppo_rlhf *rlhf = NULL;
    ppo_lm *lm = fuzz_model("llama", ppo_tokenizer_vocab(fuzz_letters), 1);
    int done = 0;
    for (int i = 0; i < 4; ++i) {
        FUZZ(fuzz_ok(ppo_tokens_add_text(&data, fuzz_letters, -1, texts[i], " sat", 0)));
        FUZZ(fuzz_ok(ppo_tokens_add_text(&other, fuzz_letters, -1, texts[i], " ran", 0)));
    }
    fit.steps = 4, fit.batch_size = 2, fit.checkpoint = checkpoint, fit.checkpoint_every = 2;
    fit.held_out = &other, fit.patience = kind == 0 ? 2 : 0, fit.evaluate_every = 1;
    fit.held_out_rejected = kind == 1 ? &data : NULL;
    on_tokens.prompts = on_tokens.minibatch_size = on_tokens.slots = 2, on_tokens.epochs = 1,
    on_tokens.iterations = 5;
    on_tokens.sampling.max_new_tokens = 3;
    if (kind == 0) done = fuzz_ok(ppo_fit_sft(lm, &data, &fit));
    if (kind == 1) done = fuzz_ok(ppo_fit_reward(lm, &data, &other, &fit));
    if (kind == 2) {
        if (resume) fuzz_ok(ppo_settings_load(ppo_rlhf_settings(), checkpoint, &on_tokens));
        const double work = (double)on_tokens.prompts * on_tokens.samples * (1 + on_tokens.epochs);
        if (work > 100 || on_tokens.slots > 100 || on_tokens.sampling.max_new_tokens > 20) resume = -1;
        if (resume == 1)
            done = fuzz_ok(
                ppo_rlhf_resume(checkpoint, lm, NULL, NULL, &data, fuzz_reward, NULL, &on_tokens, &rlhf));
        if (resume == 0)
            done = fuzz_ok(ppo_rlhf_create(lm, NULL, NULL, &data, fuzz_reward, NULL, &on_tokens, &rlhf));
        if (done && resume) {
            FUZZ(fuzz_ok(ppo_rlhf_save(rlhf, fuzz_path("out.st"))));
            ppo_rlhf_free(rlhf);
            FUZZ(fuzz_ok(ppo_rlhf_resume(fuzz_path("out.st"), lm, NULL, NULL, &data, fuzz_reward, NULL,
                                         &on_tokens, &rlhf)));
            FUZZ(fuzz_ok(ppo_rlhf_save(rlhf, fuzz_path("again.st"))));
            FUZZ(fuzz_same_checkpoints(fuzz_path("out.st"), fuzz_path("again.st")));
        }
        if (done) done = fuzz_ok(ppo_rlhf_iterate(rlhf, NULL)) && fuzz_ok(ppo_rlhf_save(rlhf, checkpoint));
        ppo_rlhf_free(rlhf);
    }
    ppo_lm_free(lm);
    ppo_tokens_free(&data);
    ppo_tokens_free(&other);
    return done;
}

static void fuzz_trainings(const unsigned char *data, size_t size) {
    if (size < 1) return;
    const char *in = fuzz_path("in.st");
    char path[256];
    strcpy(path, in);
    fuzz_put(path, data + 1, size - 1);
    fuzz_mend(path);
    fuzz_train(data[0] % 3, path, 1);
}

static void fuzz_seed_trainings(fuzz_give give, void *user) {
    char path[256];
    strcpy(path, fuzz_path("seed.st"));
    for (int kind = 0; kind < 3; ++kind) {
        remove(path);
        FUZZ(fuzz_train(kind, path, 0));
        fuzz_give_file(give, user, kind, path);
    }
}

/* --------------------------------------------------------------------------------------------------------
   Folders of the model hub: the first byte is the file that the others replace
   -------------------------------------------------------------------------------------------------------- */

static const char *const fuzz_hub_files[][2] = {
    {"gpt2", "config.json"},
    {"gpt_neo", "config.json"},
    {"gpt_neox", "config.json"},
    {"llama", "config.json"},
    {"mistral", "config.json"},
    {"qwen2", "config.json"},
    {"qwen3", "config.json"},
    {"llama", "generation_config.json"},
    {"parts", "model.safetensors.index.json"},
    {"llama", "model.safetensors"},
    {"gpt2", "model.safetensors"},
    {"adapter", "adapter_config.json"},
    {"adapter", "adapter_model.safetensors"},
    {"llama", "tokenizer_config.json"},
    {"llama", "chat_template.jinja"},
};

static char *fuzz_hub_path(const char *folder, const char *name) {
    static char path[8][256];
    static int next;
    next = (next + 1) % 8;
    snprintf(path[next], sizeof path[next], "%s/hub/%s%s%s", fuzz_home, folder, *name ? "/" : "", name);
    return path[next];
}

/* Makes the folders. */
static void fuzz_make_hub(void) {
    const int vocab = ppo_tokenizer_vocab(fuzz_letters);
    ppo_lora lora = ppo_lora_default();
    ppo_lm *adapted = NULL;
    ppo_file *file = NULL;
    static char index[4000];
    if (access(fuzz_hub_path("parts", "config.json"), F_OK) == 0) return;
    for (int k = 0; k < FUZZ_COUNT(fuzz_families); ++k) {
        ppo_lm *lm = fuzz_model(fuzz_families[k], vocab, k == 1);
        FUZZ(fuzz_ok(ppo_lm_save(lm, fuzz_hub_path(fuzz_families[k], ""), k % 2 ? PPO_BF16 : PPO_F32)));
        if (k == 3) FUZZ(fuzz_ok(ppo_lm_save(lm, fuzz_hub_path("parts", ""), PPO_F32)));
        ppo_lm_free(lm);
    }
    FUZZ(fuzz_ok(ppo_tokenizer_save(fuzz_pairs, fuzz_hub_path("llama", ""))));
    static const char generation[] = "{\"eos_token_id\": [0, 1], \"bos_token_id\": 1, \"temperature\": 0.5}";
    fuzz_put(fuzz_hub_path("llama", "generation_config.json"), generation, strlen(generation));
    fuzz_put(fuzz_hub_path("llama", "chat_template.jinja"), ppo_chat_template(0),
             strlen(ppo_chat_template(0)));
    lora.rank = 2;
    FUZZ(fuzz_ok(ppo_lm_adapt(fuzz_base, &lora, 1, &adapted)));
    FUZZ(fuzz_ok(ppo_lm_save(adapted, fuzz_hub_path("adapter", ""), PPO_F32)));
    ppo_lm_free(adapted);

    FUZZ(!rename(fuzz_hub_path("parts", "model.safetensors"), fuzz_hub_path("parts", "part.safetensors")));
    FUZZ(fuzz_ok(ppo_file_read(fuzz_hub_path("parts", "part.safetensors"), &file)));
    int n = snprintf(index, sizeof index, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {");
    for (int i = 0; i < ppo_file_count(file); ++i)
        n += snprintf(index + n, sizeof index - (size_t)n, "%s\"%s\": \"part.safetensors\"", i ? ", " : "",
                      ppo_file_at(file, i)->name);
    n += snprintf(index + n, sizeof index - (size_t)n, "}}");
    fuzz_put(fuzz_hub_path("parts", "model.safetensors.index.json"), index, (size_t)n);
    ppo_file_free(file);
}

static void fuzz_hub(const unsigned char *data, size_t size) {
    if (size < 1) return;
    fuzz_make_hub();
    const char *folder = fuzz_hub_files[data[0] % FUZZ_COUNT(fuzz_hub_files)][0];
    char path[256], kept[300], out[256], again[256], in[256];
    int ends[4], n = 0, adapter = !strcmp(folder, "adapter");
    ppo_lm *lm = NULL, *read = NULL;
    ppo_tokenizer *tok = NULL;
    strcpy(in, fuzz_hub_path(folder, ""));
    strcpy(path, fuzz_hub_path(folder, fuzz_hub_files[data[0] % FUZZ_COUNT(fuzz_hub_files)][1]));
    snprintf(kept, sizeof kept, "%s.kept", path);
    FUZZ(!rename(path, kept));
    fuzz_put(path, data + 1, size - 1);
    strcpy(out, fuzz_hub_path("out", ""));
    strcpy(again, fuzz_hub_path("again", ""));
    mkdir(out, 0777);
    fuzz_ok(ppo_lm_load_ends(in, ends, 4, &n));
    FUZZ(n >= 0);
    if (!strcmp(folder, "llama") && fuzz_ok(ppo_tokenizer_load(in, &tok)))
        fuzz_use_tokenizer(tok, fuzz_text, 20), fuzz_ok(ppo_tokenizer_save(tok, out));
    ppo_tokenizer_free(tok);
    if (fuzz_ok(adapter ? ppo_lm_load_adapter(in, fuzz_base, &lm) : ppo_lm_load(in, &lm))) {
        fuzz_use_model(lm);
        if (fuzz_ok(ppo_lm_save(lm, out, PPO_F32))) { /* not what the family's config.json cannot say */
            FUZZ(fuzz_ok(adapter ? ppo_lm_load_adapter(out, fuzz_base, &read) : ppo_lm_load(out, &read)));
            FUZZ(fuzz_same_params(lm->params, read->params));
            FUZZ(fuzz_ok(ppo_lm_save(read, again, PPO_F32)));
            FUZZ(fuzz_same_files(fuzz_hub_path("out", adapter ? "adapter_config.json" : "config.json"),
                                 fuzz_hub_path("again", adapter ? "adapter_config.json" : "config.json")));
        }
        ppo_lm_free(read), read = NULL;
        if (adapter && fuzz_ok(ppo_lm_merge(lm, &read))) ppo_lm_free(read);
    }
    ppo_lm_free(lm);
    fuzz_remove(out);
    fuzz_remove(again);
    FUZZ(!rename(kept, path));
}

static void fuzz_seed_hub(fuzz_give give, void *user) {
    fuzz_make_hub();
    for (int k = 0; k < FUZZ_COUNT(fuzz_hub_files); ++k)
        fuzz_give_file(give, user, k, fuzz_hub_path(fuzz_hub_files[k][0], fuzz_hub_files[k][1]));
}

/* --------------------------------------------------------------------------------------------------------
   GGUF
   -------------------------------------------------------------------------------------------------------- */

static void fuzz_gguf(const unsigned char *data, size_t size) {
    const char *in = fuzz_path("in.gguf"), *out = fuzz_path("out.gguf"), *again = fuzz_path("again.gguf");
    ppo_tokenizer *tok = NULL, *read = NULL;
    ppo_lm *lm = NULL, *same = NULL;
    int ends[2], n = 0;
    fuzz_put(in, data, size);
    fuzz_ok(ppo_lm_load_ends(in, ends, 2, &n));
    FUZZ(n >= 0 && n <= 3);
    if (fuzz_ok(ppo_tokenizer_load(in, &tok))) fuzz_use_tokenizer(tok, fuzz_text, 30);
    if (fuzz_ok(ppo_lm_load(in, &lm))) {
        fuzz_use_model(lm);
        if (fuzz_ok(
                ppo_gguf_save(lm, tok, NULL, PPO_GGUF_F32, out))) { /* not what a tokenizer has no word for */
            FUZZ(fuzz_ok(ppo_lm_load(out, &same)));
            FUZZ(fuzz_same_params(lm->params, same->params));
            if (tok) FUZZ(fuzz_ok(ppo_tokenizer_load(out, &read)));
            FUZZ(fuzz_ok(ppo_gguf_save(same, read, NULL, PPO_GGUF_F32, again)));
            FUZZ(fuzz_same_files(out, again));
        }
        fuzz_ok(ppo_gguf_save(lm, NULL, NULL, PPO_GGUF_Q8_0, out));
    }
    ppo_tokenizer_free(tok);
    ppo_tokenizer_free(read);
    ppo_lm_free(lm);
    ppo_lm_free(same);
}

/* SentencePiece's tokens, without a model. */
static size_t fuzz_pieces(char *out) {
    static const char *const pieces[] = {"<unk>", "<s>", "</s>", "\342\226\201",
                                         "a",     "b",   "ab",   "\342\226\201ab"};
    static const char *const names[] = {"tokenizer.ggml.model", "tokenizer.ggml.tokens",
                                        "tokenizer.ggml.scores", "tokenizer.ggml.token_type"};
    static const unsigned char kinds[] = {2, 3, 3, 1, 1, 1, 1, 1};
    char *at = out;
    memset(out, 0, 2000);
    memcpy(at, "GGUF\3", 5);
    at[16] = 4;
    at += 24;
    for (int k = 0; k < 4; ++k) {
        *at = (char)strlen(names[k]);
        strcpy(at + 8, names[k]);
        at += 8 + *at;
        *at = k ? 9 : 8;
        at[4] = (char)(k == 0 ? 5 : k == 1 ? 8 : k == 2 ? 6 : 5);
        at += k ? 8 : 12;
        if (k) *at = 8, at += 8;
        else memcpy(at, "llama", 5), at += 5;
        for (int i = 0; i < 8 && k; ++i) {
            const float score = -(float)i;
            if (k == 1) *at = (char)strlen(pieces[i]), strcpy(at + 8, pieces[i]), at += 8 + *at;
            if (k == 2) memcpy(at, &score, 4), at += 4;
            if (k == 3) *at = (char)kinds[i], at += 4;
        }
    }
    return (size_t)(at - out);
}

static void fuzz_seed_gguf(fuzz_give give, void *user) {
    static char file[16384];
    const char *seed = fuzz_path("seed.gguf");
    int n = 0;
    for (; n < g_gguf_file_bytes; n += 64) memcpy(file + n, g_gguf_file[n / 64], 64);
    give(user, file, (size_t)g_gguf_file_bytes);
    give(user, file, fuzz_pieces(file));
    for (int k = 0; k < FUZZ_COUNT(fuzz_families); ++k) {
        ppo_lm *lm = fuzz_model(fuzz_families[k], 4, 0);
        if (fuzz_ok(ppo_gguf_save(lm, NULL, NULL, k % 2 ? PPO_GGUF_F32 : PPO_GGUF_F16, seed)))
            fuzz_give_file(give, user, -1, seed);
        ppo_lm_free(lm);
    }
}

/* --------------------------------------------------------------------------------------------------------
   Expressions: one, a 0, and the text that it cuts
   -------------------------------------------------------------------------------------------------------- */

typedef struct fuzz_cuts {
    size_t end;
    int last; /* 1: the last piece matches */
} fuzz_cuts;

static void fuzz_piece(void *user, size_t begin, size_t end, int matches) {
    fuzz_cuts *cuts = (fuzz_cuts *)user;
    FUZZ(begin == cuts->end && end >= begin && (matches || (end > begin && cuts->last)));
    cuts->end = end;
    cuts->last = matches;
}

static void fuzz_expressions(const unsigned char *data, size_t size) {
    char pattern[500];
    const char *zero = size ? (const char *)memchr(data, 0, size) : NULL;
    const size_t n = zero ? (size_t)(zero - (const char *)data) : size, bytes = zero ? size - n - 1 : 0;
    ppo_expression *expression = NULL;
    fuzz_cuts cuts = {0, 1};
    if (n >= sizeof pattern) return;
    if (n) memcpy(pattern, data, n);
    pattern[n] = 0;
    if (!fuzz_ok(ppo_expression_create(pattern, &expression))) return;
    if (fuzz_ok(ppo_expression_cut(expression, zero ? zero + 1 : NULL, bytes, fuzz_piece, &cuts)))
        FUZZ(cuts.end == bytes);
    ppo_expression_free(expression);
}

static void fuzz_seed_expressions(fuzz_give give, void *user) {
    static const char *const more[] = {"(a|ab)(?=c{2,3})\0abcc", "(?im)^.\\b$|\\S*?x\0a\nX",
                                       "[a-f&&[^c]]++|(?<!\\d)\\Z\0abc", "(?<n>a?){,3}(?!b*c)\0aab"};
    static const size_t bytes[] = {21, 20, 27, 23};
    char text[1000];
    for (int k = 0; k < FUZZ_COUNT(more); ++k) give(user, more[k], bytes[k]);
    for (int k = 0; k < FUZZ_COUNT(g_unicode_expression); ++k) {
        const int n = snprintf(text, 600, "%s", g_unicode_expression[k][1]);
        memcpy(text + n + 1, g_unicode_text + 40 * k % 900, 100);
        give(user, text, (size_t)n + 101);
    }
}

/* --------------------------------------------------------------------------------------------------------
   tokenizer.json
   -------------------------------------------------------------------------------------------------------- */

static void fuzz_tokenizers(const unsigned char *data, size_t size) {
    static const char text[] = "Hello  wORLD 123 \303\251\xe4\xb8\xad<s><|im_start|> x\n\n\ta'll \xff\x80 ab";
    ppo_tokenizer *tok = NULL;
    fuzz_put(fuzz_path("tokenizer.json"), data, size);
    if (!fuzz_ok(ppo_tokenizer_load(fuzz_path("tokenizer.json"), &tok))) return;
    fuzz_use_tokenizer(tok, text, sizeof text - 1);
    fuzz_keep_tokenizer(tok, fuzz_path("tokenizer-saved.json"));
    ppo_tokenizer_free(tok);
}

static void fuzz_seed_tokenizers(fuzz_give give, void *user) {
    static char text[1 << 16];
    for (int k = 0; k < FUZZ_COUNT(g_hub); ++k) {
        size_t n = 0;
        for (int half = 0; half < 2; ++half)
            for (const char *const *part = half ? g_hub[k].body : g_hub[k].head; *part; n += strlen(*part++))
                strcpy(text + n, *part);
        give(user, text, n);
    }
    for (int k = 0; k < FUZZ_COUNT(g_unicode_kind); ++k) {
        size_t n = 0;
        for (int part = 0; part < 3; ++part)
            for (const char *const *line = g_unicode_kind[k].parts[part]; *line; n += strlen(*line++))
                strcpy(text + n, *line);
        give(user, text, n);
    }
    static const char small[] =
        "{\"version\": \"1.0\", \"truncation\": null, \"added_tokens\": [{\"id\": 0, \"content\": \"<s>\", "
        "\"single_word\": false, \"special\": true}, {\"id\": 7, \"content\": \"  \", \"normalized\": "
        "true}], "
        "\"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": "
        "\"\342\226\201\", \"prepend_scheme\": \"first\", \"split\": true}, \"post_processor\": {\"type\": "
        "\"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\"}}, {\"Sequence\": {\"id\": "
        "\"A\"}}], \"special_tokens\": {\"<s>\": {\"id\": \"<s>\", \"ids\": [0]}}}, \"decoder\": {\"type\": "
        "\"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": \"\342\226\201\"}, "
        "\"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}, {\"type\": \"Strip\", "
        "\"content\": \" \", \"start\": 1, \"stop\": 0}]}, \"model\": {\"type\": \"BPE\", \"unk_token\": "
        "\"<s>\", "
        "\"fuse_unk\": true, \"byte_fallback\": false, \"vocab\": {\"<s>\": 0, \"a\": 1, \"b\": 2, "
        "\"\\u2581\": "
        "3, \"ab\": 4, \"\342\226\201ab\": 5, \"<0x41>\": 6}, \"merges\": [\"a b\", [\"\342\226\201\", "
        "\"ab\"]]}}";
    give(user, small, sizeof small - 1);
}

/* --------------------------------------------------------------------------------------------------------
   JSON Lines: the first byte is how they are read
   -------------------------------------------------------------------------------------------------------- */

static void fuzz_lines(const unsigned char *data, size_t size) {
    if (size < 1) return;
    const char *in = fuzz_path("in.jsonl"), *out = fuzz_path("out.jsonl"), *again = fuzz_path("again.jsonl");
    ppo_tokens tokens = {0}, rejected = {0}, read = {0};
    ppo_lines lines = ppo_lines_default();
    ppo_named named;
    int skipped = 0;
    fuzz_put(in, data + 1, size - 1);
    lines.specials = data[0] >> 1 & 1;
    lines.max_tokens = data[0] & 4 ? 9 : 0;
    lines.needs = (data[0] >> 3 & 3) % 3;
    lines.form = (data[0] >> 5 & 3) % 3;
    lines.named = &named;
    const int ok = fuzz_ok(
        ppo_tokens_add_lines(&tokens, data[0] & 1 ? &rejected : NULL, in, fuzz_pairs, &lines, &skipped));
    FUZZ(ok || (!tokens.count && !rejected.count));
    if (tokens.count) {
        lines = ppo_lines_default();
        FUZZ(fuzz_ok(ppo_tokens_save_lines(&tokens, fuzz_pairs, out)));
        const int full = fuzz_ok(ppo_tokens_add_lines(&read, NULL, out, fuzz_pairs, &lines, &skipped));
        FUZZ(read.count + skipped == tokens.count || !full); /* unless one has special tokens alone */
        if (full && !skipped) {
            FUZZ(fuzz_ok(ppo_tokens_save_lines(&read, fuzz_pairs, again)));
            FUZZ(fuzz_same_files(out, again));
        }
    }
    ppo_tokens_free(&tokens);
    ppo_tokens_free(&rejected);
    ppo_tokens_free(&read);
}

static void fuzz_seed_lines(fuzz_give give, void *user) {
    static const char *const lines[] = {
        "{\"text\": \"the cat\"}\n{\"text\": \"\\u00e9\\n \\ud83d\\ude00 <eos>\", \"x\": [1, {}]}\n",
        "{\"prompt\": \"the\", \"completion\": \" cat\"}\n\n{\"prompt\": \"a\"}\n",
        "{\"messages\": [{\"role\": \"system\", \"content\": \"be kind\"}, {\"role\": \"user\", \"content\": "
        "\"hi\"}, {\"role\": \"assistant\", \"content\": \"no\"}]}\n",
        "{\"prompt\": \"the\", \"chosen\": \" cat\", \"rejected\": \" dog\"}\n",
        "{\"chosen\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": "
        "\"a\"}], "
        "\"rejected\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": "
        "\"b\"}]}\n",
        "{\"prompt\": [{\"role\": \"user\", \"content\": \"hi\"}], \"completion\": [{\"role\": "
        "\"assistant\", "
        "\"content\": \"a\"}]}\r\n"};
    for (int k = 0; k < FUZZ_COUNT(lines); ++k)
        fuzz_give_text(give, user, k == 3 || k == 4 ? 1 : 0, lines[k]);
    for (int k = 0; k < FUZZ_COUNT(lines); ++k) fuzz_give_text(give, user, 2 + 4 * (k % 2) + 32, lines[k]);
}

/* --------------------------------------------------------------------------------------------------------
   Settings
   -------------------------------------------------------------------------------------------------------- */

/* Sets what the text says; what can be read of a setting then sets it to the same. */
static void fuzz_set(const ppo_settings *all, void *config, void *other, size_t size, const char *text) {
    char value[2000], again[2000];
    fuzz_ok(ppo_settings_set_all(all, config, text));
    memcpy(other, config, size);
    for (int i = 0; i < all->count; ++i) {
        const char *name = all->field[i].name;
        if (!strstr(text, name)) continue;
        FUZZ(fuzz_ok(ppo_settings_get(all, config, name, value, sizeof value)));
        if (!all->field[i].initial && !strcmp(value, "0"))
            continue; /* as it has no default, 0 need not be valid */
        if (!fuzz_ok(ppo_settings_set(all, other, name, value))) FUZZ(!"a value that was read can be set");
        FUZZ(fuzz_ok(ppo_settings_get(all, other, name, again, sizeof again)));
        FUZZ(!strcmp(value, again));
    }
    FUZZ(!ppo_settings_set(all, other, all->field[0].name,
                           all->field[0].initial ? all->field[0].initial : "0"));
}

static void fuzz_settings(const unsigned char *data, size_t size) {
    static char text[1 << 13];
    fuzz_bytes bytes = {data, data + size};
    fuzz_rest(&bytes, text, sizeof text);
    ppo_config c = ppo_config_default(), c2;
    ppo_rlhf_config r = ppo_rlhf_config_default(), r2;
    ppo_fit_config f = ppo_fit_config_default(), f2;
    ppo_sampling s = ppo_sampling_default(), s2;
    ppo_lm_config l = ppo_lm_config_default(), l2;
    const ppo_env env = fuzz_world(0);
    fuzz_named = 1;
    fuzz_set(ppo_config_settings(), &c, &c2, sizeof c, text);
    fuzz_set(ppo_rlhf_settings(), &r, &r2, sizeof r, text);
    fuzz_set(ppo_fit_settings(), &f, &f2, sizeof f, text);
    fuzz_set(ppo_sampling_settings(), &s, &s2, sizeof s, text);
    fuzz_set(ppo_lm_settings(), &l, &l2, sizeof l, text);
    if (fuzz_ok(ppo_config_check(&c))) fuzz_ok(ppo_config_check_effect(&c, &env, NULL));
    fuzz_ok(ppo_config_preset(&c, text));
    fuzz_ok(ppo_rlhf_config_preset(&r, text));
    fuzz_ok(ppo_lm_config_family(&l, text));
    fuzz_ok(ppo_config_set(&c, text, "1"));
    fuzz_ok(ppo_config_set(&c, "hidden", text));
    fuzz_ok(ppo_config_set(&c, "conv", text));
    fuzz_ok(ppo_config_set(&c, "gamma", text));
    fuzz_ok(ppo_config_set(&c, "seed", text));
    fuzz_ok(ppo_config_set(&c, "total_steps", text));
    fuzz_ok(ppo_config_set(&c, "objective", text));
    fuzz_named = 0;
}

static void fuzz_seed_settings(fuzz_give give, void *user) {
    static const char *const texts[] = {
        "gamma=0.9 hidden=64,64 conv=8x4x2,16x3x1 objective=kl-penalty seed=7",
        "a2c",
        "grpo",
        "qwen3",
        "total-steps=1e6 use_critic=no activation=relu",
        "top_k=5 temperature=0.7 kl_place=loss learning_rate_schedule=cosine",
        "vocab=100 width=64 norm=rms rope_scaling=llama3"};
    for (int k = 0; k < FUZZ_COUNT(texts); ++k) fuzz_give_text(give, user, -1, texts[k]);
    for (int k = 0; k < FUZZ_COUNT(fuzz_worlds); ++k) fuzz_give_text(give, user, -1, fuzz_worlds[k]);
}

/* --------------------------------------------------------------------------------------------------------
   A CSV that a resumed run continues: the first byte is after how many steps
   -------------------------------------------------------------------------------------------------------- */

static void fuzz_csv(const unsigned char *data, size_t size) {
    if (size < 1) return;
    const char *path = fuzz_path("progress.csv");
    const int64_t steps = data[0] * 10 + 1;
    ppo_log *log = NULL;
    ppo_progress p;
    memset(&p, 0, sizeof p);
    fuzz_put(path, data + 1, size - 1);
    if (!fuzz_ok(ppo_log_open(path, NULL, steps, &log))) return;
    p.steps = steps + 1;
    const int written = fuzz_ok(ppo_log_write(log, &p)); /* unless the columns are others */
    ppo_log_close(log);
    if (!written) return;
    size_t bytes;
    char *text = fuzz_get(path, &bytes);
    fuzz_put(fuzz_path("kept.csv"), text, bytes);
    free(text);
    FUZZ(fuzz_ok(ppo_log_open(path, NULL, steps + 1, &log)));
    ppo_log_close(log);
    FUZZ(fuzz_same_files(path, fuzz_path("kept.csv"))); /* all of it are rows */
}

static void fuzz_seed_csv(fuzz_give give, void *user) {
    for (int metrics = 0; metrics < 2; ++metrics) {
        static const char *const names[PPO_MAX_METRICS] = {"goals", "x"};
        const char *path = fuzz_path("seed.csv");
        ppo_log *log = NULL;
        ppo_progress p;
        memset(&p, 0, sizeof p);
        if (metrics) p.metric_names = names, p.metrics[1] = NAN;
        FUZZ(fuzz_ok(ppo_log_open(path, NULL, 0, &log)));
        for (int i = 1; i < 4; ++i) {
            p.iteration = i, p.steps = 100 * i, p.loss = 1.f / (float)i, p.mean_return = i == 1 ? NAN : 1e10f;
            FUZZ(fuzz_ok(ppo_log_write(log, &p)));
        }
        ppo_log_close(log);
        fuzz_give_file(give, user, 5, path);
        fuzz_give_file(give, user, 25, path);
    }
}

/* --------------------------------------------------------------------------------------------------------
   Descriptions of environments, with settings after a 0, and what is pushed
   -------------------------------------------------------------------------------------------------------- */

/* What the functions of a described world do is made of its random stream, so that it is the same in each copy. */
static const unsigned char *fuzz_habit; /* [16] */
static int fuzz_wild_obs, fuzz_wild_agents, fuzz_wild_outputs;

static float fuzz_drawn(ppo_rng *rng, int wild) {
    const unsigned char code = (unsigned char)ppo_rng_below(rng, 17);
    fuzz_bytes one = {&code, &code + 1};
    return wild && ppo_rng_below(rng, 256) < wild ? fuzz_float(&one) : ppo_rng_normal(rng);
}

static void fuzz_wild_outcome(ppo_rng *rng, ppo_outcome *out) {
    out->reward = fuzz_drawn(rng, fuzz_habit[0]);
    out->terminated = ppo_rng_below(rng, 256) < fuzz_habit[1];
    out->truncated = ppo_rng_below(rng, 256) < fuzz_habit[2];
    out->waits = ppo_rng_below(rng, 256) < fuzz_habit[3];
    out->joins = ppo_rng_below(rng, 256) < fuzz_habit[4];
    out->metrics[0] = fuzz_drawn(rng, fuzz_habit[0]);
}

static void fuzz_wild_sight(ppo_rng *rng, float *obs, int n) {
    for (int i = 0; i < n; ++i)
        obs[i] = fuzz_habit[6] & 1 ? (float)ppo_rng_below(rng, 256) / 255.f : fuzz_drawn(rng, fuzz_habit[5]);
}

static void fuzz_wild_reset(void *state, ppo_rng *rng, float *obs) {
    (void)state;
    if (ppo_rng_below(rng, 256) < fuzz_habit[7]) ppo_env_fail("no %s", "reset");
    fuzz_wild_sight(rng, obs, fuzz_wild_obs);
}

static void fuzz_wild_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                           ppo_outcome *out) {
    (void)state;
    (void)action;
    if (ppo_rng_below(rng, 256) < fuzz_habit[7]) ppo_env_fail("no step");
    fuzz_wild_sight(rng, obs, fuzz_wild_obs);
    fuzz_wild_outcome(rng, out);
}

static void fuzz_wild_reset_all(void *state, ppo_rng *rng, float *obs, ppo_outcome *out) {
    fuzz_wild_sight(rng, obs, fuzz_wild_obs * fuzz_wild_agents);
    (void)state;
    for (int k = 0; k < fuzz_wild_agents; ++k) {
        out[k].waits = ppo_rng_below(rng, 256) < fuzz_habit[3];
        out[k].terminated = ppo_rng_below(rng, 256) < fuzz_habit[4];
    }
}

static void fuzz_wild_step_all(void *state, ppo_rng *rng, const ppo_action *actions, float *obs,
                               ppo_outcome *out) {
    (void)state;
    (void)actions;
    fuzz_wild_sight(rng, obs, fuzz_wild_obs * fuzz_wild_agents);
    for (int k = 0; k < fuzz_wild_agents; ++k) fuzz_wild_outcome(rng, &out[k]);
}

static void fuzz_wild_mask(const void *state, unsigned char *mask) {
    (void)state;
    for (int i = 0; i < fuzz_wild_outputs; ++i) mask[i] = fuzz_habit[8 + i % 4] & 1;
}

static int fuzz_wild_open(void *state, void *user, int copy) {
    (void)state, (void)user;
    return copy >= 1 && fuzz_habit[12] & 1;
}
static void fuzz_wild_close(void *state) { (void)state; }

static ppo_space fuzz_space(fuzz_bytes *bytes) {
    ppo_space space;
    memset(&space, 0, sizeof space);
    space.kind = (ppo_space_kind)fuzz_below(bytes, 6);
    space.n = fuzz_byte(bytes) & 1 ? fuzz_int(bytes) : 1 + fuzz_below(bytes, 3);
    space.low = fuzz_byte(bytes) & 3 ? -1 : fuzz_float(bytes);
    space.high = fuzz_byte(bytes) & 3 ? 1 : fuzz_float(bytes);
    for (int i = 0; i < 4; ++i)
        space.sizes[i] = fuzz_byte(bytes) & 7 ? 1 + fuzz_below(bytes, 3) : fuzz_int(bytes);
    if (space.n > PPO_MAX_CHOICES && (int)space.kind > PPO_BOX) space.n = PPO_MAX_CHOICES + 1;
    return space;
}

static ppo_env fuzz_wild_env(fuzz_bytes *bytes, char *name) {
    ppo_env env;
    memset(&env, 0, sizeof env);
    fuzz_habit = (const unsigned char *)name; /* 16 bytes, of which the name is not made */
    env.obs_size = fuzz_byte(bytes) & 7 ? 1 + fuzz_below(bytes, 12) : fuzz_int(bytes);
    env.actor_obs = fuzz_byte(bytes) & 3 ? 0 : fuzz_int(bytes);
    for (int i = 0; i < 3 && fuzz_habit[6] & 2; ++i) env.shape[i] = fuzz_below(bytes, 5);
    env.byte_scale = fuzz_habit[6] & 1 ? 1 / 255.f : fuzz_habit[6] & 4 ? fuzz_float(bytes) : 0;
    env.action_space = fuzz_space(bytes);
    env.state_size = (size_t)fuzz_below(bytes, 40);
    env.max_steps = fuzz_byte(bytes) & 3 ? 1 + fuzz_below(bytes, 9) : fuzz_int(bytes);
    env.copies = fuzz_byte(bytes) & 7 ? 0 : fuzz_int(bytes);
    env.agents = fuzz_byte(bytes) & 3 ? 0 : fuzz_int(bytes);
    env.teams = fuzz_byte(bytes) & 3 ? 0 : fuzz_int(bytes);
    int functions = fuzz_byte(bytes);
    if (env.agents ? !(functions & 1) : functions & 1) env.reset_all = fuzz_wild_reset_all;
    else env.reset = fuzz_wild_reset;
    if (env.agents ? !(functions & 2) : functions & 2) env.step_all = fuzz_wild_step_all;
    else env.step = fuzz_wild_step;
    if (functions & 4) env.action_mask = fuzz_wild_mask;
    if (functions & 8) env.open = fuzz_wild_open, env.close = fuzz_wild_close;
    if ((functions & 48) == 48) env.metrics[0] = "goals";
    if ((functions & 192) == 192) env.name = name + 16;
    fuzz_wild_obs = env.obs_size, fuzz_wild_agents = env.agents;
    fuzz_wild_outputs = env.action_space.n < 10000 ? env.action_space.n : 10000;
    for (int j = 0, n = env.action_space.n; (int)env.action_space.kind >= 2 && j < n && j < PPO_MAX_CHOICES;
         ++j)
        fuzz_wild_outputs += env.action_space.sizes[j] > 0 && env.action_space.sizes[j] < 100
                                 ? env.action_space.sizes[j] - 1
                                 : 0;
    return env;
}

static int fuzz_finite(const ppo_params *params) {
    for (size_t i = 0; i < params->count; ++i)
        if (!ppo__finite(params->data[i])) return 0;
    return 1;
}

static void fuzz_envs(const unsigned char *data, size_t size) {
    enum { HEAD = 60 }; /* the description; settings follow */
    char habit[16 + 40], text[1000];
    fuzz_bytes bytes = {data, data + (size < HEAD ? size : HEAD)}, rest = {bytes.end, data + size};
    for (int i = 0; i < 16; ++i) habit[i] = (char)fuzz_byte(&bytes);
    ppo_env env = fuzz_wild_env(&bytes, habit);
    fuzz_rest(&rest, text, sizeof text);
    snprintf(habit + 16, 40, "%.30s", text);
    ppo_config config = fuzz_config(0);
    ppo_inspection report;
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    if (fuzz_byte(&bytes) & 1) config.normalize_obs = config.normalize_reward = 0;
    ppo_settings_set_all(ppo_config_settings(), &config, text);
    if (fuzz_ok(ppo_env_check_with(&env, &config, 20, 1, &report)))
        for (int i = 0; i < report.findings; ++i) FUZZ(*report.finding[i] && report.symptom[i]);
    if (!fuzz_ok(ppo_agent_create(&env, &config, &agent))) return;
    const double work = (double)config.num_envs * config.rollout_steps * (1 + config.epochs);
    if (work < 5000 && work * (double)agent->model.params->count < 3e6) {
        int ok = fuzz_ok(ppo_trainer_create(&env, &config, agent, &trainer));
        for (int i = 0; i < 2 && ok && !ppo_trainer_done(trainer); ++i) {
            ok = fuzz_ok(ppo_trainer_iterate(trainer, NULL));
            if (ok) FUZZ(fuzz_finite(agent->model.params));
        }
        if (ok && fuzz_ok(ppo_trainer_save(trainer, fuzz_path("out.st")))) {
            ppo_agent *read = NULL;
            ppo_trainer *resumed = NULL;
            if (fuzz_ok(ppo_trainer_resume(fuzz_path("out.st"), &env, NULL, &read, &resumed)))
                FUZZ(fuzz_same_params(agent->model.params, read->model.params));
            ppo_trainer_free(resumed);
            ppo_agent_free(read);
        }
        if (agent->model.params->count < 50000) /* it plays whole episodes */
            fuzz_ok(ppo_evaluate(agent, &env, 2, 1).status);
    }
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

static void fuzz_seed_envs(fuzz_give give, void *user) {
    ppo_rng rng = ppo_rng_stream(3, PPO_STREAM_USER, 0);
    unsigned char data[300];
    for (int k = 0; k < 24; ++k) {
        memset(data, 0, sizeof data);
        for (int i = 0; i < 80; ++i) data[i] = (unsigned char)(1 + ppo_rng_below(&rng, 255));
        for (int i = 0; i < 16; ++i) data[i] = (unsigned char)(k & 1 ? 0 : ppo_rng_below(&rng, 30));
        data[1] = 40;
        strcpy((char *)data + 60, fuzz_worlds[k % FUZZ_COUNT(fuzz_worlds)]);
        give(user, data, 60 + strlen((char *)data + 60));
    }
}

/* A sequence of calls, most of them in the order that the library asks for. */
static void fuzz_pushes(const unsigned char *data, size_t size) {
    static const char *const settings[] = {"",
                                           "recurrent=2 sequence_steps=2",
                                           "normalize_obs=yes normalize_reward=yes",
                                           "recompute_advantages=yes use_critic=yes",
                                           "use_critic=no objective=unclipped",
                                           "objective=kl-penalty penalty_target_kl=0.01",
                                           "target_kl=0.01 shards=2",
                                           "hidden=none activation=relu clip_obs=1 normalize_obs=yes"};
    fuzz_bytes bytes = {data, data + size};
    ppo_env env = fuzz_world(6);
    ppo_config config = fuzz_config(6);
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_action action;
    ppo_outcome out;
    ppo_progress progress;
    float obs[8];
    unsigned char mask[16];
    int phase[3] = {0, 0, 0}; /* 0: an episode begins, 1: it acts, 2: its outcome follows */
    int kind = fuzz_byte(&bytes);
    env.obs_size = 1 + kind % 3;
    env.action_space = kind & 4 ? ppo_box(2, -1, 1) : kind & 8 ? ppo_multi_binary(2) : ppo_discrete(3);
    FUZZ(!ppo_config_set_all(&config, settings[fuzz_below(&bytes, FUZZ_COUNT(settings))]));
    config.rollout_steps = 1 + fuzz_below(&bytes, 6);
    config.total_steps = config.rollout_steps * 3 * (1 + fuzz_below(&bytes, 4));
    config.minibatch_size = fuzz_below(&bytes, 12);
    config.num_envs = 3;
    if (!fuzz_ok(ppo_agent_create(&env, &config, &agent))) return;
    int ok = fuzz_ok(ppo_trainer_create(&env, &config, agent, &trainer));
    for (int t = 0; ok && t < 300 && bytes.at < bytes.end; ++t) {
        int what = fuzz_byte(&bytes), s = what % 3;
        const int right = what >= 40;
        memset(&out, 0, sizeof out);
        if (!right && what < 4) s = fuzz_int(&bytes);
        if (right && what < 60) { /* learns: all, or a minibatch */
            ppo_status status = ppo_trainer_learn(trainer, what < 50 ? 0 : -1, &progress);
            if (fuzz_ok(status)) FUZZ(fuzz_finite(agent->model.params));
            continue;
        }
        if (right && what < 64 &&
            fuzz_ok(ppo_trainer_save(trainer, fuzz_path("out.st")))) { /* goes on from a file */
            ppo_trainer_free(trainer);
            ppo_agent_free(agent);
            trainer = NULL, agent = NULL;
            ok = fuzz_ok(ppo_trainer_resume(fuzz_path("out.st"), &env, NULL, &agent, &trainer));
            FUZZ(ok);
            phase[0] = phase[1] = phase[2] = 0;
            continue;
        }
        const int acts = right ? phase[s] == 1 : what & 16;
        if (acts) {
            if (fuzz_ok(ppo_trainer_act(trainer, s, &action)) && s >= 0 && s < 3) phase[s] = 2;
            continue;
        }
        for (int i = 0; i < env.obs_size; ++i)
            obs[i] = right && what < 250 ? (float)(fuzz_byte(&bytes) - 128) / 64 : fuzz_float(&bytes);
        for (int i = 0; i < 16; ++i) mask[i] = what & 32 ? 1 : (unsigned char)(fuzz_byte(&bytes) & 1);
        out.reward = right && what < 250 ? (float)(fuzz_byte(&bytes) - 128) / 64 : fuzz_float(&bytes);
        const int end = fuzz_byte(&bytes);
        out.terminated = end < 20, out.truncated = end >= 10 && end < 40, out.waits = end >= 40 && end < 60;
        const int begins = right ? phase[s] == 0 : what & 8;
        ppo_status status = ppo_trainer_observe(trainer, s, !right && what & 4 ? NULL : obs,
                                                what & 1 ? mask : NULL, begins ? NULL : &out);
        if (fuzz_ok(status) && s >= 0 && s < 3)
            phase[s] = begins ? 1 : out.terminated || out.truncated ? 0 : out.waits ? 2 : 1;
        else if (s >= 0 && s < 3 && !begins && status == PPO_ERROR_NUMERIC)
            phase[s] = trainer->collector.envs.turn[s] == PPO__OUT ? 0 : phase[s];
    }
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

static void fuzz_seed_pushes(fuzz_give give, void *user) {
    ppo_rng rng = ppo_rng_stream(4, PPO_STREAM_USER, 0);
    unsigned char data[1000];
    for (int k = 0; k < 32; ++k) {
        for (int i = 0; i < FUZZ_COUNT(data); ++i)
            data[i] = (unsigned char)(k % 4 ? 40 + ppo_rng_below(&rng, 216) : ppo_rng_below(&rng, 256));
        data[0] = (unsigned char)k, data[1] = (unsigned char)(k / 4);
        give(user, data, (size_t)(60 + ppo_rng_below(&rng, 500)));
    }
}

/* -------------------------------------------------------------------------------------------------------- */

static const fuzz_target fuzz_targets[] = {
    {"arrays", fuzz_arrays, fuzz_seed_arrays, FUZZ_ARRAYS, 0, 4000},
    {"policies", fuzz_policies, fuzz_seed_policies, FUZZ_ARRAYS, 1, 30000},
    {"models", fuzz_models, fuzz_seed_models, FUZZ_ARRAYS, 0, 20000},
    {"trainings", fuzz_trainings, fuzz_seed_trainings, FUZZ_ARRAYS, 1, 30000},
    {"hub", fuzz_hub, fuzz_seed_hub, FUZZ_JSON, 1, 12000},
    {"tokenizers", fuzz_tokenizers, fuzz_seed_tokenizers, FUZZ_JSON, 0, 20000},
    {"gguf", fuzz_gguf, fuzz_seed_gguf, FUZZ_BYTES, 0, 12000},
    {"expressions", fuzz_expressions, fuzz_seed_expressions, FUZZ_BYTES, 0, 600},
    {"lines", fuzz_lines, fuzz_seed_lines, FUZZ_JSON, 1, 2000},
    {"settings", fuzz_settings, fuzz_seed_settings, FUZZ_SETTINGS, 0, 400},
    {"csv", fuzz_csv, fuzz_seed_csv, FUZZ_BYTES, 1, 3000},
    {"envs", fuzz_envs, fuzz_seed_envs, FUZZ_SETTINGS, 60, 300},
    {"pushes", fuzz_pushes, fuzz_seed_pushes, FUZZ_BYTES, 0, 600},
};

/* Before the first and after the last input. */
static void fuzz_open(void) {
    static const char *const specials[] = {"<eos>", "<pad>", "<|im_start|>", "<|im_end|>"};
    const char *given = getenv("FUZZ_HOME"), *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(fuzz_home, sizeof fuzz_home, "%s%s", given ? given : folder, given ? "" : "/ppo-fuzz-XXXXXX");
    if (!given && !mkdtemp(fuzz_home)) FUZZ_FAIL("there is no folder for files");
    ppo_set_allocator(fuzz_hook, NULL);
    FUZZ(fuzz_ok(ppo_tokenizer_characters(fuzz_text, sizeof fuzz_text - 1, specials, 2, &fuzz_letters)));
    FUZZ(fuzz_ok(ppo_tokenizer_train(fuzz_text, sizeof fuzz_text - 1, 270, specials, 4, &fuzz_pairs)));
    fuzz_base = fuzz_model("llama", ppo_tokenizer_vocab(fuzz_letters), 0);
    FUZZ(fuzz_ok(ppo_params_freeze(fuzz_base->params, 1))); /* as adapters do */
}

static void fuzz_close(void) {
    ppo_tokenizer_free(fuzz_letters);
    ppo_tokenizer_free(fuzz_pairs);
    ppo_lm_free(fuzz_base);
    fuzz_letters = fuzz_pairs = NULL, fuzz_base = NULL;
    if (*fuzz_home && !getenv("FUZZ_HOME")) fuzz_remove(fuzz_home);
    *fuzz_home = 0;
    ppo_set_allocator(NULL, NULL);
}

/* Runs a target, which has to give all memory back. */
static void fuzz_run(const fuzz_target *target, const unsigned char *data, size_t size) {
    const size_t before = fuzz_taken;
    char text[100];
    target->run(data, size);
    snprintf(text, sizeof text, "%s: %.0f bytes were not given back", target->name,
             (double)fuzz_taken - (double)before);
    if (fuzz_taken != before) FUZZ_FAIL(text);
}

#endif
