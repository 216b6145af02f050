/* The five games of examples/envs/minatar.h beside the package, which played them with the same random numbers. */
#include "../ppo.h"

#include "../examples/envs/minatar.h"
#include "golden/minatar.h"
#include "test.h"

enum { EVERY = 20, MOST_NUMBERS = 10 * MINATAR_PIXELS };

static uint32_t mix(uint32_t hash, int number) { return (hash ^ (uint32_t)number) * 16777619u; }

/* Plays the recorded actions, and compares the hash of pictures, rewards and ends wherever one was written down. */
static void play(ppo_env env, uint32_t index, const char *actions, const unsigned int *hashes) {
    ppo_rng rng = ppo_rng_stream(7, PPO_STREAM_USER, index);
    uint32_t hash = 2166136261u;
    float obs[MOST_NUMBERS];
    void *state = calloc(1, env.state_size);
    assert_non_null(state);
    assert_true(env.obs_size <= MOST_NUMBERS);
    env.reset(state, &rng, obs);
    for (int t = 0, age = 0; actions[t]; t++) {
        const ppo_action action = {actions[t] - '0', NULL, NULL};
        ppo_outcome out;
        memset(&out, 0, sizeof out);
        env.step(state, &rng, &action, obs, &out);
        const int ends = out.terminated || ++age == env.max_steps;
        hash = mix(mix(hash, (int)out.reward), ends);
        if (ends) {
            env.reset(state, &rng, obs);
            age = 0;
        }
        for (int i = 0; i < env.obs_size; i++) {
            assert_true(obs[i] == 0 || obs[i] == 1);
            if (obs[i] > 0) hash = mix(hash, i);
        }
        if (t % EVERY == EVERY - 1 && hash != hashes[t / EVERY])
            fail_msg("%s differs from MinAtar's between steps %d and %d", env.name, t - EVERY + 1, t);
    }
    free(state);
}

static void breakout_is_that_of_minatar(void **state) {
    (void)state;
    play(minatar_breakout_env(), 0, g_minatar_breakout_actions, g_minatar_breakout);
}

static void asterix_is_that_of_minatar(void **state) {
    (void)state;
    play(minatar_asterix_env(), 1, g_minatar_asterix_actions, g_minatar_asterix);
}

static void freeway_is_that_of_minatar(void **state) {
    (void)state;
    play(minatar_freeway_env(), 2, g_minatar_freeway_actions, g_minatar_freeway);
}

static void seaquest_is_that_of_minatar(void **state) {
    (void)state;
    play(minatar_seaquest_env(), 3, g_minatar_seaquest_actions, g_minatar_seaquest);
}

static void space_invaders_is_that_of_minatar(void **state) {
    (void)state;
    play(minatar_space_invaders_env(), 4, g_minatar_space_invaders_actions, g_minatar_space_invaders);
}

static void a_random_player_gets_what_the_games_state(void **state) {
    (void)state;
    const struct {
        ppo_env (*make)(void);
        int episodes;
        double mean, within;
    } game[] = {{minatar_asterix_env, 1000, 0.5, 0.1},
                {minatar_breakout_env, 1000, 0.4, 0.1},
                {minatar_freeway_env, 160, 0.4, 0.05},
                {minatar_seaquest_env, 1000, 0.1, 0.05},
                {minatar_space_invaders_env, 1000, 4, 0.4}};
    for (size_t k = 0; k < sizeof game / sizeof *game; k++) {
        const ppo_env env = game[k].make();
        assert_true(fabs(return_at_random(&env, game[k].episodes) - game[k].mean) < game[k].within);
    }
}

static void games_are_well_formed_and_train(void **state) {
    (void)state;
    ppo_env (*const make[])(void) = {minatar_breakout_env, minatar_asterix_env, minatar_freeway_env,
                                     minatar_seaquest_env, minatar_space_invaders_env};
    for (size_t k = 0; k < sizeof make / sizeof *make; k++) {
        const ppo_env env = make[k]();
        ppo_config cfg = ppo_config_default();
        ppo_agent *agent = NULL;
        assert_ok(check_env(&env));
        assert_ok(ppo_config_set_all(&cfg, "num_envs=4 rollout_steps=32 minibatch_size=128 epochs=1 "
                                           "total_steps=256 hidden=8"));
        assert_ok(ppo_train(&env, &cfg, &agent));
        ppo_agent_free(agent);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(breakout_is_that_of_minatar),
        cmocka_unit_test(asterix_is_that_of_minatar),
        cmocka_unit_test(freeway_is_that_of_minatar),
        cmocka_unit_test(seaquest_is_that_of_minatar),
        cmocka_unit_test(space_invaders_is_that_of_minatar),
        cmocka_unit_test(a_random_player_gets_what_the_games_state),
        cmocka_unit_test(games_are_well_formed_and_train),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
