/* auto_classes.c - what auto_classes.sh compares Python's transformers with. Prints for each line of stdin its tokens, and the
   logits after the last one, or the score; as JSON.
       auto_classes FOLDER [ADAPTER] <texts
       auto_classes chat FOLDER FORM  the tokens of a chat
       auto_classes make FOLDER       saves a model and its tokenizer by the library alone */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "companions/ppo_chat.h"

static int fails(void) { return fprintf(stderr, "auto_classes: %s\n", ppo_last_error()), 1; }

/* The tokens of a chat, up to the answer. */
static int chat(const char *folder, const char *form) {
    static const ppo_message said[] = {
        {"system", "the dog"}, {"user", " the cat "}, {"assistant", "ran."}, {"user", "sat"}};
    ppo_tokenizer *tok = NULL;
    ppo_tokens tokens = {0};
    if (ppo_tokenizer_load(folder, &tok) || ppo_tokens_add_chat(&tokens, tok, atoi(form), said, 4, 1))
        return fails();
    for (int i = 0; i < tokens.start[1]; i++) printf("%d ", tokens.token[i]);
    return ppo_tokens_free(&tokens), ppo_tokenizer_free(tok), 0;
}

static int make(const char *folder) {
    static const char text[] = "The cat sat on a mat and the dog ran. The cat ran, and the dog sat.";
    const char *specials[] = {"<eos>", "<pad>"};
    ppo_lm_config config = ppo_lm_config_default();
    ppo_tokenizer *tok = NULL;
    ppo_lm *lm = NULL;
    if (ppo_tokenizer_train(text, sizeof text - 1, 270, specials, 2, &tok)) return fails();
    if (ppo_lm_config_family(&config, "llama")) return fails();
    config.vocab = ppo_tokenizer_vocab(tok);
    config.eos = ppo_tokenizer_special(tok, "<eos>");
    config.context = config.width = 32;
    config.heads = 4;
    config.layers = 1;
    config.score = 1;
    if (ppo_lm_create(&config, &lm) || ppo_lm_save(lm, folder, PPO_F32) || ppo_tokenizer_save(tok, folder))
        return fails();
    return ppo_lm_free(lm), ppo_tokenizer_free(tok), 0;
}

int main(int argc, char **argv) {
    ppo_lm *base = NULL, *lm = NULL;
    ppo_tokenizer *tok = NULL;
    ppo_tape *tape = NULL;
    char line[1024];
    if (argc == 3 && !strcmp(argv[1], "make")) return make(argv[2]);
    if (argc == 4 && !strcmp(argv[1], "chat")) return chat(argv[2], argv[3]);
    if (argc < 2 || ppo_lm_load(argv[1], &base) || ppo_tokenizer_load(argv[argc - 1], &tok)) return fails();
    lm = base;
    if (argc > 2 && ppo_lm_load_adapter(argv[2], base, &lm)) return fails();
    if (ppo_tape_create(&tape)) return fails();
    while (fgets(line, sizeof line, stdin)) {
        int ids[1024], n;
        ppo_tokens tokens = {0};
        line[strcspn(line, "\n")] = 0;
        if (ppo_encode_as(tok, PPO_ENCODE_SPECIALS | PPO_ENCODE_BOUNDS, line, strlen(line), ids, 1024, &n))
            return fails();
        if (ppo_tokens_add(&tokens, ids, n, 0)) return fails();
        ppo_tape_record(tape, 0);
        ppo_tensor *x = ppo_lm_forward(tape, lm, &tokens);
        x = lm->config.score ? ppo_lm_score(tape, lm, x) : ppo_lm_logits(tape, lm, x);
        if (!x) return fails();
        printf("{\"ids\": [");
        for (int i = 0; i < n; i++) printf(i ? ", %d" : "%d", ids[i]);
        printf("], \"out\": [");
        for (int i = 0; i < x->cols; i++) printf(i ? ", %.7g" : "%.7g", x->data[(x->rows - 1) * x->cols + i]);
        printf("]}\n");
        ppo_tokens_free(&tokens);
    }
    ppo_tape_free(tape);
    if (lm != base) ppo_lm_free(lm);
    ppo_lm_free(base);
    ppo_tokenizer_free(tok);
    return 0;
}
