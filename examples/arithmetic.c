/* arithmetic.c - reinforcement learning from verifiable rewards: a tiny transformer learns to add.

       build/arithmetic [grpo|rloo] [SEED] [--kernels NAME] [NAME=VALUE, a setting of ppo_rlhf_settings()]

   First the model imitates additions that careless people wrote (supervised fine-tuning): three of ten digits of
   theirs are any digit, so that six of ten answers are wrong, of theirs as of the model's. Then it sees no more
   answers: it samples 8 for each problem, and a C function says which are right. GRPO (Shao 2024) and RLOO
   (Ahmadian 2024) compare each answer with the others to the same problem, so there is no critic; they differ in
   whether the difference is divided by the standard deviation among those answers.

   You will see the share of right answers rise from 39 % to 99 %, for problems that are in neither stage: a
   verifier leads beyond the teachers. Of a problem whose 8 answers are all wrong, or all right, nothing is
   learned: the advantages are 0. So such rewards work for what a model knows vaguely, and the imitation must be
   complete: had it stopped early, some digits would be wrong for certain, and would stay so. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include <stdlib.h>
#include <string.h>

enum { PLUS = 10, EQUALS, END, TOKENS }; /* 0 .. 9 are the digits */
enum { PROMPT = 6, LENGTH = 10 };        /* tokens of a problem, and with its answer */
enum { TEST = 1000, LESSON = 2000, LESSONS = 100, SHOWN = 6 };

static void must(ppo_status status) {
    if (status) fprintf(stderr, "arithmetic: %s\n", ppo_last_error()), exit(1);
}

/* 75 + 68 = 143 is written 57+86=341: least significant digit first, so that each digit of the sum follows
   from two digits and the carry of the digit just written. */
static void write_addition(int a, int b, int token[LENGTH]) {
    const int sum = a + b, t[LENGTH] = {a % 10, a / 10,   PLUS,          b % 10,    b / 10,
                                        EQUALS, sum % 10, sum / 10 % 10, sum / 100, END};
    memcpy(token, t, sizeof t);
}

/* The verifier, a ppo_reward_fn: 1 if the whole answer is right, else 0. */
static ppo_status verify(const ppo_samples *samples, float *reward, void *user) {
    (void)user;
    for (int s = 0; s < samples->tokens.count; s++) {
        const int *t = samples->tokens.token + samples->tokens.start[s];
        int right[LENGTH], n = samples->tokens.start[s + 1] - samples->tokens.start[s];
        write_addition(10 * t[1] + t[0], 10 * t[4] + t[3], right);
        reward[s] = n == LENGTH && !memcmp(t, right, sizeof right) ? 1.0f : 0.0f;
    }
    return PPO_OK;
}

/* All additions of two numbers below 100 that have a carry, in random order; TEST of them are held out. Of a
   and b, both orders are on the same side. */
static void make_additions(ppo_rng *rng, ppo_tokens *train, ppo_tokens *test) {
    static int pair[100 * 100];
    int count = 0, token[LENGTH];
    for (int a = 0; a < 100; a++)
        for (int b = a; b < 100; b++)
            if (a % 10 + b % 10 > 9 || a / 10 + b / 10 > 9) pair[count++] = 100 * a + b;
    ppo_rng_shuffle(rng, pair, count);
    for (int i = 0; i < 2 * count; i++) {
        int x = pair[i / 2] / 100, y = pair[i / 2] % 100;
        write_addition(i % 2 ? y : x, i % 2 ? x : y, token);
        must(ppo_tokens_add(i < TEST ? test : train, token, LENGTH, PROMPT));
    }
}

/* The share of right answers to the first TEST problems, sampled at temperature 1. */
static double examine(const ppo_lm *lm, const ppo_tokens *problems, int shown) {
    ppo_generator *generator = NULL;
    ppo_tokens asked = *problems;
    ppo_sampling how = ppo_sampling_default();
    ppo_samples samples;
    float reward[TEST];
    double right = 0;
    asked.count = TEST;
    how.eos = END;
    must(ppo_generator_create(lm, 16, &generator));
    must(ppo_generate(generator, &asked, &how, &samples));
    must(verify(&samples, reward, NULL));
    for (int s = 0; s < TEST; s++) right += (double)reward[s];
    for (int s = 0; s < 2 * shown; s += 2) { /* of each two numbers, one order */
        const int *t = samples.tokens.token + samples.tokens.start[s];
        printf("   %d%d + %d%d = ", t[1], t[0], t[4], t[3]);
        for (int i = samples.tokens.start[s + 1] - samples.tokens.start[s] - 1; i >= PROMPT; i--)
            if (t[i] != END) putchar("0123456789+="[t[i]]);
        puts(reward[s] > 0 ? "" : "  wrong");
    }
    ppo_generator_free(generator);
    return right / TEST;
}

/* Supervised fine-tuning on additions of careless people, LESSON at a time. */
static void fine_tune(ppo_lm *lm, const ppo_tokens *train, ppo_rng *rng) {
    ppo_fit_config cfg = ppo_fit_config_default();
    ppo_tokens lesson = {0};
    cfg.learning_rate = 2e-3f;
    cfg.batch_size = 64;
    for (int k = 0; k < LESSONS; k++) {
        ppo_tokens_clear(&lesson);
        for (int s = 0; s < LESSON; s++) {
            must(ppo_tokens_add_from(&lesson, train, (int)ppo_rng_below(rng, (uint32_t)train->count)));
            for (int i = PROMPT; i < LENGTH - 1; i++)
                if (ppo_rng_below(rng, 10) < 3)
                    lesson.token[lesson.start[s] + i] = (int)ppo_rng_below(rng, 10);
        }
        cfg.seed = ppo_rng_u32(rng);
        must(ppo_fit_sft(lm, &lesson, &cfg));
    }
    ppo_tokens_free(&lesson);
}

static void reinforce(ppo_lm *lm, const ppo_tokens *problems, const ppo_rlhf_config *cfg) {
    ppo_rlhf *rlhf = NULL;
    ppo_rlhf_progress now;
    must(ppo_rlhf_create(lm, NULL, NULL, problems, verify, NULL, cfg, &rlhf));
    for (int i = 1; i <= cfg->iterations; i++) {
        must(ppo_rlhf_iterate(rlhf, &now));
        if (i == 1 || i % 100 == 0)
            printf("iteration %3d: %5.1f %% right, entropy %.3f, KL %.2f\n", i, 100 * (double)now.reward,
                   (double)now.entropy, (double)now.kl);
    }
    ppo_rlhf_free(rlhf);
}

int main(int argc, char **argv) {
    ppo_tokens train = {0}, test = {0};
    ppo_lm_config shape = ppo_lm_config_default();
    ppo_rlhf_config cfg = ppo_rlhf_config_default();
    ppo_lm *lm = NULL;
    double began = ppo_clock();
    cfg.advantage = PPO_ADVANTAGE_GROUP;
    cfg.samples = 8;
    cfg.epochs = 2;
    cfg.kl_coef = 0;   /* the verifier cannot be deceived, so the model may go as far as it wants to */
    cfg.target_kl = 0; /* the learning rate falls instead */
    cfg.learning_rate_schedule = PPO_LINEAR;
    cfg.learning_rate = 6e-4f;
    cfg.minibatch_size = 128; /* 16 problems: in a smaller one, often no answers to a problem differ */
    cfg.iterations = 400;
    cfg.sampling.eos = END;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "grpo")) cfg.advantage = PPO_ADVANTAGE_GROUP;
        else if (!strcmp(argv[i], "rloo")) cfg.advantage = PPO_ADVANTAGE_LEAVE_ONE_OUT;
        else if (!strcmp(argv[i], "--kernels")) must(ppo_use_kernels(i + 1 < argc ? argv[++i] : ""));
        else if (strchr(argv[i], '=')) must(ppo_settings_set_all(ppo_rlhf_settings(), &cfg, argv[i]));
        else if (ppo_settings_set(ppo_rlhf_settings(), &cfg, "seed", argv[i]))
            must(ppo_fail(PPO_ERROR_ARGUMENT, "%.60s is not grpo, rloo, --kernels, a seed or name=value",
                          argv[i]));
    }
    ppo_rng rng = ppo_rng_stream(cfg.seed, PPO_STREAM_USER, 0);
    shape.vocab = TOKENS;
    shape.context = LENGTH;
    shape.layers = 1;
    shape.seed = cfg.seed;
    make_additions(&rng, &train, &test);
    must(ppo_lm_create(&shape, &lm));
    fine_tune(lm, &train, &rng);
    printf("before: %.1f %% of the held-out answers are right\n", 100 * examine(lm, &test, SHOWN));
    reinforce(lm, &train, &cfg);
    printf("after: %.1f %% of the held-out answers are right, %.0f s\n", 100 * examine(lm, &test, SHOWN),
           ppo_clock() - began);
    ppo_lm_free(lm);
    ppo_tokens_free(&train);
    ppo_tokens_free(&test);
}
