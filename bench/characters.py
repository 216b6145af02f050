"""nanoGPT's model and training in PyTorch, beside characters.sh: characters.py SEED STEPS THREADS.

4 layers of width 128, 4 heads, 64 characters, with biases and without dropout; batches of 12 random
windows; AdamW with betas 0.9 and 0.99 and a decay of 0.1 of matrices; a warm-up of 100 steps to 1e-3, then
a cosine to 1e-4; gradients clipped to 1. Prints the version, and then the seconds of each fifth of the
training, the processor's seconds of all of it, and the mean loss over the text that was held out, in
windows of 64 side by side.
"""
import math
import sys
import time

import torch
from torch import nn
from torch.nn import functional

WIDTH, LAYERS, HEADS, CONTEXT, BATCH = 128, 4, 4, 64, 12
seed, steps, threads = map(int, sys.argv[1:4])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.attention_out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp, self.mlp_out = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        parts = self.attention(self.ln_1(x)).split(WIDTH, 2)
        q, k, v = (y.view(batch, length, HEADS, -1).transpose(1, 2) for y in parts)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attention_out(y.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp_out(functional.gelu(self.mlp(self.ln_2(x))))


class Model(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.token, self.position = nn.Embedding(vocab, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks, self.ln = nn.Sequential(*(Block() for _ in range(LAYERS))), nn.LayerNorm(WIDTH)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * LAYERS) if name.endswith("_out.weight") else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, x):
        x = self.blocks(self.token(x) + self.position.weight[: x.shape[1]])
        return functional.linear(self.ln(x), self.token.weight)  # the table of tokens is the head, too


def loss_of(x, y):
    return functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


def rate(step):
    if step < 100:
        return 1e-3 * (step + 1) / 101
    return 1e-4 + 0.5 * (1 + math.cos(math.pi * (step - 100) / max(1, steps - 100))) * 9e-4


def train(first, last):
    for step in range(first, last):
        at = torch.randint(len(text) - CONTEXT, (BATCH,)).tolist()
        x = torch.stack([text[i: i + CONTEXT] for i in at])
        y = torch.stack([text[i + 1: i + 1 + CONTEXT] for i in at])
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        optimizer.zero_grad(set_to_none=True)
        loss_of(x, y).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()


@torch.no_grad()
def held_out_loss():
    windows = (len(held_out) - 1) // CONTEXT
    x = held_out[: windows * CONTEXT].view(windows, CONTEXT)
    y = held_out[1: windows * CONTEXT + 1].view(windows, CONTEXT)
    parts = [loss_of(x[i: i + 64], y[i: i + 64]).item() * len(x[i: i + 64]) for i in range(0, windows, 64)]
    return sum(parts) / windows


torch.set_num_threads(threads)
torch.manual_seed(seed)
print("torch", torch.__version__.split("+")[0])
text, held_out = (open(f"build/characters/{name}.txt").read() for name in ("train", "held_out"))
number = {c: i for i, c in enumerate(sorted(set(text + held_out)))}
text, held_out = (torch.tensor([number[c] for c in t]) for t in (text, held_out))
model = Model(len(number))
optimizer = torch.optim.AdamW(
    [{"params": [p for p in model.parameters() if p.dim() == 2], "weight_decay": 0.1},
     {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0}],
    lr=1e-3, betas=(0.9, 0.99), fused=True)
processor = time.process_time()
for fifth in range(5):
    began = time.perf_counter()
    train(fifth * steps // 5, (fifth + 1) * steps // 5)
    print(time.perf_counter() - began, flush=True)
print(time.process_time() - processor)
print(held_out_loss())
