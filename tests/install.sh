#!/bin/sh
# install.sh - make install, uninstall and dist: what they copy, and that a program finds it by pkg-config, by CMake, or
# in the folder. Reports in TAP.
set -u
cd "$(dirname "$0")/.."
work=$PWD/build/install cc=${CC:-cc}
rm -rf "$work"
mkdir -p "$work"
number=0 failures=0
unset MAKEFLAGS MFLAGS MAKELEVEL

# check NAME COMMAND... - passes if the command returns 0
check() {
    name=$1
    shift
    number=$((number + 1))
    if "$@" >"$work/check.log" 2>&1; then
        echo "ok $number - $name"
    else
        echo "not ok $number - $name"
        sed 's/^/# /' "$work/check.log" | tail -n 20
        failures=$((failures + 1))
    fi
}

skip() { # NAME REASON
    number=$((number + 1))
    echo "ok $number # SKIP $1: $2"
}

cat >"$work/app.c" <<'END'
#define PPO_NO_CONTROL
#define PPO_NO_LANGUAGE
#define PPO_NO_REPORTS
#define PPO_IMPLEMENTATION
#include "ppo.h"
int main(void) {
    printf("%s\n", ppo_kernels_name());
    return 0;
}
END

installs() {
    make install PREFIX="$work/usr" && make install PREFIX=/usr DESTDIR="$work/stage" &&
        cmp ppo.h "$work/usr/include/ppo.h" && cmp ppo_cuda.cuh "$work/stage/usr/include/ppo_cuda.cuh" &&
        grep -qx 'prefix=/usr' "$work/stage/usr/share/pkgconfig/ppo.pc"
}
check headers_are_installed installs

by_pkg_config() {
    export PKG_CONFIG_PATH="$work/usr/share/pkgconfig"
    pkg-config --exists 'ppo >= 0.1' && ! pkg-config --exists 'ppo >= 99' &&
        $cc -O0 "$work/app.c" -o "$work/app" $(pkg-config --cflags --libs ppo) && "$work/app"
}
if command -v pkg-config >"$work/which.log"; then
    check a_program_is_compiled_by_pkg_config by_pkg_config
else
    skip a_program_is_compiled_by_pkg_config "no pkg-config"
fi

by_cmake() {
    mkdir "$work/cmake"
    cat >"$work/cmake/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.10)
project(app C)
find_package(ppo 0.1 REQUIRED CONFIG)
find_package(ppo 99 QUIET CONFIG)
if(ppo_FOUND)
    message(FATAL_ERROR "ppo.h is not of version 99")
endif()
find_package(ppo REQUIRED CONFIG)
add_executable(app ../app.c)
target_link_libraries(app ppo::ppo)
END
    cmake -S "$work/cmake" -B "$work/cmake/build" -DCMAKE_PREFIX_PATH="$work/usr" -DCMAKE_C_COMPILER="$cc" &&
        cmake --build "$work/cmake/build" && "$work/cmake/build/app"
}
if command -v cmake >"$work/which.log"; then
    check a_program_is_compiled_by_cmake by_cmake
else
    skip a_program_is_compiled_by_cmake "no cmake"
fi

uninstalls() {
    make uninstall PREFIX="$work/usr" && [ "$(find "$work/usr" -type f)" = "" ]
}
check nothing_is_left_after_uninstall uninstalls

in_the_folder() { # as its README says, but not optimized
    folder=$(make -s dist | tail -n 1) && cd "$folder" &&
        sed -e '/^#define PPO_IMPL/d' "$OLDPWD/examples/quickstart.c" >"$work/quickstart.c" &&
        $cc -O0 -c ppo.c -o "$work/ppo.o" && $cc -O0 -I. "$work/quickstart.c" "$work/ppo.o" -o "$work/quickstart" -lm -pthread &&
        [ -f LICENSE ] && [ -f README ] && grep -q 'cc -O2 -c ppo.c' README
}
check the_folder_of_dist_is_enough in_the_folder

echo "1..$number"
[ $failures -eq 0 ]
