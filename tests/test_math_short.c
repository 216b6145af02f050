/* test_math.c once more, with the kernels that GCC on Windows gets. */
#define PPO__SHORT_VECTORS
#define PPO_IMPLEMENTATION
#include "test_math.c"
