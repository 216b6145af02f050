# cuda.mk - programs for a GPU, made by nvcc; build/cuda/ can be copied to another machine.

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

build/cuda/test_cuda%: tests/test_cuda%.cpp $(CUDA_HEADERS) $(TEST_HEADERS) tests/cuda.mk
	@mkdir -p build/cuda/lib; rm -f $@
	$(NVCC_BUILD) -lcmocka
	@ldd $@ | awk '/libcmocka/ && !/cuda\/lib/ { print $$3 }' | xargs -r cp -t build/cuda/lib

build/cuda/bench: bench/cuda.cu bench/measure.h $(CUDA_HEADERS) $(HEADERS) tests/cuda.mk
	@mkdir -p $(@D); rm -f $@
	$(NVCC_BUILD)

build/cuda/rlhf: examples/rlhf.c $(CUDA_HEADERS) $(HEADERS) tests/cuda.mk
	@mkdir -p $(@D); rm -f $@
	$(NVCC_BUILD)

# Processes on several GPUs: torchrun --no-python --nproc-per-node 4 build/cuda/rlhf-nccl all --device cuda
build/cuda/rlhf-nccl: examples/rlhf.c $(CUDA_HEADERS) $(HEADERS) tests/cuda.mk
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

.PHONY: cuda cuda-programs cuda-test cuda-bench
