"""Hugging Face's GPT2LMHeadModel with the shape and the work of language.c.

Prints the versions, and then the tokens per second of training and of sampling 1, 16 and 64 sequences on one thread,
and of training and of sampling 16 and 64 on two, each with its peak memory in MiB. The first rounds are not counted.
"""
import time

import torch
import transformers

from measure import measured

VOCAB, CONTEXT, BATCH, STEPS, SEQUENCES = 512, 128, 16, 10, (1, 16, 64)

torch.set_num_threads(1)
torch.manual_seed(1)
print("transformers", transformers.__version__, "torch", torch.__version__.split("+")[0])
model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
    vocab_size=VOCAB, n_positions=CONTEXT, n_embd=128, n_layer=4, n_head=4,
    resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
data = torch.randint(VOCAB, (BATCH, CONTEXT))


def train(steps, optimizer):
    for _ in range(steps):
        optimizer.zero_grad()
        model(data, labels=data).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()


@torch.no_grad()
def sample(count, new):
    model.generate(data[:1, :1].repeat(count, 1), do_sample=True, top_k=0, min_new_tokens=new, max_new_tokens=new,
                   pad_token_id=0)


def speed(tokens, work, *arguments):
    start = time.perf_counter()
    work(*arguments)
    return tokens / (time.perf_counter() - start)


def measure_training():
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    train(3, optimizer)
    measured(speed, STEPS * BATCH * CONTEXT, train, STEPS, optimizer)
    model.zero_grad(set_to_none=True)


def measure_sampling(sequences):
    model.eval()
    sample(8, 8)
    for count in sequences:
        measured(speed, count * (CONTEXT - 1), sample, count, CONTEXT - 1)


measure_training()
measure_sampling(SEQUENCES)
torch.set_num_threads(2)
measure_training()
measure_sampling(SEQUENCES[1:])
