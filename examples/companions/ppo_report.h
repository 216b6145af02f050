/* ppo_report.h - a run of ppo.h as TensorBoard shows it, and line charts as SVG files

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_report.h"            // after ppo.h; other files may include it for its declarations

   Copy this file beside ppo.h. In the folder examples/, where it is in companions/, programs include it from
   there: #include "companions/ppo_report.h".

TENSORBOARD

   With this file ppo_log_open() of ppo.h accepts a directory for TensorBoard, beside the CSV file or alone:

       static int on_iteration(const ppo_progress *progress, void *log) {
           return ppo_log_write((ppo_log *)log, progress);
       }

       ppo_log *log = NULL;
       ppo_log_open("progress.csv", "runs/1", 0, &log);
       cfg.callback = on_iteration;
       cfg.callback_user = log;
       ppo_train(&env, &cfg, &agent);
       ppo_log_scalar(log, "eval/mean_return", ppo_evaluate(agent, &env, 20, 1).mean_return, cfg.total_steps);
       ppo_log_close(log);

   Then `tensorboard --logdir runs` draws the curves of all folders in runs. The keys are those of the CSV, and Stable-Baselines3's. train/n_updates and the counts under time/ are in the
   CSV alone. What an iteration does not have (no episode has finished, no value_clip, no Gaussian) gets no
   point. The event files of a directory are one run: a new one, and one that is resumed, drops the later points
   of the others.

CHARTS

       float steps[2] = {0, 1000}, returns[2] = {20, 500};
       ppo_curve curve = {"ppo", steps, returns, 2};
       ppo_plot_svg("curve.svg", "CartPole-v1", "steps", "mean return", &curve, 1);

   License: that of ppo.h. */
#ifndef PPO_REPORT_H
#define PPO_REPORT_H
#ifndef PPO_H
#error "include ppo.h before ppo_report.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_report.h belongs to version 0.3 of ppo.h"
#endif

#ifndef PPO_NO_REPORTS
#ifdef __cplusplus
extern "C" {
#endif

typedef struct ppo_curve {
    const char *name;
    const float *x, *y; /* [n], x ascending; points that are not finite are left out */
    int n;
} ppo_curve;
/* Writes an SVG file: a line chart of 800 x 450 pixels, with a legend of the named curves. Texts may be NULL.
   The same curves give the same bytes. Errors: no curve, a text is not UTF-8, those of the file. */
PPO_DEF ppo_status ppo_plot_svg(const char *path, const char *title, const char *x_label, const char *y_label,
                                const ppo_curve *curves, int count);

#ifndef PPO_NO_CONTROL
/* A value of your own, for TensorBoard only, at a number of steps; key is up to 512 bytes, like
   "eval/mean_return". A log without a directory ignores it. Errors: those of the file. */
PPO_DEF ppo_status ppo_log_scalar(ppo_log *log, const char *key, double value, int64_t steps);
#endif

#ifdef __cplusplus
}
#endif
#endif
#endif

/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__REPORT_IMPLEMENTED)
#define PPO__REPORT_IMPLEMENTED
#ifndef PPO_NO_REPORTS

PPO__WARNINGS_OFF

/* -- the chart; one unit is a tenth of a pixel, so that all coordinates are integers -- */

typedef struct ppo__axis {
    double low, high, step; /* step: the distance between ticks */
    long begin, length;     /* low is drawn at begin, high at begin + length */
} ppo__axis;

/* Three to eight ticks, 1, 2 or 5 times a power of ten apart. to_ticks: the axis ends at ticks, too. */
static ppo__axis ppo__make_axis(double low, double high, int to_ticks, long begin, long length) {
    const double fuzz = 1e-6, room = low < high ? 0 : low != 0 ? fabs(low) / 2 : 1;
    low -= room;
    high += room;
    double raw = (high - low) / 5, power = pow(10, floor(log10(raw)));
    double step = (raw < 1.5 * power ? 1 : raw < 3 * power ? 2 : raw < 7 * power ? 5 : 10) * power;
    if (to_ticks) low = floor(low / step + fuzz) * step, high = ceil(high / step - fuzz) * step;
    ppo__axis axis = {low, high, step, begin, length};
    return axis;
}

static long ppo__axis_at(const ppo__axis *axis, double x) {
    return axis->begin + lround((x - axis->low) / (axis->high - axis->low) * (double)axis->length);
}

/* The tick at k steps: "0.25", "40k", "1.5M". */
static const char *ppo__tick_label(char label[80], const ppo__axis *axis, double k) {
    static const struct {
        double from, unit;
        const char *name;
    } units[] = {{1e15, 0, ""}, {1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e4, 1e3, "k"}, {1e-4, 1, ""}, {0, 0, ""}};
    double largest = fmax(fabs(axis->low), fabs(axis->high));
    char format[16], number[64];
    int u = 0;
    if (k == 0) return "0";
    while (largest < units[u].from) ++u;
    if (units[u].unit == 0) return ppo__number(label, "%.3g", k * axis->step);
    double decimals = -floor(log10(axis->step / units[u].unit) + 1e-6);
    snprintf(format, sizeof format, "%%.%df", (int)ppo__clamp((float)decimals, 0, 9));
    snprintf(label, 80, "%s%s", ppo__number(number, format, k * axis->step / units[u].unit), units[u].name);
    return label;
}

static void ppo__svg_text(FILE *file, long x, long y, const char *attributes, const char *text) {
    if (!text) return;
    fprintf(file, "<text x=\"%ld\" y=\"%ld\"%s>", x, y, attributes);
    for (; *text; ++text) {
        const char *escaped = *text == '&' ? "&amp;" : *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : NULL;
        if (escaped) fputs(escaped, file);
        else fputc((unsigned char)*text < ' ' ? ' ' : *text, file);
    }
    fputs("</text>\n", file);
}

static void ppo__svg_line(FILE *file, long x, long y, char direction, long length, const char *color) {
    fprintf(file, "<path d=\"M%ld %ld%c%ld\" stroke=\"%s\" stroke-width=\"10\"/>\n", x, y, direction, length,
            color);
}

static void ppo__svg_axes(FILE *file, const ppo__axis *x, const ppo__axis *y) {
    char label[80];
    for (double k = ceil(y->low / y->step - 1e-6); k <= y->high / y->step + 1e-6; ++k) {
        long at = ppo__axis_at(y, k * y->step);
        ppo__svg_line(file, x->begin, at, 'h', x->length, "#e4e4e4");
        ppo__svg_text(file, x->begin - 80, at + 45, " text-anchor=\"end\"", ppo__tick_label(label, y, k));
    }
    for (double k = ceil(x->low / x->step - 1e-6); k <= x->high / x->step + 1e-6; ++k) {
        long at = ppo__axis_at(x, k * x->step);
        ppo__svg_line(file, at, y->begin, 'v', 60, "#888");
        ppo__svg_text(file, at, y->begin + 210, " text-anchor=\"middle\"", ppo__tick_label(label, x, k));
    }
    ppo__svg_line(file, x->begin, y->begin, 'h', x->length, "#888");
}

static void ppo__svg_curve(FILE *file, const ppo_curve *curve, const ppo__axis *x, const ppo__axis *y,
                           const char *style) {
    char op = 'M';
    for (int i = 0; i < curve->n; ++i) {
        if (!ppo__has_point(curve->x, curve->y, i)) continue;
        if (op == 'M') fprintf(file, "<path%s fill=\"none\" stroke-linejoin=\"round\" d=\"", style);
        fprintf(file, "%c%ld %ld", op, ppo__axis_at(x, curve->x[i]), ppo__axis_at(y, curve->y[i]));
        op = 'L';
    }
    if (op == 'L') fprintf(file, "h0\"/>\n"); /* h0: shows a single point as the round end of a line */
}

typedef struct ppo__chart {
    const char *title, *x_label, *y_label;
    const ppo_curve *curves;
    int count;
} ppo__chart;

static ppo_status ppo__svg(FILE *file, const char *path, void *user) {
    enum { PPO__PLOT_WIDTH = 8000, PPO__PLOT_HEIGHT = 4500, PPO__COLORS = 8 };
    /* Okabe and Ito 2008: distinct to the colour-blind. Curves beyond the eighth are dashed. */
    static const char *const colors[PPO__COLORS] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                    "#e69f00", "#56b4e9", "#000",    "#a0a000"};
    const ppo__chart *chart = (const ppo__chart *)user;
    const ppo_curve *curves = chart->curves;
    int any = 0;
    size_t longest = 0; /* name, of 40 letters at most, for the width of the legend */
    for (int i = 0; i < chart->count; ++i)
        if (curves[i].name && strlen(curves[i].name) > longest) longest = strlen(curves[i].name);
    if (longest > 40) longest = 40;
    long left = chart->y_label ? 950 : 750,
         right = PPO__PLOT_WIDTH - (longest ? 600 + 75 * (long)longest : 250);
    long top = chart->title ? 550 : 250, bottom = PPO__PLOT_HEIGHT - (chart->x_label ? 620 : 400);
    float low[2] = {0, 0}, high[2] = {1, 1};
    char style[160];
    for (int i = 0; i < chart->count; ++i)
        any = ppo__points_range(curves[i].x, curves[i].y, curves[i].n, any, low, high);
    if (low[0] > 0 && low[0] < 0.1f * high[0]) low[0] = 0; /* steps begin at 0 */
    ppo__axis x = ppo__make_axis(low[0], high[0], 0, left, right - left);
    ppo__axis y = ppo__make_axis(low[1], high[1], 1, bottom, top - bottom);

    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"130\" fill=\"#333\">\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
            PPO__PLOT_WIDTH / 10, PPO__PLOT_HEIGHT / 10, (int)PPO__PLOT_WIDTH, (int)PPO__PLOT_HEIGHT,
            (int)PPO__PLOT_WIDTH, (int)PPO__PLOT_HEIGHT);
    ppo__svg_text(file, left, 330, " font-size=\"180\" font-weight=\"bold\"", chart->title);
    ppo__svg_text(file, (left + right) / 2, PPO__PLOT_HEIGHT - 170, " text-anchor=\"middle\"",
                  chart->x_label);
    snprintf(style, sizeof style, " text-anchor=\"middle\" transform=\"rotate(-90 230 %ld)\"",
             (top + bottom) / 2);
    ppo__svg_text(file, 230, (top + bottom) / 2, style, chart->y_label);
    ppo__svg_axes(file, &x, &y);
    for (int i = 0, line = 0; i < chart->count; ++i) {
        snprintf(style, sizeof style, " stroke=\"%s\" stroke-width=\"22\" stroke-linecap=\"round\"%s",
                 colors[i % PPO__COLORS], i / PPO__COLORS % 2 ? " stroke-dasharray=\"60 50\"" : "");
        ppo__svg_curve(file, &curves[i], &x, &y, style);
        if (!curves[i].name) continue;
        long at = top + 60 + 210L * line++;
        fprintf(file, "<path%s d=\"M%ld %ldh200\"/>\n", style, right + 150, at);
        ppo__svg_text(file, right + 430, at + 45, "", curves[i].name);
    }
    fputs("</svg>\n", file);
    return PPO_OK;
}

PPO_DEF ppo_status ppo_plot_svg(const char *path, const char *title, const char *x_label, const char *y_label,
                                const ppo_curve *curves, int count) {
    if (!PPO__GIVEN("ppo_plot_svg", path, curves)) return PPO_ERROR_ARGUMENT;
    if (count < 1) return ppo__refuse("ppo_plot_svg: %d curves, nothing to draw", count);
    if ((title && !ppo__is_utf8(title)) || (x_label && !ppo__is_utf8(x_label)) ||
        (y_label && !ppo__is_utf8(y_label)))
        return ppo__refuse("ppo_plot_svg: the title or a label is not UTF-8");
    for (int i = 0; i < count; ++i) {
        if (curves[i].n < 0 || (curves[i].n > 0 && (!curves[i].x || !curves[i].y)))
            return ppo__refuse("ppo_plot_svg: curve %d has %d points, or NULL arrays", i, curves[i].n);
        if (curves[i].name && !ppo__is_utf8(curves[i].name))
            return ppo__refuse("ppo_plot_svg: the name of curve %d is not UTF-8", i);
    }
    ppo__chart chart = {title, x_label, y_label, curves, count};
    return ppo__write_file(path, ppo__svg, &chart);
}

#ifndef PPO_NO_CONTROL
/* -- TensorBoard. An event file is a sequence of records

          length of the data   8 bytes, little-endian
          its checksum         4
          data                 an Event
          its checksum         4

      and an Event is a protocol buffer, a sequence of fields (number * 8 + type, value):

          1 wall_time (double)   2 step (varint)   and one of
          3 file_version (text)  5 summary         7 session_log { 1 status (varint) }

      with summary { 1 value { 1 tag (text)  2 simple_value (float), or 8 tensor  9 metadata }  1 value ... }. The
      types:
      0 a varint, 1 eight bytes, 2 a length and that many bytes, 5 four bytes. -- */

enum { PPO__BYTES = 2048, PPO__LOG_KEY = 512 };

typedef struct ppo__bytes {
    size_t n;
    unsigned char data[PPO__BYTES];
} ppo__bytes;

static void ppo__put_fixed(ppo__bytes *b, uint64_t x, int size) {
    for (int i = 0; i < size; ++i) b->data[b->n++] = (unsigned char)(x >> 8 * i);
}

/* Seven bits a byte, the lowest first; the top bit says that more follow. */
static PPO__NOINLINE void ppo__put_varint(ppo__bytes *b, uint64_t x) {
    for (; x > 127; x >>= 7) b->data[b->n++] = (unsigned char)(x | 128);
    b->data[b->n++] = (unsigned char)x;
}

static void ppo__put_field(ppo__bytes *b, int field, const void *data, size_t size) {
    ppo__put_varint(b, (uint64_t)(field << 3 | 2));
    ppo__put_varint(b, size);
    memcpy(b->data + b->n, data, size);
    b->n += size;
}

static void ppo__put_scalar(ppo__bytes *summary, const char *key, float x) {
    ppo__bytes value;
    uint32_t bits;
    value.n = 0;
    memcpy(&bits, &x, sizeof bits);
    ppo__put_field(&value, 1, key, strlen(key));
    ppo__put_varint(&value, 2 << 3 | 5);
    ppo__put_fixed(&value, bits, 4);
    ppo__put_field(summary, 1, value.data, value.n);
}

/* A text, which TensorBoard shows under its tab of that name: a tensor of one string (type 7). */
static void ppo__put_text(ppo__bytes *summary, const char *key, const char *name, const char *text) {
    static const unsigned char metadata[] = {1 << 3 | 2, 6, 1 << 3 | 2, 4, 't', 'e', 'x', 't'};
    static const unsigned char one[] = {1 << 3, 7, 2 << 3 | 2, 4, 2 << 3 | 2, 2, 1 << 3, 1};
    char sentence[240];
    ppo__bytes value, tensor;
    value.n = 0;
    tensor.n = sizeof one;
    memcpy(tensor.data, one, sizeof one);
    snprintf(sentence, sizeof sentence, "%s: %s", name, text);
    ppo__put_field(&tensor, 8, sentence, strlen(sentence));
    ppo__put_field(&value, 1, key, strlen(key));
    ppo__put_field(&value, 8, tensor.data, tensor.n);
    ppo__put_field(&value, 9, metadata, sizeof metadata);
    ppo__put_field(summary, 1, value.data, value.n);
}

/* CRC-32C (Castagnoli), rotated and offset as TensorFlow's record format does. */
static uint32_t ppo__record_crc(const unsigned char *data, size_t n) {
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; ++i) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* Seconds since 1970. */
static double ppo__wall_time(void) {
#if defined(PPO__UNIX)
    struct timeval now;
    gettimeofday(&now, NULL);
    return (double)now.tv_sec + 1e-6 * (double)now.tv_usec;
#elif defined(_WIN32) /* counts 100 ns since 1601 */
    FILETIME now;
    GetSystemTimeAsFileTime(&now);
    return 1e-7 * (4294967296.0 * now.dwHighDateTime + now.dwLowDateTime) - 11644473600.0;
#else
    return (double)time(NULL);
#endif
}

static ppo_status ppo__append_event(ppo__log_file *log, int64_t steps, int field, const void *data,
                                    size_t size) {
    ppo__bytes event, record;
    double now = ppo__wall_time();
    uint64_t bits;
    event.n = record.n = 0;
    memcpy(&bits, &now, sizeof bits);
    ppo__put_varint(&event, 1 << 3 | 1);
    ppo__put_fixed(&event, bits, 8);
    if (steps) {
        ppo__put_varint(&event, 2 << 3 | 0);
        ppo__put_varint(&event, (uint64_t)steps);
    }
    ppo__put_field(&event, field, data, size);
    ppo__put_fixed(&record, event.n, 8);
    ppo__put_fixed(&record, ppo__record_crc(record.data, 8), 4);
    memcpy(record.data + record.n, event.data, event.n);
    record.n += event.n;
    ppo__put_fixed(&record, ppo__record_crc(event.data, event.n), 4);
    return ppo__append(log, record.data, record.n);
}

/* TensorBoard reads the files of a directory in the order of their names, so these begin with the time. Each
   START (a session_log of status 1) of a run but the first drops the points from its step on. */
static ppo_status ppo__events_open(ppo__log_file *log, const char *directory, int64_t steps) {
    static const unsigned char start[] = {1 << 3 | 0, 1};
    double now = ppo__wall_time(), second = floor(now);
    long micro = (long)(1e6 * (now - second));
    if (!*directory)
        return ppo__refuse("ppo_log_open: tensorboard_dir is empty: say \".\" for this directory");
    for (int tries = 0; tries < 1000 && (!tries || ppo__what_is(log->path) != PPO__NOTHING); ++tries)
        snprintf(log->path, sizeof log->path, "%s/events.out.tfevents.%010.0f.ppo.%06ld.%ld", directory,
                 second, micro++, PPO__PROCESS_ID());
    ppo_status status = ppo__log_create(log);
    if (!status) status = ppo__append_event(log, 0, 3, "brain.Event:2", 13);
    if (!status) status = ppo__append_event(log, steps > 0 ? steps + (steps < INT64_MAX) : 0, 7, start, sizeof start);
    return status;
}

static ppo_status ppo__events_write(ppo__log_file *log, const ppo_progress *progress) {
    ppo__metric metrics[PPO__ALL_METRICS];
    ppo__bytes summary;
    const int count = ppo__metrics(progress, metrics);
    summary.n = 0;
    for (int i = 0; i < count; ++i) {
        char key[64];
        snprintf(key, sizeof key, "%s%s", metrics[i].kind == PPO__FIGURE ? "env/" : "", metrics[i].key);
        if (metrics[i].present && metrics[i].kind == PPO__WORDS)
            ppo__put_text(&summary, key, progress->symptom, progress->warning);
        else if (metrics[i].present && metrics[i].kind != PPO__COUNT)
            ppo__put_scalar(&summary, key, (float)metrics[i].value);
    }
    return ppo__append_event(log, progress->steps, 5, summary.data, summary.n);
}

PPO__COMPANION_IS(ppo__tensorboard, ppo__events, {ppo__events_open, ppo__events_write});

PPO_DEF ppo_status ppo_log_scalar(ppo_log *log, const char *key, double value, int64_t steps) {
    ppo__bytes summary;
    if (!PPO__GIVEN("ppo_log_scalar", log, key)) return PPO_ERROR_ARGUMENT;
    if (strlen(key) > PPO__LOG_KEY || steps < 0)
        return ppo__refuse("ppo_log_scalar: a key of %d bytes (at most 512), steps %lld (at least 0)",
                           (int)strlen(key), (long long)steps);
    if (!log->events.file) return PPO_OK;
    summary.n = 0;
    ppo__put_scalar(&summary, key, (float)value);
    return ppo__append_event(&log->events, steps, 5, summary.data, summary.n);
}

#endif

PPO__WARNINGS_BACK

#endif
#endif
