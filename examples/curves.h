/* curves.h - what overopt.c measured, as curves over d = sqrt(KL): fits for each seed, means over seeds with intervals,
   and drawings. */
#ifndef CURVES_H
#define CURVES_H

#include "companions/ppo_report.h"

enum { SEEDS = 16, TRACES = 48, POINTS = 64 }; /* at most; a trace is an experiment with a seed */

typedef struct trace {
    char name[40];
    int n;
    float d[POINTS], truth[POINTS], proxy[POINTS];
    float a, b; /* of the fit */
} trace;

typedef struct traces { /* of a seed */
    trace trace[TRACES];
    int count;
} traces;

/* Reads build/overopt-SEED.csv, whose lines are "name;d;truth;proxy". */
static ppo_status read_traces(uint64_t seed, traces *all) {
    char path[64], line[256];
    snprintf(path, sizeof path, "build/overopt-%llu.csv", (unsigned long long)seed);
    FILE *file = fopen(path, "r");
    if (!file) return ppo_fail(PPO_ERROR_FILE, "there is no %s: run overopt trace first", path);
    memset(all, 0, sizeof *all);
    while (fgets(line, sizeof line, file)) {
        char name[40];
        float d, truth, proxy;
        if (sscanf(line, "%39[^;];%f;%f;%f", name, &d, &truth, &proxy) != 4) continue;
        trace *t = all->count ? &all->trace[all->count - 1] : NULL;
        if (!t || strcmp(t->name, name) != 0) {
            if (all->count == TRACES) break;
            t = &all->trace[all->count++];
            snprintf(t->name, sizeof t->name, "%s", name);
        }
        if (t->n < POINTS) t->d[t->n] = d, t->truth[t->n] = truth, t->proxy[t->n++] = proxy;
    }
    const int broken = ferror(file);
    fclose(file);
    return broken ? ppo_fail(PPO_ERROR_FILE, "%s cannot be read", path) : PPO_OK;
}

/* Least squares for truth = d (a - b f(d)) with f(d) = d (best-of-n) or log d (PPO), Gao 2022: linear in a, b. */
static void fit_curve(trace *t) {
    int is_ppo = t->name[0] == 'P';
    double xx = 0, xz = 0, zz = 0, xy = 0, zy = 0;
    for (int i = 0; i < t->n; i++) {
        double x = (double)t->d[i], z = -x * (is_ppo ? log(x) : x), y = (double)t->truth[i];
        xx += x * x, xz += x * z, zz += z * z, xy += x * y, zy += z * y;
    }
    double det = xx * zz - xz * xz;
    t->a = (float)((xy * zz - zy * xz) / det);
    t->b = (float)((zy * xx - xy * xz) / det);
}

/* Mean and half of the 95 % interval (Student's t) of x [n]. */
static void interval(const float *x, int n, char text[32]) {
    static const double t[SEEDS] = {0,    12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36,
                                    2.31, 2.26,  2.23, 2.20, 2.18, 2.16, 2.14, 2.13};
    double mean = 0, squares = 0;
    for (int i = 0; i < n; i++) mean += (double)x[i] / n;
    for (int i = 0; i < n; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    if (n > 1) snprintf(text, 32, "%.2f +- %.2f", mean, t[n - 1] * sqrt(squares / (n - 1) / n));
    else snprintf(text, 32, "%.2f", mean);
}

/* One row for each experiment, over the seeds. Those of one point have no curve. */
static void print_table(traces *all, int seeds) {
    printf("%-22s %-15s %-15s %-15s %-15s %-15s %s\n", "", "a", "b", "true gain: best", "at the end",
           "the proxy's", "sqrt(KL)");
    for (int k = 0; k < all[0].count; k++) {
        float x[6][SEEDS];
        char text[6][32];
        int curve = all[0].trace[k].n > 2;
        for (int s = 0; s < seeds; s++) {
            trace *t = &all[s].trace[k];
            int last = t->n - 1;
            fit_curve(t);
            x[0][s] = t->a, x[1][s] = t->b, x[2][s] = t->truth[0];
            for (int i = 0; i < t->n; i++) x[2][s] = fmaxf(x[2][s], t->truth[i]);
            x[3][s] = t->truth[last], x[4][s] = t->proxy[last], x[5][s] = t->d[last];
        }
        for (int i = 0; i < 6; i++) interval(x[i], seeds, text[i]);
        for (int i = 0; i < 3 && !curve; i++) *text[i] = 0;
        printf("%-22s %-15s %-15s %-15s %-15s %-15s %s\n", all[0].trace[k].name, text[0], text[1], text[2],
               text[3], text[4], text[5]);
    }
}

/* The means over seeds of each trace whose name begins so, by the number of the point; as one curve (join) or as a
   curve for each. For proxies = 1, also the proxy's. */
typedef struct drawing {
    ppo_curve curve[32];
    float x[32][POINTS], y[32][POINTS];
    char name[32][48];
    int n;
} drawing;

static void add_curve(drawing *g, const traces *all, int seeds, const char *begins, int join, int proxies) {
    for (int what = 0; what <= proxies; what++) {
        ppo_curve *c = NULL;
        for (int k = 0; k < all[0].count && g->n < 32; k++) {
            if (strncmp(all[0].trace[k].name, begins, strlen(begins)) != 0) continue;
            if (!c || !join) {
                c = &g->curve[g->n];
                snprintf(g->name[g->n], 48, "%s%s", what ? "proxy: " : "",
                         join ? begins : all[0].trace[k].name);
                c->name = g->name[g->n], c->x = g->x[g->n], c->y = g->y[g->n], c->n = 0;
                g->n++;
            }
            for (int i = 0; i < all[0].trace[k].n && c->n < POINTS; i++) {
                double x = 0, y = 0;
                int n = 0;
                for (int s = 0; s < seeds; s++) {
                    const trace *t = &all[s].trace[k];
                    if (i >= t->n) continue;
                    x += (double)t->d[i], y += (double)(what ? t->proxy : t->truth)[i], n++;
                }
                g->x[g->n - 1][c->n] = (float)(x / n);
                g->y[g->n - 1][c->n++] = (float)(y / n);
            }
        }
    }
}

/* A drawing needs ascending x, but the KL decreases at times. */
static ppo_status draw(drawing *g, const char *path, const char *title) {
    for (int k = 0; k < g->n; k++) {
        for (int i = 1; i < g->curve[k].n; i++) {
            for (int j = i; j > 0 && g->x[k][j] < g->x[k][j - 1]; j--) {
                float x = g->x[k][j], y = g->y[k][j];
                g->x[k][j] = g->x[k][j - 1], g->y[k][j] = g->y[k][j - 1];
                g->x[k][j - 1] = x, g->y[k][j - 1] = y;
            }
        }
    }
    ppo_status status = ppo_plot_svg(path, title, "sqrt(KL to the first model)",
                                     "gain, in standard deviations of the first model", g->curve, g->n);
    g->n = 0;
    return status;
}

static ppo_status report_seeds(const uint64_t *seed, int seeds) {
    static traces all[SEEDS];
    static drawing g;
    ppo_status status = PPO_OK;
    for (int s = 0; s < seeds && !status; s++) status = read_traces(seed[s], &all[s]);
    for (int s = 1; s < seeds && !status; s++)
        if (all[s].count != all[0].count)
            status = ppo_fail(PPO_ERROR_FILE, "the files of the seeds are not of one program");
    if (status) return status;
    print_table(all, seeds);
    add_curve(&g, all, seeds, "PPO, width", 0, 1);
    status = draw(&g, "build/overopt-ppo.svg", "PPO against proxies");
    add_curve(&g, all, seeds, "best-of-n", 0, 1);
    if (!status) status = draw(&g, "build/overopt-bon.svg", "Best-of-n against proxies");
    add_curve(&g, all, seeds, "PPO, width 16", 0, 0);
    add_curve(&g, all, seeds, "PPO, 0.", 0, 0);
    add_curve(&g, all, seeds, "PPO, mean", 0, 0);
    add_curve(&g, all, seeds, "PPO, minimum", 0, 0);
    add_curve(&g, all, seeds, "PPO, length", 0, 0);
    if (!status) status = draw(&g, "build/overopt-remedies.svg", "Remedies: the true reward");
    add_curve(&g, all, seeds, "PPO, kl_coef", 1, 0);
    add_curve(&g, all, seeds, "best-of-n, width 64", 1, 0);
    add_curve(&g, all, seeds, "ReST", 1, 0);
    add_curve(&g, all, seeds, "DPO", 1, 0);
    return status ? status : draw(&g, "build/overopt-frontier.svg", "True reward for the KL it takes");
}

#endif
