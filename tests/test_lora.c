/* Section 18: models that share a base and train by LoRA, against Hugging Face's peft; and blocks that are computed
   again in backward. */
#define _XOPEN_SOURCE 700
#include <unistd.h>

#include "../ppo.h"
#include "../examples/companions/ppo_hub.h"
#include "../examples/companions/ppo_resume.h"

#include "golden/families.h"
#include "test.h"
#include "system.h"

static char home[] = "/tmp/test_lora.XXXXXX";
static ppo_tape *tape;

static int begin(void **state) {
    (void)state;
    return !mkdtemp(home) || chdir(home) || ppo_tape_create(&tape);
}

static void empty(const char *folder) {
    static const char *const files[] = {"config.json", "model.safetensors", "adapter_config.json",
                                        "adapter_model.safetensors"};
    for (int i = 0; i < COUNT(files); i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]), remove(path);
    }
}

static int end(void **state) {
    (void)state;
    ppo_tape_free(tape);
    empty("in"), empty("out");
    remove("run.safetensors");
    rmdir("in"), rmdir("out");
    return ppo_use_kernels(NULL) || chdir("/") || rmdir(home);
}

static void write_text(const char *path, const char *text) {
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

/* Writes arrays of a model as one file, but for the one named `without`. */
static void write_arrays(const char *path, int model, const signed char *weight, int count,
                         const char *without,
                         const char *(*row)(int i, int *of, int *rank, const int **shape)) {
    static float numbers[40000];
    float *at = numbers;
    ppo_file *file = NULL;
    assert_ok(ppo_file_create(&file));
    for (int i = 0; i < count; i++) {
        int of, rank;
        const int *shape;
        const char *name = row(i, &of, &rank, &shape);
        const int n = shape[0] * (rank > 1 ? shape[1] : 1);
        if (of == model && !(without && !strcmp(without, name))) {
            const int64_t shape64[2] = {shape[0], shape[1]};
            assert_true(at + n <= numbers + COUNT(numbers));
            for (int k = 0; k < n; k++) at[k] = (float)weight[k] / 64;
            assert_ok(ppo_file_add(file, name, PPO_F32, shape64, rank, at));
            at += n;
        }
        weight += n;
    }
    assert_ok(ppo_file_write(file, path));
    ppo_file_free(file);
}

static const char *base_row(int i, int *of, int *rank, const int **shape) {
    *of = g_family_array[i].model, *rank = g_family_array[i].rank, *shape = g_family_array[i].shape;
    return g_family_array[i].name;
}

static const char *lora_row(int i, int *of, int *rank, const int **shape) {
    *of = g_lora_array[i].model, *rank = g_lora_array[i].rank, *shape = g_lora_array[i].shape;
    return g_lora_array[i].name;
}

static ppo_lm *base_model(int model) {
    ppo_lm *lm = NULL;
    write_arrays("in/model.safetensors", model, g_family_weight, COUNT(g_family_array), NULL, base_row);
    write_text("in/config.json", g_family_config[model]);
    assert_ok(ppo_lm_load("in", &lm));
    return lm;
}

static void write_adapter(int model, const char *config, const char *without) {
    write_arrays("in/adapter_model.safetensors", model, g_lora_weight, COUNT(g_lora_array), without,
                 lora_row);
    write_text("in/adapter_config.json", config);
}

static ppo_lm *adapted_model(int model, ppo_lm *base) {
    ppo_lm *lm = NULL;
    write_adapter(model, g_lora_config[model], NULL);
    assert_ok(ppo_lm_load_adapter("in", base, &lm));
    return lm;
}

static ppo_tokens golden_tokens(void) {
    static int ones[] = {1, 1};
    ppo_tokens tokens = {0};
    tokens.count = COUNT(g_family_start) - 1;
    tokens.start = (int *)g_family_start;
    tokens.token = (int *)g_family_token;
    tokens.prompt = ones;
    return tokens;
}

/* The mean cross-entropy of the golden tokens, with its gradients in lm->params if `backward`. */
static float loss_of(const ppo_lm *lm, int backward) {
    const ppo_tokens tokens = golden_tokens();
    ppo_tape_reset(tape);
    ppo_response out = ppo_lm_response(tape, lm, &tokens, 1, PPO_POLICY);
    ppo_tensor *loss = ppo_tape_scale(tape, ppo_tape_mean(tape, out.logp), -1, 0);
    assert_ok(ppo_tape_status(tape));
    if (backward) {
        ppo_params_zero_grad(lm->params);
        assert_ok(ppo_tape_backward(tape, loss));
    }
    return loss->data[0];
}

static ppo_tensor *parameter(const ppo_lm *lm, const char *name) {
    for (int i = 0; i < lm->params->tensor_count; i++)
        if (!strcmp(lm->params->names[i], name)) return lm->params->tensors[i];
    fail_msg("there is no parameter %s", name);
    return NULL;
}

/* As peft has it: transposed, and the columns of each head's queries, keys and values side by side in GPT-NeoX. */
static float there(const ppo_lm *lm, const char *name, const ppo_tensor *x, int i) {
    const int heads = lm->full.heads * lm->full.head_size, size = lm->full.head_size, r = i / x->rows;
    const int mixed = r / size % 3 * heads + r / (3 * size) * size + r % size;
    return x->grad[i % x->rows * x->cols + (strstr(name, "query_key_value.lora_B") ? mixed : r)];
}

static void check_lora_gradients(const ppo_lm *lm, int model) {
    int found = 0;
    for (int i = 0; i < COUNT(g_lora_array); i++) {
        if (g_lora_array[i].model != model) continue;
        char ours[96], layer[64];
        const char *name = g_lora_array[i].name, *block = strstr(name, ".0."), *last = strstr(name, ".lora_");
        for (int k = 1; k < 4 && !block; k++)
            snprintf(layer, sizeof layer, ".%d.", k), block = strstr(name, layer);
        while (last[-1] != '.') last--;
        snprintf(layer, sizeof layer, "%.*s", (int)(strstr(name, ".lora_") - last), last);
        snprintf(ours, sizeof ours, "transformer.h.%d.%s.%s.lora_%c", atoi(block + 1),
                 strstr(name, ".mlp.") || strstr(name, ".fc") ? "mlp" : "attn", layer,
                 strstr(name, ".lora_")[6]);
        const ppo_tensor *x = parameter(lm, ours);
        for (int way = 0; way < 2; way++) {
            double sum = 0;
            for (int j = 0; j < x->rows * x->cols; j++)
                sum += (double)there(lm, name, x, j) * (j * (7 + 4 * way) % 13 - 6);
            if (fabs(sum - g_lora_gradient[2 * i + way]) > 3e-5 + 1e-5 * fabs(sum))
                fail_msg("model %d: the gradient of %s: %g, not %g", model, name, sum,
                         g_lora_gradient[2 * i + way]);
        }
        found++;
    }
    assert_int_equal(found, lm->params->tensor_count);
}

static void lora_computes_what_peft_computes_in_every_kernel_set(void **state) {
    (void)state;
    for (int model = 0; model < FAMILY_MODELS; model++) {
        ppo_lm *base = base_model(model), *lm = adapted_model(model, base), *merged = NULL;
        assert_ok(ppo_params_freeze(lm->params, 0));
        FOR_KERNEL_SETS(set) {
            assert_close((double)loss_of(lm, 1), g_lora_loss[model], 1e-5);
            check_lora_gradients(lm, model);
            assert_close((double)loss_of(base, 0), g_family_loss[model], 1e-5);
        }
        assert_ok(ppo_lm_merge(lm, &merged));
        assert_null(merged->base);
        ppo_lm_free(lm);
        ppo_lm_free(base);
        assert_close((double)loss_of(merged, 0), g_lora_loss[model], 2e-5); /* it needs neither */
        ppo_lm_free(merged);
    }
}

static void a_saved_adapter_has_the_same_bits_when_it_is_loaded(void **state) {
    (void)state;
    for (int model = 0; model < FAMILY_MODELS; model += 4) {
        ppo_lm *base = base_model(model), *lm = adapted_model(model, base), *scored = NULL, *back = NULL;
        assert_ok(ppo_lm_copy(lm, 1, &scored));
        for (int k = 0; k < scored->config.width; k++) scored->score_weight->data[k] = (float)k - 2;
        for (int with_score = 0; with_score < 2; with_score++) {
            const ppo_lm *from = with_score ? scored : lm;
            char *json = NULL; /* peft trains and saves what is named there, beside LoRA */
            assert_ok(ppo_lm_save(from, "out", PPO_F32));
            assert_ok(ppo_text_load("out/adapter_config.json", &json, NULL));
            assert_true((strstr(json, "\"modules_to_save\": null") != NULL) == !with_score);
            assert_true((strstr(json, "\"modules_to_save\": [\"score\"]") != NULL) == with_score);
            assert_true(strstr(json, with_score ? "\"SEQ_CLS\"" : "\"CAUSAL_LM\"") != NULL);
            ppo_text_free(json);
            assert_ok(ppo_params_freeze(base->params, 0));
            assert_ok(ppo_lm_load_adapter("out", base, &back));
            assert_true(base->params->frozen && back->params->frozen);
            assert_int_equal(back->params->count, from->params->count);
            assert_false(bits_differ(back->params->data, from->params->data, from->params->count));
            assert_close((double)back->adapter->lora.alpha / back->adapter->lora.rank, 1.5, 1e-7);
            ppo_lm_free(back);
        }
        scored->score_bias->data[0] = 1;
        assert_fails(ppo_lm_save(scored, "out", PPO_F32), PPO_ERROR_ARGUMENT, "bias of 1|peft");
        ppo_lm_free(scored);
        ppo_lm_free(lm);
        ppo_lm_free(base);
    }
}

/* What is sampled has the log-probabilities of training, to the last bit. */
static void sampling_has_the_bits_of_training(void **state) {
    (void)state;
    static const int models[] = {0, 4, 7, 12};
    for (int m = 0; m < COUNT(models); m++) {
        ppo_lm *base = base_model(models[m]), *lm = adapted_model(models[m], base);
        ppo_generator *generator = NULL;
        ppo_tokens prompts = {0};
        ppo_samples samples;
        ppo_sampling how = ppo_sampling_default();
        for (int s = 0; s < 5; s++) assert_ok(ppo_tokens_add(&prompts, g_family_token + s, 1 + s, 1 + s));
        FOR_KERNEL_SETS(set) {
            assert_ok(ppo_generator_create(lm, 3, &generator));
            assert_ok(ppo_generate(generator, &prompts, &how, &samples));
            ppo_tape_reset(tape);
            ppo_response out = ppo_lm_response(tape, lm, &samples.tokens, 1, PPO_POLICY);
            assert_ok(ppo_tape_status(tape));
            for (int s = 0, row = 0; s < 5; s++)
                for (int i = samples.tokens.start[s] + samples.tokens.prompt[s];
                     i < samples.tokens.start[s + 1]; i++)
                    assert_false(bits_differ(&samples.logp[i], &out.logp->data[row++], 1));
            ppo_generator_free(generator);
        }
        ppo_tokens_free(&prompts);
        ppo_lm_free(lm);
        ppo_lm_free(base);
    }
}

/* A base of two layers and a width of 24, of a family; its models have LoRA of rank 3. */
static ppo_lm *new_base(const char *family) {
    ppo_lm_config c = ppo_lm_config_default();
    ppo_lm *lm = NULL;
    c.vocab = FAMILY_VOCAB, c.context = 30, c.width = 24, c.heads = 3;
    assert_ok(ppo_lm_config_family(&c, family));
    assert_ok(ppo_lm_create(&c, &lm));
    return lm;
}

static ppo_lm *new_adapted(ppo_lm *base, const char *layers, int score) {
    ppo_lora lora = ppo_lora_default();
    ppo_lm *lm = NULL;
    lora.rank = 3, lora.layers = layers;
    assert_ok(ppo_lm_adapt(base, &lora, score, &lm));
    return lm;
}

static void at_first_it_computes_what_the_base_computes(void **state) {
    (void)state;
    static const char *const families[] = {"gpt2",  "gpt_neo", "gpt_neox", "llama",
                                           "qwen3", "olmo2",   "phi3",     "opt"};
    for (int k = 0; k < COUNT(families); k++) {
        ppo_lm *base = new_base(families[k]), *lm = new_adapted(base, NULL, 0);
        assert_true(loss_of(lm, 0) == loss_of(base, 0));
        loss_of(lm, 1);
        for (int i = 0; i < lm->params->tensor_count; i++) { /* B is 0: only B has a gradient */
            const ppo_tensor *x = lm->params->tensors[i];
            double size = 0;
            for (int j = 0; j < x->rows * x->cols; j++) size += fabs((double)x->grad[j]);
            assert_int_equal(size > 0, lm->params->names[i][strlen(lm->params->names[i]) - 1] == 'B');
        }
        ppo_lm_free(lm);
        ppo_lm_free(base);
    }
}

/* A classifier's score is where its adapted model's begins; a context that was lowered stays so in all models. */
static void the_score_and_the_context_are_those_of_the_base(void **state) {
    (void)state;
    ppo_lm *first = new_base("gpt2"), *base = NULL, *lm = NULL, *copy = NULL, *merged = NULL;
    assert_ok(ppo_lm_copy(first, 1, &base));
    for (int k = 0; k < 24; k++) base->score_weight->data[k] = (float)k;
    base->score_bias->data[0] = -3;
    base->config.context = 20;
    lm = new_adapted(base, NULL, 1);
    assert_false(bits_differ(lm->score_weight->data, base->score_weight->data, 24));
    assert_true(lm->score_bias->data[0] == -3 && lm->score_weight != base->score_weight);
    lm->score_weight->data[5] = 50;
    assert_ok(ppo_lm_copy(lm, 0, &copy));
    assert_ok(ppo_lm_merge(lm, &merged));
    assert_true(copy->score_weight->data[5] == 50 && merged->score_weight->data[5] == 50);
    assert_true(merged->score_bias->data[0] == -3 && base->score_weight->data[5] == 5);
    assert_true(lm->config.context == 20 && copy->config.context == 20 && merged->config.context == 20);
    assert_int_equal(merged->position_embedding->rows, 30);
    ppo_lm_free(merged);
    ppo_lm_free(copy);
    ppo_lm_free(lm);
    lm = new_adapted(base, NULL, 0);
    assert_null(lm->score_weight);
    ppo_lm_free(lm);
    ppo_lm_free(base);
    ppo_lm_free(first);
}

static void a_fit_changes_the_adapter_and_not_the_base(void **state) {
    (void)state;
    ppo_lm *base = new_base("llama"), *lm = new_adapted(base, "q_proj v_proj", 0), *again, *copy = NULL;
    const ppo_tokens data = golden_tokens();
    ppo_fit_config fit = ppo_fit_config_default();
    const size_t n = base->params->count;
    float *before = (float *)malloc(n * sizeof *before), first = loss_of(lm, 0);
    assert_int_equal(lm->params->tensor_count, 2 * 2 * 2);
    memcpy(before, base->params->data, n * sizeof *before);
    fit.epochs = 40, fit.learning_rate = 1e-2f;
    assert_ok(ppo_fit_sft(lm, &data, &fit));
    assert_true(loss_of(lm, 0) < first - 0.1f);
    assert_false(bits_differ(before, base->params->data, n));
    assert_int_equal(base->params->frozen, 1);
    again = new_adapted(base, "q_proj v_proj",
                        0); /* the same run where blocks are computed again: the same bits */
    fit.gradient_checkpointing = 1;
    assert_ok(ppo_fit_sft(again, &data, &fit));
    assert_false(bits_differ(again->params->data, lm->params->data, lm->params->count));
    assert_ok(ppo_lm_copy(lm, 1, &copy));
    assert_ptr_equal(copy->base, base);
    assert_true(loss_of(copy, 0) == loss_of(lm, 0));
    ppo_lm_free(copy);
    ppo_lm_free(again);
    ppo_lm_free(lm);
    ppo_lm_free(base);
    free(before);
}

/* Gradients of all parameters. */
static void blocks_that_are_computed_again_have_the_same_gradients(void **state) {
    (void)state;
    for (int model = 1; model < FAMILY_MODELS; model += 4) {
        ppo_lm *lm = base_model(model);
        const size_t n = lm->params->count;
        float *want = (float *)malloc(n * sizeof *want);
        assert_ok(ppo_params_freeze(lm->params, 0));
        const float loss = loss_of(lm, 1);
        memcpy(want, lm->params->grad, n * sizeof *want);
        ppo_tape_checkpointing(tape, 1);
        assert_true(loss_of(lm, 1) == loss);
        assert_false(bits_differ(want, lm->params->grad, n));
        ppo_tape_checkpointing(tape, 0);
        ppo_lm_free(lm);
        free(want);
    }
}

static size_t largest, now_live;
static void *counting_hook(void *user, void *ptr, size_t size) {
    size_t *block = ptr ? (size_t *)ptr - 2 : NULL;
    (void)user;
    now_live -= block ? *block : 0;
    if (!size) return free(block), NULL;
    block = (size_t *)realloc(block, size + 2 * sizeof *block);
    now_live += *block = size;
    if (now_live > largest) largest = now_live;
    return block + 2;
}

static ppo_status reward_threes(const ppo_samples *samples, float *reward, void *user) {
    (void)user;
    for (int s = 0; s < samples->tokens.count; s++) {
        reward[s] = 0;
        for (int i = samples->tokens.start[s] + samples->tokens.prompt[s]; i < samples->tokens.start[s + 1];
             i++)
            reward[s] += samples->tokens.token[i] == 3;
    }
    return PPO_OK;
}

static void computing_blocks_again_takes_less_memory(void **state) {
    (void)state;
    size_t peak[2];
    double activations[2];
    ppo_set_allocator(counting_hook, NULL);
    for (int k = 0; k < 2; k++) {
        ppo_lm_config c = ppo_lm_config_default();
        ppo_lm *lm = NULL;
        ppo_tape *own = NULL;
        ppo_tokens tokens = golden_tokens();
        c.vocab = FAMILY_VOCAB, c.layers = 12, c.width = 32;
        assert_ok(ppo_lm_create(&c, &lm));
        assert_ok(ppo_tape_create(&own));
        ppo_tape_checkpointing(own, k);
        const size_t before = largest = now_live;
        for (int round = 0; round < 3; round++) {
            ppo_tape_reset(own);
            ppo_response out = ppo_lm_response(own, lm, &tokens, 1, PPO_POLICY);
            assert_ok(ppo_tape_backward(own, ppo_tape_mean(own, out.logp)));
        }
        peak[k] = largest - before;
        ppo_tape_free(own);
        ppo_rlhf_config how = ppo_rlhf_config_default(); /* and by a setting */
        ppo_rlhf *run = NULL;
        how.prompts = how.minibatch_size = 4, how.sampling.max_new_tokens = 20;
        how.gradient_checkpointing = k;
        assert_ok(ppo_rlhf_create(lm, NULL, NULL, &tokens, reward_threes, NULL, &how, &run));
        activations[k] = ppo_rlhf_memory(run).activations;
        ppo_rlhf_free(run);
        ppo_lm_free(lm);
    }
    ppo_set_allocator(NULL, NULL);
    if (peak[1] > peak[0] / 3) fail_msg("%zu bytes instead of %zu", peak[1], peak[0]);
    if (activations[1] > activations[0] / 3)
        fail_msg("%.0f bytes instead of %.0f", activations[1], activations[0]);
}

/* PPO with a policy, its reference and its critic on one base; saved and resumed, it has the same bits. */
static void ppo_trains_adapters_of_one_base(void **state) {
    (void)state;
    ppo_lm *base = new_base("qwen2"), *policy = new_adapted(base, NULL, 0), *other;
    ppo_rlhf_config c = ppo_rlhf_config_default();
    ppo_rlhf *rlhf = NULL;
    ppo_rlhf_progress p, first;
    ppo_tokens prompts = {0};
    for (int s = 0; s < 3; s++) assert_ok(ppo_tokens_add(&prompts, &s, 1, 1));
    for (int i = 0; i < base->head->rows * base->head->cols; i++)
        base->head->data[i] *= 20; /* one that can be sure */
    c.prompts = 16, c.samples = 1, c.minibatch_size = 8, c.sampling.max_new_tokens = 8,
    c.learning_rate = 1e-2f;
    c.kl_coef = 0.01f;
    assert_ok(ppo_rlhf_create(policy, NULL, NULL, &prompts, reward_threes, NULL, &c, &rlhf));
    for (int i = 0; i < SMALL(30, 12); i++) {
        assert_ok(ppo_rlhf_iterate(rlhf, &p));
        if (i == 0) first = p;
    }
    if (!(p.reward > first.reward + 0.5f)) fail_msg("the reward went from %g to %g", first.reward, p.reward);
    assert_ok(ppo_rlhf_save(rlhf, "run.safetensors"));
    other = new_adapted(base, NULL, 0);
    ppo_rlhf *resumed = NULL;
    c.gradient_checkpointing = 1;
    assert_ok(
        ppo_rlhf_resume("run.safetensors", other, NULL, NULL, &prompts, reward_threes, NULL, &c, &resumed));
    for (int i = 0; i < 2; i++) {
        assert_ok(ppo_rlhf_iterate(rlhf, NULL));
        assert_ok(ppo_rlhf_iterate(resumed, NULL));
    }
    assert_false(bits_differ(policy->params->data, other->params->data, policy->params->count));
    ppo_rlhf_free(resumed);
    ppo_lm_free(other);
    assert_ok(ppo_params_freeze(base->params, 0));
    base->norm_weight->data[0] += 1; /* another base: refused */
    other = new_adapted(base, NULL, 0);
    assert_fails(
        ppo_rlhf_resume("run.safetensors", other, NULL, NULL, &prompts, reward_threes, NULL, &c, &resumed),
        PPO_ERROR_FILE, "saved with another \"base\"");
    ppo_lm_free(other);
    ppo_rlhf_free(rlhf);
    ppo_tokens_free(&prompts);
    ppo_lm_free(policy);
    ppo_lm_free(base);
}

/* The same for a reference with LoRA on a base of its own, which the policy does not share. */
static void the_base_of_a_reference_is_remembered(void **state) {
    (void)state;
    ppo_lm *policy = new_base("qwen2"), *base = new_base("qwen2"), *reference = new_adapted(base, NULL, 0);
    ppo_rlhf_config c = ppo_rlhf_config_default();
    ppo_rlhf *rlhf = NULL;
    ppo_tokens prompts = {0};
    assert_ok(ppo_tokens_add(&prompts, (const int[]){0}, 1, 1));
    c.prompts = c.minibatch_size = 2, c.sampling.max_new_tokens = 2, c.slots = 2;
    assert_ok(ppo_rlhf_create(policy, reference, NULL, &prompts, reward_threes, NULL, &c, &rlhf));
    assert_ok(ppo_rlhf_save(rlhf, "run.safetensors"));
    ppo_rlhf_free(rlhf);
    assert_ok(ppo_rlhf_resume("run.safetensors", policy, reference, NULL, &prompts, reward_threes, NULL, &c,
                              &rlhf));
    ppo_rlhf_free(rlhf);
    assert_ok(ppo_params_freeze(base->params, 0));
    base->norm_weight->data[0] += 1;
    assert_fails(
        ppo_rlhf_resume("run.safetensors", policy, reference, NULL, &prompts, reward_threes, NULL, &c, &rlhf),
        PPO_ERROR_FILE, "saved with another \"reference\"");
    ppo_tokens_free(&prompts);
    ppo_lm_free(reference);
    ppo_lm_free(base);
    ppo_lm_free(policy);
}

/* What it says is what the hook gave, but for lists and names: for a whole model, and for LoRA. */
static void a_run_knows_the_memory_that_it_takes(void **state) {
    (void)state;
    double weights[4], numbers = 0;
    ppo_set_allocator(counting_hook, NULL);
    for (int k = 0; k < 4; k++) { /* all weights, LoRA, in parts, packed */
        const size_t before = now_live;
        ppo_rlhf_config c = ppo_rlhf_config_default();
        ppo_lm *base = new_base("llama"), *policy = k ? new_adapted(base, NULL, 0) : base;
        ppo_rlhf *rlhf = NULL;
        ppo_tokens prompts = {0};
        if (k == 3) assert_ok(ppo_params_to_bf16(base->params));
        for (int s = 0; s < 4; s++) assert_ok(ppo_tokens_add(&prompts, &s, 1, 1));
        c.prompts = 32, c.epochs = SMALL(4, 1), c.minibatch_size = 16, c.micro_batch = k == 2 ? 4 : 0,
        c.gradient_checkpointing = k == 2;
        c.sampling.max_new_tokens = 24;
        assert_ok(ppo_rlhf_create(policy, NULL, NULL, &prompts, reward_threes, NULL, &c, &rlhf));
        const ppo_memory m = ppo_rlhf_memory(rlhf);
        const double all = m.weights + m.training + m.activations + m.sampling + m.samples;
        weights[k] = m.weights, numbers = (double)base->params->capacity;
        assert_in_range((double)(now_live - before) - all, 0, 96 * 1024);
        assert_ok(ppo_rlhf_iterate(rlhf, NULL));
        assert_in_range((double)(now_live - before) - all, 0, 96 * 1024);
        largest = 0;
        const size_t first = now_live;
        for (int i = 0; i < 2; i++) assert_ok(ppo_rlhf_iterate(rlhf, NULL));
        assert_true(now_live == first && largest == 0); /* after the first iteration nothing is taken */
        ppo_rlhf_free(rlhf);
        ppo_tokens_free(&prompts);
        if (k) ppo_lm_free(policy);
        ppo_lm_free(base);
    }
    assert_true(weights[3] == weights[1] - 2 * numbers);
    ppo_set_allocator(NULL, NULL);
}

/* What a packed model computes has the bits of its rounded weights, as floats of four bytes: alone, as a base in
   training and in sampling, and in copies. */
static void packed_weights_compute_as_rounded_ones(void **state) {
    (void)state;
    static const char *const families[] = {"gpt2", "gpt_neox", "llama", "qwen3"};
    for (int k = 0; k < COUNT(families); k++) {
        ppo_lm *packed = new_base(families[k]), *rounded = NULL, *lm[2], *copy = NULL,
               *merged[2] = {NULL, NULL};
        ppo_generator *generator[2] = {NULL, NULL};
        ppo_samples samples[2];
        ppo_tokens prompts = {0};
        ppo_fit_config fit = ppo_fit_config_default();
        const ppo_tokens data = golden_tokens();
        empty("out");
        assert_ok(ppo_lm_save(packed, "out", PPO_BF16));
        assert_ok(ppo_lm_load("out", &rounded));
        assert_ok(ppo_params_to_bf16(packed->params));
        assert_ok(ppo_params_to_bf16(packed->params));
        assert_true(packed->params->data == NULL && packed->head->data == NULL);
        assert_true(loss_of(packed, 0) == loss_of(rounded, 0));
        assert_ok(ppo_lm_copy(packed, 0, &copy));
        assert_false(bits_differ(copy->params->data, rounded->params->data, rounded->params->count));
        lm[0] = new_adapted(packed, NULL, 1), lm[1] = new_adapted(rounded, NULL, 1);
        fit.epochs = 3;
        for (int i = 0; i < 2; i++) {
            assert_ok(ppo_fit_sft(lm[i], &data, &fit));
            assert_ok(ppo_lm_merge(lm[i], &merged[i]));
            assert_ok(ppo_generator_create(lm[i], 2, &generator[i]));
            if (i == 0)
                for (int s = 0; s < 3; s++) assert_ok(ppo_tokens_add(&prompts, &s, 1, 1));
            const ppo_sampling how = ppo_sampling_default();
            assert_ok(ppo_generate(generator[i], &prompts, &how, &samples[i]));
        }
        assert_false(bits_differ(lm[0]->params->data, lm[1]->params->data, lm[0]->params->count));
        assert_false(bits_differ(merged[0]->params->data, merged[1]->params->data, merged[0]->params->count));
        assert_false(bits_differ(samples[0].logp, samples[1].logp, (size_t)samples[1].tokens.start[3]));
        assert_fails(ppo_params_freeze(packed->params, 0), PPO_ERROR_ARGUMENT, "packed|copy");
        assert_fails(ppo_fit_sft(packed, &data, &fit), PPO_ERROR_ARGUMENT, "packed|copy");
        assert_fails(ppo_lm_save(packed, "out", PPO_F32), PPO_ERROR_ARGUMENT, "packed|ppo_lm_copy");
        assert_fails(ppo_lm_save_file(packed, NULL, "run.safetensors"), PPO_ERROR_ARGUMENT, "packed");
        assert_null(ppo_params_add(packed->params, "more", 1, 1));
        for (int i = 0; i < 2; i++) {
            ppo_generator_free(generator[i]);
            ppo_lm_free(merged[i]);
            ppo_lm_free(lm[i]);
        }
        ppo_tokens_free(&prompts);
        ppo_lm_free(copy);
        ppo_lm_free(rounded);
        ppo_lm_free(packed);
    }
}

/* A config of an adapter with another value of one member. */
static const struct {
    const char *from, *to, *words;
} odd_adapters[] = {
    {"\"LORA\"", "\"LOHA\"", "adapter_config.json|peft_type is LOHA"},
    {"\"bias\": \"none\"", "\"bias\": \"all\"", "bias is all"},
    {"\"use_dora\": false", "\"use_dora\": true", "use_dora is yes"},
    {"\"r\": 2", "\"r\": 0", "r is 0"},
    {"\"r\": 2", "\"r\": 2.5", "r is 2.5"},
    {"\"r\": 2", "\"r\": 13", "r is 13, above the base's width, which is 12"},
    {"\"r\": 2", "\"r\": 3", "lora_A.weight\" is F32 (2, 12), not F32 (3, 12)"},
    {"\"r\": 2", "\"p\": 2", "r is not there"},
    {"\"lora_alpha\": 3", "\"lora_alpha\": -1", "lora_alpha is -1"},
    {"\"lora_alpha\": 3", "\"lora_alpha\": null", "lora_alpha is not there"},
    {"\"rank_pattern\": {}", "\"rank_pattern\": {\n\"q_proj\": 4\n}", "rank_pattern is {...}, which"},
    {"\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa\"", "init_lora_weights is pissa"},
    {"\"r\": 2", "\"r\": 2, \"layers_to_transform\": [1]",
     "model.layers.0.self_attn.q_proj\" has no LoRA, unlike"},
    {"\"r\": 2", "\"r\": 2, \"trainable_token_indices\": [\n 1,\n 2\n]",
     "trainable_token_indices is [1,2], which"},
    {"\"r\": 2", "\"r\": 2, \"layers_to_transform\": 0",
     "model.layers.1.self_attn.q_proj\" has no LoRA, unlike"},
    {"\"r\": 2", "\"r\": 2, \"layers_to_transform\": [\"0\"]", "expected a whole number"},
    {"\"target_modules\": [", "\"target_modules\": [3, ", "adapter_config.json"},
    {"_modules\": [", "_modules\": [\"q_proj\"], \"_modules\": [", "k_proj\" has no LoRA, unlike"},
};

static void what_cannot_be_computed_is_refused(void **state) {
    (void)state;
    enum { LLAMA = 6 };
    ppo_lm *base = base_model(LLAMA), *lm = NULL, *lm_2 = NULL, *other = NULL;
    for (int i = 0; i < COUNT(odd_adapters); i++) {
        const char *old = g_lora_config[LLAMA], *at = strstr(old, odd_adapters[i].from);
        char text[4000];
        assert_non_null(at);
        sprintf(text, "%.*s%s%s", (int)(at - old), old, odd_adapters[i].to,
                at + strlen(odd_adapters[i].from));
        write_adapter(LLAMA, text, NULL);
        assert_fails(ppo_lm_load_adapter("in", base, &lm), PPO_ERROR_FILE, odd_adapters[i].words);
        assert_null(lm);
    }
    for (int i = 0; i < COUNT(g_lora_array); i++) { /* A without B, B without A */
        if (g_lora_array[i].model != LLAMA) continue;
        write_adapter(LLAMA, g_lora_config[LLAMA], g_lora_array[i].name);
        assert_int_equal(ppo_lm_load_adapter("in", base, &lm), PPO_ERROR_FILE);
        assert_null(lm);
    }
    write_adapter(0, g_lora_config[0], NULL); /* of another family */
    assert_fails(ppo_lm_load_adapter("in", base, &lm), PPO_ERROR_FILE, "in|no LoRA for layers of this base");
    assert_fails(ppo_lm_load_adapter("nowhere", base, &lm), PPO_ERROR_FILE,
                 "nowhere|there is no adapter_config.json");
    assert_fails(ppo_lm_load_adapter("in", NULL, &lm), PPO_ERROR_ARGUMENT, "ppo_lm_load_adapter|NULL");
    lm = adapted_model(LLAMA, base);
    ppo_lora lora = ppo_lora_default();
    assert_fails(ppo_lm_save(lm, "", PPO_F32), PPO_ERROR_ARGUMENT, "path is empty");
    assert_fails(ppo_lm_save(lm, "in", PPO_F32), PPO_ERROR_FILE, "in|whole model|another folder");
    assert_ok(ppo_lm_merge(lm, &other));
    empty("out");
    assert_ok(ppo_lm_save(lm, "out", PPO_F32));
    assert_fails(ppo_lm_save(other, "out", PPO_F32), PPO_ERROR_FILE, "out|it has LoRA|another folder");
    assert_fails(ppo_lm_load("out", &lm_2), PPO_ERROR_FILE, "out|adapter_config.json|ppo_lm_load_adapter");
    ppo_lm_free(other), other = NULL;
    assert_fails(ppo_lm_load_adapter("in", lm, &other), PPO_ERROR_ARGUMENT, "LoRA itself");
    assert_fails(ppo_lm_adapt(lm, &lora, 0, &other), PPO_ERROR_ARGUMENT, "LoRA itself");
    assert_fails(ppo_lm_merge(base, &other), PPO_ERROR_ARGUMENT, "no LoRA");
    assert_fails(ppo_lm_save_file(lm, NULL, "own.safetensors"), PPO_ERROR_ARGUMENT, "LoRA|ppo_lm_merge");
    lora.layers = "q_proj";
    empty("out");
    assert_ok(ppo_lm_adapt(base, &lora, 0, &other));
    assert_ok(ppo_lm_save(other, "out", PPO_F32));
    ppo_lm_free(other), other = NULL;
#define TARGETS(list) "{\"r\": 8, \"lora_alpha\": 16, \"target_modules\": " list "}"
    write_text("out/adapter_config.json", TARGETS("[\"q_proj\", \"self_attn.k_proj\"]"));
    assert_fails(ppo_lm_load_adapter("out", base, &other), PPO_ERROR_FILE,
                 "says that \"model.layers.0.self_attn.k_proj\" has LoRA, unlike");
    write_text("out/adapter_config.json", TARGETS("[\"proj\", \"self_attn.q_proj\"]"));
    assert_ok(ppo_lm_load_adapter("out", base, &other)); /* no module is called proj */
    ppo_lm_free(other), other = NULL;
    lora.layers = "q_proj c_attn";
    assert_fails(ppo_lm_adapt(base, &lora, 0, &other), PPO_ERROR_ARGUMENT,
                 "no layer \"c_attn\"|q_proj k_proj");
    ppo_lm *gpt2 = new_base("gpt2");
    assert_fails(ppo_lm_adapt(gpt2, &lora, 0, &other), PPO_ERROR_ARGUMENT,
                 "no layer \"q_proj\", only c_attn c_proj c_fc");
    assert_null(strstr(ppo_last_error(), "-")); /* each once, and no place of what a family has not */
    ppo_lm_free(gpt2);
    lora.layers = " ";
    assert_fails(ppo_lm_adapt(base, &lora, 0, &other), PPO_ERROR_ARGUMENT,
                 "no layer of the model would get LoRA");
    lora.layers = NULL, lora.rank = 13;
    assert_fails(ppo_lm_adapt(base, &lora, 0, &other), PPO_ERROR_ARGUMENT, "rank is 13, must be 1 to 12");
    lora.rank = 1, lora.alpha = 0;
    assert_fails(ppo_lm_adapt(base, &lora, 0, &other), PPO_ERROR_ARGUMENT, "alpha is 0");
    assert_null(other);
    ppo_lm_free(lm);
    ppo_lm_free(base);
}

static ppo_status adapt_all(void *user) {
    ppo_lm *base = NULL, *lm = NULL, *copy = NULL, *merged = NULL;
    ppo_lora lora = ppo_lora_default();
    ppo_status status = ppo_lm_load("in", &base);
    (void)user;
    if (!status) status = ppo_lm_load_adapter("in", base, &lm);
    if (!status) status = ppo_lm_copy(lm, 1, &copy);
    if (!status) status = ppo_lm_merge(lm, &merged);
    if (!status) status = ppo_lm_save(lm, "out", PPO_BF16);
    if (!status) status = ppo_params_to_bf16(merged->params);
    ppo_lm_free(lm), lm = NULL;
    if (!status) status = ppo_lm_adapt(base, &lora, 1, &lm);
    ppo_lm_free(lm);
    ppo_lm_free(copy);
    ppo_lm_free(merged);
    ppo_lm_free(base);
    return status;
}

static void an_allocation_that_fails_is_reported_and_leaves_nothing(void **state) {
    (void)state;
    ppo_lm *base = base_model(9);
    write_adapter(9, g_lora_config[9], NULL);
    ppo_lm_free(base);
    empty("out");
    assert_true(fail_each_allocation(adapt_all, NULL) > 20);
}

/* A step of gradients through blocks that are computed again; and PPO that is saved and resumed. */
static ppo_status learn_all(void *user) {
    ppo_lm *lm = (ppo_lm *)user, *reference = NULL;
    ppo_tokens prompts = {0};
    const ppo_tokens tokens = golden_tokens();
    const int token = 1;
    ppo_rlhf_config c = ppo_rlhf_config_default();
    ppo_rlhf *rlhf = NULL, *resumed = NULL;
    ppo_tape *own = NULL;
    ppo_status status = ppo_tape_create(&own);
    if (!status) {
        ppo_tape_checkpointing(own, 1);
        ppo_tensor *logp = ppo_lm_response(own, lm, &tokens, 1, PPO_POLICY).logp;
        if (logp) ppo_params_zero_grad(lm->params);
        status = logp ? ppo_tape_backward(own, ppo_tape_mean(own, logp)) : ppo_tape_status(own);
    }
    c.prompts = 2, c.samples = 1, c.minibatch_size = 2, c.epochs = 1, c.sampling.max_new_tokens = 2;
    c.learning_rate = 0, c.kl_coef = 0.01f; /* the weights stay those of the run before */
    if (!status) status = ppo_lm_copy(lm, 0, &reference);
    if (!status) status = ppo_tokens_add(&prompts, &token, 1, 1);
    if (!status) status = ppo_rlhf_create(lm, reference, NULL, &prompts, reward_threes, NULL, &c, &rlhf);
    if (!status) status = ppo_rlhf_iterate(rlhf, NULL);
    if (!status) status = ppo_rlhf_save(rlhf, "run.safetensors");
    if (!status)
        status = ppo_rlhf_resume("run.safetensors", lm, reference, NULL, &prompts, reward_threes, NULL, &c,
                                 &resumed);
    ppo_rlhf_free(resumed);
    ppo_rlhf_free(rlhf);
    ppo_tokens_free(&prompts);
    ppo_lm_free(reference);
    ppo_tape_free(own);
    return status;
}

static void learning_without_memory_is_reported_and_leaves_nothing(void **state) {
    (void)state;
    ppo_lm_config c = lm_config(FAMILY_VOCAB, 30, 8, 1, 2);
    ppo_lm *base = NULL;
    assert_ok(ppo_lm_config_family(&c, "qwen3"));
    c.hidden = 8;
    assert_ok(ppo_lm_create(&c, &base));
    ppo_lm *lm = new_adapted(base, NULL, 1);
    assert_true(fail_each_allocation(learn_all, lm) > 20);
    ppo_lm_free(lm);
    ppo_lm_free(base);
}

static void an_adapter_of_the_policy_is_no_reference(void **state) {
    (void)state;
    ppo_lm *base = new_base("qwen2"), *lm = new_adapted(base, NULL, 1);
    ppo_rlhf_config c = ppo_rlhf_config_default();
    ppo_tokens prompts = {0};
    ppo_rlhf *r = NULL;
    const int token = 1;
    assert_ok(ppo_tokens_add(&prompts, &token, 1, 1));
    assert_fails(ppo_rlhf_create(base, lm, NULL, &prompts, reward_threes, NULL, &c, &r), PPO_ERROR_ARGUMENT,
                 "the reference shares the weights of the policy");
    assert_fails(ppo_rlhf_create(base, NULL, lm, &prompts, reward_threes, NULL, &c, &r), PPO_ERROR_ARGUMENT,
                 "the critic shares the weights of the policy");
    assert_null(r);
    ppo_tokens_free(&prompts);
    ppo_lm_free(lm);
    ppo_lm_free(base);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lora_computes_what_peft_computes_in_every_kernel_set),
        cmocka_unit_test(a_saved_adapter_has_the_same_bits_when_it_is_loaded),
        cmocka_unit_test(sampling_has_the_bits_of_training),
        cmocka_unit_test(at_first_it_computes_what_the_base_computes),
        cmocka_unit_test(the_score_and_the_context_are_those_of_the_base),
        cmocka_unit_test(a_fit_changes_the_adapter_and_not_the_base),
        cmocka_unit_test(blocks_that_are_computed_again_have_the_same_gradients),
        cmocka_unit_test_teardown(computing_blocks_again_takes_less_memory, restore_allocator),
        cmocka_unit_test(ppo_trains_adapters_of_one_base),
        cmocka_unit_test(the_base_of_a_reference_is_remembered),
        cmocka_unit_test_teardown(a_run_knows_the_memory_that_it_takes, restore_allocator),
        cmocka_unit_test(packed_weights_compute_as_rounded_ones),
        cmocka_unit_test(what_cannot_be_computed_is_refused),
        cmocka_unit_test_teardown(an_allocation_that_fails_is_reported_and_leaves_nothing, restore_allocator),
        cmocka_unit_test_teardown(learning_without_memory_is_reported_and_leaves_nothing, restore_allocator),
        cmocka_unit_test(an_adapter_of_the_policy_is_no_reference),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
