# tests.mk - make test, and what else is tested; tests/README.md says what each part guards.
#
# The test programs are built in three flavours: plain, with AddressSanitizer and UndefinedBehaviorSanitizer, and those
# that use threads with ThreadSanitizer. What takes long under a sanitizer is smaller there (PPO_TEST_SMALL).
PLAIN_FLAGS := -O2 -Wall -Wextra
# What null, object-size, vptr and pointer-overflow would find, AddressSanitizer finds, too, at the access; they take a fifth of the
# time to compile. `make fuzz` has the last one.
ASAN_FLAGS  := -O2 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined,float-cast-overflow \
    -fno-sanitize=null,object-size,vptr,pointer-overflow -fno-sanitize-recover=all -DPPO_TEST_SMALL
TSAN_FLAGS  := -O1 -g1 -fsanitize=thread -DPPO_TEST_SMALL -DPPO_TEST_TSAN

# Together: those that test private functions are compiled once, in one file with the implementation (tests/private.c);
# where its object has sanitizers, the other programs link it as the library. Alone: with an implementation of its own.
TOGETHER := test_autograd test_checkpoints test_corpus test_diagnose test_families test_generation test_math \
            test_memory test_models test_normalizers test_recurrent test_rlhf test_tensors test_threads \
            test_tokenizers
ALONE    := test_files test_math_tuned
THREADED := test_agents test_base test_checkpoints test_control test_game test_ocean test_recurrent test_rollouts \
    test_spaces test_threads
NAMES    := $(filter-out test_mujoco,$(basename $(notdir $(wildcard tests/test_*.c))))
LINKED   := $(filter-out $(TOGETHER) $(ALONE),$(NAMES))
TUNED    := $(patsubst %,build/plain/test_math_%,skylake zen native) # test_math_tuned.c
PLAIN    := $(patsubst %,build/plain/%,$(filter-out test_abuse test_math_tuned,$(NAMES))) $(TUNED) # test_abuse needs a sanitizer
NUMBERS  := test_math_tuned test_unbiased test_unbiased_tokens # whose code other tests have, too
ASAN     := $(patsubst %,build/asan/%,$(filter-out $(NUMBERS),$(NAMES)))
TSAN     := $(THREADED:%=build/tsan/%)
CUDA_HEADERS := $(wildcard ppo_cuda.cuh examples/companions/*.cuh tests/cuda_*.h)
TEST_HEADERS := $(HEADERS) $(filter-out $(CUDA_HEADERS) tests/fault_%,$(wildcard tests/*.h tests/golden/*.h))

# The test of LunarLander needs a C++ compiler and Box2D; that of MuJoCo's tasks libmujoco, and the models of Gymnasium;
# those of CUDA a C++ compiler, for an emulation.
LUNAR  := build/plain/test_lunarlander build/asan/test_lunarlander
MUJOCO := build/plain/test_mujoco build/asan/test_mujoco
CUDA_TOGETHER := test_cuda_group test_cuda_linear test_cuda_losses test_cuda_models test_cuda_operations test_cuda_sampling \
                 test_cuda_tokens
CUDA   := $(patsubst %,build/asan/%,$(CUDA_TOGETHER) test_cuda_emulation)
OPTIONAL = $(if $(wildcard build/box2d.found),$(LUNAR)) $(if $(wildcard build/mujoco.found),$(MUJOCO))
EMULATED = $(if $(wildcard build/cxx.found),$(CUDA))

test: build/stb_ds.found build/cmocka.found ## runs all tests; the last line is "N passed, N failed"
	-@$(MAKE) --no-print-directory -s build/box2d.found || echo "note: LunarLander is not tested, there is no Box2D"
	-@$(MAKE) --no-print-directory -s build/mujoco.found || echo "note: the tasks of MuJoCo are not tested, there is no MuJoCo"
	-@$(MAKE) --no-print-directory -s build/cxx.found || echo "note: CUDA is not tested, there is no C++ compiler"
	@CONTROL=build/ppo.o $(MAKE) --no-print-directory test-all

# The longest come first.
SCRIPTS_FIRST := tests/compile.sh tests/web.sh tests/rlhf.sh tests/export.sh tests/systems.sh
SCRIPTS := tests/chat.sh tests/finetune.sh tests/kill.sh tests/mpi.sh tests/install.sh tests/cli.sh tests/plot.sh \
    tests/docs.sh tests/lessons.sh tests/python.sh $(wildcard tests/traps_*.sh)
RUN_ALL = sh tests/run.sh -j$(PROCESSORS)

test-all:
	-@$(MAKE) --no-print-directory -k $(JOBS) test-programs LESSON_FLAGS='-Werror -O1'
	@$(RUN_ALL) $(SCRIPTS_FIRST) $(EMULATED) $(TSAN) tests/grade.sh $(ASAN) $(FAULTS) \
	    $(OPTIONAL) $(SCRIPTS) $(PLAIN)

test-long: test-programs ## ten seeds of CartPole-v1, 100 kills, 100,000 damaged files, all floats, all sizes under sanitizers
	@sh tests/seeds.sh
	@KILLS=100 PPO_FUZZ=100000 PPO_EVERY_FLOAT=1 $(RUN_ALL) build/plain/test_math build/asan/test_files \
	    build/asan/test_checkpoints build/asan/test_tokenizers build/asan/test_transformer tests/kill.sh
	@PPO_TEST_FULL=1 $(RUN_ALL) tests/compile.sh $(EMULATED) $(ASAN) $(TSAN)

tunings: build/stb_ds.found build/cmocka.found ## tests the kernels as gcc and clang compile them for a dozen processors; TUNINGS="znver2 ..." for some
	@sh tests/tunings.sh

systems: build/stb_ds.found build/abuse/defaults.h ## builds and runs ppo.h on other systems, as far as there are cross compilers and emulators
	@PPO_SYSTEMS=run sh tests/run.sh tests/systems.sh

# What users of such libraries reported as faults, and what they fell into here: test_traps_SUBJECT.c, traps_SUBJECT.sh.
TRAPS := $(filter build/plain/test_traps_%,$(PLAIN)) $(wildcard tests/traps_*.sh) tests/auto_classes.sh

traps: $(TRAPS) ## what users of such libraries fell into, each as a test
	@$(RUN_ALL) $(TRAPS)

# What takes long to compile comes first.
OBJECTS := build/plain/private.o build/asan/private.o build/tsan/private.o build/cov/private.o
test-programs: $(EMULATED) build/asan/private.o build/plain/private.o build/ppo.o build/tsan/private.o \
    $(EXAMPLES) $(LESSONS) $(GRADED) $(PLAIN) $(ASAN) $(TSAN) $(OPTIONAL)

build/plain/%: FLAVOUR = $(PLAIN_FLAGS)
build/asan/%:  FLAVOUR = $(ASAN_FLAGS)
build/tsan/%:  FLAVOUR = $(TSAN_FLAGS)

# A test that is linked with the library, which is optimized, need not be itself: it compiles in a third of the time.
$(LINKED:%=build/plain/%) $(LINKED:%=build/asan/%) $(LINKED:%=build/tsan/%): OWN = -O0

# What compilers made of the kernels when they tuned for some processor: gcc 12 called the wrong one of three functions for
# Skylake's servers, and fused some products and sums for Zen, and left others. -O3 -march=native is what users add by themselves.
# Of the flags, those that this compiler takes. `make tunings` tries all.
tuning = $(shell for f in $(1); do echo | $(CC) $$f -E - >/dev/null 2>&1 && printf '%s ' $$f; done)
build/plain/test_math_skylake: OWN = $(call tuning,-mtune=skylake-avx512) -DPPO_TEST_NO_VECTOR16
build/plain/test_math_zen:     OWN = $(call tuning,-march=native -mtune=znver2) -DPPO__SHORT_VECTORS
build/plain/test_math_native:  OWN = -O3 $(call tuning,-march=native) -DPPO_TEST_NO_VECTOR16

# The library for the test program $@: an object, or a static copy.
LIBRARY = $(if $(filter $(@F),$(ALONE) $(notdir $(TUNED))),-DPPO_STATIC,$(filter %.o,$^))

# Calls of all public functions, by the declarations of the headers.
build/abuse/calls.h: tests/abuse.awk tests/abuse.txt ppo.h $(wildcard examples/companions/*.h)
	@mkdir -p $(@D)
	awk -f tests/abuse.awk tests/abuse.txt $(filter %.h,$^) >$@
build/asan/test_abuse build/cov/test_abuse: build/abuse/calls.h

# What the headers say of defaults.
build/abuse/defaults.h: tests/defaults.awk ppo.h $(wildcard examples/companions/*.h)
	@mkdir -p $(@D)
	awk -f tests/defaults.awk $(filter %.h,$^) >$@
build/plain/test_defaults build/asan/test_defaults build/cov/test_defaults: build/abuse/defaults.h

build/plain/test_web build/asan/test_web: $(wildcard examples/web/*.h)
build/plain/test_mpi build/asan/test_mpi: OWN = -O0 -Itests/mpi_emulation
build/plain/test_mpi build/asan/test_mpi build/cov/test_mpi: tests/mpi_emulation/mpi.h

$(OBJECTS): tests/private.c $(TOGETHER:%=tests/%.c) $(TEST_HEADERS) tests/tests.mk | build/stb_ds.found
	@mkdir -p $(@D)
	$(CC) $(FLAVOUR) -I. -c $< -o $@

# Those in one file are one program with many names, at which its main() looks.
ONE := $(foreach f,plain asan tsan,$(TOGETHER:%=build/$(f)/%))
build/plain/private build/asan/private build/tsan/private: %: %.o
	$(CC) $(FLAVOUR) $< -o $@ -lcmocka $(LDLIBS)
$(filter build/plain/%,$(ONE)): build/plain/private
$(filter build/asan/%,$(ONE)):  build/asan/private
$(filter build/tsan/%,$(ONE)):  build/tsan/private
$(CUDA_TOGETHER:%=build/asan/%): build/asan/private_cuda
$(ONE) $(CUDA_TOGETHER:%=build/asan/%):
	@ln -f $< $@

$(LINKED:%=build/plain/%) build/plain/test_lunarlander build/plain/test_mujoco: build/ppo.o
$(LINKED:%=build/asan/%) build/asan/test_lunarlander build/asan/test_mujoco: build/asan/private.o
$(LINKED:%=build/tsan/%): build/tsan/private.o

ALL := $(filter-out $(ONE) $(TUNED),$(PLAIN) $(ASAN) $(TSAN))
$(filter build/plain/%,$(ALL)): build/plain/%: tests/%.c
$(filter build/asan/%,$(ALL)):  build/asan/%:  tests/%.c
$(filter build/tsan/%,$(ALL)):  build/tsan/%:  tests/%.c
$(TUNED): tests/test_math_tuned.c tests/test_math.c
$(ALL) $(TUNED): $(TEST_HEADERS) tests/tests.mk
	@mkdir -p $(@D); rm -f $@
	$(CC) $(FLAVOUR) $(OWN) -I. $(firstword $(filter tests/%.c,$^)) $(LIBRARY) -o $@ -lcmocka $(LDLIBS)

$(LUNAR): tests/test_lunarlander.cpp $(TEST_HEADERS) tests/tests.mk
	@mkdir -p $(@D); rm -f $@
	$(CXX) -std=c++17 $(FLAVOUR) -Wall -Wextra -Wno-missing-field-initializers -I. $< $(LIBRARY) -o $@ -lcmocka -lbox2d $(LDLIBS)

$(MUJOCO): tests/test_mujoco.c $(TEST_HEADERS) tests/tests.mk | build/mujoco.found
	@mkdir -p $(@D); rm -f $@
	$(CC) $(FLAVOUR) -I. $< $(LIBRARY) @build/mujoco.found -o $@ -lcmocka $(LDLIBS)

# The processor's kernels come with them: the plain ones add in floats one after the other, which is too far from what the device
# computes. With GCC's runtime in the program, a fiber takes over from another in less time; Clang does that by itself.
CUDA_FLAGS = -std=c++17 $(FLAVOUR) -O1 -Wall -Wextra -Wno-missing-field-initializers -I.
build/asan/private_cuda.o: tests/private_cuda.cpp $(CUDA_TOGETHER:%=tests/%.cpp) $(CUDA_HEADERS) $(TEST_HEADERS) tests/tests.mk
	@mkdir -p $(@D)
	$(CXX) $(CUDA_FLAGS) -DPPO_STATIC -c $< -o $@

build/asan/private_cuda: build/asan/private_cuda.o
	$(CXX) $(FLAVOUR) -static-libasan -static-libubsan $< -o $@ -lcmocka $(LDLIBS) 2>/dev/null || \
	    $(CXX) $(FLAVOUR) $< -o $@ -lcmocka $(LDLIBS)

build/asan/test_cuda_emulation: tests/test_cuda_emulation.cpp $(CUDA_HEADERS) $(TEST_HEADERS) tests/tests.mk
	@mkdir -p $(@D); rm -f $@
	$(CXX) $(CUDA_FLAGS) -O0 $< -o $@ -lcmocka $(LDLIBS)

# What runs of the library, with all tests of `plain` in small size, the emulation of CUDA, and the export of policies. A child
# that ends by _exit() tells what ran in it, too. The longest test comes first.
COV_FLAGS := -O1 -fno-inline --coverage -fprofile-update=atomic -DPPO_TEST_SMALL
COV       := $(patsubst %,build/cov/%,$(if $(wildcard build/cxx.found),test_cuda_models $(filter-out test_cuda_models,$(CUDA_TOGETHER))) $(filter-out $(ALONE),$(NAMES)))

coverage: build/stb_ds.found build/cmocka.found ## which lines and branches of the library the tests run; fails below the floors of coverage.sh
	-@$(MAKE) --no-print-directory -s build/cxx.found || echo "note: ppo_cuda.cuh is left out, there is no C++ compiler"
	@$(MAKE) --no-print-directory -k $(JOBS) coverage-programs
	@$(MAKE) --no-print-directory coverage-run

coverage-run: # after what is installed is known
	@COV="$(COV) build/cov/test_files" sh tests/coverage.sh $(ARGS)

coverage-programs: $(COV) build/cov/test_files build/cov/export

build/cov/%: FLAVOUR = $(COV_FLAGS)
build/cov/exit.o: tests/coverage_exit.c
	@mkdir -p $(@D)
	$(CC) -O1 -c $< -o $@

build/cov/private_cuda.o: tests/private_cuda.cpp $(CUDA_TOGETHER:%=tests/%.cpp) $(CUDA_HEADERS) $(TEST_HEADERS) tests/tests.mk
	@mkdir -p $(@D)
	$(CXX) $(CUDA_FLAGS) -DPPO_STATIC -c $< -o $@

$(CUDA_TOGETHER:%=build/cov/%): build/cov/private_cuda.o build/cov/exit.o
	$(CXX) $^ -Wl,--wrap=_exit -o $@ -lcmocka $(LDLIBS) --coverage

$(patsubst %,build/cov/%,$(filter-out $(ALONE),$(NAMES))): build/cov/%: tests/%.c build/cov/private.o build/cov/exit.o $(TEST_HEADERS)
	$(CC) -O0 $(OWN) -DPPO_TEST_SMALL -I. $(if $(filter $(@F),$(TOGETHER)),,$<) build/cov/private.o build/cov/exit.o \
	    -Wl,--wrap=_exit -o $@ -lcmocka $(LDLIBS) -lgcov

# These have their companion in themselves.
build/cov/test_mpi:   OWN = --coverage -fprofile-update=atomic -Itests/mpi_emulation
build/cov/test_ocean: OWN = --coverage -fprofile-update=atomic
build/cov/test_files build/cov/export: build/cov/%: tests/%.c build/cov/exit.o $(TEST_HEADERS)
	$(CC) $(COV_FLAGS) -DPPO_STATIC -I. $< build/cov/exit.o -Wl,--wrap=_exit -o $@ -lcmocka $(LDLIBS)

.PHONY: coverage coverage-run coverage-programs test test-all test-long test-programs systems traps tunings
