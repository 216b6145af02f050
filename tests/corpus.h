/* corpus.h - inputs kept as text: an entry is a line, which a backslash at its end continues. \\ is a backslash, \n a
   line feed, \xHH a byte, \zN; N zero bytes. Lines that begin with # are comments. */
#ifndef PPO_TEST_CORPUS_H
#define PPO_TEST_CORPUS_H

/* Gives each entry of FOLDER/NAME.txt, if there is one. Returns how many. */
static int corpus_read(const char *folder, const char *name, fuzz_give give, void *user) {
    static unsigned char data[1 << 17];
    char path[300];
    int count = 0;
    snprintf(path, sizeof path, "%s/%s.txt", folder, name);
    FILE *file = fopen(path, "rb");
    for (int c = file ? getc(file) : EOF; c != EOF; c = getc(file)) {
        size_t n = 0;
        const int comment = c == '#';
        for (; c != '\n' && c != EOF && n + 1 < sizeof data; c = getc(file)) {
            unsigned number = 0;
            if (c == '\\' && !comment) {
                c = getc(file);
                if (c == '\n') continue;
                if (c == 'z' && fscanf(file, "%u;", &number) == 1)
                    for (; number && n + 1 < sizeof data; --number) data[n++] = 0;
                else if (c == 'x' && fscanf(file, "%2x", &number) == 1) data[n++] = (unsigned char)number;
                else data[n++] = (unsigned char)(c == 'n' ? '\n' : c);
            } else data[n++] = (unsigned char)c;
        }
        if (!comment) give(user, data, n), ++count;
    }
    if (file) fclose(file);
    return count;
}

static void corpus_write(FILE *file, const unsigned char *data, size_t size) {
    for (size_t i = 0, column = 0, zeros; i < size; ++i) {
        for (zeros = 0; i + zeros < size && !data[i + zeros]; ++zeros) continue;
        const int printed =
            data[i] >= 32 && data[i] < 127 && data[i] != '\\' && !(column == 0 && data[i] == '#');
        if (zeros > 1) column += (size_t)fprintf(file, "\\z%zu;", zeros), i += zeros - 1;
        else if (data[i] == '\\' || data[i] == '\n')
            column += (size_t)fprintf(file, "\\%c", data[i] == '\n' ? 'n' : '\\');
        else column += (size_t)fprintf(file, printed ? "%c" : "\\x%02x", data[i]);
        if (column > 100 && i + 1 < size) fputs("\\\n", file), column = 0;
    }
    putc('\n', file);
}

/* Adds a file to FOLDER/NAME.txt. */
static inline void corpus_add(const char *folder, const char *name, const char *input) {
    char path[300];
    size_t n;
    char *data = fuzz_get(input, &n);
    snprintf(path, sizeof path, "%s/%s.txt", folder, name);
    FILE *file = fopen(path, "ab");
    if (!file) FUZZ_FAIL("the corpus cannot be written");
    corpus_write(file, (const unsigned char *)data, n);
    fclose(file);
    free(data);
}

/* The smallest of the files in `inputs`, until the text has `room` bytes, become FOLDER/NAME.txt. */
static inline void corpus_keep(const char *folder, const char *name, const char *inputs, long room) {
    struct dirent **entry;
    char path[600];
    size_t sizes[4096];
    int count = scandir(inputs, &entry, NULL, alphasort), kept = 0, all = 0;
    snprintf(path, sizeof path, "%s/%s.txt", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || count < 0) FUZZ_FAIL("the corpus cannot be written");
    for (int k = 0; k < count; ++k) {
        struct stat about;
        snprintf(path, sizeof path, "%s/%s", inputs, entry[k]->d_name);
        if (k >= 4096 || stat(path, &about) || !S_ISREG(about.st_mode)) sizes[k] = SIZE_MAX;
        else sizes[k] = (size_t)about.st_size, ++all;
    }
    for (;;) {
        int least = -1;
        size_t n;
        for (int k = 0; k < count; ++k)
            if (sizes[k] != SIZE_MAX && (least < 0 || sizes[k] < sizes[least])) least = k;
        if (least < 0 || ftell(file) > room) break;
        sizes[least] = SIZE_MAX;
        snprintf(path, sizeof path, "%s/%s", inputs, entry[least]->d_name);
        char *data = fuzz_get(path, &n);
        corpus_write(file, (const unsigned char *)data, n);
        free(data);
        ++kept;
    }
    printf("%s: %d of %d inputs are kept, in %ld bytes\n", name, kept, all, ftell(file));
    fclose(file);
    for (int k = 0; k < count; ++k) free(entry[k]);
    free(entry);
}

#endif
