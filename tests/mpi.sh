#!/bin/sh
# mpi.sh - runs build/train and build/rlhf under mpirun with 1, 2, 4 and 8 processes: the results are those of one process
# without MPI, byte for byte, also where a run is resumed by another number; and a process that is killed ends the others.
# Skipped where there is no MPI. Reports in TAP.
work=build/mpi
. "$(dirname "$0")/check.sh"
logs="$work/out $work/err $work/log"

command -v mpirun >$work/log && command -v "${MPICC:-mpicc}" >>$work/log || {
    skip MPI "no mpirun, or no mpicc"
    finish
    exit
}

for program in train rlhf; do
    ${MPICC:-mpicc} -O1 -w -DWITH_MPI -DPPO_NO_IMPLEMENTATION -I. examples/$program.c build/ppo.o -o $work/$program -lm >>$work/log 2>&1 || {
        sed 's/^/# /' $work/log
        echo "1..0 # $program.c does not compile with MPI"
        exit 1
    }
done
${CC:-cc} -O1 -w -I. tests/kill_compare.c build/ppo.o -o $work/compare -lm >>$work/log 2>&1 || exit 1

# More processes than processors, which are shared with other tests; Open MPI wants to hear that root knows what it does.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe

# processes N PROGRAM ARGUMENTS... - runs N of them; what they print is in $work/out and $work/err
processes() {
    n=$1 program=$2
    shift 2
    mpirun -n $n $work/$program "$@" >$work/out 2>$work/err
}

settings="--env CartPole-v1 --num-envs 16 --rollout-steps 64 --minibatch-size 256 --shards 8 --epochs 3 --hidden 16
    --normalize-obs yes --normalize-reward yes --learning-rate-schedule constant --eval-episodes 2 --json"
build/train $settings --steps 4096 --save $work/half --quiet >$work/out 2>$work/err
build/train $settings --steps 8192 --save $work/whole --quiet >$work/out 2>$work/err
report a_single_process_trains $?
[ $failures -eq 0 ] || { finish; exit 1; }
sed 's/"seconds.*second":[0-9]*//' $work/out >$work/want

for n in 1 2 4 8; do
    processes $n train $settings --steps 8192 --threads $((1 + n % 4 / 2)) --save $work/run &&
        $work/compare $work/whole $work/run >$work/log &&
        sed 's/"seconds.*second":[0-9]*//' $work/out | cmp -s - $work/want
    report "$n processes train to the same checkpoint, and one of them reports" $?
done
for n in 2 8; do
    processes $n train --resume $work/half --steps 8192 --save $work/run --quiet &&
        $work/compare $work/whole $work/run >$work/log
    report "$n processes resume what one process has saved" $?
    processes $((16 / n)) train $settings --steps 4096 --save $work/run --quiet &&
        build/train --resume $work/run --steps 8192 --save $work/run --quiet >>$work/out 2>>$work/err &&
        $work/compare $work/whole $work/run >$work/log
    report "one process resumes what $((16 / n)) processes have saved" $?
done

fit="epochs=1 steps=3 batch_size=8 shards=4"
build/rlhf --json --dir $work/models --fit "$fit" sft >$work/out 2>$work/err
for n in 2 4; do
    processes $n rlhf --json --dir $work/models$n --fit "$fit" sft &&
        cmp $work/models/sentences/sft.safetensors $work/models$n/sentences/sft.safetensors >$work/log
    report "$n processes tune a language model to the same bytes" $?
done

processes 4 train --load $work/nothing --no-train
[ $? -ne 0 ] && [ "$(grep -c "nothing: cannot be opened" $work/err)" -eq 1 ]
report "a failure of all is printed once" $?

# dies SIGNAL - whether all end within ten seconds after one of four was sent it
dies() {
    processes 4 train $settings --steps 100000000 --quiet &
    run=$!
    for second in 1 2 3 4 5 6 7 8 9 10; do
        sleep 1
        ranks=$(ps -eo pid,args | awk -v program=$work/train '$2 == program { print $1 }')
        [ "$(echo "$ranks" | wc -l)" -ne 4 ] || break
    done
    kill -"$1" "$(echo "$ranks" | tail -n 1)" 2>$work/log
    for second in 1 2 3 4 5 6 7 8 9 10; do
        sleep 1
        kill -0 $run 2>$work/log || break
    done
    [ $second -lt 10 ] || return 1
    wait $run
    status=$?
    left=$(ps -eo pid,args | awk -v program=$work/train '$2 == program { print $1 }')
    [ $status -ne 0 ] && [ -z "$left" ]
}
dies KILL
report "a process that is killed ends the others" $?

finish
