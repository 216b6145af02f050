/* connect4.h - connect four for ppo.h (include that first): two agents in one world that take turns.

       . . . . . . .     A move drops a stone into one of seven columns. Who has four in a line, across, upright
       . . . . . . .     or diagonal, wins: 1 for the winner, -1 for the other, 0 for both where the board is full.
       . . . . . . .     Full columns are masked.
       . . . X . . .
       . . O O . . .     connect4_env(): both players are agents, for training by self-play. The one who is not
       . X X O X . .     at turn waits. Each sees the board from its own side: its stones, then the other's.

   connect4_opponent_env(): one agent, against a player that completes a line where it can, else blocks one, else
   moves at random. Who begins is drawn. A player that moves at random wins 4 of 100 games against it. */

#ifndef CONNECT4_H
#define CONNECT4_H

#include "canvas.h"

enum { CONNECT4_COLUMNS = 7, CONNECT4_ROWS = 6, CONNECT4_CELLS = CONNECT4_COLUMNS * CONNECT4_ROWS };

/* A set of cells is a number with a bit for each: bit 7 * column + row, row 0 at the bottom. Row 6 is always empty,
   so that no line continues from the top of a column at the bottom of the next. */
typedef struct connect4 {
    uint64_t stones[2]; /* of each player */
    int turn;           /* the player who moves next */
} connect4;

static inline uint64_t connect4_cell(int column, int row) { return (uint64_t)1 << (7 * column + row); }

/* 1: four of the cells are in a line. */
static inline int connect4_line(uint64_t cells) {
    static const int next[4] = {1, 6, 7, 8}; /* from a cell to that above, down right, right, and up right */
    for (int i = 0; i < 4; i++) {
        uint64_t pairs = cells & (cells >> next[i]);
        if (pairs & (pairs >> 2 * next[i])) return 1;
    }
    return 0;
}

/* Where a stone comes to lie that is dropped into the column; no cell if that is full. */
static inline uint64_t connect4_landing(const connect4 *s, int column) {
    for (int row = 0; row < CONNECT4_ROWS; row++) {
        uint64_t cell = connect4_cell(column, row);
        if (!((s->stones[0] | s->stones[1]) & cell)) return cell;
    }
    return 0;
}

static inline int connect4_full(const connect4 *s) {
    for (int column = 0; column < CONNECT4_COLUMNS; column++)
        if (connect4_landing(s, column)) return 0;
    return 1;
}

/* The player at turn moves. Returns 1 if that wins, -1 if it loses because the column was full, else 0. */
static inline int connect4_move(connect4 *s, int column) {
    uint64_t cell = connect4_landing(s, column);
    int player = s->turn;
    s->stones[player] |= cell;
    s->turn = !player;
    return cell == 0 ? -1 : connect4_line(s->stones[player]);
}

/* The board [84] from the side of a player. */
static inline void connect4_observe(const connect4 *s, int player, float *obs) {
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < CONNECT4_CELLS; i++) {
            uint64_t cell = connect4_cell(i % CONNECT4_COLUMNS, i / CONNECT4_COLUMNS);
            *obs++ = s->stones[side ? !player : player] & cell ? 1.0f : 0.0f;
        }
}

/* Both agents [2]: who is at turn sees the board, the other waits. */
static inline void connect4_tell(const connect4 *s, float *obs, ppo_outcome *out) {
    connect4_observe(s, s->turn, obs + s->turn * 2 * CONNECT4_CELLS);
    out[!s->turn].waits = 1;
}

/* Up to 11 moves are made at random, so that the players get to know more of the game than their favorite lines. */
static inline void connect4_reset_all(void *state, ppo_rng *rng, float *obs, ppo_outcome *out) {
    connect4 *s = (connect4 *)state;
    int moves = ppo_rng_below(rng, 12);
    memset(s, 0, sizeof *s);
    for (int i = 0; i < moves; i++) {
        if (!connect4_move(s, ppo_rng_below(rng, CONNECT4_COLUMNS))) continue;
        memset(s, 0, sizeof *s); /* that was a win, or no move: once more */
        i = -1;
    }
    connect4_tell(s, obs, out);
}

static inline void connect4_step_all(void *state, ppo_rng *rng, const ppo_action *actions, float *obs,
                                     ppo_outcome *out) {
    connect4 *s = (connect4 *)state;
    int player = s->turn, result = connect4_move(s, actions[player].discrete);
    (void)rng;
    out[player].reward = (float)result;
    out[!player].reward = (float)-result;
    out[0].terminated = out[1].terminated = result || connect4_full(s);
    connect4_tell(s, obs, out);
}

/* Full columns become 0, for one agent. */
static inline void connect4_mask(const void *state, unsigned char *mask) {
    for (int column = 0; column < CONNECT4_COLUMNS; column++)
        if (!connect4_landing((const connect4 *)state, column)) mask[column] = 0;
}

static inline void connect4_mask_all(const void *state, unsigned char *mask) {
    for (int player = 0; player < 2; player++) connect4_mask(state, mask + player * CONNECT4_COLUMNS);
}

/* A column in which the player would complete a line, or -1. */
static inline int connect4_winning_column(const connect4 *s, int player) {
    for (int column = 0; column < CONNECT4_COLUMNS; column++) {
        uint64_t cell = connect4_landing(s, column);
        if (cell && connect4_line(s->stones[player] | cell)) return column;
    }
    return -1;
}

/* The opponent's column: a win, else a block, else any that is not full. */
static inline int connect4_win_or_block(const connect4 *s, ppo_rng *rng) {
    int column = connect4_winning_column(s, s->turn);
    if (column < 0) column = connect4_winning_column(s, !s->turn);
    while (column < 0 || !connect4_landing(s, column)) column = ppo_rng_below(rng, CONNECT4_COLUMNS);
    return column;
}

/* The agent is player 0, the opponent player 1. */
static inline void connect4_opponent_reset(void *state, ppo_rng *rng, float *obs) {
    connect4 *s = (connect4 *)state;
    memset(s, 0, sizeof *s);
    s->turn = ppo_rng_below(rng, 2);
    if (s->turn == 1) connect4_move(s, connect4_win_or_block(s, rng));
    connect4_observe(s, 0, obs);
}

static inline void connect4_opponent_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                                          ppo_outcome *out) {
    connect4 *s = (connect4 *)state;
    int result = connect4_move(s, action->discrete);
    if (!result && !connect4_full(s)) result = -connect4_move(s, connect4_win_or_block(s, rng));
    out->reward = (float)result;
    out->terminated = result || connect4_full(s);
    connect4_observe(s, 0, obs);
}

static inline void connect4_draw(const void *state, FILE *file) {
    const connect4 *s = (const connect4 *)state;
    canvas picture = canvas_blank(2 * CONNECT4_COLUMNS - 1, CONNECT4_ROWS);
    for (int i = 0; i < CONNECT4_CELLS; i++) {
        int column = i % CONNECT4_COLUMNS, row = i / CONNECT4_COLUMNS;
        uint64_t cell = connect4_cell(column, row);
        canvas_put(&picture, 2 * column, CONNECT4_ROWS - 1 - row,
                   s->stones[0] & cell   ? 'X'
                   : s->stones[1] & cell ? 'O'
                                         : '.');
    }
    canvas_print(&picture, file);
}

/* What both have in common. */
static inline ppo_env connect4_board_env(void) {
    ppo_env env;
    memset(&env, 0, sizeof env);
    env.obs_size = 2 * CONNECT4_CELLS; /* where the player's stones are, and the other's: rows of 7 */
    env.action_space = ppo_discrete(CONNECT4_COLUMNS); /* the column */
    env.state_size = sizeof(connect4);
    env.max_steps = 0; /* none: the board gets full */
    env.draw = connect4_draw;
    return env;
}

static inline ppo_env connect4_env(void) {
    ppo_env env = connect4_board_env();
    env.name = "ConnectFour-v0";
    env.agents = 2;
    env.teams = 2;
    env.reset_all = connect4_reset_all;
    env.step_all = connect4_step_all;
    env.action_mask = connect4_mask_all;
    return env;
}

static inline ppo_env connect4_opponent_env(void) {
    ppo_env env = connect4_board_env();
    env.name = "ConnectFourOpponent-v0";
    env.reset = connect4_opponent_reset;
    env.step = connect4_opponent_step;
    env.action_mask = connect4_mask;
    return env;
}

#endif
