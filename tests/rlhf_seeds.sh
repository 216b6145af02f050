#!/bin/sh
# rlhf_seeds.sh [SEEDS [KERNELS ...]] - PPO on tokens with the settings of build/rlhf, for seeds 1 to SEEDS and each set of
# kernels that this machine has. What must hold: PPO's true reward is at least best-of-16's (in 24 of 25 runs) and 10%
# above it in the mean; the KL to the first model ends at 2.5 or less, and never exceeds three times where it ends.
# Results are kept in build/rlhf-seeds/, so that what was interrupted continues, unless the
# program RLHF is newer. Runs JOBS seeds at a time (default: 2).
cd "$(dirname "$0")/.." || exit 1
export RLHF="${RLHF:-build/rlhf}"
seeds=${1:-50}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- plain avx2 avx512 neon
results=build/rlhf-seeds
mkdir -p $results || exit 1

# one KERNELS SEED - its line of figures
cat >$results/one.sh <<'END'
dir=build/rlhf-seeds/$1-$2
[ -s $dir.txt ] && [ $dir.txt -nt $RLHF ] && exit
figure() { printf '%s' "$json" | sed -n "s/.*\"$1\":\(-*[0-9.]*\).*/\1/p"; }
rlhf() { json=$($RLHF --dir $dir --json --kernels $1 --seed $2 $3) || exit 255; }
rlhf $1 $2 "sft" && sft=$(figure true_reward)
rlhf $1 $2 "reward"
rlhf $1 $2 "ppo" && ppo="$(figure true_reward) $(figure kl) $(figure most_kl)"
rlhf $1 $2 "bon" && echo $1 $2 $sft $ppo $(figure true_reward) >$dir.new && mv $dir.new $dir.txt
rm -rf $dir
END

for kernels in "$@"; do
    $RLHF --kernels $kernels --help >/dev/null 2>&1 || { echo "note: no kernels $kernels here" >&2 && continue; }
    for seed in $(seq "$seeds"); do echo $kernels $seed; done
done >$results/list
xargs -P "${JOBS:-2}" -L 1 sh $results/one.sh <$results/list || exit 1
for run in $(tr ' ' - <$results/list); do cat $results/$run.txt; done | awk '
    function add(set, kind, x) {
        n[set, kind]++; sum[set, kind] += x
        if (n[set, kind] == 1 || x < least[set, kind]) least[set, kind] = x
        if (n[set, kind] == 1 || x > most[set, kind]) most[set, kind] = x
    }
    function show(set, kind) {
        return sprintf("%.2f (%.2f to %.2f)", sum[set, kind] / n[set, kind], least[set, kind], most[set, kind])
    }
    function row(set) {
        printf "%-7s %4d  %-21s  %-21s  %-21s  %d\n", set, n[set, "ppo"], show(set, "ppo"), show(set, "bon"), show(set, "kl"),
            better[set]
    }
    {
        if (!seen[$1]++) set[++sets] = $1
        for (k = 0; k < 2; k++) {
            name = k ? "all" : $1
            add(name, "ppo", $4); add(name, "kl", $5); add(name, "bon", $7)
            better[name] += $4 >= $7
        }
        if ($6 > 3 * $5) { print "ran away: kernels " $1 ", seed " $2; away++ }
    }
    END {
        print "kernels runs  true reward of PPO     best of 16             KL of PPO              PPO is at least as good"
        for (k = 1; k <= sets; k++) row(set[k])
        row("all")
        runs = n["all", "ppo"]
        ok = runs && !away && most["all", "kl"] <= 2.5 && better["all"] >= runs * 24 / 25 &&
            sum["all", "ppo"] >= 1.1 * sum["all", "bon"]
        print ok ? "it holds" : "it does not hold"
        exit !ok
    }'
