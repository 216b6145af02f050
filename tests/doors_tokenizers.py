"""doors_tokenizers.py FOLDER - the tokenizers of the library in PPO_LIBRARY beside the package tokenizers. PPO_TEXTS sets
how many texts are compared in all (100,000). Reports in TAP."""

import ctypes
import importlib.util
import json
import os
import random
import sys
import time

from python import Skip, run

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))

from make_hub import bodies, byte_level, sequence, split  # noqa: E402
from make_unicode_cases import EXPRESSIONS, kinds, unigram  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

FOLDER, TEXTS = sys.argv[1], int(os.environ.get("PPO_TEXTS", 100000))
SPECIALS, BOUNDS = 1, 10
library = ctypes.CDLL(os.environ["PPO_LIBRARY"])
library.ppo_last_error.restype = ctypes.c_char_p
library.ppo_tokenizer_free.argtypes = [ctypes.c_void_p]
library.ppo_tokenizer_load.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
library.ppo_encode_as.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p,
                                  ctypes.c_int, ctypes.c_void_p]
library.ppo_decode.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t,
                               ctypes.c_void_p]


class Ours:
    def __init__(self, path):
        self.pointer, self.room = ctypes.c_void_p(), 1 << 20
        self.tokens, self.text = (ctypes.c_int * self.room)(), ctypes.create_string_buffer(self.room)
        self.must(library.ppo_tokenizer_load(path.encode(), ctypes.byref(self.pointer)))

    def must(self, status):
        assert status == 0, library.ppo_last_error().decode(errors="replace")

    def count(self, data, flags=0):
        """How many tokens bytes have, which are then in self.tokens."""
        n = ctypes.c_int()
        self.must(library.ppo_encode_as(self.pointer, flags, data, len(data), self.tokens, self.room, ctypes.byref(n)))
        return n.value

    def encode(self, text, flags):
        return self.tokens[:self.count(text.encode(), flags)]

    def decode(self, tokens):
        n, array = ctypes.c_size_t(), (ctypes.c_int * len(tokens))(*tokens)
        self.must(library.ppo_decode(self.pointer, array, len(tokens), self.text, self.room, ctypes.byref(n)))
        return self.text.raw[:n.value].decode(errors="replace")

    def close(self):
        library.ppo_tokenizer_free(self.pointer)


# What texts are made of: often a piece of these, else a character of some range.
PIECES = list("aabcdzABZst'sStTdDrvelmL  \n\r\t\t019.,!?-_/()[]{}<>&|\\\"@#$%^*+=`~:;") + (
    "|  |    |\n\n| \n|\r\n|'s|'LL|'re|'\u017f|the |reward|pole |def f(x):\n    return|if (a != b) {\n\t|// |123|4567|3.14"
    "|\xe9|e\u0301|\xdf|\u017f|\u212a|\u0130|\ufb01|\ufdfa|\u2460|\u00bd|\xb2|\u2167|\u24b6|\u01c5|\u02b0|\xaa|\u4e16|\u754c|\u3002|\u304c|\u304b\u3099"
    "|\u30ab|\ud55c|\u1112\u1161\u11ab|\u0627|\u0644\u064e|\u060c|\u0663|\u05e9\u05c1|\u0939\u093f|\u0928\u094d|\u0964|\u0e44\u0e17\u0e22|\u0e31"
    "|\u1228|\u10d0|\u0416|\u03bb|\U0001f600|\U0001f44d\U0001f3fd|\U0001f468\u200d\U0001f469\u200d\U0001f467|\u2764\ufe0f|\U0001f1e9\U0001f1ea"
    "|\u200d|\u200b|\ufeff|\xad|\u202e|\xa0|\u2003|\u2028|\u3000|\u1680|\x85|\x00|\x1f|\x7f|\x9f|\ufffd|\ue000|\U0010ffff|\U000e0001"
    "|\u0323|\u0308|\u0345|\u0334|\u2581|IMGIMG|\u20bf|\u0bf9").split("|")
RANGES = [(0, 0x80), (0x80, 0x800), (0x800, 0x3000), (0x3000, 0xd800), (0xe000, 0x10000), (0x10000, 0x20000), (0x20000, 0x110000)]


def random_text(draw, names):
    out = []
    for _ in range(draw.choice([0, 1, 2, 3, 5, 10, 25, 50])):
        chance = draw.random()
        if chance < 0.8:
            out.append(draw.choice(PIECES) * draw.choice([1, 1, 1, 1, 2, 5]))
        elif chance < 0.97 or not names:
            out.append(chr(draw.randrange(*draw.choice(RANGES))))
        else:
            out.append(draw.choice(names))
    return "".join(out)


def compare(path, texts, seed):
    """Tokens of plain texts, and with names of special tokens and what goes around a text, and what these are decoded to."""
    ours, theirs, draw = Ours(path), Tokenizer.from_file(path), random.Random(seed)
    names = [token.content for token in theirs.get_added_tokens_decoder().values()]
    for _ in range(texts):
        text = random_text(draw, names)
        theirs.encode_special_tokens = True
        want = theirs.encode(text, add_special_tokens=False).ids
        assert ours.encode(text, 0) == want, (path, text, ours.encode(text, 0), want)
        theirs.encode_special_tokens = False
        want = theirs.encode(text).ids
        got = ours.encode(text, SPECIALS | BOUNDS)
        assert got == want, (path, text, got, want)
        a, b = ours.decode(got), theirs.decode(want, skip_special_tokens=False)
        assert a == b, (path, text, a, b)
    ours.close()


def shipped():
    """The files of other packages that are installed, by name."""
    found = {}
    for package, files in (("deepseek_tokenizer", ["tokenizer.json"]),
                           ("litellm", ["litellm_core_utils/tokenizers/anthropic_tokenizer.json",
                                        "litellm_core_utils/tokenizers/deepseek_tokenizer.json"])):
        spec = importlib.util.find_spec(package)
        for file in files if spec and spec.submodule_search_locations else []:
            path = os.path.join(spec.submodule_search_locations[0], file)
            if os.path.exists(path):
                found[package + "/" + os.path.basename(file)] = path
    return found


def expressions():
    """Those of published models, and those that packages have themselves."""
    found = dict(EXPRESSIONS)
    try:
        import tiktoken_ext.openai_public as public
        public.load_tiktoken_bpe = public.data_gym_to_mergeable_bpe_ranks = lambda *paths, **hashes: {}
        for name, make in public.ENCODING_CONSTRUCTORS.items():
            found["tiktoken " + name] = make()["pat_str"]
    except (ImportError, AttributeError):
        print("# tiktoken: not there")
    spec = importlib.util.find_spec("mistral_common")
    folder = os.path.join(spec.submodule_search_locations[0], "data") if spec else None
    for file in os.listdir(folder) if folder else []:
        if file.startswith("tekken"):
            with open(os.path.join(folder, file), encoding="utf-8") as f:
                found["mistral_common " + file] = json.load(f)["config"]["pattern"]
    return found


def write(name, body, added, head):
    path = os.path.join(FOLDER, "".join(c if c.isalnum() else "-" for c in name) + ".json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(dict(version="1.0", added_tokens=added, **dict(head, model=dict(head["model"], **body))), f)
    return path


def made_up():
    """Small files with all parts, and with each expression."""
    (first, n), (second, _) = bodies()
    for name, body, added, head in kinds(n):
        yield name, write(name, [first, second, unigram(second["vocab"])][body], added, head)
    for name, expression in expressions().items():
        head = dict(normalizer=None, pre_tokenizer=sequence("pretokenizers", split(expression), byte_level(use_regex=False)),
                    post_processor=None, decoder=byte_level(), model=dict(type="BPE"))
        yield name, write("expression " + name, first, [], head)


def files_that_packages_ship_give_the_same_tokens():
    files = shipped()
    if not files:
        raise Skip("there is no package deepseek-tokenizer or litellm")
    for k, (name, path) in enumerate(files.items()):
        compare(path, TEXTS // 4 // len(files), k)
        print("# %s: %d texts" % (name, TEXTS // 4 // len(files)), flush=True)


def files_with_published_expressions_give_the_same_tokens():
    files = list(made_up())
    each = TEXTS * 3 // 4 // len(files) + 1
    for k, (name, path) in enumerate(files):
        compare(path, each, 1000 + k)
    print("# %d files, %d texts each" % (len(files), each))


def one_thread_is_no_slower():
    """The same texts of some 1,000 characters: Python code, and words of several scripts."""
    draw = random.Random(1)
    code = "".join(open(os.path.join("tests", f), encoding="utf-8").read() for f in sorted(os.listdir("tests")) if f.endswith(".py"))
    words = ("Die Gr\xf6\xdfe der \xdcbung \u041d\u043e\u0447\u044c \u0443\u043b\u0438\u0446\u0430 \u0928\u092e\u0938\u094d\u0924\u0947 "
             "\u4f60\u597d\u4e16\u754c\u3002 \u3053\u3093\u306b\u3061\u306f \uc548\ub155 \u0645\u0631\u062d\u0628\u0627 the and of").split()
    texts = [code[k:k + 1000] for k in range(0, len(code), 1000)]
    texts += [" ".join(draw.choice(words) for _ in range(150)) for _ in range(100)]
    data = [t.encode() for t in texts]
    size = sum(map(len, data)) / 1e6
    files = dict(shipped())
    files.update((name, path) for name, path in made_up() if name in ("gpt2", "llama3", "o200k", "gemma3"))
    for name, path in files.items():
        ours, theirs, best = Ours(path), Tokenizer.from_file(path), [1e9, 1e9]
        for _ in range(3):
            start = time.process_time()
            for d in data:
                ours.count(d)
            best[0] = min(best[0], time.process_time() - start)
            start = time.process_time()
            for t in texts:
                theirs.encode(t)
            best[1] = min(best[1], time.process_time() - start)
        ours.close()
        print("# %s: %.1f MB/s, tokenizers %.1f MB/s, ratio %.1f" % (name, size / best[0], size / best[1], best[1] / best[0]), flush=True)
        assert best[0] < best[1], name


if __name__ == "__main__":
    sys.exit(run([files_that_packages_ship_give_the_same_tokens, files_with_published_expressions_give_the_same_tokens,
                  one_thread_is_no_slower]) > 0)
