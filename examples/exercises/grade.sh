#!/bin/sh
# grade.sh - compiles and grades exercises; `make grade`, `make hint` and `make grade-all` call it, from the top folder.
#
#   grade.sh all [EX]          grades the files in this folder; with EX=03 that one, in detail
#   grade.sh hint EX           prints the next hint
#   grade.sh cases EX PART     prints the first case of a part as C arrays, and what is right
#   grade.sh class DIR JSON N [EX]  grades DIR/student/NN_name/name.c, or DIR/student/name.c, for all, N at a time
#   grade.sh one FOLDER FILE   grades FILE as FOLDER's exercise; the last line is points, a tab, and a sentence
#   grade.sh sanitizer         writes the compiler, and its flags for AddressSanitizer, to build/exercises/sanitizer
cc=${CC:-cc} here=examples/exercises built=build/exercises
sanitize=$(sed -n 2p $built/sanitizer 2>/dev/null)
tab=$(printf '\t')
trap 'exit 130' INT # then what is on EXIT is done, too
trap 'exit 143' TERM

sanitizer() {
    [ "$(sed 1q $built/sanitizer 2>/dev/null)" = "$cc" ] && return # what was compiled with it stays
    flags='-fsanitize=address,undefined -fno-sanitize-recover=all'
    mkdir -p $built
    echo 'int main(void) { return 0; }' >$built/probe.c
    $cc $flags $built/probe.c -o $built/probe >$built/probe.log 2>&1 && $built/probe >>$built/probe.log 2>&1 || {
        echo "note: $cc has no AddressSanitizer here; programs run without it" >&2
        flags=
    }
    printf '%s\n%s\n' "$cc" "$flags" >$built/sanitizer
}

shown() { awk -v before="$1" 'NR <= 15 { print before $0 }' "$work/log"; } # ends the last line, if the program did not
refuse() { shown "               " && printf '0\t%s\n' "$1"; }

one() { # FOLDER FILE
    name=${1##*/} stem=${1##*/[0-9][0-9]_}
    work=$(mktemp -d $built/work.XXXXXX) || exit 1
    trap 'rm -rf "$work"' EXIT
    : >"$work/log"
    [ -f "$2" ] || { refuse "there is no $stem.c"; return; }
    cp "$2" "$work/$stem.c"
    allowed=$($built/"$name"/judge allowed)
    # A backslash joins lines, also within a name; a line marker (# 1 "a.h" 3) hides what is included after it.
    awk '{ end = sub(/\\[ \t\r]*$/, "") ? "" : "\n"; printf "%s%s", $0, end }' "$work/$stem.c" >"$work/joined"
    if grep -n 'PPO_IMPLEMENTATION\|PPO_STATIC\|PPO__' "$work/joined" >"$work/log"; then
        refuse "refused: it brings its own copy of the library"
        return
    fi
    if grep -n '^[[:space:]]*\(#\|%:\)[[:space:]]*[0-9]' "$work/joined" >"$work/log"; then
        refuse "refused: it has a line marker, which no exercise needs"
        return
    fi
    flags="$sanitize -O1 -g1 -Wall -Wextra -Wno-unused-parameter -Wno-unused-function -Werror $GRADE_FLAGS"
    (ulimit -t 60; ulimit -v 4000000; ulimit -f 100000
    LC_ALL=C exec $cc $flags -DPPO_NO_IMPLEMENTATION -DPPO_NO_LANGUAGE "-I$1" -I. \
        -MMD -MF "$work/includes" -c "$work/$stem.c" -o "$work/student.o") >"$work/log" 2>&1 || {
        sed "s|$work/||g" "$work/log" >"$work/short" && mv "$work/short" "$work/log"
        why=$(sed -n 's/: error: /: /p; s/: fatal error: /: /p' "$work/log" | sed 1q)
        refuse "it does not compile: ${why:-the compiler takes too much time, memory or space for it}"
        return
    }
    for include in $(sed 's/^[^:]*: //; s/\\$//' "$work/includes"); do
        case $include in
            "$work/$stem.c" | "$1/$stem.h") ;;
            ./ppo.h | ppo.h) [ "$allowed" ] || { refuse "refused: it includes ppo.h, with which your answer is compared"; return; } ;;
            *) refuse "refused: it includes $include; headers of the C library and $stem.h are enough"; return ;;
        esac
    done
    refused=$(nm -u "$work/student.o" | $built/"$name"/judge check) || { refuse "$refused"; return; }
    $cc $sanitize $built/"$name"/stub.o "$work/student.o" ${allowed:+"${CONTROL:-build/control.o}"} -lm -o "$work/program" >"$work/log" 2>&1 || {
        refuse "it does not link: $(grep -m1 -o 'undefined reference.*\|multiple definition.*' "$work/log")"
        return
    }
    report=$($built/"$name"/judge run "$work") || report="0${tab}the judge failed"
    printf '%s\n' "$report" | sed '$d'
    [ ! -s "$work/log" ] || { echo "    It printed:" && shown "      | "; }
    printf '%s\n' "$report" | sed '$!d'
}

# The exercises that EX names ("3", "03" or "03_loss"; without EX all).
folders() {
    for folder in $here/[0-9][0-9]_*; do
        name=${folder##*/}
        case $name in $1 | ${1}_* | 0${1}_* | *_$1) echo "$folder" ;; *) [ "$1" ] || echo "$folder" ;; esac
    done
}

all() { # [EX]
    [ "$(folders "$1")" ] || { echo "there is no exercise $1; EX=01 is the first" >&2; exit 1; }
    for folder in $(folders "$1"); do
        name=${folder##*/}
        sh $here/grade.sh one "$folder" "$folder/${name#*_}.c" | awk -F"$tab" -v name="$name" -v detail="$1" '
            { lines = lines last; last = $0 "\n" }
            END { printf "%-18s %2d/10%s\n%s", name, $1, $2 == "" ? "" : ": " $2, detail ? lines : "" }'
    done | awk '{ print } $2 ~ /^[0-9]+\/10/ { sum += $2; n++ } END { if (n > 1) printf "%-18s %d/%d\n", "all", sum, 10 * n }'
}

hint() { # EX
    folder=$(folders "$1")
    [ "$1" ] && [ "$folder" ] || { echo "make hint EX=03 prints the next hint of exercise 3" >&2; exit 1; }
    count=$built/${folder##*/}/hints
    mkdir -p "${count%/*}"
    shown=$(($(cat "$count" 2>/dev/null || echo 0) % 3 + 1))
    echo $shown >"$count"
    awk -v RS= -v n=$shown 'NR == n { print "Hint " n " of 3. " $0 }' "$folder/hints.txt"
}

cases() { # EX PART
    folder=$(folders "$1")
    [ "$1" ] || { echo "make case EX=02 PART=3 prints a case of exercise 2" >&2; exit 1; }
    [ "$folder" ] || { echo "there is no exercise $1" >&2; exit 1; }
    $built/"${folder##*/}"/judge case "${2:-1}"
}

student() { # FOLDER OF THE STUDENT [EX] - prints student, exercise, points and sentence, with tabs between
    for folder in $(folders "$2"); do
        name=${folder##*/} file=$1/${folder##*/}/${folder##*/[0-9][0-9]_}.c
        [ -f "$file" ] || file=$1/${name#*_}.c
        line=$(sh $here/grade.sh one "$folder" "$file" | sed '$!d')
        printf '%s\t%s\t%s\n' "${1##*/}" "$name" "$line"
    done
}

class() { # DIR JSON N [EX]
    [ -d "$1" ] || { echo "there is no folder $1: make grade-all DIR=submissions JSON=marks.json" >&2; exit 1; }
    taken=$(mktemp -d $built/class.XXXXXX) || exit 1
    trap 'rm -rf "$taken"' EXIT
    worker=0
    { while [ $worker -lt "$3" ]; do
        worker=$((worker + 1))
        { number=0; for dir in "$1"/*/; do
            number=$((number + 1))
            [ -d "$dir" ] && mkdir "$taken/$number" 2>/dev/null && student "${dir%/}" "$4"
        done; } &
    done; wait; } | LC_ALL=C sort | LC_ALL=C awk -F"$tab" -v json="$2" '
        function quoted(s) { gsub(/\\/, "&&", s); gsub(/"/, "\\\"", s); gsub(/[\001-\037]/, " ", s); return "\"" s "\"" }
        function close_student() {
            if (who == "") return
            printf "}, \"points\": %d, \"of\": %d}", sum, of >json
            printf "%-24s %d/%d\n", who, sum, of
        }
        BEGIN { printf "{" >json }
        $1 != who {
            close_student()
            printf "%s\n  %s: {\"exercises\": {", who == "" ? "" : ",", quoted($1) >json
            who = $1; sum = of = 0
        }
        {
            gsub(/[\200-\377]/, "?", $4) # what a program prints need not be UTF-8
            printf "%s\n    %s: {\"points\": %d, \"of\": 10, \"note\": %s}", of ? "," : "", quoted($2), $3, quoted($4) >json
            sum += $3; of += 10
        }
        END { close_student(); print "\n}" >json }'
}

"$@"
