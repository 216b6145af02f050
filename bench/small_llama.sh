#!/bin/sh
# small_llama.sh [SEED...] - a Llama of 3 million parameters from nothing to a verifiable skill, by build/finetune alone:
# a tokenizer and a model of a book, the King James Bible of Debian's package bible-kjv (apt-get install bible-kjv);
# supervised fine-tuning to write a verse with a given word; then GRPO for each seed (1 2 3), where an awk script is
# the judge: 1 if the verse has that word, and 6 to 20 words, and ends in a full stop, else 0. It is measured on words
# that no prompt of either training had, one in ten. What is there is not made again.
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
tr -cs 'A-Za-z' '\n' <train.txt | awk 'length($1) > 3 && /^[a-z]+$/ { n[$1]++ }
    END { for (w in n) if (n[w] >= 10) print w }' | LC_ALL=C sort >words.txt

# lines SEED HELD_OUT COPIES FILE - {"prompt", "completion"} for the short verses of a file: a word that is in the verse,
# of those held out or of the others, drawn anew for each copy
lines() {
    awk -v seed="$1" -v held_out="$2" -v copies="$3" 'BEGIN { srand(seed) }
    FNR == NR { if ((FNR % 10 == 0) == held_out) asked[$1] = 1; next }
    /["\\]/ || !/\.$/ { next }
    {
        text = $0
        gsub(/[^A-Za-z ]/, " ")
        if (NF < 6 || NF > 20) next
        count = 0
        for (i = 1; i <= NF; i++) if ($i in asked) word[++count] = $i
        for (copy = 0; copy < copies && count; copy++)
            printf "{\"prompt\": \"Word: %s\\nVerse:\", \"completion\": \" %s\"}\n", word[int(1 + rand() * count)], text
    }' words.txt "$4"
}
lines 1 1 2 held_out.txt >held_out.jsonl
lines 2 0 2 train.txt >sft.jsonl
lines 3 0 1 train.txt >prompts.jsonl

# The judge. In a line, the prompt and the completion are fields 4 and 8 of those that quotes separate.
cat >rule.awk <<'END'
BEGIN { FS = "\"" }
{
    split(substr($4, 7), asked, /\\n/)
    verse = tolower($8)
    gsub(/[^a-z ]/, " ", verse)
    n = split(verse, said, " ")
    found = 0
    for (i = 1; i <= n; i++) found += said[i] == asked[1]
    print (found && n >= 6 && n <= 20 && NF == 9 && $8 ~ /\.$/) + 0
}
END

# --- training -----------------------------------------------------------------------------------------------------

# step OUT ARGUMENT... - runs finetune if its result is not there
step() {
    [ -e "$1" ] && return
    out=$1
    shift
    echo "finetune $* out=$out"
    "$root/build/finetune" "$@" out="$out"
}
step tok tokenizer data=train.txt vocab=1024
step new new model=tok family=llama width=192 layers=6 heads=6 kv_heads=3 hidden=576 context=256
step base text model=new data=train.txt held_out=held_out.txt threads="$threads" window=128 batch_size=16 epochs=3 \
    learning_rate=2e-3 min_learning_rate=1e-4 adam_beta2=0.99 adam_eps=1e-8 weight_decay=0.1
step sft sft model=base data=sft.jsonl held_out=held_out.jsonl threads="$threads" context=96 batch_size=32 \
    learning_rate=1e-3 max_new=40
for seed in ${*:-1 2 3}; do
    step grpo-$seed grpo model=sft data=prompts.jsonl held_out=held_out.jsonl judge="awk -f rule.awk" \
        threads="$threads" context=96 max_new=40 prompts=32 minibatch_size=64 epochs=1 iterations=150 \
        learning_rate=5e-4 learning_rate_schedule=linear seed="$seed" log=grpo-$seed.csv show=8
done
