#!/bin/sh
# small_llama.sh [SEED...] - a Llama of 3 million parameters from nothing to a verifiable skill, by build/finetune alone:
# a tokenizer and a model of a book, the King James Bible of Debian's package bible-kjv (apt-get install bible-kjv);
# supervised fine-tuning to write a verse with three given words; then GRPO for each seed (1 2 3), where an awk script
# is the judge: 1 if all three words are in the verse, which has 6 to 20 words and ends in a full stop, else 0. Every
# twentieth verse is held out from everything and gives the words of the evaluation. What is there is not made again.
set -eu
cd "$(dirname "$0")/.."
dir=${DIR:-build/small-llama} threads=${THREADS:-2}
make -s build/finetune
command -v bible >/dev/null || { echo "small_llama.sh: apt-get install bible-kjv" >&2; exit 1; }
mkdir -p "$dir"
cd "$dir"
finetune=$OLDPWD/build/finetune

# --- data: verses without their numbers, one per line -------------------------------------------------------------

bible -f Gen1:1-Rev22:21 | sed 's/^[^ ]* //' >verses.txt
awk 'NR % 20 { print >"train.txt"; next } { print >"held_out.txt" }' verses.txt

# lines KIND - {"prompt", "completion"} of short verses: three of their words, in random order. KIND 0: those of
# held_out.txt; 1 and 2: for supervised fine-tuning and for GRPO, each every other verse of train.txt
lines() {
    awk -v kind="$1" 'BEGIN { srand(kind + 1) }
    kind && NR % 2 != kind - 1 || /["\\]/ || !/\.$/ { next }
    {
        text = $0
        gsub(/[^A-Za-z ]/, " ")
        if (NF < 6 || NF > 20) next
        count = 0
        split("", seen)
        for (i = 1; i <= NF; i++) if (length($i) > 3 && !seen[tolower($i)]++) word[++count] = $i
        if (count < 3) next
        for (i = 1; i <= 3; i++) { j = i + int(rand() * (count - i + 1)); w = word[i]; word[i] = word[j]; word[j] = w }
        printf "{\"prompt\": \"Words: %s, %s, %s\\nVerse:\", \"completion\": \" %s\"}\n", word[1], word[2], word[3], text
    }' "$([ "$1" = 0 ] && echo held_out.txt || echo train.txt)"
}
lines 0 | head -n 512 >held_out.jsonl
lines 1 >sft.jsonl
lines 2 >prompts.jsonl

# The judge. In a line, the prompt and the completion are fields 4 and 8 of those that quotes separate.
cat >rule.awk <<'END'
BEGIN { FS = "\"" }
{
    split(substr($4, 8), given, /\\n/)
    split(given[1], want, /, /)
    verse = tolower($8)
    gsub(/[^a-z ]/, " ", verse)
    n = split(verse, said, " ")
    good = n >= 6 && n <= 20 && $8 ~ /\.$/ && NF == 9
    for (k = 1; k <= 3; k++) {
        found = 0
        for (i = 1; i <= n; i++) found += said[i] == tolower(want[k])
        good = good && found
    }
    print good + 0
}
END

# --- training -----------------------------------------------------------------------------------------------------

# step OUT ARGUMENT... - runs finetune if its result is not there
step() {
    [ -e "$1" ] && return
    out=$1
    shift
    echo "finetune $* out=$out"
    "$finetune" "$@" out="$out"
}
step tok tokenizer data=train.txt vocab=1024
step new new model=tok family=llama width=192 layers=6 heads=6 kv_heads=3 hidden=576 context=256
step base text model=new data=train.txt held_out=held_out.txt threads="$threads" window=128 batch_size=16 epochs=3 \
    learning_rate=2e-3 min_learning_rate=1e-4 adam_beta2=0.99 adam_eps=1e-8 weight_decay=0.1
step sft sft model=base data=sft.jsonl held_out=held_out.jsonl threads="$threads" context=96 batch_size=32 epochs=2 \
    learning_rate=5e-4
for seed in ${*:-1 2 3}; do
    step grpo-$seed grpo model=sft data=prompts.jsonl held_out=held_out.jsonl judge="awk -f rule.awk" \
        threads="$threads" context=96 max_new=48 prompts=32 minibatch_size=64 epochs=1 iterations=150 \
        learning_rate=3e-4 learning_rate_schedule=linear seed="$seed" log=grpo-$seed.csv
done
