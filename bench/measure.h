/* measure.h - what the programs of bench/ share: repetitions, of which the median and both ends are told. */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdio.h>
#include <stdlib.h>

enum { REPETITIONS = 5 };

static inline int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the values. */
static inline void report(const char *name, double value[REPETITIONS], int digits, const char *unit) {
    qsort(value, REPETITIONS, sizeof *value, ascending);
    printf("%-44s %9.*f %-9s median of %d, from %.*f to %.*f\n", name, digits, value[REPETITIONS / 2], unit,
           REPETITIONS, digits, value[0], digits, value[REPETITIONS - 1]);
    fflush(stdout);
}

static inline int fail(void) { return fprintf(stderr, "%s\n", ppo_last_error()), 1; }

#endif
