#!/bin/sh
# cli.sh - the command line of build/train: refusals, output, files; and that a second make has nothing to do.
# Reports in TAP.
work=build/cli
. "$(dirname "$0")/check.sh"
logs="$work/last $work/out $work/err"

train() { # leaves $work/out, $work/err and $status
    echo "the last run: build/train $*" >$work/last
    build/train "$@" >$work/out 2>$work/err
    status=$?
}

# Refused: exit status 1, nothing on stdout, one line on stderr that holds the word.
is_refused() {
    word=$1
    shift
    train "$@"
    [ $status -eq 1 ] && [ ! -s $work/out ] && [ "$(wc -l <$work/err)" -eq 1 ] && grep -q -e "$word" $work/err
}

check refuses_an_unknown_flag                is_refused no-such-flag --no-such-flag 1
check refuses_a_flag_with_one_dash           is_refused -seed -seed 1
check refuses_a_bare_word                    is_refused fast fast
check refuses_a_missing_value_at_the_end     is_refused seed --seed
check refuses_a_missing_value_before_a_flag  is_refused seed --seed --json
check refuses_an_empty_value                 is_refused seed --seed=
check refuses_a_value_for_a_switch           is_refused json --json=1
check refuses_a_word_for_a_number            is_refused abc --steps abc
check refuses_a_period_without_a_checkpoint  is_refused save-every --steps 512 --save-every 5
check refuses_a_number_with_a_tail           is_refused 1000x --steps 1000x
check refuses_a_fraction_for_an_integer      is_refused num --num-envs 2.5
check refuses_nan                            is_refused learning --learning-rate nan
check refuses_infinity                       is_refused learning --learning-rate inf
check refuses_a_value_above_its_range        is_refused gamma --gamma 1.5
check refuses_a_value_below_its_range        is_refused num --num-envs 0
check refuses_no_steps                       is_refused total --steps 0
check refuses_negative_threads               is_refused threads --threads -1
check refuses_a_negative_seed                is_refused seed --seed -1
check refuses_a_seed_beyond_64_bits          is_refused seed --seed 18446744073709551616
check refuses_an_int_beyond_32_bits          is_refused num --num-envs 4294967297
check refuses_an_unknown_choice              is_refused nonsense --objective nonsense
check refuses_an_empty_hidden_layer          is_refused hidden --hidden 64,0
check refuses_words_for_hidden_layers        is_refused hidden --hidden 64,x
check refuses_a_minibatch_above_the_rollout  is_refused minibatch --minibatch-size 4096
check refuses_an_unknown_environment         is_refused NoSuchEnv --env NoSuchEnv
check refuses_unknown_kernels                is_refused mmx --kernels mmx
check refuses_no_evaluation_episodes         is_refused eval-episodes --eval-episodes 0
check refuses_too_many_evaluation_episodes   is_refused eval-episodes --eval-episodes 99999999999999999999
check refuses_a_mistyped_flag                is_refused 'no flag --quite, see --help' --quite
check refuses_a_mistyped_setting             is_refused 'no flag --gama, see --help' --gama 0.9
check refuses_to_evaluate_what_never_learned is_refused 'no-train needs --load or --resume' --no-train

check refuses_a_setting_without_effect       is_refused 'gsde_steps is 4, but has no effect: gsde is no' --gsde-steps 4
check refuses_a_box_setting_of_choices       is_refused 'squash is yes, but has no effect' --squash yes

# --- help ---------------------------------------------------------------------------------------------------------

flags() { sed -n 's/^  --\([a-z0-9-]*\) .*/\1/p' $work/help; }

help_is_complete() { # every field of ppo_config that is not a pointer is there, and so are the flags around it
    train --help
    cp $work/out $work/help
    [ $status -eq 0 ] && [ ! -s $work/err ] || return 1
    sed -n '/^typedef struct ppo_config {/,/^} ppo_config;/p' ppo.h | sed '1d;$d' | tr '\n' ' ' | sed 's,/\*[^*]*\*/,,g' |
        tr ';' '\n' | grep -v -e callback -e schedule_fn -e schedule_user |
        sed -e 's/\[.*\]//' -e 's/^ *[a-z0-9_]* *//' | tr -d ' ' | tr ',' '\n' | tr _ - |
        grep -v -e '^hidden-layers$' -e '^conv-layers$' -e '^3$' >$work/fields
    [ "$(wc -l <$work/fields)" -gt 30 ] || return 1
    for flag in $(cat $work/fields) env eval-episodes kernels json quiet steps; do
        flags | grep -qx -e "$flag" || { echo "no --$flag in the help"; return 1; }
    done
}
check help_lists_every_field_of_ppo_config help_is_complete

help_shows_defaults() {
    grep -q -e '--gamma .*\[0.99; 0 to 1\]' $work/help && grep -q -e '--hidden .*\[64,64;' $work/help &&
        grep -q -e '--objective .*\[clip; .*kl' $work/help
}
check help_shows_defaults_and_ranges help_shows_defaults

no_function() { grep -q -e '--clip-schedule .*; constant|linear|cosine\]' $work/help && ! grep -q custom $work/help; }
check help_offers_no_schedule_that_needs_a_function no_function

help_is_aligned() { ! grep '^  --' $work/help | grep -v '^  --[a-z].\{23\} [^ ]'; }
check help_has_its_descriptions_in_one_column help_is_aligned

help_comes_first() {
    for flag in --help -h; do
        train --resume $work/nowhere --no-such-flag $flag && [ $status -eq 0 ] && cmp $work/out $work/help || return 1
    done
}
check help_comes_before_every_complaint help_comes_first

# --- runs ---------------------------------------------------------------------------------------------------------

short="--steps 4096 --eval-episodes 3"
json='^{"env":"CartPole-v1","seed":[0-9]+,"steps":4096,"seconds":[0-9]+\.[0-9]+,"steps_per_second":[0-9]+,'
json=$json'"eval_mean_return":[0-9]+\.[0-9]+,"eval_std_return":[0-9]+\.[0-9]+,"eval_episodes":3,'
json=$json'"eval_sampled_mean_return":[0-9]+\.[0-9]+,"eval_sampled_std_return":[0-9]+\.[0-9]+,"warnings":[{][}][}]$'
text='^eval: mean return [0-9]+\.[0-9] \+- [0-9]+\.[0-9] over 3 episodes, 4096 steps in [0-9]+\.[0-9]{2} s; '
text=$text'sampled [0-9]+\.[0-9] \+- [0-9]+\.[0-9]$'

result() { sed -e 's/"seconds":[^,]*,//' -e 's/"steps_per_second":[^,]*,//' $work/out; } # what is the same in every run

json_is_alone() {
    train $short --json
    result >$work/result
    [ $status -eq 0 ] && [ "$(wc -l <$work/out)" -eq 1 ] && grep -Eq "$json" $work/out
}
check json_is_one_line_of_the_promised_form json_is_alone

text_is_last() { train $short && [ $status -eq 0 ] && tail -n 1 $work/out | grep -Eq "$text"; }
check the_last_line_is_the_evaluation text_is_last

curve_is_drawn() { [ "$(wc -l <$work/out)" -gt 10 ] && grep -q 'mean return' $work/out && [ -s $work/err ]; }
check progress_and_curve_are_shown curve_is_drawn

quiet_is_quiet() { train $short --quiet && [ "$(wc -l <$work/out)" -eq 1 ] && [ ! -s $work/err ]; }
check quiet_prints_the_evaluation_alone quiet_is_quiet

same_result() { train --json --quiet "$@" && [ $status -eq 0 ] && result | diff - $work/result; }
other_result() { train --json --quiet "$@" && [ $status -eq 0 ] && ! result | diff - $work/result; }
check equals_sign_works                   same_result --steps=4096 --eval-episodes=3
check underscores_work                    same_result --total_steps 4096 --eval-episodes 3
check a_rerun_repeats_itself              same_result $short
check threads_change_nothing              same_result $short --threads 2
check the_last_of_two_values_wins         same_result --seed 7 $short --seed 1
useless_row() { train --env Pendulum-v1 --gsde no --steps 4096 --eval-episodes 1 --quiet --json && [ $status -eq 0 ]; }
check settings_of_a_row_that_a_flag_made_useless_are_dropped useless_row
check the_seed_matters                    other_result $short --seed 2
check an_odd_minibatch_size_works         other_result $short --minibatch-size 100

defaults_given_back() { # each flag with its default from the help: the same run
    set --
    for flag in $(cat $work/fields); do
        set -- "$@" "--$flag=$(sed -n "s/^  --$flag .*\[\([^;]*\); [^;]*\]$/\1/p" $work/help)"
    done
    same_result "$@" $short
}
check every_default_of_the_help_can_be_given defaults_given_back

# As the help has it, "18446744073709551615" is the largest seed.
largest_seed() { train $short --json --quiet --seed 18446744073709551615 && grep -q '"seed":18446744073709551615,' $work/out; }
check seeds_have_64_bits largest_seed

no_nan() { # no episode ends within 16 steps of 4 environments
    train --steps 16 --rollout-steps 4 --minibatch-size 16 --eval-episodes 1 --json
    [ $status -eq 0 ] && ! grep -iq nan $work/out && grep -q '"eval_mean_return":[0-9]' $work/out
}
check no_nan_before_the_first_episode no_nan

has_lines() { # FILE N - waits for them, ten seconds at most
    for n in $(seq 200); do
        [ -f "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ] && return
        sleep 0.05
    done
}

interrupt() { # SIGINT in an endless run
    echo 'the last run: build/train --steps 1000000000 (interrupted)' >$work/last
    build/train --steps 1000000000 --csv $work/endless.csv >$work/out 2>$work/err &
    pid=$!
    has_lines $work/endless.csv 3
    kill -INT $pid
    wait $pid
    [ $? -eq 130 ] && tail -n 1 $work/out | grep -q '^eval: mean return .* over 20 episodes, [0-9]* steps in '
}
check an_interrupt_ends_the_training_and_evaluates interrupt

interrupt_evaluation() { # SIGINT during a million episodes
    echo 'the last run: build/train --steps 512 --eval-episodes 1000000 (interrupted)' >$work/last
    build/train --steps 512 --eval-episodes 1000000 --quiet --save $work/brief >$work/out 2>$work/err &
    pid=$!
    has_lines $work/brief 0
    sleep 0.3
    kill -INT $pid
    wait $pid
    [ $? -eq 130 ] && [ ! -s $work/out ]
}
check an_interrupt_ends_the_evaluation interrupt_evaluation

# --- files ---

saved=$work/a.safetensors
save_and_resume() { # a run, and a checkpoint at its end
    train --steps 8192 --save $work/whole.safetensors --export $work/whole.h --quiet --json && [ $status -eq 0 ] &&
        result >$work/whole &&
        train --steps 8192 --save $saved --save-every 2 --quiet --json --csv $work/a.csv && cp $saved $work/done.safetensors &&
        train --resume $work/done.safetensors --export $work/again.h --quiet --json && [ $status -eq 0 ] &&
        result | diff - $work/whole && cmp $work/whole.h $work/again.h
}
check a_finished_checkpoint_is_the_policy save_and_resume

interrupted_run() { # SIGINT, then the command that it prints: the same weights, and a complete log
    echo 'the last run: build/train --steps 150000 (interrupted)' >$work/last
    set -- --save $work/i.safetensors --csv "$work/i i.csv" --tensorboard "$work/i tb" --export $work/i.h
    build/train --steps 150000 "$@" --quiet --json >$work/out 2>$work/err &
    pid=$!
    has_lines "$work/i i.csv" 3
    kill -INT $pid
    wait $pid
    [ $? -eq 130 ] && grep -q "^to continue: build/train --resume \"$work/i.safetensors\" --save " $work/err &&
        eval "$(sed -n 's/^to continue: build.//p' $work/err) --quiet --json" && [ $status -eq 0 ] &&
        grep -q '"steps":150000,' $work/out && [ "$(ls "$work/i tb" | wc -l)" -eq 2 ] &&
        train --steps 150000 --quiet --json --export $work/j.h --csv $work/j.csv && cmp $work/i.h $work/j.h &&
        [ "$(wc -l <"$work/i i.csv")" -eq "$(wc -l <$work/j.csv)" ]
}
check an_interrupted_run_continues_to_the_same_weights interrupted_run

nothing_to_do() { # printed once, without a curve
    train --resume $work/done.safetensors && [ $status -eq 0 ] && [ "$(wc -l <$work/out)" -eq 1 ] &&
        [ "$(cat $work/err)" = 'all 8192 steps are done: give a larger --total-steps to continue' ] &&
        train --resume $work/done.safetensors --quiet && [ ! -s $work/err ] &&
        train --resume $work/done.safetensors --no-train && [ ! -s $work/err ] && [ "$(wc -l <$work/out)" -eq 1 ]
}
check a_finished_run_says_so nothing_to_do

# --- evaluation during the training ---

value() { sed -n "s/.*\"$1\":\([-0-9.]*\).*/\1/p" $work/out; }

keeps_the_best() { # the file is the policy that the report calls the best, and evaluations change nothing
    best=$work/best.safetensors
    train --steps 16384 --learning-rate 0.02 --eval-every 4096 --save-best $best --export $work/judged.h --json && [ $status -eq 0 ] &&
        mean=$(value best_mean_return) && [ "$(grep -c '^eval at [0-9]* steps: ' $work/err)" -eq 5 ] &&
        [ "$(sed -n 's/^eval at .* return \([-0-9.]*\) .*/\1/p' $work/err | sort -g | tail -n 1)" = "$mean" ] &&
        train --load $best --no-train --json && [ "$(value eval_mean_return)" = "$mean" ] &&
        train --steps 16384 --learning-rate 0.02 --export $work/alone.h --quiet --json && cmp $work/judged.h $work/alone.h
}
check save_best_keeps_the_best_policy_and_changes_no_bit keeps_the_best

reaches_the_target() {
    train --steps 100000 --target-return 150 --eval-every 2048 --quiet --json && [ $status -eq 0 ] &&
        [ "$(value steps)" -lt 60000 ] && [ "$(value eval_mean_return | cut -d. -f1)" -ge 150 ] &&
        [ "$(value best_steps)" -eq "$(value steps)" ]
}
check target_return_ends_the_training reaches_the_target

# --- many seeds, many settings ---

several_seeds() { # the same returns as one by one, and their mean
    train --seeds 3 --seed 5 --steps 4096 --quiet --json && [ $status -eq 0 ] && cp $work/out $work/several && one= &&
        for seed in 5 6 7; do train --seed $seed --steps 4096 --quiet --json && one="$one,$(value eval_mean_return)"; done &&
        grep -qF "\"returns\":[${one#,}]" $work/several && cp $work/several $work/out &&
        echo "$one,$(value iqm)" | awk -F, '{ d = ($2 + $3 + $4) / 3 - $5; exit !(d < 0.1 && d > -0.1) }'
}
check seeds_reach_what_each_reaches_alone several_seeds

searches() { # and goes on where lines are missing, as after an interruption
    rm -rf $work/study
    study="--trials 4 --rollout-steps 64 --study $work/study --quiet --steps"
    train $study 3600 && [ $status -eq 0 ] && [ "$(grep -c '^round' $work/out)" -eq 3 ] && grep -q '^the best: .* --env CartPole-v1' $work/out &&
        { [ "$(grep -c 'ten fresh seeds' $work/out)" -eq 2 ] || grep -q '^the first settings, which are the best, .*ten fresh seeds' $work/out; } &&
        cp $work/out $work/searched && cp $work/study/study.txt $work/whole &&
        { grep -v '^2 . [35]' $work/whole && printf '2 0 3 1'; } >$work/study/study.txt && train $study 3600 && cmp $work/out $work/searched &&
        [ "$(grep -vx '2 0 3 1' $work/study/study.txt | sort)" = "$(sort $work/whole)" ] &&
        is_refused 'another study' $study 3700 && is_refused 'another study' $study 3600 --gamma 0.9 && is_refused 'nine rollouts' $study 1000
}
check trials_find_settings_and_continue searches

differ() { # of five trials with this seed two would be the same, if none looked at those before
    train --trials 5 --seed 3 --rollout-steps 64 --steps 2304 --study $work/five --quiet && [ $status -eq 0 ] &&
        ! awk '$1 == 0 && NF == 4 { x[$2] = x[$2] " " $4 } END { for (t in x) print x[t] }' $work/five/study.txt | sort | uniq -d | grep .
}
check no_trial_repeats_another differ

alone() { # a search holds its folder until it ends
    study="--trials 4 --rollout-steps 64 --study $work/busy --quiet --steps 20000"
    build/train $study >/dev/null 2>&1 &
    first=$!
    for n in 1 2 3 4 5 6 7 8 9 10; do [ -s $work/busy/study.txt ] && break; sleep 0.1; done
    kill -STOP $first
    is_refused 'another search is at work' $study
    refused=$?
    kill -9 $first
    wait $first 2>/dev/null
    return $refused
}
check one_search_at_a_time_has_a_folder alone

check refuses_files_of_many_seeds  is_refused seeds --seeds 3 --save $work/no
check refuses_a_study_without_trials is_refused study --study $work/no
check refuses_too_many_seeds       is_refused 'from 1 to 1000,' --seeds 2000
check refuses_evaluations_of_many_seeds is_refused '--target-return' --seeds 2 --target-return 20

best_of_both_runs() { # what was better before the run was stopped stays
    best=$work/kept-best.safetensors
    train --steps 40960 --quiet --save-best $best --eval-every 20480 --json && cp $best $work/first-best &&
        train --steps 2048 --quiet --save $work/weak.safetensors &&
        train --resume $work/weak.safetensors --steps 4096 --save-best $best --quiet --json && [ $status -eq 0 ] &&
        cmp $best $work/first-best
}
check save_best_takes_up_the_best_of_the_run_before best_of_both_runs

the_best_is_of_a_trained_policy() { # not of the untrained one, which is better than any return of -1000
    best=$work/trained-best.safetensors
    train --steps 4096 --target-return -1000 --save-best $best --eval-every 2048 --quiet --json && [ $status -eq 0 ] &&
        [ "$(value best_steps)" -eq 2048 ] && [ "$(value steps)" -eq 2048 ] &&
        train --resume $work/weak.safetensors --steps 4096 --save-best $work/first-best --quiet --json && [ $status -eq 0 ] &&
        [ -n "$(value best_mean_return)" ] && ! grep -q best_steps $work/out
}
check a_best_is_of_steps_that_are_known the_best_is_of_a_trained_policy

no_best_to_take_up() { # a damaged file, and one of another environment, stay as they are, and so does the checkpoint
    echo damaged >$work/no-best && cp $work/weak.safetensors $work/weak-kept &&
        train --env Pendulum-v1 --steps 2048 --quiet --save $work/pendulum-best || return 1
    for file in no-best pendulum-best; do
        cp $work/$file $work/as-it-was &&
            is_refused $file --resume $work/weak.safetensors --steps 4096 --save $work/weak.safetensors --save-best $work/$file --quiet &&
            cmp $work/$file $work/as-it-was && cmp $work/weak.safetensors $work/weak-kept || return 1
    done
}
check a_best_that_cannot_be_taken_up_is_an_error no_best_to_take_up

no_best_in_a_pipe() { # which is not opened: it would wait for the writer that comes late
    mkfifo $work/pipe && rm -f $work/waited || return 1
    for resume in "" "--resume $work/weak.safetensors"; do
        { sleep 20 && echo >$work/pipe && touch $work/waited; } &
        writer=$!
        is_refused 'not a plain file' $resume --steps 4096 --quiet --save-best $work/pipe && [ ! -e $work/waited ]
        refused=$?
        kill $writer
        [ $refused -eq 0 ] || return 1
    done
}
check a_best_in_a_pipe_is_refused no_best_in_a_pipe

sampled_is_sampled() { # an untrained Pendulum moves with a deviation of 1
    train --env Pendulum-v1 --steps 4096 --quiet --json && [ -n "$(value eval_sampled_mean_return)" ] &&
        [ "$(value eval_sampled_mean_return)" != "$(value eval_mean_return)" ]
}
check both_evaluations_are_reported sampled_is_sampled
evaluates_every() { train --steps 8192 --eval-every 4096 --tensorboard $work/eval-tb && grep -qa 'eval/mean_reward' $work/eval-tb/*; }
check evaluations_are_in_tensorboard evaluates_every

check refuses_a_word_for_a_return            is_refused target-return --target-return best
check refuses_no_steps_between_evaluations   is_refused eval-every --eval-every 0
check refuses_to_judge_without_training      is_refused no-train --load $saved --no-train --save-best $work/no
check refuses_a_best_that_cannot_be_written  is_refused cli.sh --steps 4096 --quiet --save-best tests/cli.sh/a

more_environments() { # a run continues with twice as many, which begin new episodes
    train --resume $work/weak.safetensors --steps 6144 --num-envs 8 --quiet --json && [ $status -eq 0 ] && grep -q '"steps":6144,' $work/out
}
check a_run_continues_with_more_environments more_environments

warm_start() { train --load $saved --steps 2048 --quiet --json && [ $status -eq 0 ] && grep -q '"steps":2048,' $work/out; }
check load_starts_from_a_policy warm_start

exports_onnx() { # by the name of the file
    train --load $saved --no-train --quiet --export $work/n.onnx && [ $status -eq 0 ] && grep -q "CartPole-v1" $work/n.onnx &&
        grep -q Gemm $work/n.onnx
}
check exports_an_onnx_model exports_onnx

only_evaluates() {
    train --load $saved --no-train --quiet --export $work/n.h && [ $status -eq 0 ] && grep -q ', 0 steps in' $work/out &&
        cmp $work/n.h $work/whole.h
}
check no_train_exports_what_was_loaded only_evaluates

no_train_writes_nothing() { # refused, and what is there stays as it is
    cp $saved $work/kept && cp $work/a.csv $work/kept.csv &&
        is_refused no-train --load $saved --no-train --save $work/kept && cmp $saved $work/kept &&
        is_refused no-train --resume $saved --no-train --csv $work/kept.csv && cmp $work/a.csv $work/kept.csv &&
        is_refused no-train --load $saved --no-train --tensorboard $work/no-tb && [ ! -e $work/no-tb ]
}
check no_train_leaves_checkpoints_and_logs_alone no_train_writes_nothing

watching() {
    train --env GridWorld-v0 --steps 2048 --quiet --save $work/grid.safetensors --eval-episodes 1 &&
        train --watch $work/grid.safetensors --eval-episodes 1 && [ $status -eq 0 ] &&
        [ "$(grep -c 'step [0-9]*  return' $work/out)" -ge 2 ] && grep -q '(the end)\|(out of time)' $work/out
}
check watch_draws_an_episode watching

watches_into_a_pipe() { # three long episodes, each step below the other: a terminal would wait for a minute
    train --steps 40960 --quiet --save $work/pole.safetensors &&
        timeout 20 build/train --watch $work/pole.safetensors --eval-episodes 3 >$work/out 2>$work/err &&
        [ "$(grep -c '^step [0-9]*  return' $work/out)" -gt 600 ] && ! grep -q "$(printf '\033')" $work/out
}
check watch_does_not_wait_without_a_terminal watches_into_a_pipe

only_watches() { # other tasks are refused
    for flag in --save=$work/no --save-best=$work/no --eval-every=1000 --target-return=1 --csv=$work/no --tensorboard=$work/no --export=$work/no --export-int8=$work/no --json --no-train; do
        is_refused watch --watch $work/grid.safetensors $flag && [ ! -e $work/no ] || return 1
    done
}
check watch_goes_with_nothing_else only_watches

foreign() { # a policy of an environment without a row
    sed 's/CartPole-v1/NoSuchEnv-1/' $saved >$work/foreign
    for flag in --resume --load --watch; do
        is_refused "$work/foreign: .*NoSuchEnv-1.*options.h" $flag $work/foreign || return 1
    done
}
check names_the_file_of_an_unknown_environment foreign

logging() {
    train --steps 4096 --quiet --json --csv $work/b.csv --tensorboard $work/tb && [ $status -eq 0 ] &&
        [ "$(wc -l <$work/b.csv)" -eq 3 ] && [ "$(ls $work/tb/events.out.tfevents.* | wc -l)" -eq 1 ]
}
check csv_and_tensorboard_are_written logging

for env in CartPole-v1 Acrobot-v1 MountainCar-v0 MountainCarContinuous-v0 Pendulum-v1 Memory-v0 TicTacToe-v0 Breakout Gold Invaders \
    GridWorld-v0 MinAtar/Seaquest-v1; do
    name=$(echo $env | tr 'A-Z/-' 'a-z__')
    known() { train --env $env --steps 512 --eval-episodes 1 --quiet --json && [ $status -eq 0 ] && grep -q "\"env\":\"$env\"" $work/out; }
    check trains_$name known
done

check refuses_a_missing_checkpoint           is_refused nowhere --resume $work/nowhere
check refuses_to_resume_a_text               is_refused cli.sh --resume tests/cli.sh
check refuses_two_files_to_start_from        is_refused one --resume $saved --load $saved
check refuses_another_environment_to_resume  is_refused environment --resume $saved --env Acrobot-v1
check refuses_other_sizes_to_resume          is_refused hidden --resume $saved --hidden 8
check refuses_a_folder_that_is_a_file        is_refused cli.sh --steps 512 --quiet --save tests/cli.sh/a
check exports_before_it_trains               is_refused cli.sh --steps 4096 --export tests/cli.sh/a.h
folder() { train --steps 512 --quiet --save $work/new/folder/a && [ -s $work/new/folder/a ]; }
check makes_a_folder_that_is_not_there       folder
check refuses_another_network_to_load        is_refused hidden --load $saved --hidden 8
check refuses_an_unknown_preset              is_refused nonsense --preset nonsense

make_is_idle() {
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make build/train build/quickstart &&
        env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -q build/train build/quickstart
}
check a_second_make_rebuilds_nothing make_is_idle

finish
