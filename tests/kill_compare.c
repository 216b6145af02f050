/* For kill.sh. With one checkpoint: prints how many steps it has. With two: do they hold the same? The seconds that a
   run took, and the checksum that these change, do not count. */
#define PPO_IMPLEMENTATION
#include "../ppo.h"

static ppo_file *read_file(const char *path) {
    ppo_file *file = NULL;
    if (ppo_file_read(path, &file) == PPO_OK) return file;
    printf("%s\n", ppo_last_error());
    exit(2);
}

static int differ(const char *name) { return printf("%s differs\n", name), 1; }

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    ppo_file *a = read_file(argv[1]), *b = read_file(argv[argc - 1]);
    if (argc == 2) {
        const ppo_array *counters = ppo_file_find(a, "trainer.counters");
        return counters && counters->bytes == 40
                   ? printf("%ld\n", (long)((const int64_t *)counters->data)[1]) < 0
                   : 2;
    }
    int wrong = ppo_file_count(a) != ppo_file_count(b) || ppo_file_text_count(a) != ppo_file_text_count(b);
    for (int i = 0; i < ppo_file_text_count(a); i++) {
        const char *key = ppo_file_key_at(a, i), *text = ppo_file_text(b, key);
        if (!strcmp(key, "checksum") || !strcmp(key, "threads")) continue;
        if (!text || strcmp(text, ppo_file_text(a, key)) != 0) wrong = differ(key);
    }
    for (int i = 0; i < ppo_file_count(a); i++) {
        const ppo_array *x = ppo_file_at(a, i), *y = ppo_file_find(b, x->name);
        if (!strcmp(x->name, "trainer.seconds")) continue;
        if (!y || y->type != x->type || y->bytes != x->bytes || memcmp(x->data, y->data, x->bytes) != 0)
            wrong = differ(x->name);
    }
    return wrong;
}
