/* What a call says that got NULL where it needs something: which argument that was. */
#include "../ppo.h"
#include "../examples/companions/ppo_chat.h"
#include "../examples/companions/ppo_hub.h"
#include "../examples/envs/cartpole.h"

#include "test.h"

static void an_error_names_the_argument_that_is_null(void **state) {
    (void)state;
    float x[4] = {0, 1, 2, 3}, y[4] = {0};
    int token[2] = {0, 1};
    ppo_action action = {0};
    ppo_env env = cartpole_env();
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    assert_fails(ppo_agent_create(&env, &cfg, NULL), PPO_ERROR_ARGUMENT, "ppo_agent_create: agent is NULL");
    assert_ok(ppo_agent_create(&env, &cfg, &agent));
    assert_fails(ppo_act(NULL, NULL, NULL, NULL), PPO_ERROR_ARGUMENT, "ppo_act: agent is NULL");
    assert_fails(ppo_act(agent, NULL, NULL, &action), PPO_ERROR_ARGUMENT, "ppo_act: obs is NULL");
    assert_fails(ppo_act(agent, x, NULL, NULL), PPO_ERROR_ARGUMENT, "ppo_act: action is NULL");
    assert_fails(ppo_gae(x, x, NULL, NULL, NULL, 2, 2, 0.9f, 0.9f, y, NULL), PPO_ERROR_ARGUMENT,
                 "ppo_gae: next_value is NULL");
    assert_fails(ppo_gae(x, x, x, NULL, NULL, 2, 2, 0.9f, 0.9f, NULL, NULL), PPO_ERROR_ARGUMENT,
                 "ppo_gae: advantage is NULL");
    assert_fails(ppo_value_loss(x, NULL, x, NULL, 4, 0.2f, NULL, NULL), PPO_ERROR_ARGUMENT,
                 "ppo_value_loss: old_value is NULL");
    assert_fails(ppo_token_logp(x, NULL, 2, 2, 1, y, NULL), PPO_ERROR_ARGUMENT, "token is NULL");
    assert_fails(ppo_kl_estimate(x, x, 4, PPO_K3, NULL), PPO_ERROR_ARGUMENT, "ppo_kl_estimate: kl is NULL");
    assert_fails(ppo_init_orthogonal(NULL, 1, NULL), PPO_ERROR_ARGUMENT, "weight is NULL");
    ppo_actions actions = {0};
    assert_fails(ppo_act_many(agent, x, NULL, 1, NULL, NULL, &actions), PPO_ERROR_ARGUMENT,
                 "actions->discrete is NULL");
    ppo_tokens tokens = {0};
    assert_fails(ppo_tokens_add(NULL, token, 2, 0), PPO_ERROR_ARGUMENT, "tokens is NULL");
    assert_fails(ppo_tokens_add(&tokens, NULL, 2, 0), PPO_ERROR_ARGUMENT, "token is NULL");
    assert_fails(ppo_tokens_add_chat(&tokens, NULL, PPO_CHATML, NULL, 1, 0), PPO_ERROR_ARGUMENT,
                 "tokenizer is NULL");
    ppo_agent_free(agent);
}

static void an_operation_says_which_operand_is_null(void **state) {
    (void)state;
    const float data[4] = {0, 1, 2, 3};
    for (int second = 0; second < 2; ++second) {
        ppo_tape *tape = NULL;
        assert_ok(ppo_tape_create(&tape));
        ppo_tensor *x = ppo_tape_constant(tape, data, 2, 2);
        assert_null(ppo_tape_matmul(tape, second ? x : NULL, second ? NULL : x));
        check_fails(ppo_tape_status(tape), PPO_ERROR_ARGUMENT,
                    second ? "second operand is NULL" : "first operand is NULL", "matmul", __FILE__,
                    __LINE__);
        ppo_tape_free(tape);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_names_the_argument_that_is_null),
        cmocka_unit_test(an_operation_says_which_operand_is_null),
    };
    return cmocka_run_group_tests_name("traps_size", tests, NULL, NULL);
}
