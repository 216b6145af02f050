/* Section 5: what holds of every operation on a tape, those of the companions included: it survives the lack of memory
   at any place, adds no gradient where none is wanted, and refuses operands that do not fit. */
#include "../ppo.h"
#include "../examples/companions/ppo_conv.h"
#include "../examples/companions/ppo_methods.h"

#include "test.h"

enum { ROWS = 4, COLS = 6, INPUTS = 3, SIZE = 32 * 32 };

/* The operands of an operation: random numbers, with gradients. */
typedef struct bench {
    float data[INPUTS][SIZE], grad[INPUTS][SIZE];
    ppo_tensor x[INPUTS];
} bench;

static const int index_of_rows[ROWS] = {2, 0, 3, 1}, two_sequences[] = {0, 3, ROWS},
                 sizes_of_heads[] = {2, 4};
static const int choices[2 * ROWS] = {1, 3, 0, 2, 1, 0, 0, 1};
static const unsigned char some[ROWS] = {1, 1, 0, 1},
                           legal[ROWS * COLS] = {1, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1,
                                                 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1};
static const float old_numbers[ROWS * COLS] = {0.1f, -0.3f, 0.2f, 0.5f},
                                      actions[ROWS * COLS] = {0.4f, 0.1f, -0.9f};
static int four_tokens[] = {1, 2, 3, 1, 2, 3}, start_of_tokens[] = {0, 3, 6}, prompts[] = {1, 1};

static ppo_tensor *sum_of_both(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b) {
    return ppo_tape_add(tape, ppo_tape_sum(tape, a), ppo_tape_sum(tape, b));
}

#define OPERATION(name) static ppo_tensor *name(ppo_tape *tape, ppo_tensor *x, ppo_tensor *y, ppo_tensor *z)
OPERATION(sums) { return ppo_tape_mul(tape, ppo_tape_add(tape, x, y), ppo_tape_sub(tape, x, z)); }
OPERATION(quotients) {
    return ppo_tape_div(tape, ppo_tape_min(tape, x, y), ppo_tape_exp(tape, ppo_tape_max(tape, y, z)));
}
OPERATION(maps) {
    x = ppo_tape_clamp(tape, ppo_tape_scale(tape, x, 2, 0.1f), -1.5f, 1.5f);
    return ppo_tape_add(tape, ppo_tape_log(tape, ppo_tape_exp(tape, x)),
                        ppo_tape_add(tape, y, ppo_tape_square(tape, z)));
}
OPERATION(activations) {
    for (int k = PPO_IDENTITY; k < PPO__ACTIVATIONS; k++) x = ppo_tape_activate(tape, x, (ppo_activation)k);
    return ppo_tape_add(tape, x, ppo_tape_add(tape, y, z));
}
OPERATION(softmaxes) {
    x = ppo_tape_gather(tape, ppo_tape_log_softmax(tape, x), index_of_rows);
    y = ppo_tape_mean(tape, ppo_tape_log_softmax(tape, y));
    return ppo_tape_add(tape, ppo_tape_add(tape, x, ppo_tape_sum(tape, z)), y);
}
OPERATION(linear) { return ppo_tape_linear(tape, x, y, z, PPO_TANH); }
OPERATION(silu) { return ppo_tape_linear(tape, x, y, z, PPO_SILU); }
OPERATION(products) { return ppo_tape_matmul(tape, ppo_tape_matmul_transposed(tape, x, y), z); }
OPERATION(embedding) {
    return ppo_tape_mul(tape, ppo_tape_embedding(tape, x, index_of_rows, ROWS), ppo_tape_add(tape, y, z));
}
OPERATION(layer_norm) { return ppo_tape_layer_norm(tape, x, y, z, 1e-5f); }
OPERATION(rms_norm) { return ppo_tape_concat(tape, ppo_tape_rms_norm(tape, x, y, 1e-5f), z); }
OPERATION(glu) {
    return ppo_tape_add(tape, ppo_tape_glu(tape, x, PPO_SILU),
                        ppo_tape_glu(tape, ppo_tape_concat(tape, y, z), PPO_GELU));
}
OPERATION(detached) {
    return ppo_tape_add(tape, ppo_tape_mul(tape, ppo_tape_detach(tape, x), y), ppo_tape_add(tape, x, z));
}
OPERATION(gaussian) {
    ppo_tensor *logp, *entropy, *kl = ppo_tape_gaussian_kl(tape, old_numbers, old_numbers, x, y);
    ppo_tape_gaussian(tape, x, y, actions, &logp, &entropy);
    return ppo_tape_add(tape, ppo_tape_add(tape, kl, logp), sum_of_both(tape, entropy, z));
}
OPERATION(one_log_std) {
    ppo_tensor *logp, *kl = ppo_tape_gaussian_kl(tape, old_numbers, old_numbers, x, y);
    ppo_tape_gaussian(tape, x, y, actions, &logp, NULL);
    return ppo_tape_add(tape, ppo_tape_add(tape, kl, logp), ppo_tape_sum(tape, z));
}
OPERATION(categorical) {
    ppo_tensor *logp, *entropy;
    ppo_tape_categorical(tape, ppo_tape_mask(tape, x, legal), index_of_rows, 0.7f, &logp, &entropy);
    y = ppo_tape_sum(tape, ppo_tape_categorical_kl_to(tape, y, old_numbers, 0.9f));
    return ppo_tape_add(tape, ppo_tape_mul(tape, logp, entropy),
                        ppo_tape_add(tape, y, ppo_tape_sum(tape, z)));
}
OPERATION(several_choices) {
    ppo_tensor *logp, *entropy, *kl = ppo_tape_multi_categorical_kl(tape, old_numbers, sizes_of_heads, 2, y);
    ppo_tape_multi_categorical(tape, x, sizes_of_heads, 2, choices, &logp, &entropy);
    return ppo_tape_add(tape, ppo_tape_mul(tape, logp, entropy), sum_of_both(tape, kl, z));
}
/* More than the 64 rows whose softmax is kept together. */
OPERATION(many_choices) {
    static const int choice[2 * 70] = {1, 2};
    ppo_tensor *logp, *entropy;
    ppo_tape_multi_categorical(tape, x, sizes_of_heads, 2, choice, &logp, &entropy);
    return ppo_tape_add(tape, ppo_tape_mul(tape, logp, entropy), sum_of_both(tape, y, z));
}
OPERATION(losses) {
    static const ppo_policy_objective clip = {PPO_CLIP, 0.2f, 0.3f, 3, 0};
    ppo_policy_stats stats;
    x = ppo_tape_policy_loss(tape, x, old_numbers, actions, some, &clip, &stats);
    y = ppo_tape_value_loss(tape, y, old_numbers, actions, some, 0.2f, 1);
    return ppo_tape_add(tape, ppo_tape_add(tape, x, y), ppo_tape_sum(tape, z));
}
OPERATION(pairs) {
    ppo_tensor *loss = ppo_tape_dpo_loss(tape, x, y, old_numbers, actions, 0.1f, 0.05f);
    return ppo_tape_add(tape, loss, ppo_tape_pairwise_loss(tape, z, x));
}
OPERATION(attention) {
    const ppo_attention how = {2, 1, 2, 0};
    return ppo_tape_add(tape, ppo_tape_attention(tape, x, &how, two_sequences, 2), ppo_tape_mul(tape, y, z));
}
OPERATION(rotary) {
    static const float angle[ROWS * 2] = {1, 0, 0.8f, 0.6f, 0.6f, 0.8f, 0, 1};
    x = ppo_tape_rotary(tape, x, ppo_tape_constant(tape, angle, ROWS, 2), 2, 3);
    return ppo_tape_add(tape, x, ppo_tape_mul(tape, y, z));
}
OPERATION(sequence_sum) {
    ppo_tokens tokens = {0};
    static ppo_tokens kept;
    tokens.count = 2, tokens.token = four_tokens, tokens.start = start_of_tokens, tokens.prompt = prompts;
    kept = tokens;
    return ppo_tape_add(tape, ppo_tape_sequence_sum(tape, x, &kept), sum_of_both(tape, y, z));
}
OPERATION(convolution) {
    int shape[3] = {2, 4, 4};
    x = ppo_tape_conv(tape, ppo_tape_channels_last(tape, x, shape), shape, y, z, 2, 1, PPO_RELU);
    return ppo_tape_max_pool(tape, x, shape, 2, 1);
}

static const struct operation {
    const char *name;
    ppo_tensor *(*run)(ppo_tape *tape, ppo_tensor *x, ppo_tensor *y, ppo_tensor *z);
    int shape[INPUTS][2];
} operations[] = {{"sums", sums, {{ROWS, COLS}, {1, COLS}, {ROWS, 1}}},
                  {"quotients", quotients, {{ROWS, COLS}, {ROWS, COLS}, {1, 1}}},
                  {"maps", maps, {{ROWS, COLS}, {ROWS, COLS}, {ROWS, COLS}}},
                  {"activations", activations, {{ROWS, COLS}, {1, 1}, {1, 1}}},
                  {"softmaxes", softmaxes, {{ROWS, COLS}, {ROWS, COLS}, {1, 1}}},
                  {"linear", linear, {{ROWS, COLS}, {COLS, 5}, {1, 5}}},
                  {"silu", silu, {{ROWS, COLS}, {COLS, 5}, {1, 5}}},
                  {"products", products, {{ROWS, COLS}, {5, COLS}, {5, 3}}},
                  {"embedding", embedding, {{5, COLS}, {ROWS, COLS}, {1, COLS}}},
                  {"layer_norm", layer_norm, {{ROWS, COLS}, {1, COLS}, {1, COLS}}},
                  {"rms_norm", rms_norm, {{ROWS, COLS}, {1, COLS}, {ROWS, 3}}},
                  {"glu", glu, {{ROWS, COLS}, {ROWS, 3}, {ROWS, 3}}},
                  {"detached", detached, {{ROWS, COLS}, {ROWS, COLS}, {1, 1}}},
                  {"gaussian", gaussian, {{ROWS, COLS}, {ROWS, COLS}, {1, 1}}},
                  {"one_log_std", one_log_std, {{ROWS, COLS}, {1, COLS}, {1, 1}}},
                  {"categorical", categorical, {{ROWS, COLS}, {ROWS, COLS}, {1, 1}}},
                  {"several_choices", several_choices, {{ROWS, COLS}, {ROWS, COLS}, {1, 1}}},
                  {"many_choices", many_choices, {{70, COLS}, {1, 1}, {1, 1}}},
                  {"losses", losses, {{ROWS, 1}, {ROWS, 1}, {1, 1}}},
                  {"pairs", pairs, {{ROWS, 1}, {ROWS, 1}, {ROWS, 1}}},
                  {"attention", attention, {{ROWS, 8}, {ROWS, 4}, {1, 4}}},
                  {"rotary", rotary, {{ROWS, COLS}, {ROWS, COLS}, {1, 1}}},
                  {"sequence_sum", sequence_sum, {{4, 1}, {1, 1}, {1, 1}}},
                  {"convolution", convolution, {{ROWS, 32}, {8, 3}, {1, 3}}}};

static void fill_bench(bench *b, const struct operation *o) {
    ppo_rng rng = test_rng(3);
    memset(b, 0, sizeof *b);
    for (int k = 0; k < INPUTS; k++) {
        const ppo_tensor x = {o->shape[k][0], o->shape[k][1], b->data[k], b->grad[k]};
        fill_normal(&rng, b->data[k], SIZE, 0.7f);
        b->x[k] = x;
    }
}

static ppo_status run_operation(bench *b, const struct operation *o) {
    ppo_tape *tape = NULL;
    ppo_status status = ppo_tape_create(&tape);
    if (!status) {
        ppo_tensor *y = o->run(tape, &b->x[0], &b->x[1], &b->x[2]);
        status = ppo_tape_backward(tape, ppo_tape_sum(tape, ppo_tape_square(tape, y)));
    }
    ppo_tape_free(tape);
    return status;
}

static ppo_status run_anew(void *user) {
    static bench b;
    const struct operation *o = (const struct operation *)user;
    fill_bench(&b, o);
    return run_operation(&b, o);
}

static void an_operation_without_memory_says_so(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(operations); i++)
        assert_true(fail_each_site(run_anew, (void *)&operations[i], 1) > 2);
}

/* Each gradient is the same whether or not those of other operands are wanted. */
static void a_gradient_that_is_not_wanted_changes_no_other(void **state) {
    (void)state;
    static bench all, part;
    for (int i = 0; i < COUNT(operations); i++)
        for (int wanted = 1; wanted < 1 << INPUTS; wanted++) {
            fill_bench(&all, &operations[i]), fill_bench(&part, &operations[i]);
            for (int k = 0; k < INPUTS; k++)
                if (!(wanted >> k & 1)) part.x[k].grad = NULL;
            assert_ok(run_operation(&all, &operations[i]));
            assert_ok(run_operation(&part, &operations[i]));
            for (int k = 0; k < INPUTS; k++)
                for (int j = 0; j < SIZE; j++) {
                    if (part.grad[k][j] == (wanted >> k & 1 ? all.grad[k][j] : 0)) continue;
                    fail_msg("%s: operand %d, gradient[%d] is %g, %g if all are wanted (wanted: %d)",
                             operations[i].name, k, j, (double)part.grad[k][j], (double)all.grad[k][j],
                             wanted);
                }
        }
}

/* A NULL operand, which an earlier failure leaves, passes through; so does a NULL tape, whose status is an error. */
static void an_operation_on_nothing_is_nothing(void **state) {
    (void)state;
    static bench b;
    for (int i = 0; i < COUNT(operations); i++)
        for (int missing = 0; missing < 3; missing++) {
            ppo_tape *tape = NULL;
            if (missing < 2) assert_ok(ppo_tape_create(&tape));
            fill_bench(&b, &operations[i]);
            assert_null(operations[i].run(tape, missing == 0 ? NULL : &b.x[0], missing == 1 ? NULL : &b.x[1],
                                          &b.x[2]));
            if (!tape) assert_fails(ppo_tape_status(tape), PPO_ERROR_ARGUMENT, "NULL");
            ppo_tape_free(tape);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(an_operation_without_memory_says_so, restore_allocator),
        cmocka_unit_test(a_gradient_that_is_not_wanted_changes_no_other),
        cmocka_unit_test(an_operation_on_nothing_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
