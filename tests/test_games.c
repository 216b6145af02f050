/* The games of examples/envs/ with several agents in one world: connect four and the hunt, against rules that are
   written here a second time. */
#include "../ppo.h"

#include "../examples/envs/connect4.h"
#include "../examples/envs/pursuit.h"
#include "test.h"

static ppo_action choose(int discrete) {
    ppo_action action = {0};
    action.discrete = discrete;
    return action;
}

/* 1: four stones of a player in a line, on a plain board [6][7]. */
static int four(char board[6][7], char player) {
    static const int way[4][2] = {{0, 1}, {1, 0}, {1, 1}, {1, -1}};
    for (int y = 0; y < 6; y++)
        for (int x = 0; x < 7; x++)
            for (int w = 0; w < 4; w++) {
                int n = 0;
                for (; n < 4; n++) {
                    int r = y + n * way[w][0], c = x + n * way[w][1];
                    if (r > 5 || c < 0 || c > 6 || board[r][c] != player) break;
                }
                if (n == 4) return 1;
            }
    return 0;
}

static void every_move_of_connect_four_is_by_its_rules(void **state) {
    (void)state;
    ppo_env env = connect4_env();
    ppo_rng rng = ppo_rng_stream(1, PPO_STREAM_USER, 0);
    int ends[3] = {0}, games = SMALL(3000, 300);
    assert_ok(check_env(&env));
    for (int game = 0; game < games; game++) {
        connect4 s;
        float obs[2][2 * CONNECT4_CELLS];
        char board[6][7] = {{0}};
        ppo_outcome out[2];
        memset(out, 0, sizeof out);
        env.reset_all(&s, &rng, obs[0], out);
        for (int i = 0; i < 42; i++)
            for (int p = 0; p < 2; p++)
                if (s.stones[p] & connect4_cell(i % 7, i / 7)) board[i / 7][i % 7] = (char)(1 + p);
        assert_false(four(board, 1) || four(board, 2));
        for (;;) {
            int player = out[0].waits, row = 0, full = 1;
            unsigned char mask[2][7];
            ppo_action action[2] = {{0}};
            assert_int_equal(out[!player].waits, 1);
            assert_int_equal(out[player].waits, 0);
            memset(mask, 1, sizeof mask);
            env.action_mask(&s, mask[0]);
            for (int x = 0; x < 7; x++) {
                assert_int_equal(mask[player][x], board[5][x] == 0);
                for (int y = 0; y < 6; y++) {
                    assert_true(obs[player][7 * y + x] == (board[y][x] == 1 + player));
                    assert_true(obs[player][42 + 7 * y + x] == (board[y][x] == 2 - player));
                }
            }
            int column = ppo_rng_below(&rng, 7);
            while (!mask[player][column]) column = (column + 1) % 7;
            action[player] = choose(column);
            memset(out, 0, sizeof out);
            env.step_all(&s, &rng, action, obs[0], out);

            while (board[row][column]) row++;
            board[row][column] = (char)(1 + player);
            for (int x = 0; x < 7; x++) full &= board[5][x] != 0;
            int won = four(board, (char)(1 + player));
            assert_true(out[player].reward == won && out[!player].reward == -won);
            assert_int_equal(out[0].terminated, won || full);
            assert_int_equal(out[1].terminated, won || full);
            if (!out[0].terminated) continue;
            ends[won ? player : 2]++;
            break;
        }
    }
    assert_true(ends[0] > games / 3 && ends[1] > games / 3 && ends[2] > 0);
}

static void the_opponent_of_connect_four_wins_else_blocks(void **state) {
    (void)state;
    ppo_env env = connect4_opponent_env();
    ppo_rng rng = ppo_rng_stream(2, PPO_STREAM_USER, 0);
    int games = SMALL(20000, 1000), won = 0, begun = 0;
    connect4 both = {{connect4_cell(0, 0) | connect4_cell(0, 1) | connect4_cell(0, 2),
                      connect4_cell(6, 0) | connect4_cell(6, 1) | connect4_cell(6, 2)},
                     1};
    assert_ok(check_env(&env));
    assert_int_equal(connect4_win_or_block(&both, &rng), 6);
    both.stones[1] = connect4_cell(6, 0) | connect4_cell(6, 1);
    assert_int_equal(connect4_win_or_block(&both, &rng), 0);
    for (int game = 0; game < games; game++) { /* against a player that moves at random */
        connect4 s;
        float obs[2 * CONNECT4_CELLS];
        ppo_outcome out;
        memset(&out, 0, sizeof out);
        env.reset(&s, &rng, obs);
        begun += s.stones[1] == 0;
        while (!out.terminated) {
            ppo_action action = choose(ppo_rng_below(&rng, 7));
            if (!connect4_landing(&s, action.discrete)) continue;
            memset(&out, 0, sizeof out);
            env.step(&s, &rng, &action, obs, &out);
        }
        won += out.reward > 0;
    }
    assert_true(abs(2 * begun - games) < 10 * sqrt(games));
    assert_true(fabs((double)won / games - 0.04) < SMALL(0.005, 0.02));
}

static void hunters_catch_are_hurt_and_come_back_as_the_hunt_states(void **state) {
    (void)state;
    static float obs[PURSUIT_HUNTERS * PURSUIT_OBS];
    ppo_env env = pursuit_env();
    ppo_rng rng = ppo_rng_stream(3, PPO_STREAM_USER, 0);
    pursuit s;
    ppo_outcome out[PURSUIT_HUNTERS];
    int out_since[PURSUIT_HUNTERS] = {0}, joined = 0, caught = 0, hurt = 0;
    assert_ok(check_env(&env));
    memset(out, 0, sizeof out);
    env.reset_all(&s, &rng, obs, out);
    for (int t = 1; t < SMALL(3000, 600); t++) {
        ppo_action action[PURSUIT_HUNTERS];
        pursuit before = s;
        float paid = 0;
        for (int i = 0; i < PURSUIT_HUNTERS; i++) action[i] = choose(ppo_rng_below(&rng, 5));
        memset(out, 0, sizeof out);
        env.step_all(&s, &rng, action, obs, out);
        for (int i = 0; i < PURSUIT_HUNTERS; i++) {
            const float *window = obs + i * PURSUIT_OBS;
            paid += out[i].reward;
            if (out[i].joins) {
                assert_int_equal(t - out_since[i], PURSUIT_PAUSE);
                joined++;
            }
            if (out[i].terminated) {
                out_since[i] = t;
                hurt++;
            }
            if (!before.pause[i]) assert_true(pursuit_distance(before.hunter[i], s.hunter[i]) <= 1);
            for (int k = 0; k < PURSUIT_HUNTERS + PURSUIT_BOARS;
                 k++) { /* sees those around, where they are */
                int boar = k >= PURSUIT_HUNTERS;
                pursuit_place at = boar ? s.boar[k - PURSUIT_HUNTERS] : s.hunter[k];
                int x = (at.x - s.hunter[i].x + 3 + 16) % 16, y = (at.y - s.hunter[i].y + 3 + 16) % 16;
                if (x < 7 && y < 7 && k != i && (boar || !s.pause[k]))
                    assert_true(window[49 * boar + 7 * y + x] >= 1);
            }
        }
        assert_close(paid, 2.0 * (s.caught - caught), 1e-5);
        assert_int_equal(hurt, s.hurt);
        caught = s.caught;
    }
    assert_true(caught > 0 && hurt > 0 && joined > 0);
}

static void games_are_trained_with_all_their_agents(void **state) {
    (void)state;
    ppo_env (*const make[2])(void) = {connect4_env, pursuit_env};
    for (int k = 0; k < 2; k++) {
        ppo_env env = make[k]();
        ppo_config cfg = ppo_config_default();
        ppo_agent *agent = NULL;
        assert_ok(ppo_config_set_all(
            &cfg, "num_envs=32 rollout_steps=32 minibatch_size=0 epochs=1 total_steps=4000 "
                  "hidden=8"));
        if (!k) assert_ok(ppo_config_set_all(&cfg, "self_play=2 snapshot_every=1"));
        assert_ok(ppo_train(&env, &cfg, &agent));
        ppo_agent_free(agent);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_move_of_connect_four_is_by_its_rules),
        cmocka_unit_test(the_opponent_of_connect_four_wins_else_blocks),
        cmocka_unit_test(hunters_catch_are_hurt_and_come_back_as_the_hunt_states),
        cmocka_unit_test(games_are_trained_with_all_their_agents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
