#!/bin/sh
# seeds.sh - CartPole-v1 with ten seeds and the default settings, 100,000 steps each. At least nine of them must reach a
# mean return of 475 over 20 new episodes, the threshold at which Gymnasium counts the task as solved.
cd "$(dirname "$0")/.." || exit 1
solved=0
for seed in 1 2 3 4 5 6 7 8 9 10; do
    mean=$(build/train --env CartPole-v1 --steps 100000 --seed $seed --quiet --json |
        sed -n 's/.*"eval_mean_return":\([0-9.]*\).*/\1/p')
    echo "seed $seed: mean return ${mean:-none}"
    awk "BEGIN { exit !(${mean:-0} >= 475) }" && solved=$((solved + 1))
done
echo "$solved of 10 seeds reach a mean return of 475"
[ $solved -ge 9 ]
