# check.sh - what test scripts that report in TAP share. A script sets `work` to a folder in build/, then reads this file,
# which goes to the top folder and makes that one anew:
#     work=build/plot-test
#     . "$(dirname "$0")/check.sh"
# It ends with `finish`. `logs` names files whose end is printed where a check fails, after what the check printed.
set -u
cd "$(dirname "$0")/.."
rm -rf "$work"
mkdir -p "$work"
number=0 failures=0 logs=

# report NAME STATUS - status 0: passed
report() {
    number=$((number + 1))
    if [ "$2" -eq 0 ]; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1"
        [ -z "$logs" ] || cat $logs 2>/dev/null | tail -n 30 | sed 's/^/# /'
        failures=$((failures + 1))
    fi
}

# check NAME COMMAND... - passes if the command returns 0
check() {
    name=$1
    shift
    "$@" >"$work/check.log" 2>&1
    status_of_check=$?
    [ $status_of_check -eq 0 ] || tail -n 20 "$work/check.log" | sed 's/^/# /'
    report "$name" $status_of_check
}

# skip NAME REASON
skip() {
    number=$((number + 1))
    echo "ok $number # SKIP $1: $2"
}

finish() {
    echo "1..$number"
    [ $failures -eq 0 ]
}
