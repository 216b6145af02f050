"""Prints the tables about characters: ppo__unicode_categories of ppo_bpe.h, and those of ppo_unicode.h.

    pip install tokenizers==0.23.3
    python make_unicode.py

What a character is, is asked of the library whose tokens ppo_encode() gives, so its versions of Unicode decide: 16 for
the classes of expressions, 17 for its pre-tokenizer "Digits", about 9 for its normal forms and "Punctuation". The data of
canonical decompositions are Python's as far as the library has them.
"""
import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
SCRIPTS = ("Arabic Armenian Bengali Bopomofo Cherokee Cyrillic Devanagari Ethiopic Georgian Greek Gujarati Gurmukhi Han Hangul "
           "Hebrew Hiragana Kannada Katakana Khmer Lao Latin Malayalam Mongolian Myanmar Oriya Sinhala Syriac Tamil Telugu "
           "Thaana Thai Tibetan").split()
CODES = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000]
DIGITS, LAST = [chr(c) for c in range(35, 92)], [chr(c) for c in range(93, 127)]


def left_by(cutter):
    """What a pre-tokenizer that removes something leaves of all characters."""
    left = set()
    for i in range(0, len(CODES), 4096):
        for piece, _ in cutter.pre_tokenize_str("".join(map(chr, CODES[i:i + 4096]))):
            left.update(map(ord, piece))
    return left


def members(expression):
    return set(CODES) - left_by(pre_tokenizers.Split(Regex(expression), "removed"))


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


def runs(codes):
    """[first, end] of runs of ascending numbers."""
    found = []
    for code in sorted(codes):
        if found and found[-1][1] == code:
            found[-1][1] += 1
        else:
            found.append([code, code + 1])
    return found


def ranges(codes):
    """The distance of each run from the end of the previous one, and its length."""
    end, entries = 0, []
    for first, last in runs(codes):
        entries.append(number(first - end) + number(last - first))
        end = last
    return entries


CATEGORY = ["Cs"] * 0x110000


def categories():
    """Runs of one category: 32 times the length, plus its place in CATEGORIES; of Lu and Ll in turn: plus 30; of Ll and
    Lu: plus 31."""
    for name in CATEGORIES[:-3] + CATEGORIES[-2:]:
        for code in members(r"\p{%s}" % name):
            assert CATEGORY[code] == "Cs"
            CATEGORY[code] = name
    single, entries, k = [], [], 0
    for name in CATEGORY:
        if single and single[-1][0] == name:
            single[-1][1] += 1
        else:
            single.append([name, 1])
    while k < len(single):
        n = 0
        while k + n < len(single) and single[k + n] == [["Lu", "Ll"][(n + (single[k][0] == "Ll")) % 2], 1]:
            n += 1
        name, length = single[k]
        if n >= 3:
            entries.append(number(32 * n + 30 + (name == "Ll")))
        else:
            entries.append(number(32 * length + CATEGORIES.index(name)))
        k += n if n >= 3 else 1
    return entries


def parts():
    """Characters that NFD takes apart, ascending, as ppo_unicode.h describes them: a step is 3 times the distance to the
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
    nfd, entries = normalizers.NFD().normalize_str, []
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
    found, end = [], 0
    for code, k in sorted(known.items()):
        if found and found[-1][0] + found[-1][1] == code and found[-1][2] == k:
            found[-1][1] += 1
        else:
            found.append([code, 1, k])
    for code, length, k in found:
        entries.append(number(code - end) + number(length) + number(k))
        end = code + length
    return entries


def compatible():
    """What only NFKD takes apart. Runs of characters: 2 times the distance to the end of the previous run, plus 1 if it
    has several characters, then their number, and in bits which parts rise by 1 from each to the next; the number of
    parts; each part as the distance to the one before it."""
    nfd, nfkd = normalizers.NFD().normalize_str, normalizers.NFKD().normalize_str
    found, entries, end, last = [], [], 0, 0
    for code in CODES:
        own = nfd(chr(code))
        whole = [ord(x) for x in nfkd(chr(code))]
        if whole == [ord(x) for y in own for x in (nfkd(y) if own != chr(code) else y)]:
            continue
        if found and code == found[-1][0] + found[-1][1] and len(whole) == len(found[-1][2]):
            first, n, start, rise = found[-1]
            now = [b - a for a, b in zip(start, whole)]
            if n == 1 and all(x in (0, 1) for x in now):
                found[-1] = [first, 2, start, now]
                continue
            if n > 1 and now == [n * x for x in rise]:
                found[-1][1] += 1
                continue
        found.append([code, 1, whole, []])
    for code, n, whole, rise in found:
        text = number(2 * (code - end) + (n > 1))
        text += number(n) + number(sum(x << k for k, x in enumerate(rise))) if n > 1 else ""
        text += number(len(whole))
        for x in whole:
            text += number(signed(x - last))
            last = x
        entries.append(text)
        end = code + n
    return entries


def lower():
    """Runs of capitals: 2 times the distance to the end of the previous run, plus the step minus 1; the number of
    capitals; the distance to the small letter. U+0130, which becomes two characters, is left out."""
    small, found, entries, end = normalizers.Lowercase().normalize_str, [], [], 0
    for code in CODES:
        becomes = small(chr(code))
        if becomes == chr(code) or len(becomes) > 1:
            assert len(becomes) == 1 or code == 0x130
            continue
        away = ord(becomes) - code
        if found and found[-1][3] == away:
            first, n, step, _ = found[-1]
            if code - first in ((1, 2) if n == 1 else (n * step,)):
                found[-1][1:3] = [n + 1, code - first if n == 1 else step]
                continue
        found.append([code, 1, 1, away])
    for first, n, step, away in found:
        entries.append(number(2 * (first - end) + step - 1) + number(n) + number(signed(away)))
        end = first + n * step
    return entries


def accents():
    """Characters that StripAccents removes and that are no marks, or keeps and that are marks."""
    strip = normalizers.StripAccents().normalize_str
    assert all(strip(chr(c)) in ("", chr(c)) for c in CODES)
    return ranges(c for c in CODES if (strip(chr(c)) == "") != (CATEGORY[c][0] == "M"))


def class_of(codes):
    return "".join(r"\x{%X}" % a if b == a + 1 else r"\x{%X}-\x{%X}" % (a, b - 1) for a, b in runs(codes))


def punctuation():
    """An expression for what the pre-tokenizer "Punctuation" takes for that."""
    is_one = set(CODES) - left_by(pre_tokenizers.Punctuation("removed"))
    usual = {c for c in CODES if CATEGORY[c][0] == "P" or chr(c) in "$+<=>^`|~"}
    return r"[[\p{P}$+<=>^`|~%s]&&[^%s]]" % (class_of(is_one - usual), class_of(usual - is_one))


def print_table(name, entries, indent="    "):
    """As strings of less than 4,096 characters, which is as long as C99 allows."""
    strings = [""]
    for entry in entries:
        if len(strings[-1] + entry) > 4000:
            strings.append("")
        strings[-1] += entry
    print(name)
    for s in strings:
        s = s.replace("\\", "\\\\")
        assert "??" not in s  # C99 has trigraphs
        while s:
            n = 104 - (s[:104].endswith("\\") and s[:105].endswith("\\\\") and s[:104].count("\\") % 2)
            print('%s"%s"%s' % (indent, s[:n], "," if n >= len(s) else ""))
            s = s[n:]
    print()


if __name__ == "__main__":
    print_table("ppo__unicode_categories", categories())
    print_table("ppo__unicode_scripts", [])
    for script in SCRIPTS:
        print('    {"%s",' % script.lower())
        print_table("", ranges(members(r"\p{%s}" % script)), "     ")
    print_table("ppo__unicode_parts", parts())
    print_table("ppo__unicode_classes", classes())
    print_table("ppo__unicode_compatible", compatible())
    print_table("ppo__unicode_lower", lower())
    print_table("ppo__unicode_accents", accents())
    print_table("PPO__PUNCTUATION", [punctuation()])
