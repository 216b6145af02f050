# GNU make. `make help` lists the targets; everything that is built goes to build/.

CC       ?= cc
CXX      ?= c++
CFLAGS   ?= -O2
CXXFLAGS ?= -O2
LDLIBS    = -lm
ARGS      =
CSV       = build/progress.csv

HEADERS  := ppo.h $(wildcard stb_ds.h examples/*.h examples/companions/*.h examples/envs/*.h* examples/lessons/*.h)
EXAMPLES := $(patsubst examples/%.c,build/%,$(filter-out examples/ppo.c examples/mujoco.c,$(wildcard examples/*.c)))
LESSONS  := $(patsubst examples/%.c,build/%,$(wildcard examples/lessons/*.c))

all: $(EXAMPLES) ## builds the examples (also: plain `make`)

run: build/train ## trains CartPole-v1 with the default settings; flags go into ARGS="--seed 2"
	@build/train $(ARGS)

plot: build/plot $(CSV) ## draws CSV="a/progress.csv ..." as build/curve.svg (without CSV: trains CartPole-v1 first)
	@build/plot --out build/curve.svg $(ARGS) $(CSV) && echo build/curve.svg

build/progress.csv: build/train
	@build/train --quiet --csv $@

rlhf: build/rlhf ## a tiny language model, its reward model, PPO, DPO and others; flags go into ARGS="--seed 2"
	@build/rlhf all $(ARGS)

words: build/rlhf build/words.found ## the same with real words, from a word list
	@build/rlhf all --task words $(ARGS)

runaway: build/rlhf ## how PPO on tokens runs away, and what holds it, with build/runaway.svg, in three minutes
	@build/rlhf --quiet $(ARGS) sft reward runaway

# Compiled for this processor: the plain kernels compute the same bits, four times as fast.
build/rlhf-native: examples/rlhf.c $(HEADERS) Makefile | build/stb_ds.found
	$(CC) -O3 -march=native -ffp-contract=off -I. $< -o $@ $(LDLIBS)

rlhf-seeds: build/rlhf-native ## 50 seeds of rlhf on all kernels: what must hold, and the ranges of the README, in hours
	@RLHF=build/rlhf-native sh tests/rlhf_seeds.sh $(ARGS)

verifiable: build/arithmetic build/tools ## ten seeds of arithmetic (GRPO and RLOO) and tools: least, mean and most right
	@sh tests/verifiable.sh $(ARGS)

overopt: build/overopt ## over-optimization of proxy rewards, and remedies: a table of six seeds and build/overopt-*.svg
	@echo 1 2 3 4 5 6 | xargs -n 1 -P $(PROCESSORS) build/overopt trace
	@build/overopt report 1 2 3 4 5 6

# The longest come first. Each leaves what it prints in build/lessons/NAME.txt.
lessons: $(LESSONS) ## runs all lessons of examples/lessons/ and checks their claims; drawings are build/lessons/*.svg
	@printf '%s\n' $(sort $(filter %_details %_mistakes %_objectives,$(LESSONS))) $(filter-out %_details %_mistakes %_objectives,$(LESSONS)) | \
	    xargs -n 1 -P $(PROCESSORS) sh -c '$$0 >$$0.txt 2>&1; s=$$?; echo "$$0: $$(grep -c "^  holds:" $$0.txt) claims hold"; \
	    test $$s = 0 || { tail -n 20 $$0.txt; exit 1; }'

lunarlander: build/lunarlander ## builds build/train with LunarLander, which needs Box2D, as build/lunarlander

mujoco: build/mujoco ## trains Hopper-v5 with build/mujoco: build/train with the tasks of MuJoCo; flags go into ARGS
	@build/mujoco --env Hopper-v5 $(ARGS)

mujoco-table: build/mujoco ## the paper's Table 1 in 252 runs, in hours; a finished run is kept, and not repeated
	@JOBS=$(PROCESSORS) sh bench/mujoco.sh table $(ARGS)

# The library is compiled once. Each example is a program in one file, which `cc -O2 -I. FILE -lm` compiles as well;
# PPO_NO_IMPLEMENTATION keeps the implementation out of it here.
build/ppo.o: examples/ppo.c ppo.h $(wildcard stb_ds.h examples/companions/*.h) Makefile | build/stb_ds.found
	$(CC) $(CFLAGS) -Wall -Wextra -I. -c $< -o $@ 2>build/ppo.log; status=$$?; cat build/ppo.log >&2; exit $$status

build/%: examples/%.c build/ppo.o $(HEADERS) Makefile
	@rm -f $@
	$(CC) $(CFLAGS) -DPPO_NO_IMPLEMENTATION -I. $< $(filter %.o,$^) -o $@ $(LDLIBS)

build/lessons/%: examples/lessons/%.c build/ppo.o $(HEADERS) Makefile
	@mkdir -p $(@D); rm -f $@
	$(CC) $(CFLAGS) -Wall -Wextra $(LESSON_FLAGS) -DPPO_NO_IMPLEMENTATION -I. $< $(filter %.o,$^) -o $@ $(LDLIBS)

# What `make run` waits for in a fresh clone: the library without language models compiles in half the time. `make test`
# has the whole one anyway.
build/control.o: examples/ppo.c ppo.h $(wildcard stb_ds.h examples/companions/*.h) Makefile $(WHOLE) | build/stb_ds.found
	$(if $(WHOLE),cp -p $(WHOLE) $@,$(CC) $(CFLAGS) -Wall -Wextra -DPPO_NO_LANGUAGE -I. -c $< -o $@)

build/train build/plot: build/%: examples/%.c build/control.o $(HEADERS) Makefile
	@rm -f $@
	$(CC) $(CFLAGS) -DPPO_NO_IMPLEMENTATION -I. $< $(filter %.o,$^) -o $@ $(LDLIBS)

build/lunarlander: examples/lunarlander.cpp examples/train.c build/control.o $(HEADERS) Makefile | build/box2d.found
	$(CXX) -std=c++17 $(CXXFLAGS) -DPPO_NO_IMPLEMENTATION -I. $< $(filter %.o,$^) -o $@ -lbox2d $(LDLIBS)

# build/mujoco.found holds flags.
build/mujoco: examples/mujoco.c examples/train.c build/control.o $(HEADERS) Makefile | build/mujoco.found
	@rm -f $@
	$(CC) $(CFLAGS) -DPPO_NO_IMPLEMENTATION -I. $< $(filter %.o,$^) @build/mujoco.found -o $@ $(LDLIBS)

# Processes that train together, on one machine or many: mpirun -n 4 build/train-mpi --env CartPole-v1
MPICC ?= mpicc

mpi: build/train-mpi build/rlhf-mpi ## builds build/train and build/rlhf for MPI, as build/train-mpi and build/rlhf-mpi

build/train-mpi: build/control.o
build/rlhf-mpi: build/ppo.o
build/%-mpi: examples/%.c $(HEADERS) Makefile | build/mpi.found
	@rm -f $@
	$(MPICC) $(CFLAGS) -DWITH_MPI -DPPO_NO_IMPLEMENTATION -I. $< $(filter %.o,$^) -o $@ $(LDLIBS)

# --- exercises -----------------------------------------------------------------------------------------------------

# Of each exercise, grade.c becomes the judge, with the library, and the part of the student's program that calls the
# student's function. grade.sh compiles the rest.
JSON   = marks.json
GRADED := $(patsubst examples/exercises/%/grade.c,build/exercises/%/judge,$(wildcard examples/exercises/*/grade.c))
GRADE_NOW = $(if $(EX),$(filter $(patsubst %,build/exercises/%/judge,$(EX) $(EX)_% 0$(EX)_% %_$(EX)),$(GRADED)),$(GRADED))
GRADE_SH = CC="$(CC)" sh examples/exercises/grade.sh

grade: $(GRADE_NOW) ## grades the exercises of examples/exercises/; EX=03 grades one of them, in detail
	@$(GRADE_SH) all "$(EX)"

hint: ## prints the next of three hints for an exercise: make hint EX=03
	@$(GRADE_SH) hint "$(EX)"

grade-all: $(GRADED) ## grades a class: make grade-all DIR=submissions JSON=marks.json, a folder for each student
	@$(GRADE_SH) class "$(DIR)" "$(JSON)" $(PROCESSORS) "$(EX)"

judges: $(GRADED)

build/exercises/sanitizer: always # another compiler?
	@$(GRADE_SH) sanitizer
always:

$(GRADED): build/exercises/%/judge: examples/exercises/%/grade.c examples/exercises/grade.h build/control.o build/exercises/sanitizer Makefile
	@mkdir -p $(@D)
	$(CC) -Wall -Wextra -Wno-unused-function -DPPO_NO_IMPLEMENTATION -DPPO_NO_LANGUAGE -I. $< build/control.o -o $@ $(LDLIBS)
	$(CC) $$(sed -n 2p build/exercises/sanitizer) -g1 -DGRADE_STUDENT -DPPO_NO_IMPLEMENTATION -DPPO_NO_LANGUAGE -I. -c $< -o $(@D)/stub.o

# --- tests ---------------------------------------------------------------------------------------------------------

# The test programs are built in three flavours: plain, with AddressSanitizer and UndefinedBehaviorSanitizer, and those
# that use threads with ThreadSanitizer. What takes long under a sanitizer is smaller there (PPO_TEST_SMALL). Those that
# test private functions are compiled together, in one file with the implementation (tests/private.c); where its object
# has sanitizers, the other programs link it as the library. A few have an implementation of their own.
PLAIN_FLAGS  := -O2 -Wall -Wextra
ASAN_FLAGS   := -O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all -DPPO_TEST_SMALL
TSAN_FLAGS   := -O1 -g1 -fsanitize=thread -DPPO_TEST_SMALL -DPPO_TEST_TSAN

NAMES    := $(filter-out test_mujoco,$(basename $(notdir $(wildcard tests/test_*.c))))
THREADED := $(filter-out test_mujoco test_rlhf test_alignment test_sampling test_group,$(basename $(notdir $(shell grep -l thread tests/test_*.c))))
TOGETHER := $(shell sed -n 's/^.include "\(test_.*\)\.c"/\1/p' tests/private.c)
ALONE    := $(filter-out $(TOGETHER),$(basename $(notdir $(shell grep -l 'define PPO_IMPLEMENTATION' tests/test_*.c))))
LINKED   := $(filter-out $(TOGETHER) $(ALONE),$(NAMES))
PLAIN    := $(NAMES:%=build/plain/%)
ASAN     := $(patsubst %,build/asan/%,$(filter-out test_math_short,$(NAMES))) # whose code test_math has
TSAN     := $(THREADED:%=build/tsan/%)
CUDA_HEADERS := $(wildcard ppo_cuda.cuh examples/companions/*.cuh tests/cuda_*.h)
TEST_HEADERS := $(HEADERS) $(filter-out $(CUDA_HEADERS),$(wildcard tests/*.h tests/golden/*.h))

# The test of LunarLander needs a C++ compiler and Box2D.
LUNAR := build/plain/test_lunarlander build/asan/test_lunarlander
LUNAR_IF_THERE = $(if $(wildcard build/box2d.found),$(LUNAR))
build/plain/test_lunarlander: build/ppo.o
build/asan/test_lunarlander: build/asan/private.o

# The test of MuJoCo's tasks needs libmujoco, and the models of Gymnasium.
MUJOCO := build/plain/test_mujoco build/asan/test_mujoco
MUJOCO_IF_THERE = $(if $(wildcard build/mujoco.found),$(MUJOCO))
build/plain/test_mujoco: build/ppo.o
build/asan/test_mujoco: build/asan/private.o

# The tests of CUDA run in an emulation, which needs a C++ compiler.
CUDA_NAMES := $(basename $(notdir $(wildcard tests/test_cuda*.cpp)))
CUDA = $(if $(wildcard build/cxx.found),$(CUDA_NAMES:%=build/asan/%))

# Builds on all processors, unless make was given -j.
PROCESSORS = $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
JOBS       = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(PROCESSORS))

test: build/stb_ds.found build/cmocka.found ## runs all tests; the last line is "N passed, N failed"
	-@$(MAKE) --no-print-directory -s build/box2d.found || echo "note: LunarLander is not tested, there is no Box2D"
	-@$(MAKE) --no-print-directory -s build/mujoco.found || echo "note: the tasks of MuJoCo are not tested, there is no MuJoCo"
	-@$(MAKE) --no-print-directory -s build/cxx.found || echo "note: CUDA is not tested, there is no C++ compiler"
	@$(MAKE) --no-print-directory test-all

# The longest come first.
test-all:
	-@$(MAKE) --no-print-directory -k $(JOBS) test-programs WHOLE=build/ppo.o LESSON_FLAGS='-Werror -O1'
	@CC="$(CC)" CXX="$(CXX)" sh tests/run.sh -j$(PROCESSORS) tests/compile.sh tests/web.sh tests/rlhf.sh tests/export.sh tests/systems.sh $(CUDA) $(TSAN) tests/grade.sh $(ASAN) \
	    $(LUNAR_IF_THERE) $(MUJOCO_IF_THERE) tests/chat.sh tests/finetune.sh tests/kill.sh tests/mpi.sh tests/install.sh tests/cli.sh tests/plot.sh tests/docs.sh tests/lessons.sh $(PLAIN)

test-long: test-programs ## ten seeds of CartPole-v1, 100 kills, 100,000 damaged files, all floats, all sizes under sanitizers
	@sh tests/seeds.sh
	@KILLS=100 PPO_FUZZ=100000 PPO_EVERY_FLOAT=1 sh tests/run.sh -j$(PROCESSORS) build/plain/test_math build/asan/test_files \
	    build/asan/test_checkpoints build/asan/test_tokenizers build/asan/test_transformer tests/kill.sh
	@CC="$(CC)" CXX="$(CXX)" PPO_TEST_FULL=1 sh tests/run.sh -j$(PROCESSORS) tests/compile.sh $(CUDA) $(ASAN) $(TSAN)

# What takes long to compile comes first.
test-programs: $(CUDA) build/asan/private.o build/plain/private.o build/ppo.o build/tsan/private.o $(EXAMPLES) $(LESSONS) $(GRADED) $(PLAIN) $(ASAN) $(TSAN) $(LUNAR_IF_THERE) $(MUJOCO_IF_THERE)

build/plain/%: FLAVOUR = $(PLAIN_FLAGS)
build/asan/%:  FLAVOUR = $(ASAN_FLAGS)
build/tsan/%:  FLAVOUR = $(TSAN_FLAGS)

# A test that is linked with the library, which is optimized, need not be itself: it compiles in half the time.
$(LINKED:%=build/plain/%):                         OWN = -O1
$(LINKED:%=build/asan/%) $(LINKED:%=build/tsan/%): OWN = -O0

# For a Zen processor GCC fuses some products and sums, and leaves others.
ZEN = $(shell for zen in '-march=native -mtune=znver2' -march=native; do \
    echo | $(CC) $$zen -E - >/dev/null 2>&1 && echo $$zen && break; done)
build/plain/test_math_short: OWN = -O3 $(ZEN)

# The library for the test program $@: an object, or a static copy.
LIBRARY = $(if $(filter $(@F),$(ALONE)),-DPPO_STATIC,$(filter %.o,$^))

build/plain/test_web build/asan/test_web: $(wildcard examples/web/*.h)

OBJECTS := build/plain/private.o build/asan/private.o build/tsan/private.o
$(OBJECTS): tests/private.c $(TOGETHER:%=tests/%.c) $(TEST_HEADERS) Makefile | build/stb_ds.found
	@mkdir -p $(@D)
	$(CC) $(FLAVOUR) -I. -c $< -o $@

$(LINKED:%=build/plain/%):   build/ppo.o
$(TOGETHER:%=build/plain/%): build/plain/private.o
$(filter-out $(ALONE:%=build/asan/%),$(ASAN)): build/asan/private.o
$(filter-out $(ALONE:%=build/tsan/%),$(TSAN)): build/tsan/private.o

$(PLAIN): build/plain/%: tests/%.c
$(ASAN):  build/asan/%:  tests/%.c
$(TSAN):  build/tsan/%:  tests/%.c
$(PLAIN) $(ASAN) $(TSAN): $(TEST_HEADERS) Makefile
	@mkdir -p $(@D); rm -f $@
	$(CC) $(FLAVOUR) $(OWN) -I. $(if $(filter $(@F),$(TOGETHER)),,tests/$(@F).c) $(LIBRARY) -o $@ -lcmocka $(LDLIBS)

$(LUNAR): tests/test_lunarlander.cpp $(TEST_HEADERS) Makefile
	@mkdir -p $(@D); rm -f $@
	$(CXX) -std=c++17 $(FLAVOUR) -Wall -Wextra -Wno-missing-field-initializers -I. $< $(LIBRARY) -o $@ -lcmocka -lbox2d $(LDLIBS)

$(MUJOCO): tests/test_mujoco.c $(TEST_HEADERS) Makefile | build/mujoco.found
	@mkdir -p $(@D); rm -f $@
	$(CC) $(FLAVOUR) -I. $< $(LIBRARY) @build/mujoco.found -o $@ -lcmocka $(LDLIBS)

CUDA_FLAGS = -std=c++17 $(FLAVOUR) -Wall -Wextra -Wno-missing-field-initializers -I.
CUDA_TOGETHER := $(shell sed -n 's/^.include "\(test_cuda_.*\)\.cpp"/\1/p' tests/private_cuda.cpp)
build/asan/private_cuda.o: tests/private_cuda.cpp $(CUDA_TOGETHER:%=tests/%.cpp) $(CUDA_HEADERS) $(TEST_HEADERS) Makefile
	@mkdir -p $(@D)
	$(CXX) $(CUDA_FLAGS) -DPPO_STATIC -c $< -o $@

$(CUDA_TOGETHER:%=build/asan/%): build/asan/private_cuda.o
	@rm -f $@
	$(CXX) $(FLAVOUR) $< -o $@ -lcmocka $(LDLIBS)

build/asan/test_cuda_emulation: tests/test_cuda_emulation.cpp $(CUDA_HEADERS) $(TEST_HEADERS) Makefile
	@mkdir -p $(@D); rm -f $@
	$(CXX) $(CUDA_FLAGS) $< -o $@ -lcmocka $(LDLIBS)

# --- bench --------------------------------------------------------------------------------------------------------

BENCHES := start cartpole pendulum collecting language gpt2 characters threads cores products profile scaling flags

compile-time: build/stb_ds.found ## measures how long gcc -O2 takes for each combination of the switches
	@sh bench/compile_time.sh

# ARGS="avx2" measures by one set of kernels. Each says afterwards how long it took.
bench: $(BENCHES:%=build/bench-%) build/train bench-peers ## measures speed and memory (PPO_BENCH_PYTHON: a Python with the peers)
	@for b in $(BENCHES); do began=$$(date +%s); build/bench-$$b $(ARGS) || exit 1; \
	    echo "(bench-$$b: $$(($$(date +%s) - began)) s)"; echo; done

# RLtools, if it can be had, whose headers come with Python's package rltools, for each instruction set.
bench-peers:
	-@for m in native haswell; do $(MAKE) --no-print-directory -s build/rltools-$$m >build/rltools-$$m.log 2>&1; done; true

RLTOOLS = $(shell $(or $(PPO_BENCH_PYTHON),python3) -c "import importlib.util as u; \
    print(u.find_spec('rltools').submodule_search_locations[0] + '/external/rl_tools/include')")

build/rltools-%: bench/rltools_pendulum.cpp Makefile
	$(CXX) -std=c++17 -O3 -march=$* -ffast-math -DRL_TOOLS_BACKEND_ENABLE_OPENBLAS -I$(RLTOOLS) $< -o $@ -lopenblas

build/bench-flags: | build/flags-plain try-flags-native
try-flags-native: # not every compiler has -march=native
	-@mkdir -p build; $(MAKE) --no-print-directory -s build/flags-native >build/flags.log 2>&1
build/flags-plain: FLAGS = -O2
build/flags-native: FLAGS = -O3 -march=native
build/flags-%: bench/flags.c bench/measure.h bench/workloads.h $(HEADERS) Makefile | build/stb_ds.found
	@rm -f $@
	$(CC) $(FLAGS) -I. $< -o $@ $(LDLIBS)

# With line numbers for addr2line, whose version 2.40 reports some of DWARF 5 incorrectly.
build/bench-profile: override CFLAGS += -gdwarf-4 -no-pie

# Those that measure the library's functions contain it; the others link it.
$(patsubst bench/%.c,build/bench-%,$(shell grep -L 'define PPO_IMPLEMENTATION' bench/*.c)): build/ppo.o
build/bench-%: bench/%.c bench/measure.h bench/workloads.h $(HEADERS) Makefile | build/stb_ds.found
	$(CC) $(CFLAGS) -I. $< $(filter %.o,$^) -o $@ $(LDLIBS) -ldl

mpi-bench: build/bench-group ## two processes beside one, where a step of the environment takes 20 us; and what they exchange
	@sh bench/group.sh

build/bench-group: bench/group.c build/ppo.o $(HEADERS) Makefile | build/mpi.found
	@rm -f $@
	$(MPICC) $(CFLAGS) -DWITH_MPI -DPPO_NO_IMPLEMENTATION -I. $< $(filter %.o,$^) -o $@ $(LDLIBS)

# Beside libxsmm, which Debian has as a static library, where that can be linked.
LIBXSMM = -DWITH_LIBXSMM -lxsmm -lxsmmnoblas -lpthread
build/bench-products: bench/products.c bench/measure.h $(HEADERS) Makefile | build/stb_ds.found
	$(CC) $(CFLAGS) -I. $< -o $@ $(LIBXSMM) $(LDLIBS) -ldl 2>build/libxsmm.log || $(CC) $(CFLAGS) -I. $< -o $@ $(LDLIBS) -ldl

mujoco-bench: build/bench-mujoco ## steps per second of MuJoCo's tasks, beside Gymnasium's (PPO_BENCH_PYTHON: a Python with it)
	@build/bench-mujoco

build/bench-mujoco: bench/mujoco.c bench/measure.h $(HEADERS) Makefile | build/mujoco.found
	@rm -f $@
	$(CC) $(CFLAGS) -DPPO_NO_IMPLEMENTATION -I. $< $(filter %.o,$^) @build/mujoco.found -o $@ $(LDLIBS)

# --- CUDA: programs for a GPU; build/cuda/ can be copied to another machine -----------------------------------------

ifndef NVCC
NVCC := $(or $(shell command -v nvcc),/usr/local/cuda/bin/nvcc)
endif

CUDA_TESTS    := $(patsubst tests/%.cpp,build/cuda/%,$(filter-out %_emulation.cpp,$(wildcard tests/test_cuda_*.cpp)))
CUDA_PROGRAMS := build/cuda/rlhf build/cuda/rlhf-nccl $(CUDA_TESTS) build/cuda/bench
CUDA_CHECKED  := $(CUDA_TESTS:build/cuda/%=build/cuda/memcheck/%) build/cuda/racecheck/test_cuda_tokens

# Machine code for those of these GPUs that nvcc knows, and PTX for later ones.
CUDA_KNOWN = $(shell $(NVCC) --list-gpu-code)
CUDA_ARCH  = $(patsubst sm_%,%,$(filter $(CUDA_KNOWN),sm_80 sm_86 sm_89 sm_90 sm_100))
CUDA_CODE  = $(foreach a,$(CUDA_ARCH),-gencode arch=compute_$(a),code=sm_$(a)) \
    $(foreach a,$(lastword $(CUDA_ARCH)),-gencode arch=compute_$(a),code=compute_$(a))

# Libraries are searched for in lib/ beside the program, and in this CUDA.
CUDA_PATHS = $(foreach d,'$$ORIGIN/lib' $(dir $(NVCC))../lib64,-Xlinker -rpath -Xlinker $(d))
NVCC_BUILD = $(NVCC) -x cu -std=c++17 -O2 $(CUDA_CODE) -Werror all-warnings \
    -Xcompiler -Wall,-Wextra,-Wno-missing-field-initializers,-Wno-parentheses,-Werror \
    -I. $< -o $@ -lcublas $(CUDA_PATHS)

cuda: ## compiles build/cuda/ with nvcc: tests, a benchmark, and rlhf for a GPU, which replaces build/rlhf, or several (NCCL)
	@if $(MAKE) --no-print-directory -q cuda-programs 2>/dev/null; then :; \
	elif command -v "$(NVCC)" >/dev/null; then \
	    $(MAKE) --no-print-directory -s build/stb_ds.found build/cmocka.found && \
	    $(MAKE) --no-print-directory -k $(JOBS) cuda-programs; \
	else \
	    echo "note: nothing is compiled for a GPU, there is no nvcc (NVCC=... names one)"; \
	    $(MAKE) --no-print-directory -s build/rlhf; \
	fi
	@test ! -f build/cuda/rlhf || cmp -s build/cuda/rlhf build/rlhf || cp build/cuda/rlhf build/rlhf

cuda-programs: $(CUDA_PROGRAMS)

build/cuda/test_cuda%: tests/test_cuda%.cpp $(CUDA_HEADERS) $(TEST_HEADERS) Makefile
	@mkdir -p build/cuda/lib; rm -f $@
	$(NVCC_BUILD) -lcmocka
	@ldd $@ | awk '/libcmocka/ && !/cuda\/lib/ { print $$3 }' | xargs -r cp -t build/cuda/lib

build/cuda/bench: bench/cuda.cu bench/measure.h $(CUDA_HEADERS) $(HEADERS) Makefile
	@mkdir -p $(@D); rm -f $@
	$(NVCC_BUILD)

build/cuda/rlhf: examples/rlhf.c $(CUDA_HEADERS) $(HEADERS) Makefile
	@mkdir -p $(@D); rm -f $@
	$(NVCC_BUILD)

# Processes on several GPUs: torchrun --no-python --nproc-per-node 4 build/cuda/rlhf-nccl all --device cuda
build/cuda/rlhf-nccl: examples/rlhf.c $(CUDA_HEADERS) $(HEADERS) Makefile
	@mkdir -p $(@D); rm -f $@; echo '#include <nccl.h>' >$@.cu
	@if $(NVCC) -E $@.cu >/dev/null 2>$@.log; then set -x; $(NVCC_BUILD) -DWITH_NCCL -lnccl; \
	else echo "note: $@ is not compiled, there is no nccl.h (Debian, Ubuntu: libnccl-dev)"; fi

# $(call on_gpu,tested): continues if there is a GPU and a program for it; otherwise prints a note and succeeds.
define on_gpu
nvidia-smi -L 2>/dev/null | grep -q GPU || { echo "note: CUDA is not $(1), nvidia-smi finds no GPU"; exit 0; }; \
	$(MAKE) --no-print-directory cuda || exit 1; \
	test -x build/cuda/bench || exit 0; \
	build/cuda/bench --device || { echo "CUDA is not $(1): its runtime does not find the GPU of nvidia-smi" >&2; exit 1; };
endef

cuda-test: ## runs the tests of CUDA on a GPU, and again under compute-sanitizer, if installed
	@$(call on_gpu,tested) \
	rm -rf build/cuda/memcheck build/cuda/racecheck; \
	if PATH="$$PATH:$(dir $(NVCC))" command -v compute-sanitizer >/dev/null; then \
	    $(MAKE) --no-print-directory -s $(CUDA_CHECKED) && sh tests/run.sh $(CUDA_TESTS) $(CUDA_CHECKED); \
	else echo "note: memory is not checked, there is no compute-sanitizer"; sh tests/run.sh $(CUDA_TESTS); fi

# A script that runs the test under a tool of compute-sanitizer. The library itself checks what CUDA calls return.
$(CUDA_CHECKED):
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nPATH="$$PATH:%s" exec compute-sanitizer --tool %s --report-api-errors no --error-exitcode 9 %s\n' \
	    $(dir $(NVCC)) $(notdir $(@D)) build/cuda/$(@F) >$@; chmod +x $@

cuda-bench: ## measures CUDA on a GPU (PPO_BENCH_PYTHON: a Python with the peers); ARGS=--quick for a smaller one
	@$(call on_gpu,measured) build/cuda/bench $(ARGS)

# --- the playground, and the manual's pages --------------------------------------------------------------------------

# A page in one file: its parts replace the lines @NAME@. stb_ds.h is where CC finds it; the engine needs no JavaScript
# of Emscripten's.
WEB = examples/web
EMFLAGS = -O3 -msimd128 -Wall -Wextra -sALLOW_MEMORY_GROWTH --no-entry

web: build/web/index.html ## builds the playground, one page that trains in a browser, with Emscripten

build/web/web.wasm: $(wildcard $(WEB)/*.[ch]) $(HEADERS) Makefile | build/stb_ds.found
	@command -v emcc >/dev/null || { echo "please install emscripten (Debian, Ubuntu, Fedora, Arch): there is no emcc" >&2; exit 1; }
	@mkdir -p $(@D)/include
	@stb=$$($(CC) -I. -M examples/ppo.c | tr ' ' '\n' | grep -m1 'stb_ds\.h$$') && cp "$$stb" $(@D)/include
	emcc $(EMFLAGS) -I. -I$(@D)/include $(WEB)/web.c -o $@

build/web/index.html: build/web/web.wasm $(wildcard $(WEB)/*.html $(WEB)/*.css $(WEB)/*.js)
	@base64 <$< | tr -d '\n' >$(<:.wasm=.wasm.txt)
	@sed $(foreach f,$(WEB)/style.css $(WEB)/page.js $(WEB)/worker.js build/web/web.wasm.txt,-e '/^@$(notdir $(f))@$$/{r $(f)' -e 'd}') \
	    $(WEB)/page.html >$@ && echo $@

# The manual's pages. SOURCE=https://.../ppo.h#L lets links to lines lead into a repository.
docs: ## writes the manual as pages, build/docs/index.html, from the comments of ppo.h
	@mkdir -p build/docs; cp examples/docs/style.css build/docs/docs.css
	@awk -v out=build/docs -v source='$(SOURCE)' -v script=examples/docs/search.js -f examples/docs/pages.awk ppo.h
	@echo build/docs/index.html

.PHONY: web docs

# --- installing ----------------------------------------------------------------------------------------------------

PREFIX  ?= /usr/local
VERSION := $(or $(shell sed -n 's/^\#define PPO_VERSION  *"\(.*\)".*/\1/p' ppo.h),0.1.0)
INSTALL  = $(DESTDIR)$(PREFIX)
DIST     = build/ppo-$(VERSION)

# The environments are examples and not installed: `make dist` copies them. Files that do not depend on the processor
# belong into share/, where pkg-config and CMake find them, too.
define PPO_PC
prefix=$(PREFIX)

Name: ppo
Description: Proximal Policy Optimization in one C header
Version: $(VERSION)
Cflags: -I$${prefix}/include -pthread
Libs: -pthread -lm
endef

define PPO_CMAKE
include(CMakeFindDependencyMacro)
find_dependency(Threads)
if(NOT TARGET ppo::ppo)
    get_filename_component(ppo_prefix "$${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
    add_library(ppo::ppo INTERFACE IMPORTED)
    set_target_properties(ppo::ppo PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "$${ppo_prefix}/include"
        INTERFACE_LINK_LIBRARIES "Threads::Threads;$$<$$<NOT:$$<PLATFORM_ID:Windows>>:m>")
endif()
endef

define PPO_CMAKE_VERSION
set(PACKAGE_VERSION $(VERSION))
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
endif()
endef

define PPO_README
ppo.h $(VERSION) - Proximal Policy Optimization in one C header

Copy this folder into your project. ppo.c is the implementation: compile it once, with -O2. All other files include
ppo.h for its declarations:

    cc -O2 -c ppo.c
    cc -O2 app.c ppo.o -lm -pthread

The manual is at the top of ppo.h. envs/ holds example environments. ppo_cuda.cuh is for programs that nvcc compiles.
stb_ds.h, which ppo.h needs, is a library of its own, with its license at its end.
endef
export PPO_PC PPO_CMAKE PPO_CMAKE_VERSION PPO_README

install: ## installs the headers, for pkg-config and CMake, too, under PREFIX=/usr/local (DESTDIR=... for packages)
	install -d "$(INSTALL)/include" "$(INSTALL)/share/pkgconfig" "$(INSTALL)/share/cmake/ppo"
	install -m 644 ppo.h ppo_cuda.cuh "$(INSTALL)/include"
	@echo "$$PPO_PC" >"$(INSTALL)/share/pkgconfig/ppo.pc"
	@echo "$$PPO_CMAKE" >"$(INSTALL)/share/cmake/ppo/ppoConfig.cmake"
	@echo "$$PPO_CMAKE_VERSION" >"$(INSTALL)/share/cmake/ppo/ppoConfigVersion.cmake"

uninstall: ## removes what `make install` with the same PREFIX has installed
	rm -f "$(INSTALL)/include/ppo.h" "$(INSTALL)/include/ppo_cuda.cuh" "$(INSTALL)/share/pkgconfig/ppo.pc"
	rm -rf "$(INSTALL)/share/cmake/ppo"

dist: ## makes the folder build/ppo-VERSION/, to be copied into a project
	@rm -rf $(DIST); mkdir -p $(DIST)
	cp ppo.h ppo_cuda.cuh examples/ppo.c LICENSE $(DIST)
	cp -r examples/envs $(DIST)
	@stb=$$($(CC) -I. -M examples/ppo.c 2>/dev/null | tr ' ' '\n' | grep -m1 'stb_ds\.h$$') && cp "$$stb" $(DIST) || \
	    echo "note: stb_ds.h is not included, there is none on this machine"
	@echo "$$PPO_README" >$(DIST)/README
	@echo $(DIST)

# --- requirements ----------------------------------------------------------------------------------

# $(call require,headers to try,library,apt's package,dnf's,pacman's,a remark,compiler if not CC): checks once, and
# installs what is missing.
define require
	@mkdir -p build
	@compiles() { \
	    printf '\043include <%s>\n' setjmp.h stdarg.h stddef.h stdint.h >$(@:.found=.c); \
	    printf '\043include %s\nint main(void) { return 0; }\n' "$$1" >>$(@:.found=.c); \
	    $(or $(7),$(CC)) -I. $(@:.found=.c) -o $(@:.found=.probe) $$2 2>$(@:.found=.log); }; \
	found() { for h in $(1); do compiles "$$h" $(2) && return 0; done; return 1; }; \
	as_root() { if [ "$$(id -u)" = 0 ]; then "$$@"; else sudo -n "$$@"; fi; }; \
	apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -o DPkg::Lock::Timeout=300 --no-install-recommends $(3); }; \
	get() { \
	    if   command -v apt-get; then apt || { as_root apt-get update && apt; }; \
	    elif command -v dnf;     then as_root dnf install -y $(4); \
	    elif command -v pacman;  then as_root pacman -S --noconfirm --needed $(5); fi; }; \
	test -n "$(7)" || compiles '<stdio.h>' || { \
	    echo "the C compiler \"$(CC)\" does not work, see $(@:.found=.log); CC=... names another one" >&2; exit 1; }; \
	found || { echo "installing $(3) (log: build/install.log)"; get >build/install.log 2>&1; found; } || { \
	    echo "please install $(3) (Debian, Ubuntu), $(4) (Fedora) or $(5) (Arch)$(6)" >&2; exit 1; }
	@touch $@
endef

build/stb_ds.found:
	$(call require,'"stb_ds.h"' '<stb/stb_ds.h>' '<stb_ds.h>',,libstb-dev,stb-devel,stb,; or put stb_ds.h beside ppo.h)

build/cmocka.found:
	$(call require,'<cmocka.h>',-lcmocka,libcmocka-dev,libcmocka-devel,cmocka,; the tests need it)

build/box2d.found:
	$(call require,'<box2d/b2_revolute_joint.h>',-lbox2d,libbox2d-dev g++,box2d-devel gcc-c++,box2d gcc,; LunarLander needs its version 2.4,$(CXX) -std=c++17 -x c++)

build/mpi.found:
	$(call require,'<mpi.h>',,libopenmpi-dev openmpi-bin,openmpi-devel,openmpi,,$(MPICC))

# Python's packages mujoco (libmujoco and its headers) and gymnasium (the models), without what they import: those of
# PPO_PYTHON, or else installed in build/mujoco-packages. Version 4 of mujoco keeps the library in mujoco-core. Debian's
# libmujoco is used where Python has no mujoco.
PPO_PYTHON ?= python3
define MUJOCO_FLAGS
import glob, importlib.util, sys
sys.path.append(sys.argv[1])
def folder(package):
    found = importlib.util.find_spec(package)
    return list(found.submodule_search_locations)[0] if found else None
mujoco, gymnasium = folder("mujoco"), folder("gymnasium")
libraries = glob.glob(mujoco + "/libmujoco*") if mujoco else []
models = gymnasium + "/envs/mujoco/assets" if gymnasium else None
if not models or not libraries and sys.argv[2] != "system": sys.exit(1)
if libraries: print('-isystem "%s/include" "%s" -Wl,-rpath,"%s"' % (mujoco, libraries[0], mujoco))
else: print("-lmujoco")
print('"-DMUJOCO_MODELS=\\"%s\\""' % models)
endef
export MUJOCO_FLAGS

build/mujoco.found:
	@mkdir -p build
	@packages="$(CURDIR)/build/mujoco-packages"; \
	flags() { $(PPO_PYTHON) -c "$$MUJOCO_FLAGS" "$$packages" "$$system" >build/mujoco.flags 2>>build/install.log; }; \
	get() { $(PPO_PYTHON) -m pip install --quiet --no-deps --retries 1 --timeout 20 --target "$$packages" "$$1"; }; \
	echo '#include <mujoco/mujoco.h>' >$(@:.found=.c); \
	echo 'int main(void) { return !mj_version(); }' >>$(@:.found=.c); \
	system=python; $(CC) $(@:.found=.c) -o $(@:.found=.probe) -lmujoco 2>$(@:.found=.log) && system=system; \
	flags || { echo "installing mujoco and gymnasium in build/mujoco-packages (log: build/install.log)"; \
	    { test $$system = system || get mujoco-core || get mujoco; get gymnasium; } >build/install.log 2>&1; flags; } || { \
	    echo "please install Python's packages mujoco and gymnasium; PPO_PYTHON=... names the Python" >&2; exit 1; }
	@mv build/mujoco.flags $@

build/cxx.found:
	$(call require,'<optional>',,g++,gcc-c++,gcc,; the emulation of CUDA needs C++17,$(CXX) -std=c++17 -x c++)

build/words.found:
	@mkdir -p build
	@as_root() { if [ "$$(id -u)" = 0 ]; then "$$@"; else sudo -n "$$@"; fi; }; \
	test -s /usr/share/dict/words || { echo "installing wamerican (log: build/install.log)"; \
	    { as_root apt-get install -y wamerican || { as_root apt-get update && as_root apt-get install -y wamerican; }; \
	    } >build/install.log 2>&1; }; \
	test -s /usr/share/dict/words || { echo "please install a word list: wamerican (Debian, Ubuntu), words (Fedora, Arch)" >&2; exit 1; }
	@touch $@

clean: ## removes build/
	rm -rf build

help: ## prints this
	@sed -n 's/^\([a-z-]*\):.* ## \(.*\)/\1 - \2/p' Makefile | awk -F' - ' '{ printf "make %-12s %s\n", $$1, $$2 }'

systems: build/stb_ds.found ## builds and runs ppo.h on other systems, as far as there are cross compilers and emulators
	@PPO_SYSTEMS=run sh tests/run.sh tests/systems.sh

.PHONY: grade hint grade-all judges always all run plot lessons rlhf words runaway rlhf-seeds verifiable overopt lunarlander mujoco mujoco-table mujoco-bench mpi-bench mpi test test-all test-long test-programs systems compile-time bench bench-peers install uninstall dist try-flags-native \
    cuda cuda-programs cuda-test cuda-bench clean help
