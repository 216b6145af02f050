/* What people ran into with folders of the model hub, data and files: a decimal comma, a saving that is cut off, files that
   cannot be read, special tokens in data, files beside the model that change its tokens. */
#include "../ppo.h"
#include "../examples/companions/ppo_export.h"
#include "../examples/companions/ppo_chat.h"
#include "../examples/companions/ppo_hub.h"
#include "../examples/companions/ppo_onnx.h"
#include "../examples/companions/ppo_report.h"
#include "../examples/envs/cartpole.h"

#include "test.h"
#include "system.h"

static const char sentences[] =
    "the cat sat on the mat. the dog sat on the log. a cat and a dog ran to the red hat.";

/* A tokenizer with these special tokens, the last of which may be NULL. */
static ppo_tokenizer *words(const char *first, const char *second) {
    const char *specials[] = {first, second};
    ppo_tokenizer *tok = NULL;
    assert_ok(ppo_tokenizer_train(sentences, strlen(sentences), 270, specials, second ? 2 : 1, &tok));
    return tok;
}

static ppo_lm *small_lm(const char *family, int vocab, int score, uint64_t seed) {
    ppo_lm_config c = ppo_lm_config_default();
    ppo_lm *lm = NULL;
    c.vocab = vocab;
    c.context = 16;
    c.width = 16;
    c.layers = 1;
    c.heads = 2;
    c.score = score;
    c.seed = seed;
    c.eos = vocab - 1;
    assert_ok(ppo_lm_config_family(&c, family));
    if (!strcmp(family, "gpt_neox")) c.rotary_size = 2;
    assert_ok(ppo_lm_create(&c, &lm));
    return lm;
}

/* LoRA whose B is not 0. */
static ppo_lm *small_lora(ppo_lm *base, float alpha, uint64_t seed) {
    ppo_lora lora = ppo_lora_default();
    ppo_lm *lm = NULL;
    lora.rank = 2;
    lora.alpha = alpha;
    assert_ok(ppo_lm_adapt(base, &lora, 0, &lm));
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    for (size_t i = 0; i < lm->params->count; i++) lm->params->data[i] = 0.2f * ppo_rng_normal(&rng);
    return lm;
}

static float first_logit(const ppo_lm *lm) {
    const int token[3] = {1, 2, 3};
    ppo_tokens tokens = {0};
    ppo_tape *tape = NULL;
    assert_ok(ppo_tokens_add(&tokens, token, 3, 0));
    assert_ok(ppo_tape_create(&tape));
    ppo_tape_record(tape, 0);
    ppo_tensor *x = ppo_lm_logits(tape, lm, ppo_lm_forward(tape, lm, &tokens));
    assert_non_null(x);
    const float logit = x->data[0];
    ppo_tape_free(tape);
    ppo_tokens_free(&tokens);
    return logit;
}

static void put_text(const char *path, const char *text) { put_bytes(path, text, strlen(text)); }

static char *text_of(const char *path) {
    char *text = NULL;
    assert_ok(ppo_text_load(path, &text, NULL));
    assert_non_null(text);
    return text;
}

/* A file with one text in it replaced, all of it; `from` must be there. */
static void replace(const char *path, const char *from, const char *to) {
    char *text = text_of(path), *at = strstr(text, from), whole[8192];
    if (!at) fail_msg("%s has no %s: %s", path, from, text);
    snprintf(whole, sizeof whole, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    put_text(path, whole);
    ppo_text_free(text);
}

/* --------------------------------------------------------------------------------------------------------
   A decimal comma
   -------------------------------------------------------------------------------------------------------- */

static const char *const saved[] = {"agent.st",
                                    "lm/config.json",
                                    "lm/model.safetensors",
                                    "lora/adapter_config.json",
                                    "lora/adapter_model.safetensors",
                                    "lm.st",
                                    "policy.h",
                                    "policy8.h",
                                    "policy.onnx",
                                    "log.csv",
                                    "curve.svg",
                                    "tokens.st",
                                    "lines.jsonl",
                                    "tok/tokenizer.json",
                                    "tok/tokenizer_config.json",
                                    "curve.txt"};

/* Everything that can be saved, into a folder, with numbers that are not whole. */
static void save_all(const char *folder) {
    char path[64];
    const float x[3] = {0, 0.5f, 1}, y[3] = {0.25f, 1.5f, 2.75f};
    const ppo_curve curve = {"a", x, y, 3};
    ppo_env env = cartpole_env();
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_log *log = NULL;
    ppo_progress progress;
    ppo_tokens tokens = {0};
    ppo_tokenizer *tok = words("<e>", NULL);
    ppo_lm *lm = small_lm("gpt_neox", ppo_tokenizer_vocab(tok), 0, 1), *lora = small_lora(lm, 12.5f, 1);
    memset(&progress, 0, sizeof progress);
    progress.loss = 0.125f;
    progress.mean_return = 2.5f;
    cfg.gamma = 0.925f;
    env.action_space = ppo_box(1, -0.5f, 2.5f);
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_tokens_add_text(&tokens, tok, -1, "the cat", " sat", 3));
#define IN(name) (snprintf(path, sizeof path, "%s/%s", folder, name), path)
    assert_ok(ppo_agent_save(agent, IN("agent.st")));
    assert_ok(ppo_lm_save(lm, IN("lm"), PPO_F32));
    assert_ok(ppo_lm_save(lora, IN("lora"), PPO_F32));
    assert_ok(ppo_lm_save_file(lm, tok, IN("lm.st")));
    assert_ok(ppo_export_c(agent, "policy", IN("policy.h")));
    env.action_space = ppo_discrete(2);
    ppo_agent_free(agent);
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_ok(ppo_export_c_int8(agent, &env, "policy", IN("policy8.h")));
    assert_ok(ppo_export_onnx(agent, IN("policy.onnx"), NULL));
    assert_ok(ppo_log_open(IN("log.csv"), NULL, 0, &log));
    assert_ok(ppo_log_write(log, &progress));
    ppo_log_close(log);
    assert_ok(ppo_plot_svg(IN("curve.svg"), NULL, NULL, NULL, &curve, 1));
    assert_ok(ppo_tokens_save(&tokens, IN("tokens.st")));
    assert_ok(ppo_tokens_save_lines(&tokens, tok, IN("lines.jsonl")));
    mkdir(IN("tok"), 0777);
    assert_ok(ppo_tokenizer_save(tok, path));
    FILE *out = fopen(IN("curve.txt"), "w");
    assert_non_null(out);
    ppo_print_curve(out, NULL, x, y, 3, 60, 8);
    fclose(out);
    ppo_lm *read = NULL, *read_lora = NULL;
    assert_ok(ppo_lm_load(IN("lm"), &read));
    assert_ok(ppo_lm_load_adapter(IN("lora"), read, &read_lora));
    assert_true(read_lora->adapter->lora.alpha == 12.5f && read->config.rotary_size == 2);
    ppo_lm_free(read_lora), ppo_lm_free(read), ppo_lm_free(lora), ppo_lm_free(lm);
    ppo_tokens_free(&tokens), ppo_tokenizer_free(tok), ppo_agent_free(agent);
}

static void all_files_have_the_same_bytes_under_every_decimal_point(void **state) {
    (void)state;
    static const char *const languages[] = {"de_DE", "ps_AF"}; /* a comma; a point of two bytes */
    char command[128];
    save_all("C");
    for (int k = 0; k < 2; k++) {
        snprintf(command, sizeof command,
                 "mkdir -p loc && localedef -i %s -f UTF-8 loc/%s.UTF-8 >loc.log 2>&1", languages[k],
                 languages[k]);
        if (system(command)) {
            print_message("there is no locale %s to be made\n", languages[k]);
            skip();
        }
        char name[32], one[64], other[64];
        setenv("LOCPATH", "loc", 1);
        snprintf(name, sizeof name, "%s.UTF-8", languages[k]);
        if (!setlocale(LC_ALL, name)) skip();
        assert_string_not_equal(localeconv()->decimal_point, ".");
        save_all(name);
        setlocale(LC_ALL, "C");
        unsetenv("LOCPATH");
        for (int i = 0; i < COUNT(saved); i++) {
            snprintf(one, sizeof one, "C/%s", saved[i]);
            snprintf(other, sizeof other, "%s/%s", name, saved[i]);
            const file_bytes a = bytes_of(one), b = bytes_of(other);
            if (a.n != b.n || memcmp(a.data, b.data, a.n)) fail_msg("%s differs from %s", other, one);
            free(a.data), free(b.data);
        }
    }
}

/* --------------------------------------------------------------------------------------------------------
   Savings that are cut off
   -------------------------------------------------------------------------------------------------------- */

static void a_folder_between_two_renames_is_the_new_one(void **state) {
    (void)state;
    ppo_lm *base = small_lm("llama", 20, 0, 1), *lora[2] = {small_lora(base, 16, 1), small_lora(base, 64, 2)};
    ppo_lm *other = NULL, *read = NULL;
    ppo_lm_config c = base->config;
    c.rope_theta = 500;
    c.seed = 2;
    assert_ok(ppo_lm_create(&c, &other));
    const ppo_lm *models[2][2] = {{base, other}, {lora[0], lora[1]}};
    for (int k = 0; k < 2; k++) {
        const char *config = k ? "cut/adapter_config.json" : "cut/config.json";
        assert_ok(ppo_lm_save(models[k][0], "cut", PPO_F32));
        char *old = text_of(config);
        assert_ok(ppo_lm_save(models[k][1], "cut", PPO_F32));
        put_text(config, old); /* as if the power had failed here */
        assert_ok(k ? ppo_lm_load_adapter("cut", base, &read) : ppo_lm_load("cut", &read));
        assert_true(first_logit(read) == first_logit(models[k][1]));
        ppo_lm_free(read);
        remove(config); /* as if there had been no folder before */
        assert_ok(k ? ppo_lm_load_adapter("cut", base, &read) : ppo_lm_load("cut", &read));
        assert_true(first_logit(read) != first_logit(models[k][0]));
        ppo_lm_free(read);
        ppo_text_free(old);
        assert_int_equal(system("rm -r cut"), 0);
    }
    for (int k = 0; k < 2; k++) ppo_lm_free(lora[k]);
    ppo_lm_free(other), ppo_lm_free(base);
}

static void a_folder_whose_second_file_cannot_be_written_stays_as_it_was(void **state) {
    (void)state;
    ppo_lm *base = small_lm("llama", 20, 0, 1), *lora[2] = {small_lora(base, 16, 1), small_lora(base, 64, 2)};
    ppo_lm *read = NULL;
    assert_ok(ppo_lm_save(lora[0], "two", PPO_F32));
    assert_int_equal(rename("two/adapter_config.json", "two/kept"), 0);
    mkdir("two/adapter_config.json", 0777);
    assert_fails(ppo_lm_save(lora[1], "two", PPO_F32), PPO_ERROR_FILE,
                 "adapter_config.json|not a plain file");
    rmdir("two/adapter_config.json");
    assert_int_equal(rename("two/kept", "two/adapter_config.json"), 0);
    assert_ok(ppo_lm_load_adapter("two", base, &read));
    assert_true(first_logit(read) == first_logit(lora[0]));
    assert_int_not_equal(system("ls two | grep -q tmp"), 0);
    ppo_lm_free(read);
    for (int k = 0; k < 2; k++) ppo_lm_free(lora[k]);
    ppo_lm_free(base);
}

static void a_killed_saving_leaves_the_old_folder_or_the_new_one(void **state) {
    (void)state;
    ppo_lm *base = small_lm("llama", 20, 0, 1), *lora[2] = {small_lora(base, 16, 1), small_lora(base, 64, 2)};
    const float logits[2] = {first_logit(lora[0]), first_logit(lora[1])};
    assert_ok(ppo_lm_save(lora[0], "killed", PPO_F32));
    for (int round = 0; round < SMALL(40, 10); round++) {
        const int child = fork();
        if (!child)
            for (int k = 1;; k++) ppo_lm_save(lora[k % 2], "killed", PPO_F32);
        const struct timespec wait = {0, 1000 * (500 + 377 * (round % 13))};
        nanosleep(&wait, NULL);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        ppo_lm *read = NULL;
        assert_ok(ppo_lm_load_adapter("killed", base, &read));
        const float is = first_logit(read);
        assert_true(is == logits[0] || is == logits[1]);
        ppo_lm_free(read);
    }
    for (int k = 0; k < 2; k++) ppo_lm_free(lora[k]);
    ppo_lm_free(base);
}

static void a_config_that_was_edited_counts(void **state) {
    (void)state;
    ppo_lm *lm = small_lm("llama", 20, 0, 1), *read = NULL;
    lm->config.eos = 19;
    assert_ok(ppo_lm_save(lm, "edited", PPO_F32));
    lm->config.eos = 18; /* so that there was another one before */
    assert_ok(ppo_lm_save(lm, "edited", PPO_F32));
    replace("edited/config.json", "\"eos_token_id\": 18", "\"eos_token_id\": 5");
    assert_ok(ppo_lm_load("edited", &read));
    assert_int_equal(read->config.eos, 5);
    ppo_lm_free(read), ppo_lm_free(lm);
}

#ifndef _WIN32
/* Stands for the system's, which the library calls; keeps the names. (A library that is compiled with other tests has a
   stand-in of theirs.) */
static char synced[4096];
int fsync(int descriptor) {
    char link[64], name[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    const ssize_t n = readlink(link, name, sizeof name - 1);
    if (n > 0 && strlen(synced) + (size_t)n + 2 < sizeof synced)
        snprintf(synced + strlen(synced), (size_t)n + 2, "%.*s\n", (int)n, name);
    return 0;
}

/* Was what this path names synced? */
static int was_synced(const char *path) {
    char whole[600], line[610];
    if (!realpath(path, whole)) return 0;
    snprintf(line, sizeof line, "%s\n", whole);
    const char *at = strstr(synced, line);
    return at && (at == synced || at[-1] == '\n');
}

static void folders_that_are_made_for_a_file_are_on_the_disk_with_it(void **state) {
    (void)state;
    char whole[600];
    ppo_lm *lm = small_lm("llama", 20, 0, 1);
    if (access("/proc/self/fd", R_OK)) skip();
    *synced = 0;
    assert_ok(ppo_lm_save_file(lm, NULL, "n1/n2/a.st"));
    if (!*synced) ppo_lm_free(lm), skip();
    assert_true(was_synced("n1/n2") && was_synced("n1") && was_synced("."));
    *synced = 0;
    assert_non_null(realpath("n1", whole));
    strcat(whole, "/m1/m2/a.st");
    assert_ok(ppo_lm_save_file(lm, NULL, whole));
    assert_true(was_synced("n1/m1/m2") && was_synced("n1/m1") && was_synced("n1") && !was_synced("."));
    ppo_lm_free(lm);
}

static void a_log_is_on_the_disk_before_a_checkpoint(void **state) {
    (void)state;
    ppo_log *log = NULL;
    ppo_progress progress;
    memset(&progress, 0, sizeof progress);
    if (access("/proc/self/fd", R_OK)) skip();
    assert_ok(ppo_log_open("logs/a.csv", NULL, 0, &log)); /* rows alone */
    assert_ok(ppo_log_write(log, &progress));
    *synced = 0;
    assert_ok(ppo_log_sync(log));
    assert_true(!*synced || (was_synced("logs/a.csv") && !strstr(synced, "tfevents")));
    ppo_log_close(log);
    assert_ok(ppo_log_open("logs/a.csv", "logs", 0, &log));
    assert_ok(ppo_log_write(log, &progress));
    *synced = 0;
    assert_ok(ppo_log_sync(log));
    if (!*synced) ppo_log_close(log), skip();
    assert_true(was_synced("logs/a.csv") && was_synced("logs") && strstr(synced, "tfevents"));
    assert_ok(ppo_log_sync(NULL));
    ppo_log_close(log);
}
#endif

/* --------------------------------------------------------------------------------------------------------
   Files that cannot be read, and paths that name none
   -------------------------------------------------------------------------------------------------------- */

static void what_cannot_be_read_is_not_taken_for_absent(void **state) {
    (void)state;
    ppo_tokenizer *tok = words("<e>", NULL), *read = NULL;
    int ends[4], n = 0;
    mkdir("ends", 0777);
    put_text("ends/config.json", "{\"eos_token_id\": 7}");
    put_text("ends/generation_config.json", "{\"eos_token_id\": [7, 9]}");
    assert_ok(ppo_lm_load_ends("ends", ends, 4, &n));
    assert_int_equal(n, 2);
    remove("ends/generation_config.json");
    assert_int_equal(symlink("generation_config.json", "ends/generation_config.json"), 0); /* a loop */
    assert_fails(ppo_lm_load_ends("ends", ends, 4, &n), PPO_ERROR_FILE,
                 "generation_config.json|cannot be opened");
    assert_int_equal(n, 0);
    assert_fails(ppo_lm_load_ends("nowhere", ends, 4, &n), PPO_ERROR_FILE, "nowhere|No such file");
    assert_ok(ppo_tokenizer_save(tok, "ends"));
    remove("ends/tokenizer_config.json");
    assert_int_equal(symlink("tokenizer_config.json", "ends/tokenizer_config.json"), 0);
    assert_fails(ppo_tokenizer_load("ends", &read), PPO_ERROR_FILE, "tokenizer_config.json|cannot be opened");
    assert_null(read);
    remove("ends/tokenizer_config.json");
    mkdir("ends/chat_template.jinja", 0777);
    assert_fails(ppo_tokenizer_load("ends", &read), PPO_ERROR_FILE, "chat_template.jinja|not a plain file");
    ppo_tokenizer_free(tok);
}

static void an_empty_path_is_no_root_of_the_file_system(void **state) {
    (void)state;
    ppo_log *log = NULL;
    ppo_lm *lm = small_lm("llama", 20, 0, 1), *read = NULL;
    int n;
    assert_fails(ppo_log_open(NULL, "", 0, &log), PPO_ERROR_ARGUMENT, "tensorboard_dir is empty");
    assert_null(log);
    assert_fails(ppo_lm_load("", &read), PPO_ERROR_ARGUMENT, "path is empty");
    assert_fails(ppo_lm_load_ends("", NULL, 0, &n), PPO_ERROR_ARGUMENT, "path is empty");
    assert_fails(ppo_lm_load_adapter("", lm, &read), PPO_ERROR_ARGUMENT, "path is empty");
    assert_fails(ppo_lm_save(lm, "", PPO_F32), PPO_ERROR_ARGUMENT, "path is empty");
    ppo_lm_free(lm);
}

static void a_pipe_is_refused_wherever_a_file_is_read_or_written(void **state) {
    (void)state;
    static const char sentence[] = "not a plain file";
    ppo_tokenizer *tok = words("<e>", NULL), *read_tok = NULL;
    ppo_lm *lm = small_lm("llama", ppo_tokenizer_vocab(tok), 0, 1), *read = NULL;
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_tokens tokens = {0};
    ppo_log *log = NULL;
    char *text = NULL;
    int n;
    assert_ok(ppo_tokens_add_text(&tokens, tok, -1, "the cat", " sat", 3));
    assert_int_equal(mkfifo("pipe", 0666), 0);
    mkdir("pipes", 0777);
    alarm(20); /* what waits for the pipe's other end waits for ever */
    fit.steps = 1;
    fit.checkpoint = "pipe";
    assert_fails(ppo_fit_sft(lm, &tokens, &fit), PPO_ERROR_FILE, sentence);
    for (int steps = 0; steps < 2; steps++)
        assert_fails(ppo_log_open("pipe", NULL, steps, &log), PPO_ERROR_FILE, sentence);
    assert_fails(ppo_text_load("pipe", &text, NULL), PPO_ERROR_FILE, sentence);
    assert_fails(ppo_text_save("pipe", "a", 1), PPO_ERROR_FILE, sentence);
    assert_fails(ppo_tokens_add_lines(&tokens, NULL, "pipe", tok, NULL, NULL), PPO_ERROR_FILE, sentence);
    static const char *const files[] = {"config.json",         "generation_config.json",
                                        "adapter_config.json", "tokenizer_config.json",
                                        "chat_template.jinja", "model.safetensors"};
    assert_ok(ppo_tokenizer_save(tok, "pipes"));
    remove("pipes/tokenizer_config.json");
    for (int k = 0; k < COUNT(files); k++) {
        char path[64];
        snprintf(path, sizeof path, "pipes/%s", files[k]);
        if (k == 5) put_text("pipes/config.json", "{\"model_type\": \"llama\"}");
        assert_int_equal(mkfifo(path, 0666), 0);
        assert_fails(k == 1             ? ppo_lm_load_ends("pipes", NULL, 0, &n)
                     : k == 2           ? ppo_lm_load_adapter("pipes", lm, &read)
                     : k == 3 || k == 4 ? ppo_tokenizer_load("pipes", &read_tok)
                                        : ppo_lm_load("pipes", &read),
                     PPO_ERROR_FILE, k == 5 ? "config.json" : sentence);
        remove(path);
    }
    alarm(0);
    ppo_tokens_free(&tokens), ppo_tokenizer_free(tok), ppo_lm_free(lm);
}

/* Bytes that the library has. */
static size_t taken, most_taken;

static void *weigh(void *user, void *ptr, size_t size) {
    size_t *block = ptr ? (size_t *)ptr - 2 : NULL, before = block ? *block : 0;
    (void)user;
    if (!size) return taken -= before, free(block), (void *)NULL;
    if (!(block = (size_t *)realloc(block, size + 2 * sizeof *block))) return NULL;
    *block = size;
    taken += size - before;
    if (taken > most_taken) most_taken = taken;
    return block + 2;
}

static void json_takes_at_most_16_bytes_for_a_byte(void **state) {
    (void)state;
    enum { BYTES = 1 << 21 };
    static const char *const worst[] = {",", "0,", "[],", "[0],", "{},", "\"\","};
    ppo_tokenizer *tok = words("<e>", NULL);
    char *line = (char *)malloc(BYTES + 64);
    for (int k = 0; k < COUNT(worst); k++) { /* in a string, and lists */
        char *at = line + sprintf(line, "{\"text\": \"a\", \"x\": %s", k ? "[" : "\"");
        while (at < line + BYTES) at += sprintf(at, "%s", worst[k]);
        at += sprintf(at, k ? "0]}" : "\"}");
        put_bytes("long.jsonl", line, (size_t)(at - line));
        ppo_tokens tokens = {0};
        most_taken = taken = 0;
        ppo_set_allocator(weigh, NULL);
        ppo_status status = ppo_tokens_add_lines(&tokens, NULL, "long.jsonl", tok, NULL, NULL);
        ppo_tokens_free(&tokens);
        ppo_set_allocator(NULL, NULL);
        assert_ok(status);
        if (most_taken > 16u * BYTES)
            fail_msg("%s: %.1f bytes for a byte", worst[k], (double)most_taken / BYTES);
    }
    free(line);
    ppo_tokenizer_free(tok);
}

/* --------------------------------------------------------------------------------------------------------
   Special tokens in data, and bounds
   -------------------------------------------------------------------------------------------------------- */

static void names_of_special_tokens_in_data_are_told_or_read(void **state) {
    (void)state;
    static const char data[] = "{\"text\": \"the cat\"}\n\n"
                               "{\"prompt\": \"the <|im_start|>\", \"completion\": \"cat <|im_end|>\"}\n"
                               "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a<|im_end|>b\"}]}\n";
    ppo_tokenizer *tok = words("<|im_start|>", "<|im_end|>");
    const int start = ppo_tokenizer_special(tok, "<|im_start|>"),
              end = ppo_tokenizer_special(tok, "<|im_end|>");
    ppo_named named = {9, "x"};
    ppo_lines lines = ppo_lines_default();
    ppo_tokens tokens = {0};
    lines.end = end;
    lines.named = &named;
    put_text("named.jsonl", data);
    assert_ok(ppo_tokens_add_lines(&tokens, NULL, "named.jsonl", tok, &lines, NULL));
    assert_int_equal(named.line, 3);
    assert_string_equal(named.name, "<|im_start|>");
    const int letters = tokens.start[3];
    ppo_tokens_clear(&tokens);
    lines.specials = 1;
    assert_ok(ppo_tokens_add_lines(&tokens, NULL, "named.jsonl", tok, &lines, NULL));
    assert_int_equal(named.line, 0);
    assert_true(tokens.start[3] < letters - 20);
    int starts = 0, ends = 0;
    for (int i = tokens.start[1]; i < tokens.start[2]; i++)
        starts += tokens.token[i] == start, ends += tokens.token[i] == end;
    assert_true(starts == 1 && ends == 1 && tokens.token[tokens.start[2] - 1] == end); /* one end, not two */
    for (int i = tokens.start[2]; i < tokens.start[3]; i++) ends += tokens.token[i] == end;
    assert_int_equal(ends, 3); /* in the content, and after it */
    ppo_tokens_clear(&tokens);
    assert_ok(ppo_tokens_add_written(&tokens, tok, start, "<|im_start|>the", " cat<|im_end|>", end));
    assert_ok(ppo_tokens_add_text(&tokens, tok, start, "the", " cat", end));
    assert_int_equal(tokens.start[2], 2 * tokens.start[1]);
    assert_memory_equal(tokens.token, tokens.token + tokens.start[1], tokens.start[1] * sizeof(int));
    assert_int_equal(ppo_tokenizer_find(tok, "the cat"), -1);
    assert_int_equal(ppo_tokenizer_find(tok, "the <|im_end|> cat"), end);
    put_text("named.jsonl", "{\"text\": \"the cat\"}\n");
    lines.specials = 0;
    assert_ok(ppo_tokens_add_lines(&tokens, NULL, "named.jsonl", tok, &lines, NULL));
    assert_int_equal(named.line, 0);
    ppo_tokens_free(&tokens), ppo_tokenizer_free(tok);
}

/* A folder with the tokenizer.json of two special tokens, <a> and <b>, whose template is this. */
static ppo_tokenizer *with_template(const char *parts) {
    ppo_tokenizer *tok = words("<a>", "<b>"), *read = NULL;
    char text[1024];
    const int a = ppo_tokenizer_special(tok, "<a>");
    mkdir("template", 0777);
    assert_ok(ppo_tokenizer_save(tok, "template/tokenizer.json"));
    snprintf(text, sizeof text,
             "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [%s], \"pair\": [], "
             "\"special_tokens\": {\"<a>\": {\"id\": \"<a>\", \"ids\": [%d], \"tokens\": [\"<a>\"]}, "
             "\"<b>\": {\"id\": \"<b>\", \"ids\": [%d], \"tokens\": [\"<b>\"]}}}",
             parts, a, a + 1);
    replace("template/tokenizer.json", "\"post_processor\": null", text);
    ppo_tokenizer_free(tok);
    assert_ok(ppo_tokenizer_load("template", &read));
    return read;
}

static void what_stands_before_a_text_is_not_what_stands_after_it(void **state) {
    (void)state;
#define TEXT_PART "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}"
#define A_PART    "{\"SpecialToken\": {\"id\": \"<a>\", \"type_id\": 0}}"
#define B_PART    "{\"SpecialToken\": {\"id\": \"<b>\", \"type_id\": 0}}"
    static const struct {
        const char *parts;
        int before, after;
    } cases[] = {{TEXT_PART ", " B_PART, 0, 1},
                 {A_PART ", " TEXT_PART, 1, 0},
                 {A_PART ", " TEXT_PART ", " B_PART, 1, 1},
                 {TEXT_PART, 0, 0}};
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_tokenizer *tok = with_template(cases[i].parts);
        int token[4], n[3];
        assert_ok(ppo_encode_as(tok, PPO_ENCODE_BEFORE, "", 0, token, 4, &n[0]));
        assert_true(n[0] == cases[i].before && (!n[0] || token[0] == ppo_tokenizer_special(tok, "<a>")));
        assert_ok(ppo_encode_as(tok, PPO_ENCODE_AFTER, "", 0, token, 4, &n[1]));
        assert_true(n[1] == cases[i].after && (!n[1] || token[0] == ppo_tokenizer_special(tok, "<b>")));
        assert_ok(ppo_encode_as(tok, PPO_ENCODE_BOUNDS, "", 0, token, 4, &n[2]));
        assert_int_equal(n[2], n[0] + n[1]);
        ppo_tokenizer_free(tok);
    }
}

/* --------------------------------------------------------------------------------------------------------
   What stands beside a tokenizer and a model
   -------------------------------------------------------------------------------------------------------- */

static void what_tokenizer_config_says_otherwise_is_told(void **state) {
    (void)state;
    static const struct {
        const char *config, *words; /* "": no note; with !: refused */
    } cases[] = {
        {"{}", ""},
        {"{\"add_bos_token\": false, \"add_eos_token\": false, \"add_prefix_space\": false, \"eos_token\": "
         "\"<b>\"}",
         ""},
        {"{\"add_bos_token\": true}", "add_bos_token is true|no token before"},
        {"{\"add_eos_token\": true}", "add_eos_token is true|no token after"},
        {"{\"add_prefix_space\": true}", "add_prefix_space is true"},
        {"{\"split_special_tokens\": true}", "split_special_tokens"},
        {"{\"tokenizer_class\": \"LlamaTokenizer\"}", "add_bos_token"},
        {"{\"eos_token\": {\"content\": \"<end>\"}}", "eos_token|<end>"},
        {"{\"added_tokens_decoder\": {\"268\": {\"content\": \"<a>\"}}}", "!<a>"},
        {"{\"added_tokens_decoder\": {\"400\": {\"content\": \"<extra>\"}}}",
         "!<extra>|not in tokenizer.json"},
        {"{\"additional_special_tokens\": [\"<a>\", \"<extra>\"]}", "!<extra>"},
        {"{\"additional_special_tokens\": [\"<a>\"]}", ""},
        {"{\"extra_special_tokens\": {\"x\": \"<extra>\"}}", "!<extra>"},
    };
    ppo_tokenizer *made = words("<a>", "<b>"), *tok = NULL;
    mkdir("says", 0777);
    assert_ok(ppo_tokenizer_save(made, "says"));
    for (int i = 0; i < COUNT(cases); i++) {
        char copy[256];
        put_text("says/tokenizer_config.json", cases[i].config);
        if (cases[i].words[0] == '!') {
            if (ppo_tokenizer_special(made, "<a>") == 268 && i == 8) continue; /* as it happens */
            assert_fails(ppo_tokenizer_load("says", &tok), PPO_ERROR_FILE, cases[i].words + 1);
            assert_null(tok);
            continue;
        }
        assert_ok(ppo_tokenizer_load("says", &tok));
        snprintf(copy, sizeof copy, "%s", cases[i].words);
        if (!*copy) assert_string_equal(ppo_tokenizer_note(tok), "");
        for (char *word = strtok(copy, "|"); word; word = strtok(NULL, "|"))
            if (!strstr(ppo_tokenizer_note(tok), word))
                fail_msg("%s: \"%s\" does not name %s", cases[i].config, ppo_tokenizer_note(tok), word);
        ppo_tokenizer_free(tok);
    }
    ppo_tokenizer_free(made);
}

static void what_a_chat_template_adds_is_told(void **state) {
    (void)state;
#define CHATML                                                                                             \
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\\\n' + message['content'] + "    \
    "'<|im_end|>' + '\\\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\\\n' }}" \
    "{% endif %}"
    static const struct {
        const char *template_of_chat, *words;
    } cases[] = {{CHATML, ""},
                 {"{% if not system %}<|im_start|>system\\nYou are helpful.<|im_end|>{% endif %}" CHATML,
                  "none of the forms"},
                 {"<|im_start|> {{ messages }}", "not run"}};
    ppo_tokenizer *made = words("<a>", "<b>"), *tok = NULL;
    char text[1024];
    mkdir("chats", 0777);
    assert_ok(ppo_tokenizer_save(made, "chats"));
    assert_ok(ppo_tokenizer_load("chats", &tok));
    assert_string_equal(ppo_tokenizer_chat_note(tok, PPO_CHATML), "");
    ppo_tokenizer_free(tok);
    for (int i = 0; i < COUNT(cases); i++) {
        snprintf(text, sizeof text, "{\"chat_template\": \"%s\"}", cases[i].template_of_chat);
        put_text("chats/tokenizer_config.json", text);
        assert_ok(ppo_tokenizer_load("chats", &tok));
        const char *note = ppo_tokenizer_chat_note(tok, PPO_CHATML);
        if (!*cases[i].words) assert_string_equal(note, "");
        if (!strstr(note, cases[i].words)) fail_msg("\"%s\" does not name %s", note, cases[i].words);
        ppo_tokenizer_free(tok);
    }
    put_text("chats/tokenizer_config.json", "{}");
    put_text("chats/chat_template.jinja", "[INST] {{ messages }}");
    assert_ok(ppo_tokenizer_load("chats", &tok));
    assert_non_null(strstr(ppo_tokenizer_chat_note(tok, PPO_CHATML), "none of the forms"));
    ppo_tokenizer_free(tok), ppo_tokenizer_free(made);
}

static void a_folder_has_what_python_needs(void **state) {
    (void)state;
    ppo_tokenizer *tok = words("<end>", "<pad>"), *read = NULL;
    ppo_lm *score = small_lm("llama", ppo_tokenizer_vocab(tok), 1, 1), *lora = NULL, *base = NULL;
    const int pad = ppo_tokenizer_special(tok, "<pad>"), end = ppo_tokenizer_special(tok, "<end>");
    char text[64];
    score->config.eos = score->full.eos = end;
    assert_ok(ppo_lm_save(score, "whole", PPO_F32));
    assert_ok(ppo_tokenizer_save(tok, "whole"));
    char *config = text_of("whole/config.json"), *words_of = text_of("whole/tokenizer_config.json");
    snprintf(text, sizeof text, "\"pad_token_id\": %d\n}", pad);
    assert_non_null(strstr(config, text));
    assert_non_null(strstr(words_of, "\"tokenizer_class\": \"PreTrainedTokenizerFast\""));
    assert_non_null(strstr(words_of, "\"eos_token\": \"<end>\""));
    assert_non_null(strstr(words_of, "\"pad_token\": \"<pad>\""));
    ppo_text_free(config), ppo_text_free(words_of);
    const file_bytes first = bytes_of("whole/model.safetensors");
    assert_ok(ppo_lm_save(score, "whole", PPO_F32));
    const file_bytes second =
        bytes_of("whole/model.safetensors"); /* over a config.json with a pad_token_id */
    assert_true(first.n == second.n && !memcmp(first.data, second.data, first.n));
    free(first.data), free(second.data);
    put_text("whole/tokenizer_config.json",
             "{\"eos_token\": {\"content\": \"<pad>\"}, \"mine\": [1, {\"a\": \"}\"}]}");
    assert_ok(ppo_tokenizer_load("whole", &read));
    assert_ok(ppo_tokenizer_save(read, "whole"));
    words_of = text_of("whole/tokenizer_config.json"); /* the end is the model's, all else as it was */
    assert_non_null(strstr(words_of, "\"eos_token\": \"<end>\", \"mine\": [1, {\"a\": \"}\"}]"));
    ppo_text_free(words_of);
    base = small_lm("llama", 20, 0, 1);
    lora = small_lora(base, 16, 1);
    snprintf(lora->adapter->base_model, sizeof lora->adapter->base_model, "models/\"base\"");
    ppo_lm *copy = NULL, *again = NULL;
    assert_ok(ppo_lm_copy(lora, 0, &copy));
    assert_ok(ppo_lm_save(copy, "adapter", PPO_F32));
    assert_ok(ppo_lm_load_adapter("adapter", base, &again));
    assert_string_equal(again->adapter->base_model, "models/\"base\"");
    ppo_tokenizer *alone = words("<eos>", NULL);
    assert_int_equal(ppo_tokenizer_pad(alone, ppo_tokenizer_special(alone, "<eos>")), -1);
    ppo_tokenizer_free(alone);
    assert_int_equal(ppo_tokenizer_pad(tok, end), pad);
    assert_fails(ppo_tokenizer_fits(tok, "qwen2"), PPO_ERROR_ARGUMENT, "qwen2|NFC|qwen3");
    assert_ok(ppo_tokenizer_fits(tok, "qwen3"));
    ppo_lm_free(again), ppo_lm_free(copy), ppo_lm_free(lora), ppo_lm_free(base), ppo_lm_free(score);
    ppo_tokenizer_free(read), ppo_tokenizer_free(tok);
}

/* --------------------------------------------------------------------------------------------------------
   Refusals that help
   -------------------------------------------------------------------------------------------------------- */

static void files_of_other_kinds_are_told_by_what_they_are(void **state) {
    (void)state;
#define BYTES(text) text, sizeof text - 1
    static const struct {
        const char *bytes;
        size_t n;
        const char *words;
    } cases[] = {{BYTES("GGUF\3\0\0\0\2\0\0\0\0\0\0\0"), "GGUF|ppo_gguf.h|.gguf"},
                 {BYTES("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1234\n"),
                  "git-lfs|git lfs pull"},
                 {BYTES("PK\3\4\0\0\10\10\0\0\0\0\0\0"), "PyTorch|safetensors"},
                 {BYTES("\200\2\212\12l\374\234F\371 j\250P\31."), "PyTorch|safetensors"},
                 {BYTES("\306\327\64\1\3\0\0\0\0\4\0\0"), "llm.c"},
                 {BYTES("<!DOCTYPE html><html>Not found</html>"), "web page"},
                 {BYTES("\n\16\n\5<unk>\25\0\0\0\0\30\2"), "SentencePiece|tokenizer.json"},
                 {BYTES("\377\376{\0\"\0a\0"), "UTF-16"}};
    ppo_lm *lm = NULL;
    ppo_tokenizer *tok = NULL;
    mkdir("kinds", 0777);
    for (int i = 0; i < COUNT(cases); i++) {
        put_bytes("kinds/x.bin", cases[i].bytes, cases[i].n);
        assert_fails(ppo_lm_load("kinds/x.bin", &lm), PPO_ERROR_FILE, cases[i].words);
        assert_fails(ppo_tokenizer_load("kinds/x.bin", &tok), PPO_ERROR_FILE, cases[i].words);
        put_bytes("kinds/config.json", cases[i].bytes, cases[i].n);
        assert_fails(ppo_lm_load("kinds", &lm), PPO_ERROR_FILE, "config.json");
        put_bytes("kinds/tokenizer.json", cases[i].bytes, cases[i].n);
        if (i == 1 || i == 5 || i == 7) /* what such a file of text can be */
            assert_fails(ppo_tokenizer_load("kinds", &tok), PPO_ERROR_FILE, cases[i].words);
    }
}

static void folders_of_other_kinds_are_told_by_what_they_have(void **state) {
    (void)state;
    static const struct {
        const char *file, *words;
    } cases[] = {{"tokenizer.model", "tokenizer.model|tokenizer.json|save_pretrained"},
                 {"vocab.json", "vocab.json and merges.txt|tokenizer.json"},
                 {"pytorch_model.bin", "pytorch_model.bin|model.safetensors|save_pretrained"},
                 {"pytorch_model.bin.index.json", "pytorch_model.bin.index.json|model.safetensors"}};
    ppo_lm *lm = NULL;
    ppo_tokenizer *tok = NULL;
    mkdir("others", 0777);
    put_text("others/config.json",
             "{\"model_type\": \"llama\", \"vocab_size\": 9, \"max_position_embeddings\": 8, "
             "\"hidden_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 2}");
    for (int i = 0; i < COUNT(cases); i++) {
        char path[64];
        snprintf(path, sizeof path, "others/%s", cases[i].file);
        put_text(path, "x");
        assert_fails(i < 2 ? ppo_tokenizer_load("others", &tok) : ppo_lm_load("others", &lm), PPO_ERROR_FILE,
                     cases[i].words);
        remove(path);
    }
}

static void arrays_of_a_wrapped_module_are_told_by_their_prefix(void **state) {
    (void)state;
    static const char *const prefixes[] = {"_orig_mod.", "module.", "base_model.model."};
    ppo_lm *lm = small_lm("llama", 20, 0, 1), *read = NULL;
    assert_ok(ppo_lm_save(lm, "wrapped", PPO_F32));
    for (int k = 0; k < COUNT(prefixes); k++) {
        ppo_file *in = NULL, *out = NULL;
        assert_ok(ppo_lm_save(lm, "wrapped", PPO_F32));
        assert_ok(ppo_file_read("wrapped/model.safetensors", &in));
        assert_ok(ppo_file_create(&out));
        for (int i = 0; i < ppo_file_count(in); i++) {
            const ppo_array *a = ppo_file_at(in, i);
            char name[128];
            snprintf(name, sizeof name, "%s%s", prefixes[k], a->name);
            assert_ok(ppo_file_add(out, name, a->type, a->shape, a->rank, a->data));
        }
        assert_ok(ppo_file_write(out, "wrapped/model.safetensors"));
        ppo_file_free(in), ppo_file_free(out);
        char words_of[128];
        snprintf(words_of, sizeof words_of, "within another one|without \"%s\"", prefixes[k]);
        assert_fails(ppo_lm_load("wrapped", &read), PPO_ERROR_FILE, words_of);
    }
    ppo_lm_free(lm);
}

static void lines_of_other_shapes_are_told_what_to_do(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        const char *words;
    } cases[] = {
        {BYTES("\377\376{\0\"\0t\0"), "UTF-16"},
        {BYTES("[{\"text\": \"a\"}]"), "line 1 begins a list|jq"},
        {BYTES("[\n{\"text\": \"a\"}\n]"), "line 1 begins a list"},
        {BYTES("{\n  \"text\": \"a\"\n}\n"), "line 1|continues on the next line|jq -c"},
        {BYTES("{\"text\": \"a\",\n\"b\": 1}"), "continues on the next line"},
        {BYTES("<html>"), "web page"},
        {BYTES("version https://git-lfs.github.com/spec/v1\n"), "git-lfs"},
        {BYTES("{\"text\": \"a\", \"score\": NaN}"), "NaN"},
        {BYTES("{\"text\": \"a\\u0000b\"}"), "\\u0000"},
        {BYTES("{\"instruction\": \"a\", \"input\": \"\", \"output\": \"b\"}"),
         "only instruction, input, output|prompt|completion"},
        {BYTES("{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}]}"),
         "only conversations|messages"},
        {BYTES("{\"messages\": [{\"from\": \"human\", \"value\": \"a\"}]}"), "from and value|role"},
        {BYTES("{\"question\": \"a\", \"answer\": \"b\"}"), "only question, answer|prompt"},
        {BYTES("{\"prompt\": \"a\", \"response\": \"b\"}"), ""}, /* a prompt, and a member that is not read */
    };
    ppo_tokenizer *tok = words("<e>", NULL);
    ppo_tokens tokens = {0};
    for (int i = 0; i < COUNT(cases); i++) {
        put_bytes("shape.jsonl", cases[i].bytes, cases[i].n);
        if (!*cases[i].words) assert_ok(ppo_tokens_add_lines(&tokens, NULL, "shape.jsonl", tok, NULL, NULL));
        else
            assert_fails(ppo_tokens_add_lines(&tokens, NULL, "shape.jsonl", tok, NULL, NULL), PPO_ERROR_FILE,
                         cases[i].words);
    }
    ppo_tokens_free(&tokens), ppo_tokenizer_free(tok);
}

/* --------------------------------------------------------------------------------------------------------
   Main
   -------------------------------------------------------------------------------------------------------- */

static char scratch[] = "/tmp/ppo-hub-XXXXXX";

static int enter(void **state) {
    (void)state;
    return !mkdtemp(scratch) || chdir(scratch);
}

static int leave(void **state) {
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", scratch);
    return chdir("/") || system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_files_have_the_same_bytes_under_every_decimal_point),
        cmocka_unit_test(a_folder_between_two_renames_is_the_new_one),
        cmocka_unit_test(a_folder_whose_second_file_cannot_be_written_stays_as_it_was),
        cmocka_unit_test(a_killed_saving_leaves_the_old_folder_or_the_new_one),
        cmocka_unit_test(a_config_that_was_edited_counts),
#ifndef _WIN32
        cmocka_unit_test(folders_that_are_made_for_a_file_are_on_the_disk_with_it),
        cmocka_unit_test(a_log_is_on_the_disk_before_a_checkpoint),
#endif
        cmocka_unit_test(what_cannot_be_read_is_not_taken_for_absent),
        cmocka_unit_test(an_empty_path_is_no_root_of_the_file_system),
        cmocka_unit_test(a_pipe_is_refused_wherever_a_file_is_read_or_written),
        cmocka_unit_test_teardown(json_takes_at_most_16_bytes_for_a_byte, restore_allocator),
        cmocka_unit_test(names_of_special_tokens_in_data_are_told_or_read),
        cmocka_unit_test(what_stands_before_a_text_is_not_what_stands_after_it),
        cmocka_unit_test(what_tokenizer_config_says_otherwise_is_told),
        cmocka_unit_test(what_a_chat_template_adds_is_told),
        cmocka_unit_test(a_folder_has_what_python_needs),
        cmocka_unit_test(files_of_other_kinds_are_told_by_what_they_are),
        cmocka_unit_test(folders_of_other_kinds_are_told_by_what_they_have),
        cmocka_unit_test(arrays_of_a_wrapped_module_are_told_by_their_prefix),
        cmocka_unit_test(lines_of_other_shapes_are_told_what_to_do),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
