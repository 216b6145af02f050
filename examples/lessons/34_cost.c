/* 34_cost.c - what PPO on tokens costs in memory, and what saves it.

   Four models (policy, reference, critic, reward model), of which two are trained: gradients and Adam's two
   moments take three more copies of each. Activations grow with the tokens of a micro-batch, keys and values
   with the slots that sample. What saves memory:
     micro-batches     fewer sequences at once, gradients add up: the same result
     recomputation     keeps the input of each block; the rest is computed again (gradient checkpointing)
     one body          critic and policy share a model
     no critic         GRPO
     LoRA              policy, critic and reference share a frozen base; small matrices are trained (Hu 2021)
     BF16 base         that base in half the bytes (mixed precision)

   You will see the megabytes of a run of each, as the library takes them, for a model of some 4 million
   parameters. The reward model is not among them: it only scores, and may be a program. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "../companions/ppo_hub.h"

#include "lesson.h"

enum { WAYS = 7, PARTS = 5 };

static ppo_status no_reward(const ppo_samples *samples, float *reward, void *user) {
    (void)user;
    for (int s = 0; s < samples->tokens.count; s++) reward[s] = 0;
    return PPO_OK;
}

int main(int argc, char **argv) {
    static const char *const names[WAYS] = {"PPO",  "+ micro-batch 4", "+ recomputation", "+ one body",
                                            "GRPO", "+ LoRA",          "+ BF16 base"};
    static float total[WAYS], weights[WAYS], training[WAYS];
    uint64_t seed = lesson_seed(argc, argv);
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    ppo_tokens prompts = {0};
    for (int i = 0; i < 64; i++) {
        int prompt[16];
        for (int k = 0; k < 16; k++) prompt[k] = ppo_rng_below(&rng, 2000);
        must(ppo_tokens_add(&prompts, prompt, 16, 16));
    }
    printf("MB                  weights  training  activations  sampling  samples   total\n");
    for (int k = 0; k < WAYS; k++) {
        ppo_lm_config shape = ppo_lm_config_default();
        ppo_rlhf_config config = ppo_rlhf_config_default();
        ppo_lora lora = ppo_lora_default();
        ppo_lm *base = NULL, *adapted = NULL;
        ppo_rlhf *rlhf = NULL;
        shape.vocab = 2000, shape.context = 64, shape.width = 192, shape.layers = 8, shape.heads = 6,
        shape.seed = seed;
        shape.score = k == 3; /* one body: the policy has a score */
        if (k >= 4) must(ppo_rlhf_config_preset(&config, "grpo"));
        config.prompts = 64 / config.samples;
        config.micro_batch = k >= 1 ? 4 : config.minibatch_size;
        config.gradient_checkpointing = k >= 2;
        must(ppo_lm_create(&shape, &base));
        if (k >= 5) must(ppo_lm_adapt(base, &lora, 0, &adapted));
        if (k >= 6) must(ppo_params_to_bf16(base->params));
        must(ppo_rlhf_create(adapted ? adapted : base, NULL, k == 3 ? base : NULL, &prompts, no_reward, NULL,
                             &config, &rlhf));
        ppo_memory m = ppo_rlhf_memory(rlhf);
        double part[PARTS] = {m.weights, m.training, m.activations, m.sampling, m.samples}, sum = 0;
        printf("%-18s", names[k]);
        for (int i = 0; i < PARTS; i++) {
            static const int width[PARTS] = {9, 9, 12, 9, 8};
            printf(" %*.1f", width[i], part[i] / 1e6);
            sum += part[i] / 1e6;
        }
        printf(" %7.1f\n", sum);
        weights[k] = (float)(m.weights / 1e6), training[k] = (float)(m.training / 1e6), total[k] = (float)sum;
        ppo_rlhf_free(rlhf);
        ppo_lm_free(adapted);
        ppo_lm_free(base);
    }
    chart c = {
        .title = "Memory of a run of PPO on tokens", .x_label = "MB", .rows = names, .row_count = WAYS};
    chart_rows(&c, "all", total, NULL, NULL, WAYS);
    chart_rows(&c, "weights", weights, NULL, NULL, WAYS);
    chart_rows(&c, "gradients, moments", training, NULL, NULL, WAYS);
    chart_save(&c, "build/lessons/34_cost.svg");
    claim(training[0] > 1.9f * weights[0], "training takes %.1f times the memory of the models",
          (double)(training[0] / weights[0]));
    claim(total[1] < total[0] && total[2] < total[1], "micro-batches and recomputation save activations");
    claim(total[4] < 0.75f * total[2], "without a critic a run takes %.0f %%",
          100 * (double)(total[4] / total[2]));
    claim(training[5] < 0.2f * training[4], "LoRA trains %.0f %% as much",
          100 * (double)(training[5] / training[4]));
    claim(weights[6] < 0.7f * weights[5], "and a BF16 base takes about half");
    ppo_tokens_free(&prompts);
    return lesson_failures > 0;
}
