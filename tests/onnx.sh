#!/bin/sh
# onnx.sh - ONNX Runtime answers as ppo_act() does, for policies of every kind. Reports in TAP. PPO_PYTHON names a Python
# with the packages numpy, onnx and onnxruntime; without them all is skipped.
work=build/onnx
. "$(dirname "$0")/check.sh"

python=${PPO_PYTHON:-python3}
missing=
for package in numpy onnx onnxruntime; do $python -c "import $package" 2>$work/check.log || missing="$missing $package"; done
if [ -n "$missing" ]; then
    skip onnx "there is no Python package$missing"
    finish
    exit
fi

# What the program in Python prints becomes this script's, with the first check before it.
if ! ${CC:-cc} -O1 -DPPO_NO_LANGUAGE -DPPO_NO_REPORTS -I. tests/onnx.c -o $work/onnx -lm >$work/check.log 2>&1 ||
    ! $work/onnx $work >$work/names 2>>$work/check.log; then
    sed 's/^/# /' $work/check.log
    report agents_of_every_kind_are_written 1
    finish
    exit
fi
$python tests/onnx_compare.py $work
status=$?
rm -f $work/*.f32
exit $status
