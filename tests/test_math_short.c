/* test_math.c once more, with the kernels that GCC on Windows gets. */
#ifndef __clang__
#define PPO__SHORT_VECTORS
#endif
#define PPO_NO_LANGUAGE
#define PPO_NO_REPORTS
#define PPO_IMPLEMENTATION
#include "test_math.c"
