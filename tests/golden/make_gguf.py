"""Writes gguf.h: a small file of llama's architecture by the package gguf, whose tensors are of eight types, with its logits
by a forward pass of its own in the file's order of rows; and blocks of all types with their numbers.

    pip install numpy==2.4.6 gguf==0.19.0
    python make_gguf.py
"""
import os
import tempfile

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Q

from golden import Header

WIDTH, HEADS, KV, SIZE, HIDDEN, EPS = 32, 2, 1, 16, 8, 1e-5
TOKENS = list("abcdehnt\u0120") + ["th", "the", "\u0120the", "an", "and", "\u0120and", "\u0120a", "\u00c3", "\u00a9", "\u00c3\u00a9",
                                   "<|end|>", "<x y>", "1", "[PAD22]", "[PAD23]"]
MERGES = ["t h", "th e", "\u0120 the", "a n", "an d", "\u0120 and", "\u0120 a", "\u00c3 \u00a9"]
IDS = [11, 14, 3, 20, 0, 9]
rng = np.random.default_rng(1)


def spell(b, after):
    """A byte in a string of C; `after`: the next one, which must not look like a digit of this one."""
    if 32 <= b < 127 and chr(b) not in '"\\?':
        return chr(b)
    return "\\%o" % b if not 48 <= after < 56 else "\\%03o" % b


def put_bytes(h, name, data):
    """Rows of 64 bytes, each with a 0 after it."""
    rows = [bytes(data[k:k + 64]) for k in range(0, len(data), 64)]
    h.lines.append("enum { g_%s_bytes = %d };\nstatic const char g_%s[][65] = {" % (name, len(data), name))
    h.lines.extend('    "%s",' % "".join(spell(b, after) for b, after in zip(row, row[1:] + b"x")) for row in rows)
    h.lines.append("};")


def quantized(shape, kind, scale=0.3):
    x = (rng.standard_normal(shape) * scale).astype(np.float32)
    raw = x if kind == Q.F32 else gguf.quants.quantize(x, kind)
    return raw, x if kind == Q.F32 else gguf.quants.dequantize(raw, kind)


def norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight


def rotate(x):
    """Neighbors are a pair: llama.cpp's order of rows."""
    angle = np.arange(len(x))[:, None] * 10000.0 ** (-2 * np.arange(SIZE // 2) / SIZE)
    c, s, out = np.cos(angle)[:, None], np.sin(angle)[:, None], np.empty_like(x)
    out[..., 0::2], out[..., 1::2] = x[..., 0::2] * c - x[..., 1::2] * s, x[..., 0::2] * s + x[..., 1::2] * c
    return out


def forward(w, ids):
    x = w["token_embd.weight"][ids]
    n, y = len(ids), norm(x, w["blk.0.attn_norm.weight"])
    q = rotate((y @ w["blk.0.attn_q.weight"].T).reshape(n, HEADS, SIZE))
    k = rotate((y @ w["blk.0.attn_k.weight"].T).reshape(n, KV, SIZE)).repeat(HEADS // KV, 1)
    v = (y @ w["blk.0.attn_v.weight"].T).reshape(n, KV, SIZE).repeat(HEADS // KV, 1)
    score = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(SIZE) + np.triu(np.full((n, n), -np.inf), 1)
    p = np.exp(score - score.max(-1, keepdims=True))
    x = x + np.einsum("hij,jhd->ihd", p / p.sum(-1, keepdims=True), v).reshape(n, -1) @ w["blk.0.attn_output.weight"].T
    y = norm(x, w["blk.0.ffn_norm.weight"])
    gate = y @ w["blk.0.ffn_gate.weight"].T
    x = x + (gate / (1 + np.exp(-gate)) * (y @ w["blk.0.ffn_up.weight"].T)) @ w["blk.0.ffn_down.weight"].T
    return norm(x, w["output_norm.weight"]) @ w["token_embd.weight"].T


def model(h):
    path = os.path.join(tempfile.mkdtemp(), "golden.gguf")
    out, weights = gguf.GGUFWriter(path, "llama"), {}
    for name, value in [("context_length", 16), ("embedding_length", WIDTH), ("block_count", 1), ("feed_forward_length", HIDDEN),
                        ("head_count", HEADS), ("head_count_kv", KV), ("rope_dimension_count", SIZE), ("layer_norm_rms_eps", EPS),
                        ("bos_token_id", 19), ("eos_token_id", 19), ("add_bos_token", True), ("chat_template", "{{ 1 }}")]:
        getattr(out, "add_" + name)(value)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("smollm")
    out.add_token_list(TOKENS)
    out.add_token_types([3 if t == "<|end|>" else 4 if t == "<x y>" else 5 if "PAD" in t else 1 for t in TOKENS])
    out.add_token_merges(MERGES)
    for name, shape, kind in [
            ("token_embd", (len(TOKENS), WIDTH), Q.Q8_0), ("blk.0.attn_norm", (WIDTH,), Q.F32), ("blk.0.ffn_norm", (WIDTH,), Q.F32),
            ("blk.0.attn_q", (HEADS * SIZE, WIDTH), Q.Q4_0), ("blk.0.attn_k", (KV * SIZE, WIDTH), Q.Q4_1),
            ("blk.0.attn_v", (KV * SIZE, WIDTH), Q.Q5_0), ("blk.0.attn_output", (WIDTH, HEADS * SIZE), Q.Q5_1),
            ("blk.0.ffn_gate", (HIDDEN, WIDTH), Q.F16), ("blk.0.ffn_up", (HIDDEN, WIDTH), Q.BF16),
            ("blk.0.ffn_down", (WIDTH, HIDDEN), Q.F32), ("output_norm", (WIDTH,), Q.F32)]:
        raw, x = quantized(shape, kind)
        if len(shape) == 1:
            raw = x = x + 1
        weights[name + ".weight"] = x.astype(np.float64)
        out.add_tensor(name + ".weight", raw, raw_dtype=kind)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    h.case("A file, and the logits after each of some tokens.", gguf_ids=len(IDS), gguf_vocab=len(TOKENS))
    put_bytes(h, "gguf_file", np.fromfile(path, np.uint8).tobytes())
    h.array("int", "gguf_id", IDS)
    h.array("float", "gguf_logits", forward(weights, IDS))


def blocks(h):
    """256 numbers of each type: every sixteenth, and all of them in a sum that tells their order."""
    halves = {Q.Q4_0: [0], Q.Q4_1: [0, 2], Q.Q5_0: [0], Q.Q5_1: [0, 2], Q.Q8_0: [0], Q.Q2_K: [80, 82], Q.Q3_K: [108], Q.Q4_K: [0, 2],
              Q.Q5_K: [0, 2], Q.Q6_K: [208]}
    weights = np.arange(256) * 37 % 101
    h.case("256 numbers of each type of blocks: its number, bytes; each 16th; the sum of all times (37 k %% 101).".replace("%%", "%"),
           gguf_kinds=len(halves))
    raw, some, sums = [], [], []
    for kind, places in halves.items():
        count, size = gguf.GGML_QUANT_SIZES[kind]
        block = rng.integers(0, 256, (256 // count, size), dtype=np.uint8)
        for at in places:
            scale = rng.uniform(0.01, 0.02, (len(block), 1)) * (-1 if at in (2, 82) else 1)
            block[:, at:at + 2] = scale.astype(np.float16).view(np.uint8)
        x = gguf.quants.dequantize(block.reshape(1, -1), kind).ravel().astype(np.float64)
        raw.append(block.ravel())
        some.append(x[5::16])
        sums.append((x * weights).sum())
    h.array("int", "gguf_kind", [int(k) for k in halves])
    h.array("int", "gguf_kind_bytes", [len(r) for r in raw])
    put_bytes(h, "gguf_kind_raw", np.concatenate(raw).tobytes())
    h.array("float", "gguf_kind_some", np.stack(some))
    h.array("float", "gguf_kind_sum", sums)


if __name__ == "__main__":
    header = Header("make_gguf.py", "Files and blocks of GGUF.", ["gguf"])
    model(header)
    blocks(header)
    header.save("gguf.h")
