/* 32b_critique.c - critique and revision, and a guardrail: what principles can do, and what they overlook.

   Constitutional AI has two halves (Bai 2022). The second one, a judge for comparisons, is lesson 32. The
   first needs no reward at all: the model writes a draft, a critic names the first place where a principle
   is broken, the model writes on from there, and so on; it is then trained on its own revisions, by
   supervision. The same critic also serves as a guardrail when the model is used: what it flags is thrown
   away and sampled again. (A filter of training data is the third use: here it is all revisions in which
   nothing is flagged any more.) The critic is a program with two principles: "no hard letters" and "write
   words". A language model would be asked.

   You will see the true reward of drafts and of their revisions, round by round; that of the model trained
   on them; how many samples the guardrail costs before and after; and the blind spot: people do not like a
   soft letter that comes again, no principle says so, and what nobody flags becomes more frequent. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"
#include "letters.h"

enum { WORLDS = 5, WORDS = 512, ROUNDS = 8, TRIES = 32 };

/* Where the first principle is broken, behind the prompt; -1: nowhere. */
static int critique(const int *word, int n) {
    for (int i = PROMPT; i < n && word[i] != END; i++) {
        if (word[i] == START || is_vowel(word[i]) != (i % 2 == 0)) return i; /* no word */
        if (!is_vowel(word[i]) && !is_soft(word[i])) return i;               /* a hard letter */
    }
    return word[n - 1] != END || n % 2 == 1 ? n - 1 : -1;
}

static int repeats(const int *word, int n) { /* does a soft letter come again? */
    int seen[TOKENS] = {0};
    for (int i = 1; i < n; i++)
        if (is_soft(word[i]) && seen[word[i]]++) return 1;
    return 0;
}

/* The model writes on from the prompt of each word of `from`; the result has the prompts of the drafts. */
static ppo_tokens write_on(const ppo_lm *lm, const ppo_tokens *from, uint64_t seed) {
    ppo_generator *generator = NULL;
    ppo_samples samples;
    ppo_sampling how = sampling(seed);
    ppo_tokens words = {0};
    must(ppo_generator_create(lm, 16, &generator));
    must(ppo_generate(generator, from, &how, &samples));
    const ppo_tokens *t = &samples.tokens;
    for (int s = 0; s < t->count; s++)
        must(ppo_tokens_add(&words, t->token + t->start[s], t->start[s + 1] - t->start[s], PROMPT));
    ppo_generator_free(generator);
    return words;
}

/* Words that are flagged are written again, from the place that is named (revise) or from the prompt. Returns
   their number. */
static int again(const ppo_lm *lm, ppo_tokens *words, int revise, uint64_t seed) {
    ppo_tokens asked = {0}, all = {0};
    for (int s = 0; s < words->count; s++) {
        const int *word = words->token + words->start[s];
        int n = words->start[s + 1] - words->start[s], at = critique(word, n);
        if (at >= 0) must(ppo_tokens_add(&asked, word, n, revise ? at : PROMPT));
    }
    int flagged = asked.count;
    if (flagged == 0) return 0;
    ppo_tokens new_words = write_on(lm, &asked, seed);
    for (int s = 0, k = 0; s < words->count; s++) {
        int is_old = critique(words->token + words->start[s], words->start[s + 1] - words->start[s]) < 0;
        must(ppo_tokens_add_from(&all, is_old ? words : &new_words, is_old ? s : k++));
    }
    ppo_tokens_free(words), ppo_tokens_free(&asked), ppo_tokens_free(&new_words);
    *words = all;
    return flagged;
}

/* Means over words: true reward, share with a letter that comes again. */
static void judge(const ppo_tokens *words, float *reward, float *repeated) {
    *reward = *repeated = 0;
    for (int s = 0; s < words->count; s++) {
        const int *word = words->token + words->start[s];
        int n = words->start[s + 1] - words->start[s];
        *reward += true_reward(word, n) / (float)words->count,
            *repeated += (float)repeats(word, n) / (float)words->count;
    }
}

int main(int argc, char **argv) {
    static const char *const names[] = {"first model", "... with guardrail", "trained on revisions",
                                        "... with guardrail"};
    static float round_reward[ROUNDS + 1][WORLDS], reward[4][WORLDS], repeated[4][WORLDS], cost[4][WORLDS];
    float x[ROUNDS + 1], curve[ROUNDS + 1], unused;
    uint64_t seed = lesson_seed(argc, argv);
    for (int w = 0; w < WORLDS; w++) {
        uint64_t own = seed * 10 + (uint64_t)w;
        ppo_rng rng = ppo_rng_stream(own, PPO_STREAM_USER, 0);
        ppo_tokens prompts = {0}, new_prompts = {0};
        ppo_lm *model[2] = {first_model(own), NULL};
        ppo_fit_config fit = ppo_fit_config_default();
        add_words(WORDS, &rng, &prompts), add_words(WORDS, &rng, &new_prompts);
        ppo_tokens words = write_on(model[0], &prompts, own);
        for (int k = 0; k <= ROUNDS; k++) {
            judge(&words, &round_reward[k][w], &unused);
            if (k < ROUNDS) again(model[0], &words, 1, own * 100 + (uint64_t)k);
        }
        model[1] = copy_of(model[0]);
        fit.epochs = 4;
        must(ppo_fit_sft(model[1], &words, &fit));
        if (w == 0)
            printf("first model:        "), show(model[0], 4, own), printf("trained on revisions:"),
                show(model[1], 4, own);
        for (int k = 0; k < 4; k++) {
            ppo_tokens used = write_on(model[k / 2], &new_prompts, own + 7);
            cost[k][w] = 1;
            for (int try = 1; k % 2 && try < TRIES; try++)
                cost[k][w] += (float)again(model[k / 2], &used, 0, own * 1000 + (uint64_t)try) / WORDS;
            judge(&used, &reward[k][w], &repeated[k][w]);
            ppo_tokens_free(&used);
        }
        ppo_lm_free(model[0]), ppo_lm_free(model[1]);
        ppo_tokens_free(&words), ppo_tokens_free(&prompts), ppo_tokens_free(&new_prompts);
    }
    for (int k = 0; k <= ROUNDS; k++) x[k] = (float)k, curve[k] = (float)mean_of(round_reward[k], WORLDS);
    printf("\nmeans of %d worlds        true reward   a letter again   samples per word\n", WORLDS);
    for (int k = 0; k < 4; k++)
        printf("%-22s %6.2f +- %.2f %13.0f %% %15.1f\n", names[k], mean_of(reward[k], WORLDS),
               interval_of(reward[k], WORLDS), 100 * mean_of(repeated[k], WORLDS), mean_of(cost[k], WORLDS));
    chart c = {.title = "Drafts and their revisions",
               .x_label = "rounds of critique and revision",
               .y_label = "true reward"};
    chart_line(&c, "written by the first model", x, curve, ROUNDS + 1);
    chart_save(&c, "build/lessons/32b_critique.svg");
    claim(better_by(round_reward[ROUNDS], round_reward[0], WORLDS) > 0,
          "revision makes drafts better, by %.2f at least",
          better_by(round_reward[ROUNDS], round_reward[0], WORLDS));
    claim(better_by(reward[2], reward[0], WORLDS) > 0,
          "trained on revisions the model needs no critic, by %.2f at least",
          better_by(reward[2], reward[0], WORLDS));
    claim(better_by(cost[1], cost[3], WORLDS) > 0, "and its guardrail costs %.1f samples, not %.1f",
          mean_of(cost[3], WORLDS), mean_of(cost[1], WORLDS));
    claim(better_by(repeated[3], repeated[0], WORLDS) > 0,
          "what no principle forbids becomes more frequent, by %.0f points at least",
          100 * better_by(repeated[3], repeated[0], WORLDS));
    return lesson_failures > 0;
}
