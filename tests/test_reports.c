/* Section 17: the progress line and the curve. */
#define PPO_IMPLEMENTATION
#include "../ppo.h"

#include "test.h"

enum { MAX_LINES = 400, MAX_LINE = 1200 };

typedef struct page {
    int  lines;
    char line[MAX_LINES][MAX_LINE]; /* without the newline */
    int  complete;                  /* 1: the last line ended with one */
} page;

static page p;

static void read_back(FILE *file) {
    memset(&p, 0, sizeof p);
    p.complete = 1;
    rewind(file);
    while (p.lines < MAX_LINES && fgets(p.line[p.lines], MAX_LINE, file)) {
        char *end = strchr(p.line[p.lines++], '\n');
        p.complete = end != NULL;
        if (end) *end = 0;
    }
    fclose(file);
}

static FILE *paper(void) {
    FILE *file = tmpfile();
    assert_non_null(file);
    return file;
}

/* --------------------------------------------------------------------------------------------------------
   The progress line
   -------------------------------------------------------------------------------------------------------- */

static ppo_progress progress_at(long iteration, long iterations) {
    ppo_progress progress;
    memset(&progress, 0, sizeof progress);
    progress.iteration = iteration, progress.iteration_steps = 1000;
    progress.steps = 1000 * iteration, progress.total_steps = 1000 * iterations;
    progress.seconds = 2, progress.steps_per_second = 98765, progress.seconds_left = 83;
    progress.mean_return = 123.5f, progress.mean_length = 77, progress.approx_kl = 0.0123f,
    progress.entropy = 0.456f;
    return progress;
}

static void progress_is_one_plain_line_with_the_figures(void **state) {
    (void)state;
    ppo_progress progress = progress_at(3, 10);
    FILE        *file = paper();
    assert_int_equal(ppo_print_progress(&progress, file), 0); /* as a callback: go on */
    read_back(file);
    assert_int_equal(p.lines, 1);
    assert_true(p.complete);
    static const char *const words[] = {"3000/10000", "98765/s", "123.5", "0.0123", "0.456", "1:23"};
    for (int i = 0; i < COUNT(words); i++)
        if (!strstr(p.line[0], words[i])) fail_msg("\"%s\" lacks %s", p.line[0], words[i]);
    for (const char *c = p.line[0]; *c; c++) assert_true(*c >= ' ' && *c <= '~');
}

static void progress_copes_without_a_finished_episode(void **state) {
    (void)state;
    ppo_progress progress = progress_at(1, 2);
    FILE        *file = paper();
    progress.mean_return = progress.mean_length = NAN;
    ppo_print_progress(&progress, file);
    read_back(file);
    assert_int_equal(p.lines, 1);
    assert_null(strstr(p.line[0], "nan"));
    assert_non_null(strstr(p.line[0], "1000/2000"));
}

static void progress_of_a_long_run_is_about_twenty_lines_and_the_last_step_is_told(void **state) {
    (void)state;
    static const long iterations[] = {1, 3, 20, 99, 1000};
    for (int i = 0; i < COUNT(iterations); i++) {
        FILE *file = paper();
        char  last[64];
        long  n = iterations[i];
        for (long k = 1; k <= n; k++) {
            ppo_progress progress = progress_at(k, n);
            ppo_print_progress(&progress, file);
        }
        read_back(file);
        if (n <= 20) assert_int_equal(p.lines, n);
        if (n > 20) assert_in_range(p.lines, 20, 21);
        snprintf(last, sizeof last, "%ld/%ld", 1000 * n, 1000 * n);
        assert_non_null(strstr(p.line[p.lines - 1], last));
        for (int k = 1; k < p.lines; k++) assert_string_not_equal(p.line[k], p.line[k - 1]);
    }
}

static void progress_works_as_the_callback_of_a_training(void **state) {
    (void)state;
    ppo_env    env = walk_env();
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    FILE      *file = paper();
    cfg.callback = ppo_print_progress, cfg.callback_user = file;
    assert_ok(ppo_train(&env, &cfg, &agent));
    ppo_agent_free(agent);
    read_back(file);
    assert_int_equal(p.lines, 2);
    assert_non_null(strstr(p.line[0], "16/32"));
    assert_non_null(strstr(p.line[1], "32/32"));
}

/* --------------------------------------------------------------------------------------------------------
   The curve
   -------------------------------------------------------------------------------------------------------- */

static void draw(const char *title, const float *x, const float *y, int n, int width, int height) {
    FILE *file = paper();
    ppo_print_curve(file, title, x, y, n, width, height);
    read_back(file);
    assert_true(p.complete);
    for (int i = 0; i < p.lines; i++)
        for (const char *c = p.line[i]; *c; c++) assert_true(*c >= ' ' && *c <= '~');
}

/* The line that has a star in this column of characters, -1 if none has. */
static int star_in(int column) {
    for (int i = 0; i < p.lines; i++)
        if ((int)strlen(p.line[i]) > column && p.line[i][column] == '*') return i;
    return -1;
}

/* First and last column with a star. */
static void find_stars(int *first, int *last) {
    *first = *last = -1;
    for (int c = 0; c < MAX_LINE; c++)
        if (star_in(c) >= 0) {
            if (*first < 0) *first = c;
            *last = c;
        }
}

static void assert_within(int width, int height) {
    assert_true(p.lines <= height);
    for (int i = 0; i < p.lines; i++)
        if ((int)strlen(p.line[i]) > width)
            fail_msg("%d characters in \"%s\"", (int)strlen(p.line[i]), p.line[i]);
}

static void a_rising_curve_rises_from_the_lower_left_to_the_upper_right(void **state) {
    (void)state;
    float x[50], y[50];
    int   first, last;
    for (int i = 0; i < 50; i++) x[i] = (float)i, y[i] = 2 * x[i] - 10;
    draw("the title", x, y, 50, 60, 12);
    assert_string_equal(p.line[0], "the title");
    assert_within(60, 12 + 1);
    find_stars(&first, &last);
    assert_true(first >= 0 && last > first + 30);
    for (int c = first + 1; c <= last; c++) assert_true(star_in(c) >= 0 && star_in(c) <= star_in(c - 1));
    assert_int_equal(star_in(last), 1);         /* the topmost line of the drawing */
    assert_true(star_in(first) >= p.lines - 4); /* near the axis */
    assert_non_null(strstr(p.line[star_in(last)], "88"));
    assert_non_null(strstr(p.line[star_in(first)], "-10"));
    assert_non_null(strstr(p.line[p.lines - 1], "49"));
}

static void points_that_are_not_finite_are_left_out(void **state) {
    (void)state;
    float x[5] = {0, 1, 2, 3, 4}, y[5] = {NAN, 1, INFINITY, 2, NAN};
    int   first, last;
    draw(NULL, x, y, 5, 40, 10);
    assert_within(40, 10);
    find_stars(&first, &last);
    assert_true(first >= 0 && star_in(first) > star_in(last)); /* from 1 up to 2, bridging what is missing */
    for (int i = 0; i < p.lines; i++)
        assert_null(strstr(p.line[i], "nan")), assert_null(strstr(p.line[i], "inf"));
}

static void a_curve_may_be_empty_a_point_or_flat(void **state) {
    (void)state;
    float x[3] = {5, 6, 7}, flat[3] = {2, 2, 2}, nans[3] = {NAN, NAN, NAN}, same_x[3] = {1, 1, 1};
    int   first, last;
    draw("t", x, flat, 0, 40, 10);
    find_stars(&first, &last);
    assert_int_equal(first, -1);
    assert_string_equal(p.line[1], "(nothing to draw)");
    draw("t", x, nans, 3, 40, 10);
    find_stars(&first, &last);
    assert_int_equal(first, -1);
    assert_string_equal(p.line[0], "t");
    draw(NULL, x, flat, 1, 40, 10);
    find_stars(&first, &last);
    assert_true(first >= 0);
    draw(NULL, x, flat, 3, 40, 10);
    find_stars(&first, &last);
    assert_true(first >= 0 && star_in(first) == star_in(last) && last > first + 20);
    draw(NULL, same_x, x, 3, 40, 10);
    find_stars(&first, &last);
    assert_true(first >= 0);
}

static void a_curve_stays_within_its_width_and_height(void **state) {
    (void)state;
    static const float scales[] = {1, 1e-7f, 123456.78f, -98765432.0f, 1e30f};
    float              x[100], y[100];
    for (int s = 0; s < COUNT(scales); s++)
        for (int width = 20; width <= 120; width += 25)
            for (int height = 5; height <= 30; height += 5) {
                for (int i = 0; i < 100; i++)
                    x[i] = fabsf(scales[s]) * (float)(i + 1), y[i] = scales[s] * sinf(0.1f * (float)i);
                draw(NULL, x, y, 100, width, height);
                assert_within(width, height);
            }
}

static void a_curve_over_all_floats_has_finite_labels_and_keeps_its_shape(void **state) {
    (void)state;
    float x[3] = {-3e38f, 0, 3e38f}, y[3] = {-3e38f, 0, 3e38f};
    int   first, last;
    draw(NULL, x, y, 3, 60, 13);
    find_stars(&first, &last);
    for (int i = 0; i < p.lines; i++)
        assert_null(strstr(p.line[i], "nan")), assert_null(strstr(p.line[i], "inf"));
    assert_non_null(strstr(p.line[0], " 3e+38"));
    assert_non_null(strstr(p.line[10], "-3e+38"));
    assert_int_equal(star_in(first), 10);
    assert_int_equal(star_in((first + last) / 2), 5);
    assert_int_equal(star_in(last), 0);
    assert_non_null(strstr(p.line[12], "-3e+38"));
}

static void impossible_sizes_and_pointers_do_no_harm(void **state) {
    (void)state;
    static const int sizes[] = {-5, 0, 1, 2, 13, 1000};
    float            x[2] = {0, 1}, y[2] = {-3e38f, 3e38f};
    for (int i = 0; i < COUNT(sizes); i++)
        for (int k = 0; k < COUNT(sizes); k++) draw("t", x, y, 2, sizes[i], sizes[k] > 300 ? 300 : sizes[k]);
    draw(NULL, x, y, -1, 40, 10);
    draw(NULL, NULL, y, 2, 40, 10);
    draw(NULL, x, NULL, 2, 40, 10);
    ppo_print_curve(NULL, "t", x, y, 2, 40, 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_is_one_plain_line_with_the_figures),
        cmocka_unit_test(progress_copes_without_a_finished_episode),
        cmocka_unit_test(progress_of_a_long_run_is_about_twenty_lines_and_the_last_step_is_told),
        cmocka_unit_test(progress_works_as_the_callback_of_a_training),
        cmocka_unit_test(a_rising_curve_rises_from_the_lower_left_to_the_upper_right),
        cmocka_unit_test(points_that_are_not_finite_are_left_out),
        cmocka_unit_test(a_curve_may_be_empty_a_point_or_flat),
        cmocka_unit_test(a_curve_stays_within_its_width_and_height),
        cmocka_unit_test(a_curve_over_all_floats_has_finite_labels_and_keeps_its_shape),
        cmocka_unit_test(impossible_sizes_and_pointers_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
