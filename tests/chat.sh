#!/bin/sh
# chat.sh - build/chat, in a pipe, with two tiny models that chat_model.c makes. Reports in TAP.
work=build/chat-test
. "$(dirname "$0")/check.sh"
logs="$work/out $work/err"

# chat LINES ARGUMENT... - a chat about these lines; the exit status goes to $status, output to $work/out and $work/err
chat() {
    lines=$1
    shift
    printf "$lines" | build/chat "$@" >$work/out 2>$work/err
    status=$?
}

# says OUTPUT LINES ARGUMENT...
says() {
    printf "$1" >$work/want
    shift
    chat "$@"
    [ $status -eq 0 ] && cmp $work/out $work/want
}

tells() { tr -d '\n' <$work/err | grep -q -e "$1"; }

is_refused() { # WORD ARGUMENT... - exit status 1 and one sentence with the word
    word=$1
    shift
    chat 'hello\n' "$@"
    [ $status -eq 1 ] && [ ! -s $work/out ] && [ "$(wc -l <$work/err)" -eq 1 ] && tells "$word"
}

makes_them() { ${CC:-cc} -O0 -I. tests/chat_model.c build/ppo.o -o $work/make -lm && $work/make $work; }
check models_are_made makes_them
talker=$work/chat writer=$work/text

check it_answers_what_it_has_learned says 'Grüß dich!\nTschüß.\n' 'hello\nbye\n' $talker --greedy
asks() { [ "$(cat $work/err)" = "> > > " ]; }
check only_answers_go_to_stdout asks
check settings_are_read_in_three_forms says 'Gr\n' 'hello\n' --form chatml --max-new-tokens=2 $talker greedy=yes
check what_is_cut_off_is_told tells 'cut off: see --max-new-tokens'
fills() { chat 'Once\n' $writer --greedy --context 12 && [ $status -eq 0 ] && tells 'cut off: the context is full'; }
check by_the_context_too fills
check half_a_character_is_not_shown says 'Gr\n' 'hello\n' $talker --greedy --max-new-tokens 3
check a_whole_one_is says 'Grü\n' 'hello\n' $talker --greedy --max-new-tokens 4
check lines_may_be_empty_or_have_no_end says 'Tschüß.\n' '\n\nbye' $talker --greedy
listens() { chat 'hello\n' $talker --greedy --system Hm. --max-new-tokens 9 && [ $status -eq 0 ] && [ -s $work/out ] && ! cmp $work/out $work/want; }
check the_system_may_speak listens
check a_byte_0_is_a_space chat 'hel\0lo\n' $talker --greedy --max-new-tokens 9
mv $work/out $work/zero
spaced() { chat 'hel lo\n' $talker --greedy --max-new-tokens 9 && [ -s $work/out ] && cmp $work/zero $work/out; }
check as_if_it_had_been_one spaced
many=$(printf 'bye\\n%.0s' 1 2 3 4 5 6 7 8 9 10 11 12)
goes_on() { chat "$many" $talker --greedy --context 150 && [ $status -eq 0 ] && [ "$(wc -l <$work/out)" -eq 12 ] && tells 'oldest turn is forgotten'; }
check the_oldest_turns_are_forgotten goes_on
long=$(printf '%05000d' 7)
check a_line_that_is_too_long_is_told says 'Tschüß.\n' "$long\nbye\n" $talker --greedy
check which_is_said_so tells 'too long for the context'

ended_in() { printf '{"eos_token_id": [%s]}' $1 >$talker/generation_config.json; }
ended_in 7,33
check the_folder_says_what_ends_an_answer says 'Grüß dich!\n' 'hello\n' $talker --greedy
ended_in 257,32
check any_of_its_tokens_ends_one says 'Grüß \n' 'hello\n' $talker --greedy
rm $talker/generation_config.json

seeds() {
    chat 'Once\n' $writer --max-new-tokens 30 && mv $work/out $work/first && chat 'Once\n' $writer --max-new-tokens 30 &&
        cmp $work/out $work/first && chat 'Once\n' $writer --max-new-tokens 30 --seed 2 && ! cmp -s $work/out $work/first
}
check a_seed_gives_an_answer seeds
continues() { [ $status -eq 0 ] && tells 'cut off'; }
check a_model_without_a_chat_continues_a_text continues
is_utf8() { iconv -f UTF-8 -t UTF-8 $work/out >$work/check.utf8; }
check what_it_writes_is_utf8 is_utf8

wait_for() { # COMMAND... - until it succeeds, for ten seconds
    for try in $(seq 500); do
        "$@" && return 0
        sleep 0.02
    done
    return 1
}
interrupt() { # SIGINT in an answer that has no end, and the chat goes on
    mkfifo $work/in
    build/chat $writer --max-new-tokens 0 --context 1000000 <$work/in >$work/out 2>$work/err &
    pid=$!
    exec 3>$work/in
    echo hello >&3
    wait_for test -s $work/out && kill -INT $pid && wait_for grep -q '> > ' $work/err
    ended=$?
    exec 3>&-
    [ $ended -eq 0 ] || kill $pid
    wait $pid
}
check an_interrupt_ends_the_answer_alone interrupt

check refuses_no_folder            is_refused folder --greedy
check refuses_two_folders          is_refused 'two folders' $talker $writer
check refuses_a_missing_folder     is_refused nowhere $work/nowhere
check refuses_an_unknown_setting   is_refused warmth $talker --warmth 2
check refuses_a_value_out_of_range is_refused temperature $talker --temperature 0
check refuses_a_missing_value      is_refused 'missing after --system' $talker --system --max-new-tokens 3
check refuses_to_set_what_ends     is_refused eos $talker --eos 3
check refuses_a_form_of_other_tokens is_refused 'no token' $talker --form llama3
check at_its_start eval '! tells "> "'
build/chat --help >$work/out
helps() { grep -q -e '--top-p .*\[1\]' $work/out && grep -q -e '|zephyr|' $work/out && ! grep -q '.\{99\}' $work/out; }
check help_lists_the_settings helps
forms_agree() { # the list of the programs, and the table of the library: in one order
    rows=$(sed -n '/ppo__chat_rows\[/,/^};/s/^    {"\([a-z0-9.]*\)",.*/\1/p' examples/companions/ppo_chat.h | paste -sd'|' -)
    list=$(sed -n '/define CHAT_FORMS/,/^$/p' examples/lm_options.h | grep -o '"[^"]*"' | tr -d '"\n')
    [ "$rows" ] && [ "$rows" = "$list" ]
}
check forms_have_the_order_of_the_library forms_agree
is_not_printed() { ! build/chat --help >/dev/full; }
[ -e /dev/full ] && check help_that_cannot_be_printed_is_an_error is_not_printed
finish
