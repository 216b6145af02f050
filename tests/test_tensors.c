/* Section 4: the parameter set and orthogonal initialization. */
#include "../ppo.h"

#include "stb.h"
#include "test.h"

static size_t size_of(const ppo_tensor *t) { return (size_t)t->rows * (size_t)t->cols; }

static void a_new_parameter_is_zero_named_and_of_its_shape(void **state) {
    (void)state;
    ppo_params *params = NULL;
    char name[] = "actor.0.weight";
    assert_ok(ppo_params_create(&params));
    assert_int_equal(params->count, 0);
    assert_int_equal(params->step, 0);
    ppo_tensor *w = ppo_params_add(params, name, 5, 3);
    assert_non_null(w);
    memset(name, 'x', sizeof name - 1); /* the set keeps its own copy */
    assert_int_equal(w->rows, 5);
    assert_int_equal(w->cols, 3);
    assert_int_equal(stbds_arrlen(params->tensors), 1);
    assert_int_equal(stbds_arrlen(params->names), 1);
    assert_ptr_equal(params->tensors[0], w);
    assert_string_equal(params->names[0], "actor.0.weight");
    for (size_t i = 0; i < size_of(w); i++) assert_true(w->data[i] == 0 && w->grad[i] == 0);
    ppo_params_free(params);
}

static void parameters_lie_in_one_block_on_64_byte_boundaries_with_zeros_between(void **state) {
    (void)state;
    enum { N = 50 };
    ppo_params *params = NULL;
    ppo_tensor *t[N];
    float value = 0;
    char name[16];
    assert_ok(ppo_params_create(&params));
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "p.%d", i);
        t[i] = ppo_params_add(params, name, 1 + i % 7, 1 + 3 * i);
        assert_non_null(t[i]);
        for (size_t j = 0; j < size_of(t[i]); j++) t[i]->data[j] = ++value, t[i]->grad[j] = -value;
    }
    value = 0;
    for (int i = 0; i < N; i++) { /* nothing was lost when the blocks grew */
        size_t at = (size_t)(t[i]->data - params->data);
        snprintf(name, sizeof name, "p.%d", i);
        assert_ptr_equal(params->tensors[i], t[i]);
        assert_string_equal(params->names[i], name);
        assert_int_equal((uintptr_t)t[i]->data % 64, 0);
        assert_int_equal((uintptr_t)t[i]->grad % 64, 0);
        assert_true(at + size_of(t[i]) <= params->count);
        assert_ptr_equal(t[i]->grad, params->grad + at);
        for (size_t j = 0; j < size_of(t[i]); j++) {
            assert_true(t[i]->data[j] == ++value && t[i]->grad[j] == -value);
            assert_true(params->m[at + j] == 0 && params->v[at + j] == 0);
            t[i]->data[j] = t[i]->grad[j] = 0;
        }
    }
    for (size_t i = 0; i < params->count; i++) assert_true(params->data[i] == 0 && params->grad[i] == 0);
    ppo_params_free(params);
}

static void parameters_do_not_overlap(void **state) {
    (void)state;
    ppo_params *params = NULL;
    assert_ok(ppo_params_create(&params));
    ppo_tensor *a = ppo_params_add(params, "a", 3, 5), *b = ppo_params_add(params, "b", 2, 8);
    ppo_tensor *c = ppo_params_add(params, "c", 1, 1);
    assert_true(a->data + 15 <= b->data && b->data + 16 <= c->data &&
                c->data + 1 <= params->data + params->count);
    ppo_params_free(params);
}

static void a_refused_parameter_leaves_the_set_as_it_was(void **state) {
    (void)state;
    heap h = {0, 0, -1, 0};
    ppo_params *params = NULL;
    ppo_set_allocator(heap_hook, &h);
    assert_ok(ppo_params_create(&params));
    ppo_tensor *w = ppo_params_add(params, "w", 2, 2);
    w->data[3] = 7;
    size_t count = params->count;
    static const struct {
        const char *name;
        int rows, cols;
        const char *words;
    } bad[] = {{"neg", -3, 2, "neg|-3"},
               {"none", 2, 0, "none|0|above 0"},
               {NULL, 2, 2, "name is NULL"},
               {"w", 3, 3, "\"w\" already"}};
    for (int i = 0; i < COUNT(bad); i++) {
        ppo_fail(PPO_OK, "(no sentence)");
        assert_null(ppo_params_add(params, bad[i].name, bad[i].rows, bad[i].cols));
        check_fails(PPO_ERROR_ARGUMENT, PPO_ERROR_ARGUMENT, bad[i].words, "ppo_params_add", __FILE__,
                    __LINE__);
    }
    assert_null(ppo_params_add(params, "huge", INT_MAX, INT_MAX)); /* 2^64 bytes, four times */
    assert_null(ppo_params_add(NULL, "w", 2, 2));
    h.fail_at = h.calls, h.for_good = 1;
    assert_null(ppo_params_add(params, "more", 400, 400));
    h.fail_at = -1;
    assert_int_equal(params->count, count);
    assert_int_equal(stbds_arrlen(params->tensors), 1);
    assert_int_equal(stbds_arrlen(params->names), 1);
    assert_true(w->data[3] == 7 && w == params->tensors[0]);
    assert_non_null(ppo_params_add(params, "after", 400, 400));
    assert_true(w->data[3] == 7);
    ppo_params_free(params);
    ppo_set_allocator(NULL, NULL);
    assert_int_equal(h.live, 0);
    assert_fails(ppo_params_create(NULL), PPO_ERROR_ARGUMENT, "NULL");
}

/* Largest |W^T W - gain^2 I| (tall) or |W W^T - gain^2 I| (wide), over gain^2. */
static double distance_from_orthogonal(const ppo_tensor *w, double gain) {
    int tall = w->rows >= w->cols, n = tall ? w->cols : w->rows, m = tall ? w->rows : w->cols;
    int across = tall ? 1 : w->cols, along = tall ? w->cols : 1;
    double worst = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double dot = 0;
            for (int k = 0; k < m; k++)
                dot += (double)w->data[i * across + k * along] * w->data[j * across + k * along];
            worst = fmax(worst, fabs(dot / (gain * gain) - (i == j)));
        }
    return worst;
}

static void orthogonal_matrix_times_its_transpose_is_gain_squared(void **state) {
    (void)state;
    static const int shapes[][2] = {{1, 1},  {1, 9},   {9, 1},    {2, 2},    {64, 4},
                                    {4, 64}, {64, 64}, {100, 37}, {37, 100}, {128, 128}};
    static const float gains[] = {1, 1.41421356f, 0.01f};
    static float data[128 * 128];
    ppo_rng rng = test_rng(1);
    for (int i = 0; i < COUNT(shapes); i++)
        for (int g = 0; g < COUNT(gains); g++) {
            ppo_tensor w = {shapes[i][0], shapes[i][1], data, NULL};
            assert_ok(ppo_init_orthogonal(&w, gains[g], &rng));
            assert_true(distance_from_orthogonal(&w, gains[g]) < 2e-6);
        }
}

static void orthogonal_init_repeats_for_a_stream_and_differs_between_draws(void **state) {
    (void)state;
    float a[12], b[12], c[12];
    ppo_tensor wa = {4, 3, a, NULL}, wb = {4, 3, b, NULL}, wc = {4, 3, c, NULL};
    ppo_rng rng = test_rng(2), same = test_rng(2);
    assert_ok(ppo_init_orthogonal(&wa, 1, &rng));
    assert_ok(ppo_init_orthogonal(&wb, 1, &same));
    assert_ok(ppo_init_orthogonal(&wc, 1, &rng));
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
}

/* Of all orthogonal matrices each is as likely: an element of a 3 x 3 one has mean 0 and variance 1/3. A QR
   decomposition whose signs are left as they come would fail this. */
static void orthogonal_matrices_are_drawn_without_a_preferred_direction(void **state) {
    (void)state;
    enum { N = 6000 };
    double sum[9] = {0}, squares[9] = {0};
    ppo_rng rng = test_rng(3);
    for (int i = 0; i < N; i++) {
        float data[9];
        ppo_tensor w = {3, 3, data, NULL};
        assert_ok(ppo_init_orthogonal(&w, 1, &rng));
        for (int j = 0; j < 9; j++) sum[j] += data[j], squares[j] += data[j] * data[j];
    }
    for (int j = 0; j < 9; j++) {
        assert_true(fabs(sum[j] / N) < 5 * sqrt(1.0 / 3 / N));
        assert_true(fabs(squares[j] / N - 1.0 / 3) <
                    5 * sqrt((1.0 / 5 - 1.0 / 9) / N)); /* E x^4 = 3 / (3 * 5) */
    }
}

static void orthogonal_init_refuses_what_is_missing(void **state) {
    (void)state;
    float data[4];
    ppo_tensor w = {2, 2, data, NULL}, empty = {2, 2, NULL, NULL};
    ppo_rng rng = test_rng(4);
    assert_fails(ppo_init_orthogonal(NULL, 1, &rng), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_init_orthogonal(&w, 1, NULL), PPO_ERROR_ARGUMENT, "NULL");
    assert_fails(ppo_init_orthogonal(&empty, 1, &rng), PPO_ERROR_ARGUMENT, "NULL");
}

static void a_frozen_parameter_stays_frozen_when_the_set_grows(void **state) {
    (void)state;
    ppo_params *params;
    assert_ok(ppo_params_create(&params));
    ppo_tensor *a = ppo_params_add(params, "a", 3, 5);
    a->data[14] = 9;
    a->grad = NULL;
    ppo_tensor *b = ppo_params_add(params, "b", 2, 2);
    assert_true(a->grad == NULL && a->data == params->data && a->data[14] == 9);
    assert_true(b->grad == params->grad + 16);
    ppo_params_free(params);
}

/* data, grad, m and v of parameter t have the numbers that mark() gave them. */
static void mark(ppo_params *params, const ppo_tensor *t, float base) {
    size_t at = (size_t)(t->data - params->data);
    for (size_t i = 0; i < size_of(t); i++) {
        t->data[i] = base + (float)i, t->grad[i] = -t->data[i];
        params->m[at + i] = 2 * t->data[i], params->v[at + i] = 3 * t->data[i];
    }
}

static void check_marked(const ppo_params *params, const ppo_tensor *t, float base) {
    size_t at = (size_t)(t->data - params->data);
    assert_true(at + size_of(t) <= params->count);
    assert_ptr_equal(t->grad, params->grad + at);
    for (size_t i = 0; i < size_of(t); i++) {
        float x = base + (float)i;
        assert_true(t->data[i] == x && t->grad[i] == -x);
        assert_true(params->m[at + i] == 2 * x && params->v[at + i] == 3 * x);
    }
}

static void more_room_moves_all_that_is_there_and_is_zero_behind(void **state) {
    (void)state;
    ppo_params *params = NULL;
    assert_ok(ppo_params_create(&params));
    ppo_tensor *a = ppo_params_add(params, "a", 3, 5), *b = ppo_params_add(params, "b", 7, 9);
    size_t count = params->count;
    mark(params, a, 1), mark(params, b, 1000);
    for (size_t room = 1024; room <= 4096; room *= 2) {
        assert_ok(ppo__params_reserve(params, room));
        assert_true(params->capacity == room && params->count == count && params->tensor_count == 2);
        assert_true(params->tensors[0] == a && params->tensors[1] == b);
        check_marked(params, a, 1), check_marked(params, b, 1000);
        for (size_t i = count; i < room; i++) {
            assert_true(params->data[i] == 0 && params->grad[i] == 0);
            assert_true(params->m[i] == 0 && params->v[i] == 0);
        }
    }
    ppo_params_free(params);
}

static void parameters_within_the_room_move_nothing(void **state) {
    (void)state;
    enum { N = 10, ROOM = N * 64 };
    ppo_params *params = NULL;
    ppo_tensor *t[N];
    char name[16];
    assert_ok(ppo_params_create(&params));
    assert_ok(ppo__params_reserve(params, ROOM));
    const float *data = params->data, *grad = params->grad, *m = params->m, *v = params->v;
    assert_true(params->count == 0 && params->capacity == ROOM);
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "p.%d", i);
        t[i] = ppo_params_add(params, name, 7, 9);
        mark(params, t[i], 100 * (float)i);
        assert_ok(ppo__params_reserve(params, ROOM / 2)); /* less than there is */
        assert_true(params->data == data && params->grad == grad && params->m == m && params->v == v);
        assert_true(params->count == (size_t)(i + 1) * 64 && params->capacity == ROOM);
    }
    assert_non_null(ppo_params_add(params, "one too many", 1, 1));
    assert_true(params->data != data && params->capacity == ROOM + 16);
    for (int i = 0; i < N; i++) check_marked(params, t[i], 100 * (float)i);
    ppo_params_free(params);
}

static void room_of_any_size_keeps_parameters_on_64_byte_boundaries(void **state) {
    (void)state;
    static const size_t rooms[] = {1, 15, 17, 100, 1001};
    for (int k = 0; k < COUNT(rooms); k++) {
        ppo_params *params = NULL;
        assert_ok(ppo_params_create(&params));
        assert_ok(ppo__params_reserve(params, rooms[k]));
        assert_true(params->capacity >= rooms[k]);
        ppo_tensor *t = ppo_params_add(params, "t", 1, 1);
        assert_int_equal((uintptr_t)t->data % 64, 0);
        assert_int_equal((uintptr_t)t->grad % 64, 0);
        ppo_params_free(params);
    }
}

static void room_that_is_not_there_is_refused_and_changes_nothing(void **state) {
    (void)state;
    heap h = {0, 0, -1, 0};
    ppo_params *params = NULL;
    ppo_set_allocator(heap_hook, &h);
    assert_ok(ppo_params_create(&params));
    ppo_tensor *a = ppo_params_add(params, "a", 3, 5);
    mark(params, a, 1);
    assert_fails(ppo__params_reserve(params, SIZE_MAX), PPO_ERROR_MEMORY, "memory");
    assert_fails(ppo__params_reserve(params, SIZE_MAX / 16 + 16), PPO_ERROR_MEMORY, "memory");
    h.fail_at = h.calls;
    assert_fails(ppo__params_reserve(params, 64), PPO_ERROR_MEMORY, "memory");
    assert_true(params->count == 16 && params->capacity == 16);
    check_marked(params, a, 1);
    assert_ok(ppo__params_reserve(params, 64));
    check_marked(params, a, 1);
    ppo_params_free(params);
    ppo_set_allocator(NULL, NULL);
    assert_int_equal(h.live, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_parameter_is_zero_named_and_of_its_shape),
        cmocka_unit_test(parameters_lie_in_one_block_on_64_byte_boundaries_with_zeros_between),
        cmocka_unit_test(parameters_do_not_overlap),
        cmocka_unit_test_teardown(a_refused_parameter_leaves_the_set_as_it_was, restore_allocator),
        cmocka_unit_test(orthogonal_matrix_times_its_transpose_is_gain_squared),
        cmocka_unit_test(orthogonal_init_repeats_for_a_stream_and_differs_between_draws),
        cmocka_unit_test(orthogonal_matrices_are_drawn_without_a_preferred_direction),
        cmocka_unit_test(orthogonal_init_refuses_what_is_missing),
        cmocka_unit_test(a_frozen_parameter_stays_frozen_when_the_set_grows),
        cmocka_unit_test(more_room_moves_all_that_is_there_and_is_zero_behind),
        cmocka_unit_test(parameters_within_the_room_move_nothing),
        cmocka_unit_test(room_of_any_size_keeps_parameters_on_64_byte_boundaries),
        cmocka_unit_test_teardown(room_that_is_not_there_is_refused_and_changes_nothing, restore_allocator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
