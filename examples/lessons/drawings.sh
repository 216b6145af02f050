#!/bin/sh
# drawings.sh [exact] - which drawings of examples/lessons/drawings/ are not what the lessons draw: compares them with those
# of build/lessons/ that are there. Returns 1 where words differ (titles, axes, legends); with `exact`, where the lessons
# ran with the seed and the kernels of the committed ones (1, avx2), it also names those of other numbers. That is no
# failure here, for another compiler or math library may round differently; tests/lessons.sh, which asks for the compiler,
# fails. A lesson that measures time (ppo_clock) or memory (ppo_rlhf_memory) draws what it finds on this machine.
kept=examples/lessons/drawings drawn=build/lessons status=0

words() { grep -o '<text[^>]*>[^<]*<' "$1" | sed 's/.*>\(.*\)</\1/; s/[0-9.,-]\{1,\}/#/g' | grep '[A-Za-z]'; }

for file in "$drawn"/*.svg; do
    name=${file##*/}
    lesson=$(grep -l "build/lessons/$name" examples/lessons/*.c) || continue # of an older lesson
    cmp -s "$file" "$kept/$name" && continue
    if [ ! -f "$kept/$name" ] || [ "$(words "$file")" != "$(words "$kept/$name")" ]; then
        echo "$kept/$name is out of date: cp $file $kept/" >&2
        status=1
    elif [ "${1-}" = exact ] && ! grep -q 'ppo_clock\|ppo_rlhf_memory' "$lesson"; then
        echo "$kept/$name has other numbers than its lesson: cp $file $kept/" >&2
    fi
done
for file in "$kept"/*.svg; do
    grep -q "build/lessons/${file##*/}" examples/lessons/*.c || { echo "$file is of no lesson" >&2; status=1; }
done
exit $status
