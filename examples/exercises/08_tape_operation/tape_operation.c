/* Exercise 8: an operation on the tape.
   The task is in README.md; `make grade EX=08` grades this file. */
#include "tape_operation.h"

/* a and b are (n, cols); returns (n, 1): out[i] = sum over j of (a[i][j] - b[i][j])^2. */
ppo_tensor *tape_squared_distance(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b) {
    /* your code, and two functions above: static ppo_status forward(ppo_node *node), static void
       backward(ppo_node *node) */
    return NULL;
}
