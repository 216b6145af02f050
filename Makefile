# GNU make. `make help` lists the targets; everything that is built goes to build/.

CC       ?= cc
CXX      ?= c++
MPICC    ?= mpicc
CFLAGS   ?= -O2
CXXFLAGS ?= -O2
LDLIBS    = -lm
ARGS      =
CSV       = build/progress.csv

HEADERS  := ppo.h $(wildcard stb_ds.h examples/*.h examples/companions/*.h examples/envs/*.h* examples/lessons/*.h)
EXAMPLES := $(patsubst examples/%.c,build/%,$(filter-out examples/ppo.c examples/mujoco.c,$(wildcard examples/*.c)))
LESSONS  := $(patsubst examples/%.c,build/%,$(wildcard examples/lessons/*.c))

# Builds on all processors, unless make was given -j.
PROCESSORS = $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
JOBS       = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(PROCESSORS))

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

# The longest come first. Each leaves what it prints in build/lessons/NAME.txt. Kernels round differently, and a training
# follows the smallest difference: with one set of kernels, where the processor has it, the figures are those of the course.
LESSON_ARGS = 1 $(shell grep -qsw avx2 /proc/cpuinfo && echo avx2)

lessons: $(LESSONS) ## runs all lessons of examples/lessons/ and checks their claims; drawings are build/lessons/*.svg
	@printf '%s\n' $(sort $(filter %_details %_mistakes %_objectives,$(LESSONS))) $(filter-out %_details %_mistakes %_objectives,$(LESSONS)) | \
	    xargs -n 1 -P $(PROCESSORS) sh -c '$$0 $(LESSON_ARGS) >$$0.txt 2>&1; s=$$?; echo "$$0: $$(grep -c "^  holds:" $$0.txt) claims hold"; \
	    test $$s = 0 || { tail -n 20 $$0.txt; exit 1; }'
	@sh examples/lessons/drawings.sh $(if $(findstring avx2,$(LESSON_ARGS)),exact)

lunarlander: build/lunarlander ## builds build/train with LunarLander, which needs Box2D, as build/lunarlander

mujoco: build/mujoco ## trains Hopper-v5 with build/mujoco: build/train with the tasks of MuJoCo; flags go into ARGS
	@build/mujoco --env Hopper-v5 $(ARGS)

mpi: build/train-mpi build/rlhf-mpi ## builds build/train and build/rlhf for MPI, as build/train-mpi and build/rlhf-mpi

# --- examples ------------------------------------------------------------------------------------------------------

# The library is compiled once. Each example is a program in one file, which `cc -O2 -I. FILE -lm` compiles as well;
# PPO_NO_IMPLEMENTATION keeps the library out of it here.
LIBRARY_PARTS = examples/ppo.c ppo.h $(wildcard stb_ds.h examples/companions/*.h) Makefile
LINK_EXAMPLE  = -DPPO_NO_IMPLEMENTATION -I. $< $(filter %.o,$^) -o $@

build/ppo.o: $(LIBRARY_PARTS) | build/stb_ds.found
	$(CC) $(CFLAGS) -Wall -Wextra -I. -c $< -o $@ 2>build/ppo.log; status=$$?; cat build/ppo.log >&2; exit $$status

# What `make run` waits for in a fresh clone: without language models the library compiles in half the time. Whoever has
# the whole one anyway, as `make test` has, says CONTROL=build/ppo.o.
CONTROL ?= build/control.o

build/control.o: $(LIBRARY_PARTS) | build/stb_ds.found
	$(CC) $(CFLAGS) -Wall -Wextra -DPPO_NO_LANGUAGE -I. -c $< -o $@

build/%: examples/%.c build/ppo.o $(HEADERS) Makefile
	@rm -f $@
	$(CC) $(CFLAGS) $(LINK_EXAMPLE) $(LDLIBS)

build/lessons/%: examples/lessons/%.c build/ppo.o $(HEADERS) Makefile
	@mkdir -p $(@D); rm -f $@
	$(CC) $(CFLAGS) -Wall -Wextra $(LESSON_FLAGS) $(LINK_EXAMPLE) $(LDLIBS)

build/train build/plot: build/%: examples/%.c $(CONTROL) $(HEADERS) Makefile
	@rm -f $@
	$(CC) $(CFLAGS) $(LINK_EXAMPLE) $(LDLIBS)

build/lunarlander: examples/lunarlander.cpp examples/train.c $(CONTROL) $(HEADERS) Makefile | build/box2d.found
	$(CXX) -std=c++17 $(CXXFLAGS) $(LINK_EXAMPLE) -lbox2d $(LDLIBS)

# build/mujoco.found holds flags.
build/mujoco: examples/mujoco.c examples/train.c $(CONTROL) $(HEADERS) Makefile | build/mujoco.found
	@rm -f $@
	$(CC) $(CFLAGS) $(LINK_EXAMPLE) @build/mujoco.found $(LDLIBS)

# Processes that train together, on one machine or many: mpirun -n 4 build/train-mpi --env CartPole-v1
build/train-mpi: $(CONTROL)
build/rlhf-mpi: build/ppo.o
build/%-mpi: examples/%.c $(HEADERS) Makefile | build/mpi.found
	@rm -f $@
	$(MPICC) $(CFLAGS) -DWITH_MPI $(LINK_EXAMPLE) $(LDLIBS)

# --- exercises -----------------------------------------------------------------------------------------------------

# Of each exercise, grade.c becomes the judge, with the library, and the part of the student's program that calls the
# student's function. grade.sh compiles the rest.
JSON      = marks.json
GRADED   := $(patsubst examples/exercises/%/grade.c,build/exercises/%/judge,$(wildcard examples/exercises/*/grade.c))
GRADE_NOW = $(if $(EX),$(filter $(patsubst %,build/exercises/%/judge,$(EX) $(EX)_% 0$(EX)_% %_$(EX)),$(GRADED)),$(GRADED))
GRADE_SH  = CC="$(CC)" CONTROL="$(CONTROL)" sh examples/exercises/grade.sh

grade: $(GRADE_NOW) ## grades the exercises of examples/exercises/; EX=03 grades one of them, in detail
	@$(GRADE_SH) all "$(EX)"

hint: ## prints the next of three hints for an exercise: make hint EX=03
	@$(GRADE_SH) hint "$(EX)"

case: $(GRADE_NOW) ## prints a case of an exercise as C arrays: make case EX=02 PART=3
	@$(GRADE_SH) cases "$(EX)" "$(PART)"

grade-all: $(GRADED) ## grades a class: make grade-all DIR=submissions JSON=marks.json, a folder for each student
	@$(GRADE_SH) class "$(DIR)" "$(JSON)" $(PROCESSORS) "$(EX)"

judges: $(GRADED)

build/exercises/sanitizer: always # another compiler?
	@$(GRADE_SH) sanitizer
always:

$(GRADED): build/exercises/%/judge: examples/exercises/%/grade.c examples/exercises/grade.h $(CONTROL) build/exercises/sanitizer Makefile
	@mkdir -p $(@D)
	$(CC) -Wall -Wextra -Wno-unused-function -DPPO_NO_IMPLEMENTATION -DPPO_NO_LANGUAGE -I. $< $(CONTROL) -o $@ $(LDLIBS)
	$(CC) $$(sed -n 2p build/exercises/sanitizer) -g1 -DGRADE_STUDENT -DPPO_NO_IMPLEMENTATION -DPPO_NO_LANGUAGE -I. -c $< -o $(@D)/stub.o

# --- the playground, and the manual's pages ------------------------------------------------------------------------

# A page in one file: its parts replace the lines @NAME@. stb_ds.h is where CC finds it; the engine needs no JavaScript
# of Emscripten's.
WEB     = examples/web
EMFLAGS = -O3 -msimd128 -Wall -Wextra -sALLOW_MEMORY_GROWTH --no-entry

web: build/web/index.html ## builds the playground, one page that trains in a browser, with Emscripten

build/web/web.wasm: $(wildcard $(WEB)/*.[ch]) $(HEADERS) Makefile | build/stb_ds.found
	@command -v emcc >/dev/null || { echo "please install emscripten (Debian, Ubuntu, Fedora, Arch): there is no emcc" >&2; exit 1; }
	@mkdir -p $(@D)/include
	@stb=$$($(CC) -I. -M examples/ppo.c | tr ' ' '\n' | grep -m1 'stb_ds\.h$$') && cp "$$stb" $(@D)/include
	emcc $(EMFLAGS) -I. -I$(@D)/include $(WEB)/web.c -o $@

build/web/index.html: build/web/web.wasm $(wildcard $(WEB)/*.html $(WEB)/*.css $(WEB)/*.js)
	@base64 <$< | tr -d '\n' >$(<:.wasm=.wasm.txt)
	@sed $(foreach f,$(WEB)/style.css $(WEB)/page.js $(WEB)/figures.js $(WEB)/worker.js build/web/web.wasm.txt,-e '/^@$(notdir $(f))@$$/{r $(f)' -e 'd}') \
	    $(WEB)/page.html >$@ && echo $@

# The manual's pages. SOURCE=https://.../ppo.h#L lets links to lines lead into a repository.
docs: ## writes the manual as pages, build/docs/index.html, from the comments of ppo.h and its companions
	@mkdir -p build/docs; cp examples/docs/style.css build/docs/docs.css
	@awk -v out=build/docs -v source='$(SOURCE)' -v script=examples/docs/search.js -f examples/docs/pages.awk ppo.h ppo_cuda.cuh $(COMPANIONS)
	@echo build/docs/index.html

# The course's pages. The answers to the lessons' questions are in them with TEACHER=1.
course: docs build/course-pages ## writes the lessons as pages, build/course/index.html, after `make lessons`; TEACHER=1: with answers
	@mkdir -p build/course; rm -f build/course/*.html; cp examples/docs/style.css build/course/docs.css; cp examples/lessons/course/style.css build/course/course.css
	@build/course-pages build/course $(if $(TEACHER),teacher)
	@$(MAKE) -s --no-print-directory build/course/card.pdf
	@echo build/course/index.html

build/course-pages: examples/docs/course.c examples/docs/formula.h Makefile
	@mkdir -p $(@D)
	$(CC) -std=c99 -D_POSIX_C_SOURCE=200809L -O1 -Wall -Wextra $< -o $@

# One sheet of paper, where there is a Chromium.
build/course/card.pdf: examples/lessons/course/card.md examples/lessons/course/style.css examples/docs/course.c examples/docs/formula.h
	@if command -v chromium >/dev/null; then chromium --headless --no-sandbox --disable-gpu --no-pdf-header-footer --print-to-pdf=$@ $(@D)/card.html \
	    >build/card.log 2>&1 && echo $@ || cat build/card.log; fi

# --- the rest ------------------------------------------------------------------------------------------------------

include examples/package/package.mk tests/tests.mk tests/trust.mk tests/doors.mk tests/cuda.mk bench/bench.mk

# What a program needs of the system: require.sh looks for it, and installs it if it may.
export CC CXX MPICC PPO_PYTHON
build/%.found:
	@sh examples/package/require.sh $*

clean: ## removes build/
	rm -rf build

help: ## prints this
	@cat $(MAKEFILE_LIST) | sed -n 's/^\([a-z-]*\):.* ## \(.*\)/\1 - \2/p' | awk -F' - ' '{ printf "make %-12s %s\n", $$1, $$2 }'

.PHONY: all run plot rlhf words runaway lessons lunarlander mujoco mpi grade hint case grade-all judges always web docs course clean help
