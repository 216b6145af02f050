# trust.mk - tests of what users trust without looking: what failing calls and lost power leave on the disk. Each target is
# too long for make test, which runs a short version of it where there is one.

# The expectation of every gradient: two tables, each on a processor of its own, in two minutes.
STATS := build/plain/test_unbiased build/plain/test_unbiased_tokens

stats: build/stb_ds.found build/cmocka.found ## is every estimator of a gradient unbiased? tables, with what would be found and by chance
	@$(MAKE) --no-print-directory -s $(STATS)
	@for t in $(STATS); do PPO_STATS=1 $$t >$$t.txt 2>&1 & p="$$p $$!"; done; s=0; for i in $$p; do wait $$i || s=1; done; \
	for t in $(STATS); do sed -n -e 's/^# //p' -e '/FAILED\|ERROR/p' $$t.txt; done; exit $$s

# Each call in a process of its own, with more values.
abuse: build/stb_ds.found build/cmocka.found ## calls of every public function with NULL, wild numbers and wild settings; none may crash
	@$(MAKE) --no-print-directory -s build/asan/test_abuse
	@PPO_ABUSE=1 build/asan/test_abuse

memcheck: build/train build/rlhf build/plain/test_process ## short trainings under valgrind, with several kernels: no error and no leak
	@sh tests/run.sh tests/memcheck.sh

.PHONY: stats abuse memcheck

# Small faults in the library, N of them, chosen by SEED, one at a time: mutants.py.
mutants: build/stb_ds.found build/cmocka.found ## plants N=1000 small faults, one at a time: do the tests notice? SEED=2 plants others
	@command -v python3 >/dev/null || { echo "skipped: there is no Python 3"; exit 0; }; \
	    CC="$(CC)" python3 tests/mutants.py $(or $(N),1000) $(or $(SEED),1)

.PHONY: mutants

# Calls that fail, and lost power: tests/faults.c. The linker puts fault_shim.c between the library, the programs and the C
# library, as GNU ld, gold and lld can.
FAULT_CALLS := fopen fflush setvbuf fileno popen open fsync close rename remove mkdir stat access realpath pthread_create \
               malloc calloc realloc free
comma       := ,
FAULTS      := $(if $(filter Linux,$(shell uname -s)),build/asan/faults)
test-programs: $(FAULTS)

faults: build/asan/faults ## makes every call fail that saving, loading and the programs make, and power at every moment
	@mkdir -p build/faults; for k in 1 2; do build/asan/faults all $$k/2 >build/faults/$$k.txt 2>&1 & p="$$p $$!"; done; \
	s=0; for i in $$p; do wait $$i || s=1; done; \
	awk '/ faults and states, / { n += $$1; problems += $$5; next } !/^operation/ || !lines++ { print } \
	     END { print n + 0 " faults and states, " problems + 0 " problems" }' build/faults/[12].txt; exit $$s

build/faults/finetune.o build/faults/train.o: build/faults/%.o: examples/%.c $(HEADERS) Makefile
	@mkdir -p $(@D)
	$(CC) $(ASAN_FLAGS) -O0 -DPPO_NO_IMPLEMENTATION -Dmain=$*_main -I. -c $< -o $@

build/asan/faults: tests/faults.c tests/fault_shim.c tests/fault_disk.c $(wildcard tests/fault_*.h) build/faults/finetune.o \
    build/faults/train.o build/asan/private.o tests/trust.mk
	$(CC) $(ASAN_FLAGS) -O0 -Wall -Wextra -I. $(filter %.c %.o,$^) $(FAULT_CALLS:%=-Wl$(comma)--wrap=%) -o $@ -lcmocka $(LDLIBS)

.PHONY: faults

# Inputs that do harm, by libFuzzer: fuzz.sh. Without vector kernels, which take clang minutes to instrument, and without
# traces of comparisons, which halve the runs: the mutators of fuzz.c know the words, and find more in the same time.
FUZZ_CC    ?= clang
FUZZ_FLAGS := -O1 -g1 -fno-omit-frame-pointer -fsanitize=fuzzer,address,undefined,float-cast-overflow \
    -fno-sanitize-coverage=trace-cmp -fno-sanitize-recover=all -DPPO_NO_SIMD -Wall -Wextra
export FUZZ_CC

fuzz: build/stb_ds.found build/fuzzer.found ## looks for inputs that do harm, T=60 seconds for each target; TARGETS="csv hub" chooses
	@$(MAKE) --no-print-directory -s build/fuzz/fuzz
	@T="$(T)" KEEP="$(KEEP)" PROCESSORS=$(PROCESSORS) sh tests/fuzz.sh $(TARGETS)

build/fuzz/fuzz: tests/fuzz.c tests/fuzz.h tests/odd_texts.h tests/corpus.h tests/golden/gguf.h tests/golden/hub.h tests/golden/unicode.h $(HEADERS) tests/trust.mk
	@mkdir -p $(@D)
	$(FUZZ_CC) $(FUZZ_FLAGS) -I. $< -o $@ $(LDLIBS)

.PHONY: fuzz
