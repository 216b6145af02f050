#!/bin/sh
# finetune.sh - build/finetune: each method once with tiny models, runs that are interrupted, and what it refuses.
# Reports in TAP.
work=build/finetune-test
. "$(dirname "$0")/check.sh"
logs="$work/out $work/err"

# finetune ARGUMENT... - the exit status goes to $status, what it prints to $work/out and $work/err
finetune() {
    build/finetune "$@" >$work/out 2>$work/err
    status=$?
}
good() { finetune "$@" && [ $status -eq 0 ] && [ ! -s $work/err ]; }

is_refused() { # WORD ARGUMENT... - exit status 1, one sentence with the word, no model
    word=$1
    shift
    finetune "$@" out=$work/none
    [ $status -eq 1 ] && [ "$(wc -l <$work/err)" -eq 1 ] && grep -q -e "$word" $work/err && [ ! -e $work/none ]
}

# figure NAME - its first and its last value among what was printed
figure() { awk -v name="$1" '{ for (i = 1; i < NF; i++) if ($i == name) { if (!n++) first = $(i + 1); last = $(i + 1) } }
                             END { print first, last }' $work/out; }
rises() { figure "$1" | awk '{ exit !($2 > $1) }'; }
falls() { figure "$1" | awk '{ exit !($2 < $1) }'; }

awk 'BEGIN { srand(7); for (i = 0; i < 300; i++) printf "the %s %s a %s.\n", i % 2 ? "cat" : "dog", i % 3 ? "sees" : "has",
             i % 5 ? "bird" : "mouse" }' >$work/text.txt
awk '{ printf "{\"prompt\": \"%s %s\", \"completion\": \" %s a %s\"}\n", $1, $2, $3, $5 }' $work/text.txt |
    head -n 64 >$work/sft.jsonl
awk '{ printf "{\"prompt\": \"%s %s\", \"chosen\": \" has\", \"rejected\": \" sees\"}\n", $1, $2 }' $work/text.txt |
    head -n 64 >$work/pairs.jsonl
echo '{"messages": [{"role": "user", "content": "the"}, {"role": "assistant", "content": "cat"}]}' >$work/chat.jsonl
judge='awk "{ print / a mouse/ }"' # in the completion alone

finetune tokenizer data=$work/text.txt vocab=300 out=$work/tok 'specials=<|endoftext|>,<|im_start|>,<|im_end|>'
check a_tokenizer_is_made [ -s $work/tok/tokenizer.json ]
check a_model_is_made good new model=$work/tok out=$work/new family=llama width=16 layers=1 heads=2 context=32
check text_is_learned good text model=$work/new out=$work/base data=$work/text.txt held_out=$work/text.txt window=16 \
    epochs=8 learning_rate=1e-2 log=$work/text.csv
check its_loss_falls falls held_out_loss
rows() { [ "$(wc -l <$work/text.csv)" -eq $(($1 + 2)) ] && head -n 1 $work/text.csv | grep -q '^step,loss,.*held_out_loss'; }
check a_row_per_step_and_one_before rows "$(sed -n 's/^ *\([0-9]*\) of.*/\1/p' $work/out | tail -n 1)"
check a_model_is_a_folder_of_the_hub [ -s $work/base/config.json -a -s $work/base/model.safetensors -a -s $work/base/tokenizer.json ]
check no_checkpoint_is_left [ ! -e $work/base.checkpoint ]
end=$(sed -n 's/.*"eos_token_id": \([0-9]*\).*/\1/p' $work/base/config.json)
printf '%s\n' '{"chat_template": "{{ bos_token }}\n"}' >$work/base/tokenizer_config.json
echo "{\"eos_token_id\": [$end]}" >$work/base/generation_config.json
check answers_are_learned good sft model=$work/base out=$work/sft data=$work/sft.jsonl held_out=$work/sft.jsonl epochs=4
check its_loss_falls falls held_out_loss
check what_others_read_is_copied cmp $work/base/tokenizer_config.json $work/sft/tokenizer_config.json
check and_what_ends_a_text cmp $work/base/generation_config.json $work/sft/generation_config.json
samples() { [ "$(grep -c ' | ' $work/out)" -eq 4 ] && grep -q '^the [a-z]* | ' $work/out; }
check samples_are_shown samples
echo '{"text": "the cat sees a bird"}' >$work/lines.jsonl
check lines_of_text_are_learned good sft model=$work/base out=$work/lines data=$work/lines.jsonl
check samples_continue_them grep -q '^the cat.* | ' $work/out
check chats_are_learned good sft model=$work/base out=$work/chat data=$work/chat.jsonl form=chatml dtype=bf16
other_end() { ! grep -q "\"eos_token_id\": $end\\b" $work/chat/config.json; }
check another_token_ends_them other_end
check unless_another_token_ends_it_now [ -e $work/chat/tokenizer_config.json -a ! -e $work/chat/generation_config.json ]
finetune tokenizer data=$work/text.txt vocab=300 out=$work/bare 'specials=<|endoftext|>'
finetune new model=$work/bare out=$work/bare family=llama width=16 layers=1 heads=2 context=32
new='add_tokens=<|im_start|>,<|im_end|>'
check a_model_without_tokens_of_chats_is_taught_one good sft model=$work/bare out=$work/taught data=$work/chat.jsonl \
    form=chatml "$new" epochs=2
had=$(sed -n 's/.*"vocab_size": \([0-9]*\).*/\1/p' $work/bare/config.json)
taught() {
    grep -q "the model gets rows $had to $((had + 1))" $work/out && grep -q "\"vocab_size\": $((had + 2))" $work/taught/config.json &&
        grep -q "\"id\": $((had + 1)), \"content\": \"<|im_end|>\"" $work/taught/tokenizer.json &&
        grep -q "\"eos_token_id\": $((had + 1))" $work/taught/config.json && [ -s $work/taught/chat_template.jinja ]
}
check its_folder_has_the_new_tokens taught
check new_tokens_are_new is_refused 'is token [0-9]* already' sft model=$work/taught data=$work/chat.jsonl "$new"
check lora_has_no_new_tokens is_refused 'LoRA does not train' sft model=$work/bare data=$work/chat.jsonl "$new" lora=2
check a_list_without_tokens_is_refused is_refused 'add_tokens is empty' sft model=$work/bare data=$work/chat.jsonl add_tokens=
(cat $work/sft.jsonl && awk 'BEGIN { printf "{\"prompt\": \""; for (; n++ < 99;) printf "cat "; print "\", \"completion\": \"a\"}" }') >$work/long.jsonl
finetune sft model=$work/base out=$work/long data=$work/long.jsonl held_out=$work/sft.jsonl steps=1
left_out() { grep -q "long.jsonl: 1 of 65 lines are left out: .* context of 32 tokens" $work/out && [ "$(grep -c 'left out' $work/out)" -eq 1 ]; }
check lines_that_are_too_long_are_told left_out
finetune sft model=$work/base out=$work/long data=$work/long.jsonl steps=1
check once_if_they_are_measured_with_too left_out
check comparisons_are_learned good reward model=$work/sft out=$work/score data=$work/pairs.jsonl held_out=$work/pairs.jsonl \
    epochs=4 learning_rate=1e-2
check its_accuracy_rises rises held_out_accuracy
check dpo_learns_them_without_a_reward good dpo model=$work/sft out=$work/dpo data=$work/pairs.jsonl held_out=$work/pairs.jsonl \
    learning_rate=1e-3
check its_loss_falls falls held_out_loss
check kto_learns_them_without_pairs good kto model=$work/sft out=$work/kto data=$work/pairs.jsonl held_out=$work/pairs.jsonl \
    learning_rate=1e-3
check its_loss_falls falls held_out_loss
check ppo_with_a_reward_model good ppo model=$work/sft reward=$work/score out=$work/ppo data=$work/sft.jsonl iterations=2 \
    prompts=8 max_new_tokens=8
awk '{ printf "{\"prompt\": \"%s %s\", \"completion\": \" %s\", \"label\": %s}\n", $1, $2, NR % 3 ? "has" : "sees",
               NR % 3 ? "true" : "false" }' $work/text.txt | head -n 64 >$work/labels.jsonl
check or_with_labels good kto model=$work/sft out=$work/kto-2 data=$work/labels.jsonl held_out=$work/labels.jsonl \
    learning_rate=1e-3
check its_loss_falls falls held_out_loss
check labels_are_no_pairs is_refused 'line 1 has no chosen' dpo model=$work/sft data=$work/labels.jsonl
grep true $work/labels.jsonl >$work/good.jsonl
check kto_needs_bad_ones_too is_refused 'there are [0-9]* and 0' kto model=$work/sft data=$work/good.jsonl
check no_context_is_longer_than_the_models is_refused 'context is 4000, but the model has 32' sft model=$work/sft data=$work/sft.jsonl \
    --context=4000
rl="data=$work/sft.jsonl held_out=$work/sft.jsonl prompts=8 max_new_tokens=8 minibatch_size=32 learning_rate=3e-3 checkpoint_every=2"
check grpo_with_a_judge good grpo model=$work/sft judge="$judge" out=$work/grpo $rl iterations=8 log=$work/grpo.csv
check its_reward_rises rises reward
check the_judge_read_what_was_written grep -q '^{"prompt": "the [a-z]*", "completion": ".*"}$' $work/grpo.samples.jsonl
check distill_with_a_teacher good distill model=$work/base teacher=$work/grpo out=$work/distilled data=$work/sft.jsonl \
    held_out=$work/sft.jsonl max_new_tokens=8 minibatch_size=32 learning_rate=3e-3 iterations=12
check its_kl_falls falls kl
check nothing_is_told_of_a_reward eval '! grep -q reward $work/out'
cp -r $work/grpo $work/stranger && sed 's/<|im_start|>/<|im_begin|>/g' $work/grpo/tokenizer.json >$work/stranger/tokenizer.json
rm -f $work/stranger/tokenizer_config.json
check refuses_a_teacher_of_other_tokens is_refused 'a teacher needs the same tokenizer' distill model=$work/base \
    teacher=$work/stranger data=$work/sft.jsonl
for preset in $(build/finetune help | sed -n 's/^methods:.* kto \(.*\)|distill$/\1/p' | tr '|' ' '); do
    check preset_$preset good $preset model=$work/sft judge="$judge" out=$work/preset data=$work/sft.jsonl iterations=1 \
        prompts=4 max_new_tokens=4 show=0
done

# LoRA: a folder with that alone, which can be trained further and merged
lora="data=$work/sft.jsonl held_out=$work/sft.jsonl epochs=4 learning_rate=1e-2"
check lora_is_learned good sft model=$work/base out=$work/lora $lora lora=4
check its_loss_falls falls held_out_loss
check lora_is_all_that_is_written [ -s $work/lora/adapter_config.json -a ! -e $work/lora/model.safetensors ]
check lora_is_trained_further good sft model=$work/base adapter=$work/lora out=$work/lora-2 $lora
check its_loss_falls falls held_out_loss
check lora_is_merged good merge model=$work/base adapter=$work/lora out=$work/merged
check without_a_word_on_its_base eval '! grep -q "made for" $work/out'
check lora_is_merged_into_another_base good merge model=$work/merged adapter=$work/lora out=$work/none-2
check which_is_told grep -q 'lora: made for .*/base, not for .*/merged' $work/out
after=$(build/finetune sft model=$work/base adapter=$work/lora out=$work/none $lora steps=1 epochs=1 | sed -n 's/.*held_out_loss \([0-9.]*\).*/\1/p' | head -n 1)
merged_has_its_loss() { good sft model=$work/merged out=$work/none-2 $lora steps=1 epochs=1 && grep -q "held_out_loss $after" $work/out; }
check the_merged_model_has_its_loss merged_has_its_loss
rm -rf $work/none $work/none.checkpoint

# GGUF: a file for llama.cpp, which is read, too
check a_file_for_llama_is_written good merge model=$work/merged out=$work/merged.gguf
gguf_has_its_loss() { good sft model=$work/merged.gguf out=$work/none-2 $lora steps=1 epochs=1 && grep -q "held_out_loss $after" $work/out; }
check the_file_has_its_loss gguf_has_its_loss
check lora_is_merged_into_a_smaller_file good merge model=$work/base adapter=$work/lora out=$work/small.gguf dtype=q8_0
check which_is_smaller [ $(wc -c <$work/small.gguf) -lt $(wc -c <$work/merged.gguf) ]
check a_file_is_trained_into_a_file good sft model=$work/small.gguf out=$work/trained.gguf $lora steps=1 epochs=1 dtype=f16
refuses_gguf() { # WORD ARGUMENT...
    word=$1
    shift
    finetune "$@"
    [ $status -eq 1 ] && grep -q -e "$word" $work/err
}
check gguf_has_no_score refuses_gguf 'no score' reward model=$work/base data=$work/pairs.jsonl out=$work/score.gguf
check folders_have_no_q8_0 is_refused q8_0 merge model=$work/base adapter=$work/lora dtype=q8_0
check gguf_has_no_gpt_neo refuses_gguf gpt_neo new model=$work/tok family=gpt_neo width=16 layers=1 heads=2 out=$work/neo.gguf
check ppo_trains_lora good ppo model=$work/sft reward=$work/score out=$work/lora-ppo data=$work/sft.jsonl iterations=2 \
    prompts=8 max_new_tokens=8 lora=2 merge=yes pack=yes
check its_memory_is_told grep -q '^memory in MiB: .* for weights' $work/out
finetune merge model=$work/base adapter=$work/lora out=$work/lora
check lora_and_a_model_have_folders_of_their_own grep -q 'adapter_config.json is there' $work/err
finetune sft model=$work/base data=$work/sft.jsonl out=
check an_empty_name_is_refused grep -q 'out is empty' $work/err
check a_whole_model_is_written [ -s $work/lora-ppo/model.safetensors -a ! -e $work/lora-ppo/adapter_config.json ]
ends() { [ "$(cat $work/new/config.json $work/base/config.json $work/lora-ppo/config.json | grep -c '"eos_token_id": [0-9]')" -eq 3 ]; }
check the_end_of_a_text_is_written ends

# Interrupted runs end with the same bytes: the judge fails at its sixth call, and a killed program
calls="n=\$(cat $work/calls); echo \$((n + 1)) >$work/calls; [ \$n -ne 5 ] && $judge"
echo 0 >$work/calls
finetune grpo model=$work/sft judge="$calls" out=$work/again $rl iterations=8 log=$work/again.csv
check a_judge_that_fails_is_told grep -q '^finetune: judge: 0 numbers for 64 samples' $work/err
check it_leaves_a_checkpoint [ -s $work/again.checkpoint ]
cp $work/again.checkpoint $work/fewer.checkpoint
finetune grpo model=$work/sft judge="$judge" out=$work/fewer $rl iterations=1
fewer() { [ $status -eq 1 ] && grep -q 'iterations=1, but .*fewer.checkpoint has 2' $work/err && [ ! -e $work/fewer ]; }
check fewer_iterations_than_are_done_are_refused fewer
finetune dapo model=$work/sft judge="$judge" out=$work/fewer $rl iterations=8
method() { [ $status -eq 1 ] && grep -q 'fewer.checkpoint: it began with .*=.*, not .*: give the same' $work/err && [ ! -e $work/fewer ]; }
check another_method_is_told method
cp $work/again.checkpoint $work/other.checkpoint
head -n 9 $work/sft.jsonl >$work/few.jsonl
finetune grpo model=$work/sft judge="$judge" out=$work/other $rl data=$work/few.jsonl iterations=8
check other_prompts_are_told grep -q 'other.checkpoint: saved with another "prompts": give the same again' $work/err
finetune grpo model=$work/sft judge="$judge" out=$work/again $rl iterations=8 log=$work/again.csv gradient_checkpointing=yes # less memory, same bits
check it_is_told_where_a_run_continues grep -q 'again.checkpoint: 2 of 8 iterations are done$' $work/out
check grpo_continues cmp $work/grpo/model.safetensors $work/again/model.safetensors
same_log() { [ "$(cut -d, -f1-4 $work/grpo.csv)" = "$(cut -d, -f1-4 $work/again.csv)" ]; }
check its_log_continues same_log
once="[ -e $work/once ] || { : >$work/once; kill -INT \$PPID; }; $judge"
continues() { # MODEL - Ctrl-C ended the run after a checkpoint; the command that is printed ends it as if it had not
    [ $status -eq 130 ] && [ -s $work/stopped.checkpoint ] && [ ! -e $work/stopped ] &&
        eval "$(sed -n 's/.*to continue://p' $work/out)" && cmp $1/model.safetensors $work/stopped/model.safetensors
}
finetune grpo model=$work/sft judge="$once" out=$work/stopped $rl iterations=8
check an_iteration_ends_before_the_interrupt continues $work/grpo
rm -rf $work/stopped
gone="rm -rf $work/gone; : >$work/gone; $judge"
finetune grpo model=$work/sft judge="$gone" out=$work/gone $rl iterations=1
gone() {
    [ $status -eq 1 ] && rm $work/gone && good grpo model=$work/sft judge="$judge" out=$work/gone $rl iterations=1 &&
        grep -q ': 1 of 1 iterations are done$' $work/out
}
check a_folder_that_cannot_be_written_loses_nothing gone
finetune grpo model=$work/sft judge="echo called >$work/called; $judge" out=$work/none $rl samples=1
check settings_are_checked_before_the_judge_is_asked [ $status -eq 1 -a ! -e $work/called ]
long="sft model=$work/base data=$work/sft.jsonl epochs=150 batch_size=16 show=0 checkpoint_every=20"
finetune $long out=$work/long
build/finetune $long out=$work/killed >/dev/null 2>&1 &
until [ -s $work/killed.checkpoint ]; do kill -0 $! 2>/dev/null || break; done
kill -9 $! 2>/dev/null && wait $! 2>/dev/null
cp $work/killed.checkpoint $work/other.checkpoint
finetune $long data=$work/few.jsonl out=$work/other
check other_data_is_told grep -q 'other.checkpoint: saved with another "data": give the same again' $work/err
finetune $long out=$work/killed
check a_killed_training_continues cmp $work/long/model.safetensors $work/killed/model.safetensors
build/finetune $long out=$work/stopped >$work/out 2>$work/err &
until [ -s $work/stopped.checkpoint ]; do kill -0 $! 2>/dev/null || break; done
kill -INT $!
wait $!
status=$?
check a_step_ends_before_the_interrupt continues $work/long

one_file() {
    good tokenizer data=$work/text.txt vocab=0 out=$work/chars.safetensors &&
        good new model=$work/chars.safetensors out=$work/chars-model.safetensors width=16 layers=1 heads=2 context=32 &&
        good text model=$work/chars-model.safetensors data=$work/text.txt out=$work/chars-2.safetensors context=16 steps=2
}
check characters_are_tokens_in_one_file one_file

check help_lists_the_settings good grpo help
listed() { grep -q '^  kl_coef .*\[0.04\]' $work/out && grep -q '^  judge ' $work/out && ! grep -q '^  eos ' $work/out; }
check with_their_defaults listed
sft="sft model=$work/base data=$work/sft.jsonl"
check refuses_an_unknown_method  is_refused nonsense nonsense
check refuses_what_is_no_setting is_refused kl_coef $sft kl_coef=1
check refuses_an_argument        is_refused name=value $sft fast
check refuses_a_value            is_refused epochs $sft epochs=0
check refuses_no_data            is_refused data= sft model=$work/base
check refuses_no_model           is_refused model= sft data=$work/sft.jsonl
check refuses_no_reward          is_refused judge grpo model=$work/sft data=$work/sft.jsonl
check refuses_two_rewards        is_refused judge grpo model=$work/sft data=$work/sft.jsonl judge=cat reward=$work/score
check refuses_no_teacher         is_refused teacher distill model=$work/sft data=$work/sft.jsonl
check refuses_a_teacher_of_grpo  is_refused teacher grpo model=$work/sft data=$work/sft.jsonl judge=cat teacher=$work/base
check refuses_a_judge_of_sft     is_refused judge $sft judge=cat
check refuses_a_missing_model    is_refused nowhere sft model=$work/nowhere data=$work/sft.jsonl
check refuses_missing_data       is_refused nowhere sft model=$work/base data=$work/nowhere.jsonl
check refuses_missing_text       is_refused nowhere text model=$work/base data=$work/nowhere.txt
check refuses_data_of_another_kind is_refused "line 1" dpo model=$work/sft data=$work/sft.jsonl
(cat $work/few.jsonl && echo '{"prompt": "the"}') >$work/odd.jsonl
check refuses_a_line_without_a_completion is_refused 'odd.jsonl: line 10 has no token to learn after its prompt: a completion, or' sft model=$work/base data=$work/odd.jsonl
check refuses_a_setting_of_the_tokenizer is_refused eos $sft eos=3
check refuses_a_token_that_is_not_there is_refused '<none>' $sft end='<none>'
check refuses_a_chat_without_its_tokens is_refused 'ends a turn of llama3' sft model=$work/base data=$work/chat.jsonl form=llama3
check refuses_a_judge_of_words   is_refused 'no number: hello' grpo model=$work/sft data=$work/sft.jsonl judge='echo hello'
check refuses_two_numbers_in_a_line is_refused 'no number: 1 2' grpo model=$work/sft data=$work/sft.jsonl judge='yes 1 2'
check tells_what_ended_the_judge is_refused 'signal 9' grpo model=$work/sft data=$work/sft.jsonl judge='kill -9 $$'
check refuses_too_many_numbers   is_refused 'more than' grpo model=$work/sft data=$work/sft.jsonl judge='yes 1 | head -n 9999'
check refuses_a_judge_that_fails is_refused 'exit status 3' grpo model=$work/sft data=$work/sft.jsonl judge="$judge; exit 3"
check refuses_two_kinds_of_lora is_refused adapter $sft adapter=$work/lora lora=4
check refuses_to_train_packed_weights is_refused packed $sft pack=yes
check refuses_to_merge_nothing   is_refused adapter= merge model=$work/base
check refuses_a_layer_that_is_not_there is_refused '"c_attn"' $sft lora=4 lora_layers=c_attn
check refuses_kernels_that_are_not_there is_refused abacus $sft kernels=abacus
check refuses_a_folder_in_a_file  finetune $sft out=$work/text.txt/none
check before_it_trains           eval '[ $status -eq 1 ] && grep -q "text.txt/none.*cannot be written" $work/err && [ ! -s $work/out ]'
stays() { # what is there is not removed by a run that is refused
    cp $work/text.txt $work/a-file && mkdir -p $work/a-folder && ln -sfn a-folder $work/a-link || return 1
    for out in a-file a-folder a-link; do finetune $sft judge=cat out=$work/$out; finetune $sft pack=yes out=$work/$out; done
    cmp $work/text.txt $work/a-file && [ -d $work/a-folder -a -h $work/a-link ] && finetune $sft out=$work/a-file steps=1 &&
        [ $status -eq 1 ] && grep -q 'a-file.*cannot be written' $work/err && cmp $work/text.txt $work/a-file
}
check what_is_there_stays stays
check a_link_to_a_folder_is_written_through good $sft out=$work/a-link steps=1
check and_stays_one [ -h $work/a-link -a -s $work/a-folder/model.safetensors ]
check refuses_to_replace_its_model finetune $sft out=$work/base/
check which_it_says grep -q 'out is the model' $work/err
once() { good sft help && [ "$(grep -c checkpoint_every $work/out)" -eq 1 ] && good grpo help && grep -q checkpoint_every $work/out; }
check a_setting_is_listed_once once
for set in vocab=5 lora_alpha=8 lora_layers=q_proj merge=yes beta=1 patience=2 judge=cat specials=x; do
    check "refuses_${set%=*}_without_effect" is_refused "${set%=*}" $sft $set
done
check refuses_lora_of_a_new_model is_refused "no setting lora" new model=$work/tok lora=4
check refuses_dtype_of_a_single_file finetune $sft dtype=bf16 out=$work/none.safetensors
check which_is_exact grep -q 'dtype has no effect on a single file' $work/err
check a_dash_stands_for_an_underscore is_refused "lora_alpha has no effect" $sft lora-alpha=8
check refuses_a_model_of_a_tokenizer is_refused "no setting model" tokenizer data=$work/text.txt model=$work/base
check refuses_another_token_that_is_not_there is_refused '<none>' $sft start='<none>'
check refuses_dtype_of_a_tokenizer is_refused "no setting dtype" tokenizer data=$work/text.txt dtype=bf16
check refuses_layers_of_an_adapter is_refused "lora_layers has no effect without lora" $sft adapter=$work/lora lora_layers=q_proj
check refuses_a_log_that_cannot_be_written is_refused text.txt/log $sft log=$work/text.txt/log.csv
rm $work/none.checkpoint
[ -e /dev/full ] && check refuses_a_log_on_a_full_disk is_refused 'dev/full' $sft log=/dev/full steps=1
is_not_printed() { ! build/finetune "$@" >/dev/full 2>$work/err; }
[ -e /dev/full ] && {
    check help_that_cannot_be_printed_is_an_error is_not_printed help
    check so_is_a_result is_not_printed tokenizer data=$work/text.txt out=$work/full
    check it_is_told grep -q '^finetune: what is printed cannot be written$' $work/err
}
finish
