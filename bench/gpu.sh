#!/bin/sh
# gpu.sh [FOLDER [SECONDS]] - everything that is to be known on a GPU, in order of worth, within these seconds (780): the
# tests; what rlhf computes there and on the processor; the benchmarks beside their peers; compute-sanitizer; the time of
# each kernel. It writes into FOLDER (build/gpu): summary.txt, and a log of each step. A step that would go beyond the
# seconds is cut, and said to be; one that fails does not end the others. `make cuda` first, elsewhere if there is a
# compiler but no GPU: build/cuda/ can be copied. PPO_BENCH_PYTHON names a Python with PyTorch and Liger-Kernel.
out=${1:-build/gpu} limit=${2:-780} programs=${PPO_GPU_PROGRAMS:-build/cuda}
began=$(date +%s)
mkdir -p "$out" || exit 1
: >"$out/summary.txt"
PATH=$PATH:/usr/local/cuda/bin

say() { echo "$*" | tee -a "$out/summary.txt"; }
left() { echo $((limit - $(date +%s) + began)); }

# step NAME SECONDS COMMAND... - its log is NAME.log; returns what it returned, 124 if it was cut, 1 if no time is left
step() {
    name=$1 most=$2
    shift 2
    [ "$(left)" -gt 5 ] || { say "$name: not run, no time is left"; return 1; }
    [ "$most" -lt "$(left)" ] || most=$(left)
    started=$(date +%s)
    timeout "$most" "$@" >"$out/$name.log" 2>&1
    status=$?
    case $status in
    0) say "$name: passed, $(($(date +%s) - started)) s" ;;
    124) say "$name: cut after $most s" ;;
    *) say "$name: FAILED with status $status, $(($(date +%s) - started)) s" ;;
    esac
    return $status
}

# tests SUFFIX SECONDS [TOOL...] - runs each test program, and adds up what passed
tests() {
    suffix=$1 most=$2
    shift 2
    for program in "$programs"/test_cuda_*; do
        [ -x "$program" ] && [ ! -d "$program" ] || continue
        step "$(basename "$program")$suffix" "$most" "$@" "$program"
    done
    say "tests$suffix: $(cat "$out"/test_cuda_*[a-z]"$suffix.log" | grep -c '^ok') ok," \
        "$(cat "$out"/test_cuda_*[a-z]"$suffix.log" | grep -c '^not ok') not ok"
}

nvidia-smi -L >"$out/device.log" 2>&1 || { say "nvidia-smi finds no GPU: nothing is run"; exit 1; }
[ -x "$programs/bench" ] || { say "there is no $programs/bench: make cuda"; exit 1; }
say "$(nvidia-smi --query-gpu=name,compute_cap,driver_version,memory.total --format=csv,noheader), $(nproc) processors"

step device 60 "$programs/bench" --device || { cat "$out/device.log"; exit 1; }
tests "" 120

# The same stages on both: rewards and KL agree within what another order of sums does to a training.
for device in cpu cuda; do
    step rlhf-$device 90 "$programs/rlhf" all --quiet --device $device --dir "$out/rlhf-$device" &&
        sed "s/^/    $device: /" "$out/rlhf-$device.log" | tee -a "$out/summary.txt"
done

step bench-quick 150 "$programs/bench" --quick
step bench-models 200 "$programs/bench" --models

# compute-sanitizer is ten to a hundred times slower: the tests of single kernels before those of whole models.
if command -v compute-sanitizer >/dev/null; then
    check="compute-sanitizer --report-api-errors no --error-exitcode 9 --tool"
    step racecheck-tokens 60 $check racecheck "$programs/test_cuda_tokens"
    step initcheck-losses 60 $check initcheck "$programs/test_cuda_losses"
    tests -memcheck 60 $check memcheck
else
    say "memory is not checked, there is no compute-sanitizer"
fi

# Each kernel's share of an iteration of PPO on tokens.
if command -v ncu >/dev/null; then
    step profile 90 ncu --csv --metrics gpu__time_duration.sum --launch-skip 500 --launch-count 1500 \
        "$programs/rlhf" all --quiet --device cuda --dir "$out/rlhf-profile"
    awk -F'","' '/gpu__time_duration/ { gsub(/[",]/, "", $NF); n[$5]++; t[$5] += $NF; all += $NF }
        END { for (k in t) printf "%5.1f %%  %6d calls  %s\n", 100 * t[k] / all, n[k], k }' "$out/profile.log" |
        sort -rn | head -25 | tee -a "$out/summary.txt"
fi

step bench-all 300 "$programs/bench"
for log in bench-quick bench-models bench-all; do
    [ ! -f "$out/$log.log" ] || { echo; echo "== $log"; cat "$out/$log.log"; } >>"$out/summary.txt"
done
rm -rf "$out"/rlhf-cpu "$out"/rlhf-cuda "$out"/rlhf-profile
say "done in $(($(date +%s) - began)) s: $out/summary.txt"
