#!/bin/sh
# doors_gguf.sh - GGUF both ways beside the package gguf (tensors of every type, keys) and llama.cpp (greedy tokens,
# log-probabilities, tokenizers), for each family that llama.cpp has. Reports in TAP. PPO_PYTHON names a Python with
# numpy, tokenizers, gguf and llama-cpp-python; what lacks a package is skipped.
work=build/doors-gguf
. "$(dirname "$0")/check.sh"
python=${PPO_PYTHON:-python3}

for package in numpy tokenizers gguf; do
    $python -c "import $package" 2>"$work/check.log" && continue
    skip doors_gguf "$python has no $package"
    finish
    exit
done
if ! ${CC:-cc} -O1 -I. -Iexamples tests/doors_gguf.c -o "$work/doors_gguf" -lm -pthread >"$work/check.log" 2>&1; then
    sed 's/^/# /' "$work/check.log"
    report the_program_compiles 1
    finish
    exit
fi
PPO_LIBRARY=$(ls build/libppo.so build/libppo.dylib 2>"$work/ls.log" | head -n 1)
export PPO_LIBRARY
TOKENIZERS_PARALLELISM=false $python -B tests/doors_gguf.py "$work"
