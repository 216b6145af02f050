"""Writes teach.h: behaviour cloning by PyTorch, the losses after each of some epochs of a single batch.

    pip install numpy torch
    python make_teach.py

Everything is computed in float64 from numbers that are float32.
"""
import math

import numpy as np
import torch

from golden import Header, r32

torch.set_default_dtype(torch.float64)
STEPS, OBS, HIDDEN, EPOCHS, GAMMA, RATE, CLIP, ENTROPY = 12, 3, 4, 5, .9, .02, .5, .05
TERMINATED, TRUNCATED = [4], [7]  # the last episode is unfinished
rng = np.random.default_rng(3)
out = Header("make_teach.py", "See there what the numbers are.", ["torch", "numpy"])
out.case("Recorded play, and the weights before: actor.0, actor.1, critic.0, critic.1, each weight and bias.",
         teach_steps=STEPS, teach_obs_size=OBS, teach_hidden=HIDDEN, teach_epochs=EPOCHS)
obs, reward = r32(rng.normal(size=(STEPS, OBS))), r32(rng.normal(size=STEPS))
out.array("float", "teach_obs", obs)
out.array("float", "teach_reward", reward)
gamma, rate, clip, entropy_coef = (float(np.float32(x)) for x in (GAMMA, RATE, CLIP, ENTROPY))


def layers(outputs):
    sizes = [(OBS, HIDDEN), (HIDDEN, outputs), (OBS, HIDDEN), (HIDDEN, 1)]
    return [x for a, b in sizes for x in (r32(.7 * rng.normal(size=(a, b))), r32(.1 * rng.normal(size=b)))]


def mlp(p, x):
    return torch.tanh(x @ p[0] + p[1]) @ p[2] + p[3]


def adam(params):
    return torch.optim.Adam(params, lr=rate, betas=(float(np.float32(.9)), float(np.float32(.999))),
                            eps=float(np.float32(1e-5)))


def step(optimizer, params, loss):
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(params, clip, error_if_nonfinite=True)
    optimizer.step()


def clone(name, outputs, log_std, logp_entropy):
    """Losses of the policy before each epoch and after the last, and those of the critic."""
    weights = layers(outputs)
    out.array("float", "teach_%s_weights" % name, np.concatenate([w.ravel() for w in weights]))
    p = [torch.tensor(w, requires_grad=True) for w in weights]
    std = torch.zeros(log_std, requires_grad=True) if log_std else None
    x = torch.tensor(obs)
    trained = p[:4] + ([std] if log_std else [])
    optimizer, losses = adam(trained), []
    for epoch in range(EPOCHS + 1):
        logp, entropy = logp_entropy(mlp(p[:4], x), std)
        losses.append(float(-logp.detach().mean()))
        step(optimizer, trained, -logp.mean() - entropy_coef * entropy.mean())
    out.array("float", "teach_%s_loss" % name, losses)

    def targets():
        v, g = mlp(p[4:], x)[:, 0].detach(), torch.zeros(STEPS)
        for i in reversed(range(STEPS)):
            cut = i in TRUNCATED or i == STEPS - 1
            g[i] = v[i] if cut else reward[i] + (0 if i in TERMINATED else gamma * g[i + 1])
        return v, g

    v, g = targets()
    with torch.no_grad():
        p[7] += (g - v).mean()
    optimizer, losses = adam(p[4:]), []
    for epoch in range(EPOCHS + 1):
        v, g = targets()
        losses.append(float(.5 * ((v - g) ** 2).mean()))
        step(optimizer, p[4:], .5 * ((mlp(p[4:], x)[:, 0] - g) ** 2).mean())
    out.array("float", "teach_%s_value_loss" % name, losses)


SIZES = [3, 2]
mask = (rng.random((STEPS, sum(SIZES))) < .7).astype(int)
mask[:, 1] = mask[:, 4] = 1  # something is always legal
choices = np.array([[rng.choice(np.flatnonzero(m[:3])), rng.choice(np.flatnonzero(m[3:]))] for m in mask])
out.array("unsigned char", "teach_mask", mask)
out.array("int", "teach_choices", choices)


def choice(logits, _):
    logits = torch.where(torch.tensor(mask, dtype=torch.bool), logits, torch.tensor(-1e8))
    heads = [torch.distributions.Categorical(logits=z) for z in (logits[:, :3], logits[:, 3:])]
    return (sum(h.log_prob(torch.tensor(choices[:, j])) for j, h in enumerate(heads)), sum(h.entropy() for h in heads))


clone("choices", 5, 0, choice)
box = r32(rng.uniform(0, 10, size=(STEPS, 2)))
box[0] = [0, 10]  # at the bounds
out.array("float", "teach_box", box)
scaled = torch.tensor((box - 5) / 5)


def gaussian(mean, log_std, u):
    d = torch.distributions.Normal(mean, log_std.exp())
    return d.log_prob(u).sum(1), d.entropy().sum(1)


clone("scaled", 2, 2, lambda mean, std: gaussian(mean, std, scaled))

clamp = float(np.float32(.995))
u = torch.atanh(scaled.clamp(-clamp, clamp))
nodes, weights = np.polynomial.hermite_e.hermegauss(80)
nodes, weights = torch.tensor(nodes), torch.tensor(weights / math.sqrt(2 * math.pi))


def log_det(u):  # of 5 + 5 tanh(u)
    return (math.log(5) + 2 * (math.log(2) - u.abs() - torch.log1p(torch.exp(-2 * u.abs())))).sum(1)


def squashed(mean, log_std):
    """The entropy has no closed form: Gauss-Hermite quadrature."""
    logp, entropy = gaussian(mean, log_std, u)
    points = mean[:, :, None] + log_std.exp()[:, None] * nodes
    more = 5 * (1 - torch.tanh(points) ** 2)
    return logp - log_det(u), entropy + (torch.log(more.clamp_min(1e-300)) * weights).sum(2).sum(1)


clone("squashed", 2, 2, squashed)
out.save("teach.h")
