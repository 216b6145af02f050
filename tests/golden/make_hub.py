"""Writes hub.h: small files tokenizer.json of every kind that ppo_tokenizer_load() reads, and what Hugging
Face's libraries make of some strings and of a chat with them.

    pip install numpy==2.4.6 tokenizers==0.23.3 transformers==5.23.0
    python make_hub.py

A file is a head of its own and one of two bodies, which hold the vocabulary and the merges: one of bytes, with
merges as "a b", and one of characters with a fallback to bytes, with merges as ["a", "b"].
"""
import json

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from golden import Header
from make_tokenizers import make_text

GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3 = (r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"""
          r"""\s*[\r\n]+|\s+(?!\S)|\s+""")
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = QWEN2.replace(r"\p{L}+", r"[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")

STRINGS = ["", " ", "a", "The pole doesn't know it's bound.", "  two, one \n\n  and lines\n",
           "I'LL've Y'aLl'd '\u017f 'Re 'M", "12345678 3.14 \u0662\u0663\u00bd\u2460 x86",
           "d\xe9j\xe0 vu, ночь 世界。\u0939\u093f\u0928", "\U0001f600\U0001f44d\U0001f3fd \u200d\ufeff",
           "e\u0301 a\u0323\u0308x\u0308\u0323 \u1112\u1161\u11ab \uf900\u212b\u0344\u0958 \u0d4a",
           "tabs\tand\r\nreturns \r\n \v\f \x01\x7f", "\xa0nbsp\u2003em \u2003 ",
           " \u2581a\u2581\u2581 b \u2581 ", "<|endoftext|>", "a <|im_end|>b<tool_call> x<|im_end|",
           "<s>x</s> <s> y<0x0A><unk>", " unreachable unreachable", "reward        rewards!!!!\n\n\nlow",
           "x\n \n\t y", "\u30cf\u309a\u30ac\u0344\ud55c\uae00", "\u2581x q\u0308\u0323\u0345\u0334", "a  x<|im_end| \n b", "y</s>z", "rerewardward 's"]

CHAT = [
    ("system", "The cart doesn't know."),
    ("user", "  Is it <|im_ or what? "),
    ("assistant", "It's bound."),
    ("user", "low\n"),
    ("assistant", "lower <|im_end")]
TEMPLATES = [
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "{% for message in messages %}{% set content = '<|start_header_id|>' + message['role'] + "
    "'<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}"
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}"
    "{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
    "{% for message in messages %}\n{% if message['role'] == 'user' %}\n"
    "{{ '<|user|>\n' + message['content'] + eos_token }}\n"
    "{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n"
    "{% elif message['role'] == 'assistant' %}\n"
    "{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n"
    "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"]

TEXT = make_text() + "世界 你好世界。 नमस्ते नमस्ते \u0391\u03b8\u03ae\u03bd\u03b1 " * 3


def added(id, content, special=True, normalized=False, lstrip=False, rstrip=False):
    return dict(
        id=id,
        content=content,
        single_word=False,
        lstrip=lstrip,
        rstrip=rstrip,
        normalized=normalized,
        special=special)


def bodies():
    """The vocabulary and the merges of bytes, then of characters."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.train_from_iterator(
        [TEXT],
        trainers.BpeTrainer(
            vocab_size=460,
            show_progress=False,
            special_tokens=["<|endoftext|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    model = json.loads(t.to_str())["model"]
    vocab = dict(model["vocab"], **{"\u0120unreachable": len(model["vocab"])})
    yield dict(vocab=vocab, merges=[" ".join(m) for m in model["merges"]]), len(vocab)
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    t.train_from_iterator([TEXT], trainers.BpeTrainer(
        vocab_size=520, show_progress=False,
        special_tokens=["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)]))
    model = json.loads(t.to_str())["model"]
    yield dict(vocab=model["vocab"], merges=model["merges"]), len(model["vocab"])


def sequence(list, *parts):
    return {"type": "Sequence", list: [dict(part) for part in parts]}


def split(regex):
    return dict(type="Split", pattern={"Regex": regex}, behavior="Isolated", invert=False)


def byte_level(**settings):
    return dict(dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True), **settings)


def template(*parts):
    return dict(
        type="TemplateProcessing", pair=[],
        special_tokens={p: dict(id=p, ids=[1],
                                tokens=[p]) for p in parts if p != "A"},
        single=[{"Sequence": dict(id="A", type_id=0)}
                if p == "A" else {"SpecialToken": dict(id=p, type_id=0)} for p in parts])


def kinds(n):
    """name, body, head; n: tokens of the body of bytes."""
    names = [
        "<|im_start|>",
        "<|im_end|>",
        "<|begin_of_text|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eot_id|>"]
    tokens = [added(0, "<|endoftext|>")] + [added(n + i, name) for i, name in enumerate(names)]
    spaces = [added(n + 4 + k, " " * k, special=False, normalized=True) for k in range(2, 12)]
    odd = [
        added(
            n + 6,
            "<tool_call>",
            special=False),
        added(
            n + 7,
            "x<|im_end|",
            special=True,
            lstrip=True,
            rstrip=True)]
    nfc, words = dict(type="NFC"), byte_level(use_regex=False)
    ends = sequence("processors", byte_level(), template("<|begin_of_text|>", "A"))
    ends["processors"][1]["special_tokens"]["<|begin_of_text|>"]["ids"] = [n + 2]
    for name, tokens_, normalizer, cut, post, whole in [
            ("gpt2", tokens, None, byte_level(add_prefix_space=True), byte_level(), False),
            ("pythia", tokens + spaces, nfc, byte_level(), byte_level(), False),
            ("smollm2", tokens + odd, None,
             sequence("pretokenizers", dict(type="Digits", individual_digits=True), byte_level()), None, False),
            ("llama3", tokens, None, sequence("pretokenizers", split(LLAMA3), words), ends, True),
            ("qwen2", tokens + odd, nfc, sequence("pretokenizers", split(QWEN2), words), byte_level(), False),
            ("qwen35", tokens, None, sequence("pretokenizers", split(QWEN35), words), None, False),
            ("split", tokens, None, sequence("pretokenizers", split(GPT2), words), None, False)]:
        model = dict(type="BPE", ignore_merges=whole)
        yield name, 0, dict(version="1.0", truncation=None, padding=None, added_tokens=tokens_,
                            normalizer=normalizer, pre_tokenizer=cut, post_processor=post,
                            decoder=byte_level(), model=model)
    space = "\u2581"
    rewrite = sequence(
        "normalizers", dict(
            type="Prepend", prepend=space), dict(
            type="Replace", pattern={
                "String": " "}, content=space))
    decode = [
        dict(
            type="Replace", pattern={
                "String": space}, content=" "), dict(
            type="ByteFallback"), dict(
                    type="Fuse"), dict(
                        type="Strip", content=" ", start=1, stop=0)]
    both, bos = template("<s>", "A", "</s>"), template("<s>", "A")
    both["special_tokens"]["</s>"]["ids"] = [2]

    def meta(scheme, cut):
        return dict(type="Metaspace", replacement=space, prepend_scheme=scheme, split=cut)
    for name, normalized, normalizer, cut, parts, post, fallback in [
            ("llama2", False, rewrite, None, decode, both, True),
            ("legacy", True, rewrite, None, decode, bos, True),
            ("first", False, None, meta("first", False), decode, bos, True),
            ("always", False, None, meta("always", True), decode, None, False),
            ("never", False, None, meta("never", False), decode[:3], None, True)]:
        tokens = [added(i, c, normalized=normalized) for i, c in enumerate(["<unk>", "<s>", "</s>"])]
        model = dict(type="BPE", dropout=None, unk_token="<unk>", continuing_subword_prefix=None,
                     end_of_word_suffix=None, fuse_unk=True, byte_fallback=fallback)
        yield name, 1, dict(version="1.0", added_tokens=tokens, normalizer=normalizer, pre_tokenizer=cut,
                            post_processor=post, decoder=sequence("decoders", *parts), model=model)


def text(h, name, value):
    """Strings of C, which together are the text."""
    lines, line = [], ""
    for byte in value.encode("utf-8"):
        c = chr(byte)
        line += "\\" + c if c in '"\\' else c if " " <= c <= "~" and c != "?" else "\\%03o" % byte
        if len(line) > 98:
            lines, line = lines + [line], ""
    h.lines.append(
        "static const char *const g_%s[] = {\n%s,\n    NULL};" %
        (name, ",\n".join(
            '    "%s"' %
            s for s in lines + [line])))


def fnv(data):
    hash = 0xcbf29ce484222325
    for byte in data:
        hash = (hash ^ byte) * 0x100000001b3 & (1 << 64) - 1
    return hash & 0xffffffff


if __name__ == "__main__":
    from transformers import PreTrainedTokenizerFast
    h = Header(
        "make_hub.py", "Files tokenizer.json in parts, and the tokens of strings.", [
            "tokenizers", "transformers"])

    def dump(x): return json.dumps(x, separators=(",", ":"))
    (first, n), (second, _) = bodies()
    texts = [s.encode("utf-8") for s in STRINGS]
    rows = list(kinds(n))
    h.case("hub", hub_kinds=len(rows), hub_strings=len(STRINGS))
    text(h, "hub_body_0", dump(first)[1:] + "}")
    text(h, "hub_body_1", dump(second)[1:] + "}")
    h.array("unsigned char", "hub_string", list(b"".join(texts)))
    h.array("int", "hub_string_bytes", [len(t) for t in texts])
    counts, tokens, hashes, whole = [], [], [], {}
    for name, body, head in rows:
        start = dump(head)[:-2] + ","
        text(h, "hub_head_" + name, start)
        whole[name] = start + dump([first, second][body])[1:] + "}"
        t = Tokenizer.from_str(whole[name])
        for plain in (True, False):
            t.encode_special_tokens = plain
            for s in STRINGS:
                ids = t.encode(s, add_special_tokens=not plain).ids
                counts.append(len(ids))
                tokens += ids
                hashes.append(fnv(t.decode(ids, skip_special_tokens=False).encode("utf-8")))
    h.lines.append(
        "static const struct {\n    const char *name;\n    const char *const *head, *const *body;\n"
        "} g_hub[] = {\n%s};" %
        ",\n".join(
            '    {"%s", g_hub_head_%s, g_hub_body_%d}' %
            (name, name, body) for name, body, _ in rows))
    h.comment(
        "for each file the strings as plain texts, then with names of special tokens and what goes around texts: "
        "how many tokens, the tokens, and the low half of the FNV-1a of what they are decoded to")
    h.array("int", "hub_count", counts)
    h.array("int", "hub_token", tokens)
    h.array("unsigned int", "hub_decoded", hashes)
    h.case("chats: by form, the tokens without and with a reply asked for",
           hub_messages=len(CHAT))
    h.lines.append("static const char *const g_hub_message[][2] = {\n%s};" % ",\n".join(
        "    {%s, %s}" % (json.dumps(r), json.dumps(c)) for r, c in CHAT))
    counts, tokens = [], []
    for form, (name, bos, eos) in enumerate(
            [("qwen2", None, "<|im_end|>"), ("llama3", "<|begin_of_text|>", "<|eot_id|>"),
             ("llama2", "<s>", "</s>")]):
        t = PreTrainedTokenizerFast(
            tokenizer_object=Tokenizer.from_str(
                whole[name]), bos_token=bos, eos_token=eos)
        t.chat_template = TEMPLATES[form]
        for reply in (False, True):
            messages = [dict(role=r, content=c) for r, c in CHAT]
            ids = t.apply_chat_template(
                messages,
                tokenize=True,
                add_generation_prompt=reply,
                return_dict=False)
            counts.append(len(ids))
            tokens += ids
    h.array("int", "hub_chat_count", counts)
    h.array("int", "hub_chat_token", tokens)
    h.save("hub.h")
