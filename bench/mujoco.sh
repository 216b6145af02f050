#!/bin/sh
# mujoco.sh table|cleanrl|cleanrl8 [SEED ...] - trains on tasks of MuJoCo with seeds 1 to 3, or these, and reports.
#   table     Table 1 of the paper (Schulman 2017): eleven objectives on seven tasks, 1,000,000 steps each
#   cleanrl   HalfCheetah, Hopper and Walker2d with the settings of CleanRL, 1,000,000 steps
#   cleanrl8  these and Ant, 8,000,000 steps
# JOBS (1) runs stand side by side. A run that is done is a line of bench/learning/results/mujoco.txt, and is not
# repeated: what, task, seed, mean return of the last 100 episodes. Its curve is in build/mujoco-runs/.
# mujoco.sh report - prints the tables of the runs that are done.
set -eu
cd "$(dirname "$0")/.."
program=${MUJOCO:-build/mujoco}
runs=build/mujoco-runs
finished=bench/learning/results/mujoco.txt
touch $finished
tasks='HalfCheetah Hopper InvertedDoublePendulum InvertedPendulum Reacher Swimmer Walker2d'

# Each row of Table 1: its name, the paper's score, and its settings. "random" is the policy before training.
rows() {
    cat <<END
no-clipping-or-penalty -0.39 --preset ppo-paper-unclipped
clipping-0.1 0.76 --preset ppo-paper --clip-low 0.1 --clip-high 0.1
clipping-0.2 0.82 --preset ppo-paper
clipping-0.3 0.70 --preset ppo-paper --clip-low 0.3 --clip-high 0.3
adaptive-KL-0.003 0.68 --preset ppo-paper-adaptive-kl --penalty-target-kl 0.003
adaptive-KL-0.01 0.74 --preset ppo-paper-adaptive-kl
adaptive-KL-0.03 0.71 --preset ppo-paper-adaptive-kl --penalty-target-kl 0.03
fixed-KL-0.3 0.62 --preset ppo-paper-fixed-kl --kl-coef 0.3
fixed-KL-1 0.71 --preset ppo-paper-fixed-kl --kl-coef 1
fixed-KL-3 0.72 --preset ppo-paper-fixed-kl
fixed-KL-10 0.69 --preset ppo-paper-fixed-kl --kl-coef 10
random 0 --preset ppo-paper --learning-rate 0 --epochs 1 --total-steps 204800
END
}

# CleanRL's documentation: the task, and the mean and deviation of its runs.
published() {
    cat <<END
cleanrl HalfCheetah-v4 1442.64 46.03
cleanrl Hopper-v4 2382.86 271.74
cleanrl Walker2d-v4 2287.95 571.78
cleanrl8 HalfCheetah-v4 2637.19 1068.49
cleanrl8 Hopper-v4 2741.42 269.11
cleanrl8 Walker2d-v4 2872.92 690.53
cleanrl8 Ant-v4 1824.17 905.78
END
}

# The runs as lines: the file, and the flags. The tasks of the paper received actions unclipped. What the paper does
# not say follows the code that was published with it: observations are normalized and clipped to +- 5, rewards are not
# normalized, and the norm of gradients is not clipped.
plan() { # WHAT SEED ...
    what=$1
    shift
    steps=
    [ "$what" != cleanrl8 ] || steps='--total-steps 8000000'
    for seed in "$@"; do
        case $what in
        table)
            rows | while read -r row _ flags; do
                for task in $tasks; do
                    echo "$row/$task-$seed --env $task-v5-unbounded --seed $seed --normalize-obs yes --clip-obs 5" \
                        "--normalize-reward no --value-clip 0 --max-grad-norm 0 $flags"
                done
            done ;;
        *)
            published | while read -r name task _; do
                [ "$name" != "$what" ] || echo "$what/$task-$seed --seed $seed $steps --env $task"
            done ;;
        esac
    done
}

# The score of a run is 0 for the random policy and 1 for the best run of its task; that of a row is the mean over
# tasks and seeds, beside the least and the greatest of a seed.
report() {
    echo "Table 1, and the mean returns of the last 100 episodes"
    { rows | cut -d' ' -f1,2; grep -v ^cleanrl $finished || :; } | awk -v tasks="$tasks" '
        function score(t, x) {
            zero = sum["random", t] / of["random", t]
            return best[t] > zero ? (x - zero) / (best[t] - zero) : 0
        }
        BEGIN { n = split(tasks, task, " ") }
        NF == 2 { row[++rows] = $1; paper[$1] = $2; next }
        { sum[$1, $2] += $4; of[$1, $2]++; run[$1, $2, $3] = $4; if ($3 > seeds) seeds = $3
          if (!($2 in best) || $4 > best[$2]) best[$2] = $4 }
        END {
            printf "| | paper | score | of a seed | runs |"; for (t = 1; t <= n; t++) printf " %s |", task[t]
            printf "\n| --- | --- | --- | --- | --- |"; for (t = 1; t <= n; t++) printf " --- |"
            for (r = 1; r <= rows; r++) {
                total = runs = whole = 0
                for (s = 1; s <= seeds; s++) {
                    for (t = k = of_seed = 0; t++ < n;)
                        if ((row[r], task[t], s) in run && of["random", task[t]]) {
                            of_seed += score(task[t], run[row[r], task[t], s]); k++ }
                    total += of_seed; runs += k
                    if (k < n) continue
                    of_seed /= n
                    if (!whole++) least = most = of_seed
                    if (of_seed < least) least = of_seed
                    if (of_seed > most) most = of_seed
                }
                name = row[r]
                gsub("-", " ", name)
                printf "\n| %s | %s | %s | %s | %d |", name, paper[row[r]],
                    runs ? sprintf("%.2f", total / runs) : "", whole ? sprintf("%.2f .. %.2f", least, most) : "", runs
                for (t = 1; t <= n; t++) {
                    k = of[row[r], task[t]]
                    printf k ? " %.1f |" : " |", k ? sum[row[r], task[t]] / k : 0
                }
            }
            print ""
        }'
    for what in cleanrl cleanrl8; do
        echo "$what: mean and deviation of the runs, of the last 100 episodes"
        { published | sed -n "s/^$what //p"; sed -n "s/^$what /run /p" $finished; } | awk '
            $1 != "run" { task[++n] = $1; there[$1] = $2 " +- " $3; next }
            { sum[$2] += $4; squares[$2] += $4 * $4; of[$2]++ }
            END { print "| | CleanRL | ppo.h | runs |\n| --- | --- | --- | --- |"
                  for (i = 1; i <= n; i++) { t = task[i]; k = of[t]; if (!k) continue; mean = sum[t] / k
                      v = squares[t] / k - mean * mean
                      printf "| %s | %s | %.2f +- %.2f | %d |\n", t, there[t], mean, (v > 0 ? sqrt(v) : 0), k } }'
    done
}

case ${1-} in
table | cleanrl | cleanrl8)
    what=$1
    shift
    [ $# -gt 0 ] || set -- 1 2 3
    plan "$what" "$@" | xargs -P "${JOBS:-1}" -L 1 sh bench/mujoco.sh run
    report ;;
run) # FILE FLAG ... - one of them
    file=$runs/$2
    name=${2##*/}
    line="${2%/*} ${name%-*} ${name##*-}"
    shift 2
    ! grep -q "^$line " $finished || exit 0
    mkdir -p "${file%/*}"
    if "$program" --quiet --json "$@" --csv "$file.csv" >"$file.json" 2>"$file.log"; then
        awk -F, -v line="$line" 'NR == 1 { while ($++c != "rollout/ep_rew_mean"); } { last = $c } END { print line, last }' \
            "$file.csv" >>$finished
    else
        echo "$file failed: $(tail -n 1 "$file.log")" >&2
    fi ;;
report) report ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 1 ;;
esac
