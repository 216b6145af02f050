#!/bin/sh
# python.sh - examples/python/ppo.py, with numpy alone: python.py has the tests. PPO_PYTHON=... names the Python. Reports in
# TAP.
work=build/python-test
. "$(dirname "$0")/check.sh"
python=${PPO_PYTHON:-python3}

if ! $python -c 'import numpy' 2>"$work/numpy.log"; then
    skip python "$python has no numpy"
    finish
    exit
fi

# The library, with plain kernels and without optimization: it compiles in a second.
${CC:-cc} -O0 -w -shared -fPIC -DPPO_NO_SIMD -DPPO_NO_LANGUAGE -I. examples/ppo.c -o $work/libppo.so -lm -pthread || exit
PPO_LIBRARY=$work/libppo.so exec $python -B tests/python.py
