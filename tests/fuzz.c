/* fuzz.c - libFuzzer for the targets of fuzz.h; fuzz.sh runs it. FUZZ_TARGET names one. FUZZ_DO is something else to do:
   list: prints the targets; seed FOLDER: writes the inputs to begin with, and the kept ones, as files; keep FOLDER
   BYTES: writes the smallest of the files in there to tests/golden/corpus/, as about that many bytes of text; found
   FILE: adds that to tests/golden/corpus/found/. */

/* Files that are written again and again need not reach the disk. */
#include <unistd.h>
#define fsync(descriptor) ((void)(descriptor), 0)
#define PPO_IMPLEMENTATION
#include "../ppo.h"
#undef fsync
#include "../examples/companions/ppo_bpe.h"
#include "../examples/companions/ppo_check.h"
#include "../examples/companions/ppo_conv.h"
#include "../examples/companions/ppo_export.h"
#include "../examples/companions/ppo_gru.h"
#include "../examples/companions/ppo_gguf.h"
#include "../examples/companions/ppo_chat.h"
#include "../examples/companions/ppo_hub.h"
#include "../examples/companions/ppo_methods.h"
#include "../examples/companions/ppo_judge.h"
#include "../examples/companions/ppo_report.h"
#include "../examples/companions/ppo_resume.h"

#define FUZZ_FAIL(text) (fprintf(stderr, "%s\n", text), abort())
#include "fuzz.h"
#include "odd_texts.h"
#include "corpus.h"

size_t LLVMFuzzerMutate(unsigned char *data, size_t size, size_t most);
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
size_t LLVMFuzzerCustomMutator(unsigned char *data, size_t size, size_t most, unsigned seed);

static const fuzz_target *target;

/* --------------------------------------------------------------------------------------------------------
   Mutators
   -------------------------------------------------------------------------------------------------------- */

static ppo_rng rng; /* of one mutation */

static int below(size_t n) { return n ? ppo_rng_below(&rng, (int)n) : 0; }

static const char *word(void) { return odd_texts[below(FUZZ_COUNT(odd_texts))]; }

static const char *value(void) {
    static const char *const values[] = {
        "null",
        "true",
        "false",
        "[]",
        "{}",
        "\"\"",
        "\"a\"",
        "\"\\u0000\"",
        "\"\\ud800\"",
        "\"\xff\"",
        "[1,2]",
        "{\"a\":1}",
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]",
        "\"<eos>\"",
        "[0,1,2,3,4,5,6,7,8,9]",
        "[[0],[1]]",
        "[-1]",
        "\"F32\"",
        "\"BF16\"",
        "\"F64\"",
        "[3,4]",
        "[0,0]",
        "[0,4611686018427387904]"};
    return below(3) ? word() : values[below(FUZZ_COUNT(values))];
}

/* Replaces `cut` bytes at `at` by a text. Returns the new size; the old one if there is no room. */
static size_t replace(unsigned char *data, size_t size, size_t most, size_t at, size_t cut, const void *by,
                      size_t n) {
    if (at + cut > size || size - cut + n > most) return size;
    memmove(data + at + n, data + at + cut, size - at - cut);
    memcpy(data + at, by, n);
    return size - cut + n;
}

/* Where the JSON value at `at` ends. */
static size_t json_end(const unsigned char *data, size_t size, size_t at) {
    int depth = 0;
    for (; at < size; ++at) {
        if (data[at] == '"') {
            for (++at; at < size && data[at] != '"'; ++at) at += data[at] == '\\';
            if (!depth) return at < size ? at + 1 : size;
        } else if (data[at] == '{' || data[at] == '[') ++depth;
        else if (data[at] == '}' || data[at] == ']') {
            if (--depth <= 0) return depth < 0 ? at : at + 1;
        } else if (!depth && (data[at] == ',' || data[at] == '\n')) return at;
    }
    return size;
}

/* Where a value begins, after a random place. */
static size_t json_value(const unsigned char *data, size_t size) {
    size_t at = (size_t)below(size);
    while (at < size && !strchr(":,[{", data[at])) ++at;
    while (at < size && strchr(":,[{ \n", data[at])) ++at;
    return at;
}

static size_t mutate_json(unsigned char *data, size_t size, size_t most) {
    static char copy[1 << 16];
    size_t at = size ? json_value(data, size) : 0, end = json_end(data, size, at), from, to;
    if (at == size) return LLVMFuzzerMutate(data, size, most); /* there is none */
    const char *text = value();
    switch (below(8)) {
    case 0:
    case 1:
        return replace(data, size, most, at, end - at, text, strlen(text)); /* another value */
    case 2:                                                                 /* that of another place */
        from = json_value(data, size), to = json_end(data, size, from);
        if (to - from > sizeof copy) return size;
        memcpy(copy, data + from, to - from);
        return replace(data, size, most, at, end - at, copy, to - from);
    case 3: { /* another number */
        for (from = (size_t)below(size); from < size && (data[from] < '0' || data[from] > '9'); ++from)
            continue;
        for (to = from; to < size && data[to] >= '0' && data[to] <= '9'; ++to) continue;
        if (from == to || to - from > 18) return size;
        memcpy(copy, data + from, to - from), copy[to - from] = 0;
        const int64_t old = atoll(copy), other[] = {old + 1, old - 1, 2 * old, -old, below(300), old / 2};
        snprintf(copy, sizeof copy, "%lld", (long long)other[below(6)]);
        return replace(data, size, most, from, to - from, copy, strlen(copy));
    }
    case 4: /* without a value, and what is before it up to a comma */
        for (from = at; from > 0 && data[from] != ',' && at - from < 200; --from) continue;
        return replace(data, size, most, from, end - from, "", 0);
    case 5: /* twice */
        for (from = at; from > 0 && data[from] != ',' && at - from < 200; --from) continue;
        if (data[from] != ',' || end - from > sizeof copy) return size;
        memcpy(copy, data + from, end - from);
        return replace(data, size, most, end, 0, copy, end - from);
    case 6:
        return replace(data, size, most, at, 0, text, strlen(text));
    default:
        return LLVMFuzzerMutate(data, size, most);
    }
}

static size_t mutate_settings(unsigned char *data, size_t size, size_t most) {
    const ppo_settings *const tables[] = {ppo_config_settings(), ppo_config_settings(), ppo_rlhf_settings(),
                                          ppo_fit_settings(), ppo_lm_settings()};
    const ppo_settings *all = tables[below(target->head ? 2 : FUZZ_COUNT(tables))];
    const ppo_field *field = &all->field[below((size_t)all->count)];
    char text[300], choice[100];
    if (below(4) == 0) return LLVMFuzzerMutate(data, size, most);
    const char *is = word();
    if (field->choices && below(4)) {
        const char *at = field->choices;
        for (int k = below(6); k > 0 && strchr(at, '|'); --k) at = strchr(at, '|') + 1;
        snprintf(choice, sizeof choice, "%.*s", (int)strcspn(at, "|"), at);
        is = choice;
    } else if (below(4) == 0) {
        snprintf(choice, sizeof choice, "%.9g", below(2) ? field->min : field->max);
        is = choice;
    }
    snprintf(text, sizeof text, " %s=%s", field->name, is);
    size_t at = (size_t)below(size + 1), end = at;
    while (at > 0 && at < size && data[at] != ' ') --at;
    for (end = at + (at < size); end < size && data[end] != ' '; ++end) continue;
    return replace(data, size, most, at, below(2) ? end - at : 0, text, strlen(text));
}

static double any_number(void) {
    static const double numbers[] = {0,
                                     1,
                                     -1,
                                     2,
                                     3,
                                     4,
                                     5,
                                     9,
                                     10,
                                     255,
                                     0.5,
                                     1e-45,
                                     1e-300,
                                     3e38,
                                     -3e38,
                                     1e300,
                                     NAN,
                                     1e10,
                                     9.2e18,
                                     -9.2e18,
                                     4294967295.0,
                                     2147483647,
                                     -2147483648.0,
                                     INFINITY,
                                     -INFINITY};
    return below(4) ? numbers[below(FUZZ_COUNT(numbers))] : (double)ppo_rng_normal(&rng);
}

static void poke(char *data, ppo_dtype type, size_t i, double x) {
    static const int sizes[] = {1, 1, 2, 2, 4, 4, 4, 8, 8, 8};
    const double whole = x != x ? 0 : x > 9e18 ? 9e18 : x < -9e18 ? -9e18 : x;
    const float single = x > 3e38 ? INFINITY : x < -3e38 ? -INFINITY : (float)x;
    const int64_t number = (int64_t)whole;
    uint32_t bits;
    memcpy(&bits, &single, 4);
    const uint16_t upper = (uint16_t)(bits >> 16);
    const void *from = type == PPO_F32   ? (const void *)&single
                       : type == PPO_F64 ? (const void *)&x
                                         : (const void *)&number;
    if (type == PPO_BF16 || type == PPO_F16) from = &upper;
    memcpy(data + i * (size_t)sizes[type], from, (size_t)sizes[type]);
}

/* Changes a text or an array of a file, and writes a file that follows the format. 0: it cannot be read as it is. */
static size_t mutate_arrays(unsigned char *data, size_t size, size_t most) {
    static const int sizes[] = {1, 1, 2, 2, 4, 4, 4, 8, 8, 8};
    enum { ROOM = 1 << 16 };
    static char changed[ROOM];
    const char *path = fuzz_path("mutant.st");
    ppo_file *file = NULL, *made = NULL;
    int texts = 0;
    fuzz_put(path, data, size);
    if (ppo_file_read(path, &file) || ppo_file_create(&made)) return ppo_file_free(file), 0;
    while (ppo_file_key_at(file, texts)) ++texts;
    const int text = below(3) == 0 || !ppo_file_count(file) ? below((size_t)texts) : -1;
    const int array = text < 0 || below(8) == 0 ? below((size_t)ppo_file_count(file)) : -1;
    for (int i = 0; i < texts; ++i) {
        const char *key = ppo_file_key_at(file, i), *is = ppo_file_text(file, key);
        char number[32];
        snprintf(number, sizeof number, "%lld",
                 (long long)((uint64_t)atoll(is) * (1 + (uint64_t)below(2)) + (uint64_t)below(5) - 2));
        if (i != text) ppo_file_set_text(made, key, is);
        else if (below(8)) ppo_file_set_text(made, key, below(3) ? word() : number);
        else if (below(2)) ppo_file_set_text(made, word(), is);
    }
    for (int i = 0; i < ppo_file_count(file); ++i) {
        ppo_array a = *ppo_file_at(file, i);
        if (i == array && a.bytes <= ROOM) {
            int what = below(12), at = a.rank ? below((size_t)a.rank) : 0;
            memset(changed, 0, sizeof changed);
            memcpy(changed, a.data, a.bytes);
            a.data = changed;
            if (what == 0) continue;
            if (what == 1) a.type = (ppo_dtype)below(10);
            if (what == 2 && a.rank) a.shape[at] = below(10);
            if (what == 3 && a.rank) a.shape[at] += below(3) - 1;
            if (what == 4) a.rank = below(4);
            if (what == 4)
                for (int k = ppo_file_at(file, i)->rank; k < a.rank; ++k) a.shape[k] = 1 + below(2);
            if (what > 4 && a.bytes)
                for (int n = 1 + below(3); n > 0; --n)
                    poke(changed, a.type, (size_t)below(a.bytes / (size_t)sizes[a.type]), any_number());
            if (what == 11) ppo_file_add(made, word(), a.type, a.shape, a.rank, a.data);
            double bytes = sizes[a.type];
            for (int k = 0; k < a.rank; ++k) bytes *= (double)a.shape[k];
            if (bytes < 0 || bytes > ROOM) a.shape[0] = 0;
        }
        ppo_file_add(made, a.name, a.type, a.shape, a.rank, a.data);
    }
    size_t n = 0;
    if (!ppo_file_write(made, path)) {
        char *bytes = fuzz_get(path, &n);
        if (n > most) n = 0;
        memcpy(data, bytes, n);
        free(bytes);
    }
    ppo_file_free(file);
    ppo_file_free(made);
    return n;
}

/* The header of a file, as text. */
static size_t mutate_header(unsigned char *data, size_t size, size_t most) {
    uint64_t length = 0;
    static unsigned char header[1 << 16];
    for (int k = 0; k < 8 && size >= 8; ++k) length |= (uint64_t)data[k] << 8 * k;
    if (size < 8 || length > size - 8 || length > sizeof header / 2)
        return LLVMFuzzerMutate(data, size, most);
    memcpy(header, data + 8, (size_t)length);
    const size_t now = mutate_json(header, (size_t)length, sizeof header);
    const size_t n = replace(data, size, most, 8, (size_t)length, header, now);
    if (n != size || now == length)
        for (int k = 0; k < 8; ++k) data[k] = (unsigned char)((uint64_t)now >> 8 * k);
    return n;
}

size_t LLVMFuzzerCustomMutator(unsigned char *data, size_t size, size_t most, unsigned seed) {
    const size_t head = (size_t)target->head;
    rng = ppo_rng_stream(seed, PPO_STREAM_USER, 1);
    if (size < head || most <= head) return LLVMFuzzerMutate(data, size, most);
    if (head && below(head > 1 ? 2 : 20) == 0) return data[below(head)] = (unsigned char)below(256), size;
    unsigned char *body = data + head;
    size_t n = size - head, made = 0;
    for (int times = 1 + below(3); times > 0; --times, n = made) {
        made = 0;
        if (target->form == FUZZ_ARRAYS && below(6)) made = mutate_arrays(body, n, most - head);
        if (target->form == FUZZ_ARRAYS && !made && below(2)) made = mutate_header(body, n, most - head);
        if (target->form == FUZZ_JSON) /* some of which are files of arrays */
            made = n > 9 && !body[7] && body[8] == '{' ? mutate_arrays(body, n, most - head)
                                                       : mutate_json(body, n, most - head);
        if (target->form == FUZZ_SETTINGS) made = mutate_settings(body, n, most - head);
        if (!made) made = LLVMFuzzerMutate(body, n, most - head);
    }
    return head + n;
}

/* --------------------------------------------------------------------------------------------------------
   libFuzzer's functions, and what fuzz.sh asks for
   -------------------------------------------------------------------------------------------------------- */

static void write_seed(void *user, const void *data, size_t size) {
    static int count;
    char path[300];
    snprintf(path, sizeof path, "%s/seed-%03d", (const char *)user, count++);
    fuzz_put(path, data, size);
}

static void run_one(void *user, const void *data, size_t size) {
    (void)user;
    fuzz_run(target, (const unsigned char *)data, size);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    const char *what = getenv("FUZZ_DO"), *name = getenv("FUZZ_TARGET");
    (void)argc;
    for (int k = 0; k < FUZZ_COUNT(fuzz_targets); ++k) {
        if (what && !strcmp(what, "list")) printf("%s %d\n", fuzz_targets[k].name, fuzz_targets[k].most);
        if (name && !strcmp(name, fuzz_targets[k].name)) target = &fuzz_targets[k];
    }
    if (what && !strcmp(what, "list")) exit(0);
    if (!target) fprintf(stderr, "FUZZ_TARGET is none of the targets\n"), exit(1);
    fuzz_open();
    atexit(fuzz_close);
    if (what && !strcmp(what, "seed")) {
        target->seed(write_seed, (*argv)[1]);
        corpus_read("tests/golden/corpus", target->name, write_seed, (*argv)[1]);
        corpus_read("tests/golden/corpus/found", target->name, write_seed, (*argv)[1]);
        exit(0);
    }
    if (what && !strcmp(what, "keep")) {
        corpus_keep("tests/golden/corpus", target->name, (*argv)[1], atol((*argv)[2]));
        exit(0);
    }
    if (what && !strcmp(what, "found")) {
        corpus_add("tests/golden/corpus/found", target->name, (*argv)[1]);
        exit(0);
    }
    target->seed(run_one, NULL); /* what is made once is there, and no leak */
    return 0;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    fuzz_run(target, data, size);
    return 0;
}
