#!/bin/sh
# compile_time.sh - how long a compiler (CC, gcc) takes for ppo.h with -O2: user seconds for each combination of the
# switches, for a file that only includes the declarations, and for stb_image.h where it is installed.
cd "$(dirname "$0")/.." || exit 1
cc=${CC:-gcc} work=build/compile-time
mkdir -p $work

seconds() { # NAME FLAGS, the file from stdin
    cat >$work/a.c
    { time -p $cc -O2 $2 -I. -c $work/a.c -o $work/a.o; } 2>$work/time || { cat $work/time; exit 1; }
    awk -v name="$1" '/^user/ { printf "%-40s %6.2f s\n", name, $2 }' $work/time
}

$cc --version | head -n 1
for c in '' ' CONTROL'; do
    for l in '' ' LANGUAGE'; do
        for r in '' ' REPORTS'; do
            without=$c$l$r
            printf '#define PPO_IMPLEMENTATION\n#include "ppo.h"\n' |
                seconds "ppo.h${without:+ without$without}" "$(echo "$without" | sed 's/ / -DPPO_NO_/g')"
        done
    done
done
printf '#include "ppo.h"\n' | seconds "ppo.h, declarations only" ""
for h in stb/stb_image.h stb_image.h; do
    if echo "#include <$h>" | $cc -E -x c - >/dev/null 2>&1; then
        printf '#define STB_IMAGE_IMPLEMENTATION\n#include <%s>\n' $h | seconds stb_image.h ""
        break
    fi
done
