#!/bin/sh
# auto_classes.sh - each kind of folder that build/finetune and the library write is opened by Python's Auto classes, which
# give the tokens, logits and scores of ppo.h. PYTHONS: the programs to ask, each with torch, transformers and peft
# (python3); the files are for transformers 4.57 and 5. Reports in TAP.
work=build/auto-classes
. "$(dirname "$0")/check.sh"
kinds="lm_llama lm_mistral lm_qwen2 lm_qwen3 lm_gpt_neox lm_gpt2 lm_gpt_neo lm_gemma3_text lm_olmo2 lm_smollm3 lm_phi3
lm_granite lm_opt chat_0 chat_1 chat_2
chat_added_0 lm_merged score_reward score_chat score_library lora lora-score"
able=
for python in ${PYTHONS:-python3}; do
    "$python" -c 'import torch, transformers, peft' 2>/dev/null && able="$able $python"
done
if [ -z "$able" ]; then
    skip auto_classes "there is no Python with torch, transformers and peft"
    finish
    exit
fi
make -s build/finetune && ${CC:-cc} -O1 -I. -Iexamples tests/auto_classes.c -o $work/auto_classes -lm || exit 1
finetune() { build/finetune "$@" >$work/out 2>$work/err || { cat $work/err >&2; exit 1; }; }

awk 'BEGIN { for (i = 0; i < 200; i++) print "The cat sat on a mat and the dog ran. It is " i "." }' >$work/text.txt
awk 'BEGIN { for (i = 0; i < 40; i++) print "{\"prompt\": \"the " (i % 2 ? "cat" : "dog") "\", \"completion\": \" ran.\", \
     \"chosen\": \" ran.\", \"rejected\": \" sat " i "\"}" }' >$work/lines.jsonl
echo '{"messages": [{"role": "user", "content": "the"}, {"role": "assistant", "content": "cat"}]}' >$work/chat.jsonl
echo '{"prompt": "the", "chosen": [{"role": "assistant", "content": "cat"}], "rejected": [{"role": "assistant", "content": "dog"}]}' |
    sed 's/"prompt": "the"/"prompt": [{"role": "user", "content": "the"}]/' >$work/chats.jsonl
finetune tokenizer data=$work/text.txt vocab=300 out=$work/tok
finetune tokenizer data=$work/text.txt vocab=300 out=$work/chattok 'specials=<|endoftext|>,<|im_start|>,<|im_end|>'
mkdir $work/qwen
python3 - $work <<'PY' || exit 1
import json, sys
tok = json.load(open(sys.argv[1] + "/chattok/tokenizer.json"))
tok["normalizer"] = {"type": "NFC"}
words = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
tok["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": words}, "behavior": "Isolated", "invert": False},
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]}
json.dump(tok, open(sys.argv[1] + "/qwen/tokenizer.json", "w"))
PY
size="width=32 layers=1 heads=4 context=64"
for family in llama mistral qwen3 gpt_neox gpt2 gpt_neo gemma3_text olmo2 smollm3 phi3 granite opt; do
    finetune new model=$work/tok out=$work/lm_$family family=$family $size
done
finetune new model=$work/qwen out=$work/lm_qwen2 family=qwen2 $size
finetune new model=$work/chattok out=$work/base family=llama $size
finetune sft model=$work/base out=$work/chat_0 data=$work/chat.jsonl form=chatml show=0
finetune sft model=$work/lm_llama out=$work/chat_added_0 data=$work/chat.jsonl form=chatml show=0 \
    'add_tokens=<|im_start|>,<|im_end|>'
finetune tokenizer data=$work/text.txt vocab=300 out=$work/tok_1 \
    'specials=<|endoftext|>,<|begin_of_text|>,<|start_header_id|>,<|end_header_id|>,<|eot_id|>,</s>'
finetune new model=$work/tok_1 out=$work/base_1 family=llama $size
finetune sft model=$work/base_1 out=$work/chat_1 data=$work/chat.jsonl form=llama3 show=0
finetune sft model=$work/base_1 out=$work/chat_2 data=$work/chat.jsonl form=zephyr show=0
finetune reward model=$work/lm_llama out=$work/score_reward data=$work/lines.jsonl
finetune reward model=$work/base out=$work/score_chat data=$work/chats.jsonl form=chatml
finetune sft model=$work/base out=$work/lora data=$work/chat.jsonl form=chatml lora=4 lora_alpha=12.5 show=0
finetune reward model=$work/base out=$work/lora-score data=$work/chats.jsonl form=chatml lora=4
finetune merge model=$work/base adapter=$work/lora out=$work/lm_merged
$work/auto_classes make $work/score_library || exit 1
jobs=
for kind in $kinds; do
    case $kind in
    lora*) jobs="$jobs $kind,$work/base,$work/$kind" ;;
    chat*) jobs="$jobs lm,$work/$kind" ;;
    *) jobs="$jobs ${kind%%_*},$work/$kind" ;;
    esac
done
for python in $able; do
    "$python" tests/auto_classes.py $work $jobs >$work/python.out 2>$work/python.err
    version=$(sed -n 's/^transformers //p' $work/python.out)
    logs="$work/python.out $work/python.err"
    for kind in $kinds; do
        check "transformers_${version}_$kind" grep -q "^ok .*$work/$kind\$" $work/python.out
    done
done
finish
