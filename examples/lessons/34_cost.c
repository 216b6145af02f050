/* 34_cost.c - what PPO on tokens costs in memory, and what saves it.

   Four models take part: policy, reference, critic, reward model. Texts say: four times the memory of one.
   That is true of the weights alone. Of a model that is trained there is more: its gradient, Adam's two
   moments, and for a small model a second gradient, in which parts of a batch are added up; and with
   target_kl a copy of the policy's weights and moments, to return to when an epoch goes too far.
   Activations grow with the tokens of a micro-batch, keys and values with the slots that sample. What saves
   memory:
     micro-batches     fewer sequences at once, gradients add up: the same result
     recomputation     keeps the input of each block; the rest is computed again (gradient checkpointing)
     one body          critic and policy share a model
     no critic         GRPO
     LoRA              policy, critic and reference share a frozen base; small matrices are trained (Hu 2021)
     BF16 base         that base in half the bytes (mixed precision)

   You will see the megabytes of a run of each, as the library takes them, for a model of some 4 million
   parameters, and how many times the size of one model that is. The reward model only scores: its weights are
   added to what the run reports. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "../companions/ppo_hub.h"

#include "lesson.h"

enum { WAYS = 8, PARTS = 6 };
enum { RETURNS, NO_RETURN, MICRO_BATCH, RECOMPUTATION, ONE_BODY, GRPO, LORA, BF16 };

static ppo_status no_reward(const ppo_samples *samples, float *reward, void *user) {
    (void)user;
    for (int s = 0; s < samples->tokens.count; s++) reward[s] = 0;
    return PPO_OK;
}

int main(int argc, char **argv) {
    static const char *const names[WAYS] = {"PPO, target_kl", "PPO",  "+ micro-batch 4", "+ recomputation",
                                            "+ one body",     "GRPO", "+ LoRA",          "+ BF16 base"};
    static float total[WAYS], weights[WAYS], training[WAYS];
    float one = 0; /* a model: the reference or the reward model */
    uint64_t seed = lesson_seed(argc, argv);
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 0);
    ppo_tokens prompts = {0};
    for (int i = 0; i < 64; i++) {
        int prompt[16];
        for (int k = 0; k < 16; k++) prompt[k] = ppo_rng_below(&rng, 2000);
        must(ppo_tokens_add(&prompts, prompt, 16, 16));
    }
    printf("MB                weights  reward model  training  activations  sampling  samples   total  in "
           "models\n");
    for (int k = 0; k < WAYS; k++) {
        ppo_lm_config shape = ppo_lm_config_default();
        ppo_rlhf_config config = ppo_rlhf_config_default();
        ppo_lora lora = ppo_lora_default();
        ppo_lm *base = NULL, *adapted = NULL;
        ppo_rlhf *rlhf = NULL;
        shape.vocab = 2000, shape.context = 64, shape.width = 192, shape.layers = 8, shape.heads = 6,
        shape.seed = seed;
        shape.score = k == ONE_BODY; /* one body: the policy has a score */
        if (k >= GRPO) must(ppo_rlhf_config_preset(&config, "grpo"));
        config.prompts = 64 / config.samples;
        config.target_kl = k == RETURNS ? 0.02f : 0;
        config.micro_batch = k >= MICRO_BATCH ? 4 : config.minibatch_size;
        config.gradient_checkpointing = k >= RECOMPUTATION;
        must(ppo_lm_create(&shape, &base));
        if (k >= LORA) must(ppo_lm_adapt(base, &lora, 0, &adapted));
        if (k >= BF16) must(ppo_params_to_bf16(base->params));
        must(ppo_rlhf_create(adapted ? adapted : base, NULL, k == ONE_BODY ? base : NULL, &prompts, no_reward,
                             NULL, &config, &rlhf));
        ppo_memory m = ppo_rlhf_memory(rlhf);
        if (k == RETURNS) one = (float)(m.weights / 3e6); /* policy, reference, critic */
        double part[PARTS] = {m.weights, 1e6 * (double)one, m.training, m.activations, m.sampling, m.samples},
               sum = 0;
        printf("%-16s", names[k]);
        for (int i = 0; i < PARTS; i++) {
            static const int width[PARTS] = {8, 13, 9, 12, 9, 8};
            printf(" %*.1f", width[i], part[i] / 1e6);
            sum += part[i] / 1e6;
        }
        printf(" %7.1f %10.1f\n", sum, sum / (double)one);
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
    claim(fabsf(training[NO_RETURN] / one - 8) < 0.2f && fabsf(training[RETURNS] / one - 11) < 0.2f,
          "training two models takes %.1f models more, and %.1f if it can return",
          (double)(training[NO_RETURN] / one), (double)(training[RETURNS] / one));
    claim(total[NO_RETURN] > 5 * 4 * one, "four models: %.0f MB of weights, a run of %.0f MB",
          4 * (double)one, (double)total[NO_RETURN]);
    claim(total[RECOMPUTATION] < 0.7f * total[NO_RETURN],
          "micro-batches and recomputation, which change no result, leave %.0f %% of it",
          100 * (double)(total[RECOMPUTATION] / total[NO_RETURN]));
    claim(fabsf(training[GRPO] / training[NO_RETURN] - 0.5f) < 0.02f,
          "without a critic half of the training's memory");
    claim(training[LORA] < 0.1f * training[GRPO], "LoRA trains with %.0f %% of that",
          100 * (double)(training[LORA] / training[GRPO]));
    claim(weights[BF16] < 0.7f * weights[LORA], "and a BF16 base makes %.0f MB of weights %.0f",
          (double)weights[LORA], (double)weights[BF16]);
    ppo_tokens_free(&prompts);
    return lesson_failures > 0;
}
