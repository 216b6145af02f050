"""Writes unicode.h: how expressions of published tokenizers cut some texts, which characters belong to classes, normal
forms of all characters, and the tokens of small files tokenizer.json with other parts than those of hub.h.

    pip install numpy==2.4.6 tokenizers==0.23.3
    python make_unicode_cases.py

What the library gives is written as the low half of a hash (FNV-1a).
"""
import json
import unicodedata

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

from golden import Header
from make_hub import GPT2, LLAMA3, QWEN2, QWEN35, STRINGS, added, bodies, byte_level, fnv, sequence, split, text

APOSTROPHES = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}%s]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}%s]"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def words_with_case(ending="", but="", digits=r"\p{N}{1,3}", signs="[\\r\\n/]*", first=""):
    up, low = UPPER % but, LOWER % but
    return (first + r"[^\r\n\p{L}\p{N}]?" + up + "*" + low + "+" + ending + r"|[^\r\n\p{L}\p{N}]?" + up + "+" + low + "*" + ending
            + "|" + digits + r"| ?[^\s\p{L}\p{N}]+" + signs + "|" + SPACES)


DEEPSEEK3 = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^""" "\r\n" r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+["
             "\r\n" r"]*|\s*[" "\r\n" r"]+|\s+(?!\S)|\s+")
CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
O200K, TEKKEN = words_with_case(APOSTROPHES), words_with_case(digits=r"\p{N}")
HAN = r"&&[^\p{Han}]"
KIMI = words_with_case(APOSTROPHES, HAN, signs=r"[\r\n]*", first=r"[\p{Han}]+|")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|"
          r"\s+(?!\S)|\s")
EXPRESSIONS = {
    "gpt2": GPT2, "llama3": LLAMA3, "qwen2": QWEN2, "qwen35": QWEN35, "o200k": O200K, "tekken": TEKKEN, "kimi": KIMI,
    "cl100k": CL100K, "deepseek3": DEEPSEEK3, "deepseek3 cjk": CJK, "falcon": "[0-9][0-9][0-9]",
    "bloom": " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+",
    "jais2": LLAMA3.replace(r"\s+(?!\S)|\s+", r"\s{512}(?!\S)|\s{16}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}"),
    "aya": r"\d{1,3}(?=(?:\d{3})*\b)", "superbpe": r"(?=(\d{3})+(?!\d))", "chameleon": r"(re)((A|b|w|d){1,4})a|  |\n",
    "hangul": "[\uac00-\ud7a3\u3131-\u318e]+|[\u3105-\u312f]+", "clip": r"'s|'t|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    "all kinds": r"^\s|\w+?\b|(?<=\W)\d|(?<!a)[[a-c[x-z]]&&[^y]]{2,}|\h\H|.\Z|\x41\x{1F600}|(?m:.)\B|(?i)[k-s]t",
    "lazy": r"a??b|[a-z]{2,4}?|\P{L}*?\n|(?#none)\s+$|(?<name>\p{^Lu})",
}
CLASSES = [r"\p{%s}" % name for name in (
    "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Cc Cf Cn L M N P S Z Han Hiragana Katakana Hangul "
    "Latin Greek Cyrillic Arabic Hebrew Devanagari Thai Ethiopic Georgian").split()] + [
        r"\s", r"\S", r"\d", r"\w", r"\W", r"\h", "(?i:k)", "(?i:[^a-s])", r"[\w&&[^\d\p{Lu}]]"]
FORMS = [("NFC", normalizers.NFC()), ("NFD", normalizers.NFD()), ("NFKC", normalizers.NFKC()), ("NFKD", normalizers.NFKD()),
         ("Lowercase", normalizers.Lowercase()), ("StripAccents", normalizers.StripAccents())]

TEXTS = STRINGS + [
    "It's 'S \u017ft y'ALL'D've iPhone McDONALD'S ABCdefGHI \u01c5\u02b0\u00aa", "1234567 12,345.678 \u0661\u0662\u0663\u0664 \u2167\u00b2\u2460 x1y22z333",
    "\u4f60\u597d\u4e16\u754c123\u3053\u3093\u306b\u3061\u306f\u30ab\u30bf\u30ab\u30ca\u30fc abc\u6f22\u5b57 \ud55c\uad6d\uc5b4\u3131\u3105",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0643\u060c \u0639\u0627\u0644\u0645\u061f \u0647\u0630\u064e\u0627 \u05e9\u05c1\u05dc\u05d5\u05dd",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e\u0964 \u0ba4\u0bae\u0bbf\u0bb4\u0bcd \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea\u2764\ufe0f \U0001f44d\U0001f3fd! \u20bf5", "e\u0301\u0301 n\u0303o\u0308 \u0301x \u0930\u094d \u200b\u2060\u00ad",
    "def f(x):\n    return x**2  # it's\n\n\n\tif (a!=b) { y /= 3; }\r\n  //end/\n", "   \n  \n \t \n\n   x    y     ",
    "!!!???...---===>>> <<<a&&b||c $x=$y; #tag @me `code` ~/path_to/file.txt\\n", "\x00\x01\x1f\x7f\x80\x85\x9f\ufffd\U0010ffff\ue000",
    "\u1680\u2028\u2029\u202f\u205f\u3000\xa0 x", " " * 20 + "a" + " " * 40 + "\n" + " " * 7, "\uff21\uff22\uff23\uff11\uff12 \ufb01\ufb03\ufdfa\u3392\u2460\u00bd\u1e9b\u0323 \u0130\u0049 \u212b \u1f88 \u1112\u1161\u11ab\u3163",
    "ABZrebwda 4444 999999 <X> <X>y y<X> .<X>. _<X>_ \u200d<X> <L> a <L>", "  ends\n", "caf\xe9s na\xefve \u039a\u03cc\u03c3\u03bc\u03b5 \u041c\u0438\u0440 \ua64a\u1c80 \U00010400\U00010428"]


def low(values):
    return fnv(b"".join(int(v).to_bytes(4, "little") for v in values))


def lengths(pieces):
    return [len(p.encode("utf-8")) for p in pieces]


def cut(expression, s):
    return [p for p, _ in pre_tokenizers.Split(Regex(expression), "isolated").pre_tokenize_str(s)]


def characters():
    """All that are assigned below U+32000, without the inside of what is uniform."""
    return [c for c in range(1, 0x32000) if not (0xd800 <= c < 0xf8ff or 0x3410 < c < 0x4db0 or 0x4e10 < c < 0x9ff0
                                                 or 0xac40 < c < 0xd790 or 0x17010 < c < 0x187f0 or 0x20010 < c < 0x2f800)]


def splits(*parts):
    return sequence("pretokenizers", *parts)


def other(type, **settings):
    return dict(settings, type=type)


def string(s, behavior, invert=False):
    return dict(type="Split", pattern={"String": s}, behavior=behavior, invert=invert)


def kinds(n):
    """name, body, added tokens, the other parts; n: tokens of the body of bytes."""
    tokens = [added(0, "<|endoftext|>"), dict(added(n, "<X>"), single_word=True), added(n + 1, "<L>", False, True, True, True)]
    plain = byte_level(use_regex=False)
    mixed = dict(split("[aeiou]+|\\s"), behavior=None)
    behaviors = [dict(mixed, behavior=b, invert=i) for b, i in (
        ("Removed", False), ("MergedWithPrevious", False), ("MergedWithPrevious", True), ("MergedWithNext", False),
        ("MergedWithNext", True), ("Contiguous", False))]
    upper = dict(split(O200K), behavior="Removed", invert=True)
    rewriting = sequence(
        "normalizers", other("Strip", strip_left=True, strip_right=False), other("NFD"), other("StripAccents"), other("Lowercase"),
        other("Replace", pattern={"Regex": r"\s{2,}|q(?=ue)"}, content=" "), other("Prepend", prepend="re"))
    roberta = other("RobertaProcessing", sep=["<X>", n], cls=["<|endoftext|>", 0], trim_offsets=True, add_prefix_space=False)
    rows = [("deepseek3", None, splits(split(r"\p{N}{1,3}"), split(CJK), split(DEEPSEEK3), plain), None),
            ("o200k", None, splits(upper, plain), roberta),
            ("tekken", None, splits(split(TEKKEN), plain), None),
            ("falcon", None, splits(other("Punctuation", behavior="Contiguous"), byte_level(), other("Digits", individual_digits=False),
                                    split("[0-9][0-9][0-9]")), None),
            ("claude", other("NFKC"), byte_level(), None),
            ("superbpe", other("NFC"), splits(split(r"\p{N}+"), split(r"(?=(\d{3})+(?!\d))"), split(GPT2), plain), None),
            ("rewriting", rewriting, splits(other("WhitespaceSplit"), other("Punctuation"), byte_level()), None),
            ("words", sequence("normalizers", other("NFKD"), other("Strip", strip_left=False, strip_right=True)),
             splits(other("Whitespace"), other("Digits", individual_digits=True), byte_level(add_prefix_space=True)), None),
            ] + [("behavior %d" % k, None, splits(b, plain), None) for k, b in enumerate(behaviors)]
    for name, normalizer, cutter, post in rows:
        yield name, 0, tokens, dict(normalizer=normalizer, pre_tokenizer=cutter, post_processor=post, decoder=byte_level(),
                                    model=dict(type="BPE"))
    space = "\u2581"
    replace = other("Replace", pattern={"String": " "}, content=space)
    back = other("Replace", pattern={"String": space}, content=" ")
    back_to_bytes = sequence("decoders", back, other("ByteFallback"), other("Fuse"))
    legacy = other("Metaspace", replacement=space, add_prefix_space=True)
    never = other("Metaspace", replacement=space, add_prefix_space=False, prepend_scheme="never", split=True)
    for name, normalizer, cutter, decoder in [
            ("gemma3", replace, string(" ", "MergedWithPrevious"), back_to_bytes),
            ("legacy", None, legacy, legacy), ("never", other("NFKC"), splits(never, other("Digits", individual_digits=True)), never),
            ("any", None, other("Metaspace", replacement="e", prepend_scheme="first", split=True),
             other("Metaspace", replacement="e", prepend_scheme="first", split=True))]:
        tokens = [added(i, c) for i, c in enumerate(["<unk>", "<s>", "</s>"])]
        model = dict(type="BPE", dropout=None, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
        yield name, 1, tokens, dict(normalizer=normalizer, pre_tokenizer=cutter, post_processor=None, decoder=decoder, model=model)
    for name, normalizer, cutter, decoder, fallback in [
            ("unigram", other("NFKC"), legacy, legacy, False), ("unigram bytes", replace, None, back_to_bytes, True)]:
        yield name, 2, tokens, dict(normalizer=normalizer, pre_tokenizer=cutter, post_processor=None, decoder=decoder,
                                    model=dict(type="Unigram", unk_id=0, byte_fallback=fallback))


def unigram(vocab):
    """A body of pieces with scores, from the vocabulary of characters: longer pieces score better for their length."""
    some = [p for k, p in enumerate(sorted(vocab, key=vocab.get)) if k < 259 or k % 3 == 0 or len(p) == 1]
    pieces = [[p, round(-3.7 - 0.01 * k, 2)] for k, p in enumerate(some)]
    scores = dict(pieces, **{"!!": -7.25, "!": -3.625})  # of equal sums
    return dict(vocab=[[p, score] for p, score in scores.items()])


def c_string(s):
    return '"' + "".join("\\" + chr(b) if chr(b) in '"\\?' else chr(b) if 32 <= b < 127 else "\\%03o" % b for b in s.encode("utf-8")) + '"'


if __name__ == "__main__":
    h = Header("make_unicode_cases.py", "Cuts, classes, normal forms and tokens.", ["tokenizers"])
    all_texts = [t.encode("utf-8") for t in TEXTS]
    h.case("texts", unicode_texts=len(TEXTS), unicode_expressions=len(EXPRESSIONS), unicode_classes=len(CLASSES),
           unicode_forms=len(FORMS), unicode_kinds=len(list(kinds(460))))
    h.array("unsigned char", "unicode_text", list(b"".join(all_texts)))
    h.array("int", "unicode_text_bytes", [len(t) for t in all_texts])
    h.comment("for each expression the lengths of the pieces that are not empty, text by text, as a hash")
    h.lines.append("static const char *const g_unicode_expression[][2] = {\n%s};" % ",\n".join(
        "    {%s,\n     %s}" % (c_string(name), c_string(e)) for name, e in EXPRESSIONS.items()))
    h.array("unsigned int", "unicode_cut", [[low(lengths(cut(e, t))) for t in TEXTS] for e in EXPRESSIONS.values()])
    h.comment("how classes cut all characters of these ranges")
    codes = characters()
    runs = [c for i, c in enumerate(codes) if not i or codes[i - 1] != c - 1], [c for i, c in enumerate(codes) if c + 1 not in codes[i + 1:i + 2]]
    h.array("int", "unicode_range", [[a, b] for a, b in zip(*runs)])
    whole = "".join(map(chr, codes))
    h.lines.append("static const char *const g_unicode_class[] = {%s};" % ", ".join(c_string(c) for c in CLASSES))
    h.array("unsigned int", "unicode_class_cut", [low(lengths(cut(c + "+", whole))) for c in CLASSES])
    h.comment("all characters of these ranges, each with a line feed before it, in a normal form: the hash of the text")
    h.lines.append("static const char *const g_unicode_form[] = {%s};" % ", ".join('"%s"' % name for name, _ in FORMS))
    lines = "\n" + "\n".join(map(chr, codes))
    h.array("unsigned int", "unicode_form_hash", [fnv(f.normalize_str(lines).encode("utf-8")) for _, f in FORMS])
    (first, n), (second, _) = bodies()
    bodies_of = [first, second, unigram(second["vocab"])]
    text(h, "unicode_body_2", json.dumps(bodies_of[2], separators=(",", ":"))[1:] + "}")
    h.comment("for each text the tokens and the decoded text, as a plain text, then with names of special tokens and what goes "
              "around texts, as one hash")
    names, hashes = [], []
    starts = {}
    for name, body, tokens, head in kinds(n):
        if body not in starts:
            starts[body] = json.dumps(dict(version="1.0", added_tokens=tokens), separators=(",", ":"))[:-1] + ","
            text(h, "unicode_start_%d" % body, starts[body])
        start = json.dumps({k: v for k, v in head.items() if v}, separators=(",", ":"))[1:-2] + ","
        text(h, "unicode_head_" + name.replace(" ", "_"), start)
        names.append('    {"%s", {g_unicode_start_%d, g_unicode_head_%s, g_%s_body_%d}}' % (
            name, body, name.replace(" ", "_"), "unicode" if body == 2 else "hub", body))
        t = Tokenizer.from_str(starts[body] + start + json.dumps(bodies_of[body], separators=(",", ":"))[1:] + "}")
        for s in TEXTS:
            data = b""
            for plain in (True, False):
                t.encode_special_tokens = plain
                tokens = t.encode(s, add_special_tokens=not plain).ids
                data += b"".join(token.to_bytes(4, "little") for token in tokens)
                data += t.decode(tokens, skip_special_tokens=False).encode("utf-8")
            hashes.append(fnv(data))
    h.lines.append("static const struct {\n    const char *name;\n    const char *const *parts[3];\n"
                   "} g_unicode_kind[] = {\n%s};" % ",\n".join(names))
    h.array("unsigned int", "unicode_tokens", hashes)
    h.save("unicode.h")
