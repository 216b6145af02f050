/* For chat.sh: two folders as the model hub has them, in the folder argv[1]. "chat" has learned two answers by heart,
   in ChatML; "text" has random weights, no special tokens, and no end. */
#include "../ppo.h"
#include "../examples/companions/ppo_chat.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static FILE *create(const char *folder, const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (!file) exit(1);
    return file;
}

/* A tokenizer.json whose tokens are the bytes, in GPT-2's letters for them, and two special ones. */
static void write_tokenizer(const char *folder, int specials) {
    FILE *out = create(folder, "tokenizer.json");
    fprintf(out, "{\"added_tokens\": [");
    for (int k = 0; k < specials; k++)
        fprintf(out, "%s{\"id\": %d, \"content\": \"<|im_%s|>\", \"special\": true}", k ? ", " : "", 256 + k,
                k ? "end" : "start");
    fprintf(out, "], \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "
                 "\"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"BPE\", \"vocab\": {");
    for (int b = 0, others = 256; b < 256; b++) {
        int itself = (b > 32 && b < 127) || (b > 160 && b != 173);
        fprintf(out, "%s\"\\u%04x\": %d", b ? ", " : "", itself ? b : others++, b);
    }
    fprintf(out, "}, \"merges\": []}}\n");
    fclose(out);
}

int main(int argc, char **argv) {
    static const char *const said[][2] = {{"hello", "Gr\303\274\303\237 dich!"},
                                          {"bye", "Tsch\303\274\303\237."}};
    ppo_tokenizer *tokenizer = NULL;
    ppo_tokens chats = {0};
    ppo_fit_config fit = ppo_fit_config_default();
    ppo_status status = PPO_OK;
    if (argc < 2) return 1;
    for (int random = 0; random < 2 && !status; random++) {
        char folder[200];
        ppo_lm *lm = NULL;
        ppo_lm_config c = ppo_lm_config_default();
        snprintf(folder, sizeof folder, "%s/%s", argv[1], random ? "text" : "chat");
        mkdir(folder, 0777);
        write_tokenizer(folder, random ? 0 : 2);
        status = ppo_lm_config_family(&c, "llama");
        c.vocab = random ? 256 : 258, c.context = random ? 1000000 : 400, c.width = random ? 8 : 32;
        c.heads = 2, c.layers = 1, c.hidden = 4 * c.width;
        if (!status) status = ppo_lm_create(&c, &lm);
        if (!status && !random) status = ppo_tokenizer_load(folder, &tokenizer);
        for (int i = 0; i < 6 && !random && !status; i++) { /* each answer, alone and after each other one */
            ppo_message turn[4] = {{"user", said[i % 2][0]},
                                   {"assistant", said[i % 2][1]},
                                   {"user", said[i / 2 % 2][0]},
                                   {"assistant", said[i / 2 % 2][1]}};
            status = ppo_tokens_add_chat(&chats, tokenizer, PPO_CHATML, turn, i < 4 ? 4 : 2, 0);
        }
        fit.epochs = 150, fit.batch_size = 6, fit.learning_rate = 1e-2f;
        if (!status && !random) status = ppo_fit_sft(lm, &chats, &fit);
        if (!status) status = ppo_lm_save(lm, folder, PPO_F32);
        ppo_lm_free(lm);
    }
    if (status) fprintf(stderr, "%s\n", ppo_last_error());
    ppo_tokens_free(&chats);
    ppo_tokenizer_free(tokenizer);
    return status != PPO_OK;
}
