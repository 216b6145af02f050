"""The chats of ppo_chat.h beside transformers' apply_chat_template().

    doors_chat.py PROGRAM TEMPLATES [CHATS]

TEMPLATES is a folder with chat templates, *.jinja, as repositories have them. Each that ppo_chat_form() recognizes must give the
same tokens for CHATS random chats, without and with a reply asked for, with and without thinking; others are listed.
"""
import os
import random
import subprocess
import sys
import tempfile

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AddedToken, PreTrainedTokenizerFast

SPECIALS = ["<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<s>",
            "</s>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<|endoftext|>", "<|start_of_role|>",
            "<|end_of_role|>", "<|end_of_text|>"]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
PHI = ["<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]  # which takes the spaces after them
WORDS = ["Name", " three", " colors.", "It's", " ", "  ", "\n", "\n\n", "\t", "é", "日本", "🙂", " 42", "a", "b", "\u00a0", "{x}",
         " $5", " 100%", "<think>", "</think>", "<think>\nfirst\n</think>\n\n", "<tool_response>", "</tool_response>", "'", '"',
         "\\n", "{{ x }}"]
SYSTEM = ["/no_think", "/think", "/system_override", " be brief", ""]


def tokenizer(template):
    bos, eos = next((ends for mark, ends in [("start_header_id", ("<|begin_of_text|>", "<|eot_id|>")),
                                             ("start_of_turn", ("<bos>", "<eos>")), ("<|end|>", ("<s>", "<|endoftext|>")),
                                             ("{{ bos_token }}{% for", ("<|endoftext|>", "<|endoftext|>")),
                                             ("<|user|>", ("<s>", "</s>")), ("message['role'] + '|>", ("<s>", "</s>"))]
                     if mark in template), ("<|endoftext|>", "<|endoftext|>"))
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([" ".join(WORDS) * 3, template], trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    phi = "<|end|>" in template
    t.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in SPECIALS]
                         + [AddedToken(s, normalized=False, special=True, rstrip=True) for s in PHI if phi])
    t.add_tokens([AddedToken(s, normalized=False, special=False) for s in ["<think>", "</think>"]])
    return PreTrainedTokenizerFast(tokenizer_object=t, bos_token=bos, eos_token=eos, chat_template=template)


def text(rng, answer):
    said = "".join(rng.choice(WORDS) for _ in range(rng.randrange(8)))
    return said.lstrip() if answer else said  # which is encoded separately from what precedes it


def chat(rng):
    said = []
    if rng.random() < 0.5:
        said.append(("system", text(rng, False) + (rng.choice(SYSTEM) if rng.random() < 0.3 else "")))
    for turn in range(rng.randrange(1, 6)):
        role = ["user", "assistant"][turn % 2]
        if rng.random() < 0.05:
            role = rng.choice(["user", "assistant", "system"])
        said.append((role, text(rng, role == "assistant")))
    return said


def main():
    program, folder, count = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 200
    rng = random.Random(1)
    chats = [chat(rng) for _ in range(count)]
    given = "".join("".join("%s %d\n%s\n" % (role, len(said.encode()), said) for role, said in c) + "end 0\n" for c in chats)
    recognized, refused, wrong = 0, [], 0
    for name in sorted(os.listdir(folder)):
        template = open(os.path.join(folder, name), newline="").read() if name.endswith(".jinja") else None
        if not template:
            continue
        t = tokenizer(template)
        with tempfile.TemporaryDirectory() as here:
            t.save_pretrained(here)
            form = ""
            for thinking in range(2):
                out = subprocess.run([program, here, str(thinking)], input=given.encode(), capture_output=True, check=True)
                lines = out.stdout.decode(errors="replace").split("\n")
                form = lines[0]
                if " " in form:
                    refused.append(name)
                    break
                bad = errors = 0
                for i, c in enumerate(chats):
                    for reply in range(2):
                        line = lines[1 + 2 * i + reply]
                        try:
                            ids = t.apply_chat_template([{"role": r, "content": s} for r, s in c], add_generation_prompt=bool(reply),
                                                        enable_thinking=bool(thinking), return_dict=False)
                            same = line == " ".join(map(str, ids))
                        except Exception as e:  # a template that refuses a chat
                            ids, same = str(e), bool(line) and not line[0].isdigit()
                            errors += 1
                        if not same and "smollm3 with thinking" in line:
                            errors += 1
                        elif not same:
                            bad += 1
                            if bad == 1:
                                print(name, thinking, reply, c, "\n  is    ", repr(t.decode([int(x) for x in line.split()]) if line[:1].isdigit() else line),
                                      "\n  not   ", repr(t.decode(ids) if isinstance(ids, list) else ids))
                print("%-45s %-10s thinking %d: %d chats, %d differ, %d are refused" % (name, form, thinking, 2 * count, bad, errors))
                wrong += bad
            recognized += " " not in form
    print("%d templates: %d recognized, %d refused: %s" % (recognized + len(refused), recognized, len(refused), " ".join(refused)))
    return wrong > 0 or not recognized


sys.exit(main())
