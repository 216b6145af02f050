# bench.mk - what is measured: make bench, and studies of many runs; bench/README.md says more.

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

build/rltools-%: bench/rltools_pendulum.cpp bench/bench.mk
	$(CXX) -std=c++17 -O3 -march=$* -ffast-math -DRL_TOOLS_BACKEND_ENABLE_OPENBLAS -I$(RLTOOLS) $< -o $@ -lopenblas

build/bench-flags: | build/flags-plain try-flags-native
try-flags-native: # not every compiler has -march=native
	-@mkdir -p build; $(MAKE) --no-print-directory -s build/flags-native >build/flags.log 2>&1
build/flags-plain: FLAGS = -O2
build/flags-native: FLAGS = -O3 -march=native
build/flags-%: bench/flags.c bench/measure.h bench/workloads.h $(HEADERS) bench/bench.mk | build/stb_ds.found
	@rm -f $@
	$(CC) $(FLAGS) -I. $< -o $@ $(LDLIBS)

# With line numbers for addr2line, whose version 2.40 reports some of DWARF 5 incorrectly.
build/bench-profile: override CFLAGS += -gdwarf-4 -no-pie

# These link the library; the others measure its functions, and contain it.
build/bench-cartpole build/bench-characters build/bench-gpt2 build/bench-language build/bench-memory build/bench-pendulum \
    build/bench-scaling build/bench-start build/bench-threads: build/ppo.o
build/bench-%: bench/%.c bench/measure.h bench/workloads.h $(HEADERS) bench/bench.mk | build/stb_ds.found
	$(CC) $(CFLAGS) -I. $< $(filter %.o,$^) -o $@ $(LDLIBS) -ldl

mpi-bench: build/bench-group ## two processes beside one, where a step of the environment takes 20 us; and what they exchange
	@sh bench/group.sh

build/bench-group: bench/group.c build/ppo.o $(HEADERS) bench/bench.mk | build/mpi.found
	@rm -f $@
	$(MPICC) $(CFLAGS) -DWITH_MPI -DPPO_NO_IMPLEMENTATION -I. $< $(filter %.o,$^) -o $@ $(LDLIBS)

# Beside libxsmm, which Debian has as a static library, where that can be linked.
LIBXSMM = -DWITH_LIBXSMM -lxsmm -lxsmmnoblas -lpthread
build/bench-products: bench/products.c bench/measure.h $(HEADERS) bench/bench.mk | build/stb_ds.found
	$(CC) $(CFLAGS) -I. $< -o $@ $(LIBXSMM) $(LDLIBS) -ldl 2>build/libxsmm.log || $(CC) $(CFLAGS) -I. $< -o $@ $(LDLIBS) -ldl

mujoco-bench: build/bench-mujoco ## steps per second of MuJoCo's tasks, beside Gymnasium's (PPO_BENCH_PYTHON: a Python with it)
	@build/bench-mujoco

# What teachers are worth, for bench/learning/teachers.py; and a critic that learns first.
build/teachers: bench/learning/teachers.cpp build/ppo.o $(HEADERS) bench/bench.mk | build/box2d.found
	$(CXX) -std=c++17 $(CXXFLAGS) -DPPO_NO_IMPLEMENTATION -I. -Iexamples $< $(filter %.o,$^) -o $@ -lbox2d $(LDLIBS)

build/critic: bench/learning/critic.c examples/arithmetic.c build/ppo.o $(HEADERS) bench/bench.mk
	$(CC) $(CFLAGS) -DPPO_NO_IMPLEMENTATION -I. -Iexamples $< $(filter %.o,$^) -o $@ $(LDLIBS)

# Tasks that do not show their velocities, for bench/learning/records.py.
build/hidden: bench/learning/hidden.c build/control.o $(HEADERS) bench/bench.mk
	$(CC) $(CFLAGS) -DPPO_NO_IMPLEMENTATION -I. -Iexamples $< $(filter %.o,$^) -o $@ $(LDLIBS)

# Tasks of reasoning, for the same.
build/reasoning: bench/learning/reasoning.c build/ppo.o $(HEADERS) bench/bench.mk
	$(CC) $(CFLAGS) -Wall -Wextra -DPPO_NO_IMPLEMENTATION -I. -Iexamples $< $(filter %.o,$^) -o $@ $(LDLIBS)

records: build/train build/hidden build/reasoning ## published results again, on one core; what is finished is kept (PPO_BENCH_PYTHON: a Python with numpy)
	@$(or $(PPO_BENCH_PYTHON),python3) bench/learning/records.py $(ARGS)

build/claims: bench/learning/claims.c build/ppo.o $(HEADERS) bench/bench.mk
	$(CC) $(CFLAGS) -Wall -Wextra -DPPO_NO_IMPLEMENTATION -I. -Iexamples $< $(filter %.o,$^) -o $@ $(LDLIBS)

CLAIMS = bench/learning/results/claims.txt
claims: build/claims ## what people say about PPO, measured: the runs that are missing, and bench/learning/claims.md
	@build/claims $(CLAIMS) run $(ARGS) && build/claims $(CLAIMS) report >build/claims.md && cp build/claims.md bench/learning/claims.md

build/bench-mujoco: bench/mujoco.c build/ppo.o bench/measure.h $(HEADERS) bench/bench.mk | build/mujoco.found
	@rm -f $@
	$(CC) $(CFLAGS) -DPPO_NO_IMPLEMENTATION -I. $< $(filter %.o,$^) @build/mujoco.found -o $@ $(LDLIBS)

# Compiled for this processor: the plain kernels compute the same bits, four times as fast.
build/rlhf-native: examples/rlhf.c $(HEADERS) bench/bench.mk | build/stb_ds.found
	$(CC) -O3 -march=native -ffp-contract=off -I. $< -o $@ $(LDLIBS)

rlhf-seeds: build/rlhf-native ## 50 seeds of rlhf on all kernels: what must hold, and the ranges of the README, in hours
	@RLHF=build/rlhf-native sh tests/rlhf_seeds.sh $(ARGS)

verifiable: build/arithmetic build/tools ## ten seeds of arithmetic (GRPO and RLOO) and tools: least, mean and most right
	@sh tests/verifiable.sh $(ARGS)

overopt: build/overopt ## over-optimization of proxy rewards, and remedies: a table of six seeds and build/overopt-*.svg
	@echo 1 2 3 4 5 6 | xargs -n 1 -P $(PROCESSORS) build/overopt trace
	@build/overopt report 1 2 3 4 5 6

mujoco-table: build/mujoco ## the paper's Table 1 in 252 runs, in hours; a finished run is kept, and not repeated
	@JOBS=$(PROCESSORS) sh bench/mujoco.sh table $(ARGS)

.PHONY: bench bench-peers try-flags-native compile-time mpi-bench mujoco-bench rlhf-seeds verifiable overopt mujoco-table \
    records claims
