/* Section 6: the container. Files of Python's package are in golden/files.h (made by golden/make_files.py).
   PPO_FUZZ=100000 sets how many damaged files the last test tries. */

/* The calls on which it depends that nothing is lost are watched, and fail when they are told to. */
#include <stdio.h>
#include <unistd.h>
static int watched_fsync(int descriptor);
static int watched_fclose(FILE *file);
static int watched_fseek(FILE *file, long offset, int whence);
static int watched_rename(const char *from, const char *to);
#define fclose watched_fclose
#define fseek  watched_fseek
#define fsync  watched_fsync
#define rename watched_rename

#define PPO_NO_LANGUAGE
#define PPO_NO_REPORTS
#define PPO_NO_CONTROL
#define PPO_IMPLEMENTATION
#include "../ppo.h"

#undef fclose
#undef fseek
#undef fsync
#undef rename

#include "test.h"
#include "system.h"

#include "golden/files.h"

/* The program works in a folder of its own, so that paths are names. */
#define PATH "policy.safetensors"

enum { ROOM = 1 << 16 };

static char home[64] = "/tmp/test_files.XXXXXX";
static int free_descriptor; /* the lowest: it stays free if every file is closed */

static int lowest_descriptor(void) {
    int lowest = dup(0);
    close(lowest);
    return lowest;
}

static void put(const char *path, const void *bytes, size_t n) {
    remove(path); /* some file systems wait for the disk when a file is cut to nothing and written again */
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
}

static size_t get(const char *path, unsigned char *bytes) {
    FILE *in = fopen(path, "rb");
    if (!in) fail_msg("%s is not there", path);
    size_t n = fread(bytes, 1, ROOM, in);
    fclose(in);
    return n;
}

/* The whole of a file: length, header, then `n` bytes of data, 0, 1, 2, ... */
static size_t compose(unsigned char *file, const char *header, size_t length, int n) {
    for (int k = 0; k < 8; k++) file[k] = (unsigned char)((uint64_t)length >> 8 * k);
    memcpy(file + 8, header, length);
    for (int i = 0; i < n; i++) file[8 + length + (size_t)i] = (unsigned char)i;
    return 8 + length + (size_t)n;
}

static void assert_file_is(const char *path, const void *bytes, size_t n) {
    static unsigned char found[ROOM];
    assert_int_equal(get(path, found), n);
    assert_memory_equal(found, bytes, n);
}

static int files_in_folder(void) {
    int count = 0;
    DIR *folder = opendir(".");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
    closedir(folder);
    return count;
}

static int empty_folder(void **state) {
    (void)state;
    DIR *folder = opendir(".");
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) remove(entry->d_name);
    if (folder) closedir(folder);
    ppo_set_allocator(NULL, NULL);
    return lowest_descriptor() - free_descriptor;
}

static int add_one(ppo_file *file, const char *name, int type, int64_t size, const void *data) {
    return ppo_file_add(file, name, type, &size, 1, data);
}

/* --- What is in golden/files.h, "contents" ------------------------------------------------------------- */

static const float weight[6] = {1.5f, -0.0f, INFINITY, FLT_MIN, FLT_MAX, -0.1f}, bias[2] = {0.25f, -8};
static const double eight[2] = {0.1, -1e300};
static const int32_t ints[4] = {INT32_MIN, -1, 0, INT32_MAX};
static const uint32_t uints[1] = {UINT32_MAX};
static const int64_t longs[2] = {INT64_MIN, INT64_MAX};
static const uint64_t steps[1] = {UINT64_MAX};
static const uint8_t bytes[3] = {0, 1, 255}, seven[1] = {7};

static const char note[] = "\1\2\3\4\5\6\7\b\t\n\v\f\r\16\17\20\21\22\23\24\25\26\27\30\31\32\33\34\35\36\37"
                           "\"\\/\177\303\251\342\202\254\360\237\230\200";

static const struct {
    const char *name;
    int type, rank;
    int64_t shape[PPO_MAX_RANK];
    const void *data;
    size_t bytes;
} contents[] = {{"actor.0.weight", PPO_F32, 2, {3, 2}, weight, sizeof weight},
                {"actor.0.bias", PPO_F32, 1, {2}, bias, sizeof bias},
                {"steps", PPO_U64, 0, {0}, steps, sizeof steps},
                {"long", PPO_I64, 1, {2}, longs, sizeof longs},
                {"eight", PPO_F64, 8, {1, 1, 1, 2, 1, 1, 1, 1}, eight, sizeof eight},
                {"int", PPO_I32, 2, {2, 2}, ints, sizeof ints},
                {"unsigned", PPO_U32, 1, {1}, uints, sizeof uints},
                {"bytes", PPO_U8, 1, {3}, bytes, sizeof bytes},
                {"none", PPO_F32, 2, {0, 3}, NULL, 0},
                {"no bytes", PPO_U8, 1, {0}, NULL, 0},
                {"\"quoted\" \\ / gr\303\266\303\237e", PPO_U8, 1, {1}, seven, sizeof seven}};

/* In that order, or in a shuffled one. */
static ppo_status make_contents(ppo_file **file, uint32_t shuffle) {
    int order[COUNT(contents)];
    ppo_rng rng = test_rng(shuffle);
    for (int i = 0; i < COUNT(contents); i++) order[i] = i;
    if (shuffle) ppo_rng_shuffle(&rng, order, COUNT(contents));
    ppo_status status = ppo_file_create(file);
    for (int i = 0; i < COUNT(contents) && !status; i++) {
        int k = order[i];
        status = ppo_file_add(*file, contents[k].name, contents[k].type, contents[k].shape, contents[k].rank,
                              contents[k].data);
    }
    if (!status) status = ppo_file_set_text(*file, "note", "an older text");
    if (!status) status = ppo_file_set_text(*file, "note", note);
    return status;
}

static void check_contents(const ppo_file *file) {
    assert_int_equal(ppo_file_count(file), COUNT(contents));
    assert_int_equal(ppo__file_text_count(file), 1);
    assert_string_equal(ppo_file_text(file, "note"), note);
    for (int k = 0; k < COUNT(contents); k++) {
        const ppo_array *array = NULL;
        assert_ok(ppo__file_expect(file, contents[k].name, contents[k].type, contents[k].shape,
                                   contents[k].rank, &array));
        assert_string_equal(array->name, contents[k].name);
        assert_int_equal(array->type, contents[k].type);
        assert_int_equal(array->rank, contents[k].rank);
        assert_memory_equal(array->shape, contents[k].shape, sizeof *array->shape * (size_t)array->rank);
        assert_int_equal(array->bytes, contents[k].bytes);
        if (array->bytes) assert_memory_equal(array->data, contents[k].data, array->bytes);
    }
}

#define TEXT(text) text, sizeof(text) - 1
#define ARRAY(dtype, shape, offsets) \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define ONE         ARRAY("U8", "[1]", "[0,1]")
#define META(texts) "{\"__metadata__\":{" texts "}}"

/* --- Reading and writing what is right ----------------------------------------------------------------- */

static void a_file_of_python_is_read(void **state) {
    (void)state;
    ppo_file *file = NULL;
    put(PATH, g_contents, sizeof g_contents);
    assert_ok(ppo_file_read(PATH, &file));
    check_contents(file);
    ppo_file_free(file);
}

static void the_bytes_are_those_that_python_writes(void **state) {
    (void)state;
    for (uint32_t shuffle = 0; shuffle < 4; shuffle++) {
        ppo_file *file = NULL;
        assert_ok(make_contents(&file, shuffle));
        assert_ok(ppo_file_write(file, PATH));
        assert_file_is(PATH, g_contents, sizeof g_contents);
        ppo_file_free(file);
    }
    assert_int_equal(files_in_folder(), 1);
}

static void what_was_read_is_written_as_it_was(void **state) {
    (void)state;
    ppo_file *file = NULL;
    put(PATH, g_contents, sizeof g_contents);
    assert_ok(ppo_file_read(PATH, &file));
    assert_ok(ppo_file_write(file, PATH)); /* over the one that it came from */
    assert_file_is(PATH, g_contents, sizeof g_contents);
    assert_ok(ppo_file_set_text(file, "more", "a file that was read can be added to"));
    assert_ok(add_one(file, "more", PPO_U8, 3, bytes));
    assert_ok(ppo_file_write(file, PATH));
    ppo_file_free(file);
    assert_ok(ppo_file_read(PATH, &file));
    assert_int_equal(ppo_file_count(file), COUNT(contents) + 1);
    assert_string_equal(ppo_file_text(file, "more"), "a file that was read can be added to");
    assert_memory_equal(ppo_file_find(file, "more")->data, bytes, 3);
    ppo_file_free(file);
}

static void a_file_without_anything_is_two_brackets(void **state) {
    (void)state;
    ppo_file *file = NULL;
    assert_ok(ppo_file_create(&file));
    assert_ok(ppo_file_write(file, PATH));
    ppo_file_free(file);
    assert_file_is(PATH, g_nothing, sizeof g_nothing);
    assert_ok(ppo_file_read(PATH, &file));
    assert_int_equal(ppo_file_count(file), 0);
    assert_int_equal(ppo__file_text_count(file), 0);
    ppo_file_free(file);
}

/* The package itself writes a broken header here. */
static void a_file_may_hold_texts_alone(void **state) {
    (void)state;
    const char expected[] = "\50\0\0\0\0\0\0\0{\"__metadata__\":{\"a\":\"1\",\"b\":\"\"}}       ";
    ppo_file *file = NULL;
    assert_ok(ppo_file_create(&file));
    assert_ok(ppo_file_set_text(file, "b", ""));
    assert_ok(ppo_file_set_text(file, "a", "1"));
    assert_ok(ppo_file_write(file, PATH));
    ppo_file_free(file);
    assert_file_is(PATH, expected, sizeof expected - 1);
}

static void texts_are_found_by_key_and_listed_in_order(void **state) {
    (void)state;
    static const char *const want[][2] = {
        {"", "empty key"}, {"a", ""}, {"b", "1"}, {"c", "2"}, {"\303\251", "\n"}};
    ppo_file *file = NULL;
    put(PATH, g_texts, sizeof g_texts);
    assert_ok(ppo_file_read(PATH, &file));
    assert_int_equal(ppo__file_text_count(file), COUNT(want));
    for (int i = 0; i < COUNT(want); i++) {
        assert_string_equal(ppo_file_key_at(file, i), want[i][0]);
        assert_string_equal(ppo_file_text(file, want[i][0]), want[i][1]);
    }
    assert_null(ppo_file_text(file, "d"));
    assert_null(ppo_file_key_at(file, -1));
    assert_null(ppo_file_key_at(file, COUNT(want)));
    ppo_file_free(file);
}

static void arrays_are_found_by_name_and_listed_in_order(void **state) {
    (void)state;
    static const char *const want[] = {"\"quoted\" \\ / gr\303\266\303\237e",
                                       "actor.0.bias",
                                       "actor.0.weight",
                                       "bytes",
                                       "eight",
                                       "int",
                                       "long",
                                       "no bytes",
                                       "none",
                                       "steps",
                                       "unsigned"};
    ppo_file *file = NULL;
    assert_ok(make_contents(&file, 1));
    for (int i = 0; i < COUNT(want); i++) {
        assert_string_equal(ppo_file_at(file, i)->name, want[i]);
        assert_ptr_equal(ppo_file_at(file, i), ppo_file_find(file, want[i]));
    }
    assert_null(ppo_file_find(file, "actor.0"));
    assert_null(ppo_file_find(file, "zero"));
    assert_null(ppo_file_at(file, -1));
    assert_null(ppo_file_at(file, COUNT(want)));
    ppo_file_free(file);
}

static void spaces_escapes_order_and_alignment_are_free(void **state) {
    (void)state;
    const int64_t one[2] = {1, 1};
    const ppo_array *first, *middle, *last;
    const double tenth = 0.1;
    const float minus = -2.5f;
    ppo_file *file = NULL;
    put(PATH, g_spelled, sizeof g_spelled);
    assert_ok(ppo_file_read(PATH, &file));
    assert_string_equal(ppo_file_text(file, "note"), note);
    assert_ok(ppo__file_expect(file, "first", PPO_U8, one, 2, &first));
    assert_ok(ppo__file_expect(file, "gr\303\266\360\237\230\200e", PPO_F64, one, 1, &middle));
    assert_ok(ppo__file_expect(file, "last", PPO_F32, one, 1, &last));
    assert_int_equal(*(const uint8_t *)first->data, 9);
    assert_int_equal((uintptr_t)middle->data % 64, 0);
    assert_memory_equal(middle->data, &tenth, sizeof tenth);
    assert_memory_equal(last->data, &minus, sizeof minus);
    ppo_file_free(file);
}

static void every_escape_is_decoded(void **state) {
    (void)state;
    static unsigned char whole[ROOM];
    static const char header[] = META(
        "\"short\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\","
        "\"bounds\":\"\\u0001\\u007f\\u0080\\u07ff\\u0800\\ud7ff\\ue000\\uffff\\ud800\\udc00\\udbff\\udfff\","
        "\"case\":\"\\uabcd\\uABCD\\uEf0F\"");
    ppo_file *file = NULL;
    put(PATH, whole, compose(whole, header, sizeof header - 1, 0));
    assert_ok(ppo_file_read(PATH, &file));
    assert_string_equal(ppo_file_text(file, "short"), "\"\\/\b\f\n\r\t");
    assert_string_equal(ppo_file_text(file, "bounds"),
                        "\1\177\302\200\337\277\340\240\200\355\237\277\356\200\200\357\277\277"
                        "\360\220\200\200\364\217\277\277");
    assert_string_equal(ppo_file_text(file, "case"), "\352\257\215\352\257\215\356\274\217");
    ppo_file_free(file);
}

/* Between two arrays, before the first, and where the next begins. */
static void arrays_without_elements_may_lie_anywhere(void **state) {
    (void)state;
    static unsigned char whole[ROOM];
    static const char header[] = "{\"a\":" ARRAY("F64", "[0]", "[1,1]") ",\"b\":" ONE ",\"c\":" ARRAY(
        "U8", "[2]", "[1,3]") ",\"d\":" ARRAY("F32", "[1,0]", "[3,3]") ",\"e\":" ARRAY("U8", "[0]",
                                                                                       "[0,0]") "}";
    ppo_file *file = NULL;
    put(PATH, whole, compose(whole, header, sizeof header - 1, 3));
    assert_ok(ppo_file_read(PATH, &file));
    assert_int_equal(ppo_file_count(file), 5);
    assert_memory_equal(ppo_file_find(file, "b")->data, "\0", 1);
    assert_memory_equal(ppo_file_find(file, "c")->data, "\1\2", 2);
    ppo_file_free(file);
}

static void expect_says_what_is_there_instead(void **state) {
    (void)state;
    const int64_t shape[] = {2, 3, 1};
    const ppo_array *array = NULL;
    ppo_file *file = NULL;
    put(PATH, g_contents, sizeof g_contents);
    assert_ok(ppo_file_read(PATH, &file));
    assert_fails(ppo__file_expect(file, "actor.0.weight", PPO_F32, shape, 2, &array), PPO_ERROR_FILE,
                 "(3, 2)");
    assert_string_equal(ppo_last_error(), PATH ": \"actor.0.weight\" is F32 (3, 2), not F32 (2, 3)");
    assert_fails(ppo__file_expect(file, "actor.0.weight", PPO_F64, shape, 2, &array), PPO_ERROR_FILE,
                 "not F64 (2, 3)");
    assert_fails(ppo__file_expect(file, "actor.0.weight", PPO_F32, shape, 3, &array), PPO_ERROR_FILE,
                 "not F32 (2, 3, 1)");
    assert_fails(ppo__file_expect(file, "steps", PPO_U64, shape, 1, &array), PPO_ERROR_FILE,
                 "is U64 (), not U64 (2)");
    assert_fails(ppo__file_expect(file, "critic", PPO_F32, shape, 1, &array), PPO_ERROR_FILE,
                 "there is no \"critic\", F32 (2)");
    assert_null(array);
    ppo_file_free(file);
    assert_ok(ppo_file_create(&file)); /* which has no path yet */
    assert_fails(ppo__file_expect(file, "x", PPO_U8, shape, 1, &array), PPO_ERROR_FILE, "new file|x|U8 (2)");
    ppo_file_free(file);
}

/* --- What cannot be put into a file -------------------------------------------------------------------- */

static void impossible_arrays_are_refused(void **state) {
    (void)state;
    const int64_t nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, negative[2] = {2, -1}, none[2] = {0, INT64_MIN};
    const int64_t huge[2] = {INT64_MAX / 4, 8}, most[1] = {INT64_MAX};
    ppo_file *file = NULL;
    assert_ok(ppo_file_create(&file));
    assert_ok(add_one(file, "a", PPO_U8, 3, bytes));
    assert_fails(add_one(file, "a", PPO_U8, 3, bytes), PPO_ERROR_ARGUMENT, "\"a\" exists already");
    assert_null(strstr(ppo_last_error(), "data"));
    assert_fails(add_one(file, "a", PPO_U8, 0, NULL), PPO_ERROR_ARGUMENT, "\"a\"|already");
    assert_fails(add_one(file, "b", PPO_U8, 3, NULL), PPO_ERROR_ARGUMENT, "\"b\" has no data");
    assert_fails(add_one(file, "__metadata__", PPO_U8, 3, bytes), PPO_ERROR_ARGUMENT, "__metadata__");
    assert_fails(add_one(file, "\377", PPO_U8, 3, bytes), PPO_ERROR_ARGUMENT, "called");
    assert_fails(add_one(file, NULL, PPO_U8, 3, bytes), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(add_one(NULL, "b", PPO_U8, 3, bytes), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(add_one(file, "b", -1, 3, bytes), PPO_ERROR_ARGUMENT, "type -1|\"b\"");
    assert_fails(add_one(file, "b", PPO_U64 + 1, 3, bytes), PPO_ERROR_ARGUMENT, "type 10|\"b\"");
    assert_fails(ppo_file_add(file, "b", PPO_U8, nine, 9, bytes), PPO_ERROR_ARGUMENT, "rank 9");
    assert_fails(ppo_file_add(file, "b", PPO_U8, nine, -1, bytes), PPO_ERROR_ARGUMENT, "rank -1");
    assert_fails(ppo_file_add(file, "b", PPO_U8, NULL, 1, bytes), PPO_ERROR_ARGUMENT, "shape");
    assert_fails(ppo_file_add(file, "b", PPO_U8, negative, 2, bytes), PPO_ERROR_ARGUMENT, "shape");
    assert_fails(ppo_file_add(file, "b", PPO_U8, none, 2, bytes), PPO_ERROR_ARGUMENT, "shape");
    assert_fails(ppo_file_add(file, "b", PPO_U8, huge, 2, bytes), PPO_ERROR_ARGUMENT, "shape");
    assert_fails(ppo_file_add(file, "b", PPO_I32, most, 1, bytes), PPO_ERROR_ARGUMENT, "shape");
    assert_int_equal(ppo_file_count(file), 1);
    ppo_file_free(file);
}

static void texts_that_are_not_utf8_are_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"\200",
                                        "a\277",
                                        "\300\200",
                                        "\301\277",
                                        "\302",
                                        "\302a",
                                        "\340\237\277",
                                        "\340\240",
                                        "\355\240\200",
                                        "\355\277\277",
                                        "\357\277",
                                        "\360\217\277\277",
                                        "\360\220\200",
                                        "\364\220\200\200",
                                        "\365\200\200\200",
                                        "\377"};
    static const char *const right[] = {"",
                                        "\177",
                                        "\302\200",
                                        "\337\277",
                                        "\340\240\200",
                                        "\355\237\277",
                                        "\356\200\200",
                                        "\357\277\277",
                                        "\360\220\200\200",
                                        "\364\217\277\277"};
    ppo_file *file = NULL;
    assert_ok(ppo_file_create(&file));
    for (int i = 0; i < COUNT(wrong); i++) {
        assert_fails(ppo_file_set_text(file, "key", wrong[i]), PPO_ERROR_ARGUMENT, "\"key\"|UTF-8");
        assert_fails(ppo_file_set_text(file, wrong[i], "text"), PPO_ERROR_ARGUMENT, "UTF-8");
    }
    assert_int_equal(ppo__file_text_count(file), 0);
    for (int i = 0; i < COUNT(right); i++)
        assert_ok(ppo_file_set_text(file, right[i], right[COUNT(right) - 1 - i]));
    assert_ok(ppo_file_write(file, PATH));
    ppo_file_free(file);
    assert_ok(ppo_file_read(PATH, &file));
    for (int i = 0; i < COUNT(right); i++)
        assert_string_equal(ppo_file_text(file, right[i]), right[COUNT(right) - 1 - i]);
    assert_fails(ppo_file_set_text(file, NULL, "text"), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_file_set_text(file, "key", NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_file_set_text(NULL, "key", "text"), PPO_ERROR_ARGUMENT, "NULL");
    ppo_file_free(file);
}

static void null_is_refused_or_empty(void **state) {
    (void)state;
    ppo_file *file = NULL;
    ppo_file_free(NULL);
    assert_fails(ppo_file_create(NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_file_read(NULL, &file), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_file_read(PATH, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_file_write(NULL, PATH), PPO_ERROR_ARGUMENT, "NULL");
    assert_ok(ppo_file_create(&file));
    assert_fails(ppo_file_write(file, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_file_write(file, ""), PPO_ERROR_FILE, "\"\": cannot be written");
    assert_null(ppo_file_find(file, NULL));
    assert_null(ppo_file_text(file, NULL));
    assert_null(ppo_file_find(NULL, "x"));
    assert_null(ppo_file_text(NULL, "x"));
    assert_null(ppo_file_at(NULL, 0));
    assert_null(ppo_file_key_at(NULL, 0));
    assert_int_equal(ppo_file_count(NULL), 0);
    assert_int_equal(ppo__file_text_count(NULL), 0);
    ppo_file_free(file);
}

/* --- Hostile files ------------------------------------------------------------------------------------- */

static const struct {
    const char *header;
    size_t length;
    int data;
    const char *words; /* of the sentence */
} hostile[] = {
    /* JSON */
    {TEXT(""), 0, "byte 0|expected \"{\""},
    {TEXT(" {}"), 0, "byte 0|expected \"{\""},
    {TEXT("[]"), 0, "expected \"{\""},
    {TEXT("{"), 0, "expected a string"},
    {TEXT("{}}"), 0, "byte 2|expected its end"},
    {TEXT("{} x"), 0, "byte 3|expected its end"},
    {TEXT("{}\0"), 0, "expected its end"},
    {TEXT("{},\"__metadata__\":{}}"), 0, "byte 2|expected its end"}, /* Python's, of texts alone */
    {TEXT("{\"a\""), 0, "expected \":\""},
    {TEXT("{\"a\":"), 0, "expected \"{\""},
    {TEXT("{\"a\":" ONE), 1, "expected \"}\""},
    {TEXT("{\"a\":" ONE ",}"), 1, "expected a string"},
    {TEXT("{,\"a\":" ONE "}"), 1, "expected a string"},
    {TEXT("{\"a\":" ONE " \"b\":" ONE "}"), 1, "expected \"}\""},
    {TEXT("{'a':" ONE "}"), 1, "expected a string"},
    {TEXT("{a:" ONE "}"), 1, "expected a string"},
    {TEXT("{\"a\":null}"), 0, "expected \"{\""},
    {TEXT("{\"a\":[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]}"), 0, "expected \"{\""},
    {TEXT("{\"a\":{\"shape\":[[[[[[[[1]]]]]]]]}}"), 0, "expected a whole number"},
    /* strings */
    {TEXT("{\"a"), 0, "string has no end"},
    {TEXT("{\"a\0b\":" ONE "}"), 1, "string has no end"},
    {TEXT("{\"a\nb\":" ONE "}"), 1, "control character"},
    {TEXT("{\"a\\\":" ONE "}"), 1, "expected \":\""},
    {TEXT("{\"\\x41\":" ONE "}"), 1, "escape"},
    {TEXT("{\"\\u00g1\":" ONE "}"), 1, "escape"},
    {TEXT("{\"\\u12"), 0, "escape"},
    {TEXT("{\"\\"), 0, "escape"},
    {TEXT("{\"\\u0000\":" ONE "}"), 1, "escape"},
    {TEXT("{\"\\ud83d\":" ONE "}"), 1, "escape"},
    {TEXT("{\"\\ud83dx\":" ONE "}"), 1, "escape"},
    {TEXT("{\"\\ud83d\\ud83d\":" ONE "}"), 1, "escape"},
    {TEXT("{\"\\ud83d\\n\":" ONE "}"), 1, "escape"},
    {TEXT("{\"\\ude00\":" ONE "}"), 1, "escape"},
    {TEXT("{\"\\ud83dxude00\":" ONE "}"), 1, "escape"},
    {TEXT("{\"\\u00e\":" ONE "}"), 1, "escape"},
    {TEXT("{\"\\x0041\":" ONE "}"), 1, "escape"},
    {TEXT("{\"\377\":" ONE "}"), 1, "not UTF-8"},
    {TEXT("{\"\300\200\":" ONE "}"), 1, "not UTF-8"},
    {TEXT("{\"\355\240\275\355\270\200\":" ONE "}"), 1, "not UTF-8"},
    /* numbers */
    {TEXT("{\"a\":" ARRAY("U8", "[-1]", "[0,1]") "}"), 1, "expected a whole number"},
    {TEXT("{\"a\":" ARRAY("U8", "[01]", "[0,1]") "}"), 1, "expected a whole number"},
    {TEXT("{\"a\":" ARRAY("U8", "[1.0]", "[0,1]") "}"), 1, "expected \"]\""},
    {TEXT("{\"a\":" ARRAY("U8", "[1e0]", "[0,1]") "}"), 1, "expected \"]\""},
    {TEXT("{\"a\":" ARRAY("U8", "[\"1\"]", "[0,1]") "}"), 1, "expected a whole number"},
    {TEXT("{\"a\":" ARRAY("U8", "[0x1]", "[0,1]") "}"), 1, "expected \"]\""},
    {TEXT("{\"a\":" ARRAY("U8", "[1,]", "[0,1]") "}"), 1, "expected a whole number"},
    {TEXT("{\"a\":" ARRAY("U8", "[9223372036854775808]", "[0,1]") "}"), 1, "below 2^63"},
    {TEXT("{\"a\":" ARRAY("U8", "[99999999999999999999999999]", "[0,1]") "}"), 1, "below 2^63"},
    {TEXT("{\"a\":" ARRAY("U8", "[1]", "[18446744073709551615,1]") "}"), 1, "below 2^63"},
    /* members of an array */
    {TEXT("{\"a\":{}}"), 0, "\"a\"|lacks"},
    {TEXT("{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}"), 1, "\"a\"|lacks"},
    {TEXT("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}"), 1, "\"a\"|lacks"},
    {TEXT("{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}"), 1, "\"a\"|lacks"},
    {TEXT("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}"), 1,
     "repeated|\"dtype\""},
    {TEXT("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,1]}}"), 1,
     "repeated|\"shape\""},
    {TEXT("{\"a\":{\"data_offsets\":[0,1],\"shape\":[1],\"data_offsets\":[0,1]}}"), 1,
     "repeated|\"data_offsets\""},
    {TEXT("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":1}}"), 1, "unknown|\"x\""},
    {TEXT("{\"a\":" ARRAY("I16", "[1]", "[0,2]") "}"), 2, "\"a\"|dtype \"I16\""},
    {TEXT("{\"a\":" ARRAY("f32", "[1]", "[0,4]") "}"), 4, "dtype \"f32\""},
    {TEXT("{\"a\":" ARRAY("", "[1]", "[0,1]") "}"), 1, "dtype \"\""},
    {TEXT("{\"a\":{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}}"), 1, "expected a string"},
    {TEXT("{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}"), 1, "expected \"[\""},
    {TEXT("{\"a\":" ARRAY("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}"), 1, "\"a\"|9 dimensions"},
    /* shapes and offsets */
    {TEXT("{\"a\":" ARRAY("F32", "[3]", "[0,8]") "}"), 8, "F32 (3)|0 to 8"},
    {TEXT("{\"a\":" ARRAY("F32", "[1]", "[0,8]") "}"), 8, "F32 (1)|0 to 8"},
    {TEXT("{\"a\":" ARRAY("U8", "[1]", "[1,0]") "}"), 1, "1 to 0"},
    {TEXT("{\"a\":" ARRAY("U8", "[1]", "[]") "}"), 1, "U8 (1)"},
    {TEXT("{\"a\":" ARRAY("U8", "[0]", "[0]") "}"), 0, "U8 (0)"},
    {TEXT("{\"a\":" ARRAY("U8", "[1]", "[0,1,1]") "}"), 1, "U8 (1)"},
    {TEXT("{\"a\":" ARRAY("F32", "[4611686018427387904]", "[0,0]") "}"), 0, "(4611686018427387904)"},
    {TEXT("{\"a\":" ARRAY("U8", "[4294967296,4294967296]", "[0,0]") "}"), 0, "(4294967296, 4294967296)"},
    {TEXT("{\"a\":" ARRAY("U8", "[4294967296,4294967296,0]", "[0,0]") "}"), 0, "4294967296, 0)"},
    {TEXT("{\"a\":" ONE ",\"b\":" ARRAY("U8", "[4294967296,4294967296]", "[1,0]") "}"), 1, "\"b\"|1 to 0"},
    {TEXT("{\"a\":" ARRAY("U8", "[9223372036854775807]", "[0,9223372036854775807]") "}"), 0,
     "9223372036854775807"},
    {TEXT("{\"a\":" ARRAY("U8", "[4000000000000000000]", "[0,4000000000000000000]") "}"), 0,
     "truncated|of 0"},
    {TEXT("{\"a\":" ARRAY("U8", "[2]", "[0,2]") "}"), 1, "truncated|\"a\"|0 to 2 of 1"},
    {TEXT("{\"a\":" ONE "}"), 2, "1 bytes at its end"},
    {TEXT("{}"), 3, "3 bytes at its end"},
    {TEXT("{\"a\":" ARRAY("U8", "[1]", "[1,2]") "}"), 2, "\"a\"|1 to 2|not from 0"},
    {TEXT("{\"a\":" ONE ",\"b\":" ONE "}"), 1, "0 to 1|not from 1"},
    {TEXT("{\"a\":" ARRAY("U8", "[2]", "[0,2]") ",\"b\":" ARRAY("U8", "[2]", "[1,3]") "}"), 3,
     "\"b\"|1 to 3|not from 2"},
    {TEXT("{\"a\":" ONE ",\"b\":" ARRAY("U8", "[1]", "[2,3]") "}"), 3, "\"b\"|2 to 3|not from 1"},
    {TEXT("{\"a\":" ARRAY("U8", "[3]", "[0,3]") ",\"b\":" ARRAY("U8", "[0]", "[1,1]") "}"), 3,
     "\"b\"|1 to 1"},
    /* names */
    {TEXT("{\"a\":" ONE ",\"a\":" ARRAY("U8", "[1]", "[1,2]") "}"), 2, "\"a\" appears twice"},
    {TEXT("{\"a\":" ONE
          ",\"b\":" ARRAY("U8", "[1]", "[1,2]") ",\"\\u0061\":" ARRAY("U8", "[1]", "[2,3]") "}"),
     3, "\"a\" appears twice"},
    {TEXT("{\"__metadata__\":" ONE "}"), 1, "expected a string"},
    /* texts */
    {TEXT(META("\"a\":1")), 0, "expected a string"},
    {TEXT(META("\"a\":{}")), 0, "expected a string"},
    {TEXT(META("\"a\":null")), 0, "expected a string"},
    {TEXT(META("\"a\"")), 0, "expected \":\""},
    {TEXT(META("\"a\":\"1\",")), 0, "expected a string"},
    {TEXT(META("\"a\":\"\\u0000\"")), 0, "escape"},
    {TEXT(META("\"a\":\"1\",\"b\":\"2\",\"a\":\"1\"")), 0, "\"a\" appears twice"},
    {TEXT("{\"__metadata__\":null}"), 0, "expected \"{\""},
    {TEXT("{\"__metadata__\":{},\"__metadata__\":{}}"), 0, "repeated|__metadata__"},
};

/* Fresh memory ends no string and is no 0. */
static void *dirty_hook(void *user, void *ptr, size_t size) {
    void *block = heap_hook(user, ptr, size);
    return block ? memset(block, '"', size) : NULL;
}

static void hostile_files_are_refused_with_the_reason(void **state) {
    (void)state;
    static unsigned char whole[ROOM];
    for (int i = 0; i < COUNT(hostile); i++) {
        heap h = {0, 0, -1, 0};
        ppo_file *file = NULL;
        put(PATH, whole, compose(whole, hostile[i].header, hostile[i].length, hostile[i].data));
        ppo_set_allocator(dirty_hook, &h);
        if (ppo_file_read(PATH, &file) == PPO_OK) fail_msg("was read: %s", hostile[i].header);
        ppo_set_allocator(NULL, NULL);
        assert_null(file);
        assert_int_equal(h.live, 0);
        if (!strstr(ppo_last_error(), PATH ": ")) fail_msg("%s: no path", ppo_last_error());
        char words[256];
        snprintf(words, sizeof words, "%s", hostile[i].words);
        for (char *word = strtok(words, "|"); word; word = strtok(NULL, "|"))
            if (!strstr(ppo_last_error(), word))
                fail_msg("%s: %s, without %s", hostile[i].header, ppo_last_error(), word);
    }
}

static void a_header_length_that_the_file_has_not_is_refused(void **state) {
    (void)state;
    static const uint64_t claims[] = {3,
                                      8,
                                      100000000,
                                      100000001,
                                      INT64_MAX - 8,
                                      INT64_MAX,
                                      (uint64_t)INT64_MAX + 1,
                                      UINT64_MAX - 8,
                                      UINT64_MAX - 7,
                                      UINT64_MAX};
    unsigned char whole[16];
    ppo_file *file = NULL;
    for (int i = 0; i < COUNT(claims); i++) {
        size_t n = compose(whole, "{}", 2, 0);
        for (int k = 0; k < 8; k++) whole[k] = (unsigned char)(claims[i] >> 8 * k);
        put(PATH, whole, n);
        assert_fails(ppo_file_read(PATH, &file), PPO_ERROR_FILE,
                     claims[i] <= 100000000 ? PATH "|not a safetensors file, or truncated|10 bytes"
                                            : PATH ": not a safetensors file");
        if (claims[i] > 100000000) assert_null(strstr(ppo_last_error(), "header"));
    }
    for (size_t n = 0; n < 8; n++) {
        char words[64];
        snprintf(words, sizeof words, "%s|not a safetensors file|%d bytes", PATH, (int)n);
        put(PATH, whole, n);
        assert_fails(ppo_file_read(PATH, &file), PPO_ERROR_FILE, words);
    }
    assert_null(file);
}

/* The largest header that is allowed, of a file that is almost all hole. */
static void a_header_of_more_than_100_megabytes_is_refused(void **state) {
    (void)state;
    for (long over = 0; over < 2; over++) {
        ppo_file *file = NULL;
        FILE *out = fopen(PATH, "wb");
        long length = 100000000 + over;
        for (int k = 0; k < 8; k++) fputc((int)(length >> 8 * k & 255), out);
        fseek(out, 8 + length - 1, SEEK_SET);
        fputc(0, out);
        fclose(out);
        assert_fails(ppo_file_read(PATH, &file), PPO_ERROR_FILE,
                     over ? "not a safetensors file" : "expected \"{\"");
    }
}

static void what_a_file_says_of_itself_cannot_steer_a_terminal(void **state) {
    (void)state;
    static unsigned char whole[ROOM];
    static const char header[] = "{\"\\u001b[31m\\r\177\":" ARRAY("I16", "[1]", "[0,2]") "}";
    ppo_file *file = NULL;
    put(PATH, whole, compose(whole, header, sizeof header - 1, 2));
    assert_fails(ppo_file_read(PATH, &file), PPO_ERROR_FILE, "\"?[31m\?\?\"|I16");
}

/* A sentence that is cut is cut in the path's beginning and in the name's end, not in what matters. */
static void a_long_path_and_a_long_name_leave_room_for_the_reason(void **state) {
    (void)state;
    static unsigned char whole[ROOM];
    static char header[5000] = "{\"", path[400];
    ppo_file *file = NULL;
    for (int i = 0; i < 150; i++) strcat(path, "./");
    strcat(path, PATH);
    memset(header + 2, 'n', 4000);
    strcat(header, "\":" ARRAY("I16", "[1]", "[0,2]") "}");
    put(path, whole, compose(whole, header, strlen(header), 2));
    assert_fails(ppo_file_read(path, &file), PPO_ERROR_FILE, ".../|/" PATH ": \"nnn|I16|or U64");
}

/* Adds up what is asked for, and remembers the largest piece. */
typedef struct meter {
    size_t sum, most;
} meter;

static void *meter_hook(void *user, void *ptr, size_t size) {
    meter *m = (meter *)user;
    m->sum += size;
    if (size > m->most) m->most = size;
    if (size) return realloc(ptr, size);
    free(ptr);
    return NULL;
}

static void memory_is_taken_for_what_is_there_not_for_what_is_claimed(void **state) {
    (void)state;
    static unsigned char whole[ROOM];
    for (int i = 0; i < COUNT(hostile); i++) {
        meter m = {0, 0};
        ppo_file *file = NULL;
        put(PATH, whole, compose(whole, hostile[i].header, hostile[i].length, hostile[i].data));
        ppo_set_allocator(meter_hook, &m);
        assert_int_equal(ppo_file_read(PATH, &file), PPO_ERROR_FILE);
        ppo_set_allocator(NULL, NULL);
        assert_in_range(m.sum, 1, 20000); /* one chunk of the arena, and small things */
    }
    meter m = {0, 0};
    ppo_file *file = NULL;
    put(PATH, "\0\341\365\5\0\0\0\0{", 9); /* says: a header of 100 MB */
    ppo_set_allocator(meter_hook, &m);
    assert_int_equal(ppo_file_read(PATH, &file), PPO_ERROR_FILE);
    ppo_set_allocator(NULL, NULL);
    assert_in_range(m.sum, 1, 20000);
}

/* `n` empty arrays, or texts, in an order far from sorted; the name of number `same` is that of number 0. */
static void put_many(int n, int texts, int same) {
    FILE *out = fopen(PATH, "wb");
    fprintf(out, "%8s%s", "", texts ? "{\"__metadata__\":{" : "{");
    for (int i = 0; i < n; i++) {
        unsigned scramble = i == same ? 0 : (unsigned)i * 2654435761u;
        fprintf(out, "%s\"%u\":%s", i ? "," : "", scramble, texts ? "\"\"" : ARRAY("U8", "[0]", "[0,0]"));
    }
    fputs(texts ? "}}" : "}", out);
    long length = ftell(out) - 8;
    fseek(out, 0, SEEK_SET);
    for (int k = 0; k < 8; k++) fputc((int)(length >> 8 * k & 255), out);
    fclose(out);
}

static void a_hundred_thousand_names_take_no_long_time(void **state) {
    (void)state;
    const int n = 100000;
    double start = ppo_clock();
    for (int texts = 0; texts < 2; texts++) {
        ppo_file *file = NULL;
        put_many(n, texts, -1);
        assert_ok(ppo_file_read(PATH, &file));
        assert_int_equal(texts ? ppo__file_text_count(file) : ppo_file_count(file), n);
        for (int i = 0; i < n; i++) {
            char name[16];
            snprintf(name, sizeof name, "%u", (unsigned)i * 2654435761u);
            assert_true(texts ? ppo_file_text(file, name) != NULL : ppo_file_find(file, name) != NULL);
        }
        ppo_file_free(file);
        put_many(n, texts, n - 1);
        assert_fails(ppo_file_read(PATH, &file), PPO_ERROR_FILE, "\"0\" appears twice");
    }
    assert_true(ppo_clock() - start < 30);
}

static void thousands_of_arrays_are_written_and_read(void **state) {
    (void)state;
    enum { N = 5000 };
    static float data[N];
    char name[16];
    ppo_file *file = NULL;
    assert_ok(ppo_file_create(&file));
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "%u", (unsigned)i * 2654435761u);
        data[i] = (float)i;
        assert_ok(add_one(file, name, PPO_F32, 1, &data[i]));
    }
    assert_ok(ppo_file_write(file, PATH));
    ppo_file_free(file);
    assert_ok(ppo_file_read(PATH, &file));
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "%u", (unsigned)i * 2654435761u);
        assert_memory_equal(ppo_file_find(file, name)->data, &data[i], sizeof *data);
    }
    ppo_file_free(file);
}

/* --- What the file system says ------------------------------------------------------------------------- */

static void what_cannot_be_read_is_told_with_the_reason(void **state) {
    (void)state;
    ppo_file *file = NULL;
    assert_fails(ppo_file_read("missing", &file), PPO_ERROR_FILE, "missing: |No such file");
    assert_fails(ppo_file_read("", &file), PPO_ERROR_FILE, "No such file");
    assert_fails(ppo_file_read(".", &file), PPO_ERROR_FILE, ".: |not a plain file");
    assert_fails(ppo_file_read("/dev/zero", &file), PPO_ERROR_FILE, "/dev/zero: |not a plain file");
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_fails(ppo_file_read("pipe", &file), PPO_ERROR_FILE, "pipe: |not a plain file");
    put(PATH, g_contents, sizeof g_contents);
    assert_fails(ppo_file_read(PATH "/x", &file), PPO_ERROR_FILE, "Not a directory");
    if (geteuid() != 0) { /* who may read everything */
        chmod(PATH, 0);
        assert_fails(ppo_file_read(PATH, &file), PPO_ERROR_FILE, "Permission denied");
    }
    assert_null(file);
}

/* Linux has files that are not as long as they say. */
static void a_file_that_ends_early_is_refused(void **state) {
    (void)state;
    const char *online = "/sys/devices/system/cpu/online";
    ppo_file *file = NULL;
    struct stat found;
    if (stat(online, &found) || found.st_size < 8) skip();
    assert_fails(ppo_file_read(online, &file), PPO_ERROR_FILE, "cannot be read: it became shorter");
}

/* The old file is what it was, and nothing else is in the folder. */
static void assert_write_fails(const ppo_file *file, const char *path, const char *words) {
    int before = files_in_folder();
    assert_fails(ppo_file_write(file, path), PPO_ERROR_FILE, words);
    assert_int_equal(files_in_folder(), before);
    assert_file_is(PATH, g_nothing, sizeof g_nothing);
}

static void a_failing_write_leaves_the_old_file_and_no_other(void **state) {
    (void)state;
    ppo_file *file = NULL;
    struct rlimit old, limit;
    put(PATH, g_nothing, sizeof g_nothing);
    assert_int_equal(symlink("/dev/full", "full"), 0);
    assert_ok(make_contents(&file, 0));
    assert_write_fails(file, PATH "/x", "Not a directory");
    assert_write_fails(file, PATH "/y/x", "Not a directory");
    assert_write_fails(file, ".", "not a plain file");
    assert_write_fails(file, "full", "full: |not a plain file");
    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    for (size_t room = 0; room < sizeof g_contents; room += 101) {
        limit = old;
        limit.rlim_cur = room;
        setrlimit(RLIMIT_FSIZE, &limit);
        ppo_fail(PPO_OK, "(no sentence)");
        ppo_status status = ppo_file_write(file, PATH);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_int_equal(status, PPO_ERROR_FILE);
        assert_string_equal(ppo_last_error(), PATH ": cannot be written: File too large");
        assert_file_is(PATH, g_nothing, sizeof g_nothing);
        assert_int_equal(files_in_folder(), 2);
    }
    signal(SIGXFSZ, SIG_DFL);
    assert_ok(ppo_file_write(file, PATH));
    assert_file_is(PATH, g_contents, sizeof g_contents);
    ppo_file_free(file);
}

/* More than the C library's buffer, so that the failure comes in the middle of an array. */
static void a_full_disk_is_reported_whenever_it_is_noticed(void **state) {
    (void)state;
    static float data[100000];
    ppo_file *file = NULL;
    struct rlimit old, limit;
    put(PATH, g_nothing, sizeof g_nothing);
    assert_ok(ppo_file_create(&file));
    assert_ok(add_one(file, "a", PPO_F32, 50000, data));
    assert_ok(add_one(file, "b", PPO_F32, 100000, data));
    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t room = 0; room < 600000; room += 60000) {
        limit = old;
        limit.rlim_cur = room;
        setrlimit(RLIMIT_FSIZE, &limit);
        ppo_status status = ppo_file_write(file, PATH);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_int_equal(status, PPO_ERROR_FILE);
        assert_string_equal(ppo_last_error(), PATH ": cannot be written: File too large");
        assert_file_is(PATH, g_nothing, sizeof g_nothing);
        assert_int_equal(files_in_folder(), 1);
    }
    signal(SIGXFSZ, SIG_DFL);
    ppo_file_free(file);
}

static void what_could_not_be_read_again_is_not_written(void **state) {
    (void)state;
    const size_t n = 100000000 - 26;
    char *text = (char *)malloc(n + 1);
    ppo_file *file = NULL;
    put(PATH, g_nothing, sizeof g_nothing);
    memset(text, 'x', n);
    text[n] = 0;
    assert_ok(ppo_file_create(&file));
    assert_ok(ppo_file_set_text(file, "key", text));
    free(text);
    assert_write_fails(file, PATH, PATH ": |100000008 bytes");
    ppo_file_free(file);
}

static void a_folder_that_is_write_protected_is_told(void **state) {
    (void)state;
    ppo_file *file = NULL;
    if (geteuid() == 0) skip(); /* who may write everywhere */
    put(PATH, g_nothing, sizeof g_nothing);
    assert_ok(make_contents(&file, 0));
    chmod(".", 0500);
    ppo_status status = ppo_file_write(file, PATH);
    chmod(".", 0700);
    assert_int_equal(status, PPO_ERROR_FILE);
    assert_string_equal(ppo_last_error(), PATH ": cannot be written: Permission denied");
    assert_file_is(PATH, g_nothing, sizeof g_nothing);
    ppo_file_free(file);
}

static void missing_directories_are_made(void **state) {
    (void)state;
    ppo_file *file = NULL;
    assert_ok(make_contents(&file, 0));
    assert_ok(ppo_file_write(file, "new/folder/" PATH));
    ppo_file_free(file);
    assert_file_is("new/folder/" PATH, g_contents, sizeof g_contents);
    assert_int_equal(remove("new/folder/" PATH) || rmdir("new/folder") || rmdir("new"), 0);
}

static void a_file_that_a_killed_process_left_is_not_in_the_way(void **state) {
    (void)state;
    char left[64];
    ppo_file *file = NULL;
    snprintf(left, sizeof left, "ppo-%ld-0.tmp", (long)getpid());
    put(left, "left", 4);
    assert_ok(make_contents(&file, 0));
    assert_ok(ppo_file_write(file, PATH));
    ppo_file_free(file);
    assert_file_is(PATH, g_contents, sizeof g_contents);
    assert_file_is(left, "left", 4);
    assert_int_equal(files_in_folder(), 2);
}

/* No temporary name is longer than that. */
static void a_name_as_long_as_the_system_allows_can_be_written(void **state) {
    (void)state;
    char name[252];
    ppo_file *file = NULL;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_ok(make_contents(&file, 0));
    assert_ok(ppo_file_write(file, name));
    ppo_file_free(file);
    assert_file_is(name, g_contents, sizeof g_contents);
    assert_int_equal(files_in_folder(), 1);
}

static void *no_memory(void *user, void *ptr, size_t size) {
    (void)user, (void)size;
    free(ptr);
    return NULL;
}

static void out_pointers_are_null_after_a_failure(void **state) {
    (void)state;
    const int64_t one = 1;
    ppo_file nowhere, *file = &nowhere;
    ppo_array other;
    const ppo_array *array = &other;
    assert_fails(ppo_file_read(NULL, &file), PPO_ERROR_ARGUMENT, "NULL");
    assert_null(file);
    file = &nowhere;
    assert_fails(ppo_file_read("missing", &file), PPO_ERROR_FILE, "missing");
    assert_null(file);
    ppo_set_allocator(no_memory, NULL);
    file = &nowhere;
    assert_fails(ppo_file_create(&file), PPO_ERROR_MEMORY, "refused");
    assert_null(file);
    ppo_set_allocator(NULL, NULL);
    assert_ok(ppo_file_create(&file));
    assert_fails(ppo__file_expect(file, "x", PPO_U8, &one, 1, &array), PPO_ERROR_FILE, "no \"x\"");
    assert_null(array);
    ppo_file_free(file);
}

static void a_symbolic_link_is_replaced_not_followed(void **state) {
    (void)state;
    ppo_file *file = NULL;
    put("target", g_nothing, sizeof g_nothing);
    assert_int_equal(symlink("target", PATH), 0);
    assert_ok(make_contents(&file, 0));
    assert_ok(ppo_file_write(file, PATH));
    ppo_file_free(file);
    assert_file_is(PATH, g_contents, sizeof g_contents);
    assert_file_is("target", g_nothing, sizeof g_nothing);
}

/* Writes one of two contents after the other, for as long as it is let. */
static void write_for_ever(void) {
    static float data[2][20000];
    for (uint32_t i = 0;; i = !i) {
        ppo_file *file = NULL;
        for (int k = 0; k < 20000; k++) data[i][k] = (float)i;
        if (ppo_file_create(&file) || add_one(file, "x", PPO_F32, 20000, data[i]) ||
            ppo_file_write(file, PATH))
            _exit(1);
        ppo_file_free(file);
    }
}

static void a_killed_writer_leaves_one_content_or_the_other(void **state) {
    (void)state;
    ppo_rng rng = test_rng(1);
    int seen[2] = {0, 0};
    for (int round = 0; round < 30; round++) {
        struct timespec pause = {0, 1000000L * (10 + ppo_rng_below(&rng, 20))};
        pid_t child[2];
        for (int k = 0; k < 2; k++) {
            child[k] = fork();
            if (child[k] == 0) write_for_ever();
        }
        nanosleep(&pause, NULL);
        for (int k = 0; k < 2; k++) {
            int how;
            kill(child[k], SIGKILL);
            waitpid(child[k], &how, 0);
            assert_true(WIFSIGNALED(how)); /* it has not failed by itself */
        }
        FILE *there = fopen(PATH, "rb");
        if (!there) continue; /* killed before the first was complete */
        fclose(there);
        ppo_file *file = NULL;
        assert_ok(ppo_file_read(PATH, &file));
        const float *x = (const float *)ppo_file_find(file, "x")->data;
        for (int i = 1; i < 20000; i++) assert_true(x[i] == x[0]);
        seen[(int)x[0]]++;
        ppo_file_free(file);
    }
    assert_true(seen[0] + seen[1] > 0);
}

static char calls[256]; /* what was called, in this order */
static char failing =
    '-'; /* 'f', 'd', 'c', 's', 'r': a file's fsync fails, a directory's, fclose, fseek, rename */

static int watched_fclose(FILE *file) {
    int failed = fclose(file);
    errno = ENOSPC;
    return failing == 'c' ? EOF : failed;
}

static int watched_fseek(FILE *file, long offset, int whence) {
    errno = EIO;
    return failing == 's' ? -1 : fseek(file, offset, whence);
}

static int watched_fsync(int descriptor) {
    struct stat found, here;
    unsigned char first = 0;
    size_t n = strlen(calls);
    if (fstat(descriptor, &found) || stat(".", &here)) return -1;
    if (S_ISDIR(found.st_mode)) {
        snprintf(calls + n, sizeof calls - n,
                 found.st_ino == here.st_ino ? "this folder; " : "another folder; ");
    } else {
        if (pread(descriptor, &first, 1, 0) != 1) return -1;
        snprintf(calls + n, sizeof calls - n, "file of %ld bytes, the first %d; ", (long)found.st_size,
                 first);
    }
    errno = EIO;
    return failing == (S_ISDIR(found.st_mode) ? 'd' : 'f') ? -1 : fsync(descriptor);
}

static int watched_rename(const char *from, const char *to) {
    size_t n = strlen(calls);
    snprintf(calls + n, sizeof calls - n, "rename to %s; ", to);
    errno = EACCES;
    return failing == 'r' ? -1 : rename(from, to);
}

static void the_new_file_is_on_the_disk_before_it_takes_the_place_of_the_old(void **state) {
    (void)state;
    ppo_file *file = NULL;
    assert_ok(make_contents(&file, 0));
    calls[0] = 0;
    assert_ok(ppo_file_write(file, PATH));
    assert_string_equal(calls, "file of 1016 bytes, the first 144; rename to " PATH "; this folder; ");
    assert_int_equal(mkdir("folder", 0700), 0);
    for (int i = 0; i < 3; i++) { /* wherever it is */
        static const char *const paths[] = {"./" PATH, "folder/../" PATH, NULL};
        char whole[200];
        snprintf(whole, sizeof whole, "%s/" PATH, home);
        calls[0] = 0;
        assert_ok(ppo_file_write(file, paths[i] ? paths[i] : whole));
        assert_non_null(strstr(calls, "; this folder; "));
    }
    ppo_file_free(file);
}

static void a_write_that_the_disk_refuses_fails_and_one_that_a_folder_refuses_does_not(void **state) {
    (void)state;
    struct rlimit old, limit;
    ppo_file *file = NULL;
    put(PATH, g_nothing, sizeof g_nothing);
    assert_ok(make_contents(&file, 0));
    failing = 'f';
    assert_write_fails(file, PATH, strerror(EIO));
    failing = 'c';
    assert_write_fails(file, PATH, strerror(ENOSPC));
    failing = 'r';
    assert_write_fails(file, PATH, "cannot be written: Permission denied");
    failing = 'd';
    assert_ok(ppo_file_write(file, PATH));
    assert_file_is(PATH, g_contents, sizeof g_contents);
    failing = '-';
    put(PATH, g_nothing, sizeof g_nothing);
    getrlimit(RLIMIT_NOFILE, &old);
    limit = old;
    limit.rlim_cur = (rlim_t)free_descriptor + 1; /* enough to write, but fsync needs one more */
    setrlimit(RLIMIT_NOFILE, &limit);
    assert_write_fails(file, PATH, strerror(EMFILE));
    setrlimit(RLIMIT_NOFILE, &old);
    ppo_file_free(file);
}

static void a_write_needs_no_seek_and_a_read_that_cannot_seek_fails(void **state) {
    (void)state;
    ppo_file *file = NULL;
    put(PATH, g_nothing, sizeof g_nothing);
    assert_ok(make_contents(&file, 0));
    failing = 's';
    assert_ok(ppo_file_write(file, PATH));
    assert_file_is(PATH, g_contents, sizeof g_contents);
    ppo_file_free(file);
    assert_fails(ppo_file_read(PATH, &file), PPO_ERROR_FILE, strerror(EIO));
    failing = '-';
    assert_null(file);
}

/* --- Memory --------------------------------------------------------------------------------------------- */

static ppo_status write_and_read(void *user) {
    (void)user;
    ppo_file *made = NULL, *read = NULL;
    ppo_status status = make_contents(&made, 0);
    if (!status) status = ppo_file_write(made, PATH);
    if (!status) status = ppo_file_read(PATH, &read);
    if (!status) check_contents(read);
    if (status) assert_null(read);
    ppo_file_free(made);
    ppo_file_free(read);
    return status;
}

/* So many that the lists grow, and an array that needs a piece of memory of its own. */
static ppo_status write_and_read_many(void *user) {
    static float data[10000];
    ppo_file *made = NULL, *read = NULL;
    ppo_status status = ppo_file_create(&made);
    (void)user;
    for (int i = 0; i < 40 && !status; i++) {
        char name[4] = {(char)('a' + i % 26), (char)('a' + i / 26), 0, 0};
        status = add_one(made, name, PPO_F32, i == 7 ? 10000 : i, data);
        if (!status) status = ppo_file_set_text(made, name, name);
    }
    if (!status) status = ppo_file_write(made, PATH);
    if (!status) status = ppo_file_read(PATH, &read);
    if (!status) assert_int_equal(ppo_file_count(read) + ppo__file_text_count(read), 80);
    ppo_file_free(made);
    ppo_file_free(read);
    return status;
}

static void every_failing_allocation_is_reported_and_leaks_nothing(void **state) {
    (void)state;
    assert_true(fail_each_allocation(write_and_read, NULL) >= 8);
    assert_true(fail_each_allocation(write_and_read_many, NULL) >= 15);
    assert_int_equal(files_in_folder(), 1); /* and no temporary file */
}

/* Lets lists grow, but no arena. */
static void *small_hook(void *user, void *ptr, size_t size) {
    return size > 8000 ? NULL : heap_hook(user, ptr, size);
}

/* An addition that failed is as if it had not been tried. `filled` texts move the point where memory ends. */
static void use_up_memory(int filled) {
    heap h = {0, 0, -1, 0};
    const char *kept = "0";
    char name[300];
    int refused = 0;
    ppo_file *file = NULL;
    assert_ok(make_contents(&file, 0));
    for (int i = 0; i <= filled; i++) assert_ok(ppo_file_set_text(file, "again", kept));
    ppo_set_allocator(small_hook, &h);
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "new %0250d", i);
        int arrays = ppo_file_count(file), texts = ppo__file_text_count(file);
        ppo_status array = add_one(file, name, PPO_U8, 1, seven), text = ppo_file_set_text(file, name, name);
        assert_int_equal(ppo_file_count(file), arrays + !array);
        assert_int_equal(ppo__file_text_count(file), texts + !text);
        assert_true((ppo_file_find(file, name) != NULL) == !array);
        assert_true((ppo_file_text(file, name) != NULL) == !text);
        if (ppo_file_set_text(file, "again", name)) {
            assert_string_equal(ppo_file_text(file, "again"), kept);
            refused++;
        }
        kept = ppo_file_text(file, "again");
        name[0] = 'x'; /* a key for which there may be no room when there is some for its text */
        assert_true(!ppo_file_set_text(file, name, "") == (ppo_file_text(file, name) != NULL));
    }
    assert_in_range(refused, 1, 29);
    ppo_set_allocator(NULL, NULL);
    snprintf(name, sizeof name, "%s", kept);
    assert_ok(ppo_file_write(file, PATH));
    ppo_file_free(file);
    assert_ok(ppo_file_read(PATH, &file));
    assert_string_equal(ppo_file_text(file, "again"), name);
    ppo_file_free(file);
}

static void a_file_that_lacked_memory_can_be_used_on(void **state) {
    (void)state;
    for (int filled = 0; filled < 8; filled++) use_up_memory(filled);
}

/* --- Damage --------------------------------------------------------------------------------------------- */

/* What holds of every file that was read, whatever it was; touches every byte. */
static void check_sound(const ppo_file *file) {
    static const int sizes[] = {1, 1, 2, 2, 4, 4, 4, 8, 8, 8};
    unsigned sum = 0;
    for (int i = 0; i < ppo_file_count(file); i++) {
        const ppo_array *array = ppo_file_at(file, i);
        assert_in_range(array->type, 0, PPO_U64);
        assert_in_range(array->rank, 0, PPO_MAX_RANK);
        size_t product = (size_t)sizes[array->type];
        for (int k = 0; k < array->rank; k++) product *= (size_t)array->shape[k];
        assert_int_equal(array->bytes, product);
        assert_int_equal((uintptr_t)array->data % (unsigned)sizes[array->type], 0);
        for (size_t k = 0; k < array->bytes; k++) sum += ((const unsigned char *)array->data)[k];
        assert_true(ppo__is_utf8(array->name));
        assert_ptr_equal(ppo_file_find(file, array->name), array);
        if (i) assert_true(strcmp(ppo_file_at(file, i - 1)->name, array->name) < 0);
    }
    for (int i = 0; i < ppo__file_text_count(file); i++) {
        const char *key = ppo_file_key_at(file, i);
        assert_true(ppo__is_utf8(key) && ppo__is_utf8(ppo_file_text(file, key)));
        if (i) assert_true(strcmp(ppo_file_key_at(file, i - 1), key) < 0);
    }
    ppo_fail(PPO_OK, "(%u)", sum);
}

static size_t header_end(const unsigned char *whole, size_t n) {
    size_t length = n > 8 ? whole[0] + 256u * whole[1] : 0;
    return 8 + length < n ? 8 + length : n;
}

/* One damage to a whole file of n bytes, most of them to its header; returns the new n. */
static size_t damage(ppo_rng *rng, unsigned char *whole, size_t n) {
    static const char *const pieces[] = {"{",
                                         "}",
                                         "[",
                                         "]",
                                         "\"",
                                         ",",
                                         ":",
                                         "\\",
                                         "\\u",
                                         "\\ud800",
                                         "0",
                                         "-",
                                         "9223372036854775807",
                                         "18446744073709551616",
                                         "e9",
                                         ".5",
                                         "null",
                                         "\"a\":{}",
                                         "__metadata__",
                                         "\"dtype\":\"F64\"",
                                         "\"shape\":[0]",
                                         "\"data_offsets\":[0,0]",
                                         " ",
                                         "\377",
                                         "\300\200"};
    size_t end = header_end(whole, n);
    size_t at = n && ppo_rng_below(rng, 8) ? (size_t)ppo_rng_below(rng, (int)end)
                : n                        ? (size_t)ppo_rng_below(rng, (int)n)
                                           : 0;
    size_t digit = at;
    const char *piece = pieces[ppo_rng_below(rng, COUNT(pieces))];
    size_t size = strlen(piece), from, count;
    if (n == 0) return 0;
    switch (ppo_rng_below(rng, 8)) {
    case 0:
        whole[at] ^= (unsigned char)(1 << ppo_rng_below(rng, 8));
        return n;
    case 1:
        whole[at] = (unsigned char)ppo_rng_below(rng, 256);
        return n;
    case 2:
        return at; /* cut off */
    case 3:        /* a number in the header */
        while (digit < end && (whole[digit] < '0' || whole[digit] > '9')) digit++;
        if (digit < end) whole[digit] = (unsigned char)('0' + ppo_rng_below(rng, 10));
        return n;
    case 4: /* a piece put in, and the header made as much longer */
        memmove(whole + at + size, whole + at, n - at);
        memcpy(whole + at, piece, size);
        if (at >= 8) whole[0] = (unsigned char)(whole[0] + size);
        return n + size;
    case 5: /* a piece written over */
        if (at + size > n) return n;
        memcpy(whole + at, piece, size);
        return n;
    case 6: /* some of it moved to another place */
        from = (size_t)ppo_rng_below(rng, (int)n);
        count = (size_t)ppo_rng_below(rng, 40);
        if (at + count <= n && from + count <= n) memmove(whole + at, whole + from, count);
        return n;
    default: /* some taken out, and the header made as much shorter */
        count = (size_t)ppo_rng_below(rng, 20);
        if (at + count > n) return n;
        memmove(whole + at, whole + at + count, n - at - count);
        if (at >= 8) whole[0] = (unsigned char)(whole[0] - count);
        return n - count;
    }
}

static void a_damaged_file_is_read_or_refused(void **state) {
    (void)state;
    static const struct {
        const unsigned char *bytes;
        size_t n;
    } seeds[] = {{g_contents, sizeof g_contents},
                 {g_texts, sizeof g_texts},
                 {g_spelled, sizeof g_spelled},
                 {g_nothing, sizeof g_nothing}};
    static unsigned char whole[ROOM];
    const char *count = getenv("PPO_FUZZ");
    long files = count ? atol(count) : 2000, read = 0;
    ppo_rng rng = test_rng(2);
    for (long i = 0; i < files; i++) {
        const int seed = ppo_rng_below(&rng, 8) ? ppo_rng_below(&rng, 3) : 3;
        size_t n = seeds[seed].n;
        heap h = {0, 0, -1, 0};
        ppo_file *file = NULL;
        memcpy(whole, seeds[seed].bytes, n);
        for (int k = 1 + ppo_rng_below(&rng, 3); k > 0; k--) n = damage(&rng, whole, n);
        put(PATH, whole, n);
        ppo_set_allocator(heap_hook, &h);
        ppo_fail(PPO_OK, "(no sentence)");
        ppo_status status = ppo_file_read(PATH, &file);
        if (status == PPO_OK) {
            read++;
            check_sound(file);
            if (i % 64 == 0) { /* and it can be written, and read again */
                assert_ok(ppo_file_write(file, PATH));
                ppo_file_free(file);
                file = NULL;
                assert_ok(ppo_file_read(PATH, &file));
            }
        } else {
            assert_int_equal(status, PPO_ERROR_FILE);
            assert_true(strncmp(ppo_last_error(), PATH ": ", strlen(PATH) + 2) == 0);
            assert_null(file);
        }
        ppo_file_free(file);
        ppo_set_allocator(NULL, NULL);
        assert_int_equal(h.live, 0);
    }
    print_message("# %ld of %ld damaged files were still to be read\n", read, files);
    if (files >= 1000) assert_in_range(read, files / 50, files / 2); /* or the damage is of no use */
}

static int enter_folder(void **state) {
    (void)state;
    free_descriptor = lowest_descriptor();
    return mkdtemp(home) && chdir(home) == 0 ? 0 : -1;
}

static int leave_folder(void **state) {
    empty_folder(state);
    return chdir("/") || rmdir(home);
}

#define TEST(function) cmocka_unit_test_teardown(function, empty_folder)

static void settings_and_their_struct_must_not_be_null(void **state) {
    (void)state;
    static const ppo_field field = {"rate", PPO_FIELD_FLOAT, 0, NULL, 0, 1, NULL, "", 0, 0};
    const ppo_settings settings = {&field, 1, NULL, NULL, NULL};
    const float rate = 0.5f;
    assert_ok(ppo__settings_check(&settings, &rate));
    assert_fails(ppo__settings_check(&settings, NULL), PPO_ERROR_ARGUMENT, "settings|NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_and_their_struct_must_not_be_null),
        TEST(a_file_of_python_is_read),
        TEST(the_bytes_are_those_that_python_writes),
        TEST(what_was_read_is_written_as_it_was),
        TEST(a_file_without_anything_is_two_brackets),
        TEST(a_file_may_hold_texts_alone),
        TEST(texts_are_found_by_key_and_listed_in_order),
        TEST(arrays_are_found_by_name_and_listed_in_order),
        TEST(spaces_escapes_order_and_alignment_are_free),
        TEST(every_escape_is_decoded),
        TEST(arrays_without_elements_may_lie_anywhere),
        TEST(expect_says_what_is_there_instead),
        TEST(impossible_arrays_are_refused),
        TEST(texts_that_are_not_utf8_are_refused),
        TEST(null_is_refused_or_empty),
        TEST(hostile_files_are_refused_with_the_reason),
        TEST(a_header_length_that_the_file_has_not_is_refused),
        TEST(a_header_of_more_than_100_megabytes_is_refused),
        TEST(what_a_file_says_of_itself_cannot_steer_a_terminal),
        TEST(a_long_path_and_a_long_name_leave_room_for_the_reason),
        TEST(memory_is_taken_for_what_is_there_not_for_what_is_claimed),
        TEST(a_hundred_thousand_names_take_no_long_time),
        TEST(thousands_of_arrays_are_written_and_read),
        TEST(what_cannot_be_read_is_told_with_the_reason),
        TEST(a_file_that_ends_early_is_refused),
        TEST(a_failing_write_leaves_the_old_file_and_no_other),
        TEST(a_full_disk_is_reported_whenever_it_is_noticed),
        TEST(what_could_not_be_read_again_is_not_written),
        TEST(a_folder_that_is_write_protected_is_told),
        TEST(missing_directories_are_made),
        TEST(a_file_that_a_killed_process_left_is_not_in_the_way),
        TEST(a_name_as_long_as_the_system_allows_can_be_written),
        TEST(out_pointers_are_null_after_a_failure),
        TEST(a_symbolic_link_is_replaced_not_followed),
        TEST(a_killed_writer_leaves_one_content_or_the_other),
        TEST(the_new_file_is_on_the_disk_before_it_takes_the_place_of_the_old),
        TEST(a_write_that_the_disk_refuses_fails_and_one_that_a_folder_refuses_does_not),
        TEST(a_write_needs_no_seek_and_a_read_that_cannot_seek_fails),
        TEST(every_failing_allocation_is_reported_and_leaks_nothing),
        TEST(a_file_that_lacked_memory_can_be_used_on),
        TEST(a_damaged_file_is_read_or_refused),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
