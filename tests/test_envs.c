/* The environments of examples/envs/: the classic tasks against Gymnasium's, step by step; the others against
   models of their own and against the numbers that their comments claim. (CartPole: test_rollouts.c.) */
#include "../ppo.h"

#include "../examples/envs/acrobot.h"
#include "../examples/envs/breakout.h"
#include "../examples/envs/cartpole.h"
#include "../examples/envs/gold.h"
#include "../examples/envs/gridworld.h"
#include "../examples/envs/invaders.h"
#include "../examples/envs/memory.h"
#include "../examples/envs/mountaincar.h"
#include "../examples/envs/mountaincar_continuous.h"
#include "../examples/envs/pendulum.h"
#include "../examples/envs/tictactoe.h"
#include "golden/envs.h"
#include "test.h"

enum { MAX_STATE = 352, MAX_OBS = 500, MAX_ACTIONS = 9 };

typedef union any_state {
    char bytes[MAX_STATE];
    double full[4];
    float single[4];
} any_state;

static ppo_action choose(int discrete) {
    ppo_action action = {0};
    action.discrete = discrete;
    return action;
}

static ppo_env (*const all_envs[])(void) = {
    cartpole_env, acrobot_env, mountaincar_env, mountaincar_continuous_env,
    pendulum_env, memory_env,  gridworld_env,   tictactoe_env,
    breakout_env, gold_env,    invaders_env};

/* --------------------------------------------------------------------------------------------------------
   The classic tasks: recorded episodes of Gymnasium
   -------------------------------------------------------------------------------------------------------- */

typedef struct recording {
    ppo_env (*make)(void);
    int single;
    int episodes, obs_size, state_size, action_size, max_steps;
    const int *length;
    const double *state;
    const unsigned char *discrete; /* the actions, by the kind of space */
    const float *box, *low, *high;
    const float *obs, *reward;
    const unsigned char *terminated;
} recording;

/* The states are the recorded numbers in their order, as double or, if `single`, as float. */
static void set_state(const recording *r, any_state *s, const double *recorded) {
    for (int j = 0; j < r->state_size; j++)
        if (r->single) s->single[j] = (float)recorded[j];
        else s->full[j] = recorded[j];
}

static void assert_number(double got, double want, double absolute, const char *what, int episode, int t) {
    if (fabs(got - want) <= 1.2e-7 * fabs(want) + absolute) return;
    fail_msg("%s is %.9g, not %.9g (episode %d, step %d)", what, got, want, episode, t);
}

#define RECORDED(name, single, discrete, box, low, high)                                                 \
    {                                                                                                    \
        name##_env, single, g_##name##_episodes, g_##name##_obs_size, g_##name##_state_size,             \
            g_##name##_action_size, g_##name##_max_steps, g_##name##_length, g_##name##_state, discrete, \
            box, low, high, g_##name##_obs, g_##name##_reward, g_##name##_terminated                     \
    }
#define RECORDED_DISCRETE(name) RECORDED(name, 0, g_##name##_action, NULL, NULL, NULL)
#define RECORDED_BOX(name, single) \
    RECORDED(name, single, NULL, g_##name##_action, g_##name##_low, g_##name##_high)

static const recording recorded_acrobot = RECORDED_DISCRETE(acrobot);
static const recording recorded_mountaincar = RECORDED_DISCRETE(mountaincar);
static const recording recorded_mountaincar_continuous = RECORDED_BOX(mountaincar_continuous, 1);
static const recording recorded_pendulum = RECORDED_BOX(pendulum, 0);

static const recording *const recordings[] = {&recorded_acrobot, &recorded_mountaincar,
                                              &recorded_mountaincar_continuous, &recorded_pendulum};

/* Plays the recorded actions. The task takes the recorded state every g_envs_every steps, after that has been
   compared with its own, or, running free, only at the start of an episode. Each number may be off by one
   rounding of a float, 1.2e-7 of it, and by `absolute`. */
static void assert_plays_as_recorded(const recording *r, int free, double absolute) {
    ppo_env env = r->make();
    const double *recorded = r->state;
    for (int i = 0, at = 0; i < r->episodes; i++) {
        any_state s;
        for (int t = 0; t < r->length[i]; t++, at++) {
            ppo_action action = choose(r->discrete ? r->discrete[at] : 0);
            ppo_outcome out = {0};
            float obs[MAX_OBS];
            if (r->box) action.box = r->box + r->action_size * at;
            if (t % g_envs_every == 0) {
                for (int j = 0; j < r->state_size && t; j++)
                    assert_number(r->single ? s.single[j] : s.full[j], recorded[j], absolute, "the state", i,
                                  t);
                if (t == 0 || !free) set_state(r, &s, recorded);
                recorded += r->state_size;
            }
            env.step(&s, NULL, &action, obs, &out);
            for (int j = 0; j < r->obs_size; j++)
                assert_number(obs[j], r->obs[r->obs_size * at + j], absolute, "the observation", i, t);
            assert_number(out.reward, r->reward[at], absolute, "the reward", i, t);
            assert_number(out.terminated, r->terminated[at], 0, "terminated", i, t);
            assert_int_equal(out.truncated, 0); /* the time limit is the library's */
        }
    }
}

/* Where the task works in double, its sine and cosine may differ from numpy's in the last bit, and compilers
   may fuse multiplications and additions. From one recorded state to the next that stays far below 1e-9. */
static void every_step_of_acrobot_is_that_of_gymnasium(void **state) {
    (void)state;
    assert_plays_as_recorded(&recorded_acrobot, 0, 1e-9);
}

static void every_step_of_mountaincar_is_that_of_gymnasium(void **state) {
    (void)state;
    assert_plays_as_recorded(&recorded_mountaincar, 0, 1e-9);
}

static void every_step_of_pendulum_is_that_of_gymnasium(void **state) {
    (void)state;
    assert_plays_as_recorded(&recorded_pendulum, 0, 1e-9);
}

/* In float, a rounding of a position up to 1.2 is 6e-8, and Gymnasium takes the first step in double. */
static void every_step_of_mountaincar_continuous_is_that_of_gymnasium(void **state) {
    (void)state;
    assert_plays_as_recorded(&recorded_mountaincar_continuous, 0, 1.2e-7);
}

/* A car lets a difference in rounding grow slowly; Acrobot and an upright pendulum multiply it. */
static void mountain_cars_run_free_through_whole_episodes_as_in_gymnasium(void **state) {
    (void)state;
    assert_plays_as_recorded(&recorded_mountaincar, 1, 1e-9);
    assert_plays_as_recorded(&recorded_mountaincar_continuous, 1, 1e-6);
}

static void classic_tasks_have_the_spaces_and_time_limits_of_gymnasium(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(recordings); i++) {
        const recording *r = recordings[i];
        ppo_env env = r->make();
        assert_int_equal(env.obs_size, r->obs_size);
        assert_int_equal(env.max_steps, r->max_steps);
        assert_int_equal(env.action_space.kind, r->discrete ? PPO_DISCRETE : PPO_BOX);
        assert_int_equal(env.action_space.n, r->action_size);
        if (r->box) assert_true(env.action_space.low == r->low[0] && env.action_space.high == r->high[0]);
    }
}

/* Uniform in [low, high]: in range, and of its mean and variance, within five standard errors. */
static void assert_uniform(const float *x, int n, double low, double high) {
    double sum = 0, squares = 0, middle = (low + high) / 2, variance = (high - low) * (high - low) / 12;
    for (int i = 0; i < n; i++) {
        assert_true(x[i] >= low - 1e-6 && x[i] <= high + 1e-6);
        sum += x[i] - middle, squares += (x[i] - middle) * (x[i] - middle);
    }
    assert_true(fabs(sum / n) <= 5 * sqrt(variance / n));
    assert_true(fabs(squares / n - variance) <= 5 * variance * sqrt(0.8 / n)); /* E x^4 = 1.8 variance^2 */
}

/* The ranges are those of Gymnasium's reset(). */
static void classic_tasks_start_where_gymnasium_does(void **state) {
    (void)state;
    enum { N = 4000 };
    static float x[6][N];
    acrobot a;
    mountaincar m;
    mountaincar_continuous c;
    pendulum p;
    ppo_rng rng = test_rng(1);
    float obs[MAX_OBS];
    for (int i = 0; i < N; i++) {
        acrobot_reset(&a, &rng, obs);
        x[0][i] = (float)a.theta1, x[1][i] = (float)a.theta2, x[2][i] = obs[4], x[3][i] = obs[5];
        assert_close(obs[0], cos(a.theta1), 1e-7);
        assert_close(obs[1], sin(a.theta1), 1e-7);
        assert_close(obs[2], cos(a.theta2), 1e-7);
        assert_close(obs[3], sin(a.theta2), 1e-7);
    }
    for (int j = 0; j < 4; j++) assert_uniform(x[j], N, -0.1, 0.1);
    for (int i = 0; i < N; i++) {
        mountaincar_reset(&m, &rng, obs);
        x[0][i] = obs[0];
        assert_true(obs[0] == (float)m.x && obs[1] == 0 && m.v == 0);
        mountaincar_continuous_reset(&c, &rng, obs);
        x[1][i] = obs[0];
        assert_true(obs[0] == c.x && obs[1] == 0 && c.v == 0);
    }
    for (int j = 0; j < 2; j++) assert_uniform(x[j], N, -0.6, -0.4);
    for (int i = 0; i < N; i++) {
        pendulum_reset(&p, &rng, obs);
        x[0][i] = (float)p.theta, x[1][i] = obs[2];
        assert_close(obs[0], cos(p.theta), 1e-7);
        assert_close(obs[1], sin(p.theta), 1e-7);
    }
    assert_uniform(x[0], N, -3.14159265358979, 3.14159265358979);
    assert_uniform(x[1], N, -1, 1);
}

/* --------------------------------------------------------------------------------------------------------
   Grid world
   -------------------------------------------------------------------------------------------------------- */

/* The world as a model, beside the one in the header: where a step from row, column goes without slipping. */
static const char *const world[3] = {"...+", ".#.-", "...."};

static int world_step(int cell, int way) {
    static const int down[4] = {-1, 0, 1, 0}, right[4] = {0, 1, 0, -1};
    int row = cell / 4 + down[way], column = cell % 4 + right[way];
    if (row < 0 || row > 2 || column < 0 || column > 3 || world[row][column] == '#') return cell;
    return row * 4 + column;
}

static int is_free(int cell) { return world[cell / 4][cell % 4] == '.'; }

static double world_reward(int next) {
    char c = world[next / 4][next % 4];
    return -0.04 + (c == '+' ? 1 : c == '-' ? -1 : 0);
}

/* P(next | cell, way) for all next. */
static void world_odds(int cell, int way, double odds[12]) {
    for (int next = 0; next < 12; next++) odds[next] = 0;
    odds[world_step(cell, way)] += 0.8;
    odds[world_step(cell, (way + 1) % 4)] += 0.1;
    odds[world_step(cell, (way + 3) % 4)] += 0.1;
}

static double world_action_value(const double value[12], int cell, int way) {
    double odds[12], sum = 0;
    world_odds(cell, way, odds);
    for (int next = 0; next < 12; next++) sum += odds[next] * (world_reward(next) + value[next]);
    return sum;
}

/* Value iteration; best [12] gets the optimal action of each cell. */
static void world_solve(double value[12], int best[12]) {
    for (int cell = 0; cell < 12; cell++) value[cell] = 0;
    for (int sweep = 0; sweep < 200; sweep++) {
        for (int cell = 0; cell < 12; cell++) {
            if (!is_free(cell)) continue;
            best[cell] = 0;
            for (int way = 1; way < 4; way++)
                if (world_action_value(value, cell, way) > world_action_value(value, cell, best[cell]))
                    best[cell] = way;
            value[cell] = world_action_value(value, cell, best[cell]);
        }
    }
}

static void value_iteration_gives_the_values_that_gridworld_states(void **state) {
    (void)state;
    static const double stated[12] = {0.812, 0.868, 0.918, 0, 0.762, 0, 0.660, 0, 0.705, 0.655, 0.611, 0.388};
    double value[12], sum = 0;
    int best[12];
    world_solve(value, best);
    for (int cell = 0; cell < 12; cell++) {
        assert_true(fabs(value[cell] - stated[cell]) < 0.0005);
        sum += value[cell];
    }
    assert_true(fabs(sum / 9 - 0.709) < 0.0005);
    assert_int_equal(best[10], 3); /* around, not past the pit */
}

static void gridworld_moves_slips_pays_and_ends_as_it_states(void **state) {
    (void)state;
    enum { N = 4000 };
    ppo_env env = gridworld_env();
    ppo_rng rng = test_rng(2);
    for (int cell = 0; cell < 12; cell++) {
        for (int way = 0; way < 4 && is_free(cell); way++) {
            int count[12] = {0};
            double odds[12];
            world_odds(cell, way, odds);
            for (int i = 0; i < N; i++) {
                gridworld s = {cell};
                ppo_action action = choose(way);
                ppo_outcome out = {0};
                float obs[MAX_OBS];
                env.step(&s, &rng, &action, obs, &out);
                count[s.cell]++;
                assert_close(out.reward, world_reward(s.cell), 1e-6);
                assert_int_equal(out.terminated, !is_free(s.cell));
                for (int j = 0; j < 12; j++) assert_true(obs[j] == (j == s.cell));
            }
            for (int next = 0; next < 12; next++)
                assert_true(fabs(count[next] - N * odds[next]) <=
                            5 * sqrt(N * odds[next] * (1 - odds[next])) + 1e-9 * N);
        }
    }
}

static void gridworld_starts_in_each_free_cell_alike(void **state) {
    (void)state;
    enum { N = 9000 };
    ppo_env env = gridworld_env();
    ppo_rng rng = test_rng(3);
    gridworld s;
    float obs[MAX_OBS];
    int count[12] = {0};
    for (int i = 0; i < N; i++) env.reset(&s, &rng, obs), count[s.cell]++;
    for (int cell = 0; cell < 12; cell++)
        if (is_free(cell)) assert_true(fabs(count[cell] - N / 9.0) < 5 * sqrt(N / 9.0));
        else assert_int_equal(count[cell], 0);
}

static void the_best_policy_of_gridworld_gets_the_return_it_states(void **state) {
    (void)state;
    enum { N = 20000 };
    ppo_env env = gridworld_env();
    ppo_rng rng = test_rng(4);
    double value[12], sum = 0, squares = 0;
    int best[12];
    world_solve(value, best);
    for (int i = 0; i < N; i++) {
        gridworld s;
        ppo_outcome out = {0};
        float obs[MAX_OBS];
        double total = 0;
        env.reset(&s, &rng, obs);
        while (!out.terminated) {
            ppo_action action = choose(best[s.cell]);
            env.step(&s, &rng, &action, obs, &out);
            total += out.reward;
        }
        sum += total, squares += total * total;
    }
    double mean = sum / N;
    assert_true(fabs(mean - 0.709) < 0.0005 + 5 * sqrt((squares / N - mean * mean) / N));
}

/* --------------------------------------------------------------------------------------------------------
   Memory
   -------------------------------------------------------------------------------------------------------- */

/* An episode with the wanted cue. */
static void start_memory(memory *s, ppo_rng *rng, int cue, float *obs) {
    do memory_reset(s, rng, obs);
    while (s->cue != cue);
}

static void the_cue_of_memory_is_left_or_right_and_shown_at_the_start(void **state) {
    (void)state;
    ppo_rng rng = test_rng(5);
    int right = 0;
    for (int i = 0; i < 2000; i++) {
        memory s;
        float obs[3];
        memory_reset(&s, &rng, obs);
        assert_true((s.cue == -1 || s.cue == 1) && obs[0] == (float)s.cue);
        right += s.cue == 1;
    }
    assert_true(abs(right - 1000) < 5 * 23);
}

/* Two episodes with the same actions and different cues look alike, and so do all cells of the corridor. */
static void nothing_seen_after_the_first_step_of_memory_tells_the_cue_or_the_place(void **state) {
    (void)state;
    ppo_rng rng = test_rng(6);
    for (int i = 0; i < 200; i++) {
        memory left, right;
        float seen_left[3], seen_right[3];
        ppo_outcome out = {0};
        start_memory(&left, &rng, -1, seen_left);
        start_memory(&right, &rng, 1, seen_right);
        for (int t = 0; t < 50 && !out.terminated; t++) {
            ppo_action action = choose(ppo_rng_below(&rng, 3));
            memory_step(&left, &rng, &action, seen_left, &out);
            memory_step(&right, &rng, &action, seen_right, &out);
            int at_junction = left.position == MEMORY_CORRIDOR;
            assert_false(bits_differ(seen_left, seen_right, 3));
            assert_true(seen_left[0] == 0 && seen_left[1] == !at_junction && seen_left[2] == at_junction);
        }
    }
}

/* The return under a cue of an action for each of the four things that can be seen: the cue to the left, the
   cue to the right, the corridor, the junction. With `memory_of_cue`, the last one is what the cue said. */
static double memory_return(const int action_for[4], int cue, int memory_of_cue, int *length) {
    ppo_env env = memory_env();
    ppo_rng rng = test_rng(7);
    memory s;
    float obs[3];
    double total = 0;
    start_memory(&s, &rng, cue, obs);
    for (*length = 0; *length < env.max_steps; ++*length) {
        int seen = obs[0] < 0 ? 0 : obs[0] > 0 ? 1 : obs[1] > 0 ? 2 : 3;
        ppo_action action = choose(action_for[seen]);
        ppo_outcome out = {0};
        if (seen == 3 && memory_of_cue) action.discrete = cue < 0 ? 1 : 2;
        env.step(&s, &rng, &action, obs, &out);
        total += out.reward;
        if (out.terminated) break;
    }
    return total;
}

static void no_policy_without_memory_gets_more_than_0_in_memory(void **state) {
    (void)state;
    double best = -1e9;
    int zeros = 0, length;
    for (int code = 0; code < 81; code++) {
        int action_for[4] = {code % 3, code / 3 % 3, code / 9 % 3, code / 27};
        double mean =
            (memory_return(action_for, -1, 0, &length) + memory_return(action_for, 1, 0, &length)) / 2;
        best = fmax(best, mean);
        zeros += fabs(mean) < 1e-6;
    }
    assert_true(fabs(best) < 1e-6);
    assert_int_equal(zeros, 2); /* walks on, then turns the same way each time */
}

static void a_policy_that_remembers_the_cue_gets_1_in_memory(void **state) {
    (void)state;
    static const int walk_on[4] = {0, 0, 0, 0};
    int length;
    for (int cue = -1; cue <= 1; cue += 2) {
        assert_true(memory_return(walk_on, cue, 1, &length) == 1);
        assert_int_equal(length, MEMORY_CORRIDOR); /* and the turn is the step after these */
    }
}

/* --------------------------------------------------------------------------------------------------------
   Tic-tac-toe: against a checker of its own, over all games
   -------------------------------------------------------------------------------------------------------- */

/* A board is nine characters of " XO". */
typedef struct board {
    char at[9];
} board;

/* Three in a line, by counting along rows, columns and diagonals. */
static int has_line(const board *b, char who) {
    int down = 0, up = 0;
    for (int i = 0; i < 3; i++) {
        int row = 0, column = 0;
        for (int j = 0; j < 3; j++) row += b->at[3 * i + j] == who, column += b->at[3 * j + i] == who;
        if (row == 3 || column == 3) return 1;
        down += b->at[3 * i + i] == who, up += b->at[3 * i + 2 - i] == who;
    }
    return down == 3 || up == 3;
}

static board with(board b, int cell, char who) {
    b.at[cell] = who;
    return b;
}

static int is_full(const board *b) { return !memchr(b->at, ' ', 9); }

static int code_of(const board *b) {
    int code = 0;
    for (int i = 0; i < 9; i++) code = 3 * code + (b->at[i] == 'X') + 2 * (b->at[i] == 'O');
    return code;
}

/* The moves the opponent may make: allowed [9] is 1 for these. Returns their number. */
static int replies(const board *b, int allowed[9]) {
    int count = 0;
    for (int rule = 0; rule < 3 && !count; rule++) {
        for (int i = 0; i < 9; i++) {
            board then = with(*b, i, rule == 0 ? 'O' : 'X');
            allowed[i] = b->at[i] == ' ' && (rule == 2 || (!count && has_line(&then, rule == 0 ? 'O' : 'X')));
            count += allowed[i];
        }
    }
    return count;
}

static board board_of(const tictactoe *s) {
    board b;
    for (int i = 0; i < 9; i++) b.at[i] = " XO"[s->cell[i]];
    return b;
}

static tictactoe state_of(const board *b) {
    tictactoe s;
    for (int i = 0; i < 9; i++)
        s.cell[i] = (unsigned char)(b->at[i] == 'X'   ? TICTACTOE_X
                                    : b->at[i] == 'O' ? TICTACTOE_O
                                                      : TICTACTOE_EMPTY);
    return s;
}

static void assert_seen_as(const float *obs, const board *b) {
    for (int i = 0; i < 9; i++) assert_true(obs[i] == (b->at[i] == 'X') && obs[9 + i] == (b->at[i] == 'O'));
}

static void assert_masked_as(const tictactoe *s, const board *b) {
    unsigned char mask[9];
    memset(mask, 1, sizeof mask);
    tictactoe_action_mask(s, mask);
    for (int i = 0; i < 9; i++) assert_int_equal(mask[i], b->at[i] == ' ');
}

/* An agent's move from b, once: what must come of it is computed here. Returns the opponent's move, -1 if it
   had none. */
static int check_move(const board *b, int cell, ppo_rng *rng, int *over) {
    tictactoe s = state_of(b);
    ppo_action action = choose(cell);
    ppo_outcome out = {0};
    float obs[MAX_OBS];
    board mine = with(*b, cell, 'X'), after;
    int reply = -1;
    tictactoe_step(&s, rng, &action, obs, &out);
    after = board_of(&s);
    for (int i = 0; i < 9; i++) {
        if (after.at[i] == mine.at[i]) continue;
        assert_true(reply < 0 && after.at[i] == 'O' &&
                    mine.at[i] == ' '); /* one stone, where there was none */
        reply = i;
    }
    int won = has_line(&mine, 'X'), lost = has_line(&after, 'O');
    *over = won || lost || is_full(&after);
    assert_int_equal(reply >= 0, !won && !is_full(&mine));
    assert_int_equal(out.terminated, *over);
    assert_true(out.reward == (float)(won - lost));
    assert_seen_as(obs, &after);
    assert_masked_as(&s, &after);
    return reply;
}

static void assert_illegal_move_loses(const board *b, int cell, ppo_rng *rng) {
    tictactoe s = state_of(b);
    ppo_action action = choose(cell);
    ppo_outcome out = {0};
    float obs[MAX_OBS];
    tictactoe_step(&s, rng, &action, obs, &out);
    board after = board_of(&s);
    assert_true(out.terminated == 1 && out.reward == -1);
    assert_memory_equal(after.at, b->at, 9);
    assert_seen_as(obs, b);
}

/* Plays on from a board on which it is the agent's turn. Returns how many such boards are new. */
static int explore(const board *b, unsigned char *seen, ppo_rng *rng) {
    if (seen[code_of(b)]) return 0;
    int new_boards = seen[code_of(b)] = 1;
    for (int cell = 0; cell < 9; cell++) {
        if (b->at[cell] != ' ') {
            assert_illegal_move_loses(b, cell, rng);
            continue;
        }
        board mine = with(*b, cell, 'X');
        int allowed[9], made[9] = {0}, over, missing = replies(&mine, allowed);
        for (int i = 0; i < 1000 && missing; i++) {
            int reply = check_move(b, cell, rng, &over);
            if (reply < 0) break;
            assert_true(allowed[reply]);
            if (made[reply]) continue;
            made[reply] = 1, missing--;
            board next = with(mine, reply, 'O');
            if (!over) new_boards += explore(&next, seen, rng);
        }
        if (has_line(&mine, 'X') || is_full(&mine)) assert_int_equal(check_move(b, cell, rng, &over), -1);
        else assert_int_equal(missing, 0); /* every move that the rules leave to chance was made */
    }
    return new_boards;
}

static void every_move_of_tictactoe_is_by_its_rules(void **state) {
    (void)state;
    static unsigned char seen[19683];
    ppo_rng rng = test_rng(8);
    board empty;
    memset(empty.at, ' ', 9);
    memset(seen, 0, sizeof seen);
    int boards = explore(&empty, seen, &rng);
    for (int i = 0; i < 9; i++) {
        board answered = with(empty, i, 'O');
        boards += explore(&answered, seen, &rng);
    }
    assert_int_equal(boards, 2451);
}

static void tictactoe_begins_empty_or_with_one_stone_anywhere(void **state) {
    (void)state;
    enum { N = 9000 };
    ppo_env env = tictactoe_env();
    ppo_rng rng = test_rng(9);
    tictactoe s;
    float obs[MAX_OBS];
    int first[9] = {0}, stones = 0;
    for (int i = 0; i < N; i++) {
        env.reset(&s, &rng, obs);
        board b = board_of(&s);
        assert_seen_as(obs, &b);
        assert_masked_as(&s, &b);
        for (int j = 0; j < 9; j++) {
            assert_true(b.at[j] != 'X');
            first[j] += b.at[j] == 'O', stones += b.at[j] == 'O';
        }
    }
    assert_true(abs(stones - N / 2) < 5 * sqrt(N / 4.0));
    for (int j = 0; j < 9; j++) assert_true(fabs(first[j] - N / 18.0) < 5 * sqrt(N / 18.0));
}

/* The mean return of the best player, or of one that moves at random among the legal moves, from each board
   on which it is the agent's turn. */
typedef struct solution {
    int at_random;
    int known[19683]; /* by code_of() */
    double value[19683];
    int move[19683]; /* the best */
} solution;

static double value_of(solution *s, const board *b);

static double value_of_move(solution *s, const board *b, int cell) {
    board mine = with(*b, cell, 'X');
    int allowed[9], count = replies(&mine, allowed);
    double sum = 0;
    if (has_line(&mine, 'X')) return 1;
    for (int i = 0; i < 9 && count; i++) {
        board next = with(mine, i, 'O');
        if (allowed[i]) sum += has_line(&next, 'O') ? -1 : is_full(&next) ? 0 : value_of(s, &next);
    }
    return count ? sum / count : 0;
}

static double value_of(solution *s, const board *b) {
    int code = code_of(b), moves = 0;
    double best = -2, sum = 0;
    for (int cell = 0; cell < 9 && !s->known[code]; cell++) {
        if (b->at[cell] != ' ') continue;
        double x = value_of_move(s, b, cell);
        sum += x, moves++;
        if (x > best) best = x, s->move[code] = cell;
    }
    if (moves) s->known[code] = 1, s->value[code] = s->at_random ? sum / moves : best;
    return s->value[code];
}

/* Over both beginners and all first moves of the opponent. */
static double solve(solution *s, int at_random) {
    board empty;
    double answered = 0;
    memset(s, 0, sizeof *s);
    memset(empty.at, ' ', 9);
    s->at_random = at_random;
    for (int i = 0; i < 9; i++) {
        board b = with(empty, i, 'O');
        answered += value_of(s, &b) / 9;
    }
    return (value_of(s, &empty) + answered) / 2;
}

/* The mean return of N games. The standard deviation of a game's is at most 1. */
enum { GAMES = 20000 };
static double play_tictactoe(const solution *s, uint32_t stream) {
    ppo_env env = tictactoe_env();
    ppo_rng rng = test_rng(stream);
    double sum = 0;
    for (int i = 0; i < GAMES; i++) {
        tictactoe game;
        ppo_outcome out = {0};
        float obs[MAX_OBS];
        env.reset(&game, &rng, obs);
        while (!out.terminated) {
            board b = board_of(&game);
            ppo_action action = choose(s->move[code_of(&b)]);
            if (s->at_random) do
                    action.discrete = ppo_rng_below(&rng, 9);
                while (b.at[action.discrete] != ' ');
            env.step(&game, &rng, &action, obs, &out);
            sum += out.reward;
        }
    }
    return sum / GAMES;
}

static void tictactoe_returns_are_those_that_its_comment_states(void **state) {
    (void)state;
    static solution s;
    double best = solve(&s, 0);
    assert_true(fabs(best - 637.0 / 960) < 1e-12 && fabs(best - 0.664) < 0.0005);
    assert_true(fabs(play_tictactoe(&s, 10) - best) < 5 / sqrt(GAMES));
    double at_random = solve(&s, 1);
    assert_true(fabs(at_random - -0.761) < 0.0005);
    assert_true(fabs(play_tictactoe(&s, 11) - at_random) < 5 / sqrt(GAMES));
}

/* --------------------------------------------------------------------------------------------------------
   Gold and Invaders: what their comments say (Breakout: test_conv.c)
   -------------------------------------------------------------------------------------------------------- */

/* The number of pixels of a plane; *x and *y: the last of them. */
static int pixels(const float *obs, int plane, int *x, int *y) {
    int n = 0;
    for (int i = 0; i < 100; i++) {
        if (obs[100 * plane + i] == 0) continue;
        assert_true(obs[100 * plane + i] == 1);
        *x = i % 10, *y = i / 10, n++;
    }
    return n;
}

static void a_random_player_gets_what_the_games_state(void **state) {
    (void)state;
    ppo_env gold = gold_env(), invaders = invaders_env();
    assert_true(fabs(return_at_random(&gold, 2000) - 0.5) < 0.1);
    assert_true(fabs(return_at_random(&invaders, 1000) - 7.5) < 0.75);
}

static void gold_pays_and_spears_end_the_episode(void **state) {
    (void)state;
    static const int to_x[] = {0, -1, 0, 1, 0}, to_y[] = {0, 0, -1, 0, 1};
    ppo_rng rng = test_rng(41);
    float obs[MAX_OBS];
    for (int move = 0; move < 5; move++) {
        for (int is_gold = 0; is_gold < 2; is_gold++) {
            for (int flies = 0; flies < 2; flies++) { /* the runner meets it, or it the runner */
                const int x = 5 + to_x[move], y = 5 + to_y[move];
                gold s = {5, 5, 0, 9, flies ? 1 : 5, {{0, 0, 0, 0}}};
                gold_thing thing = {1, flies ? x + 1 : x, -1, is_gold};
                ppo_outcome out = {0};
                ppo_action action = choose(move);
                s.lane[y - 1] = thing;
                gold_step(&s, &rng, &action, obs, &out);
                assert_true(out.reward == (float)is_gold && out.terminated == !is_gold);
                assert_true(s.x == x && s.y == y && s.lane[y - 1].there == !is_gold);
            }
        }
        gold s = {move == 3 ? 9 : 0, move == 4 ? 8 : 1, 0, 9, 5, {{0, 0, 0, 0}}}; /* in a corner */
        ppo_action action = choose(move);
        ppo_outcome out = {0};
        const int x = s.x, y = s.y;
        gold_step(&s, &rng, &action, obs, &out);
        assert_true(s.x == x && s.y == y && out.reward == 0 && !out.terminated);
    }
}

/* Things appear and fly on at the steps that are stated, a third of them gold, alike in all lanes and edges. */
static void things_appear_and_fly_sooner_and_sooner(void **state) {
    (void)state;
    ppo_rng rng = test_rng(42);
    int lane[GOLD_LANES] = {0}, right = 0, golden = 0, all = 0;
    for (int game = 0; game < 100; game++) {
        gold s;
        float obs[MAX_OBS];
        ppo_action stay = choose(0);
        int appears = 0, flies = 5;
        gold_reset(&s, &rng, obs);
        for (int t = 0; t < 1000; t++) {
            gold before = s;
            ppo_outcome out = {0};
            s.x = before.x = -1, s.y = before.y = 1; /* where nothing flies */
            gold_step(&s, &rng, &stay, obs, &out);
            int news = 0, moved = 0, there = 0;
            for (int k = 0; k < GOLD_LANES; k++) {
                const gold_thing *was = &before.lane[k], *is = &s.lane[k];
                there += was->there;
                moved += was->there && (is->x == was->x + was->dx);
                if (was->there || !is->there) continue;
                news++, lane[k]++, all++, right += is->dx > 0, golden += is->is_gold;
                assert_int_equal(is->x - (t + 1 == flies ? is->dx : 0), is->dx > 0 ? 0 : 9);
            }
            assert_int_equal(news, t == appears && there < GOLD_LANES);
            assert_int_equal(moved, t + 1 == flies ? there : 0);
            if (t == appears) appears += t < 900 ? 10 - t / 100 : 1;
            if (t + 1 == flies) flies += t < 800 ? 5 - t / 200 : 1;
        }
    }
    for (int k = 0; k < GOLD_LANES; k++) assert_true(fabs((double)lane[k] / all - 0.125) < 0.02);
    assert_true(fabs((double)right / all - 0.5) < 0.02 && fabs((double)golden / all - 1 / 3.0) < 0.02);
}

static void the_planes_of_gold_show_what_is_where(void **state) {
    (void)state;
    gold s = {2, 7, 0, 0, 0, {{1, 4, 1, 0}, {1, 9, -1, 1}, {1, 0, 1, 0}}};
    float obs[MAX_OBS];
    int x, y;
    gold_observe(&s, obs);
    assert_true(pixels(obs, 0, &x, &y) == 1 && x == 2 && y == 7);
    assert_true(pixels(obs, 1, &x, &y) == 2 && obs[100 + 14] == 1 && obs[100 + 30] == 1);
    assert_true(pixels(obs, 2, &x, &y) == 1 && x == 3 && y == 1); /* the others' are outside */
    assert_true(pixels(obs, 3, &x, &y) == 1 && x == 9 && y == 2);
}

/* Their shots are taken away. */
static void ships_march_to_the_walls_and_down(void **state) {
    (void)state;
    ppo_rng rng = test_rng(43);
    int first_column[5] = {0}, to_right = 0;
    for (int game = 0; game < 200; game++) {
        invaders s;
        float obs[MAX_OBS];
        ppo_action stay = choose(0);
        int x, y, top = 0, dx, column, over = 0;
        invaders_reset(&s, &rng, obs);
        dx = s.dx;
        assert_true(pixels(obs, dx < 0 ? 1 : 2, &x, &y) == 24 && !pixels(obs, dx < 0 ? 2 : 1, &x, &y));
        column = s.ship[0][0] ? 0 : (int)((unsigned char *)memchr(s.ship[0], 1, 10) - s.ship[0]);
        first_column[column]++, to_right += dx > 0;
        for (int t = 1; !over; t++) {
            ppo_outcome out = {0};
            invaders_step(&s, &rng, &stay, obs, &out);
            memset(s.down, 0, sizeof s.down);
            if (t % 12 == 0) {
                const int turns = column + dx < 0 || column + 5 + dx > 9;
                if (turns) top++, dx = -dx;
                else column += dx;
            }
            assert_true(s.dx == dx && pixels(obs, dx < 0 ? 1 : 2, &x, &y) == 24);
            assert_true(x == column + 5 && y == top + 3 && s.ship[top][column] && out.reward == 0);
            over = out.terminated;
            assert_int_equal(over, top == 6); /* a ship is in the lowest row */
        }
    }
    for (int k = 0; k < 5; k++) assert_true(first_column[k] > 20);
    assert_true(to_right > 70 && to_right < 130);
}

static void the_cannon_shoots_every_fifth_step_and_what_it_hits_pays(void **state) {
    (void)state;
    ppo_rng rng = test_rng(44);
    float obs[MAX_OBS];
    invaders s;
    memset(&s, 0, sizeof s);
    s.cannon = 3, s.dx = 1, s.interval = 12, s.move = 1000, s.shoot = 1000, s.left = 1;
    s.ship[0][9] = 1; /* far away */
    for (int t = 0; t < 30; t++) {
        ppo_action fire = choose(3);
        ppo_outcome out = {0};
        int x, y, shots = t < 9 ? t / 5 + 1 : t % 5 == 4 ? 1 : 2; /* each is seen for nine steps */
        invaders_step(&s, &rng, &fire, obs, &out);
        assert_int_equal(pixels(obs, 3, &x, &y), shots);
        assert_true(x == 3 && y == 8 - t % 5); /* the latest */
        assert_true(out.reward == 0 && !out.terminated);
    }
}

/* Of three columns with ships one is the cannon's. */
static void ships_shoot_every_tenth_step_from_a_random_column(void **state) {
    (void)state;
    ppo_rng rng = test_rng(45);
    int hits = 0;
    for (int game = 0; game < 300; game++) {
        invaders s;
        float obs[MAX_OBS];
        ppo_action stay = choose(0);
        memset(&s, 0, sizeof s);
        s.cannon = 5, s.dx = 1, s.interval = 12, s.move = 1000, s.shoot = 10, s.left = 5;
        s.ship[1][4] = s.ship[0][5] = s.ship[2][5] = s.ship[3][7] = s.ship[1][7] = 1;
        for (int t = 1; t <= 19; t++) {
            ppo_outcome out = {0};
            int x, y;
            invaders_step(&s, &rng, &stay, obs, &out);
            const int shots = pixels(obs, 4, &x, &y);
            assert_int_equal(shots, t >= 10);
            if (t == 10) assert_int_equal(s.shoot, 10); /* until the next */
            if (!shots) continue;
            assert_true(x == 4 || x == 5 || x == 7);
            assert_int_equal(y, t - 10 + (x == 4 ? 1 : x == 5 ? 2 : 3));
            assert_int_equal(out.terminated, x == 5 && y == 9);
            hits += out.terminated;
            if (y == 9) break;
        }
    }
    assert_true(hits > 70 && hits < 130);
}

/* The fewer ships are left the sooner they move; a cleared board fills again, and moves a step sooner. */
static void fewer_ships_and_later_blocks_move_sooner(void **state) {
    (void)state;
    ppo_rng rng = test_rng(46);
    float obs[MAX_OBS];
    ppo_action stay = choose(0);
    ppo_outcome out = {0};
    for (int n = 1; n <= 14; n++) {
        invaders s;
        memset(&s, 0, sizeof s);
        s.dx = 1, s.interval = 12, s.move = 1, s.shoot = 1000, s.left = n;
        for (int k = 0; k < n; k++) s.ship[k / 7][k % 7] = 1;
        invaders_step(&s, &rng, &stay, obs, &out);
        assert_true(!s.ship[0][0] && s.ship[0][n < 7 ? n : 7]);
        assert_int_equal(s.move, n < 12 ? n : 12);
    }
    invaders s;
    invaders_reset(&s, &rng, obs);
    for (int block = 1; block <= 8; block++) {
        memset(s.ship, 0, sizeof s.ship);
        s.left = s.ship[4][2] = s.up[5][2] = 1; /* the last one is hit */
        s.move = 1000;
        memset(&out, 0, sizeof out);
        invaders_step(&s, &rng, &stay, obs, &out);
        assert_true(out.reward == 1 && s.left == 24);
        assert_int_equal(s.move, block < 6 ? 12 - block : 6);
    }
}

/* --------------------------------------------------------------------------------------------------------
   All of them
   -------------------------------------------------------------------------------------------------------- */

/* A legal action at random; box [1] is its number. */
static ppo_action random_action(const ppo_env *env, const void *state, ppo_rng *rng, float *box) {
    const ppo_space *space = &env->action_space;
    ppo_action action = choose(0);
    if (space->kind == PPO_BOX) {
        assert_int_equal(space->n, 1);
        *box = ppo_rng_range(rng, space->low, space->high);
        action.box = box;
        return action;
    }
    unsigned char mask[MAX_ACTIONS];
    memset(mask, 1, sizeof mask);
    if (env->action_mask) env->action_mask(state, mask);
    assert_true(space->n <= MAX_ACTIONS && memchr(mask, 1, (size_t)space->n));
    do action.discrete = ppo_rng_below(rng, space->n);
    while (!mask[action.discrete]);
    return action;
}

/* Calls visit before and after each of n steps at random, across episodes. Returns the sum of all that was
   seen. */
static double play_at_random(const ppo_env *env, uint32_t stream, int n,
                             void (*visit)(const ppo_env *env, const void *state)) {
    ppo_rng env_rng = test_rng(stream), rng = test_rng(stream + 1);
    any_state s;
    ppo_outcome out = {.terminated = 1};
    float obs[MAX_OBS], box;
    double sum = 0;
    assert_true(env->state_size <= sizeof s && env->obs_size <= MAX_OBS);
    memset(&s, 0, sizeof s);
    for (int i = 0, length = 0; i < n; i++) {
        if (out.terminated || (env->max_steps && length == env->max_steps)) {
            env->reset(&s, &env_rng, obs);
            for (int j = 0; j < env->obs_size; j++) sum += obs[j];
            length = 0;
        }
        if (visit) visit(env, &s);
        ppo_action action = random_action(env, &s, &rng, &box);
        memset(&out, 0, sizeof out);
        env->step(&s, &env_rng, &action, obs, &out);
        length++;
        if (visit) visit(env, &s);
        sum += out.reward;
        for (int j = 0; j < env->obs_size; j++) sum += obs[j];
    }
    return sum;
}

static void an_episode_depends_on_the_stream_and_the_actions_alone(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(all_envs); i++) {
        ppo_env env = all_envs[i]();
        double once = play_at_random(&env, 20, 1999, NULL), again = play_at_random(&env, 20, 1999, NULL);
        assert_true(isfinite(once) && once == again);
        assert_true(once != play_at_random(&env, 22, 1999, NULL));
    }
}

static void each_of_them_can_be_trained(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(all_envs); i++) {
        ppo_env env = all_envs[i]();
        ppo_config cfg = tiny_config();
        ppo_agent *agent = NULL;
        cfg.total_steps = 256, cfg.rollout_steps = 64;
        assert_ok(check_env(&env));
        assert_ok(ppo_train(&env, &cfg, &agent));
        assert_ok(ppo_evaluate(agent, &env, 3, 1).status);
        ppo_agent_free(agent);
    }
}

/* What draw() prints; text [MAX_TEXT]. Returns the number of lines. */
enum { MAX_TEXT = 16 * 65 + 1 };
static int drawn(const ppo_env *env, const void *state, char *text) {
    FILE *file = tmpfile();
    int lines = 0;
    size_t size;
    assert_non_null(file);
    env->draw(state, file);
    assert_true(ftell(file) < MAX_TEXT);
    rewind(file);
    size = fread(text, 1, MAX_TEXT - 1, file);
    text[size] = 0;
    fclose(file);
    for (size_t i = 0; i < size; i++) lines += text[i] == '\n';
    return lines;
}

static int lines_of_a_picture; /* the first one's */

/* At most 16 lines of at most 64 characters, all of a width: the next picture covers this one. */
static void check_picture(const ppo_env *env, const void *state) {
    char text[MAX_TEXT];
    int lines = drawn(env, state, text);
    size_t width = strcspn(text, "\n");
    if (!lines_of_a_picture) lines_of_a_picture = lines;
    assert_int_equal(lines, lines_of_a_picture);
    assert_true(lines <= 16 && width <= 64 && strlen(text) == (size_t)lines * (width + 1));
    for (size_t i = 0; text[i]; i++)
        if (i % (width + 1) == width) assert_int_equal(text[i], '\n');
        else assert_in_range(text[i], ' ', '~');
}

static void pictures_are_of_one_size_and_of_plain_characters(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(all_envs); i++) {
        ppo_env env = all_envs[i]();
        lines_of_a_picture = 0;
        play_at_random(&env, 30, 300, check_picture);
        assert_true(lines_of_a_picture > 0);
    }
}

static void assert_picture(const ppo_env *env, const void *state, const char *want) {
    char text[MAX_TEXT];
    drawn(env, state, text);
    if (strcmp(text, want) != 0) fail_msg("%s draws\n%snot\n%s", env->name, text, want);
}

static void board_and_maps_are_drawn_as_they_are(void **state) {
    (void)state;
    ppo_env grid = gridworld_env(), maze = memory_env(), game = tictactoe_env();
    gridworld corner = {8};
    assert_picture(&grid, &corner,
                   "+---+---+---+---+\n"
                   "|   |   |   | G |\n"
                   "+---+---+---+---+\n"
                   "|   |###|   | P |\n"
                   "+---+---+---+---+\n"
                   "| @ |   |   |   |\n"
                   "+---+---+---+---+\n");
    memory entered = {-1, 0, 0}, turned = {1, MEMORY_CORRIDOR, 1};
    assert_picture(&maze, &entered,
                   "cue: left                +---+\n"
                   "                         |   |\n"
                   "+------------------------+   |\n"
                   "| @                          |\n"
                   "+------------------------+   |\n"
                   "                         |   |\n"
                   "                         +---+\n");
    assert_picture(&maze, &turned,
                   "cue: right               +---+\n"
                   "                         |   |\n"
                   "+------------------------+   |\n"
                   "|                            |\n"
                   "+------------------------+   |\n"
                   "                         | @ |\n"
                   "                         +---+\n");
    tictactoe middle = {{TICTACTOE_X, 0, 0, 0, TICTACTOE_O, 0, 0, TICTACTOE_X, TICTACTOE_O}};
    assert_picture(&game, &middle,
                   " X |   |   \n"
                   "---+---+---\n"
                   "   | O |   \n"
                   "---+---+---\n"
                   "   | X | O \n");
}

/* Row and column of a character in the picture. */
static void find(const ppo_env *env, const void *state, char what, int *row, int *column) {
    char text[MAX_TEXT];
    drawn(env, state, text);
    const char *at = strchr(text, what);
    assert_non_null(at);
    int width = (int)strcspn(text, "\n") + 1;
    *row = (int)(at - text) / width, *column = (int)(at - text) % width;
}

static void pictures_of_motion_show_where_things_are(void **state) {
    (void)state;
    const double half_turn = 3.14159265358979;
    ppo_env cart = cartpole_env(), pole = pendulum_env(), links = acrobot_env(), car = mountaincar_env();
    int row, column;

    cartpole start = {0, 0, 0, 0}, right_end = {2.4, 0, 0, 0}, leaning = {-1.2, 0, 0.2, 0};
    find(&cart, &start, '#', &row, &column);
    assert_true(row == 1 && column == 30);
    find(&cart, &start, 'O', &row, &column);
    assert_true(row == 7 && column == 30);
    find(&cart, &right_end, 'O', &row, &column);
    assert_true(row == 7 && column == 60);
    find(&cart, &leaning, '[', &row, &column);
    assert_true(row == 7 && column == 12);
    find(&cart, &leaning, '#', &row, &column);
    assert_true(row == 1 && column == 17); /* to the right */

    pendulum up = {0, 0}, left = {half_turn / 2, 0};
    find(&pole, &up, '#', &row, &column);
    assert_true(row == 1 && column == 15);
    find(&pole, &left, '#', &row, &column);
    assert_true(row == 7 && column == 2);

    acrobot hanging = {0, 0, 0, 0}, to_the_right = {half_turn / 2, 0, 0, 0}, folded = {0, half_turn, 0, 0};
    acrobot bent = {half_turn / 2, half_turn / 2, 0, 0};
    find(&links, &hanging, '*', &row, &column);
    assert_true(row == 13 && column == 15);
    find(&links, &to_the_right, '*', &row, &column);
    assert_true(row == 8 && column == 23);
    find(&links, &folded, '*', &row, &column);
    assert_true(row == 9 && column == 15);
    find(&links, &bent, '*', &row, &column);
    assert_true(row == 4 && column == 22);

    mountaincar wall = {-1.2, 0}, floor = {-half_turn / 6, 0}, flag = {0.5, 0};
    find(&car, &wall, 'o', &row, &column);
    assert_true(row == 4 && column == 0);
    find(&car, &floor, 'o', &row, &column);
    assert_true(row == 11 && column == 23);
    find(&car, &flag, 'o', &row, &column);
    assert_true(row == 1 && column == 57);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_of_acrobot_is_that_of_gymnasium),
        cmocka_unit_test(every_step_of_mountaincar_is_that_of_gymnasium),
        cmocka_unit_test(every_step_of_pendulum_is_that_of_gymnasium),
        cmocka_unit_test(every_step_of_mountaincar_continuous_is_that_of_gymnasium),
        cmocka_unit_test(mountain_cars_run_free_through_whole_episodes_as_in_gymnasium),
        cmocka_unit_test(classic_tasks_have_the_spaces_and_time_limits_of_gymnasium),
        cmocka_unit_test(classic_tasks_start_where_gymnasium_does),
        cmocka_unit_test(value_iteration_gives_the_values_that_gridworld_states),
        cmocka_unit_test(gridworld_moves_slips_pays_and_ends_as_it_states),
        cmocka_unit_test(gridworld_starts_in_each_free_cell_alike),
        cmocka_unit_test(the_best_policy_of_gridworld_gets_the_return_it_states),
        cmocka_unit_test(the_cue_of_memory_is_left_or_right_and_shown_at_the_start),
        cmocka_unit_test(nothing_seen_after_the_first_step_of_memory_tells_the_cue_or_the_place),
        cmocka_unit_test(no_policy_without_memory_gets_more_than_0_in_memory),
        cmocka_unit_test(a_policy_that_remembers_the_cue_gets_1_in_memory),
        cmocka_unit_test(every_move_of_tictactoe_is_by_its_rules),
        cmocka_unit_test(tictactoe_begins_empty_or_with_one_stone_anywhere),
        cmocka_unit_test(tictactoe_returns_are_those_that_its_comment_states),
        cmocka_unit_test(a_random_player_gets_what_the_games_state),
        cmocka_unit_test(gold_pays_and_spears_end_the_episode),
        cmocka_unit_test(things_appear_and_fly_sooner_and_sooner),
        cmocka_unit_test(the_planes_of_gold_show_what_is_where),
        cmocka_unit_test(ships_march_to_the_walls_and_down),
        cmocka_unit_test(the_cannon_shoots_every_fifth_step_and_what_it_hits_pays),
        cmocka_unit_test(ships_shoot_every_tenth_step_from_a_random_column),
        cmocka_unit_test(fewer_ships_and_later_blocks_move_sooner),
        cmocka_unit_test(an_episode_depends_on_the_stream_and_the_actions_alone),
        cmocka_unit_test(each_of_them_can_be_trained),
        cmocka_unit_test(pictures_are_of_one_size_and_of_plain_characters),
        cmocka_unit_test(board_and_maps_are_drawn_as_they_are),
        cmocka_unit_test(pictures_of_motion_show_where_things_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
