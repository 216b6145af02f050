#!/bin/sh
# doors_python.sh - the shared library in Python. Reports in TAP.
work=build/doors-python
. "$(dirname "$0")/check.sh"
python=${PPO_PYTHON:-python3}

loads() { $python -c 'import ctypes, glob, sys
library = ctypes.CDLL(glob.glob("build/libppo.[sd]*")[0])
library.ppo_kernels_name.restype = ctypes.c_char_p
print(library.ppo_kernels_name().decode())'; }

if command -v "$python" >"$work/which.log"; then
    check the_library_loads loads
else
    skip the_library_loads "no $python"
fi

finish
