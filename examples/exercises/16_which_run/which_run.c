/* Exercise 16: which run has which mistake?
   The task is in README.md; `make grade EX=16` grades this file. */
#include "which_run.h"

/* your answers, one of the names of which_run.h for each run */
const enum mistake answers[8] = {
    UNKNOWN, /* run_a.csv */
    UNKNOWN, /* run_b.csv */
    UNKNOWN, /* run_c.csv */
    UNKNOWN, /* run_d.csv */
    UNKNOWN, /* run_e.csv */
    UNKNOWN, /* run_f.csv */
    UNKNOWN, /* run_g.csv */
    UNKNOWN, /* run_h.csv */
};
