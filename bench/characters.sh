#!/bin/sh
# characters.sh SEED STEPS KERNELS THREADS - nanoGPT's recipe for a CPU by build/finetune, one side of characters.c: prints the
# seconds of each fifth of the training, the processor's seconds of all of it, with measuring the loss twice, and the
# held-out loss. characters.sh alone makes the text, in build/characters: the first 1.1 MB of the King James Bible
# (Debian: apt-get install bible-kjv), the last 0.1 of which are held out.
set -eu
cd "$(dirname "$0")/.."
dir=build/characters
if [ $# = 0 ]; then
    make -s build/finetune
    command -v bible >/dev/null || { echo "characters.sh: apt-get install bible-kjv" >&2; exit 1; }
    mkdir -p $dir
    bible -f Gen1:1-Rev22:21 | sed 's/^[^ ]* //' >$dir/all.txt
    head -c 1000000 $dir/all.txt >$dir/train.txt
    tail -c +1000001 $dir/all.txt | head -c 100000 >$dir/held_out.txt
    exec build/finetune tokenizer data=$dir/train.txt vocab=0 specials= out=$dir/characters.safetensors >/dev/null
fi
seed=$1 steps=$2 kernels=$3 threads=$4
# 65 tokens are 64 that are seen and 64 that are predicted
build/finetune new model=$dir/characters.safetensors out=$dir/new.safetensors family=gpt2 activation=gelu_erf \
    context=65 width=128 layers=4 heads=4 seed="$seed" >/dev/null
build/finetune text model=$dir/new.safetensors data=$dir/train.txt held_out=$dir/held_out.txt \
    out=$dir/trained.safetensors window=65 random_windows=yes batch_size=12 threads="$threads" steps="$steps" learning_rate=1e-3 \
    min_learning_rate=1e-4 warmup_steps=100 adam_beta2=0.99 adam_eps=1e-8 weight_decay=0.1 evaluate_every="$steps" \
    checkpoint_every="$steps" seed="$seed" kernels="$kernels" show=0 log=$dir/log.csv >$dir/out.txt
# The first step's line has the measuring before it, the last one's that after it.
awk -F, -v n="$steps" '{ at[$1] = $9 }
    END {
        for (k = 0; k < 5; k++) {
            from = 1 + int(k * (n - 2) / 5); to = 1 + int((k + 1) * (n - 2) / 5)
            print (at[to] - at[from]) / (to - from) * n / 5
        }
    }' $dir/log.csv
sed -n 's/.* s, \(.*\) s of a processor$/\1/p' $dir/out.txt
awk -F, -v n="$steps" '$1 == n { print $4 }' $dir/log.csv
