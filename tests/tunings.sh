#!/bin/sh
# tunings.sh - are the kernels right whichever processor the compiler tunes for? test_math.c in small, with -O2 and -O3, by each
# compiler, for each processor of the list that it knows; by gcc with the kernels for Windows, too. No machine is needed that has
# the processor: a tuning chooses the order and the kind of instructions, not which there may be. Reports in TAP. `make tunings`
# calls it, with COMPILERS="gcc clang" and TUNINGS="generic znver2 ..." if only these are wanted.
work=build/tunings
. "$(dirname "$0")/check.sh"
: "${COMPILERS:=gcc clang}"
: "${TUNINGS:=generic intel haswell skylake skylake-avx512 icelake-server sapphirerapids alderlake znver1 znver2 znver3 znver4}"

# right COMPILER FLAG... - the tests of a program that was compiled with the flags
right() {
    rm -f $work/program
    "$@" -w -DPPO_STATIC -I. tests/test_math_tuned.c -o $work/program -lcmocka -lm && $work/program
}

for compiler in $COMPILERS; do
    if ! command -v $compiler >/dev/null; then
        skip $compiler "it is not installed"
        continue
    fi
    for tuning in $TUNINGS; do
        if ! echo | $compiler -mtune=$tuning -c -x c - -o $work/none.o 2>/dev/null; then
            skip ${compiler}_$tuning "$compiler does not know it"
            continue
        fi
        for level in -O2 -O3; do
            check ${compiler}_$tuning$level right $compiler $level -mtune=$tuning
            case $compiler in gcc*) check ${compiler}_$tuning${level}_short right $compiler $level -mtune=$tuning -DPPO__SHORT_VECTORS ;; esac
        done
    done
done
finish
