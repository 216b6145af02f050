#!/bin/sh
# run.sh [-jN] PROGRAM... - runs tests that report in TAP, N at a time, and adds up their results; the last line is
# "N passed, N failed". A program that did not compile, that crashes, or that ends before the end of its plan counts as
# failed. Programs in build/asan and build/tsan were built with sanitizers and get the settings that these need here.
cc=${CC:-cc} workers=1
case ${1-} in -j[1-9]*) workers=${1#-j} && shift ;; esac
mkdir -p build/log
notes=$(mktemp -d build/log/run.XXXXXX) || exit 1 # counts, and which programs are taken
: >"$notes/counts"
trap 'rm -rf "$notes"' EXIT
trap 'rm -rf "$notes"; trap - TERM; kill 0' INT # workers do not see Ctrl-C

# sanitizer FLAG PREFIX... - prints the first command prefix under which a program built with FLAG runs on this machine.
sanitizer() {
    flag=$1
    shift
    echo 'int main(void) { return 0; }' >build/sane.c
    $cc "$flag" build/sane.c -o build/sane >build/log/sane.log 2>&1 || return 1
    for prefix in "$@"; do
        $prefix build/sane >build/log/sane.log 2>&1 && { echo "$prefix"; return 0; }
    done
    return 1
}

# What is freed stays poisoned until 16 MB more are: 256 MB, which is usual, take most of the time of a fork().
asan_options=ASAN_OPTIONS=allocator_may_return_null=1:quarantine_size_mb=16
tsan_options=TSAN_OPTIONS=halt_on_error=1
asan=$(sanitizer -fsanitize=address,undefined "env $asan_options" "env $asan_options:detect_leaks=0") || asan=none
tsan=$(sanitizer -fsanitize=thread "env $tsan_options" "env $tsan_options setarch -R") || tsan=none
case $asan in *detect_leaks=0) echo "note: no search for leaks, LeakSanitizer does not run on this machine" ;; esac

# tell PROGRAM PASSED FAILED [SKIPPED [SECONDS]] - prints a line, and keeps the counts
tell() {
    echo "$2 $3 $1" >>"$notes/counts"
    echo "$@" | awk '{ printf "%-5s %-30s %4d passed%s%s\n", $3 ? "FAIL" : "ok", $1, $2,
                              $3 ? ", " $3 " failed" : "", ($4 ? ", " $4 " skipped" : "") ($5 > 9 ? ", " $5 " s" : "") }'
}

# try PROGRAM - runs it and prints its result.
try() {
    program=$1 prefix=
    case $program in
        *.sh)         prefix=sh ;;
        build/asan/*) prefix=$asan ;;
        build/tsan/*) prefix=$tsan ;;
    esac
    if [ "$prefix" = none ]; then
        echo "0 0 $program" >>"$notes/counts"
        echo "skip  $program: this machine cannot run programs built with its sanitizer"
        return
    fi
    if [ ! -f "$program" ]; then
        tell "$program" 0 1
        echo "      | it does not exist: it did not compile"
        return
    fi

    began=$(date +%s)
    log=build/log/$(echo "${program#build/}" | tr / -).log
    CMOCKA_MESSAGE_OUTPUT=TAP $prefix "$program" >"$log" 2>&1
    status=$?
    read -r passed failed skipped plan <<END
$(awk '/^#/              { next }
       /^1\.\.[0-9]+$/   { plan += substr($0, 4); next }
       /ok [0-9]+ # SKIP/ { skipped++; next }
       /not ok [0-9]+ -/  { failed++; next }
       /ok [0-9]+ -/      { passed++ } # text that the test wrote may stand before it
       END               { print passed + 0, failed + 0, skipped + 0, plan + 0 }' "$log")
END
    named=$failed missing=$((plan - passed - failed - skipped))
    [ $missing -gt 0 ] && failed=$((failed + missing))
    [ $status -ne 0 ] && [ "$failed" -eq 0 ] && failed=1

    tell "$program" "$passed" "$failed" "$skipped" $(($(date +%s) - began))
    if [ "$failed" -gt "$named" ]; then
        echo "      | exit status $status; the end of $log:"
        tail -n 40 "$log" | sed 's/^/      | /'
    elif [ "$failed" -gt 0 ]; then
        grep -v -e '^ok [0-9]' -e '# SKIP' "$log" | head -n 80 | sed 's/^/      | /'
    fi
    grep 'ok [0-9]* # SKIP' "$log" | sed 's/.*# SKIP/      skipped:/'
}

# work PROGRAM... - tries those that no other worker has taken: mkdir succeeds for one of them only.
work() {
    number=0
    for next in "$@"; do
        number=$((number + 1))
        mkdir "$notes/$number" 2>/dev/null && report=$(try "$next") && echo "$report"
    done
}

while [ "$workers" -gt 0 ]; do
    work "$@" &
    workers=$((workers - 1))
done
wait
for program in "$@"; do
    grep -q " $program\$" "$notes/counts" || tell "$program" 0 1 # its worker died
done
awk '{ passed += $1; failed += $2 }
     END { print passed + 0 " passed, " failed + 0 " failed"; exit failed || !passed }' "$notes/counts"
