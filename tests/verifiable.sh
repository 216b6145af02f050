#!/bin/sh
# verifiable.sh [SEEDS [KERNELS ...]] - the examples of verifiable rewards: the share of right answers before and after, and
# the seconds of a processor; least, mean and most of SEEDS seeds (default: 10) from FIRST on (default: 1). GRPO and RLOO must
# bring additions from 30 to 50 % to 97 %. Results are kept in build/verifiable/, unless a program is newer. Runs JOBS at a
# time (default: 2).
cd "$(dirname "$0")/.." || exit 1
seeds=${1:-10}
first=${FIRST:-1}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- avx2
results=build/verifiable
mkdir -p $results || exit 1

# one KERNELS EXAMPLE SEED
cat >$results/one.sh <<'END'
file=build/verifiable/$1-$2-$3.txt program=build/arithmetic
[ $2 = tools ] && program=build/tools
[ -s $file ] && [ $file -nt $program ] && exit
if [ $2 = tools ]; then $program $3 $1; else $program $2 $3 --kernels $1; fi >$file.new || exit 255
times >>$file.new # its last line begins with the seconds of the program, as 1m2.3s
awk -v name="$1 $2" '/^(before|after|right):/ { x[n++] = $2 } END { split($1, t, "[ms]"); print name, x[0], x[1], 60 * t[1] + t[2] }' \
    $file.new >$file.one && mv $file.one $file && rm $file.new
END

for kernels in "$@"; do
    for example in grpo rloo tools; do for seed in $(seq $first $((first + seeds - 1))); do echo $kernels $example $seed; done; done
done >$results/list
xargs -P "${JOBS:-2}" -L 1 sh $results/one.sh <$results/list || exit 1
for run in $(tr ' ' - <$results/list); do cat $results/$run.txt; done | awk '
    { k = $1 " " $2 }
    !n[k]++ { order[++rows] = k; least[k] = 100; low[k] = 100 }
    {
        before[k] += $3; after[k] += $4; seconds[k] += $5
        if ($3 < low[k]) low[k] = $3
        if ($3 > high[k]) high[k] = $3
        if ($4 < least[k]) least[k] = $4
        if ($4 > most[k]) most[k] = $4
        if ($5 > slowest[k]) slowest[k] = $5
        bad += $2 != "tools" && ($3 < 30 || $3 > 50 || $4 < 97)
    }
    END {
        for (i = 1; i <= rows; i++) {
            k = order[i]
            printf "%-12s before %.1f %% (%.1f to %.1f)  after %.1f %% (%.1f to %.1f)  %.0f s, at most %d\n", k, before[k] / n[k],
                low[k], high[k], after[k] / n[k], least[k], most[k], seconds[k] / n[k], slowest[k]
        }
        print bad ? "it does not hold" : "it holds"
        exit bad > 0
    }'
