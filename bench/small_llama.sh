#!/bin/sh
# small_llama.sh [SEED...] - a Llama of 3 million parameters from nothing to a verifiable skill, by build/finetune alone:
# a tokenizer and a model of a book, the King James Bible of Debian's package bible-kjv (apt-get install bible-kjv);
# supervised fine-tuning to write a verse for a name, one that begins with its first letter; then GRPO for each seed
# (1 2 3) to write short ones. An awk script is the judge: 1 if the verse begins with that letter, has 5 to 12 words and
# ends in a full stop, else 0. It is measured on names that no prompt of either training had. What is there is not made
# again.
set -eu
cd "$(dirname "$0")/.."
dir=${DIR:-build/small-llama} threads=${THREADS:-2} root=$PWD
make -s build/finetune
command -v bible >/dev/null || { echo "small_llama.sh: apt-get install bible-kjv" >&2; exit 1; }
mkdir -p "$dir"
cd "$dir"

# --- data: verses without their numbers, one per line -------------------------------------------------------------

bible -f Gen1:1-Rev22:21 | sed 's/^[^ ]* //' >verses.txt
awk 'NR % 20 { print >"train.txt"; next } { print >"held_out.txt" }' verses.txt
# Names: words with a capital letter inside of verses that never come without it; one in eight is held out.
awk '{ for (i = 2; i <= NF; i++) { w = $i; gsub(/[^A-Za-z]/, "", w); if (length(w) > 3) n[w]++ } }
    END { for (w in n) if (w ~ /^[A-Z][a-z]+$/ && n[w] > 2 && !(tolower(w) in n)) print w }' train.txt |
    LC_ALL=C sort >names.txt
for held_out in 0 1; do
    awk -v held_out=$held_out '(NR % 8 == 0) == held_out { printf "{\"prompt\": \"Name: %s\\nVerse:\"}\n", $1 }' names.txt \
        >"$([ $held_out = 1 ] && echo held_out || echo prompts).jsonl"
done

# To learn from: verses, not too many that begin with the same word, and a name with the same first letter
awk 'BEGIN { srand(1) }
    FNR == NR { letter = substr($1, 1, 1); if (FNR % 8) name[letter, ++names[letter]] = $1; next }
    /["\\]/ || !/\.$/ || NF < 5 || NF > 24 || used[$1]++ > 25 { next }
    { letter = substr($1, 1, 1) }
    names[letter] {
        printf "{\"prompt\": \"Name: %s\\nVerse:\", \"completion\": \" %s\"}\n",
            name[letter, int(1 + rand() * names[letter])], $0
    }' names.txt train.txt >sft.jsonl

# The judge. In a line, the prompt and the completion are fields 4 and 8 of those that quotes separate.
cat >rule.awk <<'END'
BEGIN { FS = "\"" }
{
    n = split($8, word, " ")
    print (substr($4, 7, 1) == substr(word[1], 1, 1) && n >= 5 && n <= 12 && NF == 9 && $8 ~ /\.$/) + 0
}
END

# --- training -----------------------------------------------------------------------------------------------------

# step OUT ARGUMENT... - runs finetune if its result is not there
step() {
    [ ! -e "$1" ] || return 0
    out=$1
    shift
    echo "finetune $* out=$out"
    "$root/build/finetune" "$@" out="$out"
}
step tok tokenizer data=train.txt vocab=1024 'specials=<|endoftext|>,<|im_start|>,<|im_end|>'
step new new model=tok family=llama width=192 layers=6 heads=6 kv_heads=3 hidden=576 context=256
step base text model=new data=train.txt held_out=held_out.txt threads="$threads" window=128 batch_size=16 epochs=3 \
    learning_rate=2e-3 min_learning_rate=1e-4 adam_beta2=0.99 adam_eps=1e-8 weight_decay=0.1
step sft sft model=base data=sft.jsonl threads="$threads" context=96 batch_size=16 epochs=3 learning_rate=2e-3 \
    max_new_tokens=40
for seed in ${*:-1 2 3}; do
    step grpo-$seed grpo model=sft data=prompts.jsonl held_out=held_out.jsonl judge="awk -f rule.awk" \
        threads="$threads" context=96 max_new_tokens=40 prompts=32 minibatch_size=64 epochs=1 iterations=30 \
        learning_rate=3e-4 learning_rate_schedule=linear seed="$seed" log=grpo-$seed.csv show=10
done
