#!/bin/sh
# mujoco.sh table|cleanrl|cleanrl8 [SEED ...] - trains on the tasks of MuJoCo with seeds 1 to 3, or these, JOBS (1) runs side
# by side, and then reports:
#   table     Table 1 of the paper (Schulman 2017): eleven objectives on seven tasks, 1,000,000 steps each
#   cleanrl   HalfCheetah, Hopper and Walker2d with the settings of CleanRL, 1,000,000 steps
#   cleanrl8  these and Ant, 8,000,000 steps
# mujoco.sh report - prints the tables of the runs that are done: files in build/mujoco-runs/, which are not repeated.
# mujoco.sh speed - steps per second with random actions, here and in Gymnasium (PPO_PYTHON: a Python that has it)
set -eu
program=${MUJOCO:-build/mujoco}
runs=build/mujoco-runs
tasks='HalfCheetah Hopper InvertedDoublePendulum InvertedPendulum Reacher Swimmer Walker2d'

# Each row of Table 1: its name, the paper's score, and what differs in the settings. "random" is the policy before training.
rows() {
    cat <<END
no-clipping-or-penalty -0.39 --preset ppo-paper-unclipped
clipping-0.1 0.76 --preset ppo-paper --clip-low 0.1 --clip-high 0.1
clipping-0.2 0.82 --preset ppo-paper
clipping-0.3 0.70 --preset ppo-paper --clip-low 0.3 --clip-high 0.3
adaptive-KL-0.003 0.68 --preset ppo-paper-adaptive-kl --adaptive-kl-target 0.003
adaptive-KL-0.01 0.74 --preset ppo-paper-adaptive-kl
adaptive-KL-0.03 0.71 --preset ppo-paper-adaptive-kl --adaptive-kl-target 0.03
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

# The runs as lines: the file, and the flags. Seed by seed, so that every row has a first result soon. The paper's actions
# reached the tasks unclipped. What it does not say follows the code that was published with it: observations are
# normalized and clipped at 5, and the gradient's norm is not clipped.
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
                    echo "$row/$task-$seed --env $task-v5-unbounded --seed $seed --normalize-reward no --clip-obs 5" \
                        "--value-clip 0 --max-grad-norm 0 $flags"
                done
            done ;;
        *)
            published | while read -r name task _; do
                [ "$name" != "$what" ] || echo "$what/$task-$seed --seed $seed $steps --env $task"
            done ;;
        esac
    done
}

# Lines of the runs that are done: what, task, and the mean return of the last 100 episodes.
results() { # ROW ...
    for row in "$@"; do
        for file in $runs/"$row"/*.csv; do
            [ ! -f "$file" ] || awk -F, -v row="$row" -v task="$(basename "${file%-*}")" '
                NR == 1 { while ($++c != "rollout/ep_rew_mean"); next }  { last = $c }  END { print row, task, last }' "$file"
        done
    done
}

report() {
    echo "Table 1: scores (0: the random policy, 1: the best run of a task), and mean returns of the last 100 episodes"
    { rows | cut -d' ' -f1,2; results $(rows | cut -d' ' -f1); } | awk -v tasks="$tasks" '
        BEGIN { n = split(tasks, task, " ") }
        NF == 2 { row[++rows] = $1; paper[$1] = $2; next }
        { sum[$1, $2] += $3; of[$1, $2]++; run[$1, $2, of[$1, $2]] = $3
          if (!($2 in best) || $3 > best[$2]) best[$2] = $3 }
        END {
            printf "| | paper | score | runs |"; for (t = 1; t <= n; t++) printf " %s |", task[t]
            printf "\n| --- | --- | --- | --- |"; for (t = 1; t <= n; t++) printf " --- |"
            for (r = 1; r <= rows; r++) {
                score = count = 0; line = ""
                for (t = 1; t <= n; t++) {
                    k = of[row[r], task[t]]
                    zero = of["random", task[t]] ? sum["random", task[t]] / of["random", task[t]] : 0
                    for (i = 1; i <= k; i++) if (best[task[t]] > zero)
                        score += (run[row[r], task[t], i] - zero) / (best[task[t]] - zero)
                    count += k
                    line = line (k ? sprintf(" %.1f |", sum[row[r], task[t]] / k) : " |")
                }
                printf "\n| %s | %s | %s | %d |%s", row[r], paper[row[r]], count ? sprintf("%.2f", score / count) : "", count, line
            }
            print ""
        }'
    for what in cleanrl cleanrl8; do
        echo "$what: mean and deviation of the runs, of the last 100 episodes"
        { published | sed -n "s/^$what //p"; results $what | sed "s/^$what/run/"; } | awk '
            $1 != "run" { task[++n] = $1; there[$1] = $2 " +- " $3; next }
            { sum[$2] += $3; squares[$2] += $3 * $3; of[$2]++ }
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
    plan "$what" "$@" | xargs -P "${JOBS:-1}" -L 1 sh "$0" run
    report ;;
run) # FILE FLAG ... - one of them; its file gets its name when it is complete
    file=$runs/$2
    shift 2
    [ ! -f "$file.csv" ] || exit 0
    mkdir -p "${file%/*}"
    "$program" --quiet --json "$@" --csv "$file.part" >"$file.json" 2>"$file.log" && mv "$file.part" "$file.csv" ||
        echo "$file failed: $(tail -n 1 "$file.log")" >&2 ;;
report) report ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 1 ;;
esac
