#!/bin/sh
# kill.sh [N] - kills build/train at random moments and resumes it from the last checkpoint until it is done, N times (8);
# and a fine-tuning a quarter as often. Each result must equal that of an uninterrupted run, byte for byte. Reports in TAP.
work=build/kill
. "$(dirname "$0")/check.sh"
trials=${1:-${KILLS:-8}} kills=0 early=0 left=0
logs="$work/out $work/err $work/log"

${CC:-cc} -O1 -w -I. tests/kill_compare.c build/ppo.o -o $work/compare -lm >$work/log 2>&1 || {
    sed 's/^/# /' $work/log
    echo "1..0 # kill_compare.c does not compile"
    exit 1
}

# 80 iterations in a second, half of which is for checkpoints
settings="--env CartPole-v1 --steps 20480 --num-envs 4 --rollout-steps 64 --hidden 16 --normalize-obs yes"
build/train $settings --save $work/whole --save-every 1 --quiet --json >$work/out 2>$work/err
seconds=$(sed -n 's/.*"seconds":\([0-9.]*\).*/\1/p' $work/out)
[ -n "$seconds" ]
report an_uninterrupted_run_ends $?

# random K - the K-th of a fixed sequence of numbers between 0 and 1
random() { awk -v k="$1" 'BEGIN { srand(20170720); for (i = 0; i <= k; i++) x = rand(); print x }'; }

# Starts the run, or resumes it, and kills it after $1 seconds, if that is not "never". Returns its exit status: 137 if
# it was killed in time.
run_for() {
    if [ $what = fit ]; then
        set -- "$1"
    elif [ -f $work/run ]; then
        set -- "$1" --resume $work/run
    else
        set -- "$1" $settings
    fi
    delay=$1
    shift
    if [ $what = fit ]; then
        $work/compare fit $work/run >$work/out 2>$work/err &
    else
        build/train "$@" --threads $((1 + kills % 2)) --save $work/run --save-every 1 --quiet >$work/out 2>$work/err &
    fi
    pid=$!
    [ "$delay" = never ] || { sleep "$delay"; kill -KILL $pid 2>$work/log; }
    wait $pid 2>$work/log
}

trial() { # kills until the run is done; after ten kills it continues undisturbed
    rm -f $work/run $work/ppo-*.tmp
    killed=0
    while :; do
        existed=0
        [ -f $work/run ] && existed=1
        delay=$(awk -v r="$(random $((100 * number + killed)))" -v s="$seconds" 'BEGIN { print 0.9 * r * s }')
        [ $killed -eq 0 ] && [ $((number % 4)) -eq 1 ] && delay=0.0$((number % 3)) # shortly after the start
        [ $killed -lt 10 ] || delay=never
        run_for "$delay"
        status=$?
        [ $status -eq 0 ] && break
        [ $status -eq 137 ] || return 1 # not killed, but failed
        killed=$((killed + 1)) kills=$((kills + 1))
        if [ -f $work/run ]; then
            $work/compare $work/run >>$work/steps.$what || return 1
        else
            [ $existed -eq 0 ] || return 1
            early=$((early + 1))
        fi
    done
    temporaries=$(ls $work | grep -c '^ppo-.*\.tmp$')
    left=$((left + temporaries))
    [ "$temporaries" -le $killed ] || return 1
    $work/compare $work/whole $work/run >$work/log
}

what=train
: >$work/steps.train
: >$work/steps.fit
for k in $(seq "$trials"); do
    trial
    report "a_run_that_was_killed_and_resumed_ends_with_the_same_bytes ($k: $killed kills)" $?
done
what=fit
rm $work/whole
seconds=$($work/compare fit $work/whole)
for k in $(seq $(((trials + 3) / 4))); do
    trial
    report "a_fine_tuning_that_was_killed_continues_to_the_same_bytes ($k: $killed kills)" $?
done
[ $kills -ge "$trials" ] && [ -s $work/steps.train ] && [ -s $work/steps.fit ]
report some_of_the_kills_were_in_time $?

sort -n $work/steps.fit | awk '
    NR == 1 { first = $1 } { last = $1 }
    END { printf "# %d kills of a fine-tuning when %d to %d of 300 steps were saved; and\n", NR, first, last }'
sort -n $work/steps.train | awk -v kills=$kills -v early=$early -v left=$left '
    NR == 1 { first = $1 } { last = $1 }
    END {
        printf "# %d kills: %d before the first checkpoint, the others when %d to %d of 20480 steps were saved;\n", kills, early, first, last
        printf "# %d during a save, which left ppo-PID-0.tmp behind: one file per kill at most\n", left
    }'
finish
