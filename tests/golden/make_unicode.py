"""Prints the table ppo__unicode_kinds of ppo.h: which characters are letters, numbers, marks and spaces.

    pip install tokenizers==0.23.3
    python make_unicode.py

The classes are asked of the library whose tokens ppo_encode() gives, so its version of Unicode (16) decides.
The library's pre-tokenizer "Digits" is of a later one, with 13 further numbers (U+11DE0 .. U+11DE9 and
U+16FF4 .. U+16FF6), which are nothing here.
"""
from tokenizers import Regex, pre_tokenizers

KINDS = [r"\p{L}", r"\p{N}", r"\s", r"\p{M}"]  # 1, 2, 3, 4; all else is 0
CODES = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000]
DIGITS, LAST = [chr(c) for c in range(64, 92)], [chr(c) for c in range(93, 125)]


def members(expression):
    """What is gone when all that matches is removed."""
    split, left = pre_tokenizers.Split(Regex(expression), "removed"), set()
    for i in range(0, len(CODES), 4096):
        for piece, _ in split.pre_tokenize_str("".join(map(chr, CODES[i:i + 4096]))):
            left.update(map(ord, piece))
    return set(CODES) - left


def number(n):
    """Digits of 28 values, from "@", and a last one of 32, from "]": none of them needs a backslash in C."""
    last, text = LAST[n % 32], ""
    n //= 32
    while n:
        text = DIGITS[n % 28] + text
        n //= 28
    return text + last


def table():
    kind, text, start = [0] * 0x110000, "", 0
    for k, expression in enumerate(KINDS, 1):
        for code in members(expression):
            assert kind[code] == 0
            kind[code] = k
    for code in range(1, 0x110000):
        if kind[code] != kind[start]:
            text += number((code - start) * 5 + kind[start])
            start = code
    return text


if __name__ == "__main__":
    whole = table()
    for i in range(0, len(whole), 102):
        print('    "%s"%s' % (whole[i:i + 102], ";" if i + 102 >= len(whole) else ""))
