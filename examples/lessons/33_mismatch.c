/* 33_mismatch.c - the sampler is not quite the trainer's policy: truncated importance sampling.

   Large systems sample with other arithmetic than they train with: weights of 8 bits, another engine,
   weights that are some steps old. Then samples come from mu, while the trainer takes them for samples of
   pi (Yao 2025, "Your efficient RL framework secretly brings you off-policy training"). What is estimated
   from them is true of mu. Weights r = pi / mu of whole sequences make it true of pi (lesson 6), and add
   noise; truncated, min(r, cap), they trade a little of the one for much of the other.

   Here mu's weights are rounded to powers of two, and older than pi's. You will see the ratios; the expected
   reward of pi, estimated from samples of mu: ignoring the mismatch, weighted, truncated; and PPO on such
   samples, which on so small a task learns whether it is told of the mismatch or not. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "../companions/ppo_methods.h"
#include "lesson.h"
#include "letters.h"

enum { WAYS = 3, BATCHES = 100, BATCH = 64, BINS = 41, ITERATIONS = 24, OLD = 3 };
enum { IGNORED, WEIGHTED, TRUNCATED };

static const char *const names[WAYS] = {"ignored", "weighted", "truncated at 2"};

static void round_weights(const ppo_lm *from, ppo_lm *to) {
    for (size_t i = 0; i < from->params->count; i++) {
        int exponent;
        float mantissa = frexpf(from->params->data[i], &exponent);
        to->params->data[i] = ldexpf(roundf(mantissa * 2) / 2, exponent);
    }
}

/* PPO with a sampler that gets rounded weights now and then. cap 0: the trainer is not told. */
static ppo_lm *train(const ppo_lm *first, uint64_t seed, float cap) {
    ppo_rlhf_config config = settings(seed);
    ppo_rlhf_progress p;
    ppo_rlhf *rlhf = NULL;
    ppo_lm *pi = copy_of(first), *mu = copy_of(first);
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER, 1);
    ppo_tokens prompts = {0};
    add_words(BATCH, &rng, &prompts);
    config.importance_cap = cap;
    must(ppo_rlhf_create(pi, first, NULL, &prompts, NULL, NULL, &config, &rlhf));
    for (int i = 0; i < ITERATIONS; i++) {
        float R[BATCH];
        ppo_generator *generator;
        if (i % OLD == 0) round_weights(pi, mu);
        ppo_samples samples = sample(mu, BATCH, 1, seed * 1000 + (uint64_t)i, &generator);
        must(people(&samples, R, NULL));
        if (cap == 0) samples.logp = NULL; /* "the policy sampled them" */
        must(ppo_rlhf_update(rlhf, &samples, R, &p));
        ppo_generator_free(generator);
    }
    ppo_rlhf_free(rlhf);
    ppo_lm_free(mu);
    ppo_tokens_free(&prompts);
    return pi;
}

int main(int argc, char **argv) {
    static float x[BINS], share[BINS], estimate[WAYS][BATCHES], exact[BATCHES];
    uint64_t seed = lesson_seed(argc, argv);
    ppo_lm *first = first_model(seed), *mu = copy_of(first), *pi = copy_of(first);
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_tokens chosen = {0}, rejected = {0};
    ppo_tape *tape = NULL;
    ask_people(first, 1000, seed, &chosen, &rejected);
    must(ppo_fit_sft(pi, &chosen, &fit)); /* pi has learned since mu was rounded */
    round_weights(first, mu);
    must(ppo_tape_create(&tape));
    ppo_tape_record(tape, 0);
    for (int i = 0; i < BINS; i++) x[i] = 0.05f * (float)i;
    for (int b = 0; b < BATCHES; b++) {
        float R[BATCH];
        ppo_generator *generator;
        ppo_samples samples = sample(pi, BATCH, 1, seed * 1000 + 500 + (uint64_t)b, &generator);
        const ppo_tokens *t = &samples.tokens;
        must(people(&samples, R, NULL));
        exact[b] = (float)mean_of(R, BATCH);
        ppo_generator_free(generator);
        samples = sample(mu, BATCH, 1, seed * 1000 + (uint64_t)b, &generator);
        must(people(&samples, R, NULL));
        float m = (float)mean_of(R, BATCH); /* less noise: only what differs from it is weighted */
        ppo_tape_reset(tape);
        const ppo_tensor *logp = ppo_lm_response(tape, pi, t, 1, PPO_POLICY).logp;
        must(ppo_tape_status(tape));
        for (int s = 0; s < BATCH; s++) {
            float r = 1; /* of the sequence: the product over its tokens */
            for (int row = ppo_response_row(t, s), i = t->start[s] + t->prompt[s]; i < t->start[s + 1];
                 row++, i++) {
                float token = expf(logp->data[row] - samples.logp[i]);
                share[(int)fminf(token * 20 + 0.5f, BINS - 1)] += 100.0f / (float)(logp->rows * BATCHES);
                r *= token;
            }
            estimate[IGNORED][b] += R[s] / BATCH;
            estimate[WEIGHTED][b] += (m + r * (R[s] - m)) / BATCH;
            estimate[TRUNCATED][b] += (m + fminf(r, 2) * (R[s] - m)) / BATCH;
        }
        ppo_generator_free(generator);
    }
    double truth = mean_of(exact, BATCHES), bias[WAYS], noise[WAYS];
    printf("expected reward of pi: %.3f, from its own samples. From %d samples of mu:\n", truth, BATCH);
    for (int k = 0; k < WAYS; k++) {
        bias[k] = mean_of(estimate[k], BATCHES) - truth, noise[k] = deviation_of(estimate[k], BATCHES);
        printf("  %-15s bias %6.3f   noise %.3f\n", names[k], bias[k], noise[k]);
    }
    ppo_lm *quiet = train(first, seed, 0), *told = train(first, seed, 2);
    float start = worth(first, first, seed).reward, a = worth(quiet, first, seed).reward,
          b = worth(told, first, seed).reward;
    printf("true reward of PPO on samples of mu: %.2f; told, with a cap of 2: %.2f\n", (double)a, (double)b);
    chart c = {
        .title = "pi / mu of tokens of mu", .x_label = "ratio (last: 2 and above)", .y_label = "% of tokens"};
    chart_line(&c, NULL, x, share, BINS);
    chart_save(&c, "build/lessons/33_mismatch.svg");
    claim(fabs(bias[IGNORED]) > 5 * noise[IGNORED] / sqrt(BATCHES), "ignored, the mismatch is a bias of %.2f",
          bias[IGNORED]);
    claim(fabs(bias[WEIGHTED]) < 0.25 * fabs(bias[IGNORED]), "weights remove it: %.2f", bias[WEIGHTED]);
    claim(noise[TRUNCATED] < noise[WEIGHTED] && fabs(bias[TRUNCATED]) < fabs(bias[IGNORED]),
          "truncated ones add less noise, for some bias: %.2f", bias[TRUNCATED]);
    claim(fminf(a, b) > start + 0.4f, "PPO learns from them: from %.2f to %.2f", (double)start, (double)b);
    return lesson_failures > 0;
}
