/* Section 17: the progress line, the curve in characters and as SVG. */
#define PPO_IMPLEMENTATION
#include "../ppo.h"

#include "test.h"

#include <dirent.h>
#include <unistd.h>

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

/* --------------------------------------------------------------------------------------------------------
   Files
   -------------------------------------------------------------------------------------------------------- */

enum { PATH = 512, MAX_BYTES = 1 << 20 };

static char folder[PATH]; /* of the test that runs */

static const char *in_folder(const char *name) { /* good until the next call but one */
    static char path[2][2 * PATH];
    static int  turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static void remove_tree(const char *path) {
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        char inner[3 * PATH];
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) remove_tree(inner);
    }
    if (dir) closedir(dir);
    remove(path);
}

static int make_folder(void **state) {
    const char *tmp = getenv("TMPDIR");
    (void)state;
    snprintf(folder, sizeof folder, "%s/ppo_reports.XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    ppo_set_allocator(NULL, NULL);
    remove_tree(folder);
    return 0;
}

static unsigned char bytes[MAX_BYTES + 1];

/* A whole file into `bytes`, with a 0 behind; returns its size, -1 if it is not there. */
static long slurp(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) return -1;
    long n = (long)fread(bytes, 1, MAX_BYTES, file);
    bytes[n] = 0;
    fclose(file);
    return n;
}

static void spit(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* --------------------------------------------------------------------------------------------------------
   The chart
   -------------------------------------------------------------------------------------------------------- */

/* `bytes` as XML: tags close in order, attributes are quoted, & and < escaped. Returns the number of tags. */
static int check_xml(void) {
    char        open[16][16];
    int         depth = 0, tags = 0;
    const char *c = (const char *)bytes;
    while (*c) {
        if (*c == '&')
            assert_true(!strncmp(c, "&amp;", 5) || !strncmp(c, "&lt;", 4) || !strncmp(c, "&gt;", 4));
        assert_true((unsigned char)*c >= ' ' || *c == '\n');
        if (*c != '<') {
            assert_true(*c != '>' && (depth > 0 || *c == '\n'));
            c++;
            continue;
        }
        int    closing = c[1] == '/';
        size_t n = strcspn(c += 1 + closing, " />");
        assert_true(n > 0 && n < sizeof open[0] && depth < 15);
        if (closing) {
            assert_true(depth > 0 && strlen(open[--depth]) == n && !strncmp(open[depth], c, n) &&
                        c[n] == '>');
            c += n + 1;
            continue;
        }
        tags++;
        snprintf(open[depth++], sizeof open[0], "%.*s", (int)n, c);
        for (c += n; *c == ' ';) { /* name="value" */
            c += strcspn(c, "=<>");
            assert_true(c[0] == '=' && c[1] == '"');
            c += 2 + strcspn(c + 2, "\"<>");
            assert_true(*c++ == '"');
        }
        if (*c == '/') depth--, c++;
        assert_true(*c++ == '>');
    }
    assert_int_equal(depth, 0);
    return tags;
}

static void plot(const char *title, const char *x_label, const char *y_label, const ppo_curve *curves,
                 int n) {
    assert_ok(ppo_plot_svg(in_folder("charts/a.svg"), title, x_label, y_label, curves, n));
    assert_true(slurp(in_folder("charts/a.svg")) > 0);
    assert_true(!strncmp((char *)bytes, "<svg xmlns=\"http://www.w3.org/2000/svg\"", 39));
    assert_true(check_xml() > 5);
    assert_null(strstr((char *)bytes, "nan"));
    assert_null(strstr((char *)bytes, "inf"));
}

static int has_text(const char *text) { /* as the whole of an element */
    char element[256];
    snprintf(element, sizeof element, ">%s</text>", text);
    return strstr((char *)bytes, element) != NULL;
}

/* The points of the k-th curve, in the drawing's units; returns how many. */
static int points_of(int k, long x[], long y[], int most) {
    const char *at = (const char *)bytes;
    int         n = 0, length;
    for (; k >= 0; k--) {
        at = strstr(at + 1, "fill=\"none\"");
        if (!at) return 0;
    }
    at = strstr(at, " d=\"") + 4;
    for (; n < most && sscanf(at, "%*1[ML]%ld %ld%n", &x[n], &y[n], &length) == 2; n++) at += length;
    return n;
}

static void a_chart_rises_with_the_curve_between_round_ticks(void **state) {
    (void)state;
    static const char *const x_ticks[] = {"0", "20k", "40k", "60k", "80k", "100k"};
    static const char *const y_ticks[] = {"0", "100", "200", "300", "400", "500"};
    float                    x[49], y[49];
    long                     px[49], py[49];
    for (int i = 0; i < 49; i++) x[i] = 2048.0f * (float)(i + 1), y[i] = 20 + 470 * (float)i / 48;
    ppo_curve curve = {NULL, x, y, 49};
    plot("CartPole-v1", "steps", "return", &curve, 1);
    assert_true(has_text("CartPole-v1") && has_text("steps") && has_text("return"));
    for (int i = 0; i < COUNT(x_ticks); i++) assert_true(has_text(x_ticks[i]) && has_text(y_ticks[i]));
    assert_false(has_text("120k") || has_text("600") || has_text("50") || has_text("10k"));
    assert_int_equal(points_of(0, px, py, 49), 49);
    for (int i = 1; i < 49; i++) assert_true(px[i] > px[i - 1] && py[i] < py[i - 1]);
    assert_true(px[0] > 0 && px[48] < 8000 && py[48] > 0 && py[0] < 4500);
    assert_true(labs((px[24] - px[0]) - (px[48] - px[24])) <= 1);
    long begin = strtol(strstr((const char *)bytes, "<path d=\"M") + 10, NULL, 10); /* of the axis, at 0 */
    assert_true(labs((px[0] - begin) - (px[1] - px[0])) <= 1);
    assert_int_equal(points_of(1, px, py, 49), 0);
}

static void tick_labels_suit_the_numbers(void **state) {
    (void)state;
    static const struct {
        float       low, high;
        const char *some[3];
    } ranges[] = {
        {0, 1, {"0", "0.2", "1.0"}},
        {-1, 1, {"-1.0", "0", "0.5"}},
        {0, 1e7f, {"2M", "10M", "0"}},
        {0, 2e6f, {"0.5M", "1.0M", "2.0M"}},
        {0, 3e9f, {"1.0G", "2.0G", "3.0G"}},
        {0, 8000, {"2000", "4000", "0"}},
        {0, 2e-3f, {"0.0005", "0.0015", "0.0020"}},
        {100, 101, {"100.2", "100.8", "101.0"}},
        {0, 1e-6f, {"2e-07", "4e-07", "1e-06"}},
        {-3e38f, 3e38f, {"-2e+38", "0", "2e+38"}},
        {7, 7, {"4", "6", "10"}},
        {0, 0, {"-1.0", "0", "0.5"}},
    };
    for (int i = 0; i < COUNT(ranges); i++) {
        float     x[2] = {3, 3.5f}, y[2] = {ranges[i].low, ranges[i].high};
        ppo_curve curve = {NULL, x, y, 2};
        plot(NULL, NULL, NULL, &curve, 1);
        for (int k = 0; k < 3; k++)
            if (!has_text(ranges[i].some[k]))
                fail_msg("no tick at %s from %g to %g", ranges[i].some[k], (double)ranges[i].low,
                         (double)ranges[i].high);
    }
}

static void every_point_of_every_chart_lies_inside(void **state) {
    (void)state;
    static const float scales[] = {1, 1e-30f, 123456.78f, -98765432.0f, 1e38f};
    float              x[30], y[30];
    long               px[30], py[30];
    for (int s = 0; s < COUNT(scales); s++) {
        for (int i = 0; i < 30; i++)
            x[i] = fabsf(scales[s]) * ((float)(i - 10) / 10), y[i] = scales[s] * sinf((float)i);
        ppo_curve curves[2] = {{"a", x, y, 30}, {"b", x, x, 30}};
        plot("t", "x", "y", curves, 2);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(points_of(k, px, py, 30), 30);
            for (int i = 0; i < 30; i++)
                assert_true(px[i] >= 0 && px[i] <= 8000 && py[i] >= 0 && py[i] <= 4500);
        }
    }
}

static void points_of_a_chart_that_are_not_finite_are_left_out(void **state) {
    (void)state;
    float     x[6] = {0, 1, 2, 3, NAN, INFINITY}, y[6] = {NAN, 1, INFINITY, 2, 1, 1}, none[2] = {NAN, NAN};
    long      px[6], py[6];
    ppo_curve curves[] = {
        {"some", x, y, 6}, {"none", x, none, 2}, {"empty", NULL, NULL, 0}, {"one", x, x, 1}};
    plot(NULL, NULL, NULL, curves, 4);
    assert_int_equal(points_of(0, px, py, 6), 2);
    assert_int_equal(points_of(1, px, py, 6), 1); /* of "one": the others have no line, but a name */
    assert_true(has_text("none") && has_text("empty"));
    plot(NULL, NULL, NULL, &curves[1], 2); /* nothing at all to draw */
    assert_int_equal(points_of(0, px, py, 6), 0);
}

static void texts_of_a_chart_may_hold_anything(void **state) {
    (void)state;
    float     x[2] = {0, 1};
    ppo_curve curves[20];
    for (int i = 0; i < 20; i++) {
        ppo_curve curve = {i % 3 ? "<&\"'>\t\n\x01 \xc3\xa4" : NULL, x, x, 2};
        curves[i] = curve;
    }
    plot("a < b && c > d", "\"x\"", "]]>", curves, 20);
    assert_true(has_text("a &lt; b &amp;&amp; c &gt; d") && has_text("]]&gt;"));
}

static void the_same_chart_gives_the_same_bytes(void **state) {
    (void)state;
    static unsigned char first[MAX_BYTES];
    float                x[100], y[100];
    ppo_rng              rng = test_rng(1);
    for (int i = 0; i < 100; i++) x[i] = (float)i;
    fill_normal(&rng, y, 100, 3);
    ppo_curve curves[2] = {{"a", x, y, 100}, {"b", x, x, 50}};
    plot("t", "x", "y", curves, 2);
    memcpy(first, bytes, sizeof first);
    plot("t", "x", "y", curves, 2);
    assert_memory_equal(first, bytes, sizeof first);
}

static void a_chart_that_cannot_be_drawn_says_why(void **state) {
    (void)state;
    float     x[1] = {0};
    ppo_curve good = {"a", x, x, 1}, no_y = {"a", x, NULL, 1}, negative = {"a", x, x, -1};
    assert_fails(ppo_plot_svg(NULL, NULL, NULL, NULL, &good, 1), PPO_ERROR_ARGUMENT, "path");
    assert_fails(ppo_plot_svg("a", NULL, NULL, NULL, NULL, 1), PPO_ERROR_ARGUMENT, "nothing");
    assert_fails(ppo_plot_svg("a", NULL, NULL, NULL, &good, 0), PPO_ERROR_ARGUMENT, "nothing");
    assert_fails(ppo_plot_svg("a", NULL, NULL, NULL, &no_y, 1), PPO_ERROR_ARGUMENT, "curve 0");
    assert_fails(ppo_plot_svg("a", NULL, NULL, NULL, &negative, 1), PPO_ERROR_ARGUMENT, "curve 0|-1");
    spit(in_folder("file"), "x");
    assert_fails(ppo_plot_svg(in_folder("file/a.svg"), NULL, NULL, NULL, &good, 1), PPO_ERROR_FILE,
                 "file/a.svg|Not a directory");
    assert_int_equal(access("a", F_OK), -1);
}

#define in_a_folder(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

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
        in_a_folder(a_chart_rises_with_the_curve_between_round_ticks),
        in_a_folder(tick_labels_suit_the_numbers),
        in_a_folder(every_point_of_every_chart_lies_inside),
        in_a_folder(points_of_a_chart_that_are_not_finite_are_left_out),
        in_a_folder(texts_of_a_chart_may_hold_anything),
        in_a_folder(the_same_chart_gives_the_same_bytes),
        in_a_folder(a_chart_that_cannot_be_drawn_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
