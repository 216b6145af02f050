/* doors_gguf.c - what doors_gguf.sh compares with llama.cpp and the package gguf.
       doors_gguf make FAMILY SETTINGS TOKENIZER FILE TYPE   a model whose numbers are all random
       doors_gguf copy FROM FILE TYPE                        reads a model and its tokenizer, and writes them
       doors_gguf say FILE N <ids        N tokens after a prompt, the most likely ones, and the logits before and after them
       doors_gguf tokens FILE <texts     the tokens of each line, and its text again
   TYPE: the number of a ppo_gguf_type. FROM: a file or a folder. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "companions/ppo_gguf.h"

static int fails(void) { return fprintf(stderr, "doors_gguf: %s\n", ppo_last_error()), 1; }

static int make(char **argument) {
    ppo_lm_config config = ppo_lm_config_default();
    ppo_rng rng = ppo_rng_stream(7, PPO_STREAM_USER, 0);
    ppo_tokenizer *tok = NULL;
    ppo_lm *lm = NULL;
    if (ppo_tokenizer_load(argument[2], &tok)) return fails();
    config.vocab = ppo_tokenizer_vocab(tok);
    if (ppo_lm_config_family(&config, argument[0]) ||
        ppo_settings_set_all(ppo_lm_settings(), &config, argument[1]) || ppo_lm_create(&config, &lm))
        return fails();
    for (size_t i = 0; i < lm->params->count; ++i) lm->params->data[i] += 0.15f * ppo_rng_normal(&rng);
    if (ppo_gguf_save(lm, tok, "{{ messages }}", (ppo_gguf_type)atoi(argument[4]), argument[3]))
        return fails();
    return ppo_lm_free(lm), ppo_tokenizer_free(tok), 0;
}

static int copy(char **argument) {
    ppo_tokenizer *tok = NULL;
    ppo_lm *lm = NULL;
    if (ppo_lm_load(argument[0], &lm) || ppo_tokenizer_load(argument[0], &tok) ||
        ppo_gguf_save(lm, tok, NULL, (ppo_gguf_type)atoi(argument[2]), argument[1]))
        return fails();
    return ppo_lm_free(lm), ppo_tokenizer_free(tok), 0;
}

/* The logits after the last of n tokens. */
static const ppo_tensor *last_logits(ppo_tape *tape, const ppo_lm *lm, const int *ids, int n) {
    static ppo_tokens tokens;
    ppo_tokens_clear(&tokens);
    if (ppo_tokens_add(&tokens, ids, n, 0)) return NULL;
    ppo_tape_record(tape, 0);
    return ppo_lm_logits(tape, lm, ppo_lm_forward(tape, lm, &tokens));
}

static int say(char **argument) {
    ppo_lm *lm = NULL;
    ppo_tape *tape = NULL;
    int ids[1024], n = 0;
    const int more = atoi(argument[1]);
    if (ppo_lm_load(argument[0], &lm) || ppo_tape_create(&tape)) return fails();
    while (n < 512 && scanf("%d", &ids[n]) == 1) n++;
    for (int k = 0; k <= more; k++) {
        const ppo_tensor *x = last_logits(tape, lm, ids, n);
        int best = 0;
        if (!x) return fails();
        const float *row = x->data + (size_t)(x->rows - 1) * (size_t)x->cols;
        for (int i = 1; i < x->cols; i++)
            if (row[i] > row[best]) best = i;
        printf("%d", best);
        for (int i = 0; i < x->cols; i++) printf(" %.7g", (double)row[i]);
        printf("\n");
        ids[n++] = best;
    }
    return ppo_tape_free(tape), ppo_lm_free(lm), 0;
}

static int tokens(char **argument) {
    ppo_tokenizer *tok = NULL;
    static char line[1 << 16], text[1 << 18];
    if (ppo_tokenizer_load(argument[0], &tok)) return fails();
    while (fgets(line, sizeof line, stdin)) {
        static int ids[1 << 16];
        int n;
        line[strcspn(line, "\n")] = 0;
        for (char *at = line; (at = strchr(at, 1)) != NULL;) *at = '\n'; /* stands for a line's end */
        if (ppo_encode_as(tok, PPO_ENCODE_SPECIALS | PPO_ENCODE_BOUNDS, line, strlen(line), ids, 1 << 16,
                          &n) ||
            ppo_decode(tok, ids, n, text, sizeof text, NULL))
            return fails();
        for (int i = 0; i < n; i++) printf("%d ", ids[i]);
        for (char *at = text; (at = strchr(at, '\n')) != NULL;) *at = 1;
        printf("|%s\n", text);
    }
    return ppo_tokenizer_free(tok), 0;
}

int main(int argc, char **argv) {
    if (argc == 7 && !strcmp(argv[1], "make")) return make(argv + 2);
    if (argc == 5 && !strcmp(argv[1], "copy")) return copy(argv + 2);
    if (argc == 4 && !strcmp(argv[1], "say")) return say(argv + 2);
    if (argc == 3 && !strcmp(argv[1], "tokens")) return tokens(argv + 2);
    return fprintf(stderr, "doors_gguf: see the first lines of tests/doors_gguf.c\n"), 2;
}
