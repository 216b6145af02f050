/* For export.sh: the policy NAME.h against what export.c says that it must answer. With FREESTANDING only the part that
   firmware would have. Macros: NAME; DISCRETE, MULTI or BOX; OUTPUTS, NUMBERS: how many; SIZES: of the choices;
   WIDTH: of a recurrent policy's memory; TOLERANCE: of its numbers. */
#define GLUE_(a, b)  a##_##b
#define GLUE(a, b)   GLUE_(a, b)
#define TEXT_(x)     #x
#define TEXT(x)      TEXT_(x)
#define HEADER(name) TEXT(name.h)

#include HEADER(NAME)
#include HEADER(NAME)

#ifdef WIDTH
#define MEMORY      state,
#define ONLY_MEMORY , state
typedef char the_state_is_as_wide_as_it_says[GLUE(NAME, STATE) == WIDTH ? 1 : -1];
#else
#define MEMORY
#define ONLY_MEMORY
#endif

void forward(const float *obs, float *state, float *output);
void forward(const float *obs, float *state, float *output) {
    (void)state;
    GLUE(NAME, forward)(obs, MEMORY output);
}

/* All kinds of actions as numbers. */
void predict(const float *obs, float *state, float *action);
void predict(const float *obs, float *state, float *action) {
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
#include <math.h>
#include <stdio.h>

#ifndef WIDTH
#define WIDTH 1
#endif
enum { OBS = GLUE(NAME, OBS) };

static int read_numbers(FILE *in, float *x, int n) {
    for (int j = 0; j < n; ++j)
        if (fscanf(in, "%f", &x[j]) != 1) return 0;
    return 1;
}

#ifndef TOLERANCE
#define TOLERANCE 1e-5f
#endif
static int far(float a, float b) { return !(a == b || fabsf(a - b) <= TOLERANCE * fmaxf(1, fabsf(b))); }

/* May the choice differ: are two outputs as good as equal? */
#ifdef BOX
static int close_call(const float *output, int which) {
    (void)output, (void)which;
    return 0;
}
#else
static int close_call(const float *output, int which) {
    static const int sizes[] = {SIZES};
    for (int h = 0; h < which; ++h) output += sizes[h];
    int near = 0;
    for (int i = 0; i < sizes[which]; ++i)
        for (int j = 0; j < i; ++j) near |= !far(output[i], output[j]);
    return near;
}
#endif

int main(int argc, char **argv) {
    FILE *in = argc > 1 ? fopen(argv[1], "r") : NULL;
    float begins, obs[OBS], output[OUTPUTS], action[NUMBERS], wanted[OUTPUTS], wanted_action[NUMBERS];
    float one[WIDTH] = {0}, other[WIDTH] = {0}, worst = 0;
    int   line = 0, wrong = 0;
    while (in && read_numbers(in, &begins, 1)) {
        ++line;
        if (!read_numbers(in, obs, OBS) || !read_numbers(in, wanted, OUTPUTS) ||
            !read_numbers(in, wanted_action, NUMBERS))
            return printf("line %d is cut off\n", line), 1;
        for (int j = 0; j < WIDTH && begins > 0; ++j) one[j] = other[j] = 0;
        forward(obs, one, output);
        predict(obs, other, action);
        for (int j = 0; j < OUTPUTS; ++j) {
            worst = fmaxf(worst, fabsf(output[j] - wanted[j]) / fmaxf(1, fabsf(wanted[j])));
            if (far(output[j], wanted[j]))
                wrong = printf("line %d: output %d is %.9g, not %.9g\n", line, j, (double)output[j],
                               (double)wanted[j]);
        }
        for (int j = 0; j < NUMBERS; ++j) {
            if (far(action[j], wanted_action[j]) && !close_call(wanted, j))
                wrong = printf("line %d: action %d is %.9g, not %.9g\n", line, j, (double)action[j],
                               (double)wanted_action[j]);
        }
    }
    printf("%d lines, off by %.2g at most\n", line, (double)worst);
    return wrong || line != 400;
}
#endif
