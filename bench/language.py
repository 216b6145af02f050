"""Hugging Face's GPT2LMHeadModel with the shape and the work of language.c, on one thread of the processor.

Prints the versions, and then the tokens per second of training and of sampling. The first rounds are not counted.
"""
import time

import torch
import transformers

VOCAB, CONTEXT, BATCH, STEPS, SAMPLES = 512, 128, 16, 10, 64

torch.set_num_threads(1)
torch.manual_seed(1)
print("transformers", transformers.__version__, "torch", torch.__version__.split("+")[0])
model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
    vocab_size=VOCAB, n_positions=CONTEXT, n_embd=128, n_layer=4, n_head=4,
    resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
data = torch.randint(VOCAB, (BATCH, CONTEXT))


def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(data, labels=data).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()


@torch.no_grad()
def sample(new):
    model.generate(data[:1, :1].repeat(SAMPLES, 1), do_sample=True, top_k=0, min_new_tokens=new, max_new_tokens=new,
                   pad_token_id=0)


def speed(work, amount, tokens):
    start = time.perf_counter()
    work(amount)
    return tokens / (time.perf_counter() - start)


train(3)
training = speed(train, STEPS, STEPS * BATCH * CONTEXT)
model.eval()
sample(8)
print(training, speed(sample, CONTEXT - 1, SAMPLES * (CONTEXT - 1)))
