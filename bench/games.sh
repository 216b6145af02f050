#!/bin/sh
# games.sh [SEED...] - the games of 10 x 10 pixels (GAMES; examples/envs/) by a convolution, the settings of build/train,
# and by two hidden layers of 128 (MLP, its settings), after STEPS steps each; and by the hidden layers after RATIO times
# as many, which take the convolution's processor time (measured if RATIO is not given). For each the mean return of the
# last 100 training episodes, over the seeds (1 to 10), with a 95 % interval (Student's t). One thread.
set -eu
cd "$(dirname "$0")/.."
dir=${DIR:-build/games} steps=${STEPS:-400000}
mlp=${MLP:---conv none --hidden 128,128}
make -s build/train
mkdir -p "$dir"
: >"$dir/results.txt"

# seconds GAME FLAG... - the least processor time of three short trainings
seconds() {
    env=$1
    shift
    for run in 1 2 3; do
        (
            build/train --env "$env" --steps 24576 --quiet --json --eval-episodes 1 "$@" >"$dir/out.json"
            times
        ) | awk 'NR == 2 { split($1, t, /[ms]/); print 60 * t[1] + t[2] }'
    done | sort -n | head -1
}

# play GAME NAME SEED STEPS FLAG... - prints and keeps game, name, seed, steps, mean return
play() {
    env=$1 name=$2 seed=$3 count=$4
    shift 4
    build/train --env "$env" --seed "$seed" --steps "$count" --quiet --json --eval-episodes 1 --csv "$dir/log.csv" "$@" \
        >"$dir/out.json"
    awk -F, -v is="$env $name $seed $count" 'FNR == 1 { for (i = 1; i <= NF; i++) column[$i] = i }
        END { print is, $column["rollout/ep_rew_mean"] }' "$dir/log.csv" | tee -a "$dir/results.txt"
}

for game in ${GAMES:-Breakout Gold Invaders}; do
    ratio=${RATIO:-$(echo "$(seconds "$game") $(seconds "$game" $mlp)" | awk '{ print $1 / $2 }')}
    same=$(awk -v steps="$steps" -v ratio="$ratio" 'BEGIN { printf "%d", steps * ratio }')
    for seed in ${*:-1 2 3 4 5 6 7 8 9 10}; do
        play "$game" conv "$seed" "$steps"
        play "$game" mlp "$seed" "$steps" $mlp
        play "$game" mlp-same-time "$seed" "$same" $mlp
    done
done
awk '{ of = $1 " " $2; if (!n[of]++) order[++count] = of; sum[of] += $5; squares[of] += $5 * $5; steps[of] = $4 }
    END {
        split("12.706 4.303 3.182 2.776 2.571 2.447 2.365 2.306 2.262", t, " ")
        for (i = 1; i <= count; i++) {
            of = order[i]; k = n[of]; mean = sum[of] / k; interval = 0
            if (k > 1) interval = (k > 10 ? 2.2 : t[k - 1]) * sqrt((squares[of] - k * mean * mean) / (k - 1) / k)
            printf "%s: mean return %.1f +- %.1f over %d seeds of %d steps\n", of, mean, interval, k, steps[of]
        }
    }' "$dir/results.txt"
