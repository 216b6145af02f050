/* memory.c - what fine-tuning by reinforcement learning takes: GRPO and PPO of models that people have, with LoRA and
   of all weights; 16 samples of 512 tokens, one of which is learned from at a time, its blocks computed again in
   backward. The models have random weights. "all" is the count of ppo_rlhf_memory(). Of rows that are asked for, an
   iteration is run, and "peak" is what the system says that its process had, from the model on; that of GPT-2 takes
   minutes.

       build/bench-memory                  all that fit into 20 GiB, counted
       build/bench-memory gpt2 LoRA 128    rows whose model and way contain these words, of 128 tokens, measured */
#define _DEFAULT_SOURCE
#include "ppo.h"
#include "../examples/companions/ppo_hub.h"

#include <string.h>
#include <sys/resource.h>

#include "measure.h"

static const struct model {
    const char *name, *settings;
} models[] = {
    {"gpt2 (124M)", "family=gpt2 vocab=50257 width=768 layers=12 heads=12"},
    {"SmolLM2-135M", "family=llama vocab=49152 width=576 layers=30 heads=9 kv_heads=3 hidden=1536 tied=yes"},
    {"SmolLM2-360M", "family=llama vocab=49152 width=960 layers=32 heads=15 kv_heads=5 hidden=2560 tied=yes"},
    {"Qwen2.5-0.5B",
     "family=qwen2 vocab=151936 width=896 layers=24 heads=14 kv_heads=2 hidden=4864 tied=yes"},
    {"TinyLlama-1.1B", "family=llama vocab=32000 width=2048 layers=22 heads=32 kv_heads=4 hidden=5632"},
};

static const struct way {
    const char *name, *preset;
    int lora, packed; /* packed: the base in BF16 */
    double weights;   /* about how many times the weights it takes */
} ways[] = {{"GRPO, LoRA", "grpo", 1, 0, 1.3},
            {"PPO, LoRA", NULL, 1, 0, 1.3},
            {"PPO, BF16", NULL, 1, 1, 1.3},
            {"GRPO", "grpo", 0, 0, 8},
            {"PPO", NULL, 0, 0, 12}};
enum { WAYS = sizeof ways / sizeof *ways, MODELS = sizeof models / sizeof *models };

enum { PROMPT = 64, SAMPLES = 16 };

/* A ppo_reward_fn: without a difference between samples nothing would be learned. */
static ppo_status reward_of(const ppo_samples *samples, float *reward, void *user) {
    (void)user;
    for (int s = 0; s < samples->tokens.count; s++)
        reward[s] = (float)(samples->tokens.token[samples->tokens.start[s + 1] - 1] % 7);
    return PPO_OK;
}

static int shape_of(const struct model *m, ppo_lm_config *c) {
    char family[16];
    *c = ppo_lm_config_default();
    sscanf(m->settings, "family=%15s", family);
    return ppo_lm_config_family(c, family) || ppo_settings_set_all(ppo_lm_settings(), c, m->settings);
}

static int measure(const struct model *m, const struct way *w, int length, int iterations) {
    static const double gib = 1024.0 * 1024 * 1024;
    ppo_lm_config shape;
    ppo_rlhf_config c = ppo_rlhf_config_default();
    ppo_lora lora = ppo_lora_default();
    ppo_lm *base = NULL, *lm = NULL;
    ppo_rlhf *rlhf = NULL;
    ppo_tokens prompts = {0};
    int token[PROMPT] = {0};
    struct rusage used;
    if (shape_of(m, &shape)) return fail();
    shape.context = length;
    ppo_status status = ppo_lm_create(&shape, &base);
    if (!status) status = ppo_params_freeze(base->params, 1); /* as a model that is loaded */
    if (!status && w->packed) status = ppo_params_to_bf16(base->params);
    forget_peak();
    if (!status && w->lora) status = ppo_lm_adapt(base, &lora, 0, &lm);
    if (!status) status = ppo_tokens_add(&prompts, token, PROMPT, PROMPT);
    if (!status && w->preset) status = ppo_rlhf_config_preset(&c, w->preset);
    c.prompts = SAMPLES / c.samples;
    c.minibatch_size = SAMPLES;
    c.micro_batch = 1;
    c.gradient_checkpointing = 1;
    if (!status)
        status = ppo_rlhf_create(w->lora ? lm : base, NULL, NULL, &prompts, reward_of, NULL, &c, &rlhf);
    if (!status && iterations) status = ppo_rlhf_iterate(rlhf, NULL);
    if (status) return fail();
    const ppo_memory r = ppo_rlhf_memory(rlhf);
    getrusage(RUSAGE_SELF, &used);
    printf("%-16s %-11s %8.2f %9.2f %12.2f %9.2f %8.2f", m->name, w->name, r.weights / gib, r.training / gib,
           r.activations / gib, r.sampling / gib,
           (r.weights + r.training + r.activations + r.sampling + r.samples) / gib);
    if (iterations) printf(" %7.2f", (double)used.ru_maxrss / 1024 / 1024);
    printf("\n");
    ppo_rlhf_free(rlhf);
    ppo_tokens_free(&prompts);
    ppo_lm_free(lm);
    ppo_lm_free(base);
    return 0;
}

/* Bytes of the weights, about: of the table of tokens and the blocks. */
static double weights_of(const ppo_lm_config *c) {
    const int kv = c->kv_heads ? c->kv_heads : c->heads, hidden = c->hidden ? c->hidden : 4 * c->width;
    const double width = c->width,
                 block = width * (2 * width + 2 * width * kv / c->heads + (2 + c->glu) * (double)hidden);
    return 4 * ((2 - c->tied) * width * c->vocab + c->layers * block);
}

/* What the arguments may be; exit status 1. */
static int usage(void) {
    fprintf(stderr,
            "usage: bench-memory [MODEL [WAY [TOKENS]]], words of their names and a number above %d\n",
            PROMPT);
    for (int k = 0; k < MODELS; k++) fprintf(stderr, "  MODEL: %s\n", models[k].name);
    for (int k = 0; k < WAYS; k++) fprintf(stderr, "  WAY: %s\n", ways[k].name);
    return 1;
}

int main(int argc, char **argv) {
    const double most = 20.0 * 1024 * 1024 * 1024;
    const int length = argc > 3 ? atoi(argv[3]) : 512;
    int rows = 0;
    if (argc == 5) { /* a row, in a process of its own */
        const int k = atoi(argv[4]);
        return measure(&models[k / WAYS], &ways[k % WAYS], length, !strcmp(argv[1], "measured"));
    }
    for (int k = 0; k < WAYS * MODELS && length > PROMPT; k++) {
        ppo_lm_config shape;
        char command[600];
        if (argc > 1 && !strstr(models[k / WAYS].name, argv[1])) continue;
        if (argc > 2 && !strstr(ways[k % WAYS].name, argv[2])) continue;
        if (!rows++)
            printf(
                "GiB              way          weights  training  activations  sampling      all    peak\n");
        if (shape_of(&models[k / WAYS], &shape)) return fail();
        const double least = ways[k % WAYS].weights * weights_of(&shape);
        if (least > most) {
            printf("%-16s %-11s more than 20: some %.0f\n", models[k / WAYS].name, ways[k % WAYS].name,
                   least / most * 20);
            continue;
        }
        fflush(stdout);
        snprintf(command, sizeof command, "'%s' %s - %d %d", argv[0], argc > 1 ? "measured" : "counted",
                 length, k);
        if (system(command)) return 1;
    }
    return rows ? 0 : usage();
}
