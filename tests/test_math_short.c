/* test_math.c once more, with the kernels that GCC on Windows gets, and with -O3 -march=native, with which a compiler
   may fuse what stands beside each other. */
#ifndef __clang__
#define PPO__SHORT_VECTORS
#endif
#define PPO_NO_LANGUAGE
#define PPO_NO_REPORTS
#define PPO_IMPLEMENTATION
#include "test_math.c"
