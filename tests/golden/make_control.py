"""Writes control.h: inputs and expected outputs of what policies are made of beyond make_core.py: several
choices at once, squashing, state-dependent exploration, exact KL divergences, the Huber loss, a GRU.

    pip install numpy==2.4.6 torch==2.15.0 gymnasium==1.4.0 stable-baselines3==2.9.2
    python make_control.py

As in make_core.py, every input is rounded to float32 and the references compute in float64 from those
numbers, so a difference seen by a test is the error of the tested code.
"""
import numpy as np
import torch
from stable_baselines3.common.distributions import StateDependentNoiseDistribution
from torch.distributions import (AffineTransform, Bernoulli, Categorical, Independent, Normal, TanhTransform,
                                 TransformedDistribution, kl_divergence)
from torch.nn.utils.rnn import pack_padded_sequence

from golden import Header, r32

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)


def leaf(x):
    return torch.tensor(x, requires_grad=True)


def grads(loss, *leaves):
    return torch.autograd.grad(loss, leaves, retain_graph=True)


def weights(rng, n):
    return r32(rng.normal(size=n))


# ------------------------------------------------------------------------------------------- distributions

def heads_of(logits, sizes):
    return [Categorical(logits=part) for part in torch.split(torch.as_tensor(logits), sizes, dim=-1)]


def multi(h, rng):
    sizes, n, illegal = [3, 5, 2], 8, -1e8
    p, q = r32(2 * rng.normal(size=(n, 10))), r32(2 * rng.normal(size=(n, 10)))
    for row, cols in (4, [0, 2, 3, 8]), (5, [1, 3, 4, 5, 6]):      # one or several are left in each choice
        p[row, cols] = q[row, cols] = illegal
    p[6], q[6] = r32(30 * p[6]), r32(30 * q[6])
    p[7], q[7] = 300 * np.sign(p[7]), 300 * np.sign(q[7])      # some equal, the others too rare for a float
    action = np.array([[rng.integers(s) for s in sizes] for _ in range(n)])
    action[4], action[5] = [1, 1, 1], [2, 4, 0]
    w1, w2, w3 = (weights(rng, n) for _ in range(3))
    z, new = leaf(p), leaf(q)
    parts = heads_of(z, sizes)
    logp = sum(d.log_prob(torch.tensor(action[:, i])) for i, d in enumerate(parts))
    entropy = sum(d.entropy() for d in parts)
    kl = sum(kl_divergence(a, b) for a, b in zip(heads_of(p, sizes), heads_of(new, sizes)))
    h.case("multi: logits p and q [n][3 + 5 + 2] of three choices at once; rows 4 and 5 have illegal ones at "
           "-1e8, rows 6 and 7 are extreme. _grad of sum(w1 logp + w2 entropy) by p, _kl = KL(p || q) and "
           "_kl_grad of sum(w3 kl) by q. By torch's Categorical", multi_n=n, multi_heads=3, multi_cols=10)
    h.array("int", "multi_sizes", sizes)
    h.array("int", "multi_action", action)
    h.floats("multi", p=p, q=q, w1=w1, w2=w2, w3=w3, logp=logp, entropy=entropy, kl=kl,
             grad=grads((torch.tensor(w1) * logp + torch.tensor(w2) * entropy).sum(), z)[0],
             kl_grad=grads((torch.tensor(w3) * kl).sum(), new)[0])


def binary(h, rng):
    n, bits = 4, 6
    p, q = r32(2 * rng.normal(size=(n, bits, 2))), r32(2 * rng.normal(size=(n, bits, 2)))
    action = rng.integers(2, size=(n, bits))
    d, e = (Independent(Bernoulli(logits=torch.tensor(z[..., 1] - z[..., 0])), 1) for z in (p, q))
    h.case("binary: n bits, logits [n][bits][2]; by torch's Bernoulli of the difference", binary_n=n,
           binary_bits=bits)
    h.array("int", "binary_action", action)
    h.floats("binary", p=p, q=q, logp=d.log_prob(torch.tensor(action, dtype=torch.float64)),
             entropy=d.entropy(), kl=kl_divergence(d, e))


def normal(mean, log_std):
    return Independent(Normal(mean, log_std.exp()), 1)


def gaussian_rows(h, rng):
    n, dim = 6, 3
    mean, log_std, action, old_mean, old_log_std = (r32(rng.normal(size=(n, dim))) for _ in range(5))
    shared = r32(0.5 * rng.normal(size=(1, dim)))
    old_mean[0], old_log_std[0] = mean[0], log_std[0]               # KL 0
    mean[1], log_std[1], old_log_std[1] = r32(old_mean[1] + 3), -1, 1  # far away
    w1, w2, w3 = (weights(rng, n) for _ in range(3))
    m, s, row = leaf(mean), leaf(log_std), leaf(shared)
    logp, entropy = normal(m, s).log_prob(torch.tensor(action)), normal(m, s).entropy()
    old = normal(torch.tensor(old_mean), torch.tensor(old_log_std))
    kl, kl_shared = kl_divergence(old, normal(m, s)), kl_divergence(old, normal(m, row))
    h.case("rows: diagonal Gaussians with a log_std row per sample. _grad_mean, _grad_log_std of sum(w1 logp "
           "+ w2 entropy); _kl = KL(old || new), _kl_grad_mean, _kl_grad_log_std of sum(w3 kl); _shared: the "
           "new policy has one log_std row (1, dim) for all. By torch's Normal", rows_n=n, rows_dim=dim)
    by_logp = grads((torch.tensor(w1) * logp + torch.tensor(w2) * entropy).sum(), m, s)
    by_kl = grads((torch.tensor(w3) * kl).sum(), m, s)
    by_shared = grads((torch.tensor(w3) * kl_shared).sum(), m, row)
    h.floats("rows", mean=mean, log_std=log_std, action=action, old_mean=old_mean, old_log_std=old_log_std,
             shared=shared, w1=w1, w2=w2, w3=w3, logp=logp, entropy=entropy, grad_mean=by_logp[0],
             grad_log_std=by_logp[1], kl=kl, kl_grad_mean=by_kl[0], kl_grad_log_std=by_kl[1],
             kl_shared=kl_shared, kl_shared_grad_mean=by_shared[0], kl_shared_grad_log_std=by_shared[1])


def squash(h, rng):
    low, high, dim = -2.0, 3.0, 2
    u = r32(rng.normal(size=(9, dim)))
    u[2:] = [[0, 0], [3, -3], [9, 0.5], [20, -20], [50, -50], [-20, 1], [0.25, 50]]
    mean, log_std = r32(u + rng.normal(size=u.shape)), r32(0.5 * rng.normal(size=dim))
    w = weights(rng, len(u))
    m, s, x = leaf(mean), leaf(log_std), torch.tensor(u)
    # the caches hand u back, where tanh alone could not: tanh(20) is 1 in any precision
    steps = [TanhTransform(cache_size=1), AffineTransform((low + high) / 2, (high - low) / 2, cache_size=1)]
    action = steps[1](steps[0](x))
    one = TransformedDistribution(Normal(m, s.exp()), steps)
    logp = one.log_prob(action).sum(-1)
    by = grads((torch.tensor(w) * logp).sum(), m, s)
    h.case("squash: u [n][dim] squashed into [-2, 3]; _logp of the action, with _grad_mean, _grad_log_std of "
           "sum(w logp). By torch's TransformedDistribution of a Normal, TanhTransform and AffineTransform",
           squash_n=len(u), squash_dim=dim)
    h.floats("squash", u=u, mean=mean, log_std=log_std, w=w, action=action, logp=logp, grad_mean=by[0],
             grad_log_std=by[1])


def sde(h, rng):
    """A policy of one hidden layer, whose features decide about the exploration, too."""
    n, size, features, dim = 6, 3, 7, 2
    obs, w1, w2 = r32(rng.normal(size=(n, size))), weights(rng, n), weights(rng, n)
    shapes = (size, features), (features,), (features, dim), (dim,), (features, dim)
    start = [r32(0.7 * rng.normal(size=shape)) for shape in shapes]
    start[4][:, 1] -= 5                  # variances near to SB3's epsilon of 1e-6
    w, b, v, c, log_std = theta = [leaf(x) for x in start]
    latent = torch.tanh(torch.tensor(obs) @ w + b)
    mean = latent @ v + c
    d = StateDependentNoiseDistribution(dim, full_std=True, use_expln=False, learn_features=False)
    d.proba_distribution_net(features, features)
    d.proba_distribution(mean, log_std, latent)
    std = d.distribution.scale.detach().numpy()
    action = r32(mean.detach().numpy() + std * rng.normal(size=(n, dim)))
    logp, entropy = d.log_prob(torch.tensor(action)), d.entropy()
    by = grads((torch.tensor(w1) * logp + torch.tensor(w2) * entropy).sum(), *theta)
    h.case("sde: a tanh layer of features and a linear mean, with standard deviations that depend on the "
           "features; _grad_... of sum(w1 logp + w2 entropy). By SB3's StateDependentNoiseDistribution",
           sde_n=n, sde_obs=size, sde_features=features, sde_dim=dim)
    names = "hidden_weight hidden_bias head_weight head_bias log_std".split()
    h.floats("sde", seen=obs, action=action, w1=w1, w2=w2, **dict(zip(names, start)), mean=mean, std=std,
             logp=logp, entropy=entropy, **{"grad_" + name: g for name, g in zip(names, by)})


# -------------------------------------------------------------------------------------------------- losses

def huber(h, rng):
    n, clip_range = 14, 0.3
    target, value = r32(2 * rng.normal(size=n)), r32(2 * rng.normal(size=n))
    old_value = r32(value + 0.5 * rng.normal(size=n))
    value[0], target[0] = 50, -50
    old_value[0], value[1] = 50.125, target[1]
    mask = np.arange(n) % 3 != 2
    h.case("huber: rows of _loss and _grad: delta 0.5 and 2, each without and with the mask, plain and then "
           "with clip_range 0.3, the larger of both losses per sample; by torch's HuberLoss", huber_n=n)
    losses, slopes = [], []
    for delta in 0.5, 2.0:
        each = torch.nn.HuberLoss(reduction="none", delta=delta)
        for clip in False, True:
            for on in np.ones(n, bool), mask:
                v, t, o = leaf(value), torch.tensor(target), torch.tensor(old_value)
                loss = each(v, t)
                if clip:
                    r = float(np.float32(clip_range))
                    loss = torch.max(loss, each(o + torch.clamp(v - o, -r, r), t))
                loss = loss[torch.tensor(on)].mean()
                losses.append(loss.item())
                slopes.append(grads(loss, v)[0].numpy())
    h.floats("huber", value=value, old_value=old_value, target=target, loss=losses, grad=np.array(slopes))
    h.array("unsigned char", "huber_mask", mask)


# ----------------------------------------------------------------------------------------------------- GRU

def gru(h, rng):
    """A batch of sequences, the longest first, packed by time as pack_padded_sequence() does."""
    size, width, lengths = 3, 9, [7, 5, 5, 2, 1]
    net = torch.nn.GRU(size, width)
    for p in net.parameters():
        p.data = torch.tensor(r32(0.7 * rng.normal(size=p.shape)))
    padded, h0 = r32(rng.normal(size=(7, 5, size))), r32(rng.normal(size=(5, width)))
    w = np.zeros((7, 5, width))
    start = np.zeros((7, 5), int)
    start[2, 0] = start[3, 0] = start[4, 1] = start[0, 2] = start[1, 3] = 1
    for k, length in enumerate(lengths):
        w[:length, k] = r32(rng.normal(size=(length, width)))
        assert not start[length:, k].any()

    def pack(x):
        return pack_padded_sequence(torch.as_tensor(x), lengths).data

    def whole(x):
        return net(pack_padded_sequence(x, lengths), torch.tensor(h0)[None])[0].data

    def restarted(x):                    # every episode is a sequence of its own
        out = []
        for k, length in enumerate(lengths):
            cuts = sorted({0, length} | {t for t in range(length) if start[t, k]})
            rows = [net(x[a:b, k], (torch.zeros(width) if start[a, k] else torch.tensor(h0[k]))[None])[0]
                    for a, b in zip(cuts, cuts[1:])]
            out.append(torch.cat(rows + [torch.zeros(7 - length, width)]))
        return pack(torch.stack(out, 1))

    names = "weight_ih_l0 bias_ih_l0 weight_hh_l0 bias_hh_l0".split()
    h.case("gru: 5 sequences of 7, 5, 5, 2 and 1 steps, packed by time; _count of those that have a step t. "
           "Weights are (in, 3 width), the transpose of torch's. _out of torch.nn.GRU from states h0, "
           "_grad_... of sum(w out); _start: the same with episodes that begin inside, each run alone",
           gru_in=size, gru_width=width, gru_steps=7, gru_sequences=5, gru_rows=sum(lengths))
    h.array("int", "gru_count", [sum(length > t for length in lengths) for t in range(7)])
    h.array("unsigned char", "gru_start", pack(start))
    h.floats("gru", x=pack(padded), h0=h0, w=pack(w),
             **dict(zip(["input_weight", "input_bias", "state_weight", "state_bias"],
                        [getattr(net, name).detach().numpy().T for name in names])))
    for suffix, run in ("", whole), ("_start", restarted):
        x = leaf(padded)
        out = run(x)
        by = grads((pack(w) * out).sum(), x, *[getattr(net, name) for name in names])
        h.floats("gru", **{"out" + suffix: out, "grad_x" + suffix: pack(by[0]),
                           "grad_input_weight" + suffix: by[1].T, "grad_input_bias" + suffix: by[2],
                           "grad_state_weight" + suffix: by[3].T, "grad_state_bias" + suffix: by[4]})


CASES = [multi, binary, gaussian_rows, squash, sde, huber, gru]

if __name__ == "__main__":
    header = Header("make_control.py",
                    "Arrays are flat, row-major; the comment after the brace gives the shape.",
                    ["numpy", "torch", "stable-baselines3"])
    for case in CASES:
        case(header, np.random.default_rng(list(case.__name__.encode())))
    header.save("control.h")
