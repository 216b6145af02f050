#!/bin/sh
# memcheck.sh - short runs of build/train and build/rlhf under valgrind's memcheck: no error, no leak, nothing excused. What
# AddressSanitizer does not see are numbers that nobody has set. Reports in TAP. valgrind has no AVX-512, so that the kernels
# chosen at run time are others; PPO_VECTOR16 and plain ones are asked for by name.
work=build/memcheck
. "$(dirname "$0")/check.sh"

# under_valgrind PROGRAM ARGUMENT...
under_valgrind() {
    valgrind -q --error-exitcode=99 --leak-check=full --show-leak-kinds=all --errors-for-leak-kinds=all "$@" \
        >$work/out 2>$work/err
    status_of_run=$?
    [ $status_of_run -eq 0 ] && ! grep '^==' $work/err || { tail -n 20 $work/err; false; }
}

train() { under_valgrind build/train --num-envs 4 --rollout-steps 32 --epochs 2 --eval-episodes 1 --quiet "$@"; }

# build/rlhf with fewer sentences and comparisons
small_rlhf() {
    mkdir -p $work/source && cp examples/rlhf.c examples/*.h $work/source &&
        sed 's/CORPUS = [0-9]*, PAIRS = [0-9]*, PROMPTS = [0-9]*, HELD_OUT = [0-9]*/CORPUS = 200, PAIRS = 8, PROMPTS = 8, HELD_OUT = 4/' \
            examples/stages.h >$work/source/stages.h && ! cmp -s examples/stages.h $work/source/stages.h &&
        ${CC:-cc} -O2 -g -w -DPPO_NO_IMPLEMENTATION -I. -Iexamples $work/source/rlhf.c build/ppo.o -o $work/rlhf -lm
}
rlhf() {
    under_valgrind $work/rlhf --dir $work/models --quiet --json --fit 'epochs=1 steps=2 batch_size=4' --iterations 2 \
        --prompts 4 --slots 4 --minibatch-size 4 "$@"
}

if ! command -v valgrind >/dev/null; then
    skip memcheck 'there is no valgrind'
else
    set -- --steps 256
    check train_with_the_best_kernels train "$@" --save $work/a.st --csv $work/a.csv --tensorboard $work/tb --export $work/a.h
    check train_resumed train --resume $work/a.st --steps 512
    for kernels in plain vector16 avx2; do
        if build/train --steps 64 --eval-episodes 1 --quiet --kernels $kernels >/dev/null 2>&1; then
            check train_with_${kernels}_kernels train "$@" --kernels $kernels
        else skip train_with_${kernels}_kernels 'this processor does not have them'; fi
    done
    check train_on_three_threads train "$@" --threads 3 --shards 4 --minibatch-size 64
    check train_with_memory_and_normalization train "$@" --recurrent 16 --sequence-steps 8 --normalize-obs yes \
        --normalize-reward yes
    check train_a_box_by_gsde_squashed train "$@" --env Pendulum-v1 --gsde yes --squash yes --normalize-obs yes
    check train_pictures_by_convolutions train --steps 128 --env Breakout --minibatch-size 64
    check train_who_plays_itself train --steps 128 --env TicTacToe-v0 --minibatch-size 64
    check models_fine_tuning_and_ppo_on_tokens under_valgrind build/plain/test_process jobs
    check a_small_rlhf_is_compiled small_rlhf
    for stage in sft reward dpo ppo 'ppo --preset grpo --samples 4'; do
        check "rlhf $stage" rlhf $stage
    done
fi

finish
