#!/bin/sh
# traps_hub.sh - build/finetune and build/chat: what they do not read they tell, what cannot be read is no empty file, and
# models that were trained before are not destroyed by the first command. Reports in TAP.
work=build/traps_hub
. "$(dirname "$0")/check.sh"
logs="$work/out $work/err"
finetune() {
    build/finetune "$@" >$work/out 2>$work/err
    status=$?
}
tells() { # WORDS - what is printed, after a success
    [ $status -eq 0 ] && grep -q -e "$1" $work/out
}
refuses() { # WORDS - one sentence on stderr
    [ $status -eq 1 ] && [ "$(wc -l <$work/err)" -eq 1 ] && grep -q -e "$1" $work/err
}

awk 'BEGIN { for (i = 0; i < 99; i++) print "the cat sat on a mat and the dog ran " i "." }' >$work/text.txt
awk 'BEGIN { for (i = 0; i < 8; i++) print "{\"prompt\": \"the cat\", \"completion\": \" sat.\", \"chosen\": \" sat.\", \"rejected\": \" " i "\"}" }' >$work/data.jsonl
finetune tokenizer data=$work/text.txt vocab=280 out=$work/tok 'specials=<|endoftext|>,<|im_start|>,<|im_end|>'
size="width=16 layers=1 heads=2 context=64"
finetune new model=$work/tok out=$work/new family=llama $size

# -- learning rates --
train="data=$work/data.jsonl steps=1"
finetune text model=$work/new out=$work/base data=$work/text.txt steps=5 window=16 show=0
not_told() { [ $status -eq 0 ] && ! grep -q learning_rate= $work/out; }
check a_model_from_nothing_keeps_the_rate_of_the_library not_told
for usual in "text 5e-05" "sft 2e-05" "reward 1e-05" "dpo 1e-06" "grpo 1e-06"; do
    set -- $usual
    case $1 in
    grpo) finetune grpo model=$work/base out=$work/grpo data=$work/data.jsonl iterations=1 prompts=2 samples=2 \
        max_new_tokens=2 minibatch_size=4 'judge=awk "{ print NR }"' ;;
    *) finetune $1 model=$work/base out=$work/$1 $train ;;
    esac
    check "$1_has_a_rate_that_is_usual" tells "^learning_rate=$2,"
done
finetune sft model=$work/base out=$work/lora $train lora=2
check lora_has_a_higher_one tells '^learning_rate=0.0002,'
finetune sft model=$work/base out=$work/own $train learning_rate=1e-3
check one_that_is_given_counts not_told
finetune sft help
check help_names_them tells 'learning_rate is by default .*: 2e-05, with LoRA 0.0002;'

# -- folders for Python --
check an_adapter_names_its_base grep -q "\"base_model_name_or_path\": \"$PWD/$work/base\"" $work/lora/adapter_config.json
check a_reward_model_has_a_token_to_fill_up grep -q '"pad_token_id": 278' $work/reward/config.json
finetune tokenizer data=$work/text.txt vocab=280 out=$work/tok1
check a_tokenizer_has_one_by_default grep -q '"pad_token": "<|pad|>"' $work/tok1/tokenizer_config.json
finetune tokenizer data=$work/text.txt vocab=280 out=$work/tok2 'specials=<|endoftext|>'
finetune new model=$work/tok2 out=$work/new2 family=gpt2 $size
finetune reward model=$work/new2 out=$work/alone $train
check a_tokenizer_without_one_is_told tells 'no token to fill up shorter texts'
finetune new model=$work/tok out=$work/qwen family=qwen2 $size
check qwen2_needs_its_own_tokenizer refuses 'qwen2.*NFC'
cp -r $work/tok2 $work/two
finetune new model=$work/tok out=$work/two family=llama $size
check no_tokenizer_of_another_model_stays cmp $work/tok/tokenizer.json $work/two/tokenizer.json

# -- special tokens and bounds --
echo '{"text": "the cat"}
{"text": "<|im_start|>user\\nthe<|im_end|>\\n"}' >$work/named.jsonl
finetune sft model=$work/base out=$work/named data=$work/named.jsonl steps=1 show=0
letters=$(sed -n 's/.* sequences, \([0-9]*\) tokens/\1/p' $work/out)
check names_of_special_tokens_in_data_are_told tells 'named.jsonl: line 2 has the name of the special token <|im_start|>'
finetune sft model=$work/base out=$work/named data=$work/named.jsonl steps=1 show=0 read_specials=yes
check a_setting_reads_them eval '! grep -q "has the name" $work/out && [ "$(sed -n "s/.* sequences, \([0-9]*\) tokens/\1/p" $work/out)" -lt '"$letters"' ]'
(cat $work/text.txt && printf 'the cat sat.<|endoftext|>the dog ran.') >$work/ends.txt
finetune text model=$work/base out=$work/named data=$work/ends.txt steps=1 window=16 show=0
check in_a_text_too tells 'ends.txt: line 100 has the name of the special token <|endoftext|>'
finetune text model=$work/base out=$work/named data=$work/ends.txt steps=1 window=16 show=0 read_specials=yes
check which_reads_them eval '[ $status -eq 0 ] && ! grep -q "has the name" $work/out'
cp -r $work/base $work/after
sed 's/"post_processor": null/"post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}], "pair": [], "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [277], "tokens": ["<|endoftext|>"]}}}/' \
    $work/base/tokenizer.json >$work/after/tokenizer.json
echo '{"text": "the cat"}' >$work/one.jsonl
tokens() { sed -n 's/.*: 1 sequences, \([0-9]*\) tokens/\1/p' $work/out; }
finetune sft model=$work/base out=$work/one data=$work/one.jsonl steps=1 show=0
plain=$(tokens)
finetune sft model=$work/after out=$work/one data=$work/one.jsonl steps=1 show=0
check a_token_after_a_text_is_no_start [ "$(tokens)" = "$plain" ]
sed 's/"single": \[\({"Sequence[^}]*}}\), \({"Special[^}]*}}\)\]/"single": [\2, \1]/' $work/after/tokenizer.json >$work/before.json
mv $work/before.json $work/after/tokenizer.json
finetune sft model=$work/after out=$work/one data=$work/one.jsonl steps=1 show=0
check one_before_it_is [ "$(tokens)" = $((plain + 1)) ]
finetune sft model=$work/after out=$work/one data=$work/one.jsonl steps=1 show=0 start=none
check but_for_start_none [ "$(tokens)" = "$plain" ]
finetune sft model=$work/base out=$work/one data=$work/one.jsonl steps=1 show=0 end=none
check nor_need_there_be_an_end [ "$(tokens)" = $((plain - 1)) ]

# -- what is not read --
finetune tokenizer data=$work/text.txt vocab=265 out=$work/tok3
finetune new model=$work/tok3 out=$work/small family=llama $size
cp $work/tok/tokenizer.json $work/tok/tokenizer_config.json $work/small
finetune sft model=$work/small out=$work/none data=$work/one.jsonl steps=1
check a_tokenizer_larger_than_the_model_is_told refuses 'the tokenizer has 280 tokens, the model 265: there is no row for token'
cp -r $work/base $work/says
echo '{"add_bos_token": true, "chat_template": "<|im_start|> You are helpful. {{ messages }}"}' >$work/says/tokenizer_config.json
finetune sft model=$work/says out=$work/none1 $train form=chatml
check tokenizer_config_is_told tells 'says: tokenizer_config.json: add_bos_token is true'
check the_chat_template_too tells 'says: the chat template .* none of the forms that are known'
echo hello | build/chat $work/says --form chatml --max-new-tokens 1 >$work/out 2>$work/err
check by_chat_as_well eval 'grep -q add_bos_token $work/err && grep -q "none of the forms" $work/err'
echo '{"messages": [{"role": "user", "content": "the cat"}, {"role": "assistant", "content": "sat"}]}' >$work/said.jsonl
finetune sft model=$work/says out=$work/none3 data=$work/said.jsonl steps=1
check without_a_form_it_is_not_guessed refuses 'none of the forms that are known: chatml, llama3, .*: name the form'
finetune grpo model=$work/base out=$work/kl data=$work/data.jsonl iterations=12 prompts=4 samples=2 max_new_tokens=1 \
    minibatch_size=8 show=0 learning_rate=1e-3 'judge=awk "{ print NR % 2 }"'
negative() { grep -q ' kl -' $work/out && ! grep ' kl -' $work/out | grep -v 'kl -[0-9.e-]* (estimated from samples: near 0)'; }
check a_kl_below_0_is_explained negative

# -- what cannot be read --
finetune tokenizer out=$work/none2 data=$work/tok
check a_folder_is_no_empty_text refuses 'tok: cannot be read: it is not a plain file'
check and_makes_no_tokenizer [ ! -e $work/none2 ]
finetune text model=$work/base out=$work/none2 data=$work/nowhere.txt
check nor_is_a_missing_file refuses 'nowhere.txt: there is no such file'
cp -r $work/base $work/loop
ln -s special_tokens_map.json $work/loop/special_tokens_map.json
finetune sft model=$work/loop out=$work/none3 $train
check a_file_that_cannot_be_copied_is_told refuses 'special_tokens_map.json: cannot be opened'
mkdir $work/stale
echo '{"eos_token_id": 1}' >$work/stale/generation_config.json
finetune sft model=$work/base out=$work/stale $train
check a_file_of_another_model_goes [ $status -eq 0 -a ! -e $work/stale/generation_config.json ]
rl="grpo model=$work/base out=$work/log data=$work/data.jsonl prompts=2 samples=2 max_new_tokens=2 minibatch_size=4 show=0 \
    checkpoint_every=1 iterations=3 log=$work/log.csv"
once="[ -e $work/once ] || { : >$work/once; kill -INT \$PPID; }; awk '{ print NR }'"
finetune $rl "judge=$once"
cp $work/log.csv $work/kept.csv
rm $work/log.csv
ln -s log.csv $work/log.csv
finetune $rl "judge=$once"
check an_old_log_that_cannot_be_read_is_told refuses 'log.csv: cannot be opened'
rm $work/log.csv
cp $work/kept.csv $work/log.csv
finetune $rl "judge=$once"
check and_loses_no_row eval '[ $status -eq 0 ] && [ "$(cut -d, -f1 $work/log.csv | tr "\n" " ")" = "step 1 2 3 " ]'
mkfifo $work/pipe 2>/dev/null && {
    timeout 20 build/finetune sft model=$work/base out=$work/none4 $train log=$work/pipe >$work/out 2>$work/err
    status=$?
    check a_pipe_is_no_log refuses 'pipe: cannot be written: it is not a plain file'
}
finish
