/* letters.h - the smallest language model that has something to say, for the lessons on tokens.

   A word is two to four syllables, each a consonant and a vowel: "lamore", "kitu". Half of the consonants are
   soft (l m n r), half are hard (k t p g). The first model writes such words, with all letters alike. A prompt
   is the first syllable; the model continues it. People want soft words: a soft consonant counts 1, and -0.5
   when it comes again; a hard one counts -1; and what is no word (two consonants or vowels side by side, no
   end) costs 1 each time. In a real project nobody knows such a formula; here it says whether a method gave
   people what they wanted. */
#ifndef LETTERS_H
#define LETTERS_H

#include "../companions/ppo_judge.h"

enum { START, END, FIRST_LETTER, VOWELS = 5, SOFT = 4, TOKENS = FIRST_LETTER + 13, CONTEXT = 16, PROMPT = 3 };

static const char letters[] = "aeioulmnrktpg"; /* token FIRST_LETTER + i is letters[i] */

static inline int is_vowel(int token) { return token >= FIRST_LETTER && token < FIRST_LETTER + VOWELS; }
static inline int is_soft(int token) {
    return token >= FIRST_LETTER + VOWELS && token < FIRST_LETTER + VOWELS + SOFT;
}

/* n random words with their prompts. */
static inline void add_words(int n, ppo_rng *rng, ppo_tokens *words) {
    for (int i = 0; i < n; i++) {
        int word[CONTEXT] = {START}, count = 1, syllables = 2 + ppo_rng_below(rng, 3);
        for (int k = 0; k < syllables; k++) {
            word[count++] = FIRST_LETTER + VOWELS + ppo_rng_below(rng, 8);
            word[count++] = FIRST_LETTER + ppo_rng_below(rng, VOWELS);
        }
        word[count++] = END;
        must(ppo_tokens_add(words, word, count, PROMPT));
    }
}

/* The letters of tokens [n], with "." for the end. */
static inline const char *spell(const int *token, int n, char text[CONTEXT + 1]) {
    int at = 0;
    for (int i = 0; i < n; i++)
        if (token[i] != START) text[at++] = token[i] == END ? '.' : letters[token[i] - FIRST_LETTER];
    text[at] = 0;
    return text;
}

/* What people want of a word: tokens [n] from START to its last one. */
static inline float true_reward(const int *token, int n) {
    float reward = 0;
    int seen[TOKENS] = {0};
    for (int i = 1; i < n && token[i] != END; i++) {
        if (is_soft(token[i])) reward += seen[token[i]]++ ? -0.5f : 1;
        else if (!is_vowel(token[i])) reward -= 1;
        if (token[i] == START || is_vowel(token[i]) != (i % 2 == 0)) reward -= 1; /* it should alternate */
    }
    return reward - (token[n - 1] != END || n % 2 == 1);
}

/* The same as a reward function. */
static inline ppo_status people(const ppo_samples *samples, float *reward, void *user) {
    const ppo_tokens *t = &samples->tokens;
    (void)user;
    for (int s = 0; s < t->count; s++)
        reward[s] = true_reward(t->token + t->start[s], t->start[s + 1] - t->start[s]);
    return PPO_OK;
}

static inline ppo_sampling sampling(uint64_t seed) {
    ppo_sampling how = ppo_sampling_default();
    how.eos = END;
    how.seed = seed;
    return how;
}

/* Supervised fine-tuning from nothing: a model that writes words. */
static inline ppo_lm *first_model(uint64_t seed) {
    ppo_lm_config shape = ppo_lm_config_default();
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER + 100, 0);
    ppo_tokens words = {0};
    ppo_lm *lm = NULL;
    shape.vocab = TOKENS;
    shape.context = CONTEXT;
    shape.width = 32;
    shape.heads = 2;
    shape.seed = fit.seed = seed;
    fit.epochs = 4;
    fit.learning_rate = 3e-3f;
    add_words(2000, &rng, &words);
    must(ppo_lm_create(&shape, &lm));
    must(ppo_fit_sft(lm, &words, &fit));
    ppo_tokens_free(&words);
    return lm;
}

/* A model of its own with the same weights. */
static inline ppo_lm *copy_of(const ppo_lm *lm) {
    ppo_lm *copy = NULL;
    must(ppo_lm_copy(lm, 0, &copy));
    return copy;
}

/* Comparisons by people of two samples each for n prompts; the better one is chosen more often, not always. */
static inline void ask_people(const ppo_lm *lm, int n, uint64_t seed, ppo_tokens *chosen,
                              ppo_tokens *rejected) {
    ppo_generator *generator = NULL;
    ppo_sampling how = sampling(seed);
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER + 101, 0),
            mistakes = ppo_rng_stream(seed, PPO_STREAM_USER + 102, 0);
    ppo_tokens prompts = {0};
    add_words(n, &rng, &prompts);
    must(ppo_generator_create(lm, 16, &generator));
    must(ppo_compare(generator, &prompts, &how, people, NULL, &mistakes, chosen, rejected));
    ppo_generator_free(generator);
    ppo_tokens_free(&prompts);
}

/* A reward model: a copy of the first model with a score, trained on comparisons. */
static inline ppo_lm *learn_reward(const ppo_lm *first, const ppo_tokens *chosen, const ppo_tokens *rejected,
                                   uint64_t seed) {
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_lm *lm = NULL;
    fit.epochs = 3;
    fit.seed = seed;
    fit.learning_rate = 2e-3f;
    must(ppo_lm_copy(first, 1, &lm));
    must(ppo_fit_reward(lm, chosen, rejected, &fit));
    return lm;
}

/* Samples of a model for n random prompts, `each` of each; valid until the generator is freed. Models with the same
   chance meet the same random numbers, and say the same where they are alike. */
static inline ppo_samples sample_by(const ppo_lm *lm, int n, int each, uint64_t seed, uint64_t chance,
                                    ppo_generator **generator) {
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER + 103, 0);
    ppo_sampling how = sampling(chance);
    ppo_tokens words = {0}, prompts = {0};
    ppo_samples samples;
    add_words(n, &rng, &words);
    for (int i = 0; i < n * each; i++) must(ppo_tokens_add_from(&prompts, &words, i / each));
    *generator = NULL;
    must(ppo_generator_create(lm, 16, generator));
    must(ppo_generate(*generator, &prompts, &how, &samples));
    ppo_tokens_free(&words);
    ppo_tokens_free(&prompts);
    return samples;
}
static inline ppo_samples sample(const ppo_lm *lm, int n, int each, uint64_t seed,
                                 ppo_generator **generator) {
    return sample_by(lm, n, each, seed, seed + 1, generator);
}

/* The proxy: reward models as a reward function, with mean 0 and deviation 1 on the first model's samples. */
static inline ppo_reward_model *make_proxy(ppo_lm *const *members, int count, int ensemble,
                                           const ppo_lm *first, uint64_t seed) {
    ppo_reward_model *proxy = NULL;
    ppo_generator *generator;
    ppo_samples samples = sample(first, 256, 1, seed, &generator);
    must(ppo_reward_model_create(members, count, ensemble, 64, &proxy));
    must(ppo_reward_model_normalize(proxy, &samples.tokens));
    ppo_generator_free(generator);
    return proxy;
}

/* PPO on tokens with the settings of these lessons. */
static inline ppo_rlhf_config settings(uint64_t seed) {
    ppo_rlhf_config config = ppo_rlhf_config_default();
    config.sampling.eos = END;
    config.missing_eos_penalty = 1;
    config.learning_rate = 1e-3f;
    config.seed = seed;
    return config;
}

/* What a model is worth to people, on 512 new prompts; its KL is that to the first model. */
static inline ppo_lm_evaluation worth(const ppo_lm *lm, const ppo_lm *first, uint64_t seed) {
    ppo_rng rng = ppo_rng_stream(seed, PPO_STREAM_USER + 104, 0);
    ppo_sampling how = sampling(seed + 2);
    ppo_tokens prompts = {0};
    ppo_lm_evaluation e;
    add_words(512, &rng, &prompts);
    must(ppo_lm_evaluate(lm, first, &prompts, &how, people, NULL, &e));
    ppo_tokens_free(&prompts);
    return e;
}

/* Prints some words of a model. */
static inline void show(const ppo_lm *lm, int n, uint64_t seed) {
    ppo_generator *generator;
    ppo_samples samples = sample(lm, n, 1, seed + 3, &generator);
    for (int s = 0; s < n; s++) {
        const int *word = samples.tokens.token + samples.tokens.start[s];
        int length = samples.tokens.start[s + 1] - samples.tokens.start[s];
        char text[CONTEXT + 1];
        printf(" %s (%+.1f)", spell(word, length, text), (double)true_reward(word, length));
    }
    printf("\n");
    ppo_generator_free(generator);
}

#endif
