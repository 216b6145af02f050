"""Writes tokenizers.h: the merges that Hugging Face's trainer learns from a text, and encodings by them.

    pip install numpy==2.4.6 tokenizers==0.23.3
    python make_tokenizers.py
"""
import json
import random

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from golden import Header

LINES = """\
The cart doesn't know the pole; the pole doesn't know the cart. They're bound, and that's all there is.
"We've tried it 100 times," she said, "and it fell 99 times -- isn't that 99%?"
I'm sure you'll see: he'd have left it at 3.14159, but 2024 wasn't 1999, nor was 2,024.50 really 1,999.99!
    for (int i = 0; i < 100; i++) sum += x[i];   // the sum of 100 numbers
	if (sum > 100) { return sum; }	/* tabs here */
Le garçon a mangé une crème brûlée à l'été; la fée préférée était déjà là, près du café.
Die Größe der Übung überrascht: schöne Grüße aus Köln, außer für die fünf müden Vögel.
Ночь, улица, фонарь, аптека. 世界 世界 你好世界。 😀😀 ok 😀 👍🏽 done.
aaaaaaaa aaaa aaa aa a bananabanana banana anan nana AAAA aAaA abababab ababab
>>> x = {'key': "value", 'other': ["a", "b"]}; print(x['key'])   ... ...  ....   !!! ?!?! #$%^&*
it's It's IT'S 's 't 're 've 'll 'd 'm 'x '' ''' o'clock rock'n'roll y'all'd've
reward reward rewarded rewarding rewards policy policies advantage advantages value values
low low low low low lower lower newest newest newest newest newest newest widest widest widest
""".split("\n")

STRINGS = ["", " ", "a", "The pole doesn't know it's bound.", "    four spaces,  two, one \n\n  and lines\n",
           "I'll've y'all'd 'sup 'Re'RE're '", "1234567890 3.14 x86_64 100% 2,024",
           "déjà vu, Größe, ночь 世界", "😀👍🏽 unseen: 🚀 \u200d\ufeff",
           "aaaaaaaaaaaaa aaaaaaa ababababa banananana",
           "tabs\tand\r\nreturns\v\f \x00\x01\x7f", "<eos> is text here", "supercalifragilistic newer lowest",
           "trailing spaces   ", " \u00a0nbsp\u2003em\x1c\x1f"]


def make_text():
    """The lines, parts of them, and words of few syllables: counts of every size, and ties."""
    draw = random.Random(14)
    text = "\n".join(LINES) + "\n"
    for line in LINES:
        words = line.split(" ")
        draw.shuffle(words)
        some = words[:draw.randint(0, len(words))]
        text += " ".join(some) + draw.choice(["\n", "  \n", "\n\n\n", " \t\n  "])
    syllables = ["ba", "na", "an", "re", "ward", "o", "oo", "th", "é", "ü", "я", "7", "42", "'re", "-", "--"]
    for _ in range(60):
        words = ["".join(draw.choices(syllables, k=draw.randint(1, 5))) for _ in range(draw.randint(1, 12))]
        text += " ".join(words) + draw.choice([".\n", ", ", "  ", "!\n"])
    return text


def train(text):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=4000, min_frequency=2, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def merges_of(tokenizer):
    model, vocab = json.loads(tokenizer.to_str())["model"], tokenizer.get_vocab()
    assert sorted(vocab.values()) == list(range(256 + len(model["merges"])))
    pairs = [m if isinstance(m, list) else m.split(" ") for m in model["merges"]]
    for k, (left, right) in enumerate(pairs):
        assert vocab[left + right] == 256 + k
    return [[vocab[left], vocab[right]] for left, right in pairs]


def tokenizers(h):
    text = make_text()
    tokenizer = train(text)
    merges, tokens = merges_of(tokenizer), [tokenizer.encode(s).ids for s in STRINGS]
    assert [tokenizer.decode(ids) for ids in tokens] == STRINGS
    texts = [s.encode("utf-8") for s in STRINGS]
    h.case("bpe: all merges of pairs that are in this text twice", bpe_merges=len(merges),
           bpe_strings=len(STRINGS))
    h.array("unsigned char", "bpe_text", list(text.encode("utf-8")))
    h.array("int", "bpe_merge", merges)
    h.comment("strings one after another, how long each is, and their tokens likewise")
    h.array("unsigned char", "bpe_string", list(b"".join(texts)))
    h.array("int", "bpe_string_bytes", [len(t) for t in texts])
    h.array("int", "bpe_token", sum(tokens, []))
    h.array("int", "bpe_token_count", [len(ids) for ids in tokens])


if __name__ == "__main__":
    header = Header("make_tokenizers.py", "By BpeTrainer with min_frequency 2.", ["tokenizers"])
    tokenizers(header)
    header.save("tokenizers.h")
