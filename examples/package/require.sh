#!/bin/sh
# require.sh NAME - looks for what the build needs of the system, and leaves build/NAME.found. This is the one place of
# the project that installs anything: it says what, and does so only as root (Debian, Ubuntu, Fedora, Arch), or in build/.
# Other users read the command to type; they are never asked for a password. NAME is a row of the table at the end.
set -u
work=build/$1
mkdir -p build

fail() { # TEXT
    echo "$1" >&2
    exit 1
}

# compiles COMPILER HEADER LIBRARIES - a program with it
compiles() {
    printf '#include <%s>\n' setjmp.h stdarg.h stddef.h stdint.h >$work.c
    printf '#include %s\nint main(void) { return 0; }\n' "$2" >>$work.c
    $1 -I. $work.c -o $work.probe $3 2>$work.log
}

# install APT DNF PACMAN [HINT] - as root; otherwise says how
install() {
    if command -v apt-get; then
        command="apt-get install -y --no-install-recommends $1"
    elif command -v dnf; then
        command="dnf install -y $2"
    elif command -v pacman; then
        command="pacman -S --noconfirm --needed $3"
    else
        fail "please install $1 (Debian, Ubuntu), $2 (Fedora) or $3 (Arch)${4-}"
    fi >build/install.log
    [ "$(id -u)" = 0 ] || fail "please install what is missing:  sudo $command${4-}"
    echo "installing: $command  (log: build/install.log)"
    export DEBIAN_FRONTEND=noninteractive
    case $command in apt-get*) command="$command -o DPkg::Lock::Timeout=300" ;; esac
    $command >build/install.log 2>&1 && return
    case $command in apt-get*) apt-get update >>build/install.log 2>&1 && $command >>build/install.log 2>&1 && return ;; esac
    fail "this failed, see build/install.log: $command${4-}"
}

# header COMPILER HEADERS LIBRARIES APT DNF PACMAN [HINT] - one of the headers must compile
header() {
    found() { for h in $headers; do compiles "$compiler" "$h" "$libraries" && return 0; done; return 1; }
    compiler=$1 headers=$2 libraries=$3
    shift 3
    found && return
    install "$@"
    found || fail "there is still no $headers for $compiler, see $work.log"
}

# Python's packages mujoco (libmujoco and its headers) and gymnasium (the models), without what they import: those of
# PPO_PYTHON, or else installed in build/mujoco-packages. Version 4 of mujoco keeps the library in mujoco-core. A
# libmujoco of the system is used where Python has no mujoco. The flags go into build/mujoco.found.
mujoco() {
    python=${PPO_PYTHON:-python3} packages=$PWD/build/mujoco-packages system=python
    flags() { $python examples/package/mujoco_flags.py "$packages" $system >$work.flags 2>>build/install.log; }
    get() { $python -m pip install --quiet --no-deps --retries 1 --timeout 20 --target "$packages" "$1"; }
    printf '#include <mujoco/mujoco.h>\nint main(void) { return !mj_version(); }\n' >$work.c
    ${CC:-cc} $work.c -o $work.probe -lmujoco 2>$work.log && system=system
    flags || {
        echo "installing: Python's packages mujoco and gymnasium, in build/mujoco-packages  (log: build/install.log)"
        { [ $system = system ] || get mujoco-core || get mujoco; get gymnasium; } >build/install.log 2>&1
        flags || fail "please install Python's packages mujoco and gymnasium; PPO_PYTHON=... names the Python"
    }
    mv $work.flags $work.found
}

# libFuzzer, with clang
fuzzer() {
    found() { ${FUZZ_CC:-clang} -fsanitize=fuzzer,address $work.c -o $work.probe 2>$work.log; }
    printf 'int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long n) { return data && n > 1 ? 0 : -1; }\n' >$work.c
    found && return
    install 'clang libclang-rt-dev' 'clang compiler-rt' 'clang compiler-rt'
    found || fail "there is still no libFuzzer for ${FUZZ_CC:-clang}, see $work.log"
}

words() {
    [ -s /usr/share/dict/words ] || install wamerican words words
    [ -s /usr/share/dict/words ] || fail "there is still no /usr/share/dict/words"
}

compiles "${CC:-cc}" '<stdio.h>' '' || fail "the C compiler \"${CC:-cc}\" does not work, see $work.log; CC=... names another one"
cxx="${CXX:-c++} -std=c++17 -x c++"
case $1 in
stb_ds) header "${CC:-cc}" '"stb_ds.h" <stb/stb_ds.h> <stb_ds.h>' '' libstb-dev stb-devel stb ' (or put stb_ds.h beside ppo.h)' ;;
cmocka) header "${CC:-cc}" '<cmocka.h>' -lcmocka libcmocka-dev libcmocka-devel cmocka ;;
cxx) header "$cxx" '<optional>' '' g++ gcc-c++ gcc ;;
box2d) header "$cxx" '<box2d/b2_revolute_joint.h>' -lbox2d 'libbox2d-dev g++' 'box2d-devel gcc-c++' 'box2d gcc' ' (its version 2.4)' ;;
mpi) header "${MPICC:-mpicc}" '<mpi.h>' '' 'libopenmpi-dev openmpi-bin' openmpi-devel openmpi ;;
fuzzer | mujoco | words) $1 ;;
*) fail "require.sh: there is no row for $1" ;;
esac
[ -f $work.found ] || : >$work.found
