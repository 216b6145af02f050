/* All that reads what others wrote (fuzz.h), with inputs that do what they should and those of golden/corpus/, which
   `make fuzz` found: they reach what others do not, or once did harm. */
#include "../ppo.h"

#include "test.h"
#include "system.h"

#define FUZZ_FAIL(text) fail_msg("%s", text)
#include "fuzz.h"
#include "corpus.h"

static void run_input(void *user, const void *data, size_t size) {
    fuzz_run((const fuzz_target *)user, (const unsigned char *)data, size);
}

static void kept_inputs_do_no_harm(void **state) {
    fuzz_target *target = (fuzz_target *)*state;
    target->seed(run_input, target);
    assert_true(corpus_read("tests/golden/corpus", target->name, run_input, target) > 0);
    corpus_read("tests/golden/corpus/found", target->name, run_input, target);
}

/* What is written as text reads the same. */
static void expect_bytes(void *user, const void *data, size_t size) {
    assert_int_equal(size, 600);
    assert_memory_equal(data, user, size);
}

static void an_input_as_text_reads_the_same(void **state) {
    unsigned char bytes[600];
    (void)state;
    for (int i = 0; i < COUNT(bytes); i++) bytes[i] = (unsigned char)(i < 500 ? i / 2 : 0);
    FILE *file = fopen(fuzz_path("bytes.txt"), "wb");
    assert_non_null(file);
    for (int k = 0; k < 3; k++) corpus_write(file, bytes, sizeof bytes);
    fclose(file);
    assert_int_equal(corpus_read(fuzz_home, "bytes", expect_bytes, bytes), 3);
}

static int begin(void **state) {
    (void)state;
    fuzz_open();
    return 0;
}

static int end(void **state) {
    (void)state;
    fuzz_close();
    return fuzz_taken != 0;
}

int main(void) {
    static fuzz_target targets[FUZZ_COUNT(fuzz_targets)];
    struct CMUnitTest tests[FUZZ_COUNT(fuzz_targets) + 1] = {
        cmocka_unit_test(an_input_as_text_reads_the_same)};
    memcpy(targets, fuzz_targets, sizeof targets);
    for (int k = 0; k < FUZZ_COUNT(targets); k++) {
        const struct CMUnitTest test = {targets[k].name, kept_inputs_do_no_harm, NULL, NULL, &targets[k]};
        tests[k + 1] = test;
    }
    return cmocka_run_group_tests(tests, begin, end);
}
