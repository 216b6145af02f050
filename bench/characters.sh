#!/bin/sh
# characters.sh [SEED...] - nanoGPT's recipe for a CPU (config/train_shakespeare_char.py with the flags of its README, with
# biases) by build/finetune, on the first 1.1 MB of the King James Bible (Debian: apt-get install bible-kjv), the last 0.1
# of which are held out; for each seed (1 2 3) and each set of kernels (KERNELS="avx512 avx2"): the held-out loss, and
# seconds and processor seconds of training. One thread.
set -eu
cd "$(dirname "$0")/.."
dir=build/characters
make -s build/finetune
command -v bible >/dev/null || { echo "characters.sh: apt-get install bible-kjv" >&2; exit 1; }
mkdir -p $dir
bible -f Gen1:1-Rev22:21 | sed 's/^[^ ]* //' >$dir/all.txt
head -c 1000000 $dir/all.txt >$dir/train.txt
tail -c +1000001 $dir/all.txt | head -c 100000 >$dir/held_out.txt
build/finetune tokenizer data=$dir/train.txt vocab=0 specials= out=$dir/characters.safetensors >/dev/null
for seed in ${*:-1 2 3}; do
    # 65 tokens are 64 that are seen and 64 that are predicted
    build/finetune new model=$dir/characters.safetensors out=$dir/new.safetensors family=gpt2 activation=gelu_erf \
        context=65 width=128 layers=4 heads=4 seed="$seed" >/dev/null
    for kernels in ${KERNELS:-avx512 avx2}; do
        build/finetune text model=$dir/new.safetensors data=$dir/train.txt held_out=$dir/held_out.txt \
            out=$dir/trained.safetensors window=65 random_windows=yes batch_size=12 steps=2000 learning_rate=1e-3 \
            min_learning_rate=1e-4 warmup_steps=100 adam_beta2=0.99 adam_eps=1e-8 weight_decay=0.1 \
            evaluate_every=2000 checkpoint_every=2000 seed="$seed" kernels="$kernels" show=2 log=$dir/log.csv >$dir/out.txt
        awk -F, -v name="seed $seed $kernels" 'NR == 2 { began = $9 }  $1 == 1999 { s = $9 - began }
            END { printf "%s: held-out loss %.4f, %.1f s\n", name, $4, s }' $dir/log.csv
        tail -n 3 $dir/out.txt
    done
done
