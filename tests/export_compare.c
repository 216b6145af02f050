/* For export.sh: the policy NAME.h against what export.c says that it must answer. With FREESTANDING only the part that
   firmware would have. Macros: NAME; DISCRETE, MULTI or BOX; OUTPUTS, NUMBERS: how many; SIZES: of the choices;
   WIDTH: of a recurrent policy's memory; TOLERANCE: of its numbers. export.sh includes this file once for each policy,
   which takes the compiler a fraction of what a program for each takes, and writes main(). */
#ifndef GLUE
#define GLUE_(a, b)  a##_##b
#define GLUE(a, b)   GLUE_(a, b)
#define TEXT_(x)     #x
#define TEXT(x)      TEXT_(x)
#define HEADER(name) TEXT(name.h)

#ifndef FREESTANDING
#include <math.h>
#include <stdio.h>

static int read_numbers(FILE *in, float *x, int n) {
    for (int j = 0; j < n; ++j)
        if (fscanf(in, "%f", &x[j]) != 1) return 0;
    return 1;
}

static int differ(float a, float b, float tolerance) {
    return !(a == b || fabsf(a - b) <= tolerance * fmaxf(1, fabsf(b)));
}

/* May the choice differ: are two of its outputs, of which there are sizes[which], as good as equal? */
static int close_call(const float *output, const int *sizes, int which, float tolerance) {
    int close = 0;
    for (int h = 0; h < which; ++h) output += sizes[h];
    for (int i = 0; i < sizes[which]; ++i)
        for (int j = 0; j < i; ++j) close |= !differ(output[i], output[j], tolerance);
    return close;
}

/* What a policy is called, how many numbers it takes and gives, its functions, and room for the numbers: arrays of
   exactly these sizes, for the sanitizers. */
typedef struct {
    const char *name;
    int obs, outputs, numbers, width;
    const int *sizes; /* NULL: no choices */
    float tolerance;
    void (*forward)(const float *, float *, float *);
    void (*predict)(const float *, float *, float *);
    float *seen, *output, *action, *one, *other;
} policy;

/* 1 if the policy answers otherwise than the file says. */
static int compare(const policy *p, FILE *in) {
    float begins, wanted[64], wanted_action[64], worst = 0;
    int line = 0, wrong = 0;
    if (!in || p->outputs > 64 || p->numbers > 64) return 1;
    while (read_numbers(in, &begins, 1)) {
        ++line;
        if (!read_numbers(in, p->seen, p->obs) || !read_numbers(in, wanted, p->outputs) ||
            !read_numbers(in, wanted_action, p->numbers))
            return printf("%s: line %d is cut off\n", p->name, line), 1;
        for (int j = 0; j < p->width && begins > 0; ++j) p->one[j] = p->other[j] = 0;
        p->forward(p->seen, p->one, p->output);
        p->predict(p->seen, p->other, p->action);
        for (int j = 0; j < p->outputs; ++j) {
            worst = fmaxf(worst, fabsf(p->output[j] - wanted[j]) / fmaxf(1, fabsf(wanted[j])));
            if (differ(p->output[j], wanted[j], p->tolerance))
                wrong = printf("%s, line %d: output %d is %.9g, not %.9g\n", p->name, line, j,
                               (double)p->output[j], (double)wanted[j]);
        }
        for (int j = 0; j < p->numbers; ++j) {
            if (differ(p->action[j], wanted_action[j], p->tolerance) &&
                !(p->sizes && close_call(wanted, p->sizes, j, p->tolerance)))
                wrong = printf("%s, line %d: action %d is %.9g, not %.9g\n", p->name, line, j,
                               (double)p->action[j], (double)wanted_action[j]);
        }
    }
    printf("%s: %d lines, off by %.2g at most\n", p->name, line, (double)worst);
    return wrong || line != 400;
}
#endif
#endif

#include HEADER(NAME)
#include HEADER(NAME)

#ifdef WIDTH
#define MEMORY      state,
#define ONLY_MEMORY , state
typedef char GLUE(the_state_is_as_wide_as_it_says, NAME)[GLUE(NAME, STATE) == WIDTH ? 1 : -1];
#else
#define MEMORY
#define ONLY_MEMORY
#define WIDTH 1
#endif

void GLUE(forward, NAME)(const float *obs, float *state, float *output);
void GLUE(forward, NAME)(const float *obs, float *state, float *output) {
    (void)state;
    GLUE(NAME, forward)(obs, MEMORY output);
}

/* All kinds of actions as numbers. */
void GLUE(predict, NAME)(const float *obs, float *state, float *action);
void GLUE(predict, NAME)(const float *obs, float *state, float *action) {
    (void)state;
#if defined(BOX)
    GLUE(NAME, predict)(obs, MEMORY action);
#elif defined(MULTI)
    int choices[NUMBERS], j;
    GLUE(NAME, predict)(obs, MEMORY choices);
    for (j = 0; j < NUMBERS; ++j) action[j] = (float)choices[j];
#else
    action[0] = (float)GLUE(NAME, predict)(obs ONLY_MEMORY);
#endif
}

#ifndef FREESTANDING
#ifndef TOLERANCE
#define TOLERANCE 1e-5f
#endif
static int GLUE(compare, NAME)(FILE *in) {
#ifdef SIZES
    static const int choices[] = {SIZES}, *sizes = choices;
#else
    const int *sizes = NULL;
#endif
    float seen[GLUE(NAME, OBS)], output[OUTPUTS], action[NUMBERS], one[WIDTH] = {0}, other[WIDTH] = {0};
    policy p = {TEXT(NAME),          GLUE(NAME, OBS),     OUTPUTS, NUMBERS, WIDTH,  sizes, TOLERANCE,
                GLUE(forward, NAME), GLUE(predict, NAME), seen,    output,  action, one,   other};
    return compare(&p, in);
}
#endif

#undef NAME
#undef DISCRETE
#undef MULTI
#undef BOX
#undef OUTPUTS
#undef NUMBERS
#undef SIZES
#undef WIDTH
#undef TOLERANCE
#undef MEMORY
#undef ONLY_MEMORY
