#!/bin/sh
# coverage.sh [list] - runs the programs of $COV, and prints how many lines and branches of each section of ppo.h and of each
# companion ran; `list`: also which did not. `make coverage` calls it. It fails below these percentages, outside the kernels:
lines=99.5 branches=96
export PPO_TEST_FINE=1 # every allocation fails at its place, also within an arena's page
list=0 failed=0
[ "${1-}" != list ] || list=1
rm -f build/cov/*.gcda
sh tests/run.sh -j"$(getconf _NPROCESSORS_ONLN)" $COV >build/cov/run.log || { cat build/cov/run.log; failed=1; }
mkdir -p build/cov/policies
build/cov/export build/cov/policies >build/cov/export.log || exit 1
for counts in build/cov/*.gcda; do gcov -t -b -c -o build/cov "$counts" 2>>build/cov/gcov.log; done |
    awk -v lines=$lines -v branches=$branches -v list=$list -f tests/coverage.awk tests/unreached.txt - || failed=1
exit $failed
