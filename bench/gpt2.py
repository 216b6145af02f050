"""Hugging Face's GPT2LMHeadModel with the shape and the work of gpt2.c: gpt2.py THREADS prints the
versions, the seconds of a training step and the tokens per second of sampling one sequence, each with its
peak memory in MiB. The first rounds are not counted.
"""
import sys
import time

import torch
import transformers

from measure import measured

STEPS, LENGTH = 3, 64

print("transformers", transformers.__version__, "torch", torch.__version__.split("+")[0])
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
measured(lambda: seconds(train, STEPS - 1) / (STEPS - 1))
model.eval()
optimizer = None
model.zero_grad(set_to_none=True)
sample(4)
measured(lambda: LENGTH / seconds(sample, LENGTH))
