#!/bin/sh
# breakout.sh [SEED...] - Breakout on 10 x 10 pixels (examples/envs/breakout.h) by a convolution and by two hidden layers of
# 128 (MLP, its settings), after STEPS steps each, and by the hidden layers for the seconds that the convolution took; for
# each the mean return of the last 100 training episodes, over the seeds (1 to 10) with a 95 % interval (Student's t).
# One thread; nothing else may run at the same time.
set -eu
cd "$(dirname "$0")/.."
dir=build/breakout steps=${STEPS:-1000000}
mlp=${MLP:---conv none --hidden 128,128}
make -s build/train
mkdir -p $dir
: >$dir/results.txt

# play NAME SEED STEPS FLAG... - prints and keeps name, seed, mean return, seconds, steps per second
play() {
    name=$1 seed=$2 count=$3
    shift 3
    build/train --env Breakout --seed "$seed" --steps "$count" --quiet --json --eval-episodes 1 --csv $dir/log.csv "$@" >$dir/out.json
    awk -F, -v name="$name" -v seed="$seed" 'NR == FNR { for (i = 1; i <= NF; i++) if (split($i, a, /[":]+/) > 2) is[a[2]] = a[3]; next }
        FNR == 1 { for (i = 1; i <= NF; i++) column[$i] = i }
        END { print name, seed, $column["rollout/ep_rew_mean"], is["seconds"], is["steps_per_second"] }' $dir/out.json $dir/log.csv |
        tee -a $dir/results.txt
}

for seed in ${*:-1 2 3 4 5 6 7 8 9 10}; do
    play conv "$seed" "$steps"
    play mlp "$seed" "$steps" $mlp
    same=$(awk '$1 == "conv" { seconds = $4 } $1 == "mlp" { speed = $5 } END { printf "%d", seconds * speed }' $dir/results.txt)
    play mlp-same-time "$seed" "$same" $mlp
done
awk '{ n[$1]++; sum[$1] += $3; squares[$1] += $3 * $3; seconds[$1] += $4 }
    END {
        split("12.706 4.303 3.182 2.776 2.571 2.447 2.365 2.306 2.262", t, " ")
        for (name in n) {
            k = n[name]; mean = sum[name] / k; interval = 0
            if (k > 1) interval = (k > 10 ? 2.2 : t[k - 1]) * sqrt((squares[name] - k * mean * mean) / (k - 1) / k)
            printf "%s: mean return %.1f +- %.1f over %d seeds, %.1f s each\n", name, mean, interval, k, seconds[name] / k
        }
    }' $dir/results.txt
