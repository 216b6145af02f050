#!/bin/sh
# compile_time.sh [SQLITE3.C] - how long compilers (CC, or gcc and clang) take with -O2: user seconds, the least of three
# runs, of ppo.h's wings, of each companion beside the wings that it needs, and of stb_image.h and sqlite3.c (given by its
# path); and what the library adds to a program that trains by control alone.
cd "$(dirname "$0")/.." || exit 1
work=build/compile-time image=
mkdir -p $work

least() { # COMMAND...: the least user seconds of three runs
    for run in 1 2 3; do
        { time -p "$@"; } 2>$work/time >&2 || { cat $work/time >&2; exit 1; }
        awk '/^user/ { print $2 }' $work/time
    done | sort -n | head -n 1
}

seconds() { # NAME LINES FLAGS, the file from stdin; LINES: 0 if they do not matter
    cat >$work/a.c
    s=$(least $cc -O2 $3 -I. -Iexamples -c $work/a.c -o $work/a.o)
    echo "$1|$s|${image:-$s}|$2" |
        awk -F'|' '{ printf "  %-52s %6.2f s %6.2f", $1, $2, $2 / $3
                     if ($4 > 0) printf " %9.0f lines/s", $4 / $2
                     print "" }'
}

program() { # FLAGS: bytes of the quickstart, stripped
    $cc $1 -DPPO_NO_LANGUAGE -DPPO_NO_REPORTS -I. examples/quickstart.c -o $work/a.out -lm -pthread && strip $work/a.out &&
        wc -c <$work/a.out
}

lines() { wc -l <"$1"; }

for cc in ${CC:-gcc clang}; do
    command -v $cc >/dev/null || continue
    $cc --version | head -n 1
    image=
    for h in stb/stb_image.h stb_image.h; do
        if echo "#include <$h>" | $cc -E -x c - >/dev/null 2>&1; then
            echo "#include <$h>" | $cc -E -x c - >$work/image.i
            file=$(sed -n 's/^# 1 "\(.*stb_image.h\)".*/\1/p' $work/image.i | head -n 1)
            printf '#define STB_IMAGE_IMPLEMENTATION\n#include <%s>\n' $h >$work/image.c
            image=$(least $cc -O2 -c $work/image.c -o $work/a.o)
            seconds stb_image.h "$(lines "$file")" "" <$work/image.c
            break
        fi
    done
    if [ -f "$1" ]; then seconds sqlite3.c "$(lines "$1")" "" <"$1"; fi
    printf '#define PPO_IMPLEMENTATION\n#include "ppo.h"\n' >$work/ppo.c
    seconds "ppo.h" "$(lines ppo.h)" "" <$work/ppo.c
    seconds "  foundation and mathematics" 0 "-DPPO_NO_CONTROL -DPPO_NO_LANGUAGE -DPPO_NO_REPORTS" <$work/ppo.c
    seconds "  and control" 0 "-DPPO_NO_LANGUAGE -DPPO_NO_REPORTS" <$work/ppo.c
    seconds "  and control and reports" 0 "-DPPO_NO_LANGUAGE" <$work/ppo.c
    seconds "  and language" 0 "-DPPO_NO_CONTROL -DPPO_NO_REPORTS" <$work/ppo.c
    echo '#include "ppo.h"' | seconds "  declarations only" 0 ""
    for companion in examples/companions/*.h; do
        case $companion in *mpi.h) continue ;; esac # needs a library
        printf '#include "companions/%s"\n' "$(basename $companion)" | cat $work/ppo.c - |
            seconds "ppo.h and $(basename $companion)" 0 ""
    done
    for flags in -O2 -Os; do
        echo "  examples/quickstart.c with $flags, stripped: $(program $flags) bytes"
    done
done
