/* language.c [KERNELS...] - a small transformer: tokens per second of training and of sampling, on one and two
   threads, and the peak memory of each; beside it Hugging Face's GPT2LMHeadModel in PyTorch with the same
   shape, by set of kernels.

   Width 128, 4 layers, 4 heads, context 128, vocabulary 512. Training: forward, backward and Adam on 16
   sequences of 128 tokens. Sampling: 1, 16 and 64 sequences, from 1 token to 128, with a key/value cache;
   there all side by side, here as many as the row says. The sides take turns; a ratio is the median of the
   pairs. */
#define _DEFAULT_SOURCE
#include "ppo.h"

#include "workloads.h"

/* What is measured: training with so many threads, or sampling so many sequences, so many of them side by
   side; and which of language.py's figures stands beside it, in the order in which it prints them. */
typedef struct kind {
    const char *name;
    int threads, sequences, slots, peer;
} kind;

static const kind kinds[] = {
    {"training, one thread", 1, 0, 0, 0},
    {"training, two threads", 2, 0, 0, 4},
    {"sampling 1 sequence", 1, 1, 1, 1},
    {"sampling 16 sequences", 1, 16, 16, 2},
    {"sampling 64 sequences, 16 side by side", 1, 64, 16, 3},
    {"sampling 64 sequences, 32 side by side", 1, 64, 32, 3},
    {"sampling 64 sequences, 64 side by side", 1, 64, 64, 3},
    {"sampling 16 sequences, two threads", 2, 16, 16, 5},
    {"sampling 64 sequences, 16 side by side, two threads", 2, 64, 16, 6},
    {"sampling 64 sequences, 64 side by side, two threads", 2, 64, 64, 6},
};
enum { KINDS = sizeof kinds / sizeof *kinds, PEERS = 7, TURNS = 3 };

static ppo_status sample(const ppo_lm *lm, const kind *k, double *speed) {
    ppo_generator *generator = NULL;
    ppo_tokens prompts = {0};
    ppo_samples samples;
    ppo_sampling how = ppo_sampling_default();
    ppo_status status = ppo_generator_create(lm, k->slots, &generator);
    const int rounds = 64 / k->sequences;
    for (int s = 0; s < k->sequences && !status; s++) status = ppo_tokens_add(&prompts, &s, 1, 1);
    if (!status) status = ppo_generate(generator, &prompts, &how, &samples); /* not counted, as there */
    double began = ppo_clock();
    for (int i = 0; i < rounds && !status; i++) status = ppo_generate(generator, &prompts, &how, &samples);
    *speed = rounds * k->sequences * (CONTEXT - 1) / (ppo_clock() - began);
    ppo_generator_free(generator);
    ppo_tokens_free(&prompts);
    return status;
}

/* Tokens per second. */
static int work(const void *user, double *speed) {
    const kind *k = (const kind *)user;
    ppo_lm *lm = NULL;
    ppo_tokens data = {0};
    if (transformer_create(&lm, &data) || ppo_set_threads(k->threads)) return fail();
    if (k->sequences) return sample(lm, k, speed) && fail();
    *speed = train_transformer(lm, &data);
    return !(*speed > 0);
}

static int measure(const kernel_set *set) {
    figures ours[KINDS] = {{{0}, 0, 0}}, theirs[PEERS] = {{{0}, 0, 0}};
    outcome mine, peer = {{0}, 0, 0, ""};
    int has_peer = 1;
    (void)set;
    for (int i = 0; i < TURNS; i++) {
        for (int k = 0; k < KINDS; k++) {
            if (!run(NULL, work, &kinds[k], 1, &mine)) return 1;
            keep(&ours[k], *mine.number, mine.mib);
        }
        has_peer = has_peer && run_python("language.py", "", 2 * PEERS, &peer);
        for (int k = 0; k < PEERS && has_peer; k++)
            keep(&theirs[k], peer.number[2 * k], peer.number[2 * k + 1]);
    }
    if (has_peer) printf("  %s\n", peer.name);
    else not_measured("language.py");
    for (int k = 0; k < KINDS; k++) {
        printf("  %s\n", kinds[k].name);
        tell("    ppo.h", &ours[k], 0, "tokens/s");
        tell("    transformers", &theirs[kinds[k].peer], 0, "tokens/s");
        tell_ratio("    ratio", &ours[k], &theirs[kinds[k].peer]);
    }
    tell_ratio("  training, two threads beside one, ppo.h", &ours[1], &ours[0]);
    tell_ratio("  sampling 16 sequences, the same", &ours[7], &ours[3]);
    return 0;
}

int main(int argc, char **argv) {
    printf("transformer of width 128, 4 layers, 4 heads, context 128, vocabulary 512\n\n");
    return by_sets(argc, argv, 0, measure);
}
