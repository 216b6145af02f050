/* tasks.h - texts to learn from, and what people would want of them, for rlhf.c and overopt.c.

   A task gives lines of text, and the TRUE reward of any line, which a real project never has: people can only be
   asked which of two lines they prefer. Here both are known, so that "did it do what they wanted?" has an answer.

   sentences  a small language: "a kind child thanks the old baker gladly ." Words are kind or unkind, and the order
              of words has rules. People want kind words, each once, in sentences that are right.
   words      English words, from /usr/share/dict/words (Debian's package wamerican). People want soft sounds. */
#ifndef TASKS_H
#define TASKS_H

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 256 };

typedef struct task {
    const char *name;
    int bpe, context;          /* tokens of byte-pair encoding, 0: characters; tokens of the longest line */
    const char *(*open)(void); /* NULL, or why there are no lines */
    void (*line)(ppo_rng *rng, char *line); /* a random line [LINE] */
    size_t (*prompt)(const char *line);     /* how many of its characters are the prompt */
    float (*reward)(const char *line);
} task;

/* -- sentences: the state after a word is what may come next -- */

enum { ARTICLE, ADJECTIVE, NOUN, VERB, ADVERB, STOP, KINDS };

static const struct word {
    const char *text;
    int kind;
    float kindness;
} vocabulary[] = {
    {"the", ARTICLE, 0},        {"a", ARTICLE, 0},         {"kind", ADJECTIVE, 1},
    {"gentle", ADJECTIVE, 1},   {"warm", ADJECTIVE, 0.5f}, {"brave", ADJECTIVE, 0.5f},
    {"old", ADJECTIVE, 0},      {"small", ADJECTIVE, 0},   {"tall", ADJECTIVE, 0},
    {"cold", ADJECTIVE, -0.5f}, {"rude", ADJECTIVE, -1},   {"cruel", ADJECTIVE, -1},
    {"child", NOUN, 0},         {"friend", NOUN, 0.5f},    {"baker", NOUN, 0},
    {"king", NOUN, 0},          {"dog", NOUN, 0},          {"nurse", NOUN, 0},
    {"thief", NOUN, -0.5f},     {"helps", VERB, 1},        {"thanks", VERB, 1},
    {"greets", VERB, 0.5f},     {"sees", VERB, 0},         {"finds", VERB, 0},
    {"follows", VERB, 0},       {"ignores", VERB, -0.5f},  {"insults", VERB, -1},
    {"robs", VERB, -1},         {"gladly", ADVERB, 1},     {"softly", ADVERB, 0.5f},
    {"again", ADVERB, 0},       {"angrily", ADVERB, -1},   {".", STOP, 0},
};
enum { WORDS = sizeof vocabulary / sizeof *vocabulary };

/* Where the word of each kind leads, -1: it may not stand there. Rows: at the start, after the article, the
   adjective and the noun of the subject, after the verb, and so on to the stop. */
enum { START, SUBJECT = 3, END = 9, STATES };
static const signed char rules[STATES][KINDS] = {
    {1, -1, -1, -1, -1, -1}, {-1, 2, 3, -1, -1, -1},   {-1, -1, 3, -1, -1, -1}, {-1, -1, -1, 4, -1, -1},
    {5, -1, -1, -1, -1, -1}, {-1, 6, 7, -1, -1, -1},   {-1, -1, 7, -1, -1, -1}, {-1, -1, -1, -1, 8, 9},
    {-1, -1, -1, -1, -1, 9}, {-1, -1, -1, -1, -1, -1},
};

static const char *sentences_open(void) { return NULL; }

static void sentences_line(ppo_rng *rng, char *line) {
    *line = 0;
    for (int state = START; state != END;) {
        const struct word *w = &vocabulary[ppo_rng_below(rng, WORDS)];
        int next = rules[state][w->kind];
        if (next < 0) continue;
        snprintf(line + strlen(line), LINE - strlen(line), "%s%s", *line ? " " : "", w->text);
        state = next;
    }
}

/* Up to the first noun. */
static size_t sentences_prompt(const char *line) {
    size_t at = 0;
    for (int state = START; state != SUBJECT && line[at];) {
        size_t n = strcspn(line + at, " ");
        for (int i = 0; i < WORDS; i++) {
            if (strlen(vocabulary[i].text) == n && !strncmp(vocabulary[i].text, line + at, n))
                state = rules[state][vocabulary[i].kind];
        }
        at += n + (state != SUBJECT);
    }
    return at;
}

/* The kindness of its words, each counted once; -1 for every word that is none, or stands where it may not, and if
   the sentence does not end. */
static float sentences_reward(const char *line) {
    float reward = 0;
    int used[WORDS] = {0}, state = START;
    for (const char *at = line; *at;) {
        size_t n = strcspn(at, " "), found = WORDS;
        for (int i = 0; i < WORDS; i++)
            if (strlen(vocabulary[i].text) == n && !strncmp(vocabulary[i].text, at, n)) found = (size_t)i;
        int next = found < WORDS && state >= 0 ? rules[state][vocabulary[found].kind] : -1;
        if (found < WORDS && !used[found]++) reward += vocabulary[found].kindness;
        if (next < 0) reward -= 1;
        for (int s = 0; s < STATES && next < 0 && found < WORDS; s++) next = rules[s][vocabulary[found].kind];
        state = next < 0 ? state : next;
        at += n + (at[n] == ' ');
    }
    return reward - (state != END);
}

/* -- words -- */

static char *dictionary;
static size_t dictionary_size;

/* The letters of the word that begins here if it has 4 to 14, all of them small; otherwise 0. */
static size_t words_length(const char *at) {
    size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz");
    return n >= 4 && n <= 14 && (at[n] == '\n' || !at[n]) ? n : 0;
}

static const char *words_open(void) {
    FILE *file = fopen("/usr/share/dict/words", "rb");
    if (!file) return "there is no /usr/share/dict/words: install a word list (Debian: wamerican)";
    fseek(file, 0, SEEK_END);
    dictionary_size = (size_t)ftell(file);
    rewind(file);
    dictionary = (char *)malloc(dictionary_size + 1);
    if (!dictionary || fread(dictionary, 1, dictionary_size, file) != dictionary_size) dictionary_size = 0;
    fclose(file);
    if (!dictionary_size) return "/usr/share/dict/words cannot be read";
    dictionary[dictionary_size] = 0;
    int good = 0;
    for (const char *at = dictionary; *at; at += strcspn(at, "\n"), at += *at == '\n')
        good += words_length(at) > 0;
    return good < 1000 ? "/usr/share/dict/words has hardly any words of 4 to 14 small letters" : NULL;
}

/* Such a word, from the next line after a random place; after the last line comes the first. */
static void words_line(ppo_rng *rng, char *line) {
    const char *at = dictionary;
    do {
        at = dictionary + ppo_rng_below(rng, (int)dictionary_size);
        at += strcspn(at, "\n");
        at = *at ? at + 1 : dictionary;
    } while (!words_length(at));
    snprintf(line, LINE, "%.*s", (int)words_length(at), at);
}

static size_t words_prompt(const char *line) { return (void)line, 0; }

/* Soft letters count for it, hard ones against it, three in a row of the same sort of letter, too. */
static float words_reward(const char *line) {
    float reward = 0;
    int run = 0, vowel = -1;
    for (const char *c = line; *c; c++) {
        int is = strchr("aeiouy", *c) != NULL;
        run = is == vowel ? run + 1 : 1;
        vowel = is;
        reward += strchr("lmnrsvw", *c) ? 0.5f : strchr("kpqtxzgbdc", *c) ? -0.5f : 0;
        if (run > 2 || !islower((unsigned char)*c)) reward -= 1;
    }
    return reward - (strlen(line) < 4 ? 4 : 0);
}

static const task tasks[] = {
    {"sentences", 320, 32, sentences_open, sentences_line, sentences_prompt, sentences_reward},
    {"words", 0, 20, words_open, words_line, words_prompt, words_reward},
};
enum { TASKS = sizeof tasks / sizeof *tasks };

#endif
