/* What holds of every operation on a device: gradients are those of the processor, whichever of them are wanted; it survives
   the lack of memory at any place, of the host or of the device; and what the device cannot compute is refused. */
#include "cuda_test.h"

#include <string>

enum { MOST = 3 };

struct matrix {
    int rows, cols;
};

typedef ppo_tensor *(*operation_fn)(ppo_tape *tape, ppo_tensor *const *x);
struct operation {
    const char *name;
    operation_fn run;
    int count;
    matrix shape[MOST];
};

static const int row_of[5] = {2, 0, 3, 1, 2}, token_of[4] = {3, 0, 1, 2}, starts[] = {0, 3, 4};
static float reference[4 * 1100], angles[4 * 4];

#define OPERATION(name) static ppo_tensor *name(ppo_tape *tape, ppo_tensor *const *x)
OPERATION(add_and_scale) { return ppo_tape_add(tape, ppo_tape_scale(tape, x[0], 2, 1), x[1]); }
OPERATION(products) { return ppo_tape_mul(tape, ppo_tape_exp(tape, x[0]), ppo_tape_square(tape, x[1])); }
OPERATION(linear) { return ppo_tape_linear(tape, x[0], x[1], x[2], PPO_SILU); }
OPERATION(transposed) { return ppo_tape_matmul_transposed(tape, x[0], x[1]); }
OPERATION(embedding) { return ppo_tape_mul(tape, ppo_tape_embedding(tape, x[0], row_of, 5), x[1]); }
OPERATION(layer_norm) { return ppo_tape_layer_norm(tape, x[0], x[1], x[2], 1e-5f); }
OPERATION(rms_norm) { return ppo_tape_rms_norm(tape, x[0], x[1], 1e-5f); }
OPERATION(glu) { return ppo_tape_glu(tape, x[0], PPO_GELU); }
OPERATION(rotary) { return ppo_tape_rotary(tape, x[0], ppo_tape_constant(tape, angles, 4, 4), 2, 4); }
OPERATION(attention) {
    const ppo_attention how = {2, 1, 2, 0};
    return ppo_tape_attention(tape, x[0], &how, starts, 2);
}
OPERATION(categorical) {
    ppo_tensor *logp, *entropy;
    ppo_tape_categorical(tape, x[0], token_of, 0.7f, &logp, &entropy);
    return ppo_tape_add(tape, ppo_tape_mul(tape, logp, entropy), entropy);
}
OPERATION(kl_to) {
    float *there =
        (float *)ppo__tape_write(tape, reference, (size_t)x[0]->rows * x[0]->cols * sizeof *reference);
    return ppo_tape_categorical_kl_to(tape, x[0], there, 0.8f);
}

static const operation operations[] = {{"add and scale", add_and_scale, 2, {{4, 6}, {4, 6}}},
                                       {"products", products, 2, {{4, 6}, {4, 6}}},
                                       {"linear", linear, 3, {{4, 6}, {6, 5}, {1, 5}}},
                                       {"transposed", transposed, 2, {{4, 6}, {5, 6}}},
                                       {"embedding", embedding, 2, {{4, 6}, {5, 6}}},
                                       {"layer_norm", layer_norm, 3, {{4, 6}, {1, 6}, {1, 6}}},
                                       {"long layer_norm", layer_norm, 3, {{4, 1100}, {1, 1100}, {1, 1100}}},
                                       {"rms_norm", rms_norm, 2, {{4, 6}, {1, 6}}},
                                       {"glu", glu, 1, {{4, 6}}},
                                       {"rotary", rotary, 1, {{4, 8}}},
                                       {"attention", attention, 1, {{4, 8}}},
                                       {"attention of 40", attention, 1, {{4, 160}}},
                                       {"attention of 100", attention, 1, {{4, 400}}},
                                       {"attention of 200", attention, 1, {{4, 800}}},
                                       {"categorical", categorical, 1, {{4, 6}}},
                                       {"kl_to", kl_to, 1, {{4, 6}}},
                                       {"long kl_to", kl_to, 1, {{4, 1100}}},
                                       {"long categorical", categorical, 1, {{4, 1100}}}};

/* Parameters of these shapes; the gradients of those that are not wanted are NULL. */
static ppo_status make_params(const operation &o, int wanted, ppo_params **params) {
    ppo_rng rng = test_rng(4);
    ppo_status status = ppo_params_create(params);
    for (int k = 0; k < o.count && !status; k++) {
        const std::string name = "w" + std::to_string(k);
        ppo_tensor *w = ppo_params_add(*params, name.c_str(), o.shape[k].rows, o.shape[k].cols);
        if (!w) return PPO_ERROR_MEMORY;
        fill_normal(&rng, w->data, w->rows * w->cols, 0.7f);
    }
    for (int k = 0; k < o.count && !status; k++)
        if (!(wanted >> k & 1)) (*params)->tensors[k]->grad = NULL;
    return status;
}

/* The gradients of the mean square of an operation's result, on the device in use or the processor. */
static ppo_status differentiate(const operation &o, ppo_params *params) {
    ppo_tape *tape = NULL;
    ppo_status status = ppo__tape_create_on(ppo__device_in_use, &tape);
    if (!status) status = ppo__params_place(params, ppo__device_in_use);
    if (!status) {
        ppo_tensor *y = o.run(tape, params->tensors);
        ppo_params_zero_grad(params);
        status = ppo_tape_backward(tape, ppo_tape_mean(tape, ppo_tape_square(tape, y)));
    }
    if (!status) status = ppo__tape_settle(tape);
    ppo_tape_free(tape);
    return status;
}

static void gradients_are_those_of_the_processor_whichever_are_wanted(void **state) {
    (void)state;
    for (int i = 0; i < 16; i++) angles[i] = i % 4 < 2 ? 0.8f : 0.6f;
    for (const operation &o : operations)
        for (int wanted = 1; wanted < 1 << o.count; wanted++) {
            ppo_params *params[2] = {NULL, NULL};
            for (int there = 0; there < 2; there++) {
                assert_ok(make_params(o, wanted, &params[there]));
                if (there) assert_ok(ppo_use_cuda(0));
                assert_ok(differentiate(o, params[there]));
            }
            std::vector<float> got(params[1]->count);
            const size_t size = params[1]->count * sizeof(float);
            ppo__mirror *mirror = ppo__mirror_of(params[1]);
            assert_non_null(mirror);
            mirror->device->read(mirror->device, got.data(), mirror->grad, size);
            assert_ok(mirror->device->settle(mirror->device));
            for (int k = 0; k < o.count; k++) {
                const ppo_tensor *w = params[0]->tensors[k];
                const size_t at = (size_t)(w->data - params[0]->data);
                for (int j = 0; j < w->rows * w->cols; j++) {
                    const float want = w->grad ? w->grad[j] : 0;
                    if (std::abs(got[at + j] - want) > 1e-4f * std::max(1.0f, std::abs(want)))
                        fail_msg("%s, wanted %d: gradient[%d] of operand %d is %g, not %g", o.name, wanted, j,
                                 k, (double)got[at + j], (double)want);
                }
            }
            assert_ok(ppo_use_cuda(-1));
            for (ppo_params *p : params) ppo_params_free(p);
        }
}

/* -- what the device cannot compute -- */

static ppo_status nothing_forward(ppo_node *node) { return (void)node, PPO_OK; }

static void what_the_device_cannot_compute_is_refused(void **state) {
    (void)state;
    static const ppo_op own = {"own", 1, nothing_forward, NULL};
    static const int heads[] = {2, 4}, choice[8] = {0, 1, 1, 2, 0, 3, 1, 0};
    static const operation two = {"two", NULL, 2, {{4, 6}, {1, 6}}};
    ppo_params *params = NULL;
    ppo_tape *tape = NULL;
    ppo_tensor *logp = NULL;
    assert_ok(make_params(two, 3, &params));
    assert_ok(ppo_use_cuda(0));
    assert_ok(ppo__tape_create_on(ppo__device_in_use, &tape));
    assert_ok(ppo__params_place(params, ppo__device_in_use));
    ppo_tensor *a = params->tensors[0], *row = params->tensors[1];
    struct {
        ppo_tensor *(*run)(ppo_tape *, ppo_tensor *, ppo_tensor *);
        const char *words;
    } cases[] = {{[](ppo_tape *t, ppo_tensor *x, ppo_tensor *) { return ppo_tape_sub(t, x, x); },
                  "does not know the operation \"sub\""},
                 {[](ppo_tape *t, ppo_tensor *x, ppo_tensor *y) { return ppo_tape_mul(t, x, y); },
                  "does not know the operation \"mul\" of these shapes"},
                 {[](ppo_tape *t, ppo_tensor *x, ppo_tensor *y) { return ppo_tape_add(t, x, y); },
                  "does not know the operation \"add\" of these shapes"},
                 {[](ppo_tape *t, ppo_tensor *x, ppo_tensor *) { return ppo_tape_log(t, x); },
                  "does not know the operation \"log\""},
                 {[](ppo_tape *t, ppo_tensor *x, ppo_tensor *) { return ppo_tape_concat(t, x, x); },
                  "the device does not know the operation \"concat\""},
                 {[](ppo_tape *t, ppo_tensor *x, ppo_tensor *) {
                      return ppo_tape_result(ppo_tape_apply(t, &own, &x, 1, 1, 1, NULL, 0));
                  },
                  "the device does not know the operation \"own\""}};
    for (auto &c : cases) {
        assert_null(c.run(tape, a, row));
        assert_fails(ppo_tape_status(tape), PPO_ERROR_ARGUMENT, c.words);
        ppo_tape_reset(tape);
    }
    ppo_tape_multi_categorical(tape, a, heads, 2, choice, &logp, NULL);
    assert_fails(ppo_tape_status(tape), PPO_ERROR_ARGUMENT,
                 "categorical: 2 choices at once, must be 1 on the device");
    ppo_tape_free(tape);
    assert_ok(ppo_use_cuda(-1));
    ppo_params_free(params);
}

#ifndef __CUDACC__
/* -- without memory -- */

static ppo_status run_there(void *user) {
    const operation &o = *(const operation *)user;
    ppo_params *params = NULL;
    ppo_status status = make_params(o, ~0, &params);
    if (!status) status = ppo_use_cuda(0);
    if (!status) status = differentiate(o, params);
    char error[PPO__ERROR_SIZE];
    memcpy(error, ppo__error, sizeof error);
    ppo_params_free(params);
    const ppo_status back = ppo_use_cuda(-1);
    if (status) memcpy(ppo__error, error, sizeof error);
    return status ? status : back;
}

/* Neither on the host, nor on the device, where each call that asks for some fails in turn. */
static void an_operation_without_memory_says_so(void **state) {
    (void)state;
    for (const operation &o : operations) {
        if (!strncmp(o.name, "long", 4) || strstr(o.name, " of ")) continue;
        assert_true(fail_each_site(run_there, (void *)&o, 1) > 2);
        test_page_size = 1;
        emulation.calls = 0;
        assert_ok(run_there((void *)&o));
        const long calls = emulation.calls;
        for (long k = 0; k < calls; k += SMALL(1, 2)) {
            emulation.fail_at = k;
            emulation.error = cudaErrorMemoryAllocation;
            ppo_fail(PPO_OK, "(no sentence)");
            const ppo_status status = run_there((void *)&o);
            emulation.fail_at = -1, emulated::last_error = cudaSuccess;
            if (emulation.live)
                fail_msg("%s: %ld things are left after call %ld failed", o.name, emulation.live, k);
            if (status && (status != PPO_ERROR_MEMORY || !strcmp(ppo_last_error(), "(no sentence)")))
                fail_msg("%s: status %d after call %ld failed: %s", o.name, status, k, ppo_last_error());
        }
        test_page_size = 16 * 1024;
    }
}
#endif

static int start(void **state) {
    (void)state;
    emulate();
    return 0;
}

static int finish(void **state) { return restore_allocator(state) || ppo_use_cuda(-1) || leaks(); }

int main(void) {
#define on_both(test) cmocka_unit_test_setup_teardown(test, start, finish)
    const struct CMUnitTest tests[] = {
        on_both(gradients_are_those_of_the_processor_whichever_are_wanted),
        on_both(what_the_device_cannot_compute_is_refused),
#ifndef __CUDACC__
        on_both(an_operation_without_memory_says_so),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
