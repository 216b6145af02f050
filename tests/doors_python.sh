#!/bin/sh
# doors_python.sh - examples/python/ppo.py with the library as `make shared` builds it: the tests of python.sh, and those
# beside Gymnasium and Stable-Baselines3, which doors_python.py has. Reports in TAP.
work=build/doors-python
. "$(dirname "$0")/check.sh"
python=${PPO_PYTHON:-python3}

if ! $python -c 'import numpy' 2>"$work/numpy.log"; then
    skip doors_python "$python has no numpy"
    finish
    exit
fi
PPO_LIBRARY=$(ls build/libppo.so build/libppo.dylib 2>"$work/ls.log" | head -n 1)
export PPO_LIBRARY
$python -B tests/python.py
first=$?
$python -B -W ignore tests/doors_python.py && [ $first -eq 0 ]
