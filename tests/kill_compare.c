/* For kill.sh. With one checkpoint: prints how many steps it has. With two: do they hold the same? The seconds that a
   run took, and the checksum that these change, do not count. With "fit" and a checkpoint: fine-tunes a model. */
#include "../ppo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ppo_file *read_file(const char *path) {
    ppo_file *file = NULL;
    if (ppo_file_read(path, &file) == PPO_OK) return file;
    printf("%s\n", ppo_last_error());
    exit(2);
}

/* 300 steps, and a checkpoint after each; prints the seconds. */
static int fit(const char *path) {
    ppo_lm_config shape = ppo_lm_config_default();
    ppo_fit_config c = ppo_fit_config_default();
    ppo_rng rng = ppo_rng_stream(1, PPO_STREAM_USER, 0);
    ppo_tokens text = {0};
    ppo_lm *lm = NULL;
    double began = ppo_clock();
    int token[2000];
    for (int i = 0; i < 2000; i++) token[i] = i ? (token[i - 1] + ppo_rng_below(&rng, 3)) % 16 : 0;
    shape.vocab = 16, shape.width = 16, shape.layers = 1, shape.context = 16;
    c.window = 16, c.random_windows = 1, c.batch_size = 8, c.steps = 300;
    c.held_out = &text, c.patience = 100, c.evaluate_every = 50, c.checkpoint = path, c.checkpoint_every = 1;
    if (!ppo_tokens_add(&text, token, 2000, 0) && !ppo_lm_create(&shape, &lm) && !ppo_fit_sft(lm, &text, &c))
        return printf("%.3f\n", ppo_clock() - began) < 0;
    return printf("%s\n", ppo_last_error()), 1;
}

static int differ(const char *name) { return printf("%s differs\n", name), 1; }

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    if (!strcmp(argv[1], "fit")) return fit(argv[2]);
    ppo_file *a = read_file(argv[1]), *b = read_file(argv[argc - 1]);
    if (argc == 2) {
        const ppo_array *trainer = ppo_file_find(a, "trainer.counters"),
                        *fit = ppo_file_find(a, "fit.counters");
        const int64_t *step = trainer ? (const int64_t *)trainer->data + 1
                              : fit   ? (const int64_t *)fit->data
                                      : NULL;
        return step ? printf("%ld\n", (long)*step) < 0 : 2;
    }
    int wrong = ppo_file_count(a) != ppo_file_count(b), texts = 0;
    for (; ppo_file_key_at(a, texts); texts++) {
        const char *key = ppo_file_key_at(a, texts), *text = ppo_file_text(b, key);
        if (!strcmp(key, "checksum") || !strcmp(key, "threads")) continue;
        if (!text || strcmp(text, ppo_file_text(a, key)) != 0) wrong = differ(key);
    }
    wrong |= ppo_file_key_at(b, texts) != NULL;
    for (int i = 0; i < ppo_file_count(a); i++) {
        const ppo_array *x = ppo_file_at(a, i), *y = ppo_file_find(b, x->name);
        if (!strcmp(x->name, "trainer.seconds") || !strcmp(x->name, "fit.seconds")) continue;
        if (!y || y->type != x->type || y->bytes != x->bytes || memcmp(x->data, y->data, x->bytes) != 0)
            wrong = differ(x->name);
    }
    return wrong;
}
