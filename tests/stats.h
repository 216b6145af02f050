/* stats.h - compares the mean of many independent gradients with their exact expectation, for test_unbiased.c and
   test_unbiased_tokens.c. Include it after test.h.

   For each coordinate z = (mean - expectation) / standard error, which for the right expectation has the distribution
   of Student's t with rounds - 1 degrees of freedom. The limit for |z| is that which a z of so many rounds passes as
   seldom as a normal number passes 5 (`make stats`, where PPO_STATS is set: 5.7e-7) or 5.5 (make test, with few rounds:
   3.8e-8). The probability of a false alarm is at most this times the number of coordinates (Bonferroni). One more
   coordinate is the projection on the expectation: it finds a wrong factor. */
#ifndef PPO_TEST_STATS_H
#define PPO_TEST_STATS_H

enum { MOST_COORDINATES = 1024 };

/* The gradients of an estimator so far. */
typedef struct estimate {
    int count;
    long rounds;
    double want[MOST_COORDINATES + 1]; /* the expectation; last: of the projection */
    double sum[MOST_COORDINATES + 1], squares[MOST_COORDINATES + 1];
    double tolerance; /* of the expectation, by the documentation, in a coordinate, as a share of its norm */
} estimate;

static inline int long_stats(void) { return getenv("PPO_STATS") != NULL; }

/* Every estimator has random numbers of its own. */
static inline uint64_t seed_of(const char *name, long round) {
    uint64_t seed = 7;
    for (; *name; name++) seed = seed * 131 + (unsigned char)*name;
    return seed * 1000000 + (uint64_t)round;
}

/* The sums of one estimator at a time, in static memory as they are large. */
static inline estimate *stat_begin(int count, const double *want) {
    static estimate s;
    assert_true(count <= MOST_COORDINATES);
    memset(&s, 0, sizeof s);
    s.count = count;
    for (int j = 0; j < count; j++) s.want[j] = want[j], s.want[count] += want[j] * want[j];
    return &s;
}

static inline void stat_add(estimate *s, const double *x) {
    double along = 0;
    for (int j = 0; j < s->count; j++) along += x[j] * s->want[j];
    for (int j = 0; j <= s->count; j++) {
        const double off = (j < s->count ? x[j] : along) - s->want[j];
        s->sum[j] += off;
        s->squares[j] += off * off;
    }
    s->rounds++;
}

/* P(|t| > x) for Student's t, by Simpson's rule over the angle whose tangent is t / sqrt(freedom). */
static inline double t_tail(double x, double freedom) {
    enum { PARTS = 2000 };
    const double from = atan(x / sqrt(freedom)), half = acos(-1.0) / 2, h = (half - from) / PARTS;
    double sum = 0;
    for (int i = 0; i <= PARTS; i++) {
        const double c = cos(from + h * i), weight = i == 0 || i == PARTS ? 1 : i % 2 ? 4 : 2;
        sum += c > 0 ? weight * pow(c, freedom - 1) : 0;
    }
    return 2 * sum * h / 3 * exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2)) / sqrt(acos(-1.0));
}

/* What |t| passes as seldom as a normal number passes 5 or 5.5. */
static inline double z_limit(double freedom) {
    const double wanted = erfc((long_stats() ? 5 : 5.5) / sqrt(2));
    double low = 1, high = 1e6;
    for (int i = 0; i < 60; i++) {
        const double middle = sqrt(low * high);
        if (t_tail(middle, freedom) > wanted) low = middle;
        else high = middle;
    }
    return high;
}

static double all_false_alarms; /* of the program so far */

/* Prints the estimator's row of the table, and fails if a coordinate is off. own: the method's own bias, exact, as a
   share of the expectation; below 0: the method does not claim to have none. */
static inline void stat_end(const estimate *s, const char *name, double own) {
    const double n = (double)s->rounds, norm = sqrt(s->want[s->count]), limit = z_limit(n - 1);
    double worst = 0, error = 0, noise = 0, widest = 0, along = 0;
    int at = 0;
    for (int j = 0; j <= s->count; j++) {
        /* numbers are floats, so that even without noise a coordinate is off by its rounding */
        const double scale = j < s->count ? norm : norm * norm, rounding = (1e-6 + s->tolerance) * scale;
        const double mean = s->sum[j] / n, var = fmax(0, (s->squares[j] / n - mean * mean) / (n - 1));
        const double z = fabs(mean) / sqrt(var + rounding * rounding + 1e-30);
        if (!(z <= worst)) worst = z, at = j; /* NaN, too */
        if (j == s->count) along = sqrt(var) / scale;
        else error += mean * mean, noise += var, widest = fmax(widest, sqrt(var) / norm);
    }
    const double alarm = (s->count + 1) * t_tail(limit, n - 1);
    all_false_alarms += alarm;
    if (long_stats()) { /* the row is a comment of TAP */
        char text[16] = "";
        if (own >= 0) snprintf(text, sizeof text, "%.2f %%", 100 * own);
        printf("# %-56s %6ld x %4d  %5.2f  %6.3f %% (%.3f %%)  %7.1e  %5.2f %%  %5.2f %%  %8s\n", name,
               s->rounds, s->count, worst, 100 * sqrt(error) / norm, 100 * sqrt(noise) / norm, alarm,
               100 * (limit + 2) * widest, 100 * (limit + 2) * along, text);
        fflush(stdout);
    }
    if (!(worst <= limit))
        fail_msg(
            "%s: |z| is %.2f, above %.2f, in coordinate %d: the mean of %ld is off by %.3g of the norm, a "
            "standard error is %.3g",
            name, worst, limit, at, s->rounds, s->sum[at] / n / (at < s->count ? norm : norm * norm),
            sqrt(fmax(0, (s->squares[at] / n - s->sum[at] / n * (s->sum[at] / n)) / (n - 1))) /
                (at < s->count ? norm : norm * norm));
}

/* The head and the foot of the table. */
static inline void stat_head(const char *what) {
    if (!long_stats()) return;
    fflush(stdout);
    printf("# %s: the mean of many gradients against its exact expectation\n"
           "#   rounds x n     independent gradients, and their coordinates\n"
           "#   |z|            the largest, over all coordinates and the projection on the expectation\n"
           "#   error          distance of the mean from the expectation (in brackets: a standard error), in "
           "%% of its "
           "norm\n"
           "#   false          probability that one of the coordinates is beyond the limit by chance\n"
           "#   finds, factor  the bias of a coordinate, in %% of the norm, and the wrong factor, that are "
           "found with a "
           "probability\n"
           "#                  of 98 %%\n"
           "#   own bias       of the method itself, exact: what of its expectation is no multiple of the "
           "policy "
           "gradient\n"
           "# %-56s %6s   %4s  %5s  %-19s  %7s  %7s  %7s  %8s\n",
           what, "estimator", "rounds", "n", "|z|", "error", "false", "finds", "factor", "own bias");
}

static inline void stat_foot(void) {
    if (long_stats())
        printf("# all of these together: false alarm with a probability of %.1e\n", all_false_alarms);
}

/* What of x is no multiple of y, as a share of x. */
static inline double stat_angle(const double *x, const double *y, int n) {
    double xx = 0, yy = 0, xy = 0;
    for (int j = 0; j < n; j++) xx += x[j] * x[j], yy += y[j] * y[j], xy += x[j] * y[j];
    return xx > 0 && yy > 0 ? sqrt(fmax(0, 1 - xy * xy / (xx * yy))) : 1;
}

#endif
