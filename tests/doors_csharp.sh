#!/bin/sh
# doors_csharp.sh - examples/csharp/Ppo.cs and its game, with Mono: doors_csharp.cs has the tests. Reports in TAP.
work=build/doors-csharp
. "$(dirname "$0")/check.sh"

if ! command -v mcs >"$work/which.log" || ! command -v mono >"$work/which.log"; then
    skip csharp "no Mono (Debian: mono-mcs)"
    finish
    exit
fi
LD_LIBRARY_PATH=$PWD/build DYLD_LIBRARY_PATH=$PWD/build
export LD_LIBRARY_PATH DYLD_LIBRARY_PATH

compiles() { mcs -warn:4 -warnaserror "-out:$work/$1.exe" examples/csharp/Ppo.cs "$2"; }
learns() { # without a clock: a rollout is learned from at once
    mono $work/Game.exe 4000 1 0 >"$work/game.txt" && [ "$(sed -n 's/^caught at last: \([0-9]*\) %$/\1/p' "$work/game.txt")" -ge 85 ]
}

logs=$work/game.txt
check the_game_compiles compiles Game examples/csharp/Game.cs
check the_game_learns learns
check the_tests_compile compiles Test tests/doors_csharp.cs
MALLOC_PERTURB_=165 mono $work/Test.exe $work # what is freed is overwritten
tests=$?
finish && [ $tests -eq 0 ]
