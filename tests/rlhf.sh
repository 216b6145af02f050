#!/bin/sh
# rlhf.sh - build/rlhf: its stages, its files, and what it refuses. Reports in TAP.
work=build/rlhf-test
. "$(dirname "$0")/check.sh"
logs="$work/out $work/err"

# rlhf ARGUMENT... - the exit status goes to $status, what it prints to $work/out and $work/err
rlhf() {
    build/rlhf "$@" >$work/out 2>$work/err
    status=$?
}

is_refused() { # WORD ARGUMENT... - exit status 1, nothing on stdout but the stage's name, one sentence with the word
    word=$1
    shift
    rlhf --dir $work/none "$@"
    [ $status -eq 1 ] && [ "$(wc -l <$work/err)" -eq 1 ] && [ "$(wc -l <$work/out)" -le 1 ] && grep -q -e "$word" $work/err
}

# figure NAME - that figure of the line of JSON
figure() { sed -n "s/.*\"$1\":\(-*[0-9.]*\).*/\1/p" $work/out; }
above() { awk "BEGIN { exit !($1 > $2) }"; }

one_line() { [ $status -eq 0 ] && [ "$(wc -l <$work/out)" -eq 1 ] && [ ! -s $work/err ] && is_json; }
is_json() { grep -q '^{"true_reward":-*[0-9.]*,"proxy_reward":.*,"kl":.*,"entropy":.*,"length":.*,"tokens_per_second":[0-9]*,"seconds":[0-9.]*}$' $work/out; }

rlhf --dir $work/models --json sft
check sft_prints_one_line_of_json one_line
sft=$(figure true_reward)
rlhf --dir $work/models --json --fit epochs=1 reward
check a_stage_alone_reads_the_files_of_the_others one_line
rlhf --dir $work/models --json --iterations 2 ppo
few=$(figure true_reward)
rlhf --dir $work/models --json --iterations 2 --threads 2 ppo
check two_threads_give_the_same_policy [ "$(figure true_reward)" = "$few" ]
rlhf --dir $work/models --json bon
bon=$(figure true_reward)
check best_of_n_raises_the_true_reward_by_1 above "$bon" "$sft + 1"
# What tests/rlhf_seeds.sh shows for 50 seeds and all kernels, with 60 iterations
rlhf --dir $work/models --json --iterations 40 ppo
check ppo_prints_one_line_of_json one_line
ppo=$(figure true_reward)
check ppo_raises_the_true_reward_above_best_of_16s above "$ppo" "$bon"
check ppo_stays_near_the_first_model above 2.5 "$(figure kl)"
check ppo_does_not_run_away_on_the_way above "3 * $(figure kl)" "$(figure most_kl)"
check ppo_wins_against_the_first_model above "$(figure win_rate)" 0.8
rlhf --dir $work/models --json sample
check a_saved_policy_is_worth_the_same [ "$(figure true_reward)" = "$ppo" ]
rlhf --dir $work/models --json --fit "epochs=1 steps=50" dpo
check dpo_raises_the_true_reward above "$(figure true_reward)" "$sft"
rlhf --dir $work/models --json rest
check filtered_fine_tuning_raises_the_true_reward above "$(figure true_reward)" "$sft"
rlhf --dir $work/models --quiet sample
lines() { [ $status -eq 0 ] && [ "$(grep -c ' \.$' $work/out)" -ge 4 ]; }
check samples_are_sentences lines
check files_are_those_of_the_stages [ "$(ls $work/models/sentences | tr '\n' ' ')" = "dpo.safetensors ppo.safetensors rest.safetensors reward.safetensors sft.safetensors " ]

rlhf --dir $work/models --json --iterations 2 --learning-rate 0 ppo
check without_a_learning_rate_ppo_changes_little above 0.01 "$(figure kl) * $(figure kl)"
rlhf --dir $work/models --json --kernels vector16 sample
check other_kernels_sample_as_well above "$(figure true_reward)" "$sft - 0.2"
build/rlhf --dir $work/models --quiet sample nonsense >$work/out 2>&1
in_order() { tail -n 1 $work/out | grep -q nonsense; }
check errors_come_after_what_was_printed in_order

rlhf --dir $work/models --json --seed 2 --fit "epochs=1 steps=1" sft
rlhf --dir $work/models --json ppo
mixes() { [ $status -eq 1 ] && grep -q "reward.safetensors comes from another sft model" $work/err; }
check refuses_to_mix_models_of_different_sft mixes
check refuses_an_unknown_stage    is_refused nonsense nonsense
check refuses_an_unknown_flag     is_refused --what --what 1 sft
check refuses_an_unknown_task     is_refused poems --task poems sft
check refuses_no_stage            is_refused stage --quiet
check refuses_a_missing_value     is_refused --seed sft --seed
check refuses_a_number_that_is_none is_refused kl-coef --kl-coef much sft
check refuses_zero_iterations     is_refused iterations --iterations 0 ppo
check refuses_a_setting_out_of_range is_refused top_k --top-k -1 ppo
check refuses_kernels_that_are_not_there is_refused kernels --kernels abacus sft
check refuses_a_setting_of_fine_tuning is_refused epochs --fit epochs=0 sft
check refuses_an_unknown_preset   is_refused grpo --preset nonsense ppo
check refuses_to_set_the_token_that_ends is_refused eos --eos 3 ppo
check refuses_a_missing_model     is_refused none/sentences/sft.safetensors ppo
check refuses_a_folder_that_is_a_file is_refused rlhf.sh --dir tests/rlhf.sh --quiet --fit "epochs=1 steps=1" sft
rlhf --dir $work/models --help
helps() { [ $status -eq 0 ] && grep -q -e '--kl-coef .*\[0.35\]' $work/out && grep -q -e '--kernels' $work/out; }
check help_lists_every_setting_with_its_default helps
is_not_printed() { ! build/rlhf --dir $work/models "$@" >/dev/full 2>$work/err; }
[ -e /dev/full ] && {
    check help_that_cannot_be_printed_is_an_error is_not_printed --help
    check so_are_results is_not_printed --json --seed 3 --fit "epochs=1 steps=1" sft
    check it_is_told grep -q '^rlhf: the results could not be written$' $work/err
}

# The laboratory of over-optimization: its report of two seeds whose a is 0.4 and 0.6, and b 0.3
for seed in 9001 9002; do
    awk "BEGIN { for (d = 0.5; d < 5; d += 0.5)
                     print \"PPO, width 8;\" d \";\" d * (0.4 + 0.2 * ($seed - 9001) - 0.3 * log(d)) \";\" d }" >build/overopt-$seed.csv
done
build/overopt report 9001 9002 >$work/out 2>$work/err
fits() { grep -q '^PPO, width 8  *0.50 +- 1.27  *0.30 +- 0.00 ' $work/out && [ -s build/overopt-ppo.svg ]; }
check overopt_fits_each_seed_and_tells_the_interval fits
refuses() { ! build/overopt "$@" >$work/out 2>$work/err && [ "$(wc -l <$work/err)" -eq 1 ]; }
check overopt_refuses_a_seed_without_a_file refuses report 9001 9003
check overopt_refuses_what_is_no_seed       refuses trace 1x
check overopt_refuses_an_unknown_word       refuses show 1
rm -f build/overopt-900[12].csv
# The lessons with verifiable rewards and with tools, with less of everything
lesson() { # NAME EXPRESSION - which sed has for its sizes
    sed -e '/define PPO_IMPLEMENTATION/d' -e "$2" examples/$1.c >$work/$1.c
    ${CC:-cc} -O0 -I. -Iexamples $work/$1.c build/ppo.o -o $work/$1 -lm && $work/$1 >$work/out 2>$work/err && [ ! -s $work/err ] &&
        [ "$(grep -c -e "$3" $work/out)" -eq 2 ]
}
check a_lesson_adds_numbers lesson arithmetic 's/ LESSONS = [0-9]*/ LESSONS = 1/;s/iterations = [0-9]*/iterations = 1/' \
    '^[a-z]*: .* of the held-out answers are right'
check a_lesson_uses_tools lesson tools 's/DEMONSTRATIONS = [0-9]*/DEMONSTRATIONS = 200/;s/epochs = [0-9]*/epochs = 1/;s/iterations=[0-9]*/iterations=1/' '^right: '
finish
