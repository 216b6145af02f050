"""Hugging Face's GPT2LMHeadModel with the shape and the work of gpt2.c: gpt2.py THREADS prints the seconds of a training
step and the tokens per second of sampling one sequence. The first rounds are not counted.
"""
import sys
import time

import torch
import transformers

STEPS, LENGTH = 4, 64

torch.set_num_threads(int(sys.argv[1]))
torch.manual_seed(1)
model = transformers.GPT2LMHeadModel(transformers.GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
data = torch.randint(50257, (4, LENGTH + 1))


def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(data[:, :-1]).logits.flatten(0, 1), data[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()


@torch.no_grad()
def sample(new):
    model.generate(data[:1, :1], do_sample=True, top_k=0, min_new_tokens=new, max_new_tokens=new, pad_token_id=0)


def seconds(work, argument):
    start = time.perf_counter()
    work(argument)
    return time.perf_counter() - start


train(1)
print(seconds(train, STEPS - 1) / (STEPS - 1))
model.eval()
sample(4)
print(LENGTH / seconds(sample, LENGTH))
