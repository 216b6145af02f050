/* What the comments of ppo.h and its companions say of defaults. defaults.awk makes the rows of them. */
#include "../ppo.h"

#include "../examples/companions/ppo_chat.h"
#include "../examples/companions/ppo_hub.h"
#include "../examples/companions/ppo_teach.h"
#include "test.h"

#include <math.h>

static int rows;

static void is(const char *what, double x, double said) {
    rows++;
    if (fabs(x - said) > 1e-6 * fabs(said)) fail_msg("%s is %g, the comment says %g", what, x, said);
}

static void says(const ppo_settings *settings, const void *config, const char *name, const char *said) {
    char text[64];
    rows++;
    assert_ok(ppo_settings_get(settings, config, name, text, sizeof text));
    for (int i = 0; text[i]; i++)
        if (text[i] >= 'a' && text[i] <= 'z' && said[i] == text[i] - 'a' + 'A') text[i] = said[i];
    if (strcmp(text, said)) fail_msg("%s is %s, the comment says %s", name, text, said);
}

#define ppo_fit_config_settings  ppo_fit_settings
#define ppo_lm_config_settings   ppo_lm_settings
#define ppo_rlhf_config_settings ppo_rlhf_settings
#define IS(type, field, said)    is(#type "." #field, (double)type##_default().field, said);
#define SAYS(type, field, said)                    \
    {                                              \
        const type x = type##_default();           \
        says(type##_settings(), &x, #field, said); \
    }
#define POINTS_NOWHERE(type, field) is(#type "." #field, type##_default().field != NULL, 0);

static void defaults_are_those_of_the_comments(void **state) {
    (void)state;
#include "../build/abuse/defaults.h"
    if (rows < 240) fail_msg("%d defaults alone were found", rows);
}

/* Of a struct within another. */
static void defaults_within_defaults_are_the_same(void **state) {
    (void)state;
    const ppo_rlhf_config c = ppo_rlhf_config_default();
    const ppo_policy_objective o = ppo_policy_objective_default();
    const ppo_sampling s = ppo_sampling_default();
    const ppo_settings *names = ppo_sampling_settings();
    assert_int_equal(c.objective.objective, o.objective);
    assert_true(c.objective.clip_low == o.clip_low && c.objective.clip_high == o.clip_high);
    assert_true(c.objective.dual_clip == o.dual_clip && c.objective.kl_coef == o.kl_coef);
    for (int i = 0; i < names->count; i++) {
        char a[64], b[64];
        assert_ok(ppo_settings_get(names, &c.sampling, names->field[i].name, a, sizeof a));
        assert_ok(ppo_settings_get(names, &s, names->field[i].name, b, sizeof b));
        assert_string_equal(a, b);
    }
}

static void the_most_that_a_setting_may_be_is_taken(void **state) {
    (void)state;
    static const struct {
        int rlhf;
        const char *name;
        int most;
    } cases[] = {{0, "num_envs", 1 << 16},
                 {0, "rollout_steps", 1 << 24},
                 {0, "epochs", 10000},
                 {0, "minibatch_size", 1 << 30},
                 {0, "sequence_steps", 1 << 24},
                 {0, "gsde_steps", 1 << 24},
                 {0, "self_play", 1024},
                 {0, "snapshot_every", 1000000000},
                 {0, "threads", 1024},
                 {1, "prompts", 1 << 24},
                 {1, "samples", 1 << 24},
                 {1, "slots", 1 << 16},
                 {1, "refills", 1000},
                 {1, "epochs", 10000},
                 {1, "shards", 1024}};
    for (int i = 0; i < COUNT(cases); i++) {
        const ppo_settings *settings = cases[i].rlhf ? ppo_rlhf_settings() : ppo_config_settings();
        ppo_rlhf_config rlhf = ppo_rlhf_config_default();
        ppo_config config = ppo_config_default();
        void *c = cases[i].rlhf ? (void *)&rlhf : &config;
        char number[32];
        snprintf(number, sizeof number, "%d", cases[i].most);
        assert_ok(ppo_settings_set(settings, c, cases[i].name, number));
        snprintf(number, sizeof number, "%d", cases[i].most + 1);
        assert_fails(ppo_settings_set(settings, c, cases[i].name, number), PPO_ERROR_ARGUMENT, cases[i].name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_comments),
        cmocka_unit_test(defaults_within_defaults_are_the_same),
        cmocka_unit_test(the_most_that_a_setting_may_be_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
