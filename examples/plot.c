/* plot.c - draws columns of CSV files as curves in an SVG file: learning curves, one or several.

   This lesson shows how a program draws its own figures with ppo_plot_svg(). It reads any CSV file with a line
   of names: that of ppo_log_open(), Stable-Baselines3's progress.csv, or one of each to compare. You will see,
   in curve.svg, the mean return over the steps; or other columns and files, for example
       plot --y train/approx_kl --y train/clip_fraction --out update.svg runs/1/progress.csv */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "companions/ppo_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, LINE = 65536, NAME = 256 }; /* curves, columns or files; characters */

typedef struct options {
    const char *x, *out, *title;
    const char *column[MOST], *file[MOST];
    int columns, files;
} options;

static int fail(const char *reason, const char *what) {
    fprintf(stderr, "plot: %s%s\n", reason, what);
    return 1;
}

static int print_help(void) {
    printf("usage: plot [--flag value] ... FILE.csv ...    in brackets: the default\n\n"
           "  --y COLUMN      the column to draw; may be repeated [rollout/ep_rew_mean]\n"
           "  --x COLUMN      the column of x, ascending [time/total_timesteps]\n"
           "  --out FILE      the SVG file to write [curve.svg]\n"
           "  --title TEXT    above the chart [none]\n");
    return fflush(stdout) ? fail("the help could not be written", "") : 0;
}

static int parse(options *o, int argc, char **argv) { /* returns 0 on success */
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], **value = NULL;
        if (strncmp(arg, "--", 2) != 0) {
            if (o->files == MOST) return fail("too many files: ", arg);
            o->file[o->files++] = arg;
            continue;
        }
        if (!strcmp(arg, "--x")) value = &o->x;
        if (!strcmp(arg, "--out")) value = &o->out;
        if (!strcmp(arg, "--title")) value = &o->title;
        if (!strcmp(arg, "--y") && o->columns < MOST) value = &o->column[o->columns++];
        if (!value) return fail("there is no such flag, see --help: ", arg);
        if (i + 1 == argc) return fail("a value is missing after ", arg);
        *value = argv[++i];
    }
    if (o->files == 0) return fail("which file? see --help", "");
    if (o->columns == 0) o->column[o->columns++] = "rollout/ep_rew_mean";
    return 0;
}

/* The field of a line, up to the comma or the end; NULL if the line has fewer. */
static const char *field(const char *line, int column) {
    for (; column > 0 && line; column--) {
        line = strchr(line, ',');
        if (line) line++;
    }
    return line;
}

static int find_column(const char *header, const char *name) { /* -1: there is none */
    size_t length = strlen(name);
    for (int i = 0; field(header, i); i++) {
        const char *f = field(header, i);
        if (strcspn(f, ",\r\n") == length && !strncmp(f, name, length)) return i;
    }
    return -1;
}

static float number(const char *text) { /* NaN, which is not drawn, for an empty field */
    char *end = NULL;
    float x = text ? strtof(text, &end) : NAN;
    return end == text ? NAN : x;
}

/* Reads a curve from two columns of a file. Returns 0 on success. */
static int load(const char *path, const char *x_name, const char *y_name, ppo_curve *curve) {
    static char line[LINE];
    float *x = NULL, *y = NULL;
    int n = 0, room = 0, x_column = -1, y_column = -1;
    FILE *file = fopen(path, "r");
    if (!file) return fail("there is no file ", path);
    if (fgets(line, sizeof line, file)) {
        x_column = find_column(line, x_name);
        y_column = find_column(line, y_name);
    }
    if (ferror(file)) return fclose(file), fail("cannot read ", path);
    if (x_column < 0 || y_column < 0) {
        fclose(file);
        fprintf(stderr, "plot: %s has no column %s\n", path, x_column < 0 ? x_name : y_name);
        return 1;
    }
    for (; fgets(line, sizeof line, file); n++) {
        if (n == room) {
            room = room ? 2 * room : 1024;
            x = (float *)realloc(x, (size_t)room * sizeof *x);
            y = (float *)realloc(y, (size_t)room * sizeof *y);
            if (!x || !y) return fail("no memory for ", path);
        }
        x[n] = number(field(line, x_column));
        y[n] = number(field(line, y_column));
    }
    const int broken = ferror(file);
    fclose(file);
    curve->x = x, curve->y = y, curve->n = n;
    return broken ? fail("cannot read all of ", path) : 0;
}

int main(int argc, char **argv) {
    static options o = {.x = "time/total_timesteps", .out = "curve.svg"};
    static ppo_curve curve[MOST];
    static char name[MOST][NAME];
    int n = 0;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) return print_help();
    if (parse(&o, argc, argv)) return 1;
    if (o.files * o.columns > MOST) return fail("too many curves for one chart", "");

    for (int f = 0; f < o.files; f++) {
        for (int c = 0; c < o.columns; c++, n++) { /* named by what differs: the file, the column or both */
            snprintf(name[n], NAME, "%s%s%s", o.files > 1 ? o.file[f] : "",
                     o.files > 1 && o.columns > 1 ? " " : "", o.columns > 1 ? o.column[c] : "");
            curve[n].name = name[n][0] ? name[n] : NULL;
            if (load(o.file[f], o.x, o.column[c], &curve[n])) return 1;
        }
    }
    ppo_status status = ppo_plot_svg(o.out, o.title, o.x, o.columns == 1 ? o.column[0] : NULL, curve, n);
    for (int i = 0; i < n; i++) free((void *)curve[i].x), free((void *)curve[i].y);
    return status == PPO_OK ? 0 : fail("", ppo_last_error());
}
