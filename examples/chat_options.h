/* chat_options.h - what chat.c reads: its command line, with the settings of ppo_sampling_settings() and of the table
   `own`; what the folder says of chats, in prepare(); and the lines of stdin. */
#ifndef CHAT_OPTIONS_H
#define CHAT_OPTIONS_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lm_options.h"

enum { RAW = -1, AUTO = -2, ANSWER = 1 << 20, TURNS = 4096, ENDS = MOST_ENDS + ALL_ENDS + 1 };

typedef struct chat {
    ppo_sampling how;
    ppo_chat_how written; /* its form: RAW, AUTO or one of ppo_chat.h */
    int context, threads;
    const char *folder, *system, *start_name;
    ppo_lm *lm;
    ppo_tokenizer *tokenizer;
    ppo_generator *generator;
    int ends[ENDS], start;    /* tokens that end an answer; the one that starts a raw text, or -1 */
    ppo_message turns[TURNS]; /* the first may be the system's */
    int count;
    ppo_tokens tokens;   /* of all turns */
    char answer[ANSWER]; /* `bytes` of it are there, `shown` of them on the screen: whole characters */
    size_t bytes, shown;
} chat;

static const ppo_field own[] = {
    {"form", PPO_FIELD_CHOICE, offsetof(chat, written.form), NULL, AUTO, PPO_CHAT_FORMS - 1,
     "auto|raw|" CHAT_FORMS, "of the chat; auto: that of the folder, raw: continues your text", 0, 0},
    {"thinking", PPO_FIELD_CHOICE, offsetof(chat, written.thinking), NULL, 0, 1, "no|yes",
     "before an answer, of models that were trained to", 0, 0},
    {"context", PPO_FIELD_INT, offsetof(chat, context), NULL, 2, 1e9, NULL, "tokens that it remembers", 0, 0},
    {"seed", PPO_FIELD_U64, offsetof(chat, how.seed), NULL, 0, 1.8446744073709552e19, NULL,
     "of all random numbers", 0, 0},
    {"threads", PPO_FIELD_INT, offsetof(chat, threads), NULL, 1, 1024, NULL, "to compute with", 0, 0}};
static const ppo_settings own_settings = {own, sizeof own / sizeof *own, NULL, NULL, NULL};

static int usage(const chat *c) {
    printf(
        "usage: chat FOLDER [--name value | --name=value | name=value] ...       in brackets: the default\n\n"
        "  --system TEXT              what the system says first\n"
        "  --date TEXT                instead of that of today, for forms that tell it\n"
        "  --raw                      the same as --form raw\n"
        "  --start NAME               token before a raw text, or none [what tokenizer.json says]\n");
    print_settings(&own_settings, c, "--", NULL, NULL);
    print_settings(ppo_sampling_settings(), &c->how, "--", NULL, NULL);
    return fflush(stdout) || ferror(stdout);
}

static ppo_status set(chat *c, const char *name, const char *value) {
    const ppo_settings *all = ppo_sampling_settings();
    char text[64];
    if (!strcmp(name, "raw")) return c->written.form = RAW, PPO_OK;
    if (!strcmp(name, "date")) return c->written.date = value, PPO_OK;
    if (!strcmp(name, "system")) return c->system = value, PPO_OK;
    if (!strcmp(name, "start")) return c->start_name = value, PPO_OK;
    if (is_no_option(name)) return ppo_fail(PPO_ERROR_ARGUMENT, "--%s is not for you to choose", name);
    if (!ppo_settings_get(&own_settings, c, name, text, sizeof text))
        return ppo_settings_set(&own_settings, c, name, value);
    return ppo_settings_set(all, &c->how, name, value);
}

/* Those that may stand without a value, which is "yes" then. */
static int is_switch(const char *name) {
    return !strcmp(name, "raw") || !strcmp(name, "thinking") || !strcmp(name, "greedy");
}

/* The folder and the settings. */
static ppo_status read_options(chat *c, int argc, char **argv) {
    ppo_status status = PPO_OK;
    for (int i = 1; i < argc && !status; i++) {
        const char *text = argv[i], *equals = strchr(text, '='), *value = NULL;
        const int dashes = !strncmp(text, "--", 2);
        char name[64];
        if (!dashes && !equals) {
            if (c->folder) return ppo_fail(PPO_ERROR_ARGUMENT, "two folders: %s and %s", c->folder, text);
            c->folder = text;
            continue;
        }
        snprintf(name, sizeof name, "%.*s", (int)strcspn(text + 2 * dashes, "="), text + 2 * dashes);
        if (equals) value = equals + 1;
        else if (strcmp(name, "raw") && i + 1 < argc && strncmp(argv[i + 1], "--", 2)) value = argv[++i];
        if (!value && is_switch(name)) value = "yes";
        status =
            value ? set(c, name, value) : ppo_fail(PPO_ERROR_ARGUMENT, "a value is missing after --%s", name);
    }
    return status;
}

/* The settings of the folder, which those of the command line replace. */
static ppo_status read_sampling(chat *c, int argc, char **argv) {
    char says[256];
    ppo_status status = ppo_sampling_load(c->folder, &c->how, says, sizeof says);
    if (!status && *says) fprintf(stderr, "(as generation_config.json says: %s)\n", says);
    c->folder = NULL;
    return status ? status : read_options(c, argc, argv);
}

/* The form of the chat, if it was not given, and the tokens that end an answer: those that the folder says, and
   those with the usual names, for not every folder says them. */
static ppo_status prepare(chat *c) {
    static const ppo_message empty = {"user", ""};
    int n = 0, own = -1, found[ALL_ENDS], *form = &c->written.form;
    ppo_status status = read_ends(c->folder, c->lm->config.vocab, c->ends, &n);
    if (!status) status = find_start(c->tokenizer, c->start_name, &c->start);
    for (int k = 0; k < ALL_ENDS; k++) {
        found[k] = ppo_tokenizer_special(c->tokenizer, end_names[k]);
        if (found[k] >= 0 && found[k] < c->lm->config.vocab) c->ends[n++] = found[k];
    }
    if (!status && *form == AUTO && ppo_chat_form(c->tokenizer, &own))
        return ppo_fail(PPO_ERROR_ARGUMENT, "%s; --form chooses one, or raw", ppo_last_error());
    if (*form == AUTO && own >= 0) *form = own;
    if (*form == AUTO && found[PPO_CHATML] >= 0) *form = PPO_CHATML;
    if (*form == AUTO) *form = found[PPO_CHAT_LLAMA3] >= 0 ? (int)PPO_CHAT_LLAMA3 : (int)RAW;
    const int end = ppo_chat_end(c->tokenizer, *form);
    if (end >= 0 && end < c->lm->config.vocab) c->ends[n++] = end;
    c->how.stop_tokens = c->ends;
    c->how.stop_token_count = n;
    if (*ppo_tokenizer_note(c->tokenizer)) fprintf(stderr, "%s\n", ppo_tokenizer_note(c->tokenizer));
    if (*ppo_tokenizer_chat_note(c->tokenizer, *form))
        fprintf(stderr, "%s\n", ppo_tokenizer_chat_note(c->tokenizer, *form));
    if (!status && *form != RAW && !c->system) /* has the tokenizer its tokens? */
        status = ppo_tokens_add_chat_as(&c->tokens, c->tokenizer, &c->written, &empty, 1, 1);
    return status;
}

/* The next line of stdin, which the caller frees; NULL after the last. A byte 0, which no text has, becomes a
   space. */
static char *read_line(void) {
    size_t n = 0, room = 1024;
    char *line = (char *)malloc(room), *more = line;
    int c = 0;
    fprintf(stderr, "> ");
    while (more && (c = getchar()) != EOF && c != '\n') {
        line[n++] = (char)(c ? c : ' ');
        if (n == room && (more = (char *)realloc(line, room *= 2)) != NULL) line = more;
    }
    if (!more || (c == EOF && !n)) return free(line), (char *)NULL;
    line[n] = 0;
    return line[strcspn(line, "\r")] = 0, line;
}

#endif
