#!/bin/sh
# settings.sh - what each setting does: five seeds without it and with it, on tasks where it can matter. Prints a table.
#     sh bench/learning/settings.sh > bench/learning/settings.md        (some minutes of one core)
set -eu
cd "$(dirname "$0")/../.."
mkdir -p build
${CC:-cc} -O2 -DPPO_NO_LANGUAGE -I. -Iexamples bench/learning/settings.c -o build/settings -lm

# runs FLAG... - the mean of 50 fresh episodes, of each seed; then their mean, and the lowest and the highest
runs() {
    for seed in 1 2 3 4 5; do
        build/settings "$@" --seed $seed --eval-episodes 50 --json --quiet
    done | sed 's/.*"eval_mean_return":\([-0-9.]*\).*/\1/' | sort -g | awk '
        { sum += $1; if (NR == 1) low = $1; high = $1 }
        END { printf "%.1f (%.1f to %.1f)", sum / NR, low, high }'
}

# row SETTING TASK FLAG... - both sides have the flags; a task after "/" replaces the first one on the right
row() {
    setting=$1 task=$2
    shift 2
    left=$(runs --env "${task%/*}" "$@")
    case $setting in
    actor_obs) right=$(runs --env "${task#*/}" "$@") ;;
    *) right=$(runs --env "$task" "$@" --"${setting%=*}" "${setting#*=}") ;;
    esac
    echo "| $setting | ${task%/*} | $left | $right |"
}

cat <<'END'
# What each setting does

The mean return of 50 fresh episodes after 60,000 steps: the mean of five seeds, and in brackets the lowest and the
highest of them. Where these overlap, the difference means little. "Without" is the task's own row in
[options.h](../../examples/options.h), but Pendulum and MountainCarContinuous explore by a plain Gaussian, the latter with the
paper's settings and normalization. The other activations stand against tanh.

Tasks named -noisy show their numbers through noise with a standard deviation of 0.3 ([settings.c](settings.c)). With
`actor_obs` the critic also sees the truth, and in Memory the cue at every step. The latter does not help, perhaps because a
critic that is told the cue no longer teaches the shared memory to keep it.

Rebuild: `sh bench/learning/settings.sh > bench/learning/settings.md`

| setting | task | without | with |
| --- | --- | --- | --- |
END
steps="--total-steps 60000"
pendulum="$steps --gsde no --gsde-steps 0"
car="$steps --preset ppo-paper --normalize-obs yes --normalize-reward yes --gsde no --log-std-init 0 --init orthogonal"
row actor_obs Pendulum-noisy/Pendulum-noisy-asymmetric $steps
row actor_obs CartPole-noisy/CartPole-noisy-asymmetric $steps
row actor_obs Memory-v0/Memory-asymmetric $steps
for activation in relu elu silu gelu gelu_erf; do
    row activation=$activation Acrobot-v1 $steps
    row activation=$activation Pendulum-v1 $pendulum
done
for setting in layer_norm=yes recompute_advantages=yes; do
    row $setting Acrobot-v1 $steps
    row $setting Pendulum-v1 $pendulum
done
row rpo_alpha=0.5 Pendulum-v1 $pendulum
row rpo_alpha=0.5 MountainCarContinuous-v0 $car
