/* Section 23, and ppo_report.h: the progress line, the curve in characters and as SVG, the log. */
#include "../ppo.h"
#include "../examples/companions/ppo_judge.h"
#include "../examples/companions/ppo_methods.h"
#include "../examples/companions/ppo_report.h"

#include "test.h"
#include "system.h"
#include "golden/events.h"

/* Takes the place of the C library's: seeks fail where a test says so. */
static int seeks_fail;
int fseek(FILE *file, long offset, int whence) { return seeks_fail ? -1 : fseeko(file, offset, whence); }

enum { MAX_LINES = 400, MAX_LINE = 1200 };

typedef struct page {
    int lines;
    char line[MAX_LINES][MAX_LINE]; /* without the newline */
    int complete;                   /* 1: the last line ended with one */
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
    FILE *file = paper();
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
    FILE *file = paper();
    progress.mean_return = progress.mean_length = NAN;
    progress.mean_reward = -0.0125f;
    ppo_print_progress(&progress, file);
    read_back(file);
    assert_int_equal(p.lines, 1);
    assert_non_null(strstr(p.line[0], "reward  -0.0125 "));
    assert_null(strstr(p.line[0], "nan"));
    assert_non_null(strstr(p.line[0], "1000/2000"));
}

static void progress_shows_returns_of_every_size(void **state) {
    (void)state;
    static const struct {
        float mean_return;
        const char *text;
    } cases[] = {{-0.004f, "return    -0.00 "},
                 {-123456.789f, "return -123456.79 "},
                 {-3e38f, "return   -3e+38 "},
                 {INFINITY, "return      inf "},
                 {-INFINITY, "return     -inf "}};
    for (int i = 0; i < COUNT(cases); i++) {
        ppo_progress progress = progress_at(1, 2);
        FILE *file = paper();
        progress.mean_return = cases[i].mean_return;
        ppo_print_progress(&progress, file);
        read_back(file);
        if (!strstr(p.line[0], cases[i].text)) fail_msg("\"%s\" lacks \"%s\"", p.line[0], cases[i].text);
    }
}

static void progress_of_a_long_run_is_about_twenty_lines_and_the_last_step_is_told(void **state) {
    (void)state;
    static const long iterations[] = {1, 3, 20, 99, 1000};
    for (int i = 0; i < COUNT(iterations); i++) {
        FILE *file = paper();
        char last[64];
        long n = iterations[i];
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
    ppo_env env = walk_env();
    ppo_config cfg = tiny_config();
    ppo_agent *agent = NULL;
    FILE *file = paper();
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
    int first, last;
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
    const char *axis = p.line[p.lines - 2]; /* as wide as the curve */
    assert_int_equal(strcspn(axis, "-"), first);
    assert_int_equal(strlen(axis), last + 1);
    assert_int_equal(strspn(axis + first, "-"), last + 1 - first);
}

static void points_that_are_not_finite_are_left_out(void **state) {
    (void)state;
    float x[5] = {0, 1, 2, 3, 4}, y[5] = {NAN, 1, INFINITY, 2, NAN};
    int first, last;
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
    int first, last;
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
    float x[100], y[100];
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
    int first, last;
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
    static const int sizes[] = {INT_MIN, -5, 0, 1, 2, 13, 1000, INT_MAX};
    float x[2] = {0, 1}, y[2] = {-3e38f, 3e38f};
    for (int i = 0; i < COUNT(sizes); i++) {
        for (int k = 0; k < COUNT(sizes); k++) {
            draw("t", x, y, 2, sizes[i], sizes[k]);
            assert_within(12 + 256, 3 + 256);
        }
    }
    draw(NULL, x, y, -1, 40, 10);
    draw(NULL, NULL, y, 2, 40, 10);
    draw(NULL, x, NULL, 2, 40, 10);
    ppo_print_curve(NULL, "t", x, y, 2, 40, 10);
}

/* --------------------------------------------------------------------------------------------------------
   Files
   -------------------------------------------------------------------------------------------------------- */

enum { PATH = 512, MAX_BYTES = 1 << 20 };

static char folder[PATH], csv[2 * PATH], tb[2 * PATH]; /* of the test that runs, and two paths in it */

static const char *in_folder(const char *name) { /* good until the next call but one */
    static char path[2][2 * PATH];
    static int turn;
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
    if (!mkdtemp(folder)) return -1;
    snprintf(csv, sizeof csv, "%s/progress.csv", folder);
    snprintf(tb, sizeof tb, "%s/tb", folder);
    return 0;
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

/* The files of a directory by name, in the order of their names; returns how many. */
static int list(const char *path, char names[8][PATH]) {
    struct dirent **entry = NULL;
    int n = scandir(path, &entry, NULL, alphasort), files = 0;
    for (int i = 0; i < n; i++) {
        if (entry[i]->d_name[0] != '.' && files < 8)
            snprintf(names[files++], PATH, "%.*s", PATH - 1, entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
    return files;
}

/* --------------------------------------------------------------------------------------------------------
   The log
   -------------------------------------------------------------------------------------------------------- */

static ppo_progress figures(long iteration) { /* those of make_events.py */
    ppo_progress progress = progress_at(iteration, 100);
    progress.steps = 2048 * iteration, progress.steps_per_second = 98765.9, progress.seconds = 17.8;
    progress.episodes = 7, progress.mean_length = 123.25f, progress.mean_return = -45.5f;
    progress.mean_reward = -0.25f;
    progress.last_approx_kl = 0.0123f, progress.approx_kl = 9, progress.clip_fraction = 0.125f;
    progress.clip_range = 0.2f, progress.value_clip = 0.3f, progress.entropy = 1.4f;
    progress.explained_variance = 0.75f, progress.learning_rate = 3e-4f, progress.last_loss = 12.5f;
    progress.policy_loss = -0.0025f, progress.std = 0.9f, progress.value_loss = 6.5f;
    progress.updates = 10 * iteration;
    return progress;
}

static ppo_progress few_figures(long iteration) { /* no episode, no Gaussian, no value_clip */
    ppo_progress progress = figures(iteration);
    progress.episodes = 0, progress.std = progress.value_clip = 0;
    progress.mean_return = progress.mean_length = progress.explained_variance = NAN;
    return progress;
}

static void log_rows(ppo_log *log, long first, long last) {
    for (long i = first; i <= last; i++) {
        ppo_progress progress = figures(i);
        assert_ok(ppo_log_write(log, &progress));
    }
}

static ppo_log *open_log(const char *csv, const char *tensorboard, long steps) {
    ppo_log *log = NULL;
    assert_ok(ppo_log_open(csv, tensorboard, steps, &log));
    assert_non_null(log);
    return log;
}

/* A CSV file, cut up. */
enum { MAX_ROWS = 40, MAX_COLUMNS = 24 };
static struct {
    int rows, columns;
    char cell[MAX_ROWS][MAX_COLUMNS][48]; /* row 0: the names */
} table;

static void read_table(const char *path) {
    memset(&table, 0, sizeof table);
    assert_true(slurp(path) > 0);
    for (char *line = (char *)bytes; *line; table.rows++) {
        char *end = strchr(line, '\n');
        int column = 0;
        assert_non_null(end);
        assert_true(table.rows < MAX_ROWS);
        for (; line < end; line++) {
            size_t n = strcspn(line, ",\n");
            assert_true(column < MAX_COLUMNS && n < sizeof table.cell[0][0]);
            memcpy(table.cell[table.rows][column++], line, n);
            line += n;
            if (*line == ',' && line + 1 == end) column++; /* an empty field at the end */
        }
        if (table.rows == 0) table.columns = column;
        assert_int_equal(column, table.columns);
        line = end + 1;
    }
}

static const char *cell(int row, const char *name) {
    for (int c = 0; c < table.columns; c++)
        if (!strcmp(table.cell[0][c], name)) return table.cell[row][c];
    fail_msg("there is no column %s", name);
    return NULL;
}

/* The rows are those of iterations first .. last. */
static void assert_iterations(int first, int last) {
    assert_int_equal(table.rows - 1, last - first + 1);
    for (int i = first; i <= last; i++) {
        assert_int_equal(atol(cell(i - first + 1, "time/iterations")), i);
        assert_int_equal(atol(cell(i - first + 1, "time/total_timesteps")), 2048 * i);
    }
}

static void a_csv_row_has_the_figures_as_stable_baselines3_means_them(void **state) {
    (void)state;
    static const struct {
        const char *name, *text;
    } want[] = {
        {"rollout/ep_len_mean", "123.25"},
        {"rollout/ep_rew_mean", "-45.5"},
        {"rollout/step_rew_mean", "-0.25"},
        {"time/fps", "98765"},
        {"time/iterations", "11"},
        {"time/time_elapsed", "17"},
        {"time/total_timesteps", "22528"},
        {"train/approx_kl", "0.0123"},
        {"train/clip_fraction", "0.125"},
        {"train/clip_range", "0.2"},
        {"train/clip_range_vf", "0.3"},
        {"train/entropy_loss", "-1.4"},
        {"train/explained_variance", "0.75"},
        {"train/learning_rate", "0.0003"},
        {"train/loss", "12.5"},
        {"train/n_updates", "110"},
        {"train/policy_gradient_loss", "-0.0025"},
        {"train/std", "0.9"},
        {"train/value_loss", "13"},
        {"train/warning", ""},
    };
    ppo_progress progress = figures(11), few = few_figures(12);
    ppo_log *log = open_log(csv, NULL, 0);
    assert_ok(ppo_log_write(log, &progress));
    assert_ok(ppo_log_write(log, &few));
    ppo_log_close(log);
    read_table(csv);
    assert_int_equal(table.rows, 3);
    assert_int_equal(table.columns, COUNT(want));
    for (int i = 0; i < COUNT(want); i++) {
        assert_string_equal(table.cell[0][i], want[i].name); /* sorted */
        assert_string_equal(table.cell[1][i], want[i].text);
    }
    assert_string_equal(cell(2, "train/explained_variance"), "nan"); /* as Python has it */
}

static int has(const char *const *names, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (!strcmp(names[i], name)) return 1;
    return 0;
}

static void the_columns_are_stable_baselines3_s_and_empty_where_it_has_none(void **state) {
    (void)state;
    ppo_progress gaussian = figures(1), discrete = figures(2), early = few_figures(3);
    discrete.std = discrete.value_clip = 0;
    ppo_log *log = open_log(csv, NULL, 0);
    assert_ok(ppo_log_write(log, &gaussian));
    assert_ok(ppo_log_write(log, &discrete));
    assert_ok(ppo_log_write(log, &early));
    ppo_log_close(log);
    read_table(csv);
    assert_int_equal(table.columns, COUNT(g_gaussian_columns) + 2);
    for (int c = 0; c < table.columns; c++) {
        const char *name = table.cell[0][c];
        if (!strcmp(name, "rollout/step_rew_mean") || !strcmp(name, "train/warning")) continue; /* ours */
        int in_discrete = has(g_discrete_columns, COUNT(g_discrete_columns), name);
        assert_true(has(g_gaussian_columns, COUNT(g_gaussian_columns), name));
        assert_true(table.cell[1][c][0] != 0);
        assert_int_equal(table.cell[2][c][0] != 0, in_discrete);
        assert_int_equal(table.cell[3][c][0] != 0, in_discrete && strncmp(name, "rollout/", 8) != 0);
    }
}

static void numbers_of_a_csv_read_back_as_the_same_floats(void **state) {
    (void)state;
    static const float numbers[] = {0.1f,     1e-45f,      FLT_MAX,  -FLT_MIN,    16777216.0f,
                                    1.0f / 3, 123456.789f, 1e10f,    -98765432.f, 0.0001234f,
                                    0,        1,           INFINITY, -INFINITY,   12.4536295f};
    ppo_log *log = open_log(csv, NULL, 0);
    for (int i = 0; i < COUNT(numbers); i++) {
        ppo_progress progress = figures(i + 1);
        progress.last_loss = numbers[i];
        assert_ok(ppo_log_write(log, &progress));
    }
    ppo_log_close(log);
    read_table(csv);
    for (int i = 0; i < COUNT(numbers); i++)
        assert_true(strtof(cell(i + 1, "train/loss"), NULL) == numbers[i]);
    assert_string_equal(cell(1, "train/loss"), "0.1"); /* the shortest of them */
    assert_string_equal(cell(12, "train/loss"), "1");
    assert_string_equal(cell(14, "train/loss"), "-inf");
}

static void a_comma_of_the_locale_does_not_get_into_the_files(void **state) {
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "fr_FR"};
    const char *found = NULL;
    for (int i = 0; i < COUNT(names) && !found; i++) found = setlocale(LC_NUMERIC, names[i]);
    if (!found) skip();
    float x[2] = {0, 1}, y[2] = {0, 0.5f};
    ppo_curve curve = {"c", x, y, 2};
    ppo_log *log = open_log(csv, NULL, 0);
    log_rows(log, 11, 11);
    ppo_log_close(log);
    assert_ok(ppo_plot_svg(in_folder("a.svg"), NULL, NULL, NULL, &curve, 1));
    setlocale(LC_NUMERIC, "C");
    read_table(csv);
    assert_string_equal(cell(1, "train/clip_range"), "0.2");
    assert_true(slurp(in_folder("a.svg")) > 0);
    assert_non_null(strstr((char *)bytes, ">0.5<"));
}

static void a_new_run_replaces_the_csv_and_makes_the_directories(void **state) {
    (void)state;
    ppo_log *log = open_log(in_folder("runs/a/progress.csv"), in_folder("runs//a/b/tb"), 0);
    log_rows(log, 1, 5);
    ppo_log_close(log);
    read_table(in_folder("runs/a/progress.csv"));
    assert_iterations(1, 5);
    log = open_log(in_folder("runs/a/progress.csv"), NULL, 0);
    read_table(in_folder("runs/a/progress.csv")); /* the names are there at once */
    assert_int_equal(table.rows, 1);
    log_rows(log, 3, 4);
    read_table(in_folder("runs/a/progress.csv")); /* and each row, before the end */
    assert_iterations(3, 4);
    ppo_log_close(log);
    ppo_log_close(NULL);
}

static void a_resumed_run_drops_the_rows_it_will_make_again(void **state) {
    (void)state;
    ppo_log *log = open_log(csv, NULL, 0);
    log_rows(log, 1, 9);
    ppo_log_close(log);
    log = open_log(csv, NULL, 2048 * 6);
    read_table(csv);
    assert_iterations(1, 6);
    log_rows(log, 7, 8);
    ppo_log_close(log);
    read_table(csv);
    assert_iterations(1, 8);
    log = open_log(csv, NULL, 2048 * 6 - 1); /* between two rows */
    log_rows(log, 6, 6);
    ppo_log_close(log);
    read_table(csv);
    assert_iterations(1, 6);
    log = open_log(csv, NULL, 2048 * 100); /* beyond the last */
    log_rows(log, 7, 7);
    ppo_log_close(log);
    read_table(csv);
    assert_iterations(1, 7);
    assert_int_equal(slurp(in_folder("progress.csv.kept")), -1);
}

static void a_resumed_run_copes_with_a_torn_an_empty_and_a_missing_csv(void **state) {
    (void)state;
    static char whole[MAX_BYTES];
    ppo_log *log = open_log(csv, NULL, 0);
    log_rows(log, 1, 3);
    ppo_log_close(log);
    long size = slurp(csv), row = 0;
    memcpy(whole, bytes, sizeof whole);
    for (long i = 0; i < size - 1; i++)
        if (whole[i] == '\n') row = i + 1;    /* where the last one begins */
    for (long cut = row; cut < size; cut++) { /* killed in the middle of it */
        FILE *file = fopen(csv, "wb");
        fwrite(whole, 1, (size_t)cut, file);
        fclose(file);
        log = open_log(csv, NULL, 2048 * 50);
        log_rows(log, 3, 4);
        ppo_log_close(log);
        read_table(csv);
        assert_iterations(1, 4);
    }
    for (int length = 0; length < 40; length += 13) { /* of the names alone */
        FILE *file = fopen(csv, "wb");
        fwrite(whole, 1, (size_t)length, file);
        fclose(file);
        log = open_log(csv, NULL, 2048);
        log_rows(log, 2, 3);
        ppo_log_close(log);
        read_table(csv);
        assert_iterations(2, 3);
    }
    log = open_log(in_folder("other.csv"), NULL, 2048);
    log_rows(log, 2, 3);
    ppo_log_close(log);
    read_table(in_folder("other.csv"));
    assert_iterations(2, 3);
}

static void what_a_power_failure_leaves_after_the_rows_of_a_checkpoint_is_dropped(void **state) {
    (void)state;
    static const char left[] = "\0\0\0\0\0\0\0\0\n,,,\0,1,2\nhalf of a li";
    ppo_log *log = open_log(csv, NULL, 0);
    log_rows(log, 1, 3);
    ppo_log_close(log);
    FILE *file = fopen(csv, "ab");
    fwrite(left, 1, sizeof left - 1, file);
    fclose(file);
    assert_fails(ppo_log_open(csv, NULL, 2048 * 4, &log), PPO_ERROR_FILE, "line 5 is not a row"); /* row 4? */
    log = open_log(csv, NULL, 2048 * 3);
    log_rows(log, 4, 5);
    ppo_log_close(log);
    read_table(csv);
    assert_iterations(1, 5);
}

static void a_csv_of_another_kind_is_refused_and_left_alone(void **state) {
    (void)state;
    static char header[2048], text[4096];
    char names[8][PATH];
    ppo_log *log = open_log(csv, NULL, 0);
    ppo_log_close(log);
    slurp(csv);
    snprintf(header, sizeof header, "%.2000s", (char *)bytes);
    static const char *const rows[] = {"1,2,3\n", "\n", ",,,,,,x,,,,,,,,,,,,,\n",
                                       ",,,,,,2048 ,,,,,,,,,,,,,\n", ",,,,,,2048,,,,,,,,,,,,,,\n"};
    for (int i = -2; i < COUNT(rows); i++) {
        if (i == -2) snprintf(text, sizeof text, "a,b\n1,2\n");
        if (i == -1) snprintf(text, sizeof text, "x%s", header);
        if (i >= 0) snprintf(text, sizeof text, "%s,,,,,,2048,,,,,,,,,,,,,\n%s", header, rows[i]);
        spit(csv, text);
        log = (ppo_log *)text;
        assert_fails(ppo_log_open(csv, tb, 4096, &log), PPO_ERROR_FILE,
                     i < 0 ? "progress.csv|columns" : "progress.csv|line 3");
        assert_null(log);
        slurp(csv);
        assert_string_equal((char *)bytes, text);
        assert_int_equal(list(tb, names), 0); /* no event file of a log that is not */
        assert_int_equal(list(folder, names), 2);
    }
}

/* -- event files, decoded from what the formats say -- */

/* CRC-32C by a table, from its polynomial x^32 + x^28 + x^27 + ... (reflected: 0x82f63b78). */
static uint32_t crc32c(const unsigned char *data, size_t n) {
    static uint32_t step[256];
    uint32_t crc = 0xffffffffu;
    for (uint32_t i = 0; i < 256 && !step[255]; i++) {
        uint32_t x = i;
        for (int bit = 0; bit < 8; bit++) x = x & 1 ? (x >> 1) ^ 0x82f63b78u : x >> 1;
        step[i] = x;
    }
    for (size_t i = 0; i < n; i++) crc = (crc >> 8) ^ step[(crc ^ data[i]) & 255];
    return crc ^ 0xffffffffu;
}

static void crc32c_of_the_tests_knows_the_vectors_of_rfc_3720(void **state) {
    (void)state;
    unsigned char data[32];
    assert_int_equal(crc32c((const unsigned char *)"123456789", 9), 0xe3069283u);
    memset(data, 0, 32);
    assert_int_equal(crc32c(data, 0), 0);
    assert_int_equal(crc32c(data, 32), 0x8a9136aau);
    memset(data, 255, 32);
    assert_int_equal(crc32c(data, 32), 0x62a8ab43u);
    for (int i = 0; i < 32; i++) data[i] = (unsigned char)i;
    assert_int_equal(crc32c(data, 32), 0x46dd794eu);
    for (int i = 0; i < 32; i++) data[i] = (unsigned char)(31 - i);
    assert_int_equal(crc32c(data, 32), 0x113fdb5cu);
}

static uint64_t little_endian(const unsigned char *at, int n) {
    uint64_t x = 0;
    while (n--) x = x << 8 | at[n];
    return x;
}

static uint32_t masked(const unsigned char *data, size_t n) {
    uint32_t crc = crc32c(data, n);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

/* A field of a protocol buffer; `at` moves behind it. */
typedef struct field {
    int number, type;
    uint64_t bits;             /* types 0, 1 and 5; of type 2 the length */
    const unsigned char *data; /* type 2 */
} field;

static uint64_t varint(const unsigned char **at, const unsigned char *end) {
    uint64_t x = 0;
    for (int shift = 0;; shift += 7) {
        assert_true(*at < end && shift < 64);
        x |= (uint64_t)(**at & 127) << shift;
        if (*(*at)++ < 128) return x;
    }
}

static field next_field(const unsigned char **at, const unsigned char *end) {
    uint64_t key = varint(at, end);
    field f = {(int)(key >> 3), (int)(key & 7), 0, NULL};
    int size = f.type == 1 ? 8 : f.type == 5 ? 4 : 0;
    if (f.type == 0 || f.type == 2) f.bits = varint(at, end);
    else f.bits = little_endian(*at, size);
    if (f.type == 2) f.data = *at, *at += f.bits;
    else *at += size;
    assert_true(f.type == 0 || f.type == 1 || f.type == 2 || f.type == 5);
    assert_true(*at <= end);
    return f;
}

typedef struct event {
    double wall_time;
    int64_t step;
    char version[32];
    int session, scalars;
    char tag[MAX_COLUMNS][256];
    float value[MAX_COLUMNS];
} event;

static struct {
    int n;
    event e[MAX_ROWS];
} events;

static void decode_summary(event *e, field summary) {
    for (const unsigned char *at = summary.data, *end = at + summary.bits; at < end;) {
        field value = next_field(&at, end);
        assert_true(value.number == 1 && value.type == 2 && e->scalars < MAX_COLUMNS);
        const unsigned char *in = value.data, *out = in + value.bits;
        field tag = next_field(&in, out), simple = next_field(&in, out);
        uint32_t bits = (uint32_t)simple.bits;
        assert_true(tag.number == 1 && tag.type == 2 && tag.bits < sizeof e->tag[0]);
        assert_true(simple.number == 2 && simple.type == 5 && in == out);
        memcpy(e->tag[e->scalars], tag.data, tag.bits);
        memcpy(&e->value[e->scalars++], &bits, 4);
    }
}

static void decode_event(event *e, const unsigned char *at, const unsigned char *end) {
    while (at < end) {
        field f = next_field(&at, end);
        if (f.number == 1) memcpy(&e->wall_time, &f.bits, 8);
        if (f.number == 2) e->step = (int64_t)f.bits;
        if (f.number == 3) snprintf(e->version, sizeof e->version, "%.*s", (int)f.bits, f.data);
        if (f.number == 5) decode_summary(e, f);
        if (f.number == 7) e->session = f.bits == 2 && f.data[0] == 8 ? f.data[1] : -1;
    }
}

/* Reads the event files of a directory, one after another by name; each record's checksums must be right. */
static void read_events(const char *path) {
    char names[8][PATH];
    int files = list(path, names);
    memset(&events, 0, sizeof events);
    for (int i = 0; i < files; i++) {
        char name[4 * PATH];
        snprintf(name, sizeof name, "%.1000s/%.500s", path, names[i]);
        assert_non_null(strstr(names[i], "events.out.tfevents."));
        long size = slurp(name);
        for (const unsigned char *at = bytes, *end = bytes + size; at < end;) {
            assert_true(end - at >= 16);
            uint64_t length = little_endian(at, 8);
            assert_int_equal(little_endian(at + 8, 4), masked(at, 8));
            assert_true((uint64_t)(end - at) >= 16 + length);
            assert_int_equal(little_endian(at + 12 + length, 4), masked(at + 12, length));
            assert_true(events.n < MAX_ROWS);
            decode_event(&events.e[events.n++], at + 12, at + 12 + length);
            at += 16 + length;
        }
    }
}

static float scalar(const event *e, const char *tag) {
    for (int i = 0; i < e->scalars; i++)
        if (!strcmp(e->tag[i], tag)) return e->value[i];
    fail_msg("there is no %s", tag);
    return 0;
}

static void event_files_decode_to_what_was_logged(void **state) {
    (void)state;
    double before = (double)time(NULL);
    ppo_progress progress = figures(11), discrete = figures(12), few = few_figures(13);
    discrete.std = discrete.value_clip = 0;
    ppo_log *log = open_log(NULL, tb, 0);
    assert_ok(ppo_log_write(log, &progress));
    assert_ok(ppo_log_write(log, &discrete));
    assert_ok(ppo_log_write(log, &few));
    assert_ok(ppo_log_scalar(log, "eval/mean_return", 498.25, 30000));
    read_events(tb); /* before the end */
    ppo_log_close(log);
    assert_int_equal(events.n, 6);
    for (int i = 0; i < 6; i++)
        assert_true(events.e[i].wall_time >= before && events.e[i].wall_time <= before + 60);
    assert_string_equal(events.e[0].version, "brain.Event:2");
    assert_true(events.e[1].session == 1 && events.e[1].step == 0);

    const event *e = &events.e[2];
    assert_int_equal(e->step, 22528);
    assert_true(scalar(e, "rollout/ep_rew_mean") == -45.5f && scalar(e, "rollout/ep_len_mean") == 123.25f);
    assert_true(scalar(e, "time/fps") == 98765 && scalar(e, "train/approx_kl") == 0.0123f);
    assert_true(scalar(e, "train/entropy_loss") == -1.4f && scalar(e, "train/value_loss") == 13);
    assert_true(scalar(e, "train/loss") == 12.5f && scalar(e, "train/std") == 0.9f);
    assert_int_equal(e->scalars, COUNT(g_gaussian_tags) + 1); /* the third is ours */
    assert_int_equal(e[1].scalars, COUNT(g_discrete_tags) + 1);
    assert_true(scalar(e, "rollout/step_rew_mean") == -0.25f && !strcmp(e->tag[2], "rollout/step_rew_mean"));
    for (int i = 0; i < COUNT(g_gaussian_tags); i++)
        assert_string_equal(e->tag[i + (i >= 2)], g_gaussian_tags[i]);
    for (int i = 0; i < COUNT(g_discrete_tags); i++)
        assert_string_equal(e[1].tag[i + (i >= 2)], g_discrete_tags[i]);
    assert_int_equal(e[2].scalars, COUNT(g_discrete_tags) - 1); /* no finished episode */
    assert_nan(scalar(&e[2], "train/explained_variance"));
    assert_true(e[3].step == 30000 && e[3].scalars == 1 && scalar(&e[3], "eval/mean_return") == 498.25f);
}

static void event_files_are_tensorboard_s_to_the_byte_but_for_the_time(void **state) {
    (void)state;
    char names[8][PATH], key[201] = "long/", path[3 * PATH];
    ppo_progress progress = figures(11), few = few_figures(12);
    memset(key + 5, 'k', 195);
    ppo_log *log = open_log(NULL, tb, 20480);
    assert_ok(ppo_log_write(log, &progress));
    assert_ok(ppo_log_write(log, &few));
    assert_ok(ppo_log_scalar(log, "eval/mean_return", -INFINITY, 0));
    assert_ok(ppo_log_scalar(log, key, 0.1, 2147483647));
    ppo_log_close(log);
    assert_int_equal(list(tb, names), 1);
    snprintf(path, sizeof path, "%s/tb/%s", folder, names[0]);
    long size = slurp(path);
    for (unsigned char *at = bytes; at < bytes + size;) {
        uint64_t length = little_endian(at, 8);
        assert_int_equal(at[12], 9); /* field 1, 8 bytes */
        memcpy(at + 13, &g_events_wall_time, 8);
        uint32_t crc = masked(at + 12, length);
        for (int i = 0; i < 4; i++) at[12 + length + (unsigned)i] = (unsigned char)(crc >> 8 * i);
        at += 16 + length;
    }
    assert_int_equal(size, COUNT(g_events));
    assert_memory_equal(bytes, g_events, sizeof g_events);
}

static void a_resumed_run_takes_later_points_back_in_a_file_behind_the_others(void **state) {
    (void)state;
    static const long steps[] = {0, 2048 * 2, 2048 * 3, 2048 * 3, 2048};
    char names[8][PATH];
    for (int i = 0; i < COUNT(steps); i++) { /* also within one second */
        ppo_log *log = open_log(NULL, tb, steps[i]);
        log_rows(log, i + 1, i + 1);
        ppo_log_close(log);
    }
    assert_int_equal(list(tb, names), COUNT(steps));
    read_events(tb);
    assert_int_equal(events.n, 3 * COUNT(steps));
    for (int i = 0; i < COUNT(steps); i++) {
        const event *e = &events.e[3 * i];
        assert_string_equal(e[0].version, "brain.Event:2");
        assert_int_equal(e[1].session, 1); /* its reader drops what is at this step or later */
        assert_int_equal(e[1].step, steps[i] ? steps[i] + 1 : 0);
        assert_int_equal(e[2].step, 2048 * (i + 1));
    }
}

/* -- failures -- */

static void a_log_that_cannot_be_opened_says_why(void **state) {
    (void)state;
    static char long_path[6000];
    ppo_log *log = (ppo_log *)long_path;
    memset(long_path, 'x', sizeof long_path - 1);
    spit(in_folder("file"), "x");
    mkdir(in_folder("taken.csv"), 0777);
    assert_fails(ppo_log_open(in_folder("file/a.csv"), NULL, 0, &log), PPO_ERROR_FILE,
                 "file/a.csv|cannot be created|Not a directory");
    assert_null(log);
    assert_fails(ppo_log_open(NULL, in_folder("file"), 0, &log), PPO_ERROR_FILE, "file|Not a directory");
    assert_fails(ppo_log_open(NULL, in_folder("file/tb"), 5, &log), PPO_ERROR_FILE, "file|Not a directory");
    assert_int_equal(symlink("round", in_folder("round")), 0);
    alarm(20); /* that would look for a name that is not taken for ever */
    assert_fails(ppo_log_open(NULL, in_folder("round"), 0, &log), PPO_ERROR_FILE, "round|cannot be created");
    alarm(0);
    assert_fails(ppo_log_open(in_folder("taken.csv"), NULL, 0, &log), PPO_ERROR_FILE,
                 "taken.csv|not a plain file");
    assert_fails(ppo_log_open(in_folder("taken.csv"), NULL, 7, &log), PPO_ERROR_FILE,
                 "taken.csv|not a plain file");
    assert_fails(ppo_log_open("", NULL, 0, &log), PPO_ERROR_FILE, "No such file");
    assert_fails(ppo_log_open(long_path, NULL, 0, &log), PPO_ERROR_FILE, "path|4095");
    assert_fails(ppo_log_open(NULL, long_path, 0, &log), PPO_ERROR_FILE, "path|4095");
    assert_fails(ppo_log_open(NULL, NULL, 0, &log), PPO_ERROR_ARGUMENT, "path");
    assert_fails(ppo_log_open("a.csv", NULL, -1, &log), PPO_ERROR_ARGUMENT, "steps is -1");
    assert_fails(ppo_log_open("a.csv", NULL, 0, NULL), PPO_ERROR_ARGUMENT, "log");
    assert_null(log);
}

static void a_closed_door_is_told_from_a_missing_one(void **state) {
    (void)state;
    ppo_log *log = NULL;
    int root = geteuid() == 0; /* who may write anywhere */
    static const char *const paths[] = {"closed/a.csv", "closed/b/c/a.csv", "unread.csv"};
    ppo_status status[3];
    char text[3][256];
    mkdir(in_folder("closed"), 0555);
    chmod(folder, 0755);
    spit(in_folder("unread.csv"), "x");
    chmod(in_folder("unread.csv"), 0200);
    if (root && seteuid(65534) != 0) skip();
    for (int i = 0; i < 3; i++) { /* the last one is to be continued */
        status[i] = ppo_log_open(in_folder(paths[i]), NULL, i / 2, &log);
        snprintf(text[i], sizeof text[i], "%s", ppo_last_error());
    }
    if (root) assert_int_equal(seteuid(0), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(status[i], PPO_ERROR_FILE);
        assert_non_null(strstr(text[i], i < 2 ? "a.csv: cannot be created: Permission denied"
                                              : "unread.csv: cannot be opened: Permission denied"));
    }
    remove(in_folder("unread.csv"));
}

static void a_write_without_a_log_or_figures_is_refused(void **state) {
    (void)state;
    static char key[600];
    ppo_progress progress = figures(1);
    ppo_log *log = open_log(csv, tb, 0);
    memset(key, 'k', sizeof key - 1);
    assert_fails(ppo_log_write(NULL, &progress), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_log_write(log, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_log_scalar(NULL, "a", 0, 0), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_log_scalar(log, NULL, 0, 0), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_log_scalar(log, key, 0, 0), PPO_ERROR_ARGUMENT, "599 bytes");
    assert_fails(ppo_log_scalar(log, "a", 0, -1), PPO_ERROR_ARGUMENT, "steps -1");
    key[512] = 0;
    assert_ok(ppo_log_scalar(log, key, 0, 0));
    ppo_log_close(log);
    log = open_log(csv, NULL, 0);
    assert_ok(ppo_log_scalar(log, "a", 1, 1)); /* nowhere to go, and no harm */
    ppo_log_close(log);
}

static void a_full_device_is_reported(void **state) {
    (void)state;
    ppo_log *log = NULL;
    float x[1] = {1};
    ppo_curve curve = {NULL, x, x, 1};
    if (access("/dev/full", W_OK) != 0) skip();
    assert_fails(ppo_log_open("/dev/full", NULL, 0, &log), PPO_ERROR_FILE,
                 "/dev/full|written|not a plain file");
    assert_null(log);
    assert_fails(ppo_plot_svg("/dev/full", NULL, NULL, NULL, &curve, 1), PPO_ERROR_FILE,
                 "/dev/full|written|not a plain file");
}

/* No file may grow beyond `size` bytes, as if the disk were full. */
static void limit_files(long size) {
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = size < 0 ? limit.rlim_max : (rlim_t)size;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void a_full_disk_is_reported_at_the_write_and_leaves_no_torn_row(void **state) {
    (void)state;
    char names[8][PATH];
    ppo_progress progress = figures(3);
    signal(SIGXFSZ, SIG_IGN);
    for (int which = 0; which < 2; which++) {
        ppo_log *log = open_log(which ? NULL : csv, which ? tb : NULL, 0);
        char path[3 * PATH];
        log_rows(log, 1, 2);
        if (which) assert_int_equal(list(tb, names), 1);
        snprintf(path, sizeof path, "%s/%s", folder, which ? "tb/" : "progress.csv");
        if (which) snprintf(path + strlen(path), PATH, "%s", names[0]);
        limit_files(slurp(path) + 20); /* a row begins to fit */
        for (int again = 0; again < 3; again++)
            assert_fails(ppo_log_write(log, &progress), PPO_ERROR_FILE, "written|File too large");
        limit_files(-1);
        log_rows(log, 4, 5);
        ppo_log_close(log);
    }
    signal(SIGXFSZ, SIG_DFL);
    read_table(csv);
    assert_int_equal(table.rows, 5);
    assert_string_equal(cell(3, "time/iterations"), "4");
    read_events(tb);
    assert_int_equal(events.n, 6);
    assert_int_equal(events.e[4].step, 2048 * 4);
}

static void a_resume_on_a_full_disk_leaves_the_csv_as_it_was(void **state) {
    (void)state;
    static char before[MAX_BYTES];
    char names[8][PATH];
    ppo_log *log = open_log(csv, NULL, 0);
    log_rows(log, 1, 20);
    ppo_log_close(log);
    long size = slurp(csv);
    memcpy(before, bytes, (size_t)size + 1);
    signal(SIGXFSZ, SIG_IGN);
    limit_files(size / 2);
    ppo_status status = ppo_log_open(csv, NULL, 2048 * 20, &log);
    limit_files(-1);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(status, PPO_ERROR_FILE);
    assert_non_null(strstr(ppo_last_error(), "File too large"));
    assert_int_equal(slurp(csv), size);
    assert_string_equal((char *)bytes, before);
    assert_int_equal(list(folder, names), 1);
}

static void a_seek_that_fails_is_reported_and_nothing_is_written_elsewhere(void **state) {
    (void)state;
    ppo_progress progress = figures(3);
    ppo_log *log = open_log(csv, NULL, 0), *none = NULL;
    log_rows(log, 1, 2);
    signal(SIGXFSZ, SIG_IGN);
    limit_files(slurp(csv) + 20);
    assert_fails(ppo_log_write(log, &progress), PPO_ERROR_FILE, "written|File too large");
    limit_files(-1);
    signal(SIGXFSZ, SIG_DFL);
    seeks_fail = 1;
    ppo_status status = ppo_log_write(log, &progress);
    seeks_fail = 0;
    assert_int_equal(status, PPO_ERROR_FILE);
    log_rows(log, 3, 4);
    ppo_log_close(log);
    seeks_fail = 1;
    status = ppo_log_open(csv, NULL, 2048 * 4, &none);
    seeks_fail = 0;
    assert_int_equal(status, PPO_ERROR_FILE);
    assert_null(none);
    read_table(csv);
    assert_iterations(1, 4);
}

static void steps_beyond_32_bits_are_kept(void **state) {
    (void)state;
    const int64_t many = 5000000000;
    ppo_progress progress = figures(1);
    ppo_log *log = open_log(csv, tb, 0);
    for (int i = 0; i < 2; i++) {
        progress.steps = many + i;
        assert_ok(ppo_log_write(log, &progress));
    }
    assert_ok(ppo_log_scalar(log, "a", 1, many + 2));
    ppo_log_close(log);
    read_events(tb);
    for (int i = 0; i < 3; i++) assert_true(events.e[2 + i].step == many + i);
    log = NULL;
    assert_ok(ppo_log_open(csv, NULL, many, &log));
    ppo_log_close(log);
    read_table(csv);
    assert_int_equal(table.rows, 2);
    assert_string_equal(cell(1, "time/total_timesteps"), "5000000000");
}

static ppo_status log_job(void *user) {
    ppo_log *log = NULL;
    ppo_progress progress = figures(1);
    (void)user;
    ppo_status status = ppo_log_open(csv, tb, 2048, &log);
    if (!status) status = ppo_log_write(log, &progress);
    ppo_log_close(log);
    return status;
}

static void failed_allocations_of_a_log_are_reported_and_leak_nothing(void **state) {
    (void)state;
    assert_int_equal(fail_each_allocation(log_job, NULL), 2);
}

static void writes_allocate_nothing(void **state) {
    (void)state;
    heap h = {0, 0, -1, 0};
    ppo_set_allocator(heap_hook, &h);
    ppo_log *log = open_log(csv, tb, 0);
    long calls = h.calls;
    log_rows(log, 1, 10);
    assert_int_equal(h.calls, calls);
    ppo_log_close(log);
    assert_int_equal(h.live, 0);
}

/* -- the figures of a training -- */

static ppo_progress seen[64];
static int seen_count;

static int log_and_keep(const ppo_progress *progress, void *log) {
    seen[seen_count++] = *progress;
    return ppo_log_write((ppo_log *)log, progress);
}

static void train_with_log(ppo_env env, ppo_config cfg) {
    ppo_agent *agent = NULL;
    seen_count = 0;
    cfg.callback = log_and_keep;
    cfg.callback_user = open_log(csv, NULL, 0);
    assert_ok(ppo_train(&env, &cfg, &agent));
    ppo_log_close((ppo_log *)cfg.callback_user);
    double std = 0;
    for (int i = 0; agent->model.log_std && i < 2; i++) std += 0.5 * exp(agent->model.log_std->data[i]);
    assert_close(seen[seen_count - 1].std, std, 1e-6); /* after the last update */
    ppo_agent_free(agent);
    read_table(csv);
    assert_int_equal(table.rows, seen_count + 1);
}

static void a_training_fills_in_what_the_log_needs(void **state) {
    (void)state;
    ppo_config cfg = tiny_config();
    cfg.total_steps = 16 * 5, cfg.value_clip = 0.25f, cfg.value_coef = 0.7f, cfg.entropy_coef = 0.1f;
    cfg.minibatch_size = 16, cfg.epochs = 1; /* one minibatch: the means are the last */
    train_with_log(walk_env(), cfg);
    for (int i = 0; i < seen_count; i++) {
        const ppo_progress *s = &seen[i];
        assert_int_equal(s->updates, i + 1);
        assert_close(s->last_loss, s->policy_loss + 0.7 * s->value_loss - 0.1 * s->entropy, 1e-5);
        assert_true(s->last_approx_kl == s->approx_kl && s->std == 0 && s->value_clip == 0.25f);
    }
    cfg.minibatch_size = 5, cfg.epochs = 3;
    train_with_log(reach_env(), cfg);
    for (int i = 0; i < seen_count; i++) {
        assert_int_equal(seen[i].updates, 3 * (i + 1));
        assert_true(seen[i].std > 0.9f && seen[i].std < 1.1f && seen[i].std != 1);
        assert_true(seen[i].last_approx_kl > seen[i].approx_kl); /* it grows by the epoch */
        assert_true(strtof(cell(i + 1, "train/std"), NULL) == seen[i].std);
        assert_true(strtof(cell(i + 1, "train/approx_kl"), NULL) == seen[i].last_approx_kl);
        assert_int_equal(atol(cell(i + 1, "train/n_updates")), 3 * (i + 1));
    }
}

static void the_minibatch_that_stops_the_epochs_counts_as_in_stable_baselines3(void **state) {
    (void)state;
    ppo_config cfg = tiny_config();
    cfg.total_steps = 16 * 5, cfg.minibatch_size = 16, cfg.epochs = 6;
    cfg.target_kl = 1e-9f; /* the second epoch sees that the first one changed something, and stops */
    train_with_log(walk_env(), cfg);
    for (int i = 0; i < seen_count; i++) {
        assert_int_equal(seen[i].epochs, 1);
        assert_int_equal(seen[i].updates, 2 * (i + 1));
        assert_true(seen[i].last_approx_kl > 1.5e-9f);
        assert_close(seen[i].approx_kl, 0.5 * seen[i].last_approx_kl, 1e-5); /* the first one's is 0 */
        assert_true(isfinite(seen[i].grad_norm) && seen[i].grad_norm > 0);
    }
}

/* --------------------------------------------------------------------------------------------------------
   The chart
   -------------------------------------------------------------------------------------------------------- */

/* `bytes` as XML: tags close in order, attributes are quoted, & and < escaped. Returns the number of tags. */
static int check_xml(void) {
    char open[16][16];
    int depth = 0, tags = 0;
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
        int closing = c[1] == '/';
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
    int n = 0, length;
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
    float x[49], y[49];
    long px[49], py[49];
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
        float low, high;
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
        float x[2] = {3, 3.5f}, y[2] = {ranges[i].low, ranges[i].high};
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
    float x[30], y[30];
    long px[30], py[30];
    for (int s = 0; s < 2 * COUNT(scales); s++) {
        const float scale = scales[s / 2];
        for (int i = 0; i < 30; i++)
            x[i] = fabsf(scale) * ((float)(s % 2 ? i + 1 : i - 10) / 10), y[i] = scale * sinf((float)i);
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
    float x[6] = {0, 1, 2, 3, NAN, INFINITY}, y[6] = {NAN, 1, INFINITY, 2, 1, 1}, none[2] = {NAN, NAN};
    long px[6], py[6];
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
    float x[2] = {0, 1};
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
    float x[100], y[100];
    ppo_rng rng = test_rng(1);
    for (int i = 0; i < 100; i++) x[i] = (float)i;
    fill_normal(&rng, y, 100, 3);
    ppo_curve curves[2] = {{"a", x, y, 100}, {"b", x, x, 50}};
    plot("t", "x", "y", curves, 2);
    memcpy(first, bytes, sizeof first);
    plot("t", "x", "y", curves, 2);
    assert_memory_equal(first, bytes, sizeof first);
}

/* Every number of a chart, as somebody looked at it who found it right: whoever moves something looks again. */
static void charts_look_as_they_did(void **state) {
    (void)state;
    static const uint32_t hashes[] = {1507685036, 733674372, 2859413574};
    const float x[4] = {0, 50000, 100000, 150000}, y[4] = {-1.5f, 20, 7.25f, 100};
    const float late[4] = {20000, 60000, 100000, 150000}, share[4] = {0.25f, 0.5f, 0.5f, 1};
    const ppo_curve all[] = {{"return", x, y, 4}, {NULL, x, x, 2}, {"b", y, x, 4},
                             {"c", x, y, 2},      {"d", x, y, 3},  {"e", y, y, 4},
                             {"f", x, x, 3},      {"g", x, y, 1},  {"ninth", x, late, 4}};
    const ppo_curve long_name = {"a name of more letters than the forty that fit", late, y, 4};
    const ppo_curve bare = {NULL, late, share, 4};
    for (int k = 0; k < COUNT(hashes); k++) {
        uint32_t hash = 2166136261u;
        if (k == 0) plot("A title", "steps", "return", all, COUNT(all));
        else if (k == 1) plot(NULL, "x", NULL, &bare, 1);
        else plot(NULL, NULL, "share", &long_name, 1);
        for (const unsigned char *c = bytes; *c; c++) hash = (hash ^ *c) * 16777619u;
        if (hash != hashes[k])
            fail_msg("chart %d has hash %luu: %s", k, (unsigned long)hash, (const char *)bytes);
    }
}

static void a_chart_that_cannot_be_drawn_says_why(void **state) {
    (void)state;
    float x[1] = {0};
    ppo_curve good = {"a", x, x, 1}, no_y = {"a", x, NULL, 1}, negative = {"a", x, x, -1};
    ppo_curve odd = {"\xc3(", x, x, 1};
    assert_fails(ppo_plot_svg(NULL, NULL, NULL, NULL, &good, 1), PPO_ERROR_ARGUMENT, "ppo_plot_svg|NULL");
    assert_fails(ppo_plot_svg("a", NULL, NULL, NULL, NULL, 1), PPO_ERROR_ARGUMENT, "ppo_plot_svg|NULL");
    assert_fails(ppo_plot_svg("a", NULL, NULL, NULL, &good, 0), PPO_ERROR_ARGUMENT, "0 curves|nothing");
    assert_fails(ppo_plot_svg("a", NULL, NULL, NULL, &no_y, 1), PPO_ERROR_ARGUMENT, "curve 0");
    assert_fails(ppo_plot_svg("a", NULL, NULL, NULL, &negative, 1), PPO_ERROR_ARGUMENT, "curve 0|-1");
    spit(in_folder("file"), "x");
    assert_fails(ppo_plot_svg("a", NULL, "x\xff", NULL, &good, 1), PPO_ERROR_ARGUMENT, "UTF-8");
    assert_fails(ppo_plot_svg("a", NULL, NULL, NULL, &odd, 1), PPO_ERROR_ARGUMENT, "curve 0|UTF-8");
    assert_fails(ppo_plot_svg(in_folder("file/a.svg"), NULL, NULL, NULL, &good, 1), PPO_ERROR_FILE,
                 "file/a.svg|Not a directory");
    assert_int_equal(access("a", F_OK), -1);
}

#define in_a_folder(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

static void samples_print_as_lines(void **state) {
    (void)state;
    static const char *const specials[] = {"<eos>"};
    ppo_tokenizer *tok = NULL;
    ppo_tokens tokens = {0};
    unsigned char ended[] = {1, 0, 1};
    const float reward[] = {1.5f, -20, 0};
    FILE *file = paper();
    assert_ok(ppo_tokenizer_characters("abc \n", 5, specials, 1, &tok));
    assert_ok(ppo_tokens_add_text(&tokens, tok, -1, "ab", " c\nc", 5));
    assert_ok(ppo_tokens_add_text(&tokens, tok, -1, "b", "aaa", -1));
    assert_ok(ppo_tokens_add_text(&tokens, tok, -1, "c", "c", 5));
    ppo_samples samples = {tokens, NULL, ended};
    ppo_print_samples(file, tok, &samples, reward, 2);
    samples.ended = NULL;
    ppo_print_samples(file, tok, &samples, NULL, 9);
    ppo_print_samples(file, tok, NULL, NULL, 9);
    ppo_print_samples(NULL, tok, &samples, NULL, 9);
    ppo_print_samples(file, NULL, &samples, NULL, 9);
    assert_ok(ppo_tokens_add_text(&tokens, tok, -1, "a", "b", -1));
    assert_ok(ppo_tokens_append_text(&tokens, tok, "ca", 1)); /* what a tool wrote */
    assert_ok(ppo_tokens_append_text(&tokens, tok, "b", 0));
    assert_ok(ppo_tokens_append_text(&tokens, tok, "c", 1));
    samples.tokens = tokens;
    ppo_print_samples(file, tok, &samples, NULL, 9);
    read_back(file);
    static const char *const want[] = {"    1.50  ab |  c c",
                                       "  -20.00  b | aaa...",
                                       "ab |  c c",
                                       "b | aaa",
                                       "c | c",
                                       "ab |  c c",
                                       "b | aaa",
                                       "c | c",
                                       "a | b[ca]b[c]"};
    assert_int_equal(p.lines, COUNT(want));
    for (int i = 0; i < COUNT(want); i++) assert_string_equal(p.line[i], want[i]);
    ppo_tokens_free(&tokens);
    ppo_tokenizer_free(tok);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_is_one_plain_line_with_the_figures),
        cmocka_unit_test(progress_copes_without_a_finished_episode),
        cmocka_unit_test(samples_print_as_lines),
        cmocka_unit_test(progress_shows_returns_of_every_size),
        cmocka_unit_test(progress_of_a_long_run_is_about_twenty_lines_and_the_last_step_is_told),
        cmocka_unit_test(progress_works_as_the_callback_of_a_training),
        cmocka_unit_test(a_rising_curve_rises_from_the_lower_left_to_the_upper_right),
        cmocka_unit_test(points_that_are_not_finite_are_left_out),
        cmocka_unit_test(a_curve_may_be_empty_a_point_or_flat),
        cmocka_unit_test(a_curve_stays_within_its_width_and_height),
        cmocka_unit_test(a_curve_over_all_floats_has_finite_labels_and_keeps_its_shape),
        cmocka_unit_test(impossible_sizes_and_pointers_do_no_harm),
        in_a_folder(a_csv_row_has_the_figures_as_stable_baselines3_means_them),
        in_a_folder(the_columns_are_stable_baselines3_s_and_empty_where_it_has_none),
        in_a_folder(numbers_of_a_csv_read_back_as_the_same_floats),
        in_a_folder(a_comma_of_the_locale_does_not_get_into_the_files),
        in_a_folder(a_new_run_replaces_the_csv_and_makes_the_directories),
        in_a_folder(a_resumed_run_drops_the_rows_it_will_make_again),
        in_a_folder(a_resumed_run_copes_with_a_torn_an_empty_and_a_missing_csv),
        in_a_folder(what_a_power_failure_leaves_after_the_rows_of_a_checkpoint_is_dropped),
        in_a_folder(a_csv_of_another_kind_is_refused_and_left_alone),
        cmocka_unit_test(crc32c_of_the_tests_knows_the_vectors_of_rfc_3720),
        in_a_folder(event_files_decode_to_what_was_logged),
        in_a_folder(event_files_are_tensorboard_s_to_the_byte_but_for_the_time),
        in_a_folder(a_resumed_run_takes_later_points_back_in_a_file_behind_the_others),
        in_a_folder(a_log_that_cannot_be_opened_says_why),
        in_a_folder(a_closed_door_is_told_from_a_missing_one),
        in_a_folder(a_write_without_a_log_or_figures_is_refused),
        in_a_folder(a_full_device_is_reported),
        in_a_folder(a_full_disk_is_reported_at_the_write_and_leaves_no_torn_row),
        in_a_folder(a_resume_on_a_full_disk_leaves_the_csv_as_it_was),
        in_a_folder(a_seek_that_fails_is_reported_and_nothing_is_written_elsewhere),
        in_a_folder(steps_beyond_32_bits_are_kept),
        in_a_folder(failed_allocations_of_a_log_are_reported_and_leak_nothing),
        in_a_folder(writes_allocate_nothing),
        in_a_folder(a_training_fills_in_what_the_log_needs),
        in_a_folder(the_minibatch_that_stops_the_epochs_counts_as_in_stable_baselines3),
        in_a_folder(a_chart_rises_with_the_curve_between_round_ticks),
        in_a_folder(tick_labels_suit_the_numbers),
        in_a_folder(every_point_of_every_chart_lies_inside),
        in_a_folder(points_of_a_chart_that_are_not_finite_are_left_out),
        in_a_folder(texts_of_a_chart_may_hold_anything),
        in_a_folder(the_same_chart_gives_the_same_bytes),
        in_a_folder(charts_look_as_they_did),
        in_a_folder(a_chart_that_cannot_be_drawn_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
