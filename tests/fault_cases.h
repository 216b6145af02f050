/* fault_cases.h - the operations whose calls faults.c makes fail: whatever saves, loads, resumes, logs or exports, and the
   programs finetune and train. Each works in the current folder, which is empty before `prepare`. What programs read is in
   ../fixtures. */
#ifndef FAULT_CASES_H
#define FAULT_CASES_H

#include "fault_disk.h"
#include "fault_shim.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../ppo.h"

#include "../examples/companions/ppo_bpe.h"
#include "../examples/companions/ppo_export.h"
#include "../examples/companions/ppo_gguf.h"
#include "../examples/companions/ppo_hub.h"
#include "../examples/companions/ppo_onnx.h"
#include "../examples/companions/ppo_report.h"
#include "../examples/companions/ppo_resume.h"

typedef struct operation {
    const char *name;
    void (*prepare)(void); /* NULL: the folder is empty */
    /* The operation. *result: a number that depends on all that it read or computed. */
    ppo_status (*run)(uint64_t *result);
    uint64_t (*look)(
        void); /* a number for what is on the disk, or one of those below; NULL: nothing is written */
    int kind;
} operation;
enum { NOTHING, DAMAGED, FIRST_NUMBER }; /* what look() may return */
/* STEPS: there are states between the old and the new one. FILES: so there are where a file could not be moved to its
   place after others were. FOLDER_OF_A_MODEL: where its second file could not be, it counts as the new one already.
   PROGRAM: in a process of its own, and slow. */
enum { STEPS = 1, FILES = 2, PROGRAM = 4, FOLDER_OF_A_MODEL = 8 };

/* What an operation did wrong besides its status; NULL: nothing. */
static const char *complaint;
static void complain_if(int wrong, const char *what) {
    if (wrong && !complaint) complaint = what;
}

/* -- numbers for things -- */

static uint64_t mix(uint64_t h, const void *bytes, size_t n) {
    if (!h) h = 14695981039346656037u;
    for (size_t k = 0; k < n; ++k) h = (h ^ ((const unsigned char *)bytes)[k]) * 1099511628211u;
    return h < FIRST_NUMBER ? FIRST_NUMBER : h;
}

static uint64_t mix_text(uint64_t h, const char *text) { return mix(h, text, strlen(text) + 1); }

static uint64_t mix_params(uint64_t h, const ppo_params *params) {
    for (int k = 0; k < params->tensor_count; ++k) {
        const ppo_tensor *x = params->tensors[k];
        if (x->data) h = mix(h, x->data, sizeof(float) * (size_t)x->rows * (size_t)x->cols);
    }
    return h;
}

static uint64_t mix_settings(uint64_t h, const ppo_settings *settings, const void *config) {
    char text[200];
    for (int k = 0; k < settings->count; ++k) {
        text[0] = 0;
        ppo_settings_get(settings, config, settings->field[k].name, text, sizeof text);
        h = mix_text(h, text);
    }
    return h;
}

static uint64_t mix_lm(uint64_t h, const ppo_lm *lm) {
    h = mix_settings(h, ppo_lm_settings(), &lm->config);
    if (lm->adapter) h = mix(h, &lm->adapter->lora.alpha, sizeof(float));
    return mix_params(h, lm->params);
}

static uint64_t mix_tokens(uint64_t h, const ppo_tokens *tokens) {
    for (int s = 0; s < tokens->count; ++s) {
        h = mix(h, &tokens->start[s + 1], sizeof(int));
        h = mix(h, tokens->token + tokens->start[s],
                sizeof(int) * (size_t)(tokens->start[s + 1] - tokens->start[s]));
    }
    return mix(h, &tokens->count, sizeof(int));
}

static int exists(const char *path) {
    struct stat found;
    return !lstat(path, &found);
}

/* The bytes of a file. */
static uint64_t look_file(const char *path) {
    char block[4096];
    uint64_t h = 0;
    FILE *in = fopen(path, "rb");
    if (!in) return NOTHING;
    for (size_t n; (n = fread(block, 1, sizeof block, in)) > 0;) h = mix(h, block, n);
    fclose(in);
    return mix_text(h, "");
}

static void put_text(const char *path, const char *text) {
    FILE *out = fopen(path, "wb");
    if (!out || fputs(text, out) < 0 || fclose(out)) abort();
}

/* -- what is saved -- */

typedef struct walker {
    float x;
} walker;

static void walker_reset(void *state, ppo_rng *rng, float *obs) {
    obs[0] = ((walker *)state)->x = ppo_rng_range(rng, -1, 1);
}

static void walker_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    walker *w = (walker *)state;
    w->x += (action->discrete ? 0.2f : -0.2f) + 0.02f * ppo_rng_normal(rng);
    obs[0] = w->x;
    out->reward = 1 - w->x * w->x;
    out->terminated = fabsf(w->x) > 2;
}

static ppo_env walker_env(void) {
    ppo_env env = {0};
    env.name = "walker";
    env.obs_size = 1;
    env.action_space = ppo_discrete(2);
    env.state_size = sizeof(walker);
    env.max_steps = 20;
    env.reset = walker_reset;
    env.step = walker_step;
    return env;
}

static ppo_config small_config(void) {
    ppo_config c = ppo_config_default();
    c.total_steps = 128;
    c.num_envs = 2;
    c.rollout_steps = 16;
    c.minibatch_size = 16;
    c.epochs = 1;
    c.hidden[0] = c.hidden[1] = 4;
    c.normalize_obs = c.normalize_reward = 1;
    return c;
}

static const char some_text[] =
    "the cat sat on the mat. the dog sat on the log. a cat and a dog ran to the red hat. ";

/* [0] is in the folder before, [1] replaces it. */
static ppo_env env;
static ppo_agent *agents[2];
static ppo_trainer *trainer; /* of agents[1] */
static ppo_lm *models[2], *adapters[2], *policy;
static ppo_tokenizer *characters, *merges[2];
static ppo_tokens texts[2];
static ppo_rlhf *rlhf; /* of `policy` */

static void must(ppo_status status) {
    if (!status) return;
    fprintf(stderr, "faults: what is to be saved cannot be made: %s\n", ppo_last_error());
    exit(1);
}

static ppo_status length_is_reward(const ppo_samples *samples, float *reward, void *user) {
    (void)user;
    for (int k = 0; k < samples->tokens.count; ++k)
        reward[k] = (float)(samples->tokens.start[k + 1] - samples->tokens.start[k]);
    return PPO_OK;
}

static ppo_rlhf_config small_rlhf_config(void) {
    ppo_rlhf_config c = ppo_rlhf_config_default();
    c.prompts = 4;
    c.slots = 2;
    c.minibatch_size = 4;
    c.epochs = 1;
    c.sampling.max_new_tokens = 3;
    return c;
}

/* Of one size, but not with the same settings: weights of one with those of the other would be another model. */
static void make_lm(int k, ppo_lm **lm) {
    ppo_lm_config c = ppo_lm_config_default();
    must(ppo_lm_config_family(&c, "llama"));
    c.vocab = ppo_tokenizer_vocab(characters);
    c.context = 16;
    c.width = 8;
    c.layers = 1;
    c.heads = 2;
    c.hidden = 8;
    c.seed = (uint64_t)k + 1;
    c.norm_eps = k ? 1e-5f : 1e-6f;
    must(ppo_lm_create(&c, lm));
}

static void make_objects(void) {
    static const char *const ends[] = {"<eos>", "<pad>", "<|im_start|>", "<|im_end|>"};
    ppo_lora lora = ppo_lora_default();
    ppo_config c = small_config();
    ppo_progress progress;
    env = walker_env();
    for (int k = 0; k < 2; ++k) {
        c.seed = (uint64_t)k + 1;
        must(ppo_agent_create(&env, &c, &agents[k]));
        must(ppo_tokenizer_train(some_text, sizeof some_text - 1, 270 + 10 * k, ends, 3 + k, &merges[k]));
    }
    must(ppo_trainer_create(&env, &c, agents[1], &trainer));
    must(ppo_trainer_iterate(trainer, &progress));
    must(ppo_tokenizer_characters(some_text, sizeof some_text - 1, ends, 2, &characters));
    for (int k = 0; k < 2; ++k) {
        make_lm(k, &models[k]);
        lora.rank = 2;
        lora.alpha = k ? 64.0f : 16.0f;
        lora.seed = (uint64_t)k + 1;
        must(ppo_lm_adapt(models[0], &lora, 0, &adapters[k]));
        for (int i = 0; i < 4 + k; ++i)
            must(ppo_tokens_add_text(&texts[k], characters, -1, i % 2 ? "the " : "a ", i % 3 ? "cat" : "dog",
                                     0));
    }
    const ppo_rlhf_config r = small_rlhf_config();
    make_lm(1, &policy);
    must(ppo_rlhf_create(policy, NULL, NULL, &texts[0], length_is_reward, NULL, &r, &rlhf));
    must(ppo_rlhf_iterate(rlhf, NULL));
}

static void free_objects(void) {
    ppo_rlhf_free(rlhf);
    ppo_trainer_free(trainer);
    ppo_lm_free(policy);
    for (int k = 0; k < 2; ++k) {
        ppo_tokens_free(&texts[k]);
        ppo_lm_free(adapters[k]);
        ppo_tokenizer_free(merges[k]);
        ppo_agent_free(agents[k]);
    }
    for (int k = 0; k < 2; ++k) ppo_lm_free(models[k]);
    ppo_tokenizer_free(characters);
}

/* -- saving in one file -- */

#define SAVES(name, path, save_old, save_new)                                        \
    static void prepare_##name(void) { must(save_old); }                             \
    static ppo_status run_##name(uint64_t *result) { return *result = 1, save_new; } \
    static uint64_t look_##name(void) { return look_file(path); }

static ppo_status draw(const char *path, float top) {
    const float x[] = {0, 1, 2}, y[] = {1, 2, top};
    const ppo_curve curve = {"a", x, y, 3};
    return ppo_plot_svg(path, "title", "x", "y", &curve, 1);
}

SAVES(agent, "a.st", ppo_agent_save(agents[0], "a.st"), ppo_agent_save(agents[1], "a.st"))
SAVES(new_folders, "x/y/a.st", PPO_OK, ppo_agent_save(agents[1], "x/y/a.st"))
SAVES(export_c, "net.h", ppo_export_c(agents[0], "net", "net.h"), ppo_export_c(agents[1], "net", "net.h"))
SAVES(export_int8, "net.h", ppo_export_c(agents[0], "net", "net.h"),
      ppo_export_c_int8(agents[1], NULL, "net", "net.h"))
SAVES(onnx, "net.onnx", ppo_export_onnx(agents[0], "net.onnx", NULL),
      ppo_export_onnx(agents[1], "net.onnx", NULL))
SAVES(svg, "a.svg", draw("a.svg", 1), draw("a.svg", 9))
SAVES(lm_file, "m.st", ppo_lm_save_file(models[0], characters, "m.st"),
      ppo_lm_save_file(models[1], characters, "m.st"))
SAVES(gguf, "m.gguf", ppo_gguf_save(models[0], NULL, NULL, PPO_GGUF_F32, "m.gguf"),
      ppo_gguf_save(models[1], NULL, NULL, PPO_GGUF_Q8_0, "m.gguf"))
SAVES(tokenizer_file, "t.st", ppo_tokenizer_save(characters, "t.st"), ppo_tokenizer_save(merges[1], "t.st"))
SAVES(tokenizer_json, "t.json", ppo_tokenizer_save(merges[0], "t.json"),
      ppo_tokenizer_save(merges[1], "t.json"))
SAVES(tokens, "d.st", ppo_tokens_save(&texts[0], "d.st"), ppo_tokens_save(&texts[1], "d.st"))
SAVES(lines, "d.jsonl", ppo_tokens_save_lines(&texts[0], characters, "d.jsonl"),
      ppo_tokens_save_lines(&texts[1], characters, "d.jsonl"))
SAVES(text, "a.txt", ppo_text_save("a.txt", "old", 3), ppo_text_save("a.txt", "new text", 8))

/* -- checkpoints: their bytes hold a time -- */

static ppo_status load_agent(const char *path, uint64_t *result) {
    ppo_agent *agent = agents[0];
    const ppo_status status = ppo_agent_load(path, &env, &agent);
    complain_if(status && agent, "the agent is not NULL");
    if (status) return status;
    *result = mix_params(mix_settings(0, ppo_config_settings(), &agent->config), agent->model.params);
    return ppo_agent_free(agent), PPO_OK;
}

static ppo_status resume_trainer(const char *path, int threads, uint64_t *result) {
    ppo_agent *agent = agents[0];
    ppo_trainer *made = trainer;
    ppo_config c;
    ppo_progress progress;
    ppo_status status = threads ? ppo_config_load(path, &c, NULL) : PPO_OK;
    if (status) return status;
    if (threads) c.threads = threads;
    status = ppo_trainer_resume(path, &env, threads ? &c : NULL, &agent, &made);
    complain_if(status && (agent || made), "agent or trainer is not NULL");
    if (status) return status;
    status = ppo_trainer_iterate(made, &progress);
    const int64_t steps = ppo_trainer_steps(made);
    *result = mix(mix_params(0, agent->model.params), &steps, sizeof steps);
    ppo_trainer_free(made);
    ppo_agent_free(agent);
    return status;
}

/* What a load makes of a file, as a number. */
static uint64_t look_by(const char *path, ppo_status (*load)(const char *, uint64_t *)) {
    uint64_t result = DAMAGED;
    if (!exists(path)) return NOTHING;
    const char *const kept = complaint;
    if (load(path, &result)) result = DAMAGED;
    complaint = kept;
    return result;
}

static ppo_status resume_alone(const char *path, uint64_t *result) { return resume_trainer(path, 0, result); }

static ppo_status continue_rlhf(const char *path, uint64_t *result) {
    const ppo_rlhf_config c = small_rlhf_config();
    ppo_rlhf *made = rlhf;
    ppo_lm *lm = NULL;
    const int paused = fault_pause();
    make_lm(1, &lm);
    const uint64_t before = mix_lm(0, lm);
    fault_go_on(paused);
    ppo_status status = ppo_rlhf_resume(path, lm, NULL, NULL, &texts[0], length_is_reward, NULL, &c, &made);
    complain_if(status && made, "the run is not NULL");
    complain_if(status && mix_lm(0, lm) != before, "the policy has changed");
    if (!status) *result = mix_lm(0, lm);
    ppo_rlhf_free(made);
    ppo_lm_free(lm);
    return status;
}

static void prepare_trainer(void) { /* before the first iteration */
    ppo_trainer *first = NULL;
    ppo_config c = small_config();
    must(ppo_trainer_create(&env, &c, agents[0], &first));
    must(ppo_trainer_save(first, "t.st"));
    ppo_trainer_free(first);
}
static ppo_status run_trainer(uint64_t *result) { return *result = 1, ppo_trainer_save(trainer, "t.st"); }
static uint64_t look_trainer(void) { return look_by("t.st", resume_alone); }

static void prepare_rlhf(void) {
    const ppo_rlhf_config c = small_rlhf_config();
    ppo_rlhf *first = NULL;
    ppo_lm *lm = NULL;
    make_lm(1, &lm);
    must(ppo_rlhf_create(lm, NULL, NULL, &texts[0], length_is_reward, NULL, &c, &first));
    must(ppo_rlhf_save(first, "r.st"));
    ppo_rlhf_free(first);
    ppo_lm_free(lm);
}
static ppo_status run_rlhf(uint64_t *result) { return *result = 1, ppo_rlhf_save(rlhf, "r.st"); }
static uint64_t look_rlhf(void) { return look_by("r.st", continue_rlhf); }

/* -- folders -- */

static ppo_status load_lm(const char *path, uint64_t *result) {
    ppo_lm *lm = models[0];
    const ppo_status status = ppo_lm_load(path, &lm);
    complain_if(status && lm, "the model is not NULL");
    if (status) return status;
    *result = mix_lm(0, lm);
    return ppo_lm_free(lm), PPO_OK;
}

static ppo_status load_adapter(const char *path, uint64_t *result) {
    ppo_lm *lm = models[0];
    const ppo_status status = ppo_lm_load_adapter(path, models[0], &lm);
    complain_if(status && lm, "the model is not NULL");
    if (status) return status;
    *result = mix_lm(0, lm);
    return ppo_lm_free(lm), PPO_OK;
}

static ppo_status load_tokenizer(const char *path, uint64_t *result) {
    int token[200], count = 0;
    ppo_tokenizer *made = characters;
    ppo_status status = ppo_tokenizer_load(path, &made);
    complain_if(status && made, "the tokenizer is not NULL");
    if (status) return status;
    status = ppo_encode_as(made, PPO_ENCODE_SPECIALS | PPO_ENCODE_BOUNDS, some_text, sizeof some_text - 1,
                           token, 200, &count);
    const int numbers[] = {ppo_tokenizer_vocab(made), ppo_tokenizer_pad(made, -1), count};
    *result = mix(mix(0, token, sizeof *token * (size_t)count), numbers, sizeof numbers);
    ppo_tokenizer_free(made);
    return status;
}

static void prepare_folder(void) { must(ppo_lm_save(models[0], "m", PPO_F32)); }
static ppo_status run_folder(uint64_t *result) { return *result = 1, ppo_lm_save(models[1], "m", PPO_F32); }
static uint64_t look_folder(void) { /* an empty one may be left */
    return exists("m/config.json") || exists("m/model.safetensors") ? look_by("m", load_lm) : NOTHING;
}

static void prepare_adapter(void) { must(ppo_lm_save(adapters[0], "l", PPO_F32)); }
static ppo_status run_adapter(uint64_t *result) {
    return *result = 1, ppo_lm_save(adapters[1], "l", PPO_F32);
}
static uint64_t look_adapter(void) { return look_by("l", load_adapter); }

/* With a config.json, in which the tokens that end a text and fill it up are noted. */
static void prepare_tokenizer_folder(void) {
    mkdir("t", 0777);
    put_text("t/config.json", "{\"model_type\": \"llama\", \"vocab_size\": 300, \"bos_token_id\": 1}\n");
    must(ppo_tokenizer_save(merges[0], "t"));
}
static ppo_status run_tokenizer_folder(uint64_t *result) {
    return *result = 1, ppo_tokenizer_save(merges[1], "t");
}
static uint64_t look_tokenizer_folder(void) { return look_by("t", load_tokenizer); }

/* -- loading -- */

#define LOADS(name, call) \
    static ppo_status run_load_##name(uint64_t *result) { return call; }

LOADS(agent, load_agent("a.st", result))
LOADS(trainer, resume_trainer("t.st", 0, result))
LOADS(trainer_with_threads, resume_trainer("t.st", 3, result))
LOADS(rlhf, continue_rlhf("r.st", result))
LOADS(lm_file, load_lm("m.st", result))
LOADS(gguf, load_lm("m.gguf", result))
LOADS(folder, load_lm("m", result))
LOADS(adapter, load_adapter("l", result))
LOADS(tokenizer_file, load_tokenizer("t.st", result))
LOADS(tokenizer_folder, load_tokenizer("t", result))

static void prepare_new_rlhf(void) { must(ppo_rlhf_save(rlhf, "r.st")); }

/* A model in two files of weights, and an index of them. */
static void prepare_shards(void) {
    char index[4096] = "{\"metadata\": {}, \"weight_map\": {";
    ppo_file *whole = NULL, *part[2] = {NULL, NULL};
    must(ppo_lm_save(models[0], "m", PPO_F32));
    must(ppo_file_read("m/model.safetensors", &whole));
    for (int k = 0; k < 2; ++k) must(ppo_file_create(&part[k]));
    for (int k = 0; k < ppo_file_count(whole); ++k) {
        const ppo_array *a = ppo_file_at(whole, k);
        must(ppo_file_add(part[k % 2], a->name, a->type, a->shape, a->rank, a->data));
        snprintf(index + strlen(index), sizeof index - strlen(index), "%s\"%s\": \"part-%d.safetensors\"",
                 k ? ", " : "", a->name, k % 2);
    }
    snprintf(index + strlen(index), sizeof index - strlen(index), "}}");
    must(ppo_file_write(part[0], "m/part-0.safetensors"));
    must(ppo_file_write(part[1], "m/part-1.safetensors"));
    put_text("m/model.safetensors.index.json", index);
    remove("m/model.safetensors");
    ppo_file_free(whole);
    for (int k = 0; k < 2; ++k) ppo_file_free(part[k]);
}

static ppo_status run_load_config(uint64_t *result) {
    ppo_config c = ppo_config_default();
    const uint64_t before = mix_settings(0, ppo_config_settings(), &c);
    char name[64] = "kept";
    ppo_status status = ppo_config_load("a.st", &c, name);
    complain_if(status && strcmp(name, "kept"), "the name has changed");
    complain_if(status && mix_settings(0, ppo_config_settings(), &c) != before, "the settings have changed");
    *result = mix_text(mix_settings(0, ppo_config_settings(), &c), name);
    return status;
}

static ppo_status run_load_settings(uint64_t *result) {
    ppo_rlhf_config c = ppo_rlhf_config_default();
    const uint64_t before = mix_settings(0, ppo_rlhf_settings(), &c);
    ppo_status status = ppo_settings_load(ppo_rlhf_settings(), "r.st", &c);
    *result = mix_settings(0, ppo_rlhf_settings(), &c);
    complain_if(status && *result != before, "the settings have changed");
    return status;
}

static void prepare_ends(void) {
    mkdir("e", 0777);
    put_text("e/config.json", "{\"eos_token_id\": 7}");
    put_text("e/generation_config.json", "{\"eos_token_id\": [7, 9]}");
}
static ppo_status run_load_ends(uint64_t *result) {
    int end[4] = {0, 0, 0, 0}, count = 0;
    ppo_status status = ppo_lm_load_ends("e", end, 4, &count);
    complain_if(status && count, "tokens are counted");
    *result = mix(mix(0, end, sizeof end), &count, sizeof count);
    return status;
}

/* A failure leaves what was in `tokens`. */
static ppo_status loaded_tokens(ppo_tokens *tokens, ppo_status status, uint64_t *result) {
    complain_if(status && tokens->count != 1, "the tokens have changed");
    *result = mix_tokens(0, tokens);
    return ppo_tokens_free(tokens), status;
}
static ppo_status run_load_tokens(uint64_t *result) {
    ppo_tokens tokens = {0};
    ppo_status status = ppo_tokens_add_from(&tokens, &texts[0], 0);
    if (status) return status;
    return loaded_tokens(&tokens, ppo_tokens_load("d.st", &tokens), result);
}
static ppo_status run_load_lines(uint64_t *result) {
    ppo_tokens tokens = {0};
    ppo_status status = ppo_tokens_add_from(&tokens, &texts[0], 0);
    if (status) return status;
    return loaded_tokens(&tokens, ppo_tokens_add_lines(&tokens, NULL, "d.jsonl", characters, NULL, NULL),
                         result);
}
static ppo_status run_load_text(uint64_t *result) {
    char *text = (char *)result;
    ppo_status status = ppo_text_load("a.txt", &text, NULL);
    complain_if(status && text, "the text is not NULL");
    *result = text ? mix_text(0, text) : NOTHING;
    return ppo_text_free(text), status;
}

/* -- logs -- */

enum { ROWS = 5 };

static ppo_progress progress_at(int row) {
    ppo_progress p;
    memset(&p, 0, sizeof p);
    p.iteration = row;
    p.steps = 100 * row;
    p.episodes = 1;
    p.mean_return = 0.5f * (float)row;
    return p;
}

/* Goes on with the next row after one that could not be written. The status is the first that is none of success. */
static ppo_status write_rows(ppo_log *log, int first, int last) {
    ppo_status status = PPO_OK;
    for (int row = first; row <= last; ++row) {
        const ppo_progress p = progress_at(row);
        ppo_status written = ppo_log_write(log, &p);
        if (!written) written = ppo_log_scalar(log, "eval/mean_return", 1, p.steps);
        if (!status) status = written;
    }
    return status;
}

/* How many rows a log has, the last of which may be torn; -1: they do not ascend, or are none. */
static int rows_of(const char *path) {
    char line[2048];
    long before = 0;
    int rows = -1, wrong = 0;
    FILE *in = fopen(path, "rb");
    while (in && fgets(line, sizeof line, in) && strchr(line, '\n')) {
        const char *field = line;
        for (int k = 0; k < 6 && field; ++k) field = strchr(field + (k > 0), ',');
        const long steps = rows >= 0 && field ? atol(field + 1) : 0;
        wrong |= ++rows && (steps <= before || steps % 100);
        before = steps;
    }
    if (in) fclose(in);
    return wrong ? -1 : rows < 0 ? 0 : rows;
}

static ppo_status log_rows(int64_t steps, int first, int last, uint64_t *result) {
    ppo_log *log = (ppo_log *)result;
    ppo_status status = ppo_log_open("p.csv", "tb", steps, &log);
    complain_if(status && log, "the log is not NULL");
    if (status) return status;
    status = write_rows(log, first, last);
    if (!status) status = ppo_log_sync(log);
    ppo_log_close(log);
    const int paused = fault_pause();
    *result = (uint64_t)rows_of("p.csv");
    fault_go_on(paused);
    complain_if(*result > ROWS + 1, "a torn row is in the middle of the log");
    return status;
}

static void prepare_log(void) {
    ppo_log *log = NULL;
    must(ppo_log_open("p.csv", NULL, 0, &log));
    must(write_rows(log, 1, ROWS));
    ppo_log_close(log);
}
static ppo_status run_log(uint64_t *result) { return log_rows(0, 1, ROWS, result); }
static ppo_status run_log_resumed(uint64_t *result) { return log_rows(300, 4, ROWS + 1, result); }
static uint64_t look_log(void) {
    const int rows = rows_of("p.csv");
    return !exists("p.csv") ? NOTHING : rows < 0 ? DAMAGED : (uint64_t)(FIRST_NUMBER + rows);
}
static uint64_t look_log_resumed(void) { /* rows that the run still needs are there */
    return rows_of("p.csv") < 3 ? DAMAGED : look_log();
}

/* A log and a checkpoint, as build/train writes them: the log is synced before the checkpoint, which must not be without
   its rows. */
static ppo_status run_log_and_checkpoint(uint64_t *result) {
    ppo_agent *agent = NULL;
    ppo_trainer *made = NULL;
    ppo_log *log = NULL;
    ppo_progress p;
    ppo_status status = exists("t.st") ? ppo_trainer_resume("t.st", &env, NULL, &agent, &made) : PPO_OK;
    const ppo_config c = small_config();
    if (!status && !made) status = ppo_agent_create(&env, &c, &agent);
    if (!status && !made) status = ppo_trainer_create(&env, &c, agent, &made);
    if (!status) status = ppo_log_open("p.csv", "tb", ppo_trainer_steps(made), &log);
    while (!status && !ppo_trainer_done(made)) {
        status = ppo_trainer_iterate(made, &p);
        if (!status) status = ppo_log_write(log, &p);
        if (!status) status = ppo_log_sync(log);
        if (!status) status = ppo_trainer_save(made, "t.st");
    }
    if (made) *result = mix_params(0, agent->model.params);
    ppo_log_close(log);
    ppo_trainer_free(made);
    ppo_agent_free(agent);
    return status;
}

/* Rows of the log up to the checkpoint, one for each of its iterations. */
static uint64_t look_log_and_checkpoint(void) {
    char line[2048];
    int rows = -1;
    ppo_agent *agent = NULL;
    ppo_trainer *made = NULL;
    ppo_log *log = NULL;
    if (!exists("t.st")) return NOTHING;
    ppo_status status = ppo_trainer_resume("t.st", &env, NULL, &agent, &made);
    const int64_t steps = made ? ppo_trainer_steps(made) : -1;
    const int64_t iterations = steps / 32;
    if (!status) status = ppo_log_open("p.csv", "tb", steps, &log);
    ppo_log_close(log);
    ppo_trainer_free(made);
    ppo_agent_free(agent);
    FILE *in = fopen("p.csv", "rb");
    while (in && fgets(line, sizeof line, in)) ++rows;
    if (in) fclose(in);
    return status || rows != iterations ? DAMAGED : (uint64_t)(FIRST_NUMBER + steps);
}

/* -- trainings -- */

static int stop_at(const ppo_fit_progress *progress, void *user) {
    return progress->step >= *(const int *)user;
}

static ppo_status fit_until(int step, uint64_t *result) {
    ppo_fit_config c = ppo_fit_config_default();
    ppo_lm *lm = NULL;
    c.steps = 4;
    c.batch_size = 2;
    c.checkpoint = "f.st";
    c.checkpoint_every = 2;
    if (step) c.callback = stop_at, c.callback_user = &step;
    const int paused = fault_pause();
    make_lm(1, &lm);
    fault_go_on(paused);
    ppo_status status = ppo_fit_sft(lm, &texts[1], &c);
    *result = mix_lm(0, lm);
    ppo_lm_free(lm);
    return status;
}
static void prepare_fit(void) {
    uint64_t result;
    must(fit_until(1, &result));
}
static ppo_status run_fit(uint64_t *result) { return fit_until(0, result); }
static uint64_t look_fit(void) { return look_by("f.st", load_lm); } /* the file is a model, too */

static ppo_status run_threads(uint64_t *result) {
    ppo_status status = ppo_set_threads(4);
    *result = 1;
    return status ? status : ppo_set_threads(1);
}

static ppo_status run_train(uint64_t *result) {
    ppo_config c = small_config();
    ppo_agent *agent = NULL;
    c.threads = 3;
    ppo_status status = ppo_train(&env, &c, &agent);
    complain_if(status && agent, "the agent is not NULL");
    if (status) return status;
    *result = mix_params(0, agent->model.params);
    return ppo_agent_free(agent), PPO_OK;
}

/* -- programs -- */

int finetune_main(int argc, char **argv);
int train_main(int argc, char **argv);

/* A log without the columns that are times, and without the end of its last line. */
static uint64_t look_rows(const unsigned char *bytes, size_t size) {
    static const char *const times[] = {"seconds", "tokens_per_second", "time/fps", "time/time_elapsed"};
    int is_time[64] = {0}, column = 0, header = 1;
    uint64_t h = 0;
    while (size && bytes[size - 1] == '\n') --size;
    for (size_t k = 0, begin = 0; k <= size; ++k) {
        if (k < size && bytes[k] != ',' && bytes[k] != '\n') continue;
        for (int t = 0; t < 4 && header && column < 64; ++t)
            is_time[column] |= k - begin == strlen(times[t]) && !memcmp(bytes + begin, times[t], k - begin);
        if (column < 64 && !is_time[column]) h = mix_text(mix(h, bytes + begin, k - begin), ",");
        header &= k < size && bytes[k] != '\n';
        column = k < size && bytes[k] == '\n' ? 0 : column + 1;
        begin = k + 1;
    }
    return h;
}

static ppo_status load_any_agent(const char *path, uint64_t *result) {
    ppo_agent *agent = NULL;
    const ppo_status status = ppo_agent_load(path, NULL, &agent);
    if (!status) *result = mix_params(0, agent->model.params);
    ppo_agent_free(agent);
    return status;
}

static ppo_status load_out_adapter(const char *path, uint64_t *result) {
    ppo_lm *base = NULL, *lm = NULL;
    ppo_status status = ppo_lm_load("../fixtures/base", &base);
    if (!status) status = ppo_lm_load_adapter(path, base, &lm);
    if (!status) *result = mix_lm(0, lm);
    ppo_lm_free(lm);
    ppo_lm_free(base);
    return status;
}

static int ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* What is in the folder and below, but for times, drafts, and the path of the base in adapter_config.json. */
static void add_to_look(const char *path, const unsigned char *bytes, size_t size, void *user) {
    uint64_t h = NOTHING;
    if (!bytes || strstr(path, "events.out") || ends_with(path, ".tmp")) return;
    if (ends_with(path, ".csv")) h = look_rows(bytes, size);
    else if (!strcmp(path, "o/model.safetensors"))
        h = look_by("o", load_lm); /* it also says what was there before */
    else if (!strcmp(path, "o/adapter_model.safetensors")) h = look_by("o", load_out_adapter);
    else if (ends_with(path, ".st")) h = look_by(path, load_any_agent);
    else if (!ends_with(path, "adapter_config.json")) h = mix(0, bytes, size);
    *(uint64_t *)user += mix(mix_text(0, path), &h, sizeof h);
}

static uint64_t look_all(void) {
    uint64_t sum = FIRST_NUMBER;
    disk_walk(add_to_look, &sum);
    return sum;
}

/* Runs main() of a program in a process of its own, with a command line in which ~ stands for a blank. */
static ppo_status run_program(int (*program)(int, char **), const char *name, const char *command,
                              uint64_t *result) {
    char line[1024], error[400] = "", *argv[64];
    int argc = 1, status = 0;
    const int paused = fault_pause();
    snprintf(line, sizeof line, "%s", command);
    argv[0] = (char *)(size_t)name;
    for (char *word = strtok(line, " "); word && argc < 63; word = strtok(NULL, " ")) {
        argv[argc++] = word;
        for (; *word; ++word) *word = *word == '~' ? ' ' : *word;
    }
    argv[argc] = NULL;
    fflush(NULL);
    const pid_t child = fork();
    if (!child) {
        alarm(60);
        for (int k = 1; k < 3; ++k) {
            const int printed = open(k == 1 ? "../printed" : "../errors", O_WRONLY | O_CREAT | O_TRUNC, 0666);
            dup2(printed, k);
            close(printed);
        }
        fault_go_on(paused);
        status = program(argc, argv);
        fault_pause();
        fflush(NULL);
        _exit(status);
    }
    waitpid(child, &status, 0);
    FILE *in = fopen("../errors", "rb");
    error[in ? fread(error, 1, sizeof error - 1, in) : 0] = 0;
    if (in) fclose(in);
    const size_t n = strcspn(error, "\n"), prefix = strlen(name);
    complain_if(WIFSIGNALED(status), WTERMSIG(status) == SIGALRM ? "it does not end" : "it crashes");
    complain_if(WIFEXITED(status) && WEXITSTATUS(status) > 1, "the exit status is neither 0 nor 1");
    complain_if(WIFEXITED(status) && !WEXITSTATUS(status) && *error && strcmp(name, "train"),
                "status 0, but an error is printed");
    if (status) {
        complain_if(strlen(error) != n + 1 || strncmp(error, name, prefix) || error[prefix] != ':',
                    "no single sentence is printed");
        ppo_fail(PPO_ERROR_FILE, "%.*s", (int)n, error);
    } else *result = look_all();
    fault_go_on(paused);
    return status ? PPO_ERROR_FILE : PPO_OK;
}

/* What programs read: a folder with a model and its tokenizer, and data. And another such folder, which they replace. */
static void make_folder(const char *path, int k) {
    ppo_lm_config c = models[k]->config;
    ppo_lm *lm = NULL;
    c.vocab = ppo_tokenizer_vocab(merges[k]);
    c.context = 24;
    must(ppo_lm_create(&c, &lm));
    must(ppo_lm_save(lm, path, PPO_F32));
    must(ppo_tokenizer_save(merges[k], path));
    ppo_lm_free(lm);
}

static void make_fixtures(void) {
    char text[2048] = "";
    make_folder("base", 1);
    put_text("base/generation_config.json", "{\"eos_token_id\": 256}\n");
    put_text("base/special_tokens_map.json", "{}\n");
    for (int k = 0; k < 8; ++k) strcat(text, some_text);
    put_text("text.txt", text);
    put_text("lines.jsonl", "{\"prompt\": \"the cat\", \"completion\": \" sat\"}\n{\"prompt\": \"a dog\", "
                            "\"completion\": \" ran\"}\n"
                            "{\"prompt\": \"the log\", \"completion\": \" is red\"}\n{\"prompt\": \"a hat\", "
                            "\"completion\": \" on\"}\n");
    put_text("pairs.jsonl", "{\"prompt\": \"the cat\", \"chosen\": \" sat\", \"rejected\": \" ran\"}\n"
                            "{\"prompt\": \"a dog\", \"chosen\": \" ran\", \"rejected\": \" sat\"}\n");
    ppo_lm *base = NULL, *lora = NULL;
    ppo_lora how = ppo_lora_default();
    how.rank = 2;
    must(ppo_lm_load("base", &base));
    must(ppo_lm_adapt(base, &how, 0, &lora));
    must(ppo_lm_save(lora, "lora", PPO_F32));
    ppo_lm_free(lora);
    ppo_lm_free(base);
}

static void prepare_out(void) { make_folder("o", 0); }
static uint64_t look_out(void) { return exists("o/model.safetensors") ? look_by("o", load_lm) : NOTHING; }

static uint64_t look_out_adapter(void) {
    return exists("o/adapter_model.safetensors") ? look_by("o", load_out_adapter) : NOTHING;
}
static uint64_t look_out_tokenizer(void) { return look_by("o", load_tokenizer); }
static uint64_t look_run(void) { return look_by("run.st", load_any_agent); }

#define FINETUNES(name, command)                                        \
    static ppo_status run_finetune_##name(uint64_t *result) {           \
        return run_program(finetune_main, "finetune", command, result); \
    }
#define RL                                                                                                  \
    "grpo model=../fixtures/base out=o data=../fixtures/lines.jsonl judge=awk~'{print~NR%2}' iterations=3 " \
    "prompts=2 samples=2 "                                                                                  \
    "minibatch_size=4 max_new_tokens=2 checkpoint_every=1 log=l.csv show=1"
#define SFT "sft model=../fixtures/base out=o data=../fixtures/lines.jsonl batch_size=2 show=1 "
FINETUNES(tokenizer, "tokenizer out=o data=../fixtures/text.txt vocab=270 specials=<|endoftext|>")
FINETUNES(new, "new model=../fixtures/base out=o family=llama width=8 layers=1 heads=2 context=24")
FINETUNES(text, "text model=../fixtures/base out=o data=../fixtures/text.txt window=8 batch_size=8 steps=2 "
                "log=l.csv show=1")
FINETUNES(sft, SFT "held_out=../fixtures/lines.jsonl steps=3 checkpoint_every=1 log=l.csv")
FINETUNES(lora, SFT "steps=1 lora=2")
FINETUNES(merge, "merge model=../fixtures/base adapter=../fixtures/lora out=o")
FINETUNES(reward, "reward model=../fixtures/base out=o data=../fixtures/pairs.jsonl steps=1")
FINETUNES(dpo, "dpo model=../fixtures/base out=o data=../fixtures/pairs.jsonl steps=1 show=0")
FINETUNES(grpo, RL)

/* Leaves the checkpoint of a run that ended early: with another one it could not put it in its place. */
static void prepare_interrupted(ppo_status (*run)(uint64_t *), int moves) {
    fault f = {FAULT_RENAME, moves, EIO, 1};
    uint64_t result;
    prepare_out();
    fault_begin(&f);
    const ppo_status status = run(&result);
    fault_end();
    must(!status || !exists("o.checkpoint") ? ppo_fail(PPO_ERROR_FILE, "no checkpoint is left") : PPO_OK);
}
static void prepare_sft_again(void) { prepare_interrupted(run_finetune_sft, 5); }
static void prepare_grpo_again(void) { prepare_interrupted(run_finetune_grpo, 10); }

#define TRAINS                                                                                              \
    "--num-envs 2 --rollout-steps 32 --minibatch-size 32 --epochs 1 --hidden 4 --save run.st --save-every " \
    "1 --csv p.csv "                                                                                        \
    "--tensorboard tb --save-best best.st --eval-every 64 --eval-episodes 1 --export net.h --export-int8 "  \
    "net8.h --quiet "
static ppo_status run_build_train(uint64_t *result) {
    return run_program(train_main, "train", TRAINS "--env CartPole-v1 --total-steps 192", result);
}
static ppo_status run_build_train_again(uint64_t *result) {
    return run_program(train_main, "train", "--resume run.st " TRAINS "--total-steps 256", result);
}
static void prepare_train_again(void) {
    uint64_t result;
    must(run_build_train(&result));
}

/* -- the list -- */

static const operation operations[] = {
    {"ppo_agent_save", prepare_agent, run_agent, look_agent, 0},
    {"ppo_agent_save, new folders", prepare_new_folders, run_new_folders, look_new_folders, 0},
    {"ppo_trainer_save", prepare_trainer, run_trainer, look_trainer, 0},
    {"ppo_rlhf_save", prepare_rlhf, run_rlhf, look_rlhf, 0},
    {"ppo_export_c", prepare_export_c, run_export_c, look_export_c, 0},
    {"ppo_export_c_int8", prepare_export_int8, run_export_int8, look_export_int8, 0},
    {"ppo_export_onnx", prepare_onnx, run_onnx, look_onnx, 0},
    {"ppo_plot_svg", prepare_svg, run_svg, look_svg, 0},
    {"ppo_lm_save_file", prepare_lm_file, run_lm_file, look_lm_file, 0},
    {"ppo_gguf_save", prepare_gguf, run_gguf, look_gguf, 0},
    {"ppo_lm_save", prepare_folder, run_folder, look_folder, FOLDER_OF_A_MODEL},
    {"ppo_lm_save, new folder", NULL, run_folder, look_folder, FOLDER_OF_A_MODEL},
    {"ppo_lm_save, LoRA", prepare_adapter, run_adapter, look_adapter, FOLDER_OF_A_MODEL},
    {"ppo_tokenizer_save, file", prepare_tokenizer_file, run_tokenizer_file, look_tokenizer_file, 0},
    {"ppo_tokenizer_save, JSON", prepare_tokenizer_json, run_tokenizer_json, look_tokenizer_json, 0},
    {"ppo_tokenizer_save, folder", prepare_tokenizer_folder, run_tokenizer_folder, look_tokenizer_folder,
     FILES},
    {"ppo_tokens_save", prepare_tokens, run_tokens, look_tokens, 0},
    {"ppo_tokens_save_lines", prepare_lines, run_lines, look_lines, 0},
    {"ppo_text_save", prepare_text, run_text, look_text, 0},
    {"ppo_agent_load", prepare_agent, run_load_agent, NULL, 0},
    {"ppo_config_load", prepare_agent, run_load_config, NULL, 0},
    {"ppo_settings_load", prepare_rlhf, run_load_settings, NULL, 0},
    {"ppo_trainer_resume", prepare_trainer, run_load_trainer, NULL, 0},
    {"ppo_trainer_resume, 3 threads", prepare_trainer, run_load_trainer_with_threads, NULL, 0},
    {"ppo_rlhf_resume", prepare_new_rlhf, run_load_rlhf, NULL, 0},
    {"ppo_lm_load, file", prepare_lm_file, run_load_lm_file, NULL, 0},
    {"ppo_lm_load, GGUF", prepare_gguf, run_load_gguf, NULL, 0},
    {"ppo_lm_load, folder", prepare_folder, run_load_folder, NULL, 0},
    {"ppo_lm_load, shards", prepare_shards, run_load_folder, NULL, 0},
    {"ppo_lm_load_adapter", prepare_adapter, run_load_adapter, NULL, 0},
    {"ppo_lm_load_ends", prepare_ends, run_load_ends, NULL, 0},
    {"ppo_tokenizer_load, file", prepare_tokenizer_file, run_load_tokenizer_file, NULL, 0},
    {"ppo_tokenizer_load, folder", prepare_tokenizer_folder, run_load_tokenizer_folder, NULL, 0},
    {"ppo_tokens_load", prepare_tokens, run_load_tokens, NULL, 0},
    {"ppo_tokens_add_lines", prepare_lines, run_load_lines, NULL, 0},
    {"ppo_text_load", prepare_text, run_load_text, NULL, 0},
    {"log", NULL, run_log, look_log, STEPS},
    {"log, resumed", prepare_log, run_log_resumed, look_log_resumed, STEPS},
    {"log and checkpoint", NULL, run_log_and_checkpoint, look_log_and_checkpoint, STEPS},
    {"ppo_fit_sft, checkpoint", prepare_fit, run_fit, look_fit, STEPS},
    {"ppo_set_threads", NULL, run_threads, NULL, 0},
    {"ppo_train, 3 threads", NULL, run_train, NULL, 0},
    {"finetune tokenizer", prepare_out, run_finetune_tokenizer, look_out_tokenizer, PROGRAM},
    {"finetune new", prepare_out, run_finetune_new, look_out, PROGRAM},
    {"finetune text", NULL, run_finetune_text, look_out, PROGRAM},
    {"finetune sft", prepare_out, run_finetune_sft, look_out, PROGRAM},
    {"finetune sft, continued", prepare_sft_again, run_finetune_sft, look_out, PROGRAM},
    {"finetune sft lora=2", NULL, run_finetune_lora, look_out_adapter, PROGRAM},
    {"finetune merge", prepare_out, run_finetune_merge, look_out, PROGRAM},
    {"finetune reward", prepare_out, run_finetune_reward, look_out, PROGRAM},
    {"finetune dpo", prepare_out, run_finetune_dpo, look_out, PROGRAM},
    {"finetune grpo", prepare_out, run_finetune_grpo, look_out, PROGRAM},
    {"finetune grpo, continued", prepare_grpo_again, run_finetune_grpo, look_out, PROGRAM},
    {"train", NULL, run_build_train, look_run, PROGRAM | STEPS},
    {"train, resumed", prepare_train_again, run_build_train_again, look_run, PROGRAM | STEPS},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

#endif
