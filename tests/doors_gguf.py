"""doors_gguf.py FOLDER - files of ppo_gguf.h beside the package gguf and llama.cpp, by FOLDER/doors_gguf. Reports in TAP."""

import contextlib
import json
import os
import random
import subprocess
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Q

from python import Skip, run

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))

from make_hub import QWEN2, LLAMA3, added, bodies, byte_level, sequence, split  # noqa: E402
from make_unicode_cases import CJK, DEEPSEEK3, O200K, TEKKEN  # noqa: E402

try:
    import llama_cpp
except ImportError:
    llama_cpp = None

FOLDER = sys.argv[1]
GREEDY = 32
# families with settings of each kind that GGUF has
FAMILIES = {
    "llama": "kv_heads=2 norm_eps=1e-5", "llama biases": "qkv_bias=yes proj_bias=yes ffn_bias=yes tied=yes head_size=32",
    "llama linear": "rope_scaling=linear rope_factor=4 rope_theta=50000",
    "llama llama3": "rope_scaling=llama3 rope_factor=8 rope_context=64 rope_low=1 rope_high=8", "mistral": "kv_heads=1",
    "qwen2": "kv_heads=2 tied=yes", "qwen3": "kv_heads=2 head_size=32", "gpt2": "", "gpt2 untied": "tied=no",
    "gpt_neox": "rotary_size=4", "gpt_neox serial": "parallel=no",
    "gemma3_text": "layers=7 window=8 head_size=16 attention_scale=0.25 kv_heads=1 rope_theta=1e6", "olmo2": "kv_heads=2",
    "smollm3": "layers=5 kv_heads=2", "phi3": "window=0 kv_heads=2 rotary_size=8",
    "granite": "kv_heads=2 attention_scale=0.2 embedding_scale=3 residual_scale=0.5 logits_scaling=2",
}
TEXTS = ["the cat and the dog", " The  cat's 1234 dogs, don't!\n\nI'LL  ", "x=3.14159; y='q'  \t\n  end", "\u00e9\u00df \u4e2d\u6587\u5b57 \u0410\u0411 \U0001f642!",
         "ABCdef iPhone McDONALD 12345678 a/b//c", "a<|endoftext|>b <|endoftext|> c", "   leading and trailing   ", "it's we've THEY'RE"]


def ours(*arguments, text=""):
    done = subprocess.run([os.path.join(FOLDER, "doors_gguf"), *map(str, arguments)], input=text, capture_output=True,
                          encoding="utf-8", errors="surrogateescape")
    assert done.returncode == 0, done.stderr
    return done.stdout


def path(name):
    return os.path.join(FOLDER, name.replace(" ", "-"))


def ours_say(file, prompt, more=GREEDY):
    rows = [line.split() for line in ours("say", file, more, text=" ".join(map(str, prompt))).splitlines()]
    return [int(r[0]) for r in rows], np.array([[float(x) for x in r[1:]] for r in rows])


@contextlib.contextmanager
def llama(file, **settings):
    if llama_cpp is None:
        raise Skip("there is no llama-cpp-python")
    model = llama_cpp.Llama(model_path=file, n_ctx=64, n_batch=64, n_threads=1, n_threads_batch=1, verbose=False, type_k=0, type_v=0,
                            logits_all=True, **settings)
    yield model
    model.close()


def llama_say(file, prompt, more=GREEDY):
    with llama(file) as model:
        tokens, rows = [], []
        model.eval(list(prompt))
        for _ in range(more + 1):
            rows.append(np.array(model.scores[model.n_tokens - 1], np.float64))
            tokens.append(int(rows[-1].argmax()))
            model.eval(tokens[-1:])
    return tokens, np.array(rows)


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def farthest(a, b):
    return float(np.abs(log_softmax(a) - log_softmax(b)).max())


# --- tokenizers --------------------------------------------------------------------------------------------------------

TOKENIZERS = {
    "gpt-2": (None, byte_level(), False), "olmo": (dict(type="NFC"), byte_level(), False),
    "smollm": (None, sequence("pretokenizers", dict(type="Digits", individual_digits=True), byte_level()), False),
    "llama-bpe": (None, sequence("pretokenizers", split(LLAMA3), byte_level(use_regex=False)), True),
    "qwen2": (dict(type="NFC"), sequence("pretokenizers", split(QWEN2), byte_level(use_regex=False)), False),
    "tekken": (None, sequence("pretokenizers", split(TEKKEN), byte_level(use_regex=False)), True),
    "gpt-4o": (None, sequence("pretokenizers", split(O200K), byte_level(use_regex=False)), False),
    "deepseek-v3": (None, sequence("pretokenizers", split(r"\p{N}{1,3}"), split(CJK), split(DEEPSEEK3), byte_level(use_regex=False)),
                    False),
}


def write_tokenizer(name):
    """A tokenizer.json of bytes that cuts as this name of tokenizer.ggml.pre says."""
    normalizer, cutter, whole = TOKENIZERS[name]
    body = next(bodies())[0]
    model = dict(body, type="BPE", dropout=None, unk_token=None, fuse_unk=False, byte_fallback=False, ignore_merges=whole)
    file = path("tokenizer-%s.json" % name)
    with open(file, "w", encoding="utf-8") as out:
        json.dump(dict(version="1.0", truncation=None, padding=None, added_tokens=[added(0, "<|endoftext|>")], normalizer=normalizer,
                       pre_tokenizer=cutter, post_processor=None, decoder=byte_level(), model=model), out)
    return file


def same_tokens(file, texts):
    """Of our tokenizer and llama.cpp's of a file."""
    lines = ours("tokens", file, text="".join(t.replace("\n", "\1") + "\n" for t in texts)).split("\n")
    with llama(file, vocab_only=True) as model:
        for text, line in zip(texts, lines):
            tokens = [int(t) for t in line.split("|")[0].split()]
            theirs = model.tokenize(text.encode(), add_bos=True, special=True)
            assert tokens == theirs, (text, tokens, theirs)


def made_up_texts(n):
    rng = random.Random(1)
    pieces = list("abcdehnotABCT  \n\t019.,!?-/'\"") + ["the", " and", "'s", "'LL", "\u00e9", "\u4e2d", "\u0410", " 12", "\U0001f642"]
    return ["".join(rng.choice(pieces) for _ in range(rng.randrange(1, 40))) for _ in range(n)]


def tokenizers_of_every_name_give_the_tokens_of_llama():
    for name in TOKENIZERS:
        file = path("tokenizer-%s.gguf" % name)
        ours("make", "llama", "context=16 width=8 layers=1 heads=2 hidden=8", write_tokenizer(name), file, 0)
        reader = gguf.GGUFReader(file)
        assert reader.fields["tokenizer.ggml.pre"].contents() == name
        same_tokens(file, TEXTS + made_up_texts(300))


def write_pieces(file):
    """SentencePiece's BPE, by the package: pieces of some words, with bytes."""
    space = "\u2581"
    pieces = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)]
    scored, words = [], "the cat and dog then hand that cathedral and an ant".split()
    for word in words:
        for k in range(2, len(word) + 2):
            scored.append((space + word)[:k])
        for k in range(2, len(word) + 1):
            scored.append(word[:k])
    scored = [p for p in dict.fromkeys(scored) if len(p) > 1]
    singles = sorted(set("".join(words)) | {space, "1", "."})
    tokens = pieces + scored + singles
    writer = gguf.GGUFWriter(file, "llama")
    for name, value in [("context_length", 64), ("embedding_length", 32), ("block_count", 1), ("feed_forward_length", 32), ("head_count", 2)]:
        getattr(writer, "add_" + name)(value)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(pieces) + [-1.0 - k for k in range(len(scored))] + [-1000.0 - k for k in range(len(singles))])
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * (len(scored) + len(singles)))
    add_llama(writer, len(tokens), 32, 32, 2, 2, Q.F32, np.random.default_rng(0))
    finish(writer)


def pieces_with_scores_give_the_tokens_of_llama():
    file, again = path("pieces.gguf"), path("pieces-again.gguf")
    write_pieces(file)
    texts = ["the cat and the dog", "then  that cathedral.", "\u00e9 1 </s>the", " hand ant", "cat\ndog"]
    texts += [t for t in made_up_texts(200) if t.strip()]
    same_tokens(file, texts)
    ours("copy", file, again, 0)
    same_tokens(again, texts)


# --- tensors -----------------------------------------------------------------------------------------------------------


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tensor(writer, name, shape, kind, rng):
    """Adds random numbers of a type; of K, which the package does not make, random bits with small scales."""
    scales = {Q.Q2_K: ([80, 82], .02), Q.Q3_K: ([108], .003), Q.Q4_K: ([0, 2], .0005), Q.Q5_K: ([0, 2], .0003), Q.Q6_K: ([208], .0001)}
    x = (rng.standard_normal(shape) * .15).astype(np.float32)
    if len(shape) == 1:
        kind, x = Q.F32, x * .5 + 1
    if kind in scales:
        count, size = gguf.GGML_QUANT_SIZES[kind]
        raw = rng.integers(0, 256, (shape[0], shape[1] // count * size), dtype=np.uint8)
        for at in scales[kind][0]:
            scale = scales[kind][1] * rng.uniform(.9, 1.1, raw.size // size)
            raw.reshape(-1, size)[:, at:at + 2] = scale.astype(np.float16).view(np.uint8).reshape(-1, 2)
    else:
        raw = x if kind == Q.F32 else gguf.quants.quantize(x, kind)
    writer.add_tensor(name, raw, raw_dtype=kind)
    return x if kind == Q.F32 else gguf.quants.dequantize(raw, kind)


def add_llama(writer, vocab, width, hidden, heads, kv, kind, rng, layers=1):
    shapes = {"token_embd": (vocab, width), "output_norm": (width,)}
    for k in range(layers):
        for name, shape in [("attn_norm", (width,)), ("attn_q", (width, width)), ("attn_k", (width * kv // heads, width)),
                            ("attn_v", (width * kv // heads, width)), ("attn_output", (width, width)), ("ffn_norm", (width,)),
                            ("ffn_gate", (hidden, width)), ("ffn_up", (hidden, width)), ("ffn_down", (width, hidden))]:
            shapes["blk.%d.%s" % (k, name)] = shape
    return {name + ".weight": tensor(writer, name + ".weight", shape, kind, rng) for name, shape in shapes.items()}


KINDS = [Q.F32, Q.F16, Q.BF16, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0, Q.Q2_K, Q.Q3_K, Q.Q4_K, Q.Q5_K, Q.Q6_K]


def write_kind(kind):
    file = path("kind-%s.gguf" % kind.name)
    writer = gguf.GGUFWriter(file, "llama")
    for name, value in [("context_length", 64), ("embedding_length", 256), ("block_count", 2), ("feed_forward_length", 512),
                        ("head_count", 4), ("head_count_kv", 2)]:
        getattr(writer, "add_" + name)(value)
    writer.add_layer_norm_rms_eps(1e-5)
    body = next(bodies())[0]
    names = sorted(body["vocab"], key=body["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(names)
    writer.add_token_types([3] + [1] * (len(names) - 1))
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in body["merges"]])
    weights = add_llama(writer, len(names), 256, 512, 4, 2, kind, np.random.default_rng(int(kind)), 2)
    finish(writer)
    return file, weights


def numbers(file):
    return {t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(file).tensors}


def tensors_of_every_type_are_read_to_the_bit():
    for kind in KINDS:
        file, weights = write_kind(kind)
        again = path("again.gguf")
        ours("copy", file, again, 0)
        read = numbers(again)
        assert read.keys() == weights.keys()
        for name, x in weights.items():
            assert np.array_equal(read[name], x), (kind.name, name, np.abs(read[name] - x).max())


def what_is_written_in_fewer_bits_is_what_the_package_makes():
    file, weights = write_kind(Q.F32)
    for kind in [Q.F16, Q.BF16, Q.Q8_0]:
        again = path("again.gguf")
        ours("copy", file, again, int(kind))
        for t in gguf.GGUFReader(again).tensors:
            x = weights[t.name]
            if x.ndim == 1:
                assert t.tensor_type == Q.F32
                continue
            assert t.tensor_type == kind
            assert np.array_equal(np.asarray(t.data).view(np.uint8).reshape(-1), gguf.quants.quantize(x, kind).view(np.uint8).reshape(-1)), t.name


def keys_are_those_of_the_format():
    file = path("keys.gguf")
    ours("make", "llama", "context=64 width=32 layers=1 heads=4 kv_heads=2 hidden=32 rope_theta=50000 norm_eps=1e-6 eos=0",
         write_tokenizer("smollm"), file, int(Q.Q8_0))
    fields = {name: field.contents() for name, field in gguf.GGUFReader(file).fields.items()}
    expected = {"general.architecture": "llama", "general.file_type": 7, "llama.context_length": 64, "llama.embedding_length": 32,
                "llama.block_count": 1, "llama.feed_forward_length": 32, "llama.attention.head_count": 4,
                "llama.attention.head_count_kv": 2, "llama.attention.key_length": 8, "llama.attention.value_length": 8,
                "llama.rope.dimension_count": 8, "llama.rope.freq_base": 50000.0, "tokenizer.ggml.model": "gpt2",
                "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.eos_token_id": 0, "tokenizer.ggml.add_bos_token": False,
                "tokenizer.chat_template": "{{ messages }}"}
    for key, value in expected.items():
        assert fields[key] == value, (key, fields[key])
    assert abs(fields["llama.attention.layer_norm_rms_epsilon"] - 1e-6) < 1e-12
    body = next(bodies())[0]
    assert fields["tokenizer.ggml.tokens"] == sorted(body["vocab"], key=body["vocab"].get)
    assert fields["llama.vocab_size"] == len(body["vocab"])


# --- models beside llama.cpp -------------------------------------------------------------------------------------------


def models_of_every_family_say_what_llama_says():
    for name, settings in FAMILIES.items():
        file, family = path(name + ".gguf"), name.split()[0]
        ours("make", family, "context=64 width=64 layers=2 heads=4 hidden=96 norm_eps=1e-5 " + settings, write_tokenizer("gpt-2"), file, 0)
        tokens, rows = ours_say(file, [5, 40, 7])
        theirs, their_rows = llama_say(file, [5, 40, 7])
        far = farthest(rows, their_rows)
        print("# %s: %d of %d tokens equal, log-probabilities within %.2g" % (
            name, sum(a == b for a, b in zip(tokens, theirs)), len(tokens), far), flush=True)
        assert tokens[:GREEDY] == theirs[:GREEDY], name
        gelu = family in ("gpt2", "gpt_neox", "gemma3_text")  # which is a table of halves there
        assert far < (0.02 if gelu else 1e-4), (name, far)


def models_of_every_type_say_what_llama_says():
    for kind in KINDS:
        file, _ = write_kind(kind)
        prompt = [5, 40, 7, 19, 200, 3]
        tokens, rows = ours_say(file, prompt, 0)
        theirs, their_rows = llama_say(file, prompt, 0)
        far, spread = farthest(rows, their_rows), float(log_softmax(rows).std())
        print("# %s: log-probabilities within %.2g, of a spread of %.2g" % (kind.name, far, spread), flush=True)
        assert far < 0.2 * spread, kind.name


if __name__ == "__main__":
    failures = run([tensors_of_every_type_are_read_to_the_bit, what_is_written_in_fewer_bits_is_what_the_package_makes,
                    keys_are_those_of_the_format, tokenizers_of_every_name_give_the_tokens_of_llama,
                    pieces_with_scores_give_the_tokens_of_llama, models_of_every_family_say_what_llama_says,
                    models_of_every_type_say_what_llama_says])
    sys.exit(failures > 0)
