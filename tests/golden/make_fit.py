"""Writes fit.h: a training of the GPT-2 of language.h on a long text by PyTorch's AdamW, as nanoGPT does it: weight
decay of matrices alone, a warmup, a cosine schedule to a least learning rate; and the perplexity of another text.

    pip install numpy torch transformers
    python make_fit.py

Everything is computed in float64 from numbers that are float32.
"""
import math

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from golden import Header

torch.set_num_threads(1)
VOCAB, WINDOW, STEPS, WARM = 19, 12, 8, 2
RATE, LEAST, BETA1, BETA2, EPS, DECAY, CLIP = (float(np.float32(x)) for x in (3e-3, 3e-4, .9, .95, 1e-8, .1, 1))


def formula(tensor, count, is_scale):
    """The weights of language.h, whose comment explains them."""
    word = 0xFFFFFFFF
    h = (tensor * 0x9E3779B9 + np.arange(count, dtype=np.uint64)) & word
    h = (h ^ h >> 16) * 0x85EBCA6B & word
    h = (h ^ h >> 13) * 0xC2B2AE35 & word
    h = (h ^ h >> 16).astype(np.int64)
    m = (h >> 14) + 917504 if is_scale else (h >> 12) - 524288
    return m.astype(np.float64) / 1048576


def gpt2():
    torch.set_default_dtype(torch.float64)
    config = GPT2Config(vocab_size=VOCAB, n_positions=WINDOW, n_embd=12, n_layer=2, n_head=3,
                        activation_function="gelu_new", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                        layer_norm_epsilon=1e-5, bos_token_id=None, eos_token_id=None)
    config._attn_implementation = "eager"
    model = GPT2LMHeadModel(config).eval()
    for number, (name, p) in enumerate(model.named_parameters()):
        p.data = torch.tensor(formula(number, p.numel(), name.endswith("weight") and ".ln_" in name)).reshape(p.shape)
    return model


def loss_of(model, text):
    """The mean over all tokens but the first, each predicted in one window: windows share a token."""
    total, count = 0, 0
    for at in range(0, len(text) - 1, WINDOW - 1):
        x = torch.tensor([text[at:at + WINDOW]])
        logits = model(x).logits[0, :-1]
        total = total + torch.nn.functional.cross_entropy(logits, x[0, 1:], reduction="sum")
        count += len(x[0]) - 1
    assert count == len(text) - 1
    return total / count


def rate(step):   # nanoGPT's get_lr()
    if step < WARM:
        return RATE * (step + 1) / (WARM + 1)
    ratio = (step - WARM) / (STEPS - WARM)
    return LEAST + 0.5 * (1 + math.cos(math.pi * ratio)) * (RATE - LEAST)


def main():
    rng = np.random.default_rng(17)
    text, other = rng.integers(0, VOCAB, 40).tolist(), rng.integers(0, VOCAB, 30).tolist()
    model = gpt2()
    named = list(model.named_parameters())
    groups = [{"params": [p for _, p in named if p.dim() >= 2], "weight_decay": DECAY},
              {"params": [p for _, p in named if p.dim() < 2], "weight_decay": 0.0}]
    adam = torch.optim.AdamW(groups, lr=RATE, betas=(BETA1, BETA2), eps=EPS)
    figures = []
    for step in range(STEPS):
        for group in adam.param_groups:
            group["lr"] = rate(step)
        adam.zero_grad()
        loss = loss_of(model, text)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        adam.step()
        with torch.no_grad():
            figures.append([loss.item(), norm.item(), rate(step), math.exp(loss_of(model, other).item())])
    h = Header("make_fit.py", "The model and its weights are those of language.h.", ["torch", "transformers"])
    h.case("fit: %d steps of AdamW on windows of the text side by side, all of them in each step; of each step the "
           "loss before it, the norm of the gradient, the learning rate, and the perplexity of `other` after it"
           % STEPS, fit_steps=STEPS, fit_window=WINDOW, fit_warm=WARM, fit_text=len(text), fit_other=len(other))
    h.array("int", "fit_token", text)
    h.array("int", "fit_other_token", other)
    for name, x in zip("rate least beta1 beta2 eps decay clip".split(),
                       (RATE, LEAST, BETA1, BETA2, EPS, DECAY, CLIP)):
        h.value("float", "fit_" + name, x)
    h.array("float", "fit_figures", figures)
    # every seventh parameter after the last step; the gradient of a key's bias is 0 but for rounding, which Adam
    # turns into steps of any sign
    keys = lambda name, i: name.endswith("c_attn.bias") and 12 <= i < 24
    kept = [(k, i, p.data.ravel()[i].item()) for k, (name, p) in enumerate(named)
            for i in range(k % 7, p.numel(), 7) if not keys(name, i)]
    h.case("fit_kept: some parameters after the last step: their tensors, their places there, and the numbers",
           fit_kept=len(kept))
    h.array("int", "fit_kept_tensor", [x[0] for x in kept])
    h.array("int", "fit_kept_place", [x[1] for x in kept])
    h.array("float", "fit_kept_number", [x[2] for x in kept])
    h.save("fit.h")


main()
