/* lm_options.h - what the command lines of chat.c and finetune.c share: how settings are printed, and which tokens
   end a text. */
#ifndef LM_OPTIONS_H
#define LM_OPTIONS_H

#include <stdio.h>
#include <string.h>

/* The names of the forms of ppo_chat.h. */
#define CHAT_FORMS                                                                \
    "chatml|llama3|zephyr|llama3.1|llama3.2|qwen2|qwen2.5|qwen3|smollm2|smollm3|" \
    "gemma|gemma3|phi3|phi3.5|olmo2|granite3.0|granite|granite3.3|granite4"

/* The usual names of tokens that end a turn, by the first forms, then of those that end a
   text. */
enum { END_OF_TEXT = PPO_CHAT_ZEPHYR, ALL_ENDS = 5, MOST_ENDS = 16 };
static const char *const end_names[ALL_ENDS] = {"<|im_end|>", "<|eot_id|>", "</s>", "<|end_of_text|>",
                                                "<|endoftext|>"};

/* The tokens below vocab that the folder says end a text, and how many. */
static ppo_status read_ends(const char *folder, int vocab, int ends[MOST_ENDS], int *count) {
    int all, kept = 0;
    ppo_status status = ppo_lm_load_ends(folder, ends, MOST_ENDS, &all);
    for (int k = 0; k < all && k < MOST_ENDS; k++)
        if (ends[k] < vocab) ends[kept++] = ends[k];
    *count = kept;
    return status;
}

/* The token of this name; "none": -1. NULL: the one that tokenizer.json puts before a text, or -1. */
static ppo_status find_start(const ppo_tokenizer *tokenizer, const char *name, int *start) {
    int before[8], count = 0;
    *start = -1;
    if (name && !strcmp(name, "none")) return PPO_OK;
    if (name && (*start = ppo_tokenizer_special(tokenizer, name)) < 0)
        return ppo_fail(PPO_ERROR_ARGUMENT, "the tokenizer has no token %.60s", name);
    if (name) return PPO_OK;
    ppo_status status = ppo_encode_as(tokenizer, PPO_ENCODE_BEFORE, "", 0, before, 8, &count);
    if (!status && count > 1)
        return ppo_fail(PPO_ERROR_ARGUMENT, "tokenizer.json puts %d tokens before a text: say which by start",
                        count);
    if (!status && count) *start = before[0];
    return status;
}

/* A model may have fewer tokens than its tokenizer, but not the texts that it gets. */
static ppo_status check_tokens(const ppo_tokens *tokens, const ppo_tokenizer *tokenizer, const ppo_lm *lm) {
    const int vocab = lm->config.vocab;
    char text[64] = "";
    for (int i = 0; tokens->count && i < tokens->start[tokens->count]; i++)
        if (tokens->token[i] >= vocab) {
            ppo_decode(tokenizer, &tokens->token[i], 1, text, sizeof text, NULL);
            return ppo_fail(PPO_ERROR_ARGUMENT,
                            "the tokenizer has %d tokens, the model %d: there is no row for token %d, \"%s\"",
                            ppo_tokenizer_vocab(tokenizer), vocab, tokens->token[i], text);
        }
    return PPO_OK;
}

/* Those that the tokenizer or the program itself chooses. */
static int is_no_option(const char *name) { return !strcmp(name, "eos") || !strcmp(name, "tool_token"); }

/* Prints a text that begins in this column, and continues in column 29 of the next line where a word of it, up to a
   space or a |, would end beyond column 98. */
static void print_wrapped(const char *text, int column) {
    for (int n; *text; text += n, column += n) {
        const int space = *text == ' ';
        n = space + (int)strcspn(text + space, " |");
        n += text[n] == '|';
        if (column + n > 98) {
            column = printf("\n%29s", "") - 1;
            text += space;
            n -= space;
        }
        printf("%.*s", n, text);
    }
    printf("\n");
}

/* A line for each setting that is an option, or several: its name, its help, its value and its choices. With `dashes`
   "--" names are written with dashes, too. has (may be NULL): is it an option of this program? */
static void print_settings(const ppo_settings *settings, const void *config, const char *dashes,
                           int (*has)(const void *user, const char *name), const void *user) {
    for (int i = 0; i < settings->count; i++) {
        const ppo_field *field = &settings->field[i];
        char name[64], value[64] = "", text[1024];
        if (is_no_option(field->name) || (has && !has(user, field->name))) continue;
        snprintf(name, sizeof name, "%s%s", dashes, field->name);
        for (char *at = name; *at && *dashes; at++) *at = *at == '_' ? '-' : *at;
        ppo_settings_get(settings, config, field->name, value, sizeof value);
        const char *choices = field->choices ? field->choices : "";
        snprintf(text, sizeof text, "%s [%s%s%s]", field->help, value, *choices ? "; " : "", choices);
        print_wrapped(text, printf("  %-26s ", name));
    }
}

#endif
