#!/bin/sh
# export.sh - policies as C headers: they compile everywhere, need nothing, and answer as ppo_act() does.
# Reports in TAP. CC names the compiler of the library; the headers are compiled with every one that is there.
work=build/export
. "$(dirname "$0")/check.sh"

strict="-Wall -Wextra -Wpedantic -Wshadow -Werror"
have() { for program; do command -v $program >/dev/null 2>&1 || return 1; done; }
found() { for compiler; do command -v $compiler 2>$work/check.log; done; }
c_compilers=$(found gcc clang) cpp_compilers=$(found g++ clang++)
[ -n "$c_compilers" ] || c_compilers=$(found ${CC:-cc})

# EXPORT: tests/export.c as a program; then the answers alone are looked at, by one compiler (make mutants).
writes_them() {
    [ -z "${EXPORT-}" ] || { "$EXPORT" $work >$work/names; return; }
    ${CC:-cc} -O0 -DPPO_NO_LANGUAGE -DPPO_NO_REPORTS -I. tests/export.c -o $work/export -lm && $work/export $work >$work/names && [ "$(wc -l <$work/names)" -gt 15 ]
}
check agents_of_every_kind_are_written writes_them

# All policies in one file: the answers of each are compared.
together() {
    for policy in $(cat $work/names); do
        tr ' ' '\n' <$work/$policy.flags | sed -e 's/^-D/#define /' -e 's/=/ /' | grep .
        echo '#include "../../tests/export_compare.c"'
    done
    printf '#ifndef FREESTANDING\nint main(void) {\n    int wrong = 0;\n'
    for policy in $(cat $work/names); do
        echo "    FILE *of_$policy = fopen(\"$work/$policy.txt\", \"r\");"
        echo "    wrong |= compare_$policy(of_$policy);"
        echo "    if (of_$policy) fclose(of_$policy);"
    done
    printf '    return wrong;\n}\n#endif\n'
}
together >$work/together.c

# answers COMPILER OPTION... - compares each with what ppo_act() said
answers() { "$@" -I$work $work/together.c -o $work/compare -lm && $work/compare; }
if [ -n "${EXPORT-}" ]; then
    check they_answer_as_ppo_act_does answers ${CC:-cc} -O0 -std=c99
    finish
    exit
fi

# as_library COMPILER OPTION... - compiles the part of the policies that firmware would have
as_library() { "$@" $strict -DFREESTANDING -I$work -c $work/together.c -o $work/together-${1##*/}.o; }

# each_as_library COMPILER OPTION... - the same, each policy by itself
each_as_library() {
    for policy in $(cat $work/names); do
        "$@" $strict -DFREESTANDING $(cat $work/$policy.flags) -I$work -c tests/export_compare.c -o $work/$policy.o ||
            { echo "(this was $policy)"; return 1; }
    done
}
for compiler in $cpp_compilers; do
    check "they_compile_as_cpp (${compiler##*/})" as_library $compiler -x c++ -std=c++11 -O0
done
by=each_as_library optimized=-O2 # the first compiler
for compiler in $c_compilers; do
    check "they_compile_as_strict_c99_and_compute_with_float_alone (${compiler##*/})" $by $compiler -std=c99 $optimized \
        -ffreestanding -nostdlib -fno-stack-protector -Wconversion -Wdouble-promotion
    by=as_library optimized=-O0
done

# What a compiler may ask of any surroundings, like memcpy(), is all that is asked for.
needs_nothing() {
    for object in $work/*.o; do
        nm -u $object | grep -v -e ' mem[a-z]*$' -e '_GLOBAL_OFFSET_TABLE_' -e ':$' && return 1
    done
    ! grep -n 'include' $work/*.h | grep -v '#include <stdint.h>' # which every compiler has
}
check they_need_no_other_function needs_nothing

for compiler in $c_compilers; do
    check "they_answer_as_ppo_act_does (${compiler##*/})" answers $compiler -O2 -std=c99
    grep 'off by' $work/check.log | sort -t' ' -k6 -g | tail -n 1 | sed 's/^/# worst: /'
done
check they_answer_so_with_sanitizers answers ${CC:-cc} -O0 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all

two_in_one_program() {
    cat >$work/two.c <<END
#include "discrete.h"
#include "recurrent_box.h"
#include "discrete.h"
int main(void) {
    float obs[discrete_OBS] = {0}, state[recurrent_box_STATE] = {0}, action[2];
    recurrent_box_predict(obs, state, action);
    return discrete_predict(obs) < 0 || action[0] > 1;
}
END
    for compiler in $c_compilers; do
        $compiler -std=c99 $strict -I$work $work/two.c -o $work/two && $work/two || return 1
    done
}
strange_name() {
    for compiler in $c_compilers; do
        echo '#include "strange.h"' | $compiler -std=c99 $strict -Wno-unused-function -I$work -x c -c - -o $work/strange.o || return 1
    done
}
check a_strange_name_of_the_environment_does_no_harm strange_name
check two_policies_go_into_one_program two_in_one_program

# A policy of 64-64 with weights of 8 bits: the size of its code and numbers, and its answers.
# Rounded to the nearest, its weights would change 1 % of its greedy actions.
eight_bits() {
    library=build/ppo.o
    [ -f $library ] || library=build/control.o
    mkdir -p $work/int8
    build/train --quiet --env CartPole-v1 --seed 16 --total-steps 20000 --export $work/int8/exact.h --export-int8 $work/int8/int8.h || return 1
    sed -i.old 's/policy_/int8_/g' $work/int8/int8.h
    echo '#include "int8.h"
int act(const float *obs);
int act(const float *obs) { return int8_predict(obs); }' >$work/int8/act.c
    for compiler in $c_compilers; do
        $compiler -std=c99 $strict -Os -ffreestanding -c $work/int8/act.c -o $work/int8/act.o || return 1
        bytes=$(size -A $work/int8/act.o | awk '/text|data/ { n += $2 } END { print n }')
        echo "$bytes bytes ($compiler)"
        [ "$bytes" -gt 4096 ] && [ "$bytes" -lt 8192 ] || return 1
    done
    ${CC:-cc} -O2 -DPPO_NO_IMPLEMENTATION -I. -Iexamples -I$work/int8 tests/export_int8.c $library -o $work/int8/play -lm && $work/int8/play
}
check eight_bits_choose_the_same_in_8_kb eight_bits
sed 's/^/# /' $work/check.log
# On chips: the same actions as here. A Cortex-M3 without floating point, emulated, needs at least ten times fewer
# instructions for an action by 8 bits than by floats; an ATmega328P has 2 KB for all variables.
chip=$work/chip
mkdir -p $chip/policy $chip/int8
cp $work/int8/exact.h $chip/policy/policy.h && cp $work/int8/int8.h.old $chip/int8/policy.h
here() { ${CC:-cc} -O2 -I$chip/$1 tests/export_chip.c -o $chip/here && $chip/here; }
on_cortex_m3() {
    arm-none-eabi-gcc -mcpu=cortex-m3 -mthumb -Os -ffreestanding -nostartfiles -nostdlib -I$chip/$1 tests/export_chip.c \
        -Wl,--section-start=.vectors=0,-Ttext=0x100,-Tdata=0x20000000,-e,start -o $chip/m3.elf -lgcc &&
        timeout 60 qemu-system-arm -M mps2-an385 -icount shift=0 -semihosting -nographic -monitor none -serial none \
            -kernel $chip/m3.elf 2>&1
}
fewer_instructions() {
    here=$(here int8) && exact=$(on_cortex_m3 policy) && small=$(on_cortex_m3 int8) || return 1
    echo "$here here; a hash and instructions for an action: floats $exact, 8 bits $small"
    [ "${small% *}" = "$here" ] && [ "$(here policy)" = "${exact% *}" ] && [ $((10 * ${small#* })) -lt "${exact#* }" ]
}
on_avr() {
    avr-gcc -mmcu=atmega328p -Os -I$chip/int8 tests/export_chip.c -o $chip/avr.elf && avr-size $chip/avr.elf &&
        timeout 60 simavr -m atmega328p -f 16000000 $chip/avr.elf >$chip/avr.log 2>&1 && cat $chip/avr.log &&
        grep -q "$(here int8) " $chip/avr.log
}
if have arm-none-eabi-gcc qemu-system-arm; then
    check a_cortex_m3_needs_a_tenth_of_the_instructions_with_8_bits fewer_instructions
    sed 's/^/# /' $work/check.log
else
    skip a_cortex_m3_needs_a_tenth_of_the_instructions_with_8_bits "no arm-none-eabi-gcc, or no qemu-system-arm"
fi
if have avr-gcc simavr; then check an_atmega328p_has_it_in_flash_and_chooses_the_same on_avr
else skip an_atmega328p_has_it_in_flash_and_chooses_the_same "no avr-gcc, or no simavr"; fi

check what_c_has_no_name_or_number_for_is_refused $work/export $work refusals

finish
