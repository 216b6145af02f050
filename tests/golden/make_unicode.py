"""Prints the tables about characters: ppo__unicode_kinds of ppo_bpe.h, ppo__unicode_parts and ppo__unicode_classes
of ppo_hub.h.

    pip install tokenizers==0.23.3
    python make_unicode.py

The kinds are asked of the library whose tokens ppo_encode() gives, so its version of Unicode (16) decides. Its
pre-tokenizer "Digits" is of a later one, with 13 further numbers (U+11DE0 .. U+11DE9, U+16FF4 .. U+16FF6) that
are none here. The data of NFC are Python's as far as the library has them: it is of an older version.
"""
import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

KINDS = [r"\p{L}", r"\p{N}", r"\s", r"\p{M}"]  # 1, 2, 3, 4; all else is 0
CODES = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000]
DIGITS, LAST = [chr(c) for c in range(35, 92)], [chr(c) for c in range(93, 127)]


def members(expression):
    """What is gone when all that matches is removed."""
    split, left = pre_tokenizers.Split(Regex(expression), "removed"), set()
    for i in range(0, len(CODES), 4096):
        for piece, _ in split.pre_tokenize_str("".join(map(chr, CODES[i:i + 4096]))):
            left.update(map(ord, piece))
    return set(CODES) - left


def number(n):
    """Digits of 57 values, from "#", and a last one of 34, from "]": none of them needs a backslash in C."""
    last, text = LAST[n % 34], ""
    n //= 34
    while n:
        text = DIGITS[n % 57] + text
        n //= 57
    return text + last


def signed(n):
    return 2 * n if n >= 0 else -2 * n - 1


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


def parts():
    """Characters that NFD takes apart, ascending, as ppo.h describes them: a step is 3 times the distance to the
    previous one, plus 1 if NFC does not put it together again, or 2 if it becomes only one."""
    nfc, entries, last, last_step, before = normalizers.NFC().normalize_str, [], 0, 0, [0, 0, 0]
    for code in CODES:
        whole = unicodedata.decomposition(chr(code))
        if not whole or whole[0] == "<":
            continue
        pieces = [int(x, 16) for x in whole.split()]
        together = nfc("".join(map(chr, pieces)))
        if nfc(chr(code)) == chr(code) and together != chr(code):
            continue
        kind = 2 if len(pieces) == 1 else together != chr(code)
        step, single = (code - last) * 3 + kind, kind == 2
        text = number(2 * signed(pieces[0] - before[single]) + (step != last_step))
        text += number(step) if step != last_step else ""
        before[single] = pieces[0]
        if not single:
            text += number(signed(pieces[1] - before[2]))
            before[2] = pieces[1]
        entries.append(text)
        last, last_step = code, step
    return entries


def classes():
    """Runs of characters of one combining class above 0: the distance to the end of the previous run, the
    length, the class."""
    nfd, entries, run = normalizers.NFD().normalize_str, [], [0, 0, 0]
    known = {}
    for code in CODES:
        c = chr(code)
        if nfd(c) != c:
            continue
        after = nfd("\u0345" + c) == c + "\u0345" != c + c
        before = nfd(c + "\u0334") == "\u0334" + c != c + c
        k = unicodedata.combining(c)
        if (0 < k < 240) != after or (k > 1) != before:
            assert not after and not before, hex(code)
        elif k:
            known[code] = k
    runs, end = [], 0
    for code, k in sorted(known.items()):
        if runs and runs[-1][0] + runs[-1][1] == code and runs[-1][2] == k:
            runs[-1][1] += 1
        else:
            runs.append([code, 1, k])
    for code, length, k in runs:
        entries.append(number(code - end) + number(length) + number(k))
        end = code + length
    return entries


def print_entries(entries):
    """As strings of less than 4,096 characters, which is as long as C99 allows."""
    strings = [""]
    for entry in entries:
        if len(strings[-1] + entry) > 4000:
            strings.append("")
        strings[-1] += entry
    for s in strings:
        assert "??" not in s  # C99 has trigraphs
        for i in range(0, len(s), 104):
            print('    "%s"%s' % (s[i:i + 104], "," if i + 104 >= len(s) else ""))
    print()


if __name__ == "__main__":
    print_entries([table()])
    print_entries(parts())
    print_entries(classes())
