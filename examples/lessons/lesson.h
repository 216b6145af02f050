/* lesson.h - what the lessons share: their arguments, failures, claims, means with intervals, and drawings.

   A lesson is started as `build/lessons/NAME [seed [kernels]]`. It prints what it measures, writes a drawing
   to build/lessons/NAME.svg, and checks its claims: it returns 1 if one does not hold. */
#ifndef LESSON_H
#define LESSON_H

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static int lesson_failures;

static inline void must(ppo_status status) {
    if (status == PPO_OK) return;
    fprintf(stderr, "%s\n", ppo_last_error());
    exit(1);
}

/* The seed, the first argument; 1 if there is none. The second one names kernels, as "plain". */
static inline uint64_t lesson_seed(int argc, char **argv) {
    if (argc > 2) must(ppo_use_kernels(argv[2]));
    return argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
}

static inline void claim(int holds, const char *format, ...) {
    va_list args;
    va_start(args, format);
    printf("%s ", holds ? "  holds:" : "  FAILS:");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    fflush(stdout);
    lesson_failures += !holds;
}

/* ---- means ---- */

static inline double mean_of(const float *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)x[i];
    return sum / n;
}

static inline double deviation_of(const float *x, int n) {
    double mean = mean_of(x, n), squares = 0;
    for (int i = 0; i < n; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    return n > 1 ? sqrt(squares / (n - 1)) : 0;
}

/* Half of the 95 % interval of the mean of x [n], n >= 2 (Student's t). */
static inline double interval_of(const float *x, int n) {
    static const double t[] = {0, 0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20};
    return (n <= 12 ? t[n] : 1.96 + 2.6 / n) * deviation_of(x, n) / sqrt(n);
}

/* The mean of a[i] - b[i], pairs of one seed each, less half of its 95 % interval: above 0, a is better by
   more than chance explains. n from 2 to 256. */
static inline double better_by(const float *a, const float *b, int n) {
    float d[256];
    for (int i = 0; i < n; i++) d[i] = a[i] - b[i];
    return mean_of(d, n) - interval_of(d, n);
}

/* In how many of n pairs a is above b. One run that falls apart decides a mean and its interval, but not this. */
static inline int wins_of(const float *a, const float *b, int n) {
    int wins = 0;
    for (int i = 0; i < n; i++) wins += a[i] > b[i];
    return wins;
}

/* ---- drawings: 400 x 260, with colours for light and dark pages ---- */

enum { CHART_LINE, CHART_POINTS, CHART_BAND, CHART_ROWS, CHART_SERIES = 16, CHART_MARKS = 8 };

typedef struct chart {
    const char *title, *x_label, *y_label;
    int log_x, log_y;        /* 1: logarithmic */
    double x[2], y[2];       /* ranges; equal: what the series need */
    const char *const *rows; /* names of rows, in place of a y axis */
    int row_count, count;    /* rows; series */
    struct {
        const char *name; /* NULL: not in the legend, and in the colour of the series before */
        const float *x, *y, *low, *high;
        int kind, n, color;
    } series[CHART_SERIES];
    struct {
        double x[2], y[2]; /* a shaded part; a line where the ends are equal; NAN: the edge of the frame */
        const char *text;
    } mark[CHART_MARKS];
    int marks;
} chart;

/* The arrays are borrowed until chart_save(). Points that are not finite are left out. */
static inline void chart_add(chart *c, int kind, const char *name, const float *x, const float *y,
                             const float *low, const float *high, int n) {
    if (c->count == CHART_SERIES) return;
    int k = c->count++;
    c->series[k].name = name, c->series[k].kind = kind, c->series[k].n = n;
    c->series[k].x = x, c->series[k].y = y, c->series[k].low = low, c->series[k].high = high;
    c->series[k].color = k == 0 ? 0 : c->series[k - 1].color + (name != NULL);
}
static inline void chart_line(chart *c, const char *name, const float *x, const float *y, int n) {
    chart_add(c, CHART_LINE, name, x, y, NULL, NULL, n);
}
static inline void chart_points(chart *c, const char *name, const float *x, const float *y, int n) {
    chart_add(c, CHART_POINTS, name, x, y, NULL, NULL, n);
}
static inline void chart_band(chart *c, const char *name, const float *x, const float *low, const float *high,
                              int n) {
    chart_add(c, CHART_BAND, name, x, NULL, low, high, n);
}
/* One value per row: a bar from 0, or with low and high a dot and its interval. */
static inline void chart_rows(chart *c, const char *name, const float *x, const float *low, const float *high,
                              int n) {
    chart_add(c, CHART_ROWS, name, x, NULL, low, high, n);
}

/* A named part of the plane, behind the series; chart_line_at() is a line at x. */
static inline void chart_shade(chart *c, const char *text, double x0, double x1, double y0, double y1) {
    if (c->marks == CHART_MARKS) return;
    int k = c->marks++;
    c->mark[k].x[0] = x0, c->mark[k].x[1] = x1, c->mark[k].y[0] = y0, c->mark[k].y[1] = y1;
    c->mark[k].text = text;
}
static inline void chart_line_at(chart *c, const char *text, double x) {
    chart_shade(c, text, x, x, (double)NAN, (double)NAN);
}

static inline void chart_range(const chart *c, int axis, double range[2]) {
    int log_scale = axis ? c->log_y : c->log_x, rows = 0;
    range[0] = axis ? c->y[0] : c->x[0], range[1] = axis ? c->y[1] : c->x[1];
    if (range[0] != range[1]) return;
    range[0] = INFINITY, range[1] = -INFINITY;
    for (int k = 0; k < c->count; k++) {
        int is_row = c->series[k].kind == CHART_ROWS;
        const float *of[3] = {axis ? c->series[k].y : c->series[k].x, NULL, NULL};
        if (is_row != axis) of[1] = c->series[k].low, of[2] = c->series[k].high;
        if (is_row && !c->series[k].low) rows = 1;
        for (int j = 0; j < 3; j++)
            for (int i = 0; of[j] && i < c->series[k].n; i++)
                if (isfinite(of[j][i]) && (!log_scale || of[j][i] > 0))
                    range[0] = fmin(range[0], of[j][i]), range[1] = fmax(range[1], of[j][i]);
    }
    if (rows) range[0] = fmin(range[0], 0), range[1] = fmax(range[1], 0); /* bars begin at 0 */
    if (!(range[0] < range[1])) range[0] = isfinite(range[0]) ? range[0] - 1 : 0, range[1] = range[0] + 2;
    double room = log_scale ? 0 : 0.04 * (range[1] - range[0]);
    range[0] -= rows && range[0] == 0 ? 0 : room, range[1] += room;
}

/* Where a value lies between two pixels, or beyond them: the frame clips what is drawn. */
static inline double chart_at(double value, const double range[2], int log_scale, double first, double last) {
    double v = log_scale ? log(value / range[0]) / log(range[1] / range[0])
                         : (value - range[0]) / (range[1] - range[0]);
    return first + fmin(fmax(v, -50), 50) * (last - first);
}

/* The next round number for a tick after `value` (NAN: the first one). */
static inline double chart_tick(double value, const double range[2], int log_scale) {
    if (log_scale) {
        int wide = range[1] / range[0] > 50;
        double p = pow(10, floor(log10(range[0]))), first = p * (1 - 1e-9);
        static const double steps[] = {1, 2, 5};
        for (;; p *= 10)
            for (int i = 0; i < (wide ? 1 : 3); i++)
                if (p * steps[i] >= range[0] * (1 - 1e-9) && p * steps[i] >= first &&
                    (isnan(value) || p * steps[i] > value * (1 + 1e-9)))
                    return p * steps[i];
    }
    double rough = (range[1] - range[0]) / 5, p = pow(10, floor(log10(rough)));
    double step = p * (rough / p < 1.5 ? 1 : rough / p < 3.5 ? 2 : rough / p < 7.5 ? 5 : 10);
    value = isnan(value) ? ceil(range[0] / step - 1e-9) * step : value + step;
    return fabs(value) < step / 1e6 ? 0 : value;
}

/* About the width of a text in pixels. */
static inline double chart_width(const char *text) {
    double width = 0;
    for (; *text; text++) width += *text >= 'A' && *text <= 'Z' ? 7.6 : 6.1;
    return width;
}

static inline void chart_text(FILE *file, double x, double y, const char *how, const char *text) {
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, how);
    for (; text && *text; text++)
        if (*text == '<') fputs("&lt;", file);
        else if (*text == '&') fputs("&amp;", file);
        else fputc(*text, file);
    fprintf(file, "</text>\n");
}

static inline void chart_save(const chart *c, const char *path) {
    static const char *const light[] = {"#0a5fc2", "#c8420b", "#12783a", "#8736b5",
                                        "#8f6a00", "#b0206c", "#007c89", "#555"};
    static const char *const dark[] = {"#6cb2ff", "#ff9466", "#62d58f", "#d39cff",
                                       "#f0c24b", "#ff8cc4", "#4fd3e0", "#bbb"};
    static const char *const dash[] = {"", "7 3", "2 2", "9 2 2 2", "", "5 5", "1 3", "8 4"};
    double rx[2], ry[2], left = 46, right = 388, top = 40, at = 46;
    int colors = c->count ? c->series[c->count - 1].color + 1 : 0;
    int height = c->row_count > 8 ? 120 + 16 * c->row_count : 260; /* rows need room */
    double bottom = height - 42;
    FILE *file = fopen(path, "w");
    if (!file) {
        fprintf(stderr, "%s cannot be written: run the lesson where build/lessons/ is\n", path);
        exit(1);
    }
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 400 %d\" width=\"800\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"11\">\n<style>\n.p{fill:#fff}text{fill:#222}.m{fill:#555}"
            ".g{stroke:#ddd}.a{stroke:#777}.s{fill:#888;fill-opacity:.16}\n",
            height, 2 * height);
    for (int i = 0; i < 8 && i < colors; i++)
        fprintf(file, ".c%d{stroke:%s}.f%d{fill:%s}\n", i, light[i], i, light[i]);
    fprintf(
        file,
        "@media (prefers-color-scheme:dark){.p{fill:#15181c}text{fill:#eee}.m{fill:#bbb}.g{stroke:#343a40}"
        ".a{stroke:#999}\n");
    for (int i = 0; i < 8 && i < colors; i++)
        fprintf(file, ".c%d{stroke:%s}.f%d{fill:%s}\n", i, dark[i], i, dark[i]);
    fprintf(file, "}</style>\n<rect width=\"400\" height=\"%d\" class=\"p\"/>\n", height);
    chart_text(file, 10, 16, "font-weight=\"bold\" font-size=\"12.5\"", c->title);
    for (int i = 0; i < c->row_count; i++) left = fmax(left, 14 + chart_width(c->rows[i]));

    double line = 32; /* of the legend */
    at = 10;
    for (int k = 0; k < c->count; k++) {
        if (!c->series[k].name) continue;
        int color = c->series[k].color % 8;
        double width = 26 + chart_width(c->series[k].name);
        if (at > 10 && at + width > 396) at = 10, line += 14;
        if (c->series[k].kind == CHART_LINE)
            fprintf(
                file,
                "<path d=\"M%.1f %.1fh14\" class=\"c%d\" stroke-width=\"2.2\" stroke-dasharray=\"%s\"/>\n",
                at, line - 4, color, dash[color]);
        else
            fprintf(file, "<rect x=\"%.1f\" y=\"%.1f\" width=\"9\" height=\"9\" class=\"f%d\"/>\n", at + 3,
                    line - 9, color);
        chart_text(file, at + 18, line, "", c->series[k].name);
        at += width;
        top = line + 10;
    }
    if (c->y_label) chart_text(file, 10, top + 8, "class=\"m\"", c->y_label), top += 18;
    chart_text(file, (left + right) / 2, height - 8, "class=\"m\" text-anchor=\"middle\"", c->x_label);
    chart_range(c, 0, rx);
    chart_range(c, 1, ry);
    for (double v = chart_tick(NAN, rx, c->log_x); v <= rx[1] * (1 + (c->log_x ? 1e-9 : 0));
         v = chart_tick(v, rx, c->log_x)) {
        char text[32];
        double x = chart_at(v, rx, c->log_x, left, right);
        snprintf(text, sizeof text, "%.6g", v);
        fprintf(file, "<path d=\"M%.1f %.1fV%.1f\" class=\"%s\"/>\n", x, top, bottom, v == 0 ? "a" : "g");
        chart_text(file, x, bottom + 14, "text-anchor=\"middle\"", text);
    }
    double row = (bottom - top) / (c->row_count ? c->row_count : 1);
    for (int i = 0; i < c->row_count; i++)
        chart_text(file, left - 6, top + row * (i + 0.5) + 4, "text-anchor=\"end\"", c->rows[i]);
    for (double v = c->row_count ? INFINITY : chart_tick(NAN, ry, c->log_y); v <= ry[1];
         v = chart_tick(v, ry, c->log_y)) {
        char text[32];
        double y = chart_at(v, ry, c->log_y, bottom, top);
        snprintf(text, sizeof text, "%.6g", v);
        fprintf(file, "<path d=\"M%.1f %.1fH%.1f\" class=\"%s\"/>\n", left, y, right, v == 0 ? "a" : "g");
        chart_text(file, left - 5, y + 4, "text-anchor=\"end\"", text);
    }
    fprintf(file,
            "<clipPath id=\"frame\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/></clipPath>\n"
            "<g clip-path=\"url(#frame)\">\n",
            left - 1, top - 1, right - left + 2, bottom - top + 2);
    for (int k = 0; k < c->marks; k++) {
        const double *mx = c->mark[k].x, *my = c->mark[k].y;
        double x0 = isnan(mx[0]) ? left : chart_at(mx[0], rx, c->log_x, left, right);
        double x1 = isnan(mx[1]) ? right : chart_at(mx[1], rx, c->log_x, left, right);
        double y0 = isnan(my[0]) ? bottom : chart_at(my[0], ry, c->log_y, bottom, top);
        double y1 = isnan(my[1]) ? top : chart_at(my[1], ry, c->log_y, bottom, top);
        int is_line = x0 == x1;
        if (is_line)
            fprintf(file, "<path d=\"M%.1f %.1fV%.1f\" class=\"a\" stroke-dasharray=\"2 3\"/>\n", x0, y0, y1);
        else
            fprintf(file, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"s\"/>\n", x0,
                    fmin(y0, y1), x1 - x0, fabs(y0 - y1));
        chart_text(file, x0 + 4, is_line ? y0 - 5 : fmin(y0, y1) + 12, "class=\"m\"", c->mark[k].text);
    }
    int row_series = 0, row_at = 0;
    for (int k = 0; k < c->count; k++) row_series += c->series[k].kind == CHART_ROWS;
    for (int k = 0; k < c->count; k++) {
        int color = c->series[k].color % 8, n = c->series[k].n, pen = 0;
        const float *x = c->series[k].x, *y = c->series[k].y, *low = c->series[k].low,
                    *high = c->series[k].high;
#define CHART_X(v) chart_at((double)(v), rx, c->log_x, left, right)
#define CHART_Y(v) chart_at((double)(v), ry, c->log_y, bottom, top)
        if (c->series[k].kind == CHART_LINE) {
            fprintf(file, "<path fill=\"none\" class=\"c%d\" stroke-width=\"2\" stroke-dasharray=\"%s\" d=\"",
                    color, dash[color]);
            for (int i = 0; i < n; i++) {
                int there =
                    isfinite(x[i]) && isfinite(y[i]) && (!c->log_x || x[i] > 0) && (!c->log_y || y[i] > 0);
                if (there) fprintf(file, "%c%.1f %.1f", pen ? 'L' : 'M', CHART_X(x[i]), CHART_Y(y[i]));
                pen = there;
            }
            fprintf(file, "\"/>\n");
        } else if (c->series[k].kind == CHART_BAND) {
            fprintf(file, "<path class=\"f%d\" fill-opacity=\"0.22\" d=\"", color);
            for (int i = 0; i < n; i++)
                fprintf(file, "%c%.1f %.1f", i ? 'L' : 'M', CHART_X(x[i]), CHART_Y(high[i]));
            for (int i = n - 1; i >= 0; i--) fprintf(file, "L%.1f %.1f", CHART_X(x[i]), CHART_Y(low[i]));
            fprintf(file, "Z\"/>\n");
        } else if (c->series[k].kind == CHART_POINTS) {
            for (int i = 0; i < n; i++)
                if (isfinite(x[i]) && isfinite(y[i]))
                    fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\" class=\"f%d\"%s/>\n",
                            CHART_X(x[i]), CHART_Y(y[i]), n > 60 ? "1.6" : "3.2", color,
                            n > 60 ? " fill-opacity=\"0.6\"" : "");
        } else {
            double height = row * 0.7 / row_series;
            for (int i = 0; i < n && i < c->row_count; i++) {
                double y0 = top + row * (i + 0.15) + height * row_at, mid = y0 + height / 2,
                       zero = CHART_X(0), v = CHART_X(x[i]);
                if (low)
                    fprintf(file,
                            "<path d=\"M%.1f %.1fH%.1f\" class=\"c%d\" stroke-width=\"3\" "
                            "stroke-opacity=\"0.55\"/>\n"
                            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" class=\"f%d\"/>\n",
                            CHART_X(low[i]), mid, CHART_X(high[i]), color, v, mid, color);
                else
                    fprintf(file,
                            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"f%d\"/>\n",
                            fmin(zero, v), y0, fabs(v - zero), height * 0.9, color);
            }
            row_at++;
        }
    }
    fprintf(file, "</g>\n</svg>\n");
    if (fclose(file)) exit(1);
    printf("  drawn: %s\n", path);
}

#endif
