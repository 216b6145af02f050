#!/bin/sh
# doors_tokenizers.sh - tokenizer.json files beside Hugging Face's tokenizers: those that other packages ship, and made-up ones
# with the expressions of published models; equal tokens and texts, and the time. Reports in TAP.
work=build/doors-tokenizers
. "$(dirname "$0")/check.sh"
python=${PPO_PYTHON:-python3}

for package in numpy tokenizers; do
    $python -c "import $package" 2>"$work/check.log" && continue
    skip doors_tokenizers "$python has no $package"
    finish
    exit
done
PPO_LIBRARY=$(ls build/libppo.so build/libppo.dylib 2>"$work/ls.log" | head -n 1)
export PPO_LIBRARY
TOKENIZERS_PARALLELISM=false $python -B tests/doors_tokenizers.py "$work"
