#!/bin/sh
# convert.sh - policies of Stable-Baselines3 and PyTorch answer in ppo.h as they did before. Reports in TAP. PPO_PYTHON names
# a Python with the packages numpy, torch, gymnasium and stable_baselines3; without them all is skipped.
work=build/convert
. "$(dirname "$0")/check.sh"

python=${PPO_PYTHON:-python3}
missing=
for package in numpy torch gymnasium stable_baselines3; do
    $python -c "import $package" 2>$work/check.log || missing="$missing $package"
done
if [ -n "$missing" ]; then
    skip convert "there is no Python package$missing"
    finish
    exit
fi

# What the program in Python prints becomes this script's.
if ! ${CC:-cc} -O1 -DPPO_NO_LANGUAGE -DPPO_NO_REPORTS -I. tests/convert.c -o $work/convert -lm >$work/check.log 2>&1; then
    sed 's/^/# /' $work/check.log
    report the_program_that_asks_ppo_h 1
    finish
    exit
fi
$python -W ignore tests/convert_compare.py $work
