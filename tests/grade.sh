#!/bin/sh
# grade.sh - the exercises grade themselves: 0 points for the empty files, all for the reference answers in tests/grade/,
# and for each of the wrong answers there (WRONG 1, 2, ...) the points and the words that its first lines tell. Then what
# a submission may try. Reports in TAP. `sh tests/grade.sh table [NN]` prints what each wrong answer gets.
#
# An empty file and the reference go all the way of a submission. The wrong answers of an exercise are one program, which
# its judge runs with WRONG=2 in the environment: to compile each would take ten times as long. Those that are refused, and
# those that are tables, which must be constant, are compiled each.
work=build/grade
. "$(dirname "$0")/check.sh"
make=${MAKE:-make} cc=${CC:-cc}
unset MAKEFLAGS MFLAGS MAKELEVEL
export CC="$cc"

mark() { # EXERCISE FILE WRONG - details; the last line is points, a tab, and a sentence
    GRADE_FLAGS="-DWRONG=$3" sh examples/exercises/grade.sh one "examples/exercises/$1" "$2"
}

table() { # [NN]
    for answer in tests/grade/${1}*.c; do
        name=$(basename "$answer" .c)
        printf '%s\n  empty: ' "$name" && mark "$name" "examples/exercises/$name/${name#*_}.c" 0 | sed '$!d'
        printf '  reference: ' && mark "$name" "$answer" 0 | sed '$!d'
        for wrong in $(sed -n 's|^/\* wrong \([0-9]*\):.*|\1|p' "$answer"); do
            printf '  wrong %s: ' "$wrong" && mark "$name" "$answer" "$wrong" | sed '$!d'
        done
    done
}
if [ "${1-}" = table ]; then
    table "${2-}"
    exit
fi

# gets POINTS WORDS EXERCISE FILE WRONG - is that the mark?
gets() {
    mark "$3" "$4" "$5" >"$work/mark"
    is_marked "$1" "$2"
}
is_marked() { # POINTS WORDS
    cat "$work/mark"
    sed '$!d' "$work/mark" | grep -q "^$1	.*$2"
}
is_table() { grep -q '^const ' "$1"; } # FILE
wrong_answers() { # EXERCISE FILE - as one program
    rm -rf "$work/wrong"
    mkdir -p "$work/wrong"
    cat >"$work/wrong/choice.h" <<'END'
#include <stdlib.h>
static int wrong_answer;
__attribute__((constructor)) static void choose(void) { wrong_answer = atoi(getenv("WRONG")); }
END
    allowed=$(build/exercises/"$1"/judge allowed)
    $cc $sanitized -O1 -g1 -DPPO_NO_IMPLEMENTATION -DPPO_NO_LANGUAGE "-Iexamples/exercises/$1" -I. -include "$work/wrong/choice.h" \
        -DWRONG=wrong_answer "$2" build/exercises/"$1"/stub.o ${allowed:+"${CONTROL:-build/control.o}"} -lm -o "$work/wrong/program"
}
gets_as_one_of_them() { # POINTS WORDS EXERCISE WRONG
    WRONG=$4 build/exercises/"$3"/judge run "$work/wrong" >"$work/mark"
    is_marked "$1" "$2"
}
printed() { # PATTERN COMMAND...
    pattern=$1
    shift
    "$@" >"$work/printed" 2>&1
    cat "$work/printed"
    grep -q -e "$pattern" "$work/printed"
}

$make -s judges >"$work/make.log" 2>&1 || { sed 's/^/# /' "$work/make.log"; echo "Bail out! the judges do not compile"; exit 1; }

# Some need AddressSanitizer.
sanitized=$(sed -n 2p build/exercises/sanitizer)
if_sanitized() { # NAME COMMAND...
    [ "$sanitized" ] && { check "$@"; return; }
    skip "$1" "no AddressSanitizer"
}

complete() { # EXERCISE
    folder=examples/exercises/$1
    [ "$(awk -v RS= 'END { print NR }' "$folder/hints.txt")" = 3 ] && [ -s "$folder/README.md" ] && [ -s "$folder/${1#*_}.h" ] &&
        grep -q "]($1/README.md)" examples/exercises/README.md && [ -f "tests/grade/$1.c" ]
}

for folder in examples/exercises/[0-9][0-9]_*; do
    exercise=${folder##*/} answer=tests/grade/${folder##*/}.c
    check "${exercise}_is_complete" complete "$exercise"
    first=$(sed -n 's|^/\* as it is: \(.*\) \*/$|\1|p' "$answer") # what its file gets that has no hole, but bugs
    check "${exercise}_empty_gets_0" gets 0 "${first:-nothing is written yet}" "$exercise" "$folder/${exercise#*_}.c" 0
    check "${exercise}_reference_gets_10" gets 10 '$' "$exercise" "$answer" 0
    sed -n 's|^/\* wrong \([0-9]*\): \([^ ]*\) \(.*\) \*/$|\1 \2 \3|p' "$answer" >"$work/list"
    is_table "$answer" || check "${exercise}_wrong_answers_compile" wrong_answers "$exercise" "$answer"
    while read -r wrong points words; do
        case $words in *AddressSanitizer*) check=if_sanitized ;; *) check=check ;; esac
        case $(is_table "$answer" && echo "table $words" || echo "$words") in
        table* | refused*) $check "${exercise}_wrong_$wrong" gets "$points" "$words" "$exercise" "$answer" "$wrong" </dev/null ;;
        *) $check "${exercise}_wrong_$wrong" gets_as_one_of_them "$points" "$words" "$exercise" "$wrong" </dev/null ;;
        esac
    done <"$work/list"
    check "${exercise}_has_three_wrong_answers" [ "$(wc -l <"$work/list")" -ge 3 ]
done

# What a submission may try: the reference answer of exercise 1 or 2 with something in it.
before() { { printf '%s\n' "$@"; cat "tests/grade/$exercise.c"; } >"$work/try.c"; }
# within LINE CODE - CODE in front of the first line that begins with LINE
within() { printf '#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n%s\n' "${3-}" >"$work/try.c"
    sed "s|^ *$1|{ $2 } &|" "tests/grade/$exercise.c" >>"$work/try.c"; }
try() { gets "$1" "$2" "$exercise" "$work/try.c" 0; }

exercise=02_gae
before '#include <math.h>'
check a_good_submission_gets_10 try 10 '$'
before 'int x = ;'
check what_does_not_compile_gets_0 try 0 'it does not compile: gae.c:1'
before '#include "ppo.h"'
check the_library_is_refused try 0 'refused: it includes ppo.h'
before "#include \"$PWD/ppo.h\""
check the_library_by_its_path_is_refused try 0 'refused: it includes .*ppo.h'
before "#include <$PWD/ppo.h>"
check the_library_as_a_system_header_is_refused try 0 'refused: it includes .*ppo.h'
before '#define PPO_IMPLEMENTATION' '#include "ppo.h"'
check a_copy_of_the_library_is_refused try 0 'refused: it brings its own copy'
before '#define PPO_IMPLE\' 'MENTATION'
check a_copy_behind_a_backslash_is_refused try 0 'refused: it brings its own copy'
before '# 1 "/usr/include/x.h" 3' '#include "ppo.h"'
check a_line_marker_is_refused try 0 'refused: it has a line marker'
before 'int large[400000000] = {1};'
check an_object_of_a_gigabyte_is_not_written try 0 'it does not compile: the compiler takes too much'
echo "#include \"$PWD/tests/grade/02_gae.c\"" >"$work/try.c"
check the_answers_of_the_tests_are_refused try 0 'refused: it includes .*tests/grade'
within 'for (int e' 'ppo_gae();' 'void ppo_gae(void);'
check a_call_of_the_reference_is_refused try 0 'refused: it uses ppo_gae(), with which your answer is compared'
within 'for (int e' 'if (steps < 0 \&\& system("true")) return;'
check a_call_of_system_is_refused try 0 'refused: it uses system(), which no exercise needs'

exercise=01_returns
within 'float next' 'if (terminated[steps - 1 + (gamma == 0)] > 5) return;'
if_sanitized a_read_beyond_an_array_is_named try 9 'it crashed: AddressSanitizer: heap-buffer-overflow at returns.c:'
within 'float next' 'if (last_value == 0) *(volatile int *)0 = 1;'
check a_crash_costs_its_part_alone try 7 'it crashed'
within 'float next' 'printf("here");'
check what_is_printed_without_a_newline_is_no_mark try 10 '$'
within 'float next' 'for (;;) puts("here");'
check a_long_output_ends try 0 'it printed more than a megabyte'
within 'float next' 'if (steps > 4) exit(0);'
check an_early_exit_gets_nothing try 0 'it ended (exit status 0) before it answered'
within 'float next' 'printf("10\\t\\n"); fprintf(stderr, "10\\t\\n"); exit(0);'
check a_printed_mark_is_not_a_mark try 0 'it ended'
within 'float next' 'for (int i = 0; i < 64; i++) if (write(i, "10\\t\\n", 4) < 0) continue;'
check a_mark_written_everywhere_is_not_a_mark try 0 'wrong'
within 'float next' 'char path[64]; snprintf(path, sizeof path, "/proc/%d/fd/1", getppid()); FILE *f = fopen(path, "w"); if (f) fprintf(f, "10\\t\\n"), fflush(f); return;'
check a_mark_written_to_the_judge_is_not_a_mark try 0 'nothing is written yet'
within 'float next' 'if (terminated[steps - 1]) for (volatile int endless = 1; endless;) continue;'
export GRADE_SECONDS=3
check an_endless_loop_ends try 8 'it did not answer within 3 s'
{ printf '#include <unistd.h>\n' && cat tests/grade/14_grpo_step.c && echo '
__attribute__((constructor)) static void answer_all_and_read_nothing(void) {
    static float answers[16384]; /* all that the pipe holds */
    answers[0] = 1;
    for (ssize_t n = write(4, answers, sizeof answers); n;) pause();
}'; } >"$work/try.c"
check answers_without_reading_end gets 0 'wrong' 14_grpo_step "$work/try.c" 0
unset GRADE_SECONDS
within 'float next' 'for (int k = 0; k < 1000; k++) { volatile char *x = malloc(1 << 28); x[0] = x[1 << 27] = 1; x = malloc(1 << 30); x[0] = 1; }'
if_sanitized memory_is_limited try 0 'it crashed: AddressSanitizer: requested allocation size'
check a_missing_file_gets_0 gets 0 'there is no returns.c' 01_returns "$work/none.c" 0
cat >"$work/try.c" <<'END'
#include "ppo_loop.h"
void collect(agent *a, games *now, const ppo_env *env, rollout *r, iteration *report) { report->mean_return = 1; }
void update(agent *a, const rollout *r, int n, float learning_rate, iteration *report) {}
void act(agent *a, const float *obs, int n, int *action) {
    for (int i = 0; i < n; i++, obs += 4) action[i] = obs[2] + obs[3] > 0; /* balances CartPole-v1 for 200 steps and more */
}
END
check a_rule_for_cartpole_gets_nothing gets 0 'collect() keeps' 13_ppo_loop "$work/try.c" 0

# a class
mkdir -p "$work/class/ann" "$work/class/bob o'neill/02_gae" "$work/class/eve"
sed 's/WRONG/0/g' tests/grade/01_returns.c >"$work/class/ann/returns.c"
sed 's/WRONG/1/g' tests/grade/02_gae.c >"$work/class/bob o'neill/02_gae/gae.c"
echo '#error say "no"' >"$work/class/eve/gae.c"
printf '#error \377 \\x\n' >"$work/class/eve/returns.c"
$make -s grade-all EX='0[12]' DIR="$work/class" JSON="$work/marks.json" >"$work/class.txt" 2>&1
check a_class_is_marked_in_text printed "ann 10/20;bob o'neill 8/20;eve 0/20;" eval 'tr -s " " <"$work/class.txt" | tr "\n" ";"'
check a_class_is_marked_in_json printed '"02_gae": {"points": 8, "of": 10, "note": "wrong where truncated' cat "$work/marks.json"
check bytes_and_backslashes_are_valid_in_json printed 'returns.c:1:2: .*#error ? \\\\x' cat "$work/marks.json"
check quotes_are_escaped_in_json printed 'gae.c:1:2: .*say \\"no\\"' cat "$work/marks.json"
mkdir -p "$work/none"
$make -s grade-all EX=01 DIR="$work/none" JSON="$work/none.json" >"$work/none.txt" 2>&1
check an_empty_class_has_no_students [ ! -s "$work/none.txt" ]

# the example of the page, as it stands there: its judge, and the file with the hole or an answer
example() { # POINTS WORDS ANSWER
    mkdir -p "$work/19_explained" && cp examples/exercises/grade.h "$work" &&
        awk -v dir="$work/19_explained" '
            /^## /    { here = /adding an exercise/ }
            /^       / && here { if (!inside) block++; inside = 1; print substr($0, 8) >(dir "/" block); next }
            NF        { inside = 0 }
            inside    { print "" >(dir "/" block) }' examples/exercises/README.md &&
        cd "$work/19_explained" && cp 1 explained.h && cp 2 explained.c && cp 3 grade.c || return 1
    [ "$3" ] && printf '#include "explained.h"\n%s\n' "$3" >explained.c
    flags='-DPPO_NO_IMPLEMENTATION -DPPO_NO_LANGUAGE -I../../..'
    $cc $flags grade.c "../../../${CONTROL:-build/control.o}" -o judge -lm && $cc $flags -DGRADE_STUDENT grade.c explained.c -o program -lm &&
        ./judge run . | tee mark | sed '$!d' | grep -q "^$1	.*$2"
    status=$?
    cat mark
    cd ../../..
    return $status
}
check the_example_of_the_page_gets_0 example 0 'nothing is written yet' ''
check the_example_of_the_page_gets_10 example 10 '$' 'float explained_variance(const float *value, const float *target, int n) {
    double sums[4] = {0};
    for (int i = 0; i < n; i++) {
        double e = (double)target[i] - value[i], t = target[i];
        sums[0] += e / n, sums[1] += e * e / n, sums[2] += t / n, sums[3] += t * t / n;
    }
    return (float)(1 - (sums[1] - sums[0] * sums[0]) / (sums[3] - sums[2] * sums[2]));
}'

rm -f build/exercises/02_gae/hints
hints() { for k in 1 2 3 4; do $make -s hint EX=2; done | sed -n 's/^Hint \(.\) of 3.*/\1/p' | tr -d '\n' | grep -qx 1231; }
check hints_come_one_by_one hints
pasted() { # a case is C
    { printf '#include "gae.h"\nint main(void) {\n' && $make -s case EX=02 PART=4 && echo 'float advantage[2], value_target[2];
        gae(reward, value, next_value, terminated, truncated, steps, envs, gamma, lambda, advantage, value_target);
        return advantage[0] - right_advantage[0] > 1e-5f || right_advantage[0] - advantage[0] > 1e-5f; }' &&
        sed 's/WRONG/0/g' tests/grade/02_gae.c; } >"$work/case.c" &&
        $cc -Iexamples/exercises/02_gae "$work/case.c" -o "$work/case" -lm && "$work/case"
}
check a_case_can_be_pasted_into_a_program pasted
check an_exercise_without_cases_says_so printed 'has no cases' $make -s case EX=13
check an_unknown_exercise_is_said printed 'there is no exercise 77' $make -s grade EX=77

printf '#!/bin/sh\ncase "$*" in *-fsanitize*) exit 1 ;; esac\nexec %s "$@"\n' "$cc" >"$work/cc"
chmod +x "$work/cc"
cp -pR build/exercises/sanitizer build/exercises/01_returns "$work"
check a_compiler_without_sanitizers_is_said printed 'has no AddressSanitizer' env CC="$work/cc" $make -s grade EX=1
check it_grades_without_them gets 6 'The rewards of the next episode count' 01_returns tests/grade/01_returns.c 1
rm -r build/exercises/01_returns
cp -pR "$work/sanitizer" "$work/01_returns" build/exercises # as if nothing had been

finish
