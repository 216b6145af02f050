/* ppo_hub.h: rotary positions with YaRN's scaling. */
#include "../ppo.h"
#include "../examples/companions/ppo_hub.h"

#include "golden/yarn.h"
#include "test.h"

static void angles_are_those_of_transformers(void **state) {
    (void)state;
    for (int i = 0; i < g_yarn_cases; i++) {
        ppo_lm_config config = ppo_lm_config_default();
        ppo_lm *lm = NULL;
        assert_ok(ppo_lm_config_family(&config, "llama"));
        config.vocab = 5, config.width = 32, config.heads = 2, config.layers = 1, config.context = 256;
        config.rope_scaling = PPO_ROPE_YARN;
        config.rope_factor = g_yarn_factor[i];
        config.rope_context = (int)g_yarn_original_max_position_embeddings[i];
        config.rope_high = g_yarn_beta_fast[i], config.rope_low = g_yarn_beta_slow[i];
        assert_ok(ppo_lm_create(&config, &lm));
        for (int p = 0; p < g_yarn_positions; p++)
            assert_close_array(lm->rotary + g_yarn_position[p] * g_yarn_columns,
                               g_yarn_angles + (i * g_yarn_positions + p) * g_yarn_columns, g_yarn_columns,
                               1e-5);
        ppo_lm_free(lm);
    }
}

static void a_ramp_of_no_width_is_refused(void **state) {
    (void)state;
    ppo_lm_config config = ppo_lm_config_default();
    ppo_lm *lm = NULL;
    config.vocab = 5, config.positions = PPO_ROTARY, config.rope_scaling = PPO_ROPE_YARN;
    config.rope_low = config.rope_high = 2;
    assert_fails(ppo_lm_create(&config, &lm), PPO_ERROR_ARGUMENT, "rope_low is 2, must be below rope_high");
    assert_null(lm);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(angles_are_those_of_transformers),
        cmocka_unit_test(a_ramp_of_no_width_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
