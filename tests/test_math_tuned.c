/* test_math.c once more, in small, for a compiler that was told which processor to tune for: tests.mk says which, and
   `make tunings` goes over all that the compilers know. With PPO__SHORT_VECTORS, the kernels that GCC on Windows gets. */
#define PPO_TEST_SMALL
#define PPO_TEST_TUNED
#define PPO_NO_LANGUAGE
#define PPO_NO_REPORTS
#define PPO_IMPLEMENTATION
#include "test_math.c"
