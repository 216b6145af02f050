/* private_cuda.cpp - the tests of ppo_cuda.cuh in one file with it, so that it and its emulation are compiled once. Each
   is a program of its own name nevertheless, as in private.c. */
#ifdef __SANITIZE_ADDRESS__
#define PPO__SHORT_VECTORS /* one set of kernels of the processor is enough */
#endif
#include "cuda_emulation.h"
/* Most of the time passes in the emulation. What is emulated compiles in two thirds of the time with -Og. */
#if defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
#pragma GCC optimize("Og")
#endif
#include "cuda_test.h"
/* The tests themselves need not be fast, and compile in half the time. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O0")
#endif
#include "system.h"

#include <memory>
#include <sched.h>
#include <string>
#include <thread>
#include <unistd.h>

#define main main_of_tests
namespace test_cuda_group {
#include "test_cuda_group.cpp"
}
namespace test_cuda_linear {
#include "test_cuda_linear.cpp"
}
namespace test_cuda_losses {
#include "test_cuda_losses.cpp"
}
namespace test_cuda_models {
#include "test_cuda_models.cpp"
}
namespace test_cuda_operations {
#include "test_cuda_operations.cpp"
}
namespace test_cuda_sampling {
#include "test_cuda_sampling.cpp"
}
namespace test_cuda_tokens {
#include "test_cuda_tokens.cpp"
}
#undef main

static const test_program programs[] = {{"test_cuda_group", test_cuda_group::main_of_tests},
                                        {"test_cuda_linear", test_cuda_linear::main_of_tests},
                                        {"test_cuda_losses", test_cuda_losses::main_of_tests},
                                        {"test_cuda_models", test_cuda_models::main_of_tests},
                                        {"test_cuda_operations", test_cuda_operations::main_of_tests},
                                        {"test_cuda_sampling", test_cuda_sampling::main_of_tests},
                                        {"test_cuda_tokens", test_cuda_tokens::main_of_tests}};

int main(int argc, char **argv) { return run_program(programs, COUNT(programs), argc > 0 ? argv[0] : ""); }
