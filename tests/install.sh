#!/bin/sh
# install.sh - make install, uninstall and dist: what they copy, and that a program finds it by pkg-config, by CMake, or
# in the folder. Reports in TAP.
work=build/install
. "$(dirname "$0")/check.sh"
work=$PWD/$work cc=${CC:-cc}
unset MAKEFLAGS MFLAGS MAKELEVEL

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
        grep -qx 'prefix=/usr' "$work/stage/usr/share/pkgconfig/ppo.pc" || return 1
    for header in ppo.h ppo_cuda.cuh examples/companions/*; do
        cmp $header "$work/usr/include/${header##*/}" && cmp $header "$work/stage/usr/include/${header##*/}" || return 1
    done
}
check headers_are_installed installs

# Companions are found beside ppo.h, in C and C++.
{
    printf '#define PPO_IMPLEMENTATION\n#include <ppo.h>\n'
    sed -n 's|^#include "companions/\(.*\)"|#include <\1>|p' examples/ppo.c
} >"$work/companions.c"
with_companions() { # COMPILER FLAG...
    grep -c 'ppo_.*h>' "$work/companions.c" | grep -vx '[01]' && "$@" -O0 -I"$work/usr/include" -fsyntax-only "$work/companions.c"
}
check a_program_finds_the_companions with_companions $cc
if command -v g++ >"$work/which.log"; then
    check a_program_in_cpp_finds_the_companions with_companions g++ -std=c++17 -x c++
else
    skip a_program_in_cpp_finds_the_companions "no g++"
fi

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

# What is missing is installed by root alone; other users read the command to type. Here id, the compiler and the package
# manager are scripts: the compiler finds the library once the package manager was called.
mkdir -p "$work/fresh/bin"
echo 'echo "$ROOT_OR_NOT"' >"$work/fresh/bin/id"
echo 'echo "$@" >>called' >"$work/fresh/bin/apt-get"
echo '[ -f called ] || ! grep -q stb_ds "$2"' >"$work/fresh/bin/compiler"
chmod +x "$work"/fresh/bin/*
require() { # USER - exit status in $status, output in $work/said
    rm -rf "$work/fresh/called" "$work/fresh/build"
    (cd "$work/fresh" && PATH="$PWD/bin:$PATH" CC=compiler ROOT_OR_NOT=$1 sh ../../../examples/package/require.sh stb_ds) >"$work/said" 2>&1
    status=$?
    cat "$work/said"
}
root_installs() {
    require 0
    [ $status -eq 0 ] && [ -f "$work/fresh/build/stb_ds.found" ] &&
        grep -q '^installing: apt-get install -y --no-install-recommends libstb-dev' "$work/said" &&
        grep -q '^install -y.* libstb-dev' "$work/fresh/called"
}
others_read_the_command() {
    require 1000
    [ $status -eq 1 ] && [ ! -f "$work/fresh/called" ] && [ ! -f "$work/fresh/build/stb_ds.found" ] &&
        grep -q 'sudo apt-get install -y .*libstb-dev' "$work/said"
}
check root_installs_what_is_missing root_installs
check other_users_read_the_command others_read_the_command

finish
