"""The work of cuda.cu in PyTorch, compiled by torch.compile, and in Liger-Kernel, if that is installed.

The first line printed has the versions. Then each input line requests one kind of work with its sizes, such
as "forward bfloat16 8192 131072". The answer is the seconds per call, and the most bytes that a call holds
beyond inputs and gradients (0: not measured); or a sentence that says why there are none. The first request
for a kind of work compiles it, which is not timed. To check that it works:

    printf 'kl float32 16 100\\nunfused bfloat16 16 32 100\\n' | python3 bench/cuda_peers.py --device cpu
"""
import argparse
import functools
import gc
import math
import os
import sys
import time

import torch
import torch._dynamo
import torch._functorch.config

SECONDS = 0.03  # that a measurement takes at least

parser = argparse.ArgumentParser()
parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
device = parser.parse_args().device
on_gpu = device == "cuda"
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # so that output of libraries is not an answer


def versions():
    try:
        import liger_kernel.transformers  # noqa: F401
        from importlib.metadata import version
        liger = "Liger-Kernel " + version("liger_kernel")
    except Exception as error:
        liger = f"no Liger-Kernel ({type(error).__name__})"
    return f"PyTorch {torch.__version__}, {liger}"


# --- inputs, one set of sizes at a time ---------------------------------------------------------------------

def turns(size):
    """Number of inputs of this size that must alternate so that none is in the cache when used again."""
    return 1 + 8 * torch.cuda.get_device_properties(0).L2_cache_size // size if on_gpu else 2


def normal(kind, *shape, scale=1.0):
    return torch.randn(*shape, device=device, dtype=getattr(torch, kind)).mul_(scale)


@functools.cache
def logits_of(kind, n, vocab, which):
    """Several (n, vocab)."""
    size = n * vocab * getattr(torch, kind).itemsize
    return [normal(kind, n, vocab, scale=3).requires_grad_() for _ in range(turns(size))]


@functools.cache
def token_of(n, vocab):
    return torch.randint(vocab, (n,), device=device)


@functools.cache
def linear_of(kind, n, width, vocab):
    """Inputs of a linear layer and the loss after it, with ratios near 1."""
    x = normal(kind, n, width).requires_grad_()
    w = normal(kind, vocab, width, scale=3 / math.sqrt(width)).requires_grad_()
    token = token_of(n, vocab)
    with torch.no_grad():
        old = torch.cat([
            torch.log_softmax((x[i:i + 256] @ w.T).float(), -1).gather(-1, token[i:i + 256, None])[:, 0]
            for i in range(0, n, 256)])
    return x, w, token, old, normal("float32", n)


def give_back_memory():
    gc.collect()
    if on_gpu:
        torch.cuda.empty_cache()


def forget():
    for cached in (logits_of, token_of, linear_of):
        cached.cache_clear()
    torch._dynamo.reset()
    give_back_memory()


# --- work: each returns a function of a number that counts the calls ----------------------------------------

def logp_and_entropy(logits, token):
    logp = torch.log_softmax(logits.float(), -1)
    return logp.gather(-1, token[:, None])[:, 0], -(logp.exp() * logp).sum(-1)


def logp_entropy_and_kl(logits, reference, token):
    logp, other = torch.log_softmax(logits.float(), -1), torch.log_softmax(reference.float(), -1)
    p = logp.exp()
    return logp.gather(-1, token[:, None])[:, 0], -(p * logp).sum(-1), (p * (logp - other)).sum(-1)


def without_gradient(function, *inputs):
    compiled = torch.compile(function, dynamic=False)

    def work(call):
        with torch.no_grad():
            compiled(*(x[call % len(x)] for x in inputs))
    return work


def forward(kind, n, vocab):
    return without_gradient(logp_and_entropy, logits_of(kind, n, vocab, "policy"), [token_of(n, vocab)])


def kl(kind, n, vocab):
    return without_gradient(logp_entropy_and_kl, logits_of(kind, n, vocab, "policy"),
                            logits_of(kind, n, vocab, "reference"), [token_of(n, vocab)])


def backward(kind, n, vocab):
    logits, token = logits_of(kind, n, vocab, "policy"), token_of(n, vocab)
    compiled = torch.compile(logp_and_entropy, dynamic=False)
    with torch._functorch.config.patch(donated_buffer=False):  # allows several gradients
        results = [compiled(x, token) for x in logits]
    gradients = normal("float32", n), normal("float32", n)
    count = len(logits)
    return lambda call: torch.autograd.grad(results[call % count], logits[call % count], gradients,
                                            retain_graph=True)


def unfused_loss(x, w, token, old_logp, advantage):
    logp = torch.log_softmax((x @ w.T).float(), -1).gather(-1, token[:, None])[:, 0]
    ratio = (logp - old_logp).exp()
    return -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()


def loss_and_gradients(loss, x, w):
    return lambda call: torch.autograd.grad(loss(), (x, w))


def eager(*sizes):
    inputs = linear_of(*sizes)
    return loss_and_gradients(lambda: unfused_loss(*inputs), *inputs[:2])


def unfused(*sizes):
    inputs = linear_of(*sizes)
    compiled = torch.compile(unfused_loss, dynamic=False)
    return loss_and_gradients(lambda: compiled(*inputs), *inputs[:2])


def liger_cross_entropy(*sizes):
    from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss
    x, w, token, _, _ = linear_of(*sizes)
    loss = LigerFusedLinearCrossEntropyLoss()
    return loss_and_gradients(lambda: loss(w, x, token), x, w)


def liger_grpo(kind, n, width, vocab):
    """The tokens belong to up to 16 sequences with one advantage each, which it computes one by one."""
    from liger_kernel.chunked_loss import LigerFusedLinearGRPOLoss
    x, w, token, old_logp, advantage = linear_of(kind, n, width, vocab)
    sequences = math.gcd(n, 16)
    loss = LigerFusedLinearGRPOLoss(beta=0.0, use_ref_model=False, loss_type="bnpo")
    mask = torch.ones(sequences, n // sequences, device=device)
    return loss_and_gradients(
        lambda: loss(x.view(sequences, -1, width), w, token.view(sequences, -1), mask, advantage[:sequences],
                     old_per_token_logps=old_logp.view(sequences, -1))[0], x, w)


def gpt2(kind, batch, length):
    """Seconds per token of training steps of GPT-2 124M, compiled; bfloat16: by autocast."""
    import transformers
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=on_gpu)
    data = torch.randint(50257, (batch, length + 1), device=device)

    @torch.compile(dynamic=False)
    def loss_of(ids):
        with torch.autocast(device, torch.bfloat16, enabled=kind == "bfloat16"):
            logits = model(ids[:, :-1]).logits
        return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())

    def step(call):
        optimizer.zero_grad()
        loss_of(data).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
    return step


WORK = {"gpt2": gpt2, "forward": forward, "backward": backward, "kl": kl, "eager": eager, "unfused": unfused,
        "liger-cross-entropy": liger_cross_entropy, "liger-grpo": liger_grpo}


# --- answers ------------------------------------------------------------------------------------------------

def seconds_of(work, calls):
    """Seconds per call."""
    if not on_gpu:
        start = time.perf_counter()
        for call in range(calls):
            work(call)
        return (time.perf_counter() - start) / calls
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for call in range(calls):
        work(call)
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e-3 / calls


def bytes_of(work):
    """The most bytes that one call holds, including its results."""
    if not on_gpu:
        return 0
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work(0)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def prepare(name, sizes):
    """The work, the number of calls to time, and the bytes that it holds."""
    work = WORK[name](*sizes)
    for call in range(3):
        work(call)
    calls = 1 + int(SECONDS / seconds_of(work, 3))
    if len(sizes) < 4:
        return work, calls, 0
    gradients = sum(x.nbytes for x in linear_of(*sizes)[:2])
    return work, calls, max(bytes_of(work) - gradients, 0)


def measured(prepared, name, sizes):
    if name not in prepared:
        prepared[name] = prepare(name, sizes)
    work, calls, size = prepared[name]
    tokens = sizes[1] * sizes[2] if name == "gpt2" else 1  # its answer is per token
    return f"{seconds_of(work, calls) / tokens:.12f} {size}"


def answer(lines):
    prepared, last = {}, None
    for line in lines:
        name, kind, *numbers = line.split()
        sizes = (kind, *map(int, numbers))
        if sizes != last:
            prepared, last = {}, sizes
            forget()
        try:
            yield measured(prepared, name, sizes)
        except Exception as error:
            print(f"{line.strip()}: {error!r}", file=sys.stderr)
            give_back_memory()
            yield f"{type(error).__name__}, see build/cuda/peers.log"


if on_gpu and not torch.cuda.is_available():
    sys.exit("this PyTorch finds no GPU")
torch.manual_seed(1)
print(versions(), file=answers, flush=True)
for line in answer(sys.stdin):
    print(line, file=answers, flush=True)
