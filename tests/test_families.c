/* Section 19: language models in folders as the model hub has them, against Hugging Face's transformers. */
#define _XOPEN_SOURCE 700
#include <unistd.h>

#define PPO_NO_CONTROL
#define PPO_NO_REPORTS
#define PPO_IMPLEMENTATION
#include "../ppo.h"
#include "../examples/companions/ppo_gguf.h"
#include "../examples/companions/ppo_hub.h"

#include "golden/families.h"
#include "test.h"

static char home[] = "/tmp/test_families.XXXXXX";
static ppo_tape *tape;

static int begin(void **state) {
    (void)state;
    return !mkdtemp(home) || chdir(home) || ppo_tape_create(&tape);
}

static int end(void **state) {
    static const char *const files[] = {"config.json", "model.safetensors", "model.safetensors.index.json",
                                        "one-of-two.safetensors", "two-of-two.safetensors"};
    (void)state;
    ppo_tape_free(tape);
    for (int i = 0; i < COUNT(files); i++) {
        char path[64];
        snprintf(path, sizeof path, "in/%s", files[i]), remove(path);
        snprintf(path, sizeof path, "out/%s", files[i]), remove(path);
    }
    remove("own.safetensors");
    rmdir("in"), rmdir("out");
    return ppo_use_kernels(NULL) || chdir("/") || rmdir(home);
}

static void write_text(const char *path, const char *text) {
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

/* The folder "in" as transformers writes it: a model with its config, in this type, in 1 or 2 files. add: another
   array, named like this, or NULL; without: an array that is left out, or NULL. */
static void write_folder_with(int model, const char *config, int type, int files, const char *add,
                              const char *without) {
    static const char *const shards[] = {"in/one-of-two.safetensors", "in/two-of-two.safetensors"};
    static float numbers[100000];
    static char index[20000];
    ppo_file *file[2] = {NULL, NULL};
    char *at = (char *)numbers;
    int weight = 0, used = 0, count = 0;
    for (int k = 0; k < files; k++) assert_ok(ppo_file_create(&file[k]));
    used = sprintf(index, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {");
    for (int i = 0; i < COUNT(g_family_array); i++) {
        const int rank = g_family_array[i].rank, *shape = g_family_array[i].shape;
        const int64_t shape64[2] = {shape[0], shape[1]};
        const int n = shape[0] * (rank > 1 ? shape[1] : 1);
        if (g_family_array[i].model == model && !(without && !strcmp(without, g_family_array[i].name))) {
            float x[2000];
            assert_true(n <= COUNT(x) && at + 4 * n < (char *)(numbers + COUNT(numbers)));
            for (int k = 0; k < n; k++) x[k] = (float)g_family_weight[weight + k] / 64;
            ppo__from_floats(type, x, (size_t)n, at);
            assert_ok(ppo_file_add(file[count % files], g_family_array[i].name, type, shape64, rank, at));
            used += sprintf(index + used, "%s\"%s\": \"%s\"", count ? ", " : "", g_family_array[i].name,
                            shards[count % files] + 3);
            at += n * 4, count++;
        }
        weight += n;
    }
    if (add) assert_ok(ppo_file_add(file[0], add, PPO_F32, (const int64_t[]){1, 2}, 2, numbers));
    sprintf(index + used, "}}");
    remove("in/model.safetensors");
    remove("in/model.safetensors.index.json");
    for (int k = 0; k < files; k++) {
        assert_ok(ppo_file_write(file[k], files == 2 ? shards[k] : "in/model.safetensors"));
        ppo_file_free(file[k]);
    }
    if (files == 2) write_text("in/model.safetensors.index.json", index);
    write_text("in/config.json", config);
}

static void write_folder(int model) {
    write_folder_with(model, g_family_config[model], PPO_F32, 1, NULL, NULL);
}

static ppo_lm *load(const char *path) {
    ppo_lm *lm = NULL;
    assert_ok(ppo_lm_load(path, &lm));
    return lm;
}

static ppo_tokens model_tokens(void) {
    ppo_tokens tokens = {0};
    tokens.count = COUNT(g_family_start) - 1;
    tokens.start = (int *)g_family_start;
    tokens.token = (int *)g_family_token;
    return tokens;
}

/* The sums of make_families.py over the gradient of a parameter, as the array of transformers has it. */
static void check_gradients_of(const ppo_lm *lm, int model) {
    float floats[4000];
    for (int i = 0; i < COUNT(g_family_array); i++) {
        if (g_family_array[i].model != model) continue;
        for (int p = 0; p < lm->params->tensor_count; p++) {
            const char *ours = lm->params->names[p];
            for (const ppo__hub_row *row = ppo__hub_rows_of(&lm->full); row->parameter; row++) {
                ppo_tensor x = *lm->params->tensors[p];
                int rows, cols;
                for (int k = 0; k < 2 * lm->config.layers; k++) {
                    char is[96], that[96];
                    snprintf(is, sizeof is, row->parameter, k / 2), strcat(is, k % 2 ? ".bias" : ".weight");
                    snprintf(that, sizeof that, row->array, k / 2), strcat(that, k % 2 ? ".bias" : ".weight");
                    if (strcmp(is, ours) || strcmp(that, g_family_array[i].name)) continue;
                    x.data = x.grad;
                    ppo__hub_shape(&lm->full, &x, row->how, &rows, &cols);
                    ppo__hub_copy(&lm->full, &x, row->how, PPO__SAVE, floats, 0, rows, cols);
                    const float one = row->how == PPO__LESS_ONE; /* which a gradient is not */
                    for (int way = 0; way < 2; way++) {
                        double sum = 0;
                        for (int j = 0; j < rows * cols; j++)
                            sum += ((double)floats[j] + (double)one) * (j * (7 + 4 * way) % 13 - 6);
                        if (fabs(sum - g_family_gradient[2 * i + way]) > 1e-4 + 2e-5 * fabs(sum))
                            fail_msg("model %d: the gradient of %s: %g, not %g", model, that, sum,
                                     g_family_gradient[2 * i + way]);
                    }
                    goto found;
                }
            }
        }
        fail_msg("nothing is %s", g_family_array[i].name);
    found:;
    }
}

static void check_model(const ppo_lm *lm, int model) {
    const ppo_tokens tokens = model_tokens();
    const int rows = tokens.start[tokens.count];
    ppo_tokens whole = tokens, prompts = {0};
    ppo_generator *generator = NULL;
    ppo_samples samples;
    ppo_sampling how = ppo_sampling_default();
    int ones[] = {1, 1};
    assert_ok(ppo_params_freeze(lm->params, 0));
    ppo_tape_reset(tape);
    ppo_tensor *z = ppo_lm_logits(tape, lm, ppo_lm_forward(tape, lm, &tokens));
    assert_ok(ppo_tape_status(tape));
    assert_close_each(z->data, g_family_logits + model * rows * FAMILY_VOCAB, rows * FAMILY_VOCAB, 2e-5);
    whole.prompt = ones;
    ppo_response out = ppo_lm_response(tape, lm, &whole, 1, PPO_POLICY);
    ppo_tensor *loss = ppo_tape_scale(tape, ppo_tape_mean(tape, out.logp), -1, 0);
    assert_ok(ppo_tape_status(tape));
    assert_close((double)loss->data[0], g_family_loss[model], 1e-5);
    ppo_params_zero_grad(lm->params);
    assert_ok(ppo_tape_backward(tape, loss));
    check_gradients_of(lm, model);
    assert_ok(ppo_tokens_add(&prompts, g_family_token, FAMILY_PROMPT, FAMILY_PROMPT));
    how.greedy = 1, how.max_new_tokens = FAMILY_NEW;
    assert_ok(ppo_generator_create(lm, 2, &generator));
    assert_ok(ppo_generate(generator, &prompts, &how, &samples));
    assert_int_equal(samples.tokens.start[1], FAMILY_PROMPT + FAMILY_NEW);
    for (int i = 0; i < FAMILY_NEW; i++)
        assert_int_equal(samples.tokens.token[FAMILY_PROMPT + i], g_family_greedy[model * FAMILY_NEW + i]);
    ppo_generator_free(generator);
    ppo_tokens_free(&prompts);
}

static void families_compute_what_transformers_computes_in_every_kernel_set(void **state) {
    (void)state;
    for (int model = 0; model < FAMILY_MODELS; model++) {
        write_folder(model);
        ppo_lm *lm = load("in");
        FOR_EACH_KERNEL_SET(set) check_model(lm, model);
        ppo_lm_free(lm);
    }
}

static void weights_of_two_bytes_and_in_two_files_are_the_same(void **state) {
    (void)state;
    static const int types[] = {PPO_F16, PPO_BF16};
    for (int model = 0; model < FAMILY_MODELS; model++) {
        write_folder(model);
        ppo_lm *lm = load("in");
        for (int k = 0; k < 2; k++) {
            write_folder_with(model, g_family_config[model], types[k], 1 + k, NULL, NULL);
            ppo_lm *same = load("in");
            assert_false(bits_differ(same->params->data, lm->params->data, lm->params->count));
            ppo_lm_free(same);
        }
        ppo_lm_free(lm);
    }
}

static void assert_same_settings(const ppo_lm_config *a, const ppo_lm_config *b) {
    char x[32], y[32];
    for (int i = 0; i < ppo_lm_settings()->count; i++) {
        const char *name = ppo_lm_settings()->field[i].name;
        assert_ok(ppo_settings_get(ppo_lm_settings(), a, name, x, sizeof x));
        assert_ok(ppo_settings_get(ppo_lm_settings(), b, name, y, sizeof y));
        if (strcmp(x, y)) fail_msg("%s is %s, was %s", name, y, x);
    }
}

static void what_is_saved_is_loaded_with_the_same_bits_and_settings(void **state) {
    (void)state;
    static const int types[] = {PPO_F32, PPO_F16, PPO_BF16};
    for (int model = 0; model < FAMILY_MODELS; model++) {
        write_folder(model);
        ppo_lm *lm = load("in"), *back;
        for (int k = 0; k < COUNT(types); k++) {
            assert_ok(ppo_lm_save(lm, "out", types[k]));
            back = load("out");
            assert_same_settings(&lm->full, &back->full);
            assert_false(bits_differ(back->params->data, lm->params->data, lm->params->count));
            ppo_lm_free(back);
        }
        assert_ok(ppo_lm_save_file(lm, NULL, "own.safetensors"));
        back = load("own.safetensors");
        assert_same_settings(&lm->full, &back->full);
        assert_false(bits_differ(back->params->data, lm->params->data, lm->params->count));
        ppo_lm_free(back);
        ppo_lm_free(lm);
    }
}

/* With a score head it is a classifier of one label; its bias is an array of our own, if it is not 0. */
static void a_model_with_a_score_is_a_classifier(void **state) {
    (void)state;
    for (int model = 0; model < FAMILY_MODELS; model++) {
        ppo_lm *lm, *scored = NULL;
        char text[4000] = "";
        write_folder(model);
        lm = load("in");
        assert_ok(ppo_lm_copy(lm, 1, &scored));
        for (int k = 0; k < scored->config.width; k++) scored->score_weight->data[k] = (float)k - 2;
        for (int with_bias = 0; with_bias < 2; with_bias++) {
            scored->score_bias->data[0] = (float)with_bias;
            assert_ok(ppo_lm_save(scored, "out", PPO_F32));
            ppo_lm *back = load("out");
            ppo_file *file = NULL;
            assert_ok(ppo_file_read("out/model.safetensors", &file));
            assert_int_equal(ppo_file_find(file, "score.bias") != NULL, with_bias);
            assert_int_equal(ppo_file_find(file, "score.weight")->shape[1], lm->config.width);
            ppo_file_free(file);
            assert_same_settings(&scored->full, &back->full);
            assert_false(bits_differ(back->params->data, scored->params->data, scored->params->count));
            ppo_lm_free(back);
        }
        FILE *in = fopen("out/config.json", "r");
        assert_non_null(in);
        text[fread(text, 1, sizeof text - 1, in)] = 0;
        fclose(in);
        assert_non_null(strstr(text, "ForSequenceClassification"));
        ppo_lm_free(scored);
        ppo_lm_free(lm);
    }
}

/* The first model's config with one member more, or another value. */
static const struct {
    int model;
    const char *from, *to, *words;
} odd_configs[] = {
    {0, "\"gpt2\"", "\"bert\"", "config.json|model_type \"bert\" is not known|gpt2|qwen3"},
    {0, "\"gelu_new\"", "\"relu6\"", "config.json|activation_function \"relu6\" is not known"},
    {0, "\"n_head\": 3", "\"n_head\": 4", "config.json|width is 6, which 4 heads"},
    {0, "\"n_head\": 3", "\"n_heads\": 3", "there is no n_head"},
    {0, "\"n_layer\": 2", "\"n_layer\": 65", "n_layer|65, outside 1 to 64"},
    {0, "\"n_layer\": 2", "\"n_layer\": 3", "there is no \"transformer.h.2.ln_1.weight\""},
    {0, "\"n_layer\": 2", "\"n_layer\": 1", "has no place in a model with this config.json"},
    {0, "\"n_layer\": 2", "\"n_layer\": \"x\"", "n_layer|\"x\" is not a number"},
    {0, "\"n_embd\": 6", "\"n_embd\": 60000", "wte.weight\" is F32 (17, 6), not F32 (17, 60000)"},
    {0, "\"n_inner\": null", "\"n_inner\": 23", "c_fc|(6, 24), not F32 (6, 23)"},
    {0, "\"scale_attn_by_inverse_layer_idx\": false", "\"scale_attn_by_inverse_layer_idx\": true",
     "scale_attn_by_inverse_layer_idx is there, which is not supported"},
    {0, "\"n_inner\": null", "\"quantization_config\": {}", "quantization_config is there"},
    {0, "\"n_inner\": null", "\"n_embd\": 6", "repeated member \"n_embd\""},
    {0, "\"n_inner\": null", "\"n_inner\": nil", "config.json|byte|expected a value"},
    {0, "{", "[", "config.json|byte 0: expected \"{\""},
    {0, "17}", "17", "config.json|expected \"}\""},
    {0, "17}", "17}}", "config.json|expected its end"},
    {2, "\"attention_layers\": [\"global\", \"local\"]", "\"attention_layers\": [\"global\", \"odd\"]",
     "attention_layers \"odd\" is not known"},
    {2, "\"attention_layers\": [\"global\", \"local\"]", "\"attention_layers\": [\"global\"]",
     "lists 1 layers of 2"},
    {4, "\"rope_type\": \"default\"", "\"rope_type\": \"ntk\"",
     "rope_parameters.rope_type \"ntk\" is not known"},
    {4, "\"partial_rotary_factor\": 0.25", "\"partial_rotary_factor\": 7",
     "rope_parameters.partial_rotary_factor \"7\" is not known"},
    {4, "\"partial_rotary_factor\": 0.25", "\"partial_rotary_factor\": 0.4",
     "rotary_size is 3, must be even"},
    {6, "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 4", "heads is 6, which 4 kv_heads"},
    {6, "\"head_dim\": 4", "\"head_dim\": 2", "q_proj|(24, 12), not F32 (12, 12)"},
    {6, "\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": -1", "rms_norm_eps|-1, outside"},
    {6, "\"attention_bias\": false", "\"attention_bias\": true",
     "there is no \"model.layers.0.self_attn.q_proj.bias\""},
    {6, "\"rope_type\": \"default\"", "\"type\": \"mrope\"", "rope_parameters.type \"mrope\" is not known"},
    {6, "\"rope_type\": \"default\"", "\"type\": \"linear\"", "there is no rope_parameters.factor"},
    {6, "\"rope_type\": \"default\"", "\"rope_type\": \"yarn\", \"factor\": 4.0, \"truncate\": false",
     "truncate is false, which is not supported"},
    {6, "\"rope_parameters\"",
     "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8}, \"rope_parameters\"",
     "there is no rope_scaling.low_freq_factor"},
    {6, "\"rope_parameters\"", "\"rope_scaling\": \"linear\", \"rope_parameters\"",
     "config.json|expected \"{\""},
    {7, "\"low_freq_factor\": 1.0", "\"low_freq_factor\": 9.0", "rope_low is 9, must be below rope_high"},
    {10, "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true",
     "lm_head.weight\" is not the embedding, but tie_word_embeddings is true"},
    {11, "\"layer_types\": [\"full_attention\"", "\"layer_types\": [\"linear_attention\"",
     "layer_types \"linear_attention\" is not known"},
    {14, "\"final_logit_softcapping\": null", "\"final_logit_softcapping\": 30.0",
     "final_logit_softcapping is there"},
    {14, "\"use_bidirectional_attention\": false", "\"use_bidirectional_attention\": true",
     "use_bidirectional_attention is there"},
    {14, "\"query_pre_attn_scalar\": 3", "\"query_pre_attn_scalar\": 0",
     "query_pre_attn_scalar \"0\" is not"},
    {14, "\"rope_theta\": 20.0, \"rope_type\": \"default\"",
     "\"rope_theta\": 20.0, \"rope_type\": \"linear\"", "rope_type \"linear\" is not known"},
    {16, "\"no_rope_layers\": [1, 0]", "\"no_rope_layers\": [1]", "no_rope_layers lists 1 layers of 2"},
    {16, "\"no_rope_layers\": [1, 0]", "\"no_rope_layers\": 1", "config.json|expected \"[\""},
    {17, "\"rope_type\": \"default\"", "\"rope_type\": \"longrope\"", "rope_type \"longrope\" is not known"},
    {18, "\"residual_multiplier\": 0.4", "\"residual_multiplier\": 0", "residual_multiplier|0, outside"},
    {19, "\"do_layer_norm_before\": true", "\"do_layer_norm_before\": false",
     "do_layer_norm_before is false, which is not supported"},
    {19, "\"_remove_final_layer_norm\": false", "\"_remove_final_layer_norm\": true",
     "_remove_final_layer_norm is there"},
    {19, "\"max_position_embeddings\": 40", "\"max_position_embeddings\": 38",
     "embed_positions.weight\" is F32 (42, 6), not F32 (40, 6)"},
};

static void what_is_not_supported_is_refused_by_its_key(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(odd_configs); i++) {
        const char *old = g_family_config[odd_configs[i].model], *at = strstr(old, odd_configs[i].from);
        char text[4000];
        ppo_lm *lm = NULL;
        if (!at) fail_msg("row %d is not in the config: %s", i, old);
        sprintf(text, "%.*s%s%s", (int)(at - old), old, odd_configs[i].to, at + strlen(odd_configs[i].from));
        write_folder_with(odd_configs[i].model, text, PPO_F32, 1, NULL, NULL);
        assert_fails(ppo_lm_load("in", &lm), PPO_ERROR_FILE, odd_configs[i].words);
        assert_null(lm);
    }
}

/* As transformers 5.23 reads it: another value of a member, or one more, and a setting. */
static const struct {
    int model;
    const char *from, *to, *setting, *is;
} read_configs[] = {
    {6, "\"rope_type\"", "\"partial_rotary_factor\": 0.5, \"rope_type\"", "rotary_size", "4"},
    {6, "\"model_type\"", "\"partial_rotary_factor\": 0.5, \"model_type\"", "rotary_size", "4"},
    {6, "\"model_type\"", "\"rotary_pct\": 0.5, \"model_type\"", "rotary_size", "4"},
    {6, "\"model_type\"", "\"sliding_window\": 8, \"model_type\"", "window", "0"},
    {6, "\"rope_type\": \"default\"", "\"type\": \"linear\", \"factor\": 4.0", "rope_factor", "4"},
    {6, "\"rope_type\": \"default\"", "\"rope_type\": \"dynamic\", \"factor\": 4.0", "rope_scaling", "plain"},
    {6, "\"rope_type\": \"default\"", "\"rope_type\": \"dynamic\", \"factor\": 4.0", "rope_factor", "1"},
    {6, "\"rope_type\": \"default\"", "\"rope_type\": \"yarn\", \"factor\": 4.0, \"truncate\": true",
     "rope_scaling", "yarn"},
    {6, "\"rope_type\": \"default\"", "\"rope_type\": \"default\", \"type\": \"mrope\"", "rope_scaling",
     "plain"},
    {6, "\"model_type\"", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}, \"model_type\"",
     "rope_factor", "2"},
    {6, "\"model_type\"", "\"rope_scaling\": {\"rope_theta\": 77}, \"model_type\"", "rope_theta", "77"},
    {6, "\"model_type\"", "\"rope_scaling\": {}, \"rope_theta\": 77, \"model_type\"", "rope_theta", "10000"},
    {6, "\"rope_parameters\"", "\"rope_theta\": 77, \"rope_parameters_2\"", "rope_theta", "77"},
    {7, "\"original_max_position_embeddings\": 16, ", "", "rope_context", "40"},
    {4, "\"partial_rotary_factor\": 0.25, ", "\"partial_rotary_factor\": 0.5, ", "rotary_size", "4"},
    {4, "\"partial_rotary_factor\": 0.25, ", "", "rotary_size", "2"},
    {4, "\"rope_parameters\"", "\"partial_rotary_factor\": 0.5, \"rope_parameters_2\"", "rotary_size", "2"},
    {4, "\"rope_parameters\"", "\"rotary_pct\": 0.5, \"rope_parameters_2\"", "rotary_size", "4"},
    {8, "\"model_type\"", "\"attention_bias\": true, \"mlp_bias\": true, \"model_type\"", "ffn_bias", "no"},
    {11, "\"layer_types\"", "\"layer_types_2\"", "window_layers", "6"},
    {11,
     "\"layer_types\": [\"full_attention\", \"sliding_attention\", \"sliding_attention\"], "
     "\"max_position_embeddings\": 40, \"max_window_layers\": 1, ",
     "\"max_position_embeddings\": 40, ", "window", "0"},
    {2, "\"attention_layers\": [\"global\", \"local\"], \"attention_types\": [",
     "\"attention_types\": [[[\"local\"], 0], ", "window_layers", "2"},
    {14, "\"layer_types\"", "\"layer_types_2\"", "window_layers", "17861133150734645215"},
    {14, "\"layer_types\"", "\"sliding_window_pattern\": 2, \"layer_types_2\"", "window_layers",
     "6148914691236517205"},
    {14, "\"rope_parameters\"", "\"rope_theta\": 77, \"rope_local_base_freq\": 33, \"rope_parameters_2\"",
     "window_theta", "33"},
    {14, "\"rope_parameters\"", "\"rope_theta\": 77, \"rope_local_base_freq\": 33, \"rope_parameters_2\"",
     "rope_theta", "77"},
    {14, "\"rope_parameters\"", "\"rope_parameters_2\"", "rope_theta", "1e+06"},
    {16, "\"no_rope_layers\"", "\"no_rope_layers_2\"", "nope_layers", "2"},
    {16, "\"no_rope_layer_interval\": 2, \"no_rope_layers\"", "\"no_rope_layers_2\"", "nope_layers", "0"},
    {17, "\"partial_rotary_factor\": 0.5, ", "", "rotary_size", "4"},
    {17, "\"rope_parameters\"", "\"partial_rotary_factor\": 0.5, \"rope_parameters_2\"", "rotary_size", "2"},
};

static void a_config_means_what_it_means_in_transformers(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(read_configs); i++) {
        const char *old = g_family_config[read_configs[i].model], *at = strstr(old, read_configs[i].from);
        char text[4000], is[32];
        if (!at) fail_msg("row %d is not in the config: %s", i, old);
        sprintf(text, "%.*s%s%s", (int)(at - old), old, read_configs[i].to,
                at + strlen(read_configs[i].from));
        write_folder_with(read_configs[i].model, text, PPO_F32, 1, NULL, NULL);
        ppo_lm *lm = load("in");
        assert_ok(ppo_settings_get(ppo_lm_settings(), &lm->full, read_configs[i].setting, is, sizeof is));
        if (strcmp(is, read_configs[i].is)) fail_msg("row %d: %s is %s", i, read_configs[i].setting, is);
        ppo_lm_free(lm);
    }
}

/* The first of several; none if it is not of this vocabulary. A saved folder says it. */
static void the_token_that_ends_a_text_is_kept(void **state) {
    (void)state;
    static const struct {
        const char *there, *saved;
        int eos;
    } cases[] = {{"16", "16", 16},   {"0", "0", 0},        {"[3, 5]", "3", 3}, {"17", "null", -1},
                 {"[]", "null", -1}, {"null", "null", -1}, {"-1", "null", -1}};
    for (int i = 0; i < COUNT(cases); i++) {
        const char *old = g_family_config[0], *at = strstr(old, "\"eos_token_id\": 50256");
        char text[4000], config[4000] = "", wanted[64];
        assert_non_null(at);
        sprintf(text, "%.*s\"eos_token_id\": %s%s", (int)(at - old), old, cases[i].there, strchr(at, ','));
        write_folder_with(0, text, PPO_F32, 1, NULL, NULL);
        ppo_lm *lm = load("in");
        assert_int_equal(lm->config.eos, cases[i].eos);
        assert_ok(ppo_lm_save(lm, "out", PPO_F32));
        FILE *in = fopen("out/config.json", "r");
        assert_non_null(in);
        config[fread(config, 1, sizeof config - 1, in)] = 0;
        fclose(in);
        sprintf(wanted, "\"eos_token_id\": %s\n", cases[i].saved);
        assert_non_null(strstr(config, wanted));
        ppo_lm_free(lm);
    }
}

static void every_array_must_be_there_and_have_a_place(void **state) {
    (void)state;
    ppo_lm *lm = NULL;
    for (int i = 0; i < COUNT(g_family_array); i++) {
        const int model = g_family_array[i].model;
        if (model != 3 && model != 4 && model != 13) continue;
        write_folder_with(model, g_family_config[model], PPO_F32, 1, NULL, g_family_array[i].name);
        assert_fails(ppo_lm_load("in", &lm), PPO_ERROR_FILE, g_family_array[i].name);
        assert_null(lm);
    }
    write_folder_with(6, g_family_config[6], PPO_F32, 1, "model.layers.0.self_attn.q_proj.bias", NULL);
    assert_fails(ppo_lm_load("in", &lm), PPO_ERROR_FILE, "q_proj.bias\" has no place");
    write_folder_with(4, g_family_config[4], PPO_F32, 1, "gpt_neox.layers.0.attention.rotary_emb.inv_freq",
                      NULL);
    ppo_lm_free(load("in")); /* which is no parameter */
    write_folder_with(6, g_family_config[6], PPO_F32, 1, "score.weight", NULL);
    assert_fails(ppo_lm_load("in", &lm), PPO_ERROR_FILE, "score.weight\" is F32 (1, 2), not F32 (1, 12)");
    write_folder_with(6, g_family_config[6], PPO_F32, 2, NULL, NULL);
    write_text("in/model.safetensors.index.json", "{\"weight_map\": {\"a\": \"../one\"}}");
    assert_fails(ppo_lm_load("in", &lm), PPO_ERROR_FILE, "index.json|no name of a file: \"../one\"");
    write_text("in/model.safetensors.index.json", "{\"weight_map\": {}}");
    assert_fails(ppo_lm_load("in", &lm), PPO_ERROR_FILE, "index.json|names no file");
    write_text("in/model.safetensors.index.json", "{\"weight_map\": {\"a\": \"one-of-two.safetensors\"}}");
    assert_fails(ppo_lm_load("in", &lm), PPO_ERROR_FILE, "there is no \"");
    remove("in/model.safetensors.index.json");
    assert_fails(ppo_lm_load("in", &lm), PPO_ERROR_FILE, "in: there is no model.safetensors");
    assert_fails(ppo_lm_load("nowhere", &lm), PPO_ERROR_FILE, "nowhere|cannot be opened");
    assert_fails(ppo_lm_load(".", &lm), PPO_ERROR_FILE, ".|neither a file nor a folder with a config.json");
    assert_null(lm);
}

/* In Qwen's config.json a window begins at layer 28, unless it says otherwise; without one, no layer has it. */
static void a_deep_model_without_a_window_is_read(void **state) {
    (void)state;
    static const char *const families[] = {"qwen2", "qwen3"};
    for (int i = 0; i < 2; i++) {
        ppo_lm_config c = lm_config(FAMILY_VOCAB, 8, 8, 30, 2);
        ppo_lm *lm = NULL, *back = NULL;
        assert_ok(ppo_lm_config_family(&c, families[i]));
        assert_ok(ppo_lm_create(&c, &lm));
        assert_ok(ppo_lm_save(lm, "out", PPO_F32));
        assert_ok(ppo_lm_load("out", &back));
        assert_int_equal(back->full.window, 0);
        assert_true(back->full.window_layers == 0);
        ppo_lm_free(lm);
        ppo_lm_free(back);
    }
}

static void read_nothing(ppo__device *device, void *to, const void *from, size_t size) {
    (void)device, (void)to, (void)from, (void)size;
}

static ppo_status is_lost(ppo__device *device) {
    (void)device;
    return ppo_fail(PPO_ERROR_DEVICE, "the device is lost");
}

/* What is on a device that is lost is not written, as the host's numbers are older. */
static void the_numbers_of_a_lost_device_are_missed(void **state) {
    (void)state;
    ppo_lm_config c = lm_config(FAMILY_VOCAB, 8, 8, 1, 2);
    ppo_lm *lm = NULL, *copy = NULL;
    ppo__device device;
    memset(&device, 0, sizeof device);
    device.read = read_nothing, device.settle = is_lost;
    assert_ok(ppo_lm_config_family(&c, "llama"));
    c.score = 0;
    assert_ok(ppo_lm_create(&c, &lm));
    assert_ok(ppo_params_freeze(lm->params, 1));
    ppo__mirror mirror = {lm->params, &device, NULL, NULL, NULL, NULL, NULL, 1, 1};
    lm->params->mirror = &mirror;
    const ppo_status got[] = {ppo_lm_save(lm, "out", PPO_F32),
                              ppo_lm_save_file(lm, NULL, "out/lost"),
                              ppo_gguf_save(lm, NULL, NULL, PPO_GGUF_F32, "out/lost.gguf"),
                              ppo_lm_copy(lm, 0, &copy),
                              ppo_lm_resize(lm, FAMILY_VOCAB + 1, &copy),
                              ppo_params_to_bf16(lm->params)};
    lm->params->mirror = NULL;
    for (int k = 0; k < COUNT(got); k++)
        if (got[k] != PPO_ERROR_DEVICE) fail_msg("%d: status %d", k, got[k]);
    assert_null(copy);
    ppo_lm_free(lm);
}

static void settings_that_a_folder_cannot_express_are_refused(void **state) {
    (void)state;
    ppo_lm_config c = lm_config(FAMILY_VOCAB, 20, 12, 2, 3);
    ppo_lm *lm = NULL;
    c.score = 0, c.norm = PPO_RMS_NORM;
    assert_ok(ppo_lm_create(&c, &lm));
    assert_fails(ppo_lm_save(lm, "out", PPO_F32), PPO_ERROR_ARGUMENT, "norm is rms|family gpt2");
    assert_fails(ppo_lm_save(lm, "out", PPO_U8), PPO_ERROR_ARGUMENT, "dtype is 1|PPO_BF16");
    assert_fails(ppo_lm_save(NULL, "out", PPO_F32), PPO_ERROR_ARGUMENT, "ppo_lm_save|NULL");
    ppo_lm_free(lm);
    c = lm_config(FAMILY_VOCAB, 20, 12, 2, 3);
    assert_ok(ppo_lm_create(&c, &lm));
    lm->norm_weight->data[3] = 70000;
    assert_fails(ppo_lm_save(lm, "out", PPO_F16), PPO_ERROR_NUMERIC, "ln_f.weight|70000|F16");
    ppo_lm_free(lm);
    static const char *const odd[][2] = {{"llama", "window=4"},
                                         {"llama", "rotary_size=2"},
                                         {"qwen2", "qkv_bias=no"},
                                         {"gpt2", "kv_heads=1"},
                                         {"gpt_neo", "head_size=2"},
                                         {"gpt_neox", "kv_heads=1"},
                                         {"gpt_neox", "proj_bias=no"},
                                         {"llama", "qkv_bias=yes"},
                                         {"qwen3", "proj_bias=yes"},
                                         {"gemma3_text", "embedding_scale=2"},
                                         {"olmo2", "pre_norm=yes"},
                                         {"llama", "residual_scale=2"},
                                         {"llama", "attention_scale=2"},
                                         {"phi3", "window_layers=1 window=4"},
                                         {"gemma3_text", "attention_scale=0.3"},
                                         {"qwen3", "nope_layers=1"},
                                         {"opt", "norm_eps=0.1"}};
    for (int i = 0; i < COUNT(odd); i++) { /* transformers would read another model */
        char words[32];
        sprintf(words, "%.*s is|%s", (int)strcspn(odd[i][1], "="), odd[i][1], odd[i][0]);
        c = lm_config(FAMILY_VOCAB, 20, 12, 2, 3);
        assert_ok(ppo_lm_config_family(&c, odd[i][0]));
        assert_ok(ppo_settings_set_all(ppo_lm_settings(), &c, odd[i][1]));
        assert_ok(ppo_lm_create(&c, &lm));
        assert_fails(ppo_lm_save(lm, "out", PPO_F32), PPO_ERROR_ARGUMENT, words);
        ppo_lm_free(lm);
    }
    assert_fails(ppo_lm_config_family(&c, "gpt5"), PPO_ERROR_ARGUMENT, "family|gpt5|none of gpt2");
}

/* Every float of two bytes is itself again; what lies between two becomes the nearer, or the even one. */
static void floats_of_two_bytes_are_rounded_to_nearest(void **state) {
    (void)state;
    static const struct {
        float x;
        unsigned half, bf16;
    } cases[] = {{1, 0x3c00, 0x3f80},
                 {-2.5f, 0xc100, 0xc020},
                 {65504, 0x7bff, 0x4780},
                 {65519, 0x7bff, 0x4780},
                 {65520, 0x7c00, 0x4780}, /* infinity */
                 {-1e9f, 0xfc00, 0xce6e},
                 {5.9604645e-8f, 1, 0x3380},
                 {2.9e-8f, 0, 0x32f9},
                 {1.00048828125f, 0x3c00, 0x3f80},
                 {1.00146484375f, 0x3c02, 0x3f80},
                 {1.005859375f, 0x3c06, 0x3f81},
                 {1.01171875f, 0x3c0c, 0x3f82},
                 {6.1e-5f, 0x3ff, 0x387f},
                 {0, 0, 0}};
    for (int i = 0; i < COUNT(cases); i++) {
        uint16_t two[2];
        ppo__from_floats(PPO_F16, &cases[i].x, 1, &two[0]);
        ppo__from_floats(PPO_BF16, &cases[i].x, 1, &two[1]);
        assert_int_equal(two[0], cases[i].half);
        if (cases[i].x != 2.9e-8f && cases[i].x != 6.1e-5f) assert_int_equal(two[1], cases[i].bf16);
    }
    for (unsigned bits = 0; bits < 1 << 16; bits++) {
        const uint16_t two = (uint16_t)bits;
        for (int type = PPO_F16; type <= PPO_BF16; type++) {
            float x;
            uint16_t back;
            ppo__to_floats(type, &two, 1, &x);
            if (!(fabsf(x) <= FLT_MAX)) continue;
            ppo__from_floats(type, &x, 1, &back);
            if (back != two && x != 0) fail_msg("type %d: %#x comes back as %#x", type, bits, back);
        }
    }
}

/* A config.json with any damage is read or refused, and no memory is lost. */
static void a_damaged_config_is_read_or_refused(void **state) {
    (void)state;
    ppo_rng rng = test_rng(5);
    int loaded = 0;
    write_folder(11);
    for (int i = 0; i < SMALL(3000, 600); i++) {
        char text[4000];
        size_t n = (size_t)sprintf(text, "%s", g_family_config[11]);
        for (int k = 0; k < 1 + (int)ppo_rng_below(&rng, 3); k++) {
            size_t at = ppo_rng_below(&rng, (uint32_t)n);
            if (ppo_rng_below(&rng, 8) == 0) text[at] = 0, n = at ? at : 1;
            else text[at] = "0123456789\"{}[],:-.ex"[ppo_rng_below(&rng, 21)];
        }
        write_text("in/config.json", text);
        ppo_lm *lm = NULL;
        if (ppo_lm_load("in", &lm)) continue;
        loaded++;
        const ppo_tokens tokens = model_tokens();
        ppo_tape_reset(tape);
        ppo_lm_forward(tape, lm, &tokens);
        ppo_tape_reset(tape);
        ppo_lm_free(lm);
    }
    assert_in_range(loaded, 20, 2000);
}

static ppo_status load_and_save(void *user) {
    ppo_lm *lm = NULL;
    ppo_status status = ppo_lm_load((const char *)user, &lm);
    if (!status) status = ppo_lm_save(lm, "out", PPO_BF16);
    ppo_lm_free(lm);
    return status;
}

static void an_allocation_that_fails_is_reported_and_leaves_nothing(void **state) {
    (void)state;
    write_folder_with(13, g_family_config[13], PPO_BF16, 2, NULL, NULL);
    assert_in_range(fail_each_allocation(load_and_save, "in"), 10, 1000);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_compute_what_transformers_computes_in_every_kernel_set),
        cmocka_unit_test(weights_of_two_bytes_and_in_two_files_are_the_same),
        cmocka_unit_test(what_is_saved_is_loaded_with_the_same_bits_and_settings),
        cmocka_unit_test(a_model_with_a_score_is_a_classifier),
        cmocka_unit_test(what_is_not_supported_is_refused_by_its_key),
        cmocka_unit_test(a_config_means_what_it_means_in_transformers),
        cmocka_unit_test(the_token_that_ends_a_text_is_kept),
        cmocka_unit_test(every_array_must_be_there_and_have_a_place),
        cmocka_unit_test(a_deep_model_without_a_window_is_read),
        cmocka_unit_test(the_numbers_of_a_lost_device_are_missed),
        cmocka_unit_test(settings_that_a_folder_cannot_express_are_refused),
        cmocka_unit_test(floats_of_two_bytes_are_rounded_to_nearest),
        cmocka_unit_test(a_damaged_config_is_read_or_refused),
        cmocka_unit_test(an_allocation_that_fails_is_reported_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
