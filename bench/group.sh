#!/bin/sh
# group.sh - bench-group with one and two processes, in turns: steps per second with two in relation to one, best of five
# each; and what processes exchange. On a machine that is shared, REALTIME=yes runs them at real-time priority (root).
cd "$(dirname "$0")/.."
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
first=${REALTIME:+chrt -f 5}

# pairs ARGUMENTS... - runs them with one and two processes, five times
pairs() {
    for round in 1 2 3 4 5; do
        for n in 1 2; do mpirun -n $n $first build/bench-group "$@"; done
    done | awk -v what="$*" '
        { for (i = 1; i <= NF; i++) if ($i == "x") { n = $(i + 1); x = $(i + 2) }
          if (x > best[n]) best[n] = x }
        END { printf "%-24s one %8.0f /s   two %8.0f /s   ratio %.2f\n", what, best[1], best[2], best[2] / best[1] }'
}

uptime
pairs control 20
pairs control 100
pairs control 0
pairs language 128 2 8
for n in 1 2 8 64; do RANKS=$n $first build/bench-group control 20 $n; done
for n in 1 2 8 64; do RANKS=$n $first build/bench-group language 256 3 $n; done
uptime
