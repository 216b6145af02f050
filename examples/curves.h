/* curves.h - what overopt.c measures, as curves over sqrt(KL): fits, drawings and a summary. */
#ifndef CURVES_H
#define CURVES_H

enum { POINTS = 256, TRACES = 8 }; /* points of a trace; traces of a drawing */

typedef struct trace { /* gains over the first model, in its standard deviations, against d = sqrt(KL) */
    int   n;
    float d[POINTS], truth[POINTS], proxy[POINTS];
    float a, b, a_error, b_error; /* the fit, and its standard errors */
} trace;

/* Least squares for truth = d (a - b f(d)) with f(d) = d (best-of-n) or log d (PPO), Gao 2022: linear in a, b. */
static void fit_curve(trace *t, int is_ppo) {
    double xx = 0, xz = 0, zz = 0, xy = 0, zy = 0, rest = 0;
    for (int i = 0; i < t->n; i++) {
        double x = t->d[i], z = -x * (is_ppo ? log(x) : x), y = t->truth[i];
        xx += x * x, xz += x * z, zz += z * z, xy += x * y, zy += z * y;
    }
    double det = xx * zz - xz * xz;
    t->a = (float)((xy * zz - zy * xz) / det);
    t->b = (float)((zy * xx - xy * xz) / det);
    for (int i = 0; i < t->n; i++) {
        double x = t->d[i], z = -x * (is_ppo ? log(x) : x), e = t->truth[i] - t->a * x - t->b * z;
        rest += e * e;
    }
    rest /= t->n - 2;
    t->a_error = (float)sqrt(rest * zz / det);
    t->b_error = (float)sqrt(rest * xx / det);
}

/* A drawing needs ascending x, but the KL decreases at times. */
static void sort_by_kl(trace *t) {
    for (int i = 1; i < t->n; i++) {
        for (int k = i; k > 0 && t->d[k] < t->d[k - 1]; k--) {
            float *const arrays[3] = {t->d, t->truth, t->proxy};
            for (int a = 0; a < 3; a++) {
                float x = arrays[a][k];
                arrays[a][k] = arrays[a][k - 1];
                arrays[a][k - 1] = x;
            }
        }
    }
}

/* Draws the true and the proxy reward of each trace and, if fits is 1, the fitted curve. */
static ppo_status draw(const char *path, const char *title, trace *traces, const char *const *names,
                       int count, int is_ppo, int fits) {
    enum { FIT = 60 };
    static float x[TRACES][FIT], y[TRACES][FIT];
    static char  label[3 * TRACES][64];
    ppo_curve    curves[3 * TRACES];
    int          n = 0;
    for (int k = 0; k < count; k++) {
        trace *t = &traces[k];
        sort_by_kl(t);
        for (int i = 0; i < FIT; i++) {
            float d = x[k][i] = t->n ? t->d[t->n - 1] * (float)(i + 1) / FIT : 0;
            y[k][i] = d * (t->a - t->b * (is_ppo ? logf(d) : d));
        }
        const ppo_curve three[3] = {{label[n], t->d, t->truth, t->n},
                                    {label[n + 1], t->d, t->proxy, t->n},
                                    {label[n + 2], x[k], y[k], FIT}};
        snprintf(label[n], 64, "true, %s", names[k]);
        snprintf(label[n + 1], 64, "proxy, %s", names[k]);
        snprintf(label[n + 2], 64, "fit, %s", names[k]);
        memcpy(curves + n, three, sizeof three);
        n += 2 + fits;
    }
    return ppo_plot_svg(path, title, "sqrt(KL to the first model)", "gain, in its standard deviations",
                        curves, n);
}

static void tell(const char *what, const char *name, const trace *t) {
    float best = -INFINITY, last = t->n ? t->truth[t->n - 1] : 0;
    for (int i = 0; i < t->n; i++) best = fmaxf(best, t->truth[i]);
    printf("%-10s %-12s a %6.3f +- %.3f  b %6.3f +- %.3f  truth: best %5.2f, last %5.2f  proxy: last %5.2f  "
           "sqrt(KL) up to %.2f\n",
           what, name, (double)t->a, (double)t->a_error, (double)t->b, (double)t->b_error, (double)best,
           (double)last, t->n ? (double)t->proxy[t->n - 1] : 0.0, t->n ? (double)t->d[t->n - 1] : 0.0);
    fflush(stdout);
}

#endif
