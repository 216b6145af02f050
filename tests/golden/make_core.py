"""Writes core.h: inputs and expected outputs of the numeric core, computed by libraries that are not ours.

    pip install numpy==2.4.6 torch==2.15.0 gymnasium==1.4.0 stable-baselines3==2.9.2 \
                trl==0.11.4 transformers==4.46.3
    python make_core.py

TRL 0.11 is the last release line whose PPO is made of functions that can be called alone (masked_whiten,
AdaptiveKLController, PPOTrainer.loss); later ones dropped them.

Every input and every hyperparameter is first rounded to float32; the references then compute in float64 from
those same numbers, and the results are rounded to float32 once. So a difference seen by a test is the error
of the tested code. Seeds are fixed per case: a new case does not change the others.
"""
import warnings
from types import SimpleNamespace

import gymnasium
import numpy as np
import torch
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.utils import explained_variance
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from torch.distributions import Categorical, Normal, kl_divergence

from golden import Header, r32

warnings.filterwarnings("ignore")   # chatter of the libraries about each other's versions
from trl import DPOTrainer          # noqa: E402
from trl.core import masked_whiten  # noqa: E402
from trl.trainer.ppo_trainer import AdaptiveKLController, PPOTrainer  # noqa: E402

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)


def hyper(x):
    """A hyperparameter as the C code gets it: a float."""
    return float(np.float32(x))


def leaf(x):
    return torch.tensor(x, requires_grad=True)


def grads(loss, *leaves):
    return torch.autograd.grad(loss, leaves, retain_graph=True)


# ---------------------------------------------------------------------------------------------- advantages

def gae_reference(reward, value, next_value, terminated, truncated, gamma, lam):
    """Schulman 2016 with the two ends of an episode kept apart, in plain float64 NumPy."""
    done = np.maximum(terminated, truncated)
    advantage, last = np.zeros_like(reward), np.zeros(reward.shape[1])
    for t in reversed(range(len(reward))):
        delta = reward[t] + gamma * (1 - terminated[t]) * next_value[t] - value[t]
        last = advantage[t] = delta + gamma * lam * (1 - done[t]) * last
    return advantage, advantage + value


def gae_sb3(reward, value, last_value, terminated, gamma, lam):
    """SB3 knows one flag only (the next step starts an episode): comparable where nothing is truncated."""
    steps, envs = reward.shape
    box = gymnasium.spaces.Box(-1, 1, (1,))
    buffer = RolloutBuffer(steps, box, box, "cpu", lam, gamma, envs)
    buffer.rewards, buffer.values = reward, value
    buffer.episode_starts = np.concatenate([np.zeros((1, envs)), terminated[:-1]])
    buffer.advantages = np.zeros_like(reward)
    buffer.compute_returns_and_advantage(torch.tensor(last_value), terminated[-1].astype(bool))
    return buffer.advantages, buffer.returns


def gae(h, rng):
    steps, envs = 9, 3
    reward, value, next_value = (r32(rng.normal(size=(steps, envs))) for _ in range(3))
    terminated, truncated = np.zeros((2, steps, envs))
    terminated[2, 0] = truncated[5, 0] = 1     # one of each within one column
    truncated[0, 1] = terminated[8, 1] = 1     # at the first and at the last step
    truncated[3, 2] = terminated[4, 2] = 1     # one after the other: an episode of one step
    terminated[7, 2] = truncated[7, 2] = 1     # both at once: terminated decides
    ends = (terminated + truncated) > 0        # within an episode next_value[t] is value[t+1]
    next_value[:-1] = np.where(ends[:-1], next_value[:-1], value[1:])
    gamma = hyper(0.99)
    h.case("gae: terminated and truncated mixed, by the formulas in float64; _td lambda 0, _mc lambda 1",
           gae_steps=steps, gae_envs=envs)
    h.value("float", "gae_gamma", gamma)
    h.value("float", "gae_lambda", 0.95)
    h.floats("gae", reward=reward, value=value, next_value=next_value)
    h.array("unsigned char", "gae_terminated", terminated)
    h.array("unsigned char", "gae_truncated", truncated)
    for suffix, lam in ("", hyper(0.95)), ("_td", 0.0), ("_mc", 1.0):
        a, target = gae_reference(reward, value, next_value, terminated, truncated, gamma, lam)
        h.floats("gae", **{"advantage" + suffix: a, "value_target" + suffix: target})

    next_value = np.concatenate([value[1:], r32(rng.normal(size=(1, envs)))])
    a, target = gae_sb3(reward, value, next_value[-1], terminated, gamma, hyper(0.95))
    ours = gae_reference(reward, value, next_value, terminated, 0 * truncated, gamma, hyper(0.95))
    assert np.allclose(a, ours[0]) and np.allclose(target, ours[1])
    h.case("gae_sb3: g_gae_reward, _value and _terminated again, nothing truncated, by SB3's RolloutBuffer")
    h.floats("gae_sb3", next_value=next_value, advantage=a, value_target=target)


def whiten(h, rng):
    """TRL divides by sqrt(var + 1e-8), ppo_whiten by std + 1e-8: the same to 1e-8 at a variance near 1."""
    n = 37
    x = r32(3 + 2 * rng.normal(size=n))
    mask = (rng.random(n) < 0.7).astype(float)
    h.case("whiten: by TRL's masked_whiten. _shift: mean 0; _keep: the mean is added back (shift_mean 0). "
           "_masked: statistics over unmasked entries only, masked entries hold the input", whiten_n=n)
    h.floats("whiten", x=x)
    h.array("unsigned char", "whiten_mask", mask)
    for suffix, m in ("", np.ones(n)), ("_masked", mask):
        for kind, shift in ("_shift", True), ("_keep", False):
            y = masked_whiten(torch.tensor(x), torch.tensor(m), shift_mean=shift).numpy()
            sub = x[m > 0]
            own = (sub - sub.mean()) / (sub.std(ddof=1) + 1e-8) + (0 if shift else sub.mean())
            assert np.abs(y[m > 0] - own).max() < 1e-7
            h.floats("whiten", **{kind[1:] + suffix: np.where(m > 0, y, x)})


# -------------------------------------------------------------------------------------------------- losses

OBJECTIVES = [  # kind (0 clip, 1 KL penalty, 2 unclipped), clip_low, clip_high, dual_clip (0: none), kl_coef
    (0, 0.2, 0.2, 0.0, 0.0), (0, 0.2, 0.28, 0.0, 0.0), (0, 0.2, 0.2, 3.0, 0.0),
    (1, 0.2, 0.2, 0.0, 0.5), (2, 0.2, 0.2, 0.0, 0.0)]


def surrogate(logp, old_logp, adv, kind, low, high, dual, coef):
    """Per sample: Schulman 2017 eq. 7 and 8 (KL by the k3 estimator), Ye 2020 for the dual clip."""
    r = torch.exp(logp - old_logp)
    if kind == 1:
        return -r * adv + coef * (r - 1 - (logp - old_logp))
    if kind == 2:
        return -r * adv
    gain = torch.min(r * adv, torch.clamp(r, 1 - low, 1 + high) * adv)
    return -torch.where(adv < 0, torch.max(gain, dual * adv), gain) if dual else -gain


def trl_losses(logp, old_logp, adv, value, old_value, target, mask, clip, clip_value):
    config = SimpleNamespace(cliprange=clip, cliprange_value=clip_value, vf_coef=1.0, ratio_threshold=1e9)
    logits = np.zeros((len(mask), 2))              # only for its entropy statistic
    args = old_logp, old_value, logits, value, logp, mask, adv, target
    policy, val, _ = PPOTrainer.loss(SimpleNamespace(config=config), *map(torch.as_tensor, args))
    return policy.item(), val.item()


def policy_and_value_loss(h, rng):
    n = 37
    old_logp = r32(rng.uniform(-3, -0.1, n))
    diff, adv = 0.25 * rng.normal(size=n), rng.normal(size=n)
    diff[:9] = 0, 3, 3, -3, -3, 0.5, 1.5, 0.1, 0       # the ratio exactly 1; far out on both sides
    adv[:9] = 1.5, -10, 2, -2, 2, 0, -4, 0, -1         # with either sign of the advantage; and 0
    logp, adv = r32(old_logp + diff), r32(adv)
    logp[[0, 8]] = old_logp[[0, 8]]
    mask = (rng.random(n) < 0.75).astype(float)
    mask[[0, 1, 3]], mask[[2, 36]] = 1, 0
    ratio = np.exp(logp - old_logp)
    assert min(np.abs(ratio - edge).min() for edge in (0.8, 1.2, 1.28, 3.0)) > 1e-4   # none on a knife's edge

    names = "loss clip_fraction approx_kl old_approx_kl ratio_mean ratio_max grad_logp"
    rows = {name: [] for name in names.split()}
    for kind, *par in OBJECTIVES:
        low, high, dual, coef = (hyper(p) for p in par)
        for m in np.ones(n), mask:
            x, on = leaf(logp), m > 0
            per = surrogate(x, torch.tensor(old_logp), torch.tensor(adv), kind, low, high, dual, coef)
            loss = per[on].mean()
            r, d = ratio[on], (logp - old_logp)[on]
            rows["loss"].append(loss.item())
            rows["clip_fraction"].append(np.mean((r < 1 - low) | (r > 1 + high)))
            rows["approx_kl"].append(np.mean(r - 1 - d))
            rows["old_approx_kl"].append(np.mean(-d))
            rows["ratio_mean"].append(r.mean())
            rows["ratio_max"].append(r.max())
            rows["grad_logp"].append(grads(loss, x)[0].numpy())
    h.case("policy: row 2*i+j of every result is objective i, j = 0 without mask, 1 with it. Columns of "
           "_objective: kind (0 clip, 1 KL penalty, 2 unclipped), clip_low, clip_high, dual_clip (0: none), "
           "kl_coef. clip_fraction: share of unmasked with ratio < 1-low or > 1+high, whatever the kind. By "
           "torch autograd; row 0 and 1 also checked against TRL's PPOTrainer.loss",
           policy_n=n, policy_objectives=len(OBJECTIVES))
    h.floats("policy", logp=logp, old_logp=old_logp, advantage=adv, objective=OBJECTIVES)
    h.array("unsigned char", "policy_mask", mask)
    h.floats("policy", **rows)

    old_value, target = r32(rng.normal(size=n)), r32(rng.normal(size=n))
    value = r32(old_value + 0.3 * rng.normal(size=n))
    value[0] = old_value[0]
    clip, vrows = hyper(0.2), {"loss": [], "grad": []}
    assert np.abs(np.abs(value - old_value) - clip).min() > 1e-4
    for clip_range in 0.0, clip:
        for m in np.ones(n), mask:
            v, on, old, tgt = leaf(value), m > 0, torch.tensor(old_value), torch.tensor(target)
            per = (v - tgt) ** 2
            if clip_range:
                per = torch.max(per, (torch.clamp(v, old - clip_range, old + clip_range) - tgt) ** 2)
            loss = 0.5 * per[on].mean()
            vrows["loss"].append(loss.item())
            vrows["grad"].append(grads(loss, v)[0].numpy())
    for j, m in enumerate((np.ones(n), mask)):
        policy_trl, value_trl = trl_losses(logp, old_logp, adv, value, old_value, target, m, clip, clip)
        assert np.isclose(policy_trl, rows["loss"][j]) and np.isclose(value_trl, vrows["loss"][2 + j])
    h.case("value: 0.5 * mean squared error. Rows: plain, plain masked, clipped, clipped masked. By torch "
           "autograd; the clipped rows also checked against TRL's PPOTrainer.loss. The mask is g_policy_mask",
           value_n=n)
    h.value("float", "value_clip_range", clip)
    h.floats("value", value=value, old_value=old_value, target=target, **vrows)


def kl_estimate(h, rng):
    logp = r32(rng.uniform(-4, -0.1, 12))
    ref = r32(logp + rng.normal(size=12))
    ref[:5] = r32(logp[:5] + [0, 1e-3, -1e-3, 10, -10])
    l = ref - logp
    h.case("kl: Schulman's estimators in float64, l = ref_logp - logp: k1 = -l, k2 = l^2/2, k3 = exp(l) - 1 "
           "- l (expm1, so that k3 keeps its digits near l = 0)", kl_n=12)
    h.floats("kl", logp=logp, ref_logp=ref, k1=-l, k2=l * l / 2, k3=np.expm1(l) - l)


def dpo(h, rng):
    """TRL's DPOTrainer, loss_type sigmoid. Two pairs have a margin that overflows exp in float32."""
    n = 11
    chosen, rejected, ref_chosen, ref_rejected = (r32(-30 + 8 * rng.normal(size=n)) for _ in range(4))
    chosen[0], rejected[0] = ref_chosen[0], ref_rejected[0]     # the first step: margin 0
    rejected[1], chosen[2] = -1030, -1030                       # beta * margin near +100 and -100
    beta = hyper(0.1)
    h.case("dpo: by TRL's DPOTrainer.dpo_loss, mean over pairs; _0: label_smoothing 0, _1: 0.1", dpo_n=n)
    h.value("float", "dpo_beta", beta)
    h.floats("dpo", chosen=chosen, rejected=rejected, ref_chosen=ref_chosen, ref_rejected=ref_rejected)
    for suffix, smooth in ("_0", 0.0), ("_1", hyper(0.1)):
        trainer = SimpleNamespace(accelerator=SimpleNamespace(device="cpu"), reference_free=False, beta=beta,
                                  label_smoothing=smooth, loss_type="sigmoid", f_divergence_type="reverse_kl")
        c, r = leaf(chosen), leaf(rejected)
        ref = torch.tensor(ref_chosen), torch.tensor(ref_rejected)
        loss = DPOTrainer.dpo_loss(trainer, c, r, *ref)[0].mean()
        gc, gr = grads(loss, c, r)
        h.value("float", "dpo_loss" + suffix, loss.item())
        h.floats("dpo", **{"grad_chosen" + suffix: gc, "grad_rejected" + suffix: gr})


def pairwise(h, rng):
    c, r = leaf(r32(rng.normal(size=11))), leaf(r32(rng.normal(size=11)))
    with torch.no_grad():
        c[0], r[0], c[1], r[1], c[2] = 60, -60, -60, 60, r[2]   # margins +120, -120, 0
    loss = -torch.nn.functional.logsigmoid(c - r).mean()
    gc, gr = grads(loss, c, r)
    h.case("pairwise: -logsigmoid(chosen - rejected), mean over pairs, by torch autograd", pairwise_n=11)
    h.value("float", "pairwise_loss", loss.item())
    h.floats("pairwise", chosen=c, rejected=r, grad_chosen=gc, grad_rejected=gr)


# ------------------------------------------------------------------------------------------- distributions

def token_case(h, rng, name, logits, token, temperatures=(1.0, 0.7)):
    n, vocab = logits.shape
    w1, w2 = r32(rng.normal(size=n)), r32(rng.normal(size=n))
    h.case("%s: logits [n][vocab]; grad of sum(w1*logp + w2*entropy) with respect to the undivided logits; "
           "_t07 with temperature 0.7"% name, **{name + "_n": n, name + "_vocab": vocab})
    h.array("int", name + "_token", token)
    h.floats(name, logits=logits, w1=w1, w2=w2)
    for t in temperatures:
        x = leaf(logits)
        d = Categorical(logits=x / hyper(t))
        logp, entropy = d.log_prob(torch.tensor(token)), d.entropy()
        g, = grads((torch.tensor(w1) * logp + torch.tensor(w2) * entropy).sum(), x)
        suffix = "" if t == 1.0 else "_t07"
        h.floats(name, **{"logp" + suffix: logp, "entropy" + suffix: entropy, "grad" + suffix: g})


def token_logp(h, rng):
    token_case(h, rng, "tok_small", r32(2 * rng.normal(size=(5, 37))), np.array([0, 36, 7, 15, 15]))
    # Rows: spread over +-80; all equal to 80; one +80 among -80, another one chosen (logp -160); ordinary.
    big = np.stack([np.round(rng.uniform(-80, 80, 1000) * 4) / 4, np.full(1000, 80.0), np.full(1000, -80.0),
                    np.round(3 * rng.normal(size=1000) * 8) / 8])
    big[2, 500] = 80
    token_case(h, rng, "tok_big", big, np.array([int(big[0].argmax()), 999, 0, 123]))
    token_case(h, rng, "tok_two", r32(3 * rng.normal(size=(6, 2))), np.array([0, 1, 0, 1, 1, 0]))
    masked = r32(rng.normal(size=(4, 6)))
    masked[0, [1, 4]], masked[1, :5], masked[2, 0] = -1e8, -1e8, -1e8      # row 1 has one valid action left
    token_case(h, rng, "tok_masked", masked, np.array([0, 5, 3, 2]))


def categorical_kl(h, rng):
    p, q = r32(2 * rng.normal(size=(6, 7))), r32(2 * rng.normal(size=(6, 7)))
    q[0] = p[0]
    p[1] += 70                                     # a shift of all logits changes nothing
    p[1] = r32(p[1])
    p[2, 3], q[2, 3] = -1e8, -1e8                  # an invalid action in both
    p[3] = 20 * np.sign(p[3])                      # near-certain
    h.case("cat_kl: KL(p || q) of each row, from logits, by torch.distributions", cat_kl_n=6, cat_kl_k=7)
    kl = kl_divergence(Categorical(logits=torch.tensor(p)), Categorical(logits=torch.tensor(q)))
    h.floats("cat_kl", p=p, q=q, kl=kl)


def gaussian(h, rng):
    n, dim = 7, 3
    mean, log_std = leaf(r32(rng.normal(size=(n, dim)))), leaf(r32([-2.0, 0.0, 0.7]))
    action = r32(mean.detach().numpy() + np.exp(log_std.detach().numpy()) * rng.normal(size=(n, dim)))
    action[0] = mean.detach().numpy()[0]           # at the mode
    w1, w2 = r32(rng.normal(size=n)), r32(rng.normal(size=n))
    d = Normal(mean, log_std.exp())
    logp, entropy = d.log_prob(torch.tensor(action)).sum(-1), d.entropy().sum(-1)
    gm, gs = grads((torch.tensor(w1) * logp + torch.tensor(w2) * entropy).sum(), mean, log_std)
    mean_q, log_std_q = r32(rng.normal(size=(n, dim))), r32([-1.5, 0.25, 0.0])
    kl = kl_divergence(d, Normal(torch.tensor(mean_q), torch.tensor(log_std_q).exp())).sum(-1)
    h.case("gauss: diagonal, summed over dims, log_std shared by the rows; gradients of sum(w1*logp + "
           "w2*entropy); _kl: KL(this || q) of each row. By torch.distributions", gauss_n=n, gauss_dim=dim)
    h.floats("gauss", mean=mean, log_std=log_std, action=action, w1=w1, w2=w2, logp=logp, entropy=entropy,
             grad_mean=gm, grad_log_std=gs, mean_q=mean_q, log_std_q=log_std_q, kl=kl)


# ----------------------------------------------------------------------------------------------- optimizer

def clip_grad_norm(h, rng):
    x = r32(rng.normal(size=37))
    h.case("clip_norm: by torch.nn.utils.clip_grad_norm_, which scales by max_norm / (norm + 1e-6); the "
           "second max_norm is above the norm: nothing changes", clip_norm_n=37)
    results = []
    for max_norm in 0.5, 100.0:
        p = torch.zeros(37, requires_grad=True)
        p.grad = torch.tensor(x)
        norm = torch.nn.utils.clip_grad_norm_([p], max_norm)
        results.append(p.grad.numpy())
    h.floats("clip_norm", grad=x, max_norm=[0.5, 100.0], result=results)
    h.value("float", "clip_norm_norm", norm)


def adam(h, rng):
    n, steps = 37, 5
    param = r32(rng.normal(size=n))
    grad = rng.normal(size=(steps, n))
    grad[:, 0], grad[1:, 1] = 0, 0                                  # never a gradient; only once
    grad[:, 2] *= 1e3
    grad[:, 3] *= 1e-5                                              # where eps matters
    grad = r32(grad)
    lr, betas, eps = hyper(3e-3), (hyper(0.9), hyper(0.999)), hyper(1e-5)
    h.case("adam: lr 3e-3, betas 0.9 0.999, eps 1e-5, by torch.optim.Adam; adamw: weight_decay 0.01, by "
           "torch.optim.AdamW. _param: after each step, _m and _v: after the last",
           adam_n=n, adam_steps=steps)
    h.floats("adam", start=param, grad=grad)
    for name, make in (("adam", lambda p: torch.optim.Adam(p, lr, betas, eps)),
                       ("adamw", lambda p: torch.optim.AdamW(p, lr, betas, eps, weight_decay=hyper(0.01)))):
        p, after = leaf(param), []
        opt = make([p])
        for g in grad:
            p.grad = torch.tensor(g)
            opt.step()
            after.append(p.detach().numpy().copy())
        state = opt.state[p]
        h.floats(name, param=after, m=state["exp_avg"], v=state["exp_avg_sq"])


def adaptive_kl(h, rng):
    rows = [(0.2, 6.0, 6.0, 256, 10000), (0.2, 6.5, 6.0, 256, 10000), (0.2, 5.0, 6.0, 256, 10000),
            (0.2, 60.0, 6.0, 256, 10000), (0.2, 0.0, 6.0, 256, 10000), (0.05, -1.0, 0.5, 64, 1000),
            (1.5, 0.55, 0.5, 1000, 1000)]
    after = []
    for coef, observed, target, n_steps, horizon in rows:
        controller = AdaptiveKLController(hyper(coef), hyper(target), horizon)
        controller.update(hyper(observed), n_steps)
        after.append(controller.value)
    coef, observed, target, n_steps, horizon = zip(*rows)
    h.case("adaptive_kl: by TRL's AdaptiveKLController (Ziegler 2019)", adaptive_kl_n=len(rows))
    h.floats("adaptive_kl", coef=coef, observed=observed, target=target, result=after)
    h.array("int", "adaptive_kl_n_steps", n_steps)
    h.array("int", "adaptive_kl_horizon", horizon)


# --------------------------------------------------------------------------------------------- normalizers

def running_mean(h, rng):
    batches, rows, dim = 4, 5, 3
    x = r32(rng.normal(size=(batches, rows, dim)) * [1.0, 0.01, 1.0] + [0.0, -3.0, 1000.0])
    rms, mean, var, count = RunningMeanStd(shape=(dim,)), [], [], []
    for batch in x:
        rms.update(batch)
        mean.append(rms.mean.copy()), var.append(rms.var.copy()), count.append(rms.count)
    seen = [x[:i + 1].reshape(-1, dim) for i in range(batches)]
    h.case("rms: after each batch of [rows][dim]. _mean, _var, _count: SB3's RunningMeanStd, which starts "
           "from mean 0, variance 1 and a count of 1e-4, not 0 (it shows: column 2, mean near 1000, variance"
           " near 1). _plain_mean, _plain_var: population moments of all rows seen, by NumPy",
           rms_batches=batches, rms_rows=rows, rms_dim=dim)
    h.floats("rms", x=x, mean=mean, var=var, count=count,
             plain_mean=[s.mean(0) for s in seen], plain_var=[s.var(0) for s in seen])


class Script(gymnasium.Env):
    """Plays back given observations, rewards and episode ends; row 0 of obs is the first reset."""

    def __init__(self, obs, reward, done):
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, obs.shape[1:])
        self.action_space = gymnasium.spaces.Discrete(2)
        self.obs, self.reward, self.done, self.t = obs.astype(np.float32), reward, done, 0

    def reset(self, *, seed=None, options=None):
        return self.obs[self.t], {}

    def step(self, action):
        self.t += 1    # on done the vector env resets at once, and reset shows this same obs[t]
        return self.obs[self.t], float(self.reward[self.t - 1]), bool(self.done[self.t - 1]), False, {}


def vec_normalize(h, rng):
    steps, envs, dim = 60, 2, 2
    obs = r32(rng.normal(size=(steps + 1, envs, dim)) * [1.0, 5.0] + [0.0, 20.0])
    reward, done = r32(rng.normal(size=(steps, envs)) + 0.5), rng.random((steps, envs)) < 0.1
    obs[58, 0, 0], reward[57, 1], reward[59, 0] = 500, 4000, -50000   # far enough out to be clipped
    gamma = hyper(0.99)
    scripts = [lambda i=i: Script(obs[:, i], reward[:, i], done[:, i]) for i in range(envs)]
    venv = VecNormalize(DummyVecEnv(scripts), gamma=gamma)     # SB3's defaults: clip 10, epsilon 1e-8
    seen, scaled = [venv.reset()], []
    for _ in range(steps):
        o, r, _, _ = venv.step(np.zeros(envs))
        seen.append(o), scaled.append(r)
    assert np.abs(scaled).max() == 10 and np.abs(seen).max() == 10
    h.case("vecnorm: SB3's VecNormalize, gamma 0.99, epsilon 1e-8, clip 10, statistics updated before use, "
           "running return set to 0 after a done. obs[0] is the reset; after a done obs is that of the new "
           "episode. _ret_var: variance of the discounted returns at the end (initial count 1e-4 as in rms)",
           vecnorm_steps=steps, vecnorm_envs=envs, vecnorm_dim=dim)
    h.array("unsigned char", "vecnorm_done", done)
    h.floats("vecnorm", obs=obs, reward=reward, obs_out=seen, reward_out=scaled)
    h.value("float", "vecnorm_ret_var", venv.ret_rms.var)


def explained(h, rng):
    target = r32(5 + rng.normal(size=37))
    value = r32(np.stack([target + 0.3 * rng.normal(size=37), target + 2 * rng.normal(size=37), target,
                          0 * target + 3]))
    h.case("ev: SB3's explained_variance of 4 predictions: good, worse than a constant, perfect, a constant;"
           " (for a constant target SB3 answers NaN)", ev_n=37, ev_rows=4)
    h.floats("ev", target=target, value=value, result=[explained_variance(v, target) for v in value])


# -------------------------------------------------------------------------------------------- actor-critic

def net(act, *sizes):
    layers = []
    for i, o in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(i, o), act()]
    return torch.nn.Sequential(*layers[:-1])


def flat(actor, log_std, critic, of):
    """Our order: each layer (in, out) row-major, then its bias; actor, log_std if any, critic."""
    def layers(n):
        return [t for l in n if hasattr(l, "weight") for t in (of(l.weight).T.reshape(-1), of(l.bias))]
    return torch.cat(layers(actor) + [of(p) for p in log_std] + layers(critic)).detach().numpy().copy()


def mlp_case(h, rng, name, act, out, continuous):
    n, obs_dim, hidden = 7, 5, (8, 6)
    actor, critic = net(act, obs_dim, *hidden, out), net(act, obs_dim, *hidden, 1)
    log_std = [torch.nn.Parameter(torch.zeros(out))] if continuous else []
    params = [*actor.parameters(), *log_std, *critic.parameters()]
    with torch.no_grad():
        for p in params:
            p.copy_(torch.tensor(r32(0.5 * rng.normal(size=tuple(p.shape)))))
    obs = r32(rng.normal(size=(n, obs_dim)))
    action = r32(rng.normal(size=(n, out))) if continuous else rng.integers(0, out, n)
    adv, target, old_value = (r32(rng.normal(size=n)) for _ in range(3))

    def policy():
        head = actor(torch.tensor(obs))
        d = Normal(head, log_std[0].exp()) if continuous else Categorical(logits=head)
        logp, entropy = d.log_prob(torch.tensor(action)), d.entropy()
        return head, *((logp.sum(-1), entropy.sum(-1)) if continuous else (logp, entropy))

    def total():
        head, logp, entropy = policy()
        value = critic(torch.tensor(obs))[:, 0]
        clip = hyper(0.2)
        parts = [surrogate(logp, torch.tensor(old_logp), torch.tensor(adv), 0, clip, clip, 0, 0).mean(),
                 0.5 * ((value - torch.tensor(target)) ** 2).mean(), entropy.mean()]
        return parts[0] + 0.5 * parts[1] - hyper(0.01) * parts[2], parts, head, value, logp, entropy

    old_logp = r32(policy()[1].detach().numpy() + np.linspace(-0.5, 0.5, n))   # some ratios out of range
    old_logp[n // 2] = r32(policy()[1].detach().numpy()[n // 2])
    start, (loss, parts, head, value, logp, entropy) = flat(actor, log_std, critic, lambda p: p), total()
    loss.backward()
    grad = flat(actor, log_std, critic, lambda p: p.grad)

    opt, norms, losses = torch.optim.Adam(params, lr=hyper(3e-4), eps=hyper(1e-5),
                                          betas=(hyper(0.9), hyper(0.999))), [], []
    for _ in range(3):
        opt.zero_grad()
        step_loss = total()[0]
        step_loss.backward()
        losses.append(step_loss.item())
        norms.append(torch.nn.utils.clip_grad_norm_(params, 0.5).item())
        opt.step()
    assert min(norms) > 0.5    # the clipping bites
    h.case("%s: separate actor and critic, %s, head: %s. Flat parameters: each layer (in, out) row-major "
           "[i*out+o], then its bias; actor, %scritic. total = clip(0.2) policy loss + 0.5 * value loss (0.5"
           " * mse, unclipped) - 0.01 * mean entropy; _parts: policy loss, value loss, mean entropy, total. "
           "Then three steps on the same batch: norm clipped to 0.5, Adam lr 3e-4, eps 1e-5; _step_loss and "
           "_step_norm before each step, _params_after. By torch"
           % (name, act.__name__, "mean of a diagonal Gaussian" if continuous else "logits",
              "log_std, " if continuous else ""),
           **{name + "_n": n, name + "_obs_dim": obs_dim, name + "_h0": hidden[0], name + "_h1": hidden[1],
              name + "_out": out, name + "_params_n": start.size})
    h.array("float" if continuous else "int", name + "_action", action)
    h.floats(name, params=start, obs=obs, old_logp=old_logp, old_value=old_value, advantage=adv,
             value_target=target, head=head, value=value, logp=logp, entropy=entropy,
             parts=[p.item() for p in (*parts, loss)], grad=grad, step_loss=losses, step_norm=norms,
             params_after=flat(actor, log_std, critic, lambda p: p))


def mlp(h, rng):
    mlp_case(h, rng, "mlp", torch.nn.Tanh, 3, False)
    mlp_case(h, rng, "mlpc", torch.nn.ReLU, 2, True)


# -------------------------------------------------------------------------------------------------- random

PHILOX = """
00000000 00000000 00000000 00000000 00000000 00000000   6627e8d5 e169c58d bc57ac4c 9b00dbd8
ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff   408f276d 41c83b0e a20bc7c6 6d5451fd
243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0   d16cfe09 94fdcceb 5001e420 24126ea1
"""


def philox4x32_10(c, k):
    """Salmon 2011, to check that the vectors were copied without a slip."""
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def philox(h, rng):
    rows = [[int(w, 16) for w in line.split()] for line in PHILOX.strip().split("\n")]
    for row in rows:
        assert philox4x32_10(row[:4], row[4:6]) == row[6:]
    h.case("philox: known answers of Philox4x32-10 from the Random123 distribution (tests/kat_vectors)",
           philox_n=3)
    h.array("unsigned int", "philox_counter", [r[:4] for r in rows])
    h.array("unsigned int", "philox_key", [r[4:6] for r in rows])
    h.array("unsigned int", "philox_out", [r[6:] for r in rows])


CASES = [philox, token_logp, categorical_kl, gaussian, gae, whiten, policy_and_value_loss, kl_estimate, dpo,
         pairwise, clip_grad_norm, adam, adaptive_kl, running_mean, vec_normalize, explained, mlp]

if __name__ == "__main__":
    header = Header("make_core.py",
                    "Arrays are flat, row-major; the comment after the brace gives the shape.",
                    ["numpy", "torch", "stable-baselines3", "trl"])
    for case in CASES:
        case(header, np.random.default_rng(list(case.__name__.encode())))
    header.save("core.h")
