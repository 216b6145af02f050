#!/bin/sh
# docs.sh - `make docs`: every public name has its place, every link leads somewhere, and every example of the manual
# compiles (docs.c has what surrounds them). Reports in TAP.
work=build/docs-test
. "$(dirname "$0")/check.sh"
export LC_ALL=C
pages=build/docs

is_written() { ${MAKE:-make} --no-print-directory docs; }

# What the interface declares, by the compiler's eyes: functions and constants; and types by their names.
has_every_name() {
    interface='/^#if defined(PPO_IMPLEMENTATION) .*PPO__IMPLEMENTED/,$d'
    sed "$interface" ppo.h | ${CC:-cc} -E -P -DPPO_DEF= -x c - 2>/dev/null |
        grep -oE '\b(ppo_[a-z0-9_]+\(|PPO_[A-Z0-9_]+\b|typedef struct ppo_[a-z0-9_]+)' |
        sed 's/typedef struct //; s/(//' | grep -vE '^(ppo|PPO)__|PPO_DEF' | sort -u >$work/names
    [ "$(wc -l <$work/names)" -gt 350 ] || return 1
    sed 's/.*#//' $work/ids | sort -u | comm -13 - $work/names >$work/missing
    [ ! -s $work/missing ] || { cat $work/missing; return 1; }
}

ids() { grep -oE 'id="[^"]+"' "$1" | sed 's/id="\(.*\)"/\1/'; }
list_ids() { for page in $pages/*.html; do ids "$page" | sed "s/^/${page##*/}#/"; done | sort >$work/ids; }
links_lead_somewhere() {
    [ -z "$(uniq -d $work/ids)" ] || { uniq -d $work/ids; return 1; }
    { grep -ohE 'href="[^"]+#[^"]+"' $pages/*.html | sed 's/href="\(.*\)"/\1/' | grep -v '^#'
      grep -oE '"[a-z]+\.html#[^"]+"' $pages/search.js | tr -d '"'; } | sort -u >$work/links
    comm -13 $work/ids $work/links
    [ "$(wc -l <$work/links)" -gt 800 ] && [ -z "$(comm -13 $work/ids $work/links)" ]
}

tags_are_closed() {
    for page in $pages/*.html; do
        for tag in p pre ul li table tr td article a code nav main; do
            opened=$(grep -oE "<$tag[ >]" "$page" | wc -l) closed=$(grep -o "</$tag>" "$page" | wc -l)
            [ "$opened" -eq "$closed" ] || { echo "$page: $tag"; return 1; }
        done
    done
}

defaults_have_their_column() {
    field='<td><code>float gae_lambda;</code></td><td>0: one-step TD, 1: Monte Carlo</td>'
    grep -q "$field<td><code>0.95</code></td>" $pages/control.html
}
claims_are_what_the_runs_say() {
    ${MAKE:-make} -s build/claims && build/claims bench/learning/results/claims.txt report | cmp - bench/learning/claims.md
}
# Those of bench/learning/reasoning.c: held out from the training, solved and judged correctly.
reasoning_has_fair_problems() {
    ${MAKE:-make} -s build/reasoning && build/reasoning spell_backward 1 problems && build/reasoning Countdown 1 problems
}
search_knows() { grep -q '"ppo_gae", "mathematics.html#ppo_gae", "Generalized advantage estimation' $pages/search.js; }

# Numbered files, one for each example: its text without tags, and with text after a statement as a comment. Those for
# nvcc and MPI are left out; what includes the library, unless the example is a program.
extract() {
    ls $pages/[a-r]*.html | grep -v -e ppo_cuda -e ppo_mpi -e ppo_nccl | xargs cat | awk -v work=$work '
        /<pre class="code">/ { example++; sub(/.*<pre class="code">/, ""); on = 1 }
        on { s = $0; gsub(/<[^>]*>/, "", s); gsub(/&lt;/, "<", s); gsub(/&gt;/, ">", s); gsub(/&amp;/, "\\&", s)
             gsub(/[{]\.\.\.[}]/, "{}", s); sub(/\);  /, "); //", s); print s >(work "/example-" example ".txt") }
        /<\/pre>/ { on = 0 }'
}

# Declarations begin with typedef or static, and functions end with a brace at the start of a line.
split_example() {
    awk -v top="$2/top.h" -v body="$2/body.h" 'BEGIN { printf "" >top; printf "" >body }
        !on && /^(typedef|static)/ { on = 1; ends = /;( *\/\/.*)?$/ }
        { print >(on ? top : body) }
        /^[}]/ || /^[{][}]/ || /\) [{][}]/ || ends { on = ends = 0 }' "$1"
}

compiles() {
    grep -q 'int main' "$1" || sed -i.all -e '/^#include "p/d' -e '/^#define PPO_IMPL/d' "$1"
    if grep -q 'int main' "$1"; then
        ${CC:-cc} -Wall -Wextra -Werror -O0 -I. -Iexamples -fsyntax-only -x c "$1"
        return
    fi
    split_example "$1" $work
    for context in CONTROL LANGUAGE HUB; do
        ${CC:-cc} -std=c99 -Wall -Wextra -Wno-unused-parameter -Wno-unused-function -Wno-unused-variable \
            -Wno-unused-but-set-parameter -Wno-unused-but-set-variable \
            -Werror -I. -I$work -D$context -DTOP='"top.h"' -DBODY='"body.h"' -fsyntax-only tests/docs.c \
            2>$work/$context.log && return 0
    done
    cat "$1" $work/CONTROL.log $work/LANGUAGE.log $work/HUB.log
    return 1
}

check pages_are_written is_written
list_ids
check every_public_name_has_its_place has_every_name
check links_lead_somewhere links_lead_somewhere
check tags_are_closed tags_are_closed
check defaults_have_their_column defaults_have_their_column
check search_knows_names_and_sentences search_knows
check claims_are_what_the_runs_say claims_are_what_the_runs_say
check reasoning_has_fair_problems reasoning_has_fair_problems
extract
check manual_has_examples test -f $work/example-6.txt
for example in $work/example-*.txt; do check "$(basename "$example" .txt)_compiles" compiles "$example"; done
finish
