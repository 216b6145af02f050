#!/bin/sh
# lessons.sh - the lessons that run in a second: the claims of each hold, and its drawing is one. Reports in TAP.
# `make lessons` runs all of them.
work=build/lessons-test
. "$(dirname "$0")/check.sh"
built=build/lessons

# A lesson returns 0 if its claims hold, and there are some; its drawing is for light and for dark pages.
holds() {
    rm -f $built/$1.svg
    $built/$1 1 >$built/$1.txt 2>&1 && grep -q '^  holds: ' $built/$1.txt && ! grep -q '^  FAILS: ' $built/$1.txt &&
        grep -q 'prefers-color-scheme:dark' $built/$1.svg && tail -n 1 $built/$1.svg | grep -q '^</svg>$' && return 0
    cat $built/$1.txt
    return 1
}
for lesson in 00_loop 01_policy_gradient 01b_theorem 02_baseline 03_actor_critic 04_gae 05_time_limits 06_ratio 06b_surrogate 07_clip 08_natural_gradient \
    09_trust_region 11_value_loss 13_environment 13b_ppo 14_own_loss 22_ppo_on_tokens 23_kl_estimators 24_kl_place 29_ensembles 32b_critique \
    35_human_evaluation; do
    check "lesson_${lesson}_holds" holds $lesson
done

# Every lesson is at most 150 lines, and the page names it.
is_short() { [ "$(wc -l <"$1")" -le 150 ]; }
is_named() { grep -q "($(basename "$1"))" examples/lessons/README.md; }
for file in examples/lessons/*.c; do
    is_short "$file" || check "${file}_is_at_most_150_lines" false
    is_named "$file" || check "${file}_is_on_the_page" false
done

check a_lesson_takes_a_seed_and_kernels $built/07_clip 5 plain
has_failed() { ! "$@"; }
check a_lesson_refuses_unknown_kernels has_failed $built/07_clip 1 none

finish
