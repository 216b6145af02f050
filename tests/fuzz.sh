#!/bin/sh
# fuzz.sh [TARGET...] - looks for inputs that do harm, by libFuzzer, for T seconds (60) in each target of fuzz.h, on
# PROCESSORS processors (1). What does harm is left in build/fuzz/TARGET/; what reaches code that nothing reached before
# goes into build/fuzz/TARGET/corpus, where the next run begins. KEEP=BYTES instead writes the smallest inputs that
# reach all that these do to tests/golden/corpus/, as text of about that size in each target.
cd "$(dirname "$0")/.." || exit 1
program=build/fuzz/fuzz
export ASAN_OPTIONS=allocator_may_return_null=1:quarantine_size_mb=16 UBSAN_OPTIONS=print_stacktrace=1

# fuzz TARGET BYTES - BYTES: the longest input
fuzz() {
    work=build/fuzz/$1
    mkdir -p "$work/corpus"
    FUZZ_TARGET=$1
    FUZZ_HOME=$(mktemp -d /dev/shm/ppo-fuzz-XXXXXX 2>/dev/null || mktemp -d)
    export FUZZ_TARGET FUZZ_HOME
    FUZZ_DO=seed $program "$work/corpus" >"$work/log" 2>&1 &&
        if [ -n "${KEEP-}" ]; then
            rm -rf "$work/least" && mkdir "$work/least" &&
                $program -merge=1 -max_len="$2" "$work/least" "$work/corpus" >>"$work/log" 2>&1 &&
                FUZZ_DO=keep $program "$work/least" "$KEEP" 2>>"$work/log"
        else
            $program -max_total_time="${T:-60}" -max_len="$2" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
                -artifact_prefix="$work/" "$work/corpus" >>"$work/log" 2>&1
        fi
    status=$?
    rm -rf "$FUZZ_HOME"
    [ -n "${KEEP-}" ] || awk -v name="$1" -v status=$status '
        /cov:/ { for (i = 1; i < NF; i++) { if ($i == "cov:") edges = $(i + 1); if ($i == "corp:") inputs = $(i + 1) } }
        /^#[0-9]/ { runs = substr($1, 2) }
        /number_of_executed_units/ { runs = $2 }
        END { sub("/.*", "", inputs)
              printf "%-4s %-12s %9d runs  %6d edges  %5d inputs\n", status ? "FAIL" : "ok", name, runs, edges, inputs }' "$work/log"
    [ $status -eq 0 ] || tail -n 40 "$work/log" | sed 's/^/     | /'
    return $status
}

if [ "${1-}" = --one ]; then # for xargs
    fuzz "$2" "$3"
    exit
fi
FUZZ_DO=list $program | while read -r name most; do
    case " ${*:-$name} " in *" $name "*) echo "$name $most" ;; esac
done | xargs -r -L 1 -P "${PROCESSORS:-1}" sh "$0" --one
