#!/bin/sh
# systems.sh [NAME...] - ppo.h on other systems, all or these, for each whose compiler is installed: it compiles. With
# PPO_SYSTEMS=run (make systems) also: quickstart.c reaches a mean return of 500 there (a shorter training 200, where
# emulation is slow), and each system reads the files of this one and the other way round. Reports in TAP; the logs are
# in build/systems/.
work=build/systems
. "$(dirname "$0")/check.sh"
run=${PPO_SYSTEMS-} only=$*
mkdir -p $work/include $work/x86_64
export WINEDEBUG=-all WINEPREFIX="$PWD/$work/wine" NODE_PATH="/usr/share/nodejs${NODE_PATH:+:$NODE_PATH}"

have() { command -v "$1" >/dev/null 2>&1; }

# check NAME COMMAND... - passes if each command in it returns 0
check() {
    name=$1 logs=$work/$1.log
    shift
    (set -ex; "$@") >$logs 2>&1 # not in an if, where set -e has no effect
    report $name $?
    sed -n 's/^mean return/# &/p' $logs
}

# stb_ds.h, for compilers that do not look into /usr/include
stb_ds=$(for h in '"stb_ds.h"' '<stb/stb_ds.h>' '<stb_ds.h>'; do printf '#include %s\n' "$h" | ${CC:-cc} -I. -M -x c - 2>/dev/null; done |
    tr ' ' '\n' | grep -m1 'stb_ds\.h$')
cp "$stb_ds" $work/include
printf '#include <stdio.h>\nint main(void) { return 0; }\n' >$work/hello.c

# build FILE.c PROGRAM - links it with the library
build() { $compiler $flags -DPPO_NO_IMPLEMENTATION -I. -I$work/include "$1" $folder/ppo.o -o "$2" $link; }

# The library, then its files: written here, read by the system of this machine, and the other way round.
works() {
    $compiler $flags -I. -I$work/include -c examples/ppo.c -o $folder/ppo.o
    build tests/systems.c $folder/systems$suffix
    case $amount in
    full)
        build examples/quickstart.c $folder/quickstart$suffix
        $runner $folder/quickstart$suffix | grep 'mean return 500\.0'
        $runner $folder/systems$suffix write $folder 8192 200 ;;
    slow) $runner $folder/systems$suffix write $folder 8192 200 ;;
    esac
    $runner $folder/systems$suffix read $work/x86_64
    $work/x86_64/systems read $folder
}

# The test programs, for which Windows lacks POSIX and cmocka: they must compile.
tests_compile() {
    cmocka=$(echo '#include <cmocka.h>' | ${CC:-cc} -include stdarg.h -include stddef.h -include stdint.h -include setjmp.h -M -x c - |
        tr ' ' '\n' | grep -m1 'cmocka\.h$')
    cp "${cmocka%.h}"*.h $work/include
    for test in tests/private.c tests/test_*.c; do # those which private.c includes once, and no MuJoCo there
        [ $test = tests/test_mujoco.c ] || grep -q "^#include \"${test#tests/}\"" tests/private.c ||
            $compiler -fsyntax-only -I. -I$work/include -Itests/mpi_emulation "$test"
    done
}

compiles() {
    output=-fsyntax-only
    [ "$compiler" != tcc ] || output="-c -o $folder/ppo.o" # it does not have that
    $compiler $flags $output -I. -I$work/include examples/ppo.c
}

# try NAME full|slow COMPILER FLAGS LIBRARIES RUNNER [SUFFIX] - the runner is for programs that this machine cannot run
try() {
    case " $only " in "  " | *" $1 "*) ;; *) return ;; esac
    name=$1 amount=$2 compiler=$3 flags=$4 link=$5 runner=$6 suffix=${7-} folder=$work/$1
    missing=
    mkdir -p $folder
    if ! have "${compiler%% *}"; then
        missing="no ${compiler%% *}"
    elif ! $compiler $flags $work/hello.c -o $folder/hello$suffix $link >$folder/hello.log 2>&1; then
        missing="${compiler%% *} finds no C library"
    elif [ "$run" ]; then
        have "$runner" || ! have "$runner-static" || runner=$runner-static
        if $folder/hello$suffix >$folder/hello.log 2>&1; then
            runner=
        elif ! have "${runner%% *}"; then
            missing="no ${runner%% *}"
        elif ! $runner $folder/hello$suffix >$folder/hello.log 2>&1; then
            missing="${runner%% *} does not run its programs"
        fi
    fi
    if [ -n "$missing" ]; then
        skip $name "$missing"
    elif [ "$run" ]; then
        have timeout && [ "$runner" ] && runner="timeout 900 $runner"
        check $name works
    else
        check $name compiles
    fi
}

wasm="-O2 -sNODERAWFS=1 -sINITIAL_MEMORY=128MB -sEXIT_RUNTIME=1"
if [ "$run" ]; then # the files that all others read
    compiler=${CC:-cc} flags=-O2 link=-lm runner= suffix= amount=full folder=$work/x86_64
    check x86_64 works
fi
try short_enums  slow gcc                     "-O2 -fshort-enums" "-lm"    none
try musl         full musl-gcc                "-O2"          "-lm"         none
try tcc          slow tcc                     ""             "-lm -pthread" none
try i686         full i686-linux-gnu-gcc      "-O2 -static"  "-lm"         qemu-i386
try aarch64      slow aarch64-linux-gnu-gcc   "-O2 -static"  "-lm"         qemu-aarch64
try armhf        slow arm-linux-gnueabihf-gcc "-O2 -static"  "-lm"         qemu-arm
try riscv64      slow riscv64-linux-gnu-gcc   "-O2 -static"  "-lm"         qemu-riscv64
try s390x        slow s390x-linux-gnu-gcc     "-O2 -static"  "-lm"         qemu-s390x
try mingw        full x86_64-w64-mingw32-gcc  "-O2 -static"  ""            wine .exe
[ "$only" ] || [ "$missing" ] || check mingw_tests tests_compile
libgcc=$(x86_64-w64-mingw32-gcc -print-libgcc-file-name 2>/dev/null) # clang does not find the folder itself
try clang_win64  full "clang --target=x86_64-w64-windows-gnu" "-O2 -static" "-L${libgcc%/*}" wine .exe
try wasm         full emcc                    "$wasm"        ""            "node --no-experimental-fetch" .js
try wasm_threads slow emcc "$wasm -pthread -sPTHREAD_POOL_SIZE=4" ""       "node --no-experimental-fetch" .js

[ ! -d $work/wine ] || wineserver -k # its processes outlive the programs
finish
