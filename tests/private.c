/* private.c - the tests that call functions of the implementation, in one file with it, so that it is compiled once for
   all of them. Each is a program of its own name nevertheless, in its own process: main() looks at argv[0]. Programs
   whose tests call public functions alone can be linked with the object as with a library. */

#ifdef PPO__KERNEL_PASS
/* The kernels of 16 bytes, which have no PREFIX, train nothing here: with -Og they compile in half the time. */
#pragma GCC push_options
#if defined(__x86_64__) && !defined(PPO__PREFIX)
#pragma GCC optimize("Og")
#endif
#include "ppo.h"
#pragma GCC pop_options
#else

/* Thousands of files need not reach the disk; test_files.c sees to it that the library waits for that, and faults.c, which
   has a function of this name, what it does where that fails. */
#include <unistd.h>
__attribute__((weak)) int private_fsync(int descriptor) { return (void)descriptor, 0; }
#define fsync(descriptor) private_fsync(descriptor)
#ifndef PPO_TEST_TSAN /* a race does not depend on the kernels */
#define PPO_VECTOR16
#endif
#include "pages.h"
#ifdef __SANITIZE_ADDRESS__
#define PPO_FILE_NAME "tests/private.c" /* which ppo.h includes for each set of kernels */
#endif
#define PPO_IMPLEMENTATION
#include "../ppo.h"
#undef fsync
#include "../examples/companions/ppo_amx.h"
/* Sanitizers take long for what is optimized, more than its tests gain. Without them build/ppo.o has it with -O2. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#pragma GCC optimize("O0")
#elif defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O1")
#endif
#include "../examples/companions/ppo_bpe.h"
#include "../examples/companions/ppo_check.h"
#include "../examples/companions/ppo_conv.h"
#include "../examples/companions/ppo_explain.h"
#include "../examples/companions/ppo_export.h"
#include "../examples/companions/ppo_flat.h"
#include "../examples/companions/ppo_group.h"
#include "../examples/companions/ppo_gru.h"
#include "../examples/companions/ppo_gguf.h"
#include "../examples/companions/ppo_chat.h"
#include "../examples/companions/ppo_hub.h"
#include "../examples/companions/ppo_judge.h"
#include "../examples/companions/ppo_methods.h"
#include "../examples/companions/ppo_onnx.h"
#include "../examples/companions/ppo_player.h"
#include "../examples/companions/ppo_report.h"
#include "../examples/companions/ppo_resume.h"
#include "../examples/companions/ppo_teach.h"

/* The tests themselves need not be as fast as the library, and compile in a third of the time. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O0")
#endif

#include "golden/language.h"
#include "test.h"
#include "system.h"

/* What several of the files define gets the file's name in front of its own. A name that clashes needs a line here. */
#define JOIN(a, b)           a##_##b
#define NAME_IN(file, name)  JOIN(file, name)
#define main                 NAME_IN(FILE_NAME, main)
#define home                 NAME_IN(FILE_NAME, home)
#define enter_folder         NAME_IN(FILE_NAME, enter_folder)
#define leave_folder         NAME_IN(FILE_NAME, leave_folder)
#define open_tape            NAME_IN(FILE_NAME, open_tape)
#define close_tape           NAME_IN(FILE_NAME, close_tape)
#define begin                NAME_IN(FILE_NAME, begin)
#define end                  NAME_IN(FILE_NAME, end)
#define small_lm             NAME_IN(FILE_NAME, small_lm)
#define ROWS                 NAME_IN(FILE_NAME, ROWS)
#define DIM                  NAME_IN(FILE_NAME, DIM)
#define bench                NAME_IN(FILE_NAME, bench)
#define create               NAME_IN(FILE_NAME, create)
#define widths               NAME_IN(FILE_NAME, widths)
#define some_prompts         NAME_IN(FILE_NAME, some_prompts)
#define assert_same_settings NAME_IN(FILE_NAME, assert_same_settings)
#define every_failing_allocation_is_reported_and_leaks_nothing \
    NAME_IN(FILE_NAME, every_failing_allocation_is_reported_and_leaks_nothing)

#define FILE_NAME test_checkpoints
#include "test_checkpoints.c"
#undef FILE_NAME
#undef TEST

#define FILE_NAME test_recurrent
#include "test_recurrent.c"
#undef FILE_NAME

#define FILE_NAME test_threads
#include "test_threads.c"
#undef FILE_NAME

#ifndef PPO_TEST_TSAN /* these have one thread: none of them is in build/tsan, as long as none mentions threads */
#define FILE_NAME test_autograd
#include "test_autograd.c"
#undef FILE_NAME

#define FILE_NAME test_corpus
#include "test_corpus.c"
#undef FILE_NAME

#define FILE_NAME test_diagnose
#include "test_diagnose.c"
#undef FILE_NAME

#define FILE_NAME test_families
#include "test_families.c"
#undef FILE_NAME

#define FILE_NAME test_generation
#include "test_generation.c"
#undef FILE_NAME

#define FILE_NAME test_math
#include "test_math.c"
#undef FILE_NAME

#define FILE_NAME test_memory
#include "test_memory.c"
#undef FILE_NAME

#define FILE_NAME test_models
#include "test_models.c"
#undef FILE_NAME

#define FILE_NAME test_normalizers
#include "test_normalizers.c"
#undef FILE_NAME

#define FILE_NAME test_rlhf
#include "test_rlhf.c"
#undef FILE_NAME

#define FILE_NAME test_tensors
#include "test_tensors.c"
#undef FILE_NAME

#define FILE_NAME test_tokenizers
#include "test_tokenizers.c"
#undef FILE_NAME
#endif

static const test_program programs[] = {{"test_checkpoints", test_checkpoints_main},
                                        {"test_recurrent", test_recurrent_main},
                                        {"test_threads", test_threads_main},
#ifndef PPO_TEST_TSAN
                                        {"test_autograd", test_autograd_main},
                                        {"test_corpus", test_corpus_main},
                                        {"test_diagnose", test_diagnose_main},
                                        {"test_families", test_families_main},
                                        {"test_generation", test_generation_main},
                                        {"test_math", test_math_main},
                                        {"test_memory", test_memory_main},
                                        {"test_models", test_models_main},
                                        {"test_normalizers", test_normalizers_main},
                                        {"test_rlhf", test_rlhf_main},
                                        {"test_tensors", test_tensors_main},
                                        {"test_tokenizers", test_tokenizers_main}
#endif
};

/* A program that is linked with this object has a main() of its own. */
#undef main
__attribute__((weak)) int main(int argc, char **argv) {
    return run_program(programs, COUNT(programs), argc > 0 ? argv[0] : "");
}

#endif
