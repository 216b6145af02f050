/* doors_chat.c - chats as tokens, for doors_chat.py.

       doors_chat FOLDER THINKING < chats

   prints the name of the form of the folder's chat template, or the sentence that refuses it, and then for each chat its
   tokens in two lines, without and with a reply asked for; or the sentence that refuses it. A chat is lines "ROLE BYTES",
   each followed by the text and a line break, and a line "end 0". */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "companions/ppo_chat.h"

enum { MESSAGES = 32 };

static int read_chat(ppo_message *said, char role[MESSAGES][16]) {
    int n = 0;
    for (unsigned bytes; n < MESSAGES && scanf("%15s %u", role[n], &bytes) == 2 && getchar() != EOF; n++) {
        char *text = (char *)calloc(bytes + 1, 1);
        if (!strcmp(role[n], "end") || !text) return free(text), n;
        said[n].role = role[n];
        said[n].text = text;
        if (fread(text, 1, bytes, stdin) != bytes) return -1;
    }
    return -1;
}

int main(int argc, char **argv) {
    ppo_tokenizer *tok = NULL;
    ppo_message said[MESSAGES];
    char role[MESSAGES][16];
    int form = -1, n;
    if (argc < 3 || ppo_tokenizer_load(argv[1], &tok)) return fprintf(stderr, "%s\n", ppo_last_error()), 1;
    const ppo_status status = ppo_chat_form(tok, &form);
    printf("%s\n", status ? ppo_last_error() : form < 0 ? "no template" : ppo_chat_name(form));
    while (form >= 0 && (n = read_chat(said, role)) >= 0) {
        const ppo_chat_how how = {form, atoi(argv[2]), NULL};
        for (int reply = 0; reply < 2; reply++) {
            ppo_tokens tokens = {0};
            if (ppo_tokens_add_chat_as(&tokens, tok, &how, said, n, reply)) printf("%s", ppo_last_error());
            for (int i = 0; i < (tokens.count ? tokens.start[1] : 0); i++)
                printf("%s%d", i ? " " : "", tokens.token[i]);
            puts("");
            ppo_tokens_free(&tokens);
        }
        while (n-- > 0) free((void *)said[n].text);
    }
    ppo_tokenizer_free(tok);
    return 0;
}
