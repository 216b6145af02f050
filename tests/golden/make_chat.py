"""Writes chat.h: what transformers' apply_chat_template() makes of 200 chats, by chat templates of published models.

    pip install transformers jinja2 numpy torch
    python make_chat.py TEMPLATES

TEMPLATES is a folder with the models' templates under the names of ppo_chat.h's forms, as qwen3.jinja. For each form there is a
hash (FNV-1a) of all texts, each without and with a reply asked for, with and without thinking; the text of a chat that a template
refuses is "refused". The chats are made from numbers that test_chat.c makes, too. Then what the processors of generate() make of
logits: repetition_penalty, temperature, top_k, top_p, min_p.
"""
import datetime
import os
import sys

import numpy as np
import torch
import transformers.utils.chat_template_utils as utils

from transformers import (MinPLogitsWarper, RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper, TopKLogitsWarper,
                          TopPLogitsWarper)

from golden import Header, r32

CHATS = 200
FORMS = ("chatml llama3 zephyr llama3.1 llama3.2 qwen2 qwen2.5 qwen3 smollm2 smollm3 gemma gemma3 phi3 phi3.5 olmo2 granite3.0 "
         "granite granite3.3 granite4").split()
WORDS = ["Name", " three", "It's", " ", "  ", "\n", "\n\n", "\t", "\u00e9", "\u65e5", " 42", "\u00a0", "{x}", " $5", " 100%",
         "<think>", "</think>", "<think>\nfirst\n</think>\n\n", "<tool_response>", "</tool_response>", "'", "\\n"]
ORDERS = ["/no_think", "/think", "/system_override", " be brief", ""]


class Today(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 2, 3)


class Numbers:
    def __init__(self):
        self.x = 1

    def below(self, n):
        self.x = (self.x * 6364136223846793005 + 1442695040888963407) % 2 ** 64
        return (self.x >> 33) % n


def text(numbers):
    return "".join(WORDS[numbers.below(len(WORDS))] for _ in range(numbers.below(8)))


def chat(numbers):
    said = []
    if numbers.below(2):
        said.append(["system", text(numbers)])
        if not numbers.below(3):
            said[0][1] += ORDERS[numbers.below(len(ORDERS))]
    for turn in range(1 + numbers.below(5)):
        role = ["user", "assistant"][turn % 2]
        if not numbers.below(20):
            role = ["user", "assistant", "system"][numbers.below(3)]
        said.append([role, text(numbers)])
    return said


def fnv1a(h, data):
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 % 2 ** 64
    return h


def sampling(out):
    rng = np.random.default_rng(2)
    logits, text = r32(2 * rng.normal(size=(4, 12))), rng.integers(12, size=(4, 6))
    penalty, temperature, min_p, top_p = (float(np.float32(x)) for x in (1.3, .8, .2, .9))
    steps = [TemperatureLogitsWarper(temperature), TopKLogitsWarper(9), TopPLogitsWarper(top_p), MinPLogitsWarper(min_p)]

    def after(*processors):
        x = torch.tensor(logits)
        for processor in processors:
            x = processor(torch.tensor(text), x)
        return torch.softmax(x, -1).numpy()

    out.case("Probabilities after the processors: min_p alone, all but the penalty, the penalty and all, by rows.", after_rows=4,
             after_vocab=12, after_text=6, after_top_k=9)
    for name, x in [("penalty", penalty), ("temperature", temperature), ("min_p", min_p), ("top_p", top_p)]:
        out.value("float", "after_" + name, x)
    out.array("float", "after_logits", logits)
    out.array("int", "after_tokens", text)
    out.array("float", "after_min_p_alone", after(steps[3]))
    out.array("float", "after_all_but", after(*steps))
    out.array("float", "after_all", after(RepetitionPenaltyLogitsProcessor(penalty), *steps))


def main():
    utils.datetime = Today
    numbers = Numbers()
    chats = [[{"role": r, "content": s} for r, s in chat(numbers)] for _ in range(CHATS)]
    out = Header("make_chat.py", "See there what the numbers are.", ["transformers", "jinja2", "torch", "numpy"])
    out.case("Hashes of the texts of all chats, by form, without and with thinking: two halves each.", chats=CHATS)
    hashes = []
    for form in FORMS:
        template = utils._compile_jinja_template(open(os.path.join(sys.argv[1], form + ".jinja")).read())
        bos, eos = {"gemma": ("<bos>", "<eos>"), "gemma3": ("<bos>", "<eos>"), "zephyr": ("<s>", "</s>"),
                    "olmo2": ("<|endoftext|>", "<|endoftext|>"), "phi3": ("<s>", "<|endoftext|>"),
                    "phi3.5": ("<s>", "<|endoftext|>")}.get(form, ("<|begin_of_text|>", "<|end_of_text|>"))
        for thinking in range(2):
            h = 0xcbf29ce484222325
            for said in chats:
                for reply in range(2):
                    try:
                        made = template.render(messages=said, add_generation_prompt=bool(reply), enable_thinking=bool(thinking),
                                               bos_token=bos, eos_token=eos)
                        if "role as an assistant involves" in made:
                            made = "refused"  # smollm3 thinks about a longer text
                    except Exception:  # a template that refuses the chat
                        made = "refused"
                    h = fnv1a(h, made.encode() + b"\0")
            hashes += [h >> 32, h % 2 ** 32]
    out.array("unsigned int", "chat_hash", hashes)
    sampling(out)
    out.save("chat.h")


main()
