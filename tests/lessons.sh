#!/bin/sh
# lessons.sh - the lessons that run in a second: the claims of each hold, and its drawing is one; and the pages that
# `make course` writes. Reports in TAP. `make lessons` runs all lessons.
work=build/lessons-test
. "$(dirname "$0")/check.sh"
built=build/lessons
kernels=$(grep -qsw avx2 /proc/cpuinfo && echo avx2) # as `make lessons`

# Numbers that the course quotes, and its drawings, are those of these kernels, compiled by gcc.
exact=$([ -n "$kernels" ] && ${CC:-cc} --version 2>/dev/null | grep -q 'Free Software' && echo check)
is_the_committed_one() {
    [ -z "$exact" ] || cmp $built/$1.svg examples/lessons/drawings/$1.svg
}

# A lesson returns 0 if its claims hold, and there are some; its drawing is for light and for dark pages.
holds() {
    rm -f $built/$1.svg
    $built/$1 1 $kernels >$built/$1.txt 2>&1 && grep -q '^  holds: ' $built/$1.txt && ! grep -q '^  FAILS: ' $built/$1.txt &&
        grep -q 'prefers-color-scheme:dark' $built/$1.svg && tail -n 1 $built/$1.svg | grep -q '^</svg>$' && is_the_committed_one $1 && return 0
    cat $built/$1.txt
    return 1
}
check a_lesson_takes_a_seed_and_kernels $built/07_clip 5 plain # first: the lesson's own drawing follows
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

# What `make course` writes, beside what `make docs` writes.
course=$work/course
is_written() {
    mkdir -p $course $work/docs
    awk -v out=$work/docs -v script=examples/docs/search.js -f examples/docs/pages.awk ppo.h ppo_cuda.cuh examples/companions/* &&
        ${MAKE:-make} -s build/course-pages && build/course-pages $course teacher $exact &&
        cp examples/docs/style.css $course/docs.css && cp examples/lessons/course/style.css $course/course.css
}
leads_somewhere() { awk -v root=$work -f tests/links.awk $work/docs/*.html $course/*.html; }
has() { grep -qF "$1" $course/$2; }
has_formulas() {
    power='<msup><mrow><mrow><mo stretchy="false">(</mo><mi>γ</mi><mo>&#x2062;</mo><mi>λ</mi><mo stretchy="false">)</mo></mrow></mrow><mrow><mi>k</mi></mrow></msup>'
    has "<munder><mo>∑</mo><mrow><mi>k</mi></mrow></munder><mo>&#x2062;</mo>$power" 04_gae.html &&
        has '<mfrac><mrow><msup><mrow><mi>l</mi></mrow><mrow><mn>2</mn></mrow></msup></mrow><mrow><mn>2</mn></mrow></mfrac>' 23_kl_estimators.html
}
check drawings_are_those_of_the_lessons sh examples/lessons/drawings.sh
check course_is_written_and_quotes_what_lessons_print is_written
check links_of_the_course_lead_somewhere leads_somewhere
has_formulas_in_sentences() {
    has 'the target is <math><mrow><mi>r</mi><mo>+</mo><mi>γ</mi><mo>&#x2062;</mo><mi>V</mi><mrow><mo stretchy="false">(</mo>' 05_time_limits.html &&
        has 'most <math><mrow><mi>log</mi><mspace width="0.17em"/><mo>&#x2062;</mo><mn>2</mn><mo>=</mo><mn>0.69</mn></mrow></math> with two' \
            12_entropy.html &&
        has '<mi>r</mi><mo>=</mo><mi>π</mi><mo>/</mo><mi>μ</mi>' 33_mismatch.html &&
        has 'The bonus entropy_coef * H,' 12_entropy.html # a name of the program stays one
}
check formulas_become_mathml has_formulas
check formulas_in_sentences_become_mathml has_formulas_in_sentences
check steps_become_a_list has '<li>a reward for each whole sequence, R</li>' 22_ppo_on_tokens.html
check exercises_say_how_they_are_graded has '<code>make grade EX=10</code>' exercise_10.html
check answers_are_folded_in has '<summary>Answer</summary>' 07_clip.html

has_failed() { ! "$@"; }
check a_lesson_refuses_unknown_kernels has_failed $built/07_clip 1 none

finish
