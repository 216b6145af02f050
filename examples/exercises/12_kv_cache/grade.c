#include "../grade.h"
#include "kv_cache.h"

#ifdef GRADE_STUDENT
/* Token by token; position[t] says where in its text token t is. Arrays of one token are blocks of their own.
   */
static void answer(grade_case *c) {
    int tokens = integer(c, "tokens"), heads = integer(c, "heads"), size = integer(c, "size"),
        width = heads * size;
    int capacity = integer(c, "capacity");
    grade_case own = {0};
    float *cache_k = add_floats(&own, "cache_k", capacity, width),
          *cache_v = add_floats(&own, "cache_v", capacity, width);
    float *one[4] = {add_floats(&own, "q", width, 1), add_floats(&own, "k", width, 1),
                     add_floats(&own, "v", width, 1), add_floats(&own, "out", width, 1)};
    for (int i = 0; i < capacity * width; i++) cache_k[i] = cache_v[i] = 3;
    for (int t = 0; t < tokens; t++) {
        size_t bytes_of_one = sizeof(float) * (size_t)width;
        memcpy(one[0], floats(c, "q") + t * width, bytes_of_one),
            memcpy(one[1], floats(c, "k") + t * width, bytes_of_one);
        memcpy(one[2], floats(c, "v") + t * width, bytes_of_one),
            memcpy(one[3], floats(c, "out") + t * width, bytes_of_one);
        attend(one[0], one[1], one[2], integers(c, "position")[t], capacity, heads, size, cache_k, cache_v,
               one[3]);
        memcpy(floats(c, "out") + t * width, one[3], bytes_of_one);
    }
    grade_free(&own);
}
#else

enum { FIRST, LATER, HEADS, AGAIN, LARGE };

static void make(grade_case *c, int part, int number, ppo_rng *rng) {
    int tokens = part == FIRST ? 1 : number < 3 ? number + 2 : 2 + ppo_rng_below(rng, 10);
    int heads = part == HEADS ? 2 + ppo_rng_below(rng, 3) : 1, size = 2 + ppo_rng_below(rng, 5), first = 0;
    for (const char *name = "q"; name; name = *name == 'q' ? "k" : *name == 'k' ? "v" : NULL) {
        float *x = add_floats(c, name, tokens, heads * size);
        for (int i = 0; i < tokens * heads * size; i++)
            x[i] = ppo_rng_normal(rng) * (part == LARGE && *name != 'v' ? 20 : 1);
    }
    int *position = add_integers(c, "position", tokens, 1);
    for (int t = 0; t < tokens; t++) {
        if (part == AGAIN && t == (tokens + 1) / 2) first = t;
        position[t] = t - first;
    }
    add_integer(c, "tokens", tokens), add_integer(c, "capacity", 16);
    add_integer(c, "heads", heads), add_integer(c, "size", size);
    add_output(c, "out", tokens, heads * size);
}

/* The output of head h for the token t of a text that began with token `first`, from a matrix of keys. */
static void head(grade_case *c, int first, int t, int width, int at, int size, float scale, int mistake) {
    int n = mistake == 8 ? integer(c, "capacity") : t - first + 1;
    float *k = (float *)calloc(2 * (size_t)(n * size), sizeof *k), *v = k + n * size;
    ppo_tape *tape = NULL;
    for (int i = 0; i < n * size;
         i++) { /* mistake 8: rows of the text before, or what answer() fills the cache with */
        int row = i / size <= t - first ? first + i / size : i / size < first ? i / size : -1;
        k[i] = row < 0 ? 3 : floats(c, "k")[row * width + at + i % size];
        v[i] = row < 0 ? 3 : floats(c, "v")[row * width + at + i % size];
    }
    must(ppo_tape_create(&tape));
    ppo_tensor *q = ppo_tape_constant(tape, floats(c, "q") + t * width + at, 1, size);
    ppo_tensor *score = ppo_tape_matmul_transposed(tape, q, ppo_tape_constant(tape, k, n, size));
    ppo_tensor *weight = ppo_tape_exp(
        tape, ppo_tape_log_softmax(tape, ppo_tape_scale(tape, score, mistake == 6 ? 0 : scale, 0)));
    ppo_tensor *out = ppo_tape_matmul(tape, weight, ppo_tape_constant(tape, v, n, size));
    must(ppo_tape_status(tape));
    memcpy(floats(c, "out") + t * width + at, out->data, sizeof(float) * (size_t)size);
    ppo_tape_free(tape), free(k);
}

static void solve(grade_case *c, int mistake) {
    int tokens = integer(c, "tokens"), heads = integer(c, "heads"), size = integer(c, "size"),
        width = heads * size;
    for (int t = 0; t < tokens; t++) {
        int first = t - integers(c, "position")[t], apart = mistake == 4 ? 1 : heads, each = width / apart;
        if (mistake == 5) first = 0;
        if (mistake == 3) first = t;
        float scale = mistake == 1 ? 1 : 1 / sqrtf((float)(mistake == 2 ? width : each));
        if (mistake == 7) scale = 1 / (float)size;
        for (int h = 0; h < apart; h++) head(c, first, t, width, h * each, each, scale, mistake);
    }
}

static const grade_exercise exercise = {
    .file = "kv_cache.c",
    .part = {{1, 6, "for the first token"},
             {3, 8, "for later tokens"},
             {2, 8, "with several heads"},
             {2, 8, "where a second text follows in the same cache"},
             {2, 8, "where scores are large"}},
    .make = make,
    .solve = solve,
    .mistake =
        {
            "The scores are not divided by sqrt(size).",
            "The scores are divided by the root of heads * size; each head has size numbers.",
            "Only the newest token is attended to: the cache keeps no earlier one.",
            "The heads are not apart: each has weights of its own.",
            "The second text sees the first one: only rows 0 .. position count.",
            "All tokens have the same weight: the scores are not used.",
            "The scores are divided by size; it should be its root.",
            "Rows of the cache beyond position are attended to: they hold garbage, or another text.",
        },
};
#endif
