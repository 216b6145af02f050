/* The symptoms of a training, each a little below its threshold and a little above, and which of several is told. That
   sick tasks show them, and sound ones do not, is in test_traps_doctor.c. */
#define PPO_NO_LANGUAGE
#define PPO_NO_REPORTS
#define PPO_IMPLEMENTATION
#include "../ppo.h"

#include "test.h"

enum { SEEN = 3 };

/* A run that has no symptom. */
static ppo_env env;
static ppo_config config;
static ppo_progress progress;
static ppo__feature feature[SEEN];
static ppo__signs signs;

/* A number of the observation, over 100 samples. */
static ppo__feature spread(float mean, float std) {
    const ppo__feature f = {mean, mean - 2 * std, mean + 2 * std, 0, 100 * (double)std * std};
    return f;
}

static void be_sound(void) {
    memset(&env, 0, sizeof env);
    memset(&progress, 0, sizeof progress);
    memset(&signs, 0, sizeof signs);
    env.obs_size = SEEN, env.action_space = ppo_discrete(3), env.max_steps = 100;
    env.reset = walk_reset, env.step = walk_step;
    config = ppo_config_default();
    for (int j = 0; j < SEEN; j++) feature[j] = spread(0, 1);
    signs.env = &env, signs.config = &config, signs.progress = &progress, signs.feature = feature;
    signs.seen = 100, signs.steps = 10000, signs.ends = 100, signs.paid = 100, signs.largest = 1;
    signs.looked = signs.full = 1, signs.in_step = -1;
    signs.target = signs.error = signs.grad_norm = signs.varies = 1, signs.kl = 0.01, signs.clipped = 0.1;
    signs.entropy = 0.5, signs.first_entropy = 1, signs.first_return = 10, signs.first_length = 100;
    signs.gradients = 7;
    progress.iteration = 10, progress.total_steps = 100000, progress.steps = 50000, progress.episodes = 1000;
    progress.gradient_steps = 2000, progress.mean_return = 100, progress.mean_length = 100, progress.std = 1;
}

/* Two numbers of this mean and spread, and a narrow one around 0. */
static void all(float mean, float std, float narrow) {
    feature[0] = feature[1] = spread(mean, std), feature[2] = spread(0, narrow);
}

/* The symptoms that are causes; all others are effects. */
static int is_cause(const char *name) {
    static const char *const causes[] = {"obs-constant", "obs-far", "obs-memory",     "obs-tiny",
                                         "obs-small",    "box-far", "std-small",      "reward-none",
                                         "reward-large", "no-end",  "few-iterations", "in-step"};
    for (int i = 0; i < COUNT(causes); i++)
        if (!strcmp(name, causes[i])) return 1;
    return 0;
}

static void check_shown(const char *name, const char *change, int line) {
    const ppo__symptom found = ppo__diagnose(&signs, 0);
    const char *shown = found.row < 0 ? "" : found.name;
    if (!strcmp(shown, name) && found.effect == (*name && !is_cause(name))) return;
    print_error("%s: \"%s\" is shown, effect %d, not \"%s\"\n", change, shown, found.effect, name);
    _fail(__FILE__, line);
}
/* Of a sound run with this change, the symptom that is shown ("": none). */
#define SHOWS(name, change)         (be_sound(), (void)(change), check_shown(name, #change, __LINE__))
#define BETWEEN(name, below, above) (SHOWS("", below), SHOWS(name, above))

static void box(float low, float high) { env.action_space = ppo_box(2, low, high); }
static void plays(void) { progress.iteration = 0; }
static void rises(void) { /* the return, from -100 to -50, as episodes get shorter */
    signs.first_return = -100, progress.mean_return = -50, progress.mean_length = 50;
}

static void a_sound_run_has_no_symptom(void **state) {
    (void)state;
    SHOWS("", 0);
    SHOWS("", plays());
    SHOWS("", box(-1, 1));
    SHOWS("", (box(-1, 1), plays()));
}

static void observations_show_where_they_are_too_large_or_too_small(void **state) {
    (void)state;
    BETWEEN("obs-far", feature[1] = spread(10, 0), feature[1] = spread(10.1f, 1));
    BETWEEN("obs-far", feature[2] = spread(-7, 7), feature[2] = spread(-7.2f, 7.2f));
    SHOWS("", (feature[1] = spread(20, 1), config.normalize_obs = 1));
    SHOWS("", (feature[1] = spread(20, 1), signs.looked = 0));
    BETWEEN("obs-far", (feature[1] = spread(20, 1), signs.seen = 1),
            (feature[1] = spread(20, 1), signs.seen = 2, signs.feature[1].squares = 2));
    for (int tiny = 0; tiny < 2; tiny++)
        for (int recurrent = 0; recurrent < 2; recurrent++) {
            const float size = (recurrent ? 0.3f : 0.02f) * (tiny ? 0.98f : 1.02f);
            be_sound();
            config.recurrent = recurrent;
            for (int j = 0; j < SEEN; j++) feature[j] = spread(0, j == 1 ? size : 0.8f * size);
            check_shown(!tiny       ? ""
                        : recurrent ? "obs-memory"
                                    : "obs-tiny",
                        recurrent ? "recurrent" : "", __LINE__);
        }
    /* one number varies less than a twentieth of the widest, or of the largest if that is below 1; by less than 0.1 */
    BETWEEN("obs-small", all(0, 0.3f, 0.0151f), all(0, 0.3f, 0.0149f));
    BETWEEN("obs-small", all(0.35f, 0.2f, 0.0245f), all(0.6f, 0.2f, 0.0245f));
    BETWEEN("obs-small", all(5, 2, 0.0255f), all(5, 2, 0.0245f));
    SHOWS("", feature[1] = spread(0.5f, 0)); /* one that never changes is left out */
}

static void the_sentence_names_the_number_that_is_worst(void **state) {
    (void)state;
    be_sound();
    feature[0] = spread(20, 1), feature[1] = spread(-30, 2), feature[2] = spread(15, 3);
    assert_non_null(strstr(ppo__diagnose(&signs, 0).sentence, "observation[1] is -30 +- 2, far"));
    be_sound();
    feature[0] = spread(0, 3), feature[1] = spread(1, 0.01f), feature[2] = spread(1, 0.001f);
    assert_non_null(strstr(ppo__diagnose(&signs, 0).sentence,
                           "observation[2] varies by 0.001 only, beside numbers of up to 3"));
    be_sound();
    for (int j = 0; j < SEEN; j++) feature[j] = spread(0, 0.001f * (float)(j + 1));
    assert_non_null(strstr(ppo__diagnose(&signs, 0).sentence, "within 0.003 of 0"));
}

static void constants(int n) {
    for (int j = 0; j < n; j++) feature[j] = spread(0.5f, 0);
}

static void an_observation_that_never_changes_is_told(void **state) {
    (void)state;
    BETWEEN("obs-constant", constants(SEEN - 1), constants(SEEN));
    BETWEEN("obs-constant", (constants(1), env.obs_size = 1), (constants(1), env.obs_size = 1, plays()));
    SHOWS("", (constants(SEEN), signs.looked = 0));
}

static void actions_show_where_a_policy_does_not_reach_them(void **state) {
    (void)state;
    BETWEEN("box-far", (box(-4, 4), config.scale_actions = PPO_SCALE_NO),
            (box(-4.1f, 4), config.scale_actions = PPO_SCALE_NO));
    BETWEEN("box-far", (box(-0.25f, 0.25f), config.scale_actions = PPO_SCALE_NO),
            (box(-0.25f, 0.24f), config.scale_actions = PPO_SCALE_NO));
    BETWEEN("box-far", (box(-1e18f, 1e18f), config.scale_actions = PPO_SCALE_NO),
            (box(-1e17f, 1e17f), config.scale_actions = PPO_SCALE_NO));
    SHOWS("box-far", (box(-0.24f, 1), config.scale_actions = PPO_SCALE_NO));
    SHOWS("box-far", (box(-1, 4.1f), config.scale_actions = PPO_SCALE_NO));
    SHOWS("", (box(-9, 9), config.scale_actions = PPO_SCALE_AUTO));
    SHOWS("", (box(-9, 9), config.scale_actions = PPO_SCALE_NO, config.squash = 1));
    BETWEEN("std-small", (box(-1, 1), config.log_std_init = -4.6f),
            (box(-1, 1), config.log_std_init = -4.61f));
    SHOWS("", (box(-1, 1), config.log_std_init = -5, config.gsde = 1));
    SHOWS("", config.log_std_init = -5); /* of choices */
}

static void rewards_and_ends_that_are_missing_are_told(void **state) {
    (void)state;
    BETWEEN("reward-none", signs.paid = 1, signs.paid = 0);
    BETWEEN("reward-large", signs.largest = 1e6, signs.largest = 1.01e6);
    BETWEEN("reward-large", (signs.target = 1e12, plays()), (signs.target = 1.02e12, plays()));
    SHOWS("", (signs.largest = 1e9, config.normalize_reward = 1));
    SHOWS("", signs.target = 1e13); /* of a critic, not of returns */
    BETWEEN("no-end", (env.max_steps = 0, signs.endless = 1000.0 * config.num_envs - 1),
            (env.max_steps = 0, signs.endless = 1000.0 * config.num_envs));
    BETWEEN("no-end",
            (env.max_steps = 0, progress.mean_length = 300, signs.endless = 2999.0 * config.num_envs),
            (env.max_steps = 0, progress.mean_length = 300, signs.endless = 3000.0 * config.num_envs));
    SHOWS("no-end",
          (env.max_steps = 0, progress.mean_length = NAN, signs.endless = 1000.0 * config.num_envs));
    SHOWS("", signs.endless = 1e6);
    SHOWS("no-end", (env.max_steps = 0, signs.ends = 0, plays()));
    SHOWS("", (env.max_steps = 0, signs.ends = 1, signs.endless = 1e6, plays()));
    be_sound();
    env.max_steps = 0, env.agents = 2, signs.endless = 4000;
    assert_non_null(strstr(ppo__diagnose(&signs, 0).sentence,
                           "in the last 1000 steps of each copy")); /* two copies of two agents */
    BETWEEN("in-step",
            (signs.in_step = 1, progress.total_steps = 1000000, config.num_envs = 31,
             progress.mean_length = 8 * 512 + 1),
            (signs.in_step = 1, progress.total_steps = 1000000, config.num_envs = 32,
             progress.mean_length = 8 * 512 + 1));
    SHOWS("", (signs.in_step = 1, progress.total_steps = 1000000, config.num_envs = 32,
               progress.mean_length = 8 * 512));
    SHOWS("", (signs.in_step = 0, progress.total_steps = 1000000, config.num_envs = 32,
               progress.mean_length = 8 * 512 + 1));
    BETWEEN("few-iterations", (config.num_envs = 16, progress.total_steps = 81920),
            (config.num_envs = 16, progress.total_steps = 81919));
    SHOWS("", (config.num_envs = 15, progress.total_steps = 1000)); /* a short try */
    SHOWS("", (config.num_envs = 16, progress.total_steps = 1000, plays()));
}

static void updates_that_go_wrong_are_told(void **state) {
    (void)state;
    BETWEEN("overflow", progress.grad_norm = 1e6f, progress.grad_norm = 1.01e6f);
    BETWEEN("overflow", progress.loss = -1e12f, progress.loss = -1.01e12f);
    BETWEEN("entropy-gone", signs.entropy = 1e-5, signs.entropy = 0.99e-5);
    SHOWS("", (signs.entropy = 0, signs.full = 0));
    SHOWS("", (signs.entropy = 0, env.action_space = ppo_discrete(1)));
    BETWEEN("std-gone", (box(-1, 1), progress.std = 1.01e-3f), (box(-1, 1), progress.std = 0.99e-3f));
    BETWEEN("std-gone", (box(-1, 1), progress.std = 0.51e-3f, config.log_std_init = logf(0.5f)),
            (box(-1, 1), progress.std = 0.49e-3f, config.log_std_init = logf(0.5f)));
    SHOWS("std-gone", (box(-1, 1), progress.std = 0.99e-3f, config.log_std_init = logf(2)));
    BETWEEN("std-high", (box(-1, 1), progress.std = 30), (box(-1, 1), progress.std = 30.1f));
    BETWEEN("std-high", (box(-1, 1), progress.std = 59.9f, config.log_std_init = logf(2)),
            (box(-1, 1), progress.std = 60.1f, config.log_std_init = logf(2)));
    SHOWS("", (box(-1, 1), progress.std = 100, signs.full = 0));
    SHOWS("", progress.std = 100);
    BETWEEN("entropy-high", (config.entropy_coef = 0.2f, signs.entropy = 0.95),
            (config.entropy_coef = 0.21f, signs.entropy = 0.95));
    BETWEEN("entropy-high", (config.entropy_coef = 1, signs.entropy = 0.9),
            (config.entropy_coef = 1, signs.entropy = 0.91));
    BETWEEN("entropy-high", (config.entropy_coef = 1, signs.entropy = 0.95, progress.steps = 33333),
            (config.entropy_coef = 1, signs.entropy = 0.95, progress.steps = 33334));
    BETWEEN("kl-stops", signs.stopped = 0.6, signs.stopped = 0.61);
    BETWEEN("gradient", signs.grad_norm = 2000, signs.grad_norm = 2001);
    SHOWS("", (signs.grad_norm = 1e5, config.use_critic = 0));
    SHOWS("", (signs.grad_norm = 1e5, config.max_grad_norm = 0));
    SHOWS("", (signs.grad_norm = 1e5, signs.full = 0));
    BETWEEN("critic", signs.error = 10, signs.error = 10.1);
    BETWEEN("clip", signs.clipped = 0.5, signs.clipped = 0.51);
    BETWEEN("clip", signs.kl = 3, signs.kl = 3.01);
}

static void still(void) {
    signs.kl = 0.9e-4, signs.clipped = 0.09, signs.entropy = signs.first_entropy - 0.0039;
}

static void a_policy_that_stays_random_is_told(void **state) {
    (void)state;
    BETWEEN("random", (still(), signs.kl = 1e-4), still());
    BETWEEN("random", (still(), signs.clipped = 0.1), still());
    BETWEEN("random", (still(), signs.entropy -= 0.0002), (still(), signs.entropy += 0.0077));
    BETWEEN("random", (still(), progress.iteration = 3), (still(), progress.iteration = 4));
    BETWEEN("random", (still(), progress.gradient_steps = 999), (still(), progress.gradient_steps = 1000));
    BETWEEN("random", (still(), progress.steps = 9999), (still(), progress.steps = 10000));
    BETWEEN("random", (still(), progress.total_steps = 499990, progress.steps = 49998),
            (still(), progress.total_steps = 499990, progress.steps = 49999));
    BETWEEN("random", (still(), progress.total_steps = 5000000, progress.steps = 49999),
            (still(), progress.total_steps = 5000000, progress.steps = 50000));
    SHOWS("", (still(), signs.full = 0));
    SHOWS("random", (still(), signs.entropy = signs.first_entropy + 0.0039));
    for (int large = 0; large < 2; large++) {
        SHOWS("random", (still(), signs.target = large ? 1.01e4 : 1e4));
        const char *sentence = ppo__diagnose(&signs, 0).sentence;
        assert_int_equal(strstr(sentence, "try normalize_reward=yes, higher learning_rate") != NULL, large);
        assert_int_equal(strstr(sentence, "try higher learning_rate, normalize_obs=yes") != NULL, !large);
    }
}

static void episodes_that_get_shorter_to_avoid_costs_are_told(void **state) {
    (void)state;
    BETWEEN("shorter", (rises(), signs.full = 0), rises());
    BETWEEN("shorter", (rises(), progress.episodes = 199), (rises(), progress.episodes = 200));
    BETWEEN("shorter", (rises(), progress.steps = 33333), (rises(), progress.steps = 33334));
    BETWEEN("shorter", (rises(), progress.mean_return = -25), (rises(), progress.mean_return = -25.1f));
    BETWEEN("shorter", (rises(), signs.first_return = -55.5f), (rises(), signs.first_return = -55.6f));
    BETWEEN("shorter", (rises(), progress.mean_length = 70), (rises(), progress.mean_length = 69.9f));
    /* steps do not all cost the same, here 50 / 50: the std is above a hundredth of that */
    BETWEEN("shorter", (rises(), signs.varies = 0.0099, signs.end_reward = -1),
            (rises(), signs.varies = 0.0101, signs.end_reward = -1));
    BETWEEN("shorter", (rises(), signs.end_reward = 0.51), (rises(), signs.end_reward = 0.49));
    BETWEEN("shorter", (signs.first_return = 100, progress.mean_return = 20, progress.mean_length = 50),
            rises());
}

static void check_says(const char *sentence, const char *change, int line) {
    const ppo__symptom found = ppo__diagnose(&signs, 0);
    if (!strcmp(found.sentence, sentence)) return;
    print_error("%s: \"%s\" is said, not \"%s\"\n", change, found.sentence, sentence);
    _fail(__FILE__, line);
}
/* Of a sound run with this change, what is said. */
#define SAYS(change, sentence) (be_sound(), (void)(change), check_says(sentence, #change, __LINE__))

static void each_sentence_has_its_numbers_in_their_order(void **state) {
    (void)state;
    SAYS((constants(SEEN), signs.steps = 1234), "the observation never changed in 1234 steps");
    SAYS((box(-3, 8), config.scale_actions = PPO_SCALE_NO),
         "scale_actions is no, and actions go from -3 to 8, but a new policy's are near 0, +-1: try "
         "scale_actions=auto");
    SAYS((box(-1, 1), config.log_std_init = -5), "actions begin with a standard deviation of 0.0067 only: "
                                                 "nothing else is tried: try higher log_std_init");
    SAYS((signs.paid = 0, signs.steps = 1234),
         "no reward came in 1234 steps: there is nothing to learn from");
    SAYS((signs.largest = 2e6, signs.target = 9e8),
         "rewards reach 2e+06, discounted returns 3e+04: try normalize_reward=yes, other units");
    SAYS((env.max_steps = 0, signs.endless = 16000),
         "no episode ended in the last 4000 steps of each copy, so no return is known: try env.max_steps");
    SAYS((env.max_steps = 0, env.reset = NULL, env.step = NULL, signs.endless = 16000),
         "no episode ended in the last 4000 steps of each copy, so no return is known: try outcome.truncated "
         "now and then");
    SAYS((config.num_envs = 64, progress.total_steps = 300000),
         "the run has 10 iterations only, as each of them takes 32768 steps: try lower rollout_steps, more "
         "total_steps");
    SAYS((signs.in_step = 1, config.num_envs = 40, progress.total_steps = 1000000, config.rollout_steps = 8,
          progress.mean_length = 99),
         "all 40 copies are at the same step of 99, and a rollout sees 8 of them: try a random first step in "
         "the "
         "first reset(), higher rollout_steps");
    SAYS((progress.grad_norm = 2e6f, progress.loss = 3), "the loss is 3, its gradient 2e+06: near overflow: "
                                                         "try normalize_reward=yes, normalize_obs=yes, lower "
                                                         "learning_rate");
    SAYS((box(-1, 1), progress.std = 5e-4f),
         "the standard deviation of actions fell to 0.0005: nothing else is tried: try lower learning_rate, "
         "target_kl=0.02, entropy_coef=0.001");
    SAYS((box(-1, 1), progress.std = 40, config.entropy_coef = 0.1f),
         "the standard deviation of actions rose to 40: it is noise: try lower entropy_coef, lower "
         "learning_rate, "
         "target_kl=0.02");
    SAYS((config.entropy_coef = 1, signs.entropy = 0.95),
         "the entropy is 0.950, once 1.000: the bonus keeps the policy near random: try lower entropy_coef");
    SAYS((signs.stopped = 0.7, config.target_kl = 0.01f),
         "target_kl ends most iterations in their first epoch, this one after 7 gradient steps: try lower "
         "learning_rate, higher target_kl");
    SAYS((signs.grad_norm = 3000, progress.grad_norm = 2500),
         "the gradient's norm is 2.5e+03, max_grad_norm 0.5: the critic takes all of it: try "
         "normalize_reward=yes, "
         "huber_delta=1, lower value_coef");
    SAYS(signs.error = 20, "the critic's squared error is 20 times that of a critic that says 0: try "
                           "normalize_reward=yes, lower learning_rate");
    SAYS((signs.clipped = 0.75, progress.approx_kl = 0.25f),
         "75 % of the ratios left the clip range, and the KL is 0.25: try lower learning_rate, fewer epochs, "
         "target_kl=0.02");
    SAYS((rises(), signs.first_length = 99),
         "the return rose from -100 to -50 as episodes got shorter (50 steps, "
         "once 99): to avoid costs?");
}

/* Causes come before effects, in the order of the table; a search goes on behind what it found. */
static void the_first_symptom_is_found_and_then_the_next(void **state) {
    (void)state;
    be_sound();
    feature[1] = spread(20, 1), signs.paid = 0, signs.error = 11;
    ppo__symptom found = ppo__diagnose(&signs, 0);
    assert_string_equal(found.name, "obs-far");
    assert_int_equal(found.effect, 0);
    found = ppo__diagnose(&signs, found.row + 1);
    assert_string_equal(found.name, "reward-none");
    found = ppo__diagnose(&signs, found.row + 1);
    assert_string_equal(found.name, "critic");
    assert_int_equal(found.effect, 1);
    assert_int_equal(ppo__diagnose(&signs, found.row + 1).row, -1);
}

/* What is set already, cannot be lower, or has no effect is no advice. */
static void advice_is_what_can_be_followed(void **state) {
    (void)state;
    static const struct {
        const char *settings, *advice;
    } cases[] = {{"", ": try lower learning_rate, target_kl=0.02, entropy_coef=0.01"},
                 {"learning_rate=0", ": try target_kl=0.02, entropy_coef=0.01"},
                 {"target_kl=0.01", ": try lower learning_rate, entropy_coef=0.01"},
                 {"target_kl=0.01 entropy_coef=0.001", ": try lower learning_rate"},
                 {"lr_target_kl=0.01", ": try target_kl=0.02, entropy_coef=0.01"},
                 {"learning_rate=0 target_kl=0.01 entropy_coef=0.001", ""}};
    for (int i = 0; i < COUNT(cases); i++) {
        be_sound();
        assert_ok(ppo_config_set_all(&config, cases[i].settings));
        signs.entropy = 0;
        const ppo__symptom found = ppo__diagnose(&signs, 0);
        assert_string_equal(found.name, "entropy-gone");
        const char *try_it = strstr(found.sentence, ": try");
        assert_string_equal(try_it ? try_it : "", cases[i].advice);
    }
    be_sound();
    config.use_critic = 0, signs.error = 11; /* no advice about what has no effect without a critic */
    config.epochs = 1, signs.clipped = 0.6, signs.error = 1;
    assert_non_null(strstr(ppo__diagnose(&signs, 0).sentence, "try lower learning_rate, target_kl=0.02"));
    assert_null(strstr(ppo__diagnose(&signs, 0).sentence, "fewer epochs, "));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_run_has_no_symptom),
        cmocka_unit_test(observations_show_where_they_are_too_large_or_too_small),
        cmocka_unit_test(the_sentence_names_the_number_that_is_worst),
        cmocka_unit_test(an_observation_that_never_changes_is_told),
        cmocka_unit_test(actions_show_where_a_policy_does_not_reach_them),
        cmocka_unit_test(rewards_and_ends_that_are_missing_are_told),
        cmocka_unit_test(updates_that_go_wrong_are_told),
        cmocka_unit_test(a_policy_that_stays_random_is_told),
        cmocka_unit_test(episodes_that_get_shorter_to_avoid_costs_are_told),
        cmocka_unit_test(each_sentence_has_its_numbers_in_their_order),
        cmocka_unit_test(the_first_symptom_is_found_and_then_the_next),
        cmocka_unit_test(advice_is_what_can_be_followed),
    };
    return cmocka_run_group_tests_name("diagnose", tests, NULL, NULL);
}
