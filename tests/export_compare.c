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

/* The sum of probabilities of options before this one, and with it, among those that are legal. */
static void cumulated(const float *output, const unsigned char *mask, int n, int option, double *before,
                      double *with) {
    double sum = 0, most = -INFINITY;
    *before = *with = 0;
    for (int j = 0; j < n; ++j)
        if (!mask || mask[j]) most = fmax(most, (double)output[j]);
    for (int j = 0; j < n; ++j) {
        if (mask && !mask[j]) continue;
        if (j == option) *before = sum;
        sum += exp((double)output[j] - most);
        if (j == option) *with = sum;
    }
    *before /= sum;
    *with /= sum;
}

/* Are these choices what uniform numbers mean by the outputs? With a margin for rounding. */
static int are_drawn(const float *output, const unsigned char *mask, const int *sizes, int n,
                     const float *uniform, const float *choice) {
    double before, with;
    int right = 1;
    for (int h = 0; h < n; ++h) {
        int option = (int)choice[h];
        right &= !mask || mask[option];
        cumulated(output, mask, sizes[h], option, &before, &with);
        right &= uniform[h] > before - 1e-5 && uniform[h] < with + 1e-5;
        if (mask) mask += sizes[h];
        output += sizes[h];
    }
    return right;
}

/* What a policy is called, how many numbers it takes and gives, its functions, and room for the numbers: arrays of
   exactly these sizes, for the sanitizers. */
typedef struct {
    const char *name;
    int obs, outputs, numbers, width;
    const int *sizes; /* NULL: no choices */
    float tolerance;
    void (*forward)(const float *, float *, float *);
    void (*act)(const float *, float *, const unsigned char *, const float *, float *);
    int uniforms;
    float *seen, *output, *action, *one, *other, *uniform;
} policy;

/* The action of one function, from the memory before this step. */
static void act(const policy *p, const float *before, const unsigned char *mask, const float *uniform) {
    for (int j = 0; j < p->width; ++j) p->other[j] = before[j];
    p->act(p->seen, p->other, mask, uniform, p->action);
}

/* Of a line: 1 if the sampled action is not what the uniform numbers mean, or not ppo_act()'s. */
static int misdraws(const policy *p, const unsigned char *mask, const float *wanted) {
    int wrong = p->sizes && !are_drawn(p->output, mask, p->sizes, p->numbers, p->uniform, p->action);
    if (!p->sizes || p->tolerance < 1e-4f)
        for (int j = 0; j < p->numbers; ++j) wrong |= differ(p->action[j], wanted[j], 3 * p->tolerance);
    return wrong;
}

/* What the policy says of a mask: of choices alone. */
static int masked_wrong(const policy *p, FILE *in, const float *before, const float *logits) {
    float numbers[64], wanted[64], sampled[64], legal[64];
    unsigned char mask[64];
    int wrong = 0;
    if (!read_numbers(in, numbers, p->outputs) || !read_numbers(in, wanted, p->numbers) ||
        !read_numbers(in, sampled, p->numbers))
        return printf("%s: a mask is cut off\n", p->name);
    for (int j = 0; j < p->outputs; ++j) {
        mask[j] = numbers[j] > 0;
        legal[j] = mask[j] ? logits[j] : -1e9f - (float)j * 1e6f; /* no close call among the illegal */
    }
    act(p, before, mask, NULL);
    for (int j = 0; j < p->numbers; ++j)
        wrong |= differ(p->action[j], wanted[j], 0) && !close_call(legal, p->sizes, j, p->tolerance);
    act(p, before, mask, p->uniform);
    wrong |= misdraws(p, mask, sampled);
    return wrong ? printf("%s: wrong under a mask\n", p->name) : 0;
}

/* 1 if the policy answers otherwise than the file says. */
static int compare(const policy *p, FILE *in) {
    float begins, wanted[64], wanted_action[64], sampled[64], before[64], worst = 0;
    int line = 0, wrong = 0;
    if (!in || p->outputs > 64 || p->numbers > 64 || p->width > 64) return 1;
    while (read_numbers(in, &begins, 1)) {
        ++line;
        if (!read_numbers(in, p->seen, p->obs) || !read_numbers(in, wanted, p->outputs) ||
            !read_numbers(in, wanted_action, p->numbers) || !read_numbers(in, p->uniform, p->uniforms) ||
            !read_numbers(in, sampled, p->numbers))
            return printf("%s: line %d is cut off\n", p->name, line), 1;
        for (int j = 0; j < p->width && begins > 0; ++j) p->one[j] = 0;
        for (int j = 0; j < p->width; ++j) before[j] = p->one[j];
        p->forward(p->seen, p->one, p->output);
        for (int j = 0; j < p->outputs; ++j) {
            worst = fmaxf(worst, fabsf(p->output[j] - wanted[j]) / fmaxf(1, fabsf(wanted[j])));
            if (differ(p->output[j], wanted[j], p->tolerance))
                wrong = printf("%s, line %d: output %d is %.9g, not %.9g\n", p->name, line, j,
                               (double)p->output[j], (double)wanted[j]);
        }
        act(p, before, NULL, NULL);
        for (int j = 0; j < p->numbers; ++j) {
            if (differ(p->action[j], wanted_action[j], p->tolerance) &&
                !(p->sizes && close_call(wanted, p->sizes, j, p->tolerance)))
                wrong = printf("%s, line %d: action %d is %.9g, not %.9g\n", p->name, line, j,
                               (double)p->action[j], (double)wanted_action[j]);
        }
        act(p, before, NULL, p->uniform);
        if (misdraws(p, NULL, sampled))
            wrong = printf("%s, line %d: samples %.9g ..., not %.9g\n", p->name, line, (double)p->action[0],
                           (double)sampled[0]);
        for (int j = 0; j < p->width; ++j)
            if (differ(p->other[j], p->one[j], 0)) wrong = printf("%s: another state\n", p->name);
        if (p->sizes && masked_wrong(p, in, before, wanted)) wrong = 1;
    }
    printf("%s: %d lines, off by %.2g at most\n", p->name, line, (double)worst);
    return wrong || line != 400;
}
#endif
#endif

#include HEADER(NAME)
#include HEADER(NAME)

/* Memory may be of another type: numbers go through floats, which hold all that it has. */
#ifdef WIDTH
#define MEMORY      memory,
#define ONLY_MEMORY , memory
#define REMEMBER                      \
    GLUE(NAME, memory) memory[WIDTH]; \
    for (int m = 0; m < WIDTH; ++m) memory[m] = (GLUE(NAME, memory))state[m]
#define RETURN_MEMORY \
    for (int m = 0; m < WIDTH; ++m) state[m] = (float)memory[m]
typedef char GLUE(the_state_is_as_wide_as_it_says, NAME)[GLUE(NAME, STATE) == WIDTH ? 1 : -1];
#else
#define MEMORY
#define ONLY_MEMORY
#define REMEMBER      (void)state
#define RETURN_MEMORY (void)state
#define WIDTH         1
#endif

void GLUE(forward, NAME)(const float *obs, float *state, float *output);
void GLUE(forward, NAME)(const float *obs, float *state, float *output) {
    REMEMBER;
    GLUE(NAME, forward)(obs, MEMORY output);
    RETURN_MEMORY;
}

/* All kinds of actions as numbers, of a mask that may be NULL, sampled if there are uniform numbers. */
void GLUE(act, NAME)(const float *obs, float *state, const unsigned char *mask, const float *uniform,
                     float *action);
void GLUE(act, NAME)(const float *obs, float *state, const unsigned char *mask, const float *uniform,
                     float *action) {
    REMEMBER;
#if defined(BOX)
    (void)mask;
    if (uniform) GLUE(NAME, sample)(obs, MEMORY uniform, action);
    else GLUE(NAME, predict)(obs, MEMORY action);
#elif defined(MULTI)
    int choices[NUMBERS], j;
    if (mask && uniform) GLUE(NAME, sample_masked)(obs, MEMORY mask, uniform, choices);
    else if (mask) GLUE(NAME, predict_masked)(obs, MEMORY mask, choices);
    else if (uniform) GLUE(NAME, sample)(obs, MEMORY uniform, choices);
    else GLUE(NAME, predict)(obs, MEMORY choices);
    for (j = 0; j < NUMBERS; ++j) action[j] = (float)choices[j];
#else
    if (mask && uniform) action[0] = (float)GLUE(NAME, sample_masked)(obs, MEMORY mask, uniform[0]);
    else if (mask) action[0] = (float)GLUE(NAME, predict_masked)(obs, MEMORY mask);
    else if (uniform) action[0] = (float)GLUE(NAME, sample)(obs, MEMORY uniform[0]);
    else action[0] = (float)GLUE(NAME, predict)(obs ONLY_MEMORY);
#endif
    RETURN_MEMORY;
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
    float uniform[GLUE(NAME, UNIFORMS)];
    policy p = {TEXT(NAME),
                GLUE(NAME, OBS),
                OUTPUTS,
                NUMBERS,
                WIDTH,
                sizes,
                TOLERANCE,
                GLUE(forward, NAME),
                GLUE(act, NAME),
                GLUE(NAME, UNIFORMS),
                seen,
                output,
                action,
                one,
                other,
                uniform};
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
#undef REMEMBER
#undef RETURN_MEMORY
